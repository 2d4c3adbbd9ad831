/* Models over the grid of specs: gradients by directional differences, and changes that must not change a bit: the
 * cache, the future, the other rows, padding, the number of threads. */
/* labels: numeric */
#include "model/decode.h"
#include "model/model.h"
#include "model_slope.h"
#include "weights.h"
#include "sequence/pages.h"

/* ---- gradients -------------------------------------------------------------------------------------------------- */

static void check_slope(struct sample *s) {
    struct qkv_pass *pass = make_pass(s, true), *plain = make_pass(s, false);
    double norm = 0;
    forward(s, pass);
    assert_ok(s->ctx, qkv_pass_backward(pass));
    for (size_t i = 0; i < qkv_model_parameters(s->model); i++)
        for (size_t k = 0; k < qkv_array_elements(qkv_model_parameter(s->model, i)); k++)
            norm += pow((double)test_gradient(s->model, i)[k], 2);
    assert_true(fabs(qkv_model_gradient_norm(s->model) - sqrt(norm)) < 1e-5 * sqrt(norm));
    expect_slope(s, plain, walk_all, NULL, "all weights");
    qkv_pass_free(plain);
    qkv_pass_free(pass);
}

static void gradients_are_slopes_of_the_loss(void **state) {
    (void)state;
    smooth_only = true;
    for (uint64_t i = 0; i < 60; i++) {
        struct sample s;
        start(&s, i, (enum topology)(i % 3), NULL);
        check_slope(&s);
        finish(&s);
    }
    smooth_only = false;
}

/* ---- what must not change a bit --------------------------------------------------------------------------------- */

static void no_position_sees_a_later_token(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 60; i++) {
        struct sample s;
        start(&s, 1000 + i, i % 2 ? DECODER : BOTH, NULL);
        struct qkv_pass *pass = make_pass(&s, false);
        forward(&s, pass);
        float *before = copy_output(pass);
        size_t from = test_between(&s.random, 1, T - 1);
        for (size_t t = from; t < T; t++) {
            s.ids[t] = (s.ids[t] + 1) % VOCAB;
        }
        forward(&s, pass);
        const float *after = qkv_pass_output(pass).data;
        assert_memory_equal(before, after, from * VOCAB * sizeof(float));
        assert_memory_not_equal(before + from * VOCAB, after + from * VOCAB, VOCAB * sizeof(float));
        free(before);
        qkv_pass_free(pass);
        finish(&s);
    }
}

static void a_cache_has_the_bits_of_a_whole_pass(void **state) {
    (void)state;
    latents_too = false; /* test_cached has those */
    for (uint64_t i = 0; i < 60; i++) {
        struct sample s;
        start(&s, 2000 + i, DECODER, NULL);
        struct qkv_pass *pass = make_pass(&s, false);
        forward(&s, pass);
        const float *logits = qkv_pass_output(pass).data;
        struct qkv_session *session = make_session(s.model, T);
        for (size_t t = 0; t < T;) {
            size_t n = test_between(&s.random, 1, T - t < 4 ? T - t : 4);
            assert_int_equal(qkv_session_append(session, s.ids + t, n), QKV_OK);
            t += n;
            assert_memory_equal(qkv_session_logits(session), logits + (t - 1) * VOCAB, VOCAB * sizeof(float));
            if (t < T && qkv_random_below(&s.random, 4) == 0) { /* going back and on again changes nothing */
                qkv_session_truncate(session, t / 2);
                assert_null(qkv_session_logits(session));
                assert_int_equal(qkv_session_append(session, s.ids + t / 2, t - t / 2), QKV_OK);
            }
        }
        qkv_session_free(session);
        qkv_pass_free(pass);
        finish(&s);
    }
    latents_too = true;
}

