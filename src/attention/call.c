/* call: attention on plain buffers, without a model: checks a call, converts its masks into intervals and ALiBi into a
 * table, and runs the fused kernels (kernel/attend.c) in scratch memory of the context.
 *
 * Every call is first planned on a measuring arena, so its memory is known before anything is written. */
#include "attention/attention.h"

#include <math.h>
#include <string.h>

enum task { FORWARD, BACKWARD, LOOK };

struct request {
    const struct qkv_attention_call *call;
    enum task task;
    struct qkv_attend a;
    struct qkv_attend_gradients g;
    const struct qkv_attention_gradients *gradients; /* backward: the gradients that the caller wants */
    struct qkv_mask mask;
    size_t B, queries, keys; /* of the views: batch rows (1 if sequences are packed), and rows of q and of k */
    int64_t nearest;         /* ALiBi: the smallest position of a query, */
    size_t spread;           /* and the largest minus the smallest */
    enum qkv_attention_stage stage;
    size_t b, h, first, rows;
    float *out;
};

/* ---- checks ---------------------------------------------------------------------------------------------------- */

static bool call_is_packed(const struct qkv_attention_call *c) {
    return c->mask.cu_q || c->mask.cu_k;
}

/* Checks the page table of B sequences. */
static enum qkv_status check_pages(struct qkv_context *ctx, const struct qkv_attention_call *c, size_t B) {
    size_t numbers;
    if (!c->pages) return QKV_OK;
    if (!c->mask.pasts)
        return qkv_fail(
            ctx, QKV_ARGUMENT,
            "attention: pages are given without mask.pasts, which says how many keys each sequence has there");
    if (!qkv_multiply(B, c->page_columns, &numbers) || numbers > PTRDIFF_MAX / sizeof *c->pages)
        return qkv_fail(ctx, QKV_SHAPE, "attention: pages (%zu,%zu) are more than this machine can address", B,
                        c->page_columns);
    return qkv_aligned(ctx, "pages", c->pages, sizeof *c->pages);
}

/* Sets the maximum of keys of a past, and checks that each sequence has room for its own. */
static enum qkv_status measure_past(struct qkv_context *ctx, struct request *r) {
    const struct qkv_attention_call *c = r->call;
    const size_t B = call_is_packed(c) ? c->mask.B : c->q.B, positions = c->past_k.T;
    struct qkv_mask *m = &r->mask;
    *m = c->mask;
    if (!m->pasts && m->past && m->past != positions)
        return qkv_fail(ctx, QKV_SHAPE, "attention: mask.past is %zu, but past_k has %zu keys a sequence", m->past,
                        positions);
    if (!m->pasts) m->past = positions;
    enum qkv_status status = check_pages(ctx, c, B);
    if (!status) status = qkv_mask_set_past(ctx, m, B);
    if (status) return status;
    size_t room = positions;
    if (c->pages && !qkv_multiply(c->page_columns, positions, &room)) room = SIZE_MAX;
    for (size_t b = 0; m->pasts && b < B; b++)
        if ((size_t)m->pasts[b] > room)
            return c->pages
                       ? qkv_fail(ctx, QKV_SHAPE,
                                  "attention: sequence %zu has a past of %d keys, but its %zu pages (page_columns) "
                                  "of %zu positions hold %zu",
                                  b, m->pasts[b], c->page_columns, positions, room)
                       : qkv_fail(ctx, QKV_SHAPE,
                                  "attention: sequence %zu has a past of %d keys, but past_k holds %zu of each", b,
                                  m->pasts[b], room);
    r->a.past = m->past, r->a.pasts = m->pasts;
    return QKV_OK;
}

static enum qkv_status check_past(struct qkv_context *ctx, struct request *r) {
    const struct qkv_attention_call *c = r->call;
    struct qkv_attend *a = &r->a;
    const size_t B = c->pages ? c->past_k.B : a->B, T = c->past_k.T;
    if (!T && !c->past_v.T && !c->pages) return QKV_OK;
    enum qkv_status status = qkv_view_check(ctx, "past_k", &c->past_k, "k", B, a->Hkv, T, a->D, false);
    if (!status) status = qkv_view_check(ctx, "past_v", &c->past_v, "past_k", B, a->Hkv, T, a->Dv, false);
    a->past_k = qkv_view_for_kernel(&c->past_k);
    a->past_v = qkv_view_for_kernel(&c->past_v);
    if (c->pages)
        a->pages = (struct qkv_page_table){.positions = T,
                                           .count = B,
                                           .k = qkv_page_type_of_rows(a->past_k.dtype),
                                           .v = qkv_page_type_of_rows(a->past_v.dtype)};
    return status;
}

