/* api_request.c: the prompts of a request, and its way through the engine. */
#include <stdlib.h>
#include <string.h>

#include "cli_api.h"

enum { PROMPTS_MAX = 1024, CHOICES_MAX = 1024 };
/* Bytes of memory that parts of a request take, at most or nearly so. */
enum {
    ANSWER_BYTES = 2048, /* an answer without its tokens */
    TEXT_BYTES = 16,     /* the text of a token, in a buffer that grows */
    SCORE_BYTES = 96,    /* a log-probability, as JSON */
    NUMBER_BYTES = 20    /* a number of a vector, and as JSON */
};

/* ---- prompts of completions -------------------------------------------------------------------------------------- */

static bool prompt_ids(const json_t *list, const char *key, struct cli_api_prompt *p, struct cli_api_error *error) {
    p->count = json_array_size(list);
    p->ids = calloc(p->count + 1, sizeof *p->ids);
    if (!p->ids) return cli_api_refuse(error, "", "out of memory");
    for (size_t i = 0; i < p->count; i++) {
        const json_t *id = json_array_get(list, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX)
            return cli_api_refuse(error, key, "item %zu of %s is no token id", i, key);
        p->ids[i] = (int32_t)json_integer_value(id);
    }
    return p->count || cli_api_refuse(error, key, "an item of %s has no token id", key);
}

static bool prompt_one(const json_t *value, const char *key, struct cli_api_prompt *p, struct cli_api_error *error) {
    if (json_is_array(value)) return prompt_ids(value, key, p, error);
    if (!json_is_string(value))
        return cli_api_refuse(error, key, "%s must be a text, token ids, or a list of these", key);
    p->size = json_string_length(value);
    p->text = malloc(p->size + 1);
    if (!p->text) return cli_api_refuse(error, "", "out of memory");
    memcpy(p->text, json_string_value(value), p->size + 1);
    return true;
}

bool cli_api_read_prompts(struct cli_api_request *r, const char *key, struct cli_api_error *error) {
    const json_t *prompt = json_object_get(r->body, key);
    const json_t *first = json_array_get(prompt, 0);
    const size_t count = json_is_array(prompt) && !json_is_integer(first) ? json_array_size(prompt) : 1;
    r->list = json_is_array(prompt) && !json_is_integer(first);
    r->field = key;
    if (!prompt) return cli_api_refuse(error, key, "the request has no %s", key);
    if (!count || count > PROMPTS_MAX)
        return cli_api_refuse(error, key, "%s has %zu items; a request has 1 to %d", key, count, PROMPTS_MAX);
    r->prompts = calloc(count, sizeof *r->prompts);
    if (!r->prompts) return cli_api_refuse(error, "", "out of memory");
    bool fine = true;
    for (; fine && r->prompt_count < count; r->prompt_count++)
        fine = prompt_one(r->list ? json_array_get(prompt, r->prompt_count) : prompt, key, &r->prompts[r->prompt_count],
                          error);
    return fine;
}

/* ---- chats ------------------------------------------------------------------------------------------------------- */

/* The style of a request: the command's, with the request's variables of the template. */
static bool chat_style(const struct cli_api *api, const struct cli_api_request *r, struct cli_talk_style *style,
                       char **variables, struct cli_api_error *error) {
    const json_t *more = json_object_get(r->body, "chat_template_kwargs");
    *style = api->style;
    *variables = NULL;
    if (!more || json_is_null(more)) return true;
    if (!json_is_object(more))
        return cli_api_refuse(error, "chat_template_kwargs", "chat_template_kwargs must be an object");
    json_t *all = style->options.variables ? json_loads(style->options.variables, 0, NULL) : json_object();
    if (all && !json_object_update(all, (json_t *)(uintptr_t)more)) *variables = json_dumps(all, JSON_COMPACT);
    json_decref(all);
    style->options.variables = *variables;
    return *variables || cli_api_refuse(error, "", "out of memory");
}

static bool chat_check(const json_t *messages, struct cli_api_error *error) {
    if (!json_array_size(messages))
        return cli_api_refuse(error, "messages", "messages must be a list with a message at least");
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *message = json_array_get(messages, i);
        if (!json_is_string(json_object_get(message, "role")))
            return cli_api_refuse(error, "messages", "message %zu has no text \"role\"", i);
    }
    return true;
}

