/* Hooks of a pass, and inspections: against sums of the residual stream, against the pass's own output and
 * gradients, and in models with numbers that are not finite. */
/* labels: numeric quick */
#include "test.h"
#include "weights.h"

#include "lab/report/inspect.h"

#define assert_fails(ctx, call, expected, part)                                                                        \
    do {                                                                                                               \
        assert_status(ctx, call, expected);                                                                            \
        if (ctx) test_message_has(ctx, part, __FILE__, __LINE__);                                                      \
    } while (0)

#define HEAD  "{\"format\":\"qkv\",\"version\":%d,\"d_model\":16,\"context\":24,\"vocab\":%d,"
#define STACK "{\"layers\":2,\"attention\":{\"heads\":2},\"norm\":{\"placement\":\"%s\"},\"ffn\":{\"d_ff\":32}}"

static struct qkv_context *make_context(void) {
    struct qkv_context *ctx;
    struct qkv_context_options options = {.size = sizeof options, .threads = 1, .precision = QKV_PRECISION_AUTO};
    assert_ok(ctx, qkv_context_create(&ctx, &options));
    return ctx;
}

/* A small model with weights large enough to show, and a tokenizer of bytes with the special tokens. */
static struct qkv_model *make_model_of(struct qkv_context *ctx, int version, const char *stacks) {
    static const char *const specials[] = {QKV_TOKEN_BEGIN, QKV_TOKEN_END, QKV_TOKEN_MASK};
    struct qkv_tokenizer_options options = {
        .size = sizeof options, .kind = QKV_TOKENIZER_BYTES, .specials = specials, .special_count = 3};
    struct qkv_tokenizer *tokenizer;
    struct qkv_model *model;
    OWNED_SPEC struct qkv_spec spec = {0};
    char json[1200];
    assert_ok(ctx, qkv_tokenizer_train(ctx, &options, "", 0, &tokenizer));
    snprintf(json, sizeof json, HEAD "%s}", version, qkv_tokenizer_vocab(tokenizer), stacks);
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "test", json, strlen(json), NULL, 0));
    assert_ok(ctx, qkv_model_create(ctx, &spec, 3, &model));
    for (size_t i = 0; i < qkv_model_parameters(model); i++) {
        const struct qkv_array *array = qkv_model_parameter(model, i);
        float *weights = test_weights_mutable(model, i);
        for (size_t k = 0; array->rank == 2 && k < qkv_array_elements(array); k++) weights[k] *= 8;
    }
    assert_ok(ctx, qkv_model_set_tokenizer(model, tokenizer));
    return model;
}

static struct qkv_model *make_model(struct qkv_context *ctx, const char *format, const char *placement) {
    char stacks[1024];
    snprintf(stacks, sizeof stacks, format, placement, placement);
    return make_model_of(ctx, 1, stacks);
}

static const char decoder[] = "\"decoder\":" STACK, encoder[] = "\"encoder\":" STACK,
                  pair[] = "\"encoder\":" STACK ",\"decoder\":" STACK,
                  classifier[] = "\"head\":{\"kind\":\"classify\",\"classes\":3},\"encoder\":" STACK,
                  hidden[] = "\"head\":{\"kind\":\"none\"},\"encoder\":" STACK;

/* ---- the hook --------------------------------------------------------------------------------------------------- */

enum { T = 9, C = 16, HEARD = 32 };
struct heard {
    struct qkv_hook_point points[HEARD];
    float values[HEARD][T * C];
    size_t count;
};

static void hear(void *user, const struct qkv_hook_point *point) {
    struct heard *h = user;
    assert_true(h->count < HEARD);
    assert_int_equal(point->rows * point->columns, T * C);
    memcpy(h->values[h->count], point->values, sizeof h->values[0]);
    h->points[h->count++] = *point;
}

static const float *heard_at(const struct heard *h, enum qkv_hook_kind kind, size_t layer) {
    for (size_t i = 0; i < h->count; i++)
        if (h->points[i].kind == kind && h->points[i].layer == layer) return h->values[i];
    fail_msg("nothing was heard of %s %zu", qkv_hook_name(kind), layer);
    return NULL;
}

