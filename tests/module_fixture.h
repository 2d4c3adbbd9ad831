/* module_fixture.h: shared by the tests of modules: a context, specs, modules with random weights. Header-only. */
#ifndef QKV_MODULE_FIXTURE_H
#define QKV_MODULE_FIXTURE_H

#include "test.h"

#include "qkv.h"
#include "weights.h"

enum { B = 2, T = 6, TM = 5, C = 12, H = 3, VOCAB = 11 };

static struct qkv_context *ctx;

/* In fp32 whatever the environment says: differences of outputs need its digits. */
static int setup(void **state) {
    (void)state;
    struct qkv_context_options options = {.size = sizeof options, .precision = QKV_FP32};
    return (int)qkv_context_create(&ctx, &options);
}

static int teardown(void **state) {
    (void)state;
    qkv_context_free(ctx);
    return 0;
}

static struct qkv_spec spec_of(const char *more) {
    char json[1024];
    struct qkv_spec spec = {0};
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
    assert_ok(ctx, qkv_module_create(ctx, spec, &QKV_OPTIONS(qkv_module_options, .kind = kind, .seed = 7), &m));
    struct qkv_random r = test_random(900);
    for (size_t i = 0; i < qkv_module_parameters(m); i++)
        test_fill(&r, test_module_weights(m, i), qkv_array_elements(qkv_module_parameter(m, i)), 0.3);
    return m;
}

#endif
