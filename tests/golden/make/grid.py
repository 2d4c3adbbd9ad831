"""Random specs over the whole grid: of one kind of layer, of several kinds, and with the axes of published families laid over them."""
from cases import stack, spec, spec2, kinds
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
    tie = r.choice(['none', 'head'] + (['all', 'stacks'] if topo == 'both' else [])) if head['kind'] == 'lm' else 'none'
    if topo == 'both' and tie not in ('all', 'stacks') and r.random() < .5: kw['source_vocab'] = 19
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
                 tie=r.choice(['none', 'head'] + (['all', 'stacks'] if topo == 'both' else [])), head={'kind': 'lm', 'bias': r.random() < .5})

# ---- axes: each changes a spec of version 2 somewhere that it makes sense, or leaves it alone ---------------------------------------------------------------
def version_2(s):
    if s['version'] == 2: return s
    s = dict(s, version=2); p = s.pop('position'); inside = p['kind'] in ('rope', 'alibi')
    s['embed'] = {'position': {'kind': 'none'} if inside else p, 'scale': s.pop('embed_scale')}
    for _, _, l in layers(s): l['attention']['position'] = dict(p) if inside else {'kind': 'none'}
    return s
def layers(s):
    """(side, stack, kind of layer) of all"""
    return [(side, s[side], l) for side in ('encoder', 'decoder') if s.get(side) for l in (s[side]['kinds'].values() if 'kinds' in s[side] else [s[side]])]
def sides(s): return [x for x in ('encoder', 'decoder') if s.get(x)]
def pick(s, r):
    """some of the layers, at least one"""
    all_of = layers(s); some = [x for x in all_of if r.random() < .7]; return some or [r.choice(all_of)]
def attentions(s, r):
    for side, _, l in pick(s, r):
        yield l['attention'], side
        if 'cross' in l: yield l['cross'], side
def without_latent(s, r): return ((a, side) for a, side in attentions(s, r) if not a.get('latent'))
def causal(a, side): return a.get('causal', side == 'decoder')
def rotated(a): p = a['position']; return int(a['head_dim'] * p.get('fraction', 1.0)) // 2 * 2
def norm_object(r, **kw):
    kind = r.choice(['layernorm', 'rmsnorm', 'rmsnorm_plus_one']); n = {'kind': kind, 'eps': r.choice([1e-5, 1e-3]), **kw}
    if r.random() < .15: n['weight'] = False
    elif kind == 'layernorm': n['bias'] = r.random() < .6
    return n
def width_of(s): return s[sides(s)[-1]].get('d_model', s['d_model'])
def tied(s): return s['head']['kind'] == 'lm' and s.get('tie', 'none') in ('head', 'all')
def untie_all(s):
    s['tie'] = {'all': 'head', 'stacks': 'none'}.get(s.get('tie'), s.get('tie', 'none'))
def head_width(s, width):
    """a tied head reads rows of the embedding's width"""
    if tied(s): s['head']['transform'] = {**s['head'].get('transform', {'activation': 'none'}), 'width': width}

def cross(s, r):
    for side, _, l in layers(s):
        if len(sides(s)) < 2 or side == 'encoder' or r.random() < .3: continue
        h = r.choice([1, 2, 4]); l['cross'] = {'heads': h, 'kv_heads': r.choice([1, h]), 'head_dim': r.choice([5, 8]), 'value_dim': r.choice([4, 9]), 'bias': r.choice([True, False, 'qkv', 'o'])}
def widths(s, r):
    if len(sides(s)) == 2: untie_all(s); s[r.choice(sides(s))]['d_model'] = r.choice([20, 30, 44])
def stacks(s, r):
    for side in sides(s):
        s[side]['embed'] = {'position': {'kind': r.choice(['none', 'learned', 'sinusoidal'])}, 'scale': r.choice([1.0, 3.0])}
        if r.random() < .5: s[side]['embed']['norm'] = norm_object(r)
def places(s, r):
    """embedding objects to change: those of stacks, else the common one"""
    own = [s[side]['embed'] for side in sides(s) if 'embed' in s[side]]; return own or [s['embed']]
