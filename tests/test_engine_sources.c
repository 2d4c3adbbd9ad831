/* Encoder-decoders in engines: an answer has the tokens and log-probabilities of a decoder that grows it alone, from
 * its source alone, among any others, with few rows and few pages, however a step is divided, at any number of threads;
 * greedy answers are those of a search. */
/* labels: numeric */
#include "engine_pairs.h"

#include "generate/search.h"
#include "kernel/kernel.h"
#include "model/decode.h"
#include "text/sequence.h"

enum { REQUESTS = 20, SIZE = PAIR_CONTEXT, TOKENS = 150, ANSWERS = 3 };

struct asked {
    char text[SIZE];
    struct qkv_generate_options options;
    struct qkv_token_rules rules;
    size_t answers;
};
struct heard {
    int32_t ids[TOKENS + 1];
    double scores[TOKENS + 1];
    char text[TOKENS * 8];
    size_t count, size, prompt_tokens;
    enum qkv_finish finish;
};

/* Every third request is greedy, some of these with rules; the others draw tokens. */
static void make_requests(struct qkv_random *r, struct asked *asked) {
    for (size_t i = 0; i < REQUESTS; i++) {
        struct asked *a = &asked[i];
        *a = (struct asked){.options = qkv_generate_defaults(), .answers = i % 4 == 1 ? ANSWERS : 1};
        pair_text(r, a->text, i % 4 ? 40 : SIZE - 5);
        if (i == 7) strcpy(a->text, "  ");
        a->options.tokens = 1 + qkv_random_below(r, i % 5 ? 30 : TOKENS);
        a->options.sampling.temperature = i % 3 == 0 ? 0 : 0.5 + qkv_random_uniform(r);
        a->options.sampling.top_k = i % 4 == 1 ? 20 : 0;
        a->options.sampling.seed = qkv_random_below(r, 1000);
        a->rules = qkv_token_rules_defaults();
        if (i % 3 || i % 2) continue;
        a->rules.no_repeat = 2, a->rules.min_tokens = 4, a->rules.source_no_repeat = 3, a->rules.source_penalty = 1.2;
        a->options.sampling.repeat_penalty = 1.1;
        a->options.rules = &a->rules;
    }
}

/* ---- alone ------------------------------------------------------------------------------------------------------- */

/* Draws tokens from a decoder of one row. Targets end with </s>, and have no <s>. */
static void answer_alone(struct qkv_model *m, const struct asked *a, size_t answer, struct heard *h) {
    struct qkv_context *ctx = m->ctx;
    const struct qkv_tokenizer *t = qkv_model_tokenizer(m);
    const size_t V = (size_t)qkv_model_spec(m)->vocab, tokens = a->options.tokens, lengths = tokens + 1;
    const int32_t begin = qkv_tokenizer_special(t, QKV_TOKEN_BEGIN), end = qkv_tokenizer_special(t, QKV_TOKEN_END);
    struct qkv_sampling sampling = a->options.sampling;
    struct qkv_encoded *encoded;
    struct qkv_decoder *decoder;
    int32_t *source, history[TOKENS + 2] = {begin};
    float scores[512];
    size_t count;
    *h = (struct heard){.finish = QKV_FINISH_LENGTH};
    if (qkv_is_blank(a->text, strlen(a->text))) return;
    assert_ok(ctx, qkv_source_encode(ctx, t, a->text, strlen(a->text), false, true, &source, &count));
    assert_ok(ctx, qkv_encode(m, source, NULL, 1, count, &encoded));
    assert_ok(ctx,
              qkv_decoder_create(
                  m, &QKV_OPTIONS(qkv_decoder_options, .encoded = encoded, .rows = 1, .lengths = &lengths), &decoder));
    sampling.seed += answer;
    h->prompt_tokens = count;
    while (h->count < tokens) {
        int32_t id;
        assert_ok(ctx, qkv_decoder_step(decoder, &history[h->count]));
        memcpy(scores, qkv_decoder_logits(decoder), V * sizeof *scores);
        const double sum = (double)ctx->kernels->log_sum_exp(scores, V);
        const float barred = scores[begin];
        scores[begin] = -INFINITY;
        assert_ok(ctx, qkv_sample(ctx, &sampling, scores, V, history, h->count + 1, h->count, &id));
        scores[begin] = barred;
        h->ids[h->count] = id;
        h->scores[h->count++] = (double)scores[id] - sum;
        history[h->count] = id;
        if (id == end) {
            h->finish = QKV_FINISH_STOP;
            break;
        }
        size_t size;
        const char *text = qkv_tokenizer_token(t, id, &size);
        memcpy(h->text + h->size, text, size);
        h->size += size;
    }
    qkv_decoder_free(decoder);
    qkv_encoded_free(encoded);
    qkv_free(source);
}

