/* Every kind of part of a tokenizer.json, on small files: ids, spans and text are those of Hugging Face tokenizers,
 * which chain_cases.py recorded. */
/* labels: quick */
#include "test_text.h"

#include "text/chain.h"

static json_t *root; /* chain_cases.json */

static const json_t *case_at(size_t i) {
    return json_array_get(json_object_get(root, "cases"), i);
}

static size_t case_count(void) {
    return json_array_size(json_object_get(root, "cases"));
}

static const char *text_at(size_t k) {
    return json_string_value(json_array_get(json_object_get(root, "texts"), k));
}

static size_t text_count(void) {
    return json_array_size(json_object_get(root, "texts"));
}

/* The file of a case; free() it. */
static char *case_file(size_t i) {
    char *file = json_dumps(json_object_get(case_at(i), "file"), JSON_COMPACT);
    if (!file) abort();
    return file;
}

static int setup(void **state) {
    size_t size;
    char *file = test_read_file(TEST_SOURCE_DIR "/tests/chain_cases.json", &size);
    root = file ? qkv_json_value(file) : NULL;
    free(file);
    return root ? test_context(state) : 1;
}

static int teardown(void **state) {
    json_decref(root);
    return test_context_done(state);
}

static void check_case(struct qkv_context *ctx, size_t i_case, size_t k) {
    const json_t *result = json_array_get(json_object_get(case_at(i_case), "results"), k);
    char *file = case_file(i_case);
    struct qkv_tokenizer *t = NULL;
    struct qkv_buffer ids_text = {0}, spans_text = {0};
    int32_t *ids;
    size_t *spans, count, size;
    char *text;
    assert_ok(ctx, qkv_tokenizer_parse(ctx, file, strlen(file), "tokenizer.json", &t));
    free(file);
    assert_ok(ctx, qkv_tokenizer_encode_spans(ctx, t, text_at(k), strlen(text_at(k)), true, &ids, &spans, &count));
    assert_ok(ctx, qkv_buffer_append(ctx, &ids_text, "", 0));
    assert_ok(ctx, qkv_buffer_append(ctx, &spans_text, "", 0));
    for (size_t i = 0; i < count; i++) {
        assert_ok(ctx, qkv_buffer_print(ctx, &ids_text, i ? " %d" : "%d", (int)ids[i]));
        assert_ok(ctx, qkv_buffer_print(ctx, &spans_text, i ? " %zu-%zu" : "%zu-%zu", spans[2 * i], spans[2 * i + 1]));
    }
    assert_ok(ctx, qkv_tokenizer_text(ctx, t, ids, count, true, &text, &size));
    const char *got[] = {ids_text.data, spans_text.data, text};
    for (size_t i = 0; i < 3; i++) {
        const char *expected = json_string_value(json_array_get(result, i)),
                   *name = json_string_value(json_object_get(case_at(i_case), "name"));
        if (strcmp(got[i] ? got[i] : "", expected) != 0)
            fail_msg("%s, text %zu: \"%s\", not \"%s\"", name, k, got[i] ? got[i] : "", expected);
    }
    qkv_free(ids);
    int32_t *plain; /* without spans the same ids */
    size_t n;
    assert_ok(ctx, qkv_tokenizer_encode(ctx, t, text_at(k), strlen(text_at(k)), true, &plain, &n));
    assert_int_equal(n, count);
    qkv_free(plain);
    qkv_free(spans);
    qkv_free(text);
    qkv_buffer_free(&ids_text);
    qkv_buffer_free(&spans_text);
    qkv_tokenizer_free(t);
}

static void every_kind_of_link_gives_what_its_library_gives(void **state) {
    for (size_t i = 0; i < case_count(); i++)
        for (size_t k = 0; k < text_count(); k++) check_case(*state, i, k);
}

/* What tokenizers 0.23.3 makes of each id of vocabularies with repeated pieces and keys; here, ids without a token
 * are refused. */
static void ids_of_what_comes_twice_have_their_text(void **state) {
    static const struct {
        const char *file, *text, *ids, *pieces[6];
    } cases[] = {{"{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0.0],[\"a\",-1.0],[\"b\",-2.0],"
                  "[\"ab\",-2.5],[\"ab\",-1.5],[\"a\",-3.0]]},\"decoder\":{\"type\":\"Fuse\"}}",
                  "aab",
                  "5 4 ",
                  {"<unk>", "a", "b", "ab", "ab", "a"}},
                 {"{\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"u\",\"vocab\":{\"u\":0,\"a\":1,\"b\":2,\"a\":3,"
                  "\"c\":5}},\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},\"decoder\":{\"type\":\"Fuse\"}}",
                  "a b c",
                  "3 2 5 ",
                  {"u", NULL, "b", "a", NULL, "c"}}};
    struct qkv_context *ctx = *state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qkv_tokenizer *t;
        int32_t *ids;
        size_t count, size;
        char got[64] = "", *text;
        assert_ok(ctx, qkv_tokenizer_parse(ctx, cases[i].file, strlen(cases[i].file), "tokenizer.json", &t));
        assert_ok(ctx, qkv_tokenizer_encode(ctx, t, cases[i].text, strlen(cases[i].text), false, &ids, &count));
        for (size_t k = 0; k < count; k++) sprintf(got + strlen(got), "%d ", (int)ids[k]);
        assert_string_equal(got, cases[i].ids);
        for (int32_t id = 0; id < 6; id++) {
            if (!cases[i].pieces[id]) {
                assert_status(ctx, qkv_tokenizer_text(ctx, t, &id, 1, false, &text, &size), QKV_ARGUMENT);
                continue;
            }
            assert_ok(ctx, qkv_tokenizer_text(ctx, t, &id, 1, false, &text, &size));
            assert_int_equal(size, strlen(cases[i].pieces[id]));
            assert_memory_equal(text, cases[i].pieces[id], size);
            qkv_free(text);
        }
        qkv_free(ids);
        qkv_tokenizer_free(t);
    }
}

