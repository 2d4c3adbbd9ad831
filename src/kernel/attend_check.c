/* attend_check: all checks of a call of attention: forward, backward and the weights to look at. No other room repeats
 * them. */
#include "kernel/isa/attend.h"

#include <math.h>

/* A check of numbers that only a run has: the lengths, pages and positions of sequences. */
struct checked {
    struct qkv_context *ctx;
    const struct qkv_attend *a;
};

static enum qkv_status check_numbers(struct qkv_context *ctx, const struct qkv_attend *a,
                                     enum qkv_status (*body)(void *argument)) {
    struct checked c = {ctx, a};
    return qkv_compute(ctx, body, &c);
}

enum qkv_status qkv_attend_check_sizes(struct qkv_context *ctx, const struct qkv_attend *a) {
    const size_t limit = (size_t)INT32_MAX;
    if (!a->H || !a->Hkv || a->H % a->Hkv)
        return qkv_fail(
            ctx, QKV_SHAPE,
            "attention: q (%zu,%zu,%zu,%zu) has %zu heads and k (%zu,%zu,%zu,%zu) has %zu; the heads of k and v "
            "must divide those of q",
            a->B, a->H, a->Tq, a->D, a->H, a->B, a->Hkv, a->Tk, a->D, a->Hkv);
    if (!a->D || !a->Dv)
        return qkv_fail(ctx, QKV_SHAPE, "attention: q has %zu channels a head and v has %zu; each needs at least one",
                        a->D, a->Dv);
    if (a->B > limit || a->H > limit || a->Tq > limit || a->Tk > limit || a->D > limit || a->Dv > limit)
        return qkv_fail(ctx, QKV_SHAPE,
                        "attention: a dimension of (B,H,Tq,Tk,D,Dv) = (%zu,%zu,%zu,%zu,%zu,%zu) exceeds %zu", a->B,
                        a->H, a->Tq, a->Tk, a->D, a->Dv, limit);
    size_t heads, rows, keys, wide, product;
    wide = a->D > a->Dv ? a->D : a->Dv;
    bool fits = qkv_multiply(a->B, a->H, &heads) && qkv_multiply(heads, a->Tq, &rows) &&
                qkv_multiply(heads, a->Tk, &keys) && qkv_multiply(rows, wide, &product) &&
                qkv_multiply(keys, wide, &product) && qkv_multiply(rows, a->Tk, &product);
    if (!fits)
        return qkv_fail(ctx, QKV_SHAPE,
                        "attention: (B,H,Tq,Tk,D,Dv) = (%zu,%zu,%zu,%zu,%zu,%zu) is more than this "
                        "machine can address",
                        a->B, a->H, a->Tq, a->Tk, a->D, a->Dv);
    return QKV_OK;
}

/* `x` may have no data if it has no elements. */
static enum qkv_status check_heads(struct qkv_context *ctx, const char *name, const struct qkv_heads *x, bool needed) {
    if (x->data && x->dtype != QKV_F32 && x->dtype != QKV_BF16 && x->dtype != QKV_F16)
        return qkv_fail(ctx, QKV_ARGUMENT, "attention: %s is none of fp32, bf16 and f16; convert it to one of them",
                        name);
    if (needed && !x->data) return qkv_fail(ctx, QKV_ARGUMENT, "attention: %s must be given", name);
    return QKV_OK;
}

/* Pages that are no rows may hold numbers of any type. */
static enum qkv_status check_past(struct qkv_context *ctx, const struct qkv_attend *a, const char *name,
                                  const struct qkv_heads *x, const struct qkv_page_type *type, bool needed) {
    if (!a->pages.lists || !type || type->rows || !x->data) return check_heads(ctx, name, x, needed);
    return QKV_OK;
}

