"""Published blocks as transformers has them: for each a class, its configuration, the spec of the same computation here, and where each of
our weights stands among its parameters. Used by check_reference.py, which says what is compared."""
import torch
from cases import one, some, small, layer, kinds, turned, turns
V, D, H = 40, 32, 4   # vocabulary, width, heads

# ---- weights: functions from parameters by name to ours by name ------------------------------------------------------------------------------------------
def put(out, ours, P, theirs):
    """a weight and a bias, those that there are; a name without parts is the weight"""
    for part in ('weight', 'bias'):
        if f'{theirs}.{part}' in P: out[f'{ours}.{part}'] = P[f'{theirs}.{part}']
    if theirs in P: out[f'{ours}.weight'] = P[theirs]
def named(top, *stacks, then=None):
    """top: {ours: theirs}; a stack: (name, prefix with {}, layers, {ours: theirs}); then(out, P): what is stored otherwise"""
    def weights(P):
        out = {}
        for o, t in top.items(): put(out, o, P, t)
        for stack, prefix, count, table in stacks:
            for n in range(count):
                for o, t in table.items(): put(out, f'{stack}.layers.{n}.{o}', P, prefix.format(n) + t)
        if then: then(out, P)
        return out
    return weights
def rows(out, ours, P, theirs, pick):
    """some rows of a weight and of its bias"""
    for part in ('weight', 'bias'):
        if f'{theirs}.{part}' in P: out[f'{ours}.{part}'] = pick(P[f'{theirs}.{part}'])
def fused(theirs, names, cut, prefix, layers, stack='decoder'):
    """a matrix that holds several: cut(rows) gives them in the order of names"""
    def then(out, P):
        for n in range(layers):
            for i, o in enumerate(names): rows(out, f'{stack}.layers.{n}.{o}', P, prefix.format(n) + theirs, lambda m: cut(m)[i])
    return then
def both(*thens):
    def then(out, P):
        for t in thens: t(out, P)
    return then
QKV = ('attn.q', 'attn.k', 'attn.v')
def thirds(m): return m.chunk(3)
def per_head(heads):
    """(heads, 3, D) rows: NeoX, BLOOM"""
    def cut(m): m = m.view(heads, 3, -1, *m.shape[1:]); return [m[:, i].flatten(0, 1) for i in range(3)]
    return cut
def per_group(groups, width):
    """(groups, queries + key + value, D) rows: Falcon"""
    def cut(m): m = m.view(groups, -1, width, *m.shape[1:]); return [m[:, :-2].flatten(0, 2), m[:, -2].flatten(0, 1), m[:, -1].flatten(0, 1)]
    return cut
def sizes(*n): return lambda m: m.split(n)
def flat(theirs, ours):
    """a parameter under our name, whatever its shape"""
    def then(out, P): out[ours] = P[theirs]
    return then
LLAMA_LAYER = {**{f'attn.{p}': f'self_attn.{p}_proj' for p in 'qkvo'}, **{f'ffn.{p}': f'mlp.{p}_proj' for p in ('gate', 'up', 'down')}, 'attn_norm': 'input_layernorm', 'ffn_norm': 'post_attention_layernorm',
               'attn.q_norm': 'self_attn.q_norm', 'attn.k_norm': 'self_attn.k_norm'}
LLAMA_TOP = {'decoder.embed.token': 'model.embed_tokens', 'decoder.norm': 'model.norm', 'head': 'lm_head'}
def llama_names(layers=2, top=LLAMA_TOP, then=None, **other): return named(top, ('decoder', 'model.layers.{}.', layers, {**LLAMA_LAYER, **other}), then=then)
SANDWICH = dict(attn_out_norm='post_attention_layernorm', ffn_norm='pre_feedforward_layernorm', ffn_out_norm='post_feedforward_layernorm')

# ---- decoders -----------------------------------------------------------------------------------------------------------------------------------------------
NB = {'bias': False}
llama = dict(vocab_size=V, hidden_size=D, intermediate_size=48, num_hidden_layers=2, num_attention_heads=H, num_key_value_heads=2, max_position_embeddings=64, rms_norm_eps=1e-5, hidden_act='silu', rope_theta=10000.0,
             bos_token_id=1, eos_token_id=2, pad_token_id=0, tie_word_embeddings=False)
