/* Scalings of rotations: tables against formulas of the test's own in double, and what depends on the length of a sequence: it is decided
 * once, whoever shares the call. Whole models with scalings are anchored by the golden cases rope_* (test_golden.c). */
#include "search_fixture.h"

#include "model/spec.h"

enum { PAIRS = 4, V = 23, P = 9, LONGEST = 24 };

static struct qkv_context *ctx;

/* Of one width, as all tests here have it: 8 rotated channels of 10. */
static const char *const scalings[] = {
    [QKV_SCALING_LINEAR] = "{\"kind\": \"linear\", \"factor\": 3}",
    [QKV_SCALING_DYNAMIC] = "{\"kind\": \"dynamic\", \"factor\": 2.5, \"original_context\": 9}",
    [QKV_SCALING_NTK] = "{\"kind\": \"ntk\", \"factor\": 5, \"attention_factor\": 1.1}",
    [QKV_SCALING_YARN] = "{\"kind\": \"yarn\", \"factor\": 4, \"original_context\": 9, \"beta_fast\": 4, "
                         "\"beta_slow\": 0.2, \"truncate\": false}",
    [QKV_SCALING_LLAMA3] = "{\"kind\": \"llama3\", \"factor\": 6, \"original_context\": 9}",
    [QKV_SCALING_LONGROPE] = "{\"kind\": \"longrope\", \"original_context\": 9, \"short\": [1, 1.1, 1.3, 2], "
                             "\"long\": [1, 2, 5, 12]}",
};
_Static_assert(TEST_COUNT(scalings) == QKV_SCALING_COUNT, "one of each kind");

#define ROTATED(scaling)                                                                                               \
    "{\"kind\": \"rope\", \"theta\": 300, \"fraction\": 0.8, \"pairing\": \"interleaved\", \"scaling\": " scaling "}"

/* Three layers: rotated by the scaling, without a position, and rotated plainly. */
static struct qkv_model *scaled_model(const char *scaling, bool encoder, uint64_t seed) {
    char stack[1200], json[3000];
    snprintf(stack, sizeof stack,
             "{\"layers\": 3, \"pattern\": [\"scaled\", \"still\", \"plain\"], \"attention\": {\"heads\": 2, "
             "\"kv_heads\": 1, \"head_dim\": 10}, \"ffn\": {\"kind\": \"silu\", \"d_ff\": 16}, \"kinds\": {\"scaled\": "
             "{\"attention\": {\"position\": " ROTATED(
                 "%s") "}}, \"still\": {\"attention\": {\"position\": {\"kind\": "
                       "\"none\"}}}, \"plain\": {\"attention\": {\"position\": {\"kind\": \"rope\"}}}}}",
             scaling);
    snprintf(json, sizeof json,
             "{\"format\": \"qkv\", \"version\": 2, \"vocab\": %d, \"d_model\": 12, \"context\": %d, \"encoder\": %s, "
             "\"decoder\": %s}",
             V, LONGEST, encoder ? stack : "null", stack);
    return fixture_model(ctx, json, NULL, 0, seed, 0.3);
}

/* ---- formulas ----------------------------------------------------------------------------------------------------------- */

static double formula_base(const struct qkv_position_spec *p, double n) {
    const struct qkv_scaling_spec *s = &p->scaling;
    const double d = 2 * PAIRS;
    if (s->kind == QKV_SCALING_NTK) return p->theta * pow(s->factor, d / (d - 2));
    if (s->kind == QKV_SCALING_DYNAMIC && n > s->original_context)
        return p->theta * pow(s->factor * n / s->original_context - s->factor + 1, d / (d - 2));
    return p->theta;
}

/* Pairs that turn fast are kept, slow ones are slowed by the factor: between two ends, by their share of the way. */
static double formula_slowed(double f, double factor, double share) {
    return f * (1 - share) + f / factor * share;
}

static double formula_share(double x, double from, double to) {
    return x <= from ? 0 : x >= to ? 1 : (x - from) / (to - from);
}

static double formula_frequency(const struct qkv_position_spec *p, double n, int j) {
    const struct qkv_scaling_spec *s = &p->scaling;
    const double d = 2 * PAIRS, f = 1 / pow(formula_base(p, n), 2 * j / d), full = 8 * atan(1.0);
    if (s->kind == QKV_SCALING_LINEAR) return f / s->factor;
    if (s->kind == QKV_SCALING_LLAMA3) /* turns within the original context */
        return formula_slowed(f, s->factor,
                              1 - formula_share(s->original_context * f / full, s->low_freq, s->high_freq));
    if (s->kind == QKV_SCALING_LONGROPE)
        return f / (n > s->original_context ? s->long_factors : s->short_factors).values[j];
    if (s->kind != QKV_SCALING_YARN) return f;
    double ends[2] = {s->beta_fast, s->beta_slow};
    for (int i = 0; i < 2; i++) ends[i] = d / 2 * log(s->original_context / ends[i] / full) / log(p->theta);
    if (s->truncate) ends[0] = floor(ends[0]), ends[1] = ceil(ends[1]);
    ends[0] = ends[0] < 0 ? 0 : ends[0];
    ends[1] = ends[1] > d - 1 ? d - 1 : ends[1];
    return formula_slowed(f, s->factor, formula_share(j, ends[0], ends[0] == ends[1] ? ends[1] + 0.001 : ends[1]));
}

