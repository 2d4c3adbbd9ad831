/* Published folders: small random checkpoints that transformers saved (tests/golden/hf, and those in
 * ../shared/golden/hf or $QKV_GOLDEN_HF), with inputs, outputs and gradients of a float64 run of transformers. */
/* labels: numeric */
#include "test.h"

#include "family_fixture.h"

#include <dirent.h>

#include "family/family.h"
#include "model/spec.h"
#include "qkv.h"
#include "train/train.h"

struct published {
    struct qkv_context *ctx;
    struct qkv_model *model;
    struct qkv_tensors *file;
    struct qkv_batch batch;
    int32_t *ints[6];
    float *features;
};

static int32_t *published_ints(struct published *p, const char *name, size_t slot, size_t *rows, size_t *columns) {
    const struct qkv_array *a = qkv_tensors_find(p->file, name);
    if (!a) return NULL;
    assert_int_equal(a->dtype, QKV_I32);
    if (rows) *rows = a->shape[0];
    if (columns) *columns = a->shape[1];
    p->ints[slot] = malloc(a->bytes);
    memcpy(p->ints[slot], a->data, a->bytes);
    return p->ints[slot];
}

static void published_features(struct published *p) {
    const struct qkv_spec *spec = qkv_model_spec(p->model);
    const struct qkv_stack_spec *stack = spec->encoder.layers ? &spec->encoder : &spec->decoder;
    const struct qkv_array *pixels = qkv_tensors_find(p->file, "in.pixels");
    const struct qkv_array *frames = qkv_tensors_find(p->file, "in.features"), *a = pixels ? pixels : frames;
    if (!a) return;
    p->features = malloc(qkv_array_elements(a) * sizeof(float));
    qkv_array_floats(a, p->features);
    p->batch.B = a->shape[0];
    if (pixels) {
        p->batch.T = qkv_stack_patches(stack);
        p->batch.features = p->features;
    } else {
        p->batch.source_frames = frames->shape[2];
        p->batch.source_T = (frames->shape[2] - 1) / (size_t)stack->embed.input.stride + 1;
        p->batch.source_features = p->features;
    }
}

static void published_open(struct published *p, const char *folder, const char *cases, const char *isa,
                           enum qkv_precision precision) {
    char path[700];
    *p = (struct published){0};
    const struct qkv_context_options options = {.size = sizeof options, .isa = isa, .precision = precision};
    assert_int_equal(qkv_context_create(&p->ctx, &options), QKV_OK);
    if (qkv_model_load(p->ctx, folder, &p->model)) fail_msg("%s: %s", folder, qkv_message(p->ctx));
    snprintf(path, sizeof path, "%s/case.safetensors", cases);
    if (qkv_tensors_open(p->ctx, path, &p->file)) fail_msg("%s", qkv_message(p->ctx));
    p->batch = qkv_batch_defaults();
    p->batch.ids = published_ints(p, "in.ids", 0, &p->batch.B, &p->batch.T);
    p->batch.lengths = published_ints(p, "in.lengths", 1, NULL, NULL);
    p->batch.targets = published_ints(p, "in.targets", 2, NULL, NULL);
    p->batch.source = published_ints(p, "in.source", 3, NULL, &p->batch.source_T);
    p->batch.source_lengths = published_ints(p, "in.source_lengths", 4, NULL, NULL);
    p->batch.types = published_ints(p, "in.token_types", 5, NULL, NULL);
    published_features(p);
    p->batch.length = p->batch.T, p->batch.source_length = p->batch.source_T; /* as the reference */
}

static void published_close(struct published *p) {
    for (size_t i = 0; i < TEST_COUNT(p->ints); i++) free(p->ints[i]);
    free(p->features);
    qkv_tensors_close(p->file);
    qkv_model_free(p->model);
    qkv_context_free(p->ctx);
}

static struct qkv_pass *published_pass(struct published *p, bool train) {
    struct qkv_pass *pass;
    const struct qkv_pass_options o = {.size = sizeof o,
                                       .B = p->batch.B,
                                       .T = p->batch.T,
                                       .source_T = p->batch.source_T,
                                       .train = train,
                                       .logits = true};
    assert_int_equal(qkv_pass_create(p->model, &o, &pass), QKV_OK);
    if (qkv_pass_forward(pass, &p->batch)) fail_msg("%s", qkv_message(p->ctx));
    return pass;
}

