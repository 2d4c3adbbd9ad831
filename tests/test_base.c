/* test_base: sentences, heap blocks, buffers, arenas, CPUs and random numbers. */
/* labels: quick */
#include <errno.h>
#include <sched.h>
#include <signal.h>

#include <sys/resource.h>
#include <sys/wait.h>

#include "test.h"

/* ---- status ----------------------------------------------------------------------------------------------------- */

static void sentences(void **state) {
    (void)state;
    struct qkv_context ctx = {.threads = 3, .isa = "scalar"};
    assert_string_equal(qkv_message(&ctx), "");
    assert_int_equal(qkv_fail(&ctx, QKV_SHAPE, "x is %d", 8), QKV_SHAPE);
    assert_string_equal(qkv_message(&ctx), "x is 8");
    qkv_fail_at(&ctx, "decoder.layers.%d", 3);
    assert_string_equal(qkv_message(&ctx), "x is 8, at decoder.layers.3");
    qkv_fail(&ctx, QKV_FILE, "again: %s", ctx.message); /* the argument is the sentence itself */
    assert_string_equal(qkv_message(&ctx), "again: x is 8, at decoder.layers.3");
    assert_int_equal(qkv_fail(NULL, QKV_SPEC, "nobody hears"), QKV_SPEC);
    qkv_fail_at(NULL, "nowhere");
    assert_string_equal(qkv_message(NULL), "out of memory");
    assert_int_equal(qkv_context_threads(&ctx), 3);
    assert_string_equal(qkv_context_isa(&ctx), "scalar");
    assert_string_equal(qkv_status_text(QKV_OK), "ok");
    assert_string_equal(qkv_status_text(QKV_STOPPED), "stopped by the caller");
    assert_string_equal(qkv_status_text((enum qkv_status)99), "unknown status");
    assert_int_equal(strspn(qkv_version(), "0123456789."), strlen(qkv_version()));
    qkv_free(NULL);
}

static void sentences_are_safe_to_show(void **state) {
    (void)state;
    struct qkv_context ctx = {.threads = 1};
    qkv_fail(&ctx, QKV_FORMAT,
             "a\x1b[2Jb\nc\xc2\x9b"
             "d\x7f é");
    assert_string_equal(qkv_message(&ctx), "a?[2Jb c??d? é");

    char name[4096];
    for (size_t shift = 0; shift < 4; shift++) { /* é is two bytes: the cut falls inside one of them */
        size_t n = shift;
        memset(name, 'x', shift);
        while (n + 2 < sizeof name) memcpy(name + n, "é", 2), n += 2;
        name[n] = 0;
        qkv_fail(&ctx, QKV_FORMAT, "%s", name);
        size_t size = strlen(qkv_message(&ctx));
        assert_in_range(size, sizeof ctx.message - 6, sizeof ctx.message - 1);
        assert_string_equal(qkv_message(&ctx) + size - 3, "...");
        assert_int_equal((unsigned char)qkv_message(&ctx)[size - 4], 0xa9); /* the end of a whole é */
        qkv_fail_at(&ctx, "here %s", name);
        assert_in_range(strlen(qkv_message(&ctx)), size, sizeof ctx.message - 1);
    }
    for (size_t n = 990; n < sizeof ctx.message; n++) {
        memset(name, 'y', n);
        name[n] = 0;
        qkv_fail(&ctx, QKV_FORMAT, "%s", name);
        qkv_fail_at(&ctx, "%s", name);
        assert_true(strlen(qkv_message(&ctx)) < sizeof ctx.message);
    }
}

