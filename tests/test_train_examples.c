/* Training on arrays: valid files, resumed runs, parts and groups that change no bit, and evaluation. */
#include "train_same.h"
#include "weights.h"

enum { EXAMPLES = 48, SIDE = 6, CLASSES = 3, LONGEST = 7, WIDTH = 5 };

static struct qkv_spec examples_spec(struct qkv_context *ctx, const char *input, const char *head) {
    char json[700];
    struct qkv_spec spec = {0};
    snprintf(json, sizeof json,
             "{\"format\":\"qkv\",\"version\":2,\"d_model\":16,\"context\":16,\"embed\":{\"input\":%s},"
             "\"head\":{\"kind\":\"%s\"},\"encoder\":{\"layers\":1,\"attention\":{\"heads\":2},\"ffn\":{\"d_ff\":24}}}",
             input, head);
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "examples", json, strlen(json), NULL, 0));
    return spec;
}

static const char patches[] = "{\"kind\":\"patches\",\"channels\":1,\"height\":6,\"width\":6,\"patch\":3}";
static const char vectors[] = "{\"kind\":\"vectors\",\"channels\":5}";
static const char frames[] = "{\"kind\":\"frames\",\"channels\":5}";

/* The arrays of a file; 0: as the model needs it. */
struct file {
    const char *input; /* the name of its array */
    size_t shape[4];
    int rank;
    bool each; /* a target for each position */
    size_t T;
    int32_t target; /* of the last example, where it is none of the classes */
    bool broken, no_targets;
};

/* Brightness says the class: a model can learn it. */
static const char *write_examples(struct qkv_context *ctx, const char *name, const struct file *f, uint64_t stream) {
    static char path[1024];
    struct qkv_random random = test_random(stream);
    size_t n = 1, T = f->each ? f->T : 1;
    for (int i = 1; i < f->rank; i++) n *= f->shape[i];
    float *x = calloc(f->shape[0] * n, sizeof *x);
    int32_t *targets = calloc(f->shape[0] * T, sizeof *targets);
    for (size_t e = 0; e < f->shape[0]; e++) {
        const int32_t class = (int32_t)qkv_random_below(&random, CLASSES);
        for (size_t t = 0; t < T; t++) targets[e * T + t] = class;
        for (size_t i = 0; i < n; i++) x[e * n + i] = (float)class - 1 + 0.3F * (float)qkv_random_normal(&random);
    }
    if (f->broken) x[f->shape[0] * n - 1] = NAN;
    if (f->target) targets[f->shape[0] * T - 1] = f->target;
    const struct qkv_array arrays[] = {{.name = f->input,
                                        .dtype = QKV_F32,
                                        .rank = f->rank,
                                        .shape = {f->shape[0], f->shape[1], f->shape[2], f->shape[3]},
                                        .data = x,
                                        .bytes = f->shape[0] * n * sizeof *x},
                                       {.name = "in.targets",
                                        .dtype = QKV_I32,
                                        .rank = f->each ? 2 : 1,
                                        .shape = {f->shape[0], f->T},
                                        .data = targets,
                                        .bytes = f->shape[0] * T * sizeof *targets}};
    snprintf(path, sizeof path, "%s", test_path(name));
    assert_ok(ctx, qkv_tensors_write(ctx, path, arrays, f->no_targets ? 1 : 2, NULL, 0));
    free(x);
    free(targets);
    return path;
}

static const struct file images = {.input = "in.pixels", .shape = {EXAMPLES, 1, SIDE, SIDE}, .rank = 4};

static struct qkv_train_options examples_options(struct qkv_context *ctx, const char *path) {
    struct qkv_train_options options = fixture_options_on(ctx, NULL);
    options.examples = path;
    options.batch = 6;
    return options;
}

static void run_examples(struct qkv_context *ctx, const struct qkv_spec *spec, const struct qkv_train_options *options,
                         const char *folder) {
    struct qkv_trainer *trainer;
    assert_ok(ctx, qkv_trainer_create(ctx, spec, options, folder, NULL, NULL, &trainer));
    fixture_steps(ctx, trainer, options->steps);
    assert_ok(ctx, qkv_trainer_save(trainer));
    qkv_trainer_free(trainer);
}

/* Images, frames and vectors: the classes come from the targets, the loss falls, and evaluation counts as validation
 * does. */
