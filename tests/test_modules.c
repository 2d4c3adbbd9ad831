/* Modules against other programs: torch.nn in float64 (tests/golden/modules), and the golden cases of whole models. */
/* labels: numeric quick */
#include "test.h"

#include <glob.h>

#include "qkv.h"
#include "weights.h"

struct tolerance {
    double output, gradient, floor;
};
static const struct tolerance fp32 = {1e-5, 1e-4, 1e-6}, bf16 = {2e-2, 1e-1, 2e-2};

/* ---- files ------------------------------------------------------------------------------------------------------ */

static float *read_floats(const struct qkv_tensors *file, const char *name) {
    const struct qkv_array *a = qkv_tensors_find(file, name);
    if (!a) return NULL;
    float *out = malloc((qkv_array_elements(a) + 1) * sizeof *out);
    qkv_array_floats(a, out);
    return out;
}

/* (B,T,C) of a file; data NULL where it has none. The data are the caller's. */
static struct qkv_vectors read_vectors(const struct qkv_tensors *file, const char *name) {
    const struct qkv_array *a = qkv_tensors_find(file, name);
    if (!a) return (struct qkv_vectors){0};
    assert_int_equal(a->rank, 3);
    return (struct qkv_vectors){read_floats(file, name), a->shape[0], a->shape[1], a->shape[2]};
}

static const void *read_raw(const struct qkv_tensors *file, const char *name, enum qkv_dtype dtype) {
    const struct qkv_array *a = qkv_tensors_find(file, name);
    if (!a) return NULL;
    assert_int_equal(a->dtype, dtype);
    void *out = malloc(a->bytes + 1);
    memcpy(out, a->data, a->bytes);
    return out;
}

static struct qkv_vectors like(const struct qkv_vectors *v) {
    struct qkv_vectors out = *v;
    if (v->data) out.data = calloc(v->B * v->T * v->C, sizeof(float));
    return out;
}

/* Within a tolerance, or, where what is expected nearly cancels, within a small part of `whole`. */
static void expect(const struct qkv_tensors *file, const char *name, const float *got, double tolerance, double whole) {
    float *expected = read_floats(file, name);
    if (!expected) fail_msg("the case has no %s", name);
    const size_t n = qkv_array_elements(qkv_tensors_find(file, name));
    double difference = 0;
    for (size_t i = 0; i < n; i++) difference += pow((double)got[i] - (double)expected[i], 2);
    if (!(sqrt(difference) <= whole)) test_floats_close(got, expected, n, tolerance, name, __FILE__, __LINE__);
    free(expected);
}

static double gradient_norm(struct qkv_module *m) {
    double sum = 0;
    for (size_t i = 0; i < qkv_module_parameters(m); i++)
        for (size_t e = 0; e < qkv_array_elements(qkv_module_parameter(m, i)); e++)
            sum += pow((double)test_module_gradient(m, i)[e], 2);
    return sqrt(sum);
}

/* ---- torch.nn --------------------------------------------------------------------------------------------------- */

static enum qkv_module_kind kind_called(const char *name) {
#define KIND_NAME(kind, text, help) text,
    static const char *const names[] = {QKV_MODULE_LIST(KIND_NAME)};
#undef KIND_NAME
    for (size_t i = 0; i < TEST_COUNT(names); i++)
        if (strcmp(names[i], name) == 0) return (enum qkv_module_kind)i;
    fail_msg("there is no module \"%s\"", name);
    return QKV_MODULE_MODEL;
}

/* The file has every parameter, with its shape, and none besides. */
static void load_parameters(struct qkv_module *m, const struct qkv_tensors *file) {
    size_t there = 0;
    for (size_t i = 0; i < qkv_tensors_count(file); i++)
        there += strncmp(qkv_tensors_at(file, i)->name, "param.", 6) == 0;
    assert_int_equal(there, qkv_module_parameters(m));
    for (size_t i = 0; i < qkv_module_parameters(m); i++) {
        const struct qkv_array *p = qkv_module_parameter(m, i);
        char name[128];
        snprintf(name, sizeof name, "param.%s", p->name);
        const struct qkv_array *a = qkv_tensors_find(file, name);
        if (!a) fail_msg("the case has no %s", name);
        assert_int_equal(a->rank, p->rank);
        assert_memory_equal(a->shape, p->shape, (size_t)p->rank * sizeof *p->shape);
        qkv_array_floats(a, test_module_weights(m, i));
    }
}

