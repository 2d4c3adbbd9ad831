/* pass: forward and backward of a whole model over a batch, in memory planned beforehand.
 *
 * The plan is the pass itself on a measuring arena: the same calls in the same order, without arithmetic. So the memory
 * of a pass is known exactly and taken once, and a step allocates nothing. */
#include "base/sized_options.h"
#include "base/profile.h"
#include "model/pass.h"
#include "model/spec.h"

#include <stdlib.h>
#include <string.h>

/* What an expert has in a graph: the pointers to its operands, which are a and b of gate, up and down, two matrices and
 * their biases, and two numbers of the router. */
enum { GRAPH_EXPERT = 10 * sizeof(void *) + 2 * sizeof(int32_t) };

size_t qkv_graph_bytes(const struct qkv_spec *spec) {
    const struct qkv_stack_spec *const stacks[] = {&spec->encoder, &spec->decoder};
    size_t layers = 0, experts = 0;
    for (size_t i = 0; i < 2; i++) {
        layers += (size_t)stacks[i]->layers;
        for (size_t k = 0; k < (size_t)stacks[i]->layers; k++)
            experts += (size_t)qkv_stack_layer(stacks[i], k)->ffn.experts.count;
    }
    return (layers + 4) * ((size_t)64 << 10) + qkv_round_up(experts * GRAPH_EXPERT, QKV_CACHE_LINE); /* of an arena */
}

/* ---- running stacks ---------------------------------------------------------------------------------------------- */

/* The arguments of a stack over rows of the batch. distance_bias counts rows, so with it positions must have no
 * gaps. */
static struct qkv_forward_args stack_args(struct qkv_pass *p, struct qkv_stack *stack, const struct qkv_rows *rows,
                                          const struct qkv_pass_side *side) {
    p->tape.order = qkv_pass_order(p, rows->B, rows->N, rows->start);
    const struct qkv_forward_attention self = {.given = qkv_pass_mask(side, rows), .keys = rows};
    struct qkv_forward_batch batch = {.rows = rows,
                                      .positions = qkv_pass_positions(p, side, rows),
                                      .key_positions = qkv_pass_key_positions(p, stack, rows, side),
                                      .types = qkv_pass_types(p, stack, side, rows),
                                      .inputs = side->features ? qkv_pass_features(&p->tape, p, stack, side, rows)
                                                               : qkv_pass_inputs(p, stack, side),
                                      .self = &self};
    batch.turn_lengths = qkv_pass_turn_lengths(p, stack, side, rows, batch.positions);
    struct qkv_forward_args args = qkv_forward_begin(&p->tape, &p->model->spec, stack, &batch);
    args.hook = p->options.hook;
    args.hook_user = p->options.hook_user;
    args.lengths = p->options.padding && !side->cu ? side->lengths : NULL; /* packed rows have no padding */
    args.documents = side->documents;
    args.sequences = (double)p->loss_sequences;
    args.checkpoint = p->options.checkpoint;
    return args;
}

/* Sets a memory that cross attention reads, whose rows are those of the source. */
static void read_memory(const struct qkv_pass *p, struct qkv_forward_args *args, struct qkv_tensor *memory,
                        const int32_t *lengths, const struct qkv_dense_mask *dense) {
    const struct qkv_rows *rows = p->source_rows;
    const struct qkv_mask mask = {.B = args->B, .Tq = args->T, .Tk = rows->T, .lengths = lengths};
    qkv_forward_cross(args, &(struct qkv_forward_attention){.given = qkv_pass_dense(&mask, dense), .keys = rows});
    args->memory = memory;
}

