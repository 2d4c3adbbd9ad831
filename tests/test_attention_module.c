/* The attention module against a formula in double precision over random shapes, masks and kinds: the output, every
 * gradient, the attention weights; dropout, and new weights. */
#include "attention_module_case.h"
#include "attention_module_formula.h"
#include "weights.h"

/* One or every, at random: dimensions of arrays over pairs. */
static struct qkv_pair_shape random_shape(struct sample *s, size_t *count) {
    struct qkv_pair_shape shape = {.B = coin(&s->random) ? 1 : s->B,
                                   .H = coin(&s->random) ? 1 : (size_t)s->spec->attention.heads,
                                   .Tq = coin(&s->random) ? 1 : s->T,
                                   .Tk = s->Tk};
    *count = shape.B * shape.H * shape.Tq * shape.Tk;
    return shape;
}

static size_t in_shape(const struct qkv_pair_shape *s, size_t b, size_t h, size_t i, size_t j) {
    return (((s->B == 1 ? 0 : b) * s->H + (s->H == 1 ? 0 : h)) * s->Tq + (s->Tq == 1 ? 0 : i)) * s->Tk + j;
}

/* Lengths, prefixes, documents, a dense mask and a bias, each by chance. */
static void add_masks(struct sample *s) {
    struct qkv_module_mask *given = s->mask;
    struct qkv_mask *mask = &given->mask;
    size_t n;
    for (size_t b = 0; b < s->B; b++) {
        s->lengths[b] = (int32_t)test_between(&s->random, 0, s->Tk);
        s->prefix[b] = (int32_t)test_between(&s->random, 0, s->Tk);
    }
    if (coin(&s->random)) mask->lengths = s->lengths;
    if ((mask->causal || s->spec->attention.causal) && coin(&s->random)) mask->prefix = s->prefix;
    if (coin(&s->random)) mask->causal = true;
    if (coin(&s->random)) mask->window = whole(&s->random, 1, 6);
    if (coin(&s->random) && !s->spec->cross) {
        mask->key_documents = s->documents = calloc(s->B * s->Tk, sizeof *s->documents);
        for (size_t k = 0; k < s->B * s->Tk; k++)
            s->documents[k] = k % s->Tk ? s->documents[k - 1] + !qkv_random_below(&s->random, 3) : 0;
    }
    if (coin(&s->random)) {
        given->dense_shape = random_shape(s, &n);
        given->dense = s->dense = malloc(n);
        for (size_t k = 0; k < n; k++) s->dense[k] = qkv_random_below(&s->random, 4) != 0;
    }
    if (coin(&s->random)) {
        given->bias_shape = random_shape(s, &n);
        given->bias = s->bias = floats(s, n);
        given->dbias = s->dbias = calloc(n, sizeof(float));
        for (size_t k = 0; k < n; k++)
            if (!qkv_random_below(&s->random, 6)) s->bias[k] = -INFINITY;
    }
}

/* ---- the formula ------------------------------------------------------------------------------------------------ */

/* The chunk of position t, counted from the beginning of its document. */
static size_t chunk_of(const struct sample *s, size_t b, size_t t) {
    size_t first = t;
    while (s->documents && first && s->documents[b * s->Tk + first - 1] == s->documents[b * s->Tk + t]) first--;
    return (s->documents ? t - first : t) / (size_t)s->spec->attention.chunk;
}

static bool open_pair(const struct sample *s, size_t b, size_t h, size_t i, size_t j) {
    const struct qkv_mask *m = &s->mask->mask;
    const struct qkv_attention_spec *a = &s->spec->attention;
    size_t distance = i > j ? i - j : j - i;
    bool before = j <= i || (m->prefix && (int64_t)j < m->prefix[b]);
    if ((a->causal || m->causal) && !before) return false;
    if (a->window && distance >= (size_t)a->window && (j < i || !a->window_right)) return false;
    if (a->window_right && j >= i + (size_t)a->window_right) return false;
    if (m->window && distance >= (size_t)m->window) return false;
    if (m->lengths && (int64_t)j >= m->lengths[b]) return false;
    if (s->documents && s->documents[b * s->Tk + i] != s->documents[b * s->Tk + j]) return false;
    if (a->chunk && chunk_of(s, b, i) != chunk_of(s, b, j)) return false;
    return !s->dense || s->dense[in_shape(&s->mask->dense_shape, b, h, i, j)];
}