/* Packed sequences: a single batch row of the views has all of them. */
static enum qkv_status check_packed(struct qkv_context *ctx, struct request *r) {
    struct qkv_attend *a = &r->a;
    enum qkv_status status = qkv_mask_pack(ctx, &r->mask, r->queries, r->keys);
    a->B = r->mask.B, a->Tq = r->mask.Tq, a->Tk = r->mask.Tk;
    a->q_start = r->mask.cu_q, a->k_start = r->mask.cu_k;
    r->B = 1;
    return status;
}

/* If all keys are in the past, k and v may be missing: they get its heads and channels. */
static struct qkv_view keys_or_none(const struct qkv_view *keys, const struct qkv_view *past, size_t B) {
    struct qkv_view none = *past;
    if (keys->data || keys->B || keys->H || keys->T || keys->D || !past->H) return *keys;
    none.data = NULL, none.B = B, none.T = 0;
    return none;
}

static enum qkv_status check_views(struct qkv_context *ctx, struct request *r) {
    const struct qkv_attention_call *c = r->call;
    struct qkv_attend *a = &r->a;
    const bool packed = call_is_packed(c);
    const struct qkv_view *q = &c->q;
    const struct qkv_view k = keys_or_none(&c->k, &c->past_k, q->B), v = keys_or_none(&c->v, &c->past_v, q->B);
    a->B = r->B = q->B, a->Tq = r->queries = q->T, a->Tk = r->keys = k.T;
    a->H = q->H, a->D = q->D, a->Hkv = k.H, a->Dv = v.D, a->alone = true;
    enum qkv_status status = measure_past(ctx, r);
    if (!status && packed) status = check_packed(ctx, r);
    if (!status) status = qkv_attend_check_sizes(ctx, a);
    if (status) return status;
    status = qkv_view_check(ctx, "q", q, packed ? "cu_q" : "itself", r->B, a->H, r->queries, a->D, false);
    if (!status) status = qkv_view_check(ctx, "k", &k, "q", r->B, a->Hkv, r->keys, a->D, false);
    if (!status) status = qkv_view_check(ctx, "v", &v, "k", r->B, a->Hkv, r->keys, a->Dv, false);
    if (!status) status = check_past(ctx, r);
    a->q = qkv_view_for_kernel(q), a->k = qkv_view_for_kernel(&k), a->v = qkv_view_for_kernel(&v);
    if (!status && !packed && !qkv_add_size(a->Tk, a->past, &a->Tk))
        return qkv_fail(ctx, QKV_SHAPE,
                        "attention: %zu keys and %zu of the past are more than this machine can address", k.T, a->past);
    return status;
}

/* Copies the fields that the public call and the kernel's call have in common. */
static enum qkv_status call_convert(struct qkv_context *ctx, const struct qkv_attention_call *c, struct qkv_attend *a) {
    a->scale = (float)(c->scale == 0 ? 1 / sqrt((double)a->D) : c->scale);
    a->softcap = (float)c->softcap;
    a->dropout = (float)c->dropout;
    a->key[0] = (uint32_t)c->seed;
    a->key[1] = (uint32_t)(c->seed >> 32);
    a->lse = c->lse;
    enum qkv_status status = qkv_attend_check_factors(ctx, c->scale, c->softcap, c->dropout);
    if (!status) status = qkv_aligned(ctx, "lse", c->lse, sizeof(float));
    if (!status) status = qkv_aligned(ctx, "bias", c->bias, sizeof(float));
    if (!status) status = qkv_aligned(ctx, "alibi", c->alibi, sizeof(float));
    if (!status) status = qkv_aligned(ctx, "distance_bias", c->distance_bias, sizeof(float));
    if (!status) status = qkv_aligned(ctx, "sinks", c->sinks, sizeof(float));
    if (status) return status;
    a->sinks = c->sinks;
    if (c->alibi && c->distance_bias)
        return qkv_fail(
            ctx, QKV_ARGUMENT,
            "attention: alibi and distance_bias are given, which both are biases by distance; give one table "
            "with their sum");
    for (size_t h = 0; c->sinks && h < a->H; h++)
        if (!isfinite(c->sinks[h]))
            return qkv_fail(ctx, QKV_ARGUMENT, "attention: the sink of head %zu is %g; sinks are finite", h,
                            (double)c->sinks[h]);
    for (size_t h = 0; c->alibi && h < a->H; h++)
        if (!isfinite(c->alibi[h]))
            return qkv_fail(ctx, QKV_ARGUMENT, "attention: the ALiBi slope of head %zu is %g; slopes are finite", h,
                            (double)c->alibi[h]);
    return QKV_OK;
}

