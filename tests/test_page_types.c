/* test_page_types: caches of every pair of page types: the scores of sessions and their forks, of rows of a decoder
 * that are selected again and again, and the hypotheses of beams, are those of rows with the same numbers, which
 * test_shared_pages.c and test_search.c compare with passes over each sequence alone. Plans know the pages. The usual
 * types, and the sentences about types that do not hold the heads of a model. */
/* labels: numeric quick */
#include "search_fixture.h"

#define FIXTURE_OPTIONS .threads = 2, .precision = QKV_PRECISION_AUTO
#include "context_fixture.h"

#include "generate/search.h"
#include "model/decode.h"

enum { CONTEXT = 300, V = 23, SCORES = 40 };

static const char alone[] = "{\"format\": \"qkv\", \"version\": 1, \"vocab\": 23, \"d_model\": 16, \"context\": 300, "
                            "\"position\": {\"kind\": \"rope\"}, "
                            "\"decoder\": {\"layers\": 2, \"attention\": {\"heads\": 4, \"kv_heads\": 2, "
                            "\"head_dim\": 6, \"value_dim\": 10}}}";
static const char both[] =
    "{\"format\": \"qkv\", \"version\": 1, \"vocab\": 23, \"source_vocab\": 17, \"d_model\": 16, \"context\": 300, "
    "\"encoder\": {\"layers\": 1, \"attention\": {\"heads\": 4}}, "
    "\"decoder\": {\"layers\": 2, \"attention\": {\"heads\": 4, \"kv_heads\": 2}}}";

/* Heads of whole blocks of 32 channels. */
static const char blocks[] = "{\"format\": \"qkv\", \"version\": 1, \"vocab\": 23, \"d_model\": 16, \"context\": 300, "
                             "\"position\": {\"kind\": \"rope\"}, "
                             "\"decoder\": {\"layers\": 2, \"attention\": {\"heads\": 4, \"kv_heads\": 2, "
                             "\"head_dim\": 32, \"value_dim\": 64}}}";

/* Latents of 64 channels, and 16 of a rotated key, or 32, so that rows are whole blocks. */
static struct qkv_model *make_latent(bool whole) {
    static const char *const settings[] = {"context=300", "vocab=23", "decoder.attention.latent.rope_dim=32"};
    OWNED_SPEC struct qkv_spec spec = {0};
    struct qkv_model *m;
    assert_ok(ctx, qkv_spec_preset(ctx, &spec, "mla-tiny", settings, whole ? 3 : 2));
    assert_ok(ctx, qkv_model_create(ctx, &spec, 5, &m));
    return m;
}

/* ---- types ------------------------------------------------------------------------------------------------------- */

/* Whether the type holds all numbers that the context appends: fp32, or in mixed precision bf16. */
static bool holds_all(const struct qkv_page_type *type) {
    struct qkv_random random = test_random(7);
    float numbers[256], back[256];
    double stored[256];
    for (size_t i = 0; i < TEST_COUNT(numbers); i++) {
        numbers[i] = (float)(3 * qkv_random_normal(&random)) * powf(10, (float)(i % 30) - 15);
        if (ctx->precision != QKV_FP32) {
            qkv_from_float(stored, numbers + i, QKV_BF16, 1);
            qkv_to_float(numbers + i, stored, QKV_BF16, 1);
        }
    }
    qkv_from_float(stored, numbers, type->dtype, TEST_COUNT(numbers));
    qkv_to_float(back, stored, type->dtype, TEST_COUNT(numbers));
    return !memcmp(back, numbers, sizeof back);
}

/* Rows of fp32 with the numbers of a type of blocks: each block is rounded as the type `of` rounds it. */
struct rounded_rows {
    struct qkv_page_type rows;
    const struct qkv_page_type *of;
};