static void every_kind_of_input_is_learnt(void **state) {
    (void)state;
    static const struct file files[] = {
        {.input = "in.pixels", .shape = {EXAMPLES, 1, SIDE, SIDE}, .rank = 4},
        {.input = "in.features", .shape = {EXAMPLES, WIDTH, 2 * LONGEST - 1}, .rank = 3},
        {.input = "in.vectors", .shape = {EXAMPLES, LONGEST, WIDTH}, .rank = 3, .each = true, .T = LONGEST}};
    const char *const inputs[] = {patches, frames, vectors};
    struct qkv_context *ctx = fixture_context(1);
    for (size_t i = 0; i < TEST_COUNT(files); i++) {
        char path[1024], folder[1024];
        struct qkv_labels_evaluation found;
        struct qkv_model *model;
        OWNED_SPEC struct qkv_spec spec = examples_spec(ctx, inputs[i], files[i].each ? "classify_tokens" : "classify");
        snprintf(path, sizeof path, "%s", write_examples(ctx, "learn.safetensors", &files[i], 1 + i));
        struct qkv_train_options options = examples_options(ctx, path);
        options.steps = 150;
        options.rate = 1e-2;
        options.dropout = 0;
        snprintf(folder, sizeof folder, "%s", fixture_run("learn"));
        run_examples(ctx, &spec, &options, folder);
        assert_ok(ctx, qkv_model_load(ctx, folder, &model));
        assert_int_equal(qkv_model_spec(model)->head.classes, CLASSES);
        assert_ok(ctx, qkv_evaluate_examples(model, path, NULL, NULL, &found));
        assert_int_equal(found.lines, EXAMPLES * (files[i].each ? LONGEST : 1));
        if (!(found.accuracy > 0.8)) fail_msg("%s: accuracy %g", inputs[i], found.accuracy);
        qkv_free(found.confusion);
        qkv_model_free(model);
    }
    qkv_context_free(ctx);
}

/* Stopped and gone on with, and in parts of a batch: the same bits. */
static void a_run_that_goes_on_or_is_cut_is_the_same_run(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    OWNED_SPEC struct qkv_spec spec = examples_spec(ctx, patches, "classify");
    char path[1024], whole[1024], cut[1024], parts[1024];
    struct qkv_trainer *trainer;
    snprintf(path, sizeof path, "%s", write_examples(ctx, "resume.safetensors", &images, 11));
    snprintf(whole, sizeof whole, "%s", fixture_run("whole"));
    snprintf(cut, sizeof cut, "%s", fixture_run("cut"));
    snprintf(parts, sizeof parts, "%s", fixture_run("parts"));
    struct qkv_train_options options = examples_options(ctx, path);
    options.steps = 16; /* past the end of an epoch */
    options.metric = "accuracy";
    run_examples(ctx, &spec, &options, whole);
    assert_ok(ctx, qkv_trainer_create(ctx, &spec, &options, cut, NULL, NULL, &trainer));
    fixture_steps(ctx, trainer, 9);
    assert_ok(ctx, qkv_trainer_save(trainer));
    qkv_trainer_free(trainer);
    assert_ok(ctx, qkv_trainer_resume(ctx, cut, NULL, NULL, NULL, &trainer));
    fixture_steps(ctx, trainer, options.steps);
    assert_ok(ctx, qkv_trainer_save(trainer));
    qkv_trainer_free(trainer);
    assert_same_runs(ctx, whole, cut);
    options.accumulate = 3;
    run_examples(ctx, &spec, &options, parts);
    assert_same_tensors(ctx, whole, parts, "model.safetensors");
    write_examples(ctx, "resume.safetensors", &images, 12);
    assert_status(ctx,
                  qkv_trainer_resume(ctx, whole, &QKV_OPTIONS(qkv_resume_options, .steps = 20), NULL, NULL, &trainer),
                  QKV_FORMAT);
    assert_message(ctx, "resume.safetensors has changed since the run began");
    qkv_context_free(ctx);
}

