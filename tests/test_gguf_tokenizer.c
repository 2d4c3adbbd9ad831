/* Tokenizers of GGUF files: the pattern that a file names; and, if ../shared/data has them, files whose ids are those
 * that llama.cpp expects (.inp and .out files), and those of the tokenizers that the files were made of
 * (NAME.expected.jsonl, one line for each of lines.json). */
/* labels: quick */
#include "test_text.h"

#include "gguf_fixture.h"

#include "base/json_load.h"

static struct qkv_tokenizer *open_vocab(struct qkv_context *ctx, const char *name) {
    const char *folder = getenv("QKV_DATA");
    struct qkv_tokenizer *t = NULL;
    char path[1024];
    snprintf(path, sizeof path, "%s/tokenizers/ggml-vocab-%s.gguf", folder ? folder : TEST_SOURCE_DIR "/../shared/data",
             name);
    if (access(path, R_OK) != 0) return NULL;
    if (qkv_folder_tokenizer(ctx, path, &t)) fail_msg("%s: %s", name, qkv_message(ctx));
    return t;
}

static char *shared_text(const char *name, const char *end) {
    char path[200];
    size_t size;
    snprintf(path, sizeof path, "tokenizers/%s%s", name, end);
    return test_shared_file(path, &size);
}

/* ---- llama.cpp --------------------------------------------------------------------------------------------------- */

/* Compares the ids of a text with a line of ids; returns the next line. */
static char *check_ids(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *name, const char *text,
                       size_t size, char *line) {
    int32_t *ids;
    size_t count, i = 0;
    assert_ok(ctx, qkv_tokenizer_encode(ctx, t, text, size, true, &ids, &count));
    for (char *end; *line && *line != '\n'; line = end + strspn(end, " "), i++) {
        const long id = strtol(line, &end, 10);
        if (i >= count || ids[i] != id) fail_msg("%s, \"%.*s\": token %zu is not %ld", name, (int)size, text, i, id);
    }
    if (i != count) fail_msg("%s, \"%.*s\": %zu tokens, not %zu", name, (int)size, text, count, i);
    qkv_free(ids);
    return line + (*line == '\n');
}

static void ids_are_those_of_llama_cpp(void **state) {
    static const char *const names[] = {"llama-spm", "falcon", "starcoder", "bert-bge"};
    static const char apart[] = "\n__ggml_vocab_test__\n";
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        char name[64];
        struct qkv_tokenizer *t = open_vocab(*state, names[i]);
        if (!t) skip();
        snprintf(name, sizeof name, "ggml-vocab-%s", names[i]);
        char *inputs = shared_text(name, ".inp"), *ids = shared_text(name, ".out"), *line = ids;
        assert_true(inputs && ids);
        for (char *at = inputs, *end; at; at = end ? end + strlen(apart) : NULL) {
            end = strstr(at, apart);
            line = check_ids(*state, t, name, at, end ? (size_t)(end - at) : strlen(at), line);
        }
        assert_int_equal(*line, 0);
        free(inputs);
        free(ids);
        qkv_tokenizer_free(t);
    }
}

/* ---- the tokenizers that files were made of ---------------------------------------------------------------------- */

static void ids_are_those_of_the_tokenizer_that_a_file_was_made_of(void **state) {
    static const char *const names[][2] = {
        {"falcon", "falcon"}, {"bert-bge", "bert-base-uncased"}, {"llama-spm", "llama-2.model"}};
    struct qkv_context *ctx = *state;
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        struct qkv_tokenizer *t = open_vocab(ctx, names[i][0]);
        if (!t) skip();
        char *lines = shared_text("lines", ".json"), *expected = shared_text(names[i][1], ".expected.jsonl");
        assert_true(lines && expected);
        json_t *texts = qkv_json_value(lines);
        char *at = expected;
        for (size_t k = 0; k < json_array_size(texts); k++, at += strcspn(at, "\n"), at += *at == '\n') {
            char *one = strndup(at, strcspn(at, "\n"));
            json_t *root = qkv_json_value(one), *want = json_object_get(root, "ids_without_specials");
            const char *text = json_string_value(json_array_get(texts, k));
            int32_t *ids;
            size_t count;
            const bool sentencepiece = !want; /* which takes the texts of special tokens for ordinary ones */
            if (!want) want = json_object_get(root, "ids");
            assert_ok(ctx, qkv_tokenizer_encode(ctx, t, text, strlen(text), !sentencepiece, &ids, &count));
            bool same = json_array_size(want) == count;
            for (size_t id = 0; id < count && same; id++)
                same = json_integer_value(json_array_get(want, id)) == ids[id];
            if (!same) fail_msg("%s, line %zu: other ids for \"%s\"", names[i][1], k, text);
            qkv_free(ids);
            json_decref(root);
            free(one);
        }
        json_decref(texts);
        free(lines);
        free(expected);
        qkv_tokenizer_free(t);
    }
}

