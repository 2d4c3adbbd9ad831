/* Folders of sentence-transformers (tests/golden/hf/sentences and embeddings, from make/sentences.py and
 * make/embeddings.py): modules.json defines how a text becomes a vector, and unsupported settings are refused by
 * their key. */
/* labels: numeric quick */
#include "test.h"

#include "family_fixture.h"

#include <sys/stat.h>

#define GOLDEN     TEST_SOURCE_DIR "/tests/golden/hf/sentences"
#define EMBEDDINGS TEST_SOURCE_DIR "/tests/golden/hf/embeddings"
enum { LINES = 16, MOST = 1 << 12 };

/* A copy with one of its JSON files replaced, or left out. */
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

/* A copy of the folder with dense layers, whose folders are copies too. */
static const char *copy_embeddings(void) {
    static const char *const inner[] = {"1_Pooling", "2_Dense", "3_Dense"};
    const char *folder = test_path("embeddings");
    link_folder(EMBEDDINGS, folder, NULL);
    for (size_t i = 0; i < TEST_COUNT(inner); i++) {
        char from[900], to[900];
        snprintf(from, sizeof from, EMBEDDINGS "/%s", inner[i]);
        snprintf(to, sizeof to, "%s/%s", folder, inner[i]);
        unlink(to);
        link_folder(from, to, NULL);
    }
    return folder;
}

/* A file of the folder becomes that text (NULL: none), or the file of `folder` that `text` names behind "@". */
static void change_file(const char *folder, const char *file, const char *text) {
    char path[900], source[900];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    unlink(path);
    if (text && *text == '@') {
        snprintf(source, sizeof source, EMBEDDINGS "/%s", text + 1);
        assert_int_equal(symlink(source, path), 0);
    } else if (text) {
        test_write_file(path, text, strlen(text));
    }
}

static size_t read_lines(const char *path, char text[MOST], const char *lines[LINES]) {
    size_t count = 0;
    FILE *file = fopen(path, "rb");
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
    size_t most;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    load_or_fail(ctx, folder, &model);
    if (qkv_model_tokenizer_problem(model)) fail_msg("%s", qkv_model_tokenizer_problem(model));
    assert_int_equal(qkv_tensors_open(ctx, GOLDEN "/vectors.safetensors", &golden), QKV_OK);
    const struct qkv_array *want = qkv_tensors_find(golden, name);
    const size_t count = read_lines(GOLDEN "/lines.txt", text, lines), C = want->shape[1];
    assert_int_equal(count, want->shape[0]);
    float *expected = calloc(count * C, sizeof *expected), *got = calloc(count * C, sizeof *got);
    qkv_array_floats(want, expected);
    for (size_t i = 0; i < count && unit; i++) {
        double sum = 0;
        for (size_t c = 0; c < C; c++) sum += pow((double)expected[i * C + c], 2);
        for (size_t c = 0; c < C; c++) expected[i * C + c] = (float)((double)expected[i * C + c] / sqrt(sum));
    }
    assert_true(qkv_model_pooling(model, &pool, &normalize, &most));
    assert_int_equal(normalize, unit);
    assert_int_equal(most, cut ? 8 : 0);
    const size_t rows = cut ? count : count - 1; /* the last one is longer than those of the golden file */
    if (qkv_embed(model, lines, rows, NULL, got)) fail_msg("%s", qkv_message(ctx));
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
    OWNED_SPEC struct qkv_spec spec = {0};
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    assert_int_equal(qkv_folder_spec(ctx, folder, NULL, 0, &spec), QKV_OK);
    assert_int_equal(qkv_spec_width(&spec), 16);
    struct qkv_tokenizer *tokenizer;
    assert_int_equal(qkv_folder_tokenizer(ctx, folder, &tokenizer), QKV_OK);
    qkv_tokenizer_free(tokenizer);
    qkv_context_free(ctx);
    test_remove_tree(folder);
}

/* The settings of the modules stay with the model, in a folder of ours and in one of theirs. */
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

/* ---- dense layers and prompts ----------------------------------------------------------------------------------- */

