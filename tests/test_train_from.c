/* Beginning a run with the weights of a model: copied weights, new weights, what does not fit; resuming does not
 * need the model any more. */
#include "train_fixture.h"
#include "train_same.h"

#define FIXTURE_CONTEXT fixture_context(1)
#include "context_fixture.h"
#include "weights.h"

#define START "{\"format\":\"qkv\",\"version\":1,\"d_model\":32,\"context\":24,\"position\":{\"kind\":\"learned\"},"
#define STACK "{\"layers\":1,\"attention\":{\"heads\":2}}"
static const char text_json[] = START "\"decoder\":" STACK "}";
static const char mlm_json[] = START "\"encoder\":" STACK "}";
static const char pair_json[] = START "\"tie\":\"head\",\"encoder\":" STACK ",\"decoder\":" STACK "}";
static const char tied_json[] = START "\"tie\":\"all\",\"encoder\":" STACK ",\"decoder\":" STACK "}";
static const char class_json[] =
    "{\"format\":\"qkv\",\"version\":2,\"d_model\":32,\"context\":24,\"embed\":{\"position\":{\"kind\":\"learned\"}},"
    "\"head\":{\"kind\":\"classify\",\"pool\":\"mean\",\"transform\":{\"activation\":\"tanh\",\"norm\":null}},"
    "\"encoder\":" STACK "}";

static void write_pairs(const char *path) {
    struct qkv_buffer text = {0};
    for (int i = 0; i < 60; i++)
        assert_ok(ctx,
                  qkv_buffer_print(ctx, &text, "%c%c\t%c%c!\n", 'a' + i % 5, 'a' + i % 7, 'a' + i % 7, 'a' + i % 5));
    test_write_file(path, text.data, text.size);
    qkv_buffer_free(&text);
}

static void write_labels(const char *path, const char *const *labels, size_t count) {
    struct qkv_buffer text = {0};
    for (size_t i = 0; i < 60; i++)
        assert_ok(ctx, qkv_buffer_print(ctx, &text, "%s\t%c%c on\n", labels[i % count], 'a' + (int)(i % 3),
                                        'c' + (int)(i % 2)));
    test_write_file(path, text.data, text.size);
    qkv_buffer_free(&text);
}

enum kind { TEXT, MLM, PAIRS, TIED, LABELS };

/* The options to learn what a kind of model learns; the paths live as long as the program. */
static struct qkv_train_options options_of(enum kind kind) {
    static char paths[5][1024];
    static const char *const labels[] = {"less", "more"};
    struct qkv_train_options o = fixture_options(ctx);
    char *path = paths[kind];
    if (kind == TEXT) return o;
    snprintf(path, sizeof paths[0], "%s", test_path(kind == LABELS ? "labels.tsv" : "pairs.tsv"));
    if (kind == MLM) o.task = "mlm";
    if (kind == MLM) return o;
    o.data = NULL;
    if (kind == LABELS) write_labels(path, labels, 2);
    if (kind == LABELS) o.labeled = path;
    if (kind != LABELS) write_pairs(path);
    if (kind != LABELS) o.pairs = path;
    return o;
}

/* A run of six steps in FOLDER, so a model that has learnt something. */
static void make_model(const char *folder, enum kind kind) {
    static const char *const specs[] = {text_json, mlm_json, pair_json, tied_json, class_json};
    struct qkv_train_options o = options_of(kind);
    OWNED_SPEC struct qkv_spec spec = {0};
    struct qkv_trainer *trainer;
    o.rate = 1e-2;
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "fixture", specs[kind], strlen(specs[kind]), NULL, 0));
    assert_ok(ctx, qkv_trainer_create(ctx, &spec, &o, folder, NULL, NULL, &trainer));
    fixture_steps(ctx, trainer, 6);
    qkv_trainer_free(trainer);
}

