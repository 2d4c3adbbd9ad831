/* pass_output: the output of a pass: scores or hidden states, of all rows or of chosen ones, and the loss. */
#include "model/pass.h"
#include "op/steps.h"

static void set_output(struct qkv_pass *p, const char *name, const float *data, int rank, size_t a, size_t b,
                       size_t c) {
    p->output = (struct qkv_array){.name = name, .dtype = QKV_F32, .rank = rank, .shape = {a, b, c}, .data = data};
    p->output.bytes = qkv_array_elements(&p->output) * sizeof(float);
}

/* The output is (B,T,columns), or, packed or chosen, (rows,columns). */
static void set_rows_output(struct qkv_pass *p, const struct qkv_batch *b, const char *name, const float *data,
                            size_t rows, size_t columns) {
    if (b->scored || b->cu_rows)
        set_output(p, name, data, 2, rows, columns, 0);
    else
        set_output(p, name, data, 3, b->B, b->T, columns);
}

/* The rows that have a target, among those of a batch that are scored. */
static size_t count_targets(const struct qkv_batch *b, size_t rows, bool by_place) {
    size_t counted = 0;
    for (size_t n = 0; n < (by_place ? b->B * b->T : rows); n++) {
        const bool padding = by_place && b->lengths && (int64_t)(n % b->T) >= b->lengths[n / b->T];
        counted += !padding && b->targets[n] != QKV_IGNORE;
    }
    return counted;
}

/* The targets of the rows that have scores; where padding is computed, its targets become QKV_IGNORE. */
static const int32_t *make_targets(struct qkv_pass *p, const struct qkv_batch *b, size_t rows, bool by_place) {
    const bool padded = by_place && p->options.padding && b->lengths;
    p->loss_count = b->loss_count ? b->loss_count : count_targets(p->given, rows, by_place);
    if (!padded) return by_place ? qkv_rows_pack(&p->tape, p->rows, b->targets) : b->targets;
    int32_t *own = qkv_tape_take(&p->tape, rows, sizeof *own);
    if (own)
        qkv_tape_failed(&p->tape, QKV_STEP(p->model->ctx, ignore_padding, .out = own, .targets = b->targets,
                                           .lengths = b->lengths, .B = b->B, .T = b->T));
    return own;
}

/* The rows that a batch chooses, by their numbers among the rows that are computed. */
static struct qkv_tensor *choose_rows(struct qkv_pass *p, const struct qkv_batch *b, struct qkv_tensor *x) {
    const struct qkv_rows *rows = p->rows;
    int32_t *index = qkv_tape_take(&p->tape, b->scored_count, sizeof *index);
    int32_t *start = qkv_tape_take(&p->tape, rows->B + 1, sizeof *start);
    if (!index || !start || !x) return NULL;
    if (qkv_tape_failed(&p->tape, QKV_STEP(p->model->ctx, chosen_rows, .index = index, .start = start,
                                           .places = b->scored, .rows_start = rows->start, .count = b->scored_count,
                                           .B = rows->B, .T = b->cu_rows ? 0 : b->T)))
        return NULL;
    x = qkv_op_gather(&p->tape, x, index, b->scored_count);
    if (x) x->learning.order = qkv_pass_order(p, rows->B, b->scored_count, start);
    return x;
}

static void run_hidden(struct qkv_pass *p, const struct qkv_batch *b, struct qkv_tensor *x) {
    const bool spread = x && !b->scored && !b->cu_rows && p->rows->ragged;
    if (spread) x = qkv_op_scatter(&p->tape, x, p->rows->place, b->B * b->T);
    if (x) set_rows_output(p, b, "hidden", x->data, x->rows, x->columns);
    p->loss_count = b->loss_count ? b->loss_count : 1;
    if (b->output_gradient)
        qkv_op_inner_product(&p->tape, x, b->output_gradient, 1.0F / (float)p->loss_count, &p->loss);
}

/* Scores of the hidden states x, to `logits` (x->rows, V), unless it is NULL; and, with targets, their loss. */
static void run_scores(struct qkv_pass *p, const struct qkv_batch *b, struct qkv_tensor *x, const int32_t *targets,
                       float *logits) {
    struct qkv_model *m = p->model;
    if (!b->targets) {
        if (logits) qkv_head_scores(&p->tape, m, x, logits);
        return;
    }
    const struct qkv_cross_entropy_options options = {.targets = targets,
                                                      .scale = p->loss_count ? 1.0F / (float)p->loss_count : 0,
                                                      .smoothing = (float)b->label_smoothing,
                                                      .logits = logits,
                                                      .softcap = qkv_head_softcap(m),
                                                      .rows = p->loss_rows,
                                                      .places = p->rows->ragged ? p->rows->place : NULL};
    x = qkv_head_transform(&p->tape, m, x);
    qkv_op_cross_entropy(&p->tape, x, m->head_weight, qkv_tensor_or_null(&m->head.bias), &options, &p->loss);
}

/* Scores of a rectangle are moved to their places in it. */
static void run_lm(struct qkv_pass *p, const struct qkv_batch *b, struct qkv_tensor *x) {
    const bool by_place = !b->scored && !b->cu_rows;
    const size_t rows = x ? x->rows : 0, V = p->model->head_weight->rows, places = by_place ? b->B * b->T : rows;
    const int32_t *targets = b->targets ? make_targets(p, b, rows, by_place) : NULL;
    float *logits = p->options.logits ? qkv_tape_take(&p->tape, places * V, sizeof(float)) : NULL;
    run_scores(p, b, x, targets, logits);
    if (logits && by_place && p->rows) qkv_rows_spread(&p->tape, p->rows, logits, V);
    set_rows_output(p, b, "logits", logits, rows, V);
}

static void run_classifier(struct qkv_pass *p, const struct qkv_batch *b, struct qkv_tensor *x) {
    const size_t V = p->model->head_weight->rows;
    x = qkv_head_positions(&p->tape, p->model, x);
    if (x)
        x = p->rows->ragged ? qkv_op_pool_rows(&p->tape, x, p->model->spec.head.pool, p->rows)
                            : qkv_op_pool(&p->tape, x, p->model->spec.head.pool, b->B, b->T, b->lengths);
    const int32_t *targets = b->targets ? make_targets(p, b, b->B, false) : NULL;
    float *logits = qkv_tape_take(&p->tape, b->B * V, sizeof(float));
    run_scores(p, b, x, targets, logits);
    set_output(p, "logits", logits, 2, b->B, V, 0);
}

void qkv_pass_head(struct qkv_pass *p, const struct qkv_batch *b, struct qkv_tensor *x) {
    if (x && b->scored) x = choose_rows(p, b, x);
    switch (p->model->spec.head.kind) {
    case QKV_HEAD_NONE:
        run_hidden(p, b, x);
        break;
    case QKV_HEAD_CLASSIFY:
        run_classifier(p, b, x);
        break;
    default:
        run_lm(p, b, x);
    }
}
