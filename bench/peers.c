/* peers: OpenBLAS and oneDNN, if they are installed: "qkv bench" measures them and this library's matrix product.
 *
 * OpenBLAS: cblas_sgemm, fp32. oneDNN: its matmul primitive, fp32 and bf16, C in fp32; constant weights are packed
 * before, in the layout that the primitive requests. Its bf16 needs AVX-512: without it oneDNN has no bf16 row. */
#include <stdlib.h>
#include <string.h>

#ifdef BENCH_OPENBLAS
#include <cblas-openblas.h>
#endif
#ifdef BENCH_DNNL
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#endif

#include "cli_lab.h"

#ifdef BENCH_OPENBLAS
static void *openblas_prepare(const struct qkv_bench_product *p) {
    if (p->bf16) return NULL;
    openblas_set_num_threads(p->threads);
    return (void *)(uintptr_t)p;
}

static void openblas_run(void *prepared, size_t turn) {
    const struct qkv_bench_product *p = prepared;
    cblas_sgemm(CblasRowMajor, p->a_transposed ? CblasTrans : CblasNoTrans, p->b_transposed ? CblasTrans : CblasNoTrans,
                (int)p->M, (int)p->N, (int)p->K, 1, p->a, (int)(p->a_transposed ? p->M : p->K), p->b[turn % p->count],
                (int)(p->b_transposed ? p->K : p->N), 0, p->c[turn % p->count], (int)p->N);
}

static void openblas_release(void *prepared) {
    (void)prepared;
}
#endif

#ifdef BENCH_DNNL
struct onednn {
    const struct qkv_bench_product *product;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_desc_t descriptor;
    dnnl_primitive_t primitive;
    dnnl_memory_t a, *b, *c; /* b and c: product->count of each */
};

static void onednn_release(void *prepared) {
    struct onednn *d = prepared;
    for (size_t i = 0; d->b && i < d->product->count; i++) dnnl_memory_destroy(d->b[i]);
    for (size_t i = 0; d->c && i < d->product->count; i++) dnnl_memory_destroy(d->c[i]);
    free(d->b);
    free(d->c);
    dnnl_memory_destroy(d->a);
    dnnl_primitive_destroy(d->primitive);
    dnnl_primitive_desc_destroy(d->descriptor);
    dnnl_stream_destroy(d->stream);
    dnnl_engine_destroy(d->engine);
    free(d);
}

/* A row-major matrix; `transposed`: memory holds its transpose. */
static dnnl_memory_desc_t matrix(size_t rows, size_t columns, dnnl_data_type_t type, bool transposed) {
    dnnl_memory_desc_t m;
    const dnnl_dims_t sizes = {(dnnl_dim_t)rows, (dnnl_dim_t)columns};
    dnnl_memory_desc_init_by_tag(&m, 2, sizes, type, transposed ? dnnl_ba : dnnl_ab);
    return m;
}

static dnnl_memory_desc_t any_layout(size_t rows, size_t columns, dnnl_data_type_t type) {
    dnnl_memory_desc_t m;
    const dnnl_dims_t sizes = {(dnnl_dim_t)rows, (dnnl_dim_t)columns};
    dnnl_memory_desc_init_by_tag(&m, 2, sizes, type, dnnl_format_tag_any);
    return m;
}

