/* Searches in engines: results have the ids, scores and texts of qkv_search alone, and those of a decoder the ones that
 * an engine finds for it alone (test_beam_golden.c compares these with transformers), among any other requests, with
 * few rows and few pages, put off and read again, however a step is divided, at any number of threads. (qkv_search is
 * an engine as well; test_search.c compares it with passes one by one.) */
/* labels: numeric */
#include "engine_pairs.h"

#include "generate/engine.h"

#include <limits.h>

enum { REQUESTS = 18, SIZE = PAIR_CONTEXT, TOKENS = 150, RESULTS = 4 };

static const char llama[] =
    "\"tie\": \"none\", \"decoder\": {\"layers\": 2, \"norm\": {\"kind\": \"rmsnorm\"}, \"attention\": {\"heads\": 2, "
    "\"kv_heads\": 1, "
    "\"head_dim\": 32, \"position\": {\"kind\": \"rope\"}}, \"ffn\": {\"kind\": \"swiglu\", \"d_ff\": 64}}";

struct asked {
    char text[SIZE];
    struct qkv_generate_options options;
    struct qkv_search_options search;
    struct qkv_token_rules rules;
    bool plain; /* no search: an answer that is drawn */
};
struct result {
    int32_t ids[TOKENS];
    size_t count, size;
    double log_probability, score;
    bool ended, found;
    char text[8 * TOKENS]; /* a special token is its name */
};
struct heard {
    struct result results[RESULTS];
    size_t count, ended;
};

/* Searches with beams of 1 to 4, with rules, and some that draw; every sixth request is no search. */
static void make_requests(struct qkv_random *r, struct asked *asked) {
    char common[SIZE];
    pair_text(r, common, SIZE - 1);
    for (size_t i = 0; i < REQUESTS; i++) {
        struct asked *a = &asked[i];
        *a = (struct asked){.options = qkv_generate_defaults(), .search = qkv_search_defaults(), .plain = i % 6 == 5};
        pair_text(r, a->text, i % 4 ? 40 : SIZE - TOKENS - 5);
        if (i % 4 == 2) memcpy(a->text, common, strlen(a->text) < strlen(common) ? strlen(a->text) : strlen(common));
        if (qkv_is_blank(a->text, strlen(a->text))) a->text[0] = 'a'; /* a blank line is no source */
        a->options.tokens = 1 + qkv_random_below(r, i % 5 ? 20 : TOKENS);
        a->options.sampling.seed = i;
        a->search.max_tokens = a->options.tokens;
        a->search.beam = 1 + qkv_random_below(r, i ? RESULTS : 3); /* the first may need three pages a hypothesis */
        a->search.n_best = 1 + qkv_random_below(r, a->search.beam);
        a->search.length_penalty = (double)qkv_random_below(r, 3) - 0.5;
        a->search.stopping = (enum qkv_stopping)qkv_random_below(r, 3);
        a->search.sampling.seed = qkv_random_below(r, 100);
        if (i % 5 == 3) a->search.sample = true, a->search.beam = 1, a->search.n_best = 1 + i % RESULTS;
        a->rules = qkv_token_rules_defaults();
        if (i % 3) continue;
        a->rules.no_repeat = 2, a->rules.min_tokens = 3, a->rules.source_penalty = 1.3;
        a->search.sampling.repeat_penalty = 1.2;
        a->search.rules = &a->rules;
    }
}

/* ---- alone ------------------------------------------------------------------------------------------------------- */

static void take_result(struct result *to, const struct qkv_hypothesis *h) {
    assert_true(h->count <= TOKENS);
    to->found = true;
    to->count = h->count;
    memcpy(to->ids, h->ids, h->count * sizeof *h->ids);
    to->log_probability = h->log_probability, to->score = h->score, to->ended = h->ended;
}

static bool take(void *user, size_t source, const struct qkv_hypothesis *found, size_t count) {
    struct heard *h = user;
    assert_true(source == 0 && count <= RESULTS);
    for (size_t i = 0; i < count; i++) take_result(&h->results[i], &found[i]);
    return true;
}

static bool take_text(void *user, size_t line, size_t rank, const char *text, size_t size, double score) {
    struct heard *h = user;
    assert_true(line == 0 && size <= sizeof h->results->text && score == h->results[rank].score);
    memcpy(h->results[rank].text, text, size);
    h->results[rank].size = size;
    return true;
}

