/* Whole models against the golden cases: folders with the inputs, outputs, gradients, attention weights and AdamW
 * losses of a float64 reference (tests/golden, and those in ../shared/golden or $QKV_GOLDEN), on every kernel table
 * of the machine, in fp32 and, with wider tolerances, in mixed precision. */
/* labels: numeric quick */
#include "test.h"
#include "weights.h"

#include <dirent.h>
#include <glob.h>

/* Relative errors allowed, in the 2-norm. Rounding a number to bf16 changes it by up to 2^-9 = 0.002, and a layer
 * rounds several times, which may move a ReLU across its kink. Gradients that nearly cancel (of biases of keys, of
 * norms) are compared relative to the norm of all. A step of AdamW makes the sign of a small gradient a whole step,
 * so weights soon differ; the losses do not. */
static const struct tolerance {
    double output, weights, gradient, gradient_floor, adamw_output, adamw_loss;
} fp32 = {1e-5, 1e-5, 1e-4, 1e-6, 1e-4, 1e-4}, bf16 = {2e-2, 2e-2, 1e-1, 1e-2, 1e-1, 2e-2};

struct golden {
    const struct tolerance *tolerance;
    struct qkv_context *ctx;
    struct qkv_model *model;
    struct qkv_tensors *file;
    struct qkv_batch batch;
    int32_t *ints[7];
    float *output_gradient, *features;
};

static int32_t *read_ints(struct golden *g, const char *name, int slot, size_t *rows, size_t *columns) {
    const struct qkv_array *a = qkv_tensors_find(g->file, name);
    if (!a) return NULL;
    assert_int_equal(a->dtype, QKV_I32);
    if (rows) *rows = a->shape[0];
    if (columns) *columns = a->shape[1];
    g->ints[slot] = malloc(a->bytes);
    memcpy(g->ints[slot], a->data, a->bytes);
    return g->ints[slot];
}

static float *read_floats(struct golden *g, const char *name, size_t *count) {
    const struct qkv_array *a = qkv_tensors_find(g->file, name);
    if (!a) return NULL;
    *count = qkv_array_elements(a);
    float *out = malloc((*count + 1) * sizeof(float));
    qkv_array_floats(a, out);
    return out;
}

/* Reads the input of the first stack if it is no tokens; sets the rows and positions of the batch if this is its
 * only input. */
static void read_features(struct golden *g) {
    static const char *const names[] = {"in.pixels", "in.features", "in.vectors"};
    const struct qkv_spec *spec = qkv_model_spec(g->model);
    const struct qkv_stack_spec *stack = spec->encoder.layers ? &spec->encoder : &spec->decoder;
    const bool pair = qkv_spec_topology(spec) == QKV_ENCODER_DECODER;
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        const struct qkv_array *array = qkv_tensors_find(g->file, names[i]);
        size_t count;
        if (!array) continue;
        g->features = read_floats(g, names[i], &count);
        const size_t stride = (size_t)stack->embed.input.stride, frames = i == 1 ? array->shape[2] : 0;
        const size_t T = i == 0 ? qkv_stack_patches(stack) : i == 1 ? (frames - 1) / stride + 1 : array->shape[1];
        *(pair ? &g->batch.source_features : &g->batch.features) = g->features;
        *(pair ? &g->batch.source_frames : &g->batch.frames) = frames;
        *(pair ? &g->batch.source_T : &g->batch.T) = T;
        g->batch.B = array->shape[0];
    }
}

static void open_case(struct golden *g, const char *folder, const char *isa, enum qkv_precision precision) {
    memset(g, 0, sizeof *g);
    g->tolerance = precision == QKV_FP32 ? &fp32 : &bf16;
    struct qkv_context_options options = {.size = sizeof options, .isa = isa, .precision = precision};
    assert_int_equal(qkv_context_create(&g->ctx, &options), QKV_OK);
    char path[600];
    size_t unused;
    snprintf(path, sizeof path, "%s/case.safetensors", folder);
    if (qkv_model_load(g->ctx, folder, &g->model)) {
        fail_msg("%s", qkv_message(g->ctx));
    }
    if (qkv_tensors_open(g->ctx, path, &g->file)) {
        fail_msg("%s", qkv_message(g->ctx));
    }
    g->batch.ids = read_ints(g, "in.ids", 0, &g->batch.B, &g->batch.T);
    g->batch.lengths = read_ints(g, "in.lengths", 1, NULL, NULL);
    g->batch.targets = read_ints(g, "in.targets", 2, NULL, NULL);
    g->batch.source = read_ints(g, "in.source", 3, NULL, &g->batch.source_T);
    g->batch.source_lengths = read_ints(g, "in.source_lengths", 4, NULL, NULL);
    g->batch.types = read_ints(g, "in.token_types", 5, NULL, NULL);
    g->batch.source_types = read_ints(g, "in.source_token_types", 6, NULL, NULL);
    read_features(g);
    g->batch.length = g->batch.T, g->batch.source_length = g->batch.source_T; /* as the reference, and qkv forward */
    g->output_gradient = read_floats(g, "in.output_gradient", &unused);
    g->batch.output_gradient = g->output_gradient;
}

