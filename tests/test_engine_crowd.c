/* The promise of engines as a whole: requests of all kinds have the same bytes alone and among up to 7 and 31 others
 * (fewer if there are fewer requests), with cold and warm prefixes, with prompts in pieces of 1, 17 and 512 tokens, at
 * one and two threads, in a cache so small that answers are put off, with guesses, in fp32, bf16, q8_0 and q4_K, and
 * with caches of f32 and q8_0. Alone means alone in an engine whose model has the adapter of the request and no other.
 * (test_engine.c, test_engine_sources.c, test_engine_texts.c and test_engine_beams.c compare with qkv_generate,
 * decoders, public functions and searches.)
 *
 * The argument is the number of requests; all ways of all types are then run. Without it a few ways are run. */
/* labels: numeric */
#include "engine_crowd.h"

enum { FEW = 12, ROWS_MORE = 5, GUESSES = 4, FEW_WAYS = 1 };

static size_t request_count = FEW;
static bool all_ways;

/* ---- ways of running --------------------------------------------------------------------------------------------- */

static const struct numbers {
    const char *name, *stored;
    enum qkv_precision precision;
} numbers[] = {{"fp32", "f32", QKV_FP32},
               {"bf16", "f32", QKV_MIXED_BF16},
               {"q8_0", "q8_0", QKV_PRECISION_AUTO},
               {"q4_K", "q4_K", QKV_PRECISION_AUTO}};
static const char *const caches[] = {"f32", "q8_0"};
enum { PIECES = 3, AMONG = 2, THREADS = 2, TIGHT = 2, WAYS = PIECES * AMONG * THREADS * TIGHT };

struct way {
    size_t step, among, threads, guesses;
    bool tight;
};
static struct way way_at(size_t i) {
    static const size_t steps[PIECES] = {1, 17, 512}, among[AMONG] = {7, 31};
    return (struct way){.step = steps[i % PIECES],
                        .among = among[i / PIECES % AMONG],
                        .threads = 1 + i / PIECES / AMONG % THREADS,
                        .tight = i / PIECES / AMONG / THREADS > 0,
                        .guesses = i % 2 ? GUESSES : 0};
}

/* ---- answers, as they are told ----------------------------------------------------------------------------------- */

/* All that is told of an answer, as bytes. */
struct heard {
    unsigned char *told;
    char *text;
    size_t told_size, told_room, text_size, text_room;
    bool ended;
};
struct crowd {
    const struct crowd_kind *kind;
    struct crowd_asked *asked;
    struct heard (*alone)[CROWD_ANSWERS], (*heard)[CROWD_ANSWERS];
    uint64_t *ids;
    size_t *open; /* answers of each request that have not ended */
    struct qkv_constraint *forms[CROWD_FORMS];
};

/* ---- models ------------------------------------------------------------------------------------------------------ */

static const char *const adapter_names[CROWD_ADAPTERS + 1] = {"", "first", "second"};
static const char *const adapter_settings[CROWD_ADAPTERS] = {"rank=4", "rank=2,dora=true,targets=q,v"};

static struct qkv_context *open_context(size_t threads, enum qkv_precision precision) {
    struct qkv_context *ctx;
    assert_int_equal(
        qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, .threads = (int)threads, .precision = precision)),
        QKV_OK);
    return ctx;
}

static const char *model_path(const char *stored) {
    char name[100];
    snprintf(name, sizeof name, "%s.gguf", stored);
    return test_path(name);
}

static const char *adapter_path(const char *stored, size_t adapter) {
    char name[100];
    snprintf(name, sizeof name, "%s_%zu", stored, adapter);
    return test_path(name);
}

static struct qkv_tokenizer *make_tokenizer(struct qkv_context *ctx, bool letters) {
    static const char text[] = "abcdefghijklmnopqrstuvwxyz ,.\n";
    static const char *const names[] = {QKV_TOKEN_BEGIN, QKV_TOKEN_END, QKV_TOKEN_MASK, "__de__", "__fr__"};
    struct qkv_tokenizer_options options = {.size = sizeof options, .kind = QKV_TOKENIZER_BYTES};
    struct qkv_tokenizer *tokenizer;
    if (letters)
        options.kind = QKV_TOKENIZER_CHARS, options.specials = names, options.special_count = TEST_COUNT(names);
    assert_ok(ctx,
              qkv_tokenizer_train(ctx, &options, letters ? text : NULL, letters ? sizeof text - 1 : 0, &tokenizer));
    return tokenizer;
}

