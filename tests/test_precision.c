/* Mixed precision: whole models in bf16 beside fp32, over the grid of specs. */
/* labels: numeric quick */
#include "model_grid.h"
#include "weights.h"

enum { SPECS = 12 };

static const struct qkv_context_options mixed = {.size = sizeof mixed, .precision = QKV_MIXED_BF16};

static const struct qkv_context_options exact = {.size = sizeof exact, .precision = QKV_FP32};

/* ---- near fp32 --------------------------------------------------------------------------------------------------- */

/* The results of a training pass. */
enum { LOSS, OUTPUTS, GRADIENTS, RESULTS };

struct results {
    size_t n[RESULTS];
    float *x[RESULTS];
};

static struct results results_of(struct sample *s, struct qkv_pass *pass) {
    struct results r = {.n[LOSS] = 1, .x[LOSS] = malloc(sizeof(float))};
    *r.x[LOSS] = (float)forward(s, pass);
    const struct qkv_array y = qkv_pass_output(pass);
    r.n[OUTPUTS] = qkv_array_elements(&y);
    r.x[OUTPUTS] = copy_output(pass);
    assert_ok(s->ctx, qkv_pass_backward(pass));
    r.x[GRADIENTS] = take_gradients(s, &r.n[GRADIENTS]);
    return r;
}

static void results_free(struct results *r) {
    for (int i = 0; i < RESULTS; i++) free(r->x[i]);
}

/* Each weight moves by up to the distance of two bf16 numbers of its size, uniformly: twice as far as rounding moves
 * it. */
static void move_weights(struct qkv_model *model, struct qkv_random *random) {
    for (size_t i = 0; i < qkv_model_parameters(model); i++) {
        float *w = test_weights_mutable(model, i);
        for (size_t k = 0; k < qkv_array_elements(qkv_model_parameter(model, i)); k++) {
            int exponent;
            frexpf(w[k], &exponent);
            w[k] += (float)ldexp(2 * qkv_random_uniform(random) - 1, exponent - 8);
        }
    }
}

/* A model in fp32 and in bf16 with the same weights, which are drawn again and again around the first ones. Sums over
 * all draws are kept for each number of the results. */
struct twins {
    struct sample exact, mixed;
    struct qkv_pass *exact_pass, *mixed_pass;
    struct qkv_model *weights; /* the first ones */
    struct results first;      /* with the first weights, in fp32 */
    struct qkv_random random;
    size_t draws;
    double *sum[RESULTS], *squares[RESULTS]; /* of the errors, bf16 − fp32 */
    double *moved[RESULTS];                  /* squares of fp32 − fp32 with the first weights */
};

/* place: 0: the weights of the grid; else others, which are 10% apart. */
static void twins_start(struct twins *t, uint64_t stream, enum topology topology, int place) {
    *t = (struct twins){.random = test_random(1000 + stream + 100 * (uint64_t)place)};
    start(&t->exact, stream, topology, &exact);
    start(&t->mixed, stream, topology, &mixed);
    t->exact_pass = make_pass(&t->exact, true), t->mixed_pass = make_pass(&t->mixed, true);
    for (size_t i = 0; place && i < qkv_model_parameters(t->exact.model); i++) {
        float *w = test_weights_mutable(t->exact.model, i);
        for (size_t k = 0; k < qkv_array_elements(qkv_model_parameter(t->exact.model, i)); k++)
            w[k] *= (float)(1 + 0.1 * qkv_random_normal(&t->random));
    }
    t->weights = model_like(&t->exact, qkv_model_spec(t->exact.model));
    t->first = results_of(&t->exact, t->exact_pass);
    for (int i = 0; i < RESULTS; i++)
        for (int k = 0; k < 3; k++)
            *(double **[]){&t->sum[i], &t->squares[i], &t->moved[i]}[k] = calloc(t->first.n[i], sizeof(double));
}

static void twins_free(struct twins *t) {
    for (int i = 0; i < RESULTS; i++) free(t->sum[i]), free(t->squares[i]), free(t->moved[i]);
    results_free(&t->first);
    qkv_model_free(t->weights);
    qkv_pass_free(t->exact_pass), qkv_pass_free(t->mixed_pass);
    finish(&t->exact), finish(&t->mixed);
}

