/* projections: parts of the forms of attention: weights that are always used together in one operand, and rotations. */
#include "attention/form.h"

#include <string.h>

/* The letters of the projections that have a bias, by kind. */
#define BIAS_PARTS(name, text, help, parts) parts,
static const char *const biases[] = {QKV_BIAS_LIST(BIAS_PARTS)};

bool qkv_bias_has(enum qkv_bias_kind kind, char projection) {
    return strchr(biases[kind], projection) != NULL;
}

void qkv_attention_build_linear(struct qkv_weights *weights, const struct qkv_weight_place *place,
                                struct qkv_linear *linear, const enum qkv_role *roles, const char *letters,
                                enum qkv_bias_kind kind) {
    const size_t count = strlen(letters);
    bool has[3];
    for (size_t i = 0; i < count; i++) has[i] = qkv_bias_has(kind, letters[i]);
    qkv_weights_matrix(weights, place, &linear->weight, roles, count);
    qkv_weights_bias(weights, place, &linear->bias, roles, has, count);
}

struct qkv_tensor *qkv_attention_rotate(const struct qkv_attention_args *f, struct qkv_tensor *x, size_t column,
                                        size_t heads, size_t D) {
    const struct qkv_position_tables *tables = f->tables;
    if (!tables || !tables->rotate) return x;
    const struct qkv_turns t = f->turns ? *f->turns : (struct qkv_turns){tables->rotate, f->attend->position};
    return qkv_op_rotate(f->tape, x, column, heads, D, tables->pairs, tables->interleaved, t.table, t.rows);
}

bool qkv_attention_differ(const char *key, double a, double b, char text[QKV_DIFFER_TEXT]) {
    if (a == b) return false;
    if (text) snprintf(text, QKV_DIFFER_TEXT, "%s is %g, not %g", key, a, b);
    return true;
}