static void what_a_file_must_hold_is_said(void **state) {
    (void)state;
    static const struct {
        struct file file;
        const char *input, *head, *message;
    } cases[] = {
        {{.input = "in.features", .shape = {EXAMPLES, 1, SIDE, SIDE}, .rank = 4},
         patches,
         "classify",
         "has no in.pixels, the images that this model reads"},
        {{.input = "in.pixels", .shape = {EXAMPLES, 2, SIDE, SIDE}, .rank = 4},
         patches,
         "classify",
         "must be F32, F16 or BF16 of the shape (examples,1,6,6)"},
        {{.input = "in.vectors", .shape = {EXAMPLES, LONGEST, WIDTH + 1}, .rank = 3},
         vectors,
         "classify",
         "of the shape (examples,positions,5)"},
        {{.input = "in.vectors", .shape = {EXAMPLES, 17, WIDTH}, .rank = 3},
         vectors,
         "classify",
         "has 17 positions, more than the context of 16"},
        {{.input = "in.pixels", .shape = {EXAMPLES, 1, SIDE, SIDE}, .rank = 4, .broken = true},
         patches,
         "classify",
         "a number of example 47 of in.pixels is not finite"},
        {{.input = "in.pixels", .shape = {EXAMPLES, 1, SIDE, SIDE}, .rank = 4, .target = -3},
         patches,
         "classify",
         "in.targets of example 47 is -3"},
        {{.input = "in.pixels", .shape = {EXAMPLES, 1, SIDE, SIDE}, .rank = 4, .no_targets = true},
         patches,
         "classify",
         "has no in.targets, what is to be learnt of each example; it holds in.pixels"},
        {{.input = "in.pixels", .shape = {EXAMPLES, 1, SIDE, SIDE}, .rank = 4},
         patches,
         "classify_tokens",
         "one for each position"},
        {{.input = "in.pixels", .shape = {3, 1, SIDE, SIDE}, .rank = 4},
         patches,
         "classify",
         "valid_fraction of 0.1 keeps none for validation"},
        {{.input = "in.pixels", .shape = {EXAMPLES, 1, SIDE, SIDE}, .rank = 4},
         patches,
         "none",
         "set head.kind=classify"},
    };
    struct qkv_context *ctx = fixture_context(1);
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        OWNED_SPEC struct qkv_spec spec = examples_spec(ctx, cases[i].input, cases[i].head);
        const char *path = write_examples(ctx, "refused.safetensors", &cases[i].file, 20 + i);
        const struct qkv_train_options options = examples_options(ctx, path);
        struct qkv_trainer *trainer;
        assert_true(qkv_trainer_create(ctx, &spec, &options, fixture_run("refused"), NULL, NULL, &trainer));
        assert_message(ctx, cases[i].message);
        assert_null(trainer);
    }
    qkv_context_free(ctx);
}

/* Types of tokens are read: only they tell the classes apart; without them, or with other ones, the loss stays. */
static void types_of_tokens_are_read(void **state) {
    (void)state;
    enum { T = 5 };
    struct qkv_context *ctx = fixture_context(1);
    OWNED_SPEC struct qkv_spec spec = examples_spec(ctx, "{\"kind\":\"tokens\"}", "classify");
    static const char *const settings[] = {"vocab=7", "encoder.embed.types=2", "head.classes=2"};
    char *json = NULL;
    assert_ok(ctx, qkv_spec_print(ctx, &spec, &json));
    qkv_spec_free(&spec);
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "types", json, strlen(json), settings, 3));
    qkv_free(json);
    int32_t ids[EXAMPLES * T], types[EXAMPLES * T], targets[EXAMPLES];
    for (int i = 0; i < EXAMPLES * T; i++) ids[i] = i % T, types[i] = targets[i / T] = i / T % 2; /* one text */
    struct qkv_array arrays[] = {
        {"in.ids", QKV_I32, 2, {EXAMPLES, T}, ids, sizeof ids},
        {"in.targets", QKV_I32, 1, {EXAMPLES}, targets, sizeof targets},
        {"in.token_types", QKV_I32, 2, {EXAMPLES, T}, types, sizeof types},
        {"out.logits", QKV_I32, 1, {EXAMPLES}, targets, sizeof targets},
    };
    const char *path = test_path("types.safetensors"), *folder = fixture_run("types");
    assert_ok(ctx, qkv_tensors_write(ctx, path, arrays, 4, NULL, 0));
    struct qkv_train_options options = examples_options(ctx, path);
    options.steps = 60;
    options.rate = 1e-2;
    run_examples(ctx, &spec, &options, folder);
    struct qkv_model *model;
    struct qkv_labels_evaluation evaluation;
    assert_ok(ctx, qkv_model_load(ctx, folder, &model));
    assert_ok(ctx, qkv_evaluate_examples(model, path, NULL, NULL, &evaluation));
    assert_int_equal(lround(evaluation.accuracy * EXAMPLES), EXAMPLES);
    qkv_free(evaluation.confusion);
    assert_ok(ctx, qkv_tensors_write(ctx, path, arrays, 2, NULL, 0)); /* all of type 0 */
    assert_ok(ctx, qkv_evaluate_examples(model, path, NULL, NULL, &evaluation));
    assert_int_equal(lround(evaluation.accuracy * EXAMPLES), EXAMPLES / 2);
    qkv_free(evaluation.confusion);
    types[EXAMPLES * T - 1] = 2;
    assert_ok(ctx, qkv_tensors_write(ctx, path, arrays, 4, NULL, 0));
    assert_true(qkv_evaluate_examples(model, path, NULL, NULL, &evaluation) == QKV_FORMAT);
    assert_message(ctx, "in.token_types of example 47 is 2; it must be from 0 to 1, as those of the embedding");
    arrays[3].name = "in.mask";
    types[EXAMPLES * T - 1] = 1;
    assert_ok(ctx, qkv_tensors_write(ctx, path, arrays, 4, NULL, 0));
    assert_true(qkv_evaluate_examples(model, path, NULL, NULL, &evaluation) == QKV_FORMAT);
    assert_message(ctx, "has in.mask, which examples of this model have no use for");
    qkv_model_free(model);
    qkv_context_free(ctx);
}

