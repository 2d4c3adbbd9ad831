/* Evaluation of a text file: against windows made by hand, against a model that knows nothing, over a text of many
 * pieces, and refusals. */
/* labels: numeric quick */
#include "train_fixture.h"

#define FIXTURE_CONTEXT fixture_context(1)
#include "check_progress.h"
#include "context_fixture.h"
#include "weights.h"

/* A model with a tokenizer trained on the text at `path`. */
static struct qkv_model *make_model(enum qkv_tokenizer_kind kind, const char *path, const char *const *settings) {
    struct qkv_tokenizer_options options = {.size = sizeof options, .kind = kind, .vocab = 280};
    struct qkv_tokenizer *tokenizer;
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, settings);
    struct qkv_model *model;
    size_t size = 0;
    char *text = test_read_file(path, &size);
    if (kind == QKV_TOKENIZER_BYTES) options.vocab = 0;
    assert_ok(ctx, qkv_tokenizer_train(ctx, &options, text, size, &tokenizer));
    free(text);
    spec.vocab = spec.source_vocab = qkv_tokenizer_vocab(tokenizer);
    assert_ok(ctx, qkv_model_create(ctx, &spec, 3, &model));
    assert_ok(ctx, qkv_model_set_tokenizer(model, tokenizer));
    struct qkv_random random = test_random(20); /* far from uniform */
    for (size_t i = 0; i < qkv_model_parameters(model); i++)
        if (qkv_model_parameter(model, i)->rank >= 2)
            test_fill(&random, test_weights_mutable(model, i), qkv_array_elements(qkv_model_parameter(model, i)), 0.2);
    return model;
}

/* The same loss, one window at a time. */
static double loss_by_hand(struct qkv_model *model, const char *path, size_t T, size_t *tokens, size_t *bytes) {
    struct qkv_pass_options options = {.size = sizeof options, .B = 1, .T = T};
    struct qkv_pass *pass;
    int32_t *ids;
    size_t size = 0, count, counted;
    double nll = 0;
    char *text = test_read_file(path, &size);
    const struct qkv_tokenizer *tokenizer = qkv_model_tokenizer(model);
    assert_ok(ctx, qkv_tokenizer_encode(ctx, tokenizer, text, size, true, &ids, &count));
    assert_ok(ctx, qkv_pass_create(model, &options, &pass));
    for (size_t at = 0; at + 1 < count; at += T) {
        size_t n = count - 1 - at < T ? count - 1 - at : T;
        struct qkv_batch batch = {.B = 1, .T = n, .ids = ids + at, .targets = ids + at + 1, .loss_count = 1};
        assert_ok(ctx, qkv_pass_forward(pass, &batch));
        nll += qkv_pass_loss(pass, &counted);
        assert_int_equal(counted, n);
    }
    size_t first;
    assert_non_null(qkv_tokenizer_token(tokenizer, ids[0], &first));
    *tokens = count - 1;
    *bytes = size - first;
    qkv_pass_free(pass);
    qkv_free(ids);
    free(text);
    return nll / (double)*tokens;
}

/* In fp32: in bf16 batches of another shape are summed in another order, and losses differ by more than 1e-6. */
static void windows_are_those_made_by_hand(void **state) {
    (void)state;
    const enum qkv_precision usual = qkv_context_precision(ctx);
    qkv_context_set_precision(ctx, QKV_FP32);
    static const enum qkv_tokenizer_kind kinds[] = {QKV_TOKENIZER_BYTES, QKV_TOKENIZER_CHARS, QKV_TOKENIZER_BPE};
    static const size_t sizes[] = {2, 3, 16, 17, 18, 33, 128, 129, 130, 1000};
    const char *path = test_path("hand.txt");
    for (size_t k = 0; k < TEST_COUNT(kinds); k++) {
        fixture_text(path, 1500, 8);
        struct qkv_model *model = make_model(kinds[k], path, NULL);
        for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
            struct qkv_evaluate_options options = {
                .size = sizeof options, .batch = 1 + i % 5, .context = i % 3 ? 0 : 7};
            struct qkv_evaluation e;
            size_t tokens, bytes;
            fixture_text(path, sizes[i], 8);
            if (kinds[k] == QKV_TOKENIZER_BPE && sizes[i] < 16) continue;
            const double began = qkv_clock();
            assert_ok(ctx, qkv_evaluate_text(model, &(const char *){path}, 1, &options, NULL, NULL, &e));
            const double took = qkv_clock() - began;
            double loss = loss_by_hand(model, path, options.context ? options.context : 16, &tokens, &bytes);
            assert_int_equal(e.tokens, tokens);
            assert_int_equal(e.bytes, bytes);
            assert_close(e.loss, loss, 1e-6 * loss);
            assert_close(e.perplexity, exp(e.loss), 1e-9 * e.perplexity);
            double bits = e.loss * (double)e.tokens / 0.69314718055994531 / (double)e.bytes;
            assert_close(e.bits_per_byte, bits, 1e-9 * bits);
            assert_true(e.seconds > 0 && e.seconds <= took);
        }
        qkv_model_free(model);
    }
    qkv_context_set_precision(ctx, usual);
}