def without(kw, *names): return {k: v for k, v in kw.items() if k not in names}
def spec(stack, tie='none', d=D, context=64, **kw): return small(stack, tie=tie, d=d, vocab=V, context=context, **kw)
LLAMA = dict(heads=H, kv_heads=2, head_dim=8, norm='rmsnorm', ffn='swiglu', d_ff=48, bias=False, f=NB)
PLAIN = dict(heads=H, d_ff=48, ffn='gelu')
def rotation(kind, z, ours=None, theta=10000.0, head_dim=16, longest=64, share=1.0):
    """Llama with a scaling of its rotation"""
    cfg = llama | dict(head_dim=head_dim, rope_theta=theta, max_position_embeddings=longest, rope_scaling=dict(rope_type=kind, **z))
    p = {**turned(theta=theta)['position'], 'scaling': {'kind': kind, **(z if ours is None else ours)}}
    return 'LlamaForCausalLM', cfg, spec(one(**{**LLAMA, 'head_dim': head_dim}, position=p), context=longest), llama_names()
def rename(z, **other):
    names = dict(original_max_position_embeddings='original_context', low_freq_factor='low_freq', high_freq_factor='high_freq', short_factor='short', long_factor='long')
    return {**{names.get(k, k): v for k, v in z.items()}, **other}
def scaled(kind, head_dim=16, theta=10000.0, longest=64, **z): return rotation(kind, z, rename(z), theta, head_dim, longest)
def gate(theirs, ours): return 'LlamaForCausalLM', llama | dict(hidden_act=theirs, mlp_bias=True), spec(one(**{**LLAMA, 'ffn': ours, 'f': {}}, **turned())), llama_names()
def gemma_kw(**kw): return without(llama, 'hidden_act') | dict(head_dim=16, hidden_activation='gelu_pytorch_tanh', tie_word_embeddings=True, rms_norm_eps=1e-6, **kw)
GEMMA = {**LLAMA, 'head_dim': 16, 'norm': 'rmsnorm_plus_one', 'ffn': 'geglu_tanh', 'n': {'eps': 1e-6}}
def gpt2_names():
    table = {'attn_norm': 'ln_1', 'ffn_norm': 'ln_2'}
    def then(out, P):   # Conv1D: stored (in, out)
        for n in range(2):
            h, o = f'transformer.h.{n}.', f'decoder.layers.{n}.'
            for i, p in enumerate(QKV): out[f'{o}{p}.weight'] = P[h + 'attn.c_attn.weight'].chunk(3, 1)[i].T; out[f'{o}{p}.bias'] = P[h + 'attn.c_attn.bias'].chunk(3)[i]
            for p, t in (('attn.o', 'attn.c_proj'), ('ffn.up', 'mlp.c_fc'), ('ffn.down', 'mlp.c_proj')): out[f'{o}{p}.weight'] = P[f'{h}{t}.weight'].T; out[f'{o}{p}.bias'] = P[f'{h}{t}.bias']
    return named({'decoder.embed.token': 'transformer.wte', 'decoder.embed.position': 'transformer.wpe', 'decoder.norm': 'transformer.ln_f'}, ('decoder', 'transformer.h.{}.', 2, table), then=then)
NEOX_LAYER = {'attn_norm': 'input_layernorm', 'ffn_norm': 'post_attention_layernorm', 'attn.o': 'attention.dense', 'ffn.up': 'mlp.dense_h_to_4h', 'ffn.down': 'mlp.dense_4h_to_h'}
def neox(parallel):
    cfg = dict(vocab_size=V, hidden_size=D, num_hidden_layers=2, num_attention_heads=H, intermediate_size=48, hidden_act='gelu', rotary_pct=0.5, rotary_emb_base=10000, max_position_embeddings=64, layer_norm_eps=1e-5, use_parallel_residual=parallel, bos_token_id=0, eos_token_id=0)
    p = 'gpt_neox.layers.{}.'; top = {'decoder.embed.token': 'gpt_neox.embed_in', 'decoder.norm': 'gpt_neox.final_layer_norm', 'head': 'lm_head'}
    return 'GPTNeoXForCausalLM', cfg, spec(one(**PLAIN, place='parallel_two' if parallel else 'pre', **turned(fraction=0.5))), named(top, ('decoder', p, 2, NEOX_LAYER), then=fused('attention.query_key_value', QKV, per_head(H), p, 2))
