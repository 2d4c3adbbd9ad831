/* test_vocab_json: the vocabulary and the merges of a tokenizer.json are those that jansson reads; a file is refused
 * if jansson refuses it, with the same message; and the rest of the file is as in jansson: for files in many
 * spellings, cut off, and damaged. Only a repeated key of the vocabulary is no error: its last id counts, as in the
 * reference library. */
/* labels: quick */
#include "context_fixture.h"
#include "text/vocab_json.h"

static const char *const files[] = {
    "{\"version\": \"1.0\", \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, \"\xC4\xA0\": "
    "3}, "
    "\"merges\": [\"a b\", [\"a\", \"a b\"], \"\xC4\xA0 a\"]}, \"added_tokens\": [{\"id\": 4, \"content\": \"<s>\"}]}",
    "{\"model\":{\"merges\":[],\"vocab\":{\"\\\"\":0,\"\\\\u\":12,\"\\u00e9\\n\":3,\"\\ud83d\\ude00\":4,\"\":"
    "999999999999999999}}}",
    "{\n \"model\" : {\n  \"vocab\" : { \"x\" : 7 }\n }\n}\n",
    "{\"model\":{\"merges\":[\"a\\u0020b\",[\"\\t\",\"\\/\"],\"\",\"a\",\"a b c\",[\"a b\",\" "
    "\"]],\"vocab\":{\"a\":1,\"b\":0}}}",
    "{\"model\":{\"vocab\":{\"a\":-1,\"b\":1.5,\"c\":1e3,\"d\":null,\"e\":01}}}",
    "{\"model\":{\"vocab\":{\"a\":1,\"a\":2}}}",
    "{\"model\":{\"vocab\":[[\"a\",-1.5],[\"b\",0]],\"unk_id\":0}}",
    "{\"model\":{\"vocab\":{},\"merges\":[[\"a\"],[\"a\",\"b\",\"c\"],3,null,{\"a\":\"b\"}]}}",
    "{\"model\":{\"vocab\":{\"a\":1},\"vocab\":{\"b\":1}}}",
    "{\"mod\\u0065l\":{\"vocab\":{\"a\":1},\"merges\":[\"a a\"]},\"vocab\":{\"b\":2}}",
    "{\"vocab\":{\"model\":{\"vocab\":{\"a\":1}}},\"model\":3,\"a\":[{\"model\":{\"vocab\":{}}}]}",
    "{\"model\":{\"vocab\":{\"a\":18446744073709551616}}}",
    "{\"model\":{\"vocab\":{\"\\u0000\":1}}}",
    "{\"model\":{\"vocab\":{\"\xFF\":1}}}",
    "[]",
    ""};

static void compare_merges(const struct qkv_vocab_json *got, const json_t *merges) {
    assert_int_equal(got->merge_count, json_array_size(merges));
    for (size_t i = 0; i < got->merge_count; i++) {
        const struct qkv_vocab_merge *m = &got->merges[i];
        const json_t *entry = json_array_get(merges, i);
        char *text = NULL;
        if (!m->left) { /* what has a space, and one only, and what is two texts, is a merge */
            const char *whole = json_string_value(entry), *space = whole ? strchr(whole, ' ') : NULL;
            assert_true(!space || strchr(space + 1, ' '));
            assert_true(json_array_size(entry) != 2 || !json_is_string(json_array_get(entry, 0)) ||
                        !json_is_string(json_array_get(entry, 1)));
            continue;
        }
        assert_true(asprintf(&text, "%.*s%s%.*s", (int)m->left_size, m->left, json_is_string(entry) ? " " : "",
                             (int)m->right_size, m->right) >= 0);
        if (json_is_string(entry)) {
            assert_string_equal(text, json_string_value(entry));
        } else {
            assert_int_equal(m->left_size, json_string_length(json_array_get(entry, 0)));
            assert_memory_equal(text, json_string_value(json_array_get(entry, 0)), m->left_size);
            assert_string_equal(text + m->left_size, json_string_value(json_array_get(entry, 1)));
        }
        free(text);
    }
}

static void compare_keys(const struct qkv_vocab_json *got, json_t *vocab) {
    const char *key;
    json_t *value;
    size_t i = 0;
    assert_int_equal(got->has_vocab, json_is_object(vocab));
    assert_int_equal(got->keys.count, json_object_size(vocab));
    json_object_foreach(vocab, key, value) {
        const struct qkv_string *e = &got->keys.entries[i++];
        assert_int_equal(e->size, strlen(key));
        assert_memory_equal(got->keys.bytes.data + e->offset, key, e->size);
        const bool id = json_is_integer(value) && json_integer_value(value) >= 0;
        assert_true(e->value == (id ? json_integer_value(value) : -1));
    }
}

