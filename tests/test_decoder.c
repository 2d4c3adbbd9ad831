/* test_decoder: sources encoded once and targets that grow together give, bit for bit, what a pass over each source
 * and target alone gives, over the grid of specs, through every selection of rows; and each refusal with its
 * message. */
/* labels: numeric quick */
#include "search_fixture.h"

#include "kernel/kernel.h"

enum { V = 29, CONTEXT = 24, ROWS = 12, SOURCES = 4 };

static struct qkv_context *ctx;

static const char both[] =
    "{\"format\": \"qkv\", \"version\": 1, \"vocab\": 29, \"source_vocab\": 17, \"d_model\": 16, \"context\": 24, "
    "\"encoder\": {\"layers\": 2, \"attention\": {\"heads\": 4}}, "
    "\"decoder\": {\"layers\": 2, \"attention\": {\"heads\": 4}}}";
static const char alone[] = "{\"format\": \"qkv\", \"version\": 1, \"vocab\": 29, \"d_model\": 16, \"context\": 24, "
                            "\"decoder\": {\"layers\": 2, \"attention\": {\"heads\": 4}}}";

static int setup(void **state) {
    (void)state;
    return (int)qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, .threads = 1));
}

static int teardown(void **state) {
    (void)state;
    qkv_context_free(ctx);
    return 0;
}

/* The expected contents of a decoder's rows. */
struct twin {
    size_t rows, length, sources[ROWS];
    int32_t ids[ROWS][CONTEXT];
    int32_t source_ids[SOURCES][CONTEXT], lengths[SOURCES];
};

static void expect_scores(struct qkv_model *m, struct qkv_decoder *d, const struct twin *t, bool encoded) {
    float want[V];
    const float *got = qkv_decoder_logits(d);
    assert_non_null(got);
    assert_int_equal(qkv_decoder_rows(d), t->rows);
    assert_int_equal(qkv_decoder_length(d), t->length);
    for (size_t r = 0; r < t->rows; r++) {
        size_t s = t->sources[r];
        fixture_scores(ctx, m, encoded ? t->source_ids[s] : NULL, encoded ? (size_t)t->lengths[s] : 0, t->ids[r],
                       t->length, want);
        assert_memory_equal(got + r * V, want, sizeof want);
    }
}

static void step(struct qkv_decoder *d, struct twin *t, struct qkv_random *random) {
    int32_t next[ROWS];
    fixture_ids(random, next, t->rows, V);
    for (size_t r = 0; r < t->rows; r++) t->ids[r][t->length] = next[r];
    t->length++;
    assert_ok(ctx, qkv_decoder_step(d, next));
}

static void choose(struct qkv_decoder *d, struct twin *t, const size_t *from, size_t count) {
    struct twin old = *t;
    assert_ok(ctx, qkv_decoder_select(d, from, count));
    for (size_t r = 0; r < count; r++) {
        t->sources[r] = old.sources[from[r]];
        memcpy(t->ids[r], old.ids[from[r]], sizeof t->ids[r]);
    }
    t->rows = count;
}

/* Grows and selects: single rows, groups of equal size, ragged ones, all rows from one, and back to the number at
 * the start. */
static void walk(struct qkv_model *m, bool encoded, uint64_t stream) {
    struct qkv_random random = test_random(stream);
    static struct twin t;
    int32_t padded[SOURCES * 9] = {0};
    struct qkv_encoded *e = NULL;
    struct qkv_decoder *d;
    t = (struct twin){.rows = ROWS};
    for (size_t s = 0; s < SOURCES; s++) {
        t.lengths[s] = (int32_t)test_between(&random, 1, 9);
        fixture_ids(&random, t.source_ids[s], (size_t)t.lengths[s], 17);
        memcpy(padded + s * 9, t.source_ids[s], (size_t)t.lengths[s] * sizeof *padded);
    }
    for (size_t r = 0; r < ROWS; r++) t.sources[r] = r / (ROWS / SOURCES);
    if (encoded) assert_ok(ctx, qkv_encode(m, padded, t.lengths, SOURCES, 9, &e));
    assert_ok(ctx, qkv_decoder_create(m,
                                      &QKV_OPTIONS(qkv_decoder_options, .encoded = e, .sources = t.sources,
                                                   .rows = ROWS, .capacity = 16, .chunk = 1),
                                      &d));
    qkv_encoded_free(NULL);
    assert_null(qkv_decoder_logits(d));
    choose(d, &t, (const size_t[]){0, 3, 6, 9}, 4);
    step(d, &t, &random);
    expect_scores(m, d, &t, encoded);
    choose(d, &t, (const size_t[]){0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3}, 12);
    expect_scores(m, d, &t, encoded);
    for (size_t i = 0; i < 3; i++) step(d, &t, &random);
    expect_scores(m, d, &t, encoded);
    choose(d, &t, (const size_t[]){2, 0, 2, 5, 4, 3, 9, 11}, 8);
    step(d, &t, &random);
    expect_scores(m, d, &t, encoded);
    for (size_t i = 0; i < 4; i++) {
        size_t from[ROWS], count = test_between(&random, 1, ROWS);
        for (size_t r = 0; r < count; r++) from[r] = (size_t)qkv_random_below(&random, t.rows);
        choose(d, &t, from, count);
        expect_scores(m, d, &t, encoded);
        step(d, &t, &random);
    }
    expect_scores(m, d, &t, encoded);
    qkv_decoder_free(d);
    qkv_encoded_free(e);
}