static double formula_factor(const struct qkv_scaling_spec *s, double context) {
    const double factor = s->factor != 0 ? s->factor : context / s->original_context, more = 0.1 * log(factor);
    if (s->attention_factor != 0) return s->attention_factor;
    if (s->kind == QKV_SCALING_LONGROPE)
        return factor <= 1 ? 1 : sqrt(1 + log(factor) / log((double)s->original_context));
    if (s->kind != QKV_SCALING_YARN) return 1;
    return s->mscale != 0 && s->mscale_all_dim != 0 ? (s->mscale * more + 1) / (s->mscale_all_dim * more + 1)
                                                    : more + 1;
}

static struct qkv_position_spec random_rotation(struct qkv_random *r, enum qkv_scaling_kind kind) {
    struct qkv_position_spec p = {
        .kind = QKV_POSITION_ROPE, .theta = exp(2 + 12 * qkv_random_uniform(r)), .fraction = 1};
    struct qkv_scaling_spec *s = &p.scaling;
    *s = qkv_scaling_defaults(kind);
    s->factor = 1 + 30 * qkv_random_uniform(r);
    if (kind == QKV_SCALING_LONGROPE && qkv_random_below(r, 2)) s->factor = 0;
    s->original_context = (int)test_between(r, kind == QKV_SCALING_YARN ? 30 : 2, 200); /* its slow end lies within */
    if (qkv_random_below(r, 2)) s->beta_fast = 3 + 40 * qkv_random_uniform(r);
    if (qkv_random_below(r, 2)) s->beta_slow = 0.1 + 2 * qkv_random_uniform(r);
    s->truncate = qkv_random_below(r, 2);
    if (qkv_random_below(r, 2))
        s->mscale = qkv_random_uniform(r) + 0.1, s->mscale_all_dim = qkv_random_uniform(r) + 0.1;
    if (qkv_random_below(r, 2))
        s->low_freq = 0.2 + qkv_random_uniform(r), s->high_freq = 1.3 + 4 * qkv_random_uniform(r);
    if (qkv_random_below(r, 4) == 0) s->attention_factor = 0.5 + qkv_random_uniform(r);
    s->short_factors.count = s->long_factors.count = PAIRS;
    for (int j = 0; j < PAIRS; j++) {
        s->short_factors.values[j] = 0.5 + 2 * qkv_random_uniform(r);
        s->long_factors.values[j] = 0.5 + 20 * qkv_random_uniform(r);
    }
    return p;
}

static void tables_follow_the_formulas(void **state) {
    (void)state;
    struct qkv_random r = test_random(1);
    enum { COUNT = 60 };
    float table[COUNT * PAIRS * 2];
    for (int i = 0; i < 400; i++) {
        const enum qkv_scaling_kind kind = (enum qkv_scaling_kind)(i % QKV_SCALING_COUNT);
        const struct qkv_position_spec p = random_rotation(&r, kind);
        const size_t context = test_between(&r, 200, 5000), length = test_between(&r, 1, 400);
        assert_ok(ctx, qkv_rotation_table_of(ctx, &p, context, length, COUNT, PAIRS, table));
        const double factor = formula_factor(&p.scaling, (double)context);
        for (int t = 0; t < COUNT; t++)
            for (int j = 0; j < PAIRS; j++) {
                const double angle = t * formula_frequency(&p, (double)length, j);
                const float *cell = table + (t * PAIRS + j) * 2;
                if (fabs(cell[0] - factor * cos(angle)) > 2e-7 * factor + 1e-9 ||
                    fabs(cell[1] - factor * sin(angle)) > 2e-7 * factor + 1e-9)
                    fail_msg("kind %d, position %d, pair %d: %.9g %.9g, not %.9g %.9g", (int)kind, t, j,
                             (double)cell[0], (double)cell[1], factor * cos(angle), factor * sin(angle));
            }
    }
}