/* The whole forward pass, or its plan. */
static enum qkv_status pass_run(struct qkv_pass *p, const struct qkv_batch *b) {
    struct qkv_model *m = p->model;
    qkv_arena_release(&p->arena, 0);
    qkv_arena_release(&p->graph_arena, 0);
    qkv_model_tape(m, &p->tape, &p->arena, &p->graph_arena, p->options.train);
    p->tape.costs = p->costs;
    p->tape.listener = p->listener;
    p->tape.listener_user = p->listener_user;
    if (p->options.train && p->options.dropout) {
        qkv_tape_train(&p->tape, b->dropout_seed);
    }
    p->loss = (struct qkv_loss){0};
    p->loss_count = 0;
    p->loss_sequences = b->loss_sequences ? b->loss_sequences : b->B;
    p->given = b;
    qkv_pass_lend(p, b);
    if (p->options.train) qkv_weights_begin(&m->weights);
    p->rows = p->source_rows = NULL;
    qkv_pass_shape_attentions(p, b->B, b->T, b->source_T);
    const struct qkv_attend **kept = p->options.weights ? p->kept : NULL;
    struct qkv_stack *const stacks[] = {&m->encoder, &m->decoder};
    struct qkv_pass_side sides[2];
    struct qkv_tensor *x = NULL;
    for (size_t i = 0; i < 2 && !p->tape.status; i++) {
        const bool reads = i == 0 && m->decoder.spec; /* the encoder's output is the decoder's memory */
        if (!stacks[i]->spec) continue;
        sides[i] = qkv_pass_side(&p->lent, reads);
        const struct qkv_rows *rows = qkv_pass_rows(p, &sides[i], reads);
        if (!rows) break;
        *(reads ? &p->source_rows : &p->rows) = rows;
        struct qkv_forward_args args = stack_args(p, stacks[i], rows, &sides[i]);
        if (x) read_memory(p, &args, x, sides[0].lengths, &b->cross_mask);
        args.kept = kept;
        if (kept) kept += stacks[i]->spec->layers;
        qkv_profile_lap(m->ctx, "positions and masks", QKV_PROFILE_WHOLE, 0, 0);
        const int32_t *ids = qkv_pass_ids(p, &sides[i], rows);
        if (p->tape.status) break;
        x = qkv_stack_forward(&args, ids);
    }
    if (p->tape.status) x = NULL;
    qkv_pass_head(p, &p->lent, x);
    p->given = NULL;
    return p->tape.status;
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

struct shape_plan {
    struct qkv_pass *pass;
    struct qkv_batch batch;
};

static enum qkv_status plan_batch(void *argument) {
    const struct shape_plan *plan = argument;
    struct qkv_pass *p = plan->pass;
    enum qkv_status status = pass_run(p, &plan->batch);
    if (!status) status = qkv_pass_plan_weights(p);
    if (status || !p->options.train) return status;
    status = qkv_tape_backward(&p->tape);
    return status ? status : qkv_pass_plan_weights(p);
}

/* The hook of a plan, which has no numbers to show. */
static void plan_hook(void *user, const struct qkv_hook_point *point) {
    (void)user, (void)point;
}

/* Adds a batch of the shape p->shape to the plan. The plan depends on which arrays are given, not on their numbers;
 * nobody is told about it. */
static enum qkv_status pass_measure(struct qkv_pass *p, struct qkv_pass_plan *plan) {
    static const int32_t none[1];
    static const float nothing[1];
    static float gradient[1];
    static const size_t places[1];
    static const uint8_t keys[1];
    const struct qkv_pass_key *k = &p->shape;
    const bool inputs = k->inputs, source_inputs = k->source_inputs;
    const struct qkv_spec *spec = &p->model->spec;
    const bool features = !inputs && !qkv_stack_reads_tokens(spec->decoder.layers ? &spec->decoder : &spec->encoder);
    const bool source_features = !source_inputs && spec->encoder.layers && !qkv_stack_reads_tokens(&spec->encoder);
    struct shape_plan shape = {.pass = p,
                               .batch = {.B = k->B,
                                         .T = k->T,
                                         .ids = inputs || features ? NULL : none,
                                         .features = features ? nothing : NULL,
                                         .inputs = inputs ? nothing : NULL,
                                         .input_gradient = k->inputs > 1 ? gradient : NULL,
                                         .lengths = none,
                                         .positions = none,
                                         .documents = none,
                                         .types = none,
                                         .source_types = none,
                                         .targets = none,
                                         .loss_count = 1,
                                         .source_T = k->source_T,
                                         .source = source_inputs || source_features ? NULL : none,
                                         .source_features = source_features ? nothing : NULL,
                                         .source_inputs = source_inputs ? nothing : NULL,
                                         .source_input_gradient = k->source_inputs > 1 ? gradient : NULL,
                                         .source_lengths = none,
                                         .source_positions = none,
                                         .scored = k->scored ? places : NULL,
                                         .scored_count = k->scored ? k->scored - 1 : 0,
                                         .mask.data = k->masks & 1 ? keys : NULL,
                                         .source_mask.data = k->masks & 2 ? keys : NULL,
                                         .cross_mask.data = k->masks & 4 ? keys : NULL,
                                         .output_gradient = nothing}};
    qkv_gradient_listener *const listener = p->listener;
    qkv_hook *const hook = p->options.hook;
    p->costs = &plan->costs;
    p->listener = NULL;
    if (hook) p->options.hook = plan_hook;
    enum qkv_status status = qkv_plan(p->model->ctx, &p->arena, "one pass", plan_batch, &shape, &plan->bytes);
    p->costs = NULL;
    p->listener = listener;
    p->options.hook = hook;
    p->loss_count = 0;
    const double source = qkv_spec_topology(&p->model->spec) == QKV_ENCODER_DECODER ? (double)k->source_rows : 0;
    plan->positions += (double)k->rows;
    plan->tokens += (double)k->rows + source;
    return status;
}

/* A plan is for ragged rows, so it has the memory of all batches with so many rows. */
static struct qkv_pass_key planned_shape(struct qkv_pass_key shape) {
    shape.ragged = shape.source_ragged = 1;
    return shape;
}

static enum qkv_status measure_shape(struct qkv_pass *p, const struct qkv_pass_shape *s) {
    const size_t groups = p->groups < s->B ? p->groups : s->B;
    const bool both = qkv_spec_topology(&p->model->spec) == QKV_ENCODER_DECODER;
    const size_t longest = both && s->source_T > s->T ? s->source_T : s->T;
    size_t rows;
    if (p->groups) p->part.groups = groups;
    if (!qkv_multiply(s->B, longest, &rows) || rows > (size_t)1 << 30)
        return qkv_fail(p->model->ctx, QKV_ARGUMENT, "a batch of %zu rows of %zu positions is too large", s->B,
                        longest);
    p->shape = (struct qkv_pass_key){.B = s->B,
                                     .T = s->T,
                                     .source_T = s->source_T,
                                     .rows = s->rows ? s->rows : s->B * s->T,
                                     .source_rows = s->source_rows ? s->source_rows : s->B * s->source_T,
                                     .groups = p->groups ? groups : 0,
                                     .scored = p->options.scored ? p->options.scored + 1 : 0};
    p->shape = planned_shape(p->shape);
    return pass_measure(p, &p->plan);
}

/* Measures all shapes that are announced. */
static enum qkv_status measure_all(struct qkv_pass *p) {
    const struct qkv_pass_options *o = &p->options;
    enum qkv_status status = QKV_OK;
    if (!o->shapes) {
        const struct qkv_pass_shape whole = {
            .B = o->B, .T = o->T, .source_T = o->source_T, .rows = o->rows, .source_rows = o->source_rows};
        status = measure_shape(p, &whole);
        p->made = p->shape;
        return status;
    }
    for (size_t i = 0; i < o->shape_count && !status; i++) status = measure_shape(p, &o->shapes[i]);
    return status;
}

/* Sets everything of a pass but the memory that it computes in. */
static enum qkv_status pass_start(struct qkv_model *m, const struct qkv_pass_options *options, size_t groups,
                                  struct qkv_pass **out) {
    *out = NULL;
    enum qkv_status status = qkv_pass_check_options(m, options);
    if (status) return status;
    struct qkv_pass *p = qkv_allocate(m->ctx, 1, sizeof *p);
    if (!p) return QKV_MEMORY;
    p->model = m;
    p->trains = options->train && !m->planned;
    status = qkv_model_begin_use(m, p->trains);
    if (status) {
        free(p);
        return status;
    }
    p->options = *options;
    p->chosen = m->weights.chosen;
    p->groups = groups;
    *out = p;
    status = qkv_model_prepare(m, options->train);
    if (!status && options->train) {
        status = qkv_model_add_gradients(m);
    }
    if (!status && options->weights) {
        status = qkv_pass_prepare_attentions(p);
    }
    if (!status) {
        status = qkv_arena_create(m->ctx, &p->graph_arena, qkv_graph_bytes(&m->spec), "records of one pass");
    }
    return status;
}

enum qkv_status qkv_pass_measure(struct qkv_model *model, const struct qkv_pass_options *options, size_t groups,
                                 struct qkv_pass_plan *plan) {
    struct qkv_pass *p;
    enum qkv_status status = pass_start(model, options, groups, &p);
    if (!status) {
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

void qkv_pass_options_init(struct qkv_pass_options *options, size_t size) {
    static const struct qkv_pass_options usual = {.size = sizeof usual};
    qkv_options_init(options, size, &usual, sizeof usual);
}

enum qkv_status qkv_pass_create(struct qkv_model *model, const struct qkv_pass_options *options,
                                struct qkv_pass **out) {
    QKV_CALL_OUT(model ? model->ctx : NULL, out);
    QKV_NEED(qkv_call, model);
    struct qkv_pass_options own = qkv_pass_defaults();
    enum qkv_status status = QKV_TAKE_OPTIONS(qkv_call, qkv_pass_options, &own, options);
    return status ? status : qkv_pass_create_ordered(model, &own, 0, out);
}

enum qkv_status qkv_pass_create_ordered(struct qkv_model *model, const struct qkv_pass_options *options, size_t groups,
                                        struct qkv_pass **out) {
    enum qkv_status status = qkv_model_check_weights(model);
    *out = NULL;
    if (status) return status;
    status = pass_start(model, options, groups, out);
    if (!status) {
        status = measure_all(*out);
    }
    if (!status) {
        status = qkv_arena_create_numbers(model->ctx, &(*out)->arena, (*out)->plan.bytes, "one pass");
    }
    if (status) {
        qkv_pass_free(*out);
        *out = NULL;
    } else {
        (*out)->options.shapes = NULL; /* it is the caller's */
        (*out)->part.groups = 0;
    }
    return status;
}

void qkv_pass_free(struct qkv_pass *p) {
    if (!p) return;
    qkv_pass_free_attentions(p);
    qkv_arena_free(&p->arena);
    qkv_arena_free(&p->graph_arena);
    qkv_model_end_use(p->model, p->trains);
    free(p);
}

size_t qkv_pass_bytes(const struct qkv_pass *p) {
    if (!p) return 0;
    return p->arena.capacity;
}

const struct qkv_pass_plan *qkv_pass_planned(const struct qkv_pass *p) {
    return &p->plan;
}

double qkv_pass_plan_flops(const struct qkv_pass_plan *plan) {
    const struct qkv_tape_costs *c = &plan->costs;
    return c->forward.flops + c->backward.flops - c->backward.again;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* Grows the memory for another shape: a smaller batch is cut differently, which can take more scratch than the largest
 * one; and for another set of trainable weights. */
static enum qkv_status make_room(struct qkv_pass *p, const struct qkv_batch *b) {
    struct qkv_pass_plan plan = {0};
    const bool others = p->options.train && p->chosen != p->model->weights.chosen;
    p->shape = planned_shape(qkv_pass_key(p, b));
    if (others) p->made = (struct qkv_pass_key){0};
    if (!others && (!memcmp(&p->fits, &p->shape, sizeof p->fits) || !memcmp(&p->made, &p->shape, sizeof p->made)))
        return QKV_OK;
    enum qkv_status status = others ? qkv_model_add_gradients(p->model) : QKV_OK;
    if (!status) {
        status = pass_measure(p, &plan);
    }
    qkv_profile_lap(p->model->ctx, "planning", QKV_PROFILE_WHOLE, 0, 0);
    if (!status && plan.bytes > p->arena.capacity) {
        qkv_arena_free(&p->arena);
        status = qkv_arena_create_numbers(p->model->ctx, &p->arena, plan.bytes, "one pass");
    }
    p->fits = !status ? p->shape : (struct qkv_pass_key){0};
    if (!status) p->chosen = p->model->weights.chosen;
    return status;
}

enum qkv_status qkv_pass_forward(struct qkv_pass *p, const struct qkv_batch *batch) {
    QKV_CALL(p ? p->model->ctx : NULL);
    QKV_NEED(qkv_call, p);
    QKV_NEED(qkv_call, batch);
    p->forwarded = p->looks = false;
    struct qkv_batch b;
    enum qkv_status status = qkv_pass_check_batch(p, batch, &b);
    if (!status) {
        status = qkv_model_ready(p->model);
    }
    if (!status) {
        status = make_room(p, &b);
    }
    if (!status) {
        p->shape = qkv_pass_key(p, &b);
        p->model->dirty = p->model->dirty || p->options.train;
        status = pass_run(p, &b);
    }
    p->forwarded = !status && p->options.train;
    p->looks = !status;
    return status;
}

enum qkv_status qkv_pass_backward(struct qkv_pass *p) {
    QKV_CALL(p ? p->model->ctx : NULL);
    QKV_NEED(qkv_call, p);
    if (!p->forwarded)
        return qkv_fail(p->model->ctx, QKV_ARGUMENT, "backward needs a forward before it, of a pass made with train");
    p->forwarded = false;
    return qkv_tape_backward(&p->tape);
}

double qkv_pass_loss(const struct qkv_pass *p, size_t *counted) {
    if (!p) return 0;
    if (counted) {
        *counted = p->loss.counted;
    }
    return p->loss_count ? p->loss.sum / (double)p->loss_count : 0;
}

struct qkv_array qkv_pass_output(const struct qkv_pass *p) {
    if (!p) return (struct qkv_array){0};
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
