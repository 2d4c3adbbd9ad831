/* Calls of modules: gradients along random directions, masks, vectors instead of ids, parts of one model, and
 * refusals. In test_modules.c, torch.nn and the golden models anchor what modules compute. */
/* labels: numeric quick */
#include "module_fixture.h"
#include "weights.h"

static struct qkv_vectors vectors(struct qkv_random *r, size_t rows, size_t positions, size_t channels) {
    struct qkv_vectors v = {malloc(rows * positions * channels * sizeof(float)), rows, positions, channels};
    test_fill(r, v.data, rows * positions * channels, 1);
    return v;
}

static size_t numbers(const struct qkv_vectors *v) {
    return v->data ? v->B * v->T * v->C : 0;
}

/* ---- gradients -------------------------------------------------------------------------------------------------- */

/* A place that a derivative is taken by, its gradient, and a direction there. */
struct place {
    float *x, *gradient, *along, *start;
    size_t count;
};
struct slope {
    struct qkv_module *m;
    struct qkv_module_input in;
    struct qkv_vectors y, dy;
    struct place places[160];
    size_t count;
    struct qkv_random random;
};

static void slope_add(struct slope *s, float *x, float *gradient, size_t count) {
    assert_true(s->count < TEST_COUNT(s->places));
    struct place *p = &s->places[s->count++];
    *p = (struct place){x, gradient, malloc(count * sizeof(float)), malloc(count * sizeof(float)), count};
    test_fill(&s->random, p->along, count, 1);
    memcpy(p->start, x, count * sizeof(float));
}

/* Σ y·dy at `step` along the directions. */
static double slope_at(struct slope *s, double step) {
    for (size_t i = 0; i < s->count; i++)
        for (size_t e = 0; e < s->places[i].count; e++)
            s->places[i].x[e] = (float)((double)s->places[i].start[e] + step * (double)s->places[i].along[e]);
    assert_ok(ctx, qkv_module_forward(s->m, &s->in, s->y));
    double sum = 0;
    for (size_t e = 0; e < numbers(&s->y); e++) sum += (double)s->y.data[e] * (double)s->dy.data[e];
    return sum;
}

static void check_slope(enum qkv_module_kind kind, const struct qkv_spec *spec, bool memory, bool values) {
    struct slope s = {.random = test_random(1000 + kind)};
    float bias[H * TM * T], dbias[H * TM * T] = {0};
    int32_t starts[B] = {0, 2}, lengths[B] = {TM - 1, TM};
    s.m = create(kind, spec);
    s.in = (struct qkv_module_input){.x = vectors(&s.random, B, T, C), .train = true, .seed = 3};
    if (memory) s.in.memory = vectors(&s.random, B, TM, C);
    if (values) s.in.values = vectors(&s.random, B, TM, C);
    test_fill(&s.random, bias, TEST_COUNT(bias), 1);
    if (memory) {
        s.in.cross = (struct qkv_module_mask){
            .mask.lengths = lengths, .bias = bias, .dbias = dbias, .bias_shape = {1, H, T, TM, 0, 0, 0}};
    } else if (kind == QKV_MODULE_ENCODER_BLOCK) {
        s.in.self.mask = (struct qkv_mask){.causal = true, .starts = starts};
    }
    s.y = vectors(&s.random, B, T, kind == QKV_MODULE_MODEL ? VOCAB : C);
    s.dy = vectors(&s.random, s.y.B, s.y.T, s.y.C);
    struct qkv_module_gradients g = {.x = vectors(&s.random, B, T, C)};
    if (memory) g.memory = vectors(&s.random, B, TM, C);
    if (values) g.values = vectors(&s.random, B, TM, C);
    assert_ok(ctx, qkv_module_forward(s.m, &s.in, s.y));
    assert_ok(ctx, qkv_module_backward(s.m, s.dy, &g));
    for (size_t i = 0; i < qkv_module_parameters(s.m); i++)
        slope_add(&s, test_module_weights(s.m, i), test_module_gradient(s.m, i),
                  qkv_array_elements(qkv_module_parameter(s.m, i)));
    slope_add(&s, s.in.x.data, g.x.data, numbers(&g.x));
    if (memory) slope_add(&s, s.in.memory.data, g.memory.data, numbers(&g.memory));
    if (memory) slope_add(&s, bias, dbias, TEST_COUNT(bias));
    if (values) slope_add(&s, s.in.values.data, g.values.data, numbers(&g.values));
    double expected = 0, size = 0;
    for (size_t i = 0; i < s.count; i++)
        for (size_t e = 0; e < s.places[i].count; e++) {
            expected += (double)s.places[i].gradient[e] * (double)s.places[i].along[e];
            size += pow((double)s.places[i].gradient[e], 2);
        }
    const double h = 2e-3;
    double got = (8 * (slope_at(&s, h) - slope_at(&s, -h)) - (slope_at(&s, 2 * h) - slope_at(&s, -2 * h))) / (12 * h);
    if (!(fabs(got - expected) <= 4e-3 * sqrt(size)))
        fail_msg("module %d: the slope is %g, the gradient says %g (size %g)", (int)kind, got, expected, sqrt(size));
    for (size_t i = 0; i < s.count; i++) free(s.places[i].along), free(s.places[i].start);
    float *all[] = {s.in.x.data, s.in.memory.data, s.in.values.data, s.y.data,
                    s.dy.data,   g.x.data,         g.memory.data,    g.values.data};
    for (size_t i = 0; i < TEST_COUNT(all); i++) free(all[i]);
    qkv_module_free(s.m);
}