static void search_alone(struct qkv_model *m, const struct asked *a, struct heard *h) {
    const char *line = a->text;
    int32_t *source;
    size_t count;
    *h = (struct heard){.count = a->search.n_best};
    assert_ok(m->ctx, qkv_source_encode(m->ctx, qkv_model_tokenizer(m), a->text, strlen(a->text), false, true, &source,
                                        &count));
    assert_ok(m->ctx, qkv_search(m, &(const int32_t *){source}, &count, 1, &a->search, take, h));
    assert_ok(m->ctx, qkv_translate(m, &line, 1, &a->search, take_text, h));
    qkv_free(source);
}

/* ---- engines ----------------------------------------------------------------------------------------------------- */

static void submit(struct qkv_context *ctx, struct qkv_engine *e, const struct asked *a, uint64_t *id) {
    struct asked own = *a; /* gone after the call */
    struct qkv_engine_request r = qkv_engine_request_defaults();
    if (own.search.rules) own.search.rules = &own.rules;
    r.prompt = own.text, r.prompt_size = strlen(own.text);
    r.options = &own.options;
    if (!own.plain) r.search = &own.search;
    assert_ok(ctx, qkv_engine_submit(e, &r, id));
    memset(&own, 0x55, sizeof own);
}

static size_t hear(struct qkv_engine *e, const uint64_t *ids, struct heard *heard) {
    struct qkv_engine_event event;
    size_t ended = 0;
    while (qkv_engine_poll(e, &event)) {
        size_t i = 0;
        while (i < REQUESTS && ids[i] != event.request) i++;
        assert_true(i < REQUESTS && event.answer < RESULTS);
        struct result *to = &heard[i].results[event.answer];
        assert_true(to->size + event.size <= sizeof to->text);
        memcpy(to->text + to->size, event.text, event.size);
        to->size += event.size;
        if (event.hypothesis) {
            take_result(to, event.hypothesis);
            assert_int_equal(event.finish, to->ended ? QKV_FINISH_STOP : QKV_FINISH_LENGTH);
            assert_int_equal(event.tokens, to->count);
        }
        heard[i].count += event.finish != QKV_FINISH_NONE;
        ended += event.finish != QKV_FINISH_NONE;
    }
    return ended;
}

static void run(struct qkv_context *ctx, struct qkv_engine *e, const struct asked *asked, size_t turn, size_t at_once,
                struct heard *heard) {
    uint64_t ids[REQUESTS] = {0};
    size_t given = 0, open = 0;
    bool busy;
    memset(heard, 0, REQUESTS * sizeof *heard);
    while (given < REQUESTS || open) {
        for (size_t k = 0; k < at_once && given < REQUESTS; k++, given++) {
            const size_t i = (given * (turn ? 5 : 1) + turn) % REQUESTS;
            submit(ctx, e, &asked[i], &ids[i]);
            open += asked[i].plain ? 1 : asked[i].search.n_best;
        }
        assert_ok(ctx, qkv_engine_step(e, &busy));
        open -= hear(e, ids, heard);
        assert_true(busy || !open);
    }
    assert_false(busy);
}

static void compare(const struct asked *asked, const struct heard *alone, const struct heard *heard, size_t count,
                    const char *what) {
    for (size_t i = 0; i < count; i++) {
        if (alone[i].count != heard[i].count) fail_msg("%s: request %zu: %zu results", what, i, heard[i].count);
        for (size_t k = 0; k < alone[i].count; k++) {
            const struct result *a = &alone[i].results[k], *b = &heard[i].results[k];
            if (a->size != b->size || memcmp(a->text, b->text, a->size))
                fail_msg("%s: request %zu, result %zu: another text", what, i, k);
            if (asked[i].plain) continue;
            if (a->found != b->found || a->count != b->count || memcmp(a->ids, b->ids, a->count * sizeof *a->ids) ||
                a->ended != b->ended || a->score != b->score || a->log_probability != b->log_probability)
                fail_msg("%s: request %zu, result %zu: other ids or scores", what, i, k);
        }
    }
}

static const struct {
    const char *name;
    size_t rows, step, pages, at_once;
    bool forget;
} variants[] = {
    {"four rows", 4, 0, 0, REQUESTS, false},     {"pieces of 1", 9, 1, 0, 3, false},
    {"pieces of 17", 7, 17, 0, 2, true},         {"pieces of 512", 31, 512, 0, REQUESTS, false},
    {"nine pages", 12, 100, 9, REQUESTS, false}, {"nine pages, nothing kept", 6, 400, 9, 4, true},
    {"the time decides", 16, 0, 0, 1, false},
};

