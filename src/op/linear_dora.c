/* linear_dora: a linear whose adapter has magnitudes (DoRA, Liu et al. 2024). With x_d, the x that the adapter reads:
 *
 *   v = x_d·wᵀ + scale·(x_d·aᵀ)·bᵀ    f = m / norm
 *   y = r + s·(x·wᵀ + bias + f·v − x_d·wᵀ)
 *
 * in the columns of its parts, so that y = r + s·(f·v + bias) without dropout. f is 1 elsewhere. The norms are given;
 * they have no gradient. Backward, from dy, which has s in it already:
 *
 *   dm += Σ_n dy·v / norm    dv = f·dy    dbias += Σ_n dy
 *
 * and with dv in place of dy as of a linear with an adapter (linear_adapter.c); with dropout, the product of x has dy,
 * and that of x_d has dv − dy. */
#include "op/linear.h"

enum { DORA_ROWS_A_PIECE = 4 };

/* A pass over the rows of y, or over those of a gradient. */
struct dora_rows {
    const struct qkv_dora *d;
    const float *factors; /* f; with dropout, 0 in columns of no part */
    const float *in;
    float *out, scale; /* scale: of what is subtracted */
};

/* ---- factors ----------------------------------------------------------------------------------------------------- */

struct dora_factors {
    const struct qkv_adapter *adapter;
    float *out, other;
    size_t columns;
};

static enum qkv_status dora_fill(void *argument) {
    const struct dora_factors *f = argument;
    for (size_t i = 0; i < f->columns; i++) f->out[i] = f->other;
    for (size_t i = 0; i < f->adapter->count; i++) {
        const struct qkv_adapter_part *part = &f->adapter->parts[i];
        const float *m = part->m.data;
        for (size_t k = 0; k < part->m.columns; k++)
            f->out[part->first + k] = qkv_adapter_over_norm(m[k], part->norm[k]);
    }
    return QKV_OK;
}