/* The parts of a content as one text, a line each; a part that is no text is refused by name. */
static bool chat_content(json_t *message, size_t i, struct cli_api_error *error) {
    const json_t *parts = json_object_get(message, "content"), *part;
    json_t *text = json_string("");
    size_t k;
    if (!json_is_array(parts)) {
        json_decref(text);
        return true;
    }
    json_array_foreach(parts, k, part) {
        const char *type = json_string_value(json_object_get(part, "type"));
        const json_t *words = json_object_get(part, "text");
        if (!type || strcmp(type, "text") != 0 || !json_is_string(words)) {
            json_decref(text);
            return cli_api_refuse(error, "messages", "message %zu, part %zu, is %.40s; parts of type text are read", i,
                                  k, type ? type : "of no type");
        }
        json_t *longer = json_sprintf("%s%s%s", json_string_value(text), k ? "\n" : "", json_string_value(words));
        json_decref(text);
        text = longer;
    }
    return !json_object_set_new(message, "content", text) || cli_api_refuse(error, "", "out of memory");
}

/* Calls of tools that came as text become the objects that templates expect. */
static void chat_calls(const json_t *message) {
    const json_t *calls = json_object_get(message, "tool_calls");
    for (size_t i = 0; i < json_array_size(calls); i++) {
        json_t *function = json_object_get(json_array_get(calls, i), "function");
        const json_t *arguments = json_object_get(function, "arguments");
        json_t *read = json_is_string(arguments)
                           ? json_loadb(json_string_value(arguments), json_string_length(arguments), 0, NULL)
                           : NULL;
        if (json_is_object(read)) json_object_set(function, "arguments", read);
        json_decref(read);
    }
}

/* Whether the model's template knows a word, such as the role "developer". */
static bool template_has(const struct cli_api *api, const char *word) {
    const char *name, *source;
    size_t size;
    for (size_t i = 0; qkv_chat_template_at(api->style.template, i, &name, &source, &size); i++)
        if (strstr(source, word)) return true;
    return false;
}

/* The messages as templates read them. */
static json_t *chat_messages(const struct cli_api *api, const json_t *messages, struct cli_api_error *error) {
    json_t *own = json_deep_copy(messages);
    const bool knows = template_has(api, "developer");
    if (!own) cli_api_refuse(error, "", "out of memory");
    for (size_t i = 0; own && i < json_array_size(own); i++) {
        json_t *message = json_array_get(own, i);
        const char *role = json_string_value(json_object_get(message, "role"));
        if (!knows && !strcmp(role, "developer")) json_object_set_new(message, "role", json_string("system"));
        chat_calls(message);
        if (chat_content(message, i, error)) continue;
        json_decref(own);
        own = NULL;
    }
    return own;
}

/* "tool_choice", and whether the answer may call tools. */
static bool chat_choice(const struct cli_api *api, struct cli_api_request *r, const json_t *tools,
                        struct cli_api_error *error) {
    const json_t *choice = json_object_get(r->body, "tool_choice");
    const char *name = json_string_value(choice);
    if (tools && !json_is_null(tools) && !json_is_array(tools))
        return cli_api_refuse(error, "tools", "tools must be a list");
    r->uses_tools = json_array_size(tools) > 0;
    if (!choice || json_is_null(choice)) return true;
    const json_t *function = json_object_get(json_object_get(choice, "function"), "name");
    if (json_is_string(function)) return cli_api_form_tools(api, r, tools, json_string_value(function), error);
    if (name && !strcmp(name, "required")) return cli_api_form_tools(api, r, tools, NULL, error);
    if (name && !strcmp(name, "none")) r->uses_tools = false;
    return (name && (!strcmp(name, "none") || !strcmp(name, "auto"))) ||
           cli_api_refuse(error, "tool_choice",
                          "tool_choice must be \"auto\", \"none\", \"required\", or {\"function\": {\"name\": …}}");
}

/* The rendered talk, as one prompt of ids. */
bool cli_api_render(const struct cli_api *api, struct cli_api_request *r, struct qkv_rendered *text, int32_t **ids,
                    size_t *count, struct cli_api_error *error) {
    const json_t *messages = json_object_get(r->body, "messages"), *tools = json_object_get(r->body, "tools");
    struct cli_talk_style style;
    char *variables = NULL;
    *text = (struct qkv_rendered){0};
    if (!chat_check(messages, error) || !chat_choice(api, r, tools, error)) return false;
    json_t *own = chat_messages(api, messages, error);
    if (!own) return false;
    json_t *talk = json_pack("{s:o}", "messages", own);
    if (talk && r->uses_tools) json_object_set(talk, "tools", (json_t *)(uintptr_t)tools);
    bool read = talk ? chat_style(api, r, &style, &variables, error) : cli_api_refuse(error, "", "out of memory");
    if (read && cli_talk_ids(api->ctx, &style, qkv_model_tokenizer(api->model), talk, text, ids, count))
        read = cli_api_refuse(error, "messages", "%s", cli_message(api->ctx));
    free(variables);
    json_decref(talk);
    return read;
}

