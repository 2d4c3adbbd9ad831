/* Structs of options of other versions: every public call that takes one does the same with a struct of an older
 * program as with the defaults, and with the struct of a newer program if that asks for nothing new.
 * tests/cli/headers.sh compares the rows with the headers. */
/* labels: quick */
#include "train_fixture.h"

static struct qkv_context *ctx;
static struct qkv_model *model, *plan;
static struct qkv_spec spec;
static char text[1024], folder[1024], config[1024], said[512];

static void say(struct qkv_context *in) {
    snprintf(said, sizeof said, "%s", qkv_message(in));
}

/* ---- the calls: each with options alone, the rest is fixed ------------------------------------------------------ */

static bool write_text(void *user, const char *written, size_t size) {
    (void)user, (void)written, (void)size;
    return true;
}

static bool write_one(void *user, size_t index, const char *written, size_t size) {
    (void)index;
    return write_text(user, written, size);
}

static bool take_hypotheses(void *user, size_t source, const struct qkv_hypothesis *hypotheses, size_t count) {
    (void)user, (void)source, (void)hypotheses, (void)count;
    return true;
}

static bool take_translation(void *user, size_t line, size_t rank, const char *written, size_t size, double score) {
    (void)line, (void)rank, (void)score;
    return write_text(user, written, size);
}

static enum qkv_status call_qkv_context_create(void *options) {
    struct qkv_context *own;
    const enum qkv_status status = qkv_context_create(&own, options);
    say(own);
    qkv_context_free(own);
    return status;
}

static enum qkv_status call_qkv_evaluate_text(void *options) {
    struct qkv_evaluation evaluation;
    return qkv_evaluate_text(model, &(const char *){text}, 1, options, NULL, NULL, &evaluation);
}

static enum qkv_status call_qkv_evaluate_run(void *options) {
    struct qkv_evaluation evaluation;
    return qkv_evaluate_run(model, folder, options, NULL, NULL, &evaluation);
}

static enum qkv_status call_qkv_evaluate_against(void *options) {
    struct qkv_divergence divergence;
    return qkv_evaluate_against(model, model, &(const char *){text}, 1, options, NULL, NULL, &divergence);
}

static enum qkv_status call_qkv_use_check_memory(void *options) {
    return qkv_use_check_memory(ctx, folder, options);
}

static enum qkv_status call_qkv_opening_check_use(void *options) {
    struct qkv_opening *opening;
    assert_ok(ctx, qkv_model_open(ctx, folder, NULL, &opening));
    const enum qkv_status status = qkv_opening_check_use(opening, options);
    say(ctx);
    qkv_opening_free(opening);
    return status;
}

static enum qkv_status call_qkv_opening_needs(void *options) {
    struct qkv_opening *opening;
    struct qkv_needs needs;
    assert_ok(ctx, qkv_model_open(ctx, folder, NULL, &opening));
    const enum qkv_status status = qkv_opening_needs(opening, options, &needs);
    say(ctx);
    qkv_opening_free(opening);
    return status;
}

static enum qkv_status call_qkv_model_open(void *options) {
    struct qkv_opening *opening;
    const enum qkv_status status = qkv_model_open(ctx, folder, options, &opening);
    qkv_opening_free(opening);
    return status;
}

static enum qkv_status call_qkv_session_create(void *options) {
    struct qkv_session *session;
    const enum qkv_status status = qkv_session_create(model, options, &session);
    qkv_session_free(session);
    return status;
}

static enum qkv_status call_qkv_generate(void *options) {
    return qkv_generate(model, "a", 1, options, write_text, NULL, NULL);
}

static enum qkv_status call_qkv_generate_several(void *options) {
    return qkv_generate_several(model, "a", 1, options, 2, write_one, NULL, NULL);
}

static enum qkv_status call_qkv_constraint_create(void *options) {
    struct qkv_constraint *constraint;
    const enum qkv_status status = qkv_constraint_create(ctx, options, &constraint);
    qkv_constraint_free(constraint);
    return status;
}

