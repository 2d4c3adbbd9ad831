/* Mixtures of texts: names and weights, orders that are computed, documents as shards: the same ones however many
 * threads make them and wherever making them was stopped. */
/* labels: quick */
#include "shards_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "data/permute.h"
#include "data/sources.h"

/* ---- orders ------------------------------------------------------------------------------------------------------ */

static void permutations_have_each_place_once(void **state) {
    static const uint64_t sizes[] = {1, 2, 3, 4, 5, 16, 17, 63, 64, 65, 1000, 4096, 4097, 70001};
    struct qkv_random random = test_random(1);
    (void)state;
    for (size_t k = 0; k < TEST_COUNT(sizes); k++) {
        const uint64_t bits = qkv_random_bits(&random), n = sizes[k];
        const uint32_t key[2] = {(uint32_t)bits, (uint32_t)(bits >> 32)};
        unsigned char *seen = calloc(n, 1);
        uint64_t moved = 0;
        assert_non_null(seen);
        for (uint64_t i = 0; i < n; i++) {
            const uint64_t place = qkv_permute(key, n, i);
            assert_true(place < n);
            assert_int_equal(seen[place]++, 0);
            moved += place != i;
        }
        if (n >= 1000) assert_true(moved > n - 20);
        free(seen);
    }
    /* Large numbers stay in range, and differ. */
    const uint32_t key[2] = {3, 5};
    const uint64_t n = (UINT64_C(1) << 61) + 7;
    for (uint64_t i = 0; i < 100; i++) {
        assert_true(qkv_permute(key, n, i) < n);
        assert_true(qkv_permute(key, n, n - 1 - i) < n);
        assert_true(qkv_permute(key, n, i) != qkv_permute(key, n, i + 1));
    }
}

/* Where neighbours go is spread over the whole range: the mean distance of two random places is n / 3. */
static void permutations_spread_neighbours(void **state) {
    struct qkv_random random = test_random(2);
    const uint64_t bits = qkv_random_bits(&random), n = 30000;
    const uint32_t key[2] = {(uint32_t)bits, (uint32_t)(bits >> 32)};
    double sum = 0;
    (void)state;
    for (uint64_t i = 0; i + 1 < n; i++) {
        const uint64_t a = qkv_permute(key, n, i), b = qkv_permute(key, n, i + 1);
        sum += (double)(a > b ? a - b : b - a);
    }
    assert_true(sum / (double)(n - 1) > 0.32 * (double)n && sum / (double)(n - 1) < 0.35 * (double)n);
}

static void rows_are_divided_by_weight_and_each_window_comes_once_an_epoch(void **state) {
    static const double weights[] = {0.7, 0.29, 0.00999, 0.00001};
    enum { ROWS = 5 * QKV_MIX, SOURCES = TEST_COUNT(weights) };
    static unsigned char seen[SOURCES][ROWS];
    uint64_t counts[SOURCES] = {0}, nth;
    struct qkv_mix mix;
    (void)state;
    memset(seen, 0, sizeof seen);
    qkv_mix_begin(&mix, test_seed(), weights, SOURCES);
    for (uint64_t row = 0; row < ROWS; row++) {
        const size_t s = qkv_mix_row(&mix, row, &nth);
        assert_true(s < SOURCES && nth < ROWS);
        assert_int_equal(seen[s][nth]++, 0);
        counts[s]++;
    }
    for (size_t s = 0; s < SOURCES; s++) {
        const double share = (double)counts[s] / ROWS;
        assert_true(counts[s] >= 5); /* one of each 4096 rows at least */
        assert_true(fabs(share - weights[s]) < 1.0 / QKV_MIX + 1e-9);
        for (uint64_t i = 0; i < ROWS; i++) assert_int_equal(seen[s][i], i < counts[s]);
    }
    /* Two epochs of 37 windows, in two orders. */
    unsigned char windows[2][37] = {{0}};
    size_t same = 0;
    for (uint64_t i = 0; i < 74; i++) windows[i / 37][qkv_mix_window(&mix, 1, i, 37)]++;
    for (size_t i = 0; i < 37; i++) assert_true(windows[0][i] == 1 && windows[1][i] == 1);
    for (uint64_t i = 0; i < 37; i++) same += qkv_mix_window(&mix, 1, i, 37) == qkv_mix_window(&mix, 1, 37 + i, 37);
    assert_true(same < 20);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static void names_are_mixtures_by_their_form(void **state) {
    static const struct {
        const char *name;
        bool mixes;
    } cases[] = {{"a.txt", false}, {"a.txt:0.5", true}, {"a.jsonl", true},  {"a.txt.gz", true},  {"dir/", false},
                 {"dir/:2", true}, {"d/*.txt", true},   {"a:b.txt", false}, {"a:1/b.txt", false}};
    double weights[QKV_FILES_MAX];
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        const char *names[QKV_FILES_MAX] = {cases[i].name};
        assert_int_equal(qkv_sources_mix(names), cases[i].mixes);
    }
    const char *both[QKV_FILES_MAX] = {"a:3", "b:1"}, *one[QKV_FILES_MAX] = {"a.gz", "b"};
    assert_ok(ctx, qkv_sources_check(ctx, both));
    assert_int_equal(qkv_sources_weights(both, weights), 2);
    assert_true(weights[0] == 0.75 && weights[1] == 0.25);
    assert_int_equal(qkv_sources_weights(one, weights), 1);
    const char *some[QKV_FILES_MAX] = {"a:3", "b"}, *zero[QKV_FILES_MAX] = {"a:0"}, *less[QKV_FILES_MAX] = {"a:-1"};
    assert_status(ctx, qkv_sources_check(ctx, some), QKV_ARGUMENT);
    assert_message(ctx, "a:3 has a weight and b has none; give each of them a weight, as in b:0.5, or none");
    assert_status(ctx, qkv_sources_check(ctx, zero), QKV_ARGUMENT);
    assert_status(ctx, qkv_sources_check(ctx, less), QKV_ARGUMENT);
    assert_message(ctx, "the weight of a:-1 is not more than 0; choose one, as in a:0.5");
}

