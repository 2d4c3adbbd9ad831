/* test_attention_invariances.c: changes that must not change the result of attention on plain buffers, mostly not a
 * bit of it: sharing or copying heads, a single row, a chunk, a past, padding, threads, and the order of keys. */
#include "attention_case.h"

/* ---- the same bits ---------------------------------------------------------------------------------------------- */

/* Heads that share keys, and heads that each have a copy of them, or the same memory through a stride of 0. */
static void check_groups(struct qkv_context *ctx, struct attention_case *c, const float *y) {
    struct attention_case copy = *c;
    size_t group = c->f.H / c->f.Hkv, T = c->call.k.T;
    if (c->call.past_k.T) return;
    struct qkv_view *views[] = {&copy.call.k, &copy.call.v};
    for (size_t i = 0; i < 2; i++) {
        struct qkv_view from = *views[i];
        *views[i] = qkv_view_bhtd(calloc(c->f.B * c->f.H * T * from.D + 1, 4), QKV_F32, c->f.B, c->f.H, T, from.D);
        for (size_t e = 0; e < formula_elements(views[i]); e++) {
            size_t one = T * from.D, h = e / one % c->f.H, b = e / one / c->f.H;
            formula_set(views[i], e, formula_get(&from, (b * c->f.Hkv + h / group) * one + e % one));
        }
    }
    assert_ok(ctx, qkv_attention_forward(ctx, &copy.call));
    same_view(&c->call.y, y, c, "a copy of keys and values for every head");
    free(copy.call.k.data), free(copy.call.v.data);
    if (c->f.Hkv != 1) return;
    copy.call.k = c->call.k, copy.call.v = c->call.v;
    copy.call.k.H = copy.call.v.H = c->f.H, copy.call.k.head = copy.call.v.head = 0;
    assert_ok(ctx, qkv_attention_forward(ctx, &copy.call));
    same_view(&c->call.y, y, c, "a head stride of 0");
}

/* Some positions of one batch row, alone. */
static void check_part(struct qkv_context *ctx, const struct attention_case *c, struct qkv_random *r, const float *y) {
    struct qkv_attention_call a = c->call;
    size_t b = test_between(r, 0, c->f.B - 1), first = test_between(r, 0, c->f.Tq - 1);
    size_t rows = test_between(r, 1, c->f.Tq - first), Dv = c->f.Dv;
    struct qkv_view *views[] = {&a.q, &a.k, &a.v, &a.past_k, &a.past_v};
    for (size_t i = 0; i < TEST_COUNT(views); i++) {
        if (!views[i]->data) continue;
        views[i]->data = (unsigned char *)views[i]->data + b * views[i]->batch * (views[i]->dtype == QKV_F32 ? 4 : 2);
        views[i]->B = 1;
    }
    a.q = qkv_view_rows(a.q, first, rows);
    a.lse = NULL, a.dropout = 0;
    a.mask.B = a.mask.Tq = a.mask.Tk = 0;
    a.mask.offset += (int64_t)first + (a.mask.offsets ? a.mask.offsets[b] : 0);
    a.mask.offsets = NULL;
    if (a.mask.lengths) a.mask.lengths += b;
    if (a.mask.prefix) a.mask.prefix += b;
    if (a.mask.key_documents) a.mask.key_documents += b * c->f.Tk;
    if (a.mask.query_documents) a.mask.query_documents += b * c->f.Tq + first;
    if (a.dense) a.dense += case_pair_at(&a.dense_shape, b, 0, first, 0);
    if (a.bias) a.bias += case_pair_at(&a.bias_shape, b, 0, first, 0);
    struct qkv_pair_shape *shapes[] = {&a.dense_shape, &a.bias_shape};
    for (size_t i = 0; i < 2; i++) { /* a part of a packed array has strides of its own */
        struct qkv_pair_shape *s = shapes[i];
        if (!s->batch && !s->head && !s->row) s->row = s->Tk, s->head = s->Tq * s->Tk, s->batch = s->H * s->head;
        s->B = 1;
        if (s->Tq != 1) s->Tq = rows;
    }
    a.y = qkv_view_bthd(calloc(c->f.H * rows * Dv, 4), QKV_F32, 1, rows, c->f.H, Dv);
    assert_ok(ctx, qkv_attention_forward(ctx, &a));
    for (size_t e = 0; e < formula_elements(&a.y); e++) {
        size_t d = e % Dv, i = first + e / Dv % rows, h = e / Dv / rows;
        float got = (float)formula_get(&a.y, e), expected = y[((b * c->f.H + h) * c->f.Tq + i) * Dv + d];
        if (memcmp(&got, &expected, 4))
            fail_msg("rows %zu and %zu more of batch row %zu alone give other bits: %s", first, rows, b, c->text);
    }
    free(a.y.data);
}

