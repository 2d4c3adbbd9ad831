/* Adapters in GGUF files: an adapter that PEFT trained, written as a GGUF file and read again, over the folder and over
 * the GGUF file of its model, gives the logits of PEFT (tests/golden/adapter). */
/* labels: numeric */
#include "test.h"

#include "io/adapter_files.h"
#include "io/gguf_write.h"

#define CASES TEST_SOURCE_DIR "/tests/golden/adapter/"
enum { B = 3, T = 10 };

/* LLaMA's files permute the rows of q and k; the adapter of qwen3 has several ranks and scales; no
 * architecture has the head of bert, so that its names are ours. GPT-2 has one adapter of q, k and v. */
static const struct {
    const char *name, *base, *architecture;
} cases[] = {{"llama", TEST_SOURCE_DIR "/tests/golden/hf/llama_bf16", "llama"},
             {"qwen3", CASES "qwen3/base", "qwen3"},
             {"bert", CASES "bert/base", "qkv"},
             {"gpt2", TEST_SOURCE_DIR "/tests/golden/hf/gpt2", "gpt2"}};
enum { GPT2 = 3 };

static void check_logits(struct qkv_model *model, size_t i, double limit) {
    struct qkv_context *ctx = qkv_model_context(model);
    char path[512];
    struct qkv_tensors *file;
    struct qkv_pass *pass;
    snprintf(path, sizeof path, CASES "%s/case.safetensors", cases[i].name);
    assert_ok(ctx, qkv_tensors_open(ctx, path, &file));
    assert_ok(ctx, qkv_pass_create(model, &QKV_OPTIONS(qkv_pass_options, .B = B, .T = T, .logits = true), &pass));
    const struct qkv_batch batch = {.B = B, .T = T, .ids = qkv_tensors_find(file, "in.ids")->data};
    assert_ok(ctx, qkv_pass_forward(pass, &batch));
    const struct qkv_array have = qkv_pass_output(pass), *want = qkv_tensors_find(file, "out.logits");
    double error = 0, norm = 0;
    assert_int_equal(qkv_array_elements(&have), qkv_array_elements(want));
    for (size_t k = 0; k < qkv_array_elements(want); k++) {
        const double a = (double)((const float *)have.data)[k], b = (double)((const float *)want->data)[k];
        error += (a - b) * (a - b);
        norm += b * b;
    }
    if (!(sqrt(error) <= limit * sqrt(norm))) fail_msg("%s: %g of %g", cases[i].name, sqrt(error), sqrt(norm));
    qkv_pass_free(pass);
    qkv_tensors_close(file);
}

static struct qkv_context *context_fp32(void) {
    struct qkv_context *ctx;
    assert_int_equal(qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, .precision = QKV_FP32)), QKV_OK);
    return ctx;
}

/* The adapter of PEFT as a GGUF file. */
static void export_case(struct qkv_model *model, size_t i, const char *format, const char *path) {
    struct qkv_context *ctx = qkv_model_context(model);
    struct qkv_gguf_notes *notes;
    char from[512];
    snprintf(from, sizeof from, CASES "%s/end", cases[i].name);
    assert_ok(ctx, qkv_adapter_load(model, from));
    assert_ok(ctx, qkv_adapter_export_gguf(model, NULL, format, path, &notes));
    assert_string_equal(qkv_gguf_notes_architecture(notes), cases[i].architecture);
    assert_string_equal(qkv_gguf_notes_format(notes), format);
    qkv_gguf_notes_free(notes);
    assert_ok(ctx, qkv_adapter_remove(model));
}