static bool take_greedy(void *user, size_t source, const struct qkv_hypothesis *found, size_t count) {
    struct heard *h = user;
    assert_true(source == 0 && count == 1 && found->count <= TOKENS);
    memcpy(h->ids, found->ids, found->count * sizeof *h->ids);
    h->count = found->count;
    h->finish = found->ended ? QKV_FINISH_STOP : QKV_FINISH_LENGTH;
    return true;
}

/* A search with a beam of 1. */
static void search_alone(struct qkv_model *m, const struct asked *a, struct heard *h) {
    struct qkv_search_options o = qkv_search_defaults();
    int32_t *source;
    size_t count;
    *h = (struct heard){0};
    o.max_tokens = a->options.tokens;
    o.sampling.repeat_penalty = a->options.sampling.repeat_penalty;
    o.rules = a->options.rules;
    assert_ok(m->ctx, qkv_source_encode(m->ctx, qkv_model_tokenizer(m), a->text, strlen(a->text), false, true, &source,
                                        &count));
    assert_ok(m->ctx, qkv_search(m, &(const int32_t *){source}, &count, 1, &o, take_greedy, h));
    qkv_free(source);
}

/* ---- engines ----------------------------------------------------------------------------------------------------- */

struct crowd {
    struct qkv_engine *engine;
    const struct asked *asked;
    uint64_t ids[REQUESTS];
    struct heard heard[REQUESTS][ANSWERS];
    size_t open;
};

static void crowd_submit(struct crowd *c, size_t i) {
    struct asked own = c->asked[i]; /* gone after the call */
    struct qkv_engine_request r = qkv_engine_request_defaults();
    if (own.options.rules) own.options.rules = &own.rules;
    r.prompt = own.text, r.prompt_size = strlen(own.text);
    r.options = &own.options;
    r.answers = own.answers;
    r.log_probabilities = true;
    if (qkv_engine_submit(c->engine, &r, &c->ids[i])) fail_msg("request %zu", i);
    memset(&own, 0x55, sizeof own);
    c->open += r.answers;
}

static void crowd_hear(struct crowd *c) {
    struct qkv_engine_event event;
    while (qkv_engine_poll(c->engine, &event)) {
        size_t i = 0;
        while (i < REQUESTS && c->ids[i] != event.request) i++;
        assert_true(i < REQUESTS && event.answer < c->asked[i].answers);
        struct heard *h = &c->heard[i][event.answer];
        assert_true(h->finish == QKV_FINISH_NONE && h->size + event.size <= sizeof h->text);
        memcpy(h->text + h->size, event.text, event.size);
        h->size += event.size;
        if (event.token.id >= 0) {
            h->ids[h->count] = event.token.id;
            h->scores[h->count++] = event.token.log_probability;
        }
        h->finish = event.finish;
        h->prompt_tokens = event.prompt_tokens;
        c->open -= event.finish != QKV_FINISH_NONE;
    }
}

static void crowd_run(struct qkv_context *ctx, struct crowd *c, size_t turn, size_t at_once) {
    size_t given = 0;
    bool busy = true;
    memset(c->heard, 0, sizeof c->heard);
    memset(c->ids, 0, sizeof c->ids);
    c->open = 0;
    while (given < REQUESTS || c->open) {
        for (size_t k = 0; k < at_once && given < REQUESTS; k++, given++)
            crowd_submit(c, (given * (turn ? 3 : 1) + turn) % REQUESTS);
        assert_ok(ctx, qkv_engine_step(c->engine, &busy));
        crowd_hear(c);
        assert_true(busy || !c->open);
    }
}

