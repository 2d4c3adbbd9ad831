/* Adapters beside PEFT (tests/golden/adapter, which make/adapter_cases.py made): its file loads, training it with the
 * same batches has the same losses, and the file that PEFT wrote at the end gives the same logits. */
/* labels: numeric */
#include "test.h"

#include <jansson.h>
#include <sys/stat.h>

#include "io/adapter_files.h"
#include "io/safetensors.h"

#define CASES TEST_SOURCE_DIR "/tests/golden/adapter/"
enum { B = 3, T = 10, BATCH = B * T };

static const struct {
    const char *name, *base;
    bool written; /* else it has several ranks */
} cases[] = {{"llama", TEST_SOURCE_DIR "/tests/golden/hf/llama_bf16", true},
             {"llama_dora", TEST_SOURCE_DIR "/tests/golden/hf/llama_bf16", true}, /* magnitudes */
             {"glm", TEST_SOURCE_DIR "/tests/golden/hf/glm", true},   /* gate and up in one matrix, magnitudes */
             {"gpt2", TEST_SOURCE_DIR "/tests/golden/hf/gpt2", true}, /* q, k and v in one matrix (in, out) */
             {"falcon", TEST_SOURCE_DIR "/tests/golden/hf/falcon_new", true}, /* q, k and v of each group in turn */
             {"mixtral", TEST_SOURCE_DIR "/tests/golden/hf/mixtral_small", false},        /* experts in one tensor */
             {"mixtral_modules", TEST_SOURCE_DIR "/tests/golden/hf/mixtral_small", true}, /* each expert a module */
             {"qwen2_moe", TEST_SOURCE_DIR "/tests/golden/hf/qwen2_moe", true}, /* all-linear: experts, router, gate */
             {"gpt_oss", TEST_SOURCE_DIR "/tests/golden/hf/gpt_oss_small", true}, /* experts in one tensor (in, out) */
             {"granitemoe", TEST_SOURCE_DIR "/tests/golden/hf/granitemoe", true}, /* one of the two tensors, router */
             {"qwen3", CASES "qwen3/base", false},
             {"bert", CASES "bert/base", true}};

enum { ONE_TENSOR = 5, MODULES = 6 }; /* the cases of Mixtral */

struct golden {
    struct qkv_context *ctx;
    struct qkv_tensors *file;
    struct qkv_model *model;
};

static void golden_begin(struct golden *g, size_t i, const char *adapter, bool fp32) {
    char path[512];
    struct qkv_context_options options = {.size = sizeof options, .precision = fp32 ? QKV_FP32 : QKV_PRECISION_AUTO};
    assert_int_equal(qkv_context_create(&g->ctx, &options), QKV_OK);
    snprintf(path, sizeof path, CASES "%s/case.safetensors", cases[i].name);
    assert_ok(g->ctx, qkv_tensors_open(g->ctx, path, &g->file));
    assert_ok(g->ctx, qkv_model_load(g->ctx, cases[i].base, &g->model));
    snprintf(path, sizeof path, CASES "%s/%s", cases[i].name, adapter);
    assert_ok(g->ctx, qkv_adapter_load(g->model, path));
}

static void golden_end(struct golden *g) {
    qkv_model_free(g->model);
    qkv_tensors_close(g->file);
    qkv_context_free(g->ctx);
}

static const void *golden_data(const struct golden *g, const char *name, size_t step) {
    const struct qkv_array *array = qkv_tensors_find(g->file, name);
    assert_non_null(array);
    return (const char *)array->data + step * BATCH * sizeof(int32_t);
}

