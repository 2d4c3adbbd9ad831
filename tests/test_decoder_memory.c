/* The memory of a decoder's passes: whatever rows get tokens, and however many each, a pass takes no more than was
 * measured for mixed passes; over forms of attention and feed-forwards, numbers of heads, threads and rows, and of the
 * adapters that rows choose; with contexts that attention reads in one piece and in several. */
/* labels: numeric */
#include "engine_pairs.h"

#include "model/decode.h"

enum { MODELS = 12, PASSES = 60, ROWS = 24, LONG_CONTEXT = 1500, LONG_PASSES = 12, LONG_ROWS = 6 };

/* A decoder with heads of one of these forms. */
static struct qkv_model *random_model(struct qkv_context *ctx, struct qkv_random *r, size_t i, int context) {
    static const char *const masks[] = {"", ", \"window\": 40", ", \"chunk\": 32"};
    static const char *const positions[] = {"rope", "alibi", "none"};
    static const char *const experts[] = {"", ", \"experts\": {\"count\": 5, \"top_k\": 2}",
                                          ", \"experts\": {\"count\": 16, \"top_k\": 3, \"shared\": 24}"};
    static const int heads[][2] = {{1, 1}, {2, 1}, {2, 2}, {4, 1}, {4, 2}, {4, 4}, {8, 2}, {12, 3}};
    const size_t form = qkv_random_below(r, TEST_COUNT(heads));
    const int width = 8 << qkv_random_below(r, 4);
    const bool is_latent = i % 5 == 1; /* with as many key heads as heads */
    char json[1024], latent[64] = "", kv_heads[32] = "";
    snprintf(kv_heads, sizeof kv_heads, ", \"kv_heads\": %d", heads[form][1]);
    if (is_latent) snprintf(latent, sizeof latent, ", \"latent\": {\"rank\": 12, \"rope_dim\": %d}", width / 2);
    const char *position = is_latent ? "rope" : positions[qkv_random_below(r, TEST_COUNT(positions))];
    snprintf(
        json, sizeof json,
        "{\"format\": \"qkv\", \"version\": 2, \"vocab\": 40, \"d_model\": 32, \"context\": %d, \"decoder\": "
        "{\"layers\": 2, \"attention\": {\"heads\": %d%s, \"head_dim\": %d%s%s, \"position\": {\"kind\": \"%s\"}}, "
        "\"ffn\": {\"kind\": \"swiglu\", \"d_ff\": 48%s}}}",
        context, heads[form][0], is_latent ? "" : kv_heads, width, masks[qkv_random_below(r, TEST_COUNT(masks))],
        latent, position, experts[i % TEST_COUNT(experts)]);
    return fixture_model(ctx, json, NULL, 0, 7, 0.25);
}

/* Appends to some rows, up to what a pass has; rows that would be full are emptied. */
static void append(struct qkv_decoder *d, struct qkv_random *r) {
    static int32_t ids[ROWS * LONG_CONTEXT];
    size_t counts[ROWS], left = qkv_decoder_pass_most(d), rows = 1 + qkv_random_below(r, d->rows), used = 0;
    const size_t most = 1 + qkv_random_below(r, qkv_min(left, d->capacity));
    for (size_t i = 0; i < d->rows; i++) {
        counts[i] = 0;
        if (used == rows || !left || qkv_random_below(r, d->rows - i) >= rows - used) continue;
        counts[i] = qkv_min(left, qkv_random_below(r, 3) ? 1 + qkv_random_below(r, most) : 1);
        if (counts[i] > d->capacity - d->reached[i]) qkv_decoder_shorten(d, i, 0);
        left -= counts[i];
        used++;
    }
    assert_ok(d->model->ctx, qkv_decoder_grow(d, &(struct qkv_decoder_input){.ids = ids, .counts = counts}));
}

/* Gives a model adapters of some of its matrices. */
static void give_adapters(struct qkv_model *m, struct qkv_random *r, size_t count) {
    struct qkv_adapted *adapted = calloc(m->weights.count, sizeof *adapted);
    for (size_t i = 0; i < count; i++) {
        const struct qkv_adapter_settings settings = {.rank = 1 + qkv_random_below(r, 40)};
        char name[32];
        size_t n = 0;
        snprintf(name, sizeof name, "adapter %zu", i);
        for (size_t k = 0; k < m->weights.count; k++)
            if (qkv_adapter_fits(&m->weights.list[k]) && (!n || qkv_random_below(r, 3)))
                adapted[n++] = (struct qkv_adapted){.weight = k, .count = 1, .rank = settings.rank, .scale = 1};
        assert_ok(m->ctx, qkv_model_adapt(m, name, adapted, n, &settings, i));
    }
    free(adapted);
}

static void check_model(struct qkv_random *r, size_t i, int context, size_t rows_most, size_t passes) {
    struct qkv_context *ctx = pair_context(1 + (int)qkv_random_below(r, 4));
    struct qkv_model *m = random_model(ctx, r, i, context);
    const size_t rows = 1 + qkv_random_below(r, rows_most), adapters = i % 2 ? 1 + qkv_random_below(r, 4) : 0;
    size_t chunk = 0, mixed = 0;
    give_adapters(m, r, adapters);
    struct qkv_decoder *d;
    assert_ok(ctx, qkv_decoder_create(m, &QKV_OPTIONS(qkv_decoder_options, .rows = rows), &d));
    assert_ok(ctx, qkv_decoder_pass_measure(d, 1, &chunk));
    assert_ok(ctx, qkv_decoder_pass_measure_mixed(d, rows, &mixed));
    for (size_t k = 0; k < passes; k++) {
        for (size_t row = 0; row < rows; row++) d->adapters[row] = (int32_t)qkv_random_below(r, adapters + 1) - 1;
        append(d, r);
        if (d->arena.capacity > qkv_max(chunk, mixed))
            fail_msg("model %zu, %zu rows, pass %zu (%zu rows, %zu tokens, %zu of one): %zu bytes were measured, and "
                     "%zu are taken",
                     i, rows, k, d->planned[1].rows, d->planned[1].tokens, d->planned[1].longest, qkv_max(chunk, mixed),
                     d->arena.capacity);
    }
    qkv_decoder_free(d);
    qkv_model_free(m);
    qkv_context_free(ctx);
}

static void no_pass_takes_more_than_was_measured(void **state) {
    (void)state;
    struct qkv_random r = test_random(731);
    for (size_t i = 0; i < MODELS; i++) check_model(&r, i, PAIR_CONTEXT, ROWS, PASSES);
    for (size_t i = 0; i < MODELS / 2; i++) check_model(&r, i, LONG_CONTEXT, LONG_ROWS, LONG_PASSES);
}

int main(void) {
    test_seed();
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_pass_takes_more_than_was_measured)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
