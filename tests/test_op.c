/* Every operator's gradient against directional differences, and the tape that carries them.
 *
 * QKV_OPERATOR_LIST makes the list of checks, so an operator without one does not link. */
#include "op/recompute_segment.h"
#include "op_fixture.h"
#include "reference_act.h"

/* Along a random direction of all leaves, the gradient's slope against a fourth-order central difference. */
static void compare_slopes(struct fixture *f, build *make, double (*value)(struct fixture *, build *, bool)) {
    float *direction[LEAVES], *at[LEAVES];
    value(f, make, true);
    double slope = 0, scale = 0;
    for (size_t l = 0; l < f->leaf_count; l++) {
        size_t n = f->leaves[l].rows * f->leaves[l].columns;
        direction[l] = malloc((n + 1) * sizeof(float));
        at[l] = malloc((n + 1) * sizeof(float));
        memcpy(at[l], f->values[l], n * sizeof(float));
        test_fill(&f->random, direction[l], n, 1);
        for (size_t i = 0; i < n; i++) {
            slope += (double)direction[l][i] * (double)f->leaves[l].gradient[i];
            scale += (double)f->leaves[l].gradient[i] * (double)f->leaves[l].gradient[i];
        }
    }
    static const double steps[4] = {-2, -1, 1, 2}, weights[4] = {1.0 / 12, -8.0 / 12, 8.0 / 12, -1.0 / 12};
    double h = 4e-3, difference = 0;
    for (int s = 0; s < 4; s++) {
        for (size_t l = 0; l < f->leaf_count; l++) {
            for (size_t i = 0; i < f->leaves[l].rows * f->leaves[l].columns; i++) {
                f->values[l][i] = (float)((double)at[l][i] + steps[s] * h * (double)direction[l][i]);
            }
        }
        difference += weights[s] * value(f, make, false) / h;
    }
    double tolerance = 2e-3 * sqrt(scale) + 1e-3;
    if (!(fabs(slope - difference) <= tolerance)) {
        fail_msg("slope %.6f by the gradient, %.6f by differences (norm %.3f)", slope, difference, sqrt(scale));
    }
    for (size_t l = 0; l < f->leaf_count; l++) {
        memcpy(f->values[l], at[l], f->leaves[l].rows * f->leaves[l].columns * sizeof(float));
        free(direction[l]);
        free(at[l]);
    }
}

static void check(struct fixture *f, build *make) {
    compare_slopes(f, make, evaluate);
}

/* ---- one check an operator ---------------------------------------------------------------------------------------------- */

static const int32_t ids[] = {3, 0, 3, 6, 2, 3, 5}, places[] = {0, 1, 2, 3, 0, 1, 2, 3};

/* Tokens, positions from row 1 on, and types. */
static struct qkv_tensor *build_embed(struct fixture *f) {
    static const int32_t types[] = {1, 0, 1, 1, 0, 0, 1};
    struct qkv_embedding e = {.scale = 1.7F, .N = 7};
    e.tables[QKV_EMBED_TOKEN].rows = &f->leaves[0], e.tables[QKV_EMBED_TOKEN].places = ids;
    e.tables[QKV_EMBED_POSITION].rows = &f->leaves[1], e.tables[QKV_EMBED_POSITION].places = places;
    if (f->leaves[1].rows > 4) e.tables[QKV_EMBED_POSITION].first = 1;
    if (f->leaf_count > 2) e.tables[QKV_EMBED_TYPE].rows = &f->leaves[2], e.tables[QKV_EMBED_TYPE].places = types;
    return qkv_op_embed(&f->tape, &e);
}

static void check_embed(void **state) {
    (void)state;
    for (size_t types = 0; types < 2; types++) {
        struct fixture f;
        start(&f, 1 + 1000 * types);
        leaf(&f, 7, 70, 0);
        leaf(&f, 4 + types, 70, 0);
        if (types) leaf(&f, 2, 70, 0);
        check(&f, build_embed);
        finish(&f);
    }
}

static struct qkv_tensor *build_linear(struct fixture *f) {
    return qkv_op_linear(&f->tape, &f->leaves[0], &f->leaves[1], f->leaf_count > 2 ? &f->leaves[2] : NULL,
                         QKV_RESULT_FP32);
}

static void check_linear(void **state) {
    (void)state;
    for (uint64_t bias = 0; bias < 2; bias++) {
        struct fixture f;
        start(&f, 2 + bias);
        leaf(&f, 9, 13, 0);
        leaf(&f, 17, 13, 0);
        if (bias) {
            leaf(&f, 1, 17, 0);
        }
        check(&f, build_linear);
        finish(&f);
    }
}

