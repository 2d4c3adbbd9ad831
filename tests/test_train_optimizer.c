/* Optimizers on a real model's parameters: PyTorch's numbers, the formulas in double, decay on matrices only, the
 * same bits with every number of threads, and refusals. */
/* labels: numeric quick */
#include "train_fixture.h"
#include "weights.h"

#define KIND_ONE(name, text, help) +1
enum { KINDS = 0 QKV_OPTIMIZER_LIST(KIND_ONE) };

struct bench {
    struct qkv_context *ctx;
    struct qkv_model *model;
    struct qkv_pass *pass; /* for the gradients it makes */
};

static struct bench make_bench(int threads) {
    static const char *const settings[] = {"vocab=900", "decoder.layers=1", NULL};
    struct bench b = {.ctx = fixture_context(threads)};
    OWNED_SPEC struct qkv_spec spec = fixture_spec(b.ctx, settings);
    struct qkv_pass_options options = {.size = sizeof options, .B = 1, .T = 2, .train = true};
    assert_ok(b.ctx, qkv_model_create(b.ctx, &spec, 5, &b.model));
    assert_ok(b.ctx, qkv_pass_create(b.model, &options, &b.pass));
    return b;
}

static void free_bench(struct bench *b) {
    qkv_pass_free(b->pass);
    qkv_model_free(b->model);
    qkv_context_free(b->ctx);
}

static size_t elements(const struct bench *b, size_t i) {
    return qkv_array_elements(qkv_model_parameter(b->model, i));
}

/* The first matrix of the model. */
static size_t some_matrix(const struct bench *b) {
    size_t i = 0;
    while (qkv_model_parameter(b->model, i)->rank < 2) i++;
    return i;
}

static struct qkv_optimizer_options options_of(enum qkv_optimizer_kind kind) {
    return QKV_OPTIONS(qkv_optimizer_options, .kind = kind, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3, .momentum = 0.7,
                       .weight_decay = 0.3);
}

/* Computed with torch.optim of PyTorch 1.13 in float64: lr 0.05, weight decay 0.3, betas 0.8 and 0.95, eps 1e-3,
 * momentum 0.7. */
static void three_steps_are_those_of_pytorch(void **state) {
    (void)state;
    static const float start[6] = {0.5f, -1.25f, 2, 0.125f, -0.75f, 1.5f};
    static const float gradients[3][6] = {{0.1f, -0.2f, 0.3f, 1.5f, -0.01f, 0},
                                          {-0.4f, 0.25f, 0.05f, 0.5f, 0.02f, -1},
                                          {0.7f, -0.6f, 0.001f, -2, 0.3f, 0.25f}};
    static const float expected[3][3][6] = {
        {{0.442995049505f, -1.181498756219f, 1.920166112957f, 0.073158311126f, -0.693295454545f, 1.4775f},
         {0.466397695239f, -1.174740185044f, 1.853621014710f, 0.029422652042f, -0.702581972608f, 1.494072964545f},
         {0.440396679675f, -1.130110040632f, 1.798089006316f, 0.037822513574f, -0.727468194311f, 1.490547428721f}},
        {{0.450199203187f, -1.200086805556f, 1.950055493896f, 0.075032499188f, -0.700211864407f, 1.450110864745f},
         {0.457170245223f, -1.161467245377f, 1.901582730958f, 0.032236545930f, -0.651170833576f, 1.461205213036f},
         {0.427287191653f, -1.117336001017f, 1.853915185428f, 0.040308639388f, -0.629093877668f, 1.442712458439f}},
        {{0.4875f, -1.22125f, 1.955f, 0.048125f, -0.73825f, 1.4775f},
         {0.4914375f, -1.19530625f, 1.891675f, -0.031409375f, -0.71995125f, 1.4895875f},
         {0.4518221875f, -1.12921603125f, 1.818922375f, 0.013387703125f, -0.71134285625f, 1.4632049375f}}};
    for (int kind = 0; kind < 3; kind++) {
        struct bench b = make_bench(1);
        struct qkv_optimizer_options options = options_of((enum qkv_optimizer_kind)kind);
        struct qkv_optimizer *optimizer;
        size_t i = some_matrix(&b);
        assert_ok(b.ctx, qkv_optimizer_create(b.model, &options, &optimizer));
        memcpy(test_weights_mutable(b.model, i), start, sizeof start);
        for (int s = 0; s < 3; s++) {
            memcpy(test_gradient(b.model, i), gradients[s], sizeof gradients[s]);
            assert_ok(b.ctx, qkv_optimizer_step(optimizer, 0.05, 1));
            assert_floats_close(test_weights(b.model, i), expected[kind][s], 6, 5e-7);
            for (int k = 0; k < 6; k++) assert_true(test_gradient(b.model, i)[k] == 0);
        }
        qkv_optimizer_free(optimizer);
        free_bench(&b);
    }
}

