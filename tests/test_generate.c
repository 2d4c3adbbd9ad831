/* test_generate: continuing a text with a small model of random weights, against the same steps one by one with
 * sessions; stops, the end token, a full context, and each refusal with its message. */
/* labels: numeric quick */
#include "test.h"
#include "weights.h"

enum { CONTEXT = 12, MOST = 4096 };

static struct qkv_context *ctx;
static struct qkv_model *model;

static struct qkv_model *make_model(const char *const *settings, size_t count) {
    static const char json[] =
        "{\"format\": \"qkv\", \"version\": 1, \"vocab\": 256, \"d_model\": 16, \"context\": 12, "
        "\"decoder\": {\"layers\": 2, \"attention\": {\"heads\": 2}}}";
    OWNED_SPEC struct qkv_spec spec = {0};
    struct qkv_model *m;
    struct qkv_random r = qkv_random_start(11, 0);
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "fixture", json, sizeof json - 1, settings, count));
    assert_ok(ctx, qkv_model_create(ctx, &spec, 3, &m));
    for (size_t i = 0; i < qkv_model_parameters(m); i++) { /* larger than at the start, so that everything matters */
        float *w = test_weights_mutable(m, i);
        size_t n = qkv_array_elements(qkv_model_parameter(m, i));
        for (size_t k = 0; k < n; k++) w[k] += 0.3F * (float)qkv_random_normal(&r);
    }
    return m;
}

static void give_tokenizer(struct qkv_model *m) {
    struct qkv_tokenizer *tokenizer;
    struct qkv_tokenizer_options options = {.size = sizeof options, .kind = QKV_TOKENIZER_BYTES};
    assert_ok(ctx, qkv_tokenizer_train(ctx, &options, NULL, 0, &tokenizer));
    assert_ok(ctx, qkv_model_set_tokenizer(m, tokenizer));
}

static int setup(void **state) {
    (void)state;
    if (qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, .precision = QKV_PRECISION_AUTO))) return -1;
    model = make_model(NULL, 0);
    give_tokenizer(model);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    qkv_model_free(model);
    qkv_context_free(ctx);
    return 0;
}

struct heard {
    char text[MOST];
    size_t size, calls, limit;
    double first, last; /* times of the first and of the last piece */
};

static bool hear(void *user, const char *text, size_t size) {
    struct heard *h = user;
    assert_true(h->size + size <= MOST);
    h->last = qkv_clock();
    if (!h->calls) h->first = h->last;
    memcpy(h->text + h->size, text, size);
    h->size += size;
    return ++h->calls != h->limit;
}

static struct qkv_generate_options options(double temperature, size_t tokens) {
    struct qkv_generate_options o = {
        .size = sizeof o, .sampling = qkv_sampling_defaults(), .tokens = tokens, .end_id = -1};
    o.sampling.temperature = temperature;
    return o;
}

static struct qkv_generate_report run(const char *prompt, const struct qkv_generate_options *o, struct heard *h) {
    struct qkv_generate_report report;
    memset(h, 0, sizeof *h);
    assert_ok(ctx, qkv_generate(model, prompt, strlen(prompt), o, hear, h, &report));
    return report;
}

/* The bytes that come after a prompt, by a new session for every token: the context is the prompt and what was made, or
 * after an overflow its newer half and what was made since. */
static void run_by_hand(const char *prompt, const struct qkv_sampling *sampling, size_t tokens, char *out) {
    int32_t ids[MOST];
    size_t count = strlen(prompt), from = 0;
    for (size_t i = 0; i < count; i++) ids[i] = (unsigned char)prompt[i];
    for (size_t i = 0; i < tokens; i++) {
        struct qkv_session *session;
        if (count - from > CONTEXT) from = count - CONTEXT / 2;
        assert_ok(ctx, qkv_session_create(model, NULL, &session));
        assert_ok(ctx, qkv_session_append(session, ids + from, count - from));
        assert_ok(ctx, qkv_sample(ctx, sampling, qkv_session_logits(session), 256, ids, count, i, &ids[count]));
        out[i] = (char)ids[count++];
        qkv_session_free(session);
    }
}

