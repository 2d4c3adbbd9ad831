/* Epilogues of products (QKV_EPILOGUE_LIST in kernel/product.h): every kind, in every row of the table of products,
 * against its formula in doubles, applied to what the same product computes without an epilogue. */
/* labels: numeric quick */
#include "test.h"

#include "kernel/product.h"
#include "reference_act.h"

enum { C_GAP = 5, OUT_GAP = 3 };

struct shape {
    size_t M, N, K; /* K: whole blocks of x */
};

/* Operands, and the results with and without the epilogue: rows with gaps, which must stay as they are. */
struct operands {
    struct shape shape;
    const struct qkv_product *row;
    enum qkv_dtype dtype; /* of C and out */
    size_t ldc, ld;
    void *x, *w; /* in the row's form, (M,K); in its type of weights, (N,K) */
    void *packed;
    struct qkv_stored_part part;
    struct qkv_stored stored;
    float *bias, *residual, *plain, *c, *out; /* plain, c and out: as fp32 after a product */
    void *stored_c, *stored_out;
};

static void *random_numbers(const struct qkv_context *ctx, struct qkv_random *r, enum qkv_dtype dtype,
                            const struct qkv_product *rounds, size_t n, double deviation) {
    float *x = malloc(n * sizeof *x);
    void *to = malloc(qkv_type_span(dtype, n));
    test_fill(r, x, n, deviation);
    if (rounds && rounds->round)
        rounds->round(ctx, to, x, n);
    else
        qkv_from_float(to, x, dtype, n);
    free(x);
    return to;
}

static struct operands operands(struct qkv_context *ctx, struct qkv_random *r, const struct qkv_product *row,
                                enum qkv_dtype dtype, const struct shape *s) {
    enum qkv_dtype weight = QKV_F32;
    while (row->serves && !row->serves(weight)) weight = (enum qkv_dtype)qkv_random_below(r, QKV_DTYPE_COUNT);
    struct operands o = {.shape = *s, .row = row, .dtype = dtype, .ldc = s->N + C_GAP, .ld = s->N + OUT_GAP};
    const size_t c = s->M * o.ldc, out = s->M * o.ld;
    o.x = random_numbers(ctx, r, row->form, row, s->M * s->K, 1);
    o.w = random_numbers(ctx, r, weight, NULL, s->N * s->K, 1 / sqrt((double)s->K));
    o.bias = random_numbers(ctx, r, QKV_F32, NULL, s->N, 1);
    o.residual = random_numbers(ctx, r, QKV_F32, NULL, out, 1);
    o.part = (struct qkv_stored_part){weight, o.w, s->N};
    o.plain = malloc(c * sizeof(float)), o.c = malloc(c * sizeof(float)), o.out = malloc(out * sizeof(float));
    o.stored_c = malloc(c * sizeof(float)), o.stored_out = malloc(out * sizeof(float));
    size_t bytes;
    if (row->pack && s->M % 2) {
        const struct qkv_stored stored = {.parts = &o.part, .count = 1, .columns = s->K};
        const struct qkv_stored_operand own = {.weights = row->serves ? &stored : NULL, .transposed = true};
        assert_true(row->packed_bytes(ctx, &stored, s->K, s->N, &bytes));
        o.packed = malloc(bytes);
        row->pack(ctx, o.packed, (struct qkv_operand){o.w, QKV_F32, 1, s->K}, own, s->K, s->N);
    }
    return o;
}

static void operands_free(struct operands *o) {
    free(o->x), free(o->w), free(o->packed), free(o->bias), free(o->residual);
    free(o->plain), free(o->c), free(o->out), free(o->stored_c), free(o->stored_out);
}

