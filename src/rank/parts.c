/* parts: how the rows of a step's batch go through the pass, part by part, and how the gradients of parts are added.
 *
 * With groups (the option; kernel/order.h) the batch is cut into them by its number of rows
 * alone. A part is as many whole groups as a pass may hold and as are one node of the tree, or a few rows of one
 * group. The model's gradients are the sum of the part in work; sums that wait for their neighbours are kept in
 * further arrays of the same size. A weight that a pass uses more than once (an embedding that is the head too,
 * layers that share weights) has a sum for each use, and they are added at the end of the step. */
#include <stdlib.h>
#include <string.h>

#include "kernel/kernel.h"
#include "model/model.h"
#include "op/steps.h"
#include "rank/ranks.h"

_Static_assert((int)QKV_PART_LEVELS == (int)QKV_ORDER_LEVELS, "sums that wait have as many levels as a tree");

/* ---- the cut ---------------------------------------------------------------------------------------------------- */

static size_t parts_share(size_t rows, size_t groups, size_t g) {
    return rows / groups * g + (g < rows % groups ? g : rows % groups);
}

struct qkv_parts qkv_parts_of(const struct qkv_train_options *options, size_t rows) {
    struct qkv_parts p = {.rows = rows, .row_end = rows, .parts = qkv_min((size_t)options->accumulate, rows)};
    p.groups = p.group_last = qkv_batch_groups(options, rows);
    p.most = p.parts ? qkv_pieces(rows, p.parts) : 0;
    p.several = p.groups && p.most < rows;
    return p;
}

struct qkv_parts qkv_parts_of_node(const struct qkv_train_options *options, size_t rows,
                                   const struct qkv_rank_share *share, size_t node) {
    const size_t accumulate = (size_t)options->accumulate;
    const size_t own = parts_share(rows, share->groups, share->end) - parts_share(rows, share->groups, share->begin);
    struct qkv_parts p = {.rows = rows, .groups = share->groups, .most = qkv_pieces(own, qkv_min(accumulate, own))};
    p.several = share->groups > 1;
    p.group_first = p.group = p.group_end = share->nodes[node].begin;
    p.group_last = share->nodes[node].end;
    p.begin = p.end = parts_share(rows, p.groups, p.group_first);
    p.row_end = parts_share(rows, p.groups, p.group_last);
    return p;
}

size_t qkv_parts_most(const struct qkv_context *ctx, const struct qkv_train_options *options, size_t rows) {
    size_t begin, end;
    const size_t accumulate = (size_t)options->accumulate;
    if (qkv_context_ranks(ctx) == 1) return qkv_pieces(rows, qkv_max(qkv_min(accumulate, rows), 1));
    qkv_rank_rows(ctx, options, rows, qkv_context_rank(ctx), &begin, &end);
    return qkv_max(qkv_pieces(end - begin, qkv_max(qkv_min(accumulate, end - begin), 1)), 1);
}

/* Where the sum of the latest groups goes in the tree of its node. */
static struct qkv_order_step parts_step(const struct qkv_parts *p) {
    return qkv_order_step(p->group - p->group_first, p->group_end - p->group_first, p->group_last - p->group_first);
}

bool qkv_parts_next(struct qkv_parts *p) {
    p->begin = p->end;
    if (p->begin >= p->row_end) return false;
    const size_t k = p->count++;
    if (!p->groups) {
        p->end = (k + 1) * p->rows / p->parts;
        return true;
    }
    size_t g = p->group_end, size = 1;
    if (k && !p->whole) g = p->group; /* rows of it are left */
    p->group = g;
    p->group_end = g + 1;
    const size_t end = parts_share(p->rows, p->groups, g + 1);
    if (end - p->begin > p->most || p->begin > parts_share(p->rows, p->groups, g)) {
        p->end = end - p->begin > p->most ? p->begin + p->most : end;
        p->whole = p->end == end;
        return true;
    }
    p->whole = true;
    for (; g % (2 * size) == 0 && p->group_end < p->group_last; size *= 2) {
        const size_t next = g + 2 * size < p->group_last ? g + 2 * size : p->group_last;
        if (parts_share(p->rows, p->groups, next) - p->begin > p->most) break;
        p->group_end = next;
    }
    p->end = parts_share(p->rows, p->groups, p->group_end);
    return true;
}