/* Writes the adapters of a stored model, whose terms change its answers. */
static void write_adapters(struct qkv_context *ctx, const char *stored) {
    struct qkv_random r = test_random(240);
    for (size_t i = 1; i <= CROWD_ADAPTERS; i++) {
        struct qkv_model *m;
        assert_ok(ctx, qkv_model_load(ctx, model_path(stored), &m));
        assert_ok(ctx, qkv_adapter_create(m, adapter_settings[i - 1], i));
        for (size_t k = 0; k < qkv_model_parameters(m); k++) {
            float *w = test_weights_mutable(m, k);
            const size_t count = qkv_array_elements(qkv_model_parameter(m, k));
            for (size_t j = 0; j < count; j++) w[j] += (float)(0.05 * qkv_random_normal(&r));
        }
        assert_ok(ctx, qkv_adapter_save(m, NULL, adapter_path(stored, i)));
        qkv_model_free(m);
    }
}

/* Writes the model in each type, with its adapters, and makes requests for it. */
static void write_models(struct crowd *c, struct qkv_random *r) {
    static const char *const stored[] = {"f32", "q8_0", "q4_K"};
    struct qkv_context *ctx = open_context(1, QKV_FP32);
    struct qkv_tokenizer *tokenizer = make_tokenizer(ctx, c->kind->letters);
    struct qkv_gguf_options o = qkv_gguf_defaults();
    char json[2048];
    const int n =
        snprintf(json, sizeof json,
                 "{\"format\": \"qkv\", \"version\": 2, \"vocab\": %d, \"d_model\": 256, \"context\": %d, %s}",
                 qkv_tokenizer_vocab(tokenizer), CROWD_CONTEXT, c->kind->json);
    assert_in_range(n, 1, sizeof json - 1);
    const char *layers[2]; /* one alone where a few ways are run */
    size_t count = 0;
    if (!all_ways && strstr(json, "\"encoder\"")) layers[count++] = "encoder.layers=1";
    if (!all_ways && strstr(json, "\"decoder\"")) layers[count++] = "decoder.layers=1";
    struct qkv_model *m = fixture_model(ctx, json, layers, count, 7, 0.06);
    assert_ok(ctx, qkv_model_set_tokenizer(m, tokenizer));
    crowd_make(c->kind, m, r, c->asked, request_count);
    for (size_t i = 0; i < TEST_COUNT(stored); i++) {
        o.format = stored[i], o.pure = true, o.family = "qkv";
        assert_ok(ctx, qkv_model_export_gguf(m, &o, model_path(stored[i]), NULL));
        write_adapters(ctx, stored[i]);
    }
    qkv_model_free(m);
    qkv_context_free(ctx);
}

static struct qkv_model *load_model(struct qkv_context *ctx, const char *stored, const char *cache) {
    struct qkv_model *m;
    assert_ok(ctx, qkv_model_load(ctx, model_path(stored), &m));
    if (m->decoder.spec) assert_ok(ctx, qkv_model_set_cache(m, cache));
    return m;
}