static void without_a_scaling_the_table_is_the_usual_one(void **state) {
    (void)state;
    float usual[50 * PAIRS * 2], same[50 * PAIRS * 2];
    const struct qkv_position_spec p = {.kind = QKV_POSITION_ROPE, .theta = 777, .fraction = 1};
    assert_ok(ctx, qkv_rotation_table(ctx, 777, 50, PAIRS, usual));
    assert_ok(ctx, qkv_rotation_table_of(ctx, &p, 0, 0, 50, PAIRS, same));
    assert_memory_equal(usual, same, sizeof usual);
    struct qkv_position_spec bad = p;
    bad.kind = QKV_POSITION_ALIBI;
    assert_fails(ctx, qkv_rotation_table_of(ctx, &bad, 0, 0, 50, PAIRS, same), QKV_ARGUMENT, "only rope");
    bad = p, bad.theta = 0;
    assert_fails(ctx, qkv_rotation_table_of(ctx, &bad, 0, 0, 50, PAIRS, same), QKV_ARGUMENT, "position.theta is 0");
    bad = p, bad.scaling = qkv_scaling_defaults(QKV_SCALING_LINEAR);
    assert_fails(ctx, qkv_rotation_table_of(ctx, &bad, 0, 0, 50, PAIRS, same), QKV_SPEC,
                 "position.scaling.factor is missing");
    assert_fails(ctx, qkv_rotation_table_of(ctx, &p, 0, 0, SIZE_MAX / 2, PAIRS, same), QKV_SHAPE,
                 "cannot be addressed");
    assert_fails(ctx, qkv_rotation_table_of(ctx, &p, 0, 0, 50, PAIRS, NULL), QKV_ARGUMENT, "the table is NULL");
}

/* ---- the length of a sequence ------------------------------------------------------------------------------------------- */

/* Scores of a sequence alone, decided for `length` (0: its own). */
static void scores_alone(struct qkv_model *m, const int32_t *ids, size_t T, size_t length, float *scores) {
    struct qkv_pass *pass;
    assert_ok(ctx, qkv_pass_create(m, &(struct qkv_pass_options){.B = 1, .T = T, .logits = true}, &pass));
    assert_ok(ctx, qkv_pass_forward(pass, &(struct qkv_batch){.B = 1, .T = T, .ids = ids, .length = length}));
    memcpy(scores, qkv_pass_output(pass).data, T * V * sizeof *scores);
    qkv_pass_free(pass);
}

static void a_sequence_in_a_batch_has_the_bits_that_it_has_alone(void **state) {
    (void)state;
    enum { B = 5 };
    static const int32_t lengths[B] = {LONGEST, P, P + 1, 3, 17};
    struct qkv_random r = test_random(2);
    int32_t ids[B * LONGEST];
    float alone[LONGEST * V];
    fixture_ids(&r, ids, TEST_COUNT(ids), V);
    for (size_t kind = 0; kind < QKV_SCALING_COUNT; kind++)
        for (int padding = 0; padding < 2; padding++) {
            struct qkv_model *m = scaled_model(scalings[kind], false, kind);
            struct qkv_pass *pass;
            const struct qkv_pass_options o = {.B = B, .T = LONGEST, .logits = true, .padding = padding};
            assert_ok(ctx, qkv_pass_create(m, &o, &pass));
            assert_ok(
                ctx, qkv_pass_forward(pass, &(struct qkv_batch){.B = B, .T = LONGEST, .ids = ids, .lengths = lengths}));
            const float *all = qkv_pass_output(pass).data;
            for (size_t b = 0; b < B; b++) {
                scores_alone(m, ids + b * LONGEST, (size_t)lengths[b], 0, alone);
                assert_memory_equal(alone, all + b * LONGEST * V, (size_t)lengths[b] * V * sizeof *alone);
            }
            qkv_pass_free(pass);
            qkv_model_free(m);
        }
}

/* Documents side by side go by their own lengths; positions that are given by the greatest of a sequence. */
static void documents_and_given_positions_count_as_they_stand(void **state) {
    (void)state;
    struct qkv_random r = test_random(3);
    int32_t ids[LONGEST], documents[LONGEST], positions[6];
    float alone[LONGEST * V], long_alone[LONGEST * V];
    fixture_ids(&r, ids, LONGEST, V);
    for (size_t t = 0; t < LONGEST; t++) documents[t] = t >= 5 ? 4 : 1;
    for (size_t kind = 0; kind < QKV_SCALING_COUNT; kind++) {
        struct qkv_model *m = scaled_model(scalings[kind], false, kind);
        struct qkv_pass *pass;
        assert_ok(ctx, qkv_pass_create(m, &(struct qkv_pass_options){.B = 1, .T = LONGEST, .logits = true}, &pass));
        assert_ok(
            ctx, qkv_pass_forward(pass, &(struct qkv_batch){.B = 1, .T = LONGEST, .ids = ids, .documents = documents}));
        const float *all = qkv_pass_output(pass).data;
        scores_alone(m, ids, 5, 0, alone);
        assert_memory_equal(alone, all, (size_t)5 * V * sizeof *alone);
        scores_alone(m, ids + 5, LONGEST - 5, 0, alone);
        assert_memory_equal(alone, all + (size_t)5 * V, (size_t)(LONGEST - 5) * V * sizeof *alone);
        for (size_t t = 0; t < 6; t++) positions[t] = (int32_t)(t < 5 ? t : 19);
        assert_ok(ctx, qkv_pass_forward(pass, &(struct qkv_batch){.B = 1, .T = 6, .ids = ids, .positions = positions}));
        scores_alone(m, ids, 5, 20, alone);
        memcpy(long_alone, qkv_pass_output(pass).data, (size_t)5 * V * sizeof *alone);
        assert_memory_equal(alone, long_alone, (size_t)5 * V * sizeof *alone);
        assert_fails(ctx, qkv_pass_forward(pass, &(struct qkv_batch){.B = 1, .T = 6, .ids = ids, .length = 25}),
                     QKV_ARGUMENT, "a length of 25, more than the model's context of 24");
        qkv_pass_free(pass);
        qkv_model_free(m);
    }
}

