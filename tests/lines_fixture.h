/* lines_fixture.h: runs that train on lines: a model of pairs and a classifier, their files and options, and
 * beginning a run. Header-only. */
#ifndef QKV_LINES_FIXTURE_H
#define QKV_LINES_FIXTURE_H

#include "train_fixture.h"

#define FIXTURE_CONTEXT fixture_context(1)
#include "context_fixture.h"

#define START "{\"format\":\"qkv\",\"version\":1,\"d_model\":32,\"context\":16,"
static const char pair_json[] = START "\"encoder\":{\"layers\":1,\"attention\":{\"heads\":2}},"
                                      "\"decoder\":{\"layers\":1,\"attention\":{\"heads\":2}}}";
static const char class_json[] = START "\"head\":{\"kind\":\"classify\",\"pool\":\"mean\"},"
                                       "\"encoder\":{\"layers\":1,\"attention\":{\"heads\":2}}}";

static struct qkv_spec spec_of(const char *json, const char *setting) {
    struct qkv_spec spec = {0};
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "fixture", json, strlen(json), &setting, setting ? 1 : 0));
    return spec;
}

/* Random words of a few letters and their reverse; or "more" and "less" by which letter a text has more of. */
static void write_lines(const char *path, size_t count, bool labels, uint64_t seed) {
    struct qkv_random random = qkv_random_start(seed, 5);
    struct qkv_buffer text = {0};
    for (size_t i = 0; i < count; i++) {
        char word[16], back[16];
        size_t n = 2 + (size_t)qkv_random_below(&random, 7), ones = 0;
        for (size_t k = 0; k < n; k++) {
            word[k] = (char)('a' + qkv_random_below(&random, labels ? 2 : 5));
            ones += word[k] == 'a';
        }
        for (size_t k = 0; k < n; k++) back[k] = word[n - 1 - k];
        const char *label = 2 * ones > n ? "more" : "less";
        if (labels)
            assert_ok(ctx, qkv_buffer_print(ctx, &text, "%s\t%.*s\n", label, (int)n, word));
        else
            assert_ok(ctx, qkv_buffer_print(ctx, &text, "%.*s\t%.*s\n", (int)n, word, (int)n, back));
    }
    test_write_file(path, text.data, text.size);
    qkv_buffer_free(&text);
}

static struct qkv_train_options options_of(bool labels, const char *name, size_t lines) {
    static char paths[2][1024];
    struct qkv_train_options o;
    char *path = paths[labels];
    snprintf(path, sizeof paths[0], "%s", test_path(name));
    if (lines) write_lines(path, lines, labels, 1);
    assert_ok(ctx, qkv_train_defaults(ctx, NULL, &o));
    if (labels)
        o.labeled = path;
    else
        o.pairs = path;
    o.steps = 8;
    o.batch = 8;
    o.warmup = 2;
    o.eval_every = 2;
    o.eval_batches = 2;
    o.save_every = 4;
    o.dropout = 0.1;
    return o;
}

static inline struct qkv_trainer *begin(bool labels, const char *folder, const struct qkv_train_options *o) {
    OWNED_SPEC struct qkv_spec spec = spec_of(labels ? class_json : pair_json, NULL);
    struct qkv_trainer *trainer;
    assert_ok(ctx, qkv_trainer_create(ctx, &spec, o, folder, NULL, NULL, &trainer));
    return trainer;
}

static inline struct qkv_trainer *resume(const char *folder) {
    struct qkv_trainer *trainer;
    assert_ok(ctx, qkv_trainer_resume(ctx, folder, NULL, NULL, NULL, &trainer));
    return trainer;
}

#endif
