"""Encoders and encoder-decoders as transformers has them; see families.py."""
from cases import one, kinds, small, layer, turned
from families import V, D, H, NB, QKV, named, fused, both, flat, thirds, sizes, without, rows
BERT_LAYER = {**{f'attn.{p}': f'attention.self.{t}' for p, t in zip('qkv', ('query', 'key', 'value'))}, 'attn.o': 'attention.output.dense', 'attn_norm': 'attention.output.LayerNorm', 'ffn.up': 'intermediate.dense', 'ffn.down': 'output.dense', 'ffn_norm': 'output.LayerNorm'}
def bert_top(prefix):
    e = prefix + 'embeddings.'; return {'encoder.embed.token': e + 'word_embeddings', 'encoder.embed.position': e + 'position_embeddings', 'encoder.embed.type': e + 'token_type_embeddings', 'encoder.embed.norm': e + 'LayerNorm'}
EPS = {'kind': 'layernorm', 'eps': 1e-12}
bert = dict(vocab_size=V, hidden_size=D, intermediate_size=48, num_hidden_layers=2, num_attention_heads=H, max_position_embeddings=32, type_vocab_size=2, hidden_act='gelu', layer_norm_eps=1e-12, pad_token_id=0)
POST = dict(heads=H, d_ff=48, ffn='gelu', place='post', n={'eps': 1e-12})
def bert_spec(head, tie='head', offset=0, types=2, layers=2, ffn='gelu', eps=EPS, **kw):
    e = {'position': {'kind': 'learned', 'offset': offset}, 'types': types, 'norm': eps, **kw.pop('embed', {})}
    return small(enc=one(layers, **{**POST, 'ffn': ffn, 'n': {'eps': eps['eps']}}, **kw), d=D, vocab=V, context=32, tie=tie, embed=e, head=head)
def mlm(width=D, act='gelu', norm=EPS): return {'kind': 'lm', 'bias': True, 'transform': {'width': width, 'activation': act, 'bias': True, 'norm': norm}}
def classes(n, act, pool='first', kind='classify'): return {'kind': kind, 'classes': n, **({'pool': pool} if kind == 'classify' else {}), 'transform': {'width': D, 'activation': act, 'bias': True}}
def bert_like(prefix, top, layer_prefix=None, table=BERT_LAYER, then=None): return named({**bert_top(prefix), **top}, ('encoder', layer_prefix or prefix + 'encoder.layer.{}.', 2, table), then=then)
MLM_TOP = {'head.transform': 'cls.predictions.transform.dense', 'head.norm': 'cls.predictions.transform.LayerNorm'}
def albert(groups):
    g = 'albert.encoder.albert_layer_groups.{}.albert_layers.0.'; table = {**{f'attn.{p}': f'attention.{t}' for p, t in zip('qkvo', ('query', 'key', 'value', 'dense'))}, 'attn_norm': 'attention.LayerNorm', 'ffn.up': 'ffn', 'ffn.down': 'ffn_output', 'ffn_norm': 'full_layer_layer_norm'}
    s = bert_spec(mlm(16, 'gelu_tanh'), layers=4, ffn='gelu_tanh', share=groups, embed={'width': 16})
    def then(out, P):   # the groups' weights under their first layers
        for i in range(groups):
            for name in [n for n in out if n.startswith(f'group.layers.{i}.')]: out[name.replace(f'group.layers.{i}.', f'encoder.layers.{i * 4 // groups}.')] = out.pop(name)
        out['head.bias'] = P['predictions.bias']
    return 'AlbertForMaskedLM', bert | dict(embedding_size=16, hidden_act='gelu_new', num_hidden_layers=4, num_hidden_groups=groups, inner_group_num=1), s, \
        named({**bert_top('albert.'), 'encoder.embed.project': 'albert.encoder.embedding_hidden_mapping_in', 'head.transform': 'predictions.dense', 'head.norm': 'predictions.LayerNorm'}, ('group', g, groups, table), then=then)