static void test_same_as_by_hand(void **state) {
    (void)state;
    static const char *const prompts[] = {"x", "To be or", "exactly 12 b"};
    for (size_t i = 0; i < 9; i++) {
        struct heard h;
        char expected[MOST];
        struct qkv_generate_options o = options(i < 3 ? 0 : 1.2, i % 2 ? 7 : 60);
        o.sampling.seed = i;
        if (i > 5) o.sampling.repeat_penalty = 1.3, o.sampling.repeat_last = (int)i, o.sampling.top_k = 20;
        const double began = qkv_clock();
        struct qkv_generate_report report = run(prompts[i % 3], &o, &h);
        const double took = qkv_clock() - began;
        run_by_hand(prompts[i % 3], &o.sampling, o.tokens, expected);
        assert_int_equal(h.size, o.tokens);
        assert_memory_equal(h.text, expected, o.tokens);
        assert_int_equal(report.tokens, o.tokens);
        assert_int_equal(report.prompt_tokens, strlen(prompts[i % 3]));
        assert_false(report.stopped);
        assert_true(report.prompt_seconds > 0 && report.prompt_seconds <= h.first - began);
        assert_true(report.seconds >= h.last - h.first && report.seconds <= took - report.prompt_seconds);
    }
}

struct several_heard {
    struct heard of[5];
    size_t limit;
};

static bool hear_several(void *user, size_t index, const char *text, size_t size) {
    struct several_heard *h = user;
    return hear(&h->of[index], text, size) && (!h->limit || --h->limit);
}

static bool hear_one_of_many(void *user, size_t index, const char *text, size_t size) {
    return hear((struct heard *)user + index, text, size);
}

/* Past the context, with ends and stops at different places. */
static void test_several_are_those_of_their_seeds(void **state) {
    static const char *const stops[] = {"a"};
    (void)state;
    for (size_t i = 0; i < 8; i++) {
        static struct several_heard h;
        struct qkv_generate_report report, sum = {0};
        struct qkv_generate_options o = options(1.2, i % 2 ? 5 : 60);
        o.sampling.seed = 10 * i;
        if (i > 3) o.end_id = 'e' + (int32_t)i, o.sampling.repeat_penalty = 1.2;
        if (i == 6) o.stops = stops, o.stop_count = 1;
        memset(&h, 0, sizeof h);
        assert_ok(ctx, qkv_generate_several(model, "To be or", 8, &o, 5, hear_several, &h, &report));
        for (size_t k = 0; k < 5; k++) {
            struct heard one;
            const struct qkv_generate_report alone = run("To be or", &o, &one);
            assert_int_equal(h.of[k].size, one.size);
            assert_memory_equal(h.of[k].text, one.text, one.size);
            sum.tokens += alone.tokens;
            o.sampling.seed++;
        }
        assert_int_equal(report.tokens, sum.tokens);
        assert_int_equal(report.prompt_tokens, 8);
    }
    static struct several_heard h;
    struct qkv_generate_options o = options(1, 9);
    h.limit = 7;
    assert_status(ctx, qkv_generate_several(model, "ab", 2, &o, 5, hear_several, &h, NULL), QKV_STOPPED);
    assert_status(ctx, qkv_generate_several(model, "ab", 2, &o, 0, hear_several, &h, NULL), QKV_ARGUMENT);
    assert_message(ctx, "the number of continuations is 0; it must be from 1 to");
    assert_status(ctx, qkv_generate_several(model, "far too long", 13, &o, 2, NULL, NULL, NULL), QKV_ARGUMENT);
    assert_message(ctx, "shorten the prompt by 1 tokens");
}