static void run(struct qkv_model *model, struct heard *h, bool train, float *output) {
    struct qkv_context *ctx = qkv_model_context(model);
    struct qkv_pass_options o = {
        .size = sizeof o, .B = 1, .T = T, .logits = true, .train = train, .hook = h ? hear : NULL, .hook_user = h};
    int32_t ids[T];
    for (int t = 0; t < T; t++) ids[t] = 7 * t % 40;
    struct qkv_batch batch = {.B = 1, .T = T, .ids = ids};
    struct qkv_pass *pass;
    assert_ok(ctx, qkv_pass_create(model, &o, &pass));
    assert_ok(ctx, qkv_pass_forward(pass, &batch));
    struct qkv_array out = qkv_pass_output(pass);
    memcpy(output, out.data, out.bytes);
    if (train) assert_ok(ctx, qkv_pass_backward(pass));
    qkv_pass_free(pass);
}

/* In a pre-norm model the stream is the embedding and all that was added to it. */
static void a_stream_is_the_sum_of_its_sublayers(void **state) {
    struct qkv_context *ctx = make_context();
    struct qkv_model *model = make_model(ctx, decoder, "pre");
    static struct heard h;
    static float with[T * 300], without[T * 300];
    (void)state;
    for (int train = 0; train < 2; train++) {
        h.count = 0;
        run(model, &h, train, with);
        run(model, NULL, train, without);
        assert_memory_equal(with, without, sizeof with);
        assert_int_equal(h.count, 1 + 3 * 2 + 1);
        float sum[T * C];
        memcpy(sum, heard_at(&h, QKV_HOOK_EMBEDDING, 0), sizeof sum);
        for (size_t layer = 0; layer < 2; layer++) {
            const float *a = heard_at(&h, QKV_HOOK_ATTENTION, layer), *f = heard_at(&h, QKV_HOOK_FFN, layer);
            for (size_t i = 0; i < T * C; i++) sum[i] = (sum[i] + a[i]) + f[i];
            assert_memory_equal(sum, heard_at(&h, QKV_HOOK_RESIDUAL, layer), sizeof sum);
        }
        (void)heard_at(&h, QKV_HOOK_FINAL, 2);
    }
    qkv_model_free(model);
    qkv_context_free(ctx);
}

/* The last thing told of a model without a head is what it gives out. */
static void the_last_of_a_pass_is_its_output(void **state) {
    struct qkv_context *ctx = make_context();
    static struct heard h;
    float output[T * C];
    (void)state;
    for (int post = 0; post < 2; post++) {
        struct qkv_model *model = make_model(ctx, hidden, post ? "post" : "pre");
        h.count = 0;
        run(model, &h, false, output);
        assert_int_equal(h.points[h.count - 1].kind, post ? QKV_HOOK_RESIDUAL : QKV_HOOK_FINAL);
        assert_memory_equal(h.values[h.count - 1], output, sizeof output);
        if (post) { /* every block ends with a LayerNorm of weights one and zero */
            struct qkv_statistics s = qkv_statistics_of(heard_at(&h, QKV_HOOK_RESIDUAL, 0), T * C);
            assert_true(fabs(s.mean) < 1e-6);
            assert_true(fabs(s.deviation - 1) < 1e-4);
        }
        qkv_model_free(model);
    }
    struct qkv_model *model = make_model(ctx, decoder, "pre");
    struct qkv_pass_options o = {
        .size = sizeof o, .B = 1, .T = T, .train = true, .checkpoint = true, .hook = hear, .hook_user = &h};
    struct qkv_pass *pass;
    assert_fails(ctx, qkv_pass_create(model, &o, &pass), QKV_ARGUMENT, "one of checkpoint and hook");
    qkv_model_free(model);
    qkv_context_free(ctx);
}

/* ---- statistics ------------------------------------------------------------------------------------------------- */

static void statistics_are_of_finite_numbers(void **state) {
    const float x[] = {1, 3, NAN, 5, -INFINITY, 7, INFINITY, 4};
    struct qkv_statistics s = qkv_statistics_of(x, 8);
    (void)state;
    assert_int_equal(s.count, 8);
    assert_true(s.broken == 3.0 / 8);
    assert_true(s.mean == 4 && s.min == 1 && s.max == 7);
    assert_true(fabs(s.deviation - 2) < 1e-12); /* 9 + 1 + 1 + 9 + 0, of five */
    s = qkv_statistics_of(x + 2, 1);
    assert_true(s.broken == 1 && isnan(s.mean) && isnan(s.deviation) && isnan(s.min) && isnan(s.max));
}