static struct qkv_tensor *build_norm(struct fixture *f) {
    enum qkv_norm_kind kind = *(const enum qkv_norm_kind *)f->options;
    return qkv_op_norm(&f->tape, &f->leaves[0], kind, f->leaf_count > 1 ? &f->leaves[1] : NULL,
                       f->leaf_count > 2 ? &f->leaves[2] : NULL, 1e-5F, QKV_RESULT_FP32);
}

static void check_norm(void **state) {
    (void)state;
    for (int i = 0; i < 3 * QKV_NORM_COUNT; i++) { /* bare, with a weight, and with a bias where there can be one */
        struct fixture f;
        const enum qkv_norm_kind kind = (enum qkv_norm_kind)(i / 3);
        if (i % 3 == 2 && !qkv_norm_centered(kind)) continue;
        start(&f, 10 + (uint64_t)i);
        f.options = &kind;
        leaf(&f, 37, 19, 0);
        for (int extra = 0; extra < i % 3; extra++) leaf(&f, 1, 19, 0);
        check(&f, build_norm);
        finish(&f);
    }
}

/* In-place operators work on the output of a linear layer. */
static struct qkv_tensor *build_rotate(struct fixture *f) {
    static const float table[] = {1, 0, 1, 0, 0.6F, 0.8F, 0.96F, 0.28F, -0.28F, 0.96F, 0.8F, 0.6F, 0, 1, 0.28F, 0.96F};
    bool interleaved = *(const bool *)f->options;
    struct qkv_tensor *x = qkv_op_linear(&f->tape, &f->leaves[0], &f->leaves[1], NULL, QKV_RESULT_FP32);
    return qkv_op_rotate(&f->tape, x, 3, 2, 5, 2, interleaved, table, places);
}

static void check_rotate(void **state) {
    (void)state;
    static const bool interleaved[] = {false, true};
    for (uint64_t i = 0; i < 2; i++) {
        struct fixture f;
        start(&f, 20 + i);
        f.options = &interleaved[i];
        leaf(&f, 7, 6, 0);
        leaf(&f, 15, 6, 0);
        check(&f, build_rotate);
        finish(&f);
    }
}

struct head_norm_options {
    enum qkv_norm_kind kind;
    bool own;
    size_t heads, D;
};

static struct qkv_tensor *build_head_norm(struct fixture *f) {
    const struct head_norm_options *o = f->options;
    const struct qkv_heads_of_columns part = {.column = 3, .heads = o->heads, .D = o->D, .own = o->own};
    struct qkv_tensor *x = qkv_op_linear(&f->tape, &f->leaves[0], &f->leaves[1], NULL, QKV_RESULT_FP32);
    return qkv_op_head_norm(&f->tape, x, part, o->kind, f->leaf_count > 2 ? &f->leaves[2] : NULL,
                            f->leaf_count > 3 ? &f->leaves[3] : NULL, 1e-5F);
}

/* Of 2 heads of 5, or of one of 10, from column 3 of 15: every kind, with one weight, a weight for each head, and bare. */
static void check_head_norm(void **state) {
    (void)state;
    uint64_t stream = 400;
    for (int kind = 0; kind < QKV_NORM_COUNT; kind++)
        for (int way = 0; way < 4; way++) {
            const bool wide = way == 2, bare = way == 3;
            const struct head_norm_options o = {
                .kind = (enum qkv_norm_kind)kind, .own = way == 1, .heads = wide ? 1 : 2, .D = wide ? 10 : 5};
            struct fixture f;
            start(&f, stream++);
            f.options = &o;
            leaf(&f, 37, 6, 0);
            leaf(&f, 15, 6, 0);
            for (int i = 0; i < 2 && !bare; i++)
                if (i == 0 || qkv_norm_centered(o.kind)) leaf(&f, o.own ? 2 : 1, o.D, 0);
            check(&f, build_head_norm);
            finish(&f);
        }
}

static struct qkv_tensor *build_clip(struct fixture *f) {
    struct qkv_tensor *x = qkv_op_linear(&f->tape, &f->leaves[0], &f->leaves[1], NULL, QKV_RESULT_FP32);
    return qkv_op_clip(&f->tape, x, 3, 10, *(const float *)f->options);
}