static void weights_that_are_no_numbers_have_no_score(void **state) {
    (void)state;
    static const char *const heads[] = {"classify", "classify_tokens"};
    struct qkv_context *ctx = fixture_context(1);
    for (size_t i = 0; i < TEST_COUNT(heads); i++) {
        OWNED_SPEC struct qkv_spec spec = examples_spec(ctx, frames, heads[i]);
        const struct file all = {
            .input = "in.features", .shape = {10, WIDTH, 12}, .rank = 3, .each = i == 1, .T = i == 1 ? 6 : 0};
        struct qkv_labels_evaluation found;
        struct qkv_model *model;
        float *probabilities;
        size_t count;
        spec.head.classes = CLASSES;
        assert_ok(ctx, qkv_model_create(ctx, &spec, 5, &model));
        const char *path = write_examples(ctx, "broken.safetensors", &all, 31);
        assert_ok(ctx, qkv_evaluate_examples(model, path, NULL, NULL, &found));
        qkv_free(found.confusion);
        test_weights_mutable(model, qkv_model_parameters(model) - 1)[0] = NAN;
        assert_status(ctx, qkv_evaluate_examples(model, path, NULL, NULL, &found), QKV_NUMBER);
        assert_message(ctx, "is not a finite number: the model's weights are broken");
        assert_null(found.confusion);
        if (i == 0) assert_status(ctx, qkv_classify_examples(model, path, &probabilities, &count), QKV_NUMBER);
        qkv_model_free(model);
    }
    qkv_context_free(ctx);
}

/* The predictions of classify for examples without targets are those that evaluation counts. */
static void classes_of_examples_are_those_that_are_evaluated(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    OWNED_SPEC struct qkv_spec spec = examples_spec(ctx, frames, "classify");
    static const struct file all = {.input = "in.features", .shape = {70, WIDTH, 12}, .rank = 3};
    struct qkv_labels_evaluation found;
    struct qkv_model *model;
    float *probabilities;
    size_t count, counts[CLASSES] = {0};
    spec.head.classes = CLASSES;
    assert_ok(ctx, qkv_model_create(ctx, &spec, 5, &model));
    const char *path = write_examples(ctx, "classes.safetensors", &all, 30);
    assert_ok(ctx, qkv_evaluate_examples(model, path, NULL, NULL, &found));
    assert_ok(ctx, qkv_classify_examples(model, path, &probabilities, &count));
    assert_int_equal(count, 70);
    for (size_t i = 0; i < count; i++) {
        size_t best = 0;
        double sum = 0;
        for (size_t k = 0; k < CLASSES; k++) {
            sum += (double)probabilities[i * CLASSES + k];
            if (probabilities[i * CLASSES + k] > probabilities[i * CLASSES + best]) best = k;
        }
        assert_close(sum, 1, 1e-5);
        counts[best]++;
    }
    for (size_t k = 0; k < CLASSES; k++) {
        size_t predicted = 0;
        for (size_t label = 0; label < CLASSES; label++) predicted += found.confusion[label * CLASSES + k];
        assert_int_equal(predicted, counts[k]);
    }
    qkv_free(found.confusion);
    qkv_free(probabilities);
    qkv_model_free(model);
    qkv_context_free(ctx);
}

