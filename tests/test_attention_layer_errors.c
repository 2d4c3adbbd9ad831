/* Every misuse of an attention layer returns a status and sets a message. */
/* labels: quick */
#include "attention_layer_case.h"

static void refuse_spec(struct qkv_context *ctx, struct qkv_attention_layer_spec spec, const char *sentence) {
    struct qkv_attention_layer *layer;
    assert_status(ctx, qkv_attention_layer_create(ctx, &spec, 0, &layer), QKV_SPEC);
    assert_null(layer);
    assert_message(ctx, sentence);
}
#define REFUSE(change, sentence)                                                                                       \
    do {                                                                                                               \
        struct qkv_attention_layer_spec s = good;                                                                      \
        change;                                                                                                        \
        refuse_spec(ctx, s, sentence);                                                                                 \
    } while (0)

static void test_specs(void **state) {
    (void)state;
    struct qkv_context *ctx;
    struct qkv_attention_layer *layer;
    const struct qkv_attention_layer_spec good = {
        .in = 12, .context = 8, .attention = {.heads = 3, .position.kind = QKV_POSITION_ROPE}};
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    assert_ok(ctx, qkv_attention_layer_create(ctx, &good, 0, &layer));
    const struct qkv_attention_layer_spec *full = qkv_attention_layer_spec(layer);
    assert_true(full->out == 12 && full->kv_in == 12 && full->attention.kv_heads == 3 &&
                full->attention.head_dim == 4 && full->attention.value_dim == 4 &&
                full->attention.position.theta == 10000 && full->attention.position.fraction == 1);
    qkv_attention_layer_free(layer);
    REFUSE(s.in = 0, "in is 0; it must be a whole number from 1 to 1048576");
    REFUSE(s.in = -4, "in is -4; it must be");
    REFUSE(s.in = INT32_MAX, "in is 2147483647; it must be");
    REFUSE(s.out = -1, "out is -1; it must be");
    REFUSE(s.kv_in = 5, "kv_in is 5, but without cross keys and values come from x, 12 wide");
    REFUSE((s.cross = true, s.attention.position.kind = QKV_POSITION_NONE, s.kv_in = -5), "kv_in is -5; it must be");
    REFUSE(s.attention.heads = 0, "attention.heads is 0; it must be");
    REFUSE(s.attention.heads = -3, "attention.heads is -3; it must be");
    REFUSE(s.attention.heads = 5, "attention.heads is 5, which does not divide in, 12; give attention.head_dim");
    REFUSE(s.attention.kv_heads = 2, "attention.kv_heads is 2, which does not divide heads, 3");
    REFUSE(s.attention.kv_heads = -1, "attention.kv_heads is -1; it must be");
    REFUSE(s.attention.head_dim = -8, "attention.head_dim is -8; it must be");
    REFUSE(s.attention.value_dim = -8, "attention.value_dim is -8; it must be");
    REFUSE(s.attention.window = -1, "attention.window is -1; it must be");
    REFUSE(s.attention.window_right = -1, "attention.window_right is -1; it must be");
    REFUSE(s.attention.clip = -1, "attention.clip is -1; it must be a number greater than 0, or 0 for none");
    REFUSE(s.attention.latent.given = true, "attention.latent.given is true, but a layer's cache has keys and values");
    REFUSE((s.attention.qk_norm.norm.given = true, s.attention.qk_norm.norm.eps = -1),
           "attention.qk_norm.eps is -1; it must be a number greater than 0, or 0 for 1e-5");
    REFUSE((s.attention.qk_norm.norm.given = true, s.attention.qk_norm.over = (enum qkv_norm_over)9),
           "attention.qk_norm.over is 9; it must be");
    REFUSE((s.attention.qk_norm.norm.given = true, s.attention.qk_norm.norm.bias = true),
           "attention.qk_norm.bias is true, which only a layernorm with a weight has");
    REFUSE(s.attention.head_dim = 1 << 20, "3 heads of 1048576 channels are too many");
    REFUSE(s.attention.softcap = -1,
           "attention.softcap is -1; it must be a number from 2.94e-39 to 3.4e38, or 0 for none");
    REFUSE(s.attention.softcap = 1e-40, "attention.softcap is 1e-40; it must be");
    REFUSE(s.attention.softcap = 1e300, "attention.softcap is 1e+300; it must be");
    REFUSE(s.attention.scale = NAN, "attention.scale is nan; it must be");
    REFUSE(s.attention.scale = 1e-300, "attention.scale is 1e-300; it must be");
    REFUSE(s.attention.bias = (enum qkv_bias_kind)99, "attention.bias is 99; it must be");
    REFUSE(s.dropout = 1, "dropout is 1; it must be a number from 0 to less than 1");
    REFUSE(s.dropout = -0.1, "dropout is -0.1; it must be");
    REFUSE(s.attention.position.kind = QKV_POSITION_LEARNED,
           "attention itself knows none, rope, alibi, buckets, relative");
    REFUSE(s.attention.position.kind = (enum qkv_position_kind)99,
           "attention.position.kind is 99; attention itself knows");
    REFUSE(s.attention.position.theta = -2, "attention.position.theta is -2; it must be");
    REFUSE(s.attention.position.fraction = 1.5, "attention.position.fraction is 1.5; it must be");
    REFUSE(s.attention.position.fraction = 0.1, "which rotates none of the 4 channels of attention.head_dim");
    REFUSE(s.attention.position.pairing = (enum qkv_pairing)9, "attention.position.pairing is 9; it must be");
    REFUSE(s.cross = true, "positions need queries and keys of one sequence");
    REFUSE(s.context = 0, "context is 0; it must be a whole number from 1 to 16777216");
    REFUSE(s.context = 1 << 25, "context is 33554432; it must be");
    assert_status(ctx, qkv_attention_layer_create(ctx, NULL, 0, &layer), QKV_ARGUMENT);
    assert_message(ctx, "spec is NULL");
    assert_null(layer);
    assert_status(ctx, qkv_attention_layer_create(ctx, &good, 0, NULL), QKV_ARGUMENT);
    assert_message(ctx, "out is NULL");
    assert_int_equal(qkv_attention_layer_create(NULL, &good, 0, &layer), QKV_ARGUMENT);
    qkv_attention_layer_free(NULL);
    qkv_context_free(ctx);
}