/* The precision of the losses is that of fp32. */
static void losses_of_training_are_those_of_peft(void **state) {
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct golden g;
        struct qkv_pass *pass;
        struct qkv_optimizer *optimizer;
        golden_begin(&g, i, "start", true);
        struct qkv_optimizer_options options = qkv_optimizer_defaults();
        options.weight_decay = 0.05;
        assert_ok(g.ctx, qkv_pass_create(g.model,
                                         &QKV_OPTIONS(qkv_pass_options, .B = B, .T = T, .train = true, .dropout = true),
                                         &pass));
        assert_ok(g.ctx, qkv_optimizer_create(g.model, &options, &optimizer));
        const struct qkv_array *losses = qkv_tensors_find(g.file, "out.losses");
        double first = 0, last = 0;
        for (size_t step = 0; step < losses->shape[0]; step++) {
            const struct qkv_batch batch = {
                .B = B, .T = T, .ids = golden_data(&g, "in.ids", step), .targets = golden_data(&g, "in.targets", step)};
            assert_ok(g.ctx, qkv_pass_forward(pass, &batch));
            last = qkv_pass_loss(pass, NULL);
            if (!step) first = last;
            const double want = ((const double *)losses->data)[step];
            if (!(fabs(last - want) <= 1e-4))
                fail_msg("%s, step %zu: the loss is %.6f, that of PEFT %.6f", cases[i].name, step, last, want);
            assert_ok(g.ctx, qkv_pass_backward(pass));
            assert_ok(g.ctx, qkv_optimizer_step(optimizer, 1e-2, 1));
        }
        assert_true(last < first - 0.05);
        qkv_optimizer_free(optimizer);
        qkv_pass_free(pass);
        golden_end(&g);
    }
}

static void check_logits(const struct golden *g, size_t i, double limit) {
    struct qkv_pass *pass;
    assert_ok(g->ctx, qkv_pass_create(g->model, &QKV_OPTIONS(qkv_pass_options, .B = B, .T = T, .logits = true), &pass));
    const struct qkv_batch batch = {.B = B, .T = T, .ids = golden_data(g, "in.ids", 0)};
    assert_ok(g->ctx, qkv_pass_forward(pass, &batch));
    const struct qkv_array have = qkv_pass_output(pass), *want = qkv_tensors_find(g->file, "out.logits");
    const size_t n = qkv_array_elements(want);
    double error = 0, norm = 0;
    assert_int_equal(qkv_array_elements(&have), n);
    for (size_t k = 0; k < n; k++) {
        const double a = (double)((const float *)have.data)[k], b = (double)((const float *)want->data)[k];
        error += (a - b) * (a - b);
        norm += b * b;
    }
    if (!(sqrt(error) <= limit * sqrt(norm))) fail_msg("%s: %g of %g", cases[i].name, sqrt(error), sqrt(norm));
    qkv_pass_free(pass);
}

static void logits_of_files_of_peft_are_equal(void **state) {
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct golden g;
        golden_begin(&g, i, "end", true);
        check_logits(&g, i, 1e-5);
        golden_end(&g);
        golden_begin(&g, i, "end", false);
        check_logits(&g, i, qkv_context_precision(g.ctx) == QKV_FP32 ? 1e-5 : 5e-2);
        golden_end(&g);
    }
}

static void a_merged_adapter_gives_the_same_logits(void **state) {
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct golden g;
        golden_begin(&g, i, "end", true);
        assert_ok(g.ctx, qkv_adapter_merge(g.model));
        assert_int_equal(qkv_adapter_remove(g.model), QKV_ARGUMENT);
        check_logits(&g, i, 1e-5);
        golden_end(&g);
    }
}

static json_t *settings_of(const char *folder) {
    char path[512];
    snprintf(path, sizeof path, "%s/" QKV_ADAPTER_CONFIG_FILE, folder);
    json_t *root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    return root;
}

/* Writes the settings of an adapter with one more value of a key, which is JSON. */
static void change_settings(const char *from, const char *to, const char *key, const char *value) {
    char path[512];
    json_t *root = settings_of(from), *other = json_loads(value, JSON_DECODE_ANY, NULL);
    assert_non_null(other);
    assert_int_equal(json_object_set_new(root, key, other), 0);
    snprintf(path, sizeof path, "%s/" QKV_ADAPTER_CONFIG_FILE, to);
    assert_int_equal(json_dump_file(root, path, 0), 0);
    json_decref(root);
}

