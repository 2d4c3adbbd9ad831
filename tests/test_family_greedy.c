/* Greedy search in published folders: the tokens are those of transformers in float64 (out.greedy of the folders of
 * tests/golden/hf and $QKV_GOLDEN_HF, from tests/golden/make/hf_cases.py). */
/* labels: numeric */
#include "test.h"

#include "family_fixture.h"

/* Scores that differ by less are a tie, after which tokens are not compared. */
#define TIE 1e-3F

static int32_t *case_ints(const struct qkv_tensors *file, const char *name, size_t *count) {
    const struct qkv_array *a = qkv_tensors_find(file, name);
    if (!a) fail_msg("the case has no %s", name);
    assert_int_equal(a->dtype, QKV_I32);
    int32_t *ints = malloc(a->bytes);
    memcpy(ints, a->data, a->bytes);
    *count = qkv_array_elements(a);
    return ints;
}

/* The first row of the sources; NULL: a model without an encoder. */
static struct qkv_encoded *case_encoded(const struct opened *o, const struct qkv_tensors *file) {
    struct qkv_encoded *encoded = NULL;
    size_t count;
    if (!qkv_tensors_find(file, "in.source")) return NULL;
    int32_t *source = case_ints(file, "in.source", &count), *lengths = case_ints(file, "in.source_lengths", &count);
    if (qkv_encode(o->model, source, NULL, 1, (size_t)lengths[0], &encoded)) fail_msg("%s", qkv_message(o->ctx));
    free(source);
    free(lengths);
    return encoded;
}

static int32_t best_of(const float *logits, size_t count) {
    size_t best = 0;
    for (size_t i = 1; i < count; i++) best = logits[i] > logits[best] ? i : best;
    return (int32_t)best;
}

/* Returns the number of tokens before a tie. */
static size_t check_greedy(const char *folder, const struct opened *o, const struct qkv_tensors *file) {
    size_t prompt_count, count, i = 0;
    int32_t *prompt = case_ints(file, "out.greedy_prompt", &prompt_count),
            *want = case_ints(file, "out.greedy", &count);
    const struct qkv_array *gap = qkv_tensors_find(file, "out.greedy_gap");
    struct qkv_encoded *encoded = case_encoded(o, file);
    struct qkv_decoder *decoder;
    assert_int_equal(count, 40);
    assert_int_equal(qkv_array_elements(gap), count);
    const struct qkv_decoder_options options = {
        .size = sizeof options, .encoded = encoded, .rows = 1, .capacity = prompt_count + count};
    if (qkv_decoder_create(o->model, &options, &decoder)) fail_msg("%s: %s", folder, qkv_message(o->ctx));
    for (size_t k = 0; k < prompt_count; k++) assert_int_equal(qkv_decoder_step(decoder, &prompt[k]), QKV_OK);
    for (; i < count && ((const float *)gap->data)[i] > TIE; i++) {
        const int32_t token = best_of(qkv_decoder_logits(decoder), (size_t)qkv_model_spec(o->model)->vocab);
        if (token != want[i]) fail_msg("%s: token %zu is %d, not %d", folder, i, (int)token, (int)want[i]);
        assert_int_equal(qkv_decoder_step(decoder, &token), QKV_OK);
    }
    qkv_decoder_free(decoder);
    qkv_encoded_free(encoded);
    free(prompt);
    free(want);
    return i;
}

/* Checks all cases of a folder that have tokens; returns how many have. */
static size_t check_root(const char *root, size_t *tokens) {
    DIR *folder = opendir(root);
    size_t count = 0;
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        char path[600], cases[700];
        struct qkv_tensors *file;
        snprintf(path, sizeof path, "%s/%s", root, entry->d_name);
        snprintf(cases, sizeof cases, "%s/case.safetensors", path);
        if (entry->d_name[0] == '.' || access(cases, R_OK) != 0) continue;
        struct opened o = open_path(path);
        assert_int_equal(qkv_tensors_open(o.ctx, cases, &file), QKV_OK);
        if (qkv_tensors_find(file, "out.greedy")) {
            *tokens += check_greedy(path, &o, file);
            count++;
        }
        qkv_tensors_close(file);
        close_opened(&o);
    }
    closedir(folder);
    return count;
}

static void greedy_search_gives_the_tokens_of_the_reference(void **state) {
    (void)state;
    size_t tokens = 0;
    const size_t count = check_root(TEST_SOURCE_DIR "/tests/golden/hf", &tokens);
    assert_true(count >= 28 && tokens >= 39 * count); /* few cases have a tie, and it is late */
    if (getenv("QKV_GOLDEN_HF")) check_root(getenv("QKV_GOLDEN_HF"), &tokens);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_search_gives_the_tokens_of_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
