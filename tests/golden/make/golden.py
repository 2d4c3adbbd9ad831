"""Reference transformer in PyTorch float64, written from the formulas of the papers, and the golden cases made with it.

usage: golden.py OUT_DIR public [NAME ...]               the committed cases, or some of them
       golden.py OUT_DIR random SEED COUNT [AXIS ...]    random specs over the whole grid, of one kind of layer
       golden.py OUT_DIR kinds SEED COUNT [AXIS ...]     random specs of several kinds of layers
       golden.py axes                                    the axes that can be chosen
       golden.py check FOLDER ...                        makes each committed case again by the command that it names, and compares

Without AXIS a few of all axes, -AXIS leaves one out; "core" is what version 1 has and nothing else. A case is a folder: config.json, model.safetensors (weights, f32),
case.safetensors (inputs, outputs, gradients, losses of a few AdamW steps). The metadata of case.safetensors holds the command that made it.
The transformer is in reference.py and positions.py, the specs in cases.py and grid.py. Needs torch and numpy; the library does not."""
import sys, os, json, random, tempfile
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import numpy as np, torch, torch.nn.functional as F
import st
from reference import Ref, sdpa, alibi_slopes, input_of, embed_of, width_of, main_of, both, decays
from cases import PUBLIC, FIRST, SHAPE
from grid import AXES, randspec, randkinds, lay_over
torch.set_num_threads(1)

def positions_of(i, T):
    """how many positions an input gives, and what is drawn for it: shape past the batch"""
    if i['kind'] == 'patches': return i['height'] // i['patch'] * (i['width'] // i['patch']) + i.get('class_token', True), (i.get('channels', 3), i['height'], i['width'])
    if i['kind'] == 'frames': return T, (i.get('channels', 80), 2 * T - T % 2)
    return T, (T, i.get('channels'))
NAMES = {'patches': 'pixels', 'frames': 'features', 'vectors': 'vectors'}
def draw_input(c, spec, side, rng, B, T, lengths, names, ragged):
    """ids, or what else a stack reads, their lengths and types; names: what these are called in the batch"""
    i = input_of(spec, side); ids, of_lengths, of_types = names; T, shape = positions_of(i, T)
    vocab = spec.get('source_vocab', spec['vocab']) if ids == 'source' else spec['vocab']
    if i['kind'] == 'tokens': c[ids] = torch.tensor(rng.integers(0, vocab, (B, T)))
    else: c[NAMES[i['kind']]] = torch.tensor(rng.standard_normal((B, *shape)).astype(np.float32).astype(np.float64))
    if lengths and i['kind'] in ('tokens', 'vectors'): c[of_lengths] = torch.tensor(ragged(T))
    types = embed_of(spec, side).get('types')
    if types and i['kind'] == 'tokens' and rng.random() < 0.8: c[of_types] = torch.tensor(rng.integers(0, types, (B, T)))
    return T
def draw_batch(spec, rng, B, T, S, lengths):
    c, main = {}, main_of(spec)
    T = draw_input(c, spec, main, rng, B, T, lengths, ('ids', 'lengths', 'token_types'), lambda T: [T] + [int(rng.integers(2, T)) for _ in range(B - 1)])
    if both(spec): draw_input(c, spec, 'encoder', rng, B, S, lengths, ('source', 'source_lengths', 'source_token_types'), lambda S: [int(rng.integers(2, S)) for _ in range(B - 1)] + [S])
    h, extra = spec.get('head', {'kind': 'lm'}), None
    if h['kind'] in ('lm', 'classify_tokens'):
        y = rng.integers(0, spec['vocab'] if h['kind'] == 'lm' else h['classes'], (B, T))
        if 'lengths' in c:
            for b in range(B): y[b, int(c['lengths'][b]):] = -100
        c['targets'] = torch.tensor(y)
    elif h['kind'] == 'classify': c['targets'] = torch.tensor(rng.integers(0, h['classes'], (B,)))
    else: extra = rng.standard_normal((B, T, width_of(spec, main))).astype(np.float32)
    return c, extra
def make(path, spec, seed, command, B=2, T=9, S=7, lengths=True, steps=3, margin=1e-3, steadily=False, first=0):
    """Choosing experts jumps: what comes as near as margin to another choice in any pass is drawn again. steadily: so are sums that cancel,
    and losses after steps that fp32 cannot follow; outputs after steps are left out there."""
    for attempt in range(first, 3000):
        if write(path, spec, seed + attempt * 1000003, command, B, T, S, lengths, steps, margin, steadily): return
    sys.exit(f'golden.py: {path}: no draw keeps {margin:g} from another choice of experts')
