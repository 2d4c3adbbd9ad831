/* The options of a run from a file: an object of options, or the record of another run. */
/* labels: quick */
#include "train_fixture.h"

#define FIXTURE_CONTEXT fixture_context(1)
#include "context_fixture.h"

static const char *config_file(const char *text) {
    const char *path = test_path("config.json");
    test_write_file(path, text, strlen(text));
    return path;
}

static struct qkv_train_options defaults(const char *preset) {
    struct qkv_train_options options;
    assert_ok(ctx, qkv_train_defaults(ctx, preset, &options));
    return options;
}

/* Reads a file that must be refused: the options stay as they are. */
static void refuse(const char *text, enum qkv_status expected, const char *sentence) {
    struct qkv_train_options options = defaults(NULL), before = options;
    char *texts = (char *)1;
    const enum qkv_status status = qkv_train_read_options(ctx, config_file(text), &options, &texts);
    if (status != expected) print_error("%s\n", text);
    assert_status(ctx, status, expected);
    assert_message(ctx, sentence);
    assert_message(ctx, "config.json");
    assert_null(texts);
    assert_memory_equal(&options, &before, sizeof options);
}

static void an_object_sets_what_it_names(void **state) {
    (void)state;
    struct qkv_train_options o = defaults(NULL);
    char *texts;
    assert_ok(ctx,
              qkv_train_read_options(ctx,
                                     config_file("{\"steps\": 7, \"rate\": 3e-4, \"dropout\": 0, \"documents\": true,"
                                                 " \"data\": [\"a\", \"b\\u00e4\"], \"valid\": \"v\","
                                                 " \"optimizer\": \"sgd\", \"tokenizer\": null, \"freeze\": \"x*\"}"),
                                     &o, &texts));
    assert_true(o.steps == 7 && o.rate == 3e-4 && o.dropout == 0 && o.documents);
    assert_string_equal(o.data_files[0], "a");
    assert_string_equal(o.data_files[1], "b\xc3\xa4");
    assert_null(o.data_files[2]);
    assert_string_equal(o.valid, "v");
    assert_string_equal(o.optimizer, "sgd");
    assert_string_equal(o.freeze[0], "x*");
    assert_true(!o.tokenizer && o.batch == 12);
    /* It is chosen: what has no effect is refused, as if the command line had said it. */
    assert_status(ctx, qkv_train_set(ctx, &o, "beta1", "0.5"), QKV_OK);
    assert_status(ctx, qkv_train_check(ctx, &o), QKV_ARGUMENT);
    assert_message(ctx, "beta1 is given, but the optimizer sgd has none");
    qkv_free(texts);
    o = defaults(NULL);
    assert_ok(ctx,
              qkv_train_read_options(ctx, config_file("{\"data\": \"a\", \"mask_probability\": 0.15}"), &o, &texts));
    assert_status(ctx, qkv_train_check(ctx, &o), QKV_ARGUMENT);
    assert_message(ctx, "mask_probability is given, but only the task mlm masks tokens");
    qkv_free(texts);
}

static void what_comes_later_takes_the_place_of_the_file(void **state) {
    (void)state;
    struct qkv_train_options o = defaults("nano-gpt");
    char *texts;
    assert_ok(ctx, qkv_train_read_options(ctx, config_file("{\"steps\": 7, \"data\": [\"a\", \"b\"]}"), &o, &texts));
    assert_ok(ctx, qkv_train_set(ctx, &o, "steps", "9"));
    qkv_train_unset(&o, "data");
    assert_ok(ctx, qkv_train_set(ctx, &o, "data", "c"));
    assert_true(o.steps == 9 && !o.data_files[1]);
    assert_string_equal(o.data, "c");
    qkv_free(texts);
}

static void wrong_files_are_refused_and_name_the_key(void **state) {
    (void)state;
    static const struct {
        const char *text, *sentence;
        enum qkv_status status;
    } cases[] = {
        {"{\"stepz\": 7}", "there is no training option \"stepz\"; did you mean \"steps\"?", QKV_FORMAT},
        {"{\"eval-every\": 7}", "did you mean \"eval_every\"?", QKV_FORMAT},
        {"{\"zebra\": 7}", "there is no training option \"zebra\"; remove it", QKV_FORMAT},
        {"{\"steps\": 7, \"steps\": 8}", "steps", QKV_FORMAT},
        {"{\"steps\": 7.5}", "steps must be a whole number", QKV_FORMAT},
        {"{\"steps\": \"7\"}", "steps must be a whole number", QKV_FORMAT},
        {"{\"steps\": null}", "steps must be a value, not null", QKV_FORMAT},
        {"{\"steps\": 0}", "steps is 0; it must be from 1", QKV_ARGUMENT},
        {"{\"rate\": true}", "rate must be a number", QKV_FORMAT},
        {"{\"rate\": -1}", "rate is -1; it must be greater than 0", QKV_ARGUMENT},
        {"{\"documents\": 1}", "documents must be true or false", QKV_FORMAT},
        {"{\"tokenizer\": [\"bytes\"]}", "tokenizer must be a text or null", QKV_FORMAT},
        {"{\"data\": [\"a\", 3]}", "data must be a text, a list of texts or null", QKV_FORMAT},
        {"{\"data\": {}}", "data must be a text, a list of texts or null", QKV_FORMAT},
        {"{\"data\": \"a\\u0000b\"}", "U+0000", QKV_FORMAT},
        {"[]", "an object of options", QKV_FORMAT},
        {"{\"steps\": 7", "not valid JSON", QKV_FORMAT},
        {"", "", QKV_FORMAT},
        {"{\"format\": \"qkv\"}", "format must be \"qkv-train\"", QKV_FORMAT},
        {"{\"format\": \"qkv-train\", \"version\": 2}", "version must be 1", QKV_FORMAT},
        {"{\"format\": \"qkv-train\", \"version\": 1}", "options must be an object", QKV_FORMAT},
        {"{\"format\": \"qkv-train\", \"version\": 1, \"options\": {\"stepz\": 7}}", "no training option \"stepz\"",
         QKV_FORMAT},
        {"{\"format\": \"qkv-train\", \"version\": 1, \"options\": {}, \"zebra\": 7}", "has no key \"zebra\"",
         QKV_FORMAT},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) refuse(cases[i].text, cases[i].status, cases[i].sentence);
    char many[1200] = "{\"data\": [\"0\"", *end = many + strlen(many);
    for (int i = 0; i < QKV_FILES_MAX; i++) end += sprintf(end, ",\"%d\"", i);
    strcpy(end, "]}");
    refuse(many, QKV_ARGUMENT, "data names more than 64 files");
    struct qkv_train_options o = defaults(NULL);
    char *texts;
    assert_status(ctx, qkv_train_read_options(ctx, test_path("missing.json"), &o, &texts), QKV_FILE);
    assert_status(ctx, qkv_train_read_options(ctx, test_path(""), &o, &texts), QKV_FILE);
}