static bool call_has_positions(const struct qkv_attention_call *c) {
    return c->alibi || c->distance_bias;
}

static enum qkv_status check_mask(struct qkv_context *ctx, struct request *r) {
    const struct qkv_attend *a = &r->a;
    struct qkv_mask *m = &r->mask;
    if (call_is_packed(r->call)) return QKV_OK; /* packed sequences were checked with their views */
    enum qkv_status status = qkv_mask_size(ctx, m, a->B, a->Tq, a->Tk);
    return !status && call_has_positions(r->call) ? qkv_mask_check_positions(ctx, m) : status;
}

static enum qkv_status check_gradients(struct qkv_context *ctx, struct request *r,
                                       const struct qkv_attention_gradients *g) {
    const struct qkv_attend *a = &r->a;
    const size_t past = r->call->past_k.T;
    const struct {
        const char *name, *like;
        const struct qkv_view *view;
        size_t B, H, T, D;
        bool written;
        struct qkv_heads *out;
    } views[] = {{"dy", "y", &g->dy, r->B, a->H, r->queries, a->Dv, false, &r->g.dy},
                 {"dq", "q", &g->dq, r->B, a->H, r->queries, a->D, true, &r->g.dq},
                 {"dk", "k", &g->dk, r->B, a->Hkv, r->keys, a->D, true, &r->g.dk},
                 {"dv", "v", &g->dv, r->B, a->Hkv, r->keys, a->Dv, true, &r->g.dv},
                 {"dpast_k", "past_k", &g->dpast_k, a->B, a->Hkv, past, a->D, true, &r->g.dpast_k},
                 {"dpast_v", "past_v", &g->dpast_v, a->B, a->Hkv, past, a->Dv, true, &r->g.dpast_v}};
    if (r->call->pages)
        return qkv_fail(
            ctx, QKV_ARGUMENT,
            "attention: there is no gradient where the past lies in pages, which sequences may share; for one "
            "give past_k and past_v as (B,Hkv,past,D)");
    for (size_t i = 0; i < sizeof views / sizeof views[0]; i++) {
        if (views[i].written && !views[i].view->data) continue;
        enum qkv_status status = qkv_view_check(ctx, views[i].name, views[i].view, views[i].like, views[i].B,
                                                views[i].H, views[i].T, views[i].D, views[i].written);
        if (status) return status;
        *views[i].out = qkv_view_for_kernel(views[i].view);
    }
    if (g->dbias && !r->call->bias)
        return qkv_fail(ctx, QKV_ARGUMENT, "attention: dbias is asked for, but there is no bias");
    if ((g->ddistance_bias && !r->call->distance_bias) || (g->dsinks && !r->call->sinks))
        return qkv_fail(ctx, QKV_ARGUMENT, "attention: %s is asked for, but there is no %s",
                        g->dsinks && !r->call->sinks ? "dsinks" : "ddistance_bias",
                        g->dsinks && !r->call->sinks ? "sinks" : "distance_bias");
    if (qkv_aligned(ctx, "ddistance_bias", g->ddistance_bias, sizeof(float))) return QKV_ARGUMENT;
    if (qkv_aligned(ctx, "dsinks", g->dsinks, sizeof(float))) return QKV_ARGUMENT;
    if (qkv_aligned(ctx, "dbias", g->dbias, sizeof(float))) return QKV_ARGUMENT;
    if (qkv_aligned(ctx, "dlse", g->dlse, sizeof(float))) return QKV_ARGUMENT;
    bool empty = !a->B || !a->Tq || !a->Tk;
    r->g.dattention_bias = empty ? NULL : g->dbias;
    r->g.accumulate = g->accumulate;
    r->gradients = g;
    r->g.dlse = g->dlse;
    return QKV_OK;
}

