/* test_spm: models of SentencePiece and ranks of tiktoken. Ids and texts are those of the packages sentencepiece 0.2.3
 * and tiktoken 0.14: small files with random texts (golden/spm, made by golden/make/spm_cases.py), and, if ../shared/data
 * exists, published models. Then folders of families, and files that are damaged. */
/* labels: quick */
#include <dirent.h>
#include <sys/stat.h>

#include "base/json_load.h"
#include "spm_fixture.h"
#include "test_text.h"
#include "text/chain.h"

/* ---- ids and texts of the packages ------------------------------------------------------------------------------- */

struct expected {
    struct qkv_context *ctx;
    const char *name;
    const struct qkv_tokenizer *t;
};

/* Token by token, spans follow each other from the first byte to the last one at most. */
static void check_spans(const struct expected *e, size_t line, const size_t *spans, size_t count, size_t size) {
    for (size_t i = 0; i < count; i++)
        if (spans[2 * i] > spans[2 * i + 1] || spans[2 * i + 1] > size || (i && spans[2 * i] < spans[2 * i - 2]))
            fail_msg("%s, line %zu: token %zu spans [%zu, %zu)", e->name, line, i, spans[2 * i], spans[2 * i + 1]);
}

static void check_line(const struct expected *e, size_t line, const char *text, const json_t *want) {
    const json_t *ids = json_object_get(want, "ids");
    const char *decoded = json_string_value(json_object_get(want, "decoded"));
    const size_t size = strlen(text);
    int32_t *got, *again;
    size_t *spans, count, again_count, decoded_size;
    char *back;
    assert_ok(e->ctx, qkv_tokenizer_encode(e->ctx, e->t, text, size, false, &got, &count));
    bool same = count == json_array_size(ids);
    for (size_t i = 0; i < count && same; i++) same = json_integer_value(json_array_get(ids, i)) == got[i];
    if (!same) fail_msg("%s, line %zu: other ids for \"%s\"", e->name, line, text);
    assert_ok(e->ctx, qkv_tokenizer_encode_spans(e->ctx, e->t, text, size, false, &again, &spans, &again_count));
    assert_int_equal(again_count, count);
    assert_memory_equal(again, got, count * sizeof *got);
    check_spans(e, line, spans, count, size);
    assert_ok(e->ctx, qkv_tokenizer_text(e->ctx, e->t, got, count, false, &back, &decoded_size));
    if (strcmp(back, decoded) != 0)
        fail_msg("%s, line %zu: other text \"%s\", not \"%s\"", e->name, line, back, decoded);
    qkv_free(back);
    qkv_free(got);
    qkv_free(again);
    qkv_free(spans);
}

/* texts: those of the lines; NULL: the lines have them. */
static void check_lines(const struct expected *e, const char *path, const json_t *texts) {
    static char line[1 << 16];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t k = 0;
    for (; fgets(line, sizeof line, file); k++) {
        json_t *want = qkv_json_value(line);
        assert_non_null(want);
        const json_t *text = texts ? json_array_get(texts, k) : json_object_get(want, "text");
        check_line(e, k, json_string_value(text), want);
        json_decref(want);
    }
    assert_true(k > 0);
    fclose(file);
}

/* As it was read, and as it is saved and read again. */
static void check_file(struct qkv_context *ctx, const char *name, const char *path, const char *lines,
                       const json_t *texts) {
    struct qkv_tokenizer *t, *again;
    assert_ok(ctx, qkv_tokenizer_load(ctx, path, &t));
    check_lines(&(struct expected){ctx, name, t}, lines, texts);
    assert_ok(ctx, qkv_tokenizer_save(ctx, t, test_path("saved.json")));
    assert_ok(ctx, qkv_tokenizer_load(ctx, test_path("saved.json"), &again));
    assert_int_equal(qkv_tokenizer_vocab(t), qkv_tokenizer_vocab(again));
    check_lines(&(struct expected){ctx, "saved", again}, lines, texts);
    qkv_tokenizer_free(t);
    qkv_tokenizer_free(again);
}

