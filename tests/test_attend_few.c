/* test_attend_few.c: attention over few keys (isa/attend_few.c and, in bf16, isa/attend_bf16_few.c) has the same
 * bits as the passes for any length, which test_attend.c and test_attend_bf16.c compare with the reference in double
 * precision. A call runs in the passes if its past is given for each sequence (0 keys for all), or if its first keys
 * are given as the past; neither changes the bits. Counters show which of the two ran. On every kernel table of this
 * machine with such kernels, in fp32 and in bf16. */
#include <stdatomic.h>

#include "attend_tables.h"
#include "check_attend_ragged.h"
#include "kernel/isa/attend.h"

/* ---- tables that count ------------------------------------------------------------------------------------------ */

static const struct qkv_attend_kernels *counted;
static const struct qkv_attend_bf16_kernels *counted_bf16;
static atomic_size_t forward_items, backward_items, refused_items;

static void count_forward(const struct qkv_attend_plan *plan, size_t item, float *scratch) {
    atomic_fetch_add(&forward_items, 1);
    counted->forward_few(plan, item, scratch);
}

static void count_backward(const struct qkv_attend_plan *plan, size_t pair, float *scratch) {
    atomic_fetch_add(&backward_items, 1);
    counted->backward_few(plan, pair, scratch);
}

static bool count_forward_bf16(const struct qkv_attend_plan *plan, size_t pair, float *scratch) {
    const bool made = counted_bf16->forward_few(plan, pair, scratch);
    atomic_fetch_add(&forward_items, 1);
    if (!made) atomic_fetch_add(&refused_items, 1);
    return made;
}

static bool count_backward_bf16(const struct qkv_attend_plan *plan, size_t pair, float *scratch) {
    const bool made = counted_bf16->backward_few(plan, pair, scratch);
    atomic_fetch_add(&backward_items, 1);
    if (!made) atomic_fetch_add(&refused_items, 1);
    return made;
}

struct few_table { /* a table of this machine, and a precision, whose items of few keys are counted */
    struct qkv_context ctx;
    struct qkv_kernels kernels;
    struct qkv_attend_kernels attend;
    struct qkv_attend_bf16_kernels bf16;
    bool spoiled; /* whether the inputs may hold what bf16 does not */
};

/* Tables have both precisions one after the other, but those with tiles for bf16, which have no such kernels. */
static bool few_table_at(struct few_table *t, size_t i) {
    for (size_t at = 0; qkv_kernels_at(at); at++) {
        const struct qkv_kernels *kernels = qkv_kernels_at(at);
        const size_t precisions = kernels->attend_bf16->forward_few ? 2 : 1;
        if (i >= precisions) {
            i -= precisions;
            continue;
        }
        *t = (struct few_table){
            .ctx = context_of(at, 1), .kernels = *kernels, .attend = *kernels->attend, .bf16 = *kernels->attend_bf16};
        t->ctx.precision = i ? QKV_MIXED_BF16 : QKV_FP32;
        counted = kernels->attend, counted_bf16 = kernels->attend_bf16;
        t->attend.forward_few = count_forward, t->attend.backward_few = count_backward;
        if (i) t->bf16.forward_few = count_forward_bf16, t->bf16.backward_few = count_backward_bf16;
        t->kernels.attend = &t->attend, t->kernels.attend_bf16 = &t->bf16, t->ctx.kernels = &t->kernels;
        return true;
    }
    return false;
}

#define FOR_FEW_TABLES(t) for (size_t t_ = 0; few_table_at(&(t), t_); qkv_team_free(&(t).ctx), t_++)

/* ---- one call in both ways -------------------------------------------------------------------------------------- */

static const size_t outputs[] = {ATTEND_Y, ATTEND_DQ, ATTEND_DK, ATTEND_DV};
enum { OUTPUTS = TEST_COUNT(outputs), ALL = OUTPUTS + 1 }; /* and lse */

struct few_images { /* what the buffers of the outputs hold, gaps too */
    char *x[ALL];
};

static char *few_output(struct attend_case *c, size_t o, size_t *numbers, enum qkv_dtype *dtype) {
    const struct qkv_attend *a = &c->a;
    *dtype = o < OUTPUTS ? attend_tensor(c, outputs[o])->dtype : QKV_F32;
    if (o == OUTPUTS) {
        *numbers = a->H * (a->q_start ? (size_t)a->q_start[a->B] : a->B * a->Tq);
        return (char *)c->lse;
    }
    const struct attend_shape s = attend_shape_of(a, outputs[o]);
    const int32_t *start = ragged_of_queries(outputs[o]) ? a->q_start : a->k_start;
    *numbers = start ? (size_t)start[a->B] * s.heads * s.channels : c->elements[outputs[o]];
    return c->buffer[outputs[o]];
}

