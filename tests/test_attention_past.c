/* test_attention_past.c: a separate past of keys with different lengths for each sequence, packed or not, contiguous
 * or in pages of any size: bit for bit against the same keys in one array, which test_attention_packed.c compares
 * with the definition in double precision; over random calls with all options, on every kernel table of this
 * machine, in fp32 and in bf16. And bad input. */
#include "attention_packed_case.h"

struct split {
    struct qkv_attention_call call;
    struct qkv_attention_gradients g;
    int32_t pasts[MOST], cu_k[MOST + 1], *pages;
    size_t news; /* keys behind the past, of all sequences */
    bool rectangular;
};

static size_t keys_of(const struct packed *p, size_t b) {
    return (size_t)(p->cu_k[b + 1] - p->cu_k[b]);
}

/* Chooses how many keys of each sequence are in the past; in rectangular batches all sequences have the same number
 * of new keys. */
static void split_lengths(struct split *s, const struct packed *p, struct qkv_random *r) {
    size_t least = p->B ? keys_of(p, 0) : 0, all = 0;
    for (size_t b = 0; b < p->B; b++) least = keys_of(p, b) < least ? keys_of(p, b) : least;
    const size_t same = case_chance(r, 0.3) ? 0 : test_between(r, 0, least);
    const bool none = case_chance(r, 0.2);
    for (size_t b = 0; b < p->B; b++) {
        const size_t left = s->rectangular ? same : none ? 0 : test_between(r, 0, keys_of(p, b));
        s->pasts[b] = (int32_t)(keys_of(p, b) - left);
        s->cu_k[b + 1] = (int32_t)(all += left);
    }
    s->news = all;
}

static struct qkv_view split_view(struct packed *p, struct qkv_random *r, enum qkv_dtype dtype, size_t B, size_t H,
                                  size_t T, size_t D) {
    void *data = case_memory(&p->c, B * H * T * D * sizeof(float));
    const struct qkv_view v =
        case_chance(r, 0.5) ? qkv_view_bhtd(data, dtype, B, H, T, D) : qkv_view_bthd(data, dtype, B, T, H, D);
    fill(&v, (double)NAN);
    return v;
}

/* The place of key j of sequence b: element (h, d) of the view that is returned. */
static const struct qkv_view *split_place(const struct split *s, const struct qkv_view *past,
                                          const struct qkv_view *now, size_t b, size_t j, size_t h, size_t d,
                                          size_t *element) {
    const size_t turn = (size_t)s->pasts[b], T = past->T;
    size_t row = b, t = j;
    if (j >= turn) {
        row = s->rectangular ? b : 0;
        t = j - turn + (s->rectangular ? 0 : (size_t)s->cu_k[b]);
        *element = ((row * now->H + h) * now->T + t) * now->D + d;
        return now;
    }
    if (s->call.pages) row = (size_t)s->call.pages[b * s->call.page_columns + j / T], t = j % T;
    *element = ((row * past->H + h) * T + t) * past->D + d;
    return past;
}

static void split_copy(const struct packed *p, const struct split *s, const struct qkv_view *from,
                       const struct qkv_view *past, const struct qkv_view *now) {
    for (size_t e = 0; e < formula_elements(from); e++) {
        const size_t d = e % from->D, t = e / from->D % from->T, h = e / from->D / from->T;
        size_t b = 0, at;
        while (t >= (size_t)p->cu_k[b + 1]) b++;
        const struct qkv_view *to = split_place(s, past, now, b, t - (size_t)p->cu_k[b], h, d, &at);
        formula_set(to, at, formula_get(from, e));
    }
}