static void memory_sentences(void **state) {
    (void)state;
    struct qkv_context ctx = {.threads = 1};
    assert_int_equal(qkv_fail_memory(&ctx, 12897485, "one step"), QKV_MEMORY);
    assert_message(&ctx, "out of memory: 12.3 MiB for one step; ");
    qkv_fail_memory(&ctx, 1023, "a");
    assert_message(&ctx, "1023 bytes for a");
    qkv_fail_memory(&ctx, (size_t)3 << 40, NULL);
    assert_message(&ctx, "out of memory: 3.0 TiB; ");
    qkv_fail_memory(&ctx, SIZE_MAX, "a tensor");
    assert_message(&ctx, "more than this machine can address for a tensor");
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

static void sizes(void **state) {
    (void)state;
    size_t out, root = (size_t)1 << (sizeof(size_t) * 4);
    assert_true(qkv_multiply(0, SIZE_MAX, &out) && out == 0);
    assert_true(qkv_multiply(SIZE_MAX, 0, &out) && out == 0);
    assert_true(qkv_multiply(SIZE_MAX, 1, &out) && out == SIZE_MAX);
    assert_true(qkv_multiply(root - 1, root + 1, &out) && out == SIZE_MAX);
    assert_false(qkv_multiply(root, root, &out));
    assert_true(out == SIZE_MAX);
    assert_false(qkv_multiply(SIZE_MAX / 2 + 1, 2, &out));
    assert_true(qkv_add_size(SIZE_MAX - 1, 1, &out) && out == SIZE_MAX);
    assert_false(qkv_add_size(SIZE_MAX, 1, &out));
    assert_true(out == SIZE_MAX);
}

static void heap_blocks(void **state) {
    (void)state;
    struct qkv_context ctx = {.threads = 1};
    unsigned char *block = NULL;
    for (int again = 0; again < 2; again++) { /* the second time it is the block that was freed dirty */
        free(block);
        block = qkv_allocate(&ctx, 100, 7);
        for (size_t i = 0; i < 700; i++) assert_int_equal(block[i], 0);
        memset(block, 9, 700);
    }
    memset(block, 5, 700);
    assert_null(qkv_reallocate(&ctx, block, SIZE_MAX, 1));
    assert_message(&ctx, "more than this machine can address");
    block = qkv_reallocate(&ctx, block, 1000, 7);
    for (size_t i = 0; i < 700; i++) assert_int_equal(block[i], 5);
    free(block);
    void *none = qkv_allocate(&ctx, 0, 8);
    assert_non_null(none);
    free(none);
    assert_null(qkv_allocate(&ctx, SIZE_MAX / 2, 3));
    assert_null(qkv_allocate(&ctx, PTRDIFF_MAX, 2));
    ctx.message[0] = 0;
    assert_null(qkv_allocate(&ctx, SIZE_MAX / 4, 1)); /* addressable, but no machine has it */
    assert_message(&ctx, "out of memory: 4.0 EiB; ");
    char *copy = qkv_copy_bytes(&ctx, "ab\0cd", 5);
    assert_memory_equal(copy, "ab\0cd", 6);
    free(copy);
    copy = qkv_copy_bytes(&ctx, NULL, 0);
    assert_string_equal(copy, "");
    free(copy);
    copy = qkv_copy_string(&ctx, "text");
    assert_string_equal(copy, "text");
    free(copy);
}

static void buffers(void **state) {
    (void)state;
    struct qkv_context ctx = {.threads = 1};
    struct qkv_random random = test_random(1);
    struct qkv_buffer b = {0};
    assert_ok(&ctx, qkv_buffer_append(&ctx, &b, NULL, 0));
    assert_string_equal(b.data, "");
    char *expected = calloc(1, 1 << 20);
    size_t n = 0;
    while (n < 900000) {
        char piece[5000];
        size_t size = test_between(&random, 0, sizeof piece);
        for (size_t i = 0; i < size; i++) piece[i] = (char)qkv_random_bits(&random);
        memcpy(expected + n, piece, size);
        n += size;
        assert_ok(&ctx, qkv_buffer_append(&ctx, &b, piece, size));
        n += (size_t)sprintf(expected + n, "<%zu %s>", n, "text");
        assert_ok(&ctx, qkv_buffer_print(&ctx, &b, "<%zu %s>", b.size, "text"));
        assert_int_equal(b.size, n);
        assert_true(b.capacity > n && b.data[n] == 0);
    }
    assert_memory_equal(b.data, expected, n + 1);
    assert_status(&ctx, qkv_buffer_append(&ctx, &b, expected, SIZE_MAX - 3), QKV_MEMORY);
    assert_status(&ctx, qkv_buffer_append(&ctx, &b, expected, SIZE_MAX / 2), QKV_MEMORY);
    assert_int_equal(b.size, n);
    free(expected);
    qkv_buffer_free(&b);
    assert_null(b.data);
    qkv_buffer_free(&b);
}

/* ---- arenas ----------------------------------------------------------------------------------------------------- */

/* The same random plan on a measuring arena and on a real one of exactly the measured peak. */
static void arena_plan(struct qkv_arena *arena, uint64_t stream) {
    struct qkv_random random = test_random(stream);
    for (int round = 0; round < 50; round++) {
        size_t mark = qkv_arena_mark(arena);
        unsigned char *pieces[20];
        size_t sizes_of[20], count = test_between(&random, 1, 20);
        for (size_t i = 0; i < count; i++) {
            size_t element = (size_t)1 << qkv_random_below(&random, 4);
            sizes_of[i] = element * test_between(&random, 0, 3000);
            pieces[i] = qkv_arena_take(arena, sizes_of[i] / element, element);
            assert_non_null(pieces[i]);
            assert_int_equal((uintptr_t)pieces[i] % 64, 0);
            if (!arena->measuring && sizes_of[i]) memset(pieces[i], (int)i, sizes_of[i]);
        }
        for (size_t i = 0; i < count && !arena->measuring; i++) {
            for (size_t k = 0; k < sizes_of[i]; k++) assert_int_equal(pieces[i][k], i);
        }
        if (round % 4) qkv_arena_release(arena, mark);
    }
}

static void arena_measures_what_it_needs(void **state) {
    (void)state;
    struct qkv_context ctx = {.threads = 1};
    struct qkv_arena measure, arena;
    qkv_arena_measure(&ctx, &measure, "one step");
    arena_plan(&measure, 2);
    assert_ok(&ctx, qkv_arena_create(&ctx, &arena, measure.peak, "one step"));
    arena_plan(&arena, 2);
    assert_int_equal(arena.peak, measure.peak);
    assert_int_equal(arena.used, measure.used);
    qkv_arena_release(&arena, 0);
    assert_non_null(qkv_arena_take(&arena, measure.peak, 1));
    assert_null(qkv_arena_take(&arena, 1, 1));
    assert_message(&ctx, "for one step");
    assert_non_null(qkv_arena_take(&arena, 0, 8));
    assert_null(qkv_arena_take(&arena, SIZE_MAX, 2));
    assert_message(&ctx, "more than this machine can address for one step");
    assert_null(qkv_arena_take(&arena, SIZE_MAX, 1));
    qkv_arena_free(&arena);
    qkv_arena_free(&arena);
    qkv_arena_free(&measure);
}

static void arena_counts_any_size(void **state) {
    (void)state;
    struct qkv_context ctx = {.threads = 1, .ignore_memory = true}; /* the system refuses by itself */
    struct qkv_arena arena;
    qkv_arena_measure(&ctx, &arena, "a dream");
    for (int i = 0; i < 8; i++) assert_non_null(qkv_arena_take(&arena, (size_t)1 << 40, 1 << 10)); /* 8 PiB */
    assert_true(arena.peak == (size_t)8 << 50);
    assert_null(qkv_arena_take(&arena, PTRDIFF_MAX, 1));
    assert_message(&ctx, "a dream");
    assert_status(&ctx, qkv_arena_create(&ctx, &arena, SIZE_MAX, "far too much"), QKV_MEMORY);
    assert_message(&ctx, "far too much");
    assert_status(&ctx, qkv_arena_create(&ctx, &arena, (size_t)1 << 60, "too much"), QKV_MEMORY);
    assert_message(&ctx, "out of memory: 1.0 EiB for too much");
    assert_null(arena.base);
    qkv_arena_free(&arena);
    assert_ok(&ctx, qkv_arena_create(&ctx, &arena, 0, "nothing"));
    assert_non_null(qkv_arena_take(&arena, 0, 1));
    qkv_arena_free(&arena);
}

static size_t resident_kilobytes(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (size_t)usage.ru_maxrss;
}

static void arena_is_backed_lazily(void **state) {
    (void)state;
    struct qkv_context ctx = {.threads = 1, .ignore_memory = true}; /* more than many machines have */
    struct qkv_arena arena;
    size_t before = resident_kilobytes();
    assert_ok(&ctx, qkv_arena_create(&ctx, &arena, (size_t)64 << 30, "a large step"));
    char *first = qkv_arena_take(&arena, 1, (size_t)48 << 30), *last = qkv_arena_take(&arena, 100, 1);
    first[0] = first[((size_t)48 << 30) - 1] = last[99] = 1;
    qkv_arena_release(&arena, 0);
    qkv_arena_free(&arena);
    assert_true(resident_kilobytes() - before < 256 << 10);
}

#ifdef TEST_ADDRESS_SANITIZER
/* Whether a write of one byte is refused; in a child, as it dies of it. */
static bool write_is_refused(volatile char *address) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr)) _exit(0);
        *address = 1;
        _exit(0);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    return result != 0;
}