static void rounded_put(const struct qkv_pages *pages, const struct qkv_page_part *part,
                        const struct qkv_page_rows *rows) {
    const enum qkv_dtype dtype = ((const struct rounded_rows *)(const void *)pages->type)->of->dtype;
    const size_t width = part->heads * pages->columns;
    float numbers[512];
    double stored[512];
    assert_true(width <= TEST_COUNT(numbers));
    for (size_t i = 0; i < part->count; i++) {
        struct qkv_page_part one = *part;
        one.first += i, one.count = 1;
        qkv_to_float(numbers, (const char *)rows->data + qkv_type_span(rows->dtype, i * rows->stride), rows->dtype,
                     width);
        qkv_from_float(stored, numbers, dtype, width);
        qkv_to_float(numbers, stored, dtype, width);
        qkv_page_type_f32.put(pages, &one, &(struct qkv_page_rows){numbers, QKV_F32, width});
    }
}

/* A type of rows that has the same numbers in this context; NULL: there is no other than the type itself. */
static const struct qkv_page_type *rows_like(const struct qkv_page_type *type) {
    static struct rounded_rows rounded[QKV_DTYPE_COUNT];
    if (holds_all(type)) return &qkv_page_type_f32;
    if (qkv_types[type->dtype]->block == 1) return qkv_page_type_of_rows(type->dtype);
    struct rounded_rows *r = &rounded[type->dtype];
    *r = (struct rounded_rows){qkv_page_type_f32, type};
    r->rows.put = rounded_put;
    return &r->rows;
}

/* Calls `run` with every pair of types that holds the heads of the decoder's first layer, and with the usual types, and
 * compares its scores with those in rows. */
static void each_pair(struct qkv_model *m, size_t (*run)(struct qkv_model *m, float *scores)) {
    static float got[SCORES * V], expected[SCORES * V];
    const struct qkv_page_heads heads = qkv_cache_heads(&m->spec.decoder.kinds[0].attention);
    struct qkv_page_types pair;
    size_t pairs = 0;
    for (size_t k = 0; (pair.k = qkv_page_type_at(k)); k++)
        for (size_t v = 0; (pair.v = qkv_page_type_at(v)); v++) {
            const struct qkv_page_types rows = {.k = rows_like(pair.k), .v = rows_like(pair.v)};
            if (qkv_page_types_check(ctx, &heads, pair, "a cache", 0) || !rows.k || !rows.v) continue;
            memset(got, 0, sizeof got), memset(expected, 0, sizeof expected);
            m->cache_types = pair;
            assert_int_equal(run(m, got), SCORES * V);
            m->cache_types = rows;
            assert_int_equal(run(m, expected), SCORES * V);
            if (memcmp(got, expected, sizeof got))
                fail_msg("keys in %s, values in %s: not the bits of rows", pair.k->name, pair.v->name);
            pairs++;
        }
    assert_true(pairs >= 3);
    m->cache_types = (struct qkv_page_types){0};
    assert_int_equal(run(m, got), SCORES * V);
    m->cache_types = (struct qkv_page_types){.k = &qkv_page_type_f32, .v = &qkv_page_type_f32};
    assert_int_equal(run(m, expected), SCORES * V);
    if (memcmp(got, expected, sizeof got)) fail_msg("the usual types: not the bits of rows");
    m->cache_types = (struct qkv_page_types){0};
}

/* ---- sessions and prefixes --------------------------------------------------------------------------------------- */

static size_t add_scores(float *scores, size_t at, const float *logits, size_t rows) {
    assert_non_null(logits);
    assert_true(at + rows * V <= SCORES * V);
    memcpy(scores + at, logits, rows * V * sizeof *scores);
    return at + rows * V;
}

/* A long prompt, single tokens, a fork that goes on, and a session that is shortened and goes on. */
static size_t run_sessions(struct qkv_model *m, float *scores) {
    struct qkv_random random = test_random(1);
    struct qkv_session *s, *fork;
    int32_t ids[CONTEXT];
    size_t at = 0;
    fixture_ids(&random, ids, CONTEXT, V);
    assert_ok(ctx, qkv_session_create(m, &QKV_OPTIONS(qkv_session_options, .pages = 8), &s));
    assert_ok(ctx, qkv_session_append(s, ids, 3));
    at = add_scores(scores, at, qkv_session_logits(s), 1);
    assert_ok(ctx, qkv_session_append(s, ids + 3, 197));
    at = add_scores(scores, at, qkv_session_logits(s), 1);
    assert_ok(ctx, qkv_session_fork(s, &fork));
    for (size_t i = 0; i < 12; i++) {
        assert_ok(ctx, qkv_session_append(s, ids + 200 + i, 1));
        at = add_scores(scores, at, qkv_session_logits(s), 1);
        assert_ok(ctx, qkv_session_append(fork, ids + 250 + i, 1 + i % 3));
        at = add_scores(scores, at, qkv_session_logits(fork), 1);
    }
    qkv_session_truncate(s, 101);
    for (size_t i = 0; i < 14; i++) {
        assert_ok(ctx, qkv_session_append(s, ids + 10 * i, 1 + i));
        at = add_scores(scores, at, qkv_session_logits(s), 1);
    }
    qkv_session_free(s);
    qkv_session_free(fork);
    return at;
}

