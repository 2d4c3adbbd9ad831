/* Mixtures of texts: names and weights, orders that are computed, documents as shards: the same ones however many
 * threads make them and wherever making them was stopped. */
/* labels: quick */
#include "context_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#ifdef QKV_ZLIB
#include <zlib.h>
#endif

#include "data/data.h"
#include "data/permute.h"
#include "data/shards.h"
#include "data/sources.h"
#include "text/text.h"

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
    char folder[600] = "";
    struct qkv_text_files files = {0};
    (void)state;
    snprintf(folder, sizeof folder, "%s", test_path("many"));
    assert_ok(ctx, qkv_make_folder(ctx, folder));
    for (int i = 0; i < 2; i++) {
        const size_t n = strlen(folder);
        snprintf(folder + n, sizeof folder - n, "/%0200d", i);
        assert_ok(ctx, qkv_make_folder(ctx, folder));
    }
    for (int i = 0; i < 9000; i++) { /* of more than 600 bytes each, and 200 in the record */
        char path[900];
        snprintf(path, sizeof path, "%s/%0200d", folder, i);
        const int file = open(path, O_CREAT | O_WRONLY, 0666);
        assert_true(file >= 0);
        close(file);
    }
    const char *names[QKV_FILES_MAX] = {folder};
    assert_status(ctx, qkv_sources_list(ctx, names, &files, NULL), QKV_ARGUMENT);
    assert_message(ctx, "data has so many files that a run cannot record them: 9000 in ");
    qkv_text_files_free(&files);
}

/* ---- shards ------------------------------------------------------------------------------------------------------ */

/* Files of one block (1 MiB of text) and of several: a plain one of three, JSON lines of two, plain and packed. */
static const struct {
    const char *name;
    int lines;
} corpus_files[] = {{"part0.jsonl", 12000},
                    {"part1.txt", 60000},
                    {"part2.jsonl", 30000},
                    {"part3.txt", 12000},
#ifdef QKV_ZLIB
                    {"part4.jsonl.gz", 30000}};
#else
                    {"part4.jsonl", 30000}};
#endif

static void write_corpus_file(const char *path, const struct qkv_buffer *text) {
#ifdef QKV_ZLIB
    if (qkv_unpack_name(path) < strlen(path)) {
        gzFile file = gzopen(path, "wb1");
        assert_non_null(file);
        assert_int_equal(gzwrite(file, text->data, (unsigned)text->size), text->size);
        assert_int_equal(gzclose(file), Z_OK);
        return;
    }
#endif
    test_write_file(path, text->data, text->size);
}

/* A corpus of JSON lines and plain files, of words that no two documents share. */
static void write_corpus(struct qkv_texts *paths) {
    struct qkv_random random = test_random(3);
    for (size_t f = 0; f < TEST_COUNT(corpus_files); f++) {
        struct qkv_buffer text = {0};
        const char *path = test_path(corpus_files[f].name);
        const bool json = qkv_records_are_json(path);
        for (int i = 0; i < corpus_files[f].lines; i++) {
            assert_ok(ctx,
                      qkv_buffer_print(ctx, &text, "%sword%d of document %zu, %llu%s\n", json ? "{\"text\": \"" : "", i,
                                       f, (unsigned long long)qkv_random_below(&random, 1000000), json ? "\"}" : ""));
            if (json && i % 1000 == 7) assert_ok(ctx, qkv_buffer_print(ctx, &text, "\n"));
        }
        write_corpus_file(path, &text);
        if (paths) assert_ok(ctx, qkv_texts_add(ctx, paths, "%s", path));
        qkv_buffer_free(&text);
    }
}

static struct qkv_tokenizer *tokenizer;
static struct qkv_texts corpus;

struct made { /* by one plan */
    struct qkv_text_files files;
    struct qkv_text_facts facts;
    struct qkv_shards shards;
    struct qkv_texts notes;
};

static enum qkv_status make(struct qkv_context *with, const char *folder, bool skip_bad, qkv_progress *progress,
                            struct made *made) {
    const bool listed = made->files.count > 0;
    for (size_t i = 0; i < corpus.count && !listed; i++)
        assert_ok(ctx, qkv_text_files_add(ctx, &made->files,
                                          &(struct qkv_text_file){.path = corpus.items[i], .source = i >= 3}));
    made->facts.tokenizer = 5;
    made->facts.vocab = (uint64_t)qkv_tokenizer_vocab(tokenizer);
    const struct qkv_shards_plan plan = {.ctx = with,
                                         .folder = folder,
                                         .files = &made->files,
                                         .tokenizer = tokenizer,
                                         .facts = &made->facts,
                                         .key = "text",
                                         .skip_bad = skip_bad,
                                         .shard_tokens = 250000,
                                         .notes = &made->notes,
                                         .progress = progress};
    return qkv_shards_open(&plan, &made->shards);
}

