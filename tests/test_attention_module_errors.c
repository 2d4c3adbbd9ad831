/* Every misuse of an attention module returns a status and sets a message. */
/* labels: quick */
#include "attention_module_case.h"
#include "search_fixture.h"

static void refuse_spec(struct qkv_context *ctx, struct qkv_attention_module_spec spec, const char *sentence) {
    struct qkv_module *module;
    assert_status(ctx, qkv_module_create_attention(ctx, &spec, 0, &module), QKV_SPEC);
    assert_null(module);
    assert_message(ctx, sentence);
}
#define REFUSE(change, sentence)                                                                                       \
    do {                                                                                                               \
        struct qkv_attention_module_spec s = good;                                                                     \
        change;                                                                                                        \
        refuse_spec(ctx, s, sentence);                                                                                 \
    } while (0)

static void test_specs(void **state) {
    (void)state;
    struct qkv_context *ctx;
    struct qkv_module *module;
    const struct qkv_attention_module_spec good = {
        .in = 12, .context = 8, .attention = {.heads = 3, .position.kind = QKV_POSITION_ROPE}};
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    assert_ok(ctx, qkv_module_create_attention(ctx, &good, 0, &module));
    const struct qkv_attention_module_spec *full = qkv_module_attention_spec(module);
    assert_true(full->out == 12 && full->kv_in == 12 && full->attention.kv_heads == 3 &&
                full->attention.head_dim == 4 && full->attention.value_dim == 4 &&
                full->attention.position.theta == 10000 && full->attention.position.fraction == 1);
    qkv_module_free(module);
    REFUSE(s.in = 0, "in is 0; it must be a whole number from 1 to 1048576");
    REFUSE(s.in = -4, "in is -4; it must be");
    REFUSE(s.in = INT32_MAX, "in is 2147483647; it must be");
    REFUSE(s.out = -1, "out is -1; it must be");
    REFUSE(s.kv_in = 5, "kv_in is 5, but without cross keys and values come from x, 12 wide");
    REFUSE((s.cross = true, s.attention.position.kind = QKV_POSITION_NONE, s.kv_in = -5), "kv_in is -5; it must be");
    REFUSE(s.attention.heads = 0, "attention.heads is 0; it must be");
    REFUSE(s.attention.heads = -3, "attention.heads is -3; it must be");
    REFUSE(s.attention.heads = 5, "attention.heads is 5, which does not divide in, 12; give attention.head_dim");
    REFUSE(s.attention.kv_heads = 2, "attention.kv_heads is 2, which does not divide heads 3 (choose 1 or 3)");
    REFUSE(s.attention.kv_heads = -1, "attention.kv_heads is -1; it must be");
    REFUSE(s.attention.head_dim = -8, "attention.head_dim is -8; it must be");
    REFUSE(s.attention.value_dim = -8, "attention.value_dim is -8; it must be");
    REFUSE(s.attention.window = -1, "attention.window is -1; it must be");
    REFUSE(s.attention.window_right = -1, "attention.window_right is -1; it must be");
    REFUSE(s.attention.clip = -1, "attention.clip is -1; it must be a number greater than 0, or 0 for none");
    REFUSE((s.cross = true, s.attention.position.kind = QKV_POSITION_NONE, s.attention.latent.given = true),
           "attention.latent is given, but only self attention has one");
    REFUSE(s.attention.share = 1, "attention.share is 1, but there are no layers before it; leave it 0");
    REFUSE(s.value_in = 5, "value_in is 5, but without cross keys and values come from x, 12 wide");
    REFUSE((s.attention.qk_norm.norm.given = true, s.attention.qk_norm.norm.eps = -1),
           "attention.qk_norm.eps is -1; it must be a number greater than 0");
    REFUSE((s.attention.qk_norm.norm.given = true, s.attention.qk_norm.over = (enum qkv_norm_over)9),
           "attention.qk_norm.over is 9; it must be");
    REFUSE((s.attention.qk_norm.norm.given = true, s.attention.qk_norm.norm.bias = true),
           "attention.qk_norm.bias is true, but attention.qk_norm.weight is false: a bare norm has neither");
    REFUSE(s.attention.head_dim = 1 << 20,
           "attention.heads × head_dim is 3 × 1048576; together they may be at most 1048576");
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
           "attention.position.kind is 2; it must be one of none, rope, alibi, buckets, relative");
    REFUSE(s.attention.position.kind = (enum qkv_position_kind)99, "attention.position.kind is 99; it must be");
    REFUSE(s.attention.position.theta = -2, "attention.position.theta is -2; it must be");
    REFUSE(s.attention.position.fraction = 1.5, "attention.position.fraction is 1.5; it must be");
    REFUSE(s.attention.position.fraction = 0.1, "which rotates none of the 4 channels of attention.head_dim");
    REFUSE(s.attention.position.pairing = (enum qkv_pairing)9, "attention.position.pairing is 9; it must be");
    REFUSE(s.cross = true, "positions need queries and keys of one sequence");
    REFUSE(s.context = 0, "context is 0; it must be a whole number from 1 to 16777216");
    REFUSE(s.context = 1 << 25, "context is 33554432; it must be");
    assert_status(ctx, qkv_module_create_attention(ctx, NULL, 0, &module), QKV_ARGUMENT);
    assert_message(ctx, "spec is NULL");
    assert_null(module);
    assert_status(ctx, qkv_module_create_attention(ctx, &good, 0, NULL), QKV_ARGUMENT);
    assert_message(ctx, "out is NULL");
    assert_int_equal(qkv_module_create_attention(NULL, &good, 0, &module), QKV_ARGUMENT);
    qkv_module_free(NULL);
    qkv_context_free(ctx);
}