static void make_forms(struct qkv_context *ctx, bool letters, struct qkv_constraint **forms) {
    const struct {
        enum qkv_constraint_kind kind;
        const char *text;
    } all[CROWD_FORMS] = {
        {QKV_CONSTRAINT_REGEX, "[a-f]{2,6}(, [a-z]{1,9})*"},
        {QKV_CONSTRAINT_CHOICES, "[\"yes\", \"no\", \"yes and no\"]"},
        {letters ? QKV_CONSTRAINT_REGEX : QKV_CONSTRAINT_SCHEMA,
         letters ? "([a-z]{3,9} ){1,9}" : "{\"properties\": {\"n\": {\"type\": \"integer\"}}, \"required\": [\"n\"]}"}};
    for (size_t i = 0; i < CROWD_FORMS; i++)
        assert_ok(ctx,
                  qkv_constraint_create(
                      ctx, &QKV_OPTIONS(qkv_constraint_options, .kind = all[i].kind, .text = all[i].text), &forms[i]));
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static void free_forms(struct crowd *c) {
    for (size_t i = 0; i < CROWD_FORMS; i++) qkv_constraint_free(c->forms[i]);
}

static void *put_room(void *data, size_t *room, size_t size, size_t more) {
    if (size + more <= *room) return data;
    *room = 2 * (size + more) + 64;
    data = realloc(data, *room);
    assert_non_null(data);
    return data;
}

static void put(struct heard *h, const void *data, size_t size) {
    h->told = put_room(h->told, &h->told_room, h->told_size, size);
    if (size) memcpy(h->told + h->told_size, data, size);
    h->told_size += size;
}

static void put_number(struct heard *h, double number) {
    put(h, &number, sizeof number);
}

static void put_score(struct heard *h, const struct qkv_token_score *s) {
    put_number(h, (double)s->id);
    put_number(h, s->log_probability);
}

static void put_hypothesis(struct heard *h, const struct qkv_hypothesis *found) {
    put(h, found->ids, found->count * sizeof *found->ids);
    put_number(h, found->log_probability);
    put_number(h, found->score);
    put_number(h, found->ended);
}

static void hear(struct heard *h, const struct qkv_engine_event *event, size_t top) {
    assert_false(h->ended);
    h->text = put_room(h->text, &h->text_room, h->text_size, event->size);
    if (event->size) memcpy(h->text + h->text_size, event->text, event->size);
    h->text_size += event->size;
    if (event->token.id >= 0) {
        put_number(h, event->prompt);
        put_score(h, &event->token);
    }
    for (size_t i = 0; i < event->top_count; i++) put_score(h, &event->top[i]);
    put(h, event->vector, event->vector_count * sizeof *event->vector);
    for (size_t i = 0; i < event->masks * top; i++) {
        const struct qkv_filling *f = &event->fillings[i];
        put_score(h, &(struct qkv_token_score){f->id, f->probability});
        put_number(h, (double)(f->begin + CROWD_CONTEXT * f->end));
    }
    if (event->hypothesis) put_hypothesis(h, event->hypothesis);
    h->ended = event->finish != QKV_FINISH_NONE;
    if (!h->ended) return;
    put_number(h, (double)event->finish);
    put_number(h, (double)(event->prompt_tokens + CROWD_CONTEXT * event->tokens));
    if (event->message) put(h, event->message, strlen(event->message));
}

static void submit(struct qkv_engine *e, const struct crowd *c, const struct crowd_asked *a, const char *adapter,
                   uint64_t *id) {
    struct qkv_engine_request r = qkv_engine_request_defaults();
    struct qkv_generate_options options = a->options;
    if (a->form) options.constraint = c->forms[a->form - 1];
    r.kind = a->kind;
    r.prompt = a->text, r.prompt_size = strlen(a->text);
    r.target_language = a->target;
    if (!a->kind) r.options = &options;
    r.embed = &a->embed, r.line = &a->line;
    if (a->pair) r.second = a->second, r.second_size = strlen(a->second);
    r.answers = a->kind || a->searches ? 1 : a->answers;
    r.top = a->searches ? 0 : a->top;
    r.search = a->searches ? &a->search : NULL;
    r.presence_penalty = a->presence, r.frequency_penalty = a->frequency;
    r.biases = a->biases, r.bias_count = a->bias_count;
    r.min_tokens = a->min_tokens;
    r.log_probabilities = a->log_probabilities && !a->searches;
    r.prompt_probabilities = a->prompt_probabilities;
    r.adapter = adapter;
    if (qkv_engine_submit(e, &r, id)) fail_msg("kind %d, \"%s\": %s", (int)a->kind, a->text, qkv_message(e->ctx));
}

static size_t answers_of(const struct crowd_asked *a) {
    return a->searches ? a->search.n_best : a->kind ? 1 : a->answers;
}

static void forget(struct heard (*heard)[CROWD_ANSWERS], size_t count) {
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < CROWD_ANSWERS; k++) {
            free(heard[i][k].told);
            free(heard[i][k].text);
            heard[i][k] = (struct heard){0};
        }
}

/* ---- alone ------------------------------------------------------------------------------------------------------- */

static void answer_alone(struct qkv_model *m, const struct crowd *c, const struct crowd_asked *a, struct heard *heard) {
    struct qkv_engine *e;
    struct qkv_engine_event event;
    uint64_t id;
    assert_ok(m->ctx,
              qkv_engine_create(
                  m, &QKV_OPTIONS(qkv_engine_options, .rows = CROWD_ANSWERS, .step = 100, .text = CROWD_CONTEXT), &e));
    submit(e, c, a, NULL, &id);
    for (bool busy = true; busy;) {
        assert_ok(m->ctx, qkv_engine_step(e, &busy));
        while (qkv_engine_poll(e, &event)) hear(&heard[event.answer], &event, a->top);
    }
    for (size_t k = 0; k < answers_of(a); k++) assert_true(heard[k].ended);
    qkv_engine_free(e);
}