/* Through a product with the identity, so that all numbers are far enough from the limit for differences. */
static void check_clip(void **state) {
    (void)state;
    static const float limit = 0.7F;
    struct fixture f;
    start(&f, 25);
    f.options = &limit;
    leaf(&f, 7, 15, 0);
    leaf(&f, 15, 15, 0);
    for (size_t i = 0; i < 7 * 15; i++) {
        const float x = f.values[0][i], size = fabsf(x) < limit ? 0.6F * fabsf(x) : fabsf(x) + 0.3F;
        f.values[0][i] = x < 0 ? -size : size;
    }
    for (size_t i = 0; i < 15 * 15; i++) f.values[1][i] = i % 16 == 0;
    check(&f, build_clip);
    const struct qkv_tensor *y = build_clip(&f);
    size_t clipped = 0;
    for (size_t i = 0; i < 7 * 15; i++) {
        const bool here = i % 15 >= 3 && i % 15 < 13 && fabsf(f.values[0][i]) > limit;
        clipped += here;
        assert_true(fabsf(cell(y, i)) == (here ? limit : fabsf(f.values[0][i])));
    }
    assert_true(clipped > 0 && clipped < 7 * 10);
    finish(&f);
}

/* Leaf 0 is q, k and v side by side, or q alone beside leaf 1 with k and v. */
static struct qkv_tensor *build_attend(struct fixture *f) {
    static const int32_t lo[] = {0, 0, 1, 2, 0, 0, 1, 4}, hi[] = {1, 2, 3, 4, 1, 2, 2, 4};
    static const float bias[3 * 7] = {-3,   -2, -1,    0, -1, -2, -3, -1.5F, -1, -.5F, 0,
                                      -.5F, -1, -1.5F, 0, 1,  2,  3,  4,     5,  6};
    struct qkv_attend o = *(const struct qkv_attend *)f->options;
    o.lo = lo;
    o.hi = hi;
    o.position = places;
    if (o.distance_bias.row) {
        o.distance_bias.table = bias;
    }
    if (f->leaf_count == 1) {
        struct qkv_tensor *x = &f->leaves[0];
        return qkv_op_attend(&f->tape, (struct qkv_columns){x, 0}, (struct qkv_columns){x, o.H * o.D},
                             (struct qkv_columns){x, (o.H + o.Hkv) * o.D}, &o, (struct qkv_attend_learned){0}, NULL,
                             NULL);
    }
    return qkv_op_attend(&f->tape, (struct qkv_columns){&f->leaves[0], 0}, (struct qkv_columns){&f->leaves[1], 0},
                         (struct qkv_columns){&f->leaves[1], o.Hkv * o.D}, &o, (struct qkv_attend_learned){0}, NULL,
                         NULL);
}

static void check_attend(void **state) {
    (void)state;
    static const struct qkv_attend options[] = {
        {.B = 2, .H = 3, .Hkv = 1, .Tq = 4, .Tk = 4, .D = 5, .Dv = 6, .scale = .4F, .distance_bias = {NULL, 7, 3}},
        {.B = 2, .H = 3, .Hkv = 3, .Tq = 4, .Tk = 4, .D = 5, .Dv = 6, .scale = .4F, .softcap = 2, .dropout = .3F},
    };
    for (uint64_t i = 0; i < 4; i++) {
        struct fixture f;
        start(&f, 30 + i);
        const struct qkv_attend *o = &options[i % 2];
        f.options = o;
        size_t q = o->H * o->D, kv = o->Hkv * (o->D + o->Dv);
        if (i < 2) {
            leaf(&f, 8, q + kv, 0);
        } else {
            leaf(&f, 8, q, 0);
            leaf(&f, 8, kv, 0);
        }
        check(&f, build_attend);
        finish(&f);
    }
}

