/* Masked-language modelling, label smoothing and the inverse square root schedule: the rates of masks, the targets,
 * resuming bit for bit, the smoothed loss and its gradient against the definition, and every topology in training. */
/* labels: numeric */
#include "train_fixture.h"

#define FIXTURE_CONTEXT fixture_context(1)
#include "context_fixture.h"
#include "weights.h"

static const char encoder_json[] = "{\"format\":\"qkv\",\"version\":1,\"d_model\":32,\"context\":16,"
                                   "\"encoder\":{\"layers\":1,\"attention\":{\"heads\":2}}}";

static struct qkv_spec spec_of(const char *json, const char *const *settings, size_t count) {
    struct qkv_spec spec = {0};
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "fixture", json, strlen(json), settings, count));
    return spec;
}

/* ---- masks ------------------------------------------------------------------------------------------------------ */

static void masks_come_at_their_rates(void **state) {
    (void)state;
    enum { T = 100, ROWS = 2000, VOCAB = 1000, MASK = 999 };
    struct qkv_masking masking = {.probability = 0.15, .mask = MASK, .vocab = VOCAB};
    double chosen = 0, masked = 0, other = 0, same = 0;
    for (uint64_t row = 0; row < ROWS; row++) {
        struct qkv_random random = qkv_draw_masks(5, row / 4, row % 4);
        int32_t ids[T], targets[T];
        for (int t = 0; t < T; t++) ids[t] = t == 50 ? MASK : t;
        size_t n = qkv_mask_row(&masking, &random, T, ids, targets), counted = 0;
        for (int t = 0; t < T; t++) {
            if (targets[t] == QKV_IGNORE) {
                assert_int_equal(ids[t], t == 50 ? MASK : t);
                continue;
            }
            counted++;
            assert_true(targets[t] == t && t != 50); /* what was there; never a mask */
            assert_true(ids[t] >= 0 && ids[t] < VOCAB);
            masked += ids[t] == MASK;
            same += ids[t] == t;
            other += ids[t] != MASK && ids[t] != t;
        }
        assert_int_equal(n, counted);
        chosen += (double)n;
    }
    assert_close(chosen / (ROWS * (T - 1)), 0.15, 0.005); /* 6 deviations are 0.005 */
    assert_close(masked / chosen, 0.8, 0.015);
    assert_close(other / chosen, 0.1, 0.011);
    assert_close(same / chosen, 0.1, 0.011);
}

static struct qkv_train_options mask_options(void) {
    struct qkv_train_options o = fixture_options(ctx);
    o.task = "mlm";
    return o;
}

/* The words on both sides determine the hidden word, for a model that tells the sides apart, as rotated keys do
 * (ALiBi's distances are the same on both). Without its neighbours a word is one of ten: 2.3 nats. */
static void masked_tokens_are_learnt(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec spec = spec_of(encoder_json, (const char *const[]){"position.kind=rope"}, 1);
    struct qkv_train_options o = mask_options();
    const char *folder = fixture_run("masked"), sentence[] = "one two three four five six seven eight nine ten\n";
    char path[1024], text[4000];
    struct qkv_model *model;
    struct qkv_trainer *t;
    for (size_t i = 0; i < sizeof text; i++) text[i] = sentence[i % (sizeof sentence - 1)];
    snprintf(path, sizeof path, "%s", test_path("numbers.txt"));
    test_write_file(path, text, sizeof text);
    o.data = path;
    o.steps = 400;
    o.batch = 32;
    o.rate = 1e-2;
    o.warmup = 50;
    o.beta2 = 0.98;
    o.dropout = 0;
    o.tokenizer = "words";
    o.eval_every = 100;
    assert_ok(ctx, qkv_trainer_create(ctx, &spec, &o, folder, NULL, NULL, &t));
    double loss = fixture_steps(ctx, t, 400).valid_loss;
    if (!(loss < 0.5)) fail_msg("masked: validation %.3f nats", loss);
    qkv_trainer_free(t);
    assert_ok(ctx, qkv_model_load(ctx, folder, &model));
    assert_true(qkv_tokenizer_special(qkv_model_tokenizer(model), QKV_TOKEN_MASK) >= 0);
    qkv_model_free(model);
}