static struct few_images few_take(struct attend_case *c) {
    struct few_images images;
    for (size_t o = 0; o < ALL; o++) {
        size_t numbers;
        enum qkv_dtype dtype;
        const char *x = few_output(c, o, &numbers, &dtype);
        images.x[o] = attend_memory(numbers, qkv_type_size(dtype));
        memcpy(images.x[o], x, numbers * qkv_type_size(dtype));
    }
    return images;
}

static void few_give(struct attend_case *c, const struct few_images *images) {
    for (size_t o = 0; o < ALL; o++) {
        size_t numbers;
        enum qkv_dtype dtype;
        char *x = few_output(c, o, &numbers, &dtype);
        memcpy(x, images->x[o], numbers * qkv_type_size(dtype));
    }
}

static void few_free(struct few_images *images) {
    for (size_t o = 0; o < ALL; o++) guard_page_free(images->x[o]);
}

/* Any NaN is like another: which sign the sum of two has is the order of operands that a compiler chose. */
static void few_compare(const struct few_table *t, struct attend_case *c, const struct few_images *few, size_t number) {
    static const char *names[ALL] = {"y", "dq", "dk", "dv", "lse"};
    for (size_t o = 0; o < ALL; o++) {
        size_t numbers;
        enum qkv_dtype dtype;
        const char *passes = few_output(c, o, &numbers, &dtype);
        const size_t size = qkv_type_size(dtype);
        for (size_t e = 0; e < numbers; e++) {
            float got, expected;
            qkv_to_float(&got, few->x[o] + e * size, dtype, 1);
            qkv_to_float(&expected, passes + e * size, dtype, 1);
            if (memcmp(&got, &expected, sizeof got) && !(isnan(got) && isnan(expected)))
                fail_msg("%s %s: %s, %d threads, case %zu: %s, number %zu, is %a, and %a by the passes", t->kernels.isa,
                         t->ctx.precision == QKV_FP32 ? "fp32" : "bf16", c->text, t->ctx.threads, number, names[o], e,
                         (double)got, (double)expected);
        }
    }
}

/* The first `past` keys of a rectangle, where they lie, become its past. */
static void few_split(struct attend_case *c, size_t past) {
    struct qkv_attend *a = &c->a;
    struct qkv_attend_gradients *g = &c->g;
    struct qkv_heads *now[] = {&a->k, &a->v, &g->dk, &g->dv};
    struct qkv_heads *before[] = {&a->past_k, &a->past_v, &g->dpast_k, &g->dpast_v};
    for (size_t i = 0; i < TEST_COUNT(now); i++) {
        *before[i] = *now[i];
        if (now[i]->data)
            now[i]->data = (char *)now[i]->data + past * now[i]->row_stride * qkv_type_size(now[i]->dtype);
    }
    a->past = past;
}

static bool few_is_floats(struct attend_case *c) {
    static const size_t tensors[] = {ATTEND_Q, ATTEND_K, ATTEND_V, ATTEND_Y};
    for (size_t i = 0; i < TEST_COUNT(tensors); i++)
        if (attend_tensor(c, tensors[i])->dtype != QKV_F32) return false;
    return true;
}

/* The expectation by attend_work.h. A call without keys runs in fp32. */
static void few_expect(const struct few_table *t, struct attend_case *c) {
    const struct qkv_attend *a = &c->a;
    const bool bf16 = t->ctx.precision == QKV_MIXED_BF16 && a->Tk;
    const size_t rows = a->q_start ? (size_t)a->q_start[a->B] : a->B * a->Tq;
    const bool forward = rows && (bf16 ? a->Tq <= QKV_ATTEND_FEW_ROWS : few_is_floats(c)),
               backward = a->Tk && a->Tq <= QKV_ATTEND_FEW_ROWS && a->B * a->H >= (size_t)t->ctx.threads;
    if ((atomic_load(&forward_items) > 0) != forward || (atomic_load(&backward_items) > 0) != backward)
        fail_msg("%s: %s, %d threads: %zu items forward, %zu backward", t->kernels.isa, c->text, t->ctx.threads,
                 atomic_load(&forward_items), atomic_load(&backward_items));
    if (!t->spoiled && refused_items)
        fail_msg("%s: %s: %zu items were left to the passes", t->kernels.isa, c->text, atomic_load(&refused_items));
}

