/* products: the matrix product in the shapes and forms of transformers, beside OpenBLAS's and oneDNN's sgemm.
 * C (M,N) = A (M,K) · B (K,N); "x·wᵀ": B is (N,K) in memory (forward); "dy·w": both as written (gradient of x);
 * "dyᵀ·x": A is (K,M) in memory (gradient of w). */
#include <stdlib.h>

#ifdef BENCH_OPENBLAS
#include <cblas-openblas.h>
#endif
#ifdef BENCH_DNNL
#include <oneapi/dnnl/dnnl.h>
#endif

#include "bench.h"

enum form { FORWARD, GRADIENT_X, GRADIENT_W };

struct product {
    size_t M, N, K;
    enum form form;
    struct qkv_context *ctx;
    struct qkv_arena *scratch;
    float *a, *b, *c;
};

static void ours(void *argument) {
    const struct product *p = argument;
    struct qkv_matrix a = {p->a, p->K, 1}, b = {p->b, p->N, 1};
    if (p->form == GRADIENT_W) a = (struct qkv_matrix){p->a, 1, p->M};
    if (p->form == FORWARD) b = (struct qkv_matrix){p->b, 1, p->K};
    enum qkv_status status =
        qkv_gemm(p->ctx, p->scratch, p->c, p->N, a, b, p->M, p->N, p->K, (struct qkv_gemm_options){false, NULL});
    if (status != QKV_OK) fprintf(stderr, "qkv_bench: %s\n", qkv_message(p->ctx));
}

#ifdef BENCH_OPENBLAS
static void openblas(void *argument) {
    const struct product *p = argument;
    const bool a_turned = p->form == GRADIENT_W, b_turned = p->form == FORWARD;
    cblas_sgemm(CblasRowMajor, a_turned ? CblasTrans : CblasNoTrans, b_turned ? CblasTrans : CblasNoTrans, (int)p->M,
                (int)p->N, (int)p->K, 1, p->a, (int)(a_turned ? p->M : p->K), p->b, (int)(b_turned ? p->K : p->N), 0,
                p->c, (int)p->N);
}
#endif

#ifdef BENCH_DNNL
static void onednn(void *argument) {
    const struct product *p = argument;
    const bool a_turned = p->form == GRADIENT_W, b_turned = p->form == FORWARD;
    dnnl_sgemm(a_turned ? 'T' : 'N', b_turned ? 'T' : 'N', (dnnl_dim_t)p->M, (dnnl_dim_t)p->N, (dnnl_dim_t)p->K, 1,
               p->a, (dnnl_dim_t)(a_turned ? p->M : p->K), p->b, (dnnl_dim_t)(b_turned ? p->K : p->N), 0, p->c,
               (dnnl_dim_t)p->N);
}
#endif

static void row(struct bench *b, struct product *p) {
    static const char *const forms[] = {"x·wᵀ ", "dy·w ", "dyᵀ·x"};
    char label[96];
    snprintf(label, sizeof label, "%zu×%zu×%zu %s", p->M, p->N, p->K, forms[p->form]);
    p->a = bench_floats(p->M * p->K);
    p->b = bench_floats(p->K * p->N);
    p->c = bench_floats(p->M * p->N);
    const struct bench_contestant contestants[] = {
        {"qkv", ours, p},
#ifdef BENCH_OPENBLAS
        {"openblas", openblas, p},
#endif
#ifdef BENCH_DNNL
        {"onednn", onednn, p},
#endif
    };
    if (p->a && p->b && p->c)
        bench_row(b, label, 2.0 * (double)p->M * (double)p->N * (double)p->K, contestants,
                  sizeof contestants / sizeof contestants[0]);
    free(p->a);
    free(p->b);
    free(p->c);
}

void bench_products(struct bench *b) {
    static const struct {
        size_t M, N, K;
        enum form form;
    } shapes[] = {
        {1024, 1024, 1024, FORWARD},
        {2048, 2048, 2048, FORWARD},
        /* GPT-2's width, 4096 tokens */
        {4096, 768, 768, FORWARD},
        {4096, 768, 768, GRADIENT_X},
        {768, 768, 4096, GRADIENT_W},
        {4096, 3072, 768, FORWARD},
        {256, 768, 768, FORWARD},
        {64, 384, 384, FORWARD},
        /* nano: 12 × 64 tokens of 128 channels */
        {768, 128, 128, FORWARD},
        {768, 512, 128, FORWARD},
        {768, 128, 512, GRADIENT_X},
        {128, 128, 768, GRADIENT_W},
        {512, 128, 768, GRADIENT_W},
        /* baby: 64 × 256 tokens of 384 channels */
        {16384, 384, 384, FORWARD},
        {16384, 1536, 384, FORWARD},
        {16384, 384, 1536, GRADIENT_X},
        {384, 384, 16384, GRADIENT_W},
        /* decoding: one row, a few rows */
        {1, 4096, 4096, FORWARD},
        {1, 768, 768, FORWARD},
        {4, 4096, 4096, FORWARD},
        {16, 4096, 4096, FORWARD},
    };
    struct qkv_arena scratch;
    if (qkv_arena_create(b->ctx, &scratch, (size_t)256 << 20, "scratch") != QKV_OK) {
        fprintf(stderr, "qkv_bench: %s\n", qkv_message(b->ctx));
        return;
    }
#ifdef BENCH_OPENBLAS
    openblas_set_num_threads(qkv_threads(b->ctx));
#endif
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct product p = {shapes[i].M, shapes[i].N, shapes[i].K, shapes[i].form, b->ctx, &scratch, NULL, NULL, NULL};
        row(b, &p);
    }
    qkv_arena_free(&scratch);
}
