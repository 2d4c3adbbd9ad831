/* An attention module with the weights of a golden model's first attention has the attention weights of that model:
 * out.weights of the golden cases, computed by another program in float64. The input of the attention, the normalised
 * embedding, is computed here. */
/* labels: quick */
#include "test.h"
#include "weights.h"

#include <dirent.h>

struct golden {
    struct qkv_context *ctx;
    struct qkv_model *model;
    struct qkv_tensors *file;
    const struct qkv_spec *spec;
    char stack[16]; /* "encoder" or "decoder": the one whose input are in.ids or in.source */
    const int32_t *ids;
    int32_t *ints, *lengths;
    size_t B, T, C;
};

static size_t compared; /* stacks */

/* The numbers of a parameter called stack + name, or NULL. */
static const float *weights(struct golden *g, const char *name, size_t *elements) {
    char path[128];
    snprintf(path, sizeof path, "%s.%s", g->stack, name);
    for (size_t i = 0; i < qkv_model_parameters(g->model); i++) {
        const struct qkv_array *p = qkv_model_parameter(g->model, i);
        if (strcmp(p->name, path) != 0) continue;
        if (elements) *elements = qkv_array_elements(p);
        return test_weights(g->model, i);
    }
    return NULL;
}

static void embed_row(struct golden *g, size_t n, double *x) {
    const struct qkv_embed_spec *spec = strcmp(g->stack, "encoder") ? &g->spec->decoder.embed : &g->spec->encoder.embed;
    const float *token = weights(g, "embed.token.weight", NULL), *learned = weights(g, "embed.position.weight", NULL);
    size_t t = n % g->T + (size_t)spec->position.offset;
    for (size_t c = 0; c < g->C; c++) {
        x[c] = (double)token[(size_t)g->ids[n] * g->C + c] * spec->scale;
        if (learned) x[c] += (double)learned[t * g->C + c];
        double angle = (double)t * pow(10000, -(double)(c / 2 * 2) / (double)g->C);
        if (spec->position.kind == QKV_POSITION_SINUSOIDAL) x[c] += c % 2 ? cos(angle) : sin(angle);
    }
}

static void norm_row(struct golden *g, const struct qkv_norm_spec *norm, double *x) {
    const float *w = weights(g, "layers.0.attn_norm.weight", NULL), *b = weights(g, "layers.0.attn_norm.bias", NULL);
    double mean = 0, square = 0;
    const double offset = qkv_norm_plus_one(norm->kind) ? 1 : 0;
    for (size_t c = 0; c < g->C; c++) mean += qkv_norm_centered(norm->kind) ? x[c] / (double)g->C : 0;
    for (size_t c = 0; c < g->C; c++) square += (x[c] - mean) * (x[c] - mean) / (double)g->C;
    for (size_t c = 0; c < g->C; c++)
        x[c] = (x[c] - mean) / sqrt(square + norm->eps) * (w ? offset + (double)w[c] : 1) + (b ? (double)b[c] : 0);
}

static float *make_input(struct golden *g, const struct qkv_norm_spec *norm) {
    float *x = malloc(g->B * g->T * g->C * sizeof *x);
    double *row = malloc(g->C * sizeof *row);
    const bool before =
        norm->attention && norm->placement != QKV_PLACEMENT_POST && norm->placement != QKV_PLACEMENT_OUTPUT;
    for (size_t n = 0; n < g->B * g->T; n++) {
        embed_row(g, n, row);
        if (before) norm_row(g, norm, row);
        for (size_t c = 0; c < g->C; c++) x[n * g->C + c] = (float)row[c];
    }
    free(row);
    return x;
}

static struct qkv_module *make_module(struct golden *g, const struct qkv_attention_spec *attention) {
    struct qkv_module *module;
    struct qkv_attention_module_spec spec = {.in = (int)g->C, .attention = *attention, .context = g->spec->context};
    assert_ok(g->ctx, qkv_module_create_attention(g->ctx, &spec, 0, &module));
    for (size_t i = 0; i < qkv_module_parameters(module); i++) {
        const struct qkv_array *p = qkv_module_parameter(module, i);
        const bool of_stack = strncmp(p->name, "position.", strlen("position.")) == 0; /* of all layers together */
        char name[64];
        size_t elements = 0;
        snprintf(name, sizeof name, "%s%s", of_stack ? "" : "layers.0.attn.", p->name);
        const float *from = weights(g, name, &elements);
        if (!from || elements != qkv_array_elements(p)) fail_msg("no %s.%s of %zu bytes", g->stack, name, p->bytes);
        memcpy(test_module_weights(module, i), from, p->bytes);
    }
    return module;
}