/* Rows of pages have the numbers of their type; values in the pages of the keys are channels of the keys. */
static enum qkv_status check_page_types(struct qkv_context *ctx, const struct qkv_attend *a) {
    const struct qkv_page_table *pages = &a->pages;
    const struct qkv_page_type *k = pages->k, *v = pages->v;
    if (!k || !v) return qkv_fail(ctx, QKV_ARGUMENT, "attention: pages are given without the types of their contents");
    if ((k->rows && a->past_k.data && a->past_k.dtype != k->dtype) ||
        (v->rows && a->past_v.data && a->past_v.dtype != v->dtype))
        return qkv_fail(ctx, QKV_ARGUMENT, "attention: the numbers of past_k and past_v are not those of their pages");
    if (pages->shared && (k != v || a->past_k.data != a->past_v.data || a->Dv > a->D))
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "attention: values in the pages of the keys are the first of the keys' %zu channels, not %zu "
                        "in pages of their own",
                        a->D, a->Dv);
    return QKV_OK;
}

static enum qkv_status check_pasts(void *argument) {
    const struct checked *c = argument;
    const struct qkv_attend *a = c->a;
    for (size_t b = 0; b < a->B; b++)
        if (a->pasts[b] < 0 || (size_t)a->pasts[b] > a->past)
            return qkv_fail(c->ctx, QKV_SHAPE,
                            "attention: sequence %zu has a past of %d keys; it must be from 0 to %zu", b, a->pasts[b],
                            a->past);
    return QKV_OK;
}

/* The page tables have the pages that the past of each sequence needs. */
static enum qkv_status check_lists(void *argument) {
    const struct checked *c = argument;
    struct qkv_context *ctx = c->ctx;
    const struct qkv_attend *a = c->a;
    const struct qkv_page_table *pages = &a->pages;
    for (size_t b = 0; b < a->B; b++) {
        const size_t past = a->pasts ? (size_t)a->pasts[b] : a->past;
        if (past && !pages->lists[b])
            return qkv_fail(ctx, QKV_ARGUMENT, "attention: sequence %zu has a past of %zu keys, but no list of pages",
                            b, past);
        for (size_t i = 0; past && i <= (past - 1) / pages->positions; i++)
            if (pages->lists[b][i] < 0 || (size_t)pages->lists[b][i] >= pages->count)
                return qkv_fail(ctx, QKV_ARGUMENT,
                                "attention: page %zu of sequence %zu is number %d, which is none of the %zu pages that "
                                "there are",
                                i, b, pages->lists[b][i], pages->count);
    }
    return QKV_OK;
}

static enum qkv_status check_pages(struct qkv_context *ctx, const struct qkv_attend *a) {
    enum qkv_status status = a->pasts ? check_numbers(ctx, a, check_pasts) : QKV_OK;
    if (status || !a->pages.lists) return status;
    status = check_page_types(ctx, a);
    if (status) return status;
    if (!a->pages.positions && a->past)
        return qkv_fail(ctx, QKV_SHAPE, "attention: pages of no positions are impossible for %zu keys", a->past);
    return check_numbers(ctx, a, check_lists);
}

static enum qkv_status check_keys(struct qkv_context *ctx, const struct qkv_attend *a, bool needed) {
    const enum qkv_status status = check_heads(ctx, "k", &a->k, needed);
    return status ? status : check_heads(ctx, "v", &a->v, needed);
}

static enum qkv_status check_ragged_keys(void *argument) {
    const struct checked *c = argument;
    return check_keys(c->ctx, c->a, c->a->B && c->a->k_start[c->a->B] > 0);
}

