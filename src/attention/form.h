/* form: the forms of attention as rows of one table. A form says which weights an attention has, how queries, keys and
 * values are computed from its input, and what its cache stores. Everybody else asks the row of a spec, and names no
 * form.
 *
 * A row has no cost: the work of an attention is that of the operators that `project` and `values` build, each of
 * which has a cost of its own, and the bytes that a position adds to a cache follow from `cached`. */
#ifndef QKV_ATTENTION_FORM_H
#define QKV_ATTENTION_FORM_H

#include "attention/attention.h"

/* Every form: X(name); form_NAME.c has the row. Of the rows that a spec fits, the last one is its form: heads, the
 * first, fits every spec. */
#define QKV_ATTENTION_FORM_LIST(X)                                                                                     \
    X(heads)                                                                                                           \
    X(latent)

/* Keys of a spec as its writer has them, for messages: a sentence about `name`, with the keys `where`…. */
struct qkv_form_keys {
    struct qkv_context *ctx;
    const char *name, *where;
    int C;      /* width of the model */
    bool cross; /* of cross attention */
};
/* Inputs of attention: queries, keys and values, and the call with their heads and widths. */
struct qkv_form_inputs {
    struct qkv_tensor *q;
    struct qkv_columns k, v;
    struct qkv_attend attend;
};

struct qkv_attention_form {
    /* ---- the spec ---- */
    const char *name;
    bool (*fits)(const struct qkv_attention_spec *spec);
    /* Checks the keys that this form gives a meaning, else QKV_SPEC; NULL: there are none. */
    enum qkv_status (*check)(const struct qkv_form_keys *keys, const struct qkv_attention_spec *spec);
    const char *rotated_key; /* the key of the channels of a head that a position may rotate, and their number */
    int (*rotated)(const struct qkv_attention_spec *spec);
    double (*scale)(const struct qkv_attention_spec *spec); /* the factor of scores where the spec has none */
    struct qkv_page_heads (*cached)(const struct qkv_attention_spec *spec); /* the heads that the cache stores */
    /* Whether keys and values of two specs of this form differ, so that no layer of one reads those of the other; the
     * first key that differs goes to `text` (qkv_attention_differ). */
    bool (*differ)(const struct qkv_attention_spec *a, const struct qkv_attention_spec *b, char text[QKV_DIFFER_TEXT]);

    /* ---- weights: those of the form's roles, without those of keys and values if spec->share is set; norms of
     * queries and keys, o and sinks belong to every form ---- */
    void (*weights)(struct qkv_weights *weights, const struct qkv_weight_place *place,
                    const struct qkv_attention_spec *spec, bool cross, struct qkv_attention_parameters *parameters);

    /* ---- running ---- */
    /* Computes the inputs of attention from x (N, in); with a cache also appends new rows to it, or, in cross
     * attention, writes the source's; notes args->keys. If spec->share is set, only queries are computed; keys and
     * values are those of args->keys, or of the cache, which has them already. inputs->attend is a copy of the call.
     * false: the tape has failed. */
    bool (*project)(const struct qkv_attention_args *args, struct qkv_tensor *x, struct qkv_form_inputs *inputs);
    /* The values (N, H·Dv) of attention's result; NULL: they are the result. */
    struct qkv_tensor *(*values)(const struct qkv_attention_args *args, struct qkv_tensor *y);
    /* Cross attention with a cache: only writes the source's keys and values; NULL: no cross attention has this
     * form. */
    void (*cache_source)(const struct qkv_attention_args *args);
};
#define QKV_ATTENTION_FORM_DECLARE(name) extern const struct qkv_attention_form qkv_attention_form_##name;
QKV_ATTENTION_FORM_LIST(QKV_ATTENTION_FORM_DECLARE)

/* The form of a spec (forms.c). */
const struct qkv_attention_form *qkv_attention_form_of(const struct qkv_attention_spec *spec);

/* ---- parts of rows (projections.c) ----------------------------------------------------------------------------- */

/* An operand with the projections of those letters, each with its role, and with a bias where `bias`
 * has the letter. */
void qkv_attention_build_linear(struct qkv_weights *weights, const struct qkv_weight_place *place,
                                struct qkv_linear *linear, const enum qkv_role *roles, const char *letters,
                                enum qkv_bias_kind bias);
/* For `differ`: whether the numbers differ; `text` then says so about the key. */
bool qkv_attention_differ(const char *key, double a, double b, char text[QKV_DIFFER_TEXT]);
/* Rotates `heads` heads of D channels from a column of x by the positions of the call. */
struct qkv_tensor *qkv_attention_rotate(const struct qkv_attention_args *args, struct qkv_tensor *x, size_t column,
                                        size_t heads, size_t D);

#endif
