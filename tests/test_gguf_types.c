/* Types of tensors in GGUF files that the library writes: mixes, rules by name, rows that are no whole blocks, and
 * files of importance. llama.cpp is the oracle of the mixes; errors of weights are those of the files, read again. */
/* labels: numeric */
#include "gguf_fixture.h"
#include "gguf_write_fixture.h"

#include "io/gguf_export.h"

/* ---- types ------------------------------------------------------------------------------------------------------- */

/* Adds a type to a text of runs, "2 q5_K 14 q4_K". */
struct runs {
    char text[512];
    const char *type;
    int count;
};

static void runs_end(struct runs *r) {
    const size_t n = strlen(r->text);
    if (r->count) snprintf(r->text + n, sizeof r->text - n, "%d %s ", r->count, r->type);
    r->count = 0;
}

static void runs_add(struct runs *r, const char *type) {
    if (r->count && strcmp(r->type, type) != 0) runs_end(r);
    r->type = type;
    r->count++;
}

/* The types of the matrices of a model: of the layers' values, of their last matrices, and of the table. */
static void read_types(const struct qkv_gguf_export *e, int layers, struct runs *r) {
    for (int part = 0; part < 2; part++) {
        for (int i = 0; i < layers; i++) {
            char name[64];
            snprintf(name, sizeof name, "decoder.layers.%d.%s.weight", i, part ? "ffn.down" : "attn.v");
            for (size_t k = 0; k < e->arrays.count; k++)
                if (!strcmp(e->tensors[k].array.name, name)) runs_add(r, qkv_types[e->tensors[k].array.dtype]->name);
        }
        runs_end(r);
        strcat(r->text, "| ");
    }
    for (size_t k = 0; k < e->arrays.count; k++)
        if (strstr(e->tensors[k].array.name, "embed.token"))
            strcat(r->text, qkv_types[e->tensors[k].array.dtype]->name);
}

/* The types are those that llama-quantize of llama.cpp chooses for the same file (version 0.3.36 of llama_cpp). */
#define MORE_BITS(base) "2 q6_K 2 " base " 1 q6_K 2 " base " 1 q6_K 2 " base " 1 q6_K 2 " base " 3 q6_K | "
static const struct {
    const char *mix, *types;
} mix_types[] = {
    {"F32", "16 f32 | 16 f32 | f32"},
    {"F16", "16 f16 | 16 f16 | f16"},
    {"BF16", "16 bf16 | 16 bf16 | bf16"},
    {"Q4_0", "16 q4_0 | 16 q4_0 | q6_K"},
    {"Q4_1", "16 q4_1 | 16 q4_1 | q6_K"},
    {"Q5_0", "16 q5_0 | 16 q5_0 | q6_K"},
    {"Q5_1", "16 q5_1 | 16 q5_1 | q6_K"},
    {"Q8_0", "16 q8_0 | 16 q8_0 | q8_0"},
    {"Q2_K", "16 q4_K | 16 q3_K | q6_K"},
    {"Q2_K_S", "16 q4_K | 2 q4_K 14 q2_K | q6_K"},
    {"Q3_K_S", "16 q3_K | 16 q3_K | q6_K"},
    {"Q3_K_M", "2 q5_K 14 q4_K | 1 q5_K 15 q4_K | q6_K"},
    {"Q3_K_L", "16 q5_K | 16 q5_K | q6_K"},
    {"Q4_K_S", "4 q5_K 12 q4_K | 2 q5_K 14 q4_K | q6_K"},
    {"Q4_K_M", MORE_BITS("q4_K") MORE_BITS("q4_K") "q6_K"},
    {"Q5_K_S", "16 q5_K | 16 q5_K | q6_K"},
    {"Q5_K_M", MORE_BITS("q5_K") MORE_BITS("q5_K") "q6_K"},
    {"Q6_K", "16 q6_K | 16 q6_K | q6_K"},
    {"IQ4_NL", "16 q5_K | 2 q5_K 14 iq4_nl | q6_K"},
    {"IQ4_XS", "16 q5_K | 2 q5_K 14 iq4_xs | q6_K"},
    {"MXFP4_MOE", "16 q8_0 | 16 q8_0 | q8_0"},
};

/* Compares the types of a mix under one of its names, which the notes say as `name`. */
static void check_mix(struct qkv_model *model, const char *format, const char *name, const char *types) {
    struct qkv_context *ctx = qkv_model_context(model);
    struct qkv_gguf_options o = qkv_gguf_defaults();
    struct qkv_gguf_notes notes = {0};
    struct qkv_family_config config = {0};
    struct qkv_gguf_export e = {.ctx = ctx, .model = model, .options = &o, .notes = &notes};
    struct runs runs = {0};
    o.format = format;
    assert_ok(ctx, qkv_family_arrays_own(model, &config, &e.arrays));
    assert_ok(ctx, qkv_gguf_choose_types(&e));
    read_types(&e, 16, &runs);
    if (strcmp(runs.text, types) != 0) fail_msg("%s: %s, not %s", format, runs.text, types);
    assert_int_equal(notes.count, 0);
    assert_string_equal(qkv_gguf_notes_format(&notes), name);
    qkv_family_arrays_free(&e.arrays);
    free(e.tensors);
}

