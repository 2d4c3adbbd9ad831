/* Every public function is called with NULL for each of its pointers in turn, and for all of them, in a process of
 * its own: no crash, a status, and a message. null_calls.awk generates the calls from the public headers; this file
 * has the other arguments. */
/* labels: quick */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "train_fixture.h"

#include "qkv.h"

enum { ALL = 1000, ROOMS = 16 };
#define GIVEN(i) (null != (i) && null != ALL)

struct call {
    const char *name, *pointers; /* names, with commas between them */
    size_t count;
    bool status; /* whether it returns one, in given_status */
    void (*run)(size_t null);
};

/* An object of each opaque type. */
static struct {
    struct qkv_context *context;
    struct qkv_model *model;
    struct qkv_tokenizer *tokenizer;
    struct qkv_session *session;
    struct qkv_pass *pass;
    struct qkv_module *module;
    struct qkv_encoded *encoded;
    struct qkv_decoder *decoder;
    struct qkv_optimizer *optimizer;
    struct qkv_trainer *trainer;
    struct qkv_tensors *tensors;
    struct qkv_output *output;
    struct qkv_family_tensors *family_tensors;
    struct qkv_module_cache *module_cache;
    struct qkv_example *example;
    struct qkv_opening *opening;
    struct qkv_gguf_notes *gguf_notes;
    struct qkv_chat_template *chat_template;
    struct qkv_importance *importance;
    struct qkv_engine *engine;
    struct qkv_constraint *constraint;
} given;
static enum qkv_status given_status;
static _Alignas(64) char given_room[ROOMS][1 << 16]; /* zeros; one for each parameter */
static const char *const given_texts[] = {"the cat", "a dog", NULL};
static const char *const *const given_text_lists[] = {given_texts, given_texts};
static const int32_t *const given_id_lists[] = {(const int32_t *)(void *)given_room[0], (void *)given_room[0]};

static const char *given_folder(const char *name) {
    static char paths[4][1024];
    static size_t next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof *paths, "%s/null_%s", test_path(""), name);
    return path;
}

/* A text that a parameter of that name takes. */
static const char *given_text(const char *name) {
    if (!strcmp(name, "folder")) return given_folder("model");
    if (!strcmp(name, "path")) return given_folder("file");
    if (!strcmp(name, "json")) return "{}";
    if (!strcmp(name, "preset")) return "nano-gpt";
    if (!strcmp(name, "format") || !strcmp(name, "dtype")) return "f32";
    return "x";
}

static const char *given_name_at(const void *list, size_t i) {
    (void)list;
    return i ? NULL : "x";
}

#include "null_calls.h"

static void make_objects(void) {
    static const char *const both[] = {"encoder.layers=1", "encoder.attention.heads=2", "encoder.ffn.d_ff=8", NULL};
    struct qkv_tokenizer_options options = qkv_tokenizer_defaults();
    struct qkv_tokenizer *tokenizer;
    struct qkv_model *translator;
    const char *text = test_path("null.txt");
    given.context = fixture_context(1);
    make_structs();
    fixture_text(text, 3000, 1);
    options.kind = QKV_TOKENIZER_BYTES;
    assert_ok(given.context, qkv_tokenizer_train(given.context, &options, NULL, 0, &given.tokenizer));
    assert_ok(given.context, qkv_chat_template_parse(given.context, "template", "x", 1, &given.chat_template));
    assert_ok(given.context, qkv_tokenizer_train(given.context, &options, NULL, 0, &tokenizer));
    made_spec = fixture_spec(given.context, both);
    made_spec.vocab = made_spec.source_vocab = 256;
    assert_ok(given.context, qkv_model_create(given.context, &made_spec, 1, &translator));
    assert_ok(given.context,
              qkv_encode(translator, (const int32_t *)(void *)given_room[0], NULL, 1, 1, &given.encoded));
    made_decoder_options.encoded = given.encoded;
    made_decoder_options.rows = 1;
    assert_ok(given.context, qkv_decoder_create(translator,
                                                &QKV_OPTIONS(qkv_decoder_options, .encoded = given.encoded, .rows = 1,
                                                             .capacity = 4, .chunk = 1),
                                                &given.decoder));
    qkv_spec_free(&made_spec);
    made_spec = fixture_spec(given.context, NULL);
    made_spec.vocab = made_spec.source_vocab = 256;
    made_stack_spec = made_spec.decoder;
    assert_ok(given.context, qkv_model_create(given.context, &made_spec, 1, &given.model));
    assert_ok(given.context, qkv_model_set_tokenizer(given.model, tokenizer));
    assert_ok(given.context,
              qkv_session_create(given.model, &QKV_OPTIONS(qkv_session_options, .capacity = 8), &given.session));
    made_pass_options.B = made_pass_options.T = 1;
    made_pass_options.train = made_pass_options.weights = made_pass_options.logits = true;
    made_batch.B = made_batch.T = 1;
    made_batch.ids = made_batch.targets = (const int32_t *)(void *)given_room[0];
    assert_ok(given.context, qkv_pass_create(given.model, &made_pass_options, &given.pass));
    assert_ok(given.context, qkv_pass_forward(given.pass, &made_batch));
    assert_ok(given.context,
              qkv_module_create(given.context, &made_spec,
                                &QKV_OPTIONS(qkv_module_options, .kind = (enum qkv_module_kind)0, .seed = 1),
                                &given.module));
    assert_ok(given.context, qkv_optimizer_create(given.model, &made_optimizer_options, &given.optimizer));
    assert_ok(given.context, qkv_model_save(given.model, given_folder("model")));
    assert_ok(given.context, qkv_model_open(given.context, given_folder("model"), NULL, &given.opening));
    char *tensors = qkv_join_path(given.context, given_folder("model"), QKV_WEIGHTS_FILE);
    assert_ok(given.context, qkv_tensors_open(given.context, tensors, &given.tensors));
    free(tensors);
    const struct qkv_array ids = {.name = "in.ids",
                                  .dtype = QKV_I32,
                                  .rank = 2,
                                  .shape = {1, 1},
                                  .data = given_room[0],
                                  .bytes = sizeof(int32_t)};
    assert_ok(given.context, qkv_tensors_write(given.context, given_folder("examples"), &ids, 1, NULL, 0));
    assert_ok(given.context, qkv_example_read(given.model, given_folder("examples"), 0, &given.example));
    assert_ok(given.context, qkv_output_begin(given.context, given_folder("output"), NULL, &given.output));
    made_attention_module_spec.in = 8;
    made_attention_module_spec.attention.heads = 2;
    assert_ok(given.context, qkv_module_cache_create(given.module, 1, 4, 0, &given.module_cache));
    made_attention_call.q = made_attention_call.k = qkv_view_bhtd(given_room[0], QKV_F32, 1, 1, 1, 4);
    made_attention_call.v = qkv_view_bhtd(given_room[0], QKV_F32, 1, 1, 1, 4);
    made_attention_call.y = qkv_view_bhtd(given_room[1], QKV_F32, 1, 1, 1, 4);
    made_attention_call.lse = (float *)(void *)given_room[2];
    made_attention_gradients.dy = qkv_view_bhtd(given_room[3], QKV_F32, 1, 1, 1, 4);
    made_view = qkv_view_bhtd(given_room[1], QKV_F32, 1, 1, 1, 4);
    made_train_options = fixture_options_on(given.context, text);
    struct qkv_spec spec = made_spec;
    spec.vocab = 0;
    assert_ok(given.context, qkv_trainer_create(given.context, &spec, &made_train_options, fixture_run("null_run"),
                                                NULL, NULL, &given.trainer));
    assert_ok(given.context, qkv_importance_create(given.model, &given.importance));
    assert_ok(given.context, qkv_engine_create(given.model, NULL, &given.engine));
    assert_ok(given.context, qkv_constraint_create(given.context, NULL, &given.constraint));
}

