"""Talks and prompts as ids, and which of them count, as the packages transformers (5) and tokenizers make them:
tests/golden/talks.

    pip install transformers tokenizers
    python talk_cases.py OUT_DIR

tokenizer.json and tokenizer_config.json are a small byte-level BPE with the tokens of a chat; NAME.jinja is a template;
cases.jsonl has a line for each case: {"template", "line", "ids", "marks"}. The marks of templates with generation blocks
are those of apply_chat_template(…, return_assistant_tokens_mask=True). For the others they are made of the renderings:
the tokens of the whole behind those of the turns before with the prompt of an answer, up to those of the turn itself.
Those of completions are made of the ids of the prompt alone and of both together, as TRL's SFTTrainer does."""

import json
import os
import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

WORDS = ["What is the capital of France? Paris is the capital of France.", "The sum of 12 and 30 is 42.",
         "Übung macht den Meister, n'est-ce pas?", "for (int i = 0; i < n; i++) sum += a[i];", "Hello! How are you?"]
BLOCKS = """{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.role == 'assistant' %}{% generation %}{{ m.content }}<|im_end|>{% endgeneration %}{% else %}{{ m.content }}\
<|im_end|>{% endif %}

{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
PLAIN = """{% if tools %}<|im_start|>system
{{ tools | tojson }}<|im_end|>
{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content | trim }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
# A turn runs into the text around it, without tokens of its own.
BARE = """{% for m in messages %}{% if m.role == 'user' %} [INST] {{ m.content }} [/INST]{% else %} {{ m.content }}\
{{ eos_token }}{% endif %}{% endfor %}"""


def turn(role, content, **more):
    return {"role": role, "content": content, **more}


TALKS = [
    [turn("user", "Hello!"), turn("assistant", "Hello! How are you?")],
    [turn("user", "12 and 30?"), turn("assistant", "42."), turn("user", "Größer, 日本?"), turn("assistant", "déjà vu 😀 ")],
    [turn("user", "a"), turn("assistant", "b", weight=0), turn("user", "c"), turn("assistant", "the capital", weight=1)],
    [turn("user", "for"), turn("assistant", "int"), turn("user", "i"), turn("assistant", " = 0; "), turn("user", "x")],
]
SYSTEM = [turn("system", "The Meister."), turn("user", "capital of France"), turn("assistant", "Paris\n\nis")]
TEXTS = [("What is the capital of France?", " Paris"), ("The sum of 12", " and 30 is 42."), ("", "Hello!"),
         ("x = ", "日本"), ("a\n", "\nb")]


def make_tokenizer():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=360, special_tokens=["<s>", "</s>", "<|im_start|>", "<|im_end|>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    t.train_from_iterator(WORDS, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=t, bos_token="<s>", eos_token="</s>")


def counts(message):
    return message["role"] == "assistant" and message.get("weight", 1) != 0


def marks_of_blocks(t, template, messages, **more):
    made = t.apply_chat_template(messages, chat_template=template, tokenize=True, return_dict=True,
                                 return_assistant_tokens_mask=True, **more)
    return made["input_ids"], made["assistant_masks"]


def marks_of_turns(t, template, messages, first=0, **more):
    def ids(part, prompt):
        return t.apply_chat_template(part, chat_template=template, tokenize=True, return_dict=True,
                                     add_generation_prompt=prompt, **more)["input_ids"]
    whole = ids(messages, False)
    marks = [0] * len(whole)
    for i, message in enumerate(messages):
        if i < first or not counts(message):
            continue
        before, after = ids(messages[:i], True), ids(messages[:i + 1], False)
        assert whole[:len(after)] == after and after[:len(before)] == before
        marks[len(before):len(after)] = [1] * (len(after) - len(before))
    return whole, marks


def all_cases(t):
    for messages in TALKS + [SYSTEM]:
        if all(m.get("weight", 1) for m in messages):  # transformers knows no weights
            yield "blocks", {"messages": messages}, *marks_of_blocks(t, BLOCKS, messages)
        yield "plain", {"messages": messages}, *marks_of_turns(t, PLAIN, messages)
        if messages[0]["role"] != "system":
            yield "bare", {"messages": messages}, *marks_of_turns(t, BARE, messages)
    names = {"user": "human", "assistant": "gpt", "system": "system"}
    other = [{"from": names[m["role"]], "value": m["content"]} for m in SYSTEM]
    yield "blocks", {"conversations": other, "id": 7}, *marks_of_blocks(t, BLOCKS, SYSTEM)
    tools = [{"type": "function", "function": {"name": "sum", "parameters": {}}}]
    yield "plain", {"messages": SYSTEM, "tools": tools}, *marks_of_turns(t, PLAIN, SYSTEM, tools=tools)
    yield "plain", {"prompt": TALKS[1][:3], "completion": TALKS[1][3:]}, *marks_of_turns(t, PLAIN, TALKS[1], 3)
    for prompt, completion in TEXTS:
        first, whole = t(prompt)["input_ids"], t(prompt + completion + t.eos_token)["input_ids"]
        assert whole[:len(first)] == first
        yield None, {"prompt": prompt, "completion": completion}, whole, [int(i >= len(first)) for i in range(len(whole))]


def main(folder):
    os.makedirs(folder, exist_ok=True)
    t = make_tokenizer()
    t.backend_tokenizer.save(os.path.join(folder, "tokenizer.json"))
    for name, text in ("blocks", BLOCKS), ("plain", PLAIN), ("bare", BARE):
        with open(os.path.join(folder, name + ".jinja"), "w", encoding="utf-8") as file:
            file.write(text)
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as file:
        json.dump({"bos_token": "<s>", "eos_token": "</s>"}, file)
    with open(os.path.join(folder, "cases.jsonl"), "w", encoding="utf-8") as file:
        for template, line, ids, marks in all_cases(t):
            case = {"template": template, "line": line, "ids": list(ids), "marks": [int(m) for m in marks]}
            file.write(json.dumps(case, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
