/* TemplateProcessing: special tokens around a sequence, with the ids of Hugging Face tokenizers 0.23.3 for the same
 * file; where the library uses them; and saving. */
/* labels: quick */
#include "test_text.h"

#include <jansson.h>

#include "text/sequence.h"
#include "train_fixture.h"

enum { BEGIN = 286, END = 287, MASK = 288, VOCAB = 289 };

static const char toy[] = "the cat sat on the mat. The caf\xC3\xA9's cat isn't on the mat; that's 2024!\n\nthe the\n";

#define SPECIAL(name) "{\"SpecialToken\": {\"id\": \"" name "\", \"type_id\": 0}}"
#define A             "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}"
#define TEMPLATE(single)                                                                                               \
    "{\"type\": \"TemplateProcessing\", \"single\": [" single "], \"pair\": [" A                                       \
    ", {\"Sequence\": {\"id\": \"B\", \"type_id\": 1}}], \"special_tokens\": {"                                        \
    "\"<s>\": {\"id\": \"<s>\", \"ids\": [286], \"tokens\": [\"<s>\"]}, "                                              \
    "\"</s>\": {\"id\": \"</s>\", \"ids\": [287], \"tokens\": [\"</s>\"]}, "                                           \
    "\"two\": {\"id\": \"two\", \"ids\": [104, 287], \"tokens\": [\"h\", \"</s>\"]}, "                                 \
    "\"far\": {\"id\": \"far\", \"ids\": [289], \"tokens\": [\"far\"]}}}"
#define BOTH       TEMPLATE(SPECIAL("<s>") ", " A ", " SPECIAL("</s>"))
#define BEGIN_ONLY TEMPLATE(SPECIAL("<s>") ", " A)
#define LEVEL                                                                                                          \
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, "                                                          \
    "\"trim_offsets\": true, \"use_regex\": true}"
#define IN_SEQUENCE(template) "{\"type\": \"Sequence\", \"processors\": [" LEVEL ", " template "]}"

/* The file of a tokenizer with this post-processor. The caller frees it. */
static char *file_of(struct qkv_context *ctx, const char *post) {
    static const char *const specials[] = {"<s>", "</s>", "<mask>"};
    struct qkv_tokenizer_options options = {
        .size = sizeof options, .kind = QKV_TOKENIZER_BPE, .vocab = 290, .specials = specials, .special_count = 3};
    struct qkv_tokenizer *t;
    assert_ok(ctx, qkv_tokenizer_train(ctx, &options, toy, sizeof toy - 1, &t));
    assert_int_equal(qkv_tokenizer_vocab(t), VOCAB);
    char to[2048];
    snprintf(to, sizeof to, "\"post_processor\": %s", post);
    char *file = test_print(ctx, t, "\"post_processor\": null", to);
    qkv_tokenizer_free(t);
    return file;
}

static struct qkv_tokenizer *tokenizer_of(struct qkv_context *ctx, const char *post) {
    char *file = file_of(ctx, post);
    struct qkv_tokenizer *t = test_parse(ctx, file);
    free(file);
    return t;
}

static void template_tokens_stand_around_a_sequence(void **state) {
    static const struct {
        const char *post, *text;
        int32_t ids[8];
        size_t count;
    } cases[] = {
        {"null", "the cat", {258, 264}, 2},
        {BEGIN_ONLY, "the cat", {286, 258, 264}, 3},
        {BEGIN_ONLY, "", {286}, 1},
        {BEGIN_ONLY, "<s>isn't", {286, 286, 271, 279}, 4},
        {BOTH, "the cat", {286, 258, 264, 287}, 4},
        {BOTH, "", {286, 287}, 2},
        {BOTH, "<s>isn't", {286, 286, 271, 279, 287}, 5},
        {TEMPLATE(A ", " SPECIAL("two")), "the cat", {258, 264, 104, 287}, 4},
        {TEMPLATE(A ", " SPECIAL("two")), "", {104, 287}, 2},
        {IN_SEQUENCE(BOTH), "the cat", {286, 258, 264, 287}, 4},
        {LEVEL, "the cat", {258, 264}, 2},
    };
    struct qkv_context *ctx = *state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qkv_tokenizer *t = tokenizer_of(ctx, cases[i].post);
        int32_t *ids;
        size_t count;
        assert_ok(ctx, qkv_tokenizer_encode_sequence(ctx, t, cases[i].text, strlen(cases[i].text), true, &ids, &count));
        assert_int_equal(count, cases[i].count);
        assert_memory_equal(ids, cases[i].ids, count * sizeof *ids);
        qkv_free(ids);
        if (*cases[i].text == 't') assert_ids(ctx, t, "the cat", true, 258, 264); /* a piece of a text has none */
        qkv_tokenizer_free(t);
    }
}