static bool chat_read(const struct cli_api *api, struct cli_api_request *r, struct cli_api_error *error) {
    struct qkv_rendered text;
    r->prompts = calloc(1, sizeof *r->prompts);
    if (!r->prompts) return cli_api_refuse(error, "", "out of memory");
    r->prompt_count = 1;
    const bool read = cli_api_render(api, r, &text, &r->prompts->ids, &r->prompts->count, error);
    qkv_rendered_free(&text);
    return read;
}

/* A model that translates, and has no template, reads the latest message. */
static bool chat_source(const struct cli_api *api, struct cli_api_request *r, struct cli_api_error *error) {
    const json_t *messages = json_object_get(r->body, "messages");
    if (!chat_check(messages, error)) return false;
    json_t *own = chat_messages(api, messages, error);
    const json_t *text = json_object_get(json_array_get(own, json_array_size(own) - 1), "content");
    r->prompts = calloc(1, sizeof *r->prompts);
    if (r->prompts && json_is_string(text)) {
        r->prompt_count = 1;
        r->prompts->text = strdup(json_string_value(text));
        r->prompts->size = json_string_length(text);
    }
    const bool fine = own && r->prompt_count && r->prompts->text && !json_array_size(json_object_get(r->body, "tools"));
    if (own && !fine) cli_api_refuse(error, "messages", "the latest message must have a text, and there are no tools");
    json_decref(own);
    return fine;
}

/* Encodes the prompts that are texts, so that the engine need not. What an engine does with an empty text, and the
 * rules for sources, stay with it. */
static bool prompts_encode(const struct cli_api *api, struct cli_api_request *r, struct cli_api_error *error) {
    const struct qkv_tokenizer *t = qkv_model_tokenizer(api->model);
    for (size_t i = 0; t && i < r->prompt_count; i++) {
        struct cli_api_prompt *p = &r->prompts[i];
        int32_t *ids = NULL;
        if (p->ids || !p->size) continue;
        if (qkv_tokenizer_encode_sequence(api->ctx, t, p->text, p->size, true, &ids, &p->count))
            return cli_api_refuse(error, "prompt", "%s", cli_message(api->ctx));
        p->ids = p->count ? malloc(p->count * sizeof *p->ids) : NULL;
        if (p->ids) memcpy(p->ids, ids, p->count * sizeof *p->ids);
        qkv_free(ids);
        if (p->count && !p->ids) return cli_api_refuse(error, "", "out of memory");
    }
    return true;
}

/* ---- languages --------------------------------------------------------------------------------------------------- */

bool cli_api_read_languages(const struct cli_api *api, struct cli_api_request *r, struct cli_api_error *error) {
    static const char *const names[] = {"source", "target"};
    const bool translates = qkv_spec_topology(qkv_model_spec(api->model)) == QKV_ENCODER_DECODER;
    char known[QKV_LANGUAGE_TEXT];
    for (size_t i = 0; i < CLI_COUNT_OF(names); i++) {
        const json_t *value = json_object_get(r->body, names[i]);
        const char *code = json_string_value(value);
        if (!value || json_is_null(value)) continue;
        if (api->ignores && !(translates && qkv_model_language(api->model, i, 0, known))) continue;
        if (!code || strlen(code) != json_string_length(value))
            return cli_api_refuse(error, names[i], "%s must be the code of a language, or \"" QKV_LANGUAGE_AUTO "\"",
                                  names[i]);
        if (!translates)
            return cli_api_refuse(error, names[i], "%s does not translate, so it has no %s", api->name, names[i]);
        if (qkv_model_check_languages(api->model, i ? NULL : code, i ? code : NULL))
            return cli_api_refuse(error, names[i], "%s", cli_message(api->ctx));
        if (!(r->languages[i] = strdup(code))) return cli_api_refuse(error, "", "out of memory");
    }
    return true;
}

/* ---- the request ------------------------------------------------------------------------------------------------- */

