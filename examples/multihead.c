/* multihead.c: multi-head attention with independent widths of inputs, queries and keys, values, and output.
 *
 * The embed_dim, kdim, vdim and num_heads of torch.nn.MultiheadAttention are in struct qkv_attention_module_spec: in,
 * kv_in, attention.heads, attention.head_dim (of queries and keys), attention.value_dim, out. kv_heads makes it
 * grouped-query (GQA) or multi-query attention (MQA). The program checks every line that it prints, and fails if a
 * check does. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QKV_EXPERIMENTAL /* attention, modules, ranks and costs may still change */
#include <qkv.h>

static int wrong; /* checks that failed */

static void check(bool right, const char *what) {
    printf("  %-66s %s\n", what, right ? "yes" : "NO");
    wrong += !right;
}

static _Noreturn void fail(const struct qkv_context *ctx) {
    fprintf(stderr, "%s\n", ctx ? qkv_message(ctx) : "out of memory");
    exit(1);
}

/* As torch.randn: normal numbers with standard deviation 1 (Box & Muller 1958). */
static float *randn(size_t count) {
    const double turn = 6.283185307179586;
    float *x = malloc((count ? count : 1) * sizeof *x);
    if (!x) exit(1);
    for (size_t e = 0; e < count; e++) {
        double u = (rand() + 1.0) / (RAND_MAX + 1.0), v = (rand() + 1.0) / (RAND_MAX + 1.0);
        x[e] = (float)(sqrt(-2 * log(u)) * cos(turn * v));
    }
    return x;
}

static struct qkv_module *attention(struct qkv_context *ctx, const struct qkv_attention_module_spec *spec) {
    struct qkv_module *module;
    if (qkv_module_create_attention(ctx, spec, 1, &module)) fail(ctx);
    return module;
}

static size_t parameters(const struct qkv_module *module) {
    size_t count = 0;
    for (size_t i = 0; i < qkv_module_parameters(module); i++)
        count += qkv_array_elements(qkv_module_parameter(module, i));
    return count;
}

static float *forward(struct qkv_context *ctx, struct qkv_module *module, const struct qkv_module_input *in) {
    struct qkv_vectors y = in->x;
    y.C = (size_t)qkv_module_attention_spec(module)->out;
    y.data = malloc(y.B * y.T * y.C * sizeof *y.data);
    if (!y.data || qkv_module_forward(module, in, y)) fail(ctx);
    return y.data;
}

/* ---- independent widths, and padding on the left ----------------------------------------------------------------- */

enum { B = 24, T = 100, IN = 1024, OUT = 2048 };

static void widths(struct qkv_context *ctx) {
    struct qkv_attention_module_spec spec = qkv_attention_module_spec_defaults();
    spec.in = IN, spec.out = OUT, spec.attention.bias = QKV_BIAS_ALL;
    spec.attention.heads = 8, spec.attention.head_dim = 64, spec.attention.value_dim = 111;
    struct qkv_module *module = attention(ctx, &spec);
    printf("8 heads of 64, values of 111: (%d,%d,%d) -> (%d,%d,%d), %zu parameters\n", B, T, IN, B, T, OUT,
           parameters(module));
    check(parameters(module) == 3780472, "3,780,472 parameters");

    int32_t starts[B]; /* row b has b positions of padding before its text; the last row is all padding */
    float *x = randn((size_t)B * T * IN);
    for (int b = 0; b < B; b++) starts[b] = b < B - 1 ? b : T;
    for (size_t b = 0; b < B; b++)
        for (size_t e = 0; e < (size_t)starts[b] * IN; e++)
            x[b * T * IN + e] = NAN; /* padding is never read: a NaN there does not spread */
    struct qkv_module_input in = qkv_module_input_defaults();
    in.x = (struct qkv_vectors){x, B, T, IN}, in.self.mask.starts = starts;
    float *y = forward(ctx, module, &in);
    size_t bad = 0;
    for (size_t e = 0; e < (size_t)B * T * OUT; e++) bad += isfinite(y[e]) ? 0 : 1;
    check(bad == 0, "padding on the left: no NaN in the output");
    free(x), free(y);
    qkv_module_free(module);
}

/* ---- causal ------------------------------------------------------------------------------------------------------ */

/* Finds the largest weight of a future key, and how far the sum of a row is from 1, over all rows of the batch and
 * heads. */
static void look(struct qkv_context *ctx, struct qkv_module *module, size_t rows, size_t heads, size_t t,
                 double *future, double *sums) {
    float *weights = malloc(t * t * sizeof *weights);
    *future = *sums = 0;
    for (size_t n = 0; n < rows * heads; n++) {
        if (!weights ||
            qkv_module_attention_weights(module, QKV_ATTENTION_WEIGHTS, n / heads, n % heads, 0, t, weights))
            fail(ctx);
        for (size_t i = 0; i < t; i++) {
            double sum = 0;
            for (size_t j = 0; j < t; j++) {
                sum += (double)weights[i * t + j];
                if (j > i) *future = fmax(*future, (double)weights[i * t + j]);
            }
            *sums = fmax(*sums, fabs(sum - 1));
        }
    }
    free(weights);
}

