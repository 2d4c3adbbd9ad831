/* fuzz.h: shared by the fuzz targets. A target is one file, fuzz_NAME.c, that gives LLVMFuzzerTestOneInput the bytes
 * of a file from elsewhere. With clang it is linked with libFuzzer (make fuzz); with any compiler, with
 * fuzz_files.c, which feeds it files and damaged copies of them (make test). If a target reads several files, its
 * input has all of them, with a NUL after each except the last; a file past the end of the input does not exist. */
#ifndef QKV_FUZZ_H
#define QKV_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A finding: what a caller may rely on does not hold. */
#define FUZZ_CHECK(condition)                                                                                          \
    do {                                                                                                               \
        if (condition) break;                                                                                          \
        fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                                \
        abort();                                                                                                       \
    } while (0)

/* Hostile sizes are asked for on purpose: malloc must refuse them as it does without the sanitizer. */
__attribute__((visibility("default"), weak)) const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "allocator_may_return_null=1";
}

static inline struct qkv_context *fuzz_context(void) {
    static struct qkv_context *ctx;
    struct qkv_context_options options = qkv_context_defaults();
    options.threads = 1;
    if (!ctx && qkv_context_create(&ctx, &options)) abort();
    return ctx;
}

/* A call has a sentence where it failed, and only there. */
static inline bool fuzz_ok(enum qkv_status status) {
    FUZZ_CHECK(!status == !*qkv_message(fuzz_context()));
    return !status;
}

/* ---- files ------------------------------------------------------------------------------------------------------ */

static inline int fuzz_remove_entry(const char *path, const struct stat *info, int kind, struct FTW *walk) {
    (void)info, (void)kind, (void)walk;
    return remove(path);
}

static inline char *fuzz_folder_state(void) {
    static char path[64];
    return path;
}

static inline void fuzz_folder_remove(void) {
    nftw(fuzz_folder_state(), fuzz_remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* A folder of this program, in memory where the machine has such a place. */
static inline const char *fuzz_folder(void) {
    char *path = fuzz_folder_state();
    if (*path) return path;
    snprintf(path, 64, "%s/qkv-fuzz-XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    if (!mkdtemp(path)) abort();
    atexit(fuzz_folder_remove);
    return path;
}

/* The path of a file in it; valid until the call after the next. */
static inline const char *fuzz_path(const char *name) {
    static char paths[2][256];
    static int next;
    char *path = paths[next++ & 1];
    snprintf(path, sizeof paths[0], "%s/%s", fuzz_folder(), name);
    return path;
}

struct fuzz_part {
    const char *data; /* NULL: not there */
    size_t size;
};

/* Cuts an input into `count` parts at NULs. */
static inline void fuzz_parts(const uint8_t *data, size_t size, struct fuzz_part *parts, size_t count) {
    const char *at = (const char *)data, *end = at ? at + size : NULL;
    for (size_t i = 0; i < count; i++) {
        const size_t left = at ? (size_t)(end - at) : 0;
        const char *stop = left && i + 1 < count ? memchr(at, 0, left) : NULL;
        parts[i] = (struct fuzz_part){at, stop ? (size_t)(stop - at) : left};
        at = stop ? stop + 1 : NULL;
    }
}

/* Writes a part into the folder; one that is not there leaves no file. */
static inline const char *fuzz_file(const char *name, struct fuzz_part part) {
    const char *path = fuzz_path(name);
    remove(path);
    if (!part.data) return path;
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(part.data, 1, part.size, file) != part.size || fclose(file)) abort();
    return path;
}

#endif