static void check_model(struct qkv_context *ctx, struct qkv_model *m, const struct asked *asked,
                        const struct heard *alone, const char *what) {
    static struct heard heard[REQUESTS];
    for (size_t v = 0; v < TEST_COUNT(variants); v++) {
        char name[100];
        struct qkv_engine *e;
        const size_t before = qkv_arena_total();
        snprintf(name, sizeof name, "%s, %s", what, variants[v].name);
        assert_ok(ctx,
                  qkv_engine_create(m,
                                    &QKV_OPTIONS(qkv_engine_options, .rows = variants[v].rows, .step = variants[v].step,
                                                 .pages = variants[v].pages, .forget = variants[v].forget),
                                    &e));
        for (size_t turn = 0; turn < 2; turn++) {
            run(ctx, e, asked, turn, variants[v].at_once, heard);
            compare(asked, alone, heard, REQUESTS, name);
        }
        const size_t taken = qkv_arena_total() - before, said = qkv_engine_state(e).memory;
        if (taken > said) fail_msg("%s: %zu bytes are taken, but %zu were said", name, taken, said);
        const struct qkv_engine_state s = qkv_engine_state(e);
        assert_int_equal(s.running + s.waiting, 0);
        assert_int_equal(s.free_pages + s.kept_pages, s.pages);
        qkv_engine_free(e);
    }
}

static void searches_are_those_of_a_source_alone(void **state) {
    (void)state;
    static struct asked asked[REQUESTS];
    static struct heard alone[REQUESTS];
    for (size_t i = 0; i < TEST_COUNT(pair_models); i++) {
        struct qkv_context *ctx = pair_context(i % 2 ? 2 : 1);
        struct qkv_model *m = pair_model(ctx, i);
        struct qkv_random r = test_random(170 + i);
        struct qkv_engine *e;
        make_requests(&r, asked);
        static struct heard drawn[REQUESTS];
        assert_ok(ctx, qkv_engine_create(m, NULL, &e));
        run(ctx, e, asked, 0, 1, drawn); /* answers that are drawn: test_engine_sources.c knows what they are */
        qkv_engine_free(e);
        for (size_t k = 0; k < REQUESTS; k++) {
            if (asked[k].plain)
                alone[k] = drawn[k];
            else
                search_alone(m, &asked[k], &alone[k]);
        }
        check_model(ctx, m, asked, alone, pair_models[i].name);
        qkv_model_free(m);
        qkv_context_free(ctx);
    }
}

/* A decoder's searches, each alone in an engine of its own, then together. */
static void searches_of_a_decoder_do_not_depend_on_others(void **state) {
    (void)state;
    static struct asked asked[REQUESTS], one[REQUESTS];
    static struct heard alone[REQUESTS], heard[REQUESTS];
    static const struct {
        const char *name, *cache, *weights;
    } kinds[] = {{"a decoder", NULL, NULL}, {"a cache of q8_0", "q8_0", NULL}, {"weights of q4_0", NULL, "q4_0"}};
    for (size_t i = 0; i < TEST_COUNT(kinds); i++) {
        struct qkv_context *ctx = pair_context(i ? 1 : 2);
        struct qkv_model *m =
            kinds[i].weights ? pair_stored(ctx, kinds[i].weights) : pair_model_of(ctx, llama, kinds[i].cache);
        struct qkv_random r = test_random(190 + i);
        make_requests(&r, asked);
        for (size_t k = 0; k < REQUESTS; k++) {
            uint64_t ids[REQUESTS] = {0};
            struct qkv_engine *e;
            bool busy = true;
            memset(heard, 0, sizeof heard);
            assert_ok(ctx, qkv_engine_create(m, &QKV_OPTIONS(qkv_engine_options, .rows = RESULTS), &e));
            one[k] = asked[k];
            submit(ctx, e, &one[k], &ids[k]);
            while (busy) {
                assert_ok(ctx, qkv_engine_step(e, &busy));
                hear(e, ids, heard);
            }
            alone[k] = heard[k];
            if (!asked[k].plain) assert_true(alone[k].results[0].found);
            qkv_engine_free(e);
        }
        check_model(ctx, m, asked, alone, kinds[i].name);
        qkv_model_free(m);
        qkv_context_free(ctx);
    }
}

/* Two searches of two hypotheses, each of which grows into a second page: the younger search is put off, its source is
 * encoded again, and its hypotheses are read again. */