static void crowd_check(const struct crowd *c, struct heard (*alone)[ANSWERS], struct heard *greedy, const char *what) {
    for (size_t i = 0; i < REQUESTS; i++)
        for (size_t k = 0; k < c->asked[i].answers; k++) {
            const struct heard *a = &alone[i][k], *b = &c->heard[i][k], *g = &greedy[i];
            if (c->asked[i].options.sampling.temperature == 0 && a->prompt_tokens) {
                const bool stopped = b->finish == QKV_FINISH_STOP;
                if (g->finish != b->finish || g->count != b->count - stopped ||
                    memcmp(g->ids, b->ids, g->count * sizeof *g->ids))
                    fail_msg("%s: request %zu, answer %zu: not the tokens of a search", what, i, k);
            }
            if (c->asked[i].options.rules) continue; /* the scores of the other way do not know them */
            if (a->finish != b->finish || a->prompt_tokens != b->prompt_tokens || a->size != b->size ||
                memcmp(a->text, b->text, a->size))
                fail_msg("%s: request %zu, answer %zu: another end or text", what, i, k);
            if (a->count != b->count || memcmp(a->ids, b->ids, a->count * sizeof *a->ids) ||
                memcmp(a->scores, b->scores, a->count * sizeof *a->scores))
                fail_msg("%s: request %zu, answer %zu: other tokens or log-probabilities", what, i, k);
        }
}

static const struct {
    const char *name;
    size_t rows, step, pages, at_once;
} variants[] = {
    {"one row", 1, 0, 0, REQUESTS},          {"pieces of 1", 4, 1, 0, 3},         {"pieces of 17", 7, 17, 0, 2},
    {"pieces of 512", 31, 512, 0, REQUESTS}, {"four pages", 6, 100, 4, REQUESTS}, {"three pages", 3, 40, 3, 4},
    {"the time decides", 16, 0, 0, 1},
};

static void answers_are_those_of_a_source_alone(void **state) {
    (void)state;
    static struct asked asked[REQUESTS];
    static struct heard alone[REQUESTS][ANSWERS], greedy[REQUESTS];
    static struct crowd c;
    for (size_t i = 0; i < TEST_COUNT(pair_models); i++) {
        struct qkv_context *ctx = pair_context(i % 2 ? 1 : 2);
        struct qkv_model *m = pair_model(ctx, i);
        struct qkv_random r = test_random(140 + i);
        make_requests(&r, asked);
        for (size_t k = 0; k < REQUESTS; k++) {
            for (size_t n = 0; n < asked[k].answers; n++) answer_alone(m, &asked[k], n, &alone[k][n]);
            if (alone[k][0].prompt_tokens) search_alone(m, &asked[k], &greedy[k]);
        }
        for (size_t v = 0; v < TEST_COUNT(variants); v++) {
            char name[100];
            c = (struct crowd){.asked = asked};
            snprintf(name, sizeof name, "%s, %s", pair_models[i].name, variants[v].name);
            assert_ok(ctx, qkv_engine_create(m,
                                             &QKV_OPTIONS(qkv_engine_options, .rows = variants[v].rows,
                                                          .step = variants[v].step, .pages = variants[v].pages),
                                             &c.engine));
            for (size_t turn = 0; turn < 2; turn++) {
                crowd_run(ctx, &c, turn, variants[v].at_once);
                crowd_check(&c, alone, greedy, name);
            }
            const struct qkv_engine_state s = qkv_engine_state(c.engine);
            assert_int_equal(s.running + s.waiting + s.kept_pages, 0);
            assert_int_equal(s.free_pages, s.pages);
            qkv_engine_free(c.engine);
        }
        qkv_model_free(m);
        qkv_context_free(ctx);
    }
}