/* Gradients of inputs, parameters and the bias at once; also with dropout, whose mask a seed fixes, and for a
 * decoder alone. */
static void gradients_are_slopes(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec pair = spec_of(both_stacks),
                               alone = spec_of("\"decoder\":{\"layers\":1,\"attention\":{\"heads\":3},"
                                               "\"ffn\":{\"kind\":\"gelu\"}}");
    for (int drops = 0; drops < 2; drops++) {
        pair.dropout = alone.dropout = drops ? 0.2 : 0;
        pair.encoder.kinds[0].ffn.dropout = alone.decoder.kinds[0].ffn.dropout = drops ? 0.3 : 0;
        for (int kind = 0; kind < QKV_MODULE_COUNT; kind++) {
            const bool memory = kind == QKV_MODULE_CROSS_ATTENTION || kind == QKV_MODULE_DECODER_BLOCK ||
                                kind == QKV_MODULE_DECODER_STACK || kind == QKV_MODULE_CROSS_BLOCK;
            if (kind == QKV_MODULE_MODEL) continue;
            check_slope((enum qkv_module_kind)kind, &pair, memory, false);
            check_slope((enum qkv_module_kind)kind, &alone, memory, kind == QKV_MODULE_CROSS_ATTENTION);
        }
        check_slope(QKV_MODULE_MODEL, &pair, true, false);
        check_slope(QKV_MODULE_MODEL, &alone, false, false);
    }
}

/* ---- masks ------------------------------------------------------------------------------------------------------ */

static void run(struct qkv_module *m, const struct qkv_module_input *in, struct qkv_vectors y) {
    assert_ok(ctx, qkv_module_forward(m, in, y));
}

/* Every mask gives what the same mask written out as a dense one does. */
static void every_mask_is_its_dense_one(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec spec = spec_of("\"encoder\":{\"layers\":1,\"attention\":{\"heads\":3}}");
    struct qkv_module *m = create(QKV_MODULE_ENCODER_BLOCK, &spec);
    struct qkv_random r = test_random(901);
    static const int32_t lengths[B] = {4, T}, starts[B] = {2, 0}, prefix[B] = {3, 0},
                         documents[B * T] = {0, 0, 1, 1, 1, 2, 0, 0, 0, 0, 3, -1};
    const struct qkv_mask masks[] = {{.causal = true},
                                     {.window = 2},
                                     {.lengths = lengths},
                                     {.starts = starts},
                                     {.causal = true, .prefix = prefix},
                                     {.key_documents = documents},
                                     {.causal = true, .window = 3, .starts = starts, .lengths = lengths}};
    struct qkv_vectors x = vectors(&r, B, T, C), y = vectors(&r, B, T, C), expected = vectors(&r, B, T, C),
                       open = vectors(&r, B, T, C);
    run(m, &(struct qkv_module_input){.x = x}, open);
    for (size_t i = 0; i < TEST_COUNT(masks); i++) {
        uint8_t dense[B * T * T];
        float bias[B * T * T];
        struct qkv_mask sized = masks[i];
        sized.B = B, sized.Tq = sized.Tk = T;
        assert_ok(ctx, qkv_mask_dense(ctx, &sized, dense));
        for (size_t e = 0; e < TEST_COUNT(dense); e++) bias[e] = dense[e] ? 0 : -INFINITY;
        const struct qkv_pair_shape shape = {B, 1, T, T, 0, 0, 0};
        run(m, &(struct qkv_module_input){.x = x, .self.mask = masks[i]}, y);
        run(m, &(struct qkv_module_input){.x = x, .self = {.dense = dense, .dense_shape = shape}}, expected);
        test_floats_close(y.data, expected.data, numbers(&y), 1e-5, "dense", __FILE__, __LINE__);
        run(m, &(struct qkv_module_input){.x = x, .self = {.bias = bias, .bias_shape = shape}}, expected);
        test_floats_close(y.data, expected.data, numbers(&y), 1e-5, "additive", __FILE__, __LINE__);
        assert_true(test_relative_error(y.data, open.data, numbers(&y)) > 1e-3);
    }
    free(x.data), free(y.data), free(expected.data), free(open.data);
    qkv_module_free(m);
}