/* A row alone, with other rows, and with padding behind it. */
static void padding_and_other_rows_change_no_bit_of_a_row(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 60; i++) {
        struct sample s;
        start(&s, 3000 + i, (enum topology)(i % 3), NULL);
        struct qkv_pass *pass = make_pass(&s, false);
        forward(&s, pass);
        float *whole = copy_output(pass);
        size_t b = qkv_random_below(&s.random, B), length = (size_t)s.lengths[b];
        if (length > 0) {
            bool padded = qkv_random_below(&s.random, 2); /* or cut off behind its length */
            size_t columns = padded ? T : length;
            s.batch = (struct qkv_batch){.B = 1,
                                         .T = columns,
                                         .ids = s.ids + b * T,
                                         .lengths = &s.lengths[b],
                                         .source_T = T,
                                         .source = s.source + b * T,
                                         .source_lengths = &s.source_lengths[b]};
            forward(&s, pass);
            assert_memory_equal(qkv_pass_output(pass).data, whole + b * T * VOCAB, length * VOCAB * sizeof(float));
        }
        free(whole);
        qkv_pass_free(pass);
        finish(&s);
    }
}

static void threads_change_no_bit(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 30; i++) {
        float *logits = NULL, *gradients = NULL;
        size_t bytes = 0, gradient_count = 0;
        for (int threads = 1; threads <= 3; threads++) {
            struct sample s;
            start(&s, 4000 + i, (enum topology)(i % 3), &QKV_OPTIONS(qkv_context_options, .threads = threads));
            struct qkv_pass *pass = make_pass(&s, true);
            forward(&s, pass);
            assert_int_equal(qkv_pass_backward(pass), QKV_OK);
            size_t all;
            float *mine = copy_gradients(s.model, &all);
            if (threads == 1) {
                logits = copy_output(pass);
                bytes = qkv_pass_output(pass).bytes;
                gradients = mine;
                gradient_count = all;
            } else {
                assert_memory_equal(logits, qkv_pass_output(pass).data, bytes);
                assert_memory_equal(gradients, mine, gradient_count * sizeof(float));
                free(mine);
            }
            qkv_pass_free(pass);
            finish(&s);
        }
        free(logits);
        free(gradients);
    }
}

/* Micro-batches that share the count of their whole add up to its gradient. */
static void micro_batches_add_up_to_the_gradient_of_their_whole(void **state) {
    (void)state;
    struct sample s;
    start(&s, 5000, DECODER, NULL);
    struct qkv_pass *pass = make_pass(&s, true);
    size_t counted, n = qkv_array_elements(qkv_model_parameter(s.model, 0));
    double whole = forward(&s, pass), sum = 0;
    qkv_pass_loss(pass, &counted);
    assert_int_equal(qkv_pass_backward(pass), QKV_OK);
    float *expected = malloc(n * sizeof(float));
    memcpy(expected, test_gradient(s.model, 0), n * sizeof(float));
    qkv_model_clear_gradients(s.model);
    for (size_t b = 0; b < B; b++) {
        s.batch = (struct qkv_batch){.B = 1,
                                     .T = T,
                                     .ids = s.ids + b * T,
                                     .lengths = &s.lengths[b],
                                     .targets = s.targets + b * T,
                                     .loss_count = counted};
        sum += forward(&s, pass);
        assert_int_equal(qkv_pass_backward(pass), QKV_OK);
    }
    assert_true(fabs(sum - whole) < 1e-6 * whole);
    assert_floats_close(test_gradient(s.model, 0), expected, n, 1e-5);
    free(expected);
    qkv_pass_free(pass);
    finish(&s);
}

/* Dropout is on when asked for only, repeats with its seed, and changes with it. */
static void dropout_is_only_on_when_asked_for_and_repeats_with_its_seed(void **state) {
    (void)state;
    struct sample s;
    struct qkv_model *model;
    struct qkv_pass *on, *off;
    start(&s, 5100, DECODER, NULL);
    OWNED_SPEC struct qkv_spec spec = test_model_spec(s.model);
    spec.dropout = 0.3;
    assert_int_equal(qkv_model_create(s.ctx, &spec, 1, &model), QKV_OK);
    for (size_t i = 0; i < qkv_model_parameters(model); i++) /* those of the sample, with which everything matters */
        memcpy(test_weights_mutable(model, i), test_weights(s.model, i), qkv_model_parameter(model, i)->bytes);
    struct qkv_pass_options o = {.size = sizeof o, .B = B, .T = T, .train = true};
    assert_int_equal(qkv_pass_create(model, &o, &off), QKV_OK);
    o.dropout = true;
    assert_int_equal(qkv_pass_create(model, &o, &on), QKV_OK);
    s.batch.dropout_seed = 7;
    double with = forward(&s, on), without = forward(&s, off);
    assert_true(with == forward(&s, on) && with != without);
    s.batch.dropout_seed = 8;
    assert_true(with != forward(&s, on) && without == forward(&s, off));
    qkv_pass_free(on);
    qkv_pass_free(off);
    qkv_model_free(model);
    finish(&s);
}

