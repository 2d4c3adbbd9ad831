/* The term that an adapter adds to a linear layer, with and without magnitudes (DoRA): its formula, its gradients by
 * differences, and its dropout. */
/* labels: quick numeric */
#include "op_fixture.h"

enum { N = 9, IN = 13, OUT = 18 };

/* An adapter of some columns of the operand, leaves[1], of the leaves from 3 on: a and b of both parts, then m. */
struct adapted {
    struct qkv_adapter adapter;
    struct qkv_adapter_part parts[2];
    struct qkv_tensor *operands[6];
    float norms[2][OUT];
};

/* The norms are constants, whatever the rows are: these are no lengths. */
static void adapt_magnitudes(struct fixture *f, struct adapted *a) {
    a->adapter.magnitudes = true;
    for (size_t i = 0; i < 2; i++) {
        struct qkv_adapter_part *part = &a->parts[i];
        test_fill(&f->random, a->norms[i], part->b.rows, 1);
        for (size_t k = 0; k < part->b.rows; k++) a->norms[i][k] = 1.5F + fabsf(a->norms[i][k]);
        part->m = *leaf(f, 1, part->b.rows, 0);
        part->norm = a->norms[i];
        a->operands[a->adapter.operand_count++] = &part->m;
    }
}

static void adapt(struct fixture *f, struct adapted *a, float dropout, bool magnitudes) {
    static const struct {
        size_t first, rows, rank;
        float scale;
    } parts[] = {{0, 7, 2, 1.5F}, {10, 8, 3, 0.25F}};
    leaf(f, N, IN, 0);
    leaf(f, OUT, IN, 0);
    leaf(f, 1, OUT, 0);
    *a = (struct adapted){
        .adapter = {.parts = a->parts, .operands = a->operands, .count = 2, .operand_count = 4, .dropout = dropout}};
    for (size_t i = 0; i < 2; i++) {
        a->parts[i] = (struct qkv_adapter_part){.a = *leaf(f, parts[i].rank, IN, 0),
                                                .b = *leaf(f, parts[i].rows, parts[i].rank, 0),
                                                .first = parts[i].first,
                                                .scale = parts[i].scale};
        a->operands[2 * i] = &a->parts[i].a;
        a->operands[2 * i + 1] = &a->parts[i].b;
    }
    if (magnitudes) adapt_magnitudes(f, a);
    f->leaves[1].operand.adapter = &a->adapter;
}

static struct qkv_tensor *build_adapted(struct fixture *f) {
    return qkv_op_linear(&f->tape, &f->leaves[0], &f->leaves[1], &f->leaves[2], QKV_RESULT_FP32);
}

/* A residual, an activation, and x that another layer has made. */
static struct qkv_tensor *build_adapted_add(struct fixture *f) {
    struct qkv_tensor *x = qkv_op_activation(&f->tape, &f->leaves[0], QKV_FFN_SILU);
    struct qkv_tensor *y = qkv_op_linear_activation(&f->tape, x, &f->leaves[1], &f->leaves[2], QKV_FFN_SILU, false, 0);
    return qkv_op_linear_add(&f->tape, x, &f->leaves[1], &f->leaves[2], y, 0.5F);
}

static struct qkv_tensor *build_adapted_gate(struct fixture *f) {
    return qkv_op_linear_activation(&f->tape, &f->leaves[0], &f->leaves[1], &f->leaves[2], QKV_FFN_SWIGLU, true, 0);
}

static build *const builds[] = {build_adapted, build_adapted_add, build_adapted_gate};

static void gradients_of_adapters_are_slopes(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 4 * TEST_COUNT(builds); i++) {
        const uint64_t kind = i / TEST_COUNT(builds);
        struct fixture f;
        struct adapted a;
        start(&f, 900 + i);
        adapt(&f, &a, kind % 2 ? 0.3F : 0, kind / 2);
        compare_slopes(&f, builds[i % TEST_COUNT(builds)], evaluate);
        finish(&f);
    }
}

/* The base is frozen: no gradient of it is computed, and those of the adapter have the same bits. */
static void a_frozen_base_changes_no_gradient_of_the_adapter(void **state) {
    (void)state;
    float first[3 * IN];
    for (uint64_t kind = 0; kind < 4; kind++) {
        const bool frozen = kind % 2;
        struct fixture f;
        struct adapted a;
        start(&f, 930 + kind / 2);
        adapt(&f, &a, 0, kind / 2);
        if (frozen) f.leaves[1].learning.requires_grad = false;
        if (frozen) f.leaves[0].learning.requires_grad = false;
        evaluate(&f, build_adapted, true);
        const float *gradient = f.leaves[5].learning.gradient, *base = f.leaves[1].learning.gradient;
        if (frozen) assert_memory_equal(first, gradient, sizeof first);
        for (size_t i = 0; i < OUT * IN && frozen; i++) assert_true(base[i] == 0);
        memcpy(first, gradient, sizeof first);
        finish(&f);
    }
}

/* y = x·wᵀ + scale·(x·aᵀ)·bᵀ in the columns of each part, there times m / norm, + bias. */
static void check_formula(bool magnitudes) {
    struct fixture f;
    struct adapted a;
    start(&f, 920);
    adapt(&f, &a, 0, magnitudes);
    qkv_tape_start(&f.tape, f.ctx, &f.arena, &f.graph_arena, false);
    const struct qkv_tensor *y = build_adapted(&f);
    assert_non_null(y);
    for (size_t n = 0; n < N; n++) {
        for (size_t o = 0; o < OUT; o++) {
            double sum = 0;
            for (size_t i = 0; i < IN; i++) sum += (double)f.values[0][n * IN + i] * (double)f.values[1][o * IN + i];
            for (size_t p = 0; p < 2; p++) {
                const struct qkv_adapter_part *part = &a.parts[p];
                const float *down = f.values[3 + 2 * p], *up = f.values[4 + 2 * p];
                const size_t rank = part->a.rows;
                if (o < part->first || o >= part->first + part->b.rows) continue;
                for (size_t r = 0; r < rank; r++) {
                    double low = 0;
                    for (size_t i = 0; i < IN; i++) low += (double)f.values[0][n * IN + i] * (double)down[r * IN + i];
                    sum += (double)part->scale * low * (double)up[(o - part->first) * rank + r];
                }
                if (magnitudes) sum *= (double)f.values[7 + p][o - part->first] / (double)a.norms[p][o - part->first];
            }
            sum += (double)f.values[2][o];
            assert_true(fabs(sum - (double)cell(y, n * OUT + o)) <= 1e-5 * (1 + fabs(sum)));
        }
    }
    finish(&f);
}

static void the_term_is_that_of_the_formula(void **state) {
    (void)state;
    check_formula(false);
    check_formula(true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_term_is_that_of_the_formula),
        cmocka_unit_test(gradients_of_adapters_are_slopes),
        cmocka_unit_test(a_frozen_base_changes_no_gradient_of_the_adapter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
