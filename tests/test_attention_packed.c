/* test_attention_packed.c: attention on sequences packed by cumulative lengths: against a call of each, bit for bit,
 * and against the definition, over random calls with all options, on every kernel table of this machine, in fp32 and
 * in bf16; and their masks. */
#include "attention_packed_case.h"

#include <float.h>

/* ---- one sequence alone ----------------------------------------------------------------------------------------- */

static struct qkv_view fresh(struct attention_case *own, struct qkv_view like) {
    const struct qkv_view v =
        qkv_view_bhtd(case_memory(own, formula_elements(&like) * 4), like.dtype, 1, like.H, like.T, like.D);
    fill(&v, 7);
    return v;
}

/* The mask of sequence b by itself. */
static struct qkv_mask alone_mask(const struct packed *p, size_t b) {
    struct qkv_mask m = p->c.call.mask;
    m.B = 1, m.cu_q = m.cu_k = NULL;
    m.Tq = (size_t)(p->cu_q[b + 1] - p->cu_q[b]), m.Tk = (size_t)(p->cu_k[b + 1] - p->cu_k[b]);
    m.offset += m.offsets ? m.offsets[b] : 0;
    m.offsets = NULL;
    if (m.lengths) m.lengths += b;
    if (m.starts) m.starts += b;
    if (m.prefix) m.prefix += b;
    return m;
}

static struct qkv_pair_shape alone_shape(struct qkv_pair_shape s, const struct qkv_mask *m) {
    s.B = 1;
    if (s.Tq != 1) s.Tq = m->Tq;
    if (s.Tk > m->Tk) s.Tk = m->Tk;
    return s;
}

/* A rectangular call on the rows of sequence b, with outputs of its own. */
static void alone_call(const struct packed *p, size_t b, struct attention_case *own) {
    const size_t q = (size_t)p->cu_q[b], k = (size_t)p->cu_k[b];
    *own = (struct attention_case){.call = p->c.call, .g = p->c.g};
    struct qkv_attention_call *call = &own->call;
    struct qkv_attention_gradients *g = &own->g;
    call->mask = alone_mask(p, b);
    const struct qkv_mask *m = &call->mask;
    call->q = qkv_view_rows(call->q, q, m->Tq), g->dy = qkv_view_rows(g->dy, q, m->Tq);
    call->k = qkv_view_rows(call->k, k, m->Tk), call->v = qkv_view_rows(call->v, k, m->Tk);
    call->y = fresh(own, qkv_view_rows(call->y, q, m->Tq)), g->dq = fresh(own, qkv_view_rows(g->dq, q, m->Tq));
    g->dk = fresh(own, qkv_view_rows(g->dk, k, m->Tk)), g->dv = fresh(own, qkv_view_rows(g->dv, k, m->Tk));
    call->lse = case_memory(own, m->Tq * p->H * sizeof(float));
    if (g->dlse) g->dlse += q * p->H;
    if (call->dense) call->dense += call->dense_shape.B == 1 ? 0 : b * call->dense_shape.batch;
    if (call->bias) call->bias += b * call->bias_shape.batch;
    call->dense_shape = alone_shape(call->dense_shape, m), call->bias_shape = alone_shape(call->bias_shape, m);
    if (g->dbias) g->dbias = case_memory(own, p->pairs * sizeof(float));
}

