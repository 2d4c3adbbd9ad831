/* form_heads: keys and values of each head, or of groups of heads, projected from the input (Vaswani et al. 2017;
 * Shazeer 2019; Ainslie et al. 2023). In self attention q, k and v are one product of x; cross attention computes k
 * and v from a source. If the spec says so, q and k are normed, q, k and v are clipped, q and k are rotated. */
#include "attention/form.h"

#include <math.h>

/* ---- the spec -------------------------------------------------------------------------------------------------- */

static bool heads_fits(const struct qkv_attention_spec *spec) {
    (void)spec;
    return true;
}

static int heads_rotated(const struct qkv_attention_spec *spec) {
    return spec->head_dim;
}

static double heads_scale(const struct qkv_attention_spec *spec) {
    return 1 / sqrt((double)spec->head_dim);
}

static struct qkv_page_heads heads_cached(const struct qkv_attention_spec *spec) {
    return (struct qkv_page_heads){
        .heads = (size_t)spec->kv_heads, .k_columns = (size_t)spec->head_dim, .v_columns = (size_t)spec->value_dim};
}

static bool heads_differ(const struct qkv_attention_spec *a, const struct qkv_attention_spec *b,
                         char text[QKV_DIFFER_TEXT]) {
    const struct qkv_qk_norm_spec *n = &a->qk_norm, *m = &b->qk_norm;
    const bool norms = n->norm.given != m->norm.given ||
                       (n->norm.given && (n->norm.kind != m->norm.kind || n->norm.eps != m->norm.eps ||
                                          n->norm.weight != m->norm.weight || n->norm.bias != m->norm.bias ||
                                          n->over != m->over || n->after_rotation != m->after_rotation));
    if (norms && text) snprintf(text, QKV_DIFFER_TEXT, "qk_norm differs");
    return norms || qkv_attention_differ("kv_heads", a->kv_heads, b->kv_heads, text) ||
           qkv_attention_differ("head_dim", a->head_dim, b->head_dim, text) ||
           qkv_attention_differ("value_dim", a->value_dim, b->value_dim, text) ||
           qkv_attention_differ("clip", a->clip, b->clip, text);
}

/* ---- weights --------------------------------------------------------------------------------------------------- */

static void heads_weights(struct qkv_weights *weights, const struct qkv_weight_place *place,
                          const struct qkv_attention_spec *spec, bool cross,
                          struct qkv_attention_parameters *parameters) {
    static const enum qkv_role self_roles[] = {QKV_ROLE_ATTN_Q, QKV_ROLE_ATTN_K, QKV_ROLE_ATTN_V};
    static const enum qkv_role cross_roles[] = {QKV_ROLE_CROSS_Q, QKV_ROLE_CROSS_K, QKV_ROLE_CROSS_V};
    const enum qkv_bias_kind bias = spec->bias;
    if (!cross && spec->share) {
        qkv_attention_build_linear(weights, place, &parameters->q, self_roles, "q", bias);
        return;
    }
    if (!cross) {
        qkv_attention_build_linear(weights, place, &parameters->qkv, self_roles, "qkv", bias);
        return;
    }
    qkv_attention_build_linear(weights, place, &parameters->q, cross_roles, "q", bias);
    if (place->sizes->M == place->sizes->U) {
        qkv_attention_build_linear(weights, place, &parameters->kv, cross_roles + 1, "kv", bias);
    } else {
        qkv_attention_build_linear(weights, place, &parameters->k, cross_roles + 1, "k", bias);
        qkv_attention_build_linear(weights, place, &parameters->v, cross_roles + 2, "v", bias);
    }
}

/* ---- running --------------------------------------------------------------------------------------------------- */