static void masked_runs_go_on_and_add_up(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec spec = spec_of(encoder_json, NULL, 0);
    struct qkv_train_options o = mask_options();
    struct qkv_trainer *a, *b;
    assert_ok(ctx, qkv_trainer_create(ctx, &spec, &o, fixture_run("whole"), NULL, NULL, &a));
    fixture_steps(ctx, a, 6);
    assert_ok(ctx, qkv_trainer_create(ctx, &spec, &o, fixture_run("parts"), NULL, NULL, &b));
    fixture_steps(ctx, b, 5); /* the checkpoint is that of step 3 */
    qkv_trainer_free(b);
    assert_ok(ctx, qkv_trainer_resume(ctx, test_path("parts"), NULL, NULL, NULL, &b));
    assert_int_equal(b->report.step, 3);
    fixture_steps(ctx, b, 6);
    for (size_t i = 0; i < qkv_model_parameters(a->model); i++) {
        size_t n = qkv_array_elements(qkv_model_parameter(a->model, i)) * sizeof(float);
        assert_memory_equal(test_weights(a->model, i), test_weights(b->model, i), n);
    }
    assert_true(a->report.valid_loss == b->report.valid_loss);
    qkv_trainer_free(a);
    qkv_trainer_free(b);
    double norms[2];
    for (int k = 0; k < 2; k++) {
        struct qkv_train_report report;
        o.dropout = 0;
        o.accumulate = k ? 3 : 1;
        assert_ok(ctx, qkv_trainer_create(ctx, &spec, &o, fixture_run("whole"), NULL, NULL, &a));
        assert_ok(ctx, qkv_trainer_step(a, &report));
        norms[k] = report.norm;
        qkv_trainer_free(a);
    }
    assert_close(norms[0], norms[1], 1e-4 * norms[0]);
}

static void models_must_see_both_sides(void **state) {
    (void)state;
    struct qkv_train_options o = mask_options();
    struct qkv_trainer *t;
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, NULL);
    assert_status(ctx, qkv_trainer_create(ctx, &spec, &o, fixture_run("x"), NULL, NULL, &t), QKV_SPEC);
    assert_message(ctx, "decoder.attention.causal is true: a masked token could not be seen from both sides");
    qkv_spec_free(&spec);
    spec = spec_of(encoder_json, (const char *const[]){"head.kind=none"}, 1);
    assert_status(ctx, qkv_trainer_create(ctx, &spec, &o, fixture_run("x"), NULL, NULL, &t), QKV_SPEC);
    assert_message(ctx, "needs head.kind lm");
    qkv_spec_free(&spec);
    spec = spec_of(encoder_json, NULL, 0);
    char text[1024];
    snprintf(text, sizeof text, "%s", test_path("plain.json"));
    struct qkv_tokenizer_options plain = {.size = sizeof plain, .kind = QKV_TOKENIZER_CHARS};
    struct qkv_tokenizer *tokenizer;
    assert_ok(ctx, qkv_tokenizer_train(ctx, &plain, "abc", 3, &tokenizer));
    assert_ok(ctx, qkv_tokenizer_save(ctx, tokenizer, text));
    qkv_tokenizer_free(tokenizer);
    o.tokenizer = text;
    assert_status(ctx, qkv_trainer_create(ctx, &spec, &o, fixture_run("x"), NULL, NULL, &t), QKV_ARGUMENT);
    assert_message(ctx, "which has no special token <mask>");
    o = mask_options();
    o.mask_probability = 0;
    assert_status(ctx, qkv_trainer_create(ctx, &spec, &o, fixture_run("x"), NULL, NULL, &t), QKV_ARGUMENT);
    assert_message(ctx, "mask_probability is 0; it must be greater than 0 and less than 1");
    o = fixture_options(ctx);
    o.task = "chess";
    assert_status(ctx, qkv_trainer_create(ctx, &spec, &o, fixture_run("x"), NULL, NULL, &t), QKV_ARGUMENT);
    assert_message(ctx, "task is \"chess\"; it must be text or mlm");
}

