/* Models that are opened, measured, checked and filled: every kind of place, what a plan says, and what is refused
 * before anything is taken. That a filled model computes what the files say is tested against golden cases by
 * test_golden.c and test_family.c, which load all folders this way. */
#include "test.h"

#include "model/model.h"
#include "qkv.h"
#include "weights.h"

static const char small[] =
    "{\"format\": \"qkv\", \"version\": 2, \"vocab\": 300, \"d_model\": 64, \"context\": 40, \"tie\": \"none\","
    " \"decoder\": {\"layers\": 2, \"attention\": {\"heads\": 2, \"position\": {\"kind\": \"rope\"}}}}";

static struct qkv_context *begin(void) {
    struct qkv_context *ctx;
    assert_int_equal(qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, .threads = 1)), QKV_OK);
    return ctx;
}

static const char *make_folder(struct qkv_context *ctx, const char *name, const char *format) {
    OWNED_SPEC struct qkv_spec spec = {0};
    struct qkv_model *model;
    const char *folder = test_path(name);
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "small", small, strlen(small), NULL, 0));
    assert_ok(ctx, qkv_model_create(ctx, &spec, 7, &model));
    if (format)
        assert_ok(ctx, qkv_model_export(model, format, folder));
    else
        assert_ok(ctx, qkv_model_save(model, folder));
    qkv_model_free(model);
    return folder;
}

static struct qkv_opening *open_at(struct qkv_context *ctx, const char *path) {
    struct qkv_opening *opening;
    assert_ok(ctx, qkv_model_open(ctx, path, NULL, &opening));
    return opening;
}

/* The arrays of two models are the same. */
static void expect_same(const struct qkv_model *a, const struct qkv_model *b) {
    assert_int_equal(qkv_model_parameters(a), qkv_model_parameters(b));
    for (size_t i = 0; i < qkv_model_parameters(a); i++) {
        const struct qkv_array *x = qkv_model_parameter(a, i), *y = qkv_model_parameter(b, i);
        assert_string_equal(x->name, y->name);
        assert_int_equal(x->dtype, y->dtype);
        assert_int_equal(x->bytes, y->bytes);
        assert_memory_equal(x->data, y->data, x->bytes);
    }
}

static void check_place(struct qkv_context *ctx, const char *path, const char *source) {
    struct qkv_model *filled, *loaded;
    struct qkv_opening *opening = open_at(ctx, path);
    assert_string_equal(qkv_opening_source(opening), source);
    struct qkv_model *plan = qkv_opening_plan(opening);
    const struct qkv_weight *list = plan->weights.list;
    assert_true(plan->planned);
    assert_null(test_weights(plan, 0));
    assert_ok(ctx, qkv_opening_check(opening));
    assert_ok(ctx, qkv_model_fill(opening, &filled));
    assert_null(qkv_opening_plan(opening));
    qkv_opening_free(opening);
    assert_ptr_equal(filled, plan);               /* the plan becomes the model, */
    assert_ptr_equal(filled->weights.list, list); /* and the weights are listed once */
    assert_ok(ctx, qkv_model_load(ctx, path, &loaded));
    expect_same(filled, loaded);
    qkv_model_free(filled);
    qkv_model_free(loaded);
}

/* Writes the model of a folder as a GGUF file of architecture qkv. */
static void write_own(struct qkv_context *ctx, const char *folder, const char *path) {
    struct qkv_model *model;
    struct qkv_gguf_options options = qkv_gguf_defaults();
    options.family = "qkv";
    assert_ok(ctx, qkv_model_load(ctx, folder, &model));
    assert_ok(ctx, qkv_model_export_gguf(model, &options, path, NULL));
    qkv_model_free(model);
}