/* Inputs, and y if there is one. */
static enum qkv_status check_data(struct qkv_context *ctx, const struct qkv_attend *a) {
    if (a->past > a->Tk)
        return qkv_fail(ctx, QKV_SHAPE, "attention: %zu keys are in the past, but there are only %zu keys in all",
                        a->past, a->Tk);
    if (a->mask_strides.missing > a->Tk || a->attention_bias_strides.missing > a->Tk)
        return qkv_fail(ctx, QKV_SHAPE, "attention: a mask or a bias lacks more keys than the %zu that there are",
                        a->Tk);
    const bool queries = a->B && a->Tq, past = a->B && a->past;
    enum qkv_status status = check_heads(ctx, "q", &a->q, queries);
    if (!status && a->k_start) status = check_numbers(ctx, a, check_ragged_keys);
    if (!status) status = check_keys(ctx, a, !a->k_start && a->B && a->Tk > a->past);
    if (!status) status = check_past(ctx, a, "past_k", &a->past_k, a->pages.k, past);
    if (!status) status = check_past(ctx, a, "past_v", &a->past_v, a->pages.v, past);
    if (!status) status = check_heads(ctx, "y", &a->y, false);
    if (!status) status = check_pages(ctx, a);
    if (!status && queries && (!a->lo || !a->hi))
        return qkv_fail(ctx, QKV_ARGUMENT, "attention: lo and hi must be given");
    return status;
}

bool qkv_softcap_valid(double c) {
    const float x = (float)c;
    return c == 0 || (x > 0 && isfinite(x) && isfinite(1 / x));
}

/* Cumulative rows, of at most `max_rows` a sequence. */
static enum qkv_status check_start(struct qkv_context *ctx, const struct qkv_attend *a, const char *name,
                                   const int32_t *start, size_t max_rows) {
    if (!start) return QKV_OK;
    if (start[0])
        return qkv_fail(ctx, QKV_ARGUMENT, "attention: %s begins at %d; the first sequence begins at row 0", name,
                        start[0]);
    for (size_t b = 0; b < a->B; b++) {
        if (start[b + 1] < start[b])
            return qkv_fail(ctx, QKV_ARGUMENT,
                            "attention: %s falls from %d to %d at sequence %zu; sequences lie one after the other",
                            name, start[b], start[b + 1], b);
        if ((size_t)(start[b + 1] - start[b]) > max_rows)
            return qkv_fail(ctx, QKV_SHAPE, "attention: %s gives sequence %zu %d rows, but there are at most %zu", name,
                            b, start[b + 1] - start[b], max_rows);
    }
    return QKV_OK;
}

static enum qkv_status check_starts(void *argument) {
    const struct checked *c = argument;
    struct qkv_context *ctx = c->ctx;
    const struct qkv_attend *a = c->a;
    enum qkv_status status = check_start(ctx, a, "q_start", a->q_start, a->Tq);
    if (!status) status = check_start(ctx, a, "k_start", a->k_start, a->Tk);
    for (size_t b = 0; !status && a->k_start && a->past && b < a->B; b++)
        if (qkv_attend_keys(a, b) > a->Tk)
            return qkv_fail(ctx, QKV_SHAPE,
                            "attention: sequence %zu has %zu keys, past and others, but there are at most %zu", b,
                            qkv_attend_keys(a, b), a->Tk);
    return status;
}

enum qkv_status qkv_attend_check_factors(struct qkv_context *ctx, double scale, double softcap, double dropout) {
    char shown[QKV_REAL_TEXT];
    if (!isfinite(scale) || !isfinite((float)scale))
        return qkv_fail(ctx, QKV_ARGUMENT, "attention: scale is %s; it must be from -3.4e38 to 3.4e38 (0: 1/sqrt(D))",
                        qkv_real_text(shown, scale));
    if (!qkv_softcap_valid(softcap))
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "attention: softcap is %s; it must be from 2.94e-39 to 3.4e38, or 0 for none",
                        qkv_real_text(shown, softcap));
    if (!(dropout >= 0 && (float)dropout < 1))
        return qkv_fail(ctx, QKV_ARGUMENT, "attention: dropout is %s; it must be at least 0 (none) and less than 1",
                        qkv_real_text(shown, dropout));
    return QKV_OK;
}

static enum qkv_status check_options(struct qkv_context *ctx, const struct qkv_attend *a) {
    enum qkv_status status = qkv_attend_check_factors(ctx, (double)a->scale, (double)a->softcap, (double)a->dropout);
    if (status) return status;
    if (a->B && a->Tq && a->distance_bias.table && !a->position)
        return qkv_fail(ctx, QKV_ARGUMENT, "attention: a table of distances needs the queries' positions");
    return QKV_OK;
}

