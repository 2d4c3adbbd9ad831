/* The precision of runs: the meaning of "auto", the record of a run, and what a command that opens a model is told. */
/* labels: numeric quick */
#include "train_fixture.h"

static struct qkv_context *context_in(const char *variable, enum qkv_precision precision, const char *isa) {
    struct qkv_context *ctx;
    struct qkv_context_options options = {.size = sizeof options, .threads = 1, .precision = precision, .isa = isa};
    if (variable)
        setenv("QKV_PRECISION", variable, 1);
    else
        unsetenv("QKV_PRECISION");
    assert_ok(ctx, qkv_context_create(&ctx, &options));
    return ctx;
}

static void auto_is_the_variable_and_else_what_the_kernels_multiply(void **state) {
    (void)state;
    static const char *const open[] = {NULL, "", "auto"};
    for (size_t i = 0; qkv_isa_at(i); i++) {
        for (size_t k = 0; k < TEST_COUNT(open); k++) {
            struct qkv_context *ctx = context_in(open[k], QKV_PRECISION_AUTO, qkv_isa_at(i));
            enum qkv_precision best = qkv_context_native_bf16(ctx) ? QKV_MIXED_BF16 : QKV_FP32;
            assert_int_equal(qkv_context_precision(ctx), best);
            assert_int_equal(qkv_auto_precision(ctx), best);
            qkv_context_free(ctx);
        }
        struct qkv_context *ctx = context_in("bf16", QKV_PRECISION_AUTO, qkv_isa_at(i)); /* emulated or not */
        assert_int_equal(qkv_context_precision(ctx), QKV_MIXED_BF16);
        qkv_context_free(ctx);
        ctx = context_in("fp32", QKV_PRECISION_AUTO, qkv_isa_at(i));
        assert_int_equal(qkv_context_precision(ctx), QKV_FP32);
        qkv_context_set_precision(ctx, QKV_MIXED_BF16);
        assert_int_equal(qkv_context_precision(ctx), QKV_MIXED_BF16);
        qkv_context_set_precision(ctx, QKV_PRECISION_AUTO);
        assert_int_equal(qkv_context_precision(ctx), QKV_FP32);
        qkv_context_free(ctx);
    }
    struct qkv_context *ctx = context_in("bf16", QKV_FP32, NULL); /* options come before variables */
    assert_int_equal(qkv_context_precision(ctx), QKV_FP32);
    qkv_context_free(ctx);
    ctx = context_in("fp32", QKV_MIXED_BF16, NULL);
    assert_int_equal(qkv_context_precision(ctx), QKV_MIXED_BF16);
    qkv_context_free(ctx);
    setenv("QKV_PRECISION", "fp16", 1);
    assert_status(ctx, qkv_context_create(&ctx, NULL), QKV_ARGUMENT);
    assert_message(ctx, "QKV_PRECISION is \"fp16\"; it must be fp32, bf16 or auto");
    qkv_context_free(ctx);
    unsetenv("QKV_PRECISION");
    struct qkv_context_options options = {.size = sizeof options, .precision = (enum qkv_precision)7};
    assert_status(ctx, qkv_context_create(&ctx, &options), QKV_ARGUMENT);
    assert_message(ctx, "precision is 7");
    qkv_context_free(ctx);
}

/* A run of six steps; the loss of its model over the text, opened in the recorded precision or in another. */
static double loss_of(struct qkv_context *ctx, const char *folder, const char *data, bool other) {
    struct qkv_model *model;
    struct qkv_evaluation e;
    struct qkv_evaluate_options o = {.size = sizeof o};
    enum qkv_precision precision = (enum qkv_precision)99;
    assert_ok(ctx, qkv_model_precision(ctx, folder, &precision));
    if (other) precision = precision == QKV_FP32 ? QKV_MIXED_BF16 : QKV_FP32;
    qkv_context_set_precision(ctx, precision);
    assert_ok(ctx, qkv_model_load(ctx, folder, &model));
    assert_ok(ctx, qkv_evaluate_text(model, &(const char *){data}, 1, &o, NULL, NULL, &e));
    qkv_model_free(model);
    return e.loss;
}

