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

/* The version of this header. Before 1.0.0 a higher minor number may change the interface, and CHANGELOG.md says what a
 * program has to change. A higher patch number changes no call. QKV_VERSION_NUMBER orders versions: 102 is 0.1.2. */
#define QKV_VERSION_MAJOR  0
#define QKV_VERSION_MINOR  1
#define QKV_VERSION_PATCH  0
#define QKV_VERSION_NUMBER (QKV_VERSION_MAJOR * 10000 + QKV_VERSION_MINOR * 100 + QKV_VERSION_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

/* The statuses that calls return; QKV_OK is 0. The comment of a call names those that it fails with. The list grows at
 * its end. */
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

/* The precision of matrix products and attention. QKV_MIXED_BF16 is mixed precision (Micikevicius et al. 2018) with
 * bf16 (Kalamkar et al. 2019): products round weights and activations to bf16, and activations that backward needs are
 * stored as bf16, except the residual stream. Sums, trained weights, gradients, statistics and softmax are fp32. A
 * machine without bf16 products multiplies the rounded numbers as fp32: no faster, and with the same numbers except for
 * the rounding of sums. */
enum qkv_precision {
    QKV_FP32,
    QKV_MIXED_BF16,
    /* the precision of new runs (qkv_auto_precision); a context always has one of the two above */
    QKV_PRECISION_AUTO
};
/* The kernel tables, slower ones first, except where a processor differs (qkv_isa_at): X(name, kind). kind: TABLE, or
 * COLUMNS for kernels without a name for users, which tables of the same instruction set have on machines that can run
 * them. A build has those of its architecture. src/kernel/isa/simd_{name}.h describes each. */
#define QKV_ISA_LIST(X)                                                                                                \
    X(scalar, TABLE)                                                                                                   \
    X(scalarfma, COLUMNS)                                                                                              \
    X(avx2, TABLE)                                                                                                     \
    X(avxvnni, COLUMNS)                                                                                                \
    X(avx512, TABLE)                                                                                                   \
    X(avx512vnni, COLUMNS)                                                                                             \
    X(avx512bf16, TABLE)                                                                                               \
    X(amx, TABLE)                                                                                                      \
    X(neon, TABLE)                                                                                                     \
    X(neondot, COLUMNS)

/* Structs of options begin with their size, so that a program goes on with a library of another version. Calls named
 * qkv_…_defaults set it, together with the defaults of the library that runs. A literal has to set it, too; the options
 * that it does not name are 0: struct qkv_pass_options o = {.size = sizeof o, .B = 1, .T = 16}. QKV_OPTIONS is such a
 * literal in C: &QKV_OPTIONS(qkv_pass_options, .B = 1, .T = 16).
 *
 * - A struct of an older program is shorter. The options that it lacks have their defaults.
 * - A struct of a newer program is longer. If an option that the library does not know is not 0, the call that gets the
 *   struct is QKV_ARGUMENT, and its sentence says so.
 * - A size that no option fits into, such as 0, is QKV_ARGUMENT.
 *
 * A new option is the last one of its struct and makes it larger. Calls named qkv_…_options_init are for bindings to
 * other languages: they write the size and the defaults into a struct of `size` bytes. Any thread. */
#define QKV_OPTIONS(tag, ...) ((struct tag){.size = sizeof(struct tag), __VA_ARGS__})

struct qkv_context_options {
    size_t size; /* sizeof(struct qkv_context_options), set by qkv_context_defaults */
    int threads; /* 0: one for each CPU that this process may use */
    /* kernel table: a name of QKV_ISA_LIST, "avx2"; NULL: $QKV_ISA if set, else the best one of this machine */
    const char *isa;
    enum qkv_precision precision; /* default QKV_FP32 */
    /* true: calls that need more memory than is free continue; false: they fail with QKV_MEMORY before they use any of
     * it */
    bool ignore_memory;
    /* true: weights load although their spec differs from config.json, and runs resume although their options differ */
    bool ignore_digest;
    /* For one of several ranks (qkv/ranks.h), which make the same training calls in the same order. The struct is
     * copied; its state must live as long as the context. NULL: the only rank. */
    const struct qkv_communicator *communicator;
};

/* No choice: threads and kernels as the environment says, fp32. */
QKV_API void qkv_context_options_init(struct qkv_context_options *options, size_t size);
static inline struct qkv_context_options qkv_context_defaults(void) {
    struct qkv_context_options options;
    qkv_context_options_init(&options, sizeof options);
    return options;
}

/* The version of the library that runs, "0.1.0", and its number, as QKV_VERSION_NUMBER of its header. A program that is
 * linked to a shared library compares the number with the QKV_VERSION_NUMBER that it was built with. Any thread. */
QKV_API const char *qkv_version(void);
QKV_API int qkv_version_number(void);
QKV_API const char *qkv_status_text(enum qkv_status status); /* "out of memory" */