static void a_search_is_put_off_without_a_change(void **state) {
    (void)state;
    static struct asked asked[2];
    static struct heard alone[2], heard[REQUESTS];
    for (size_t i = 0; i < TEST_COUNT(pair_models); i++) {
        struct qkv_context *ctx = pair_context(1);
        struct qkv_model *m = pair_model(ctx, i);
        struct qkv_random r = test_random(200 + i);
        const int32_t end = qkv_tokenizer_special(qkv_model_tokenizer(m), QKV_TOKEN_END);
        uint64_t ids[REQUESTS] = {0};
        struct qkv_engine *e;
        bool busy = true;
        memset(heard, 0, sizeof heard);
        assert_ok(ctx, qkv_engine_create(m, &QKV_OPTIONS(qkv_engine_options, .rows = 4, .pages = 5, .step = 17), &e));
        for (size_t k = 0; k < 2; k++) {
            asked[k] = (struct asked){.options = qkv_generate_defaults(), .search = qkv_search_defaults()};
            pair_text(&r, asked[k].text, 7);
            asked[k].search.beam = asked[k].search.n_best = 2, asked[k].search.max_tokens = TOKENS;
            asked[k].rules = qkv_token_rules_defaults();
            asked[k].rules.suppressed = (struct qkv_token_list){&end, 1};
            asked[k].search.rules = &asked[k].rules;
            search_alone(m, &asked[k], &alone[k]);
            submit(ctx, e, &asked[k], &ids[k]);
        }
        while (busy) {
            assert_ok(ctx, qkv_engine_step(e, &busy));
            hear(e, ids, heard);
        }
        assert_int_equal(qkv_engine_state(e).put_off, 1);
        compare(asked, alone, heard, 2, pair_models[i].name);
        qkv_engine_free(e);
        qkv_model_free(m);
        qkv_context_free(ctx);
    }
}

/* ---- ends -------------------------------------------------------------------------------------------------------- */

static void a_search_that_is_cancelled_frees_its_rows(void **state) {
    (void)state;
    struct qkv_context *ctx = pair_context(1);
    struct qkv_model *m = pair_model(ctx, 0);
    struct qkv_engine_request q = qkv_engine_request_defaults();
    struct qkv_search_options search = qkv_search_defaults();
    struct qkv_engine_event event;
    struct qkv_engine *e;
    uint64_t first, second;
    size_t cancelled = 0;
    search.beam = 4, search.n_best = 2, search.max_tokens = 100, search.length_penalty = 0;
    q.search = &search, q.prompt = "abc", q.prompt_size = 3;
    assert_ok(ctx, qkv_engine_create(m, &QKV_OPTIONS(qkv_engine_options, .rows = 6), &e));
    assert_ok(ctx, qkv_engine_submit(e, &q, &first));
    assert_ok(ctx, qkv_engine_submit(e, &q, &second));
    for (int i = 0; i < 3; i++) assert_ok(ctx, qkv_engine_step(e, NULL));
    assert_int_equal(qkv_engine_state(e).running, 4); /* two of its rows are not enough for the other search */
    assert_int_equal(qkv_engine_state(e).waiting, 4);
    assert_true(qkv_engine_cancel(e, first));
    while (qkv_engine_poll(e, &event)) cancelled += event.finish == QKV_FINISH_CANCELLED;
    assert_int_equal(cancelled, 2);
    assert_int_equal(qkv_engine_state(e).free_pages, qkv_engine_state(e).pages);
    assert_ok(ctx, qkv_engine_step(e, NULL));
    assert_int_equal(qkv_engine_state(e).running, 4);
    assert_int_equal(qkv_engine_state(e).waiting, 0);
    qkv_engine_free(e); /* with a search that runs */
    qkv_model_free(m);
    qkv_context_free(ctx);
}

