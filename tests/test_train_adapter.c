/* Runs that train an adapter (option lora): its gradients over quantised weights, the bits of a run that is cut, what
 * its folder holds, its plan of memory, and what is refused. */
/* labels: numeric */
#include "train_same.h"
#include "weights.h"

#include "io/adapter_files.h"
#include "io/safetensors.h"
#include "op/steps.h"

#define LORA "rank=4,alpha=8,targets=q,v,down,dropout=0.2"

/* Adapters, and how many matrices of the base they adapt, with how many tensors for each. */
static const struct form {
    const char *lora;
    size_t matrices, each;
    bool experts; /* the base has some */
} forms[] = {{LORA, 6, 2, false},
             {LORA ",dora=true", 6, 3, false},
             {"rank=3,rslora=true,dropout=0.2,targets=q,router,experts.gate,experts.up,experts.down,shared.up",
              2 * (1 + 1 + 3 * 4 + 1), 2, true}};

#define EXPERTS "decoder.ffn.kind=swiglu", "decoder.ffn.experts={\"count\": 4, \"top_k\": 2, \"shared\": 24}"

/* The model that adapters belong to, which a run of two steps makes. */
static void make_base(struct qkv_context *ctx, bool experts, char folder[1024]) {
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, experts ? (const char *const[]){EXPERTS, NULL} : NULL);
    struct qkv_train_options options = fixture_options(ctx);
    struct qkv_trainer *t;
    snprintf(folder, 1024, "%s", fixture_run("adapter_base"));
    options.steps = 2;
    options.warmup = 0;
    assert_ok(ctx, qkv_trainer_create(ctx, &spec, &options, folder, NULL, NULL, &t));
    fixture_steps(ctx, t, 2);
    qkv_trainer_free(t);
}

/* The tokenizer and the dropouts are those of the base. */
static struct qkv_train_options plain_options(struct qkv_context *ctx) {
    struct qkv_train_options options = fixture_options(ctx);
    qkv_train_unset(&options, "tokenizer");
    qkv_train_unset(&options, "dropout");
    return options;
}

static struct qkv_train_options adapter_options(struct qkv_context *ctx, const char *base, const struct form *form) {
    struct qkv_train_options options = plain_options(ctx);
    assert_ok(ctx, qkv_train_set(ctx, &options, "from", base));
    assert_ok(ctx, qkv_train_set(ctx, &options, "lora", form->lora));
    options.rate = 1e-2;
    return options;
}

static struct qkv_trainer *adapter_begin(struct qkv_context *ctx, const char *folder,
                                         const struct qkv_train_options *options) {
    struct qkv_trainer *t;
    assert_ok(ctx, qkv_trainer_create(ctx, NULL, options, folder, NULL, NULL, &t));
    return t;
}

static void assert_same_adapters(struct qkv_context *ctx, const char *a, const char *b) {
    char *log_a = log_numbers(a), *log_b = log_numbers(b);
    assert_same_logs(log_a, log_b);
    free(log_a);
    free(log_b);
    assert_same_tensors(ctx, a, b, "checkpoint.safetensors");
    assert_same_tensors(ctx, a, b, QKV_ADAPTER_WEIGHTS_FILE);
}

/* The file of the run has two tensors for each adapted matrix, or three, and two moments of each in the checkpoint:
 * nothing of the base. */
static void check_folder(struct qkv_context *ctx, const char *folder, const struct form *form) {
    const size_t count = form->each * form->matrices;
    struct qkv_tensors *file;
    char path[4096];
    snprintf(path, sizeof path, "%s/checkpoint.safetensors", folder);
    assert_ok(ctx, qkv_tensors_open(ctx, path, &file));
    assert_int_equal(qkv_tensors_count(file), 3 * count);
    for (size_t i = 0; i < qkv_tensors_count(file); i++)
        assert_non_null(strstr(qkv_tensors_at(file, i)->name, ".lora_"));
    assert_non_null(strstr(qkv_tensors_metadata(file, "base"), "adapter_base"));
    assert_int_equal(strlen(qkv_tensors_metadata(file, "base_digest")), 16);
    qkv_tensors_close(file);
    snprintf(path, sizeof path, "%s/" QKV_ADAPTER_WEIGHTS_FILE, folder);
    assert_ok(ctx, qkv_tensors_open(ctx, path, &file));
    assert_int_equal(qkv_tensors_count(file), count);
    qkv_tensors_close(file);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    assert_int_not_equal(access(path, F_OK), 0);
}

