/* The importance of columns, measured while a model computes: means of squares after a norm are 1, every row of every
 * expert is counted once, threads change no bit, and a GGUF file is the one that a file of importance with the same
 * numbers gives. */
/* labels: numeric */
#include "gguf_fixture.h"
#include "gguf_write_fixture.h"

#include "model/model.h"
#include "op/inputs.h"

enum { B = 3, T = 20, WIDTH = 256 };

/* LLaMA with experts of which each token has two. */
#define MIXTRAL_SPEC                                                                                                   \
    "{'format':'qkv','version':2,'vocab':300,'context':32,'d_model':256,'decoder':{'layers':2,'attention':{'heads':8," \
    "'kv_heads':2,'bias':false,'position':{'kind':'rope'}},'ffn':{'kind':'swiglu','d_ff':256,'bias':false,'experts':{" \
    "'count':5,'top_k':2}},'norm':{'kind':'rmsnorm','placement':'pre'},'embed':{'position':{'kind':'none'}}},'head':{" \
    "'kind':'lm','bias':false},'tie':'none'}"

/* LLaMA whose norms add nothing that counts to the mean square. */
#define EXACT_NORMS_SPEC                                                                                               \
    "{'format':'qkv','version':2,'vocab':300,'context':32,'d_model':256,'decoder':{'layers':2,'attention':{'heads':8," \
    "'kv_heads':2,'bias':false,'position':{'kind':'rope'}},'ffn':{'kind':'swiglu','d_ff':512,'bias':false},'norm':{"   \
    "'kind':'rmsnorm','placement':'pre','eps':1e-12},'embed':{'position':{'kind':'none'}}},'head':{'kind':'lm',"       \
    "'bias':false}}"

static void run_pass(struct qkv_context *ctx, struct qkv_model *model) {
    struct qkv_pass *pass;
    int32_t ids[B * T];
    for (size_t i = 0; i < B * T; i++) ids[i] = (int32_t)((i * 37 + i / 7) % 300);
    assert_ok(ctx, qkv_pass_create(model, &QKV_OPTIONS(qkv_pass_options, .B = B, .T = T), &pass));
    assert_ok(ctx, qkv_pass_forward(pass, &(struct qkv_batch){.B = B, .T = T, .ids = ids, .targets = ids}));
    qkv_pass_free(pass);
}

static const struct qkv_weight *find_weight(const struct qkv_model *model, const char *name) {
    for (size_t i = 0; i < model->weights.count; i++)
        if (!strcmp(model->weights.list[i].array.name, name)) return &model->weights.list[i];
    fail_msg("the model has no %s", name);
    return NULL;
}

/* The mean of the squares of all inputs of a weight, and the rows that were read. */
static double mean_square(const struct qkv_context *ctx, const struct qkv_model *model, const char *name,
                          double *rows) {
    const struct qkv_weight *w = find_weight(model, name);
    const struct qkv_input_sums *sums = qkv_inputs_of(ctx->inputs, w);
    double sum = 0;
    *rows = sums->rows;
    if (!sums->squares) fail_msg("nothing has read %s", name);
    for (size_t c = 0; c < w->columns; c++) sum += sums->squares[c];
    return sum / sums->rows / (double)w->columns;
}

/* New norms multiply by 1, so the squares of their results have the mean 1, in bf16 up to rounding. */
static void inputs_behind_norms_have_the_mean_square_1(void **state) {
    static const char *const names[] = {"decoder.layers.0.attn.q.weight", "decoder.layers.0.attn.v.weight",
                                        "decoder.layers.1.attn.k.weight", "decoder.layers.1.ffn.gate.weight",
                                        "decoder.layers.1.ffn.up.weight", "decoder.embed.token.weight"};
    struct qkv_context *ctx = *state;
    struct qkv_model *model = make_model(ctx, EXACT_NORMS_SPEC);
    struct qkv_importance *importance;
    run_pass(ctx, model); /* not watched */
    assert_ok(ctx, qkv_importance_create(model, &importance));
    for (int runs = 1; runs <= 2; runs++) {
        run_pass(ctx, model);
        for (size_t i = 0; i < TEST_COUNT(names); i++) {
            double rows;
            const double mean = mean_square(ctx, model, names[i], &rows);
            if (!(fabs(mean - 1) < 0x1p-8)) fail_msg("inputs of %s have the mean square %g", names[i], mean);
            if (rows != runs * B * T) fail_msg("%s: %g rows in %d passes", names[i], rows, runs);
        }
    }
    qkv_importance_free(importance);
    assert_null(ctx->inputs);
    qkv_model_free(model);
}

