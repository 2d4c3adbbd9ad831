/* Checkpointed activations: the same losses, outputs and gradients as a pass that stores everything, bit for bit, in
 * less memory; on a bare tape, over the grid of specs, and in training runs. */
/* labels: numeric quick */
#include "model_grid.h"
#include "op/recompute_segment.h"
#include "train_fixture.h"

/* ---- the tape --------------------------------------------------------------------------------------------------- */

enum { ROWS = 70, WIDTH = 12 }; /* rows: what the tape keeps is more than the scratch of a product */

struct stretch {
    struct qkv_tensor *weight, *memory;
};

/* x + dropout((x + memory)·weightᵀ): both inputs come to have several gradients. */
static struct qkv_tensor *run_stretch(struct qkv_tape *tape, const void *argument, struct qkv_tensor *x) {
    const struct stretch *s = argument;
    struct qkv_tensor *a = qkv_op_linear(tape, x, s->weight, NULL, QKV_RESULT_FP32);
    struct qkv_tensor *b = qkv_op_linear(tape, s->memory, s->weight, NULL, QKV_RESULT_FP32);
    return qkv_op_add(tape, x, qkv_op_dropout(tape, qkv_op_add(tape, a, b, 1), 0.3F), 0.7F);
}

/* Three branches of x, one of them longer. In backward, three gradients of the size of x exist before x has one, and
 * the longer branch has taken the saved buffer of the output: the gradient of x is allocated in memory of the
 * stretch. */
static struct qkv_tensor *run_branches(struct qkv_tape *tape, const void *argument, struct qkv_tensor *x) {
    const struct stretch *s = argument;
    struct qkv_tensor *branch[3];
    for (int i = 0; i < 3; i++) branch[i] = qkv_op_linear(tape, x, s->weight, NULL, QKV_RESULT_FP32);
    branch[0] = qkv_op_linear(tape, branch[0], s->weight, NULL, QKV_RESULT_FP32);
    for (int i = 0; i < 3; i++) branch[i] = qkv_op_dropout(tape, branch[i], 0.3F);
    return qkv_op_add(tape, qkv_op_add(tape, branch[0], branch[1], 1), branch[2], 1);
}

static struct qkv_tensor *run_wide(struct qkv_tape *tape, const void *argument, struct qkv_tensor *x) {
    return qkv_op_linear(tape, x, *(struct qkv_tensor *const *)argument, NULL, QKV_RESULT_FP32);
}

struct heard {
    const struct qkv_tensor *first, *second;
    int times[2];
};

static void hear(void *user, struct qkv_tensor *parameter) {
    struct heard *h = user;
    h->times[parameter == h->second]++;
}