/* The record of a run makes the same run again, bit for bit. */
static void a_record_makes_the_same_run_again(void **state) {
    (void)state;
    const char *first = fixture_run("first"), *second = fixture_run("second");
    struct qkv_train_options o = fixture_options(ctx);
    char path[2048], *texts;
    o.optimizer = "adam";
    o.tokenizer = "bpe:270";
    o.weight_decay = 0.01;
    struct qkv_trainer *trainer = fixture_begin(ctx, first, &o);
    const double loss = fixture_steps(ctx, trainer, 6).loss;
    qkv_trainer_free(trainer);
    snprintf(path, sizeof path, "%s/train.json", first);
    struct qkv_train_options again = defaults("nano-gpt"); /* whose recipe the record takes the place of */
    assert_ok(ctx, qkv_train_read_options(ctx, path, &again, &texts));
    trainer = fixture_begin(ctx, second, &again);
    qkv_free(texts);
    assert_true(fixture_steps(ctx, trainer, 6).loss == loss);
    qkv_trainer_free(trainer);
    size_t size, second_size;
    char *a = fixture_read(first, "model.safetensors", &size);
    char *b = fixture_read(second, "model.safetensors", &second_size);
    assert_int_equal(size, second_size);
    assert_memory_equal(a, b, size);
    free(a);
    free(b);
    a = fixture_read(first, "train.json", NULL);
    b = fixture_read(second, "train.json", NULL);
    assert_string_equal(a, b);
    free(a);
    free(b);
}

static void what_a_record_says_gives_way_as_a_default_does(void **state) {
    (void)state;
    const char *folder = fixture_run("way");
    struct qkv_train_options o = fixture_options(ctx);
    char path[2048], *texts;
    o.warmup = 5;
    struct qkv_trainer *trainer = fixture_begin(ctx, folder, &o);
    qkv_trainer_free(trainer);
    snprintf(path, sizeof path, "%s/train.json", folder);
    struct qkv_train_options again = defaults(NULL);
    assert_ok(ctx, qkv_train_read_options(ctx, path, &again, &texts));
    assert_ok(ctx, qkv_train_set(ctx, &again, "steps", "4")); /* the record's warmup has 5 */
    assert_ok(ctx, qkv_train_set(ctx, &again, "optimizer", "sgd"));
    assert_ok(ctx, qkv_train_set(ctx, &again, "batch", "2"));
    assert_ok(ctx, qkv_train_check(ctx, &again));
    trainer = fixture_begin(ctx, fixture_run("way2"), &again);
    assert_true(qkv_trainer_options(trainer)->warmup == 0 && qkv_trainer_options(trainer)->steps == 4);
    qkv_trainer_free(trainer);
    qkv_free(texts);
}

static void changed_bytes_of_a_config_break_nothing(void **state) {
    (void)state;
    struct qkv_random random = test_random(31);
    static const char text[] = "{\"steps\": 7, \"rate\": 3e-4, \"documents\": true, \"data\": [\"a\", \"b\"], "
                               "\"valid\": \"v\", \"freeze\": \"x*\"}";
    for (int i = 0; i < 400; i++) {
        struct qkv_train_options o = defaults(NULL);
        char copy[sizeof text], *texts;
        memcpy(copy, text, sizeof text);
        for (int k = 0; k <= i % 3; k++)
            copy[test_between(&random, 0, sizeof text - 2)] = (char)test_between(&random, 1, 127);
        const enum qkv_status status = qkv_train_read_options(ctx, config_file(copy), &o, &texts);
        assert_true(status == QKV_OK || status == QKV_FORMAT || status == QKV_ARGUMENT);
        assert_true((status == QKV_OK) == !*qkv_message(ctx));
        if (status == QKV_OK && o.data) assert_true(strlen(o.data) < sizeof text);
        qkv_free(texts);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_object_sets_what_it_names),
        cmocka_unit_test(what_comes_later_takes_the_place_of_the_file),
        cmocka_unit_test(wrong_files_are_refused_and_name_the_key),
        cmocka_unit_test(a_record_makes_the_same_run_again),
        cmocka_unit_test(what_a_record_says_gives_way_as_a_default_does),
        cmocka_unit_test(changed_bytes_of_a_config_break_nothing),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
