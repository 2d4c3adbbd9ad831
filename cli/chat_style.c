/* chat_style.c: how a command turns a talk into the ids that the model reads. */
#include <stdlib.h>
#include <string.h>

#include "cli_chat.h"

/* A talk with a model that learnt none: the parts of a play, which go on where the model speaks. */
static const char plain_template[] = "{%- for m in messages -%}"
                                     "{%- if m.role == 'system' -%}{{ m.content ~ '\\n\\n' }}"
                                     "{%- else -%}{{ m.role | capitalize ~ ': ' ~ m.content ~ '\\n' }}{%- endif -%}"
                                     "{%- endfor -%}"
                                     "{%- if add_generation_prompt -%}Assistant:{%- endif -%}";
#define PLAIN_STOP "\nUser:"

/* Says, after the sentence of the library, what is done without a template. */
static int template_plain(struct qkv_context *ctx, struct cli_talk_style *style) {
    style->plain = true;
    cli_say("%s", cli_message(ctx));
    cli_say("the talk is plain text: \"User: ...\" and \"Assistant: ...\"");
    const enum qkv_status status =
        qkv_chat_template_parse(ctx, "the plain template", plain_template, strlen(plain_template), &style->template);
    return status ? cli_broken(ctx) : CLI_DONE;
}

int cli_talk_begin(const struct cli_texts *set, struct cli_talk_style *style) {
    int code = CLI_DONE;
    *style = (struct cli_talk_style){.options = qkv_chat_template_defaults()};
    style->options.add_generation_prompt = true;
    for (size_t i = 0; i < set->count && code == CLI_DONE; i++) code = cli_talk_set(style, set->items[i]);
    return code;
}

int cli_talk_open(struct qkv_context *ctx, const char *path, const char *file, struct cli_talk_style *style) {
    const char *name, *source;
    size_t size;
    const enum qkv_status status = qkv_chat_template_open(ctx, path, file, &style->template);
    if (status == QKV_FILE && !file) return template_plain(ctx, style);
    if (status) return cli_broken(ctx);
    if (file && qkv_chat_template_at(style->template, 0, &name, &source, &size) && !size)
        return cli_failed("%s is empty, but a template writes the text of a talk", file);
    return CLI_DONE;
}

void cli_talk_close(struct cli_talk_style *style) {
    qkv_chat_template_free(style->template);
    free(style->variables);
    *style = (struct cli_talk_style){0};
}

/* Puts a variable into the object of all; takes over the value. */
static int style_put(struct cli_talk_style *style, const char *key, size_t size, json_t *value) {
    json_t *variables = style->variables ? json_loads(style->variables, 0, NULL) : json_object();
    const int failed = json_object_setn_new(variables, key, size, value);
    char *text = failed ? NULL : json_dumps(variables, JSON_COMPACT);
    json_decref(variables);
    if (!text) return cli_failed("variable %.*s is not UTF-8, or there is no memory for it", (int)size, key);
    free(style->variables);
    style->options.variables = style->variables = text;
    return CLI_DONE;
}

int cli_talk_set_text(struct cli_talk_style *style, const char *key, const char *text) {
    return style_put(style, key, strlen(key), json_string(text));
}

int cli_talk_set(struct cli_talk_style *style, const char *pair) {
    const char *sign = strchr(pair, '=');
    if (!sign || sign == pair)
        return cli_usage("\"%s\" sets no variable of the template; write KEY=VALUE, as enable_thinking=false", pair);
    json_t *value = json_loads(sign + 1, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    if (!value && sign[1] && strchr("{[\"", sign[1]))
        return cli_usage("the value of \"%s\" begins as JSON does, but it is no JSON", pair);
    return style_put(style, pair, (size_t)(sign - pair), value ? value : json_string(sign + 1));
}

/* The ids of a text, in memory of malloc; in front of a plain talk those that the tokenizer adds before any text, which
 * a template writes itself. */
static enum qkv_status template_ids(struct qkv_context *ctx, const struct cli_talk_style *style,
                                    const struct qkv_tokenizer *tokenizer, const struct qkv_rendered *text,
                                    int32_t **ids, size_t *count) {
    const int32_t *before = NULL, *after;
    size_t before_count = 0, after_count = 0, made_count = 0;
    int32_t *made = NULL;
    const enum qkv_status status =
        qkv_tokenizer_encode(ctx, tokenizer, text->text, text->size, true, &made, &made_count);
    if (status) return status;
    if (style->plain) qkv_tokenizer_template(tokenizer, &before, &before_count, &after, &after_count);
    *count = before_count + made_count;
    *ids = malloc((*count + 1) * sizeof **ids);
    if (*ids && before_count) memcpy(*ids, before, before_count * sizeof **ids);
    if (*ids && made_count) memcpy(*ids + before_count, made, made_count * sizeof **ids);
    qkv_free(made);
    return *ids ? QKV_OK : QKV_MEMORY;
}

enum qkv_status cli_talk_ids(struct qkv_context *ctx, const struct cli_talk_style *style,
                             const struct qkv_tokenizer *tokenizer, const json_t *talk, struct qkv_rendered *text,
                             int32_t **ids, size_t *count) {
    char *json = json_dumps(talk, JSON_COMPACT);
    *text = (struct qkv_rendered){0};
    *ids = NULL, *count = 0;
    enum qkv_status status =
        json ? qkv_chat_template_render(ctx, style->template, &style->options, json, strlen(json), text) : QKV_MEMORY;
    free(json);
    return status ? status : template_ids(ctx, style, tokenizer, text, ids, count);
}

int cli_talk_encode(struct qkv_context *ctx, const struct cli_talk_style *style, const struct qkv_model *model,
                    const json_t *messages, struct qkv_rendered *text, int32_t **ids, size_t *count) {
    const enum qkv_status status = cli_talk_ids(ctx, style, qkv_model_tokenizer(model), messages, text, ids, count);
    if (status && !*qkv_message(ctx)) return cli_failed("out of memory");
    return status ? cli_broken(ctx) : CLI_DONE;
}

struct cli_texts cli_talk_stops(const struct cli_talk_style *style, const struct cli_texts *given) {
    struct cli_texts stops = {.items = malloc((given->count + 1) * sizeof *stops.items), .count = given->count};
    if (!stops.items) return stops;
    if (given->count) memcpy(stops.items, given->items, given->count * sizeof *stops.items);
    if (style->plain) stops.items[stops.count++] = PLAIN_STOP;
    return stops;
}
