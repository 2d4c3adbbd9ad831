"""The committed cases: a spec by name. Their order is their seed, so new ones come last."""
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

# ---- the axes of published families: version 2, small, a case for each or for a group that goes together --------------------------------
def layer(heads=4, norm='layernorm', place='pre', ffn='gelu', d_ff=16, n={}, f={}, **attention):
    return {'attention': {'heads': heads, **attention}, 'norm': {'kind': norm, 'placement': place, 'eps': 1e-5, **n}, 'ffn': {'kind': ffn, 'd_ff': d_ff, **f}}
def one(layers=2, share=0, residual_scale=1.0, **kw):
    return {'layers': layers, **layer(**kw), **({'share': share} if share else {}), **({'residual_scale': residual_scale} if residual_scale != 1 else {})}
def some(*named, times=1, **kw):
    """kinds a, b, c … that take turns; kw: what they have in common"""
    names = 'abcdefgh'[:len(named)]
    return kinds(len(named) * times, list(names), layer(**kw), **dict(zip(names, named)))
def small(dec=None, enc=None, embed=None, head=None, tie='head', d=None, vocab=13, context=12, **kw):
    """without d: 12 channels, heads of 4 where a stack says nothing"""
    for stack in (enc, dec) if d is None else ():
        if stack: stack['attention'] = {'head_dim': 4, **stack['attention']}
    s = {'format': 'qkv', 'version': 2, 'vocab': vocab, 'd_model': d or 12, 'context': context, 'embed': {'position': {'kind': 'none'}, 'scale': 1.0, **(embed or {})},
         'tie': tie, 'dropout': 0.0, 'head': head or {'kind': 'lm', 'bias': False}, **kw}
    return {**s, **({'encoder': enc} if enc else {}), **({'decoder': dec} if dec else {})}
def turned(kind=None, theta=10000.0, fraction=1.0, pairing='half', **scaling):
    p = {'kind': 'rope', 'theta': theta, 'fraction': fraction, 'pairing': pairing}
    return {'position': {**p, 'scaling': {'kind': kind, **scaling}} if kind else p}