static void few_check(struct few_table *t, struct attend_case *c, struct qkv_random *random, size_t number) {
    int32_t *pasts = attend_memory(c->a.B, sizeof *pasts);
    struct attend_case passes = *c;
    struct few_images before = few_take(c);
    t->ctx.threads = (int)test_between(random, 1, 3);
    forward_items = backward_items = refused_items = 0;
    assert_true(attend_run(&t->ctx, c, true));
    few_expect(t, c);
    struct few_images few = few_take(c);
    few_give(c, &before);
    forward_items = backward_items = refused_items = 0;
    if (c->a.k_start || !c->a.Tk || attend_chance(random, 0.5))
        passes.a.pasts = pasts;
    else
        few_split(&passes, test_between(random, 1, c->a.Tk));
    assert_true(attend_run(&t->ctx, &passes, true));
    assert_true(!forward_items && !backward_items);
    few_compare(t, c, &few, number);
    few_free(&before), few_free(&few), guard_page_free(pasts);
}

/* ---- random calls ----------------------------------------------------------------------------------------------- */

/* Packed documents: a row sees its own up to itself. */
static void few_documents(struct attend_case *c, struct qkv_random *random) {
    for (size_t b = 0; b < c->a.B; b++) {
        int32_t first = 0;
        for (size_t i = 0; i < c->a.Tq; i++) {
            if (attend_chance(random, 0.15)) first = (int32_t)i;
            c->lo[b * c->a.Tq + i] = first, c->hi[b * c->a.Tq + i] = (int32_t)i + 1;
        }
    }
}

static void few_spoil(struct qkv_heads *x, size_t T, size_t heads, size_t channels, size_t B,
                      struct qkv_random *random) {
    static const float bad[] = {NAN, INFINITY, -INFINITY, 1e38f, -1e38f, 1e-38f, 0, -0.0f};
    if (!x->data || !T || !B || attend_chance(random, 0.5)) return;
    for (size_t n = test_between(random, 1, 3); n; n--) {
        const size_t b = test_between(random, 0, B - 1), i = test_between(random, 0, T - 1);
        const size_t h = test_between(random, 0, heads - 1), d = test_between(random, 0, channels - 1);
        const float number = bad[test_between(random, 0, TEST_COUNT(bad) - 1)];
        if (attend_chance(random, 0.3))
            attend_fill_row(x, b, i, h, channels, number);
        else
            attend_set(x, b, i, h, d, number);
    }
}

/* Numbers that are none, or at the edge of what floats hold, and inputs so small that products of them vanish. */
static void few_spoil_case(struct attend_case *c, struct qkv_random *random) {
    static const size_t inputs[] = {ATTEND_Q, ATTEND_K, ATTEND_V, ATTEND_DY};
    for (size_t n = 0; n < TEST_COUNT(inputs); n++) {
        const struct attend_shape s = attend_shape_of(&c->a, inputs[n]);
        struct qkv_heads *x = attend_tensor(c, inputs[n]);
        const bool tiny = attend_chance(random, 0.2);
        for (size_t e = 0; tiny && e < c->elements[inputs[n]]; e++) {
            char *at = (char *)x->data + e * qkv_type_size(x->dtype);
            float number;
            qkv_to_float(&number, at, x->dtype, 1);
            number *= 1e-30f;
            qkv_from_float(at, &number, x->dtype, 1);
        }
        few_spoil(x, s.T, s.heads, s.channels, c->a.B, random);
    }
}

