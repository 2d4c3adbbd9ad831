/* GGUF files of DeepSeek (architecture deepseek2): keys and values of latents are tensors by head, the keys transposed.
 * tests/golden/gguf has files that llama.cpp's converter wrote (test_gguf_models.c, test_gguf_write.c); here are files
 * of older writers, files in blocks, and files that cannot be. */
/* labels: numeric */
#include "gguf_fixture.h"
#include "gguf_write_fixture.h"

#include "io/gguf_write.h"
#include "model/spec.h"

#define GOLDEN  TEST_SOURCE_DIR "/tests/golden/gguf/deepseek_v2_yarn.gguf"
#define SIGMOID TEST_SOURCE_DIR "/tests/golden/gguf/deepseek_v3_yarn.gguf"

/* ---- files made of golden ones ----------------------------------------------------------------------------------- */

enum { LEFT_OUT = -1, TENSORS = 64 };
/* A key of the architecture with another value, or without one. */
struct change {
    const char *key;
    int value;
};
enum kind { SPLIT, JOINED, BOTH, NOT_TRANSPOSED, WITHOUT_VALUES };
struct made {
    struct qkv_array list[TENSORS];
    float *joined[TENSORS];
    size_t count, joined_count;
};

static const struct change *change_of(const struct change *changes, const char *key) {
    const char *name = strchr(key, '.');
    for (; changes->key; changes++)
        if (!strncmp(key, "deepseek2.", 10) && !strcmp(name + 1, changes->key)) return changes;
    return NULL;
}

/* Keys (H, L, N) and values (H, V, L) of heads as the rows of one matrix (H·(N + V), L). */
static void made_join(struct made *m, const struct qkv_array *k, const struct qkv_array *v, const char *name) {
    const size_t H = k->shape[0], L = k->shape[1], N = k->shape[2], V = v->shape[1];
    float *out = malloc(H * (N + V) * L * sizeof *out);
    for (size_t h = 0; h < H; h++)
        for (size_t r = 0; r < N + V; r++)
            for (size_t c = 0; c < L; c++)
                out[(h * (N + V) + r) * L + c] = r < N ? ((const float *)k->data)[(h * L + c) * N + r]
                                                       : ((const float *)v->data)[(h * V + r - N) * L + c];
    m->joined[m->joined_count++] = out;
    m->list[m->count++] = (struct qkv_array){.name = name,
                                             .dtype = QKV_F32,
                                             .rank = 2,
                                             .shape = {H * (N + V), L},
                                             .data = out,
                                             .bytes = H * (N + V) * L * 4};
}

static void made_tensors(struct made *m, const struct qkv_tensors *t, enum kind kind) {
    static const char *const names[] = {"blk.0.attn_kv_b.weight", "blk.1.attn_kv_b.weight"};
    for (size_t i = 0; i < qkv_tensors_count(t); i++) {
        const struct qkv_array *a = qkv_tensors_at(t, i);
        const bool key = strstr(a->name, "attn_k_b"), value = strstr(a->name, "attn_v_b");
        char other[64];
        snprintf(other, sizeof other, "%.6sattn_v_b.weight", a->name);
        if (key && (kind == JOINED || kind == BOTH))
            made_join(m, a, qkv_tensors_find(t, other), names[a->name[4] - '0']);
        if ((kind == JOINED && (key || value)) || (kind == WITHOUT_VALUES && value)) continue;
        m->list[m->count] = *a;
        if (key && kind == NOT_TRANSPOSED) {
            m->list[m->count].shape[1] = a->shape[2];
            m->list[m->count].shape[2] = a->shape[1];
        }
        m->count++;
        assert_true(m->count < TENSORS);
    }
}