static void a_file_may_end_as_a_weight_does(void **state) {
    const char *path = test_path("log:12"), *names[QKV_FILES_MAX] = {path};
    (void)state;
    assert_true(qkv_sources_mix(names));
    test_write_file(path, "a\n", 2);
    assert_false(qkv_sources_mix(names));
    assert_null(qkv_sources_weight(names));
}

/* More files than the record of a run can name are refused before anything is done. */
static void files_that_no_record_can_name_are_refused(void **state) {
    char folder[3200] = "";
    struct qkv_text_files files = {0};
    (void)state;
    snprintf(folder, sizeof folder, "%s", test_path("many"));
    assert_ok(ctx, qkv_make_folder(ctx, folder));
    for (int i = 0; i < 13; i++) {
        const size_t n = strlen(folder);
        snprintf(folder + n, sizeof folder - n, "/%0200d", i);
        assert_ok(ctx, qkv_make_folder(ctx, folder));
    }
    for (int i = 0; i < 2600; i++) { /* of more than 2800 bytes each, and 200 in the record */
        char path[3600];
        snprintf(path, sizeof path, "%s/%0200d", folder, i);
        const int file = open(path, O_CREAT | O_WRONLY, 0666);
        assert_true(file >= 0);
        close(file);
    }
    const char *names[QKV_FILES_MAX] = {folder};
    assert_status(ctx, qkv_dataset_list(ctx, &qkv_dataset_mixture, names, &files, NULL), QKV_ARGUMENT);
    assert_message(ctx, "data has so many files that a run cannot record them: 2600 in ");
    qkv_text_files_free(&files);
}

/* ---- shards ------------------------------------------------------------------------------------------------------ */

/* The ids are those of the documents one by one, each with the end token behind it. */
static void shards_have_the_ids_of_their_documents(void **state) {
    struct made made = {0};
    struct qkv_buffer expected = {0};
    const int32_t end = qkv_text_end(tokenizer);
    (void)state;
    assert_ok(ctx, make(ctx, test_path("shards"), false, NULL, &made));
    assert_true(made.shards.count > 4);
    for (size_t f = 0; f < corpus.count; f++) {
        struct qkv_records records;
        struct qkv_record record;
        bool done = false;
        if (!qkv_records_are_json(corpus.items[f])) {
            size_t size = 0, count = 0;
            char *text = test_read_file(corpus.items[f], &size);
            int32_t *ids;
            assert_ok(ctx, qkv_tokenizer_encode(ctx, tokenizer, text, size, true, &ids, &count));
            assert_ok(ctx, qkv_buffer_append(ctx, &expected, ids, count * sizeof *ids));
            assert_ok(ctx, qkv_buffer_append(ctx, &expected, &end, sizeof end));
            qkv_free(ids);
            free(text);
            continue;
        }
        assert_ok(ctx, qkv_records_open(ctx, corpus.items[f], &records));
        for (;;) {
            json_t *object;
            const char *text;
            size_t size = 0, count = 0;
            int32_t *ids;
            assert_ok(ctx, qkv_records_next(&records, &record, &done));
            if (done) break;
            assert_ok(ctx, qkv_record_parse(ctx, corpus.items[f], &record, &object));
            assert_ok(ctx, qkv_record_text(ctx, corpus.items[f], record.line, object, "text", NULL, &text, &size));
            assert_ok(ctx, qkv_tokenizer_encode(ctx, tokenizer, text, size, true, &ids, &count));
            assert_ok(ctx, qkv_buffer_append(ctx, &expected, ids, count * sizeof *ids));
            assert_ok(ctx, qkv_buffer_append(ctx, &expected, &end, sizeof end));
            qkv_free(ids);
            json_decref(object);
        }
        qkv_records_close(&records);
    }
    struct qkv_buffer got = read_ids(&made.shards);
    assert_int_equal(got.size, expected.size);
    assert_memory_equal(got.data, expected.data, got.size);
    assert_int_equal(got.size / sizeof(int32_t), made.facts.tokens);
    for (size_t i = 0, before = 0; i < made.shards.count; before = (size_t)made.shards.items[i++].source)
        assert_true(made.shards.items[i].source >= before); /* a shard has documents of one source */
    qkv_buffer_free(&got);
    qkv_buffer_free(&expected);
    unmake(&made);
}

