"""Checkpoints of published architectures with random, unusual but legal settings, as hf_cases.py makes its own.

usage: hf_random.py OUT SEED COUNT [FAMILY...]     (python with torch, transformers 5, safetensors; no network, one thread)

Writes COUNT folders for each family (all without FAMILY), OUT/FAMILY_SEED_NUMBER: config.json and model.safetensors as save_pretrained writes
them, case.safetensors (see hf_cases.py) and, where it makes the same configuration, config.legacy.json with the settings as they were drawn.
What is saved is loaded again by the reference library and must give the same numbers. Settings that the reference library refuses are
drawn again. SEED, family and number name the settings, the weights and the inputs."""
import sys, os, json, shutil, copy, tempfile
import hf_cases as hf
import numpy as np, torch, transformers
from hf_cases import F32, F64

ACTS = ['gelu', 'gelu_new', 'gelu_pytorch_tanh', 'gelu_fast', 'gelu_accurate', 'gelu_python', 'relu', 'silu', 'swish', 'tanh', 'quick_gelu', 'relu2']

class Draw:
    def __init__(self, *key): self.r = hf.rng_of(*key)
    def pick(self, *xs): return xs[int(self.r.integers(len(xs)))]
    def flag(self, p=0.5): return bool(self.r.random() < p)
    def whole(self, a, b): return int(self.r.integers(a, b + 1))
    def real(self, a, b): return round(float(a + (b - a) * self.r.random()), 4)
    def eps(self): return self.pick(1e-5, 1e-6, 1e-12, 1e-3, 3e-2)
    def act(self): return self.pick(*ACTS)

def yarn(d, original):
    s = dict(rope_type='yarn', factor=d.pick(1.5, 4.0, 32.0), original_max_position_embeddings=original)
    if d.flag(): s |= dict(beta_fast=d.pick(8.0, 32.0, 64.0), beta_slow=d.pick(1.0, 2.0, 0.5))
    if d.flag(0.3): s['truncate'] = d.flag()
    if d.flag(0.3): s |= dict(mscale=d.pick(1.0, 0.707), mscale_all_dim=d.pick(1.0, 0.5))
    elif d.flag(0.3): s['attention_factor'] = d.real(0.5, 1.5)
    return s