/* Multiplies with the scratch that a plan asks for. Both results begin as 77. */
static void multiply(struct qkv_context *ctx, struct operands *o, const struct qkv_epilogue *epilogue, float *c) {
    const struct shape *s = &o->shape;
    struct qkv_arena measure, scratch;
    o->stored = (struct qkv_stored){.parts = &o->part, .count = 1, .columns = s->K};
    struct qkv_product_call call = {.c = o->stored_c,
                                    .dtype = o->dtype,
                                    .ldc = o->ldc,
                                    .a = {o->x, o->row->form, s->K, 1},
                                    .b = {o->w, QKV_F32, 1, s->K},
                                    .packed = o->packed,
                                    .bias = o->bias,
                                    .M = s->M,
                                    .N = s->N,
                                    .K = s->K,
                                    .epilogue = *epilogue};
    if (o->row->serves) call.stored = (struct qkv_stored_operand){.weights = &o->stored, .transposed = true};
    for (size_t i = 0; i < s->M * o->ldc; i++) c[i] = 77;
    for (size_t i = 0; i < s->M * o->ld; i++) o->out[i] = 77;
    qkv_from_float(o->stored_c, c, o->dtype, s->M * o->ldc);
    qkv_from_float(o->stored_out, o->out, o->dtype, s->M * o->ld);
    qkv_arena_measure(ctx, &measure, "a plan");
    const struct qkv_planning had = qkv_planning_begin(ctx);
    assert_ok(ctx, o->row->multiply(ctx, &measure, &call));
    qkv_planning_end(ctx, had);
    assert_ok(ctx, qkv_arena_create(ctx, &scratch, measure.peak, "a product"));
    assert_ok(ctx, o->row->multiply(ctx, &scratch, &call));
    assert_int_equal(scratch.peak, measure.peak);
    qkv_arena_free(&scratch);
    qkv_arena_free(&measure);
    qkv_to_float(c, o->stored_c, o->dtype, s->M * o->ldc);
    qkv_to_float(o->out, o->stored_out, o->dtype, s->M * o->ld);
}

/* What an epilogue makes of element (m, n) of C, and its element (m, n) of out; 77: it does not write it. */
struct expected {
    double c, out;
};

static struct expected expected_of(const struct operands *o, const struct qkv_epilogue *e, size_t m, size_t n) {
    const float *row = o->plain + m * o->ldc;
    const double c = (double)row[n], a = (double)e->softcap.scale, cap = (double)e->softcap.cap;
    switch (e->kind) {
    case QKV_EPILOGUE_residual:
        return (struct expected){(double)o->residual[m * o->ld + n] + (double)e->scale * c, 77};
    case QKV_EPILOGUE_activation:
        return (struct expected){e->slope ? reference_slope(e->ffn, c) : c, reference_act(e->ffn, c)};
    case QKV_EPILOGUE_gated:
        if (n >= o->shape.N / 2) return (struct expected){c, 77};
        return (struct expected){c, reference_gate(e->ffn, (double)e->limit, c, (double)row[o->shape.N / 2 + n], NULL)};
    case QKV_EPILOGUE_softcap:
        return (struct expected){cap * tanh(a * c / cap), 77};
    case QKV_EPILOGUE_none:
    case QKV_EPILOGUE_COUNT:
        break;
    }
    fail_msg("epilogue %d has no formula here", (int)e->kind);
    return (struct expected){0};
}

static bool is_near(const struct operands *o, float got, double expected) {
    const double unit = o->dtype == QKV_BF16 ? 0x1p-8 : 0x1p-19;
    return fabs((double)got - expected) <= unit * (fabs(expected) + 0.1);
}

static void check_rows(const struct operands *o, const struct qkv_epilogue *e, const char *isa) {
    const struct shape *s = &o->shape;
    for (size_t m = 0; m < s->M; m++) {
        const float *c = o->c + m * o->ldc, *out = o->out + m * o->ld;
        for (size_t n = 0; n < s->N; n++) {
            const struct expected want = expected_of(o, e, m, n);
            if (!is_near(o, c[n], want.c) || !is_near(o, out[n], want.out))
                fail_msg("%s, %s, epilogue %d, %s: (%zu,%zu) of %zu x %zu x %zu is %g and %g, not %g and %g",
                         o->row->name, isa, (int)e->kind, reference_name(e->ffn), m, n, s->M, s->N, s->K, (double)c[n],
                         (double)out[n], want.c, want.out);
        }
        for (size_t n = s->N; n < o->ldc; n++) assert_true(c[n] == 77);
        for (size_t n = s->N; n < o->ld; n++) assert_true(out[n] == 77);
    }
}