/* The kinds whose rotation depends on it, and only those, give other scores beyond the original context. */
static void only_some_kinds_depend_on_the_length(void **state) {
    (void)state;
#define BY_LENGTH(name, text, help, by_length) by_length,
    static const bool by_length[] = {QKV_SCALING_LIST(BY_LENGTH)};
    struct qkv_random r = test_random(4);
    int32_t ids[6];
    float within[6 * V], original[6 * V], beyond[6 * V], further[6 * V];
    fixture_ids(&r, ids, 6, V);
    for (size_t kind = 0; kind < QKV_SCALING_COUNT; kind++) {
        struct qkv_model *m = scaled_model(scalings[kind], false, kind);
        scores_alone(m, ids, 6, 0, within);
        scores_alone(m, ids, 6, P, original);
        scores_alone(m, ids, 6, P + 1, beyond);
        scores_alone(m, ids, 6, LONGEST, further);
        assert_memory_equal(within, original, sizeof within);
        assert_int_equal(memcmp(within, beyond, sizeof within) != 0, by_length[kind]);
        assert_int_equal(memcmp(beyond, further, sizeof within) != 0, kind == QKV_SCALING_DYNAMIC);
        qkv_model_free(m);
    }
}

/* Rows of a decoder, each decided for another length; pieces of any size, rows that go on from others, and forks. */
static void cached_decoding_has_the_bits_of_a_pass(void **state) {
    (void)state;
    enum { ROWS = 4 };
    static const size_t lengths[ROWS] = {P, LONGEST, P + 1, 15};
    struct qkv_random r = test_random(5);
    int32_t ids[ROWS * LONGEST], next[ROWS];
    float alone[LONGEST * V];
    fixture_ids(&r, ids, TEST_COUNT(ids), V);
    for (size_t kind = 0; kind < QKV_SCALING_COUNT; kind++) {
        struct qkv_model *m = scaled_model(scalings[kind], false, kind);
        struct qkv_decoder *d;
        const struct qkv_decoder_options o = {.rows = ROWS, .chunk = 1, .lengths = lengths};
        assert_ok(ctx, qkv_decoder_create_with(m, &o, &d));
        for (size_t T = 0; T < P;) { /* all rows at once, some tokens of each */
            size_t counts[ROWS], step = test_between(&r, 1, P - T);
            int32_t some[ROWS * P];
            for (size_t i = 0; i < ROWS; i++) {
                counts[i] = step;
                memcpy(some + i * step, ids + i * LONGEST + T, step * sizeof *some);
            }
            assert_ok(ctx, qkv_decoder_append(d, &(struct qkv_decoder_input){.ids = some, .counts = counts}));
            T += step;
            for (size_t i = 0; i < ROWS; i++) {
                scores_alone(m, ids + i * LONGEST, T, lengths[i], alone);
                assert_memory_equal(alone + (T - 1) * V, qkv_decoder_logits(d) + i * V, V * sizeof *alone);
            }
        }
        /* rows 3 1 1 0 go on, what they were decided for with them; further than row 0 was decided for */
        static const size_t from[ROWS] = {3, 1, 1, 0};
        assert_ok(ctx, qkv_decoder_select(d, from, ROWS));
        for (size_t i = 0; i < ROWS; i++) next[i] = ids[from[i] * LONGEST + P];
        assert_ok(ctx, qkv_decoder_step(d, next));
        for (size_t i = 0; i < ROWS; i++) {
            scores_alone(m, ids + from[i] * LONGEST, P + 1, lengths[from[i]], alone);
            assert_memory_equal(alone + (size_t)P * V, qkv_decoder_logits(d) + i * V, V * sizeof *alone);
        }
        qkv_decoder_free(d);
        qkv_model_free(m);
    }
}

