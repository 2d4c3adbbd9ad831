/* The templates of a model, and talks. */
#include "chat/chat_template.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json_load.h"
#include "base/sized_options.h"

enum qkv_status qkv_chat_template_create(struct qkv_context *ctx, const char *name, struct qkv_chat_template **out) {
    *out = NULL;
    struct qkv_chat_template *t = qkv_allocate(ctx, 1, sizeof *t);
    if (!t) return QKV_MEMORY;
    t->name = qkv_copy_string(ctx, name);
    t->tokens = json_object();
    if (!t->name || !t->tokens) {
        qkv_chat_template_free(t);
        return qkv_fail_memory(ctx, 0, "a chat template");
    }
    *out = t;
    return QKV_OK;
}

void qkv_chat_template_free(struct qkv_chat_template *t) {
    if (!t) return;
    for (size_t i = 0; i < t->count; i++) {
        free(t->items[i].name);
        free(t->items[i].source);
        free(t->items[i].problem);
        qkv_chat_program_free(t->items[i].program);
    }
    free(t->items);
    free(t->name);
    json_decref(t->tokens);
    free(t);
}

static const struct chat_template *template_find(const struct qkv_chat_template *t, const char *name) {
    for (size_t i = 0; i < t->count; i++)
        if (!strcmp(t->items[i].name, name)) return &t->items[i];
    return NULL;
}

enum qkv_status qkv_chat_template_add(struct qkv_context *ctx, struct qkv_chat_template *t, const char *name,
                                      const char *file, const char *source, size_t size) {
    if (template_find(t, name)) return QKV_OK;
    struct chat_template *room = qkv_list_room(ctx, t->items, &t->capacity, t->count, 1, sizeof *room);
    if (!room) return QKV_MEMORY;
    t->items = room;
    struct chat_template *item = &t->items[t->count];
    *item = (struct chat_template){.size = size};
    item->name = qkv_copy_string(ctx, name);
    item->source = item->name ? qkv_copy_bytes(ctx, source, size) : NULL;
    t->count++;
    if (!item->source) return QKV_MEMORY;
    enum qkv_status status = qkv_chat_parse(ctx, file, source, size, &item->program);
    if (status != QKV_FORMAT) return status;
    item->problem = qkv_copy_string(ctx, qkv_message(ctx));
    qkv_forgive(ctx);
    return item->problem ? QKV_OK : QKV_MEMORY;
}

enum qkv_status qkv_chat_template_parse(struct qkv_context *ctx, const char *name, const char *text, size_t size,
                                        struct qkv_chat_template **out) {
    QKV_CALL_OUT(ctx, out);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, name);
    QKV_NEED_ALL(ctx, size, text);
    struct qkv_chat_template *t;
    enum qkv_status status = qkv_chat_template_create(ctx, name, &t);
    if (status) return status;
    status = qkv_chat_template_add(ctx, t, "default", name, text ? text : "", size);
    if (!status && t->items->problem) status = qkv_fail(ctx, QKV_FORMAT, "%s", t->items->problem);
    if (status) {
        qkv_chat_template_free(t);
        return status;
    }
    *out = t;
    return QKV_OK;
}

bool qkv_chat_template_at(const struct qkv_chat_template *t, size_t i, const char **name, const char **source,
                          size_t *size) {
    if (!t || i >= t->count) return false;
    if (name) *name = t->items[i].name;
    if (source) *source = t->items[i].source;
    if (size) *size = t->items[i].size;
    return true;
}

void qkv_chat_template_options_init(struct qkv_chat_template_options *options, size_t size) {
    const struct qkv_chat_template_options defaults = {.size = sizeof defaults};
    qkv_options_init(options, size, &defaults, sizeof defaults);
}

/* ---- talks ------------------------------------------------------------------------------------------------------- */

/* The name of the talk in sentences. */
#define TALK "the talk"

/* Checks the parts of message `i`. */
static enum qkv_status template_check_parts(struct qkv_context *ctx, const struct chat_template *item, size_t i,
                                            const json_t *parts) {
    for (size_t k = 0; k < json_array_size(parts); k++) {
        const json_t *part = json_array_get(parts, k);
        const char *type = json_string_value(json_object_get(part, "type"));
        if (!type) return qkv_fail(ctx, QKV_FORMAT, "%s: part %zu of message %zu has no \"type\"", TALK, k + 1, i + 1);
        if (strcmp(type, "text") != 0)
            return qkv_fail(ctx, QKV_FORMAT,
                            "%s: message %zu has a part of type %.80s; models here read parts of type text only", TALK,
                            i + 1, type);
        if (!json_is_string(json_object_get(part, "text")))
            return qkv_fail(ctx, QKV_FORMAT, "%s: part %zu of message %zu has no \"text\"", TALK, k + 1, i + 1);
    }
    if (item->program->reads_parts) return QKV_OK;
    return qkv_fail(ctx, QKV_FORMAT,
                    "%s: the content of message %zu is a list of parts, but this template reads contents that are one "
                    "text; join the parts",
                    TALK, i + 1);
}

static enum qkv_status template_check_messages(struct qkv_context *ctx, const struct chat_template *item,
                                               const json_t *messages) {
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *message = json_array_get(messages, i), *content = json_object_get(message, "content");
        if (!json_is_object(message))
            return qkv_fail(ctx, QKV_FORMAT, "%s: message %zu is no object {\"role\": …, \"content\": …}", TALK, i + 1);
        if (!json_is_string(json_object_get(message, "role")))
            return qkv_fail(ctx, QKV_FORMAT,
                            "%s: message %zu has no \"role\"; roles are texts such as system, user and assistant", TALK,
                            i + 1);
        if (json_is_array(content)) {
            enum qkv_status status = template_check_parts(ctx, item, i, content);
            if (status) return status;
        } else if (content && !json_is_string(content) && !json_is_null(content)) {
            return qkv_fail(ctx, QKV_FORMAT, "%s: the content of message %zu is neither a text nor a list of parts",
                            TALK, i + 1);
        }
    }
    return QKV_OK;
}

