"""Published models with experts, and with latent attention, as transformers has them; like families.py."""
from cases import one, kinds, layer, some, turned
from families import D, H, LLAMA, NB, llama, llama_names, spec, without

# ---- experts ------------------------------------------------------------------------------------------------------------------------------
def experts(layers=2, clamped=False, stack='decoder'):
    """experts are stored as one array, gate and up in one; a layer without them is dense"""
    def then(out, P):
        for n in range(layers):
            whole = [k for k in P if k.startswith(f'model.layers.{n}.') and k.endswith('experts.gate_up_proj')]
            if not whole: continue
            t, o = whole[0][:-len('experts.gate_up_proj')], f'{stack}.layers.{n}.ffn.'
            for theirs in ('gate', 'router'):
                for part in ('weight', 'bias'):
                    if f'{t}{theirs}.{part}' in P: out[f'{o}router.{part}'] = P[f'{t}{theirs}.{part}']
            if f'{t}gate.e_score_correction_bias' in P: out[o + 'correction.weight'] = P[f'{t}gate.e_score_correction_bias']
            for e in range(len(P[whole[0]])):
                if clamped:   # gpt-oss: (in, out), gate and up in turns
                    for i, p in enumerate(('gate', 'up')): out[f'{o}experts.{e}.{p}.weight'] = P[whole[0]][e, :, i::2].T; out[f'{o}experts.{e}.{p}.bias'] = P[whole[0] + '_bias'][e, i::2]
                    out[f'{o}experts.{e}.down.weight'] = P[t + 'experts.down_proj'][e].T; out[f'{o}experts.{e}.down.bias'] = P[t + 'experts.down_proj_bias'][e]
                else:
                    for p, m in zip(('gate', 'up'), P[whole[0]][e].chunk(2)): out[f'{o}experts.{e}.{p}.weight'] = m
                    out[f'{o}experts.{e}.down.weight'] = P[t + 'experts.down_proj'][e]
            for theirs in ('shared_expert', 'shared_experts'):
                for p in ('gate', 'up', 'down'):
                    if f'{t}{theirs}.{p}_proj.weight' in P: out[f'{o}shared.{p}.weight'] = P[f'{t}{theirs}.{p}_proj.weight']
            if f'{t}shared_expert_gate.weight' in P: out[o + 'shared_gate.weight'] = P[f'{t}shared_expert_gate.weight']
    return then
def mixed(width, **e): return {'d_ff': width, 'f': {'bias': False, 'experts': e}}
def after_dense(width, dense, both, **e):
    """a dense layer, then one with experts"""
    return kinds(2, ['a', 'b'], layer(**{**both, 'd_ff': width}), a={'ffn': {'d_ff': dense}}, b={'ffn': {'experts': e}})
def olmoe(normalize):
    cfg = llama | dict(num_experts=6, num_experts_per_tok=3, norm_topk_prob=normalize, clip_qkv=0.8, num_key_value_heads=2)
    return 'OlmoeForCausalLM', cfg, spec(one(**{**LLAMA, **mixed(48, count=6, top_k=3, normalize=normalize)}, clip=0.8, qk_norm={'kind': 'rmsnorm', 'eps': 1e-5, 'over': 'width'}, **turned())), llama_names(then=experts())
def gpt_oss():
    cfg = llama | dict(intermediate_size=24, head_dim=16, num_local_experts=4, num_experts_per_tok=2, sliding_window=4, layer_types=['sliding_attention', 'full_attention'], attention_bias=True, rope_theta=150000, swiglu_limit=1.5,
                       rope_scaling=dict(rope_type='yarn', factor=32.0, beta_fast=32.0, beta_slow=1.0, truncate=False, original_max_position_embeddings=64))
    shape = {**LLAMA, 'head_dim': 16, 'ffn': 'swiglu_clamped', 'd_ff': 24, 'bias': True, 'f': {'limit': 1.5, 'experts': {'count': 4, 'top_k': 2, 'scores': 'chosen', 'bias': True}}}
    def then(out, P):
        experts(clamped=True)(out, P)
        for n in range(2): out[f'decoder.layers.{n}.attn.sinks.weight'] = P[f'model.layers.{n}.self_attn.sinks']
    return 'GptOssForCausalLM', cfg, spec(some({'attention': {'window': 4}}, {}, sinks=True, **shape, **turned('yarn', theta=150000.0, factor=32.0, truncate=False, original_context=64))), llama_names(then=then)