/* Slopes of 1 to 4 heads, from the paper: 2^-8; 2^-4, 2^-8; and for 3, those of 2 and the first of 4. */
static double slope(size_t h, size_t H) {
    static const double of_three[] = {1.0 / 16, 1.0 / 256, 1.0 / 4};
    return H == 3 ? of_three[h] : pow(2, -8.0 * (double)(h + 1) / (double)H);
}

static void expect(struct sample *s, struct module_formula *l) {
    *l = (struct module_formula){
        .spec = s->spec, .module = s->module, .x = s->x, .memory = s->spec->cross ? s->memory : s->x, .dy = s->dy};
    module_formula_start(l, s->B, s->T, s->Tk);
    struct formula *f = &l->f;
    for (size_t p = 0; p < f->B * f->H * f->Tq * f->Tk; p++) {
        size_t j = p % f->Tk, i = p / f->Tk % f->Tq, h = p / f->Tk / f->Tq % f->H, b = p / f->Tk / f->Tq / f->H;
        double distance = fabs((double)i - (double)j);
        f->open[p] = open_pair(s, b, h, i, j);
        if (s->spec->attention.position.kind == QKV_POSITION_ALIBI) f->attention_bias[p] -= slope(h, f->H) * distance;
        if (s->bias) f->attention_bias[p] += (double)s->bias[in_shape(&s->mask->bias_shape, b, h, i, j)];
    }
    module_formula_run(l);
}

/* |got − expected| <= tolerance·|expected| + floor. Some gradients are 0 in exact arithmetic (a key's bias; all of q
 * and k if each row sees one key): they are the rounding of dy·v against Σ dy·y, for which the floor is five times
 * as high. */
static void close_to(const float *got, const double *expected, size_t n, double tolerance, double floor,
                     const char *what) {
    double difference = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        difference += pow((double)got[i] - expected[i], 2);
        norm += expected[i] * expected[i];
    }
    if (sqrt(norm) <= 1e-6 * floor) floor *= 5; /* 0, except for the rounding of doubles */
    if (!(sqrt(difference) <= tolerance * sqrt(norm) + floor))
        fail_msg("%s: |difference| %.3g, |expected| %.3g, floor %.3g", what, sqrt(difference), sqrt(norm), floor);
}

static double norm_of(const double *x, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += x[i] * x[i];
    return sqrt(sum);
}

static void expect_gradients(struct sample *s, struct module_formula *l, double times) {
    double all = norm_of(l->dx, s->B * s->T * (size_t)s->spec->in);
    for (size_t i = 0; i < qkv_module_parameters(s->module); i++) {
        size_t n = elements(s->module, i);
        for (size_t k = 0; k < n; k++) l->gradients[i][k] *= times;
        all += norm_of(l->gradients[i], n);
    }
    for (size_t i = 0; i < qkv_module_parameters(s->module); i++) {
        const struct qkv_array *p = qkv_module_parameter(s->module, i);
        close_to(gradient_of(s->module, i), l->gradients[i], qkv_array_elements(p), 1e-4, 1e-6 * all, p->name);
    }
    close_to(s->dx, l->dx, s->B * s->T * (size_t)s->spec->in, 1e-4, 1e-6 * all, "dx");
    if (s->spec->cross)
        close_to(s->dmemory, l->dmemory, s->B * s->Tk * (size_t)s->spec->kv_in, 1e-4, 1e-6 * all, "dmemory");
    if (!s->dbias) return;
    const struct qkv_pair_shape *shape = &s->mask->bias_shape;
    size_t n = shape->B * shape->H * shape->Tq * shape->Tk;
    double *dbias = formula_doubles(n);
    struct formula *f = &l->f;
    for (size_t p = 0; p < f->B * f->H * f->Tq * f->Tk; p++)
        dbias[in_shape(shape, p / f->Tk / f->Tq / f->H, p / f->Tk / f->Tq % f->H, p / f->Tk % f->Tq, p % f->Tk)] +=
            times * f->dscores[p];
    close_to(s->dbias, dbias, n, 1e-4, 1e-6 * all, "dbias");
    free(dbias);
}

