/* The profile of training steps: its rows and counts; profiling changes nothing. */
/* labels: numeric quick */
#include "train_fixture.h"

enum { LAYERS = 2, BATCH = 4, LENGTH = 16, WIDTH = 32, HIDDEN = 64, HEADS = 2 };

static struct qkv_train_options options_of(struct qkv_context *ctx) {
    struct qkv_train_options options = fixture_options(ctx);
    options.eval_every = 2; /* evaluations run the model too, and are not counted */
    return options;
}

static const struct qkv_profile_row *row_of(const struct qkv_profile_report *report, const char *name,
                                            enum qkv_profile_direction direction) {
    for (size_t i = 0; i < report->count; i++)
        if (report->rows[i].direction == direction && !strcmp(report->rows[i].name, name)) return &report->rows[i];
    fail_msg("no row %s, direction %d", name, (int)direction);
    return NULL;
}

static void expect(const struct qkv_profile_report *report, const char *name, enum qkv_profile_direction direction,
                   uint64_t calls, double flops, double bytes) {
    const struct qkv_profile_row *row = row_of(report, name, direction);
    uint64_t steps = (uint64_t)report->steps;
    if (row->calls != calls * steps || row->flops != flops * (double)steps || row->bytes != bytes * (double)steps)
        fail_msg("%s, direction %d: %llu calls, %.0f FLOPs, %.0f bytes in %llu steps, expected %llu, %.0f, %.0f a step",
                 name, (int)direction, (unsigned long long)row->calls, row->flops, row->bytes,
                 (unsigned long long)steps, (unsigned long long)calls, flops, bytes);
}

/* The counts of a step of the fixture's model, made by hand. `runs`: how often each block runs forward. */
static void expect_step(struct qkv_trainer *t, const struct qkv_profile_report *report, int runs) {
    const bool bf16 = !strcmp(qkv_trainer_options(t)->precision, "bf16");
    const double N = BATCH * LENGTH, C = WIDTH, F = HIDDEN, float_ = sizeof(float), L = LAYERS, r = runs;
    const double product = bf16 ? 2 : float_; /* of what only products and elementwise operators read; see op/op.h */
    double V = qkv_model_spec(qkv_trainer_model(t))->vocab;
    double block = 2 * N * (3 * C * C + C * C + 2 * C * F);
    double pairs = BATCH * HEADS * LENGTH * (LENGTH + 1) / 2.0;
    unsigned long long n = (unsigned long long)(LAYERS * runs);
    expect(report, "linear", QKV_PROFILE_FORWARD, 4 * n, L * r * block, 0);
    expect(report, "linear", QKV_PROFILE_BACKWARD, 4 * LAYERS, 2 * L * block, 0);
    expect(report, "attend", QKV_PROFILE_FORWARD, n, L * r * pairs * 4 * (C / HEADS), 0);
    expect(report, "attend", QKV_PROFILE_BACKWARD, LAYERS, L * pairs * 10 * (C / HEADS), 0);
    expect(report, "cross_entropy", QKV_PROFILE_WHOLE, 1, 3 * 2 * N * C * V, 0);
    expect(report, "embed", QKV_PROFILE_FORWARD, 1, 0, 3 * N * C * float_);
    expect(report, "embed", QKV_PROFILE_BACKWARD, 1, 0, 5 * N * C * float_);
    /* Norms of blocks go into products; the last one goes into the loss. Gradients are fp32 always. */
    expect(report, "norm", QKV_PROFILE_FORWARD, 2 * n + 1, 0,
           2 * L * r * N * C * (float_ + product) + N * C * 2 * float_);
    expect(report, "norm", QKV_PROFILE_BACKWARD, 2 * LAYERS + 1, 0, (2 * L + 1) * 3 * N * C * float_);
    /* The activation forward, and the addition, are part of the products before them. */
    expect(report, "activation", QKV_PROFILE_BACKWARD, LAYERS, 0, L * N * F * (product + 2 * float_));
    const double dropped = 2 * N * C * float_ + N * C / 8; /* a bit for each number says whether it stays */
    expect(report, "dropout", QKV_PROFILE_FORWARD, 2 * n + 1, 0, (2 * L * r + 1) * dropped);
    expect(report, "dropout", QKV_PROFILE_BACKWARD, 2 * LAYERS + 1, 0, (2 * L + 1) * dropped);
    assert_true(row_of(report, "optimizer", QKV_PROFILE_WHOLE)->bytes >=
                (double)report->steps * 8 * float_ *
                    (double)qkv_array_elements(qkv_model_parameter(qkv_trainer_model(t), 0)));
    row_of(report, "gradient norm", QKV_PROFILE_WHOLE);
    row_of(report, "data", QKV_PROFILE_WHOLE);
}

static void test_rows(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(2);
    for (int round = 0; round < 4; round++) {
        const int runs = 1 + round % 2;
        struct qkv_train_options options = options_of(ctx);
        options.precision = round / 2 ? "bf16" : "fp32";
        options.checkpoint_activations = runs == 2;
        struct qkv_trainer *t = fixture_begin(ctx, fixture_run("rows"), &options);
        double began = qkv_clock();
        assert_ok(ctx, qkv_trainer_profile_start(t));
        fixture_steps(ctx, t, 4);
        struct qkv_profile_report report = qkv_trainer_profile(t);
        assert_int_equal(report.steps, 4);
        assert_true(report.peak > 0 && report.seconds <= qkv_clock() - began);
        expect_step(t, &report, runs);
        assert_ok(ctx, qkv_trainer_profile_start(t)); /* begins again */
        fixture_steps(ctx, t, 5);
        report = qkv_trainer_profile(t);
        assert_int_equal(report.steps, 1);
        expect_step(t, &report, runs);
        qkv_trainer_free(t);
    }
    qkv_context_free(ctx);
}

/* The rows of six steps add up to nearly all the time that the steps report, and never to more. The system may stop the
 * program between two rows; then another run is measured. */
static void rows_add_up_to_the_time_of_the_steps(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    struct qkv_train_options options = options_of(ctx);
    double share = 0;
    for (int attempt = 0; attempt < 20 && share < 0.9; attempt++) {
        struct qkv_train_report step;
        struct qkv_trainer *t = fixture_begin(ctx, fixture_run("whole"), &options);
        double seconds = 0;
        assert_ok(ctx, qkv_trainer_profile_start(t));
        for (int i = 0; i < 6; i++) {
            assert_ok(ctx, qkv_trainer_step(t, &step));
            seconds += BATCH * LENGTH / step.tokens_per_second;
        }
        share = qkv_trainer_profile(t).seconds / seconds;
        assert_true(share <= 1 + 1e-9);
        qkv_trainer_free(t);
    }
    assert_true(share >= 0.9);
    qkv_context_free(ctx);
}

static void test_same_losses(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(2);
    struct qkv_train_options options = options_of(ctx);
    double losses[6];
    for (int profiled = 0; profiled < 2; profiled++) {
        struct qkv_trainer *t = fixture_begin(ctx, fixture_run("same"), &options);
        if (profiled) assert_ok(ctx, qkv_trainer_profile_start(t));
        for (int i = 0; i < 6; i++) {
            double loss = fixture_steps(ctx, t, i + 1).loss;
            if (profiled) assert_true(loss == losses[i]);
            losses[i] = loss;
        }
        struct qkv_profile_report report = qkv_trainer_profile(t);
        assert_int_equal(report.steps, profiled ? 6 : 0);
        assert_true(profiled == (report.count > 0));
        qkv_trainer_free(t);
    }
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(rows_add_up_to_the_time_of_the_steps),
        cmocka_unit_test(test_same_losses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