/* All weights zero: every token has probability 1/vocab. The text is longer than a piece of the stream. */
static void knowing_nothing_costs_the_logarithm_of_vocab(void **state) {
    (void)state;
    static const char *const settings[] = {"d_model=8", "decoder.layers=1", "decoder.ffn.d_ff=8", "context=64", NULL};
    const char *path = test_path("pieces.txt");
    const size_t size = ((size_t)1 << 20) + 12345;
    fixture_text(path, size, 9);
    struct qkv_model *model = make_model(QKV_TOKENIZER_WORDS, path, settings);
    struct qkv_evaluation e;
    double bits = log2(qkv_model_spec(model)->vocab);
    for (size_t i = 0; i < qkv_model_parameters(model); i++)
        memset(test_weights_mutable(model, i), 0, qkv_array_elements(qkv_model_parameter(model, i)) * sizeof(float));
    assert_ok(ctx, qkv_evaluate_text(model, &(const char *){path}, 1, NULL, NULL, NULL, &e));
    assert_true(e.tokens > 100000 && e.bytes < size && e.bytes > size - 20);
    assert_close(e.loss / log(2), bits, 1e-5);
    assert_close(e.perplexity, qkv_model_spec(model)->vocab, 1e-2);
    assert_close(e.bits_per_byte, bits * (double)e.tokens / (double)e.bytes, 1e-5);
    qkv_model_free(model);
}

/* The tokens do not spell these texts: unknown characters and words, lost capitals and accents, dropped white space,
 * runs of unknown characters that are one token, and a piece without tokens. Bytes still are those of the text. */