static void twins_draw(struct twins *t) {
    copy_weights(t->exact.model, t->weights);
    move_weights(t->exact.model, &t->random);
    copy_weights(t->mixed.model, t->exact.model);
    struct results a = results_of(&t->exact, t->exact_pass), b = results_of(&t->mixed, t->mixed_pass);
    for (int i = 0; i < RESULTS; i++)
        for (size_t k = 0; k < a.n[i]; k++) {
            const double error = (double)b.x[i][k] - (double)a.x[i][k];
            t->sum[i][k] += error;
            t->squares[i][k] += error * error;
            t->moved[i][k] += pow((double)a.x[i][k] - (double)t->first.x[i][k], 2);
        }
    results_free(&a), results_free(&b);
    t->draws++;
}

/* Errors of some numbers of a result: their mean square; the part of it that is the same in all draws, which is 1/draws
 * for errors that have nothing to do with one another, and 1 for equal ones; and the mean square of how far moving the
 * weights moves the numbers. */
struct errors {
    double square, common, moved;
};

static struct errors errors_of(const struct twins *t, int result, size_t from, size_t n) {
    struct errors e = {0};
    for (size_t k = from; k < from + n; k++) {
        e.square += t->squares[result][k] / (double)t->draws;
        e.common += pow(t->sum[result][k] / (double)t->draws, 2);
        e.moved += t->moved[result][k] / (double)t->draws;
    }
    e.common /= e.square > 0 ? e.square : 1;
    return e;
}

/* Whether all errors look like those of rounding; else `why` says which do not: at most half of their square is the
 * same in all draws, and they are at most twice as large as what moving the weights does (0.4 to 1 times in 1,400
 * models, and 1.6 in one). The gradient of one weight is looked at where its errors are more than a hundredth of the
 * whole gradient: the gradients of some biases are zero except for rounding. */
static bool only_rounding(const struct twins *t, char why[300]) {
    static const char *const names[] = {"the loss", "the outputs", "the gradients"};
    static const char text[] = "%s: errors of %g, of which %.2f in all draws; the weights move it by %g";
    for (int i = 0; i < RESULTS; i++) {
        const struct errors e = errors_of(t, i, 0, t->first.n[i]);
        snprintf(why, 300, text, names[i], sqrt(e.square), sqrt(e.common), sqrt(e.moved));
        if (!(e.common <= 0.5 && e.square <= 4 * e.moved && e.square > 0)) return false;
    }
    double whole = 0;
    for (size_t k = 0; k < t->first.n[GRADIENTS]; k++) whole += pow((double)t->first.x[GRADIENTS][k], 2);
    for (size_t p = 0, from = 0; p < qkv_model_parameters(t->weights); p++) {
        const struct qkv_array *array = qkv_model_parameter(t->weights, p);
        const struct errors e = errors_of(t, GRADIENTS, from, qkv_array_elements(array));
        snprintf(why, 300, text, array->name, sqrt(e.square), sqrt(e.common), sqrt(e.moved));
        if (e.square > 1e-4 * whole && e.common > 0.5) return false;
        from += qkv_array_elements(array);
    }
    return true;
}

/* Draws go on where few of them cannot tell: of 64 errors along one direction, the worst case, half of the square is
 * the same once in 10^7. */
static bool twins_agree(uint64_t stream, enum topology topology, int place, char why[300]) {
    struct twins t;
    bool fine = false;
    twins_start(&t, stream, topology, place);
    for (size_t draws = 8; draws <= 64 && !fine; draws *= 2) {
        while (t.draws < draws) twins_draw(&t);
        fine = only_rounding(&t, why);
    }
    twins_free(&t);
    return fine;
}

/* This holds for steep models too, whose results move far in any precision: roundings differ from draw to draw, and the
 * weights move by twice what rounding them does. A fault's errors are the same in most draws, or larger. A number that
 * hardly moves, as a weight of attention near 1, is rounded in the same way in all draws: once in 1,400 models that is
 * most of the error. So a fault is what is found at three places, each with weights of its own. */
static void bf16_rounds_and_does_nothing_else(void **state) {
    (void)state;
    smooth_only = true;
    for (uint64_t i = 0; i < SPECS; i++) {
        char why[300];
        bool fine = false;
        for (int place = 0; place < 3 && !fine; place++)
            fine = twins_agree(900 + i, (enum topology)(i % 3), place, why);
        if (!fine) fail_msg("model %d, %s", (int)i, why);
    }
    smooth_only = false;
}