/* Writes a golden file again with changes, and returns the path of the new one. */
static const char *remake(struct qkv_context *ctx, const char *from, const struct change *changes, enum kind kind) {
    const char *path = test_path("made.gguf");
    struct qkv_gguf_writer w = {.ctx = ctx, .path = path};
    struct made m = {0};
    struct qkv_gguf *g;
    struct qkv_tensors *t;
    assert_ok(ctx, qkv_gguf_open(ctx, from, &g, &t));
    for (size_t i = 0; i < g->count; i++)
        if (!change_of(changes, g->values[i].key)) qkv_gguf_put_value(&w, g, &g->values[i]);
    for (const struct change *c = changes; c->key; c++) {
        char key[96];
        snprintf(key, sizeof key, "deepseek2.%s", c->key);
        if (c->value != LEFT_OUT) qkv_gguf_put_u32(&w, key, (uint32_t)c->value);
    }
    made_tensors(&m, t, kind);
    for (size_t i = 0; i < m.count; i++) qkv_gguf_put_tensor(&w, &m.list[i]);
    assert_ok(ctx, qkv_gguf_begin_data(&w));
    for (size_t i = 0; i < m.count; i++) {
        qkv_gguf_write_data(&w, m.list[i].data, m.list[i].bytes);
        qkv_gguf_end_tensor(&w);
    }
    assert_ok(ctx, qkv_gguf_commit(&w));
    qkv_gguf_writer_free(&w);
    for (size_t i = 0; i < m.joined_count; i++) free(m.joined[i]);
    qkv_gguf_free(g);
    qkv_tensors_close(t);
    return path;
}

static void expect_same_model(const struct qkv_model *a, const struct qkv_model *b) {
    char *x, *y;
    assert_int_equal(qkv_spec_print(qkv_model_context(a), qkv_model_spec(a), &x), QKV_OK);
    assert_int_equal(qkv_spec_print(qkv_model_context(b), qkv_model_spec(b), &y), QKV_OK);
    assert_string_equal(x, y);
    qkv_free(x);
    qkv_free(y);
    assert_string_equal(qkv_model_family(a), qkv_model_family(b));
    assert_int_equal(qkv_model_parameters(a), qkv_model_parameters(b));
    for (size_t i = 0; i < qkv_model_parameters(a); i++) {
        const struct qkv_array *p = qkv_model_parameter(a, i), *q = qkv_model_parameter(b, i);
        if (p->bytes != q->bytes || memcmp(p->data, q->data, p->bytes) != 0) fail_msg("%s differs", p->name);
    }
}

/* ---- files of older writers -------------------------------------------------------------------------------------- */

/* They have keys and values of latents in one tensor, the sizes of all heads, and no key about scores of experts. */
static const struct change older[] = {{"attention.key_length_mla", LEFT_OUT},
                                      {"attention.value_length_mla", LEFT_OUT},
                                      {"attention.key_length", 12},
                                      {"attention.value_length", 5},
                                      {"attention.head_count_kv", 2},
                                      {"expert_gating_func", LEFT_OUT},
                                      {NULL, 0}};

static void older_files_are_the_same_model(void **state) {
    struct qkv_context *ctx = *state;
    struct qkv_model *model, *golden;
    struct qkv_gguf *g[2];
    struct qkv_tensors *t[2];
    qkv_context_set_precision(ctx, QKV_FP32);
    load_or_fail(ctx, GOLDEN, &golden);
    load_or_fail(ctx, remake(ctx, GOLDEN, older, JOINED), &model);
    expect_same_model(model, golden);
    free(write_model(model, NULL, test_path("newer.gguf")));
    assert_ok(ctx, qkv_gguf_open(ctx, GOLDEN, &g[0], &t[0]));
    assert_ok(ctx, qkv_gguf_open(ctx, test_path("newer.gguf"), &g[1], &t[1]));
    assert_int_equal(qkv_tensors_count(t[0]), qkv_tensors_count(t[1]));
    for (size_t i = 0; i < qkv_tensors_count(t[0]); i++) {
        const struct qkv_array *a = qkv_tensors_at(t[0], i), *b = qkv_tensors_find(t[1], a->name);
        if (!b || a->bytes != b->bytes || memcmp(a->data, b->data, a->bytes) != 0) fail_msg("%s differs", a->name);
    }
    for (size_t i = 0; i < 2; i++) {
        qkv_gguf_free(g[i]);
        qkv_tensors_close(t[i]);
    }
    qkv_model_free(model);
    qkv_model_free(golden);
}

