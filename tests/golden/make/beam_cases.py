"""Texts that transformers' generate() writes with small random models: beams of T5, BART, Marian and Llama, and greedy choices with the same rules.

usage: beam_cases.py OUT [SEED [NAME...]]     (python with torch, transformers 5, tokenizers; no network, one thread)

Writes OUT/beams/NAME/ for each model:
  config.json, model.safetensors   as save_pretrained writes them (fp32)
  tokenizer.json, tokenizer_config.json   words t0 t1 ..., one for each id
  cases.json   [{"settings": a generation_config.json, "lines": [{"source": ids, "ids": what is made, without begin and end, "score": of beams (sequences_scores),
                 "gap": the smallest difference between two numbers whose order matters}]}]
What is computed is computed in float64, as hf_cases.py does it, one line at a time. The gap of beams is the smallest difference between neighbours among the
likeliest continuations of a step (one more than are taken), among the scores of finished hypotheses, and between the two sides of the test that ends a search;
that of greedy choices is between the likeliest token and the next. A line whose gap is small may differ in fp32.

Prints for each settings how long the texts are, how many tokens of a text differ, and the smallest gap."""
import sys, os, json, shutil
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import numpy as np, torch, transformers
from transformers import GenerationConfig
from transformers.generation.utils import GenerationMixin
from hf_cases import double, NoNarrow, rng_of, write
V, D = 40, 16

# ---- models --------------------------------------------------------------------------------------------------------------------------------------------
t5 = dict(vocab_size=V, d_model=D, d_kv=4, d_ff=24, num_layers=2, num_decoder_layers=2, num_heads=4, relative_attention_num_buckets=8, relative_attention_max_distance=16, layer_norm_epsilon=1e-6,
          feed_forward_proj='gated-gelu', tie_word_embeddings=False, n_positions=32, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0)
bart = dict(vocab_size=V, d_model=D, encoder_layers=1, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=24, decoder_ffn_dim=24, max_position_embeddings=32,
            pad_token_id=1, bos_token_id=0, eos_token_id=2, decoder_start_token_id=2, activation_function='gelu', scale_embedding=False)
marian = bart | dict(pad_token_id=39, eos_token_id=0, decoder_start_token_id=39, bos_token_id=None, forced_eos_token_id=0, activation_function='swish', scale_embedding=True)
llama = dict(vocab_size=V, hidden_size=D, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2,
             pad_token_id=0, tie_word_embeddings=False)
MODELS = {'t5': ('T5ForConditionalGeneration', t5), 'bart': ('BartForConditionalGeneration', bart), 'marian': ('MarianMTModel', marian), 'llama': ('LlamaForCausalLM', llama)}
END_BIAS = {'bart': 4.2, 'marian': 0.9}
def fill(model, name, seed):   # layers say more than the embedding of the token before, so that texts do not repeat one token
    done = set()
    with torch.no_grad():
        for key, t in model.state_dict().items():
            if t.data_ptr() in done or not t.is_floating_point() or (name == 'marian' and 'embed_positions' in key): continue
            done.add(t.data_ptr()); x = rng_of(seed, name, key).standard_normal(tuple(t.shape)); low = key.lower()
            if 'final_logits_bias' in low: x = 0 * x; x[0, MODELS[name][1]['eos_token_id']] += END_BIAS[name]
            elif 'norm' in low: x = {'marian': 1.0}.get(name, 2.5) * np.sign(x) if 'decoder.layers.1.final_layer_norm.weight' in low else 0.2 * x + (not key.endswith('bias'))   # signs: a token does not make itself likely
            elif 'relative_attention_bias' in low: x = 0.7 * x
            elif key.endswith('bias'): x = 0.1 * x
            elif 'lm_head' in low: x = x * (0.8 if name == 't5' else 0.8); x[1] *= 1.5 if name == 't5' else 1
            elif 'embed_positions' in low: x = 1.5 * x
            elif 'embed' in low or 'shared' in low: x = {'marian': 0.5, 'bart': 0.25}.get(name, 0.45) * x
            elif 'encoder_attn.out_proj' in low or 'encdecattention.o.' in low: x = x * 0.7 / np.sqrt(t.shape[1])
            else: x = x * (3 if 'fc2' in low or '.wo.' in low else 1.7) / np.sqrt(t.shape[1])
            t.copy_(torch.tensor(x.astype(np.float32)))

