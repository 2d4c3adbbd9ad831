/* Attention on a text: its weights, its JSON, and the weights that its pages store. */
/* labels: quick */
#include "report_fixture.h"
#include "weights.h"

/* ---- attention -------------------------------------------------------------------------------------------------- */

static struct qkv_model *make_model(struct qkv_context *ctx, const char *stacks, int vocab) {
    struct qkv_model *model;
    OWNED_SPEC struct qkv_spec spec = {0};
    struct qkv_tokenizer *tokenizer;
    static const char *const specials[] = {QKV_TOKEN_BEGIN, QKV_TOKEN_END};
    struct qkv_tokenizer_options options = {
        .size = sizeof options, .kind = QKV_TOKENIZER_BYTES, .specials = specials, .special_count = 2};
    char json[1024];
    int n =
        snprintf(json, sizeof json, "{\"format\":\"qkv\",\"version\":1,\"vocab\":%d,\"d_model\":16,\"context\":300,%s}",
                 vocab, stacks);
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "test", json, (size_t)n, NULL, 0));
    assert_ok(ctx, qkv_model_create(ctx, &spec, 3, &model));
    for (size_t i = 0; i < qkv_model_parameters(model); i++) {
        float *weights = test_weights_mutable(model, i);
        for (size_t k = 0; k < qkv_array_elements(qkv_model_parameter(model, i)); k++) weights[k] *= 20;
    }
    assert_ok(ctx, qkv_tokenizer_train(ctx, &options, "", 0, &tokenizer));
    assert_ok(ctx, qkv_model_set_tokenizer(model, tokenizer));
    return model;
}

#define DECODER "\"decoder\":{\"layers\":2,\"attention\":{\"heads\":4}}"
#define ENCODER "\"encoder\":{\"layers\":1,\"attention\":{\"heads\":2}}"

static void weights_are_those_of_the_model(void **state) {
    struct qkv_context *ctx = make_context();
    struct qkv_model *model = make_model(ctx, DECODER, 258);
    struct qkv_look_options o = {.text = "the cat sat", .text_size = 11};
    struct qkv_attention_view_head a;
    struct qkv_attention_view *look;
    (void)state;
    assert_ok(ctx, qkv_look_create(model, &o, &look));
    assert_int_equal(qkv_look_tokens(look, false), 11);
    assert_int_equal(qkv_look_tokens(look, true), 0);
    size_t size;
    assert_memory_equal(qkv_look_token(look, false, 4, &size), "c", 1);
    assert_int_equal(size, 1);
    qkv_look_token(look, false, 11, &size);
    assert_int_equal(size, 0);
    assert_true(qkv_attention_view_head(look, 1, &a));
    assert_false(qkv_attention_view_head(look, 2, &a));
    assert_string_equal(a.name, "decoder.layers.1.attn");
    assert_int_equal(a.layer, 1);
    float rows[11 * 11], mean[11 * 11] = {0}, all[11 * 11];
    for (size_t h = 0; h < 4; h++) {
        double entropy = 0, distance = 0;
        struct qkv_head_statistics s;
        assert_ok(ctx, qkv_look_weights(look, 1, h, 0, 11, rows));
        for (size_t i = 0; i < 11; i++) {
            double sum = 0;
            for (size_t j = 0; j < 11; j++) {
                double w = (double)rows[i * 11 + j];
                if (j > i) assert_true(w == 0);
                sum += w;
                if (w > 0) entropy -= w * log2(w) / 11;
                distance += w * (i > j ? (double)(i - j) : (double)(j - i)) / 11;
                mean[i * 11 + j] += rows[i * 11 + j] / 4;
            }
            assert_true(fabs(sum - 1) < 1e-5);
        }
        assert_ok(ctx, qkv_look_head(look, 1, h, &s));
        assert_true(fabs(s.entropy - entropy) < 1e-9);
        assert_true(fabs(s.distance - distance) < 1e-9);
    }
    assert_ok(ctx, qkv_look_weights(look, 1, SIZE_MAX, 0, 11, all));
    for (size_t k = 0; k < 121; k++) assert_true(fabsf(all[k] - mean[k]) < 1e-6f);
    struct qkv_head_statistics s;
    assert_fails(ctx, qkv_look_head(look, 1, 4, &s), QKV_ARGUMENT, "no head 4");
    struct qkv_look_selection none = {.layer = 2, .head = -1};
    assert_fails(ctx, qkv_look_check(look, &none), QKV_ARGUMENT, "no layer 2: this model has layers 0 to 1");
    none = (struct qkv_look_selection){.layer = -1, .head = 4};
    assert_fails(ctx, qkv_look_write_page(look, &none, test_path("no.html")), QKV_ARGUMENT, "heads 0 to 3");
    assert_fails(ctx, qkv_look_write_json(look, &none, test_path("no.json")), QKV_ARGUMENT, "heads 0 to 3");
    qkv_look_free(look);
    qkv_model_free(model);
    qkv_context_free(ctx);
}

