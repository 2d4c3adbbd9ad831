/* Gradients and losses of random models whose sums over rows have a defined order: the parts in which a batch goes
 * through the pass and the number of threads change no bit, with dropout and without; and the results are close to
 * those without groups. */
/* labels: numeric */
#include "model_grid.h"

#include "model/model.h"
#include "train/train.h"

struct outcome {
    float *gradients;
    double loss;
};

/* Rows [begin, end) of the sample's batch. */
static struct qkv_batch rows_of(const struct sample *s, size_t begin, size_t end) {
    struct qkv_batch b = s->batch;
    b.B = end - begin;
    b.ids += begin * b.T, b.targets += begin * b.T;
    if (b.source) b.source += begin * b.source_T;
    if (b.lengths) b.lengths += begin;
    if (b.source_lengths) b.source_lengths += begin;
    if (b.documents) b.documents += begin * T;
    if (b.prefix) b.prefix += begin;
    b.dropout_seed = 99;
    return b;
}

static struct outcome run_in_parts(struct sample *s, int64_t groups, int64_t accumulate, int threads) {
    const size_t rows = s->batch.B;
    struct qkv_train_options options = {
        .size = sizeof options, .groups = groups, .accumulate = accumulate, .batch = (int64_t)s->batch.B};
    struct qkv_pass_options pass_options = {.size = sizeof pass_options,
                                            .B = rows,
                                            .T = s->batch.T,
                                            .source_T = s->batch.source_T,
                                            .train = true,
                                            .dropout = true};
    struct qkv_parts parts = qkv_parts_of(&options, rows);
    struct qkv_part_sums sums;
    struct qkv_pass_part part;
    struct qkv_pass *pass;
    double losses[QKV_GROUPS_MAX] = {0};
    struct outcome out = {.loss = 0};
    size_t counted = 0, each;
    s->ctx->threads = threads;
    for (size_t n = 0; n < rows * s->batch.T; n++)
        counted += s->batch.targets[n] != QKV_IGNORE &&
                   (!s->batch.lengths || (int64_t)(n % s->batch.T) < s->batch.lengths[n / s->batch.T]);
    assert_ok(s->ctx, qkv_pass_create_ordered(s->model, &pass_options, groups > 1 ? (size_t)groups : 0, &pass));
    assert_ok(s->ctx, qkv_part_sums_create(s->model, qkv_parts_levels(s->ctx, &options, rows), &sums));
    qkv_model_clear_gradients(s->model);
    qkv_part_sums_begin(&sums, &parts);
    while (qkv_parts_next(&parts)) {
        struct qkv_batch batch = rows_of(s, parts.begin, parts.end);
        batch.loss_count = counted;
        if (parts.groups) qkv_parts_tell(&parts, losses, &part);
        qkv_part_sums_next(&sums, &parts);
        qkv_pass_set_part(pass, parts.groups ? &part : NULL);
        assert_ok(s->ctx, qkv_pass_forward(pass, &batch));
        if (!parts.groups) out.loss += qkv_pass_loss(pass, &each);
        assert_ok(s->ctx, qkv_pass_backward(pass));
        qkv_part_sums_end(&sums, &parts);
    }
    if (parts.groups) out.loss = qkv_parts_loss(&parts, losses) / (double)counted;
    const size_t floats = s->model->weights.floats;
    out.gradients = malloc(floats * sizeof(float));
    memcpy(out.gradients, s->model->weights.gradients, floats * sizeof(float));
    qkv_model_clear_gradients(s->model);
    qkv_part_sums_begin(&sums, &(struct qkv_parts){0});
    qkv_part_sums_free(&sums);
    qkv_pass_free(pass);
    return out;
}

static double distance(const float *a, const float *b, size_t n) {
    double off = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        off += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(off / size);
}

/* Documents of random lengths in every row. */
static const int32_t *cut_documents(struct sample *s, int32_t *documents) {
    for (size_t n = 0; n < (size_t)B * T; n++)
        documents[n] = n % T ? documents[n - 1] + (qkv_random_below(&s->random, 3) == 0) : 0;
    return documents;
}

static const int32_t *cut_prefix(struct sample *s, int32_t *prefix) {
    for (size_t b = 0; b < B; b++) prefix[b] = (int32_t)test_between(&s->random, 0, (size_t)s->lengths[b]);
    return prefix;
}

