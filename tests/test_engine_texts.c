/* Texts of engines: a text that is embedded, classified or filled has the bits of the public function that reads it
 * alone, among any others, next to answers that are made, however a step is divided, at any number of threads. */
/* labels: numeric */
#include "search_fixture.h"

#include "model/model.h"

enum { TEXTS = 48, SIZE = 80, CONTEXT = 40, WIDTH = 64, TOP = 3, MASKS = 60, TOKENS = 12 };

#define STACK(kind)                                                                                                    \
    "\"layers\":2,\"attention\":{\"heads\":4,\"kv_heads\":2},\"ffn\":{\"kind\":\"" kind "\",\"d_ff\":40}"
#define BERT                                                                                                           \
    "\"encoder\":{\"embed\":{\"position\":{\"kind\":\"learned\"},\"types\":2},\"norm\":{\"kind\":\"layernorm\"}"       \
    "," STACK("gelu") "}"
#define LLAMA                                                                                                          \
    "\"decoder\":{\"norm\":{\"kind\":\"rmsnorm\"},\"layers\":2,\"attention\":{\"heads\":4,\"kv_heads\":2,"             \
    "\"position\":"                                                                                                    \
    "{\"kind\":\"rope\"}},\"ffn\":{\"kind\":\"swiglu\",\"d_ff\":40}}"
static const struct {
    const char *name, *json;
    unsigned kinds; /* bits of enum qkv_engine_kind */
} models[] = {
    {"an encoder", BERT, 1U << QKV_ENGINE_EMBED | 1U << QKV_ENGINE_FILL},
    {"a classifier", "\"head\":{\"kind\":\"classify\",\"classes\":5,\"pool\":\"mean\"}," BERT,
     1U << QKV_ENGINE_EMBED | 1U << QKV_ENGINE_CLASSIFY},
    {"a reranker", "\"head\":{\"kind\":\"classify\",\"classes\":1,\"pool\":\"first\"}," BERT,
     1U << QKV_ENGINE_CLASSIFY},
    {"a decoder", LLAMA, 1U << QKV_ENGINE_EMBED | 1U << QKV_ENGINE_GENERATE},
    {"a decoder with classes", "\"head\":{\"kind\":\"classify\",\"classes\":3,\"pool\":\"last\"}," LLAMA,
     1U << QKV_ENGINE_EMBED | 1U << QKV_ENGINE_CLASSIFY},
};

static struct qkv_context *open_context(int threads) {
    struct qkv_context *ctx;
    assert_int_equal(qkv_context_create(
                         &ctx, &QKV_OPTIONS(qkv_context_options, .threads = threads, .precision = QKV_PRECISION_AUTO)),
                     QKV_OK);
    return ctx;
}