def embed_norm(s, r):
    for e in places(s, r): e['norm'] = norm_object(r)
def types(s, r):
    for e in places(s, r): e['types'] = r.choice([1, 2, 5])
def offset(s, r):
    for e in places(s, r): e['position'] = {'kind': r.choice(['learned', 'sinusoidal']), 'offset': r.choice([1, 2, 7])}
def layout(s, r):
    for e in places(s, r): e['position'] = {**e.get('position', {}), 'kind': 'sinusoidal', 'layout': r.choice(['halves', 'spaced'])}
def width(s, r):
    E = r.choice([6, 10, 50]); s['embed'].update(width=E, bias=r.random() < .5, project=r.choice(['end', 'token'])); head_width(s, E)
def input(s, r):
    if 'encoder' not in s: return
    untie_all(s); s.pop('source_vocab', None); e = s['encoder'].setdefault('embed', {}); alone = len(sides(s)) == 1
    if alone: s['tie'] = 'none'
    e.update(r.choice([
        {'input': {'kind': 'patches', 'channels': r.choice([1, 3]), 'height': 6, 'width': r.choice([4, 6]), 'patch': 2, 'class_token': r.random() < .5}},
        {'input': {'kind': 'frames', 'channels': r.choice([5, 8]), 'kernel': 3, 'stride': 2}},
        {'input': {'kind': 'vectors', 'channels': r.choice([3, 7, 40]), 'bias': r.random() < .6}}]))
    for x in (e, s['embed']) if alone else (e, ):
        for name in ('types', 'width', 'bias', 'project'): x.pop(name, None)
    if not alone:   # what the decoder has is no longer common
        own = {n: s['embed'].pop(n) for n in ('types', 'width', 'bias', 'project') if n in s['embed']}; s['decoder']['embed'] = {**own, **s['decoder'].get('embed', {})}
    e['scale'] = 1.0
def source_context(s, r):
    if len(sides(s)) < 2: return
    if s['encoder'].get('embed', {}).get('input', {}).get('kind', 'tokens') == 'tokens': input(s, r)
    s['source_context'] = r.choice([13, 17, 50])   # the longest source has 13 positions
def transform(s, r):
    h = s['head']
    if h['kind'] == 'none': return
    t = {'width': h.get('transform', {}).get('width') or (width_of(s) if tied(s) else r.choice([10, 36, 40])), 'activation': r.choice(['none', 'tanh', 'gelu', 'gelu_tanh', 'relu', 'silu', 'quick_gelu', 'relu2']), 'bias': r.random() < .6}
    if r.random() < .6: t['norm'] = norm_object(r)
    h['transform'] = t
def scores(s, r):
    h = s['head']
    if h['kind'] != 'none': h.update(r.choice([{'softcap': r.choice([1.0, 8.0])}, {'scale': r.choice([0.25, 1.7])}, {'softcap': 3.0, 'scale': 0.5}]))
def classify_tokens(s, r):
    if len(sides(s)) == 1: s['tie'] = 'none'; s['head'] = {'kind': 'classify_tokens', 'classes': r.choice([2, 6]), 'bias': r.random() < .6}
def pool(s, r):
    if len(sides(s)) == 1: s['tie'] = 'none'; s['head'] = {'kind': 'classify', 'classes': r.choice([2, 6]), 'bias': r.random() < .6, 'pool': r.choice(['last', 'last', 'mean', 'first'])}
def placement(s, r):
    for _, _, l in layers(s): l['norm'].update(placement=r.choice(['sandwich', 'output', 'parallel', 'parallel_two', 'pre', 'post']), final=r.random() < .7)
def norm_attention(s, r):
    for _, _, l in pick(s, r):
        if l['norm']['placement'] != 'parallel': l['norm']['attention'] = False
def residual(s, r):
    for _, _, l in pick(s, r): l['residual_scale'] = r.choice([0.22, 0.5, 1.7])
