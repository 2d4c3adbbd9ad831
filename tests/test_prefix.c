/* test_prefix.c: rows whose first positions see one another in both directions (prefix-LM), over the grid of specs:
 * against models that are not causal, which the golden cases anchor, against the mask written out, and by
 * properties. */
/* labels: numeric quick */
#include "model_slope.h"
#include "weights.h"

#include "model/spec.h"

#include <math.h>

/* In fp32: differences of losses are compared. */
static const struct qkv_context_options exact = {.size = sizeof exact, .threads = 1, .precision = QKV_FP32};
/* In the precision of the environment. */
static const struct qkv_context_options usual = {.size = sizeof usual, .threads = 1, .precision = QKV_PRECISION_AUTO};

struct prefixed {
    struct sample s;
    int32_t prefix[B];
};

static void prefixed_start(struct prefixed *p, uint64_t stream, const struct qkv_context_options *options) {
    start(&p->s, stream, DECODER, options);
    for (size_t b = 0; b < B; b++) p->prefix[b] = (int32_t)test_between(&p->s.random, 0, (size_t)p->s.lengths[b]);
    p->s.batch.prefix = p->prefix;
}

static struct qkv_pass *prefix_pass(struct sample *s, struct qkv_model *model, struct qkv_pass_options o) {
    struct qkv_pass *pass;
    o.B = B, o.T = T;
    if (qkv_pass_create(model, &o, &pass)) fail_msg("%s", qkv_message(s->ctx));
    return pass;
}

/* The same weights, and no kind of layer is causal. */
static struct qkv_model *both_directions(struct sample *s) {
    OWNED_SPEC struct qkv_spec spec = test_model_spec(s->model);
    for (int i = 0; i < spec.decoder.kind_count; i++) spec.decoder.kinds[i].attention.causal = false;
    return model_like(s, &spec);
}

/* Positions of the prefix have the scores of the prefix alone in a model that is not causal; windows stay as they
 * are. */
static void a_prefix_is_what_it_is_without_causal(void **state) {
    (void)state;
    size_t tried = 0;
    for (uint64_t i = 0; i < 1000 && tried < 40; i++) {
        struct prefixed p;
        prefixed_start(&p, i < 40 ? i : 1000 + i, &usual);
        if (has_buckets(&qkv_model_spec(p.s.model)->decoder)) {
            finish(&p.s);
            continue;
        }
        tried++;
        struct qkv_model *other = both_directions(&p.s);
        struct qkv_pass *pass = prefix_pass(&p.s, p.s.model, QKV_OPTIONS(qkv_pass_options, .logits = true));
        struct qkv_pass *whole = prefix_pass(&p.s, other, QKV_OPTIONS(qkv_pass_options, .logits = true));
        p.s.batch.length = T; /* rotations that go by lengths are the same in both */
        forward(&p.s, pass);
        const struct qkv_batch batch = {.B = B, .T = T, .ids = p.s.ids, .lengths = p.prefix, .length = T};
        if (qkv_pass_forward(whole, &batch)) fail_msg("%s", qkv_message(p.s.ctx));
        const float *mine = qkv_pass_output(pass).data, *others = qkv_pass_output(whole).data;
        for (size_t b = 0; b < B; b++)
            for (size_t n = 0; n < (size_t)p.prefix[b] * VOCAB; n++)
                if (!(fabsf(mine[b * T * VOCAB + n] - others[b * T * VOCAB + n]) <= 1e-4F))
                    fail_msg("case %d: row %zu, position %zu: %g, not %g", (int)i, b, n / VOCAB,
                             (double)mine[b * T * VOCAB + n], (double)others[b * T * VOCAB + n]);
        qkv_pass_free(pass), qkv_pass_free(whole);
        qkv_model_free(other);
        finish(&p.s);
    }
    assert_int_equal(tried, 40);
}