static void expect_close(const struct published *p, const char *name, const float *got, size_t count,
                         double tolerance) {
    const struct qkv_array *want = qkv_tensors_find(p->file, name);
    if (!want) fail_msg("the case has no %s", name);
    assert_int_equal(qkv_array_elements(want), count);
    float *expected = malloc(count * sizeof *expected);
    qkv_array_floats(want, expected);
    test_floats_close(got, expected, count, tolerance, name, __FILE__, __LINE__);
    free(expected);
}

/* Gradients that nearly cancel (those of biases of keys) are compared with the norm of all. */
static void expect_gradients(struct published *p, double tolerance, double floor) {
    struct qkv_family_tensors *tensors;
    const struct qkv_array *a;
    size_t seen = 0;
    assert_int_equal(qkv_model_family_tensors(p->model, true, &tensors), QKV_OK);
    const double least = floor * qkv_model_gradient_norm(p->model);
    for (size_t i = 0; (a = qkv_family_tensors_at(tensors, i)); i++) {
        char name[240];
        snprintf(name, sizeof name, "grad.%s", a->name);
        const struct qkv_array *want = qkv_tensors_find(p->file, name);
        if (!want) fail_msg("%s: there is no such parameter", a->name); /* buffers have none */
        const size_t count = qkv_array_elements(a);
        assert_int_equal(a->rank, want->rank);
        for (int d = 0; d < a->rank; d++) assert_int_equal(a->shape[d], want->shape[d]);
        float *expected = malloc(count * sizeof *expected);
        qkv_array_floats(want, expected);
        double difference = 0;
        for (size_t k = 0; k < count; k++)
            difference += pow((double)((const float *)a->data)[k] - (double)expected[k], 2);
        if (!(sqrt(difference) <= least)) expect_close(p, name, a->data, count, tolerance);
        free(expected);
        seen++;
    }
    for (size_t i = 0; i < qkv_tensors_count(p->file); i++)
        seen -= strncmp(qkv_tensors_at(p->file, i)->name, "grad.", 5) == 0;
    assert_int_equal(seen, 0);
    qkv_family_tensors_free(tensors);
}

static void run_published(const char *folder, const char *cases, const char *isa, enum qkv_precision precision) {
    const bool fp32 = precision == QKV_FP32;
    struct published p;
    published_open(&p, folder, cases, isa, precision);
    const bool gradients = fp32 && strstr(folder, "bf16") == NULL;
    bool given = false;
    for (size_t i = 0; i < qkv_tensors_count(p.file); i++)
        given = given || strncmp(qkv_tensors_at(p.file, i)->name, "grad.", 5) == 0;
    struct qkv_pass *pass = published_pass(&p, gradients && given);
    const struct qkv_array y = qkv_pass_output(pass);
    const float loss = (float)qkv_pass_loss(pass, NULL);
    const bool bare = qkv_model_spec(p.model)->head.kind == QKV_HEAD_NONE; /* a base model has no scores */
    expect_close(&p, bare ? "out.hidden" : "out.logits", y.data, qkv_array_elements(&y), fp32 ? 1e-5 : 8e-2);
    if (!bare) expect_close(&p, "out.loss", &loss, 1, fp32 ? 1e-5 : 8e-2);
    if (gradients && given) {
        assert_int_equal(qkv_pass_backward(pass), QKV_OK);
        expect_gradients(&p, 1e-4, 1e-6);
    }
    qkv_pass_free(pass);
    published_close(&p);
}

/* ---- folders of the test's own ---------------------------------------------------------------------------------- */

typedef void folder_check(const char *folder, const char *name, void *user);

static size_t each_folder(const char *root, folder_check *check, void *user) {
    DIR *folder = opendir(root);
    size_t count = 0;
    if (!folder) return 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        char path[512], cases[600];
        snprintf(path, sizeof path, "%s/%s", root, entry->d_name);
        snprintf(cases, sizeof cases, "%s/case.safetensors", path);
        if (entry->d_name[0] == '.' || access(cases, R_OK) != 0) continue;
        check(path, entry->d_name, user);
        count++;
    }
    closedir(folder);
    return count;
}

static void every_folder(folder_check *check, void *user) {
    assert_true(each_folder(TEST_SOURCE_DIR "/tests/golden/hf", check, user) >= 115);
    each_folder(TEST_SOURCE_DIR "/../shared/golden/hf", check, user);
    if (getenv("QKV_GOLDEN_HF")) assert_true(each_folder(getenv("QKV_GOLDEN_HF"), check, user) > 0);
}

