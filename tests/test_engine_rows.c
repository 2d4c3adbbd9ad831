/* Engines over the rows of a decoder, which stay as answers leave them: what another answer has left in a row is gone
 * when the next continues in it. */
/* labels: numeric */
#include "engine_pairs.h"

#include "generate/engine.h"
#include "sequence/pages.h"

enum { ANSWERS = 4, TOKENS = 5, SEEDS = 200, PROMPT = 7, CONTEXT = 64 };

static const char small[] = "{\"format\": \"qkv\", \"version\": 1, \"vocab\": 40, \"d_model\": 32, \"context\": 64, "
                            "\"decoder\": {\"layers\": 1, \"attention\": {\"heads\": 2}, \"ffn\": {\"d_ff\": 32}}}";

/* The tokens of answers to one prompt, and whether all pages of the decoder are free when its rows are emptied. */
struct made {
    int32_t ids[ANSWERS][TOKENS];
    size_t count[ANSWERS];
    bool free;
};

static struct made run(struct qkv_model *model, const struct qkv_generate_options *options) {
    struct qkv_context *ctx = qkv_model_context(model);
    struct qkv_decoder *decoder;
    struct qkv_engine *e;
    struct qkv_prompt prompt = {0};
    struct made made = {.free = false};
    uint64_t id;
    bool busy = true;
    assert_ok(ctx, qkv_prompt_read(model, NULL, 0, options, &prompt));
    assert_ok(
        ctx, qkv_decoder_create(
                 model, &QKV_OPTIONS(qkv_decoder_options, .rows = ANSWERS, .capacity = CONTEXT, .chunk = 1), &decoder));
    assert_ok(ctx, qkv_engine_open_rows(decoder, CONTEXT, &e));
    const struct qkv_engine_prompt all = {.prompt = &prompt, .options = options, .answers = ANSWERS};
    assert_ok(ctx, qkv_engine_submit_prompt(e, &all, &id));
    while (busy) {
        struct qkv_engine_told *told;
        assert_ok(ctx, qkv_engine_step(e, &busy));
        while ((told = qkv_engine_take(e))) {
            const struct qkv_engine_event *event = &told->event;
            if (event->token.id >= 0) made.ids[event->answer][made.count[event->answer]++] = event->token.id;
            qkv_engine_told_drop(e, told);
        }
    }
    qkv_engine_free(e);
    for (size_t row = 0; row < ANSWERS; row++) qkv_decoder_shorten(decoder, row, 0);
    made.free = decoder->pool->spare_count == decoder->pool->count;
    qkv_decoder_free(decoder);
    qkv_prompt_free(&prompt);
    return made;
}

/* An answer that ends at its first token, before the next one begins, leaves the prompt in its row. */
static void a_row_that_an_answer_has_left_is_emptied_for_the_next(void **state) {
    (void)state;
    struct qkv_context *ctx = pair_context(1);
    struct qkv_model *model = fixture_model(ctx, small, NULL, 0, 7, 0.25);
    const int32_t ids[PROMPT] = {3, 1, 4, 1, 5, 9, 2};
    size_t found = 0;
    for (size_t seed = 0; seed < SEEDS && found < 3; seed++) {
        struct qkv_generate_options o = qkv_generate_defaults();
        o.ids = ids, o.id_count = PROMPT, o.tokens = TOKENS, o.end_id = -1;
        o.sampling.temperature = 2, o.sampling.seed = seed * ANSWERS;
        const struct made whole = run(model, &o);
        assert_true(whole.free);
        o.end_id = whole.ids[1][0];
        if (whole.ids[0][0] == o.end_id || whole.ids[2][0] == o.end_id) continue;
        found++;
        const struct made made = run(model, &o);
        assert_true(made.free);
        for (size_t i = 0; i < ANSWERS; i++) { /* those of before, up to the end */
            assert_true(made.count[i] >= 1 && made.count[i] <= whole.count[i]);
            assert_memory_equal(made.ids[i], whole.ids[i], made.count[i] * sizeof **made.ids);
            if (made.count[i] < whole.count[i]) assert_int_equal(made.ids[i][made.count[i] - 1], o.end_id);
        }
        assert_int_equal(made.count[1], 1);
    }
    assert_int_equal(found, 3);
    qkv_model_free(model);
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_row_that_an_answer_has_left_is_emptied_for_the_next)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
