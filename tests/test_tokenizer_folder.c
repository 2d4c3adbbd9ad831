/* test_tokenizer_folder: folders of older files, vocab.json with merges.txt, and vocab.txt, against a tokenizer.json
 * of the same vocabulary: that of a tokenizer made here, and, if ../shared/data exists, published ones in both
 * forms. */
/* labels: quick */
#include <sys/stat.h>
#include <time.h>

#include "base/json_load.h"
#include "test_text.h"
#include "text/sequence.h"

static void write_json(const char *name, json_t *value) {
    char *text = json_dumps(value, JSON_COMPACT);
    assert_non_null(text);
    test_write_file(test_path(name), text, strlen(text));
    free(text);
}

static void write_text(const char *name, const char *text) {
    test_write_file(test_path(name), text, strlen(text));
}

static void clear_folder(void) {
    static const char *const names[] = {"vocab.json",
                                        "merges.txt",
                                        "vocab.txt",
                                        "tokenizer_config.json",
                                        "special_tokens_map.json",
                                        "added_tokens.json",
                                        "tokenizer.json",
                                        "config.json",
                                        "sentence_bert_config.json",
                                        "sentence_roberta_config.json"};
    for (size_t i = 0; i < TEST_COUNT(names); i++) remove(test_path(names[i]));
}

/* Writes vocab.json, merges.txt, and added_tokens.json for the rest of the vocabulary; with `whole`, all are in
 * vocab.json. */
static void write_merges(json_t *root, const char *end, bool whole) {
    json_t *model = json_object_get(root, "model"), *vocab = json_object_get(model, "vocab");
    const json_t *merges = json_object_get(model, "merges"), *added = json_object_get(root, "added_tokens");
    json_t *others = json_object();
    FILE *file = fopen(test_path("merges.txt"), "wb");
    assert_non_null(file);
    fprintf(file, "#version: 0.2%s", end);
    for (size_t i = 0; i < json_array_size(merges); i++) {
        const json_t *merge = json_array_get(merges, i);
        if (json_is_string(merge))
            fprintf(file, "%s%s", json_string_value(merge), end);
        else
            fprintf(file, "%s %s%s", json_string_value(json_array_get(merge, 0)),
                    json_string_value(json_array_get(merge, 1)), end);
    }
    assert_int_equal(fclose(file), 0);
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *token = json_array_get(added, i);
        const char *text = json_string_value(json_object_get(token, "content"));
        if (json_object_get(vocab, text)) continue;
        json_object_set(whole ? vocab : others, text, json_object_get(token, "id"));
    }
    write_json("vocab.json", vocab);
    if (json_object_size(others)) write_json("added_tokens.json", others);
    json_decref(others);
}

/* vocab.txt: the keys by their ids, which have no holes. */
static void write_vocab(json_t *root, const char *end) {
    json_t *vocab = json_object_get(json_object_get(root, "model"), "vocab"), *id;
    const size_t count = json_object_size(vocab);
    const char **keys = calloc(count, sizeof *keys), *key;
    FILE *file = fopen(test_path("vocab.txt"), "wb");
    assert_true(keys && file);
    json_object_foreach(vocab, key, id) {
        assert_in_range(json_integer_value(id), 0, count - 1);
        keys[json_integer_value(id)] = key;
    }
    for (size_t i = 0; i < count; i++) fprintf(file, "%s%s", keys[i], i + 1 < count ? end : "");
    assert_int_equal(fclose(file), 0);
    free(keys);
}

static void compare_text(struct qkv_context *ctx, const struct qkv_tokenizer *a, const struct qkv_tokenizer *b,
                         const char *text, size_t size) {
    const struct qkv_tokenizer *both[] = {a, b};
    int32_t *ids[2], *whole[2];
    size_t *spans[2], counts[2], wholes[2], sizes[2];
    char *texts[2];
    for (size_t k = 0; k < 2; k++) {
        assert_ok(ctx, qkv_tokenizer_encode_spans(ctx, both[k], text, size, true, &ids[k], &spans[k], &counts[k]));
        assert_ok(ctx, qkv_tokenizer_encode_sequence(ctx, both[k], text, size, true, &whole[k], &wholes[k]));
        assert_ok(ctx, qkv_tokenizer_text(ctx, both[k], ids[k], counts[k], true, &texts[k], &sizes[k]));
    }
    assert_int_equal(counts[0], counts[1]);
    assert_int_equal(wholes[0], wholes[1]);
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(ids[0], ids[1], counts[0] * sizeof **ids);
    assert_memory_equal(spans[0], spans[1], 2 * counts[0] * sizeof **spans);
    assert_memory_equal(whole[0], whole[1], wholes[0] * sizeof **whole);
    assert_memory_equal(texts[0], texts[1], sizes[0]);
    for (size_t k = 0; k < 2; k++) {
        qkv_free(ids[k]);
        qkv_free(whole[k]);
        qkv_free(spans[k]);
        qkv_free(texts[k]);
    }
}