static void each_row_of_an_expert_is_counted_once(void **state) {
    static const char *const parts[] = {"gate", "up", "down"};
    struct qkv_context *ctx = *state;
    struct qkv_model *model = make_model(ctx, MIXTRAL_SPEC);
    struct qkv_importance *importance;
    assert_ok(ctx, qkv_importance_create(model, &importance));
    run_pass(ctx, model);
    for (size_t part = 0; part < TEST_COUNT(parts); part++) {
        double all = 0;
        for (int expert = 0; expert < 5; expert++) {
            char name[96];
            snprintf(name, sizeof name, "decoder.layers.1.ffn.experts.%d.%s.weight", expert, parts[part]);
            all += qkv_inputs_of(ctx->inputs, find_weight(model, name))->rows;
        }
        if (all != 2 * B * T) fail_msg("%s: %g rows of %d", parts[part], all, 2 * B * T);
    }
    qkv_importance_free(importance);
    qkv_model_free(model);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* A file of importance in the older format, with what was measured under the names of llama.cpp. */
static void write_measured(const struct qkv_context *ctx, const struct qkv_model *model, const char *path) {
    static const char *const parts[][2] = {{"attn.q", "attn_q"},      {"attn.k", "attn_k"}, {"attn.v", "attn_v"},
                                           {"attn.o", "attn_output"}, {"ffn.up", "ffn_up"}, {"ffn.gate", "ffn_gate"},
                                           {"ffn.down", "ffn_down"}};
    struct gguf_bytes *b = calloc(1, sizeof *b);
    gguf_put_u32(b, 2 * TEST_COUNT(parts) + 1);
    for (size_t i = 0; i < 2 * TEST_COUNT(parts) + 1; i++) {
        char ours[64] = "decoder.embed.token.weight", theirs[64] = "token_embd.weight";
        if (i < 2 * TEST_COUNT(parts)) {
            snprintf(ours, sizeof ours, "decoder.layers.%zu.%s.weight", i % 2, parts[i / 2][0]);
            snprintf(theirs, sizeof theirs, "blk.%zu.%s.weight", i % 2, parts[i / 2][1]);
        }
        const struct qkv_weight *w = find_weight(model, ours);
        const struct qkv_input_sums *sums = qkv_inputs_of(ctx->inputs, w);
        assert_non_null(sums->squares);
        gguf_put_u32(b, (uint32_t)strlen(theirs));
        gguf_put(b, theirs, strlen(theirs));
        gguf_put_u32(b, 1);
        gguf_put_u32(b, (uint32_t)w->columns);
        for (size_t c = 0; c < w->columns; c++) {
            const float mean = (float)(sums->squares[c] / sums->rows);
            gguf_put(b, &mean, sizeof mean);
        }
    }
    test_write_file(path, b->data, b->size);
    free(b);
}

static void assert_same_files(const char *one, const char *other) {
    size_t sizes[2] = {0};
    char *const data[] = {test_read_file(one, &sizes[0]), test_read_file(other, &sizes[1])};
    if (sizes[0] != sizes[1] || memcmp(data[0], data[1], sizes[0])) fail_msg("%s is not %s", one, other);
    free(data[0]);
    free(data[1]);
}

/* Σ importance · error² over the matrices of a file. */
static double weighed_error(struct qkv_context *ctx, const struct qkv_model *model, const char *path) {
    struct qkv_model *few;
    double sum = 0;
    load_or_fail(ctx, path, &few);
    for (size_t i = 0; i < qkv_model_parameters(model); i++) {
        const struct qkv_weight *w = &model->weights.list[i];
        const struct qkv_input_sums *sums = qkv_inputs_of(ctx->inputs, w);
        const size_t n = qkv_array_elements(&w->array);
        if (!sums->squares || w->bias) continue;
        float *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y);
        assert_ok(ctx, qkv_model_get_weights(model, i, x, n));
        assert_ok(ctx, qkv_model_get_weights(few, i, y, n));
        for (size_t k = 0; k < n; k++)
            sum += sums->squares[k % w->columns] / sums->rows * pow((double)x[k] - (double)y[k], 2);
        free(x);
        free(y);
    }
    qkv_model_free(few);
    return sum;
}