/* Pages of any size, dealt out at random; numbers behind those that are needed are none. */
static size_t split_pages(struct split *s, struct packed *p, struct qkv_random *r, size_t positions) {
    size_t columns = 0, count = test_between(r, 1, 3);
    for (size_t b = 0; b < p->B; b++) {
        const size_t own = ((size_t)s->pasts[b] + positions - 1) / positions;
        columns = own > columns ? own : columns, count += own;
    }
    columns += test_between(r, 0, 2);
    int32_t *deck = case_memory(&p->c, count * sizeof *deck),
            *pages = case_memory(&p->c, p->B * columns * sizeof *pages);
    for (size_t i = 0; i < count; i++) {
        const size_t at = test_between(r, 0, i);
        deck[i] = deck[at], deck[at] = (int32_t)i;
    }
    for (size_t b = 0, next = 0; b < p->B; b++)
        for (size_t i = 0; i < columns; i++)
            pages[b * columns + i] = i * positions < (size_t)s->pasts[b] ? deck[next++] : INT32_MIN;
    s->call.pages = pages, s->call.page_columns = columns;
    return count;
}

/* (1,H,rows,D) as (B,H,Tq,D). */
static struct qkv_view in_rows(const struct packed *p, struct qkv_view v) {
    v.batch = p->Tq * v.row;
    v.B = p->B, v.T = p->Tq;
    return v;
}

static void split_queries(struct split *s, struct packed *p) {
    struct qkv_view *views[] = {&s->call.q, &s->call.y, &s->g.dy, &s->g.dq};
    s->call.y.data = case_memory(&p->c, (size_t)1 << 20), s->g.dq.data = case_memory(&p->c, (size_t)1 << 20);
    for (size_t i = 0; s->rectangular && i < 4; i++) *views[i] = in_rows(p, *views[i]);
    s->call.lse = case_memory(&p->c, (size_t)p->cu_q[p->B] * p->H * sizeof(float));
    if (s->g.dbias) s->g.dbias = case_memory(&p->c, p->pairs * sizeof(float));
    s->call.mask.pasts = s->pasts;
    s->call.mask.cu_k = s->cu_k;
    if (s->rectangular) s->call.mask.cu_q = s->call.mask.cu_k = NULL;
}

static void split_make(struct split *s, struct packed *p, struct qkv_random *r, bool rectangular, bool pages) {
    const struct qkv_attention_call *whole = &p->c.call;
    const struct qkv_attention_gradients *g = &p->c.g;
    *s = (struct split){.call = *whole, .g = *g, .rectangular = rectangular};
    split_lengths(s, p, r);
    size_t T = 0, B = p->B;
    for (size_t b = 0; b < p->B; b++) T = (size_t)s->pasts[b] > T ? (size_t)s->pasts[b] : T;
    T += test_between(r, 0, 5);
    static const size_t sizes[] = {1, 16, 64, 128, 256};
    if (pages)
        T = case_chance(r, 0.7) ? sizes[test_between(r, 0, 4)] : test_between(r, 1, 300), B = split_pages(s, p, r, T);
    const size_t rows = rectangular ? p->B : 1, each = rectangular ? (p->B ? s->news / p->B : 0) : s->news;
    const struct qkv_view *from[] = {&whole->k, &whole->v, &g->dk, &g->dv};
    struct qkv_view *past[] = {&s->call.past_k, &s->call.past_v, &s->g.dpast_k, &s->g.dpast_v},
                    *now[] = {&s->call.k, &s->call.v, &s->g.dk, &s->g.dv};
    for (size_t i = 0; i < (pages ? 2u : 4u); i++) {
        *past[i] = split_view(p, r, from[i]->dtype, B, p->Hkv, T, from[i]->D);
        *now[i] = split_view(p, r, from[i]->dtype, rows, p->Hkv, each, from[i]->D);
        if (i < 2) split_copy(p, s, from[i], past[i], now[i]);
    }
    split_queries(s, p);
    if (!s->news && case_chance(r, 0.5)) s->call.k = s->call.v = s->g.dk = s->g.dv = qkv_view_defaults();
}

/* ---- the same bits ---------------------------------------------------------------------------------------------- */

static bool same_floats(const struct qkv_view *x, const struct qkv_view *y) {
    float *a = packed(x), *b = packed(y);
    const bool same = formula_elements(x) == formula_elements(y) && !memcmp(a, b, formula_elements(x) * sizeof(float));
    free(a), free(b);
    return same;
}

/* For arrays of queries: y or dq. */
static bool same_queries(const struct packed *p, const struct split *s, const struct qkv_view *whole,
                         const struct qkv_view *got) {
    const struct qkv_view expected = s->rectangular ? in_rows(p, *whole) : *whole;
    return same_floats(&expected, got);
}