/* ---- label smoothing -------------------------------------------------------------------------------------------- */

/* (1 − e)·(−log p[target]) + e·mean(−log p) of the logits that a pass gives. */
static double smoothed(const struct qkv_array *logits, const int32_t *targets, size_t rows, double e) {
    size_t V = logits->shape[logits->rank - 1], counted = 0;
    double sum = 0;
    for (size_t n = 0; n < rows; n++) {
        const float *s = (const float *)logits->data + n * V;
        double z = 0, mean = 0;
        if (targets[n] == QKV_IGNORE) continue;
        for (size_t v = 0; v < V; v++) z += exp((double)s[v]);
        for (size_t v = 0; v < V; v++) mean += (log(z) - (double)s[v]) / (double)V;
        sum += (1 - e) * (log(z) - (double)s[targets[n]]) + e * mean;
        counted++;
    }
    return sum / (double)counted;
}

static double run(struct qkv_pass *pass, const struct qkv_batch *batch) {
    assert_ok(ctx, qkv_pass_forward(pass, batch));
    return qkv_pass_loss(pass, NULL);
}

/* The same model and batch in bf16: its loss is the definition on its own scores, and its gradient is as close to
 * the fp32 `gradient` as test_precision.c requires of whole models. */
static void smoothing_in_bf16(const struct qkv_spec *spec, const struct qkv_batch *batch, const float *weights,
                              size_t i, size_t n, const float *gradient) {
    struct qkv_model *m;
    struct qkv_pass *pass;
    qkv_context_set_precision(ctx, QKV_MIXED_BF16);
    assert_ok(ctx, qkv_model_create(ctx, spec, 1, &m));
    memcpy(test_weights_mutable(m, i), weights, n * sizeof *weights);
    const struct qkv_pass_options options = {
        .size = sizeof options, .B = batch->B, .T = batch->T, .train = true, .logits = true};
    assert_ok(ctx, qkv_pass_create(m, &options, &pass));
    const double loss = run(pass, batch);
    struct qkv_array output = qkv_pass_output(pass);
    assert_close(loss, smoothed(&output, batch->targets, batch->B * batch->T, batch->label_smoothing), 1e-5);
    assert_ok(ctx, qkv_pass_backward(pass));
    double difference = 0, size = 0;
    for (size_t k = 0; k < n; k++) {
        difference += pow((double)test_gradient(m, i)[k] - (double)gradient[k], 2);
        size += pow((double)gradient[k], 2);
    }
    assert_true(difference > 0 && sqrt(difference / size) < 0.12);
    qkv_pass_free(pass);
    qkv_model_free(m);
    qkv_context_set_precision(ctx, QKV_FP32);
}

