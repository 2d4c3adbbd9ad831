/* Every operator's gradient against directional differences. test_tape tests the tape that carries them.
 *
 * QKV_OPERATOR_LIST makes the list of checks, so an operator without one does not link. */
/* labels: numeric quick */
#include "op/recompute_segment.h"
#include "check_op_experts.h"
#include "check_op_rows.h"
#include "reference_act.h"

/* ---- one check an operator -------------------------------------------------------------------------------------- */

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

static struct qkv_tensor *build_join_heads(struct fixture *f) {
    return qkv_op_join_heads(&f->tape, &f->leaves[0], &f->leaves[1], *(const size_t *)f->options);
}

/* 3 heads, and one; each number is at its place. */
static void check_join_heads(void **state) {
    (void)state;
    static const size_t heads[] = {3, 1};
    for (uint64_t i = 0; i < 2; i++) {
        struct fixture f;
        start(&f, 30 + i);
        f.options = &heads[i];
        leaf(&f, 7, 6, 0);
        leaf(&f, 7, 5, 0);
        check(&f, build_join_heads);
        const size_t H = heads[i], own = 6 / H;
        const struct qkv_tensor *y = build_join_heads(&f);
        assert_int_equal(y->columns, 6 + 5 * H);
        for (size_t k = 0; k < y->rows * y->columns; k++) {
            const size_t n = k / y->columns, h = k % y->columns / (own + 5), d = k % y->columns % (own + 5);
            const float want = d < own ? f.values[0][n * 6 + h * own + d] : f.values[1][n * 5 + d - own];
            assert_true(cell(y, k) == want);
        }
        finish(&f);
    }
}

struct head_linear_options {
    size_t heads, in, out, tail;
    bool transposed;
};

static struct qkv_tensor *build_head_linear(struct fixture *f) {
    const struct head_linear_options *o = f->options;
    return qkv_op_head_linear(&f->tape, &f->leaves[0], &f->leaves[1], o->heads, o->tail, o->transposed);
}

