/* Calls of modules: gradients along random directions, masks, vectors in place of ids, parts of one model, and refusals. What modules
 * compute is anchored by torch.nn and the golden models in test_modules.c. */
#include "test.h"

#include "qkv.h"

enum { B = 2, T = 6, TM = 5, C = 12, H = 3, VOCAB = 11 };

static struct qkv_context *ctx;

/* In fp32 whatever the environment says: differences of outputs need its digits. */
static int setup(void **state) {
    (void)state;
    struct qkv_context_options options = {.precision = QKV_FP32};
    return qkv_context_create(&ctx, &options) != QKV_OK;
}

static int teardown(void **state) {
    (void)state;
    qkv_context_free(ctx);
    return 0;
}

static struct qkv_spec spec_of(const char *more) {
    char json[1024];
    struct qkv_spec spec;
    snprintf(json, sizeof json,
             "{\"format\":\"qkv\",\"version\":1,\"vocab\":%d,\"d_model\":%d,\"context\":9,\"tie\":\"none\","
             "\"position\":{\"kind\":\"rope\"},%s}",
             VOCAB, C, more);
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "test", json, strlen(json), NULL, 0));
    return spec;
}

static const char *const both_stacks =
    "\"encoder\":{\"layers\":2,\"attention\":{\"heads\":3},\"norm\":{\"kind\":\"rmsnorm\"},\"ffn\":{\"kind\":"
    "\"swiglu\"}},"
    "\"decoder\":{\"layers\":2,\"attention\":{\"heads\":3,\"kv_heads\":1},\"norm\":{\"kind\":\"layernorm\"},"
    "\"ffn\":{\"kind\":\"gelu\"}}";

static struct qkv_module *create(enum qkv_module_kind kind, const struct qkv_spec *spec) {
    struct qkv_module *m;
    assert_ok(ctx, qkv_module_create(ctx, kind, spec, 7, &m));
    struct qkv_random r = test_random(900);
    for (size_t i = 0; i < qkv_module_parameters(m); i++)
        test_fill(&r, qkv_module_weights_mutable(m, i), qkv_array_elements(qkv_module_parameter(m, i)), 0.3);
    return m;
}

static struct qkv_vectors vectors(struct qkv_random *r, size_t rows, size_t positions, size_t channels) {
    struct qkv_vectors v = {malloc(rows * positions * channels * sizeof(float)), rows, positions, channels};
    test_fill(r, v.data, rows * positions * channels, 1);
    return v;
}

static size_t numbers(const struct qkv_vectors *v) {
    return v->data ? v->B * v->T * v->C : 0;
}