/* Every head of every layer gives weight to the keys of the written-out mask and to no others. */
static void attention_has_the_mask_of_its_prefix(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 30; i++) {
        struct prefixed p;
        struct qkv_array attention;
        uint8_t dense[B * T * T];
        float scores[T * T];
        prefixed_start(&p, 100 + i, &usual);
        struct qkv_pass *pass = prefix_pass(&p.s, p.s.model, QKV_OPTIONS(qkv_pass_options, .weights = true));
        forward(&p.s, pass);
        for (size_t a = 0; qkv_pass_attention(pass, a, &attention); a++) {
            const struct qkv_layer_spec *kind = qkv_stack_layer(&qkv_model_spec(p.s.model)->decoder, a);
            const struct qkv_mask mask = {.B = B,
                                          .Tq = T,
                                          .Tk = T,
                                          .causal = true,
                                          .lengths = p.s.lengths,
                                          .prefix = p.prefix,
                                          .window = kind->attention.window};
            const size_t chunk = kind->attention.chunk ? (size_t)kind->attention.chunk : T;
            assert_int_equal(qkv_mask_dense(p.s.ctx, &mask, dense), QKV_OK);
            for (size_t n = 0; n < (size_t)B * T * T; n++)
                if (n / T % T / chunk != n % T / chunk) dense[n] = 0;
            for (size_t b = 0; b < B; b++) {
                assert_int_equal(qkv_pass_weights(pass, a, QKV_ATTENTION_SCORES, b, 1, 0, T, scores), QKV_OK);
                for (size_t n = 0; n < (size_t)T * T; n++) /* past the length there is no query */
                    if ((dense[b * T * T + n] && (int64_t)(n / T) < p.s.lengths[b]) != (scores[n] > -INFINITY))
                        fail_msg("case %d: %s, row %zu: query %zu and key %zu", (int)i, attention.name, b, n / T,
                                 n % T);
            }
        }
        qkv_pass_free(pass);
        finish(&p.s);
    }
}

static void what_comes_later_changes_no_score_and_a_prefix_changes_all_of_itself(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 40; i++) {
        struct prefixed p;
        bool window = false;
        prefixed_start(&p, 200 + i, &exact);
        const struct qkv_stack_spec *stack = &qkv_model_spec(p.s.model)->decoder;
        for (int k = 0; k < stack->kind_count; k++)
            window |= stack->kinds[k].attention.window || stack->kinds[k].attention.chunk;
        struct qkv_pass *pass = prefix_pass(&p.s, p.s.model, QKV_OPTIONS(qkv_pass_options, .logits = true));
        forward(&p.s, pass);
        float *before = copy_output(pass);
        const size_t open = (size_t)p.prefix[0], at = (size_t)qkv_random_below(&p.s.random, T);
        p.s.ids[at] = (p.s.ids[at] + 1) % VOCAB;
        forward(&p.s, pass);
        const float *after = qkv_pass_output(pass).data;
        for (size_t t = 0; t < T; t++) {
            const bool same = !memcmp(before + t * VOCAB, after + t * VOCAB, VOCAB * sizeof *after);
            if (t < at && (at >= open || t >= open) && !same) fail_msg("case %d: position %zu saw %zu", (int)i, t, at);
            if (t < open && at < open && same && !window)
                fail_msg("case %d: position %zu of a prefix of %zu did not see %zu", (int)i, t, open, at);
        }
        assert_memory_equal(before + (size_t)T * VOCAB, after + (size_t)T * VOCAB, (B - 1) * T * VOCAB * sizeof *after);
        free(before);
        qkv_pass_free(pass);
        finish(&p.s);
    }
}

static void gradients_are_slopes_of_the_loss(void **state) {
    (void)state;
    smooth_only = true;
    for (uint64_t i = 0; i < 12; i++) {
        struct prefixed p;
        prefixed_start(&p, 300 + i, &exact);
        struct qkv_pass *pass = prefix_pass(&p.s, p.s.model, QKV_OPTIONS(qkv_pass_options, .train = true));
        struct qkv_pass *plain = prefix_pass(&p.s, p.s.model, qkv_pass_defaults());
        forward(&p.s, pass);
        assert_ok(p.s.ctx, qkv_pass_backward(pass));
        expect_slope(&p.s, plain, walk_all, NULL, "all weights");
        qkv_pass_free(plain);
        qkv_pass_free(pass);
        finish(&p.s);
    }
    smooth_only = false;
}

/* A model whose spec has a prefix, with the weights of the sample's. */
static struct qkv_model *prompted_model(struct sample *s) {
    OWNED_SPEC struct qkv_spec spec = test_model_spec(s->model);
    struct qkv_model *model;
    spec.prefix = true;
    assert_int_equal(qkv_model_create(s->ctx, &spec, 1, &model), QKV_OK);
    for (size_t i = 0; i < qkv_model_parameters(model); i++)
        memcpy(test_weights_mutable(model, i), test_weights(s->model, i),
               qkv_array_elements(qkv_model_parameter(model, i)) * sizeof(float));
    return model;
}

static void assert_scores(const float *mine, const float *expected, size_t case_, size_t at) {
    for (size_t n = 0; n < VOCAB; n++)
        if (!(fabsf(mine[n] - expected[n]) <= 2e-4F))
            fail_msg("case %zu, position %zu: %g, not %g", case_, at, (double)mine[n], (double)expected[n]);
}

/* The first tokens of a session are its prefix; token by token, it gives the scores of one pass over all with that
 * prefix; and again after it was emptied. */
