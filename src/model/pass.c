/* pass: forward and backward of a whole model over a batch, in memory planned beforehand.
 *
 * The plan is the pass itself on a measuring arena: the same calls in the same order, without arithmetic. So what a pass
 * needs is known exactly, is taken once, and a step allocates nothing. */
#include "base/profile.h"
#include "model/pass.h"

#include <stdlib.h>
#include <string.h>

size_t qkv_graph_bytes(const struct qkv_spec *spec) {
    size_t layers = (size_t)spec->encoder.layers + (size_t)spec->decoder.layers;
    return (layers + 4) * ((size_t)64 << 10);
}

/* ---- inputs ----------------------------------------------------------------------------------------------------------- */

/* A stack over some of (B, T) ids, with its positions and masks. */
static struct qkv_forward_args stack_args(struct qkv_pass *p, struct qkv_stack *stack, const struct qkv_rows *rows,
                                          const struct qkv_batch *b, bool source) {
    p->tape.order = qkv_pass_order(p, rows->B, rows->N, rows->start);
    struct qkv_forward_args args = {.tape = &p->tape,
                                    .spec = &p->model->spec,
                                    .stack = stack,
                                    .B = rows->B,
                                    .T = rows->T,
                                    .rows = rows,
                                    .positions = rows->position,
                                    .hook = p->options.hook,
                                    .hook_user = p->options.hook_user,
                                    .checkpoint = p->options.checkpoint};
    const struct qkv_mask mask = qkv_pass_mask(b, rows, source);
    const int32_t *positions = qkv_pass_key_positions(p, stack, rows, b);
    args.self =
        qkv_stack_calls(&p->tape, stack, false, &mask, (struct qkv_call_rows){rows, rows}, p->model->spec.dropout);
    for (int i = 0; args.self && i < stack->spec->kind_count; i++)
        args.self[i].position = args.self[i].distance_bias.table ? positions : args.positions;
    return args;
}

/* Lets the layers read a memory of other rows too. */
static void read_memory(struct qkv_forward_args *args, struct qkv_tensor *memory, const struct qkv_rows *rows,
                        const int32_t *lengths) {
    const struct qkv_mask mask = {.B = args->B, .Tq = args->T, .Tk = rows->T, .lengths = lengths};
    args->memory = memory;
    args->cross = qkv_stack_calls(args->tape, args->stack, true, &mask, (struct qkv_call_rows){args->rows, rows},
                                  args->spec->dropout);
}

/* The targets that count, of the rows or of the sequences: where rows past a length are computed, theirs do not. */
static const int32_t *make_targets(struct qkv_pass *p, const struct qkv_batch *b, size_t rows, bool by_position) {
    size_t counted = 0;
    const bool dry = p->model->ctx->dry, padded = by_position && b->lengths && !p->rows->ragged;
    int32_t *own = padded ? qkv_tape_take(&p->tape, rows, sizeof *own) : NULL;
    for (size_t n = 0; own && !dry && n < rows; n++)
        own[n] = (int64_t)(n % b->T) >= b->lengths[n / b->T] ? QKV_IGNORE : b->targets[n];
    const int32_t *targets = padded ? own : by_position ? qkv_rows_pack(&p->tape, p->rows, b->targets) : b->targets;
    for (size_t n = 0; targets && !dry && n < rows; n++) counted += targets[n] != QKV_IGNORE;
    p->loss_count = b->loss_count ? b->loss_count : counted;
    return targets;
}

static void set_output(struct qkv_pass *p, const char *name, const float *data, int rank, size_t a, size_t b,
                       size_t c) {
    p->output = (struct qkv_array){.name = name, .dtype = QKV_F32, .rank = rank, .shape = {a, b, c}, .data = data};
    p->output.bytes = qkv_array_elements(&p->output) * sizeof(float);
}

