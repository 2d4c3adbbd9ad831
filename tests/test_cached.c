/* test_cached.c: scores of decoders and sessions against those of one pass over the whole sequence, over the grid of
 * specs, in fp32 and in bf16. The bits do not depend on how a sequence is cut, on other sequences of the call, on
 * the number of threads, or on shared pages. The golden cases anchor the pass without a cache. */
/* labels: numeric */
#include "model_grid.h"
#include "weights.h"

#include <math.h>

enum { LONG = 620, LONG_CONTEXT = 700, ROWS = 4 };

static const enum qkv_precision precisions[] = {QKV_FP32, QKV_MIXED_BF16};

/* A model of the grid, its sequences, and the scores of every position of each from a pass over it alone. */
struct world {
    struct sample s;
    bool encoded;
    size_t length[ROWS], source_length[ROWS];
    int32_t *ids[ROWS], source[ROWS][T];
    float *want[ROWS]; /* (length,VOCAB); with latents as a decoder makes them that gets all of it at once */
    float *plain[ROWS];
};

/* In place of the model: one of that context, whose windows are wider where it is long. */
static void world_stretch(struct world *w, int context) {
    OWNED_SPEC struct qkv_spec spec = test_model_spec(w->s.model);
    struct qkv_model *model;
    spec.context = context;
    for (int k = 0; k < spec.decoder.kind_count; k++) {
        struct qkv_attention_spec *attention = &spec.decoder.kinds[k].attention;
        if (attention->share)
            attention->window = spec.decoder.kinds[k - 1].attention.window; /* whose keys it reads */
        else if (attention->window)
            attention->window = (int)test_between(&w->s.random, 1, (size_t)context);
    }
    if (qkv_model_create(w->s.ctx, &spec, 5, &model)) fail_msg("%s", qkv_message(w->s.ctx));
    for (size_t i = 0; i < qkv_model_parameters(model); i++) {
        float *x = test_weights_mutable(model, i);
        const size_t n = qkv_array_elements(qkv_model_parameter(model, i));
        for (size_t k = 0; k < n; k++) x[k] += 0.2F * (float)qkv_random_normal(&w->s.random);
    }
    qkv_model_free(w->s.model);
    w->s.model = model;
}

static struct qkv_pass *world_pass(struct world *w, size_t rows, size_t longest) {
    struct qkv_pass *pass;
    const struct qkv_pass_options o = {.size = sizeof o, .B = rows, .T = longest, .source_T = T, .logits = true};
    if (qkv_pass_create(w->s.model, &o, &pass)) fail_msg("%s", qkv_message(w->s.ctx));
    return pass;
}

/* Sequence i alone, without a cache, its rotations decided for `decided` positions. */
static float *world_alone(struct world *w, const int32_t *ids, size_t length, size_t i, size_t decided) {
    struct qkv_pass *pass = world_pass(w, 1, length);
    const int32_t sources = (int32_t)w->source_length[i];
    const struct qkv_batch batch = {.B = 1,
                                    .T = length,
                                    .length = decided,
                                    .ids = ids,
                                    .source_T = T,
                                    .source = w->source[i],
                                    .source_lengths = &sources};
    assert_ok(w->s.ctx, qkv_pass_forward(pass, &batch));
    float *scores = copy_output(pass);
    qkv_pass_free(pass);
    return scores;
}

/* Whether some attention of the decoder has a latent, so that calls with a cache absorb projections. */
static bool world_absorbs(const struct world *w) {
    const struct qkv_stack_spec *s = &qkv_model_spec(w->s.model)->decoder;
    bool any = false;
    for (int k = 0; k < s->kind_count; k++) any = any || s->kinds[k].attention.latent.given;
    return any;
}

/* The same with a cache, all tokens at once; other sources than that of row i have none. */
static float *world_absorbed(struct world *w, const int32_t *ids, size_t length, size_t i, size_t decided) {
    const int32_t sources = (int32_t)w->source_length[i];
    const size_t row = 0;
    struct qkv_encoded *e = NULL;
    struct qkv_decoder *d;
    size_t *scored = calloc(length, sizeof *scored);
    float *scores = calloc(length * VOCAB, sizeof *scores);
    assert_true(scored && scores);
    for (size_t t = 0; t < length; t++) scored[t] = t;
    if (w->encoded) assert_ok(w->s.ctx, qkv_encode(w->s.model, w->source[i], &sources, 1, T, &e));
    const struct qkv_decoder_options o = {
        .size = sizeof o, .encoded = e, .sources = e ? &row : NULL, .rows = 1, .chunk = length, .lengths = &decided};
    assert_ok(w->s.ctx, qkv_decoder_create(w->s.model, &o, &d));
    const struct qkv_decoder_input in = {.ids = ids, .counts = &length, .scored = scored, .scored_count = length};
    assert_ok(w->s.ctx, qkv_decoder_append(d, &in));
    memcpy(scores, qkv_decoder_logits(d), length * VOCAB * sizeof *scores);
    qkv_decoder_free(d);
    qkv_encoded_free(e);
    free(scored);
    return scores;
}

