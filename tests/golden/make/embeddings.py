"""A tiny folder as EmbeddingGemma's is published, and the vectors that sentence-transformers makes of it, in float64.

usage: embeddings.py OUT SEED     (python with torch, transformers 5, sentence-transformers 6; no network)

Writes OUT: config.json, model.safetensors (Gemma3TextModel, attention in both directions), tokenizer.json (BPE, <bos> and <eos> around a text),
modules.json (a model, a pooling, two dense layers, a length of 1), 1_Pooling/config.json (mean), 2_Dense and 3_Dense (config.json,
model.safetensors), sentence_bert_config.json (at most 64 tokens), config_sentence_transformers.json (prompts), lines.txt, and
vectors.safetensors with (lines, width) for: none, query, document (the prompts); query.mean, query.cls, query.lasttoken, query.max: the poolings of
a folder with include_prompt false; relu, gelu, silu, tanh: the first dense layer's activation; residual, residual_square: use_residual of the
first layer, which gets the weight in residual.safetensors, and of the second one behind a width of 12; between: a length of 1 between the dense layers."""
import json, os, sys, shutil
os.environ['HF_HUB_OFFLINE'] = '1'
import numpy as np, torch, transformers
from tokenizers import Tokenizer, models, normalizers, processors, decoders
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer
out, seed = sys.argv[1], int(sys.argv[2]); shutil.rmtree(out, ignore_errors=True); os.makedirs(out + '/1_Pooling')
letters = '▁abcdefghijklmnopqrstuvwxyz:|.,'
merges = [('▁', 't'), ('▁', 's'), ('h', 'e'), ('▁t', 'he'), ('q', 'u'), (':', '▁'), ('e', 'r'), ('▁', '|')]
words = ['<pad>', '<eos>', '<bos>', '<unk>', *letters, *(a + b for a, b in merges)]
tok = Tokenizer(models.BPE({w: i for i, w in enumerate(words)}, merges, unk_token='<unk>', fuse_unk=True))
tok.normalizer = normalizers.Replace(' ', '▁'); tok.decoder = decoders.Replace('▁', ' ')
tok.post_processor = processors.TemplateProcessing(single='<bos> $A <eos>', pair='<bos> $A <eos> $B:1 <eos>:1', special_tokens=[('<bos>', 2), ('<eos>', 1)])
tok.add_special_tokens(words[:4]); tok.save(out + '/tokenizer.json')
json.dump(dict(pad_token='<pad>', eos_token='<eos>', bos_token='<bos>', unk_token='<unk>', tokenizer_class='PreTrainedTokenizerFast'), open(out + '/tokenizer_config.json', 'w'), indent=1)
cfg = transformers.Gemma3TextConfig(vocab_size=len(words), hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, head_dim=8, query_pre_attn_scalar=8,
    sliding_window=6, layer_types=['sliding_attention', 'full_attention'], max_position_embeddings=96, use_bidirectional_attention=True, pad_token_id=0, bos_token_id=2, eos_token_id=1, attn_implementation='eager')
g = torch.Generator().manual_seed(seed); draw = lambda *shape: torch.randn(shape, generator=g)
model = transformers.Gemma3TextModel(cfg).eval()
with torch.no_grad():
    for p in model.parameters(): p.copy_((0.2 if p.ndim == 1 else 0.4) * draw(*p.shape))
model.save_pretrained(out)
write = lambda name, value: json.dump(value, open(f'{out}/{name}', 'w'), indent=1, ensure_ascii=False)
def modules(*kinds):
    write('modules.json', [dict(idx=i, name=str(i), path=f'{p}', type='sentence_transformers.models.' + k) for i, (k, p) in enumerate(kinds)])
whole = ('Transformer', ''), ('Pooling', '1_Pooling'), ('Dense', '2_Dense'), ('Dense', '3_Dense'), ('Normalize', '4_Normalize')
def pooling(mode='mean', prompt=True):
    flags = dict(cls='cls_token', mean='mean_tokens', max='max_tokens', lasttoken='lasttoken')
    write('1_Pooling/config.json', dict(word_embedding_dimension=16, **{f'pooling_mode_{f}': mode == m for m, f in flags.items()}, include_prompt=prompt))
def dense(at, fan_in, fan_out, bias, activation, more={}, tensors=None):
    os.makedirs(f'{out}/{at}', exist_ok=True)
    write(f'{at}/config.json', dict(in_features=fan_in, out_features=fan_out, bias=bias, activation_function='torch.nn.modules.' + activation) | more)
    if tensors: save_file(tensors, f'{out}/{at}/model.safetensors')
first = {'linear.weight': 0.4 * draw(20, 16)}
second = {'linear.weight': 0.4 * draw(12, 20), 'linear.bias': 0.3 * draw(12)}
shortcut = {'residual.weight': 0.4 * draw(20, 16)}
modules(*whole); pooling()
dense('2_Dense', 16, 20, False, 'linear.Identity', {}, first); dense('3_Dense', 20, 12, True, 'activation.Tanh', {}, second)
write('sentence_bert_config.json', dict(max_seq_length=64, do_lower_case=False))
write('config_sentence_transformers.json', dict(model_type='SentenceTransformer', prompts=dict(query='task: search result | query: ', document='title: none | text: ', empty=''), default_prompt_name=None, similarity_fn_name='cosine'))
lines = ['a ship at sea', 'the king, the queen', 'two', 'a longer line of text, the end of which is cut off, as it has more tokens than are read.']
open(out + '/lines.txt', 'w').write('\n'.join(lines) + '\n')
found = {}
def vectors(name, prompt=None):
    st = SentenceTransformer(out, device='cpu', model_kwargs=dict(attn_implementation='eager', dtype=torch.float64)).double()
    narrow = torch.float32; torch.float32 = torch.float64   # norms and softmax are cast by this name
    try: v = np.stack([st.encode([l], prompt_name=prompt, convert_to_numpy=True)[0] for l in lines])
    finally: torch.float32 = narrow
    assert v.dtype == np.float64, v.dtype
    found[name] = torch.tensor(v).float()
for prompt in (None, 'query', 'document'): vectors(prompt or 'none', prompt)
for mode in ('mean', 'cls', 'lasttoken', 'max'): pooling(mode, False); vectors('query.' + mode, 'query')
pooling()
for name in ('ReLU', 'GELU', 'SiLU', 'Tanh'): dense('2_Dense', 16, 20, False, 'activation.' + name); vectors(name.lower())
dense('2_Dense', 16, 20, False, 'linear.Identity', dict(use_residual=True), first | shortcut); vectors('residual')
save_file(first | shortcut, out + '/residual.safetensors')
square = {'linear.weight': 0.4 * draw(16, 16)}; save_file(square, out + '/square.safetensors')
modules(*whole[:3], whole[4]); dense('2_Dense', 16, 16, False, 'activation.Tanh', dict(use_residual=True), square); vectors('residual_square')
dense('2_Dense', 16, 20, False, 'linear.Identity', {}, first)
modules(*whole[:3], ('Normalize', '5_Normalize'), *whole[3:]); vectors('between')
modules(*whole)
save_file(found, out + '/vectors.safetensors')
print({k: [round(x, 3) for x in v[0, :3].tolist()] for k, v in found.items()})
print([len(tok.encode(l).ids) for l in lines], sum(os.path.getsize(os.path.join(d, f)) for d, _, fs in os.walk(out) for f in fs))
