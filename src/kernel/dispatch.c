/* dispatch: the context, which chooses one of the kernel tables that this machine can run (tables.c). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/sized_options.h"
#include "base/backend.h"
#include "kernel/cpu.h"
#include "kernel/product.h"

#define THREADS_MAX 1024

const char *qkv_isa_at(size_t i) {
    const struct qkv_kernels *kernels = qkv_kernels_at(i);
    return kernels ? kernels->isa : NULL;
}

/* "avx2, scalar" */
static void list_tables(char *text, size_t capacity) {
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; qkv_isa_at(i); i++) {
        int n = snprintf(text + used, capacity - used, "%s%s", i ? ", " : "", qkv_isa_at(i));
        if (n < 0 || (size_t)n >= capacity - used) return;
        used += (size_t)n;
    }
}

static enum qkv_status choose_kernels(struct qkv_context *ctx, const char *isa) {
    const char *from = isa ? "the option isa" : "QKV_ISA";
    if (!isa) isa = getenv("QKV_ISA");
    for (size_t i = 0; qkv_kernels_at(i); i++) {
        const struct qkv_kernels *kernels = qkv_kernels_at(i);
        if (isa && *isa && strcmp(isa, kernels->isa) != 0) continue;
        ctx->kernels = kernels;
        snprintf(ctx->isa, sizeof ctx->isa, "%s", kernels->isa);
        return QKV_OK;
    }
    if (!qkv_kernels_at(0))
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "this build has only kernels for other processors; build qkv on this machine with \"make\"");
    char known[128];
    list_tables(known, sizeof known);
    return qkv_fail(ctx, QKV_ARGUMENT, "%s is \"%.40s\", which is not among this machine's kernel tables: %s", from,
                    isa, known);
}

const char *qkv_context_isa_note(const struct qkv_context *ctx) {
    if (!ctx) return NULL;
    return strcmp(ctx->isa, qkv_isa_at(0)) ? NULL : qkv_cpu_note();
}

enum qkv_precision qkv_context_precision(const struct qkv_context *ctx) {
    if (!ctx) return QKV_FP32;
    return ctx->precision;
}

enum qkv_precision qkv_auto_precision(const struct qkv_context *ctx) {
    if (!ctx) return QKV_FP32;
    return ctx->automatic;
}

void qkv_context_set_precision(struct qkv_context *ctx, enum qkv_precision precision) {
    if (!ctx) return;
    ctx->precision = precision == QKV_PRECISION_AUTO ? ctx->automatic : precision;
}

bool qkv_context_native_bf16(const struct qkv_context *ctx) {
    if (!ctx) return false;
    return qkv_product_bf16.native(ctx->kernels);
}

enum qkv_status qkv_precision_check(struct qkv_context *ctx, enum qkv_precision *precision) {
    if (*precision == QKV_PRECISION_AUTO) *precision = ctx->automatic;
    if (*precision == QKV_FP32 || *precision == QKV_MIXED_BF16) return QKV_OK;
    return qkv_fail(ctx, QKV_ARGUMENT, "precision is %d; it must be QKV_FP32, QKV_MIXED_BF16 or QKV_PRECISION_AUTO",
                    (int)*precision);
}

/* The precision is chosen after the kernels. */
static enum qkv_status choose_precision(struct qkv_context *ctx, enum qkv_precision precision) {
    const char *text = getenv("QKV_PRECISION");
    const bool open = !text || !*text || strcmp(text, "auto") == 0;
    ctx->automatic = qkv_context_native_bf16(ctx) ? QKV_MIXED_BF16 : QKV_FP32;
    if (!open && strcmp(text, "fp32") != 0 && strcmp(text, "bf16") != 0)
        return qkv_fail(ctx, QKV_ARGUMENT, "QKV_PRECISION is \"%s\"; it must be fp32, bf16 or auto", text);
    if (!open) ctx->automatic = strcmp(text, "bf16") == 0 ? QKV_MIXED_BF16 : QKV_FP32;
    const enum qkv_status status = qkv_precision_check(ctx, &precision);
    if (!status) ctx->precision = precision;
    return status;
}

static enum qkv_status choose_threads(struct qkv_context *ctx, int threads) {
    const char *text = threads == 0 ? getenv("QKV_THREADS") : NULL;
    if (text && *text) {
        char *end;
        errno = 0;
        long long value = strtoll(text, &end, 10);
        if (*end || errno || value < 1 || value > THREADS_MAX)
            return qkv_fail(ctx, QKV_ARGUMENT, "QKV_THREADS is \"%s\", but must be a number from 1 to %d", text,
                            THREADS_MAX);
        threads = (int)value;
    }
    if (threads < 0 || threads > THREADS_MAX)
        return qkv_fail(ctx, QKV_ARGUMENT, "threads is %d, but must be 1 to %d, or 0 for one on each CPU", threads,
                        THREADS_MAX);
    ctx->cpus = qkv_cpu_count();
    if (threads == 0) threads = ctx->cpus;
    if (threads > THREADS_MAX) threads = THREADS_MAX;
    ctx->threads = qkv_team_start(ctx, threads);
    if (ctx->threads < threads)
        snprintf(ctx->threads_note, sizeof ctx->threads_note,
                 "the system makes only %d of %d threads (see ulimit -u, of processes, and ulimit -v, of memory); "
                 "they do the work, more slowly",
                 ctx->threads, threads);
    return QKV_OK;
}

void qkv_context_options_init(struct qkv_context_options *options, size_t size) {
    static const struct qkv_context_options usual = {.size = sizeof usual, .precision = QKV_FP32};
    qkv_options_init(options, size, &usual, sizeof usual);
}

static enum qkv_status choose_ranks(struct qkv_context *ctx, const struct qkv_communicator *c) {
    ctx->ranks = *c;
    if (c->ranks >= 1 && c->ranks <= QKV_RANKS_MOST && c->rank >= 0 && c->rank < c->ranks) return QKV_OK;
    ctx->ranks.ranks = 0;
    return qkv_fail(ctx, QKV_ARGUMENT, "rank %d of %d: there can be 1 to %d ranks, counted from 0", c->rank, c->ranks,
                    QKV_RANKS_MOST);
}

enum qkv_status qkv_context_make(struct qkv_context **out, const struct qkv_context_options *options) {
    struct qkv_context *ctx = *out = calloc(1, sizeof *ctx);
    if (!ctx) return QKV_MEMORY;
    ctx->threads = 1;
    ctx->backend = &qkv_backend_bare;
    ctx->l1d = qkv_cache_bytes(1);
    ctx->l2 = qkv_cache_bytes(2);
    struct qkv_context_options own = qkv_context_defaults();
    enum qkv_status status = QKV_TAKE_OPTIONS(ctx, qkv_context_options, &own, options);
    ctx->ignore_memory = own.ignore_memory;
    ctx->ignore_digest = own.ignore_digest;
    if (!status) status = choose_kernels(ctx, own.isa);
    if (!status && own.communicator) status = choose_ranks(ctx, own.communicator);
    if (!status) status = choose_precision(ctx, own.precision);
    if (!status) status = choose_threads(ctx, own.threads);
    return status;
}

void qkv_context_free(struct qkv_context *ctx) {
    if (ctx) {
        qkv_team_free(ctx);
        qkv_workspace_free(ctx);
    }
    free(ctx);
}
