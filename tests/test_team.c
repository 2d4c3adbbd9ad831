/* The threads of a context: every item of a loop is done once, even if a thread is late, missing or lost by a fork;
 * waiting threads use no CPU, and beside other programs several threads are no slower than one, within a factor.
 * test_threads and the tests of kernels and models test the bits. */
/* labels: quick */
#include "test.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include <sys/resource.h>
#include <sys/wait.h>

#include "base/backend.h"

/* ---- every item once -------------------------------------------------------------------------------------------- */

struct visits {
    atomic_int *seen;
    atomic_int busy[8];
    atomic_int wrong;
    int threads;
};

static void visit_range(void *argument, size_t begin, size_t end, int thread) {
    struct visits *v = argument;
    if (thread < 0 || thread >= v->threads || atomic_fetch_add(&v->busy[thread], 1) != 0 || begin >= end) {
        atomic_fetch_add(&v->wrong, 1);
        return;
    }
    for (size_t i = begin; i < end; i++) atomic_fetch_add(&v->seen[i], 1);
    atomic_fetch_sub(&v->busy[thread], 1);
}

static void visit(void *argument, size_t item, int thread) {
    visit_range(argument, item, item + 1, thread);
}

static void every_item_once(void **state) {
    (void)state;
    static const size_t counts[] = {0, 1, 2, 3, 7, 64, 1000, 4097}, grains[] = {1, 3, 64, 5000, 0, SIZE_MAX};
    static atomic_int seen[4097];
    for (int threads = 1; threads <= 8; threads++) {
        struct qkv_context ctx = {.threads = threads, .backend = &qkv_backend_bare};
        for (size_t c = 0; c < TEST_COUNT(counts); c++) {
            for (size_t g = 0; g <= TEST_COUNT(grains); g++) {
                struct visits v = {.seen = seen, .threads = threads};
                for (size_t i = 0; i < 4097; i++) atomic_store(&seen[i], 0);
                for (int dry = 1; dry >= 0; dry--) {
                    ctx.backend = dry ? &qkv_backend_bare_plan : &qkv_backend_bare;
                    if (g < TEST_COUNT(grains)) {
                        qkv_parallel_range(&ctx, counts[c], grains[g], visit_range, &v);
                    } else {
                        qkv_parallel(&ctx, counts[c], visit, &v);
                    }
                    for (size_t i = 0; i < 4097; i++) assert_int_equal(seen[i], !dry && i < counts[c]);
                }
                assert_int_equal(v.wrong, 0);
            }
        }
        qkv_team_free(&ctx);
    }
}

static void meet(void *argument, size_t item, int thread) {
    (void)item, (void)thread;
    atomic_int *arrived = argument;
    atomic_fetch_add(arrived, 1);
    for (time_t end = time(NULL) + 10; atomic_load(arrived) < 2 && time(NULL) < end;) sched_yield();
    if (atomic_load(arrived) < 2) atomic_fetch_sub(arrived, 10);
}

static void items_run_at_once(void **state) {
    (void)state;
    struct qkv_context ctx = {.threads = 2, .backend = &qkv_backend_bare};
    atomic_int arrived = 0;
    qkv_parallel(&ctx, 2, meet, &arrived);
    qkv_team_free(&ctx);
    assert_int_equal(arrived, 2);
}

static bool all_items_are_done(struct qkv_context *ctx, size_t count) {
    static atomic_int seen[4097];
    struct visits v = {.seen = seen, .threads = ctx->threads};
    for (size_t i = 0; i < 4097; i++) atomic_store(&seen[i], 0);
    qkv_parallel(ctx, count, visit, &v);
    for (size_t i = 0; i < 4097; i++)
        if (seen[i] != (i < count)) return false;
    return v.wrong == 0;
}

/* ---- threads that the system does not make ---------------------------------------------------------------------- */

#ifndef TEST_SANITIZED
/* threads that may still be made, below 0: no limit; and the limit after a thread was refused */
static int threads_left = -1, threads_limit;

#pragma GCC visibility push(default)
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
    typedef int create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    create *real;
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    if (threads_left == 0) {
        threads_left = threads_limit;
        return EAGAIN;
    }
    if (threads_left > 0) threads_left--;
    return real(thread, attributes, run, argument);
}
#pragma GCC visibility pop
#endif

