/* Shards that several ranks make together are those of one rank, byte for byte: when making them was stopped or killed
 * and another number of ranks goes on, when lines are left out, and in what they refuse. */
/* labels: quick */
#include "rank_fixture.h"
#include "shards_fixture.h"

#include <signal.h>
#include <unistd.h>

#include <sys/wait.h>

/* What rank 0 makes; the others follow. */
struct task {
    const char *folder;
    bool skip_bad;
    qkv_progress *progress;
    struct qkv_texts notes;
    char message[1024];
};
struct worker {
    struct rank_member member;
    struct task *task;
    enum qkv_status status;
};

static enum qkv_status task_lead(struct qkv_context *own, struct task *task) {
    struct made made = {0};
    const enum qkv_status status =
        qkv_rank_end_orders(own, make(own, task->folder, task->skip_bad, task->progress, &made));
    snprintf(task->message, sizeof task->message, "%s", qkv_message(own));
    qkv_texts_free(&task->notes);
    task->notes = made.notes;
    made.notes = (struct qkv_texts){0};
    unmake(&made);
    return status;
}

static void *worker_main(void *argument) {
    struct worker *w = argument;
    const int rank = w->member.rank;
    struct qkv_communicator communicator = rank_communicator(&w->member);
    struct qkv_context *own;
    communicator.exchange = rank_count_exchange;
    rank_sent[rank] = 0;
    w->status = qkv_context_create(
        &own, &QKV_OPTIONS(qkv_context_options, .threads = 1 + rank % 2, .communicator = &communicator));
    if (!w->status) w->status = rank ? qkv_rank_follow_orders(own) : task_lead(own, w->task);
    rank_group_leave(w->member.group, rank);
    qkv_context_free(own);
    return NULL;
}

static enum qkv_status work(struct task *task, int ranks) {
    struct rank_group group;
    struct worker all[RANKS_MOST] = {0};
    pthread_t threads[RANKS_MOST];
    rank_group_start(&group, ranks);
    for (int r = 0; r < ranks; r++) {
        all[r].member = (struct rank_member){&group, r};
        all[r].task = task;
        assert_int_equal(pthread_create(&threads[r], NULL, worker_main, &all[r]), 0);
    }
    for (int r = 0; r < ranks; r++) pthread_join(threads[r], NULL);
    for (int r = 1; r < ranks; r++) assert_int_equal(all[r].status, QKV_OK); /* they were told of the end */
    return all->status;
}

static void expect_work(struct task *task, int ranks) {
    if (work(task, ranks)) fail_msg("%d ranks: %s", ranks, task->message);
}

/* All files of both folders are the same, and they have the index and shards. */
static void same_folders(const char *one, const char *other) {
    struct qkv_texts names[2] = {{0}};
    const char *folders[2] = {one, other};
    for (size_t i = 0; i < 2; i++) assert_ok(ctx, qkv_list_files(ctx, &folders[i], 1, &names[i], NULL));
    assert_int_equal(names[0].count, names[1].count);
    assert_true(names[0].count > 5);
    for (size_t k = 0; k < names[0].count; k++) {
        size_t size[2] = {0};
        char *text[2];
        assert_string_equal(strrchr(names[0].items[k], '/'), strrchr(names[1].items[k], '/'));
        for (size_t i = 0; i < 2; i++) text[i] = test_read_file(names[i].items[k], &size[i]);
        assert_int_equal(size[0], size[1]);
        assert_memory_equal(text[0], text[1], size[0]);
        for (size_t i = 0; i < 2; i++) free(text[i]);
    }
    for (size_t i = 0; i < 2; i++) qkv_texts_free(&names[i]);
}

static char one_folder[1024];

/* Makes the shards by one rank, to compare with. */
static void work_alone(const char *name, bool skip_bad, struct task *task) {
    snprintf(one_folder, sizeof one_folder, "%s", test_path(name));
    *task = (struct task){.folder = one_folder, .skip_bad = skip_bad};
    expect_work(task, 1);
}

static void any_number_of_ranks_makes_the_same_shards(void **state) {
    struct task one;
    (void)state;
    work_alone("ranks-1", false, &one);
    for (int ranks = 2; ranks <= 4; ranks++) {
        char name[32];
        snprintf(name, sizeof name, "ranks-%d", ranks);
        struct task task = {.folder = test_path(name)};
        expect_work(&task, ranks);
        same_folders(one_folder, task.folder);
        for (int r = 1; r < ranks; r++) assert_true(rank_sent[r] > 100000); /* ids: each takes part */
        qkv_texts_free(&task.notes);
    }
    qkv_texts_free(&one.notes);
}

static bool kill_calls(void *user, const char *what, double done, double total) {
    (void)user, (void)what, (void)done, (void)total;
    if (--calls_left <= 0) kill(getpid(), SIGKILL);
    return true;
}

