/* Errors when a run begins or resumes, each with its message; nothing is lost: bad texts and options, folders in
 * use, damaged files. */
#include "train_fixture.h"

#define FIXTURE_CONTEXT fixture_context(1)
#include "context_fixture.h"

/* Starting fails with this status and sentence, and leaves no folder. */
static void refuse(const char *const *settings, const struct qkv_train_options *options, enum qkv_status status,
                   const char *message) {
    const char *folder = fixture_run("refused");
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, settings);
    struct qkv_trainer *trainer;
    assert_status(ctx, qkv_trainer_create(ctx, &spec, options, folder, NULL, NULL, &trainer), status);
    assert_null(trainer);
    assert_message(ctx, message);
    assert_false(qkv_file_exists(folder));
}

/* ---- starting --------------------------------------------------------------------------------------------------- */

static void bad_texts_are_refused(void **state) {
    (void)state;
    struct qkv_train_options o = fixture_options(ctx);
    const char *path = test_path("bad.txt");
    o.data = path;
    refuse(NULL, &o, QKV_FILE, "bad.txt");
    test_write_file(path, "", 0);
    refuse(NULL, &o, QKV_FORMAT, "bad.txt is empty");
    test_write_file(path, "some\0thing that is longer than one window", 41);
    refuse(NULL, &o, QKV_FORMAT, "bad.txt is not a text: byte 4 is NUL");
    test_write_file(path, "a text too short", 16);
    refuse(NULL, &o, QKV_ARGUMENT, "the training part of");
    assert_message(ctx, "has 15 tokens, but a context of 16 needs 17: choose a context of at most 14, more text");
    o = fixture_options(ctx);
    o.valid = path;
    refuse(NULL, &o, QKV_ARGUMENT, "the validation part of");
    assert_message(ctx, "has 16 tokens");
    unlink(path);
    refuse(NULL, &o, QKV_FILE, "bad.txt");
    o = fixture_options(ctx);
    o.valid_fraction = 0.004;
    refuse(NULL, &o, QKV_ARGUMENT, "has 12 tokens, but a context of 16 needs 17");
    assert_message(ctx, "a larger valid_fraction, or 0 for no validation");
    o.valid_fraction = 0.999;
    refuse(NULL, &o, QKV_ARGUMENT, "or a smaller valid_fraction");
}

static void bytes_take_any_file(void **state) {
    (void)state;
    struct qkv_train_options o = fixture_options(ctx);
    const char *path = test_path("any.bin");
    char data[600];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (char)(i * 7);
    test_write_file(path, data, sizeof data);
    o.data = path;
    o.tokenizer = "bytes";
    struct qkv_trainer *trainer = fixture_begin(ctx, fixture_run("bytes"), &o);
    fixture_steps(ctx, trainer, 2);
    qkv_trainer_free(trainer);
}

static void bad_options_are_refused(void **state) {
    (void)state;
    struct qkv_train_options o = fixture_options(ctx);
    o.steps = 0;
    refuse(NULL, &o, QKV_ARGUMENT, "steps is 0");
    o = fixture_options(ctx);
    o.context = 17;
    refuse(NULL, &o, QKV_ARGUMENT, "context is 17 but the spec's is 16");
    static const char *const wrong[] = {"bpee", "nowhere/tokenizer.json", ""};
    for (size_t i = 0; i < TEST_COUNT(wrong); i++) {
        o = fixture_options(ctx);
        o.tokenizer = wrong[i];
        refuse(NULL, &o, QKV_ARGUMENT,
               "neither bytes, chars, chars+bytes, words, whitespace, bpe, bpe:SIZE nor a file of a tokenizer");
    }
    static const char *const sizes[] = {"bpe:", "bpe:x", "bpe:0", "bpe:-5", "bpe:999999999999", "bytes:5", "bpe:40x"};
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        o = fixture_options(ctx);
        o.tokenizer = sizes[i];
        refuse(NULL, &o, QKV_ARGUMENT, "must come the size of the vocabulary");
    }
    const char *json = test_path("broken.json");
    test_write_file(json, "{", 1);
    o = fixture_options(ctx);
    o.tokenizer = json;
    refuse(NULL, &o, QKV_FORMAT, "broken.json");
}

