/* Folders of sentence-transformers (tests/golden/hf/sentences, which make/sentences.py makes): modules.json says how a vector is made of a
 * text, and what does not fit is refused by its key. */
#include "test.h"

#include "family_fixture.h"

#include <sys/stat.h>

#define GOLDEN TEST_SOURCE_DIR "/tests/golden/hf/sentences"
enum { LINES = 16, MOST = 1 << 12 };

/* A copy with one of its JSON files written anew, or left out. */
static const char *copy_changed(const char *file, const char *text) {
    const char *folder = test_path("sentences");
    char path[900];
    link_folder(GOLDEN, folder, NULL);
    snprintf(path, sizeof path, "%s/1_Pooling", folder);
    unlink(path);
    link_folder(GOLDEN "/1_Pooling", path, NULL);
    snprintf(path, sizeof path, "%s/%s", folder, file ? file : "");
    if (file) unlink(path);
    if (file && text) test_write_file(path, text, strlen(text));
    return folder;
}

static size_t read_lines(char text[MOST], const char *lines[LINES]) {
    size_t count = 0;
    FILE *file = fopen(GOLDEN "/lines.txt", "rb");
    assert_non_null(file);
    text[fread(text, 1, MOST - 1, file)] = 0;
    fclose(file);
    for (char *at = strtok(text, "\n"); at; at = strtok(NULL, "\n")) lines[count++] = at;
    return count;
}

/* The vectors of a folder, with what it says, are those of that name, of length 1 where it says so. */
static void expect_vectors(const char *folder, const char *name, bool unit, bool cut) {
    struct qkv_context *ctx;
    struct qkv_model *model;
    struct qkv_tensors *golden;
    char text[MOST];
    const char *lines[LINES];
    enum qkv_pool pool;
    bool normalize;
    struct qkv_line_options options = qkv_line_defaults();
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    load_or_fail(ctx, folder, &model);
    if (qkv_model_tokenizer_problem(model)) fail_msg("%s", qkv_model_tokenizer_problem(model));
    assert_int_equal(qkv_tensors_open(ctx, GOLDEN "/vectors.safetensors", &golden), QKV_OK);
    const struct qkv_array *want = qkv_tensors_find(golden, name);
    const size_t count = read_lines(text, lines), C = want->shape[1];
    assert_int_equal(count, want->shape[0]);
    float *expected = calloc(count * C, sizeof *expected), *got = calloc(count * C, sizeof *got);
    qkv_array_floats(want, expected);
    for (size_t i = 0; i < count && unit; i++) {
        double sum = 0;
        for (size_t c = 0; c < C; c++) sum += pow((double)expected[i * C + c], 2);
        for (size_t c = 0; c < C; c++) expected[i * C + c] = (float)((double)expected[i * C + c] / sqrt(sum));
    }
    assert_true(qkv_model_pooling(model, &pool, &normalize, &options.most));
    assert_int_equal(normalize, unit);
    assert_int_equal(options.most, cut ? 8 : 0);
    options.long_lines = QKV_LONG_KEEP_START;
    const size_t rows = cut ? count : count - 1; /* the last one is longer than those of the golden file */
    if (qkv_embed_with(model, lines, rows, pool, normalize, &options, got)) fail_msg("%s", qkv_message(ctx));
    test_floats_close(got, expected, rows * C, 1e-5, name, __FILE__, __LINE__);
    free(expected);
    free(got);
    qkv_tensors_close(golden);
    qkv_model_free(model);
    qkv_context_free(ctx);
}

static void vectors_are_those_that_the_modules_make(void **state) {
    (void)state;
    expect_vectors(GOLDEN, "mean", true, true);
    static const struct {
        const char *pooling, *name;
    } cases[] = {
        {"{\"pooling_mode_cls_token\": true, \"pooling_mode_mean_tokens\": false}", "cls"},
        {"{\"pooling_mode_mean_tokens\": true, \"pooling_mode_weightedmean_tokens\": false}", "mean"},
        {"{\"pooling_mode_max_tokens\": true, \"word_embedding_dimension\": 16}", "max"},
        {"{\"pooling_mode_lasttoken\": true, \"include_prompt\": true}", "lasttoken"},
        {"{\"embedding_dimension\": 16, \"pooling_mode\": \"cls\"}", "cls"},
        {"{\"pooling_mode\": \"max\"}", "max"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        const char *folder = copy_changed("1_Pooling/config.json", cases[i].pooling);
        expect_vectors(folder, cases[i].name, true, true);
        test_remove_tree(folder);
    }
    const char *folder =
        copy_changed("modules.json", "[{\"path\": \"\", \"type\": \"sentence_transformers.models.Transformer\"}, "
                                     "{\"path\": \"1_Pooling\", \"type\": \"sentence_transformers.models.Pooling\"}]");
    expect_vectors(folder, "mean", false, true);
    test_remove_tree(folder);
    folder = copy_changed("sentence_bert_config.json", NULL);
    expect_vectors(folder, "mean", true, false);
    test_remove_tree(folder);
}

/* Older folders have the model in a folder of its own, and its settings with it, under a name of its own. */
static void the_model_may_be_in_a_folder_that_the_modules_name(void **state) {
    (void)state;
    const char *folder =
        copy_changed("modules.json", "[{\"path\": \"0_BERT\", \"type\": \"sentence_transformers.models.Transformer\"}, "
                                     "{\"path\": \"1_Pooling\", \"type\": \"sentence_transformers.models.Pooling\"}]");
    static const char *const moved[] = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
                                        "sentence_bert_config.json"};
    char path[900], to[900];
    snprintf(path, sizeof path, "%s/0_BERT", folder);
    assert_int_equal(mkdir(path, 0777), 0);
    for (size_t i = 0; i < TEST_COUNT(moved); i++) {
        const bool settings = i == TEST_COUNT(moved) - 1;
        snprintf(path, sizeof path, "%s/%s", folder, moved[i]);
        snprintf(to, sizeof to, "%s/0_BERT/%s", folder, settings ? "sentence_distilbert_config.json" : moved[i]);
        assert_int_equal(rename(path, to), 0);
    }
    expect_vectors(folder, "mean", false, true);
    struct qkv_context *ctx;
    struct qkv_spec spec;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    assert_int_equal(qkv_folder_spec(ctx, folder, NULL, 0, &spec), QKV_OK);
    assert_int_equal(qkv_spec_width(&spec), 16);
    struct qkv_tokenizer *tokenizer;
    assert_int_equal(qkv_folder_tokenizer(ctx, folder, &tokenizer), QKV_OK);
    qkv_tokenizer_free(tokenizer);
    qkv_context_free(ctx);
    test_remove_tree(folder);
}