static enum qkv_status call_qkv_engine_create(void *options) {
    struct qkv_engine *engine;
    const enum qkv_status status = qkv_engine_create(model, options, &engine);
    qkv_engine_free(engine);
    return status;
}

static enum qkv_status call_qkv_engine_submit(void *options) {
    struct qkv_engine *engine;
    uint64_t id;
    enum qkv_status status = qkv_engine_create(model, NULL, &engine);
    if (!status) status = qkv_engine_submit(engine, options, &id);
    qkv_engine_free(engine);
    return status;
}

/* Without ids, which is refused after the options are taken. */
static enum qkv_status call_qkv_session_generate(void *options) {
    struct qkv_session *session;
    enum qkv_status status = qkv_session_create(model, NULL, &session);
    if (!status) status = qkv_session_generate(session, 0, options, NULL, NULL, NULL);
    say(ctx);
    qkv_session_free(session);
    return status;
}

static enum qkv_status call_qkv_module_create(void *options) {
    struct qkv_module *module;
    const enum qkv_status status = qkv_module_create(ctx, &spec, options, &module);
    qkv_module_free(module);
    return status;
}

static enum qkv_status call_qkv_model_export_gguf(void *options) {
    return qkv_model_export_gguf(model, options, test_path("model.gguf"), NULL);
}

static enum qkv_status call_qkv_gguf_options_check(void *options) {
    return qkv_gguf_options_check(ctx, options);
}

static enum qkv_status call_qkv_output_check(void *options) {
    return qkv_output_check(ctx, test_path("new"), options);
}

static enum qkv_status call_qkv_output_begin(void *options) {
    struct qkv_output *output;
    const enum qkv_status status = qkv_output_begin(ctx, test_path("new"), options, &output);
    qkv_output_cancel(output);
    return status;
}

static enum qkv_status call_qkv_pass_create(void *options) {
    struct qkv_pass *pass;
    const enum qkv_status status = qkv_pass_create(model, options, &pass);
    qkv_pass_free(pass);
    return status;
}

static enum qkv_status call_qkv_decoder_create(void *options) {
    struct qkv_decoder *decoder;
    const enum qkv_status status = qkv_decoder_create(model, options, &decoder);
    if (!status) assert_int_equal(qkv_decoder_rows(decoder), 1);
    qkv_decoder_free(decoder);
    return status;
}

static enum qkv_status call_qkv_search(void *options) {
    return qkv_search(model, NULL, NULL, 0, options, take_hypotheses, NULL);
}

static enum qkv_status call_qkv_translate(void *options) {
    return qkv_translate(model, NULL, 0, options, take_translation, NULL);
}

static enum qkv_status call_qkv_evaluate_pairs(void *options) {
    struct qkv_pairs_evaluation evaluation;
    return qkv_evaluate_pairs(model, text, options, NULL, NULL, &evaluation);
}

static enum qkv_status call_qkv_classify(void *options) {
    return qkv_classify(model, NULL, 0, options, NULL);
}

static enum qkv_status call_qkv_classify_pairs(void *options) {
    return qkv_classify_pairs(model, NULL, NULL, 0, options, NULL);
}

static enum qkv_status call_qkv_classify_words(void *options) {
    return qkv_classify_words(model, NULL, NULL, 0, options, NULL);
}

static enum qkv_status call_qkv_answer(void *options) {
    return qkv_answer(model, NULL, NULL, 0, options, NULL);
}

static enum qkv_status call_qkv_fill(void *options) {
    struct qkv_filling *fillings;
    size_t masks;
    const enum qkv_status status = qkv_fill(model, "a", 1, options, &fillings, &masks);
    qkv_free(fillings);
    return status;
}

static enum qkv_status call_qkv_embed(void *options) {
    float vector[32];
    return qkv_embed(model, &(const char *){"a b"}, 1, options, vector);
}

static enum qkv_status call_qkv_tokenizer_train(void *options) {
    struct qkv_tokenizer *tokenizer;
    const enum qkv_status status = qkv_tokenizer_train(ctx, options, "a rose is a rose", 16, &tokenizer);
    qkv_tokenizer_free(tokenizer);
    return status;
}

