/* decoder_pass: runs the decoder over new tokens of some rows, and takes the memory for that.
 *
 * The tokens are in one list, row by row; attention reads each row's keys and values from its pages, and those of its
 * source from the encoder's pages. Consecutive rows of one source are the queries of one sequence of cross
 * attention. */
#include "model/decode.h"
#include "model/spec.h"

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

/* The number of rows of `active` from i on that have the same source. */
static size_t pass_group(const struct qkv_decoder *d, size_t i, size_t rows) {
    size_t end = i + 1;
    while (end < rows && d->sources[d->active[end]] == d->sources[d->active[i]]) end++;
    return end;
}

static struct qkv_decoder_shape pass_shape(const struct qkv_decoder *d, const struct qkv_decoder_pass *p) {
    struct qkv_decoder_shape s = {.rows = p->rows, .scored = p->scored};
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
           a->longest_group == b->longest_group && a->scored == b->scored;
}

/* ---- the calls of attention -------------------------------------------------------------------------------------- */

/* Sets the positions of each row's tokens, its number of keys with them, and its pages; and the common prefix. */
static void pass_fill(struct qkv_decoder *d, size_t rows, int32_t *positions, int32_t *lengths, int32_t *prefix) {
    size_t n = 0, group = 0;
    d->start[0] = d->group_start[0] = 0;
    for (size_t i = 0, end = 0; i < rows; i++) {
        const size_t row = d->active[i], first = d->reached[row];
        d->tables[i] = d->lists[row].pages;
        d->pasts[i] = (int32_t)(first + d->more[i]);
        for (size_t t = 0; t < d->more[i]; t++, n++) {
            positions[n] = (int32_t)(first + t);
            if (lengths) lengths[n] = d->encoded->lengths[d->sources[row]];
            if (prefix) prefix[n] = qkv_decoder_begins(d, row) ? d->pasts[i] : 0;
        }
        d->start[i + 1] = (int32_t)n;
        if (!lengths) continue;
        if (i == end) {
            end = pass_group(d, i, rows);
            d->group_tables[group] = d->encoded->lists[d->sources[row]].pages;
            d->group_pasts[group++] = d->encoded->lengths[d->sources[row]];
        }
        d->group_start[group] = (int32_t)n;
    }
}

/* pasts, or NULL where all rows have `keys` keys. */
static const int32_t *pass_pasts(const struct qkv_decoder *d, const int32_t *pasts, size_t rows, size_t keys) {
    size_t i = 0;
    while (!d->model->ctx->dry && i < rows && (size_t)pasts[i] == keys) i++;
    return i < rows ? pasts : NULL;
}

/* Changes calls for single tokens to calls for `rows` sequences whose keys are in pages. */
static void pass_page(const struct qkv_decoder *d, struct qkv_attend *calls, size_t rows, size_t longest, size_t tokens,
                      const int32_t *start, const int32_t *pasts, const struct qkv_page_pool *pool,
                      const int32_t *const *tables) {
    for (int i = 0; calls && i < d->model->spec.decoder.kind_count; i++) {
        calls[i].B = rows;
        calls[i].Tq = longest;
        calls[i].q_start = rows * longest == tokens ? NULL : start;
        calls[i].q_rows = tokens;
        calls[i].pasts = pass_pasts(d, pasts, rows, calls[i].Tk);
        calls[i].pages = (struct qkv_page_table){.lists = tables, .positions = pool->positions, .count = pool->count};
    }
}

/* The rotations of each row's tokens, by the length that its row depends on. */
static const struct qkv_turns *pass_turns(const struct qkv_decoder *d, const struct qkv_decoder_shape *s,
                                          struct qkv_tape *tape, const int32_t *positions) {
    int32_t *lengths = qkv_tape_take(tape, s->tokens, sizeof *lengths), *to = lengths;
    for (size_t i = 0; lengths && !tape->ctx->dry && i < s->rows; i++)
        for (size_t t = 0; t < d->more[i]; t++) *to++ = d->decided[d->active[i]];
    return lengths ? qkv_stack_turns(tape, &d->model->decoder, s->tokens, positions, lengths) : NULL;
}