/* Without positions of the embedding, or with positions that depend on distances alone, padding before a row does
 * not change it. */
static void padding_on_the_left_moves_a_row(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec spec = spec_of(both_stacks);
    struct qkv_module *m = create(QKV_MODULE_ENCODER_STACK, &spec);
    struct qkv_random r = test_random(902);
    const int32_t starts[1] = {2};
    struct qkv_vectors x = vectors(&r, 1, T, C), y = vectors(&r, 1, T, C), alone = vectors(&r, 1, T - 2, C);
    struct qkv_vectors rest = {x.data + 2 * C, 1, T - 2, C};
    run(m, &(struct qkv_module_input){.x = x, .self.mask.starts = starts}, y);
    run(m, &(struct qkv_module_input){.x = rest}, alone);
    test_floats_close(y.data + 2 * C, alone.data, numbers(&alone), 1e-5, "the row", __FILE__, __LINE__);
    free(x.data), free(y.data), free(alone.data);
    qkv_module_free(m);
}

/* ---- models and their parts ------------------------------------------------------------------------------------- */

static const float *weights_called(struct qkv_model *model, const char *name, const float **gradient) {
    for (size_t i = 0; i < qkv_model_parameters(model); i++)
        if (strcmp(qkv_model_parameter(model, i)->name, name) == 0) {
            if (gradient) *gradient = test_gradient(model, i);
            return test_weights(model, i);
        }
    fail_msg("there is no %s", name);
    return NULL;
}

/* Vectors that are the scaled embeddings of ids give the same bits; their gradients add up to that of the embedding. */
static void vectors_take_the_place_of_ids(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec spec =
        spec_of("\"embed_scale\":2.5,\"encoder\":null,\"decoder\":{\"layers\":2,\"attention\":{\"heads\":3}}");
    struct qkv_model *model;
    struct qkv_module *m;
    struct qkv_random r = test_random(903);
    int32_t ids[B * T];
    assert_ok(ctx, qkv_model_create(ctx, &spec, 5, &model));
    assert_ok(ctx, qkv_module_of_model(model, "", &m));
    const float *table = weights_called(model, "decoder.embed.token.weight", NULL), *gradient = NULL;
    struct qkv_vectors x = vectors(&r, B, T, C), dx = vectors(&r, B, T, C), dy = vectors(&r, B, T, VOCAB),
                       y = vectors(&r, B, T, VOCAB), again = vectors(&r, B, T, VOCAB);
    for (size_t n = 0; n < TEST_COUNT(ids); n++) {
        ids[n] = (int32_t)qkv_random_below(&r, VOCAB);
        for (size_t c = 0; c < C; c++) x.data[n * C + c] = 2.5F * table[(size_t)ids[n] * C + c];
    }
    assert_ok(ctx,
              qkv_module_forward(m, &(struct qkv_module_input){.x = {NULL, B, T, 0}, .ids = ids, .train = true}, y));
    assert_ok(ctx, qkv_module_backward(m, dy, NULL));
    assert_ok(ctx, qkv_module_forward(m, &(struct qkv_module_input){.x = x, .train = true}, again));
    assert_memory_equal(y.data, again.data, numbers(&y) * sizeof(float));
    assert_ok(ctx, qkv_module_backward(m, dy, &(struct qkv_module_gradients){.x = dx}));
    float summed[VOCAB * C] = {0};
    for (size_t n = 0; n < TEST_COUNT(ids); n++)
        for (size_t c = 0; c < C; c++) summed[(size_t)ids[n] * C + c] += 2.5F * dx.data[n * C + c];
    weights_called(model, "decoder.embed.token.weight", &gradient);
    test_floats_close(gradient, summed, TEST_COUNT(summed), 1e-5, "the gradient", __FILE__, __LINE__);
    assert_status(ctx, qkv_module_backward(m, dy, NULL), QKV_ARGUMENT);
    free(x.data), free(dx.data), free(dy.data), free(y.data), free(again.data);
    qkv_module_free(m);
    qkv_model_free(model);
}

