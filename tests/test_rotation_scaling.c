/* Scalings of rotations: tables against the test's own formulas in double; and scalings that depend on the length of
 * a sequence: the length is fixed once, whatever else the call has. The golden cases rope_* anchor whole models with
 * scalings (test_golden.c). */
/* labels: numeric quick */
#include "scaling_fixture.h"

/* ---- formulas --------------------------------------------------------------------------------------------------- */

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

/* ---- the length of a sequence ----------------------------------------------------------------------------------- */

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
            const struct qkv_pass_options o = {
                .size = sizeof o, .B = B, .T = LONGEST, .logits = true, .padding = padding};
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
        assert_ok(ctx, qkv_pass_create(m, &QKV_OPTIONS(qkv_pass_options, .B = 1, .T = LONGEST, .logits = true), &pass));
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
                     QKV_ARGUMENT, "the length for rotations is 25, more than the model's context of 24");
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
        const struct qkv_decoder_options o = {.size = sizeof o, .rows = ROWS, .chunk = 1, .lengths = lengths};
        assert_ok(ctx, qkv_decoder_create(m, &o, &d));
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
            const struct qkv_session_options o = {.size = sizeof o, .capacity = 20, .pages = 3, .length = length};
            assert_ok(ctx, qkv_session_create(m, &o, &s));
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
    assert_fails(ctx, qkv_session_create(m, &QKV_OPTIONS(qkv_session_options, .length = 25), &s), QKV_ARGUMENT,
                 "the length for the rotations of row 0 is 25");
    qkv_model_free(m);
}

/* ---- who decides ------------------------------------------------------------------------------------------------ */

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

/* The likeliest token of a pass over the whole sequence so far, with the tables for `length`. */
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
                .size = sizeof o, .encoded = all, .sources = &source, .rows = 1, .lengths = &decided, .chunk = 1};
            assert_ok(ctx, qkv_encode(m, ids + b * LONGEST, NULL, 1, T, &one));
            assert_memory_equal(together + b * LONGEST * 12, qkv_encoded_output(one).data, T * 12 * sizeof(float));
            qkv_encoded_free(one);
            assert_ok(ctx, qkv_decoder_create(m, &o, &d));
            assert_ok(ctx, qkv_decoder_append(d, &(struct qkv_decoder_input){.ids = ids, .counts = &(size_t){5}}));
            memcpy(got, qkv_decoder_logits(d), sizeof got);
            qkv_decoder_free(d);
            struct qkv_pass *pass;
            const struct qkv_pass_options po = {.size = sizeof po, .B = 1, .T = 5, .source_T = T, .logits = true};
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
    };
    return cmocka_run_group_tests(tests, start_context, end_context);
}
