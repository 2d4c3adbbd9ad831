/* Evaluation of pairs and labelled lines against its parts: passes over one line at a time, the search's own
 * answers, their metrics; and every file and model that is refused. */
/* labels: numeric quick */
#include "check_progress.h"
#include "weights.h"

#include "metric/metric.h"
#include "text/sequence.h"

#define assert_near(a, b, tolerance) assert_true(fabs((double)(a) - (double)(b)) <= (tolerance))

static struct qkv_context *ctx;

static int setup(void **state) {
    (void)state;
    return (int)qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, .precision = QKV_PRECISION_AUTO));
}

static int teardown(void **state) {
    (void)state;
    qkv_context_free(ctx);
    return 0;
}

#define STACK(name)                                                                                                    \
    "\"" name                                                                                                          \
    "\":{\"layers\":1,\"attention\":{\"heads\":2},\"norm\":{\"kind\":\"layernorm\"},\"ffn\":{\"kind\":\"relu\","       \
    "\"d_ff\":32}}"
#define CLASSIFIER "\"head\":{\"kind\":\"classify\",\"classes\":3}," STACK("encoder")
#define PAIRS      "\"head\":{\"kind\":\"lm\",\"bias\":true}," STACK("encoder") "," STACK("decoder")

static struct qkv_tokenizer *make_tokenizer(enum qkv_tokenizer_kind kind, size_t specials) {
    static const char text[] = "abc defgh ijk\n";
    static const char *const names[] = {QKV_TOKEN_BEGIN, QKV_TOKEN_END};
    struct qkv_tokenizer_options options = {
        .size = sizeof options, .kind = kind, .specials = names, .special_count = specials};
    struct qkv_tokenizer *tokenizer;
    assert_ok(ctx, qkv_tokenizer_train(ctx, &options, text, sizeof text - 1, &tokenizer));
    return tokenizer;
}

static struct qkv_model *make_model(const char *rest, struct qkv_tokenizer *tokenizer) {
    char json[2048];
    OWNED_SPEC struct qkv_spec spec = {0};
    struct qkv_model *model;
    int n =
        snprintf(json, sizeof json,
                 "{\"format\":\"qkv\",\"version\":1,\"vocab\":%d,\"d_model\":16,\"context\":20,\"position\":{\"kind\":"
                 "\"learned\"},%s}",
                 qkv_tokenizer_vocab(tokenizer), rest);
    struct qkv_random random = test_random(4);
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "test", json, (size_t)n, NULL, 0));
    assert_ok(ctx, qkv_model_create(ctx, &spec, 1, &model));
    for (size_t i = 0; i < qkv_model_parameters(model); i++)
        test_fill(&random, test_weights_mutable(model, i), qkv_array_elements(qkv_model_parameter(model, i)), 0.3);
    assert_ok(ctx, qkv_model_set_tokenizer(model, tokenizer));
    return model;
}

static const char *write_text(const char *name, const char *text) {
    const char *path = test_path(name);
    test_write_file(path, text, strlen(text));
    return path;
}

/* So that all answers are words of letters, as long as they may be: nothing else has a chance. */
static void allow_letters_only(struct qkv_model *model) {
    for (size_t i = 0; i < qkv_model_parameters(model); i++) {
        if (strcmp(qkv_model_parameter(model, i)->name, "head.bias")) continue;
        for (int id = 0; id < qkv_model_spec(model)->vocab; id++) {
            size_t size;
            const char *token = qkv_tokenizer_token(qkv_model_tokenizer(model), id, &size);
            bool letter = token && size == 1 && *token >= 'a' && *token <= 'k';
            if (!letter) test_weights_mutable(model, i)[id] = -1000;
        }
    }
}

/* ---- pairs ------------------------------------------------------------------------------------------------------ */

enum { SOURCES = 7, ROOM = 64, ANSWER = 32 };
static const char *const sources[SOURCES] = {"abc", "d", "abc defgh", "kji", "fgh", "aaaaaaaaaa", "hgfedcba"};
static char answers[SOURCES][ANSWER];

static bool keep_answer(void *user, size_t line, size_t rank, const char *text, size_t size, double score) {
    (void)user, (void)score;
    if (rank == 0) snprintf(answers[line], ANSWER, "%.*s", (int)size, text);
    return true;
}