BLOOM_LAYER = {'attn_norm': 'input_layernorm', 'ffn_norm': 'post_attention_layernorm', 'attn.o': 'self_attention.dense', 'ffn.up': 'mlp.dense_h_to_4h', 'ffn.down': 'mlp.dense_4h_to_h'}
BLOOM_TOP = {'decoder.embed.token': 'transformer.word_embeddings', 'decoder.embed.norm': 'transformer.word_embeddings_layernorm', 'decoder.norm': 'transformer.ln_f', 'head': 'lm_head'}
def bloom(heads):
    cfg = dict(vocab_size=V, hidden_size=6 * heads, n_layer=2, n_head=heads, layer_norm_epsilon=1e-5, bos_token_id=1, eos_token_id=2, pad_token_id=3); p = 'transformer.h.{}.'
    return 'BloomForCausalLM', cfg, spec(one(heads=heads, ffn='gelu_tanh', d_ff=24 * heads, position={'kind': 'alibi'}), d=6 * heads, tie='head', embed={'norm': {'kind': 'layernorm', 'eps': 1e-5}}), \
        named(BLOOM_TOP, ('decoder', p, 2, BLOOM_LAYER), then=fused('self_attention.query_key_value', QKV, per_head(heads), p, 2))
def falcon(heads=H, alibi=False, bias=False, kv=None, new=False, place='parallel'):
    cfg = dict(vocab_size=V, hidden_size=8 * heads, num_hidden_layers=2, num_attention_heads=heads, layer_norm_epsilon=1e-5, bos_token_id=1, eos_token_id=2, pad_token_id=0, max_position_embeddings=64, alibi=alibi, bias=bias,
               multi_query=kv == 1 or new, new_decoder_architecture=new, parallel_attn=place != 'pre', **({'num_kv_heads': kv} if new else {})); p = 'transformer.h.{}.'
    cut = per_head(heads) if kv is None else per_group(kv, 8); norms = {'attn_norm': 'ln_attn', 'ffn_norm': 'ln_mlp'} if new else {}
    pos = {'position': {'kind': 'alibi', 'form': 'falcon'}} if alibi else turned()
    return 'FalconForCausalLM', cfg, spec(one(heads=heads, kv_heads=kv or heads, ffn='gelu', d_ff=32 * heads, bias=bias, f={'bias': bias}, place=place, **pos), d=8 * heads, tie='head'), \
        named(BLOOM_TOP, ('decoder', p, 2, {**BLOOM_LAYER, **norms}), then=fused('self_attention.query_key_value', QKV, cut, p, 2))
def mpt(heads, clip=None):
    """the model takes 8 whatever alibi_bias_max its configuration has"""
    cfg = dict(vocab_size=V, d_model=6 * heads, n_heads=heads, n_layers=2, expansion_ratio=4, max_seq_len=64, layer_norm_epsilon=1e-5, no_bias=True, learned_pos_emb=True,
               attn_config=dict(alibi=True, alibi_bias_max=8, attn_impl='torch', clip_qkv=clip, qk_ln=False, softmax_scale=None, prefix_lm=False)); p = 'transformer.blocks.{}.'
    s = spec(one(heads=heads, n=NB, bias=False, f=NB, d_ff=24 * heads, ffn='gelu', clip=clip or 0, position={'kind': 'alibi', 'form': 'mpt'}), d=6 * heads, tie='head')
    return 'MptForCausalLM', cfg, s, named({'decoder.embed.token': 'transformer.wte', 'decoder.norm': 'transformer.norm_f'}, ('decoder', p, 2, {'attn_norm': 'norm_1', 'ffn_norm': 'norm_2', 'attn.o': 'attn.out_proj', 'ffn.up': 'ffn.up_proj', 'ffn.down': 'ffn.down_proj'}),
        then=fused('attn.Wqkv', QKV, thirds, p, 2))