static void bytes_are_those_of_the_text(void **state) {
    (void)state;
    static const char wordpiece[] =
        "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[],"
        "\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,"
        "\"strip_accents\":true,\"lowercase\":true},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
        "\"post_processor\":null,\"decoder\":null,\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\","
        "\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":100,"
        "\"vocab\":{\"[UNK]\":0,\"the\":1,\"cat\":2,\"##s\":3,\"cafe\":4,\"sit\":5}}}";
    static const char unigram[] =
        "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[],\"normalizer\":null,"
        "\"pre_tokenizer\":null,\"post_processor\":null,\"decoder\":null,\"model\":{\"type\":\"Unigram\","
        "\"unk_id\":0,\"byte_fallback\":false,\"vocab\":[[\"<unk>\",0.0],[\"h\",-2.0],[\"hello\",-3.0],"
        "[\" \",-2.0]]}}";
    static const struct {
        const char *tokenizer, *text; /* of a JSON, or NULL: what `from` has, learnt as `kind` */
        enum qkv_tokenizer_kind kind;
        const char *from;
        size_t first, tokens, unknown; /* bytes of the first token, which is not predicted; of the others */
    } cases[] = {
        {NULL, "hello 123 456\n", QKV_TOKENIZER_CHARS, "hello world 3\n", 1, 13, 5},
        {NULL, "\xC3\xA9 h\xE2\x82\xAC\xFF!\n", QKV_TOKENIZER_CHARS, "hello world 3\n", 2, 6, 3},
        {NULL, "  the  cat\tsat \n on the mat \n\n", QKV_TOKENIZER_WHITESPACE, "the cat sat on the", 5, 5, 2},
        {wordpiece, " The Caf\xC3\xA9  cats \xE2\x82\xAC\xE2\x82\xAC SIT. \n", QKV_TOKENIZER_BYTES, NULL, 4, 6, 2},
        {unigram, "h hello xyz\xC3\xA9 h", QKV_TOKENIZER_BYTES, NULL, 1, 6, 1},
    };
    const char *path = test_path("unknown.txt"), *json = test_path("tokenizer.json");
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qkv_tokenizer_options options = {
            .size = sizeof options, .kind = cases[i].kind, .vocab = cases[i].from ? 5 : 0};
        struct qkv_tokenizer *tokenizer;
        struct qkv_model *model;
        struct qkv_evaluation e;
        if (cases[i].kind != QKV_TOKENIZER_WHITESPACE) options.vocab = 0;
        if (cases[i].tokenizer) {
            test_write_file(json, cases[i].tokenizer, strlen(cases[i].tokenizer));
            assert_ok(ctx, qkv_tokenizer_load(ctx, json, &tokenizer));
        } else {
            assert_ok(ctx, qkv_tokenizer_train(ctx, &options, cases[i].from, strlen(cases[i].from), &tokenizer));
        }
        OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, NULL);
        spec.vocab = spec.source_vocab = qkv_tokenizer_vocab(tokenizer);
        assert_ok(ctx, qkv_model_create(ctx, &spec, 3, &model));
        assert_ok(ctx, qkv_model_set_tokenizer(model, tokenizer));
        test_write_file(path, cases[i].text, strlen(cases[i].text));
        assert_ok(ctx, qkv_evaluate_text(model, &(const char *){path}, 1, NULL, NULL, NULL, &e));
        if (e.bytes != strlen(cases[i].text) - cases[i].first || e.tokens != cases[i].tokens ||
            e.unknown != cases[i].unknown)
            fail_msg("case %zu: %zu bytes of %zu, %zu tokens, %zu unknown", i, e.bytes, strlen(cases[i].text), e.tokens,
                     e.unknown);
        const double bits = e.loss * (double)e.tokens / 0.69314718055994531 / (double)e.bytes;
        assert_close(e.bits_per_byte, bits, 1e-9 * bits);
        qkv_model_free(model);
    }
}

/* The end token between files is predicted, and no byte of them. */
static void the_end_between_files_has_no_bytes(void **state) {
    (void)state;
    const char *path = test_path("ends.txt"), *paths[] = {path, path}, *const specials[] = {QKV_TOKEN_END};
    const struct qkv_tokenizer_options options = {
        .size = sizeof options, .kind = QKV_TOKENIZER_CHARS, .specials = specials, .special_count = 1};
    struct qkv_tokenizer *tokenizer;
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, NULL);
    struct qkv_model *model;
    struct qkv_evaluation one, two;
    fixture_text(path, 400, 8);
    assert_ok(ctx, qkv_tokenizer_train(ctx, &options, "the cat sat on mat. a dog ran home. end.\n", 41, &tokenizer));
    spec.vocab = spec.source_vocab = qkv_tokenizer_vocab(tokenizer);
    assert_ok(ctx, qkv_model_create(ctx, &spec, 3, &model));
    assert_ok(ctx, qkv_model_set_tokenizer(model, tokenizer));
    assert_ok(ctx, qkv_evaluate_text(model, paths, 1, NULL, NULL, NULL, &one));
    assert_ok(ctx, qkv_evaluate_text(model, paths, 2, NULL, NULL, NULL, &two));
    assert_int_equal(two.tokens, 2 * one.tokens + 2);
    assert_int_equal(two.bytes, one.bytes + 400);
    qkv_model_free(model);
}