static void unmake(struct made *made) {
    qkv_text_files_free(&made->files);
    qkv_shards_close(&made->shards);
    qkv_texts_free(&made->notes);
    *made = (struct made){0};
}

static struct qkv_buffer read_ids(const struct qkv_shards *shards) {
    struct qkv_buffer all = {0};
    for (size_t i = 0; i < shards->count; i++) {
        int32_t ids[1024];
        for (size_t at = 0, n; at < shards->tokens[i].count; at += n) {
            n = qkv_min(TEST_COUNT(ids), shards->tokens[i].count - at);
            assert_ok(ctx, qkv_tokens_read(&shards->tokens[i], at, n, ids));
            assert_ok(ctx, qkv_buffer_append(ctx, &all, ids, n * sizeof *ids));
        }
    }
    return all;
}

static void same_shards(const struct made *a, const struct made *b) {
    assert_int_equal(a->facts.hash, b->facts.hash);
    assert_int_equal(a->facts.tokens, b->facts.tokens);
    assert_int_equal(a->shards.count, b->shards.count);
    for (size_t i = 0; i < a->files.count; i++) {
        assert_int_equal(a->files.items[i].hash, b->files.items[i].hash);
        assert_int_equal(a->files.items[i].tokens, b->files.items[i].tokens);
    }
    struct qkv_buffer x = read_ids(&a->shards), y = read_ids(&b->shards);
    assert_int_equal(x.size, y.size);
    assert_memory_equal(x.data, y.data, x.size);
    qkv_buffer_free(&x);
    qkv_buffer_free(&y);
}

static int corpus_setup(void **state) {
    static const char *const specials[] = {QKV_TOKEN_TEXT_END};
    if (setup(state)) return 1;
    write_corpus(&corpus);
    const char *files[] = {corpus.items[3]};
    return (int)qkv_tokenizer_learn(ctx, "bpe:400", files, 1, specials, 1, NULL, NULL, &tokenizer);
}

static int corpus_teardown(void **state) {
    qkv_tokenizer_free(tokenizer);
    qkv_texts_free(&corpus);
    return teardown(state);
}

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

static int calls_left;
static bool count_calls(void *user, const char *what, double done, double total) {
    (void)user, (void)what;
    assert_true(done >= 0 && done <= total);
    return --calls_left > 0;
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
static bool only_comparing(void *user, const char *what, double done, double total) {
    assert_string_equal(what, "comparing texts");
    return count_calls(user, what, done, total);
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

/* Whatever the index says, shards are made if it lacks them. */
static void an_index_without_shards_is_not_complete(void **state) {
    struct made first = {0}, again = {0};
    const char *folder = test_path("shards-hostile");
    (void)state;
    assert_ok(ctx, make(ctx, folder, false, NULL, &first));
    char *path = strdup(first.shards.paths[0]);
    assert_non_null(path);
    memcpy(strrchr(path, '-'), ".json", sizeof ".json");
    for (int round = 0; round < 2; round++) {
        size_t size = 0;
        char *text = test_read_file(path, &size), *begin, *end;
        text = realloc(text, size + 1);
        assert_non_null(text);
        text[size] = 0;
        begin = strstr(text, round ? "qkv shards" : "\"shards\":[");
        assert_non_null(begin);
        if (round) {
            *begin = 'x'; /* another format */
        } else { /* no shards, and complete */
            begin = strchr(begin, '[') + 1;
            end = strstr(begin, "]");
            assert_non_null(end);
            memmove(begin, end, size - (size_t)(end - text));
            size -= (size_t)(end - begin);
            assert_non_null(strstr(text, "\"complete\":true"));
        }
        test_write_file(path, text, size);
        free(text);
        calls_left = 1000;
        assert_ok(ctx, make(ctx, folder, false, count_calls, &again));
        assert_true(calls_left < 1000);
        same_shards(&first, &again);
        unmake(&again);
    }
    free(path);
    unmake(&first);
}

/* A failure to write is no file that has changed. */
static void missing_shards_that_cannot_be_written_say_why(void **state) {
    struct made first = {0}, again = {0};
    const char *folder = test_path("shards-full");
    struct rlimit limit;
    (void)state;
    assert_ok(ctx, make(ctx, folder, false, NULL, &first));
    for (size_t i = 0; i < first.shards.count; i++) assert_int_equal(unlink(first.shards.paths[i]), 0);
    char *path = strdup(first.shards.paths[0]);
    assert_non_null(path);
    memcpy(strrchr(path, '-'), ".json", sizeof ".json");
    assert_int_equal(unlink(path), 0);
    free(path);
    again.facts = first.facts;
    assert_ok(ctx, qkv_text_files_copy(ctx, &first.files, &again.files));
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){1 << 16, limit.rlim_max}), 0);
    const enum qkv_status status = make(ctx, folder, false, NULL, &again);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(status, QKV_FILE);
    assert_message(ctx, "-00000.bin");
    assert_null(strstr(qkv_message(ctx), "has changed"));
    unmake(&again);
    unmake(&first);
}

