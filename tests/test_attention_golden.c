/* test_attention_golden.c: attention on plain buffers against cases of other programs, on every kernel table of this
 * machine: the golden cases in tests/golden/attention, and, if they are installed, the ONNX project's own cases of
 * its operators Attention (versions 23 and 24) and RotaryEmbedding (23). */
/* labels: quick */
#include "test.h"

#include <glob.h>

static struct qkv_context *ctx;

static float *floats(size_t n) {
    float *x = calloc(n + 1, sizeof *x);
    assert_non_null(x);
    return x;
}

/* A tensor of the open file as floats, or NULL if it is not there. */
static float *read_floats(const struct qkv_tensors *file, const char *name) {
    const struct qkv_array *array = qkv_tensors_find(file, name);
    if (!array) return NULL;
    float *x = floats(qkv_array_elements(array));
    qkv_array_floats(array, x);
    return x;
}

static uint8_t *read_bytes(const struct qkv_tensors *file, const char *name) {
    const struct qkv_array *array = qkv_tensors_find(file, name);
    if (!array || array->dtype != QKV_BOOL) return NULL;
    uint8_t *x = (uint8_t *)floats(array->bytes / sizeof(float) + 1);
    memcpy(x, array->data, array->bytes);
    return x;
}

static int32_t *read_integers(const struct qkv_tensors *file, const char *name) {
    float *x = read_floats(file, name);
    const struct qkv_array *array = qkv_tensors_find(file, name);
    if (!x) return NULL;
    int32_t *n = (int32_t *)floats(qkv_array_elements(array));
    for (size_t i = 0; i < qkv_array_elements(array); i++) n[i] = (int32_t)x[i];
    free(x);
    return n;
}

/* A number of the "attributes" in the metadata, `otherwise` if it is not given. */
static double attribute(const struct qkv_tensors *file, const char *name, double otherwise) {
    const char *text = qkv_tensors_metadata(file, "attributes"), *at;
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\": ", name);
    assert_non_null(text);
    at = strstr(text, quoted);
    if (!at) return otherwise;
    at += strlen(quoted);
    return *at == 't' ? 1 : *at == 'f' ? 0 : strtod(at, NULL);
}

/* (B,1,Tq,Tk) or (Tq,Tk) …: what is missing in front is 1. */
static struct qkv_pair_shape pair_shape(const struct qkv_array *array) {
    size_t n[4] = {1, 1, 1, 1};
    for (int i = 0; i < array->rank; i++) n[4 - array->rank + i] = array->shape[i];
    return (struct qkv_pair_shape){.B = n[0], .H = n[1], .Tq = n[2], .Tk = n[3]};
}

static void compare(const struct qkv_tensors *file, const char *name, const float *got, double tolerance) {
    float *expected = read_floats(file, name);
    assert_non_null(expected);
    size_t n = qkv_array_elements(qkv_tensors_find(file, name));
    double error = test_relative_error(got, expected, n);
    if (!(error <= tolerance)) fail_msg("%s: relative error %g", name, error);
    free(expected);
}

/* ---- golden cases ----------------------------------------------------------------------------------------------- */

static struct qkv_view read_view(const struct qkv_tensors *file, const char *name) {
    const struct qkv_array *a = qkv_tensors_find(file, name);
    assert_non_null(a);
    assert_int_equal(a->rank, 4);
    return qkv_view_bhtd(read_floats(file, name), QKV_F32, a->shape[0], a->shape[1], a->shape[2], a->shape[3]);
}

static struct qkv_view like(struct qkv_view x) {
    return qkv_view_bhtd(floats(x.B * x.H * x.T * x.D), QKV_F32, x.B, x.H, x.T, x.D);
}

static void golden_weights(const struct qkv_tensors *file, const struct qkv_attention_call *c) {
    size_t one = c->q.T * c->k.T;
    float *w = floats(c->q.B * c->q.H * one);
    for (size_t n = 0; n < c->q.B * c->q.H; n++)
        assert_ok(ctx,
                  qkv_attention_weights(ctx, c, QKV_ATTENTION_WEIGHTS, n / c->q.H, n % c->q.H, 0, c->q.T, w + n * one));
    compare(file, "out.weights", w, 1e-5);
    free(w);
}

