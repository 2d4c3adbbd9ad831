/* Published tokenizer.json files, if ../shared/data has them: ids, spans and text are those of Hugging Face
 * tokenizers 0.23 (tokenizers/NAME.expected.jsonl, one line for each of lines.json). */
/* labels: quick */
#include "test_text.h"

#include <dirent.h>

#include "base/json_load.h"

static json_t *load(const char *path) {
    struct qkv_map map;
    json_t *root = NULL;
    assert_int_equal(qkv_read_file(NULL, path, &map), QKV_OK);
    const struct qkv_json_text text = {.name = path, .data = map.data, .size = map.size, .max_size = (size_t)1 << 30};
    assert_int_equal(qkv_json_load(NULL, &text, &root), QKV_OK);
    qkv_unmap_file(&map);
    return root;
}

/* The byte of a character of a text. */
static size_t byte_of(const char *text, size_t character) {
    const char *at = text;
    for (; character; character--) at += qkv_utf8_length(at, strlen(at));
    return (size_t)(at - text);
}

static void same_ids(const char *what, const json_t *expected, const int32_t *ids, size_t count) {
    bool same = json_array_size(expected) == count;
    for (size_t i = 0; same && i < count; i++) same = json_integer_value(json_array_get(expected, i)) == ids[i];
    if (!same) fail_msg("%s: other ids", what);
}

static void check_line(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *name, size_t line,
                       const char *text, const json_t *expected) {
    char what[400];
    int32_t *ids;
    size_t *spans, count, size;
    snprintf(what, sizeof what, "%s, line %zu", name, line);
    assert_ok(ctx, qkv_tokenizer_encode_sequence(ctx, t, text, strlen(text), true, &ids, &count));
    same_ids(what, json_object_get(expected, "ids"), ids, count);
    qkv_free(ids);
    assert_ok(ctx, qkv_tokenizer_encode(ctx, t, text, strlen(text), true, &ids, &count));
    same_ids(what, json_object_get(expected, "ids_without_specials"), ids, count);
    qkv_free(ids);
    assert_ok(ctx, qkv_tokenizer_encode_spans(ctx, t, text, strlen(text), true, &ids, &spans, &count));
    same_ids(what, json_object_get(expected, "ids_without_specials"), ids, count);
    for (size_t i = 0; i < count; i++) {
        const json_t *span = json_array_get(json_object_get(expected, "offsets"), i);
        for (size_t k = 0; k < 2; k++) {
            const size_t place = byte_of(text, (size_t)json_integer_value(json_array_get(span, k)));
            if (spans[2 * i + k] != place)
                fail_msg("%s: token %zu spans [%zu, %zu), not byte %zu", what, i, spans[2 * i], spans[2 * i + 1],
                         place);
        }
    }
    char *decoded;
    assert_ok(ctx, qkv_tokenizer_text(ctx, t, ids, count, true, &decoded, &size));
    if (strcmp(decoded, json_string_value(json_object_get(expected, "decoded"))) != 0)
        fail_msg("%s: other text \"%s\"", what, decoded);
    qkv_free(decoded);
    qkv_free(spans);
    qkv_free(ids);
}

static void check_file(struct qkv_context *ctx, const char *folder, const char *name, const json_t *lines) {
    char path[8192], line[1 << 16];
    struct qkv_tokenizer *t;
    snprintf(path, sizeof path, "%s/%s.json", folder, name);
    assert_ok(ctx, qkv_tokenizer_open(ctx, path, &t));
    snprintf(path, sizeof path, "%s/%s.expected.jsonl", folder, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t k = 0;
    for (; fgets(line, sizeof line, file); k++) {
        json_t *expected = qkv_json_value(line);
        assert_non_null(expected);
        check_line(ctx, t, name, k, json_string_value(json_array_get(lines, k)), expected);
        json_decref(expected);
    }
    assert_int_equal(k, json_array_size(lines));
    fclose(file);
    qkv_tokenizer_free(t);
}

static void published_files_give_the_ids_spans_and_texts_of_their_library(void **state) {
    struct qkv_context *ctx = *state;
    const char *data = getenv("QKV_DATA");
    char folder[4000], path[4096];
    snprintf(folder, sizeof folder, "%s/tokenizers", data ? data : TEST_SOURCE_DIR "/../shared/data");
    DIR *list = opendir(folder);
    if (!list) {
        print_message("%s is not there\n", folder);
        skip();
    }
    snprintf(path, sizeof path, "%s/lines.json", folder);
    json_t *lines = load(path);
    size_t files = 0;
    for (const struct dirent *e; (e = readdir(list));) {
        const char *end = strstr(e->d_name, ".expected.jsonl");
        if (!end || strstr(e->d_name, ".model.")) continue; /* SentencePiece */
        char name[256];
        snprintf(name, sizeof name, "%.*s", (int)(end - e->d_name), e->d_name);
        check_file(ctx, folder, name, lines);
        files++;
    }
    assert_true(files > 0);
    json_decref(lines);
    closedir(list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_files_give_the_ids_spans_and_texts_of_their_library),
    };
    return cmocka_run_group_tests(tests, test_context, test_context_done);
}