static void copy_file(const char *from, const char *to) {
    struct qkv_map map;
    assert_int_equal(qkv_read_file(NULL, from, &map), QKV_OK);
    test_write_file(to, (const char *)map.data, map.size);
    qkv_unmap_file(&map);
}

static void small_files_give_the_ids_and_texts_of_their_packages(void **state) {
    struct qkv_context *ctx = *state;
    DIR *list = opendir(TEST_SOURCE_DIR "/tests/golden/spm");
    size_t files = 0;
    assert_non_null(list);
    for (const struct dirent *e; (e = readdir(list));) {
        const char *end = strrchr(e->d_name, '.');
        char path[4096], lines[4096], config[128];
        const bool ranks = end && !strcmp(end, ".tiktoken");
        if (!end || (!ranks && strcmp(end, ".model") != 0)) continue;
        const int n = (int)(end - e->d_name);
        snprintf(path, sizeof path, TEST_SOURCE_DIR "/tests/golden/spm/%s", e->d_name);
        snprintf(lines, sizeof lines, TEST_SOURCE_DIR "/tests/golden/spm/%.*s.jsonl", n, e->d_name);
        if (ranks) { /* config.json next to the file tells the family */
            snprintf(config, sizeof config, "{\"model_type\": \"%.*s\"}", n, e->d_name);
            test_write_file(test_path("config.json"), config, strlen(config));
            copy_file(path, test_path("tokenizer.model"));
        }
        check_file(ctx, e->d_name, ranks ? test_path("tokenizer.model") : path, lines, NULL);
        files++;
    }
    remove(test_path("config.json"));
    remove(test_path("tokenizer.model"));
    assert_int_equal(files, 15);
    closedir(list);
}

/* A JSON file of ../shared/data/tokenizers; NULL: it does not exist. */
static json_t *shared_json(const char *name) {
    size_t size;
    char path[200];
    snprintf(path, sizeof path, "tokenizers/%s", name);
    char *text = test_shared_file(path, &size);
    json_t *root = text ? qkv_json_value(text) : NULL;
    free(text);
    return root;
}

static const char *shared_path(const char *name) {
    static char paths[2][4096];
    static int next;
    const char *data = getenv("QKV_DATA");
    char *path = paths[next++ & 1];
    snprintf(path, sizeof paths[0], "%s/tokenizers/%s", data ? data : TEST_SOURCE_DIR "/../shared/data", name);
    return path;
}

static void published_models_give_the_ids_and_texts_of_sentencepiece(void **state) {
    static const char *const names[] = {"llama-2", "mistral-v3", "t5-base", "spm-test", "onmt-sp"};
    struct qkv_context *ctx = *state;
    json_t *texts = shared_json("lines.json");
    if (!texts) {
        print_message("../shared/data/tokenizers is not there\n");
        skip();
    }
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        char file[100], lines[100];
        snprintf(file, sizeof file, "%s.model", names[i]);
        snprintf(lines, sizeof lines, "%s.model.expected.jsonl", names[i]);
        check_file(ctx, names[i], shared_path(file), shared_path(lines), texts);
    }
    json_decref(texts);
}

/* A byte that is not UTF-8 is U+FFFD, which the charsmap does not map, as in SentencePiece. */
static void bytes_that_are_no_text_are_unknown_characters(void **state) {
    struct qkv_context *ctx = *state;
    struct qkv_tokenizer *t;
    int32_t *bad, *good;
    size_t bad_count, good_count;
    assert_ok(ctx, qkv_tokenizer_load(ctx, TEST_SOURCE_DIR "/tests/golden/spm/unigram.model", &t));
    assert_ok(ctx, qkv_tokenizer_encode(ctx, t, "the\xFFsea", 7, false, &bad, &bad_count));
    assert_ok(ctx, qkv_tokenizer_encode(ctx, t, "the\xE6\x97\xA5sea", 9, false, &good, &good_count));
    assert_int_equal(bad_count, good_count);
    assert_memory_equal(bad, good, bad_count * sizeof *bad);
    qkv_free(bad);
    qkv_free(good);
    qkv_tokenizer_free(t);
}

