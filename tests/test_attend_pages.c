/* test_attend_pages: keys and values of the past in shuffled pages, with pasts of several lengths: the bits are
 * those of contiguous keys in a separate call for each sequence, which test_attend.c compares with the reference in
 * double precision; and every pair of page types has the bits of the same numbers in rows of fp32. On every kernel
 * table of this machine, in fp32 and in bf16. Also invalid page tables. */
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
    p->a.pages = (struct qkv_page_table){.lists = p->tables, .positions = positions, .count = count};
    p->a.pasts = several ? p->pasts : NULL;
    p->a.past_k = paged_heads(c, p, &a->past_k, a->D, &p->k);
    p->a.past_v = paged_heads(c, p, &a->past_v, a->Dv, &p->v);
    p->a.pages.k = qkv_page_type_of_rows(p->a.past_k.dtype), p->a.pages.v = qkv_page_type_of_rows(p->a.past_v.dtype);
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

/* ---- page types ------------------------------------------------------------------------------------------------- */

/* All keys of a case without a past become its past. */
static void typed_start(struct attend_case *c) {
    struct qkv_attend *a = &c->a;
    a->past = a->Tk, a->past_k = a->k, a->past_v = a->v;
    a->k = a->v = (struct qkv_heads){0};
}

/* Copies the rows of these pages as fp32, head by head, in numbers that a page type holds, this share of them spoilt;
 * the copies replace those of the case. */
static float *typed_rows(const struct paged_case *p, struct qkv_heads *x, size_t columns,
                         const struct qkv_page_type *type, double spoil, struct qkv_random *random) {
    const size_t rows = p->a.pages.count * p->a.pages.positions, width = p->a.Hkv * columns;
    float *data = malloc((rows * width + 1) * sizeof *data);
    const float spoilt[] = {NAN, INFINITY, 1e-39f};
    double stored[256];
    assert_true(columns <= TEST_COUNT(stored));
    for (size_t row = 0; row < rows; row++)
        for (size_t n = 0; n < p->a.Hkv; n++) {
            float *to = data + row * width + n * columns;
            for (size_t c = 0; c < columns; c++)
                to[c] =
                    attend_chance(random, spoil) ? spoilt[attend_uniform(random, 0, 2)] : attend_get(x, 0, row, n, c);
            qkv_from_float(stored, to, type->dtype, columns);
            qkv_to_float(to, stored, type->dtype, columns);
        }
    *x = (struct qkv_heads){.data = data,
                            .batch_stride = p->a.pages.positions * width,
                            .row_stride = width,
                            .head_stride = columns,
                            .dtype = QKV_F32};
    return data;
}

/* Positions of a page that somebody has. */
static size_t typed_used(const struct paged_case *p, size_t page) {
    const size_t positions = p->a.pages.positions;
    for (size_t b = 0; b < p->a.B; b++)
        for (size_t i = 0; i * positions < (size_t)p->pasts[b]; i++) {
            const size_t left = (size_t)p->pasts[b] - i * positions;
            if ((size_t)p->lists[b][i] == page) return left < positions ? left : positions;
        }
    return 0;
}

/* Puts the positions [first, end) of a page, one head or all of them, as rows of fp32, or of bf16 if these are the same
 * numbers. */
static void typed_put(const struct qkv_pages *pages, const float *numbers, size_t page, size_t first, size_t end,
                      struct qkv_random *random) {
    const size_t width = pages->heads * pages->columns, count = (end - first) * width;
    const float *from = numbers + (page * pages->positions + first) * width;
    const bool one = attend_chance(random, 0.5), halves = pages->type->dtype == QKV_BF16 && attend_chance(random, 0.7);
    uint16_t *rounded = malloc((count + 1) * sizeof *rounded);
    qkv_from_float(rounded, from, QKV_BF16, count);
    for (size_t head = 0; head < pages->heads; head += one ? 1 : pages->heads) {
        const struct qkv_page_part part = {
            .page = page, .head = head, .heads = one ? 1 : pages->heads, .first = first, .count = end - first};
        const size_t at = head * pages->columns;
        const struct qkv_page_rows rows = {.data = halves ? (const void *)(rounded + at) : (const void *)(from + at),
                                           .dtype = halves ? QKV_BF16 : QKV_F32,
                                           .stride = width};
        pages->type->put(pages, &part, &rows);
    }
    free(rounded);
}