/* ---- inspections ------------------------------------------------------------------------------------------------ */

static const struct qkv_inspect_row *row_of(const struct qkv_inspection *in, enum qkv_hook_kind kind, bool of_encoder,
                                            size_t layer) {
    const struct qkv_inspect_row *row;
    for (size_t i = 0; (row = qkv_inspection_row(in, i)); i++)
        if (row->kind == kind && row->encoder == of_encoder && row->layer == layer) return row;
    fail_msg("there is no %s %zu", qkv_hook_name(kind), layer);
    return NULL;
}

static double norm_of(struct qkv_model *model, const char *begin) {
    double sum = 0;
    for (size_t i = 0; i < qkv_model_parameters(model); i++) {
        const struct qkv_array *array = qkv_model_parameter(model, i);
        if (strncmp(array->name, begin, strlen(begin))) continue;
        for (size_t k = 0; k < qkv_array_elements(array); k++) sum += pow((double)test_gradient(model, i)[k], 2);
    }
    return sqrt(sum);
}

#define assert_near(a, b) assert_true(fabs((a) - (b)) <= 1e-6 * fabs(b))

/* Loss and gradients are those of a pass over the same ids. */
static void gradients_are_those_of_the_model(void **state) {
    static const char text[] = "To be, or not";
    enum { N = sizeof text - 1 };
    struct qkv_context *ctx = make_context();
    (void)state;
    for (int post = 0; post < 2; post++) {
        struct qkv_model *model = make_model(ctx, decoder, post ? "post" : "pre");
        struct qkv_inspect_options o = {.text = text, .text_size = N};
        struct qkv_inspection *in;
        assert_ok(ctx, qkv_inspect(model, &o, &in));
        struct qkv_pass_options pass_options = {.size = sizeof pass_options, .B = 1, .T = N, .train = true};
        int32_t ids[N], targets[N], *encoded;
        size_t count, counted;
        assert_ok(ctx, qkv_tokenizer_encode(ctx, qkv_model_tokenizer(model), text, N, true, &encoded, &count));
        assert_int_equal(count, N);
        for (size_t t = 0; t < N; t++) ids[t] = encoded[t], targets[t] = t + 1 < N ? encoded[t + 1] : QKV_IGNORE;
        qkv_free(encoded);
        struct qkv_batch batch = {.B = 1, .T = N, .ids = ids, .targets = targets};
        struct qkv_pass *pass;
        assert_ok(ctx, qkv_pass_create(model, &pass_options, &pass));
        qkv_model_clear_gradients(model);
        assert_ok(ctx, qkv_pass_forward(pass, &batch));
        assert_ok(ctx, qkv_pass_backward(pass));
        double norm, loss = qkv_inspection_loss(in, &counted, &norm), all = 0;
        assert_true(loss == qkv_pass_loss(pass, NULL));
        assert_int_equal(counted, N - 1);
        assert_near(norm, qkv_model_gradient_norm(model));
        assert_near(row_of(in, QKV_HOOK_EMBEDDING, false, 0)->gradient, norm_of(model, "decoder.embed."));
        assert_near(row_of(in, QKV_HOOK_ATTENTION, false, 1)->gradient, norm_of(model, "decoder.layers.1.attn"));
        assert_near(row_of(in, QKV_HOOK_FFN, false, 0)->gradient, norm_of(model, "decoder.layers.0.ffn"));
        /* Blocks, embedding and final norm are all there is, as the head is tied. */
        for (size_t layer = 0; layer < 2; layer++) {
            double block = row_of(in, QKV_HOOK_RESIDUAL, false, layer)->gradient;
            double parts = pow(row_of(in, QKV_HOOK_ATTENTION, false, layer)->gradient, 2) +
                           pow(row_of(in, QKV_HOOK_FFN, false, layer)->gradient, 2);
            assert_near(block * block, parts);
            all += block * block;
        }
        all += pow(row_of(in, QKV_HOOK_EMBEDDING, false, 0)->gradient, 2);
        if (!post) all += pow(row_of(in, QKV_HOOK_FINAL, false, 2)->gradient, 2);
        assert_near(all, norm * norm);
        assert_string_equal(qkv_inspection_about(in), "the next of 13 tokens");
        qkv_pass_free(pass);
        qkv_inspection_free(in);
        qkv_model_free(model);
    }
    qkv_context_free(ctx);
}

