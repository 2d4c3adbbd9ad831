/* guard_page.h: memory that ends at a page without access. A kernel that reads or writes past the end of its buffer,
 * with a masked or a whole vector, stops the program there. The address sanitizer does not find this: it sees
 * neither masked vector loads nor code that it did not compile. It needs no test framework. */
#ifndef QKV_GUARD_PAGE_H
#define QKV_GUARD_PAGE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/mman.h>

/* A mapping: one page that stores its length, the pages of the block, whose last byte ends its last page, and the
 * guard page. */
static inline size_t guard_page_size(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* `bytes` bytes of zeros; freed with guard_page_free. The first one is aligned as bytes is. */
static inline void *guard_page_new(size_t bytes) {
    const size_t page = guard_page_size();
    if (bytes > SIZE_MAX / 2) abort();
    const size_t inside = (bytes + page - 1) / page * page, length = inside + 2 * page;
    unsigned char *start = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED || mprotect(start + page + inside, page, PROT_NONE) != 0) {
        fprintf(stderr, "no memory for a guarded block of %zu bytes\n", bytes);
        abort();
    }
    *(size_t *)(void *)start = length;
    return start + page + inside - bytes;
}

/* NULL is fine. */
static inline void guard_page_free(void *block) {
    const size_t page = guard_page_size();
    if (!block) return;
    unsigned char *start = (unsigned char *)((uintptr_t)block / page * page) - page;
    munmap(start, *(size_t *)(void *)start);
}

#endif