static void test_stops(void **state) {
    (void)state;
    struct heard whole, h;
    struct qkv_generate_options o = options(1.2, 60);
    run("abc", &o, &whole);
    char stop[4] = {0};
    size_t at = 20;
    /* a stop text cannot hold a zero byte, and it must not come earlier */
    while (memchr(whole.text + at, 0, 3) || memmem(whole.text, at + 2, whole.text + at, 3)) at++;
    assert_true(at + 3 <= whole.size);
    memcpy(stop, whole.text + at, 3);
    o.stops = (const char *const[]){"never comes", stop};
    o.stop_count = 2;
    struct qkv_generate_report report = run("abc", &o, &h);
    assert_true(report.stopped);
    assert_int_equal(h.size, at);
    assert_memory_equal(h.text, whole.text, h.size);
    assert_int_equal(report.tokens, at + 3);
    o = options(1.2, 60);
    o.end_id = (unsigned char)whole.text[30];
    at = (size_t)((char *)memchr(whole.text, whole.text[30], 60) - whole.text);
    report = run("abc", &o, &h);
    assert_true(report.stopped);
    assert_int_equal(h.size, at);
    assert_int_equal(report.tokens, at);
    memset(&h, 0, sizeof h);
    h.limit = 4;
    o = options(1.2, 60);
    assert_status(ctx, qkv_generate(model, "abc", 3, &o, hear, &h, &report), QKV_STOPPED);
    assert_int_equal(h.calls, 4);
}

static void test_little(void **state) {
    (void)state;
    struct heard empty, newline;
    struct qkv_generate_options o = options(0, 20);
    struct qkv_generate_report report = run("", &o, &empty);
    assert_int_equal(report.prompt_tokens, 1);
    run("\n", &o, &newline);
    assert_int_equal(empty.size, 20);
    assert_memory_equal(empty.text, newline.text, 20);
    o.tokens = 0;
    report = run("abc", &o, &empty);
    assert_true(empty.calls == 0 && report.tokens == 0 && report.prompt_tokens == 3);
    o.tokens = 5;
    assert_ok(ctx, qkv_generate(model, "abc", 3, &o, NULL, NULL, NULL)); /* nobody listens */
}

/* Ids past the last token are never chosen; a context of one is full at once. */
static void test_more_ids_than_tokens(void **state) {
    (void)state;
    struct qkv_model *wide = make_model((const char *const[]){"vocab=400", "context=1"}, 2);
    struct qkv_generate_options o = options(1.5, 300);
    struct qkv_generate_report report;
    struct heard h = {0};
    give_tokenizer(wide);
    assert_ok(ctx, qkv_generate(wide, "a", 1, &o, hear, &h, &report));
    assert_int_equal(h.size, 300);
    qkv_model_free(wide);
}

static void refuse(struct qkv_model *m, const char *prompt, const struct qkv_generate_options *o,
                   const char *sentence) {
    struct heard h = {0};
    struct qkv_generate_report report;
    assert_status(ctx, qkv_generate(m, prompt, strlen(prompt), o, hear, &h, &report), QKV_ARGUMENT);
    assert_message(ctx, sentence);
    assert_true(h.calls == 0 && report.tokens == 0);
}

static void test_refusals(void **state) {
    (void)state;
    struct qkv_generate_options o = options(0, 5);
    refuse(model, "thirteen byte", &o,
           "the prompt has 13 tokens, but the model's context holds 12; shorten the prompt by 1");
    o.stops = (const char *const[]){"a", ""};
    o.stop_count = 2;
    refuse(model, "a", &o, "stop text 2 is empty");
    o.stops = (const char *const[]){NULL};
    o.stop_count = 1;
    refuse(model, "a", &o, "stop text 1 is empty");
    o = options(-1, 0);
    refuse(model, "a", &o, "temperature is -1");
    o = options(0, 5);
    o.end_id = 256;
    refuse(model, "a", &o, "end_id is 256; it must be a token, 0 to 255, or -1");
    o.end_id = -2;
    refuse(model, "a", &o, "end_id is -2;");
    o.end_id = -1;
    struct qkv_model *other = make_model(NULL, 0);
    refuse(other, "a", &o, "the model has no tokenizer, so it reads no text");
    qkv_model_free(other);
    other =
        make_model((const char *const[]){"decoder=null", "encoder={\"layers\": 1, \"attention\": {\"heads\": 2}}"}, 2);
    give_tokenizer(other);
    refuse(other, "a", &o, "an encoder");
    qkv_model_free(other);
    other = make_model(NULL, 0);
    give_tokenizer(other);
    test_weights_mutable(other, 0)['a' * 16] = NAN;
    struct heard h = {0};
    assert_status(ctx, qkv_generate(other, "a", 1, &o, hear, &h, NULL), QKV_NUMBER);
    assert_message(ctx, "is not a number");
    qkv_model_free(other);
}