/* The folder's tokenizer beside that of a file, on random texts of bits that provoke and of special tokens. */
static void compare(struct qkv_context *ctx, const struct qkv_tokenizer *want, const char *const *specials) {
    struct qkv_tokenizer *got;
    struct qkv_random random = test_random(3);
    assert_ok(ctx, qkv_tokenizer_open(ctx, test_folder(), &got));
    assert_int_equal(qkv_tokenizer_vocab(got), qkv_tokenizer_vocab(want));
    for (size_t k = 0; k < 300; k++) {
        char text[2048];
        size_t n = 0, special_count = 0;
        while (specials[special_count]) special_count++;
        for (size_t bits = test_between(&random, 0, 20); bits > 0; bits--) {
            const bool special = special_count && test_between(&random, 0, 5) == 0;
            const char *bit = special ? specials[test_between(&random, 0, special_count - 1)]
                                      : test_bits[test_between(&random, 0, TEST_COUNT(test_bits) - 1)];
            if (qkv_utf8_valid(bit, strlen(bit)) != strlen(bit))
                continue; /* read by one as U+FFFD, by the other as bytes */
            n += (size_t)snprintf(text + n, sizeof text - n, "%s", bit);
        }
        compare_text(ctx, got, want, text, n);
    }
    qkv_tokenizer_free(got);
}

static void merges_of_a_tokenizer_made_here_give_its_ids(void **state) {
    struct qkv_context *ctx = *state;
    static const char toy[] =
        "the cat sat on the mat. The caf\xC3\xA9's cat isn't on the mat; that's 2024!\n\nthe the\n";
    static const char *const ends[] = {"\n", "\r\n"};
    struct qkv_tokenizer *t = test_train(ctx, QKV_TOKENIZER_BPE, 290, 1, toy, sizeof toy - 1);
    char *file = test_print(ctx, t, NULL, NULL);
    for (size_t i = 0; i < 4; i++) {
        json_t *root = qkv_json_value(file);
        assert_non_null(root);
        clear_folder();
        write_merges(root, ends[i & 1], i < 2);
        if (i >= 2)
            write_text("tokenizer_config.json",
                       "{\"bos_token\": \"<|endoftext|>\", \"eos_token\": {\"content\": \"<|endoftext|>\"}}");
        compare(ctx, t, (const char *const[]){"<|endoftext|>", NULL});
        json_decref(root);
    }
    struct qkv_tokenizer *got;
    assert_ok(ctx, qkv_tokenizer_open(ctx, test_folder(), &got));
    assert_int_equal(qkv_tokenizer_role(got, QKV_TOKEN_ROLE_END), qkv_tokenizer_special(t, "<|endoftext|>"));
    qkv_tokenizer_free(got);
    free(file);
    qkv_tokenizer_free(t);
}

/* A file of ../shared/data/tokenizers; NULL if it does not exist. */
static json_t *shared(struct qkv_context *ctx, const char *name, struct qkv_tokenizer **t) {
    size_t size;
    char path[200];
    snprintf(path, sizeof path, "tokenizers/%s.json", name);
    char *file = test_shared_file(path, &size);
    if (!file) return NULL;
    json_t *root = qkv_json_value(file);
    assert_non_null(root);
    assert_ok(ctx, qkv_tokenizer_parse(ctx, file, size, name, t));
    free(file);
    clear_folder();
    return root;
}

