/* modules: parts of a transformer on float tensors, in a model of your own.
 *
 * An encoder block learns to add to each position the mean of its sequence. Sequences have two lengths, so the block
 * must ignore padding. The program gets the block's parameters by name, and steps against their gradients. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QKV_EXPERIMENTAL /* attention, modules, ranks and costs may still change */
#include <qkv.h>

enum { B = 8, T = 6, C = 16, N = B * T * C, WEIGHTS = 32 * C, STEPS = 1000 };

static const char spec_text[] =
    "{\"format\": \"qkv\", \"version\": 1, \"d_model\": 16, \"context\": 6, \"position\": {\"kind\": \"none\"},"
    " \"encoder\": {\"layers\": 1, \"attention\": {\"heads\": 2}, \"ffn\": {\"kind\": \"gelu\", \"d_ff\": 32}}}";

static void fail(const struct qkv_context *ctx) {
    fprintf(stderr, "%s\n", ctx ? qkv_message(ctx) : "out of memory");
    exit(1);
}

/* Random vectors; the target adds to each the mean of its sequence. */
static void make_batch(float *x, float *target, const int32_t *lengths) {
    memset(target, 0, N * sizeof *target);
    for (size_t e = 0; e < N; e++) x[e] = 2 * ((float)rand() / (float)RAND_MAX - 0.5f);
    for (size_t b = 0; b < B; b++)
        for (size_t c = 0; c < C; c++) {
            float sum = 0;
            for (size_t t = 0; t < (size_t)lengths[b]; t++) sum += x[(b * T + t) * C + c];
            for (size_t t = 0; t < (size_t)lengths[b]; t++)
                target[(b * T + t) * C + c] = x[(b * T + t) * C + c] + sum / (float)lengths[b];
        }
}

/* The mean square error over positions that are no padding, and its gradient. */
static float square_error(const float *y, const float *target, const int32_t *lengths, float *dy) {
    float loss = 0, count = 0;
    for (size_t b = 0; b < B; b++) count += (float)lengths[b] * C;
    for (size_t n = 0; n < (size_t)B * T; n++)
        for (size_t c = 0; c < C; c++) {
            const size_t e = n * C + c;
            const float error = n % T < (size_t)lengths[n / T] ? y[e] - target[e] : 0;
            loss += error * error / count;
            dy[e] = 2 * error / count;
        }
    return loss;
}

int main(void) {
    static float x[N], y[N], target[N], dy[N], dx[N];
    static float w[WEIGHTS], dw[WEIGHTS]; /* of one parameter; the largest are those of the feed-forward */
    int32_t lengths[B];
    struct qkv_context *ctx;
    struct qkv_module *block;
    struct qkv_spec spec = {0};
    if (qkv_context_create(&ctx, NULL)) fail(ctx);
    if (qkv_spec_parse(ctx, &spec, "the example", spec_text, strlen(spec_text), NULL, 0) ||
        qkv_module_create(ctx, &spec, &QKV_OPTIONS(qkv_module_options, .kind = QKV_MODULE_ENCODER_BLOCK, .seed = 1),
                          &block))
        fail(ctx);
    for (size_t i = 0; i < qkv_module_parameters(block); i++) {
        const struct qkv_array *p = qkv_module_parameter(block, i);
        printf(p->rank == 2 ? "%-16s (%zu,%zu)\n" : "%-16s (%zu)\n", p->name, p->shape[0], p->shape[1]);
    }
    for (size_t b = 0; b < B; b++) lengths[b] = b % 2 ? T : T - 3;
    srand(1);
    for (int step = 0; step <= STEPS; step++) {
        make_batch(x, target, lengths);
        struct qkv_module_input in = qkv_module_input_defaults();
        in.x = (struct qkv_vectors){x, B, T, C}, in.self.mask.lengths = lengths, in.train = true;
        if (qkv_module_forward(block, &in, (struct qkv_vectors){y, B, T, C})) fail(ctx);
        const float loss = square_error(y, target, lengths, dy);
        if (step % 200 == 0) printf("step %4d: loss %.4f\n", step, (double)loss);
        struct qkv_module_gradients inputs = qkv_module_gradients_defaults();
        inputs.x = (struct qkv_vectors){dx, B, T, C}; /* for the module before the block */
        qkv_module_clear_gradients(block);
        if (qkv_module_backward(block, (struct qkv_vectors){dy, B, T, C}, &inputs)) fail(ctx);
        for (size_t i = 0; i < qkv_module_parameters(block); i++) {
            const size_t n = qkv_array_elements(qkv_module_parameter(block, i));
            if (qkv_module_get_weights(block, i, w, n) || qkv_module_get_gradient(block, i, dw, n)) fail(ctx);
            for (size_t e = 0; e < n; e++) w[e] -= 0.5f * dw[e];
            if (qkv_module_set_weights(block, i, w, n)) fail(ctx);
        }
    }
    qkv_module_free(block);
    qkv_spec_free(&spec);
    qkv_context_free(ctx);
    return 0;
}