static bool has_name(const json_t *list, const char *end) {
    const json_t *value;
    size_t i;
    json_array_foreach(list, i, value) if (qkv_adapter_name_ends(json_string_value(value), end)) return true;
    return false;
}

/* What qkv writes is what it read. */
static void files_are_written_as_they_were_read(void **state) {
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct golden g;
        struct qkv_tensors *a, *b;
        char path[512], folder[64];
        golden_begin(&g, i, "end", true);
        snprintf(folder, sizeof folder, "adapter_%s", cases[i].name);
        if (!cases[i].written) {
            assert_int_equal(qkv_adapter_save(g.model, NULL, folder), QKV_SPEC);
            golden_end(&g);
            continue;
        }
        assert_ok(g.ctx, qkv_adapter_save(g.model, NULL, folder));
        snprintf(path, sizeof path, "%s/" QKV_ADAPTER_WEIGHTS_FILE, folder);
        assert_ok(g.ctx, qkv_tensors_open(g.ctx, path, &b));
        snprintf(path, sizeof path, CASES "%s/end/" QKV_ADAPTER_WEIGHTS_FILE, cases[i].name);
        assert_ok(g.ctx, qkv_tensors_open(g.ctx, path, &a));
        assert_int_equal(qkv_tensors_count(a), qkv_tensors_count(b));
        for (size_t k = 0; k < qkv_tensors_count(a); k++) {
            const struct qkv_array *x = qkv_tensors_at(a, k), *y = qkv_tensors_find(b, x->name);
            assert_non_null(y);
            assert_int_equal(x->bytes, y->bytes);
            assert_memory_equal(x->data, y->data, x->bytes);
        }
        qkv_tensors_close(a);
        qkv_tensors_close(b);
        snprintf(path, sizeof path, CASES "%s/end", cases[i].name);
        json_t *theirs = settings_of(path), *ours = settings_of(folder);
        if (!json_equal(json_object_get(theirs, "fan_in_fan_out"), json_object_get(ours, "fan_in_fan_out")))
            fail_msg("%s: fan_in_fan_out is not that of PEFT", cases[i].name);
        json_decref(theirs);
        json_decref(ours);
        assert_ok(g.ctx, qkv_adapter_remove(g.model));
        assert_ok(g.ctx, qkv_adapter_load(g.model, folder));
        check_logits(&g, i, 1e-5);
        golden_end(&g);
    }
}

/* ---- bad files --------------------------------------------------------------------------------------------------- */

#define DOWN "base_model.model.model.layers.0.mlp.down_proj."

/* Writes the adapter of a case with other tensors: without one, or with one of other numbers and rows. */
static void bad_write(struct qkv_context *ctx, const char *name_of_case, const char *name,
                      const struct qkv_array *other) {
    struct qkv_tensors *from;
    struct qkv_array list[64];
    size_t count = 0;
    char path[512];
    snprintf(path, sizeof path, CASES "%s/end/" QKV_ADAPTER_WEIGHTS_FILE, name_of_case);
    assert_ok(ctx, qkv_tensors_open(ctx, path, &from));
    for (size_t i = 0; i < qkv_tensors_count(from); i++) {
        const struct qkv_array *x = qkv_tensors_at(from, i);
        assert_true(count < TEST_COUNT(list));
        if (strcmp(x->name, name) != 0)
            list[count++] = *x;
        else if (other)
            list[count++] = *other;
    }
    assert_ok(ctx, qkv_tensors_write(ctx, "adapter_bad/" QKV_ADAPTER_WEIGHTS_FILE, list, count, NULL, 0));
    qkv_tensors_close(from);
}