/* The JSON that is written can be read, and its rows are the weights. */
static void json_holds_all_weights(void **state) {
    struct qkv_context *ctx = make_context();
    struct qkv_model *model = make_model(ctx, ENCODER "," DECODER, 258);
    struct qkv_look_options o = {.text = "ab\xE2</script>", .text_size = 12, .target = "xyz", .target_size = 3};
    struct qkv_look_selection one = {.title = "<m>", .layer = 1, .head = 2};
    const char *path = test_path("look.json");
    struct qkv_attention_view *look;
    float rows[4 * 13];
    (void)state;
    assert_ok(ctx, qkv_look_create(model, &o, &look));
    assert_int_equal(qkv_look_tokens(look, true), 13); /* and an end */
    assert_int_equal(qkv_look_tokens(look, false), 4); /* a begin, too */
    assert_ok(ctx, qkv_look_write_json(look, &one, path));
    json_t *root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    assert_string_equal(json_string_value(json_object_get(root, "model")), "<m>");
    json_t *texts = json_object_get(json_object_get(json_object_get(root, "tokens"), "encoder"), "texts");
    assert_string_equal(json_string_value(json_array_get(texts, 2)), "\\xe2");
    assert_string_equal(json_string_value(json_array_get(texts, 12)), QKV_TOKEN_END);
    json_t *attentions = json_object_get(root, "attentions");
    assert_int_equal(json_array_size(attentions), 2); /* self and cross of decoder layer 1 */
    json_t *cross = json_array_get(attentions, 1);
    assert_string_equal(json_string_value(json_object_get(cross, "kind")), "cross");
    assert_string_equal(json_string_value(json_object_get(cross, "keys")), "encoder");
    json_t *heads = json_object_get(cross, "heads");
    assert_int_equal(json_array_size(heads), 1);
    json_t *weights = json_object_get(json_array_get(heads, 0), "weights");
    assert_int_equal(json_array_size(weights), 4);
    assert_ok(ctx, qkv_look_weights(look, 4, 2, 0, 4, rows));
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(json_array_size(json_array_get(weights, i)), 13);
        for (size_t j = 0; j < 13; j++) {
            double w = json_number_value(json_array_get(json_array_get(weights, i), j));
            assert_true(fabs(w - (double)rows[i * 13 + j]) < 1e-6);
        }
    }
    json_decref(root);
    qkv_look_free(look);
    o.target = NULL;
    assert_ok(ctx, qkv_look_create(model, &o, &look)); /* what greedy search finds */
    assert_true(qkv_look_tokens(look, false) >= 1);
    qkv_look_free(look);
    qkv_model_free(model);
    qkv_context_free(ctx);
}

static unsigned char *decode(const json_t *value, size_t *size) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *text = json_string_value(value);
    unsigned char *out = malloc(strlen(text) + 3);
    unsigned bits = 0, have = 0;
    for (*size = 0; *text && *text != '='; text++) {
        bits = bits << 6 | (unsigned)(strchr(digits, *text) - digits);
        have += 6;
        if (have < 8) continue;
        have -= 8;
        out[(*size)++] = (unsigned char)(bits >> have & 255);
    }
    return out;
}