def mixed(bias=True, limit=0, **experts): return {'f': {'bias': bias, **({'limit': limit} if limit else {}), 'experts': {'balance_loss': 0.0, **experts}}}
def turns(*ways): return [{'attention': way} for way in ways]
LLAMA = dict(norm='rmsnorm', ffn='swiglu', bias=False, f={'bias': False}, kv_heads=2)
LEARNED, NO_BIAS = {'position': {'kind': 'learned'}}, {'bias': False}
LN = {'kind': 'layernorm', 'eps': 1e-5}
PUBLIC.update({
 # rotation: a scaling for each layer; T is 9
 'rope_linear_ntk': small(some(*turns(turned('linear', factor=4.0), turned('ntk', factor=3.0, fraction=0.75)), head_dim=8, **LLAMA), tie='none'),
 'rope_dynamic': small(some(*turns(turned('dynamic', factor=2.0, original_context=5), turned('dynamic', factor=2.0, original_context=12)), head_dim=8, **LLAMA)),
 'rope_yarn': small(some(*turns(turned('yarn', theta=50.0, factor=4.0, original_context=32), turned('yarn', theta=100.0, factor=32.0, original_context=40, beta_fast=8, beta_slow=0.5, truncate=False, attention_factor=1.3)), head_dim=12, **LLAMA)),
 'rope_yarn_mscale': small(some(*turns(turned('yarn', theta=30.0, factor=8.0, original_context=24, mscale=0.7, mscale_all_dim=1.0, pairing='interleaved'), turned('yarn', factor=40.0, original_context=16, mscale=1.0, mscale_all_dim=1.0)), head_dim=12, scale=0.5, **LLAMA)),
 'rope_llama3': small(some(*turns(turned('llama3', theta=500.0, factor=8.0, original_context=64), turned('llama3', theta=40.0, factor=32.0, original_context=16, low_freq=0.5, high_freq=2.0)), head_dim=12, **LLAMA)),
 'rope_longrope': small(some(*turns(turned('longrope', factor=4.0, original_context=4, short=[1.0, 1.1, 1.25], long=[1.0, 2.5, 16.0], fraction=0.75), turned('longrope', factor=4.0, original_context=12, short=[1.05, 1.1, 1.25, 1.5], long=[1.0, 2.5, 4.0, 16.0]),
    turned('longrope', factor=2.0, original_context=8, attention_factor=1.4, short=[1.0, 1.0, 1.0, 1.0], long=[1.5, 2.0, 3.0, 4.0])), head_dim=8, **{**LLAMA, 'd_ff': 12})),
 # attention
 'qk_norm_head': small(one(head_dim=6, qk_norm={'kind': 'rmsnorm', 'eps': 1e-6, 'over': 'head'}, **turned(), **LLAMA), tie='none'),
 'qk_norm_heads': small(one(head_dim=6, qk_norm={'kind': 'layernorm', 'eps': 1e-5, 'bias': False, 'over': 'heads'}, n=NO_BIAS, **turned(pairing='interleaved'), **{**LLAMA, 'norm': 'layernorm'})),
 'qk_norm_width': small(some(*turns({'qk_norm': {'kind': 'rmsnorm', 'eps': 1e-6, 'over': 'width'}}, {'qk_norm': {'kind': 'layernorm', 'eps': 1e-5, 'bias': True, 'over': 'width'}}, {'qk_norm': {'kind': 'rmsnorm_plus_one', 'eps': 1e-6, 'over': 'head'}}),
    head_dim=6, kv_heads=2, d_ff=12, **turned())),
 'qk_norm_seq2seq': small(one(1, d_ff=12, qk_norm={'kind': 'layernorm', 'eps': 1e-5, 'bias': True, 'over': 'heads'}), one(1, d_ff=12, qk_norm={'kind': 'layernorm', 'eps': 1e-5, 'weight': False, 'over': 'head'}), LEARNED),
 'clip': small(some(*turns({'clip': 0.9}, {'clip': 1.3, 'qk_norm': {'kind': 'rmsnorm', 'eps': 1e-5, 'over': 'head'}}), **turned())),
 'window_right': small(enc=some(*turns({'window_right': 3}, {'window': 3, 'window_right': 1}, {'window': 2, 'window_right': 5}), d_ff=12, **turned())),
 'bias_letters': small(some(*turns({'bias': 'k'}, {'bias': 'qvo'}, {'bias': 'vo', 'kv_heads': 1}), d_ff=12), embed=LEARNED),
 'sinks': small(some(*turns({'sinks': True, 'window': 3}, {'sinks': True, 'softcap': 3.0}), kv_heads=2, **turned('yarn', theta=150.0, factor=32.0, original_context=32, truncate=False))),
 't5_buckets': small(one(norm='rmsnorm', ffn='geglu_tanh', d_ff=8, head_dim=3, scale=1.0, bias=False, f=NO_BIAS, position={'kind': 'buckets', 'buckets': 8, 'max_distance': 6}),
    one(norm='rmsnorm', ffn='geglu_tanh', d_ff=8, head_dim=3, scale=1.0, bias=False, f=NO_BIAS, position={'kind': 'buckets', 'buckets': 8, 'max_distance': 6}), d=8, tie='all', head={'kind': 'lm', 'bias': False, 'scale': 0.25}),
 'relative_bias': small(enc=some(*turns({'window': 4}, {}, {'causal': True}), d_ff=12, position={'kind': 'relative', 'max_distance': 3})),
 'alibi_mpt': small(some(*turns({'position': {'kind': 'alibi', 'form': 'mpt', 'max': 4}}, {'position': {'kind': 'alibi', 'form': 'mpt'}}), heads=6, head_dim=4, kv_heads=3, n=NO_BIAS, bias=False, f=NO_BIAS)),
 'alibi_falcon': small(some(*turns({}, {'scale': 0.3}), heads=6, head_dim=4, position={'kind': 'alibi', 'form': 'falcon'})),
 'alibi_learned': small(enc=one(1, heads=6, head_dim=3, d_ff=8, position={'kind': 'alibi', 'learn': True}), dec=one(heads=3, head_dim=4, d_ff=8, position={'kind': 'alibi', 'form': 'falcon', 'learn': True}), tie='none', d=8),
 # blocks
 'sandwich_plus_one': small(some({'attention': {'window': 3}}, {}, norm='rmsnorm_plus_one', place='sandwich', ffn='geglu_tanh', head_dim=6, kv_heads=2, softcap=4.0, scale=0.3, bias=False, f=NO_BIAS, **turned()), embed={'scale': 4.0}, head={'kind': 'lm', 'bias': False, 'softcap': 6.0}),
 'sandwich_seq2seq': small(one(1, norm='rmsnorm', place='sandwich', d_ff=12), one(1, place='sandwich', d_ff=12), LEARNED),
 'output_norm': small(one(norm='rmsnorm', place='output', qk_norm={'kind': 'rmsnorm', 'eps': 1e-6, 'over': 'width'}, **turned(), **{k: v for k, v in LLAMA.items() if k != 'norm'}), tie='none'),
 'output_seq2seq': small(one(1, place='output', d_ff=12, n={'final': False}), one(1, norm='rmsnorm', place='output', d_ff=12), LEARNED),
 'parallel': small(one(place='parallel', bias='qkv', f=NO_BIAS, n=NO_BIAS, ffn='swiglu', **turned(pairing='interleaved', fraction=0.5)), head={'kind': 'lm', 'bias': True, 'scale': 0.25}),
 'parallel_seq2seq': small(one(1, place='parallel', d_ff=12), one(1, place='parallel_two', d_ff=12), LEARNED),
 'parallel_two': small(one(place='parallel_two', **turned(fraction=0.5)), tie='none'),
 'residual_scale': small(one(residual_scale=0.22, scale=0.25, **turned(), **LLAMA), embed={'scale': 12.0}, head={'kind': 'lm', 'bias': False, 'scale': 0.125}),
 'residual_kinds': small(some({'residual_scale': 0.5, 'norm': {'placement': 'post'}}, {'residual_scale': 2.0, 'norm': {'placement': 'parallel'}}, {'residual_scale': 0.3, 'norm': {'placement': 'sandwich'}}, d_ff=12, **turned())),
 'first_without_norm': small(enc=some({'norm': {'attention': False}}, {'attention': {'window': 3, **turned(theta=100.0)}}, {}, n=NO_BIAS, bias=False, f=NO_BIAS, ffn='geglu', d_ff=12, **turned(theta=1000.0)), embed={'norm': {**LN, 'bias': False}}),
 'shared_layers': small(enc=one(5, share=2, place='post', ffn='gelu_tanh'), embed=LEARNED),
 'shared_seq2seq': small(one(2, share=1, d_ff=8), some({}, {'attention': {'window': 3}}, times=2, d_ff=8) | {'share': 2, 'pattern': ['a', 'a', 'b', 'b']}, LEARNED, d=8),
 # norms and feed-forwards
 'bare_norms': small(some({}, {'norm': {'kind': 'rmsnorm', 'weight': False}}, {'norm': {'kind': 'layernorm', 'weight': False, 'placement': 'post', 'final': True}}, n={'weight': False}, d_ff=12, **turned())),
 'plus_one_norms': small(one(norm='rmsnorm_plus_one', place='post', n={'final': True}, **turned())),
 'activations': small(some(*[{'ffn': {'kind': k}} for k in ('quick_gelu', 'relu2', 'tanh')], d_ff=12, **turned())),
 'gates': small(some(*[{'ffn': {'kind': k}} for k in ('reglu', 'relu2_glu', 'geglu_tanh', 'quick_geglu')], d_ff=10, heads=2, head_dim=4, **turned())),
 'swiglu_clamped': small(some({'ffn': {'limit': 0.7}}, {'ffn': {'bias': False}}, ffn='swiglu_clamped', d_ff=12, norm='rmsnorm', **turned())),
 # embedding
 'embed_norm': small(one(position={'kind': 'alibi'}), embed={'norm': LN}),
 'token_types': small(enc=one(place='post'), embed={**LEARNED, 'types': 3, 'norm': {'kind': 'layernorm', 'eps': 1e-12}}),
 'position_offset': small(one(1, d_ff=12, ffn='relu'), one(1, d_ff=12, place='post'), {'position': {'kind': 'learned', 'offset': 2}, 'norm': LN}),
 'sinusoid_halves': small(one(1, place='post', d_ff=12, ffn='silu'), one(1, place='post', d_ff=12, ffn='silu'), {'position': {'kind': 'sinusoidal', 'layout': 'halves'}, 'scale': 4.0}, tie='all', head={'kind': 'lm', 'bias': True}),
 'sinusoid_spaced': small(one(1, ffn='relu', d_ff=12), one(1, ffn='relu', d_ff=12), {'position': {'kind': 'sinusoidal', 'layout': 'spaced', 'offset': 2}, 'scale': 4.0}, tie='all'),
 'albert_embedding': small(enc=one(3, share=1, place='post', ffn='gelu_tanh'), embed={**LEARNED, 'types': 2, 'norm': {'kind': 'layernorm', 'eps': 1e-12}, 'width': 6}, head={'kind': 'lm', 'bias': True, 'transform': {'width': 6, 'activation': 'gelu_tanh', 'norm': {'kind': 'layernorm', 'eps': 1e-12}}}),
 'opt_embedding': small(one(place='post', ffn='relu'), embed={'position': {'kind': 'learned', 'offset': 2}, 'width': 6, 'bias': False, 'project': 'token'}, head={'kind': 'lm', 'bias': False, 'transform': {'width': 6, 'activation': 'none', 'bias': False}}),
 'two_widths': small(one(1, d_ff=12), one(1, heads=2, d_ff=12) | {'d_model': 10, 'embed': {'position': {'kind': 'sinusoidal'}, 'scale': 3.0, 'norm': LN}}, LEARNED, tie='head', source_vocab=11),
 # head
 'mlm_head': small(enc=one(place='post'), embed=LEARNED, head={'kind': 'lm', 'bias': True, 'transform': {'activation': 'gelu', 'norm': {'kind': 'layernorm', 'eps': 1e-12}}}),
 'head_softcap': small(one(**turned(), **LLAMA), tie='none', head={'kind': 'lm', 'bias': True, 'softcap': 1.5, 'scale': 1.7}),
 'classify_tokens': small(enc=one(place='post'), embed=LEARNED, tie='none', head={'kind': 'classify_tokens', 'classes': 5, 'transform': {'width': 12, 'activation': 'gelu'}}),
 'pooler': small(enc=one(place='post'), embed={**LEARNED, 'types': 2}, tie='none', head={'kind': 'classify', 'classes': 4, 'pool': 'first', 'transform': {'activation': 'tanh'}}),
 'pool_last': small(one(**turned(), **LLAMA), tie='none', head={'kind': 'classify', 'classes': 4, 'pool': 'last', 'bias': False, 'softcap': 2.0}),
 # input
 'vit_patches': small(enc=one(n={'eps': 1e-12}), embed={**LEARNED, 'input': {'kind': 'patches', 'channels': 3, 'height': 8, 'width': 12, 'patch': 4, 'class_token': True}}, tie='none', head={'kind': 'classify', 'classes': 5, 'pool': 'first'}),
 'patches_mean': small(enc=one(norm='rmsnorm', **turned()), embed={'norm': LN, 'input': {'kind': 'patches', 'channels': 1, 'height': 9, 'width': 6, 'patch': 3, 'class_token': False}}, tie='none', head={'kind': 'classify', 'classes': 5, 'pool': 'mean'}),
 'whisper_frames': small(one(1, bias='qvo', d_ff=12), one(1, bias='qvo', d_ff=12) | {'embed': {'position': {'kind': 'sinusoidal', 'layout': 'spaced'}, 'input': {'kind': 'frames', 'channels': 6, 'kernel': 3, 'stride': 2}}}, LEARNED),
 'frames': small(enc=one(1, d_ff=12), embed={**LEARNED, 'input': {'kind': 'frames', 'channels': 6, 'kernel': 3, 'stride': 2}}, tie='none', head={'kind': 'classify_tokens', 'classes': 4}),
 'vectors': small(enc=one(), embed={**LEARNED, 'input': {'kind': 'vectors', 'channels': 7, 'bias': True}}, tie='none', head={'kind': 'classify_tokens', 'classes': 4}),
 # kinds that share a table of distances, and behind them kinds that have none, or one that is not learnt
 'distance_kinds': small(some(*turns(*[{'position': p} for p in ({'kind': 'relative', 'max_distance': 3}, {'kind': 'none'}, {'kind': 'alibi'}, {'kind': 'rope'}, {'kind': 'buckets', 'buckets': 6, 'max_distance': 5})]), heads=2, d_ff=8, head_dim=4), d=12),
 # experts: layers of few rows, as every choice is to be far from another one
 'experts_softmax': small(one(1, d_ff=8, **mixed(count=4, top_k=2), ffn='swiglu', norm='rmsnorm', bias=False, **turned())),
 'experts_losses': small(some({}, {'ffn': {'experts': {'count': 3, 'top_k': 1, 'normalize': False, 'scores': 'sigmoid', 'balance_loss': 0.7, 'z_loss': 0.3}}}, d_ff=6, ffn='silu', **mixed(count=4, top_k=2, balance_loss=0.5, z_loss=0.2))),
 'experts_shared': small(some({}, {'ffn': {'experts': {'shared_gate': False, 'bias': True}}}, d_ff=6, ffn='geglu', **mixed(bias=False, count=4, top_k=2, normalize=False, scale=1.5, shared=10, shared_gate=True))),
 'experts_chosen': small(one(1, d_ff=6, ffn='swiglu_clamped', norm='rmsnorm', sinks=True, **mixed(limit=1.2, count=5, top_k=3, scores='chosen', bias=True))),
 'experts_sigmoid': small(some({'ffn': {'d_ff': 12}}, {'ffn': mixed(count=8, top_k=3, scores='sigmoid', correction=True, groups=4, top_groups=2, scale=2.5, shared=6)['f']}, d_ff=4, ffn='swiglu', f=NO_BIAS, norm='rmsnorm', bias=False, **turned())),
 'experts_groups': small(one(1, d_ff=4, ffn='relu', **mixed(count=6, top_k=2, groups=3, top_groups=2, normalize=False, correction=True))),
 'experts_seq2seq': small(one(1, d_ff=5, ffn='gelu', **mixed(count=3, top_k=1, normalize=False, balance_loss=0.4)), one(1, d_ff=5, place='post', ffn='reglu', **mixed(bias=False, count=4, top_k=4, normalize=False)), LEARNED, d=8),
 # latent attention
 'latent': small(one(heads=3, head_dim=6, latent={'rank': 5, 'rope_dim': 2}, bias=False, f=NO_BIAS, norm='rmsnorm', ffn='swiglu', **turned(pairing='interleaved'))),
 'latent_ranks': small(some({}, {'attention': {'latent': {'rope_dim': 6}, 'bias': 'qo', **turned('yarn', theta=30.0, factor=8.0, original_context=24, mscale=0.7, mscale_all_dim=1.0)}}, heads=2, head_dim=8, value_dim=5, latent={'rank': 6, 'query_rank': 7, 'rope_dim': 4, 'eps': 1e-5}, bias=True, d_ff=12, **turned(fraction=0.5)), tie='none'),
 'latent_encoder': small(enc=some(*turns({'position': {'kind': 'alibi'}, 'window': 3}, {'latent': {'rope_dim': 0}, 'softcap': 3.0, 'scale': 0.7}, {'sinks': True, 'position': {'kind': 'relative', 'max_distance': 3}}), heads=3, head_dim=5, value_dim=4, latent={'rank': 4, 'rope_dim': 2}, bias='kv', d_ff=12)),
 'latent_seq2seq': small(one(1, heads=2, head_dim=4, latent={'rank': 5, 'rope_dim': 0}, d_ff=8), one(1, heads=2, head_dim=6, latent={'rank': 5, 'query_rank': 4, 'rope_dim': 2}, d_ff=8, **turned(theta=50.0)), d=10),
 # a sandwich whose attention has neither of its two norms
 'sandwich_without_norm': small(some({'norm': {'attention': False}}, {}, norm='rmsnorm', place='sandwich', d_ff=8, **turned())),
 # layers that read keys and values of others: those of two sorts at the end of a stack (Gemma 3n); two layers back, on from a layer that shares
 # itself, with all that acts on keys and heads of another number; in both stacks, with tables of distances; latents
 'share_local_global': small(kinds(6, ['local', 'global', 'local', 'low', 'high', 'low'], layer(heads=2, kv_heads=1, ffn='geglu_tanh', d_ff=8, norm='rmsnorm_plus_one', bias=False, f=NO_BIAS, qk_norm={'kind': 'rmsnorm_plus_one', 'over': 'head', 'eps': 1e-4}),
     local={'attention': {'window': 3, **turned()}}, low={'attention': {'window': 3, 'share': 1, **turned()}}, high={'attention': {'share': 1, **turned(theta=1000.0)}}, **{'global': {'attention': turned(theta=1000.0)}})),
 'share_back': small(kinds(4, ['own', 'own', 'back', 'last'], layer(heads=4, kv_heads=2, value_dim=5, d_ff=8, qk_norm={'kind': 'layernorm', 'over': 'heads', 'eps': 1e-3, 'bias': False}, clip=1.5, sinks=True, **turned(fraction=0.5, pairing='interleaved')),
     own={}, back={'attention': {'share': 2, 'heads': 2}}, last={'attention': {'share': 1, 'softcap': 3.0, 'scale': 0.4, 'bias': 'q'}})),
 'share_seq2seq': small(kinds(2, ['own', 'reads'], layer(heads=2, d_ff=8, position={'kind': 'relative', 'max_distance': 3}), own={}, reads={'attention': {'share': 1}, 'norm': {'placement': 'post'}}),
     kinds(3, ['own', 'reads', 'reads'], layer(heads=2, d_ff=8, place='parallel', position={'kind': 'alibi', 'learn': True}), own={}, reads={'attention': {'share': 1}}), d=8),
 'share_latent': small(kinds(3, ['own', 'reads', 'again'], layer(heads=2, head_dim=6, latent={'rank': 5, 'rope_dim': 2}, bias=False, f=NO_BIAS, norm='rmsnorm', ffn='swiglu', d_ff=8, **turned(theta=50.0)),
     own={}, reads={'attention': {'share': 1, 'bias': 'q', 'latent': {'query_rank': 7}}}, again={'attention': {'share': 1, 'value_dim': 4, 'sinks': True}})),
})
# What a case wants of its own: which draw its search begins with (0 where nothing is said), and sizes.
# latent_encoder: of the first one bf16 rounds the gradient of a v_b by 0.12, and so does the reference where its products are rounded to bf16 (0.13);
# share_latent: that of a q by 0.11, share_local_global: the logits by 0.0205
FIRST = {'latent_encoder': 2, 'share_latent': 1, 'share_local_global': 2}
SHAPE = {n: dict(T=5, S=4) for n in PUBLIC if n.startswith('experts')} | {'experts_losses': dict(T=4)}