def opt(width, before):
    cfg = dict(vocab_size=V, hidden_size=D, ffn_dim=48, num_hidden_layers=2, num_attention_heads=H, max_position_embeddings=32, word_embed_proj_dim=width, do_layer_norm_before=before, activation_function='relu', bos_token_id=2, eos_token_id=2, pad_token_id=1)
    e, head = {'position': {'kind': 'learned', 'offset': 2}}, {'kind': 'lm', 'bias': False}
    if width != D: e.update(width=width, bias=False, project='token'); head['transform'] = {'width': width, 'activation': 'none', 'bias': False}
    m = 'model.decoder.'; top = {'decoder.embed.token': m + 'embed_tokens', 'decoder.embed.position': m + 'embed_positions', 'decoder.norm': m + 'final_layer_norm', 'decoder.embed.project': m + 'project_in', 'head.transform': m + 'project_out'}
    return 'OPTForCausalLM', cfg, spec(one(**{**PLAIN, 'ffn': 'relu'}, place='pre' if before else 'post'), embed=e, head=head, tie='head', context=32), \
        named(top, ('decoder', m + 'layers.{}.', 2, {**{f'attn.{p}': f'self_attn.{t}_proj' for p, t in zip('qkvo', ('q', 'k', 'v', 'out'))}, 'attn_norm': 'self_attn_layer_norm', 'ffn.up': 'fc1', 'ffn.down': 'fc2', 'ffn_norm': 'final_layer_norm'}))
PHI_LAYER = {'attn.o': 'self_attn.dense', 'attn.q_norm': 'self_attn.q_layernorm', 'attn.k_norm': 'self_attn.k_layernorm', 'ffn.up': 'mlp.fc1', 'ffn.down': 'mlp.fc2'}
def phi(qk):
    cfg = without(llama, 'rms_norm_eps', 'hidden_act') | dict(num_key_value_heads=4, partial_rotary_factor=0.5, layer_norm_eps=1e-5, hidden_act='gelu_new', qk_layernorm=qk)
    n = {'qk_norm': {'kind': 'layernorm', 'eps': 1e-5, 'bias': True, 'over': 'head'}} if qk else {}
    return 'PhiForCausalLM', cfg, spec(one(**{**PLAIN, 'ffn': 'gelu_tanh'}, place='parallel', **n, **turned(fraction=0.5)), head={'kind': 'lm', 'bias': True}), llama_names(top={**LLAMA_TOP, 'decoder.norm': 'model.final_layernorm'}, **PHI_LAYER)
def phi3(T_short):
    z = dict(type='longrope', short_factor=[1.0, 1.1, 1.25, 1.5, 1.75, 2.0], long_factor=[1.0, 1.5, 2.5, 4.0, 8.0, 16.0]); P = 16 if T_short else 8
    cfg = llama | dict(max_position_embeddings=64, original_max_position_embeddings=P, partial_rotary_factor=0.75, sliding_window=None, hidden_size=64, tie_word_embeddings=True, rope_scaling=z); p = 'model.layers.{}.'
    pos = {**turned(fraction=0.75)['position'], 'scaling': {'kind': 'longrope', 'factor': 64 / P, 'original_context': P, 'short': z['short_factor'], 'long': z['long_factor']}}
    return 'Phi3ForCausalLM', cfg, spec(one(**{**LLAMA, 'head_dim': 16}, position=pos), d=64, tie='head'), llama_names(then=both(fused('self_attn.qkv_proj', QKV, sizes(64, 32, 32), p, 2), fused('mlp.gate_up_proj', ('ffn.gate', 'ffn.up'), sizes(48, 48), p, 2)))
