"""GGUF files of published folders: python gguf_cases.py [--usual] [--split] [--convert LLAMA_CPP] OUT_DIR FOLDER...

Writes OUT_DIR/NAME.gguf for each folder NAME of tests/golden/hf, hf_random or others with config.json and model.safetensors, and
NAME.safetensors with token ids (in.ids) and the scores that llama.cpp (llama_cpp) gives for them (out.logits). Names of
tensors are those of the gguf package (gguf.get_tensor_name_map); what conversion changes (rows of rotated pairs, 1 + w, joined rows,
stacked experts) is written here from the description in ggml-org/llama.cpp, and shares nothing with the library. The largest difference
of the scores to those of the folder's case.safetensors is printed. A folder whose settings GGUF files cannot say is left out, with the
reason; with --usual such settings first become those that files mean (the difference then says nothing), and the file is
NAME_usual.gguf. --split writes several files of eight tensors, and no scores. Needs Python 3, numpy, gguf, llama_cpp.
--convert: the folder's family is one that CONVERTED names, and the file is written by the converter in LLAMA_CPP, a folder with the source
of llama.cpp (its folder conversion), without a tokenizer; needs torch and transformers too.

Made so, in tests/golden/make: python gguf_cases.py ../gguf ../hf_random/{llama_11_004,gemma_11_004,mpt_11_004,bloom_11_002}, cohere of
../shared/golden/hf, ../hf/{olmo,arcee,stablelm,stablelm_norms,umt5,granitemoe,glm4,seed_oss,exaone4_full,gpt_bigcode,nomic_bert_model}; with --usual the others;
--split ../gguf/split ../hf_random/llama_11_004; and --convert LLAMA_CPP ../gguf ../hf/{deepseek_v2_lite,deepseek_v2_yarn,deepseek_v3_yarn}."""
import glob, importlib, json, os, pathlib, shutil, struct, sys, tempfile
import numpy as np, gguf
import st

ARCH = {'llama': 'LLAMA', 'mixtral': 'LLAMA', 'qwen2': 'QWEN2', 'qwen3': 'QWEN3', 'qwen2_moe': 'QWEN2MOE', 'qwen3_moe': 'QWEN3MOE',
        'smollm3': 'SMOLLM3', 'granite': 'GRANITE', 'phi3': 'PHI3', 'gemma': 'GEMMA', 'gemma2': 'GEMMA2', 'gemma3_text': 'GEMMA3',
        'olmo2': 'OLMO2', 'olmoe': 'OLMOE', 'cohere': 'COMMAND_R', 'starcoder2': 'STARCODER2', 'phi': 'PHI2', 'gpt2': 'GPT2',
        'gpt_neox': 'GPTNEOX', 'bloom': 'BLOOM', 'mpt': 'MPT', 'falcon': 'FALCON', 'gpt_oss': 'GPT_OSS', 'bert': 'BERT',
        'modernbert': 'MODERN_BERT', 't5': 'T5', 'umt5': 'T5', 'olmo': 'OLMO', 'arcee': 'ARCEE', 'stablelm': 'STABLELM', 'granitemoe': 'GRANITE_MOE',
        'glm4': 'GLM4', 'seed_oss': 'SEED_OSS', 'ernie4_5': 'ERNIE4_5', 'cohere2': 'COHERE2', 'exaone4': 'EXAONE4',
        'gpt_bigcode': 'STARCODER', 'nomic_bert': 'NOMIC_BERT'}
PAIRS = ('llama', 'mixtral', 'smollm3', 'granite', 'granitemoe', 'olmo', 'arcee')
ACT = {'gemma': 'gelu_pytorch_tanh', 'gemma2': 'gelu_pytorch_tanh', 'gemma3_text': 'gelu_pytorch_tanh', 'starcoder2': 'gelu_pytorch_tanh',
       'phi': 'gelu_new', 'gpt2': 'gelu_new', 'gpt_neox': 'gelu', 'falcon': 'gelu', 'bert': 'gelu', 'modernbert': 'gelu', 'bloom': None, 'mpt': None, 't5': None, 'umt5': None, 'arcee': 'relu2', 'gpt_bigcode': 'gelu_pytorch_tanh'}