/* Finds the smallest and largest position of queries: the ALiBi table covers their distances to all keys. */
static enum qkv_status measure_positions(struct qkv_context *ctx, struct request *r) {
    const struct qkv_attend *a = &r->a;
    if (!call_has_positions(r->call) || !a->B || !a->Tq) return QKV_OK;
    int64_t smallest = INT64_MAX, largest = INT64_MIN;
    for (size_t b = 0; b < a->B; b++) {
        const size_t queries = qkv_mask_queries(&r->mask, b);
        if (!queries) continue;
        int64_t first = qkv_mask_position(&r->mask, b, 0), last = qkv_mask_position(&r->mask, b, queries - 1);
        if (first < smallest) smallest = first;
        if (last > largest) largest = last;
    }
    if (largest < smallest) smallest = largest = 0;
    if (largest - smallest > 4 * (int64_t)(a->Tq + a->Tk) + 65536 || largest - smallest + (int64_t)a->Tk > INT32_MAX)
        return qkv_fail(ctx, QKV_SHAPE,
                        "attention: with ALiBi, queries at positions %lld to %lld are too far apart for a table of "
                        "distances; batch rows whose offsets differ so much need calls of their own",
                        (long long)smallest, (long long)largest);
    if (r->call->distance_bias && (smallest < INT32_MIN || largest > INT32_MAX))
        return qkv_fail(ctx, QKV_SHAPE,
                        "attention: queries at positions %lld to %lld are too far away for a bias by distance",
                        (long long)smallest, (long long)largest);
    r->nearest = smallest;
    r->spread = (size_t)(largest - smallest);
    return QKV_OK;
}

static enum qkv_status call_prepare(struct qkv_context *ctx, struct request *r,
                                    const struct qkv_attention_gradients *g) {
    const struct qkv_attention_call *c = r->call;
    struct qkv_attend *a = &r->a;
    if (!ctx) return QKV_ARGUMENT;
    if (!c || (r->task == BACKWARD && !g))
        return qkv_fail(ctx, QKV_ARGUMENT, "attention: %s is NULL", c ? "gradients" : "call");
    enum qkv_status status = check_views(ctx, r);
    if (!status && r->task != LOOK)
        status = qkv_view_check(ctx, "y", &c->y, "q and v", r->B, a->H, r->queries, a->Dv, r->task == FORWARD);
    a->y = qkv_view_for_kernel(&c->y);
    if (!status) status = call_convert(ctx, c, a);
    if (!status) status = check_mask(ctx, r);
    if (!status)
        status = qkv_attend_set_pairs(ctx, a, c->dense, &c->dense_shape, c->bias, &c->bias_shape, g && g->dbias);
    if (!status) status = measure_positions(ctx, r);
    if (!status) status = qkv_aligned(ctx, "out", r->out, sizeof(float));
    return !status && r->task == BACKWARD ? check_gradients(ctx, r, g) : status;
}

/* ---- running --------------------------------------------------------------------------------------------------- */

/* The scratch of a call, in the memory of the host: arrays that its masks, pages and biases are converted to. */
struct scratch {
    struct qkv_context *ctx;
    const struct request *r;
    int32_t *lo, *hi;
    const int32_t **lists; /* NULL: there are no pages */
    int32_t *position;     /* of each query, from `nearest` on; NULL: nothing depends on it */
    int64_t nearest;
    float *alibi; /* −slope·|j − i|, by the distance of key j from the query with the smallest position; NULL: none */
};

static void fill_positions(const struct scratch *s) {
    const struct request *r = s->r;
    for (size_t b = 0, row = 0; s->position && b < r->a.B; b++)
        for (size_t t = 0; t < qkv_mask_queries(&r->mask, b); t++)
            s->position[row++] = (int32_t)(qkv_mask_position(&r->mask, b, t) - s->nearest);
}

static void fill_alibi(const struct scratch *s) {
    const struct qkv_distance_bias *bias = &s->r->a.distance_bias;
    for (size_t h = 0; s->alibi && h < s->r->a.H; h++)
        for (size_t e = 0; e < bias->row; e++) {
            int64_t distance = (int64_t)e - (int64_t)bias->zero - s->nearest;
            s->alibi[h * bias->row + e] = -s->r->call->alibi[h] * (float)(distance < 0 ? -distance : distance);
        }
}

static enum qkv_status fill_scratch(void *argument) {
    const struct scratch *s = argument;
    const struct request *r = s->r;
    for (size_t b = 0; s->lists && b < r->a.B; b++) s->lists[b] = r->call->pages + b * r->call->page_columns;
    fill_positions(s);
    fill_alibi(s);
    return qkv_mask_intervals(s->ctx, &r->mask, s->lo, s->hi);
}

