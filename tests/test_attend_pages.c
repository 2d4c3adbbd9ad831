/* test_attend_pages: keys and values of the past in shuffled pages, with pasts of several lengths: the bits are
 * those of contiguous keys in a separate call for each sequence, which test_attend.c compares with the reference in
 * double precision. On every kernel table of this machine, in fp32 and in bf16. Also invalid page tables. */
#include "attend_precisions.h"

enum { SCRATCH = 1 << 25 };

/* The past of a case in pages; every list has a guard page behind it, and pages that nobody has hold NaN. */
struct paged_case {
    struct qkv_attend a;
    int32_t *lists[4], *pasts;
    const int32_t **tables;
    void *k, *v;
};

static struct qkv_heads paged_heads(const struct attend_case *c, const struct paged_case *p,
                                    const struct qkv_heads *from, size_t columns, void **data) {
    const struct qkv_attend *a = &c->a;
    const size_t rows = p->a.pages.count * p->a.pages.positions;
    struct qkv_heads x = {.row_stride = a->Hkv * columns + 3, .head_stride = columns, .dtype = from->dtype};
    x.batch_stride = p->a.pages.positions * x.row_stride;
    const float nothing = NAN;
    x.data = *data = attend_memory(rows * x.row_stride, qkv_type_size(x.dtype));
    for (size_t i = 0; i < rows * x.row_stride; i++)
        qkv_from_float((char *)x.data + i * qkv_type_size(x.dtype), &nothing, x.dtype, 1);
    for (size_t b = 0; b < a->B; b++)
        for (size_t j = 0; j < (size_t)p->pasts[b]; j++)
            for (size_t n = 0; n < a->Hkv; n++)
                for (size_t d = 0; d < columns; d++) {
                    const size_t positions = p->a.pages.positions;
                    attend_set(&x, (size_t)p->lists[b][j / positions], j % positions, n, d,
                               attend_get(from, b, j, n, d));
                }
    return x;
}

/* Pages of `positions`, dealt out at random; `several`: a past of its own for each sequence. */
static void paged_make(struct paged_case *p, const struct attend_case *c, struct qkv_random *random, size_t positions,
                       bool several) {
    const struct qkv_attend *a = &c->a;
    const size_t each = (a->past + positions - 1) / positions, count = a->B * each + attend_uniform(random, 1, 3);
    int32_t *deck = calloc(count, sizeof *deck);
    memset(p, 0, sizeof *p);
    p->a = *a;
    p->pasts = attend_memory(a->B, sizeof *p->pasts);
    p->tables = attend_memory(a->B, sizeof *p->tables);
    for (size_t i = 0; i < count; i++) {
        const size_t at = attend_uniform(random, 0, i);
        deck[i] = deck[at];
        deck[at] = (int32_t)i;
    }
    for (size_t b = 0; b < a->B; b++) {
        p->pasts[b] = (int32_t)(several ? attend_uniform(random, 0, a->past) : a->past);
        const size_t own = ((size_t)p->pasts[b] + positions - 1) / positions;
        p->tables[b] = p->lists[b] = attend_memory(own, sizeof *p->lists[b]);
        memcpy(p->lists[b], deck + b * each, own * sizeof *deck);
    }
    free(deck);
    p->a.pages = (struct qkv_page_table){p->tables, positions, count};
    p->a.pasts = several ? p->pasts : NULL;
    p->a.past_k = paged_heads(c, p, &a->past_k, a->D, &p->k);
    p->a.past_v = paged_heads(c, p, &a->past_v, a->Dv, &p->v);
}

static void paged_free(struct paged_case *p) {
    for (size_t b = 0; b < p->a.B; b++) guard_page_free(p->lists[b]);
    guard_page_free(p->pasts), guard_page_free(p->tables), guard_page_free(p->k), guard_page_free(p->v);
}

/* One sequence of the case in a call of its own, keys side by side. */
static struct qkv_attend alone_call(const struct attend_case *c, const struct paged_case *p, size_t b) {
    struct qkv_attend a = c->a;
    struct qkv_heads *moved[] = {&a.q, &a.k, &a.v, &a.past_k, &a.past_v, &a.y};
    for (size_t i = 0; i < TEST_COUNT(moved); i++)
        if (moved[i]->data)
            moved[i]->data = (char *)moved[i]->data + b * moved[i]->batch_stride * qkv_type_size(moved[i]->dtype);
    struct qkv_pairs *pairs[] = {&a.mask_strides, &a.attention_bias_strides}; /* which end where they end */
    const size_t whole = a.Tk;
    a.B = 1;
    a.Tk = a.Tk - a.past + (size_t)p->pasts[b];
    for (size_t i = 0; i < TEST_COUNT(pairs); i++) {
        const size_t there = whole - pairs[i]->missing;
        pairs[i]->missing = a.Tk > there ? a.Tk - there : 0;
    }
    a.past = (size_t)p->pasts[b];
    a.lo += b * a.Tq, a.hi += b * a.Tq, a.lse += b * a.H * a.Tq;
    if (a.position) a.position += b * a.Tq;
    if (a.mask) a.mask += b * a.mask_strides.batch_stride;
    if (a.attention_bias) a.attention_bias += b * a.attention_bias_strides.batch_stride;
    return a;
}

