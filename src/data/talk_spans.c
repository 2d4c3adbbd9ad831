/* talk_spans: the text of a talk, and which of it the assistant says. */
#include <stdlib.h>
#include <string.h>

#include "data/talk.h"

struct talk_writer {
    const struct qkv_talk_coder *coder;
    json_t *talk; /* for the template: variables, and messages for a rendering */
    const json_t *messages;
    struct qkv_talk_spans *spans;
};

static bool spans_answers(const json_t *message) {
    const char *role = json_string_value(json_object_get(message, "role"));
    return role && !strcmp(role, "assistant");
}

/* Whether a turn of the assistant counts: OpenAI's files give those that do not the weight 0. */
static bool spans_weighs(const json_t *message) {
    const json_t *weight = json_object_get(message, "weight");
    return !json_is_number(weight) || json_number_value(weight) != 0;
}

/* Renders the first `count` messages. */
static enum qkv_status spans_render(struct talk_writer *w, size_t count, bool prompt, struct qkv_rendered *out) {
    struct qkv_context *ctx = w->coder->ctx;
    struct qkv_chat_template_options o = qkv_chat_template_defaults();
    json_t *some = json_array();
    bool made = some;
    o.now = w->coder->now;
    o.add_generation_prompt = prompt;
    for (size_t i = 0; i < count && made; i++) made = !json_array_append(some, json_array_get(w->messages, i));
    made = made && !json_object_set(w->talk, "messages", some);
    char *text = made ? json_dumps(w->talk, JSON_COMPACT) : NULL;
    json_decref(some);
    *out = (struct qkv_rendered){0};
    if (!text) return qkv_fail_memory(ctx, 0, "a talk");
    const enum qkv_status status = qkv_chat_template_render(ctx, w->coder->templates, &o, text, strlen(text), out);
    free(text);
    return status;
}

static bool spans_begins(const struct qkv_rendered *text, const struct qkv_rendered *with) {
    return text->size >= with->size && !memcmp(text->text, with->text, with->size);
}

/* The text of turn `i`, between the beginning of an answer and the end of the turn. */
static enum qkv_status spans_of_turn(struct talk_writer *w, size_t i, const struct qkv_rendered *whole) {
    struct qkv_context *ctx = w->coder->ctx;
    struct qkv_rendered before, after;
    enum qkv_status status = spans_render(w, i, true, &before);
    if (status) return status;
    status = spans_render(w, i + 1, false, &after);
    if (!status && !spans_begins(&after, &before))
        status = qkv_fail(ctx, QKV_FORMAT,
                          "message %zu: the chat template begins an answer with other text than it writes before this "
                          "one, so it does not tell what the assistant says; give a template with {%% generation %%} "
                          "blocks (option template)",
                          i + 1);
    if (!status && !spans_begins(whole, &after))
        status = qkv_fail(ctx, QKV_FORMAT,
                          "message %zu: the chat template writes this turn, or one before it, differently when others "
                          "follow (as templates do that leave out earlier thoughts), so it does not tell what the "
                          "assistant says; give a template with {%% generation %%} blocks (option template), or end "
                          "the talk with this message",
                          i + 1);
    if (!status) {
        w->spans->items[2 * w->spans->count] = before.size;
        w->spans->items[2 * w->spans->count + 1] = after.size;
        w->spans->count++;
    }
    qkv_rendered_free(&before);
    qkv_rendered_free(&after);
    return status;
}

