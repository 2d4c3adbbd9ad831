/* test_inputs: models that read patches, frames or vectors instead of tokens, over the random grid: an encoder, a
 * decoder, and an encoder with a decoder of tokens, whose targets grow after the memory is encoded once. Golden
 * cases (vit_patches, patches_mean, frames, whisper_frames, vectors) anchor the numbers. */
/* labels: numeric */
#include "model_slope.h"
#include "weights.h"

#include "model/model.h"
#include "model/spec.h"
#include "train/train.h"

enum { SIDES = 4, CHANNELS = 5, MOST = 2 * T, CLASSES = 4, HELD = B * CHANNELS * MOST };

/* A sample whose encoder, or whose only stack, a decoder, reads features. */
struct input_sample {
    struct sample s;
    enum topology topology;
    enum qkv_input_kind kind;
    size_t positions, frames, each; /* of a sequence; numbers of one */
    float features[HELD];
};

/* The embedding of the first stack reads something else; what that excludes is taken away. */
static void give_input(struct qkv_random *r, struct qkv_spec *spec, enum topology topology, enum qkv_input_kind kind) {
    struct qkv_stack_spec *stack = topology == DECODER ? &spec->decoder : &spec->encoder;
    struct qkv_embed_spec *e = &stack->embed;
    e->input = (struct qkv_input_spec){.kind = kind, .channels = CHANNELS};
    if (kind == QKV_INPUT_PATCHES)
        e->input = (struct qkv_input_spec){.kind = kind,
                                           .channels = 2,
                                           .height = SIDES,
                                           .width = SIDES,
                                           .patch = 2,
                                           .class_token = qkv_random_below(r, 2)};
    if (kind == QKV_INPUT_FRAMES) e->input.kernel = 3, e->input.stride = (int)test_between(r, 1, 2);
    e->input.bias = qkv_random_below(r, 2);
    e->types = 0, e->scale = 1, e->masked.given = false;
    if (e->width && e->project == QKV_PROJECT_TOKEN) e->project = QKV_PROJECT_END;
    if (topology == BOTH && spec->tie == QKV_TIE_ALL) spec->tie = QKV_TIE_HEAD;
    if (topology == BOTH && spec->tie == QKV_TIE_STACKS) spec->tie = QKV_TIE_NONE;
    if (topology == BOTH) spec->source_vocab = 0;
    if (topology == BOTH) return;
    spec->tie = QKV_TIE_NONE;
    spec->vocab = 0;
    spec->head.kind = qkv_random_below(r, 2) ? QKV_HEAD_CLASSIFY : QKV_HEAD_CLASSIFY_TOKENS;
    spec->head.classes = CLASSES;
    spec->head.pool = spec->head.kind == QKV_HEAD_CLASSIFY ? (enum qkv_pool)qkv_random_below(r, 3) : QKV_POOL_FIRST;
}

static void fill_targets(struct input_sample *in) {
    struct sample *s = &in->s;
    const struct qkv_spec *spec = qkv_model_spec(s->model);
    const uint64_t most = spec->head.kind == QKV_HEAD_LM ? VOCAB : CLASSES;
    for (size_t n = 0; n < (size_t)B * T; n++)
        s->targets[n] = spec->head.kind != QKV_HEAD_CLASSIFY && !qkv_random_below(&s->random, 5)
                            ? QKV_IGNORE
                            : (int32_t)qkv_random_below(&s->random, most);
}

