/* talk: a line of JSON as ids and marks: the messages in it, their text, and the tokens that count. */
#include "data/talk.h"

#include <stdlib.h>
#include <string.h>

void qkv_talk_free(struct qkv_talk *talk) {
    qkv_free(talk->ids);
    qkv_free(talk->marks);
    *talk = (struct qkv_talk){0};
}

bool qkv_talk_counts(const struct qkv_talk *talk) {
    for (size_t i = 1; i < talk->count; i++)
        if (talk->marks[i] & QKV_MARK_COUNTS) return true;
    return false;
}

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

/* Marks the tokens that have text of the spans: from the first one that ends behind the beginning of a span to the last
 * one that begins before its end, as transformers' assistant masks have them. */
static void talk_mark(const struct qkv_talk_spans *spans, const size_t *places, size_t count, int32_t *marks) {
    size_t at = 0;
    for (size_t s = 0; s < spans->count; s++) {
        const size_t begin = spans->items[2 * s], end = spans->items[2 * s + 1];
        if (begin == end) continue;
        while (at < count && places[2 * at + 1] <= begin) at++;
        for (size_t i = at; i < count && places[2 * i] < end; i++) marks[i] = QKV_MARK_COUNTS;
    }
}

/* Encodes a text, of which the spans count. */
static enum qkv_status talk_tokens(const struct qkv_talk_coder *c, const char *text, size_t size,
                                   const struct qkv_talk_spans *spans, struct qkv_talk *talk) {
    size_t *places = NULL;
    enum qkv_status status =
        qkv_tokenizer_encode_spans(c->ctx, c->tokenizer, text, size, true, &talk->ids, &places, &talk->count);
    if (status) return status;
    talk->marks = qkv_allocate(c->ctx, talk->count + 1, sizeof *talk->marks);
    if (talk->marks) talk_mark(spans, places, talk->count, talk->marks);
    qkv_free(places);
    return talk->marks ? QKV_OK : QKV_MEMORY;
}

/* Puts ids before and behind those of the talk; those behind count. */
static enum qkv_status talk_frame(const struct qkv_talk_coder *c, const int32_t *before, size_t before_count,
                                  const int32_t *after, size_t after_count, struct qkv_talk *talk) {
    const size_t n = talk->count, all = before_count + n + after_count;
    int32_t *ids = qkv_allocate(c->ctx, all + 1, sizeof *ids), *marks = qkv_allocate(c->ctx, all + 1, sizeof *marks);
    if (!ids || !marks) {
        free(ids);
        free(marks);
        return QKV_MEMORY;
    }
    for (size_t i = 0; i < before_count; i++) ids[i] = before[i];
    for (size_t i = 0; i < n; i++) ids[before_count + i] = talk->ids[i], marks[before_count + i] = talk->marks[i];
    for (size_t i = before_count + n; i < all; i++) ids[i] = after[i - before_count - n], marks[i] = QKV_MARK_COUNTS;
    qkv_talk_free(talk);
    *talk = (struct qkv_talk){.ids = ids, .marks = marks, .count = all};
    return QKV_OK;
}

/* ---- a prompt and a completion, as texts ------------------------------------------------------------------------- */

static enum qkv_status talk_texts(const struct qkv_talk_coder *c, const json_t *prompt, const json_t *answer,
                                  struct qkv_talk *talk) {
    const size_t first = json_string_length(prompt), size = first + json_string_length(answer);
    const struct qkv_talk_spans spans = {.items = (size_t[]){first, size}, .count = 1};
    const int32_t *before = NULL, *after = NULL, end = qkv_tokenizer_role(c->tokenizer, QKV_TOKEN_ROLE_END);
    size_t before_count = 0, after_count = 0;
    struct qkv_buffer text = {0};
    enum qkv_status status = qkv_buffer_append(c->ctx, &text, json_string_value(prompt), first);
    if (!status) status = qkv_buffer_append(c->ctx, &text, json_string_value(answer), json_string_length(answer));
    if (!status) status = talk_tokens(c, text.data ? text.data : "", size, &spans, talk);
    qkv_buffer_free(&text);
    if (status) return status;
    qkv_tokenizer_template(c->tokenizer, &before, &before_count, &after, &after_count);
    const bool ends = talk->count && talk->ids[talk->count - 1] == end;
    /* texts may be written with both already */
    if (ends && after_count && after[0] == end) after++, after_count--;
    if (before_count && talk->count && talk->ids[0] == before[before_count - 1]) before_count--;
    if (!after_count && end >= 0 && !ends) after = &end, after_count = 1;
    return talk_frame(c, before, before_count, after, after_count, talk);
}