/* For arrays of keys: dk or dv. */
static bool same_keys(const struct packed *p, const struct split *s, const struct qkv_view *whole,
                      const struct qkv_view *past, const struct qkv_view *now) {
    for (size_t e = 0; e < formula_elements(whole); e++) {
        const size_t d = e % whole->D, t = e / whole->D % whole->T, h = e / whole->D / whole->T;
        size_t b = 0, at;
        while (t >= (size_t)p->cu_k[b + 1]) b++;
        const struct qkv_view *x = split_place(s, past, now, b, t - (size_t)p->cu_k[b], h, d, &at);
        const float got = (float)formula_get(x, at), expected = (float)formula_get(whole, e);
        if (memcmp(&got, &expected, sizeof got)) return false;
    }
    return true;
}

static bool same_weights(struct qkv_context *ctx, const struct packed *p, const struct split *s, struct qkv_random *r) {
    for (size_t b = 0; b < p->B; b++) {
        const size_t rows = (size_t)(p->cu_q[b + 1] - p->cu_q[b]), h = test_between(r, 0, p->H - 1);
        float *x = calloc(rows * p->Tk + 1, sizeof *x), *y = calloc(rows * p->Tk + 1, sizeof *y);
        const enum qkv_attention_stage stage = case_chance(r, 0.5) ? QKV_ATTENTION_WEIGHTS : QKV_ATTENTION_SCORES;
        assert_ok(ctx, qkv_attention_weights(ctx, &p->c.call, stage, b, h, 0, rows, x));
        assert_ok(ctx, qkv_attention_weights(ctx, &s->call, stage, b, h, 0, rows, y));
        const bool same = !memcmp(x, y, rows * keys_of(p, b) * sizeof *x);
        free(x), free(y);
        if (!same) return false;
    }
    return true;
}

static const char *differs(struct qkv_context *ctx, const struct packed *p, const struct split *s,
                           struct qkv_random *r) {
    const struct qkv_attention_call *whole = &p->c.call;
    const struct qkv_attention_gradients *g = &p->c.g;
    if (qkv_attention_forward(ctx, &s->call)) return qkv_message(ctx);
    if (!same_queries(p, s, &whole->y, &s->call.y)) return "y";
    if (memcmp(whole->lse, s->call.lse, (size_t)p->cu_q[p->B] * p->H * sizeof(float))) return "lse";
    if (!same_weights(ctx, p, s, r)) return "weights";
    if (s->call.pages) {
        if (qkv_attention_backward(ctx, &s->call, &s->g) != QKV_ARGUMENT) return "backward of pages";
        return strstr(qkv_message(ctx), "there is no gradient where the past lies in pages") ? NULL : qkv_message(ctx);
    }
    if (qkv_attention_backward(ctx, &s->call, &s->g)) return qkv_message(ctx);
    if (!same_queries(p, s, &g->dq, &s->g.dq)) return "dq";
    if (!same_keys(p, s, &g->dk, &s->g.dpast_k, &s->g.dk)) return "dk";
    if (!same_keys(p, s, &g->dv, &s->g.dpast_v, &s->g.dv)) return "dv";
    return g->dbias && memcmp(g->dbias, s->g.dbias, p->pairs * sizeof(float)) ? "dbias" : NULL;
}

static void check_splits(enum qkv_precision precision, uint64_t seed, size_t count, bool pages) {
    for (size_t t = 0; qkv_isa_at(t); t++) {
        const struct qkv_context_options options = {
            .size = sizeof options, .isa = qkv_isa_at(t), .threads = 1 + (int)(t % 3), .precision = precision};
        struct qkv_context *ctx;
        assert_ok(ctx, qkv_context_create(&ctx, &options));
        for (size_t n = 0; n < count; n++) {
            struct qkv_random r = test_random(seed + n);
            struct packed p;
            struct split s;
            const bool rectangular = case_chance(&r, 0.4);
            packed_random(&p, &r, false, rectangular);
            run(ctx, &p.c);
            split_make(&s, &p, &r, rectangular, pages);
            const char *what = differs(ctx, &p, &s, &r);
            if (what)
                fail_msg("%s, case %zu: %s %s differs: %s: %s", qkv_context_isa(ctx), n,
                         rectangular ? "rectangular" : "packed", pages ? "in pages" : "with a past", p.c.text, what);
            packed_free(&p);
        }
        qkv_context_free(ctx);
    }
}