static void refuse(struct sample *s, struct qkv_attention_input in, enum qkv_status status, const char *sentence) {
    assert_status(s->ctx, qkv_attention_layer_forward(s->layer, &in, s->y), status);
    assert_message(s->ctx, sentence);
    float unused;
    assert_status(s->ctx, qkv_attention_layer_weights_of(s->layer, QKV_ATTENTION_WEIGHTS, 0, 0, 0, 1, &unused),
                  QKV_ARGUMENT);
    assert_message(s->ctx, "looking needs a forward before it");
}
#define REFUSE_INPUT(change, status, sentence)                                                                         \
    do {                                                                                                               \
        struct qkv_attention_input i = s.in;                                                                           \
        change;                                                                                                        \
        refuse(&s, i, status, sentence);                                                                               \
    } while (0)

static void test_self_misuse(void **state) {
    (void)state;
    struct sample s = {.random = test_random(2000)};
    struct qkv_attention_cache *cache, *three, *none;
    struct qkv_attention_layer *other;
    struct qkv_attention_layer_spec spec = {
        .in = 4, .context = 9, .attention = {.heads = 2, .causal = true, .position.kind = QKV_POSITION_ALIBI}};
    int32_t lengths[2] = {3, 99};
    assert_int_equal(qkv_context_create(&s.ctx, NULL), QKV_OK);
    make(&s, &spec, 2, 5, 0);
    assert_ok(s.ctx, qkv_attention_layer_create(s.ctx, &spec, 0, &other));
    assert_ok(s.ctx, qkv_attention_cache_create(s.layer, 2, 8, &cache));
    assert_ok(s.ctx, qkv_attention_cache_create(s.layer, 3, 8, &three));
    REFUSE_INPUT(i.mask.Tk = 9, QKV_SHAPE,
                 "the mask is made for (B,Tq,Tk) = (0,0,9), but queries and keys make (2,5,5)");
    REFUSE_INPUT(i.mask.offset = 3, QKV_ARGUMENT, "mask.offset is 3, but in self attention");
    REFUSE_INPUT(i.x = (const float *)(const void *)((const char *)s.x + 1), QKV_ARGUMENT, "x is at");
    REFUSE_INPUT(i.B = SIZE_MAX / 2, QKV_SHAPE, "is too large");
    REFUSE_INPUT((i.B = 1 << 20, i.T = 1 << 20), QKV_SHAPE,
                 "a batch of 1048576 rows of 1048576 positions is too large");
    REFUSE_INPUT(i.x = NULL, QKV_ARGUMENT, "x is NULL");
    REFUSE_INPUT(i.T = 10, QKV_ARGUMENT, "10 positions are more than the context of 9");
    REFUSE_INPUT(i.memory = s.x, QKV_ARGUMENT, "memory is given, but self attention reads x");
    REFUSE_INPUT(i.memory_T = 3, QKV_ARGUMENT, "memory is given, but self attention reads x");
    REFUSE_INPUT(i.mask.offsets = lengths, QKV_ARGUMENT, "mask.offsets is given, but in self attention");
    REFUSE_INPUT(i.mask.lengths = lengths, QKV_ARGUMENT, "lengths[1] is 99, but there are 0 to 5 keys");
    REFUSE_INPUT(i.mask.window = -2, QKV_ARGUMENT, "window is -2");
    REFUSE_INPUT((i.bias = s.x, i.bias_shape.Tk = 4), QKV_SHAPE, "bias is (0,0,0,4)");
    REFUSE_INPUT((i.dense = (const uint8_t *)lengths, i.dense_shape.Tk = 4), QKV_SHAPE, "dense mask is (0,0,0,4)");
    REFUSE_INPUT(i.dbias = s.y, QKV_ARGUMENT, "dbias needs a bias, and train");
    REFUSE_INPUT((i.cache = cache, i.train = true), QKV_ARGUMENT, "with a cache there is no backward");
    REFUSE_INPUT(i.cache = three, QKV_SHAPE, "the cache has 3 rows, but the batch has 2");
    struct qkv_attention_input in = s.in;
    in.cache = cache;
    assert_status(s.ctx, qkv_attention_layer_forward(other, &in, s.y), QKV_ARGUMENT);
    assert_message(s.ctx, "the cache was made for another layer");
    assert_ok(s.ctx, qkv_attention_layer_forward(s.layer, &in, s.y));
    REFUSE_INPUT(i.cache = cache, QKV_ARGUMENT, "5 more positions do not fit: the cache holds 5 of 8");
    assert_int_equal(qkv_attention_cache_length(cache), 5);
    assert_status(s.ctx, qkv_attention_layer_forward(s.layer, NULL, s.y), QKV_ARGUMENT);
    assert_message(s.ctx, "input is NULL");
    assert_status(s.ctx, qkv_attention_layer_forward(s.layer, &s.in, NULL), QKV_ARGUMENT);
    assert_message(s.ctx, "y is NULL");
    assert_int_equal(qkv_attention_layer_forward(NULL, &s.in, s.y), QKV_ARGUMENT);
    assert_status(s.ctx, qkv_attention_cache_create(s.layer, 0, 8, &none), QKV_ARGUMENT);
    assert_message(s.ctx, "0 rows of 8 positions are impossible");
    assert_null(none);
    assert_status(s.ctx, qkv_attention_cache_create(s.layer, 1, 10, &none), QKV_ARGUMENT);
    assert_message(s.ctx, "10 positions are more than the context of the layer, 9");
    assert_status(s.ctx, qkv_attention_cache_create(s.layer, 1, 0, &none), QKV_ARGUMENT);
    assert_status(s.ctx, qkv_attention_cache_create(s.layer, 1, 1, NULL), QKV_ARGUMENT);
    assert_int_equal(qkv_attention_cache_create(NULL, 1, 1, &none), QKV_ARGUMENT);
    qkv_attention_cache_free(three);
    qkv_attention_cache_free(NULL);
    qkv_attention_layer_free(other);
    finish(&s);
    qkv_attention_cache_free(cache); /* outlives its layer */
}