/* ---- talks ------------------------------------------------------------------------------------------------------- */

/* The roles of messages {"from", "value"}; others are the template's. */
static const char *talk_role(const char *from) {
    static const struct {
        const char *from, *role;
    } roles[] = {{"human", "user"},     {"gpt", "assistant"},   {"chatgpt", "assistant"}, {"bing", "assistant"},
                 {"bard", "assistant"}, {"model", "assistant"}, {"observation", "tool"}};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (!strcmp(roles[i].from, from)) return roles[i].role;
    return from;
}

/* Appends the messages of a list, with roles and contents. */
static enum qkv_status talk_add(const struct qkv_talk_coder *c, const json_t *list, json_t *messages) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *message = json_array_get(list, i);
        const char *from = json_string_value(json_object_get(message, "from"));
        const size_t at = json_array_size(messages) + 1;
        if (!json_is_object(message))
            return qkv_fail(c->ctx, QKV_FORMAT, "message %zu is no object {\"role\": …, \"content\": …}", at);
        if (from && !json_object_get(message, "role")) {
            json_t *value = json_object_get(message, "value");
            if (!json_is_string(value))
                return qkv_fail(c->ctx, QKV_FORMAT, "message %zu has \"from\", but no text \"value\"", at);
            message = json_pack("{s:s, s:O, s:O*}", "role", talk_role(from), "content", value, "weight",
                                json_object_get(message, "weight"));
        } else {
            json_incref(message);
        }
        if (json_array_append_new(messages, message)) return qkv_fail_memory(c->ctx, 0, "a talk");
    }
    return QKV_OK;
}

/* The messages of one list, or of a prompt and its answer, of which only the latter's turns count. */
static enum qkv_status talk_messages(const struct qkv_talk_coder *c, const json_t *line, const json_t *prompt,
                                     const json_t *answer, struct qkv_talk *talk) {
    struct qkv_talk_spans spans = {0};
    json_t *messages = json_array();
    char *text = NULL;
    size_t size = 0;
    enum qkv_status status = messages ? QKV_OK : qkv_fail_memory(c->ctx, 0, "a talk");
    if (!status && prompt) status = talk_add(c, prompt, messages);
    const size_t first = json_array_size(messages);
    if (!status) status = talk_add(c, answer, messages);
    if (!status) status = qkv_talk_render(c, line, messages, first, &text, &size, &spans);
    if (!status) status = talk_tokens(c, text, size, &spans, talk);
    json_decref(messages);
    qkv_free(text);
    qkv_free(spans.items);
    return status;
}

static enum qkv_status talk_encoded(const struct qkv_talk_coder *c, enum qkv_status status, struct qkv_talk *talk) {
    if (!status && !qkv_talk_counts(talk))
        status = qkv_fail(c->ctx, QKV_FORMAT, "no token of the answer counts: it is empty; remove the line");
    if (status) qkv_talk_free(talk);
    return status;
}

enum qkv_status qkv_talk_encode_answer(const struct qkv_talk_coder *c, const json_t *line, const char *prompt,
                                       const char *answer, struct qkv_talk *talk) {
    const json_t *first = json_object_get(line, prompt), *second = json_object_get(line, answer);
    enum qkv_status status;
    *talk = (struct qkv_talk){0};
    if (json_is_string(first) && json_is_string(second))
        status = talk_texts(c, first, second, talk);
    else if (json_is_array(first) && json_is_array(second))
        status = talk_messages(c, line, first, second, talk);
    else
        status = qkv_fail(c->ctx, QKV_FORMAT, "\"%s\" and \"%s\" must be two texts, or two lists of messages", prompt,
                          answer);
    return talk_encoded(c, status, talk);
}

enum qkv_status qkv_talk_encode(const struct qkv_talk_coder *c, const json_t *line, struct qkv_talk *talk) {
    const json_t *messages = json_object_get(line, "messages"), *other = json_object_get(line, "conversations");
    const char *key = messages ? "messages" : "conversations";
    *talk = (struct qkv_talk){0};
    if (!messages && !other && (json_object_get(line, "prompt") || json_object_get(line, "completion")))
        return qkv_talk_encode_answer(c, line, "prompt", "completion", talk);
    if (!messages) messages = other;
    if (!messages)
        return qkv_fail(c->ctx, QKV_FORMAT,
                        "there is no key \"messages\" or \"conversations\", and no \"prompt\" with a \"completion\"");
    if (!json_array_size(messages)) return qkv_fail(c->ctx, QKV_FORMAT, "\"%s\" is no list with messages", key);
    return talk_encoded(c, talk_messages(c, line, NULL, messages, talk), talk);
}
