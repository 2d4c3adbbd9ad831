/* Generation with constraints: a text that ends by itself is allowed, any other begins one; an engine makes the bytes
 * that qkv_generate makes, with several answers, when answers are put off, and at any number of threads. */
/* labels: numeric */
#include "search_fixture.h"

#include "constrain/constrain.h"
#include "model/model.h"

enum { END = 255, TOKENS = 120, TEXT = 4096 };

static const char spec_json[] =
    "{\"format\": \"qkv\", \"version\": 2, \"vocab\": 256, \"d_model\": 32, \"context\": 400, \"decoder\": "
    "{\"layers\": 2, "
    "\"norm\": {\"kind\": \"rmsnorm\"}, \"attention\": {\"heads\": 2, \"kv_heads\": 1, \"head_dim\": 32, \"position\": "
    "{\"kind\": \"rope\"}}, \"ffn\": {\"kind\": \"swiglu\", \"d_ff\": 64}}}";

static const struct {
    enum qkv_constraint_kind kind;
    const char *text;
} wanted[] = {
    {QKV_CONSTRAINT_REGEX, "[a-f]{2,6}-(\\d{1,3}|x)"},
    {QKV_CONSTRAINT_CHOICES, "[\"yes\", \"no\", \"yes and no\", \"perhaps \xe2\x82\xac\"]"},
    {QKV_CONSTRAINT_SCHEMA,
     "{\"properties\": {\"name\": {\"type\": \"string\", \"maxLength\": 8}, \"age\": {\"type\": "
     "\"integer\", \"minimum\": 0, \"maximum\": 130}, \"tags\": {\"type\": \"array\", \"items\": "
     "{\"enum\": [\"a\", \"b\"]}, \"maxItems\": 3}}, \"required\": [\"name\", \"age\"]}"},
    {QKV_CONSTRAINT_JSON, NULL},
};

static struct qkv_context *open_context(int threads) {
    struct qkv_context *ctx;
    assert_int_equal(qkv_context_create(
                         &ctx, &QKV_OPTIONS(qkv_context_options, .threads = threads, .precision = QKV_PRECISION_AUTO)),
                     QKV_OK);
    return ctx;
}

static struct qkv_model *make_model(struct qkv_context *ctx) {
    struct qkv_model *m = fixture_model(ctx, spec_json, NULL, 0, 5, 0.05);
    struct qkv_tokenizer *tokenizer;
    struct qkv_tokenizer_options options = {.size = sizeof options, .kind = QKV_TOKENIZER_BYTES};
    assert_ok(ctx, qkv_tokenizer_train(ctx, &options, NULL, 0, &tokenizer));
    assert_ok(ctx, qkv_model_set_tokenizer(m, tokenizer));
    return m;
}

static struct qkv_constraint *make_constraint(struct qkv_context *ctx, size_t i) {
    struct qkv_constraint *c;
    assert_ok(ctx, qkv_constraint_create(
                       ctx, &QKV_OPTIONS(qkv_constraint_options, .kind = wanted[i].kind, .text = wanted[i].text), &c));
    return c;
}

/* ---- alone ------------------------------------------------------------------------------------------------------- */

struct heard {
    char text[TEXT];
    size_t size;
    bool stopped, failed;
};

static bool hear(void *user, const char *text, size_t size) {
    struct heard *h = user;
    assert_true(h->size + size <= TEXT);
    memcpy(h->text + h->size, text, size);
    h->size += size;
    return true;
}

static struct qkv_generate_options usual(struct qkv_constraint *c, uint64_t seed) {
    struct qkv_generate_options o = qkv_generate_defaults();
    o.sampling.seed = seed;
    o.sampling.temperature = seed % 3 ? 1 : 0;
    o.sampling.top_k = seed % 4 == 1 ? 5 : 0;
    o.sampling.repeat_penalty = seed % 5 == 2 ? 1.2 : 1;
    o.tokens = TOKENS;
    o.end_id = END;
    o.constraint = c;
    return o;
}

