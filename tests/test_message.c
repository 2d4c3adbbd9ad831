/* The message of a context is that of the latest call: empty after a success, whatever has failed before or inside. */
/* labels: quick */
#include "lab/lab.h"
#include "train_fixture.h"

/* Fails on purpose, so that there is a sentence. */
static void provoke(struct qkv_context *ctx) {
    OWNED_SPEC struct qkv_spec spec = {0};
    assert_int_equal(qkv_spec_preset(ctx, &spec, "no-such-preset", NULL, 0), QKV_ARGUMENT);
    assert_string_not_equal(qkv_message(ctx), "");
}

static bool write_nothing(void *user, const char *text, size_t size) {
    (void)user, (void)text, (void)size;
    return true;
}

#define CLEARS(ctx, call)                                                                                              \
    do {                                                                                                               \
        provoke(ctx);                                                                                                  \
        assert_ok(ctx, call);                                                                                          \
        assert_string_equal(qkv_message(ctx), "");                                                                     \
    } while (0)

static void a_success_leaves_no_sentence(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, (const char *const[]){"vocab=300", NULL});
    struct qkv_tokenizer_options options = {.size = sizeof options, .kind = QKV_TOKENIZER_BYTES};
    struct qkv_train_options training;
    struct qkv_tokenizer *tokenizer;
    struct qkv_model *model, *loaded;
    struct qkv_session *session;
    struct qkv_costs costs;
    struct qkv_generate_options generating = {
        .size = sizeof generating, .sampling = qkv_sampling_defaults(), .tokens = 3, .end_id = -1};
    int32_t *ids, id = 3;
    size_t count;
    char *json;
    CLEARS(ctx, qkv_spec_check(ctx, &spec));
    CLEARS(ctx, qkv_spec_print(ctx, &spec, &json));
    qkv_free(json);
    CLEARS(ctx, qkv_tokenizer_train(ctx, &options, "", 0, &tokenizer));
    CLEARS(ctx, qkv_tokenizer_encode(ctx, tokenizer, "abc", 3, false, &ids, &count));
    qkv_free(ids);
    CLEARS(ctx, qkv_model_create(ctx, &spec, 1, &model));
    CLEARS(ctx, qkv_model_set_tokenizer(model, tokenizer));
    CLEARS(ctx, qkv_model_save(model, test_path("model")));
    CLEARS(ctx, qkv_model_load(ctx, test_path("model"), &loaded));
    CLEARS(ctx, qkv_session_create(model, &QKV_OPTIONS(qkv_session_options, .capacity = 4), &session));
    CLEARS(ctx, qkv_session_append(session, &id, 1));
    CLEARS(ctx, qkv_generate(model, "a", 1, &generating, write_nothing, NULL, NULL));
    CLEARS(ctx, qkv_measure_costs(ctx, &spec, 1, 8, &costs));
    CLEARS(ctx, qkv_train_defaults(ctx, NULL, &training));
    qkv_session_free(session);
    qkv_model_free(loaded);
    qkv_model_free(model);
    qkv_context_free(ctx);
}

static void a_run_leaves_no_sentence(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    struct qkv_train_options options = fixture_options(ctx);
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, NULL);
    struct qkv_train_report report;
    struct qkv_trainer *trainer;
    struct qkv_run *run;
    const char *folder = fixture_run("run");
    CLEARS(ctx, qkv_trainer_create(ctx, &spec, &options, folder, NULL, NULL, &trainer));
    CLEARS(ctx, qkv_trainer_step(trainer, &report));
    CLEARS(ctx, qkv_trainer_save(trainer));
    qkv_trainer_free(trainer);
    CLEARS(ctx, qkv_trainer_resume(ctx, folder, NULL, NULL, NULL, &trainer));
    qkv_trainer_free(trainer);
    CLEARS(ctx, qkv_run_read(ctx, folder, &run));
    qkv_run_free(run);
    fixture_write(folder, "config.json", "{}", 2); /* the report does without */
    CLEARS(ctx, qkv_run_read(ctx, folder, &run));
    qkv_run_free(run);
    qkv_context_free(ctx);
}

/* A call may go on with others after what failed, to clean up: the sentence stays the first one's. */
/* A public call that calls others. */
static enum qkv_status call_within(struct qkv_context *ctx, const struct qkv_spec *spec) {
    QKV_CALL(ctx);
    provoke(ctx);
    assert_ok(ctx, qkv_spec_check(ctx, spec));
    assert_message(ctx, "no-such-preset");
    return QKV_OK;
}

static void calls_within_a_call_keep_its_sentence(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, (const char *const[]){"vocab=300", NULL});
    assert_int_equal(call_within(ctx, &spec), QKV_OK);
    assert_message(ctx, "no-such-preset");
    assert_int_equal(ctx->calls, 0);
    assert_ok(ctx, qkv_spec_check(ctx, &spec));
    assert_string_equal(qkv_message(ctx), "");
    assert_ok(NULL, qkv_spec_check(NULL, &spec));
    qkv_context_free(ctx);
}

int main(void) {
    test_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_success_leaves_no_sentence),
        cmocka_unit_test(a_run_leaves_no_sentence),
        cmocka_unit_test(calls_within_a_call_keep_its_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
