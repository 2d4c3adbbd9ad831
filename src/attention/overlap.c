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

/* ---- the arrays of a call ---------------------------------------------------------------------------------------- */

enum { OVERLAP_ARRAYS = 32 };

struct overlap_list {
    struct overlap_view views[OVERLAP_ARRAYS];
    size_t written, count; /* the first `written` arrays are written */
};

static void overlap_add(struct overlap_list *list, const char *name, const struct qkv_view *v) {
    list->views[list->count++] = overlap_view(name, v);
}

/* Adds an array whose elements are contiguous; NULL is empty. */
static void overlap_add_flat(struct overlap_list *list, const char *name, const void *data, size_t rows, size_t columns,
                             size_t size) {
    size_t bytes;
    if (!qkv_multiply(rows, columns, &bytes) || !qkv_multiply(bytes, size, &bytes) || bytes > PTRDIFF_MAX / 2)
        bytes = PTRDIFF_MAX / 2; /* more than any array has */
    list->views[list->count++] =
        (struct overlap_view){.name = name, .begin = (uintptr_t)data, .count = {1, 1, 1}, .row = (ptrdiff_t)bytes};
}

/* Adds an array with one element for each query and key, or broadcast. */
static void overlap_add_pairs(struct overlap_list *list, const char *name, const void *data,
                              const struct qkv_pair_shape *s, size_t size) {
    const bool packed = !s->batch && !s->head && !s->row;
    list->views[list->count++] =
        (struct overlap_view){.name = name,
                              .begin = (uintptr_t)data,
                              .count = {s->B, s->H, s->Tq},
                              .stride = {(ptrdiff_t)((packed ? s->H * s->Tq * s->Tk : s->batch) * size),
                                         (ptrdiff_t)((packed ? s->Tq * s->Tk : s->head) * size),
                                         (ptrdiff_t)((packed ? s->Tk : s->row) * size)},
                              .row = (ptrdiff_t)(s->Tk * size)};
}

static void overlap_add_lse(struct overlap_list *list, const char *name, const struct qkv_attention_call *c,
                            const float *data) {
    overlap_add_flat(list, name, data, c->q.B * c->q.H, c->q.T, sizeof *data);
}

/* Adds the arrays that a call only reads. */
static void overlap_add_inputs(struct overlap_list *list, const struct qkv_attention_call *c,
                               const struct qkv_mask *m) {
    const struct {
        const char *name;
        const int32_t *data;
        size_t count, columns;
    } of_sequences[] = {{"mask.offsets", m->offsets, m->B, 1},
                        {"mask.lengths", m->lengths, m->B, 1},
                        {"mask.starts", m->starts, m->B, 1},
                        {"mask.prefix", m->prefix, m->B, 1},
                        {"mask.pasts", m->pasts, m->B, 1},
                        {"mask.cu_q", m->cu_q, m->B + 1, 1},
                        {"mask.cu_k", m->cu_k, m->B + 1, 1},
                        {"mask.key_documents", m->key_documents, m->B, m->Tk},
                        {"mask.query_documents", m->query_documents, m->B, m->Tq},
                        {"pages", c->pages, m->B, c->page_columns}};
    overlap_add(list, "q", &c->q);
    overlap_add(list, "k", &c->k);
    overlap_add(list, "v", &c->v);
    overlap_add(list, "past_k", &c->past_k);
    overlap_add(list, "past_v", &c->past_v);
    overlap_add_pairs(list, "the dense mask", c->dense, &c->dense_shape, sizeof *c->dense);
    overlap_add_pairs(list, "bias", c->bias, &c->bias_shape, sizeof *c->bias);
    overlap_add_flat(list, "alibi", c->alibi, c->q.H, 1, sizeof *c->alibi);
    overlap_add_flat(list, "distance_bias", c->distance_bias, c->q.H, c->distances, sizeof *c->distance_bias);
    overlap_add_flat(list, "sinks", c->sinks, c->q.H, 1, sizeof *c->sinks);
    for (size_t i = 0; i < sizeof of_sequences / sizeof *of_sequences; i++)
        overlap_add_flat(list, of_sequences[i].name, of_sequences[i].data, of_sequences[i].count,
                         of_sequences[i].columns, sizeof *of_sequences[i].data);
}

enum qkv_status qkv_attention_apart(struct qkv_context *ctx, const struct qkv_attention_call *c,
                                    const struct qkv_mask *mask, const struct qkv_attention_gradients *g) {
    struct overlap_list list = {0};
    if (g) {
        overlap_add(&list, "dq", &g->dq);
        overlap_add(&list, "dk", &g->dk);
        overlap_add(&list, "dv", &g->dv);
        overlap_add(&list, "dpast_k", &g->dpast_k);
        overlap_add(&list, "dpast_v", &g->dpast_v);
        overlap_add_pairs(&list, "dbias", g->dbias, &c->bias_shape, sizeof *g->dbias);
        overlap_add_flat(&list, "ddistance_bias", g->ddistance_bias, c->q.H, c->distances, sizeof *g->ddistance_bias);
        overlap_add_flat(&list, "dsinks", g->dsinks, c->q.H, 1, sizeof *g->dsinks);
        list.written = list.count;
    }
    if (g) overlap_add(&list, "dy", &g->dy);
    if (g) overlap_add_lse(&list, "dlse", c, g->dlse);
    overlap_add(&list, "y", &c->y);
    overlap_add_lse(&list, "lse", c, c->lse);
    if (!g) list.written = list.count;
    overlap_add_inputs(&list, c, mask);
    return overlap_check(ctx, list.views, list.written, list.count);
}