static void a_session_reads_its_prompt_in_both_directions(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 24; i++) {
        struct prefixed p;
        prefixed_start(&p, 600 + i, &exact);
        struct qkv_model *model = prompted_model(&p.s);
        struct qkv_pass *pass = prefix_pass(&p.s, model, QKV_OPTIONS(qkv_pass_options, .logits = true));
        const size_t prompt = (size_t)test_between(&p.s.random, 1, T);
        p.prefix[0] = (int32_t)prompt;
        forward(&p.s, pass);
        const float *expected = qkv_pass_output(pass).data;
        struct qkv_session *session = make_session(model, T);
        for (int again = 0; again < 2; again++) {
            assert_int_equal(qkv_session_append(session, p.s.ids, prompt), QKV_OK);
            assert_scores(qkv_session_logits(session), expected + (prompt - 1) * VOCAB, i, prompt - 1);
            for (size_t t = prompt; t < T; t++) {
                assert_int_equal(qkv_session_append(session, p.s.ids + t, 1), QKV_OK);
                assert_scores(qkv_session_logits(session), expected + t * VOCAB, i, t);
            }
            qkv_session_truncate(session, 0);
        }
        qkv_session_free(session);
        qkv_pass_free(pass);
        qkv_model_free(model);
        finish(&p.s);
    }
}

/* A prompt of 700 tokens, more than a decoder takes at once, with others whose rows have the bits that they have
 * alone. */
static void long_prompts_of_several_rows_are_not_cut(void **state) {
    (void)state;
    enum { LONG = 900, ROWS = 3 };
    static const char json[] = "{\"format\": \"qkv\", \"version\": 1, \"vocab\": 23, \"d_model\": 8, \"context\": 900, "
                               "\"prefix\": true, \"position\": {\"kind\": \"learned\"}, \"decoder\": {\"layers\": 2, "
                               "\"attention\": {\"heads\": 2}, \"ffn\": {\"kind\": \"gelu\", \"d_ff\": 16}}}";
    struct qkv_random r = test_random(700);
    const size_t counts[ROWS] = {200, 700, 300};
    int32_t ids[LONG * 2], prefix = 700;
    struct qkv_context *ctx;
    OWNED_SPEC struct qkv_spec spec = {0};
    struct qkv_model *model;
    struct qkv_decoder *decoder;
    struct qkv_pass *pass;
    for (size_t n = 0; n < LONG * 2; n++) ids[n] = (int32_t)qkv_random_below(&r, VOCAB);
    assert_int_equal(qkv_context_create(&ctx, &exact), QKV_OK);
    if (qkv_spec_parse(ctx, &spec, "long", json, sizeof json - 1, NULL, 0)) fail_msg("%s", qkv_message(ctx));
    assert_int_equal(qkv_model_create(ctx, &spec, 3, &model), QKV_OK);
    const struct qkv_decoder_options o = {.size = sizeof o, .rows = ROWS, .chunk = 1};
    assert_int_equal(qkv_decoder_create(model, &o, &decoder), QKV_OK);
    const struct qkv_decoder_input input = {.ids = ids, .counts = counts};
    if (qkv_decoder_append(decoder, &input)) fail_msg("%s", qkv_message(ctx));
    for (size_t row = 0, at = 0; row < ROWS; at += counts[row++]) {
        struct qkv_session *session;
        assert_int_equal(qkv_session_create(model, NULL, &session), QKV_OK);
        assert_int_equal(qkv_session_append(session, ids + at, counts[row]), QKV_OK);
        assert_memory_equal(qkv_session_logits(session), qkv_decoder_logits(decoder) + row * VOCAB,
                            VOCAB * sizeof(float));
        qkv_session_free(session);
    }
    const struct qkv_pass_options po = {.size = sizeof po, .B = 1, .T = 700, .logits = true};
    const struct qkv_batch batch = {.B = 1, .T = 700, .ids = ids + 200, .prefix = &prefix};
    assert_int_equal(qkv_pass_create(model, &po, &pass), QKV_OK);
    assert_int_equal(qkv_pass_forward(pass, &batch), QKV_OK);
    assert_scores(qkv_decoder_logits(decoder) + VOCAB, (const float *)qkv_pass_output(pass).data + 699 * VOCAB, 0, 699);
    qkv_pass_free(pass);
    qkv_decoder_free(decoder);
    qkv_model_free(model);
    qkv_context_free(ctx);
}

/* The key is written only if it is true, so that other specs stay unchanged, and it is part of the digest of
 * weights. */