/* Three stretches over one memory; weights are used in several of them. Gradients of weights and loss. */
static double run_tape(struct qkv_context *ctx, qkv_recompute_segment_run *run, bool checkpoint, float *gradients,
                       struct heard *heard, size_t *peak) {
    float values[2][WIDTH * WIDTH], input[ROWS * WIDTH], target[ROWS * WIDTH];
    struct qkv_random random = test_random(1);
    struct qkv_arena arena, graph_arena;
    struct qkv_tape tape;
    struct qkv_loss loss;
    for (int i = 0; i < 2; i++) test_fill(&random, values[i], WIDTH * WIDTH, 0.5F);
    test_fill(&random, input, ROWS * WIDTH, 1);
    test_fill(&random, target, ROWS * WIDTH, 1);
    memset(gradients, 0, 2 * WIDTH * WIDTH * sizeof *gradients);
    struct qkv_tensor w[2];
    for (int i = 0; i < 2; i++)
        w[i] = (struct qkv_tensor){.data = values[i],
                                   .rows = WIDTH,
                                   .columns = WIDTH,
                                   .learning.requires_grad = true,
                                   .learning.gradient = gradients + i * WIDTH * WIDTH};
    assert_ok(ctx, qkv_arena_create(ctx, &arena, 1 << 20, "test"));
    assert_ok(ctx, qkv_arena_create(ctx, &graph_arena, 1 << 16, "test"));
    qkv_tape_start(&tape, ctx, &arena, &graph_arena, true);
    qkv_tape_train(&tape, 9);
    *heard = (struct heard){.first = &w[0], .second = &w[1]};
    tape.listener = hear;
    tape.listener_user = heard;
    struct qkv_tensor *x = qkv_op_linear(&tape, qkv_tape_view(&tape, input, ROWS, WIDTH), &w[0], NULL, QKV_RESULT_FP32);
    struct qkv_tensor *memory = qkv_op_linear(&tape, x, &w[1], NULL, QKV_RESULT_FP32);
    for (int i = 0; i < 3; i++) {
        struct stretch s = {.weight = &w[i % 2], .memory = memory};
        struct qkv_tensor *other = run == run_stretch ? memory : NULL;
        x = checkpoint ? qkv_tape_recompute_segment(&tape, run, &s, sizeof s, x,
                                                    (struct qkv_tensor *[QKV_SEGMENT_OTHERS]){other})
                       : run(&tape, &s, x);
        assert_non_null(x);
    }
    qkv_op_inner_product(&tape, x, target, 1, &loss);
    assert_ok(ctx, qkv_tape_backward(&tape));
    assert_int_equal(w[0].learning.uses, 0);
    assert_int_equal(w[1].learning.uses, 0);
    *peak = arena.peak;
    qkv_arena_free(&arena);
    qkv_arena_free(&graph_arena);
    return loss.sum;
}

static void check_tape(qkv_recompute_segment_run *run) {
    struct qkv_context *ctx = fixture_context(2);
    float kept[2 * WIDTH * WIDTH], again[2 * WIDTH * WIDTH];
    struct heard heard[2];
    size_t peak[2];
    double loss = run_tape(ctx, run, false, kept, &heard[0], &peak[0]);
    assert_true(loss != 0 && loss == run_tape(ctx, run, true, again, &heard[1], &peak[1]));
    assert_memory_equal(kept, again, sizeof kept);
    assert_true(peak[1] < peak[0]);
    for (int i = 0; i < 2; i++) { /* told once for each weight, at its last use */
        assert_int_equal(heard[i].times[0], 1);
        assert_int_equal(heard[i].times[1], 1);
    }
    qkv_context_free(ctx);
}

static void test_tape(void **state) {
    (void)state;
    check_tape(run_stretch);
    check_tape(run_branches);
}

static void test_tape_shape(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    struct qkv_arena arena, graph_arena;
    struct qkv_tape tape;
    float data[8 * WIDTH] = {0};
    struct qkv_tensor w = {.data = data, .rows = 8, .columns = WIDTH}, x = {.data = data, .rows = 2, .columns = WIDTH};
    const struct qkv_tensor *argument = &w;
    assert_ok(ctx, qkv_arena_create(ctx, &arena, 1 << 16, "test"));
    assert_ok(ctx, qkv_arena_create(ctx, &graph_arena, 1 << 16, "test"));
    qkv_tape_start(&tape, ctx, &arena, &graph_arena, true);
    assert_null(qkv_tape_recompute_segment(&tape, run_wide, &argument, sizeof argument, &x,
                                           (struct qkv_tensor *[QKV_SEGMENT_OTHERS]){NULL}));
    assert_int_equal(tape.status, QKV_SHAPE);
    assert_message(ctx, "segment: x is (2,12) but the output (2,8)");
    qkv_arena_free(&arena);
    qkv_arena_free(&graph_arena);
    qkv_context_free(ctx);
}

/* ---- models ----------------------------------------------------------------------------------------------------- */

