/* pass_input: the input of a stack that reads no tokens: patches of images, frames, vectors (embed.input). They become
 * vectors of the stack's width, which replace embeddings of tokens. */
#include "model/pass.h"

#include <string.h>

enum { ROWS_A_PIECE = 16 };

/* Copies the caller's numbers to the rows of a matrix. */
struct input_fill {
    struct qkv_tape *tape;
    struct qkv_pass *pass; /* its sums may have an order; NULL: none */
    const struct qkv_input_spec *spec;
    const float *from;
    float *to;
    size_t columns, T, frames, stride;
    const struct qkv_rows *rows; /* of the stack's positions */
};

static struct qkv_tensor *input_rows(struct input_fill *fill, size_t rows, size_t columns, qkv_range_body *body) {
    float *data = qkv_tape_take(fill->tape, rows * columns, sizeof *data);
    struct qkv_tensor *x = data ? qkv_tape_view(fill->tape, data, rows, columns) : NULL;
    fill->to = data, fill->columns = columns;
    if (x) qkv_parallel_range(fill->tape->ctx, rows, ROWS_A_PIECE, body, fill);
    return x;
}

static const struct qkv_row_order *input_order(const struct input_fill *f, size_t B, size_t N, const int32_t *starts) {
    return f->pass ? qkv_pass_order(f->pass, B, N, starts) : NULL;
}

/* ---- patches: from the top, each row of patches from the left; a patch channel by channel, row by row ------------ */

static void input_patch_rows(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct input_fill *f = argument;
    const struct qkv_input_spec *s = f->spec;
    const size_t P = (size_t)s->patch, width = (size_t)s->width, across = width / P, size = (size_t)s->height * width;
    const size_t patches = across * ((size_t)s->height / P), channels = (size_t)s->channels;
    for (size_t n = begin; n < end; n++) {
        const size_t b = n / patches, top = n % patches / across * P, left = n % across * P;
        float *to = f->to + n * f->columns;
        for (size_t c = 0; c < channels; c++)
            for (size_t y = 0; y < P; y++, to += P)
                memcpy(to, f->from + (b * channels + c) * size + (top + y) * width + left, P * sizeof *to);
    }
}

/* Puts the class token, a row that is the same for each image, before the patches. */
static struct qkv_tensor *input_class(struct qkv_tape *tape, struct qkv_tensor *table, struct qkv_tensor *x, size_t B,
                                      size_t T) {
    const size_t N = B * T, patches = T - 1;
    const struct qkv_row_order *order = tape->order;
    int32_t *at = qkv_tape_take(tape, N + 1, sizeof *at), *none = qkv_tape_take(tape, B, sizeof *none);
    if (!at || !none) return NULL;
    for (size_t b = 0; !tape->ctx->dry && b < B; b++) {
        none[b] = 0;
        at[b] = (int32_t)(b * T);
        for (size_t i = 0; i < patches; i++) at[B + b * patches + i] = (int32_t)(b * T + 1 + i);
    }
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
    struct qkv_tensor *x = input_rows(f, N, columns, input_patch_rows);
    if (!x) return NULL;
    x->learning.order = s->class_token ? input_order(f, B, N, NULL) : f->tape->order;
    x = qkv_op_linear(f->tape, x, &patch->weight, qkv_tensor_or_null(&patch->bias), QKV_RESULT_FP32);
    return s->class_token ? input_class(f->tape, &stack->input.class_token, x, B, T) : x;
}

/* ---- frames: two convolutions, the second with a stride ---------------------------------------------------------- */

/* Row stride·start + t of sequence b is its frame t, or zeros if it has no such frame. */
static void input_frame_rows(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct input_fill *f = argument;
    size_t b = 0;
    for (size_t n = begin; n < end; n++) {
        while (n >= f->stride * (size_t)f->rows->start[b + 1]) b++;
        const size_t t = n - f->stride * (size_t)f->rows->start[b];
        const float *from = f->from + b * f->columns * f->frames + t;
        for (size_t c = 0; c < f->columns; c++) f->to[n * f->columns + c] = t < f->frames ? from[c * f->frames] : 0;
    }
}

static struct qkv_tensor *input_frames(struct qkv_stack *stack, struct input_fill *f) {
    const struct qkv_input_spec *s = f->spec;
    struct qkv_linear *first = &stack->input.first, *second = &stack->input.second;
    struct qkv_tape *tape = f->tape;
    const struct qkv_rows *rows = f->rows;
    const size_t B = rows->B, stride = (size_t)s->stride, M = rows->N * stride;
    int32_t *start = qkv_tape_take(tape, B + 1, sizeof *start), *count = qkv_tape_take(tape, B, sizeof *count);
    f->stride = stride;
    if (!start || !count) return NULL;
    for (size_t b = 0; !tape->ctx->dry && b <= B; b++) {
        start[b] = (int32_t)(stride * (size_t)rows->start[b]);
        if (!b) continue;
        const size_t room = (size_t)(start[b] - start[b - 1]);
        count[b - 1] = (int32_t)(room < f->frames ? room : f->frames);
    }
    struct qkv_unfold_options o = {.B = B,
                                   .kernel = (size_t)s->kernel,
                                   .stride = 1,
                                   .rows = M,
                                   .x_start = start,
                                   .count = count,
                                   .y_start = start};
    struct qkv_tensor *x = input_rows(f, M, (size_t)s->channels, input_frame_rows);
    x = qkv_op_unfold(tape, x, &o, input_order(f, B, M, start));
    x = qkv_op_linear_activation(tape, x, &first->weight, qkv_tensor_or_null(&first->bias), QKV_FFN_GELU, false, 0);
    o.stride = stride, o.rows = rows->N, o.y_start = rows->start;
    x = qkv_op_unfold(tape, x, &o, tape->order);
    x = qkv_op_linear(tape, x, &second->weight, qkv_tensor_or_null(&second->bias), QKV_RESULT_FP32);
    return qkv_op_activation(tape, x, QKV_FFN_GELU);
}

/* ---- vectors ----------------------------------------------------------------------------------------------------- */

static void input_vector_rows(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct input_fill *f = argument;
    for (size_t n = begin; n < end; n++) {
        const size_t place = f->T ? (size_t)f->rows->place[n] : n;
        memcpy(f->to + n * f->columns, f->from + place * f->columns, f->columns * sizeof *f->to);
    }
}

static struct qkv_tensor *input_vectors(struct qkv_stack *stack, struct input_fill *f) {
    struct qkv_linear *vector = &stack->input.first;
    struct qkv_tensor *x = input_rows(f, f->rows->N, (size_t)f->spec->channels, input_vector_rows);
    if (x) x->learning.order = f->tape->order;
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