def modernbert():
    cfg = dict(vocab_size=V, hidden_size=D, intermediate_size=48, num_hidden_layers=4, num_attention_heads=H, max_position_embeddings=64, norm_eps=1e-5, norm_bias=False, attention_bias=False, mlp_bias=False, hidden_activation='gelu', global_attn_every_n_layers=3,
               local_attention=8, global_rope_theta=160000.0, local_rope_theta=10000.0, decoder_bias=True, classifier_bias=False, classifier_activation='gelu', pad_token_id=0, cls_token_id=1, sep_token_id=2, bos_token_id=1, eos_token_id=2)
    shape = layer(heads=H, n=NB, ffn='geglu', d_ff=48, bias=False, f=NB); wide, near = turned(theta=160000.0), {'window': 5, **turned()}   # at most 4 to either side
    s = small(enc=kinds(4, ['first', 'near', 'near', 'wide'], shape, first={'attention': wide, 'norm': {'attention': False}}, near={'attention': near}, wide={'attention': wide}), d=D, vocab=V, context=64,
              embed={'norm': {'kind': 'layernorm', 'eps': 1e-5, 'bias': False}}, head={'kind': 'lm', 'bias': True, 'transform': {'width': D, 'activation': 'gelu', 'bias': False, 'norm': {'kind': 'layernorm', 'eps': 1e-5, 'bias': False}}})
    p = 'model.layers.{}.'
    return 'ModernBertForMaskedLM', cfg, s, named({'encoder.embed.token': 'model.embeddings.tok_embeddings', 'encoder.embed.norm': 'model.embeddings.norm', 'encoder.norm': 'model.final_norm', 'head.transform': 'head.dense', 'head.norm': 'head.norm'},
        ('encoder', p, 4, {'attn_norm': 'attn_norm', 'attn.o': 'attn.Wo', 'ffn_norm': 'mlp_norm', 'ffn.down': 'mlp.Wo'}), then=both(fused('attn.Wqkv', QKV, thirds, p, 4, 'encoder'), fused('mlp.Wi', ('ffn.gate', 'ffn.up'), sizes(48, 48), p, 4, 'encoder'), flat('decoder.bias', 'head.bias')))
def vit():
    cfg = dict(hidden_size=D, num_hidden_layers=2, num_attention_heads=H, intermediate_size=48, hidden_act='gelu', layer_norm_eps=1e-12, image_size=12, patch_size=4, num_channels=3, qkv_bias=True, num_labels=7); e = 'vit.embeddings.'
    s = small(enc=one(**{**POST, 'place': 'pre'}), d=D, vocab=V, context=10, tie='none', head={'kind': 'classify', 'classes': 7, 'pool': 'first'}, embed={'position': {'kind': 'learned'}, 'input': {'kind': 'patches', 'channels': 3, 'height': 12, 'width': 12, 'patch': 4, 'class_token': True}})
    return 'ViTForImageClassification', cfg, s, named({'encoder.embed.class': e + 'cls_token', 'encoder.embed.position': e + 'position_embeddings', 'encoder.embed.patch': e + 'patch_embeddings.projection', 'encoder.norm': 'vit.layernorm', 'head': 'classifier'},
        ('encoder', 'vit.layers.{}.', 2, {**{f'attn.{p}': f'attention.{p}_proj' for p in 'qkvo'}, 'attn_norm': 'layernorm_before', 'ffn_norm': 'layernorm_after', 'ffn.up': 'mlp.fc1', 'ffn.down': 'mlp.fc2'}))
def clip_text():
    cfg = dict(vocab_size=V, hidden_size=D, intermediate_size=48, num_hidden_layers=2, num_attention_heads=H, max_position_embeddings=32, hidden_act='quick_gelu', layer_norm_eps=1e-5, projection_dim=D, pad_token_id=0, bos_token_id=1, eos_token_id=2); m = 'text_model.'
    s = small(one(heads=H, d_ff=48, ffn='quick_gelu'), d=D, vocab=V, context=32, tie='none', embed={'position': {'kind': 'learned'}}, head={'kind': 'none'})
    def weights(P):
        m = 'text_model.' if any(n.startswith('text_model.') for n in P) else ''
        return named({'decoder.embed.token': m + 'embeddings.token_embedding', 'decoder.embed.position': m + 'embeddings.position_embedding', 'decoder.norm': m + 'final_layer_norm'}, ('decoder', m + 'encoder.layers.{}.', 2, CLIP_LAYER))(P)
    return 'CLIPTextModel', cfg, s, weights