#define DENSE(more)      "{\"in_features\": 16, \"out_features\": 20, \"bias\": false" more "}"
#define ACTIVATION(name) DENSE(", \"activation_function\": \"torch.nn.modules.activation." name "\"")
#define MODULE(kind, at) "{\"type\": \"sentence_transformers.base.modules." kind "\", \"path\": \"" at "\"}"
#define POOLED           "[" MODULE("transformer.Transformer", "") ", " MODULE("pooling.Pooling", "1_Pooling") ", "

/* Vectors of the lines with a prompt, NULL: the usual one. The caller frees them. */
static float *embed_lines(const char *folder, const char *prompt, size_t *count, size_t *width) {
    struct qkv_context *ctx;
    struct qkv_model *model;
    char text[MOST];
    const char *lines[LINES], *name, *found;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    load_or_fail(ctx, folder, &model);
    if (qkv_model_tokenizer_problem(model)) fail_msg("%s", qkv_model_tokenizer_problem(model));
    struct qkv_embed_options options = qkv_embed_defaults(model);
    for (size_t i = 0; prompt && qkv_model_prompt(model, i, &name, &found); i++)
        if (!strcmp(name, prompt)) options.prompt = found;
    assert_true(!prompt || options.prompt);
    /* Without a name the options have the prompt that the folder calls its usual one. */
    const char *usual = qkv_model_prompt_usual(model);
    for (size_t i = 0; !prompt && qkv_model_prompt(model, i, &name, &found); i++)
        assert_true((usual && !strcmp(name, usual)) == (options.prompt == found));
    *count = read_lines(EMBEDDINGS "/lines.txt", text, lines);
    *width = qkv_embed_width(model);
    float *vectors = calloc(*count * *width, sizeof *vectors);
    if (qkv_embed(model, lines, *count, &options, vectors)) fail_msg("%s", qkv_message(ctx));
    qkv_model_free(model);
    qkv_context_free(ctx);
    return vectors;
}

static void expect_embeddings(const char *folder, const char *prompt, const char *name) {
    struct qkv_context *ctx;
    struct qkv_tensors *golden;
    size_t count, width;
    float *got = embed_lines(folder, prompt, &count, &width);
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    assert_int_equal(qkv_tensors_open(ctx, EMBEDDINGS "/vectors.safetensors", &golden), QKV_OK);
    const struct qkv_array *want = qkv_tensors_find(golden, name);
    assert_non_null(want);
    assert_int_equal(want->shape[0], count);
    assert_int_equal(want->shape[1], width);
    float *expected = calloc(count * width, sizeof *expected);
    qkv_array_floats(want, expected);
    test_floats_close(got, expected, count * width, qkv_auto_precision(ctx) == QKV_FP32 ? 1e-5 : 8e-2, name, __FILE__,
                      __LINE__);
    free(expected);
    free(got);
    qkv_tensors_close(golden);
    qkv_context_free(ctx);
}