static void sessions_and_forks_have_the_bits_of_rows(void **state) {
    (void)state;
    struct qkv_model *models[] = {fixture_model(ctx, alone, NULL, 0, 3, 0.2),
                                  fixture_model(ctx, blocks, NULL, 0, 3, 0.2), make_latent(false), make_latent(true)};
    for (size_t i = 0; i < TEST_COUNT(models); i++) {
        each_pair(models[i], run_sessions);
        qkv_model_free(models[i]);
    }
}

/* ---- rows and beams ---------------------------------------------------------------------------------------------- */

/* Four rows that are selected again after each step, as beams are. */
static void run_rows(struct qkv_model *m, const struct qkv_encoded *encoded, float *scores, size_t *at) {
    enum { ROWS = 4 };
    struct qkv_random random = test_random(2);
    struct qkv_decoder *d;
    const size_t sources[ROWS] = {0, 1, 1, 0}, counts[ROWS] = {130, 2, 1, 61};
    int32_t ids[CONTEXT];
    fixture_ids(&random, ids, CONTEXT, V);
    assert_ok(ctx, qkv_decoder_create(m,
                                      &QKV_OPTIONS(qkv_decoder_options, .encoded = encoded,
                                                   .sources = encoded ? sources : NULL, .rows = ROWS, .chunk = 1),
                                      &d));
    assert_ok(ctx, qkv_decoder_append(d, &(struct qkv_decoder_input){.ids = ids, .counts = counts}));
    *at = add_scores(scores, *at, qkv_decoder_logits(d), ROWS);
    for (size_t i = 0; i < 9; i++) {
        const size_t from[ROWS] = {i % ROWS, 3 * i % ROWS, 0, i % 2};
        assert_ok(ctx, qkv_decoder_select(d, from, ROWS));
        assert_ok(ctx, qkv_decoder_step(d, ids + ROWS * i));
        *at = add_scores(scores, *at, qkv_decoder_logits(d), ROWS);
    }
    qkv_decoder_free(d);
}

static size_t run_decoder(struct qkv_model *m, float *scores) {
    size_t at = 0;
    run_rows(m, NULL, scores, &at);
    return at;
}

static size_t run_encoded(struct qkv_model *m, float *scores) {
    struct qkv_random random = test_random(3);
    struct qkv_encoded *encoded;
    int32_t ids[2 * 140];
    const int32_t lengths[] = {140, 9};
    size_t at = 0;
    fixture_ids(&random, ids, TEST_COUNT(ids), 17);
    assert_ok(ctx, qkv_encode(m, ids, lengths, 2, 140, &encoded));
    run_rows(m, encoded, scores, &at);
    qkv_encoded_free(encoded);
    return at;
}

static void rows_of_a_decoder_have_the_bits_of_rows(void **state) {
    (void)state;
    static const char *const wide[] = {"decoder.attention.head_dim=32", "decoder.cross.head_dim=32"};
    struct qkv_model *models[] = {fixture_model(ctx, alone, NULL, 0, 3, 0.2),
                                  fixture_model(ctx, blocks, NULL, 0, 3, 0.2), make_latent(false),
                                  fixture_model(ctx, both, NULL, 0, 4, 0.2), fixture_model(ctx, both, wide, 2, 4, 0.2)};
    for (size_t i = 0; i < TEST_COUNT(models); i++) {
        each_pair(models[i], i < 3 ? run_decoder : run_encoded);
        qkv_model_free(models[i]);
    }
}

struct found {
    float *scores;
    size_t count;
};

