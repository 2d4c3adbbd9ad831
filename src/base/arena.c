/* arena: one mapping handed out front to back. Pages are mapped without reserving them, so a capacity costs nothing
 * until it is touched. Under AddressSanitizer, memory that is not handed out is poisoned: an operator that reads past
 * its piece, or uses a piece of an earlier step, is found at once. */
#include <assert.h>
#include <stdlib.h>

#include <sys/mman.h>
#include <unistd.h>

#include "base/backend.h"

#if defined(__SANITIZE_ADDRESS__)
#define ARENA_POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_POISONS 1
#endif
#endif
#ifdef ARENA_POISONS
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size)   ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

#define CHECKED ((size_t)4 << 20) /* smaller arenas are not checked against the memory that is left */

/* AddressSanitizer's shadow memory is an eighth of what is poisoned or cleared, and it is real memory. So at most GUARD
 * bytes past `used` are poisoned at any time, and the padding of pieces (up to their cache line) only in the first
 * PADDED bytes of the arena. */
#define GUARD  ((size_t)16 << 20)
#define PADDED ((size_t)1 << 30)

/* Measuring arenas hand out addresses from here on. No user mapping of x86-64 or AArch64 has such an address, so a
 * touch is a fault. */
#if SIZE_MAX > 0xffffffffu
#define MEASURE_BASE ((uintptr_t)1 << 55)
#else
#define MEASURE_BASE ((uintptr_t)4096)
#endif

/* Up to the next multiple of a cache line; false on overflow. */
static bool round_up(size_t bytes, size_t *out) {
    bool fits = qkv_add_size(bytes, QKV_CACHE_LINE - 1, out);
    *out &= ~(size_t)(QKV_CACHE_LINE - 1);
    return fits;
}

static void arena_poison(const struct qkv_arena *arena, size_t begin, size_t end) {
    if (begin < end) ASAN_POISON_MEMORY_REGION(arena->base + begin, end - begin);
}

static void arena_unpoison(const struct qkv_arena *arena, size_t begin, size_t end) {
    if (begin < end) ASAN_UNPOISON_MEMORY_REGION(arena->base + begin, end - begin);
}

static size_t guard_end(const struct qkv_arena *arena, size_t used) {
    return arena->capacity - used < GUARD ? arena->capacity : used + GUARD;
}

/* Sets `used` and moves the poisoned guard [used, guard_end) along. Only the difference to the old guard is written. */
static void move_used(struct qkv_arena *arena, size_t used) {
    size_t old = arena->used;
    arena->used = used;
    if (used > arena->peak) arena->peak = used;
    if (arena->measuring) return;
    size_t old_end = guard_end(arena, old), end = guard_end(arena, used);
    if (used > old) {
        /* padding of released pieces may be there */
        arena_unpoison(arena, old, qkv_min(qkv_max(old_end, PADDED), used));
        arena_poison(arena, qkv_max(old_end, used), end);
    } else {
        arena_unpoison(arena, qkv_max(old, end), old_end);
        arena_poison(arena, used, qkv_min(old, end));
    }
}

static enum qkv_status arena_make(struct qkv_context *ctx, struct qkv_arena *arena, size_t capacity, const char *what,
                                  const struct qkv_backend *backend) {
    *arena = (struct qkv_arena){.ctx = ctx, .backend = backend, .what = what};
    size_t bytes;
    if (!round_up(capacity, &bytes) || bytes > PTRDIFF_MAX) return qkv_fail_memory(ctx, SIZE_MAX, what);
    if (bytes == 0) bytes = QKV_CACHE_LINE;
    enum qkv_status status = bytes >= CHECKED ? qkv_memory_check(ctx, bytes, what, NULL) : QKV_OK;
    if (status) return status;
    void *base = backend ? backend->take(bytes) : qkv_host_take(bytes);
    if (!base) return qkv_fail_memory(ctx, bytes, what);
    qkv_arena_count(bytes, true);
    arena->base = base;
    arena->capacity = bytes;
    arena_poison(arena, 0, guard_end(arena, 0));
    return QKV_OK;
}

enum qkv_status qkv_arena_create(struct qkv_context *ctx, struct qkv_arena *arena, size_t capacity, const char *what) {
    return arena_make(ctx, arena, capacity, what, NULL);
}

enum qkv_status qkv_arena_create_numbers(struct qkv_context *ctx, struct qkv_arena *arena, size_t capacity,
                                         const char *what) {
    return arena_make(ctx, arena, capacity, what, ctx->backend);
}

void qkv_arena_measure(struct qkv_context *ctx, struct qkv_arena *arena, const char *what) {
    /* Unsigned, so that base + used never wraps: a pointer that wraps could be NULL, and computing it is undefined. */
    size_t capacity = (size_t)(PTRDIFF_MAX - MEASURE_BASE) & ~(size_t)(QKV_CACHE_LINE - 1);
    *arena = (struct qkv_arena){
        .ctx = ctx, .base = (unsigned char *)MEASURE_BASE, .capacity = capacity, .measuring = true, .what = what};
}