static struct qkv_trainer *tune(const char *from, const char *folder, struct qkv_train_options o) {
    struct qkv_trainer *trainer;
    o.from = from;
    o.seed = 7; /* so that what is not copied differs */
    assert_ok(ctx, qkv_trainer_create(ctx, NULL, &o, folder, NULL, NULL, &trainer));
    return trainer;
}

static struct qkv_model *load(const char *folder) {
    struct qkv_model *model;
    assert_ok(ctx, qkv_model_load(ctx, folder, &model));
    return model;
}

static const struct qkv_array *find(struct qkv_model *model, const char *name) {
    for (size_t i = 0; i < qkv_model_parameters(model); i++)
        if (!strcmp(qkv_model_parameter(model, i)->name, name)) return qkv_model_parameter(model, i);
    return NULL;
}

/* Every parameter except those whose names begin with `but` (NULL: none) begins with the rows of the model's;
 * returns how many are longer. */
static size_t assert_copied(struct qkv_model *now, struct qkv_model *from, const char *but) {
    size_t longer = 0;
    for (size_t i = 0; i < qkv_model_parameters(now); i++) {
        const struct qkv_array *a = qkv_model_parameter(now, i), *b = find(from, a->name);
        if (but && strncmp(a->name, but, strlen(but)) == 0) continue;
        assert_non_null(b);
        assert_memory_equal(a->data, b->data, a->bytes < b->bytes ? a->bytes : b->bytes);
        longer += a->bytes > b->bytes;
    }
    return longer;
}

static bool has_note(const struct qkv_trainer *trainer, const char *text) {
    const char *note;
    for (size_t i = 0; (note = qkv_trainer_note(trainer, i)); i++)
        if (strstr(note, text)) return true;
    return false;
}

/* ---- what is copied --------------------------------------------------------------------------------------------- */

static void every_task_begins_with_the_weights_of_its_model(void **state) {
    (void)state;
    for (int kind = TEXT; kind <= LABELS; kind++) {
        const char *from = fixture_run("from"), *folder = fixture_run("tuned");
        make_model(from, (enum kind)kind);
        struct qkv_trainer *trainer = tune(from, folder, options_of((enum kind)kind));
        struct qkv_model *model = load(from), *now = qkv_trainer_model(trainer);
        assert_int_equal(qkv_model_parameters(now), qkv_model_parameters(model));
        assert_int_equal(assert_copied(now, model, NULL), 0);
        assert_null(qkv_trainer_note(trainer, 0)); /* nothing is new */
        assert_true((qkv_model_source_tokenizer(now) != qkv_model_tokenizer(now)) == (kind == PAIRS));
        assert_int_equal(fixture_steps(ctx, trainer, 1).step, 1); /* a run of its own, from its first step */
        qkv_model_free(model);
        qkv_trainer_free(trainer);
    }
}

static void the_loss_before_the_first_step_is_that_of_the_model(void **state) {
    (void)state;
    const char *from = fixture_run("from"), *folder = fixture_run("tuned");
    struct qkv_train_options o = options_of(TEXT);
    struct qkv_evaluation before, after;
    char path[1024];
    snprintf(path, sizeof path, "%s", o.data);
    o.precision = "fp32";
    make_model(from, TEXT);
    struct qkv_trainer *trainer = tune(from, folder, o);
    struct qkv_model *model = load(from);
    assert_ok(ctx, qkv_evaluate_text(model, &(const char *){path}, 1, NULL, NULL, NULL, &before));
    assert_ok(ctx, qkv_evaluate_text(qkv_trainer_model(trainer), &(const char *){path}, 1, NULL, NULL, NULL, &after));
    assert_true(before.loss == after.loss && before.tokens == after.tokens);
    qkv_model_free(model);
    qkv_trainer_free(trainer);
}

