/* host_memory: the rows of memory of backends that compute in the memory of the host. Pages are mapped without
 * reserving them, so what is not touched costs nothing. */
#include "base/backend.h"

#include <string.h>

#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)

void *qkv_host_take(size_t bytes) {
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return NULL;
#ifdef MADV_HUGEPAGE
    if (bytes >= HUGE_PAGE) madvise(base, bytes, MADV_HUGEPAGE); /* only for speed: a failure changes no result */
#endif
    return base;
}

void qkv_host_release(void *memory, size_t bytes) {
    munmap(memory, bytes);
}

void qkv_host_copy(void *to, const void *from, size_t bytes) {
    memcpy(to, from, bytes);
}

const void *qkv_host_lend(struct qkv_arena *arena, const void *from, size_t bytes) {
    (void)arena, (void)bytes;
    return from;
}