static void refuse(struct sample *s, struct qkv_module_input in, enum qkv_status status, const char *sentence) {
    assert_status(s->ctx, forward(s, &in, s->y), status);
    assert_message(s->ctx, sentence);
    float unused;
    assert_status(s->ctx, qkv_module_attention_weights(s->module, QKV_ATTENTION_WEIGHTS, 0, 0, 0, 1, &unused),
                  QKV_ARGUMENT);
    assert_message(s->ctx, "weights need a forward with keys before them");
}
#define REFUSE_INPUT(change, status, sentence)                                                                         \
    do {                                                                                                               \
        struct qkv_module_input i = s.in;                                                                              \
        change;                                                                                                        \
        refuse(&s, i, status, sentence);                                                                               \
    } while (0)

static void test_self_misuse(void **state) {
    (void)state;
    struct sample s = {.random = test_random(2000)};
    struct qkv_module_cache *cache, *three, *none;
    struct qkv_module *other;
    struct qkv_attention_module_spec spec = {
        .in = 4, .context = 9, .attention = {.heads = 2, .causal = true, .position.kind = QKV_POSITION_ALIBI}};
    int32_t lengths[2] = {3, 99};
    assert_int_equal(qkv_context_create(&s.ctx, NULL), QKV_OK);
    make(&s, &spec, 2, 5, 0);
    assert_ok(s.ctx, qkv_module_create_attention(s.ctx, &spec, 0, &other));
    assert_ok(s.ctx, qkv_module_cache_create(s.module, 2, 8, 0, &cache));
    assert_ok(s.ctx, qkv_module_cache_create(s.module, 3, 8, 0, &three));
    REFUSE_INPUT(i.self.mask.Tk = 9, QKV_SHAPE,
                 "the mask is made for (B,Tq,Tk) = (0,0,9), but queries and keys make (2,5,5)");
    REFUSE_INPUT(i.self.mask.offset = 3, QKV_ARGUMENT, "self.mask.offset is given, but in self attention");
    REFUSE_INPUT(i.x.data = (float *)(void *)((char *)s.x + 1), QKV_ARGUMENT, "x is at");
    REFUSE_INPUT(i.x.B = SIZE_MAX / 2, QKV_SHAPE, "are too many");
    REFUSE_INPUT((i.x.B = 1 << 20, i.x.T = 1 << 20), QKV_SHAPE, "1048576 rows of 1048576 positions are too many");
    REFUSE_INPUT(i.x.data = NULL, QKV_ARGUMENT, "x has no data");
    REFUSE_INPUT(i.x.C = 5, QKV_SHAPE, "x is (2,5,5); to go with the module's weights it must be (2,5,4)");
    REFUSE_INPUT(i.x.T = 10, QKV_ARGUMENT, "x has 10 positions, more than the context of 9");
    REFUSE_INPUT(i.memory.data = s.x, QKV_ARGUMENT, "a memory is given, but nothing reads it");
    REFUSE_INPUT(i.memory.T = 3, QKV_ARGUMENT, "a memory is given, but nothing reads it");
    REFUSE_INPUT(i.self.mask.offsets = lengths, QKV_ARGUMENT, "mask.offset is given, but in self attention");
    REFUSE_INPUT(i.self.mask.lengths = lengths, QKV_ARGUMENT, "lengths[1] is 99, but there are 0 to 5 keys");
    REFUSE_INPUT(i.self.mask.window = -2, QKV_ARGUMENT, "window is -2");
    REFUSE_INPUT((i.self.bias = s.x, i.self.bias_shape.Tk = 4), QKV_SHAPE, "bias is (0,0,0,4)");
    REFUSE_INPUT((i.self.dense = (const uint8_t *)lengths, i.self.dense_shape.Tk = 4), QKV_SHAPE,
                 "dense mask is (0,0,0,4)");
    REFUSE_INPUT(i.self.dbias = s.y, QKV_ARGUMENT, "self.dbias needs a bias, and train");
    REFUSE_INPUT(i.cross.mask.lengths = lengths, QKV_ARGUMENT, "the mask \"cross\" is given, but there is no such");
    REFUSE_INPUT((i.cache = cache, i.train = true), QKV_ARGUMENT, "with a cache there is no backward");
    REFUSE_INPUT(i.cache = three, QKV_SHAPE, "the cache has 3 rows, but the batch has 2");
    struct qkv_module_input in = s.in;
    const struct qkv_vectors y = {s.y, 2, 5, 4};
    in.cache = cache;
    assert_status(s.ctx, qkv_module_forward(other, &in, y), QKV_ARGUMENT);
    assert_message(s.ctx, "the cache was made for another module");
    assert_ok(s.ctx, forward(&s, &in, s.y));
    REFUSE_INPUT(i.cache = cache, QKV_ARGUMENT, "5 more positions do not fit: the cache holds 5 of 8");
    assert_int_equal(qkv_module_cache_length(cache), 5);
    assert_fails(s.ctx, qkv_module_forward(s.module, NULL, y), QKV_ARGUMENT, "input is NULL");
    assert_fails(s.ctx, forward(&s, &s.in, NULL), QKV_ARGUMENT, "y has no data");
    assert_int_equal(qkv_module_forward(NULL, &s.in, y), QKV_ARGUMENT);
    assert_fails(s.ctx, qkv_module_cache_create(s.module, 0, 8, 0, &none), QKV_ARGUMENT, "0 rows are impossible");
    assert_null(none);
    assert_fails(s.ctx, qkv_module_cache_create(s.module, 1, 10, 0, &none), QKV_ARGUMENT,
                 "T is 10, but the attention module has a context of 9 positions");
    assert_fails(s.ctx, qkv_module_cache_create(s.module, 1, 0, 0, &none), QKV_ARGUMENT, "T is 0; it must be");
    assert_fails(s.ctx, qkv_module_cache_create(s.module, 1, 1, 1, &none), QKV_ARGUMENT,
                 "memory_T is 1, but the attention module has no such attention");
    assert_fails(s.ctx, qkv_module_cache_create(s.module, 1, 1, 0, NULL), QKV_ARGUMENT, "out is NULL");
    assert_int_equal(qkv_module_cache_create(NULL, 1, 1, 0, &none), QKV_ARGUMENT);
    qkv_module_cache_free(three);
    qkv_module_cache_free(NULL);
    qkv_module_free(other);
    finish(&s);
    qkv_module_cache_free(cache); /* outlives its module */
}

