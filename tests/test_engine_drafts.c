/* Guesses of engines: answers have the same tokens, log-probabilities and ends with and without guessed tokens, which
 * save steps where texts repeat; of a decoder and of encoder-decoders, greedy and drawn, with few pages, in types of
 * stored weights and caches. */
/* labels: numeric */
#include "engine_pairs.h"

enum { REQUESTS = 12, SIZE = 240, TOKENS = 100, ANSWERS = 2 };

static const char llama[] =
    "\"decoder\": {\"layers\": 2, \"norm\": {\"kind\": \"rmsnorm\"}, \"attention\": {\"heads\": 2, \"kv_heads\": 1, "
    "\"head_dim\": 32, \"position\": {\"kind\": \"rope\"}}, \"ffn\": {\"kind\": \"swiglu\", \"d_ff\": 64}}";

static const char small[] = "\"decoder\": {\"layers\": 1, \"attention\": {\"heads\": 2}, \"ffn\": {\"d_ff\": 32}}";

struct heard {
    int32_t ids[TOKENS + 1];
    double scores[TOKENS + 1];
    size_t count;
    enum qkv_finish finish;
};

/* Texts that repeat a few letters; every third is drawn with a temperature. The first answer has one letter alone, so
 * what followed before is right; the third is long and takes the likeliest tokens, so the model itself is right. */
static void submit(struct qkv_engine *e, struct qkv_random *r, size_t i, uint64_t *id) {
    struct qkv_engine_request q = qkv_engine_request_defaults();
    struct qkv_generate_options o = qkv_generate_defaults();
    char text[SIZE];
    const size_t period = 2 + qkv_random_below(r, 7);
    pair_text(r, text, SIZE - TOKENS - 2);
    for (size_t k = period; k < strlen(text); k++) text[k] = text[k - period];
    text[0] = 'a';
    o.tokens = i % 2 || i > 2 ? 1 + qkv_random_below(r, TOKENS) : TOKENS / 2;
    o.sampling.temperature = i % 3 == 1 ? 0.3 : 0;
    o.sampling.seed = i;
    o.sampling.repeat_penalty = i % 4 == 3 ? 1.1 : 1;
    q.prompt = text, q.prompt_size = strlen(text);
    q.options = &o;
    q.answers = i % 5 == 2 ? ANSWERS : 1;
    q.log_probabilities = true;
    const struct qkv_token_bias one = {3, 1e6F};
    if (!i) q.biases = &one, q.bias_count = 1;
    if (qkv_engine_submit(e, &q, id)) fail_msg("\"%s\"", text);
}

static struct qkv_engine_state run(struct qkv_model *m, const struct qkv_engine_options *options,
                                   struct heard (*heard)[ANSWERS]) {
    uint64_t ids[REQUESTS];
    struct qkv_random r = test_random(220);
    struct qkv_engine_event event;
    struct qkv_engine *e;
    const size_t before = qkv_arena_total();
    bool busy = true;
    memset(heard, 0, REQUESTS * sizeof *heard);
    assert_ok(m->ctx, qkv_engine_create(m, options, &e));
    for (size_t i = 0; i < REQUESTS; i++) submit(e, &r, i, &ids[i]);
    while (busy) {
        assert_ok(m->ctx, qkv_engine_step(e, &busy));
        while (qkv_engine_poll(e, &event)) {
            size_t i = 0;
            while (ids[i] != event.request) i++;
            struct heard *h = &heard[i][event.answer];
            if (event.token.id >= 0) {
                h->ids[h->count] = event.token.id;
                h->scores[h->count++] = event.token.log_probability;
            }
            h->finish = event.finish;
        }
    }
    const struct qkv_engine_state state = qkv_engine_state(e);
    if ((options->drafts || options->draft) &&
        qkv_arena_total() - before > state.memory) /* the first run packs the weights */
        fail_msg("%zu bytes are taken, but %zu were said", qkv_arena_total() - before, state.memory);
    qkv_engine_free(e);
    return state;
}