static void threads_change_no_bit_of_bf16(void **state) {
    (void)state;
    for (uint64_t i = 0; i < SPECS; i++) {
        struct results r[2];
        for (int k = 0; k < 2; k++) {
            const struct qkv_context_options options = {
                .size = sizeof options, .threads = 1 + 2 * k, .precision = QKV_MIXED_BF16};
            struct sample s;
            start(&s, 900 + i, (enum topology)(i % 3), &options);
            struct qkv_pass *pass = make_pass(&s, true);
            r[k] = results_of(&s, pass);
            qkv_pass_free(pass);
            finish(&s);
        }
        for (int k = 0; k < RESULTS; k++) assert_memory_equal(r[0].x[k], r[1].x[k], r[0].n[k] * sizeof(float));
        results_free(&r[0]), results_free(&r[1]);
    }
}

/* ---- weights, decoding, experts, memory -------------------------------------------------------------------------- */

/* After optimizer steps and after writing, a fresh model with the same weights gives the same bits: the packed copy is
 * new. */
static void packed_weights_follow_the_weights(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 6; i++) {
        struct sample s;
        struct qkv_optimizer *optimizer;
        const struct qkv_optimizer_options adamw = {.size = sizeof adamw,
                                                    .kind = QKV_OPTIMIZER_ADAMW,
                                                    .beta1 = 0.9,
                                                    .beta2 = 0.95,
                                                    .eps = 1e-8,
                                                    .weight_decay = 0.1};
        start(&s, 950 + i, (enum topology)(i % 3), &mixed);
        struct qkv_pass *pass = make_pass(&s, true);
        assert_ok(s.ctx, qkv_optimizer_create(s.model, &adamw, &optimizer));
        double before = forward(&s, pass);
        for (int step = 0; step < 3; step++) {
            assert_ok(s.ctx, qkv_pass_backward(pass));
            assert_ok(s.ctx, qkv_optimizer_step(optimizer, 0.01, 1));
            double after = forward(&s, pass);
            assert_true(after != before);
            before = after;
        }
        test_weights_mutable(s.model, 0)[0] += 3;
        const struct qkv_spec *spec = qkv_model_spec(s.model);
        struct sample fresh = s;
        assert_ok(s.ctx, qkv_model_create(s.ctx, spec, 1, &fresh.model));
        copy_weights(fresh.model, s.model);
        struct qkv_pass *other = make_pass(&fresh, true);
        assert_true(forward(&s, pass) == forward(&fresh, other));
        qkv_pass_free(other);
        qkv_model_free(fresh.model);
        qkv_pass_free(pass);
        qkv_optimizer_free(optimizer);
        finish(&s);
    }
}

/* Decoding one to four tokens at a time, by kernels for few rows, against one pass over the whole text: the same
 * bits. */
static void decoding_has_the_bits_of_a_pass_over_the_text(void **state) {
    (void)state;
    size_t tried = 0;
    latents_too = false; /* test_cached has those */
    for (uint64_t i = 0; i < 12; i++) {
        struct sample s;
        start(&s, 980 + i, DECODER, &mixed);
        s.batch.lengths = NULL;
        struct qkv_pass *pass = make_pass(&s, false);
        forward(&s, pass);
        float *whole = copy_output(pass);
        struct qkv_session *session = make_session(s.model, T);
        for (size_t t = 0, n; t < T; t += n) {
            n = i % 3 ? (size_t)test_between(&s.random, 1, 4) : 1;
            if (n > T - t) n = T - t;
            assert_ok(s.ctx, qkv_session_append(session, s.ids + t, n));
            const float *logits = qkv_session_logits(session), *expected = whole + (t + n - 1) * VOCAB;
            if (memcmp(logits, expected, VOCAB * sizeof(float)))
                fail_msg("spec %d: the logits of position %zu are off by %g", (int)i, t + n - 1,
                         test_relative_error(logits, expected, VOCAB));
            tried += n;
        }
        free(whole);
        qkv_session_free(session);
        qkv_pass_free(pass);
        finish(&s);
    }
    assert_true(tried == 12 * T);
    latents_too = true;
}

/* The start of the tests of experts: a model of `json`, with the parameters whose names contain `part` multiplied by
 * `factor`. */
struct routed_model {
    struct qkv_context *ctx;
    struct qkv_model *model;
};

