"""Steps of learning from a teacher, in float64: tests/golden/teacher.

    pip install torch transformers tokenizers safetensors
    python teacher_cases.py OUT_DIR

The student is the model of tests/golden/preferences; `model` is the teacher, a wider one of one layer, in fp32.
answers.jsonl has the lines; cases.json has for each temperature and share the losses and the norms of the gradients of
some steps of gradient descent over all lines: (1 − share) times the cross-entropy plus share times
T²·KL(softmax(teacher/T), softmax(student/T)) (Hinton et al. 2015), means over the tokens that count. All derivatives
are PyTorch's."""

import copy
import json
import os
import sys

import torch

from preference_cases import LINES, RATE, descend, encode, make_model
from talk_cases import PLAIN, make_tokenizer

CASES = [{"temperature": 2, "share": 0.5, "smoothing": 0}, {"temperature": 1, "share": 1, "smoothing": 0},
         {"temperature": 0.7, "share": 0.3, "smoothing": 0.1}]


def loss_of(case, student, teacher, sequences):
    total, counted, temperature = 0, 0, case["temperature"]
    for sequence in sequences:
        ids, marks = torch.tensor(sequence[0]), torch.tensor(sequence[1][1:], dtype=torch.float64)
        own = student(ids[None, :-1]).logits[0]
        with torch.no_grad():
            other = teacher(ids[None, :-1]).logits[0]
        hard = torch.nn.functional.cross_entropy(own, ids[1:], reduction="none", label_smoothing=case["smoothing"])
        p, q = (other / temperature).log_softmax(-1), (own / temperature).log_softmax(-1)
        soft = temperature ** 2 * (p.exp() * (p - q)).sum(-1)
        total = total + ((hard * (1 - case["share"]) + soft * case["share"]) * marks).sum()
        counted += marks.sum()
    return total / counted


def main(folder):
    t = make_tokenizer()
    teacher, student = make_model(2, 48, 1), make_model(1, 32, 2)
    teacher.save_pretrained(os.path.join(folder, "model"))
    t.backend_tokenizer.save(os.path.join(folder, "model", "tokenizer.json"))
    with open(os.path.join(folder, "model", "tokenizer_config.json"), "w", encoding="utf-8") as file:
        json.dump({"bos_token": "<s>", "eos_token": "</s>", "chat_template": PLAIN}, file)
    with open(os.path.join(folder, "answers.jsonl"), "w", encoding="utf-8") as file:
        for line in LINES:
            line = {"prompt": line["prompt"], "completion": line["chosen"]}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    sequences = [encode(t, line["prompt"], line["chosen"]) for line in LINES]
    teacher = teacher.double()
    cases = []
    for case in CASES:
        model = copy.deepcopy(student).double()
        cases.append({**case, "rate": RATE, **descend(model, lambda: loss_of(case, model, teacher, sequences))})
    with open(os.path.join(folder, "cases.json"), "w", encoding="utf-8") as file:
        json.dump(cases, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