static void specs_that_cannot_learn_text_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *settings[4];
        enum qkv_status status;
        const char *message;
    } bad[] = {
        {{"vocab=5"}, QKV_SPEC, "the spec's vocab is 5 but the tokenizer has"},
        {{"vocab=5000"}, QKV_SPEC, "the spec's vocab is 5000 but the tokenizer has"},
        {{"decoder.attention.causal=false"}, QKV_SPEC, "decoder.attention.causal is false"},
        {{"head.kind=none", "tie=none"}, QKV_SPEC, "no lm head"},
        {{"encoder={\"layers\":1,\"attention\":{\"heads\":2}}"}, QKV_SPEC, "an encoder beside its decoder"},
    };
    struct qkv_train_options o = fixture_options(ctx);
    for (size_t i = 0; i < TEST_COUNT(bad); i++) refuse(bad[i].settings, &o, bad[i].status, bad[i].message);
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, NULL); /* filled in by hand, wrongly */
    struct qkv_trainer *trainer;
    spec.decoder.kinds[0].attention.heads = 0;
    assert_status(ctx, qkv_trainer_create(ctx, &spec, &o, fixture_run("refused"), NULL, NULL, &trainer), QKV_SPEC);
    assert_message(ctx, "heads");
}

static void overrides_reach_the_spec(void **state) {
    (void)state;
    const char *folder = fixture_run("overrides");
    struct qkv_train_options o = fixture_options(ctx);
    o.context = 9;
    o.dropout = 0.25;
    struct qkv_trainer *trainer = fixture_begin(ctx, folder, &o);
    const struct qkv_spec *spec = qkv_model_spec(qkv_trainer_model(trainer));
    assert_int_equal(spec->context, 9);
    assert_true(spec->dropout == 0.25);
    qkv_trainer_free(trainer);
}

static void folders_in_use_are_refused(void **state) {
    (void)state;
    const char *folder = fixture_run("used");
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, NULL);
    struct qkv_train_options o = fixture_options(ctx);
    struct qkv_trainer *trainer = fixture_begin(ctx, folder, &o), *second;
    assert_status(ctx, qkv_trainer_resume(ctx, folder, NULL, NULL, NULL, &second), QKV_FILE);
    assert_message(ctx, "another process is training in this folder");
    qkv_trainer_free(trainer);
    assert_status(ctx, qkv_trainer_create(ctx, &spec, &o, folder, NULL, NULL, &second), QKV_FILE);
    assert_message(ctx, "already holds a run; resume it or choose another folder");
    assert_true(fixture_has(folder, "checkpoint.safetensors") && fixture_has(folder, "tokens.data.bin"));
    folder = fixture_run("model");
    assert_ok(ctx, qkv_make_folder(ctx, folder));
    fixture_write(folder, "model.safetensors", "x", 1);
    assert_status(ctx, qkv_trainer_create(ctx, &spec, &o, folder, NULL, NULL, &second), QKV_FILE);
    assert_message(ctx, "already holds a model");
    assert_false(fixture_has(folder, "log.jsonl"));
    folder = fixture_run("sharded");
    assert_ok(ctx, qkv_make_folder(ctx, folder));
    fixture_write(folder, "model.safetensors.index.json", "{}", 2);
    assert_status(ctx, qkv_trainer_create(ctx, &spec, &o, folder, NULL, NULL, &second), QKV_FILE);
    assert_message(ctx, "already holds a model.safetensors.index.json");
    assert_false(fixture_has(folder, "config.json"));
    assert_status(ctx, qkv_trainer_create(ctx, &spec, &o, "/proc/no/such", NULL, NULL, &second), QKV_FILE);
    assert_message(ctx, "/proc/no");
}