/* Takes the table of ALiBi, or uses the caller's table of distances, with the positions of the call. */
static enum qkv_status take_distances(struct qkv_arena *arena, struct request *r, struct scratch *s) {
    const struct qkv_attention_call *c = r->call;
    struct qkv_attend *a = &r->a;
    size_t floats;
    if (!call_has_positions(c) || !a->B || !a->Tq) return QKV_OK;
    s->position = qkv_arena_take(arena, r->B * r->queries, sizeof *s->position);
    a->position = s->position;
    if (c->distance_bias) {
        a->distance_bias = (struct qkv_distance_bias){c->distance_bias, c->distances, c->distance_zero};
        return s->position ? QKV_OK : QKV_MEMORY;
    }
    s->nearest = r->nearest;
    a->distance_bias = (struct qkv_distance_bias){.row = a->Tk + r->spread, .zero = r->spread};
    if (!qkv_multiply(a->H, a->distance_bias.row, &floats)) floats = SIZE_MAX;
    a->distance_bias.table = s->alibi = qkv_arena_take(arena, floats, sizeof *s->alibi);
    return s->position && s->alibi ? QKV_OK : QKV_MEMORY;
}

static enum qkv_status take_scratch(struct qkv_context *ctx, struct qkv_arena *arena, struct request *r) {
    struct qkv_attend *a = &r->a;
    const size_t rows = r->B * r->queries;
    struct scratch s = {.ctx = ctx, .r = r};
    a->lo = s.lo = qkv_arena_take(arena, rows, sizeof *s.lo);
    a->hi = s.hi = qkv_arena_take(arena, rows, sizeof *s.hi);
    if (!s.lo || !s.hi) return QKV_MEMORY;
    if (r->call->pages) {
        a->pages.lists = s.lists = qkv_arena_take(arena, a->B, sizeof *s.lists);
        if (!s.lists) return QKV_MEMORY;
    }
    const enum qkv_status status = take_distances(arena, r, &s);
    return status ? status : qkv_compute(ctx, fill_scratch, &s);
}

/* Gradients of each sequence, (B,columns), which are added to one gradient. */
struct sequences {
    struct qkv_context *ctx;
    float *x, *out; /* x NULL: the gradient is not wanted */
    size_t B, columns, floats;
    bool accumulate;
};

static enum qkv_status take_sequences(struct qkv_arena *arena, struct sequences *s) {
    if (!s->out) return QKV_OK;
    if (!qkv_multiply(s->B, s->columns, &s->floats)) s->floats = SIZE_MAX;
    s->x = qkv_arena_take(arena, s->floats, sizeof *s->x);
    return s->x ? QKV_OK : QKV_MEMORY;
}

static enum qkv_status clear_sequences(void *argument) {
    const struct sequences *s = argument;
    if (s->x) memset(s->x, 0, s->floats * sizeof *s->x);
    return QKV_OK;
}

/* Adds them in order. */
static enum qkv_status add_sequences(void *argument) {
    const struct sequences *s = argument;
    if (!s->x) return QKV_OK;
    if (!s->accumulate) memset(s->out, 0, s->columns * sizeof *s->out);
    qkv_order_sequences(s->ctx, NULL, s->out, s->x, s->B, s->columns);
    return QKV_OK;
}

static enum qkv_status call_backward(struct qkv_context *ctx, struct qkv_arena *arena, struct request *r) {
    const struct qkv_attend *a = &r->a;
    const struct qkv_attention_gradients *g = r->gradients;
    const bool empty = !a->B || !a->Tq;
    struct sequences parts[] = {{.out = g->ddistance_bias, .columns = a->H * r->call->distances},
                                {.out = g->dsinks, .columns = a->H}};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < 2 && !status; i++) {
        parts[i].ctx = ctx, parts[i].B = a->B, parts[i].accumulate = g->accumulate;
        status = take_sequences(arena, &parts[i]);
    }
    for (size_t i = 0; i < 2 && !status; i++) status = qkv_compute(ctx, clear_sequences, &parts[i]);
    struct qkv_attend_gradients own = r->g;
    own.ddistance_bias = empty ? NULL : parts[0].x;
    own.dsinks = empty ? NULL : parts[1].x;
    if (!status) status = qkv_attend_backward(ctx, arena, a, &own);
    for (size_t i = 0; i < 2 && !status; i++) status = qkv_compute(ctx, add_sequences, &parts[i]);
    return status;
}