/* In the child: what is wrong with the call, in its exit code. */
enum { FINE, NOT_REFUSED, NO_SENTENCE, NOT_NAMED, SENTENCE_LEFT };

static int call_judge(const struct call *call, size_t null, const char *pointer) {
    const bool names = qkv_message(given.context)[0] != 0;
    if (!call->status) return FINE;
    if (!given_status && names) return SENTENCE_LEFT;
    if (!given_status) return null == ALL || !strcmp(pointer, "out") ? NOT_REFUSED : FINE;
    if (null == 0 || null == ALL)
        return given_status == QKV_ARGUMENT ? FINE : NOT_REFUSED;      /* whose context may be NULL */
    if (!names && !strcmp(call->pointers, "out,options")) return FINE; /* a context itself */
    if (!names) return NO_SENTENCE;
    return strcmp(pointer, "out") || strstr(qkv_message(given.context), "out is NULL") ? FINE : NOT_NAMED;
}

static void call_name(const struct call *call, size_t null, char *name, size_t size) {
    const char *at = call->pointers;
    for (size_t i = 0; i < null && null != ALL; i++) at = strchr(at, ',') + 1;
    snprintf(name, size, "%.*s", null == ALL ? 3 : (int)strcspn(at, ","), null == ALL ? "all" : at);
}

static bool call_holds(const struct call *call, size_t null) {
    static const char *const wrong[] = {"", "was not refused", "failed without a sentence", "names another parameter",
                                        "succeeded and left a sentence"};
    char pointer[64];
    call_name(call, null, pointer, sizeof pointer);
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL), signal(SIGBUS, SIG_DFL), signal(SIGABRT, SIG_DFL);
        alarm(60);
        if (getenv("QKV_NULL_QUIET") && !freopen("/dev/null", "w", stderr)) _exit(99);
        call->run(null);
        _exit(call_judge(call, null, pointer));
    }
    int status;
    while (waitpid(child, &status, 0) != child) continue;
    if (WIFEXITED(status) && WEXITSTATUS(status) == FINE) return true;
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (WIFSIGNALED(status))
        print_error("%s with NULL for %s: signal %d\n", call->name, pointer, WTERMSIG(status));
    else
        print_error("%s with NULL for %s: %s (%d)\n", call->name, pointer,
                    code >= 0 && (size_t)code < TEST_COUNT(wrong) ? wrong[code] : "exited", code);
    return false;
}

static void every_public_function_takes_null_for_each_pointer(void **state) {
    (void)state;
    size_t bad = 0, made = 0;
    make_objects();
    for (size_t i = 0; i < CALLS; i++)
        for (size_t null = 0; null <= calls[i].count; null++, made++)
            bad += !call_holds(&calls[i], null < calls[i].count ? null : ALL);
    if (bad) fail_msg("%zu of %zu calls of %d functions", bad, made, (int)CALLS);
    assert_true(FUNCTIONS > 300 && CALLS > 250 && made > 800);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_public_function_takes_null_for_each_pointer)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