static struct qkv_model *make_model(struct qkv_context *ctx, size_t i) {
    static const char text[] = "the capital of England is London\nthe queen of Spain , and what is a name ?\n";
    static const char *const names[] = {QKV_TOKEN_BEGIN, QKV_TOKEN_END, QKV_TOKEN_MASK};
    struct qkv_tokenizer_options options = {
        .size = sizeof options, .kind = QKV_TOKENIZER_CHARS, .specials = names, .special_count = 3};
    struct qkv_tokenizer *tokenizer;
    char json[1024];
    assert_ok(ctx, qkv_tokenizer_train(ctx, &options, text, sizeof text - 1, &tokenizer));
    const int n =
        snprintf(json, sizeof json, "{\"format\":\"qkv\",\"version\":2,\"vocab\":%d,\"d_model\":32,\"context\":%d,%s}",
                 qkv_tokenizer_vocab(tokenizer), CONTEXT, models[i].json);
    assert_in_range(n, 1, sizeof json - 1);
    struct qkv_model *m = fixture_model(ctx, json, NULL, 0, 5, 0.15);
    assert_ok(ctx, qkv_model_set_tokenizer(m, tokenizer));
    return m;
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

struct asked {
    enum qkv_engine_kind kind;
    char text[SIZE], second[SIZE];
    bool pair;
    struct qkv_embed_options embed;
    struct qkv_line_options line;
    struct qkv_generate_options options;
};
struct heard {
    float vector[WIDTH];
    size_t width, masks, size, tokens;
    struct qkv_filling fillings[MASKS * TOP];
    char text[SIZE * 4];
    enum qkv_finish finish;
};

static void make_text(struct qkv_random *r, char *text, size_t longest) {
    const size_t n = qkv_random_below(r, longest + 1);
    for (size_t i = 0; i < n; i++) text[i] = "the qunofSpai "[qkv_random_below(r, 14)];
    text[n] = 0;
}

/* Texts of all lengths, some blank, some too long and cut. */
static void make_requests(struct qkv_random *r, struct qkv_model *m, unsigned kinds, struct asked *asked) {
    static const enum qkv_pool pools[] = {QKV_POOL_FIRST, QKV_POOL_MEAN, QKV_POOL_LAST, QKV_POOL_MAX};
    for (size_t i = 0; i < TEXTS; i++) {
        struct asked *a = &asked[i];
        *a = (struct asked){.embed = qkv_embed_defaults(m), .line = qkv_line_defaults()};
        do a->kind = (enum qkv_engine_kind)qkv_random_below(r, QKV_ENGINE_FILL + 1);
        while (!(kinds >> a->kind & 1));
        make_text(r, a->text, i % 8 == 3 ? 60 : CONTEXT - 8);
        a->embed.pool = pools[i % 4];
        a->embed.normalize = i % 3 == 0;
        a->embed.prompt = i % 5 == 1 ? "the " : NULL;
        a->embed.long_lines = a->line.long_lines = i % 16 == 3 ? QKV_LONG_SKIP : QKV_LONG_KEEP_START;
        a->pair = i % 3 == 1;
        make_text(r, a->second, 25);
        if (a->kind == QKV_ENGINE_GENERATE) a->text[CONTEXT - TOKENS] = 0; /* the context does not end */
        if (i % 7 == 6) strcpy(a->text, i % 2 ? "" : " \t");
        if (a->kind == QKV_ENGINE_GENERATE) {
            a->options = qkv_generate_defaults();
            a->options.tokens = TOKENS;
            a->options.sampling.seed = i;
        }
        if (a->kind != QKV_ENGINE_FILL) continue;
        const size_t masks = i % 9 == 0 ? 5 : 1;
        char text[SIZE];
        snprintf(text, sizeof text, "%.20s", a->text);
        *a->text = 0;
        for (size_t k = 0; k < masks; k++) strcat(a->text, QKV_TOKEN_MASK);
        strncat(a->text, text, SIZE - strlen(a->text) - 1);
    }
}

static bool hear_text(void *user, const char *text, size_t size) {
    struct heard *h = user;
    assert_true(h->size + size <= sizeof h->text);
    memcpy(h->text + h->size, text, size);
    h->size += size;
    return true;
}

/* The public function of each kind. */
static void read_alone(struct qkv_model *m, const struct asked *a, struct heard *h) {
    const char *text = a->text, *second = a->second;
    struct qkv_filling *fillings;
    *h = (struct heard){0};
    switch (a->kind) {
    case QKV_ENGINE_GENERATE:
        assert_ok(m->ctx, qkv_generate(m, a->text, strlen(a->text), &a->options, hear_text, h, NULL));
        break;
    case QKV_ENGINE_EMBED:
        h->width = qkv_embed_width(m);
        assert_ok(m->ctx, qkv_embed(m, &text, 1, &a->embed, h->vector));
        break;
    case QKV_ENGINE_CLASSIFY:
        h->width = (size_t)qkv_model_spec(m)->head.classes;
        if (a->pair)
            assert_ok(m->ctx, qkv_classify_pairs(m, &text, &second, 1, &a->line, h->vector));
        else
            assert_ok(m->ctx, qkv_classify(m, &text, 1, &a->line, h->vector));
        break;
    case QKV_ENGINE_FILL:
        assert_ok(m->ctx, qkv_fill(m, text, TOP, &a->line, &fillings, &h->masks));
        assert_in_range(h->masks, 0, MASKS);
        if (h->masks) memcpy(h->fillings, fillings, h->masks * TOP * sizeof *fillings);
        qkv_free(fillings);
    }
}

/* ---- engines ----------------------------------------------------------------------------------------------------- */

static void submit(struct qkv_engine *e, const struct asked *a, uint64_t *id) {
    struct asked own = *a; /* gone after the call: an engine copies what it needs */
    struct qkv_engine_request r = qkv_engine_request_defaults();
    r.kind = own.kind;
    r.prompt = own.text, r.prompt_size = strlen(own.text);
    r.embed = &own.embed, r.line = &own.line;
    if (own.kind == QKV_ENGINE_GENERATE) r.options = &own.options;
    if (own.kind == QKV_ENGINE_CLASSIFY && own.pair) r.second = own.second, r.second_size = strlen(own.second);
    if (own.kind == QKV_ENGINE_FILL) r.top = TOP;
    if (qkv_engine_submit(e, &r, id)) fail_msg("kind %d: \"%s\"", (int)own.kind, own.text);
    memset(&own, 0x55, sizeof own);
}

static size_t hear(struct qkv_engine *e, const uint64_t *ids, struct heard *heard) {
    struct qkv_engine_event event;
    size_t ended = 0;
    while (qkv_engine_poll(e, &event)) {
        size_t i = 0;
        while (i < TEXTS && ids[i] != event.request) i++;
        assert_true(i < TEXTS && heard[i].finish == QKV_FINISH_NONE);
        struct heard *h = &heard[i];
        hear_text(h, event.text, event.size);
        h->finish = event.finish;
        h->width = event.vector_count;
        h->masks = event.masks;
        h->tokens = event.prompt_tokens;
        assert_in_range(h->width, 0, WIDTH);
        if (h->width) memcpy(h->vector, event.vector, h->width * sizeof *h->vector);
        if (h->masks) memcpy(h->fillings, event.fillings, h->masks * TOP * sizeof *event.fillings);
        ended += event.finish != QKV_FINISH_NONE;
    }
    return ended;
}

static void run(struct qkv_context *ctx, struct qkv_engine *e, const struct asked *asked, size_t turn, size_t at_once,
                struct heard *heard) {
    uint64_t ids[TEXTS] = {0};
    size_t given = 0, ended = 0;
    bool busy;
    memset(heard, 0, TEXTS * sizeof *heard);
    while (given < TEXTS || ended < TEXTS) {
        for (size_t k = 0; k < at_once && given < TEXTS; k++, given++) {
            const size_t i = (given * (turn ? 5 : 1) + turn) % TEXTS;
            submit(e, &asked[i], &ids[i]);
        }
        assert_ok(ctx, qkv_engine_step(e, &busy));
        ended += hear(e, ids, heard);
        assert_true(busy || ended == given);
    }
    assert_false(busy);
}

static void compare(const struct asked *asked, const struct heard *alone, const struct heard *heard, const char *what) {
    for (size_t i = 0; i < TEXTS; i++) {
        const struct heard *a = &alone[i], *b = &heard[i];
        const bool text = asked[i].kind != QKV_ENGINE_GENERATE;
        if (text != (b->finish == QKV_FINISH_READ)) fail_msg("%s: text %zu ends with %d", what, i, (int)b->finish);
        if (a->width != b->width || memcmp(a->vector, b->vector, a->width * sizeof *a->vector))
            fail_msg("%s: text %zu of kind %d, \"%s\": another vector", what, i, (int)asked[i].kind, asked[i].text);
        if (a->masks != b->masks) fail_msg("%s: text %zu: %zu masks, not %zu", what, i, b->masks, a->masks);
        for (size_t k = 0; k < a->masks * TOP; k++) {
            const struct qkv_filling *x = &a->fillings[k], *y = &b->fillings[k];
            if (x->id != y->id || memcmp(&x->probability, &y->probability, sizeof x->probability) ||
                x->begin != y->begin || x->end != y->end)
                fail_msg("%s: text %zu: another filling", what, i);
        }
        if (a->size != b->size || memcmp(a->text, b->text, a->size)) fail_msg("%s: answer %zu: another text", what, i);
    }
}

static const struct {
    const char *name;
    size_t step, rows, at_once;
} variants[] = {
    {"pieces of 1", 1, 3, 7},
    {"pieces of 17", 17, 5, 3},
    {"pieces of 512", 512, 16, TEXTS},
    {"the time decides", 0, 4, 1},
};

static void texts_have_the_same_bits_in_a_crowd(void **state) {
    (void)state;
    static struct asked asked[TEXTS];
    static struct heard alone[TEXTS], heard[TEXTS];
    for (size_t i = 0; i < TEST_COUNT(models); i++) {
        struct qkv_context *ctx = open_context(i % 2 ? 2 : 1);
        struct qkv_model *m = make_model(ctx, i);
        struct qkv_random r = test_random(95 + i);
        make_requests(&r, m, models[i].kinds, asked);
        for (size_t k = 0; k < TEXTS; k++) read_alone(m, &asked[k], &alone[k]);
        for (size_t v = 0; v < TEST_COUNT(variants); v++) {
            char name[100];
            struct qkv_engine *e;
            snprintf(name, sizeof name, "%s, %s", models[i].name, variants[v].name);
            assert_ok(ctx, qkv_engine_create(m,
                                             &QKV_OPTIONS(qkv_engine_options, .step = variants[v].step,
                                                          .rows = variants[v].rows, .text = CONTEXT),
                                             &e));
            const size_t memory = qkv_engine_state(e).memory;
            for (size_t turn = 0; turn < 2; turn++) {
                run(ctx, e, asked, turn, variants[v].at_once, heard);
                compare(asked, alone, heard, name);
            }
            const struct qkv_engine_state s = qkv_engine_state(e);
            assert_true(memory > 0 && s.memory == memory && s.texts > 0 && s.text_tokens > s.texts);
            assert_int_equal(s.running + s.waiting, 0);
            qkv_engine_free(e);
        }
        qkv_model_free(m);
        qkv_context_free(ctx);
    }
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* The memory of an engine is what it says, whatever the texts are. */
static void the_memory_of_texts_is_said_at_the_start(void **state) {
    (void)state;
    static struct asked asked[TEXTS];
    static struct heard heard[TEXTS];
    for (size_t i = 0; i < TEST_COUNT(models); i++) {
        struct qkv_context *ctx = open_context(1);
        struct qkv_model *m = make_model(ctx, i);
        struct qkv_random r = test_random(120 + i);
        struct qkv_engine *e;
        make_requests(&r, m, models[i].kinds, asked);
        for (size_t k = 0; k < TEXTS; k++) read_alone(m, &asked[k], &heard[k]); /* packs the weights */
        const size_t before = qkv_arena_total();
        assert_ok(ctx,
                  qkv_engine_create(m, &QKV_OPTIONS(qkv_engine_options, .text = CONTEXT, .rows = 4, .pages = 8), &e));
        const size_t said = qkv_engine_state(e).memory;
        for (size_t turn = 0; turn < 4; turn++) {
            run(ctx, e, asked, turn % 2, 1 + 13 * turn, heard);
            const size_t taken = qkv_arena_total() - before;
            if (taken > said) fail_msg("%s: %zu bytes are taken, but %zu were said", models[i].name, taken, said);
        }
        qkv_engine_free(e);
        qkv_model_free(m);
        qkv_context_free(ctx);
    }
}

/* ---- ends -------------------------------------------------------------------------------------------------------- */

static void a_text_may_be_given_as_ids(void **state) {
    (void)state;
    struct qkv_context *ctx = open_context(1);
    struct qkv_model *m = make_model(ctx, 0);
    struct qkv_engine_request q = qkv_engine_request_defaults();
    struct qkv_generate_options o = qkv_generate_defaults();
    struct qkv_engine *e;
    uint64_t ids[TEXTS] = {0};
    static struct heard heard[TEXTS];
    memset(heard, 0, sizeof heard);
    int32_t *text;
    size_t count;
    assert_ok(ctx, qkv_source_encode(ctx, qkv_model_tokenizer(m), "the queen", 9, false, false, &text, &count));
    assert_ok(ctx, qkv_engine_create(m, NULL, &e));
    q.kind = QKV_ENGINE_EMBED;
    q.prompt = "the queen", q.prompt_size = 9;
    assert_ok(ctx, qkv_engine_submit(e, &q, &ids[0]));
    q.prompt = NULL, q.prompt_size = 0, o.ids = text, o.id_count = count, q.options = &o;
    assert_ok(ctx, qkv_engine_submit(e, &q, &ids[1]));
    bool busy = true;
    size_t answers = 0;
    while (busy) {
        assert_ok(ctx, qkv_engine_step(e, &busy));
        answers += hear(e, ids, heard);
    }
    assert_int_equal(answers, 2);
    assert_int_equal(heard[1].tokens, count);
    assert_memory_equal(heard[0].vector, heard[1].vector, heard[0].width * sizeof(float));
    qkv_engine_free(e);
    qkv_free(text);
    qkv_model_free(m);
    qkv_context_free(ctx);
}

/* The first steps have few tokens; texts that do not fill them exactly make the next ones larger all the same. */
static void steps_grow_with_texts_of_any_length(void **state) {
    (void)state;
    struct qkv_context *ctx = open_context(1);
    struct qkv_model *m = make_model(ctx, 0);
    struct qkv_engine_request q = qkv_engine_request_defaults();
    struct qkv_engine *e;
    uint64_t id;
    bool busy = true;
    assert_ok(ctx, qkv_engine_create(m, NULL, &e));
    q.kind = QKV_ENGINE_EMBED;
    for (size_t i = 0; i < 200; i++) {
        q.prompt = "the queens", q.prompt_size = 10;
        assert_ok(ctx, qkv_engine_submit(e, &q, &id));
    }
    while (busy) assert_ok(ctx, qkv_engine_step(e, &busy));
    assert_in_range(qkv_engine_state(e).steps, 1, 150); /* about ten, if nothing else is slow */
    qkv_engine_free(e);
    qkv_model_free(m);
    /* Texts may be much shorter than the tokens that are read at once. */
    for (size_t i = 0; i < TEST_COUNT(models); i++) {
        m = make_model(ctx, i);
        assert_ok(ctx, qkv_engine_create(m, &QKV_OPTIONS(qkv_engine_options, .text = 3), &e));
        qkv_engine_free(e);
        qkv_model_free(m);
    }
    qkv_context_free(ctx);
}

/* More masks than an engine fills at once. */
static void all_masks_are_filled(void **state) {
    (void)state;
    struct qkv_context *ctx = open_context(2);
    struct qkv_model *m = make_model(ctx, 0);
    struct qkv_engine_request q = qkv_engine_request_defaults();
    struct qkv_engine_event event;
    struct qkv_engine *e;
    struct qkv_filling *alone;
    size_t masks, heard = 0;
    uint64_t ids[2];
    bool busy = true;
    char text[CONTEXT * 8] = "";
    for (size_t i = 0; i < CONTEXT - 3; i++) strcat(text, QKV_TOKEN_MASK);
    assert_ok(ctx, qkv_fill(m, text, TOP, NULL, &alone, &masks));
    assert_true(masks == CONTEXT - 3 && masks > 32);
    assert_ok(ctx, qkv_engine_create(m, NULL, &e));
    q.kind = QKV_ENGINE_FILL, q.top = TOP, q.prompt = text, q.prompt_size = strlen(text);
    for (size_t i = 0; i < 2; i++) assert_ok(ctx, qkv_engine_submit(e, &q, &ids[i]));
    while (busy) {
        assert_ok(ctx, qkv_engine_step(e, &busy));
        for (; qkv_engine_poll(e, &event); heard++) {
            assert_int_equal(event.masks, masks);
            for (size_t k = 0; k < masks * TOP; k++)
                assert_true(event.fillings[k].id == alone[k].id &&
                            event.fillings[k].probability == alone[k].probability);
        }
    }
    assert_int_equal(heard, 2);
    qkv_free(alone);
    qkv_engine_free(e);
    qkv_model_free(m);
    qkv_context_free(ctx);
}

static void broken_texts_fail_alone_and_others_are_cancelled(void **state) {
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct qkv_context *ctx = open_context(1);
        struct qkv_model *m = make_model(ctx, i);
        struct qkv_engine_request q = qkv_engine_request_defaults();
        struct qkv_engine_event event;
        struct qkv_engine *e;
        uint64_t ids[3];
        size_t failed = 0, cancelled = 0, read = 0;
        bool busy = true;
        int32_t broken = 0, *one;
        size_t count;
        assert_ok(ctx, qkv_tokenizer_encode(ctx, qkv_model_tokenizer(m), "S", 1, false, &one, &count));
        broken = *one;
        qkv_free(one);
        for (size_t k = 0; k < qkv_model_parameters(m); k++) /* the row of one token */
            if (strstr(qkv_model_parameter(m, k)->name, "embed.token")) test_weights_mutable(m, k)[broken * 32] = NAN;
        assert_ok(ctx, qkv_engine_create(m, NULL, &e));
        q.kind = i ? QKV_ENGINE_CLASSIFY : QKV_ENGINE_EMBED;
        q.prompt = "Spain", q.prompt_size = 5;
        assert_ok(ctx, qkv_engine_submit(e, &q, &ids[0]));
        q.prompt = "the queen", q.prompt_size = 9;
        assert_ok(ctx, qkv_engine_submit(e, &q, &ids[1]));
        assert_ok(ctx, qkv_engine_submit(e, &q, &ids[2]));
        assert_true(qkv_engine_cancel(e, ids[2]));
        assert_false(qkv_engine_cancel(e, ids[2]));
        while (busy) {
            assert_ok(ctx, qkv_engine_step(e, &busy));
            while (qkv_engine_poll(e, &event)) {
                const bool was = event.finish == QKV_FINISH_FAILED;
                if (was) assert_true(event.request == ids[0] && strstr(event.message, "of the text are not finite"));
                failed += was;
                read += event.finish == QKV_FINISH_READ && event.request == ids[1];
                cancelled += event.finish == QKV_FINISH_CANCELLED && event.request == ids[2];
            }
        }
        assert_true(failed == 1 && read == 1 && cancelled == 1);
        qkv_engine_free(e);
        qkv_model_free(m);
        qkv_context_free(ctx);
    }
}

/* ---- misuse ------------------------------------------------------------------------------------------------------ */

static void misuse_is_refused(void **state) {
    (void)state;
    struct qkv_context *ctx = open_context(1);
    struct qkv_model *encoder = make_model(ctx, 0), *decoder = make_model(ctx, 3), *classifier = make_model(ctx, 1);
    const int32_t outside = 500;
    struct qkv_generate_options o = qkv_generate_defaults();
    struct qkv_embed_options pooled = qkv_embed_defaults(encoder);
    struct qkv_engine_request q = qkv_engine_request_defaults(), was;
    struct qkv_engine *e;
    uint64_t id;
    assert_fails(ctx, qkv_engine_create(encoder, &QKV_OPTIONS(qkv_engine_options, .text = CONTEXT + 1), &e),
                 QKV_ARGUMENT, "text is 41, more than the model's context, 40");
    assert_fails(ctx, qkv_engine_create(encoder, &QKV_OPTIONS(qkv_engine_options, .memory = 1000), &e), QKV_MEMORY,
                 "give it more memory, or shorter texts");
    assert_ok(ctx, qkv_engine_create(decoder, NULL, &e));
    q.prompt = "the", q.prompt_size = 3, q.kind = QKV_ENGINE_EMBED;
    assert_fails(ctx, qkv_engine_submit(e, &q, &id), QKV_ARGUMENT, "whose folder records no pooling; give `text`");
    qkv_engine_free(e);
    assert_ok(ctx, qkv_engine_create(classifier, NULL, &e));
    q.kind = QKV_ENGINE_GENERATE;
    assert_fails(ctx, qkv_engine_submit(e, &q, &id), QKV_ARGUMENT, "generating needs a decoder");
    q.kind = QKV_ENGINE_FILL;
    assert_fails(ctx, qkv_engine_submit(e, &q, &id), QKV_ARGUMENT, "fill needs a model with an lm head");
    qkv_engine_free(e);
    assert_ok(ctx, qkv_engine_create(encoder, &QKV_OPTIONS(qkv_engine_options, .text = 20), &e));
    q.kind = (enum qkv_engine_kind)9;
    assert_fails(ctx, qkv_engine_submit(e, &q, &id), QKV_ARGUMENT, "kind is 9");
    q.kind = QKV_ENGINE_EMBED, was = q;
    q.answers = 2;
    assert_fails(ctx, qkv_engine_submit(e, &q, &id), QKV_ARGUMENT, "answers is 2; a text that is embedded");
    q = was, q.prompt = "the queen of England is", q.prompt_size = 23;
    assert_fails(ctx, qkv_engine_submit(e, &q, &id), QKV_ARGUMENT, "has 23 tokens, but the engine reads texts of at");
    q = was, q.kind = QKV_ENGINE_CLASSIFY;
    assert_fails(ctx, qkv_engine_submit(e, &q, &id), QKV_ARGUMENT, "classify needs a model with a classify head");
    q = was, q.kind = QKV_ENGINE_FILL, q.top = 1;
    assert_fails(ctx, qkv_engine_submit(e, &q, &id), QKV_ARGUMENT, "there is no <mask> in the text");
    q.top = 0;
    assert_fails(ctx, qkv_engine_submit(e, &q, &id), QKV_ARGUMENT, "top is 0");
    q = was, o.ids = &outside, o.id_count = 1, q.options = &o;
    assert_fails(ctx, qkv_engine_submit(e, &q, &id), QKV_ARGUMENT, "leave one of them out");
    q.prompt_size = 0;
    assert_fails(ctx, qkv_engine_submit(e, &q, &id), QKV_ARGUMENT, "id 1 of the text is 500");
    q = was, pooled.pool = (enum qkv_pool)77, q.embed = &pooled;
    assert_fails(ctx, qkv_engine_submit(e, &q, &id), QKV_ARGUMENT, "the pool is 77");
    q = was, q.second_size = 3;
    assert_fails(ctx, qkv_engine_submit(e, &q, &id), QKV_ARGUMENT, "second is NULL, but second_size is 3");
    assert_int_equal(qkv_engine_state(e).waiting, 0);
    qkv_engine_free(e);
    qkv_model_free(encoder);
    qkv_model_free(decoder);
    qkv_model_free(classifier);
    qkv_context_free(ctx);
}

int main(void) {
    test_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_have_the_same_bits_in_a_crowd),
        cmocka_unit_test(the_memory_of_texts_is_said_at_the_start),
        cmocka_unit_test(a_text_may_be_given_as_ids),
        cmocka_unit_test(steps_grow_with_texts_of_any_length),
        cmocka_unit_test(all_masks_are_filled),
        cmocka_unit_test(broken_texts_fail_alone_and_others_are_cancelled),
        cmocka_unit_test(misuse_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
