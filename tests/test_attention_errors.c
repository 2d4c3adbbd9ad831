/* test_attention_errors.c: calls of attention that are refused, with their messages; and calls that look odd but are
 * valid. */
/* labels: quick */
#include "test.h"

static struct qkv_context *ctx;
static float x[4096], lse[64];

static int start(void **state) {
    (void)state;
    return (int)qkv_context_create(&ctx, NULL);
}

static int stop(void **state) {
    (void)state;
    qkv_context_free(ctx);
    return 0;
}

/* A call that is fine: (2,4,3,8) on (2,2,5,8). */
static struct qkv_attention_call good_call(void) {
    return (struct qkv_attention_call){.q = qkv_view_bhtd(x, QKV_F32, 2, 4, 3, 8),
                                       .k = qkv_view_bhtd(x, QKV_F32, 2, 2, 5, 8),
                                       .v = qkv_view_bhtd(x, QKV_F32, 2, 2, 5, 6),
                                       .y = qkv_view_bhtd(x + 2048, QKV_F32, 2, 4, 3, 6),
                                       .lse = lse};
}

static void refuse(struct qkv_attention_call call, enum qkv_status status, const char *part) {
    assert_status(ctx, qkv_attention_forward(ctx, &call), status);
    assert_message(ctx, part);
}

#define REFUSE(change, status, part)                                                                                   \
    do {                                                                                                               \
        struct qkv_attention_call c = good_call();                                                                     \
        change;                                                                                                        \
        refuse(c, status, part);                                                                                       \
    } while (0)

static void test_shapes(void **state) {
    (void)state;
    REFUSE(c.q.H = 3, QKV_SHAPE,
           "q (2,3,3,8) has 3 heads and k (2,2,5,8) has 2; the heads of k and v must divide those of q");
    REFUSE(c.q.H = 0, QKV_SHAPE, "q (2,0,3,8) has 0 heads");
    REFUSE(c.k.H = 0, QKV_SHAPE, "k (2,0,5,8) has 0");
    REFUSE(c.q.D = 0, QKV_SHAPE, "q has 0 channels a head and v has 6");
    REFUSE(c.v.D = 0, QKV_SHAPE, "v has 0");
    REFUSE(c.k.D = 7, QKV_SHAPE, "k is (2,2,5,7); to go with q it must be (2,2,5,8)");
    REFUSE(c.k.B = 1, QKV_SHAPE, "k is (1,2,5,8); to go with q it must be (2,2,5,8)");
    REFUSE(c.v.T = 4, QKV_SHAPE, "v is (2,2,4,6); to go with k it must be (2,2,5,6)");
    REFUSE(c.v.H = 4, QKV_SHAPE, "v is (2,4,5,6); to go with k it must be (2,2,5,6)");
    REFUSE(c.y.D = 8, QKV_SHAPE, "y is (2,4,3,8); to go with q and v it must be (2,4,3,6)");
    REFUSE(c.past_k = qkv_view_bhtd(x, QKV_F32, 2, 1, 2, 8), QKV_SHAPE,
           "past_k is (2,1,2,8); to go with k it must be (2,2,2,8)");
    REFUSE((c.past_k = qkv_view_bhtd(x, QKV_F32, 2, 2, 2, 8), c.past_v = qkv_view_bhtd(x, QKV_F32, 2, 2, 3, 6)),
           QKV_SHAPE, "past_v is (2,2,3,6); to go with past_k it must be (2,2,2,6)");
    REFUSE(c.mask.Tk = 6, QKV_SHAPE, "the mask is made for (B,Tq,Tk) = (0,0,6), but queries and keys make (2,3,5)");
}