/* For a file whose only fault is repeated keys: compares its vocabulary, if it was read. */
static void compare_twice(const struct qkv_json_text *text) {
    struct qkv_vocab_json got;
    json_t *want = json_loadb(text->data, text->size, 0, NULL);
    assert_non_null(want);
    if (!qkv_vocab_json_load(ctx, text, &got)) {
        compare_keys(&got, json_object_get(json_object_get(want, "model"), "vocab"));
        qkv_vocab_json_free(&got);
    }
    qkv_forgive(ctx);
    json_decref(want);
}

/* True where the file is JSON. */
static bool compare(const char *data, size_t size) {
    char *exact = malloc(size + 1);
    assert_non_null(exact);
    memcpy(exact, data, size);
    struct qkv_vocab_json got;
    json_t *want;
    char message[1024];
    const struct qkv_json_text text = {.name = "t.json", .data = exact, .size = size, .max_size = 1 << 20};
    const enum qkv_status expected = qkv_json_load(ctx, &text, &want);
    snprintf(message, sizeof message, "%s", qkv_message(ctx));
    qkv_forgive(ctx);
    json_t *twice = expected ? json_loadb(exact, size, 0, NULL) : NULL;
    if (twice && strstr(message, "duplicate")) {
        compare_twice(&text);
        json_decref(twice);
        free(exact);
        return false;
    }
    json_decref(twice);
    assert_int_equal(qkv_vocab_json_load(ctx, &text, &got), expected);
    assert_string_equal(qkv_message(ctx), message);
    qkv_forgive(ctx);
    if (!expected) {
        json_t *model = json_object_get(want, "model"), *other = json_object_get(got.root, "model");
        compare_keys(&got, json_object_get(model, "vocab"));
        compare_merges(&got, json_object_get(model, "merges"));
        assert_true(json_is_array(json_object_get(model, "merges")) == json_is_array(json_object_get(other, "merges")));
        for (int k = 0; k < 2; k++) { /* the rest is the same */
            json_t *half = k ? other : model;
            if (json_is_object(json_object_get(half, "vocab"))) json_object_set_new(half, "vocab", json_null());
            if (json_is_array(json_object_get(half, "merges"))) json_object_set_new(half, "merges", json_null());
        }
        assert_true(json_equal(want, got.root));
        qkv_vocab_json_free(&got);
    }
    json_decref(want);
    free(exact);
    return !expected;
}

static void tables_are_what_jansson_reads(void **state) {
    (void)state;
    size_t good = 0;
    for (size_t i = 0; i < TEST_COUNT(files); i++) good += compare(files[i], strlen(files[i]));
    assert_true(good >= 9);
}

static void cut_off_files_are_refused_in_the_same_words(void **state) {
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(files); i++)
        for (size_t n = 0; n < strlen(files[i]); n++) compare(files[i], n);
}

static void damaged_files_are_read_or_refused_alike(void **state) {
    (void)state;
    static const char signs[] = "{}[]\",:\\ \n0123ua\xC3\xA9";
    struct qkv_random random = test_random(1);
    size_t good = 0;
    for (size_t k = 0; k < 20000; k++) {
        char text[1024];
        const char *file = files[test_between(&random, 0, TEST_COUNT(files) - 2)];
        size_t n = strlen(file);
        memcpy(text, file, n);
        for (size_t i = test_between(&random, 1, 3); i > 0 && n; i--) {
            const size_t at = test_between(&random, 0, n - 1);
            const char sign = signs[test_between(&random, 0, sizeof signs - 2)];
            switch (test_between(&random, 0, 2)) {
            case 0:
                text[at] = sign;
                break;
            case 1:
                memmove(text + at + 1, text + at, n++ - at);
                text[at] = sign;
                break;
            default:
                memmove(text + at, text + at + 1, --n - at);
            }
        }
        good += compare(text, n);
    }
    assert_true(good > 200);
}

static void the_last_of_two_equal_keys_is_true(void **state) {
    (void)state;
    static const char file[] = "{\"model\":{\"vocab\":{\"a\":1,\"b\":2,\"a\":3}}}";
    const struct qkv_json_text text = {.name = "t.json", .data = file, .size = strlen(file), .max_size = 1 << 20};
    struct qkv_vocab_json got;
    assert_ok(ctx, qkv_vocab_json_load(ctx, &text, &got));
    assert_int_equal(got.keys.count, 2);
    assert_true(qkv_strings_find(&got.keys, "a", 1)->value == 3 && qkv_strings_find(&got.keys, "b", 1)->value == 2);
    qkv_vocab_json_free(&got);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(tables_are_what_jansson_reads),
                                       cmocka_unit_test(the_last_of_two_equal_keys_is_true),
                                       cmocka_unit_test(cut_off_files_are_refused_in_the_same_words),
                                       cmocka_unit_test(damaged_files_are_read_or_refused_alike)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