/* ---- files that shrink ------------------------------------------------------------------------------------------ */

static bool shrink(void *user, const char *what, double done, double total) {
    (void)what, (void)done, (void)total;
    return truncate(user, 1000) == 0;
}

/* A mapped file would end the process with SIGBUS. */
static void a_file_that_shrinks_while_it_is_used_ends_in_a_sentence(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    OWNED_SPEC struct qkv_spec spec = examples_spec(ctx, frames, "classify");
    static const struct file all = {.input = "in.features", .shape = {200, WIDTH, 12}, .rank = 3};
    struct qkv_labels_evaluation found;
    struct qkv_train_report report;
    struct qkv_trainer *trainer;
    struct qkv_model *model;
    char path[1024];
    spec.head.classes = CLASSES;
    snprintf(path, sizeof path, "%s", write_examples(ctx, "shrinks.safetensors", &all, 31));
    const struct qkv_train_options options = examples_options(ctx, path);
    assert_ok(ctx, qkv_trainer_create(ctx, &spec, &options, fixture_run("shrinks"), NULL, NULL, &trainer));
    assert_ok(ctx, qkv_trainer_step(trainer, &report));
    assert_true(shrink(path, "", 0, 0));
    assert_status(ctx, qkv_trainer_step(trainer, &report), QKV_FILE);
    assert_message(ctx, "shrinks.safetensors has become shorter while it was read");
    qkv_trainer_free(trainer);
    assert_ok(ctx, qkv_model_create(ctx, &spec, 5, &model));
    write_examples(ctx, "shrinks.safetensors", &all, 31);
    assert_status(ctx, qkv_evaluate_examples(model, path, shrink, path, &found), QKV_FILE);
    assert_message(ctx, "shrinks.safetensors has become shorter while it was read");
    qkv_model_free(model);
    qkv_context_free(ctx);
}

/* ---- an encoder beside a decoder -------------------------------------------------------------------------------- */

enum { TARGETS = 5, FRAMES = 9, WORDS = 4 };

static struct qkv_spec speech_spec(struct qkv_context *ctx, const char *input) {
    char json[700];
    struct qkv_spec spec = {0};
    snprintf(
        json, sizeof json,
        "{\"format\":\"qkv\",\"version\":2,\"vocab\":%d,\"d_model\":16,\"context\":16,\"encoder\":{\"layers\":1,"
        "\"attention\":{\"heads\":2},\"embed\":{\"input\":%s}},\"decoder\":{\"layers\":1,\"attention\":{\"heads\":2}}}",
        WORDS, input);
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "speech", json, strlen(json), NULL, 0));
    return spec;
}

/* The source has one word, whose number is the value of all targets; `sources`: the number of words. With `tokens`
 * the source is ids. */
static const char *write_speech(struct qkv_context *ctx, const char *name, size_t sources, bool tokens,
                                uint64_t stream) {
    static char path[1024];
    static float features[EXAMPLES * WIDTH * FRAMES];
    static int32_t source[EXAMPLES * FRAMES], ids[EXAMPLES * TARGETS], targets[EXAMPLES * TARGETS], lengths[EXAMPLES],
        source_lengths[EXAMPLES];
    struct qkv_random random = test_random(stream);
    for (size_t e = 0; e < EXAMPLES; e++) {
        const int32_t word = (int32_t)qkv_random_below(&random, WORDS);
        for (size_t i = 0; i < (size_t)WIDTH * FRAMES; i++)
            features[e * WIDTH * FRAMES + i] =
                (i / FRAMES == (size_t)word ? 3.0F : 0) + 0.1F * (float)qkv_random_normal(&random);
        for (size_t t = 0; t < FRAMES; t++) source[e * FRAMES + t] = word;
        for (size_t t = 0; t < TARGETS; t++) ids[e * TARGETS + t] = 0, targets[e * TARGETS + t] = word;
        lengths[e] = (int32_t)test_between(&random, 1, TARGETS),
        source_lengths[e] = (int32_t)test_between(&random, 1, FRAMES);
    }
    struct qkv_array arrays[] = {
        {.name = "in.features", .dtype = QKV_F32, .rank = 3, .shape = {sources, WIDTH, FRAMES}, .data = features},
        {.name = "in.ids", .dtype = QKV_I32, .rank = 2, .shape = {EXAMPLES, TARGETS}, .data = ids},
        {.name = "in.targets", .dtype = QKV_I32, .rank = 2, .shape = {EXAMPLES, TARGETS}, .data = targets},
        {.name = "in.lengths", .dtype = QKV_I32, .rank = 1, .shape = {EXAMPLES}, .data = lengths},
        {.name = "in.source_lengths", .dtype = QKV_I32, .rank = 1, .shape = {EXAMPLES}, .data = source_lengths}};
    if (tokens)
        arrays[0] = (struct qkv_array){
            .name = "in.source", .dtype = QKV_I32, .rank = 2, .shape = {sources, FRAMES}, .data = source};
    for (size_t i = 0; i < TEST_COUNT(arrays); i++) arrays[i].bytes = qkv_array_elements(&arrays[i]) * 4;
    snprintf(path, sizeof path, "%s", test_path(name));
    assert_ok(ctx, qkv_tensors_write(ctx, path, arrays, tokens ? 5 : 4, NULL, 0));
    return path;
}