static void a_smaller_context_takes_the_first_positions(void **state) {
    (void)state;
    const char *from = fixture_run("from"), *folder = fixture_run("tuned");
    struct qkv_train_options o = options_of(TEXT);
    struct qkv_trainer *other;
    make_model(from, TEXT);
    o.context = 9;
    o.dropout = 0.25;
    struct qkv_trainer *trainer = tune(from, folder, o);
    struct qkv_model *model = load(from), *now = qkv_trainer_model(trainer);
    assert_copied(now, model, NULL);
    assert_int_equal(find(now, "decoder.embed.position.weight")->shape[0], 9);
    assert_true(qkv_model_spec(now)->context == 9 && qkv_model_spec(now)->dropout == 0.25);
    fixture_steps(ctx, trainer, 1);
    qkv_model_free(model);
    qkv_trainer_free(trainer);
    o.context = 25;
    o.from = from;
    assert_status(ctx, qkv_trainer_create(ctx, NULL, &o, fixture_run("wide"), NULL, NULL, &other), QKV_ARGUMENT);
    assert_message(ctx, "context is 25 but");
    assert_message(ctx, "has 24 positions");
}

/* ---- heads ------------------------------------------------------------------------------------------------------ */

static void a_model_may_have_other_dropouts(void **state) {
    (void)state;
    static const char *const settings[] = {"embed.dropout=0.3", "decoder.attention.dropout=0.2",
                                           "decoder.residual_dropout=0.4", "dropout=0.25"};
    const char *from = fixture_run("from"), *folder = fixture_run("tuned"), *plain = fixture_run("plain");
    struct qkv_train_options o = options_of(TEXT);
    OWNED_SPEC struct qkv_spec spec = {0};
    struct qkv_trainer *trainer;
    make_model(from, TEXT);
    assert_ok(ctx, qkv_folder_spec(ctx, from, settings, TEST_COUNT(settings), &spec));
    o.from = from;
    o.seed = 7;
    o.dropout = -1;
    assert_ok(ctx, qkv_trainer_create(ctx, &spec, &o, folder, NULL, NULL, &trainer));
    for (int again = 0; again < 2; again++) {
        const struct qkv_spec *own = qkv_model_spec(qkv_trainer_model(trainer));
        const struct qkv_layer_spec *layer = qkv_stack_layer(&own->decoder, 0);
        assert_true(own->dropout == 0.25 && own->decoder.embed.dropout == 0.3);
        assert_true(layer->attention.dropout == 0.2 && layer->residual_dropout == 0.4);
        struct qkv_model *model = load(from);
        if (!again) assert_int_equal(assert_copied(qkv_trainer_model(trainer), model, NULL), 0);
        qkv_model_free(model);
        const double loss = fixture_steps(ctx, trainer, 1 + again).loss;
        assert_ok(ctx, qkv_trainer_save(trainer));
        qkv_trainer_free(trainer);
        o.dropout = 0; /* the same weights and rows, and nothing dropped */
        if (again) break;
        trainer = tune(from, plain, o);
        assert_true(fixture_steps(ctx, trainer, 1).loss != loss);
        qkv_trainer_free(trainer);
        assert_ok(ctx, qkv_trainer_resume(ctx, folder, NULL, NULL, NULL, &trainer));
    }
}

static void a_classifier_keeps_its_head_whatever_the_order_of_its_labels(void **state) {
    (void)state;
    static const char swapped[] = "more\nless\n";
    const char *from = fixture_run("from"), *folder = fixture_run("tuned");
    make_model(from, LABELS);
    fixture_write(from, "labels.txt", swapped, sizeof swapped - 1); /* as a model of somebody else might have it, */
    ctx->ignore_digest = true;                                      /* whose weights do not say so */
    struct qkv_trainer *trainer = tune(from, folder, options_of(LABELS));
    struct qkv_model *model = load(from), *now = qkv_trainer_model(trainer);
    ctx->ignore_digest = false;
    assert_copied(now, model, "head.");
    for (int k = 0; k < 2; k++) {
        const struct qkv_array *a = find(now, k ? "head.bias" : "head.weight"), *b = find(model, a->name);
        size_t half = a->bytes / 2;
        assert_memory_equal(a->data, (const char *)b->data + half, half);
        assert_memory_equal((const char *)a->data + half, b->data, half);
    }
    for (int k = 0; k < 2; k++) { /* what transforms its input has rows of the width, not of classes */
        const struct qkv_array *a = find(now, k ? "head.transform.bias" : "head.transform.weight"),
                               *b = find(model, a->name);
        assert_memory_equal(a->data, b->data, a->bytes);
    }
    assert_string_equal(qkv_model_label(now, 0), "less");
    qkv_model_free(model);
    qkv_trainer_free(trainer);
}