/* Blocks one after the other and the last norm are the stack; norm, sublayer and sum are the block. */
static void parts_make_the_whole(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec spec = spec_of(both_stacks);
    struct qkv_model *model;
    struct qkv_random r = test_random(904);
    assert_ok(ctx, qkv_model_create(ctx, &spec, 5, &model));
    struct qkv_vectors x = vectors(&r, B, T, C), memory = vectors(&r, B, TM, C), y = vectors(&r, B, T, C),
                       whole = vectors(&r, B, T, C), part = vectors(&r, B, T, C);
    static const char *const blocks[] = {"decoder.layers.0", "decoder.layers.1", "decoder.norm"};
    static const char *const steps[][2] = {{"decoder.layers.0.attn_norm", "decoder.layers.0.attn"},
                                           {"decoder.layers.0.cross_norm", "decoder.layers.0.cross"},
                                           {"decoder.layers.0.ffn_norm", "decoder.layers.0.ffn"}};
    struct qkv_module *m;
    assert_ok(ctx, qkv_module_of_model(model, "decoder", &m));
    assert_int_equal(qkv_module_kind(m), QKV_MODULE_DECODER_STACK);
    run(m, &(struct qkv_module_input){.x = x, .memory = memory}, whole);
    qkv_module_free(m);
    memcpy(y.data, x.data, numbers(&x) * sizeof(float));
    for (size_t i = 0; i < 3; i++) {
        assert_ok(ctx, qkv_module_of_model(model, blocks[i], &m));
        run(m, &(struct qkv_module_input){.x = y, .memory = i < 2 ? memory : (struct qkv_vectors){0}}, part);
        memcpy(y.data, part.data, numbers(&y) * sizeof(float));
        qkv_module_free(m);
    }
    test_floats_close(y.data, whole.data, numbers(&y), 1e-6, "the stack", __FILE__, __LINE__);
    assert_ok(ctx, qkv_module_of_model(model, "decoder.layers.0", &m));
    run(m, &(struct qkv_module_input){.x = x, .memory = memory}, whole);
    qkv_module_free(m);
    memcpy(y.data, x.data, numbers(&x) * sizeof(float));
    for (size_t i = 0; i < 3; i++) {
        memcpy(part.data, y.data, numbers(&y) * sizeof(float));
        for (size_t k = 0; k < 2; k++) {
            struct qkv_vectors out = vectors(&r, B, T, C);
            assert_ok(ctx, qkv_module_of_model(model, steps[i][k], &m));
            run(m, &(struct qkv_module_input){.x = part, .memory = i == 1 && k == 1 ? memory : (struct qkv_vectors){0}},
                out);
            memcpy(part.data, out.data, numbers(&out) * sizeof(float));
            free(out.data);
            qkv_module_free(m);
        }
        for (size_t e = 0; e < numbers(&y); e++) y.data[e] += part.data[e];
    }
    test_floats_close(y.data, whole.data, numbers(&y), 1e-6, "the block", __FILE__, __LINE__);
    free(x.data), free(memory.data), free(y.data), free(whole.data), free(part.data);
    qkv_model_free(model);
}

/* Two sublayers with their norms and sums; without self attention there is none, and no norm, of it. */
static void a_cross_block_is_its_parts(void **state) {
    (void)state;
    static const char pair[] = "\"encoder\":{\"layers\":1,\"attention\":{\"heads\":3}},"
                               "\"decoder\":{\"layers\":2,\"attention\":{\"heads\":3},\"cross_only\":true}";
    static const char *const steps[] = {"decoder.layers.1.cross_norm", "decoder.layers.1.cross",
                                        "decoder.layers.1.ffn_norm", "decoder.layers.1.ffn"};
    OWNED_SPEC struct qkv_spec spec = spec_of(pair);
    struct qkv_model *model;
    struct qkv_module *m;
    struct qkv_random r = test_random(905);
    assert_ok(ctx, qkv_model_create(ctx, &spec, 5, &model));
    struct qkv_vectors x = vectors(&r, B, T, C), memory = vectors(&r, B, TM, C), y = vectors(&r, B, T, C),
                       whole = vectors(&r, B, T, C), part = vectors(&r, B, T, C);
    assert_ok(ctx, qkv_module_of_model(model, "decoder.layers.1", &m));
    assert_int_equal(qkv_module_kind(m), QKV_MODULE_CROSS_BLOCK);
    for (size_t i = 0; i < qkv_module_parameters(m); i++) assert_null(strstr(qkv_module_parameter(m, i)->name, "attn"));
    run(m, &(struct qkv_module_input){.x = x, .memory = memory}, whole);
    qkv_module_free(m);
    memcpy(y.data, x.data, numbers(&x) * sizeof(float));
    for (size_t i = 0; i < TEST_COUNT(steps); i++) {
        assert_ok(ctx, qkv_module_of_model(model, steps[i], &m));
        struct qkv_module_input in = {.x = i % 2 ? part : y};
        struct qkv_vectors out = vectors(&r, B, T, C);
        if (i == 1) in.memory = memory;
        run(m, &in, out);
        memcpy(part.data, out.data, numbers(&out) * sizeof(float));
        for (size_t e = 0; i % 2 && e < numbers(&y); e++) y.data[e] += out.data[e];
        free(out.data);
        qkv_module_free(m);
    }
    test_floats_close(y.data, whole.data, numbers(&y), 1e-6, "the block", __FILE__, __LINE__);
    assert_status(ctx, qkv_module_of_model(model, "decoder.layers.1.attn", &m), QKV_ARGUMENT);
    free(x.data), free(memory.data), free(y.data), free(whole.data), free(part.data);
    qkv_model_free(model);
}