/* The past in one piece with the new keys, followed by padding of NaN that lengths hide. */
static void check_past(struct qkv_context *ctx, const struct attention_case *c, const float *y) {
    struct qkv_attention_call a = c->call;
    size_t past = a.past_k.T, T = c->f.Tk, more = T + 5;
    if (a.dense || a.bias || a.dropout > 0 || a.mask.key_documents) return;
    const struct qkv_view *from[2][2] = {{&c->call.past_k, &c->call.k}, {&c->call.past_v, &c->call.v}};
    struct qkv_view *to[2] = {&a.k, &a.v};
    int32_t *lengths = calloc(c->f.B + 1, sizeof *lengths);
    for (size_t b = 0; b < c->f.B; b++) lengths[b] = a.mask.lengths ? a.mask.lengths[b] : (int32_t)T;
    for (size_t i = 0; i < 2; i++) {
        size_t D = from[i][1]->D;
        *to[i] = qkv_view_bhtd(calloc(c->f.B * c->f.Hkv * more * D + 1, 4), QKV_F32, c->f.B, c->f.Hkv, more, D);
        for (size_t e = 0; e < formula_elements(to[i]); e++) {
            size_t d = e % D, j = e / D % more, n = e / D / more;
            const struct qkv_view *v = from[i][j >= past];
            formula_set(to[i], e,
                        j >= T ? (double)NAN : formula_get(v, (n * v->T + j - (j >= past ? past : 0)) * D + d));
        }
    }
    a.past_k = a.past_v = (struct qkv_view){0};
    a.mask.lengths = lengths;
    a.mask.Tk = 0;
    assert_ok(ctx, qkv_attention_forward(ctx, &a));
    same_view(&c->call.y, y, c, "one array of past and new keys, with padding");
    free(a.k.data), free(a.v.data), free(lengths);
}

static void test_same_bits(void **state) {
    (void)state;
    for (size_t t = 0; qkv_isa_at(t); t++) {
        struct qkv_context *ctx = open_context(t, 2);
        for (size_t i = 0; i < cases(400); i++) {
            struct qkv_random r = test_random(2000000 + i);
            struct attention_case c;
            case_random(&c, &r, true);
            c.call.dropout = 0; /* its mask is numbered by the whole shape */
            run(ctx, &c);
            float *y = packed(&c.call.y);
            if (c.f.B && c.f.Tq) {
                check_part(ctx, &c, &r, y);
                check_groups(ctx, &c, y);
                check_past(ctx, &c, y);
            }
            free(y);
            case_free(&c);
        }
        qkv_context_free(ctx);
    }
}

static void test_threads(void **state) {
    (void)state;
    for (size_t i = 0; i < cases(150); i++) {
        struct qkv_random r = test_random(3000000 + i);
        struct attention_case c;
        case_random(&c, &r, false);
        const struct qkv_view *views[] = {&c.call.y, &c.g.dq, &c.g.dk, &c.g.dv, &c.g.dpast_k, &c.g.dpast_v};
        float *one[TEST_COUNT(views)], *dbias = NULL;
        size_t pairs = c.call.bias_shape.Tk; /* its first row is there in any shape */
        for (int threads = 1; threads <= 3; threads++) {
            struct qkv_context *ctx = open_context(0, threads);
            for (size_t e = 0; c.g.dbias && c.f.B && c.f.Tq && e < pairs; e++) c.g.dbias[e] = 7;
            run(ctx, &c);
            for (size_t v = 0; v < TEST_COUNT(views); v++)
                if (threads == 1)
                    one[v] = packed(views[v]);
                else
                    same_view(views[v], one[v], &c, "another number of threads");
            if (c.g.dbias && c.f.B && c.f.Tq && !dbias)
                memcpy(dbias = calloc(pairs + 1, 4), c.g.dbias, pairs * 4);
            else if (dbias)
                assert_memory_equal(dbias, c.g.dbias, pairs * 4);
            qkv_context_free(ctx);
        }
        for (size_t v = 0; v < TEST_COUNT(views); v++) free(one[v]);
        free(dbias);
        case_free(&c);
    }
}

/* ---- the order of keys ------------------------------------------------------------------------------------------ */

