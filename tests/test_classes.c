/* Published classes on text: classifiers by the last token and of pairs, single scores, vectors of decoders. The
 * expected numbers are the float64 outputs of transformers in tests/golden/hf; a tokenizer of words gives exactly
 * the ids of the cases. */
/* labels: numeric quick */
#include "test.h"

#include <math.h>

#include <jansson.h>

#include "family_fixture.h"
#include "qkv.h"
#include "text/sequence.h"
#include "text/text.h"

#define HF TEST_SOURCE_DIR "/tests/golden/hf/"
enum { B = 2, T = 12, TEXT = 256 };

struct case_of {
    struct qkv_context *ctx;
    struct qkv_model *model;
    struct qkv_tensors *file;
    const int32_t *ids, *lengths, *types;
    size_t classes;
};

/* Words w0, w1, … are ids 0, 1, …; `post` is the post-processor. */
static struct qkv_tokenizer *words_tokenizer(struct qkv_context *ctx, int count, const char *post) {
    struct qkv_buffer text = {0};
    struct qkv_tokenizer *t;
    assert_ok(ctx,
              qkv_buffer_print(ctx, &text,
                               "{\"added_tokens\": [], \"normalizer\": null, \"pre_tokenizer\": {\"type\": "
                               "\"WhitespaceSplit\"}, \"post_processor\": %s, \"decoder\": null, \"model\": {\"type\": "
                               "\"WordLevel\", \"unk_token\": \"w0\", \"vocab\": {",
                               post));
    for (int i = 0; i < count; i++) assert_ok(ctx, qkv_buffer_print(ctx, &text, "%s\"w%d\": %d", i ? ", " : "", i, i));
    assert_ok(ctx, qkv_buffer_print(ctx, &text, "}}}"));
    assert_ok(ctx, qkv_tokenizer_parse(ctx, text.data, text.size, "words", &t));
    qkv_buffer_free(&text);
    return t;
}

static const void *case_array(const struct case_of *c, const char *name) {
    const struct qkv_array *a = qkv_tensors_find(c->file, name);
    return a ? a->data : NULL;
}

static struct case_of case_open(const char *name, const char *post) {
    struct case_of c = {0};
    char folder[600], path[700];
    snprintf(folder, sizeof folder, HF "%s", name);
    snprintf(path, sizeof path, "%s/case.safetensors", folder);
    const struct qkv_context_options options = {.size = sizeof options, .precision = QKV_FP32};
    assert_int_equal(qkv_context_create(&c.ctx, &options), QKV_OK);
    load_or_fail(c.ctx, folder, &c.model);
    assert_ok(c.ctx, qkv_tensors_open(c.ctx, path, &c.file));
    const struct qkv_spec *spec = qkv_model_spec(c.model);
    assert_ok(c.ctx, qkv_model_set_tokenizer(c.model, words_tokenizer(c.ctx, spec->vocab, post)));
    c.ids = case_array(&c, "in.ids");
    c.lengths = case_array(&c, "in.lengths");
    c.types = case_array(&c, "in.token_types");
    c.classes = (size_t)spec->head.classes;
    return c;
}

static void case_close(struct case_of *c) {
    qkv_tensors_close(c->file);
    qkv_model_free(c->model);
    qkv_context_free(c->ctx);
}

/* The words [from, to) of row b. */
static void case_words(const struct case_of *c, size_t b, size_t from, size_t to, char text[TEXT]) {
    size_t n = 0;
    *text = 0;
    for (size_t t = from; t < to; t++)
        n += (size_t)snprintf(text + n, TEXT - n, "%sw%d", t > from ? " " : "", (int)c->ids[b * T + t]);
}

static void expect_probabilities(const struct case_of *c, const float *p) {
    const float *logits = case_array(c, "out.logits");
    for (size_t b = 0; b < B; b++) {
        double sum = 0;
        for (size_t k = 0; k < c->classes; k++) sum += exp((double)logits[b * c->classes + k]);
        for (size_t k = 0; k < c->classes; k++) {
            const double want = c->classes == 1 ? (double)logits[b] : exp((double)logits[b * c->classes + k]) / sum;
            if (!(fabs((double)p[b * c->classes + k] - want) < 2e-5 * (1 + fabs(want))))
                fail_msg("row %zu, class %zu: %g, expected %g", b, k, (double)p[b * c->classes + k], want);
        }
    }
}

static void texts_are_classified_as_the_reference_does_and_single_scores_are_given_as_they_are(void **state) {
    (void)state;
    static const char *const names[] = {"llama_classify",      "qwen2_classify",   "gpt2_classify",
                                        "modernbert_classify", "modernbert_first", "camembert_classify"};
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        struct case_of c = case_open(names[i], "null");
        char texts[B][TEXT];
        const char *const lines[B + 1] = {texts[0], texts[1], " "};
        float p[(B + 1) * 3];
        for (size_t b = 0; b < B; b++) case_words(&c, b, 0, (size_t)c.lengths[b], texts[b]);
        assert_ok(c.ctx, qkv_classify(c.model, lines, B + 1, NULL, p));
        expect_probabilities(&c, p);
        for (size_t k = 0; k < c.classes; k++) /* of a blank line nothing is said */
            assert_true(c.classes == 1 ? isnan(p[B]) : p[B * c.classes + k] == 0);
        case_close(&c);
    }
}