static void torch_case(struct qkv_context *ctx, const char *path, const struct tolerance *t) {
    struct qkv_tensors *file;
    struct qkv_module *m;
    OWNED_SPEC struct qkv_spec spec = {0};
    assert_ok(ctx, qkv_tensors_open(ctx, path, &file));
    const char *json = qkv_tensors_metadata(file, "spec");
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, path, json, strlen(json), NULL, 0));
    struct qkv_module_options options = qkv_module_defaults();
    const char *keys = qkv_tensors_metadata(file, "key_width"), *values = qkv_tensors_metadata(file, "value_width");
    options.kind = kind_called(qkv_tensors_metadata(file, "kind"));
    options.key_width = keys ? strtoull(keys, NULL, 10) : 0;
    options.value_width = values ? strtoull(values, NULL, 10) : 0;
    assert_ok(ctx, qkv_module_create(ctx, &spec, &options, &m));
    load_parameters(m, file);
    struct qkv_module_input in = {.x = read_vectors(file, "in.x"),
                                  .memory = read_vectors(file, "in.memory"),
                                  .values = read_vectors(file, "in.values"),
                                  .train = true};
    const int32_t *lengths = read_raw(file, "in.lengths", QKV_I32), *starts = read_raw(file, "in.starts", QKV_I32),
                  *memory_lengths = read_raw(file, "in.memory_lengths", QKV_I32);
    const uint8_t *dense = read_raw(file, "in.dense", QKV_U8);
    float *bias = read_floats(file, "in.bias");
    const struct qkv_pair_shape shared = {1, 1, in.x.T, in.x.T, 0, 0, 0};
    in.self = (struct qkv_module_mask){.mask = {.lengths = lengths, .starts = starts},
                                       .dense = dense,
                                       .dense_shape = shared,
                                       .bias = bias,
                                       .bias_shape = shared};
    in.cross.mask.lengths = memory_lengths;
    struct qkv_vectors y = like(&in.x), dy = read_vectors(file, "in.dy");
    struct qkv_module_gradients g = {like(&in.x), like(&in.memory), like(&in.values)};
    assert_ok(ctx, qkv_module_forward(m, &in, y));
    expect(file, "out.y", y.data, t->output, 0);
    assert_ok(ctx, qkv_module_backward(m, dy, &g));
    const double whole = t->floor * gradient_norm(m);
    expect(file, "out.dx", g.x.data, t->gradient, whole);
    if (g.memory.data) expect(file, "out.dmemory", g.memory.data, t->gradient, whole);
    if (g.values.data) expect(file, "out.dvalues", g.values.data, t->gradient, whole);
    for (size_t i = 0; i < qkv_module_parameters(m); i++) {
        char name[128];
        snprintf(name, sizeof name, "grad.%s", qkv_module_parameter(m, i)->name);
        expect(file, name, test_module_gradient(m, i), t->gradient, whole);
    }
    in.train = false; /* without recording memory is given back on the way: the same numbers, and x stays */
    struct qkv_vectors again = like(&y);
    float *x = read_floats(file, "in.x");
    assert_ok(ctx, qkv_module_forward(m, &in, again));
    assert_memory_equal(again.data, y.data, y.B * y.T * y.C * sizeof(float));
    assert_memory_equal(x, in.x.data, y.B * y.T * y.C * sizeof(float));
    const void *all[] = {in.x.data, in.memory.data, in.values.data, lengths, starts,   memory_lengths,
                         dense,     bias,           y.data,         dy.data, g.x.data, g.memory.data,
                         x,         again.data,     g.values.data};
    for (size_t i = 0; i < TEST_COUNT(all); i++) free((void *)(uintptr_t)all[i]);
    qkv_module_free(m);
    qkv_tensors_close(file);
}

