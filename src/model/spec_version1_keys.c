/* The keys that only version 1 has, which spec_version1.c converts, and those that it lacks. */
#include "model/spec_tables.h"

const struct qkv_key qkv_version1_keys[] = {
    OBJECT(qkv_written_spec, position, qkv_position_keys, .flags = 0, .example = "{\"kind\":\"rope\"}",
           .owner = "a file of version 1; as a setting it works with both versions",
           .help = "The position of the whole model. A file of version 2 has embed.position and the position of each "
                   "attention instead; as a setting, position changes all of them."),
    REAL(qkv_written_spec, embed_scale, -FLT_MAX, FLT_MAX, "a number other than 0", .flags = QKV_KEY_NOT_ZERO,
         .owner = "a file of version 1; as a setting it works with both versions", .value = 1,
         .standard = "sqrt(d_model) with sinusoidal positions, else 1", .example = "8",
         .help = "Multiplies the token embedding. A file of version 2 has embed.scale instead."),
    END,
};

bool qkv_version1_lacks(const struct qkv_key *key) {
    return key->keys == qkv_embed_keys || key->keys == qkv_attention_position_keys || key->type == QKV_KEY_KINDS ||
           key->type == QKV_KEY_PATTERN;
}