BART_ATTN = {f'{p}': f'{t}_proj' for p, t in zip('qkvo', ('q', 'k', 'v', 'out'))}
def attention(ours, theirs): return {f'{ours}.{p}': f'{theirs}.{t}' for p, t in BART_ATTN.items()}
CLIP_LAYER = {**attention('attn', 'self_attn'), 'attn_norm': 'layer_norm1', 'ffn_norm': 'layer_norm2', 'ffn.up': 'mlp.fc1', 'ffn.down': 'mlp.fc2'}
BART_LAYER = {**attention('attn', 'self_attn'), **attention('cross', 'encoder_attn'), 'attn_norm': 'self_attn_layer_norm', 'cross_norm': 'encoder_attn_layer_norm', 'ffn.up': 'fc1', 'ffn.down': 'fc2', 'ffn_norm': 'final_layer_norm'}
bart = dict(vocab_size=V, d_model=24, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=32, pad_token_id=1, bos_token_id=0, eos_token_id=2, decoder_start_token_id=2)
def bart_like(cls, cfg, ffn, place, embed, head=None, tie='all', final=None, bias=True):
    """final_logits_bias is a buffer of zeros"""
    stack = one(heads=4, ffn=ffn, d_ff=48, place=place, bias=bias, n={} if final is None else {'final': final}); top = {'decoder.embed.token': 'model.shared'}
    for side in ('encoder', 'decoder'): m = f'model.{side}.'; top.update({f'{side}.embed.position': m + 'embed_positions', f'{side}.embed.norm': m + 'layernorm_embedding', f'{side}.norm': m + 'layer_norm'})
    if 'learned' not in embed['position']['kind']: top = {o: t for o, t in top.items() if 'position' not in o}
    return cls, bart | cfg, small(stack, stack, d=24, vocab=V, context=32, tie=tie, embed=embed, head=head), named(top, *[(side, f'model.{side}.layers.' + '{}.', 2, BART_LAYER) for side in ('encoder', 'decoder')])
def t5(gated, buckets=8, distance=16):
    cfg = dict(vocab_size=V, d_model=24, d_kv=8, d_ff=48, num_layers=2, num_decoder_layers=2, num_heads=3, relative_attention_num_buckets=buckets, relative_attention_max_distance=distance, layer_norm_epsilon=1e-6, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0,
               feed_forward_proj='gated-gelu' if gated else 'relu', tie_word_embeddings=not gated)
    stack = one(heads=3, head_dim=8, norm='rmsnorm', n={'eps': 1e-6}, scale=1.0, bias=False, ffn='geglu_tanh' if gated else 'relu', d_ff=48, f=NB, position={'kind': 'buckets', 'buckets': buckets, 'max_distance': distance})
    s = small(stack, stack, d=24, vocab=V, context=32, tie='stacks' if gated else 'all', head={'kind': 'lm', 'bias': False, 'scale': 1.0 if gated else 24 ** -0.5})
    top = {'decoder.embed.token': 'shared', 'head': 'lm_head'}
    for side in ('encoder', 'decoder'): top.update({f'{side}.position.buckets': f'{side}.block.0.layer.0.SelfAttention.relative_attention_bias', f'{side}.norm': f'{side}.final_layer_norm'})
    ff = {'ffn.gate': 'wi_0', 'ffn.up': 'wi_1' if gated else 'wi', 'ffn.down': 'wo'}
    table = lambda last: {**{f'attn.{p}': f'layer.0.SelfAttention.{p}' for p in 'qkvo'}, 'attn_norm': 'layer.0.layer_norm', **{o: f'layer.{last}.DenseReluDense.{t}' for o, t in ff.items()}, 'ffn_norm': f'layer.{last}.layer_norm'}
    cross = {**{f'cross.{p}': f'layer.1.EncDecAttention.{p}' for p in 'qkvo'}, 'cross_norm': 'layer.1.layer_norm'}
    return 'T5ForConditionalGeneration', cfg, s, named(top, ('encoder', 'encoder.block.{}.', 2, table(1)), ('decoder', 'decoder.block.{}.', 2, {**table(2), **cross}))
def whisper():
    cfg = without(bart, 'max_position_embeddings') | dict(num_mel_bins=8, max_source_positions=10, max_target_positions=32, activation_function='gelu', scale_embedding=False)
    stack = one(heads=4, ffn='gelu', d_ff=48, bias='qvo'); enc = stack | {'embed': {'position': {'kind': 'sinusoidal', 'layout': 'spaced'}, 'input': {'kind': 'frames', 'channels': 8, 'kernel': 3, 'stride': 2}}}
    top = {'decoder.embed.token': 'model.decoder.embed_tokens', 'decoder.embed.position': 'model.decoder.embed_positions', **{f'encoder.embed.{c}': f'model.encoder.{c}' for c in ('conv1', 'conv2')}, **{f'{side}.norm': f'model.{side}.layer_norm' for side in ('encoder', 'decoder')}}
    return 'WhisperForConditionalGeneration', cfg, small(stack, enc, d=24, vocab=V, context=32, embed={'position': {'kind': 'learned'}}), named(top, *[(side, f'model.{side}.layers.' + '{}.', 2, BART_LAYER) for side in ('encoder', 'decoder')])