static void every_kind_has_a_case(void **state) {
    (void)state;
    const struct chain_kind *lists[] = {qkv_chain_normalizers, qkv_chain_splitters, qkv_chain_decoders};
    for (size_t l = 0; l < TEST_COUNT(lists); l++)
        for (const struct chain_kind *kind = lists[l]; kind->name; kind++) {
            char key[64];
            bool found = false;
            snprintf(key, sizeof key, "\"type\":\"%s\"", kind->name);
            for (size_t i = 0; i < case_count() && !found; i++) {
                char *file = case_file(i);
                found = strstr(file, key) != NULL;
                free(file);
            }
            if (!found) fail_msg("no case has %s", kind->name);
        }
}

/* Changed bytes of a file either are refused with a sentence or make a tokenizer that encodes. */
static void broken_files_are_refused_or_work(void **state) {
    struct qkv_context *ctx = *state;
    struct qkv_random random = test_random(1);
    static const char likely[] = "0123456789\"{}[],:. anrefu\\";
    for (int round = 0; round < 600; round++) {
        char *file = case_file((size_t)qkv_random_below(&random, case_count()));
        const size_t size = strlen(file);
        for (uint64_t n = 1 + qkv_random_below(&random, 3); n > 0; n--)
            file[qkv_random_below(&random, size)] = likely[qkv_random_below(&random, sizeof likely - 1)];
        struct qkv_tokenizer *t;
        if (qkv_tokenizer_parse(ctx, file, size, "tokenizer.json", &t)) {
            assert_message(ctx, "tokenizer.json");
        } else {
            for (size_t k = 0; k < text_count(); k++) {
                int32_t *ids = NULL;
                size_t *spans = NULL, count, n;
                char *text = NULL;
                if (!qkv_tokenizer_encode_spans(ctx, t, text_at(k), strlen(text_at(k)), true, &ids, &spans, &count))
                    assert_ok(ctx, qkv_tokenizer_text(ctx, t, ids, count, false, &text, &n));
                qkv_free(ids);
                qkv_free(spans);
                qkv_free(text);
            }
            qkv_tokenizer_free(t);
        }
        free(file);
    }
}

/* Each link doubles what the one before made: 2^40 bytes of one. */
static void links_that_would_fill_any_memory_are_stopped(void **state) {
    struct qkv_context *ctx = *state;
    static const char *const kinds[] = {"normalizer", "decoder"}, *const lists[] = {"normalizers", "decoders"};
    for (size_t k = 0; k < 2; k++) {
        struct qkv_buffer file = {0};
        struct qkv_tokenizer *t;
        int32_t *ids = NULL;
        size_t count = 0;
        assert_ok(ctx, qkv_buffer_print(ctx, &file, "{\"%s\": {\"type\": \"Sequence\", \"%s\": [", kinds[k], lists[k]));
        for (size_t i = 0; i < 40; i++)
            assert_ok(ctx, qkv_buffer_print(
                               ctx, &file,
                               "%s{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, \"content\": \"aa\"}",
                               i ? ", " : ""));
        assert_ok(ctx,
                  qkv_buffer_print(ctx, &file, "]}, \"model\": {\"type\": \"WordLevel\", \"vocab\": {\"a\": 0}}}"));
        if (k == 0) {
            assert_ok(ctx, qkv_tokenizer_parse(ctx, file.data, file.size, "tokenizer.json", &t));
            assert_fails(ctx, qkv_tokenizer_encode(ctx, t, "a", 1, true, &ids, &count), QKV_FORMAT, "normalizers");
            qkv_tokenizer_free(t);
        } else { /* what tokens are is asked when it is read */
            assert_fails(ctx, qkv_tokenizer_parse(ctx, file.data, file.size, "tokenizer.json", &t), QKV_FORMAT,
                         "decoders");
        }
        qkv_buffer_free(&file);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_link_gives_what_its_library_gives),
        cmocka_unit_test(ids_of_what_comes_twice_have_their_text),
        cmocka_unit_test(every_kind_has_a_case),
        cmocka_unit_test(broken_files_are_refused_or_work),
        cmocka_unit_test(links_that_would_fill_any_memory_are_stopped),
    };
    test_seed();
    return cmocka_run_group_tests(tests, setup, teardown);
}