static void logits_of_a_written_adapter_are_those_of_peft(void **state) {
    static const struct {
        const char *format;
        double limit;
    } formats[] = {{"f32", 1e-5}, {"f16", 1e-3}, {"bf16", 1e-2}};
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qkv_context *ctx = context_fp32();
        struct qkv_model *model, *file;
        char path[64], base[64];
        snprintf(base, sizeof base, "gguf_base_%s.gguf", cases[i].name);
        assert_ok(ctx, qkv_model_load(ctx, cases[i].base, &model));
        assert_ok(ctx, qkv_model_export_gguf(model, NULL, base, NULL));
        assert_ok(ctx, qkv_model_load(ctx, base, &file));
        for (size_t k = 0; k < TEST_COUNT(formats); k++) {
            snprintf(path, sizeof path, "gguf_%s_%s.gguf", cases[i].name, formats[k].format);
            export_case(model, i, formats[k].format, path);
            assert_ok(ctx, qkv_adapter_load(model, path));
            check_logits(model, i, formats[k].limit);
            assert_ok(ctx, qkv_adapter_remove(model));
            assert_ok(ctx, qkv_adapter_load(file, path));
            check_logits(file, i, formats[k].limit);
            assert_ok(ctx, qkv_adapter_remove(file));
        }
        qkv_model_free(file);
        qkv_model_free(model);
        qkv_context_free(ctx);
    }
}

static void assert_same_files(struct qkv_context *ctx, const char *one, const char *other) {
    struct qkv_tensors *a, *b;
    assert_ok(ctx, qkv_tensors_open(ctx, one, &a));
    assert_ok(ctx, qkv_tensors_open(ctx, other, &b));
    assert_int_equal(qkv_tensors_count(a), qkv_tensors_count(b));
    for (size_t k = 0; k < qkv_tensors_count(a); k++) {
        const struct qkv_array *x = qkv_tensors_at(a, k), *y = qkv_tensors_find(b, x->name);
        assert_non_null(y);
        assert_int_equal(x->bytes, y->bytes);
        assert_memory_equal(x->data, y->data, x->bytes);
    }
    qkv_tensors_close(a);
    qkv_tensors_close(b);
}

/* A file of an adapter that was read from a GGUF file is that of PEFT again. */
static void a_folder_of_peft_comes_back_from_a_file(void **state) {
    static const size_t which[] = {0, GPT2};
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(which); i++) {
        struct qkv_context *ctx = context_fp32();
        struct qkv_model *model;
        char path[512];
        assert_ok(ctx, qkv_model_load(ctx, cases[which[i]].base, &model));
        export_case(model, which[i], "f32", "gguf_back.gguf");
        assert_ok(ctx, qkv_adapter_load(model, "gguf_back.gguf"));
        assert_ok(ctx, qkv_adapter_save(model, "base", "gguf_back"));
        snprintf(path, sizeof path, CASES "%s/end/" QKV_ADAPTER_WEIGHTS_FILE, cases[which[i]].name);
        assert_same_files(ctx, path, "gguf_back/" QKV_ADAPTER_WEIGHTS_FILE);
        qkv_model_free(model);
        qkv_context_free(ctx);
    }
}

/* The adapter of q, k and v in one matrix, in a file that has the three apart: q, k and v have the same a there. */
static void an_adapter_of_one_matrix_is_divided(void **state) {
    (void)state;
    struct qkv_context *ctx = context_fp32();
    struct qkv_model *model;
    struct qkv_tensors *tensors;
    struct qkv_gguf *keys;
    static const char *const names[] = {"q", "k", "v"};
    char path[512];
    assert_ok(ctx, qkv_model_load(ctx, cases[GPT2].base, &model));
    assert_ok(ctx, qkv_adapter_load(model, CASES "gpt2/end"));
    assert_ok(ctx, qkv_adapter_export_gguf(model, "qkv", "f32", "gguf_divided.gguf", NULL));
    assert_ok(ctx, qkv_adapter_remove(model));
    assert_ok(ctx, qkv_gguf_open(ctx, "gguf_divided.gguf", &keys, &tensors));
    const struct qkv_array *first = NULL;
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        snprintf(path, sizeof path, "decoder.layers.1.attn.%s.weight.lora_a", names[i]);
        const struct qkv_array *a = qkv_tensors_find(tensors, path);
        assert_non_null(a);
        if (!first) first = a;
        assert_int_equal(a->bytes, first->bytes);
        assert_memory_equal(a->data, first->data, a->bytes);
    }
    assert_ok(ctx, qkv_adapter_load(model, "gguf_divided.gguf"));
    check_logits(model, GPT2, 1e-5);
    assert_int_equal(qkv_adapter_save(model, NULL, "gguf_divided"), QKV_SPEC); /* three adapters of one matrix */
    assert_non_null(strstr(qkv_message(ctx), "several weights in one matrix"));
    qkv_gguf_free(keys);
    qkv_tensors_close(tensors);
    qkv_model_free(model);
    qkv_context_free(ctx);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* The tensors of a GGUF file, of a model in f32 or of an adapter. */