static void published_merges_give_the_ids_of_their_tokenizer_json(void **state) {
    struct qkv_context *ctx = *state;
    struct qkv_tokenizer *t;
    json_t *root = shared(ctx, "roberta-base", &t);
    if (!root) skip();
    write_merges(root, "\n", true);
    write_text(
        "special_tokens_map.json",
        "{\"cls_token\":\"<s>\",\"sep_token\":\"</s>\",\"mask_token\":{\"content\":\"<mask>\",\"lstrip\":true}}");
    compare(ctx, t, (const char *const[]){"<s>", "</s>", "<mask>", "<pad>", NULL});
    json_decref(root);
    qkv_tokenizer_free(t);
    root = shared(ctx, "phi-2", &t);
    assert_non_null(root);
    write_merges(root, "\n", false); /* runs of spaces are in added_tokens.json */
    compare(ctx, t, (const char *const[]){"<|endoftext|>", "     ", "\t\t", NULL});
    json_decref(root);
    qkv_tokenizer_free(t);
}

static void published_words_give_the_ids_of_their_tokenizer_json(void **state) {
    static const char *const names[] = {"bert-base-uncased", "bert-base-cased"};
    static const char *const ends[] = {"\n", "\r\n"};
    struct qkv_context *ctx = *state;
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        struct qkv_tokenizer *t;
        json_t *root = shared(ctx, names[i], &t);
        if (!root) skip();
        write_vocab(root, ends[i]);
        write_text("tokenizer_config.json", i ? "{\"do_lower_case\": false}" : "{}");
        compare(ctx, t, (const char *const[]){"[MASK]", "[SEP]", "[UNK]", NULL});
        json_decref(root);
        qkv_tokenizer_free(t);
    }
}

static void expect_ids(struct qkv_context *ctx, const char *text, const int32_t *want, size_t count) {
    struct qkv_tokenizer *t;
    int32_t *ids;
    size_t n;
    assert_ok(ctx, qkv_folder_tokenizer(ctx, test_folder(), &t));
    assert_ok(ctx, qkv_tokenizer_encode(ctx, t, text, strlen(text), true, &ids, &n));
    assert_int_equal(n, count);
    assert_memory_equal(ids, want, count * sizeof *ids);
    qkv_free(ids);
    qkv_tokenizer_free(t);
}

/* As in sentence-transformers 6: Lowercase comes before the normalizers and after the search of special tokens, and
 * accents stay. */
static void texts_are_lowered_where_the_settings_of_sentences_say_so(void **state) {
    struct qkv_context *ctx = *state;
    static const char *const files[] = {"sentence_bert_config.json", "sentence_roberta_config.json"};
    static const char *const normalizers[] = {
        "null", "{\"type\": \"NFC\"}", "{\"type\": \"Sequence\", \"normalizers\": []}",
        "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFC\"}, {\"type\": \"Lowercase\"}]}"};
    static const char text[] = "B \xC3\x89 e [MASK]";
    for (size_t i = 0; i < TEST_COUNT(normalizers); i++) {
        char json[1000];
        clear_folder();
        snprintf(json, sizeof json,
                 "{\"normalizer\": %s, \"pre_tokenizer\": {\"type\": \"Whitespace\"}, \"added_tokens\": [{\"id\": 5, "
                 "\"content\": \"[MASK]\", \"special\": true, \"normalized\": false}], \"model\": {\"type\": "
                 "\"WordLevel\", \"unk_token\": \"?\", \"vocab\": {\"?\": 0, \"b\": 1, \"e\": 2, \"\xC3\xA9\": 3, "
                 "\"B\": 4}}}",
                 normalizers[i]);
        write_text("tokenizer.json", json);
        const bool lowers = i == TEST_COUNT(normalizers) - 1;
        expect_ids(ctx, text, lowers ? (const int32_t[]){1, 3, 2, 5} : (const int32_t[]){4, 0, 2, 5}, 4);
        write_text(files[i % 2], "{\"max_seq_length\": 8, \"do_lower_case\": false}");
        expect_ids(ctx, text, lowers ? (const int32_t[]){1, 3, 2, 5} : (const int32_t[]){4, 0, 2, 5}, 4);
        write_text(files[i % 2], "{\"do_lower_case\": true}");
        expect_ids(ctx, text, (const int32_t[]){1, 3, 2, 5}, 4);
    }
    clear_folder();
    write_text("vocab.txt", "[UNK]\nb\n[MASK]\nB\nb\n\xC3\xA9\n"); /* of two alike the last one counts */
    write_text("tokenizer_config.json", "{\"do_lower_case\": false}");
    expect_ids(ctx, "B b \xC3\x89 [MASK]", (const int32_t[]){3, 4, 0, 2}, 4);
    write_text("sentence_bert_config.json", "{\"do_lower_case\": true}");
    expect_ids(ctx, "B b \xC3\x89 [MASK]", (const int32_t[]){4, 4, 5, 2}, 4);
    clear_folder();
}