/* All stages of some rows of every head; infinities agree exactly. */
static void expect_looks(struct sample *s, struct module_formula *l) {
    struct formula *f = &l->f;
    const double *stages[] = {f->weights, f->scores, f->capped, f->products};
    float *got = malloc(f->Tq * f->Tk * sizeof(float));
    for (size_t n = 0; n < 4 * f->B * f->H; n++) {
        size_t head = n / 4, first = test_between(&s->random, 0, f->Tq - 1);
        size_t rows = test_between(&s->random, 1, f->Tq - first);
        assert_ok(s->ctx, qkv_module_attention_weights(s->module, (enum qkv_attention_stage)(n % 4), head / f->H,
                                                       head % f->H, first, rows, got));
        for (size_t k = 0; k < rows * f->Tk; k++) {
            double expected = stages[n % 4][(head * f->Tq + first) * f->Tk + k];
            bool same = (double)got[k] == expected;
            if (!same && !(fabs((double)got[k] - expected) <= 2e-5 * (1 + fabs(expected))))
                fail_msg("stage %zu, head %zu: %.9g, expected %.9g", n % 4, head, (double)got[k], expected);
        }
        for (size_t i = 0; n % 4 == 0 && i < rows; i++) {
            double sum = 0;
            for (size_t j = 0; j < f->Tk; j++) sum += (double)got[i * f->Tk + j];
            assert_true(sum == 0 || fabs(sum - 1) < 1e-5);
        }
    }
    free(got);
}

/* ---- tests ------------------------------------------------------------------------------------------------------ */

/* 1024 wide, 8 heads of 64 channels with 111 values each, 2048 out. */
static void test_example(void **state) {
    (void)state;
    struct sample s = {.random = test_random(1)};
    struct module_formula l;
    struct qkv_attention_module_spec spec = {
        .in = 1024, .out = 2048, .attention = {.heads = 8, .head_dim = 64, .value_dim = 111, .bias = QKV_BIAS_ALL}};
    assert_int_equal(qkv_context_create(&s.ctx, NULL), QKV_OK);
    make(&s, &spec, 2, 5, 0);
    assert_int_equal(qkv_module_parameters(s.module), 8);
    const struct qkv_array *o = qkv_module_parameter(s.module, module_find(s.module, "o.weight"));
    assert_true(o->rank == 2 && o->shape[0] == 2048 && o->shape[1] == 8 * 111);
    train(&s);
    expect(&s, &l);
    close_to(s.y, l.y, 2 * 5 * 2048, 1e-5, 0, "y");
    expect_gradients(&s, &l, 1);
    module_formula_free(&l);
    finish(&s);
}

static void test_formula(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 300; i++) {
        struct sample s;
        struct module_formula l;
        start(&s, 100 + i, i % 2, 0);
        if (i % 3) add_masks(&s);
        size_t outs = outputs(&s) * sizeof(float);
        float *dy = malloc(outs);
        memcpy(dy, s.dy, outs);
        int times = i % 5 == 0 ? 2 : 1; /* gradients add up */
        for (int k = 0; k < times; k++) train(&s);
        assert_memory_equal(dy, s.dy, outs); /* only read */
        free(dy);
        expect(&s, &l);
        close_to(s.y, l.y, outputs(&s), 1e-5, 1e-6, "y");
        expect_gradients(&s, &l, times);
        expect_looks(&s, &l);
        qkv_module_clear_gradients(s.module);
        for (size_t k = 0; k < s.B * s.T * (size_t)s.spec->in; k++) assert_true(isfinite(s.dx[k]));
        assert_true(gradient_of(s.module, 0)[0] == 0);
        module_formula_free(&l);
        finish(&s);
    }
}

/* Without train, and without asking for gradients of the inputs, the same. */
static void test_what_is_not_asked(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 40; i++) {
        struct sample s;
        start(&s, 500 + i, i % 2, 0);
        add_masks(&s);
        s.mask->dbias = NULL;
        size_t n = outputs(&s), weight = qkv_module_parameter(s.module, 0)->bytes;
        float *plain = floats(&s, n), *gradient = malloc(weight);
        assert_ok(s.ctx, forward(&s, &s.in, plain));
        s.in.train = true;
        assert_ok(s.ctx, forward(&s, &s.in, s.y));
        assert_memory_equal(plain, s.y, n * sizeof(float));
        assert_ok(s.ctx, backward(&s, &s.in, s.dy, s.dx, NULL));
        memcpy(gradient, gradient_of(s.module, 0), weight);
        qkv_module_clear_gradients(s.module);
        assert_ok(s.ctx, forward(&s, &s.in, s.y));
        assert_ok(s.ctx, backward(&s, &s.in, s.dy, NULL, NULL));
        assert_memory_equal(gradient, gradient_of(s.module, 0), weight);
        free(plain);
        free(gradient);
        finish(&s);
    }
}