static void sessions_and_their_forks_keep_what_was_decided(void **state) {
    (void)state;
    struct qkv_random r = test_random(6);
    int32_t ids[LONGEST];
    float alone[LONGEST * V];
    fixture_ids(&r, ids, LONGEST, V);
    for (size_t kind = 0; kind < QKV_SCALING_COUNT; kind++)
        for (size_t length = 0; length <= LONGEST; length += 8) {
            struct qkv_model *m = scaled_model(scalings[kind], false, kind);
            struct qkv_session *s, *fork;
            const struct qkv_session_options o = {.capacity = 20, .pages = 3, .length = length};
            assert_ok(ctx, qkv_session_create_with(m, &o, &s));
            assert_ok(ctx, qkv_session_append(s, ids, 11));
            scores_alone(m, ids, 13, length ? length : 20, alone);
            assert_memory_equal(alone + (size_t)10 * V, qkv_session_logits(s), V * sizeof *alone);
            assert_ok(ctx, qkv_session_fork(s, &fork));
            assert_ok(ctx, qkv_session_append(fork, ids + 11, 2));
            assert_memory_equal(alone + (size_t)12 * V, qkv_session_logits(fork), V * sizeof *alone);
            qkv_session_truncate(s, 3);
            assert_ok(ctx, qkv_session_append(s, ids + 3, 10));
            assert_memory_equal(alone + (size_t)12 * V, qkv_session_logits(s), V * sizeof *alone);
            qkv_session_free(fork);
            qkv_session_free(s);
            qkv_model_free(m);
        }
    struct qkv_model *m = scaled_model(scalings[0], false, 1);
    struct qkv_session *s;
    assert_fails(ctx, qkv_session_create_with(m, &(struct qkv_session_options){.length = 25}, &s), QKV_ARGUMENT,
                 "decided for a length of 25");
    qkv_model_free(m);
}

/* ---- who decides -------------------------------------------------------------------------------------------------------- */

/* Greedy continuations of ids, noted down. */
struct made {
    int32_t ids[2][LONGEST];
    size_t count[2];
};

static bool note_token(void *user, const struct qkv_made_token *token) {
    struct made *made = user;
    made->ids[token->index][made->count[token->index]++] = token->id;
    return true;
}

/* What a pass over everything so far, decided for `length`, finds likeliest. */
static void expect_greedy(struct qkv_model *m, const int32_t *prompt, size_t n, const struct made *made, size_t which,
                          size_t length) {
    int32_t all[LONGEST];
    float scores[LONGEST * V];
    memcpy(all, prompt, n * sizeof *all);
    for (size_t i = 0; i < made->count[which]; i++) {
        scores_alone(m, all, n + i, length, scores);
        const float *last = scores + (n + i - 1) * V;
        int32_t best = 0;
        for (int32_t v = 1; v < V; v++)
            if (last[v] > last[best]) best = v;
        assert_int_equal(made->ids[which][i], best);
        all[n + i] = best;
    }
}

static void generate_decides_for_prompt_and_tokens_or_the_context_given(void **state) {
    (void)state;
    struct qkv_random r = test_random(7);
    int32_t ids[LONGEST];
    fixture_ids(&r, ids, LONGEST, V);
    static const size_t contexts[] = {0, 14, LONGEST};
    for (size_t kind = 0; kind < QKV_SCALING_COUNT; kind++)
        for (size_t c = 0; c < TEST_COUNT(contexts); c++)
            for (size_t tokens = 3; tokens <= 8; tokens += 5) {
                struct qkv_model *m = scaled_model(scalings[kind], false, kind);
                struct qkv_generate_options o = qkv_generate_defaults();
                struct made one = {0}, two = {0};
                const size_t n = 5;
                o.sampling.temperature = 0;
                o.ids = ids, o.id_count = n, o.tokens = tokens, o.context = contexts[c];
                o.take_token = note_token, o.take_user = &one;
                assert_ok(ctx, qkv_generate(m, "", 0, &o, NULL, NULL, NULL));
                o.take_user = &two;
                assert_ok(ctx, qkv_generate_several(m, "", 0, &o, 2, NULL, NULL, NULL));
                assert_int_equal(one.count[0], tokens);
                expect_greedy(m, ids, n, &one, 0, contexts[c] ? contexts[c] : n + tokens);
                for (size_t i = 0; i < 2; i++) assert_memory_equal(one.ids[0], two.ids[i], tokens * sizeof *ids);
                o.context = LONGEST + 1;
                assert_fails(ctx, qkv_generate(m, "", 0, &o, NULL, NULL, NULL), QKV_ARGUMENT,
                             "a context of 25 is more than the model's, 24");
                o.context = 4;
                assert_fails(ctx, qkv_generate(m, "", 0, &o, NULL, NULL, NULL), QKV_ARGUMENT,
                             "the prompt has 5 tokens, but the context holds 4");
                qkv_model_free(m);
            }
}