static void test_cross_misuse(void **state) {
    (void)state;
    struct sample s = {.random = test_random(2100)};
    struct qkv_attention_cache *cache;
    struct qkv_attention_layer_spec spec = {.in = 4, .kv_in = 6, .cross = true, .attention.heads = 2};
    assert_int_equal(qkv_context_create(&s.ctx, NULL), QKV_OK);
    make(&s, &spec, 2, 5, 7);
    assert_ok(s.ctx, qkv_attention_cache_create(s.layer, 2, 6, &cache));
    REFUSE_INPUT(i.memory = NULL, QKV_ARGUMENT, "cross attention needs a memory, or a cache that has one");
    REFUSE_INPUT((i.memory = NULL, i.cache = cache), QKV_ARGUMENT, "memory is NULL, but the cache holds none yet");
    REFUSE_INPUT(i.memory_T = (size_t)1 << 40, QKV_SHAPE, "a memory of 2 rows of 1099511627776 positions is too large");
    REFUSE_INPUT(i.cache = cache, QKV_ARGUMENT, "a memory of 7 positions does not fit into a cache of 6");
    s.in.cache = cache;
    s.in.memory_T = 6;
    assert_ok(s.ctx, qkv_attention_layer_forward(s.layer, &s.in, s.y));
    REFUSE_INPUT((i.memory = NULL, i.memory_T = 5), QKV_SHAPE, "memory_T is 5, but the cache holds 6 positions");
    assert_ok(s.ctx, qkv_attention_layer_forward(s.layer, &s.in, s.y));
    qkv_attention_cache_free(cache);
    float unused[6];
    assert_status(s.ctx, qkv_attention_layer_weights_of(s.layer, QKV_ATTENTION_WEIGHTS, 0, 0, 0, 1, unused),
                  QKV_ARGUMENT);
    assert_message(s.ctx, "looking needs a forward before it, its cache alive");
    finish(&s);
}