static void files_are_those_of_a_file_of_importance(void **state) {
    static const char *const formats[] = {"Q2_K", "q4_0", "Q4_K_M"};
    struct qkv_context *ctx = *state;
    struct qkv_model *model = make_llama(ctx, 2, WIDTH);
    struct qkv_importance *importance;
    assert_ok(ctx, qkv_importance_create(model, &importance));
    run_pass(ctx, model);
    write_measured(ctx, model, test_path("measured.dat"));
    for (size_t i = 0; i < TEST_COUNT(formats); i++) {
        struct qkv_gguf_options o = qkv_gguf_defaults();
        o.format = formats[i];
        o.pure = i == 1;
        free(write_model(model, &o, test_path("alike.gguf")));
        o.importance = importance;
        char *notes = write_model(model, &o, test_path("measured.gguf"));
        if (strstr(notes, "importance for")) fail_msg("not all matrices have importance: %s", notes);
        free(notes);
        o.importance = NULL;
        o.imatrix = test_path("measured.dat");
        free(write_model(model, &o, test_path("read.gguf")));
        assert_same_files(test_path("measured.gguf"), test_path("read.gguf"));
        const double with = weighed_error(ctx, model, test_path("measured.gguf")),
                     without = weighed_error(ctx, model, test_path("alike.gguf"));
        if (!(with < without)) fail_msg("%s: weighed error %g with importance, %g without", formats[i], with, without);
    }
    qkv_importance_free(importance);
    qkv_model_free(model);
}

/* Experts are slices of one tensor, each with its own means; the file is the same at any number of threads. */
static void threads_change_no_file(void **state) {
    (void)state;
    static const char *const paths[] = {"one.gguf", "three.gguf"};
    for (int i = 0; i < 2; i++) {
        struct qkv_context *ctx;
        struct qkv_importance *importance;
        struct qkv_gguf_options o = qkv_gguf_defaults();
        assert_int_equal(qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, .threads = 1 + 2 * i)), QKV_OK);
        struct qkv_model *model = make_model(ctx, MIXTRAL_SPEC);
        assert_ok(ctx, qkv_importance_create(model, &importance));
        run_pass(ctx, model);
        o.format = "Q4_K_M";
        o.importance = importance;
        free(write_model(model, &o, test_path(paths[i])));
        qkv_importance_free(importance);
        qkv_model_free(model);
        qkv_context_free(ctx);
    }
    assert_same_files(test_path(paths[0]), test_path(paths[1]));
}

/* ---- misuse ------------------------------------------------------------------------------------------------------ */

static void assert_refused(struct qkv_context *ctx, enum qkv_status status, const char *why) {
    assert_int_equal(status, QKV_ARGUMENT);
    if (!strstr(qkv_message(ctx), why)) fail_msg("the message is: %s", qkv_message(ctx));
}

static void misuse_is_refused(void **state) {
    struct qkv_context *ctx = *state;
    struct qkv_model *model = make_llama(ctx, 1, WIDTH), *other = make_llama(ctx, 1, WIDTH);
    struct qkv_importance *importance, *second;
    struct qkv_gguf_options o = qkv_gguf_defaults();
    assert_ok(ctx, qkv_importance_create(model, &importance));
    assert_refused(ctx, qkv_importance_create(other, &second), "measures the inputs of a model already");
    assert_null(second);
    o.importance = importance;
    o.format = "f16";
    assert_refused(ctx, qkv_gguf_options_check(ctx, &o), "no matrix of the file is in blocks");
    o.format = "q4_0";
    assert_refused(ctx, qkv_model_export_gguf(model, &o, test_path("no.gguf"), NULL), "no product of the model");
    assert_refused(ctx, qkv_model_export_gguf(other, &o, test_path("no.gguf"), NULL), "measured on another model");
    run_pass(ctx, other); /* of no weight that is watched */
    assert_refused(ctx, qkv_model_export_gguf(model, &o, test_path("no.gguf"), NULL), "no product of the model");
    o.imatrix = "imatrix.dat";
    assert_refused(ctx, qkv_model_export_gguf(model, &o, test_path("no.gguf"), NULL), "choose one");
    qkv_importance_free(importance);
    qkv_importance_free(NULL);
    qkv_model_free(model);
    qkv_model_free(other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST_WITH_CONTEXT(inputs_behind_norms_have_the_mean_square_1),
        TEST_WITH_CONTEXT(each_row_of_an_expert_is_counted_once),
        TEST_WITH_CONTEXT(files_are_those_of_a_file_of_importance),
        cmocka_unit_test(threads_change_no_file),
        TEST_WITH_CONTEXT(misuse_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