/* Whether the tests of numbers are repeated with one kernel table. What all tables or none of them decide was tested
 * without $QKV_ISA. */
static bool is_repeated(void) {
    return getenv("QKV_ISA") && *getenv("QKV_ISA");
}

/* Folders of the tree run on every kernel table, others on the best. */
static void check_numbers(const char *folder, const char *name, void *user) {
    const bool every =
        !is_repeated() && strncmp(folder, TEST_SOURCE_DIR "/tests/", strlen(TEST_SOURCE_DIR "/tests/")) == 0;
    char old[600];
    for (size_t i = 0; every && qkv_isa_at(i); i++) run_published(folder, folder, qkv_isa_at(i), QKV_FP32);
    if (!every) run_published(folder, folder, NULL, QKV_FP32);
    run_published(folder, folder, NULL, QKV_MIXED_BF16);
    snprintf(old, sizeof old, "%s/old.%s", (const char *)user, name);
    link_folder(folder, old, "config.legacy.json");
    run_published(old, folder, NULL, QKV_FP32);
    test_remove_tree(old);
}

static void folders_give_the_numbers_of_the_reference_in_old_and_new_words(void **state) {
    every_folder(check_numbers, *state);
}

/* ---- there and back --------------------------------------------------------------------------------------------- */

/* Numbers of a type that safetensors files cannot hold (MXFP4) are written as fp32. */
static void expect_same_numbers(const struct qkv_array *p, const struct qkv_array *q) {
    const size_t n = qkv_array_elements(p);
    float *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y);
    assert_int_equal(n, qkv_array_elements(q));
    qkv_array_floats(p, x);
    qkv_array_floats(q, y);
    assert_memory_equal(x, y, n * sizeof *x);
    free(x);
    free(y);
}

static void expect_same_model(const struct qkv_model *a, const struct qkv_model *b) {
    char x[QKV_DIGEST_TEXT], y[QKV_DIGEST_TEXT];
    struct qkv_context *ctx = qkv_model_context(a);
    assert_int_equal(qkv_spec_digest(ctx, qkv_model_spec(a), x), QKV_OK);
    assert_int_equal(qkv_spec_digest(ctx, qkv_model_spec(b), y), QKV_OK);
    assert_string_equal(x, y);
    assert_int_equal(qkv_model_parameters(a), qkv_model_parameters(b));
    for (size_t i = 0; i < qkv_model_parameters(a); i++) {
        const struct qkv_array *p = qkv_model_parameter(a, i), *q = qkv_model_parameter(b, i);
        assert_string_equal(p->name, q->name);
        if (p->dtype == QKV_MXFP4 || q->dtype == QKV_MXFP4) {
            expect_same_numbers(p, q);
            continue;
        }
        assert_int_equal(p->dtype, q->dtype);
        assert_int_equal(p->bytes, q->bytes);
        assert_memory_equal(p->data, q->data, p->bytes);
    }
}

/* The folder itself, and a copy in our format, which names no family: exporting the copy must find one. */
static void check_both_ways(const char *folder, const char *name, void *user) {
    struct qkv_context *ctx;
    struct qkv_model *first, *again, *ours, *found;
    char there[600], own[600], back[600];
    snprintf(there, sizeof there, "%s/there.%s", (const char *)user, name);
    snprintf(own, sizeof own, "%s/own.%s", (const char *)user, name);
    snprintf(back, sizeof back, "%s/back.%s", (const char *)user, name);
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    load_or_fail(ctx, folder, &first);
    const char *format = strstr(name, "bf16") ? "bf16" : "f32";
    if (qkv_model_export_published(first, NULL, format, there)) fail_msg("%s: %s", name, qkv_message(ctx));
    load_or_fail(ctx, there, &again);
    expect_same_model(first, again);
    assert_string_equal(qkv_model_family(first), qkv_model_family(again));
    assert_int_equal(qkv_model_save(first, own), QKV_OK);
    load_or_fail(ctx, own, &ours);
    assert_null(qkv_model_family(ours));
    if (qkv_model_export_published(ours, NULL, format, back)) fail_msg("%s: %s", name, qkv_message(ctx));
    load_or_fail(ctx, back, &found);
    expect_same_model(first, found);
    qkv_model_free(first);
    qkv_model_free(again);
    qkv_model_free(ours);
    qkv_model_free(found);
    qkv_context_free(ctx);
    test_remove_tree(there);
    test_remove_tree(own);
    test_remove_tree(back);
}