static void the_spec_says_that_prompts_are_prefixes(void **state) {
    (void)state;
    struct prefixed p;
    char *plain, *prompted;
    prefixed_start(&p, 800, &usual);
    OWNED_SPEC struct qkv_spec spec = test_model_spec(p.s.model), again = {0};
    assert_int_equal(qkv_spec_print(p.s.ctx, &spec, &plain), QKV_OK);
    spec.prefix = true;
    assert_int_equal(qkv_spec_print(p.s.ctx, &spec, &prompted), QKV_OK);
    assert_null(strstr(plain, "prefix"));
    assert_non_null(strstr(prompted, "\"prefix\": true"));
    assert_int_equal(qkv_spec_parse(p.s.ctx, &again, "again", prompted, strlen(prompted), NULL, 0), QKV_OK);
    assert_true(again.prefix);
    qkv_spec_free(&spec);
    assert_int_equal(qkv_spec_preset(p.s.ctx, &spec, "nano-gpt", NULL, 0), QKV_OK); /* needs causal nowhere else */
    spec.vocab = VOCAB, spec.prefix = true, spec.decoder.kinds[0].attention.causal = false;
    assert_int_equal(qkv_spec_check(p.s.ctx, &spec), QKV_SPEC);
    assert_non_null(strstr(qkv_message(p.s.ctx), "prefix is true, but decoder"));
    spec.decoder.kinds[0].attention.causal = true, spec.head.kind = QKV_HEAD_NONE, spec.tie = QKV_TIE_NONE;
    spec.head.bias = false;
    assert_int_equal(qkv_spec_check(p.s.ctx, &spec), QKV_SPEC);
    assert_non_null(strstr(qkv_message(p.s.ctx), "needs a decoder alone with a head of kind lm"));
    qkv_free(plain), qkv_free(prompted);
    finish(&p.s);
}

static void a_prefix_of_nothing_is_none(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 12; i++) {
        struct prefixed p;
        prefixed_start(&p, 400 + i, &usual);
        struct qkv_pass *pass = prefix_pass(&p.s, p.s.model, QKV_OPTIONS(qkv_pass_options, .logits = true));
        memset(p.prefix, 0, sizeof p.prefix);
        if (p.s.lengths[0]) p.prefix[0] = 1;
        forward(&p.s, pass);
        float *mine = copy_output(pass);
        p.s.batch.prefix = NULL;
        forward(&p.s, pass);
        assert_memory_equal(mine, qkv_pass_output(pass).data, qkv_pass_output(pass).bytes);
        free(mine);
        qkv_pass_free(pass);
        finish(&p.s);
    }
}

static void assert_refused(struct sample *s, struct qkv_pass *pass, const char *sentence) {
    assert_int_equal(qkv_pass_forward(pass, &s->batch), QKV_ARGUMENT);
    if (!strstr(qkv_message(s->ctx), sentence)) fail_msg("%s", qkv_message(s->ctx));
}

static void a_prefix_that_makes_no_sense_is_refused(void **state) {
    (void)state;
    struct prefixed p;
    prefixed_start(&p, 500, &usual);
    struct qkv_pass *pass = prefix_pass(&p.s, p.s.model, qkv_pass_defaults());
    p.s.lengths[2] = 6, p.prefix[2] = 7;
    assert_refused(&p.s, pass, "the prefix of batch row 2 is 7, but the row has 0 to 6 positions");
    p.prefix[2] = -1;
    assert_refused(&p.s, pass, "the prefix of batch row 2 is -1");
    p.prefix[2] = 6;
    forward(&p.s, pass);
    qkv_pass_free(pass);
    struct qkv_model *other = both_directions(&p.s);
    pass = prefix_pass(&p.s, other, qkv_pass_defaults());
    assert_refused(&p.s, pass, "attention.causal is false: all positions see one another anyway");
    qkv_pass_free(pass);
    qkv_model_free(other);
    finish(&p.s);
    start(&p.s, 501, BOTH, &usual);
    pass = make_pass(&p.s, false);
    p.s.batch.prefix = p.s.lengths;
    assert_refused(&p.s, pass, "this model has a source for each row");
    qkv_pass_free(pass);
    finish(&p.s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prefix_is_what_it_is_without_causal),
        cmocka_unit_test(attention_has_the_mask_of_its_prefix),
        cmocka_unit_test(what_comes_later_changes_no_score_and_a_prefix_changes_all_of_itself),
        cmocka_unit_test(gradients_are_slopes_of_the_loss),
        cmocka_unit_test(a_session_reads_its_prompt_in_both_directions),
        cmocka_unit_test(long_prompts_of_several_rows_are_not_cut),
        cmocka_unit_test(the_spec_says_that_prompts_are_prefixes),
        cmocka_unit_test(a_prefix_of_nothing_is_none),
        cmocka_unit_test(a_prefix_that_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
