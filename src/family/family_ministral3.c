/* Ministral 3 (Mistral AI 2025), its text model: Mistral whose queries are scaled by their positions. */
#include "family/family_tables.h"

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_gates},
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    QKV_FAMILY_CHOICES_END,
};

const struct qkv_family qkv_family_ministral3 = {
    .type = "ministral3",
    .architectures =
        "Ministral3ForCausalLM,Ministral3Model,Ministral3ForSequenceClassification,Ministral3ForTokenClassification,"
        "Ministral3ForQuestionAnswering",
    .stacks = "decoder",
    .defaults =
        "vocab_size=131072; hidden_size=4096; intermediate_size=14336; num_hidden_layers=34; num_attention_heads=32; "
        "num_key_value_heads=8; head_dim=128; hidden_act='silu'; max_position_embeddings=262144; rms_norm_eps=1e-5; "
        "rope_theta=1000000.0; tie_word_embeddings=false; sliding_window=null; llama_4_scaling_beta=0.1; "
        "rope_scaling={'rope_type':'yarn','factor':16.0,'original_max_position_embeddings':16384,"
        "'mscale':1.0,'mscale_all_dim':1.0}",
    .idle = "*.max_position_embeddings",
    .rotation_keys = "llama_4_scaling_beta",
    .spec = QKV_FAMILY_LLAMA_SPEC QKV_FAMILY_RMSNORM QKV_FAMILY_NO_BIASES
    "decoder.norm.placement='pre'; decoder.attention.window=$sliding_window:zero; "
    "decoder.attention.temperature.beta=$llama_4_scaling_beta; "
    "decoder.attention.temperature.length=$rope_scaling.original_max_position_embeddings; "
    "decoder.attention.temperature.offset=0",
    .choices = choices,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .tied = "lm_head.weight",
};