static void what_cannot_be_evaluated_is_refused(void **state) {
    (void)state;
    const char *path = test_path("bad.txt");
    struct qkv_evaluation e;
    fixture_text(path, 500, 8);
    struct qkv_model *model = make_model(QKV_TOKENIZER_CHARS, path, NULL);
    struct qkv_evaluate_options wide = {.size = sizeof wide, .context = 17},
                                vast = {.size = sizeof vast, .batch = SIZE_MAX / 4};
    assert_status(ctx, qkv_evaluate_text(model, &(const char *){path}, 1, &wide, NULL, NULL, &e), QKV_ARGUMENT);
    assert_message(ctx, "context is 17 but the model's is 16");
    assert_status(ctx, qkv_evaluate_text(model, &(const char *){path}, 1, &vast, NULL, NULL, &e), QKV_MEMORY);
    test_write_file(path, "t", 1);
    assert_status(ctx, qkv_evaluate_text(model, &(const char *){path}, 1, NULL, NULL, NULL, &e), QKV_FORMAT);
    assert_message(ctx, "has 1 token, so there is none to predict");
    test_write_file(path, "", 0);
    assert_status(ctx, qkv_evaluate_text(model, &(const char *){path}, 1, NULL, NULL, NULL, &e), QKV_FORMAT);
    assert_message(ctx, "bad.txt is empty");
    test_write_file(path, "the\0cat", 7);
    assert_status(ctx, qkv_evaluate_text(model, &(const char *){path}, 1, NULL, NULL, NULL, &e), QKV_FORMAT);
    assert_message(ctx, "byte 3 is NUL");
    unlink(path);
    assert_status(ctx, qkv_evaluate_text(model, &(const char *){path}, 1, NULL, NULL, NULL, &e), QKV_FILE);
    assert_message(ctx, "bad.txt");
    fixture_text(path, 500, 8);
    test_weights_mutable(model, 0)[3] = NAN;
    test_fill(&(struct qkv_random){.key = {1, 2}}, test_weights_mutable(model, 0) + 4, 28, 0.1);
    for (size_t i = 0; i < qkv_array_elements(qkv_model_parameter(model, 0)); i++)
        test_weights_mutable(model, 0)[i] = NAN;
    assert_status(ctx, qkv_evaluate_text(model, &(const char *){path}, 1, NULL, NULL, NULL, &e), QKV_NUMBER);
    assert_message(ctx, "not a finite number");
    qkv_model_free(model);
}

static void models_that_cannot_predict_text_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *settings[4], *message;
    } bad[] = {
        {{"vocab=280", "decoder.attention.causal=false"}, "decoder.attention.causal is false"},
        {{"vocab=280", "head.kind=none", "tie=none"}, "no lm head"},
        {{"vocab=280", "encoder={\"layers\":1,\"attention\":{\"heads\":2}}"}, "an encoder beside its decoder"},
        {{"vocab=280"}, "has no tokenizer"},
    };
    const char *path = test_path("models.txt");
    fixture_text(path, 500, 8);
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, bad[i].settings);
        struct qkv_model *model;
        struct qkv_evaluation e;
        assert_ok(ctx, qkv_model_create(ctx, &spec, 3, &model));
        assert_int_not_equal(qkv_evaluate_text(model, &(const char *){path}, 1, NULL, NULL, NULL, &e), QKV_OK);
        assert_message(ctx, bad[i].message);
        qkv_model_free(model);
    }
}

static bool count_down(void *user, const char *what, double done, double total) {
    assert_string_equal(what, "evaluating");
    assert_true(done >= 0 && done <= total);
    return --*(int *)user > 0;
}

static void evaluation_can_be_stopped(void **state) {
    (void)state;
    const char *path = test_path("stop.txt");
    fixture_text(path, 3000, 8);
    struct qkv_model *model = make_model(QKV_TOKENIZER_CHARS, path, NULL);
    struct qkv_evaluation e;
    int calls = 5;
    assert_status(ctx, qkv_evaluate_text(model, &(const char *){path}, 1, NULL, count_down, &calls, &e), QKV_STOPPED);
    assert_int_equal(calls, 0);
    assert_message(ctx, "stopped while evaluating");
    qkv_model_free(model);
}

/* Lines of JSON whose texts have `bytes` bytes together. */
static void write_json_lines(const char *path, size_t bytes) {
    static const char line[] = "{\"text\": \"the cat sat on the mat. a dog ran home.\"}\n";
    const size_t n = sizeof line - 1, count = bytes / n + 1;
    char *text = malloc(count * n);
    for (size_t i = 0; i < count; i++) memcpy(text + i * n, line, n);
    test_write_file(path, text, count * n);
    free(text);
}

