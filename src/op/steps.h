/* steps: arithmetic that is no operator, because it has no gradient: copies, indices, the cache's pages, optimizers.
 *
 * A step is a row of the backend, as an operator is: QKV_STEP(ctx, copy, .to = …) fills in the struct of its row,
 * qkv_step_copy, and the backend of the context does it. Pointers in the structs are to the backend's memory (arenas of
 * numbers, and what qkv_lend lends), unless the comment says "of the host". Steps take no memory. backend/cpu*.c has
 * those for CPUs; a context that plans does none of them. */
#ifndef QKV_STEPS_H
#define QKV_STEPS_H

#include "base/backend.h"
#include "op/op.h"

/* Every step: X(name). */
#define QKV_STEP_LIST(X)                                                                                               \
    X(copy)                                                                                                            \
    X(clear)                                                                                                           \
    X(positions)                                                                                                       \
    X(optimize)

/* ---- memory ----------------------------------------------------------------------------------------------------- */

/* to = from; the two may overlap. */
struct qkv_step_copy {
    void *to;
    const void *from;
    size_t bytes;
};
/* to = 0 */
struct qkv_step_clear {
    void *to;
    size_t bytes;
};

/* ---- indices ---------------------------------------------------------------------------------------------------- */

/* out[n] = first + n % period, count of them. */
struct qkv_step_positions {
    int32_t *out;
    size_t count, period, first;
};

/* ---- training --------------------------------------------------------------------------------------------------- */

/* A run of numbers of a weight, its gradient and its moments. */
struct qkv_optimizer_piece {
    float *weight, *gradient, *moments[2];
    size_t count;
    float rate, decay;
};
/* One step of an optimizer on these pieces (of the host), by the kernels adamw or sgd. */
struct qkv_step_optimize {
    const struct qkv_optimizer_piece *pieces;
    size_t count;
    enum qkv_optimizer_kind kind;
    float gradient_scale, beta1, beta2, eps, momentum, correction1, correction2;
};

#define QKV_STEP_NUMBER(name) QKV_STEP_##name,
enum qkv_step_number { QKV_STEP_LIST(QKV_STEP_NUMBER) QKV_STEP_COUNT };

#define QKV_STEP(ctx, name, ...)                                                                                       \
    ((ctx)->backend->steps[QKV_STEP_##name]((ctx), &(const struct qkv_step_##name){__VA_ARGS__}))

#endif