/* A pass serves every batch up to its own size, forward and backward, whatever scratch a smaller one takes. */
static void a_pass_takes_every_smaller_batch(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 20; i++) {
        struct sample s;
        start(&s, 5200 + i, (enum topology)(i % 3), &QKV_OPTIONS(qkv_context_options, .threads = 16));
        struct qkv_pass *pass = make_pass(&s, true);
        s.batch.lengths = s.batch.source_lengths = NULL;
        for (int k = 0; k < 6; k++) {
            s.batch.B = test_between(&s.random, 1, B);
            s.batch.T = test_between(&s.random, 1, T);
            s.batch.source_T = test_between(&s.random, 1, T);
            forward(&s, pass);
            assert_int_equal(qkv_pass_backward(pass), QKV_OK);
        }
        qkv_pass_free(pass);
        finish(&s);
    }
}

/* ---- folders, plans and bad input ------------------------------------------------------------------------------- */

static void a_folder_loads_as_it_was_saved(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 10; i++) {
        struct sample s;
        struct qkv_model *again;
        start(&s, 6000 + i, (enum topology)(i % 3), NULL);
        const char *path = test_path("model");
        assert_int_equal(qkv_model_save(s.model, path), QKV_OK);
        if (qkv_model_load(s.ctx, path, &again)) {
            fail_msg("%s", qkv_message(s.ctx));
        }
        char *saved, *loaded;
        assert_int_equal(qkv_spec_print(s.ctx, qkv_model_spec(s.model), &saved), QKV_OK);
        assert_int_equal(qkv_spec_print(s.ctx, qkv_model_spec(again), &loaded), QKV_OK);
        assert_string_equal(loaded, saved);
        qkv_free(saved);
        qkv_free(loaded);
        for (size_t p = 0; p < qkv_model_parameters(s.model); p++) {
            assert_string_equal(qkv_model_parameter(again, p)->name, qkv_model_parameter(s.model, p)->name);
            assert_memory_equal(test_weights(again, p), test_weights(s.model, p),
                                qkv_model_parameter(s.model, p)->bytes);
        }
        qkv_model_free(again);
        finish(&s);
    }
}

/* A folder whose weights are another spec's. */
static void a_folder_that_does_not_match_its_spec_is_refused(void **state) {
    (void)state;
    struct sample s;
    struct qkv_model *model;
    one_kind_only = true;
    start(&s, 6100, DECODER, NULL);
    one_kind_only = false;
    const char *path = test_path("mismatch");
    assert_int_equal(qkv_model_save(s.model, path), QKV_OK);
    OWNED_SPEC struct qkv_spec spec = test_model_spec(s.model);
    char *json;
    spec.decoder.kinds[0].ffn.d_ff = 25;
    assert_int_equal(qkv_spec_print(s.ctx, &spec, &json), QKV_OK);
    test_write_file(test_path("mismatch/config.json"), json, strlen(json));
    assert_int_equal(qkv_model_load(s.ctx, path, &model), QKV_SHAPE);
    assert_null(model);
    assert_message(s.ctx, "but config.json makes it");
    qkv_free(json);
    qkv_spec_free(&spec);
    spec = test_model_spec(s.model);
    assert_ok(s.ctx, qkv_stack_resize(s.ctx, &spec.decoder, 3, spec.decoder.kind_count));
    assert_int_equal(qkv_spec_print(s.ctx, &spec, &json), QKV_OK);
    test_write_file(test_path("mismatch/config.json"), json, strlen(json));
    assert_int_equal(qkv_model_load(s.ctx, path, &model), QKV_FORMAT);
    assert_message(s.ctx, "has no tensor decoder.layers.2.");
    qkv_free(json);
    assert_ok(s.ctx, qkv_stack_resize(s.ctx, &spec.decoder, 1, spec.decoder.kind_count));
    assert_int_equal(qkv_spec_print(s.ctx, &spec, &json), QKV_OK);
    test_write_file(test_path("mismatch/config.json"), json, strlen(json));
    assert_int_equal(qkv_model_load(s.ctx, path, &model), QKV_FORMAT);
    assert_message(s.ctx, "that config.json does not ask for");
    qkv_free(json);
    assert_int_equal(qkv_model_load(s.ctx, test_path("nowhere"), &model), QKV_FILE);
    assert_message(s.ctx, "nowhere is not a model folder");
    finish(&s);
}