/* Post and pre norm, padding on the right and on the left, causal, dense and additive masks, a memory with padding,
 * separate values, keys and values of other widths. */
static void modules_give_the_values_of_torch(void **state) {
    (void)state;
    glob_t found;
    assert_int_equal(glob(TEST_SOURCE_DIR "/tests/golden/modules/*.safetensors", 0, NULL, &found), 0);
    assert_true(found.gl_pathc >= 11);
    for (size_t k = 0; qkv_isa_at(k); k++)
        for (int mixed = 0; mixed < 2; mixed++) {
            struct qkv_context_options options = {
                .size = sizeof options, .isa = qkv_isa_at(k), .precision = mixed ? QKV_MIXED_BF16 : QKV_FP32};
            struct qkv_context *ctx;
            assert_int_equal(qkv_context_create(&ctx, &options), QKV_OK);
            for (size_t i = 0; i < found.gl_pathc; i++) {
                print_message("%s %s: %s\n", options.isa, mixed ? "bf16" : "fp32", strrchr(found.gl_pathv[i], '/') + 1);
                torch_case(ctx, found.gl_pathv[i], mixed ? &bf16 : &fp32);
            }
            qkv_context_free(ctx);
        }
    globfree(&found);
}

/* ---- golden models ---------------------------------------------------------------------------------------------- */

/* The gradient of the mean cross entropy by the logits, from the file's own logits. */
static void cross_entropy_gradient(const struct qkv_tensors *file, const int32_t *targets, const int32_t *lengths,
                                   struct qkv_vectors *dy) {
    float *logits = read_floats(file, "out.logits");
    size_t counted = 0;
    for (int pass = 0; pass < 2; pass++)
        for (size_t n = 0; n < dy->B * dy->T; n++) {
            const bool padding = dy->T > 1 && lengths && (int32_t)(n % dy->T) >= lengths[n / dy->T];
            if (padding || targets[n] == QKV_IGNORE) continue;
            if (pass == 0) {
                counted++;
                continue;
            }
            const float *row = logits + n * dy->C;
            double most = -INFINITY, sum = 0;
            for (size_t c = 0; c < dy->C; c++) most = fmax(most, (double)row[c]);
            for (size_t c = 0; c < dy->C; c++) sum += exp((double)row[c] - most);
            for (size_t c = 0; c < dy->C; c++)
                dy->data[n * dy->C + c] =
                    (float)((exp((double)row[c] - most) / sum - ((int32_t)c == targets[n] ? 1 : 0)) / (double)counted);
        }
    free(logits);
}

/* Whether gradients of the case are of losses of routers too, which a module has not. */
static bool routers_lose(const struct qkv_spec *spec) {
    const struct qkv_stack_spec *const stacks[] = {&spec->encoder, &spec->decoder};
    for (size_t i = 0; i < 2; i++)
        for (size_t layer = 0; layer < (size_t)stacks[i]->layers; layer++) {
            const struct qkv_experts_spec *e = &qkv_stack_layer(stacks[i], layer)->ffn.experts;
            if (e->given && (e->balance_loss > 0 || e->z_loss > 0)) return true;
        }
    return false;
}