/* ---- files that are made here ------------------------------------------------------------------------------------ */

static void proto_write(const struct proto *p, const char *name) {
    test_write_file(test_path(name), (const char *)p->bytes, p->size);
}

static void expect_refusal(struct qkv_context *ctx, const struct proto *p, const char *why) {
    struct qkv_tokenizer *t;
    proto_write(p, "bad.model");
    assert_fails(ctx, qkv_tokenizer_load(ctx, test_path("bad.model"), &t), QKV_FORMAT, why);
    remove(test_path("bad.model"));
}

static void damaged_models_are_refused_by_name(void **state) {
    struct qkv_context *ctx = *state;
    static struct proto p, whole;
    static const struct {
        const char *text;
        float score;
        unsigned type;
        const char *why;
    } pieces[] = {
        {"c", 0, QKV_SPM_UNKNOWN, "has more than one piece of type UNKNOWN: 7 is the second"},
        {"c", 0, 9, "piece 7 has the type 9"},
        {"c", 0, QKV_SPM_BYTE, "the model has no byte_fallback"},
        {"", 0, QKV_SPM_NORMAL, "piece 7 has no text"},
        {"ab", 0, QKV_SPM_NORMAL, "pieces 6 and 7 are both \"ab\""},
        {"\xC3", 0, QKV_SPM_NORMAL, "piece 7 is not UTF-8"},
        {"c", INFINITY, QKV_SPM_NORMAL, "the score of piece 7 (\"c\") is not a finite number"},
        {"cd", -1, QKV_SPM_NORMAL, NULL}, /* none of its parts is a piece: it cannot be made */
        {"ca", -1, QKV_SPM_NORMAL, "has the character \"c\", which is no piece"},
    };
    for (size_t i = 0; i < TEST_COUNT(pieces); i++) {
        proto_usual(&p);
        proto_piece(&p, pieces[i].text, pieces[i].score, pieces[i].type);
        proto_end(&p, 2, 0);
        if (pieces[i].why) expect_refusal(ctx, &p, pieces[i].why);
    }
    static const struct {
        unsigned kind, flag;
        const char *why;
    } ends[] = {{3, 0, "its model_type is 3 (words)"},
                {7, 0, "its model_type is 7"},
                {1, 24, "treat_whitespace_as_suffix"},
                {1, 35, "only 0 of the 256 pieces of type BYTE"}};
    for (size_t i = 0; i < TEST_COUNT(ends); i++) {
        proto_usual(&p);
        proto_end(&p, ends[i].kind, ends[i].flag);
        expect_refusal(ctx, &p, ends[i].why);
    }
    p.size = 0;
    proto_end(&p, 1, 0);
    expect_refusal(ctx, &p, "has no pieces");
    p.size = 0;
    proto_piece(&p, "a", 0, QKV_SPM_NORMAL);
    expect_refusal(ctx, &p, "has no piece of type UNKNOWN");
    proto_usual(&p);
    proto_number(&p, 1, 5);
    expect_refusal(ctx, &p, "field 1 of ModelProto has the wire type 0, not 2");
    proto_usual(&p);
    p.bytes[p.size++] = 1 << 3 | 3;
    expect_refusal(ctx, &p, "has the wire type 3, which is none");
    proto_usual(&p);
    memset(p.bytes + p.size, 0xFF, 12);
    p.size += 12;
    expect_refusal(ctx, &p, "has more than 64 bits");
    proto_usual(&whole);
    proto_end(&whole, 1, 0);
    for (size_t n = 1; n < whole.size; n++) { /* cut short anywhere: refused, or, between fields, a smaller model */
        struct qkv_tokenizer *t = NULL;
        p = whole;
        p.size = n;
        proto_write(&p, "bad.model");
        const enum qkv_status status = qkv_tokenizer_load(ctx, test_path("bad.model"), &t);
        assert_true(status == QKV_OK || status == QKV_FORMAT);
        assert_true(!status == !*qkv_message(ctx));
        qkv_tokenizer_free(t);
    }
    p = whole;
    p.size--;
    expect_refusal(ctx, &p, "is cut short");
}

