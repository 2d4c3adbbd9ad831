/* sublayer: multi-head attention with its projections (Vaswani et al. 2017), grouped-query (Ainslie et al. 2023) and
 * multi-query (Shazeer 2019) alike: head h reads key/value head h / (H / Hkv).
 *
 * Self attention: [q k v] = x·Wᵀ + b in one product; q and k rotated where the position kind rotates; new keys and values
 * appended to the cache where there is one; y = attend(q, k, v)·Woᵀ + bo. Cross attention takes k and v from a memory. */
#include "attention/attention.h"

struct append {
    const void *rows; /* (B·T, columns): k and v side by side from k_column on */
    enum qkv_dtype dtype;
    const int32_t *places; /* (B): the run of the cache of each batch row; NULL: its own */
    float *k, *v;          /* where position `past` of run 0 goes */
    size_t T, capacity, columns, k_column, k_width, v_width;
};

static void append_row(void *argument, size_t n, int thread) {
    (void)thread;
    const struct append *a = argument;
    size_t b = n / a->T, to = (a->places ? (size_t)a->places[b] : b) * a->capacity + n % a->T;
    const size_t size = qkv_dtype_size(a->dtype);
    const char *k = (const char *)a->rows + (n * a->columns + a->k_column) * size;
    qkv_to_float(a->k + to * a->k_width, k, a->dtype, a->k_width);
    qkv_to_float(a->v + to * a->v_width, k + a->k_width * size, a->dtype, a->v_width);
}

/* Weights that are always used together lie side by side in one operand. */
void qkv_attention_build_weights(struct qkv_weights *weights, const struct qkv_weight_place *place,
                                 const struct qkv_attention_spec *spec, bool cross,
                                 struct qkv_attention_parameters *parameters) {
    static const enum qkv_role self_roles[] = {QKV_ROLE_ATTN_Q, QKV_ROLE_ATTN_K, QKV_ROLE_ATTN_V, QKV_ROLE_ATTN_O};
    static const enum qkv_role cross_roles[] = {QKV_ROLE_CROSS_Q, QKV_ROLE_CROSS_K, QKV_ROLE_CROSS_V, QKV_ROLE_CROSS_O};
    const bool bias = spec->bias != QKV_BIAS_NONE;
    if (cross) {
        qkv_weights_linear(weights, place, &parameters->q, cross_roles, 1, bias);
        if (place->sizes->M == place->sizes->U) {
            qkv_weights_linear(weights, place, &parameters->kv, cross_roles + 1, 2, bias);
        } else {
            qkv_weights_linear(weights, place, &parameters->k, cross_roles + 1, 1, bias);
            qkv_weights_linear(weights, place, &parameters->v, cross_roles + 2, 1, bias);
        }
    } else {
        qkv_weights_linear(weights, place, &parameters->qkv, self_roles, 3, bias);
    }
    qkv_weights_linear(weights, place, &parameters->o, (cross ? cross_roles : self_roles) + 3, 1,
                       spec->bias == QKV_BIAS_ALL);
}

static struct qkv_tensor *sublayer_project(const struct qkv_attention_args *f, struct qkv_linear *linear,
                                           struct qkv_tensor *x, enum qkv_result result) {
    return qkv_op_linear(f->tape, x, &linear->weight, qkv_tensor_or_null(&linear->bias), result);
}

/* Puts T new positions a row into the cache, behind `past`. */
static void sublayer_append(const struct qkv_attention_args *f, struct qkv_columns kv, size_t T, size_t past) {
    const struct qkv_attend *call = f->attend;
    struct append a = {.rows = kv.x->data,
                       .dtype = kv.x->dtype,
                       .places = call->kv_rows,
                       .T = T,
                       .capacity = f->cache->capacity,
                       .columns = kv.x->columns,
                       .k_column = kv.column,
                       .k_width = call->Hkv * call->D,
                       .v_width = call->Hkv * call->Dv};
    a.k = f->cache->k + past * a.k_width;
    a.v = f->cache->v + past * a.v_width;
    qkv_parallel(f->tape->ctx, call->B * T, append_row, &a);
}

/* The rows of one weight of an operand, or the columns of its bias, as an operand of their own. */
static struct qkv_tensor sublayer_part(const struct qkv_tensor *whole, size_t which, size_t place, size_t rows,
                                       size_t columns) {
    const bool learns = whole->requires_grad && whole->weights[which].trainable;
    return (struct qkv_tensor){.data = (float *)whole->data + place,
                               .rows = rows,
                               .columns = columns,
                               .requires_grad = learns,
                               .gradient = learns ? whole->gradient + place : NULL};
}