def share(s, r):
    k = s[r.choice(sides(s))]
    if 'kinds' in k: k['pattern'] = [n for n in k['kinds'] for _ in '12']; k['layers'] = len(k['pattern']); k['share'] = len(k['kinds'])
    else: k['layers'] = r.choice([2, 3, 5]); k['share'] = r.choice([1, 2])
def norms(s, r):
    for _, _, l in layers(s):
        n = l['norm']; n.update(r.choice([{'kind': 'rmsnorm_plus_one'}, {'weight': False}, {'kind': 'layernorm', 'bias': False}]))
        if not n.get('weight', True) or n['kind'] != 'layernorm': n.pop('bias', None)
def activations(s, r):
    for _, _, l in layers(s):
        l['ffn']['kind'] = r.choice(['quick_gelu', 'relu2', 'tanh', 'reglu', 'relu2_glu', 'geglu_tanh', 'quick_geglu', 'tanh_glu', 'swiglu_clamped'])
        if l['ffn']['kind'] == 'swiglu_clamped': l['ffn']['limit'] = r.choice([0.8, 7.0])
def scaling(s, r):
    for side, _, l in pick(s, r):
        a = l['attention']; a['position'] = p = {'kind': 'rope', 'theta': r.choice([10000.0, 60.0]), 'pairing': r.choice(['half', 'interleaved']), 'fraction': r.choice([1.0, 0.75])}; d = rotated(a)
        kind = r.choice(['linear', 'yarn', 'llama3', 'longrope'] + (['dynamic', 'ntk'] if d > 2 else [])); z = {'kind': kind, 'factor': r.choice([1.5, 4.0, 32.0])}
        if d < 2: p['fraction'] = 1.0
        if kind not in ('linear', 'ntk'): z['original_context'] = r.choice([3, 8, 64]) if kind != 'yarn' else r.choice([24, 64])
        if kind == 'yarn': z.update(r.choice([{}, {'truncate': False, 'beta_fast': 6.0, 'beta_slow': 0.5}, {'mscale': 0.7, 'mscale_all_dim': 1.0}, {'attention_factor': 0.8}]))
        if kind == 'linear': z.update(r.choice([{}, {'attention_factor': 1.1}]))
        if kind == 'llama3': z.update(r.choice([{}, {'low_freq': 0.5, 'high_freq': 2.0}]))
        if kind == 'longrope': n = rotated(a) // 2; z.update(short=[1 + 0.1 * j for j in range(n)], long=[1.0 + j * j for j in range(n)], **r.choice([{}, {'attention_factor': 1.2}]))
        if kind == 'longrope' and r.random() < .3: del z['factor']
        p['scaling'] = z
