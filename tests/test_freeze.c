/* Frozen weights: no gradient, no step, no moments; everything else is as without freezing, bit for bit. The golden
 * cases anchor the gradients themselves. */
/* labels: numeric quick */
#include "model_grid.h"
#include "weights.h"

#include "model/model.h"
#include "train/train.h"

/* A copy of a gradient; NULL where there is none. */
static float *freeze_copy(const float *x, size_t n) {
    float *copy = x ? malloc((n + 1) * sizeof *copy) : NULL;
    if (copy) memcpy(copy, x, n * sizeof *copy);
    return copy;
}

static size_t freeze_size(const struct sample *s, size_t i) {
    return qkv_array_elements(qkv_model_parameter(s->model, i));
}

static struct qkv_pass *freeze_pass(struct sample *s, bool checkpoint) {
    struct qkv_pass *pass;
    struct qkv_pass_options o = {
        .size = sizeof o, .B = B, .T = T, .source_T = T, .train = true, .checkpoint = checkpoint};
    assert_ok(s->ctx, qkv_pass_create(s->model, &o, &pass));
    return pass;
}

static void freeze_backward(struct sample *s, struct qkv_pass *pass) {
    qkv_model_clear_gradients(s->model); /* by chance nothing was frozen, and gradients are added to */
    assert_ok(s->ctx, qkv_pass_forward(pass, &s->batch));
    assert_ok(s->ctx, qkv_pass_backward(pass));
}

/* Gradients of what learns are those in `want`, of the rest there are none; the norm is of the former. */
static void freeze_check(struct sample *s, float *const *want) {
    double squares = 0;
    for (size_t i = 0; i < qkv_model_parameters(s->model); i++) {
        const float *gradient = test_gradient(s->model, i);
        const size_t n = freeze_size(s, i);
        assert_true((gradient != NULL) == qkv_model_trainable(s->model, i));
        if (!gradient) continue;
        if (memcmp(gradient, want[i], n * sizeof *gradient) != 0)
            fail_msg("%s has another gradient", qkv_model_parameter(s->model, i)->name);
        for (size_t k = 0; k < n; k++) squares += (double)gradient[k] * (double)gradient[k];
    }
    const double norm = qkv_model_gradient_norm(s->model);
    assert_true(fabs(norm - sqrt(squares)) <= 1e-6 * sqrt(squares));
}

static void what_learns_beside_frozen_weights_has_the_bits_it_has_without_them(void **state) {
    (void)state;
    for (uint64_t k = 0; k < 36; k++) {
        struct sample s;
        const struct qkv_context_options options = {.size = sizeof options, .precision = QKV_PRECISION_AUTO};
        start(&s, 300 + k, (enum topology)(k % 3), &options);
        const size_t P = qkv_model_parameters(s.model), most = k % 4 + 1;
        struct qkv_pass *pass = freeze_pass(&s, k / 3 % 2);
        freeze_backward(&s, pass);
        float **want = calloc(P, sizeof *want);
        for (size_t i = 0; i < P; i++) want[i] = freeze_copy(test_gradient(s.model, i), freeze_size(&s, i));
        for (size_t i = 0; i < P; i++) /* few, half, most or all but a few */
            assert_ok(s.ctx, qkv_model_set_trainable(s.model, i, qkv_random_below(&s.random, 5) >= most));
        freeze_backward(&s, pass); /* the pass that there was */
        freeze_check(&s, want);
        struct qkv_pass *other = freeze_pass(&s, k / 3 % 2); /* one that never knew them to learn */
        freeze_backward(&s, other);
        freeze_check(&s, want);
        assert_ok(s.ctx, qkv_model_set_trainable_all(s.model, "*", true, NULL));
        freeze_backward(&s, other); /* which needs more memory now */
        freeze_check(&s, want);
        for (size_t i = 0; i < P; i++) free(want[i]);
        free(want);
        qkv_pass_free(pass);
        qkv_pass_free(other);
        finish(&s);
    }
}

/* The first layers of a decoder, and what it reads: backward ends before them and keeps nothing of them. */
static void backward_goes_no_further_than_what_learns(void **state) {
    (void)state;
    struct sample s;
    one_kind_only = true; /* whose layers have weights of their own */
    start(&s, 77, DECODER, NULL);
    one_kind_only = false;
    struct qkv_pass *all = freeze_pass(&s, false);
    const double flops = qkv_pass_planned(all)->costs.backward.flops;
    assert_ok(s.ctx, qkv_model_set_trainable_all(s.model, "*", false, NULL));
    struct qkv_pass *none = freeze_pass(&s, false);
    assert_true(qkv_pass_planned(none)->costs.backward.flops == 0);
    freeze_backward(&s, none);
    assert_true(qkv_model_gradient_norm(s.model) == 0);
    assert_ok(s.ctx, qkv_model_set_trainable_all(s.model, "decoder.layers.1.ffn.*down.weight", true, NULL));
    struct qkv_pass *last = freeze_pass(&s, false);
    assert_true(qkv_pass_planned(last)->costs.backward.flops > 0);
    assert_true(qkv_pass_planned(last)->costs.backward.flops < flops);
    assert_true(qkv_pass_bytes(last) < qkv_pass_bytes(all));
    qkv_pass_free(all);
    qkv_pass_free(none);
    qkv_pass_free(last);
    finish(&s);
}

