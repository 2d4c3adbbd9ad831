/* pass_batch: the input of a pass: checks its options and batches, and makes the rows that stacks read. */
#include "model/pass.h"
#include "model/spec.h"
#include "op/steps.h"

static bool pass_is_pair(const struct qkv_pass *p) {
    return qkv_spec_topology(&p->model->spec) == QKV_ENCODER_DECODER;
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

static enum qkv_status check_planned_rows(struct qkv_context *ctx, const char *what, size_t rows, size_t B, size_t T) {
    if (!rows || (rows + B - 1) / B <= T) return QKV_OK;
    return qkv_fail(ctx, QKV_ARGUMENT, "%zu %s are more than %zu sequences of at most %zu positions have", rows, what,
                    B, T);
}

static enum qkv_status check_shapes(struct qkv_model *m, const struct qkv_pass_options *o, bool both) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; !status && i < o->shape_count && o->shapes; i++) {
        const struct qkv_pass_shape *s = &o->shapes[i];
        if (s->B < 1 || s->T < 1 || s->B > o->B || s->T > o->T || s->source_T > o->source_T ||
            (both && s->source_T < 1))
            return qkv_fail(m->ctx, QKV_ARGUMENT,
                            "shape %zu is (%zu,%zu) with a source of %zu, not within (%zu,%zu) "
                            "and %zu",
                            i, s->B, s->T, s->source_T, o->B, o->T, o->source_T);
        status = check_planned_rows(m->ctx, "rows", s->rows, s->B, s->T);
        if (!status && both) status = check_planned_rows(m->ctx, "source rows", s->source_rows, s->B, s->source_T);
    }
    return status;
}

enum qkv_status qkv_pass_check_options(struct qkv_model *m, const struct qkv_pass_options *o) {
    size_t context = (size_t)m->spec.context;
    bool both = qkv_spec_topology(&m->spec) == QKV_ENCODER_DECODER;
    if (o->B < 1 || o->T < 1 || (both && o->source_T < 1))
        return qkv_fail(m->ctx, QKV_ARGUMENT, "a batch of %zu rows of %zu positions is empty", o->B,
                        both && o->T ? o->source_T : o->T);
    const size_t sources = (size_t)qkv_stack_context(&m->spec, &m->spec.encoder);
    if (o->T > context || (both && o->source_T > sources))
        return qkv_fail(m->ctx, QKV_ARGUMENT, "a row of %zu positions is longer than the model's context of %zu",
                        o->T > context ? o->T : o->source_T, o->T > context ? context : sources);
    if (o->checkpoint && o->weights)
        return qkv_fail(
            m->ctx, QKV_ARGUMENT,
            "a pass that checkpoints its activations saves nothing to compute attention weights from; choose one "
            "of checkpoint and weights");
    if (o->checkpoint && o->hook)
        return qkv_fail(
            m->ctx, QKV_ARGUMENT,
            "a pass that checkpoints its activations runs its blocks twice, so a hook would be called twice; "
            "choose one of checkpoint and hook");
    if (o->scored && m->spec.head.kind == QKV_HEAD_CLASSIFY)
        return qkv_fail(m->ctx, QKV_ARGUMENT, "a pass of a classifier cannot have %zu chosen rows: it scores sequences",
                        o->scored);
    enum qkv_status status = check_planned_rows(m->ctx, "rows", o->rows, o->B, o->T);
    if (!status && both) status = check_planned_rows(m->ctx, "source rows", o->source_rows, o->B, o->source_T);
    return status ? status : check_shapes(m, o, both);
}

/* ---- batches ----------------------------------------------------------------------------------------------------- */

/* The names of a side's fields in messages, and the limits that the pass was made for. */
struct side_limits {
    const char *rows, *cu, *lengths, *length, *ids, *inputs;
    size_t T, N; /* N 0: all rows of B·T */
};

static struct side_limits side_limits(const struct qkv_pass *p, bool source) {
    const struct qkv_pass_options *o = &p->options;
    if (source)
        return (struct side_limits){"source rows", "cu_source",     "source_lengths", "the source length",
                                    "source ids",  "source_inputs", o->source_T,      o->source_rows};
    return (struct side_limits){"rows", "cu_rows", "lengths", "the length", "ids", "inputs", o->T, o->rows};
}