static float *world_want(struct world *w, const int32_t *ids, size_t length, size_t i, size_t decided) {
    return world_absorbs(w) ? world_absorbed(w, ids, length, i, decided) : world_alone(w, ids, length, i, decided);
}

static void world_start(struct world *w, uint64_t stream, enum qkv_precision precision, int threads, bool longer) {
    *w = (struct world){.encoded = stream % 3 == 2};
    start(&w->s, stream, w->encoded ? BOTH : DECODER,
          &QKV_OPTIONS(qkv_context_options, .threads = threads, .precision = precision));
    if (longer) world_stretch(w, LONG_CONTEXT);
    struct qkv_random *r = &w->s.random;
    for (size_t i = 0; i < ROWS; i++) {
        w->length[i] = longer ? test_between(r, i ? 1 : LONG - 20, LONG) : test_between(r, 1, CONTEXT);
        w->source_length[i] = test_between(r, 1, T);
        w->ids[i] = calloc(LONG_CONTEXT, sizeof *w->ids[i]);
        assert_non_null(w->ids[i]);
        for (size_t t = 0; t < LONG_CONTEXT; t++) w->ids[i][t] = (int32_t)qkv_random_below(r, VOCAB);
        for (size_t t = 0; t < T; t++) w->source[i][t] = (int32_t)qkv_random_below(r, VOCAB);
        w->plain[i] = world_alone(w, w->ids[i], w->length[i], i, w->length[i]);
        w->want[i] = world_want(w, w->ids[i], w->length[i], i, w->length[i]);
    }
}

static void world_finish(struct world *w) {
    for (size_t i = 0; i < ROWS; i++) free(w->ids[i]), free(w->want[i]), free(w->plain[i]);
    finish(&w->s);
}

static void expect_bits(const struct world *w, uint64_t stream, const char *what, size_t row, size_t at,
                        const float *got, const float *want) {
    if (!memcmp(got, want, VOCAB * sizeof *got)) return;
    float apart = 0;
    for (size_t v = 0; v < VOCAB; v++)
        if (fabsf(got[v] - want[v]) > apart) apart = fabsf(got[v] - want[v]);
    fail_msg("model %zu, %s, %d threads: %s: position %zu of row %zu is %g apart", (size_t)stream,
             qkv_context_precision(w->s.ctx) == QKV_FP32 ? "fp32" : "bf16", qkv_context_threads(w->s.ctx), what, at,
             row, (double)apart);
}

/* ---- ways to make the same scores ------------------------------------------------------------------------------- */

/* All rows in one pass without a cache. */
static void in_one_batch(struct world *w, uint64_t stream) {
    int32_t lengths[ROWS], source_lengths[ROWS], *ids = calloc(ROWS * LONG_CONTEXT, sizeof *ids);
    assert_non_null(ids);
    size_t longest = 0;
    for (size_t i = 0; i < ROWS; i++)
        if (w->length[i] > longest) longest = w->length[i];
    for (size_t i = 0; i < ROWS; i++) {
        lengths[i] = (int32_t)w->length[i], source_lengths[i] = (int32_t)w->source_length[i];
        memcpy(ids + i * longest, w->ids[i], longest * sizeof *ids);
    }
    struct qkv_pass *pass = world_pass(w, ROWS, longest);
    const struct qkv_batch batch = {.B = ROWS,
                                    .T = longest,
                                    .ids = ids,
                                    .lengths = lengths,
                                    .source_T = T,
                                    .source = w->source[0],
                                    .source_lengths = source_lengths};
    assert_ok(w->s.ctx, qkv_pass_forward(pass, &batch));
    const float *got = qkv_pass_output(pass).data;
    for (size_t i = 0; i < ROWS; i++)
        for (size_t t = 0; t < w->length[i]; t++)
            expect_bits(w, stream, "in one batch", i, t, got + (i * longest + t) * VOCAB, w->plain[i] + t * VOCAB);
    qkv_pass_free(pass);
    free(ids);
}

static struct qkv_encoded *world_encode(struct world *w) {
    struct qkv_encoded *e = NULL;
    int32_t lengths[ROWS];
    for (size_t i = 0; i < ROWS; i++) lengths[i] = (int32_t)w->source_length[i];
    if (w->encoded) assert_ok(w->s.ctx, qkv_encode(w->s.model, w->source[0], lengths, ROWS, T, &e));
    return e;
}