/* The key of scores tells DeepSeek V3 from V2; without groups all experts are one. */
static void keys_tell_the_families_apart(void **state) {
    static const struct change ungrouped[] = {
        {"expert_group_count", LEFT_OUT}, {"expert_group_used_count", LEFT_OUT}, {NULL, 0}};
    struct qkv_context *ctx = *state;
    struct qkv_model *model;
    load_or_fail(ctx, GOLDEN, &model);
    assert_string_equal(qkv_model_family(model), "deepseek_v2");
    qkv_model_free(model);
    load_or_fail(ctx, SIGMOID, &model);
    assert_string_equal(qkv_model_family(model), "deepseek_v3,kimi_k2");
    assert_int_equal(qkv_model_spec(model)->decoder.kinds[1].ffn.experts.groups, 3);
    qkv_model_free(model);
    load_or_fail(ctx, remake(ctx, SIGMOID, ungrouped, SPLIT), &model);
    assert_string_equal(qkv_model_family(model), "deepseek_v3,kimi_k2");
    assert_int_equal(qkv_model_spec(model)->decoder.kinds[1].ffn.experts.groups, 1);
    qkv_model_free(model);
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

/* Two heads of 32 channels that are not rotated, 8 that are, and values of 24; a latent of 256. */
#define LATENT_SPEC                                                                                                    \
    "{'format':'qkv','version':2,'vocab':300,'context':32,'d_model':256,'decoder':{'layers':2,'attention':{'heads':2," \
    "'bias':false,'head_dim':40,'value_dim':24,'latent':{'rank':256,'rope_dim':8},'position':{'kind':'rope',"          \
    "'pairing':'interleaved'}},'ffn':{'kind':'swiglu','d_ff':64,'bias':false},'norm':{'kind':'rmsnorm','placement':"   \
    "'pre','eps':1e-6},'embed':{'position':{'kind':'none'}}},'head':{'kind':'lm','bias':false}}"

static const float *parameter_floats(const struct qkv_model *model, const char *name) {
    for (size_t i = 0; i < qkv_model_parameters(model); i++) {
        const struct qkv_array *p = qkv_model_parameter(model, i);
        if (strcmp(p->name, name)) continue;
        float *x = malloc(qkv_array_elements(p) * sizeof *x);
        qkv_array_floats(p, x);
        return x;
    }
    fail_msg("no weight %s", name);
    return NULL;
}

/* Compares the keys of layer 1: of the model in the file, of the file itself, to the bit, and of the source. */
static void check_keys(const struct qkv_model *model, const struct qkv_model *source, const struct qkv_tensors *t,
                       double bound) {
    enum { H = 2, N = 32, L = 256 };
    static const char name[] = "decoder.layers.1.attn.k_b.weight";
    const struct qkv_array *a = qkv_tensors_find(t, "blk.1.attn_k_b.weight");
    const float *ours = parameter_floats(model, name), *first = parameter_floats(source, name);
    float *theirs = malloc(H * N * L * sizeof *theirs);
    double error = 0, all = 0;
    assert_true(a && a->rank == 3 && a->shape[0] == H && a->shape[1] == L && a->shape[2] == N);
    assert_int_equal(qkv_tensors_floats(t, a, theirs), QKV_OK);
    for (size_t r = 0; r < H * N; r++)
        for (size_t c = 0; c < L; c++) {
            const float x = ours[r * L + c], want = first[r * L + c];
            assert_true(x == theirs[(r / N * L + c) * N + r % N]);
            error += (x - want) * (x - want);
            all += want * want;
        }
    if (!(error <= bound * bound * all)) fail_msg("%s: an error of %g", a->name, sqrt(error / all));
    free((void *)(uintptr_t)ours);
    free((void *)(uintptr_t)first);
    free(theirs);
}

static void heads_are_transposed_in_all_types(void **state) {
    static const struct {
        const char *format;
        enum qkv_dtype k_b, v_b;
        double bound;
    } cases[] = {{"F32", QKV_F32, QKV_F32, 0},           {"F16", QKV_F16, QKV_F16, 1e-3},
                 {"Q8_0", QKV_Q8_0, QKV_Q8_0, 0.01},     {"Q4_0", QKV_Q4_0, QKV_Q4_0, 0.12},
                 {"Q4_K_M", QKV_Q5_0, QKV_Q6_K, 0.06},   {"Q6_K", QKV_Q8_0, QKV_Q6_K, 0.01},
                 {"MXFP4_MOE", QKV_Q8_0, QKV_Q8_0, 0.01}};
    struct qkv_context *ctx = *state;
    struct qkv_model *source = make_model(ctx, LATENT_SPEC), *model;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qkv_gguf_options o = qkv_gguf_defaults();
        struct qkv_gguf *g;
        struct qkv_tensors *t;
        o.family = "deepseek_v2";
        o.format = cases[i].format;
        free(write_model(source, &o, test_path("blocks.gguf")));
        assert_ok(ctx, qkv_gguf_open(ctx, test_path("blocks.gguf"), &g, &t));
        const struct qkv_array *k = qkv_tensors_find(t, "blk.1.attn_k_b.weight"),
                               *v = qkv_tensors_find(t, "blk.1.attn_v_b.weight");
        assert_non_null(v);
        if (k->dtype != cases[i].k_b || v->dtype != cases[i].v_b)
            fail_msg("%s: keys are %d, values are %d", cases[i].format, k->dtype, v->dtype);
        assert_true(v->rank == 3 && v->shape[0] == 2 && v->shape[1] == 24 && v->shape[2] == 256);
        load_or_fail(ctx, test_path("blocks.gguf"), &model);
        check_keys(model, source, t, cases[i].bound);
        qkv_model_free(model);
        qkv_gguf_free(g);
        qkv_tensors_close(t);
    }
    qkv_model_free(source);
}