/* Sources by their own length, rows of a decoder by what each is decided for: neighbours change nothing. */
static void encoders_and_decoders_go_by_each_sequence(void **state) {
    (void)state;
    struct qkv_random r = test_random(8);
    int32_t ids[3 * LONGEST];
    const int32_t lengths[] = {LONGEST, P, P + 3};
    fixture_ids(&r, ids, TEST_COUNT(ids), V);
    for (size_t kind = 0; kind < QKV_SCALING_COUNT; kind++) {
        struct qkv_model *m = scaled_model(scalings[kind], true, kind);
        struct qkv_encoded *all, *one;
        assert_ok(ctx, qkv_encode(m, ids, lengths, 3, LONGEST, &all));
        const float *together = qkv_encoded_output(all).data;
        for (size_t b = 0; b < 3; b++) {
            const size_t T = (size_t)lengths[b];
            float got[V], want[V];
            struct qkv_decoder *d;
            const size_t source = b, decided = 7 + 5 * b;
            const struct qkv_decoder_options o = {
                .encoded = all, .sources = &source, .rows = 1, .lengths = &decided, .chunk = 1};
            assert_ok(ctx, qkv_encode(m, ids + b * LONGEST, NULL, 1, T, &one));
            assert_memory_equal(together + b * LONGEST * 12, qkv_encoded_output(one).data, T * 12 * sizeof(float));
            qkv_encoded_free(one);
            assert_ok(ctx, qkv_decoder_create_with(m, &o, &d));
            assert_ok(ctx, qkv_decoder_append(d, &(struct qkv_decoder_input){.ids = ids, .counts = &(size_t){5}}));
            memcpy(got, qkv_decoder_logits(d), sizeof got);
            qkv_decoder_free(d);
            struct qkv_pass *pass;
            const struct qkv_pass_options po = {.B = 1, .T = 5, .source_T = T, .logits = true};
            assert_ok(ctx, qkv_pass_create(m, &po, &pass));
            assert_ok(
                ctx,
                qkv_pass_forward(
                    pass,
                    &(struct qkv_batch){
                        .B = 1, .T = 5, .ids = ids, .length = decided, .source_T = T, .source = ids + b * LONGEST}));
            memcpy(want, (const float *)qkv_pass_output(pass).data + (size_t)4 * V, sizeof want);
            assert_memory_equal(got, want, sizeof got);
            qkv_pass_free(pass);
        }
        qkv_encoded_free(all);
        qkv_model_free(m);
    }
}

/* ---- modules and the attention layer ------------------------------------------------------------------------------------ */

static void modules_go_by_the_same_lengths(void **state) {
    (void)state;
    struct qkv_random r = test_random(9);
    int32_t ids[2 * 16];
    float y[2 * 16 * V], alone[16 * V];
    const int32_t lengths[2] = {16, 6};
    fixture_ids(&r, ids, 32, V);
    for (size_t kind = 0; kind < QKV_SCALING_COUNT; kind++) {
        struct qkv_model *m = scaled_model(scalings[kind], false, kind);
        struct qkv_module *module;
        struct qkv_module_input in = qkv_module_input_defaults();
        assert_ok(ctx, qkv_module_of_model(m, "", &module));
        in.x = (struct qkv_vectors){.B = 2, .T = 16};
        in.ids = ids, in.self.mask.lengths = lengths;
        for (size_t length = 0; length <= 20; length += 20) {
            in.length = length;
            assert_ok(ctx, qkv_module_forward(module, &in, (struct qkv_vectors){y, 2, 16, V}));
            for (size_t b = 0; b < 2; b++) {
                scores_alone(m, ids + b * 16, (size_t)lengths[b], length, alone);
                test_floats_close(y + b * 16 * V, alone, (size_t)lengths[b] * V, 1e-6, "module", __FILE__, __LINE__);
            }
        }
        in.length = 25;
        assert_fails(ctx, qkv_module_forward(module, &in, (struct qkv_vectors){y, 2, 16, V}), QKV_ARGUMENT,
                     "a length of 25");
        qkv_module_free(module);
        qkv_model_free(m);
    }
}

static void the_attention_layer_has_scalings_too(void **state) {
    (void)state;
    enum { T = 14, C = 8 };
    struct qkv_random r = test_random(10);
    float x[T * C], whole[T * C], decided[T * C], step[C];
    test_fill(&r, x, T * C, 1);
    for (int kind = 0; kind < QKV_SCALING_COUNT; kind++) {
        struct qkv_attention_layer_spec spec = {.in = C, .context = 20, .attention = {.heads = 1, .causal = true}};
        spec.attention.position = random_rotation(&r, (enum qkv_scaling_kind)kind);
        spec.attention.position.scaling.original_context = P;
        struct qkv_attention_layer *l;
        struct qkv_attention_cache *cache;
        assert_ok(ctx, qkv_attention_layer_create(ctx, &spec, 3, &l));
        struct qkv_attention_input in = {.B = 1, .T = T, .x = x};
        assert_ok(ctx, qkv_attention_layer_forward(l, &in, whole));
        in.length = 20;
        assert_ok(ctx, qkv_attention_layer_forward(l, &in, decided));
        assert_int_equal(memcmp(whole, decided, sizeof whole) != 0, kind == QKV_SCALING_DYNAMIC);
        assert_ok(ctx, qkv_attention_cache_create(l, 1, 20, &cache)); /* decided for its capacity */
        for (size_t t = 0; t < T; t++) {
            const struct qkv_attention_input one = {.B = 1, .T = 1, .x = x + t * C, .cache = cache};
            assert_ok(ctx, qkv_attention_layer_forward(l, &one, step));
            assert_memory_equal(step, decided + t * C, sizeof step);
        }
        in.length = 21;
        if (kind == QKV_SCALING_DYNAMIC)
            assert_fails(ctx, qkv_attention_layer_forward(l, &in, whole), QKV_ARGUMENT, "length is 21");
        qkv_attention_cache_free(cache);
        qkv_attention_layer_free(l);
        spec.attention.position.scaling.factor = 0.5;
        assert_fails(ctx, qkv_attention_layer_create(ctx, &spec, 3, &l), QKV_SPEC, "position.scaling.factor is 0.5");
    }
}