/* Two layers that read one table of distances, which two sequences share: leaf 0 is q, k and v, leaf 1 what the table is made of, leaf 2 sinks. */
static struct qkv_tensor *build_distance_bias(struct fixture *f) {
    static const int32_t lo[] = {0, 0, 1, 2, 0, 0, 1, 4}, hi[] = {1, 2, 3, 4, 1, 2, 2, 4};
    static const int32_t rows[] = {2, 1, 1, 0, 3, 3, 2};
    static const float factors[] = {1, -2, .5F, 1, 3, 1, 2};
    enum { B = 2, H = 3, D = 5, Dv = 6, T = 4, ROW = 7 };
    const bool weighs = *(const bool *)f->options;
    struct qkv_tensor *x = &f->leaves[0];
    struct qkv_attend o = {.B = B, .H = H, .Hkv = H, .Tq = T, .Tk = T, .D = D, .Dv = Dv, .scale = .4F};
    struct qkv_tensor *table =
        qkv_op_distance_bias(&f->tape, &f->leaves[1], (struct qkv_distance_map){rows, weighs ? factors : NULL}, ROW, B);
    const struct qkv_attend_learned learned = {table, &f->leaves[2]};
    o.lo = lo, o.hi = hi, o.position = places;
    if (table) o.distance_bias = (struct qkv_distance_bias){table->data, ROW, T - 1};
    const struct qkv_columns q = {x, 0}, k = {x, H * D}, v = {x, 2 * H * D};
    struct qkv_tensor *first = qkv_op_attend(&f->tape, q, k, v, &o, learned, NULL, NULL);
    const struct qkv_columns later = {first, 0}, again = {x, H * Dv};
    o.D = Dv;
    return qkv_op_attend(&f->tape, later, (struct qkv_columns){x, 0}, again, &o, learned, NULL, NULL);
}

static void check_distance_bias(void **state) {
    (void)state;
    static const bool weighs[] = {false, true};
    for (uint64_t i = 0; i < 2; i++) {
        struct fixture f;
        start(&f, 50 + i);
        f.options = &weighs[i];
        leaf(&f, 8, 3 * (2 * 5 + 6), 0);
        leaf(&f, 4, 3, 0);
        leaf(&f, 1, 3, 0);
        check(&f, build_distance_bias);
        finish(&f);
    }
}

static struct qkv_tensor *build_activation(struct fixture *f) {
    return qkv_op_activation(&f->tape, &f->leaves[0], *(const enum qkv_ffn_kind *)f->options);
}

static const float LIMIT = 0.7F; /* of gates that clamp */

static struct qkv_tensor *build_gated(struct fixture *f) {
    return qkv_op_gated(&f->tape, &f->leaves[0], *(const enum qkv_ffn_kind *)f->options, LIMIT);
}

static void check_every_activation(uint64_t stream, build *make) {
    for (uint64_t i = 0; i < QKV_FFN_COUNT; i++) {
        const enum qkv_ffn_kind kind = (enum qkv_ffn_kind)i;
        struct fixture f;
        start(&f, stream + i);
        f.options = &kind;
        leaf(&f, 5, 14, !strncmp(reference_name(kind), "relu", 4) ? 0.1 : 0);
        float *x = f.leaves[0].data;
        for (size_t e = 0; e < 5 * 14 && kind == QKV_FFN_SWIGLU_CLAMPED; e++)
            if (fabsf(fabsf(x[e]) - LIMIT) < 0.1F) x[e] = 1; /* off the kinks */
        check(&f, make);
        finish(&f);
    }
}

static void check_activation(void **state) {
    (void)state;
    check_every_activation(40, build_activation);
}

static void check_gated(void **state) {
    (void)state;
    check_every_activation(50, build_gated);
}

/* x is used three times: the gradient's sharing and copying has to hold. */
static struct qkv_tensor *build_add(struct fixture *f) {
    struct qkv_tensor *x = qkv_op_linear(&f->tape, &f->leaves[0], &f->leaves[1], NULL, QKV_RESULT_FP32);
    struct qkv_tensor *a = qkv_op_linear(&f->tape, x, &f->leaves[2], NULL, QKV_RESULT_FP32);
    struct qkv_tensor *y = qkv_op_add(&f->tape, x, a, 1);
    struct qkv_tensor *b =
        qkv_op_linear(&f->tape, qkv_op_activation(&f->tape, y, QKV_FFN_SILU), &f->leaves[2], NULL, QKV_RESULT_FP32);
    struct qkv_tensor *z = qkv_op_add(&f->tape, y, b, 0.3F);
    return qkv_op_add(&f->tape, x, qkv_op_linear(&f->tape, z, &f->leaves[2], NULL, QKV_RESULT_FP32), -2);
}

static void check_add(void **state) {
    (void)state;
    struct fixture f;
    start(&f, 60);
    leaf(&f, 6, 5, 0);
    leaf(&f, 7, 5, 0);
    leaf(&f, 7, 7, 0);
    for (size_t i = 0; i < 49; i++) {
        f.values[2][i] *= 0.3F;
    }
    check(&f, build_add);
    finish(&f);
}

static struct qkv_tensor *build_dropout(struct fixture *f) {
    return qkv_op_dropout(&f->tape, qkv_op_linear(&f->tape, &f->leaves[0], &f->leaves[1], NULL, QKV_RESULT_FP32), 0.4F);
}

