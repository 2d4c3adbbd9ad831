/* family_gguf.h: GGUF files of families: the config.json that a file means, the keys of a file that is written, and the
 * rows of its tensors. */
#ifndef QKV_FAMILY_GGUF_H
#define QKV_FAMILY_GGUF_H

#include "family/family.h"

/* DeepSeek: sizes. Files of older writers have the sizes of heads without "_mla", and no groups of experts. */
#define QKV_FAMILY_GGUF_DEEPSEEK                                                                                       \
    "num_key_value_heads=$attention.head_count; " QKV_FAMILY_GGUF_SIZES QKV_FAMILY_GGUF_ROPE                           \
    "max_position_embeddings=$context_length; intermediate_size=$feed_forward_length; "                                \
    "rms_norm_eps=$attention.layer_norm_rms_epsilon; q_lora_rank=$attention.q_lora_rank|null; "                        \
    "kv_lora_rank=$attention.kv_lora_rank; qk_rope_head_dim=$rope.dimension_count; "                                   \
    "qk_nope_head_dim=$attention.key_length_mla:not_rotated|$attention.key_length:not_rotated; "                       \
    "v_head_dim=$attention.value_length_mla|$attention.value_length; "                                                 \
    "first_k_dense_replace=$leading_dense_block_count|0; n_routed_experts=$expert_count|null; "                        \
    "num_experts_per_tok=$expert_used_count|null; moe_intermediate_size=$expert_feed_forward_length; "                 \
    "n_shared_experts=$expert_shared_count|0; routed_scaling_factor=$expert_weights_scale|1.0; "                       \
    "n_group=$expert_group_count|null; topk_group=$expert_group_used_count|null; "                                     \
    "@blk.0.attn_kv_b.weight=?blk.0.attn_kv_b.weight; "

/* A GGUF file: its short keys, and its tensors. */
struct qkv_family_gguf_file {
    const char *name; /* for messages */
    const json_t *keys;
    const struct qkv_array *(*find)(const void *user, const char *name); /* with numbers; NULL: there is none */
    const void *user;
};
/* Makes the config.json of a GGUF file, for the caller to free with json_decref; *table: the architecture. Fails with
 * QKV_FORMAT: an architecture that no family has; QKV_SPEC: a key that is missing, or that the family does not read. */
enum qkv_status qkv_family_gguf_config(struct qkv_context *ctx, const struct qkv_family_gguf_file *file,
                                       const struct qkv_family_gguf **table, json_t **config);
/* The architecture that a config.json of a family is written as; NULL: GGUF files do not have the family. */
const struct qkv_family_gguf *qkv_family_gguf_of(const struct qkv_family_config *config);
/* The reverse (family_gguf_write.c): the keys of a GGUF file of a model, and tensors that no weight of the model is. */
struct qkv_family_gguf_written {
    /* of the architecture, with its name, and general.architecture: whole numbers, reals that are floats, flags, texts,
     * lists */
    json_t *keys;
    struct qkv_array factors[2]; /* divisors of the frequencies of a rotation; their data are on the heap */
    size_t factor_count;
};
/* Makes them for a model whose weights become the tensors `arrays`, listed with arrays->config->gguf. The keys are read
 * again, and must give the same spec, apart from the rounding of real numbers to floats. Frees with
 * qkv_family_gguf_written_free, also after a failure. Fails with QKV_SPEC where files of the architecture cannot say
 * all of the model; QKV_MEMORY. */
enum qkv_status qkv_family_gguf_write(const struct qkv_family_arrays *arrays, struct qkv_family_gguf_written *out);
void qkv_family_gguf_written_free(struct qkv_family_gguf_written *written);

/* The rows of one tensor of a list (qkv_family_arrays), each where the model has it (family_rows.c). A vector that
 * joins weights, or has another order, has a row for each number. */
struct qkv_family_rows {
    const struct qkv_family_arrays *arrays;
    const struct qkv_array *array; /* the tensor */
    size_t count, columns;
    bool plus_one;                    /* the tensor has 1 + the numbers */
    struct qkv_family_place *places;  /* of each row; NULL: `array` has the numbers, or they are zeros */
    size_t shows;                     /* 1 + the index of the weight that `array` shows; 0: it shows none */
    size_t made;                      /* 1 + the index of a transposed tensor, whose numbers were made; 0: none */
    const struct qkv_weight *weights; /* of the model */
};
/* Begins tensor i. qkv_family_rows_free frees it, also after a failure. Fails with QKV_MEMORY. */
enum qkv_status qkv_family_rows_begin(const struct qkv_family_arrays *arrays, size_t i, struct qkv_family_rows *rows);
/* The numbers of row r, of the type *dtype; NULL: they are zeros. Any thread. */
const void *qkv_family_rows_at(const struct qkv_family_rows *rows, size_t r, enum qkv_dtype *dtype);
/* The weight that has row r; NULL: none, or the tensor was made. */
const struct qkv_weight *qkv_family_rows_weight(const struct qkv_family_rows *rows, size_t r);
/* The type that the rows have, if all have the same; else QKV_F32. */
enum qkv_dtype qkv_family_rows_dtype(const struct qkv_family_rows *rows);
void qkv_family_rows_free(struct qkv_family_rows *rows);

#endif