static bool take_hypotheses(void *user, size_t source, const struct qkv_hypothesis *h, size_t count) {
    struct found *f = user;
    (void)source;
    for (size_t i = 0; i < count; i++) {
        assert_true(f->count + 2 + h[i].count <= SCORES * V);
        f->scores[f->count++] = (float)h[i].log_probability;
        f->scores[f->count++] = (float)h[i].score;
        for (size_t k = 0; k < h[i].count; k++) f->scores[f->count++] = (float)h[i].ids[k];
    }
    return true;
}

static size_t run_beams(struct qkv_model *m, float *scores) {
    struct qkv_random random = test_random(4);
    struct qkv_search_options o = qkv_search_defaults();
    struct found f = {.scores = scores};
    int32_t ids[3][20];
    const int32_t *const sources[] = {ids[0], ids[1], ids[2]};
    const size_t lengths[] = {20, 3, 11};
    o.beam = 4, o.n_best = 4, o.max_tokens = 30;
    for (size_t i = 0; i < 3; i++) fixture_ids(&random, ids[i], 20, 17);
    const int32_t end = 2, begin = 1;
    const struct qkv_search_job job = {.ids = {.begin = begin, .ends = {&end, 1}, .barred = {&begin, 1}},
                                       .vocab = SIZE_MAX,
                                       .sources = sources,
                                       .lengths = lengths,
                                       .what = "source",
                                       .count = 3,
                                       .options = &o,
                                       .take = take_hypotheses,
                                       .user = &f};
    assert_ok(ctx, qkv_search_run(m, &job));
    assert_true(f.count > 50);
    return SCORES * V;
}

static void beams_have_the_bits_of_rows(void **state) {
    (void)state;
    struct qkv_model *m = fixture_model(ctx, both, NULL, 0, 6, 0.2);
    each_pair(m, run_beams);
    qkv_model_free(m);
}

/* ---- plans ------------------------------------------------------------------------------------------------------- */

/* Whether whole pages have the bytes of their numbers, without padding. */
static bool exact(const struct qkv_page_type *type) {
    return type->rows || qkv_types[type->dtype]->block > 1;
}

static void plans_of(const char *text) {
    struct qkv_model *m = fixture_model(ctx, text, NULL, 0, 3, 0.2), *plan;
    const struct qkv_attention_spec *attention = &m->spec.decoder.kinds[0].attention;
    const struct qkv_page_heads heads = qkv_cache_heads(attention);
    struct qkv_page_types pair = {.precision = qkv_context_precision(ctx)};
    assert_ok(ctx, qkv_model_plan(ctx, &m->spec, &plan));
    for (size_t k = 0; (pair.k = qkv_page_type_at(k)); k++)
        for (size_t v = 0; (pair.v = qkv_page_type_at(v)); v++) {
            struct qkv_session *s;
            struct qkv_costs costs;
            if (qkv_page_types_check(ctx, &heads, pair, "a cache", 0)) continue;
            m->cache_types = plan->cache_types = pair;
            assert_ok(ctx, qkv_session_create(m, NULL, &s));
            assert_ok(ctx, qkv_model_costs(plan, 1, CONTEXT, &costs));
            assert_int_equal(costs.page_bytes, qkv_session_pages(s).bytes);
            const struct qkv_key_values kv = qkv_key_values_of(ctx, attention, pair, 128);
            assert_int_equal(costs.page_bytes, 2 * (kv.k.bytes + kv.v.bytes));
            if (exact(pair.k) && exact(pair.v))
                assert_int_equal(costs.page_bytes, 2 * 128 * 2 *
                                                       (qkv_type_span(pair.k->dtype, heads.k_columns) +
                                                        qkv_type_span(pair.v->dtype, heads.v_columns)));
            qkv_session_free(s);
        }
    qkv_model_free(m);
    qkv_model_free(plan);
}

static void plans_count_the_pages_that_sessions_take(void **state) {
    (void)state;
    size_t bytes = 1;
    struct qkv_model *m = fixture_model(ctx, alone, NULL, 0, 3, 0.2);
    assert_ok(ctx, qkv_model_cache_bytes(m, "f16", 0, &bytes));
    assert_int_equal(bytes, 0);
    qkv_model_free(m);
    plans_of(alone);
    plans_of(blocks);
}