static void start_input(struct input_sample *in, uint64_t stream, const struct qkv_context_options *options) {
    memset(in, 0, sizeof *in);
    struct sample *s = &in->s;
    OWNED_SPEC struct qkv_spec spec = {0};
    in->topology = (enum topology)(stream % 3), in->kind = (enum qkv_input_kind)(1 + stream / 3 % 3);
    s->random = test_random(stream);
    assert_int_equal(qkv_context_create(&s->ctx, options), QKV_OK);
    random_spec(s->ctx, &s->random, in->topology, &spec);
    give_input(&s->random, &spec, in->topology, in->kind);
    if (qkv_model_create(s->ctx, &spec, qkv_random_bits(&s->random), &s->model)) fail_msg("%s", qkv_message(s->ctx));
    for (size_t i = 0; i < qkv_model_parameters(s->model); i++) {
        float *w = test_weights_mutable(s->model, i);
        for (size_t k = 0; k < qkv_array_elements(qkv_model_parameter(s->model, i)); k++)
            w[k] += 0.2F * (float)qkv_random_normal(&s->random);
    }
    const struct qkv_stack_spec *stack = in->topology == DECODER ? &spec.decoder : &spec.encoder;
    const size_t stride = in->kind == QKV_INPUT_FRAMES ? (size_t)stack->embed.input.stride : 1;
    in->positions = in->kind == QKV_INPUT_PATCHES ? qkv_stack_patches(stack) : T;
    in->frames = in->kind == QKV_INPUT_FRAMES ? stride * T - qkv_random_below(&s->random, stride) : 0;
    in->each = in->kind == QKV_INPUT_PATCHES  ? (size_t)2 * SIDES * SIDES
               : in->kind == QKV_INPUT_FRAMES ? CHANNELS * in->frames
                                              : (size_t)CHANNELS * T;
    test_fill(&s->random, in->features, B * in->each, 1);
    for (size_t n = 0; n < (size_t)B * T; n++) s->ids[n] = (int32_t)qkv_random_below(&s->random, VOCAB);
    fill_targets(in);
    for (size_t b = 0; b < B; b++)
        s->lengths[b] = s->source_lengths[b] = b ? (int32_t)test_between(&s->random, 1, T) : T;
    const int32_t *lengths = in->kind == QKV_INPUT_PATCHES ? NULL : s->source_lengths;
    s->batch = (struct qkv_batch){.B = B, .T = in->positions, .lengths = lengths, .targets = s->targets};
    if (in->topology == BOTH)
        s->batch = (struct qkv_batch){.B = B,
                                      .T = T,
                                      .ids = s->ids,
                                      .lengths = s->lengths,
                                      .targets = s->targets,
                                      .source_T = in->positions,
                                      .source_lengths = lengths,
                                      .source_features = in->features,
                                      .source_frames = in->frames};
    else
        s->batch.features = in->features, s->batch.frames = in->frames;
}

/* Row b of a batch, alone; the features are in `alone`, which may be cut where the sequence ends. */
static struct qkv_batch row_alone(const struct input_sample *in, size_t b, float *alone) {
    const struct sample *s = &in->s;
    struct qkv_batch batch = s->batch;
    const bool both = in->topology == BOTH, whole = qkv_model_spec(s->model)->head.kind == QKV_HEAD_CLASSIFY;
    memcpy(alone, in->features + b * in->each, in->each * sizeof *alone);
    batch.B = 1;
    batch.targets = s->targets + (whole ? b : b * batch.T);
    if (batch.lengths) batch.lengths += b;
    if (both) batch.ids += b * T;
    if (batch.source_lengths) batch.source_lengths += b;
    *(both ? &batch.source_features : &batch.features) = alone;
    return batch;
}

static size_t outputs_of(const struct input_sample *in, size_t b) {
    const struct sample *s = &in->s;
    const struct qkv_spec *spec = qkv_model_spec(s->model);
    const size_t columns = (size_t)(spec->head.kind == QKV_HEAD_LM ? spec->vocab : spec->head.classes);
    if (spec->head.kind == QKV_HEAD_CLASSIFY) return columns;
    return columns * (s->batch.lengths ? (size_t)s->batch.lengths[b] : s->batch.T);
}

/* ---- bits ------------------------------------------------------------------------------------------------------- */

static void a_row_has_the_bits_that_it_has_alone(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 54; i++) {
        const struct qkv_context_options options = {.size = sizeof options,
                                                    .precision = i % 2 ? QKV_MIXED_BF16 : QKV_FP32};
        static struct input_sample in;
        float alone[HELD];
        start_input(&in, 9900 + i, &options);
        struct sample *s = &in.s;
        struct qkv_pass *pass = make_pass(s, false);
        forward(s, pass);
        struct qkv_array y = qkv_pass_output(pass);
        const size_t stride = qkv_array_elements(&y) / B;
        float *whole = copy_output(pass);
        const struct qkv_batch all = s->batch;
        for (size_t b = 0; b < B; b++) {
            s->batch = all;
            s->batch = row_alone(&in, b, alone);
            forward(s, pass);
            const struct qkv_batch one = s->batch;
            s->batch = all;
            if (memcmp(qkv_pass_output(pass).data, whole + b * stride, outputs_of(&in, b) * sizeof *whole))
                fail_msg("spec %d, %s: row %zu of %zu positions differs", (int)i, qkv_input_text(in.kind), b, one.T);
        }
        free(whole);
        qkv_pass_free(pass);
        finish(s);
    }
}