/* Sum of the loss of one pair, and its tokens, by a pass over it alone. */
static double pair_loss(struct qkv_model *model, const char *source, const char *target, size_t *tokens) {
    const struct qkv_tokenizer *t = qkv_model_tokenizer(model);
    int32_t *s, *y;
    size_t s_count, y_count, counted;
    struct qkv_pass *pass;
    assert_ok(ctx, qkv_sequence_encode(ctx, t, source, strlen(source), false, true, &s, &s_count));
    assert_ok(ctx, qkv_sequence_encode(ctx, t, target, strlen(target), true, true, &y, &y_count));
    struct qkv_pass_options options = {.size = sizeof options, .B = 1, .T = y_count - 1, .source_T = s_count};
    struct qkv_batch batch = {.B = 1, .T = y_count - 1, .ids = y, .targets = y + 1, .source = s, .source_T = s_count};
    assert_ok(ctx, qkv_pass_create(model, &options, &pass));
    assert_ok(ctx, qkv_pass_forward(pass, &batch));
    double loss = qkv_pass_loss(pass, &counted);
    *tokens += counted;
    qkv_pass_free(pass);
    qkv_free(s);
    qkv_free(y);
    return loss * (double)counted;
}

/* The first reference of every source is its answer, changed in a known way; some sources have a second one, with
 * other lines between the two. */
static void pairs_are_scored_by_their_parts(void **state) {
    struct qkv_model *model = make_model(PAIRS, make_tokenizer(QKV_TOKENIZER_CHARS, 2));
    struct qkv_search_options o = qkv_search_defaults();
    struct qkv_pairs_evaluation e;
    char text[4096], first[SOURCES][ROOM];
    const char *references[SOURCES][2], *const *lists[SOURCES], *found[SOURCES];
    size_t used = 0, counts[SOURCES], tokens = 0, edits = 0, units = 0;
    double nll = 0, bleu, chrf;
    (void)state;
    allow_letters_only(model);
    o.max_tokens = 8;
    o.beam = 2;
    assert_ok(ctx, qkv_translate(model, sources, SOURCES, &o, keep_answer, NULL));
    for (size_t i = 0; i < SOURCES; i++) { /* even ones get two more characters, so they have two edits */
        assert_int_equal(strlen(answers[i]), 8);
        snprintf(first[i], sizeof first[i], "%s%s", answers[i], i % 2 ? "" : "zz");
        references[i][0] = first[i];
        references[i][1] = "qqqqqqqqqqqqqq"; /* never the closest */
        counts[i] = i < 3 ? 2 : 1;
        lists[i] = references[i];
        found[i] = answers[i];
        edits += i % 2 ? 0 : 2;
        units += strlen(first[i]);
    }
    for (size_t r = 0; r < 2; r++)
        for (size_t i = 0; i < SOURCES; i++) {
            if (r >= counts[i]) continue;
            used += (size_t)snprintf(text + used, sizeof text - used, "%s\t%s\n\n", sources[i], references[i][r]);
            nll += pair_loss(model, sources[i], references[i][r], &tokens);
        }
    const char *path = write_text("pairs.tsv", text);
    const double began = qkv_clock();
    assert_ok(ctx, qkv_evaluate_pairs(model, path, &o, NULL, NULL, &e));
    assert_true(e.search_seconds > 0 && e.search_seconds <= e.seconds && e.seconds <= qkv_clock() - began);
    assert_int_equal(e.sources, SOURCES);
    assert_int_equal(e.pairs, SOURCES + 3);
    assert_near(e.loss, nll / (double)tokens, 1e-6);
    assert_near(e.exact, 3.0 / SOURCES, 1e-12);
    assert_ok(ctx, qkv_bleu(ctx, found, lists, counts, SOURCES, &bleu));
    assert_ok(ctx, qkv_chrf(ctx, found, lists, counts, SOURCES, &chrf));
    assert_near(e.bleu, bleu, 1e-12);
    assert_near(e.chrf, chrf, 1e-12);
    assert_near(e.token_error, (double)edits / (double)units, 1e-12);
    qkv_model_free(model);
}

/* With a space in any target the error counts words: one of two is missing. */
static void errors_count_words_where_targets_have_spaces(void **state) {
    struct qkv_model *model = make_model(PAIRS, make_tokenizer(QKV_TOKENIZER_CHARS, 2));
    struct qkv_search_options o = qkv_search_defaults();
    struct qkv_pairs_evaluation e;
    char text[256];
    (void)state;
    allow_letters_only(model);
    o.max_tokens = 6;
    assert_ok(ctx, qkv_translate(model, sources, 2, &o, keep_answer, NULL));
    snprintf(text, sizeof text, "%s\t%s k\n%s\t%s \n", sources[0], answers[0], sources[1], answers[1]);
    assert_ok(ctx, qkv_evaluate_pairs(model, write_text("words.tsv", text), &o, NULL, NULL, &e));
    assert_near(e.token_error, 1.0 / 3, 1e-12);
    assert_near(e.exact, 0.5, 0); /* spaces at the ends do not count */
    qkv_model_free(model);
}

