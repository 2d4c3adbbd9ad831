/* Several adapters in one engine: every answer has the bytes that it has alone, in an engine whose model has the
 * adapter of the request and no other; over kinds of models and of requests, in fp32 and bf16, with few rows and pages
 * and warm prefixes, at several numbers of threads. test_adapter_golden compares adapters with those of PEFT. */
/* labels: numeric */
#include "engine_pairs.h"

#include "generate/engine.h"

enum { ADAPTERS = 4, REQUESTS = 20, ANSWERS = 3, LENGTH = 200, TEXT = 1 << 13, WIDE_TEXT = 120, FEW_PAGES = 6 };

/* Adapters of other matrices, ranks and scales, some with magnitudes. */
static const char *const settings[][ADAPTERS] = {
    {"rank=4", "rank=7,alpha=3,dora=true,targets=q,v", "rank=1,targets=o,down", "rank=3,targets=k,up"},
    {"rank=4,targets=q_a,q_b,o,router,experts.gate,experts.up,experts.down,shared.gate,shared.up,shared.down",
     "rank=7,dora=true,targets=q_b,shared.up", "rank=2,targets=o,experts.1.up,experts.down",
     "rank=1,dora=true,targets=o"},
    {"rank=4,dora=true,targets=q,v,o", "rank=7,alpha=3,dora=true,targets=q,v", "rank=1,dora=true,targets=o,down",
     "rank=3,targets=k,up"}};
static const char *const names[ADAPTERS + 1] = {NULL, "first", "second", "third one", "4"};

/* ---- models ------------------------------------------------------------------------------------------------------ */

#define ALONE(stack)                                                                                                   \
    "{\"format\": \"qkv\", \"version\": 2, \"vocab\": 256, \"d_model\": 32, \"context\": 300, \"decoder\": " stack "}"
static const char *const alone_models[] = {
    ALONE(PAIR_STACK("{\"kind\": \"rmsnorm\"}", ", \"position\": {\"kind\": \"rope\"}", "swiglu")),
    ALONE("{\"layers\": 2, \"norm\": {\"kind\": \"layernorm\", \"placement\": \"parallel\"}, \"attention\": "
          "{\"heads\": 2, "
          "\"bias\": true, \"position\": {\"kind\": \"alibi\"}}, \"ffn\": {\"kind\": \"gelu\", \"bias\": true, "
          "\"d_ff\": 48}}"),
    ALONE("{\"layers\": 2, \"attention\": {\"heads\": 2, \"position\": {\"kind\": \"rope\"}, \"latent\": "
          "{\"rank\": 12, \"query_rank\": 20}}, \"ffn\": {\"kind\": \"swiglu\", \"d_ff\": 16, \"experts\": {\"count\": "
          "3, "
          "\"top_k\": 2, \"shared\": 24}}}")};
enum { LATENT = 2, ALONE_MODELS = TEST_COUNT(alone_models), PAIRS = TEST_COUNT(pair_models), STORED = 1 };
enum { MODELS = ALONE_MODELS + PAIRS + STORED };

static struct qkv_context *open_context(int threads, enum qkv_precision precision) {
    struct qkv_context *ctx;
    assert_int_equal(
        qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, .threads = threads, .precision = precision)),
        QKV_OK);
    return ctx;
}

static struct qkv_model *base_model(struct qkv_context *ctx, size_t i) {
    if (i >= ALONE_MODELS + PAIRS) return pair_stored(ctx, "q8_0");
    if (i >= ALONE_MODELS) return pair_model(ctx, i - ALONE_MODELS);
    struct qkv_model *m = fixture_model(ctx, alone_models[i], NULL, 0, 5, 0.15);
    struct qkv_tokenizer_options bytes = {.size = sizeof bytes, .kind = QKV_TOKENIZER_BYTES};
    struct qkv_tokenizer *tokenizer;
    assert_ok(ctx, qkv_tokenizer_train(ctx, &bytes, NULL, 0, &tokenizer));
    assert_ok(ctx, qkv_model_set_tokenizer(m, tokenizer));
    return m;
}