static void expect_ranks(struct qkv_context *ctx, const char *text, size_t size, const char *why) {
    struct qkv_tokenizer *t;
    test_write_file(test_path("qwen.tiktoken"), text, size);
    assert_fails(ctx, qkv_tokenizer_load(ctx, test_path("qwen.tiktoken"), &t), QKV_FORMAT, why);
    remove(test_path("qwen.tiktoken"));
}

static void damaged_ranks_are_refused_by_name(void **state) {
    struct qkv_context *ctx = *state;
    struct qkv_map map;
    struct qkv_tokenizer *t;
    assert_int_equal(qkv_read_file(ctx, TEST_SOURCE_DIR "/tests/golden/spm/qwen.tiktoken", &map), QKV_OK);
    char *text = qkv_copy_bytes(ctx, map.data, map.size);
    const size_t size = map.size;
    assert_non_null(text);
    qkv_unmap_file(&map);
    char *third = strchr(strchr(text, '\n') + 1, '\n') + 1;
    const char first = *third;
    *third = '-';
    expect_ranks(ctx, text, size, "line 3: the token is not base64");
    *third = first;
    expect_ranks(ctx, third, size - (size_t)(third - text), "has no rank for the byte 0x00");
    third[strcspn(third, " ") + 1] = 'x';
    expect_ranks(ctx, text, size, "line 3 is not a token in base64, a space and a rank");
    third[strcspn(third, " ") + 1] = '1';
    expect_ranks(ctx, text, size, "two tokens have the rank 1");
    third[strcspn(third, " ") + 1] = '2';
    struct qkv_buffer twice = {0};
    assert_ok(ctx, qkv_buffer_print(ctx, &twice, "%.*sIQ== 9000000\n", (int)size, text));
    expect_ranks(ctx, twice.data, twice.size, "ranks are less than 8388608");
    twice.size = size;
    assert_ok(ctx, qkv_buffer_print(ctx, &twice, "IQ== 9000\n"));
    expect_ranks(ctx, twice.data, twice.size, "the token has the rank 33 before");
    qkv_buffer_free(&twice);
    test_write_file(test_path("some.tiktoken"), text, size);
    assert_fails(ctx, qkv_tokenizer_load(ctx, test_path("some.tiktoken"), &t), QKV_FORMAT,
                 "the families qwen, phi3small, kimi, glm");
    remove(test_path("some.tiktoken"));
    free(text);
}

/* ---- folders ----------------------------------------------------------------------------------------------------- */

static void write_text(const char *name, const char *text) {
    test_write_file(test_path(name), text, strlen(text));
}

static void clear_folder(void) {
    static const char *const names[] = {"tokenizer.model",       "spiece.model",      "sentencepiece.bpe.model",
                                        "tokenizer_config.json", "added_tokens.json", "config.json",
                                        "cl100k_base.tiktoken",  "source.spm",        "sentence_bert_config.json"};
    for (size_t i = 0; i < TEST_COUNT(names); i++) remove(test_path(names[i]));
}