static void run_head(struct qkv_pass *p, const struct qkv_batch *b, struct qkv_tensor *x) {
    struct qkv_model *m = p->model;
    const struct qkv_spec *spec = &m->spec;
    size_t C = (size_t)spec->d_model;
    if (spec->head.kind == QKV_HEAD_NONE) {
        if (x) {
            set_output(p, "hidden", x->data, 3, b->B, b->T, C);
        }
        p->loss_count = b->loss_count ? b->loss_count : 1;
        if (b->output_gradient) {
            qkv_op_inner_product(&p->tape, x, b->output_gradient, 1.0F / (float)p->loss_count, &p->loss);
        }
        return;
    }
    bool classify = spec->head.kind == QKV_HEAD_CLASSIFY;
    if (classify && x) {
        x = p->rows->ragged ? qkv_op_pool_rows(&p->tape, x, spec->head.pool, p->rows)
                            : qkv_op_pool(&p->tape, x, spec->head.pool, b->B, b->T, b->lengths);
    }
    size_t rows = classify || !x ? b->B : x->rows, V = m->head_weight->rows;
    struct qkv_cross_entropy_options options = {0};
    if (b->targets) {
        options.targets = make_targets(p, b, rows, !classify);
    }
    if (p->loss_count) {
        options.scale = 1.0F / (float)p->loss_count;
    }
    options.smoothing = (float)b->label_smoothing;
    if (classify || p->options.logits) {
        options.logits = qkv_tape_take(&p->tape, rows * V, sizeof(float));
    }
    qkv_op_cross_entropy(&p->tape, x, m->head_weight, qkv_tensor_or_null(&m->head.bias), &options, &p->loss);
    if (classify) {
        set_output(p, "logits", options.logits, 2, b->B, V, 0);
    } else {
        set_output(p, "logits", options.logits, 3, b->B, b->T, V);
    }
}

/* Rows past a length are computed only where they are shown: as outputs, or in attention weights. */
static bool pass_is_padded(const struct qkv_pass *p) {
    const enum qkv_head_kind head = p->model->spec.head.kind;
    return p->options.weights || head == QKV_HEAD_NONE || (head == QKV_HEAD_LM && p->options.logits);
}

static size_t count_rows(const struct qkv_pass *p, size_t B, size_t T, const int32_t *lengths) {
    return qkv_rows_count(B, T, pass_is_padded(p) ? NULL : lengths);
}

/* Of the stack that reads the source or, with `source` false, of the other one. In a dry run lengths hold nothing, and as many rows
 * as are planned are counted with. */
static const struct qkv_rows *make_rows(struct qkv_pass *p, const struct qkv_batch *b, bool source) {
    const size_t T = source ? b->source_T : b->T, planned = source ? p->planned_source_rows : p->planned_rows;
    const int32_t *lengths = source ? b->source_lengths : b->lengths;
    const size_t N = p->model->ctx->dry ? planned : count_rows(p, b->B, T, lengths);
    return qkv_rows_make(&p->tape, b->B, T, pass_is_padded(p) ? NULL : lengths, source ? NULL : b->documents, N);
}

