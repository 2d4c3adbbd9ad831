/* prepost.c: the norm before or after a sublayer, on a block like torch.nn.TransformerEncoderLayer(512, 8, 2048,
 * norm_first=…).
 *
 *     pre   x + f(norm(x))      the residual stream is never normalised: it keeps its gradient, and grows
 *     post  norm(x + f(x))      each block's output has standard deviation 1; its gradient passes through a norm
 *
 * One block of each kind gets a normal input, with PyTorch's initialisation: the program prints mean and deviation
 * of the output. Then it prints the norm of the gradient in each layer of stacks of 12 blocks. It checks every
 * number, and fails if a check does.
 *     prepost [LAYERS]          of the stacks, 2 to 1000; 12 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QKV_EXPERIMENTAL /* attention, modules, ranks and costs may still change */
#include <qkv.h>

enum { B = 2, T = 10, C = 512, N = B * T * C, MAX_LAYERS = QKV_LAYERS_MAX /* 1000 */ };

static int wrong; /* checks that failed */

static _Noreturn void fail(const struct qkv_context *ctx) {
    fprintf(stderr, "%s\n", ctx ? qkv_message(ctx) : "out of memory");
    exit(1);
}

static void check(bool right, const char *what) {
    if (!right) printf("NOT SO: %s\n", what);
    wrong += !right;
}

/* As torch.randn: normal numbers with standard deviation 1 (Box & Muller 1958). */
static void randn(float *x, size_t count) {
    const double turn = 6.283185307179586;
    for (size_t e = 0; e < count; e++) {
        double u = (rand() + 1.0) / (RAND_MAX + 1.0), v = (rand() + 1.0) / (RAND_MAX + 1.0);
        x[e] = (float)(sqrt(-2 * log(u)) * cos(turn * v));
    }
}

static struct qkv_module *make(struct qkv_context *ctx, enum qkv_module_kind kind, const char *placement, int layers) {
    char text[400];
    struct qkv_spec spec = {0};
    struct qkv_module *module;
    int size = snprintf(text, sizeof text,
                        "{\"format\": \"qkv\", \"version\": 2, \"d_model\": 512, \"context\": 10,"
                        " \"init\": {\"kind\": \"torch\"}, \"embed\": {\"position\": {\"kind\": \"none\"}},"
                        " \"encoder\": {\"layers\": %d, \"attention\": {\"heads\": 8},"
                        "   \"norm\": {\"kind\": \"layernorm\", \"placement\": \"%s\", \"final\": false},"
                        "   \"ffn\": {\"kind\": \"relu\", \"d_ff\": 2048}}}",
                        layers, placement);
    if (qkv_spec_parse(ctx, &spec, "the example", text, (size_t)size, NULL, 0) ||
        qkv_module_create(ctx, &spec, &QKV_OPTIONS(qkv_module_options, .kind = kind, .seed = 1), &module))
        fail(ctx);
    qkv_spec_free(&spec);
    return module;
}

static size_t parameters(const struct qkv_module *module) {
    size_t count = 0;
    for (size_t i = 0; i < qkv_module_parameters(module); i++)
        count += qkv_array_elements(qkv_module_parameter(module, i));
    return count;
}

static void forward(struct qkv_context *ctx, struct qkv_module *module, float *x, float *y, bool train) {
    struct qkv_module_input in = qkv_module_input_defaults();
    in.x = (struct qkv_vectors){x, B, T, C}, in.train = train;
    if (qkv_module_forward(module, &in, (struct qkv_vectors){y, B, T, C})) fail(ctx);
}

static void moments(const float *y, double *mean, double *deviation) {
    double sum = 0, squares = 0;
    for (size_t e = 0; e < N; e++) sum += (double)y[e], squares += (double)y[e] * (double)y[e];
    *mean = sum / N;
    *deviation = sqrt(squares / N - *mean * *mean);
}