/* Makes a context: threads, kernel table and the sentence of the latest failure. One context serves one thread at a
 * time: a call in a second thread meanwhile is QKV_ARGUMENT. Different contexts are independent; they may share a model
 * (qkv_model_share). `options` may be NULL. Options that leave a choice open use $QKV_THREADS and $QKV_ISA, and
 * QKV_PRECISION_AUTO uses $QKV_PRECISION (fp32, bf16 or auto). Another value in one of these variables is QKV_ARGUMENT;
 * an empty variable counts as not set. If the system gives fewer threads than asked for, the call succeeds
 * (qkv_context_threads_note). While as many contexts of the process are inside calls as it has CPUs, each of them works
 * with the caller's thread alone. On failure *out is still a context that holds the sentence, to be freed by the
 * caller, or NULL if there was no memory for one. Fails with QKV_ARGUMENT, QKV_MEMORY.
 *
 * Stack: any thread with a stack of 128 KiB can make every call of the library; the threads that the library starts
 * have stacks of their own. A test makes each group of calls on such a stack: specs, models, published folders,
 * modules, attention, sessions, generation, tokenizers, training of texts, pairs and classes, evaluation, ranks. */
QKV_API enum qkv_status qkv_context_create(struct qkv_context **out, const struct qkv_context_options *options);
/* Frees a context. Free everything that was made with it before. NULL is allowed. */
QKV_API void qkv_context_free(struct qkv_context *ctx);
/* Cancels the work of a context, until it is called with false: the call that runs, and each later one that takes long,
 * fails with QKV_STOPPED where it can stop without leaving anything half done. These are forward passes that are not
 * recorded (between layers: generating, translating, classifying, embedding, evaluating), training (between steps),
 * reading weights, tokenizing data and learning a tokenizer. A session, decoder or trainer is then as before the call,
 * and can go on after qkv_context_cancel(ctx, false). Any thread, also a signal handler. */
QKV_API void qkv_context_cancel(struct qkv_context *ctx, bool cancel);
/* The sentence of the latest call that returned a status: what is wrong, where, and what to do; "" after a success,
 * never NULL. Owned by the context, valid until the next call with it. */
QKV_API const char *qkv_message(const struct qkv_context *ctx);
/* The number of threads of the context, at least 1: the caller's and those that qkv_context_create started. These block
 * all signals. They sleep while they wait for work, after some microseconds of spinning; if other programs need the
 * CPUs, threads that would only delay the caller stay idle. After a fork(), the child starts its own threads when it
 * needs them. Any thread may be the caller, one at a time. */
QKV_API int qkv_context_threads(const struct qkv_context *ctx);
/* One line that says why there are fewer threads than asked for: the system gave no more; else NULL. Owned by the
 * context. */
QKV_API const char *qkv_context_threads_note(const struct qkv_context *ctx);
#ifdef QKV_EXPERIMENTAL
/* Experimental: the CPUs that a process can use. A context without a given number of threads has as many as the
 * smallest of these three. */
struct qkv_cpus {
    int online;   /* CPUs of this machine */
    int affinity; /* CPUs that the process may run on (sched_setaffinity, taskset) */
    int quota;    /* CPUs that its control groups allow, rounded up; INT32_MAX: no limit */
};
/* Experimental: the CPUs of this process at the time of the call. Any thread. */
QKV_API struct qkv_cpus qkv_cpus_allowed(void);
/* Experimental: the memory that this process can still have. */
struct qkv_memory_left {
    uint64_t bytes; /* UINT64_MAX: the system does not say */
    char why[192];  /* what sets the limit: "the memory of this machine" */
};
/* Experimental: reads the memory of the machine, the limits of the control groups (v1 and v2, all ancestors) and the
 * limits of the process (RLIMIT_AS, RLIMIT_DATA), and returns the smallest. Any thread. */
QKV_API struct qkv_memory_left qkv_memory_available(void);
/* Experimental: writes the system's name of the processor, or the architecture, and a zero into `size` bytes. Any
 * thread. */
QKV_API void qkv_cpu_name(char *name, size_t size);
#endif
/* The name of the context's kernel table, "avx2". Owned by the context. */
QKV_API const char *qkv_context_isa(const struct qkv_context *ctx);
/* The i-th kernel table that this machine can run, the fastest first; NULL past the last: avx512bf16 comes after avx512
 * on processors of Intel, which multiply bf16 at half the speed of fp32 without AMX. Any thread. */
QKV_API const char *qkv_isa_at(size_t i);
/* One line that says why a better kernel table is not used although the processor supports it, or NULL. Static text. */
QKV_API const char *qkv_context_isa_note(const struct qkv_context *ctx);
/* The precision of the context: of models and modules that are made from then on, which keep it, and of attention on
 * plain buffers. Setting QKV_PRECISION_AUTO sets the precision that qkv_auto_precision gives. qkv_model_precision gives
 * the precision that a model was trained in. */
QKV_API enum qkv_precision qkv_context_precision(const struct qkv_context *ctx);
QKV_API void qkv_context_set_precision(struct qkv_context *ctx, enum qkv_precision precision);
/* The precision that QKV_PRECISION_AUTO, and the training option precision=auto of a new run, mean: $QKV_PRECISION if
 * it was fp32 or bf16 when the context was made; else bf16 if the context's kernels multiply bf16 natively; else
 * fp32. */
QKV_API enum qkv_precision qkv_auto_precision(const struct qkv_context *ctx);
/* Whether the context's kernels multiply bf16 natively. */
QKV_API bool qkv_context_native_bf16(const struct qkv_context *ctx);
/* Frees memory that a call returned as the caller's own (texts, arrays of ids). NULL is allowed. Any thread. */
QKV_API void qkv_free(void *block);
/* Receives the progress of long work: its name, the amount done and the total (0: unknown). Return false to stop. */
typedef bool qkv_progress(void *user, const char *what, double done, double total);

#ifdef __cplusplus
}
#endif

#endif