/* Those that parts in turn need. */
static uint64_t parts_levels(struct qkv_parts p) {
    uint64_t levels = 0;
    if (!p.several) return 0;
    while (qkv_parts_next(&p)) {
        const struct qkv_order_step step = parts_step(&p);
        if (p.whole && !step.last) levels |= UINT64_C(1) << step.level;
    }
    return levels | UINT64_C(1) << 63; /* there are several parts */
}

uint64_t qkv_parts_levels(const struct qkv_context *ctx, const struct qkv_train_options *options, size_t rows) {
    uint64_t levels = 0;
    if (qkv_context_ranks(ctx) == 1) return parts_levels(qkv_parts_of(options, rows));
    const struct qkv_rank_share share = qkv_rank_share_of(ctx, options, rows, qkv_context_rank(ctx));
    for (size_t i = 0; i < share.count; i++) levels |= parts_levels(qkv_parts_of_node(options, rows, &share, i));
    return levels | UINT64_C(1) << 63;
}

void qkv_parts_tell(const struct qkv_parts *p, double *losses, struct qkv_pass_part *part) {
    *part =
        (struct qkv_pass_part){.groups = p->group_end - p->group, .first_row = p->begin, .losses = losses + p->group};
    for (size_t i = 0; i <= part->groups; i++) {
        const size_t row = parts_share(p->rows, p->groups, p->group + i);
        part->first[i] = row < p->begin ? 0 : row - p->begin;
    }
    part->first[part->groups] = p->end - p->begin;
}

double qkv_parts_loss(const struct qkv_parts *p, const double *losses) {
    double levels[QKV_ORDER_LEVELS], sum = 0;
    for (size_t g = 0; g < p->groups; g++) {
        const struct qkv_order_step step = qkv_order_step(g, g + 1, p->groups);
        sum = losses[g];
        for (size_t i = 0; i < step.count; i++) sum = levels[step.levels[i]] + sum;
        if (!step.last) levels[step.level] = sum;
    }
    return sum;
}

/* ---- sums that wait --------------------------------------------------------------------------------------------- */

static size_t parts_line(size_t floats) {
    const size_t line = QKV_CACHE_LINE / sizeof(float);
    return (floats + line - 1) / line * line;
}

size_t qkv_parts_later(const struct qkv_tensor *weight, size_t *uses) {
    *uses = weight->learning.requires_grad && weight->learning.times > 1 ? weight->learning.times - 1 : 0;
    return parts_line(weight->rows * weight->columns);
}

size_t qkv_parts_later_all(const struct qkv_model *model) {
    size_t floats = 0, uses;
    for (size_t i = 0; i < model->weights.tensor_count; i++) {
        const size_t stride = qkv_parts_later(model->weights.tensors[i], &uses);
        floats += stride * uses;
    }
    return floats;
}

/* Floats of later uses, bytes of their rows, and floats of all arrays with these bytes. */
static bool parts_floats(const struct qkv_model *m, uint64_t levels, size_t *later, size_t *bytes, size_t *all) {
    size_t count = 0, floats, uses;
    *later = *bytes = *all = 0;
    if (!levels) return true;
    for (int i = 0; i < 63; i++) count += levels >> i & 1;
    for (size_t i = 0; i < m->weights.tensor_count; i++) {
        const size_t stride = qkv_parts_later(m->weights.tensors[i], &uses);
        if (!qkv_multiply(stride, uses, &floats) || !qkv_add_size(*later, floats, later)) return false;
        *bytes += m->weights.tensors[i]->rows * uses; /* fewer than those floats */
    }
    *bytes = (*bytes + QKV_CACHE_LINE - 1) / QKV_CACHE_LINE * QKV_CACHE_LINE;
    return qkv_add_size(*later, *bytes / sizeof(float), &uses) && qkv_add_size(m->weights.floats, uses, &floats) &&
           qkv_multiply(floats, count, all) && qkv_add_size(*all, uses, all);
}

enum qkv_status qkv_parts_bytes(const struct qkv_model *model, uint64_t levels, size_t *bytes) {
    size_t later, rows, all;
    if (parts_floats(model, levels, &later, &rows, &all) && qkv_multiply(all, sizeof(float), bytes)) return QKV_OK;
    return qkv_fail_memory(model->ctx, SIZE_MAX, "gradients of groups");
}