FOLLOWED = 2e-5   # a part of the tolerance after steps, 1e-4
EPS, STEADY_EPS = 1e-8, 1e-4   # of AdamW; of random cases, times the norm of all gradients: some are 0 but for rounding (a bias of keys), and 1e-8 makes whole steps of that
def norm_of_gradients(m): return sum(float(p.grad.norm()) ** 2 for p in m.w.values() if p.grad is not None) ** 0.5
def train(m, c, loss_of, steps, eps, noise=None):
    """AdamW, decay on matrices only: losses before, between and after, and the last outputs; noise: of its generator, in the gradients"""
    opt = torch.optim.AdamW([{'params': [p for n, p in m.w.items() if decays(n, p)], 'weight_decay': 0.1},
         {'params': [p for n, p in m.w.items() if not decays(n, p)], 'weight_decay': 0.0}], lr=1e-2, betas=(0.9, 0.95), eps=eps)
    ls, closest = [], m.closest
    for _ in range(steps):
        opt.zero_grad(); L = loss_of(m.forward(c)); (L + m.aux).backward(); ls.append(L.item()); closest = min(closest, m.closest)
        whole = norm_of_gradients(m) if noise else 0   # what sums that cancel are made of
        for n, p in m.w.items() if noise else ():
            if p.grad is None: continue
            reached = p.grad != 0 if '.experts.' in n else 1   # what no row chose has 0 in fp32 too; elsewhere 0 may be a sum that cancels
            p.grad += reached * (1e-7 * p.grad.abs().max() + 1e-8 * whole) * torch.randn(p.grad.shape, generator=noise)
        opt.step()
    last = m.forward(c); m.closest = min(closest, m.closest); ls.append(loss_of(last).item())
    return ls, last
def moved(m, c, loss_of, steps, eps, start, losses, last):
    """How far noise of fp32's rounding in the gradients moves what comes of the steps: the losses, and the last outputs. The first step of
    Adam is the sign of each gradient, so where one is no larger than eps a difference of that size is a whole step; and experts are chosen otherwise."""
    def apart(x, y): return float((x - y).norm() / y.norm())
    def once(seed):
        with torch.no_grad():
            for n, p in m.w.items(): p.copy_(torch.tensor(start[n].astype(np.float64)))
        ls, o = train(m, c, loss_of, steps, eps, torch.Generator().manual_seed(seed)); return apart(torch.tensor(ls), torch.tensor(losses)), apart(o.detach(), last.detach())
    return (max(far) for far in zip(*map(once, range(3))))
def write(path, spec, seed, command, B, T, S, lengths, steps, margin, steadily):
    rng = np.random.default_rng(seed); m = Ref(spec, rng); c, r = draw_batch(spec, rng, B, T, S, lengths)
    out = {'in.' + k: v.numpy().astype(np.float32 if v.is_floating_point() else np.int32) for k, v in c.items()}
    if r is not None: out['in.output_gradient'] = r
    def loss_of(o):
        if r is not None: return (o * torch.tensor(r.astype(np.float64))).sum()
        return F.cross_entropy(o.reshape(-1, o.shape[-1]), c['targets'].reshape(-1), ignore_index=-100)
    o = m.forward(c); L = loss_of(o)
    if m.closest < margin: return False
    (L + m.aux).backward()
    out['out.logits' if r is None else 'out.hidden'] = o.detach().numpy().astype(np.float32)
    out['out.loss'] = np.float32(L.item()).reshape(1)
    for k, v in m.w.items(): out['grad.' + k] = (torch.zeros_like(v) if v.grad is None else v.grad).numpy().astype(np.float32)   # none: what corrects choices
    for k, v in m.weights.items(): out['out.weights.' + k] = v.detach().numpy().astype(np.float32)
    weights = {k: v.detach().numpy().astype(np.float32) for k, v in m.w.items()}
    if steadily and r is not None and abs(L.item()) < 0.01 * float(o.detach().norm()) * np.linalg.norm(r): return False   # a sum that cancels
    if steps and r is None:
        eps = float(np.float32(STEADY_EPS * norm_of_gradients(m))) if steadily else EPS
        if steadily: out['in.adamw_eps'] = np.array([eps], np.float32)   # 1e-8 where nothing is said
        ls, last = train(m, c, loss_of, steps, eps)
        if m.closest < margin: return False
        out['out.adamw_losses'] = np.array(ls, np.float32)
        by_loss, by_output = moved(m, c, loss_of, steps, eps, weights, ls, last) if steadily else (0, 0)
        if not by_loss <= FOLLOWED: return False
        if by_output <= FOLLOWED: out['out.adamw_logits'] = last.detach().numpy().astype(np.float32)
    os.makedirs(path, exist_ok=True)
    json.dump(spec, open(path + '/config.json', 'w'), indent=1)
    st.save(path + '/model.safetensors', weights, {'format': 'qkv'})
    st.save(path + '/case.safetensors', out, {'optimizer': 'AdamW lr=0.01 beta1=0.9 beta2=0.95 eps=%s decay=0.1 on matrices, 0 on vectors; %d steps on this batch' % ('in.adamw_eps' if steadily else '1e-8', steps), 'command': command})
    return True