/* ---- bad input --------------------------------------------------------------------------------------------------- */

static void bad_lines_and_files_are_named_or_left_out(void **state) {
    static const char good[] = "{\"text\": \"a good line\"}\n";
    const int lines = 150000;
    struct qkv_buffer text = {0};
    struct made made = {0};
    (void)state;
    for (int i = 0; i < lines; i++) /* of several blocks, with a bad line in the first and in the last of them */
        assert_ok(ctx, qkv_buffer_print(ctx, &text, "%s",
                                        i == 15000        ? "{\"body\": 1}\n"
                                        : i == lines - 10 ? "{\"text\": \"never ends\n"
                                                          : good));
    assert_true(text.size > 3 << 20);
    const struct qkv_texts had = corpus;
    corpus = (struct qkv_texts){0};
    assert_ok(ctx, qkv_texts_add(ctx, &corpus, "%s", test_path("bad.jsonl")));
    assert_ok(ctx, qkv_texts_add(ctx, &corpus, "%s", test_path("zero.txt")));
    assert_ok(ctx, qkv_texts_add(ctx, &corpus, "%s", test_path("fine.txt")));
    test_write_file(test_path("bad.jsonl"), text.data, text.size);
    test_write_file(test_path("zero.txt"), "one\ntwo\0three\n", 14);
    test_write_file(test_path("fine.txt"), "fine\n", 5);
    assert_status(ctx, make(ctx, test_path("shards-bad"), false, NULL, &made), QKV_FORMAT);
    assert_message(ctx, "bad.jsonl:15001: the object has no key text; it has body; name the key of the text with "
                        "text_key");
    unmake(&made);
    assert_ok(ctx, make(ctx, test_path("shards-bad"), true, NULL, &made));
    assert_int_equal(made.notes.count, 2);
    assert_non_null(strstr(made.notes.items[0], "skip_bad: 2 lines are left out, the first one because "));
    assert_non_null(strstr(made.notes.items[0], "bad.jsonl:15001: "));
    assert_non_null(strstr(made.notes.items[1], "skip_bad: 1 file is left out, the first one because "));
    assert_non_null(strstr(made.notes.items[1], "zero.txt:2: there is a NUL byte"));
    uint64_t documents = 0;
    for (size_t i = 0; i < made.shards.count; i++) documents += made.shards.items[i].documents;
    assert_int_equal(documents, lines - 2 + 1);
    /* A shard that is made again leaves the notes as they were. */
    char *note = strdup(made.notes.items[0]);
    assert_non_null(note);
    assert_true(made.shards.count > 2);
    assert_int_equal(unlink(made.shards.paths[made.shards.count - 1]), 0);
    unmake(&made);
    assert_ok(ctx, make(ctx, test_path("shards-bad"), true, NULL, &made));
    assert_int_equal(made.notes.count, 3);
    assert_string_equal(made.notes.items[1], note);
    free(note);
    unmake(&made);
    qkv_texts_free(&corpus);
    assert_ok(ctx, qkv_texts_add(ctx, &corpus, "%s", test_path("empty.txt")));
    test_write_file(test_path("empty.txt"), "", 0);
    assert_status(ctx, make(ctx, test_path("shards-empty"), false, NULL, &made), QKV_FORMAT);
    assert_message(ctx, "there is no document in");
    unmake(&made);
    qkv_texts_free(&corpus);
    corpus = had;
    qkv_buffer_free(&text);
}

/* A NUL byte behind the first block of a plain file: the text before it is a document of its own, wherever the byte is
 * in its block. */