bool cli_api_read(const struct cli_api *api, const json_t *body, bool chat, uint64_t seed, struct cli_api_request *r,
                  struct cli_api_error *error) {
    *r = (struct cli_api_request){.chat = chat, .body = body, .options = api->usual};
    if (!chat && api->completion_tokens) r->options.tokens = api->completion_tokens;
    r->ask = qkv_engine_request_defaults();
    r->options.sampling.seed = seed;
    if (!cli_api_read_fields(api, r, error) || !cli_api_read_form(api, r, error) ||
        !cli_api_read_languages(api, r, error))
        return false;
    const bool source = qkv_spec_topology(qkv_model_spec(api->model)) == QKV_ENCODER_DECODER;
    const bool read = chat ? (source && api->style.plain ? chat_source : chat_read)(api, r, error)
                           : cli_api_read_prompts(r, "prompt", error) && (source || prompts_encode(api, r, error));
    return read && cli_api_read_end(r, error);
}

bool cli_api_read_end(struct cli_api_request *r, struct cli_api_error *error) {
    if (r->prompt_count * r->ask.answers > CHOICES_MAX)
        return cli_api_refuse(error, "n", "%zu prompts with %zu answers each are more than %d", r->prompt_count,
                              r->ask.answers, CHOICES_MAX);
    r->choice_count = r->open = r->prompt_count * r->ask.answers;
    r->choices = calloc(r->choice_count, sizeof *r->choices);
    r->body = NULL;
    return r->choices || cli_api_refuse(error, "", "out of memory");
}

uint64_t cli_api_need(const struct cli_api *api, const struct cli_api_request *r, size_t context) {
    const uint64_t top = r->ask.top, made = r->options.tokens < context ? r->options.tokens : context;
    const bool scores = r->ask.log_probabilities || top;
    uint64_t need = r->form_bytes;
    for (size_t i = 0; i < r->prompt_count; i++) {
        const uint64_t read = r->prompts[i].ids ? r->prompts[i].count : r->prompts[i].size;
        const uint64_t scored = scores ? made + (r->ask.prompt_probabilities ? read : 0) : 0;
        const uint64_t score = 2 * (sizeof(struct cli_api_token) + top * sizeof(struct qkv_token_score));
        need += r->ask.answers * (ANSWER_BYTES + sizeof(int32_t) * (read + made) + TEXT_BYTES * made +
                                  scored * (score + (1 + top) * SCORE_BYTES));
        need += 2 * (sizeof(int32_t) * r->prompts[i].count + r->prompts[i].size);
        if (r->ask.kind == QKV_ENGINE_EMBED) need += NUMBER_BYTES * qkv_embed_width(api->model);
    }
    return need;
}

bool cli_api_submit(const struct cli_api *api, struct cli_api_request *r, struct cli_api_error *error) {
    for (size_t i = 0; i < r->prompt_count; i++) {
        struct cli_api_prompt *p = &r->prompts[i];
        struct qkv_generate_options options = r->options;
        struct qkv_engine_request ask = r->ask;
        options.ids = p->ids;
        options.id_count = p->count;
        ask.options = &options;
        ask.adapter = r->adapter;
        ask.prompt = p->ids ? NULL : p->text;
        ask.prompt_size = p->ids ? 0 : p->size;
        ask.source_language = r->languages[0];
        ask.target_language = r->languages[1];
        ask.second = r->second;
        ask.second_size = r->second ? strlen(r->second) : 0;
        if (r->search.beam) ask.search = &r->search;
        if (!qkv_engine_submit(api->engine, &ask, &p->engine_id)) continue;
        while (i--) qkv_engine_cancel(api->engine, r->prompts[i].engine_id);
        return cli_api_refuse(error, r->chat ? "messages" : r->field, "%s", cli_message(api->ctx));
    }
    return true;
}

void cli_api_close(struct cli_api_request *r) {
    for (size_t i = 0; i < r->prompt_count; i++) {
        free(r->prompts[i].text);
        free(r->prompts[i].ids);
    }
    for (size_t i = 0; r->choices && i < r->choice_count; i++) {
        free(r->choices[i].text);
        free(r->choices[i].tokens);
        free(r->choices[i].tops);
        json_decref(r->choices[i].calls);
        free(r->choices[i].vector);
    }
    for (size_t i = 0; i < r->stop_count; i++) free(r->owned[i]);
    free(r->prompts);
    free(r->choices);
    qkv_constraint_free(r->constraint);
    free(r->biases);
    free(r->stops);
    free(r->owned);
    free(r->second);
    for (size_t i = 0; i < CLI_COUNT_OF(r->languages); i++) free(r->languages[i]);
    *r = (struct cli_api_request){0};
}