static void bad_magnitudes_are_refused_by_name(void **state) {
    static const struct {
        const char *name, *says;
        size_t rows, columns; /* 0: the file does not have the tensor */
        float number;
        enum qkv_status status;
    } bad[] = {
        {DOWN "lora_magnitude_vector", "no lora_magnitude_vector of model.layers.0.mlp.down_proj", 0, 0, 0, QKV_FORMAT},
        {DOWN "lora_A.weight", "has lora_B of model.layers.0.mlp.down_proj, but not lora_A", 0, 0, 0, QKV_FORMAT},
        {DOWN "lora_magnitude_vector", "need (32)", 31, 1, 0, QKV_SHAPE},
        {DOWN "lora_magnitude_vector", "need (32)", 32, 2, 0, QKV_SHAPE},
        {DOWN "lora_magnitude_vector", "not finite", 32, 1, NAN, QKV_NUMBER},
        {DOWN "lora_magnitude_vector", NULL, 32, 1, 0, QKV_OK}};
    (void)state;
    struct golden g;
    golden_begin(&g, 0, "end", true);
    assert_ok(g.ctx, qkv_adapter_remove(g.model));
    assert_ok(g.ctx, qkv_adapter_load(g.model, CASES "llama_dora/end"));
    assert_ok(g.ctx, qkv_adapter_save(g.model, NULL, "adapter_bad"));
    assert_ok(g.ctx, qkv_adapter_remove(g.model));
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        float numbers[64] = {[3] = bad[i].number};
        const struct qkv_array other = {.name = bad[i].name,
                                        .dtype = QKV_F32,
                                        .rank = bad[i].columns > 1 ? 2 : 1,
                                        .shape = {bad[i].rows, bad[i].columns},
                                        .bytes = bad[i].rows * bad[i].columns * sizeof(float),
                                        .data = numbers};
        bad_write(g.ctx, "llama_dora", bad[i].name, bad[i].rows ? &other : NULL);
        const enum qkv_status status = qkv_adapter_load(g.model, "adapter_bad");
        if (status != bad[i].status) fail_msg("file %zu: status %d, %s", i, status, qkv_message(g.ctx));
        if (status && !strstr(qkv_message(g.ctx), bad[i].says)) fail_msg("file %zu: %s", i, qkv_message(g.ctx));
        if (status)
            assert_null(g.model->adapter);
        else
            assert_ok(g.ctx, qkv_adapter_remove(g.model));
    }
    golden_end(&g);
}

/* Writes the settings of a case for a folder with other tensors. */
static void copy_settings(const char *name_of_case) {
    char path[512];
    size_t size = 0;
    snprintf(path, sizeof path, CASES "%s/end/" QKV_ADAPTER_CONFIG_FILE, name_of_case);
    char *text = test_read_file(path, &size);
    assert_non_null(text);
    mkdir("adapter_bad", 0777); /* it may exist */
    test_write_file("adapter_bad/" QKV_ADAPTER_CONFIG_FILE, text, size);
    free(text);
}

#define LAYER  "base_model.model.model.layers.1."
#define MODULE LAYER "block_sparse_moe.experts.2.w1."
#define TENSOR LAYER "mlp.experts.base_layer."