static void check_dropout(void **state) {
    (void)state;
    struct fixture f;
    start(&f, 70);
    leaf(&f, 16, 6, 0);
    leaf(&f, 33, 6, 0);
    check(&f, build_dropout);
    finish(&f);
}

#define POOL(name, text, help) QKV_POOL_##name,
static const enum qkv_pool pools[] = {QKV_POOL_LIST(POOL)};

static struct qkv_tensor *build_pool(struct fixture *f) {
    static const int32_t lengths[] = {4, 0, 2};
    return qkv_op_pool(&f->tape, &f->leaves[0], *(const enum qkv_pool *)f->options, 3, 4, lengths);
}

static void check_pool(void **state) {
    (void)state;
    for (uint64_t i = 0; i < TEST_COUNT(pools); i++) {
        struct fixture f;
        start(&f, 80 + i);
        f.options = &pools[i];
        leaf(&f, 12, 9, 0);
        check(&f, build_pool);
        finish(&f);
    }
}

/* Pooling rows without padding; the lengths say which there are. */
static struct qkv_tensor *build_pool_rows(struct fixture *f) {
    static const int32_t lengths[] = {4, 0, 2};
    const struct qkv_rows *rows = qkv_rows_make(&f->tape, 3, 4, lengths, NULL, 6, 0);
    return qkv_op_pool_rows(&f->tape, &f->leaves[0], *(const enum qkv_pool *)f->options, rows);
}

static void rows_without_padding_are_pooled(void **state) {
    (void)state;
    for (uint64_t i = 0; i < TEST_COUNT(pools); i++) {
        struct fixture f;
        start(&f, 180 + i);
        f.options = &pools[i];
        leaf(&f, 6, 9, 0);
        check(&f, build_pool_rows);
        finish(&f);
    }
}

static struct qkv_tensor *build_softcap(struct fixture *f) {
    return qkv_op_softcap(&f->tape, &f->leaves[0], f->options);
}

/* With the numbers that come out against the formula. */
static void check_softcap(void **state) {
    (void)state;
    static const struct qkv_softcap options[] = {{.scale = 0.3F, .cap = 2}, {.scale = -1.7F}, {.cap = 0.5F}};
    for (uint64_t i = 0; i < TEST_COUNT(options); i++) {
        struct fixture f;
        const struct qkv_softcap *o = &options[i];
        start(&f, 480 + i);
        f.options = o;
        leaf(&f, 7, 61, 0);
        check(&f, build_softcap);
        const struct qkv_tensor *y = build_softcap(&f);
        for (size_t n = 0; n < 7 * 61; n++) {
            double s = (double)f.values[0][n] * (o->scale == 0 ? 1 : (double)o->scale);
            if (o->cap > 0) s = (double)o->cap * tanh(s / (double)o->cap);
            assert_true(fabs((double)cell(y, n) - s) <= 1e-6 * (1 + fabs(s)));
        }
        finish(&f);
    }
}

/* Sequences of 5, 0 and 3 positions in rows of 6, 0 and 4, of which the last ones are not there; windows at every second one. */
static const int32_t unfold_x[] = {0, 6, 6, 10}, unfold_count[] = {5, 0, 3}, unfold_y[] = {0, 3, 3, 5};
static const struct qkv_unfold_options unfold_options = {
    .B = 3, .kernel = 3, .stride = 2, .rows = 5, .x_start = unfold_x, .count = unfold_count, .y_start = unfold_y};

static struct qkv_tensor *build_unfold(struct fixture *f) {
    return qkv_op_unfold(&f->tape, &f->leaves[0], &unfold_options, NULL);
}

/* With each number where it belongs. */
static void check_unfold(void **state) {
    (void)state;
    struct fixture f;
    start(&f, 470);
    leaf(&f, 10, 7, 0);
    check(&f, build_unfold);
    const struct qkv_tensor *y = build_unfold(&f);
    for (size_t b = 0; b < 3; b++)
        for (int32_t t = 0; t < unfold_y[b + 1] - unfold_y[b]; t++)
            for (size_t c = 0; c < 7; c++)
                for (int32_t j = 0; j < 3; j++) {
                    const int32_t i = 2 * t + j - 1;
                    const float want =
                        i < 0 || i >= unfold_count[b] ? 0 : f.values[0][(size_t)(unfold_x[b] + i) * 7 + c];
                    assert_true(cell(y, ((size_t)(unfold_y[b] + t) * 7 + c) * 3 + (size_t)j) == want);
                }
    finish(&f);
}