static void test_cross_misuse(void **state) {
    (void)state;
    struct sample s = {.random = test_random(2100)};
    struct qkv_module_cache *cache;
    struct qkv_attention_module_spec spec = {.in = 4, .kv_in = 6, .cross = true, .attention.heads = 2};
    assert_int_equal(qkv_context_create(&s.ctx, NULL), QKV_OK);
    make(&s, &spec, 2, 5, 7);
    assert_ok(s.ctx, qkv_module_cache_create(s.module, 2, 0, 6, &cache));
    const struct qkv_vectors none = qkv_vectors_defaults();
    REFUSE_INPUT(i.memory = none, QKV_ARGUMENT, "memory is (0,0,0), which is empty, but x is (2,5,4)");
    REFUSE_INPUT((i.memory = none, i.cache = cache), QKV_ARGUMENT,
                 "memory is not given, but the cache holds none yet; give it once");
    REFUSE_INPUT(i.memory.T = (size_t)1 << 40, QKV_SHAPE, "2 rows of 1099511627776 positions are too many");
    REFUSE_INPUT(i.memory.C = 4, QKV_SHAPE, "memory is (2,7,4); to go with the module's weights it must be (2,7,6)");
    REFUSE_INPUT(i.cache = cache, QKV_ARGUMENT, "a memory of 7 positions does not fit into a cache of 6");
    s.in.cache = cache;
    s.in.memory.T = 6;
    assert_ok(s.ctx, forward(&s, &s.in, s.y));
    REFUSE_INPUT((i.memory.data = NULL, i.memory.T = 5), QKV_SHAPE,
                 "memory is (2,5,6) without data, but the cache holds 6 positions");
    REFUSE_INPUT(i.values = i.memory, QKV_ARGUMENT, "a cache stores the values of the memory");
    assert_ok(s.ctx, forward(&s, &s.in, s.y));
    qkv_module_cache_free(cache);
    float unused[6];
    assert_fails(s.ctx, qkv_module_attention_weights(s.module, QKV_ATTENTION_WEIGHTS, 0, 0, 0, 1, unused), QKV_ARGUMENT,
                 "weights need a forward with keys before them, and the cache of that forward");
    finish(&s);
}