/* A prefix is seen in both directions, and only its last token has a target, as in a pass with the prefix. */
static void a_prefix_is_seen_and_what_follows_is_predicted(void **state) {
    struct qkv_context *ctx = make_context();
    struct qkv_model *model = make_model(ctx, decoder, "pre");
    const char text[] = "the same text";
    enum { N = sizeof text - 1 };
    int32_t ids[N], targets[N];
    (void)state;
    for (int32_t prefix = 0; prefix <= N; prefix += 4) {
        const struct qkv_inspect_options o = {.text = text, .text_size = N, .prefix = &prefix};
        struct qkv_inspection *in;
        assert_ok(ctx, qkv_inspect(model, &o, &in));
        for (int32_t t = 0; t < N; t++) ids[t] = in->look.decoder.ids[t];
        for (int32_t t = 0; t < N; t++) targets[t] = t + 1 < N && t + 1 >= prefix ? ids[t + 1] : QKV_IGNORE;
        struct qkv_pass_options options = {.size = sizeof options, .B = 1, .T = N};
        struct qkv_batch batch = {.B = 1, .T = N, .ids = ids, .targets = targets, .prefix = &prefix};
        struct qkv_pass *pass;
        size_t counted, expected;
        assert_ok(ctx, qkv_pass_create(model, &options, &pass));
        assert_ok(ctx, qkv_pass_forward(pass, &batch));
        assert_near(qkv_inspection_loss(in, &counted, NULL), qkv_pass_loss(pass, &expected));
        assert_int_equal(counted, expected);
        assert_true(!prefix || strstr(qkv_inspection_about(in), " behind a prefix of "));
        qkv_pass_free(pass);
        qkv_inspection_free(in);
    }
    qkv_model_free(model);
    qkv_context_free(ctx);
}

/* The ids of a text are looked into as the text is, also by a model without a tokenizer. */
static void ids_are_read_as_their_text_is(void **state) {
    struct qkv_context *ctx = make_context();
    const char *const formats[] = {decoder, encoder};
    (void)state;
    for (int k = 0; k < 2; k++) {
        struct qkv_model *model = make_model(ctx, formats[k], "pre"), *bare;
        const int32_t ids[] = {'a', 'b', 'c', 'a'};
        const struct qkv_inspect_options text = {.text = "abca", .text_size = 4}, o = {.ids = ids, .id_count = 4};
        struct qkv_inspection *a, *b;
        size_t one, other;
        assert_ok(ctx, qkv_inspect(model, &text, &a));
        assert_ok(ctx, qkv_inspect(model, &o, &b));
        assert_true(qkv_inspection_loss(a, &one, NULL) == qkv_inspection_loss(b, &other, NULL));
        assert_int_equal(one, other);
        qkv_inspection_free(b);
        assert_ok(ctx, qkv_model_create(ctx, qkv_model_spec(model), 3, &bare));
        for (size_t i = 0; i < qkv_model_parameters(model); i++)
            memcpy(test_weights_mutable(bare, i), test_weights(model, i),
                   qkv_array_elements(qkv_model_parameter(model, i)) * sizeof(float));
        assert_ok(ctx, qkv_inspect(bare, &o, &b));
        assert_true(qkv_inspection_loss(a, &one, NULL) == qkv_inspection_loss(b, &other, NULL));
        assert_fails(ctx, qkv_inspect(bare, &text, &(struct qkv_inspection *){NULL}), QKV_ARGUMENT,
                     "or give token ids");
        qkv_inspection_free(a), qkv_inspection_free(b);
        qkv_model_free(model), qkv_model_free(bare);
    }
    qkv_context_free(ctx);
}