static void expect_same(struct qkv_context *ctx, struct attend_case *c, struct paged_case *p) {
    const struct qkv_attend *a = &c->a;
    const size_t bytes = c->elements[ATTEND_Y] * qkv_type_size(a->y.dtype), rows = a->B * a->H * a->Tq;
    void *y = malloc(bytes + 1);
    float *lse = malloc(rows * sizeof *lse + 1);
    struct qkv_arena scratch;
    assert_int_equal(qkv_arena_create(ctx, &scratch, SCRATCH, "scratch"), QKV_OK);
    for (size_t b = 0; b < a->B; b++) {
        const struct qkv_attend alone = alone_call(c, p, b);
        assert_int_equal(qkv_attend_forward(ctx, &scratch, &alone), QKV_OK);
    }
    memcpy(y, c->buffer[ATTEND_Y], bytes);
    memcpy(lse, c->lse, rows * sizeof *lse);
    for (ctx->threads = 1; ctx->threads <= 3; ctx->threads += 2) {
        memset(c->lse, 0x55, rows * sizeof *lse);
        if (qkv_attend_forward(ctx, &scratch, &p->a)) fail_msg("%s: %s", c->text, ctx->message);
        if (memcmp(y, c->buffer[ATTEND_Y], bytes) || memcmp(lse, c->lse, rows * sizeof *lse))
            fail_msg("%s, pages of %zu, precision %d, %d threads: %s: not the same bits", ctx->kernels->isa,
                     p->a.pages.positions, (int)ctx->precision, ctx->threads, c->text);
    }
    ctx->threads = 2;
    qkv_arena_free(&scratch);
    free(y), free(lse);
}

static void keys_in_pages_have_the_bits_of_keys_side_by_side(void **state) {
    struct fixture f;
    struct qkv_context *ctx;
    (void)state;
    FOR_PRECISIONS(f, ctx) {
        struct qkv_random random = test_random(1);
        for (size_t i = 0; i < cases(60); i++) {
            struct attend_case c;
            struct paged_case p;
            attend_case_random(&c, &random, true);
            c.a.dropout = 0; /* whose mask counts keys of the whole call */
            const size_t sizes[] = {QKV_ATTEND_BLOCK, c.a.past + attend_uniform(&random, 1, 9), 16,
                                    attend_uniform(&random, 1, 200)};
            paged_make(&p, &c, &random, sizes[attend_uniform(&random, 0, 3)], attend_chance(&random, 0.5));
            expect_same(ctx, &c, &p);
            paged_free(&p);
            attend_case_free(&c);
        }
    }
}

/* Several pages a sequence and several pieces of keys, decoding and prompts, with and without heads that share keys. */
static void long_sequences_go_over_many_pages(void **state) {
    static const size_t queries[] = {1, 5, 40};
    struct fixture f;
    struct qkv_context *ctx;
    (void)state;
    FOR_PRECISIONS(f, ctx) {
        for (size_t i = 0; i < 12; i++) {
            struct qkv_random random = test_random(10 + i);
            struct attend_case c = {
                .a = {.B = 3, .H = 4, .Hkv = i % 2 ? 4 : 1, .Tq = queries[i % 3], .Tk = 1300, .D = 24, .Dv = 40}};
            struct paged_case p;
            c.a.scale = 0.2f;
            attend_case_fill(&c, &random, i < 6 ? 4 : 1, (struct attend_extras){.past = true, .halves = i % 4 > 1});
            paged_make(&p, &c, &random, i % 5 ? QKV_ATTEND_BLOCK : i ? 16 : 3 * QKV_ATTEND_BLOCK, i > 2);
            expect_same(ctx, &c, &p);
            paged_free(&p);
            attend_case_free(&c);
        }
    }
}

/* ---- packed pages ----------------------------------------------------------------------------------------------- */