static const float *golden_floats(const struct qkv_tensors *file, const char *what, const char *name, size_t count) {
    char key[64];
    snprintf(key, sizeof key, "%s.%s", what, name);
    const struct qkv_array *array = qkv_tensors_find(file, key);
    assert_non_null(array);
    assert_true(array->dtype == QKV_F32 && qkv_array_elements(array) == count);
    return array->data;
}

/* Twenty steps of a matrix of a block and of a norm towards a target, as PyTorch makes them in float64
 * (tests/golden/make/optimizer_steps.py). */
static void twenty_steps_are_those_of_the_reference(void **state) {
    (void)state;
#define KIND_NAME(name, text, help) text,
    static const char *const kinds[] = {QKV_OPTIMIZER_LIST(KIND_NAME)};
    static const char *const names[][2] = {{"matrix", "decoder.layers.0.ffn.up.weight"},
                                           {"vector", "decoder.layers.0.ffn_norm.weight"}};
    for (int kind = 0; kind < KINDS; kind++) {
        struct bench b = make_bench(2);
        struct qkv_optimizer_options options = options_of((enum qkv_optimizer_kind)kind);
        struct qkv_optimizer *optimizer;
        struct qkv_tensors *file;
        size_t at[2], count[2];
        assert_ok(b.ctx, qkv_tensors_open(b.ctx, TEST_SOURCE_DIR "/tests/golden/optimizers/steps.safetensors", &file));
        assert_ok(b.ctx, qkv_optimizer_create(b.model, &options, &optimizer));
        for (size_t n = 0; n < 2; n++) {
            for (at[n] = 0; strcmp(qkv_model_parameter(b.model, at[n])->name, names[n][1]) != 0;) at[n]++;
            count[n] = elements(&b, at[n]);
            memcpy(test_weights_mutable(b.model, at[n]), golden_floats(file, "start", names[n][0], count[n]),
                   count[n] * sizeof(float));
        }
        for (int step = 0; step < 20; step++) {
            for (size_t n = 0; n < 2; n++) {
                const float *w = test_weights(b.model, at[n]);
                const float *target = golden_floats(file, "target", names[n][0], count[n]);
                for (size_t i = 0; i < count[n]; i++) test_gradient(b.model, at[n])[i] = w[i] - target[i];
            }
            assert_ok(b.ctx, qkv_optimizer_step(optimizer, 0.02, 1));
        }
        for (size_t n = 0; n < 2; n++)
            assert_floats_close(test_weights(b.model, at[n]), golden_floats(file, kinds[kind], names[n][0], count[n]),
                                count[n], kind == QKV_OPTIMIZER_MUON ? 5e-6 : 2e-6);
        qkv_tensors_close(file);
        qkv_optimizer_free(optimizer);
        free_bench(&b);
    }
}

/* One element's history in double. */
struct element {
    double w, m, v;
    bool uncertain; /* lion: fp32 may have the other sign */
};

