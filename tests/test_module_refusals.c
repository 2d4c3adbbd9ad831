/* Refusals of modules with their messages, and empty batches. */
/* labels: quick */
#include "module_fixture.h"

/* ---- empty batches ---------------------------------------------------------------------------------------------- */

/* No rows, or rows of no positions: nothing is computed and nothing changes; gradients of what was read are 0. */
static void empty_batches_give_empty_results(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec spec = spec_of(both_stacks);
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

/* ---- refusals --------------------------------------------------------------------------------------------------- */

static void shapes_that_do_not_agree_are_both_named(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec spec = spec_of(both_stacks);
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
    REFUSE(in.values = in.memory, QKV_ARGUMENT, "only cross attention reads them separately");
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
    assert_message(ctx, "dvalues is asked for, but the forward had no such input");
    assert_ok(ctx, qkv_module_backward(m, out, NULL));
    assert_status(ctx, qkv_module_forward(m, NULL, out), QKV_ARGUMENT);
    qkv_module_free(m);
}

static void what_cannot_be_a_module_is_refused(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec spec = spec_of(both_stacks),
                               encoder = spec_of("\"encoder\":{\"layers\":1,\"attention\":{\"heads\":3}}");
    struct qkv_model *model, *plan;
    struct qkv_module *m;
    assert_status(ctx,
                  qkv_module_create(ctx, &encoder,
                                    &QKV_OPTIONS(qkv_module_options, .kind = QKV_MODULE_DECODER_BLOCK, .seed = 1), &m),
                  QKV_ARGUMENT);
    assert_message(ctx, "the spec has no decoder to make the module from");
    assert_null(m);
    assert_status(ctx,
                  qkv_module_create(ctx, &spec,
                                    &QKV_OPTIONS(qkv_module_options, .kind = (enum qkv_module_kind)99, .seed = 1), &m),
                  QKV_ARGUMENT);
    assert_message(ctx, "the kind is 99");
    struct qkv_module_options options = qkv_module_defaults();
    options.kind = QKV_MODULE_DECODER_BLOCK;
    options.value_width = 8;
    assert_status(ctx, qkv_module_create(ctx, &spec, &options, &m), QKV_ARGUMENT);
    assert_message(ctx, "value_width is given, but only cross attention has keys and values of other widths");
    options.kind = QKV_MODULE_CROSS_ATTENTION;
    options.key_width = SIZE_MAX;
    assert_status(ctx, qkv_module_create(ctx, &spec, &options, &m), QKV_ARGUMENT);
    assert_message(ctx, "key_width is 18446744073709551615; it must be from 1 to 1048576");
    options.key_width = 9;
    assert_ok(ctx, qkv_module_create(ctx, &spec, &options, &m));
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
    assert_status(ctx,
                  qkv_module_create(ctx, NULL, &QKV_OPTIONS(qkv_module_options, .kind = QKV_MODULE_FFN, .seed = 1), &m),
                  QKV_ARGUMENT);
    assert_status(
        ctx, qkv_module_create(ctx, &spec, &QKV_OPTIONS(qkv_module_options, .kind = QKV_MODULE_FFN, .seed = 1), NULL),
        QKV_ARGUMENT);
    assert_status(
        NULL, qkv_module_create(NULL, &spec, &QKV_OPTIONS(qkv_module_options, .kind = QKV_MODULE_FFN, .seed = 1), &m),
        QKV_ARGUMENT);
    spec.d_model = 0;
    assert_status(ctx,
                  qkv_module_create(
                      ctx, &spec, &QKV_OPTIONS(qkv_module_options, .kind = QKV_MODULE_CROSS_ATTENTION, .seed = 1), &m),
                  QKV_SPEC);
    assert_message(ctx, "d_model is 0");
    spec.d_model = C;
    spec.decoder.kind_of[1] = 200;
    assert_status(ctx,
                  qkv_module_create(ctx, &spec,
                                    &QKV_OPTIONS(qkv_module_options, .kind = QKV_MODULE_DECODER_BLOCK, .seed = 1), &m),
                  QKV_SPEC);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_batches_give_empty_results),
        cmocka_unit_test(shapes_that_do_not_agree_are_both_named),
        cmocka_unit_test(what_cannot_be_a_module_is_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