static void any_number_of_threads_makes_the_same_shards(void **state) {
    struct made first = {0}, second = {0};
    struct qkv_context *other;
    (void)state;
    assert_ok(ctx, qkv_context_create(&other, &QKV_OPTIONS(qkv_context_options, .threads = 3)));
    assert_ok(ctx, make(ctx, test_path("shards-a"), false, NULL, &first));
    assert_ok(other, make(other, test_path("shards-b"), false, NULL, &second));
    same_shards(&first, &second);
    unmake(&first);
    unmake(&second);
    qkv_context_free(other);
}

static bool kill_calls(void *user, const char *what, double done, double total) {
    (void)user, (void)what, (void)done, (void)total;
    if (--calls_left <= 0) kill(getpid(), SIGKILL);
    return true;
}

/* Stopped by the caller or killed at any block; what there is is used. */
static void shards_that_were_interrupted_become_the_same(void **state) {
    struct made whole = {0}, again = {0};
    struct qkv_random random = test_random(4);
    struct qkv_context *alone; /* reads fewer blocks at once */
    const int many = 1000;
    (void)state;
    assert_ok(ctx, qkv_context_create(&alone, &QKV_OPTIONS(qkv_context_options, .threads = 1)));
    calls_left = many;
    assert_ok(alone, make(alone, test_path("shards-whole"), false, count_calls, &whole));
    const int calls = many - calls_left;
    assert_true(calls > 4);
    for (int round = 0; round < 6; round++) {
        char name[32];
        snprintf(name, sizeof name, "shards-cut%d", round);
        const char *folder = test_path(name);
        calls_left = (int)test_between(&random, 1, (size_t)calls);
        if (round % 2) {
            assert_status(alone, make(alone, folder, false, count_calls, &again), QKV_STOPPED);
            unmake(&again);
        } else {
            const pid_t child = fork();
            int status;
            assert_true(child >= 0);
            if (!child) {
                make(alone, folder, false, kill_calls, &again);
                _exit(7);
            }
            assert_int_equal(waitpid(child, &status, 0), child);
        }
        assert_ok(ctx, make(ctx, folder, false, NULL, &again));
        same_shards(&whole, &again);
        unmake(&again);
    }
    unmake(&whole);
    qkv_context_free(alone);
}

static int *shared_calls;
static bool count_shared(void *user, const char *what, double done, double total) {
    (void)user, (void)done, (void)total;
    if (strcmp(what, "tokenizing") == 0) __atomic_add_fetch(shared_calls, 1, __ATOMIC_RELAXED);
    return true;
}

