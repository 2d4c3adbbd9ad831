"""Reference transformer in PyTorch float64, written from the formulas of the papers, and the golden cases made with it.

usage: golden.py OUT_DIR public [NAME ...]      the committed cases, or some of them
       golden.py OUT_DIR random SEED COUNT      random specs over the whole grid, of one kind of layer
       golden.py OUT_DIR kinds SEED COUNT       random specs of several kinds of layers
       golden.py check FOLDER ...               makes each committed case again by the command that it names, and compares

A case is a folder: config.json, model.safetensors (weights, f32), case.safetensors (inputs, outputs, gradients, losses of a few
AdamW steps). The metadata of case.safetensors holds the command that made it. Needs torch and numpy; the library does not."""
import sys, os, json, math, random, tempfile
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import numpy as np, torch, torch.nn.functional as F
import st
torch.set_default_dtype(torch.float64)
NEG = float('-inf')

def alibi_slopes(h):
    def pow2(n): s = 2.0 ** (-8.0 / n); return [s ** (i + 1) for i in range(n)]
    if math.log2(h).is_integer(): return pow2(h)
    c = 2 ** math.floor(math.log2(h)); return pow2(c) + pow2(2 * c)[0::2][:h - c]

def rope(x, theta, pairing, fraction, offset=0):
    D = x.shape[-1]; R = int(D * fraction) // 2 * 2; T = x.shape[2]
    f = theta ** (-torch.arange(0, R, 2).double() / R); a = torch.outer(torch.arange(offset, offset + T).double(), f)
    c, s = a.cos(), a.sin(); r, rest = x[..., :R], x[..., R:]
    if pairing == 'interleaved':
        x1, x2 = r[..., 0::2], r[..., 1::2]; y = torch.stack([x1 * c - x2 * s, x1 * s + x2 * c], -1).flatten(-2)
    else:
        x1, x2 = r[..., :R // 2], r[..., R // 2:]; y = torch.cat([x1 * c - x2 * s, x2 * c + x1 * s], -1)
    return torch.cat([y, rest], -1)

def sdpa(q, k, v, allow=None, bias=None, scale=None, softcap=0.0):
    """q (B,H,Tq,D), k (B,Hkv,Tk,D), v (B,Hkv,Tk,Dv); allow bool True=attend; empty rows give 0."""
    g = q.shape[1] // k.shape[1]; k, v = k.repeat_interleave(g, 1), v.repeat_interleave(g, 1)
    s = (q @ k.transpose(-1, -2)) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap: s = softcap * torch.tanh(s / softcap)
    if bias is not None: s = s + bias
    if allow is None: return torch.softmax(s, -1) @ v, torch.softmax(s, -1)
    allow = allow.expand(s.shape); s = s.masked_fill(~allow, -1e300); w = torch.softmax(s, -1) * allow
    return w @ v, w

def act(kind, x):
    return {'relu': F.relu, 'gelu': F.gelu, 'gelu_tanh': lambda z: F.gelu(z, approximate='tanh'), 'silu': F.silu,
            'swiglu': F.silu, 'geglu': F.gelu}[kind](x)

def over(a, b):
    """a with what b says in its place, deep"""
    return {**a, **{n: over(a[n], v) if isinstance(v, dict) and isinstance(a.get(n), dict) else v for n, v in b.items()}}
def layers_of(spec, side):
    """what each layer of a stack is, with the position of its attention: version 1 has one kind of layer, version 2 kinds that follow a pattern"""
    k = spec[side]; shared = {n: k[n] for n in ('attention', 'cross', 'norm', 'ffn') if n in k}
    if spec['version'] == 1: return [{**shared, 'position': spec['position']}] * k['layers']
    kinds = [over(shared, k['kinds'][n]) for n in k['pattern']] if 'kinds' in k else [shared]
    return [{**q, 'position': q['attention'].get('position', {'kind': 'none'})} for q in kinds] * (k['layers'] // len(kinds))
def embed_of(spec):
    """position and scale of the embedding"""
    if spec['version'] == 1: return spec['position'], spec.get('embed_scale', 1.0)
    return spec['embed']['position'], spec['embed'].get('scale', 1.0)

class Ref:
    def __init__(s, spec, rng):
        s.spec, s.w, s.rng = spec, {}, rng; d = spec['d_model']
        for side in ('encoder', 'decoder'):
            if spec.get(side): s.make_stack(side, spec[side], d)
        main = 'decoder' if spec.get('decoder') else 'encoder'; h = spec.get('head', {'kind': 'lm'})
        if h['kind'] == 'lm':
            if spec.get('tie', 'none') == 'none': s.new('head.weight', spec['vocab'], d)
            if h.get('bias'): s.new('head.bias', spec['vocab'])
        if h['kind'] == 'classify':
            s.new('head.weight', h['classes'], d)
            if h.get('bias', True): s.new('head.bias', h['classes'])
        if spec.get('tie') == 'all' and spec.get('encoder') and spec.get('decoder'): del s.w['encoder.embed.token.weight']
    def new(s, name, *shape, one=False, scale=None):
        a = s.rng.standard_normal(shape).astype(np.float32) * np.float32(scale or (0.1 if len(shape) == 1 else 1.0 / math.sqrt(shape[-1])))
        if one: a = a + np.float32(1)
        s.w[name] = torch.tensor(a.astype(np.float64), requires_grad=True)
    def norm_new(s, name, d, n):
        s.new(name + '.weight', d, one=True)
        if n['kind'] == 'layernorm' and n.get('bias', True): s.new(name + '.bias', d)
    def lin_new(s, name, o, i, bias):
        s.new(name + '.weight', o, i)
        if bias: s.new(name + '.bias', o)
    def attn_new(s, name, a, d):
        H, Hk = a['heads'], a.get('kv_heads', a['heads']); D = a.get('head_dim', d // H); Dv = a.get('value_dim', D); b = a.get('bias', True)
        s.lin_new(name + '.q', H * D, d, b in (True, 'qkv')); s.lin_new(name + '.k', Hk * D, d, b in (True, 'qkv'))
        s.lin_new(name + '.v', Hk * Dv, d, b in (True, 'qkv')); s.lin_new(name + '.o', d, H * Dv, b is True)
    def make_stack(s, side, k, d):
        p = embed_of(s.spec)[0]; V = s.spec.get('source_vocab', s.spec['vocab']) if side == 'encoder' and s.spec.get('decoder') else s.spec['vocab']
        s.new(side + '.embed.token.weight', V, d)
        if p['kind'] == 'learned': s.new(side + '.embed.position.weight', s.spec['context'], d, scale=0.3)
        for i, k in enumerate(layers_of(s.spec, side)):
            n = f'{side}.layers.{i}'
            s.norm_new(n + '.attn_norm', d, k['norm']); s.attn_new(n + '.attn', k['attention'], d)
            if side == 'decoder' and s.spec.get('encoder'):
                s.norm_new(n + '.cross_norm', d, k['norm']); s.attn_new(n + '.cross', k.get('cross', k['attention']), d)
            s.norm_new(n + '.ffn_norm', d, k['norm']); f = k['ffn']; b = f.get('bias', True)
            s.lin_new(n + '.ffn.up', f['d_ff'], d, b)
            if f['kind'] in ('swiglu', 'geglu'): s.lin_new(n + '.ffn.gate', f['d_ff'], d, b)
            s.lin_new(n + '.ffn.down', d, f['d_ff'], b)
        if k['norm'].get('final', k['norm']['placement'] == 'pre'): s.norm_new(side + '.norm', d, k['norm'])
    def lin(s, name, x):
        return F.linear(x, s.w[name + '.weight'], s.w.get(name + '.bias'))
    def norm(s, name, x, n):
        e = n.get('eps', 1e-5)
        if n['kind'] == 'rmsnorm': return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + e) * s.w[name + '.weight']
        return F.layer_norm(x, x.shape[-1:], s.w[name + '.weight'], s.w.get(name + '.bias'), e)
    def attn(s, name, a, x, kv, allow, self_attention, p={'kind': 'none'}):
        B, Tq, d = x.shape; H, Hk = a['heads'], a.get('kv_heads', a['heads'])
        sp = lambda z, h: z.view(B, z.shape[1], h, -1).transpose(1, 2)
        q, k, v = sp(s.lin(name + '.q', x), H), sp(s.lin(name + '.k', kv), Hk), sp(s.lin(name + '.v', kv), Hk)
        bias = None
        if self_attention and p['kind'] == 'rope':
            r = (p.get('theta', 10000.0), p.get('pairing', 'half'), p.get('fraction', 1.0)); q, k = rope(q, *r), rope(k, *r)
        if self_attention and p['kind'] == 'alibi':
            i = torch.arange(Tq).double(); bias = -torch.tensor(alibi_slopes(H)).view(H, 1, 1) * (i[:, None] - i[None, :]).abs()
        y, w = sdpa(q, k, v, allow, bias, a.get('scale'), a.get('softcap', 0.0))
        s.weights[name] = w
        return s.lin(name + '.o', y.transpose(1, 2).reshape(B, Tq, -1))
    def stack(s, side, ids, lengths, memory=None, memory_lengths=None):
        sp = s.spec; B, T = ids.shape; (p, scale), d = embed_of(sp), sp['d_model']
        src = 'decoder' if side == 'encoder' and sp.get('tie') == 'all' and sp.get('decoder') else side
        x = s.w[src + '.embed.token.weight'][ids] * scale
        if p['kind'] == 'learned': x = x + s.w[side + '.embed.position.weight'][:T]
        if p['kind'] == 'sinusoidal':
            t = torch.arange(T).double()[:, None] * torch.exp(torch.arange(0, d, 2).double() * -(math.log(10000.0) / d))
            pe = torch.zeros(T, d); pe[:, 0::2] = t.sin(); pe[:, 1::2] = t.cos(); x = x + pe
        call, i = None, torch.arange(T)
        if memory is not None:
            call = torch.ones(1, 1, T, memory.shape[1], dtype=torch.bool)
            if memory_lengths is not None: call = call & (torch.arange(memory.shape[1]) < memory_lengths[:, None]).view(B, 1, 1, -1)
        for l, k in enumerate(layers_of(sp, side)):
            q, a, n, allow = f'{side}.layers.{l}', k['attention'], k['norm'], torch.ones(1, 1, T, T, dtype=torch.bool)
            if a.get('causal', side == 'decoder'): allow = allow & (i[None, :] <= i[:, None])
            if a.get('window'): allow = allow & (i[:, None] - i[None, :] < a['window']) & ((i[None, :] - i[:, None] < a['window']))
            if lengths is not None: allow = allow & (i < lengths[:, None]).view(B, 1, 1, T)
            subs = [('attn_norm', lambda z: s.attn(q + '.attn', a, z, z, allow, True, k['position']))]
            if memory is not None: subs.append(('cross_norm', lambda z: s.attn(q + '.cross', k.get('cross', a), z, memory, call, False)))
            subs.append(('ffn_norm', lambda z: s.ffn(q + '.ffn', k['ffn'], z)))
            for nm, f in subs:
                x = x + f(s.norm(q + '.' + nm, x, n)) if n['placement'] == 'pre' else s.norm(q + '.' + nm, x + f(x), n)
        return s.norm(side + '.norm', x, n) if side + '.norm.weight' in s.w else x
    def ffn(s, name, f, x):
        u = s.lin(name + '.up', x)
        h = act(f['kind'], s.lin(name + '.gate', x)) * u if f['kind'] in ('swiglu', 'geglu') else act(f['kind'], u)
        return s.lin(name + '.down', h)
    def forward(s, c):
        s.weights = {}; sp = s.spec; mem = None
        if sp.get('encoder'):
            mem = s.stack('encoder', c['source'] if sp.get('decoder') else c['ids'], c.get('source_lengths') if sp.get('decoder') else c.get('lengths'))
        x = s.stack('decoder', c['ids'], c.get('lengths'), mem, c.get('source_lengths')) if sp.get('decoder') else mem
        h = sp.get('head', {'kind': 'lm'})
        if h['kind'] == 'none': return x
        if h['kind'] == 'classify':
            if h['pool'] == 'first': x = x[:, 0]
            else:
                m = (torch.arange(x.shape[1]) < c['lengths'][:, None]).double()[..., None] if 'lengths' in c else torch.ones(*x.shape[:2], 1)
                x = (x * m).sum(1) / m.sum(1)
            return s.lin('head', x)
        W = s.w['head.weight'] if 'head.weight' in s.w else s.w[('decoder' if sp.get('decoder') else 'encoder') + '.embed.token.weight']
        return F.linear(x, W, s.w.get('head.bias'))

def make(path, spec, seed, command, B=2, T=9, S=7, lengths=True, steps=3):
    rng = np.random.default_rng(seed); m = Ref(spec, rng); c = {}
    both = spec.get('encoder') and spec.get('decoder')
    c['ids'] = torch.tensor(rng.integers(0, spec['vocab'], (B, T)))
    if lengths: c['lengths'] = torch.tensor([T] + [int(rng.integers(2, T)) for _ in range(B - 1)])
    if both:
        c['source'] = torch.tensor(rng.integers(0, spec.get('source_vocab', spec['vocab']), (B, S)))
        if lengths: c['source_lengths'] = torch.tensor([int(rng.integers(2, S)) for _ in range(B - 1)] + [S])
    h = spec.get('head', {'kind': 'lm'})
    out = {'in.' + k: v.numpy().astype(np.int32) for k, v in c.items()}
    if h['kind'] == 'lm':
        y = rng.integers(0, spec['vocab'], (B, T))
        if lengths:
            for b in range(B): y[b, int(c['lengths'][b]):] = -100
        c['targets'] = torch.tensor(y); out['in.targets'] = y.astype(np.int32)
    elif h['kind'] == 'classify':
        y = rng.integers(0, h['classes'], (B,)); c['targets'] = torch.tensor(y); out['in.targets'] = y.astype(np.int32)
    else:
        r = rng.standard_normal((B, T, spec['d_model'])).astype(np.float32); out['in.output_gradient'] = r
    def loss_of(o):
        if h['kind'] == 'none': return (o * torch.tensor(r.astype(np.float64))).sum()
        return F.cross_entropy(o.reshape(-1, o.shape[-1]), c['targets'].reshape(-1), ignore_index=-100)
    o = m.forward(c); L = loss_of(o); L.backward()
    out['out.logits' if h['kind'] != 'none' else 'out.hidden'] = o.detach().numpy().astype(np.float32)
    out['out.loss'] = np.float32(L.item()).reshape(1)
    for k, v in m.w.items(): out['grad.' + k] = v.grad.numpy().astype(np.float32)
    for k, v in m.weights.items(): out['out.weights.' + k] = v.detach().numpy().astype(np.float32)
    os.makedirs(path, exist_ok=True)
    json.dump(spec, open(path + '/config.json', 'w'), indent=1)
    st.save(path + '/model.safetensors', {k: v.detach().numpy().astype(np.float32) for k, v in m.w.items()}, {'format': 'qkv'})
    if steps and h['kind'] != 'none':   # AdamW, decay on matrices only
        ps = list(m.w.values()); opt = torch.optim.AdamW([{'params': [p for p in ps if p.ndim > 1], 'weight_decay': 0.1},
             {'params': [p for p in ps if p.ndim == 1], 'weight_decay': 0.0}], lr=1e-2, betas=(0.9, 0.95), eps=1e-8)
        ls = []
        for _ in range(steps):
            opt.zero_grad(); L = loss_of(m.forward(c)); L.backward(); ls.append(L.item()); opt.step()
        ls.append(loss_of(m.forward(c)).item()); out['out.adamw_losses'] = np.array(ls, np.float32)
        out['out.adamw_logits'] = m.forward(c).detach().numpy().astype(np.float32)
    st.save(path + '/case.safetensors', out, {'optimizer': 'AdamW lr=0.01 beta1=0.9 beta2=0.95 eps=1e-8 decay=0.1 on matrices, 0 on vectors; %d steps on this batch' % steps, 'command': command})

def stack(layers=2, heads=4, kv=None, norm='layernorm', place='pre', ffn='gelu', d_ff=48, **kw):
    a = {'heads': heads, 'kv_heads': kv or heads}; a.update({k: v for k, v in kw.items() if k in ('head_dim', 'value_dim', 'causal', 'window', 'bias', 'softcap', 'scale')})
    return {'layers': layers, 'attention': a, 'norm': {'kind': norm, 'placement': place, 'eps': kw.get('eps', 1e-5), 'final': kw.get('final', place == 'pre')},
            'ffn': {'kind': ffn, 'd_ff': d_ff, 'bias': kw.get('ffn_bias', True)}}
def spec(pos='learned', enc=None, dec=None, d=32, vocab=29, tie='head', head=None, **kw):
    p = {'kind': pos}
    if pos == 'rope': p.update({'theta': kw.get('theta', 10000.0), 'pairing': kw.get('pairing', 'half'), 'fraction': kw.get('fraction', 1.0)})
    s = {'format': 'qkv', 'version': 1, 'vocab': vocab, 'd_model': d, 'context': 16, 'position': p, 'embed_scale': kw.get('embed_scale', 1.0),
         'tie': tie, 'dropout': 0.0, 'head': head or {'kind': 'lm', 'bias': False}}
    if 'source_vocab' in kw: s['source_vocab'] = kw['source_vocab']
    if enc: s['encoder'] = enc
    if dec: s['decoder'] = dec
    return s
def spec2(embed, **kw):
    """version 2: stacks with kinds, and what is added to the embedding"""
    s = spec(**kw); del s['position'], s['embed_scale']
    return {**s, 'version': 2, 'embed': embed}
def kinds(layers, pattern, shared=None, **named):
    return {'layers': layers, **(shared or {}), 'kinds': named, 'pattern': pattern}
PUBLIC = {
 'gpt2': spec('learned', dec=stack(ffn='gelu_tanh')),
 'llama': spec('rope', dec=stack(kv=2, norm='rmsnorm', ffn='swiglu', bias=False, ffn_bias=False), tie='none'),
 'llama_interleaved_partial': spec('rope', dec=stack(kv=2, norm='rmsnorm', ffn='swiglu', bias='qkv', ffn_bias=False), pairing='interleaved', fraction=0.5),
 'bloom_alibi_mqa': spec('alibi', dec=stack(heads=4, kv=1, ffn='gelu')),
 'alibi_six_heads': spec('alibi', dec=stack(heads=6, kv=3, head_dim=8, ffn='gelu')),
 'vaswani': spec('sinusoidal', enc=stack(place='post', ffn='relu'), dec=stack(place='post', ffn='relu'), tie='all', embed_scale=32 ** 0.5),
 'tiny_lm': spec('none', dec=stack(heads=1, ffn='relu', d_ff=64), tie='none', head={'kind': 'lm', 'bias': True}),
 'tiny_seq2seq': spec('none', enc=stack(heads=1, ffn='relu', d_ff=64), dec=stack(heads=1, ffn='relu', d_ff=64), tie='none', vocab=29, source_vocab=23, head={'kind': 'lm', 'bias': True}),
 'bert_mlm': spec('learned', enc=stack(place='post', ffn='gelu'), tie='head', head={'kind': 'lm', 'bias': True}),
 'classifier_mean': spec('learned', enc=stack(ffn='gelu'), tie='none', head={'kind': 'classify', 'classes': 5, 'pool': 'mean', 'bias': True}),
 'classifier_first': spec('rope', enc=stack(kv=2, ffn='geglu'), tie='none', head={'kind': 'classify', 'classes': 3, 'pool': 'first', 'bias': True}),
 'encoder_hidden': spec('alibi', enc=stack(norm='rmsnorm', ffn='silu', bias=False), tie='none', head={'kind': 'none'}),
 'window_softcap': spec('rope', dec=stack(kv=1, window=3, softcap=5.0, ffn='geglu')),
 'wide_values': spec('learned', dec=stack(heads=2, kv=1, head_dim=12, value_dim=20, ffn='relu', place='post', final=True)),
 'local_global': spec2({'position': {'kind': 'none'}, 'scale': 5.5}, dec=kinds(6, ['local', 'local', 'global'],
    {'attention': {'heads': 4, 'kv_heads': 2, 'position': {'kind': 'rope', 'theta': 10000.0}}, 'norm': {'kind': 'rmsnorm', 'placement': 'pre'}, 'ffn': {'kind': 'geglu', 'd_ff': 24, 'bias': False}},
    local={'attention': {'window': 3}},
    **{'global': {'attention': {'kv_heads': 1, 'head_dim': 6, 'softcap': 4.0, 'position': {'kind': 'none'}}, 'ffn': {'kind': 'relu', 'd_ff': 20, 'bias': True}}})),
 'kinds_seq2seq': spec2({'position': {'kind': 'learned'}}, tie='none', vocab=29, source_vocab=23,
    enc=kinds(2, ['a', 'b'], {'norm': {'kind': 'layernorm', 'placement': 'post', 'eps': 1e-5}, 'ffn': {'kind': 'gelu', 'd_ff': 20}},
        a={'attention': {'heads': 4, 'position': {'kind': 'alibi'}}}, b={'attention': {'heads': 2, 'kv_heads': 1, 'head_dim': 10, 'value_dim': 7, 'window': 4, 'position': {'kind': 'rope', 'theta': 50.0, 'pairing': 'interleaved', 'fraction': 0.5}}}),
    dec=kinds(3, ['x', 'y', 'z'], {'attention': {'heads': 4}, 'ffn': {'kind': 'swiglu', 'd_ff': 20, 'bias': False}},
        x={'norm': {'kind': 'layernorm', 'placement': 'pre'}, 'attention': {'position': {'kind': 'rope', 'theta': 100.0}}},
        y={'norm': {'kind': 'rmsnorm', 'placement': 'post'}, 'attention': {'window': 2, 'bias': False}, 'cross': {'heads': 2, 'kv_heads': 1, 'bias': 'qkv'}, 'ffn': {'kind': 'silu', 'd_ff': 12, 'bias': True}},
        z={'norm': {'kind': 'layernorm', 'placement': 'pre', 'eps': 1e-3}, 'attention': {'kv_heads': 2, 'position': {'kind': 'rope', 'theta': 9.0}}})),
}
def randstack(r):
    h = r.choice([1, 2, 4, 6]); kv = r.choice([k for k in (1, 2, 3, 4, 6) if h % k == 0])
    kw = {}
    if r.random() < .4 or h == 6: kw['head_dim'] = r.choice([4, 6, 8, 10, 16])
    else: kw['head_dim'] = 36 // h if h in (1, 2) else 8
    if kw['head_dim'] % 2: kw['head_dim'] += 1
    if r.random() < .25: kw['value_dim'] = r.choice([3, 5, 12, 17])
    if r.random() < .25: kw['window'] = r.choice([2, 4])
    if r.random() < .25: kw['softcap'] = r.choice([2.0, 20.0])
    kw['bias'] = r.choice([True, False, 'qkv']); kw['ffn_bias'] = r.random() < .5
    pl = r.choice(['pre', 'post']); kw['final'] = r.random() < .7 if pl == 'post' else True
    return stack(r.choice([1, 2, 3]), h, kv, r.choice(['layernorm', 'rmsnorm']), pl, r.choice(['relu', 'gelu', 'gelu_tanh', 'silu', 'swiglu', 'geglu']), r.choice([20, 33, 64]), **kw)
def randspec(r):
    topo = r.choice(['dec', 'enc', 'both', 'dec', 'both']); kw = {}
    enc = randstack(r) if topo != 'dec' else None; dec = randstack(r) if topo != 'enc' else None
    head = {'kind': 'lm', 'bias': r.random() < .5}
    if topo == 'enc': head = r.choice([head, {'kind': 'classify', 'classes': r.choice([2, 7]), 'pool': r.choice(['first', 'mean']), 'bias': True}, {'kind': 'none'}])
    tie = r.choice(['none', 'head'] + (['all'] if topo == 'both' else [])) if head['kind'] == 'lm' else 'none'
    if topo == 'both' and tie != 'all' and r.random() < .5: kw['source_vocab'] = 19
    return spec(r.choice(['none', 'sinusoidal', 'learned', 'rope', 'rope', 'alibi']), enc, dec, d=36, vocab=r.choice([17, 31]), tie=tie, head=head,
                theta=r.choice([10000.0, 500.0]), pairing=r.choice(['half', 'interleaved']), fraction=r.choice([1.0, 0.5]), embed_scale=r.choice([1.0, 6.0]), **kw)
def randkinds(r):
    def layer():
        k = randstack(r); del k['layers']; rope = {'kind': 'rope', 'theta': r.choice([10000.0, 50.0]), 'pairing': r.choice(['half', 'interleaved']), 'fraction': r.choice([1.0, 0.5])}
        k['attention']['position'] = r.choice([{'kind': 'none'}, {'kind': 'alibi'}, rope, rope]); return k
    def ks():
        named = {n: layer() for n in 'abc'[:r.choice([2, 3])]}; pattern = list(named); r.shuffle(pattern)
        return kinds(len(pattern) * r.choice([1, 2]), pattern, **named)
    topo = r.choice(['dec', 'enc', 'both']); enc = ks() if topo != 'dec' else None; dec = ks() if topo != 'enc' else None
    return spec2({'position': {'kind': r.choice(['none', 'sinusoidal', 'learned'])}, 'scale': r.choice([1.0, 6.0])}, enc=enc, dec=dec, d=36, vocab=17,
                 tie=r.choice(['none', 'head'] + (['all'] if topo == 'both' else [])), head={'kind': 'lm', 'bias': r.random() < .5})
def make_public(out, names):
    for i, (n, s) in enumerate(PUBLIC.items()):
        if not names or n in names: make(f'{out}/{n}', s, 100 + i, f'golden.py OUT_DIR public {n}')
def make_random(out, seed, count, what='random'):
    r = random.Random(seed)
    for i in range(count):
        make(f'{out}/{what}_{seed}_{i:03d}', randkinds(r) if what == 'kinds' else randspec(r), seed * 1000 + i, f'golden.py OUT_DIR {what} {seed} {count}',
             B=r.choice([1, 3]), T=r.choice([5, 11, 16]), S=r.choice([4, 13]), lengths=r.random() < .7)
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
    if words[2] == 'kinds': return make_random(words[1], int(words[3]), int(words[4]), 'kinds')
    return run(words, __doc__, check, make_public, make_random)
if __name__ == '__main__':
    if len(sys.argv) < 3: sys.exit(__doc__)
    sys.exit(main(sys.argv))