static void pairs_have_the_types_of_the_template(void **state) {
    (void)state;
    static const char post[] =
        "{\"type\": \"TemplateProcessing\", \"single\": [{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}], \"pair\": "
        "[{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"B\", \"type_id\": 1}}], "
        "\"special_tokens\": {}}";
    for (int none = 0; none < 2; none++) { /* without a post-processor it is the same */
        struct case_of c = case_open("albert_classify", none ? "null" : post);
        char firsts[B + 1][TEXT] = {""}, seconds[B + 1][TEXT] = {""};
        const char *a[B + 1], *b[B + 1];
        float p[(B + 1) * 3];
        for (size_t i = 0; i < B; i++) {
            size_t first = 0;
            while (!c.types[i * T + first]) first++;
            case_words(&c, i, 0, first, firsts[i]);
            case_words(&c, i, first, (size_t)c.lengths[i], seconds[i]);
        }
        for (size_t i = 0; i <= B; i++) a[i] = firsts[i], b[i] = seconds[i];
        const struct qkv_line_options reading = qkv_line_defaults();
        assert_ok(c.ctx, qkv_classify_pairs(c.model, a, b, B + 1, &reading, p));
        expect_probabilities(&c, p);
        assert_true(p[B * 3] == 0 && p[B * 3 + 1] == 0 && p[B * 3 + 2] == 0);
        case_close(&c);
    }
}

/* As the package `tokenizers` joins and cuts them (truncation longest_first, direction right and left). */
static void pairs_are_joined_and_cut_as_tokenizers_does(void **state) {
    (void)state;
    static const char template[] =
        "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"c\", \"type_id\": 0}}, "
        "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}], \"pair\": [{\"SpecialToken\": {\"id\": \"c\", \"type_id\": "
        "0}}, "
        "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, {\"SpecialToken\": {\"id\": \"s\", \"type_id\": 0}}, "
        "{\"Sequence\": {\"id\": \"B\", \"type_id\": 1}}, {\"SpecialToken\": {\"id\": \"s\", \"type_id\": 1}}], "
        "\"special_tokens\": {\"c\": {\"id\": \"c\", \"ids\": [1], \"tokens\": [\"w1\"]}, "
        "\"s\": {\"id\": \"s\", \"ids\": [2], \"tokens\": [\"w2\"]}}}";
    static const char bert[] = "{\"type\": \"BertProcessing\", \"cls\": [\"w1\", 1], \"sep\": [\"w2\", 2]}";
    static const char roberta[] = "{\"type\": \"RobertaProcessing\", \"cls\": [\"w1\", 1], \"sep\": [\"w2\", 2]}";
    static const struct {
        const char *post;
        size_t most;
        enum qkv_long kind;
        int32_t ids[12], types[12];
        size_t count;
    } cases[] = {
        {template, 20, QKV_LONG_ERROR, {1, 3, 4, 5, 2, 6, 7, 8, 9, 2}, {0, 0, 0, 0, 0, 1, 1, 1, 1, 1}, 10},
        {bert, 20, QKV_LONG_ERROR, {1, 3, 4, 5, 2, 6, 7, 8, 9, 2}, {0, 0, 0, 0, 0, 1, 1, 1, 1, 1}, 10},
        {roberta, 20, QKV_LONG_ERROR, {1, 3, 4, 5, 2, 2, 6, 7, 8, 9, 2}, {0}, 11},
        {template, 9, QKV_LONG_KEEP_START, {1, 3, 4, 5, 2, 6, 7, 8, 2}, {0, 0, 0, 0, 0, 1, 1, 1, 1}, 9},
        {template, 8, QKV_LONG_KEEP_START, {1, 3, 4, 2, 6, 7, 8, 2}, {0, 0, 0, 0, 1, 1, 1, 1}, 8},
        {template, 8, QKV_LONG_KEEP_END, {1, 4, 5, 2, 7, 8, 9, 2}, {0, 0, 0, 0, 1, 1, 1, 1}, 8},
        {template, 5, QKV_LONG_KEEP_START, {1, 3, 2, 6, 2}, {0, 0, 0, 1, 1}, 5},
    };
    static int32_t first[] = {3, 4, 5}, second[] = {6, 7, 8, 9};
    int32_t *const texts[] = {first, second};
    static const size_t sizes[] = {3, 4};
    struct qkv_context *ctx;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qkv_tokenizer *t = words_tokenizer(ctx, 12, cases[i].post);
        struct qkv_pair_template pair;
        const struct qkv_long_rule rule = {.kind = cases[i].kind, .most = cases[i].most};
        int32_t *ids, *types;
        size_t count;
        assert_ok(ctx, qkv_pair_template_read(ctx, t, false, &pair));
        assert_int_equal(qkv_pair_join(ctx, &pair, &rule, texts, sizes, &ids, &types, &count), QKV_FATE_FITS);
        assert_int_equal(count, cases[i].count);
        assert_memory_equal(ids, cases[i].ids, count * sizeof *ids);
        assert_memory_equal(types, cases[i].types, count * sizeof *types);
        qkv_free(ids);
        qkv_free(types);
        const struct qkv_long_rule refusing = {.kind = QKV_LONG_ERROR, .most = 9};
        assert_int_equal(qkv_pair_join(ctx, &pair, &refusing, texts, sizes, &ids, &types, &count), QKV_FATE_REFUSED);
        qkv_pair_template_free(&pair);
        qkv_tokenizer_free(t);
    }
    qkv_context_free(ctx);
}