/* In both forms. Without both tensors of an expert, settings say that it is adapted. */
static void bad_experts_are_refused_by_name(void **state) {
    static const struct {
        const char *name_of_case, *name, *says;
        size_t rows, columns; /* 0: the file does not have the tensor */
        float number;
        enum qkv_status status;
    } bad[] = {
        {"mixtral_modules", MODULE "lora_A.weight", "not lora_A", 0, 0, 0, QKV_FORMAT},
        {"mixtral_modules", MODULE "lora_A.weight", "need (2, 16)", 2, 15, 0, QKV_SHAPE},
        {"mixtral_modules", MODULE "lora_B.weight", "need (8, 2)", 7, 2, 0, QKV_SHAPE},
        {"mixtral_modules", MODULE "lora_B.weight", "not finite", 8, 2, NAN, QKV_NUMBER},
        {"mixtral", TENSOR "lora_A.weight", "has lora_B of model.layers.1.mlp.experts.base_layer, but not lora_A", 0, 0,
         0, QKV_FORMAT},
        {"mixtral", TENSOR "lora_A.weight", "has 8 rows in lora_A and 12 columns in lora_B", 8, 16, 0, QKV_SHAPE},
        {"mixtral", TENSOR "lora_B.weight", "not 3 experts of rank 4", 16, 8, 0, QKV_SHAPE},
        {"mixtral", TENSOR "lora_B.weight", "not finite", 16, 12, NAN, QKV_NUMBER},
        {"mixtral", TENSOR "lora_A.weight", NULL, 12, 16, 0, QKV_OK}};
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        const bool modules = !strcmp(bad[i].name_of_case, "mixtral_modules");
        float numbers[256] = {[3] = bad[i].number};
        const struct qkv_array other = {.name = bad[i].name,
                                        .dtype = QKV_F32,
                                        .rank = 2,
                                        .shape = {bad[i].rows, bad[i].columns},
                                        .bytes = bad[i].rows * bad[i].columns * sizeof(float),
                                        .data = numbers};
        struct golden g;
        golden_begin(&g, modules ? MODULES : ONE_TENSOR, "end", true);
        assert_ok(g.ctx, qkv_adapter_remove(g.model));
        copy_settings(bad[i].name_of_case);
        bad_write(g.ctx, bad[i].name_of_case, bad[i].name, bad[i].rows ? &other : NULL);
        const enum qkv_status status = qkv_adapter_load(g.model, "adapter_bad");
        if (status != bad[i].status) fail_msg("file %zu: status %d, %s", i, status, qkv_message(g.ctx));
        if (status && !strstr(qkv_message(g.ctx), bad[i].says)) fail_msg("file %zu: %s", i, qkv_message(g.ctx));
        assert_true((g.model->adapter != NULL) == !status);
        golden_end(&g);
    }
}

/* Writes the adapter of a case without the tensors whose names have a text. */
static void write_without(struct qkv_context *ctx, const char *name_of_case, const char *text, size_t count) {
    struct qkv_tensors *from;
    struct qkv_array list[64];
    size_t kept = 0;
    char path[512];
    copy_settings(name_of_case);
    snprintf(path, sizeof path, CASES "%s/end/" QKV_ADAPTER_WEIGHTS_FILE, name_of_case);
    assert_ok(ctx, qkv_tensors_open(ctx, path, &from));
    for (size_t i = 0; i < qkv_tensors_count(from); i++) {
        assert_true(kept < TEST_COUNT(list));
        if (!strstr(qkv_tensors_at(from, i)->name, text)) list[kept++] = *qkv_tensors_at(from, i);
    }
    assert_int_equal(kept, qkv_tensors_count(from) - count);
    assert_ok(ctx, qkv_tensors_write(ctx, "adapter_bad/" QKV_ADAPTER_WEIGHTS_FILE, list, kept, NULL, 0));
    qkv_tensors_close(from);
}

/* Without both tensors of an expert that the settings name, unless they may make an exception of it: PEFT takes lists
 * of layers and of modules, one layer, and a pattern of modules. */
