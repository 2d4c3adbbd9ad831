/* flavours.c: multi-head, grouped-query and multi-query attention are one attention with different numbers of
 * key-value heads.
 *
 * Width 1024, 16 query heads; 16, 4 or 1 key-value heads. Fewer key-value heads mean fewer parameters, a smaller
 * cache of keys and values, and fewer bytes to read for each new token (Shazeer 2019; Ainslie et al. 2023).
 *     flavours [POSITIONS]      in the cache when a token is timed; 4096 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define QKV_EXPERIMENTAL /* attention, modules, ranks and costs may still change */
#include <qkv.h>

enum { WIDTH = 1024, HEADS = 16, HEAD = WIDTH / HEADS, TOKENS = 50 };

static double seconds_now(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static _Noreturn void fail(const struct qkv_context *ctx) {
    fprintf(stderr, "%s\n", ctx ? qkv_message(ctx) : "out of memory");
    exit(1);
}

static void append(struct qkv_context *ctx, struct qkv_module *module, struct qkv_module_cache *cache, float *x,
                   size_t rows, float *y) {
    struct qkv_module_input in = qkv_module_input_defaults();
    in.x = (struct qkv_vectors){x, 1, rows, WIDTH}, in.cache = cache;
    if (qkv_module_forward(module, &in, (struct qkv_vectors){y, 1, rows, WIDTH})) fail(ctx);
}

/* Microseconds for one more token when the cache holds `positions`. */
static double token_time(struct qkv_context *ctx, struct qkv_module *module, float *x, float *y, size_t positions) {
    struct qkv_module_cache *cache;
    double fastest = 1e9;
    if (qkv_module_cache_create(module, 1, positions + 1, 0, &cache)) fail(ctx);
    append(ctx, module, cache, x, positions, y);
    for (int i = 0; i < TOKENS; i++) {
        double start = seconds_now();
        append(ctx, module, cache, x, 1, y);
        double seconds = seconds_now() - start;
        if (seconds < fastest) fastest = seconds;
        qkv_module_cache_truncate(cache, positions);
    }
    qkv_module_cache_free(cache);
    return 1e6 * fastest;
}

int main(int argc, char **argv) {
    const size_t positions = argc > 1 ? strtoul(argv[1], NULL, 10) : 4096;
    static const struct {
        const char *name;
        int kv_heads;
    } flavours[] = {{"MHA", HEADS}, {"GQA", 4}, {"MQA", 1}};
    struct qkv_context *ctx;
    float *x = malloc((positions + 1) * WIDTH * sizeof *x), *y = malloc((positions + 1) * WIDTH * sizeof *y);
    size_t expected[] = {4 * WIDTH * WIDTH, 2 * WIDTH * WIDTH + 2 * WIDTH * 4 * HEAD,
                         2 * WIDTH * WIDTH + 2 * WIDTH * HEAD};
    if (!x || !y || positions == 0 || qkv_context_create(&ctx, NULL)) {
        fprintf(stderr, "flavours: out of memory, or no positions\n");
        return 1;
    }
    srand(1);
    for (size_t e = 0; e < positions * WIDTH; e++) x[e] = (float)rand() / (float)RAND_MAX - 0.5f;

    printf("width %d, %d heads of queries, %zu positions in the cache, fp32\n", WIDTH, HEADS, positions);
    printf("      kv heads  parameters     cache  a token\n");
    for (size_t i = 0; i < 3; i++) {
        struct qkv_attention_module_spec spec = qkv_attention_module_spec_defaults();
        struct qkv_module *module;
        size_t parameters = 0;
        spec.in = WIDTH, spec.attention.causal = true;
        spec.attention.heads = HEADS, spec.attention.kv_heads = flavours[i].kv_heads; /* the only number that differs */
        if (qkv_module_create_attention(ctx, &spec, 1, &module)) fail(ctx);
        for (size_t p = 0; p < qkv_module_parameters(module); p++)
            parameters += qkv_array_elements(qkv_module_parameter(module, p));
        const size_t cache = positions * 2 * (size_t)flavours[i].kv_heads * HEAD * sizeof(float);
        printf("%-4s  %8d  %10zu  %4.1f MiB  %4.0f us\n", flavours[i].name, flavours[i].kv_heads, parameters,
               (double)cache / (1 << 20), token_time(ctx, module, x, y, positions));
        if (parameters != expected[i]) {
            fprintf(stderr, "%s should have %zu parameters\n", flavours[i].name, expected[i]);
            return 1;
        }
        qkv_module_free(module);
    }
    qkv_context_free(ctx);
    free(x), free(y);
    return 0;
}
