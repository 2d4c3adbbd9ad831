/* threads.c: trains nano-gpt on a text with several ranks, which are threads of this program (ranks.h), and prints
 * the seconds of a step. The weights are those that one rank computes.
 *
 * MS and GBIT simulate a network: each message takes MS milliseconds and its bytes GBIT gigabits a second; the
 * program prints the prediction of the cost model (docs/scale.md) beside the measured seconds.
 *     threads TEXT FOLDER [RANKS [STEPS [MS GBIT]]] */
#define _POSIX_C_SOURCE 200809L /* clock_gettime, nanosleep */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ranks.h"

struct network {
    double seconds, bytes_per_second; /* of a message, and of its bytes; 0: no delay */
};
struct worker {
    struct rank_member member;
    struct network network;
    const char *text, *folder, *steps;
    double step; /* median seconds; the result */
    size_t batch, context;
    enum qkv_status status;
    char message[512];
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- a slow network: a sender waits until the message would have arrived ----------------------------------------- */

static void delay(const struct worker *w, size_t bytes) {
    const double seconds = w->network.seconds + (double)bytes / w->network.bytes_per_second;
    const struct timespec pause = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};
    nanosleep(&pause, NULL);
}

static int slow_exchange(void *state, int to, const void *sent, size_t sent_bytes, int from, void *received,
                         size_t received_bytes) {
    struct worker *w = state;
    if (sent_bytes) delay(w, sent_bytes);
    return rank_exchange(&w->member, to, sent, sent_bytes, from, received, received_bytes);
}

static int slow_gather(void *state, int root, const void *own, size_t bytes, void *all) {
    struct worker *w = state;
    if (w->member.rank != root) delay(w, bytes);
    return rank_gather(&w->member, root, own, bytes, all);
}

static int slow_broadcast(void *state, int root, void *data, size_t bytes) {
    struct worker *w = state;
    if (w->member.rank == root) delay(w, bytes);
    return rank_broadcast(&w->member, root, data, bytes);
}

static struct qkv_communicator connect(struct worker *w) {
    struct qkv_communicator c = rank_communicator(&w->member);
    if (w->network.bytes_per_second <= 0) return c;
    c.state = w;
    c.exchange = slow_exchange;
    c.gather = slow_gather;
    c.broadcast = slow_broadcast;
    return c;
}

/* ---- a rank ------------------------------------------------------------------------------------------------------ */

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static enum qkv_status run_steps(struct worker *w, struct qkv_trainer *trainer) {
    struct qkv_train_report r = {0};
    double *seconds = malloc(sizeof *seconds), *grown;
    size_t count = 0;
    enum qkv_status status = QKV_OK;
    while (!status && seconds && (!r.steps || r.step < r.steps)) {
        const double began = now();
        status = qkv_trainer_step(trainer, &r);
        seconds[count++] = now() - began;
        grown = realloc(seconds, (count + 1) * sizeof *seconds);
        if (!grown) free(seconds);
        seconds = grown;
    }
    if (!seconds) return QKV_MEMORY;
    /* without the last step, which evaluates and saves */
    if (count > 1) count--;
    qsort(seconds, count, sizeof *seconds, by_size);
    w->step = seconds[count / 2];
    free(seconds);
    return status;
}

static enum qkv_status train(struct qkv_context *ctx, struct worker *w) {
    struct qkv_train_options options;
    struct qkv_trainer *trainer = NULL;
    struct qkv_spec spec = {0};
    enum qkv_status status = qkv_spec_preset(ctx, &spec, "nano-gpt", NULL, 0);
    if (!status) status = qkv_train_defaults(ctx, "nano-gpt", &options);
    if (!status) status = qkv_train_set(ctx, &options, "data", w->text);
    if (!status) status = qkv_train_set(ctx, &options, "steps", w->steps);
    if (!status) status = qkv_train_set(ctx, &options, "warmup", "0");
    if (!status) status = qkv_train_set(ctx, &options, "eval_every", "0");
    if (!status) status = qkv_trainer_create(ctx, &spec, &options, w->folder, NULL, NULL, &trainer);
    if (!status) status = run_steps(w, trainer);
    w->batch = (size_t)options.batch;
    w->context = (size_t)spec.context;
    qkv_trainer_free(trainer);
    qkv_spec_free(&spec);
    return status;
}

static void *run(void *argument) {
    struct worker *w = argument;
    const struct qkv_communicator communicator = connect(w);
    const struct qkv_context_options options = {
        .size = sizeof options, .threads = 1, .precision = QKV_PRECISION_AUTO, .communicator = &communicator};
    struct qkv_context *ctx;
    w->status = qkv_context_create(&ctx, &options);
    if (!w->status) w->status = train(ctx, w);
    snprintf(w->message, sizeof w->message, "%s", qkv_message(ctx));
    rank_group_leave(w->member.group, w->member.rank);
    qkv_context_free(ctx);
    return NULL;
}

