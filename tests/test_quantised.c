/* Quantised models: scores have the same bits in a pass, in a batch, decoded token by token or in pieces, at any number
 * of threads and on every kernel table; a pass that keeps gradients multiplies the same numbers as fp32. */
/* labels: quick */
#include "search_fixture.h"

#include "model/model.h"

enum { LENGTH = 40, ROWS = 3, V = 61 };

static const char *const specs[] = {
    /* rows of 256 numbers, and of 512 */
    "{\"format\": \"qkv\", \"version\": 2, \"vocab\": 61, \"d_model\": 256, \"context\": 40, "
    "\"decoder\": {\"layers\": 2, \"norm\": {\"kind\": \"rmsnorm\"}, \"attention\": {\"heads\": 4, \"kv_heads\": 2, "
    "\"position\": {\"kind\": \"rope\"}}, \"ffn\": {\"kind\": \"swiglu\", \"d_ff\": 512}}}",
    /* experts, and biases */
    "{\"format\": \"qkv\", \"version\": 2, \"vocab\": 61, \"d_model\": 256, \"context\": 40, "
    "\"decoder\": {\"layers\": 1, \"attention\": {\"heads\": 4}, "
    "\"ffn\": {\"kind\": \"gelu\", \"d_ff\": 256, \"experts\": {\"count\": 4, \"top_k\": 2}}}}"};

static const char *const mixes[] = {"Q8_0", "Q4_0", "q5_1", "Q2_K", "Q3_K_M", "Q4_K_M", "Q5_K_M", "iq4_xs"};

static struct qkv_context *open_context(const char *isa, int threads) {
    struct qkv_context *ctx;
    assert_int_equal(qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, .threads = threads, .isa = isa)),
                     QKV_OK);
    return ctx;
}

/* Scores of all positions of the first `rows` sequences. */
static float *pass_scores(struct qkv_context *ctx, struct qkv_model *m, const int32_t *ids, size_t rows,
                          bool backward) {
    const size_t count = rows * LENGTH * V;
    struct qkv_pass *pass;
    struct qkv_pass_options o = {.size = sizeof o, .B = rows, .T = LENGTH, .logits = true, .train = backward};
    const struct qkv_batch b = {.B = rows, .T = LENGTH, .ids = ids, .targets = backward ? ids : NULL};
    float *out = malloc(count * sizeof *out);
    assert_ok(ctx, qkv_pass_create(m, &o, &pass));
    assert_ok(ctx, qkv_pass_forward(pass, &b));
    memcpy(out, qkv_pass_output(pass).data, count * sizeof *out);
    qkv_pass_free(pass);
    return out;
}

/* A session whose prompt comes in pieces, then token by token. */
static void check_session(struct qkv_context *ctx, struct qkv_model *m, const int32_t *ids, size_t piece,
                          const float *expected) {
    struct qkv_session *s;
    assert_ok(ctx, qkv_session_create(m, NULL, &s));
    for (size_t at = 0, n; at < LENGTH; at += n) {
        n = at + piece <= LENGTH / 2 ? piece : 1;
        assert_ok(ctx, qkv_session_append(s, ids + at, n));
        if (memcmp(qkv_session_logits(s), expected + (at + n - 1) * V, V * sizeof(float)))
            fail_msg("pieces of %zu on %s: other scores after %zu tokens", piece, qkv_context_isa(ctx), at + n);
    }
    qkv_session_free(s);
}

/* Scores after all tokens, of a cache of q8_0, in pieces. */
static void cached_scores(struct qkv_context *ctx, struct qkv_model *m, const int32_t *ids, size_t piece, float *out) {
    struct qkv_session *s;
    assert_ok(ctx, qkv_session_create(m, &QKV_OPTIONS(qkv_session_options, .cache = "q8_0"), &s));
    for (size_t at = 0, n; at < LENGTH; at += n) {
        n = qkv_min(piece, LENGTH - at);
        assert_ok(ctx, qkv_session_append(s, ids + at, n));
    }
    memcpy(out, qkv_session_logits(s), V * sizeof *out);
    qkv_session_free(s);
}

static void check_cache(struct qkv_context *ctx, struct qkv_model *m, const int32_t *ids) {
    static const size_t pieces[] = {1, 17, LENGTH};
    float first[V], scores[V];
    for (size_t i = 0; i < TEST_COUNT(pieces); i++) {
        cached_scores(ctx, m, ids, pieces[i], i ? scores : first);
        if (i && memcmp(scores, first, sizeof first))
            fail_msg("a cache of q8_0 on %s: other scores in pieces of %zu", qkv_context_isa(ctx), pieces[i]);
    }
}