/* The definition of a call of one sequence. */
static void alone_formula(struct attention_case *own, struct formula *f) {
    const struct qkv_attention_call *c = &own->call;
    *f = (struct formula){.B = 1,
                          .H = c->q.H,
                          .Hkv = c->k.H,
                          .Tq = c->q.T,
                          .Tk = c->k.T,
                          .D = c->q.D,
                          .Dv = c->v.D,
                          .softcap = c->softcap};
    formula_start(f);
    f->scale = c->scale == 0 ? 1 / sqrt((double)f->D) : c->scale;
    const struct qkv_view *views[] = {&c->q, &c->k, &c->v, &own->g.dy};
    double *arrays[] = {f->q, f->k, f->v, f->dy};
    for (size_t i = 0; i < 4; i++)
        for (size_t e = 0; e < formula_elements(views[i]); e++) arrays[i][e] = formula_get(views[i], e);
    for (size_t row = 0; own->g.dlse && row < f->H * f->Tq; row++) f->dlse[row] = (double)own->g.dlse[row];
    struct qkv_mask mask = c->mask;
    case_open(f, case_mask_open, &mask);
    struct case_dense dense = {.mask = c->dense, .shape = c->dense_shape},
                      bias = {.bias = c->bias, .shape = c->bias_shape};
    if (c->dense) case_open(f, case_dense_open, &dense);
    if (c->bias) case_open(f, case_dense_open, &bias);
    for (size_t n = 0; n < f->H * f->Tq * f->Tk; n++) {
        const size_t j = n % f->Tk, i = n / f->Tk % f->Tq, h = n / f->Tk / f->Tq;
        if (!f->open[n]) continue;
        if (c->bias) f->attention_bias[n] += (double)c->bias[case_pair_at(&c->bias_shape, 0, h, i, j)];
        if (c->alibi)
            f->attention_bias[n] -= (double)c->alibi[h] * fabs((double)(mask.offset + (int64_t)i - (int64_t)j));
    }
    formula_run(f);
}

/* The error that fp32 leaves in a weight whose score was rounded at the size of its largest bias: ALiBi over 1,000
 * keys adds hundreds. */
static double rounding_of_scores(const struct formula *f) {
    double largest = 0;
    for (size_t n = 0; n < f->H * f->Tq * f->Tk; n++)
        if (f->open[n] && isfinite(f->attention_bias[n])) largest = fmax(largest, fabs(f->attention_bias[n]));
    return largest * (double)FLT_EPSILON;
}

static bool close_to_definition(struct attention_case *own) {
    struct formula f;
    alone_formula(own, &f);
    const double rounding = rounding_of_scores(&f);
    const double steep = fabs(f.scale) * sqrt((double)f.Dv), floor = 0.05 * (steep > 1 ? steep : 1);
    if (own->call.y.dtype != QKV_F32) formula_back_from(&f, &own->call.y);
    const struct {
        const struct qkv_view *view;
        const double *expected;
        double floor, exact;
    } views[] = {{&own->call.y, f.y, 0.05, 1e-5},
                 {&own->g.dq, f.dq, floor, 1e-4},
                 {&own->g.dk, f.dk, floor, 1e-4},
                 {&own->g.dv, f.dv, 0.05, 1e-4}};
    bool good = true;
    for (size_t i = 0; i < 4; i++) {
        const double stored = views[i].view->dtype == QKV_BF16 ? 6e-3 : views[i].view->dtype == QKV_F16 ? 8e-4 : 0;
        const double error = formula_error(views[i].view, views[i].expected, 0, views[i].floor);
        if (error <= fmax(fmax(stored, views[i].exact), rounding)) continue;
        print_error("tensor %zu: error %g, the rounding of scores %g\n", i, error, rounding);
        good = false;
    }
    for (size_t row = 0; row < f.H * f.Tq; row++) {
        const double got = (double)own->call.lse[row], expected = f.lse[row];
        if (got == expected || fabs(got - expected) <= fmax(3e-5, rounding)) continue;
        print_error("lse[%zu] is %g, not %g\n", row, got, expected);
        good = false;
    }
    formula_free(&f);
    return good;
}

