"""Steps of learning from preferences (DPO, IPO), in float64: tests/golden/preferences.

    pip install torch transformers tokenizers safetensors
    python preference_cases.py OUT_DIR

`model` is a small GPT-2 with the tokenizer and a template of tests/golden/talks, in fp32. pairs.jsonl has the lines;
cases.json has for each loss the losses and the norms of the gradients of some steps of gradient descent over all lines.
The formulas are those of the papers (Rafailov et al. 2023; Azar et al. 2023, with means over the tokens of an answer as
in TRL; Mitchell 2023 for smoothing), and all derivatives are PyTorch's."""

import copy
import json
import os
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from talk_cases import PLAIN, make_tokenizer, marks_of_turns, turn

STEPS, RATE = 4, 0.05
LINES = [
    {"prompt": "The sum of 12", "chosen": " and 30 is 42.", "rejected": " and 30 is 12"},
    {"prompt": "What is the capital of France?", "chosen": " Paris", "rejected": " What is it? The capital."},
    {"prompt": "for (int i = 0;", "chosen": " i < n; i++)", "rejected": " n"},
    {"prompt": [turn("user", "Hello!")], "chosen": [turn("assistant", "Hello! How are you?")],
     "rejected": [turn("assistant", "a")]},
    {"prompt": [turn("user", "12?")], "chosen": [turn("assistant", "12")],
     "rejected": [turn("assistant", "30."), turn("user", "n"), turn("assistant", "Meister")]},
]
CASES = [{"loss": "dpo", "beta": 0.5, "smoothing": 0}, {"loss": "dpo", "beta": 0.1, "smoothing": 0.2},
         {"loss": "ipo", "beta": 0.25, "smoothing": 0}]


def make_model(seed, width, layers):
    torch.manual_seed(seed)
    config = GPT2Config(vocab_size=360, n_positions=64, n_embd=width, n_layer=layers, n_head=4, resid_pdrop=0,
                        embd_pdrop=0, attn_pdrop=0, bos_token_id=0, eos_token_id=1)
    model = GPT2LMHeadModel(config)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(4) if p.ndim > 1 else p.add_(0.1 * torch.randn_like(p))
    return model


def encode(t, prompt, answer):
    if isinstance(prompt, str):
        first, whole = t(prompt)["input_ids"], t(prompt + answer + t.eos_token)["input_ids"]
        return whole, [int(i >= len(first)) for i in range(len(whole))]
    return marks_of_turns(t, PLAIN, prompt + answer, len(prompt))


def log_probability(model, sequence, mean):
    ids, marks = torch.tensor(sequence[0]), torch.tensor(sequence[1][1:], dtype=torch.float64)
    scores = model(ids[None, :-1]).logits[0].log_softmax(-1)
    each = scores.gather(1, ids[1:, None])[:, 0] * marks
    return each.sum() / (marks.sum() if mean else 1)


def loss_of(case, policy, reference, pairs):
    losses, mean = [], case["loss"] == "ipo"
    for chosen, rejected in pairs:
        with torch.no_grad():
            fixed = log_probability(reference, chosen, mean) - log_probability(reference, rejected, mean)
        margin = log_probability(policy, chosen, mean) - log_probability(policy, rejected, mean) - fixed
        if mean:
            losses.append((margin - 1 / (2 * case["beta"])) ** 2)
        else:
            e, x = case["smoothing"], case["beta"] * margin
            sigmoid = torch.nn.functional.logsigmoid
            losses.append(-(1 - e) * sigmoid(x) - e * sigmoid(-x))
    return sum(losses) / len(losses)


def descend(model, loss):
    """Steps of gradient descent: losses and norms of the gradients."""
    losses, norms = [], []
    for _ in range(STEPS):
        model.zero_grad()
        value = loss()
        value.backward()
        with torch.no_grad():
            norms.append(sum(p.grad.square().sum() for p in model.parameters()).sqrt().item())
            for p in model.parameters():
                p -= RATE * p.grad
        losses.append(value.item())
    return {"losses": losses, "norms": norms}


def main(folder):
    t, model = make_tokenizer(), make_model(1, 32, 2)
    model.save_pretrained(os.path.join(folder, "model"))
    t.backend_tokenizer.save(os.path.join(folder, "model", "tokenizer.json"))
    with open(os.path.join(folder, "model", "tokenizer_config.json"), "w", encoding="utf-8") as file:
        json.dump({"bos_token": "<s>", "eos_token": "</s>", "chat_template": PLAIN}, file)
    with open(os.path.join(folder, "pairs.jsonl"), "w", encoding="utf-8") as file:
        for line in LINES:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    pairs = [[encode(t, line["prompt"], line[side]) for side in ("chosen", "rejected")] for line in LINES]
    cases = []
    for case in CASES:
        policy = copy.deepcopy(model).double()
        reference = copy.deepcopy(policy)
        cases.append({**case, "rate": RATE, **descend(policy, lambda: loss_of(case, policy, reference, pairs))})
    with open(os.path.join(folder, "cases.json"), "w", encoding="utf-8") as file:
        json.dump(cases, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
