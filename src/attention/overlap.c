/* overlap: checks that the arrays that a call writes share no element with those it reads, nor with each other. Views
 * may interleave, as q, k and v in (B,T,3,H,D) do, so rows are compared and not the memory from first to last.
 *
 * A row of one view begins `off` + Σ Δ·stride bytes after a row of the other. They share bytes if that is less than the
 * length of the one and more than minus the length of the other. If both views have the same strides, Δ are differences
 * of indices. Else the rows of one view are enumerated, and Δ are the other's indices. Strides are tried from the
 * largest on: only a few Δ of each bring rows near enough. */
#include "attention/attention.h"

enum { DIMENSIONS = 3 };

struct overlap_box { /* Δ from low to high, and the limits of `off` at which rows overlap */
    ptrdiff_t low[DIMENSIONS], high[DIMENSIONS], stride[DIMENSIONS];
    ptrdiff_t before, behind;
};
struct overlap_view {
    const char *name;
    uintptr_t begin;
    size_t count[DIMENSIONS];
    ptrdiff_t stride[DIMENSIONS], row; /* bytes */
};

static struct overlap_view overlap_view(const char *name, const struct qkv_view *v) {
    const size_t size = qkv_type_size(v->dtype);
    return (struct overlap_view){
        .name = name,
        .begin = (uintptr_t)v->data,
        .count = {v->B, v->H, v->T},
        .stride = {(ptrdiff_t)(v->batch * size), (ptrdiff_t)(v->head * size), (ptrdiff_t)(v->row * size)},
        .row = (ptrdiff_t)(v->D * size)};
}

static bool overlap_is_empty(const struct overlap_view *x) {
    return !x->begin || !x->row || !x->count[0] || !x->count[1] || !x->count[2];
}

/* Bytes from the first row's beginning to the last row's end. */
static size_t overlap_extent(const struct overlap_view *x) {
    size_t bytes = (size_t)x->row;
    for (int i = 0; i < DIMENSIONS; i++) bytes += (x->count[i] - 1) * (size_t)x->stride[i];
    return bytes;
}

static void overlap_sort(struct overlap_box *box) {
    for (int pass = 0; pass < DIMENSIONS - 1; pass++)
        for (int i = 0; i + 1 < DIMENSIONS; i++) {
            if (box->stride[i] >= box->stride[i + 1]) continue;
            ptrdiff_t *lists[] = {box->low, box->high, box->stride};
            for (int k = 0; k < 3; k++) {
                const ptrdiff_t swap = lists[k][i];
                lists[k][i] = lists[k][i + 1], lists[k][i + 1] = swap;
            }
        }
}

static ptrdiff_t overlap_floor(ptrdiff_t a, ptrdiff_t b) {
    return a / b - (a % b < 0);
}

/* Whether some Δ of the dimensions from `at` on let rows that begin `off` apart overlap. */
static bool overlap_meets(const struct overlap_box *box, int at, ptrdiff_t off) {
    if (at == DIMENSIONS) return off > -box->before && off < box->behind;
    ptrdiff_t smallest = 0, largest = 0;
    for (int i = at + 1; i < DIMENSIONS; i++)
        smallest += box->low[i] * box->stride[i], largest += box->high[i] * box->stride[i];
    const ptrdiff_t stride = box->stride[at];
    if (!stride) return overlap_meets(box, at + 1, off);
    ptrdiff_t first = overlap_floor(-box->before - off - largest, stride) + 1,
              last = overlap_floor(box->behind - off - smallest - 1, stride);
    if (first < box->low[at]) first = box->low[at];
    if (last > box->high[at]) last = box->high[at];
    for (ptrdiff_t d = first; d <= last; d++)
        if (overlap_meets(box, at + 1, off + d * stride)) return true;
    return false;
}

/* Compares all rows of x with all rows of y at once, if strides are the same; dimensions with one index do not
 * matter. */