static void bad_pairs_are_refused(void **state) {
    struct qkv_model *model = make_model(PAIRS, make_tokenizer(QKV_TOKENIZER_CHARS, 2)),
                     *bare = make_model(PAIRS, make_tokenizer(QKV_TOKENIZER_CHARS, 0)),
                     *decoder = make_model(STACK("decoder"), make_tokenizer(QKV_TOKENIZER_CHARS, 2));
    struct qkv_pairs_evaluation e;
    const char *good = write_text("good.tsv", "a\tb\n");
    (void)state;
    assert_ok(ctx, qkv_evaluate_pairs(model, good, NULL, NULL, NULL, &e));
    assert_status(ctx, qkv_evaluate_pairs(decoder, good, NULL, NULL, NULL, &e), QKV_ARGUMENT);
    assert_message(
        ctx, "pairs need an encoder, a decoder and an lm head; this model has a decoder alone: evaluate it on a text");
    assert_status(ctx, qkv_evaluate_pairs(bare, good, NULL, NULL, NULL, &e), QKV_ARGUMENT);
    assert_message(ctx, "the model's tokenizer has no <s> or no </s>, between which targets stand; train one on pairs");
    assert_status(ctx, qkv_evaluate_pairs(model, write_text("p.tsv", "a\tb\nc\n"), NULL, NULL, NULL, &e), QKV_FORMAT);
    assert_message(ctx, "p.tsv:2: no tab in this line; write a source, a tab and a target");
    assert_status(
        ctx,
        qkv_evaluate_pairs(model, write_text("p.tsv", "a\tb\n\naaaaaaaaaaaaaaaaaaaaaa\tc\n"), NULL, NULL, NULL, &e),
        QKV_FORMAT);
    assert_message(
        ctx, "p.tsv:3: the source has 23 tokens with its end, but the model's context is 20; shorten or remove it");
    assert_status(ctx,
                  qkv_evaluate_pairs(model, write_text("p.tsv", "a\tcccccccccccccccccccc\n"), NULL, NULL, NULL, &e),
                  QKV_FORMAT);
    assert_message(ctx, "p.tsv:1: the target has 21 tokens with its end");
    for (size_t i = 0; i < qkv_model_parameters(model); i++) test_weights_mutable(model, i)[0] = NAN;
    assert_status(ctx, qkv_evaluate_pairs(model, good, NULL, NULL, NULL, &e), QKV_NUMBER);
    assert_message(ctx, "is not a finite number: the model's weights are broken");
    qkv_model_free(model);
    qkv_model_free(bare);
    qkv_model_free(decoder);
}

/* ---- labelled lines --------------------------------------------------------------------------------------------- */

enum { LINES = 2500, CLASSES = 3 };

/* More lines than are classified at once; what they are compared with is classified in one call. */
static void labels_are_counted(void **state) {
    static const char *const names[CLASSES] = {"x", "y z", "w"};
    static char texts[LINES][12], file[LINES * 24];
    static const char *list[LINES];
    static float probabilities[LINES * CLASSES];
    struct qkv_model *model = make_model(CLASSIFIER, make_tokenizer(QKV_TOKENIZER_CHARS, 2));
    struct qkv_random random = test_random(5);
    struct qkv_labels_evaluation e;
    struct progress_check heard = {.count = 0};
    size_t used = 0, confusion[CLASSES * CLASSES] = {0}, truth[LINES];
    double nll = 0;
    (void)state;
    assert_ok(ctx, qkv_model_set_labels(model, names, CLASSES));
    for (size_t i = 0; i < LINES; i++) {
        size_t n = test_between(&random, 1, 10);
        for (size_t k = 0; k < n; k++) texts[i][k] = (char)('a' + test_between(&random, 0, 10));
        list[i] = texts[i];
        truth[i] = test_between(&random, 0, CLASSES - 1);
        used += (size_t)snprintf(file + used, sizeof file - used, "%s\t%s\r\n", names[truth[i]], texts[i]);
    }
    assert_ok(ctx, qkv_classify(model, list, LINES, NULL, probabilities));
    for (size_t i = 0; i < LINES; i++) {
        const float *p = probabilities + i * CLASSES;
        size_t best = p[1] > p[0] ? 1 : 0;
        if (p[2] > p[best]) best = 2;
        confusion[truth[i] * CLASSES + best]++;
        nll -= log((double)p[truth[i]]);
    }
    assert_ok(ctx, qkv_evaluate_labels(model, write_text("labels.tsv", file), check_progress, &heard, &e));
    check_progress_of(&heard, (const char *const[]){"evaluating"}, 1);
    assert_int_equal(e.lines, LINES);
    assert_int_equal(e.classes, CLASSES);
    assert_memory_equal(e.confusion, confusion, sizeof confusion);
    assert_near(e.loss, nll / LINES, 1e-9);
    assert_near(e.accuracy, (double)(confusion[0] + confusion[4] + confusion[8]) / LINES, 1e-12);
    assert_near(e.macro_f1, qkv_macro_f1(confusion, CLASSES), 1e-12);
    qkv_free(e.confusion);
    qkv_model_free(model);
}

