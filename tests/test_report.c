/* The report room: JSON that may stand inside a page, pages that hold nothing foreign, attention on a text, and runs read from
 * folders that nobody vouches for. */
#include "test.h"

#include <jansson.h>

#include "report/report.h"

#define assert_fails(ctx, call, expected, part)                                                                        \
    do {                                                                                                               \
        assert_status(ctx, call, expected);                                                                            \
        if (ctx) test_message_has(ctx, part, __FILE__, __LINE__);                                                      \
    } while (0)

static struct qkv_context *make_context(void) {
    struct qkv_context *ctx;
    struct qkv_context_options options = {.threads = 1};
    assert_ok(ctx, qkv_context_create(&ctx, &options));
    return ctx;
}

/* ---- JSON ---------------------------------------------------------------------------------------------------------------- */

static char *json_of(const char *text, size_t size) {
    struct qkv_json json = {0};
    qkv_json_string(&json, text, size);
    assert_int_equal(json.status, QKV_OK);
    return json.text.data;
}

static void strings_are_escaped(void **state) {
    static const struct {
        const char *text, *json;
    } cases[] = {
        {"", "\"\""},
        {"plain", "\"plain\""},
        {"</script><script>", "\"\\u003c/script\\u003e\\u003cscript\\u003e\""},
        {"<!--", "\"\\u003c!--\""},
        {"a&b", "\"a\\u0026b\""},
        {"\"\\", "\"\\\"\\\\\""},
        {"\n\t\x01\x7f", "\"\\n\\u0009\\u0001\\u007f\""},
        {"Größe \xE2\x82\xAC", "\"Größe \xE2\x82\xAC\""},
        {"\xE2\x80\xA8|\xE2\x80\xA9", "\"\\u2028|\\u2029\""},
        {"\xFF", "\"\\ufffd\""},
        {"\xE2\x82", "\"\\ufffd\\ufffd\""},            /* cut off */
        {"\xC0\xBC", "\"\\ufffd\\ufffd\""},            /* an overlong '<' */
        {"\xED\xA0\x80", "\"\\ufffd\\ufffd\\ufffd\""}, /* half of a surrogate pair */
        {"\xF0\x9F\x98\x80", "\"\xF0\x9F\x98\x80\""},
    };
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        char *json = json_of(cases[i].text, strlen(cases[i].text));
        assert_string_equal(json, cases[i].json);
        free(json);
    }
    char *json = json_of("a\0b", 3);
    assert_string_equal(json, "\"a\\u0000b\"");
    free(json);
}

/* Whatever the bytes, a parser reads the string, and nothing in it can end an element. */
static void any_bytes_are_a_string(void **state) {
    struct qkv_random random = test_random(1);
    static const char favoured[] = "<>&\"\\/\n\xE2\x80\xA8script!-";
    (void)state;
    for (int round = 0; round < 500; round++) {
        char text[64];
        size_t n = test_between(&random, 0, sizeof text);
        for (size_t i = 0; i < n; i++)
            text[i] = qkv_random_below(&random, 2) ? favoured[qkv_random_below(&random, sizeof favoured - 1)]
                                                   : (char)qkv_random_below(&random, 256);
        char *json = json_of(text, n);
        assert_null(strpbrk(json, "<>&\n\r"));
        assert_null(strstr(json, "\xE2\x80\xA8"));
        json_t *value = json_loads(json, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        assert_non_null(value);
        assert_true(json_is_string(value));
        json_decref(value);
        free(json);
    }
}

static void commas_and_numbers(void **state) {
    struct qkv_json json = {0};
    (void)state;
    qkv_json_begin(&json, '{');
    qkv_json_put_text(&json, "a", NULL);
    qkv_json_put_number(&json, "b", 0.1, 6);
    qkv_json_put_number(&json, "c", NAN, 6);
    qkv_json_put_number(&json, "d", -INFINITY, 6);
    qkv_json_put_number(&json, "e", 1e-9, 6);
    qkv_json_put_integer(&json, "f", INT64_MIN);
    qkv_json_key(&json, "g");
    qkv_json_begin(&json, '[');
    qkv_json_begin(&json, '[');
    qkv_json_end(&json, ']');
    qkv_json_bool(&json, true);
    qkv_json_bool(&json, false);
    qkv_json_end(&json, ']');
    qkv_json_put_number(&json, "h", 1234567, 3);
    qkv_json_end(&json, '}');
    assert_int_equal(json.status, QKV_OK);
    assert_string_equal(json.text.data, "{\"a\":null,\"b\":0.1,\"c\":null,\"d\":null,\"e\":1e-09,"
                                        "\"f\":-9223372036854775808,\"g\":[[],true,false],\"h\":1.23e+06}");
    qkv_buffer_free(&json.text);
}

static void base64_as_in_rfc_4648(void **state) {
    static const char *const cases[][2] = {{"", "\"\""},
                                           {"f", "\"Zg==\""},
                                           {"fo", "\"Zm8=\""},
                                           {"foo", "\"Zm9v\""},
                                           {"foob", "\"Zm9vYg==\""},
                                           {"fooba", "\"Zm9vYmE=\""},
                                           {"foobar", "\"Zm9vYmFy\""}};
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qkv_json json = {0};
        qkv_json_base64(&json, (const unsigned char *)cases[i][0], strlen(cases[i][0]));
        assert_string_equal(json.text.data, cases[i][1]);
        qkv_buffer_free(&json.text);
    }
    struct qkv_json json = {0};
    unsigned char many[3000] = {0};
    qkv_json_base64(&json, many, sizeof many);
    assert_int_equal(json.text.size, 4002);
    qkv_buffer_free(&json.text);
}