def encoders():
    five = {'kind': 'layernorm', 'eps': 1e-5}
    yield 'bert', 'types, embed.norm, post, transform', 'BertForMaskedLM', bert, bert_spec(mlm()), bert_like('bert.', MLM_TOP, then=flat('cls.predictions.bias', 'head.bias'))
    yield 'bert tanh', 'ffn.kind tanh', 'BertForMaskedLM', bert | dict(hidden_act='tanh'), bert_spec(mlm(act='tanh'), ffn='tanh'), bert_like('bert.', MLM_TOP, then=flat('cls.predictions.bias', 'head.bias'))
    yield 'bert classifier', 'pooler', 'BertForSequenceClassification', bert | dict(num_labels=5), bert_spec(classes(5, 'tanh'), 'none'), bert_like('bert.', {'head.transform': 'bert.pooler.dense', 'head': 'classifier'})
    yield 'bert tokens', 'classify_tokens', 'BertForTokenClassification', bert | dict(num_labels=5), bert_spec({'kind': 'classify_tokens', 'classes': 5}, 'none'), bert_like('bert.', {'head': 'classifier'})
    yield 'roberta', 'position offset 2', 'RobertaForMaskedLM', bert | dict(max_position_embeddings=34, type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1, bos_token_id=0, eos_token_id=2), bert_spec(mlm(norm=five), offset=2, types=1, eps=five), \
        bert_like('roberta.', {'head.transform': 'lm_head.dense', 'head.norm': 'lm_head.layer_norm'}, then=flat('lm_head.bias', 'head.bias'))
    yield 'distilbert', 'no types', 'DistilBertForMaskedLM', dict(vocab_size=V, dim=D, hidden_dim=48, n_layers=2, n_heads=H, max_position_embeddings=32, activation='gelu', sinusoidal_pos_embds=False, pad_token_id=0), bert_spec(mlm(), types=0), \
        bert_like('distilbert.', {'head.transform': 'vocab_transform', 'head.norm': 'vocab_layer_norm'}, 'distilbert.transformer.layer.{}.', {**{f'attn.{p}': f'attention.{t}_lin' for p, t in zip('qkvo', ('q', 'k', 'v', 'out'))}, 'attn_norm': 'sa_layer_norm', 'ffn.up': 'ffn.lin1', 'ffn.down': 'ffn.lin2', 'ffn_norm': 'output_layer_norm'},
                  then=flat('vocab_projector.bias', 'head.bias'))
    for groups in (1, 2): yield f'albert, {groups} groups', 'share, embed.width at the end', *albert(groups)
    yield 'electra', 'embed.width, narrow transform', 'ElectraForMaskedLM', bert | dict(embedding_size=16), bert_spec(mlm(16), embed={'width': 16}), bert_like('electra.', {'encoder.embed.project': 'electra.embeddings_project', 'head.transform': 'generator_predictions.dense', 'head.norm': 'generator_predictions.LayerNorm'}, then=flat('generator_lm_head.bias', 'head.bias'))
    yield 'electra tokens', 'classify_tokens with transform', 'ElectraForPreTraining', bert | dict(embedding_size=16), bert_spec(classes(1, 'gelu', kind='classify_tokens'), 'none', embed={'width': 16}), bert_like('electra.', {'encoder.embed.project': 'electra.embeddings_project', 'head.transform': 'discriminator_predictions.dense', 'head': 'discriminator_predictions.dense_prediction'})
    yield 'modernbert', 'first layer without norm, windows, two bases', *modernbert()
    yield 'vit', 'patches, class token', *vit()
    yield 'clip text', 'quick_gelu, hidden states', *clip_text()
    yield 't5', 'buckets shared by a stack, cross attention', *t5(False)
    yield 't5 v1.1', 'buckets, geglu_tanh', *t5(True)
    yield 't5, 32 buckets', 'buckets 32, distance 128', *t5(False, 32, 128)
    learned = {'position': {'kind': 'learned', 'offset': 2}}; waves = lambda layout, **kw: {'position': {'kind': 'sinusoidal', 'layout': layout, **kw}, 'scale': 24 ** 0.5}
    yield 'bart', 'offset, embed.norm of both stacks, post', *bart_like('BartForConditionalGeneration', dict(activation_function='gelu', scale_embedding=False), 'gelu', 'post', {**learned, 'norm': five})
    yield 'mbart', 'the same, pre', *bart_like('MBartForConditionalGeneration', dict(activation_function='gelu', scale_embedding=True), 'gelu', 'pre', {**learned, 'norm': five, 'scale': 24 ** 0.5})
    yield 'marian', 'sinusoids in halves', *bart_like('MarianMTModel', dict(activation_function='swish', scale_embedding=True, pad_token_id=1, decoder_start_token_id=1, share_encoder_decoder_embeddings=True), 'silu', 'post', waves('halves'))
    yield 'm2m_100', 'sinusoids spaced, offset', *bart_like('M2M100ForConditionalGeneration', dict(activation_function='relu', scale_embedding=True), 'relu', 'pre', waves('spaced', offset=2))
    yield 'whisper', 'frames, sinusoids of the encoder, no bias of k', *whisper()