static void step_element(struct element *e, const struct qkv_optimizer_options *o, double decay, double g, int t) {
    const double rate = 0.01;
    if (o->kind == QKV_OPTIMIZER_SGD) {
        e->m = o->momentum * e->m + g + decay * e->w;
        e->w -= rate * e->m;
        return;
    }
    if (o->kind == QKV_OPTIMIZER_LION) {
        const double direction = o->beta1 * e->m + (1 - o->beta1) * g;
        e->uncertain |= fabs(direction) < 1e-6 * (fabs(e->m) + fabs(g)) && direction != 0;
        e->w -= rate * ((direction > 0) - (direction < 0) + decay * e->w);
        e->m = o->beta2 * e->m + (1 - o->beta2) * g;
        return;
    }
    if (o->kind == QKV_OPTIMIZER_ADAM) g += decay * e->w;
    e->m = o->beta1 * e->m + (1 - o->beta1) * g;
    e->v = o->beta2 * e->v + (1 - o->beta2) * g * g;
    if (o->kind != QKV_OPTIMIZER_ADAM) e->w -= rate * decay * e->w;
    e->w -= rate * (e->m / (1 - pow(o->beta1, t))) / (sqrt(e->v / (1 - pow(o->beta2, t))) + o->eps);
}

/* out = the 5 steps of Newton and Schulz for x (R, C), in double, as they are published: of x or of its transpose. */
static void orthogonalise_double(double *x, size_t R, size_t C) {
    const double a = 3.4445, b = -4.7750, c = 2.0315;
    double norm = 0;
    for (size_t i = 0; i < R * C; i++) norm += x[i] * x[i];
    norm = sqrt(norm) > 1e-7 ? sqrt(norm) : 1e-7;
    for (size_t i = 0; i < R * C; i++) x[i] /= norm;
    double *A = calloc(R * R, sizeof *A), *B = calloc(R * R, sizeof *B), *y = calloc(R * C, sizeof *y);
    for (int step = 0; step < 5; step++) {
        for (size_t i = 0; i < R; i++)
            for (size_t j = 0; j < R; j++) {
                A[i * R + j] = 0;
                for (size_t k = 0; k < C; k++) A[i * R + j] += x[i * C + k] * x[j * C + k];
            }
        for (size_t i = 0; i < R; i++)
            for (size_t j = 0; j < R; j++) {
                B[i * R + j] = b * A[i * R + j];
                for (size_t k = 0; k < R; k++) B[i * R + j] += c * A[i * R + k] * A[k * R + j];
            }
        for (size_t i = 0; i < R; i++)
            for (size_t j = 0; j < C; j++) {
                y[i * C + j] = a * x[i * C + j];
                for (size_t k = 0; k < R; k++) y[i * C + j] += B[i * R + k] * x[k * C + j];
            }
        memcpy(x, y, R * C * sizeof *x);
    }
    free(A);
    free(B);
    free(y);
}

/* A step of Muon for a matrix with the gradient of each number, which it overwrites. */
static void step_muon(struct element *e, double *g, const struct qkv_optimizer_options *o, size_t R, size_t C) {
    const size_t rows = R < C ? R : C, columns = R < C ? C : R;
    const double rate = 0.01;
    double *x = calloc(R * C, sizeof *x);
    for (size_t i = 0; i < R * C; i++) {
        e[i].m = o->momentum * e[i].m + (1 - o->momentum) * g[i];
        x[R <= C ? i : i % C * R + i / C] = o->momentum * e[i].m + (1 - o->momentum) * g[i];
    }
    orthogonalise_double(x, rows, columns);
    for (size_t i = 0; i < R * C; i++)
        e[i].w -= rate * (o->weight_decay * e[i].w + 0.2 * sqrt((double)columns) * x[R <= C ? i : i % C * R + i / C]);
    free(x);
}

/* A step of Adafactor (Shazeer & Stern 2018) for a matrix, or a vector of one row, with the gradient of each number.
 * The moments of rows are in m of the first R elements, those of columns in v of the first C. */