static void golden_case(const char *path) {
    struct qkv_tensors *file;
    assert_ok(ctx, qkv_tensors_open(ctx, path, &file));
    struct qkv_attention_call c = {
        .q = read_view(file, "in.q"), .k = read_view(file, "in.k"), .v = read_view(file, "in.v")};
    struct qkv_attention_gradients g = {
        .dy = read_view(file, "in.output_gradient"), .dq = like(c.q), .dk = like(c.k), .dv = like(c.v)};
    int32_t *lengths = read_integers(file, "in.kv_lengths");
    float *slopes = read_floats(file, "in.alibi_slopes"), *bias = read_floats(file, "in.bias");
    uint8_t *dense = read_bytes(file, "in.mask");
    c.y = like(g.dy);
    c.lse = floats(c.q.B * c.q.H * c.q.T);
    c.scale = attribute(file, "scale", NAN), c.softcap = attribute(file, "softcap", NAN);
    c.mask = (struct qkv_mask){.causal = attribute(file, "causal", NAN) > 0,
                               .offset = (int64_t)attribute(file, "offset", NAN),
                               .window = (int64_t)attribute(file, "window", NAN),
                               .lengths = lengths};
    c.alibi = slopes, c.bias = bias, c.dense = dense;
    if (bias) {
        c.bias_shape = pair_shape(qkv_tensors_find(file, "in.bias"));
        g.dbias = floats(qkv_array_elements(qkv_tensors_find(file, "in.bias")));
    }
    if (dense) c.dense_shape = pair_shape(qkv_tensors_find(file, "in.mask"));
    assert_ok(ctx, qkv_attention_forward(ctx, &c));
    assert_ok(ctx, qkv_attention_backward(ctx, &c, &g));
    compare(file, "out.y", c.y.data, 1e-5);
    compare(file, "grad.q", g.dq.data, 1e-4);
    compare(file, "grad.k", g.dk.data, 1e-4);
    compare(file, "grad.v", g.dv.data, 1e-4);
    if (bias) compare(file, "grad.bias", g.dbias, 1e-4);
    golden_weights(file, &c);
    void *blocks[] = {c.q.data,  c.k.data,  c.v.data, c.y.data, c.lse, g.dy.data, g.dq.data,
                      g.dk.data, g.dv.data, lengths,  slopes,   bias,  dense,     g.dbias};
    for (size_t i = 0; i < TEST_COUNT(blocks); i++) free(blocks[i]);
    qkv_tensors_close(file);
}

/* ---- ONNX ------------------------------------------------------------------------------------------------------- */

/* (B,H,T,D), or (B,T,H·D) with the number of heads in an attribute. */
static struct qkv_view onnx_view(const struct qkv_tensors *file, const char *name, const char *heads) {
    const struct qkv_array *a = qkv_tensors_find(file, name);
    if (!a) return (struct qkv_view){0};
    float *x = read_floats(file, name);
    if (a->rank == 4) return qkv_view_bhtd(x, QKV_F32, a->shape[0], a->shape[1], a->shape[2], a->shape[3]);
    size_t H = (size_t)attribute(file, heads, 0);
    assert_int_equal(a->rank, 3);
    assert_true(H > 0 && a->shape[2] % H == 0);
    return qkv_view_bthd(x, QKV_F32, a->shape[0], a->shape[1], H, a->shape[2] / H);
}

static void copy_rows(const struct qkv_view *to, size_t first, const struct qkv_view *from) {
    for (size_t n = 0; n < from->B * from->H * from->T; n++) {
        size_t t = n % from->T, h = n / from->T % from->H, b = n / from->T / from->H;
        memcpy((float *)to->data + b * to->batch + h * to->head + (first + t) * to->row,
               (const float *)from->data + b * from->batch + h * from->head + t * from->row, from->D * sizeof(float));
    }
}

/* Past and new keys in one array, which is what ONNX calls the present: the same call over it gives the same bits. */
static void onnx_present(const struct qkv_tensors *file, const struct qkv_attention_call *c) {
    if (!qkv_tensors_find(file, "out.present_key")) return;
    struct qkv_attention_call whole = *c;
    size_t T = c->past_k.T + c->k.T, n = c->y.B * c->y.H * c->y.T * c->y.D;
    float *k = floats(c->k.B * c->k.H * T * c->k.D), *v = floats(c->v.B * c->v.H * T * c->v.D), *y = floats(n);
    whole.k = qkv_view_bhtd(k, QKV_F32, c->k.B, c->k.H, T, c->k.D);
    whole.v = qkv_view_bhtd(v, QKV_F32, c->v.B, c->v.H, T, c->v.D);
    copy_rows(&whole.k, 0, &c->past_k), copy_rows(&whole.k, c->past_k.T, &c->k);
    copy_rows(&whole.v, 0, &c->past_v), copy_rows(&whole.v, c->past_v.T, &c->v);
    compare(file, "out.present_key", k, 0);
    compare(file, "out.present_value", v, 0);
    whole.past_k = whole.past_v = (struct qkv_view){0};
    whole.y.data = y;
    assert_ok(ctx, qkv_attention_forward(ctx, &whole));
    assert_memory_equal(y, c->y.data, n * sizeof(float));
    free(k), free(v), free(y);
}