/* ---- gradients ------------------------------------------------------------------------------------------------------ */

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
        slope_add(&s, qkv_module_weights_mutable(s.m, i), qkv_module_gradient(s.m, i),
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

/* Of inputs, parameters and the bias at once; also with dropout, whose mask a seed fixes, and where the decoder stands alone. */
static void gradients_are_slopes(void **state) {
    (void)state;
    struct qkv_spec pair = spec_of(both_stacks),
                    alone = spec_of("\"decoder\":{\"layers\":1,\"attention\":{\"heads\":3},"
                                    "\"ffn\":{\"kind\":\"gelu\"}}");
    for (int drops = 0; drops < 2; drops++) {
        pair.dropout = alone.dropout = drops ? 0.2 : 0;
        for (int kind = 0; kind < QKV_MODULE_MODEL; kind++) {
            const bool memory = kind == QKV_MODULE_CROSS_ATTENTION || kind == QKV_MODULE_DECODER_BLOCK ||
                                kind == QKV_MODULE_DECODER_STACK;
            check_slope((enum qkv_module_kind)kind, &pair, memory, false);
            check_slope((enum qkv_module_kind)kind, &alone, memory, kind == QKV_MODULE_CROSS_ATTENTION);
        }
        check_slope(QKV_MODULE_MODEL, &pair, true, false);
        check_slope(QKV_MODULE_MODEL, &alone, false, false);
    }
}

/* ---- masks ------------------------------------------------------------------------------------------------------------- */

static void run(struct qkv_module *m, const struct qkv_module_input *in, struct qkv_vectors y) {
    assert_ok(ctx, qkv_module_forward(m, in, y));
}

/* Every mask gives what the same mask written out as a dense one does. */
static void every_mask_is_its_dense_one(void **state) {
    (void)state;
    struct qkv_spec spec = spec_of("\"encoder\":{\"layers\":1,\"attention\":{\"heads\":3}}");
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

/* Without positions of the embedding, and with those that only distances matter to, a row is the same behind padding. */
static void padding_on_the_left_moves_a_row(void **state) {
    (void)state;
    struct qkv_spec spec = spec_of(both_stacks);
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

/* ---- models and their parts ---------------------------------------------------------------------------------------------- */

static const float *weights_called(struct qkv_model *model, const char *name, const float **gradient) {
    for (size_t i = 0; i < qkv_model_parameters(model); i++)
        if (strcmp(qkv_model_parameter(model, i)->name, name) == 0) {
            if (gradient) *gradient = qkv_model_gradient(model, i);
            return qkv_model_weights(model, i);
        }
    fail_msg("there is no %s", name);
    return NULL;
}

/* Vectors that are the scaled embeddings of ids give the same bits; their gradients add up to that of the embedding. */
static void vectors_take_the_place_of_ids(void **state) {
    (void)state;
    struct qkv_spec spec =
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
    struct qkv_spec spec = spec_of(both_stacks);
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

/* A module by itself has the weights that it computes with, under the names of its part. */
static void a_module_has_its_own_weights_only(void **state) {
    (void)state;
    struct qkv_spec spec = spec_of(both_stacks);
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
        assert_null(qkv_module_gradient(m, 0));
        qkv_module_free(m);
    }
}

/* ---- empty batches ------------------------------------------------------------------------------------------------------ */

/* No rows, or rows of no positions: nothing is computed and nothing changes; gradients of what was read are 0. */
static void empty_batches_give_empty_results(void **state) {
    (void)state;
    struct qkv_spec spec = spec_of(both_stacks);
    for (int kind = 0; kind <= QKV_MODULE_MODEL; kind++) {
        struct qkv_module *m = create((enum qkv_module_kind)kind, &spec);
        const bool model = kind == QKV_MODULE_MODEL;
        const bool reads = model || kind == QKV_MODULE_CROSS_ATTENTION || kind == QKV_MODULE_DECODER_BLOCK ||
                           kind == QKV_MODULE_DECODER_STACK;
        for (int which = 0; which < 2; which++) {
            const struct qkv_vectors x = {NULL, which ? B : 0, which ? 0 : T, model ? 0 : C};
            float memory[B * TM * C], dmemory[B * TM * C];
            const int32_t source[B * TM] = {0};
            struct qkv_module_input in = {.x = x, .train = true};
            for (size_t i = 0; i < TEST_COUNT(memory); i++) memory[i] = dmemory[i] = 1;
            if (reads && model)
                in.memory = (struct qkv_vectors){NULL, x.B, TM, 0}, in.source = source;
            else if (reads)
                in.memory = (struct qkv_vectors){memory, x.B, TM, C};
            const struct qkv_vectors y = {NULL, x.B, x.T, model ? VOCAB : C};
            assert_ok(ctx, qkv_module_forward(m, &in, y));
            struct qkv_module_gradients g = {.memory = in.memory};
            g.memory.data = reads && !model ? dmemory : NULL;
            assert_ok(ctx, qkv_module_backward(m, y, &g));
            for (size_t i = 0; i < TEST_COUNT(dmemory); i++)
                assert_true(dmemory[i] == (g.memory.data && i < x.B * TM * C ? 0 : 1));
            assert_status(ctx, qkv_module_backward(m, y, NULL), QKV_ARGUMENT);
            if (!which || model || kind == QKV_MODULE_NORM) continue;
            in.x.C = C + 1;
            assert_status(ctx, qkv_module_forward(m, &in, y), QKV_SHAPE);
            assert_message(ctx, "x is (2,0,13); to go with the module's weights it must be (2,0,12)");
        }
        qkv_module_free(m);
    }
}

/* ---- refusals ----------------------------------------------------------------------------------------------------------- */

static void shapes_that_do_not_agree_are_both_named(void **state) {
    (void)state;
    struct qkv_spec spec = spec_of(both_stacks);
    struct qkv_module *m = create(QKV_MODULE_DECODER_BLOCK, &spec);
    static float x[B * T * C], y[B * T * C];
    const int32_t numbers_of[B * T] = {0};
    const struct qkv_vectors good = {x, B, T, C}, out = {y, B, T, C};
#define REFUSE(change, status, sentence)                                                                               \
    do {                                                                                                               \
        struct qkv_module_input in = {.x = good, .memory = {x, B, TM, C}, .train = true};                              \
        struct qkv_vectors Y = out;                                                                                    \
        change;                                                                                                        \
        assert_status(ctx, qkv_module_forward(m, &in, Y), status);                                                     \
        assert_message(ctx, sentence);                                                                                 \
        assert_status(ctx, qkv_module_backward(m, out, NULL), QKV_ARGUMENT);                                           \
    } while (0)
    REFUSE(in.x.C = 8, QKV_SHAPE,
           "decoder block module: x is (2,6,8); to go with the module's weights it must be (2,6,12)");
    REFUSE(in.memory.C = 8, QKV_SHAPE, "memory is (2,5,8); to go with the module's weights it must be (2,5,12)");
    REFUSE(in.memory.B = 1, QKV_SHAPE, "memory is (1,5,12) and x is (2,6,12); they need the same number of rows");
    REFUSE(Y.T = 5, QKV_SHAPE, "y is (2,5,12); to go with x and the module it must be (2,6,12)");
    REFUSE(in.x.B = SIZE_MAX / 2, QKV_SHAPE, "are too many");
    REFUSE(in.x.T = 0, QKV_SHAPE, "y is (2,6,12); to go with x and the module it must be (2,0,12)");
    REFUSE(in.x.T = 10, QKV_ARGUMENT, "x has 10 positions, more than the context of 9");
    REFUSE(in.x.data = NULL, QKV_ARGUMENT, "x has no data");
    REFUSE(Y.data = NULL, QKV_ARGUMENT, "y has no data");
    REFUSE(in.memory = (struct qkv_vectors){0}, QKV_ARGUMENT, "memory is (0,0,0), which is empty");
    REFUSE(in.values = in.memory, QKV_ARGUMENT, "only cross attention takes them apart");
    REFUSE(in.ids = numbers_of, QKV_ARGUMENT, "ids are given, but only a model embeds them; give x");
    REFUSE(in.self.mask.Tk = 3, QKV_SHAPE,
           "the mask is made for (B,Tq,Tk) = (0,0,3), but queries and keys make (2,6,6)");
    REFUSE(in.self.mask.offset = 1, QKV_ARGUMENT, "self.mask.offset is given");
    REFUSE(in.source_self.mask.causal = true, QKV_ARGUMENT, "the mask \"source_self\" is given");
    REFUSE((in.self.bias = x, in.self.bias_shape = (struct qkv_pair_shape){1, 2, T, T, 0, 0, 0}), QKV_SHAPE,
           "bias is (1,2,6,6), but q and k make (B,H,Tq,Tk) = (2,3,6,6)");
    REFUSE(in.cross.dbias = y, QKV_ARGUMENT, "cross.dbias needs a bias, and train");
    REFUSE(in.x.data = (float *)(void *)((char *)x + 1), QKV_ARGUMENT, "x is at");
#undef REFUSE
    struct qkv_module_input in = {.x = good, .memory = {x, B, TM, C}, .train = true};
    assert_ok(ctx, qkv_module_forward(m, &in, out));
    assert_status(ctx, qkv_module_backward(m, (struct qkv_vectors){x, B, T, 8}, NULL), QKV_SHAPE);
    assert_message(ctx, "dy is (2,6,8); to go with y it must be (2,6,12)");
    assert_status(ctx, qkv_module_backward(m, out, &(struct qkv_module_gradients){.memory = good}), QKV_SHAPE);
    assert_message(ctx, "dmemory is (2,6,12); to go with memory it must be (2,5,12)");
    assert_status(ctx, qkv_module_backward(m, out, &(struct qkv_module_gradients){.values = good}), QKV_ARGUMENT);
    assert_message(ctx, "dvalues is asked for, but the forward read no such vectors");
    assert_ok(ctx, qkv_module_backward(m, out, NULL));
    assert_status(ctx, qkv_module_forward(m, NULL, out), QKV_ARGUMENT);
    qkv_module_free(m);
}

static void what_cannot_be_a_module_is_refused(void **state) {
    (void)state;
    struct qkv_spec spec = spec_of(both_stacks),
                    encoder = spec_of("\"encoder\":{\"layers\":1,\"attention\":{\"heads\":3}}");
    struct qkv_model *model, *plan;
    struct qkv_module *m;
    assert_status(ctx, qkv_module_create(ctx, QKV_MODULE_DECODER_BLOCK, &encoder, 1, &m), QKV_ARGUMENT);
    assert_message(ctx, "the spec has no decoder to make it of");
    assert_null(m);
    assert_status(ctx, qkv_module_create(ctx, (enum qkv_module_kind)99, &spec, 1, &m), QKV_ARGUMENT);
    assert_message(ctx, "the kind is 99");
    struct qkv_module_options options = qkv_module_defaults();
    options.kind = QKV_MODULE_DECODER_BLOCK;
    options.value_width = 8;
    assert_status(ctx, qkv_module_create_with(ctx, &spec, &options, &m), QKV_ARGUMENT);
    assert_message(ctx, "value_width is given, but only cross attention has keys and values of other widths");
    options.kind = QKV_MODULE_CROSS_ATTENTION;
    options.key_width = SIZE_MAX;
    assert_status(ctx, qkv_module_create_with(ctx, &spec, &options, &m), QKV_ARGUMENT);
    assert_message(ctx, "key_width is 18446744073709551615; it must be from 1 to 1048576");
    options.key_width = 9;
    assert_ok(ctx, qkv_module_create_with(ctx, &spec, &options, &m));
    static float x[B * TM * C], out[B * T * C];
    const struct qkv_vectors y = {out, B, T, C};
    struct qkv_module_input in = {.x = y, .memory = {x, B, TM, 9}};
    static float other[B * T * C];
    const struct qkv_vectors z = {other, B, T, C};
    assert_status(ctx, qkv_module_forward(m, &in, z), QKV_SHAPE);
    assert_message(ctx, "values is (0,0,0); to go with memory and the module's weights it must be (2,5,8)");
    in.memory.C = 8;
    assert_status(ctx, qkv_module_forward(m, &in, z), QKV_SHAPE);
    assert_message(ctx, "memory is (2,5,8); to go with the module's weights it must be (2,5,9)");
    qkv_module_free(m);
    assert_status(ctx, qkv_module_create(ctx, QKV_MODULE_FFN, NULL, 1, &m), QKV_ARGUMENT);
    assert_status(ctx, qkv_module_create(ctx, QKV_MODULE_FFN, &spec, 1, NULL), QKV_ARGUMENT);
    assert_status(NULL, qkv_module_create(NULL, QKV_MODULE_FFN, &spec, 1, &m), QKV_ARGUMENT);
    spec.d_model = 0;
    assert_status(ctx, qkv_module_create(ctx, QKV_MODULE_CROSS_ATTENTION, &spec, 1, &m), QKV_SPEC);
    assert_message(ctx, "d_model is 0");
    spec.d_model = C;
    spec.decoder.kind_of[1] = 200;
    assert_status(ctx, qkv_module_create(ctx, QKV_MODULE_DECODER_BLOCK, &spec, 1, &m), QKV_SPEC);
    spec.decoder.kind_of[1] = 0;
    assert_ok(ctx, qkv_model_create(ctx, &spec, 1, &model));
    static const char *const bad[] = {"decode",
                                      "decoder.",
                                      "decoderlayers.0",
                                      "decoder.layers.2",
                                      "decoder.layers.00",
                                      "decoder.layers.-1",
                                      "decoder.layers.0x",
                                      "decoder.layers.99999999999999999999",
                                      "encoder.layers.0.cross",
                                      "encoder.layers.0.cross_norm",
                                      "decoder.layers.0.attn.q",
                                      "head"};
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        assert_status(ctx, qkv_module_of_model(model, bad[i], &m), QKV_ARGUMENT);
        assert_message(ctx, "this model has no part");
        assert_message(ctx, bad[i]);
        assert_null(m);
    }
    assert_ok(ctx, qkv_model_plan(ctx, &spec, &plan));
    assert_status(ctx, qkv_module_of_model(plan, "", &m), QKV_ARGUMENT);
    assert_message(ctx, "a planned model has no weights");
    qkv_module_free(NULL);
    qkv_model_free(plan);
    qkv_model_free(model);
}

/* ---- tables -------------------------------------------------------------------------------------------------------------- */

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
        cmocka_unit_test(a_module_has_its_own_weights_only),
        cmocka_unit_test(empty_batches_give_empty_results),
        cmocka_unit_test(shapes_that_do_not_agree_are_both_named),
        cmocka_unit_test(what_cannot_be_a_module_is_refused),
        cmocka_unit_test(the_table_of_sinusoids_is_the_papers),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
