/* The tape that carries gradients: losses in chunks, repeatable dropout, dry runs, callbacks for gradients, and
 * refused shapes. */
/* labels: numeric quick */
#include "op_fixture.h"

/* With a vocabulary so large that the rows are processed in chunks, the loss and both gradients equal the plain
 * formula. */
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
        assert_true(fabsf(x->learning.buffer->data[i] - dx[i]) < 1e-4F); /* sums of 900,000 in fp32 */
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
    struct qkv_planning had = {0};
    if (dry) had = qkv_planning_begin(f->ctx);
    qkv_arena_release(&f->graph_arena, 0);
    qkv_tape_start(&f->tape, f->ctx, &arena, &f->graph_arena, true);
    struct qkv_tensor *y = build_add(f);
    struct qkv_loss loss;
    qkv_op_inner_product(&f->tape, y, f->values[0], 1, &loss);
    assert_int_equal(qkv_tape_backward(&f->tape), QKV_OK);
    if (dry) qkv_planning_end(f->ctx, had);
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
    assert_int_equal(parameter->learning.uses, 0);
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
    f.leaves[1].operand.name = "decoder.layers.3.ffn.up.weight";
    qkv_tape_start(&f.tape, f.ctx, &f.arena, &f.graph_arena, false);
    struct qkv_tensor *y = qkv_op_linear(&f.tape, &f.leaves[0], &f.leaves[1], NULL, QKV_RESULT_FP32);
    assert_null(y);
    assert_int_equal(f.tape.status, QKV_SHAPE);
    assert_string_equal(qkv_message(f.ctx),
                        "linear: x is (4,5) but w (3,6) expects 6 columns, at decoder.layers.3.ffn.up.weight");
    assert_null(qkv_op_activation(&f.tape, y, QKV_FFN_RELU));
    assert_null(qkv_op_add(&f.tape, y, &f.leaves[0], 1));
    qkv_tape_start(&f.tape, f.ctx, &f.arena, &f.graph_arena, false);
    static const int32_t bad[] = {1, 4}, places[] = {0, 1};
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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cross_entropy_chunks),
                                       cmocka_unit_test(test_dropout_repeats), cmocka_unit_test(test_dry_run),
                                       cmocka_unit_test(test_listener), cmocka_unit_test(test_shapes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