/* The values of layer 0 in a file of Q2_K, for the caller to free. */
static struct qkv_tensors *values_written(struct qkv_model *model, struct qkv_importance *importance,
                                          const struct qkv_array **values) {
    struct qkv_context *ctx = qkv_model_context(model);
    struct qkv_gguf_options o = qkv_gguf_defaults();
    struct qkv_gguf *g;
    struct qkv_tensors *t;
    const char *path = test_path(importance ? "seen.gguf" : "blind.gguf");
    o.family = "deepseek_v2";
    o.format = "Q2_K";
    o.importance = importance;
    char *notes = write_model(model, &o, path);
    /* keys are transposed, so that their columns are no inputs */
    if (importance && !strstr(notes, "importance for 13 of 15 matrices in blocks")) fail_msg("the notes: %s", notes);
    free(notes);
    assert_ok(ctx, qkv_gguf_open(ctx, path, &g, &t));
    qkv_gguf_free(g);
    *values = qkv_tensors_find(t, "blk.0.attn_v_b.weight");
    assert_true(*values && qkv_types[(*values)->dtype]->kind == QKV_CLASS_BLOCKS);
    return t;
}

/* Heads with the same values have the same blocks: one product reads them, so that its importance is that of each. */
static void the_importance_of_a_latent_is_that_of_all_heads(void **state) {
    struct qkv_context *ctx = *state;
    struct qkv_model *model = make_model(ctx, LATENT_SPEC);
    struct qkv_importance *importance;
    struct qkv_pass *pass;
    const struct qkv_array *seen, *blind;
    int32_t ids[20];
    for (int i = 0; i < 20; i++) ids[i] = i * 37 % 300;
    for (size_t i = 0; i < qkv_model_parameters(model); i++) {
        const struct qkv_array *p = qkv_model_parameter(model, i);
        float *x = (float *)(uintptr_t)p->data;
        const size_t half = qkv_array_elements(p) / 2;
        if (!strcmp(p->name, "decoder.layers.0.attn.v_b.weight")) memcpy(x + half, x, half * sizeof *x);
    }
    assert_ok(ctx, qkv_importance_create(model, &importance));
    assert_ok(ctx, qkv_pass_create(model, &QKV_OPTIONS(qkv_pass_options, .B = 1, .T = 20), &pass));
    assert_ok(ctx, qkv_pass_forward(pass, &(struct qkv_batch){.B = 1, .T = 20, .ids = ids, .targets = ids}));
    qkv_pass_free(pass);
    struct qkv_tensors *t[] = {values_written(model, importance, &seen), values_written(model, NULL, &blind)};
    assert_int_equal(seen->bytes, blind->bytes);
    assert_memory_equal(seen->data, (const char *)seen->data + seen->bytes / 2, seen->bytes / 2);
    assert_memory_not_equal(seen->data, blind->data, seen->bytes);
    for (size_t i = 0; i < 2; i++) qkv_tensors_close(t[i]);
    qkv_importance_free(importance);
    qkv_model_free(model);
}