/* Random, unusual settings of every family (tests/golden/make/hf_random.py). */
static void check_settings(const char *folder, const char *name, void *user) {
    char old[600];
    run_published(folder, folder, NULL, QKV_FP32);
    snprintf(old, sizeof old, "%s/old.%s", (const char *)user, name);
    link_folder(folder, old, "config.legacy.json");
    run_published(old, folder, NULL, QKV_FP32);
    test_remove_tree(old);
    if (!is_repeated()) check_both_ways(folder, name, user);
}

static void unusual_settings_give_the_numbers_of_the_reference_and_come_back(void **state) {
    assert_true(each_folder(TEST_SOURCE_DIR "/tests/golden/hf_random", check_settings, *state) >= 238);
}

static void what_is_read_and_written_and_read_is_the_same_to_the_bit(void **state) {
    if (is_repeated()) skip();
    every_folder(check_both_ways, *state);
}

/* Poolers, and the scores of pretraining tasks, are not weights of the model; an exported folder has them again, and
 * all names unchanged. */
static void a_folder_is_written_with_all_that_it_had(void **state) {
    static const char *const names[] = {"bert_model",      "bert_pretraining", "bert_answer",     "vit_model",
                                        "albert_classify", "llama_model",      "llama_answer",    "gpt2_model",
                                        "t5_tokens",       "mistral_answer",   "t5_encoder",      "roberta_answer",
                                        "ministral",       "opt_classify",     "gemma3_both_ways"};
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        struct qkv_context *ctx;
        struct qkv_model *model;
        struct qkv_tensors *was, *is;
        char folder[600], file[700], there[600];
        snprintf(folder, sizeof folder, TEST_SOURCE_DIR "/tests/golden/hf/%s", names[i]);
        snprintf(there, sizeof there, "%s/again.%s", (const char *)*state, names[i]);
        assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
        load_or_fail(ctx, folder, &model);
        assert_int_equal(qkv_model_export_published(model, NULL, "f32", there), QKV_OK);
        snprintf(file, sizeof file, "%s/model.safetensors", folder);
        assert_int_equal(qkv_tensors_open(ctx, file, &was), QKV_OK);
        snprintf(file, sizeof file, "%s/model.safetensors", there);
        assert_int_equal(qkv_tensors_open(ctx, file, &is), QKV_OK);
        assert_int_equal(qkv_tensors_count(is), qkv_tensors_count(was));
        for (size_t k = 0; k < qkv_tensors_count(was); k++) {
            const struct qkv_array *a = qkv_tensors_at(was, k), *b = qkv_tensors_find(is, a->name);
            if (!b) fail_msg("%s: %s is left out", names[i], a->name);
            assert_int_equal(a->bytes, b->bytes);
            assert_memory_equal(a->data, b->data, a->bytes);
        }
        qkv_tensors_close(was);
        qkv_tensors_close(is);
        qkv_model_free(model);
        qkv_context_free(ctx);
        test_remove_tree(there);
    }
}

/* Of a model with images the text model is read and written alone. */
static void parts_that_are_left_out_are_said_and_not_written(void **state) {
    static const char *const names[][2] = {{"gemma3_parts", "gemma3_text"},    {"mistral3_parts", "mistral"},
                                           {"ministral3_parts", "ministral3"}, {"llava_parts", "llama"},
                                           {"qwen2_vl_parts", "qwen2"},        {"qwen2_5_vl_parts", "qwen2"},
                                           {"qwen3_vl_parts", "qwen3"}};
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        struct qkv_context *ctx;
        struct qkv_model *model, *again;
        char folder[600], there[600];
        snprintf(folder, sizeof folder, TEST_SOURCE_DIR "/tests/golden/hf/%s", names[i][0]);
        snprintf(there, sizeof there, "%s/text.%s", (const char *)*state, names[i][0]);
        assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
        load_or_fail(ctx, folder, &model);
        assert_string_equal(qkv_model_family(model), names[i][1]);
        assert_non_null(qkv_model_warning(model));
        assert_non_null(strstr(qkv_model_warning(model), "tensors of its other parts are left out"));
        assert_null(strstr(qkv_model_warning(model), "the 0 tensors"));
        assert_int_equal(qkv_model_export_published(model, NULL, "f32", there), QKV_OK);
        load_or_fail(ctx, there, &again);
        assert_null(qkv_model_warning(again));
        assert_string_equal(qkv_model_family(again), names[i][1]);
        qkv_model_free(model);
        qkv_model_free(again);
        qkv_context_free(ctx);
        test_remove_tree(there);
    }
}