/* Checks cumulative rows; finds the longest sequence where the caller has not given it. */
static enum qkv_status check_packed(struct qkv_pass *p, struct qkv_pass_side *s, const struct side_limits *l,
                                    size_t context) {
    struct qkv_context *ctx = p->model->ctx;
    size_t longest = 0;
    if (s->lengths)
        return qkv_fail(ctx, QKV_ARGUMENT, "%s gives the length of each sequence already; leave %s out", l->cu,
                        l->lengths);
    if (s->cu[0])
        return qkv_fail(ctx, QKV_ARGUMENT, "%s begins at %d; the first sequence begins at row 0", l->cu, s->cu[0]);
    for (size_t b = 0; b < s->B; b++) {
        if (s->cu[b + 1] < s->cu[b])
            return qkv_fail(ctx, QKV_ARGUMENT,
                            "%s falls from %d to %d at sequence %zu; each sequence follows the one before it", l->cu,
                            s->cu[b], s->cu[b + 1], b);
        const size_t length = (size_t)(s->cu[b + 1] - s->cu[b]);
        if (length > context)
            return qkv_fail(ctx, QKV_ARGUMENT, "sequence %zu has %zu %s, more than the model's context of %zu", b,
                            length, l->rows, context);
        if (s->T && length > s->T)
            return qkv_fail(ctx, QKV_ARGUMENT, "sequence %zu has %zu %s, more than the given maximum of %zu", b, length,
                            l->rows, s->T);
        if (length > longest) longest = length;
    }
    if ((size_t)s->cu[s->B] != s->N)
        return qkv_fail(ctx, QKV_ARGUMENT, "%s ends at %d, but the batch has %zu %s", l->cu, s->cu[s->B], s->N,
                        l->rows);
    if (!s->T) s->T = longest ? longest : 1;
    return QKV_OK;
}

static enum qkv_status check_lengths(struct qkv_pass *p, const struct qkv_pass_side *s, const struct side_limits *l) {
    for (size_t b = 0; s->lengths && b < s->B; b++)
        if (s->lengths[b] < 0 || (size_t)s->lengths[b] > s->T)
            return qkv_fail(p->model->ctx, QKV_ARGUMENT, "%s of row %zu is %d, but a row has 0 to %zu positions",
                            l->length, b, s->lengths[b], s->T);
    return QKV_OK;
}

static size_t side_length(const struct qkv_pass_side *s, size_t b) {
    return s->cu ? (size_t)(s->cu[b + 1] - s->cu[b]) : s->lengths ? (size_t)s->lengths[b] : s->T;
}

/* The rows that are computed. */
static size_t side_rows(const struct qkv_pass *p, const struct qkv_pass_side *s) {
    return s->cu ? s->N : qkv_rows_count(s->B, s->T, p->options.padding ? NULL : s->lengths);
}

/* Positions of a sequence must rise and be within the model's tables. */
static enum qkv_status check_positions(struct qkv_pass *p, const struct qkv_pass_side *s,
                                       const struct qkv_stack *stack) {
    struct qkv_context *ctx = p->model->ctx;
    const int32_t context = qkv_stack_context(&p->model->spec, stack->spec);
    const bool gapless = s->positions && qkv_pass_counts_rows(stack);
    for (size_t b = 0; s->positions && b < s->B; b++) {
        const int32_t *at = s->positions + (s->cu ? (size_t)s->cu[b] : b * s->T);
        for (size_t t = 0; t < side_length(s, b); t++) {
            if (at[t] < 0 || at[t] >= context)
                return qkv_fail(ctx, QKV_ARGUMENT,
                                "position %d of sequence %zu is outside the model's context: 0 to %d", at[t], b,
                                context - 1);
            const int32_t *documents = s->documents ? s->documents + b * s->T + t : NULL;
            if (!t || (documents && documents[0] != documents[-1])) continue;
            if (at[t] <= at[t - 1])
                return qkv_fail(
                    ctx, QKV_ARGUMENT,
                    "positions out of order: sequence %zu goes from %d to %d; they must rise from row to row", b,
                    at[t - 1], at[t]);
            if (gapless && at[t] != at[t - 1] + 1)
                return qkv_fail(ctx, QKV_ARGUMENT,
                                "positions of sequence %zu go from %d to %d, but a bias by distance (alibi) counts "
                                "rows; give positions without gaps",
                                b, at[t - 1], at[t]);
        }
    }
    return QKV_OK;
}