static double one_block(struct qkv_context *ctx, const char *placement, float *x, float *y) {
    struct qkv_module *block = make(ctx, QKV_MODULE_ENCODER_BLOCK, placement, 1);
    double mean, deviation;
    forward(ctx, block, x, y, false);
    moments(y, &mean, &deviation);
    printf("%-4s  %zu parameters, output: mean %+.4f, deviation %.4f\n", placement, parameters(block), mean, deviation);
    check(parameters(block) == 3152384, "a block has 3,152,384 parameters");
    check(fabs(mean) < 0.02, "the mean is near 0");
    qkv_module_free(block);
    return deviation;
}

/* The norm of the gradient of each layer's weights. */
static void gradient_norms(struct qkv_context *ctx, const struct qkv_module *stack, double norms[MAX_LAYERS]) {
    static float g[512 * 2048]; /* of one parameter; the largest are those of the feed-forward */
    memset(norms, 0, MAX_LAYERS * sizeof *norms);
    for (size_t i = 0; i < qkv_module_parameters(stack); i++) {
        const struct qkv_array *p = qkv_module_parameter(stack, i);
        const size_t n = qkv_array_elements(p);
        const size_t layer = (size_t)atoi(p->name + strlen("layers."));
        if (qkv_module_get_gradient(stack, i, g, n)) fail(ctx);
        for (size_t e = 0; e < n; e++) norms[layer] += (double)g[e] * (double)g[e];
    }
    for (size_t l = 0; l < MAX_LAYERS; l++) norms[l] = sqrt(norms[l]);
}

/* The loss is the mean of y times normal numbers, so that its gradient has no preferred direction. */
static double deep(struct qkv_context *ctx, const char *placement, int layers, float *x, float *y,
                   const float *direction, double norms[MAX_LAYERS]) {
    static float dy[N];
    struct qkv_module *stack = make(ctx, QKV_MODULE_ENCODER_STACK, placement, layers);
    double mean, deviation;
    forward(ctx, stack, x, y, true);
    moments(y, &mean, &deviation);
    for (size_t e = 0; e < N; e++) dy[e] = direction[e] / N;
    if (qkv_module_backward(stack, (struct qkv_vectors){dy, B, T, C}, NULL)) fail(ctx);
    gradient_norms(ctx, stack, norms);
    qkv_module_free(stack);
    return deviation;
}

int main(int argc, char **argv) {
    static float x[N], y[N], direction[N];
    const int layers = argc > 1 ? atoi(argv[1]) : 12;
    double norms[2][MAX_LAYERS], block[2], deviation[2];
    struct qkv_context *ctx;
    if (layers < 2 || layers > MAX_LAYERS) {
        fprintf(stderr, "prepost: stacks have 2 to %d layers\n", MAX_LAYERS);
        return 1;
    }
    if (qkv_context_create(&ctx, NULL)) fail(ctx);
    srand(1);
    randn(x, N), randn(direction, N);

    printf("one block of width 512, 8 heads, feed-forward 2048, on normal numbers (2,10,512):\n");
    block[0] = one_block(ctx, "pre", x, y);
    check(block[0] > 1.03 && block[0] < 1.06, "pre: the deviation is 1.03 to 1.06");
    block[1] = one_block(ctx, "post", x, y);
    check(fabs(block[1] - 1) < 5e-4, "post: the deviation is 1.000");

    deviation[0] = deep(ctx, "pre", layers, x, y, direction, norms[0]);
    deviation[1] = deep(ctx, "post", layers, x, y, direction, norms[1]);
    printf("\n%d blocks: deviation of the output: pre %.3f, post %.3f\n", layers, deviation[0], deviation[1]);
    printf("norm of the gradient by layer:\n  layer       pre      post\n");
    for (int l = 0; l < layers; l++) printf("  %5d  %.2e  %.2e\n", l, norms[0][l], norms[1][l]);
    printf("  first / last layer: pre %.2f, post %.2f\n", norms[0][0] / norms[0][layers - 1],
           norms[1][0] / norms[1][layers - 1]);
    check(deviation[0] > block[0], "the stream of pre grows with depth");
    check(fabs(deviation[1] - 1) < 5e-4, "that of post does not");
    for (int l = 0; l < layers; l++)
        check(isfinite(norms[0][l]) && norms[0][l] > 0 && isfinite(norms[1][l]) && norms[1][l] > 0,
              "every layer has a gradient");
    qkv_context_free(ctx);
    return wrong > 0;
}