static void a_missing_expert_is_refused(void **state) {
    (void)state;
    struct golden g;
    golden_begin(&g, MODULES, "end", true);
    assert_ok(g.ctx, qkv_adapter_remove(g.model));
    write_without(g.ctx, "mixtral_modules", MODULE, 2);
    assert_int_equal(qkv_adapter_load(g.model, "adapter_bad"), QKV_FORMAT);
    assert_non_null(strstr(qkv_message(g.ctx), "none of model.layers.1.block_sparse_moe.experts.2.w1"));
    static const struct {
        const char *key, *value;
        enum qkv_status status;
    } exceptions[] = {{"layers_to_transform", "0", QKV_OK},
                      {"layers_to_transform", "[0]", QKV_OK},
                      {"layers_to_transform", "[]", QKV_FORMAT},
                      {"exclude_modules", "\".*layers.1.*experts.2.w1\"", QKV_OK},
                      {"exclude_modules", "[\"experts.2.w1\"]", QKV_OK},
                      {"exclude_modules", "null", QKV_FORMAT}};
    for (size_t i = 0; i < TEST_COUNT(exceptions); i++) {
        change_settings(CASES "mixtral_modules/end", "adapter_bad", exceptions[i].key, exceptions[i].value);
        const enum qkv_status status = qkv_adapter_load(g.model, "adapter_bad");
        if (status != exceptions[i].status) fail_msg("settings %zu: status %d, %s", i, status, qkv_message(g.ctx));
        if (!status) assert_ok(g.ctx, qkv_adapter_remove(g.model));
    }
    golden_end(&g);
}

/* Where experts are one tensor, names of modules are those of others, such as the shared expert. */
static void modules_are_not_experts_in_one_tensor(void **state) {
    (void)state;
    struct golden g;
    golden_begin(&g, ONE_TENSOR, "end", true);
    assert_ok(g.ctx, qkv_adapter_remove(g.model));
    write_without(g.ctx, "mixtral", "mlp.experts.lora_", 4); /* the adapters of down */
    change_settings(CASES "mixtral/end", "adapter_bad", "target_modules", "[\"q_proj\", \"w2\"]");
    assert_ok(g.ctx, qkv_adapter_load(g.model, "adapter_bad"));
    golden_end(&g);
}

/* Writes the adapter of a case with a and b of the second tensor of experts exchanged. */
static void write_exchanged(struct qkv_context *ctx) {
    static const float zeros[16 * 12];
    struct qkv_tensors *from;
    struct qkv_array list[64];
    assert_ok(ctx, qkv_tensors_open(ctx, CASES "mixtral/end/" QKV_ADAPTER_WEIGHTS_FILE, &from));
    const size_t count = qkv_tensors_count(from);
    for (size_t i = 0; i < count; i++) {
        list[i] = *qkv_tensors_at(from, i);
        if (!strstr(list[i].name, "mlp.experts.lora_")) continue;
        const bool a = strstr(list[i].name, "lora_A");
        list[i].shape[0] = a ? 6 : 8, list[i].shape[1] = a ? 16 : 6;
        list[i].bytes = list[i].shape[0] * list[i].shape[1] * sizeof(float);
        list[i].dtype = QKV_F32;
        list[i].data = zeros;
    }
    assert_ok(ctx, qkv_tensors_write(ctx, "adapter_bad/" QKV_ADAPTER_WEIGHTS_FILE, list, count, NULL, 0));
    qkv_tensors_close(from);
}

/* PEFT before 0.19.1 exchanged a and b of experts in one tensor (out, in). Gate and up of this model are square: the
 * other tensor tells which way they are, else the version of PEFT. */
