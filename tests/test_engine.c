/* Engines: every answer has the bytes, the tokens and the log-probabilities that qkv_generate makes of its request
 * alone, among any others, whatever the cache holds, however prompts are cut, with few rows and few pages, at any
 * number of threads, in several types of weights and caches. (qkv_generate is an engine of one row, which
 * test_generate.c compares with sessions, and test_beam_golden.c with transformers.) */
/* labels: numeric */
#include "search_fixture.h"

#include "model/model.h"

enum { CONTEXT = 400, V = 256, REQUESTS = 24, TEXT = 4096, TOKENS = 40, ANSWERS = 3 };

static const char spec_json[] =
    "{\"format\": \"qkv\", \"version\": 2, \"vocab\": 256, \"d_model\": 32, \"context\": 400, \"decoder\": "
    "{\"layers\": 2, "
    "\"norm\": {\"kind\": \"rmsnorm\"}, \"attention\": {\"heads\": 2, \"kv_heads\": 1, \"head_dim\": 32, \"position\": "
    "{\"kind\": \"rope\"}}, \"ffn\": {\"kind\": \"swiglu\", \"d_ff\": 64}}}";
/* Rotations depend on the length of the text; a window gives old keys no weight. */
static const char by_length[] =
    "decoder.attention.position.scaling={\"kind\": \"dynamic\", \"factor\": 2, \"original_context\": 50}";
static const char window[] = "decoder.attention.window=90";

static struct qkv_context *open_context(int threads) {
    struct qkv_context *ctx;
    assert_int_equal(qkv_context_create(
                         &ctx, &QKV_OPTIONS(qkv_context_options, .threads = threads, .precision = QKV_PRECISION_AUTO)),
                     QKV_OK);
    return ctx;
}

static void give_tokenizer(struct qkv_context *ctx, struct qkv_model *m) {
    struct qkv_tokenizer *tokenizer;
    struct qkv_tokenizer_options options = {.size = sizeof options, .kind = QKV_TOKENIZER_BYTES};
    assert_ok(ctx, qkv_tokenizer_train(ctx, &options, NULL, 0, &tokenizer));
    assert_ok(ctx, qkv_model_set_tokenizer(m, tokenizer));
}