/* Norms heads of x, from `column` on. */
static struct qkv_tensor *heads_norm(const struct qkv_attention_args *f, struct qkv_norm *norm, struct qkv_tensor *x,
                                     size_t column, size_t heads) {
    const struct qkv_qk_norm_spec *spec = &f->spec->qk_norm;
    const bool wide = spec->over == QKV_NORM_OVER_WIDTH;
    const struct qkv_heads_of_columns part = {.column = column,
                                              .heads = wide ? 1 : heads,
                                              .D = wide ? heads * f->attend->D : f->attend->D,
                                              .own = spec->over == QKV_NORM_OVER_HEADS};
    return qkv_op_head_norm(f->tape, x, part, spec->norm.kind, qkv_tensor_or_null(&norm->weight),
                            qkv_tensor_or_null(&norm->bias), (float)spec->norm.eps);
}

/* The norms of `queries` heads of queries and of the `keys` heads of keys after them, where their place is before or
 * after the rotation. */
static struct qkv_tensor *heads_normed(const struct qkv_attention_args *f, struct qkv_tensor *y, size_t queries,
                                       size_t keys, bool after_rotation) {
    struct qkv_attention_parameters *p = f->parameters;
    const struct qkv_qk_norm_spec *spec = &f->spec->qk_norm;
    if (!spec->norm.given || spec->after_rotation != after_rotation) return y;
    if (queries) y = heads_norm(f, &p->q_norm, y, 0, queries);
    return keys ? heads_norm(f, &p->k_norm, y, queries * f->attend->D, keys) : y;
}

/* A product of x: `queries` heads of queries, then `keys` heads of keys, then the rest; normed, clipped, rotated, in
 * self attention, normed if that comes last; and queries scaled by their positions. */
static struct qkv_tensor *heads_linear(const struct qkv_attention_args *f, struct qkv_linear *linear,
                                       struct qkv_tensor *x, size_t queries, size_t keys) {
    struct qkv_tensor *y =
        qkv_op_linear(f->tape, x, &linear->weight, qkv_tensor_or_null(&linear->bias), QKV_RESULT_FOR_PRODUCTS);
    y = heads_normed(f, y, queries, keys, false);
    y = qkv_op_clip(f->tape, y, 0, linear->weight.rows, (float)f->spec->clip);
    /* queries and keys are adjacent, so one call rotates the heads of both */
    if (!f->cross) y = qkv_attention_rotate(f, y, 0, queries + keys, f->attend->D);
    y = heads_normed(f, y, queries, keys, true);
    return queries ? qkv_op_position_scale(f->tape, y, 0, queries * f->attend->D, &f->spec->temperature, f->positions)
                   : y;
}

/* One weight of an operand, which begins at row `first`, or a bias at that column, as an operand of its own; zero if it
 * has none. */
static struct qkv_tensor heads_part(const struct qkv_tensor *whole, size_t first, size_t rows, size_t columns) {
    size_t which = 0;
    while (which < whole->operand.weight_count && whole->operand.weights[which].first_row != first) which++;
    if (which == whole->operand.weight_count) return (struct qkv_tensor){0};
    const bool learns = whole->learning.requires_grad && whole->operand.weights[which].trainable;
    const size_t place = whole->rows == 1 ? first : first * columns;
    return (struct qkv_tensor){.data = (float *)whole->data + place,
                               .rows = rows,
                               .columns = columns,
                               .learning.requires_grad = learns,
                               .learning.gradient = learns ? whole->learning.gradient + place : NULL};
}

/* The same for a linear: the weight whose rows begin at `first`. */
static struct qkv_linear *heads_rows(struct qkv_tape *tape, const struct qkv_linear *l, size_t first, size_t rows) {
    struct qkv_linear *part = qkv_tape_take_graph(tape, sizeof *part);
    if (!part) return NULL;
    *part = (struct qkv_linear){.weight = heads_part(&l->weight, first, rows, l->weight.columns),
                                .bias = heads_part(&l->bias, first, 1, rows)};
    return part;
}

/* The columns of values, which follow the keys. */
static struct qkv_columns heads_values(const struct qkv_attention_args *f, struct qkv_columns k) {
    return (struct qkv_columns){k.x, k.column + f->attend->Hkv * f->attend->D};
}