static void threads_change_no_bit(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 27; i++) {
        float *outputs[3], *gradients[3];
        size_t count = 0, bytes = 0;
        for (int threads = 1; threads <= 3; threads++) {
            static struct input_sample in;
            start_input(&in, 10000 + i, &QKV_OPTIONS(qkv_context_options, .threads = threads, .precision = QKV_FP32));
            struct qkv_pass *pass = make_pass(&in.s, true);
            forward(&in.s, pass);
            outputs[threads - 1] = copy_output(pass);
            bytes = qkv_pass_output(pass).bytes;
            assert_ok(in.s.ctx, qkv_pass_backward(pass));
            gradients[threads - 1] = copy_gradients(in.s.model, &count);
            qkv_pass_free(pass);
            finish(&in.s);
        }
        for (int k = 1; k < 3; k++) {
            assert_memory_equal(outputs[0], outputs[k], bytes);
            assert_memory_equal(gradients[0], gradients[k], count * sizeof(float));
        }
        for (int k = 0; k < 3; k++) free(outputs[k]), free(gradients[k]);
    }
}

/* ---- gradients -------------------------------------------------------------------------------------------------- */

/* The gradients of a batch in parts of so many rows, summed in two groups. */
static float *gradients_in_parts(struct input_sample *in, int64_t accumulate, size_t *count) {
    struct sample *s = &in->s;
    const struct qkv_batch all = s->batch;
    const bool both = in->topology == BOTH, whole = qkv_model_spec(s->model)->head.kind == QKV_HEAD_CLASSIFY;
    const struct qkv_train_options options = {
        .size = sizeof options, .groups = 2, .accumulate = accumulate, .batch = B};
    const struct qkv_pass_options pass_options = {
        .size = sizeof pass_options, .B = B, .T = T, .source_T = T, .train = true};
    struct qkv_parts parts = qkv_parts_of(&options, B);
    struct qkv_part_sums sums;
    struct qkv_pass_part part;
    struct qkv_pass *pass;
    double losses[QKV_GROUPS_MAX] = {0};
    assert_ok(s->ctx, qkv_pass_create_ordered(s->model, &pass_options, 2, &pass));
    assert_ok(s->ctx, qkv_part_sums_create(s->model, qkv_parts_levels(s->ctx, &options, B), &sums));
    qkv_model_clear_gradients(s->model);
    qkv_part_sums_begin(&sums, &parts);
    while (qkv_parts_next(&parts)) {
        struct qkv_batch batch = all;
        const size_t b = parts.begin;
        batch.B = parts.end - b, batch.loss_count = 7;
        batch.targets += whole ? b : b * all.T;
        if (batch.lengths) batch.lengths += b;
        if (batch.source_lengths) batch.source_lengths += b;
        if (both) batch.ids += b * T;
        *(both ? &batch.source_features : &batch.features) = in->features + b * in->each;
        qkv_parts_tell(&parts, losses, &part);
        qkv_pass_set_part(pass, &part);
        assert_ok(s->ctx, qkv_pass_forward(pass, &batch));
        assert_ok(s->ctx, qkv_pass_backward(pass));
        qkv_part_sums_end(&sums, &parts);
    }
    float *all_of = copy_gradients(s->model, count);
    qkv_part_sums_begin(&sums, &(struct qkv_parts){0});
    qkv_part_sums_free(&sums);
    qkv_pass_free(pass);
    return all_of;
}

static void parts_of_a_batch_change_no_bit(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 18; i++) {
        const struct qkv_context_options options = {.size = sizeof options,
                                                    .precision = i % 2 ? QKV_MIXED_BF16 : QKV_FP32};
        static struct input_sample in;
        size_t count;
        start_input(&in, 10100 + i, &options);
        float *one = gradients_in_parts(&in, 1, &count);
        for (int64_t parts = 2; parts <= B; parts++) {
            float *other = gradients_in_parts(&in, parts, &count);
            if (memcmp(one, other, count * sizeof *one))
                fail_msg("spec %d, %s: %d parts give other bits", (int)i, qkv_input_text(in.kind), (int)parts);
            free(other);
        }
        free(one);
        finish(&in.s);
    }
}

/* The weights that the features pass through move more than all others. */
static double mostly_the_input(const char *name, const void *user) {
    (void)user;
    return strstr(name, ".embed.") ? 1 : 0.3;
}

