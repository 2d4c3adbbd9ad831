"""A tiny folder that answers questions, and the answers that transformers' own choice of spans gives, computed in float64.

usage: questions.py OUT SEED     (python with torch, transformers 5, tokenizers, safetensors; no network)

Writes OUT: config.json, model.safetensors (BertForQuestionAnswering), tokenizer.json (WordPiece, [CLS] question [SEP] text [SEP]), pairs.tsv (a
question, a tab and a text a line) and answers.json: of each pair the answer, its bytes in the text and its score, as the question-answering
pipeline of transformers 4 makes them: the question and [SEP] are masked, softmax over the rest, [CLS] left out, at most 15 tokens
(select_starts_ends of transformers 5), widened to whole words by the tokenizer's own words."""
import json, os, sys, shutil
os.environ['HF_HUB_OFFLINE'] = '1'
import numpy as np, torch, transformers
from transformers.pipelines.document_question_answering import select_starts_ends
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, decoders
out, seed = sys.argv[1], int(sys.argv[2]); shutil.rmtree(out, ignore_errors=True); os.makedirs(out)
words = '[PAD] [UNK] [CLS] [SEP] [MASK] a line of text ship at sea the king s queen ##ly ##s ##ing sing read two three who what where is , . ? é'.split()
tok = Tokenizer(models.WordPiece({w: i for i, w in enumerate(words)}, unk_token='[UNK]', continuing_subword_prefix='##', max_input_chars_per_word=100))
tok.normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=False); tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer(); tok.decoder = decoders.WordPiece(prefix='##')
tok.post_processor = processors.TemplateProcessing(single='[CLS] $A [SEP]', pair='[CLS] $A [SEP] $B:1 [SEP]:1', special_tokens=[('[CLS]', 2), ('[SEP]', 3)])
tok.add_special_tokens(words[:5]); tok.save(out + '/tokenizer.json')
json.dump(dict(unk_token='[UNK]', sep_token='[SEP]', pad_token='[PAD]', cls_token='[CLS]', mask_token='[MASK]', tokenizer_class='BertTokenizer'), open(out + '/tokenizer_config.json', 'w'), indent=1)
cfg = transformers.BertConfig(vocab_size=len(words), hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, max_position_embeddings=48, type_vocab_size=2, pad_token_id=0)
cfg._attn_implementation = 'eager'
model = transformers.BertForQuestionAnswering(cfg).eval(); g = torch.Generator().manual_seed(seed)
with torch.no_grad():
    for k, p in model.named_parameters(): p.copy_((1 if 'LayerNorm.weight' in k else 0) + (0.3 if p.ndim == 1 else 0.6) * torch.randn(p.shape, generator=g))
model.save_pretrained(out)
texts = ['The king sings, the queen reads.', 'a ship at sea reads a line of text of three kings', 'two', 'Queen é, sings at sea: what is the text?', 'the ships sing where the line is , and the two kings read what the queen sings of the sea . a text of three lines is a line']
pairs = [(q, t) for t in texts for q in ('Who sings?', 'where is the ship', '')]
model = model.double(); answers = []
for question, text in pairs:
    e = tok.encode(question, text); T = len(e.ids); assert T <= 48
    with torch.no_grad(): o = model(input_ids=torch.tensor([e.ids]), token_type_ids=torch.tensor([e.type_ids]))
    mask = np.array([[0 if s == 1 else 1 for s in e.sequence_ids]]); mask[0, e.ids.index(2)] = 0
    s, t, score, _ = select_starts_ends(o.start_logits.numpy(), o.end_logits.numpy(), mask, np.ones((1, T), int))
    a, b = e.word_to_chars(e.token_to_word(int(s[0])), 1)[0], e.word_to_chars(e.token_to_word(int(t[0])), 1)[1]
    answers.append(dict(answer=text[a:b], begin=len(text[:a].encode()), end=len(text[:b].encode()), score=float(score[0])))
open(out + '/pairs.tsv', 'w').write(''.join(f'{q}\t{t}\n' for q, t in pairs))
json.dump(answers, open(out + '/answers.json', 'w'), indent=1, ensure_ascii=False)
for p, a in zip(pairs, answers): print(p, a)