static void check_line(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *line,
                       const json_t *expected) {
    int32_t *ids;
    size_t count;
    assert_ok(ctx, qkv_tokenizer_encode_sequence(ctx, t, line, strlen(line), true, &ids, &count));
    if (count != json_array_size(expected)) fail_msg("\"%s\": %zu ids", line, count);
    for (size_t i = 0; i < count; i++)
        if (ids[i] != json_integer_value(json_array_get(expected, i)))
            fail_msg("\"%s\": id %zu is %d", line, i, ids[i]);
    qkv_free(ids);
}

/* Files as they are published, and the ids that the package gives for some lines. */
static void published_files_give_their_ids(void **state) {
    static const char *const names[] = {"cohere-command", "phi-2"};
    struct qkv_context *ctx = *state;
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        char path[128];
        size_t size = 0, lines_size = 0, n = 0;
        snprintf(path, sizeof path, "tokenizers/%s.json", names[i]);
        char *file = test_shared_file(path, &size),
             *lines_file = test_shared_file("tokenizers/lines.json", &lines_size);
        snprintf(path, sizeof path, "tokenizers/%s.expected.jsonl", names[i]);
        char *expected = test_shared_file(path, &(size_t){0});
        json_t *lines = lines_file ? json_loadb(lines_file, lines_size, 0, NULL) : NULL;
        if (file && lines && expected) {
            struct qkv_tokenizer *t;
            assert_ok(ctx, qkv_tokenizer_parse(ctx, file, size, names[i], &t));
            for (char *row = strtok(expected, "\n"); row; row = strtok(NULL, "\n"), n++) {
                json_t *object = json_loads(row, 0, NULL);
                assert_non_null(object);
                check_line(ctx, t, json_string_value(json_array_get(lines, n)), json_object_get(object, "ids"));
                json_decref(object);
            }
            assert_int_equal(n, json_array_size(lines));
            qkv_tokenizer_free(t);
        }
        json_decref(lines);
        free(file);
        free(lines_file);
        free(expected);
    }
}

static void the_post_processor_is_saved_as_it_was(void **state) {
    static const char *const posts[] = {"null", LEVEL, BOTH, IN_SEQUENCE(BEGIN_ONLY)};
    struct qkv_context *ctx = *state;
    for (size_t i = 0; i < TEST_COUNT(posts); i++) {
        struct qkv_tokenizer *t = tokenizer_of(ctx, posts[i]);
        char *first = test_print(ctx, t, NULL, NULL), line[2048];
        qkv_tokenizer_free(t);
        snprintf(line, sizeof line, "\"post_processor\": %s,\n", posts[i]);
        assert_non_null(strstr(first, line));
        t = test_parse(ctx, first);
        char *second = test_print(ctx, t, NULL, NULL);
        assert_string_equal(first, second);
        qkv_tokenizer_free(t);
        free(first);
        free(second);
    }
}

static void templates_that_cannot_be_applied_are_refused(void **state) {
    static const char *const cases[][2] = {
        {TEMPLATE(SPECIAL("<s>")), "post_processor.single is"},
        {TEMPLATE(A ", " A), "this reader knows a list of SpecialToken and, once, the Sequence A"},
        {TEMPLATE("{\"Sequence\": {\"id\": \"B\", \"type_id\": 0}}"), "post_processor.single is"},
        {TEMPLATE(A ", 7"), "post_processor.single is"},
        {TEMPLATE(A ", {\"SpecialToken\": {}}"), "post_processor.single is {}"},
        {TEMPLATE(A ", " SPECIAL("<cls>")), "post_processor.special_tokens has no ids for \"<cls>\""},
        {TEMPLATE(A ", " SPECIAL("far")), "gives \"far\" an id that no token has"},
        {"{\"type\": \"TemplateProcessing\"}", "post_processor.single is missing"},
        {"{\"type\": \"Sequence\", \"processors\": [" BEGIN_ONLY ", " BOTH "]}", "this reader knows one Template"},
        {"{\"type\": \"Sequence\", \"processors\": [{\"type\": \"RobertaProcessing\"}]}",
         "post_processor.cls is not [token, id] of a token"},
        {"{\"type\": \"Sequence\"}", "post_processor is {\"type\":\"Sequence\"}"},
        {"3", "post_processor is 3"},
    };
    struct qkv_context *ctx = *state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        char *file = file_of(ctx, cases[i][0]);
        struct qkv_tokenizer *t;
        assert_status(ctx, qkv_tokenizer_parse(ctx, file, strlen(file), "tokenizer.json", &t), QKV_FORMAT);
        assert_null(t);
        assert_message(ctx, cases[i][1]);
        free(file);
    }
    struct qkv_buffer many = {0};
    for (int i = 0; i < 4097; i++) assert_ok(ctx, qkv_buffer_print(ctx, &many, "%s104", i ? ", " : ""));
    char *file = file_of(ctx, TEMPLATE(A ", " SPECIAL("<s>"))), *at = strstr(file, "[286]"), *longer;
    longer = malloc(strlen(file) + many.size + 1);
    if (!longer) abort();
    sprintf(longer, "%.*s[%s%s", (int)(at - file), file, many.data, at + 4);
    struct qkv_tokenizer *t;
    assert_status(ctx, qkv_tokenizer_parse(ctx, longer, strlen(longer), "tokenizer.json", &t), QKV_FORMAT);
    assert_message(ctx, "places more than 4096 tokens around a sequence");
    qkv_buffer_free(&many);
    free(longer);
    free(file);
}