static enum qkv_status check_distances(struct qkv_context *ctx, const struct qkv_attend *a, size_t r, int64_t keys) {
    const int64_t lo = a->lo[r] > 0 ? a->lo[r] : 0, hi = a->hi[r] < keys ? a->hi[r] : keys;
    const int64_t shift = (int64_t)a->distance_bias.zero - a->position[r];
    if (lo >= hi || (lo + shift >= 0 && hi - 1 + shift < (int64_t)a->distance_bias.row)) return QKV_OK;
    return qkv_fail(ctx, QKV_SHAPE,
                    "attention: row %zu at position %d attends to keys [%lld, %lld), but the table of distances holds "
                    "distances %lld to %lld; make it longer",
                    r, a->position[r], (long long)lo, (long long)hi, -(long long)a->distance_bias.zero,
                    (long long)a->distance_bias.row - (long long)a->distance_bias.zero - 1);
}

/* The table of distances has an entry for every distance between a row and a key of this call. */
static enum qkv_status check_all_distances(void *argument) {
    const struct checked *c = argument;
    const struct qkv_attend *a = c->a;
    enum qkv_status status = QKV_OK;
    for (size_t b = 0, row = 0; b < a->B && !status; row += qkv_attend_queries(a, b++)) {
        const size_t keys = qkv_attend_keys(a, b);
        for (size_t i = 0; i < qkv_attend_queries(a, b) && !status; i++)
            status = check_distances(c->ctx, a, row + i, (int64_t)keys);
    }
    return status;
}

static enum qkv_status check_bias(struct qkv_context *ctx, const struct qkv_attend *a) {
    if (!a->distance_bias.table) return QKV_OK;
    if (a->distance_bias.row > (size_t)INT64_MAX / 2 || a->distance_bias.zero > (size_t)INT64_MAX / 2)
        return qkv_fail(ctx, QKV_SHAPE,
                        "attention: a table of distances with %zu distances and zero at %zu cannot be addressed",
                        a->distance_bias.row, a->distance_bias.zero);
    return check_numbers(ctx, a, check_all_distances);
}

enum qkv_status qkv_attend_check(struct qkv_context *ctx, const struct qkv_attend *a) {
    enum qkv_status status = qkv_attend_check_sizes(ctx, a);
    if (!status) status = check_data(ctx, a);
    if (!status) status = check_numbers(ctx, a, check_starts);
    if (!status) status = check_options(ctx, a);
    if (!status) status = check_bias(ctx, a);
    return status;
}

/* Refuses a gradient of attention_bias of which several items would write the same element at the same time. */
static enum qkv_status check_addend_gradient(struct qkv_context *ctx, const struct qkv_attend *a) {
    const struct qkv_pairs *pairs = &a->attention_bias_strides;
    struct {
        size_t stride, count;
    } sides[] = {{pairs->row_stride, a->Tq}, {pairs->head_stride, a->H}, {pairs->batch_stride, a->B}};
    size_t reach = a->Tk - pairs->missing, last;
    if (!a->attention_bias)
        return qkv_fail(ctx, QKV_ARGUMENT, "attention: the gradient of an attention_bias needs the attention_bias");
    for (size_t done = 0; done < 3; done++) {
        size_t smallest = 3;
        for (size_t i = 0; i < 3; i++)
            if (sides[i].stride && sides[i].count > 1 && (smallest == 3 || sides[i].stride < sides[smallest].stride))
                smallest = i;
        if (smallest == 3) break;
        if (sides[smallest].stride < reach || !qkv_multiply(sides[smallest].stride, sides[smallest].count - 1, &last) ||
            !qkv_add_size(reach, last, &reach))
            return qkv_fail(
                ctx, QKV_ARGUMENT,
                "attention: the attention_bias's gradient has strides (%zu,%zu,%zu) of batch, head and row whose "
                "entries overlap; copy the attention_bias apart",
                pairs->batch_stride, pairs->head_stride, pairs->row_stride);
        sides[smallest].count = 0;
    }
    return QKV_OK;
}