static void test_masks(void **state) {
    (void)state;
    static const uint8_t dense[4096] = {0};
    REFUSE((c.dense = dense, c.dense_shape = (struct qkv_pair_shape){2, 4, 3, 6, 0, 0, 0}), QKV_SHAPE,
           "the dense mask is (2,4,3,6), but q and k make (B,H,Tq,Tk) = (2,4,3,5)");
    REFUSE((c.dense = dense, c.dense_shape = (struct qkv_pair_shape){2, 2, 3, 5, 0, 0, 0}), QKV_SHAPE,
           "the dense mask is (2,2,3,5)");
    REFUSE((c.dense = dense, c.dense_shape = (struct qkv_pair_shape){0}), QKV_SHAPE, "the dense mask is (0,0,0,0)");
    REFUSE((c.bias = x, c.bias_shape = (struct qkv_pair_shape){1, 1, 2, 5, 0, 0, 0}), QKV_SHAPE, "bias is (1,1,2,5)");
    REFUSE((c.bias = x, c.bias_shape = (struct qkv_pair_shape){2, 4, 3, 5, SIZE_MAX / 2, 15, 5}), QKV_SHAPE,
           "bias (2,4,3,5) with strides");
    REFUSE((c.bias = (const float *)(const void *)((const char *)x + 1), c.bias_shape.B = 1), QKV_ARGUMENT,
           "bias is at");
    REFUSE(c.mask.window = -2, QKV_ARGUMENT, "window is -2");
    REFUSE(c.mask.offset = INT64_MAX, QKV_ARGUMENT, "mask: offset is");
    REFUSE(c.mask.lengths = ((const int32_t[]){5, 6}), QKV_ARGUMENT, "lengths[1] is 6, but there are 0 to 5 keys");
    REFUSE((c.alibi = (const float[]){1, 1, NAN, 1}), QKV_ARGUMENT, "the ALiBi slope of head 2 is nan");
    REFUSE((c.alibi = (const float[]){1, 1, 1, 1}, c.mask.offsets = (const int32_t[]){INT32_MIN, INT32_MAX}), QKV_SHAPE,
           "too far apart");
}

static void test_numbers(void **state) {
    (void)state;
    REFUSE(c.scale = (double)NAN, QKV_ARGUMENT, "scale is nan; it must be from -3.4e38 to 3.4e38 (0: 1/sqrt(D))");
    REFUSE(c.scale = 1e300, QKV_ARGUMENT, "scale is 1e+300");
    REFUSE(c.softcap = -1, QKV_ARGUMENT, "softcap is -1");
    REFUSE(c.softcap = (double)INFINITY, QKV_ARGUMENT, "softcap is inf");
    REFUSE(c.softcap = 1e-40, QKV_ARGUMENT, "softcap is 1e-40; it must be from 2.94e-39 to 3.4e38");
    REFUSE(c.softcap = 1e-60, QKV_ARGUMENT, "softcap is 1e-60");
    REFUSE(c.dropout = 1, QKV_ARGUMENT, "dropout is 1; it must be at least 0 (none) and less than 1");
    REFUSE(c.dropout = 1 - 1e-12, QKV_ARGUMENT, "dropout is 0.999999999999;");
    REFUSE(c.dropout = -0.1, QKV_ARGUMENT, "dropout is -0.1");
    REFUSE(c.dropout = (double)NAN, QKV_ARGUMENT, "dropout is nan");
}

