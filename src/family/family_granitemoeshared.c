/* Granite with experts and a shared expert (IBM 2025). */
#include "family/family_tables.h"

const struct qkv_family qkv_family_granitemoeshared = {
    .type = "granitemoeshared",
    .architectures = "GraniteMoeSharedForCausalLM,GraniteMoeSharedModel",
    .stacks = "decoder",
    .aliases = "num_experts=num_local_experts",
    .defaults = QKV_FAMILY_GRANITEMOE_DEFAULTS "; shared_intermediate_size=0",
    .spec = QKV_FAMILY_GRANITEMOE_SPEC "; decoder.ffn.experts.shared=$shared_intermediate_size",
    .choices = qkv_family_granitemoe_choices,
    .tensors = qkv_family_granitemoe_tensors,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .tied = "lm_head.weight",
};
