/* rank_fixture.h: training on several ranks, which are threads of one process here. Header-only. */
#ifndef QKV_RANK_FIXTURE_H
#define QKV_RANK_FIXTURE_H

#include "train_same.h"

#include "../examples/ranks.h"

struct run { /* what every rank is told */
    const char *folder;
    const struct qkv_spec *spec;
    struct qkv_train_options options;
    int64_t until; /* the step that it is left at; then it is resumed if `again` */
    bool again;
    bool ignore_digest; /* of contexts */
    /* what makes a rank differ: called before it begins, and before each step; NULL: nothing */
    void (*differs)(struct run *own, int rank);
    void (*disturbs)(struct qkv_trainer *trainer, int64_t step, int rank);
};
struct rank {
    struct rank_member member;
    const struct run *run;
    enum qkv_status status;
    char message[1024];
};

/* Bytes that a rank has sent to rank 0, as it counts them itself. */
static size_t rank_sent[RANKS_MOST];

static inline int rank_count_exchange(void *state, int to, const void *sent, size_t sent_bytes, int from,
                                      void *received, size_t received_bytes) {
    const struct rank_member *me = state;
    if (to == 0) rank_sent[me->rank] += sent_bytes;
    return rank_exchange(state, to, sent, sent_bytes, from, received, received_bytes);
}

static inline enum qkv_status rank_steps(struct qkv_context *ctx, const struct run *run, int rank) {
    struct qkv_trainer *trainer = NULL;
    struct qkv_train_report report = {0};
    enum qkv_status status = run->again
                                 ? qkv_trainer_resume(ctx, run->folder, NULL, NULL, NULL, &trainer)
                                 : qkv_trainer_create(ctx, run->spec, &run->options, run->folder, NULL, NULL, &trainer);
    while (!status && report.step < run->until) {
        if (run->disturbs) run->disturbs(trainer, report.step, rank);
        status = qkv_trainer_step(trainer, &report);
    }
    if (!status) status = qkv_trainer_save(trainer);
    qkv_trainer_free(trainer);
    return status;
}

static inline void *rank_main(void *argument) {
    struct rank *rank = argument;
    struct qkv_communicator communicator = rank_communicator(&rank->member);
    const struct qkv_context_options options = {.size = sizeof options,
                                                .threads = 1,
                                                .precision = QKV_PRECISION_AUTO,
                                                .communicator = &communicator,
                                                .ignore_digest = rank->run->ignore_digest};
    struct run own = *rank->run;
    communicator.exchange = rank_count_exchange;
    rank_sent[rank->member.rank] = 0;
    struct qkv_context *ctx;
    if (own.differs) own.differs(&own, rank->member.rank);
    rank->status = qkv_context_create(&ctx, &options);
    if (!rank->status) rank->status = rank_steps(ctx, &own, rank->member.rank);
    snprintf(rank->message, sizeof rank->message, "%s", qkv_message(ctx));
    rank_group_leave(rank->member.group, rank->member.rank);
    qkv_context_free(ctx);
    return NULL;
}

/* Runs it on so many ranks, which fail together or not at all. */
static inline enum qkv_status run_ranks(const struct run *run, int ranks, char message[1024]) {
    struct rank_group group;
    struct rank all[RANKS_MOST] = {0};
    pthread_t threads[RANKS_MOST];
    rank_group_start(&group, ranks);
    for (int r = 0; r < ranks; r++) {
        all[r].member = (struct rank_member){&group, r};
        all[r].run = run;
        assert_int_equal(pthread_create(&threads[r], NULL, rank_main, &all[r]), 0);
    }
    for (int r = 0; r < ranks; r++) pthread_join(threads[r], NULL);
    for (int r = 1; r < ranks; r++) assert_int_equal(!all[r].status, !all[0].status);
    memcpy(message, all[0].message, 1024);
    return all[0].status;
}

static inline void expect_run(const struct run *run, int ranks) {
    char message[1024];
    if (run_ranks(run, ranks, message)) fail_msg("%d ranks: %s", ranks, message);
}

/* Trains the whole run on one rank, in a folder of its own, to compare with; the run's folder becomes `name`, which
 * does not exist yet. */
static inline void make_run_of_one(struct run *run, const char *name) {
    run->folder = fixture_run("one");
    expect_run(run, 1);
    run->folder = fixture_run(name);
}

static inline void assert_as_one(struct qkv_context *ctx, const struct run *run) {
    assert_same_runs(ctx, test_path("one"), run->folder);
}

#endif