static void generate(struct qkv_model *m, const struct qkv_generate_options *o, struct heard *h) {
    struct qkv_generate_report report;
    *h = (struct heard){0};
    assert_ok(m->ctx, qkv_generate(m, "Say: ", 5, o, hear, h, &report));
    h->stopped = report.stopped;
}

static void check_heard(struct qkv_context *ctx, struct qkv_constraint *c, const struct heard *h) {
    bool whole, begins;
    assert_ok(ctx, qkv_constraint_check(ctx, c, h->text, h->size, &whole, &begins));
    if (!begins || (h->stopped && !whole)) fail_msg("\"%.*s\"", (int)h->size, h->text);
}

static void texts_that_end_are_allowed(void **state) {
    (void)state;
    struct qkv_context *ctx = open_context(1);
    struct qkv_model *m = make_model(ctx);
    for (size_t i = 0; i < TEST_COUNT(wanted); i++) {
        struct qkv_constraint *c = make_constraint(ctx, i);
        size_t ended = 0;
        for (uint64_t seed = 0; seed < 30; seed++) {
            const struct qkv_generate_options o = usual(c, seed);
            struct heard h;
            generate(m, &o, &h);
            check_heard(ctx, c, &h);
            ended += h.stopped;
        }
        assert_true(ended > 5);
        qkv_constraint_free(c);
    }
    qkv_model_free(m);
    qkv_context_free(ctx);
}

static bool hear_several(void *user, size_t index, const char *text, size_t size) {
    return hear((struct heard *)user + index, text, size);
}

static void several_texts_are_those_alone(void **state) {
    (void)state;
    struct qkv_context *ctx = open_context(1);
    struct qkv_model *m = make_model(ctx);
    for (size_t i = 0; i < TEST_COUNT(wanted); i++) {
        struct qkv_constraint *c = make_constraint(ctx, i);
        struct qkv_generate_options o = usual(c, 10);
        struct heard *several = calloc(6, sizeof *several), alone;
        assert_ok(ctx, qkv_generate_several(m, "Say: ", 5, &o, 6, hear_several, several, NULL));
        for (size_t k = 0; k < 6; k++) {
            generate(m, &o, &alone);
            assert_int_equal(alone.size, several[k].size);
            assert_memory_equal(alone.text, several[k].text, alone.size);
            o.sampling.seed++;
        }
        free(several);
        qkv_constraint_free(c);
    }
    qkv_model_free(m);
    qkv_context_free(ctx);
}

/* ---- engines ----------------------------------------------------------------------------------------------------- */

enum { REQUESTS = 12, ANSWERS = 3 };

static void engine_run(struct qkv_model *m, struct qkv_engine *e, struct heard heard[REQUESTS][ANSWERS]) {
    uint64_t ids[REQUESTS];
    struct qkv_engine_event event;
    for (size_t i = 0; i < REQUESTS; i++) {
        struct qkv_constraint *c = i % 5 == 4 ? NULL : make_constraint(m->ctx, i % TEST_COUNT(wanted));
        const struct qkv_generate_options o = usual(c, i);
        const struct qkv_engine_request request = {
            .size = sizeof request, .prompt = "Say: ", .prompt_size = 5, .options = &o, .answers = 1 + i % ANSWERS};
        assert_ok(m->ctx, qkv_engine_submit(e, &request, &ids[i]));
        qkv_constraint_free(c); /* the engine holds it */
    }
    for (bool busy = true; busy;) {
        assert_ok(m->ctx, qkv_engine_step(e, &busy));
        while (qkv_engine_poll(e, &event)) {
            size_t i = 0;
            while (ids[i] != event.request) i++;
            hear(&heard[i][event.answer], event.text, event.size);
            if (event.finish == QKV_FINISH_STOP) heard[i][event.answer].stopped = true;
            assert_true(event.finish <= QKV_FINISH_LENGTH);
        }
    }
}