/* The generation blocks of the turns that count. */
static enum qkv_status spans_of_blocks(struct talk_writer *w, size_t first, const struct qkv_rendered *whole) {
    const size_t count = json_array_size(w->messages);
    size_t turns = 0, left = 0;
    for (size_t i = 0; i < count; i++) {
        const json_t *message = json_array_get(w->messages, i);
        if (!spans_answers(message)) continue;
        turns++;
        left += i < first || !spans_weighs(message);
    }
    if (left && turns != whole->span_count)
        return qkv_fail(w->coder->ctx, QKV_FORMAT,
                        "the chat template has %zu generation blocks for %zu turns of the assistant, so it does not "
                        "tell which of them count; leave out the weights, or give another template (option template)",
                        whole->span_count, turns);
    memcpy(w->spans->items, whole->spans, 2 * whole->span_count * sizeof *whole->spans);
    w->spans->count = whole->span_count;
    if (!left) return QKV_OK;
    w->spans->count = 0;
    for (size_t i = 0, turn = 0; i < count; i++) {
        const json_t *message = json_array_get(w->messages, i);
        if (!spans_answers(message)) continue;
        const size_t at = turn++;
        if (i < first || !spans_weighs(message)) continue;
        memcpy(w->spans->items + 2 * w->spans->count++, whole->spans + 2 * at, 2 * sizeof *whole->spans);
    }
    return QKV_OK;
}

static enum qkv_status spans_find(struct talk_writer *w, size_t first, const struct qkv_rendered *whole) {
    const size_t count = json_array_size(w->messages);
    enum qkv_status status = QKV_OK;
    w->spans->items = qkv_allocate(w->coder->ctx, 2 * qkv_max(count, whole->span_count) + 2, sizeof(size_t));
    if (!w->spans->items) return QKV_MEMORY;
    if (whole->span_count) return spans_of_blocks(w, first, whole);
    for (size_t i = first; i < count && !status; i++) {
        const json_t *message = json_array_get(w->messages, i);
        if (spans_answers(message) && spans_weighs(message)) status = spans_of_turn(w, i, whole);
    }
    return status;
}

/* What the template reads besides messages. */
static enum qkv_status spans_variables(struct talk_writer *w, const json_t *line) {
    static const char *const keys[] = {"tools", "documents"};
    json_t *more = json_object_get(line, "chat_template_kwargs");
    if (more && !json_is_object(more) && !json_is_null(more))
        return qkv_fail(
            w->coder->ctx, QKV_FORMAT,
            "\"chat_template_kwargs\" is no object {\"name\": value}; write the object itself, not a text with it");
    w->talk = json_object();
    bool made = w->talk;
    if (made && json_is_object(more)) made = !json_object_update(w->talk, more);
    if (made) json_object_del(w->talk, "add_generation_prompt"); /* a rendering says so itself */
    for (size_t i = 0; i < sizeof keys / sizeof *keys && made; i++) {
        json_t *value = json_object_get(line, keys[i]);
        if (value) made = !json_object_set(w->talk, keys[i], value);
    }
    return made ? QKV_OK : qkv_fail_memory(w->coder->ctx, 0, "a talk");
}

static bool spans_any(const json_t *messages, size_t first) {
    for (size_t i = first; i < json_array_size(messages); i++)
        if (spans_answers(json_array_get(messages, i)) && spans_weighs(json_array_get(messages, i))) return true;
    return false;
}

enum qkv_status qkv_talk_render(const struct qkv_talk_coder *coder, const json_t *line, const json_t *messages,
                                size_t first, char **text, size_t *size, struct qkv_talk_spans *spans) {
    struct talk_writer w = {.coder = coder, .messages = messages, .spans = spans};
    struct qkv_rendered whole = {0};
    *text = NULL;
    *spans = (struct qkv_talk_spans){0};
    if (!coder->templates)
        return qkv_fail(coder->ctx, QKV_FORMAT,
                        "a talk needs a chat template, and the model has none; give a file of one, in Jinja (option "
                        "template)");
    if (!spans_any(messages, first))
        return qkv_fail(coder->ctx, QKV_FORMAT,
                        "no turn of the assistant counts: there must be a message with the role assistant%s; remove "
                        "the line",
                        first ? " behind the prompt" : "");
    enum qkv_status status = spans_variables(&w, line);
    if (!status) status = spans_render(&w, json_array_size(messages), false, &whole);
    if (!status) status = spans_find(&w, first, &whole);
    json_decref(w.talk);
    *text = whole.text;
    *size = whole.size;
    qkv_free(whole.spans);
    return status;
}
