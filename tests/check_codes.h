/* check_codes.h: products of integers of one entry of QKV_ISA_LIST against those of plain C, bit for bit: every type
 * whose blocks are integers, rows in all tiles, panels that are not full, packed weights and others. */
#ifndef QKV_CHECK_CODES_H
#define QKV_CHECK_CODES_H

#include "check_tables.h"

#include "kernel/isa/codes.h"

/* x · wᵀ with the products `codes`, (M,N). */
static float *codes_product(const struct qkv_codes_kernels *codes, const struct qkv_product_call *call, bool packed) {
    struct qkv_kernels table = *scalar_table();
    struct qkv_context ctx = {.threads = 1, .kernels = &table, .backend = &qkv_backend_bare};
    struct qkv_arena scratch;
    struct qkv_product_call own = *call;
    size_t bytes = 0;
    table.codes = codes;
    float *c = calloc(call->M * call->N, sizeof *c);
    own.c = c;
    CHECK(qkv_codes_packed_bytes(&ctx, call->stored.weights, call->K, call->N, &bytes), "bytes of packed weights");
    void *to = malloc(bytes);
    if (packed) {
        qkv_codes_pack(&ctx, to, call->b, call->stored, call->K, call->N);
        own.packed = to;
    }
    CHECK(!qkv_arena_create(&ctx, &scratch, (size_t)8 << 20, "scratch"), "scratch");
    CHECK(!qkv_gemm_codes(&ctx, &scratch, &own), "a product");
    qkv_arena_free(&scratch);
    qkv_team_free(&ctx);
    free(to);
    return c;
}

static void check_codes_type(const struct qkv_codes_kernels *codes, enum qkv_dtype type, enum qkv_dtype form,
                             struct qkv_random *random) {
    const size_t block = qkv_types[form]->block, M = 1 + qkv_random_below(random, 19);
    const size_t N = 1 + qkv_random_below(random, 40), K = block * (1 + qkv_random_below(random, 3));
    float *x = random_floats(random, M * K, 1), *w = random_floats(random, N * K, 1);
    void *formed = malloc(qkv_type_span(form, M * K)), *stored = malloc(qkv_type_span(type, N * K));
    qkv_from_float(formed, x, form, M * K);
    qkv_from_float(stored, w, type, N * K);
    const struct qkv_stored_part part = {type, stored, N};
    const struct qkv_stored weights = {.parts = &part, .count = 1, .columns = K};
    const struct qkv_product_call call = {.dtype = QKV_F32,
                                          .ldc = N,
                                          .a = {formed, form, K, 1},
                                          .b = {NULL, QKV_F32, 1, K},
                                          .stored = {.weights = &weights, .transposed = true},
                                          .M = M,
                                          .N = N,
                                          .K = K};
    float *expected = codes_product(scalar_table()->codes, &call, false);
    for (int packed = 0; packed < 2; packed++) {
        float *c = codes_product(codes, &call, packed);
        CHECK(same_bits(c, expected, M * N), "%s, %s: other bits than plain C, %zu x %zu x %zu", codes->unit,
              qkv_types[type]->name, M, N, K);
        free(c);
    }
    free(expected), free(formed), free(stored);
    guarded_free(x, M * K, "x"), guarded_free(w, N * K, "w");
}

static void check_codes(const struct qkv_codes_kernels *codes, struct qkv_random *random) {
    for (int type = 0; type < QKV_DTYPE_COUNT; type++) {
        if (!qkv_types[type]->codes) continue;
        CHECK(codes->multiply(qkv_types[type]) != NULL, "%s has no product of %s", codes->unit, qkv_types[type]->name);
        check_codes_type(codes, (enum qkv_dtype)type, QKV_I8_256, random);
        if (qkv_types[type]->block == 32) check_codes_type(codes, (enum qkv_dtype)type, QKV_I8_32, random);
    }
}

#endif
