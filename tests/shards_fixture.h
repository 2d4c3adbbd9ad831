/* shards_fixture.h: a corpus of files of one block and of several, a tokenizer for it, and its shards. Header-only. */
#ifndef QKV_SHARDS_FIXTURE_H
#define QKV_SHARDS_FIXTURE_H

#include "context_fixture.h"

#ifdef QKV_ZLIB
#include <zlib.h>
#endif

#include "data/shards.h"
#include "data/data.h"
#include "text/text.h"

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

static inline void write_corpus_file(const char *path, const struct qkv_buffer *text) {
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
static inline void write_corpus(struct qkv_texts *paths) {
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

static inline enum qkv_status make(struct qkv_context *with, const char *folder, bool skip_bad, qkv_progress *progress,
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

static inline void unmake(struct made *made) {
    qkv_text_files_free(&made->files);
    qkv_shards_close(&made->shards);
    qkv_texts_free(&made->notes);
    *made = (struct made){0};
}

static inline struct qkv_buffer read_ids(const struct qkv_shards *shards) {
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

static inline void same_shards(const struct made *a, const struct made *b) {
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

static inline int corpus_setup(void **state) {
    static const char *const specials[] = {QKV_TOKEN_TEXT_END};
    if (setup(state)) return 1;
    write_corpus(&corpus);
    const char *files[] = {corpus.items[3]};
    return (int)qkv_tokenizer_learn(ctx, "bpe:400", files, 1, NULL, specials, 1, NULL, NULL, &tokenizer);
}

static inline int corpus_teardown(void **state) {
    qkv_tokenizer_free(tokenizer);
    qkv_texts_free(&corpus);
    return teardown(state);
}

/* ---- progress ---------------------------------------------------------------------------------------------------- */

static int calls_left;
static inline bool count_calls(void *user, const char *what, double done, double total) {
    (void)user, (void)what;
    assert_true(done >= 0 && done <= total);
    return --calls_left > 0;
}
static inline bool only_comparing(void *user, const char *what, double done, double total) {
    assert_string_equal(what, "comparing texts");
    return count_calls(user, what, done, total);
}

#endif
