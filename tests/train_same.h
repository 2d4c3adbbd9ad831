/* train_same.h: whether two training runs are equal in everything that does not depend on time: log, checkpoint and
 * model. Header-only. */
#ifndef QKV_TRAIN_SAME_H
#define QKV_TRAIN_SAME_H

#include "train_fixture.h"

#include <jansson.h>

/* The numbers of a log that a machine's speed does not change, one line a step. */
static inline char *log_numbers(const char *folder) {
    size_t size, used = 0;
    char *text = fixture_read(folder, "log.jsonl", &size), *out = calloc(size * 2 + 64, 1);
    int64_t step = 0;
    for (char *line = text; *line;) {
        json_error_t error;
        char *end = strchr(line, '\n');
        assert_non_null(end);
        json_t *entry = json_loadb(line, (size_t)(end - line), JSON_REJECT_DUPLICATES, &error);
        assert_true(json_is_object(entry));
        assert_int_equal(json_integer_value(json_object_get(entry, "step")), ++step);
        static const char *const keys[] = {"loss", "norm", "rate", "tokens_per_second", "flops_share", "seconds"};
        for (size_t i = 0; i < TEST_COUNT(keys); i++) {
            const json_t *value = json_object_get(entry, keys[i]);
            assert_true(json_is_number(value) && json_number_value(value) >= 0);
            if (i < 3) used += (size_t)sprintf(out + used, "%a ", json_number_value(value));
        }
        const json_t *valid = json_object_get(entry, "valid_loss");
        used += (size_t)sprintf(out + used, "%lld ", json_integer_value(json_object_get(entry, "tokens")));
        used += (size_t)(valid ? sprintf(out + used, "%a\n", json_number_value(valid)) : sprintf(out + used, "\n"));
        json_decref(entry);
        line = end + 1;
    }
    free(text);
    return out;
}

/* Whether two tensor files hold the same bits under the same names. */
static inline void assert_same_tensors(struct qkv_context *ctx, const char *folder_a, const char *folder_b,
                                       const char *name) {
    struct qkv_tensors *a, *b;
    char path[2048];
    snprintf(path, sizeof path, "%s/%s", folder_a, name);
    assert_ok(ctx, qkv_tensors_open(ctx, path, &a));
    snprintf(path, sizeof path, "%s/%s", folder_b, name);
    assert_ok(ctx, qkv_tensors_open(ctx, path, &b));
    assert_int_equal(qkv_tensors_count(a), qkv_tensors_count(b));
    for (size_t i = 0; i < qkv_tensors_count(a); i++) {
        const struct qkv_array *x = qkv_tensors_at(a, i), *y = qkv_tensors_find(b, x->name);
        assert_non_null(y);
        assert_int_equal(x->bytes, y->bytes);
        if (memcmp(x->data, y->data, x->bytes)) fail_msg("%s: %s differs", name, x->name);
    }
    qkv_tensors_close(a);
    qkv_tensors_close(b);
}

/* The first step that differs is shown. */
static inline void assert_same_logs(const char *a, const char *b) {
    size_t step = 1;
    while (*a && strcspn(a, "\n") == strcspn(b, "\n") && !strncmp(a, b, strcspn(a, "\n") + 1))
        a += strcspn(a, "\n") + 1, b += strcspn(b, "\n") + 1, step++;
    if (*a || *b) fail_msg("step %zu: %.*s, not %.*s", step, (int)strcspn(b, "\n"), b, (int)strcspn(a, "\n"), a);
}

static inline void assert_same_runs(struct qkv_context *ctx, const char *a, const char *b) {
    char *log_a = log_numbers(a), *log_b = log_numbers(b);
    assert_same_logs(log_a, log_b);
    free(log_a);
    free(log_b);
    assert_same_tensors(ctx, a, b, "checkpoint.safetensors");
    assert_same_tensors(ctx, a, b, "model.safetensors");
}

#endif
