/* Types whose blocks have several numbers, wherever a weight may stand: model folders in such a type against the same
 * numbers in fp32, bit for bit, in passes with gradients and in sessions. Without a type of blocks that safetensors
 * files can hold there is nothing to do: tests/toys adds two, of 32 and of 256 numbers. */
#include "blocks_fixture.h"
#include "stored_fixture.h"

#include "model/model.h"

/* Specs whose rows are whole blocks of 256 numbers. BLOCKS32: only of 32. */
static const char *const specs[] = {
    /* tied, learned positions, types, biases */
    "\"tie\": \"head\", \"embed\": {\"types\": 2}, \"decoder\": {\"layers\": 2, \"attention\": {\"heads\": 4}}",
    /* one operand of q, k and v; gates; a head of its own; parts that some layers share */
    "\"decoder\": {\"layers\": 2, \"share\": 1, \"attention\": {\"heads\": 4, \"kv_heads\": 1, \"bias\": false, "
    "\"position\": {\"kind\": \"rope\"}}, \"norm\": {\"kind\": \"rmsnorm\"}, \"ffn\": {\"kind\": \"swiglu\", \"d_ff\": "
    "512}}",
    /* experts, one for all rows among them */
    "\"decoder\": {\"layers\": 1, \"attention\": {\"heads\": 2}, \"ffn\": {\"kind\": \"swiglu\", \"d_ff\": 256, "
    "\"experts\": "
    "{\"count\": 4, \"shared\": 256}}}",
    /* latents, also of queries: products of each head */
    "\"decoder\": {\"layers\": 2, \"attention\": {\"heads\": 2, \"head_dim\": 128, \"latent\": {\"rank\": 256, "
    "\"query_rank\": 256, \"rope_dim\": 32}, \"position\": {\"kind\": \"rope\"}}}",
    "\"decoder\": {\"layers\": 1, \"attention\": {\"heads\": 2, \"head_dim\": 128, \"latent\": {\"rank\": 256, "
    "\"query_rank\": 0, \"rope_dim\": 0}}}",
    /* two stacks, all of one table */
    "\"tie\": \"all\", \"encoder\": {\"layers\": 1, \"attention\": {\"heads\": 4}}, "
    "\"decoder\": {\"layers\": 1, \"attention\": {\"heads\": 4}}",
};
/* A table of biases by distance has a column for each head. */
static const char of_32[] =
    "\"decoder\": {\"layers\": 1, \"attention\": {\"heads\": 32, \"position\": {\"kind\": \"buckets\"}}}";

static void begin(struct sample *s, uint64_t stream, const char *spec, const struct qkv_context_options *options) {
    char json[2000];
    OWNED_SPEC struct qkv_spec parsed = {0};
    memset(s, 0, sizeof *s);
    s->random = test_random(stream);
    assert_int_equal(qkv_context_create(&s->ctx, options), QKV_OK);
    snprintf(json, sizeof json,
             "{\"format\": \"qkv\", \"version\": 2, \"vocab\": %d, \"d_model\": 256, \"context\": %d, %s}", VOCAB,
             CONTEXT, spec);
    if (qkv_spec_parse(s->ctx, &parsed, "blocks", json, strlen(json), NULL, 0)) fail_msg("%s", qkv_message(s->ctx));
    assert_ok(s->ctx, qkv_model_create(s->ctx, &parsed, qkv_random_bits(&s->random), &s->model));
    fill_batch(s);
}

static void reload(struct sample *s, const char *folder) {
    qkv_model_free(s->model);
    assert_ok(s->ctx, qkv_model_load(s->ctx, folder, &s->model));
}

/* How often blocks were converted, by the counting table below. */
static size_t converted;
static const struct qkv_type *counted;

static void count_blocks(float *out, const void *in, size_t n) {
    __atomic_fetch_add(&converted, n / counted->block, __ATOMIC_RELAXED);
    qkv_type_floats(counted, out, in, n);
}

static void check_spec(const char *spec, enum qkv_dtype dtype, const char *isa, enum qkv_precision precision) {
    struct sample s;
    struct qkv_buffer plain = {0}, stored = {0};
    char blocks[600], numbers[600];
    begin(&s, 400, spec, &QKV_OPTIONS(qkv_context_options, .threads = 2, .isa = isa, .precision = precision));
    snprintf(blocks, sizeof blocks, "%s/blocks", test_folder());
    snprintf(numbers, sizeof numbers, "%s/numbers", test_folder());
    assert_ok(s.ctx, qkv_model_export(s.model, qkv_type_name(dtype), blocks));
    reload(&s, blocks);
    assert_non_null(qkv_weights_stored(&s.model->weights));
    for (size_t i = 0; i < s.model->weights.count; i++) {
        const struct qkv_weight *w = &s.model->weights.list[i];
        assert_true(!w->stored || w->array.dtype == dtype);
        assert_true(w->stored == qkv_weight_has_formats(w));
    }
    assert_ok(s.ctx, qkv_model_export(s.model, "f32", numbers));
    run_pass(&s, &stored);
    if (!qkv_model_spec(s.model)->encoder.layers) run_session(&s, &stored);
    reload(&s, numbers);
    assert_null(qkv_weights_stored(&s.model->weights));
    run_pass(&s, &plain);
    if (!qkv_model_spec(s.model)->encoder.layers) run_session(&s, &plain);
    if (plain.size != stored.size || memcmp(plain.data, stored.data, plain.size))
        fail_msg("%s, %s, precision %d: other bits of {%s}", qkv_type_name(dtype), isa, (int)precision, spec);
    qkv_buffer_free(&plain);
    qkv_buffer_free(&stored);
    finish(&s);
}