# ---- settings: of beams ten lines each, of greedy choices five -------------------------------------------------------------------------------------------
T5, BART, MARIAN = (dict(pad_token_id=c['pad_token_id'], eos_token_id=c['eos_token_id'], decoder_start_token_id=c['decoder_start_token_id']) for c in (t5, bart, marian))
BART_END, MARIAN_END, MARIAN_BAD = dict(forced_eos_token_id=2), dict(forced_eos_token_id=0), dict(bad_words_ids=[[39]])
SETTINGS = {
 't5': [T5 | s for s in (
   dict(num_beams=4, max_length=20),
   dict(num_beams=4, max_new_tokens=16, length_penalty=0.6, early_stopping='never', no_repeat_ngram_size=2),
   dict(num_beams=3, max_length=18, early_stopping=True, length_penalty=2.0, min_length=6, no_repeat_ngram_size=3),
   dict(num_beams=5, max_length=16, repetition_penalty=1.3, encoder_no_repeat_ngram_size=1),
   dict(num_beams=2, max_length=20, length_penalty=0.0, encoder_repetition_penalty=1.5, suppress_tokens=[7, 11, 23]),
   dict(num_beams=4, max_new_tokens=12, min_new_tokens=4, bad_words_ids=[[5], [9, 12], [14, 20, 21], [30]], begin_suppress_tokens=[6, 8, 19, 33]),
   dict(num_beams=4, max_length=14, eos_token_id=[1, 17, 25], length_penalty=-1.0))],
 'bart': [BART | s for s in (
   BART_END | dict(num_beams=4, max_length=20, min_length=8, length_penalty=2.0, early_stopping=True, no_repeat_ngram_size=3),
   BART_END | dict(num_beams=4, max_length=12, forced_bos_token_id=0),
   dict(num_beams=5, max_length=16, early_stopping='never', length_penalty=1.0, repetition_penalty=1.2),
   dict(num_beams=3, max_new_tokens=10, length_penalty=0.8, encoder_no_repeat_ngram_size=2, encoder_repetition_penalty=0.8),
   BART_END | dict(num_beams=6, max_length=10, forced_bos_token_id=12, begin_suppress_tokens=[4, 5, 6, 30, 31], min_new_tokens=3),
   dict(num_beams=2, max_length=18, length_penalty=1.5, early_stopping=False, suppress_tokens=[0, 1, 3]),
   dict(num_beams=8, max_length=14, no_repeat_ngram_size=1, bad_words_ids=[[8, 9], [2]]))],
 'llama': [dict(bos_token_id=1, eos_token_id=[2, 35], pad_token_id=0) | s for s in (
   dict(num_beams=4, max_new_tokens=14),
   dict(num_beams=5, max_new_tokens=12, length_penalty=0.6, early_stopping='never', no_repeat_ngram_size=2),
   dict(num_beams=3, max_length=22, early_stopping=True, length_penalty=2.0, min_length=14, repetition_penalty=1.2),
   dict(num_beams=2, max_new_tokens=12, length_penalty=0.0, encoder_repetition_penalty=1.5, suppress_tokens=[7, 11, 23], min_new_tokens=4))],
 'marian': [MARIAN | MARIAN_BAD | s for s in (
   MARIAN_END | dict(num_beams=4, max_length=20),
   MARIAN_END | dict(num_beams=6, max_length=16, length_penalty=1.0, early_stopping=True),
   MARIAN_END | dict(num_beams=12, max_length=12, length_penalty=0.5, early_stopping='never', min_new_tokens=4),
   dict(num_beams=4, max_length=18, repetition_penalty=1.6, no_repeat_ngram_size=2, min_length=5),
   dict(num_beams=3, max_length=18, length_penalty=-0.5, early_stopping='never', min_new_tokens=3),
   MARIAN_END | dict(num_beams=2, max_new_tokens=9, forced_bos_token_id=22, encoder_no_repeat_ngram_size=1, suppress_tokens=[10, 20]))]}
GREEDY = {
 't5': [T5 | s for s in (dict(max_length=18), dict(max_new_tokens=15, repetition_penalty=1.4, min_new_tokens=6, no_repeat_ngram_size=2),
                         dict(max_length=16, encoder_repetition_penalty=2.0, encoder_no_repeat_ngram_size=2, bad_words_ids=[[13, 4], [22]]))],
 'bart': [BART | s for s in (BART_END | dict(max_length=12, forced_bos_token_id=0, min_length=5), dict(max_length=14, repetition_penalty=1.8, begin_suppress_tokens=[10, 11], suppress_tokens=[16, 24]))],
 'marian': [MARIAN | MARIAN_BAD | s for s in (MARIAN_END | dict(max_length=16), dict(max_length=14, repetition_penalty=0.8, no_repeat_ngram_size=3, min_length=6))],
 'llama': [dict(bos_token_id=1, eos_token_id=[2, 35], pad_token_id=0) | s for s in (
   dict(max_new_tokens=16), dict(max_new_tokens=20, repetition_penalty=1.5), dict(max_length=26, no_repeat_ngram_size=2, min_length=18), dict(max_new_tokens=14, min_new_tokens=9, bad_words_ids=[[3], [20, 21], [2], [35, 6]]),
   dict(max_new_tokens=12, suppress_tokens=[4, 8, 15, 16, 23], begin_suppress_tokens=[30, 31, 32, 33, 34], forced_eos_token_id=2),
   dict(max_new_tokens=15, encoder_repetition_penalty=1.7, encoder_no_repeat_ngram_size=2, repetition_penalty=1.1))]}