/* The same of a product: weight `which`, whose rows begin at `first`. */
static struct qkv_linear *sublayer_rows(struct qkv_tape *tape, const struct qkv_linear *l, size_t which, size_t first,
                                        size_t rows) {
    struct qkv_linear *part = qkv_tape_take_graph(tape, sizeof *part);
    if (!part) return NULL;
    const size_t columns = l->weight.columns;
    *part = (struct qkv_linear){.weight = sublayer_part(&l->weight, which, first * columns, rows, columns)};
    if (l->bias.data) part->bias = sublayer_part(&l->bias, which, first, 1, rows);
    return part;
}

/* Queries, keys and values of x; *kv: where k and then v lie side by side. */
static struct qkv_tensor *self_project(const struct qkv_attention_args *f, struct qkv_tensor *x,
                                       struct qkv_columns *kv) {
    const struct qkv_position_tables *tables = f->tables;
    const struct qkv_attend *a = f->attend;
    struct qkv_tensor *qkv = sublayer_project(f, &f->parameters->qkv, x, QKV_RESULT_BF16_IF_MIXED);
    if (tables && tables->rotate) { /* queries and keys lie side by side, so their heads turn in one go */
        qkv = qkv_op_rotate(f->tape, qkv, 0, a->H + a->Hkv, a->D, tables->pairs, tables->interleaved, tables->rotate,
                            a->position);
    }
    *kv = (struct qkv_columns){qkv, a->H * a->D, 0};
    if (qkv && f->cache) {
        sublayer_append(f, *kv, a->Tq, a->Tk - a->Tq);
    }
    return qkv;
}

/* Keys and values of the memory, which go into the cache too where there is one. */
static struct qkv_columns read_memory(const struct qkv_attention_args *f) {
    struct qkv_columns kv = {
        f->memory ? sublayer_project(f, &f->parameters->kv, f->memory, QKV_RESULT_BF16_IF_MIXED) : NULL, 0, 0};
    if (kv.x && f->cache) {
        sublayer_append(f, kv, f->attend->Tk, 0);
    }
    return kv;
}

void qkv_attention_cache_memory(const struct qkv_attention_args *f) {
    read_memory(f);
}

/* The same of the memory, or keys of the memory and *v, values of f->values; NULL without room. */
static struct qkv_tensor *cross_project(const struct qkv_attention_args *f, struct qkv_tensor *x,
                                        struct qkv_columns *kv, struct qkv_columns *v) {
    const size_t k_width = f->attend->Hkv * f->attend->D, v_width = f->attend->Hkv * f->attend->Dv;
    struct qkv_tensor *q = sublayer_project(f, &f->parameters->q, x, QKV_RESULT_BF16_IF_MIXED);
    if (!f->values) {
        *kv = read_memory(f);
        return q;
    }
    struct qkv_linear *key = &f->parameters->k, *value = &f->parameters->v;
    if (!key->weight.data) {
        key = sublayer_rows(f->tape, &f->parameters->kv, 0, 0, k_width);
        value = sublayer_rows(f->tape, &f->parameters->kv, 1, k_width, v_width);
    }
    if (!key || !value) return NULL;
    *kv = (struct qkv_columns){sublayer_project(f, key, f->memory, QKV_RESULT_BF16_IF_MIXED), 0, 0};
    *v = (struct qkv_columns){sublayer_project(f, value, f->values, QKV_RESULT_BF16_IF_MIXED), 0, 0};
    return kv->x && v->x ? q : NULL;
}

struct qkv_tensor *qkv_attention_sublayer(const struct qkv_attention_args *f, struct qkv_tensor *x) {
    const struct qkv_attend *a = f->attend;
    const struct qkv_key_values *cache = f->cache;
    struct qkv_columns k = {0}, v = {0};
    struct qkv_tensor *q = f->cross ? cross_project(f, x, &k, &v) : self_project(f, x, &k);
    size_t k_width = a->Hkv * a->D;
    if (f->values && !q) return NULL;
    if (!v.x) v = (struct qkv_columns){k.x, k.column + k_width, 0};
    if (cache) {
        size_t rows = cache->count * cache->capacity;
        k = (struct qkv_columns){qkv_tape_view(f->tape, cache->k, rows, k_width), 0, cache->capacity};
        v = (struct qkv_columns){qkv_tape_view(f->tape, cache->v, rows, a->Hkv * a->Dv), 0, cache->capacity};
    }
    struct qkv_tensor *y = qkv_op_attend(f->tape, (struct qkv_columns){q, 0, 0}, k, v, a, f->dattention_bias, f->kept);
    struct qkv_linear *o = &f->parameters->o;
    if (f->residual) {
        return qkv_op_linear_add(f->tape, y, &o->weight, qkv_tensor_or_null(&o->bias), f->residual);
    }
    return sublayer_project(f, o, y, QKV_RESULT_FP32);
}