enum qkv_status qkv_attend_check_gradients(struct qkv_context *ctx, const struct qkv_attend *a,
                                           const struct qkv_attend_gradients *g) {
    if (a->pages.lists) return qkv_fail(ctx, QKV_ARGUMENT, "attention: there is no gradient of keys in pages");
    if ((g->ddistance_bias && !a->distance_bias.table) || (g->dsinks && !a->sinks))
        return qkv_fail(ctx, QKV_ARGUMENT, "attention: the gradient of %s needs %s",
                        g->dsinks && !a->sinks ? "sinks" : "a table of distances",
                        g->dsinks && !a->sinks ? "the sinks" : "the table");
    if (a->B && a->Tq && !a->lse)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "attention: the gradient needs lse as the forward call wrote it; give both calls "
                        "the same array of B·H·Tq floats");
    if (a->B && a->Tq && (!a->y.data || !g->dy.data))
        return qkv_fail(ctx, QKV_ARGUMENT, "attention: the gradient needs dy, and y of the forward call");
    const struct {
        const char *name;
        const struct qkv_heads *x;
    } given[] = {{"dy", &g->dy}, {"dq", &g->dq},           {"dk", &g->dk},
                 {"dv", &g->dv}, {"dpast_k", &g->dpast_k}, {"dpast_v", &g->dpast_v}};
    enum qkv_status status = g->dattention_bias ? check_addend_gradient(ctx, a) : QKV_OK;
    for (size_t i = 0; !status && i < sizeof given / sizeof given[0]; i++)
        status = check_heads(ctx, given[i].name, given[i].x, false);
    return status;
}

/* The rows of a head whose weights a caller wants. */
struct checked_rows {
    struct qkv_context *ctx;
    const struct qkv_attend *a;
    size_t b, h, first, rows;
};

static enum qkv_status check_rows(const struct checked_rows *r, size_t Tq) {
    const struct qkv_attend *a = r->a;
    if (r->b < a->B && r->h < a->H && r->first <= Tq && r->rows <= Tq - r->first) return QKV_OK;
    return qkv_fail(r->ctx, QKV_SHAPE,
                    "attention: weights of batch row %zu, head %zu, rows %zu and %zu more do not exist in (B,H,Tq) = "
                    "(%zu,%zu,%zu)",
                    r->b, r->h, r->first, r->rows, a->B, a->H, Tq);
}

static enum qkv_status check_ragged_rows(void *argument) {
    const struct checked_rows *r = argument;
    return check_rows(r, qkv_attend_queries(r->a, r->b));
}

enum qkv_status qkv_attend_check_weights(struct qkv_context *ctx, const struct qkv_attend *a,
                                         enum qkv_attention_stage stage, size_t b, size_t h, size_t first, size_t rows,
                                         const float *out) {
    if ((int)stage < 0 || stage > QKV_ATTENTION_DROPPED)
        return qkv_fail(ctx, QKV_ARGUMENT, "attention: the stage is %d; it must be one of enum qkv_attention_stage",
                        (int)stage);
    struct checked_rows checked = {ctx, a, b, h, first, rows};
    enum qkv_status status = a->q_start && b < a->B ? qkv_compute(ctx, check_ragged_rows, &checked) : QKV_OK;
    if (!status) status = check_rows(&checked, a->Tq);
    if (status) return status;
    if (rows && a->Tk && !out) return qkv_fail(ctx, QKV_ARGUMENT, "attention: weights need a place to go");
    if (rows && a->Tk && (stage == QKV_ATTENTION_WEIGHTS || stage == QKV_ATTENTION_DROPPED) && !a->lse)
        return qkv_fail(ctx, QKV_ARGUMENT, "attention: weights need lse of the forward pass");
    return QKV_OK;
}
