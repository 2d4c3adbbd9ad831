/* qkv_bench [--json FILE] [--threads N] [--isa NAME] [--seconds S] [GROUP…]: prints the measured peak and, group by
 * group, the speed of each row as FLOP/s and as a share of that peak. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"

enum { MOST_ROUNDS = 9, MOST_CONTESTANTS = 4 };

struct group {
    const char *name, *what;
    void (*run)(struct bench *b);
};
#define GROUP_ENTRY(name, what) {#name, what, bench_##name},
static const struct group groups[] = {BENCH_GROUPS(GROUP_ENTRY)};
enum { GROUP_COUNT = sizeof groups / sizeof groups[0] };

double bench_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

float *bench_floats(size_t n) {
    size_t bytes = (n * sizeof(float) + 63) / 64 * 64;
    float *x = aligned_alloc(64, bytes ? bytes : 64);
    struct qkv_random random = qkv_random_start(1, n);
    for (size_t i = 0; x && i < n; i++) x[i] = (float)(qkv_random_uniform(&random) - 0.5);
    return x;
}

/* Worker threads of every library spin for some milliseconds after their work, which would disturb the next one's. */
static void let_threads_sleep(void) {
    const struct timespec pause = {0, 60 * 1000 * 1000};
    nanosleep(&pause, NULL);
}

/* Seconds a call, of calls that go on for `seconds`. */
static double time_calls(const struct bench_contestant *c, double seconds) {
    let_threads_sleep();
    c->work(c->argument);
    double start = bench_now(), spent;
    size_t calls = 0, batch = 1;
    do {
        for (size_t i = 0; i < batch; i++) c->work(c->argument);
        calls += batch;
        spent = bench_now() - start;
        if (spent < seconds / 16) batch *= 2;
    } while (spent < seconds);
    return spent / (double)calls;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_row(struct bench *b, const char *label, double flops, const struct bench_contestant *contestants,
                 size_t count) {
    double times[MOST_CONTESTANTS][MOST_ROUNDS], median[MOST_CONTESTANTS];
    if (count > MOST_CONTESTANTS) count = MOST_CONTESTANTS;
    for (int round = 0; round < b->rounds; round++)
        for (size_t i = 0; i < count; i++) times[i][round] = time_calls(&contestants[i], b->seconds);
    printf("  %-34s", label);
    if (b->json) {
        fprintf(b->json, "%s\n  {\"group\": \"%s\", \"label\": \"%s\", \"flops\": %.17g", b->json_started ? "," : "",
                b->group, label, flops);
        b->json_started = true;
    }
    for (size_t i = 0; i < count; i++) {
        qsort(times[i], (size_t)b->rounds, sizeof(double), compare);
        median[i] = times[i][b->rounds / 2];
        if (flops > 0)
            printf("  %s %8.1f GFLOP/s %5.1f %%", contestants[i].name, flops / median[i] * 1e-9,
                   100 * flops / median[i] / b->peak);
        else
            printf("  %s %10.3f ms", contestants[i].name, 1e3 * median[i]);
        if (b->json) fprintf(b->json, ", \"%s_seconds\": %.9g", contestants[i].name, median[i]);
    }
    printf("\n");
    fflush(stdout);
    if (b->json) fprintf(b->json, "}");
    return median[0];
}

static int usage(const char *problem) {
    fprintf(stderr,
            "qkv_bench: %s\nusage: qkv_bench [--json FILE] [--threads N] [--isa NAME] [--seconds S] [GROUP...]\n",
            problem);
    for (size_t i = 0; i < GROUP_COUNT; i++) fprintf(stderr, "  %-12s %s\n", groups[i].name, groups[i].what);
    return 2;
}

struct arguments {
    struct qkv_context_options context;
    const char *json;
    double seconds;
    bool wanted[GROUP_COUNT], any;
};

static const char *read_group(struct arguments *a, const char *name) {
    for (size_t i = 0; i < GROUP_COUNT; i++) {
        if (strcmp(groups[i].name, name) != 0) continue;
        a->wanted[i] = a->any = true;
        return NULL;
    }
    return "no such group";
}

/* NULL, or what is wrong. */
static const char *read_arguments(struct arguments *a, int count, char **text) {
    *a = (struct arguments){.seconds = 0.1};
    for (int i = 1; i < count; i++) {
        const char *problem = NULL, *name = text[i], *value = i + 1 < count ? text[i + 1] : NULL;
        if (name[0] != '-') {
            problem = read_group(a, name);
        } else if (!value) {
            problem = "an option lacks its value";
        } else if (i++, strcmp(name, "--json") == 0) {
            a->json = value;
        } else if (strcmp(name, "--threads") == 0) {
            a->context.threads = atoi(value);
        } else if (strcmp(name, "--isa") == 0) {
            a->context.isa = value;
        } else if (strcmp(name, "--seconds") == 0) {
            a->seconds = atof(value);
        } else {
            problem = "no such option";
        }
        if (problem) return problem;
    }
    return a->seconds > 0 ? NULL : "--seconds must be above 0";
}

static void run_groups(struct bench *b, const struct arguments *a) {
    b->peak = qkv_measure_peak(b->ctx);
    printf("%s, %d threads, measured peak %.1f GFLOP/s\n", qkv_isa(b->ctx), qkv_threads(b->ctx), b->peak * 1e-9);
    if (b->json)
        fprintf(b->json, "{\"isa\": \"%s\", \"threads\": %d, \"peak_flops\": %.9g, \"rows\": [", qkv_isa(b->ctx),
                qkv_threads(b->ctx), b->peak);
    for (size_t i = 0; i < GROUP_COUNT; i++) {
        if (a->any && !a->wanted[i]) continue;
        printf("\n%s\n", groups[i].what);
        b->group = groups[i].name;
        groups[i].run(b);
    }
    if (b->json) fprintf(b->json, "\n]}\n");
}

int main(int count, char **text) {
    struct arguments a;
    const char *problem = read_arguments(&a, count, text);
    if (problem) return usage(problem);
    struct bench b = {.seconds = a.seconds, .rounds = 5};
    if (qkv_context_create(&b.ctx, &a.context) != QKV_OK) {
        fprintf(stderr, "qkv_bench: %s\n", qkv_message(b.ctx));
        qkv_context_free(b.ctx);
        return 1;
    }
    if (a.json && !(b.json = fopen(a.json, "w"))) {
        perror(a.json);
        qkv_context_free(b.ctx);
        return 1;
    }
    run_groups(&b, &a);
    int status = 0;
    if (b.json && fclose(b.json) != 0) {
        perror(a.json);
        status = 1;
    }
    qkv_context_free(b.ctx);
    return status;
}