static void models_are_opened_from_every_kind_of_place(void **state) {
    (void)state;
    struct qkv_context *ctx = begin();
    const char *folder = make_folder(ctx, "small", NULL), *name, *help;
    size_t sources = 0;
    char other[1100];
    check_place(ctx, folder, "folder");
    check_place(ctx, make_folder(ctx, "small16", "f16"), "folder");
    check_place(ctx, TEST_SOURCE_DIR "/tests/golden/hf/gpt2", "published");
    check_place(ctx, TEST_SOURCE_DIR "/tests/golden/hf/llama_sharded", "published");
    check_place(ctx, TEST_SOURCE_DIR "/tests/golden/gguf/llama_11_004.gguf", "gguf");
    snprintf(other, sizeof other, "%s.gguf", folder);
    write_own(ctx, folder, other);
    check_place(ctx, other, "gguf of qkv");
    snprintf(other, sizeof other, "%s/model.safetensors", folder);
    check_place(ctx, other, "file");
    check_place(ctx, TEST_SOURCE_DIR "/tests/runs/labeled/checkpoint.safetensors", "checkpoint");
    while (qkv_source_at(sources, &name, &help)) sources += *name && *help;
    assert_int_equal(sources, 6);
    qkv_context_free(ctx);
}

static size_t file_bytes(const char *folder) {
    char path[1100];
    struct stat info;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    assert_int_equal(stat(path, &info), 0);
    return (size_t)info.st_size;
}

static void a_plan_says_what_the_model_will_take(void **state) {
    (void)state;
    struct qkv_context *ctx = begin();
    const char *folders[] = {make_folder(ctx, "plain", NULL), make_folder(ctx, "half", "bf16"),
                             TEST_SOURCE_DIR "/tests/golden/hf/gpt2"};
    for (size_t i = 0; i < 3; i++) {
        struct qkv_needs needs;
        struct qkv_model *model;
        struct qkv_opening *opening = open_at(ctx, folders[i]);
        assert_ok(ctx, qkv_opening_needs(opening, NULL, &needs));
        const size_t header = file_bytes(folders[i]) - needs.read - needs.mapped;
        assert_true(i == 2 || header < 8192); /* GPT-2's file has tensors that are no weights */
        assert_true((needs.mapped > 0) == (i == 1));
        const size_t before = qkv_arena_total();
        assert_ok(ctx, qkv_model_fill(opening, &model));
        assert_ok(ctx, qkv_model_prepare(model, false));
        assert_int_equal(qkv_model_bytes(model) + model->file.memory, needs.model);
        assert_in_range(qkv_arena_total() - before, needs.model, needs.model + 4096);
        qkv_opening_free(opening);
        qkv_model_free(model);
    }
    qkv_context_free(ctx);
}

static size_t needed(struct qkv_opening *opening, enum qkv_precision precision, const char *cache, size_t context,
                     size_t *model) {
    struct qkv_needs needs;
    struct qkv_needs_options options = qkv_needs_defaults();
    options.precision = &precision;
    options.cache = cache;
    options.context = context;
    assert_int_equal(qkv_opening_needs(opening, &options, &needs), QKV_OK);
    if (model) *model = needs.model;
    return needs.session;
}

static void needs_depend_on_precision_cache_and_length(void **state) {
    (void)state;
    struct qkv_context *ctx = begin();
    struct qkv_opening *opening = open_at(ctx, make_folder(ctx, "needs", NULL));
    size_t fp32, bf16, again;
    const size_t usual = needed(opening, QKV_FP32, NULL, 0, &fp32);
    const size_t rows = needed(opening, QKV_FP32, "bf16", 0, NULL);
    assert_true(needed(opening, QKV_FP32, "f32", 0, NULL) == usual);
    assert_true(rows < usual && rows > 0);
    assert_true(needed(opening, QKV_FP32, NULL, 8, NULL) < usual);
    needed(opening, QKV_MIXED_BF16, NULL, 0, &bf16);
    assert_true(bf16 > fp32); /* packed copies */
    needed(opening, QKV_FP32, NULL, 0, &again);
    assert_int_equal(again, fp32);
    assert_int_equal(qkv_context_precision(ctx), QKV_FP32); /* the context is as before */
    struct qkv_needs needs;
    struct qkv_needs_options options = qkv_needs_defaults();
    options.cache = "q1";
    assert_status(ctx, qkv_opening_needs(opening, &options, &needs), QKV_ARGUMENT);
    assert_message(ctx, "\"q1\"");
    qkv_opening_free(opening);
    qkv_context_free(ctx);
}