static void pages_of_short_texts_hold_every_weight(void **state) {
    struct qkv_context *ctx = make_context();
    struct qkv_model *model = make_model(ctx, DECODER, 258);
    char text[40];
    struct qkv_look_options o = {.text = text, .text_size = sizeof text};
    const char *path = test_path("look.html");
    struct qkv_attention_view *look;
    float rows[40 * 40];
    size_t size, at = 0;
    (void)state;
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)('a' + i * i % 26);
    assert_ok(ctx, qkv_look_create(model, &o, &look));
    assert_ok(ctx, qkv_look_write_page(look, NULL, path));
    json_t *root = page_data(path);
    assert_string_equal(json_string_value(json_object_get(root, "stored")), "all");
    json_t *attention = json_array_get(json_object_get(root, "attentions"), 1);
    assert_true(json_is_true(json_object_get(attention, "causal")));
    json_t *head = json_array_get(json_object_get(attention, "heads"), 3);
    unsigned char *bytes = decode(json_object_get(head, "weights"), &size);
    assert_int_equal(size, 40 * 41 / 2);
    assert_ok(ctx, qkv_look_weights(look, 1, 3, 0, 40, rows));
    for (size_t i = 0; i < 40; i++)
        for (size_t j = 0; j <= i; j++) {
            double w = pow(bytes[at++] / 255.0, 2), real = (double)rows[i * 40 + j];
            assert_true(fabs(w - real) <= sqrt(real) / 255 + 5e-6);
        }
    free(bytes);
    json_decref(root);
    qkv_look_free(look);
    qkv_model_free(model);
    qkv_context_free(ctx);
}

/* One row of the head as pages of long texts keep it: weights of the keys (−1: not kept), and the sum of the others. */
static const unsigned char *read_row(const unsigned char *at, size_t keys, double *weights, double *rest,
                                     size_t *kept) {
    size_t n = *kept = *at++, key = 0;
    *rest = pow(*at++ / 255.0, 2);
    for (size_t k = 0; k < keys; k++) weights[k] = -1;
    for (size_t i = 0; i < n; i++) {
        size_t far = 0;
        for (unsigned shift = 0;; shift += 7) {
            far |= (size_t)(*at & 127) << shift;
            if (!(*at++ & 128)) break;
        }
        assert_true(i == 0 || far > 0);
        key += far;
        assert_true(key < keys && *at);
        weights[key] = pow(*at++ / 255.0, 2);
    }
    return at;
}

/* For more than 100 tokens, a row has its 24 largest weights and the sum of the others, in all heads. */
static void pages_of_long_texts_hold_the_largest_and_the_sum_of_others(void **state) {
    struct qkv_context *ctx = make_context();
    static const char *const stacks[] = {"\"encoder\":{\"layers\":5,\"attention\":{\"heads\":16}}",
                                         "\"decoder\":{\"layers\":3,\"attention\":{\"heads\":2}}"};
    static const size_t lengths[][2] = {{300, 300}, {101, 160}};
    static char text[300];
    static float row[300];
    static double shown[300];
    struct qkv_random random = test_random(7);
    const char *path = test_path("long.html");
    (void)state;
    for (int causal = 0; causal < 2; causal++) {
        struct qkv_model *model = make_model(ctx, stacks[causal], 258);
        struct qkv_attention_view *look;
        size_t T = test_between(&random, lengths[causal][0], lengths[causal][1]), size;
        struct qkv_look_options o = {.text = text, .text_size = T};
        for (size_t i = 0; i < T; i++) text[i] = (char)('a' + qkv_random_below(&random, 23));
        assert_ok(ctx, qkv_look_create(model, &o, &look));
        assert_ok(ctx, qkv_look_write_page(look, NULL, path));
        json_t *root = page_data(path);
        assert_string_equal(json_string_value(json_object_get(root, "stored")), "most");
        assert_int_equal(json_integer_value(json_object_get(root, "kept")), 24);
        json_t *heads = json_object_get(json_array_get(json_object_get(root, "attentions"), 2), "heads");
        unsigned char *bytes = decode(json_object_get(json_array_get(heads, 1), "weights"), &size);
        const unsigned char *at = bytes;
        for (size_t i = 0; i < T; i++) {
            double rest, others = 0, least = 2;
            size_t kept;
            at = read_row(at, T, shown, &rest, &kept);
            assert_true(kept <= 24 && kept <= (causal ? i + 1 : T));
            assert_ok(ctx, qkv_look_weights(look, 2, 1, i, 1, row));
            for (size_t j = 0; j < T; j++) {
                double real = (double)row[j];
                if (shown[j] >= 0) {
                    assert_true(fabs(shown[j] - real) <= sqrt(real) / 255 + 5e-6);
                    least = fmin(least, real);
                } else {
                    others += real;
                }
            }
            for (size_t j = 0; j < T; j++)
                assert_true(shown[j] >= 0 || (double)row[j] <= fmax(least, kept < 24 ? 4e-6 : 0));
            assert_true(fabs(rest - others) <= sqrt(others) / 255 + 2e-5);
        }
        assert_true(at == bytes + size);
        free(bytes);
        json_decref(root);
        qkv_look_free(look);
        qkv_model_free(model);
    }
    qkv_context_free(ctx);
}