/* The bytes behind an array of later uses. */
static uint8_t *parts_rows(const struct qkv_part_sums *sums, float *later) {
    return (uint8_t *)(void *)(later + sums->later_floats);
}

enum qkv_status qkv_part_sums_create(struct qkv_model *model, uint64_t levels, struct qkv_part_sums *sums) {
    size_t later, rows, all;
    *sums = (struct qkv_part_sums){.model = model};
    if (!levels) return QKV_OK;
    if (!parts_floats(model, levels, &later, &rows, &all))
        return qkv_fail_memory(model->ctx, SIZE_MAX, "gradients of groups");
    enum qkv_status status =
        qkv_arena_create_numbers(model->ctx, &sums->arena, all * sizeof(float), "gradients of groups");
    float *next = status || !all ? NULL : qkv_arena_take(&sums->arena, all, sizeof(float));
    if (!next) return status;
    sums->carry = qkv_allocate(model->ctx, 1, sizeof *sums->carry);
    if (!sums->carry) return QKV_MEMORY;
    sums->later = next;
    sums->later_floats = later;
    sums->later_bytes = rows;
    /* what they hold is cleared at first */
    status = QKV_STEP(model->ctx, clear, .to = parts_rows(sums, next), .bytes = rows, .byte = 1);
    next += later + rows / sizeof(float);
    for (size_t i = 0; i < QKV_ORDER_LEVELS; i++) {
        if (!(levels >> i & 1)) continue;
        sums->levels[i] = next;
        next += model->weights.floats + later + rows / sizeof(float);
    }
    return status;
}

void qkv_part_sums_free(struct qkv_part_sums *sums) {
    for (size_t i = 0; sums->carry && i < sums->model->weights.tensor_count; i++)
        sums->model->weights.tensors[i]->learning.carry = NULL;
    qkv_arena_free(&sums->arena);
    free(sums->carry);
}

/* What becomes of the gradients of later uses. */
enum later { LATER_CLEAR, LATER_CARRY, LATER_ADD };

/* The rows of one use, from `at` floats and `row` marks on, go to their node of the tree. */
static enum qkv_status later_carry(const struct qkv_part_sums *s, const struct qkv_order_step *step, size_t at,
                                   size_t row, const struct qkv_tensor *weight) {
    const size_t floats = s->model->weights.floats;
    float *to = step->last ? NULL : s->levels[step->level] + floats;
    struct qkv_step_carry_rows c = {.rows = weight->rows, .columns = weight->columns, .level_count = step->count};
    c.sum = s->later + at, c.sum_marks = parts_rows(s, s->later) + row;
    c.to = to ? to + at : NULL, c.to_marks = to ? parts_rows(s, to) + row : NULL;
    for (size_t i = 0; i < step->count; i++) {
        float *level = s->levels[step->levels[i]] + floats;
        c.levels[i] = level + at;
        c.level_marks[i] = parts_rows(s, level) + row;
    }
    return QKV_STEP_OF(s->model->ctx, carry_rows, &c);
}

/* Goes through later uses of all weights; `step` is of CARRY. */
static enum qkv_status parts_each_later(const struct qkv_part_sums *s, enum later what,
                                        const struct qkv_order_step *step) {
    struct qkv_context *ctx = s->model->ctx;
    const struct qkv_weights *w = &s->model->weights;
    enum qkv_status status = QKV_OK;
    size_t at = 0, row = 0;
    for (size_t i = 0, uses; i < w->tensor_count; i++) {
        const struct qkv_tensor *weight = w->tensors[i];
        const size_t stride = qkv_parts_later(weight, &uses), rows = weight->rows, columns = weight->columns;
        for (size_t use = 0; use < uses && !status; use++, at += stride, row += rows) {
            float *x = s->later + at;
            uint8_t *marks = parts_rows(s, s->later) + row;
            if (what == LATER_CARRY)
                status = later_carry(s, step, at, row, weight);
            else if (what == LATER_CLEAR)
                status = QKV_STEP(ctx, clear_rows, .rows = rows, .columns = columns, .x = x, .marks = marks);
            else
                status = QKV_STEP(ctx, add_rows, .rows = rows, .columns = columns, .x = x, .marks = marks,
                                  .to = weight->learning.gradient);
        }
    }
    return status;
}