/* Writes the folder's tensors again, all but the first, which may get another name. */
static void spoil(struct qkv_context *ctx, const char *folder, const char *name) {
    char path[1100];
    struct qkv_tensors *tensors;
    struct qkv_array arrays[64];
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    assert_ok(ctx, qkv_tensors_open(ctx, path, &tensors));
    const size_t count = qkv_tensors_count(tensors);
    assert_in_range(count, 2, 64);
    for (size_t i = 0; i < count; i++) arrays[i] = *qkv_tensors_at(tensors, i);
    arrays[0].name = name;
    assert_ok(ctx, qkv_tensors_write(ctx, path, name ? arrays : arrays + 1, name ? count : count - 1, NULL, 0));
    qkv_tensors_close(tensors);
}

static void what_is_missing_is_said_before_anything_is_taken(void **state) {
    (void)state;
    struct qkv_context *ctx = begin();
    const char *names[] = {NULL, "stranger"};
    for (size_t i = 0; i < 2; i++) {
        const char *folder = make_folder(ctx, i ? "strange" : "missing", NULL);
        struct qkv_model *model;
        spoil(ctx, folder, names[i]);
        struct qkv_opening *opening = open_at(ctx, folder);
        const size_t before = qkv_arena_total();
        assert_status(ctx, qkv_opening_check(opening), QKV_FORMAT);
        assert_message(ctx, "has no tensor ");
        assert_status(ctx, qkv_model_fill(opening, &model), QKV_FORMAT);
        assert_null(model);
        assert_int_equal(qkv_arena_total(), before);
        assert_non_null(qkv_opening_plan(opening)); /* nothing was begun */
        qkv_opening_free(opening);
    }
    qkv_context_free(ctx);
}

static void an_opening_is_filled_once(void **state) {
    (void)state;
    struct qkv_context *ctx = begin();
    struct qkv_model *model, *again;
    struct qkv_needs needs;
    struct qkv_opening *opening = open_at(ctx, make_folder(ctx, "once", NULL));
    assert_ok(ctx, qkv_model_fill(opening, &model));
    assert_status(ctx, qkv_model_fill(opening, &again), QKV_ARGUMENT);
    assert_message(ctx, "has been filled");
    assert_status(ctx, qkv_opening_check(opening), QKV_ARGUMENT);
    assert_status(ctx, qkv_opening_check_use(opening, NULL), QKV_ARGUMENT);
    assert_status(ctx, qkv_opening_needs(opening, NULL, &needs), QKV_ARGUMENT);
    qkv_opening_free(opening);
    qkv_model_free(model);
    qkv_context_free(ctx);
}

static struct qkv_session *session_of(struct qkv_context *ctx, const char *folder, enum qkv_precision precision,
                                      const char *cache, struct qkv_model **model) {
    struct qkv_model_open_options options = qkv_model_open_defaults();
    const int32_t ids[] = {3, 1, 4, 1, 5};
    struct qkv_opening *opening;
    struct qkv_session *s;
    options.precision = &precision;
    options.cache = cache;
    assert_ok(ctx, qkv_model_open(ctx, folder, &options, &opening));
    assert_ok(ctx, qkv_model_fill(opening, model));
    qkv_opening_free(opening);
    assert_int_equal(qkv_model_own_precision(*model), precision);
    assert_ok(ctx, qkv_session_create(*model, NULL, &s));
    assert_ok(ctx, qkv_session_append(s, ids, 5));
    return s;
}