static void where_the_system_makes_fewer_threads_those_do_the_work_and_a_note_says_so(void **state) {
    (void)state;
#ifdef TEST_SANITIZED
    skip(); /* the sanitizers replace the function that makes threads */
#else
    for (int left = 0; left <= 7; left++) {
        const int made = (left == 7 ? left : left / 2) + 1; /* half of those beside the caller's were given back */
        struct qkv_context *ctx;
        char number[16];
        threads_left = threads_limit = left;
        assert_int_equal(qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, .threads = 8)), QKV_OK);
        assert_int_equal(qkv_context_threads(ctx), made);
        snprintf(number, sizeof number, "only %d of 8", made);
        if (left == 7)
            assert_null(qkv_context_threads_note(ctx));
        else
            assert_non_null(strstr(qkv_context_threads_note(ctx), number));
        assert_string_equal(qkv_message(ctx), "");
        assert_true(all_items_are_done(ctx, 1000));
        threads_left = -1;
        qkv_context_free(ctx);
    }
#endif
}

/* ---- forks ------------------------------------------------------------------------------------------------------ */

static void a_forked_child_has_threads_of_its_own(void **state) {
    (void)state;
#ifdef TEST_THREAD_SANITIZER
    skip(); /* the sanitizer ends a forked child that makes threads */
#endif
    struct qkv_context *ctx;
    assert_int_equal(qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, .threads = 3)), QKV_OK);
    for (int used = 0; used < 2; used++) {
        const pid_t child = fork();
        int status = -1;
        assert_true(child >= 0);
        if (child == 0) {
            atomic_int arrived = 0;
            alarm(60);
            bool good = all_items_are_done(ctx, 1000);
            qkv_parallel(ctx, 2, meet, &arrived);
            good = good && arrived == 2 && all_items_are_done(ctx, 4097);
            qkv_context_free(ctx);
            _exit(good ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        assert_true(all_items_are_done(ctx, 1000));
    }
    qkv_context_free(ctx);
}

static void a_child_may_free_a_context_without_using_it(void **state) {
    (void)state;
    struct qkv_context *ctx;
    int status = -1;
    assert_int_equal(qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, .threads = 3)), QKV_OK);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60);
        qkv_context_free(ctx);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    qkv_context_free(ctx);
}

/* ---- callers ---------------------------------------------------------------------------------------------------- */

static void *caller_run(void *argument) {
    struct qkv_context *ctx = argument;
    for (int i = 0; i < 20; i++)
        if (!all_items_are_done(ctx, 100)) return NULL;
    return ctx;
}

static void any_thread_may_be_the_caller_one_after_the_other(void **state) {
    (void)state;
    struct qkv_context *ctx;
    assert_int_equal(qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, .threads = 3)), QKV_OK);
    for (int i = 0; i < 4; i++) {
        pthread_t thread;
        void *done = NULL;
        assert_non_null(caller_run(ctx));
        assert_int_equal(pthread_create(&thread, NULL, caller_run, ctx), 0);
        assert_int_equal(pthread_join(thread, &done), 0);
        assert_ptr_equal(done, ctx);
    }
    qkv_context_free(ctx);
}

/* ---- waiting ---------------------------------------------------------------------------------------------------- */

static double cpu_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void threads_that_wait_take_no_cpu(void **state) {
    (void)state;
    struct qkv_context *ctx;
    const struct timespec pause = {0, 20 * 1000 * 1000};
    assert_int_equal(qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, .threads = 8)), QKV_OK);
    double spent = 0;
    for (int i = 0; i < 10; i++) {
        assert_true(all_items_are_done(ctx, 64));
        const double before = cpu_seconds();
        nanosleep(&pause, NULL);
        spent += cpu_seconds() - before;
    }
    /* 200 ms for each of seven threads, if they spun: a tenth of one's is enough. */
    if (spent > 0.02) fail_msg("seven threads took %g s of CPU in 0.2 s without work", spent);
    qkv_context_free(ctx);
}

static atomic_bool burning;