static void a_model_that_no_family_has_is_refused_with_what_the_nearest_has_otherwise(void **state) {
    (void)state;
    struct qkv_context *ctx;
    struct qkv_model *model;
    OWNED_SPEC struct qkv_spec spec = {0};
    static const char *const settings[] = {"vocab=16",
                                           "d_model=16",
                                           "context=8",
                                           "decoder.layers=1",
                                           "decoder.attention.heads=2",
                                           "decoder.attention.window=3"};
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    assert_int_equal(qkv_spec_preset(ctx, &spec, "gpt2-small", settings, TEST_COUNT(settings)), QKV_OK);
    assert_int_equal(qkv_model_create(ctx, &spec, 1, &model), QKV_OK);
    const char *folder = test_path("none");
    assert_int_equal(qkv_model_export_published(model, NULL, "f32", folder), QKV_SPEC);
    assert_non_null(strstr(qkv_message(ctx), "window is 3"));
    assert_int_equal(access(folder, F_OK), -1);
    assert_int_equal(qkv_model_export_published(model, "gpt3", "f32", folder), QKV_ARGUMENT);
    assert_non_null(strstr(qkv_message(ctx), "gpt3"));
    qkv_model_free(model);
    static const char *const share[] = {"embed.masked.share=0.3"};
    OWNED_SPEC struct qkv_spec masked = {0};
    assert_int_equal(qkv_folder_spec(ctx, TEST_SOURCE_DIR "/tests/golden/hf/esm", share, 1, &masked), QKV_OK);
    assert_int_equal(qkv_model_create(ctx, &masked, 1, &model), QKV_OK);
    assert_int_equal(qkv_model_export_published(model, "esm", "f32", folder), QKV_SPEC);
    if (!strstr(qkv_message(ctx), "embed.masked.share=0.12")) fail_msg("%s", qkv_message(ctx));
    qkv_model_free(model);
    qkv_context_free(ctx);
}

/* Norms of heads are a tensor each, of which there may be many more than other weights. */
static void norms_of_many_heads_are_written(void **state) {
    (void)state;
    static const char *const many[] = {"d_model=512", "decoder.attention.heads=64", "decoder.attention.kv_heads=32"};
    struct qkv_context *ctx;
    struct qkv_model *model, *again;
    OWNED_SPEC struct qkv_spec spec = {0};
    const char *folder = test_path("heads"), *const golden = TEST_SOURCE_DIR "/tests/golden/hf/stablelm_norms";
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    assert_int_equal(qkv_folder_spec(ctx, golden, many, 3, &spec), QKV_OK);
    assert_int_equal(qkv_model_create(ctx, &spec, 1, &model), QKV_OK);
    if (qkv_model_export_published(model, "stablelm", "f32", folder)) fail_msg("%s", qkv_message(ctx));
    if (qkv_model_load(ctx, folder, &again)) fail_msg("%s", qkv_message(ctx));
    assert_int_equal(qkv_model_parameters(again), qkv_model_parameters(model));
    for (size_t i = 0; i < qkv_model_parameters(model); i++)
        assert_memory_equal(qkv_model_parameter(again, i)->data, qkv_model_parameter(model, i)->data,
                            qkv_model_parameter(model, i)->bytes);
    qkv_model_free(model), qkv_model_free(again);
    qkv_context_free(ctx);
    test_remove_tree(folder);
}

/* Weights stored as ours are not copied. */
static void matrices_in_bf16_stay_in_their_file(void **state) {
    (void)state;
    struct qkv_context *ctx;
    struct qkv_model *model;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    load_or_fail(ctx, TEST_SOURCE_DIR "/tests/golden/hf/llama_bf16", &model);
    for (size_t i = 0; i < qkv_model_parameters(model); i++)
        if (qkv_model_parameter(model, i)->rank == 2) assert_true(model->weights.list[i].stored);
    qkv_model_free(model);
    qkv_context_free(ctx);
}