/* A mask that ends before the keys is padded with false or −inf: the same bits as with that written out. */
static void onnx_short_mask(const struct qkv_attention_call *c) {
    struct qkv_attention_call cut = *c, padded = *c;
    const struct qkv_pair_shape whole = c->dense ? c->dense_shape : c->bias_shape;
    const size_t rows = whole.B * whole.H * whole.Tq, n = c->y.B * c->y.H * c->y.T * c->y.D;
    if (!c->dense && !c->bias) return;
    uint8_t *dense = (uint8_t *)floats(rows * whole.Tk);
    float *bias = floats(rows * whole.Tk), *y = floats(n), *expected = floats(n);
    for (size_t keys = 0; keys < whole.Tk; keys++) {
        for (size_t e = 0; e < rows * whole.Tk; e++)
            if (c->dense)
                dense[e] = e % whole.Tk < keys && c->dense[e];
            else
                bias[e] = e % whole.Tk < keys ? c->bias[e] : -INFINITY;
        struct qkv_pair_shape s = whole;
        s.row = whole.Tk, s.head = s.row * s.Tq, s.batch = s.head * s.H, s.Tk = keys;
        if (c->dense)
            cut.dense_shape = s, padded.dense = dense;
        else
            cut.bias_shape = s, padded.bias = bias;
        cut.y.data = y, padded.y.data = expected;
        assert_ok(ctx, qkv_attention_forward(ctx, &cut));
        assert_ok(ctx, qkv_attention_forward(ctx, &padded));
        assert_memory_equal(y, expected, n * sizeof(float));
    }
    free(dense), free(bias), free(y), free(expected);
}

/* qk_matmul_output_mode: 0 products, 1 after the softcap, 2 with the mask, 3 weights. */
static void onnx_stage(const struct qkv_tensors *file, const struct qkv_attention_call *c, double tolerance) {
    static const enum qkv_attention_stage stages[] = {QKV_ATTENTION_PRODUCTS, QKV_ATTENTION_CAPPED,
                                                      QKV_ATTENTION_SCORES, QKV_ATTENTION_WEIGHTS};
    if (!qkv_tensors_find(file, "out.qk_matmul_output")) return;
    enum qkv_attention_stage stage = stages[(size_t)attribute(file, "qk_matmul_output_mode", 0)];
    size_t one = c->q.T * (c->past_k.T + c->k.T);
    float *out = floats(c->q.B * c->q.H * one);
    for (size_t n = 0; n < c->q.B * c->q.H; n++)
        assert_ok(ctx, qkv_attention_weights(ctx, c, stage, n / c->q.H, n % c->q.H, 0, c->q.T, out + n * one));
    compare(file, "out.qk_matmul_output", out, tolerance);
    free(out);
}

static void onnx_attention(const struct qkv_tensors *file) {
    const struct qkv_array *mask = qkv_tensors_find(file, "in.attn_mask");
    /* Cases in half precision are computed in fp32, and their outputs were rounded. */
    double tolerance = qkv_tensors_find(file, "in.Q")->dtype == QKV_F16 ? 1e-3 : 1e-5;
    struct qkv_attention_call c = {.q = onnx_view(file, "in.Q", "q_num_heads"),
                                   .k = onnx_view(file, "in.K", "kv_num_heads"),
                                   .v = onnx_view(file, "in.V", "kv_num_heads"),
                                   .past_k = onnx_view(file, "in.past_key", "kv_num_heads"),
                                   .past_v = onnx_view(file, "in.past_value", "kv_num_heads"),
                                   .y = onnx_view(file, "out.Y", "q_num_heads"),
                                   .scale = attribute(file, "scale", 0),
                                   .softcap = attribute(file, "softcap", 0),
                                   .mask.causal = attribute(file, "is_causal", 0) > 0};
    c.mask.offset = (int64_t)c.past_k.T;
    uint8_t *dense = read_bytes(file, "in.attn_mask");
    float *bias = mask && !dense ? read_floats(file, "in.attn_mask") : NULL;
    c.dense = dense, c.bias = bias;
    if (mask) *(dense ? &c.dense_shape : &c.bias_shape) = pair_shape(mask);
    c.lse = floats(c.q.B * c.q.H * c.q.T);
    memset(c.y.data, 0x55, qkv_array_elements(qkv_tensors_find(file, "out.Y")) * sizeof(float));
    assert_ok(ctx, qkv_attention_forward(ctx, &c));
    compare(file, "out.Y", c.y.data, tolerance);
    onnx_present(file, &c);
    onnx_stage(file, &c, tolerance);
    onnx_short_mask(&c);
    void *blocks[] = {c.q.data, c.k.data, c.v.data, c.past_k.data, c.past_v.data, c.y.data, c.lse, dense, bias};
    for (size_t i = 0; i < TEST_COUNT(blocks); i++) free(blocks[i]);
}