static void test_backward_misuse(void **state) {
    (void)state;
    struct sample s = {.random = test_random(2200)};
    struct qkv_attention_module_spec spec = {.in = 4, .attention.heads = 2};
    float out[25];
    assert_int_equal(qkv_context_create(&s.ctx, NULL), QKV_OK);
    make(&s, &spec, 2, 5, 1);
    assert_fails(s.ctx, backward(&s, &s.in, s.dy, s.dx, NULL), QKV_ARGUMENT,
                 "backward needs a forward with train before it");
    assert_ok(s.ctx, forward(&s, &s.in, s.y));
    assert_status(s.ctx, backward(&s, &s.in, s.dy, s.dx, NULL), QKV_ARGUMENT);
    s.in.train = true;
    assert_ok(s.ctx, forward(&s, &s.in, s.y));
    assert_fails(s.ctx, backward(&s, &s.in, NULL, s.dx, NULL), QKV_ARGUMENT, "dy has no data");
    assert_fails(s.ctx, backward(&s, &s.in, s.dy, s.dx, s.dmemory), QKV_ARGUMENT,
                 "dmemory is asked for, but the forward had no such input");
    assert_ok(s.ctx, backward(&s, &s.in, s.dy, s.dx, NULL));
    assert_status(s.ctx, backward(&s, &s.in, s.dy, s.dx, NULL), QKV_ARGUMENT);
    assert_ok(s.ctx,
              qkv_module_attention_weights(s.module, QKV_ATTENTION_WEIGHTS, 1, 1, 0, 5, out)); /* backward leaves it */
    static const size_t bad[][4] = {{2, 0, 0, 1}, {0, 2, 0, 1}, {0, 0, 6, 0}, {0, 0, 4, 2}, {0, 0, 1, SIZE_MAX}};
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        assert_status(s.ctx,
                      qkv_module_attention_weights(s.module, QKV_ATTENTION_WEIGHTS, bad[i][0], bad[i][1], bad[i][2],
                                                   bad[i][3], out),
                      QKV_SHAPE);
        assert_message(s.ctx, "do not exist in (B,H,Tq) = (2,2,5)");
    }
    assert_status(s.ctx, qkv_module_attention_weights(s.module, (enum qkv_attention_stage)9, 0, 0, 0, 1, out),
                  QKV_ARGUMENT);
    assert_message(s.ctx, "stage is 9; it must be");
    assert_status(s.ctx, qkv_module_attention_weights(s.module, QKV_ATTENTION_WEIGHTS, 0, 0, 0, 1, NULL), QKV_ARGUMENT);
    assert_message(s.ctx, "out is NULL");
    assert_int_equal(qkv_module_attention_weights(NULL, QKV_ATTENTION_WEIGHTS, 0, 0, 0, 1, out), QKV_ARGUMENT);
    assert_int_equal(qkv_module_backward(NULL, (struct qkv_vectors){s.dy, 2, 5, 4}, NULL), QKV_ARGUMENT);
    finish(&s);
}

