/* The defaults of the structs that callers fill are those of their comments, and calls accept them unchanged. */
/* labels: quick */
#include "train_fixture.h"
#include "weights.h"

static void a_context_of_the_defaults_is_one_without_options(void **state) {
    (void)state;
    const struct qkv_context_options options = qkv_context_defaults();
    struct qkv_context *with, *without;
    assert_int_equal(qkv_context_create(&with, &options), QKV_OK);
    assert_int_equal(qkv_context_create(&without, NULL), QKV_OK);
    assert_string_equal(qkv_context_isa(with), qkv_context_isa(without));
    assert_int_equal(qkv_context_threads(with), qkv_context_threads(without));
    assert_int_equal(qkv_context_precision(with), QKV_FP32);
    assert_int_equal(qkv_context_precision(without), QKV_FP32);
    qkv_context_free(with);
    qkv_context_free(without);
}

static void a_tokenizer_of_the_defaults_merges_bytes_to_1024_tokens(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    const struct qkv_tokenizer_options options = qkv_tokenizer_defaults();
    struct qkv_tokenizer *tokenizer;
    size_t size = 0;
    char *text;
    struct qkv_random random = qkv_random_start(1, 2);
    struct qkv_buffer words = {0};
    for (size_t i = 0; i < 20000; i++)
        assert_ok(ctx, qkv_buffer_print(ctx, &words, "%x ", (unsigned)qkv_random_below(&random, 4096)));
    text = words.data, size = words.size;
    assert_ok(ctx, qkv_tokenizer_train(ctx, &options, text, size, &tokenizer));
    assert_int_equal(qkv_tokenizer_vocab(tokenizer), 1024);
    qkv_tokenizer_free(tokenizer);
    qkv_buffer_free(&words);
    qkv_context_free(ctx);
}

static void an_optimizer_of_the_defaults_is_that_of_a_run(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    const struct qkv_optimizer_options optimizer = qkv_optimizer_defaults();
    struct qkv_train_options run;
    assert_ok(ctx, qkv_train_defaults(ctx, NULL, &run));
    assert_string_equal(run.optimizer, "adamw");
    assert_int_equal(optimizer.kind, QKV_OPTIMIZER_ADAMW);
    assert_true(optimizer.beta1 == run.beta1 && optimizer.beta2 == run.beta2 && optimizer.eps == run.eps);
    assert_true(optimizer.momentum == run.momentum && optimizer.weight_decay == run.weight_decay);
    qkv_context_free(ctx);
}

/* Each struct of an attention begins as its defaults, and what is filled in after is all that a call takes up. */
static void attention_begun_with_the_defaults_is_plain_attention(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    float q[2] = {0, 0}, k[4] = {1, 2, 3, 4}, v[2] = {1, 5}, y[1] = {0}, lse[1], dy[1] = {1}, dv[2] = {9, 9};
    const uint8_t open[2] = {1, 0};
    struct qkv_attention_call call = qkv_attention_call_defaults();
    struct qkv_attention_gradients gradients = qkv_attention_gradients_defaults();
    struct qkv_mask mask = qkv_mask_defaults();
    struct qkv_pair_shape shape = qkv_pair_shape_defaults();
    struct qkv_view view = qkv_view_defaults();
    view.data = q, view.B = view.H = view.T = 1, view.D = 2;
    call.q = view, call.k = qkv_view_bhtd(k, QKV_F32, 1, 1, 2, 2), call.v = qkv_view_bhtd(v, QKV_F32, 1, 1, 2, 1);
    call.y = qkv_view_bhtd(y, QKV_F32, 1, 1, 1, 1), call.lse = lse, call.mask = mask;
    assert_ok(ctx, qkv_attention_forward(ctx, &call));
    assert_true(y[0] == 3 && fabsf(lse[0] - logf(2)) < 1e-6f);
    gradients.dy = qkv_view_bhtd(dy, QKV_F32, 1, 1, 1, 1), gradients.dv = qkv_view_bhtd(dv, QKV_F32, 1, 1, 2, 1);
    assert_ok(ctx, qkv_attention_backward(ctx, &call, &gradients));
    assert_true(fabsf(dv[0] - 0.5f) < 1e-6f && fabsf(dv[1] - 0.5f) < 1e-6f);
    shape.B = shape.H = shape.Tq = 1, shape.Tk = 2;
    call.dense = open, call.dense_shape = shape;
    assert_ok(ctx, qkv_attention_forward(ctx, &call));
    assert_true(y[0] == 1);

    float table[2] = {0, 1}, turned[2] = {3, 4};
    struct qkv_rotation rotation = qkv_rotation_defaults();
    const struct qkv_view x = qkv_view_bhtd(turned, QKV_F32, 1, 1, 1, 2);
    rotation.table = table, rotation.count = rotation.pairs = 1;
    assert_ok(ctx, qkv_rotate(ctx, &x, &rotation));
    assert_true(turned[0] == -4 && turned[1] == 3);
    qkv_context_free(ctx);
}