/* Two answers grow into a second page each, of three; the younger one is put off, and its source encoded again. */
static void a_source_is_encoded_again(void **state) {
    (void)state;
    static struct asked asked[2];
    static struct heard alone[2];
    static struct crowd c;
    struct qkv_context *ctx = pair_context(1);
    struct qkv_model *m = pair_model(ctx, 0);
    struct qkv_random r = test_random(160);
    const int32_t end = qkv_tokenizer_special(qkv_model_tokenizer(m), QKV_TOKEN_END);
    for (size_t i = 0; i < 2; i++) {
        asked[i] = (struct asked){.options = qkv_generate_defaults(), .answers = 1};
        pair_text(&r, asked[i].text, 50);
        asked[i].options.tokens = TOKENS;
        asked[i].rules = qkv_token_rules_defaults();
        asked[i].rules.suppressed = (struct qkv_token_list){&end, 1};
        asked[i].options.rules = &asked[i].rules;
        asked[i].options.sampling.temperature = 0;
        search_alone(m, &asked[i], &alone[i]);
        assert_int_equal(alone[i].count, TOKENS);
    }
    c = (struct crowd){.asked = asked};
    assert_ok(ctx,
              qkv_engine_create(m, &QKV_OPTIONS(qkv_engine_options, .rows = 2, .pages = 3, .step = 200), &c.engine));
    for (size_t i = 0; i < 2; i++) crowd_submit(&c, i);
    while (c.open) {
        assert_ok(ctx, qkv_engine_step(c.engine, NULL));
        crowd_hear(&c);
    }
    assert_int_equal(qkv_engine_state(c.engine).put_off, 1);
    for (size_t i = 0; i < 2; i++) assert_memory_equal(c.heard[i][0].ids, alone[i].ids, sizeof(int32_t) * TOKENS);
    qkv_engine_free(c.engine);
    qkv_model_free(m);
    qkv_context_free(ctx);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void the_memory_of_sources_is_said_at_the_start(void **state) {
    (void)state;
    static struct asked asked[REQUESTS];
    static struct heard alone;
    static struct crowd c;
    struct qkv_context *ctx = pair_context(1);
    struct qkv_model *m = pair_model(ctx, 1);
    struct qkv_random r = test_random(161);
    make_requests(&r, asked);
    for (size_t k = 0; k < REQUESTS; k++) answer_alone(m, &asked[k], 0, &alone); /* packs the weights */
    const size_t before = qkv_arena_total();
    c = (struct crowd){.asked = asked};
    const size_t least = 6 << 20;
    assert_ok(ctx, qkv_engine_create(m, &QKV_OPTIONS(qkv_engine_options, .rows = 9, .memory = least), &c.engine));
    const size_t said = qkv_engine_state(c.engine).memory;
    assert_true(said <= least);
    for (size_t turn = 0; turn < 3; turn++) {
        crowd_run(ctx, &c, turn, 1 + 7 * turn);
        if (qkv_arena_total() - before > said)
            fail_msg("%zu bytes are taken, but %zu were said", qkv_arena_total() - before, said);
    }
    qkv_engine_free(c.engine);
    qkv_model_free(m);
    qkv_context_free(ctx);
}

/* ---- misuse ------------------------------------------------------------------------------------------------------ */

static void misuse_is_refused(void **state) {
    (void)state;
    struct qkv_context *ctx = pair_context(1);
    struct qkv_model *m = pair_model(ctx, 0);
    struct qkv_engine_request q = qkv_engine_request_defaults();
    struct qkv_generate_options o = qkv_generate_defaults();
    int32_t ids[PAIR_CONTEXT + 1] = {0};
    struct qkv_engine *e;
    uint64_t id;
    assert_ok(ctx, qkv_engine_create(m, &QKV_OPTIONS(qkv_engine_options, .pages = 2, .text = 280), &e));
    q.options = &o, o.ids = ids;
    o.id_count = 281;
    assert_fails(ctx, qkv_engine_submit(e, &q, &id), QKV_ARGUMENT,
                 "281 tokens, but the engine reads sources of at most");
    o.id_count = 270;
    assert_fails(ctx, qkv_engine_submit(e, &q, &id), QKV_ARGUMENT, "needs more than the 2 pages that sources have");
    o.id_count = PAIR_CONTEXT + 1;
    assert_fails(ctx, qkv_engine_submit(e, &q, &id), QKV_ARGUMENT, "301 tokens, but the model's context holds 300");
    o.id_count = 3, ids[1] = 99;
    assert_fails(ctx, qkv_engine_submit(e, &q, &id), QKV_ARGUMENT, "id 2 of the prompt is 99");
    o.id_count = 1, q.prompt_probabilities = true;
    assert_fails(ctx, qkv_engine_submit(e, &q, &id), QKV_ARGUMENT, "a source has no log-probabilities");
    q.kind = QKV_ENGINE_CLASSIFY;
    assert_fails(ctx, qkv_engine_submit(e, &q, &id), QKV_ARGUMENT, "classify needs a model of one stack");
    assert_int_equal(qkv_engine_state(e).waiting, 0);
    qkv_engine_free(e);
    qkv_model_free(m);
    qkv_context_free(ctx);
}

int main(void) {
    test_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_those_of_a_source_alone),
        cmocka_unit_test(a_source_is_encoded_again),
        cmocka_unit_test(the_memory_of_sources_is_said_at_the_start),
        cmocka_unit_test(misuse_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