/* A model has its precision and its type of cache, whatever its context has, and beside models that have others. */
static void precision_and_cache_are_the_models_own(void **state) {
    (void)state;
    struct qkv_context *ctx = begin(), *other = begin();
    const char *folder = make_folder(ctx, "own", NULL);
    struct qkv_model *models[4];
    struct qkv_opening *opening;
    struct qkv_model_open_options options = qkv_model_open_defaults();
    enum qkv_precision wrong = (enum qkv_precision)77;
    qkv_context_set_precision(other, QKV_MIXED_BF16);
    struct qkv_session *sessions[] = {session_of(ctx, folder, QKV_MIXED_BF16, NULL, &models[0]),
                                      session_of(other, folder, QKV_MIXED_BF16, NULL, &models[1]),
                                      session_of(ctx, folder, QKV_FP32, NULL, &models[2]),
                                      session_of(ctx, folder, QKV_FP32, "bf16", &models[3])};
    const size_t bytes = (size_t)qkv_model_spec(models[0])->vocab * sizeof(float);
    assert_memory_equal(qkv_session_logits(sessions[0]), qkv_session_logits(sessions[1]), bytes);
    assert_true(memcmp(qkv_session_logits(sessions[0]), qkv_session_logits(sessions[2]), bytes) != 0);
    assert_true(memcmp(qkv_session_logits(sessions[2]), qkv_session_logits(sessions[3]), bytes) != 0);
    assert_int_equal(qkv_session_pages(sessions[2]).bytes, 2 * qkv_session_pages(sessions[3]).bytes);
    assert_int_equal(qkv_context_precision(ctx), QKV_FP32);
    for (size_t i = 0; i < 4; i++) {
        qkv_session_free(sessions[i]);
        qkv_model_free(models[i]);
    }
    options.cache = "q1";
    assert_status(ctx, qkv_model_open(ctx, folder, &options, &opening), QKV_ARGUMENT);
    assert_message(ctx, "\"q1\"");
    options.cache = NULL;
    options.precision = &wrong;
    assert_status(ctx, qkv_model_open(ctx, folder, &options, &opening), QKV_ARGUMENT);
    assert_message(ctx, "precision is 77");
    qkv_context_free(ctx);
    qkv_context_free(other);
}

/* The plan of an opening has the adapter, and what it needs is what the filled model takes. */
static void plans_of_an_opening_have_its_adapter(void **state) {
    (void)state;
    struct qkv_context *ctx = begin();
    const char *folder = make_folder(ctx, "adapted", NULL);
    struct qkv_model_open_options options = qkv_model_open_defaults();
    struct qkv_needs plain, needs;
    struct qkv_model *model;
    char adapter[1024];
    snprintf(adapter, sizeof adapter, "%s", test_path("adapter"));
    options.adapter = adapter;
    struct qkv_opening *opening = NULL;
    assert_status(ctx, qkv_model_open(ctx, folder, &options, &opening), QKV_FILE);
    assert_message(ctx, "adapter_config.json");
    assert_ok(ctx, qkv_model_load(ctx, folder, &model));
    assert_ok(ctx, qkv_adapter_create(model, "rank=5,targets=q", 3));
    assert_ok(ctx, qkv_adapter_save(model, folder, adapter));
    qkv_model_free(model);
    opening = open_at(ctx, folder);
    assert_ok(ctx, qkv_opening_needs(opening, NULL, &plain));
    qkv_opening_free(opening);
    assert_ok(ctx, qkv_model_open(ctx, folder, &options, &opening));
    memset(adapter, 0, sizeof adapter); /* the opening has a copy */
    assert_ok(ctx, qkv_opening_needs(opening, NULL, &needs));
    assert_true(needs.model >= plain.model + 2 * 2 * 5 * 64 * sizeof(float) && needs.session >= plain.session);
    assert_int_equal(needs.read, plain.read);
    assert_int_equal(qkv_model_parameters(qkv_opening_plan(opening)), 2 * 2);
    assert_ok(ctx, qkv_opening_check(opening));
    assert_int_equal(qkv_model_parameters(qkv_opening_plan(opening)), 2 * 2);
    assert_ok(ctx, qkv_model_fill(opening, &model));
    assert_int_equal(qkv_model_bytes(model), needs.model);
    assert_int_equal(qkv_model_parameters(model), 2 * 2);
    assert_ok(ctx, qkv_adapter_remove(model));
    qkv_opening_free(opening);
    qkv_model_free(model);
    qkv_context_free(ctx);
}