static void a_new_run_takes_auto_and_records_it(void **state) {
    (void)state;
    static const char *const names[] = {"fp32", "bf16"};
    for (size_t i = 0; i < 2; i++) {
        struct qkv_context *ctx = context_in(names[i], QKV_FP32, NULL);
        struct qkv_train_options options = fixture_options(ctx);
        enum qkv_precision recorded;
        options.eval_batches = 0; /* the whole validation text */
        options.valid = options.data, options.valid_fraction = 0;
        const char *folder = fixture_run("recorded");
        struct qkv_trainer *t = fixture_begin(ctx, folder, &options);
        assert_string_equal(qkv_trainer_options(t)->precision, names[i]);
        double trained = fixture_steps(ctx, t, 6).best_loss;
        qkv_trainer_free(t);
        qkv_context_free(ctx);
        ctx = context_in(names[!i], QKV_FP32, NULL); /* the record counts, whatever the variable says by then */
        assert_ok(ctx, qkv_model_precision(ctx, folder, &recorded));
        assert_int_equal(recorded, i ? QKV_MIXED_BF16 : QKV_FP32);
        double here = loss_of(ctx, folder, options.data, false), other = loss_of(ctx, folder, options.data, true);
        if (!(fabs(here - trained) < 1e-5 && here != other))
            fail_msg("%s: %.9g in training, %.9g and in the other precision %.9g", names[i], trained, here, other);
        assert_ok(ctx, qkv_trainer_resume(ctx, folder, &QKV_OPTIONS(qkv_resume_options, .steps = 8), NULL, NULL, &t));
        assert_string_equal(qkv_trainer_options(t)->precision, names[i]);
        qkv_trainer_free(t);
        qkv_context_free(ctx);
    }
    unsetenv("QKV_PRECISION");
}

static void a_model_without_a_record_is_fp32_and_a_damaged_record_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *message; /* NULL: fine */
        enum qkv_precision precision;
    } records[] = {
        {"{\"format\":\"qkv-train\",\"version\":1,\"options\":{\"precision\":\"bf16\"}}", NULL, QKV_MIXED_BF16},
        {"{\"format\":\"qkv-train\",\"version\":1,\"options\":{\"precision\":\"fp32\"}}", NULL, QKV_FP32},
        {"{\"format\":\"qkv-train\",\"version\":1,\"options\":{\"precision\":\"auto\"}}", NULL, QKV_FP32},
        {"{\"format\":\"qkv-train\",\"version\":1,\"options\":{\"steps\":3}}", NULL, QKV_FP32},
        {"{\"options\":{\"precision\":\"bf16\"}}", NULL, QKV_FP32}, /* somebody else's file of that name */
        {"[1,2]", NULL, QKV_FP32},
        {"{\"format\":\"qkv-train\",\"options\":{\"precision\":\"fp8\"}}", "precision must be fp32, bf16 or auto", 0},
        {"{\"format\":\"qkv-train\",\"options\":{\"precision\":16}}", "precision must be fp32, bf16 or auto", 0},
        {"{\"format\":\n\"qkv-train", "train.json is not valid JSON: line 2, ", 0},
        {"", "train.json is empty; it records the precision: restore it", 0},
    };
    struct qkv_context *ctx = context_in("bf16", QKV_FP32, NULL);
    const char *folder = fixture_run("foreign");
    enum qkv_precision precision = QKV_MIXED_BF16;
    assert_ok(ctx, qkv_make_folder(ctx, folder));
    assert_ok(ctx, qkv_model_precision(ctx, folder, &precision));
    assert_int_equal(precision, QKV_FP32);
    for (size_t i = 0; i < TEST_COUNT(records); i++) {
        fixture_write(folder, "train.json", records[i].text, strlen(records[i].text));
        enum qkv_status status = qkv_model_precision(ctx, folder, &precision);
        if (!records[i].message) {
            assert_ok(ctx, status);
            if (precision != records[i].precision) fail_msg("%s: precision %d", records[i].text, (int)precision);
            continue;
        }
        assert_status(ctx, status, QKV_FORMAT);
        assert_message(ctx, records[i].message);
    }
    qkv_context_free(ctx);
    unsetenv("QKV_PRECISION");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(auto_is_the_variable_and_else_what_the_kernels_multiply),
        cmocka_unit_test(a_new_run_takes_auto_and_records_it),
        cmocka_unit_test(a_model_without_a_record_is_fp32_and_a_damaged_record_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