def cohere(qk, two=False):
    cfg = without(llama, 'rms_norm_eps') | dict(layer_norm_eps=1e-5, logit_scale=0.25, tie_word_embeddings=True)
    n = {'qk_norm': {'kind': 'layernorm', 'eps': 1e-5, 'bias': False, 'over': 'heads'}} if qk else {}; shape = {**LLAMA, 'norm': 'layernorm', 'place': 'parallel', 'n': NB, **n}; way = turned(pairing='interleaved'); head = {'kind': 'lm', 'bias': False, 'scale': 0.25}
    if not two: return 'CohereForCausalLM', cfg | dict(use_qk_norm=qk), spec(one(**shape, **way), head=head, tie='head'), llama_names()
    return 'Cohere2ForCausalLM', cfg | dict(num_hidden_layers=3, sliding_window=4, layer_types=['sliding_attention', 'sliding_attention', 'full_attention']), \
        spec(kinds(3, ['a', 'a', 'b'], layer(**shape), a={'attention': {'window': 4, **way}}, b={}), head=head, tie='head'), llama_names(3)
def decoders():
    LN = {'kind': 'layernorm', 'eps': 1e-5}; learned = {'position': {'kind': 'learned'}}; rms = lambda over, kind='rmsnorm': {'qk_norm': {'kind': kind, 'eps': 1e-6, 'over': over}}; six = {**LLAMA, 'n': {'eps': 1e-6}}
    yield 'gpt2', 'learned positions, gelu_tanh', 'GPT2LMHeadModel', dict(vocab_size=V, n_positions=32, n_embd=D, n_layer=2, n_head=H, n_inner=48, activation_function='gelu_new', layer_norm_epsilon=1e-5, bos_token_id=0, eos_token_id=0), \
        spec(one(**{**PLAIN, 'ffn': 'gelu_tanh'}), embed=learned, tie='head', context=32), gpt2_names()
    yield 'llama', 'rope by halves, rmsnorm, swiglu', 'LlamaForCausalLM', llama, spec(one(**LLAMA, **turned())), llama_names()
    yield 'llama linear', 'scaling linear', *scaled('linear', factor=4.0)
    yield 'llama dynamic', 'scaling dynamic, T above', *rotation('dynamic', dict(factor=2.0), dict(factor=2.0, original_context=8), longest=8)
    yield 'llama dynamic short', 'scaling dynamic, T below', *rotation('dynamic', dict(factor=2.0), dict(factor=2.0, original_context=64))
    p = {**turned()['position'], 'scaling': {'kind': 'ntk', 'factor': 3.0}}   # 12 positions of 6: dynamic by 2 is 2·12/6 − (2 − 1) = 3
    yield 'llama dynamic, twice', 'scaling ntk', 'LlamaForCausalLM', llama | dict(max_position_embeddings=6, rope_scaling=dict(rope_type='dynamic', factor=2.0)), spec(one(**LLAMA, position=p)), llama_names()
    yield 'llama yarn', 'scaling yarn', *scaled('yarn', theta=100.0, factor=4.0, original_max_position_embeddings=64)
    yield 'llama yarn cut', 'yarn, betas, not truncated', *scaled('yarn', theta=500.0, factor=8.0, original_max_position_embeddings=48, beta_fast=6.0, beta_slow=0.5, truncate=False)
    yield 'llama yarn mscale', 'yarn, mscale', *scaled('yarn', theta=60.0, factor=40.0, original_max_position_embeddings=40, mscale=0.7, mscale_all_dim=1.0)
    yield 'llama yarn given', 'yarn, attention_factor', *scaled('yarn', theta=60.0, factor=40.0, original_max_position_embeddings=40, attention_factor=0.8)
    yield 'llama3', 'scaling llama3', *scaled('llama3', theta=500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)
    yield 'phi3 longrope', 'scaling longrope, T above, part of a head', *phi3(False)
    yield 'phi3 longrope short', 'scaling longrope, T below', *phi3(True)
    yield 'qwen2', 'bias on q, k, v', 'Qwen2ForCausalLM', llama | dict(use_sliding_window=False), spec(one(**{**LLAMA, 'bias': 'qkv'}, **turned())), llama_names()
    yield 'qwen3', 'qk_norm over a head', 'Qwen3ForCausalLM', llama | dict(head_dim=16, rms_norm_eps=1e-6, use_sliding_window=False), spec(one(**{**six, 'head_dim': 16}, **rms('head'), **turned())), llama_names()
    yield 'mistral', 'window', 'MistralForCausalLM', llama | dict(sliding_window=4, head_dim=8), spec(one(window=4, **LLAMA, **turned())), llama_names()
    yield 'smollm3', 'layers without rotation', 'SmolLM3ForCausalLM', llama | dict(no_rope_layers=[1, 0], no_rope_layer_interval=2, use_sliding_window=False, rms_norm_eps=1e-6), spec(some(*turns(turned(), {}), **six)), llama_names()
    yield 'gemma', 'rmsnorm_plus_one, geglu_tanh, scale', 'GemmaForCausalLM', gemma_kw() | dict(hidden_act='gelu_pytorch_tanh'), spec(one(**GEMMA, **turned()), tie='head', embed={'scale': D ** 0.5}), llama_names()
    yield 'gemma2', 'sandwich, both softcaps, scale, windows', 'Gemma2ForCausalLM', gemma_kw(sliding_window=4, query_pre_attn_scalar=12, attn_logit_softcapping=4.0, final_logit_softcapping=6.0), \
        spec(some({'attention': {'window': 4}}, {}, place='sandwich', softcap=4.0, scale=12 ** -0.5, **GEMMA, **turned()), tie='head', embed={'scale': D ** 0.5}, head={'kind': 'lm', 'bias': False, 'softcap': 6.0}), llama_names(**SANDWICH)
    yield 'gemma3', 'qk_norm plus one, two bases, scaling of some', 'Gemma3ForCausalLM', gemma_kw(num_hidden_layers=3, sliding_window=4, sliding_window_pattern=3, query_pre_attn_scalar=12, rope_local_base_freq=10000.0, rope_scaling=dict(rope_type='linear', factor=8.0)) | dict(rope_theta=1000000.0), \
        spec(kinds(3, ['a', 'a', 'b'], layer(place='sandwich', scale=12 ** -0.5, **GEMMA, **rms('head', 'rmsnorm_plus_one')), a={'attention': {'window': 4, **turned()}}, b={'attention': turned('linear', theta=1000000.0, factor=8.0)}), tie='head', embed={'scale': D ** 0.5}), llama_names(3, **SANDWICH)
    yield 'granite', 'residual_scale, head.scale', 'GraniteForCausalLM', llama | dict(embedding_multiplier=12.0, attention_multiplier=0.25, residual_multiplier=0.22, logits_scaling=8.0, tie_word_embeddings=True), \
        spec(one(residual_scale=0.22, scale=0.25, **LLAMA, **turned()), tie='head', embed={'scale': 12.0}, head={'kind': 'lm', 'bias': False, 'scale': 0.125}), llama_names()
    yield 'olmo', 'bare norms, clip', 'OlmoForCausalLM', without(llama, 'rms_norm_eps') | dict(clip_qkv=0.5), spec(one(clip=0.5, **{**LLAMA, 'norm': 'layernorm', 'n': {'weight': False}}, **turned())), llama_names()
    yield 'olmo2', 'output norm, qk_norm over the width', 'Olmo2ForCausalLM', llama | dict(rms_norm_eps=1e-6), spec(one(place='output', **six, **rms('width'), **turned())), llama_names(attn_norm='post_attention_layernorm', ffn_norm='post_feedforward_layernorm')
    yield 'cohere', 'parallel, weight only, interleaved', *cohere(False)
    yield 'cohere qk', 'qk_norm of each head', *cohere(True)
    yield 'cohere2', 'parallel with a window', *cohere(False, True)
    yield 'gpt_neox', 'parallel_two, part of a head', *neox(True)
    yield 'gpt_neox in a row', 'pre', *neox(False)
    yield 'gptj', 'parallel, interleaved, bias of the head', 'GPTJForCausalLM', dict(vocab_size=V, n_positions=64, n_embd=D, n_layer=2, n_head=H, n_inner=48, rotary_dim=4, activation_function='gelu_new', layer_norm_epsilon=1e-5, bos_token_id=0, eos_token_id=0), \
        spec(one(**{**PLAIN, 'ffn': 'gelu_tanh'}, place='parallel', bias=False, **turned(fraction=0.5, pairing='interleaved')), head={'kind': 'lm', 'bias': True}), \
        named({'decoder.embed.token': 'transformer.wte', 'decoder.norm': 'transformer.ln_f', 'head': 'lm_head'}, ('decoder', 'transformer.h.{}.', 2, {'attn_norm': 'ln_1', **{f'attn.{p}': f'attn.{t}_proj' for p, t in zip('qkvo', ('q', 'k', 'v', 'out'))}, 'ffn.up': 'mlp.fc_in', 'ffn.down': 'mlp.fc_out'}))
    yield 'phi', 'parallel', *phi(False)
    yield 'phi qk', 'qk_norm layernorm with bias', *phi(True)
    yield 'stablelm', 'qk_norm of each head, pre', 'StableLmForCausalLM', without(llama, 'rms_norm_eps') | dict(layer_norm_eps=1e-5, partial_rotary_factor=0.5, qk_layernorm=True, use_parallel_residual=False), \
        spec(one(qk_norm={**LN, 'bias': False, 'over': 'heads'}, **{**LLAMA, 'norm': 'layernorm'}, **turned(fraction=0.5))), llama_names(then=stablelm_norms)
    yield 'persimmon', 'relu2, qk_norm layernorm', 'PersimmonForCausalLM', without(llama, 'rms_norm_eps', 'num_key_value_heads') | dict(hidden_act='relu2', layer_norm_eps=1e-5, partial_rotary_factor=0.5, qk_layernorm=True), \
        spec(one(**{**PLAIN, 'ffn': 'relu2'}, qk_norm={**LN, 'bias': True, 'over': 'head'}, **turned(fraction=0.5))), llama_names(top={**LLAMA_TOP, 'decoder.norm': 'model.final_layernorm'}, then=fused('self_attn.query_key_value', QKV, per_head(H), 'model.layers.{}.', 2), **{**PHI_LAYER, 'ffn.up': 'mlp.dense_h_to_4h', 'ffn.down': 'mlp.dense_4h_to_h'})
    yield 'starcoder2', 'biases everywhere', 'Starcoder2ForCausalLM', without(llama, 'rms_norm_eps') | dict(norm_epsilon=1e-5, use_bias=True, sliding_window=4, hidden_act='gelu_pytorch_tanh'), \
        spec(one(**{**PLAIN, 'ffn': 'gelu_tanh'}, kv_heads=2, window=4, **turned())), llama_names(**{'ffn.up': 'mlp.c_fc', 'ffn.down': 'mlp.c_proj'})
    for h in (4, 6): yield f'bloom, {h} heads', 'embed.norm, alibi', *bloom(h)
    yield 'falcon 7b', 'parallel, one key head', *falcon(kv=1)
    yield 'falcon 40b', 'parallel_two, groups', *falcon(kv=2, new=True, place='parallel_two')
    for h in (4, 6): yield f'falcon rw, {h} heads', 'alibi falcon', *falcon(heads=h, alibi=True, bias=True, place='pre')
    yield 'mpt, 4 heads', 'alibi mpt, clip', *mpt(4, clip=0.5)
    yield 'mpt, 6 heads', 'alibi mpt', *mpt(6)
    yield 'opt', 'position offset', *opt(D, True)
    yield 'opt 350m', 'embed.width of tokens, post, transform', *opt(16, False)
    for theirs, ours in (('relu', 'reglu'), ('relu2', 'relu2_glu'), ('quick_gelu', 'quick_geglu'), ('gelu', 'geglu'), ('gelu_new', 'geglu_tanh'), ('tanh', 'tanh_glu')): yield f'llama {theirs}', ours, *gate(theirs, ours)
def stablelm_norms(out, P):
    for n in range(2):
        for ours, theirs, heads in (('q_norm', 'q_layernorm', H), ('k_norm', 'k_layernorm', 2)): out[f'decoder.layers.{n}.attn.{ours}.weight'] = torch.stack([P[f'model.layers.{n}.self_attn.{theirs}.norms.{h}.weight'] for h in range(heads)])
