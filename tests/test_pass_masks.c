/* test_pass_masks.c: dense masks of whole models in passes, over the grid of specs: against causal models, which the
 * golden cases anchor, and by properties. */
/* labels: numeric quick */
#include "model_grid.h"

#include "model/spec.h"

#include <math.h>

/* In fp32: differences of losses are compared. */
static const struct qkv_context_options exact = {.size = sizeof exact, .threads = 1, .precision = QKV_FP32};
/* In the precision of the environment. */
static const struct qkv_context_options usual = {.size = sizeof usual, .threads = 1, .precision = QKV_PRECISION_AUTO};

struct numbers {
    double loss;
    float *output, *gradients;
    size_t outputs, count;
};

static struct numbers run(struct sample *s, struct qkv_model *model, const struct qkv_batch *batch) {
    struct numbers n;
    struct qkv_pass *pass;
    const struct qkv_pass_options o = {.size = sizeof o, .B = B, .T = T, .source_T = T, .train = true, .logits = true};
    if (qkv_pass_create(model, &o, &pass) || qkv_pass_forward(pass, batch)) fail_msg("%s", qkv_message(s->ctx));
    n.loss = qkv_pass_loss(pass, NULL);
    n.outputs = qkv_pass_output(pass).bytes / sizeof(float);
    n.output = copy_output(pass);
    if (qkv_pass_backward(pass)) fail_msg("%s", qkv_message(s->ctx));
    n.gradients = copy_gradients(model, &n.count);
    qkv_model_clear_gradients(model);
    qkv_pass_free(pass);
    return n;
}

static void forget(struct numbers *n) {
    free(n->output), free(n->gradients);
}

/* A lower triangle over a model that sees everything is a causal model: rectangles with lengths and packed rows. */
static void a_lower_triangle_is_causal_attention(void **state) {
    (void)state;
    size_t tried = 0;
    for (uint64_t i = 0; tried < 30; i++) {
        struct sample s;
        start(&s, i, DECODER, &exact);
        OWNED_SPEC struct qkv_spec spec = test_model_spec(s.model);
        bool causal = !has_buckets(&spec.decoder);
        for (int k = 0; k < spec.decoder.kind_count; k++) {
            causal = causal && spec.decoder.kinds[k].attention.causal;
            spec.decoder.kinds[k].attention.causal = false;
        }
        if (!causal) {
            finish(&s);
            continue;
        }
        struct qkv_model *open = model_like(&s, &spec);
        uint8_t triangle[T * T];
        for (size_t t = 0; t < T; t++)
            for (size_t j = 0; j < T; j++) triangle[t * T + j] = j <= t;
        struct qkv_batch masked = s.batch;
        masked.mask = (struct qkv_dense_mask){triangle, {.B = 1, .H = 1, .Tq = T, .Tk = T}};
        if (tried++ % 2) s.batch.lengths = masked.lengths = NULL;
        struct numbers want = run(&s, s.model, &s.batch), got = run(&s, open, &masked);
        if (!(fabs(got.loss - want.loss) <= 1e-5 * fmax(1, fabs(want.loss))))
            fail_msg("case %d: a loss of %.9g, not %.9g", (int)i, got.loss, want.loss);
        const double apart = test_relative_error(got.gradients, want.gradients, want.count);
        if (!(apart <= 1e-3)) fail_msg("case %d: gradients %g apart", (int)i, apart);
        forget(&want), forget(&got);
        qkv_model_free(open);
        finish(&s);
    }
}

/* A mask for each row of the batch, with all of `shape` left at 0: (B,1,T,T). Only position `hidden` of row b sees
 * itself. */
static void hide(uint8_t mask[B * T * T], struct qkv_random *r, const size_t hidden[B]) {
    for (size_t b = 0; b < B; b++)
        for (size_t t = 0; t < T; t++)
            for (size_t j = 0; j < T; j++)
                mask[(b * T + t) * T + j] = j == hidden[b] ? t == j : j == t || qkv_random_below(r, 4) > 0;
}