static void causal(struct qkv_context *ctx) {
    struct qkv_attention_module_spec spec = qkv_attention_module_spec_defaults();
    spec.in = 512, spec.attention.heads = 8, spec.attention.causal = true;
    struct qkv_module *module = attention(ctx, &spec);
    struct qkv_module_input in = qkv_module_input_defaults();
    float *x = randn(2 * 10 * 512), *y;
    double future, sums;
    in.x = (struct qkv_vectors){x, 2, 10, 512}, y = forward(ctx, module, &in);
    look(ctx, module, 2, 8, 10, &future, &sums);
    printf("causal, (2,10,512), 8 heads: largest weight of a future key %.6f, rows sum to 1 within %.6f\n", future,
           sums);
    check(future == 0, "future keys have weight 0.000000");
    check(sums < 1e-6, "rows sum to 1");
    free(x), free(y);
    qkv_module_free(module);
}

/* ---- MHA, GQA, MQA ----------------------------------------------------------------------------------------------- */

static void flavours(struct qkv_context *ctx) {
    static const struct {
        const char *name;
        int kv_heads;
        size_t parameters;
    } kinds[] = {{"MHA", 12, 2362368}, {"GQA", 4, 1574912}, {"MQA", 1, 1279616}};
    printf("768 wide, 12 heads of queries:\n");
    for (size_t i = 0; i < 3; i++) {
        struct qkv_attention_module_spec spec = qkv_attention_module_spec_defaults();
        char line[100];
        spec.in = 768, spec.attention.bias = QKV_BIAS_ALL;
        spec.attention.heads = 12, spec.attention.kv_heads = kinds[i].kv_heads;
        struct qkv_module *module = attention(ctx, &spec);
        snprintf(line, sizeof line, "%s, %2d heads of keys and values: %zu parameters", kinds[i].name,
                 kinds[i].kv_heads, parameters(module));
        check(parameters(module) == kinds[i].parameters, line);
        qkv_module_free(module);
    }
}

/* ---- masks, and cross attention ---------------------------------------------------------------------------------- */

static double farthest(const float *a, const float *b, size_t count) {
    double far = 0;
    for (size_t e = 0; e < count; e++) far = fmax(far, fabs((double)a[e] - (double)b[e]));
    return far;
}

/* Queries (2,7,512) attend to a memory (2,9,256); a boolean mask (true: visible) and an additive one give the same
 * result. */
static void masks(struct qkv_context *ctx) {
    enum { TQ = 7, TK = 9 };
    struct qkv_attention_module_spec spec = qkv_attention_module_spec_defaults();
    spec.in = 512, spec.kv_in = 256, spec.cross = true, spec.attention.heads = 8;
    struct qkv_module *module = attention(ctx, &spec);
    struct qkv_module_input in = qkv_module_input_defaults();
    float *x = randn(2 * TQ * 512), *memory = randn(2 * TK * 256), additive[TQ * TK];
    uint8_t boolean[TQ * TK];
    for (size_t n = 0; n < TQ * TK; n++) {
        boolean[n] = rand() % 3 > 0 || n % TK == 0;
        additive[n] = boolean[n] ? 0 : -INFINITY;
    }
    in.x = (struct qkv_vectors){x, 2, TQ, 512}, in.memory = (struct qkv_vectors){memory, 2, TK, 256};
    float *open = forward(ctx, module, &in);
    in.cross.dense = boolean; /* one mask for all rows of the batch and all heads */
    in.cross.dense_shape = (struct qkv_pair_shape){.B = 1, .H = 1, .Tq = TQ, .Tk = TK, .row = TK};
    float *by_boolean = forward(ctx, module, &in);
    in.cross.dense = NULL, in.cross.bias = additive, in.cross.bias_shape = in.cross.dense_shape;
    float *by_additive = forward(ctx, module, &in);
    printf("cross attention, (2,%d,512) reads (2,%d,256):\n", TQ, TK);
    check(farthest(by_boolean, by_additive, 2 * TQ * 512) < 1e-6, "a boolean and an additive mask give the same");
    check(farthest(by_boolean, open, 2 * TQ * 512) > 1e-3, "and something else than no mask");
    free(x), free(memory), free(open), free(by_boolean), free(by_additive);
    qkv_module_free(module);
}

int main(void) {
    struct qkv_context *ctx;
    if (qkv_context_create(&ctx, NULL)) fail(ctx);
    srand(1);
    widths(ctx);
    causal(ctx);
    flavours(ctx);
    masks(ctx);
    qkv_context_free(ctx);
    return wrong > 0;
}