/* Sequence b of the packed call has the bits of the call of its own. */
static bool same_bits(const struct packed *p, size_t b, const struct attention_case *own) {
    const struct qkv_attention_call *call = &p->c.call;
    const size_t q = (size_t)p->cu_q[b], k = (size_t)p->cu_k[b], Tq = own->call.q.T, Tk = own->call.k.T;
    const struct qkv_view packed_views[] = {qkv_view_rows(call->y, q, Tq), qkv_view_rows(p->c.g.dq, q, Tq),
                                            qkv_view_rows(p->c.g.dk, k, Tk), qkv_view_rows(p->c.g.dv, k, Tk)};
    const struct qkv_view *alone[] = {&own->call.y, &own->g.dq, &own->g.dk, &own->g.dv};
    for (size_t i = 0; i < 4; i++) {
        float *got = packed(&packed_views[i]), *expected = packed(alone[i]);
        const bool same = memcmp(got, expected, formula_elements(alone[i]) * sizeof(float)) == 0;
        free(got), free(expected);
        if (!same) print_error("tensor %zu of sequence %zu has other bits than alone\n", i, b);
        if (!same) return false;
    }
    if (memcmp(call->lse + q * p->H, own->call.lse, Tq * p->H * sizeof(float))) return false;
    const struct qkv_pair_shape *s = &own->call.bias_shape;
    for (size_t n = 0; own->g.dbias && Tq && Tk && n < s->H * s->Tq * s->Tk; n++) {
        const size_t at = case_pair_at(s, 0, n / s->Tk / s->Tq, n / s->Tk % s->Tq, n % s->Tk);
        if (p->c.g.dbias[b * s->batch + at] == own->g.dbias[at]) continue;
        print_error("dbias of sequence %zu is %g, not %g\n", b, (double)p->c.g.dbias[b * s->batch + at],
                    (double)own->g.dbias[at]);
        return false;
    }
    return true;
}

static void check_sequences(struct qkv_context *ctx, const struct packed *p, size_t n) {
    const bool fp32 = qkv_context_precision(ctx) == QKV_FP32;
    for (size_t b = 0; b < p->B; b++) {
        struct attention_case own;
        alone_call(p, b, &own);
        if (qkv_attention_forward(ctx, &own.call) || qkv_attention_backward(ctx, &own.call, &own.g))
            fail_msg("%s, case %zu: %s: %s", qkv_context_isa(ctx), n, p->c.text, qkv_message(ctx));
        if (!same_bits(p, b, &own))
            fail_msg("%s, case %zu: sequence %zu differs from a call of its own: %s", qkv_context_isa(ctx), n, b,
                     p->c.text);
        if (fp32 && !close_to_definition(&own))
            fail_msg("%s, case %zu: sequence %zu is off: %s", qkv_context_isa(ctx), n, b, p->c.text);
        for (size_t i = 0; i < own.block_count; i++) free(own.blocks[i]);
    }
}

static struct qkv_context *table_context(size_t table, int threads, enum qkv_precision precision) {
    const struct qkv_context_options options = {
        .size = sizeof options, .isa = qkv_isa_at(table), .threads = threads, .precision = precision};
    struct qkv_context *ctx;
    assert_ok(ctx, qkv_context_create(&ctx, &options));
    return ctx;
}

/* Sequences alone are computed by one thread, packed ones by two or three. */
static void check_random(enum qkv_precision precision, uint64_t seed, size_t count) {
    for (size_t t = 0; qkv_isa_at(t); t++) {
        struct qkv_context *ctx = table_context(t, t % 2 ? 2 : 3, precision), *one = table_context(t, 1, precision);
        for (size_t n = 0; n < count; n++) {
            struct qkv_random r = test_random(seed + n);
            struct packed p;
            packed_random(&p, &r, false, case_chance(&r, 0.2));
            run(ctx, &p.c);
            check_sequences(one, &p, n);
            packed_free(&p);
        }
        qkv_context_free(ctx), qkv_context_free(one);
    }
}

static void a_packed_sequence_has_the_bits_of_a_call_of_its_own(void **state) {
    (void)state;
    check_random(QKV_FP32, 1100000, cases(80));
}

static void in_bf16_too(void **state) {
    (void)state;
    check_random(QKV_MIXED_BF16, 1200000, cases(40));
}

/* ---- masks, weights --------------------------------------------------------------------------------------------- */