/* A position of latents stores rank + rope_dim numbers in each layer, whatever the heads are (DeepSeek-AI 2024,
 * "DeepSeek-V2", table 1): in the costs, in the pages of a session, and in the memory that its pool takes. */
static void a_cache_of_latents_keeps_rank_and_rope_numbers_a_position(void **state) {
    (void)state;
    static const int shapes[][3] = {{64, 16, 2}, {24, 8, 3}, {128, 2, 1}}; /* rank, rope_dim, layers */
    enum { LENGTH = 300 };
    for (size_t i = 0; i < 6; i++) {
        const int *shape = shapes[i % 3];
        const bool halves = i >= 3;
        struct qkv_context *ctx;
        OWNED_SPEC struct qkv_spec spec = {0};
        struct qkv_costs costs;
        struct qkv_model *model;
        struct qkv_session *session;
        const struct qkv_context_options options = {.size = sizeof options,
                                                    .precision = halves ? QKV_MIXED_BF16 : QKV_FP32};
        assert_int_equal(qkv_context_create(&ctx, &options), QKV_OK);
        char settings[4][64];
        snprintf(settings[0], sizeof settings[0], "context=%d", LENGTH);
        snprintf(settings[1], sizeof settings[1], "decoder.attention.latent.rank=%d", shape[0]);
        snprintf(settings[2], sizeof settings[2], "decoder.attention.latent.rope_dim=%d", shape[1]);
        snprintf(settings[3], sizeof settings[3], "decoder.layers=%d", shape[2]);
        const char *const all[] = {settings[0], settings[1], settings[2], settings[3]};
        assert_int_equal(qkv_spec_preset(ctx, &spec, "mla-tiny", all, 4), QKV_OK);
        spec.vocab = 64;
        const size_t bytes = (size_t)shape[2] * (size_t)(shape[0] + shape[1]) * (halves ? 2 : 4);
        assert_int_equal(qkv_measure_costs(ctx, &spec, 1, LENGTH, &costs), QKV_OK);
        assert_int_equal(costs.cache_bytes_per_token, bytes);
        assert_int_equal(qkv_model_allocate(ctx, &spec, &model), QKV_OK);
        assert_int_equal(qkv_session_create(model, &QKV_OPTIONS(qkv_session_options, .capacity = LENGTH), &session),
                         QKV_OK);
        const struct qkv_cache_pages pages = qkv_session_pages(session);
        assert_int_equal(pages.bytes, pages.positions * bytes);
        assert_in_range(pages.count * pages.positions, LENGTH, LENGTH + pages.positions - 1);
        struct qkv_page_pool *pool;
        const struct qkv_page_shape whole = {.length = LENGTH, .sequences = 1};
        assert_int_equal(qkv_decode_pool(model, false, (struct qkv_page_types){.precision = model->precision}, &pool),
                         QKV_OK);
        assert_int_equal(qkv_page_pool_begin(pool, &whole), QKV_OK);
        assert_in_range(pool->storage.peak, pages.count * pages.bytes, pages.count * (pages.bytes + 16) + 1024);
        qkv_page_pool_free(pool);
        qkv_session_free(session);
        qkv_model_free(model);
        qkv_context_free(ctx);
    }
}

