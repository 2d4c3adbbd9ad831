/* decoder_pass: runs the decoder over new tokens of some rows, and takes the memory for that.
 *
 * The tokens are in one list, row by row; attention reads each row's keys and values from its pages, and those of its
 * source from the encoder's pages. Consecutive rows of one source are the queries of one sequence of cross
 * attention. */
#include "model/decode.h"
#include "model/spec.h"
#include "op/steps.h"

#include <string.h>

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

/* The number of rows of `active` from i on that have the same source. */
static size_t pass_group(const struct qkv_decoder *d, size_t i, size_t rows) {
    size_t end = i + 1;
    while (end < rows && d->sources[d->active[end]] == d->sources[d->active[i]]) end++;
    return end;
}

static struct qkv_decoder_shape pass_shape(struct qkv_decoder *d, const struct qkv_decoder_pass *p) {
    struct qkv_decoder_shape s = {.rows = p->rows, .scored = p->scored, .runs = qkv_decoder_runs(d, p->rows)};
    for (size_t i = 0; i < p->rows; i++) {
        s.tokens += d->more[i];
        if (d->more[i] > s.longest) s.longest = d->more[i];
    }
    for (size_t i = 0, end; d->encoded && i < p->rows; i = end) {
        size_t tokens = 0;
        end = pass_group(d, i, p->rows);
        for (size_t k = i; k < end; k++) tokens += d->more[k];
        if (tokens > s.longest_group) s.longest_group = tokens;
        s.groups++;
    }
    return s;
}

static bool pass_same_shape(const struct qkv_decoder_shape *a, const struct qkv_decoder_shape *b) {
    return a->rows == b->rows && a->longest == b->longest && a->tokens == b->tokens && a->groups == b->groups &&
           a->longest_group == b->longest_group && a->scored == b->scored && qkv_decoder_same_runs(&a->runs, &b->runs);
}

/* ---- the calls of attention -------------------------------------------------------------------------------------- */

/* Sets the first token of each row, its number of keys with the new ones, and its pages; and those of groups. */
static void pass_fill(struct qkv_decoder *d, size_t rows) {
    size_t n = 0, group = 0;
    d->start[0] = d->group_start[0] = 0;
    for (size_t i = 0, end = 0; i < rows; i++) {
        const size_t row = d->active[i];
        d->tables[i] = d->lists[row].pages;
        d->pasts[i] = (int32_t)(d->reached[row] + d->more[i]);
        n += d->more[i];
        d->start[i + 1] = (int32_t)n;
        if (!d->encoded) continue;
        if (i == end) {
            end = pass_group(d, i, rows);
            d->group_tables[group] = d->encoded->lists[d->sources[row]].pages;
            d->group_pasts[group++] = d->encoded->lengths[d->sources[row]];
        }
        d->group_start[group] = (int32_t)n;
    }
}

/* The keys of the longest row; in a plan, all that a row can have. */
static size_t pass_keys(const struct qkv_decoder *d, size_t rows) {
    size_t keys = rows ? 0 : d->capacity;
    for (size_t i = 0; i < rows; i++) keys = qkv_max(keys, (size_t)d->pasts[i]);
    return keys;
}

/* pasts (count), of which `known` are known, or NULL where all sequences are known to have `keys` keys. */
static const int32_t *pass_pasts(const int32_t *pasts, size_t count, size_t known, size_t keys) {
    size_t i = 0;
    while (i < known && (size_t)pasts[i] == keys) i++;
    return i < count ? pasts : NULL;
}

static struct qkv_page_table pass_table(const struct qkv_page_pool *pool, const int32_t *const *lists) {
    return (struct qkv_page_table){.lists = lists, .positions = pool->positions, .count = pool->count};
}

/* What one row of a decoder says of each of its tokens. */
typedef int32_t pass_value(const struct qkv_decoder *d, size_t i);

/* The length that the rotations of the i-th row depend on. */
static int32_t pass_decided(const struct qkv_decoder *d, size_t i) {
    return d->decided[d->active[i]];
}

/* The keys of the i-th row that its tokens see in both directions. */
static int32_t pass_prefix(const struct qkv_decoder *d, size_t i) {
    return qkv_decoder_begins(d, d->active[i]) ? d->pasts[i] : 0;
}