static void refuse(const char *from, struct qkv_train_options o, enum qkv_status status, const char *message) {
    struct qkv_trainer *trainer;
    const char *folder = fixture_run("refused");
    o.from = from;
    assert_status(ctx, qkv_trainer_create(ctx, NULL, &o, folder, NULL, NULL, &trainer), status);
    assert_message(ctx, message);
    assert_null(trainer);
    assert_false(qkv_file_exists(folder));
}

static void weights_that_are_no_numbers_are_refused(void **state) {
    (void)state;
    char from[1024];
    snprintf(from, sizeof from, "%s", fixture_run("from"));
    for (enum kind kind = 0; kind <= LABELS; kind++) {
        make_model(from, kind);
        struct qkv_model *model = load(from);
        size_t last = qkv_model_parameters(model) - 1;
        test_weights_mutable(model, last)[0] = kind % 2 ? NAN : INFINITY;
        char message[1400];
        snprintf(message, sizeof message, "%s of %s holds numbers that are not finite, so nothing can be learnt",
                 qkv_model_parameter(model, last)->name, from);
        assert_ok(ctx, qkv_model_save(model, from));
        qkv_model_free(model);
        refuse(from, options_of(kind), QKV_NUMBER, message);
        test_remove_tree(from);
    }
}

static void other_labels_need_a_new_head(void **state) {
    (void)state;
    static const char *const three[] = {"less", "more", "none"}, *const others[] = {"less", "most"};
    char from[1024];
    const char *folder = fixture_run("tuned");
    struct qkv_train_options o = options_of(LABELS);
    snprintf(from, sizeof from, "%s", fixture_run("from"));
    make_model(from, LABELS);
    write_labels(o.labeled, others, 2);
    refuse(from, o, QKV_SPEC, "the label \"most\" of");
    write_labels(o.labeled, three, 3);
    refuse(from, o, QKV_SPEC, "begin with a new head (option new_head)");
    o.new_head = true;
    struct qkv_trainer *trainer = tune(from, folder, o);
    struct qkv_model *model = load(from), *now = qkv_trainer_model(trainer);
    assert_copied(now, model, "head.");
    assert_int_equal(find(now, "head.weight")->shape[0], 3);
    assert_true(has_note(trainer, "head.weight is new") && has_note(trainer, "head.bias is new"));
    fixture_steps(ctx, trainer, 6);
    qkv_model_free(model);
    qkv_trainer_free(trainer);
    qkv_model_free(load(folder));
    assert_int_equal(unlink(test_path("from/labels.txt")), 0);
    o = options_of(LABELS);
    refuse(from, o, QKV_FILE, "has no labels.txt");
}

/* A text model's tokenizer lacks the tokens that labelled lines stand between: they are added, with new rows. */
static void language_models_become_classifiers(void **state) {
    (void)state;
    for (int kind = TEXT; kind <= MLM; kind++) {
        const char *from = fixture_run("from"), *folder = fixture_run("tuned");
        struct qkv_train_options o = options_of(LABELS);
        make_model(from, (enum kind)kind);
        refuse(from, o, QKV_SPEC, "labelled lines need a head of kind classify");
        o.new_head = true;
        struct qkv_trainer *trainer = tune(from, folder, o);
        struct qkv_model *model = load(from), *now = qkv_trainer_model(trainer);
        assert_int_equal(assert_copied(now, model, "head."), 1); /* the embedding, longer by two rows */
        assert_int_equal(qkv_model_spec(now)->vocab, qkv_model_spec(model)->vocab + 2);
        assert_int_equal(qkv_tokenizer_special(qkv_model_tokenizer(now), QKV_TOKEN_END),
                         qkv_model_spec(now)->vocab - 1);
        assert_true(has_note(trainer, "has no special token <s>") && has_note(trainer, "head.weight is new"));
        assert_int_equal(qkv_model_spec(now)->head.pool, QKV_POOL_MEAN);
        fixture_steps(ctx, trainer, 6);
        qkv_model_free(model);
        qkv_trainer_free(trainer);
        const char *const lines[] = {"ac on"};
        float probabilities[2];
        model = load(folder);
        assert_ok(ctx, qkv_classify(model, lines, 1, NULL, probabilities));
        qkv_model_free(model);
    }
}