static void step_adafactor(struct element *e, const double *g, const struct qkv_optimizer_options *o, bool matrix,
                           size_t R, size_t C, double decay, double rate, int t) {
    const double share = pow(t, -0.8), steady = rate < 1 / sqrt(t) ? rate : 1 / sqrt(t);
    double *u = calloc(R * C, sizeof *u), weight = 0, mean = 0, change = 0;
    for (size_t r = 0; r < R && matrix; r++) {
        double sum = 0;
        for (size_t c = 0; c < C; c++) sum += g[r * C + c] * g[r * C + c] / (double)C;
        e[r].m += share * (sum - e[r].m);
        mean += e[r].m / (double)R;
    }
    for (size_t c = 0; c < C && matrix; c++) {
        double sum = 0;
        for (size_t r = 0; r < R; r++) sum += g[r * C + c] * g[r * C + c] / (double)R;
        e[c].v += share * (sum - e[c].v);
    }
    for (size_t i = 0; i < R * C; i++) {
        if (!matrix) e[i].v += share * (g[i] * g[i] - e[i].v);
        const double root = sqrt(matrix ? e[i / C].m * e[i % C].v / mean : e[i].v);
        u[i] = g[i] / (root > o->eps ? root : o->eps);
        change += u[i] * u[i] / (double)(R * C);
        weight += e[i].w * e[i].w / (double)(R * C);
    }
    const double size = sqrt(weight) > 1e-3 ? sqrt(weight) : 1e-3, clip = change > 1 ? sqrt(change) : 1;
    for (size_t i = 0; i < R * C; i++) e[i].w -= rate * decay * e[i].w + size * steady * u[i] / clip;
    free(u);
}

static bool is_of_muon(const struct qkv_array *array) {
    return strstr(array->name, ".layers.") && array->rank == 2 && !strstr(array->name, "bias");
}

/* Every parameter, several steps, with a gradient scale; the largest spans more than one piece. */
static void every_parameter_follows_the_formula(void **state) {
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        struct bench b = make_bench(2);
        struct qkv_optimizer_options options = options_of((enum qkv_optimizer_kind)kind);
        struct qkv_optimizer *optimizer;
        struct qkv_random random = test_random(10 + (uint64_t)kind);
        assert_ok(b.ctx, qkv_optimizer_create(b.model, &options, &optimizer));
        assert_int_equal(qkv_optimizer_moments(optimizer),
                         kind == QKV_OPTIMIZER_SGD || kind == QKV_OPTIMIZER_LION ? 1 : 2);
        struct element *history[64];
        size_t P = qkv_model_parameters(b.model), most = 0, uncertain = 0;
        assert_true(P <= 64);
        for (size_t i = 0; i < P; i++) {
            history[i] = calloc(elements(&b, i), sizeof **history);
            for (size_t j = 0; j < elements(&b, i); j++) history[i][j].w = (double)test_weights(b.model, i)[j];
            if (elements(&b, i) > most) most = elements(&b, i);
        }
        assert_true(most > 20000);
        for (int t = 1; t <= 5; t++) {
            /* the last rate is more than 1/sqrt(t), which limits that of adafactor */
            const double rate = kind == QKV_OPTIMIZER_ADAFACTOR && t == 5 ? 0.5 : 0.01;
            for (size_t i = 0; i < P; i++) {
                double decay = qkv_model_parameter(b.model, i)->rank >= 2 ? 0.3 : 0;
                float *g = test_gradient(b.model, i);
                test_fill(&random, g, elements(&b, i), 0.1);
                const struct qkv_array *array = qkv_model_parameter(b.model, i);
                const bool whole = kind == QKV_OPTIMIZER_MUON && is_of_muon(array);
                double *scaled = calloc(elements(&b, i), sizeof *scaled);
                for (size_t j = 0; j < elements(&b, i); j++) scaled[j] = 0.5 * (double)g[j];
                if (whole) step_muon(history[i], scaled, &options, array->shape[0], array->shape[1]);
                const bool factored = kind == QKV_OPTIMIZER_ADAFACTOR, matrix = array->rank >= 2;
                if (factored)
                    step_adafactor(history[i], scaled, &options, matrix, matrix ? array->shape[0] : 1,
                                   array->shape[matrix], decay, rate, t);
                for (size_t j = 0; j < elements(&b, i) && !whole && !factored; j++)
                    step_element(&history[i][j], &options, decay, scaled[j], t);
                free(scaled);
            }
            assert_ok(b.ctx, qkv_optimizer_step(optimizer, rate, 0.5));
        }
        assert_int_equal(qkv_optimizer_steps(optimizer), 5);
        for (size_t i = 0; i < P; i++) {
            double worst = 0;
            for (size_t j = 0; j < elements(&b, i); j++) {
                uncertain += history[i][j].uncertain;
                if (history[i][j].uncertain) continue;
                double d = fabs((double)test_weights(b.model, i)[j] - history[i][j].w);
                if (!(d <= worst)) worst = d;
            }
            if (!(worst < 1e-6)) print_error("%s: %g\n", qkv_model_parameter(b.model, i)->name, worst);
            assert_true(worst < 1e-6);
            free(history[i]);
        }
        assert_true(uncertain <= 10); /* of more than 100,000 signs */
        qkv_optimizer_free(optimizer);
        free_bench(&b);
    }
}