/* Over texts of several pieces, over documents, and of two models. */
static void the_progress_of_an_evaluation_never_falls(void **state) {
    (void)state;
    static const char *const settings[] = {"d_model=8", "decoder.layers=1", "decoder.ffn.d_ff=8", "context=64", NULL};
    static const char *const parts[] = {"evaluating"};
    const size_t piece = (size_t)1 << 20;
    const char *texts[] = {test_path("progress_1.txt"), test_path("progress_2.txt")}, *twice[] = {texts[1], texts[1]};
    const char *documents[] = {test_path("progress_1.jsonl"), test_path("progress_2.jsonl")};
    fixture_text(texts[0], piece + 777, 9);
    fixture_text(texts[1], 3000, 10);
    write_json_lines(documents[0], piece + 777);
    write_json_lines(documents[1], 3000);
    struct qkv_model *model = make_model(QKV_TOKENIZER_WORDS, texts[1], settings);
    for (size_t way = 0; way < 3; way++) {
        struct progress_check heard = {.count = 0};
        struct qkv_evaluation e;
        struct qkv_divergence against;
        const char *const *paths = way == 1 ? documents : texts;
        if (way == 2)
            assert_ok(ctx, qkv_evaluate_against(model, model, twice, 2, NULL, check_progress, &heard, &against));
        else
            assert_ok(ctx, qkv_evaluate_text(model, paths, 2, NULL, check_progress, &heard, &e));
        check_progress_of(&heard, parts, 1);
    }
    qkv_model_free(model);
}

/* ---- the validation windows of training ------------------------------------------------------------------------- */

struct witness { /* a tokenizer of bytes over a text in which every token says where it is */
    struct qkv_model *model;
    struct qkv_pass *pass;
    struct qkv_tokens tokens;
    int32_t ids[64], targets[64];
};

/* Windows spread evenly are fixed, reach the text's end, and all of them together are the whole text. */
static void validation_windows_are_fixed_and_cover(void **state) {
    (void)state;
    const char *path = test_path("windows.txt"), *file = test_path("windows.bin");
    struct witness w;
    struct qkv_text_facts facts = {.tokenizer = 1};
    fixture_text(path, 400, 8);
    w.model = make_model(QKV_TOKENIZER_BYTES, path, NULL);
    facts.vocab = 256;
    assert_ok(ctx, fixture_tokens(ctx, file, path, qkv_model_tokenizer(w.model), &facts, NULL, NULL));
    assert_ok(ctx, qkv_tokens_open(ctx, file, &facts, &w.tokens));
    assert_ok(ctx, qkv_pass_create(w.model, &QKV_OPTIONS(qkv_pass_options, .B = 4, .T = 16), &w.pass));
    double loss[4], whole;
    static const size_t windows[] = {0, 24, 1000, 5};
    for (size_t i = 0; i < 4; i++) {
        struct qkv_validation v = {.pass = w.pass,
                                   .tokens = &w.tokens,
                                   .B = 4,
                                   .T = 16,
                                   .windows = windows[i],
                                   .ids = w.ids,
                                   .targets = w.targets};
        assert_ok(ctx, qkv_validate(ctx, &v, NULL, NULL, &loss[i]));
        double again;
        assert_ok(ctx, qkv_validate(ctx, &v, NULL, NULL, &again));
        assert_true(again == loss[i]);
    }
    size_t tokens, bytes;
    whole = loss_by_hand(w.model, path, 16, &tokens, &bytes);
    assert_close(loss[0], whole, 1e-6 * whole); /* 399 targets: 24 windows and a tail of 15 */
    assert_true(loss[0] == loss[1] && loss[0] == loss[2]);
    double spread = 0; /* five windows from 0 to 383, 95.75 apart */
    static const size_t starts[] = {0, 95, 191, 287, 383};
    for (size_t i = 0; i < 5; i++) {
        struct qkv_batch batch = {.B = 1, .T = 16, .ids = w.ids, .targets = w.targets};
        assert_ok(ctx, qkv_tokens_window(ctx, &w.tokens, starts[i], 16, w.ids, w.targets));
        assert_ok(ctx, qkv_pass_forward(w.pass, &batch));
        spread += qkv_pass_loss(w.pass, &tokens) / 5;
    }
    assert_close(loss[3], spread, 1e-6 * spread);
    qkv_pass_free(w.pass);
    qkv_tokens_close(&w.tokens);
    qkv_model_free(w.model);
}

