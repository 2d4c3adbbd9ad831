#!/usr/bin/env python3
"""Compares the speed of training on several ranks with PyTorch's DistributedDataParallel over Gloo, on the same model,
batch and cores; the two alternate.

    scripts/peer-ddp.py QKV TEXT [--ranks 2] [--model nano-gpt] [--steps 8] [--turns 2]

QKV is the command, TEXT any text. Needs torch (PyPI) and mpirun. Prints tokens a second of both, medians over turns,
and their ratio. Neither program is tuned: torch has the same number of threads a rank, fused AdamW, and bf16 autocast
if ours trains in bf16."""
import argparse, json, os, socket, statistics, subprocess, sys, tempfile, time

# width, layers, heads, context, batch; the vocabulary is that of the tokenizer that our run trains on the text
MODELS = {
    "nano-gpt": (128, 4, 4, 64, 12),
    "gpt2-small": (768, 12, 12, 512, 4),
}


def ours(a, threads):
    width, layers, heads, context, batch = MODELS[a.model]
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "run")
        words = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(a.ranks), a.qkv, "train", "--preset", a.model,
                 "--data", a.text, "--out", run, "--steps", str(a.steps), "--batch", str(batch), "--warmup", "0", "--eval-every", "0",
                 "--save-every", str(a.steps), "--threads", str(threads), "--precision", a.precision, "--quiet", "--dropout", "0"]
        words += ["--set", f"context={context}", "--accumulate", "1"]
        words += ["--tokenizer", a.tokenizer] if a.tokenizer else []
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "OMP_WAIT_POLICY": "passive"})
        speeds = [line.get("tokens_per_second") for line in map(json.loads, open(os.path.join(run, "log.jsonl")))]
        a.vocab = json.load(open(os.path.join(run, "config.json")))["vocab"]
    speeds = [s for s in speeds if s]
    return statistics.median(speeds[2:] or speeds)


def worker(a):
    import torch, torch.nn as nn, torch.nn.functional as F, torch.distributed as dist
    width, layers, heads, context, batch = MODELS[a.model]
    vocab = a.vocab
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            B, T, C = x.shape
            q, k, v = (t.view(B, T, heads, C // heads).transpose(1, 2) for t in self.qkv(self.n1(x)).split(C, 2))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, T, C)
            x = x + self.out(y)
            return x + self.down(F.gelu(self.up(self.n2(x)), approximate="tanh"))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.token, self.position = nn.Embedding(vocab, width), nn.Embedding(context, width)
            self.blocks, self.norm = nn.ModuleList(Block() for _ in range(layers)), nn.LayerNorm(width)
            self.head = nn.Linear(width, vocab, bias=False)
            self.head.weight = self.token.weight

        def forward(self, ids, targets):
            x = self.token(ids) + self.position.weight[: ids.shape[1]]
            for block in self.blocks:
                x = block(x)
            return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), targets.flatten())

    model = nn.parallel.DistributedDataParallel(GPT())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    each, seconds = batch // ranks, []
    for _ in range(a.steps):
        ids = torch.randint(vocab, (each, context + 1))
        began = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=a.precision == "bf16"):
            loss = model(ids[:, :-1].contiguous(), ids[:, 1:].contiguous())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - began)
    if rank == 0:
        print(json.dumps(each * ranks * context / statistics.median(seconds[2:] or seconds)))
    dist.destroy_process_group()


def theirs(a, threads):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, __file__, a.qkv, a.text, "--worker", "--model", a.model, "--steps", str(a.steps), "--precision", a.precision,
             "--threads", str(threads), "--vocab", str(a.vocab)]
    ranks = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(r),
                                   "WORLD_SIZE": str(a.ranks), "OMP_NUM_THREADS": str(threads)}) for r in range(a.ranks)]
    out = [p.communicate()[0] for p in ranks]
    if any(p.returncode for p in ranks):
        sys.exit("a rank of torch has failed")
    return json.loads(out[0])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("qkv")
    p.add_argument("text")
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--model", choices=MODELS, default="nano-gpt")
    p.add_argument("--steps", type=int, default=8)
    p.add_argument("--turns", type=int, default=2)
    p.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    p.add_argument("--threads", type=int, default=0, help="of a rank; 0: the cores divided among the ranks")
    p.add_argument("--tokenizer", help="for ours; default: the preset's, made of the text")
    p.add_argument("--vocab", type=int, help=argparse.SUPPRESS)
    p.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.worker:
        return worker(a)
    threads = a.threads or max(1, len(os.sched_getaffinity(0)) // a.ranks)
    speeds = {"qkv": [], "torch": []}
    for turn in range(a.turns):
        speeds["qkv"].append(ours(a, threads))
        speeds["torch"].append(theirs(a, threads))
        print(f"{a.model} {a.precision}, {a.ranks} ranks x {threads} threads, turn {turn + 1}: qkv {speeds['qkv'][-1]:.0f} tokens/s, "
              f"torch DDP {speeds['torch'][-1]:.0f} tokens/s", flush=True)
    q, t = (statistics.median(speeds[k]) for k in ("qkv", "torch"))
    print(f"{a.model} {a.precision}: {q / t:.2f} x the tokens/s of torch DDP")


main()
