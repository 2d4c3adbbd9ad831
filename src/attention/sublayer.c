/* sublayer: multi-head attention with its projections (Vaswani et al. 2017), grouped-query (Ainslie et al. 2023) and
 * multi-query (Shazeer 2019) alike: head h reads key/value head h / (H / Hkv).
 *
 * Self attention: [q k v] = x·Wᵀ + b in one product; q and k normed, q, k and v clipped, q and k rotated where the spec says so; new keys
 * and values appended to the cache where there is one; y = attend(q, k, v)·Woᵀ + bo. Cross attention takes k and v from a memory. */
#include "attention/attention.h"

#include <string.h>

enum { APPEND_ROWS = 8 }; /* of a sequence, that heads are shared out for */

struct append {
    const struct qkv_context *ctx;
    const struct qkv_attend *call;
    const struct qkv_key_values *cache;
    const void *rows; /* (N, columns): k and v side by side from k_column on */
    enum qkv_dtype dtype;
    bool whole;           /* a sequence's first positions, as far as it has them; else its last */
    const int32_t *start; /* (B + 1): its first row; NULL: T rows each */
    size_t T, columns, k_column, k_width, v_width;
};

/* Rounded once, where the cache is bf16 and they are not. */
static void append_cells(void *to, enum qkv_dtype dtype, const char *from, enum qkv_dtype from_dtype, size_t width) {
    if (dtype == from_dtype)
        memcpy(to, from, width * qkv_dtype_size(dtype));
    else if (dtype == QKV_F32)
        qkv_to_float(to, from, from_dtype, width);
    else
        qkv_from_float(to, (const float *)(const void *)from, dtype, width);
}

/* New rows of sequence b: the first, how many, and the position of the first in its pages. */
struct append_part {
    size_t row, count, at;
};

static struct append_part append_part(const struct append *a, size_t b) {
    const size_t keys = a->call->pasts ? (size_t)a->call->pasts[b] : a->call->Tk;
    const size_t first = a->start ? (size_t)a->start[b] : b * a->T;
    const size_t rows = a->start ? (size_t)a->start[b + 1] - first : a->T;
    if (a->whole) return (struct append_part){first, rows < keys ? rows : keys, 0};
    return (struct append_part){first, rows, keys - rows};
}

static void append_row(void *argument, size_t n, int thread) {
    (void)thread;
    const struct append *a = argument;
    const struct qkv_page_table *pages = &a->call->pages;
    const size_t b = n / a->T, t = n % a->T;
    const struct append_part part = append_part(a, b);
    if (t >= part.count) return;
    const size_t at = part.at + t;
    const size_t row = (size_t)pages->lists[b][at / pages->positions] * pages->positions + at % pages->positions;
    const size_t size = qkv_dtype_size(a->dtype), out = qkv_dtype_size(a->cache->dtype);
    const char *k = (const char *)a->rows + ((part.row + t) * a->columns + a->k_column) * size;
    append_cells((char *)a->cache->k + row * a->k_width * out, a->cache->dtype, k, a->dtype, a->k_width);
    append_cells((char *)a->cache->v + row * a->v_width * out, a->cache->dtype, k + a->k_width * size, a->dtype,
                 a->v_width);
}

/* All new rows of a sequence on its page-th page, of one head; they are bf16, as all results of products that are kept in mixed precision. */
static void append_page(const struct append *a, size_t b, size_t page, size_t head) {
    const struct qkv_page_table *pages = &a->call->pages;
    const size_t Hkv = a->call->Hkv, packed = a->cache->packed;
    const struct append_part part = append_part(a, b);
    const size_t begin = page * pages->positions, end = part.at + part.count;
    const size_t from = part.at > begin ? part.at : begin,
                 to = end < begin + pages->positions ? end : begin + pages->positions;
    if (from >= to) return;
    const size_t place = (size_t)pages->lists[b][page] * Hkv + head;
    const uint16_t *k = (const uint16_t *)a->rows + (part.row + from - part.at) * a->columns + a->k_column;
    const struct qkv_attend_put put = {.page = (char *)a->cache->k + place * packed,
                                       .spoilt = (uint8_t *)a->cache->k + pages->count * Hkv * packed + place,
                                       .D = a->call->D,
                                       .Dv = a->call->Dv,
                                       .positions = pages->positions,
                                       .first = from - begin,
                                       .count = to - from,
                                       .k = k + head * a->call->D,
                                       .v = k + a->k_width + head * a->call->Dv,
                                       .row_stride = a->columns};
    qkv_attend_put(a->ctx, &put);
}

/* Of one sequence and head: (B,Hkv). */
static void append_head(void *argument, size_t n, int thread) {
    (void)thread;
    const struct append *a = argument;
    const size_t b = n / a->call->Hkv, positions = a->call->pages.positions;
    const struct append_part part = append_part(a, b);
    for (size_t page = part.at / positions; page * positions < part.at + part.count; page++)
        append_page(a, b, page, n % a->call->Hkv);
}

/* Of one sequence: few rows are not worth waking threads for. */
static void append_heads(void *argument, size_t b, int thread) {
    const struct append *a = argument;
    for (size_t head = 0; head < a->call->Hkv; head++) append_head(argument, b * a->call->Hkv + head, thread);
}

/* A norm of some heads of x, from `column` on. */
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