static void onnx_rotary(const struct qkv_tensors *file) {
    const struct qkv_array *cache = qkv_tensors_find(file, "in.cos_cache");
    struct qkv_view x = onnx_view(file, "in.X", "num_heads");
    float *cosine = read_floats(file, "in.cos_cache"), *sine = read_floats(file, "in.sin_cache");
    int32_t *positions = read_integers(file, "in.position_ids");
    struct qkv_rotation r = {.pairs = cache->shape[cache->rank - 1],
                             .interleaved = attribute(file, "interleaved", 0) > 0};
    r.count = qkv_array_elements(cache) / r.pairs;
    float *table = floats(2 * r.count * r.pairs);
    for (size_t e = 0; e < r.count * r.pairs; e++) table[2 * e] = cosine[e], table[2 * e + 1] = sine[e];
    if (!positions) { /* a table row for each row of x */
        positions = (int32_t *)floats(x.B * x.T);
        for (size_t n = 0; n < x.B * x.T; n++) positions[n] = (int32_t)n;
    }
    r.table = table, r.positions = positions;
    assert_ok(ctx, qkv_rotate(ctx, &x, &r));
    compare(file, "out.output", x.data, 1e-5);
    free(x.data), free(cosine), free(sine), free(positions), free(table);
}

static void onnx_case(const char *path) {
    struct qkv_tensors *file;
    assert_ok(ctx, qkv_tensors_open(ctx, path, &file));
    const char *operator= qkv_tensors_metadata(file, "operator");
    assert_non_null(operator);
    if (strcmp(operator, "RotaryEmbedding") == 0)
        onnx_rotary(file);
    else
        onnx_attention(file);
    qkv_tensors_close(file);
}

/* ---- both ------------------------------------------------------------------------------------------------------- */

/* Runs a case for every file that matches, on every kernel table; returns how many files there are. */
static size_t for_files(const char *pattern, void (*run)(const char *path)) {
    glob_t found;
    if (glob(pattern, 0, NULL, &found) != 0) return 0;
    for (size_t t = 0; qkv_isa_at(t); t++) {
        struct qkv_context_options options = {.size = sizeof options, .isa = qkv_isa_at(t), .threads = 2};
        assert_ok(ctx, qkv_context_create(&ctx, &options));
        for (size_t i = 0; i < found.gl_pathc; i++) {
            print_message("%s: %s\n", qkv_context_isa(ctx), strrchr(found.gl_pathv[i], '/') + 1);
            run(found.gl_pathv[i]);
        }
        qkv_context_free(ctx);
    }
    size_t count = found.gl_pathc;
    globfree(&found);
    return count;
}

static void test_golden(void **state) {
    (void)state;
    assert_int_equal(for_files(TEST_SOURCE_DIR "/tests/golden/attention/*.safetensors", golden_case), 22);
}

static void test_onnx(void **state) {
    (void)state;
    const char *folders[] = {getenv("QKV_DATA"), TEST_SOURCE_DIR "/../shared/data"};
    char pattern[1024];
    size_t count = 0;
    for (size_t i = 0; i < TEST_COUNT(folders) && !count; i++) {
        snprintf(pattern, sizeof pattern, "%s/onnx/*.safetensors", folders[i] ? folders[i] : "");
        if (folders[i]) count = for_files(pattern, onnx_case);
    }
    if (count) return;
    print_message("no ONNX cases at %s: this test was skipped\n", pattern);
    skip();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden), cmocka_unit_test(test_onnx)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