static bool is_blocks(enum qkv_dtype dtype) {
    const struct qkv_type *type = qkv_types[dtype];
    return type->block > 1 && type->weights && type->safetensors;
}

static void models_of_blocks_have_the_bits_of_their_numbers(void **state) {
    (void)state;
    const char *isa;
    size_t types = 0;
    for (int d = 0; d < QKV_DTYPE_COUNT; d++) {
        if (!is_blocks((enum qkv_dtype)d) || !is_as_fp32((enum qkv_dtype)d)) continue;
        types++;
        for (size_t t = 0; (isa = qkv_isa_at(t)); t++)
            for (size_t i = 0; i < TEST_COUNT(specs); i++) /* a spec meets the other precision in the next type */
                check_spec(specs[i], (enum qkv_dtype)d, isa, (i + types + t) % 2 ? QKV_MIXED_BF16 : QKV_FP32);
        if (qkv_types[d]->block <= 32) check_spec(of_32, (enum qkv_dtype)d, NULL, QKV_FP32);
    }
    if (!types) skip();
}

static void rows_that_are_no_whole_blocks_are_refused(void **state) {
    (void)state;
    size_t types = 0;
    for (int d = 0; d < QKV_DTYPE_COUNT; d++) {
        if (!is_blocks((enum qkv_dtype)d)) continue;
        struct sample s;
        types++;
        start(&s, 401, DECODER, NULL); /* rows of 20 numbers and others */
        assert_status(s.ctx, qkv_model_export(s.model, qkv_type_name((enum qkv_dtype)d), test_path("odd")), QKV_SHAPE);
        assert_non_null(strstr(qkv_message(s.ctx), "numbers, which cannot be cut into blocks of"));
        finish(&s);
    }
    if (!types) skip();
}

/* A matrix of every type in one part: products of any number of rows, in both directions, convert each of its blocks
 * once. */
static void check_once(struct qkv_context *ctx, struct qkv_arena *scratch, struct qkv_random *r, size_t M,
                       bool transposed, bool bf16) {
    /* Whole blocks; runs of a product may end inside of one. Both sides may be long, but not at once: that takes long
     * with the scalar kernels. */
    const size_t unit = qkv_max(counted->block, 8), N = unit * test_between(r, 1, 1280 / unit),
                 K = unit * test_between(r, 1, qkv_min(1280, qkv_max(unit, ((size_t)1 << 18) / N)) / unit);
    const size_t rows = transposed ? N : K, columns = transposed ? K : N,
                 span = qkv_type_span(qkv_type_number(counted), rows * columns);
    float *a = malloc(M * K * sizeof *a), *c = malloc(M * N * sizeof *c);
    unsigned char *bytes = malloc(span);
    random_blocks(r, counted, bytes, rows * columns);
    test_fill(r, a, M * K, 1);
    const struct qkv_stored_part part = {.dtype = qkv_type_number(counted), .data = bytes, .rows = rows};
    const struct qkv_stored weights = {.parts = &part, .count = 1, .columns = columns};
    const struct qkv_stored_operand stored = {.weights = &weights, .transposed = transposed};
    converted = 0;
    const struct qkv_product_call call = {.c = c,
                                          .dtype = QKV_F32,
                                          .ldc = N,
                                          .a = {a, QKV_F32, K, 1},
                                          .b = {NULL, QKV_F32, transposed ? 1 : N, transposed ? K : 1},
                                          .stored = stored,
                                          .M = M,
                                          .N = N,
                                          .K = K};
    assert_int_equal(bf16 ? qkv_gemm_bf16(ctx, scratch, &call) : qkv_gemm(ctx, scratch, &call), QKV_OK);
    if (converted != rows * columns / counted->block)
        fail_msg("%s, %s: %zu of %zu blocks were converted, %zu x %zu x %zu, transposed %d, bf16 %d", counted->name,
                 ctx->kernels->isa, converted, rows * columns / counted->block, M, N, K, transposed, bf16);
    free(a), free(c), free(bytes);
}

static void products_convert_each_block_once(void **state) {
    (void)state;
    static struct qkv_type_kernels types[QKV_DTYPE_COUNT];
    const char *isa;
    for (size_t t = 0; (isa = qkv_isa_at(t)); t++) {
        struct qkv_random r = test_random(410 + t);
        struct qkv_context *ctx;
        struct qkv_arena scratch;
        assert_int_equal(qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, .threads = 2, .isa = isa)), QKV_OK);
        assert_ok(ctx, qkv_arena_create(ctx, &scratch, (size_t)64 << 20, "blocks"));
        struct qkv_kernels table = *ctx->kernels;
        const struct qkv_kernels *own = ctx->kernels;
        table.types = types;
        ctx->kernels = &table;
        for (int d = 0; d < QKV_DTYPE_COUNT; d++) {
            if (!qkv_types[d]->weights) continue;
            counted = qkv_types[d];
            memset(types, 0, sizeof types);
            types[d].to_float = count_blocks;
            static const size_t heights[] = {1, 2, 3, 40, 300};
            for (size_t i = 0; i < 4 * TEST_COUNT(heights); i++) /* there are many types of blocks: a height for each */
                if (counted->block == 1 || i / 4 == ((size_t)d + t) % TEST_COUNT(heights))
                    check_once(ctx, &scratch, &r, heights[i / 4], i % 2, i % 4 >= 2);
        }
        ctx->kernels = own;
        qkv_arena_free(&scratch);
        qkv_context_free(ctx);
    }
}

int main(void) {
    test_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_of_blocks_have_the_bits_of_their_numbers),
        cmocka_unit_test(rows_that_are_no_whole_blocks_are_refused),
        cmocka_unit_test(products_convert_each_block_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