static enum qkv_status call_qkv_chat_template_render(void *options) {
    static const char source[] = "{{ messages }}", talk[] = "[]";
    struct qkv_chat_template *t;
    struct qkv_rendered rendered = {0};
    enum qkv_status status = qkv_chat_template_parse(ctx, "template", source, strlen(source), &t);
    if (!status) status = qkv_chat_template_render(ctx, t, options, talk, strlen(talk), &rendered);
    qkv_rendered_free(&rendered);
    qkv_chat_template_free(t);
    return status;
}

static enum qkv_status call_qkv_optimizer_create(void *options) {
    struct qkv_optimizer *optimizer;
    const enum qkv_status status = qkv_optimizer_create(model, options, &optimizer);
    qkv_optimizer_free(optimizer);
    return status;
}

static enum qkv_status call_qkv_train_set(void *options) {
    return qkv_train_set(ctx, options, "data", text);
}

static enum qkv_status call_qkv_train_read_options(void *options) {
    char *texts;
    const enum qkv_status status = qkv_train_read_options(ctx, config, options, &texts);
    qkv_free(texts);
    return status;
}

static enum qkv_status call_qkv_train_check(void *options) {
    return qkv_train_check(ctx, options);
}

static enum qkv_status call_qkv_train_check_spec(void *options) {
    return qkv_train_check_spec(ctx, options, &spec);
}

static enum qkv_status call_qkv_train_files(void *options) {
    bool mixture;
    return qkv_train_files(ctx, options, &mixture, NULL);
}

static enum qkv_status call_qkv_run_match(void *options) {
    return qkv_run_match(ctx, folder, &spec, options);
}

static enum qkv_status call_qkv_trainer_create(void *options) {
    struct qkv_trainer *trainer;
    const enum qkv_status status = qkv_trainer_create(ctx, &spec, options, fixture_run("run"), NULL, NULL, &trainer);
    qkv_trainer_free(trainer);
    return status;
}

static enum qkv_status call_qkv_trainer_resume(void *options) {
    struct qkv_trainer *trainer;
    const enum qkv_status status = qkv_trainer_resume(ctx, folder, options, NULL, NULL, &trainer);
    qkv_trainer_free(trainer);
    return status;
}

static enum qkv_status call_qkv_rank_plan(void *options) {
    struct qkv_rank_plan ranks;
    return qkv_rank_plan(plan, options, 4, 8, 1, 0, &ranks);
}

/* ---- the rows ---------------------------------------------------------------------------------------------------- */

