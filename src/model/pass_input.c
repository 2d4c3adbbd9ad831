/* pass_input: the input of a stack that reads no tokens: patches of images, frames, vectors (embed.input). They become
 * vectors of the stack's width, which replace embeddings of tokens. */
#include "model/pass.h"
#include "op/steps.h"

/* The caller's numbers, which go to the rows of a matrix. */
struct input_fill {
    struct qkv_tape *tape;
    struct qkv_pass *pass; /* its sums may have an order; NULL: none */
    const struct qkv_input_spec *spec;
    const float *from;
    size_t T, frames;
    const struct qkv_rows *rows; /* of the stack's positions */
};

static const struct qkv_row_order *input_order(const struct input_fill *f, size_t B, size_t N, const int32_t *starts) {
    return f->pass ? qkv_pass_order(f->pass, B, N, starts) : NULL;
}

/* ---- patches: from the top, each row of patches from the left; a patch channel by channel, row by row ------------ */

/* Puts the class token, a row that is the same for each image, before the patches. */
static struct qkv_tensor *input_class(struct qkv_tape *tape, struct qkv_tensor *table, struct qkv_tensor *x, size_t B,
                                      size_t T) {
    const size_t N = B * T, patches = T - 1;
    const struct qkv_row_order *order = tape->order;
    int32_t *at = qkv_tape_take(tape, N + 1, sizeof *at), *none = qkv_tape_take(tape, B, sizeof *none);
    if (!at || !none) return NULL;
    enum qkv_status status = QKV_STEP(tape->ctx, clear, .to = none, .bytes = B * sizeof *none);
    if (!status) status = QKV_STEP(tape->ctx, positions, .out = at, .count = B, .period = 1, .jump = T);
    if (!status && patches)
        status = QKV_STEP(tape->ctx, positions, .out = at + B, .count = B * patches, .period = patches, .first = 1,
                          .jump = T);
    if (qkv_tape_failed(tape, status)) return NULL;
    struct qkv_embedding e = {.scale = 1, .N = B};
    e.tables[QKV_EMBED_TOKEN].rows = table, e.tables[QKV_EMBED_TOKEN].places = none;
    tape->order = order ? order->pooled : NULL;
    struct qkv_tensor *first = qkv_op_embed(tape, &e);
    tape->order = order;
    first = qkv_op_scatter(tape, first, at, N);
    x = qkv_op_scatter(tape, x, at + B, N);
    if (first) first->learning.order = order;
    if (x) x->learning.order = order;
    return x && first ? qkv_op_add(tape, x, first, 1) : NULL;
}

static struct qkv_tensor *input_patches(struct qkv_stack *stack, struct input_fill *f) {
    const struct qkv_input_spec *s = f->spec;
    struct qkv_linear *patch = &stack->input.first;
    const size_t B = f->rows->B, T = f->rows->T, N = B * (T - (s->class_token ? 1 : 0));
    const size_t columns = (size_t)s->channels * (size_t)s->patch * (size_t)s->patch;
    struct qkv_tensor *x = qkv_tape_tensor(f->tape, N, columns);
    if (!x || qkv_tape_failed(f->tape, QKV_STEP(f->tape->ctx, patches, .to = x->data, .from = f->from, .images = B,
                                                .channels = (size_t)s->channels, .height = (size_t)s->height,
                                                .width = (size_t)s->width, .patch = (size_t)s->patch)))
        return NULL;
    x->learning.order = s->class_token ? input_order(f, B, N, NULL) : f->tape->order;
    x = qkv_op_linear(f->tape, x, &patch->weight, qkv_tensor_or_null(&patch->bias), QKV_RESULT_FP32);
    return s->class_token ? input_class(f->tape, &stack->input.class_token, x, B, T) : x;
}

/* ---- frames: two convolutions, the second with a stride ---------------------------------------------------------- */

static struct qkv_tensor *input_frames(struct qkv_stack *stack, struct input_fill *f) {
    const struct qkv_input_spec *s = f->spec;
    struct qkv_linear *first = &stack->input.first, *second = &stack->input.second;
    struct qkv_tape *tape = f->tape;
    const struct qkv_rows *rows = f->rows;
    const size_t B = rows->B, stride = (size_t)s->stride, M = rows->N * stride, channels = (size_t)s->channels;
    int32_t *start = qkv_tape_take(tape, B + 1, sizeof *start), *count = qkv_tape_take(tape, B, sizeof *count);
    if (!start || !count) return NULL;
    if (qkv_tape_failed(tape, QKV_STEP(tape->ctx, frame_starts, .start = start, .count = count,
                                       .rows_start = rows->start, .B = B, .stride = stride, .frames = f->frames)))
        return NULL;
    struct qkv_tensor *x = qkv_tape_tensor(tape, M, channels);
    if (!x || qkv_tape_failed(tape, QKV_STEP(tape->ctx, frame_rows, .to = x->data, .from = f->from, .start = start,
                                             .rows = M, .B = B, .channels = channels, .frames = f->frames)))
        return NULL;
    struct qkv_unfold_options o = {.B = B,
                                   .kernel = (size_t)s->kernel,
                                   .stride = 1,
                                   .rows = M,
                                   .x_start = start,
                                   .count = count,
                                   .y_start = start};
    x = qkv_op_unfold(tape, x, &o, input_order(f, B, M, start));
    x = qkv_op_linear_activation(tape, x, &first->weight, qkv_tensor_or_null(&first->bias), QKV_FFN_GELU, false, 0);
    o.stride = stride, o.rows = rows->N, o.y_start = rows->start;
    x = qkv_op_unfold(tape, x, &o, tape->order);
    x = qkv_op_linear(tape, x, &second->weight, qkv_tensor_or_null(&second->bias), QKV_RESULT_FP32);
    return qkv_op_activation(tape, x, QKV_FFN_GELU);
}

/* ---- vectors ----------------------------------------------------------------------------------------------------- */

static struct qkv_tensor *input_vectors(struct qkv_stack *stack, struct input_fill *f) {
    struct qkv_linear *vector = &stack->input.first;
    const size_t N = f->rows->N, columns = (size_t)f->spec->channels;
    struct qkv_tensor *x = qkv_tape_tensor(f->tape, N, columns);
    if (!x || qkv_tape_failed(f->tape, QKV_STEP(f->tape->ctx, take_rows, .to = x->data, .from = f->from,
                                                .index = f->T ? f->rows->place : NULL, .rows = N, .columns = columns)))
        return NULL;
    x->learning.order = f->tape->order;
    return qkv_op_linear(f->tape, x, &vector->weight, qkv_tensor_or_null(&vector->bias), QKV_RESULT_FP32);
}

struct qkv_tensor *qkv_pass_features(struct qkv_tape *tape, struct qkv_pass *p, struct qkv_stack *stack,
                                     const struct qkv_pass_side *s, const struct qkv_rows *rows) {
    struct input_fill fill = {.tape = tape,
                              .pass = p,
                              .spec = &stack->spec->embed.input,
                              .from = s->features,
                              .T = s->cu ? 0 : s->T,
                              .frames = s->frames,
                              .rows = rows};
    switch (fill.spec->kind) {
    case QKV_INPUT_PATCHES:
        return input_patches(stack, &fill);
    case QKV_INPUT_FRAMES:
        return input_frames(stack, &fill);
    case QKV_INPUT_VECTORS:
        return input_vectors(stack, &fill);
    case QKV_INPUT_TOKENS:
        break;
    }
    return NULL;
}