/* Adapters matter: without its adapter a request has other numbers. */
static void check_differ(struct qkv_model *none, const struct crowd *c) {
    static struct heard other[1][CROWD_ANSWERS];
    size_t i = 0;
    while (i < request_count && !(c->asked[i].adapter && (c->asked[i].kind || c->asked[i].log_probabilities))) i++;
    if (i == request_count) return;
    answer_alone(none, c, &c->asked[i], other[0]);
    const struct heard *a = &other[0][0], *b = &c->alone[i][0];
    assert_true(a->told_size != b->told_size || memcmp(a->told, b->told, a->told_size));
    forget(other, 1);
}

static void answer_all_alone(struct crowd *c, const struct numbers *n, const char *cache) {
    struct qkv_context *ctx = open_context(1, n->precision);
    make_forms(ctx, c->kind->letters, c->forms);
    for (size_t adapter = CROWD_ADAPTERS + 1; adapter--;) {
        struct qkv_model *m = load_model(ctx, n->stored, cache);
        if (adapter) assert_ok(ctx, qkv_adapter_load(m, adapter_path(n->stored, adapter)));
        for (size_t i = 0; i < request_count; i++)
            if (c->asked[i].adapter == adapter) answer_alone(m, c, &c->asked[i], c->alone[i]);
        if (!adapter) check_differ(m, c);
        qkv_model_free(m);
    }
    free_forms(c);
    qkv_context_free(ctx);
}

/* ---- among others ------------------------------------------------------------------------------------------------ */

static size_t crowd_hear(struct qkv_engine *e, struct crowd *c) {
    struct qkv_engine_event event;
    size_t ended = 0;
    while (qkv_engine_poll(e, &event)) {
        size_t i = 0;
        while (i < request_count && c->ids[i] != event.request) i++;
        assert_true(i < request_count && event.answer < CROWD_ANSWERS);
        hear(&c->heard[i][event.answer], &event, c->asked[i].top);
        c->open[i] -= event.finish != QKV_FINISH_NONE;
        ended += event.finish != QKV_FINISH_NONE && !c->open[i];
    }
    return ended;
}

/* Answers all requests, of which `among` others are open next to each, in another order for each turn. */
static void crowd_run(struct qkv_engine *e, struct crowd *c, size_t among, size_t turn) {
    static const size_t primes[] = {7, 11, 13, 17, 19};
    size_t prime = 0, open = 0;
    while (request_count % primes[prime] == 0) assert_true(++prime < TEST_COUNT(primes));
    const size_t stride = turn ? primes[prime] : 1;
    for (size_t given = 0; given < request_count || open;) {
        for (; given < request_count && open <= among; given++, open++) {
            const size_t i = (given * stride + turn) % request_count;
            const struct crowd_asked *a = &c->asked[i];
            submit(e, c, a, adapter_names[a->adapter], &c->ids[i]);
            c->open[i] = answers_of(a);
        }
        assert_ok(e->ctx, qkv_engine_step(e, NULL));
        open -= crowd_hear(e, c);
    }
}

static void crowd_check(const struct crowd *c, const char *what) {
    for (size_t i = 0; i < request_count; i++)
        for (size_t k = 0; k < answers_of(&c->asked[i]); k++) {
            const struct heard *a = &c->alone[i][k], *b = &c->heard[i][k];
            if (a->text_size != b->text_size || (a->text_size && memcmp(a->text, b->text, a->text_size)) ||
                a->told_size != b->told_size || memcmp(a->told, b->told, a->told_size))
                fail_msg("%s: request %zu, answer %zu: another answer", what, i, k);
        }
}