static void dense_layers_and_prompts_give_the_vectors_of_the_reference(void **state) {
    (void)state;
    static const struct {
        const char *name, *prompt, *file, *text, *file2, *text2, *file3, *text3;
    } cases[] = {
        {.name = "none"},
        {.name = "query", .prompt = "query"},
        {.name = "document", .prompt = "document"},
        {.name = "none", .prompt = "empty"},
        {.name = "document",
         .file = "config_sentence_transformers.json",
         .text = "{\"prompts\": {\"a\": \"title: none | text: \"}, \"default_prompt_name\": \"a\"}"},
        {.name = "none",
         .file = "config_sentence_transformers.json",
         .text = "{\"prompts\": {\"query\": null}, \"default_prompt_name\": \"document\"}"},
        {.name = "query.mean",
         .prompt = "query",
         .file = "1_Pooling/config.json",
         .text = "{\"pooling_mode\": \"mean\", \"include_prompt\": false}"},
        {.name = "query.cls",
         .prompt = "query",
         .file = "1_Pooling/config.json",
         .text = "{\"pooling_mode\": \"cls\", \"include_prompt\": false}"},
        {.name = "query.max",
         .prompt = "query",
         .file = "1_Pooling/config.json",
         .text = "{\"pooling_mode\": \"max\", \"include_prompt\": false}"},
        {.name = "query.lasttoken",
         .prompt = "query",
         .file = "1_Pooling/config.json",
         .text = "{\"pooling_mode\": \"lasttoken\", \"include_prompt\": false}"},
        {.name = "relu", .file = "2_Dense/config.json", .text = ACTIVATION("ReLU")},
        {.name = "gelu", .file = "2_Dense/config.json", .text = ACTIVATION("GELU")},
        {.name = "silu", .file = "2_Dense/config.json", .text = ACTIVATION("SiLU")},
        {.name = "tanh", .file = "2_Dense/config.json", .text = ACTIVATION("Tanh")},
        {.name = "tanh", .file = "2_Dense/config.json", .text = DENSE("")},
        {.name = "residual",
         .file = "2_Dense/config.json",
         .text = DENSE(", \"use_residual\": true, \"activation_function\": \"torch.nn.Identity\""),
         "2_Dense/model.safetensors",
         "@residual.safetensors"},
        {.name = "residual_square",
         .file = "2_Dense/config.json",
         .text = "{\"in_features\": 16, \"out_features\": 16, \"bias\": false, \"use_residual\": true}",
         .file2 = "2_Dense/model.safetensors",
         .text2 = "@square.safetensors",
         .file3 = "modules.json",
         .text3 = POOLED MODULE("dense.Dense", "2_Dense") ", " MODULE("normalize.Normalize", "3_Normalize") "]"},
        {.name = "between",
         .file = "modules.json",
         .text = POOLED MODULE("dense.Dense", "2_Dense") ", " MODULE("normalize.Normalize", "3_Normalize") ", " MODULE(
             "dense.Dense", "3_Dense") ", " MODULE("normalize.Normalize", "4_Normalize") "]"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        const char *folder = copy_embeddings();
        if (cases[i].file) change_file(folder, cases[i].file, cases[i].text);
        if (cases[i].file2) change_file(folder, cases[i].file2, cases[i].text2);
        if (cases[i].file3) change_file(folder, cases[i].file3, cases[i].text3);
        expect_embeddings(folder, cases[i].prompt, cases[i].name);
        test_remove_tree(folder);
    }
}

/* With all kinds of layers, into a folder of ours and into one of theirs. */
static void dense_layers_and_prompts_are_kept(void **state) {
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        struct qkv_context *ctx;
        struct qkv_model *model;
        size_t count, width;
        const char *folder = copy_embeddings(), *kept = test_path("kept");
        change_file(folder, "2_Dense/config.json",
                    DENSE(", \"use_residual\": true, \"activation_function\": \"torch.nn.SiLU\""));
        change_file(folder, "2_Dense/model.safetensors", "@residual.safetensors");
        change_file(folder, "modules.json",
                    POOLED MODULE("dense.Dense", "2_Dense") ", " MODULE(
                        "normalize.Normalize", "3_Normalize") ", " MODULE("dense.Dense", "3_Dense") "]");
        change_file(folder, "1_Pooling/config.json", "{\"pooling_mode\": \"mean\", \"include_prompt\": false}");
        change_file(folder, "config_sentence_transformers.json",
                    "{\"prompts\": {\"q\": \"the\", \"p\": \"\"}, \"default_prompt_name\": \"q\"}");
        assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
        load_or_fail(ctx, folder, &model);
        if (kind == 0) assert_int_equal(qkv_model_save(model, kept), QKV_OK);
        if (kind == 1) assert_int_equal(qkv_model_export(model, "f32", kept), QKV_OK);
        if (kind == 2) assert_int_equal(qkv_model_export_published(model, NULL, "f32", kept), QKV_OK);
        qkv_model_free(model);
        qkv_context_free(ctx);
        float *want = embed_lines(folder, NULL, &count, &width), *got = embed_lines(kept, NULL, &count, &width);
        assert_memory_equal(got, want, count * width * sizeof *got);
        free(got);
        free(want);
        test_remove_tree(folder);
        test_remove_tree(kept);
    }
}