static void the_text_before_a_nul_byte_is_a_document(void **state) {
    static const size_t places[] = {(1 << 20) + 1, (1 << 20) + 77, 1500000, (2 << 20) - 1, 2 << 20, (2 << 20) + 1};
    const struct qkv_texts had = corpus;
    enum { SIZE = (5 << 20) / 2 };
    char *text = malloc(SIZE);
    (void)state;
    assert_non_null(text);
    test_write_file(test_path("after.txt"), "after\n", 6);
    for (size_t i = 0; i < TEST_COUNT(places); i++) {
        struct made made = {0};
        corpus = (struct qkv_texts){0};
        for (size_t k = 0; k < SIZE; k++) text[k] = k % 5 == 4 ? '\n' : 'a';
        text[places[i]] = 0;
        test_write_file(test_path("nul.txt"), text, SIZE);
        assert_ok(ctx, qkv_texts_add(ctx, &corpus, "%s", test_path("nul.txt")));
        assert_ok(ctx, qkv_texts_add(ctx, &corpus, "%s", test_path("after.txt")));
        char name[32];
        snprintf(name, sizeof name, "shards-nul%zu", i);
        assert_status(ctx, make(ctx, test_path(name), false, NULL, &made), QKV_FORMAT);
        assert_message(ctx, "there is a NUL byte");
        unmake(&made);
        assert_ok(ctx, make(ctx, test_path(name), true, NULL, &made));
        assert_int_equal(made.notes.count, 1);
        uint64_t documents = 0, bytes = 0;
        for (size_t k = 0; k < made.shards.count; k++) {
            documents += made.shards.items[k].documents;
            bytes += made.shards.items[k].bytes;
        }
        assert_int_equal(documents, 2);
        assert_int_equal(bytes, places[i] + 6);
        unmake(&made);
        test_write_file(test_path("nul.txt"), text, SIZE); /* all its bytes are compared */
        calls_left = 1000;
        assert_ok(ctx, make(ctx, test_path(name), true, only_comparing, &made));
        unmake(&made);
        qkv_texts_free(&corpus);
    }
    corpus = had;
    free(text);
}

/* A word that a tokenizer does not know fails with its place, or its texts are left out, and no others. */
static void texts_that_the_tokenizer_refuses_are_named_or_left_out(void **state) {
    static const char *const specials[] = {QKV_TOKEN_TEXT_END};
    const struct qkv_texts had = corpus;
    struct qkv_tokenizer *learnt = tokenizer;
    struct made made = {0};
    (void)state;
    test_write_file(test_path("known.txt"), "one two three\n", 14);
    const char *files[] = {test_path("known.txt")};
    assert_ok(ctx, qkv_tokenizer_learn(ctx, "whitespace", files, 1, specials, 1, NULL, NULL, &tokenizer));
    for (int json = 0; json < 2; json++) {
        corpus = (struct qkv_texts){0};
        const char *path = test_path(json ? "words.jsonl" : "words.txt"),
                   *text = json ? "{\"text\": \"one two\"}\n{\"text\": \"one four\"}\n{\"text\": \"three\"}\n"
                                : "one two\nfour three\n";
        test_write_file(path, text, strlen(text));
        assert_ok(ctx, qkv_texts_add(ctx, &corpus, "%s", path));
        assert_ok(ctx, qkv_texts_add(ctx, &corpus, "%s", test_path("known.txt")));
        assert_status(ctx, make(ctx, test_path("shards-words"), false, NULL, &made), QKV_FORMAT);
        assert_message(ctx, json ? "words.jsonl:2: \"four\" is no word" : ", at lines 1 to 2 of ");
        assert_message(ctx, "\"four\" is no word of the vocabulary");
        unmake(&made);
        assert_ok(ctx, make(ctx, test_path("shards-words"), true, NULL, &made));
        assert_int_equal(made.notes.count, 1);
        assert_non_null(strstr(made.notes.items[0], json ? "skip_bad: 1 line is left out, the first one because "
                                                         : "skip_bad: 2 lines are left out, the first one because "));
        assert_non_null(strstr(made.notes.items[0], "\"four\" is no word"));
        assert_int_equal(made.shards.items[0].documents, json ? 3 : 1);
        assert_int_equal(made.facts.tokens, json ? 2 + 1 + 1 + 1 + 3 + 1 : 3 + 1);
        unmake(&made);
        qkv_texts_free(&corpus);
    }
    qkv_tokenizer_free(tokenizer);
    tokenizer = learnt;
    corpus = had;
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
        cmocka_unit_test(an_index_without_shards_is_not_complete),
        cmocka_unit_test(missing_shards_that_cannot_be_written_say_why),
        cmocka_unit_test(bad_lines_and_files_are_named_or_left_out),
        cmocka_unit_test(the_text_before_a_nul_byte_is_a_document),
        cmocka_unit_test(texts_that_the_tokenizer_refuses_are_named_or_left_out),
    };
    return cmocka_run_group_tests(tests, corpus_setup, corpus_teardown);
}