static uint64_t bits_after_steps(int threads, enum qkv_optimizer_kind kind) {
    struct bench b = make_bench(threads);
    struct qkv_optimizer_options options = options_of(kind);
    struct qkv_optimizer *optimizer;
    struct qkv_random random = qkv_random_start(3, 3);
    uint64_t hash = QKV_HASH_START;
    assert_ok(b.ctx, qkv_optimizer_create(b.model, &options, &optimizer));
    for (int t = 0; t < 3; t++) {
        for (size_t i = 0; i < qkv_model_parameters(b.model); i++)
            test_fill(&random, test_gradient(b.model, i), elements(&b, i), 0.1);
        assert_ok(b.ctx, qkv_optimizer_step(optimizer, 0.01, 1));
    }
    for (size_t i = 0; i < qkv_model_parameters(b.model); i++)
        hash = qkv_hash(hash, test_weights(b.model, i), elements(&b, i) * sizeof(float));
    qkv_optimizer_free(optimizer);
    free_bench(&b);
    return hash;
}

static void threads_change_no_bit(void **state) {
    (void)state;
    for (int kind = 0; kind < KINDS; kind++)
        for (int threads = 2; threads <= 3; threads++)
            assert_true(bits_after_steps(1, (enum qkv_optimizer_kind)kind) ==
                        bits_after_steps(threads, (enum qkv_optimizer_kind)kind));
}

static void a_zero_gradient_stays_finite(void **state) {
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        struct bench b = make_bench(1);
        struct qkv_optimizer_options options = options_of((enum qkv_optimizer_kind)kind);
        struct qkv_optimizer *optimizer;
        options.weight_decay = 0;
        size_t i = some_matrix(&b);
        float before = test_weights(b.model, i)[0];
        assert_ok(b.ctx, qkv_optimizer_create(b.model, &options, &optimizer));
        qkv_model_clear_gradients(b.model);
        for (int t = 0; t < 3; t++) assert_ok(b.ctx, qkv_optimizer_step(optimizer, 0.01, 1));
        assert_true(test_weights(b.model, i)[0] == before);
        qkv_optimizer_free(optimizer);
        free_bench(&b);
    }
}

/* Gradients that somebody else's pass left do not get into a step of a run. */
static void a_pass_beside_a_run_changes_no_bit(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    struct qkv_train_options options = fixture_options(ctx);
    double losses[4];
    for (int beside = 0; beside < 2; beside++) {
        struct qkv_trainer *t = fixture_begin(ctx, fixture_run("beside"), &options);
        struct qkv_pass *pass;
        int32_t ids[4] = {1, 2, 3, 4};
        struct qkv_batch batch = {.B = 1, .T = 4, .ids = ids, .targets = ids};
        assert_ok(ctx, qkv_pass_create(qkv_trainer_model(t),
                                       &QKV_OPTIONS(qkv_pass_options, .B = 1, .T = 4, .train = true), &pass));
        for (int i = 0; i < 4; i++) {
            double loss = fixture_steps(ctx, t, i + 1).loss;
            assert_true(!beside || loss == losses[i]);
            losses[i] = loss;
            if (!beside) continue;
            assert_ok(ctx, qkv_pass_forward(pass, &batch));
            assert_ok(ctx, qkv_pass_backward(pass));
            assert_true(qkv_model_gradient_norm(qkv_trainer_model(t)) > 0);
        }
        qkv_pass_free(pass);
        qkv_trainer_free(t);
    }
    qkv_context_free(ctx);
}