/* Matrices that are transposed or stacked in a published folder, experts too, are converted in their own number
 * format: a published folder in that format gives the numbers of our folder in it, which are those of the fp32
 * folder, rounded once. */
static void check_turned(const char *folder, const char *name, void *user) {
    static const char *const formats[] = {"bf16", "f16"};
    static const enum qkv_dtype dtypes[] = {QKV_BF16, QKV_F16};
    struct qkv_context *ctx;
    struct qkv_model *first, *theirs, *ours;
    char there[600], again[600];
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    load_or_fail(ctx, folder, &first);
    for (size_t k = 0; k < TEST_COUNT(formats); k++) {
        snprintf(there, sizeof there, "%s/turned.%s.%s", (const char *)user, formats[k], name);
        snprintf(again, sizeof again, "%s/again.%s.%s", (const char *)user, formats[k], name);
        if (qkv_model_export_published(first, NULL, formats[k], there)) fail_msg("%s: %s", name, qkv_message(ctx));
        load_or_fail(ctx, there, &theirs);
        assert_int_equal(qkv_model_save(theirs, again), QKV_OK);
        load_or_fail(ctx, again, &ours);
        expect_same_model(theirs, ours);
        for (size_t i = 0; i < qkv_model_parameters(first); i++) {
            const struct qkv_array *a = qkv_model_parameter(first, i), *b = qkv_model_parameter(theirs, i);
            const size_t count = qkv_array_elements(a);
            float *x = malloc(count * sizeof *x + 1), *y = malloc(count * sizeof *y + 1);
            uint16_t *narrow = malloc(count * 2 + 1);
            assert_true(x && y && narrow);
            if (qkv_weight_has_formats(&theirs->weights.list[i])) {
                assert_true(theirs->weights.list[i].stored);
                qkv_array_floats(a, x);
                qkv_from_float(narrow, x, dtypes[k], count);
                qkv_to_float(x, narrow, dtypes[k], count);
                qkv_array_floats(b, y);
                assert_memory_equal(x, y, count * sizeof *x);
            }
            free(x);
            free(y);
            free(narrow);
        }
        qkv_model_free(theirs);
        qkv_model_free(ours);
        test_remove_tree(there);
        test_remove_tree(again);
    }
    qkv_model_free(first);
    qkv_context_free(ctx);
}

static void matrices_that_stand_otherwise_keep_their_format_and_numbers(void **state) {
    every_folder(check_turned, *state);
}

/* The bias of BART's scores and the corrections of DeepSeek's routers are buffers there: they are not trained, and
 * balancing leaves them. */
static void buffers_of_a_family_do_not_learn(void **state) {
    (void)state;
    static const char *const folders[] = {"bart_small", "deepseek_v3_plain"};
    static const char *const buffers[] = {"head.bias", "decoder.layers.1.ffn.correction.weight"};
    for (size_t k = 0; k < TEST_COUNT(folders); k++) {
        struct qkv_context *ctx;
        struct qkv_model *model;
        char path[300];
        size_t found = 0;
        snprintf(path, sizeof path, TEST_SOURCE_DIR "/tests/golden/hf/%s", folders[k]);
        assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
        load_or_fail(ctx, path, &model);
        for (size_t i = 0; i < qkv_model_parameters(model); i++) {
            const bool buffer = strcmp(qkv_model_parameter(model, i)->name, buffers[k]) == 0;
            assert_int_equal(qkv_model_trainable(model, i), !buffer);
            found += buffer;
        }
        assert_int_equal(found, 1);
        qkv_model_free(model);
        qkv_context_free(ctx);
    }
}

/* The names of classes are id2label and label2id there, those of a model that came from elsewhere too. */
static void names_of_classes_go_both_ways(void **state) {
    (void)state;
    static const char *const names[] = {"tree", "a \"ship\"", "no. 3", "O", "B-PER", "\xC3\xA9t\xC3\xA9", "7", "8"};
    const char *there = test_path("named");
    struct qkv_context *ctx;
    struct qkv_model *model, *again;
    char path[900];
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    load_or_fail(ctx, TEST_SOURCE_DIR "/tests/golden/hf/vit", &model);
    const size_t classes = (size_t)qkv_model_spec(model)->head.classes;
    assert_in_range(classes, 2, TEST_COUNT(names));
    assert_string_equal(qkv_model_label(model, 1), "LABEL_1");
    assert_int_equal(qkv_model_set_labels(model, names, classes), QKV_OK);
    assert_int_equal(qkv_model_export_published(model, NULL, "f32", there), QKV_OK);
    load_or_fail(ctx, there, &again);
    for (size_t i = 0; i < classes; i++) assert_string_equal(qkv_model_label(again, i), names[i]);
    snprintf(path, sizeof path, "%s/config.json", there);
    json_t *config = json_load_file(path, 0, NULL);
    for (size_t i = 0; i < classes; i++) {
        const json_t *id = json_object_get(json_object_get(config, "label2id"), names[i]);
        assert_int_equal(json_integer_value(id), i);
        assert_true(json_is_integer(id));
    }
    json_decref(config);
    qkv_model_free(model);
    qkv_model_free(again);
    test_remove_tree(there);
    qkv_context_free(ctx);
}

