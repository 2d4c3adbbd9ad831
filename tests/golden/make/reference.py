"""The reference transformer in PyTorch float64 (class Ref), written from the formulas of the papers, sharing nothing with the library.
A spec is the JSON of config.json as a dict; a key that is missing has the library's default."""
import math
import numpy as np, torch, torch.nn.functional as F
from positions import rope, sinusoid, alibi_slopes, distance_bias, yarn_factor
torch.set_default_dtype(torch.float64)
NEG = float('-inf')

def sdpa(q, k, v, allow=None, bias=None, scale=None, softcap=0.0, sinks=None):
    """q (B,H,Tq,D), k (B,Hkv,Tk,D), v (B,Hkv,Tk,Dv); allow bool True=attend; empty rows give 0. sinks (H): a logit more in the denominator."""
    g = q.shape[1] // k.shape[1]; k, v = k.repeat_interleave(g, 1), v.repeat_interleave(g, 1)
    s = (q @ k.transpose(-1, -2)) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap: s = softcap * torch.tanh(s / softcap)
    if bias is not None: s = s + bias
    if allow is None: allow = torch.ones(1, 1, 1, 1, dtype=torch.bool)
    allow = allow.expand(s.shape); s = s.masked_fill(~allow, -1e300)
    if sinks is not None: s = torch.cat([s, sinks.view(1, -1, 1, 1).expand(*s.shape[:3], 1)], -1)
    w = torch.softmax(s, -1)[..., :k.shape[2]] * allow
    return w @ v, w

ACTIVATIONS = {'none': lambda z: z, 'tanh': torch.tanh, 'relu': F.relu, 'gelu': F.gelu, 'gelu_tanh': lambda z: F.gelu(z, approximate='tanh'),
               'silu': F.silu, 'quick_gelu': lambda z: z * torch.sigmoid(1.702 * z), 'relu2': lambda z: F.relu(z) ** 2}
GATES = {'swiglu': 'silu', 'geglu': 'gelu', 'reglu': 'relu', 'relu2_glu': 'relu2', 'geglu_tanh': 'gelu_tanh', 'quick_geglu': 'quick_gelu', 'tanh_glu': 'tanh', 'swiglu_clamped': None}
PARALLEL = ('parallel', 'parallel_two')
def clamped(gate, up, limit):
    """gpt-oss"""
    g, u = gate.clamp(max=limit), up.clamp(-limit, limit); return (u + 1) * g * torch.sigmoid(1.702 * g)

def over(a, b):
    """a with what b says in its place, deep"""
    return {**a, **{n: over(a[n], v) if isinstance(v, dict) and isinstance(a.get(n), dict) else v for n, v in b.items()}}