static void test_storage(void **state) {
    (void)state;
    REFUSE(c.q.data = NULL, QKV_ARGUMENT, "q has no data");
    REFUSE(c.v.data = NULL, QKV_ARGUMENT, "v has no data");
    REFUSE(c.y.data = NULL, QKV_ARGUMENT, "y has no data");
    REFUSE(c.k.data = (char *)x + 2, QKV_ARGUMENT, "is not a multiple of its 4-byte elements");
    REFUSE((c.k.data = (char *)x + 1, c.k.dtype = QKV_BF16), QKV_ARGUMENT, "is not a multiple of its 2-byte elements");
    REFUSE(c.lse = (float *)(void *)((char *)lse + 1), QKV_ARGUMENT, "lse is at");
    REFUSE(c.alibi = (const float *)(const void *)((const char *)x + 2), QKV_ARGUMENT, "alibi is at");
    REFUSE(c.q.dtype = QKV_F64, QKV_ARGUMENT, "q has dtype 3; it must be QKV_F32, QKV_BF16 or QKV_F16");
    REFUSE(c.q.dtype = (enum qkv_dtype)99, QKV_ARGUMENT, "q has dtype 99");
    REFUSE(c.y.head = 0, QKV_ARGUMENT, "y (2,4,3,6) is written, but with strides 72, 0, 6 its elements overlap");
    REFUSE(c.y.row = 5, QKV_ARGUMENT, "its elements overlap");
    REFUSE(c.q.batch = SIZE_MAX / 2, QKV_SHAPE, "reaches further than this machine can address");
    REFUSE((c.q.T = c.y.T = SIZE_MAX, c.q.row = 0), QKV_SHAPE, "");
    REFUSE((c.q.B = c.k.B = c.v.B = c.y.B = (size_t)1 << 40, c.q.batch = c.k.batch = c.v.batch = 0), QKV_SHAPE, "");
}

static void test_gradients(void **state) {
    (void)state;
    struct qkv_attention_call c = good_call();
    struct qkv_attention_gradients g = {.dy = qkv_view_bhtd(x, QKV_F32, 2, 4, 3, 6)}, bad;
    assert_ok(ctx, qkv_attention_forward(ctx, &c));
    assert_ok(ctx, qkv_attention_backward(ctx, &c, &g)); /* nothing is asked for */
    bad = g, bad.dy.D = 5;
    assert_status(ctx, qkv_attention_backward(ctx, &c, &bad), QKV_SHAPE);
    assert_message(ctx, "dy is (2,4,3,5); to go with y it must be (2,4,3,6)");
    bad = g, bad.dk = qkv_view_bhtd(x, QKV_F32, 2, 4, 5, 8);
    assert_status(ctx, qkv_attention_backward(ctx, &c, &bad), QKV_SHAPE);
    assert_message(ctx, "dk is (2,4,5,8); to go with k it must be (2,2,5,8)");
    bad = g, bad.dq = c.q, bad.dq.row = 0;
    assert_status(ctx, qkv_attention_backward(ctx, &c, &bad), QKV_ARGUMENT);
    assert_message(ctx, "dq (2,4,3,8) is written");
    bad = g, bad.dbias = x;
    assert_status(ctx, qkv_attention_backward(ctx, &c, &bad), QKV_ARGUMENT);
    assert_message(ctx, "dbias is asked for, but there is no bias");
    c.bias = x, c.bias_shape = (struct qkv_pair_shape){2, 4, 3, 5, 60, 15, 1};
    assert_ok(ctx, qkv_attention_forward(ctx, &c)); /* rows that overlap can be read */
    assert_status(ctx, qkv_attention_backward(ctx, &c, &bad), QKV_ARGUMENT);
    assert_message(ctx, "the gradient of bias (2,4,3,5) is written");
    c = good_call(), c.lse = NULL;
    assert_status(ctx, qkv_attention_backward(ctx, &c, &g), QKV_ARGUMENT);
    assert_message(ctx, "the gradient needs lse");
}