static void broken_numbers_are_found_where_they_begin(void **state) {
    struct qkv_context *ctx = make_context();
    struct qkv_model *model = make_model(ctx, decoder, "pre");
    struct qkv_inspect_options o = {.text = "hello", .text_size = 5};
    struct qkv_inspection *in;
    (void)state;
    for (size_t i = 0; i < qkv_model_parameters(model); i++)
        if (!strcmp(qkv_model_parameter(model, i)->name, "decoder.layers.1.attn.o.weight"))
            test_weights_mutable(model, i)[0] = INFINITY;
    assert_ok(ctx, qkv_inspect(model, &o, &in));
    assert_true(row_of(in, QKV_HOOK_RESIDUAL, false, 0)->values.broken == 0);
    assert_true(row_of(in, QKV_HOOK_ATTENTION, false, 1)->values.broken == 1.0 / 16); /* one channel of each token */
    assert_true(row_of(in, QKV_HOOK_FFN, false, 1)->values.broken == 1);
    assert_true(isnan(row_of(in, QKV_HOOK_FFN, false, 1)->values.mean));
    assert_false(isfinite(qkv_inspection_loss(in, NULL, NULL)) != 0);
    const char *name = "broken";
    assert_ok(ctx, qkv_inspections_write_json(ctx, &in, &name, 1, test_path("broken.json")));
    char *json = test_read_file(test_path("broken.json"), NULL);
    assert_non_null(strstr(json, "\"what\":\"ffn\",\"count\":80,\"mean\":null"));
    free(json);
    qkv_inspection_free(in);
    qkv_model_free(model);
    qkv_context_free(ctx);
}

/* The target of the loss in the other kinds of models. */
static void all_kinds_can_be_looked_into(void **state) {
    static const struct {
        const char *format, *text, *target, *about;
        size_t counted, rows;
    } cases[] = {
        {decoder, "x", NULL, NULL, 0, 8},
        {pair, "abc", "de", "the next of 3 tokens", 3, 8 + 10},
        {pair, "abc", NULL, NULL, SIZE_MAX, 8 + 10},
        {encoder, "abcd", NULL, "each again of 4 tokens", 4, 8},
        {encoder, "a<mask>cd", NULL, "each again of 4 tokens", 3, 8},
        {encoder, "a<mask>cd", "abcd", "those under the masks of 4 tokens", 1, 8},
        {encoder, "abcd", "abcx", "each again of 4 tokens", 4, 8},
        {classifier, "abc", "2", "the class by its number", 1, 8},
        {classifier, "abc", NULL, "likeliest", 1, 8},
        {hidden, "abc", NULL, NULL, 0, 8},
    };
    struct qkv_context *ctx = make_context();
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qkv_model *model = make_model(ctx, cases[i].format, "pre");
        struct qkv_inspect_options o = {
            .text = cases[i].text, .text_size = strlen(cases[i].text), .target = cases[i].target};
        struct qkv_inspection *in;
        size_t rows = 0, counted;
        if (o.target) o.target_size = strlen(o.target);
        assert_ok(ctx, qkv_inspect(model, &o, &in));
        while (qkv_inspection_row(in, rows)) rows++;
        assert_int_equal(rows, cases[i].rows);
        double norm, loss = qkv_inspection_loss(in, &counted, &norm);
        if (cases[i].counted != SIZE_MAX) assert_int_equal(counted, cases[i].counted);
        assert_int_equal(isfinite(loss) != 0, counted > 0);
        assert_int_equal(isfinite(norm) != 0, counted > 0);
        if (cases[i].about && !strstr(qkv_inspection_about(in), cases[i].about))
            fail_msg("\"%s\" is not about %s", qkv_inspection_about(in), cases[i].about);
        if (cases[i].format == pair) assert_true(row_of(in, QKV_HOOK_CROSS, false, 1)->gradient > 0);
        if (cases[i].format == pair) assert_true(row_of(in, QKV_HOOK_RESIDUAL, true, 0)->gradient > 0);
        qkv_inspection_free(in);
        qkv_model_free(model);
    }
    qkv_context_free(ctx);
}