static void test_grid(void **state) {
    (void)state;
    static const char *const positions[] = {"none", "sinusoidal", "learned", "rope", "alibi"};
    static const int kv_heads[] = {4, 2, 1};
    for (size_t p = 0; p < TEST_COUNT(positions); p++)
        for (size_t k = 0; k < 3; k++)
            for (size_t place = 0; place < 2; place++) {
                char position[64], self[64], cross[64], placement[64], gated[64];
                snprintf(position, sizeof position, "position.kind=%s", positions[p]);
                snprintf(self, sizeof self, "decoder.attention.kv_heads=%d", kv_heads[k]);
                snprintf(cross, sizeof cross, "encoder.attention.kv_heads=%d", kv_heads[(k + 1) % 3]);
                snprintf(placement, sizeof placement, "decoder.norm.placement=%s", place ? "post" : "pre");
                snprintf(gated, sizeof gated, "decoder.ffn.kind=%s", (p + k) % 2 ? "swiglu" : "relu");
                const char *settings[] = {position, self, placement, gated, cross};
                struct qkv_model *m = fixture_model(ctx, both, settings, 5, 10 * p + k, 0.2);
                walk(m, true, 100 * p + 10 * k + place);
                qkv_model_free(m);
                m = fixture_model(ctx, alone, settings, 4, 10 * p + k, 0.2);
                walk(m, false, 100 * p + 10 * k + place + 1000);
                qkv_model_free(m);
            }
}

/* Windows, softcaps, a causal cross attention, other head sizes; on all threads, and on one with the scalar kernels. */
static void test_oddities(void **state) {
    (void)state;
    static const char *const settings[] = {"decoder.attention.window=3", "decoder.attention.softcap=2",
                                           "decoder.cross={\"heads\": 2, \"causal\": true}",
                                           "decoder.attention.value_dim=5", "encoder.attention.window=2"};
    struct qkv_context *usual = ctx;
    for (int i = 0; i < 2; i++) {
        struct qkv_context_options options = {.size = sizeof options, .threads = i ? 1 : 2, .isa = i ? "scalar" : NULL};
        assert_int_equal(qkv_context_create(&ctx, &options), QKV_OK);
        struct qkv_model *m = fixture_model(ctx, both, settings, TEST_COUNT(settings), 5, 0.2);
        walk(m, true, 2000);
        qkv_model_free(m);
        qkv_context_free(ctx);
    }
    ctx = usual;
}