static void test_looks(void **state) {
    (void)state;
    struct qkv_attention_call c = good_call();
    float out[64];
    assert_ok(ctx, qkv_attention_forward(ctx, &c));
    assert_ok(ctx, qkv_attention_weights(ctx, &c, QKV_ATTENTION_WEIGHTS, 1, 3, 2, 1, out));
    assert_ok(ctx, qkv_attention_weights(ctx, &c, QKV_ATTENTION_WEIGHTS, 0, 0, 3, 0, out));
    assert_status(ctx, qkv_attention_weights(ctx, &c, QKV_ATTENTION_WEIGHTS, 2, 0, 0, 1, out), QKV_SHAPE);
    assert_message(ctx, "batch row 2, head 0");
    assert_status(ctx, qkv_attention_weights(ctx, &c, QKV_ATTENTION_WEIGHTS, 0, 4, 0, 1, out), QKV_SHAPE);
    assert_status(ctx, qkv_attention_weights(ctx, &c, QKV_ATTENTION_WEIGHTS, 0, 0, 2, 2, out), QKV_SHAPE);
    assert_status(ctx, qkv_attention_weights(ctx, &c, QKV_ATTENTION_WEIGHTS, 0, 0, 0, 1, NULL), QKV_ARGUMENT);
    assert_status(ctx, qkv_attention_weights(ctx, &c, (enum qkv_attention_stage)9, 0, 0, 0, 1, out), QKV_ARGUMENT);
    assert_status(ctx,
                  qkv_attention_weights(ctx, &c, QKV_ATTENTION_WEIGHTS, 0, 0, 0, 1, (float *)(void *)((char *)out + 1)),
                  QKV_ARGUMENT);
    assert_message(ctx, "out is at");
    assert_status(ctx, qkv_attention_forward(ctx, NULL), QKV_ARGUMENT);
    assert_message(ctx, "call is NULL");
    assert_status(ctx, qkv_attention_backward(ctx, &c, NULL), QKV_ARGUMENT);
    assert_message(ctx, "gradients is NULL");
    assert_status(ctx, qkv_attention_measure(ctx, &c, NULL, NULL), QKV_ARGUMENT);
    assert_status(NULL, qkv_attention_forward(NULL, &c), QKV_ARGUMENT);
    c.lse = NULL;
    assert_status(ctx, qkv_attention_weights(ctx, &c, QKV_ATTENTION_WEIGHTS, 0, 0, 0, 1, out), QKV_ARGUMENT);
    assert_message(ctx, "lse");
    assert_ok(ctx, qkv_attention_weights(ctx, &c, QKV_ATTENTION_PRODUCTS, 0, 0, 0, 1, out));
}

/* Empty batches, no queries and no keys are not errors. */
static void test_empty(void **state) {
    (void)state;
    struct qkv_attention_gradients g = {0};
    struct qkv_attention_call c = good_call();
    c.q.B = c.k.B = c.v.B = c.y.B = 0;
    c.q.data = c.k.data = c.v.data = c.y.data = NULL;
    assert_ok(ctx, qkv_attention_forward(ctx, &c));
    g.dy = c.y;
    assert_ok(ctx, qkv_attention_backward(ctx, &c, &g));
    c = good_call();
    c.q.T = c.y.T = 0;
    assert_ok(ctx, qkv_attention_forward(ctx, &c));
    float dk[2 * 2 * 5 * 8];
    for (size_t i = 0; i < TEST_COUNT(dk); i++) dk[i] = 7;
    g = (struct qkv_attention_gradients){.dy = c.y, .dk = qkv_view_bhtd(dk, QKV_F32, 2, 2, 5, 8)};
    assert_ok(ctx, qkv_attention_backward(ctx, &c, &g));
    for (size_t i = 0; i < TEST_COUNT(dk); i++) assert_true(dk[i] == 0);
    float dbias[5] = {7, 7, 7, 7, 7};
    c.bias = x, c.bias_shape = (struct qkv_pair_shape){.B = 1, .H = 1, .Tq = 1, .Tk = 5};
    g.dbias = dbias;
    assert_ok(ctx, qkv_attention_backward(ctx, &c, &g));
    for (size_t i = 0; i < TEST_COUNT(dbias); i++) assert_true(dbias[i] == 0);
    c = good_call();
    c.k.T = c.v.T = 0;
    c.k.data = c.v.data = NULL;
    c.mask.causal = true;
    for (size_t i = 0; i < 4096; i++) x[i] = 7;
    assert_ok(ctx, qkv_attention_forward(ctx, &c));
    for (size_t i = 0; i < 2 * 4 * 3 * 6; i++) assert_true(((float *)c.y.data)[i] == 0);
    for (size_t i = 0; i < 2 * 4 * 3; i++) assert_true(lse[i] == -INFINITY);
}