/* Differences of losses are those of fp32: a step of 1e-3 moves weights by less than the spacing of bf16 numbers. */
static void smoothing_is_its_definition_and_so_is_its_gradient(void **state) {
    (void)state;
    enum { B = 2, T = 5, V = 11 };
    qkv_context_set_precision(ctx, QKV_FP32);
    OWNED_SPEC struct qkv_spec spec = spec_of(encoder_json, (const char *const[]){"vocab=11"}, 1);
    struct qkv_random random = qkv_random_start(3, 3);
    struct qkv_model *m;
    struct qkv_pass *pass;
    int32_t ids[B * T], targets[B * T];
    assert_ok(ctx, qkv_model_create(ctx, &spec, 1, &m));
    for (size_t i = 0; i < B * T; i++) {
        ids[i] = (int32_t)qkv_random_below(&random, V);
        targets[i] = i % 4 == 3 ? QKV_IGNORE : (int32_t)qkv_random_below(&random, V);
    }
    struct qkv_batch batch = {.B = B, .T = T, .ids = ids, .targets = targets, .label_smoothing = 0.3};
    for (int logits = 0; logits < 2; logits++) { /* the gradient takes the place of the scores, or not */
        struct qkv_pass_options options = {.size = sizeof options, .B = B, .T = T, .train = true, .logits = logits};
        assert_ok(ctx, qkv_pass_create(m, &options, &pass));
        size_t P = qkv_model_parameters(m), i = 0;
        while (i < P && strcmp(qkv_model_parameter(m, i)->name, "encoder.layers.0.ffn.up.weight") != 0) i++;
        assert_true(i < P);
        size_t n = qkv_array_elements(qkv_model_parameter(m, i));
        float *w = test_weights_mutable(m, i);
        for (size_t k = 0; k < n; k++) w[k] = 0.3F * (float)qkv_random_normal(&random);
        qkv_model_clear_gradients(m);
        double loss = run(pass, &batch), slope = 0, h = 1e-3;
        if (logits) {
            struct qkv_array output = qkv_pass_output(pass);
            assert_close(loss, smoothed(&output, targets, B * T, 0.3), 1e-5);
        }
        assert_ok(ctx, qkv_pass_backward(pass));
        smoothing_in_bf16(&spec, &batch, w, i, n, test_gradient(m, i));
        float *direction = malloc(n * sizeof *direction);
        for (size_t k = 0; k < n; k++) {
            direction[k] = (float)qkv_random_normal(&random);
            slope += (double)direction[k] * (double)test_gradient(m, i)[k];
        }
        for (size_t k = 0; k < n; k++) w[k] += (float)h * direction[k];
        double up = run(pass, &batch);
        for (size_t k = 0; k < n; k++) w[k] -= 2 * (float)h * direction[k];
        double down = run(pass, &batch);
        assert_close((up - down) / (2 * h), slope, 2e-3 * (1 + fabs(slope)));
        free(direction);
        qkv_pass_free(pass);
    }
    batch.label_smoothing = 1;
    assert_ok(ctx, qkv_pass_create(m, &QKV_OPTIONS(qkv_pass_options, .B = B, .T = T), &pass));
    assert_status(ctx, qkv_pass_forward(pass, &batch), QKV_ARGUMENT);
    assert_message(ctx, "label_smoothing is 1; it must be at least 0 and less than 1");
    qkv_pass_free(pass);
    qkv_model_free(m);
}

static void the_inverse_square_root_rises_and_falls(void **state) {
    (void)state;
    struct qkv_train_options o = fixture_options(ctx);
    o.schedule = "inverse_sqrt";
    o.rate = 1;
    o.warmup = 99;
    o.steps = 1000000;
    assert_close(qkv_learning_rate(&o, NULL, 0), 0.01, 1e-12);
    assert_close(qkv_learning_rate(&o, NULL, 49), 0.5, 1e-12);
    assert_close(qkv_learning_rate(&o, NULL, 99), 1, 1e-12);
    assert_close(qkv_learning_rate(&o, NULL, 399), 0.5, 1e-12);
    assert_close(qkv_learning_rate(&o, NULL, 9999), 0.1, 1e-12);
}

/* ---- every topology --------------------------------------------------------------------------------------------- */