static void pass_set_calls(struct qkv_decoder *d, const struct qkv_decoder_shape *s, struct qkv_forward_args *f) {
    const struct qkv_stack *stack = &d->model->decoder;
    const bool dry = d->model->ctx->dry;
    int32_t *positions = qkv_tape_take(f->tape, s->tokens, sizeof *positions);
    int32_t *lengths = d->encoded ? qkv_tape_take(f->tape, s->tokens, sizeof *lengths) : NULL;
    int32_t *prefix = d->model->spec.prefix ? qkv_tape_take(f->tape, s->tokens, sizeof *prefix) : NULL;
    if (f->tape->status) return;
    struct qkv_mask mask = {.B = s->tokens, .Tq = 1, .Tk = d->capacity, .offsets = positions};
    if (!dry) {
        mask.prefix = prefix;
        pass_fill(d, s->rows, positions, lengths, prefix);
        mask.Tk = 0;
        for (size_t i = 0; i < s->rows; i++)
            if ((size_t)d->pasts[i] > mask.Tk) mask.Tk = (size_t)d->pasts[i];
    }
    f->positions = positions;
    if (qkv_stack_by_length(stack)) f->turns = pass_turns(d, s, f->tape, positions);
    f->self = qkv_stack_calls(f->tape, stack, false, &mask, (struct qkv_call_rows){0}, 0);
    qkv_stack_distances(f);
    for (int i = 0; f->self && i < stack->spec->kind_count; i++) f->self[i].position = positions;
    pass_page(d, f->self, s->rows, s->longest, s->tokens, d->start, d->pasts, d->pool, d->tables);
    if (!d->encoded) return;
    mask.Tk = d->encoded->T;
    mask.lengths = lengths;
    f->cross = qkv_stack_calls(f->tape, stack, true, &mask, (struct qkv_call_rows){0}, 0);
    pass_page(d, f->cross, s->groups, s->longest_group, s->tokens, d->group_start, d->group_pasts, d->encoded->pool,
              d->group_tables);
    f->memory_cache = d->encoded->pool->attention;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* Runs the pass; with ctx->dry, plans it. */
static enum qkv_status pass_run(struct qkv_decoder *d, const struct qkv_decoder_pass *p,
                                const struct qkv_decoder_shape *s) {
    struct qkv_model *m = d->model;
    struct qkv_tape tape;
    qkv_arena_release(&d->arena, 0);
    qkv_arena_release(&d->graph_arena, 0);
    qkv_tape_start(&tape, m->ctx, &d->arena, &d->graph_arena, false);
    struct qkv_forward_args args = {
        .tape = &tape, .spec = &m->spec, .stack = &m->decoder, .B = s->tokens, .T = 1, .cache = d->pool->attention};
    pass_set_calls(d, s, &args);
    if (tape.status) return tape.status;
    struct qkv_tensor *x = qkv_stack_forward(&args, p->ids);
    if (s->scored) {
        struct qkv_loss unused;
        if (s->scored < s->tokens) x = qkv_op_gather(&tape, x, p->chosen, s->scored); /* else all tokens, in order */
        const struct qkv_cross_entropy_options options = {.logits = p->scores, .softcap = qkv_head_softcap(m)};
        x = qkv_head_transform(&tape, m, x);
        qkv_op_cross_entropy(&tape, x, m->head_weight, qkv_tensor_or_null(&m->head.bias), &options, &unused);
    }
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
    struct qkv_decoder *d = plan->d;
    const struct qkv_decoder_pass p = {.scores = d->scores};
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
                                                .scored = rows};
        status = pass_measure(d, &shape, bytes);
    }
    return status;
}

/* Grows the memory for another shape: it is cut differently, which can take more scratch. */
static enum qkv_status pass_prepare(struct qkv_decoder *d, const struct qkv_decoder_shape *shape) {
    const bool single = shape->longest == 1 && shape->rows == d->rows;
    if (pass_same_shape(&d->planned[0], shape) || pass_same_shape(&d->planned[1], shape)) return QKV_OK;
    size_t bytes = 0;
    enum qkv_status status = pass_measure(d, shape, &bytes);
    if (!status) status = qkv_arena_room(d->model->ctx, &d->arena, bytes, "one decoding step");
    if (!status) d->planned[single ? 0 : 1] = *shape;
    return status;
}

enum qkv_status qkv_decoder_pass_run(struct qkv_decoder *d, const struct qkv_decoder_pass *p) {
    const struct qkv_decoder_shape shape = pass_shape(d, p);
    enum qkv_status status = pass_prepare(d, &shape);
    return status ? status : pass_run(d, p, &shape);
}