/* ---- tokens and ids --------------------------------------------------------------------------------------------- */

struct taken {
    int32_t ids[3][MOST];
    double log_probability[3][MOST];
    size_t count[3], ends, limit;
};

static bool take(void *user, const struct qkv_made_token *token) {
    struct taken *t = user;
    size_t size;
    const char *text = qkv_tokenizer_token(qkv_model_tokenizer(model), token->id, &size);
    assert_true(token->index < 3 && t->count[token->index] < MOST);
    assert_true(token->text == text && token->size == size);
    t->ends += token->end;
    t->ids[token->index][t->count[token->index]] = token->id;
    t->log_probability[token->index][t->count[token->index]++] = token->log_probability;
    return !t->limit || --t->limit;
}

/* Log-probabilities against the definition, in double, over the scores of sessions; past the context too. */
static void test_tokens_are_told_with_their_log_probabilities(void **state) {
    static struct taken t;
    (void)state;
    for (size_t round = 0; round < 3; round++) {
        struct heard h;
        int32_t ids[MOST] = {'a', 'b', 'c'};
        struct qkv_generate_options o = options(round ? 1.3 : 0, 30);
        memset(&t, 0, sizeof t);
        o.sampling.seed = round, o.sampling.top_k = round == 2 ? 5 : 0;
        o.take_token = take, o.take_user = &t;
        const struct qkv_generate_report report = run("abc", &o, &h);
        assert_true(t.count[0] == 30 && report.tokens == 30 && t.ends == 0);
        for (size_t i = 0, from = 0, count = 3; i < 30; i++, count++) {
            struct qkv_session *session;
            double best = -INFINITY, sum = 0;
            if (count - from > CONTEXT) from = count - CONTEXT / 2;
            assert_ok(ctx, qkv_session_create(model, NULL, &session));
            assert_ok(ctx, qkv_session_append(session, ids + from, count - from));
            const float *x = qkv_session_logits(session);
            for (size_t v = 0; v < 256; v++) best = fmax(best, (double)x[v]);
            for (size_t v = 0; v < 256; v++) sum += exp((double)x[v] - best);
            assert_true(fabs((double)x[t.ids[0][i]] - best - log(sum) - t.log_probability[0][i]) < 1e-4);
            assert_int_equal((unsigned char)h.text[i], t.ids[0][i]);
            ids[count] = t.ids[0][i];
            qkv_session_free(session);
        }
    }
}

static void test_several_tell_the_tokens_of_their_seeds(void **state) {
    static struct several_heard several;
    static struct taken t, one;
    (void)state;
    struct qkv_generate_options o = options(1.2, 40);
    struct heard h;
    o.end_id = 'e';
    o.take_token = take, o.take_user = &t;
    memset(&several, 0, sizeof several);
    memset(&t, 0, sizeof t);
    assert_ok(ctx, qkv_generate_several(model, "ab", 2, &o, 3, hear_several, &several, NULL));
    o.take_user = &one;
    for (size_t k = 0; k < 3; k++, o.sampling.seed++) {
        memset(&one, 0, sizeof one);
        const struct qkv_generate_report report = run("ab", &o, &h);
        assert_int_equal(one.count[0], t.count[k]);
        assert_memory_equal(one.ids[0], t.ids[k], t.count[k] * sizeof(int32_t));
        assert_memory_equal(one.log_probability[0], t.log_probability[k], t.count[k] * sizeof(double));
        assert_int_equal(one.count[0], report.tokens + one.ends); /* the end is told, and is none of the text */
        assert_int_equal(one.ends, report.stopped);
        if (one.ends) assert_int_equal(one.ids[0][one.count[0] - 1], 'e');
    }
    o.take_user = &t;
    memset(&t, 0, sizeof t);
    t.limit = 4;
    assert_status(ctx, qkv_generate(model, "ab", 2, &o, NULL, NULL, NULL), QKV_STOPPED);
    assert_message(ctx, "stopped by the caller");
    t.limit = 4;
    assert_status(ctx, qkv_generate_several(model, "ab", 2, &o, 3, NULL, NULL, NULL), QKV_STOPPED);
}