static void masks_of_packed_sequences_are_those_of_each(void **state) {
    struct qkv_context *ctx = open_context(0, 1);
    (void)state;
    for (size_t n = 0; n < 500; n++) {
        struct qkv_random r = test_random(1300000 + n);
        struct packed p;
        packed_random(&p, &r, true, false);
        const struct qkv_mask *m = &p.c.call.mask;
        const size_t rows = (size_t)p.cu_q[p.B];
        int32_t *lo = case_memory(&p.c, rows * sizeof *lo), *hi = case_memory(&p.c, rows * sizeof *hi);
        uint8_t *dense = case_memory(&p.c, p.B * p.Tq * p.Tk);
        memset(dense, 9, p.B * p.Tq * p.Tk);
        assert_ok(ctx, qkv_mask_intervals(ctx, m, lo, hi));
        assert_ok(ctx, qkv_mask_dense(ctx, m, dense));
        for (size_t e = 0; e < p.B * p.Tq * p.Tk; e++) {
            const size_t j = e % p.Tk, i = e / p.Tk % p.Tq, b = e / p.Tk / p.Tq;
            struct qkv_mask own = alone_mask(&p, b);
            const bool there = i < own.Tq && j < own.Tk, open = there && case_mask_open(&own, 0, 0, i, j);
            const size_t row = (size_t)p.cu_q[b] + i;
            if (dense[e] != open || (there && open != (lo[row] <= (int32_t)j && (int32_t)j < hi[row])))
                fail_msg("case %zu: query %zu and key %zu of sequence %zu: open %d, dense %d: %s", n, i, j, b, open,
                         dense[e], p.c.text);
        }
        packed_free(&p);
    }
    qkv_context_free(ctx);
}

/* The picture of docs/attention.md: 2, 3 and 1 queries are the last of 3, 3 and 4 keys. */
static void causal_is_counted_inside_each_pair(void **state) {
    static const char *const open[] = {"##..", "###.", "#...", "##..", "###.", "####"};
    const int32_t cu_q[] = {0, 2, 5, 6}, cu_k[] = {0, 3, 6, 10}, last[] = {1, 0, 3};
    struct qkv_context *ctx = open_context(0, 1);
    float q[6] = {0}, k[10] = {0}, v[10], y[6], lse[6], weights[4];
    (void)state;
    for (size_t j = 0; j < 10; j++) v[j] = (float)j;
    struct qkv_attention_call call = qkv_attention_call_defaults();
    call.q = qkv_view_bthd(q, QKV_F32, 1, 6, 1, 1), call.y = qkv_view_bthd(y, QKV_F32, 1, 6, 1, 1);
    call.k = qkv_view_bthd(k, QKV_F32, 1, 10, 1, 1), call.v = qkv_view_bthd(v, QKV_F32, 1, 10, 1, 1);
    call.mask.B = 3, call.mask.cu_q = cu_q, call.mask.cu_k = cu_k, call.lse = lse;
    call.mask.causal = true, call.mask.offsets = last;
    assert_ok(ctx, qkv_attention_forward(ctx, &call));
    for (size_t b = 0, row = 0; b < 3; b++)
        for (size_t i = 0; i < (size_t)(cu_q[b + 1] - cu_q[b]); i++, row++) {
            const size_t keys = (size_t)(cu_k[b + 1] - cu_k[b]);
            float count = 0, sum = 0;
            for (size_t j = 0; j < keys; j++)
                if (open[row][j] == '#') count++, sum += v[(size_t)cu_k[b] + j];
            assert_true(fabsf(y[row] - sum / count) < 1e-5f);
            assert_ok(ctx, qkv_attention_weights(ctx, &call, QKV_ATTENTION_WEIGHTS, b, 0, i, 1, weights));
            for (size_t j = 0; j < keys; j++)
                assert_true(fabsf(weights[j] - (open[row][j] == '#' ? 1 / count : 0)) < 1e-6f);
        }
    qkv_context_free(ctx);
}

/* ---- bad input -------------------------------------------------------------------------------------------------- */