/* vocab.txt with white space on both sides of each line. */
static void write_spaced(const char *lines, const char *space) {
    char text[1000];
    size_t n = 0;
    for (const char *at = lines; *at; at += strcspn(at, "\n"), at += *at == '\n')
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%.*s%s\n", space, (int)strcspn(at, "\n"), at, space);
    write_text("vocab.txt", text);
}

/* Ids and texts are those of EsmTokenizer of transformers 5.24. */
static void proteins_are_cut_into_the_letters_of_their_vocabulary(void **state) {
    static const char vocab[] =
        "<cls>\n<pad>\n<eos>\n<unk>\nL\nA\nG\nV\nS\nE\nR\nT\nI\nD\nP\nK\nQ\nN\nF\nY\nM\nH\nW\nC\nX\nB\nU"
        "\nZ\nO\n.\n-\n<null_1>\n<mask>";
    static const struct {
        const char *text, *back;
        int32_t ids[12];
        size_t count;
    } cases[] = {
        {"MKTVRQERLK", "M K T V R Q E R L K", {0, 20, 15, 11, 7, 10, 16, 9, 10, 4, 15, 2}, 12},
        {"M<mask>K L-A", "M K L - A", {0, 20, 32, 15, 4, 30, 5, 2}, 8},
        {"mLA  xyA\tG.", "L A A G .", {0, 3, 4, 5, 3, 5, 6, 29, 2}, 9},
        {"<null_1>J<cls>", "<null_1>", {0, 31, 3, 0, 2}, 5},
        {"", "", {0, 2}, 2},
        {"LJJA", "L A", {0, 4, 3, 5, 2}, 5},
    };
    struct qkv_context *ctx = *state;
    struct qkv_tokenizer *t;
    static const int32_t pair[] = {-1, 0, 0, 0, 0, 0, -1, 2, 0, 1, 0, 1, -1, 2, 1};
    /* The class of the tokenizer, or the type of the model, whose file of tokens has white space around them. */
    static const struct {
        const char *config, *model;
        bool spaces;
    } folders[] = {
        {"{\"tokenizer_class\": \"EsmTokenizer\", \"cls_token\": \"<cls>\", \"eos_token\": \"<eos>\", "
         "\"mask_token\": \"<mask>\", \"pad_token\": \"<pad>\", \"unk_token\": \"<unk>\"}",
         "{\"model_type\": \"bert\"}", false},
        {"{\"tokenizer_class\": \"EsmTokenizer\"}", "{}", false},
        {"{}", "{\"model_type\": \"esm\"}", false},
        {"{\"tokenizer_class\": null}", "{\"model_type\": \"esm\"}", true},
    };
    struct qkv_pair_template template;
    clear_folder();
    for (size_t k = 0; k < TEST_COUNT(folders); k++) {
        write_spaced(vocab, folders[k].spaces ? " \t" : "");
        write_text("config.json", folders[k].model);
        write_text("tokenizer_config.json", folders[k].config);
        assert_ok(ctx, qkv_folder_tokenizer(ctx, test_folder(), &t));
        for (size_t i = 0; i < TEST_COUNT(cases); i++) {
            int32_t *ids;
            char *text;
            size_t n, size;
            assert_ok(ctx, qkv_tokenizer_encode_sequence(ctx, t, cases[i].text, strlen(cases[i].text), true, &ids, &n));
            if (n != cases[i].count || memcmp(ids, cases[i].ids, n * sizeof *ids) != 0) fail_msg("%s", cases[i].text);
            assert_ok(ctx, qkv_tokenizer_text(ctx, t, ids, n, true, &text, &size));
            assert_string_equal(text, cases[i].back);
            qkv_free(text);
            qkv_free(ids);
        }
        assert_ok(ctx, qkv_pair_template_read(ctx, t, true, &template));
        assert_int_equal(template.count, 5);
        for (size_t i = 0; i < template.count; i++) {
            assert_int_equal(template.parts[i].sequence, pair[3 * i]);
            assert_int_equal(template.parts[i].id, pair[3 * i + 1]);
            assert_int_equal(template.parts[i].type, pair[3 * i + 2]);
        }
        qkv_pair_template_free(&template);
        qkv_tokenizer_free(t);
    }
    clear_folder();
}