/* ---- files that cannot be ---------------------------------------------------------------------------------------- */

static void files_that_contradict_themselves_are_refused(void **state) {
    static const struct {
        const char *words;
        enum kind kind;
        struct change changes[4];
    } cases[] = {
        {"blk.0.attn_k_b.weight is (2, 8, 6) but its metadata makes it (2, 6, 8)", NOT_TRANSPOSED, {{NULL, 0}}},
        {"has no tensor blk.0.attn_v_b.weight", WITHOUT_VALUES, {{NULL, 0}}},
        {"has a tensor blk.0.attn_k_b.weight that its metadata", BOTH, {{NULL, 0}}},
        {"but its metadata makes it",
         SPLIT,
         {{"attention.key_length_mla", LEFT_OUT},
          {"attention.value_length_mla", LEFT_OUT},
          {"attention.head_count_kv", 2},
          {NULL, 0}}},
        {"attention.head_count_kv is 2", SPLIT, {{"attention.head_count_kv", 2}, {NULL, 0}}},
        {"expert_gating_func is 3", SPLIT, {{"expert_gating_func", 3}, {NULL, 0}}},
        {"has no tensor blk.1.exp_probs_b.bias", SPLIT, {{"expert_gating_func", 2}, {NULL, 0}}},
        {"qk_rope_head_dim is 4, but a head has 2 channels", SPLIT, {{"attention.key_length_mla", 2}, {NULL, 0}}},
        {"kv_lora_rank", SPLIT, {{"attention.kv_lora_rank", 0}, {NULL, 0}}},
        {"has no key deepseek2.attention.kv_lora_rank", SPLIT, {{"attention.kv_lora_rank", LEFT_OUT}, {NULL, 0}}},
        {"but its metadata makes it", SPLIT, {{"rope.dimension_count", 6}, {NULL, 0}}},
        {"has no tensor blk.1.ffn_gate.weight", SPLIT, {{"leading_dense_block_count", 2000000000}, {NULL, 0}}},
        {"experts", SPLIT, {{"expert_count", LEFT_OUT}, {NULL, 0}}},
        {"experts", SPLIT, {{"expert_used_count", 7}, {NULL, 0}}},
        {"n_group is 4", SPLIT, {{"expert_group_count", 4}, {"expert_group_used_count", 2}, {NULL, 0}}},
    };
    struct qkv_context *ctx = *state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qkv_model *model = NULL;
        const enum qkv_status status =
            qkv_model_load(ctx, remake(ctx, GOLDEN, cases[i].changes, cases[i].kind), &model);
        if (!status) fail_msg("case %zu is read; it should say: %s", i, cases[i].words);
        assert_null(model);
        if (!strstr(qkv_message(ctx), cases[i].words))
            fail_msg("case %zu: \"%s\" does not say \"%s\"", i, qkv_message(ctx), cases[i].words);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST_WITH_CONTEXT(older_files_are_the_same_model),
        TEST_WITH_CONTEXT(keys_tell_the_families_apart),
        TEST_WITH_CONTEXT(heads_are_transposed_in_all_types),
        TEST_WITH_CONTEXT(the_importance_of_a_latent_is_that_of_all_heads),
        TEST_WITH_CONTEXT(files_that_contradict_themselves_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