enum qkv_status qkv_pass_check_features(struct qkv_context *ctx, const struct qkv_stack *stack,
                                        struct qkv_pass_side *s) {
    const struct qkv_input_spec *input = &stack->spec->embed.input;
    const char *kind = qkv_input_text(input->kind);
    const size_t patches = qkv_stack_patches(stack->spec);
    if (input->kind == QKV_INPUT_TOKENS)
        return qkv_fail(ctx, QKV_ARGUMENT, "the batch has features, but the %s reads tokens; give ids", stack->name);
    if (s->ids || s->inputs)
        return qkv_fail(ctx, QKV_ARGUMENT, "the batch has features and %s; give one of them",
                        s->ids ? "ids" : "inputs");
    if (s->cu && input->kind != QKV_INPUT_VECTORS)
        return qkv_fail(ctx, QKV_ARGUMENT, "the batch is packed, but %s are not; give a rectangle", kind);
    if (patches && (s->T != patches || s->lengths))
        return qkv_fail(ctx, QKV_SHAPE,
                        "the batch has sequences of %zu positions%s, but an image of the %s has %zu, always", s->T,
                        s->lengths ? " with lengths" : "", stack->name, patches);
    if (input->kind != QKV_INPUT_FRAMES) return QKV_OK;
    const size_t stride = (size_t)input->stride;
    if (!s->frames) s->frames = s->T * stride;
    if (s->frames <= s->T * stride && s->frames > (s->T - 1) * stride) return QKV_OK;
    return qkv_fail(ctx, QKV_SHAPE,
                    "the batch has %zu frames, but %zu positions are made of %zu to %zu (a stride of %zu)", s->frames,
                    s->T, (s->T - 1) * stride + 1, s->T * stride, stride);
}

/* Checks a side; sets T of a packed batch, and the number of frames. */
static enum qkv_status check_side(struct qkv_pass *p, struct qkv_pass_side *s, bool source) {
    struct qkv_context *ctx = p->model->ctx;
    const struct side_limits l = side_limits(p, source);
    const struct qkv_stack *stack = source || !p->model->decoder.spec ? &p->model->encoder : &p->model->decoder;
    if (s->ids && !qkv_stack_reads_tokens(stack->spec))
        return qkv_fail(ctx, QKV_ARGUMENT, "the batch has %s, but the %s reads %s; give features", l.ids, stack->name,
                        qkv_input_text(stack->spec->embed.input.kind));
    if (!s->features && !s->inputs && !qkv_stack_reads_tokens(stack->spec))
        return qkv_fail(ctx, QKV_ARGUMENT, "the batch has no features, but the %s reads %s", stack->name,
                        qkv_input_text(stack->spec->embed.input.kind));
    if (!s->features && !s->ids == !s->inputs)
        return s->ids ? qkv_fail(ctx, QKV_ARGUMENT, "the batch has %s and %s; give one of them", l.ids, l.inputs)
                      : qkv_fail(ctx, QKV_ARGUMENT, "the batch has no %s", l.ids);
    if (s->input_gradient && (!s->inputs || !p->options.train))
        return qkv_fail(ctx, QKV_ARGUMENT, "a gradient of %s is asked for, which needs %s and a pass made with train",
                        l.inputs, l.inputs);
    const int context = qkv_stack_context(&p->model->spec, stack->spec);
    enum qkv_status status = s->cu ? check_packed(p, s, &l, (size_t)context) : QKV_OK;
    if (status) return status;
    if (s->T < 1 || s->T > l.T)
        return qkv_fail(ctx, QKV_SHAPE, "the batch has sequences of %zu %s, but the pass was made for at most %zu",
                        s->T, l.rows, l.T);
    if (s->types && !stack->spec->embed.types)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "the batch has %s, but the embedding of the %s has no types (embed.types is 0)",
                        source ? "source_types" : "types", stack->name);
    if (s->length > (size_t)context)
        return qkv_fail(ctx, QKV_ARGUMENT, "the length for rotations is %zu, more than the model's context of %d",
                        s->length, context);
    status = check_lengths(p, s, &l);
    if (!status && l.N && side_rows(p, s) > l.N)
        return qkv_fail(ctx, QKV_SHAPE, "the batch has %zu %s, but the pass was made for at most %zu", side_rows(p, s),
                        l.rows, l.N);
    if (!status && s->features) status = qkv_pass_check_features(ctx, stack, s);
    return status ? status : check_positions(p, s, stack);
}