/* A plan allocates nothing of the model's size, and its costs add up. */
static void a_plan_allocates_nothing_and_its_costs_add_up(void **state) {
    (void)state;
    struct qkv_context *ctx;
    OWNED_SPEC struct qkv_spec spec = {0};
    struct qkv_costs costs;
    assert_int_equal(qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, .precision = QKV_PRECISION_AUTO)),
                     QKV_OK);
    assert_int_equal(qkv_spec_preset(ctx, &spec, "gpt2-small", NULL, 0), QKV_OK);
    assert_int_equal(qkv_measure_costs(ctx, &spec, 4, 1024, &costs), QKV_OK);
    assert_int_equal(costs.parameters, 124439808); /* the published count of GPT-2 small */
    assert_int_equal(costs.cache_bytes_per_token, 12 * 2 * 768 * (qkv_context_precision(ctx) == QKV_FP32 ? 4 : 2));
    assert_int_equal(costs.page_positions, 128);
    assert_int_equal(costs.page_bytes, 128 * costs.cache_bytes_per_token);
    assert_int_equal(costs.pages, 8);
    double products = 2.0 * (124439808 - 1024 * 768 - 12 * (768 * 9 + 3072 + 4 * 768) - 2 * 768);
    double attention = 12 * 4.0 * 768 * 1025 / 2;
    assert_true(fabs(costs.forward_flops - products - attention) < 1e-3 * products);
    assert_ok(ctx, qkv_stack_resize(ctx, &spec.decoder, 1000, 1));
    spec.d_model = 1 << 16;
    spec.decoder.kinds[0].attention.head_dim = spec.decoder.kinds[0].attention.value_dim = 1 << 12;
    assert_int_equal(qkv_measure_costs(ctx, &spec, 1, 1024, &costs), QKV_OK); /* far more than this machine has */
    assert_true(costs.parameter_bytes > (size_t)1 << 44);
    qkv_context_free(ctx);
}

/* The bytes of all arenas made since, without the room for nodes of `graphs` tapes, which the system backs as it is
 * used. */
static size_t arenas_since(size_t before, const struct sample *s, size_t graphs) {
    return qkv_arena_total() - before - graphs * qkv_graph_bytes(qkv_model_spec(s->model));
}

static void expect_run_bytes(struct sample *s, size_t before, size_t bytes) {
    struct qkv_session *session = NULL;
    struct qkv_pass *pass = NULL;
    if (qkv_model_spec(s->model)->encoder.layers) {
        const struct qkv_pass_options o = {.size = sizeof o, .B = 1, .T = T, .source_T = T, .logits = true};
        assert_ok(s->ctx, qkv_pass_create(s->model, &o, &pass));
    } else {
        assert_ok(s->ctx, qkv_session_create(s->model, &QKV_OPTIONS(qkv_session_options, .capacity = T), &session));
        assert_ok(s->ctx, qkv_session_append(session, s->ids, T));
    }
    assert_int_equal(arenas_since(before, s, 1), bytes);
    qkv_session_free(session);
    qkv_pass_free(pass);
}

static void expect_train_bytes(struct sample *s, size_t before, size_t bytes, bool checkpoint) {
    struct qkv_pass_options o = {
        .size = sizeof o, .B = B, .T = T, .source_T = T, .train = true, .dropout = true, .checkpoint = checkpoint};
    struct qkv_optimizer_options adamw = {
        .size = sizeof adamw, .kind = QKV_OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8};
    struct qkv_pass *pass, *evaluation;
    struct qkv_optimizer *optimizer;
    assert_ok(s->ctx, qkv_pass_create(s->model, &o, &pass));
    o.train = o.dropout = o.checkpoint = false;
    assert_ok(s->ctx, qkv_pass_create(s->model, &o, &evaluation));
    assert_ok(s->ctx, qkv_optimizer_create(s->model, &adamw, &optimizer));
    assert_int_equal(arenas_since(before, s, 2), bytes);
    forward(s, pass);
    assert_ok(s->ctx, qkv_pass_backward(pass));
    forward(s, evaluation);
    assert_int_equal(arenas_since(before, s, 2), bytes);
    qkv_optimizer_free(optimizer);
    qkv_pass_free(pass);
    qkv_pass_free(evaluation);
}