struct raw {
    struct qkv_gguf *keys;
    struct qkv_tensors *tensors;
};

static struct raw raw_open(struct qkv_context *ctx, const char *path) {
    struct raw raw;
    assert_ok(ctx, qkv_gguf_open(ctx, path, &raw.keys, &raw.tensors));
    return raw;
}

static void raw_close(struct raw *raw) {
    qkv_gguf_free(raw->keys);
    qkv_tensors_close(raw->tensors);
}

/* Of one matrix: what merging has added is the product of the adapter's matrices of the file, row by row. Gives the
 * largest number that was added. */
static double check_rows(const struct qkv_array *base, const struct qkv_array *merged, const struct qkv_array *a,
                         const struct qkv_array *b, double scale) {
    const float *before = base->data, *after = merged->data, *x = a->data, *y = b->data;
    const size_t rows = (size_t)base->shape[0], columns = (size_t)base->shape[1], rank = (size_t)a->shape[0];
    double most = 0;
    assert_int_equal(a->shape[1], columns);
    assert_int_equal(b->shape[0], rows);
    assert_int_equal(b->shape[1], rank);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++) {
            double sum = 0;
            for (size_t r = 0; r < rank; r++) sum += (double)y[i * rank + r] * (double)x[r * columns + j];
            const double have = (double)after[i * columns + j] - (double)before[i * columns + j];
            if (!(fabs(have - scale * sum) <= 1e-5))
                fail_msg("%s at %zu, %zu: %g was added, not %g", base->name, i, j, have, scale * sum);
            most = fmax(most, fabs(have));
        }
    return most;
}

/* Programs that read GGUF files add the product to the matrix of the model's file. */
static void rows_of_an_adapter_are_those_of_its_model(void **state) {
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qkv_context *ctx = context_fp32();
        struct qkv_model *model;
        char path[512];
        size_t found = 0;
        assert_ok(ctx, qkv_model_load(ctx, cases[i].base, &model));
        assert_ok(
            ctx, qkv_model_export_gguf(model, &QKV_OPTIONS(qkv_gguf_options, .format = "f32"), "rows_base.gguf", NULL));
        export_case(model, i, "f32", "rows_adapter.gguf");
        snprintf(path, sizeof path, CASES "%s/end", cases[i].name);
        assert_ok(ctx, qkv_adapter_load(model, path));
        assert_ok(ctx, qkv_adapter_merge(model));
        assert_ok(ctx, qkv_model_export_gguf(model, &QKV_OPTIONS(qkv_gguf_options, .format = "f32"), "rows_merged.gguf",
                                             NULL));
        struct raw base = raw_open(ctx, "rows_base.gguf"), merged = raw_open(ctx, "rows_merged.gguf"),
                   adapter = raw_open(ctx, "rows_adapter.gguf");
        const double alpha = qkv_gguf_number(adapter.keys, qkv_gguf_find(adapter.keys, "adapter.lora.alpha"), 0);
        for (size_t k = 0; k < qkv_tensors_count(base.tensors); k++) {
            const struct qkv_array *x = qkv_tensors_at(base.tensors, k), *a, *b;
            snprintf(path, sizeof path, "%s.lora_a", x->name);
            a = qkv_tensors_find(adapter.tensors, path);
            snprintf(path, sizeof path, "%s.lora_b", x->name);
            b = qkv_tensors_find(adapter.tensors, path);
            if (!a || !b) continue;
            assert_true(check_rows(x, qkv_tensors_find(merged.tensors, x->name), a, b, alpha / (double)a->shape[0]) >
                        1e-3);
            found++;
        }
        assert_int_equal(2 * found, qkv_tensors_count(adapter.tensors));
        assert_true(found > 0);
        raw_close(&base), raw_close(&merged), raw_close(&adapter);
        qkv_model_free(model);
        qkv_context_free(ctx);
    }
}