/* Parts of words in words of their own: the class of a tokenizer that is not read. */
static void blenderbot_small_is_refused_by_its_class(void **state) {
    struct qkv_context *ctx = *state;
    struct qkv_tokenizer *t;
    clear_folder();
    write_text("vocab.json", "{\"a\": 0, \"b@@\": 1, \"__unk__\": 2}");
    write_text("merges.txt", "#version: 0.2\na b</w>\n");
    write_text("tokenizer_config.json", "{\"tokenizer_class\": \"BlenderbotSmallTokenizer\"}");
    assert_fails(ctx, qkv_tokenizer_open(ctx, test_folder(), &t), QKV_FILE, "of the class BlenderbotSmallTokenizer");
    clear_folder();
    write_text("vocab.json", "{\"a\": 0, \"b@@\": 1, \"__unk__\": 2}");
    write_text("merges.txt", "#version: 0.2\na b</w>\n");
    write_text("config.json", "{\"model_type\": \"blenderbot-small\"}");
    assert_fails(ctx, qkv_tokenizer_open(ctx, test_folder(), &t), QKV_FILE, "of the class BlenderbotSmallTokenizer");
    clear_folder();
}

/* A vocabulary of many tokens and as many added tokens are read at once. */
static void many_added_tokens_of_proteins_are_read_in_little_time(void **state) {
    enum { MANY = 30000 };
    struct qkv_context *ctx = *state;
    struct qkv_tokenizer *t;
    char *text = malloc((size_t)MANY * 32), *at = text;
    clear_folder();
    for (int i = 0; i < MANY; i++) at += sprintf(at, "<t%d>\n", i);
    write_text("vocab.txt", text);
    at = text + sprintf(text, "{");
    for (int i = 0; i < MANY; i++) at += sprintf(at, "%s\"<t%d>\": %d", i ? ", " : "", i, i);
    sprintf(at, "}");
    write_text("added_tokens.json", text);
    write_text("tokenizer_config.json", "{\"tokenizer_class\": \"EsmTokenizer\", \"unk_token\": \"<t3>\"}");
    const clock_t begin = clock();
    assert_ok(ctx, qkv_tokenizer_open(ctx, test_folder(), &t));
    assert_true((double)(clock() - begin) < 20.0 * CLOCKS_PER_SEC);
    assert_int_equal(qkv_tokenizer_vocab(t), MANY);
    qkv_tokenizer_free(t);
    free(text);
    clear_folder();
}

static void a_folder_without_a_tokenizer_and_files_that_are_none_are_refused(void **state) {
    struct qkv_context *ctx = *state;
    struct qkv_tokenizer *t;
    clear_folder();
    assert_fails(ctx, qkv_tokenizer_open(ctx, test_folder(), &t), QKV_FILE, "no vocab.json with merges.txt");
    write_text("vocab.json", "{\"a\": 0, \"b\": 1}");
    assert_fails(ctx, qkv_tokenizer_open(ctx, test_folder(), &t), QKV_FILE, "no vocab.json with merges.txt");
    write_text("merges.txt", "#version: 0.2\na b\n");
    assert_fails(ctx, qkv_tokenizer_open(ctx, test_folder(), &t), QKV_FORMAT, "needs the token \"ab\"");
    write_text("merges.txt", "a\n");
    assert_fails(ctx, qkv_tokenizer_open(ctx, test_folder(), &t), QKV_FORMAT, "model.merges[0] is neither");
    write_text("merges.txt", "a \xFF\n");
    assert_fails(ctx, qkv_tokenizer_open(ctx, test_folder(), &t), QKV_FORMAT, "merges.txt: line 1 is not UTF-8");
    write_text("merges.txt", "");
    write_text("vocab.json", "[\"a\"]");
    assert_fails(ctx, qkv_tokenizer_open(ctx, test_folder(), &t), QKV_FORMAT, "model.vocab");
    clear_folder();
    write_text("vocab.txt", "a\n\xC3\n");
    assert_fails(ctx, qkv_tokenizer_open(ctx, test_folder(), &t), QKV_FORMAT, "vocab.txt: line 2 is not UTF-8");
    write_text("vocab.txt", "[UNK]\na\n");
    write_text("tokenizer_config.json", "{");
    assert_fails(ctx, qkv_tokenizer_open(ctx, test_folder(), &t), QKV_FORMAT, "tokenizer_config.json");
    clear_folder();
}