# ---- gaps ----------------------------------------------------------------------------------------------------------------------------------------------
gaps = []
def neighbours(x):
    x = torch.sort(x[torch.isfinite(x) & (x > -1e8)], descending=True)[0]
    if len(x) > 1: gaps.append(float((x[:-1] - x[1:]).min()))
def spied(name, see):
    real = getattr(GenerationMixin, name)
    def call(*a, **kw): out = real(*a, **kw); see(kw, out); return out
    setattr(GenerationMixin, name, staticmethod(call) if isinstance(GenerationMixin.__dict__[name], staticmethod) else call)
spied('_get_top_k_continuations', lambda kw, out: neighbours(torch.topk(kw['accumulated_log_probs'][0], kw['beams_to_keep'] + 1)[0]))
spied('_update_finished_beams', lambda kw, out: neighbours(out[1][0]))
def see_end(kw, out):
    if not kw['is_sent_finished'].all() or kw['early_stopping'] is True: return
    n = (kw['max_length'] if kw['early_stopping'] == 'never' and kw['length_penalty'] > 0 else kw['cur_len']) - kw['decoder_prompt_len']
    gaps.append(abs(float(kw['running_beam_scores'][0, 0] / n ** kw['length_penalty'] - kw['beam_scores'].min())))
spied('_check_early_stop_heuristic', see_end)

# ---- cases ---------------------------------------------------------------------------------------------------------------------------------------------
def line(model, settings, source, encoder):
    gaps.clear(); ids = torch.tensor([source]); beams = settings.get('num_beams', 1) > 1
    model.generation_config = GenerationConfig(**settings)
    with torch.no_grad(), NoNarrow(): o = model.generate(ids, attention_mask=torch.ones_like(ids), return_dict_in_generate=True, output_scores=True)
    out = o.sequences[0].tolist()[1 if encoder else len(source):]; ends = settings['eos_token_id']; ends = ends if isinstance(ends, list) else [ends]
    for i, x in enumerate(out):
        if x in ends: out = out[:i]; break
    if not beams:
        for s in o.scores: neighbours(torch.topk(s[0], 2)[0])
    return {'source': source, 'ids': out, 'gap': round(min(gaps), 9)} | ({'score': round(float(o.sequences_scores[0]), 9)} if beams else {})
def sources(name, key, count, seed):
    r = rng_of(seed, name, str(key)); end = [] if name == 'llama' else [MODELS[name][1]['eos_token_id']]
    return [r.integers(3, V - 1, r.integers(3, 10)).tolist() + end for _ in range(count)]
def tokenizer(folder, c):
    words = {f't{i}': i for i in range(V)}; end = f't{c["eos_token_id"]}'
    special = [dict(id=c['eos_token_id'], content=end, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)]
    json.dump(dict(version='1.0', added_tokens=special, normalizer=None, pre_tokenizer=dict(type='WhitespaceSplit'), post_processor=None, decoder=None,
                   model=dict(type='WordLevel', vocab=words, unk_token='t3')), open(folder + '/tokenizer.json', 'w'))
    json.dump(dict(eos_token=end), open(folder + '/tokenizer_config.json', 'w'))
def make(name, out, seed):
    cls, c = MODELS[name]; cls = getattr(transformers, cls); folder = f'{out}/beams/{name}'; shutil.rmtree(folder, ignore_errors=True); os.makedirs(folder)
    cfg = cls.config_class(**c); cfg._attn_implementation = 'eager'; torch.manual_seed(0); model = cls(cfg).eval()
    if name == 't5': model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    fill(model, name, seed); model.save_pretrained(folder); tokenizer(folder, c); weights = model.state_dict()
    config = json.load(open(folder + '/config.json')); config['tie_word_embeddings'] = c.get('tie_word_embeddings', True); json.dump(config, open(folder + '/config.json', 'w'), indent=1)
    os.remove(folder + '/generation_config.json')
    with double():
        wide = cls(cfg).eval().double()
        if name == 't5': wide.lm_head.weight = torch.nn.Parameter(wide.lm_head.weight.detach().clone())
        wide.load_state_dict({k: v.double() if v.is_floating_point() else v for k, v in weights.items()}); cases = []
        for kind, count, all in (('beams', 10, SETTINGS.get(name, [])), ('greedy', 5, GREEDY[name])):
            for i, s in enumerate(all):
                lines = [line(wide, s, x, name != 'llama') for x in sources(name, (kind, i), count, seed)]; cases.append({'settings': s, 'lines': lines})
                n = [len(l['ids']) for l in lines]; print(f"{name:7} {kind:6} {i}: tokens {min(n)} to {max(n)}, of {sum(n)} {sum(len(set(l['ids'])) for l in lines)} differ in their text, gap {min(l['gap'] for l in lines):.1e}")
    with open(folder + '/cases.json', 'w') as f: f.write('[\n' + ',\n'.join(' {"settings": ' + json.dumps(c['settings']) + ', "lines": [\n' + ',\n'.join('  ' + json.dumps(l) for l in c['lines']) + ']}' for c in cases) + '\n]\n')
if __name__ == '__main__':
    for name in sys.argv[3:] or MODELS: make(name, sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1)