static void run_way(struct qkv_model *m, struct crowd *c, const struct way *way, const char *what) {
    const struct crowd_kind *kind = c->kind;
    const size_t rows = way->among + ROWS_MORE, pages = way->tight ? kind->tight : 0;
    struct qkv_engine *e;
    uint64_t cached = 0;
    char name[200];
    assert_ok(m->ctx, qkv_engine_create(m,
                                        &QKV_OPTIONS(qkv_engine_options, .rows = rows, .step = way->step,
                                                     .pages = pages, .drafts = way->guesses, .text = CROWD_CONTEXT),
                                        &e));
    make_forms(m->ctx, kind->letters, c->forms);
    for (size_t turn = 0; turn < 2; turn++) { /* prefixes are warm in the second */
        snprintf(name, sizeof name, "%s, pieces of %zu, %zu others, %zu threads, %s pages, %s prefixes", what,
                 way->step, qkv_min(way->among, request_count - 1), way->threads, way->tight ? "few" : "many",
                 turn ? "warm" : "cold");
        cached = qkv_engine_state(e).cached_tokens;
        crowd_run(e, c, way->among, turn);
        crowd_check(c, name);
        forget(c->heard, request_count);
    }
    const struct qkv_engine_state s = qkv_engine_state(e);
    assert_int_equal(s.running + s.waiting, 0);
    assert_int_equal(s.free_pages + s.kept_pages, s.pages);
    if (way->tight && s.put_off == 0) fail_msg("%s: no answer was put off", name);
    if (!way->tight && kind->prefixes && s.cached_tokens == cached) fail_msg("%s: no prefix was in the cache", name);
    free_forms(c);
    qkv_engine_free(e);
}

/* Whether a way is run with these numbers. Where a few are run, the numbers together have all values of a way; kinds
 * without a tight cache run the same way with many pages. */
static bool is_run(const struct crowd_kind *kind, size_t number, size_t way) {
    const size_t ways = kind->tight ? WAYS : WAYS / TIGHT;
    if (way >= ways) return false;
    for (size_t i = 0; i < FEW_WAYS; i++)
        if (way == (5 * number + WAYS / FEW_WAYS * i) % ways) return true;
    return all_ways;
}

static void check_numbers(struct crowd *c, size_t number, const char *cache) {
    const struct numbers *n = &numbers[number];
    char what[100];
    size_t run = 0;
    snprintf(what, sizeof what, "%s, %s, a cache of %s", c->kind->name, n->name, cache);
    answer_all_alone(c, n, cache);
    for (size_t threads = 1; threads <= THREADS; threads++) {
        struct qkv_context *ctx = open_context(threads, n->precision);
        struct qkv_model *m = load_model(ctx, n->stored, cache);
        for (size_t i = 1; i <= CROWD_ADAPTERS; i++)
            assert_ok(ctx, qkv_adapter_add(m, adapter_names[i], adapter_path(n->stored, i)));
        for (size_t w = 0; w < WAYS; w++) {
            const struct way way = way_at(w);
            if (way.threads != threads || !is_run(c->kind, number, w)) continue;
            run_way(m, c, &way, what);
            run++;
        }
        qkv_model_free(m);
        qkv_context_free(ctx);
    }
    if (!run) fail_msg("%s: no way was run", what);
    forget(c->alone, request_count);
}

/* ---- the tests --------------------------------------------------------------------------------------------------- */

static void check_kind(size_t index) {
    const struct crowd_kind *kind = &crowd_kinds[index];
    struct qkv_random r = test_random(250 + index);
    struct crowd c = {.kind = kind,
                      .asked = calloc(request_count, sizeof *c.asked),
                      .alone = calloc(request_count, sizeof *c.alone),
                      .heard = calloc(request_count, sizeof *c.heard),
                      .ids = calloc(request_count, sizeof *c.ids),
                      .open = calloc(request_count, sizeof *c.open)};
    write_models(&c, &r);
    for (size_t n = 0; n < TEST_COUNT(numbers); n++)
        for (size_t k = 0; k < TEST_COUNT(caches); k++)
            if (all_ways || k == (n + index) % TEST_COUNT(caches)) check_numbers(&c, n, caches[k]);
    free(c.asked), free(c.alone), free(c.heard), free(c.ids), free(c.open);
}

static void answers_of_a_decoder_are_those_alone(void **state) {
    (void)state;
    check_kind(0);
}

static void answers_of_an_encoder_decoder_are_those_alone(void **state) {
    (void)state;
    check_kind(1);
}

static void texts_of_an_encoder_are_those_alone(void **state) {
    (void)state;
    check_kind(2);
}

static void classes_are_those_alone(void **state) {
    (void)state;
    check_kind(3);
}

int main(int argc, char **argv) {
    all_ways = argc > 1;
    if (all_ways) request_count = strtoul(argv[1], NULL, 10);
    if (request_count < 2) {
        fprintf(stderr, "the argument is the number of requests, at least 2\n");
        return 2;
    }
    test_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_of_a_decoder_are_those_alone),
        cmocka_unit_test(answers_of_an_encoder_decoder_are_those_alone),
        cmocka_unit_test(texts_of_an_encoder_are_those_alone),
        cmocka_unit_test(classes_are_those_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