/* Chosen rows must rise and be inside their sequences. */
static enum qkv_status check_scored(struct qkv_pass *p, const struct qkv_batch *b) {
    struct qkv_context *ctx = p->model->ctx;
    const size_t most = p->options.scored, N = b->cu_rows ? b->rows : b->B * b->T;
    if (most && (!b->scored || b->scored_count > most))
        return qkv_fail(ctx, QKV_SHAPE, "the pass was made for at most %zu chosen rows, but %s", most,
                        b->scored ? "the batch has more of them" : "the batch chooses none");
    if (b->scored && p->model->spec.head.kind == QKV_HEAD_CLASSIFY)
        return qkv_fail(ctx, QKV_ARGUMENT, "rows are chosen, but a classifier scores sequences");
    for (size_t i = 0; b->scored && i < b->scored_count; i++) {
        const size_t n = b->scored[i];
        if (n >= N || (i && n <= b->scored[i - 1]))
            return qkv_fail(ctx, QKV_ARGUMENT, "row %zu of %zu is chosen; name rows of the batch, each once, in order",
                            n, N);
        if (!b->cu_rows && b->lengths && n % b->T >= (size_t)b->lengths[n / b->T])
            return qkv_fail(ctx, QKV_ARGUMENT, "row %zu is chosen, which is past the length of sequence %zu, %d", n,
                            n / b->T, b->lengths[n / b->T]);
    }
    return QKV_OK;
}

enum qkv_status qkv_pass_check_batch(struct qkv_pass *p, const struct qkv_batch *batch, struct qkv_batch *out) {
    const struct qkv_pass_options *o = &p->options;
    struct qkv_context *ctx = p->model->ctx;
    const bool both = pass_is_pair(p);
    struct qkv_pass_side side = qkv_pass_side(batch, false), source = qkv_pass_side(batch, true);
    *out = *batch;
    if (batch->B < 1 || batch->B > o->B || (!side.cu && (side.T < 1 || side.T > o->T)) ||
        (both && !source.cu && (source.T < 1 || source.T > o->source_T)))
        return qkv_fail(ctx, QKV_SHAPE,
                        "the batch is (%zu,%zu) with a source of %zu, but the pass was made for (%zu,%zu) and %zu",
                        batch->B, batch->T, batch->source_T, o->B, o->T, o->source_T);
    enum qkv_status status = check_side(p, &side, false);
    if (!status && both) status = check_side(p, &source, true);
    out->T = side.T, out->source_T = both ? source.T : batch->source_T;
    out->frames = side.frames, out->source_frames = source.frames;
    if (!status) status = qkv_pass_check_mask(p, out);
    char shown[QKV_REAL_TEXT];
    if (!status && !(batch->label_smoothing >= 0 && batch->label_smoothing < 1))
        return qkv_fail(ctx, QKV_ARGUMENT, "label_smoothing is %s; it must be at least 0 and less than 1",
                        qkv_real_text(shown, batch->label_smoothing));
    return status ? status : check_scored(p, out);
}

/* ---- sides ------------------------------------------------------------------------------------------------------- */

struct qkv_pass_side qkv_pass_side(const struct qkv_batch *b, bool source) {
    if (source)
        return (struct qkv_pass_side){.B = b->B,
                                      .T = b->source_T,
                                      .N = b->source_rows,
                                      .length = b->source_length,
                                      .ids = b->source,
                                      .types = b->source_types,
                                      .lengths = b->source_lengths,
                                      .cu = b->cu_source,
                                      .positions = b->source_positions,
                                      .inputs = b->source_inputs,
                                      .input_gradient = b->source_input_gradient,
                                      .features = b->source_features,
                                      .frames = b->source_frames,
                                      .mask = b->source_mask};
    return (struct qkv_pass_side){.B = b->B,
                                  .T = b->T,
                                  .N = b->rows,
                                  .length = b->length,
                                  .ids = b->ids,
                                  .types = b->types,
                                  .lengths = b->lengths,
                                  .cu = b->cu_rows,
                                  .positions = b->positions,
                                  .documents = b->documents,
                                  .prefix = b->prefix,
                                  .inputs = b->inputs,
                                  .input_gradient = b->input_gradient,
                                  .features = b->features,
                                  .frames = b->frames,
                                  .mask = b->mask};
}