/* A text's labels of words: as many as the model reads, whatever kind of head it had. */
static void every_model_becomes_a_classifier_of_tokens(void **state) {
    (void)state;
    static const enum kind kinds[] = {TEXT, MLM, LABELS};
    static const char words[] = "ab\tx\nba\ty\n\n", path[] = "words.conll";
    char text[40 * (sizeof words - 1) + 1] = "";
    for (int i = 0; i < 40; i++) strcat(text, words);
    fixture_write(test_path("."), path, text, strlen(text));
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const char *from = fixture_run("from"), *folder = fixture_run("tuned");
        struct qkv_train_options o = options_of(LABELS);
        char file[1024];
        make_model(from, kinds[k]);
        snprintf(file, sizeof file, "%s", test_path(path));
        o.labeled = file;
        o.task = "classify_tokens";
        refuse(from, o, QKV_SPEC, "labelled lines need a head of kind classify_tokens, but the one of");
        o.new_head = true;
        struct qkv_trainer *trainer = tune(from, folder, o);
        struct qkv_model *model = load(from);
        const struct qkv_spec *spec = qkv_model_spec(qkv_trainer_model(trainer));
        assert_copied(qkv_trainer_model(trainer), model, "head.");
        assert_true(spec->head.kind == QKV_HEAD_CLASSIFY_TOKENS && spec->head.classes == 2 && spec->head.bias);
        assert_false(has_note(trainer, "task classify_tokens"));
        fixture_steps(ctx, trainer, 3);
        qkv_model_free(model);
        qkv_trainer_free(trainer);
        qkv_model_free(load(folder));
    }
}

static void a_classifier_becomes_a_masked_language_model_with_a_new_head(void **state) {
    (void)state;
    const char *from = fixture_run("from"), *folder = fixture_run("tuned");
    struct qkv_train_options o = options_of(MLM);
    make_model(from, LABELS);
    refuse(from, o, QKV_SPEC, "need a head of kind lm, but the one of");
    o.new_head = true;
    struct qkv_trainer *trainer = tune(from, folder, o);
    struct qkv_model *model = load(from);
    assert_int_equal(assert_copied(qkv_trainer_model(trainer), model, "head."), 1);
    assert_true(has_note(trainer, "has no special token <mask>"));
    fixture_steps(ctx, trainer, 1);
    qkv_model_free(model);
    qkv_trainer_free(trainer);
}

/* ---- what is refused -------------------------------------------------------------------------------------------- */