/* Two models with the same numbers, one with frozen weights, make the same steps, except for these weights. */
static void an_optimizer_moves_what_learns_alone(void **state) {
    (void)state;
    for (uint64_t k = 0; k < 6; k++) {
        struct sample s, t;
        start(&s, 500 + k, (enum topology)(k % 3), NULL);
        start(&t, 500 + k, (enum topology)(k % 3), NULL);
        struct qkv_optimizer_options o = qkv_optimizer_defaults();
        struct qkv_optimizer *a, *b;
        struct qkv_pass *p = freeze_pass(&s, false), *q = freeze_pass(&t, false);
        const size_t P = qkv_model_parameters(s.model);
        o.kind = (enum qkv_optimizer_kind)(k % 4); /* elementwise */
        for (size_t i = 0; i < P; i++) assert_ok(t.ctx, qkv_model_set_trainable(t.model, i, i % 3 == k % 3));
        assert_ok(s.ctx, qkv_optimizer_create(s.model, &o, &a));
        assert_ok(t.ctx, qkv_optimizer_create(t.model, &o, &b));
        assert_true(qkv_optimizer_bytes(b) < qkv_optimizer_bytes(a));
        float **before = calloc(P, sizeof *before);
        for (size_t i = 0; i < P; i++) before[i] = freeze_copy(test_weights(t.model, i), freeze_size(&t, i));
        freeze_backward(&s, p);
        freeze_backward(&t, q);
        assert_ok(s.ctx, qkv_optimizer_step(a, 1e-2, 0.5));
        assert_ok(t.ctx, qkv_optimizer_step(b, 1e-2, 0.5));
        for (size_t i = 0; i < P; i++) {
            const float *want = qkv_model_trainable(t.model, i) ? test_weights(s.model, i) : before[i];
            assert_memory_equal(test_weights(t.model, i), want, freeze_size(&t, i) * sizeof(float));
            assert_true((qkv_optimizer_moment(b, 0, i) != NULL) == qkv_model_trainable(t.model, i));
            free(before[i]);
        }
        free(before);
        const size_t learns = k % 3, frozen = (k + 1) % 3;
        float *moment = freeze_copy(qkv_optimizer_moment(b, 0, learns), freeze_size(&t, learns));
        assert_ok(t.ctx, qkv_model_set_trainable(t.model, learns, false)); /* later: its moments stay */
        freeze_backward(&t, q);
        assert_ok(t.ctx, qkv_optimizer_step(b, 1e-2, 1));
        assert_memory_equal(qkv_optimizer_moment(b, 0, learns), moment, freeze_size(&t, learns) * sizeof(float));
        free(moment);
        assert_ok(t.ctx, qkv_model_set_trainable(t.model, frozen, true));
        freeze_backward(&t, q);
        assert_status(t.ctx, qkv_optimizer_step(b, 1e-2, 1), QKV_ARGUMENT);
        assert_message(t.ctx, "was frozen when the optimizer was made");
        qkv_optimizer_free(a);
        qkv_optimizer_free(b);
        qkv_pass_free(p);
        qkv_pass_free(q);
        finish(&s);
        finish(&t);
    }
}

static void patterns_match_names(void **state) {
    (void)state;
    static const struct {
        const char *pattern, *text;
        bool matches;
    } cases[] = {{"*", "", true},
                 {"", "", true},
                 {"", "a", false},
                 {"a.b", "a.b", true},
                 {"a.b", "a-b", false},
                 {"a?c", "abc", true},
                 {"a?c", "ac", false},
                 {"*.weight", "decoder.norm.weight", true},
                 {"*.weight", "decoder.norm.bias", false},
                 {"decoder.layers.1.*", "decoder.layers.12.attn.q.weight", false},
                 {"*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
                 {"*attn.?.*", "decoder.layers.0.attn.q.weight", true},
                 {"**", "x", true},
                 {"x*", "x", true}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++)
        if (qkv_text_matches(cases[i].text, cases[i].pattern) != cases[i].matches)
            fail_msg("\"%s\" and \"%s\"", cases[i].pattern, cases[i].text);
    struct sample s;
    size_t count = 99;
    start(&s, 9, DECODER, NULL);
    const size_t P = qkv_model_parameters(s.model);
    assert_ok(s.ctx, qkv_model_set_trainable_all(s.model, "decoder.layers.0.*", false, &count));
    assert_true(count > 3 && count < P);
    for (size_t i = 0; i < P; i++)
        assert_true(qkv_model_trainable(s.model, i) !=
                    !strncmp(qkv_model_parameter(s.model, i)->name, "decoder.layers.0.", 17));
    assert_status(s.ctx, qkv_model_set_trainable_all(s.model, "decoder.layer.*", false, &count), QKV_ARGUMENT);
    assert_message(s.ctx, "no weight has a name like \"decoder.layer.*\"");
    assert_message(s.ctx, qkv_model_parameter(s.model, 0)->name);
    assert_message(s.ctx, qkv_model_parameter(s.model, P - 1)->name);
    assert_int_equal(count, 0);
    assert_status(s.ctx, qkv_model_set_trainable(s.model, P, false), QKV_ARGUMENT);
    assert_false(qkv_model_trainable(s.model, P));
    finish(&s);
}

int main(void) {
    latents_too = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_learns_beside_frozen_weights_has_the_bits_it_has_without_them),
        cmocka_unit_test(backward_goes_no_further_than_what_learns),
        cmocka_unit_test(an_optimizer_moves_what_learns_alone),
        cmocka_unit_test(patterns_match_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
