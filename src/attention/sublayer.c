/* sublayer: multi-head attention with its projections (Vaswani et al. 2017), grouped-query (Ainslie et al. 2023) and
 * multi-query (Shazeer 2019) alike: head h reads key/value head h / (H / Hkv).
 *
 * Self attention: [q k v] = x·Wᵀ + b in one product; q and k rotated where the position kind rotates; new keys and values
 * appended to the cache where there is one; y = attend(q, k, v)·Woᵀ + bo. Cross attention takes k and v from a memory. */
#include "attention/attention.h"

#include <math.h>

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
        qkv_weights_linear(weights, place, &parameters->kv, cross_roles + 1, 2, bias);
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

static struct qkv_attend_options sublayer_options(const struct qkv_attention_args *f, size_t Tk) {
    const struct qkv_attention_spec *spec = f->spec;
    return (struct qkv_attend_options){
        .B = f->B,
        .H = (size_t)spec->heads,
        .Hkv = (size_t)spec->kv_heads,
        .Tq = f->T,
        .Tk = Tk,
        .D = (size_t)spec->head_dim,
        .Dv = (size_t)spec->value_dim,
        .lo = f->lo,
        .hi = f->hi,
        .pairs = f->pairs,
        .positions = f->positions,
        .scale = (float)(spec->scale > 0 ? spec->scale : 1 / sqrt((double)spec->head_dim)),
        .softcap = (float)spec->softcap,
        .mask = f->mask,
        .mask_pairs = f->mask_pairs,
        .attention_bias = f->attention_bias,
        .attention_bias_strides = f->attention_bias_strides,
        .dattention_bias = f->dattention_bias,
        .dropout = f->dropout,
        .kept = f->kept,
    };
}

/* Puts T new positions a row into the cache, behind `past`. */
static void sublayer_append(const struct qkv_attention_args *f, struct qkv_columns kv, size_t T, size_t past) {
    size_t Hkv = (size_t)f->spec->kv_heads;
    struct append a = {.rows = kv.x->data,
                       .dtype = kv.x->dtype,
                       .places = f->cache_rows,
                       .T = T,
                       .capacity = f->cache->capacity,
                       .columns = kv.x->columns,
                       .k_column = kv.column,
                       .k_width = Hkv * (size_t)f->spec->head_dim,
                       .v_width = Hkv * (size_t)f->spec->value_dim};
    a.k = f->cache->k + past * a.k_width;
    a.v = f->cache->v + past * a.v_width;
    qkv_parallel(f->tape->ctx, f->B * T, append_row, &a);
}

/* The heads put together again. kv: where k and then v lie side by side, unless the cache holds them. */
static struct qkv_tensor *sublayer_attend(const struct qkv_attention_args *f, struct qkv_attend_options *o,
                                          struct qkv_tensor *q, struct qkv_columns kv) {
    size_t k_width = o->Hkv * o->D;
    struct qkv_columns k = kv, v = {kv.x, kv.column + k_width};
    if (f->cache) {
        size_t rows = (f->cache_rows ? f->cache_count : f->B) * f->cache->capacity;
        o->Tk_stride = f->cache->capacity;
        o->kv_rows = f->cache_rows;
        o->kv_count = f->cache_count;
        k = (struct qkv_columns){qkv_tape_view(f->tape, f->cache->k, rows, k_width), 0};
        v = (struct qkv_columns){qkv_tape_view(f->tape, f->cache->v, rows, o->Hkv * o->Dv), 0};
    }
    struct qkv_tensor *y = qkv_op_attend(f->tape, (struct qkv_columns){q, 0}, k, v, o);
    struct qkv_linear *o_linear = &f->parameters->o;
    if (f->residual) {
        return qkv_op_linear_add(f->tape, y, &o_linear->weight, qkv_tensor_or_null(&o_linear->bias), f->residual);
    }
    return sublayer_project(f, o_linear, y, QKV_RESULT_FP32);
}

static struct qkv_tensor *self_attention(const struct qkv_attention_args *f, struct qkv_tensor *x) {
    const struct qkv_position_tables *tables = f->tables;
    struct qkv_attend_options o = sublayer_options(f, f->past + f->T);
    struct qkv_tensor *qkv = sublayer_project(f, &f->parameters->qkv, x, QKV_RESULT_BF16_IF_MIXED);
    if (tables && tables->rotate) { /* queries and keys lie side by side, so their heads turn in one go */
        qkv = qkv_op_rotate(f->tape, qkv, 0, o.H + o.Hkv, o.D, tables->pairs, tables->interleaved, tables->rotate,
                            f->positions);
    }
    struct qkv_columns kv = {qkv, o.H * o.D};
    if (qkv && f->cache) {
        sublayer_append(f, kv, f->T, f->past);
    }
    if (tables) {
        o.bias = tables->bias;
        o.bias_row = tables->bias_row;
        o.bias_zero = tables->bias_zero;
    }
    return sublayer_attend(f, &o, qkv, kv);
}

/* Keys and values of the memory, which go into the cache too where there is one. */
static struct qkv_columns read_memory(const struct qkv_attention_args *f) {
    struct qkv_columns kv = {
        f->memory ? sublayer_project(f, &f->parameters->kv, f->memory, QKV_RESULT_BF16_IF_MIXED) : NULL, 0};
    if (kv.x && f->cache) {
        sublayer_append(f, kv, f->memory_T, 0);
    }
    return kv;
}

void qkv_attention_cache_memory(const struct qkv_attention_args *f) {
    read_memory(f);
}

static struct qkv_tensor *cross_attention(const struct qkv_attention_args *f, struct qkv_tensor *x) {
    struct qkv_attend_options o = sublayer_options(f, f->memory_T);
    struct qkv_tensor *q = sublayer_project(f, &f->parameters->q, x, QKV_RESULT_BF16_IF_MIXED);
    return sublayer_attend(f, &o, q, read_memory(f));
}

struct qkv_tensor *qkv_attention_sublayer(const struct qkv_attention_args *f, struct qkv_tensor *x) {
    return f->cross ? cross_attention(f, x) : self_attention(f, x);
}