/* The next kind of feed-forward that is gated or not. */
static enum qkv_ffn_kind next_kind(size_t *next, bool gated) {
    do *next = (*next + 1) % QKV_FFN_COUNT;
    while (qkv_ffn_gated((enum qkv_ffn_kind) * next) != gated);
    return (enum qkv_ffn_kind) * next;
}

#define EPILOGUE_FP32(name, whole_rows, fp32) [QKV_EPILOGUE_##name] = (fp32),
static const bool epilogue_fp32[QKV_EPILOGUE_COUNT] = {QKV_EPILOGUE_LIST(EPILOGUE_FP32)};

static void check_kinds(struct qkv_context *ctx, struct operands *o, size_t *ffn) {
    multiply(ctx, o, &(struct qkv_epilogue){0}, o->plain);
    for (int kind = QKV_EPILOGUE_none + 1; kind < QKV_EPILOGUE_COUNT; kind++) {
        struct qkv_epilogue e = {.kind = (enum qkv_epilogue_kind)kind,
                                 .residual = o->residual,
                                 .scale = o->shape.K % 64 ? -0.37F : 1,
                                 .out = o->stored_out,
                                 .ld = o->ld,
                                 .ffn = next_kind(ffn, kind == QKV_EPILOGUE_gated),
                                 .limit = 0.7F,
                                 .softcap = {.scale = 1.3F, .cap = 0.9F}};
        if (o->dtype != QKV_F32 && epilogue_fp32[kind]) continue;
        multiply(ctx, o, &e, o->c);
        check_rows(o, &e, ctx->kernels->isa);
        if (kind != QKV_EPILOGUE_activation || o->dtype != QKV_F32) continue;
        e.slope = true;
        multiply(ctx, o, &e, o->c);
        check_rows(o, &e, ctx->kernels->isa);
    }
}

/* Products of few rows and of many; on one thread and on several, which share columns and rows. */
static void every_product_computes_every_epilogue(void **state) {
    (void)state;
    /* The last one has several parts of B along its columns, on tables whose tiles have at most six rows. */
    static const struct shape shapes[] = {{1, 702, 512}, {2, 64, 96},     {2, 1030, 544}, {3, 130, 160},  {41, 66, 96},
                                          {70, 310, 64}, {160, 256, 320}, {257, 96, 32},  {97, 8200, 130}};
    const char *isa;
    const struct qkv_product *row;
    size_t ffn = 0;
    for (size_t t = 0; (isa = qkv_isa_at(t)); t++)
        for (size_t i = 0; (row = qkv_product_at(i)); i++)
            for (size_t s = 0; s < TEST_COUNT(shapes) * 4; s++) {
                const enum qkv_dtype dtype = s % 2 ? QKV_BF16 : QKV_F32;
                const struct qkv_context_options options = {
                    .size = sizeof options, .threads = s / 2 % 2 ? 3 : 1, .isa = isa};
                struct qkv_random r = test_random(40 + s);
                struct qkv_context *ctx;
                if (dtype != QKV_F32 && row->activation != dtype && !row->serves) continue;
                if (s / 4 == TEST_COUNT(shapes) - 1 && s % 4 != 2) continue; /* once, in fp32 on several threads */
                struct shape shape = shapes[s / 4];
                shape.K = qkv_round_up(shape.K, qkv_types[row->form]->block);
                assert_int_equal(qkv_context_create(&ctx, &options), QKV_OK);
                struct operands o = operands(ctx, &r, row, dtype, &shape);
                check_kinds(ctx, &o, &ffn);
                operands_free(&o);
                qkv_context_free(ctx);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_product_computes_every_epilogue)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