/* (tokens): a value of the row of each token. */
static int32_t *pass_repeat(const struct qkv_decoder *d, struct qkv_tape *tape, size_t rows,
                            const struct qkv_decoder_shape *s, pass_value *value) {
    int32_t *values = qkv_tape_take_graph(tape, s->rows * sizeof *values);
    int32_t *out = qkv_tape_take(tape, s->tokens, sizeof *out);
    if (!values || !out) return NULL;
    for (size_t i = 0; i < rows; i++) values[i] = value(d, i);
    qkv_tape_failed(tape, QKV_STEP(tape->ctx, repeat, .out = out, .values = values, .start = d->start, .B = rows));
    return out;
}

/* The positions of the tokens, which are the last ones of their rows; and, where the decoder reads sources, the length
 * of each token's. */
static int32_t *pass_positions(const struct qkv_decoder *d, struct qkv_tape *tape, size_t rows,
                               const struct qkv_decoder_shape *s, int32_t **lengths) {
    struct qkv_context *ctx = tape->ctx;
    int32_t *positions = qkv_tape_take(tape, s->tokens, sizeof *positions);
    *lengths = d->encoded ? qkv_tape_take(tape, s->tokens, sizeof **lengths) : NULL;
    if (tape->status) return NULL;
    enum qkv_status status =
        QKV_STEP(ctx, last_positions, .out = positions, .lengths = d->pasts, .start = d->start, .B = rows);
    if (!status && *lengths)
        status =
            QKV_STEP(ctx, repeat, .out = *lengths, .values = d->group_pasts, .start = d->group_start, .B = s->groups);
    return qkv_tape_failed(tape, status) ? NULL : positions;
}