static void close_case(struct golden *g) {
    free(g->features);
    for (size_t i = 0; i < TEST_COUNT(g->ints); i++) {
        free(g->ints[i]);
    }
    free(g->output_gradient);
    qkv_tensors_close(g->file);
    qkv_model_free(g->model);
    qkv_context_free(g->ctx);
}

/* Fails unless `got` is the file's tensor `name` within a relative tolerance. */
static void expect(struct golden *g, const char *name, const float *got, size_t count, double tolerance) {
    size_t expected_count = 0;
    float *expected = read_floats(g, name, &expected_count);
    if (!expected) {
        fail_msg("the case has no %s", name);
    }
    assert_int_equal(count, expected_count);
    test_floats_close(got, expected, count, tolerance, name, __FILE__, __LINE__);
    free(expected);
}

/* Some gradients are zero in exact arithmetic (a key's bias shifts all scores of a row alike), so beside the relative
 * tolerance there is a floor: a small part of the norm of all gradients together. */
static void expect_gradients(struct golden *g) {
    double floor = g->tolerance->gradient_floor * qkv_model_gradient_norm(g->model);
    for (size_t i = 0; i < qkv_model_parameters(g->model); i++) {
        const struct qkv_array *p = qkv_model_parameter(g->model, i);
        const float *got = test_gradient(g->model, i);
        size_t count = qkv_array_elements(p), expected_count = 0;
        char name[200];
        snprintf(name, sizeof name, "grad.%s", p->name);
        float *expected = read_floats(g, name, &expected_count);
        if (!expected) {
            fail_msg("the case has no %s", name);
        }
        assert_int_equal(count, expected_count);
        double difference = 0;
        for (size_t k = 0; k < count; k++) {
            difference += pow((double)got[k] - (double)expected[k], 2);
        }
        if (!(sqrt(difference) <= floor)) {
            test_floats_close(got, expected, count, g->tolerance->gradient, name, __FILE__, __LINE__);
        }
        free(expected);
    }
}

static void expect_weights(struct golden *g, struct qkv_pass *pass) {
    struct qkv_array w;
    size_t i = 0;
    for (; qkv_pass_attention(pass, i, &w); i++) {
        char name[200];
        snprintf(name, sizeof name, "out.weights.%s", w.name);
        float *weights = malloc(w.bytes);
        for (size_t n = 0; n < w.shape[0] * w.shape[1]; n++) {
            size_t head = w.shape[2] * w.shape[3];
            if (qkv_pass_weights(pass, i, QKV_ATTENTION_WEIGHTS, n / w.shape[1], n % w.shape[1], 0, w.shape[2],
                                 weights + n * head)) {
                fail_msg("%s", qkv_message(g->ctx));
            }
        }
        expect(g, name, weights, qkv_array_elements(&w), g->tolerance->weights);
        free(weights);
    }
    assert_true(i > 0);
}

static void expect_output(struct golden *g, struct qkv_pass *pass, const char *when, double tolerance) {
    struct qkv_array y = qkv_pass_output(pass);
    char name[64];
    snprintf(name, sizeof name, "out.%s%s", when, y.name);
    expect(g, name, y.data, qkv_array_elements(&y), tolerance);
}

/* Three steps of AdamW on the one batch: the losses before, between and after, and the last outputs. */
static void expect_adamw(struct golden *g, struct qkv_pass *pass, float loss) {
    struct qkv_optimizer *optimizer;
    if (!qkv_tensors_find(g->file, "out.adamw_losses")) return;
    struct qkv_optimizer_options adamw = {.size = sizeof adamw,
                                          .kind = QKV_OPTIMIZER_ADAMW,
                                          .beta1 = 0.9,
                                          .beta2 = 0.95,
                                          .eps = 1e-8,
                                          .weight_decay = 0.1};
    const struct qkv_array *eps = qkv_tensors_find(g->file, "in.adamw_eps");
    if (eps) adamw.eps = (double)*(const float *)eps->data;
    float losses[4] = {loss};
    assert_int_equal(qkv_optimizer_create(g->model, &adamw, &optimizer), QKV_OK);
    for (int step = 1; step < 4; step++) {
        assert_int_equal(qkv_optimizer_step(optimizer, 0.01, 1), QKV_OK);
        qkv_model_clear_gradients(g->model);
        assert_int_equal(qkv_pass_forward(pass, &g->batch), QKV_OK);
        losses[step] = (float)qkv_pass_loss(pass, NULL);
        if (step == 3 && qkv_tensors_find(g->file, "out.adamw_logits")) { /* left out where fp32 cannot follow */
            expect_output(g, pass, "adamw_", g->tolerance->adamw_output);
        }
        assert_int_equal(qkv_pass_backward(pass), QKV_OK);
    }
    expect(g, "out.adamw_losses", losses, 4, g->tolerance->adamw_loss);
    qkv_optimizer_free(optimizer);
}