/* Both ways round, with tails and without; each number is the sum that it says. */
static void check_head_linear(void **state) {
    (void)state;
    static const struct head_linear_options ways[] = {
        {3, 4, 9, 2, false}, {3, 4, 9, 0, true}, {1, 5, 3, 3, true}, {2, 7, 2, 0, false}};
    for (uint64_t i = 0; i < TEST_COUNT(ways); i++) {
        const struct head_linear_options *o = &ways[i];
        struct fixture f;
        start(&f, 40 + i);
        f.options = o;
        leaf(&f, 7, o->heads * (o->in + o->tail), 0);
        leaf(&f, o->heads * (o->transposed ? o->out : o->in), o->transposed ? o->in : o->out, 0);
        check(&f, build_head_linear);
        const struct qkv_tensor *y = build_head_linear(&f);
        const size_t from = o->in + o->tail, to = o->out + o->tail;
        for (size_t k = 0; k < 7 * o->heads * to; k++) {
            const size_t nh = k / to, h = nh % o->heads, j = k % to;
            const float *x = f.values[0] + nh * from, *w = f.values[1] + h * o->in * o->out;
            double want = j < o->out ? 0 : (double)x[o->in + j - o->out];
            for (size_t c = 0; c < o->in && j < o->out; c++)
                want += (double)x[c] * (double)w[o->transposed ? j * o->in + c : c * o->out + j];
            assert_true(fabs((double)cell(y, k) - want) < 1e-5);
        }
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

/* 2 heads of 5, or one of 10, from column 3 of 15: every kind, with one weight, with a weight for each head, and
 * without. */
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

static struct qkv_tensor *build_position_scale(struct fixture *f) {
    static const int32_t positions[] = {0, 3, 4, 11, 2, 100, 7};
    struct qkv_tensor *x = qkv_op_linear(&f->tape, &f->leaves[0], &f->leaves[1], NULL, QKV_RESULT_FP32);
    return qkv_op_position_scale(&f->tape, x, 3, 10, f->options, positions);
}

static void check_position_scale(void **state) {
    (void)state;
    static const struct qkv_temperature_spec rule = {.given = true, .beta = 1.5, .length = 4, .offset = 1};
    struct fixture f;
    start(&f, 25);
    f.options = &rule;
    leaf(&f, 7, 15, 0);
    leaf(&f, 15, 15, 0);
    for (size_t i = 0; i < 15 * 15; i++) f.values[1][i] = i % 16 == 0;
    check(&f, build_position_scale);
    const struct qkv_tensor *y = build_position_scale(&f);
    static const double steps[] = {0, 1, 1, 3, 0, 25, 2}; /* (position + 1) / 4 */
    for (size_t i = 0; i < 7 * 15; i++) {
        const bool here = i % 15 >= 3 && i % 15 < 13;
        const double factor = here ? 1 + 1.5 * log(1 + steps[i / 15]) : 1;
        assert_true(fabs((double)cell(y, i) - factor * (double)f.values[0][i]) <= 1e-5 * factor);
    }
    finish(&f);
}

static struct qkv_tensor *build_mask_scale(struct fixture *f) {
    static const int32_t words[] = {9, 3, 9, 9, 3, 3, 3, 3, 9, 9};
    static const struct qkv_masked_spec rule = {.given = true, .token = 3, .share = 0.25};
    struct qkv_masked_rows rows = *(const struct qkv_masked_rows *)f->options;
    rows.ids = words;
    struct qkv_tensor *x = qkv_op_linear(&f->tape, &f->leaves[0], &f->leaves[1], NULL, QKV_RESULT_FP32);
    return qkv_op_mask_scale(&f->tape, x, &rule, &rows);
}

/* Sequences of 4, 3 (masks alone), 2, 0 and 1 tokens, without padding and as documents; with padding behind, of 3 and 5
 * tokens in 5 rows each; with padding before and behind and two documents. */
static void check_mask_scale(void **state) {
    (void)state;
    static const int32_t begins[] = {0, 4, 7, 9, 9, 10}, place[] = {0, 1, 2, 3, 5, 6, 7, 10, 11, 20};
    static const int32_t alike[] = {0, 0, 0, 0, 1, 1, 1, 2, 2, 3}, two[] = {0, 0, 0, 0, 0, 0, 0, 1, 1, 1};
    static const int32_t lengths[] = {3, 5}, nine[] = {9}, second[] = {2};
    static const struct qkv_rows ragged = {.N = 10, .B = 5, .T = 5, .ragged = true, .start = begins, .place = place};
    static const struct {
        struct qkv_masked_rows rows;
        double factors[10];
    } cases[] = {
        {{.batch = &ragged}, {1, 0, 1, 1, 0, 0, 0, 0, 1.5, 0.75}},
        {{.T = 10, .documents = alike}, {1, 0, 1, 1, 0, 0, 0, 0, 1.5, 0.75}},
        {{.T = 5, .lengths = lengths}, {1.125, 0, 1.125, 1.125, 0, 0, 0, 0, 1.875, 1.875}},
        {{.T = 10, .documents = two, .starts = second, .lengths = nine},
         {1.875, 0, 1.875, 1.875, 0, 0, 0, 0, 1.5, 1.5}},
    };
    for (size_t k = 0; k < TEST_COUNT(cases); k++) {
        struct fixture f;
        start(&f, 26 + k);
        f.options = &cases[k].rows;
        leaf(&f, 10, 6, 0);
        leaf(&f, 6, 6, 0);
        for (size_t i = 0; i < 6 * 6; i++) f.values[1][i] = i % 7 == 0;
        check(&f, build_mask_scale);
        const struct qkv_tensor *y = build_mask_scale(&f);
        for (size_t i = 0; i < 10 * 6; i++) {
            const double factor = cases[k].factors[i / 6];
            assert_true(fabs((double)cell(y, i) - factor * (double)f.values[0][i]) <= 1e-5 * factor);
        }
        finish(&f);
    }
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

/* Two layers read one table of distances, which two sequences share: leaf 0 is q, k and v, leaf 1 the source of the
 * table, leaf 2 sinks. */
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

/* Differences across 0 see a kink of the value (ReLU) or of the slope (softsign, which the test of toys adds). */
static bool kinked_at_zero(enum qkv_ffn_kind kind) {
    const char *name = reference_name(kind);
    return !strncmp(name, "relu", 4) || !strcmp(name, "softsign");
}

static void check_every_activation(uint64_t stream, build *make) {
    for (uint64_t i = 0; i < QKV_FFN_COUNT; i++) {
        const enum qkv_ffn_kind kind = (enum qkv_ffn_kind)i;
        struct fixture f;
        start(&f, stream + i);
        f.options = &kind;
        leaf(&f, 5, 14, kinked_at_zero(kind) ? 0.1 : 0);
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

static void check_dropout(void **state) {
    (void)state;
    for (size_t columns = 33; columns <= 40; columns += 7) { /* rows whose bits fill their bytes, and others */
        struct fixture f;
        start(&f, 70);
        leaf(&f, 16, 6, 0);
        leaf(&f, columns, 6, 0);
        check(&f, build_dropout);
        finish(&f);
    }
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
    return qkv_tape_recompute_segment(&f->tape, run_stretch, &f, sizeof f, x,
                                      (struct qkv_tensor *[QKV_SEGMENT_OTHERS]){NULL});
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

#define CHECK(name) cmocka_unit_test(check_##name),

int main(void) {
    const struct CMUnitTest tests[] = {
        QKV_OPERATOR_LIST(CHECK) cmocka_unit_test(rows_without_padding_are_pooled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
