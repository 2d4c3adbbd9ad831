/* Changes that must not change a bit of an attention module's output: caches, the other rows, the number of threads. */
/* labels: quick */
#include "attention_module_case.h"

/* The T queries from `from` on, in a batch of their own. */
static struct qkv_module_input part(struct sample *s, float *x, size_t from, size_t T, size_t Tk) {
    struct qkv_module_input in = s->in;
    struct qkv_module_mask *mask = mask_of(s, &in);
    size_t width = (size_t)s->spec->in;
    for (size_t b = 0; b < s->B; b++)
        memcpy(x + b * T * width, s->x + (b * s->T + from) * width, T * width * sizeof(float));
    in.x.T = T;
    in.x.data = x;
    if (mask->bias) { /* a window into the whole one */
        mask->bias += from * s->Tk;
        mask->bias_shape = (struct qkv_pair_shape){
            .B = s->B, .H = 1, .Tq = T, .Tk = Tk, .batch = s->T * s->Tk, .head = 0, .row = s->Tk};
    }
    return in;
}

static void test_cache(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 80; i++) {
        struct sample s = {.random = test_random(1000 + i)};
        struct qkv_module_cache *cache;
        struct qkv_attention_module_spec spec = random_spec(&s.random, false);
        spec.attention.causal = true;
        assert_int_equal(qkv_context_create(&s.ctx, NULL), QKV_OK);
        make(&s, &spec, test_between(&s.random, 1, 3), test_between(&s.random, 1, 11), 0);
        size_t B = s.B, T = s.T, out = (size_t)s.spec->out;
        if (coin(&s.random)) {
            s.mask->bias = s.bias = floats(&s, B * T * T);
            s.mask->bias_shape = (struct qkv_pair_shape){.B = B, .H = 1, .Tq = T, .Tk = T};
        }
        assert_ok(s.ctx, forward(&s, &s.in, s.y));
        assert_ok(s.ctx, qkv_module_cache_create(s.module, B, T + test_between(&s.random, 0, 3), 0, &cache));
        float *x = floats(&s, B * T * (size_t)s.spec->in), *y = floats(&s, B * T * out);
        for (size_t t = 0; t < T;) {
            size_t n = test_between(&s.random, 1, T - t < 4 ? T - t : 4);
            struct qkv_module_input in = part(&s, x, t, n, t + n);
            in.cache = cache;
            assert_ok(s.ctx, forward(&s, &in, y));
            t += n;
            assert_int_equal(qkv_module_cache_length(cache), t);
            for (size_t b = 0; b < B; b++)
                assert_memory_equal(y + b * n * out, s.y + (b * T + t - n) * out, n * out * sizeof(float));
            if (qkv_random_below(&s.random, 4) == 0) qkv_module_cache_truncate(cache, t = t / 2);
        }
        free(x);
        free(y);
        qkv_module_cache_free(cache);
        finish(&s);
    }
}

/* The memory of cross attention is projected once; then it need not be there any more. */
static void test_cross_cache(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 60; i++) {
        struct sample s = {.random = test_random(1200 + i)};
        struct qkv_module_cache *cache;
        struct qkv_attention_module_spec spec = random_spec(&s.random, true);
        assert_int_equal(qkv_context_create(&s.ctx, NULL), QKV_OK);
        make(&s, &spec, test_between(&s.random, 1, 3), test_between(&s.random, 1, 11), test_between(&s.random, 1, 11));
        size_t B = s.B, T = s.T, out = (size_t)s.spec->out;
        for (size_t b = 0; b < B; b++) s.lengths[b] = (int32_t)test_between(&s.random, 0, s.Tk);
        s.mask->mask.lengths = s.lengths;
        assert_ok(s.ctx, forward(&s, &s.in, s.y));
        assert_ok(s.ctx, qkv_module_cache_create(s.module, B, 0, s.Tk + 2, &cache));
        float *x = floats(&s, B * T * (size_t)s.spec->in), *y = floats(&s, B * T * out);
        for (size_t t = 0; t < T;) {
            size_t n = test_between(&s.random, 1, T - t);
            struct qkv_module_input in = part(&s, x, t, n, s.Tk);
            in.cache = cache;
            in.cross.mask.offset = (int64_t)t;
            if (t) {
                in.memory = qkv_vectors_defaults();
                memset(s.memory, 0xff, B * s.Tk * (size_t)s.spec->kv_in * sizeof(float));
            }
            assert_ok(s.ctx, forward(&s, &in, y));
            assert_int_equal(qkv_module_cache_length(cache), s.Tk);
            for (size_t b = 0; b < B; b++)
                assert_memory_equal(y + b * n * out, s.y + (b * T + t) * out, n * out * sizeof(float));
            t += n;
        }
        free(x);
        free(y);
        qkv_module_cache_free(cache);
        finish(&s);
    }
}

static void test_rows(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 60; i++) {
        struct sample s;
        start(&s, 1400 + i, i % 2, 0);
        size_t B = s.B, T = s.T, out = (size_t)s.spec->out, b = qkv_random_below(&s.random, B);
        for (size_t k = 0; k < B; k++) s.lengths[k] = (int32_t)test_between(&s.random, 0, s.Tk);
        s.mask->mask.lengths = s.lengths;
        assert_ok(s.ctx, forward(&s, &s.in, s.y));
        struct qkv_module_input one = s.in;
        one.x.B = one.memory.B = 1;
        one.x.data += b * T * one.x.C;
        if (one.memory.data) one.memory.data += b * s.Tk * one.memory.C;
        if (!one.memory.data) one.memory = qkv_vectors_defaults();
        mask_of(&s, &one)->mask.lengths = s.lengths + b;
        float *alone = floats(&s, T * out);
        assert_ok(s.ctx, forward(&s, &one, alone));
        assert_memory_equal(alone, s.y + b * T * out, T * out * sizeof(float));
        free(alone);
        finish(&s);
    }
}

static void test_threads(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 30; i++) {
        struct sample each[2];
        for (int k = 0; k < 2; k++) {
            struct sample *s = &each[k];
            start(s, 1600 + i, i % 2, k ? 5 : 1);
            train(s);
        }
        struct sample *a = &each[0], *b = &each[1];
        assert_memory_equal(a->y, b->y, outputs(a) * sizeof(float));
        assert_memory_equal(a->dx, b->dx, a->B * a->T * (size_t)a->spec->in * sizeof(float));
        for (size_t p = 0; p < qkv_module_parameters(a->module); p++)
            assert_memory_equal(gradient_of(a->module, p), gradient_of(b->module, p),
                                qkv_module_parameter(a->module, p)->bytes);
        finish(a);
        finish(b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cache),
        cmocka_unit_test(test_cross_cache),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