static struct routed_model routed_model(enum qkv_precision precision, const char *json, const char *part,
                                        float factor) {
    const struct qkv_context_options options = {.size = sizeof options, .precision = precision};
    struct routed_model r;
    OWNED_SPEC struct qkv_spec spec = {0};
    assert_int_equal(qkv_context_create(&r.ctx, &options), QKV_OK);
    assert_ok(r.ctx, qkv_spec_parse(r.ctx, &spec, "spec", json, strlen(json), NULL, 0));
    assert_ok(r.ctx, qkv_model_create(r.ctx, &spec, 1, &r.model));
    for (size_t p = 0; p < qkv_model_parameters(r.model); p++)
        for (size_t k = 0; strstr(qkv_model_parameter(r.model, p)->name, part) &&
                           k < qkv_array_elements(qkv_model_parameter(r.model, p));
             k++)
            test_weights_mutable(r.model, p)[k] *= factor;
    return r;
}

static struct qkv_pass *routed_forward(const struct routed_model *r, const struct qkv_pass_options *o,
                                       const struct qkv_batch *batch) {
    struct qkv_pass *pass;
    assert_ok(r->ctx, qkv_pass_create(r->model, o, &pass));
    assert_ok(r->ctx, qkv_pass_forward(pass, batch));
    return pass;
}

static void routed_free(struct routed_model *r, struct qkv_pass *pass) {
    qkv_pass_free(pass);
    qkv_model_free(r->model);
    qkv_context_free(r->ctx);
}

/* The loss of a batch, and the gradient of the router, of which one weight is given; the caller's. */
static double routed_loss(float weight, float **gradient, size_t *count) {
    static const char json[] = "{\"format\": \"qkv\", \"version\": 2, \"vocab\": 7, \"d_model\": 32, \"context\": 12,"
                               " \"decoder\": {\"layers\": 1, \"attention\": {\"heads\": 2},"
                               " \"ffn\": {\"d_ff\": 8, \"experts\": {\"count\": 3, \"top_k\": 3}}}}";
    const int32_t ids[24] = {0, 1, 2, 3, 4, 5, 6, 0, 2, 4, 6, 1, 3, 5, 0, 3, 6, 2, 5, 1, 4, 0, 4, 1};
    const int32_t targets[24] = {1, 2, 3, 4, 5, 6, 0, 2, 4, 6, 1, 3, 5, 0, 3, 6, 2, 5, 1, 4, 0, 4, 1, 5};
    const struct qkv_batch batch = {.B = 2, .T = 12, .ids = ids, .targets = targets};
    const struct qkv_pass_options o = {.size = sizeof o, .B = 2, .T = 12, .train = true};
    struct routed_model r = routed_model(QKV_MIXED_BF16, json, ".ffn.", 30); /* so that it matters what is chosen */
    size_t router = 0;
    while (!strstr(qkv_model_parameter(r.model, router)->name, "router")) router++;
    test_weights_mutable(r.model, router)[0] = weight;
    struct qkv_pass *pass = routed_forward(&r, &o, &batch);
    const double loss = qkv_pass_loss(pass, NULL);
    assert_ok(r.ctx, qkv_pass_backward(pass));
    *count = qkv_array_elements(qkv_model_parameter(r.model, router));
    *gradient = malloc(*count * sizeof **gradient);
    memcpy(*gradient, test_gradient(r.model, router), *count * sizeof **gradient);
    routed_free(&r, pass);
    return loss;
}

/* A router's weight that bf16 would round to 32 is not. */
static void routers_are_fp32(void **state) {
    (void)state;
    float *gradient[2];
    size_t n;
    const double loss[] = {routed_loss(32, &gradient[0], &n), routed_loss(32.05F, &gradient[1], &n)};
    assert_true(loss[0] != loss[1]);
    assert_memory_not_equal(gradient[0], gradient[1], n * sizeof(float));
    free(gradient[0]), free(gradient[1]);
}

