/* Models in GGUF files (tests/golden/gguf, and those in $QKV_GOLDEN_GGUF; tests/golden/make/gguf_cases.py makes them):
 * the scores are those of llama.cpp, and a file made of a published folder is the same model as the folder, to the
 * bit. */
/* labels: numeric */
#include "family_fixture.h"
#include "gguf_fixture.h"

#include <dirent.h>

#include "model/spec.h"

/* ---- scores ------------------------------------------------------------------------------------------------------ */

/* llama.cpp has GELU as a table of half precision. */
static double tolerance_of(const struct qkv_model *model) {
    const char *kind = NULL;
    char *json;
    assert_int_equal(qkv_spec_print(qkv_model_context(model), qkv_model_spec(model), &json), QKV_OK);
    kind = strstr(json, "gelu");
    kind = kind ? kind : strstr(json, "geglu");
    qkv_free(json);
    return kind ? 2e-3 : 5e-6;
}

static void check_scores(const char *path, void *user) {
    struct qkv_tensors *t;
    char cases[700];
    (void)user;
    snprintf(cases, sizeof cases, "%.*s.safetensors", (int)strlen(path) - 5, path);
    if (access(cases, R_OK) != 0) return; /* an encoder */
    struct opened o = open_path(path);
    assert_int_equal(qkv_tensors_open(o.ctx, cases, &t), QKV_OK);
    const struct qkv_array *ids = qkv_tensors_find(t, "in.ids"), *want = qkv_tensors_find(t, "out.logits");
    struct qkv_batch batch = qkv_batch_defaults();
    struct qkv_pass *pass;
    int32_t *copy = malloc(ids->bytes);
    memcpy(copy, ids->data, ids->bytes);
    batch.B = ids->shape[0], batch.T = ids->shape[1], batch.ids = copy;
    const struct qkv_pass_options options = {.size = sizeof options, .B = batch.B, .T = batch.T, .logits = true};
    assert_int_equal(qkv_pass_create(o.model, &options, &pass), QKV_OK);
    if (qkv_pass_forward(pass, &batch)) fail_msg("%s: %s", path, qkv_message(o.ctx));
    const struct qkv_array got = qkv_pass_output(pass);
    assert_int_equal(qkv_array_elements(&got), qkv_array_elements(want));
    const size_t V = want->shape[2];
    const int32_t *lengths = qkv_tensors_find(t, "in.lengths")->data;
    for (size_t i = 0; i < batch.B; i++)
        test_floats_close((const float *)got.data + i * batch.T * V, (const float *)want->data + i * batch.T * V,
                          (size_t)lengths[i] * V, tolerance_of(o.model), path, __FILE__, __LINE__);
    qkv_pass_free(pass);
    qkv_tensors_close(t);
    free(copy);
    close_opened(&o);
}

/* ---- folders ----------------------------------------------------------------------------------------------------- */

/* Copies the folder that a file was made of; false: it is not in the tree. */
static bool find_folder(const char *path, char folder[700]) {
    static const char *const roots[] = {"/tests/golden/hf", "/tests/golden/hf_random", "/../shared/golden/hf"};
    const char *name = strrchr(path, '/') + 1;
    for (size_t i = 0; i < TEST_COUNT(roots); i++) {
        snprintf(folder, 700, "%s%s/%.*s", TEST_SOURCE_DIR, roots[i], (int)strlen(name) - 5, name);
        if (access(folder, R_OK) == 0) return true;
    }
    return false;
}

static void expect_same_weights(const struct qkv_model *a, const struct qkv_model *b, const char *path) {
    assert_int_equal(qkv_model_parameters(a), qkv_model_parameters(b));
    for (size_t i = 0; i < qkv_model_parameters(a); i++) {
        const struct qkv_array *p = qkv_model_parameter(a, i), *q = qkv_model_parameter(b, i);
        const size_t n = qkv_array_elements(p);
        float *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y);
        size_t wrong = 0;
        assert_string_equal(p->name, q->name);
        qkv_array_floats(p, x);
        qkv_array_floats(q, y);
        /* 1 + w in a file rounds w, and the norm adds 1 again. */
        const bool plus = strstr(p->name, "norm") && strstr(path, "gemma");
        for (size_t k = 0; k < n; k++) wrong += plus ? 1 + x[k] != 1 + y[k] : x[k] != y[k];
        if (wrong) fail_msg("%s: %zu of %zu numbers of %s differ", path, wrong, n, p->name);
        free(x);
        free(y);
    }
}

static void check_folder(const char *path, void *user) {
    char folder[700], x[QKV_DIGEST_TEXT], y[QKV_DIGEST_TEXT], *a, *b;
    if (!find_folder(path, folder)) return;
    struct opened file = open_path(path), there = open_path(folder);
    assert_int_equal(qkv_spec_digest(file.ctx, qkv_model_spec(file.model), x), QKV_OK);
    assert_int_equal(qkv_spec_digest(there.ctx, qkv_model_spec(there.model), y), QKV_OK);
    assert_int_equal(qkv_spec_print(file.ctx, qkv_model_spec(file.model), &a), QKV_OK);
    assert_int_equal(qkv_spec_print(there.ctx, qkv_model_spec(there.model), &b), QKV_OK);
    /* Divisors of frequencies stand for scalings that folders say otherwise. */
    if (strcmp(x, y) != 0 && !strstr(a, "longrope")) fail_msg("%s: the specs differ: %s %s", path, a, b);
    qkv_free(a);
    qkv_free(b);
    assert_string_equal(qkv_model_family(file.model), qkv_model_family(there.model));
    expect_same_weights(file.model, there.model, path);
    close_opened(&file);
    close_opened(&there);
    (*(size_t *)user)++;
}

/* ---- all files --------------------------------------------------------------------------------------------------- */

static size_t each_file(const char *root, void (*check)(const char *path, void *user), void *user) {
    DIR *folder = opendir(root);
    size_t count = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char path[600];
        const size_t n = strlen(entry->d_name);
        snprintf(path, sizeof path, "%s/%s", root, entry->d_name);
        if (n < 6 || strcmp(entry->d_name + n - 5, ".gguf") != 0) continue;
        check(path, user);
        count++;
    }
    if (folder) closedir(folder);
    return count;
}

static void every_file(void (*check)(const char *path, void *user), void *user) {
    assert_true(each_file(TEST_SOURCE_DIR "/tests/golden/gguf", check, user) >= 3);
    if (getenv("QKV_GOLDEN_GGUF")) assert_true(each_file(getenv("QKV_GOLDEN_GGUF"), check, user) > 0);
}

static void files_give_the_scores_of_llama_cpp(void **state) {
    (void)state;
    every_file(check_scores, NULL);
}

static void a_file_is_the_model_of_its_folder(void **state) {
    (void)state;
    size_t compared = 0;
    every_file(check_folder, &compared);
    assert_true(compared >= 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_give_the_scores_of_llama_cpp),
        cmocka_unit_test(a_file_is_the_model_of_its_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