/* ---- patterns ---------------------------------------------------------------------------------------------------- */

static void write_texts(struct gguf_bytes *b, const char *key, const char *const *texts, size_t count) {
    gguf_put_array(b, key, QKV_GGUF_STRING, count);
    for (size_t i = 0; i < count; i++) gguf_put_text(b, texts[i]);
}

/* The pattern that a file names cuts numbers and lines, also where a token would join them. */
static void patterns_cut_texts_as_their_names_say(void **state) {
    static const char *const tokens[] = {"a",  "b",  "1",  "2",  "!",  "Ġ",  "Ċ",   "12",
                                         "Ġ!", "ĊĊ", "ab", "Ġa", "a!", "b1", "1212"};
    static const char *const merges[] = {"1 2", "Ġ !", "Ċ Ċ", "a b", "Ġ a", "a !", "b 1", "12 12"};
    static const struct {
        const char *pre, *text;
        int32_t ids[8];
        size_t count;
    } cases[] = {{"gpt-2", "ab12 a! !\n\n", {10, 7, 11, 4, 8, 9}, 6},
                 {"deepseek-llm", "ab12 a! !\n\n", {10, 2, 3, 11, 4, 8, 6, 6}, 8},
                 {"deepseek-coder", "ab12 a! !\n\n", {10, 2, 3, 11, 4, 8, 6, 6}, 8},
                 {"gpt-2", "ab1212!\n\n", {10, 14, 4, 9}, 4},
                 {"kimi-k2", "ab1212!\n\n", {10, 7, 2, 3, 4, 9}, 6}};
    struct qkv_context *ctx = *state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct gguf_bytes b;
        struct qkv_tokenizer *t;
        int32_t *ids;
        size_t count;
        gguf_begin(&b, 3, 0, 5);
        gguf_put_string(&b, "general.architecture", "gpt2");
        gguf_put_string(&b, "tokenizer.ggml.model", "gpt2");
        gguf_put_string(&b, "tokenizer.ggml.pre", cases[i].pre);
        write_texts(&b, "tokenizer.ggml.tokens", tokens, TEST_COUNT(tokens));
        write_texts(&b, "tokenizer.ggml.merges", merges, TEST_COUNT(merges));
        gguf_align(&b, 32);
        test_write_file(test_path("pattern.gguf"), b.data, b.size);
        assert_ok(ctx, qkv_folder_tokenizer(ctx, test_path("pattern.gguf"), &t));
        assert_ok(ctx, qkv_tokenizer_encode(ctx, t, cases[i].text, strlen(cases[i].text), true, &ids, &count));
        if (count != cases[i].count || memcmp(ids, cases[i].ids, count * sizeof *ids) != 0)
            fail_msg("%s: other ids, %zu of them", cases[i].pre, count);
        qkv_free(ids);
        qkv_tokenizer_free(t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(patterns_cut_texts_as_their_names_say, test_context, test_context_done),
        cmocka_unit_test_setup_teardown(ids_are_those_of_llama_cpp, test_context, test_context_done),
        cmocka_unit_test_setup_teardown(ids_are_those_of_the_tokenizer_that_a_file_was_made_of, test_context,
                                        test_context_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