static void magnitudes_are_refused(void **state) {
    (void)state;
    struct qkv_context *ctx = context_fp32();
    struct qkv_model *model;
    assert_ok(ctx, qkv_model_load(ctx, cases[0].base, &model));
    assert_ok(ctx, qkv_adapter_load(model, CASES "llama_dora/end"));
    assert_int_equal(qkv_adapter_export_gguf(model, NULL, "f32", "gguf_dora.gguf", NULL), QKV_SPEC);
    assert_non_null(strstr(qkv_message(ctx), "magnitudes"));
    qkv_model_free(model);
    qkv_context_free(ctx);
}

/* ---- matrices that join weights ---------------------------------------------------------------------------------- */

/* Logits of some tokens, for the caller to free. */
static float *logits_of(struct qkv_model *model, size_t *count) {
    struct qkv_context *ctx = qkv_model_context(model);
    struct qkv_pass *pass;
    int32_t ids[B * T];
    for (int i = 0; i < B * T; i++) ids[i] = (7 * i + 3) % 20;
    assert_ok(ctx, qkv_pass_create(model, &QKV_OPTIONS(qkv_pass_options, .B = B, .T = T, .logits = true), &pass));
    assert_ok(ctx, qkv_pass_forward(pass, &(struct qkv_batch){.B = B, .T = T, .ids = ids}));
    const struct qkv_array have = qkv_pass_output(pass);
    *count = qkv_array_elements(&have);
    float *copy = malloc(*count * sizeof *copy);
    memcpy(copy, have.data, *count * sizeof *copy);
    qkv_pass_free(pass);
    return copy;
}

/* The b of an adapter, which begin with zeros, get numbers. */
static void adapter_fill(struct qkv_model *model) {
    struct qkv_random random = qkv_random_start(11, 0);
    for (size_t i = 0; i < model->weights.count; i++) {
        struct qkv_weight *w = &model->weights.list[i];
        for (size_t k = 0; k < w->rows * w->columns; k++) w->data[k] = (float)(0.2 * qkv_random_normal(&random));
        qkv_weight_changed(&model->weights, i);
    }
}

#define PARTS "rank=3,alpha=5,rslora=true,targets=q,v,down"

static void check_same(struct qkv_model *model, const float *want, size_t n, const char *what) {
    size_t m;
    float *have = logits_of(model, &m);
    double error = 0, norm = 0;
    assert_int_equal(m, n);
    for (size_t k = 0; k < n; k++) {
        error += pow((double)have[k] - (double)want[k], 2);
        norm += pow((double)want[k], 2);
    }
    if (!(sqrt(error) <= 1e-5 * sqrt(norm))) fail_msg("%s: %g of %g", what, sqrt(error), sqrt(norm));
    free(have);
}

/* Adapters of a model of no family, of q and v apart, are written as those of a family, and read over the model, over
 * the GGUF file and over the folder of the family. GPT-2 has q, k and v in one matrix; so has GLM gates and ups. */
