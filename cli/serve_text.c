/* serve_text.c: texts, their tokens, and talks as texts, over HTTP, with the fields of llama.cpp and of vLLM. */
#include "cli_serve_routes.h"

#ifdef QKV_MICROHTTPD
#include <stdlib.h>
#include <string.h>

/* Reads a body, whose fields are those of `names`, and finds its model. */
static json_t *text_body(struct cli_call *c, const char *const *names, struct cli_api_error *error) {
    json_t *body = cli_api_parse(c->body, c->size, error);
    const char *key;
    json_t *value;
    bool fine = body != NULL;
    json_object_foreach(body, key, value) {
        size_t i = 0;
        while (names[i] && strcmp(names[i], key) != 0) i++;
        if (!names[i] && fine && !c->server->options->ignore_fields)
            fine = cli_api_refuse(error, key, "there is no field \"%.40s\" in a request of %s", key, c->path);
    }
    const char *adapter;
    if (fine) c->served = cli_serve_model(c->server, body, &adapter, error);
    if (fine && c->served && !qkv_model_tokenizer(c->served->reader.model))
        fine = cli_api_refuse(error, "model", "%s has no tokenizer", c->served->name);
    if (fine && c->served) return body;
    json_decref(body);
    return NULL;
}

/* A flag of the body, under either of two names; false: it is no flag. */
static bool text_flag(const json_t *body, const char *one, const char *other, bool usual, bool *value,
                      struct cli_api_error *error) {
    const json_t *flag = json_object_get(body, one);
    if (!flag && other) flag = json_object_get(body, other);
    *value = flag ? json_is_true(flag) : usual;
    return !flag || json_is_boolean(flag) || cli_api_refuse(error, one, "%s must be true or false", one);
}

static void answer(struct cli_call *c, struct qkv_json *out) {
    pthread_mutex_lock(&c->server->lock);
    cli_call_answer(c, "application/json", out);
    pthread_mutex_unlock(&c->server->lock);
    qkv_json_free(out);
}

/* ---- /tokenize --------------------------------------------------------------------------------------------------- */

struct tokens {
    int32_t *ids; /* of malloc where `talk`, else of the library */
    size_t count;
    bool talk, pieces, strings;
};

static void put_tokens(struct cli_call *c, const struct tokens *t) {
    const struct qkv_tokenizer *tokenizer = qkv_model_tokenizer(c->served->reader.model);
    struct qkv_json out = cli_serve_json();
    size_t size;
    qkv_json_begin(&out, '{');
    qkv_json_put_count(&out, "count", t->count);
    qkv_json_put_count(&out, "max_model_len", c->served->state.context);
    qkv_json_key(&out, "tokens");
    qkv_json_begin(&out, '[');
    for (size_t i = 0; i < t->count; i++) {
        const char *text = qkv_tokenizer_token(tokenizer, t->ids[i], &size);
        if (!t->pieces) {
            qkv_json_integer(&out, t->ids[i]);
            continue;
        }
        qkv_json_begin(&out, '{');
        qkv_json_put_integer(&out, "id", t->ids[i]);
        qkv_json_key(&out, "piece");
        qkv_json_string(&out, text ? text : "", text ? size : 0);
        qkv_json_end(&out, '}');
    }
    qkv_json_end(&out, ']');
    if (t->strings) qkv_json_key(&out, "token_strs");
    if (t->strings) qkv_json_begin(&out, '[');
    for (size_t i = 0; t->strings && i < t->count; i++) {
        const char *text = qkv_tokenizer_token(tokenizer, t->ids[i], &size);
        qkv_json_string(&out, text ? text : "", text ? size : 0);
    }
    if (t->strings) qkv_json_end(&out, ']');
    qkv_json_end(&out, '}');
    answer(c, &out);
}

/* The ids of "content" or "prompt". */
static bool text_ids(struct cli_call *c, const json_t *body, struct tokens *t, struct cli_api_error *error) {
    const struct cli_api *api = &c->served->reader;
    const struct qkv_tokenizer *tokenizer = qkv_model_tokenizer(api->model);
    const json_t *text = json_object_get(body, "content");
    const char *name = text ? "content" : "prompt";
    bool special, parsed;
    if (!text) text = json_object_get(body, "prompt");
    if (!json_is_string(text)) return cli_api_refuse(error, name, "%s must be a text", name);
    if (!text_flag(body, "add_special", "add_special_tokens", *name == 'p', &special, error) ||
        !text_flag(body, "parse_special", NULL, true, &parsed, error))
        return false;
    const enum qkv_status status =
        special ? qkv_tokenizer_encode_sequence(api->ctx, tokenizer, json_string_value(text), json_string_length(text),
                                                parsed, &t->ids, &t->count)
                : qkv_tokenizer_encode(api->ctx, tokenizer, json_string_value(text), json_string_length(text), parsed,
                                       &t->ids, &t->count);
    return !status || cli_api_refuse(error, name, "%s", cli_message(api->ctx));
}