static void mixes_are_those_of_llama_cpp(void **state) {
    struct qkv_model *model = make_llama(*state, 16, 256);
    const char *name;
    for (size_t i = 0; qkv_mix_at(i, &name, NULL); i++) {
        const char *types = NULL;
        for (size_t k = 0; k < TEST_COUNT(mix_types); k++)
            if (!strcmp(mix_types[k].mix, name)) types = mix_types[k].types;
        if (!types) fail_msg("no types of llama.cpp for the mix %s", name);
        check_mix(model, name, name, types);
    }
    check_mix(model, "q3_K", "Q3_K_M", "2 q5_K 14 q4_K | 1 q5_K 15 q4_K | q6_K");
    check_mix(model, "q4_k_m", "Q4_K_M", MORE_BITS("q4_K") MORE_BITS("q4_K") "q6_K");
    check_mix(model, "q4_K", "Q4_K_M", MORE_BITS("q4_K") MORE_BITS("q4_K") "q6_K");
    check_mix(model, "q5_K", "Q5_K_M", MORE_BITS("q5_K") MORE_BITS("q5_K") "q6_K");
    check_mix(model, "q8_0", "Q8_0", "16 q8_0 | 16 q8_0 | q8_0");
    qkv_model_free(model);
}

static void rules_and_rows_choose_types(void **state) {
    static const char *const keep[] = {"*attn.v*=Q8_0", "decoder.layers.1.*=bf16", "*norm*=f16", "nothing*=f16",
                                       "*=q9_9"};
    struct qkv_context *ctx = *state;
    struct qkv_model *model = make_llama(ctx, 2, 96); /* 96 and 192 numbers are no blocks of 256 */
    struct qkv_gguf_options o = qkv_gguf_defaults();
    struct qkv_gguf *g;
    struct qkv_tensors *t;
    o.format = "q4_K_m";
    o.keep = keep;
    o.keep_count = 2;
    char *notes = write_model(model, &o, test_path("keep.gguf"));
    assert_non_null(strstr(notes, "another type, as their rows are no whole blocks: "));
    assert_non_null(strstr(notes, "blk.0.attn_q.weight q5_0 instead of q4_K"));
    free(notes);
    assert_ok(ctx, qkv_gguf_open(ctx, test_path("keep.gguf"), &g, &t));
    assert_int_equal(qkv_tensors_find(t, "blk.0.attn_v.weight")->dtype, QKV_Q8_0);
    assert_int_equal(qkv_tensors_find(t, "blk.1.attn_v.weight")->dtype, QKV_BF16);
    assert_int_equal(qkv_tensors_find(t, "blk.0.ffn_up.weight")->dtype, QKV_Q5_0);
    assert_int_equal(qkv_tensors_find(t, "token_embd.weight")->dtype, QKV_Q8_0);
    assert_int_equal(qkv_tensors_find(t, "blk.1.attn_norm.weight")->dtype, QKV_F32);
    qkv_gguf_free(g);
    qkv_tensors_close(t);
    static const char *const sentences[] = {"no matrix has a name like \"*norm*\"",
                                            "no matrix has a name like \"nothing*\"",
                                            "the type \"q9_9\" is not known; there are "};
    for (size_t i = 0; i < TEST_COUNT(sentences); i++) {
        o.keep = keep + 2 + i;
        o.keep_count = 1;
        assert_int_equal(qkv_model_export_gguf(model, &o, test_path("none.gguf"), NULL), QKV_ARGUMENT);
        if (!strstr(qkv_message(ctx), sentences[i])) fail_msg("the sentence is: %s", qkv_message(ctx));
    }
    qkv_model_free(model);
}

/* ---- importance -------------------------------------------------------------------------------------------------- */