static void adapters_of_parts_are_joined(void **state) {
    static const struct {
        const char *folder, *family, *settings, *tensor;
        size_t rank; /* of the tensor */
    } models[] = {{"gpt2", "gpt2", PARTS, "blk.0.attn_qkv", 6},
                  {"glm4", "glm4", "rank=3,targets=gate,up,down", "blk.0.ffn_up", 6},
                  {"arcee", "arcee", PARTS, "blk.0.attn_q", 3},
                  {"olmo", "olmo", PARTS, "blk.0.attn_v", 3},
                  {"stablelm", "stablelm", PARTS, "blk.1.attn_q", 3},
                  {"llama_sharded", "llama", PARTS, "blk.0.attn_q", 3}};
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(models); i++) {
        struct qkv_context *ctx = context_fp32();
        struct qkv_model *published, *model, *file;
        struct qkv_gguf_notes *notes;
        struct qkv_tensors *tensors;
        struct qkv_gguf *keys;
        char path[512];
        size_t n;
        snprintf(path, sizeof path, TEST_SOURCE_DIR "/tests/golden/hf/%s", models[i].folder);
        assert_ok(ctx, qkv_model_load(ctx, path, &published));
        assert_ok(ctx, qkv_model_export(published, "f32", "gguf_own"));
        assert_ok(ctx, qkv_model_export_gguf(published, NULL, "gguf_joined_base.gguf", NULL));
        assert_ok(ctx, qkv_model_load(ctx, "gguf_own", &model));
        assert_ok(ctx, qkv_model_load(ctx, "gguf_joined_base.gguf", &file));
        assert_ok(ctx, qkv_adapter_create(model, models[i].settings, 3));
        adapter_fill(model);
        float *want = logits_of(model, &n);
        assert_ok(ctx, qkv_adapter_export_gguf(model, models[i].family, "f32", "gguf_joined.gguf", &notes));
        assert_ok(ctx, qkv_gguf_open(ctx, "gguf_joined.gguf", &keys, &tensors));
        snprintf(path, sizeof path, "%s.weight.lora_a", models[i].tensor);
        const struct qkv_array *a = qkv_tensors_find(tensors, path);
        assert_non_null(a);
        assert_int_equal(a->shape[0], models[i].rank);
        assert_ok(ctx, qkv_adapter_remove(model));
        struct qkv_model *const readers[] = {model, file, published};
        for (size_t k = 0; k < TEST_COUNT(readers); k++) {
            assert_ok(ctx, qkv_adapter_load(readers[k], "gguf_joined.gguf"));
            check_same(readers[k], want, n, models[i].folder);
        }
        free(want);
        qkv_gguf_notes_free(notes);
        qkv_gguf_free(keys);
        qkv_tensors_close(tensors);
        qkv_model_free(file);
        qkv_model_free(model);
        qkv_model_free(published);
        qkv_context_free(ctx);
    }
}

/* ---- bad files --------------------------------------------------------------------------------------------------- */

struct bad {
    const char *says; /* a part of the sentence */
    enum qkv_status status;
    const char *architecture, *type, *kind, *a, *b, *more;
    double alpha;
    size_t rank, columns, rows, up; /* of a, and of b */
    bool without_alpha, number_text;
    enum qkv_dtype dtype; /* of both; 0: f32 */
};
#define Q       "blk.0.attn_q.weight"
#define GOOD    .architecture = "llama", .type = "adapter", .kind = "lora", .alpha = 4
#define GOOD_AB .a = Q ".lora_a", .b = Q ".lora_b"

/* JSON has no number that is not finite, so that the bytes of one take the place of another number. */
static void put_alpha(struct qkv_gguf_writer *w, double alpha) {
    const float x = (float)alpha;
    json_t *value = json_real(1.5);
    qkv_gguf_put_json(w, "adapter.lora.alpha", value);
    memcpy(w->keys.data + w->keys.size - sizeof x, &x, sizeof x);
    json_decref(value);
}

static void bad_write(struct qkv_context *ctx, const struct bad *bad, const char *path) {
    struct qkv_gguf_writer w = {.ctx = ctx, .path = path};
    static const unsigned char zeros[1 << 14];
    const enum qkv_dtype dtype = bad->dtype ? bad->dtype : QKV_F32;
    qkv_gguf_put_text(&w, "general.architecture", bad->architecture, strlen(bad->architecture));
    qkv_gguf_put_text(&w, "general.type", bad->type, strlen(bad->type));
    qkv_gguf_put_text(&w, "adapter.type", bad->kind, strlen(bad->kind));
    if (bad->more) qkv_gguf_put_u32(&w, bad->more, 3);
    if (bad->number_text)
        qkv_gguf_put_text(&w, "adapter.lora.alpha", "4", 1);
    else if (!bad->without_alpha)
        put_alpha(&w, bad->alpha);
    const char *const names[] = {bad->a, bad->b};
    const size_t shapes[2][2] = {{bad->rank, bad->columns}, {bad->rows, bad->up}};
    for (size_t i = 0; i < 2; i++)
        if (names[i])
            qkv_gguf_put_tensor(
                &w, &(struct qkv_array){
                        .name = names[i], .dtype = dtype, .rank = 2, .shape = {shapes[i][0], shapes[i][1]}});
    qkv_gguf_begin_data(&w);
    for (size_t i = 0; i < 2; i++) {
        if (!names[i]) continue;
        const size_t bytes = qkv_type_span(dtype, shapes[i][0] * shapes[i][1]);
        assert_true(bytes <= sizeof zeros);
        qkv_gguf_write_data(&w, zeros, bytes);
        qkv_gguf_end_tensor(&w);
    }
    assert_ok(ctx, qkv_gguf_commit(&w));
    qkv_gguf_writer_free(&w);
}