/* Empty batches, and a memory without positions, are not errors. */
static void test_empty(void **state) {
    (void)state;
    struct sample s = {.random = test_random(2300)};
    struct qkv_attention_module_spec spec = {
        .in = 4, .kv_in = 6, .cross = true, .attention = {.heads = 2, .bias = QKV_BIAS_ALL}};
    assert_int_equal(qkv_context_create(&s.ctx, NULL), QKV_OK);
    make(&s, &spec, 2, 5, 7);
    s.in.train = true;
    struct qkv_module_input in = s.in;
    in.x.B = in.memory.B = 0;
    in.x.data = NULL;
    assert_ok(s.ctx, forward(&s, &in, NULL));
    assert_ok(s.ctx, backward(&s, &in, s.dy, s.dx, s.dmemory));
    in = s.in;
    in.x.T = 0;
    assert_ok(s.ctx, forward(&s, &in, s.y));
    assert_ok(s.ctx, backward(&s, &in, s.dy, s.dx, s.dmemory));
    for (size_t e = 0; e < 2 * 7 * 6; e++) assert_true(s.dmemory[e] == 0);
    in = s.in;
    in.memory.T = 0;
    assert_ok(s.ctx, forward(&s, &in, s.y));
    size_t last = qkv_module_parameters(s.module) - 1;
    assert_string_equal(qkv_module_parameter(s.module, last)->name, "o.bias");
    const float *bias = qkv_module_parameter(s.module, last)->data, *g = gradient_of(s.module, last);
    for (size_t e = 0; e < 2 * 5 * 4; e++) assert_true(s.y[e] == bias[e % 4]);
    qkv_module_clear_gradients(s.module);
    assert_ok(s.ctx, backward(&s, &in, s.dy, s.dx, s.dmemory));
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
        struct qkv_attention_module_spec spec = {.in = 4, .kv_in = 4, .cross = cross, .attention.heads = 2};
        int32_t lengths[2] = {5, 3};
        assert_int_equal(qkv_context_create(&s.ctx, NULL), QKV_OK);
        make(&s, &spec, 2, 5, cross ? 5 : 1);
        s.mask->mask.lengths = lengths;
        float *padded = cross ? s.memory : s.x;
        for (size_t e = (5 + 3) * 4; e < 2 * 5 * 4; e++) padded[e] = e % 2 ? NAN : INFINITY;
        train(&s);
        for (size_t e = 0; e < 2 * 5 * 4; e++) assert_true(isfinite(s.y[e]) && isfinite(s.dx[e]));
        for (size_t i = 0; i < qkv_module_parameters(s.module); i++)
            for (size_t e = 0; e < elements(s.module, i); e++) assert_true(isfinite(gradient_of(s.module, i)[e]));
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
