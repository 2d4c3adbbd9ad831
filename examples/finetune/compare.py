#!/usr/bin/env python3
"""Published weights trained by qkv and by PyTorch on the same batches: the losses of both, and by how much they differ.

usage: compare.py QKV TEXT FOLDER MODEL...     (python with torch, transformers 5, safetensors)

A decoder learns the next byte of TEXT, 20 batches of 4 rows of 32 bytes; a model with a case.safetensors of another kind (an encoder
beside a decoder, masked tokens) learns that batch 20 times. Runs go to FOLDER. Prints the rows of the table in README.md; fails where
two losses differ by more than 1e-3."""
import os, sys, json, shutil, subprocess
os.environ.setdefault('OMP_NUM_THREADS', '1'); os.environ['HF_HUB_OFFLINE'] = '1'; os.environ['TRANSFORMERS_VERBOSITY'] = 'error'
import numpy as np, torch, torch.nn.functional as F, transformers
from safetensors.numpy import load_file, save_file
torch.set_num_threads(1); transformers.utils.logging.disable_progress_bar()
STEPS, BATCH, ROW, RATE, BETAS, DECAY, CLIP, MOST = 20, 4, 32, 1e-3, (0.9, 0.99), 0.1, 1.0, 1e-3
SHOWN = (1, 5, 10, 15, 20)

def open_model(folder):
    config = json.load(open(folder + '/config.json'))
    return getattr(transformers, config['architectures'][0]).from_pretrained(folder, dtype=torch.float32, attn_implementation='eager').eval()

def examples(folder, text, out):
    """The safetensors file that both learn from, and how many of its rows are a batch."""
    case = load_file(folder + '/case.safetensors') if os.path.exists(folder + '/case.safetensors') else {}
    config = json.load(open(folder + '/config.json'))
    if 'in.source' in case or 'ForMaskedLM' in config['architectures'][0]: return folder + '/case.safetensors', len(case['in.ids'])
    count = STEPS * BATCH
    bytes_ = np.frombuffer(open(text, 'rb').read(count * ROW + 1), np.uint8).astype(np.int32)
    assert len(bytes_) == count * ROW + 1 and bytes_.max() < config['vocab_size'], text
    save_file({'in.ids': bytes_[:-1].reshape(count, ROW).copy(), 'in.targets': bytes_[1:].reshape(count, ROW).copy()}, out)
    return out, BATCH

def by_qkv(qkv, model, data, batch, run):
    shutil.rmtree(run, ignore_errors=True)
    subprocess.run([qkv, 'train', '--from', model, '--examples', data, '--in-order', '--batch', str(batch), '--steps', str(STEPS), '--schedule', 'constant', '--warmup', '0',
                    '--rate', str(RATE), '--beta1', str(BETAS[0]), '--beta2', str(BETAS[1]), '--weight-decay', str(DECAY), '--clip', str(CLIP), '--valid-fraction', '0',
                    '--precision', 'fp32', '--out', run, '--quiet'], check=True)
    return [json.loads(line)['loss'] for line in open(run + '/log.jsonl')]

def by_pytorch(folder, data, batch):
    model, a = open_model(folder), load_file(data)
    learn = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW([{'params': [p for p in learn if p.ndim > 1], 'weight_decay': DECAY}, {'params': [p for p in learn if p.ndim < 2], 'weight_decay': 0.0}], lr=RATE, betas=BETAS, eps=1e-8)
    losses, rows = [], len(a['in.ids'])
    for step in range(STEPS):
        at = step * batch % rows; part = {k: torch.tensor(v[at:at + batch].astype(np.int64)) for k, v in a.items() if k.startswith('in.')}
        def mask(lengths, ids): return (torch.arange(ids.shape[1])[None] < (part[lengths] if lengths in part else torch.full((batch,), ids.shape[1]))[:, None]).long()
        ids, own = part['in.ids'], mask('in.lengths', part['in.ids'])
        if 'in.source' in part:
            inputs = dict(input_ids=part['in.source'], attention_mask=mask('in.source_lengths', part['in.source']), decoder_input_ids=ids, decoder_attention_mask=own, use_cache=False)
        else: inputs = dict(input_ids=ids, attention_mask=own)
        logits, targets = model(**inputs).logits, part['in.targets'].masked_fill(own == 0, -100)
        loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), ignore_index=-100)
        optimizer.zero_grad(); loss.backward(); torch.nn.utils.clip_grad_norm_(learn, CLIP); optimizer.step(); losses.append(loss.item())
    return losses

if __name__ == '__main__':
    if len(sys.argv) < 5: sys.exit(__doc__)
    qkv, text, out, models = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]; bad = 0
    os.makedirs(out, exist_ok=True)
    print('| model | by | ' + ' | '.join(f'step {s}' for s in SHOWN) + ' | largest difference of 20 |'); print('|---' * (len(SHOWN) + 3) + '|')
    for folder in models:
        name = os.path.basename(folder.rstrip('/'))
        data, batch = examples(folder, text, f'{out}/{name}.safetensors')
        ours, theirs = by_qkv(qkv, folder, data, batch, f'{out}/{name}'), by_pytorch(folder, data, batch)
        assert len(ours) == len(theirs) == STEPS, (len(ours), len(theirs))
        most = max(abs(a - b) for a, b in zip(ours, theirs)); bad += not most <= MOST
        print(f'| {name} | qkv | ' + ' | '.join(f'{ours[s - 1]:.4f}' for s in SHOWN) + f' | {most:.1e} |')
        print('| | PyTorch | ' + ' | '.join(f'{theirs[s - 1]:.4f}' for s in SHOWN) + ' | |', flush=True)
    sys.exit(f'{bad} of {len(models)} differ by more than {MOST:g}' if bad else 0)