/* A piece of each row at once, at most `most` tokens of it, or 0 or more of them; scores of all. */
static void in_pieces(struct world *w, uint64_t stream, size_t first, size_t rows, size_t most, bool random) {
    struct qkv_encoded *e = world_encode(w);
    struct qkv_decoder *d;
    size_t sources[ROWS], *scored = calloc(ROWS * LONG_CONTEXT, sizeof *scored), left = 0;
    int32_t *ids = calloc(ROWS * LONG_CONTEXT, sizeof *ids);
    char what[80];
    snprintf(what, sizeof what, "%zu rows in %spieces of %zu", rows, random ? "random " : "", most);
    for (size_t i = 0; i < rows; i++) sources[i] = first + i, left += w->length[first + i];
    const struct qkv_decoder_options o = {.size = sizeof o,
                                          .encoded = e,
                                          .sources = e ? sources : NULL,
                                          .rows = rows,
                                          .chunk = 1,
                                          .lengths = w->length + first};
    assert_ok(w->s.ctx, qkv_decoder_create(w->s.model, &o, &d));
    while (left) {
        size_t counts[ROWS], n = 0;
        for (size_t i = 0; i < rows; i++) {
            const size_t done = qkv_decoder_row_length(d, i), rest = w->length[first + i] - done;
            counts[i] = random ? test_between(&w->s.random, 0, most) : most;
            if (counts[i] > rest) counts[i] = rest;
            memcpy(ids + n, w->ids[first + i] + done, counts[i] * sizeof *ids);
            for (size_t t = 0; t < counts[i]; t++, n++) scored[n] = n;
        }
        const struct qkv_decoder_input in = {.ids = ids, .counts = counts, .scored = scored, .scored_count = n};
        assert_ok(w->s.ctx, qkv_decoder_append(d, &in));
        const float *got = qkv_decoder_logits(d);
        for (size_t i = 0, at = 0; i < rows; i++)
            for (size_t t = qkv_decoder_row_length(d, i) - counts[i]; t < qkv_decoder_row_length(d, i); t++, at++)
                expect_bits(w, stream, what, first + i, t, got + at * VOCAB, w->want[first + i] + t * VOCAB);
        left -= n;
    }
    qkv_decoder_free(d);
    qkv_encoded_free(e);
    free(scored), free(ids);
}

/* Rows that go on from one prefix, in its pages, each with tokens of its own; then they change places as beams do. */
static void in_shared_pages(struct world *w, uint64_t stream, size_t context) {
    struct qkv_encoded *e = world_encode(w);
    struct qkv_decoder *d;
    const size_t sources[ROWS] = {0};
    size_t from[ROWS] = {0}, counts[ROWS] = {w->length[0]}, length = w->length[0];
    int32_t *ids[2][ROWS], next[ROWS];
    assert_ok(w->s.ctx, qkv_decoder_create(w->s.model,
                                           &QKV_OPTIONS(qkv_decoder_options, .encoded = e,
                                                        .sources = e ? sources : NULL, .rows = ROWS, .chunk = 1),
                                           &d));
    assert_ok(w->s.ctx, qkv_decoder_append(d, &(struct qkv_decoder_input){.ids = w->ids[0], .counts = counts}));
    for (size_t i = 0; i < ROWS; i++) {
        for (int k = 0; k < 2; k++) ids[k][i] = calloc(LONG_CONTEXT, sizeof **ids[k]);
        memcpy(ids[0][i], w->ids[0], length * sizeof **ids[0]);
    }
    for (size_t step = 0; step < 3 && length < context; step++) {
        assert_ok(w->s.ctx, qkv_decoder_select(d, from, ROWS));
        for (size_t i = 0; i < ROWS; i++) {
            memcpy(ids[1][i], ids[0][from[i]], length * sizeof **ids[1]);
            next[i] = ids[1][i][length] = (int32_t)qkv_random_below(&w->s.random, VOCAB);
            from[i] = (size_t)qkv_random_below(&w->s.random, ROWS);
        }
        for (size_t i = 0; i < ROWS; i++) memcpy(ids[0][i], ids[1][i], (length + 1) * sizeof **ids[0]);
        length++;
        assert_ok(w->s.ctx, qkv_decoder_step(d, next));
    }
    for (size_t i = 0; i < ROWS && length > counts[0]; i++) {
        float *want = world_want(w, ids[0][i], length, 0, context);
        expect_bits(w, stream, "in shared pages", i, length - 1, qkv_decoder_logits(d) + i * VOCAB,
                    want + (length - 1) * VOCAB);
        free(want);
    }
    for (size_t i = 0; i < ROWS; i++) free(ids[0][i]), free(ids[1][i]);
    qkv_decoder_free(d);
    qkv_encoded_free(e);
}