/* ---- choices ----------------------------------------------------------------------------------------------------- */

static void types_have_names_of_their_own(void **state) {
    (void)state;
    const struct qkv_page_type *a, *b;
    char names[256] = "";
    for (size_t i = 0; (a = qkv_page_type_at(i)); i++) {
        for (size_t j = 0; j < i && (b = qkv_page_type_at(j)); j++) assert_string_not_equal(a->name, b->name);
        assert_true(strlen(names) + strlen(a->name) + 2 < sizeof names);
        strcat(strcat(names, " "), a->name);
    }
    print_message("page types:%s\n", names);
}

static void the_usual_types_follow_from_precision_and_heads(void **state) {
    (void)state;
    static const struct {
        enum qkv_precision precision;
        struct qkv_page_heads heads;
        const char *name;
    } cases[] = {{QKV_FP32, {2, 64, 64, false, "shared"}, "f32"},
                 {QKV_FP32, {1, 576, 512, true, "shared"}, "f32"},
                 {QKV_MIXED_BF16, {2, 64, 64, false, "shared"}, "bf16_packed"},
                 {QKV_MIXED_BF16, {2, 256, 1, false, "shared"}, "bf16_packed"},
                 {QKV_MIXED_BF16, {2, 257, 64, false, "shared"}, "bf16"},
                 {QKV_MIXED_BF16, {2, 64, 257, false, "shared"}, "bf16"},
                 {QKV_MIXED_BF16, {1, 80, 64, true, "shared"}, "bf16"}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qkv_page_types types =
            qkv_page_types_of(ctx, &cases[i].heads, (struct qkv_page_types){.precision = cases[i].precision});
        assert_string_equal(types.k->name, cases[i].name);
        assert_string_equal(types.v->name, cases[i].name);
        types = qkv_page_types_of(ctx, &cases[i].heads,
                                  (struct qkv_page_types){.v = &qkv_page_type_f16, .precision = cases[i].precision});
        assert_string_equal(types.k->name, cases[i].heads.shared ? "f16" : cases[i].name);
        assert_string_equal(types.v->name, "f16");
    }
}

static void refused(struct qkv_model *m, struct qkv_page_types types, const char *const *parts, size_t count) {
    struct qkv_session *s;
    struct qkv_decoder *d;
    size_t bytes;
    m->cache_types = types;
    const struct qkv_decoder_options options = {.size = sizeof options, .rows = 2, .chunk = 1};
    for (size_t i = 0; i < count; i++) {
        assert_fails(ctx, qkv_session_create(m, NULL, &s), QKV_ARGUMENT, parts[i]);
        assert_null(s);
        assert_fails(ctx, qkv_decoder_create(m, &options, &d), QKV_ARGUMENT, parts[i]);
        assert_fails(ctx, qkv_session_measure(m, 0, &bytes), QKV_ARGUMENT, parts[i]);
    }
}

/* ---- choices by name --------------------------------------------------------------------------------------------- */

static void expect_cache(struct qkv_model *m, const char *cache, const char *k, const char *v) {
    assert_ok(ctx, qkv_model_set_cache(m, cache));
    assert_string_equal(m->cache_types.k ? m->cache_types.k->name : "usual", k);
    assert_string_equal(m->cache_types.v ? m->cache_types.v->name : "usual", v);
}