/* ---- two models -------------------------------------------------------------------------------------------------- */

/* Changes every matrix a little, or a lot. */
static void shake(struct qkv_model *model, uint64_t seed, double scale) {
    struct qkv_random random = test_random(seed);
    for (size_t i = 0; i < qkv_model_parameters(model); i++) {
        const struct qkv_array *array = qkv_model_parameter(model, i);
        float *numbers = test_weights_mutable(model, i);
        for (size_t k = 0; array->rank >= 2 && k < qkv_array_elements(array); k++)
            numbers[k] += (float)(scale * qkv_random_normal(&random));
    }
}

/* A row of scores in double precision: the log-probabilities; returns the likeliest token. */
static size_t log_softmax(const float *scores, size_t V, double *out) {
    size_t best = 0;
    double sum = 0;
    for (size_t v = 0; v < V; v++) best = scores[v] > scores[best] ? v : best;
    for (size_t v = 0; v < V; v++) sum += exp((double)scores[v] - (double)scores[best]);
    for (size_t v = 0; v < V; v++) out[v] = (double)scores[v] - (double)scores[best] - log(sum);
    return best;
}

/* The same numbers from passes over one window at a time. */
static void divergence_by_hand(struct qkv_model *model, struct qkv_model *other, const char *path, size_t T,
                               struct qkv_divergence *out) {
    struct qkv_model *models[] = {model, other};
    struct qkv_pass *passes[2];
    const size_t V = (size_t)qkv_model_spec(model)->vocab;
    double p[2][300], nll[2] = {0}, sum = 0, squares = 0;
    size_t size = 0, count, same = 0, best[2];
    int32_t *ids;
    char *text = test_read_file(path, &size);
    assert_true(V <= TEST_COUNT(p[0]));
    assert_ok(ctx, qkv_tokenizer_encode(ctx, qkv_model_tokenizer(model), text, size, true, &ids, &count));
    for (size_t i = 0; i < 2; i++)
        assert_ok(ctx, qkv_pass_create(models[i], &QKV_OPTIONS(qkv_pass_options, .B = 1, .T = T, .logits = true),
                                       &passes[i]));
    for (size_t at = 0; at + 1 < count; at += T) {
        const size_t n = count - 1 - at < T ? count - 1 - at : T;
        for (size_t i = 0; i < 2; i++)
            assert_ok(ctx, qkv_pass_forward(passes[i], &(struct qkv_batch){.B = 1, .T = n, .ids = ids + at}));
        for (size_t t = 0; t < n; t++) {
            double divergence = 0;
            for (size_t i = 0; i < 2; i++) {
                best[i] = log_softmax((const float *)qkv_pass_output(passes[i]).data + t * V, V, p[i]);
                nll[i] -= p[i][ids[at + t + 1]];
            }
            for (size_t v = 0; v < V; v++) divergence += exp(p[1][v]) * (p[1][v] - p[0][v]);
            sum += divergence, squares += divergence * divergence, same += best[0] == best[1];
        }
    }
    const double n = (double)(count - 1);
    *out = (struct qkv_divergence){.model = {.loss = nll[0] / n, .tokens = count - 1},
                                   .other = {.loss = nll[1] / n},
                                   .divergence = sum / n,
                                   .divergence_error = sqrt((squares / n - sum / n * (sum / n)) / (n - 1)),
                                   .same = (double)same / n};
    for (size_t i = 0; i < 2; i++) qkv_pass_free(passes[i]);
    qkv_free(ids);
    free(text);
}