static void encoders_read_the_template_in_place_of_their_own_specials(void **state) {
    struct qkv_context *ctx = *state;
    for (int with = 0; with < 2; with++) {
        struct qkv_tokenizer *t =
            tokenizer_of(ctx, with ? TEMPLATE(SPECIAL("<s>") ", " A ", " SPECIAL("two")) : "null");
        static const int32_t own[] = {258, 264, 287}, placed[] = {286, 258, 264, 104, 287};
        static const int32_t masked[] = {258, 288}, masked_placed[] = {286, 258, 288, 104, 287};
        int32_t *ids;
        size_t count;
        assert_ok(ctx, qkv_source_encode(ctx, t, "the cat", 7, false, true, &ids, &count));
        assert_int_equal(count, with ? 5 : 3);
        assert_memory_equal(ids, with ? placed : own, count * sizeof *ids);
        qkv_free(ids);
        assert_ok(ctx, qkv_masked_encode(ctx, t, "the <mask>", 10, MASK, &ids, &count));
        assert_int_equal(count, with ? 5 : 2);
        assert_memory_equal(ids, with ? masked_placed : masked, count * sizeof *ids);
        qkv_free(ids);
        assert_ok(ctx, qkv_sequence_encode(ctx, t, "the cat", 7, false, true, &ids, &count)); /* a target has its own */
        assert_int_equal(count, 3);
        assert_memory_equal(ids, own, sizeof own);
        qkv_free(ids);
        qkv_tokenizer_free(t);
    }
}

/* A text of several pieces: the template is around the whole, not around pieces. */
static void a_text_to_learn_from_is_one_sequence(void **state) {
    struct qkv_context *ctx = *state;
    const char *path = test_path("long.txt");
    struct qkv_buffer text = {0};
    while (text.size < ((size_t)5 << 18)) assert_ok(ctx, qkv_buffer_append(ctx, &text, toy, sizeof toy - 1));
    test_write_file(path, text.data, text.size);
    struct qkv_tokenizer *t = tokenizer_of(ctx, BOTH);
    int32_t *whole;
    size_t total, seen = 0, pieces = 0;
    assert_ok(ctx, qkv_tokenizer_encode_sequence(ctx, t, text.data, text.size, true, &whole, &total));
    struct qkv_text_stream stream;
    assert_ok(ctx, qkv_text_open(ctx, path, t, &stream));
    for (;; pieces++) {
        struct qkv_text_tokens tokens = {0};
        assert_ok(ctx, qkv_text_next(&stream, &tokens));
        if (!tokens.count) break;
        assert_true(seen + tokens.count <= total);
        assert_memory_equal(tokens.ids, whole + seen, tokens.count * sizeof *tokens.ids);
        assert_int_equal(stream.before, seen == 0);
        seen += tokens.count;
        assert_int_equal(stream.after, seen == total);
        qkv_text_tokens_free(&tokens);
    }
    assert_int_equal(seen, total);
    assert_true(pieces > 1);
    assert_int_equal(whole[0], BEGIN);
    assert_int_equal(whole[total - 1], END);
    qkv_text_close(&stream);
    qkv_free(whole);
    qkv_tokenizer_free(t);
    static const char *const posts[] = {"null", BEGIN_ONLY, BOTH};
    for (size_t i = 0; i < TEST_COUNT(posts); i++) { /* texts that the template ends need no end between them */
        t = tokenizer_of(ctx, posts[i]);
        assert_int_equal(qkv_text_end(t), i < 2 ? END : -1);
        qkv_tokenizer_free(t);
    }
    qkv_buffer_free(&text);
}

static struct qkv_model *model_of(struct qkv_context *ctx, const char *post) {
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, (const char *const[]){"vocab=289", NULL});
    struct qkv_model *model;
    assert_ok(ctx, qkv_model_create(ctx, &spec, 1, &model));
    assert_ok(ctx, qkv_model_set_tokenizer(model, tokenizer_of(ctx, post)));
    return model;
}