/* Another id, which is no mask of the first stack's embedding: those are counted wherever they are. */
static int32_t another_id(const struct sample *s, int32_t id) {
    const struct qkv_masked_spec *masked = &qkv_model_spec(s->model)->encoder.embed.masked;
    const int32_t next = (id + 1) % VOCAB;
    return masked->given && next == masked->token ? (next + 1) % VOCAB : next;
}

static void nobody_sees_a_masked_position(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 40; i++) {
        struct sample s;
        start(&s, 100 + i, i % 2 ? DECODER : ENCODER, &usual);
        uint8_t mask[B * T * T];
        size_t hidden[B];
        for (size_t b = 0; b < B; b++) {
            hidden[b] = qkv_random_below(&s.random, T);
            s.ids[b * T + hidden[b]] = another_id(&s, s.ids[b * T + hidden[b]]);
        }
        hide(mask, &s.random, hidden);
        s.batch.mask.data = mask;
        struct numbers before = run(&s, s.model, &s.batch);
        for (size_t b = 0; b < B; b++) s.ids[b * T + hidden[b]] = another_id(&s, s.ids[b * T + hidden[b]]);
        struct numbers after = run(&s, s.model, &s.batch);
        for (size_t n = 0; n < (size_t)B * T; n++)
            if (n % T != hidden[n / T])
                if (memcmp(before.output + n * VOCAB, after.output + n * VOCAB, VOCAB * sizeof(float)))
                    fail_msg("case %d: position %zu of row %zu has seen position %zu", (int)i, n % T, n / T,
                             hidden[n / T]);
        assert_memory_not_equal(before.output, after.output, before.outputs * sizeof(float));
        for (size_t g = 0; g < after.count; g++) assert_true(isfinite(after.gradients[g]));
        forget(&before), forget(&after);
        finish(&s);
    }
}

static void a_source_that_cross_attention_does_not_see_changes_nothing(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 30; i++) {
        struct sample s;
        start(&s, 200 + i, BOTH, &usual);
        uint8_t source[B * T * T], cross[B * T * T], self[B * T * T];
        size_t hidden[B];
        s.batch.source_lengths = NULL;
        for (size_t b = 0; b < B; b++) {
            hidden[b] = qkv_random_below(&s.random, T);
            s.source[b * T + hidden[b]] = another_id(&s, s.source[b * T + hidden[b]]);
        }
        hide(source, &s.random, hidden);
        for (size_t n = 0; n < sizeof self; n++) self[n] = n % T == n / T % T || qkv_random_below(&s.random, 3) > 0;
        for (size_t n = 0; n < sizeof cross; n++) cross[n] = n % T != hidden[n / T / T];
        s.batch.mask.data = self, s.batch.source_mask.data = source, s.batch.cross_mask.data = cross;
        struct numbers before = run(&s, s.model, &s.batch);
        for (size_t b = 0; b < B; b++) s.source[b * T + hidden[b]] = another_id(&s, s.source[b * T + hidden[b]]);
        struct numbers after = run(&s, s.model, &s.batch);
        assert_memory_equal(before.output, after.output, before.outputs * sizeof(float));
        forget(&after);
        s.batch.cross_mask.data = NULL; /* seen */
        after = run(&s, s.model, &s.batch);
        assert_memory_not_equal(before.output, after.output, before.outputs * sizeof(float));
        forget(&before), forget(&after);
        finish(&s);
    }
}