/* The ids of a whole sequence by the tokenizer of the folder. */
static void expect_sequence(struct qkv_context *ctx, const char *text, const int32_t *want, size_t count) {
    struct qkv_tokenizer *t;
    int32_t *ids;
    size_t n;
    assert_ok(ctx, qkv_tokenizer_open(ctx, test_folder(), &t));
    assert_ok(ctx, qkv_tokenizer_encode_sequence(ctx, t, text, strlen(text), true, &ids, &n));
    assert_int_equal(n, count);
    for (size_t i = 0; i < n; i++) assert_int_equal(ids[i], want[i]);
    qkv_free(ids);
    qkv_tokenizer_free(t);
}
#define EXPECT_SEQUENCE(ctx, text, ...)                                                                                \
    expect_sequence(ctx, text, (const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / 4)

static void families_add_their_tokens_to_a_model(void **state) {
    struct qkv_context *ctx = *state;
    static struct proto p;
    clear_folder();
    proto_usual(&p);
    proto_end(&p, 2, 0);
    proto_write(&p, "tokenizer.model");
    write_text("config.json", "{\"model_type\": \"llama\"}");
    EXPECT_SEQUENCE(ctx, "ab b</s>", 1, 3, 6, 3, 5, 2);
    write_text(
        "tokenizer_config.json",
        "{\"add_eos_token\": true, \"added_tokens_decoder\": {\"7\": {\"content\": \"[PAD]\", \"special\": true}}}");
    EXPECT_SEQUENCE(ctx, "a[PAD]", 1, 3, 4, 7, 2);
    clear_folder();
    proto_usual(&p);
    proto_end(&p, 1, 0);
    proto_write(&p, "spiece.model");
    write_text("config.json", "{\"model_type\": \"t5\"}");
    write_text("tokenizer_config.json", "{\"extra_ids\": 3}");
    EXPECT_SEQUENCE(ctx, "ab<extra_id_0><extra_id_2>", 3, 6, 9, 7, 2);
    write_text("tokenizer_config.json", "{\"tokenizer_class\": \"AlbertTokenizer\"}");
    proto_piece(&p, "[CLS]", 0, QKV_SPM_CONTROL);
    proto_piece(&p, "[SEP]", 0, QKV_SPM_CONTROL);
    proto_write(&p, "spiece.model");
    EXPECT_SEQUENCE(ctx, "AB \xC3\x84", 7, 3, 6, 3, 4, 8); /* lower case, without accents */
    write_text("tokenizer_config.json", "{\"tokenizer_class\": \"CamembertTokenizer\"}");
    struct qkv_tokenizer *t;
    assert_fails(ctx, qkv_tokenizer_open(ctx, test_folder(), &t), QKV_FORMAT, "CamembertTokenizer");
    clear_folder();
    proto_usual(&p);
    proto_end(&p, 1, 0);
    proto_write(&p, "sentencepiece.bpe.model");
    write_text("config.json", "{\"model_type\": \"xlm-roberta\"}");
    EXPECT_SEQUENCE(ctx, "ab x <mask>", 0, 4, 7, 4, 3, 8, 2); /* 1 more than the model's ids, <unk> is 3 */
    clear_folder();
}

/* The lower case of sentence-transformers comes before the whole normalizer of the model. */
static void texts_are_lowered_before_the_model_where_sentences_say_so(void **state) {
    struct qkv_context *ctx = *state;
    static struct proto p;
    clear_folder();
    proto_usual(&p);
    proto_end(&p, 2, 0);
    proto_write(&p, "tokenizer.model");
    EXPECT_SEQUENCE(ctx, "  AB", 3, 0);
    write_text("sentence_bert_config.json", "{\"do_lower_case\": true}");
    EXPECT_SEQUENCE(ctx, "  AB", 3, 6);
    clear_folder();
}

static void ranks_in_a_folder_have_the_tokens_of_their_family(void **state) {
    struct qkv_context *ctx = *state;
    clear_folder();
    copy_file(TEST_SOURCE_DIR "/tests/golden/spm/chatglm.tiktoken", test_path("tokenizer.model"));
    write_text("config.json", "{\"model_type\": \"chatglm\"}");
    EXPECT_SEQUENCE(ctx, "<|user|>", 382, 384, 387); /* [gMASK] <sop> */
    write_text("tokenizer_config.json", "{\"added_tokens_decoder\": {\"387\": {\"content\": \"<|other|>\"}}}");
    EXPECT_SEQUENCE(ctx, "<|other|>", 382, 384, 387);
    clear_folder();
    copy_file(TEST_SOURCE_DIR "/tests/golden/spm/chatglm.tiktoken", test_path("cl100k_base.tiktoken"));
    EXPECT_SEQUENCE(ctx, "<|user|><|end|>", 386, 390);
    clear_folder();
    write_text("source.spm", "");
    struct qkv_tokenizer *t;
    assert_fails(ctx, qkv_tokenizer_open(ctx, test_folder(), &t), QKV_FILE, "no spiece.model");
    assert_fails(ctx, qkv_tokenizer_open(ctx, test_folder(), &t), QKV_FILE, "source.spm and target.spm");
    clear_folder();
}

/* T5's model in a folder has the ids of the tokenizer.json that transformers made of it, where that can say them. */
static void a_folder_of_t5_has_the_ids_of_its_tokenizer_json(void **state) {
    struct qkv_context *ctx = *state;
    json_t *texts = shared_json("lines.json");
    struct qkv_tokenizer *one, *two;
    if (!texts) skip();
    clear_folder();
    copy_file(shared_path("t5-base.model"), test_path("spiece.model"));
    write_text("config.json", "{\"model_type\": \"t5\"}");
    assert_ok(ctx, qkv_tokenizer_open(ctx, test_folder(), &one));
    assert_ok(ctx, qkv_tokenizer_load(ctx, shared_path("t5-small.json"), &two));
    assert_int_equal(qkv_tokenizer_vocab(one), qkv_tokenizer_vocab(two));
    size_t others = 0;
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const char *text = json_string_value(json_array_get(texts, i));
        int32_t *a, *b;
        size_t n, m;
        assert_ok(ctx, qkv_tokenizer_encode_sequence(ctx, one, text, strlen(text), true, &a, &n));
        assert_ok(ctx, qkv_tokenizer_encode_sequence(ctx, two, text, strlen(text), true, &b, &m));
        others += n != m || memcmp(a, b, n * sizeof *a) != 0;
        qkv_free(a);
        qkv_free(b);
    }
    assert_in_range(others, 1, 4); /* of 150: with U+0085, or marks that the charsmap composes */
    qkv_tokenizer_free(one);
    qkv_tokenizer_free(two);
    json_decref(texts);
    clear_folder();
}

