/* GGUF files that the library writes. The files of tests/golden/gguf, which the gguf package wrote and whose scores
 * test_gguf_models.c compares with llama.cpp, are the oracle: written again from the model, they have the same keys and
 * the same tensors, to the bit. */
/* labels: numeric */
#include "family_fixture.h"
#include "gguf_fixture.h"

#include <dirent.h>

#include "io/gguf_write.h"
#include "model/spec.h"
#include "test_text.h"

struct opened {
    struct qkv_context *ctx;
    struct qkv_model *model;
};

static struct opened open_path(const char *path) {
    struct opened o;
    assert_int_equal(qkv_context_create(&o.ctx, NULL), QKV_OK);
    qkv_context_set_precision(o.ctx, QKV_FP32);
    load_or_fail(o.ctx, path, &o.model);
    return o;
}

static void close_opened(struct opened *o) {
    qkv_model_free(o->model);
    qkv_context_free(o->ctx);
}

/* Writes a model, and gives the notes as one text, which the caller frees. */
static char *write_model(struct qkv_model *model, const struct qkv_gguf_options *options, const char *path) {
    struct qkv_gguf_notes *notes;
    const char *note;
    char *text = calloc(1, 4096);
    if (qkv_model_export_gguf(model, options, path, &notes))
        fail_msg("%s: %s", path, qkv_message(qkv_model_context(model)));
    for (size_t i = 0; (note = qkv_gguf_note_at(notes, i)); i++)
        snprintf(text + strlen(text), 4096 - strlen(text), "%s\n", note);
    qkv_gguf_notes_free(notes);
    return text;
}

/* ---- the writer -------------------------------------------------------------------------------------------------- */

static void expect_json(const struct qkv_gguf *g, const char *key, const char *text) {
    const struct qkv_gguf_value *value = qkv_gguf_find(g, key);
    if (!value) fail_msg("no key %s", key);
    json_t *json = qkv_gguf_value_json(g, value);
    char *have = json_dumps(json, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(6));
    assert_string_equal(have, text);
    free(have);
    json_decref(json);
}

static void keys_and_tensors_are_read_as_they_were_written(void **state) {
    struct qkv_context *ctx = *state;
    const float numbers[6] = {1, 2, 3, 4, 5, 6}, few[1] = {7};
    const struct qkv_array matrix = {.name = "a", .dtype = QKV_F32, .rank = 2, .shape = {2, 3}};
    const struct qkv_array vector = {.name = "b.weight", .dtype = QKV_F32, .rank = 1, .shape = {1}};
    struct qkv_gguf_writer w = {.ctx = ctx, .path = test_path("keys.gguf")};
    json_t *list = json_pack("[i, i, i]", 3, 0, 2), *reals = json_pack("[f, f]", 0.5, 1e-6);
    qkv_gguf_put_u32(&w, "u", 4000000000u);
    qkv_gguf_put_bool(&w, "yes", true);
    qkv_gguf_put_text(&w, "text", "a\tb", 3);
    qkv_gguf_put_json(&w, "list", list);
    qkv_gguf_put_json(&w, "reals", reals);
    json_decref(list);
    json_decref(reals);
    list = json_pack("[s, s]", "x", "");
    qkv_gguf_put_json(&w, "texts", list);
    json_decref(list);
    list = json_integer(-5);
    qkv_gguf_put_json(&w, "negative", list);
    json_decref(list);
    list = json_integer(5000000000);
    qkv_gguf_put_json(&w, "large", list);
    json_decref(list);
    qkv_gguf_put_tensor(&w, &matrix);
    qkv_gguf_put_tensor(&w, &vector);
    assert_int_equal(qkv_gguf_begin_data(&w), QKV_OK);
    qkv_gguf_write_data(&w, numbers, 8);
    qkv_gguf_write_data(&w, numbers + 2, 16);
    qkv_gguf_end_tensor(&w);
    qkv_gguf_write_data(&w, few, sizeof few);
    qkv_gguf_end_tensor(&w);
    assert_int_equal(qkv_gguf_commit(&w), QKV_OK);
    qkv_gguf_writer_free(&w);

    struct qkv_gguf *g;
    struct qkv_tensors *t;
    assert_int_equal(qkv_gguf_open(ctx, test_path("keys.gguf"), &g, &t), QKV_OK);
    expect_json(g, "u", "4000000000");
    expect_json(g, "yes", "true");
    expect_json(g, "text", "\"a\\tb\"");
    expect_json(g, "list", "[3,0,2]");
    expect_json(g, "reals", "[0.5,1e-6]");
    expect_json(g, "texts", "[\"x\",\"\"]");
    expect_json(g, "negative", "-5");
    expect_json(g, "large", "5000000000");
    const struct qkv_array *a = qkv_tensors_find(t, "a"), *b = qkv_tensors_find(t, "b.weight");
    assert_true(a && b && a->rank == 2 && a->shape[0] == 2 && a->shape[1] == 3 && b->rank == 1);
    assert_memory_equal(a->data, numbers, sizeof numbers);
    assert_memory_equal(b->data, few, sizeof few);
    qkv_gguf_free(g);
    qkv_tensors_close(t);
}