/* Answers of `rows` at once with guesses of a draft model, or without one. */
static void check_way(struct qkv_model *m, const struct qkv_engine_options *o, struct heard (*plain)[ANSWERS],
                      const char *name, struct qkv_engine_state *state) {
    static struct heard guessed[REQUESTS][ANSWERS];
    *state = run(m, o, guessed);
    for (size_t i = 0; i < REQUESTS; i++)
        for (size_t k = 0; k < ANSWERS; k++) {
            const struct heard *a = &plain[i][k], *b = &guessed[i][k];
            if (a->count != b->count || a->finish != b->finish || memcmp(a->ids, b->ids, a->count * sizeof *a->ids) ||
                memcmp(a->scores, b->scores, a->count * sizeof *a->scores))
                fail_msg("%s, %zu guesses: request %zu, answer %zu: other tokens", name, o->drafts, i, k);
        }
    assert_int_equal(state->free_pages + state->kept_pages, state->pages);
}

static void check(struct qkv_model *m, const char *name) {
    static const struct {
        size_t drafts, rows, pages, step;
    } ways[] = {{1, 4, 0, 0}, {7, 12, 0, 400}, {32, 1, 0, 100}, {9, 6, 7, 64}};
    static struct heard plain[REQUESTS][ANSWERS];
    const struct qkv_engine_state without = run(m, &QKV_OPTIONS(qkv_engine_options, .rows = 1, .step = 100), plain);
    assert_int_equal(without.drafted, 0);
    for (size_t v = 0; v < TEST_COUNT(ways); v++) {
        struct qkv_engine_state s;
        check_way(m,
                  &QKV_OPTIONS(qkv_engine_options, .drafts = ways[v].drafts, .rows = ways[v].rows,
                               .pages = ways[v].pages, .step = ways[v].step),
                  plain, name, &s);
        assert_true(s.drafted >= s.accepted && s.accepted > 0);
        if (ways[v].rows == 1 && s.steps >= without.steps)
            fail_msg("%s: %zu steps with guesses, %zu without", name, (size_t)s.steps, (size_t)without.steps);
    }
}

static void guesses_change_no_answer(void **state) {
    (void)state;
    static const char *const caches[] = {NULL, "q8_0"};
    for (size_t i = 0; i < TEST_COUNT(caches); i++) {
        struct qkv_context *ctx = pair_context(i ? 1 : 2);
        struct qkv_model *m = pair_model_of(ctx, llama, caches[i]);
        check(m, caches[i] ? caches[i] : "a decoder");
        qkv_model_free(m);
        qkv_context_free(ctx);
    }
    for (size_t i = 0; i < TEST_COUNT(pair_models); i++) {
        struct qkv_context *ctx = pair_context(1);
        struct qkv_model *m = pair_model(ctx, i);
        check(m, pair_models[i].name);
        qkv_model_free(m);
        qkv_context_free(ctx);
    }
}

/* Stored types of weights, whose products are other kernels for one row than for several. */
static void guesses_change_no_answer_of_stored_weights(void **state) {
    (void)state;
    static const char *const types[] = {"q8_0", "q4_0"};
    for (size_t i = 0; i < TEST_COUNT(types); i++) {
        struct qkv_context *ctx = pair_context(1);
        struct qkv_model *m = pair_stored(ctx, types[i]);
        check(m, types[i]);
        qkv_model_free(m);
        qkv_context_free(ctx);
    }
}

/* A draft model without a tokenizer, which knows the first tokens alone. */
static struct qkv_model *make_short(struct qkv_context *ctx) {
    char json[400];
    snprintf(json, sizeof json,
             "{\"format\": \"qkv\", \"version\": 2, \"vocab\": 12, \"d_model\": 32, \"context\": %d, %s}", PAIR_CONTEXT,
             small);
    return fixture_model(ctx, json, NULL, 0, 7, 0.25);
}

/* Draft models: the model itself, whose guesses are right where answers are not drawn; another one; one that reads
 * fewer positions; one that does not know all tokens; and engines that have too few pages. */
