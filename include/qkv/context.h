/* qkv/context.h: contexts: threads, kernels, precision, and the sentence of the latest failure; a part of qkv.h, which
 * includes it. Stable. */
#ifndef QKV_PUBLIC_CONTEXT_H
#define QKV_PUBLIC_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(QKV_BUILDING) && defined(__GNUC__)
#define QKV_API __attribute__((visibility("default")))
#else
#define QKV_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* What a call can return; QKV_OK is 0. The comment of a call names those that it fails with. */
#define QKV_STATUS_LIST(X)                                                                                             \
    X(OK, "ok")                                                                                                        \
    X(ARGUMENT, "invalid argument")                                                                                    \
    X(MEMORY, "out of memory")                                                                                         \
    X(FILE, "file error")                                                                                              \
    X(FORMAT, "invalid file contents")                                                                                 \
    X(SPEC, "invalid spec")                                                                                            \
    X(SHAPE, "shapes do not agree")                                                                                    \
    X(NUMBER, "not a finite number")                                                                                   \
    X(STOPPED, "stopped by the caller")                                                                                \
    X(FULL, "no room left")                                                                                            \
    X(RANK, "a rank is out of reach")
enum qkv_status {
#define QKV_STATUS_ENUM(name, text) QKV_##name,
    QKV_STATUS_LIST(QKV_STATUS_ENUM)
#undef QKV_STATUS_ENUM
};

struct qkv_context;
struct qkv_communicator;

/* What matrix products and attention multiply. bf16: weights and activations are rounded to bf16 (Kalamkar et al. 2019), and
 * what is kept for the way back is stored so, but for the residual stream; sums, weights that learn, gradients, statistics and
 * softmax stay fp32 (mixed precision: Micikevicius et al. 2018). A machine without bf16 products multiplies the rounded
 * numbers as fp32: no faster, and the same but for the rounding of sums. */
enum qkv_precision {
    QKV_FP32,
    QKV_MIXED_BF16,
    QKV_PRECISION_AUTO /* asks for that of new runs (qkv_auto_precision); a context has one of the two above */
};
struct qkv_context_options {
    int threads; /* 0: one for each CPU this process may use */
    /* kernel table, "scalar", "avx2", "avx512", "avx512bf16", "amx", "neon"; NULL: $QKV_ISA if set, else the best
     * here */
    const char *isa;
    enum qkv_precision precision; /* zero: QKV_FP32 */
    /* Go on where more memory is needed than is left; else QKV_MEMORY, before any of it is used. */
    bool ignore_memory;
    /* Load weights whose spec was another one than that of config.json, resume with options that were others. */
    bool ignore_digest;
    /* One of several ranks (qkv/ranks.h), which make the same calls of training in the same order; the struct is copied, its state
     * lives as long as the context. NULL: the only one. */
    const struct qkv_communicator *communicator;
};

/* All of it left open: as the environment says, in fp32. */
QKV_API struct qkv_context_options qkv_context_defaults(void);

QKV_API const char *qkv_version(void);                       /* "0.1.0" */
QKV_API const char *qkv_status_text(enum qkv_status status); /* "out of memory" */

/* The stack that calls need: any thread with 256 KiB can make every call of the library; the threads that the library
 * starts bring their own. A test makes each group of calls on such a stack: specs, models, published folders, modules,
 * attention, sessions, generation, tokenizers, training of texts, pairs and classes, evaluation, ranks.
 *
 * Makes a context: threads, kernel table and the sentence of the latest failure. One context serves one thread at a
 * time; different contexts are independent. Fewer threads than asked for are no failure (qkv_context_threads_note). The
 * environment has $QKV_THREADS and $QKV_ISA for what the options leave open, and $QKV_PRECISION (fp32, bf16 or auto)
 * for QKV_PRECISION_AUTO; other values are QKV_ARGUMENT, empty ones are none. `options` may be NULL. On failure *out
 * still is a context that holds the sentence (free it), or NULL when there was no memory for one. Fails with
 * QKV_ARGUMENT, QKV_MEMORY. */
QKV_API enum qkv_status qkv_context_create(struct qkv_context **out, const struct qkv_context_options *options);
/* Frees a context, after everything that was made with it. NULL is fine. */
QKV_API void qkv_context_free(struct qkv_context *ctx);
/* What went wrong in the latest call that returned a status, where, and what to do; "" if it was a success; never NULL.
 * Owned by the context, valid until the next call with it. */
QKV_API const char *qkv_message(const struct qkv_context *ctx);
/* How many threads the context works with, at least 1: the caller's, and those that qkv_context_create started beside
 * it. They take no signals, and wait for work asleep, but for some microseconds; where other programs need the CPUs,
 * those that only delay the caller rest. The child of a fork() starts its own when it needs them. Every thread may be
 * the caller, one at a time. */
QKV_API int qkv_context_threads(const struct qkv_context *ctx);
/* Why there are fewer than were asked for, as the system made no more: one line, or NULL. Owned by the context. */
QKV_API const char *qkv_context_threads_note(const struct qkv_context *ctx);
/* Experimental: the CPUs that there are for a process. A context that nobody tells a number of threads has as many as the least of
 * the three. */
struct qkv_cpus {
    int online;   /* of this machine */
    int affinity; /* that the process may run on (sched_setaffinity, taskset) */
    int quota;    /* that its control groups let it use, rounded up; INT32_MAX: no limit */
};
/* Experimental: those of this process, now. Any thread. */
QKV_API struct qkv_cpus qkv_cpus_allowed(void);
/* The name of its kernel table, "avx2". Owned by the context. */
QKV_API const char *qkv_context_isa(const struct qkv_context *ctx);
/* The i-th kernel table that this machine can run, best first; NULL past the last. */
QKV_API const char *qkv_isa_at(size_t i);
/* Why a better table than that is not used although the processor has it: one line, or NULL. */
QKV_API const char *qkv_context_isa_note(const struct qkv_context *ctx);
/* The precision may be changed while no model, pass or session of the context exists. Setting QKV_PRECISION_AUTO sets what it
 * stands for; qkv_model_precision says what a model was trained in. */
QKV_API enum qkv_precision qkv_context_precision(const struct qkv_context *ctx);
QKV_API void qkv_context_set_precision(struct qkv_context *ctx, enum qkv_precision precision);
/* What QKV_PRECISION_AUTO, and the training option precision=auto of a new run, stand for: $QKV_PRECISION where it was fp32 or
 * bf16 when the context was made, else bf16 where the context's kernels multiply it themselves, else fp32. */
QKV_API enum qkv_precision qkv_auto_precision(const struct qkv_context *ctx);
/* Whether this machine multiplies bf16 itself. */
QKV_API bool qkv_context_native_bf16(const struct qkv_context *ctx);
/* Frees what a qkv call returned as the caller's own (texts, id arrays). NULL is fine. */
QKV_API void qkv_free(void *block);
/* Called during long work: what is being done and how far it is (total 0: unknown). Return false to stop. */
typedef bool qkv_progress(void *user, const char *what, double done, double total);

#ifdef __cplusplus
}
#endif

#endif