/* The encoder's output is that of a pass over the encoder alone, at the positions that count. */
static void test_encoded_output(void **state) {
    (void)state;
    static const char json[] =
        "{\"format\": \"qkv\", \"version\": 1, \"vocab\": 17, \"d_model\": 16, \"context\": 24, \"tie\": \"none\", "
        "\"head\": {\"kind\": \"none\"}, \"encoder\": {\"layers\": 2, \"attention\": {\"heads\": 4}}}";
    struct qkv_model *m = fixture_model(ctx, json, NULL, 0, 3, 0.2);
    struct qkv_random random = test_random(1);
    int32_t ids[3 * 7], lengths[3] = {7, 1, 4};
    fixture_ids(&random, ids, 21, 17);
    struct qkv_encoded *e;
    struct qkv_pass *pass;
    struct qkv_pass_options o = {.size = sizeof o, .B = 3, .T = 7};
    assert_ok(ctx, qkv_pass_create(m, &o, &pass));
    assert_ok(ctx, qkv_encode(m, ids, lengths, 3, 7, &e));
    assert_ok(ctx, qkv_pass_forward(pass, &(struct qkv_batch){.B = 3, .T = 7, .ids = ids, .lengths = lengths}));
    struct qkv_array got = qkv_encoded_output(e), want = qkv_pass_output(pass);
    assert_int_equal(got.rank, 3);
    assert_true(got.shape[0] == 3 && got.shape[1] == 7 && got.shape[2] == 16 && got.bytes == 3 * 7 * 16 * 4);
    for (size_t b = 0; b < 3; b++)
        assert_memory_equal((const float *)got.data + b * 7 * 16, (const float *)want.data + b * 7 * 16,
                            (size_t)lengths[b] * 16 * sizeof(float));
    qkv_pass_free(pass);
    qkv_encoded_free(e);
    assert_ok(ctx, qkv_encode(m, ids, NULL, 3, 7, &e));
    qkv_encoded_free(e);
    struct qkv_decoder *d;
    assert_fails(ctx, qkv_decoder_create(m, &QKV_OPTIONS(qkv_decoder_options, .rows = 1, .chunk = 1), &d), QKV_ARGUMENT,
                 "an encoder alone");
    qkv_model_free(m);
}

static void test_encode_refusals(void **state) {
    (void)state;
    struct qkv_model *m = fixture_model(ctx, both, NULL, 0, 1, 0.1), *planned,
                     *other = fixture_model(ctx, alone, NULL, 0, 1, 0.1);
    struct qkv_encoded *e;
    int32_t ids[CONTEXT + 1] = {0}, far[1] = {17}, negative[1] = {-1}, length[1] = {3};
    assert_fails(ctx, qkv_encode(other, ids, NULL, 1, 2, &e), QKV_ARGUMENT,
                 "needs an encoder; this model has a decoder alone");
    assert_null(e);
    assert_fails(ctx, qkv_encode(m, ids, NULL, 0, 2, &e), QKV_ARGUMENT, "nothing to encode");
    assert_fails(ctx, qkv_encode(m, ids, NULL, 2, 0, &e), QKV_ARGUMENT, "nothing to encode");
    assert_fails(ctx, qkv_encode(m, ids, NULL, 1, CONTEXT + 1, &e), QKV_ARGUMENT,
                 "longer than the model's context of 24");
    assert_fails(ctx, qkv_encode(m, ids, NULL, SIZE_MAX / 2, 4, &e), QKV_ARGUMENT, "too large");
    assert_fails(ctx, qkv_encode(m, ids, length, 1, 2, &e), QKV_ARGUMENT, "the length of source 0 is 3");
    assert_fails(ctx, qkv_encode(m, far, NULL, 1, 1, &e), QKV_ARGUMENT, "17");
    assert_fails(ctx, qkv_encode(m, negative, NULL, 1, 1, &e), QKV_ARGUMENT, "-1");
    assert_ok(ctx, qkv_model_plan(ctx, qkv_model_spec(m), &planned));
    assert_fails(ctx, qkv_encode(planned, ids, NULL, 1, 2, &e), QKV_ARGUMENT, "planned");
    struct qkv_decoder *d;
    assert_fails(ctx, qkv_decoder_create(planned, &QKV_OPTIONS(qkv_decoder_options, .rows = 1, .chunk = 1), &d),
                 QKV_ARGUMENT, "planned");
    qkv_model_free(planned);
    qkv_model_free(other);
    qkv_model_free(m);
}