def scaling(d, width, kinds=('none', 'none', 'linear', 'dynamic', 'yarn', 'llama3', 'longrope')):
    """A rotation's scaling, for `width` rotated channels; the cases have 12 positions."""
    kind, original = d.pick(*kinds), d.pick(4, 8, 16, 64)
    if kind == 'none': return None
    if kind in ('linear', 'dynamic'): return dict(rope_type=kind, factor=d.pick(1.5, 2.0, 8.0))
    if kind == 'yarn': return yarn(d, original)
    if kind == 'llama3': return dict(rope_type='llama3', factor=d.pick(2.0, 8.0), low_freq_factor=d.pick(1.0, 0.5), high_freq_factor=d.pick(2.0, 4.0), original_max_position_embeddings=original)
    s = dict(rope_type='longrope', short_factor=[d.real(1, 2) for _ in range(width // 2)], long_factor=[d.real(1, 9) for _ in range(width // 2)], original_max_position_embeddings=d.pick(8, 16))
    if d.flag(0.4): s['factor'] = d.pick(2.0, 4.0)
    if d.flag(0.3): s['attention_factor'] = d.real(0.5, 1.5)
    return s
def rotation(d, kw, width=None):
    """Spelled in one of the ways that files spell it."""
    theta, s = d.pick(10000.0, 500.0, 1e6), scaling(d, width or kw['head_dim'])
    way = d.pick('old', 'new', 'type')
    if way == 'new': kw['rope_parameters'] = dict(rope_type='default') | (s or {}) | dict(rope_theta=theta)
    else:
        kw['rope_theta'] = theta
        if s and way == 'type': s['type'] = s.pop('rope_type')
        if s: kw['rope_scaling'] = s
def types(d, layers): return [d.pick('full_attention', 'sliding_attention') for _ in range(layers)]

def llama_like(d, norm='rms_norm_eps', heads=None, gqa=True):
    H = heads or d.pick(2, 3, 4); K = d.pick(*[k for k in (1, 2, 3, H) if H % k == 0]) if gqa else H
    kw = dict(vocab_size=d.pick(37, 52), hidden_size=H * d.pick(4, 8), intermediate_size=d.pick(20, 36), num_hidden_layers=d.whole(1, 3), num_attention_heads=H, num_key_value_heads=K,
              head_dim=d.pick(4, 6, 8, 16), max_position_embeddings=d.pick(12, 16, 64), hidden_act=d.act(), tie_word_embeddings=d.flag(), bos_token_id=1, eos_token_id=2, pad_token_id=d.pick(None, 0, 3))
    kw[norm] = d.eps()
    return kw
def narrow(kw): kw.pop('head_dim'); return kw['hidden_size'] // kw['num_attention_heads']
def even(kw):   # a rotated head has an even width
    D = narrow(kw)
    return D if D % 2 == 0 else None

# ---- families: a class, settings, and the kind of case ------------------------------------------------------------------------------------------------
def r_llama(d):
    kw = llama_like(d) | dict(attention_bias=d.flag(), mlp_bias=d.flag()); rotation(d, kw); return 'LlamaForCausalLM', kw, 'lm'
def r_mistral(d):
    kw = llama_like(d) | dict(sliding_window=d.pick(None, 1, 3, 5, 40)); rotation(d, kw); return 'MistralForCausalLM', kw, 'lm'
def r_ministral(d):
    kw = llama_like(d) | dict(sliding_window=d.pick(1, 3, 5, 40)); kw['layer_types'] = types(d, kw['num_hidden_layers']); rotation(d, kw); return 'MinistralForCausalLM', kw, 'lm'
def experts(d, kw, count='num_local_experts'): kw[count] = d.pick(2, 3, 5); kw['num_experts_per_tok'] = d.whole(1, kw[count]); return kw
def r_mixtral(d):
    kw = experts(d, llama_like(d) | dict(intermediate_size=8, sliding_window=d.pick(None, 3, 5))); rotation(d, kw); return 'MixtralForCausalLM', kw, 'lm'
def windows(d, kw, cls):
    kw |= dict(use_sliding_window=d.flag(0.7), sliding_window=d.pick(3, 5), max_window_layers=d.whole(0, kw['num_hidden_layers']))
    if d.flag(0.4) and kw['use_sliding_window']: kw['layer_types'] = types(d, kw['num_hidden_layers'])
def r_qwen2(d):
    kw = llama_like(d); D = even(kw); windows(d, kw, 'Qwen2'); rotation(d, kw, D); return 'Qwen2ForCausalLM', kw, 'lm'
def sparse(d, kw):
    kw |= dict(moe_intermediate_size=d.pick(4, 7), norm_topk_prob=d.flag(), decoder_sparse_step=d.whole(1, 2), mlp_only_layers=[i for i in range(kw['num_hidden_layers']) if d.flag(0.3)])
def r_qwen2_moe(d):
    kw = experts(d, llama_like(d), 'num_experts') | dict(shared_expert_intermediate_size=d.pick(4, 9), qkv_bias=d.flag()); D = even(kw); sparse(d, kw); windows(d, kw, 'Qwen2Moe'); rotation(d, kw, D); return 'Qwen2MoeForCausalLM', kw, 'lm'
def r_qwen3(d):
    kw = llama_like(d) | dict(attention_bias=d.flag()); windows(d, kw, 'Qwen3'); rotation(d, kw); return 'Qwen3ForCausalLM', kw, 'lm'
def r_qwen3_moe(d):
    kw = experts(d, llama_like(d) | dict(attention_bias=d.flag(), use_sliding_window=d.flag(), sliding_window=d.pick(3, 5)), 'num_experts'); sparse(d, kw); rotation(d, kw); return 'Qwen3MoeForCausalLM', kw, 'lm'
def r_smollm3(d):
    kw = llama_like(d) | dict(attention_bias=d.flag(), mlp_bias=d.flag(), no_rope_layer_interval=d.whole(2, 3), use_sliding_window=d.flag(0.6), sliding_window=d.pick(3, 5)); D = even(kw); L = kw['num_hidden_layers']
    if d.flag(): kw['no_rope_layers'] = [d.whole(0, 1) for _ in range(L)]
    if d.flag(0.4) and kw['use_sliding_window']: kw['layer_types'] = types(d, L)
    rotation(d, kw, D); return 'SmolLM3ForCausalLM', kw, 'lm'
def r_granite(d):
    kw = llama_like(d) | dict(attention_bias=d.flag(), mlp_bias=d.flag(), embedding_multiplier=d.pick(1.0, 12.0), attention_multiplier=d.real(0.1, 0.6), residual_multiplier=d.pick(1.0, 0.22), logits_scaling=d.pick(1.0, 8.0))
    D = even(kw); rotation(d, kw, D); return 'GraniteForCausalLM', kw, 'lm'
def r_phi3(d):
    kw = llama_like(d) | dict(sliding_window=d.pick(None, 3, 5), original_max_position_embeddings=d.pick(8, 16), max_position_embeddings=64); D = even(kw); part = d.pick(1.0, 0.5)
    kw |= dict(partial_rotary_factor=part, rope_theta=d.pick(10000.0, 500.0)); n = int(D * part) // 2 if D else 0
    if d.flag(): kw['rope_scaling'] = dict(type=d.pick('longrope', 'su', 'yarn'), short_factor=[d.real(1, 2) for _ in range(n)], long_factor=[d.real(1, 9) for _ in range(n)])
    return 'Phi3ForCausalLM', kw, 'lm'
def gemma_like(d): return llama_like(d) | dict(tie_word_embeddings=d.flag(0.7), attention_bias=d.flag())
def r_gemma(d):
    kw = gemma_like(d); rotation(d, kw); return 'GemmaForCausalLM', kw, 'lm'
def gemma_more(d, kw):
    kw['hidden_activation'] = kw.pop('hidden_act'); kw |= dict(query_pre_attn_scalar=d.pick(8, 12, 256), sliding_window=d.pick(3, 5), attn_logit_softcapping=d.pick(None, 2.0, 50.0), final_logit_softcapping=d.pick(None, 3.0, 30.0))
    if d.flag(0.4): kw['layer_types'] = types(d, kw['num_hidden_layers'])
def r_gemma2(d):
    kw = gemma_like(d); gemma_more(d, kw); rotation(d, kw); return 'Gemma2ForCausalLM', kw, 'lm'
SOME = ('none', 'linear', 'dynamic', 'yarn', 'llama3')
def both_rotations(d, kw, width, full, local):
    if d.flag(): kw['rope_parameters'] = {k: dict(rope_type='default') | {a: b for a, b in (scaling(d, width, SOME) or {}).items() if a != 'truncate'} | dict(rope_theta=d.pick(10000.0, 500.0, 1e6)) for k in ('full_attention', 'sliding_attention')}
    else:
        kw |= {full: d.pick(1e6, 500.0), local: d.pick(10000.0, 300.0)}
        if d.flag(): kw['rope_scaling'] = dict(rope_type='linear', factor=d.pick(2.0, 8.0))
def r_gemma3(d):
    kw = gemma_like(d); gemma_more(d, kw); kw['attn_logit_softcapping'] = d.pick(None, None, None, None, 2.0); both_rotations(d, kw, kw['head_dim'], 'rope_theta', 'rope_local_base_freq')
    if 'layer_types' not in kw: kw['sliding_window_pattern'] = d.whole(2, 4)
    return 'Gemma3ForCausalLM', kw, 'lm'
def r_olmo2(d):
    kw = llama_like(d) | dict(attention_bias=d.flag()); D = even(kw); rotation(d, kw, D); return 'Olmo2ForCausalLM', kw, 'lm'
def r_olmoe(d):
    kw = experts(d, llama_like(d) | dict(intermediate_size=6, attention_bias=d.flag(), clip_qkv=d.pick(None, 0.5), norm_topk_prob=d.flag()), 'num_experts'); D = even(kw); rotation(d, kw, D); return 'OlmoeForCausalLM', kw, 'lm'
def latent(d):
    kw = llama_like(d, gqa=False) | dict(kv_lora_rank=d.pick(5, 8), q_lora_rank=d.pick(None, 6), qk_rope_head_dim=d.pick(2, 4), qk_nope_head_dim=d.pick(3, 6), v_head_dim=d.pick(4, 5), n_routed_experts=d.pick(4, 6), n_shared_experts=d.whole(1, 2),
                                         num_experts_per_tok=d.whole(1, 2), moe_intermediate_size=d.pick(3, 5), attention_bias=d.flag(), routed_scaling_factor=d.pick(1.0, 1.7)); narrow(kw)
    kw['first_k_dense_replace'] = d.whole(0, kw['num_hidden_layers']); rotation(d, kw, kw['qk_rope_head_dim']); return kw
def r_deepseek_v2(d):
    kw = latent(d) | dict(topk_method=d.pick('greedy', 'group_limited_greedy'))
    if kw['topk_method'] != 'greedy': kw |= dict(n_group=2, topk_group=d.whole(1, 2))
    return 'DeepseekV2ForCausalLM', kw, 'lm'
def r_deepseek_v3(d):
    g = d.whole(1, 2); return 'DeepseekV3ForCausalLM', latent(d) | dict(n_group=g, topk_group=d.whole(1, g), norm_topk_prob=d.flag(), rope_interleave=d.flag()), 'lm'
def r_gpt_oss(d):
    kw = experts(d, llama_like(d) | dict(intermediate_size=6, sliding_window=d.pick(3, 5), attention_bias=d.flag(), swiglu_limit=d.pick(0.8, 7.0))); kw.pop('hidden_act')
    if d.flag(0.4): kw['layer_types'] = types(d, kw['num_hidden_layers'])
    rotation(d, kw); return 'GptOssForCausalLM', kw, 'lm'
def r_cohere(d):
    kw = llama_like(d, 'layer_norm_eps') | dict(logit_scale=d.pick(0.0625, 1.5), use_qk_norm=d.flag(), attention_bias=d.flag()); D = even(kw); rotation(d, kw, D); return 'CohereForCausalLM', kw, 'lm'
def r_starcoder2(d):
    kw = llama_like(d, 'norm_epsilon') | dict(use_bias=d.flag(), sliding_window=d.pick(None, 3)); D = even(kw); rotation(d, kw, D); return 'Starcoder2ForCausalLM', kw, 'lm'
def r_phi(d):
    kw = llama_like(d, 'layer_norm_eps') | dict(qk_layernorm=d.flag(), hidden_size=32, num_attention_heads=4, num_key_value_heads=d.pick(1, 2, 4)); narrow(kw); part = d.pick(0.5, 0.25, 1.0); rotation(d, kw, int(8 * part))
    if 'rope_parameters' in kw: kw['rope_parameters']['partial_rotary_factor'] = part
    else: kw['partial_rotary_factor'] = part
    return 'PhiForCausalLM', kw, 'lm'
def r_gpt_neox(d):
    kw = llama_like(d, 'layer_norm_eps', gqa=False) | dict(hidden_size=32, num_attention_heads=4, rotary_pct=d.pick(0.25, 0.5, 1.0), rotary_emb_base=d.pick(10000, 500), use_parallel_residual=d.flag(), attention_bias=d.flag()); narrow(kw); kw.pop('num_key_value_heads')
    s = scaling(d, int(8 * kw['rotary_pct']))
    if s: kw['rope_scaling'] = s
    return 'GPTNeoXForCausalLM', kw, 'lm'
def gpt(d, **more):
    H = d.pick(2, 4); return dict(vocab_size=d.pick(37, 52), n_positions=d.pick(16, 40), n_embd=H * d.pick(4, 8), n_layer=d.whole(1, 3), n_head=H, n_inner=d.pick(None, 20), activation_function=d.act(), layer_norm_epsilon=d.eps(), tie_word_embeddings=d.flag(), bos_token_id=0, eos_token_id=0) | more
def r_gpt2(d): return 'GPT2LMHeadModel', gpt(d) | (dict(scale_attn_weights=False) if d.flag(0.3) else {}) | (dict(scale_attn_by_inverse_layer_idx=True) if d.flag(0.2) else {}) | dict(reorder_and_upcast_attn=d.flag(0.2)), 'lm'
def r_gpt_bigcode(d): return 'GPTBigCodeForCausalLM', gpt(d) | dict(multi_query=d.flag(0.6)) | (dict(scale_attn_weights=False) if d.flag(0.2) else {}) | dict(attention_softmax_in_fp32=d.flag(), scale_attention_softmax_in_fp32=d.flag()), 'lm'
def r_gptj(d): return 'GPTJForCausalLM', gpt(d, rotary_dim=d.pick(2, 4)), 'lm'
def r_bloom(d): return 'BloomForCausalLM', dict(vocab_size=d.pick(37, 52), hidden_size=d.pick(12, 24), n_layer=d.whole(1, 3), n_head=d.pick(2, 3, 4, 6), layer_norm_epsilon=d.eps(), apply_residual_connection_post_layernorm=d.flag(0.3), tie_word_embeddings=d.flag(0.7)), 'lm'
def r_opt(d):
    H = d.pick(2, 4); C = H * 8; pre = d.flag(); return 'OPTForCausalLM', dict(vocab_size=d.pick(37, 52), hidden_size=C, ffn_dim=d.pick(20, 40), num_hidden_layers=d.whole(1, 3), num_attention_heads=H, max_position_embeddings=d.pick(16, 40), activation_function=d.act(), do_layer_norm_before=pre,
        _remove_final_layer_norm=d.flag(0.3), word_embed_proj_dim=d.pick(C, C, 12), enable_bias=d.flag(), layer_norm_elementwise_affine=d.flag(0.6), tie_word_embeddings=d.flag(), pad_token_id=1, bos_token_id=2, eos_token_id=2), 'lm'
def r_falcon(d):
    H = d.pick(2, 4); kw = dict(vocab_size=d.pick(37, 52), hidden_size=H * 8, num_hidden_layers=d.whole(1, 3), num_attention_heads=H, layer_norm_epsilon=d.eps(), alibi=d.flag(0.3), bias=d.flag(), multi_query=d.flag(), new_decoder_architecture=d.flag(0.4), parallel_attn=d.flag(),
        num_kv_heads=d.pick(None, 1, 2), ffn_hidden_size=d.pick(None, 20), activation=d.act(), tie_word_embeddings=d.flag(), max_position_embeddings=64)
    if kw['new_decoder_architecture'] and d.flag(): kw['num_ln_in_parallel_attn'] = d.whole(1, 2)
    if not kw['alibi']: rotation(d, kw, 8)
    return 'FalconForCausalLM', kw, 'lm'
def r_mpt(d): return 'MptForCausalLM', dict(vocab_size=d.pick(37, 52), d_model=d.pick(12, 24), n_heads=d.pick(2, 3, 4, 6), n_layers=d.whole(1, 3), expansion_ratio=4, max_seq_len=64, layer_norm_epsilon=d.eps(), tie_word_embeddings=d.flag(0.7), attn_config=dict(alibi=True, clip_qkv=d.pick(None, 0.7), softmax_scale=d.pick(None, 0.3))), 'lm'
def bert(d, **more):
    H = d.pick(2, 3, 4); return dict(vocab_size=d.pick(37, 52), hidden_size=H * d.pick(4, 8), intermediate_size=d.pick(20, 36), num_hidden_layers=d.whole(1, 3), num_attention_heads=H, max_position_embeddings=d.pick(20, 40), type_vocab_size=d.whole(1, 3), hidden_act=d.act(), layer_norm_eps=d.eps(), pad_token_id=0, tie_word_embeddings=d.flag(0.6)) | more
def classes(d, stem, kw, kinds=('ForMaskedLM', 'ForMaskedLM', 'ForSequenceClassification', 'ForTokenClassification')):
    kind = d.pick(*kinds)
    if kind == 'ForSequenceClassification': return stem + kind, kw | dict(num_labels=d.whole(2, 5), type_vocab_size=2), 'classify'
    if kind == 'ForTokenClassification': return stem + kind, kw | dict(num_labels=d.whole(2, 5)), 'tokens'
    return stem + kind, kw, 'mlm'
def r_bert(d): return classes(d, 'Bert', bert(d))
def r_roberta(d):
    kw = bert(d, pad_token_id=d.pick(0, 1, 2, 3)); kw['type_vocab_size'] = d.whole(1, 2); return classes(d, d.pick('Roberta', 'XLMRoberta'), kw)
def r_camembert(d):
    kw = bert(d, pad_token_id=d.pick(0, 1, 2, 3)); kw['type_vocab_size'] = d.whole(1, 2); return classes(d, 'Camembert', kw)
def r_distilbert(d):
    b = bert(d); return classes(d, 'DistilBert', dict(vocab_size=b['vocab_size'], dim=b['hidden_size'], hidden_dim=b['intermediate_size'], n_layers=b['num_hidden_layers'], n_heads=b['num_attention_heads'], max_position_embeddings=b['max_position_embeddings'], activation=b['hidden_act'], sinusoidal_pos_embds=False,
        pad_token_id=0, tie_word_embeddings=b['tie_word_embeddings']), ('ForMaskedLM', 'ForTokenClassification'))
def r_albert(d):
    kw = bert(d, embedding_size=d.pick(8, 12), inner_group_num=1); kw['num_hidden_groups'] = d.whole(1, kw['num_hidden_layers']); return classes(d, 'Albert', kw, ('ForMaskedLM', 'ForMaskedLM', 'ForSequenceClassification'))
def r_electra(d):
    kw = bert(d); kw['embedding_size'] = d.pick(8, kw['hidden_size']); return classes(d, 'Electra', kw)
def r_modernbert(d):
    L = d.whole(1, 4); H = d.pick(2, 4); kw = dict(vocab_size=d.pick(37, 52), hidden_size=H * 8, intermediate_size=d.pick(20, 36), num_hidden_layers=L, num_attention_heads=H, max_position_embeddings=d.pick(16, 64), norm_eps=d.eps(), norm_bias=d.flag(), attention_bias=d.flag(), mlp_bias=d.flag(), hidden_activation=d.act(),
        local_attention=d.pick(4, 6, 7), decoder_bias=d.flag(), classifier_bias=d.flag(), classifier_activation=d.act(), tie_word_embeddings=d.flag(0.6), pad_token_id=0, cls_token_id=1, sep_token_id=2, bos_token_id=1, eos_token_id=2)
    if d.flag(): kw['layer_types'] = types(d, L)
    else: kw['global_attn_every_n_layers'] = d.whole(1, 3)
    both_rotations(d, kw, 8, 'global_rope_theta', 'local_rope_theta'); return 'ModernBertForMaskedLM', kw, 'mlm'
def r_t5(d):
    cls = d.pick('T5ForConditionalGeneration', 'T5ForConditionalGeneration', 'MT5ForConditionalGeneration')
    kw = dict(vocab_size=d.pick(37, 52), d_model=d.pick(16, 24), d_kv=d.pick(4, 8), d_ff=d.pick(20, 40), num_layers=d.whole(1, 3), num_decoder_layers=d.whole(1, 3), num_heads=d.pick(2, 3), relative_attention_num_buckets=d.pick(6, 8, 32), relative_attention_max_distance=d.pick(10, 16, 128), layer_norm_epsilon=d.eps(),
        feed_forward_proj=d.pick('relu', 'gelu', 'silu', 'gated-gelu', 'gated-silu', 'gated-relu', 'gelu_new', 'gated-quick_gelu'), tie_word_embeddings=d.flag(), pad_token_id=0, eos_token_id=1, decoder_start_token_id=0)
    if d.flag(0.3) and cls[0] == 'T': kw['scale_decoder_outputs'] = d.flag()
    return cls, kw, 'seq2seq'
def r_t5_encoder(d):
    kw = {k: v for k, v in r_t5(d)[1].items() if k not in ('num_decoder_layers', 'scale_decoder_outputs', 'tie_word_embeddings', 'decoder_start_token_id')}; cls = d.pick('T5EncoderModel', 'MT5EncoderModel', 'T5ForTokenClassification')
    return (cls, kw | dict(num_labels=d.whole(2, 5)), 'tokens') if 'Token' in cls else (cls, kw, 'bare')
def bart(d, **more):
    H = d.pick(2, 4); return dict(vocab_size=d.pick(37, 52), d_model=H * d.pick(4, 8), encoder_layers=d.whole(1, 2), decoder_layers=d.whole(1, 2), encoder_attention_heads=H, decoder_attention_heads=d.pick(2, 4), encoder_ffn_dim=d.pick(12, 20), decoder_ffn_dim=d.pick(12, 20), max_position_embeddings=d.pick(16, 40),
        activation_function=d.act(), scale_embedding=d.flag(), tie_word_embeddings=d.flag(0.6), pad_token_id=1, bos_token_id=0, eos_token_id=2, decoder_start_token_id=2) | more
def r_bart(d): return 'BartForConditionalGeneration', bart(d), 'seq2seq'
def r_marian(d):
    kw = bart(d, share_encoder_decoder_embeddings=d.flag(0.6)); V = kw['vocab_size']
    if not kw['share_encoder_decoder_embeddings'] and d.flag(): kw['decoder_vocab_size'] = V - 7
    return 'MarianMTModel', kw, 'seq2seq'
def r_whisper(d):
    kw = bart(d, num_mel_bins=d.pick(4, 8), max_source_positions=d.pick(6, 9), max_target_positions=d.pick(16, 30)); kw.pop('max_position_embeddings'); return 'WhisperForConditionalGeneration', kw, 'speech'
def r_vit(d):
    b = bert(d); p = d.pick(2, 4); h, w = p * d.whole(1, 4) + d.pick(0, 0, 0, 0, p - 1), p * d.whole(1, 4)
    return 'ViTForImageClassification', dict(hidden_size=b['hidden_size'], num_hidden_layers=b['num_hidden_layers'], num_attention_heads=b['num_attention_heads'], intermediate_size=b['intermediate_size'], hidden_act=b['hidden_act'], layer_norm_eps=b['layer_norm_eps'], image_size=d.pick(h, [h, w]),
        patch_size=d.pick(p, [p, p]), num_channels=d.whole(1, 3), qkv_bias=d.flag(), num_labels=d.whole(2, 5)), 'image'
# ---- more families ------------------------------------------------------------------------------------------------------------------------------------
def r_olmo(d):
    kw = llama_like(d) | dict(clip_qkv=d.pick(None, 0.7), attention_bias=d.flag()); kw.pop('rms_norm_eps'); D = even(kw); rotation(d, kw, D); return 'OlmoForCausalLM', kw, 'lm'
def r_olmo3(d):
    kw = llama_like(d) | dict(attention_bias=d.flag(), sliding_window=d.pick(3, 5)); D = even(kw); L = kw['num_hidden_layers']
    if d.flag(): kw['layer_types'] = types(d, L)
    if d.flag():
        one = lambda: dict(rope_theta=d.pick(10000.0, 500.0)) | (scaling(d, D or 4, SOME) or dict(rope_type='default'))
        kw['rope_parameters'] = {t: one() for t in ('full_attention', 'sliding_attention')}
        for r in kw['rope_parameters'].values(): r.pop('truncate', None)
    elif d.flag():
        kw['rope_scaling'] = scaling(d, D or 4, ('linear', 'yarn')); kw['rope_scaling'].pop('truncate', None)
    return 'Olmo3ForCausalLM', kw, 'lm'
def period(d, kw):
    if d.flag(): kw['layer_types'] = types(d, kw['num_hidden_layers'])
    else: kw['sliding_window_pattern'] = d.whole(1, 3)
def r_cohere2(d):
    kw = llama_like(d, 'layer_norm_eps') | dict(logit_scale=d.pick(0.0625, 1.5), attention_bias=d.flag(), sliding_window=d.pick(3, 5)); D = even(kw); period(d, kw); rotation(d, kw, D); return 'Cohere2ForCausalLM', kw, 'lm'
def r_gpt_neo(d):
    H, L = d.pick(2, 4), d.whole(1, 3); return 'GPTNeoForCausalLM', dict(vocab_size=d.pick(37, 52), max_position_embeddings=d.pick(16, 40), hidden_size=H * d.pick(4, 8), num_layers=L, num_heads=H, attention_types=[[[d.pick('global', 'local')], 1] for _ in range(L)], window_size=d.pick(1, 3, 5),
        activation_function=d.act(), intermediate_size=d.pick(None, 20), layer_norm_epsilon=d.eps(), tie_word_embeddings=d.flag(), bos_token_id=0, eos_token_id=0, pad_token_id=0), 'lm'
def part(d, kw, width):
    p = d.pick(0.5, 1.0); rotation(d, kw, int(width * p)); kw.get('rope_parameters', kw)['partial_rotary_factor'] = p
def r_glm(d):
    kw = llama_like(d) | dict(head_dim=d.pick(4, 8), attention_bias=d.flag()); part(d, kw, kw['head_dim']); return 'GlmForCausalLM', kw, 'lm'
def r_glm4(d):
    kw = llama_like(d) | dict(head_dim=d.pick(4, 8), attention_bias=d.flag()); part(d, kw, kw['head_dim']); return 'Glm4ForCausalLM', kw, 'lm'
def corrected(d, kw):
    E, k, S = d.pick(*[(4, 2, 1), (6, 2, 2), (8, 3, 1)]); g = d.pick(*[n for n in (1, 2, 3) if E % n == 0 and E // n >= 2]); top = d.whole(-(-k // (E // g)), g)
    return kw | dict(intermediate_size=12, moe_intermediate_size=4, n_routed_experts=E, num_experts_per_tok=k, n_shared_experts=S, n_group=g, topk_group=top, routed_scaling_factor=d.pick(1.0, 2.5), norm_topk_prob=d.flag(), first_k_dense_replace=d.whole(0, kw['num_hidden_layers']))
def r_glm4_moe(d):
    kw = corrected(d, llama_like(d) | dict(head_dim=d.pick(4, 8), attention_bias=d.flag(), use_qk_norm=d.flag())); part(d, kw, kw['head_dim']); return 'Glm4MoeForCausalLM', kw, 'lm'
def r_dots1(d):
    kw = corrected(d, llama_like(d) | dict(attention_bias=d.flag(), sliding_window=d.pick(None, 3, 5), max_window_layers=d.whole(0, 3)))
    if d.flag(0.4) and kw['sliding_window']: kw['layer_types'] = types(d, kw['num_hidden_layers'])
    rotation(d, kw); return 'Dots1ForCausalLM', kw, 'lm'
def r_minimax_m2(d):
    kw = experts(d, llama_like(d) | dict(intermediate_size=6, head_dim=d.pick(4, 8))); rotation(d, kw, kw['head_dim'] // 2)
    if d.flag() and 'rope_parameters' not in kw: kw['rotary_dim'] = kw['head_dim'] // 2
    else: kw.get('rope_parameters', kw)['partial_rotary_factor'] = 0.5
    return 'MiniMaxM2ForCausalLM', kw, 'lm'
def r_ernie4_5(d):
    kw = llama_like(d) | dict(use_bias=d.flag()); rotation(d, kw); return 'Ernie4_5ForCausalLM', kw, 'lm'
def r_ernie4_5_moe(d):
    kw = llama_like(d); L, E = kw['num_hidden_layers'], d.pick(2, 3, 5); D = even(kw); kw |= dict(moe_intermediate_size=5, moe_num_experts=E, moe_k=d.whole(1, E), moe_num_shared_experts=d.whole(0, 2), moe_layer_start_index=d.whole(0, L), moe_layer_end_index=d.pick(-1, L - 1, 0), moe_layer_interval=d.whole(1, 2)); kw['use_bias'] = d.flag()
    rotation(d, kw, D); return 'Ernie4_5_MoeForCausalLM', kw, 'lm'
def r_exaone4(d):
    kw = llama_like(d); D = even(kw)
    if d.flag(0.3): kw |= dict(sliding_window=None, layer_types=['full_attention'] * kw['num_hidden_layers'])
    else: kw['sliding_window'] = d.pick(3, 5); period(d, kw)
    rotation(d, kw, D); return 'Exaone4ForCausalLM', kw, 'lm'
def r_seed_oss(d):
    kw = llama_like(d) | dict(attention_bias=d.flag(), attention_out_bias=d.flag(), mlp_bias=d.flag()); rotation(d, kw); return 'SeedOssForCausalLM', kw, 'lm'
def r_stablelm(d):
    kw = llama_like(d, 'layer_norm_eps') | dict(use_qkv_bias=d.flag(), use_parallel_residual=d.flag(), hidden_size=32, num_attention_heads=4, num_key_value_heads=d.pick(1, 2, 4)); narrow(kw); part(d, kw, 8); kw['qk_layernorm'] = d.flag(); return 'StableLmForCausalLM', kw, 'lm'
def multiplied(d, kw): return experts(d, kw | dict(intermediate_size=6, attention_bias=d.flag(), embedding_multiplier=d.pick(1.0, 12.0), attention_multiplier=d.real(0.1, 0.6), residual_multiplier=d.pick(1.0, 0.22), logits_scaling=d.pick(1.0, 8.0)))
def r_granitemoe(d):
    kw = multiplied(d, llama_like(d)); D = even(kw); rotation(d, kw, D); return 'GraniteMoeForCausalLM', kw, 'lm'
def r_granitemoeshared(d):
    kw = multiplied(d, llama_like(d)) | dict(shared_intermediate_size=d.pick(0, 7)); D = even(kw); rotation(d, kw, D); return 'GraniteMoeSharedForCausalLM', kw, 'lm'
def r_arcee(d):
    kw = llama_like(d) | dict(attention_bias=d.flag(), mlp_bias=d.flag()); rotation(d, kw); return 'ArceeForCausalLM', kw, 'lm'
def r_helium(d):
    kw = llama_like(d) | dict(attention_bias=d.flag(), mlp_bias=d.flag()); kw['head_dim'] = kw['hidden_size'] // kw['num_attention_heads']; rotation(d, kw); return 'HeliumForCausalLM', kw, 'lm'
def r_vaultgemma(d):
    kw = gemma_like(d); gemma_more(d, kw); rotation(d, kw); return 'VaultGemmaForCausalLM', kw, 'lm'
def r_eurobert(d):
    kw = llama_like(d) | dict(attention_bias=d.flag(), mlp_bias=d.flag(), classifier_pooling=d.pick('bos', 'mean')); rotation(d, kw); kind = d.pick('ForMaskedLM', 'ForMaskedLM', 'ForTokenClassification', 'ForSequenceClassification')
    return 'EuroBert' + kind, kw | (dict(num_labels=3) if kind != 'ForMaskedLM' else {}), {'ForMaskedLM': 'mlm', 'ForTokenClassification': 'tokens'}.get(kind, 'last')
def r_modernbert_decoder(d):
    cls, kw, _ = r_modernbert(d); return 'ModernBertDecoderForCausalLM', kw, 'lm'
def plain(kw, *names): return {k: v for k, v in kw.items() if k not in names}
def r_mpnet(d): return classes(d, 'MPNet', plain(bert(d, pad_token_id=1), 'type_vocab_size'), ('ForMaskedLM', 'ForMaskedLM', 'ForTokenClassification'))
def r_megatron_bert(d): return classes(d, 'MegatronBert', bert(d))
def r_roberta_prelayernorm(d):
    kw = bert(d, pad_token_id=d.pick(0, 1, 2, 3)); kw['type_vocab_size'] = d.whole(1, 2); return classes(d, 'RobertaPreLayerNorm', kw)
def r_nomic_bert(d):
    kw = bert(d, rope_theta=d.pick(1000.0, 77.0)); kw['hidden_size'] = kw['num_attention_heads'] * 8; return classes(d, 'NomicBert', kw)
def r_clip_text(d): return 'CLIPTextModel', plain(bert(d), 'type_vocab_size', 'tie_word_embeddings') | dict(eos_token_id=2, bos_token_id=1), 'bare'
def r_m2m_100(d): return 'M2M100ForConditionalGeneration', bart(d, pad_token_id=d.pick(0, 1, 2)), 'seq2seq'
def r_mbart(d): return 'MBartForConditionalGeneration', bart(d), 'seq2seq'
def r_pegasus(d): return 'PegasusForConditionalGeneration', bart(d), 'seq2seq'
def r_blenderbot(d): return 'BlenderbotForConditionalGeneration', bart(d), 'seq2seq'
def r_blenderbot_small(d): return 'BlenderbotSmallForConditionalGeneration', bart(d), 'seq2seq'
def r_umt5(d):
    kw = {k: v for k, v in r_t5(d)[1].items() if k != 'scale_decoder_outputs'}; kind = d.pick('ForConditionalGeneration', 'ForConditionalGeneration', 'EncoderModel', 'ForTokenClassification')
    if kind == 'ForTokenClassification': return 'UMT5' + kind, kw | dict(num_labels=d.whole(2, 5)), 'tokens'
    return 'UMT5' + kind, kw, 'seq2seq' if kind == 'ForConditionalGeneration' else 'bare'
def r_esm(d):
    kw = plain(bert(d), 'type_vocab_size') | dict(vocab_size=d.pick(9, 14), mask_token_id=d.pick(5, 6), pad_token_id=d.pick(0, 1, 2), position_embedding_type=d.pick('rotary', 'rotary', 'absolute'), emb_layer_norm_before=d.flag(), token_dropout=d.flag(0.7)); kw['hidden_size'] = kw['num_attention_heads'] * d.pick(4, 8)
    kind = d.pick('ForMaskedLM', 'ForMaskedLM', 'ForTokenClassification', 'ForSequenceClassification'); return 'Esm' + kind, kw | (dict(num_labels=3) if kind != 'ForMaskedLM' else {}), {'ForMaskedLM': 'mlm', 'ForTokenClassification': 'tokens'}.get(kind, 'last')
def r_xglm(d):
    H = d.pick(2, 4); return 'XGLMForCausalLM', dict(vocab_size=d.pick(37, 52), d_model=H * d.pick(4, 8), ffn_dim=d.pick(12, 20), num_layers=d.whole(1, 3), attention_heads=H, max_position_embeddings=d.pick(16, 40), activation_function=d.act(), scale_embedding=d.flag(), tie_word_embeddings=d.flag(0.6), pad_token_id=1,
        bos_token_id=0, eos_token_id=2, decoder_start_token_id=2), 'lm'
def r_biogpt(d): return 'BioGptForCausalLM', plain(bert(d), 'type_vocab_size') | dict(scale_embedding=d.flag(), pad_token_id=d.pick(0, 1)), 'lm'
def r_codegen(d): return 'CodeGenForCausalLM', gpt(d, rotary_dim=d.pick(2, 4)) | dict(n_head=4, n_embd=d.pick(16, 32)), 'lm'
def part_of(d, kw):   # a rotation of part of a head
    kw['partial_rotary_factor'] = d.pick(1.0, 0.5); rotation(d, kw, int(kw['head_dim'] * kw['partial_rotary_factor']) // 2 * 2)
    if 'rope_parameters' in kw: kw['rope_parameters']['partial_rotary_factor'] = kw.pop('partial_rotary_factor')
def r_nemotron(d):
    kw = llama_like(d, 'norm_eps') | dict(attention_bias=d.flag(), mlp_bias=d.flag(), head_dim=d.pick(4, 8, 16)); part_of(d, kw); return 'NemotronForCausalLM', kw, 'lm'
def r_ministral3(d):
    kw = plain(llama_like(d), 'x') | dict(sliding_window=d.pick(None, 3, 40)); kw['rope_parameters'] = yarn(d, d.pick(3, 8)) | dict(rope_theta=d.pick(10000.0, 500.0), llama_4_scaling_beta=d.pick(0.1, 0.5)); return 'Ministral3ForCausalLM', kw, 'lm'
def r_llama4(d):
    kw = llama_like(d) | dict(num_hidden_layers=d.whole(2, 4), head_dim=d.pick(4, 8), intermediate_size=d.pick(4, 7), intermediate_size_mlp=d.pick(5, 8), num_local_experts=d.pick(2, 3), num_experts_per_tok=d.pick(1, 2), interleave_moe_layer_step=d.whole(1, 2), no_rope_layer_interval=d.whole(2, 3),
        attention_chunk_size=d.pick(None, 4, 7), floor_scale=d.pick(2, 5), attn_scale=d.real(0.1, 0.6), use_qk_norm=d.flag(), attn_temperature_tuning=d.flag(), attention_bias=d.flag()); rotation(d, kw); return 'Llama4ForCausalLM', kw, 'lm'
def r_phimoe(d):
    kw = llama_like(d) | dict(num_local_experts=d.pick(3, 5), num_experts_per_tok=2, router_jitter_noise=d.real(0.01, 0.4), attention_bias=d.flag(), lm_head_bias=d.flag(), intermediate_size=d.pick(5, 9), sliding_window=d.pick(None, 5)); kw['rope_theta'] = d.pick(10000.0, 500.0)
    if not kw['lm_head_bias']: return 'PhimoeForCausalLM', kw, 'lm'
    return 'PhimoeForCausalLM', kw | dict(tie_word_embeddings=False), 'lm'
def r_hunyuan(d):
    kw = llama_like(d) | dict(attention_bias=d.flag()); rotation(d, kw)
    if d.flag(): kw = plain(kw, 'rope_scaling', 'rope_parameters') | dict(rope_scaling=dict(type='dynamic', factor=1.0, alpha=d.pick(10.0, 1000.0)))
    return 'HunYuanDenseV1ForCausalLM', kw, 'lm'
FAMILIES = {k[2:]: f for k, f in list(globals().items()) if k.startswith('r_')}

# ---- cases ------------------------------------------------------------------------------------------------------------------------------------------------
def attention_of(kw): return 'sdpa' if kw.get('alibi') else 'eager'   # see SDPA in hf_cases.py
def config_of(cls, kw):
    c = cls.config_class(**copy.deepcopy(kw)); c._attn_implementation = attention_of(kw); c._experts_implementation = 'eager'; return c
def new_model(cls, cfg, family, untied):
    m = cls(cfg).eval()
    if untied: m.lm_head.weight = torch.nn.Parameter(m.lm_head.weight.detach().clone())
    return m
def inputs(family, kind, cfg, seed):
    c = hf.inputs(family, 'mlm' if kind == 'tokens' else 'image' if kind == 'image' and isinstance(cfg.image_size, int) else kind, cfg, seed) if kind != 'image' or isinstance(cfg.image_size, int) else {}
    r = hf.rng_of(seed, family, 'more'); V = getattr(cfg, 'decoder_vocab_size', None)
    if kind == 'image' and not c:
        h, w = cfg.image_size; c = {'in.pixels': r.standard_normal((2, cfg.num_channels, h, w)).astype(np.float32), 'in.targets': r.integers(0, cfg.num_labels, (2,)).astype(np.int32)}
    if kind == 'tokens':
        y = c['in.targets']; c['in.targets'] = np.where(y < 0, y, y % cfg.num_labels).astype(np.int32)
    if V:
        c['in.ids'] = (c['in.ids'] % V).astype(np.int32); c['in.targets'] = np.where(c['in.targets'] < 0, c['in.targets'], c['in.targets'] % V).astype(np.int32)
    return c
def close(a, b): return all(torch.equal(a[k], b[k]) for k in a if k != 'out.loss')
def make(family, out, seed, number):
    name = f'{family}_{seed}_{number:03d}'; folder = f'{out}/{name}'
    for attempt in range(20):
        cls_name, kw, kind = FAMILIES[family](Draw('hf_random', seed, family, number, attempt)); cls = getattr(transformers, cls_name); shutil.rmtree(folder, ignore_errors=True); os.makedirs(folder)
        untied = cls_name[:2] in ('T5', 'MT', 'UM') and kind == 'seq2seq' and Draw('untied', seed, number).flag()
        try:
            torch.manual_seed(0); cfg = config_of(cls, kw); model = new_model(cls, cfg, family, untied); hf.fill(model, family, f'{seed}_{number}'); c = inputs(family, kind, cfg, f'{seed}_{number}'); run_kind = 'mlm' if kind == 'tokens' else kind
            with torch.no_grad(): small, _ = hf.run(model, run_kind, c, F32)
            assert all(torch.isfinite(v).all() for v in small.values()), 'it is not finite'
            model.save_pretrained(folder); again = cls.from_pretrained(folder, dtype=torch.float32, attn_implementation=attention_of(kw)).eval(); again.config._experts_implementation = 'eager'
            with torch.no_grad(): back, _ = hf.run(again, run_kind, c, F32)
            assert close(small, back), 'the saved model is another one'
            break
        except Exception as e: print(f'{name:24s} drawn again: {type(e).__name__}: {str(e)[:160]!r}', flush=True)
    else: shutil.rmtree(folder, ignore_errors=True); raise SystemExit(f'{name}: nothing that the reference library takes')
    legacy = {k: v for k, v in kw.items() if k != 'num_labels'}
    if 'num_labels' in kw: legacy |= {'id2label': {str(i): f'LABEL_{i}' for i in range(kw['num_labels'])}, 'label2id': {f'LABEL_{i}': i for i in range(kw['num_labels'])}}
    legacy = {'architectures': [cls_name], 'model_type': cfg.model_type, **legacy, 'torch_dtype': 'float32'}
    drop = ('transformers_version', 'dtype', '_name_or_path', 'architectures', 'num_ln_in_parallel_attn', '_sliding_window_pattern', 'sliding_window_pattern')
    a, b = cls.config_class.from_dict(copy.deepcopy(legacy)).to_dict(), cls.config_class.from_pretrained(folder).to_dict()
    if all(json.dumps(a.get(k), sort_keys=True) == json.dumps(b.get(k), sort_keys=True) for k in set(a) | set(b) if k not in drop): json.dump(legacy, open(folder + '/config.legacy.json', 'w'), indent=1)
    else: shutil.copy(folder + '/config.json', folder + '/config.legacy.json')
    state = {k: v.clone() for k, v in model.state_dict().items()}
    with hf.double():
        wide = new_model(cls, config_of(cls, kw), family, untied).double(); wide.load_state_dict({k: v.double() if v.is_floating_point() else v for k, v in state.items()})
        with torch.no_grad(), hf.NoNarrow(): big, _ = hf.run(wide, run_kind, c, F64)
    out64 = hf.blank(c, {k: v.detach().numpy() for k, v in big.items()}); out32 = hf.blank(c, {k: v.detach().numpy() for k, v in small.items()})
    hf.write(folder + '/case.safetensors', dict(c) | {k: v.astype(np.float32) for k, v in out64.items()}, {'family': family, 'class': cls_name, 'kind': kind, 'seed': f'{seed}_{number}', 'transformers': transformers.__version__, 'computed': 'float64'})
    rel = max(float(np.linalg.norm(out32[k].astype(np.float64) - v) / np.linalg.norm(v)) for k, v in out64.items())
    print(f'{name:24s} {cls_name:34s} fp32 off by {rel:.1e}', flush=True)
    if os.path.exists(folder + '/generation_config.json'): os.remove(folder + '/generation_config.json')
if __name__ == '__main__':
    out, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    for f in sys.argv[4:] or FAMILIES:
        for i in range(count): make(f, out, seed, i)