static struct qkv_tensor *build_gather(struct fixture *f) {
    static const int32_t index[] = {5, 0, 5, 2, 5, 10};
    return qkv_op_gather(&f->tape, &f->leaves[0], index, TEST_COUNT(index));
}

static void check_gather(void **state) {
    (void)state;
    struct fixture f;
    start(&f, 86);
    leaf(&f, 11, 70, 0);
    check(&f, build_gather);
    const struct qkv_tensor *y = build_gather(&f);
    for (size_t c = 0; c < 70; c++) assert_true(cell(y, 3 * 70 + c) == f.values[0][2 * 70 + c]);
    finish(&f);
}

static struct qkv_tensor *build_scatter(struct fixture *f) {
    static const int32_t index[] = {7, 0, 3, 4};
    return qkv_op_scatter(&f->tape, &f->leaves[0], index, 9);
}

static void check_scatter(void **state) {
    (void)state;
    struct fixture f;
    start(&f, 87);
    leaf(&f, 4, 70, 0);
    check(&f, build_scatter);
    const struct qkv_tensor *y = build_scatter(&f);
    for (size_t c = 0; c < 70; c++) {
        assert_true(cell(y, 7 * 70 + c) == f.values[0][c] && cell(y, 4 * 70 + c) == f.values[0][3 * 70 + c]);
        assert_true(cell(y, 8 * 70 + c) == 0 && cell(y, 70 + c) == 0);
    }
    finish(&f);
}

static struct qkv_tensor *run_stretch(struct qkv_tape *tape, const void *argument, struct qkv_tensor *x) {
    struct fixture *f = *(struct fixture *const *)argument;
    struct qkv_tensor *y = qkv_op_linear(tape, x, &f->leaves[1], &f->leaves[2], QKV_RESULT_FP32);
    return qkv_op_add(
        tape, &f->leaves[0],
        qkv_op_linear(tape, qkv_op_activation(tape, y, QKV_FFN_SILU), &f->leaves[1], NULL, QKV_RESULT_FP32), 1);
}

static struct qkv_tensor *build_checkpoint(struct fixture *f) {
    struct qkv_tensor *x = qkv_op_activation(&f->tape, &f->leaves[0], QKV_FFN_SILU);
    return qkv_tape_recompute_segment(&f->tape, run_stretch, &f, sizeof f, x, NULL, NULL);
}

static void check_checkpoint(void **state) {
    (void)state;
    struct fixture f;
    start(&f, 85);
    leaf(&f, 6, 9, 0);
    leaf(&f, 9, 9, 0);
    leaf(&f, 1, 9, 0);
    check(&f, build_checkpoint);
    finish(&f);
}

/* The losses end the graph themselves. */
static const int32_t targets[] = {4, QKV_IGNORE, 0, 10, 7, 4, QKV_IGNORE};

static double evaluate_loss(struct fixture *f, build *make, bool record) {
    (void)make;
    struct qkv_loss loss;
    qkv_arena_release(&f->arena, 0);
    qkv_arena_release(&f->graph_arena, 0);
    qkv_tape_start(&f->tape, f->ctx, &f->arena, &f->graph_arena, record);
    struct qkv_tensor *x = qkv_op_activation(&f->tape, &f->leaves[0], QKV_FFN_SILU);
    struct qkv_cross_entropy_options o = {.targets = targets, .scale = 1};
    if (f->options) o.softcap = *(const struct qkv_softcap *)f->options, o.smoothing = 0.1F;
    qkv_op_cross_entropy(&f->tape, x, &f->leaves[1], f->leaf_count > 2 ? &f->leaves[2] : NULL, &o, &loss);
    if (record) {
        assert_int_equal(qkv_tape_backward(&f->tape), QKV_OK);
    }
    assert_int_equal(f->tape.status, QKV_OK);
    assert_int_equal(loss.counted, 5);
    return loss.sum;
}

static void check_cross_entropy(void **state) {
    (void)state;
    static const struct qkv_softcap softcaps[] = {{.scale = 0.7F, .cap = 1.5F}, {.scale = 2}};
    for (uint64_t i = 0; i < 4; i++) {
        const bool bias = i % 2;
        struct fixture f;
        start(&f, 90 + i);
        if (i > 1) f.options = &softcaps[i - 2];
        leaf(&f, 7, 8, 0);
        leaf(&f, 11, 8, 0);
        if (bias) {
            leaf(&f, 1, 11, 0);
        }
        compare_slopes(&f, NULL, evaluate_loss);
        finish(&f);
    }
}