static void test_decoder_refusals(void **state) {
    (void)state;
    static const char *const acausal[] = {"decoder.attention.causal=false"};
    struct qkv_model *m = fixture_model(ctx, both, NULL, 0, 1, 0.1),
                     *other = fixture_model(ctx, alone, NULL, 0, 1, 0.1);
    struct qkv_model *seeing = fixture_model(ctx, alone, acausal, 1, 1, 0.1);
    struct qkv_encoded *e;
    struct qkv_decoder *d;
    int32_t ids[8] = {1, 2, 3, 4, 5, 6, 7, 8}, wrong[2] = {3, V};
    assert_ok(ctx, qkv_encode(m, ids, NULL, 2, 4, &e));
    assert_fails(ctx, qkv_decoder_create(m, &QKV_OPTIONS(qkv_decoder_options, .rows = 1, .chunk = 1), &d), QKV_ARGUMENT,
                 "reads a source");
    assert_null(d);
    assert_fails(ctx,
                 qkv_decoder_create(other, &QKV_OPTIONS(qkv_decoder_options, .encoded = e, .rows = 1, .chunk = 1), &d),
                 QKV_ARGUMENT, "by another model");
    assert_fails(ctx, qkv_decoder_create(seeing, &QKV_OPTIONS(qkv_decoder_options, .rows = 1, .chunk = 1), &d),
                 QKV_ARGUMENT, "causal");
    assert_fails(ctx, qkv_decoder_create(m, &QKV_OPTIONS(qkv_decoder_options, .encoded = e, .chunk = 1), &d),
                 QKV_ARGUMENT, "0 rows");
    assert_fails(
        ctx, qkv_decoder_create(m, &QKV_OPTIONS(qkv_decoder_options, .encoded = e, .rows = SIZE_MAX, .chunk = 1), &d),
        QKV_ARGUMENT, "cannot have 18446744073709551615 rows");
    assert_fails(ctx, qkv_decoder_create(m, &QKV_OPTIONS(qkv_decoder_options, .encoded = e, .rows = 3, .chunk = 1), &d),
                 QKV_ARGUMENT, "row 2 is for source 2, but only 2");
    assert_fails(
        ctx,
        qkv_decoder_create(
            m, &QKV_OPTIONS(qkv_decoder_options, .encoded = e, .rows = 1, .capacity = CONTEXT + 1, .chunk = 1), &d),
        QKV_ARGUMENT, "longer than the model's context of 24");
    assert_ok(ctx, qkv_decoder_create(
                       m, &QKV_OPTIONS(qkv_decoder_options, .encoded = e, .rows = 2, .capacity = 2, .chunk = 1), &d));
    assert_fails(ctx, qkv_decoder_step(d, wrong), QKV_ARGUMENT, "token id 29 is out of range: ids are 0 to 28");
    assert_int_equal(qkv_decoder_length(d), 0);
    assert_fails(ctx, qkv_decoder_select(d, (const size_t[]){0, 0, 0}, 3), QKV_ARGUMENT, "made for 1 to 2");
    assert_fails(ctx, qkv_decoder_select(d, (const size_t[]){0}, 0), QKV_ARGUMENT, "made for 1 to 2");
    assert_fails(ctx, qkv_decoder_select(d, (const size_t[]){2}, 1), QKV_ARGUMENT, "only 2 rows");
    assert_ok(ctx, qkv_decoder_step(d, ids));
    assert_ok(ctx, qkv_decoder_step(d, ids));
    assert_fails(ctx, qkv_decoder_step(d, ids), QKV_ARGUMENT, "the decoder holds 2 of 2 positions");
    qkv_decoder_free(d);
    qkv_decoder_free(NULL);
    qkv_encoded_free(e);
    qkv_model_free(seeing);
    qkv_model_free(other);
    qkv_model_free(m);
}

/* Keys in pages are for decoding: there is no gradient. */
static void test_no_gradient(void **state) {
    (void)state;
    const int32_t page[1] = {0}, *const lists[1] = {page};
    struct qkv_arena arena;
    assert_ok(ctx, qkv_arena_create(ctx, &arena, 4096, "scratch"));
    float x[1] = {1};
    const int32_t lo[1] = {0}, hi[1] = {1};
    struct qkv_heads heads = {.data = x, .batch_stride = 1, .row_stride = 1, .head_stride = 1};
    struct qkv_attend a = {.B = 1, .H = 1, .Hkv = 1, .Tq = 1, .Tk = 1, .D = 1, .Dv = 1, .scale = 1};
    a.q = a.k = a.v = a.y = heads;
    a.lse = x;
    a.lo = lo;
    a.hi = hi;
    a.past_k = a.past_v = heads, a.past = 1;
    a.pages = (struct qkv_page_table){
        .lists = lists, .positions = 1, .count = 1, .k = &qkv_page_type_f32, .v = &qkv_page_type_f32};
    assert_fails(ctx, qkv_attend_backward(ctx, &arena, &a, &(struct qkv_attend_gradients){.dy = heads}), QKV_ARGUMENT,
                 "in pages");
    qkv_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grid),
        cmocka_unit_test(test_oddities),
        cmocka_unit_test(test_encoded_output),
        cmocka_unit_test(test_encode_refusals),
        cmocka_unit_test(test_decoder_refusals),
        cmocka_unit_test(test_no_gradient),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