static void bad_files_are_refused_by_name(void **state) {
    (void)state;
    struct qkv_context *ctx = context_fp32();
    struct qkv_model *model;
    assert_ok(ctx, qkv_model_load(ctx, cases[0].base, &model));
    const struct qkv_weight *q = &model->weights.list[0];
    for (size_t i = 0; i < model->weights.count; i++)
        if (!strcmp(model->weights.list[i].array.name, "decoder.layers.0.attn.q.weight")) q = &model->weights.list[i];
    const size_t in = q->columns, out = q->rows;
    const struct bad list[] = {
        {NULL, QKV_OK, GOOD, GOOD_AB, .rank = 2, .columns = in, .rows = out, .up = 2},
        {NULL, QKV_OK, GOOD, GOOD_AB, .rank = 32, .columns = in, .rows = out, .up = 32, .dtype = QKV_Q8_0},
        {Q ".lora_a is of type i32", QKV_FORMAT, GOOD, GOOD_AB, .rank = 2, .columns = in, .rows = out, .up = 2,
         .dtype = QKV_I32},
        {"general.architecture is \"qwen3\"", QKV_SPEC, .architecture = "qwen3", .type = "adapter", .kind = "lora",
         .alpha = 4, GOOD_AB, .rank = 2, .columns = in, .rows = out, .up = 2},
        {"general.architecture is \"nothing\"", QKV_SPEC, .architecture = "nothing", .type = "adapter", .kind = "lora",
         .alpha = 4, GOOD_AB, .rank = 2, .columns = in, .rows = out, .up = 2},
        {"general.type is \"model\"", QKV_FORMAT, .architecture = "llama", .type = "model", .kind = "lora", .alpha = 4,
         GOOD_AB, .rank = 2, .columns = in, .rows = out, .up = 2},
        {"adapter.type is \"control\"", QKV_FORMAT, .architecture = "llama", .type = "adapter", .kind = "control",
         .alpha = 4, GOOD_AB, .rank = 2, .columns = in, .rows = out, .up = 2},
        {"adapter.alora.invocation_tokens", QKV_SPEC, GOOD, GOOD_AB, .more = "adapter.alora.invocation_tokens",
         .rank = 2, .columns = in, .rows = out, .up = 2},
        {"split.count", QKV_FORMAT, GOOD, GOOD_AB, .more = "split.count", .rank = 2, .columns = in, .rows = out,
         .up = 2},
        {"adapter.lora.alpha", QKV_FORMAT, GOOD, GOOD_AB, .without_alpha = true, .rank = 2, .columns = in, .rows = out,
         .up = 2},
        {"adapter.lora.alpha", QKV_FORMAT, GOOD, GOOD_AB, .number_text = true, .rank = 2, .columns = in, .rows = out,
         .up = 2},
        {"adapter.lora.alpha is nan", QKV_FORMAT, .architecture = "llama", .type = "adapter", .kind = "lora",
         .alpha = (double)NAN, GOOD_AB, .rank = 2, .columns = in, .rows = out, .up = 2},
        {"adapter.lora.alpha is inf", QKV_FORMAT, .architecture = "llama", .type = "adapter", .kind = "lora",
         .alpha = (double)INFINITY, GOOD_AB, .rank = 2, .columns = in, .rows = out, .up = 2},
        {"need (2, ", QKV_SHAPE, GOOD, GOOD_AB, .rank = 2, .columns = in + 1, .rows = out, .up = 2},
        {Q ".lora_b", QKV_SHAPE, GOOD, GOOD_AB, .rank = 2, .columns = in, .rows = out + 1, .up = 2},
        {Q ".lora_b", QKV_SHAPE, GOOD, GOOD_AB, .rank = 2, .columns = in, .rows = out, .up = 3},
        {"has lora_A of blk.0.attn_q, but not lora_B", QKV_FORMAT, GOOD, .a = Q ".lora_a", .rank = 2, .columns = in},
        {"has lora_B of blk.0.attn_q, but not lora_A", QKV_FORMAT, GOOD, .b = Q ".lora_b", .rows = out, .up = 2},
        {"blk.0.nothing.weight.lora_a", QKV_SPEC, GOOD, .a = "blk.0.nothing.weight.lora_a",
         .b = "blk.0.nothing.weight.lora_b", .rank = 2, .columns = in, .rows = out, .up = 2},
        {"token_embd", QKV_SPEC, GOOD, .a = "token_embd.weight.lora_a", .b = "token_embd.weight.lora_b", .rank = 2,
         .columns = in, .rows = out, .up = 2},
        {"adapters of experts are not read from GGUF files", QKV_SPEC, GOOD, .a = "blk.0.ffn_up_exps.weight.lora_a",
         .b = "blk.0.ffn_up_exps.weight.lora_b", .rank = 2, .columns = in, .rows = out, .up = 2},
        {"has no tensors", QKV_FORMAT, GOOD},
    };
    for (size_t i = 0; i < TEST_COUNT(list); i++) {
        bad_write(ctx, &list[i], "gguf_bad.gguf");
        const enum qkv_status status = qkv_adapter_load(model, "gguf_bad.gguf");
        if (status != list[i].status) fail_msg("file %zu: status %d, %s", i, status, qkv_message(ctx));
        if (status && !strstr(qkv_message(ctx), list[i].says)) fail_msg("file %zu: %s", i, qkv_message(ctx));
        if (status)
            assert_null(model->adapter);
        else
            assert_ok(ctx, qkv_adapter_remove(model));
    }
    qkv_model_free(model);
    qkv_context_free(ctx);
}