static struct qkv_pass *pass_of(struct sample *s, struct qkv_model *model, bool checkpoint) {
    struct qkv_pass *pass;
    struct qkv_pass_options o = {.size = sizeof o,
                                 .B = B,
                                 .T = T,
                                 .source_T = T,
                                 .train = true,
                                 .dropout = true,
                                 .logits = true,
                                 .checkpoint = checkpoint};
    if (qkv_pass_create(model, &o, &pass)) fail_msg("%s", qkv_message(s->ctx));
    return pass;
}

/* Two batches whose gradients add up, the second a smaller one. */
static float *run_batches(struct sample *s, struct qkv_model *model, bool checkpoint, double loss[2], float **output,
                          size_t *bytes, size_t *count) {
    struct qkv_pass *pass = pass_of(s, model, checkpoint);
    qkv_model_clear_gradients(model);
    s->batch.B = B;
    s->batch.dropout_seed = 3;
    loss[0] = forward(s, pass);
    *output = copy_output(pass);
    *bytes = qkv_pass_output(pass).bytes;
    assert_ok(s->ctx, qkv_pass_backward(pass));
    s->batch.B = B - 1;
    s->batch.dropout_seed = 4;
    loss[1] = forward(s, pass);
    assert_ok(s->ctx, qkv_pass_backward(pass));
    qkv_pass_free(pass);
    return copy_gradients(model, count);
}

static void test_grid(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 36; i++) {
        struct sample s;
        struct qkv_model *model;
        struct qkv_context_options in = {
            .size = sizeof in, .threads = 1 + (int)(i % 2), .precision = i % 5 ? QKV_FP32 : QKV_MIXED_BF16};
        start(&s, 9000 + i, (enum topology)(i % 3), &in);
        OWNED_SPEC struct qkv_spec spec = test_model_spec(s.model);
        if (i % 4) drop_everywhere(&spec, 0.25);
        assert_ok(s.ctx, qkv_model_create(s.ctx, &spec, 5, &model));
        double kept_loss[2], loss[2];
        float *kept_output, *output;
        size_t bytes, count;
        float *kept = run_batches(&s, model, false, kept_loss, &kept_output, &bytes, &count);
        float *again = run_batches(&s, model, true, loss, &output, &bytes, &count);
        assert_true(loss[0] == kept_loss[0] && loss[1] == kept_loss[1]);
        assert_memory_equal(kept_output, output, bytes);
        assert_memory_equal(kept, again, count * sizeof *kept);
        free(kept);
        free(again);
        free(kept_output);
        free(output);
        qkv_model_free(model);
        finish(&s);
    }
}

static const char *const deep[] = {"decoder.layers=12", NULL};

/* In fp32: the share that is kept is one of activations and weights, and bf16 has packed weights besides. */
static void test_memory(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    qkv_context_set_precision(ctx, QKV_FP32);
    for (int layers = 6; layers <= 12; layers += 6) {
        OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, deep);
        struct qkv_model *model;
        struct qkv_pass *pass[2];
        struct qkv_costs costs;
        spec.vocab = 50;
        assert_ok(ctx, qkv_stack_resize(ctx, &spec.decoder, layers, 1));
        assert_ok(ctx, qkv_model_create(ctx, &spec, 1, &model));
        for (int i = 0; i < 2; i++)
            assert_ok(ctx,
                      qkv_pass_create(
                          model, &QKV_OPTIONS(qkv_pass_options, .B = 8, .T = 16, .train = true, .checkpoint = i == 1),
                          &pass[i]));
        size_t kept = qkv_pass_bytes(pass[0]), checkpointed = qkv_pass_bytes(pass[1]);
        assert_true(checkpointed * (layers == 6 ? 2 : 3) < kept);
        assert_ok(ctx, qkv_measure_costs(ctx, &spec, 8, 16, &costs));
        assert_true(costs.train_bytes - costs.checkpoint_bytes + QKV_CACHE_LINE > kept - checkpointed &&
                    costs.train_bytes - costs.checkpoint_bytes < kept - checkpointed + QKV_CACHE_LINE);
        /* a third more, without the head */
        assert_true(costs.checkpoint_flops > 1.25 * costs.train_flops &&
                    costs.checkpoint_flops < 4.0 / 3 * costs.train_flops);
        qkv_pass_free(pass[0]);
        qkv_pass_free(pass[1]);
        qkv_model_free(model);
    }
    qkv_context_free(ctx);
}