void qkv_arena_free(struct qkv_arena *arena) {
    if (arena->base && !arena->measuring) {
        arena_unpoison(arena, 0, qkv_max(guard_end(arena, arena->used), qkv_min(arena->peak, PADDED)));
        (arena->backend ? arena->backend->release : qkv_host_release)(arena->base, arena->capacity);
        qkv_arena_count(arena->capacity - arena->discarded, false);
    }
    *arena = (struct qkv_arena){0};
}

void *qkv_arena_take(struct qkv_arena *arena, size_t count, size_t size) {
    size_t bytes, piece;
    if (!qkv_multiply(count, size, &bytes) || !round_up(bytes, &piece)) {
        qkv_fail_memory(arena->ctx, SIZE_MAX, arena->what);
        return NULL;
    }
    size_t left = arena->capacity - arena->used;
    if (piece > left) {
        qkv_fail_memory(arena->ctx, arena->measuring ? SIZE_MAX : arena->used + piece, arena->what);
        return NULL;
    }
    size_t begin = arena->used;
    move_used(arena, begin + piece);
    if (!arena->measuring && begin + piece <= PADDED) arena_poison(arena, begin + bytes, begin + piece);
    return (unsigned char *)((uintptr_t)arena->base + begin);
}

void qkv_arena_discard(struct qkv_arena *arena, void *piece, size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), begin = (size_t)((unsigned char *)piece - arena->base);
    const size_t first = qkv_round_up(begin, page);
    bytes = qkv_round_up(bytes, QKV_CACHE_LINE); /* the size that qkv_arena_take used */
    const size_t last = (begin + bytes) / page * page;
    assert(!arena->measuring && begin % QKV_CACHE_LINE == 0 && begin + bytes <= arena->used);
    if (first < last) madvise(arena->base + first, last - first, MADV_DONTNEED);
    arena_poison(arena, begin, qkv_min(begin + bytes, PADDED));
    arena->discarded += bytes;
    qkv_arena_count(bytes, false);
}

size_t qkv_arena_mark(const struct qkv_arena *arena) {
    return arena->used;
}

void qkv_arena_release(struct qkv_arena *arena, size_t mark) {
    assert(mark <= arena->used && mark % QKV_CACHE_LINE == 0);
    move_used(arena, mark);
}

struct qkv_planning qkv_planning_begin(struct qkv_context *ctx) {
    const struct qkv_planning had = {ctx->backend, ctx->profile, ctx->inputs};
    ctx->backend = ctx->backend->plan;
    ctx->profile = NULL;
    ctx->inputs = NULL;
    return had;
}

void qkv_planning_end(struct qkv_context *ctx, struct qkv_planning had) {
    ctx->backend = had.backend;
    ctx->profile = had.profile;
    ctx->inputs = had.inputs;
}

enum qkv_status qkv_plan(struct qkv_context *ctx, struct qkv_arena *arena, const char *what, qkv_plan_body *plan,
                         void *argument, size_t *bytes) {
    const struct qkv_arena real = *arena;
    const struct qkv_planning had = qkv_planning_begin(ctx);
    qkv_arena_measure(ctx, arena, what);
    enum qkv_status status = plan(argument);
    if (arena->peak > *bytes) *bytes = arena->peak;
    *arena = real;
    qkv_planning_end(ctx, had);
    return status;
}

enum qkv_status qkv_plan_at_most(struct qkv_context *ctx, struct qkv_arena *arena, const char *what,
                                 qkv_plan_body *plan, void *argument, size_t *bytes) {
    ctx->at_most = true;
    const enum qkv_status status = qkv_plan(ctx, arena, what, plan, argument, bytes);
    ctx->at_most = false;
    return status;
}

enum qkv_status qkv_arena_room(struct qkv_context *ctx, struct qkv_arena *arena, size_t bytes, const char *what) {
    if (arena->base && arena->capacity >= bytes) {
        qkv_arena_release(arena, 0);
        return QKV_OK;
    }
    qkv_arena_free(arena);
    return qkv_arena_create(ctx, arena, bytes, what);
}

enum qkv_status qkv_workspace(struct qkv_context *ctx, size_t bytes, struct qkv_arena **out) {
    struct qkv_arena *arena = ctx->workspace;
    *out = arena;
    if (arena && arena->capacity >= bytes) return QKV_OK;
    qkv_workspace_free(ctx);
    arena = qkv_allocate(ctx, 1, sizeof *arena);
    if (!arena) return QKV_MEMORY;
    enum qkv_status status = qkv_arena_create(ctx, arena, bytes, "scratch of a call");
    if (status == QKV_OK)
        *out = ctx->workspace = arena;
    else
        free(arena);
    return status;
}

void qkv_workspace_free(struct qkv_context *ctx) {
    if (ctx->workspace) qkv_arena_free(ctx->workspace);
    free(ctx->workspace);
    ctx->workspace = NULL;
}