static void engines_make_the_bytes_of_each_alone(void **state) {
    (void)state;
    static const struct {
        int threads;
        size_t rows, pages;
    } ways[] = {{1, 4, 0}, {2, 16, 0}, {1, 3, 4}};
    for (size_t w = 0; w < TEST_COUNT(ways); w++) {
        struct qkv_context *ctx = open_context(ways[w].threads);
        struct qkv_model *m = make_model(ctx);
        struct qkv_engine *e;
        struct heard(*heard)[ANSWERS] = calloc(REQUESTS, sizeof *heard), alone;
        assert_ok(ctx, qkv_engine_create(
                           m, &QKV_OPTIONS(qkv_engine_options, .rows = ways[w].rows, .pages = ways[w].pages), &e));
        engine_run(m, e, heard);
        qkv_engine_free(e);
        for (size_t i = 0; i < REQUESTS; i++)
            for (size_t k = 0; k < 1 + i % ANSWERS; k++) {
                struct qkv_constraint *c = i % 5 == 4 ? NULL : make_constraint(ctx, i % TEST_COUNT(wanted));
                struct qkv_generate_options o = usual(c, i);
                o.sampling.seed += k;
                generate(m, &o, &alone);
                assert_int_equal(alone.stopped, heard[i][k].stopped);
                assert_int_equal(alone.size, heard[i][k].size);
                assert_memory_equal(alone.text, heard[i][k].text, alone.size);
                qkv_constraint_free(c);
            }
        free(heard);
        qkv_model_free(m);
        qkv_context_free(ctx);
    }
}

/* Two long constrained answers do not fit into three pages together: one is put off. */
static void an_answer_that_is_put_off_keeps_its_constraint(void **state) {
    (void)state;
    struct qkv_context *ctx = open_context(1);
    struct qkv_model *m = make_model(ctx);
    struct qkv_engine *e;
    struct qkv_constraint *c;
    struct heard heard[2] = {{.size = 0}}, alone;
    uint64_t ids[2];
    struct qkv_engine_event event;
    assert_ok(ctx, qkv_constraint_create(ctx,
                                         &QKV_OPTIONS(qkv_constraint_options, .kind = QKV_CONSTRAINT_REGEX,
                                                      .text = "([a-z]{3,9} ){1,9}([0-9]{2,5}\n)*"),
                                         &c));
    assert_ok(ctx, qkv_engine_create(m, &QKV_OPTIONS(qkv_engine_options, .rows = 2, .pages = 3), &e));
    struct qkv_generate_options o = usual(c, 1);
    o.tokens = 200;
    o.end_id = -1;
    for (size_t i = 0; i < 2; i++, o.sampling.seed++) {
        const struct qkv_engine_request request = {
            .size = sizeof request, .prompt = "Say: ", .prompt_size = 5, .options = &o, .answers = 1};
        assert_ok(ctx, qkv_engine_submit(e, &request, &ids[i]));
    }
    for (bool busy = true; busy;) {
        assert_ok(ctx, qkv_engine_step(e, &busy));
        while (qkv_engine_poll(e, &event)) hear(&heard[event.request == ids[1]], event.text, event.size);
    }
    assert_true(qkv_engine_state(e).put_off > 0);
    qkv_engine_free(e);
    o.sampling.seed = 1;
    for (size_t i = 0; i < 2; i++, o.sampling.seed++) {
        generate(m, &o, &alone);
        check_heard(ctx, c, &alone);
        assert_int_equal(alone.size, heard[i].size);
        assert_memory_equal(alone.text, heard[i].text, alone.size);
    }
    qkv_constraint_free(c);
    qkv_model_free(m);
    qkv_context_free(ctx);
}

/* ---- beside other options ---------------------------------------------------------------------------------------- */

