/* Fused operators: the same bits, forward and backward, as the operators that they replace, in both precisions. */
/* labels: numeric quick */
#include "op_fixture.h"

struct fused {
    bool together, gated, residual;
    enum qkv_ffn_kind kind;
    float scale; /* of what is added to the residual */
};

static struct qkv_tensor *build_fused(struct fixture *f) {
    const struct fused *o = f->options;
    struct qkv_tape *tape = &f->tape;
    struct qkv_tensor *x = &f->leaves[0], *up = &f->leaves[1], *bias = &f->leaves[2], *down = &f->leaves[3];
    struct qkv_tensor *hidden;
    if (o->together) {
        hidden = qkv_op_linear_activation(tape, x, up, bias, o->kind, o->gated, 0.7F);
        return o->residual ? qkv_op_linear_add(tape, hidden, down, NULL, x, o->scale)
                           : qkv_op_linear(tape, hidden, down, NULL, QKV_RESULT_FP32);
    }
    hidden = qkv_op_linear(tape, x, up, bias, QKV_RESULT_FOR_PRODUCTS);
    hidden = o->gated ? qkv_op_gated(tape, hidden, o->kind, 0.7F) : qkv_op_activation(tape, hidden, o->kind);
    hidden = qkv_op_linear(tape, hidden, down, NULL, QKV_RESULT_FP32);
    return o->residual ? qkv_op_add(tape, x, hidden, o->scale) : hidden;
}

static float *gradients_of(struct fixture *f, size_t *count) {
    *count = 0;
    for (size_t l = 0; l < f->leaf_count; l++) *count += f->leaves[l].rows * f->leaves[l].columns;
    float *all = malloc(*count * sizeof(float)), *to = all;
    for (size_t l = 0; l < f->leaf_count; l++) {
        const size_t n = f->leaves[l].rows * f->leaves[l].columns;
        memcpy(to, f->leaves[l].learning.gradient, n * sizeof(float));
        memset(f->leaves[l].learning.gradient, 0, n * sizeof(float));
        to += n;
    }
    return all;
}

/* Overwrites memory, so that results of the run before cannot pass as results of the next one. */
static void spoil(struct fixture *f) {
    const size_t bytes = f->arena.peak;
    qkv_arena_release(&f->arena, 0);
    void *all = qkv_arena_take(&f->arena, bytes, 1);
    if (all) memset(all, 0xff, bytes);
    qkv_arena_release(&f->arena, 0);
}

static void test_fused(void **state) {
    (void)state;
    static const size_t shapes[][3] = {{1, 24, 40},  {2, 33, 64},    {7, 20, 130},
                                       {70, 96, 40}, {300, 64, 256}, {640, 48, 96}};
    for (uint64_t i = 0; i < 2 * TEST_COUNT(shapes) * 2; i++) {
        const size_t *shape = shapes[i / 4];
        const enum qkv_ffn_kind kind = (enum qkv_ffn_kind)(i % QKV_FFN_COUNT);
        struct fused o = {
            .gated = qkv_ffn_gated(kind), .residual = i % 3 != 0, .kind = kind, .scale = i % 5 < 3 ? 1 : -0.37F};
        struct fixture f;
        start(&f, 700 + i);
        f.ctx->precision = i / 2 % 2 ? QKV_MIXED_BF16 : QKV_FP32;
        f.options = &o;
        leaf(&f, shape[0], shape[1], 0);
        leaf(&f, shape[2] * (o.gated ? 2 : 1), shape[1], 0);
        leaf(&f, 1, shape[2] * (o.gated ? 2 : 1), 0);
        leaf(&f, shape[1], shape[2], 0);
        size_t n;
        const double apart = evaluate(&f, build_fused, true);
        float *one = gradients_of(&f, &n);
        o.together = true;
        spoil(&f);
        const double together = evaluate(&f, build_fused, true);
        float *other = gradients_of(&f, &n);
        assert_true(apart == together);
        assert_memory_equal(one, other, n * sizeof(float));
        spoil(&f);
        assert_true(evaluate(&f, build_fused, false) == together);
        free(one);
        free(other);
        finish(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