/* Some bytes of the head of a good file are others: a status, and no adapter after a failure. */
static void damaged_files_give_a_status(void **state) {
    struct qkv_context *ctx = context_fp32();
    struct qkv_random random = test_random(1);
    struct qkv_model *model;
    unsigned char bytes[1 << 15], bad[sizeof bytes];
    size_t refused = 0;
    (void)state;
    assert_ok(ctx, qkv_model_load(ctx, cases[0].base, &model));
    export_case(model, 0, "f16", "gguf_damage.gguf");
    FILE *file = fopen("gguf_damage.gguf", "rb");
    assert_non_null(file);
    const size_t n = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    assert_true(n > 1000 && n < sizeof bytes);
    for (int i = 0; i < 300; i++) {
        memcpy(bad, bytes, n);
        const size_t cut = i % 10 ? n : (size_t)qkv_random_below(&random, n);
        for (int k = 0; k < 1 + i % 3; k++)
            bad[qkv_random_below(&random, 900)] = (unsigned char)qkv_random_below(&random, 256);
        file = fopen("gguf_damage.gguf", "wb");
        assert_int_equal(fwrite(bad, 1, cut, file), cut);
        fclose(file);
        const enum qkv_status status = qkv_adapter_load(model, "gguf_damage.gguf");
        refused += status ? 1 : 0;
        if (status && model->adapter) fail_msg("file %d has left an adapter after %s", i, qkv_message(ctx));
        if (!status) assert_ok(ctx, qkv_adapter_remove(model));
    }
    assert_true(refused > 100);
    qkv_model_free(model);
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_of_a_written_adapter_are_those_of_peft),
        cmocka_unit_test(a_folder_of_peft_comes_back_from_a_file),
        cmocka_unit_test(an_adapter_of_one_matrix_is_divided),
        cmocka_unit_test(rows_of_an_adapter_are_those_of_its_model),
        cmocka_unit_test(magnitudes_are_refused),
        cmocka_unit_test(adapters_of_parts_are_joined),
        cmocka_unit_test(bad_files_are_refused_by_name),
        cmocka_unit_test(damaged_files_give_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
