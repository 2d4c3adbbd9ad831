/* Training from published weights: every family learns, shared and fused weights of its models stay so, and the
 * losses are those of the table in examples/finetune. */
#include "train_fixture.h"

#include <dirent.h>

#include "family_fixture.h"

#define TREE   TEST_SOURCE_DIR "/tests/golden/hf"
#define SHARED TEST_SOURCE_DIR "/../shared/golden/hf"

/* ---- folders ---------------------------------------------------------------------------------------------------- */

/* Whether a model of that name is there. */
static bool published_find(const char *name, char folder[600]) {
    static const char *const roots[] = {TREE, SHARED};
    for (size_t i = 0; i < TEST_COUNT(roots); i++) {
        char path[700];
        snprintf(folder, 600, "%s/%s", roots[i], name);
        snprintf(path, sizeof path, "%s/case.safetensors", folder);
        if (access(path, R_OK) == 0) return true;
    }
    return false;
}

typedef void published_check(const char *folder, const char *name);

static size_t published_each(const char *root, published_check *check) {
    DIR *folders = opendir(root);
    size_t count = 0;
    if (!folders) return 0;
    for (struct dirent *entry; (entry = readdir(folders));) {
        char folder[600];
        struct qkv_context *ctx = fixture_context(1);
        OWNED_SPEC struct qkv_spec spec = {0};
        snprintf(folder, sizeof folder, "%s/%s", root, entry->d_name);
        if (entry->d_name[0] != '.' && fixture_has(folder, "case.safetensors") &&
            qkv_folder_spec(ctx, folder, NULL, 0, &spec) != QKV_FORMAT) { /* of a known family */
            check(folder, entry->d_name);
            count++;
        }
        qkv_context_free(ctx);
    }
    closedir(folders);
    return count;
}

/* ---- runs ------------------------------------------------------------------------------------------------------- */

static struct qkv_train_options published_options(struct qkv_context *ctx, const char *from, const char *examples,
                                                  int64_t batch, int64_t steps) {
    struct qkv_train_options o;
    assert_ok(ctx, qkv_train_defaults(ctx, NULL, &o));
    o.from = from, o.examples = examples, o.in_order = true;
    o.batch = batch, o.steps = steps, o.warmup = 0, o.schedule = "constant", o.precision = "fp32";
    fixture_no_validation(&o);
    return o;
}

static struct qkv_trainer *published_begin(struct qkv_context *ctx, const struct qkv_train_options *o,
                                           const char *run) {
    struct qkv_trainer *t;
    if (qkv_trainer_create(ctx, NULL, o, run, NULL, NULL, &t)) fail_msg("%s: %s", o->from, qkv_message(ctx));
    return t;
}

/* The losses of the steps. */
static void published_losses(struct qkv_context *ctx, struct qkv_trainer *t, size_t count, double *losses) {
    for (size_t i = 0; i < count; i++) {
        struct qkv_train_report r;
        assert_ok(ctx, qkv_trainer_step(t, &r));
        assert_true(isfinite(r.loss));
        losses[i] = r.loss;
    }
}

/* ---- every family ----------------------------------------------------------------------------------------------- */

static void expect_same_weights(const struct qkv_model *a, const struct qkv_model *b) {
    assert_int_equal(qkv_model_parameters(a), qkv_model_parameters(b));
    for (size_t i = 0; i < qkv_model_parameters(a); i++) {
        const struct qkv_array *p = qkv_model_parameter(a, i), *q = qkv_model_parameter(b, i);
        assert_string_equal(p->name, q->name);
        if (p->bytes != q->bytes || memcmp(p->data, q->data, p->bytes)) fail_msg("%s differs", p->name);
    }
}

/* Tensors of a published folder, and in how many of another one they are, of the same shape. */
static size_t tensors_in(struct qkv_model *a, struct qkv_model *b, size_t *count) {
    struct qkv_family_tensors *x, *y;
    const struct qkv_array *p, *q;
    size_t found = 0;
    assert_ok(qkv_model_context(a), qkv_model_family_tensors(a, false, &x));
    assert_ok(qkv_model_context(b), qkv_model_family_tensors(b, false, &y));
    for (*count = 0; (p = qkv_family_tensors_at(x, *count)); ++*count)
        for (size_t k = 0; (q = qkv_family_tensors_at(y, k)); k++)
            found += !strcmp(p->name, q->name) && p->rank == q->rank &&
                     !memcmp(p->shape, q->shape, (size_t)p->rank * sizeof *p->shape);
    qkv_family_tensors_free(x);
    qkv_family_tensors_free(y);
    return found;
}