static struct qkv_tensor *build_product(struct fixture *f) {
    return qkv_op_activation(&f->tape, &f->leaves[0], QKV_FFN_SILU);
}

static void check_inner_product(void **state) {
    (void)state;
    struct fixture f;
    start(&f, 100);
    leaf(&f, 5, 7, 0);
    check(&f, build_product);
    finish(&f);
}

/* ---- the tape --------------------------------------------------------------------------------------------------------- */

/* With a vocabulary so large that the rows go through in chunks, the loss and both gradients equal the plain formula. */
static void test_cross_entropy_chunks(void **state) {
    (void)state;
    enum { N = 40, C = 2, V = 900000 };
    struct fixture f;
    start(&f, 110);
    leaf(&f, N, C, 0);
    leaf(&f, V, C, 0);
    int32_t wanted[N];
    for (size_t n = 0; n < N; n++) {
        wanted[n] = n % 7 ? (int32_t)qkv_random_below(&f.random, V) : QKV_IGNORE;
    }
    qkv_tape_start(&f.tape, f.ctx, &f.arena, &f.graph_arena, true);
    struct qkv_loss loss;
    struct qkv_cross_entropy_options o = {.targets = wanted, .scale = 1.0F / 34};
    struct qkv_tensor *x = qkv_op_activation(&f.tape, &f.leaves[0], QKV_FFN_RELU);
    qkv_op_cross_entropy(&f.tape, x, &f.leaves[1], NULL, &o, &loss);
    assert_int_equal(f.tape.status, QKV_OK);
    double expected = 0;
    float *dx = calloc((size_t)N * C, sizeof(float));
    for (size_t n = 0; n < N; n++) {
        if (wanted[n] == QKV_IGNORE) {
            continue;
        }
        double sum = 0, mean[C] = {0};
        for (size_t v = 0; v < V; v++) {
            const float *w = f.values[1] + v * C;
            double p = exp((double)cell(x, n * C) * (double)w[0] + (double)cell(x, n * C + 1) * (double)w[1]);
            sum += p;
            for (size_t c = 0; c < C; c++) {
                mean[c] += p * (double)w[c];
            }
        }
        const float *w = f.values[1] + (size_t)wanted[n] * C;
        expected += log(sum) - (double)cell(x, n * C) * (double)w[0] - (double)cell(x, n * C + 1) * (double)w[1];
        for (size_t c = 0; c < C; c++) {
            dx[n * C + c] = (float)((mean[c] / sum - (double)w[c]) / 34);
        }
    }
    assert_true(fabs(loss.sum - expected) < 1e-5 * expected);
    for (size_t i = 0; i < (size_t)N * C; i++) {
        assert_true(fabsf(x->grad_buffer->data[i] - dx[i]) < 1e-4F); /* sums of 900,000 in fp32 */
    }
    free(dx);
    finish(&f);
}

static void test_dropout_repeats(void **state) {
    (void)state;
    struct fixture f;
    start(&f, 120);
    leaf(&f, 200, 3, 0);
    leaf(&f, 100, 3, 0);
    double first = evaluate(&f, build_dropout, false), again = evaluate(&f, build_dropout, true);
    assert_true(first == again);
    size_t zeros = 0, n = 20000;
    qkv_tape_start(&f.tape, f.ctx, &f.arena, &f.graph_arena, false);
    qkv_tape_train(&f.tape, f.dropout_seed);
    struct qkv_tensor *y = build_dropout(&f);
    for (size_t i = 0; i < n; i++) {
        zeros += cell(y, i) == 0;
    }
    assert_true(zeros > 7600 && zeros < 8400); /* 8000 ± 69 expected */
    f.dropout_seed++;
    assert_true(evaluate(&f, build_dropout, false) != first);
    finish(&f);
}

/* A dry run counts exactly what the real one takes. */
static size_t run_memory(struct fixture *f, bool dry) {
    struct qkv_arena arena;
    if (dry) {
        qkv_arena_measure(f->ctx, &arena, "measure");
    } else {
        assert_int_equal(qkv_arena_create(f->ctx, &arena, 64 << 20, "real"), QKV_OK);
    }
    f->ctx->dry = dry;
    qkv_arena_release(&f->graph_arena, 0);
    qkv_tape_start(&f->tape, f->ctx, &arena, &f->graph_arena, true);
    struct qkv_tensor *y = build_add(f);
    struct qkv_loss loss;
    qkv_op_inner_product(&f->tape, y, f->values[0], 1, &loss);
    assert_int_equal(qkv_tape_backward(&f->tape), QKV_OK);
    f->ctx->dry = false;
    size_t peak = arena.peak;
    qkv_arena_free(&arena);
    return peak;
}

