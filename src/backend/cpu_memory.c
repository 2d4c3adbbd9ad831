/* cpu_memory: steps that copy and clear. */
#include "backend/backend.h"

#include <string.h>

enum { BYTES_A_PIECE = 1 << 16 };

static void copy_piece(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct qkv_step_copy *c = argument;
    memcpy((char *)c->to + begin, (const char *)c->from + begin, end - begin);
}

/* Ranges that overlap are moved by one thread. */
enum qkv_status qkv_cpu_copy(struct qkv_context *ctx, const void *call) {
    struct qkv_step_copy c = *(const struct qkv_step_copy *)call;
    const uintptr_t to = (uintptr_t)c.to, from = (uintptr_t)c.from;
    if (to == from || !c.bytes) return QKV_OK;
    if (to < from + c.bytes && from < to + c.bytes)
        memmove(c.to, c.from, c.bytes);
    else
        qkv_parallel_range(ctx, c.bytes, BYTES_A_PIECE, copy_piece, &c);
    return QKV_OK;
}

static void clear_piece(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct qkv_step_clear *c = argument;
    memset((char *)c->to + begin, c->byte, end - begin);
}

enum qkv_status qkv_cpu_clear(struct qkv_context *ctx, const void *call) {
    struct qkv_step_clear c = *(const struct qkv_step_clear *)call;
    qkv_parallel_range(ctx, c.bytes, BYTES_A_PIECE, clear_piece, &c);
    return QKV_OK;
}