static void impossible_options_are_named(void **state) {
    (void)state;
    struct bench b = make_bench(1);
    struct qkv_optimizer *optimizer;
    const struct {
        struct qkv_optimizer_options options;
        const char *message;
    } bad[] = {
        {QKV_OPTIONS(qkv_optimizer_options, .kind = QKV_OPTIMIZER_ADAMW, .beta1 = 1, .beta2 = 0.9, .eps = 1e-8),
         "beta1 is 1; it must be at least 0 and less than 1"},
        {QKV_OPTIONS(qkv_optimizer_options, .kind = QKV_OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = -1, .eps = 1e-8),
         "beta2 is -1"},
        {QKV_OPTIONS(qkv_optimizer_options, .kind = QKV_OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = NAN, .eps = 1e-8),
         "beta2 is"},
        {QKV_OPTIONS(qkv_optimizer_options, .kind = QKV_OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.9, .eps = 0),
         "eps is 0"},
        {QKV_OPTIONS(qkv_optimizer_options, .kind = QKV_OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.9, .eps = 1e-60),
         "eps is 1e-60"},
        {QKV_OPTIONS(qkv_optimizer_options, .kind = QKV_OPTIMIZER_SGD, .momentum = 1), "momentum is 1"},
        {QKV_OPTIONS(qkv_optimizer_options, .kind = QKV_OPTIMIZER_SGD, .momentum = 0.9, .weight_decay = -1),
         "weight_decay is -1"},
        {QKV_OPTIONS(qkv_optimizer_options, .kind = (enum qkv_optimizer_kind)70), "no kind 70"},
    };
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        assert_status(b.ctx, qkv_optimizer_create(b.model, &bad[i].options, &optimizer), QKV_ARGUMENT);
        assert_null(optimizer);
        assert_message(b.ctx, bad[i].message);
    }
    struct qkv_optimizer_options good = options_of(QKV_OPTIMIZER_SGD);
    assert_ok(b.ctx, qkv_optimizer_create(b.model, &good, &optimizer));
    test_gradient(b.model, 0)[0] = 3;
    assert_status(b.ctx, qkv_optimizer_step(optimizer, NAN, 1), QKV_NUMBER);
    assert_true(test_gradient(b.model, 0)[0] == 3);
    assert_status(b.ctx, qkv_optimizer_step(optimizer, -1, 1), QKV_NUMBER);
    assert_status(b.ctx, qkv_optimizer_step(optimizer, 1, INFINITY), QKV_NUMBER);
    assert_int_equal(qkv_optimizer_steps(optimizer), 0);
    qkv_optimizer_free(optimizer);
    free_bench(&b);
}

static void a_model_without_gradients_is_refused(void **state) {
    (void)state;
    static const char *const settings[] = {"vocab=20", NULL};
    struct qkv_context *ctx = fixture_context(1);
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, settings);
    struct qkv_optimizer_options options = options_of(QKV_OPTIMIZER_ADAMW);
    struct qkv_model *model;
    struct qkv_optimizer *optimizer;
    assert_ok(ctx, qkv_model_create(ctx, &spec, 1, &model));
    assert_ok(ctx, qkv_optimizer_create(model, &options, &optimizer));
    assert_status(ctx, qkv_optimizer_step(optimizer, 0.1, 1), QKV_ARGUMENT);
    assert_message(ctx, "has no gradient yet");
    qkv_optimizer_free(optimizer);
    qkv_model_free(model);
    assert_ok(ctx, qkv_model_plan(ctx, &spec, &model));
    assert_status(ctx, qkv_optimizer_create(model, &options, &optimizer), QKV_ARGUMENT);
    assert_message(ctx, "only a plan");
    qkv_model_free(model);
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_steps_are_those_of_pytorch),
        cmocka_unit_test(twenty_steps_are_those_of_the_reference),
        cmocka_unit_test(every_parameter_follows_the_formula),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(a_zero_gradient_stays_finite),
        cmocka_unit_test(a_pass_beside_a_run_changes_no_bit),
        cmocka_unit_test(impossible_options_are_named),
        cmocka_unit_test(a_model_without_gradients_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
