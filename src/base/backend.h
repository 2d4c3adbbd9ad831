/* backend: where numbers are, and what computes with them.
 *
 * This header offers the struct that a backend fills in; a context has one (ctx->backend). backend/backends.h explains
 * its rows one by one. Rooms that a backend is above of call it through this struct: they know what its rows do, not
 * which backend does it. */
#ifndef QKV_BASE_BACKEND_H
#define QKV_BASE_BACKEND_H

#include "base/base.h"

struct qkv_operator; /* op/op.h */

/* A piece of arithmetic that is no operator, because it has no gradient (op/steps.h). `call` is the struct of its row,
 * qkv_step_NAME. Pointers in it to numbers and to indices are to the backend's memory. */
typedef enum qkv_status qkv_step(struct qkv_context *ctx, const void *call);

/* The body of qkv_compute. */
typedef enum qkv_status qkv_compute_body(void *argument);

struct qkv_backend {
    const char *name;
    /* The backend that plans for this one: its rows take the same memory and compute nothing. A backend that plans has
     * itself here. */
    const struct qkv_backend *plan;
    /* The memory is the host's: the host may read and write it. Else the host has only `write`, `read` and `lend`. */
    bool of_host;
    /* Memory: a mapping of zeros, which begins with a page; NULL: there is none. `bytes` of release are those of
     * take. */
    void *(*take)(size_t bytes);
    void (*release)(void *memory, size_t bytes);
    /* Copies from the host's memory to the backend's, and back. */
    void (*write)(void *to, const void *from, size_t bytes);
    void (*read)(void *to, const void *from, size_t bytes);
    /* An array of the host's for rows to read: the array itself, where rows can read the host's memory, or a copy in
     * memory from the arena. NULL: there is not enough memory. */
    const void *(*lend)(struct qkv_arena *arena, const void *from, size_t bytes);
    /* Arithmetic: an operator for each of QKV_OPERATOR_LIST, and a step for each of QKV_STEP_LIST. */
    const struct qkv_operator *operators;
    qkv_step *const *steps;
    /* What this project's own rows, those for CPUs, compute with: qkv_parallel and qkv_compute. A backend with rows of
     * its own needs them only for the kernels of plain calls, which read the host's memory. */
    void (*loop)(struct qkv_context *ctx, size_t count, qkv_body *body, void *argument);
    enum qkv_status (*compute)(qkv_compute_body *body, void *argument);
};

/* The rows of memory and loops of a backend that computes in the host's memory with the threads of the context. */
#define QKV_HOST_ROWS                                                                                                  \
    .of_host = true, .take = qkv_host_take, .release = qkv_host_release, .write = qkv_host_copy,                       \
    .read = qkv_host_copy, .lend = qkv_host_lend, .loop = qkv_loop_threads, .compute = qkv_compute_here
/* Backends without operators and steps, for a context that only calls kernels: `bare` loops over the threads of the
 * context, `bare_plan` plans for it (parallel.c). */
extern const struct qkv_backend qkv_backend_bare, qkv_backend_bare_plan;
void qkv_loop_threads(struct qkv_context *ctx, size_t count, qkv_body *body, void *argument);
void qkv_loop_none(struct qkv_context *ctx, size_t count, qkv_body *body, void *argument);
enum qkv_status qkv_compute_here(qkv_compute_body *body, void *argument);
enum qkv_status qkv_compute_none(qkv_compute_body *body, void *argument);
/* The memory of the host (host_memory.c). */
void *qkv_host_take(size_t bytes);
void qkv_host_release(void *memory, size_t bytes);
void qkv_host_copy(void *to, const void *from, size_t bytes);
const void *qkv_host_lend(struct qkv_arena *arena, const void *from, size_t bytes);

#endif