static void golden_case(struct qkv_context *ctx, const char *path, const struct tolerance *t) {
    struct qkv_tensors *file;
    struct qkv_model *model;
    struct qkv_module *m;
    char folder[600];
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    assert_ok(ctx, qkv_tensors_open(ctx, path, &file));
    static const char *const of_passes[] = {"in.pixels", "in.features", "in.vectors"}; /* modules read tokens alone */
    for (size_t i = 0; i < TEST_COUNT(of_passes); i++)
        if (qkv_tensors_find(file, of_passes[i])) {
            qkv_tensors_close(file);
            return;
        }
    assert_ok(ctx, qkv_model_load(ctx, folder, &model));
    assert_ok(ctx, qkv_module_of_model(model, "", &m));
    assert_int_equal(qkv_module_kind(m), QKV_MODULE_MODEL);
    assert_int_equal(qkv_module_parameters(m), qkv_model_parameters(model));
    const struct qkv_array *ids = qkv_tensors_find(file, "in.ids"), *source = qkv_tensors_find(file, "in.source");
    const bool hidden = qkv_tensors_find(file, "out.hidden") != NULL;
    const struct qkv_array *out = qkv_tensors_find(file, hidden ? "out.hidden" : "out.logits");
    const int32_t *lengths = read_raw(file, "in.lengths", QKV_I32), *targets = read_raw(file, "in.targets", QKV_I32),
                  *source_lengths = read_raw(file, "in.source_lengths", QKV_I32);
    struct qkv_module_input in = {.ids = read_raw(file, "in.ids", QKV_I32),
                                  .source = read_raw(file, "in.source", QKV_I32),
                                  .types = read_raw(file, "in.token_types", QKV_I32),
                                  .source_types = read_raw(file, "in.source_token_types", QKV_I32),
                                  .x = {.B = ids->shape[0], .T = ids->shape[1]},
                                  .length = ids->shape[1], /* as the reference decides rotations */
                                  .source_length = source ? source->shape[1] : 0,
                                  .self.mask.lengths = lengths,
                                  .cross.mask.lengths = source_lengths,
                                  .source_self.mask.lengths = source_lengths,
                                  .train = true};
    if (source) in.memory = (struct qkv_vectors){NULL, source->shape[0], source->shape[1], 0};
    struct qkv_vectors shape = {NULL, in.x.B, out->rank == 3 ? out->shape[1] : 1, out->shape[out->rank - 1]};
    struct qkv_vectors y = shape, dy = shape;
    y.data = calloc(y.B * y.T * y.C, sizeof(float));
    dy.data = hidden ? read_floats(file, "in.output_gradient") : calloc(y.B * y.T * y.C, sizeof(float));
    assert_ok(ctx, qkv_module_forward(m, &in, y));
    expect(file, hidden ? "out.hidden" : "out.logits", y.data, t->output, 0);
    if (!hidden) cross_entropy_gradient(file, targets, lengths, &dy);
    assert_ok(ctx, qkv_module_backward(m, dy, NULL));
    for (size_t i = 0; i < qkv_module_parameters(m) && !routers_lose(qkv_model_spec(model)); i++) {
        char name[200];
        snprintf(name, sizeof name, "grad.%s", qkv_module_parameter(m, i)->name);
        expect(file, name, test_module_gradient(m, i), t->gradient, t->floor * gradient_norm(m));
    }
    const void *all[] = {lengths,  targets,         source_lengths, in.ids, in.source,
                         in.types, in.source_types, y.data,         dy.data};
    for (size_t i = 0; i < TEST_COUNT(all); i++) free((void *)(uintptr_t)all[i]);
    qkv_module_free(m);
    qkv_model_free(model);
    qkv_tensors_close(file);
}

static void a_model_as_a_module_gives_the_golden_values(void **state) {
    (void)state;
    glob_t found;
    assert_int_equal(glob(TEST_SOURCE_DIR "/tests/golden/*/case.safetensors", 0, NULL, &found), 0);
    for (int mixed = 0; mixed < 2; mixed++) {
        struct qkv_context_options options = {.size = sizeof options, .precision = mixed ? QKV_MIXED_BF16 : QKV_FP32};
        struct qkv_context *ctx;
        assert_int_equal(qkv_context_create(&ctx, &options), QKV_OK);
        for (size_t i = 0; i < found.gl_pathc; i++) {
            print_message("%s: %s\n", mixed ? "bf16" : "fp32", found.gl_pathv[i]);
            golden_case(ctx, found.gl_pathv[i], mixed ? &bf16 : &fp32);
        }
        qkv_context_free(ctx);
    }
    globfree(&found);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modules_give_the_values_of_torch),
        cmocka_unit_test(a_model_as_a_module_gives_the_golden_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