static const char *adapter_folder(size_t model, size_t adapter, char path[1024]) {
    snprintf(path, 1024, "%s/adapter%zu_%zu", test_folder(), model, adapter);
    return path;
}

/* Writes the adapters of a model, whose terms change its answers. */
static void write_adapters(struct qkv_context *ctx, size_t model) {
    struct qkv_random r = qkv_random_start(model, 3);
    char path[1024];
    for (size_t i = 1; i <= ADAPTERS; i++) {
        struct qkv_model *m = base_model(ctx, model);
        assert_ok(ctx, qkv_adapter_create(m,
                                          settings[model == LATENT            ? 1
                                                   : model == MODELS - STORED ? 2
                                                                              : 0][i - 1],
                                          i));
        for (size_t k = 0; k < qkv_model_parameters(m); k++) {
            float *w = test_weights_mutable(m, k);
            const size_t n = qkv_array_elements(qkv_model_parameter(m, k));
            for (size_t j = 0; j < n; j++) w[j] += (float)(0.1 * qkv_random_normal(&r));
        }
        assert_ok(ctx, qkv_adapter_save(m, NULL, adapter_folder(model, i, path)));
        qkv_model_free(m);
    }
}

/* The model with one adapter and without a name; 0: with none. */
static struct qkv_model *model_with(struct qkv_context *ctx, size_t model, size_t adapter) {
    struct qkv_model *m = base_model(ctx, model);
    char path[1024];
    if (adapter) assert_ok(ctx, qkv_adapter_load(m, adapter_folder(model, adapter, path)));
    return m;
}