static void run_case(const char *folder, const char *isa, enum qkv_precision precision) {
    struct golden g;
    struct qkv_pass *pass;
    open_case(&g, folder, isa, precision);
    struct qkv_pass_options o = {.size = sizeof o,
                                 .B = g.batch.B,
                                 .T = g.batch.T,
                                 .source_T = g.batch.source_T,
                                 .train = true,
                                 .logits = true,
                                 .weights = true,
                                 .padding = true};
    assert_int_equal(qkv_pass_create(g.model, &o, &pass), QKV_OK);
    if (qkv_pass_forward(pass, &g.batch)) {
        fail_msg("%s", qkv_message(g.ctx));
    }
    float loss = (float)qkv_pass_loss(pass, NULL);
    expect(&g, "out.loss", &loss, 1, g.tolerance->output);
    expect_output(&g, pass, "", g.tolerance->output);
    expect_weights(&g, pass);
    assert_int_equal(qkv_pass_backward(pass), QKV_OK);
    expect_gradients(&g);

    expect_adamw(&g, pass, loss);
    qkv_pass_free(pass);

    /* Without recording, memory is given back layer by layer: the numbers are the same. */
    struct qkv_model *again;
    assert_int_equal(qkv_model_load(g.ctx, folder, &again), QKV_OK);
    o.train = false;
    assert_int_equal(qkv_pass_create(again, &o, &pass), QKV_OK);
    assert_int_equal(qkv_pass_forward(pass, &g.batch), QKV_OK);
    assert_true((float)qkv_pass_loss(pass, NULL) == loss);
    expect_output(&g, pass, "", g.tolerance->output);
    expect_weights(&g, pass);
    qkv_pass_free(pass);
    qkv_model_free(again);
    close_case(&g);
}

static size_t run_folder(const char *root, const char *isa, bool mixed) {
    DIR *folder = opendir(root);
    size_t count = 0;
    if (!folder) return 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        char path[512], config[600];
        snprintf(path, sizeof path, "%s/%s", root, entry->d_name);
        snprintf(config, sizeof config, "%s/config.json", path);
        if (entry->d_name[0] == '.' || access(config, R_OK) != 0) {
            continue;
        }
        printf("%s %s\n", isa, path);
        fflush(stdout);
        run_case(path, isa, QKV_FP32);
        if (mixed) run_case(path, isa, QKV_MIXED_BF16);
        count++;
    }
    closedir(folder);
    return count;
}

/* Random cases are told to be fp32 alone: three steps of AdamW in bf16 part from float64 in one of ten. */
static void test_golden(void **state) {
    (void)state;
    const char *precision = getenv("QKV_PRECISION");
    const bool mixed = !precision || strcmp(precision, "fp32") != 0;
    for (size_t i = 0; qkv_isa_at(i); i++) {
        assert_true(run_folder(TEST_SOURCE_DIR "/tests/golden", qkv_isa_at(i), true) >= 14);
        run_folder(TEST_SOURCE_DIR "/../shared/golden", qkv_isa_at(i), true);
        if (getenv("QKV_GOLDEN")) assert_true(run_folder(getenv("QKV_GOLDEN"), qkv_isa_at(i), mixed) > 0);
    }
}

/* The metadata of a case have the command that made it; its generator is in the tree. */
static void every_case_names_the_command_that_made_it(void **state) {
    (void)state;
    glob_t found;
    struct qkv_context *ctx;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    assert_int_equal(glob(TEST_SOURCE_DIR "/tests/golden/*/case.safetensors", 0, NULL, &found), 0);
    assert_int_equal(glob(TEST_SOURCE_DIR "/tests/golden/attention/*.safetensors", GLOB_APPEND, NULL, &found), 0);
    assert_int_equal(glob(TEST_SOURCE_DIR "/tests/golden/modules/*.safetensors", GLOB_APPEND, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct qkv_tensors *file;
        char generator[256], path[512];
        assert_int_equal(qkv_tensors_open(ctx, found.gl_pathv[i], &file), QKV_OK);
        const char *command = qkv_tensors_metadata(file, "command");
        if (!command || sscanf(command, "%255s", generator) != 1)
            fail_msg("%s has no command in its metadata", found.gl_pathv[i]);
        snprintf(path, sizeof path, "%s/tests/golden/make/%s", TEST_SOURCE_DIR, generator);
        if (access(path, R_OK) != 0) fail_msg("%s: there is no %s", found.gl_pathv[i], path);
        qkv_tensors_close(file);
    }
    assert_true(found.gl_pathc >= 14 + 22 + 10);
    globfree(&found);
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden),
                                       cmocka_unit_test(every_case_names_the_command_that_made_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