static void test_backward_misuse(void **state) {
    (void)state;
    struct sample s = {.random = test_random(2200)};
    struct qkv_attention_layer_spec spec = {.in = 4, .attention.heads = 2};
    float out[25];
    assert_int_equal(qkv_context_create(&s.ctx, NULL), QKV_OK);
    make(&s, &spec, 2, 5, 1);
    assert_status(s.ctx, qkv_attention_layer_backward(s.layer, s.dy, s.dx, NULL), QKV_ARGUMENT);
    assert_message(s.ctx, "backward needs a forward with train before it");
    assert_ok(s.ctx, qkv_attention_layer_forward(s.layer, &s.in, s.y));
    assert_status(s.ctx, qkv_attention_layer_backward(s.layer, s.dy, s.dx, NULL), QKV_ARGUMENT);
    s.in.train = true;
    assert_ok(s.ctx, qkv_attention_layer_forward(s.layer, &s.in, s.y));
    assert_status(s.ctx, qkv_attention_layer_backward(s.layer, NULL, s.dx, NULL), QKV_ARGUMENT);
    assert_message(s.ctx, "dy is NULL");
    assert_status(s.ctx, qkv_attention_layer_backward(s.layer, s.dy, s.dx, s.dmemory), QKV_ARGUMENT);
    assert_message(s.ctx, "dmemory is given, but self attention has no memory");
    assert_ok(s.ctx, qkv_attention_layer_backward(s.layer, s.dy, s.dx, NULL));
    assert_status(s.ctx, qkv_attention_layer_backward(s.layer, s.dy, s.dx, NULL), QKV_ARGUMENT);
    assert_ok(s.ctx,
              qkv_attention_layer_weights_of(s.layer, QKV_ATTENTION_WEIGHTS, 1, 1, 0, 5, out)); /* backward leaves it */
    static const size_t bad[][4] = {{2, 0, 0, 1}, {0, 2, 0, 1}, {0, 0, 6, 0}, {0, 0, 4, 2}, {0, 0, 1, SIZE_MAX}};
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        assert_status(s.ctx,
                      qkv_attention_layer_weights_of(s.layer, QKV_ATTENTION_WEIGHTS, bad[i][0], bad[i][1], bad[i][2],
                                                     bad[i][3], out),
                      QKV_SHAPE);
        assert_message(s.ctx, "do not exist in (B,H,Tq) = (2,2,5)");
    }
    assert_status(s.ctx, qkv_attention_layer_weights_of(s.layer, (enum qkv_attention_stage)9, 0, 0, 0, 1, out),
                  QKV_ARGUMENT);
    assert_message(s.ctx, "stage is 9; it must be");
    assert_status(s.ctx, qkv_attention_layer_weights_of(s.layer, QKV_ATTENTION_WEIGHTS, 0, 0, 0, 1, NULL),
                  QKV_ARGUMENT);
    assert_message(s.ctx, "out is NULL");
    assert_int_equal(qkv_attention_layer_weights_of(NULL, QKV_ATTENTION_WEIGHTS, 0, 0, 0, 1, out), QKV_ARGUMENT);
    assert_int_equal(qkv_attention_layer_backward(NULL, s.dy, NULL, NULL), QKV_ARGUMENT);
    finish(&s);
}