/* The memory that costs promise is what running and training take, byte for byte, and both never ask for more. */
static void costs_are_the_bytes_that_are_taken(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 24; i++) {
        const size_t before = qkv_arena_total();
        const struct qkv_context_options options = {.size = sizeof options,
                                                    .precision = i % 2 ? QKV_MIXED_BF16 : QKV_FP32};
        struct sample s;
        struct qkv_costs costs;
        start(&s, 7000 + i, (enum topology)(i / 2 % 3), &options);
        assert_ok(s.ctx, qkv_measure_costs(s.ctx, qkv_model_spec(s.model), B, T, &costs));
        expect_run_bytes(&s, before, costs.run_bytes);
        expect_train_bytes(&s, before, costs.train_bytes, false);
        expect_train_bytes(&s, before, costs.checkpoint_bytes, true);
        finish(&s);
    }
}

static void bad_batches_are_refused_by_place_and_value(void **state) {
    (void)state;
    struct sample s;
    struct qkv_pass *pass, *none;
    struct qkv_session *session;
    start(&s, 8000, DECODER, NULL);
    pass = make_pass(&s, false);
    s.ids[4] = VOCAB;
    assert_int_equal(qkv_pass_forward(pass, &s.batch), QKV_ARGUMENT);
    assert_message(s.ctx, "token id 23 at place 4 is out of range");
    s.ids[4] = -1;
    assert_int_equal(qkv_pass_forward(pass, &s.batch), QKV_ARGUMENT);
    s.ids[4] = 0;
    s.targets[2] = VOCAB + 5;
    assert_int_equal(qkv_pass_forward(pass, &s.batch), QKV_ARGUMENT);
    assert_message(s.ctx, "target 28 at place 2 is out of range");
    s.targets[2] = 1;
    s.lengths[1] = T + 1;
    assert_int_equal(qkv_pass_forward(pass, &s.batch), QKV_ARGUMENT);
    assert_message(s.ctx, "the length of row 1 is 12");
    s.lengths[1] = T;
    s.batch.B = B + 1;
    assert_int_equal(qkv_pass_forward(pass, &s.batch), QKV_SHAPE);
    s.batch.B = B;
    assert_int_equal(qkv_pass_backward(pass), QKV_ARGUMENT);
    assert_int_equal(qkv_pass_create(s.model, &QKV_OPTIONS(qkv_pass_options, .B = 1, .T = CONTEXT + 1), &none),
                     QKV_ARGUMENT);
    assert_null(none);
    assert_message(s.ctx, "longer than the model's context of 16");
    assert_int_equal(qkv_session_create(s.model, NULL, &session), QKV_OK);
    int32_t many[CONTEXT + 1] = {0};
    assert_int_equal(qkv_session_append(session, many, CONTEXT + 1), QKV_ARGUMENT);
    assert_message(s.ctx, "17 more tokens do not fit");
    assert_int_equal(qkv_session_length(session), 0);
    many[1] = VOCAB;
    assert_int_equal(qkv_session_append(session, many, 2), QKV_ARGUMENT);
    assert_message(s.ctx, "token id 23 is out of range");
    qkv_session_free(session);
    /* all targets ignored: a loss of zero, no NaN */
    for (size_t n = 0; n < (size_t)B * T; n++) {
        s.targets[n] = QKV_IGNORE;
    }
    assert_true(forward(&s, pass) == 0);
    qkv_pass_free(pass);
    finish(&s);
}

int main(void) {
    latents_too = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cache_of_latents_keeps_rank_and_rope_numbers_a_position),
        cmocka_unit_test(gradients_are_slopes_of_the_loss),
        cmocka_unit_test(no_position_sees_a_later_token),
        cmocka_unit_test(a_cache_has_the_bits_of_a_whole_pass),
        cmocka_unit_test(padding_and_other_rows_change_no_bit_of_a_row),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(micro_batches_add_up_to_the_gradient_of_their_whole),
        cmocka_unit_test(dropout_is_only_on_when_asked_for_and_repeats_with_its_seed),
        cmocka_unit_test(a_pass_takes_every_smaller_batch),
        cmocka_unit_test(a_folder_loads_as_it_was_saved),
        cmocka_unit_test(a_folder_that_does_not_match_its_spec_is_refused),
        cmocka_unit_test(a_plan_allocates_nothing_and_its_costs_add_up),
        cmocka_unit_test(costs_are_the_bytes_that_are_taken),
        cmocka_unit_test(bad_batches_are_refused_by_place_and_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