/* Reads a talk as an object with the key "messages". */
static enum qkv_status template_talk(struct qkv_context *ctx, const char *talk, size_t size, json_t **out) {
    const struct qkv_json_text text = {.name = TALK, .data = talk, .size = size, .max_size = QKV_CHAT_TALK};
    enum qkv_status status = qkv_json_load(ctx, &text, out);
    if (!status && json_is_array(*out)) {
        json_t *object = json_pack("{s:o}", "messages", *out);
        *out = object;
        if (!object) return qkv_fail_memory(ctx, size, TALK);
    }
    if (!status && !json_is_array(json_object_get(*out, "messages")))
        status =
            qkv_fail(ctx, QKV_FORMAT, "%s is neither a list of messages nor an object with a list \"messages\"", TALK);
    return status;
}

static enum qkv_status template_variables(struct qkv_context *ctx, const char *variables, json_t **out) {
    const struct qkv_json_text text = {.name = "the object of variables",
                                       .data = variables,
                                       .size = variables ? strlen(variables) : 0,
                                       .max_size = QKV_CHAT_TALK};
    *out = NULL;
    if (!variables) return QKV_OK;
    enum qkv_status status = qkv_json_load(ctx, &text, out);
    if (!status && !json_is_object(*out)) status = qkv_fail(ctx, QKV_FORMAT, "%s is no JSON object", text.name);
    return status;
}

/* The template to use. */
static enum qkv_status template_choose(struct qkv_context *ctx, const struct qkv_chat_template *t, const char *name,
                                       const json_t *talk, const struct chat_template **out) {
    const json_t *tools = json_object_get(talk, "tools");
    *out = name ? template_find(t, name) : NULL;
    if (!name && tools && !json_is_null(tools)) *out = template_find(t, "tool_use");
    if (!name && !*out) *out = template_find(t, "default");
    if (!name && !*out && t->count == 1) *out = t->items;
    if (*out && (*out)->problem) return qkv_fail(ctx, QKV_FORMAT, "%s", (*out)->problem);
    if (*out) return QKV_OK;
    char names[400] = "";
    for (size_t i = 0; i < t->count; i++) {
        const size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", t->items[i].name);
    }
    if (name) return qkv_fail(ctx, QKV_ARGUMENT, "%s has no chat template %s; it has %s", t->name, name, names);
    return qkv_fail(ctx, QKV_ARGUMENT, "%s has no chat template default; choose one of %s by its name", t->name, names);
}

static enum qkv_status template_render(struct qkv_context *ctx, const struct qkv_chat_template *t,
                                       const struct qkv_chat_template_options *o, const json_t *talk,
                                       const json_t *further, struct chat_rendered *out) {
    const struct chat_template *item;
    enum qkv_status status = template_choose(ctx, t, o->name, talk, &item);
    if (!status) status = template_check_messages(ctx, item, json_object_get(talk, "messages"));
    if (status) return status;
    json_t *usual = json_pack("{s:n, s:n, s:b}", "tools", "documents", "add_generation_prompt", 0);
    json_t *last = o->add_generation_prompt ? json_pack("{s:b}", "add_generation_prompt", 1) : json_object();
    const json_t *const variables[] = {usual, t->tokens, talk, further, last};
    status = usual && last ? QKV_OK : qkv_fail_memory(ctx, 0, "a chat template");
    if (!status)
        status = qkv_chat_render(ctx, item->program, variables, sizeof variables / sizeof *variables, &qkv_chat_limits,
                                 o->now ? o->now : (int64_t)time(NULL), out);
    json_decref(usual);
    json_decref(last);
    return status;
}

enum qkv_status qkv_chat_template_render(struct qkv_context *ctx, const struct qkv_chat_template *t,
                                         const struct qkv_chat_template_options *options, const char *talk, size_t size,
                                         struct qkv_rendered *out) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, t);
    QKV_NEED_ALL(ctx, size, talk);
    QKV_NEED(ctx, out);
    struct qkv_chat_template_options o = qkv_chat_template_defaults();
    struct chat_rendered rendered = {0};
    json_t *root = NULL, *further = NULL;
    *out = (struct qkv_rendered){0};
    enum qkv_status status = QKV_TAKE_OPTIONS(ctx, qkv_chat_template_options, &o, options);
    if (!status) status = template_talk(ctx, talk, size, &root);
    if (!status) status = template_variables(ctx, o.variables, &further);
    if (!status) status = template_render(ctx, t, &o, root, further, &rendered);
    json_decref(root);
    json_decref(further);
    if (status) return status;
    *out = (struct qkv_rendered){.text = rendered.text, .size = rendered.size, .span_count = rendered.span_count};
    out->spans = qkv_allocate(ctx, 2 * rendered.span_count + 1, sizeof *out->spans);
    for (size_t i = 0; out->spans && i < rendered.span_count; i++) {
        out->spans[2 * i] = rendered.spans[i].begin;
        out->spans[2 * i + 1] = rendered.spans[i].end;
    }
    free(rendered.spans);
    if (out->spans) return QKV_OK;
    qkv_rendered_free(out);
    return QKV_MEMORY;
}

void qkv_rendered_free(struct qkv_rendered *rendered) {
    if (!rendered) return;
    qkv_free(rendered->text);
    qkv_free(rendered->spans);
    *rendered = (struct qkv_rendered){0};
}
