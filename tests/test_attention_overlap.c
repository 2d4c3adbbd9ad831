/* Outputs of attention share no element with its inputs or other outputs: views that share one are refused, byte by
 * byte; views that only interleave are accepted. */
/* labels: quick */
#include "test.h"

#define FIXTURE_CONTEXT overlap_context()
static struct qkv_context *overlap_context(void);
#include "context_fixture.h"

static struct qkv_context *overlap_context(void) {
    struct qkv_context *made;
    if (qkv_context_create(&made, &(struct qkv_context_options){.threads = 1})) abort();
    return made;
}

enum { FLOATS = 700 };

/* Marks the bytes of a view with `bit`; whether some had another one. */
static bool overlap_mark(unsigned char *marks, const char *base, const struct qkv_view *v, unsigned char bit) {
    const size_t size = v->dtype == QKV_F32 ? 4 : 2;
    bool shared = false;
    for (size_t b = 0; b < v->B; b++)
        for (size_t h = 0; h < v->H; h++)
            for (size_t t = 0; t < v->T; t++)
                for (size_t e = 0; e < v->D * size; e++) {
                    const size_t at =
                        (size_t)((const char *)v->data - base) + (b * v->batch + h * v->head + t * v->row) * size + e;
                    shared = shared || (marks[at] & ~bit);
                    marks[at] |= bit;
                }
    return shared;
}

/* Dimensions nested in any order, with gaps, at a place in the buffer that holds them; false where there is none. */
static bool overlap_place(struct qkv_random *r, float *buffer, size_t B, size_t H, size_t T, size_t D,
                          struct qkv_view *v) {
    *v = (struct qkv_view){.dtype = qkv_random_below(r, 4) ? QKV_F32 : QKV_BF16, .B = B, .H = H, .T = T, .D = D};
    size_t counts[3] = {B, H, T}, *strides[3] = {&v->batch, &v->head, &v->row}, order[3] = {0, 1, 2};
    size_t extent = D + test_between(r, 0, 2 * D), last = D;
    for (size_t i = 2; i > 0; i--) {
        const size_t j = test_between(r, 0, i), swap = order[i];
        order[i] = order[j], order[j] = swap;
    }
    for (size_t i = 0; i < 3; i++) {
        *strides[order[i]] = extent;
        last += (counts[order[i]] - 1) * extent;
        extent = extent * counts[order[i]] + (qkv_random_below(r, 3) ? 0 : test_between(r, 1, D));
    }
    const size_t room = (size_t)FLOATS * (v->dtype == QKV_F32 ? 1 : 2);
    if (last > room) return false;
    v->data = (char *)buffer + test_between(r, 0, room - last) * (v->dtype == QKV_F32 ? 4 : 2);
    return true;
}

static void views_that_share_an_element_are_refused_and_others_are_not(void **state) {
    (void)state;
    static float buffer[FLOATS], other[2][FLOATS];
    size_t refused = 0, taken = 0, between = 0;
    struct qkv_random r = test_random(77);
    for (size_t i = 0; i < 20000; i++) {
        const size_t B = test_between(&r, 1, 3), H = test_between(&r, 1, 3), T = test_between(&r, 1, 4),
                     D = test_between(&r, 1, 4);
        unsigned char marks[sizeof buffer] = {0};
        struct qkv_attention_call c = {.k = qkv_view_bhtd(other[0], QKV_F32, B, H, T, D),
                                       .v = qkv_view_bhtd(other[1], QKV_F32, B, H, T, D)};
        if (!overlap_place(&r, buffer, B, H, T, D, &c.q) || !overlap_place(&r, buffer, B, H, T, D, &c.y)) continue;
        if (qkv_random_below(&r, 2)) { /* the same strides, as views of one array have */
            const size_t bytes = (B * c.q.batch + H * c.q.head + T * c.q.row + D) * 4;
            if (bytes + 12 * D > sizeof buffer) continue;
            c.y = c.q, c.q.data = buffer, c.y.data = buffer + test_between(&r, 0, 3 * D);
        }
        memset(buffer, 0, sizeof buffer);
        overlap_mark(marks, (char *)buffer, &c.q, 1);
        const bool shares = overlap_mark(marks, (char *)buffer, &c.y, 2);
        const enum qkv_status status = qkv_attention_forward(ctx, &c);
        if ((bool)status != shares || (shares && !strstr(qkv_message(ctx), "y shares memory with q")))
            fail_msg("case %zu: %s, but they %s: %s", i, status ? "refused" : "taken", shares ? "share" : "do not",
                     qkv_message(ctx));
        refused += shares, taken += !shares;
        const char *q = c.q.data, *y = c.y.data;
        between += !shares && (q < y ? y - q : q - y) < (ptrdiff_t)(D * 8);
    }
    if (refused < 1000 || taken < 1000 || between < 50) fail_msg("%zu, %zu, %zu", refused, taken, between);
}

static void gradients_may_lie_between_each_other_and_not_on_each_other(void **state) {
    (void)state;
    enum { B = 2, T = 5, H = 3, D = 4 };
    static float in[B * T * 3 * H * D], out[B * T * 3 * H * D], y[B * T * H * D], dy[B * T * H * D], lse[B * H * T];
    const struct qkv_view x = qkv_view_bthd(in, QKV_F32, B, T, 3 * H, D),
                          d = qkv_view_bthd(out, QKV_F32, B, T, 3 * H, D);
    struct qkv_attention_call c = {.q = qkv_view_heads(x, 0, H),
                                   .k = qkv_view_heads(x, H, H),
                                   .v = qkv_view_heads(x, 2 * H, H),
                                   .y = qkv_view_bthd(y, QKV_F32, B, T, H, D),
                                   .lse = lse};
    struct qkv_attention_gradients g = {.dy = qkv_view_bthd(dy, QKV_F32, B, T, H, D),
                                        .dq = qkv_view_heads(d, 0, H),
                                        .dk = qkv_view_heads(d, H, H),
                                        .dv = qkv_view_heads(d, 2 * H, H)};
    assert_ok(ctx, qkv_attention_forward(ctx, &c));
    assert_ok(ctx, qkv_attention_backward(ctx, &c, &g));
    g.dk = qkv_view_heads(d, H - 1, H);
    assert_status(ctx, qkv_attention_backward(ctx, &c, &g), QKV_ARGUMENT);
    assert_message(ctx, "dq shares memory with dk");
    g.dk = qkv_view_heads(d, H, H), g.dq = g.dy;
    assert_status(ctx, qkv_attention_backward(ctx, &c, &g), QKV_ARGUMENT);
    assert_message(ctx, "dq shares memory with dy");
    g.dq = (struct qkv_view){0}, g.dv = qkv_view_heads(x, 0, H);
    assert_status(ctx, qkv_attention_backward(ctx, &c, &g), QKV_ARGUMENT);
    assert_message(ctx, "dv shares memory with q");
    c.lse = y;
    assert_status(ctx, qkv_attention_forward(ctx, &c), QKV_ARGUMENT);
    assert_message(ctx, "y shares memory with lse");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(views_that_share_an_element_are_refused_and_others_are_not),
                                       cmocka_unit_test(gradients_may_lie_between_each_other_and_not_on_each_other)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