/* More than run side by side at once. */
static void test_many_are_those_of_their_seeds(void **state) {
    enum { MANY = 600 };
    static struct heard all[MANY];
    (void)state;
    struct qkv_generate_options o = options(1.2, 5);
    struct qkv_generate_report report;
    struct heard one;
    memset(all, 0, sizeof all);
    assert_ok(ctx, qkv_generate_several(model, "abc", 3, &o, MANY, hear_one_of_many, all, &report));
    assert_true(report.tokens == 5 * MANY && report.prompt_tokens == 3 && !report.stopped);
    for (size_t i = 0; i < MANY; i += i < 250 || i > 520 ? 53 : 3) {
        o.sampling.seed = i;
        run("abc", &o, &one);
        assert_int_equal(all[i].size, one.size);
        assert_memory_equal(all[i].text, one.text, one.size);
    }
}

static void test_ids_are_a_prompt(void **state) {
    (void)state;
    static const int32_t ids[] = {'T', 'o', ' ', 'b', 'e'};
    struct qkv_generate_options o = options(1.2, 20);
    struct qkv_generate_report report;
    struct heard text, h = {0};
    run("To be", &o, &text);
    o.ids = ids, o.id_count = 5;
    assert_ok(ctx, qkv_generate(model, NULL, 0, &o, hear, &h, &report));
    assert_int_equal(report.prompt_tokens, 5);
    assert_int_equal(h.size, text.size);
    assert_memory_equal(h.text, text.text, h.size);
    refuse(model, "a", &o, "the prompt is given as a text and as ids");
    o.ids = (const int32_t[]){'a', 256};
    o.id_count = 2;
    refuse(model, "", &o, "id 2 of the prompt is 256, but the model's ids are 0 to 255");
    o.ids = (const int32_t[]){-1};
    o.id_count = 1;
    refuse(model, "", &o, "id 1 of the prompt is -1");
    o.id_count = 0; /* as an empty text */
    memset(&h, 0, sizeof h);
    assert_ok(ctx, qkv_generate(model, NULL, 0, &o, hear, &h, &report));
    o.ids = NULL;
    run("", &o, &text);
    assert_memory_equal(h.text, text.text, text.size);
}

/* A text that grows, and one that changes in its middle, have the tokens that they have in a new session; only what is
 * new is read. */
static void test_a_session_goes_on_with_what_is_new(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t same, tokens; /* with what the session holds; to be made */
        bool full;
    } turns[] = {{"To", 0, 3, false},
                 {"To be", 2, 3, false},
                 {"To be", 5, 2, false},
                 {"To do so", 3, 2, false},
                 {"To do so", 8, 60, true}};
    struct qkv_session *session;
    assert_ok(ctx, qkv_session_create(model, NULL, &session));
    for (size_t i = 0; i < sizeof turns / sizeof *turns; i++) {
        int32_t ids[CONTEXT];
        const size_t count = strlen(turns[i].text);
        for (size_t k = 0; k < count; k++) ids[k] = (unsigned char)turns[i].text[k];
        struct qkv_generate_options o = options(1.2, turns[i].tokens);
        struct heard alone, h = {0};
        struct qkv_generate_report report;
        o.sampling.seed = i;
        run(turns[i].text, &o, &alone);
        o.ids = ids, o.id_count = count;
        assert_ok(ctx, qkv_session_generate(session, turns[i].same, &o, hear, &h, &report));
        assert_int_equal(report.prompt_tokens, count - (turns[i].same < count ? turns[i].same : count - 1));
        assert_int_equal(report.tokens, turns[i].full ? CONTEXT - count + 1 : turns[i].tokens);
        assert_int_equal(h.size, report.tokens);
        assert_memory_equal(h.text, alone.text, h.size);
        assert_int_equal(qkv_session_length(session), count + report.tokens - 1);
        assert_false(report.stopped);
    }
    struct qkv_generate_options o = options(0, 1);
    assert_int_equal(qkv_session_generate(session, 0, &o, NULL, NULL, NULL), QKV_ARGUMENT);
    assert_non_null(strstr(qkv_message(ctx), "give at least one"));
    o.ids = (const int32_t[CONTEXT + 1]){1}, o.id_count = 1;
    assert_int_equal(qkv_session_generate(session, CONTEXT + 1, &o, NULL, NULL, NULL), QKV_ARGUMENT);
    assert_non_null(strstr(qkv_message(ctx), "positions cannot be kept: the session holds 12"));
    o.id_count = CONTEXT + 1;
    assert_int_equal(qkv_session_generate(session, 0, &o, NULL, NULL, NULL), QKV_ARGUMENT);
    assert_non_null(strstr(qkv_message(ctx), "shorten the prompt by 1 "));
    qkv_session_free(session);
}

