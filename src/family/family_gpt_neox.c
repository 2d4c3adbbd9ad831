/* GPT-NeoX (Black et al. 2022) and Pythia: parallel sublayers with two norms, or sequential ones. */
#include "family/family_tables.h"

static const struct qkv_family_rule residuals[] = {
    {"true", "decoder.norm.placement='parallel_two'"},
    {"false", "decoder.norm.placement='pre'"},
    {NULL, NULL},
};

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_activations}, {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},  {"attention_bias", qkv_family_attention_biases},
    {"use_parallel_residual", residuals},   QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    {"embed.token", "gpt_neox.embed_in", 0, 0, NULL},
    {"attn_norm", "gpt_neox.layers.{N}.input_layernorm", 0, 0, NULL},
    {"ffn_norm", "gpt_neox.layers.{N}.post_attention_layernorm", 0, 0, NULL},
    {"attn.q,attn.k,attn.v", "gpt_neox.layers.{N}.attention.query_key_value", QKV_FAMILY_HEADS, 0, NULL},
    {"attn.o", "gpt_neox.layers.{N}.attention.dense", 0, 0, NULL},
    {"ffn.up", "gpt_neox.layers.{N}.mlp.dense_h_to_4h", 0, 0, NULL},
    {"ffn.down", "gpt_neox.layers.{N}.mlp.dense_4h_to_h", 0, 0, NULL},
    {"norm", "gpt_neox.final_layer_norm", 0, 0, NULL},
    QKV_FAMILY_DECODER_HEADS("classifier", "embed_out"),
    {NULL, NULL, 0, 0, NULL},
};

static const struct qkv_family_gguf gguf = {
    .architecture = "gptneox",
    .keys = QKV_FAMILY_GGUF_SIZES
    "max_position_embeddings=$context_length; intermediate_size=$feed_forward_length; "
    "rotary_pct=$rope.dimension_count:of_head|1.0; rotary_emb_base=$rope.freq_base|10000.0; rope_scaling=@scaling; "
    "layer_norm_eps=$attention.layer_norm_epsilon; use_parallel_residual=$use_parallel_residual|true; "
    "attention_bias=?blk.0.attn_qkv.bias",
    .tensors = qkv_family_gguf_joined,
};

const struct qkv_family qkv_family_gpt_neox = {
    .type = "gpt_neox",
    .architectures = "GPTNeoXForCausalLM,GPTNeoXModel,GPTNeoXForSequenceClassification,GPTNeoXForTokenClassification,"
                     "GPTNeoXForQuestionAnswering",
    .stacks = "decoder",
    .aliases = "rope_theta=rotary_emb_base; partial_rotary_factor=rotary_pct",
    .defaults =
        "vocab_size=50432; hidden_size=6144; num_hidden_layers=44; num_attention_heads=64; intermediate_size=24576; "
        "hidden_act='gelu'; rotary_pct=0.25; rotary_emb_base=10000; max_position_embeddings=2048; layer_norm_eps=1e-5; "
        "use_parallel_residual=true; attention_bias=true; rope_scaling=null; tie_word_embeddings=false",
    .spec =
        "vocab=$vocab_size; context=$max_position_embeddings; d_model=$hidden_size; "
        "decoder.layers=$num_hidden_layers; decoder.attention.heads=$num_attention_heads; "
        "decoder.ffn.d_ff=$intermediate_size; decoder.ffn.bias=true; decoder.embed.position.kind='none'; "
        "decoder.attention.position.kind='rope'; decoder.attention.position.theta=$rotary_emb_base; "
        "decoder.attention.position.fraction=$rotary_pct; decoder.attention.position.scaling=$rope_scaling:scaling; "
        "decoder.norm.kind='layernorm'; decoder.norm.eps=$layer_norm_eps",
    .choices = choices,
    .tensors = tensors,
    .prefix = "gpt_neox.",
    .tied = "embed_out.weight",
    .gguf = &gguf,
};