static void test_dry_run(void **state) {
    (void)state;
    struct fixture f;
    start(&f, 130);
    leaf(&f, 60, 70, 0);
    leaf(&f, 70, 70, 0);
    leaf(&f, 70, 70, 0);
    size_t dry = run_memory(&f, true);
    assert_int_equal(dry, run_memory(&f, false));
    assert_true(dry > 60 * 70 * sizeof(float) * 6);
    finish(&f);
}

/* Gradients that are told to a listener are told once, complete, last use first. */
static void count_ready(void *user, struct qkv_tensor *parameter) {
    size_t *told = user;
    assert_int_equal(parameter->uses, 0);
    ++*told;
}

static void test_listener(void **state) {
    (void)state;
    struct fixture f;
    size_t told = 0;
    start(&f, 140);
    leaf(&f, 6, 5, 0);
    leaf(&f, 7, 5, 0);
    leaf(&f, 7, 7, 0);
    qkv_tape_start(&f.tape, f.ctx, &f.arena, &f.graph_arena, true);
    f.tape.listener = count_ready;
    f.tape.listener_user = &told;
    struct qkv_loss loss;
    qkv_op_inner_product(&f.tape, build_add(&f), f.values[2], 1, &loss);
    assert_int_equal(qkv_tape_backward(&f.tape), QKV_OK);
    assert_int_equal(told, 3);
    finish(&f);
}

/* Shapes that do not agree: a sentence, nothing run, and NULL passes through everything that follows. */
static void test_shapes(void **state) {
    (void)state;
    struct fixture f;
    start(&f, 150);
    leaf(&f, 4, 5, 0);
    leaf(&f, 3, 6, 0);
    f.leaves[1].name = "decoder.layers.3.ffn.up.weight";
    qkv_tape_start(&f.tape, f.ctx, &f.arena, &f.graph_arena, false);
    struct qkv_tensor *y = qkv_op_linear(&f.tape, &f.leaves[0], &f.leaves[1], NULL, QKV_RESULT_FP32);
    assert_null(y);
    assert_int_equal(f.tape.status, QKV_SHAPE);
    assert_string_equal(qkv_message(f.ctx),
                        "linear: x is (4,5) but w (3,6) expects 6 columns, at decoder.layers.3.ffn.up.weight");
    assert_null(qkv_op_activation(&f.tape, y, QKV_FFN_RELU));
    assert_null(qkv_op_add(&f.tape, y, &f.leaves[0], 1));
    qkv_tape_start(&f.tape, f.ctx, &f.arena, &f.graph_arena, false);
    static const int32_t bad[] = {1, 4};
    struct qkv_embedding e = {.scale = 1, .N = 2};
    e.tables[QKV_EMBED_TOKEN].rows = &f.leaves[0], e.tables[QKV_EMBED_TOKEN].places = bad;
    assert_null(qkv_op_embed(&f.tape, &e));
    assert_int_equal(f.tape.status, QKV_ARGUMENT);
    assert_non_null(strstr(qkv_message(f.ctx), "token id 4 at place 1 is out of range"));
    qkv_tape_start(&f.tape, f.ctx, &f.arena, &f.graph_arena, false);
    e.tables[QKV_EMBED_TOKEN].places = places;
    e.tables[QKV_EMBED_TYPE].rows = &f.leaves[0], e.tables[QKV_EMBED_TYPE].places = bad;
    assert_null(qkv_op_embed(&f.tape, &e));
    assert_non_null(strstr(qkv_message(f.ctx), "token type 4 at place 1 is out of range"));
    finish(&f);
}

#define CHECK(name) cmocka_unit_test(check_##name),

int main(void) {
    const struct CMUnitTest tests[] = {
        QKV_OPERATOR_LIST(CHECK) cmocka_unit_test(rows_without_padding_are_pooled),
        cmocka_unit_test(test_cross_entropy_chunks),
        cmocka_unit_test(test_dropout_repeats),
        cmocka_unit_test(test_dry_run),
        cmocka_unit_test(test_listener),
        cmocka_unit_test(test_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