/* Writes importance of one tensor, large for every second column: as the older format, and as a GGUF file. */
static void write_importance(struct qkv_context *ctx, const char *name, size_t columns, const char *old,
                             const char *newer) {
    struct gguf_bytes *b = calloc(1, sizeof *b);
    float *x = malloc(columns * sizeof *x), calls = 4;
    char sums[80], counts[80];
    for (size_t i = 0; i < columns; i++) x[i] = i % 2 ? 4 : 4000;
    gguf_put_u32(b, 1);
    gguf_put_u32(b, (uint32_t)strlen(name));
    gguf_put(b, name, strlen(name));
    gguf_put_u32(b, 4);
    gguf_put_u32(b, (uint32_t)columns);
    gguf_put(b, x, columns * sizeof *x);
    gguf_put_u32(b, 1);
    test_write_file(old, b->data, b->size);
    snprintf(sums, sizeof sums, "%s.in_sum2", name);
    snprintf(counts, sizeof counts, "%s.counts", name);
    struct qkv_gguf_writer w = {.ctx = ctx, .path = newer};
    const struct qkv_array one = {.name = sums, .dtype = QKV_F32, .rank = 2, .shape = {1, columns}},
                           two = {.name = counts, .dtype = QKV_F32, .rank = 2, .shape = {1, 1}};
    qkv_gguf_put_text(&w, "general.type", "imatrix", 7);
    qkv_gguf_put_tensor(&w, &one);
    qkv_gguf_put_tensor(&w, &two);
    qkv_gguf_begin_data(&w);
    qkv_gguf_write_data(&w, x, columns * sizeof *x);
    qkv_gguf_end_tensor(&w);
    qkv_gguf_write_data(&w, &calls, sizeof calls);
    qkv_gguf_end_tensor(&w);
    assert_ok(ctx, qkv_gguf_commit(&w));
    qkv_gguf_writer_free(&w);
    free(x);
    free(b);
}

/* The sum of square errors of every second column of a tensor of a file. */
static double column_error(struct qkv_context *ctx, const struct qkv_model *model, const char *path, const char *ours) {
    struct qkv_model *few;
    double sum = 0;
    load_or_fail(ctx, path, &few);
    for (size_t i = 0; i < qkv_model_parameters(model); i++) {
        const struct qkv_array *p = qkv_model_parameter(model, i), *q = qkv_model_parameter(few, i);
        const size_t n = qkv_array_elements(p), columns = p->shape[p->rank - 1];
        if (strcmp(p->name, ours) != 0) continue;
        float *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y);
        qkv_array_floats(p, x);
        qkv_array_floats(q, y);
        for (size_t k = 0; k < n; k++) sum += k % columns % 2 == 0 ? pow((double)x[k] - (double)y[k], 2) : 0;
        free(x);
        free(y);
    }
    qkv_model_free(few);
    assert_true(sum > 0);
    return sum;
}

static void importance_makes_errors_of_its_columns_small(void **state) {
    static const char ours[] = "decoder.layers.0.ffn.up.weight";
    struct qkv_context *ctx = *state;
    struct qkv_model *model = make_llama(ctx, 1, 256);
    struct qkv_gguf_options o = qkv_gguf_defaults();
    double error[3];
    const char *const paths[] = {NULL, test_path("old.dat"), test_path("new.gguf")};
    write_importance(ctx, "blk.0.ffn_up.weight", 256, paths[1], paths[2]);
    o.format = "q4_K";
    o.pure = true;
    for (size_t i = 0; i < 3; i++) {
        o.imatrix = paths[i];
        free(write_model(model, &o, test_path("weighed.gguf")));
        error[i] = column_error(ctx, model, test_path("weighed.gguf"), ours);
    }
    if (!(error[1] < 0.9 * error[0])) fail_msg("errors of %g without, %g with importance", error[0], error[1]);
    assert_true(error[1] == error[2]);
    char *notes = write_model(model, &o, test_path("weighed.gguf"));
    if (!strstr(notes, "importance for 1 of 8 matrices in blocks\n")) fail_msg("the notes are: %s", notes);
    free(notes);
    o.format = "f16";
    assert_int_equal(qkv_model_export_gguf(model, &o, test_path("no.gguf"), NULL), QKV_ARGUMENT);
    assert_non_null(strstr(qkv_message(ctx), "no matrix of the file is in blocks, so the importance of columns ("));
    o.format = "q4_K";
    write_importance(ctx, "blk.0.ffn_up.weight", 255, paths[1], paths[2]);
    assert_int_equal(qkv_model_export_gguf(model, &o, test_path("no.gguf"), NULL), QKV_SHAPE);
    write_importance(ctx, "other.weight", 256, paths[1], paths[2]);
    assert_int_equal(qkv_model_export_gguf(model, &o, test_path("no.gguf"), NULL), QKV_ARGUMENT);
    assert_non_null(strstr(qkv_message(ctx), "has no tensor of this model"));
    test_write_file(paths[1], "no importance at all", 20);
    o.imatrix = paths[1];
    assert_int_equal(qkv_model_export_gguf(model, &o, test_path("no.gguf"), NULL), QKV_FORMAT);
    qkv_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST_WITH_CONTEXT(mixes_are_those_of_llama_cpp),
        TEST_WITH_CONTEXT(rules_and_rows_choose_types),
        TEST_WITH_CONTEXT(importance_makes_errors_of_its_columns_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