static void exchanged_experts_are_told_apart(void **state) {
    static const struct {
        const char *version; /* JSON */
        bool told;
    } versions[] = {{"\"0.21.2\"", true},     {"\"0.19.1\"", true},  {"\"0.19.1.dev0@abc\"", false},
                    {"\"0.19.0\"", false},    {"\"0.18.1\"", false}, {"null", false},
                    {"\"1.0\"", true},        {"\"0.20\"", true},    {"\"\"", false},
                    {"\"0.99999999\"", true}, {"\"unknown\"", false}};
    struct golden g;
    (void)state;
    golden_begin(&g, ONE_TENSOR, "end", true);
    assert_ok(g.ctx, qkv_adapter_remove(g.model));
    for (size_t i = 0; i < TEST_COUNT(versions); i++) {
        write_without(g.ctx, "mixtral", "no tensor has this", 0);
        change_settings(CASES "mixtral/end", "adapter_bad", "peft_version", versions[i].version);
        assert_ok(g.ctx, qkv_adapter_load(g.model, "adapter_bad"));
        assert_ok(g.ctx, qkv_adapter_remove(g.model));
        write_without(g.ctx, "mixtral", "mlp.experts.lora_", 4); /* the adapters of down, whose shapes tell */
        change_settings(CASES "mixtral/end", "adapter_bad", "peft_version", versions[i].version);
        const enum qkv_status status = qkv_adapter_load(g.model, "adapter_bad");
        if (status != (versions[i].told ? QKV_OK : QKV_FORMAT))
            fail_msg("%s: status %d, %s", versions[i].version, status, qkv_message(g.ctx));
        if (!status) assert_ok(g.ctx, qkv_adapter_remove(g.model));
        if (status) assert_non_null(strstr(qkv_message(g.ctx), "gate_up_proj may be exchanged, as PEFT before 0.19.1"));
    }
    assert_non_null(strstr(qkv_message(g.ctx), "(this file is of unknown)"));
    copy_settings("mixtral");
    write_exchanged(g.ctx);
    assert_int_equal(qkv_adapter_load(g.model, "adapter_bad"), QKV_FORMAT);
    assert_non_null(strstr(qkv_message(g.ctx), "down_proj are exchanged, as PEFT before 0.19.1 wrote them"));
    golden_end(&g);
}

/* PEFT has these routers as parameters: all-linear leaves them out, and patterns name the parameter. */
static void routers_are_parameters(void **state) {
    static const char *const models[] = {"gpt_oss_small", "deepseek_v2", "deepseek_v3_plain", "dots1", "glm4_moe"};
    struct qkv_context *ctx;
    (void)state;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    for (size_t i = 0; i < TEST_COUNT(models); i++) {
        const char *last = i ? "gate.weight" : "router.weight";
        struct qkv_model *model;
        char path[512], pattern[64];
        snprintf(path, sizeof path, TEST_SOURCE_DIR "/tests/golden/hf/%s", models[i]);
        assert_ok(ctx, qkv_model_load(ctx, path, &model));
        assert_ok(ctx, qkv_adapter_create(model, "rank=2", 1));
        for (size_t k = 0; k < model->adapter->part_count; k++)
            assert_true(model->adapter->base.list[model->adapter->adapted[k].weight].role != QKV_ROLE_ROUTER);
        assert_ok(ctx, qkv_adapter_remove(model));
        assert_ok(ctx, qkv_adapter_create(model, "rank=2,alpha=2,targets=router,o", 1));
        const size_t count = qkv_model_parameters(model);
        assert_ok(ctx, qkv_adapter_save(model, NULL, "adapter_router"));
        json_t *root = settings_of("adapter_router");
        assert_true(has_name(json_object_get(root, "target_parameters"), last));
        assert_int_equal(json_array_size(json_object_get(root, "target_modules")), 1);
        json_decref(root);
        assert_ok(ctx, qkv_adapter_remove(model));
        snprintf(pattern, sizeof pattern, "{\"%s\": 6}", last);
        change_settings("adapter_router", "adapter_router", "alpha_pattern", pattern);
        assert_ok(ctx, qkv_adapter_load(model, "adapter_router"));
        assert_int_equal(qkv_model_parameters(model), count);
        for (size_t k = 0; k < model->adapter->part_count; k++) {
            const struct qkv_adapted *adapted = &model->adapter->adapted[k];
            const bool router = model->adapter->base.list[adapted->weight].role == QKV_ROLE_ROUTER;
            assert_true(adapted->scale == (router ? 3 : 1));
        }
        qkv_model_free(model);
    }
    qkv_context_free(ctx);
}

