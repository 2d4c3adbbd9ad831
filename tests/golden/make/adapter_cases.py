"""Adapters that PEFT trains, beside a model of tests/golden/hf.

usage: adapter_cases.py OUT SEED BASE FOLDER [SETTINGS]     (python with torch, transformers 5, peft, safetensors; one thread)
       adapter_cases.py --check BASE FOLDER CASE            whether PEFT gives the logits of a case with a FOLDER that qkv has written

BASE is the folder of a published model, which is read in float32. Writes OUT/FOLDER/:
  start/, end/          the adapter before the first step and after the last, as PEFT's save_pretrained writes it
  case.safetensors      in.ids (STEPS,B,T), in.targets (STEPS,B,T): the batch of each step
                        out.losses (STEPS): the mean cross-entropy of each step, before its update
                        out.logits (B,T,V): of the first batch, with the adapter at the end
SETTINGS are arguments of LoraConfig as JSON. The optimizer is torch's AdamW with the settings below, without clipping.

Cases of experts: transformers 5 has those of a layer in one tensor (mixtral, gpt_oss, granitemoe: target_parameters),
transformers 4 each as a module. mixtral_modules and qwen2_moe are made with transformers 4.57 and a BASE whose
config.json is config.legacy.json."""
import json
import os
import sys
os.environ['HF_HUB_OFFLINE'] = '1'
import numpy as np
import peft
import safetensors.numpy
import torch
import transformers

STEPS, BATCHES, B, T = 20, 4, 3, 10 # the batches come again and again
RATE, BETAS, EPS, DECAY = 1e-2, (0.9, 0.99), 1e-8, 0.05


def main(out, seed, base, folder, settings='{}'):
    torch.set_num_threads(1)
    torch.manual_seed(int(seed))
    config = json.load(open(os.path.join(base, 'config.json')))
    kind = getattr(transformers, config['architectures'][0])
    model = kind.from_pretrained(base, dtype=torch.float32).eval()
    model = peft.get_peft_model(model, peft.LoraConfig(**json.loads(settings))).eval()
    model.peft_config['default'].base_model_name_or_path = os.path.basename(base)
    out = os.path.join(out, folder)
    save(model, os.path.join(out, 'start'))
    random = np.random.default_rng(int(seed))
    ids, targets = (np.tile(random.integers(3, config['vocab_size'], (BATCHES, B, T)).astype(np.int32), (STEPS // BATCHES, 1, 1))
                    for _ in range(2))
    learn = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(learn, lr=RATE, betas=BETAS, eps=EPS, weight_decay=DECAY)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        logits = model(input_ids=torch.tensor(ids[step]).long()).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.tensor(targets[step]).long().flatten())
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
    save(model, os.path.join(out, 'end'))
    with torch.no_grad():
        logits = model(input_ids=torch.tensor(ids[0]).long()).logits.numpy()
    safetensors.numpy.save_file({'in.ids': ids, 'in.targets': targets, 'out.losses': np.array(losses), 'out.logits': logits},
                                os.path.join(out, 'case.safetensors'))
    print(folder, 'losses', losses[0], losses[-1])


def check(base, folder, case):
    config = json.load(open(os.path.join(base, 'config.json')))
    model = getattr(transformers, config['architectures'][0]).from_pretrained(base, dtype=torch.float32).eval()
    model = peft.PeftModel.from_pretrained(model, folder).eval()
    file = safetensors.numpy.load_file(os.path.join(case, 'case.safetensors'))
    with torch.no_grad():
        logits = model(input_ids=torch.tensor(file['in.ids'][0]).long()).logits.numpy()
    error = np.linalg.norm(logits - file['out.logits']) / np.linalg.norm(file['out.logits'])
    print(folder, 'error', error)
    return error < 1e-5


def save(model, folder):
    model.save_pretrained(folder)
    os.remove(os.path.join(folder, 'README.md'))
    os.chmod(os.path.join(folder, 'adapter_model.safetensors'), 0o644)


if __name__ == '__main__':
    if sys.argv[1] == '--check':
        sys.exit(not check(*sys.argv[2:]))
    main(*sys.argv[1:])
