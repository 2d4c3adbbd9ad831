/* NomicBERT (Nussbaum et al. 2024): BERT with rotations and gates, without biases. */
#include "family/family_tables.h"

static const struct qkv_family_rule heads[] = {
    {"'ForMaskedLM'", "head.kind='lm'; tie='head'; head.bias=true; head.transform.norm.kind='layernorm'; "
                      "head.transform.norm.eps=$layer_norm_eps"},
    {"'ForSequenceClassification'", "head.kind='classify'; head.pool='first'; head.classes=$id2label:count; "
                                    "head.bias=true; head.transform.activation='tanh'; head.transform.norm=null"},
    {"'ForTokenClassification'", QKV_FAMILY_CLASSIFY_TOKENS},
    {"'Model'", QKV_FAMILY_BARE},
    {NULL, NULL},
};

static const struct qkv_family_rule transforms[] = {
    QKV_FAMILY_BERT_TRANSFORMS("ForMaskedLM", "hidden_act"),
    {NULL, NULL},
};

static const struct qkv_family_rule ties[] = {
    QKV_FAMILY_UNTIED("ForMaskedLM"),
    QKV_FAMILY_UNTIED_END,
};

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_gates}, {"class", heads}, {NULL, transforms}, {NULL, ties}, QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    {"embed.token", "nomic_bert.embeddings.word_embeddings", 0, 0, NULL},
    {"embed.type", "nomic_bert.embeddings.token_type_embeddings", 0, 0, NULL},
    {"embed.norm", "nomic_bert.emb_ln", 0, 0, NULL},
    {"attn.q,attn.k,attn.v", "nomic_bert.encoder.layers.{N}.attn.Wqkv", 0, 0, NULL},
    {"attn.o", "nomic_bert.encoder.layers.{N}.attn.out_proj", 0, 0, NULL},
    {"attn_norm", "nomic_bert.encoder.layers.{N}.norm1", 0, 0, NULL},
    {"ffn.up", "nomic_bert.encoder.layers.{N}.mlp.fc11", 0, 0, NULL},
    {"ffn.gate", "nomic_bert.encoder.layers.{N}.mlp.fc12", 0, 0, NULL},
    {"ffn.down", "nomic_bert.encoder.layers.{N}.mlp.fc2", 0, 0, NULL},
    {"ffn_norm", "nomic_bert.encoder.layers.{N}.norm2", 0, 0, NULL},
    {"head.transform", "nomic_bert.pooler.dense", 0, 0, "class='ForSequenceClassification'"},
    {"head.transform", "cls.predictions.transform.dense", 0, 0, NULL},
    {"head.norm", "cls.predictions.transform.layer_norm", 0, 0, NULL},
    QKV_FAMILY_UNTIED_TENSORS("ForMaskedLM", "cls.predictions.decoder", "cls.predictions.bias"),
    {"head", "classifier", 0, 0, "class=!'ForMaskedLM'"},
    {"head.bias", "=cls.predictions.bias", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

static const struct qkv_family_tensor gguf_tensors[] = {
    {"attn.q,attn.k,attn.v", "blk.{N}.attn_qkv", 0, 0, NULL},
    {"attn_norm", "blk.{N}.attn_output_norm", 0, 0, NULL},
    {"ffn_norm", "blk.{N}.layer_output_norm", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

static const struct qkv_family_gguf gguf = {
    .architecture = "nomic-bert",
    .class = "Model",
    .keys = "vocab_size=#token_embd.weight; hidden_size=$embedding_length; num_hidden_layers=$block_count; "
            "num_attention_heads=$attention.head_count; intermediate_size=$feed_forward_length; "
            "max_position_embeddings=$context_length; type_vocab_size=#token_types.weight; "
            "layer_norm_eps=$attention.layer_norm_epsilon; rope_theta=$rope.freq_base|1000.0; rope_scaling=@scaling; "
            "head_dim=$attention.key_length|null",
    .tensors = gguf_tensors,
};

/* Published files have GPT-2's keys. */
const struct qkv_family qkv_family_nomic_bert = {
    .type = "nomic_bert",
    .architectures = "NomicBertForMaskedLM,NomicBertModel,NomicBertForSequenceClassification,"
                     "NomicBertForTokenClassification",
    .stacks = "encoder",
    .aliases = "n_embd=hidden_size; n_layer=num_hidden_layers; n_head=num_attention_heads; n_inner=intermediate_size; "
               "n_positions=max_position_embeddings; layer_norm_epsilon=layer_norm_eps; rotary_emb_base=rope_theta",
    .defaults = "vocab_size=30528; hidden_size=768; num_hidden_layers=12; num_attention_heads=12; "
                "intermediate_size=3072; hidden_act='silu'; max_position_embeddings=2048; type_vocab_size=2; "
                "layer_norm_eps=1e-12; rope_theta=1000.0; rope_scaling=null; head_dim=null; tie_word_embeddings=true",
    .needs = "activation_function='swiglu'; rotary_emb_fraction=1.0; rotary_emb_interleaved=false; "
             "rotary_emb_scale_base=null; rotary_scaling_factor=null; prenorm=false; parallel_block=false; "
             "qkv_proj_bias=false; mlp_fc1_bias=false; mlp_fc2_bias=false; use_rms_norm=false; "
             "scale_attn_weights=true; scale_attn_by_inverse_layer_idx=false; causal=false",
    .idle = "max_trained_positions parallel_block_tied_norm fused_* use_xentropy pad_vocab_size_multiple "
            "dense_seq_output last_layer_subset mup_* summary_* reorder_and_upcast_attn",
    .spec = "context=$max_position_embeddings; " QKV_FAMILY_ENCODER_SIZES QKV_FAMILY_NO_BIASES QKV_FAMILY_TYPES
        QKV_FAMILY_EMBED_NORM QKV_FAMILY_ROPE("encoder.") "encoder.attention.head_dim=$head_dim; "
                                                          "encoder.embed.position.kind='none'; "
                                                          "encoder.norm.placement='post'",
    .choices = choices,
    .tensors = tensors,
    .prefix = "nomic_bert.",
    .ignored = "*pooler.dense.* cls.predictions.decoder.* cls.predictions.bias",
    .kept = "nomic_bert.pooler.dense.*",
    .tied = "cls.predictions.decoder.*",
    .gguf = &gguf,
};
