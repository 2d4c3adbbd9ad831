/* Forms of blocks: the order of norms, sublayers and the residual stream; and layers that share weights. The golden
 * cases anchor their numbers; here each form is a formula over modules of its parts, and a model whose layers share
 * weights equals one whose layers have copies. */
/* labels: numeric quick */
#include "model_grid.h"
#include "weights.h"

enum { C = 20 };

/* ---- formulas --------------------------------------------------------------------------------------------------- */

struct layer {
    struct sample s;
    struct qkv_random r;
    const struct qkv_layer_spec *spec;
    bool cross;
    struct qkv_vectors memory;
};

static struct qkv_vectors vectors_of(struct qkv_random *r, size_t width) {
    struct qkv_vectors v = {.B = B, .T = T, .C = width, .data = malloc(B * T * width * sizeof(float))};
    test_fill(r, v.data, B * T * width, 1);
    return v;
}

/* The part of the first layer of the decoder that is called so: x to y. */
static void apply(struct layer *l, const char *part, struct qkv_vectors x, struct qkv_vectors y) {
    char name[64];
    struct qkv_module *m;
    snprintf(name, sizeof name, "decoder.layers.0%s%s", *part ? "." : "", part);
    assert_ok(l->s.ctx, qkv_module_of_model(l->s.model, name, &m));
    struct qkv_module_input in = {.x = x};
    if (!strcmp(part, "cross") || (!*part && l->cross)) in.memory = l->memory;
    assert_ok(l->s.ctx, qkv_module_forward(m, &in, y));
    qkv_module_free(m);
}

static void copy(struct qkv_vectors to, struct qkv_vectors from) {
    memcpy(to.data, from.data, B * T * C * sizeof(float));
}

/* y += scale·f */
static void add(struct layer *l, struct qkv_vectors y, struct qkv_vectors f) {
    for (size_t i = 0; i < (size_t)B * T * C; i++) y.data[i] += (float)(l->spec->residual_scale * (double)f.data[i]);
}

/* y = norm(x), where the sublayer has it; else x. */
static void norm(struct layer *l, const char *sublayer, const char *which, struct qkv_vectors x, struct qkv_vectors y) {
    char name[32];
    const bool none = !strcmp(sublayer, "attn") && !l->spec->norm.attention;
    snprintf(name, sizeof name, "%s_%s", sublayer, which);
    if (none)
        copy(y, x);
    else
        apply(l, name, x, y);
}

/* The layer's formula: x to y. h and f are room. */
static void formula(struct layer *l, struct qkv_vectors x, struct qkv_vectors y, struct qkv_vectors h,
                    struct qkv_vectors f) {
    static const char *const sublayers[] = {"attn", "cross", "ffn"};
    copy(y, x);
    for (size_t i = 0; i < 3; i++) {
        const char *name = sublayers[i];
        if ((i == 1 && !l->cross) || (i == 0 && l->cross && l->spec->cross_only)) continue;
        switch (l->spec->norm.placement) {
        case QKV_PLACEMENT_PRE:
            norm(l, name, "norm", y, h), apply(l, name, h, f), add(l, y, f);
            break;
        case QKV_PLACEMENT_POST:
            apply(l, name, y, f), add(l, y, f), norm(l, name, "norm", y, h), copy(y, h);
            break;
        case QKV_PLACEMENT_SANDWICH:
            norm(l, name, "norm", y, h), apply(l, name, h, f), norm(l, name, "out_norm", f, h), add(l, y, h);
            break;
        case QKV_PLACEMENT_OUTPUT:
            apply(l, name, y, f), norm(l, name, "norm", f, h), add(l, y, h);
            break;
        case QKV_PLACEMENT_PARALLEL:
            norm(l, "attn", "norm", x, h), apply(l, name, h, f), add(l, y, f);
            break;
        case QKV_PLACEMENT_PARALLEL_TWO:
            norm(l, name, "norm", x, h), apply(l, name, h, f), add(l, y, f);
            break;
        default:
            fail_msg("a form without a formula here");
        }
    }
}

/* Models are drawn: 36 at least, and until each form was among them. */
static void a_block_is_its_formula(void **state) {
    (void)state;
    size_t seen[QKV_PLACEMENT_COUNT] = {0}, forms = 0;
    for (uint64_t stream = 0; stream < 36 || forms < QKV_PLACEMENT_COUNT; stream++) {
        struct layer l = {.r = test_random(500 + stream), .cross = stream % 2};
        struct qkv_context_options options = {.size = sizeof options,
                                              .precision = QKV_FP32}; /* of two ways to round none is right */
        start(&l.s, 600 + stream, l.cross ? BOTH : DECODER, &options);
        l.spec = qkv_stack_layer(&qkv_model_spec(l.s.model)->decoder, 0);
        if (!seen[l.spec->norm.placement]++) forms++;
        assert_true(stream < 1000);
        struct qkv_vectors v[5];
        for (size_t i = 0; i < 5; i++) v[i] = vectors_of(&l.r, C);
        const struct qkv_spec *spec = qkv_model_spec(l.s.model);
        l.memory = vectors_of(&l.r, (size_t)qkv_stack_width(spec, &spec->encoder)); /* which has a width of its own */
        apply(&l, "", v[0], v[1]);
        formula(&l, v[0], v[2], v[3], v[4]);
        test_floats_close(v[2].data, v[1].data, (size_t)B * T * C, 2e-5, "the block", __FILE__, __LINE__);
        for (size_t i = 0; i < 5; i++) free(v[i].data);
        free(l.memory.data);
        finish(&l.s);
    }
}