LETTERS = ['<|endoftext|>', '\u0120', *'abcdefghijklmnopqrstuvwxyz', 'th', 'he', 'in', 'er', '\u0120t', '\u0120a', '\u0120th', '.', ',']
MERGES = ['t h', 'h e', 'i n', 'e r', '\u0120 t', '\u0120 a', '\u0120t h']


class Left(Exception):
    """A setting that GGUF files cannot say."""


def first(c, *names, default=None):
    for n in names:
        if c.get(n) is not None: return c[n]
    return default


class Case:
    def __init__(self, folder, usual):
        self.folder, self.name = folder, os.path.basename(folder.rstrip('/'))
        self.c = c = json.load(open(f'{folder}/config.json'))
        if usual: self.make_usual(c)
        if 'text_config' in c: raise Left('a model of several parts')
        self.type = c['model_type']
        if self.type not in ARCH: raise Left(f'type {self.type}')
        want = {'bert': 'BertModel', 'nomic_bert': 'NomicBertModel', 'modernbert': 'ModernBertModel', 't5': 'T5ForConditionalGeneration', 'umt5': 'UMT5ForConditionalGeneration'}.get(self.type)
        self.both = self.type == 'gemma3_text' and bool(c.get('use_bidirectional_attention'))
        if self.both: want = 'Gemma3TextModel'
        arch = c['architectures'][0]
        if arch != want if want else not (arch.endswith('ForCausalLM') or arch.endswith('LMHeadModel')): raise Left(f'class {arch}')
        act = first(c, *(('hidden_activation',) if self.type in ('gemma2', 'gemma3_text') else ()), 'activation', 'activation_function',
                    'hidden_act', 'hidden_activation')
        known = ACT.get(self.type, 'silu')
        if known and act and act != known and not (self.type == 'gemma' and act == 'gelu'): raise Left(f'activation {act}')
        self.decoder = first(c, 'num_decoder_layers', default=first(c, 'num_layers', default=0))
        self.layers = first(c, 'num_hidden_layers', 'n_layer', 'n_layers', 'num_layers')
        self.heads = first(c, 'num_attention_heads', 'n_head', 'n_heads', 'num_heads')
        self.hidden = first(c, 'hidden_size', 'n_embd', 'd_model', 'n_embed')
        self.kv = first(c, 'num_key_value_heads', 'num_kv_heads', default=self.heads)
        if self.type == 'gpt_bigcode': self.kv = 1 if c['multi_query'] else self.heads
        if self.type == 'falcon': self.kv = self.kv if c['new_decoder_architecture'] else 1 if c['multi_query'] else self.heads
        self.width = first(c, 'head_dim', default=self.hidden // self.heads)
        if not os.path.exists(f'{folder}/model.safetensors'): raise Left('weights in several files')
        self.t, _ = st.load(f'{folder}/model.safetensors')
        if self.type == 'bert': self.t = {k: v for k, v in self.t.items() if 'pooler' not in k}
        if self.type == 'olmoe' and usual: self.t = {k: v for k, v in self.t.items() if not k.endswith('bias')}
        arch = getattr(gguf.MODEL_ARCH, 'GEMMA_EMBEDDING' if self.both else ARCH[self.type])
        self.map, self.arch = gguf.get_tensor_name_map(arch, max(self.layers, self.decoder)), gguf.MODEL_ARCH_NAMES[arch]

    def make_usual(self, c):
        t = c['model_type']
        for k in ('activation', 'activation_function', 'hidden_act', 'hidden_activation'):
            if k in c and ACT.get(t, 'silu'): c[k] = ACT.get(t, 'silu')
        if t not in ('gemma2', 'gemma3_text', 'gpt_oss', 'cohere2'): c['use_sliding_window'], c['sliding_window'] = False, None
        if 'query_pre_attn_scalar' in c: c['query_pre_attn_scalar'] = c['head_dim']
        if t in ('gemma2', 'gemma3_text', 'gpt_oss', 'cohere2'): c['layer_types'] = None
        if t == 'gemma2': c['attn_logit_softcapping'], c['final_logit_softcapping'] = c.get('attn_logit_softcapping') or 50.0, c.get('final_logit_softcapping') or 30.0
        if 'norm_topk_prob' in c: c['norm_topk_prob'] = t == 'qwen3_moe'
        if 'attn_config' in c: c['attn_config']['softmax_scale'] = None
        c['use_bidirectional_attention'], c['scale_attn_weights'], c['qk_layernorm'] = False, True, False
        if (c.get('rope_parameters') or {}).get('rope_type') in ('dynamic', 'longrope', 'yarn', 'llama3')[:3 if t == 'llama' else 4] and t != 'phi3': c['rope_parameters'] = {'rope_theta': 10000.0}

    # ---- keys ----
    def rope(self, w):
        c, r = self.c, first(self.c, 'rope_parameters', default={}) or {}
        r = dict(r, **(first(c, 'rope_scaling', default={}) or {}))
        if 'full_attention' in r:
            full, local = r['full_attention'], r['sliding_attention']
            if local.get('rope_type', 'default') != 'default': raise Left('a scaling of layers with a window')
            if local.get('rope_theta', 10000.0) != 10000.0: w.add_rope_freq_base_swa(local['rope_theta'])
            r = full
        part = first(r, 'partial_rotary_factor', default=first(c, 'partial_rotary_factor', 'rotary_pct', default=1.0))
        w.add_rope_dimension_count(int(part * self.width))
        w.add_rope_freq_base(float(first(r, 'rope_theta', default=first(c, 'rope_theta', 'rotary_emb_base', default=10000.0))))
        kind = first(r, 'rope_type', 'type', default='default')
        if kind == 'linear':
            w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR); w.add_rope_scaling_factor(float(r['factor']))
        elif kind == 'yarn':
            if any(k in r for k in ('attention_factor', 'mscale')): raise Left('yarn with a factor of attention')
            w.add_rope_scaling_type(gguf.RopeScalingType.YARN); w.add_rope_scaling_factor(float(r['factor']))
            w.add_rope_scaling_orig_ctx_len(first(r, 'original_max_position_embeddings', default=c['max_position_embeddings']))
            if 'beta_fast' in r: w.add_rope_scaling_yarn_beta_fast(float(r['beta_fast']))
            if 'beta_slow' in r: w.add_rope_scaling_yarn_beta_slow(float(r['beta_slow']))
        elif kind == 'llama3':
            base, dim, low, high, old, factor = (r['rope_theta'] if 'rope_theta' in r else c['rope_theta'], self.width,
                r['low_freq_factor'], r['high_freq_factor'], r['original_max_position_embeddings'], r['factor'])
            out = []
            for f in 1.0 / base ** (np.arange(0, dim, 2) / dim):
                wave = 2 * np.pi / f
                smooth = (old / wave - low) / (high - low)
                out.append(1 if wave < old / high else factor if wave > old / low else 1 / ((1 - smooth) / factor + smooth))
            self.extra = {'rope_freqs.weight': np.array(out, np.float32)}
        elif kind == 'longrope':
            old = first(r, 'original_max_position_embeddings', default=first(c, 'original_max_position_embeddings'))
            scale = c['max_position_embeddings'] / old
            w.add_rope_scaling_orig_ctx_len(old)
            if 'attention_factor' in r or 'factor' in r: raise Left('longrope with a factor')
            w.add_rope_scaling_attn_factors(float(1 if scale <= 1 else np.sqrt(1 + np.log(scale) / np.log(old))))
            self.extra = {f'rope_factors_{k}.weight': np.array(r[f'{k}_factor'], np.float32) for k in ('long', 'short')}
        elif kind != 'default': raise Left(f'rotation {kind}')

    def keys(self, w):
        c, t = self.c, self.type
        w.add_context_length(first(c, 'max_position_embeddings', 'n_positions', 'max_seq_len', 'seq_length', default={'bloom': 2048, 't5': 512, 'umt5': 512}.get(t, 64)))
        w.add_embedding_length(self.hidden); w.add_block_count(self.layers)
        w.add_feed_forward_length(int(first(c, 'intermediate_size', 'n_inner', 'ffn_hidden_size', 'd_ff', 'ffn_dim',
                                            default=first(c, 'expansion_ratio', default=4) * self.hidden)))
        w.add_head_count(self.heads); w.add_head_count_kv(self.kv)
        if t not in ('t5', 'umt5') and (self.width * self.heads != self.hidden or 'head_dim' in c): w.add_key_length(self.width); w.add_value_length(self.width)
        eps = first(c, 'rms_norm_eps', default=None)
        if eps is not None: w.add_layer_norm_rms_eps(eps)
        elif t in ('t5', 'umt5'): w.add_layer_norm_rms_eps(c['layer_norm_epsilon'])
        else: w.add_layer_norm_eps(first(c, 'layer_norm_epsilon', 'layer_norm_eps', 'norm_epsilon', 'norm_eps', default=1e-5))
        if t not in ('gpt2', 'gpt_bigcode', 'bloom', 'mpt', 'bert', 't5', 'umt5'): self.rope(w)
        w.add_vocab_size(c['vocab_size'])
        extra = getattr(self, 'keys_' + t, None)
        if extra: extra(w, c)

    def window(self, w, c):
        if c.get('use_sliding_window'): raise Left('a window')
        if first(c, 'sliding_window') and self.type in ('phi3', 'starcoder2'): raise Left('a window that llama.cpp does not use')
        if first(c, 'sliding_window') and self.type not in ('qwen2', 'qwen3', 'qwen2_moe', 'qwen3_moe'): w.add_sliding_window(c['sliding_window'])

    def experts(self, w, c, count):
        w.add_expert_count(count); w.add_expert_used_count(c['num_experts_per_tok'])

    def keys_qwen2(self, w, c): self.window(w, c)
    keys_qwen3 = keys_starcoder2 = keys_phi3 = keys_qwen2

    def keys_llama(self, w, c):
        if c.get('attention_bias') and 'model.layers.0.self_attn.o_proj.bias' not in self.t: raise Left('biases')

    def keys_smollm3(self, w, c):
        rope = c.get('no_rope_layers') or []
        if [int((i + 1) % 4 != 0) for i in range(self.layers)] != rope[:self.layers]: raise Left('other layers without a rotation')
        self.window(w, c)

    def keys_mixtral(self, w, c):
        if first(c, 'sliding_window'): raise Left('a window')
        self.experts(w, c, c['num_local_experts'])

    def dense(self, c):
        if first(c, 'decoder_sparse_step', default=1) != 1 or c.get('mlp_only_layers'): raise Left('layers without experts')

    def keys_qwen2_moe(self, w, c):
        self.window(w, c); self.dense(c); self.experts(w, c, first(c, 'num_experts', 'num_local_experts'))
        if c.get('norm_topk_prob'): raise Left('weights of experts that are normalized')
        w.add_expert_feed_forward_length(c['moe_intermediate_size'])
        w.add_expert_shared_feed_forward_length(c['shared_expert_intermediate_size'])

    def keys_qwen3_moe(self, w, c):
        self.window(w, c); self.dense(c); self.experts(w, c, first(c, 'num_experts', 'num_local_experts'))
        if not c.get('norm_topk_prob'): raise Left('weights of experts that are not normalized')
        w.add_expert_feed_forward_length(c['moe_intermediate_size'])

    def keys_olmoe(self, w, c):
        if c.get('norm_topk_prob'): raise Left('weights of experts that are normalized')
        if c.get('clip_qkv'): w.add_clamp_kqv(c['clip_qkv'])
        self.experts(w, c, first(c, 'num_experts', 'num_local_experts'))

    def keys_granite(self, w, c):
        w.add_attention_scale(c['attention_multiplier']); w.add_embedding_scale(c['embedding_multiplier'])
        w.add_residual_scale(c['residual_multiplier']); w.add_logit_scale(c['logits_scaling'])

    def keys_granitemoe(self, w, c): self.keys_granite(w, c); self.experts(w, c, c['num_local_experts'])

    def keys_olmo(self, w, c):
        if c.get('clip_qkv'): w.add_clamp_kqv(c['clip_qkv'])

    def keys_stablelm(self, w, c): w.add_parallel_residual(c['use_parallel_residual'])

    def keys_exaone4(self, w, c):
        if c.get('sliding_window'): raise Left('a window that llama.cpp has in models of 64 layers')

    def keys_gpt_bigcode(self, w, c):
        if not c['multi_query']: raise Left('keys and values of each head')

    def keys_cohere2(self, w, c):
        self.kinds(c, lambda i: (i + 1) % 4 == 0)
        w.add_logit_scale(c['logit_scale']); w.add_sliding_window(c['sliding_window'])

    def scalar(self, c):
        if c['query_pre_attn_scalar'] != self.width: raise Left('a scale of scores')

    def kinds(self, c, full):
        types = c.get('layer_types') or []
        if types and types != ['full_attention' if full(i) else 'sliding_attention' for i in range(self.layers)]: raise Left('other layers with a window')

    def keys_gemma2(self, w, c):
        self.scalar(c); self.kinds(c, lambda i: i % 2)
        w.add_sliding_window(c['sliding_window'])
        w.add_attn_logit_softcapping(first(c, 'attn_logit_softcapping', default=0.0)); w.add_final_logit_softcapping(first(c, 'final_logit_softcapping', default=0.0))

    def keys_gemma3_text(self, w, c):
        self.scalar(c)
        self.kinds(c, lambda i: (i + 1) % 6 == 0)
        if self.both: w.add_sliding_window_pattern(6); w.add_rope_freq_base_swa(10000.0)
        w.add_sliding_window(c['sliding_window'])
        if c.get('final_logit_softcapping'): w.add_final_logit_softcapping(c['final_logit_softcapping'])

    def keys_gpt_oss(self, w, c):
        self.kinds(c, lambda i: i % 2)
        w.add_sliding_window(c['sliding_window']); self.experts(w, c, c['num_local_experts'])
        w.add_expert_feed_forward_length(c['intermediate_size'])

    def keys_cohere(self, w, c): w.add_logit_scale(c['logit_scale'])

    def keys_phi(self, w, c):
        if c.get('qk_layernorm'): raise Left('norms of queries')

    def keys_gpt2(self, w, c):
        if not c.get('scale_attn_weights', True): raise Left('no scale of scores')

    def keys_gpt_neox(self, w, c): w.add_parallel_residual(c.get('use_parallel_residual', True))

    def keys_mpt(self, w, c):
        a = c['attn_config']
        if first(a, 'softmax_scale'): raise Left('a scale of scores')
        if first(a, 'clip_qkv'): w.add_clamp_kqv(a['clip_qkv'])
        w.add_max_alibi_bias(a['alibi_bias_max'])

    def keys_t5(self, w, c):
        if c['feed_forward_proj'] not in ('relu', 'gated-gelu'): raise Left(f'activation {c["feed_forward_proj"]}')
        if c.get('relative_attention_max_distance', 128) != 128: raise Left('another largest distance')
        w.add_relative_attn_buckets_count(c['relative_attention_num_buckets']); w.add_decoder_start_token_id(c.get('decoder_start_token_id') or 0)
        w.add_decoder_block_count(self.decoder); w.add_key_length(c['d_kv']); w.add_value_length(c['d_kv'])
    keys_umt5 = keys_t5

    def keys_modernbert(self, w, c):
        if c['norm_bias'] or c['attention_bias'] or c['mlp_bias']: raise Left('biases')
        every = c['global_attn_every_n_layers']
        self.kinds(c, lambda i: i % every == 0)
        w.add_sliding_window(c['local_attention']); w.add_sliding_window_pattern(every); w.add_hidden_act(c['hidden_activation'])

    def keys_bloom(self, w, c): w.add_max_alibi_bias(8.0)

    def keys_falcon(self, w, c):
        if c['alibi'] or not c['parallel_attn']: raise Left('ALiBi, or sublayers one after the other')
        self.two = c['new_decoder_architecture'] and c.get('num_ln_in_parallel_attn') in (None, 2)

    # ---- tensors ----
    def pairs(self, x, heads):
        return x.reshape(heads, 2, x.shape[0] // heads // 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)

    def joined(self, x):
        """Rows of queries, keys and values in the order of their heads become all queries, all keys, all values."""
        H, K, D = self.heads, self.kv, self.width
        if self.type == 'falcon':
            x = x.reshape(K, H // K + 2, D, *x.shape[1:])
            q, k, v = x[:, :-2].reshape(H * D, *x.shape[3:]), x[:, -2].reshape(K * D, *x.shape[3:]), x[:, -1].reshape(K * D, *x.shape[3:])
        else:
            x = x.reshape(H, 3, D, *x.shape[1:])
            q, k, v = (x[:, i].reshape(H * D, *x.shape[3:]) for i in range(3))
        return np.concatenate([q, k, v])

    def change(self, name, x):
        t, end = self.type, name.split('.')[-1]
        if t in PAIRS and '.q_proj.' in name: x = self.pairs(x, self.heads)
        if t in PAIRS and '.k_proj.' in name: x = self.pairs(x, self.kv)
        if t.startswith('gemma') and name.endswith('norm.weight'): x = x + np.float32(1)
        if t == 'gpt2' and end == 'weight' and any(s in name for s in ('c_attn', 'c_proj', 'c_fc')): x = x.T
        if t in ('gpt_neox', 'bloom', 'falcon') and 'query_key_value' in name: x = self.joined(x)
        return x

    def tensors(self):
        stacks = {}
        for name, x in sorted(self.t.items()):
            if any(name.endswith(s) for s in ('.attn.bias', '.attn.masked_bias', 'inv_freq', 'position_ids', '.attention.bias', '.attention.masked_bias', 'coder.embed_tokens.weight')): continue
            if '.experts.' in name and self.type != 'gpt_oss':
                head, rest = name.split('.experts.'); e, rest = rest.split('.', 1)
                stacks.setdefault((head, rest), {})[int(e)] = x
                continue
            if '_layernorm.norms.' in name:   # StableLM: a row for each head
                head, rest = name.split('.norms.'); stacks.setdefault((head, 'norms'), {})[int(rest.split('.')[0])] = x
                continue
            if self.type == 'gpt_oss' and '.experts.' in name:
                yield from self.oss_experts(name, x)
                continue
            if self.type == 'granitemoe' and '.input_linear.' in name:
                for part, y in zip(('gate', 'up'), np.split(np.asarray(x, np.float32), 2, 1)): yield f'blk.{name.split(".")[2]}.ffn_{part}_exps.weight', np.ascontiguousarray(y)
                continue
            if self.type == 'falcon' and self.two and '.ln_mlp.' in name: theirs = name.replace('transformer.h.', 'blk.').replace('ln_mlp', 'attn_norm')
            elif self.type == 'falcon' and self.two and '.ln_attn.' in name: theirs = name.replace('transformer.h.', 'blk.').replace('ln_attn', 'attn_norm_2')
            else: theirs = self.find(name)
            yield theirs, np.ascontiguousarray(np.squeeze(self.change(name, np.asarray(x, np.float32))))
        for (head, rest), e in sorted(stacks.items()):
            yield self.find(f'{head}.weight' if rest == 'norms' else f'{head}.experts.{rest}'), np.stack([e[i] for i in range(len(e))]).astype(np.float32)
        if self.type in ('qwen2_moe', 'olmoe', 'gpt_oss') and self.c.get('tie_word_embeddings'): # llama.cpp wants a table of the head
            yield 'output.weight', np.asarray(self.t['model.embed_tokens.weight'], np.float32)
        yield from getattr(self, 'extra', {}).items()

    def oss_experts(self, name, x):
        layer, bias, x = name.split('.layers.')[1].split('.')[0], name.endswith('_bias'), np.asarray(x, np.float32)
        if not bias: x = x.swapaxes(1, 2)
        end = 'bias' if bias else 'weight'
        if 'down_proj' in name: yield f'blk.{layer}.ffn_down_exps.{end}', np.ascontiguousarray(x)
        else:
            yield f'blk.{layer}.ffn_gate_exps.{end}', np.ascontiguousarray(x[:, ::2])
            yield f'blk.{layer}.ffn_up_exps.{end}', np.ascontiguousarray(x[:, 1::2])

    def find(self, name):
        for begin in ('', 'model.', 'transformer.', 'gpt_neox.', 'bert.'):
            for whole in (begin + name, name[len(begin):] if begin and name.startswith(begin) else name):
                found = self.map.get_name(whole, try_suffixes=('.weight', '.bias'))
                if found: return found + '.weight' * found.endswith('sinks')
        raise Left(f'no name for {name}')

    def vocab(self, w):
        n = self.c['vocab_size']
        if n < len(LETTERS) or self.type != 'gpt2': return w.add_tokenizer_model('none')
        w.add_tokenizer_model('gpt2'); w.add_tokenizer_pre('gpt-2')
        w.add_token_list(LETTERS + [f'[{i}]' for i in range(n - len(LETTERS))])
        w.add_token_types([gguf.TokenType.CONTROL] + [gguf.TokenType.NORMAL] * (len(LETTERS) - 1) + [gguf.TokenType.UNUSED] * (n - len(LETTERS)))
        w.add_token_merges(MERGES); w.add_bos_token_id(0); w.add_eos_token_id(0)

    def write(self, path, split=0):
        w = gguf.GGUFWriter(path, self.arch, split_max_tensors=split)
        self.keys(w); self.vocab(w)
        for name, x in self.tensors(): w.add_tensor(name, x)
        w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()


# What --convert converts: the converter's module and class, and keys that published configurations have and transformers does not write.
CONVERTED = {'deepseek_v2': ('deepseek', 'DeepseekV2Model', {'scoring_func': 'softmax'}),
             'deepseek_v3': ('deepseek', 'DeepseekV2Model', {'scoring_func': 'sigmoid'})}


def convert(llama, folder, path):
    """Writes the file with llama.cpp's own converter; keys about the source, its name and its licence are left out."""
    module, name, more = CONVERTED[case_type(folder)]
    sys.path.insert(0, llama)
    base = getattr(importlib.import_module(f'conversion.{module}'), name)

    class Converter(base):
        model_arch = base.model_arch

        def set_vocab(self): self.gguf_writer.add_tokenizer_model('none')

        def prepare_metadata(self, vocab_only):
            self.set_type(); self.set_gguf_parameters(); self.set_vocab()

    with tempfile.TemporaryDirectory() as source:
        shutil.copy(f'{folder}/model.safetensors', source)
        with open(f'{source}/config.json', 'w') as f: json.dump(json.load(open(f'{folder}/config.legacy.json')) | more, f)
        Converter(pathlib.Path(source), gguf.LlamaFileType.ALL_F32, pathlib.Path(path), eager=True).write()


def case_type(folder): return json.load(open(f'{folder}/config.json'))['model_type']


def lite(folder):
    """DeepSeek without a latent of queries, which llama.cpp reads only in files with as many layers as published ones."""
    c = json.load(open(f'{folder}/config.json'))
    return 'q_lora_rank' in c and c['q_lora_rank'] is None


def scores(path, ids, lengths):
    """The scores of llama.cpp for each sequence, in fp32 apart from its tables of GELU."""
    import llama_cpp as L
    global quiet
    quiet = L.llama_log_callback(lambda level, text, user: None)
    L.llama_log_set(quiet, None)
    model = L.Llama(path, n_ctx=64, logits_all=True, verbose=False, n_threads=1, type_k=0, type_v=0)
    out = np.zeros((*ids.shape, model.n_vocab()), np.float32)
    for i, n in enumerate(lengths):
        model.reset()
        model.eval(ids[i, :n].tolist())
        out[i, :n] = model.scores[:n]
    model.close()
    return out


if __name__ == '__main__':
    usual, split = '--usual' in sys.argv, '--split' in sys.argv
    words = [a for a in sys.argv[1:] if a not in ('--usual', '--split')]
    llama = words.pop(words.index('--convert') + 1) if '--convert' in words else None
    out, *patterns = [a for a in words if a != '--convert']
    os.makedirs(out, exist_ok=True)
    for folder in [f for p in patterns for f in sorted(glob.glob(p))]:
        name = os.path.basename(folder.rstrip('/')) + ('_usual' if usual else '')
        path = f'{out}/{name}.gguf'
        try:
            if split:
                Case(folder, usual).write(path, 8)
                continue
            case, _ = st.load(f'{folder}/case.safetensors')
            convert(llama, folder, path) if llama else Case(folder, usual).write(path)
            if case_type(folder) in ('t5', 'umt5', 'bert', 'nomic_bert', 'modernbert') or 'out.logits' not in case or lite(folder):
                print(f'{name}: {os.path.getsize(path)} bytes', flush=True)
                continue
            ids, want = case['in.ids'].astype(np.int32), case.get('out.logits')
            n = case.get('in.lengths', np.full(len(ids), ids.shape[1]))
            got = scores(path, ids, n)
            st.save(f'{out}/{name}.safetensors', {'in.ids': ids, 'in.lengths': np.asarray(n, np.int32), 'out.logits': got})
            error = max(np.abs(got[i, :k] - want[i, :k]).max() / np.abs(want[i, :k]).max() for i, k in enumerate(n))
            print(f'{name}: {os.path.getsize(path)} bytes, difference {error:.2g}', flush=True)
        except (Left, ValueError, KeyError, OSError, struct.error) as reason:
            print(f'{name}: left out: {type(reason).__name__} {str(reason)[:120]}', flush=True)
            for end in ('gguf', 'safetensors'):
                if os.path.exists(f'{out}/{name}.{end}'): os.remove(f'{out}/{name}.{end}')