static void write_words(const char *path, bool labels) {
    struct qkv_random random = qkv_random_start(11, 1);
    struct qkv_buffer text = {0};
    for (int i = 0; i < 60; i++) {
        char word[12] = "";
        size_t n = 1 + (size_t)qkv_random_below(&random, 8);
        for (size_t k = 0; k < n; k++) word[k] = (char)('a' + qkv_random_below(&random, 3));
        assert_ok(ctx, qkv_buffer_print(ctx, &text, "%s\t%s\n", labels ? (n > 4 ? "long" : "short") : word, word));
    }
    test_write_file(path, text.data, text.size);
    qkv_buffer_free(&text);
}

static void a_sample_of_the_grid_trains_in_every_topology(void **state) {
    (void)state;
    static const char *const positions[] = {"none", "sinusoidal", "learned", "rope", "alibi"};
    static const char *const ffns[] = {"relu", "gelu", "swiglu", "geglu"};
    char text[1024], pairs[1024], labels[1024];
    snprintf(text, sizeof text, "%s", test_path("grid.txt"));
    snprintf(pairs, sizeof pairs, "%s", test_path("grid.pairs.tsv"));
    snprintf(labels, sizeof labels, "%s", test_path("grid.labels.tsv"));
    fixture_text(text, 1500, 4);
    write_words(pairs, false);
    write_words(labels, true);
    for (size_t i = 0; i < 20; i++) {
        char stack[400], json[1200], head[64] = "";
        bool rms = i % 3 == 1, gated = i % 4 >= 2;
        int kv = i % 2 ? 2 : 4;
        snprintf(
            stack, sizeof stack,
            "{\"layers\":1,\"attention\":{\"heads\":4,\"kv_heads\":%d},\"norm\":{\"kind\":\"%s\",\"placement\":\"%s\"},"
            "\"ffn\":{\"kind\":\"%s\",\"bias\":%s}}",
            kv, rms ? "rmsnorm" : "layernorm", i % 2 ? "post" : "pre", ffns[i % 4], gated ? "false" : "true");
        int kind = (int)(i % 4); /* decoder on text; encoder masked; encoder on labels; both on pairs */
        struct qkv_train_options o = fixture_options_on(ctx, kind < 2 ? text : NULL);
        if (kind == 1) o.task = "mlm";
        if (kind == 2) o.labeled = labels;
        if (kind == 3) o.pairs = pairs;
        if (kind == 2)
            snprintf(head, sizeof head, "\"head\":{\"kind\":\"classify\",\"pool\":\"%s\"},", i % 8 ? "mean" : "first");
        snprintf(json, sizeof json,
                 "{\"format\":\"qkv\",\"version\":1,\"d_model\":16,\"context\":16,%s%s"
                 "\"position\":{\"kind\":\"%s\"},\"encoder\":%s,\"decoder\":%s}",
                 head, kind == 3 && i % 8 == 3 ? "\"tie\":\"all\"," : "", positions[(i / 4 + i) % 5],
                 kind ? stack : "null", kind == 0 || kind == 3 ? stack : "null");
        o.steps = 20;
        o.batch = 16;
        o.rate = 1e-2;
        o.dropout = 0;
        o.eval_every = 0;
        OWNED_SPEC struct qkv_spec spec = spec_of(json, NULL, 0);
        struct qkv_trainer *t;
        assert_ok(ctx, qkv_trainer_create(ctx, &spec, &o, fixture_run("grid"), NULL, NULL, &t));
        double first = fixture_steps(ctx, t, 1).loss, last = fixture_steps(ctx, t, 20).loss;
        if (!(isfinite(last) && last < first)) fail_msg("%s: loss %g, then %g", json, first, last);
        qkv_trainer_free(t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_come_at_their_rates),
        cmocka_unit_test(masked_tokens_are_learnt),
        cmocka_unit_test(masked_runs_go_on_and_add_up),
        cmocka_unit_test(models_must_see_both_sides),
        cmocka_unit_test(smoothing_is_its_definition_and_so_is_its_gradient),
        cmocka_unit_test(the_inverse_square_root_rises_and_falls),
        cmocka_unit_test(a_sample_of_the_grid_trains_in_every_topology),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