def latent(s, r):
    for _, _, l in pick(s, r):
        a = l['attention']; D = a['head_dim']; a.pop('qk_norm', None); a.pop('clip', None)
        a['kv_heads'] = a['heads']; a['latent'] = {'rank': r.choice([1, 5, 12]), 'query_rank': r.choice([0, 0, 7]), 'rope_dim': r.choice([2, D // 4 * 2 or 2, D - 2 if D > 2 else 2])}; a['bias'] = r.choice([False, True, 'qkv', 'o', 'kv', 'q', 'qo'])
        if a['latent']['rank'] == 1: a['latent']['eps'] = 0.1   # a norm of one channel is its sign, a step that no rounding may cross
        if a['position']['kind'] == 'rope':
            a['position'].pop('scaling', None)
            if a['latent']['rope_dim'] * a['position'].get('fraction', 1.0) < 2: a['position']['fraction'] = 1.0
def experts(s, r):
    for _, _, l in pick(s, r):
        E = r.choice([2, 4, 6]); k = r.choice([1, 2]); e = {'count': E, 'top_k': k, 'scores': r.choice(['softmax', 'chosen', 'sigmoid']), 'bias': r.random() < .4, 'correction': r.random() < .3, 'balance_loss': r.choice([0.0, 0.1]), 'z_loss': r.choice([0.0, 0.05]), 'scale': r.choice([1.0, 2.5])}
        if e['scores'] != 'chosen': e['normalize'] = r.random() < .5
        if E > 2 and r.random() < .4: e.update(groups=2, top_groups=1, group_score=r.choice(['max', 'top2']))
        if r.random() < .5: e.update(shared=r.choice([3, 9]), shared_gate=r.random() < .5)
        l['ffn'].update(d_ff=r.choice([5, 16]), experts=e)
def qk_norm(s, r):
    for a, _ in without_latent(s, r): a['qk_norm'] = norm_object(r, over=r.choice(['head', 'heads', 'width']))
def clip(s, r):
    for a, _ in without_latent(s, r): a['clip'] = r.choice([0.3, 1.0])
def scale(s, r):
    for a, _ in attentions(s, r): a['scale'] = round(r.choice([0.25, 0.6, 1.5]) / a['head_dim'] ** 0.5, 4)   # of scores that are no larger than others'
def window_right(s, r):
    for side, _, l in pick(s, r):
        if not causal(l['attention'], side): l['attention'].update(window_right=r.choice([1, 2, 4]), window=r.choice([0, 1, 3]))
def biases(s, r):
    for a, _ in without_latent(s, r): a['bias'] = r.choice(['q', 'k', 'v', 'qk', 'qv', 'kv', 'qo', 'ko', 'vo', 'qko', 'qvo', 'kvo'])
def sinks(s, r):
    for a, _ in attentions(s, r): a['sinks'] = True
def table(s, r, position):
    """a position with a table, in all layers of a stack that have as many heads as one of them"""
    alike = lambda a: (a['heads'], a['head_dim'] if position.get('form') == 'falcon' else 0)   # its slopes are divided by √head_dim
    k = r.choice(sides(s)); of = [l['attention'] for side, _, l in layers(s) if side == k]; one = alike(r.choice(of))
    for a in of:
        if alike(a) == one: a['position'] = dict(position)
def buckets(s, r): table(s, r, {'kind': 'buckets', **r.choice([{'buckets': 8, 'max_distance': 5}, {'buckets': 6, 'max_distance': 9}, {'buckets': 32, 'max_distance': 128}])})
def relative(s, r): table(s, r, {'kind': 'relative', 'max_distance': r.choice([1, 3, 20])})
def alibi(s, r):
    if r.random() < .5: return table(s, r, {'kind': 'alibi', **r.choice([{'form': 'mpt', 'max': 4}, {'form': 'falcon'}, {}]), 'learn': True})
    for _, _, l in pick(s, r): l['attention']['position'] = {'kind': 'alibi', **r.choice([{'form': 'mpt'}, {'form': 'mpt', 'max': 5}, {'form': 'falcon'}])}
# In this order: what changes the shape of a spec comes before what looks at it.
AXES = {f.__name__: f for f in (cross, classify_tokens, pool, stacks, widths, embed_norm, types, offset, layout, width, input, source_context, transform, scores, placement, norm_attention, residual, share, norms, activations,
                                scaling, buckets, relative, alibi, latent, experts, qk_norm, clip, scale, window_right, biases, sinks)}
NEUTRAL = {'softcap': 0.0, 'scale': None, 'qk_norm': None, 'clip': 0.0, 'sinks': False}
def lay_over(s, r, names, few):
    """the spec with axes laid over it: all that are named, or a few of them"""
    s = version_2(s); chosen = r.sample(names, min(len(names), r.choice([1, 2, 3, 5, 8]))) if few else names
    for name, axis in AXES.items():
        if name in chosen: axis(s, r)
    for _, _, l in layers(s):   # cross attention that is written out has what it says, and nothing of self attention
        if 'cross' in l: l['cross'] = {**{n: v for n, v in NEUTRAL.items() if n in l['attention']}, **l['cross']}
    if all('embed' in s[side] for side in sides(s)): read(s['embed'], [s[side]['embed'] for side in sides(s)])
    return s
def read(common, own):
    """leaves out of what is common what no stack reads, as each says something of its own"""
    for n in list(common):
        if any(n not in o for o in own): continue
        if isinstance(common[n], dict) and all(isinstance(o[n], dict) for o in own): read(common[n], [o[n] for o in own])
        else: del common[n]
