"""What each key of each family's configuration changes in the reference library.

usage: hf_keys.py OUT.json [TYPE...]     (python with torch, transformers 5, safetensors; no network, one thread)

With TYPE, an OUT.json that exists keeps the objects of its other types. Writes a list with an object for each type of model: "type", "config" (all keys of a tiny model's configuration, as to_dict has them) and
"changes": [KEY, VALUE, WHAT] for each key and a few other values of it. WHAT is what a model with that value does, its weights being those of
the model without: "effect" (its tensors have other names or shapes, or its outputs differ), "none" (the same outputs), "error" (the
library refuses it, or fails). tests/test_family_keys.c asks the same of the tables: a key with an effect is read or refused."""
import sys, os, json, copy
import hf_cases as hf
import torch, transformers
from hf_cases import F32

more = {k: hf.FAMILIES[k] for k in ('gpt2', 'llama', 'mistral', 'mixtral_small', 'qwen2', 'qwen2_moe', 'qwen3', 'qwen3_moe', 'smollm3', 'granite', 'phi3', 'gemma', 'gemma2', 'gemma3', 'olmo2', 'olmoe', 'deepseek_v2', 'deepseek_v2_grouped', 'deepseek_v3_plain', 'gpt_oss_small', 'cohere', 'starcoder2', 'phi',
                                    'gpt_neox', 'gptj', 'bloom', 'opt', 'falcon', 'falcon_new', 'mpt', 'bert', 'roberta', 'distilbert', 'albert', 'electra', 'modernbert', 't5', 'bart_small', 'marian', 'vit', 'whisper_long')}
more |= {k: hf.FAMILIES[k] for k in ('gpt_bigcode', 'ministral', 't5_encoder')}
more['camembert'] = ('CamembertForMaskedLM', hf.tiny_roberta, 'mlm')
more['qwen2_windows'] = ('Qwen2ForCausalLM', hf.llama | dict(use_sliding_window=True, sliding_window=4, max_window_layers=1), 'lm')
more['qwen2_moe_windows'] = ('Qwen2MoeForCausalLM', hf.FAMILIES['qwen2_moe'][1] | dict(use_sliding_window=True, sliding_window=4), 'lm')
more['smollm3_windows'] = ('SmolLM3ForCausalLM', hf.FAMILIES['smollm3'][1] | dict(use_sliding_window=True, sliding_window=4), 'lm')
more['mt5'] = ('MT5ForConditionalGeneration', hf.t5 | dict(feed_forward_proj='gated-gelu'), 'seq2seq')
more['xlm-roberta'] = ('XLMRobertaForMaskedLM', hf.FAMILIES['roberta'][1], 'mlm')
more['llama_yarn'] = ('LlamaForCausalLM', hf.llama | dict(rope_parameters=dict(rope_type='yarn', rope_theta=10000.0, factor=4.0, original_max_position_embeddings=8)), 'lm')
more |= {k: v for k, v in hf.MORE.items() if v[2] in ('lm', 'mlm', 'seq2seq', 'bare') and not k.endswith('_parts')}
SKIP = ('architectures', 'model_type', 'transformers_version', 'id2label', 'label2id', 'torch_dtype', 'dtype', '_name_or_path')
def others(key, v, kw):
    if key == 'layer_types': return [['full_attention' if x == 'sliding_attention' else 'sliding_attention' for x in v], ['chunked_attention'] * len(v), v + v]
    if key == 'rope_parameters' and isinstance(v, dict):
        if 'full_attention' in v: return [{k: x | (dict(rope_type='linear', factor=2.0) if k == which else {}) for k, x in v.items()} for which in v] + [{k: x | dict(rope_theta=77.0) for k, x in v.items()}]
        return [v | dict(rope_theta=77.0), v | dict(rope_type='linear', factor=2.0), v | dict(rope_type='dynamic', factor=2.0), v | dict(rope_type='proportional', factor=2.0), v | dict(partial_rotary_factor=0.25)] + ([v | dict(factor=8.0)] if 'factor' in v else [])
    if key == 'attn_config': return []
    if isinstance(v, bool): return [not v]
    if isinstance(v, int): return [v + 1, v * 2] if v else [1, 4]
    if isinstance(v, float): return [v * 3 + 0.25]
    if isinstance(v, str): return ['relu', 'silu'] if 'act' in key or 'proj' in key else ['other']
    if v is None: return [True, 3, 0.5]
    if key == 'attention_types': return [[[['local'], 2]], [[['global'], 1]], [[['other'], 2]]]
    if key == 'attention_layers': return [v[::-1], v[:1]]
    if isinstance(v, list): return [v[:-1] + [0 if v[-1:] == [1] else 1]] if v else [[0]]
    return []
def config_of(cls, d, family):
    c = cls.config_class.from_dict(copy.deepcopy(d)); c._attn_implementation = hf.attention_of(family); c._experts_implementation = 'eager'; return c
def outputs(model, kind, c):
    with torch.no_grad(): out, _ = hf.run(model, kind, c, F32)
    return out['out.logits'] if 'out.logits' in out else out['out.hidden']
def outcome(cls, d, family, kind, c, state, want):
    try: m = cls(config_of(cls, d, family)).eval()
    except Exception: return 'error'
    own = m.state_dict()
    if {k: tuple(x.shape) for k, x in own.items()} != {k: tuple(x.shape) for k, x in state.items()}: return 'effect'
    if len({x.data_ptr() for x in own.values()}) != len({x.data_ptr() for x in state.values()}): return 'effect'   # tied, or not
    m.load_state_dict(state)
    try: got = outputs(m, kind, c)
    except Exception: return 'error'
    return 'none' if got.shape == want.shape and torch.allclose(got, want, rtol=1e-4, atol=1e-5) else 'effect'
def main(out, *names):
    rows = [r for r in json.load(open(out)) if r['type'] not in names] if names and os.path.exists(out) else []
    for family in names or more:
        name, kw, kind = more[family]; cls = getattr(transformers, name); cfg = hf.config_of(cls, kw, family); torch.manual_seed(0); model = cls(cfg).eval(); hf.fill(model, family, 1); c = hf.inputs(family, kind, cfg, 1)
        d = json.loads(json.dumps(cfg.to_dict(), default=str)); d['architectures'] = [name]; d.pop('dtype', None); d.pop('_experts_implementation', None); state = model.state_dict(); want = outputs(model, kind, c); changes = []
        inner = [('attn_config', k) for k in ('alibi', 'alibi_bias_max', 'clip_qkv', 'prefix_lm', 'qk_ln', 'softmax_scale')] if 'attn_config' in d else []
        for path in [(k,) for k in d if k not in SKIP] + inner:
            v = d[path[0]] if len(path) == 1 else d[path[0]].get(path[1])
            for value in others(path[-1], v, kw):
                new = copy.deepcopy(d)
                if len(path) == 1: new[path[0]] = value
                else: new[path[0]][path[1]] = value
                changes.append(['.'.join(path), value, outcome(cls, new, family, kind, c, state, want)])
        rows.append(dict(type=family, config=d, changes=changes)); counts = {w: sum(x[2] == w for x in changes) for w in ('effect', 'none', 'error')}; print(f'{family:20s} {counts}', flush=True)
    with open(out, 'w') as f: f.write('[\n' + ',\n'.join(json.dumps(r, separators=(',', ':')) for r in rows) + '\n]\n')
if __name__ == '__main__': main(*sys.argv[1:])