/* A session, which is cut, shortened and goes on. */
static void in_a_session(struct world *w, uint64_t stream) {
    const size_t n = w->length[0], kept = test_between(&w->s.random, 0, n - 1);
    struct qkv_session *session = make_session(w->s.model, n);
    assert_ok(w->s.ctx, qkv_session_append(session, w->ids[0], n));
    expect_bits(w, stream, "in a session", 0, n - 1, qkv_session_logits(session), w->want[0] + (n - 1) * VOCAB);
    qkv_session_truncate(session, kept);
    for (size_t done = kept, step; done < n; done += step) {
        step = test_between(&w->s.random, 1, n - done);
        assert_ok(w->s.ctx, qkv_session_append(session, w->ids[0] + done, step));
        expect_bits(w, stream, "in a session that was shortened", 0, done + step - 1, qkv_session_logits(session),
                    w->want[0] + (done + step - 1) * VOCAB);
    }
    qkv_session_free(session);
}

static bool world_routes(const struct world *w) {
    const struct qkv_stack_spec *stack = &qkv_model_spec(w->s.model)->decoder;
    for (size_t layer = 0; layer < (size_t)stack->layers; layer++)
        if (qkv_stack_layer(stack, layer)->ffn.experts.given) return true;
    return false;
}

/* A pass without a cache makes the keys and values of all heads, and rounds other numbers on its way. */
static void in_both_forms(struct world *w, uint64_t stream) {
    const bool wide = qkv_context_precision(w->s.ctx) == QKV_FP32;
    if (!wide && world_routes(w)) return; /* a rounding may choose another expert */
    for (size_t i = 0; i < ROWS; i++) {
        double apart = 0, size = 0;
        for (size_t k = 0; k < w->length[i] * VOCAB; k++) {
            const double d = (double)w->want[i][k] - (double)w->plain[i][k];
            apart += d * d;
            size += (double)w->plain[i][k] * (double)w->plain[i][k];
        }
        if (!(sqrt(apart) <= (wide ? 1e-5 : 0.1) * sqrt(size)))
            fail_msg("model %zu, %s: row %zu: absorbed and plain forms are %g of %g apart", (size_t)stream,
                     wide ? "fp32" : "bf16", i, sqrt(apart), sqrt(size));
    }
}

/* ---- tests ------------------------------------------------------------------------------------------------------ */

static void all_ways(struct world *w, uint64_t stream, size_t context) {
    in_one_batch(w, stream);
    in_pieces(w, stream, 0, 1, 1, false);
    in_pieces(w, stream, 0, ROWS, 1, false);
    in_pieces(w, stream, 0, ROWS, 17, false);
    in_pieces(w, stream, 1, 1, context, false);
    in_pieces(w, stream, 0, ROWS, context, false);
    in_pieces(w, stream, 0, ROWS, context > LONG ? 90 : 5, true);
    in_shared_pages(w, stream, context);
    if (!w->encoded) in_a_session(w, stream);
    in_both_forms(w, stream);
}

static void scores_have_the_bits_of_a_pass_over_the_whole_sequence(void **state) {
    (void)state;
    for (uint64_t stream = 0; stream < 36; stream++)
        for (size_t p = 0; p < TEST_COUNT(precisions); p++) {
            struct world w;
            world_start(&w, stream, precisions[p], 1 + (int)(stream % 3), false);
            all_ways(&w, stream, CONTEXT);
            world_finish(&w);
        }
}

/* Longer than a page, a pass and a piece of attention. */
static void long_sequences_do_too(void **state) {
    (void)state;
    for (uint64_t stream = 100; stream < 103; stream++)
        for (size_t p = 0; p < TEST_COUNT(precisions); p++) {
            struct world w;
            world_start(&w, stream, precisions[p], 1 + (int)(stream % 3), true);
            all_ways(&w, stream, LONG_CONTEXT);
            in_pieces(&w, stream, 0, ROWS, 512, false);
            world_finish(&w);
        }
}

static void threads_change_no_bit(void **state) {
    (void)state;
    for (uint64_t stream = 200; stream < 206; stream++)
        for (size_t p = 0; p < TEST_COUNT(precisions); p++) {
            struct world one, more;
            world_start(&one, stream, precisions[p], 1, stream < 202);
            for (int threads = 2; threads <= 3; threads++) {
                world_start(&more, stream, precisions[p], threads, stream < 202);
                for (size_t i = 0; i < ROWS; i++)
                    for (size_t t = 0; t < one.length[i]; t++)
                        expect_bits(&more, stream, "alone", i, t, more.want[i] + t * VOCAB, one.want[i] + t * VOCAB);
                world_finish(&more);
            }
            world_finish(&one);
        }
}

int main(void) {
    latents_too = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_have_the_bits_of_a_pass_over_the_whole_sequence),
        cmocka_unit_test(long_sequences_do_too),
        cmocka_unit_test(threads_change_no_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