#define EXPERTS                                                                                                        \
    "\"decoder\":{\"layers\":3,\"attention\":{\"heads\":2},\"norm\":{\"placement\":\"pre\"},\"ffn\":{\"d_ff\":8,"      \
    "\"experts\":{\"count\":7,\"top_k\":%d}},\"kinds\":{\"dense\":{\"ffn\":{\"experts\":null}},\"sparse\":{}},"        \
    "\"pattern\":[\"sparse\",\"dense\",\"sparse\"]}"

/* If all experts are chosen, each has all rows; if a router's scores are equal, those of the lowest index have them,
 * as the rule for ties promises; else each row is somewhere. */
static void rows_of_experts_are_counted(void **state) {
    enum { N = 12, E = 7 };
    struct qkv_context *ctx = make_context();
    const struct qkv_inspect_options o = {.text = "To be, or no", .text_size = N};
    (void)state;
    for (size_t k = 1; k <= E; k++)
        for (int tied = 0; tied < 2; tied++) {
            char format[600];
            snprintf(format, sizeof format, EXPERTS, (int)k);
            struct qkv_model *model = make_model_of(ctx, 2, format);
            for (size_t i = 0; tied && i < qkv_model_parameters(model); i++)
                if (strstr(qkv_model_parameter(model, i)->name, "router"))
                    memset(test_weights_mutable(model, i), 0,
                           qkv_array_elements(qkv_model_parameter(model, i)) * sizeof(float));
            struct qkv_inspection *in;
            assert_ok(ctx, qkv_inspect(model, &o, &in));
            for (size_t i = 0; i < 2; i++) {
                const struct qkv_inspect_experts *of = qkv_inspection_experts(in, i);
                float all = 0;
                size_t none = 0;
                assert_true(of && of->layer == 2 * i && !of->encoder && of->count == E && of->top_k == k);
                for (size_t e = 0; e < E; e++) {
                    if (tied || k == E) assert_true(of->rows[e] == (e < k ? N : 0));
                    assert_true(of->load >= (double)of->rows[e] * E / (double)(N * k) - 1e-9);
                    all += of->rows[e];
                    none += of->rows[e] == 0;
                }
                assert_true(all == N * (float)k);
                assert_int_equal(of->unused, none);
                if (tied) assert_near(of->load, E / (double)k);
            }
            assert_null(qkv_inspection_experts(in, 2));
            qkv_inspection_free(in);
            qkv_model_free(model);
        }
    qkv_context_free(ctx);
}

static void what_makes_no_sense_is_refused(void **state) {
    static const struct {
        const char *format, *text, *target, *part;
    } cases[] = {
        {decoder, "abc", "d",
         "this model has no target: only encoder-decoders, classifiers and models that fill masks do"},
        {decoder, "", NULL, "the prompt is empty"},
        {decoder, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", NULL, "34 tokens, but the model's context is 24"},
        {classifier, "abc", "3", "the target \"3\" is no class of this model, which has 3"},
        {encoder, "a<mask>c", "abcd", "the target has 4 tokens and the prompt 3"},
        {hidden, "abc", "abc", "this model has no target"},
    };
    struct qkv_context *ctx = make_context();
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qkv_model *model = make_model(ctx, cases[i].format, "pre");
        struct qkv_inspect_options o = {
            .text = cases[i].text, .text_size = strlen(cases[i].text), .target = cases[i].target};
        struct qkv_inspection *in;
        if (o.target) o.target_size = strlen(o.target);
        assert_fails(ctx, qkv_inspect(model, &o, &in), QKV_ARGUMENT, cases[i].part);
        assert_null(in);
        qkv_model_free(model);
    }
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_is_the_sum_of_its_sublayers),
        cmocka_unit_test(the_last_of_a_pass_is_its_output),
        cmocka_unit_test(statistics_are_of_finite_numbers),
        cmocka_unit_test(gradients_are_those_of_the_model),
        cmocka_unit_test(a_prefix_is_seen_and_what_follows_is_predicted),
        cmocka_unit_test(ids_are_read_as_their_text_is),
        cmocka_unit_test(broken_numbers_are_found_where_they_begin),
        cmocka_unit_test(all_kinds_can_be_looked_into),
        cmocka_unit_test(rows_of_experts_are_counted),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
