"""A tiny folder as sentence-transformers publishes them, and the vectors that its modules give, computed in float64 with transformers.

usage: sentences.py OUT SEED     (python with torch, transformers 5, tokenizers, safetensors; no network)

Writes OUT: config.json, model.safetensors (BertModel), tokenizer.json (WordPiece, lower case, [CLS] and [SEP] around a text),
modules.json (a model, a pooling, a length of 1), 1_Pooling/config.json (mean), sentence_bert_config.json (at most 8 tokens),
lines.txt, and vectors.safetensors with (lines, width) for each pooling: cls, mean, max, lasttoken; not normalised."""
import json, os, sys, shutil
os.environ['HF_HUB_OFFLINE'] = '1'
import numpy as np, torch, transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, decoders
from safetensors.numpy import save_file
out, seed = sys.argv[1], int(sys.argv[2]); shutil.rmtree(out, ignore_errors=True); os.makedirs(out + '/1_Pooling')
MOST = 8
words = '[PAD] [UNK] [CLS] [SEP] [MASK] a line of text ship at sea the king s queen ##ly ##s ##ing sing read two three , .'.split()
tok = Tokenizer(models.WordPiece({w: i for i, w in enumerate(words)}, unk_token='[UNK]', continuing_subword_prefix='##', max_input_chars_per_word=100))
tok.normalizer = normalizers.BertNormalizer(lowercase=True); tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer(); tok.decoder = decoders.WordPiece(prefix='##')
tok.post_processor = processors.TemplateProcessing(single='[CLS] $A [SEP]', pair='[CLS] $A [SEP] $B:1 [SEP]:1', special_tokens=[('[CLS]', 2), ('[SEP]', 3)])
tok.add_special_tokens(words[:5]); tok.save(out + '/tokenizer.json')
json.dump(dict(unk_token='[UNK]', sep_token='[SEP]', pad_token='[PAD]', cls_token='[CLS]', mask_token='[MASK]', tokenizer_class='BertTokenizer'), open(out + '/tokenizer_config.json', 'w'), indent=1)
cfg = transformers.BertConfig(vocab_size=len(words), hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, max_position_embeddings=16, type_vocab_size=2, pad_token_id=0)
cfg._attn_implementation = 'eager'
model = transformers.BertModel(cfg).eval(); g = torch.Generator().manual_seed(seed)
with torch.no_grad():
    for k, p in model.named_parameters(): p.copy_((1 if 'LayerNorm.weight' in k else 0) + (0.3 if p.ndim == 1 else 0.4) * torch.randn(p.shape, generator=g))
model.save_pretrained(out)
kinds = ('Transformer', ''), ('Pooling', '1_Pooling'), ('Normalize', '2_Normalize')
json.dump([dict(idx=i, name=str(i), path=p, type='sentence_transformers.models.' + k) for i, (k, p) in enumerate(kinds)], open(out + '/modules.json', 'w'), indent=1)
json.dump(dict(word_embedding_dimension=16, pooling_mode_cls_token=False, pooling_mode_mean_tokens=True, pooling_mode_max_tokens=False, pooling_mode_mean_sqrt_len_tokens=False), open(out + '/1_Pooling/config.json', 'w'), indent=1)
json.dump(dict(max_seq_length=MOST, do_lower_case=False), open(out + '/sentence_bert_config.json', 'w'), indent=1)
lines = ['A line', 'the king, the queen', 'a ship at sea', 'singing ships', 'two', 'the king reads a line of text of three lines at sea .']
open(out + '/lines.txt', 'w').write('\n'.join(lines) + '\n')
tok.enable_truncation(MOST); model = model.double(); v = {k: [] for k in ('cls', 'mean', 'max', 'lasttoken')}
for line in lines:
    with torch.no_grad(): h = model(input_ids=torch.tensor([tok.encode(line).ids])).last_hidden_state[0]
    for k, x in dict(cls=h[0], mean=h.mean(0), max=h.amax(0), lasttoken=h[-1]).items(): v[k].append(x.numpy())
save_file({k: np.stack(x).astype(np.float32) for k, x in v.items()}, out + '/vectors.safetensors')
print([len(tok.encode(l).ids) for l in lines], sum(os.path.getsize(os.path.join(d, f)) for d, _, fs in os.walk(out) for f in fs))