static void a_cache_is_chosen_by_the_names_of_types(void **state) {
    (void)state;
    struct qkv_model *m = fixture_model(ctx, blocks, NULL, 0, 3, 0.2);
    const char *name, *help;
    for (size_t i = 0; qkv_cache_type_at(i, &name, &help); i++) {
        assert_string_equal(name, qkv_page_type_at(i)->name);
        assert_true(*help);
        expect_cache(m, name, name, name);
    }
    expect_cache(m, "k=q8_0,v=bf16", "q8_0", "bf16");
    expect_cache(m, "v=f16,k=f32", "f32", "f16");
    expect_cache(m, "v=q8_0", "usual", "q8_0");
    static const char *const wrong[] = {"q8_1",        "",           "k=",    ",", "k=f32,",
                                        "k=f32,k=f32", "f32,v=q8_0", "q=f32", "k", "k=f32;v=f32"};
    for (size_t i = 0; i < TEST_COUNT(wrong); i++) {
        assert_fails(ctx, qkv_cache_check(ctx, wrong[i]), QKV_ARGUMENT, i < 3 || i == 8 ? "no type" : "k=q8_0,v=bf16");
        assert_fails(ctx, qkv_model_set_cache(m, wrong[i]), QKV_ARGUMENT, "cache");
    }
    assert_string_equal(m->cache_types.v->name, "q8_0");
    expect_cache(m, NULL, "usual", "usual");
    assert_ok(ctx, qkv_cache_check(ctx, NULL));
    qkv_model_free(m);
    m = fixture_model(ctx, alone, NULL, 0, 3, 0.2);
    assert_fails(ctx, qkv_model_set_cache(m, "q8_0"), QKV_ARGUMENT, "pages of q8_0 hold blocks of 32 channels");
    assert_null(m->cache_types.k);
    qkv_model_free(m);
}