/* Of two processes that begin together one makes the shards, and the other waits and uses them. */
static void processes_that_share_shards_make_them_once(void **state) {
    struct made whole = {0}, mine = {0};
    struct qkv_context *alone;
    const char *folder = test_path("shards-shared");
    int status, calls;
    (void)state;
    assert_ok(ctx, qkv_context_create(&alone, &QKV_OPTIONS(qkv_context_options, .threads = 1)));
    shared_calls = mmap(NULL, sizeof *shared_calls, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared_calls != MAP_FAILED);
    assert_ok(alone, make(alone, test_path("shards-unshared"), false, count_shared, &whole));
    calls = *shared_calls;
    *shared_calls = 0;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) _exit(make(alone, folder, false, count_shared, &mine) ? 7 : 0);
    assert_ok(alone, make(alone, folder, false, count_shared, &mine));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(*shared_calls, calls);
    same_shards(&whole, &mine);
    /* Who waits can be stopped. */
    char *path = strdup(mine.shards.paths[0]);
    assert_non_null(path);
    unlink(path);
    memcpy(strrchr(path, '-'), ".lock", sizeof ".lock");
    assert_int_equal(access(path, F_OK), -1);
    const int lock = open(path, O_RDWR | O_CREAT, 0666);
    assert_int_equal(flock(lock, LOCK_EX), 0);
    unmake(&mine);
    calls_left = 3;
    assert_status(ctx, make(ctx, folder, false, count_calls, &mine), QKV_STOPPED);
    assert_message(ctx, "stopped while waiting for tokens of another run");
    close(lock);
    free(path);
    unmake(&mine);
    unmake(&whole);
    munmap(shared_calls, sizeof *shared_calls);
    qkv_context_free(alone);
}

static bool no_calls(void *user, const char *what, double done, double total) {
    (void)user, (void)what, (void)done, (void)total;
    fail_msg("%s", "nothing is tokenised");
    return true;
}

static void shards_are_used_again_until_a_file_or_a_shard_changes(void **state) {
    struct made first = {0}, again = {0};
    const char *folder = test_path("shards-kept");
    (void)state;
    write_corpus(NULL);
    assert_ok(ctx, make(ctx, folder, false, NULL, &first));
    assert_ok(ctx, make(ctx, folder, false, no_calls, &again));
    same_shards(&first, &again);
    unmake(&again);
    write_corpus(NULL); /* other times of change, the same bytes: they are compared, once */
    calls_left = 2;
    assert_status(ctx, make(ctx, folder, false, only_comparing, &again), QKV_STOPPED);
    unmake(&again);
    calls_left = 1000;
    assert_ok(ctx, make(ctx, folder, false, only_comparing, &again));
    assert_true(calls_left <= 1000 - 5);
    unmake(&again);
    assert_ok(ctx, make(ctx, folder, false, no_calls, &again));
    same_shards(&first, &again);
    unmake(&again);
    /* A shard in the middle that is cut, and one that is gone, are made again. */
    for (int gone = 0; gone < 2; gone++) {
        assert_int_equal(unlink(first.shards.paths[2]), 0);
        if (!gone) test_write_file(first.shards.paths[2], "qkvtoken", 8);
        assert_ok(ctx, make(ctx, folder, false, NULL, &again));
        same_shards(&first, &again);
        assert_int_equal(again.notes.count, 1);
        assert_non_null(strstr(again.notes.items[0], "-00002.bin"));
        assert_non_null(strstr(again.notes.items[0], "it is made again"));
        unmake(&again);
    }
    /* A file of the same size with another byte. */
    size_t size = 0;
    char *text = test_read_file(corpus.items[3], &size);
    text[size / 2] = text[size / 2] == 'x' ? 'y' : 'x';
    test_write_file(corpus.items[3], text, size);
    assert_ok(ctx, make(ctx, folder, false, NULL, &again));
    assert_true(again.facts.hash != first.facts.hash);
    free(text);
    /* A run that began with the other shards goes on with its own, or not at all. */
    unmake(&again);
    again.facts = first.facts;
    assert_ok(ctx, qkv_text_files_copy(ctx, &first.files, &again.files));
    assert_status(ctx, make(ctx, folder, false, NULL, &again), QKV_FORMAT);
    assert_message(ctx, "part3.txt has changed since the run began");
    unmake(&again);
    unmake(&first);
    write_corpus(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(permutations_have_each_place_once),
        cmocka_unit_test(permutations_spread_neighbours),
        cmocka_unit_test(rows_are_divided_by_weight_and_each_window_comes_once_an_epoch),
        cmocka_unit_test(names_are_mixtures_by_their_form),
        cmocka_unit_test(a_file_may_end_as_a_weight_does),
        cmocka_unit_test(files_that_no_record_can_name_are_refused),
        cmocka_unit_test(shards_have_the_ids_of_their_documents),
        cmocka_unit_test(any_number_of_threads_makes_the_same_shards),
        cmocka_unit_test(shards_that_were_interrupted_become_the_same),
        cmocka_unit_test(processes_that_share_shards_make_them_once),
        cmocka_unit_test(shards_are_used_again_until_a_file_or_a_shard_changes),
    };
    return cmocka_run_group_tests(tests, corpus_setup, corpus_teardown);
}