/* A pass made for batches without masks takes some with one, and goes on as before. */
static void batches_with_and_without_masks_take_turns(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 20; i++) {
        struct sample s;
        start(&s, 300 + i, i % 2 ? DECODER : BOTH, &usual);
        uint8_t mask[T * T];
        for (size_t n = 0; n < sizeof mask; n++)
            mask[n] = qkv_random_below(&s.random, 2) > 0; /* some rows see nothing */
        struct qkv_batch masked = s.batch;
        masked.mask = (struct qkv_dense_mask){mask, {.B = 1, .H = 1, .Tq = T, .Tk = T}};
        struct numbers plain = run(&s, s.model, &s.batch), other = run(&s, s.model, &masked);
        struct qkv_pass *pass = make_pass(&s, true);
        for (int turn = 0; turn < 4; turn++) {
            const struct numbers *want = turn % 2 ? &other : &plain;
            if (qkv_pass_forward(pass, turn % 2 ? &masked : &s.batch)) fail_msg("%s", qkv_message(s.ctx));
            assert_memory_equal(qkv_pass_output(pass).data, want->output, want->outputs * sizeof(float));
            assert_ok(s.ctx, qkv_pass_backward(pass));
            size_t count;
            float *gradients = take_gradients(&s, &count);
            assert_memory_equal(gradients, want->gradients, count * sizeof *gradients);
            for (size_t g = 0; g < count; g++) assert_true(isfinite(gradients[g]));
            free(gradients);
        }
        qkv_pass_free(pass);
        forget(&plain), forget(&other);
        finish(&s);
    }
}

static void weights_of_masked_keys_are_zero(void **state) {
    (void)state;
    struct sample s;
    start(&s, 400, DECODER, &usual);
    uint8_t mask[B * T * T];
    const size_t hidden[B] = {1, 0};
    float weights[T * T];
    struct qkv_array attention;
    struct qkv_pass *pass;
    const struct qkv_pass_options o = {.size = sizeof o, .B = B, .T = T, .source_T = T, .weights = true};
    hide(mask, &s.random, hidden);
    s.batch.lengths = NULL;
    s.batch.mask.data = mask;
    assert_ok(s.ctx, qkv_pass_create(s.model, &o, &pass));
    assert_ok(s.ctx, qkv_pass_forward(pass, &s.batch));
    for (size_t a = 0; qkv_pass_attention(pass, a, &attention); a++)
        for (size_t b = 0; b < B; b++) {
            assert_ok(s.ctx, qkv_pass_weights(pass, a, QKV_ATTENTION_WEIGHTS, b, 0, 0, T, weights));
            for (size_t n = 0; n < (size_t)T * T; n++)
                if (!mask[b * T * T + n]) assert_true(weights[n] == 0);
        }
    qkv_pass_free(pass);
    finish(&s);
}

static void masks_that_do_not_fit_are_refused(void **state) {
    (void)state;
    struct sample s;
    start(&s, 500, DECODER, &usual);
    static const uint8_t mask[B * T * T];
    struct qkv_pass *pass = make_pass(&s, false);
    s.batch.cross_mask.data = mask;
    assert_status(s.ctx, qkv_pass_forward(pass, &s.batch), QKV_ARGUMENT);
    assert_message(s.ctx, "cross_mask");
    s.batch.cross_mask.data = NULL, s.batch.source_mask.data = mask;
    assert_status(s.ctx, qkv_pass_forward(pass, &s.batch), QKV_ARGUMENT);
    assert_message(s.ctx, "source_mask");
    s.batch.source_mask.data = NULL;
    s.batch.mask = (struct qkv_dense_mask){mask, {.B = B, .H = 1, .Tq = T - 1, .Tk = T}};
    assert_status(s.ctx, qkv_pass_forward(pass, &s.batch), QKV_SHAPE);
    qkv_pass_free(pass);
    finish(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lower_triangle_is_causal_attention),
        cmocka_unit_test(nobody_sees_a_masked_position),
        cmocka_unit_test(a_source_that_cross_attention_does_not_see_changes_nothing),
        cmocka_unit_test(batches_with_and_without_masks_take_turns),
        cmocka_unit_test(weights_of_masked_keys_are_zero),
        cmocka_unit_test(masks_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