/* A text that nothing can follow ends, with an end token or without one, and whatever the smallest number is. */
static void a_whole_text_ends_at_once(void **state) {
    (void)state;
    struct qkv_context *ctx = open_context(1);
    struct qkv_model *m = make_model(ctx);
    struct qkv_constraint *c = make_constraint(ctx, 1);
    struct qkv_token_rules rules = qkv_token_rules_defaults();
    rules.min_tokens = 50;
    for (int way = 0; way < 3; way++) {
        struct qkv_generate_options o = usual(c, 4);
        struct heard h;
        o.end_id = way == 0 ? END : -1;
        o.rules = way == 2 ? &rules : NULL;
        generate(m, &o, &h);
        assert_true(h.stopped);
        check_heard(ctx, c, &h);
    }
    qkv_constraint_free(c);
    qkv_model_free(m);
    qkv_context_free(ctx);
}

/* Where the text may end and go on, the smallest number of tokens makes it go on. */
static void a_smallest_number_of_tokens_holds_where_a_text_can_go_on(void **state) {
    (void)state;
    struct qkv_context *ctx = open_context(1);
    struct qkv_model *m = make_model(ctx);
    struct qkv_constraint *c;
    struct qkv_token_rules rules = qkv_token_rules_defaults();
    assert_ok(ctx, qkv_constraint_create(
                       ctx, &QKV_OPTIONS(qkv_constraint_options, .kind = QKV_CONSTRAINT_REGEX, .text = "[ab]*"), &c));
    rules.min_tokens = 30;
    for (uint64_t seed = 0; seed < 8; seed++) {
        struct qkv_generate_options o = usual(c, seed);
        struct heard h;
        o.rules = &rules;
        generate(m, &o, &h);
        assert_true(h.size >= 30);
        check_heard(ctx, c, &h);
    }
    qkv_constraint_free(c);
    qkv_model_free(m);
    qkv_context_free(ctx);
}

static void a_stop_text_ends_a_text_before_it_is_whole(void **state) {
    (void)state;
    struct qkv_context *ctx = open_context(1);
    struct qkv_model *m = make_model(ctx);
    struct qkv_constraint *c = make_constraint(ctx, 0);
    struct qkv_generate_options o = usual(c, 4);
    struct heard h;
    o.stops = (const char *[]){"-"};
    o.stop_count = 1;
    generate(m, &o, &h);
    assert_true(h.stopped && h.size >= 2 && h.size <= 6);
    assert_null(memchr(h.text, '-', h.size));
    qkv_constraint_free(c);
    qkv_model_free(m);
    qkv_context_free(ctx);
}

/* Rules that exclude all that the constraint allows fail, in an engine that answer alone. */
static void a_constraint_that_rules_leave_nothing_fails(void **state) {
    (void)state;
    struct qkv_context *ctx = open_context(1);
    struct qkv_model *m = make_model(ctx);
    struct qkv_constraint *c = make_constraint(ctx, 1);
    struct qkv_token_rules rules = qkv_token_rules_defaults();
    const int32_t letters[] = {'y', 'n', 'p'};
    rules.suppressed = (struct qkv_token_list){letters, 3};
    struct qkv_generate_options o = usual(c, 4), other = usual(c, 4);
    o.rules = &rules;
    assert_int_equal(qkv_generate(m, "Say: ", 5, &o, NULL, NULL, NULL), QKV_ARGUMENT);
    assert_non_null(strstr(qkv_message(ctx), "no token can follow"));
    struct qkv_engine *e;
    uint64_t ids[2];
    size_t failed = 0, stopped = 0;
    struct qkv_engine_event event;
    assert_ok(ctx, qkv_engine_create(m, NULL, &e));
    for (size_t i = 0; i < 2; i++) {
        const struct qkv_engine_request request = {
            .size = sizeof request, .prompt = "Say: ", .prompt_size = 5, .options = i ? &other : &o, .answers = 1};
        assert_ok(ctx, qkv_engine_submit(e, &request, &ids[i]));
    }
    for (bool busy = true; busy;) {
        assert_ok(ctx, qkv_engine_step(e, &busy));
        while (qkv_engine_poll(e, &event)) {
            failed += event.finish == QKV_FINISH_FAILED && event.request == ids[0] && event.message;
            stopped += event.finish == QKV_FINISH_STOP && event.request == ids[1];
        }
    }
    assert_int_equal(failed, 1);
    assert_int_equal(stopped, 1);
    qkv_engine_free(e);
    qkv_constraint_free(c);
    qkv_model_free(m);
    qkv_context_free(ctx);
}