struct qkv_pass_key qkv_pass_key(const struct qkv_pass *p, const struct qkv_batch *b) {
    const struct qkv_pass_side side = qkv_pass_side(b, false), source = qkv_pass_side(b, true);
    const bool both = pass_is_pair(p);
    return (struct qkv_pass_key){
        .B = b->B,
        .T = b->T,
        .source_T = b->source_T,
        .rows = side_rows(p, &side),
        .source_rows = both ? side_rows(p, &source) : b->B * b->source_T,
        .groups = p->part.groups,
        .scored = b->scored ? b->scored_count + 1 : 0,
        .ragged = side_rows(p, &side) < side.B * side.T,
        .source_ragged = both && side_rows(p, &source) < source.B * source.T,
        .inputs = !b->inputs          ? 0
                  : b->input_gradient ? 2
                                      : 1,
        .source_inputs = !both || !b->source_inputs ? 0
                         : b->source_input_gradient ? 2
                                                    : 1,
        .masks = (b->mask.data ? 1u : 0) | (b->source_mask.data ? 2u : 0) | (b->cross_mask.data ? 4u : 0),
    };
}

const struct qkv_rows *qkv_pass_rows(struct qkv_pass *p, struct qkv_pass_side *s, bool source) {
    const struct qkv_pass_options *o = &p->options;
    struct qkv_rows shape = {.N = source ? p->shape.source_rows : p->shape.rows,
                             .B = s->B,
                             .T = s->T,
                             .most = source ? o->source_rows : o->rows,
                             .ragged = source ? p->shape.source_ragged : p->shape.ragged};
    if (s->cu) {
        int32_t *lengths = qkv_tape_take(&p->tape, s->B, sizeof *lengths);
        if (!lengths || qkv_tape_failed(&p->tape, QKV_STEP(p->model->ctx, differences, .out = lengths, .values = s->cu,
                                                           .count = s->B)))
            return NULL;
        s->lengths = lengths;
    }
    const int32_t *lengths = o->padding && !s->cu ? NULL : s->lengths;
    shape.ragged = shape.ragged && lengths;
    return qkv_rows_make(&p->tape, &shape, lengths, s->documents);
}

/* The values of a batch, packed to its rows. */
static const int32_t *side_pack(struct qkv_pass *p, const struct qkv_pass_side *s, const struct qkv_rows *rows,
                                const int32_t *values) {
    return s->cu ? values : qkv_rows_pack(&p->tape, rows, values);
}

const int32_t *qkv_pass_positions(struct qkv_pass *p, const struct qkv_pass_side *s, const struct qkv_rows *rows) {
    return s->positions ? side_pack(p, s, rows, s->positions) : rows->position;
}

/* Where vectors replace embeddings, the ids are the numbers of these vectors. */
const int32_t *qkv_pass_ids(struct qkv_pass *p, const struct qkv_pass_side *s, const struct qkv_rows *rows) {
    if (s->features) return qkv_sequence_positions(&p->tape, 1, rows->N, 0);
    if (!s->inputs) return side_pack(p, s, rows, s->ids);
    return s->cu ? qkv_sequence_positions(&p->tape, 1, rows->N, 0) : rows->place;
}

const int32_t *qkv_pass_types(struct qkv_pass *p, const struct qkv_stack *stack, const struct qkv_pass_side *s,
                              const struct qkv_rows *rows) {
    return s->types && stack->spec->embed.types ? side_pack(p, s, rows, s->types) : NULL;
}

struct qkv_tensor *qkv_pass_inputs(struct qkv_pass *p, const struct qkv_stack *stack, const struct qkv_pass_side *s) {
    if (!s->inputs) return NULL;
    const size_t N = s->cu ? s->N : s->B * s->T;
    struct qkv_tensor *x = qkv_tape_take_graph(&p->tape, sizeof *x);
    if (x)
        *x = (struct qkv_tensor){.data = (void *)(uintptr_t)s->inputs,
                                 .dtype = QKV_F32,
                                 .rows = N,
                                 .columns = (size_t)qkv_token_width(&p->model->spec, stack->spec),
                                 .learning.requires_grad = s->input_gradient != NULL,
                                 .learning.gradient = s->input_gradient,
                                 .operand.name = "inputs"};
    return x;
}