static void a_search_with_broken_scores_fails_alone(void **state) {
    (void)state;
    struct qkv_context *ctx = pair_context(1);
    struct qkv_model *m = pair_model_of(ctx, llama, NULL);
    const int32_t broken = 20, whole = 5;
    struct qkv_generate_options o = qkv_generate_defaults();
    struct qkv_search_options search = qkv_search_defaults();
    struct qkv_engine_request q = qkv_engine_request_defaults();
    struct qkv_token_rules rules = qkv_token_rules_defaults();
    struct qkv_engine_event event;
    struct qkv_engine *e;
    uint64_t ids[2];
    size_t failed = 0, found = 0;
    bool busy = true;
    for (size_t k = 0; k < qkv_model_parameters(m); k++) /* the row of one token */
        if (strstr(qkv_model_parameter(m, k)->name, "embed.token")) test_weights_mutable(m, k)[broken * 32] = NAN;
    search.beam = search.n_best = 2, search.max_tokens = 4;
    rules.suppressed = (struct qkv_token_list){&broken, 1};
    search.rules = &rules;
    q.options = &o, q.search = &search, o.id_count = 1;
    assert_ok(ctx, qkv_engine_create(m, NULL, &e));
    o.ids = &broken;
    assert_ok(ctx, qkv_engine_submit(e, &q, &ids[0]));
    o.ids = &whole;
    assert_ok(ctx, qkv_engine_submit(e, &q, &ids[1]));
    while (busy) {
        assert_ok(ctx, qkv_engine_step(e, &busy));
        while (qkv_engine_poll(e, &event)) {
            if (event.finish == QKV_FINISH_FAILED)
                assert_true(event.request == ids[0] && strstr(event.message, "the scores are not finite"));
            failed += event.finish == QKV_FINISH_FAILED;
            found += event.hypothesis && event.request == ids[1];
        }
    }
    assert_int_equal(failed, 2);
    assert_int_equal(found, 2);
    qkv_engine_free(e);
    qkv_model_free(m);
    qkv_context_free(ctx);
}

/* Hears the ends of the results of two searches, which fail, and the message of each. */
static void hear_failures(struct qkv_engine *e, const uint64_t *ids, char messages[2][400]) {
    struct qkv_engine_event event;
    size_t failed[2] = {0};
    while (qkv_engine_poll(e, &event)) {
        const size_t i = event.request == ids[1];
        assert_true(event.request == ids[i] && event.finish == QKV_FINISH_FAILED && event.message);
        if (failed[i]++) assert_string_equal(messages[i], event.message); /* all results of a search have it */
        snprintf(messages[i], 400, "%s", event.message);
    }
    assert_int_equal(failed[0], 2);
    assert_int_equal(failed[1], 2);
}

static void submit_two(struct qkv_engine *e, const struct qkv_search_options *o, const size_t *numbers, uint64_t *ids) {
    for (size_t i = 0; i < 2; i++) {
        struct qkv_engine_source s = {.options = o, .number = numbers[i], .what = "line"};
        s.prompt = (struct qkv_prompt){.vocab = 20, .count = 1, .source_count = 1, .barred = -1};
        s.prompt.ids = qkv_allocate(e->ctx, 1, sizeof *s.prompt.ids);
        s.prompt.source = qkv_allocate(e->ctx, 1, sizeof *s.prompt.source);
        s.prompt.ends[s.prompt.end_count++] = 1;
        assert_ok(e->ctx, qkv_engine_submit_source(e, &s, &ids[i]));
    }
}

/* Two searches with broken scores in one step: each is told of its own line. */
static void searches_that_fail_together_have_their_own_messages(void **state) {
    (void)state;
    struct qkv_context *ctx = pair_context(1);
    struct qkv_model *m = pair_model(ctx, 0);
    struct qkv_search_options o = qkv_search_defaults();
    struct qkv_engine *e;
    uint64_t ids[2];
    char messages[2][400];
    for (size_t k = 0; k < qkv_model_parameters(m); k++)
        if (strstr(qkv_model_parameter(m, k)->name, "decoder.norm")) *test_weights_mutable(m, k) = NAN;
    o.beam = o.n_best = 2, o.max_tokens = 4;
    assert_ok(ctx, qkv_engine_open_searcher(
                       m, &(struct qkv_search_shape){.sources = 2, .width = 2, .T = 4, .capacity = 8}, &e));
    submit_two(e, &o, (const size_t[]){4, 70}, ids);
    while (e->jobs) assert_ok(ctx, qkv_engine_step(e, NULL));
    hear_failures(e, ids, messages);
    assert_non_null(strstr(messages[0], "the scores for line 5 are not finite"));
    assert_non_null(strstr(messages[1], "the scores for line 71 are not finite"));
    qkv_engine_free(e);
    qkv_model_free(m);
    qkv_context_free(ctx);
}