static void a_constraint_needs_a_tokenizer(void **state) {
    (void)state;
    struct qkv_context *ctx = open_context(1);
    struct qkv_model *m = fixture_model(ctx, spec_json, NULL, 0, 5, 0.15);
    struct qkv_constraint *c = make_constraint(ctx, 0);
    struct qkv_generate_options o = usual(c, 4);
    const int32_t id = 1;
    o.ids = &id, o.id_count = 1;
    assert_int_equal(qkv_generate(m, NULL, 0, &o, NULL, NULL, NULL), QKV_ARGUMENT);
    assert_non_null(strstr(qkv_message(ctx), "tokenizer"));
    qkv_constraint_free(c);
    qkv_model_free(m);
    qkv_context_free(ctx);
}

/* Tokens that are words have a space before them, which the first one of an empty prompt loses. */
static void the_first_word_has_no_space(void **state) {
    (void)state;
    struct qkv_context *ctx = open_context(1);
    static const char text[] = "the cat sat and the dog sat and the cat ran";
    struct qkv_tokenizer *t;
    struct qkv_constraint *c;
    struct qkv_tokenizer_options options = {.size = sizeof options, .kind = QKV_TOKENIZER_WHITESPACE};
    assert_ok(ctx, qkv_tokenizer_train(ctx, &options, text, strlen(text), &t));
    char setting[32];
    const char *settings[] = {setting};
    snprintf(setting, sizeof setting, "vocab=%d", qkv_tokenizer_vocab(t));
    struct qkv_model *m = fixture_model(ctx, spec_json, settings, 1, 5, 0.15);
    assert_ok(ctx, qkv_model_set_tokenizer(m, t));
    assert_ok(ctx, qkv_constraint_create(ctx,
                                         &QKV_OPTIONS(qkv_constraint_options, .kind = QKV_CONSTRAINT_CHOICES,
                                                      .text = "[\"the cat sat\", \"the dog ran\", \" the dog sat\"]"),
                                         &c));
    for (uint64_t seed = 0; seed < 10; seed++) {
        struct qkv_generate_options o = usual(c, seed);
        struct heard h = {.size = 0};
        struct qkv_generate_report report;
        o.end_id = -1;
        assert_ok(ctx, qkv_generate(m, "", 0, &o, hear, &h, &report));
        assert_true(report.stopped);
        assert_int_equal(h.size, 11);
        assert_memory_equal(h.text, "the ", 4);
    }
    qkv_constraint_free(c);
    qkv_model_free(m);
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_that_end_are_allowed),
        cmocka_unit_test(several_texts_are_those_alone),
        cmocka_unit_test(engines_make_the_bytes_of_each_alone),
        cmocka_unit_test(an_answer_that_is_put_off_keeps_its_constraint),
        cmocka_unit_test(a_whole_text_ends_at_once),
        cmocka_unit_test(a_smallest_number_of_tokens_holds_where_a_text_can_go_on),
        cmocka_unit_test(a_stop_text_ends_a_text_before_it_is_whole),
        cmocka_unit_test(a_constraint_that_rules_leave_nothing_fails),
        cmocka_unit_test(a_constraint_needs_a_tokenizer),
        cmocka_unit_test(the_first_word_has_no_space),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