static void arena_is_poisoned(void **state) {
    (void)state;
    struct qkv_context ctx = {.threads = 1};
    struct qkv_arena arena;
    assert_ok(&ctx, qkv_arena_create(&ctx, &arena, 4096, "one step"));
    assert_true(write_is_refused((char *)arena.base));
    char *a = qkv_arena_take(&arena, 70, 1);
    size_t mark = qkv_arena_mark(&arena);
    char *b = qkv_arena_take(&arena, 64, 1);
    assert_false(write_is_refused(a + 69));
    assert_true(write_is_refused(a + 70));
    assert_false(write_is_refused(b));
    assert_true(write_is_refused(b + 64));
    qkv_arena_release(&arena, mark);
    assert_true(write_is_refused(b));
    assert_false(write_is_refused(a));
    assert_ptr_equal(qkv_arena_take(&arena, 64, 1), b);
    assert_false(write_is_refused(b));
    qkv_arena_free(&arena);

    /* A piece may lie over the ends of many that were released. */
    size_t capacity = (size_t)64 << 20;
    assert_ok(&ctx, qkv_arena_create(&ctx, &arena, capacity, "one step"));
    while (arena.used + 1000 <= capacity) assert_non_null(qkv_arena_take(&arena, 1000, 1));
    qkv_arena_release(&arena, 0);
    memset(qkv_arena_take(&arena, capacity, 1), 1, capacity);
    qkv_arena_free(&arena);
}
#endif