static void keys_of_a_past_have_the_bits_of_keys_in_one_array(void **state) {
    (void)state;
    check_splits(QKV_FP32, 2100000, cases(35), false);
    check_splits(QKV_MIXED_BF16, 2200000, cases(25), false);
}

static void keys_in_pages_have_the_bits_of_keys_in_one_array(void **state) {
    (void)state;
    check_splits(QKV_FP32, 2300000, cases(35), true);
    check_splits(QKV_MIXED_BF16, 2400000, cases(25), true);
}

/* ---- masks, bad input ------------------------------------------------------------------------------------------- */

/* Pasts of 3 and 0 keys, then 1 and 2 others: the queries are the last ones. */
static void positions_count_from_the_first_key_of_the_past(void **state) {
    static const int32_t cu_q[] = {0, 1, 3}, cu_k[] = {0, 1, 3}, pasts[] = {3, 0};
    static const char *const open[] = {"####", "#...", "##.."};
    struct qkv_context *ctx = open_context(0, 1);
    struct qkv_mask m = qkv_mask_defaults();
    uint8_t dense[2 * 2 * 4];
    int32_t lo[3], hi[3];
    (void)state;
    m.B = 2, m.cu_q = cu_q, m.cu_k = cu_k, m.pasts = m.offsets = pasts, m.causal = true;
    assert_ok(ctx, qkv_mask_intervals(ctx, &m, lo, hi));
    assert_ok(ctx, qkv_mask_dense(ctx, &m, dense));
    static const size_t place[] = {0, 2, 3};
    for (size_t row = 0; row < 3; row++)
        for (size_t j = 0; j < 4; j++) {
            assert_int_equal(dense[place[row] * 4 + j], open[row][j] == '#');
            assert_int_equal(lo[row] <= (int32_t)j && (int32_t)j < hi[row], open[row][j] == '#');
        }
    qkv_context_free(ctx);
}

static float x[4096];

/* Two sequences of one query; pasts of 5 and 2 keys in three pages of 4, and one key more each. */
static struct qkv_attention_call paged_call(void) {
    static const int32_t pages[] = {2, 0, 1, 99}, pasts[] = {5, 2};
    struct qkv_attention_call call = qkv_attention_call_defaults();
    call.q = qkv_view_bhtd(x, QKV_F32, 2, 2, 1, 8), call.y = qkv_view_bhtd(x + 2048, QKV_F32, 2, 2, 1, 8);
    call.k = call.v = qkv_view_bhtd(x, QKV_F32, 2, 1, 1, 8);
    call.past_k = call.past_v = qkv_view_bthd(x, QKV_F32, 3, 4, 1, 8);
    call.pages = pages, call.page_columns = 2, call.mask.pasts = call.mask.offsets = pasts;
    return call;
}