static void modules_run_with_the_defaults(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    struct qkv_attention_module_spec spec = qkv_attention_module_spec_defaults();
    struct qkv_module_input input = qkv_module_input_defaults();
    struct qkv_module *attention;
    float x[24], y[24], z[24], dx[24];
    for (size_t e = 0; e < 24; e++) x[e] = (float)(e % 7);
    spec.in = 8, spec.attention.heads = 2;
    assert_ok(ctx, qkv_module_create_attention(ctx, &spec, 1, &attention));
    assert_int_equal(qkv_module_attention_spec(attention)->out, 8);
    input.x = (struct qkv_vectors){x, 1, 3, 8};
    assert_ok(ctx, qkv_module_forward(attention, &input, (struct qkv_vectors){y, 1, 3, 8}));
    assert_true(isfinite(y[0]) && y[0] != 0);
    qkv_module_free(attention);

    OWNED_SPEC struct qkv_spec model = fixture_spec(ctx, NULL);
    struct qkv_module *norm;
    struct qkv_module_input in = qkv_module_input_defaults();
    struct qkv_module_gradients gradients = qkv_module_gradients_defaults();
    struct qkv_vectors vectors = qkv_vectors_defaults();
    model.d_model = 8;
    in.self = qkv_module_mask_defaults();
    vectors.data = x, vectors.B = 1, vectors.T = 3, vectors.C = 8;
    in.x = vectors, in.train = true;
    assert_ok(ctx, qkv_module_create(ctx, &model, &QKV_OPTIONS(qkv_module_options, .kind = QKV_MODULE_NORM, .seed = 1),
                                     &norm));
    assert_ok(ctx, qkv_module_forward(norm, &in, (struct qkv_vectors){z, 1, 3, 8}));
    gradients.x = (struct qkv_vectors){dx, 1, 3, 8};
    assert_ok(ctx, qkv_module_backward(norm, (struct qkv_vectors){y, 1, 3, 8}, &gradients));
    assert_true(isfinite(z[0]) && isfinite(dx[0]));
    qkv_module_free(norm);
    qkv_context_free(ctx);
}

static void settings_and_shapes_of_the_defaults_are_none(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    const struct qkv_settings settings = qkv_settings_defaults();
    const struct qkv_pass_shape shape = qkv_pass_shape_defaults();
    OWNED_SPEC struct qkv_spec spec = {0}, same = {0};
    assert_ok(ctx, qkv_spec_vary(ctx, &spec, "nano-gpt", NULL, &settings));
    assert_ok(ctx, qkv_spec_preset(ctx, &same, "nano-gpt", NULL, 0));
    assert_int_equal(spec.d_model, same.d_model);
    assert_true(shape.B == 0 && shape.T == 0 && shape.source_T == 0);
    qkv_context_free(ctx);
}

static bool count_text(void *user, const char *text, size_t size) {
    (void)text;
    *(size_t *)user += size;
    return true;
}

