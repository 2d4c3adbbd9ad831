/* Several ranks, one of which differs or has an error: all stop, and the message names it. Also the gradients and
 * weights sent as bf16. */
#include "rank_fixture.h"

#include "model/model.h"

static struct run make_run(struct qkv_context *ctx, struct qkv_spec *spec, const char *name) {
    struct run run = {.spec = spec, .options = fixture_options(ctx), .until = 4};
    qkv_spec_free(spec);
    *spec = fixture_spec(ctx, NULL);
    run.folder = fixture_run(name);
    run.options.precision = "fp32";
    run.options.steps = 4, run.options.batch = 6, run.options.groups = 3;
    run.options.warmup = 1, run.options.eval_every = 2, run.options.save_every = 2;
    return run;
}

static void expect_refused(const struct run *run, int ranks, enum qkv_status status, const char *sentence) {
    char message[1024];
    assert_int_equal(run_ranks(run, ranks, message), status);
    if (!strstr(message, sentence)) fail_msg("\"%s\" has no \"%s\"", message, sentence);
}

/* ---- ranks that differ ------------------------------------------------------------------------------------------ */

static void other_batch(struct run *own, int rank) {
    if (rank == 1) own->options.batch = 9;
}

static void other_seed(struct run *own, int rank) {
    if (rank == 2) own->options.seed = 5;
}

static void other_spec(struct run *own, int rank) {
    static struct qkv_spec spec; /* with the kinds of layers of the other one */
    if (rank != 1) return;
    spec = *own->spec;
    spec.d_model = 64;
    own->spec = &spec;
}

static void other_data(struct run *own, int rank) {
    static char path[1024];
    if (rank != 2) return;
    snprintf(path, sizeof path, "%s/text.txt", test_path("elsewhere"));
    own->options.data = path;
}

/* A file with the same name and size, equal except for one byte in its middle. */
static void other_byte(struct run *own, int rank) {
    static char path[1024], changed[1024];
    snprintf(path, sizeof path, "%s/large.txt", test_path("."));
    own->options.data = path;
    if (rank != 1) return;
    snprintf(changed, sizeof changed, "%s/large.txt", test_path("elsewhere"));
    own->options.data = changed;
}

static void write_large_texts(void) {
    char path[1024];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/large.txt", test_path(i ? "elsewhere" : "."));
        fixture_text(path, 400000, 2);
        FILE *file = fopen(path, "r+");
        assert_non_null(file);
        assert_int_equal(fseek(file, 200000, SEEK_SET), 0);
        fputc('a' + i, file);
        fclose(file);
    }
}

static void other_folder(struct run *own, int rank) {
    if (rank == 1) own->folder = test_path("nowhere");
}

static void ranks_that_differ_are_named(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    OWNED_SPEC struct qkv_spec spec = {0};
    struct run run = make_run(ctx, &spec, "differs");
    char path[1024];
    assert_ok(ctx, qkv_make_folder(ctx, test_path("elsewhere")));
    snprintf(path, sizeof path, "%s/text.txt", test_path("elsewhere"));
    fixture_text(path, 3000, 2);
    run.differs = other_batch;
    expect_refused(&run, 3, QKV_ARGUMENT, "rank 1: the options differ: batch = 9 here and batch = 6 on rank 0");
    run.differs = other_seed;
    expect_refused(&run, 3, QKV_ARGUMENT, "rank 2: the options differ: seed = 5 here and seed = ");
    run.differs = other_spec;
    expect_refused(&run, 3, QKV_ARGUMENT, "rank 1: the specs differ: \"d_model\": 64");
    run.differs = other_data;
    expect_refused(&run, 3, QKV_ARGUMENT, "rank 2: the data differ: text.txt of 3000 bytes (");
    write_large_texts();
    run.differs = other_byte;
    expect_refused(&run, 3, QKV_ARGUMENT, "rank 1: the data differ: large.txt of 400000 bytes (");
    assert_false(fixture_has(run.folder, "train.json"));
    run.differs = other_folder;
    expect_refused(&run, 3, QKV_FILE, "rank 1: ");
    expect_refused(&(struct run){.spec = run.spec,
                                 .options = run.options,
                                 .folder = fixture_run("unseen"),
                                 .until = 4,
                                 .differs = other_folder},
                   2, QKV_FILE, "is not the folder that rank 0 writes to (nothing of the run is there)");
    qkv_context_free(ctx);
}

/* ---- models to begin with --------------------------------------------------------------------------------------- */

static void from_other(struct run *own, int rank) {
    static char path[1024];
    snprintf(path, sizeof path, "%s", test_path("from other"));
    if (rank == 1) own->options.from = path;
}

static void from_none(struct run *own, int rank) {
    static struct qkv_spec spec;
    if (rank != 2) return;
    struct qkv_context *ctx = fixture_context(1);
    qkv_spec_free(&spec);
    spec = fixture_spec(ctx, NULL);
    qkv_context_free(ctx);
    own->spec = &spec;
    own->options.from = NULL;
}

static void copy_file(const char *from, const char *to, const char *name, bool change) {
    size_t size;
    char *data = fixture_read(from, name, &size);
    if (change) data[size / 2] ^= 1;
    fixture_write(to, name, data, size);
    free(data);
}