static bool count_ids(void *user, const struct qkv_made_token *token) {
    assert_true(!token->text && !token->size && token->id >= 0 && token->id < 256);
    ++*(size_t *)user;
    return true;
}

static void test_a_model_without_a_tokenizer_takes_ids(void **state) {
    (void)state;
    struct qkv_model *mute = make_model(NULL, 0);
    struct qkv_generate_options o = options(1, 20);
    struct heard h = {0};
    size_t count = 0;
    o.ids = (const int32_t[]){5, 6, 7};
    o.id_count = 3;
    o.take_token = count_ids, o.take_user = &count;
    assert_ok(ctx, qkv_generate(mute, NULL, 0, &o, hear, &h, NULL));
    assert_true(count == 20 && h.calls == 0);
    assert_ok(ctx, qkv_generate_several(mute, NULL, 0, &o, 2, NULL, NULL, NULL));
    assert_int_equal(count, 60);
    o.id_count = 0; /* from token 0 */
    assert_ok(ctx, qkv_generate(mute, NULL, 0, &o, NULL, NULL, NULL));
    o.stops = (const char *const[]){"a"};
    o.stop_count = 1;
    refuse(mute, "", &o, "the model has no tokenizer");
    qkv_model_free(mute);
}

static void test_long_prompts_are_what_is_kept_of_them(void **state) {
    static const char prompt[] = "exactly twenty-one by", start[] = "exactly twen", end[] = "wenty-one by";
    (void)state;
    struct qkv_generate_options o = options(1.2, 30);
    struct qkv_generate_report report;
    struct heard whole, cut;
    for (size_t i = 0; i < 2; i++) {
        o.long_prompt = i ? QKV_LONG_KEEP_END : QKV_LONG_KEEP_START;
        report = run(prompt, &o, &whole);
        assert_true(report.long_prompt == 21 && report.prompt_tokens == CONTEXT && report.tokens == 30);
        report = run(i ? end : start, &o, &cut);
        assert_int_equal(report.long_prompt, 0);
        assert_memory_equal(whole.text, cut.text, 30);
    }
    o.long_prompt = QKV_LONG_SKIP;
    report = run(prompt, &o, &whole);
    assert_true(report.long_prompt == 21 && !report.prompt_tokens && !report.tokens && !whole.calls);
    assert_ok(ctx, qkv_generate_several(model, prompt, 21, &o, 3, NULL, NULL, &report));
    assert_true(report.long_prompt == 21 && !report.tokens);
    int32_t ids[21];
    for (size_t i = 0; i < 21; i++) ids[i] = (unsigned char)prompt[i];
    o.ids = ids, o.id_count = 21, o.long_prompt = QKV_LONG_KEEP_END;
    memset(&whole, 0, sizeof whole);
    assert_ok(ctx, qkv_generate(model, NULL, 0, &o, hear, &whole, &report));
    assert_memory_equal(whole.text, cut.text, 30);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_by_hand),
        cmocka_unit_test(test_several_are_those_of_their_seeds),
        cmocka_unit_test(test_stops),
        cmocka_unit_test(test_little),
        cmocka_unit_test(test_more_ids_than_tokens),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_tokens_are_told_with_their_log_probabilities),
        cmocka_unit_test(test_several_tell_the_tokens_of_their_seeds),
        cmocka_unit_test(test_many_are_those_of_their_seeds),
        cmocka_unit_test(test_ids_are_a_prompt),
        cmocka_unit_test(test_a_session_goes_on_with_what_is_new),
        cmocka_unit_test(test_a_model_without_a_tokenizer_takes_ids),
        cmocka_unit_test(test_long_prompts_are_what_is_kept_of_them),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
