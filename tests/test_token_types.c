/* test_token_types: types of tokens in batches, over the random grid: packed, alone and with other rows the same
 * bits, whatever is past lengths; types of 0 equal no types; the gradient of the table by differences; modules as
 * passes; and refusals. The golden case token_types anchors the numbers. */
/* labels: numeric quick */
#include "model_slope.h"

#include <stdlib.h>

/* The sample's types, where its embeddings have any. */
struct typed {
    struct sample s;
    int32_t types[B * T], source_types[B * T];
    bool has, source_has;
};

static bool start_typed(struct typed *t, uint64_t stream, enum topology topology, const struct qkv_context_options *o) {
    memset(t, 0, sizeof *t);
    start(&t->s, stream, topology, o);
    const struct qkv_spec *spec = qkv_model_spec(t->s.model);
    const int types = (topology == ENCODER ? &spec->encoder : &spec->decoder)->embed.types;
    const int source = topology == BOTH ? spec->encoder.embed.types : 0;
    for (size_t n = 0; n < (size_t)B * T; n++) {
        if (types) t->types[n] = (int32_t)qkv_random_below(&t->s.random, (uint64_t)types);
        if (source) t->source_types[n] = (int32_t)qkv_random_below(&t->s.random, (uint64_t)source);
    }
    t->s.batch.types = types ? t->types : NULL;
    t->s.batch.source_types = source ? t->source_types : NULL;
    t->has = types > 1, t->source_has = source > 1;
    return types || source;
}

static size_t pack(const int32_t *from, const int32_t *lengths, int32_t *to, int32_t *cu) {
    size_t n = 0;
    for (size_t b = 0; b < B; b++) {
        cu[b] = (int32_t)n;
        for (size_t t = 0; t < (size_t)lengths[b]; t++) to[n++] = from[b * T + t];
    }
    cu[B] = (int32_t)n;
    return n;
}

/* The rows of a sequence's output that are not padding. */
static void compare_rows(const struct sample *s, const float *one, const float *two, size_t b, size_t from, size_t V) {
    assert_memory_equal(one + from * V, two, (size_t)s->lengths[b] * V * sizeof(float));
}

static void types_are_those_of_the_rows_they_stand_beside(void **state) {
    (void)state;
    size_t tried = 0;
    for (uint64_t i = 0; i < 60; i++) {
        const struct qkv_context_options exact = {.size = sizeof exact, .precision = QKV_FP32};
        struct typed t;
        const bool any = start_typed(&t, 9100 + i, (enum topology)(i % 3), &exact);
        struct sample *s = &t.s;
        if (!any) {
            finish(s);
            continue;
        }
        tried++;
        struct qkv_pass *pass = make_pass(s, false);
        forward(s, pass);
        float *whole = copy_output(pass);
        const size_t V = VOCAB;
        for (size_t b = 0; b < B; b++) /* past the lengths anything may stand */
            for (size_t k = 0; k < T; k++) {
                if (k >= (size_t)s->lengths[b]) t.types[b * T + k] = 99;
                if (k >= (size_t)s->source_lengths[b]) t.source_types[b * T + k] = -3;
            }
        forward(s, pass);
        float *again = copy_output(pass);
        for (size_t b = 0; b < B; b++) compare_rows(s, whole, again + b * T * V, b, b * T, V);
        free(again);
        int32_t ids[B * T], types[B * T], source[B * T], source_types[B * T], cu[B + 1], cu_source[B + 1];
        struct qkv_batch p = {.B = B, .cu_rows = cu, .ids = ids};
        p.rows = pack(s->ids, s->lengths, ids, cu);
        pack(t.types, s->lengths, types, cu);
        if (s->batch.types) p.types = types;
        if (i % 3 == BOTH) {
            p.source = source, p.cu_source = cu_source;
            p.source_rows = pack(s->source, s->source_lengths, source, cu_source);
            pack(t.source_types, s->source_lengths, source_types, cu_source);
            if (s->batch.source_types) p.source_types = source_types;
        }
        assert_ok(s->ctx, qkv_pass_forward(pass, &p));
        const float *packed = qkv_pass_output(pass).data;
        for (size_t b = 0; b < B; b++) compare_rows(s, whole, packed + (size_t)cu[b] * V, b, b * T, V);
        for (size_t b = 0; b < B; b++) { /* and alone */
            struct qkv_batch one = {.B = 1,
                                    .T = T,
                                    .ids = s->ids + b * T,
                                    .lengths = s->lengths + b,
                                    .types = s->batch.types ? t.types + b * T : NULL,
                                    .source_T = T,
                                    .source = s->source + b * T,
                                    .source_lengths = s->source_lengths + b,
                                    .source_types = s->batch.source_types ? t.source_types + b * T : NULL};
            assert_ok(s->ctx, qkv_pass_forward(pass, &one));
            compare_rows(s, whole, qkv_pass_output(pass).data, b, b * T, V);
        }
        free(whole);
        qkv_pass_free(pass);
        finish(s);
    }
    assert_true(tried >= 10);
}