static void guesses_of_a_model_change_no_answer(void **state) {
    (void)state;
    static const char *const caches[] = {NULL, "q8_0"};
    static const struct {
        size_t drafts, rows, pages, step;
    } ways[] = {{1, 4, 0, 0}, {0, 12, 0, 400}, {32, 1, 0, 100}, {3, 6, 7, 20}, {5, 12, 12, 30}};
    static struct heard plain[REQUESTS][ANSWERS];
    for (size_t i = 0; i < TEST_COUNT(caches); i++) {
        struct qkv_context *ctx = pair_context(i ? 1 : 2);
        struct qkv_model *m = pair_model_of(ctx, llama, caches[i]);
        struct qkv_model *drafts[] = {m, pair_model_of(ctx, small, NULL), pair_model_of(ctx, small, NULL),
                                      make_short(ctx)};
        const struct qkv_engine_state without = run(m, &QKV_OPTIONS(qkv_engine_options, .rows = 1, .step = 100), plain);
        static struct heard packs[REQUESTS][ANSWERS];
        run(drafts[1], &QKV_OPTIONS(qkv_engine_options, .rows = 1), packs); /* packs its weights */
        run(drafts[2], &QKV_OPTIONS(qkv_engine_options, .rows = 1), packs);
        drafts[2]->spec.context = 60;
        struct qkv_session *reads;
        assert_ok(ctx, qkv_session_create(drafts[3], NULL, &reads));
        assert_ok(ctx, qkv_session_append(reads, &(int32_t){1}, 1)); /* packs its weights */
        qkv_session_free(reads);
        for (size_t k = 0; k < TEST_COUNT(drafts); k++) {
            size_t accepted = 0;
            for (size_t v = 0; v < TEST_COUNT(ways); v++) {
                struct qkv_engine_state s;
                if (k && (i || v % 2 == 0)) continue;
                check_way(m,
                          &QKV_OPTIONS(qkv_engine_options, .drafts = ways[v].drafts, .rows = ways[v].rows,
                                       .pages = ways[v].pages, .step = ways[v].step, .draft = drafts[k]),
                          plain, k ? "another model" : "the model itself", &s);
                assert_true(s.drafted >= s.accepted);
                accepted += s.accepted;
                if (!k && ways[v].rows == 1 && s.steps >= without.steps)
                    fail_msg("%zu steps with guesses, %zu without", (size_t)s.steps, (size_t)without.steps);
            }
            if (!k) assert_true(accepted > 0);
        }
        for (size_t k = 1; k < TEST_COUNT(drafts); k++) qkv_model_free(drafts[k]);
        qkv_model_free(m);
        qkv_context_free(ctx);
    }
}

static void refuse(struct qkv_model *m, struct qkv_model *draft, const char *words) {
    struct qkv_engine *e;
    assert_int_equal(qkv_engine_create(m, &QKV_OPTIONS(qkv_engine_options, .draft = draft), &e), QKV_ARGUMENT);
    assert_non_null(strstr(qkv_message(m->ctx), words));
    assert_null(e);
}

static void draft_models_that_cannot_guess_are_refused(void **state) {
    (void)state;
    struct qkv_context *ctx = pair_context(1), *elsewhere = pair_context(1);
    struct qkv_model *m = pair_model_of(ctx, llama, NULL), *pair = pair_model(ctx, 0),
                     *bytes = pair_stored(ctx, "q8_0"), *other = pair_model_of(elsewhere, llama, NULL);
    refuse(m, other, "another context");
    refuse(m, pair, "causal decoder with an lm head");
    refuse(pair, m, "decoders with an lm head alone");
    refuse(m, bytes, "token 0 is \"");
    qkv_model_free(m), qkv_model_free(pair), qkv_model_free(bytes), qkv_model_free(other);
    qkv_context_free(ctx), qkv_context_free(elsewhere);
}

int main(void) {
    test_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(guesses_change_no_answer),
        cmocka_unit_test(guesses_change_no_answer_of_stored_weights),
        cmocka_unit_test(guesses_of_a_model_change_no_answer),
        cmocka_unit_test(draft_models_that_cannot_guess_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
