"""Golden cases for the bare attention operator, forward and gradients, float64 reference.

usage: golden_attention.py OUT_DIR public [NAME ...]
       golden_attention.py OUT_DIR random SEED COUNT
       golden_attention.py check FILE ...

A case is a file; its metadata holds the attributes of the call and the command that made it."""
import sys, os, json, random, tempfile
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import numpy as np, torch, st
from golden import sdpa, alibi_slopes, difference, run
def make(path, seed, command, B=2, H=4, Hk=2, Tq=6, Tk=6, D=8, Dv=None, causal=False, offset=0, window=0, kv_lengths=False, mask=None, alibi=False, softcap=0.0, scale=None):
    g = np.random.default_rng(seed); Dv = Dv or D; f = lambda *s: g.standard_normal(s).astype(np.float32)
    t = {'in.q': f(B, H, Tq, D), 'in.k': f(B, Hk, Tk, D), 'in.v': f(B, Hk, Tk, Dv), 'in.output_gradient': f(B, H, Tq, Dv)}
    q, k, v = [torch.tensor(t['in.' + n].astype(np.float64), requires_grad=True) for n in 'qkv']
    i, j = torch.arange(Tq)[:, None] + offset, torch.arange(Tk)[None]; allow = torch.ones(1, 1, Tq, Tk, dtype=torch.bool); bias = None
    if causal: allow = allow & (j <= i)
    if window: allow = allow & ((i - j).abs() < window)
    if kv_lengths:
        n = g.integers(1, Tk + 1, B).astype(np.int32); t['in.kv_lengths'] = n; allow = allow & (j[None, None] < torch.tensor(n).view(B, 1, 1, 1))
    if mask and mask.startswith('bool'):
        s = {'bool2': (Tq, Tk), 'bool4': (B, H, Tq, Tk), 'bool3': (B, 1, Tq, Tk)}[mask]; m = g.random(s) < .6; m[..., 0, :] = False   # row 0 sees nothing
        t['in.mask'] = m; allow = allow & torch.tensor(m)
    if mask and mask.startswith('add'):
        s = {'add2': (Tq, Tk), 'add4': (B, H, Tq, Tk), 'add3': (1, H, Tq, Tk)}[mask]; a = f(*s); t['in.bias'] = a; bias = torch.tensor(a.astype(np.float64), requires_grad=True)
    full = bias
    if alibi:
        sl = np.array(alibi_slopes(H), np.float32); t['in.alibi_slopes'] = sl
        al = -torch.tensor(sl.astype(np.float64)).view(H, 1, 1) * (i - j).abs().double(); full = al if bias is None else bias + al
    y, w = sdpa(q, k, v, allow, full, scale, softcap); (y * torch.tensor(t['in.output_gradient'].astype(np.float64))).sum().backward()
    t |= {'out.y': y, 'out.weights': w, 'grad.q': q.grad, 'grad.k': k.grad, 'grad.v': v.grad}
    if bias is not None: t['grad.bias'] = bias.grad
    t = {n: a.detach().numpy().astype(np.float32) if isinstance(a, torch.Tensor) else a for n, a in t.items()}
    os.makedirs(os.path.dirname(path), exist_ok=True)
    st.save(path, t, {'attributes': json.dumps(dict(causal=causal, offset=offset, window=window, softcap=softcap, scale=scale if scale else D ** -.5)), 'command': command})
PUBLIC = dict(mha=dict(Hk=4), gqa=dict(), mqa=dict(Hk=1), causal=dict(causal=True), cross=dict(Tq=5, Tk=11), cross_padding=dict(Tq=5, Tk=11, kv_lengths=True),
 causal_cached=dict(causal=True, Tq=3, Tk=10, offset=7), one_query_cached=dict(causal=True, Tq=1, Tk=10, offset=9, Hk=1), window=dict(causal=True, window=3, Tq=9, Tk=9),
 bidirectional_window=dict(window=2, Tq=9, Tk=9), boolean_empty_rows=dict(mask='bool4'), boolean_shared=dict(mask='bool2', causal=True), boolean_batch=dict(mask='bool3', kv_lengths=True),
 additive=dict(mask='add2'), additive_heads=dict(mask='add3', causal=True), additive_full=dict(mask='add4', softcap=3.0), alibi=dict(alibi=True, causal=True, H=6, Hk=3),
 softcap=dict(softcap=2.0, causal=True), values_wider=dict(D=4, Dv=13), scale=dict(scale=0.5), long=dict(B=1, H=2, Hk=1, Tq=150, Tk=150, D=16, causal=True), long_cross=dict(B=1, H=2, Hk=2, Tq=70, Tk=201, D=12, kv_lengths=True))
def make_public(out, names):
    for n, (k, kw) in enumerate(PUBLIC.items()):
        if not names or k in names: make(f'{out}/{k}.safetensors', 900 + n, f'golden_attention.py OUT_DIR public {k}', **kw)
def make_random(out, seed, count):
    r = random.Random(seed)
    for n in range(count):
        H = r.choice([1, 2, 3, 4, 8]); Tq = r.choice([1, 2, 7, 33, 64, 130]); same = r.random() < .5; Tk = Tq if same else r.choice([3, 17, 64, 129, 200])
        kw = dict(B=r.choice([1, 2, 3]), H=H, Hk=r.choice([x for x in (1, 2, 3, 4, 8) if H % x == 0]), Tq=Tq, Tk=Tk, D=r.choice([1, 3, 8, 16, 40, 64]), Dv=r.choice([None, None, 5, 48]),
                  causal=r.random() < .5, offset=0 if same else max(0, Tk - Tq), window=r.choice([0, 0, 2, 20]), kv_lengths=r.random() < .3, mask=r.choice([None, None, 'bool2', 'bool3', 'bool4', 'add2', 'add3', 'add4']),
                  alibi=r.random() < .3, softcap=r.choice([0.0, 0.0, 2.0, 30.0]), scale=r.choice([None, None, 0.3]))
        make(f'{out}/random_{seed}_{n:03d}.safetensors', seed * 999 + n, f'golden_attention.py OUT_DIR random {seed} {count}', **kw)
def check(path):
    words = st.load(path)[1]['command'].split()
    with tempfile.TemporaryDirectory() as out:
        main([words[0], out] + words[2:])
        return difference(path, os.path.join(out, os.path.basename(path)))
def main(words): return run(words, __doc__, check, make_public, make_random)
if __name__ == '__main__':
    if len(sys.argv) < 3: sys.exit(__doc__)
    sys.exit(main(sys.argv))