/* Runs all ranks; returns the seconds of a step of rank 0, or a negative number. */
static double run_all(struct worker *workers, int ranks) {
    struct rank_group group;
    pthread_t threads[RANKS_MOST];
    int failed = 0;
    rank_group_start(&group, ranks);
    for (int r = 0; r < ranks; r++) {
        workers[r].member = (struct rank_member){&group, r};
        if (pthread_create(&threads[r], NULL, run, &workers[r]) != 0) exit(1);
    }
    for (int r = 0; r < ranks; r++) pthread_join(threads[r], NULL);
    for (int r = 0; r < ranks && !failed; r++) {
        failed = (int)workers[r].status;
        if (failed) fprintf(stderr, "rank %d: %s\n", r, workers[r].message);
    }
    return failed ? -1 : workers[0].step;
}

/* ---- the cost model ---------------------------------------------------------------------------------------------- */

/* Predicts a step on a network, if one without delays takes `fast` seconds. Gradients are sent while backward, two
 * thirds of the step, still runs, except for the last of their rounds and those that wait for it; then weights are
 * sent, and small messages go to rank 0 and back. */
static double foresee(double fast, const struct worker *w, int ranks) {
    struct qkv_context *ctx;
    struct qkv_spec spec = {0};
    struct qkv_model *model = NULL;
    struct qkv_train_options options;
    struct qkv_rank_plan plan = {0};
    const struct network *net = &w->network;
    enum qkv_status status = qkv_context_create(&ctx, NULL);
    if (!status) status = qkv_spec_preset(ctx, &spec, "nano-gpt", NULL, 0);
    spec.vocab = 256;
    if (!status) status = qkv_train_defaults(ctx, "nano-gpt", &options);
    if (!status) status = qkv_train_set(ctx, &options, "groups", "8"); /* the default of a run */
    if (!status) status = qkv_model_plan(ctx, &spec, &model);
    if (!status) status = qkv_rank_plan(model, &options, w->batch, w->context, ranks, 0, &plan);
    qkv_model_free(model);
    qkv_spec_free(&spec);
    qkv_context_free(ctx);
    if (status) {
        fprintf(stderr, "cannot plan: %s\n", qkv_status_text(status));
        return -1;
    }
    const double rounds = plan.rounds > 1 ? plan.rounds : 1;
    const double late = plan.late_messages * net->seconds + plan.late_sent / net->bytes_per_second;
    const double early = plan.gradient_messages * net->seconds + plan.gradient_sent / net->bytes_per_second - late;
    const double weights = plan.weight_messages * net->seconds + plan.weight_sent / net->bytes_per_second;
    const double hidden = 2.0 / 3 * fast * (1 - 1 / rounds), last = early / rounds;
    const double shown = early - hidden > last ? early - hidden : last;
    return fast + shown + late + weights + plan.small_messages * net->seconds;
}

int main(int argc, char **argv) {
    struct worker workers[RANKS_MOST] = {0};
    struct network network = {0};
    const int ranks = argc > 3 ? atoi(argv[3]) : 2;
    if (argc < 3 || argc == 6 || argc > 7 || ranks < 1 || ranks > RANKS_MOST) {
        fprintf(stderr, "usage: threads TEXT FOLDER [RANKS [STEPS [MS GBIT]]], with 1 to %d ranks\n", RANKS_MOST);
        return 2;
    }
    if (argc > 6) network = (struct network){atof(argv[5]) / 1e3, atof(argv[6]) * 1e9 / 8};
    if (argc > 6 && (network.seconds < 0 || network.bytes_per_second <= 0)) {
        fprintf(stderr, "MS is 0 or more, GBIT greater than 0\n");
        return 2;
    }
    char fast_folder[4096];
    snprintf(fast_folder, sizeof fast_folder, "%s-fast", argv[2]);
    for (int r = 0; r < ranks; r++)
        workers[r] = (struct worker){
            .text = argv[1], .folder = argc > 6 ? fast_folder : argv[2], .steps = argc > 4 ? argv[4] : "100"};
    const double fast = run_all(workers, ranks);
    if (fast < 0) return 1;
    printf("%d rank%s: %.1f ms a step\n", ranks, ranks == 1 ? "" : "s", 1e3 * fast);
    if (argc < 7) return 0;
    for (int r = 0; r < ranks; r++) workers[r].folder = argv[2], workers[r].network = network;
    const double slow = run_all(workers, ranks), foreseen = slow < 0 ? -1 : foresee(fast, &workers[0], ranks);
    if (slow < 0 || foreseen < 0) return 1;
    printf("with %s ms a message and %s Gbit/s: %.1f ms a step, foreseen %.1f ms (%+.1f %%)\n", argv[5], argv[6],
           1e3 * slow, 1e3 * foreseen, 100 * (foreseen / slow - 1));
    return 0;
}