def layers_of(spec, side):
    """what each layer of a stack is, with the position of its attention: version 1 has one kind of layer, version 2 kinds that follow a pattern"""
    k = spec[side]; shared = {n: k[n] for n in ('attention', 'cross', 'norm', 'ffn', 'residual_scale') if n in k}
    if spec['version'] == 1: return [{**shared, 'position': k['attention'].get('position', spec['position'])}] * k['layers']
    kinds = [over(shared, k['kinds'][n]) for n in k['pattern']] if 'kinds' in k else [shared]
    return [{**q, 'position': q['attention'].get('position', {'kind': 'none'})} for q in kinds] * (k['layers'] // len(kinds))
def embed_of(spec, side):
    """what stands between the input of a stack and its first layer"""
    common = {'position': spec['position'], 'scale': spec.get('embed_scale', 1.0)} if spec['version'] == 1 else {}
    return over(over(common, spec.get('embed', {})), spec[side].get('embed', {}))
def input_of(spec, side): return embed_of(spec, side).get('input') or {'kind': 'tokens'}
def width_of(spec, side): return spec[side].get('d_model', spec['d_model'])
def context_of(spec, side):
    """the most positions of a stack: of what an encoder beside a decoder reads that are no tokens there may be others"""
    other = side == 'encoder' and both(spec) and input_of(spec, side)['kind'] != 'tokens'; return other and spec.get('source_context') or spec['context']
def main_of(spec): return 'decoder' if spec.get('decoder') else 'encoder'
def both(spec): return bool(spec.get('encoder') and spec.get('decoder'))
def final_of(norm): return norm.get('final', norm.get('placement', 'pre') != 'post')
def cross_of(kind):
    """cross attention is like self attention where nothing else is written; keys and values from elsewhere have no latent form"""
    return kind['cross'] if 'cross' in kind else {**kind['attention'], 'latent': None, 'share': 0}
def latent_of(a, d):
    D = a.get('head_dim', d // a['heads']); return {'rank': min(4 * D, d // 2), 'query_rank': 0, 'rope_dim': 2 * (D // 4), 'eps': 1e-6, **a['latent']}
def first_of_group(stack, layer):
    """the layer whose weights a layer has: the first of its group"""
    G, L = stack.get('share', 0), stack['layers']
    return layer if not G else min(n for n in range(L) if n * G // L == layer * G // L)
def rows_of(kind, d):
    """all that the keys and values of a layer, and who may see them, follow from: layers that agree in it can read each other's"""
    a, z = kind['attention'], kind['attention'].get('latent') is not None and latent_of(kind['attention'], d)
    D = a.get('head_dim', d // a['heads']); own = (z['rank'], z['rope_dim'], z['eps']) if z else (a.get('kv_heads', a['heads']), D, a.get('value_dim', D), a.get('qk_norm'), a.get('clip', 0))
    return own, kind['position'], a.get('causal'), a.get('window', 0), a.get('window_right', 0)
def owner_of(layers, l, d):
    """the layer whose keys and values a layer reads: share layers of its own sort back, and on from there where that one has none either"""
    n = layers[l]['attention'].get('share', 0)
    if not n: return l
    return owner_of(layers, [m for m in range(l) if rows_of(layers[m], d) == rows_of(layers[l], d)][-n], d)
def decays(name, tensor):
    """which weights AdamW lets decay: matrices and tables; not biases, norms, and what is one row for the whole"""
    return tensor.ndim > 1 and not name.endswith(('norm.weight', '.sinks.weight', '.slopes.weight', '.class.weight', '.correction.weight'))

class Ref:
    def __init__(s, spec, rng):
        s.spec, s.w, s.rng = spec, {}, rng
        for side in ('encoder', 'decoder'):
            if spec.get(side): s.make_stack(side, spec[side], width_of(spec, side))
        s.make_head(spec.get('head', {'kind': 'lm'}), main_of(spec))
        if spec.get('tie') in ('all', 'stacks') and both(spec): del s.w['encoder.embed.token.weight']
    # ---- weights: every one drawn, so that nothing is 0 or 1 --------------------------------------------------------------------------------------------------
    def new(s, name, *shape, one=False, scale=None):
        a = s.rng.standard_normal(shape).astype(np.float32) * np.float32(scale or (0.1 if len(shape) == 1 else 1.0 / math.sqrt(np.prod(shape[1:]))))
        if one: a = a + np.float32(1)
        s.w[name] = torch.tensor(a.astype(np.float64), requires_grad=True)
    def norm_new(s, name, n, *shape):
        if not n.get('weight', True): return
        s.new(name + '.weight', *shape, one=n['kind'] != 'rmsnorm_plus_one', scale=0.1)
        if n['kind'] == 'layernorm' and n.get('bias', True): s.new(name + '.bias', *shape, scale=0.1)
    def lin_new(s, name, o, i, bias):
        s.new(name + '.weight', o, i)
        if bias: s.new(name + '.bias', o)
    def latent_new(s, name, a, d):
        """DeepSeek V2: keys and values through one narrow row a position, and a rotated part of keys that all heads share"""
        z, H = latent_of(a, d), a['heads']; D, b = a.get('head_dim', d // H), a.get('bias', True); letters = b if isinstance(b, str) else 'qkvo' if b else ''
        R, Q, r, Dv, rms = z['rank'], z['query_rank'], z['rope_dim'], a.get('value_dim', D), {'kind': 'rmsnorm'}
        if Q: s.lin_new(name + '.q_a', Q, d, 'q' in letters); s.norm_new(name + '.q_a_norm', rms, Q)
        s.lin_new(name + ('.q_b' if Q else '.q'), H * D, Q or d, not Q and 'q' in letters)
        if not a.get('share'): s.lin_new(name + '.kv_a', R, d, 'k' in letters); s.norm_new(name + '.kv_a_norm', rms, R)
        if r and not a.get('share'): s.lin_new(name + '.k_rope', r, d, 'k' in letters)
        s.lin_new(name + '.k_b', H * (D - r), R, False); s.lin_new(name + '.v_b', H * Dv, R, False); s.lin_new(name + '.o', d, H * Dv, 'o' in letters)
    def ffn_new(s, name, kind, width, d, bias):
        s.lin_new(name + '.up', width, d, bias)
        if kind in GATES: s.lin_new(name + '.gate', width, d, bias)
        s.lin_new(name + '.down', d, width, bias)
    def experts_new(s, name, f, d):
        e = f['experts']; b = f.get('bias', True)
        s.lin_new(name + '.router', e['count'], d, e.get('bias', False))
        if e.get('correction'): s.new(name + '.correction.weight', 1, e['count'], scale=0.1)
        for n in range(e['count']): s.ffn_new(f'{name}.experts.{n}', f['kind'], f['d_ff'], d, b)
        if e.get('shared'): s.ffn_new(name + '.shared', f['kind'], e['shared'], d, b)
        if e.get('shared_gate'): s.new(name + '.shared_gate.weight', 1, d)
    def attn_new(s, name, a, d, memory):
        if a.get('latent') is not None:
            s.latent_new(name, a, d)
            if a.get('sinks'): s.new(name + '.sinks.weight', 1, a['heads'], scale=0.7)
            return
        H, Hk = a['heads'], a.get('kv_heads', a['heads']); D = a.get('head_dim', d // H); Dv = a.get('value_dim', D); b = a.get('bias', True)
        letters = b if isinstance(b, str) else 'qkvo' if b else ''
        for n, o, i in (('q', H * D, d), ('k', Hk * D, memory), ('v', Hk * Dv, memory), ('o', d, H * Dv)):
            if n in 'qo' or not a.get('share'): s.lin_new(f'{name}.{n}', o, i, n in letters)
        n = a.get('qk_norm')
        for part, h in (('q_norm', H), ('k_norm', Hk)):
            if n and (part == 'q_norm' or not a.get('share')): s.norm_new(f'{name}.{part}', n, *{'head': (D, ), 'heads': (h, D), 'width': (h * D, )}[n['over']])
        if a.get('sinks'): s.new(name + '.sinks.weight', 1, H, scale=0.7)
    def make_embed(s, side, e, d):
        n, i = side + '.embed', input_of(s.spec, side); E = e.get('width', 0) or d; wide = E if e.get('project', 'end') == 'end' else d; t = i['kind']
        V = s.spec.get('source_vocab', s.spec['vocab']) if side == 'encoder' and s.spec.get('decoder') else s.spec['vocab']
        if t == 'tokens': s.new(n + '.token.weight', V, E)
        if t == 'patches':
            ch = i.get('channels', 3); s.lin_new(n + '.patch', wide, ch * i['patch'] ** 2, True)
            if i.get('class_token', True): s.new(n + '.class.weight', 1, wide)
        if t == 'frames':
            s.new(n + '.conv1.weight', wide, i.get('channels', 80), 3); s.new(n + '.conv1.bias', wide); s.new(n + '.conv2.weight', wide, wide, 3); s.new(n + '.conv2.bias', wide)
        if t == 'vectors': s.lin_new(n + '.vector', wide, i['channels'], i.get('bias', True))
        if e['position']['kind'] == 'learned': s.new(n + '.position.weight', context_of(s.spec, side) + e['position'].get('offset', 0), wide, scale=0.3)
        if e.get('types'): s.new(n + '.type.weight', e['types'], wide, scale=0.3)
        if e.get('norm'): s.norm_new(n + '.norm', e['norm'], wide)
        if e.get('width'): s.lin_new(n + '.project', d, E, e.get('bias', True))
    def make_positions(s, side, layers):
        """tables of distances, one for the layers of the stack"""
        for k in layers:
            p, H = k['position'], k['attention']['heads']
            if p['kind'] == 'buckets': n, rows, scale = 'buckets', p.get('buckets', 32), 0.5
            elif p['kind'] == 'relative': n, rows, scale = 'relative', 2 * p['max_distance'] + 1, 0.5
            elif p['kind'] == 'alibi' and p.get('learn'): n, rows, scale = 'slopes', 1, 0.2
            else: continue
            n = f'{side}.position.{n}.weight'
            if n not in s.w: s.new(n, rows, H, scale=scale)
            assert s.w[n].shape == (rows, H), 'layers that share a table of distances are alike'
    def make_stack(s, side, k, d):
        layers = layers_of(s.spec, side); s.make_embed(side, embed_of(s.spec, side), d); s.make_positions(side, layers)
        memory = width_of(s.spec, 'encoder') if both(s.spec) else d
        for i, q in enumerate(layers):
            if first_of_group(k, i) != i: continue
            n, cross, place = f'{side}.layers.{i}', side == 'decoder' and s.spec.get('encoder'), q['norm'].get('placement', 'pre')
            def norms(part):
                if part != 'attn' and place == 'parallel' or part == 'attn' and not q['norm'].get('attention', True): return
                s.norm_new(f'{n}.{part}_norm', q['norm'], d)
                if place == 'sandwich': s.norm_new(f'{n}.{part}_out_norm', q['norm'], d)
            norms('attn'); s.attn_new(n + '.attn', q['attention'], d, d)
            if cross: norms('cross'); s.attn_new(n + '.cross', cross_of(q), d, memory)
            norms('ffn'); f = q['ffn']
            if f.get('experts'): s.experts_new(n + '.ffn', f, d)
            else: s.ffn_new(n + '.ffn', f['kind'], f['d_ff'], d, f.get('bias', True))
        if final_of(q['norm']): s.norm_new(side + '.norm', q['norm'], d)
    def make_head(s, h, side):
        d = width_of(s.spec, side); t = h.get('transform')
        if h['kind'] == 'none': return
        if t:
            s.lin_new('head.transform', t.get('width', s.spec['d_model']), d, t.get('bias', True)); d = t.get('width', s.spec['d_model'])
            if t.get('norm'): s.norm_new('head.norm', t['norm'], d)
        N = s.spec['vocab'] if h['kind'] == 'lm' else h['classes']
        if h['kind'] != 'lm' or s.spec.get('tie', 'none') in ('none', 'stacks'): s.new('head.weight', N, d)
        if h.get('bias', h['kind'] != 'lm'): s.new('head.bias', N)
    # ---- forward ----------------------------------------------------------------------------------------------------------------------------------------------
    def lin(s, name, x):
        return F.linear(x, s.w[name + '.weight'], s.w.get(name + '.bias'))
    def norm(s, name, x, n):
        """over the last axis; the weight may have more axes (a weight for each head)"""
        e, w, b = n.get('eps', 1e-5), s.w.get(name + '.weight'), s.w.get(name + '.bias')
        if n['kind'] == 'layernorm':
            if w is None or w.ndim == 1: return F.layer_norm(x, x.shape[-1:], w, b, e)
            return F.layer_norm(x, x.shape[-1:], eps=e) * w + (0 if b is None else b)
        y = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + e)
        return y if w is None else y * (1 + w) if n['kind'] == 'rmsnorm_plus_one' else y * w
    def qk_norm(s, name, x, n):
        """x (B,T,H,D); the weight is (D), (H,D) or (H·D)"""
        return s.norm(name, x.flatten(2), n).view(x.shape) if n['over'] == 'width' else s.norm(name, x, n)
    def attn(s, name, own, a, x, kv, allow, p, table=None, owner=None):
        """name: of the weights; own: of the layer itself, under which its attention is kept; owner: the layer whose keys and values it reads"""
        if a.get('latent') is not None: return s.latent(name, own, a, x, allow, p, table, owner)
        if owner is not None: return s.attn_shared(name, own, a, x, allow, p, table, owner)
        B, Tq, d = x.shape; H, Hk = a['heads'], a.get('kv_heads', a['heads']); n, c = a.get('qk_norm'), a.get('clip', 0)
        split = lambda z, h: z.view(B, z.shape[1], h, -1)
        q, k, v = split(s.lin(name + '.q', x), H), split(s.lin(name + '.k', kv), Hk), split(s.lin(name + '.v', kv), Hk)
        if n: q, k = s.qk_norm(name + '.q_norm', q, n), s.qk_norm(name + '.k_norm', k, n)
        if c: q, k, v = q.clamp(-c, c), k.clamp(-c, c), v.clamp(-c, c)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        if p['kind'] == 'rope':
            r = (p.get('theta', 10000.0), p.get('pairing', 'half'), p.get('fraction', 1.0), p.get('scaling')); q, k = rope(q, *r, context=context_of(s.spec, name.split('.')[0])), rope(k, *r, context=context_of(s.spec, name.split('.')[0]))
        s.rows[own] = k, v
        bias = distance_bias(p, table, H, Tq, a.get('causal', name.startswith('decoder')), q.shape[-1])
        y, w = sdpa(q, k, v, allow, bias, a.get('scale'), a.get('softcap', 0.0), s.w.get(name + '.sinks.weight'))
        s.weights[own] = w
        return s.lin(name + '.o', y.transpose(1, 2).reshape(B, Tq, -1))
    def attn_shared(s, name, own, a, x, allow, p, table, owner):
        """cross-layer attention (Brandon et al. 2024): queries of the layer, keys and values as the owner attends to them"""
        B, T, d = x.shape; H, n, c = a['heads'], a.get('qk_norm'), a.get('clip', 0); q = s.lin(name + '.q', x).view(B, T, H, -1)
        if n: q = s.qk_norm(name + '.q_norm', q, n)
        if c: q = q.clamp(-c, c)
        q, (k, v) = q.transpose(1, 2), s.rows[owner]
        if p['kind'] == 'rope': q = rope(q, p.get('theta', 10000.0), p.get('pairing', 'half'), p.get('fraction', 1.0), p.get('scaling'), context=context_of(s.spec, name.split('.')[0]))
        y, s.weights[own] = sdpa(q, k, v, allow, distance_bias(p, table, H, T, a.get('causal', name.startswith('decoder')), q.shape[-1]), a.get('scale'), a.get('softcap', 0.0), s.w.get(name + '.sinks.weight'))
        return s.lin(name + '.o', y.transpose(1, 2).reshape(B, T, -1))
    def latent(s, name, own, a, x, allow, p, table, owner=None):
        """multi-head latent attention (DeepSeek V2), every head's keys and values written out: a head is [as projected | rotated]"""
        B, T, d = x.shape; H, z = a['heads'], latent_of(a, d); rms = {'kind': 'rmsnorm', 'eps': z['eps']}; split = lambda y: y.view(B, T, H, -1).transpose(1, 2)
        q = split(s.lin(name + '.q_b', s.norm(name + '.q_a_norm', s.lin(name + '.q_a', x), rms)) if z['query_rank'] else s.lin(name + '.q', x)); D, r = q.shape[-1], z['rope_dim']
        c, shared = s.rows[owner] if owner is not None else (s.norm(name + '.kv_a_norm', s.lin(name + '.kv_a', x), rms), None)
        k, v = split(s.lin(name + '.k_b', c)), split(s.lin(name + '.v_b', c)); scale = a.get('scale')
        if r:
            turn = lambda y: y
            if p['kind'] == 'rope': turn = lambda y: rope(y, p.get('theta', 10000.0), p.get('pairing', 'half'), p.get('fraction', 1.0), p.get('scaling'), context=context_of(s.spec, name.split('.')[0]))
            if owner is None: shared = turn(s.lin(name + '.k_rope', x)[:, None])
            q, k = torch.cat([q[..., :D - r], turn(q[..., D - r:])], -1), torch.cat([k, shared.expand(B, H, T, r)], -1)
        s.rows[own] = c, shared
        if scale is None:
            y = p.get('scaling') or {}; scale = D ** -0.5 * (yarn_factor(y['factor'], y['mscale_all_dim']) ** 2 if y.get('kind') == 'yarn' and y.get('mscale_all_dim') else 1.0)
        y, w = sdpa(q, k, v, allow, distance_bias(p, table, H, T, a.get('causal', name.startswith('decoder')), D), scale, a.get('softcap', 0.0), s.w.get(name + '.sinks.weight'))
        s.weights[own] = w
        return s.lin(name + '.o', y.transpose(1, 2).reshape(B, T, -1))
    def chosen(s, e, scores):
        """the experts of each row, (…, k); closest: how near another choice was"""
        E, k, G = e['count'], e.get('top_k', 2), e.get('groups', 1); keep = e.get('top_groups', G); score = scores.detach(); gap = torch.full(score.shape[:-1], math.inf)
        if keep < G:
            in_groups = score.view(*score.shape[:-1], G, E // G); of = e.get('group_score', 'top2' if e.get('scores') == 'sigmoid' else 'max')
            best = in_groups.max(-1).values if of == 'max' else in_groups.topk(min(2, E // G), -1).values.sum(-1); order = best.sort(-1, descending=True)
            gap = order.values[..., keep - 1] - order.values[..., keep]; left = torch.zeros_like(best, dtype=torch.bool).scatter(-1, order.indices[..., :keep], True)
            score = in_groups.masked_fill(~left[..., None], NEG).flatten(-2)
        order = score.sort(dim=-1, descending=True, stable=True)
        if k < E: gap = torch.minimum(gap, order.values[..., k - 1] - order.values[..., k])
        return order.indices[..., :k], gap
    def experts(s, name, f, x, lengths):
        """mixture of experts: a router chooses k of E feed-forwards for each row (Shazeer et al. 2017 and its successors)"""
        e, B, T = f['experts'], *x.shape[:2]; E, k, way = e['count'], e.get('top_k', 2), e.get('scores', 'softmax'); logits = s.lin(name + '.router', x)
        p = {'softmax': lambda: torch.softmax(logits, -1), 'sigmoid': lambda: torch.sigmoid(logits), 'chosen': lambda: logits}[way]()
        at, gap = s.chosen(e, p + s.w[name + '.correction.weight'].detach() if e.get('correction') else p); w = p.gather(-1, at)
        if way == 'chosen': w = torch.softmax(w, -1)
        elif e.get('normalize', True): w = w / (w.sum(-1, keepdim=True) + (1e-20 if way == 'sigmoid' else 0))
        w = w * e.get('scale', 1.0); all_of = torch.stack([s.ffn(f'{name}.experts.{n}', f, x) for n in range(E)], -2)
        y = (w[..., None] * all_of.gather(-2, at[..., None].expand(*at.shape, x.shape[-1]))).sum(-2)
        if e.get('shared'):
            more = s.ffn(name + '.shared', f, x); y = y + (more * torch.sigmoid(s.lin(name + '.shared_gate', x)) if e.get('shared_gate') else more)
        n = lengths if lengths is not None else torch.full((B, ), T); real = torch.arange(T) < n[:, None]; s.closest = min(s.closest, float(gap[real].min()))
        # what training adds to the loss, sequence by sequence: the chosen should be spread as the router's probabilities are, and logits stay small
        q = p / p.sum(-1, keepdim=True) if way == 'sigmoid' else torch.softmax(logits, -1); mean = lambda z: (z * real.view(B, T, *[1] * (z.ndim - 2))).sum(1) / n.view(B, *[1] * (z.ndim - 2))
        count = (F.one_hot(at, E).sum(-2) * real[..., None]).sum(1); balance = e.get('balance_loss', 0 if e.get('correction') else 0.01)
        s.aux = s.aux + (balance * E / (k * n) * (count * mean(q)).sum(-1) + e.get('z_loss', 0) * mean(torch.logsumexp(logits, -1) ** 2)).mean()
        return y
    def ffn(s, name, f, x):
        u = s.lin(name + '.up', x)
        if f['kind'] == 'swiglu_clamped': h = clamped(s.lin(name + '.gate', x), u, f.get('limit', 7.0))
        else: h = ACTIVATIONS[GATES[f['kind']]](s.lin(name + '.gate', x)) * u if f['kind'] in GATES else ACTIVATIONS[f['kind']](u)
        return s.lin(name + '.down', h)
    def input(s, side, e, c, given):
        """(B,T,·): tokens, patches, frames or vectors, before positions"""
        i, n = input_of(s.spec, side), side + '.embed'
        if i['kind'] == 'patches':   # rows of patches from the top, each from the left; a patch is channel by channel, row by row
            x, P = c['pixels'], i['patch']; B, ch, height, width = x.shape
            x = x.view(B, ch, height // P, P, width // P, P).permute(0, 2, 4, 1, 3, 5).reshape(B, -1, ch * P * P); x = s.lin(n + '.patch', x)
            return torch.cat([s.w[n + '.class.weight'].expand(B, 1, -1), x], 1) if i.get('class_token', True) else x
        if i['kind'] == 'frames':
            x = F.gelu(F.conv1d(c['features'], s.w[n + '.conv1.weight'], s.w[n + '.conv1.bias'], padding=1))
            return F.gelu(F.conv1d(x, s.w[n + '.conv2.weight'], s.w[n + '.conv2.bias'], stride=i.get('stride', 2), padding=1)).transpose(1, 2)
        if i['kind'] == 'vectors': return s.lin(n + '.vector', c['vectors'])
        src = 'decoder' if side == 'encoder' and s.spec.get('tie') in ('all', 'stacks') and s.spec.get('decoder') else side
        x = s.w[src + '.embed.token.weight'][given] * e.get('scale', 1.0)
        return s.lin(n + '.project', x) if e.get('width') and e.get('project', 'end') == 'token' else x
    def embed(s, side, c, given, types):
        e, n = embed_of(s.spec, side), side + '.embed'; p = e['position']; x = s.input(side, e, c, given); at = p.get('offset', 0) + torch.arange(x.shape[1])
        if p['kind'] == 'learned': x = x + s.w[n + '.position.weight'][at]
        if p['kind'] == 'sinusoidal': x = x + sinusoid(at, x.shape[-1], p.get('layout', 'interleaved'))
        if e.get('types'): x = x + s.w[n + '.type.weight'][types if types is not None else torch.zeros(x.shape[:2], dtype=torch.long)]
        if e.get('norm'): x = s.norm(n + '.norm', x, e['norm'])
        return s.lin(n + '.project', x) if e.get('width') and e.get('project', 'end') == 'end' else x
    def allowed(s, side, a, T, lengths):
        i = torch.arange(T); r = i[None, :] - i[:, None]; w, right = a.get('window', 0), a.get('window_right', 0); allow = torch.ones(1, 1, T, T, dtype=torch.bool)
        if a.get('causal', side == 'decoder'): allow = allow & (r <= 0)
        if w: allow = allow & (-r < w)
        if right or w: allow = allow & (r < (right or w))
        return allow if lengths is None else allow & (i < lengths[:, None]).view(len(lengths), 1, 1, T)
    def block(s, n, q, x, subs):
        """one layer: subs are (part, function); n names the weights"""
        norm, r = q['norm'], q.get('residual_scale', 1.0); place = norm.get('placement', 'pre')
        N = lambda part, z, kind='norm': z if part == 'attn' and not norm.get('attention', True) else s.norm(f'{n}.{part}_{kind}', z, norm)
        if place == 'parallel': z = N('attn', x); return x + r * sum(f(z) for _, f in subs)
        if place == 'parallel_two': return x + r * sum(f(N(part, x)) for part, f in subs)
        for part, f in subs:
            if place == 'pre': x = x + r * f(N(part, x))
            elif place == 'post': x = N(part, x + r * f(x))
            elif place == 'sandwich': x = x + r * N(part, f(N(part, x)), 'out_norm')
            elif place == 'output': x = x + r * N(part, f(x))
            else: raise ValueError(place)
        return x
    def stack(s, side, c, given, lengths, types, memory=None, memory_lengths=None):
        sp = s.spec; x = s.embed(side, c, given, types); B, T = x.shape[:2]; call, none = None, {'kind': 'none'}
        if memory is not None:
            call = torch.ones(1, 1, T, memory.shape[1], dtype=torch.bool)
            if memory_lengths is not None: call = call & (torch.arange(memory.shape[1]) < memory_lengths[:, None]).view(B, 1, 1, -1)
        layers = layers_of(sp, side)
        for l, k in enumerate(layers):
            by = f'{side}.layers.{owner_of(layers, l, width_of(sp, side))}.attn' if k['attention'].get('share') else None
            n, own, a, p = f'{side}.layers.{first_of_group(sp[side], l)}', f'{side}.layers.{l}', k['attention'], k['position']
            allow, table = s.allowed(side, a, T, lengths), s.w.get(f"{side}.position.{'slopes' if p['kind'] == 'alibi' else p['kind']}.weight")
            if p['kind'] == 'alibi' and not p.get('learn'): table = None
            subs = [('attn', lambda z: s.attn(n + '.attn', own + '.attn', a, z, z, allow, p, table, by))]
            if memory is not None: subs.append(('cross', lambda z: s.attn(n + '.cross', own + '.cross', cross_of(k), z, memory, call, none)))
            subs.append(('ffn', lambda z: s.experts(n + '.ffn', k['ffn'], z, lengths) if k['ffn'].get('experts') else s.ffn(n + '.ffn', k['ffn'], z)))
            x = s.block(n, k, x, subs)
        return s.norm(side + '.norm', x, k['norm']) if final_of(k['norm']) else x
    def head(s, x, c):
        h = s.spec.get('head', {'kind': 'lm'}); B, T = x.shape[:2]; t = h.get('transform')
        if h['kind'] == 'none': return x
        if h['kind'] == 'classify':
            lengths = c['lengths'] if 'lengths' in c else torch.full((B, ), T)
            if h['pool'] == 'first': x = x[:, 0]
            elif h['pool'] == 'last': x = x[torch.arange(B), lengths - 1]
            else: m = (torch.arange(T) < lengths[:, None]).double()[..., None]; x = (x * m).sum(1) / m.sum(1)
        if t:
            x = ACTIVATIONS[t.get('activation', 'none')](s.lin('head.transform', x))
            if t.get('norm'): x = s.norm('head.norm', x, t['norm'])
        W = s.w['head.weight'] if 'head.weight' in s.w else s.w[main_of(s.spec) + '.embed.token.weight']
        x = F.linear(x, W, s.w.get('head.bias')) * h.get('scale', 1.0); cap = h.get('softcap', 0)
        return cap * torch.tanh(x / cap) if cap else x
    def forward(s, c):
        s.weights, s.rows, s.aux, s.closest = {}, {}, 0.0, math.inf; sp = s.spec; get = lambda *names: [c.get(n) for n in names]; mem = None
        if sp.get('encoder'): mem = s.stack('encoder', c, *get(*(('source', 'source_lengths', 'source_token_types') if both(sp) else ('ids', 'lengths', 'token_types'))))
        x = s.stack('decoder', c, *get('ids', 'lengths', 'token_types'), mem, c.get('source_lengths')) if sp.get('decoder') else mem
        return s.head(x, c)