static void dense_layers_and_prompts_that_do_not_fit_are_refused_by_key(void **state) {
    (void)state;
    static const struct {
        const char *file, *text;
        enum qkv_status status;
        const char *says;
    } cases[] = {
        {"2_Dense/config.json", "{\"in_features\": 17, \"out_features\": 20}", QKV_SPEC,
         "in_features is 17; it can be 16"},
        {"2_Dense/config.json", "{\"in_features\": 16, \"out_features\": 0}", QKV_SPEC, "out_features is 0"},
        {"2_Dense/config.json", "{\"in_features\": 16, \"out_features\": 19, \"bias\": false}", QKV_FORMAT,
         "linear.weight has the shape (20, 16); config.json beside it asks for (19, 16)"},
        {"2_Dense/config.json", "{\"in_features\": 16, \"out_features\": 20}", QKV_FORMAT, "has no tensor linear.bias"},
        {"3_Dense/config.json", "{\"in_features\": 20, \"out_features\": 12, \"bias\": false}", QKV_FORMAT,
         "has 2 tensors; config.json beside it asks for 1"},
        {"2_Dense/config.json", ACTIVATION("Mish"), QKV_SPEC,
         "activation_function is \"torch.nn.modules.activation.Mish\""},
        {"2_Dense/config.json", DENSE(", \"activation_function\": \"mine.Tanh\""), QKV_SPEC, "Identity, Tanh, ReLU"},
        {"2_Dense/config.json", DENSE(", \"module_input_name\": \"token_embeddings\""), QKV_SPEC, "module_input_name"},
        {"2_Dense/config.json", DENSE(", \"use_residual\": 1"), QKV_SPEC, "use_residual is 1"},
        {"2_Dense/config.json", NULL, QKV_FILE, "2_Dense/config.json is missing"},
        {"2_Dense/model.safetensors", NULL, QKV_FILE, "2_Dense/model.safetensors is missing"},
        {"1_Pooling/config.json", "{\"pooling_mode\": \"mean\", \"include_prompt\": 0}", QKV_SPEC,
         "include_prompt is 0"},
        {"modules.json", POOLED MODULE("dense.Dense", "../2_Dense") "]", QKV_FORMAT, "does not name a folder"},
        {"modules.json", POOLED "{\"type\": \"a.Dense\"}]", QKV_FORMAT, "a module Dense has no path"},
        {"modules.json", POOLED MODULE("layer_norm.LayerNorm", "2_Dense") "]", QKV_SPEC, "module 2 is \"LayerNorm\""},
        {"config_sentence_transformers.json", "{\"prompts\": {\"q\": \"a\"}, \"default_prompt_name\": \"p\"}", QKV_SPEC,
         "default_prompt_name is \"p\"; it can be the name of one of its prompts"},
        {"config_sentence_transformers.json", "{\"prompts\": {\"q\": 1}}", QKV_SPEC, "the prompt \"q\" is not a text"},
        {"config_sentence_transformers.json", "{\"prompts\": [\"q\"]}", QKV_SPEC, "prompts is [\"q\"]"},
    };
    struct qkv_context *ctx;
    struct qkv_model *model = NULL;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        const char *folder = copy_embeddings();
        change_file(folder, cases[i].file, cases[i].text);
        const enum qkv_status got = qkv_model_load(ctx, folder, &model);
        if (got != cases[i].status || !strstr(qkv_message(ctx), cases[i].says))
            fail_msg("%s, which does not say \"%s\"", got ? qkv_message(ctx) : "it was read", cases[i].says);
        assert_null(model);
        test_remove_tree(folder);
    }
    qkv_context_free(ctx);
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
         "does not name a folder"},
        {"modules.json",
         "[{\"type\": \"a.Transformer\"}, {\"type\": \"a.Pooling\", \"path\": \"1_Pooling\"}, {\"type\": \"a.Dense\"}]",
         QKV_FORMAT, "a module Dense has no path"},
        {"sentence_bert_config.json", "{\"max_seq_length\": 0}", QKV_SPEC, "max_seq_length is 0"},
        {"config_sentence_transformers.json", "{\"default_prompt_name\": \"q\"}", QKV_SPEC,
         "default_prompt_name is \"q\""},
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
        cmocka_unit_test(dense_layers_and_prompts_give_the_vectors_of_the_reference),
        cmocka_unit_test(dense_layers_and_prompts_are_kept),
        cmocka_unit_test(dense_layers_and_prompts_that_do_not_fit_are_refused_by_key),
        cmocka_unit_test(modules_that_do_not_fit_are_refused_by_key),
    };
    return cmocka_run_group_tests(tests, make_folder, NULL);
}