static enum qkv_status call_compute(struct qkv_context *ctx, struct qkv_arena *arena, struct request *r) {
    const enum qkv_status status = take_scratch(ctx, arena, r);
    if (status) return status;
    switch (r->task) {
    case FORWARD:
        return qkv_attend_forward(ctx, arena, &r->a);
    case BACKWARD:
        return call_backward(ctx, arena, r);
    case LOOK:
        break;
    }
    return qkv_attend_weights(ctx, arena, &r->a, r->stage, r->b, r->h, r->first, r->rows, r->out);
}

struct call_plan {
    struct qkv_context *ctx;
    struct qkv_arena *arena;
    struct request *request;
};

static enum qkv_status plan_call(void *argument) {
    const struct call_plan *plan = argument;
    return call_compute(plan->ctx, plan->arena, plan->request);
}

static enum qkv_status call_measure(struct qkv_context *ctx, struct request *r, size_t *bytes) {
    struct qkv_arena arena = {0};
    struct call_plan plan = {ctx, &arena, r};
    return qkv_plan(ctx, &arena, "attention", plan_call, &plan, bytes);
}

static enum qkv_status call_perform(struct qkv_context *ctx, struct request *r) {
    size_t bytes = 0;
    struct qkv_arena *arena;
    enum qkv_status status = call_measure(ctx, r, &bytes);
    if (!status) status = qkv_workspace(ctx, bytes, &arena);
    if (status) return status;
    status = call_compute(ctx, arena, r);
    qkv_arena_release(arena, 0);
    return status;
}

struct qkv_attention_call qkv_attention_call_defaults(void) {
    return (struct qkv_attention_call){0};
}

struct qkv_attention_gradients qkv_attention_gradients_defaults(void) {
    return (struct qkv_attention_gradients){0};
}

enum qkv_status qkv_attention_forward(struct qkv_context *ctx, const struct qkv_attention_call *call) {
    QKV_CALL(ctx);
    struct request r = {.call = call, .task = FORWARD};
    enum qkv_status status = call_prepare(ctx, &r, NULL);
    if (!status) status = qkv_attention_apart(ctx, call, &r.mask, NULL);
    return status ? status : call_perform(ctx, &r);
}

/* The gradient of a broadcast bias is 0 if there are no queries. */
static void clear_pairs(float *x, const struct qkv_pair_shape *s, const struct qkv_pairs *strides) {
    for (size_t b = 0; b < s->B; b++)
        for (size_t h = 0; h < s->H; h++)
            for (size_t i = 0; s->Tk && i < s->Tq; i++)
                memset(x + b * strides->batch_stride + h * strides->head_stride + i * strides->row_stride, 0,
                       s->Tk * sizeof *x);
}

enum qkv_status qkv_attention_backward(struct qkv_context *ctx, const struct qkv_attention_call *call,
                                       const struct qkv_attention_gradients *gradients) {
    QKV_CALL(ctx);
    struct request r = {.call = call, .task = BACKWARD};
    enum qkv_status status = call_prepare(ctx, &r, gradients);
    if (!status) status = qkv_attention_apart(ctx, call, &r.mask, gradients);
    if (!status && gradients->dbias && !r.g.dattention_bias && !gradients->accumulate)
        clear_pairs(gradients->dbias, &call->bias_shape, &r.a.attention_bias_strides);
    return !status ? call_perform(ctx, &r) : status;
}

enum qkv_status qkv_attention_weights(struct qkv_context *ctx, const struct qkv_attention_call *call,
                                      enum qkv_attention_stage stage, size_t b, size_t h, size_t first, size_t rows,
                                      float *out) {
    QKV_CALL(ctx);
    QKV_NEED_ALL(ctx, rows, out);
    struct request r = {
        .call = call, .task = LOOK, .stage = stage, .b = b, .h = h, .first = first, .rows = rows, .out = out};
    enum qkv_status status = call_prepare(ctx, &r, NULL);
    return !status ? call_perform(ctx, &r) : status;
}

enum qkv_status qkv_attention_measure(struct qkv_context *ctx, const struct qkv_attention_call *call,
                                      const struct qkv_attention_gradients *gradients, size_t *bytes) {
    QKV_CALL(ctx);
    struct request r = {.call = call, .task = gradients ? BACKWARD : FORWARD};
    enum qkv_status status = call_prepare(ctx, &r, gradients);
    QKV_NEED(ctx, bytes);
    *bytes = 0;
    return !status ? call_measure(ctx, &r, bytes) : status;
}