/* ---- the spec ----------------------------------------------------------------------------------------------------------- */

static const char rope_spec[] =
    "{\"format\": \"qkv\", \"version\": 1, \"vocab\": 23, \"d_model\": 16, \"context\": 64, "
    "\"position\": {\"kind\": \"rope\"}, \"decoder\": {\"layers\": 2, \"attention\": "
    "{\"heads\": 2}}}";

static enum qkv_status read_scaling(struct qkv_spec *spec, const char *scaling) {
    char setting[400];
    const char *settings[] = {setting};
    snprintf(setting, sizeof setting, "position.scaling=%s", scaling);
    return qkv_spec_parse(ctx, spec, "spec", rope_spec, sizeof rope_spec - 1, settings, 1);
}

static void what_cannot_be_is_refused_by_key_and_value(void **state) {
    (void)state;
    static const struct {
        const char *scaling, *sentence;
    } bad[] = {
        {"{\"factor\": 2}", "position.scaling.kind is missing; it must be one of linear"},
        {"{\"kind\": \"cubic\", \"factor\": 2}", "position.scaling.kind is \"cubic\"; it must be one of linear"},
        {"{\"kind\": \"linear\"}", "position.scaling.factor is missing; kind linear needs it, a number of at least 1"},
        {"{\"kind\": \"ntk\", \"factor\": 0.9}", "position.scaling.factor is 0.9; it must be a number of at least 1"},
        {"{\"kind\": \"yarn\", \"factor\": 2}", "position.scaling.original_context is missing; kind yarn needs it"},
        {"{\"kind\": \"dynamic\", \"factor\": 2}", "position.scaling.original_context is missing"},
        {"{\"kind\": \"llama3\", \"factor\": 2}", "position.scaling.original_context is missing"},
        {"{\"kind\": \"linear\", \"factor\": 2, \"beta_fast\": 3}",
         "position.scaling.beta_fast is 3, but only a scaling of kind yarn has one"},
        {"{\"kind\": \"linear\", \"factor\": 2, \"attention_factor\": 0}", "position.scaling.attention_factor is 0"},
        {"{\"kind\": \"linear\", \"factor\": 2, \"attention_factor\": -1}", "position.scaling.attention_factor is -1"},
        {"{\"kind\": \"yarn\", \"factor\": 2, \"original_context\": 9, \"beta_fast\": 1}",
         "position.scaling.beta_fast is 1, but beta_slow is 1; beta_fast must be greater"},
        {"{\"kind\": \"llama3\", \"factor\": 2, \"original_context\": 9, \"low_freq\": 5}",
         "position.scaling.high_freq is 4, but low_freq is 5"},
        {"{\"kind\": \"longrope\", \"original_context\": 9, \"short\": [1, 2, 3], \"long\": [1, 2, 3, 4]}",
         "position.scaling.short has 3 numbers; it must have 4, one for each pair of the 8 rotated channels"},
        {"{\"kind\": \"longrope\", \"original_context\": 9, \"short\": [1, 2, 3, 4]}",
         "position.scaling.long has 0 numbers; it must have 4"},
        {"{\"kind\": \"longrope\", \"original_context\": 9, \"short\": [1, 2, 0, 4], \"long\": [1, 2, 3, 4]}",
         "position.scaling.short is [1,2,0,4]; it must be a list of 1 to 128 numbers greater than 0"},
        {"{\"kind\": \"longrope\", \"original_context\": 9, \"short\": 3, \"long\": [1, 2, 3, 4]}",
         "position.scaling.short is 3; it must be a list"},
        {"{\"kind\": \"longrope\", \"original_context\": 1, \"short\": [1, 2, 3, 4], \"long\": [1, 2, 3, 4]}",
         "position.scaling.original_context is 1; it must be a whole number of at least 2"},
        {"3", "position.scaling is 3; it must be an object"},
    };
    struct qkv_spec spec;
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        assert_status(ctx, read_scaling(&spec, bad[i].scaling), QKV_SPEC);
        if (!strstr(qkv_message(ctx), bad[i].sentence)) fail_msg("%s: %s", bad[i].scaling, qkv_message(ctx));
    }
    const char *one_pair[] = {"position.fraction=0.25", "position.scaling={\"kind\": \"ntk\", \"factor\": 2}"};
    assert_fails(ctx, qkv_spec_parse(ctx, &spec, "spec", rope_spec, sizeof rope_spec - 1, one_pair, 2), QKV_SPEC,
                 "needs at least 4 rotated channels, but there are 2");
    const char *no_rope[] = {"position.kind=alibi", "position.scaling.kind=linear", "position.scaling.factor=2"};
    assert_fails(ctx, qkv_spec_parse(ctx, &spec, "spec", rope_spec, sizeof rope_spec - 1, no_rope, 3), QKV_SPEC,
                 "position.scaling is given, but only position.kind rope has one");
}