# ---- latent attention ---------------------------------------------------------------------------------------------------------------------
def deepseek(cls, query_rank, e, interleaved=True, bias=False, **z):
    """e: {ours of the experts}, {theirs}; z: yarn"""
    R, nope, r, Dv = 12, 6, 4, 7; ours, theirs = e
    cfg = without(llama, 'rope_theta') | dict(num_key_value_heads=H, kv_lora_rank=R, q_lora_rank=query_rank or None, qk_nope_head_dim=nope, qk_rope_head_dim=r, v_head_dim=Dv, attention_bias=bias, moe_intermediate_size=10, n_routed_experts=ours['count'],
        num_experts_per_tok=ours['top_k'], n_shared_experts=2, first_k_dense_replace=1, **theirs)
    cfg['rope_parameters'] = dict(rope_type='yarn', rope_theta=60.0, **{{'original_context': 'original_max_position_embeddings'}.get(k, k): v for k, v in z.items()}) if z else dict(rope_type='default', rope_theta=60.0)
    if 'V3' in cls: cfg['rope_interleave'] = interleaved
    way = turned('yarn' if z else None, theta=60.0, pairing='interleaved' if interleaved else 'half', **z)
    both = {**LLAMA, 'kv_heads': H, 'head_dim': nope + r, 'value_dim': Dv, 'bias': (True if query_rank else 'kvo') if bias else False, 'latent': {'rank': R, 'query_rank': query_rank, 'rope_dim': r}, **way}
    def then(out, P):
        experts()(out, P)
        for n in range(2):
            o, t = f'decoder.layers.{n}.attn.', f'model.layers.{n}.self_attn.'
            for a, b in (('q', 'q_proj'), ('q_a', 'q_a_proj'), ('q_a_norm', 'q_a_layernorm'), ('q_b', 'q_b_proj'), ('kv_a_norm', 'kv_a_layernorm'), ('o', 'o_proj')):
                for part in ('weight', 'bias'):
                    if f'{t}{b}.{part}' in P: out[f'{o}{a}.{part}'] = P[f'{t}{b}.{part}']
            for part in ('weight', 'bias'):
                if f'{t}kv_a_proj_with_mqa.{part}' in P: out[f'{o}kv_a.{part}'], out[f'{o}k_rope.{part}'] = P[f'{t}kv_a_proj_with_mqa.{part}'].split([R, r])
            heads = P[t + 'kv_b_proj.weight'].view(H, nope + Dv, R); out[o + 'k_b.weight'], out[o + 'v_b.weight'] = heads[:, :nope].flatten(0, 1), heads[:, nope:].flatten(0, 1)
    return cls, cfg, spec(after_dense(10, 48, both, shared=20, **ours)), llama_names(then=then)

def with_experts():
    way = turned(); qk = {'qk_norm': {'kind': 'rmsnorm', 'eps': 1e-6, 'over': 'head'}}; six = {**LLAMA, 'n': {'eps': 1e-6}}
    yield 'mixtral', 'experts, softmax, then renormalised', 'MixtralForCausalLM', llama | dict(num_local_experts=4, num_experts_per_tok=2, sliding_window=None), spec(one(**{**LLAMA, **mixed(48, count=4, top_k=2)}, **way)), llama_names(then=experts())
    cfg = llama | dict(head_dim=16, rms_norm_eps=1e-6, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=20, decoder_sparse_step=1)
    for normal in (True, False):
        yield f'qwen3_moe{"" if normal else " raw"}', 'a dense layer, then experts' + ('' if normal else ', not renormalised'), 'Qwen3MoeForCausalLM', cfg | dict(norm_topk_prob=normal, mlp_only_layers=[0]), \
            spec(after_dense(20, 48, {**six, 'head_dim': 16, **qk, **way}, count=5, top_k=2, normalize=normal)), llama_names(then=experts())
    yield 'qwen2_moe', 'a shared expert with a gate', 'Qwen2MoeForCausalLM', llama | dict(num_experts=5, num_experts_per_tok=2, moe_intermediate_size=20, shared_expert_intermediate_size=28, norm_topk_prob=False, use_sliding_window=False), \
        spec(one(**{**LLAMA, 'bias': 'qkv', **mixed(20, count=5, top_k=2, normalize=False, shared=28, shared_gate=True)}, **way)), llama_names(then=experts())
    yield 'olmoe', 'experts, not renormalised, clip', *olmoe(False)
    yield 'olmoe normal', 'experts, renormalised', *olmoe(True)
    yield 'gpt_oss', 'softmax of the chosen, biases, clamped gates', *gpt_oss()
    greedy = dict(count=6, top_k=2, normalize=False, scale=1.5), dict(topk_method='greedy', n_group=1, topk_group=1, routed_scaling_factor=1.5, norm_topk_prob=False)
    grouped = dict(count=6, top_k=2, normalize=False, scale=0.7, groups=3, top_groups=2), dict(topk_method='group_limited_greedy', n_group=3, topk_group=2, routed_scaling_factor=0.7, norm_topk_prob=False)
    yield 'deepseek_v2', 'latent attention, shared experts', *deepseek('DeepseekV2ForCausalLM', 0, greedy)
    yield 'deepseek_v2 groups', 'queries of a rank, groups of experts', *deepseek('DeepseekV2ForCausalLM', 10, grouped, bias=True)
    yield 'deepseek_v2 yarn', 'latent attention, yarn, mscale', *deepseek('DeepseekV2ForCausalLM', 10, greedy, factor=8.0, original_context=40, mscale=0.7, mscale_all_dim=0.7)
    v3 = lambda normal: (dict(count=8, top_k=3, scores='sigmoid', correction=True, groups=4, top_groups=2, normalize=normal, scale=2.5), dict(n_group=4, topk_group=2, routed_scaling_factor=2.5, norm_topk_prob=normal))
    yield 'deepseek_v3', 'sigmoid, correction, groups by their two best', *deepseek('DeepseekV3ForCausalLM', 10, v3(True), factor=40.0, original_context=40, mscale=1.0, mscale_all_dim=1.0)
    yield 'deepseek_v3 halves', 'rotation by halves, not renormalised, biases', *deepseek('DeepseekV3ForCausalLM', 10, v3(False), interleaved=False, bias=True)
    yield 'deepseek_v3 whole q', 'one matrix of queries', *deepseek('DeepseekV3ForCausalLM', 0, v3(True))