static void check_learns(const char *folder, const char *name) {
    struct qkv_context *ctx = fixture_context(1);
    struct qkv_model *first, *back;
    char path[700], run[1024], out[1024], type[64];
    double losses[8];
    size_t count, again;
    snprintf(path, sizeof path, "%s/case.safetensors", folder);
    snprintf(run, sizeof run, "%s", fixture_run("learns"));
    snprintf(out, sizeof out, "%s", fixture_run("exported"));
    const struct qkv_train_options o = published_options(ctx, folder, path, 2, TEST_COUNT(losses));
    OWNED_SPEC struct qkv_spec spec = {0};
    struct qkv_trainer *t;
    assert_ok(ctx, qkv_folder_spec(ctx, folder, NULL, 0, &spec));
    if (spec.head.kind == QKV_HEAD_NONE || (spec.head.kind != QKV_HEAD_LM && spec.head.classes == 1)) {
        assert_status(ctx, qkv_trainer_create(ctx, NULL, &o, run, NULL, NULL, &t), QKV_SPEC);
        assert_non_null(
            strstr(qkv_message(ctx), spec.head.kind == QKV_HEAD_NONE ? "without a head" : "head.classes is 1"));
        qkv_context_free(ctx);
        return;
    }
    t = published_begin(ctx, &o, run);
    published_losses(ctx, t, TEST_COUNT(losses), losses);
    if (!(losses[7] < losses[0] - 0.01)) fail_msg("%s: the loss goes from %g to %g", name, losses[0], losses[7]);
    /* Exported and read again it is the same to the bit: what is tied, shared or fused there is one here. */
    load_or_fail(ctx, folder, &first);
    snprintf(type, sizeof type, "%.*s", (int)strcspn(qkv_model_family(first), ","), qkv_model_family(first));
    assert_ok(ctx, qkv_model_export_published(qkv_trainer_model(t), type, "f32", out));
    load_or_fail(ctx, out, &back);
    expect_same_weights(qkv_trainer_model(t), back);
    const size_t found = tensors_in(first, back, &count), kept = tensors_in(back, first, &again);
    if (found != count || kept != again)
        fail_msg("%s: of %zu tensors %zu are exported, of %zu %zu were there", name, count, found, again, kept);
    qkv_model_free(back);
    qkv_model_free(first);
    qkv_trainer_free(t);
    qkv_context_free(ctx);
}

static void every_family_learns_and_is_exported_as_it_was(void **state) {
    (void)state;
    assert_true(published_each(TREE, check_learns) >= 9);
    published_each(SHARED, check_learns);
}

/* ---- what does not learn ---------------------------------------------------------------------------------------- */