/* A planned adapter is measured, not merged or saved. */
static void planned_adapters_are_measured(void **state) {
    (void)state;
    struct qkv_context *ctx = begin();
    const char *folder = make_folder(ctx, "planned", NULL);
    struct qkv_model *plan;
    struct qkv_costs plain, costs;
    assert_ok(ctx, qkv_model_plan_load(ctx, folder, &plan));
    assert_ok(ctx, qkv_model_costs(plan, 1, 8, &plain));
    qkv_model_free(plan);
    assert_ok(ctx, qkv_model_plan_load(ctx, folder, &plan));
    assert_ok(ctx, qkv_adapter_create(plan, "rank=5,targets=q", 0));
    assert_ok(ctx, qkv_model_costs(plan, 1, 8, &costs));
    assert_int_equal(costs.parameters, plain.parameters + 2 * 2 * 5 * 64);
    assert_true(costs.train_bytes < plain.train_bytes && costs.run_bytes > plain.run_bytes);
    assert_status(ctx, qkv_adapter_merge(plan), QKV_ARGUMENT);
    assert_message(ctx, "a planned model has no weights");
    assert_status(ctx, qkv_adapter_save(plan, NULL, "nowhere"), QKV_ARGUMENT);
    qkv_model_free(plan);
    qkv_context_free(ctx);
}

/* Options of an opening are those of a context, for one model. */
static void digests_are_ignored_where_the_opening_says_so(void **state) {
    (void)state;
    static const char edited[] =
        "{\"format\": \"qkv\", \"version\": 2, \"vocab\": 300, \"d_model\": 64, \"context\": 40, \"tie\": \"none\","
        " \"decoder\": {\"layers\": 2, \"ffn\": {\"kind\": \"relu\"},"
        " \"attention\": {\"heads\": 2, \"position\": {\"kind\": \"rope\"}}}}";
    struct qkv_context *ctx = begin();
    const char *folder = make_folder(ctx, "digest", NULL);
    struct qkv_model_open_options options = qkv_model_open_defaults();
    struct qkv_model *model;
    char path[1100];
    snprintf(path, sizeof path, "%s/config.json", folder);
    test_write_file(path, edited, strlen(edited));
    struct qkv_opening *opening = open_at(ctx, folder);
    assert_status(ctx, qkv_opening_check(opening), QKV_SPEC);
    assert_status(ctx, qkv_model_fill(opening, &model), QKV_SPEC);
    assert_message(ctx, "another spec than config.json has now");
    qkv_opening_free(opening);
    options.ignore_digest = true;
    assert_ok(ctx, qkv_model_open(ctx, folder, &options, &opening));
    assert_ok(ctx, qkv_model_fill(opening, &model));
    qkv_opening_free(opening);
    qkv_model_free(model);
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_are_opened_from_every_kind_of_place),
        cmocka_unit_test(a_plan_says_what_the_model_will_take),
        cmocka_unit_test(needs_depend_on_precision_cache_and_length),
        cmocka_unit_test(what_is_missing_is_said_before_anything_is_taken),
        cmocka_unit_test(an_opening_is_filled_once),
        cmocka_unit_test(precision_and_cache_are_the_models_own),
        cmocka_unit_test(plans_of_an_opening_have_its_adapter),
        cmocka_unit_test(planned_adapters_are_measured),
        cmocka_unit_test(digests_are_ignored_where_the_opening_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