/* The ids of "messages". */
static bool talk_ids(struct cli_call *c, const json_t *body, struct tokens *t, struct cli_api_error *error) {
    struct cli_api_request request = {.chat = true, .body = body};
    struct qkv_rendered text;
    t->talk = true;
    const bool fine = cli_api_render(&c->served->reader, &request, &text, &t->ids, &t->count, error);
    qkv_rendered_free(&text);
    return fine;
}

bool cli_route_tokenize(struct cli_call *c, struct cli_api_error *error) {
    static const char *const names[] = {"content",
                                        "add_special",
                                        "parse_special",
                                        "with_pieces",
                                        "prompt",
                                        "add_special_tokens",
                                        "return_token_strs",
                                        "messages",
                                        "tools",
                                        "tool_choice",
                                        "chat_template_kwargs",
                                        "model",
                                        "add_generation_prompt",
                                        NULL};
    struct tokens t = {0};
    json_t *body = text_body(c, names, error);
    if (!body) return false;
    bool fine = text_flag(body, "with_pieces", NULL, false, &t.pieces, error) &&
                text_flag(body, "return_token_strs", NULL, false, &t.strings, error);
    fine = fine && (json_object_get(body, "messages") ? talk_ids : text_ids)(c, body, &t, error);
    if (fine) put_tokens(c, &t);
    (t.talk ? free : qkv_free)(t.ids);
    json_decref(body);
    return fine;
}

/* ---- /detokenize, /apply-template -------------------------------------------------------------------------------- */

bool cli_route_detokenize(struct cli_call *c, struct cli_api_error *error) {
    static const char *const names[] = {"tokens", "model", NULL};
    json_t *body = text_body(c, names, error);
    const json_t *list = json_object_get(body, "tokens");
    const size_t count = json_array_size(list);
    char *text = NULL;
    size_t size;
    if (!body) return false;
    const struct cli_api *api = &c->served->reader;
    int32_t *ids = calloc(count + 1, sizeof *ids);
    bool fine = json_is_array(list) || cli_api_refuse(error, "tokens", "tokens must be a list of token ids");
    if (!ids) fine = cli_api_refuse(error, "", "out of memory");
    for (size_t i = 0; fine && i < count; i++) {
        const json_t *id = json_array_get(list, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX)
            fine = cli_api_refuse(error, "tokens", "item %zu of tokens is no token id", i);
        else
            ids[i] = (int32_t)json_integer_value(id);
    }
    if (fine && qkv_tokenizer_decode(api->ctx, qkv_model_tokenizer(api->model), ids, count, &text, &size))
        fine = cli_api_refuse(error, "tokens", "%s", cli_message(api->ctx));
    if (fine) {
        struct qkv_json out = cli_serve_json();
        qkv_json_begin(&out, '{');
        for (int i = 0; i < 2; i++) {
            qkv_json_key(&out, i ? "prompt" : "content"); /* as llama.cpp names it, and vLLM */
            qkv_json_string(&out, text, size);
        }
        qkv_json_end(&out, '}');
        answer(c, &out);
    }
    qkv_free(text);
    free(ids);
    json_decref(body);
    return fine;
}

bool cli_route_template(struct cli_call *c, struct cli_api_error *error) {
    static const char *const names[] = {"messages", "tools", "tool_choice", "chat_template_kwargs", "model", NULL};
    json_t *body = text_body(c, names, error);
    struct cli_api_request request = {.chat = true, .body = body};
    struct qkv_rendered text;
    int32_t *ids = NULL;
    size_t count;
    if (!body) return false;
    const bool fine = cli_api_render(&c->served->reader, &request, &text, &ids, &count, error);
    if (fine) {
        struct qkv_json out = cli_serve_json();
        qkv_json_begin(&out, '{');
        qkv_json_key(&out, "prompt");
        qkv_json_string(&out, text.text, text.size);
        qkv_json_end(&out, '}');
        answer(c, &out);
    }
    qkv_rendered_free(&text);
    free(ids);
    json_decref(body);
    return fine;
}
#endif