static void cumulative_lengths_that_cannot_be_are_refused(void **state) {
    static float x[512];
    static const int32_t cu_q[] = {0, 2, 5, 6}, cu_k[] = {0, 3, 6, 10}, falling[] = {0, 3, 2, 6}, late[] = {1, 2, 5, 6},
                         short_of[] = {0, 2, 4, 5}, counts[] = {3, 3, 5}, documents[10] = {0};
    struct qkv_context *ctx = open_context(0, 1);
    struct qkv_attention_call good = qkv_attention_call_defaults();
    (void)state;
    good.q = qkv_view_bthd(x, QKV_F32, 1, 6, 1, 2), good.y = qkv_view_bthd(x + 256, QKV_F32, 1, 6, 1, 2);
    good.k = good.v = qkv_view_bthd(x, QKV_F32, 1, 10, 1, 2);
    good.mask.B = 3, good.mask.cu_q = cu_q, good.mask.cu_k = cu_k;
    assert_ok(ctx, qkv_attention_forward(ctx, &good));
#define REFUSE(change, status, part)                                                                                   \
    do {                                                                                                               \
        struct qkv_attention_call c = good;                                                                            \
        change;                                                                                                        \
        assert_status(ctx, qkv_attention_forward(ctx, &c), status);                                                    \
        assert_message(ctx, part);                                                                                     \
    } while (0)
    REFUSE(c.mask.cu_q = falling, QKV_ARGUMENT, "cu_q[2] is 2, below 3 before it; cumulative lengths do not fall");
    REFUSE(c.mask.cu_k = late, QKV_ARGUMENT, "cu_k[0] is 1; the first sequence begins at row 0");
    REFUSE(c.mask.cu_q = short_of, QKV_SHAPE, "cu_q[3] is 5, but q has 6 rows");
    REFUSE(c.mask.cu_k = cu_q, QKV_SHAPE, "cu_k[3] is 6, but k has 10 rows");
    REFUSE(c.mask.B = 2, QKV_SHAPE, "cu_q[2] is 5, but q has 6 rows");
    REFUSE(c.mask.B = (size_t)1 << 40, QKV_SHAPE, "exceeds");
    REFUSE(c.mask.cu_k = NULL, QKV_ARGUMENT, "cu_q is given without cu_k");
    REFUSE(c.mask.cu_q = (const int32_t *)(const void *)((const char *)cu_q + 2), QKV_ARGUMENT, "mask.cu_q is at");
    REFUSE(c.mask.Tq = 2, QKV_SHAPE, "cu_q[2] is 5 and makes sequence 1 3 rows long, but Tq says");
    REFUSE(c.mask.lengths = counts, QKV_ARGUMENT, "lengths[2] is 5, but there are 0 to 4 keys");
    REFUSE(c.mask.key_documents = documents, QKV_ARGUMENT, "keep sequences apart already");
    REFUSE(c.past_k = c.past_v = qkv_view_bthd(x, QKV_F32, 1, 2, 1, 2), QKV_SHAPE,
           "past_k is (1,1,2,2); to go with k it must be (3,1,2,2)");
    REFUSE(c.q.B = 2, QKV_SHAPE, "q is (2,1,6,2); to go with cu_q it must be (1,1,6,2)");
    REFUSE(c.y.T = 5, QKV_SHAPE, "y is (1,1,5,2)");
#undef REFUSE
    float out[4];
    assert_status(ctx, qkv_attention_weights(ctx, &good, QKV_ATTENTION_SCORES, 3, 0, 0, 1, out), QKV_SHAPE);
    assert_status(ctx, qkv_attention_weights(ctx, &good, QKV_ATTENTION_SCORES, 2, 0, 1, 1, out), QKV_SHAPE);
    struct qkv_attention_module_spec spec = qkv_attention_module_spec_defaults();
    struct qkv_module_input input = qkv_module_input_defaults();
    struct qkv_module *module;
    spec.in = 4, spec.attention.heads = 1;
    assert_ok(ctx, qkv_module_create_attention(ctx, &spec, 1, &module));
    input.x = (struct qkv_vectors){x, 1, 6, 4}, input.self.mask.cu_q = input.self.mask.cu_k = cu_q;
    assert_status(ctx, qkv_module_forward(module, &input, (struct qkv_vectors){x + 256, 1, 6, 4}), QKV_ARGUMENT);
    assert_message(ctx, "packed sequences go to attention on plain buffers");
    qkv_module_free(module);
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cumulative_lengths_that_cannot_be_are_refused),
        cmocka_unit_test(causal_is_counted_inside_each_pair),
        cmocka_unit_test(masks_of_packed_sequences_are_those_of_each),
        cmocka_unit_test(a_packed_sequence_has_the_bits_of_a_call_of_its_own),
        cmocka_unit_test(in_bf16_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
