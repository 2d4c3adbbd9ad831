/* Encoders, decoders and both together, over the grid of specs: what a position of a decoder sees of its source, heads
 * of every kind with their gradients, and that every spec learns. */
/* labels: numeric quick */
#include "model_grid.h"

enum { CLASSES = 5 };

/* ---- the source ------------------------------------------------------------------------------------------------- */

static bool sees_all(const struct qkv_spec *spec) {
    return spec->decoder.kinds[0].cross.window == 0 && spec->encoder.kinds[0].attention.window == 0;
}

/* A changed token of the source changes the scores at every position of the target, unless it is padding, which changes
 * none. */
static void a_token_of_the_source_reaches_every_position_unless_it_is_padding(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 40; i++) {
        struct sample s;
        start(&s, 7000 + i, BOTH, NULL);
        struct qkv_pass *pass = make_pass(&s, false);
        bool seen = sees_all(qkv_model_spec(s.model));
        s.source_lengths[1] = T / 2;
        s.lengths[1] = T;
        forward(&s, pass);
        float *before = copy_output(pass);
        for (size_t j = 0; j < T; j++) {
            int32_t *id = &s.source[T + j];
            *id = (*id + 1) % VOCAB;
            forward(&s, pass);
            const float *after = qkv_pass_output(pass).data;
            assert_memory_equal(before, after, (size_t)T * VOCAB * sizeof(float)); /* another row's source */
            for (size_t t = T; t < 2 * (size_t)T; t++) {
                bool same = !memcmp(before + t * VOCAB, after + t * VOCAB, VOCAB * sizeof(float));
                if (j >= T / 2 ? !same : seen && same)
                    fail_msg("model %d: source token %zu of %d %s position %zu", (int)i, j, T / 2,
                             same ? "does not reach" : "is padding but reaches", t - T);
            }
            *id = (*id + VOCAB - 1) % VOCAB;
        }
        free(before);
        qkv_pass_free(pass);
        finish(&s);
    }
}

/* ---- learning --------------------------------------------------------------------------------------------------- */

static const char *head_of(struct qkv_random *r, enum topology topology, int *classes) {
    *classes = 0;
    if (topology != ENCODER || qkv_random_below(r, 3) == 0) return "lm";
    *classes = CLASSES;
    return qkv_random_below(r, 2) ? "first" : "mean";
}

/* A sample like the grid's, but with a head of any kind. */
static void start_learning(struct sample *s, uint64_t stream, enum topology topology) {
    int classes;
    start(s, stream, topology, NULL);
    const char *head = head_of(&s->random, topology, &classes);
    OWNED_SPEC struct qkv_spec spec = test_model_spec(s->model);
    if (!classes) return;
    spec.head.kind = QKV_HEAD_CLASSIFY;
    spec.head.classes = classes;
    spec.head.bias = true;
    spec.head.pool = strcmp(head, "first") ? QKV_POOL_MEAN : QKV_POOL_FIRST;
    spec.tie = QKV_TIE_NONE;
    qkv_model_free(s->model);
    assert_ok(s->ctx, qkv_model_create(s->ctx, &spec, qkv_random_bits(&s->random), &s->model));
    for (size_t b = 0; b < B; b++) {
        s->targets[b] = (int32_t)qkv_random_below(&s->random, CLASSES);
        if (s->lengths[b] == 0) s->lengths[b] = 1;
    }
}

/* The lowest loss of so many steps, as a share of the first one. */
static double learnt(struct sample *s, struct qkv_pass *pass, double rate, int steps) {
    const struct qkv_optimizer_options o = {
        .size = sizeof o, .kind = QKV_OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8};
    double first = 0, lowest = INFINITY;
    struct qkv_optimizer *optimizer;
    assert_ok(s->ctx, qkv_optimizer_create(s->model, &o, &optimizer));
    for (int step = 0; step < steps && !(lowest < 0.8 * first); step++) {
        qkv_model_clear_gradients(s->model);
        const double loss = forward(s, pass);
        if (step == 0) first = loss;
        lowest = fmin(lowest, loss);
        assert_ok(s->ctx, qkv_pass_backward(pass));
        const double norm = qkv_model_gradient_norm(s->model);
        assert_true(isfinite(loss) && isfinite(norm));
        assert_ok(s->ctx, qkv_optimizer_step(optimizer, rate, norm > 1 ? 1 / norm : 1));
    }
    qkv_optimizer_free(optimizer);
    return lowest / first;
}

/* No step length is right for all models: where one does not bring the loss down, half of it does, from the first
 * weights on. */
static void every_spec_learns_its_batch(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 45; i++) {
        struct sample s;
        start_learning(&s, 8000 + i, (enum topology)(i % 3));
        struct qkv_pass *pass = make_pass(&s, true);
        struct qkv_model *first = model_like(&s, qkv_model_spec(s.model));
        double share = 1;
        for (int halvings = 0; halvings < 5 && !(share < 0.8); halvings++) {
            copy_weights(s.model, first);
            share = learnt(&s, pass, ldexp(5e-3, -halvings), 40 << halvings);
        }
        if (!(share < 0.8)) fail_msg("model %d: the loss is never below %g of the first one", (int)i, share);
        qkv_model_free(first);
        qkv_pass_free(pass);
        finish(&s);
    }
}

int main(void) {
    latents_too = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_of_the_source_reaches_every_position_unless_it_is_padding),
        cmocka_unit_test(every_spec_learns_its_batch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