static void pages_and_pasts_that_cannot_be_are_refused(void **state) {
    static const int32_t outside[] = {2, 3, 1, 99}, below[] = {2, 0, -1, 99}, far[] = {9, 2}, negative[] = {5, -2},
                         documents[12] = {0}, lengths[] = {7, 2};
    struct qkv_context *ctx = open_context(0, 1);
    struct qkv_attention_call good = paged_call();
    (void)state;
    assert_ok(ctx, qkv_attention_forward(ctx, &good));
#define REFUSE(change, status, part)                                                                                   \
    do {                                                                                                               \
        struct qkv_attention_call c = good;                                                                            \
        change;                                                                                                        \
        assert_status(ctx, qkv_attention_forward(ctx, &c), status);                                                    \
        assert_message(ctx, part);                                                                                     \
    } while (0)
    REFUSE(c.pages = outside, QKV_ARGUMENT, "page 1 of sequence 0 is number 3, which is none of the 3 pages");
    REFUSE(c.pages = below, QKV_ARGUMENT, "page 0 of sequence 1 is number -1, which is none of the 3 pages");
    REFUSE(c.mask.pasts = far, QKV_SHAPE,
           "sequence 0 has a past of 9 keys, but its 2 pages (page_columns) of 4 positions hold 8");
    REFUSE(c.page_columns = 1, QKV_SHAPE, "sequence 0 has a past of 5 keys, but its 1 pages");
    REFUSE(c.past_k.T = c.past_v.T = 0, QKV_SHAPE, "2 pages (page_columns) of 0 positions hold 0");
    REFUSE(c.page_columns = SIZE_MAX / 2, QKV_SHAPE,
           "pages (2,9223372036854775807) are more than this machine can address");
    REFUSE(c.mask.pasts = negative, QKV_SHAPE, "pasts[1] is -2");
    REFUSE(c.mask.pasts = NULL, QKV_ARGUMENT, "pages are given without mask.pasts");
    REFUSE(c.mask.past = 4, QKV_SHAPE, "pasts[0] is 5, but the past has room for 0 to 4 keys");
    REFUSE(c.mask.past = (size_t)1 << 40, QKV_SHAPE, "1099511627776");
    REFUSE(c.mask.lengths = lengths, QKV_ARGUMENT, "lengths[0] is 7, but there are 0 to 6 keys");
    REFUSE(c.mask.key_documents = documents, QKV_ARGUMENT, "key_documents are given with pasts");
    REFUSE(c.past_v.T = 3, QKV_SHAPE, "past_v is (3,1,3,8); to go with past_k it must be (3,1,4,8)");
    REFUSE(c.past_k.H = 2, QKV_SHAPE, "past_k is (3,2,4,8); to go with k it must be (3,1,4,8)");
    REFUSE(c.past_k.batch = SIZE_MAX / 2, QKV_SHAPE, "reaches further than this machine can address");
    REFUSE(c.past_k.B = c.past_v.B = SIZE_MAX / 4, QKV_SHAPE, "reaches further than this machine can address");
    REFUSE(c.past_k.data = NULL, QKV_ARGUMENT, "past_k has no data");
    REFUSE(c.pages = (const int32_t *)(const void *)((const char *)good.pages + 2), QKV_ARGUMENT, "pages is at");
    REFUSE((c.pages = NULL, c.past_k.B = c.past_v.B = 2), QKV_SHAPE,
           "sequence 0 has a past of 5 keys, but past_k holds 4 of each");
    REFUSE((c.pages = NULL, c.mask.pasts = NULL, c.mask.past = 3, c.past_k.B = c.past_v.B = 2), QKV_SHAPE,
           "mask.past is 3, but past_k has 4 keys a sequence");
#undef REFUSE
    static const int32_t none[] = {0, 0};
    struct qkv_attention_call empty = good;
    empty.past_k.T = empty.past_v.T = 0, empty.mask.pasts = none;
    assert_ok(ctx, qkv_attention_forward(ctx, &empty));
    struct qkv_attention_module_spec spec = qkv_attention_module_spec_defaults();
    struct qkv_module_input input = qkv_module_input_defaults();
    struct qkv_module *module;
    spec.in = 4, spec.attention.heads = 1;
    assert_ok(ctx, qkv_module_create_attention(ctx, &spec, 1, &module));
    input.x = (struct qkv_vectors){x, 2, 6, 4}, input.self.mask.pasts = lengths;
    assert_status(ctx, qkv_module_forward(module, &input, (struct qkv_vectors){x + 256, 2, 6, 4}), QKV_ARGUMENT);
    assert_message(ctx, "pasts is given, but here no keys lie in a past of their own");
    qkv_module_free(module);
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(positions_count_from_the_first_key_of_the_past),
        cmocka_unit_test(pages_and_pasts_that_cannot_be_are_refused),
        cmocka_unit_test(keys_of_a_past_have_the_bits_of_keys_in_one_array),
        cmocka_unit_test(keys_in_pages_have_the_bits_of_keys_in_one_array),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