static struct qkv_model *model_with_all(struct qkv_context *ctx, size_t model) {
    struct qkv_model *m = base_model(ctx, model);
    char path[1024];
    for (size_t i = 1; i <= ADAPTERS; i++) assert_ok(ctx, qkv_adapter_add(m, names[i], adapter_folder(model, i, path)));
    return m;
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

struct asked {
    size_t adapter; /* 0: none */
    char text[LENGTH + 1];
    struct qkv_generate_options options;
    struct qkv_search_options search;
    enum qkv_engine_kind kind;
    bool searches, told;
    size_t answers;
    struct qkv_token_rules rules;
    int32_t end; /* that the rules of the first request exclude */
};
struct heard {
    char text[TEXT];
    size_t size;
    float numbers[TEXT]; /* ids, log-probabilities and vectors */
    size_t count;
    enum qkv_finish finish;
};

/* Answers that need more pages together than a cache of few pages has, and do not end before. */
static void make_wide(struct qkv_random *r, const struct qkv_model *m, struct asked *a) {
    const bool reads = m->encoder.spec != NULL;
    for (size_t i = 0; i < WIDE_TEXT; i++) a->text[i] = (char)('a' + qkv_random_below(r, 26));
    a->text[WIDE_TEXT] = 0;
    a->answers = ANSWERS;
    a->options.tokens = reads ? PAIR_CONTEXT - 20 : PAIR_CONTEXT - WIDE_TEXT - 10;
    a->options.sampling.temperature = 0.7;
    a->rules = qkv_token_rules_defaults();
    a->end = qkv_tokenizer_special(qkv_model_tokenizer(m), QKV_TOKEN_END);
    if (reads) a->rules.suppressed = (struct qkv_token_list){&a->end, 1};
    a->options.rules = &a->rules;
}

/* Many begin alike, with any adapters. */
static void make_requests(struct qkv_random *r, const struct qkv_model *m, struct asked *asked) {
    char common[LENGTH + 1];
    pair_text(r, common, LENGTH);
    const bool reads = m->encoder.spec != NULL;
    for (size_t i = 0; i < REQUESTS; i++) {
        struct asked *a = &asked[i];
        *a = (struct asked){.adapter = qkv_random_below(r, ADAPTERS + 1),
                            .options = qkv_generate_defaults(),
                            .search = qkv_search_defaults(),
                            .answers = 1};
        pair_text(r, a->text, LENGTH);
        if (i % 3) memcpy(a->text, common, qkv_min(strlen(common), strlen(a->text)));
        a->options.tokens = 1 + qkv_random_below(r, 24);
        a->options.sampling.temperature = i % 2 ? 0 : 0.7;
        a->options.sampling.seed = i;
        a->options.end_id = -1;
        a->search.beam = 2 + qkv_random_below(r, 2);
        a->search.n_best = 1;
        a->search.max_tokens = a->options.tokens;
        a->searches = i % 7 == 3;
        a->told = !reads && i % 5 == 4;
        if (reads && i % 6 == 5) a->kind = QKV_ENGINE_EMBED;
        if (!a->kind && !a->searches) a->answers = 1 + qkv_random_below(r, i % 4 ? 1 : ANSWERS);
    }
    make_wide(r, m, &asked[0]);
}

static void submit(struct qkv_engine *e, const struct asked *a, const char *adapter, uint64_t *id) {
    struct qkv_engine_request r = qkv_engine_request_defaults();
    char name[16];
    r.prompt = a->text;
    r.prompt_size = strlen(a->text);
    r.options = &a->options;
    r.kind = a->kind;
    r.answers = a->answers;
    r.log_probabilities = !a->kind && !a->searches;
    r.prompt_probabilities = a->told && r.log_probabilities;
    r.search = a->searches && !a->kind ? &a->search : NULL;
    if (adapter) r.adapter = strcpy(name, adapter); /* gone after the call */
    assert_ok(e->ctx, qkv_engine_submit(e, &r, id));
}

static void hear(struct heard *h, const struct qkv_engine_event *event) {
    assert_true(h->size + event->size < TEXT && h->count + 2 + event->vector_count < TEXT);
    if (event->size) memcpy(h->text + h->size, event->text, event->size);
    h->size += event->size;
    if (event->token.id >= 0) {
        h->numbers[h->count++] = (float)event->token.id;
        h->numbers[h->count++] = (float)event->token.log_probability;
    }
    if (event->vector_count) memcpy(h->numbers + h->count, event->vector, event->vector_count * sizeof(float));
    h->count += event->vector_count;
    if (event->hypothesis) h->numbers[h->count++] = (float)event->hypothesis->log_probability;
    h->finish = event->finish;
}

/* The answers to a request that an engine has alone. */
static void answer_alone(struct qkv_model *m, const struct asked *a, struct heard *heard) {
    struct qkv_engine *e;
    struct qkv_engine_event event;
    uint64_t id;
    memset(heard, 0, ANSWERS * sizeof *heard);
    assert_ok(m->ctx, qkv_engine_create(m, &QKV_OPTIONS(qkv_engine_options, .rows = 4, .text = LENGTH + 2), &e));
    submit(e, a, NULL, &id);
    for (bool busy = true; busy;) {
        assert_ok(m->ctx, qkv_engine_step(e, &busy));
        while (qkv_engine_poll(e, &event)) hear(&heard[event.answer], &event);
    }
    qkv_engine_free(e);
}

struct crowd {
    struct asked asked[REQUESTS];
    struct heard alone[REQUESTS][ANSWERS], heard[REQUESTS][ANSWERS];
    uint64_t ids[REQUESTS];
    size_t open;
};

static void crowd_hear(struct qkv_engine *e, struct crowd *c) {
    struct qkv_engine_event event;
    while (qkv_engine_poll(e, &event)) {
        size_t i = 0;
        while (i < REQUESTS && c->ids[i] != event.request) i++;
        assert_true(i < REQUESTS && event.answer < ANSWERS);
        hear(&c->heard[i][event.answer], &event);
        c->open -= event.finish != QKV_FINISH_NONE;
    }
}

static void crowd_submit(struct qkv_engine *e, struct crowd *c, size_t i, size_t turn) {
    const struct asked *a = &c->asked[i];
    submit(e, a, a->adapter ? names[a->adapter] : turn ? "" : NULL, &c->ids[i]);
    c->open += a->answers;
}

/* In the first turn all answers of the first request run before others come, so that they need all their pages. */
static void crowd_run(struct qkv_engine *e, struct crowd *c, size_t turn) {
    size_t given = 0;
    memset(c->heard, 0, sizeof c->heard);
    c->open = 0;
    if (!turn) crowd_submit(e, c, given++, turn);
    while (given && qkv_engine_state(e).running < ANSWERS) {
        assert_ok(e->ctx, qkv_engine_step(e, NULL));
        crowd_hear(e, c);
    }
    while (given < REQUESTS || c->open) {
        for (size_t k = 0; k < 1 + turn * 3 && given < REQUESTS; k++, given++)
            crowd_submit(e, c, (given * 7 + turn) % REQUESTS, turn);
        assert_ok(e->ctx, qkv_engine_step(e, NULL));
        crowd_hear(e, c);
    }
}

static void crowd_check(const struct crowd *c, size_t model, const char *what) {
    for (size_t i = 0; i < REQUESTS; i++)
        for (size_t k = 0; k < c->asked[i].answers; k++) {
            const struct heard *a = &c->alone[i][k], *b = &c->heard[i][k];
            if (a->finish != b->finish || a->size != b->size || memcmp(a->text, b->text, a->size) ||
                a->count != b->count || memcmp(a->numbers, b->numbers, a->count * sizeof *a->numbers))
                fail_msg("%s, model %zu, request %zu, answer %zu, adapter %zu: another answer", what, model, i, k,
                         c->asked[i].adapter);
        }
}

/* Adapters matter: with another one a request has other log-probabilities. */
static void check_differ(struct qkv_context *ctx, const struct crowd *c, size_t model) {
    const struct asked *a = &c->asked[1];
    struct heard *other = calloc(ANSWERS, sizeof *other);
    struct qkv_model *m = model_with(ctx, model, (a->adapter + 1) % (ADAPTERS + 1));
    answer_alone(m, a, other);
    assert_true(other->count > 1 && c->alone[1][0].count > 1);
    assert_true(other->numbers[1] < c->alone[1][0].numbers[1] || other->numbers[1] > c->alone[1][0].numbers[1]);
    qkv_model_free(m);
    free(other);
}

static const struct shape {
    const char *what;
    size_t rows, pages, step, drafts;
    bool forget;
} shapes[] = {{"usual", 8, 0, 0, 0, false},
              {"few pages", 6, FEW_PAGES, 0, 0, false},
              {"small steps, guesses", 5, 0, 24, 3, false},
              {"no cache", 4, 0, 0, 0, true}};

static void run_shapes(struct qkv_model *m, struct crowd *c, size_t model) {
    const bool reads = m->encoder.spec != NULL;
    for (size_t s = 0; s < TEST_COUNT(shapes); s++) {
        const struct shape *shape = &shapes[s];
        struct qkv_engine *e;
        const size_t before = qkv_arena_total();
        assert_ok(m->ctx, qkv_engine_create(m,
                                            &QKV_OPTIONS(qkv_engine_options, .rows = shape->rows, .pages = shape->pages,
                                                         .step = shape->step, .drafts = reads ? 0 : shape->drafts,
                                                         .forget = shape->forget, .text = LENGTH + 2),
                                            &e));
        for (size_t turn = 0; turn < 2; turn++) { /* prefixes are warm in the second */
            crowd_run(e, c, turn);
            crowd_check(c, model, shape->what);
        }
        if (shape->pages && !qkv_engine_state(e).put_off) fail_msg("model %zu: no answer was put off", model);
        const size_t said = qkv_engine_state(e).memory, taken = qkv_arena_total() - before;
        if (s && taken > said) /* the first run packs the weights */
            fail_msg("model %zu, %s: %zu bytes are taken, but %zu were said", model, shape->what, taken, said);
        qkv_engine_free(e);
    }
}

/* ---- the tests --------------------------------------------------------------------------------------------------- */

static void run_model(struct qkv_random *r, size_t model, enum qkv_precision precision, int threads) {
    struct crowd *c = calloc(1, sizeof *c);
    struct qkv_context *ctx = open_context(threads, precision);
    write_adapters(ctx, model);
    struct qkv_model *all = model_with_all(ctx, model);
    make_requests(r, all, c->asked);
    for (size_t adapter = 0; adapter <= ADAPTERS; adapter++) {
        struct qkv_model *one = model_with(ctx, model, adapter);
        for (size_t i = 0; i < REQUESTS; i++)
            if (c->asked[i].adapter == adapter) answer_alone(one, &c->asked[i], c->alone[i]);
        qkv_model_free(one);
    }
    check_differ(ctx, c, model);
    run_shapes(all, c, model);
    qkv_model_free(all);
    qkv_context_free(ctx);
    free(c);
}

static void answers_of_any_adapters_are_those_of_one_alone(void **state) {
    (void)state;
    struct qkv_random r = test_random(811);
    for (size_t model = 0; model < MODELS; model++)
        for (int k = 0; k < 2; k++)
            run_model(&r, model, k ? QKV_MIXED_BF16 : QKV_FP32, 1 + (int)((model + (size_t)k) % 2));
}

/* Keys and values of other adapters are other ones: a prompt is read again for each, and once for each. */
static void pages_are_not_shared_between_adapters(void **state) {
    (void)state;
    struct qkv_context *ctx = open_context(1, QKV_PRECISION_AUTO);
    struct qkv_engine *e;
    struct qkv_engine_event event;
    struct asked a = {.options = qkv_generate_defaults(), .answers = 1};
    write_adapters(ctx, 0);
    struct qkv_model *m = model_with_all(ctx, 0);
    memset(a.text, 'a', LENGTH);
    a.options.tokens = 1;
    assert_ok(ctx, qkv_engine_create(m, NULL, &e));
    for (size_t turn = 0; turn < 2; turn++)
        for (size_t i = 0; i <= ADAPTERS; i++) {
            uint64_t id;
            size_t cached = 0;
            submit(e, &a, i ? names[i] : "", &id);
            for (bool busy = true; busy;) {
                assert_ok(ctx, qkv_engine_step(e, &busy));
                while (qkv_engine_poll(e, &event))
                    if (event.finish) cached = event.cached_tokens;
            }
            assert_true(turn ? cached > LENGTH / 2 : cached == 0);
        }
    qkv_engine_free(e);
    qkv_model_free(m);
    qkv_context_free(ctx);
}

/* A struct of a model chooses for what begins with it: sessions, passes, decoders and engines. */
static void a_model_chooses_for_all_that_begins(void **state) {
    (void)state;
    enum { T = 20 };
    struct qkv_context *ctx = open_context(2, QKV_PRECISION_AUTO), *other = open_context(1, QKV_PRECISION_AUTO);
    struct qkv_random r = test_random(7);
    int32_t ids[T];
    float wanted[256], have[256];
    fixture_ids(&r, ids, T, 256);
    write_adapters(ctx, 0);
    struct qkv_model *m = model_with_all(ctx, 0), *share;
    assert_string_equal(qkv_adapter_name(m, 2), names[3]);
    assert_null(qkv_adapter_name(m, ADAPTERS));
    assert_ok(ctx, qkv_adapter_use(m, names[2]));
    assert_ok(other, qkv_model_share(m, other, &share));
    for (size_t i = 0; i <= ADAPTERS; i++) {
        struct qkv_model *one = model_with(ctx, 0, i);
        struct qkv_session *session;
        fixture_scores(ctx, one, NULL, 0, ids, T, wanted);
        assert_ok(ctx, qkv_adapter_use(m, names[i]));
        fixture_scores(ctx, m, NULL, 0, ids, T, have);
        assert_memory_equal(wanted, have, sizeof have);
        assert_ok(ctx, qkv_session_create(m, 0, &session));
        assert_ok(ctx, qkv_session_append(session, ids, T));
        assert_memory_equal(wanted, qkv_session_logits(session), sizeof have);
        assert_fails(ctx, qkv_adapter_use(m, NULL), QKV_ARGUMENT, "the model is in use");
        qkv_session_free(session);
        fixture_scores(other, share, NULL, 0, ids, T, have);
        assert_int_equal(i == 2, !memcmp(wanted, have, sizeof have));
        qkv_model_free(one);
    }
    qkv_model_free(share);
    qkv_model_free(m);
    qkv_context_free(other);
    qkv_context_free(ctx);
}

/* What an engine computes now is no choice of the model: a share that is made meanwhile begins with the model's choice,
 * and a share of a share with the other's. */
static void a_share_begins_with_the_choice_of_its_model(void **state) {
    (void)state;
    struct qkv_context *ctx = open_context(1, QKV_PRECISION_AUTO), *other = open_context(1, QKV_PRECISION_AUTO);
    struct qkv_adapter_run computed;
    struct qkv_model *share, *again;
    write_adapters(ctx, 0);
    struct qkv_model *m = model_with_all(ctx, 0);
    assert_ok(ctx, qkv_model_find_adapter(m, names[1], &computed));
    m->now = &computed;
    assert_ok(other, qkv_model_share(m, other, &share));
    m->now = NULL;
    assert_null(share->now);
    assert_int_equal(share->chosen.count, 0);
    assert_ok(other, qkv_adapter_use(share, names[2]));
    assert_true(share->chosen.count > 0);
    assert_ok(ctx, qkv_model_share(share, ctx, &again));
    assert_int_equal(again->chosen.number, share->chosen.number);
    assert_int_equal(again->chosen.count, share->chosen.count);
    assert_int_equal(m->chosen.count, 0);
    qkv_model_free(again);
    qkv_model_free(share);
    qkv_model_free(m);
    qkv_context_free(other);
    qkv_context_free(ctx);
}

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"", "a/b", "a=b", "a\nb", "\xff", "\x7f"};
    struct qkv_context *ctx = open_context(1, QKV_PRECISION_AUTO);
    char path[1024], folder[1024];
    struct qkv_engine *e;
    uint64_t id;
    write_adapters(ctx, 0);
    struct qkv_model *m = model_with_all(ctx, 0);
    adapter_folder(0, 1, path);
    assert_fails(ctx, qkv_adapter_add(m, "second", path), QKV_ARGUMENT, "two adapters have the name second");
    assert_fails(ctx, qkv_adapter_load(m, path), QKV_ARGUMENT, "has adapters with names");
    for (size_t i = 0; i < TEST_COUNT(bad); i++)
        assert_fails(ctx, qkv_adapter_add(m, bad[i], path), QKV_ARGUMENT, "cannot have the name");
    assert_fails(ctx, qkv_adapter_add(m, "other", adapter_folder(99, 1, folder)), QKV_FILE, "adapter_config.json");
    assert_fails(ctx, qkv_adapter_use(m, "fifth"), QKV_ARGUMENT, "the model has first, second, third one, 4");
    assert_fails(ctx, qkv_model_save(m, test_folder()), QKV_ARGUMENT, "has adapters with names");
    struct qkv_pass *pass;
    assert_fails(ctx, qkv_pass_create(m, &QKV_OPTIONS(qkv_pass_options, .B = 1, .T = 4, .train = true), &pass),
                 QKV_ARGUMENT, "which are not trained");
    assert_ok(ctx, qkv_engine_create(m, &QKV_OPTIONS(qkv_engine_options, .rows = 1), &e));
    struct qkv_engine_request r = qkv_engine_request_defaults();
    r.prompt = "a", r.prompt_size = 1;
    r.adapter = "fifth";
    assert_fails(ctx, qkv_engine_submit(e, &r, &id), QKV_ARGUMENT, "the model has first, second, third one, 4");
    assert_fails(ctx, qkv_adapter_add(m, "other", path), QKV_ARGUMENT, "the model is in use");
    qkv_engine_free(e);
    qkv_model_free(m);
    m = model_with(ctx, 0, 1);
    assert_fails(ctx, qkv_adapter_add(m, "other", path), QKV_ARGUMENT, "the model has an adapter");
    assert_ok(ctx, qkv_engine_create(m, &QKV_OPTIONS(qkv_engine_options, .rows = 1), &e));
    assert_fails(ctx, qkv_engine_submit(e, &r, &id), QKV_ARGUMENT, "without named adapters");
    qkv_engine_free(e);
    qkv_model_free(m);
    qkv_context_free(ctx);
}

int main(void) {
    test_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_of_any_adapters_are_those_of_one_alone),
        cmocka_unit_test(pages_are_not_shared_between_adapters),
        cmocka_unit_test(a_model_chooses_for_all_that_begins),
        cmocka_unit_test(a_share_begins_with_the_choice_of_its_model),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