static int make_folder(void **state) {
    *state = (void *)(uintptr_t)test_folder();
    return 0;
}

/* Whisper's sinusoids are a tensor of its files that does not learn; a model that makes them itself writes the same. */
static void sinusoids_are_a_tensor_where_a_family_has_one(void **state) {
    static const char name[] = "model.encoder.embed_positions.weight";
    static const char *const settings[] = {"encoder.embed.position.kind=sinusoidal",
                                           "encoder.embed.position.layout=spaced"};
    const char *golden = TEST_SOURCE_DIR "/tests/golden/hf/whisper_long";
    struct qkv_context *ctx;
    struct qkv_model *read, *made, *again;
    OWNED_SPEC struct qkv_spec spec = {0};
    char there[600];
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    load_or_fail(ctx, golden, &read);
    const struct qkv_array *table = NULL;
    for (size_t i = 0; i < qkv_model_parameters(read); i++) {
        if (strcmp(qkv_model_parameter(read, i)->name, "encoder.embed.position.weight")) continue;
        table = qkv_model_parameter(read, i);
        assert_false(qkv_model_trainable(read, i));
    }
    assert_non_null(table);
    assert_int_equal(qkv_folder_spec(ctx, golden, settings, 2, &spec), QKV_OK);
    assert_int_equal(qkv_model_create(ctx, &spec, 1, &made), QKV_OK);
    snprintf(there, sizeof there, "%s/sinusoids", (const char *)*state);
    if (qkv_model_export_published(made, "whisper", "f32", there)) fail_msg("%s", qkv_message(ctx));
    load_or_fail(ctx, there, &again);
    struct qkv_family_tensors *theirs;
    assert_int_equal(qkv_model_family_tensors(again, false, &theirs), QKV_OK);
    const struct qkv_array *found = NULL;
    for (size_t i = 0; qkv_family_tensors_at(theirs, i); i++)
        if (!strcmp(qkv_family_tensors_at(theirs, i)->name, name)) found = qkv_family_tensors_at(theirs, i);
    assert_non_null(found);
    assert_int_equal(found->bytes, table->bytes);
    for (size_t i = 0; i < qkv_array_elements(table); i++)
        assert_true(fabsf(((const float *)found->data)[i] - ((const float *)table->data)[i]) <= 1e-6F);
    qkv_family_tensors_free(theirs);
    qkv_model_free(read);
    qkv_model_free(made);
    qkv_model_free(again);
    test_remove_tree(there);
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folders_give_the_numbers_of_the_reference_in_old_and_new_words),
        cmocka_unit_test(unusual_settings_give_the_numbers_of_the_reference_and_come_back),
        cmocka_unit_test(what_is_read_and_written_and_read_is_the_same_to_the_bit),
        cmocka_unit_test(a_folder_is_written_with_all_that_it_had),
        cmocka_unit_test(parts_that_are_left_out_are_said_and_not_written),
        cmocka_unit_test(a_model_that_no_family_has_is_refused_with_what_the_nearest_has_otherwise),
        cmocka_unit_test(norms_of_many_heads_are_written),
        cmocka_unit_test(matrices_in_bf16_stay_in_their_file),
        cmocka_unit_test(matrices_that_stand_otherwise_keep_their_format_and_numbers),
        cmocka_unit_test(buffers_of_a_family_do_not_learn),
        cmocka_unit_test(names_of_classes_go_both_ways),
        cmocka_unit_test(sinusoids_are_a_tensor_where_a_family_has_one),
    };
    return cmocka_run_group_tests(tests, make_folder, NULL);
}