static void read_ints(struct golden *g, bool source) {
    const struct qkv_array *ids = qkv_tensors_find(g->file, source ? "in.source" : "in.ids");
    const struct qkv_array *lengths = qkv_tensors_find(g->file, source ? "in.source_lengths" : "in.lengths");
    assert_true(ids && ids->dtype == QKV_I32 && (!lengths || lengths->dtype == QKV_I32));
    g->B = ids->shape[0];
    g->T = ids->shape[1];
    g->ids = g->ints = malloc(ids->bytes);
    memcpy(g->ints, ids->data, ids->bytes);
    g->lengths = lengths ? malloc(lengths->bytes) : NULL;
    if (lengths) memcpy(g->lengths, lengths->data, lengths->bytes);
}

static void run_stack(struct golden *g, const struct qkv_stack_spec *stack, const char *name, bool source) {
    char path[64];
    snprintf(g->stack, sizeof g->stack, "%s", name);
    snprintf(path, sizeof path, "out.weights.%s.layers.0.attn", name);
    const struct qkv_array *expected = qkv_tensors_find(g->file, path);
    if (!stack->layers || !expected) return;
    const struct qkv_embed_spec *embed = &stack->embed; /* only tokens and positions are computed here */
    if (embed->norm.given || embed->types || embed->width || embed->position.layout) return;
    g->C = (size_t)qkv_stack_width(g->spec, stack);
    if (!weights(g, "embed.token.weight", NULL)) return;
    read_ints(g, source);
    struct qkv_module *module = make_module(g, &qkv_stack_layer(stack, 0)->attention);
    float *x = make_input(g, &qkv_stack_layer(stack, 0)->norm), *y = malloc(g->B * g->T * g->C * sizeof(float));
    struct qkv_module_input in = {.x = {x, g->B, g->T, g->C},
                                  .self.mask.lengths = g->lengths,
                                  .length = g->T}; /* as the reference decides rotations */
    assert_ok(g->ctx, qkv_module_forward(module, &in, (struct qkv_vectors){y, g->B, g->T, g->C}));
    size_t H = (size_t)qkv_stack_layer(stack, 0)->attention.heads, head = g->T * g->T;
    float *got = malloc(g->B * H * head * sizeof(float)), *golden = malloc(g->B * H * head * sizeof(float));
    for (size_t n = 0; n < g->B * H; n++)
        assert_ok(g->ctx,
                  qkv_module_attention_weights(module, QKV_ATTENTION_WEIGHTS, n / H, n % H, 0, g->T, got + n * head));
    assert_int_equal(qkv_array_elements(expected), g->B * H * head);
    qkv_array_floats(expected, golden);
    assert_floats_close(got, golden, g->B * H * head, 1e-5);
    compared++;
    float *each[] = {x, y, got, golden};
    for (size_t i = 0; i < TEST_COUNT(each); i++) free(each[i]);
    free(g->ints);
    free(g->lengths);
    qkv_module_free(module);
}

static void run_case(const char *folder, const char *isa) {
    struct golden g = {0};
    char path[600];
    snprintf(path, sizeof path, "%s/case.safetensors", folder);
    assert_int_equal(qkv_context_create(&g.ctx, &QKV_OPTIONS(qkv_context_options, .isa = isa)), QKV_OK);
    assert_ok(g.ctx, qkv_model_load(g.ctx, folder, &g.model));
    assert_ok(g.ctx, qkv_tensors_open(g.ctx, path, &g.file));
    g.spec = qkv_model_spec(g.model);
    printf("%s %s\n", isa, folder);
    fflush(stdout);
    run_stack(&g, &g.spec->decoder, "decoder", false);
    run_stack(&g, &g.spec->encoder, "encoder", g.spec->decoder.layers > 0);
    qkv_tensors_close(g.file);
    qkv_model_free(g.model);
    qkv_context_free(g.ctx);
}

static void test_golden(void **state) {
    (void)state;
    size_t count = 0; /* cases */
    for (size_t i = 0; qkv_isa_at(i); i++) {
        DIR *folder = opendir(TEST_SOURCE_DIR "/tests/golden");
        assert_non_null(folder);
        for (struct dirent *entry; (entry = readdir(folder));) {
            char path[512], config[600];
            snprintf(path, sizeof path, "%s/tests/golden/%s", TEST_SOURCE_DIR, entry->d_name);
            snprintf(config, sizeof config, "%s/config.json", path);
            if (entry->d_name[0] == '.' || access(config, R_OK) != 0) continue;
            run_case(path, qkv_isa_at(i));
            count++;
        }
        closedir(folder);
    }
    assert_true(count >= 14 && compared >= 14);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