void qkv_part_sums_begin(struct qkv_part_sums *sums, const struct qkv_parts *parts) {
    const struct qkv_weights *w = &sums->model->weights;
    const bool several = parts->several;
    float *next = sums->later;
    uint8_t *rows = several && next ? parts_rows(sums, next) : NULL;
    for (size_t i = 0, uses; i < w->tensor_count; i++) {
        struct qkv_tensor *weight = w->tensors[i];
        weight->learning.later_stride = qkv_parts_later(weight, &uses);
        weight->learning.later = several && uses ? next : NULL;
        weight->learning.later_rows = weight->learning.later ? rows : NULL;
        if (weight->learning.later) next += uses * weight->learning.later_stride, rows += uses * weight->rows;
    }
    sums->status = several ? parts_each_later(sums, LATER_CLEAR, NULL) : QKV_OK;
}

/* A part of whole groups leaves gradients of products where they wait; those in work are then only of a group that
 * comes in several parts, and of what is no product, or is used more than once. */
void qkv_part_sums_next(struct qkv_part_sums *s, const struct qkv_parts *p) {
    struct qkv_model *m = s->model;
    const bool whole = p->whole && p->begin == parts_share(p->rows, p->groups, p->group);
    if (!s->carry) return;
    *s->carry = (struct qkv_gradient_carry){0};
    for (size_t i = 0; i < m->weights.tensor_count; i++) {
        m->weights.tensors[i]->learning.carry = s->carry;
        m->weights.tensors[i]->learning.carried = false;
    }
    s->latest = *p;
    if (!p->several || !whole) return;
    const struct qkv_order_step step = parts_step(p);
    s->carry->own = m->weights.gradients;
    s->carry->to = step.last ? m->weights.gradients : s->levels[step.level];
    s->carry->count = step.count;
    for (size_t i = 0; i < step.count; i++) s->carry->earlier[i] = s->levels[step.levels[i]];
}

static enum qkv_status parts_carry_run(struct qkv_part_sums *s, const struct qkv_order_step *step, size_t at,
                                       size_t floats) {
    struct qkv_step_carry c = {.sum = s->model->weights.gradients + at, .level_count = step->count, .count = floats};
    c.to = step->last ? NULL : s->levels[step->level] + at;
    for (size_t i = 0; i < step->count; i++) c.levels[i] = s->levels[step->levels[i]] + at;
    return floats && (c.to || c.level_count) ? QKV_STEP_OF(s->model->ctx, carry, &c) : QKV_OK;
}

/* Of the gradients that are not there yet, run by run as they lie side by side. */
static enum qkv_status parts_carry_gradients(struct qkv_part_sums *s, const struct qkv_order_step *step) {
    const struct qkv_weights *w = &s->model->weights;
    enum qkv_status status = QKV_OK;
    size_t begin = 0, end = 0;
    for (size_t i = 0; i < w->tensor_count && !status; i++) {
        const struct qkv_tensor *x = w->tensors[i];
        const size_t at = x->learning.gradient ? (size_t)(x->learning.gradient - w->gradients) : 0;
        if (!x->learning.gradient || x->learning.carried) continue;
        if (at != end) status = parts_carry_run(s, step, begin, end - begin);
        if (at != end) begin = at;
        end = at + parts_line(x->rows * x->columns);
    }
    return status ? status : parts_carry_run(s, step, begin, end - begin);
}

void qkv_part_sums_complete(struct qkv_part_sums *s, struct qkv_tensor *x) {
    if (x->learning.carried || s->status) return;
    const struct qkv_order_step step = parts_step(&s->latest);
    x->learning.carried = true;
    s->status = parts_carry_run(s, &step, (size_t)(x->learning.gradient - s->model->weights.gradients),
                                parts_line(x->rows * x->columns));
}

enum qkv_status qkv_part_sums_end(struct qkv_part_sums *s, const struct qkv_parts *p) {
    if (!p->several || !p->whole || s->status) return s->status;
    const struct qkv_order_step step = parts_step(p);
    enum qkv_status status = parts_carry_gradients(s, &step);
    if (!status) status = parts_each_later(s, LATER_CARRY, &step);
    if (!status && step.last && qkv_context_ranks(s->model->ctx) == 1)
        status = parts_each_later(s, LATER_ADD, NULL); /* as a pass that is no part adds them */
    return status;
}