/* The step of all searches fails, for want of memory for their rules: each of them has the message. */
static void searches_of_a_step_that_fails_all_have_its_message(void **state) {
    (void)state;
    struct qkv_context *ctx = pair_context(1);
    struct qkv_model *m = pair_model(ctx, 0);
    struct qkv_search_options o = qkv_search_defaults();
    struct qkv_token_rules rules = qkv_token_rules_defaults();
    struct qkv_engine *e;
    uint64_t ids[2];
    char messages[2][400];
    const int threads = ctx->threads;
    rules.no_repeat = 2;
    o.beam = o.n_best = 2, o.max_tokens = 4, o.rules = &rules;
    assert_ok(ctx, qkv_engine_open_searcher(
                       m, &(struct qkv_search_shape){.sources = 2, .width = 2, .T = 4, .capacity = 8}, &e));
    submit_two(e, &o, (const size_t[]){0, 1}, ids);
    for (struct qkv_engine_job *job = e->jobs; job; job = job->next) {
        assert_true(qkv_engine_search_enter(e, job, 4));
        qkv_engine_search_score(e, job, e->scores);
    }
    ctx->threads = INT_MAX; /* each has scratch */
    qkv_engine_searches_step(e);
    ctx->threads = threads;
    hear_failures(e, ids, messages);
    assert_non_null(strstr(messages[0], "scratch of a call"));
    assert_string_equal(messages[0], messages[1]);
    qkv_engine_free(e);
    qkv_model_free(m);
    qkv_context_free(ctx);
}

/* ---- misuse ------------------------------------------------------------------------------------------------------ */

static void misuse_is_refused(void **state) {
    (void)state;
    struct qkv_context *ctx = pair_context(1);
    struct qkv_model *m = pair_model(ctx, 0);
    struct qkv_engine_request q = qkv_engine_request_defaults(), was;
    struct qkv_search_options search = qkv_search_defaults(), usual;
    size_t counted = 0;
    struct qkv_engine *e;
    uint64_t id;
    assert_ok(ctx, qkv_engine_create(m, &QKV_OPTIONS(qkv_engine_options, .rows = 4, .pages = 3), &e));
    search.beam = 4, search.max_tokens = 20;
    usual = search;
    q.search = &search, q.prompt = "abc", q.prompt_size = 3, was = q;
    assert_fails(ctx, qkv_engine_submit(e, &q, &id), QKV_ARGUMENT, "need 4 pages, but the cache has 3");
    search.beam = 5;
    assert_fails(ctx, qkv_engine_submit(e, &q, &id), QKV_ARGUMENT, "a search of 5 hypotheses needs as many rows");
    search = usual, search.beam = 0;
    assert_fails(ctx, qkv_engine_submit(e, &q, &id), QKV_ARGUMENT, "beam is 0");
    search = usual, search.max_tokens = PAIR_CONTEXT;
    assert_fails(ctx, qkv_engine_submit(e, &q, &id), QKV_ARGUMENT, "max_tokens is 300");
    search = usual, search.tokens = &counted;
    assert_fails(ctx, qkv_engine_submit(e, &q, &id), QKV_ARGUMENT, "leave tokens and long_count NULL");
    search = usual, search.beam = 2, q.answers = 2;
    assert_fails(ctx, qkv_engine_submit(e, &q, &id), QKV_ARGUMENT, "answers is 2, but a search has n_best results, 1");
    q = was, q.top = 2;
    assert_fails(ctx, qkv_engine_submit(e, &q, &id), QKV_ARGUMENT, "a search has the penalty and the rules");
    q = was, q.presence_penalty = 1;
    assert_fails(ctx, qkv_engine_submit(e, &q, &id), QKV_ARGUMENT, "a search has the penalty and the rules");
    struct qkv_generate_options o = qkv_generate_defaults();
    assert_ok(ctx, qkv_constraint_create(ctx, NULL, &o.constraint));
    q = was, q.options = &o;
    assert_fails(ctx, qkv_engine_submit(e, &q, &id), QKV_ARGUMENT, "a search has no constraint");
    qkv_constraint_free(o.constraint);
    assert_int_equal(qkv_engine_state(e).waiting, 0);
    qkv_engine_free(e);
    qkv_model_free(m);
    qkv_context_free(ctx);
}

int main(void) {
    test_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(searches_are_those_of_a_source_alone),
        cmocka_unit_test(searches_of_a_decoder_do_not_depend_on_others),
        cmocka_unit_test(a_search_is_put_off_without_a_change),
        cmocka_unit_test(a_search_that_is_cancelled_frees_its_rows),
        cmocka_unit_test(a_search_with_broken_scores_fails_alone),
        cmocka_unit_test(searches_that_fail_together_have_their_own_messages),
        cmocka_unit_test(searches_of_a_step_that_fails_all_have_its_message),
        cmocka_unit_test(misuse_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