/* The roles of both tokenizers of a model, and all tokens that end a text, are the same after saving and loading. */
static void roles_and_ends_of_both_tokenizers_are_kept_by_a_folder(void **state) {
    struct qkv_context *ctx = *state;
    static const char text[] = "one two three four five six seven";
    struct qkv_tokenizer_options options = qkv_tokenizer_defaults();
    struct qkv_tokenizer *t[2], *again[2];
    struct qkv_model *model, *loaded;
    OWNED_SPEC struct qkv_spec spec = {0};
    int32_t ends[QKV_TOKEN_ENDS];
    static const char *const settings[] = {"vocab=9", "source_vocab=9"};
    options.kind = QKV_TOKENIZER_WHITESPACE;
    assert_int_equal(qkv_spec_preset(ctx, &spec, "tiny-seq2seq", settings, 2), QKV_OK);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(qkv_tokenizer_train(ctx, &options, text, strlen(text), &t[i]), QKV_OK);
        assert_int_equal(qkv_tokenizer_set_role(ctx, t[i], QKV_TOKEN_ROLE_END, (int)i + 5), QKV_OK);
        assert_int_equal(qkv_tokenizer_set_role(ctx, t[i], QKV_TOKEN_ROLE_MASK, (int)i + 3), QKV_OK);
        assert_int_equal(qkv_tokenizer_add_end(ctx, t[i], (int)i + 2), QKV_OK);
        assert_int_equal(qkv_tokenizer_add_end(ctx, t[i], (int)i + 6), QKV_OK);
    }
    spec.vocab = spec.source_vocab = qkv_tokenizer_vocab(t[0]);
    assert_int_equal(qkv_model_create(ctx, &spec, 1, &model), QKV_OK);
    assert_int_equal(qkv_model_set_tokenizer(model, t[0]), QKV_OK);
    assert_int_equal(qkv_model_set_source_tokenizer(model, t[1]), QKV_OK);
    assert_int_equal(qkv_model_save(model, test_path("kept")), QKV_OK);
    qkv_model_free(model);
    assert_int_equal(qkv_model_load(ctx, test_path("kept"), &loaded), QKV_OK);
    again[0] = (struct qkv_tokenizer *)(uintptr_t)qkv_model_tokenizer(loaded);
    again[1] = (struct qkv_tokenizer *)(uintptr_t)qkv_model_source_tokenizer(loaded);
    assert_true(again[0] != again[1]);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(qkv_tokenizer_role(again[i], QKV_TOKEN_ROLE_END), i + 5);
        assert_int_equal(qkv_tokenizer_role(again[i], QKV_TOKEN_ROLE_MASK), i + 3);
        assert_int_equal(qkv_tokenizer_ends(again[i], ends), 3);
        assert_int_equal(ends[0], i + 5);
        assert_int_equal(ends[1], i + 2);
        assert_int_equal(ends[2], i + 6);
    }
    qkv_model_free(loaded);
    test_remove_tree(test_path("kept"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_of_a_tokenizer_made_here_give_its_ids),
        cmocka_unit_test(published_merges_give_the_ids_of_their_tokenizer_json),
        cmocka_unit_test(published_words_give_the_ids_of_their_tokenizer_json),
        cmocka_unit_test(texts_are_lowered_where_the_settings_of_sentences_say_so),
        cmocka_unit_test(roles_and_ends_of_both_tokenizers_are_kept_by_a_folder),
        cmocka_unit_test(proteins_are_cut_into_the_letters_of_their_vocabulary),
        cmocka_unit_test(blenderbot_small_is_refused_by_its_class),
        cmocka_unit_test(many_added_tokens_of_proteins_are_read_in_little_time),
        cmocka_unit_test(a_folder_without_a_tokenizer_and_files_that_are_none_are_refused)};
    return cmocka_run_group_tests(tests, test_context, test_context_done);
}