/* All keys of the case become its past. */
static void packed_start(struct attend_case *c) {
    struct qkv_attend *a = &c->a;
    a->past = a->Tk, a->past_k = a->k, a->past_v = a->v;
    a->k = a->v = (struct qkv_heads){0};
    a->dropout = 0;
}

/* Copies the rows of these pages as bf16, head by head, some of them spoilt; the copies replace those of the case. */
static uint16_t *packed_rows(struct paged_case *p, struct qkv_heads *x, size_t columns, struct qkv_random *random) {
    const size_t rows = p->a.pages.count * p->a.pages.positions, width = p->a.Hkv * columns;
    uint16_t *data = malloc((rows * width + 1) * sizeof *data);
    const float spoilt[] = {NAN, INFINITY, 1e-39f};
    for (size_t row = 0; row < rows; row++)
        for (size_t n = 0; n < width; n++) {
            float value = attend_get(x, 0, row, n / columns, n % columns);
            if (attend_chance(random, 0.002)) value = spoilt[attend_uniform(random, 0, 2)];
            qkv_from_float(data + row * width + n, &value, QKV_BF16, 1);
        }
    *x = (struct qkv_heads){.data = data,
                            .batch_stride = p->a.pages.positions * width,
                            .row_stride = width,
                            .head_stride = columns,
                            .dtype = QKV_BF16};
    return data;
}

struct packed {
    struct qkv_context *ctx;
    const struct paged_case *p;
    char *data;
    size_t bytes;
};

/* The positions [first, end) of one page and head. */
static void packed_put(struct packed *x, size_t page, size_t n, size_t first, size_t end) {
    const struct qkv_attend *a = &x->p->a;
    const size_t at = page * a->Hkv + n, row = page * a->pages.positions + first;
    const struct qkv_attend_put put = {.page = x->data + at * x->bytes,
                                       .spoilt = (uint8_t *)x->data + a->pages.count * a->Hkv * x->bytes + at,
                                       .D = a->D,
                                       .Dv = a->Dv,
                                       .positions = a->pages.positions,
                                       .first = first,
                                       .count = end - first,
                                       .k = attend_place(&a->past_k, 0, row, n, 0),
                                       .v = attend_place(&a->past_v, 0, row, n, 0),
                                       .row_stride = a->Hkv * a->D};
    qkv_attend_put(x->ctx, &put);
}

/* Positions of a page that somebody has. */
static size_t packed_used(const struct paged_case *p, size_t page) {
    const size_t positions = p->a.pages.positions;
    for (size_t b = 0; b < p->a.B; b++)
        for (size_t i = 0; i * positions < (size_t)p->pasts[b]; i++) {
            const size_t left = (size_t)p->pasts[b] - i * positions;
            if ((size_t)p->lists[b][i] == page) return left < positions ? left : positions;
        }
    return 0;
}

/* A page in pieces, of one and of many rows; now and then it is shortened and goes on. */
static void packed_fill(struct packed *x, size_t page, size_t n, struct qkv_random *random) {
    const size_t used = packed_used(x->p, page);
    for (size_t done = 0; done < used;) {
        const size_t most = used - done, wanted = attend_chance(random, 0.6) ? 1 : attend_uniform(random, 1, most);
        packed_put(x, page, n, done, done + wanted);
        done += wanted;
        if (attend_chance(random, 0.02)) done = attend_uniform(random, 0, done);
    }
}

/* Makes all NaNs equal: the sign of the sum of two NaNs, or of infinities, depends on the order of operands that a
 * compiler chose. */
static void *one_nan(void *data, size_t n, enum qkv_dtype dtype) {
    for (size_t i = 0; i < n; i++) {
        char *at = (char *)data + i * qkv_type_size(dtype);
        float value;
        qkv_to_float(&value, at, dtype, 1);
        if (isnan(value)) memset(at, 0xff, qkv_type_size(dtype));
    }
    return data;
}