/* A model whose weights stay as the file has them has no packed copy, and the same scores. */
static void check_map(const char *path, const char *isa, const int32_t *ids, const float *expected) {
    struct qkv_context *ctx = open_context(isa, 2);
    struct qkv_opening *opening;
    struct qkv_model *m;
    struct qkv_needs packed, mapped;
    assert_ok(ctx, qkv_model_open(ctx, path, NULL, &opening));
    assert_ok(ctx, qkv_opening_needs(opening, NULL, &packed));
    assert_false(qkv_model_mapped(qkv_opening_plan(opening)));
    qkv_opening_free(opening);
    assert_ok(ctx, qkv_model_open(ctx, path, &QKV_OPTIONS(qkv_model_open_options, .map = true), &opening));
    assert_ok(ctx, qkv_opening_needs(opening, NULL, &mapped));
    assert_ok(ctx, qkv_model_fill(opening, &m));
    qkv_opening_free(opening);
    assert_true(qkv_model_mapped(m));
    if (mapped.model >= packed.model / 2 || mapped.mapped != packed.mapped)
        fail_msg("%s needs %zu bytes packed, %zu mapped", path, packed.model, mapped.model);
    float *all = pass_scores(ctx, m, ids, ROWS, false);
    if (memcmp(all, expected, ROWS * LENGTH * V * sizeof *all)) fail_msg("%s: other scores with option map", path);
    check_session(ctx, m, ids, 5, expected);
    assert_int_equal(m->packed_arena.peak, 0);
    free(all);
    qkv_model_free(m);
    qkv_context_free(ctx);
}

static void check_table(const char *path, const char *isa, int threads, const int32_t *ids, const float *expected) {
    struct qkv_context *ctx = open_context(isa, threads);
    struct qkv_model *m;
    assert_ok(ctx, qkv_model_load(ctx, path, &m));
    float *all = pass_scores(ctx, m, ids, ROWS, false), *one = pass_scores(ctx, m, ids + LENGTH, 1, false);
    if (memcmp(all, expected, ROWS * LENGTH * V * sizeof *all)) fail_msg("%s: other scores in a batch", isa);
    if (memcmp(one, expected + LENGTH * V, LENGTH * V * sizeof *one)) fail_msg("%s: other scores alone", isa);
    check_session(ctx, m, ids, threads == 1 ? 1 : 17, expected);
    check_cache(ctx, m, ids);
    free(all), free(one);
    qkv_model_free(m);
    qkv_context_free(ctx);
}

/* The scores of fp32 products with the same numbers, of a pass that goes backward, are other bits, and near if no row
 * chooses another expert. */
static void check_gradients(const char *path, const int32_t *ids, const float *expected, bool experts) {
    struct qkv_context *ctx = open_context(NULL, 2);
    struct qkv_model *m;
    double apart = 0, size = 0;
    assert_ok(ctx, qkv_model_load(ctx, path, &m));
    float *plain = pass_scores(ctx, m, ids, 1, true);
    for (size_t i = 0; i < (size_t)LENGTH * V; i++) {
        apart += pow((double)plain[i] - (double)expected[i], 2);
        size += pow((double)plain[i], 2);
    }
    if (!(apart > 0) || (!experts && sqrt(apart / size) > 0.03))
        fail_msg("%s: products of integers are %g of the scores apart", path, sqrt(apart / size));
    free(plain);
    qkv_model_free(m);
    qkv_context_free(ctx);
}

static void check_mix(const char *spec, const char *mix, size_t turn) {
    struct qkv_context *ctx = open_context(NULL, 2);
    struct qkv_model *m = fixture_model(ctx, spec, NULL, 0, 11 + turn, 0.05);
    struct qkv_gguf_options o = qkv_gguf_defaults();
    struct qkv_random r = test_random(60 + turn);
    int32_t ids[ROWS * LENGTH];
    char path[600];
    const char *isa;
    fixture_ids(&r, ids, ROWS * LENGTH, V);
    snprintf(path, sizeof path, "%s/%s.gguf", test_folder(), mix);
    o.format = mix;
    assert_ok(ctx, qkv_model_export_gguf(m, &o, path, NULL));
    qkv_model_free(m);
    assert_ok(ctx, qkv_model_load(ctx, path, &m));
    assert_non_null(qkv_weights_stored(&m->weights));
    float *expected = pass_scores(ctx, m, ids, ROWS, false);
    check_session(ctx, m, ids, LENGTH / 2, expected);
    for (size_t t = 0; (isa = qkv_isa_at(t)); t++)
        if (!t || turn % 3 == t % 3) check_table(path, isa, turn % 2 ? 3 : 1, ids, expected);
    check_table(path, NULL, 4, ids, expected);
    for (size_t t = 0; (isa = qkv_isa_at(t)); t++)
        if (turn % 2 == t % 2) check_map(path, isa, ids, expected);
    check_gradients(path, ids, expected, spec == specs[1]);
    free(expected);
    qkv_model_free(m);
    qkv_context_free(ctx);
}

static void quantised_models_have_the_same_bits_everywhere(void **state) {
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(mixes); i++) check_mix(specs[i % 2], mixes[i], i);
}

int main(void) {
    test_seed();
    const struct CMUnitTest tests[] = {cmocka_unit_test(quantised_models_have_the_same_bits_everywhere)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