/* X(call, tag of its struct of options) */
#define CALL_LIST(X)                                                                                                   \
    X(qkv_context_create, qkv_context_options)                                                                         \
    X(qkv_evaluate_text, qkv_evaluate_options)                                                                         \
    X(qkv_evaluate_run, qkv_evaluate_options)                                                                          \
    X(qkv_evaluate_against, qkv_evaluate_options)                                                                      \
    X(qkv_use_check_memory, qkv_use_options)                                                                           \
    X(qkv_opening_check_use, qkv_use_options)                                                                          \
    X(qkv_opening_needs, qkv_needs_options)                                                                            \
    X(qkv_model_open, qkv_model_open_options)                                                                          \
    X(qkv_session_create, qkv_session_options)                                                                         \
    X(qkv_generate, qkv_generate_options)                                                                              \
    X(qkv_generate_several, qkv_generate_options)                                                                      \
    X(qkv_session_generate, qkv_generate_options)                                                                      \
    X(qkv_constraint_create, qkv_constraint_options)                                                                   \
    X(qkv_engine_create, qkv_engine_options)                                                                           \
    X(qkv_engine_submit, qkv_engine_request)                                                                           \
    X(qkv_module_create, qkv_module_options)                                                                           \
    X(qkv_output_check, qkv_output_options)                                                                            \
    X(qkv_output_begin, qkv_output_options)                                                                            \
    X(qkv_model_export_gguf, qkv_gguf_options)                                                                         \
    X(qkv_gguf_options_check, qkv_gguf_options)                                                                        \
    X(qkv_pass_create, qkv_pass_options)                                                                               \
    X(qkv_decoder_create, qkv_decoder_options)                                                                         \
    X(qkv_search, qkv_search_options)                                                                                  \
    X(qkv_translate, qkv_search_options)                                                                               \
    X(qkv_evaluate_pairs, qkv_search_options)                                                                          \
    X(qkv_classify, qkv_line_options)                                                                                  \
    X(qkv_classify_pairs, qkv_line_options)                                                                            \
    X(qkv_classify_words, qkv_line_options)                                                                            \
    X(qkv_answer, qkv_line_options)                                                                                    \
    X(qkv_fill, qkv_line_options)                                                                                      \
    X(qkv_embed, qkv_embed_options)                                                                                    \
    X(qkv_tokenizer_train, qkv_tokenizer_options)                                                                      \
    X(qkv_chat_template_render, qkv_chat_template_options)                                                             \
    X(qkv_optimizer_create, qkv_optimizer_options)                                                                     \
    X(qkv_train_set, qkv_train_options)                                                                                \
    X(qkv_train_read_options, qkv_train_options)                                                                       \
    X(qkv_train_check, qkv_train_options)                                                                              \
    X(qkv_train_check_spec, qkv_train_options)                                                                         \
    X(qkv_train_files, qkv_train_options)                                                                              \
    X(qkv_run_match, qkv_train_options)                                                                                \
    X(qkv_trainer_create, qkv_train_options)                                                                           \
    X(qkv_trainer_resume, qkv_resume_options)                                                                          \
    X(qkv_rank_plan, qkv_train_options)

#define INIT(tag, fill)                                                                                                \
    static void init_##tag(void *options, size_t size) {                                                               \
        fill(options, size);                                                                                           \
    }
INIT(qkv_context_options, qkv_context_options_init)
INIT(qkv_evaluate_options, qkv_evaluate_options_init)
INIT(qkv_use_options, qkv_use_options_init)
INIT(qkv_needs_options, qkv_needs_options_init)
INIT(qkv_model_open_options, qkv_model_open_options_init)
INIT(qkv_session_options, qkv_session_options_init)
INIT(qkv_generate_options, qkv_generate_options_init)
INIT(qkv_constraint_options, qkv_constraint_options_init)
INIT(qkv_engine_options, qkv_engine_options_init)
INIT(qkv_engine_request, qkv_engine_request_init)
INIT(qkv_module_options, qkv_module_options_init)
INIT(qkv_output_options, qkv_output_options_init)
INIT(qkv_gguf_options, qkv_gguf_options_init)
INIT(qkv_pass_options, qkv_pass_options_init)
INIT(qkv_decoder_options, qkv_decoder_options_init)
INIT(qkv_search_options, qkv_search_options_init)
INIT(qkv_line_options, qkv_line_options_init)
INIT(qkv_tokenizer_options, qkv_tokenizer_options_init)
INIT(qkv_chat_template_options, qkv_chat_template_options_init)
INIT(qkv_optimizer_options, qkv_optimizer_options_init)
INIT(qkv_resume_options, qkv_resume_options_init)

static void init_qkv_embed_options(void *options, size_t size) {
    qkv_embed_options_init(model, options, size);
}

static void init_qkv_train_options(void *options, size_t size) {
    assert_ok(ctx, qkv_train_options_init(ctx, NULL, options, size));
}

static const struct row {
    const char *call, *tag;
    size_t size;
    void (*init)(void *options, size_t size);
    enum qkv_status (*run)(void *options);
} rows[] = {
#define ROW(call, tag) {#call, #tag, sizeof(struct tag), init_##tag, call_##call},
    CALL_LIST(ROW)
#undef ROW
};

/* A struct of its own, so that the address sanitizer sees every byte behind it. */
static char *make_options(const struct row *row, size_t size) {
    char *options = malloc(size);
    assert_non_null(options);
    memset(options, 0xa5, size);
    row->init(options, size);
    size_t written;
    memcpy(&written, options, sizeof written);
    assert_int_equal(written, size);
    return options;
}