/* ---- layers that share weights ---------------------------------------------------------------------------------- */

static size_t parameter_named(struct qkv_model *model, const char *name) {
    size_t i = 0;
    while (i < qkv_model_parameters(model) && strcmp(qkv_model_parameter(model, i)->name, name)) i++;
    assert_true(i < qkv_model_parameters(model));
    return i;
}

/* The number of the weight that a copy is of: in layer N of a stack that of the first layer of N's group. */
static size_t original_of(struct qkv_model *shared, const char *name) {
    const struct qkv_spec *spec = qkv_model_spec(shared);
    const struct qkv_stack_spec *stack = name[0] == 'e' ? &spec->encoder : &spec->decoder;
    char stem[16], rest[64], original[96];
    size_t layer;
    if (sscanf(name, "%15[a-z].layers.%zu.%63s", stem, &layer, rest) != 3) return parameter_named(shared, name);
    snprintf(original, sizeof original, "%s.layers.%zu.%s", stem, qkv_stack_weights_of(stack, layer), rest);
    return parameter_named(shared, original);
}

/* The gradient of a weight is the sum of those of its copies, within 1e-5 of the largest of all: some are 0 except
 * for rounding. */
static void same_gradients(struct qkv_model *shared, struct qkv_model *copies) {
    double largest = 0, worst = 0;
    for (size_t i = 0; i < qkv_model_parameters(shared); i++) {
        const size_t n = qkv_array_elements(qkv_model_parameter(shared, i));
        double *sum = calloc(n, sizeof *sum);
        for (size_t k = 0; k < qkv_model_parameters(copies); k++) {
            if (original_of(shared, qkv_model_parameter(copies, k)->name) != i) continue;
            for (size_t e = 0; e < n; e++) sum[e] += (double)test_gradient(copies, k)[e];
        }
        for (size_t e = 0; e < n; e++) {
            largest = fmax(largest, fabs(sum[e]));
            worst = fmax(worst, fabs(sum[e] - (double)test_gradient(shared, i)[e]));
        }
        free(sum);
    }
    assert_true(largest > 0 && worst <= 1e-5 * largest);
}

static void shared_layers_are_layers_with_copied_weights(void **state) {
    (void)state;
    size_t found = 0;
    for (uint64_t stream = 0; stream < 36; stream++) {
        struct sample s;
        start(&s, 900 + stream, (enum topology)(stream % 3), NULL);
        OWNED_SPEC struct qkv_spec apart = test_model_spec(s.model);
        struct qkv_model *shared = s.model, *copies;
        const bool shares = apart.encoder.share || apart.decoder.share;
        found += shares;
        apart.encoder.share = apart.decoder.share = 0;
        if (!shares) {
            finish(&s);
            continue;
        }
        assert_ok(s.ctx, qkv_model_create(s.ctx, &apart, 1, &copies));
        assert_true(qkv_model_parameters(copies) > qkv_model_parameters(shared));
        for (size_t i = 0; i < qkv_model_parameters(copies); i++) {
            const struct qkv_array *to = qkv_model_parameter(copies, i);
            const struct qkv_array *from = qkv_model_parameter(shared, original_of(shared, to->name));
            assert_true(from->bytes == to->bytes);
            memcpy(test_weights_mutable(copies, i), from->data, from->bytes);
        }
        struct qkv_pass *pass = make_pass(&s, true);
        const double loss = forward(&s, pass);
        assert_ok(s.ctx, qkv_pass_backward(pass));
        qkv_pass_free(pass);
        s.model = copies;
        pass = make_pass(&s, true);
        assert_true(forward(&s, pass) == loss);
        assert_ok(s.ctx, qkv_pass_backward(pass));
        qkv_pass_free(pass);
        same_gradients(shared, copies);
        qkv_model_free(copies);
        s.model = shared;
        finish(&s);
    }
    assert_true(found > 2);
}

