/* api_request.c: the prompts of a request, and its way through the engine. */
#include <stdlib.h>
#include <string.h>

#include "cli_api.h"

enum { PROMPTS_MAX = 1024 };

/* ---- prompts of completions -------------------------------------------------------------------------------------- */

static bool prompt_ids(const json_t *list, struct cli_api_prompt *p, struct cli_api_error *error) {
    p->count = json_array_size(list);
    p->ids = calloc(p->count + 1, sizeof *p->ids);
    if (!p->ids) return cli_api_refuse(error, "", "out of memory");
    for (size_t i = 0; i < p->count; i++) {
        const json_t *id = json_array_get(list, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX)
            return cli_api_refuse(error, "prompt", "item %zu of prompt is no token id", i);
        p->ids[i] = (int32_t)json_integer_value(id);
    }
    return p->count || cli_api_refuse(error, "prompt", "a prompt of token ids is empty");
}

static bool prompt_one(const json_t *value, struct cli_api_prompt *p, struct cli_api_error *error) {
    if (json_is_array(value)) return prompt_ids(value, p, error);
    if (!json_is_string(value))
        return cli_api_refuse(error, "prompt", "prompt must be a text, token ids, or a list of these");
    p->size = json_string_length(value);
    p->text = malloc(p->size + 1);
    if (!p->text) return cli_api_refuse(error, "", "out of memory");
    memcpy(p->text, json_string_value(value), p->size + 1);
    return true;
}

static bool prompts_read(struct cli_api_request *r, struct cli_api_error *error) {
    const json_t *prompt = json_object_get(r->body, "prompt");
    const json_t *first = json_array_get(prompt, 0);
    const bool several = json_is_array(prompt) && !json_is_integer(first);
    const size_t count = several ? json_array_size(prompt) : 1;
    if (!prompt) return cli_api_refuse(error, "prompt", "the request has no prompt");
    if (!count || count > PROMPTS_MAX)
        return cli_api_refuse(error, "prompt", "prompt has %zu items; a request has 1 to %d", count, PROMPTS_MAX);
    r->prompts = calloc(count, sizeof *r->prompts);
    if (!r->prompts) return cli_api_refuse(error, "", "out of memory");
    for (; r->prompt_count < count; r->prompt_count++)
        if (!prompt_one(several ? json_array_get(prompt, r->prompt_count) : prompt, &r->prompts[r->prompt_count],
                        error)) {
            r->prompt_count++;
            return false;
        }
    return true;
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

/* The rendered talk, as one prompt of ids. */
static bool chat_read(const struct cli_api *api, struct cli_api_request *r, struct cli_api_error *error) {
    const json_t *messages = json_object_get(r->body, "messages"), *tools = json_object_get(r->body, "tools");
    struct cli_talk_style style;
    struct qkv_rendered text = {0};
    char *variables = NULL;
    if (!chat_check(messages, error)) return false;
    if (tools && !json_is_null(tools) && !json_is_array(tools))
        return cli_api_refuse(error, "tools", "tools must be a list");
    r->prompts = calloc(1, sizeof *r->prompts);
    r->prompt_count = r->prompts ? 1 : 0;
    json_t *talk = json_pack("{s:O}", "messages", messages);
    if (talk && json_array_size(tools)) json_object_set(talk, "tools", (json_t *)(uintptr_t)tools);
    bool read =
        r->prompts && talk ? chat_style(api, r, &style, &variables, error) : cli_api_refuse(error, "", "out of memory");
    if (read && cli_talk_ids(api->ctx, &style, qkv_model_tokenizer(api->model), talk, &text, &r->prompts->ids,
                             &r->prompts->count))
        read = cli_api_refuse(error, "messages", "%s", cli_message(api->ctx));
    qkv_rendered_free(&text);
    free(variables);
    json_decref(talk);
    return read;
}

/* ---- the request ------------------------------------------------------------------------------------------------- */

bool cli_api_read(const struct cli_api *api, const json_t *body, bool chat, uint64_t seed, struct cli_api_request *r,
                  struct cli_api_error *error) {
    *r = (struct cli_api_request){.chat = chat, .body = body, .options = api->usual};
    r->ask = qkv_engine_request_defaults();
    r->options.sampling.seed = seed;
    if (!cli_api_read_fields(api, r, error) || !cli_api_read_form(api, r, error)) return false;
    if (!(chat ? chat_read(api, r, error) : prompts_read(r, error))) return false;
    r->choice_count = r->open = r->prompt_count * r->ask.answers;
    r->choices = calloc(r->choice_count, sizeof *r->choices);
    r->body = NULL;
    return r->choices || cli_api_refuse(error, "", "out of memory");
}

bool cli_api_submit(const struct cli_api *api, struct cli_api_request *r, struct cli_api_error *error) {
    for (size_t i = 0; i < r->prompt_count; i++) {
        struct cli_api_prompt *p = &r->prompts[i];
        struct qkv_generate_options options = r->options;
        struct qkv_engine_request ask = r->ask;
        options.ids = p->ids;
        options.id_count = p->count;
        ask.options = &options;
        ask.prompt = p->text;
        ask.prompt_size = p->size;
        if (!qkv_engine_submit(api->engine, &ask, &p->engine_id)) continue;
        while (i--) qkv_engine_cancel(api->engine, r->prompts[i].engine_id);
        return cli_api_refuse(error, r->chat ? "messages" : "prompt", "%s", cli_message(api->ctx));
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
    }
    for (size_t i = 0; i < r->stop_count; i++) free(r->owned[i]);
    free(r->prompts);
    free(r->choices);
    qkv_constraint_free(r->constraint);
    free(r->biases);
    free(r->stops);
    free(r->owned);
    *r = (struct cli_api_request){0};
}