/* The whole forward pass; with ctx->dry, its plan. */
static enum qkv_status pass_run(struct qkv_pass *p, const struct qkv_batch *b) {
    struct qkv_model *m = p->model;
    qkv_arena_release(&p->arena, 0);
    qkv_arena_release(&p->graph_arena, 0);
    qkv_tape_start(&p->tape, m->ctx, &p->arena, &p->graph_arena, p->options.train);
    p->tape.costs = p->costs;
    if (p->options.train && p->options.dropout) {
        qkv_tape_train(&p->tape, b->dropout_seed);
    }
    p->loss = (struct qkv_loss){0};
    p->loss_count = 0;
    if (m->encoder.token) m->encoder.token->given = 0;
    if (m->decoder.token) m->decoder.token->given = 0;
    p->rows = p->source_rows = NULL;
    qkv_pass_shape_attentions(p, b->B, b->T, b->source_T);
    const struct qkv_attend **kept = p->options.weights ? p->kept : NULL;
    struct qkv_stack *const stacks[] = {&m->encoder, &m->decoder};
    struct qkv_tensor *x = NULL;
    for (size_t i = 0; i < 2 && p->tape.status == QKV_OK; i++) {
        const bool reads = i == 0 && m->decoder.spec; /* what the decoder makes a memory of */
        if (!stacks[i]->spec) continue;
        const struct qkv_rows *rows = make_rows(p, b, reads);
        if (!rows) break;
        *(reads ? &p->source_rows : &p->rows) = rows;
        struct qkv_forward_args args = stack_args(p, stacks[i], rows, b, reads);
        if (x) read_memory(&args, x, p->source_rows, b->source_lengths);
        args.kept = kept;
        if (kept) kept += stacks[i]->spec->layers;
        qkv_profile_lap(m->ctx, "positions and masks", QKV_PROFILE_WHOLE, 0, 0);
        if (p->tape.status != QKV_OK) break;
        x = qkv_stack_forward(&args, qkv_rows_pack(&p->tape, rows, reads ? b->source : b->ids));
    }
    if (p->tape.status != QKV_OK) x = NULL;
    run_head(p, b, x);
    return p->tape.status;
}

/* ---- making ----------------------------------------------------------------------------------------------------------- */

struct shape_plan {
    struct qkv_pass *pass;
    struct qkv_batch batch;
};

static enum qkv_status plan_batch(void *argument) {
    const struct shape_plan *plan = argument;
    struct qkv_pass *p = plan->pass;
    enum qkv_status status = pass_run(p, &plan->batch);
    if (status == QKV_OK) status = qkv_pass_plan_weights(p);
    if (status != QKV_OK || !p->options.train) return status;
    status = qkv_tape_backward(&p->tape);
    return status ? status : qkv_pass_plan_weights(p);
}

/* Adds a batch of some shape to the plan, with as many rows as p->planned_rows and p->planned_source_rows say; `lengths` and
 * `source_lengths`: whether some may be shorter. */
static enum qkv_status pass_measure(struct qkv_pass *p, size_t B, size_t T, size_t source_T, bool lengths,
                                    bool source_lengths, struct qkv_pass_plan *plan) {
    static const int32_t none[1];
    static const float nothing[1];
    struct shape_plan shape = {.pass = p,
                               .batch = {.B = B,
                                         .T = T,
                                         .ids = none,
                                         .lengths = lengths ? none : NULL,
                                         .targets = none,
                                         .source_T = source_T,
                                         .source = none,
                                         .source_lengths = source_lengths ? none : NULL,
                                         .output_gradient = nothing}};
    p->costs = &plan->costs;
    enum qkv_status status = qkv_plan(p->model->ctx, &p->arena, "one pass", plan_batch, &shape, &plan->bytes);
    p->costs = NULL;
    plan->positions += (double)(B * T);
    plan->tokens += (double)(B * (qkv_spec_topology(&p->model->spec) == QKV_ENCODER_DECODER ? T + source_T : T));
    return status;
}