/* Printed, read back, of either version: the same digest; each number of it changes the digest. */
static void scalings_are_written_read_and_part_of_the_digest(void **state) {
    (void)state;
    char digests[QKV_SCALING_COUNT + 1][QKV_DIGEST_TEXT], again[QKV_DIGEST_TEXT];
    struct qkv_spec spec, back;
    char *json;
    for (size_t kind = 0; kind <= QKV_SCALING_COUNT; kind++) {
        assert_ok(ctx, read_scaling(&spec, kind < QKV_SCALING_COUNT ? scalings[kind] : "null"));
        assert_int_equal(spec.decoder.kinds[0].attention.position.scaling.given, kind < QKV_SCALING_COUNT);
        assert_ok(ctx, qkv_spec_digest(ctx, &spec, digests[kind]));
        assert_ok(ctx, qkv_spec_print(ctx, &spec, &json));
        assert_int_equal(strstr(json, "\"scaling\": {") != NULL, kind < QKV_SCALING_COUNT);
        assert_ok(ctx, qkv_spec_parse(ctx, &back, "printed", json, strlen(json), NULL, 0));
        assert_ok(ctx, qkv_spec_digest(ctx, &back, again));
        assert_string_equal(digests[kind], again);
        for (size_t other = 0; other < kind; other++) assert_string_not_equal(digests[kind], digests[other]);
        qkv_free(json);
    }
    char plain[QKV_DIGEST_TEXT];
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "spec", rope_spec, sizeof rope_spec - 1, NULL, 0));
    assert_ok(ctx, qkv_spec_digest(ctx, &spec, plain));
    assert_string_equal(plain, digests[QKV_SCALING_COUNT]);
    assert_ok(ctx, read_scaling(&spec, "{\"kind\": \"longrope\", \"original_context\": 9, \"short\": [1, 1.1, 1.3, 2], "
                                       "\"long\": [1, 2, 5, 12.5]}"));
    assert_ok(ctx, qkv_spec_digest(ctx, &spec, again));
    assert_string_not_equal(again, digests[QKV_SCALING_LONGROPE]);
    /* a scaling of one attention alone */
    const char *own[] = {"decoder.attention.position.scaling.kind=yarn", "decoder.attention.position.scaling.factor=4",
                         "decoder.attention.position.scaling.original_context=16"};
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "spec", rope_spec, sizeof rope_spec - 1, own, 3));
    assert_int_equal(spec.decoder.kinds[0].attention.position.scaling.kind, QKV_SCALING_YARN);
    assert_true(spec.decoder.kinds[0].attention.position.scaling.beta_fast == 32);
}

static int start_context(void **state) {
    (void)state;
    return (int)qkv_context_create(&ctx, &(struct qkv_context_options){.threads = 2});
}

static int end_context(void **state) {
    (void)state;
    qkv_context_free(ctx);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_follow_the_formulas),
        cmocka_unit_test(without_a_scaling_the_table_is_the_usual_one),
        cmocka_unit_test(a_sequence_in_a_batch_has_the_bits_that_it_has_alone),
        cmocka_unit_test(documents_and_given_positions_count_as_they_stand),
        cmocka_unit_test(only_some_kinds_depend_on_the_length),
        cmocka_unit_test(cached_decoding_has_the_bits_of_a_pass),
        cmocka_unit_test(sessions_and_their_forks_keep_what_was_decided),
        cmocka_unit_test(generate_decides_for_prompt_and_tokens_or_the_context_given),
        cmocka_unit_test(encoders_and_decoders_go_by_each_sequence),
        cmocka_unit_test(modules_go_by_the_same_lengths),
        cmocka_unit_test(the_attention_layer_has_scalings_too),
        cmocka_unit_test(what_cannot_be_is_refused_by_key_and_value),
        cmocka_unit_test(scalings_are_written_read_and_part_of_the_digest),
    };
    return cmocka_run_group_tests(tests, start_context, end_context);
}