/* 12 layers of 12 heads on 500 tokens. */
static void a_page_of_144_heads_on_500_tokens_is_below_6_mb(void **state) {
    struct qkv_context *ctx = make_context();
    OWNED_SPEC struct qkv_spec spec = {0};
    struct qkv_model *model;
    struct qkv_attention_view *look;
    static const char json[] = "{\"format\":\"qkv\",\"version\":1,\"vocab\":258,\"d_model\":24,\"context\":500,"
                               "\"decoder\":{\"layers\":12,\"attention\":{\"heads\":12},\"ffn\":{\"d_ff\":8}}}";
    static const char *const specials[] = {QKV_TOKEN_BEGIN, QKV_TOKEN_END};
    struct qkv_tokenizer_options options = {
        .size = sizeof options, .kind = QKV_TOKENIZER_BYTES, .specials = specials, .special_count = 2};
    struct qkv_tokenizer *tokenizer;
    static char text[500];
    struct qkv_look_options o = {.text = text, .text_size = sizeof text};
    struct stat info;
    (void)state;
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "test", json, sizeof json - 1, NULL, 0));
    assert_ok(ctx, qkv_model_create(ctx, &spec, 3, &model));
    assert_ok(ctx, qkv_tokenizer_train(ctx, &options, "", 0, &tokenizer));
    assert_ok(ctx, qkv_model_set_tokenizer(model, tokenizer));
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)('a' + i * i % 23);
    assert_ok(ctx, qkv_look_create(model, &o, &look));
    assert_ok(ctx, qkv_look_write_page(look, NULL, test_path("144.html")));
    assert_int_equal(stat(test_path("144.html"), &info), 0);
    assert_true(info.st_size < 6000000);
    qkv_look_free(look);
    qkv_model_free(model);
    qkv_context_free(ctx);
}

static void what_cannot_be_read_is_refused(void **state) {
    struct qkv_context *ctx = make_context();
    struct qkv_model *model = make_model(ctx, DECODER, 258), *bare;
    struct qkv_look_options o = {.text = "", .text_size = 0};
    struct qkv_attention_view *look;
    char *text = malloc(400);
    (void)state;
    assert_fails(ctx, qkv_look_create(model, &o, &look), QKV_ARGUMENT, "the prompt is empty");
    assert_null(look);
    memset(text, 'a', 400);
    o = (struct qkv_look_options){.text = text, .text_size = 301};
    assert_fails(ctx, qkv_look_create(model, &o, &look), QKV_ARGUMENT, "301 tokens, but the model's context is 300");
    o = (struct qkv_look_options){.text = text, .text_size = 3, .target = "x", .target_size = 1};
    assert_fails(ctx, qkv_look_create(model, &o, &look), QKV_ARGUMENT, "this one has only a decoder");
    assert_ok(ctx, qkv_model_create(ctx, qkv_model_spec(model), 1, &bare));
    o = (struct qkv_look_options){.text = text, .text_size = 3};
    assert_fails(ctx, qkv_look_create(bare, &o, &look), QKV_ARGUMENT, "no tokenizer");
    o = (struct qkv_look_options){.text = text, .text_size = 1};
    assert_ok(ctx, qkv_look_create(model, &o, &look)); /* one token attends to itself */
    float one;
    assert_ok(ctx, qkv_look_weights(look, 0, 0, 0, 1, &one));
    assert_true(one == 1);
    assert_ok(ctx, qkv_look_write_page(look, NULL, test_path("one.html")));
    qkv_look_free(look);
    for (size_t i = 0; i < qkv_model_parameters(model); i++) test_weights_mutable(model, i)[0] = NAN;
    o.text_size = 5;
    assert_fails(ctx, qkv_look_create(model, &o, &look), QKV_NUMBER, "are not finite");
    free(text);
    qkv_model_free(bare);
    qkv_model_free(model);
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_those_of_the_model),
        cmocka_unit_test(json_holds_all_weights),
        cmocka_unit_test(pages_of_short_texts_hold_every_weight),
        cmocka_unit_test(pages_of_long_texts_hold_the_largest_and_the_sum_of_others),
        cmocka_unit_test(a_page_of_144_heads_on_500_tokens_is_below_6_mb),
        cmocka_unit_test(what_cannot_be_read_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