def make_public(out, names):
    for n in names:
        if n not in PUBLIC: sys.exit(f'golden.py: no case is called {n}; there are: {" ".join(PUBLIC)}')
    for i, (n, s) in enumerate(PUBLIC.items()):
        if not names or n in names: make(f'{out}/{n}', s, 100 + i, f'golden.py OUT_DIR public {n}', margin=0.02, first=FIRST.get(n, 0), **SHAPE.get(n, {}))   # a margin that bf16 keeps
def make_random(out, seed, count, what='random', axes=()):
    """The core of a spec and its batch are the same whatever axes are laid over it."""
    for a in axes:
        if a.removeprefix('-') not in AXES and a != 'core': sys.exit(f'golden.py: no axis is called {a}; there are: core {" ".join(AXES)}')
    r, words = random.Random(seed), ' '.join(['golden.py OUT_DIR', what, str(seed), str(count), *axes])
    names = [a for a in axes if a[0] != '-']; few = not names; names = [a for a in names or AXES if '-' + a not in axes]
    for i in range(count):
        s, shape = randkinds(r) if what == 'kinds' else randspec(r), dict(B=r.choice([1, 3]), T=r.choice([5, 11, 16]), S=r.choice([4, 13]), lengths=r.random() < .7)
        if 'core' not in names: s = lay_over(s, random.Random(f'{what} {seed} {i}'), names, few)
        make(f'{out}/{what}_{seed}_{i:03d}', s, seed * 1000 + i, words, steadily=True, **shape)
def check(folder):
    """The largest difference of any tensor, relative to its norm, between a case and the same case made again."""
    _, meta = st.load(folder + '/case.safetensors'); words = meta['command'].split(); worst = 0.0
    with tempfile.TemporaryDirectory() as out:
        main([words[0], out] + words[2:])
        again = os.path.join(out, os.path.basename(folder.rstrip('/')))
        assert json.load(open(folder + '/config.json')) == json.load(open(again + '/config.json')), folder
        for file in ('model', 'case'): worst = max(worst, difference(f'{folder}/{file}.safetensors', f'{again}/{file}.safetensors'))
    return worst
def difference(one, two):
    a, b = st.load(one)[0], st.load(two)[0]; worst = 0.0
    assert sorted(a) == sorted(b), (one, sorted(a), sorted(b))
    for n in a:
        assert a[n].shape == b[n].shape, (one, n)
        x, y = a[n].astype(np.float64), b[n].astype(np.float64)
        worst = max(worst, float(np.linalg.norm(x - y)) / (float(np.linalg.norm(x)) + 1e-9))   # some gradients are 0 but for rounding
    return worst
def run(words, doc, check, make_public, make_random):
    if words[1] == 'check':
        bad = 0
        for path in words[2:]:
            d = check(path); print(f'{path}: {d:.1e}'); bad += not d <= 1e-6
        return 1 if bad or not words[2:] else 0
    if words[2] == 'public': make_public(words[1], words[3:])
    elif words[2] == 'random': make_random(words[1], int(words[3]), int(words[4]))
    else: sys.exit(doc)
def main(words):
    if words[1] == 'axes': return print('core', *AXES)
    if words[2] in ('random', 'kinds'): return make_random(words[1], int(words[3]), int(words[4]), words[2], words[5:])
    return run(words, __doc__, check, make_public, make_random)
if __name__ == '__main__':
    if len(sys.argv) < 3 and sys.argv[1:] != ['axes']: sys.exit(__doc__)
    sys.exit(main(sys.argv))