static void prompts_have_the_template(void **state) {
    struct qkv_context *ctx = *state;
    static const size_t expected[][3] = {{1, 2, 2}, {1, 3, 3}, {2, 4, 4}};
    static const char *const posts[] = {"null", BEGIN_ONLY, BOTH}, *const prompts[] = {"", "the cat", "<s>the"};
    for (size_t i = 0; i < TEST_COUNT(posts); i++) {
        struct qkv_model *model = model_of(ctx, posts[i]);
        for (size_t k = 0; k < TEST_COUNT(prompts); k++) {
            struct qkv_generate_options o = {
                .size = sizeof o, .sampling = qkv_sampling_defaults(), .tokens = 1, .end_id = -1};
            struct qkv_generate_report report;
            assert_ok(ctx, qkv_generate(model, prompts[k], strlen(prompts[k]), &o, NULL, NULL, &report));
            assert_int_equal(report.prompt_tokens, expected[i][k]);
        }
        qkv_model_free(model);
    }
}

/* Tokens of the template are predicted, but are no bytes of the text. */
static void evaluating_counts_the_bytes_of_the_text_alone(void **state) {
    struct qkv_context *ctx = *state;
    const char *path = test_path("short.txt");
    test_write_file(path, toy, sizeof toy - 1);
    size_t tokens[2];
    for (int with = 0; with < 2; with++) {
        struct qkv_model *model = model_of(ctx, with ? BOTH : "null");
        struct qkv_evaluation evaluation;
        assert_ok(ctx, qkv_evaluate_text(model, &(const char *){path}, 1, NULL, NULL, NULL, &evaluation));
        tokens[with] = evaluation.tokens;
        if (with) assert_int_equal(evaluation.bytes, sizeof toy - 1);
        qkv_model_free(model);
    }
    assert_int_equal(tokens[1], tokens[0] + 2);
}

/* Lines lie one after the other in a token file, told apart by </s>. */
static void lines_need_a_template_that_ends_them(void **state) {
    static const char *const posts[] = {BOTH, BEGIN_ONLY, TEMPLATE(SPECIAL("</s>") ", " A ", " SPECIAL("</s>"))};
    static const char json[] =
        "{\"format\":\"qkv\",\"version\":1,\"d_model\":32,\"context\":16,\"head\":{\"kind\":"
        "\"classify\",\"pool\":\"mean\"},\"encoder\":{\"layers\":1,\"attention\":{\"heads\":2}}}";
    struct qkv_context *ctx = *state;
    OWNED_SPEC struct qkv_spec spec = {0};
    struct qkv_train_options o;
    char lines[1024], tokenizer[1024];
    snprintf(lines, sizeof lines, "%s", test_path("lines.tsv"));
    snprintf(tokenizer, sizeof tokenizer, "%s", test_path("tokenizer.json"));
    test_write_file(lines, "a\tthe cat\nb\tthe mat\n", 20);
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "fixture", json, strlen(json), NULL, 0));
    assert_ok(ctx, qkv_train_defaults(ctx, NULL, &o));
    o.labeled = lines;
    o.tokenizer = tokenizer;
    o.valid_fraction = 0;
    o.steps = 1;
    for (size_t i = 0; i < TEST_COUNT(posts); i++) {
        char *file = file_of(ctx, posts[i]);
        test_write_file(tokenizer, file, strlen(file));
        free(file);
        struct qkv_trainer *trainer = NULL;
        enum qkv_status status = qkv_trainer_create(ctx, &spec, &o, fixture_run("run"), NULL, NULL, &trainer);
        if (i == 0) {
            assert_ok(ctx, status);
            assert_int_equal(trainer->facts.texts.data.tokens, 8); /* <s> the cat </s>, and once more */
        } else {
            assert_int_equal(status, QKV_ARGUMENT);
            assert_message(ctx, "does not have </s> at its end and only there");
        }
        qkv_trainer_free(trainer);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(template_tokens_stand_around_a_sequence),
        cmocka_unit_test(published_files_give_their_ids),
        cmocka_unit_test(the_post_processor_is_saved_as_it_was),
        cmocka_unit_test(templates_that_cannot_be_applied_are_refused),
        cmocka_unit_test(encoders_read_the_template_in_place_of_their_own_specials),
        cmocka_unit_test(a_text_to_learn_from_is_one_sequence),
        cmocka_unit_test(prompts_have_the_template),
        cmocka_unit_test(evaluating_counts_the_bytes_of_the_text_alone),
        cmocka_unit_test(lines_need_a_template_that_ends_them),
    };
    test_seed();
    return cmocka_run_group_tests(tests, test_context, test_context_done);
}