static void what_does_not_fit_is_refused(void **state) {
    (void)state;
    char from[1024], again[1100];
    struct qkv_train_options o = options_of(TEXT);
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, NULL);
    struct qkv_trainer *trainer;
    snprintf(from, sizeof from, "%s", fixture_run("from"));
    make_model(from, TEXT);
    o.tokenizer = "bytes";
    refuse(from, o, QKV_ARGUMENT, "tokenizer has no place beside from");
    o = options_of(TEXT);
    o.new_head = true;
    refuse(from, o, QKV_SPEC, "is its token embedding (tie head)");
    refuse(NULL, o, QKV_ARGUMENT, "option new_head is set without a model to begin with");
    refuse(NULL, options_of(TEXT), QKV_ARGUMENT, "neither a spec nor a model");
    refuse(test_path("nowhere"), options_of(TEXT), QKV_FILE, "nowhere is not a model folder");
    refuse(from, options_of(PAIRS), QKV_SPEC, "pairs need an encoder");
    refuse(from, options_of(MLM), QKV_SPEC, "causal");
    o = options_of(TEXT);
    o.from = from;
    assert_status(ctx, qkv_trainer_create(ctx, &spec, &o, fixture_run("x"), NULL, NULL, &trainer), QKV_SPEC);
    assert_message(ctx, "only its dropouts may be others");
    snprintf(again, sizeof again, "%s/.", from); /* the same folder by another name */
    size_t size, now;
    char *before = fixture_read(from, "model.safetensors", &size), *after;
    assert_status(ctx, qkv_trainer_create(ctx, NULL, &o, again, NULL, NULL, &trainer), QKV_ARGUMENT);
    assert_message(ctx, "is the model to begin with");
    after = fixture_read(from, "model.safetensors", &now);
    assert_true(size == now && !memcmp(before, after, size));
    free(before);
    free(after);
    assert_int_equal(unlink(test_path("from/tokenizer.json")), 0);
    refuse(from, options_of(TEXT), QKV_FILE, "has no tokenizer.json");
    make_model(fixture_run("from"), PAIRS);
    assert_int_equal(unlink(test_path("from/source_tokenizer.json")), 0);
    refuse(from, options_of(PAIRS), QKV_FILE, "has no source_tokenizer.json");
}

/* ---- going on --------------------------------------------------------------------------------------------------- */

static void going_on_is_exact_and_needs_the_model_no_more(void **state) {
    (void)state;
    for (int kind = TEXT; kind <= LABELS; kind++) {
        const char *from = fixture_run("from"), *whole = fixture_run("whole"), *parts = fixture_run("parts");
        struct qkv_train_options o = options_of((enum kind)kind);
        make_model(from, (enum kind)kind);
        struct qkv_trainer *trainer = tune(from, whole, o);
        fixture_steps(ctx, trainer, 6);
        qkv_trainer_free(trainer);
        trainer = tune(from, parts, o);
        fixture_steps(ctx, trainer, 2);
        assert_ok(ctx, qkv_trainer_save(trainer));
        qkv_trainer_free(trainer);
        char *json = fixture_read(parts, "train.json", NULL);
        assert_non_null(strstr(json, "\"from\": {\"bytes\": "));
        free(json);
        test_remove_tree(from);
        assert_ok(ctx, qkv_trainer_resume(ctx, parts, NULL, NULL, NULL, &trainer));
        fixture_steps(ctx, trainer, 6);
        qkv_trainer_free(trainer);
        assert_same_runs(ctx, whole, parts);
        assert_ok(ctx, qkv_trainer_resume(ctx, parts, &QKV_OPTIONS(qkv_resume_options, .steps = 7), NULL, NULL,
                                          &trainer)); /* writes train.json again */
        qkv_trainer_free(trainer);
        json = fixture_read(parts, "train.json", NULL);
        assert_non_null(strstr(json, "\"from\": {\"bytes\": "));
        free(json);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_begins_with_the_weights_of_its_model),
        cmocka_unit_test(the_loss_before_the_first_step_is_that_of_the_model),
        cmocka_unit_test(a_smaller_context_takes_the_first_positions),
        cmocka_unit_test(a_model_may_have_other_dropouts),
        cmocka_unit_test(a_classifier_keeps_its_head_whatever_the_order_of_its_labels),
        cmocka_unit_test(weights_that_are_no_numbers_are_refused),
        cmocka_unit_test(other_labels_need_a_new_head),
        cmocka_unit_test(language_models_become_classifiers),
        cmocka_unit_test(every_model_becomes_a_classifier_of_tokens),
        cmocka_unit_test(a_classifier_becomes_a_masked_language_model_with_a_new_head),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(going_on_is_exact_and_needs_the_model_no_more),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