static void types_of_zero_are_those_of_a_batch_without_any(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 24; i++) {
        struct typed t;
        start_typed(&t, 9300 + i, (enum topology)(i % 3), NULL);
        memset(t.types, 0, sizeof t.types), memset(t.source_types, 0, sizeof t.source_types);
        struct qkv_pass *pass = make_pass(&t.s, false);
        forward(&t.s, pass);
        float *given = copy_output(pass);
        t.s.batch.types = t.s.batch.source_types = NULL;
        forward(&t.s, pass);
        assert_memory_equal(given, qkv_pass_output(pass).data, qkv_pass_output(pass).bytes);
        free(given);
        qkv_pass_free(pass);
        finish(&t.s);
    }
}

static double where_the_name_ends_so(const char *name, const void *end) {
    const size_t n = strlen(name), m = strlen(end);
    return n >= m && !strcmp(name + n - m, end);
}

static bool has_weight(struct qkv_model *model, const char *end) {
    for (size_t p = 0; p < qkv_model_parameters(model); p++)
        if (where_the_name_ends_so(qkv_model_parameter(model, p)->name, end) > 0) return true;
    return false;
}

/* Specs are drawn until each weight was in six of them. */
static void gradients_of_embeddings_are_the_slopes_of_the_loss(void **state) {
    (void)state;
    static const char *const ends[] = {".embed.type.weight", ".embed.norm.weight", ".embed.project.weight",
                                       ".embed.project.bias", ".embed.position.weight"};
    const struct qkv_context_options exact = {.size = sizeof exact, .precision = QKV_FP32};
    smooth_only = true;
    for (size_t e = 0; e < TEST_COUNT(ends); e++)
        for (uint64_t i = 0, tried = 0; tried < 6; i++) {
            struct typed t;
            assert_true(i < 2000);
            start_typed(&t, 20000 + 2000 * e + i, (enum topology)(i % 3), &exact);
            if (has_weight(t.s.model, ends[e])) {
                struct qkv_pass *pass = make_pass(&t.s, true), *plain = make_pass(&t.s, false);
                forward(&t.s, pass);
                assert_ok(t.s.ctx, qkv_pass_backward(pass));
                expect_slope(&t.s, plain, where_the_name_ends_so, ends[e], ends[e]);
                qkv_pass_free(plain);
                qkv_pass_free(pass);
                tried++;
            }
            finish(&t.s);
        }
    smooth_only = false;
}

static void what_is_wrong_with_types_is_named(void **state) {
    (void)state;
    for (uint64_t i = 0, done = 0; i < 200 && done < 3; i++) {
        struct typed t;
        start_typed(&t, 9700 + i, BOTH, NULL);
        const struct qkv_spec *spec = qkv_model_spec(t.s.model);
        struct qkv_pass *pass = make_pass(&t.s, false);
        struct qkv_batch batch = t.s.batch;
        if (!spec->decoder.embed.types && spec->encoder.embed.types) {
            done |= 1;
            batch.types = t.types;
            assert_status(t.s.ctx, qkv_pass_forward(pass, &batch), QKV_ARGUMENT);
            assert_message(t.s.ctx, "the batch has types, but the embedding of the decoder has no types");
        } else if (spec->decoder.embed.types) {
            done |= 2;
            t.types[0] = spec->decoder.embed.types;
            assert_status(t.s.ctx, qkv_pass_forward(pass, &batch), QKV_ARGUMENT);
            assert_message(t.s.ctx, "token type");
            assert_message(t.s.ctx, "at place 0 is out of range: decoder.embed.type.weight has");
        }
        qkv_pass_free(pass);
        finish(&t.s);
    }
}

int main(void) {
    latents_too = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_are_those_of_the_rows_they_stand_beside),
        cmocka_unit_test(types_of_zero_are_those_of_a_batch_without_any),
        cmocka_unit_test(gradients_of_embeddings_are_the_slopes_of_the_loss),
        cmocka_unit_test(what_is_wrong_with_types_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