/* ---- what others read differently -------------------------------------------------------------------------------- */

static void texts_that_others_read_differently_are_named(void **state) {
    struct qkv_context *ctx = *state;
    static const struct {
        const char *file, *has;
    } cases[] = {{"unigram.model", "before a combining mark: \"A\" (U+0041)"},
                 {"bpe_user.model", "symbols of the user"},
                 {"bpe_unused.model", "unused pieces"}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qkv_tokenizer *t;
        char path[4096], *sentence;
        snprintf(path, sizeof path, TEST_SOURCE_DIR "/tests/golden/spm/%s", cases[i].file);
        assert_ok(ctx, qkv_tokenizer_load(ctx, path, &t));
        assert_ok(ctx, qkv_tokenizer_differences(ctx, t, &sentence));
        assert_non_null(sentence);
        if (!strstr(sentence, cases[i].has)) fail_msg("\"%s\" has no \"%s\"", sentence, cases[i].has);
        qkv_free(sentence);
        qkv_tokenizer_free(t);
    }
    struct qkv_tokenizer *t = test_train(ctx, QKV_TOKENIZER_BYTES, 0, 0, "", 0);
    char *sentence;
    assert_ok(ctx, qkv_tokenizer_differences(ctx, t, &sentence));
    assert_null(sentence);
    qkv_tokenizer_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_files_give_the_ids_and_texts_of_their_packages),
        cmocka_unit_test(published_models_give_the_ids_and_texts_of_sentencepiece),
        cmocka_unit_test(bytes_that_are_no_text_are_unknown_characters),
        cmocka_unit_test(damaged_models_are_refused_by_name),
        cmocka_unit_test(damaged_ranks_are_refused_by_name),
        cmocka_unit_test(families_add_their_tokens_to_a_model),
        cmocka_unit_test(texts_are_lowered_before_the_model_where_sentences_say_so),
        cmocka_unit_test(ranks_in_a_folder_have_the_tokens_of_their_family),
        cmocka_unit_test(a_folder_of_t5_has_the_ids_of_its_tokenizer_json),
        cmocka_unit_test(texts_that_others_read_differently_are_named),
    };
    return cmocka_run_group_tests(tests, test_context, test_context_done);
}