/* Queries, keys and values of x; *kv: the columns with k, then v. */
static struct qkv_tensor *heads_self(const struct qkv_attention_args *f, struct qkv_tensor *x, struct qkv_columns *kv) {
    const struct qkv_attend *a = f->attend;
    struct qkv_tensor *qkv = heads_linear(f, &f->parameters->qkv, x, a->H, a->Hkv);
    *kv = (struct qkv_columns){qkv, a->H * a->D};
    if (qkv && f->cache) qkv_attention_append(f, *kv, a->Tq, false);
    return qkv;
}

/* Queries of x, for keys and values of another layer. */
static struct qkv_tensor *heads_shared(const struct qkv_attention_args *f, struct qkv_tensor *x,
                                       struct qkv_form_inputs *in) {
    const struct qkv_attend *a = f->attend;
    struct qkv_tensor *q = heads_linear(f, &f->parameters->q, x, a->H, 0);
    if (!f->cache) in->k = f->keys->k, in->v = f->keys->v;
    return q;
}

/* Keys and values of the source; also writes them to the cache, if there is one. */
static struct qkv_columns heads_source(const struct qkv_attention_args *f) {
    struct qkv_columns kv = {f->memory ? heads_linear(f, &f->parameters->kv, f->memory, 0, f->attend->Hkv) : NULL, 0};
    if (kv.x && f->cache) qkv_attention_append(f, kv, f->attend->Tk, true);
    return kv;
}

static void heads_cache_source(const struct qkv_attention_args *f) {
    heads_source(f);
}

/* The same for cross attention: keys and values of the source, or keys of the source and *v, values of f->values; NULL
 * if there is no memory. */
static struct qkv_tensor *heads_cross(const struct qkv_attention_args *f, struct qkv_tensor *x, struct qkv_columns *kv,
                                      struct qkv_columns *v) {
    const size_t k_width = f->attend->Hkv * f->attend->D, v_width = f->attend->Hkv * f->attend->Dv;
    struct qkv_tensor *q = heads_linear(f, &f->parameters->q, x, f->attend->H, 0);
    if (!f->values) {
        *kv = heads_source(f);
        return q;
    }
    struct qkv_linear *key = &f->parameters->k, *value = &f->parameters->v;
    if (!key->weight.data) {
        key = heads_rows(f->tape, &f->parameters->kv, 0, k_width);
        value = heads_rows(f->tape, &f->parameters->kv, k_width, v_width);
    }
    if (!key || !value) return NULL;
    *kv = (struct qkv_columns){heads_linear(f, key, f->memory, 0, f->attend->Hkv), 0};
    *v = (struct qkv_columns){heads_linear(f, value, f->values, 0, 0), 0};
    return kv->x && v->x ? q : NULL;
}

static bool heads_project(const struct qkv_attention_args *f, struct qkv_tensor *x, struct qkv_form_inputs *in) {
    const bool shared = f->spec->share > 0;
    in->q = f->cross ? heads_cross(f, x, &in->k, &in->v) : shared ? heads_shared(f, x, in) : heads_self(f, x, &in->k);
    if (!in->v.x) in->v = heads_values(f, in->k);
    if (f->keys && !shared) *f->keys = (struct qkv_layer_keys){in->k, in->v};
    if (f->cache && !qkv_attention_cached(f, &in->k, &in->v, &in->attend)) return false;
    return in->q != NULL;
}

const struct qkv_attention_form qkv_attention_form_heads = {.name = "heads",
                                                            .fits = heads_fits,
                                                            .rotated_key = "head_dim",
                                                            .rotated = heads_rotated,
                                                            .scale = heads_scale,
                                                            .cached = heads_cached,
                                                            .differ = heads_differ,
                                                            .weights = heads_weights,
                                                            .project = heads_project,
                                                            .cache_source = heads_cache_source};