static void the_divergence_of_two_models_is_that_by_hand(void **state) {
    (void)state;
    static const double scales[] = {0, 0.01, 0.5};
    const char *path = test_path("both.txt");
    fixture_text(path, 1000, 8);
    struct qkv_model *model = make_model(QKV_TOKENIZER_BYTES, path, NULL),
                     *other = make_model(QKV_TOKENIZER_BYTES, path, NULL);
    const struct qkv_evaluate_options options = {.size = sizeof options, .context = 7};
    for (size_t i = 0; i < TEST_COUNT(scales); i++) {
        struct qkv_divergence got, expected;
        struct qkv_evaluation alone;
        shake(model, 30 + i, scales[i]);
        assert_ok(ctx, qkv_evaluate_against(model, other, &(const char *){path}, 1, &options, NULL, NULL, &got));
        divergence_by_hand(model, other, path, 7, &expected);
        assert_int_equal(got.model.tokens, expected.model.tokens);
        assert_close(got.model.loss, expected.model.loss, 1e-6 * expected.model.loss);
        assert_close(got.other.loss, expected.other.loss, 1e-6 * expected.other.loss);
        assert_close(got.divergence, expected.divergence, 1e-6 + 1e-5 * expected.divergence);
        assert_close(got.divergence_error, expected.divergence_error, 1e-6 + 1e-3 * expected.divergence_error);
        assert_true(fabs(got.same - expected.same) < 1e-12);
        assert_true(i ? got.divergence > 0 && got.divergence_error > 0 : got.divergence == 0 && got.same == 1);
        assert_ok(ctx, qkv_evaluate_text(model, &(const char *){path}, 1, &options, NULL, NULL, &alone));
        assert_int_equal(got.model.bytes, alone.bytes);
        /* in bf16 batches of another shape are summed in another order */
        assert_close(got.model.loss, alone.loss, qkv_context_precision(ctx) == QKV_FP32 ? 1e-5 : 1e-2);
    }
    qkv_model_free(model);
    qkv_model_free(other);
}

static void models_that_cannot_be_compared_are_refused(void **state) {
    (void)state;
    static const char *const longer[] = {"context=32", NULL}, *const letters[] = {NULL};
    const char *path = test_path("refused.txt"), *upper = test_path("upper.txt");
    fixture_text(path, 500, 8);
    size_t size = 0;
    char *text = test_read_file(path, &size);
    for (size_t i = 0; i < size; i++)
        if (text[i] == 'e') text[i] = 'E';
    test_write_file(upper, text, size);
    free(text);
    struct qkv_model *model = make_model(QKV_TOKENIZER_CHARS, path, NULL);
    struct qkv_divergence d;
#define AGAINST(other, options, says)                                                                                  \
    do {                                                                                                               \
        struct qkv_model *other_ = other;                                                                              \
        assert_status(ctx, qkv_evaluate_against(model, other_, &(const char *){path}, 1, options, NULL, NULL, &d),     \
                      QKV_ARGUMENT);                                                                                   \
        assert_message(ctx, says);                                                                                     \
        qkv_model_free(other_);                                                                                        \
    } while (0)
    AGAINST(make_model(QKV_TOKENIZER_BYTES, path, NULL), NULL, "the two models have different vocabularies, of ");
    AGAINST(make_model(QKV_TOKENIZER_CHARS, upper, letters), NULL, "have different vocabularies: token ");
    AGAINST(make_model(QKV_TOKENIZER_CHARS, path, longer), &QKV_OPTIONS(qkv_evaluate_options, .context = 20),
            "context is 20 but the smaller context of the two models is 16");
#undef AGAINST
    qkv_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_are_those_made_by_hand),
        cmocka_unit_test(knowing_nothing_costs_the_logarithm_of_vocab),
        cmocka_unit_test(bytes_are_those_of_the_text),
        cmocka_unit_test(the_end_between_files_has_no_bytes),
        cmocka_unit_test(what_cannot_be_evaluated_is_refused),
        cmocka_unit_test(models_that_cannot_predict_text_are_refused),
        cmocka_unit_test(the_divergence_of_two_models_is_that_by_hand),
        cmocka_unit_test(models_that_cannot_be_compared_are_refused),
        cmocka_unit_test(evaluation_can_be_stopped),
        cmocka_unit_test(the_progress_of_an_evaluation_never_falls),
        cmocka_unit_test(validation_windows_are_fixed_and_cover),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