static bool overlap_same(const struct overlap_view *x, const struct overlap_view *y, struct overlap_box *box) {
    *box = (struct overlap_box){.before = y->row, .behind = x->row};
    for (int i = 0; i < DIMENSIONS; i++) {
        if (x->count[i] > 1 && y->count[i] > 1 && x->stride[i] != y->stride[i]) return false;
        box->stride[i] = x->count[i] > 1 ? x->stride[i] : y->count[i] > 1 ? y->stride[i] : 0;
        box->low[i] = 1 - (ptrdiff_t)x->count[i], box->high[i] = (ptrdiff_t)y->count[i] - 1;
    }
    overlap_sort(box);
    return true;
}

static bool overlap_rows(const struct overlap_view *x, const struct overlap_view *y) {
    struct overlap_box box = {.before = x->row, .behind = y->row};
    for (int i = 0; i < DIMENSIONS; i++) box.stride[i] = y->stride[i], box.low[i] = 1 - (ptrdiff_t)y->count[i];
    overlap_sort(&box);
    for (size_t i = 0; i < x->count[0]; i++)
        for (size_t j = 0; j < x->count[1]; j++)
            for (size_t k = 0; k < x->count[2]; k++) {
                const uintptr_t row =
                    x->begin + i * (size_t)x->stride[0] + j * (size_t)x->stride[1] + k * (size_t)x->stride[2];
                if (overlap_meets(&box, 0, (ptrdiff_t)(row - y->begin))) return true;
            }
    return false;
}

static bool overlap_shares(const struct overlap_view *x, const struct overlap_view *y) {
    struct overlap_box box;
    if (overlap_is_empty(x) || overlap_is_empty(y)) return false;
    if (x->begin + overlap_extent(x) <= y->begin || y->begin + overlap_extent(y) <= x->begin) return false;
    if (overlap_same(x, y, &box)) return overlap_meets(&box, 0, (ptrdiff_t)(y->begin - x->begin));
    return overlap_rows(x, y);
}

/* Of `count` views the first `written` are written. */
static enum qkv_status overlap_check(struct qkv_context *ctx, const struct overlap_view *views, size_t written,
                                     size_t count) {
    for (size_t i = 0; i < written; i++)
        for (size_t k = i + 1; k < count; k++)
            if (overlap_shares(&views[i], &views[k]))
                return qkv_fail(ctx, QKV_ARGUMENT,
                                "attention: %s shares memory with %s; what is written needs a place of its own",
                                views[i].name, views[k].name);
    return QKV_OK;
}

enum qkv_status qkv_attention_apart(struct qkv_context *ctx, const struct qkv_attention_call *c,
                                    const struct qkv_attention_gradients *g) {
    const struct qkv_view lse = {
        .data = c->lse, .dtype = QKV_F32, .B = 1, .H = 1, .T = 1, .D = c->q.B * c->q.H * c->q.T};
    const struct overlap_view y = overlap_view("y", &c->y), q = overlap_view("q", &c->q), k = overlap_view("k", &c->k),
                              v = overlap_view("v", &c->v), past_k = overlap_view("past_k", &c->past_k),
                              past_v = overlap_view("past_v", &c->past_v), row_sums = overlap_view("lse", &lse);
    if (!g) {
        const struct overlap_view forward[] = {y, row_sums, q, k, v, past_k, past_v};
        return overlap_check(ctx, forward, 2, sizeof forward / sizeof *forward);
    }
    const struct overlap_view backward[] = {overlap_view("dq", &g->dq),
                                            overlap_view("dk", &g->dk),
                                            overlap_view("dv", &g->dv),
                                            overlap_view("dpast_k", &g->dpast_k),
                                            overlap_view("dpast_v", &g->dpast_v),
                                            overlap_view("dy", &g->dy),
                                            y,
                                            row_sums,
                                            q,
                                            k,
                                            v,
                                            past_k,
                                            past_v};
    return overlap_check(ctx, backward, 5, sizeof backward / sizeof *backward);
}