static enum qkv_status check_options(struct qkv_model *m, const struct qkv_pass_options *o) {
    size_t context = (size_t)m->spec.context;
    bool both = qkv_spec_topology(&m->spec) == QKV_ENCODER_DECODER;
    if (o->B < 1 || o->T < 1 || (both && o->source_T < 1)) {
        return qkv_fail(m->ctx, QKV_ARGUMENT, "a batch of %zu rows of %zu positions is empty", o->B,
                        both && o->T ? o->source_T : o->T);
    }
    if (o->T > context || (both && o->source_T > context)) {
        return qkv_fail(m->ctx, QKV_ARGUMENT, "a row of %zu positions is longer than the model's context of %zu",
                        o->T > context ? o->T : o->source_T, context);
    }
    if (o->checkpoint && o->weights) {
        return qkv_fail(
            m->ctx, QKV_ARGUMENT,
            "a pass that checkpoints its activations keeps nothing to make attention weights from; choose one "
            "of checkpoint and weights");
    }
    if (o->checkpoint && o->hook) {
        return qkv_fail(
            m->ctx, QKV_ARGUMENT,
            "a pass that checkpoints its activations runs its blocks twice, so a tap would hear them twice; "
            "choose one of checkpoint and tap");
    }
    for (size_t i = 0; i < o->shape_count && o->shapes; i++) {
        const struct qkv_pass_shape *s = &o->shapes[i];
        if (s->B < 1 || s->T < 1 || s->B > o->B || s->T > o->T || s->source_T > o->source_T ||
            (both && s->source_T < 1)) {
            return qkv_fail(m->ctx, QKV_ARGUMENT,
                            "shape %zu is (%zu,%zu) with a source of %zu, not within (%zu,%zu) "
                            "and %zu",
                            i, s->B, s->T, s->source_T, o->B, o->T, o->source_T);
        }
    }
    return QKV_OK;
}

static enum qkv_status measure_shape(struct qkv_pass *p, size_t B, size_t T, size_t source_T) {
    if (p->groups) p->part.groups = p->groups < B ? p->groups : B;
    size_t longest = qkv_spec_topology(&p->model->spec) == QKV_ENCODER_DECODER && source_T > T ? source_T : T, rows;
    if (!qkv_multiply(B, longest, &rows) || rows > (size_t)1 << 30) {
        return qkv_fail(p->model->ctx, QKV_ARGUMENT, "a batch of %zu rows of %zu positions is too large", B, longest);
    }
    p->planned_rows = B * T, p->planned_source_rows = B * source_T;
    return pass_measure(p, B, T, source_T, true, true, &p->plan);
}

/* All shapes that will come. */
static enum qkv_status measure_all(struct qkv_pass *p) {
    const struct qkv_pass_options *o = &p->options;
    enum qkv_status status = QKV_OK;
    if (!o->shapes) {
        return measure_shape(p, o->B, o->T, o->source_T);
    }
    for (size_t i = 0; i < o->shape_count && status == QKV_OK; i++) {
        status = measure_shape(p, o->shapes[i].B, o->shapes[i].T, o->shapes[i].source_T);
    }
    return status;
}

/* Everything of a pass but the memory it computes in. */
static enum qkv_status pass_start(struct qkv_model *m, const struct qkv_pass_options *options, size_t groups,
                                  struct qkv_pass **out) {
    *out = NULL;
    enum qkv_status status = check_options(m, options);
    if (status != QKV_OK) {
        return status;
    }
    struct qkv_pass *p = qkv_allocate(m->ctx, 1, sizeof *p);
    if (!p) {
        return QKV_MEMORY;
    }
    p->model = m;
    p->options = *options;
    p->chosen = m->weights.chosen;
    p->groups = groups;
    *out = p;
    status = qkv_model_add_packed(m, options->train);
    if (status == QKV_OK && options->train) {
        status = qkv_model_add_gradients(m);
    }
    if (status == QKV_OK && options->weights) {
        status = qkv_pass_prepare_attentions(p);
    }
    if (status == QKV_OK) {
        status = qkv_arena_create(m->ctx, &p->graph_arena, qkv_graph_bytes(&m->spec), "records of one pass");
    }
    return status;
}

enum qkv_status qkv_pass_measure(struct qkv_model *model, const struct qkv_pass_options *options, size_t groups,
                                 struct qkv_pass_plan *plan) {
    struct qkv_pass *p;
    enum qkv_status status = pass_start(model, options, groups, &p);
    if (status == QKV_OK) {
        status = measure_all(p);
        *plan = p->plan;
    }
    qkv_pass_free(p);
    return status;
}

struct qkv_pass_shape qkv_pass_shape_defaults(void) {
    return (struct qkv_pass_shape){0};
}

struct qkv_batch qkv_batch_defaults(void) {
    return (struct qkv_batch){0};
}

