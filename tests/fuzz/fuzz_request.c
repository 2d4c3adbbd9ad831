/* Bodies of requests: the first byte chooses a path, the rest is the body. A body is refused with a sentence, or the
 * engine answers it, and the answer is JSON, whole and in pieces. */
#include "fuzz.h"

#include "cli_api.h"

static const char tokens[] = "the king sees a queen. {\"name\": [1, 2.5e3, true, null]} <tool_call>\n";

static struct qkv_model *request_model(struct qkv_context *ctx, const char *shape) {
    struct qkv_tokenizer_options o = qkv_tokenizer_defaults();
    struct qkv_tokenizer *tokenizer;
    struct qkv_model *model;
    struct qkv_spec spec;
    char text[512];
    o.kind = QKV_TOKENIZER_BYTES;
    if (qkv_tokenizer_train(ctx, &o, tokens, sizeof tokens - 1, &tokenizer)) abort();
    snprintf(text, sizeof text,
             "{\"format\": \"qkv\", \"version\": 1, \"d_model\": 16, \"context\": 64, \"vocab\": %d, %s}",
             qkv_tokenizer_vocab(tokenizer), shape);
    if (qkv_spec_parse(ctx, &spec, "spec", text, strlen(text), NULL, 0)) abort();
    if (qkv_model_create(ctx, &spec, 3, &model) || qkv_model_set_tokenizer(model, tokenizer)) abort();
    qkv_spec_free(&spec);
    return model;
}

/* A server of one model: continuations of a decoder, and vectors and classes of an encoder. */
static struct cli_api *request_api(bool encoder) {
    static struct cli_api apis[2];
    static const char template[] =
        "{%- for m in messages -%}{{ m.role ~ ': ' ~ m.content ~ '<tool_call>' }}{%- endfor -%}";
    struct cli_api *api = &apis[encoder];
    struct qkv_engine_options o = qkv_engine_defaults();
    if (api->engine) return api;
    api->ctx = fuzz_context();
    api->name = "model";
    api->usual = qkv_generate_defaults();
    api->usual.tokens = 4;
    api->streams = true;
    api->form_memory = 1 << 20;
    api->style.options = qkv_chat_template_defaults();
    api->model =
        request_model(api->ctx, encoder ? "\"head\": {\"kind\": \"classify\", \"classes\": 3, \"pool\": \"mean\"}, "
                                          "\"encoder\": {\"layers\": 1, \"attention\": {\"heads\": 2}}"
                                        : "\"decoder\": {\"layers\": 1, \"attention\": {\"heads\": 2}}");
    o.rows = 4;
    o.memory = 4 << 20;
    if (qkv_engine_create(api->model, &o, &api->engine)) abort();
    if (qkv_chat_template_parse(api->ctx, "template", template, sizeof template - 1, &api->style.template)) abort();
    api->tools = cli_tools_find(api->style.template);
    return api;
}

static void check_json(struct qkv_json *out) {
    json_t *value = json_loadb(out->text.data, out->text.size, JSON_ALLOW_NUL, NULL); /* an answer may have a NUL */
    FUZZ_CHECK(!out->status && json_is_object(value));
    json_decref(value);
    qkv_json_free(out);
}

static void request_chunks(struct cli_api *api, struct cli_api_request *r) {
    for (size_t i = 0; i < r->choice_count && !r->put; i++) {
        struct qkv_json out = {0};
        if (cli_api_put_chunk(api, r, i, 1, 1, &out))
            check_json(&out);
        else
            qkv_json_free(&out);
    }
}

/* Runs the engine until the request is answered. */
static void request_answer(struct cli_api *api, struct cli_api_request *r) {
    struct qkv_engine_event event;
    for (bool busy = true; busy && r->open;) {
        FUZZ_CHECK(!qkv_engine_step(api->engine, &busy));
        while (qkv_engine_poll(api->engine, &event))
            if (cli_api_owns(r, &event)) FUZZ_CHECK(cli_api_take(api, r, &event));
        request_chunks(api, r);
    }
    FUZZ_CHECK(!r->open);
    if (r->error.status) return; /* a form that the vocabulary cannot write */
    struct qkv_json out = {0};
    cli_api_put_answer(api, r, 1, 1, &out);
    check_json(&out);
}

static bool request_read(const struct cli_api *api, unsigned path, const json_t *body, struct cli_api_request *r,
                         struct cli_api_error *error) {
    static cli_api_read_texts *const reads[] = {cli_api_read_embedding, cli_api_read_class, cli_api_read_translation};
    if (path < 2) return cli_api_read(api, body, path == 1, 1, r, error);
    return reads[path - 2](api, body, r, error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const unsigned path = size ? (data[0] - '0') % 5u : 0;
    struct cli_api *api = request_api(path == 2 || path == 3);
    struct cli_api_request r = {0};
    struct cli_api_error error = {0};
    qkv_forgive(api->ctx);
    json_t *body = cli_api_parse(size ? (const char *)data + 1 : "", size ? size - 1 : 0, &error);
    bool fine = body && request_read(api, path, body, &r, &error);
    json_decref(body);
    fine = fine && r.choice_count <= 8 && cli_api_submit(api, &r, &error);
    if (fine)
        request_answer(api, &r);
    else if (!r.choices || error.status)
        FUZZ_CHECK(error.status >= 400 && *error.text);
    cli_api_close(&r);
    return 0;
}