/* Files that were in the folder before stay when starting fails. */
static void what_was_there_stays(void **state) {
    (void)state;
    const char *folder = fixture_run("there"), *text = test_path("short.txt");
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, NULL);
    struct qkv_train_options o = fixture_options(ctx);
    struct qkv_trainer *trainer;
    test_write_file(text, "short text", 10);
    assert_ok(ctx, qkv_make_folder(ctx, folder));
    fixture_write(folder, "config.json", "mine", 4);
    o.data = text;
    assert_status(ctx, qkv_trainer_create(ctx, &spec, &o, folder, NULL, NULL, &trainer), QKV_FILE);
    assert_message(ctx, "already holds a config.json");
    char *config = fixture_read(folder, "config.json", NULL);
    assert_string_equal(config, "mine");
    free(config);
    assert_false(fixture_has(folder, "tokenizer.json") || fixture_has(folder, "tokens.data.bin"));
}

/* ---- resuming --------------------------------------------------------------------------------------------------- */

static void refuse_resume(const char *folder, enum qkv_status status, const char *message) {
    struct qkv_trainer *trainer;
    assert_status(ctx, qkv_trainer_resume(ctx, folder, NULL, NULL, NULL, &trainer), status);
    assert_null(trainer);
    assert_message(ctx, message);
}

static const char *run_of_three_steps(const char *name) {
    const char *folder = fixture_run(name);
    struct qkv_train_options o = fixture_options(ctx);
    struct qkv_trainer *trainer = fixture_begin(ctx, folder, &o);
    fixture_steps(ctx, trainer, 3);
    qkv_trainer_free(trainer);
    return folder;
}

static void missing_and_foreign_files_are_named(void **state) {
    (void)state;
    const char *folder = run_of_three_steps("foreign");
    static const char *const names[] = {"train.json", "config.json", "tokenizer.json", "checkpoint.safetensors"};
    size_t size;
    char path[2048];
    refuse_resume(test_path("nowhere"), QKV_FILE, "nowhere holds no training run");
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        char *good = fixture_read(folder, names[i], &size);
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
        refuse_resume(folder, QKV_FILE, names[i]);
        static const size_t cuts[] = {0, 1, 9, 100};
        for (size_t k = 0; k < TEST_COUNT(cuts); k++) {
            struct qkv_trainer *trainer;
            test_write_file(path, good, cuts[k]);
            assert_int_not_equal(qkv_trainer_resume(ctx, folder, NULL, NULL, NULL, &trainer), QKV_OK);
            assert_message(ctx, names[i]);
        }
        test_write_file(path, good, size);
        free(good);
    }
    struct qkv_trainer *trainer;
    assert_ok(ctx, qkv_trainer_resume(ctx, folder, NULL, NULL, NULL, &trainer));
    fixture_steps(ctx, trainer, 6);
    qkv_trainer_free(trainer);
}

/* Any bit of the checkpoint's header changed, and any length it is cut off at: refused or read, never a crash. */
static void damaged_checkpoints_do_no_harm(void **state) {
    (void)state;
    const char *folder = run_of_three_steps("damage");
    struct qkv_random random = test_random(30);
    struct qkv_trainer *trainer;
    size_t size, header = 0;
    char *good = fixture_read(folder, "checkpoint.safetensors", &size);
    memcpy(&header, good, 8);
    for (int i = 0; i < 60; i++) {
        size_t at = test_between(&random, 0, header + 7);
        char mask = (char)(1 << test_between(&random, 0, 7));
        good[at] ^= mask;
        fixture_write(folder, "checkpoint.safetensors", good, size);
        if (qkv_trainer_resume(ctx, folder, NULL, NULL, NULL, &trainer) == QKV_OK)
            qkv_trainer_free(trainer);
        else
            assert_true(*qkv_message(ctx));
        good[at] ^= mask;
        fixture_write(folder, "checkpoint.safetensors", good, test_between(&random, 0, size - 1));
        assert_int_not_equal(qkv_trainer_resume(ctx, folder, NULL, NULL, NULL, &trainer), QKV_OK);
        assert_message(ctx, "checkpoint.safetensors");
    }
    free(good);
}

