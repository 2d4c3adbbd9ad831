/* attention: multi-head attention with its projections (Vaswani et al. 2017), grouped-query (Ainslie et al. 2023) and
 * multi-query (Shazeer 2019) alike: head h reads key/value head h / (H / Hkv).
 *
 * Self attention: [q k v] = x·Wᵀ + b in one product; q and k rotated where the position kind rotates; new keys and values
 * appended to the cache where there is one; y = attend(q, k, v)·Woᵀ + bo. Cross attention takes k and v from the encoder. */
#include "model/model.h"

#include <math.h>
#include <string.h>

struct append {
    const float *rows; /* (T, columns) */
    float *k, *v;      /* where position `past` goes */
    size_t columns, k_column, k_width, v_width;
};

static void append_row(void *argument, size_t t, int thread) {
    (void)thread;
    const struct append *a = argument;
    const float *k = a->rows + t * a->columns + a->k_column;
    memcpy(a->k + t * a->k_width, k, a->k_width * sizeof(float));
    memcpy(a->v + t * a->v_width, k + a->k_width, a->v_width * sizeof(float));
}

static struct qkv_attend_options options(const struct qkv_flow *f, const struct qkv_attention_spec *spec, size_t Tk) {
    return (struct qkv_attend_options){
        .B = f->B,
        .H = (size_t)spec->heads,
        .Hkv = (size_t)spec->kv_heads,
        .Tq = f->T,
        .Tk = Tk,
        .D = (size_t)spec->head_dim,
        .Dv = (size_t)spec->value_dim,
        .positions = f->positions,
        .scale = (float)(spec->scale > 0 ? spec->scale : 1 / sqrt((double)spec->head_dim)),
        .softcap = (float)spec->softcap,
        .dropout = (float)f->spec->dropout,
    };
}

static struct qkv_tensor *project_out(struct qkv_flow *f, struct qkv_attention *a, struct qkv_tensor *y) {
    return qkv_op_linear(f->tape, y, &a->o.weight, qkv_tensor_or_null(&a->o.bias));
}

struct qkv_tensor *qkv_self_attention(struct qkv_flow *f, size_t layer, struct qkv_tensor *x) {
    struct qkv_attention *a = &f->stack->layers[layer].self;
    const struct qkv_position_tables *tables = &f->stack->tables;
    struct qkv_attend_options o = options(f, &f->stack->spec->attention, f->past + f->T);
    size_t k_column = o.H * o.D, v_column = k_column + o.Hkv * o.D;
    struct qkv_tensor *qkv = qkv_op_linear(f->tape, x, &a->qkv.weight, qkv_tensor_or_null(&a->qkv.bias));
    if (tables->rotate) { /* queries and keys lie side by side, so their heads turn in one go */
        qkv = qkv_op_rotate(f->tape, qkv, 0, o.H + o.Hkv, o.D, tables->pairs, tables->interleaved, tables->rotate,
                            f->positions);
    }
    if (!qkv) {
        return NULL;
    }
    struct qkv_columns k = {qkv, k_column}, v = {qkv, v_column};
    if (f->cache) { /* one sequence: B is 1 */
        struct qkv_layer_cache *cache = &f->cache[layer];
        struct append append = {.rows = qkv->data,
                                .columns = qkv->columns,
                                .k_column = k_column,
                                .k_width = o.Hkv * o.D,
                                .v_width = o.Hkv * o.Dv};
        append.k = cache->k + f->past * append.k_width;
        append.v = cache->v + f->past * append.v_width;
        qkv_parallel(f->tape->ctx, f->T, append_row, &append);
        k = (struct qkv_columns){qkv_tape_view(f->tape, cache->k, o.Tk, append.k_width), 0};
        v = (struct qkv_columns){qkv_tape_view(f->tape, cache->v, o.Tk, append.v_width), 0};
    }
    o.lo = f->lo;
    o.hi = f->hi;
    o.bias = tables->bias;
    o.bias_row = tables->bias_row;
    o.bias_zero = tables->bias_zero;
    o.weights = f->weights ? f->weights[layer * (f->stack->has_cross ? 2 : 1)] : NULL;
    return project_out(f, a, qkv_op_attend(f->tape, (struct qkv_columns){qkv, 0}, k, v, &o));
}

struct qkv_tensor *qkv_cross_attention(struct qkv_flow *f, size_t layer, struct qkv_tensor *x) {
    struct qkv_attention *a = &f->stack->layers[layer].cross;
    struct qkv_attend_options o = options(f, &f->stack->spec->cross, f->memory_T);
    struct qkv_tensor *q = qkv_op_linear(f->tape, x, &a->q.weight, qkv_tensor_or_null(&a->q.bias));
    struct qkv_tensor *kv = qkv_op_linear(f->tape, f->memory, &a->kv.weight, qkv_tensor_or_null(&a->kv.bias));
    o.lo = f->memory_lo;
    o.hi = f->memory_hi;
    o.weights = f->weights ? f->weights[layer * 2 + 1] : NULL;
    return project_out(f, a,
                       qkv_op_attend(f->tape, (struct qkv_columns){q, 0}, (struct qkv_columns){kv, 0},
                                     (struct qkv_columns){kv, o.Hkv * o.D}, &o));
}