/* What the modules say goes with the model, into a folder of ours and into one of theirs. */
static void what_the_modules_say_is_kept(void **state) {
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        struct qkv_context *ctx;
        struct qkv_model *model;
        const char *pooling = kind == 1 ? "{\"pooling_mode\": \"max\"}" : "{\"pooling_mode_cls_token\": true}";
        const char *folder = copy_changed("1_Pooling/config.json", pooling), *kept = test_path("kept");
        assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
        load_or_fail(ctx, folder, &model);
        if (kind == 0) assert_int_equal(qkv_model_save(model, kept), QKV_OK);
        if (kind == 1) assert_int_equal(qkv_model_export(model, "f32", kept), QKV_OK);
        if (kind == 2) assert_int_equal(qkv_model_export_published(model, NULL, "f32", kept), QKV_OK);
        expect_vectors(kept, kind == 1 ? "max" : "cls", true, true);
        qkv_model_free(model);
        qkv_context_free(ctx);
        test_remove_tree(folder);
        test_remove_tree(kept);
    }
}

static void modules_that_do_not_fit_are_refused_by_key(void **state) {
    (void)state;
    static const struct {
        const char *file, *text;
        enum qkv_status status;
        const char *says;
    } cases[] = {
        {"1_Pooling/config.json", "{\"pooling_mode_mean_sqrt_len_tokens\": true}", QKV_SPEC,
         "pooling_mode_mean_sqrt_len_tokens is true; it can be false"},
        {"1_Pooling/config.json", "{\"pooling_mode_cls_token\": true, \"pooling_mode_max_tokens\": true}", QKV_SPEC,
         "2 poolings at once"},
        {"1_Pooling/config.json", "{}", QKV_SPEC, "pooling_mode is missing"},
        {"1_Pooling/config.json", "{\"pooling_mode\": \"weightedmean\"}", QKV_SPEC, "pooling_mode is \"weightedmean\""},
        {"1_Pooling/config.json", "{\"pooling_mode_max_tokens\": true, \"word_embedding_dimension\": 17}", QKV_SPEC,
         "word_embedding_dimension is 17"},
        {"1_Pooling/config.json", NULL, QKV_FILE, "1_Pooling/config.json is missing, which modules.json names"},
        {"1_Pooling/config.json", "{", QKV_FORMAT, "1_Pooling/config.json"},
        {"modules.json", "[]", QKV_SPEC, "no module Pooling"},
        {"modules.json", "[{\"path\": \"0_Transformer\", \"type\": \"sentence_transformers.models.Transformer\"}]",
         QKV_FILE, "0_Transformer/config.json is missing, which modules.json names"},
        {"modules.json", "[{\"type\": \"a.Transformer\"}, {\"type\": \"a.Pooling\", \"path\": \"../x\"}]", QKV_FORMAT,
         "no name of a folder"},
        {"modules.json",
         "[{\"type\": \"a.Transformer\"}, {\"type\": \"a.Pooling\", \"path\": \"1_Pooling\"}, {\"type\": \"a.Dense\"}]",
         QKV_SPEC, "module 2 is \"Dense\""},
        {"sentence_bert_config.json", "{\"max_seq_length\": 0}", QKV_SPEC, "max_seq_length is 0"},
        {"config_sentence_transformers.json", "{\"default_prompt_name\": \"q\", \"prompts\": {\"q\": \"query: \"}}",
         QKV_SPEC, "default_prompt_name is \"q\""},
        {"sentence_bert_config.json", "{\"do_lower_case\": 1}", QKV_SPEC, "do_lower_case is 1"},
    };
    struct qkv_context *ctx;
    struct qkv_model *model = NULL;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        const char *folder = copy_changed(cases[i].file, cases[i].text);
        const enum qkv_status got = qkv_model_load(ctx, folder, &model);
        if (got != cases[i].status || !strstr(qkv_message(ctx), cases[i].says))
            fail_msg("%s, which does not say \"%s\"", got ? qkv_message(ctx) : "it was read", cases[i].says);
        assert_null(model);
        test_remove_tree(folder);
    }
    qkv_context_free(ctx);
}

static int make_folder(void **state) {
    *state = (void *)(uintptr_t)test_folder();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_are_those_that_the_modules_make),
        cmocka_unit_test(the_model_may_be_in_a_folder_that_the_modules_name),
        cmocka_unit_test(what_the_modules_say_is_kept),
        cmocka_unit_test(modules_that_do_not_fit_are_refused_by_key),
    };
    return cmocka_run_group_tests(tests, make_folder, NULL);
}