/* Forward alone, 200 tokens generated, windows of the spec's context evaluated. */
static void a_model_runs_with_the_defaults(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, NULL);
    const struct qkv_tokenizer_options bytes = {.size = sizeof bytes, .kind = QKV_TOKENIZER_BYTES};
    struct qkv_tokenizer *tokenizer;
    struct qkv_model *model;
    struct qkv_pass *pass;
    struct qkv_pass_options options = qkv_pass_defaults();
    struct qkv_batch batch = qkv_batch_defaults();
    const int32_t ids[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    assert_ok(ctx, qkv_tokenizer_train(ctx, &bytes, "", 0, &tokenizer));
    spec.vocab = qkv_tokenizer_vocab(tokenizer);
    assert_ok(ctx, qkv_model_create(ctx, &spec, 1, &model));
    assert_ok(ctx, qkv_model_set_tokenizer(model, tokenizer));
    options.B = batch.B = 2;
    options.T = batch.T = 4;
    batch.ids = ids;
    assert_ok(ctx, qkv_pass_create(model, &options, &pass));
    assert_ok(ctx, qkv_pass_forward(pass, &batch));
    qkv_pass_free(pass);

    const struct qkv_generate_options generate = qkv_generate_defaults();
    struct qkv_generate_report report;
    size_t written = 0;
    assert_ok(ctx, qkv_generate(model, "a", 1, &generate, count_text, &written, &report));
    assert_int_equal(report.tokens, 200);
    assert_true(written > 0 && !report.stopped);

    const struct qkv_evaluate_options evaluate = qkv_evaluate_defaults();
    struct qkv_evaluation with, without;
    fixture_text(test_path("text.txt"), 500, 1);
    assert_ok(ctx, qkv_evaluate_text(model, &(const char *){test_path("text.txt")}, 1, &evaluate, NULL, NULL, &with));
    assert_ok(ctx, qkv_evaluate_text(model, &(const char *){test_path("text.txt")}, 1, NULL, NULL, NULL, &without));
    assert_true(with.loss == without.loss);
    qkv_model_free(model);
    qkv_context_free(ctx);
}

/* A session of the defaults has the model's whole context, and a decoder of the defaults is one row of it. */
static void a_session_and_a_decoder_of_the_defaults_have_the_same_scores(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, NULL);
    const struct qkv_session_options options = qkv_session_defaults();
    const struct qkv_decoder_options one = qkv_decoder_defaults();
    struct qkv_decoder_input input = qkv_decoder_input_defaults();
    const int32_t ids[3] = {5, 1, 2};
    struct qkv_model *model;
    struct qkv_session *session, *small;
    struct qkv_decoder *decoder;
    spec.vocab = 8;
    assert_ok(ctx, qkv_model_create(ctx, &spec, 1, &model));
    assert_ok(ctx, qkv_session_create(model, &options, &session));
    assert_ok(ctx, qkv_session_create(model, &QKV_OPTIONS(qkv_session_options, .capacity = 2), &small));
    assert_ok(ctx, qkv_decoder_create(model, &one, &decoder));
    assert_int_equal(qkv_session_capacity(session), spec.context);
    assert_int_equal(qkv_session_capacity(small), 2);
    assert_int_equal(qkv_session_append(small, ids, 3), QKV_ARGUMENT);
    for (size_t i = 0; i < 3; i++) {
        input.ids = ids + i;
        assert_ok(ctx, qkv_session_append(session, ids + i, 1));
        assert_ok(ctx, qkv_decoder_append(decoder, &input));
        assert_memory_equal(qkv_session_logits(session), qkv_decoder_logits(decoder),
                            (size_t)spec.vocab * sizeof(float));
    }
    qkv_decoder_free(decoder);
    qkv_session_free(small);
    qkv_session_free(session);
    qkv_model_free(model);
    qkv_context_free(ctx);
}

/* Without a communicator, and with that of the defaults, a context is the only rank. */
static void a_communicator_of_the_defaults_is_one_rank(void **state) {
    (void)state;
    const struct qkv_communicator alone = qkv_communicator_defaults();
    for (int i = 0; i < 2; i++) {
        struct qkv_context *ctx;
        const struct qkv_context_options options = {
            .size = sizeof options, .threads = 1, .communicator = i ? &alone : NULL};
        assert_int_equal(qkv_context_create(&ctx, &options), QKV_OK);
        assert_int_equal(qkv_context_rank(ctx), 0);
        assert_int_equal(qkv_context_ranks(ctx), 1);
        qkv_context_free(ctx);
    }
    assert_int_equal(qkv_context_ranks(NULL), 1);
}