/* The logits of `rows` of three sequences, from the `first` on; the caller's. */
enum { ROUTED_B = 3, ROUTED_T = 12, ROUTED_V = 7 };
static float *routed_logits(enum qkv_precision precision, size_t first, size_t rows) {
    static const char json[] = "{\"format\": \"qkv\", \"version\": 2, \"vocab\": 7, \"d_model\": 32, \"context\": 12,"
                               " \"decoder\": {\"layers\": 2, \"attention\": {\"heads\": 2}, \"ffn\": {\"d_ff\": 24,"
                               " \"experts\": {\"count\": 5, \"top_k\": 2, \"shared\": 8}}}}";
    int32_t ids[ROUTED_B * ROUTED_T];
    for (int32_t i = 0; i < ROUTED_B * ROUTED_T; i++) ids[i] = (i * i + i / 5) % ROUTED_V;
    const struct qkv_batch batch = {.B = rows, .T = ROUTED_T, .ids = ids + first * ROUTED_T};
    const struct qkv_pass_options o = {.size = sizeof o, .B = rows, .T = ROUTED_T, .logits = true};
    struct routed_model r = routed_model(precision, json, "", 4); /* so that routers choose otherwise from row to row */
    struct qkv_pass *pass = routed_forward(&r, &o, &batch);
    float *logits = copy_output(pass);
    routed_free(&r, pass);
    return logits;
}

/* Experts have as many rows as choose them: what a row gets does not depend on how many others there are, to the
 * bit. */
static void routed_rows_depend_on_no_other(void **state) {
    (void)state;
    enum { EACH = ROUTED_T * ROUTED_V };
    for (enum qkv_precision precision = QKV_FP32; precision <= QKV_MIXED_BF16; precision++) {
        float *all = routed_logits(precision, 0, ROUTED_B);
        for (size_t b = 0; b < ROUTED_B; b++) {
            float *one = routed_logits(precision, b, 1);
            assert_memory_equal(all + b * EACH, one, EACH * sizeof *one);
            free(one);
        }
        free(all);
    }
}

/* Bytes of a training pass of a GPT of so many layers. */
enum { MEMORY_B = 8, MEMORY_T = 128, MEMORY_C = 64, MEMORY_F = 4 * MEMORY_C };
static size_t pass_bytes(enum qkv_precision precision, int layers) {
    struct qkv_context *ctx;
    OWNED_SPEC struct qkv_spec spec = {0};
    struct qkv_model *model;
    struct qkv_pass *pass;
    char json[300];
    const struct qkv_pass_options options = {.size = sizeof options, .B = MEMORY_B, .T = MEMORY_T, .train = true};
    snprintf(
        json, sizeof json,
        "{\"format\": \"qkv\", \"version\": 1, \"vocab\": 50, \"d_model\": %d, \"context\": %d,"
        " \"decoder\": {\"layers\": %d, \"attention\": {\"heads\": 4}, \"ffn\": {\"kind\": \"gelu\", \"d_ff\": %d}}}",
        MEMORY_C, MEMORY_T, layers, MEMORY_F);
    assert_int_equal(qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, .precision = precision)), QKV_OK);
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "spec", json, strlen(json), NULL, 0));
    assert_ok(ctx, qkv_model_create(ctx, &spec, 1, &model));
    assert_ok(ctx, qkv_pass_create(model, &options, &pass));
    const size_t bytes = qkv_pass_bytes(pass);
    qkv_pass_free(pass);
    qkv_model_free(model);
    qkv_context_free(ctx);
    return bytes;
}

/* The results of two norms, q, k and v, the result of attention, and the hidden vector before and after its
 * activation. */
static void a_layer_saves_two_bytes_for_each_number_in_bf16(void **state) {
    (void)state;
    const size_t numbers = MEMORY_B * MEMORY_T * (6 * MEMORY_C + 2 * MEMORY_F);
    const size_t wide = pass_bytes(QKV_FP32, 4) - pass_bytes(QKV_FP32, 2);
    const size_t half = pass_bytes(QKV_MIXED_BF16, 4) - pass_bytes(QKV_MIXED_BF16, 2);
    assert_int_equal(wide - half, 2 * 2 * numbers);
}

int main(void) {
    latents_too = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bf16_rounds_and_does_nothing_else),
        cmocka_unit_test(threads_change_no_bit_of_bf16),
        cmocka_unit_test(packed_weights_follow_the_weights),
        cmocka_unit_test(decoding_has_the_bits_of_a_pass_over_the_text),
        cmocka_unit_test(routers_are_fp32),
        cmocka_unit_test(routed_rows_depend_on_no_other),
        cmocka_unit_test(a_layer_saves_two_bytes_for_each_number_in_bf16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