struct qkv_pass_options qkv_pass_defaults(void) {
    return (struct qkv_pass_options){0};
}

enum qkv_status qkv_pass_create(struct qkv_model *model, const struct qkv_pass_options *options,
                                struct qkv_pass **out) {
    QKV_CALL(model->ctx);
    return qkv_pass_create_ordered(model, options, 0, out);
}

enum qkv_status qkv_pass_create_ordered(struct qkv_model *model, const struct qkv_pass_options *options, size_t groups,
                                        struct qkv_pass **out) {
    enum qkv_status status = qkv_model_check_weights(model);
    *out = NULL;
    if (status) return status;
    status = pass_start(model, options, groups, out);
    if (status == QKV_OK) {
        status = measure_all(*out);
    }
    if (status == QKV_OK) {
        status = qkv_arena_create(model->ctx, &(*out)->arena, (*out)->plan.bytes, "one pass");
    }
    if (status != QKV_OK) {
        qkv_pass_free(*out);
        *out = NULL;
    } else {
        (*out)->options.shapes = NULL; /* the caller's */
        (*out)->part.groups = 0;
    }
    return status;
}

void qkv_pass_free(struct qkv_pass *p) {
    if (!p) {
        return;
    }
    qkv_pass_free_attentions(p);
    qkv_arena_free(&p->arena);
    qkv_arena_free(&p->graph_arena);
    free(p);
}

size_t qkv_pass_bytes(const struct qkv_pass *p) {
    return p->arena.capacity;
}

const struct qkv_pass_plan *qkv_pass_planned(const struct qkv_pass *p) {
    return &p->plan;
}

double qkv_pass_plan_flops(const struct qkv_pass_plan *plan) {
    const struct qkv_tape_costs *c = &plan->costs;
    return c->forward.flops + c->backward.flops - c->backward.again;
}

/* ---- running ------------------------------------------------------------------------------------------------------------ */

static enum qkv_status check_lengths(struct qkv_pass *p, const char *what, const int32_t *lengths, size_t B, size_t T) {
    for (size_t b = 0; lengths && b < B; b++) {
        if (lengths[b] < 0 || (size_t)lengths[b] > T) {
            return qkv_fail(p->model->ctx, QKV_ARGUMENT, "%s of row %zu is %d, but a row has 0 to %zu positions", what,
                            b, lengths[b], T);
        }
    }
    return QKV_OK;
}

static enum qkv_status check_batch(struct qkv_pass *p, const struct qkv_batch *b) {
    const struct qkv_pass_options *o = &p->options;
    struct qkv_context *ctx = p->model->ctx;
    bool both = qkv_spec_topology(&p->model->spec) == QKV_ENCODER_DECODER;
    if (b->B < 1 || b->T < 1 || b->B > o->B || b->T > o->T ||
        (both && (b->source_T < 1 || b->source_T > o->source_T))) {
        return qkv_fail(ctx, QKV_SHAPE,
                        "the batch is (%zu,%zu) with a source of %zu, but the pass was made for (%zu,%zu) and %zu",
                        b->B, b->T, b->source_T, o->B, o->T, o->source_T);
    }
    if (!b->ids || (both && !b->source)) {
        return qkv_fail(ctx, QKV_ARGUMENT, "the batch has no %s", b->ids ? "source ids" : "ids");
    }
    char shown[QKV_REAL_TEXT];
    if (!(b->label_smoothing >= 0 && b->label_smoothing < 1)) {
        return qkv_fail(ctx, QKV_ARGUMENT, "label_smoothing is %s; it must be at least 0 and less than 1",
                        qkv_real_text(shown, b->label_smoothing));
    }
    enum qkv_status status = check_lengths(p, "the length", b->lengths, b->B, b->T);
    if (status == QKV_OK) status = qkv_pass_check_mask(p, b);
    return status == QKV_OK && both ? check_lengths(p, "the source length", b->source_lengths, b->B, b->source_T)
                                    : status;
}