static void ranks_that_begin_with_other_models_are_named(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    OWNED_SPEC struct qkv_spec spec = {0};
    struct run run = make_run(ctx, &spec, "from");
    char from[1024], other[1024];
    run.until = 1;
    expect_run(&run, 1);
    snprintf(from, sizeof from, "%s", run.folder);
    snprintf(other, sizeof other, "%s", fixture_run("from other"));
    assert_ok(ctx, qkv_make_folder(ctx, other));
    run.spec = NULL;
    run.options.from = from;
    run.folder = fixture_run("begun");
    run.ignore_digest = true; /* weights say which tokenizer they were saved beside */
    static const char *const names[] = {"config.json", "tokenizer.json", "model.safetensors"};
    for (size_t i = 0; i < 3; i++) copy_file(from, other, names[i], i == 2); /* a bit in the middle of the weights */
    run.differs = from_other;
    expect_refused(&run, 3, QKV_ARGUMENT, "rank 1: the models to begin with differ: weights of ");
    copy_file(from, other, "model.safetensors", false);
    char *json = fixture_read(other, "tokenizer.json", NULL), *letter = strstr(json, "\"h\"");
    assert_non_null(letter);
    letter[1] = '?';
    fixture_write(other, "tokenizer.json", json, strlen(json));
    free(json);
    expect_refused(&run, 3, QKV_ARGUMENT, "rank 1: the models to begin with differ: tokenizer (");
    run.differs = from_none;
    expect_refused(&run, 3, QKV_ARGUMENT, "rank 2: the ");
    assert_false(fixture_has(run.folder, "train.json"));
    copy_file(from, other, "tokenizer.json", false); /* the same model elsewhere */
    run.differs = from_other;
    expect_run(&run, 3);
    qkv_context_free(ctx);
}

/* ---- numbers that are not finite -------------------------------------------------------------------------------- */

static void poison(struct qkv_trainer *trainer, int64_t step, int rank) {
    if (step != 3 || rank != 1) return;
    struct qkv_weights *w = &qkv_trainer_model(trainer)->weights;
    w->list[w->count - 1].data[0] = NAN;
    qkv_weights_changed(w);
}

static void numbers_that_are_not_finite_on_one_rank_stop_all(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    OWNED_SPEC struct qkv_spec spec = {0};
    struct run run = make_run(ctx, &spec, "poisoned");
    make_run_of_one(&run, "poisoned");
    run.disturbs = poison;
    expect_refused(&run, 3, QKV_NUMBER,
                   "step 4: the loss that rank 1 makes of rows 3 to 4 of the batch is not a finite");
    run.disturbs = NULL;
    run.again = true;
    expect_run(&run, 2);
    assert_as_one(ctx, &run);
    qkv_context_free(ctx);
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

static size_t state_bytes[RANKS_MOST];

static void note_bytes(struct qkv_trainer *trainer, int64_t step, int rank) {
    (void)step;
    state_bytes[rank] = qkv_optimizer_bytes(trainer->optimizer);
}

static void moments_are_shared_out(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    static const char *const large[] = {"d_model=384", "decoder.attention.heads=6", "decoder.ffn.d_ff=1536", NULL};
    OWNED_SPEC struct qkv_spec spec = {0};
    struct run run = make_run(ctx, &spec, "large");
    qkv_spec_free(&spec);
    spec = fixture_spec(ctx, large);
    run.until = run.options.steps = 1;
    run.options.warmup = 0;
    run.disturbs = note_bytes;
    expect_run(&run, 1);
    const size_t all = state_bytes[0];
    run.folder = fixture_run("large shared");
    expect_run(&run, 3);
    size_t sum = 0;
    for (int r = 0; r < 3; r++) {
        sum += state_bytes[r];
        if (state_bytes[r] > all / 3 + all / 12) fail_msg("rank %d has %zu of %zu bytes", r, state_bytes[r], all);
    }
    assert_true(sum < all + all / 100 && sum > all - all / 100);
    qkv_context_free(ctx);
}

/* ---- what travels as bf16 --------------------------------------------------------------------------------------- */

static double last_loss(const char *folder) {
    size_t size;
    char *text = fixture_read(folder, "log.jsonl", &size), *at = NULL;
    for (char *next = text; (next = strstr(next, "\"loss\":")); next++) at = next;
    assert_non_null(at);
    const double loss = strtod(at + 7, NULL);
    free(text);
    return loss;
}

static void gradients_that_travel_as_bf16_give_equal_ranks_equal_bits(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    OWNED_SPEC struct qkv_spec spec = {0};
    struct run run = make_run(ctx, &spec, "fp32");
    expect_run(&run, 3);
    run.options.gradients = "bf16";
    run.folder = fixture_run("narrow");
    expect_run(&run, 3);
    run.folder = fixture_run("narrow again");
    expect_run(&run, 3);
    assert_same_runs(ctx, test_path("narrow"), test_path("narrow again"));
    const double exact = last_loss(test_path("fp32")), near = last_loss(test_path("narrow"));
    assert_true(exact != near && fabs(exact - near) < 0.01 * exact);
    qkv_context_free(ctx);
}

static void another_number_of_ranks_is_noted_where_gradients_travel_as_bf16(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    struct qkv_trainer *trainer;
    OWNED_SPEC struct qkv_spec spec = {0};
    struct run run = make_run(ctx, &spec, "moved");
    run.options.gradients = "bf16";
    run.until = 2;
    expect_run(&run, 3);
    assert_ok(ctx, qkv_trainer_resume(ctx, run.folder, NULL, NULL, NULL, &trainer));
    assert_non_null(qkv_trainer_note(trainer, 0));
    assert_non_null(
        strstr(qkv_trainer_note(trainer, 0), "from step 3 on the numbers are those of 1 rank, no longer those of 3"));
    qkv_trainer_free(trainer);
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_that_differ_are_named),
        cmocka_unit_test(ranks_that_begin_with_other_models_are_named),
        cmocka_unit_test(numbers_that_are_not_finite_on_one_rank_stop_all),
        cmocka_unit_test(moments_are_shared_out),
        cmocka_unit_test(gradients_that_travel_as_bf16_give_equal_ranks_equal_bits),
        cmocka_unit_test(another_number_of_ranks_is_noted_where_gradients_travel_as_bf16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