/* Two sessions, or decoders, of one model with caches of their own, and the same with the choice of the model. */
static void sessions_and_decoders_have_caches_of_their_own(void **state) {
    (void)state;
    struct qkv_model *m = fixture_model(ctx, blocks, NULL, 0, 3, 0.2);
    static const char *const caches[] = {"q8_0", "k=q8_0,v=f16", "f32"};
    struct qkv_random random = test_random(8);
    float expected[V];
    size_t bytes[TEST_COUNT(caches)];
    int32_t ids[40];
    fixture_ids(&random, ids, TEST_COUNT(ids), V);
    for (size_t i = 0; i < TEST_COUNT(caches); i++) {
        struct qkv_session *s;
        struct qkv_decoder *d;
        const struct qkv_page_heads heads = qkv_cache_heads(&m->spec.decoder.kinds[0].attention);
        assert_ok(ctx, qkv_model_set_cache(m, caches[i]));
        assert_ok(ctx, qkv_session_create(m, NULL, &s));
        assert_ok(ctx, qkv_session_append(s, ids, TEST_COUNT(ids)));
        memcpy(expected, qkv_session_logits(s), sizeof expected);
        bytes[i] = qkv_session_pages(s).bytes;
        assert_int_equal(bytes[i], 2 * 128 * heads.heads *
                                       (qkv_type_span(m->cache_types.k->dtype, heads.k_columns) +
                                        qkv_type_span(m->cache_types.v->dtype, heads.v_columns)));
        qkv_session_free(s);
        assert_ok(ctx, qkv_model_set_cache(m, i ? NULL : "bf16"));
        assert_ok(ctx, qkv_session_create(m, &QKV_OPTIONS(qkv_session_options, .cache = caches[i]), &s));
        assert_ok(ctx, qkv_session_append(s, ids, TEST_COUNT(ids)));
        assert_memory_equal(qkv_session_logits(s), expected, sizeof expected);
        assert_int_equal(qkv_session_pages(s).bytes, bytes[i]);
        qkv_session_free(s);
        const struct qkv_decoder_options options = {.size = sizeof options, .rows = 1, .chunk = 1, .cache = caches[i]};
        const size_t count = TEST_COUNT(ids);
        assert_ok(ctx, qkv_decoder_create(m, &options, &d));
        assert_ok(ctx, qkv_decoder_append(d, &(struct qkv_decoder_input){.ids = ids, .counts = &count}));
        assert_memory_equal(qkv_decoder_logits(d), expected, sizeof expected);
        assert_int_equal(qkv_decoder_pages(d).bytes, bytes[i]);
        qkv_decoder_free(d);
        assert_fails(ctx, qkv_session_create(m, &QKV_OPTIONS(qkv_session_options, .cache = "q9"), &s), QKV_ARGUMENT,
                     "caches have no type \"q9\"");
    }
    assert_true(bytes[0] < bytes[1] && bytes[1] < bytes[2]);
    qkv_model_free(m);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static void types_that_do_not_hold_the_heads_are_refused(void **state) {
    (void)state;
    const struct qkv_page_type *packed = &qkv_page_type_bf16_packed, *f32 = &qkv_page_type_f32;
    static const char *const wide[] = {"decoder.attention.head_dim=300", "decoder.attention.value_dim=8"};
    static const char *const keys[] = {"the KV cache: pages of bf16_packed hold heads of at most 256 channels",
                                       "but the keys of layer 0 have 300 a head", "(choose f32,", " or f16)"};
    static const char *const wide_values[] = {"decoder.attention.head_dim=8", "decoder.attention.value_dim=300"};
    static const char *const values[] = {"the values of layer 0 have 300 a head"};
    static const char *const shared[] = {
        "the KV cache: pages of bf16_packed cannot hold latent attention, as in layer 0, ",
        "whose values are 64 of the 80 channels of the keys", "(choose f32,"};
    static const char *const apart[] = {"keys are to be stored as f32 and values as bf16_packed, but in layer 0",
                                        "choose one type for both: f32,"};
    static const char *const parts[] = {"the KV cache: pages of q8_0 hold blocks of 32 channels",
                                        "but the values of layer 0 have 10 a head (choose f32,",
                                        " bf16_packed, bf16 or f16)"};
    struct qkv_model *m = fixture_model(ctx, alone, NULL, 0, 3, 0.2);
    struct qkv_session *s;
    refused(m, (struct qkv_page_types){.v = &qkv_page_type_q8_0}, parts, 3);
    qkv_model_free(m);
    m = fixture_model(ctx, alone, wide, 2, 3, 0.2);
    refused(m, (struct qkv_page_types){.k = packed, .v = packed}, keys, 4);
    m->cache_types = (struct qkv_page_types){.k = f32, .v = packed}; /* values of 8 channels fit */
    assert_ok(ctx, qkv_session_create(m, NULL, &s));
    qkv_session_free(s);
    qkv_model_free(m);
    m = fixture_model(ctx, alone, wide_values, 2, 3, 0.2);
    refused(m, (struct qkv_page_types){.k = packed, .v = packed}, values, 1);
    refused(m, (struct qkv_page_types){.v = packed}, values, 1);
    qkv_model_free(m);
    m = make_latent(false);
    refused(m, (struct qkv_page_types){.k = packed, .v = packed}, shared, 3);
    refused(m, (struct qkv_page_types){.v = packed}, shared, 3);
    refused(m, (struct qkv_page_types){.k = f32, .v = packed}, apart, 2);
    qkv_model_free(m);
}

static void types_that_do_not_hold_the_heads_of_cross_attention_are_refused(void **state) {
    (void)state;
    static const char *const wide[] = {"decoder.cross.head_dim=300"};
    const int32_t ids[4] = {1, 2, 3, 4};
    struct qkv_model *m = fixture_model(ctx, both, wide, 1, 3, 0.2);
    struct qkv_encoded *e;
    size_t bytes;
    m->cache_types.k = &qkv_page_type_bf16_packed;
    static const char part[] =
        "the keys and values of sources: pages of bf16_packed hold heads of at most 256 channels, "
        "but the keys of layer 0 have 300 a head (choose f32,";
    assert_fails(ctx, qkv_encode(m, ids, NULL, 1, 4, &e), QKV_ARGUMENT, part);
    assert_null(e);
    const struct qkv_search_shape shape = {.sources = 1, .width = 1, .T = 4, .capacity = 5};
    assert_fails(ctx, qkv_search_measure(m, &shape, &bytes), QKV_ARGUMENT, part);
    m->cache_types.k = NULL;
    assert_ok(ctx, qkv_encode(m, ids, NULL, 1, 4, &e));
    qkv_encoded_free(e);
    qkv_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_have_names_of_their_own),
        cmocka_unit_test(the_usual_types_follow_from_precision_and_heads),
        cmocka_unit_test(sessions_and_forks_have_the_bits_of_rows),
        cmocka_unit_test(rows_of_a_decoder_have_the_bits_of_rows),
        cmocka_unit_test(beams_have_the_bits_of_rows),
        cmocka_unit_test(plans_count_the_pages_that_sessions_take),
        cmocka_unit_test(a_cache_is_chosen_by_the_names_of_types),
        cmocka_unit_test(sessions_and_decoders_have_caches_of_their_own),
        cmocka_unit_test(types_that_do_not_hold_the_heads_are_refused),
        cmocka_unit_test(types_that_do_not_hold_the_heads_of_cross_attention_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