static void gradients_are_slopes(void **state) {
    (void)state;
    smooth_only = true;
    for (uint64_t i = 0; i < 36; i++) {
        static struct input_sample in;
        start_input(&in, 10200 + i, &QKV_OPTIONS(qkv_context_options, .precision = QKV_FP32));
        struct qkv_pass *pass = make_pass(&in.s, true), *plain = make_pass(&in.s, false);
        forward(&in.s, pass);
        assert_ok(in.s.ctx, qkv_pass_backward(pass));
        expect_slope(&in.s, plain, mostly_the_input, NULL, qkv_input_text(in.kind));
        qkv_pass_free(plain);
        qkv_pass_free(pass);
        finish(&in.s);
    }
    smooth_only = false;
}

/* ---- a memory that is encoded once ------------------------------------------------------------------------------ */

/* Targets grow token by token, and have the scores that a pass over all of them has. */
static void targets_behind_an_encoded_memory_have_the_bits_of_a_pass(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 27; i++) {
        const struct qkv_context_options options = {.size = sizeof options,
                                                    .precision = i % 2 ? QKV_MIXED_BF16 : QKV_FP32};
        static struct input_sample in;
        struct qkv_encoded *encoded;
        struct qkv_decoder *decoder;
        start_input(&in, 10304 + 3 * i, &options);
        struct sample *s = &in.s;
        assert_int_equal(in.topology, BOTH);
        s->batch.lengths = NULL;
        s->batch.length = T;
        struct qkv_pass *pass = make_pass(s, false);
        forward(s, pass);
        const float *scores = qkv_pass_output(pass).data;
        assert_ok(s->ctx, qkv_encode_features(s->model, in.features, s->batch.source_lengths, B, in.positions,
                                              in.frames, &encoded));
        const struct qkv_decoder_options growing = {
            .size = sizeof growing, .encoded = encoded, .rows = B, .capacity = T};
        assert_ok(s->ctx, qkv_decoder_create(s->model, &growing, &decoder));
        for (size_t t = 0; t < T; t++) {
            int32_t next[B];
            for (size_t b = 0; b < B; b++) next[b] = s->ids[b * T + t];
            assert_ok(s->ctx, qkv_decoder_step(decoder, next));
            for (size_t b = 0; b < B; b++)
                if (memcmp(qkv_decoder_logits(decoder) + b * VOCAB, scores + (b * T + t) * VOCAB,
                           VOCAB * sizeof *scores))
                    fail_msg("spec %d, %s: row %zu differs at token %zu", (int)i, qkv_input_text(in.kind), b, t);
        }
        qkv_decoder_free(decoder);
        qkv_encoded_free(encoded);
        qkv_pass_free(pass);
        finish(s);
    }
}

static void what_cannot_be_encoded_is_said(void **state) {
    (void)state;
    static struct input_sample in;
    struct qkv_encoded *encoded;
    start_input(&in, 10502, NULL); /* both stacks */
    struct sample *s = &in.s;
    assert_status(s->ctx, qkv_encode(s->model, s->ids, NULL, B, T, &encoded), QKV_ARGUMENT);
    assert_message(s->ctx, "give features (qkv_encode_features)");
    assert_null(encoded);
    assert_status(s->ctx, qkv_encode_features(s->model, NULL, NULL, B, in.positions, in.frames, &encoded),
                  QKV_ARGUMENT);
    assert_message(s->ctx, "features is NULL");
    assert_status(s->ctx, qkv_encode_features(s->model, in.features, NULL, B, CONTEXT + 1, in.frames, &encoded),
                  QKV_ARGUMENT);
    assert_message(s->ctx, "longer than the model's context");
    finish(s);
    start(&in.s, 10504, BOTH, NULL);
    assert_status(in.s.ctx, qkv_encode_features(in.s.model, in.features, NULL, B, T, 0, &encoded), QKV_ARGUMENT);
    assert_message(in.s.ctx, "the batch has features, but the encoder reads tokens; give ids");
    finish(&in.s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_has_the_bits_that_it_has_alone),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(parts_of_a_batch_change_no_bit),
        cmocka_unit_test(gradients_are_slopes),
        cmocka_unit_test(targets_behind_an_encoded_memory_have_the_bits_of_a_pass),
        cmocka_unit_test(what_cannot_be_encoded_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