/* D, Dv, B, H and all else but Tq and Tk, which are given. */
static void few_make(struct few_table *t, struct attend_case *c, struct qkv_random *random, size_t Tq, size_t Tk) {
    static const float scales[] = {1, 1, 1, -3, 100, -300, 0};
    struct qkv_attend *a = &c->a;
    const bool bf16 = t->ctx.precision == QKV_MIXED_BF16;
    const size_t kind = test_between(random, 0, 5), least = t->attend.width == 1 && bf16 ? 2 : t->attend.width,
                 most = t->attend.width > 1 ? 5 : 40 / least;
    *c = (struct attend_case){
        .a = {.B = test_between(random, 1, 3), .H = test_between(random, 1, 4), .Tq = Tq, .Tk = Tk}};
    a->Hkv = a->H;
    a->D = least * test_between(random, 1, most);
    a->Dv = attend_chance(random, 0.5) ? a->D : least * test_between(random, 1, most);
    a->scale = scales[test_between(random, 0, TEST_COUNT(scales) - 1)] / sqrtf((float)a->D);
    if (attend_chance(random, 0.3)) a->dropout = (float)(0.6 * qkv_random_uniform(random));
    a->key[0] = (uint32_t)qkv_random_bits(random), a->key[1] = (uint32_t)qkv_random_bits(random);
    c->g.accumulate = attend_chance(random, 0.4);
    attend_case_fill(c, random, kind < 5 ? kind : 1,
                     (struct attend_extras){.bf16 = bf16 && attend_chance(random, 0.7)});
    if (kind == 5) few_documents(c, random);
    if (attend_chance(random, 0.3)) {
        a->sinks = c->sinks = attend_memory(a->H, sizeof(float));
        test_fill(random, c->sinks, a->H, attend_chance(random, 0.2) ? 100 : 3);
    }
    if (attend_chance(random, 0.3)) a->ordered = 512, a->first_row = qkv_random_below(random, 1000);
    if (attend_chance(random, 0.3)) a->alone = true;
    struct qkv_heads *gradients[] = {&c->g.dq, &c->g.dk, &c->g.dv};
    for (size_t i = 0; i < TEST_COUNT(gradients); i++)
        if (attend_chance(random, 0.05)) gradients[i]->data = NULL;
    t->spoiled = attend_chance(random, 0.4);
    if (t->spoiled) few_spoil_case(c, random);
}

/* Up to the limits and, of rows, beyond that of backward. */
static size_t few_rows(struct qkv_random *random) {
    static const size_t most[] = {8, QKV_ATTEND_FEW, QKV_ATTEND_FEW, QKV_ATTEND_FEW_ROWS, 300};
    return test_between(random, 0, most[test_between(random, 0, TEST_COUNT(most) - 1)]);
}

static void a_call_of_few_keys_has_the_bits_of_the_passes(void **state) {
    struct few_table t;
    (void)state;
    FOR_FEW_TABLES(t) {
        for (size_t n = 0; n < cases(200); n++) {
            struct qkv_random random = test_random(n);
            struct attend_case c;
            const size_t Tq = few_rows(&random), Tk = test_between(&random, 0, QKV_ATTEND_FEW);
            few_make(&t, &c, &random, Tq, attend_chance(&random, 0.3) && Tq <= QKV_ATTEND_FEW ? Tq : Tk);
            few_check(&t, &c, &random, n);
            attend_case_free(&c);
        }
    }
}

static void every_number_of_keys_and_of_rows_has_the_bits_of_the_passes(void **state) {
    enum { FIRST = 10000 };
    struct few_table t;
    (void)state;
    FOR_FEW_TABLES(t) {
        for (size_t n = 0; n <= QKV_ATTEND_FEW + QKV_ATTEND_FEW_ROWS + 1; n++) {
            struct qkv_random random = test_random(FIRST + n);
            struct attend_case c;
            const bool keys = n <= QKV_ATTEND_FEW;
            const size_t Tq = keys ? test_between(&random, 1, QKV_ATTEND_FEW_ROWS) : n - QKV_ATTEND_FEW - 1;
            few_make(&t, &c, &random, Tq, keys ? n : test_between(&random, 1, QKV_ATTEND_FEW));
            few_check(&t, &c, &random, FIRST + n);
            attend_case_free(&c);
        }
    }
}

/* Sequences of different lengths, some of them empty. */
static void sequences_of_few_keys_have_the_bits_of_the_passes(void **state) {
    enum { FIRST = 20000 };
    struct few_table t;
    (void)state;
    FOR_FEW_TABLES(t) {
        for (size_t n = 0; n < cases(100); n++) {
            struct qkv_random random = test_random(FIRST + n);
            struct attend_case c;
            struct ragged_case r;
            const size_t Tq = few_rows(&random), Tk = test_between(&random, 0, QKV_ATTEND_FEW);
            few_make(&t, &c, &random, Tq, Tk);
            for (size_t o = 1; o < OUTPUTS; o++) attend_tensor(&c, outputs[o])->data = c.buffer[outputs[o]];
            ragged_make(&r, &c, &random, false);
            few_check(&t, &r.packed, &random, FIRST + n);
            ragged_free(&r);
            attend_case_free(&c);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_of_few_keys_has_the_bits_of_the_passes),
        cmocka_unit_test(every_number_of_keys_and_of_rows_has_the_bits_of_the_passes),
        cmocka_unit_test(sequences_of_few_keys_have_the_bits_of_the_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