static void targets_of_sources_are_learnt(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    for (int tokens = 0; tokens < 2; tokens++) {
        char path[1024], folder[1024], parts[1024];
        struct qkv_labels_evaluation found;
        struct qkv_model *model;
        OWNED_SPEC struct qkv_spec spec = speech_spec(ctx, tokens ? "{\"kind\":\"tokens\"}" : frames);
        snprintf(path, sizeof path, "%s",
                 write_speech(ctx, "speech.safetensors", EXAMPLES, tokens, 60 + (uint64_t)tokens));
        struct qkv_train_options options = examples_options(ctx, path);
        options.steps = 400;
        options.rate = 1e-2;
        options.dropout = 0;
        snprintf(folder, sizeof folder, "%s", fixture_run("speech"));
        run_examples(ctx, &spec, &options, folder);
        assert_ok(ctx, qkv_model_load(ctx, folder, &model));
        assert_ok(ctx, qkv_evaluate_examples(model, path, NULL, NULL, &found));
        assert_true(found.lines > EXAMPLES && found.lines < EXAMPLES * TARGETS); /* none past a length */
        assert_true(!found.classes && !found.confusion);
        if (!(found.accuracy > 0.8)) fail_msg("%s: accuracy %g", tokens ? "ids" : "frames", found.accuracy);
        qkv_model_free(model);
        options.steps = 8;
        snprintf(folder, sizeof folder, "%s", fixture_run("whole"));
        snprintf(parts, sizeof parts, "%s", fixture_run("parts"));
        run_examples(ctx, &spec, &options, folder);
        options.accumulate = 3;
        run_examples(ctx, &spec, &options, parts);
        assert_same_tensors(ctx, folder, parts, "model.safetensors");
    }
    qkv_context_free(ctx);
}

static void each_target_has_a_source(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    OWNED_SPEC struct qkv_spec spec = speech_spec(ctx, frames);
    struct qkv_trainer *trainer;
    struct qkv_train_options options = examples_options(ctx, write_speech(ctx, "few.safetensors", 40, false, 70));
    assert_status(ctx, qkv_trainer_create(ctx, &spec, &options, fixture_run("few"), NULL, NULL, &trainer), QKV_FORMAT);
    assert_message(ctx, "has 40 examples in in.features, but 48 in in.ids; each target needs its source");
    options.examples = write_speech(ctx, "ids.safetensors", EXAMPLES, true, 71);
    assert_status(ctx, qkv_trainer_create(ctx, &spec, &options, fixture_run("few"), NULL, NULL, &trainer), QKV_FORMAT);
    assert_message(ctx, "has no in.features, the frames that this model reads");
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_input_is_learnt),
        cmocka_unit_test(a_run_that_goes_on_or_is_cut_is_the_same_run),
        cmocka_unit_test(what_a_file_must_hold_is_said),
        cmocka_unit_test(types_of_tokens_are_read),
        cmocka_unit_test(weights_that_are_no_numbers_have_no_score),
        cmocka_unit_test(classes_of_examples_are_those_that_are_evaluated),
        cmocka_unit_test(a_file_that_shrinks_while_it_is_used_ends_in_a_sentence),
        cmocka_unit_test(targets_of_sources_are_learnt),
        cmocka_unit_test(each_target_has_a_source),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