/* Empty batches, and a memory without positions, are not errors. */
static void test_empty(void **state) {
    (void)state;
    struct sample s = {.random = test_random(2300)};
    struct qkv_attention_layer_spec spec = {
        .in = 4, .kv_in = 6, .cross = true, .attention = {.heads = 2, .bias = QKV_BIAS_ALL}};
    assert_int_equal(qkv_context_create(&s.ctx, NULL), QKV_OK);
    make(&s, &spec, 2, 5, 7);
    s.in.train = true;
    struct qkv_attention_input in = s.in;
    in.B = 0;
    in.x = NULL;
    assert_ok(s.ctx, qkv_attention_layer_forward(s.layer, &in, NULL));
    assert_ok(s.ctx, qkv_attention_layer_backward(s.layer, s.dy, s.dx, s.dmemory));
    in = s.in;
    in.T = 0;
    assert_ok(s.ctx, qkv_attention_layer_forward(s.layer, &in, s.y));
    assert_ok(s.ctx, qkv_attention_layer_backward(s.layer, s.dy, s.dx, s.dmemory));
    for (size_t e = 0; e < 2 * 7 * 6; e++) assert_true(s.dmemory[e] == 0);
    in = s.in;
    in.memory_T = 0;
    assert_ok(s.ctx, qkv_attention_layer_forward(s.layer, &in, s.y));
    size_t last = qkv_attention_layer_parameters(s.layer) - 1;
    assert_string_equal(qkv_attention_layer_parameter(s.layer, last)->name, "o.bias");
    const float *bias = qkv_attention_layer_weights(s.layer, last), *g = qkv_attention_layer_gradient(s.layer, last);
    for (size_t e = 0; e < 2 * 5 * 4; e++) assert_true(s.y[e] == bias[e % 4]);
    qkv_attention_layer_clear_gradients(s.layer);
    assert_ok(s.ctx, qkv_attention_layer_backward(s.layer, s.dy, s.dx, s.dmemory));
    for (size_t c = 0; c < 4; c++) {
        float sum = 0;
        for (size_t n = 0; n < 10; n++) sum += s.dy[n * 4 + c];
        assert_true(fabsf(sum - g[c]) < 1e-5F);
    }
    for (size_t e = 0; e < 2 * 5 * 4; e++) assert_true(s.dx[e] == 0);
    finish(&s);
}

/* NaN in padding reaches neither outputs nor gradients, of weights too. */
static void test_padding_of_anything(void **state) {
    (void)state;
    for (int cross = 0; cross < 2; cross++) {
        struct sample s = {.random = test_random(2400)};
        struct qkv_attention_layer_spec spec = {.in = 4, .kv_in = 4, .cross = cross, .attention.heads = 2};
        int32_t lengths[2] = {5, 3};
        assert_int_equal(qkv_context_create(&s.ctx, NULL), QKV_OK);
        make(&s, &spec, 2, 5, cross ? 5 : 1);
        s.in.mask.lengths = lengths;
        s.in.train = true;
        float *padded = cross ? s.memory : s.x;
        for (size_t e = (5 + 3) * 4; e < 2 * 5 * 4; e++) padded[e] = e % 2 ? NAN : INFINITY;
        assert_ok(s.ctx, qkv_attention_layer_forward(s.layer, &s.in, s.y));
        assert_ok(s.ctx, qkv_attention_layer_backward(s.layer, s.dy, s.dx, cross ? s.dmemory : NULL));
        for (size_t e = 0; e < 2 * 5 * 4; e++) assert_true(isfinite(s.y[e]) && isfinite(s.dx[e]));
        for (size_t i = 0; i < qkv_attention_layer_parameters(s.layer); i++)
            for (size_t e = 0; e < qkv_array_elements(qkv_attention_layer_parameter(s.layer, i)); e++)
                assert_true(isfinite(qkv_attention_layer_gradient(s.layer, i)[e]));
        finish(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_specs),        cmocka_unit_test(test_self_misuse),
        cmocka_unit_test(test_cross_misuse), cmocka_unit_test(test_backward_misuse),
        cmocka_unit_test(test_empty),        cmocka_unit_test(test_padding_of_anything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