static bool stop(void *user, const char *what, double done, double total) {
    (void)user, (void)what, (void)done, (void)total;
    return false;
}

static void bad_labels_are_refused(void **state) {
    static const char *const names[CLASSES] = {"x", "y z", "w"};
    struct qkv_model *model = make_model(CLASSIFIER, make_tokenizer(QKV_TOKENIZER_CHARS, 2)),
                     *lm = make_model(STACK("encoder"), make_tokenizer(QKV_TOKENIZER_CHARS, 2));
    struct qkv_labels_evaluation e;
    (void)state;
    assert_ok(ctx, qkv_evaluate_labels(model, write_text("l.tsv", "2\ta\n0\tb\n"), NULL, NULL, &e)); /* by number */
    assert_int_equal(e.confusion[6] + e.confusion[7] + e.confusion[8], 1);
    qkv_free(e.confusion);
    assert_ok(ctx, qkv_model_set_labels(model, names, CLASSES));
    assert_status(ctx, qkv_evaluate_labels(model, write_text("l.tsv", "x\ta\n\nyz\tb\n"), NULL, NULL, &e), QKV_FORMAT);
    assert_message(ctx, "l.tsv:3: the model has no class \"yz\"; its classes are x, y z, w");
    assert_null(e.confusion);
    assert_status(ctx, qkv_evaluate_labels(model, write_text("l.tsv", "x\tabcabcabcabcabcabcabc\n"), NULL, NULL, &e),
                  QKV_FORMAT);
    assert_message(ctx, "l.tsv:1: the text has 23 tokens, but the model's context is 20; shorten or remove it");
    assert_status(ctx, qkv_evaluate_labels(model, write_text("l.tsv", "x a\n"), NULL, NULL, &e), QKV_FORMAT);
    assert_message(ctx, "l.tsv:1: no tab in this line; write a label, a tab and a text");
    assert_status(ctx, qkv_evaluate_labels(model, write_text("l.tsv", "\n"), NULL, NULL, &e), QKV_FORMAT);
    assert_message(ctx, "l.tsv is empty; give a file with a label, a tab and a text in each line");
    assert_status(ctx, qkv_evaluate_labels(model, write_text("l.tsv", "x\ta\n"), stop, NULL, &e), QKV_STOPPED);
    assert_status(ctx, qkv_evaluate_labels(lm, write_text("l.tsv", "x\ta\n"), NULL, NULL, &e), QKV_ARGUMENT);
    assert_message(ctx, "classify needs a model with a classify head");
    qkv_model_free(model);
    qkv_model_free(lm);
}

/* ---- progress ---------------------------------------------------------------------------------------------------- */

/* Of pairs: their loss, then the search, of more sources than are searched at once. */
static void the_progress_over_pairs_never_falls(void **state) {
    enum { PAIRS_OF_LETTERS = 300 };
    static const char *const parts[] = {"evaluating", "searching"};
    static char text[PAIRS_OF_LETTERS * 12];
    struct qkv_model *model = make_model(PAIRS, make_tokenizer(QKV_TOKENIZER_CHARS, 2));
    struct qkv_search_options o = qkv_search_defaults();
    struct qkv_pairs_evaluation e;
    struct progress_check heard = {.count = 0};
    size_t used = 0;
    (void)state;
    for (size_t i = 0; i < PAIRS_OF_LETTERS; i++) {
        const char source[] = {(char)('a' + i % 10), (char)('a' + i / 10 % 10), (char)('a' + i / 100), 0};
        used += (size_t)snprintf(text + used, sizeof text - used, "%s\tabc\n", source);
    }
    o.batch = 8;
    o.max_tokens = 3;
    assert_ok(ctx, qkv_evaluate_pairs(model, write_text("progress.tsv", text), &o, check_progress, &heard, &e));
    assert_int_equal(e.sources, PAIRS_OF_LETTERS);
    check_progress_of(&heard, parts, 2);
    qkv_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_are_scored_by_their_parts),
        cmocka_unit_test(errors_count_words_where_targets_have_spaces),
        cmocka_unit_test(bad_pairs_are_refused),
        cmocka_unit_test(labels_are_counted),
        cmocka_unit_test(bad_labels_are_refused),
        cmocka_unit_test(the_progress_over_pairs_never_falls),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