static void test_rotation(void **state) {
    (void)state;
    float table[2 * 5 * 4], before[2 * 2 * 5 * 8];
    struct qkv_view v = qkv_view_bhtd(x, QKV_F32, 2, 2, 5, 8), flat = v;
    struct qkv_rotation r = {.table = table, .count = 5, .pairs = 4}, bad;
    assert_ok(ctx, qkv_rotation_table(ctx, 10000, 5, 4, table));
    for (size_t i = 0; i < TEST_COUNT(before); i++) before[i] = x[i] = (float)i;
    assert_ok(ctx, qkv_rotate(ctx, &v, &r));
    assert_true(x[0] == 0 && fabsf(x[8] - (8 * cosf(1) - 12 * sinf(1))) < 1e-5F); /* position 1, channels 0 and 4 */
    assert_ok(ctx, qkv_rotate(ctx, &v, (bad = r, bad.inverse = true, &bad)));
    assert_floats_close(x, before, TEST_COUNT(before), 1e-6);
    assert_status(ctx, qkv_rotation_table(ctx, 10000, SIZE_MAX, 4, table), QKV_SHAPE);
    assert_status(ctx, qkv_rotation_table(ctx, -1, 5, 4, table), QKV_ARGUMENT);
    assert_message(ctx, "theta is -1");
    assert_status(ctx, qkv_rotate(ctx, &v, (bad = r, bad.pairs = 5, &bad)), QKV_SHAPE);
    assert_message(ctx, "5 pairs need 10 channels, but a head of x has 8");
    assert_status(ctx, qkv_rotate(ctx, &v, (bad = r, bad.count = 4, &bad)), QKV_SHAPE);
    assert_message(ctx, "x has 5 positions, but the table only 4");
    assert_status(ctx, qkv_rotate(ctx, &v, (bad = r, bad.table = NULL, &bad)), QKV_ARGUMENT);
    assert_status(ctx,
                  qkv_rotate(ctx, &v, (bad = r, bad.positions = (const int32_t[]){0, 1, 2, 3, 4, 0, 5, 0, 0, 0}, &bad)),
                  QKV_ARGUMENT);
    assert_message(ctx, "positions[6], row 1 of batch row 1, is 5; the table has positions from 0 to below 5");
    assert_status(ctx, qkv_rotate(ctx, NULL, &r), QKV_ARGUMENT);
    assert_status(ctx, qkv_rotate(ctx, &v, NULL), QKV_ARGUMENT);
    assert_status(ctx, qkv_rotation_table(ctx, 10000, 5, 4, NULL), QKV_ARGUMENT);
    flat.head = 0;
    assert_status(ctx, qkv_rotate(ctx, &flat, &r), QKV_ARGUMENT);
    assert_message(ctx, "overlap");
}

static void test_views(void **state) {
    (void)state;
    struct qkv_view packed = qkv_view_bthd(x, QKV_F32, 2, 5, 3 * 4, 8), k = qkv_view_heads(packed, 4, 4);
    assert_true(k.data == x + 4 * 8 && k.H == 4 && k.row == 96 && k.head == 8 && k.batch == 480);
    struct qkv_view late = qkv_view_rows(k, 3, 2);
    assert_true(late.data == x + 4 * 8 + 3 * 96 && late.T == 2);
    assert_true(qkv_view_heads(packed, 9, 4).H == 0 && qkv_view_rows(packed, 5, SIZE_MAX).T == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),  cmocka_unit_test(test_masks),     cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_storage), cmocka_unit_test(test_gradients), cmocka_unit_test(test_looks),
        cmocka_unit_test(test_empty),   cmocka_unit_test(test_rotation),  cmocka_unit_test(test_views)};
    return cmocka_run_group_tests(tests, start, stop);
}