/* One matrix that holds several weights has one adapter, with one name, or none. */
static void a_matrix_of_several_weights_has_one_adapter(void **state) {
    static const struct {
        const char *base, *targets, *says; /* says NULL: they get adapters of as many weights */
        size_t weights;
    } list[] = {{"gpt2", "targets=q,v", "several weights in one matrix", 0},
                {"gpt2", "targets=c_attn", NULL, 2 * 2},
                {"gpt2", "targets=v,q,k", NULL, 2 * 2},
                {"gpt2", "dora=true", NULL, 4 * 2 * 3},
                {"glm", "targets=up", "several weights in one matrix", 0},
                {"glm", "targets=gate_up_proj", NULL, 2 * 2},
                {"modernbert_first", "dora=true", NULL, 4 * 2 * 3},
                {"falcon_new", "targets=query_key_value", NULL, 2 * 2},
                {"gpt_oss_small", "rank=2", NULL, 2 * 2 * 4},
                {"gpt_oss_small", "targets=experts.up", "several weights in one matrix", 0},
                {"gpt_oss_small", "targets=experts.1.down", "one tensor of all 3 experts", 0},
                {"gpt_oss_small", "targets=gate,up,down", NULL, 2 * 2 * 2 * 3},
                {"granitemoe", "targets=experts.gate,experts.up", NULL, 2 * 2 * 4},
                {"llama4", "targets=experts.down", "another form", 0},
                {"mixtral_small", "targets=experts.1.up", NULL, 2 * 2},
                {"mixtral_small", "targets=w1,experts.down", NULL, 2 * 2 * 2 * 3},
                {"mixtral_small", "rank=2", NULL, 2 * 2 * (4 + 1 + 3 * 3)},
                {"mixtral_small", "dora=true", "cannot have an adapter with magnitudes", 0},
                {"mixtral_small", "dora=true,targets=q,router", NULL, 2 * 3 * 2},
                {"gpt_bigcode", "targets=c_attn,c_fc", NULL, 2 * 2}};
    struct qkv_context *ctx;
    (void)state;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    for (size_t i = 0; i < TEST_COUNT(list); i++) {
        struct qkv_model *model;
        char path[512];
        snprintf(path, sizeof path, TEST_SOURCE_DIR "/tests/golden/hf/%s", list[i].base);
        assert_ok(ctx, qkv_model_load(ctx, path, &model));
        const enum qkv_status status = qkv_adapter_create(model, list[i].targets, 1);
        assert_int_equal(status, list[i].says ? QKV_SPEC : QKV_OK);
        if (list[i].says) {
            assert_non_null(strstr(qkv_message(ctx), list[i].says));
            assert_null(model->adapter);
        } else {
            assert_int_equal(qkv_model_parameters(model), list[i].weights);
            assert_ok(ctx, qkv_adapter_save(model, NULL, "adapter_whole"));
            assert_ok(ctx, qkv_adapter_remove(model));
            assert_ok(ctx, qkv_adapter_load(model, "adapter_whole"));
            assert_int_equal(qkv_model_parameters(model), list[i].weights);
        }
        qkv_model_free(model);
    }
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_of_training_are_those_of_peft),
        cmocka_unit_test(logits_of_files_of_peft_are_equal),
        cmocka_unit_test(a_merged_adapter_gives_the_same_logits),
        cmocka_unit_test(files_are_written_as_they_were_read),
        cmocka_unit_test(bad_magnitudes_are_refused_by_name),
        cmocka_unit_test(bad_experts_are_refused_by_name),
        cmocka_unit_test(a_missing_expert_is_refused),
        cmocka_unit_test(modules_are_not_experts_in_one_tensor),
        cmocka_unit_test(exchanged_experts_are_told_apart),
        cmocka_unit_test(routers_are_parameters),
        cmocka_unit_test(a_matrix_of_several_weights_has_one_adapter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