/* Work on a smaller batch is cut differently, which can take more scratch than the largest batch needs; so can work for other
 * weights that learn. */
static enum qkv_status make_room(struct qkv_pass *p, const struct qkv_batch *b) {
    const struct qkv_pass_options *o = &p->options;
    struct qkv_pass_plan plan = {0};
    const bool others = o->train && p->chosen != p->model->weights.chosen;
    const bool both = qkv_spec_topology(&p->model->spec) == QKV_ENCODER_DECODER;
    p->planned_rows = count_rows(p, b->B, b->T, b->lengths);
    p->planned_source_rows = both ? count_rows(p, b->B, b->source_T, b->source_lengths) : b->B * b->source_T;
    const bool whole = p->planned_rows == b->B * b->T && p->planned_source_rows == b->B * b->source_T;
    const bool largest = o->shape_count == 0 && b->B == o->B && b->T == o->T && b->source_T == o->source_T && whole;
    const bool fits = p->fits.B == b->B && p->fits.T == b->T && p->fits.source_T == b->source_T &&
                      p->fits.groups == p->part.groups && p->fits.rows == p->planned_rows &&
                      p->fits.source_rows == p->planned_source_rows;
    if (!others && (fits || (largest && !p->part.groups))) {
        return QKV_OK;
    }
    enum qkv_status status = others ? qkv_model_add_gradients(p->model) : QKV_OK;
    if (status == QKV_OK) {
        status = pass_measure(p, b->B, b->T, b->source_T, b->lengths != NULL, b->source_lengths != NULL, &plan);
    }
    qkv_profile_lap(p->model->ctx, "planning", QKV_PROFILE_WHOLE, 0, 0);
    if (status == QKV_OK && plan.bytes > p->arena.capacity) {
        qkv_arena_free(&p->arena);
        status = qkv_arena_create(p->model->ctx, &p->arena, plan.bytes, "one pass");
    }
    p->fits.B = status == QKV_OK ? b->B : 0;
    p->fits.T = b->T;
    p->fits.source_T = b->source_T;
    p->fits.groups = p->part.groups;
    p->fits.rows = p->planned_rows, p->fits.source_rows = p->planned_source_rows;
    if (status == QKV_OK && largest) {
        p->chosen = p->model->weights.chosen;
    }
    return status;
}

enum qkv_status qkv_pass_forward(struct qkv_pass *p, const struct qkv_batch *batch) {
    QKV_CALL(p->model->ctx);
    p->forwarded = p->looks = false;
    enum qkv_status status = check_batch(p, batch);
    if (status == QKV_OK) {
        status = qkv_model_check_file(p->model);
    }
    if (status == QKV_OK) {
        status = make_room(p, batch);
    }
    if (status == QKV_OK) {
        p->model->dirty = p->model->dirty || p->options.train;
        status = pass_run(p, batch);
    }
    p->forwarded = status == QKV_OK && p->options.train;
    p->looks = status == QKV_OK;
    return status;
}

enum qkv_status qkv_pass_backward(struct qkv_pass *p) {
    QKV_CALL(p->model->ctx);
    if (!p->forwarded) {
        return qkv_fail(p->model->ctx, QKV_ARGUMENT, "backward needs a forward before it, of a pass made with train");
    }
    p->forwarded = false;
    return qkv_tape_backward(&p->tape);
}

double qkv_pass_loss(const struct qkv_pass *p, size_t *counted) {
    if (counted) {
        *counted = p->loss.counted;
    }
    return p->loss_count ? p->loss.sum / (double)p->loss_count : 0;
}

struct qkv_array qkv_pass_output(const struct qkv_pass *p) {
    return p->output;
}

const char *qkv_hook_name(enum qkv_hook_kind kind) {
    static const char *const names[] = {
#define NAME(name, text, help) text,
        QKV_HOOK_LIST(NAME)
#undef NAME
    };
    return (size_t)kind < sizeof names / sizeof *names ? names[kind] : "";
}