/* ---- golden files ------------------------------------------------------------------------------------------------ */

/* Keys that files of one writer have and those of another one need not have. */
static bool key_is_free(const char *key) {
    return !strcmp(key, "general.file_type") || !strcmp(key, "general.type") || !strncmp(key, "split.", 6) ||
           strstr(key, ".vocab_size") || strstr(key, ".attention.causal");
}

static void expect_keys(const struct qkv_gguf *have, const struct qkv_gguf *want, const char *path) {
    for (size_t i = 0; i < want->count; i++) {
        const char *key = want->values[i].key;
        const struct qkv_gguf_value *value = qkv_gguf_find(have, key);
        if (key_is_free(key)) continue;
        if (!value) fail_msg("%s: the key %s is missing", path, key);
        json_t *x = qkv_gguf_value_json(have, value), *y = qkv_gguf_value_json(want, &want->values[i]);
        char *text = json_dumps(x, JSON_ENCODE_ANY), *other = json_dumps(y, JSON_ENCODE_ANY);
        if (strcmp(text, other) != 0 || value->type != want->values[i].type)
            fail_msg("%s: %s is %.80s of type %d, not %.80s of type %d", path, key, text, value->type, other,
                     want->values[i].type);
        free(text);
        free(other);
        json_decref(x);
        json_decref(y);
    }
}

static void expect_tensors(const struct qkv_tensors *have, const struct qkv_tensors *want, const char *path) {
    for (size_t i = 0; i < qkv_tensors_count(want); i++) {
        const struct qkv_array *y = qkv_tensors_at(want, i), *x = qkv_tensors_find(have, y->name);
        if (!x) fail_msg("%s: the tensor %s is missing", path, y->name);
        if (x->dtype != y->dtype || x->rank != y->rank || memcmp(x->shape, y->shape, (size_t)x->rank * sizeof(size_t)))
            fail_msg("%s: %s has another shape or type", path, y->name);
        if (memcmp(x->data, y->data, y->bytes) != 0) fail_msg("%s: %s has other numbers", path, y->name);
    }
    if (qkv_tensors_count(have) != qkv_tensors_count(want))
        fail_msg("%s: %zu tensors, not %zu", path, qkv_tensors_count(have), qkv_tensors_count(want));
}

static void check_golden(const char *path) {
    struct opened o = open_path(path);
    struct qkv_gguf *have, *want;
    struct qkv_tensors *x, *y;
    char *notes = write_model(o.model, NULL, test_path("again.gguf"));
    if (strstr(notes, "architecture qkv")) fail_msg("%s: %s", path, notes);
    free(notes);
    assert_int_equal(qkv_gguf_open(o.ctx, test_path("again.gguf"), &have, &x), QKV_OK);
    assert_int_equal(qkv_gguf_open(o.ctx, path, &want, &y), QKV_OK);
    expect_keys(have, want, path);
    expect_tensors(x, y, path);
    qkv_gguf_free(have);
    qkv_gguf_free(want);
    qkv_tensors_close(x);
    qkv_tensors_close(y);
    close_opened(&o);
}

static void golden_files_are_written_again_as_they_were(void **state) {
    (void)state;
    DIR *folder = opendir(TEST_SOURCE_DIR "/tests/golden/gguf");
    size_t count = 0;
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        char path[600];
        const size_t n = strlen(entry->d_name);
        snprintf(path, sizeof path, TEST_SOURCE_DIR "/tests/golden/gguf/%s", entry->d_name);
        if (n < 6 || strcmp(entry->d_name + n - 5, ".gguf") != 0) continue;
        check_golden(path);
        count++;
    }
    closedir(folder);
    assert_true(count >= 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(keys_and_tensors_are_read_as_they_were_written, test_context,
                                        test_context_done),
        cmocka_unit_test(golden_files_are_written_again_as_they_were),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