/* One B in memory of its own, in the layout that the primitive requests. */
static bool pack(struct onednn *d, const dnnl_memory_desc_t *plain, const void *data, dnnl_memory_t *packed) {
    const dnnl_memory_desc_t *wanted = dnnl_primitive_desc_query_md(d->descriptor, dnnl_query_weights_md, 0);
    dnnl_memory_t from = NULL;
    dnnl_primitive_desc_t descriptor = NULL;
    dnnl_primitive_t reorder = NULL;
    bool done =
        dnnl_memory_create(packed, wanted, d->engine, DNNL_MEMORY_ALLOCATE) == dnnl_success &&
        dnnl_memory_create(&from, plain, d->engine, (void *)(uintptr_t)data) == dnnl_success &&
        dnnl_reorder_primitive_desc_create(&descriptor, plain, d->engine, wanted, d->engine, NULL) == dnnl_success &&
        dnnl_primitive_create(&reorder, descriptor) == dnnl_success;
    if (done) {
        const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, *packed}};
        done = dnnl_primitive_execute(reorder, d->stream, 2, arguments) == dnnl_success &&
               dnnl_stream_wait(d->stream) == dnnl_success;
    }
    dnnl_primitive_destroy(reorder);
    dnnl_primitive_desc_destroy(descriptor);
    dnnl_memory_destroy(from);
    return done;
}

static bool onednn_make(struct onednn *d) {
    const struct qkv_bench_product *p = d->product;
    const dnnl_data_type_t type = p->bf16 ? dnnl_bf16 : dnnl_f32;
    const dnnl_memory_desc_t a = matrix(p->M, p->K, type, p->a_transposed),
                             b = matrix(p->K, p->N, type, p->b_transposed), c = matrix(p->M, p->N, dnnl_f32, false),
                             free_b = any_layout(p->K, p->N, type);
    dnnl_matmul_desc_t operation;
    if (dnnl_engine_create(&d->engine, dnnl_cpu, 0) != dnnl_success ||
        dnnl_stream_create(&d->stream, d->engine, dnnl_stream_default_flags) != dnnl_success ||
        dnnl_matmul_desc_init(&operation, &a, p->weights ? &free_b : &b, NULL, &c) != dnnl_success ||
        dnnl_primitive_desc_create(&d->descriptor, &operation, NULL, d->engine, NULL) != dnnl_success ||
        dnnl_primitive_create(&d->primitive, d->descriptor) != dnnl_success ||
        dnnl_memory_create(&d->a, &a, d->engine, (void *)(uintptr_t)p->a) != dnnl_success)
        return false;
    d->b = calloc(p->count, sizeof *d->b);
    d->c = calloc(p->count, sizeof *d->c);
    if (!d->b || !d->c) return false;
    for (size_t i = 0; i < p->count; i++) {
        bool made = p->weights
                        ? pack(d, &b, p->b[i], &d->b[i])
                        : dnnl_memory_create(&d->b[i], &b, d->engine, (void *)(uintptr_t)p->b[i]) == dnnl_success;
        if (!made || dnnl_memory_create(&d->c[i], &c, d->engine, p->c[i]) != dnnl_success) return false;
    }
    return true;
}

static void *onednn_prepare(const struct qkv_bench_product *product) {
    struct onednn *d = calloc(1, sizeof *d);
    if (!d) return NULL;
    d->product = product;
    omp_set_num_threads(product->threads); /* each call sets the number of threads */
    if (onednn_make(d)) return d;
    onednn_release(d);
    return NULL;
}

static void onednn_run(void *prepared, size_t turn) {
    struct onednn *d = prepared;
    const size_t i = turn % d->product->count;
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, d->a}, {DNNL_ARG_WEIGHTS, d->b[i]}, {DNNL_ARG_DST, d->c[i]}};
    dnnl_primitive_execute(d->primitive, d->stream, 3, arguments);
    dnnl_stream_wait(d->stream);
}
#endif

/* The last entry is empty: an array has at least one. */
static const struct qkv_bench_peer peers[] = {
#ifdef BENCH_OPENBLAS
    {"openblas", openblas_prepare, openblas_run, openblas_release},
#endif
#ifdef BENCH_DNNL
    {"onednn", onednn_prepare, onednn_run, onednn_release},
#endif
    {NULL, NULL, NULL, NULL},
};

const struct qkv_bench_peer *cli_bench_peers(size_t *count) {
    *count = CLI_COUNT_OF(peers) - 1;
    return peers;
}