/* The context of a pass, whose tokens are queries by themselves. rows: whose tokens are known; 0: a plan. */
static struct qkv_forward_args pass_args(struct qkv_decoder *d, size_t rows, const struct qkv_decoder_shape *s,
                                         struct qkv_tape *tape) {
    struct qkv_stack *stack = &d->model->decoder;
    if (rows) pass_fill(d, rows);
    const size_t keys = pass_keys(d, rows);
    int32_t *lengths, *positions = pass_positions(d, tape, rows, s, &lengths);
    const int32_t *prefix = positions && d->model->spec.prefix ? pass_repeat(d, tape, rows, s, pass_prefix) : NULL;
    const struct qkv_mask mask = {.B = s->tokens, .Tq = 1, .Tk = keys, .offsets = positions, .prefix = prefix};
    const struct qkv_forward_pages pages = {.table = pass_table(d->pool, d->tables),
                                            .sequences = s->rows,
                                            .longest = s->longest,
                                            .queries = s->tokens,
                                            .start = d->start,
                                            .pasts = pass_pasts(d->pasts, s->rows, rows, keys)};
    const struct qkv_forward_attention self = {.given.mask = mask, .pages = &pages};
    const struct qkv_forward_batch batch = {
        .B = s->tokens,
        .T = 1,
        .positions = positions,
        .turn_lengths = qkv_stack_by_length(stack) ? pass_repeat(d, tape, rows, s, pass_decided) : NULL,
        .self = &self};
    struct qkv_forward_args f = qkv_forward_begin(tape, &d->model->spec, stack, &batch);
    f.cache = d->pool->attention;
    if (!d->encoded) return f;
    const struct qkv_page_pool *pool = d->encoded->pool;
    const size_t source_keys = d->encoded->T;
    const struct qkv_forward_pages sources = {
        .table = pass_table(pool, d->group_tables),
        .sequences = s->groups,
        .longest = s->longest_group,
        .queries = s->tokens,
        .start = d->group_start,
        .pasts = pass_pasts(d->group_pasts, s->groups, rows ? s->groups : 0, source_keys)};
    struct qkv_forward_attention cross = {.given.mask = mask, .pages = &sources};
    cross.given.mask.Tk = source_keys;
    cross.given.mask.lengths = lengths;
    qkv_forward_cross(&f, &cross);
    f.memory_cache = pool->attention;
    return f;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* Runs the pass, or plans it. */
static enum qkv_status pass_run(struct qkv_decoder *d, const struct qkv_decoder_pass *p,
                                const struct qkv_decoder_shape *s) {
    struct qkv_model *m = d->model;
    struct qkv_tape tape;
    qkv_arena_release(&d->arena, 0);
    qkv_arena_release(&d->graph_arena, 0);
    qkv_model_tape(m, &tape, &d->arena, &d->graph_arena, false);
    tape.runs = s->runs;
    struct qkv_forward_args args = pass_args(d, p->rows, s, &tape);
    if (tape.status) return tape.status;
    if (s->scored)
        qkv_stack_scores(&args, m, p->ids, p->chosen, s->scored, p->scores);
    else
        qkv_stack_forward(&args, p->ids);
    return tape.status;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

struct pass_plan {
    struct qkv_decoder *d;
    const struct qkv_decoder_shape *shape;
};

/* Plans a pass, and the selection of rows after it, which copies scores. */
static enum qkv_status plan_pass(void *argument) {
    const struct pass_plan *plan = argument;
    static float scores[1]; /* a plan computes none */
    struct qkv_decoder *d = plan->d;
    const struct qkv_decoder_pass p = {.scores = scores};
    enum qkv_status status = pass_run(d, &p, plan->shape);
    qkv_arena_release(&d->arena, 0);
    if (!status && d->most > 1 && !qkv_arena_take(&d->arena, d->most, (size_t)d->model->spec.vocab * sizeof(float)))
        status = QKV_MEMORY;
    return status;
}

static enum qkv_status pass_measure(struct qkv_decoder *d, const struct qkv_decoder_shape *shape, size_t *bytes) {
    struct pass_plan plan = {d, shape};
    return qkv_plan(d->model->ctx, &d->arena, "one decoding step", plan_pass, &plan, bytes);
}

/* The runs of a plan: all tokens with each adapter in turn. */
static struct qkv_adapter_runs every_run(const struct qkv_decoder *d) {
    return (struct qkv_adapter_runs){d->model->named.every, d->model->named.count};
}

enum qkv_status qkv_decoder_pass_measure(struct qkv_decoder *d, size_t chunk, size_t *bytes) {
    enum qkv_status status = QKV_OK;
    const bool whole = d->model->spec.prefix && chunk > 1; /* the first tokens of a row are one pass */
    if (chunk > d->capacity || whole) chunk = d->capacity;
    *bytes = 0;
    for (size_t i = 0, T = chunk; i < 2 && T && !status; i++, T = chunk > 1) {
        const size_t rows = whole && T > 1 ? 1 : d->rows;
        const struct qkv_decoder_shape shape = {.rows = rows,
                                                .longest = T,
                                                .tokens = rows * T,
                                                .groups = d->encoded ? rows : 0,
                                                .longest_group = T,
                                                .scored = rows,
                                                .runs = every_run(d)};
        status = pass_measure(d, &shape, bytes);
    }
    return status;
}

enum qkv_status qkv_decoder_pass_measure_mixed(struct qkv_decoder *d, size_t scored, size_t *bytes) {
    size_t most = qkv_decoder_pass_most(d);
    if (d->capacity < most / d->rows) most = d->rows * d->capacity;
    const struct qkv_decoder_shape shape = {.rows = d->rows,
                                            .longest = qkv_min(most, d->capacity),
                                            .tokens = most,
                                            .groups = d->encoded ? d->rows : 0,
                                            .longest_group = most,
                                            .scored = qkv_min(scored, most),
                                            .runs = every_run(d)};
    struct pass_plan plan = {d, &shape};
    *bytes = 0;
    return qkv_plan_at_most(d->model->ctx, &d->arena, "one decoding step", plan_pass, &plan, bytes);
}

/* Grows the memory for another shape: it is cut differently, which can take more scratch. */
static enum qkv_status pass_prepare(struct qkv_decoder *d, const struct qkv_decoder_shape *shape) {
    const size_t kept = shape->longest == 1 && shape->rows == d->rows ? 0 : 1;
    if (pass_same_shape(&d->planned[0], shape) || pass_same_shape(&d->planned[1], shape)) return QKV_OK;
    size_t bytes = 0;
    enum qkv_status status = pass_measure(d, shape, &bytes);
    if (!status && bytes > d->arena.capacity) memset(d->planned, 0, sizeof d->planned); /* the old memory goes first */
    if (!status) status = qkv_arena_room(d->model->ctx, &d->arena, bytes, "one decoding step");
    if (status) return status;
    d->planned[kept] = *shape;
    for (size_t i = 0; i < shape->runs.count; i++) d->planned_runs[kept][i] = shape->runs.list[i];
    d->planned[kept].runs.list = d->planned_runs[kept];
    return QKV_OK;
}

enum qkv_status qkv_decoder_pass_run(struct qkv_decoder *d, const struct qkv_decoder_pass *p) {
    const struct qkv_decoder_shape shape = pass_shape(d, p);
    enum qkv_status status = pass_prepare(d, &shape);
    return status ? status : pass_run(d, p, &shape);
}