/* ---- pages ------------------------------------------------------------------------------------------------------------------ */

static char *read_text(const char *path) {
    struct qkv_map map;
    assert_int_equal(qkv_map_file(NULL, path, &map), QKV_OK);
    char *text = qkv_copy_bytes(NULL, map.data, map.size);
    assert_non_null(text);
    qkv_unmap_file(&map);
    return text;
}

static size_t count_of(const char *text, const char *part) {
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part)) n++;
    return n;
}

static void assets_cannot_end_their_element(void **state) {
    (void)state;
    assert_true(qkv_asset_count >= 6);
    for (size_t i = 0; i < qkv_asset_count; i++) {
        char *text = qkv_copy_bytes(NULL, qkv_assets[i].data, qkv_assets[i].size);
        assert_null(strstr(text, "</script"));
        assert_null(strstr(text, "</style"));
        assert_null(strstr(text, "<!--"));
        assert_null(strstr(text, "innerHTML"));
        assert_null(strstr(text, "@import"));
        assert_null(strstr(text, "url("));
        free(text);
    }
    assert_null(qkv_asset_find("nothing.js"));
}

static void a_page_holds_what_it_was_given(void **state) {
    struct qkv_context *ctx = make_context();
    static const char *const scripts[] = {"chart.js", NULL};
    const char *path = test_path("page.html");
    struct qkv_json json = {.ctx = ctx};
    (void)state;
    qkv_json_text(&json, "</script><script>alert(1)</script>");
    struct qkv_page page = {.title = "<b>\"t\" & \xFF</b>",
                            .summary = "</p><script>",
                            .scripts = scripts,
                            .data = json.text.data,
                            .data_size = json.text.size};
    assert_ok(ctx, qkv_page_write(ctx, &page, path));
    char *text = read_text(path);
    assert_int_equal(count_of(text, "<script"), 3); /* data, page.js, chart.js */
    assert_int_equal(count_of(text, "</script>"), 3);
    assert_non_null(strstr(text, "<h1>&lt;b&gt;&quot;t&quot; &amp; \xEF\xBF\xBD&lt;/b&gt;</h1>"));
    assert_non_null(strstr(text, "Content-Security-Policy\" content=\"default-src 'none';"));
    assert_null(strstr(text, "http-equiv=\"refresh\""));
    assert_null(strstr(text, "unsafe-"));
    free(text);
    page.refresh = 7;
    assert_ok(ctx, qkv_page_write(ctx, &page, path));
    text = read_text(path);
    assert_non_null(strstr(text, "<meta http-equiv=\"refresh\" content=\"7\">"));
    free(text);
    page.scripts = (const char *const[]){"nothing.js", NULL};
    assert_fails(ctx, qkv_page_write(ctx, &page, path), QKV_ARGUMENT, "nothing.js");
    text = read_text(path); /* the old one is still there */
    assert_non_null(strstr(text, "content=\"7\""));
    free(text);
    qkv_buffer_free(&json.text);
    qkv_context_free(ctx);
}