static void check_runs(const struct form *form) {
    char base[1024], folders[3][1024];
    for (int i = 0; i < 3; i++) {
        struct qkv_context *ctx = fixture_context(i == 1 ? 3 : 1);
        if (!i) make_base(ctx, form->experts, base);
        struct qkv_train_options options = adapter_options(ctx, base, form);
        const char *const names[] = {"whole", "parts", "cut"};
        snprintf(folders[i], sizeof folders[i], "%s", fixture_run(names[i]));
        if (i == 1) options.accumulate = 4;
        struct qkv_trainer *t = adapter_begin(ctx, folders[i], &options);
        fixture_steps(ctx, t, i == 2 ? 3 : 6);
        qkv_trainer_free(t);
        if (i == 2) {
            assert_ok(ctx, qkv_trainer_resume(ctx, folders[i], NULL, NULL, NULL, &t));
            fixture_steps(ctx, t, 6);
            qkv_trainer_free(t);
        }
        check_folder(ctx, folders[i], form);
        if (i) assert_same_adapters(ctx, folders[0], folders[i]);
        qkv_context_free(ctx);
    }
}

static void a_run_has_the_same_bits_with_any_threads_and_parts_and_when_it_is_cut(void **state) {
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(forms); i++) check_runs(&forms[i]);
}

static void a_run_does_not_go_on_with_other_weights(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    char base[1024], folder[1024], *model;
    size_t size;
    make_base(ctx, false, base);
    struct qkv_train_options options = adapter_options(ctx, base, &forms[0]);
    snprintf(folder, sizeof folder, "%s", fixture_run("other_base"));
    struct qkv_trainer *t = adapter_begin(ctx, folder, &options);
    fixture_steps(ctx, t, 3);
    qkv_trainer_free(t);
    model = fixture_read(base, "model.safetensors", &size);
    model[size - 2] = (char)(model[size - 2] ^ 1);
    fixture_write(base, "model.safetensors", model, size);
    free(model);
    assert_int_equal(qkv_trainer_resume(ctx, folder, NULL, NULL, NULL, &t), QKV_FORMAT);
    assert_non_null(strstr(qkv_message(ctx), "are not those that the run began with"));
    qkv_context_free(ctx);
}

static void options_that_contradict_an_adapter_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *lora, *other, *value, *says;
    } wrong[] = {{"rank=0", NULL, NULL, "rank is \"0\""},
                 {"rank=1.5", NULL, NULL, "rank is \"1.5\""},
                 {"rank=nan", NULL, NULL, "rank is \"nan\""},
                 {"rank=99999999999999999999", NULL, NULL, "rank is"},
                 {"alpha=0", NULL, NULL, "alpha is \"0\""},
                 {"alpha=inf", NULL, NULL, "alpha is \"inf\""},
                 {"dropout=1", NULL, NULL, "dropout is \"1\""},
                 {"rslora=yes", NULL, NULL, "rslora is \"yes\""},
                 {"dora=1", NULL, NULL, "dora is \"1\""},
                 {"rank=4,rank=5", NULL, NULL, "rank is given twice"},
                 {"q,v", NULL, NULL, "\"q\" is no setting"},
                 {"size=3", NULL, NULL, "\"size\" is no setting"},
                 {"targets=q,,v", NULL, NULL, "a target has no name"},
                 {"targets=", NULL, NULL, "a target has no name"},
                 {"rank=4,", NULL, NULL, "is no setting"},
                 {"rank=4", "dropout", "0.1", "option dropout has no place"},
                 {"rank=4", "new_head", "true", "option new_head has no place"},
                 {"rank=4", "prefix", "3", "option prefix has no place"}};
    struct qkv_context *ctx = fixture_context(1);
    for (size_t i = 0; i < TEST_COUNT(wrong); i++) {
        struct qkv_train_options options = plain_options(ctx);
        assert_ok(ctx, qkv_train_set(ctx, &options, "from", "anywhere"));
        assert_ok(ctx, qkv_train_set(ctx, &options, "lora", wrong[i].lora));
        if (wrong[i].other) assert_ok(ctx, qkv_train_set(ctx, &options, wrong[i].other, wrong[i].value));
        assert_int_equal(qkv_train_check(ctx, &options), QKV_ARGUMENT);
        if (!strstr(qkv_message(ctx), wrong[i].says)) fail_msg("%s: %s", wrong[i].lora, qkv_message(ctx));
    }
    struct qkv_train_options options = plain_options(ctx);
    assert_ok(ctx, qkv_train_set(ctx, &options, "lora", "rank=4"));
    assert_int_equal(qkv_train_check(ctx, &options), QKV_ARGUMENT);
    assert_non_null(strstr(qkv_message(ctx), "option from"));
    qkv_context_free(ctx);
}