/* Stopped by the caller, or killed with all ranks; another number of ranks goes on. */
static void shards_that_ranks_were_interrupted_in_become_the_same(void **state) {
    struct task one;
    (void)state;
    work_alone("whole-1", false, &one);
    for (int round = 0; round < 4; round++) {
        char name[32];
        int status;
        snprintf(name, sizeof name, "whole-cut%d", round);
        struct task task = {.folder = test_path(name), .progress = round % 2 ? count_calls : kill_calls};
        calls_left = 2 + round / 2; /* rounds of blocks: 2 of each rank */
        if (round % 2) {
            assert_int_equal(work(&task, 2), QKV_STOPPED);
        } else {
            const pid_t child = fork();
            assert_true(child >= 0);
            if (!child) {
                work(&task, 2);
                _exit(7);
            }
            assert_int_equal(waitpid(child, &status, 0), child);
            assert_true(WIFSIGNALED(status));
        }
        task.progress = NULL;
        expect_work(&task, 3);
        if (round % 2 == 0) { /* who was killed has left the file that it had locked, until it is locked again */
            struct qkv_texts names = {0};
            assert_ok(ctx, qkv_list_files(ctx, &task.folder, 1, &names, NULL));
            for (size_t i = 0; i < names.count; i++) {
                const size_t n = strlen(names.items[i]);
                if (!strcmp(names.items[i] + n - 4, ".bin") || !strcmp(names.items[i] + n - 5, ".json")) continue;
                unlink(names.items[i]); /* a part of a shard that nobody completes */
            }
            qkv_texts_free(&names);
        }
        same_folders(one_folder, task.folder);
        qkv_texts_free(&task.notes);
    }
    qkv_texts_free(&one.notes);
}

/* Makes the key of the n-th line of a file another one. */
static void spoil(const char *path, size_t n) {
    size_t size = 0;
    char *text = test_read_file(path, &size), *at = text;
    for (size_t i = 1; i < n; i++) at = (char *)memchr(at, '\n', size - (size_t)(at - text)) + 1;
    assert_memory_equal(at, "{\"text\"", 7);
    memcpy(at, "{\"test\"", 7);
    test_write_file(path, text, size);
    free(text);
}

static void lines_that_are_bad_are_those_that_one_rank_finds(void **state) {
    char bad_folder[1024]; /* test_path keeps its latest texts alone */
    struct task one, bad;
    (void)state;
    write_corpus(NULL);
    spoil(corpus.items[2], 29100);
    spoil(corpus.items[2], 2000);
    spoil(corpus.items[0], 11000);
    spoil(corpus.items[0], 4001);
    work_alone("skip-1", true, &one);
    assert_int_equal(one.notes.count, 1);
    assert_non_null(strstr(one.notes.items[0], "skip_bad: 4 lines are left out, the first one because "));
    assert_non_null(strstr(one.notes.items[0], "part0.jsonl:4001: the object has no key text"));
    snprintf(bad_folder, sizeof bad_folder, "%s", test_path("bad-1"));
    bad = (struct task){.folder = bad_folder};
    assert_int_equal(work(&bad, 1), QKV_FORMAT);
    assert_non_null(strstr(bad.message, "part0.jsonl:4001: the object has no key text"));
    for (int ranks = 2; ranks <= 4; ranks++) {
        char name[32];
        snprintf(name, sizeof name, "skip-%d", ranks);
        struct task task = {.folder = test_path(name), .skip_bad = true};
        expect_work(&task, ranks);
        same_folders(one_folder, task.folder);
        assert_int_equal(task.notes.count, 1);
        assert_string_equal(task.notes.items[0], one.notes.items[0]);
        qkv_texts_free(&task.notes);
        snprintf(name, sizeof name, "bad-%d", ranks);
        task = (struct task){.folder = test_path(name)};
        assert_int_equal(work(&task, ranks), QKV_FORMAT);
        assert_string_equal(task.message, bad.message);
        qkv_texts_free(&task.notes);
    }
    /* A bad line in what rank 1 encodes first, and in what it or rank 0 encodes later. */
    for (size_t file = 0; file < 2; file++) {
        write_corpus(NULL);
        spoil(corpus.items[file ? 0 : 2], file ? 11000 : 29500);
        assert_int_equal(work(&bad, 1), QKV_FORMAT);
        for (int ranks = 2; ranks <= 4; ranks++) {
            struct task task = {.folder = test_path("bad-again")};
            assert_int_equal(work(&task, ranks), QKV_FORMAT);
            assert_string_equal(task.message, bad.message);
            qkv_texts_free(&task.notes);
        }
    }
    qkv_texts_free(&one.notes);
    qkv_texts_free(&bad.notes);
    write_corpus(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_ranks_makes_the_same_shards),
        cmocka_unit_test(shards_that_ranks_were_interrupted_in_become_the_same),
        cmocka_unit_test(lines_that_are_bad_are_those_that_one_rank_finds),
    };
    return cmocka_run_group_tests(tests, corpus_setup, corpus_teardown);
}