/* Row j of `to` is row order[j] of `from`: packed, heads first. */
static struct qkv_view reordered(const struct qkv_view *from, const size_t *order) {
    struct qkv_view to =
        qkv_view_bhtd(calloc(formula_elements(from) + 1, 4), QKV_F32, from->B, from->H, from->T, from->D);
    for (size_t e = 0; e < formula_elements(from); e++) {
        size_t d = e % from->D, j = e / from->D % from->T, n = e / from->D / from->T;
        formula_set(&to, e, formula_get(from, (n * from->T + order[j]) * from->D + d));
    }
    return to;
}

/* Keys, values, dense mask and bias in another order, all alike: y and dq stay, dk and dv follow. */
static void check_order(struct qkv_context *ctx, struct attention_case *c, struct qkv_random *r) {
    struct qkv_attention_call a = c->call;
    struct formula *f = &c->f;
    size_t order[512], same[512], T = f->Tk, pairs = f->B * f->H * f->Tq * T;
    for (size_t j = 0; j < 512; j++) order[j] = same[j] = j;
    for (size_t j = T; j > 1; j--) {
        size_t other = test_between(r, 0, j - 1), swap = order[j - 1];
        order[j - 1] = order[other], order[other] = swap;
    }
    uint8_t *dense = calloc(pairs + 1, 1);
    float *bias = calloc(pairs + 1, 4);
    for (size_t p = 0; p < pairs; p++) {
        size_t j = order[p % T], from = p - p % T + j;
        dense[p] = f->open[from];
        bias[p] = (float)f->attention_bias[from];
    }
    const struct qkv_pair_shape whole = {.B = f->B, .H = f->H, .Tq = f->Tq, .Tk = T};
    struct qkv_attention_gradients g = {.dy = c->g.dy,
                                        .dq = reordered(&c->g.dq, same),
                                        .dk = reordered(&c->g.dk, order),
                                        .dv = reordered(&c->g.dv, order),
                                        .dlse = c->g.dlse};
    a.k = reordered(&c->call.k, order), a.v = reordered(&c->call.v, order);
    a.mask = (struct qkv_mask){0}, a.alibi = NULL;
    a.dense = dense, a.dense_shape = whole, a.bias = bias, a.bias_shape = whole;
    double *y = formula_doubles(formula_elements(&a.y)), *dq = formula_doubles(formula_elements(&g.dq));
    for (size_t e = 0; e < formula_elements(&a.y); e++) y[e] = formula_get(&a.y, e);
    for (size_t e = 0; e < formula_elements(&g.dq); e++) dq[e] = formula_get(&c->g.dq, e);
    struct qkv_view dk = reordered(&c->g.dk, order), dv = reordered(&c->g.dv, order);
    double *dks = formula_doubles(formula_elements(&dk)), *dvs = formula_doubles(formula_elements(&dv));
    for (size_t e = 0; e < formula_elements(&dk); e++) dks[e] = formula_get(&dk, e);
    for (size_t e = 0; e < formula_elements(&dv); e++) dvs[e] = formula_get(&dv, e);
    assert_ok(ctx, qkv_attention_forward(ctx, &a));
    assert_ok(ctx, qkv_attention_backward(ctx, &a, &g));
    double floor = 0.05 * (1 + fabs(f->scale) * sqrt((double)f->Dv));
    if (formula_error(&a.y, y, 0, 0.05) > 1e-5 || formula_error(&g.dq, dq, 0, floor) > 1e-4 ||
        formula_error(&g.dk, dks, 0, floor) > 1e-4 || formula_error(&g.dv, dvs, 0, 0.05) > 1e-4)
        fail_msg("keys in another order change the result: %s", c->text);
    void *blocks[] = {a.k.data, a.v.data, g.dq.data, g.dk.data, g.dv.data, dk.data, dv.data,
                      dense,    bias,     y,         dq,        dks,       dvs};
    for (size_t i = 0; i < TEST_COUNT(blocks); i++) free(blocks[i]);
}

static void test_order_of_keys(void **state) {
    (void)state;
    struct qkv_context *ctx = open_context(0, 2);
    for (size_t i = 0; i < cases(400); i++) {
        struct qkv_random r = test_random(7000000 + i);
        struct attention_case c;
        case_random(&c, &r, true);
        c.call.dropout = 0;
        c.g.accumulate = false;
        if (!c.call.past_k.T && c.f.B && c.f.Tq && c.f.Tk) {
            run(ctx, &c);
            check_order(ctx, &c, &r);
        }
        case_free(&c);
    }
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bits), cmocka_unit_test(test_threads),
                                       cmocka_unit_test(test_order_of_keys)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