static double loss(struct sample *s) {
    double sum = 0;
    assert_ok(s->ctx, forward(s, &s->in, s->y));
    for (size_t k = 0; k < outputs(s); k++) sum += (double)s->y[k] * (double)s->dy[k];
    return sum;
}

/* Dropout is on with train only, repeats with its seed, and its gradient is that of what was computed. */
static void test_dropout(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 20; i++) {
        struct sample s = {.random = test_random(600 + i)};
        struct qkv_attention_module_spec spec = {
            .in = 12, .cross = i % 2, .dropout = 0.4, .attention = {.heads = 3, .causal = true, .bias = QKV_BIAS_ALL}};
        assert_int_equal(qkv_context_create(&s.ctx, NULL), QKV_OK);
        make(&s, &spec, 2, 9, 9);
        double without = loss(&s);
        s.in.train = true;
        s.in.seed = 7;
        double with = loss(&s);
        assert_true(with != without && with == loss(&s));
        assert_ok(s.ctx, backward(&s, &s.in, s.dy, s.dx, spec.cross ? s.dmemory : NULL));
        s.in.seed = 8;
        assert_true(with != loss(&s));
        s.in.seed = 7;
        size_t n = 2 * 9 * 12;
        float *at = floats(&s, n), *direction = floats(&s, n);
        double slope_by_gradient = 0, norm = 0, slopes = 0, h = 4e-3;
        memcpy(at, s.x, n * sizeof(float));
        for (size_t k = 0; k < n; k++) {
            slope_by_gradient += (double)s.dx[k] * (double)direction[k];
            norm += (double)s.dx[k] * (double)s.dx[k];
        }
        for (int side = -1; side <= 1; side += 2) {
            for (size_t k = 0; k < n; k++) s.x[k] = (float)((double)at[k] + side * h * (double)direction[k]);
            slopes += side * loss(&s) / (2 * h);
        }
        if (!(fabs(slopes - slope_by_gradient) <= 5e-3 * sqrt(norm)))
            fail_msg("slope %.6f by the gradient, %.6f by differences, norm %.4f", slope_by_gradient, slopes,
                     sqrt(norm));
        free(at);
        free(direction);
        finish(&s);
    }
}

/* New weights depend on the seed alone, and are as wide as their input asks. */
static void test_start(void **state) {
    (void)state;
    struct qkv_context *ctx;
    struct qkv_module *module[3];
    struct qkv_attention_module_spec spec = {.in = 400, .attention = {.heads = 4, .bias = QKV_BIAS_QKV}};
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    for (uint64_t i = 0; i < 3; i++) assert_ok(ctx, qkv_module_create_attention(ctx, &spec, i / 2, &module[i]));
    size_t n = 400 * 400;
    double sum = 0;
    const float *w = module_numbers(module[0], 0);
    for (size_t k = 0; k < n; k++) sum += (double)w[k] * (double)w[k];
    assert_true(fabs(sum / (double)n * 400 - 1) < 0.05);
    assert_memory_equal(w, module_numbers(module[1], 0), n * sizeof(float));
    assert_memory_not_equal(w, module_numbers(module[2], 0), n * sizeof(float));
    assert_memory_not_equal(w, module_numbers(module[0], 1), n * sizeof(float));
    assert_int_equal(qkv_module_parameters(module[0]), 7);
    assert_int_equal(module_find(module[0], "o.bias"), SIZE_MAX);
    assert_true(module_numbers(module[0], module_find(module[0], "v.bias"))[399] == 0);
    assert_null(qkv_module_parameter(module[0], 7));
    assert_null(test_module_weights(module[0], 7));
    assert_null(gradient_of(module[0], 7));
    for (int i = 0; i < 3; i++) qkv_module_free(module[i]);
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_example), cmocka_unit_test(test_formula), cmocka_unit_test(test_what_is_not_asked),
        cmocka_unit_test(test_dropout), cmocka_unit_test(test_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