static void targets_that_nothing_matches_are_refused(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    struct qkv_spec spec = fixture_spec(ctx, (const char *const[]){"vocab=40", NULL});
    struct qkv_model *model;
    assert_ok(ctx, qkv_model_create(ctx, &spec, 1, &model));
    const size_t own = qkv_model_parameters(model);
    assert_int_equal(qkv_adapter_create(model, "targets=nothing", 1), QKV_ARGUMENT);
    assert_non_null(strstr(qkv_message(ctx), "no weight of the model has the name nothing"));
    assert_int_equal(qkv_adapter_create(model, "targets=embed.token", 1), QKV_ARGUMENT);
    assert_non_null(strstr(qkv_message(ctx), "cannot have an adapter"));
    assert_int_equal(qkv_adapter_remove(model), QKV_ARGUMENT);
    assert_int_equal(qkv_adapter_save(model, NULL, "nowhere"), QKV_ARGUMENT);
    assert_ok(ctx, qkv_adapter_create(model, "rank=2,targets=q_proj,ffn.up", 1));
    assert_int_equal(qkv_model_parameters(model), 2 * 2 * 2);
    assert_int_equal(qkv_adapter_create(model, "rank=2", 1), QKV_ARGUMENT);
    assert_int_equal(qkv_model_save(model, "nowhere"), QKV_ARGUMENT);
    assert_non_null(strstr(qkv_message(ctx), "has an adapter"));
    struct qkv_pass *pass;
    assert_ok(ctx, qkv_pass_create(model, &QKV_OPTIONS(qkv_pass_options, .B = 1, .T = 4), &pass));
    assert_int_equal(qkv_adapter_remove(model), QKV_ARGUMENT);
    assert_non_null(strstr(qkv_message(ctx), "in use"));
    qkv_pass_free(pass);
    assert_ok(ctx, qkv_adapter_remove(model));
    assert_int_equal(qkv_model_parameters(model), own);
    qkv_model_free(model);
    qkv_spec_free(&spec);
    qkv_context_free(ctx);
}

/* ---- over quantised weights -------------------------------------------------------------------------------------- */

enum { ROWS = 2, LENGTH = 8 };

static double loss_of(struct qkv_context *ctx, struct qkv_pass *pass, const struct qkv_batch *batch) {
    assert_ok(ctx, qkv_pass_forward(pass, batch));
    return qkv_pass_loss(pass, NULL);
}

/* The slope along a random direction of all weights of the adapter. */
static void check_slope(struct qkv_context *ctx, struct qkv_model *model, struct qkv_random *random) {
    int32_t ids[ROWS * LENGTH], targets[ROWS * LENGTH];
    for (size_t i = 0; i < ROWS * LENGTH; i++) {
        ids[i] = (int32_t)qkv_random_below(random, 40);
        targets[i] = (int32_t)qkv_random_below(random, 40);
    }
    const struct qkv_batch batch = {.B = ROWS, .T = LENGTH, .ids = ids, .targets = targets};
    struct qkv_weights *w = &model->weights;
    struct qkv_pass *pass;
    float *direction[64], *at[64];
    double slope = 0, norm = 0, difference = 0;
    static const double steps[4] = {-2, -1, 1, 2}, factors[4] = {1.0 / 12, -8.0 / 12, 8.0 / 12, -1.0 / 12};
    const double h = 2e-3;
    assert_true(w->count <= TEST_COUNT(at));
    for (size_t i = 0; i < w->count; i++) { /* b begins at zero, where a has no gradient */
        const size_t n = w->list[i].rows * w->list[i].columns;
        at[i] = malloc(n * sizeof(float));
        direction[i] = malloc(n * sizeof(float));
        test_fill(random, w->list[i].data, n, 0.1);
        test_fill(random, direction[i], n, 0.2);
        memcpy(at[i], w->list[i].data, n * sizeof(float));
        qkv_weight_changed(w, i);
    }
    assert_ok(ctx,
              qkv_pass_create(model, &QKV_OPTIONS(qkv_pass_options, .B = ROWS, .T = LENGTH, .train = true), &pass));
    loss_of(ctx, pass, &batch);
    assert_ok(ctx, qkv_pass_backward(pass));
    for (size_t i = 0; i < w->count; i++)
        for (size_t k = 0; k < w->list[i].rows * w->list[i].columns; k++) {
            slope += (double)w->list[i].gradient[k] * (double)direction[i][k];
            norm += (double)w->list[i].gradient[k] * (double)w->list[i].gradient[k];
        }
    for (size_t s = 0; s < 4; s++) {
        for (size_t i = 0; i < w->count; i++)
            for (size_t k = 0; k < w->list[i].rows * w->list[i].columns; k++)
                w->list[i].data[k] = (float)((double)at[i][k] + steps[s] * h * (double)direction[i][k]);
        difference += factors[s] * loss_of(ctx, pass, &batch) / h;
    }
    if (!(fabs(slope - difference) <= 2e-3 * sqrt(norm) + 1e-4))
        fail_msg("slope %.6f by the gradient, %.6f by differences (norm %.4f)", slope, difference, sqrt(norm));
    assert_true(norm > 0);
    for (size_t i = 0; i < w->count; i++) {
        free(at[i]);
        free(direction[i]);
    }
    qkv_pass_free(pass);
}