static void packed_expect(struct qkv_context *ctx, struct attend_case *c, struct paged_case *p,
                          struct qkv_random *random) {
    const struct qkv_attend *a = &p->a;
    const size_t bytes = c->elements[ATTEND_Y] * qkv_type_size(a->y.dtype), rows = a->B * a->H * a->Tq;
    struct packed x = {ctx, p, NULL, qkv_attend_page_bytes(ctx, a->D, a->Dv, a->pages.positions)};
    uint16_t *k = packed_rows(p, &p->a.past_k, a->D, random), *v = packed_rows(p, &p->a.past_v, a->Dv, random);
    void *y = malloc(bytes + 1);
    float *lse = malloc(rows * sizeof *lse + 1);
    struct qkv_arena scratch;
    assert_int_equal(qkv_arena_create(ctx, &scratch, SCRATCH, "scratch"), QKV_OK);
    if (qkv_attend_forward(ctx, &scratch, a)) fail_msg("%s: %s", c->text, ctx->message);
    memcpy(y, one_nan(c->buffer[ATTEND_Y], c->elements[ATTEND_Y], a->y.dtype), bytes);
    memcpy(lse, one_nan(c->lse, rows, QKV_F32), rows * sizeof *lse);
    const size_t places = a->pages.count * a->Hkv;
    x.data = aligned_alloc(QKV_CACHE_LINE, (places * (x.bytes + 1) + QKV_CACHE_LINE) / QKV_CACHE_LINE * QKV_CACHE_LINE);
    memset(x.data, 0xff, places * (x.bytes + 1)); /* NaN */
    for (size_t i = 0; i < places; i++) packed_fill(&x, i / a->Hkv, i % a->Hkv, random);
    struct qkv_attend packed = *a;
    packed.page_bytes = x.bytes, packed.past_k.data = packed.past_v.data = x.data;
    for (ctx->threads = 1; ctx->threads <= 3; ctx->threads += 2) {
        memset(c->lse, 0x55, rows * sizeof *lse);
        if (qkv_attend_forward(ctx, &scratch, &packed)) fail_msg("%s: %s", c->text, ctx->message);
        one_nan(c->buffer[ATTEND_Y], c->elements[ATTEND_Y], a->y.dtype), one_nan(c->lse, rows, QKV_F32);
        if (memcmp(y, c->buffer[ATTEND_Y], bytes) || memcmp(lse, c->lse, rows * sizeof *lse))
            fail_msg("%s, packed pages of %zu, %d threads: %s: not the same bits", ctx->kernels->isa,
                     a->pages.positions, ctx->threads, c->text);
    }
    ctx->threads = 2;
    qkv_arena_free(&scratch);
    free(y), free(lse), free(x.data), free(k), free(v);
}

/* Also with any content in unused positions of pages, and with values that are not finite. */
static void packed_pages_have_the_bits_of_rows(void **state) {
    struct fixture f;
    struct qkv_context *ctx;
    (void)state;
    FOR_PRECISIONS(f, ctx) {
        struct qkv_random random = test_random(2);
        for (size_t i = 0; i < cases(150); i++) {
            struct attend_case c;
            struct paged_case p;
            attend_case_random(&c, &random, true);
            if (c.a.past || c.a.D != c.a.Dv) {
                attend_case_free(&c);
                continue;
            }
            packed_start(&c);
            const size_t own = c.a.Tk + attend_uniform(&random, c.a.Tk == 0, 9);
            paged_make(&p, &c, &random, own > QKV_ATTEND_BLOCK || attend_chance(&random, 0.5) ? QKV_ATTEND_BLOCK : own,
                       attend_chance(&random, 0.5));
            if (ctx->precision == QKV_MIXED_BF16)
                packed_expect(ctx, &c, &p, &random);
            else
                assert_int_equal(qkv_attend_page_bytes(ctx, c.a.D, c.a.Dv, QKV_ATTEND_BLOCK), 0);
            paged_free(&p);
            attend_case_free(&c);
        }
    }
}