static void weights_count_once_and_work_for_every_layer(void **state) {
    (void)state;
    static const char json[] =
        "{\"format\":\"qkv\",\"version\":1,\"vocab\":9,\"d_model\":8,\"context\":9,\"decoder\":{\"layers\":6,"
        "\"attention\":{\"heads\":2}}}";
    static const char *const share[] = {"decoder.share=2"}, *const layers[] = {"decoder.layers=2"};
    struct qkv_context *ctx;
    OWNED_SPEC struct qkv_spec apart = {0}, shared = {0}, two = {0};
    struct qkv_costs all, some, few;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    assert_ok(ctx, qkv_spec_parse(ctx, &apart, "six", json, strlen(json), NULL, 0));
    assert_ok(ctx, qkv_spec_parse(ctx, &shared, "six", json, strlen(json), share, 1));
    assert_ok(ctx, qkv_spec_parse(ctx, &two, "two", json, strlen(json), layers, 1));
    assert_ok(ctx, qkv_measure_costs(ctx, &apart, 2, 9, &all));
    assert_ok(ctx, qkv_measure_costs(ctx, &shared, 2, 9, &some));
    assert_ok(ctx, qkv_measure_costs(ctx, &two, 2, 9, &few));
    assert_true(some.parameters == few.parameters && some.parameter_bytes == few.parameter_bytes);
    assert_true(some.forward_flops == all.forward_flops && some.train_flops == all.train_flops);
    assert_true(some.page_bytes == all.page_bytes && some.page_bytes > few.page_bytes);
    qkv_context_free(ctx);
}

static void groups_have_their_layers(void **state) {
    (void)state;
    for (int layers = 1; layers < 30; layers++) {
        for (int groups = 0; groups <= layers; groups++) {
            const struct qkv_stack_spec stack = {.layers = layers, .share = groups};
            for (int i = 0; i < layers; i++) {
                int first = i;
                while (groups && first > 0 && (first - 1) * groups / layers == i * groups / layers) first--;
                assert_int_equal(qkv_stack_weights_of(&stack, (size_t)i), first);
            }
        }
    }
}

/* ---- what cannot be --------------------------------------------------------------------------------------------- */

#define KINDS                                                                                                          \
    "{\"format\":\"qkv\",\"version\":2,\"vocab\":9,\"d_model\":8,\"context\":9,\"decoder\":{\"layers\":4,"             \
    "\"attention\":{\"heads\":2},\"kinds\":{\"near\":{\"attention\":{\"window\":2}},\"far\":{}},"                      \
    "\"pattern\":[\"near\",\"near\",\"far\",\"far\"]}}"

static void what_cannot_be_is_refused_by_key_and_value(void **state) {
    (void)state;
    static const struct {
        const char *setting, *message; /* NULL: it can be */
    } cases[] = {
        {"decoder.share=2", NULL},
        {"decoder.share=4", NULL},
        {"decoder.share=1", "decoder.share is 1, so layer 2 has the weights of layer 0, but is of the kind \"far\""},
        {"decoder.share=3", NULL},
        {"decoder.share=5", "decoder.share is 5, but there are 4 layers"},
        {"decoder.share=-1", "decoder.share is -1; it must be a whole number from 0 to 1000"},
        {"decoder.norm.attention=false", NULL},
        {"decoder.norm.placement=side", "pre, post, sandwich, output, parallel, parallel_two"},
        {"decoder.residual_scale=0", "decoder.residual_scale is 0; it must be a number other than 0"},
        {"decoder.residual_scale=0.22", NULL},
        {"decoder.kinds.far.residual_scale=3", NULL},
        {"residual_scale=3", "did you mean decoder.residual_scale?"},
    };
    struct qkv_context *ctx;
    OWNED_SPEC struct qkv_spec spec = {0};
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        qkv_spec_free(&spec);
        const enum qkv_status status =
            qkv_spec_parse(ctx, &spec, "kinds", KINDS, strlen(KINDS), (const char *const[]){cases[i].setting}, 1);
        if (!cases[i].message) {
            assert_ok(ctx, status);
            continue;
        }
        assert_int_equal(status, QKV_SPEC);
        if (!strstr(qkv_message(ctx), cases[i].message)) fail_msg("%s: %s", cases[i].setting, qkv_message(ctx));
    }
    const char *const both[] = {"decoder.norm.attention=false", "decoder.norm.placement=parallel"};
    qkv_spec_free(&spec);
    assert_int_equal(qkv_spec_parse(ctx, &spec, "kinds", KINDS, strlen(KINDS), both, 2), QKV_SPEC);
    assert_non_null(strstr(qkv_message(ctx), "norm.attention is false"));
    qkv_context_free(ctx);
}

int main(void) {
    latents_too = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_is_its_formula),
        cmocka_unit_test(shared_layers_are_layers_with_copied_weights),
        cmocka_unit_test(weights_count_once_and_work_for_every_layer),
        cmocka_unit_test(groups_have_their_layers),
        cmocka_unit_test(what_cannot_be_is_refused_by_key_and_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