static void test_refusal(void **state) {
    (void)state;
    struct sample s;
    struct qkv_pass *pass;
    start(&s, 9100, DECODER, NULL);
    struct qkv_pass_options o = {.size = sizeof o, .B = B, .T = T, .train = true, .checkpoint = true, .weights = true};
    assert_int_equal(qkv_pass_create(s.model, &o, &pass), QKV_ARGUMENT);
    assert_message(s.ctx, "choose one of checkpoint and weights");
    finish(&s);
}

/* ---- runs ------------------------------------------------------------------------------------------------------- */

static void test_runs(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(2);
    struct qkv_train_options options = fixture_options(ctx);
    double kept[6];
    options.dropout = 0.2;
    options.accumulate = 2;
    struct qkv_trainer *t = fixture_begin(ctx, fixture_run("kept"), &options);
    for (int i = 0; i < 6; i++) kept[i] = fixture_steps(ctx, t, i + 1).loss;
    size_t bytes = qkv_trainer_bytes(t);
    qkv_trainer_free(t);

    options.checkpoint_activations = true;
    const char *folder = fixture_run("checkpointed");
    t = fixture_begin(ctx, folder, &options);
    assert_true(qkv_trainer_bytes(t) < bytes);
    for (int i = 0; i < 3; i++) assert_true(fixture_steps(ctx, t, i + 1).loss == kept[i]);
    qkv_trainer_free(t);
    assert_ok(ctx, qkv_trainer_resume(ctx, folder, NULL, NULL, NULL, &t));
    assert_true(qkv_trainer_options(t)->checkpoint_activations);
    assert_true(qkv_trainer_bytes(t) < bytes);
    for (int i = 3; i < 6; i++) assert_true(fixture_steps(ctx, t, i + 1).loss == kept[i]);
    qkv_trainer_free(t);
    qkv_context_free(ctx);
}

static void test_option(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    struct qkv_train_options options;
    assert_ok(ctx, qkv_train_defaults(ctx, NULL, &options));
    assert_false(options.checkpoint_activations);
    assert_ok(ctx, qkv_train_set(ctx, &options, "checkpoint_activations", "true"));
    assert_true(options.checkpoint_activations);
    assert_int_equal(qkv_train_set(ctx, &options, "checkpoint_activations", "1"), QKV_ARGUMENT);
    assert_message(ctx, "checkpoint_activations is \"1\"; it must be true or false");

    struct qkv_run_facts facts = {.texts.data = {.bytes = 1, .tokens = 1, .vocab = 1}};
    const char *folder = fixture_run("json");
    char *json, *at;
    options.data = "text.txt";
    assert_ok(ctx, qkv_make_folder(ctx, folder));
    assert_ok(ctx, qkv_train_json_write(ctx, folder, &options, &facts));
    json = fixture_read(folder, QKV_TRAIN_FILE, NULL);
    assert_non_null(at = strstr(json, "\"checkpoint_activations\": true"));
    memcpy(strstr(at, "true"), "1234", 4);
    fixture_write(folder, QKV_TRAIN_FILE, json, strlen(json));
    assert_int_equal(qkv_train_json_read(ctx, folder, &options, &facts), QKV_FORMAT);
    assert_message(ctx, "checkpoint_activations must be true or false");
    free(json);
    qkv_context_free(ctx);
}

int main(void) {
    latents_too = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tape),   cmocka_unit_test(test_tape_shape), cmocka_unit_test(test_grid),
        cmocka_unit_test(test_memory), cmocka_unit_test(test_refusal),    cmocka_unit_test(test_runs),
        cmocka_unit_test(test_option),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
