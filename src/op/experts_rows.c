/* experts_rows: rows of x and rows of an expert: from one to the other, and the weights of rows. */
#include "op/experts.h"

#include <string.h>

enum { ROWS_A_PIECE = 16, WIDENED = 512 };

/* The choice, of N·top_k, that the expert's i-th row is; *first: no earlier expert has the same row of x. */
static size_t experts_choice(const struct qkv_experts_pass *o, size_t i, bool *first) {
    const struct qkv_routing *r = o->routing;
    const int32_t own = (int32_t)(o->slot + i);
    const size_t begin = (size_t)r->row[own] * r->top_k;
    size_t choice = begin;
    *first = true;
    for (size_t c = begin; c < begin + r->top_k; c++) {
        if (r->slot[c] == own) choice = c;
        if (r->slot[c] < own) *first = false;
    }
    return choice;
}

/* to = scale·from, n numbers. */
static void experts_scale(const struct qkv_experts_pass *o, void *to, const void *from, float scale, size_t n) {
    float wide[WIDENED];
    if (o->x->dtype == QKV_F32) {
        o->kernels->scale(to, false, from, scale, n);
        return;
    }
    for (size_t c = 0, part; c < n; c += part) {
        part = n - c < WIDENED ? n - c : WIDENED;
        o->kernels->widen(wide, (const uint16_t *)from + c, part);
        o->kernels->scale(wide, false, wide, scale, part);
        o->kernels->narrow((uint16_t *)to + c, wide, part);
    }
}

static void gather_rows(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct qkv_experts_pass *o = argument;
    const size_t bytes = o->C * qkv_type_size(o->x->dtype);
    for (size_t i = begin; i < end; i++) {
        const size_t n = qkv_experts_row(o, i);
        char *row = (char *)o->gathered + i * bytes;
        const char *x = (const char *)o->x->data + n * bytes;
        bool first;
        if (o->inputs)
            experts_scale(o, row, x, o->scale[experts_choice(o, i, &first)], o->C);
        else
            memcpy(row, x, bytes);
        if (o->dy) memcpy(o->out + i * o->C, o->dy + n * o->C, o->C * sizeof(float));
    }
}

static void give_rows(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct qkv_experts_pass *o = argument;
    for (size_t i = begin; i < end; i++) {
        bool first;
        const float scale = o->scale[experts_choice(o, i, &first)];
        o->kernels->scale(o->y + qkv_experts_row(o, i) * o->C, !first, o->out + i * o->C, o->inputs ? 1 : scale, o->C);
    }
}

/* Σ a·b of n numbers, those of a from `row` on. */
static float experts_inner(const struct qkv_experts_pass *o, struct qkv_linear_rows a, size_t row, const float *b,
                           size_t n) {
    float wide[WIDENED], sum = 0;
    if (a.dtype == QKV_F32) return qkv_dot((const float *)a.data + row * n, b, n);
    for (size_t c = 0, part; c < n; c += part) {
        part = n - c < WIDENED ? n - c : WIDENED;
        o->kernels->widen(wide, (const uint16_t *)a.data + row * n + c, part);
        sum += qkv_dot(wide, b + c, part);
    }
    return sum;
}

static void experts_add_weight(const struct qkv_experts_pass *o, size_t choice, float dw) {
    o->dweights[choice] = o->accumulate_weights ? o->dweights[choice] + dw : dw;
}

static void weigh_rows(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct qkv_experts_pass *o = argument;
    for (size_t i = begin; i < end; i++) {
        bool first;
        const size_t choice = experts_choice(o, i, &first);
        float *dout = o->out + i * o->C, *dactive = o->dactive + i * o->F;
        if (o->dweights) {
            float dw = experts_inner(o, qkv_experts_active(o), i, dactive, o->F);
            if (o->down_bias) dw += qkv_dot(dout, o->down_bias, o->C);
            experts_add_weight(o, choice, dw);
        }
        o->kernels->scale(dactive, false, dactive, o->scale[choice], o->F);
        o->kernels->scale(dout, false, dout, o->scale[choice], o->C);
    }
}

static void return_rows(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct qkv_experts_pass *o = argument;
    for (size_t i = begin; i < end; i++) {
        bool first;
        const size_t choice = experts_choice(o, i, &first), n = qkv_experts_row(o, i);
        const float *g = o->out + i * o->C, scale = o->inputs ? o->scale[choice] : 1;
        if (o->inputs && o->dweights)
            experts_add_weight(o, choice,
                               experts_inner(o, (struct qkv_linear_rows){o->x->data, o->x->dtype}, n, g, o->C));
        if (o->dx) o->kernels->scale(o->dx + n * o->C, o->accumulate || !first, g, scale, o->C);
    }
}

void qkv_experts_gather(struct qkv_context *ctx, struct qkv_experts_pass *pass, size_t rows) {
    qkv_parallel_range(ctx, rows, ROWS_A_PIECE, gather_rows, pass);
}

void qkv_experts_give(struct qkv_context *ctx, struct qkv_experts_pass *pass, size_t rows) {
    qkv_parallel_range(ctx, rows, ROWS_A_PIECE, give_rows, pass);
}

void qkv_experts_weigh(struct qkv_context *ctx, struct qkv_experts_pass *pass, size_t rows) {
    qkv_parallel_range(ctx, rows, ROWS_A_PIECE, weigh_rows, pass);
}

void qkv_experts_return(struct qkv_context *ctx, struct qkv_experts_pass *pass, size_t rows) {
    qkv_parallel_range(ctx, rows, ROWS_A_PIECE, return_rows, pass);
}