static const float *dora_factors(struct qkv_tape *tape, const struct qkv_dora *d) {
    const size_t columns = d->weight->rows;
    float *out = qkv_tape_take(tape, columns, sizeof *out);
    struct dora_factors f = {d->adapter, out, d->read == d->x ? 1 : 0, columns};
    if (out && qkv_tape_failed(tape, qkv_compute(tape->ctx, dora_fill, &f))) return NULL;
    return out;
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* y = r + s·(f·v + bias) */
static void dora_whole(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct dora_rows *o = argument;
    const struct qkv_dora *d = o->d;
    const size_t columns = d->weight->rows;
    const float *bias = d->bias ? d->bias->data : NULL;
    for (size_t n = begin; n < end; n++) {
        const float *v = d->v + n * columns, *r = d->residual ? d->residual + n * columns : NULL;
        float *y = o->out + n * columns;
        for (size_t i = 0; i < columns; i++) {
            const float sum = o->factors[i] * v[i] + (bias ? bias[i] : 0);
            y[i] = r ? r[i] + d->scale * sum : sum;
        }
    }
}

/* out −= scale·in, in the columns of parts */
static void dora_subtract(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct dora_rows *o = argument;
    const size_t columns = o->d->weight->rows;
    for (size_t n = begin; n < end; n++)
        for (size_t p = 0; p < o->d->adapter->count; p++) {
            const struct qkv_adapter_part *part = &o->d->adapter->parts[p];
            const size_t at = n * columns + part->first;
            for (size_t i = 0; i < part->m.columns; i++) o->out[at + i] -= o->scale * o->in[at + i];
        }
}

/* y += s·f·v */
static void dora_add(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct dora_rows *o = argument;
    const size_t columns = o->d->weight->rows;
    for (size_t n = begin; n < end; n++)
        for (size_t i = 0; i < columns; i++)
            o->out[n * columns + i] += o->d->scale * o->factors[i] * o->d->v[n * columns + i];
}

static void dora_pass(struct qkv_tape *tape, const struct dora_rows *o, qkv_range_body *body) {
    qkv_parallel_range(tape->ctx, o->d->x->rows, DORA_ROWS_A_PIECE, body, (void *)(uintptr_t)o);
}

enum qkv_status qkv_dora_forward(struct qkv_tape *tape, const struct qkv_dora *d) {
    const struct qkv_tape_mark mark = qkv_tape_mark(tape); /* the form of x ends here, too */
    const bool dropped = d->read != d->x;
    struct dora_rows o = {.d = d, .factors = dora_factors(tape, d), .in = d->v, .out = d->y, .scale = d->scale};
    if (!o.factors) return tape->status ? tape->status : QKV_MEMORY;
    const struct qkv_linear_rows rows = qkv_tape_form(tape, qkv_operand_product(tape, d->weight), d->read);
    enum qkv_status status = tape->status
                                 ? tape->status
                                 : qkv_linear_forward_parts(tape, (struct qkv_linear_rows){d->v, QKV_F32}, rows,
                                                            d->read->rows, d->weight, NULL, (struct qkv_epilogue){0});
    if (!status && dropped) dora_pass(tape, &o, dora_subtract);
    if (!status) status = qkv_adapter_forward(tape, d->adapter, d->v, d->weight->rows, 1, d->read, d->low);
    if (!status) dora_pass(tape, &o, dropped ? dora_add : dora_whole);
    qkv_tape_release(tape, mark);
    return status;
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* out = f·in */
static void dora_multiply(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct dora_rows *o = argument;
    const size_t columns = o->d->weight->rows;
    for (size_t n = begin; n < end; n++)
        for (size_t i = 0; i < columns; i++) o->out[n * columns + i] = o->factors[i] * o->in[n * columns + i];
}

struct dora_products {
    const struct qkv_dora *d;
    const struct qkv_adapter_part *part;
    const float *dy;
    float *out; /* (N, columns of the part) */
};

/* out = dy·v / norm */
static void dora_lengths(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct dora_products *o = argument;
    const size_t all = o->d->weight->rows, columns = o->part->m.columns;
    for (size_t n = begin; n < end; n++) {
        const float *dy = o->dy + n * all + o->part->first, *v = o->d->v + n * all + o->part->first;
        for (size_t i = 0; i < columns; i++)
            o->out[n * columns + i] = qkv_adapter_over_norm(dy[i] * v[i], o->part->norm[i]);
    }
}

static enum qkv_status dora_magnitudes(struct qkv_tape *tape, const struct qkv_dora *d, const float *dy) {
    const size_t N = d->x->rows;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < d->adapter->count && !status; i++) {
        struct qkv_adapter_part *part = &d->adapter->parts[i];
        const size_t mark = qkv_arena_mark(tape->arena);
        const struct qkv_tensor shape = {.rows = part->m.columns};
        bool always;
        float *dm = qkv_gradient_out(tape, &part->m, &always, &status);
        struct dora_products o = {d, part, dy, NULL};
        if (status || !dm) continue;
        if (!(o.out = qkv_tape_take(tape, N * part->m.columns, sizeof *o.out))) return QKV_MEMORY;
        qkv_parallel_range(tape->ctx, N, DORA_ROWS_A_PIECE, dora_lengths, &o);
        status = qkv_linear_backward_parts(tape, o.out, (struct qkv_linear_rows){0}, N, NULL, false, &shape, NULL,
                                           &part->m, dm, d->x->learning.order, (struct qkv_linear_carry){0});
        qkv_arena_release(tape->arena, mark);
    }
    return status;
}

/* The product of x, and that of x_d if it is another one. */
static enum qkv_status dora_products(struct qkv_tape *tape, const struct qkv_dora *d, const struct qkv_dora_back *b,
                                     const struct dora_rows *dv) {
    const struct qkv_row_order *order = d->x->learning.order;
    const struct qkv_linear_rows x = {d->x->data, d->x->dtype}, read = {d->read->data, d->read->dtype};
    const struct qkv_linear_carry none = {0};
    const size_t N = d->x->rows;
    const bool dropped = d->read != d->x;
    enum qkv_status status = qkv_linear_backward_parts(tape, dropped ? b->dy : dv->out, x, N, b->dx, b->accumulate,
                                                       d->weight, b->dweight, NULL, NULL, order, none);
    if (!status)
        status =
            qkv_linear_backward_parts(tape, b->dy, x, N, NULL, false, d->weight, NULL, d->bias, b->dbias, order, none);
    if (status || !dropped) return status;
    dora_pass(tape, dv, dora_subtract); /* where no part is, it is 0 already */
    status = qkv_linear_backward_parts(tape, dv->out, read, N, b->dread, b->again, d->weight, b->dweight, NULL, NULL,
                                       order, none);
    dora_pass(tape, dv, dora_multiply);
    return status;
}

enum qkv_status qkv_dora_backward(struct qkv_tape *tape, const struct qkv_dora *d, const struct qkv_dora_back *b) {
    const size_t mark = qkv_arena_mark(tape->arena), count = d->x->rows * d->weight->rows;
    struct dora_rows dv = {.d = d, .factors = dora_factors(tape, d), .in = b->dy, .scale = 1};
    enum qkv_status status = tape->status;
    if (!status) dv.out = qkv_tape_take(tape, count, sizeof *dv.out);
    if (!status && !dv.out) status = QKV_MEMORY;
    if (!status) dora_pass(tape, &dv, dora_multiply);
    if (!status) status = dora_magnitudes(tape, d, b->dy);
    if (!status) status = dora_products(tape, d, b, &dv);
    if (!status)
        status = qkv_adapter_backward(tape, d->adapter, dv.out, d->weight->rows, d->read,
                                      d->read == d->x ? b->dx : b->dread, true, d->low);
    qkv_arena_release(tape->arena, mark);
    return status;
}