/* Runs the call; the sentence is in `said`. The struct is freed. */
static enum qkv_status run(const struct row *row, char *options) {
    said[0] = 0;
    const enum qkv_status status = row->run(options);
    if (!said[0]) say(ctx);
    free(options);
    return status;
}

static void expect(const struct row *row, enum qkv_status status, enum qkv_status wanted, const char *sentence) {
    if (status == wanted && strstr(said, sentence)) return;
    print_error("%s: status %d, not %d; \"%s\", not \"%s\"\n", row->call, (int)status, (int)wanted, said, sentence);
    fail();
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static int begin(void **state) {
    (void)state;
    struct qkv_tokenizer *tokenizer;
    const struct qkv_tokenizer_options bytes = {.size = sizeof bytes, .kind = QKV_TOKENIZER_BYTES};
    ctx = fixture_context(1);
    spec = fixture_spec(ctx, NULL);
    assert_ok(ctx, qkv_tokenizer_train(ctx, &bytes, "", 0, &tokenizer));
    spec.vocab = qkv_tokenizer_vocab(tokenizer);
    assert_ok(ctx, qkv_model_create(ctx, &spec, 1, &model));
    assert_ok(ctx, qkv_model_plan(ctx, &spec, &plan));
    assert_ok(ctx, qkv_model_set_tokenizer(model, tokenizer));
    snprintf(text, sizeof text, "%s", test_path("text.txt"));
    fixture_text(text, 500, 1);
    snprintf(folder, sizeof folder, "%s", test_path("model"));
    assert_ok(ctx, qkv_model_save(model, folder));
    snprintf(config, sizeof config, "%s", test_path("options.json"));
    test_write_file(config, "{\"data\": \"x.txt\"}", 17);
    return 0;
}

static int end(void **state) {
    (void)state;
    qkv_model_free(plan);
    qkv_model_free(model);
    qkv_spec_free(&spec);
    qkv_context_free(ctx);
    return 0;
}

static void a_struct_without_a_size_is_refused(void **state) {
    (void)state;
    char sentence[128];
    const size_t wrong[] = {0, 1, sizeof(size_t)};
    for (size_t i = 0; i < TEST_COUNT(rows); i++)
        for (size_t k = 0; k < TEST_COUNT(wrong); k++) {
            char *options = make_options(&rows[i], rows[i].size);
            memcpy(options, &wrong[k], sizeof wrong[k]);
            snprintf(sentence, sizeof sentence, "set size to sizeof(struct %s)", rows[i].tag);
            expect(&rows[i], run(&rows[i], options), QKV_ARGUMENT, sentence);
        }
}

/* As short as can be: the size, and what is in the 8 bytes after it. */
static void a_shorter_struct_keeps_the_defaults_of_the_options_that_it_lacks(void **state) {
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        char usual[sizeof said];
        const enum qkv_status status = run(&rows[i], make_options(&rows[i], rows[i].size));
        snprintf(usual, sizeof usual, "%s", said);
        if (strstr(rows[i].call, "qkv_train_set") || strstr(rows[i].call, "qkv_train_read_options")) {
            expect(&rows[i], run(&rows[i], make_options(&rows[i], 2 * sizeof(size_t))), QKV_ARGUMENT,
                   "has no option \"data\"; build the program again");
            continue;
        }
        expect(&rows[i], run(&rows[i], make_options(&rows[i], 2 * sizeof(size_t))), status, usual);
    }
}

static void a_longer_struct_is_taken_if_it_asks_for_nothing_new(void **state) {
    (void)state;
    enum { MORE = 24 };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        char usual[sizeof said];
        const enum qkv_status status = run(&rows[i], make_options(&rows[i], rows[i].size));
        snprintf(usual, sizeof usual, "%s", said);
        expect(&rows[i], run(&rows[i], make_options(&rows[i], rows[i].size + MORE)), status, usual);
        for (size_t at = 0; at < MORE; at += MORE - 1) {
            char *options = make_options(&rows[i], rows[i].size + MORE);
            options[rows[i].size + at] = 1;
            expect(&rows[i], run(&rows[i], options), QKV_ARGUMENT, "use a newer library");
        }
    }
}

