/* op_fixture.h: a tape with leaves that have gradients, operators built on them, and the loss: the outputs weighted
 * with random numbers; and gradients against directional differences. */
#ifndef QKV_OP_FIXTURE_H
#define QKV_OP_FIXTURE_H

#include "test.h"

#include "op/op.h"

enum { LEAVES = 24, ARENA = 256 << 20 };

struct fixture {
    struct qkv_context *ctx;
    struct qkv_arena arena, graph_arena;
    struct qkv_random random;
    struct qkv_tape tape;
    struct qkv_tensor leaves[LEAVES];
    float *values[LEAVES];
    size_t leaf_count;
    float *output_gradient; /* random weights of the outputs: the loss is their product */
    uint64_t dropout_seed;
    const void *options; /* of a check */
};

static inline void start(struct fixture *f, uint64_t stream) {
    memset(f, 0, sizeof *f);
    assert_int_equal(qkv_context_create(&f->ctx, NULL), QKV_OK);
    assert_int_equal(qkv_arena_create(f->ctx, &f->arena, ARENA, "test"), QKV_OK);
    assert_int_equal(qkv_arena_create(f->ctx, &f->graph_arena, 1 << 20, "records"), QKV_OK);
    f->random = test_random(stream);
    f->dropout_seed = qkv_random_bits(&f->random);
}

static inline void finish(struct fixture *f) {
    for (size_t i = 0; i < f->leaf_count; i++) {
        free(f->values[i]);
        free(f->leaves[i].learning.gradient);
    }
    free(f->output_gradient);
    qkv_arena_free(&f->arena);
    qkv_arena_free(&f->graph_arena);
    qkv_context_free(f->ctx);
}

/* A leaf with a gradient, its values at least `away` from zero (for kinks). */
static inline struct qkv_tensor *leaf(struct fixture *f, size_t rows, size_t columns, double away) {
    size_t n = rows * columns, i = f->leaf_count++;
    f->values[i] = calloc(n + 1, sizeof(float));
    test_fill(&f->random, f->values[i], n, 1);
    for (size_t k = 0; k < n; k++) {
        if (fabsf(f->values[i][k]) < (float)away) {
            f->values[i][k] += f->values[i][k] < 0 ? -(float)away : (float)away;
        }
    }
    f->leaves[i] =
        (struct qkv_tensor){.data = f->values[i], .rows = rows, .columns = columns, .learning.requires_grad = true};
    f->leaves[i].learning.gradient = calloc(n + 1, sizeof(float));
    return &f->leaves[i];
}

typedef struct qkv_tensor *build(struct fixture *f);

/* Builds the operators, weights the output with random numbers, and runs backward on request. A build without an
 * output has made its own loss (check_cross_entropy). */
static inline float cell(const struct qkv_tensor *x, size_t i) {
    float y;
    qkv_to_float(&y, (const char *)x->data + i * qkv_type_size(x->dtype), x->dtype, 1);
    return y;
}

static inline double evaluate(struct fixture *f, build *make, bool record) {
    qkv_arena_release(&f->arena, 0);
    qkv_arena_release(&f->graph_arena, 0);
    qkv_tape_start(&f->tape, f->ctx, &f->arena, &f->graph_arena, record);
    qkv_tape_train(&f->tape, f->dropout_seed);
    struct qkv_tensor *y = make(f);
    if (f->tape.status) {
        fail_msg("%s", qkv_message(f->ctx));
    }
    size_t n = y->rows * y->columns;
    if (!f->output_gradient) {
        f->output_gradient = malloc((n + 1) * sizeof(float));
        test_fill(&f->random, f->output_gradient, n, 1);
    }
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)cell(y, i) * (double)f->output_gradient[i];
    }
    if (record) {
        struct qkv_loss loss;
        qkv_op_inner_product(&f->tape, y, f->output_gradient, 1, &loss);
        assert_true(fabs(loss.sum - sum) <= 1e-9 * fabs(sum) + 1e-9);
        assert_int_equal(qkv_tape_backward(&f->tape), QKV_OK);
    }
    return sum;
}

/* Along a random direction of all leaves, the gradient's slope against a fourth-order central difference. */
static inline void compare_slopes(struct fixture *f, build *make, double (*value)(struct fixture *, build *, bool)) {
    float *direction[LEAVES], *at[LEAVES];
    value(f, make, true);
    double slope = 0, scale = 0;
    for (size_t l = 0; l < f->leaf_count; l++) {
        size_t n = f->leaves[l].rows * f->leaves[l].columns;
        direction[l] = malloc((n + 1) * sizeof(float));
        at[l] = malloc((n + 1) * sizeof(float));
        memcpy(at[l], f->values[l], n * sizeof(float));
        test_fill(&f->random, direction[l], n, 1);
        for (size_t i = 0; i < n; i++) {
            slope += (double)direction[l][i] * (double)f->leaves[l].learning.gradient[i];
            scale += (double)f->leaves[l].learning.gradient[i] * (double)f->leaves[l].learning.gradient[i];
        }
    }
    static const double steps[4] = {-2, -1, 1, 2}, weights[4] = {1.0 / 12, -8.0 / 12, 8.0 / 12, -1.0 / 12};
    double h = 4e-3, difference = 0;
    for (int s = 0; s < 4; s++) {
        for (size_t l = 0; l < f->leaf_count; l++) {
            for (size_t i = 0; i < f->leaves[l].rows * f->leaves[l].columns; i++) {
                f->values[l][i] = (float)((double)at[l][i] + steps[s] * h * (double)direction[l][i]);
            }
        }
        difference += weights[s] * value(f, make, false) / h;
    }
    double tolerance = 2e-3 * sqrt(scale) + 1e-3;
    if (!(fabs(slope - difference) <= tolerance)) {
        fail_msg("slope %.6f by the gradient, %.6f by differences (norm %.3f)", slope, difference, sqrt(scale));
    }
    for (size_t l = 0; l < f->leaf_count; l++) {
        memcpy(f->values[l], at[l], f->leaves[l].rows * f->leaves[l].columns * sizeof(float));
        free(direction[l]);
        free(at[l]);
    }
}

/* x is used three times: the gradient's sharing and copying has to hold. */
static inline struct qkv_tensor *build_add(struct fixture *f) {
    struct qkv_tensor *x = qkv_op_linear(&f->tape, &f->leaves[0], &f->leaves[1], NULL, QKV_RESULT_FP32);
    struct qkv_tensor *a = qkv_op_linear(&f->tape, x, &f->leaves[2], NULL, QKV_RESULT_FP32);
    struct qkv_tensor *y = qkv_op_add(&f->tape, x, a, 1);
    struct qkv_tensor *b =
        qkv_op_linear(&f->tape, qkv_op_activation(&f->tape, y, QKV_FFN_SILU), &f->leaves[2], NULL, QKV_RESULT_FP32);
    struct qkv_tensor *z = qkv_op_add(&f->tape, y, b, 0.3F);
    return qkv_op_add(&f->tape, x, qkv_op_linear(&f->tape, z, &f->leaves[2], NULL, QKV_RESULT_FP32), -2);
}

static inline struct qkv_tensor *build_dropout(struct fixture *f) {
    return qkv_op_dropout(&f->tape, qkv_op_linear(&f->tape, &f->leaves[0], &f->leaves[1], NULL, QKV_RESULT_FP32), 0.4F);
}

#endif
