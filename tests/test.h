/* test.h: shared by all test programs: cmocka with its includes, a printed seed, a temporary folder, comparison of
 * float arrays by relative norm, and checks of a context's message. Header-only: each test program is one source
 * file. */
#ifndef QKV_TEST_H
#define QKV_TEST_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <ftw.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "type/type.h"
#include "sanitizers.h"

/* A spec that is freed where its scope ends; it begins as zeros: OWNED_SPEC struct qkv_spec spec = {0}; */
#define OWNED_SPEC __attribute__((cleanup(qkv_spec_free)))

/* A copy of a model's spec, to be freed. */
static inline struct qkv_spec test_model_spec(const struct qkv_model *model) {
    struct qkv_spec spec;
    assert_int_equal(qkv_spec_copy(qkv_model_context(model), qkv_model_spec(model), &spec), QKV_OK);
    return spec;
}

#define TEST_KIND(name, text, help) +1
enum { TEST_KINDS = 0 QKV_TOKENIZER_LIST(TEST_KIND) }; /* of tokenizers */
#undef TEST_KIND

#ifdef TEST_ADDRESS_SANITIZER
/* Hostile sizes are asked for on purpose: malloc must refuse them as it does without the sanitizer. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "allocator_may_return_null=1";
}
#endif

#define TEST_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The seed of this run: $QKV_TEST_SEED, or the same one always. Printed once, so that a failure can be repeated. */
static inline uint64_t test_seed(void) {
    static uint64_t seed;
    static bool known;
    if (!known) {
        const char *text = getenv("QKV_TEST_SEED");
        seed = text && *text ? strtoull(text, NULL, 0) : 20170612;
        known = true;
        printf("QKV_TEST_SEED=%llu\n", (unsigned long long)seed);
        fflush(stdout);
    }
    return seed;
}

/* A random stream of this run's seed; give each test its own number. */
static inline struct qkv_random test_random(uint64_t stream) {
    return qkv_random_start(test_seed(), stream);
}

/* Uniform in [low, high]. */
static inline size_t test_between(struct qkv_random *random, size_t low, size_t high) {
    return low + (size_t)qkv_random_below(random, (uint64_t)(high - low) + 1);
}

/* Fills x with N(0, deviation). */
static inline void test_fill(struct qkv_random *random, float *x, size_t n, double deviation) {
    for (size_t i = 0; i < n; i++) x[i] = (float)(deviation * qkv_random_normal(random));
}

/* ---- a folder of the test's own --------------------------------------------------------------------------------- */

static inline int test_remove_entry(const char *path, const struct stat *info, int kind, struct FTW *walk) {
    (void)info, (void)kind, (void)walk;
    return remove(path);
}