static void replace_in_file(const char *folder, const char *name, const char *from, const char *to) {
    size_t size;
    char *text = fixture_read(folder, name, &size), *at = strstr(text, from);
    char *out = calloc(size + strlen(to) + 1, 1);
    assert_non_null(at);
    sprintf(out, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    fixture_write(folder, name, out, strlen(out));
    free(out);
    free(text);
}

static void another_spec_or_optimizer_is_named(void **state) {
    (void)state;
    const char *folder = run_of_three_steps("spec");
    replace_in_file(folder, "config.json", "\"d_ff\": 64", "\"d_ff\": 48");
    refuse_resume(folder, QKV_SPEC, "it says \"d_ff\": 48 where the checkpoint has \"d_ff\": 64");
    replace_in_file(folder, "config.json", "\"d_ff\": 48", "\"d_ff\": 64");
    replace_in_file(folder, "train.json", "\"optimizer\": \"adamw\"", "\"optimizer\": \"sgd\"");
    refuse_resume(folder, QKV_FORMAT, "was written with optimizer adamw but train.json says sgd");
    replace_in_file(folder, "train.json", "\"optimizer\": \"sgd\"", "\"optimizer\": \"adamw\"");
    replace_in_file(folder, "tokenizer.json", "{", "{ ");
    refuse_resume(folder, QKV_FORMAT, "is not the tokenizer that this run was trained with");
    replace_in_file(folder, "tokenizer.json", "{ ", "{");
    struct qkv_trainer *trainer;
    assert_ok(ctx, qkv_trainer_resume(ctx, folder, NULL, NULL, NULL, &trainer));
    qkv_trainer_free(trainer);
}

/* A checkpoint rewritten with one tensor or one metadata value changed. */
static void foreign_tensors_are_named(void **state) {
    (void)state;
    static const char *const keys[] = {
        "format", "version", "spec", "optimizer",  "tokenizer", "step",    "optimizer_steps", "pending",
        "loss",   "norm",    "rate", "valid_loss", "best_loss", "seconds", "flops_share",     "tokens_per_second"};
    enum { KEYS = TEST_COUNT(keys) };
    const char *folder = run_of_three_steps("tensors");
    char path[2048], copy[2048];
    struct qkv_tensors *file;
    snprintf(path, sizeof path, "%s/checkpoint.safetensors", folder);
    snprintf(copy, sizeof copy, "%s/copy.safetensors", folder);
    assert_int_equal(rename(path, copy), 0);
    assert_ok(ctx, qkv_tensors_open(ctx, copy, &file));
    size_t count = qkv_tensors_count(file);
    struct qkv_array *arrays = calloc(count + 1, sizeof *arrays);
    const char *pairs[2 * KEYS];
    for (size_t i = 0; i < count; i++) arrays[i] = *qkv_tensors_at(file, i);
    for (size_t i = 0; i < KEYS; i++) {
        pairs[2 * i] = keys[i];
        pairs[2 * i + 1] = qkv_tensors_metadata(file, keys[i]);
        assert_non_null(pairs[2 * i + 1]);
    }
    for (size_t i = 0; i < KEYS; i++) { /* each key bad */
        const char *good = pairs[2 * i + 1];
        pairs[2 * i + 1] = "?";
        assert_ok(ctx, qkv_tensors_write(ctx, path, arrays, count, pairs, KEYS));
        struct qkv_trainer *trainer;
        assert_int_not_equal(qkv_trainer_resume(ctx, folder, NULL, NULL, NULL, &trainer), QKV_OK);
        assert_message(ctx, i < 2 || i > 4 ? "its metadata has no valid \"" : "");
        pairs[2 * i + 1] = good;
    }
    assert_ok(ctx, qkv_tensors_write(ctx, path, arrays, count - 1, pairs, KEYS));
    refuse_resume(folder, QKV_FORMAT, "which the spec in config.json asks for");
    assert_ok(ctx, qkv_tensors_write(ctx, path, arrays + 1, count - 1, pairs, KEYS));
    refuse_resume(folder, QKV_FORMAT, arrays[0].name);
    arrays[count] = arrays[0];
    arrays[count].name = "stranger";
    assert_ok(ctx, qkv_tensors_write(ctx, path, arrays, count + 1, pairs, KEYS));
    refuse_resume(folder, QKV_FORMAT, "tensors, the spec in config.json asks for");
    struct qkv_array whole = arrays[0];
    arrays[0].shape[0] /= 2;
    arrays[0].bytes /= 2;
    if (whole.shape[0] % 2 == 0) {
        assert_ok(ctx, qkv_tensors_write(ctx, path, arrays, count, pairs, KEYS));
        refuse_resume(folder, QKV_FORMAT, "does not have the shape or type");
    }
    arrays[0] = whole;
    float *broken = malloc(whole.bytes);
    memcpy(broken, whole.data, whole.bytes);
    broken[1] = NAN;
    arrays[0].data = broken;
    assert_ok(ctx, qkv_tensors_write(ctx, path, arrays, count, pairs, KEYS));
    refuse_resume(folder, QKV_NUMBER, "not finite");
    arrays[0] = whole;
    assert_ok(ctx, qkv_tensors_write(ctx, path, arrays, count, pairs, KEYS));
    struct qkv_trainer *trainer;
    assert_ok(ctx, qkv_trainer_resume(ctx, folder, NULL, NULL, NULL, &trainer));
    qkv_trainer_free(trainer);
    free(broken);
    free(arrays);
    qkv_tensors_close(file);
}

static void token_files_are_made_again(void **state) {
    (void)state;
    const char *folder = run_of_three_steps("again");
    struct qkv_train_options o = fixture_options(ctx);
    struct qkv_trainer *trainer;
    size_t size, again_size, text_size = 0;
    char path[2048];
    char *tokens = fixture_read(folder, "tokens.data.bin", &size), *again, *text = test_read_file(o.data, &text_size);
    snprintf(path, sizeof path, "%s/tokens.data.bin", folder);
    test_write_file(path, tokens, size - 1);
    refuse_resume(folder, QKV_FORMAT, "remove it, and it is made again");
    unlink(path);
    text[5] ^= 1;
    test_write_file(o.data, text, text_size);
    refuse_resume(folder, QKV_FORMAT, "has changed since the run began");
    assert_false(qkv_file_exists(path));
    unlink(o.data);
    refuse_resume(folder, QKV_FILE, "text.txt");
    assert_message(ctx, "tokens.data.bin again, which is missing");
    text[5] ^= 1;
    test_write_file(o.data, text, text_size);
    assert_ok(ctx, qkv_trainer_resume(ctx, folder, NULL, NULL, NULL, &trainer));
    again = fixture_read(folder, "tokens.data.bin", &again_size);
    assert_int_equal(size, again_size);
    assert_memory_equal(tokens, again, size);
    fixture_steps(ctx, trainer, 6);
    qkv_trainer_free(trainer);
    free(again);
    free(tokens);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_texts_are_refused),          cmocka_unit_test(bytes_take_any_file),
        cmocka_unit_test(bad_options_are_refused),        cmocka_unit_test(specs_that_cannot_learn_text_are_refused),
        cmocka_unit_test(overrides_reach_the_spec),       cmocka_unit_test(folders_in_use_are_refused),
        cmocka_unit_test(what_was_there_stays),           cmocka_unit_test(missing_and_foreign_files_are_named),
        cmocka_unit_test(damaged_checkpoints_do_no_harm), cmocka_unit_test(another_spec_or_optimizer_is_named),
        cmocka_unit_test(foreign_tensors_are_named),      cmocka_unit_test(token_files_are_made_again),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