static void parts_of_a_batch_change_no_bit_of_random_models(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 24; i++) {
        const struct qkv_context_options options = {.size = sizeof options,
                                                    .precision = i % 2 ? QKV_MIXED_BF16 : QKV_FP32};
        struct sample s;
        start(&s, 1200 + i, (enum topology)(i % 3), &options);
        const bool drops = i / 6 % 2;
        int32_t documents[B * T], prefix[B];
        if (i % 3 != BOTH && i % 4 < 2) s.batch.documents = cut_documents(&s, documents);
        if (i % 3 == DECODER && i % 4 == 2) s.batch.prefix = cut_prefix(&s, prefix);
        drop_everywhere(&s.model->spec, drops ? 0.2 : 0);
        const int64_t groups = 2 + (int64_t)(i / 3 % 2);
        struct outcome whole = run_in_parts(&s, groups, 1, 1), plain = run_in_parts(&s, 1, 1, 1);
        const size_t floats = s.model->weights.floats;
        for (int64_t parts = 1; parts <= B; parts++) {
            struct outcome other = run_in_parts(&s, groups, parts, 1 + (int)((uint64_t)parts + i) % 3);
            if (memcmp(&whole.loss, &other.loss, sizeof whole.loss) ||
                memcmp(whole.gradients, other.gradients, floats * sizeof(float)))
                fail_msg("spec %d, %d groups: %d parts give other bits: losses %.17g and %.17g, gradients are %g apart",
                         (int)i, (int)groups, (int)parts, whole.loss, other.loss,
                         distance(other.gradients, whole.gradients, floats));
            free(other.gradients);
        }
        const double off = distance(whole.gradients, plain.gradients, floats);
        if (!drops && !(off < (i % 2 ? 2e-2 : 2e-5)))
            fail_msg("spec %d: gradients in %d groups are %g from those without", (int)i, (int)groups, off);
        free(whole.gradients), free(plain.gradients);
        finish(&s);
    }
}

/* A vocabulary whose scores of all rows do not fit at once: with the whole batch, chunks of the head continue inside
 * a group; row by row, there is one chunk. */
enum { MANY = 40000, LONG = 200, ROWS = 6 };

static void chunks_of_the_head_change_no_bit(void **state) {
    (void)state;
    static int32_t ids[ROWS * LONG], targets[ROWS * LONG];
    const char *spec_text =
        "{\"format\": \"qkv\", \"version\": 1, \"vocab\": 40000, \"d_model\": 8, \"context\": 200, "
        "\"position\": {\"kind\": \"none\"}, \"tie\": \"%s\", \"head\": {\"kind\": \"lm\", \"bias\": true}, "
        "\"encoder\": null, \"decoder\": {\"layers\": 1, \"attention\": {\"heads\": 1, \"head_dim\": 8}, "
        "\"ffn\": {\"kind\": \"relu\", \"d_ff\": 8}}}";
    for (uint64_t i = 0; i < 4; i++) {
        const struct qkv_context_options options = {.size = sizeof options,
                                                    .precision = i % 2 ? QKV_MIXED_BF16 : QKV_FP32};
        struct sample s = {.random = test_random(1300 + i)};
        OWNED_SPEC struct qkv_spec spec = {0};
        char text[600];
        snprintf(text, sizeof text, spec_text, i / 2 ? "none" : "head");
        assert_int_equal(qkv_context_create(&s.ctx, &options), QKV_OK);
        assert_ok(s.ctx, qkv_spec_parse(s.ctx, &spec, "many", text, strlen(text), NULL, 0));
        assert_ok(s.ctx, qkv_model_create(s.ctx, &spec, i, &s.model));
        for (size_t n = 0; n < ROWS * LONG; n++) {
            ids[n] = (int32_t)qkv_random_below(&s.random, MANY);
            targets[n] = qkv_random_below(&s.random, 9) ? (int32_t)qkv_random_below(&s.random, MANY) : QKV_IGNORE;
        }
        int32_t lengths[ROWS];
        for (size_t b = 0; b < ROWS; b++) lengths[b] = b % 2 ? (int32_t)test_between(&s.random, LONG / 2, LONG) : LONG;
        s.batch = (struct qkv_batch){.B = ROWS, .T = LONG, .ids = ids, .targets = targets, .lengths = lengths};
        const int64_t groups = i / 2 ? ROWS : 2;
        struct outcome apart = run_in_parts(&s, groups, ROWS, 1);
        const size_t floats = s.model->weights.floats;
        for (int64_t parts = 1; parts <= 2; parts++) { /* of several groups, and of one */
            struct outcome whole = run_in_parts(&s, groups, parts, 2);
            if (memcmp(&whole.loss, &apart.loss, sizeof whole.loss) ||
                memcmp(whole.gradients, apart.gradients, floats * sizeof(float)))
                fail_msg("spec %d, %d groups, %d parts: losses %.17g and %.17g, gradients are %g apart", (int)i,
                         (int)groups, (int)parts, whole.loss, apart.loss,
                         distance(whole.gradients, apart.gradients, floats));
            free(whole.gradients);
        }
        free(apart.gradients);
        struct qkv_pass_plan plan = {0};
        const struct qkv_pass_options pass = {.size = sizeof pass, .B = ROWS, .T = LONG, .train = true};
        assert_ok(s.ctx, qkv_pass_measure(s.model, &pass, ROWS, &plan));
        assert_true(plan.bytes < (size_t)MANY * LONG * ROWS * sizeof(float));
        finish(&s);
    }
}

int main(void) {
    latents_too = true;
    const struct CMUnitTest tests[] = {cmocka_unit_test(parts_of_a_batch_change_no_bit_of_random_models),
                                       cmocka_unit_test(chunks_of_the_head_change_no_bit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