/* A product of x: so many heads of queries, then so many of keys, then what else it has, ready to meet but for the rotation. */
static struct qkv_tensor *sublayer_project(const struct qkv_attention_args *f, struct qkv_linear *linear,
                                           struct qkv_tensor *x, size_t queries, size_t keys) {
    struct qkv_attention_parameters *p = f->parameters;
    struct qkv_tensor *y =
        qkv_op_linear(f->tape, x, &linear->weight, qkv_tensor_or_null(&linear->bias), QKV_RESULT_BF16_IF_MIXED);
    if (f->spec->qk_norm.norm.given) {
        if (queries) y = sublayer_norm(f, &p->q_norm, y, 0, queries);
        if (keys) y = sublayer_norm(f, &p->k_norm, y, queries * f->attend->D, keys);
    }
    return qkv_op_clip(f->tape, y, 0, linear->weight.rows, (float)f->spec->clip);
}

void qkv_attention_append(const struct qkv_attention_args *f, struct qkv_columns kv, size_t k_width, size_t v_width,
                          size_t T, bool whole) {
    const struct qkv_attend *call = f->attend;
    struct append a = {.ctx = f->tape->ctx,
                       .call = call,
                       .cache = f->cache,
                       .rows = kv.x->data,
                       .dtype = kv.x->dtype,
                       .whole = whole,
                       .start = whole ? call->k_start : call->q_start,
                       .T = T,
                       .columns = kv.x->columns,
                       .k_column = kv.column,
                       .k_width = k_width,
                       .v_width = v_width};
    if (!f->cache->packed)
        qkv_parallel(f->tape->ctx, call->B * T, append_row, &a);
    else if (T < APPEND_ROWS)
        qkv_parallel(f->tape->ctx, call->B, append_heads, &a);
    else
        qkv_parallel(f->tape->ctx, call->B * call->Hkv, append_head, &a);
}

static void sublayer_append(const struct qkv_attention_args *f, struct qkv_columns kv, size_t T, bool whole) {
    const struct qkv_attend *call = f->attend;
    qkv_attention_append(f, kv, call->Hkv * call->D, call->Hkv * call->Dv, T, whole);
}

/* One weight of an operand, which begins at row `first`, or of a bias at that column, as an operand of its own; no tensor where it has
 * none. */
static struct qkv_tensor sublayer_part(const struct qkv_tensor *whole, size_t first, size_t rows, size_t columns) {
    size_t which = 0;
    while (which < whole->weight_count && whole->weights[which].first_row != first) which++;
    if (which == whole->weight_count) return (struct qkv_tensor){0};
    const bool learns = whole->requires_grad && whole->weights[which].trainable;
    const size_t place = whole->rows == 1 ? first : first * columns;
    return (struct qkv_tensor){.data = (float *)whole->data + place,
                               .rows = rows,
                               .columns = columns,
                               .requires_grad = learns,
                               .gradient = learns ? whole->gradient + place : NULL};
}

/* The same of a product: the weight whose rows begin at `first`. */
static struct qkv_linear *sublayer_rows(struct qkv_tape *tape, const struct qkv_linear *l, size_t first, size_t rows) {
    struct qkv_linear *part = qkv_tape_take_graph(tape, sizeof *part);
    if (!part) return NULL;
    *part = (struct qkv_linear){.weight = sublayer_part(&l->weight, first, rows, l->weight.columns),
                                .bias = sublayer_part(&l->bias, first, 1, rows)};
    return part;
}

/* Queries, keys and values of x; *kv: where k and then v lie side by side. */
static struct qkv_tensor *self_project(const struct qkv_attention_args *f, struct qkv_tensor *x,
                                       struct qkv_columns *kv) {
    const struct qkv_position_tables *tables = f->tables;
    const struct qkv_attend *a = f->attend;
    struct qkv_tensor *qkv = sublayer_project(f, &f->parameters->qkv, x, a->H, a->Hkv);
    if (tables && tables->rotate) { /* queries and keys lie side by side, so their heads turn in one go */
        const struct qkv_turns t = f->turns ? *f->turns : (struct qkv_turns){tables->rotate, a->position};
        qkv = qkv_op_rotate(f->tape, qkv, 0, a->H + a->Hkv, a->D, tables->pairs, tables->interleaved, t.table, t.rows);
    }
    *kv = (struct qkv_columns){qkv, a->H * a->D};
    if (qkv && f->cache) {
        sublayer_append(f, *kv, a->Tq, false);
    }
    return qkv;
}

/* Keys and values of the memory, which go into the cache too where there is one. */
static struct qkv_columns read_memory(const struct qkv_attention_args *f) {
    struct qkv_columns kv = {f->memory ? sublayer_project(f, &f->parameters->kv, f->memory, 0, f->attend->Hkv) : NULL,
                             0};
    if (kv.x && f->cache) {
        sublayer_append(f, kv, f->attend->Tk, true);
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

struct qkv_columns qkv_attention_cached(const struct qkv_attention_args *f, void *data, size_t width) {
    struct qkv_tensor *x = qkv_tape_view(f->tape, data, f->cache->rows, width);
    if (x) x->dtype = f->cache->dtype;
    return (struct qkv_columns){x, 0};
}

/* What attention gives. */
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
    struct qkv_attend packed;
    struct qkv_columns k = {0}, v = {0};
    struct qkv_tensor *q = f->cross ? cross_project(f, x, &k, &v) : self_project(f, x, &k);
    size_t k_width = a->Hkv * a->D;
    if (f->values && !q) return NULL;
    if (!v.x) v = (struct qkv_columns){k.x, k.column + k_width};
    if (f->cache) {
        k = qkv_attention_cached(f, f->cache->k, k_width);
        v = qkv_attention_cached(f, f->cache->v, a->Hkv * a->Dv);
        packed = *a, packed.page_bytes = f->cache->packed;
        a = &packed;
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
