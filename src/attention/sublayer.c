/* sublayer: multi-head attention with its projections (Vaswani et al. 2017), also grouped-query (Ainslie et al. 2023)
 * and multi-query (Shazeer 2019): head h reads key/value head h / (H / Hkv).
 *
 * Self attention: [q k v] = x·Wᵀ + b in one product; then, if the spec says so, q and k are normed, q, k and v are
 * clipped, q and k are rotated; new keys and values are appended to the cache, if there is one; y = attend(q, k, v)·Woᵀ
 * + bo. Cross attention computes k and v from a source. For latent attention, latent.c computes attention's inputs. */
#include "attention/attention.h"

/* Norms heads of x, from `column` on. */
static struct qkv_tensor *sublayer_norm(const struct qkv_attention_args *f, struct qkv_norm *norm, struct qkv_tensor *x,
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

/* A product of x: `queries` heads of queries, then `keys` heads of keys, then the rest; normed and clipped, but not
 * rotated. */
static struct qkv_tensor *sublayer_project(const struct qkv_attention_args *f, struct qkv_linear *linear,
                                           struct qkv_tensor *x, size_t queries, size_t keys) {
    struct qkv_attention_parameters *p = f->parameters;
    struct qkv_tensor *y =
        qkv_op_linear(f->tape, x, &linear->weight, qkv_tensor_or_null(&linear->bias), QKV_RESULT_FOR_PRODUCTS);
    if (f->spec->qk_norm.norm.given) {
        if (queries) y = sublayer_norm(f, &p->q_norm, y, 0, queries);
        if (keys) y = sublayer_norm(f, &p->k_norm, y, queries * f->attend->D, keys);
    }
    return qkv_op_clip(f->tape, y, 0, linear->weight.rows, (float)f->spec->clip);
}

/* One weight of an operand, which begins at row `first`, or a bias at that column, as an operand of its own; zero if it
 * has none. */
static struct qkv_tensor sublayer_part(const struct qkv_tensor *whole, size_t first, size_t rows, size_t columns) {
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
static struct qkv_linear *sublayer_rows(struct qkv_tape *tape, const struct qkv_linear *l, size_t first, size_t rows) {
    struct qkv_linear *part = qkv_tape_take_graph(tape, sizeof *part);
    if (!part) return NULL;
    *part = (struct qkv_linear){.weight = sublayer_part(&l->weight, first, rows, l->weight.columns),
                                .bias = sublayer_part(&l->bias, first, 1, rows)};
    return part;
}

/* Queries, keys and values of x; *kv: the columns with k, then v. */
static struct qkv_tensor *self_project(const struct qkv_attention_args *f, struct qkv_tensor *x,
                                       struct qkv_columns *kv) {
    const struct qkv_position_tables *tables = f->tables;
    const struct qkv_attend *a = f->attend;
    struct qkv_tensor *qkv = sublayer_project(f, &f->parameters->qkv, x, a->H, a->Hkv);
    if (tables && tables->rotate) { /* queries and keys are adjacent, so one call rotates the heads of both */
        const struct qkv_turns t = f->turns ? *f->turns : (struct qkv_turns){tables->rotate, a->position};
        qkv = qkv_op_rotate(f->tape, qkv, 0, a->H + a->Hkv, a->D, tables->pairs, tables->interleaved, t.table, t.rows);
    }
    *kv = (struct qkv_columns){qkv, a->H * a->D};
    if (qkv && f->cache) qkv_attention_append(f, *kv, a->Tq, false);
    return qkv;
}

/* Keys and values of the source; also writes them to the cache, if there is one. */
static struct qkv_columns read_memory(const struct qkv_attention_args *f) {
    struct qkv_columns kv = {f->memory ? sublayer_project(f, &f->parameters->kv, f->memory, 0, f->attend->Hkv) : NULL,
                             0};
    if (kv.x && f->cache) qkv_attention_append(f, kv, f->attend->Tk, true);
    return kv;
}

void qkv_attention_cache_memory(const struct qkv_attention_args *f) {
    read_memory(f);
}

/* The same for cross attention: keys and values of the source, or keys of the source and *v, values of f->values; NULL
 * if there is no memory. */
static struct qkv_tensor *cross_project(const struct qkv_attention_args *f, struct qkv_tensor *x,
                                        struct qkv_columns *kv, struct qkv_columns *v) {
    const size_t k_width = f->attend->Hkv * f->attend->D, v_width = f->attend->Hkv * f->attend->Dv;
    struct qkv_tensor *q = sublayer_project(f, &f->parameters->q, x, f->attend->H, 0);
    if (!f->values) {
        *kv = read_memory(f);
        return q;
    }
    struct qkv_linear *key = &f->parameters->k, *value = &f->parameters->v;
    if (!key->weight.data) {
        key = sublayer_rows(f->tape, &f->parameters->kv, 0, k_width);
        value = sublayer_rows(f->tape, &f->parameters->kv, k_width, v_width);
    }
    if (!key || !value) return NULL;
    *kv = (struct qkv_columns){sublayer_project(f, key, f->memory, 0, f->attend->Hkv), 0};
    *v = (struct qkv_columns){sublayer_project(f, value, f->values, 0, 0), 0};
    return kv->x && v->x ? q : NULL;
}

/* Attention's result before the output projection. */
static struct qkv_tensor *sublayer_attend(const struct qkv_attention_args *f, struct qkv_tensor *q,
                                          struct qkv_columns k, struct qkv_columns v, const struct qkv_attend *a) {
    const struct qkv_attend_learned learned = {f->distance_bias, qkv_tensor_or_null(&f->parameters->sinks)};
    return qkv_op_attend(f->tape, (struct qkv_columns){q, 0}, k, v, a, learned, f->dattention_bias, f->kept);
}

static struct qkv_tensor *latent_attend(const struct qkv_attention_args *f, struct qkv_tensor *x) {
    struct qkv_latent_call call;
    if (!qkv_latent_project(f, x, &call)) return NULL;
    return qkv_latent_values(f, sublayer_attend(f, call.q, call.k, call.v, &call.attend));
}

static struct qkv_tensor *heads_attend(const struct qkv_attention_args *f, struct qkv_tensor *x) {
    const struct qkv_attend *a = f->attend;
    struct qkv_attend cached;
    struct qkv_columns k = {0}, v = {0};
    struct qkv_tensor *q = f->cross ? cross_project(f, x, &k, &v) : self_project(f, x, &k);
    if (f->values && !q) return NULL;
    if (!v.x) v = (struct qkv_columns){k.x, k.column + a->Hkv * a->D};
    if (f->cache) {
        cached = *a, a = &cached;
        if (!qkv_attention_cached(f, &k, &v, &cached)) return NULL;
    }
    return sublayer_attend(f, q, k, v, a);
}

struct qkv_tensor *qkv_attention_sublayer(const struct qkv_attention_args *f, struct qkv_tensor *x) {
    struct qkv_tensor *y = f->spec->latent.given ? latent_attend(f, x) : heads_attend(f, x);
    struct qkv_linear *o = &f->parameters->o;
    if (f->residual) {
        return qkv_op_linear_add(f->tape, y, &o->weight, qkv_tensor_or_null(&o->bias), f->residual, f->residual_scale);
    }
    return qkv_op_linear(f->tape, y, &o->weight, qkv_tensor_or_null(&o->bias), QKV_RESULT_FP32);
}
