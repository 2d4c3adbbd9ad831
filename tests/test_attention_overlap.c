/* Outputs of attention share no element with its inputs or other outputs: views that share one are refused, byte by
 * byte; views that only interleave are accepted. */
/* labels: quick */
#include "test.h"

#define FIXTURE_CONTEXT overlap_context()
static struct qkv_context *overlap_context(void);
#include "context_fixture.h"

static struct qkv_context *overlap_context(void) {
    struct qkv_context *made;
    if (qkv_context_create(&made, &QKV_OPTIONS(qkv_context_options, .threads = 1))) abort();
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

/* Each array that a call reads besides its views, in turn: it may be neither in y nor in a gradient. */
static void arrays_besides_the_views_are_apart_from_what_is_written(void **state) {
    (void)state;
    enum { B = 2, H = 2, T = 4, D = 8, DISTANCES = 2 * T - 1, FLOATS_OF_VIEW = B * H * T * D };
    static float q[FLOATS_OF_VIEW], y[FLOATS_OF_VIEW], dq[FLOATS_OF_VIEW], lse[B * H * T], free_floats[FLOATS_OF_VIEW];
    static const char *const names[] = {"mask.offsets",
                                        "mask.lengths",
                                        "mask.starts",
                                        "mask.prefix",
                                        "mask.key_documents",
                                        "mask.query_documents",
                                        "the dense mask",
                                        "bias",
                                        "alibi",
                                        "distance_bias",
                                        "sinks",
                                        "dlse"};
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        const struct qkv_view view = qkv_view_bhtd(q, QKV_F32, B, H, T, D);
        for (int place = 0; place < 3; place++) { /* apart; in y; in dq */
            float *const data = place == 0 ? free_floats : (place == 1 ? y : dq) + 5;
            const int32_t *const ids = (const int32_t *)(const void *)data;
            struct qkv_attention_call c = {
                .q = view, .k = view, .v = view, .y = qkv_view_bhtd(y, QKV_F32, B, H, T, D), .lse = lse};
            struct qkv_attention_gradients g = {.dy = view, .dq = qkv_view_bhtd(dq, QKV_F32, B, H, T, D)};
            c.mask.causal = i < 4;
            c.dense_shape = c.bias_shape = (struct qkv_pair_shape){1, H, T, T, 0, 0, 0};
            c.distances = DISTANCES, c.distance_zero = T - 1;
            const int32_t **const lists[] = {&c.mask.offsets, &c.mask.lengths,       &c.mask.starts,
                                             &c.mask.prefix,  &c.mask.key_documents, &c.mask.query_documents};
            const float **const floats[] = {&c.bias, &c.alibi, &c.distance_bias, &c.sinks, &g.dlse};
            if (i < TEST_COUNT(lists))
                *lists[i] = ids;
            else if (i == TEST_COUNT(lists))
                c.dense = (const uint8_t *)data;
            else
                *floats[i - TEST_COUNT(lists) - 1] = data;
            if (i == 5) c.mask.key_documents = (const int32_t *)(const void *)free_floats;
            memset(y, 0, sizeof y), memset(dq, 0, sizeof dq), memset(free_floats, 0, sizeof free_floats);
            const bool backward = place == 2 || !strcmp(names[i], "dlse");
            if (backward && place == 1) continue; /* backward reads both */
            const enum qkv_status status =
                backward ? qkv_attention_backward(ctx, &c, &g) : qkv_attention_forward(ctx, &c);
            if ((bool)status != (place > 0) || (place && !strstr(qkv_message(ctx), names[i])))
                fail_msg("%s, place %d: \"%s\"", names[i], place, qkv_message(ctx));
        }
    }
}

/* Gradients that are no views are written, too. */
static void gradients_of_biases_and_sinks_are_apart(void **state) {
    (void)state;
    enum { B = 2, H = 2, T = 4, D = 8, DISTANCES = 2 * T - 1 };
    static float q[B * H * T * D], y[B * H * T * D], dq[B * H * T * D], lse[B * H * T], bias[H * T * T],
        table[H * DISTANCES], sinks[H];
    const struct qkv_view view = qkv_view_bhtd(q, QKV_F32, B, H, T, D);
    struct qkv_attention_call c = {.q = view,
                                   .k = view,
                                   .v = view,
                                   .y = qkv_view_bhtd(y, QKV_F32, B, H, T, D),
                                   .lse = lse,
                                   .bias = bias,
                                   .bias_shape = {.B = 1, .H = H, .Tq = T, .Tk = T},
                                   .distance_bias = table,
                                   .distances = DISTANCES,
                                   .distance_zero = T - 1,
                                   .sinks = sinks};
    const struct qkv_attention_gradients none = {.dy = view, .dq = qkv_view_bhtd(dq, QKV_F32, B, H, T, D)};
    assert_ok(ctx, qkv_attention_forward(ctx, &c));
    float *const places[] = {dq + 3, q + 3, y + 3, lse, bias, table, sinks};
    for (size_t i = 0; i < TEST_COUNT(places); i++)
        for (int of = 0; of < 3; of++) {
            struct qkv_attention_gradients g = none;
            float **const written[] = {&g.dbias, &g.ddistance_bias, &g.dsinks};
            *written[of] = places[i];
            assert_status(ctx, qkv_attention_backward(ctx, &c, &g), QKV_ARGUMENT);
            assert_message(ctx, "shares memory with");
        }
    static float own[3][B * H * T * D];
    struct qkv_attention_gradients g = none;
    g.dbias = own[0], g.ddistance_bias = own[1], g.dsinks = own[2];
    assert_ok(ctx, qkv_attention_backward(ctx, &c, &g));
    g.dsinks = own[1] + H * DISTANCES - 1;
    assert_status(ctx, qkv_attention_backward(ctx, &c, &g), QKV_ARGUMENT);
    assert_message(ctx, "ddistance_bias shares memory with dsinks");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(views_that_share_an_element_are_refused_and_others_are_not),
                                       cmocka_unit_test(gradients_may_lie_between_each_other_and_not_on_each_other),
                                       cmocka_unit_test(arrays_besides_the_views_are_apart_from_what_is_written),
                                       cmocka_unit_test(gradients_of_biases_and_sinks_are_apart)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