static void decoders_give_vectors_of_their_last_token(void **state) {
    (void)state;
    static const char *const names[] = {"llama_model", "gpt2_model", "mistral_model", "gemma3_both_ways", "ministral"};
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        struct case_of c = case_open(names[i], "null");
        const float *hidden = case_array(&c, "out.hidden");
        const size_t C = qkv_embed_width(c.model);
        char texts[B][TEXT];
        const char *const lines[B] = {texts[0], texts[1]};
        float got[B * 64], mean[B * 64];
        assert_true(C == 8);
        for (size_t b = 0; b < B; b++) case_words(&c, b, 0, (size_t)c.lengths[b], texts[b]);
        assert_ok(c.ctx, qkv_embed(c.model, lines, B, &QKV_OPTIONS(qkv_embed_options, .pool = QKV_POOL_LAST), got));
        assert_ok(c.ctx, qkv_embed(c.model, lines, B, &QKV_OPTIONS(qkv_embed_options, .pool = QKV_POOL_MEAN), mean));
        for (size_t b = 0; b < B; b++)
            for (size_t k = 0; k < C; k++) {
                const size_t n = (size_t)c.lengths[b];
                double sum = 0;
                for (size_t t = 0; t < n; t++) sum += (double)hidden[(b * T + t) * C + k];
                assert_true(fabsf(got[b * C + k] - hidden[(b * T + n - 1) * C + k]) < 2e-5F);
                assert_true(fabs((double)mean[b * C + k] - sum / (double)n) < 2e-5);
            }
        case_close(&c);
    }
}

/* As the question-answering pipeline of transformers 4 (make/questions.py). */
static void answers_are_the_spans_that_the_reference_chooses(void **state) {
    (void)state;
    enum { PAIRS = 15, LINE = 256 };
    struct qkv_context *ctx;
    struct qkv_model *model;
    char lines[PAIRS + 1][LINE];
    const char *questions[PAIRS + 1], *texts[PAIRS + 1];
    struct qkv_answer got[PAIRS + 1];
    json_t *want = json_load_file(HF "questions/answers.json", 0, NULL), *answer;
    FILE *file = fopen(HF "questions/pairs.tsv", "rb");
    size_t i;
    assert_non_null(file);
    for (i = 0; i < PAIRS; i++) {
        assert_non_null(fgets(lines[i], LINE, file));
        lines[i][strcspn(lines[i], "\n")] = 0;
        char *tab = strchr(lines[i], '\t');
        *tab = 0;
        questions[i] = lines[i], texts[i] = tab + 1;
    }
    fclose(file);
    questions[PAIRS] = "who", texts[PAIRS] = " ";
    const struct qkv_context_options options = {.size = sizeof options, .precision = QKV_FP32};
    assert_int_equal(qkv_context_create(&ctx, &options), QKV_OK);
    load_or_fail(ctx, HF "questions", &model);
    assert_true(qkv_model_answers(model));
    assert_ok(ctx, qkv_answer(model, questions, texts, PAIRS + 1, NULL, got));
    assert_int_equal(json_array_size(want), PAIRS);
    json_array_foreach(want, i, answer) {
        assert_int_equal(got[i].begin, json_integer_value(json_object_get(answer, "begin")));
        assert_int_equal(got[i].end, json_integer_value(json_object_get(answer, "end")));
        const double score = json_real_value(json_object_get(answer, "score"));
        if (!(fabs(got[i].score - score) < 2e-5 * (1 + score))) fail_msg("%g, expected %g", got[i].score, score);
    }
    assert_true(!got[PAIRS].end && got[PAIRS].score == 0); /* of a blank text nothing is said */
    json_decref(want);
    qkv_model_free(model);
    load_or_fail(ctx, HF "bert_model", &model);
    assert_false(qkv_model_answers(model));
    assert_int_equal(qkv_answer(model, questions, texts, 1, NULL, got), QKV_ARGUMENT);
    qkv_model_free(model);
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_the_spans_that_the_reference_chooses),
        cmocka_unit_test(texts_are_classified_as_the_reference_does_and_single_scores_are_given_as_they_are),
        cmocka_unit_test(pairs_have_the_types_of_the_template),
        cmocka_unit_test(pairs_are_joined_and_cut_as_tokenizers_does),
        cmocka_unit_test(decoders_give_vectors_of_their_last_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