/* Options of an older program: those up to data_files, and bytes behind them that are not the library's. */
enum { OLDER = offsetof(struct qkv_train_options, data_files) + sizeof(const char *[QKV_FILES_MAX]) };

static void make_older(struct qkv_train_options *older, const char *preset) {
    memset(older, 0x5a, sizeof *older);
    assert_ok(ctx, qkv_train_options_init(ctx, preset, older, OLDER));
}

static void expect_older(const struct qkv_train_options *older) {
    assert_int_equal(older->size, OLDER);
    for (size_t i = OLDER; i < sizeof *older; i++) assert_int_equal(((const char *)older)[i], 0x5a);
}

static void changed_options_go_back_into_the_program_s_struct(void **state) {
    (void)state;
    struct qkv_train_options older;
    make_older(&older, NULL);
    assert_ok(ctx, qkv_train_set(ctx, &older, "data", text));
    assert_ptr_equal(older.data, text);
    assert_string_equal(qkv_train_data(&older), "data");
    assert_int_equal(qkv_train_set(ctx, &older, "steps", "5"), QKV_ARGUMENT);
    assert_ok(ctx, qkv_train_check(ctx, &older));
    expect_older(&older);
    qkv_train_unset(&older, "data");
    assert_null(older.data);
    qkv_train_unset(&older, "steps");
    expect_older(&older);
    older.size = 0; /* nothing can be said of such a struct */
    assert_null(qkv_train_data(&older));
    assert_false(qkv_train_idle(&older, 0, NULL));

    struct {
        struct qkv_generate_options known;
        size_t newer;
    } longer;
    qkv_generate_options_init(&longer.known, sizeof longer);
    assert_int_equal(longer.newer, 0);
    longer.known.end_id = 5;
    assert_false(qkv_generate_settings(model, &longer.known));
    assert_int_equal(longer.known.end_id, -1);
    assert_int_equal(longer.known.size, sizeof longer);
    longer.newer = 1, longer.known.end_id = 5;
    assert_false(qkv_generate_settings(model, &longer.known));
    assert_int_equal(longer.known.end_id, 5);

    struct {
        struct qkv_token_rules known;
        size_t newer;
    } rules;
    qkv_token_rules_init(&rules.known, sizeof rules);
    assert_int_equal(rules.newer, 0);
    rules.known.min_tokens = 5;
    qkv_model_token_rules(model, &rules.known);
    assert_int_equal(rules.known.min_tokens, 0);
    assert_int_equal(rules.known.first, -1);
    assert_int_equal(rules.known.size, sizeof rules);
    rules.newer = 1, rules.known.min_tokens = 5;
    qkv_model_token_rules(model, &rules.known);
    assert_int_equal(rules.known.min_tokens, 5);
}

/* The options that the program's struct lacks are as in the recipe with which its others began. */
static void an_older_struct_begins_with_its_recipe(void **state) {
    (void)state;
    struct qkv_train_options whole, taken, older;
    const char *preset;
    bool differ = false;
    for (size_t i = 0; qkv_preset_at(i, &preset, NULL); i++) {
        assert_ok(ctx, qkv_train_defaults(ctx, preset, &whole));
        make_older(&older, preset);
        assert_ok(ctx, qkv_train_take(ctx, &taken, &older));
        assert_true(taken.rate == whole.rate && taken.batch == whole.batch && taken.steps == whole.steps);
        expect_older(&older);
        differ |= whole.rate != 1e-3;
    }
    assert_true(differ);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_struct_without_a_size_is_refused),
        cmocka_unit_test(a_shorter_struct_keeps_the_defaults_of_the_options_that_it_lacks),
        cmocka_unit_test(a_longer_struct_is_taken_if_it_asks_for_nothing_new),
        cmocka_unit_test(changed_options_go_back_into_the_program_s_struct),
        cmocka_unit_test(an_older_struct_begins_with_its_recipe),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