/* Fills a page in pieces, of one and of many positions; now and then it is shortened and goes on. */
static void typed_fill(const struct qkv_pages *pages, const float *numbers, size_t page, size_t used,
                       struct qkv_random *random) {
    for (size_t done = 0; done < used;) {
        const size_t most = used - done, wanted = attend_chance(random, 0.6) ? 1 : attend_uniform(random, 1, most);
        typed_put(pages, numbers, page, done, done + wanted, random);
        done += wanted;
        if (attend_chance(random, 0.02)) done = attend_uniform(random, 0, done);
    }
}

/* The same numbers in pages of a type; unused positions hold NaN. Each page is copied to a page that nobody has, and
 * back. */
static struct qkv_pages typed_make(const struct qkv_context *ctx, const struct paged_case *p,
                                   const struct qkv_page_type *type, enum qkv_page_side side, size_t columns,
                                   const float *numbers, struct qkv_random *random) {
    const size_t count = p->a.pages.count;
    struct qkv_pages pages = qkv_pages_of(ctx->kernels, type, side, p->a.Hkv, columns, p->a.pages.positions);
    const size_t bytes = count * qkv_page_stored_bytes(&pages), line = QKV_CACHE_LINE;
    pages.count = count;
    pages.data = aligned_alloc(line, (bytes + line) / line * line);
    memset(pages.data, 0xff, bytes);
    for (size_t page = 0; page < count; page++) typed_fill(&pages, numbers, page, typed_used(p, page), random);
    for (size_t page = 0; page < count; page++)
        for (size_t to = 0; typed_used(p, page) && to < count; to++) {
            if (typed_used(p, to)) continue;
            type->copy(&pages, to, page, typed_used(p, page));
            type->copy(&pages, page, to, typed_used(p, page));
            break;
        }
    return pages;
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

/* The results of a call: y, lse, and the scores of one head. */
struct results {
    size_t y_bytes, lse_count, score_count;
    void *y;
    float *lse, *scores;
};

static struct results results_of(struct qkv_context *ctx, struct attend_case *c, const struct qkv_attend *a,
                                 struct qkv_arena *scratch) {
    struct results r = {.y_bytes = c->elements[ATTEND_Y] * qkv_type_size(a->y.dtype),
                        .lse_count = a->B * a->H * a->Tq,
                        .score_count = a->Tq * qkv_attend_keys(a, 0)};
    r.y = malloc(r.y_bytes + 1), r.lse = malloc(r.lse_count * sizeof *r.lse + 1);
    r.scores = malloc(r.score_count * sizeof *r.scores + 1);
    memset(c->lse, 0x55, r.lse_count * sizeof *c->lse);
    if (qkv_attend_forward(ctx, scratch, a)) fail_msg("%s: %s", c->text, ctx->message);
    memcpy(r.y, one_nan(c->buffer[ATTEND_Y], c->elements[ATTEND_Y], a->y.dtype), r.y_bytes);
    memcpy(r.lse, one_nan(c->lse, r.lse_count, QKV_F32), r.lse_count * sizeof *r.lse);
    if (qkv_attend_weights(ctx, scratch, a, QKV_ATTENTION_SCORES, 0, a->H - 1, 0, a->Tq, r.scores))
        fail_msg("%s: %s", c->text, ctx->message);
    one_nan(r.scores, r.score_count, QKV_F32);
    return r;
}

static bool results_same(const struct results *a, const struct results *b) {
    return !memcmp(a->y, b->y, a->y_bytes) && !memcmp(a->lse, b->lse, a->lse_count * sizeof *a->lse) &&
           !memcmp(a->scores, b->scores, a->score_count * sizeof *a->scores);
}

static void results_free(struct results *r) {
    free(r->y), free(r->lse), free(r->scores);
}

/* Compares the case in pages of these types with the same numbers in rows of fp32. */
static void typed_expect(struct qkv_context *ctx, struct attend_case *c, struct paged_case *p,
                         struct qkv_page_types types, bool shared, double spoil, struct qkv_random *random) {
    struct qkv_attend *a = &p->a;
    float *k = typed_rows(p, &a->past_k, a->D, types.k, spoil, random), *v = k;
    if (shared)
        a->past_v = a->past_k;
    else
        v = typed_rows(p, &a->past_v, a->Dv, types.v, spoil, random);
    struct qkv_arena scratch;
    assert_int_equal(qkv_arena_create(ctx, &scratch, SCRATCH, "scratch"), QKV_OK);
    a->pages.k = a->pages.v = &qkv_page_type_f32;
    struct results expected = results_of(ctx, c, a, &scratch);
    const struct qkv_pages keys = typed_make(ctx, p, types.k, QKV_PAGE_KEYS, a->D, k, random);
    const struct qkv_pages values = shared ? keys : typed_make(ctx, p, types.v, QKV_PAGE_VALUES, a->Dv, v, random);
    struct qkv_attend typed = *a;
    typed.pages.k = types.k, typed.pages.v = types.v, typed.pages.shared = shared;
    typed.past_k.data = keys.data, typed.past_k.dtype = types.k->dtype;
    typed.past_v.data = values.data, typed.past_v.dtype = types.v->dtype;
    for (ctx->threads = 1; ctx->threads <= 3; ctx->threads += 2) {
        struct results got = results_of(ctx, c, &typed, &scratch);
        if (!results_same(&expected, &got))
            fail_msg("%s, keys in %s, values in %s%s, pages of %zu, %d threads: %s: not the same bits",
                     ctx->kernels->isa, types.k->name, types.v->name, shared ? " (shared)" : "", a->pages.positions,
                     ctx->threads, c->text);
        results_free(&got);
    }
    ctx->threads = 2;
    results_free(&expected);
    qkv_arena_free(&scratch);
    free(k), free(keys.data);
    if (!shared) free(v), free(values.data);
}

/* Also with any content in unused positions of pages, and with values that are not finite; with all keys in pages or
 * some; with values that are channels of the keys. */
static void pages_of_all_types_have_the_bits_of_rows(void **state) {
    struct fixture f;
    struct qkv_context *ctx;
    size_t count = 0;
    (void)state;
    while (qkv_page_type_at(count)) count++;
    FOR_PRECISIONS(f, ctx) {
        struct qkv_random random = test_random(2);
        for (size_t i = 0; i < cases(200); i++) {
            const struct qkv_page_types types = {.k = qkv_page_type_at(i % count),
                                                 .v = qkv_page_type_at(i / count % count)};
            struct attend_case c;
            struct paged_case p;
            attend_case_random(&c, &random, true);
            const struct qkv_page_heads heads = {
                c.a.Hkv, c.a.D, c.a.Dv, types.k == types.v && c.a.Dv <= c.a.D && attend_chance(&random, 0.7), "shared"};
            if (qkv_page_types_check(ctx, &heads, types, "a case", 0) || c.a.D > 256 || c.a.Dv > 256) {
                attend_case_free(&c);
                continue;
            }
            if (!c.a.past) typed_start(&c);
            c.a.dropout = 0; /* whose mask counts keys of the whole call */
            const size_t sizes[] = {QKV_ATTEND_BLOCK, c.a.past + attend_uniform(&random, 1, 9), 16,
                                    attend_uniform(&random, 1, 200)};
            paged_make(&p, &c, &random, sizes[attend_chance(&random, 0.5) ? 0 : attend_uniform(&random, 0, 3)],
                       attend_chance(&random, 0.5));
            typed_expect(ctx, &c, &p, types, heads.shared, 0.002, &random);
            paged_free(&p);
            attend_case_free(&c);
        }
    }
}

/* ---- types of blocks -------------------------------------------------------------------------------------------- */

/* A page type whose numbers share scales: each of them in turn. */
static const struct qkv_page_type *blocks_type(size_t turn) {
    const struct qkv_page_type *type, *found[16];
    size_t count = 0;
    for (size_t i = 0; (type = qkv_page_type_at(i)); i++)
        if (qkv_types[type->dtype]->block > 1) found[count++] = type;
    assert_true(count > 0);
    return found[turn % count];
}

/* Numbers of a case as a type stores them. */
static void blocks_round(const struct attend_case *c, const struct qkv_heads *x, size_t columns,
                         const struct qkv_page_type *type) {
    const struct qkv_attend *a = &c->a;
    float numbers[128];
    double stored[128];
    assert_true(columns <= TEST_COUNT(numbers));
    for (size_t at = 0; at < a->B * a->Tk * a->Hkv; at++) {
        const size_t b = at / a->Hkv / a->Tk, j = at / a->Hkv % a->Tk, n = at % a->Hkv;
        for (size_t d = 0; d < columns; d++) numbers[d] = attend_get(x, b, j, n, d);
        qkv_from_float(stored, numbers, type->dtype, columns);
        qkv_to_float(numbers, stored, type->dtype, columns);
        for (size_t d = 0; d < columns; d++) attend_set(x, b, j, n, d, numbers[d]);
    }
}

/* Decoding and short prompts with rows of 1 to 8 queries for a key, which a kernel may read where they are stored, and
 * longer prompts. */
static void blocks_case(struct attend_case *c, size_t i, struct qkv_random *random) {
    static const size_t keys[] = {600, 1, 15, 16, 64, 65, 130, 200}, widths[] = {32, 64, 96, 128};
    *c = (struct attend_case){.a = {.B = 1 + i % 2, .Hkv = 2, .Tq = i % 8 == 7 ? 20 : 1 + i % 3 / 2}};
    c->a.H = 2 * (1 + attend_uniform(random, 0, c->a.Tq > 1 ? 2 : 7));
    c->a.Tk = keys[i % TEST_COUNT(keys)];
    c->a.D = widths[attend_uniform(random, 0, 3)], c->a.Dv = widths[attend_uniform(random, 0, 3)];
    c->a.scale = (float)(1 / sqrt((double)c->a.D));
    if (i % 5 == 4) c->a.softcap = 2;
    attend_case_fill(c, random, i % 3 ? attend_uniform(random, 0, 4) : 0,
                     (struct attend_extras){.mask = i % 7 == 6, .attention_bias = i % 11 == 10});
    if (i % 4 == 3) attend_case_sinks(c, random);
}

/* Also attention in double precision over the numbers that the pages hold. */
static void pages_of_blocks_have_the_bits_of_rows(void **state) {
    struct fixture f;
    struct qkv_context *ctx;
    size_t count = 0, compared = 0;
    (void)state;
    while (qkv_page_type_at(count)) count++;
    FOR_PRECISIONS(f, ctx) {
        struct qkv_random random = test_random(3);
        for (size_t i = 0; i < cases(24); i++) {
            const struct qkv_page_type *blocks = blocks_type(i), *other = qkv_page_type_at(i / 4 % count);
            const struct qkv_page_types types = {.k = i % 4 == 1 ? other : blocks, .v = i % 4 == 2 ? other : blocks};
            struct attend_case c;
            struct paged_case p;
            struct attend_answer answer;
            blocks_case(&c, i, &random);
            typed_start(&c);
            blocks_round(&c, &c.a.past_k, c.a.D, types.k);
            blocks_round(&c, &c.a.past_v, c.a.Dv, types.v);
            const size_t sizes[] = {QKV_ATTEND_BLOCK, QKV_ATTEND_BLOCK, c.a.Tk + i % 9, 48, 1 + i};
            paged_make(&p, &c, &random, sizes[i % TEST_COUNT(sizes)], false);
            typed_expect(ctx, &c, &p, types, false, i % 6 == 5 ? 0.002 : 0, &random);
            if (i % 6 != 5 && ctx->precision == QKV_FP32) {
                attend_reference(&c, false, &answer);
                const double error = attend_difference(&c, ATTEND_Y, answer.y, 0, c.a.Tq, 0.05);
                if (!(error <= 1e-5)) fail_msg("%s: %s: error %g", ctx->kernels->isa, c.text, error);
                attend_answer_free(&answer);
                compared++;
            }
            paged_free(&p);
            attend_case_free(&c);
        }
    }
    assert_true(compared > 0);
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
    a.pages = (struct qkv_page_table){
        .lists = lists, .positions = 2, .count = 2, .k = &qkv_page_type_f32, .v = &qkv_page_type_f32};
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
    REFUSED(a.pages.v = NULL, QKV_ARGUMENT, "pages are given without the types of their contents");
    REFUSED(a.pages.k = &qkv_page_type_bf16, QKV_ARGUMENT, "past_k and past_v are not those of their pages");
    REFUSED((a.pages.shared = true, a.Dv = 2), QKV_ARGUMENT, "the first of the keys' 1 channels, not 2");
    assert_int_equal(qkv_attend_forward(&ctx, &scratch, &a), QKV_OK);
    qkv_arena_free(&scratch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_in_pages_have_the_bits_of_keys_side_by_side),
        cmocka_unit_test(long_sequences_go_over_many_pages),
        cmocka_unit_test(pages_of_all_types_have_the_bits_of_rows),
        cmocka_unit_test(pages_of_blocks_have_the_bits_of_rows),
        cmocka_unit_test(page_tables_that_make_no_sense_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