/* Removes a folder and all it holds. */
static inline void test_remove_tree(const char *path) {
    nftw(path, test_remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static inline char *test_folder_state(pid_t *owner) {
    static char path[512];
    static pid_t pid;
    if (owner) *owner = pid;
    if (!path[0]) pid = getpid();
    return path;
}

static inline void test_folder_remove(void) {
    pid_t owner;
    const char *path = test_folder_state(&owner);
    if (path[0] && owner == getpid()) test_remove_tree(path);
}

/* Files of tests are in memory if there is as much room: each file that is written safely waits for a disk. The same in
 * tests/cli/common.sh. */
#define TEST_ROOM ((double)(1 << 30))
static inline const char *test_folder_parent(void) {
    static const char memory[] = "/dev/shm";
    const char *parent = getenv("TMPDIR");
    struct statvfs room;
    if (parent && *parent) return parent;
    if (access(memory, W_OK) || statvfs(memory, &room)) return "/tmp";
    return (double)room.f_bavail * (double)room.f_frsize >= TEST_ROOM ? memory : "/tmp";
}

/* A fresh folder for this program, removed when it ends (by the process that made it, not by its forks). */
static inline const char *test_folder(void) {
    char *path = test_folder_state(NULL);
    if (!path[0]) {
        snprintf(path, 512, "%s/qkv-test-XXXXXX", test_folder_parent());
        if (!mkdtemp(path)) {
            perror(path);
            abort();
        }
        atexit(test_folder_remove);
    }
    return path;
}

/* A path inside that folder. The text stays valid for the next 15 calls. */
static inline const char *test_path(const char *name) {
    static char ring[16][1024];
    static size_t next;
    char *path = ring[next++ % 16];
    int n = snprintf(path, 1024, "%s/%s", test_folder(), name);
    if (n < 0 || n >= 1024) abort();
    return path;
}

/* Writes a file whole, without the code under test. */
static inline void test_write_file(const char *path, const void *data, size_t n) {
    FILE *file = fopen(path, "wb");
    if (!file || (n && fwrite(data, 1, n, file) != n) || fclose(file) != 0) {
        perror(path);
        abort();
    }
}

/* Reads a file whole, without the code under test; NULL if it is not there. A zero follows the last byte; free() it. */
static inline char *test_read_file(const char *path, size_t *n) {
    FILE *file = fopen(path, "rb");
    size_t size = 0, capacity = 1 << 16, got;
    if (!file) return NULL;
    char *data = malloc(capacity + 1);
    while (data && (got = fread(data + size, 1, capacity - size, file)) > 0) {
        size += got;
        if (size == capacity) data = realloc(data, (capacity *= 2) + 1);
    }
    fclose(file);
    if (!data) abort();
    data[size] = 0;
    if (n) *n = size;
    return data;
}

/* ---- comparison ------------------------------------------------------------------------------------------------- */

/* |a − b| / |b|; |a| where b is all zero; infinite where a number is not finite in only one of the two. */
static inline double test_relative_error(const float *a, const float *b, size_t n) {
    double difference = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        double x = (double)a[i], y = (double)b[i];
        if ((isnan(x) && isnan(y)) || x == y) {
            if (isfinite(y)) norm += y * y;
            continue;
        }
        if (!isfinite(x) || !isfinite(y)) return INFINITY;
        difference += (x - y) * (x - y);
        norm += y * y;
    }
    return norm > 0 ? sqrt(difference / norm) : sqrt(difference);
}

static inline void test_floats_close(const float *got, const float *expected, size_t n, double tolerance,
                                     const char *what, const char *file, int line) {
    double error = test_relative_error(got, expected, n);
    if (error <= tolerance) return;
    size_t worst = 0;
    double most = -1;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)got[i] - (double)expected[i]);
        if (isnan(d) && !(isnan(got[i]) && isnan(expected[i]))) d = INFINITY;
        if (d > most) most = d, worst = i;
    }
    print_error("%s: relative error %.3g > %.3g over %zu numbers; worst at [%zu]: %.9g, expected %.9g\n", what, error,
                tolerance, n, worst, (double)got[worst], (double)expected[worst]);
    _fail(file, line);
}

/* Fails unless |got − expected| <= tolerance · |expected| (2-norms), naming the worst element. */
#define assert_floats_close(got, expected, n, tolerance)                                                               \
    test_floats_close(got, expected, n, tolerance, #got, __FILE__, __LINE__)

static inline void test_message_has(const struct qkv_context *ctx, const char *part, const char *file, int line) {
    if (strstr(qkv_message(ctx), part)) return;
    print_error("the sentence is \"%s\" but must hold \"%s\"\n", qkv_message(ctx), part);
    _fail(file, line);
}

/* Fails unless the context's sentence holds `part`. */
#define assert_message(ctx, part) test_message_has(ctx, part, __FILE__, __LINE__)

static inline void test_status_is(const struct qkv_context *ctx, enum qkv_status got, enum qkv_status expected,
                                  const char *what, const char *file, int line) {
    if (got == expected) return;
    print_error("%s gave \"%s\", not \"%s\": %s\n", what, qkv_status_text(got), qkv_status_text(expected),
                ctx ? qkv_message(ctx) : "");
    _fail(file, line);
}

/* Fails unless a call gave QKV_OK, or the status named, showing the sentence. */
#define assert_ok(ctx, call)               test_status_is(ctx, call, QKV_OK, #call, __FILE__, __LINE__)
#define assert_status(ctx, call, expected) test_status_is(ctx, call, expected, #call, __FILE__, __LINE__)

#endif