/* The base stays in its file's type, and the slopes are those of products with its numbers. The norms that magnitudes
 * are divided by stay while numbers change without notice. */
static void gradients_over_quantised_weights_are_slopes(void **state) {
    (void)state;
    static const char *const types[] = {"f32", "bf16", "q8_0", "q4_K"};
    static const char *const lora[] = {"rank=3", "rank=3,dora=true", "rank=3,targets=experts.gate,experts.up,down"};
    static const char *const experts[] = {NULL, NULL, "decoder.ffn.experts={\"count\": 3, \"top_k\": 2}"};
    struct qkv_random random = test_random(77);
    for (size_t i = 0; i < TEST_COUNT(lora) * TEST_COUNT(types); i++) {
        const size_t kind = i % TEST_COUNT(lora);
        const char *type = types[i / TEST_COUNT(lora)];
        struct qkv_context *ctx;
        struct qkv_context_options options = {.size = sizeof options, .precision = QKV_FP32};
        assert_int_equal(qkv_context_create(&ctx, &options), QKV_OK);
        struct qkv_spec spec = fixture_spec(
            ctx, (const char *const[]){"vocab=40", "d_model=256", "decoder.ffn.d_ff=256", "decoder.layers=1",
                                       kind == 2 ? "decoder.ffn.kind=swiglu" : "decoder.ffn.kind=gelu", experts[kind],
                                       NULL});
        struct qkv_model *model;
        assert_ok(ctx, qkv_model_create(ctx, &spec, 3, &model));
        const struct qkv_gguf_options to = {.size = sizeof to, .format = type, .pure = true, .family = "qkv"};
        assert_ok(ctx, qkv_model_export_gguf(model, &to, "adapter_base.gguf", NULL));
        qkv_model_free(model);
        assert_ok(ctx, qkv_model_load(ctx, "adapter_base.gguf", &model));
        assert_ok(ctx, qkv_adapter_create(model, lora[kind], 5));
        const struct qkv_weights *base = qkv_model_base(model);
        assert_true((qkv_weights_stored(base) != NULL) == (strcmp(type, "f32") != 0));
        const size_t bytes = qkv_weights_stored_bytes(base);
        check_slope(ctx, model, &random);
        assert_int_equal(qkv_weights_stored_bytes(base), bytes);
        for (size_t k = 0; k < base->count; k++) assert_null(base->list[k].gradient);
        qkv_model_free(model);
        qkv_spec_free(&spec);
        qkv_context_free(ctx);
    }
}

/* ---- many experts ------------------------------------------------------------------------------------------------ */

#define MANY                                                                                                           \
    "{\"format\": \"qkv\", \"version\": 2, \"vocab\": 16, \"d_model\": 8, \"context\": 8, \"decoder\": {\"layers\": "  \
    "3, "                                                                                                              \
    "\"attention\": {\"heads\": 2, \"position\": {\"kind\": \"rope\"}}, \"ffn\": {\"kind\": \"swiglu\", \"d_ff\": 2, " \
    "\"experts\": {\"count\": 4096, \"top_k\": 2}}}}"

/* The records of a pass have the operands of all experts. */
static void a_pass_has_records_of_many_experts(void **state) {
    (void)state;
    struct qkv_context *ctx;
    OWNED_SPEC struct qkv_spec spec = {0};
    struct qkv_model *model;
    struct qkv_pass *pass;
    const int32_t ids[4] = {1, 2, 3, 4};
    const struct qkv_batch batch = {.B = 1, .T = 4, .ids = ids, .targets = ids};
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "many", MANY, strlen(MANY), NULL, 0));
    assert_ok(ctx, qkv_model_create(ctx, &spec, 1, &model));
    assert_ok(ctx, qkv_adapter_create(model, "rank=1,targets=experts.gate,experts.up,experts.down", 1));
    assert_ok(ctx, qkv_pass_create(model, &QKV_OPTIONS(qkv_pass_options, .B = 1, .T = 4, .train = true), &pass));
    assert_ok(ctx, qkv_pass_forward(pass, &batch));
    assert_ok(ctx, qkv_pass_backward(pass));
    qkv_pass_free(pass);
    qkv_model_free(model);
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_has_the_same_bits_with_any_threads_and_parts_and_when_it_is_cut),
        cmocka_unit_test(a_run_does_not_go_on_with_other_weights),
        cmocka_unit_test(options_that_contradict_an_adapter_are_refused),
        cmocka_unit_test(targets_that_nothing_matches_are_refused),
        cmocka_unit_test(gradients_over_quantised_weights_are_slopes),
        cmocka_unit_test(a_pass_has_records_of_many_experts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