/* ---- attention ---------------------------------------------------------------------------------------------------------------- */

static struct qkv_model *make_model(struct qkv_context *ctx, const char *stacks, int vocab) {
    struct qkv_model *model;
    struct qkv_spec spec;
    struct qkv_tokenizer *tokenizer;
    static const char *const specials[] = {QKV_TOKEN_BEGIN, QKV_TOKEN_END};
    struct qkv_tokenizer_options options = {.kind = QKV_TOKENIZER_BYTES, .specials = specials, .special_count = 2};
    char json[1024];
    int n =
        snprintf(json, sizeof json, "{\"format\":\"qkv\",\"version\":1,\"vocab\":%d,\"d_model\":16,\"context\":300,%s}",
                 vocab, stacks);
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "test", json, (size_t)n, NULL, 0));
    assert_ok(ctx, qkv_model_create(ctx, &spec, 3, &model));
    for (size_t i = 0; i < qkv_model_parameters(model); i++) {
        float *weights = qkv_model_weights(model, i);
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
    struct qkv_look_attention a;
    struct qkv_look *look;
    (void)state;
    assert_ok(ctx, qkv_look_create(model, &o, &look));
    assert_int_equal(qkv_look_tokens(look, false), 11);
    assert_int_equal(qkv_look_tokens(look, true), 0);
    size_t size;
    assert_memory_equal(qkv_look_token(look, false, 4, &size), "c", 1);
    assert_int_equal(size, 1);
    qkv_look_token(look, false, 11, &size);
    assert_int_equal(size, 0);
    assert_true(qkv_look_attention(look, 1, &a));
    assert_false(qkv_look_attention(look, 2, &a));
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
    struct qkv_look *look;
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

/* The data of a page, cut out of it. */
static json_t *page_data(const char *path) {
    static const char start[] = "<script type=\"application/json\" id=\"data\">";
    char *text = read_text(path);
    char *begin = strstr(text, start);
    assert_non_null(begin);
    begin += strlen(start);
    json_t *root = json_loadb(begin, (size_t)(strstr(begin, "</script>") - begin), 0, NULL);
    assert_non_null(root);
    free(text);
    return root;
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
    struct qkv_look *look;
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

/* Many heads on a text of hundreds of tokens: the largest weights of each row, largest first. */
static void pages_of_long_texts_hold_the_largest(void **state) {
    struct qkv_context *ctx = make_context();
    struct qkv_model *model = make_model(ctx, "\"encoder\":{\"layers\":5,\"attention\":{\"heads\":16}}", 258);
    static char text[300];
    static float row[300];
    struct qkv_look_options o = {.text = text, .text_size = sizeof text};
    const char *path = test_path("long.html");
    struct qkv_look *look;
    size_t size;
    (void)state;
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)('a' + i * i % 23);
    assert_ok(ctx, qkv_look_create(model, &o, &look));
    assert_ok(ctx, qkv_look_write_page(look, NULL, path));
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_true(info.st_size < 20000000);
    json_t *root = page_data(path);
    assert_string_equal(json_string_value(json_object_get(root, "stored")), "most");
    size_t kept = (size_t)json_integer_value(json_object_get(root, "kept"));
    assert_true(kept >= 10 && kept <= 64);
    json_t *heads = json_object_get(json_array_get(json_object_get(root, "attentions"), 2), "heads");
    unsigned char *bytes = decode(json_object_get(json_array_get(heads, 5), "weights"), &size);
    assert_int_equal(size, 3 * 300 * kept);
    for (size_t i = 0; i < 300; i += 37) {
        const unsigned char *values = bytes + i * kept, *keys = bytes + 300 * kept + 2 * i * kept;
        double least = 2;
        bool seen[300] = {false};
        assert_ok(ctx, qkv_look_weights(look, 2, 5, i, 1, row));
        for (size_t n = 0; n < kept; n++) {
            size_t key = keys[2 * n] + 256u * keys[2 * n + 1];
            assert_true(key < 300 && !seen[key]);
            seen[key] = true;
            double real = (double)row[key];
            assert_true(fabs(pow(values[n] / 255.0, 2) - real) <= sqrt(real) / 255 + 5e-6);
            assert_true(real <= least);
            least = real;
        }
        for (size_t j = 0; j < 300; j++) assert_true(seen[j] || (double)row[j] <= least);
    }
    free(bytes);
    json_decref(root);
    qkv_look_free(look);
    qkv_model_free(model);
    qkv_context_free(ctx);
}

static void what_cannot_be_read_is_refused(void **state) {
    struct qkv_context *ctx = make_context();
    struct qkv_model *model = make_model(ctx, DECODER, 258), *bare;
    struct qkv_look_options o = {.text = "", .text_size = 0};
    struct qkv_look *look;
    char *text = malloc(400);
    (void)state;
    assert_fails(ctx, qkv_look_create(model, &o, &look), QKV_ARGUMENT, "the prompt is empty");
    assert_null(look);
    memset(text, 'a', 400);
    o = (struct qkv_look_options){.text = text, .text_size = 301};
    assert_fails(ctx, qkv_look_create(model, &o, &look), QKV_ARGUMENT, "301 tokens, but the model's context is 300");
    o = (struct qkv_look_options){.text = text, .text_size = 3, .target = "x", .target_size = 1};
    assert_fails(ctx, qkv_look_create(model, &o, &look), QKV_ARGUMENT, "a decoder alone");
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
    free(text);
    qkv_model_free(bare);
    qkv_model_free(model);
    qkv_context_free(ctx);
}

/* ---- runs ---------------------------------------------------------------------------------------------------------------------- */

static const char *make_run(const char *name, const char *log, const char *train) {
    const char *folder = test_path(name);
    char path[1024];
    mkdir(folder, 0777);
    snprintf(path, sizeof path, "%s/log.jsonl", folder);
    test_write_file(path, log, strlen(log));
    snprintf(path, sizeof path, "%s/train.json", folder);
    if (train) test_write_file(path, train, strlen(train));
    return folder;
}

static void a_log_is_read_as_far_as_it_goes(void **state) {
    struct qkv_context *ctx = make_context();
    struct qkv_run *run;
    (void)state;
    const char *folder = make_run("hostile",
                                  "{\"step\":1,\"loss\":5.5,\"norm\":1,\"rate\":0.1,\"tokens\":7,\"seconds\":0.5}\n"
                                  "{\"step\":2,\"loss\":\"x\",\"norm\":[],\"valid_loss\":4.5,\"accuracy\":0.25}\n"
                                  "not json\n"
                                  "\n"
                                  "[1]\n"
                                  "{\"loss\":3}\n"
                                  "{\"step\":-4,\"loss\":3}\n"
                                  "{\"step\":1.5,\"loss\":3}\n"
                                  "{\"step\":2,\"loss\":3}\n"
                                  "{\"step\":9,\"loss\":3}\n"
                                  "{\"step\":10,\"lo",
                                  "{\"options\":{\"steps\":9,\"metric\":\"accuracy\",\"patience\":0}}");
    assert_ok(ctx, qkv_run_read(ctx, folder, &run));
    assert_int_equal(qkv_run_steps(run), 3);
    assert_int_equal(qkv_run_damaged(run), 7);
    assert_int_equal(qkv_run_planned(run), 9);
    assert_string_equal(qkv_run_name(run), "hostile");
    assert_string_equal(qkv_run_metric(run), "accuracy");
    assert_true(qkv_run_ended(run));
    assert_true(qkv_run_step(run, 0)->loss == 5.5);
    assert_true(isnan(qkv_run_step(run, 1)->loss) && isnan(qkv_run_step(run, 1)->norm));
    assert_true(qkv_run_step(run, 1)->metric == 0.25);
    assert_null(qkv_run_step(run, 3));
    assert_ok(ctx, qkv_runs_write_page(ctx, &run, 1, 0, test_path("run.html")));
    json_t *root = page_data(test_path("run.html"));
    json_t *curves = json_object_get(json_array_get(json_object_get(root, "runs"), 0), "curves");
    assert_int_equal(json_array_size(json_object_get(curves, "loss")), 3);
    assert_true(json_is_null(json_array_get(json_object_get(curves, "loss"), 1)));
    json_decref(root);
    qkv_run_free(run);
    folder = make_run("foolish", "", "[]");
    assert_ok(ctx, qkv_run_read(ctx, folder, &run));
    assert_int_equal(qkv_run_steps(run), 0);
    assert_false(qkv_run_ended(run));
    assert_null(qkv_run_machine(run));
    assert_ok(ctx, qkv_runs_write_page(ctx, &run, 1, 3, test_path("run.html")));
    qkv_run_free(run);
    assert_fails(ctx, qkv_run_read(ctx, test_path("nowhere"), &run), QKV_FILE, "holds no training run");
    assert_fails(ctx, qkv_runs_write_page(ctx, NULL, 0, 0, test_path("run.html")), QKV_ARGUMENT, "no run");
    qkv_context_free(ctx);
}

/* A long run is shown by fewer points, which keep its mean, its extremes and its last step. */
static void long_runs_are_thinned(void **state) {
    struct qkv_context *ctx = make_context();
    struct qkv_buffer log = {0};
    struct qkv_run *run;
    (void)state;
    for (int i = 1; i <= 20000; i++)
        assert_ok(ctx, qkv_buffer_print(ctx, &log, "{\"step\":%d,\"loss\":%d,\"seconds\":%d}\n", i,
                                        i == 777 ? 100 : i % 2, i));
    const char *folder = make_run("long", log.data, "{\"options\":{\"steps\":30000}}");
    assert_ok(ctx, qkv_run_read(ctx, folder, &run));
    assert_int_equal(qkv_run_steps(run), 20000);
    assert_false(qkv_run_ended(run));
    assert_ok(ctx, qkv_runs_write_page(ctx, &run, 1, 0, test_path("long.html")));
    json_t *root = page_data(test_path("long.html"));
    json_t *curves = json_object_get(json_array_get(json_object_get(root, "runs"), 0), "curves");
    json_t *steps = json_object_get(curves, "step"), *high = json_object_get(curves, "high");
    size_t points = json_array_size(steps);
    assert_true(points > 1000 && points < 2000);
    assert_int_equal(json_integer_value(json_array_get(steps, points - 1)), 20000);
    double most = 0, mean = 0;
    for (size_t p = 0; p < points; p++) {
        most = fmax(most, json_number_value(json_array_get(high, p)));
        mean += json_number_value(json_array_get(json_object_get(curves, "loss"), p)) / (double)points;
    }
    assert_true(most == 100);
    assert_true(fabs(mean - 0.505) < 0.01);
    json_decref(root);
    qkv_run_free(run);
    qkv_buffer_free(&log);
    qkv_context_free(ctx);
}

static void patience_ends_a_run(void **state) {
    struct qkv_context *ctx = make_context();
    struct qkv_run *run;
    static const char log[] = "{\"step\":1,\"loss\":1,\"valid_loss\":3}\n{\"step\":2,\"loss\":1,\"valid_loss\":2}\n"
                              "{\"step\":3,\"loss\":1,\"valid_loss\":2.5}\n{\"step\":4,\"loss\":1,\"valid_loss\":2}\n";
    (void)state;
    assert_ok(ctx, qkv_run_read(ctx, make_run("patient", log, "{\"options\":{\"steps\":9,\"patience\":3}}"), &run));
    assert_false(qkv_run_ended(run));
    qkv_run_free(run);
    assert_ok(ctx, qkv_run_read(ctx, make_run("patient", log, "{\"options\":{\"steps\":9,\"patience\":2}}"), &run));
    assert_true(qkv_run_ended(run));
    qkv_run_free(run);
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_are_escaped),
        cmocka_unit_test(any_bytes_are_a_string),
        cmocka_unit_test(commas_and_numbers),
        cmocka_unit_test(base64_as_in_rfc_4648),
        cmocka_unit_test(assets_cannot_end_their_element),
        cmocka_unit_test(a_page_holds_what_it_was_given),
        cmocka_unit_test(weights_are_those_of_the_model),
        cmocka_unit_test(json_holds_all_weights),
        cmocka_unit_test(pages_of_short_texts_hold_every_weight),
        cmocka_unit_test(pages_of_long_texts_hold_the_largest),
        cmocka_unit_test(what_cannot_be_read_is_refused),
        cmocka_unit_test(a_log_is_read_as_far_as_it_goes),
        cmocka_unit_test(long_runs_are_thinned),
        cmocka_unit_test(patience_ends_a_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