/* A module by itself has the weights that it computes with, under the names of its part. */
static void a_module_has_its_own_weights_only(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec spec = spec_of(both_stacks);
    static const char *const names[QKV_MODULE_MODEL][20] = {
        [QKV_MODULE_ATTENTION] = {"q.weight", "k.weight", "v.weight", "q.bias", "k.bias", "v.bias", "o.weight",
                                  "o.bias"},
        [QKV_MODULE_CROSS_ATTENTION] = {"q.weight", "q.bias", "k.weight", "v.weight", "k.bias", "v.bias", "o.weight",
                                        "o.bias"},
        [QKV_MODULE_FFN] = {"gate.weight", "up.weight", "gate.bias", "up.bias", "down.weight", "down.bias"},
        [QKV_MODULE_NORM] = {"weight"},
        [QKV_MODULE_ENCODER_BLOCK] = {"attn_norm.weight", "attn.q.weight", "attn.k.weight", "attn.v.weight",
                                      "attn.q.bias", "attn.k.bias", "attn.v.bias", "attn.o.weight", "attn.o.bias",
                                      "ffn_norm.weight", "ffn.gate.weight", "ffn.up.weight", "ffn.gate.bias",
                                      "ffn.up.bias", "ffn.down.weight", "ffn.down.bias"},
    };
    for (int kind = 0; kind <= QKV_MODULE_ENCODER_BLOCK; kind++) {
        struct qkv_module *m = create((enum qkv_module_kind)kind, &spec);
        size_t count = 0;
        while (count < 20 && names[kind][count]) count++;
        assert_int_equal(qkv_module_parameters(m), count);
        for (size_t i = 0; i < count; i++) {
            size_t found = 0;
            for (size_t k = 0; k < count; k++) found += strcmp(qkv_module_parameter(m, k)->name, names[kind][i]) == 0;
            if (found != 1) fail_msg("module %d has no %s", kind, names[kind][i]);
        }
        assert_null(qkv_module_parameter(m, count));
        assert_null(test_module_gradient(m, 0));
        qkv_module_free(m);
    }
}

/* ---- tables ----------------------------------------------------------------------------------------------------- */

static void the_table_of_sinusoids_is_the_papers(void **state) {
    (void)state;
    float table[7 * 5];
    assert_ok(ctx, qkv_sinusoid_table(ctx, 7, 5, table));
    for (size_t t = 0; t < 7; t++)
        for (size_t i = 0; i < 5; i++) {
            const double angle = (double)t / pow(10000, (double)(i / 2 * 2) / 5);
            assert_true(fabs((double)table[t * 5 + i] - (i % 2 ? cos(angle) : sin(angle))) < 1e-7);
        }
    assert_status(ctx, qkv_sinusoid_table(ctx, SIZE_MAX, 5, table), QKV_SHAPE);
    assert_status(ctx, qkv_sinusoid_table(ctx, 7, 5, NULL), QKV_ARGUMENT);
    assert_ok(ctx, qkv_sinusoid_table(ctx, 0, 5, NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_slopes),
        cmocka_unit_test(every_mask_is_its_dense_one),
        cmocka_unit_test(padding_on_the_left_moves_a_row),
        cmocka_unit_test(vectors_take_the_place_of_ids),
        cmocka_unit_test(parts_make_the_whole),
        cmocka_unit_test(a_cross_block_is_its_parts),
        cmocka_unit_test(a_module_has_its_own_weights_only),
        cmocka_unit_test(the_table_of_sinusoids_is_the_papers),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