static struct qkv_model *make_model(struct qkv_context *ctx, const char *setting) {
    struct qkv_model *m = fixture_model(ctx, spec_json, &setting, setting != NULL, 5, 0.15);
    give_tokenizer(ctx, m);
    return m;
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

struct asked {
    int32_t ids[CONTEXT];
    struct qkv_generate_options options;
    const char *stops[2];
    struct qkv_token_rules rules;
    int32_t listed[4];
    size_t answers;
};
struct heard {
    char text[TEXT];
    size_t size, tokens;
    int32_t ids[TOKENS + 1];
    double scores[TOKENS + 1];
    bool stopped, ended;
    enum qkv_finish finish;
    size_t cached;
};

/* Requests of which many begin alike. */
static void make_requests(struct qkv_random *r, struct asked *asked, size_t count) {
    int32_t common[CONTEXT];
    fixture_ids(r, common, CONTEXT, V);
    for (size_t i = 0; i < count; i++) {
        struct asked *a = &asked[i];
        const size_t length = i % 4 == 0 ? 1 + qkv_random_below(r, 20) : 1 + qkv_random_below(r, CONTEXT - 1),
                     same = i % 3 ? qkv_random_below(r, length + 1) : 0;
        *a = (struct asked){.options = qkv_generate_defaults(),
                            .answers = i % 5 == 4 ? 1 + qkv_random_below(r, ANSWERS) : 1};
        fixture_ids(r, a->ids, length, V);
        memcpy(a->ids, common, same * sizeof *common);
        a->options.ids = a->ids;
        a->options.id_count = length;
        a->options.tokens = 1 + qkv_random_below(r, qkv_min(TOKENS, CONTEXT - length + 1));
        if (i % 7 == 3) a->options.max_length = length + 1 + qkv_random_below(r, a->options.tokens);
        a->options.sampling.temperature = i % 3 == 0 ? 0 : 0.5 + qkv_random_uniform(r);
        a->options.sampling.top_k = i % 4 == 1 ? 20 : 0;
        a->options.sampling.top_p = i % 4 == 2 ? 0.8 : 1;
        a->options.sampling.repeat_penalty = i % 5 == 3 ? 1.3 : 1;
        a->options.sampling.seed = qkv_random_below(r, 1000);
        a->options.end_id = i % 2 ? (int32_t)qkv_random_below(r, V) : -1;
        a->stops[0] = "e", a->stops[1] = "zq";
        a->options.stops = a->stops;
        a->options.stop_count = i % 6 == 5 ? 2 : 0;
        if (i % 4 != 3) continue;
        a->rules = qkv_token_rules_defaults();
        fixture_ids(r, a->listed, 3, V);
        a->listed[3] = -1;
        a->rules.no_repeat = 1 + i % 2, a->rules.min_tokens = 3;
        a->rules.suppressed = (struct qkv_token_list){a->listed, 2};
        a->rules.bad_words = (struct qkv_token_list){a->listed + 2, 2};
        a->options.rules = &a->rules;
    }
}

static bool hear_text(void *user, const char *text, size_t size) {
    struct heard *h = user;
    assert_true(h->size + size <= TEXT);
    memcpy(h->text + h->size, text, size);
    h->size += size;
    return true;
}

static bool hear_token(void *user, const struct qkv_made_token *token) {
    struct heard *h = user;
    assert_true(h->tokens < TOKENS + 1);
    h->ids[h->tokens] = token->id;
    h->scores[h->tokens++] = token->log_probability;
    return true;
}

/* Each answer alone. */
static void answer_alone(struct qkv_model *m, const struct asked *a, size_t answer, struct heard *h) {
    struct qkv_generate_options o = a->options;
    struct qkv_generate_report report;
    *h = (struct heard){0};
    o.sampling.seed += answer;
    o.take_token = hear_token;
    o.take_user = h;
    assert_ok(m->ctx, qkv_generate(m, NULL, 0, &o, hear_text, h, &report));
    h->stopped = report.stopped;
}

/* ---- engines ----------------------------------------------------------------------------------------------------- */

struct crowd {
    struct qkv_engine *engine;
    const struct asked *asked;
    size_t count;
    uint64_t ids[REQUESTS];
    struct heard heard[REQUESTS][ANSWERS];
    size_t open;
};

static void crowd_hear(struct crowd *c) {
    struct qkv_engine_event event;
    while (qkv_engine_poll(c->engine, &event)) {
        size_t i = 0;
        while (i < c->count && c->ids[i] != event.request) i++;
        assert_true(i < c->count && event.answer < c->asked[i].answers);
        struct heard *h = &c->heard[i][event.answer];
        if (h->ended) fail_msg("answer %zu of request %zu goes on after its end", event.answer, i);
        hear_text(h, event.text, event.size);
        if (event.token.id >= 0) {
            h->ids[h->tokens] = event.token.id;
            h->scores[h->tokens++] = event.token.log_probability;
        }
        h->finish = event.finish;
        h->cached = event.cached_tokens;
        h->ended = event.finish != QKV_FINISH_NONE;
        c->open -= h->ended;
    }
}

static void crowd_submit(struct crowd *c, size_t i) {
    struct qkv_engine_request r = qkv_engine_request_defaults();
    struct asked own = c->asked[i]; /* gone after the call: an engine copies what it needs */
    own.options.ids = own.ids;
    own.options.stops = own.stops;
    own.rules.suppressed.ids = own.listed;
    own.rules.bad_words.ids = own.listed + 2;
    if (own.options.rules) own.options.rules = &own.rules;
    r.options = &own.options;
    r.answers = own.answers;
    r.log_probabilities = true;
    if (qkv_engine_submit(c->engine, &r, &c->ids[i])) fail_msg("%zu ids", own.options.id_count);
    memset(&own, 0x55, sizeof own);
    c->open += r.answers;
}

/* Requests come a few at a time, in another order for each `turn`. */
static void crowd_run(struct qkv_context *ctx, struct crowd *c, size_t turn, size_t at_once) {
    size_t given = 0;
    bool busy = true;
    memset(c->heard, 0, sizeof c->heard);
    memset(c->ids, 0, sizeof c->ids);
    c->open = 0;
    while (given < c->count || c->open) {
        for (size_t k = 0; k < at_once && given < c->count; k++, given++)
            crowd_submit(c, (given * (turn % 2 ? 5 : 1) + turn) % c->count);
        assert_ok(ctx, qkv_engine_step(c->engine, &busy));
        crowd_hear(c);
        assert_true(busy || !c->open);
    }
    assert_ok(ctx, qkv_engine_step(c->engine, &busy));
    assert_false(busy);
}

static void crowd_check(const struct crowd *c, struct heard (*alone)[ANSWERS], const char *what) {
    for (size_t i = 0; i < c->count; i++)
        for (size_t k = 0; k < c->asked[i].answers; k++) {
            const struct heard *a = &alone[i][k], *b = &c->heard[i][k];
            if (a->size != b->size || memcmp(a->text, b->text, a->size))
                fail_msg("%s: request %zu, answer %zu: another text", what, i, k);
            if (a->tokens != b->tokens || memcmp(a->ids, b->ids, a->tokens * sizeof *a->ids) ||
                memcmp(a->scores, b->scores, a->tokens * sizeof *a->scores))
                fail_msg("%s: request %zu, answer %zu: other tokens or log-probabilities", what, i, k);
            if (a->stopped != (b->finish == QKV_FINISH_STOP)) fail_msg("%s: request %zu: another end", what, i);
        }
}

/* ---- the same bytes ---------------------------------------------------------------------------------------------- */

struct variant {
    const char *name;
    size_t rows, step, pages, at_once;
    bool forget;
    size_t drafts;
};
static const struct variant variants[] = {
    {"one row", 1, 0, 0, REQUESTS, false, 0},
    {"pieces of 1", 4, 1, 0, 3, false, 0},
    {"pieces of 17", 7, 17, 0, 2, false, 3},
    {"pieces of 512", 31, 512, 0, REQUESTS, false, 0},
    {"nothing is kept", 8, 64, 0, 5, true, 0},
    {"five pages", 8, 100, 5, REQUESTS, false, 8},
    {"four pages, nothing kept", 5, 40, 4, 7, true, 0},
    {"the time decides", 16, 0, 0, 1, false, 0},
    {"guesses", 3, 0, 0, 2, false, 32},
};

static void check_model(struct qkv_context *ctx, struct qkv_model *m, const char *what, size_t first, size_t every) {
    static struct asked asked[REQUESTS];
    static struct heard alone[REQUESTS][ANSWERS];
    static struct crowd c;
    struct qkv_random r = test_random(90);
    make_requests(&r, asked, REQUESTS);
    for (size_t i = 0; i < REQUESTS; i++)
        for (size_t k = 0; k < asked[i].answers; k++) answer_alone(m, &asked[i], k, &alone[i][k]);
    for (size_t v = first; v < TEST_COUNT(variants); v += every) {
        const struct variant *way = &variants[v];
        char name[200];
        c = (struct crowd){.asked = asked, .count = REQUESTS};
        snprintf(name, sizeof name, "%s, %s", what, way->name);
        assert_ok(ctx,
                  qkv_engine_create(m,
                                    &QKV_OPTIONS(qkv_engine_options, .rows = way->rows, .step = way->step,
                                                 .pages = way->pages, .forget = way->forget, .drafts = way->drafts),
                                    &c.engine));
        for (size_t turn = 0; turn < 2; turn++) { /* the second time many prompts are in the cache */
            crowd_run(ctx, &c, turn, way->at_once);
            crowd_check(&c, alone, name);
        }
        const struct qkv_engine_state s = qkv_engine_state(c.engine);
        assert_int_equal(s.running + s.waiting, 0);
        assert_int_equal(s.free_pages + s.kept_pages, s.pages);
        const bool roomy = way->rows >= 16 && !way->pages; /* all pages of all requests fit into the cache */
        size_t found = 0;
        for (size_t i = 0; i < REQUESTS; i++) found += c.heard[i][0].cached;
        if (way->forget && s.kept_pages) fail_msg("%s: %zu pages kept", name, s.kept_pages);
        if (roomy && !found) fail_msg("%s: no prompt was found in the cache", name);
        qkv_engine_free(c.engine);
    }
}

static void answers_have_the_same_bytes_in_a_crowd(void **state) {
    (void)state;
    static const struct {
        const char *name, *setting, *cache;
    } models[] = {{"plain", NULL, NULL}, {"by length", by_length, NULL}, {"window", window, "q8_0"}};
    for (size_t i = 0; i < TEST_COUNT(models); i++) {
        struct qkv_context *ctx = open_context(i % 2 ? 2 : 1);
        struct qkv_model *m = make_model(ctx, models[i].setting);
        assert_ok(ctx, qkv_model_set_cache(m, models[i].cache));
        check_model(ctx, m, models[i].name, i ? i - 1 : 0, i ? 2 : 1);
        qkv_model_free(m);
        qkv_context_free(ctx);
    }
}

/* A quantised model, at other numbers of threads. */
static void quantised_answers_have_the_same_bytes(void **state) {
    (void)state;
    char path[600];
    snprintf(path, sizeof path, "%s/engine.gguf", test_folder());
    for (int threads = 1; threads <= 2; threads++) {
        struct qkv_context *ctx = open_context(threads);
        struct qkv_model *m = make_model(ctx, NULL);
        struct qkv_gguf_options o = qkv_gguf_defaults();
        o.format = "q4_0";
        assert_ok(ctx, qkv_model_export_gguf(m, &o, path, NULL));
        qkv_model_free(m);
        assert_ok(ctx, qkv_model_load(ctx, path, &m));
        check_model(ctx, m, "q4_0", (size_t)threads, 3);
        qkv_model_free(m);
        qkv_context_free(ctx);
    }
}

/* Two answers that grow into a second page each, of three pages: the younger one is put off and computed again. */
static void an_answer_is_put_off_without_a_change(void **state) {
    (void)state;
    static struct asked asked[2];
    static struct heard alone[REQUESTS][ANSWERS];
    static struct crowd c;
    struct qkv_context *ctx = open_context(1);
    struct qkv_model *m = make_model(ctx, NULL);
    struct qkv_random r = test_random(93);
    for (size_t i = 0; i < 2; i++) {
        asked[i] = (struct asked){.options = qkv_generate_defaults(), .answers = 1};
        fixture_ids(&r, asked[i].ids, 110, V);
        asked[i].options.ids = asked[i].ids, asked[i].options.id_count = 110, asked[i].options.tokens = TOKENS;
        answer_alone(m, &asked[i], 0, &alone[i][0]);
    }
    c = (struct crowd){.asked = asked, .count = 2};
    assert_ok(ctx, qkv_engine_create(m, &QKV_OPTIONS(qkv_engine_options, .rows = 2, .pages = 3), &c.engine));
    crowd_run(ctx, &c, 0, 2);
    crowd_check(&c, alone, "three pages");
    assert_int_equal(qkv_engine_state(c.engine).put_off, 1);
    qkv_engine_free(c.engine);
    qkv_model_free(m);
    qkv_context_free(ctx);
}

/* ---- scores ------------------------------------------------------------------------------------------------------ */

static const struct qkv_token_bias biases[] = {{7, 2.5f}, {80, -100}};
enum { MADE = 30, MINIMUM = 12 };

/* The tokens of a prompt with penalties, biases and an end token that is not chosen too early, by hand. */
static size_t penalised_by_hand(struct qkv_model *m, const int32_t *prompt, size_t length, int32_t end, int32_t *made) {
    struct qkv_session *s;
    size_t times[V] = {0}, count = 0;
    assert_ok(m->ctx, qkv_session_create(m, NULL, &s));
    assert_ok(m->ctx, qkv_session_append(s, prompt, length));
    for (; count < MADE; count++) {
        float scores[V];
        int32_t best = 0;
        memcpy(scores, qkv_session_logits(s), sizeof scores);
        for (size_t k = 0; k < TEST_COUNT(biases); k++) scores[biases[k].id] += biases[k].bias;
        for (size_t k = 0; k < V; k++)
            if (times[k]) scores[k] = (float)((double)scores[k] - (0.7 + 0.4 * (double)times[k]));
        if (count < MINIMUM && end >= 0) scores[end] = -INFINITY;
        for (int32_t k = 1; k < V; k++)
            if (scores[k] > scores[best]) best = k;
        made[count] = best;
        if (best == end) break;
        times[best]++;
        assert_ok(m->ctx, qkv_session_append(s, &best, 1));
    }
    qkv_session_free(s);
    return count;
}

static void penalties_and_biases_change_the_scores(void **state) {
    (void)state;
    struct qkv_context *ctx = open_context(1);
    struct qkv_model *m = make_model(ctx, NULL);
    struct qkv_generate_options o = qkv_generate_defaults();
    struct qkv_engine_request q = qkv_engine_request_defaults();
    struct qkv_engine *e;
    struct qkv_engine_event event;
    struct qkv_random r = test_random(91);
    int32_t prompt[9], made[MADE], plain[MADE];
    uint64_t id;
    size_t heard = 0;
    bool busy = true;
    fixture_ids(&r, prompt, 9, V);
    o.ids = prompt, o.id_count = 9, o.tokens = MADE, o.sampling.temperature = 0;
    q.options = &o, q.biases = biases, q.bias_count = 2, q.presence_penalty = 0.7, q.frequency_penalty = 0.4;
    q.min_tokens = MINIMUM;
    penalised_by_hand(m, prompt, 9, -1, plain);
    o.end_id = plain[2]; /* a token that would end it at once */
    const size_t count = penalised_by_hand(m, prompt, 9, o.end_id, made);
    assert_true(count >= MINIMUM && memcmp(plain, made, sizeof made) != 0);
    assert_ok(ctx, qkv_engine_create(m, NULL, &e));
    assert_ok(ctx, qkv_engine_submit(e, &q, &id));
    while (busy) {
        assert_ok(ctx, qkv_engine_step(e, &busy));
        while (qkv_engine_poll(e, &event)) {
            if (event.token.id >= 0 && heard < MADE) assert_int_equal(event.token.id, made[heard++]);
            if (event.finish != QKV_FINISH_NONE) assert_int_equal(event.tokens, count);
        }
    }
    assert_int_equal(heard, count + (count < MADE));
    qkv_engine_free(e);
    qkv_model_free(m);
    qkv_context_free(ctx);
}

/* Log-probabilities of a prompt and the likeliest tokens, against the scores of a pass. */
static void prompts_are_told_with_their_scores(void **state) {
    (void)state;
    enum { LENGTH = 150 };
    struct qkv_context *ctx = open_context(1);
    struct qkv_model *m = make_model(ctx, NULL);
    struct qkv_generate_options o = qkv_generate_defaults();
    struct qkv_engine_request q = qkv_engine_request_defaults();
    struct qkv_engine *e;
    struct qkv_engine_event event;
    struct qkv_session *s;
    struct qkv_random r = test_random(92);
    int32_t prompt[LENGTH];
    size_t scored[LENGTH], told = 0;
    uint64_t id;
    bool busy = true, ended = false;
    fixture_ids(&r, prompt, LENGTH, V);
    for (size_t i = 0; i < LENGTH; i++) scored[i] = i;
    o.ids = prompt, o.id_count = LENGTH, o.tokens = 0;
    q.options = &o, q.prompt_probabilities = true, q.top = 5;
    assert_ok(ctx, qkv_session_create(m, NULL, &s));
    assert_ok(ctx, qkv_session_score(s, prompt, LENGTH, scored, LENGTH));
    assert_ok(ctx, qkv_engine_create(m, &QKV_OPTIONS(qkv_engine_options, .rows = 3), &e));
    assert_ok(ctx, qkv_engine_submit(e, &q, &id));
    while (busy) {
        assert_ok(ctx, qkv_engine_step(e, &busy));
        while (qkv_engine_poll(e, &event)) {
            double want[V];
            ended = event.finish == QKV_FINISH_LENGTH;
            if (event.token.id < 0) continue;
            assert_true(event.prompt);
            assert_int_equal(event.token.id, prompt[told]);
            if (told) {
                fixture_log_softmax(qkv_session_logits(s) + (told - 1) * V, V, want);
                if (fabs(event.token.log_probability - want[prompt[told]]) > 1e-5)
                    fail_msg("token %zu: %g instead of %g", told, event.token.log_probability, want[prompt[told]]);
                assert_int_equal(event.top_count, 5);
                for (size_t k = 0; k < 5; k++) {
                    size_t better = 0;
                    for (size_t v = 0; v < V; v++) better += want[v] > want[event.top[k].id];
                    assert_int_equal(better, k);
                    assert_true(fabs(event.top[k].log_probability - want[event.top[k].id]) < 1e-5);
                }
            }
            told++;
        }
    }
    assert_int_equal(told, LENGTH);
    assert_true(ended);
    qkv_engine_free(e);
    qkv_session_free(s);
    qkv_model_free(m);
    qkv_context_free(ctx);
}

/* ---- ends -------------------------------------------------------------------------------------------------------- */

static void a_request_that_is_cancelled_frees_its_pages(void **state) {
    (void)state;
    struct qkv_context *ctx = open_context(1);
    struct qkv_model *m = make_model(ctx, NULL);
    struct qkv_generate_options o = qkv_generate_defaults();
    struct qkv_engine_request q = qkv_engine_request_defaults();
    struct qkv_engine_event event;
    struct qkv_engine *e;
    uint64_t first, second;
    bool busy;
    o.tokens = 300;
    q.options = &o, q.prompt = "abc", q.prompt_size = 3, q.answers = 2;
    assert_ok(ctx, qkv_engine_create(m, &QKV_OPTIONS(qkv_engine_options, .rows = 2, .forget = true), &e));
    assert_ok(ctx, qkv_engine_submit(e, &q, &first));
    assert_ok(ctx, qkv_engine_submit(e, &q, &second));
    for (int i = 0; i < 5; i++) assert_ok(ctx, qkv_engine_step(e, &busy));
    assert_int_equal(qkv_engine_state(e).running, 2);
    assert_int_equal(qkv_engine_state(e).waiting, 2);
    assert_true(qkv_engine_cancel(e, first));
    assert_false(qkv_engine_cancel(e, first));
    assert_false(qkv_engine_cancel(e, 77));
    size_t cancelled = 0;
    while (qkv_engine_poll(e, &event)) cancelled += event.finish == QKV_FINISH_CANCELLED;
    assert_int_equal(cancelled, 2);
    const struct qkv_engine_state s = qkv_engine_state(e);
    assert_int_equal(s.running, 1);
    assert_int_equal(s.free_pages, s.pages - 1); /* the first page of an answer of the other request */
    assert_ok(ctx, qkv_engine_step(e, &busy));   /* which goes on */
    assert_int_equal(qkv_engine_state(e).running, 2);
    assert_true(busy);
    qkv_engine_free(e); /* with requests that were not answered */
    qkv_model_free(m);
    qkv_context_free(ctx);
}

/* Scores that are no numbers end the request alone. */
static void a_request_with_broken_scores_fails_alone(void **state) {
    (void)state;
    struct qkv_context *ctx = open_context(1);
    struct qkv_model *m = make_model(ctx, "tie=none");
    struct qkv_generate_options o = qkv_generate_defaults();
    struct qkv_engine_request q = qkv_engine_request_defaults();
    struct qkv_engine_event event;
    struct qkv_engine *e;
    const int32_t broken = 200, whole = 20;
    uint64_t ids[2];
    bool busy = true, failed = false, answered = false;
    for (size_t i = 0; i < qkv_model_parameters(m); i++) /* the row of one token */
        if (strstr(qkv_model_parameter(m, i)->name, "embed.token")) test_weights_mutable(m, i)[200 * 32] = NAN;
    assert_ok(ctx, qkv_engine_create(m, NULL, &e));
    q.options = &o, o.id_count = 1, o.tokens = 8, o.sampling.temperature = 0;
    o.ids = &broken;
    assert_ok(ctx, qkv_engine_submit(e, &q, &ids[0]));
    o.ids = &whole;
    assert_ok(ctx, qkv_engine_submit(e, &q, &ids[1]));
    while (busy) {
        assert_ok(ctx, qkv_engine_step(e, &busy));
        while (qkv_engine_poll(e, &event)) {
            if (event.finish == QKV_FINISH_FAILED) {
                assert_true(event.request == ids[0] && strstr(event.message, "is not a number"));
                failed = true;
            }
            if (event.finish == QKV_FINISH_LENGTH) answered = event.request == ids[1] && event.tokens == 8;
        }
    }
    assert_true(failed && answered);
    qkv_engine_free(e);
    qkv_model_free(m);
    qkv_context_free(ctx);
}

/* ---- misuse ------------------------------------------------------------------------------------------------------ */

static void misuse_is_refused(void **state) {
    (void)state;
    struct qkv_context *ctx = open_context(1);
    struct qkv_model *m = make_model(ctx, NULL);
    const int32_t ids[] = {1, 2};
    const struct qkv_token_bias outside = {V, 1};
    struct qkv_generate_options o = qkv_generate_defaults();
    struct qkv_engine_request q = qkv_engine_request_defaults(), was;
    struct qkv_engine *e;
    uint64_t id;
    assert_fails(ctx, qkv_engine_create(m, &QKV_OPTIONS(qkv_engine_options, .context = 401), &e), QKV_ARGUMENT,
                 "more than the model's, 400");
    assert_fails(ctx, qkv_engine_create(m, &QKV_OPTIONS(qkv_engine_options, .rows = 1 << 20), &e), QKV_ARGUMENT,
                 "at most 16384");
    assert_fails(ctx, qkv_engine_create(m, &QKV_OPTIONS(qkv_engine_options, .drafts = 33), &e), QKV_ARGUMENT,
                 "at most 32 tokens are guessed");
    assert_fails(ctx, qkv_engine_create(m, &QKV_OPTIONS(qkv_engine_options, .memory = 1000), &e), QKV_MEMORY,
                 "give it more memory, or fewer rows");
    assert_fails(ctx, qkv_engine_create(m, &QKV_OPTIONS(qkv_engine_options, .cache = "q9"), &e), QKV_ARGUMENT, "q9");
    assert_ok(ctx, qkv_engine_create(m, &QKV_OPTIONS(qkv_engine_options, .pages = 2), &e));
    o.ids = ids, o.id_count = 2;
    q.options = &o;
    was = q;
    q.answers = 0;
    assert_fails(ctx, qkv_engine_submit(e, &q, &id), QKV_ARGUMENT, "answers is 0; a request has 1 to 128");
    q = was, q.top = 21;
    assert_fails(ctx, qkv_engine_submit(e, &q, &id), QKV_ARGUMENT, "top is 21");
    q = was, q.presence_penalty = NAN;
    assert_fails(ctx, qkv_engine_submit(e, &q, &id), QKV_ARGUMENT, "presence_penalty is nan");
    q = was, q.biases = &outside, q.bias_count = 1;
    assert_fails(ctx, qkv_engine_submit(e, &q, &id), QKV_ARGUMENT, "the bias of token 256: ids are 0 to 255");
    q = was, o.context = 20;
    assert_fails(ctx, qkv_engine_submit(e, &q, &id), QKV_ARGUMENT, "one context for all");
    o.context = 0, o.take_token = hear_token;
    assert_fails(ctx, qkv_engine_submit(e, &q, &id), QKV_ARGUMENT, "by events");
    o.take_token = NULL, o.tokens = 300;
    assert_fails(ctx, qkv_engine_submit(e, &q, &id), QKV_ARGUMENT, "need 3 pages, but the cache has 2");
    o.tokens = 5, o.sampling.top_p = 7;
    assert_fails(ctx, qkv_engine_submit(e, &q, &id), QKV_ARGUMENT, "top_p is 7");
    assert_int_equal(qkv_engine_state(e).waiting, 0);
    qkv_engine_free(e);
    qkv_engine_free(NULL);
    qkv_model_free(m);
    qkv_context_free(ctx);
}

int main(void) {
    test_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_have_the_same_bytes_in_a_crowd),
        cmocka_unit_test(quantised_answers_have_the_same_bytes),
        cmocka_unit_test(an_answer_is_put_off_without_a_change),
        cmocka_unit_test(penalties_and_biases_change_the_scores),
        cmocka_unit_test(prompts_are_told_with_their_scores),
        cmocka_unit_test(a_request_that_is_cancelled_frees_its_pages),
        cmocka_unit_test(a_request_with_broken_scores_fails_alone),
        cmocka_unit_test(misuse_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