static void packed_pages_of_others_are_refused(void **state) {
    struct fixture f;
    struct qkv_context *ctx;
    (void)state;
    FOR_PRECISIONS(f, ctx) {
        struct qkv_random random = test_random(3);
        struct attend_case c = {.a = {.B = 1, .H = 1, .Hkv = 1, .Tq = 2, .Tk = 3, .D = 4, .Dv = 4, .scale = 1}};
        struct paged_case p;
        struct qkv_arena scratch;
        float weights[6];
        attend_case_fill(&c, &random, 0, (struct attend_extras){0});
        packed_start(&c);
        paged_make(&p, &c, &random, QKV_ATTEND_BLOCK, false);
        assert_int_equal(qkv_arena_create(ctx, &scratch, SCRATCH, "scratch"), QKV_OK);
        const size_t bytes = qkv_attend_page_bytes(ctx, 4, 4, QKV_ATTEND_BLOCK);
        p.a.page_bytes = bytes + 1;
        assert_int_equal(qkv_attend_forward(ctx, &scratch, &p.a), QKV_SHAPE);
        assert_non_null(strstr(ctx->message, "are not those of this context's kernels"));
        assert_int_equal(qkv_attend_page_bytes(ctx, 4, 257, QKV_ATTEND_BLOCK), 0);
        assert_int_equal(qkv_attend_page_bytes(ctx, 4, 4, 2 * QKV_ATTEND_BLOCK), 0);
        p.a.page_bytes = bytes, p.a.past = 2, p.a.k = p.a.past_k, p.a.v = p.a.past_v;
        if (bytes) {
            assert_int_equal(qkv_attend_forward(ctx, &scratch, &p.a), QKV_SHAPE);
            assert_non_null(strstr(ctx->message, "hold all 3 keys of a call, not 2"));
            p.a.past = 3, p.a.pages.positions = 2, p.a.page_bytes = qkv_attend_page_bytes(ctx, 4, 4, 2);
            assert_int_equal(qkv_attend_forward(ctx, &scratch, &p.a), QKV_SHAPE);
            assert_non_null(strstr(ctx->message, "packed pages of 2 positions are impossible for 3 keys"));
            p.a.pages.positions = QKV_ATTEND_BLOCK, p.a.page_bytes = bytes;
            const enum qkv_attention_stage stage = QKV_ATTENTION_PRODUCTS;
            assert_int_equal(qkv_attend_weights(ctx, &scratch, &p.a, stage, 0, 0, 0, 2, weights), QKV_ARGUMENT);
            assert_non_null(strstr(ctx->message, "packed pages"));
        }
        qkv_arena_free(&scratch);
        paged_free(&p);
        attend_case_free(&c);
    }
}

static void page_tables_that_make_no_sense_are_refused(void **state) {
    struct qkv_context ctx = context_of(0, 1);
    struct qkv_arena scratch;
    float x[512] = {0};
    int32_t lo[2] = {0, 0}, hi[2] = {2, 2}, page[2] = {0, 1}, past[2] = {2, 1};
    const int32_t *lists[2] = {page, page};
    const struct qkv_heads heads = {.data = x, .batch_stride = 2, .row_stride = 1, .head_stride = 1};
    struct qkv_attend a = {.B = 2, .H = 1, .Hkv = 1, .Tq = 1, .Tk = 2, .D = 1, .Dv = 1, .scale = 1, .past = 2};
    (void)state;
    a.q = a.past_k = a.past_v = a.y = heads, a.lo = lo, a.hi = hi, a.pasts = past;
    a.pages = (struct qkv_page_table){lists, 2, 2};
    assert_int_equal(qkv_arena_create(&ctx, &scratch, SCRATCH, "scratch"), QKV_OK);
    assert_int_equal(qkv_attend_forward(&ctx, &scratch, &a), QKV_OK);
#define REFUSED(change, status, says)                                                                                  \
    do {                                                                                                               \
        struct qkv_attend good = a;                                                                                    \
        const int32_t pages_[2] = {page[0], page[1]}, pasts_[2] = {past[0], past[1]};                                  \
        change;                                                                                                        \
        assert_int_equal(qkv_attend_forward(&ctx, &scratch, &a), status);                                              \
        assert_non_null(strstr(ctx.message, says));                                                                    \
        a = good, lists[1] = page;                                                                                     \
        memcpy(page, pages_, sizeof page), memcpy(past, pasts_, sizeof past);                                          \
    } while (0)
    REFUSED(a.pages.positions = 0, QKV_SHAPE, "pages of no positions are impossible for 2 keys");
    REFUSED(page[0] = 2, QKV_ARGUMENT, "page 0 of sequence 0 is number 2, which is none of the 2 pages");
    REFUSED(page[0] = -1, QKV_ARGUMENT, "page 0 of sequence 0 is number -1");
    REFUSED((page[1] = 7, a.pages.positions = 1), QKV_ARGUMENT, "page 1 of sequence 0 is number 7");
    REFUSED(lists[1] = NULL, QKV_ARGUMENT, "sequence 1 has a past of 1 keys, but no list of pages");
    REFUSED(past[1] = 3, QKV_SHAPE, "sequence 1 has a past of 3 keys; it must be from 0 to 2");
    REFUSED(past[0] = -1, QKV_SHAPE, "sequence 0 has a past of -1 keys");
    assert_int_equal(qkv_attend_forward(&ctx, &scratch, &a), QKV_OK);
    qkv_arena_free(&scratch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_in_pages_have_the_bits_of_keys_side_by_side),
        cmocka_unit_test(long_sequences_go_over_many_pages),
        cmocka_unit_test(packed_pages_have_the_bits_of_rows),
        cmocka_unit_test(packed_pages_of_others_are_refused),
        cmocka_unit_test(page_tables_that_make_no_sense_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