static void *burn(void *argument) {
    while (atomic_load_explicit(&burning, memory_order_relaxed)) continue;
    return argument;
}

static void work_a_little(void *argument, size_t item, int thread) {
    (void)thread;
    volatile double *x = argument;
    double sum = (double)item;
    for (int i = 0; i < 500; i++) sum = sum * 0.5 + i; /* about a microsecond */
    x[8 * item] = sum;
}

static double seconds_of(int threads) {
    enum { LOOPS = 20000, ITEMS = 4 };
    static double x[8 * ITEMS];
    struct qkv_context *ctx;
    assert_int_equal(qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, .threads = threads)), QKV_OK);
    const double start = qkv_clock();
    for (int i = 0; i < LOOPS; i++) qkv_parallel(ctx, ITEMS, work_a_little, x);
    const double seconds = qkv_clock() - start;
    qkv_context_free(ctx);
    return seconds;
}

/* Threads that wait for each other at each loop lose a time slice of the scheduler, some milliseconds, whenever one
 * of them is stopped: a minute here. */
static void short_loops_beside_other_work_take_little_longer_than_on_one_thread(void **state) {
    (void)state;
    enum { BURNERS_MOST = 64 };
    pthread_t burners[BURNERS_MOST];
    const int cpus = qkv_cpu_count(), threads = cpus < 2 ? 2 : cpus < 16 ? cpus : 16;
    const int count = 2 * cpus < BURNERS_MOST ? 2 * cpus : BURNERS_MOST;
    atomic_store(&burning, true);
    for (int i = 0; i < count; i++) assert_int_equal(pthread_create(&burners[i], NULL, burn, NULL), 0);
    const double one = seconds_of(1), all = seconds_of(threads);
    atomic_store(&burning, false);
    for (int i = 0; i < count; i++) assert_int_equal(pthread_join(burners[i], NULL), 0);
    print_message("20,000 loops of 4 us beside %d busy threads: %.3f s on one thread, %.3f s on %d\n", count, one, all,
                  threads);
    if (all > 4 * one + 1) fail_msg("%g s on %d threads, %g s on one", all, threads, one);
}

static void note_thread(void *argument, size_t item, int thread) {
    (void)item;
    atomic_int *others = argument;
    const struct timespec pause = {0, 200000};
    nanosleep(&pause, NULL);
    if (thread) atomic_fetch_add(others, 1);
}

/* While as many contexts are inside calls as there are CPUs, each works with its caller alone. */
static void contexts_that_fill_the_cpus_work_alone(void **state) {
    (void)state;
    struct qkv_context a = {.threads = 2, .cpus = 2, .backend = &qkv_backend_bare}, b = a;
    struct qkv_context *in_a = qkv_call_begin(&a), *in_b = qkv_call_begin(&b);
    atomic_int others = 0;
    assert_int_equal(qkv_calls_running(), 2);
    for (int i = 0; i < 50; i++) qkv_parallel(&a, 16, note_thread, &others);
    assert_int_equal(atomic_load(&others), 0);
    qkv_call_end(&in_b);
    assert_int_equal(qkv_calls_running(), 1);
    const time_t end = time(NULL) + 20;
    while (!atomic_load(&others) && time(NULL) < end) qkv_parallel(&a, 16, note_thread, &others);
    assert_true(atomic_load(&others) > 0);
    qkv_call_end(&in_a);
    assert_int_equal(qkv_calls_running(), 0);
    qkv_team_free(&a);
    qkv_team_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_once),
        cmocka_unit_test(items_run_at_once),
        cmocka_unit_test(contexts_that_fill_the_cpus_work_alone),
        cmocka_unit_test(where_the_system_makes_fewer_threads_those_do_the_work_and_a_note_says_so),
        cmocka_unit_test(a_forked_child_has_threads_of_its_own),
        cmocka_unit_test(a_child_may_free_a_context_without_using_it),
        cmocka_unit_test(any_thread_may_be_the_caller_one_after_the_other),
        cmocka_unit_test(threads_that_wait_take_no_cpu),
        cmocka_unit_test(short_loops_beside_other_work_take_little_longer_than_on_one_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