/* ---- CPUs ------------------------------------------------------------------------------------------------------- */

static void cpus(void **state) {
    (void)state;
    cpu_set_t all, one;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    assert_in_range(qkv_cpu_count(), 1, CPU_COUNT(&all));
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++) {
        if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
    }
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(qkv_cpu_count(), 1);
    const struct qkv_cpus cpus = qkv_cpus_allowed();
    assert_int_equal(cpus.affinity, 1);
    assert_true(cpus.online >= CPU_COUNT(&all) && cpus.quota >= 1);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

static void cache_sizes(void **state) {
    (void)state;
    size_t largest = qkv_cache_bytes(0);
    for (int level = 1; level <= 3; level++) {
        size_t bytes = qkv_cache_bytes(level);
        assert_true(bytes == 0 || (bytes >= 1024 && bytes <= largest));
    }
    assert_int_equal(qkv_cache_bytes(9), 0);
}

static void write_text(const char *name, const char *text) {
    struct qkv_context ctx = {.threads = 1};
    char folder[1024];
    snprintf(folder, sizeof folder, "%s", test_path(name));
    *strrchr(folder, '/') = 0;
    assert_ok(&ctx, qkv_make_folder(&ctx, folder));
    test_write_file(test_path(name), text, strlen(text));
}

static int32_t quota(const char *membership, const char *mount) {
    write_text("membership", membership);
    return qkv_cgroup_cpus(test_path("membership"), test_path(mount));
}

static void cgroup_quotas(void **state) {
    (void)state;
    write_text("v2/a/b/cpu.max", "max 100000\n");
    assert_int_equal(quota("0::/a/b\n", "v2"), INT32_MAX);
    write_text("v2/a/cpu.max", "250000 100000\n"); /* a group that holds ours */
    assert_int_equal(quota("0::/a/b\n", "v2"), 3);
    write_text("v2/a/b/cpu.max", "20000 100000\n");
    assert_int_equal(quota("0::/a/b\n", "v2"), 1);
    assert_int_equal(quota("0::/elsewhere\n", "v2"), INT32_MAX);
    write_text("v2/cpu.max", "400000 100000\n"); /* a container: the group's path is not below the mount */
    assert_int_equal(quota("0::/elsewhere/far\n", "v2"), 4);
    assert_int_equal(quota("0::/\n", "v2"), 4);
    write_text("v1/cpu/c/cpu.cfs_quota_us", "-1\n");
    write_text("v1/cpu/c/cpu.cfs_period_us", "100000\n");
    assert_int_equal(quota("7:memory:/c\n3:cpu,cpuacct:/c\n0::/\n", "v1"), INT32_MAX);
    write_text("v1/cpu/c/cpu.cfs_quota_us", "600000\n");
    assert_int_equal(quota("7:memory:/c\n3:cpuacct,cpu:/c\n0::/\n", "v1"), 6);
    assert_int_equal(quota("7:memory:/c\n2:cpuacct:/c\n3:cpuset:/c\n", "v1"), INT32_MAX);
    write_text("v1/cpu/c/cpu.cfs_period_us", "nonsense\n");
    assert_int_equal(quota("3:cpu:/c\n", "v1"), INT32_MAX);
    write_text("v2/a/b/cpu.max", "");
    assert_int_equal(quota("0::/a/b\nnonsense\n::\n", "v2"), 3);
    assert_int_equal(qkv_cgroup_cpus(test_path("missing"), test_path("v2")), INT32_MAX);
}

int main(void) {
    test_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sentences),
        cmocka_unit_test(sentences_are_safe_to_show),
        cmocka_unit_test(memory_sentences),
        cmocka_unit_test(sizes),
        cmocka_unit_test(heap_blocks),
        cmocka_unit_test(buffers),
        cmocka_unit_test(arena_measures_what_it_needs),
        cmocka_unit_test(arena_counts_any_size),
        cmocka_unit_test(arena_is_backed_lazily),
#ifdef TEST_ADDRESS_SANITIZER
        cmocka_unit_test(arena_is_poisoned),
#endif
        cmocka_unit_test(cpus),
        cmocka_unit_test(cgroup_quotas),
        cmocka_unit_test(cache_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