/* A rate of 4 for all weights, and a quarter of the learning rate, is the step without it. */
static void a_rate_of_all_weights_multiplies_that_of_the_step(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, NULL);
    const struct qkv_optimizer_options plain = {.size = sizeof plain, .kind = QKV_OPTIMIZER_SGD};
    const int32_t ids[4] = {1, 2, 3, 4}, targets[4] = {2, 3, 4, 5};
    struct qkv_model *models[2];
    size_t count = 0;
    spec.vocab = 8;
    for (int i = 0; i < 2; i++) {
        struct qkv_pass *pass;
        struct qkv_optimizer *optimizer;
        const struct qkv_pass_options options = {.size = sizeof options, .B = 1, .T = 4, .train = true};
        const struct qkv_batch batch = {.B = 1, .T = 4, .ids = ids, .targets = targets};
        assert_ok(ctx, qkv_model_create(ctx, &spec, 1, &models[i]));
        if (i) assert_ok(ctx, qkv_model_set_rate_all(models[i], "*", 4, &count));
        assert_ok(ctx, qkv_optimizer_create(models[i], &plain, &optimizer));
        assert_ok(ctx, qkv_pass_create(models[i], &options, &pass));
        assert_ok(ctx, qkv_pass_forward(pass, &batch));
        assert_ok(ctx, qkv_pass_backward(pass));
        assert_ok(ctx, qkv_optimizer_step(optimizer, i ? 0.25 : 1, 1));
        qkv_pass_free(pass);
        qkv_optimizer_free(optimizer);
    }
    assert_int_equal(count, qkv_model_parameters(models[0]));
    assert_int_equal(qkv_model_set_rate_all(models[1], "nothing", 4, NULL), QKV_ARGUMENT);
    for (size_t i = 0; i < qkv_model_parameters(models[0]); i++)
        assert_memory_equal(test_weights(models[0], i), test_weights(models[1], i),
                            sizeof(float) * qkv_array_elements(qkv_model_parameter(models[0], i)));
    for (int i = 0; i < 2; i++) qkv_model_free(models[i]);
    qkv_context_free(ctx);
}

static void a_run_resumed_with_the_defaults_goes_on_as_it_was(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    const struct qkv_train_options options = fixture_options(ctx);
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, NULL);
    const struct qkv_resume_options resume = qkv_resume_defaults();
    const char *folder = fixture_run("run");
    struct qkv_trainer *trainer;
    assert_ok(ctx, qkv_trainer_create(ctx, &spec, &options, folder, NULL, NULL, &trainer));
    fixture_steps(ctx, trainer, 3);
    qkv_trainer_free(trainer);
    assert_ok(ctx, qkv_trainer_resume(ctx, folder, &resume, NULL, NULL, &trainer));
    assert_int_equal(fixture_steps(ctx, trainer, 6).steps, 6);
    qkv_trainer_free(trainer);
    qkv_context_free(ctx);
}

static void an_output_of_the_defaults_replaces_nothing(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    const struct qkv_output_options options = qkv_output_defaults();
    test_write_file(test_path("there"), "x", 1);
    assert_int_equal(qkv_output_check(ctx, test_path("there"), &options), QKV_FILE);
    assert_ok(ctx, qkv_output_check(ctx, test_path("not-there"), &options));
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_context_of_the_defaults_is_one_without_options),
        cmocka_unit_test(a_tokenizer_of_the_defaults_merges_bytes_to_1024_tokens),
        cmocka_unit_test(an_optimizer_of_the_defaults_is_that_of_a_run),
        cmocka_unit_test(a_model_runs_with_the_defaults),
        cmocka_unit_test(attention_begun_with_the_defaults_is_plain_attention),
        cmocka_unit_test(modules_run_with_the_defaults),
        cmocka_unit_test(settings_and_shapes_of_the_defaults_are_none),
        cmocka_unit_test(a_session_and_a_decoder_of_the_defaults_have_the_same_scores),
        cmocka_unit_test(a_communicator_of_the_defaults_is_one_rank),
        cmocka_unit_test(a_rate_of_all_weights_multiplies_that_of_the_step),
        cmocka_unit_test(a_run_resumed_with_the_defaults_goes_on_as_it_was),
        cmocka_unit_test(an_output_of_the_defaults_replaces_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