static void buffers_of_a_family_are_frozen_in_runs_from_it_too(void **state) {
    (void)state;
    static const struct {
        /* freeze: the option; ours: the buffer's name in our model, which is frozen, too; buffer, frozen: parts of the
         * names of what is frozen in the published model */
        const char *name, *type, *freeze, *ours, *buffer, *frozen;
        size_t same, others;
    } cases[] = {
        {"bart", "bart", "encoder.layers.0.*", "head.bias", "final_logits_bias", "encoder.layers.0.", 17, 41},
        {"marian", "marian", "encoder.layers.0.*", "head.bias", "final_logits_bias", "encoder.layers.0.", 17, 41},
        {"deepseek_v3_plain", "deepseek_v3", "decoder.layers.0.*", "decoder.layers.1.ffn.correction.weight",
         "e_score_correction_bias", "model.layers.0.", 16, 37},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        char folder[600], path[700], run[1024];
        struct qkv_context *ctx = fixture_context(1);
        struct qkv_trainer *t;
        struct qkv_tensors *before, *after;
        double losses[4];
        if (!published_find(cases[i].name, folder)) {
            qkv_context_free(ctx);
            continue;
        }
        snprintf(path, sizeof path, "%s/case.safetensors", folder);
        snprintf(run, sizeof run, "%s", fixture_run("buffers"));
        struct qkv_train_options o = published_options(ctx, folder, path, 2, 4);
        assert_ok(ctx, qkv_train_set(ctx, &o, "freeze", cases[i].freeze));
        t = published_begin(ctx, &o, run);
        assert_string_equal(qkv_trainer_options(t)->freeze[1], cases[i].ours);
        published_losses(ctx, t, 2, losses);
        assert_ok(ctx, qkv_trainer_save(t));
        qkv_trainer_free(t);
        assert_ok(ctx, qkv_trainer_resume(ctx, run, NULL, NULL, NULL, &t));
        published_losses(ctx, t, 2, losses);
        const char *out = fixture_run("buffers.out");
        assert_ok(ctx, qkv_model_export_published(qkv_trainer_model(t), cases[i].type, "f32", out));
        qkv_trainer_free(t);
        snprintf(path, sizeof path, "%s/model.safetensors", folder);
        assert_ok(ctx, qkv_tensors_open(ctx, path, &before));
        snprintf(path, sizeof path, "%s/model.safetensors", out);
        assert_ok(ctx, qkv_tensors_open(ctx, path, &after));
        size_t same = 0, others = 0;
        for (size_t k = 0; k < qkv_tensors_count(after); k++) {
            const struct qkv_array *y = qkv_tensors_at(after, k), *x = qkv_tensors_find(before, y->name);
            const bool frozen = strstr(y->name, cases[i].buffer) || strstr(y->name, cases[i].frozen);
            assert_non_null(x);
            assert_int_equal(!memcmp(x->data, y->data, y->bytes), frozen);
            if (frozen)
                same++;
            else
                others++;
        }
        assert_true(same == cases[i].same && others >= cases[i].others);
        qkv_tensors_close(before);
        qkv_tensors_close(after);
        qkv_context_free(ctx);
    }
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

enum { STEPS = 20, BATCH = 4, ROW = 32 };

/* The bytes of tinyshakespeare as ids, cut into rows, and what comes after each. False: the text is not here. */
static bool write_rows(struct qkv_context *ctx, const char *path) {
    static const char *const texts[] = {TEST_SOURCE_DIR "/../shared/data/tinyshakespeare.txt",
                                        TEST_SOURCE_DIR "/data/tinyshakespeare.txt"};
    static int32_t ids[STEPS * BATCH * ROW + 1];
    const size_t count = STEPS * BATCH * ROW;
    unsigned char bytes[STEPS * BATCH * ROW + 1];
    FILE *file = fopen(texts[0], "rb");
    if (!file) file = fopen(texts[1], "rb");
    if (!file) return false;
    assert_int_equal(fread(bytes, 1, count + 1, file), count + 1);
    fclose(file);
    for (size_t i = 0; i <= count; i++) ids[i] = bytes[i];
    struct qkv_array rows[2] = {{.name = "in.ids", .data = ids}, {.name = "in.targets", .data = ids + 1}};
    for (size_t i = 0; i < 2; i++) {
        rows[i].dtype = QKV_I32, rows[i].rank = 2, rows[i].bytes = count * sizeof *ids;
        rows[i].shape[0] = STEPS * BATCH, rows[i].shape[1] = ROW;
    }
    assert_ok(ctx, qkv_tensors_write(ctx, path, rows, 2, NULL, 0));
    return true;
}

/* "| gpt2 | qkv | 5.1234 | …": steps 1, 5, 10, 15 and 20. */
static void check_row(const char *name, const double *expected) {
    static const size_t steps[] = {1, 5, 10, 15, 20};
    char folder[600], path[1024], run[1024];
    double losses[STEPS];
    if (!published_find(name, folder)) return;
    struct qkv_context *ctx = fixture_context(1);
    OWNED_SPEC struct qkv_spec spec = {0};
    assert_ok(ctx, qkv_folder_spec(ctx, folder, NULL, 0, &spec));
    const bool text = spec.decoder.layers && !spec.encoder.layers;
    snprintf(path, sizeof path, "%s/case.safetensors", folder);
    if (text) snprintf(path, sizeof path, "%s", test_path("rows.safetensors"));
    if (!text || write_rows(ctx, path)) {
        snprintf(run, sizeof run, "%s", fixture_run("table"));
        const struct qkv_train_options o = published_options(ctx, folder, path, text ? BATCH : 2, STEPS);
        struct qkv_trainer *t = published_begin(ctx, &o, run);
        published_losses(ctx, t, STEPS, losses);
        for (size_t i = 0; i < TEST_COUNT(steps); i++)
            if (!(fabs(losses[steps[i] - 1] - expected[i]) <= 1e-3))
                fail_msg("%s: the loss of step %zu is %.5f, but %.4f in the table", name, steps[i],
                         losses[steps[i] - 1], expected[i]);
        qkv_trainer_free(t);
    }
    qkv_context_free(ctx);
}

static void losses_are_those_of_the_table(void **state) {
    (void)state;
    FILE *file = fopen(TEST_SOURCE_DIR "/examples/finetune/README.md", "r");
    char line[512], name[64];
    double x[5];
    size_t rows = 0;
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "| %63[a-z0-9_] | qkv | %lf | %lf | %lf | %lf | %lf |", name, x, x + 1, x + 2, x + 3, x + 4) ==
            6) {
            check_row(name, x);
            rows++;
        }
    fclose(file);
    assert_true(rows >= 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family_learns_and_is_exported_as_it_was),
        cmocka_unit_test(buffers_of_a_family_are_frozen_in_runs_from_it_too),
        cmocka_unit_test(losses_are_those_of_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
