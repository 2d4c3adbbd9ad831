/* chat_talk.c: a talk and the answers to it. Templates rewrite the past: they leave out thoughts, and move headers. So
 * each answer renders and encodes the whole talk, and the session keeps what it holds up to the first id that
 * differs. */
#include <stdlib.h>
#include <string.h>

#include "cli_chat.h"

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static const char *talk_role(const json_t *message) {
    const char *role = json_string_value(json_object_get(message, "role"));
    return role ? role : "";
}

int cli_chat_add(struct cli_chat *chat, const char *role, const char *text, size_t size) {
    json_t *content = json_stringn(text, size);
    if (!content) return cli_failed("the message is not UTF-8, or there is no memory for it");
    json_t *message = json_pack("{s:s, s:o}", "role", role, "content", content);
    return json_array_append_new(chat->messages, message) ? cli_failed("out of memory") : CLI_DONE;
}

bool cli_chat_drop(struct cli_chat *chat, const char *role) {
    size_t n = json_array_size(chat->messages);
    while (n && strcmp(talk_role(json_array_get(chat->messages, n - 1)), role) != 0) n--;
    if (!n) return false;
    while (json_array_size(chat->messages) >= n) json_array_remove(chat->messages, json_array_size(chat->messages) - 1);
    return true;
}

int cli_chat_system(struct cli_chat *chat, const char *text) {
    const json_t *first = json_array_get(chat->messages, 0);
    if (first && !strcmp(talk_role(first), "system")) json_array_remove(chat->messages, 0);
    if (!*text) return CLI_DONE;
    json_t *message = json_pack("{s:s, s:s}", "role", "system", "content", text);
    return json_array_insert_new(chat->messages, 0, message) ? cli_failed("the text is not UTF-8") : CLI_DONE;
}

int cli_chat_read(struct cli_chat *chat, const char *name, const char *text, size_t size) {
    json_error_t error;
    json_t *talk = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    if (!talk) return cli_failed("%s: no JSON, at line %d, column %d: %s", name, error.line, error.column, error.text);
    json_t *messages = json_is_object(talk) ? json_object_get(talk, "messages") : talk;
    bool fits = json_array_size(messages) > 0;
    for (size_t i = 0; i < json_array_size(messages) && fits; i++) {
        const json_t *message = json_array_get(messages, i);
        fits = *talk_role(message) && json_object_get(message, "content");
        if (!fits) cli_failed("%s: message %zu has no text \"role\", or no \"content\"", name, i + 1);
    }
    if (!json_array_size(messages)) cli_failed("%s: there is no list of messages", name);
    if (fits) {
        json_decref(chat->messages);
        chat->messages = json_incref(messages);
    }
    json_decref(talk);
    return fits ? CLI_DONE : CLI_FAILED;
}

/* ---- the context ------------------------------------------------------------------------------------------------- */

/* The talk without its `count` oldest messages; that of the system stays. */
static json_t *talk_without(const struct cli_chat *chat, size_t count) {
    json_t *left = json_copy(chat->messages);
    const size_t first = !strcmp(talk_role(json_array_get(left, 0)), "system");
    for (size_t i = 0; i < count && left; i++) json_array_remove(left, first);
    return left;
}

/* The number of messages to forget for one more exchange to go: up to the next message of the user. */
static size_t talk_next(const struct cli_chat *chat, size_t count) {
    const size_t n = json_array_size(chat->messages);
    const size_t first = !strcmp(talk_role(json_array_get(chat->messages, 0)), "system");
    do count++;
    while (first + count < n && strcmp(talk_role(json_array_get(chat->messages, first + count)), "user") != 0);
    return first + count < n ? count : 0;
}

static int talk_full(const struct cli_chat *chat, size_t count) {
    return cli_failed("the talk has %zu tokens, and the context holds %zu: begin a new talk (/new), or give "
                      "--when-full forget-oldest or a longer --context",
                      count, qkv_session_capacity(chat->session));
}

/* The ids of the talk, or, where a full context forgets, of its newest part that leaves room for an answer. */
static int talk_encode(struct cli_chat *chat, struct qkv_rendered *text, int32_t **ids, size_t *count) {
    const size_t capacity = qkv_session_capacity(chat->session);
    const size_t answer = chat->options.tokens < capacity / 4 ? chat->options.tokens : capacity / 4;
    size_t forgotten = 0;
    for (;;) {
        json_t *messages = talk_without(chat, forgotten);
        if (!messages) return cli_failed("out of memory");
        const int code = cli_talk_encode(chat->ctx, &chat->style, chat->model, messages, text, ids, count);
        json_decref(messages);
        if (code) return code;
        if (*count < capacity && (!chat->forgets || *count + answer <= capacity)) break;
        const size_t next = chat->forgets ? talk_next(chat, forgotten) : 0;
        if (!next && *count < capacity) break;
        if (!next) return talk_full(chat, *count);
        forgotten = next;
        qkv_rendered_free(text);
        free(*ids);
    }
    if (forgotten > chat->forgotten) cli_say("the context is full: the %zu oldest messages are forgotten", forgotten);
    chat->forgotten = forgotten;
    return CLI_DONE;
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static bool talk_hold(struct cli_chat *chat, const int32_t *ids, size_t count) {
    if (chat->held_count + count > chat->held_room) {
        const size_t room = 2 * (chat->held_count + count);
        int32_t *held = realloc(chat->held, room * sizeof *held);
        if (!held) return false;
        chat->held = held;
        chat->held_room = room;
    }
    memcpy(chat->held + chat->held_count, ids, count * sizeof *ids);
    chat->held_count += count;
    return true;
}

static bool talk_take(void *user, const struct qkv_made_token *token) {
    struct cli_chat *chat = user;
    chat->ended = token->end ? "end" : token->stop ? "stop" : NULL;
    return (token->end || talk_hold(chat, &token->id, 1)) && !cli_stopping;
}

/* A text of the model as a value of JSON: bytes that are not UTF-8, as of a character that was cut, become U+FFFD. */
static json_t *talk_text(const char *text, size_t size) {
    struct qkv_json json = {0};
    qkv_json_string(&json, text, size);
    json_t *value = json.status ? NULL : json_loadb(json.text.data, json.text.size, JSON_DECODE_ANY, NULL);
    qkv_json_free(&json);
    return value;
}

/* Adds the answer to the talk. */
static int talk_add_answer(struct cli_chat *chat) {
    const struct cli_answer *a = &chat->answer;
    size_t size = a->said_size;
    while (size && strchr(" \t\r\n", a->said[size - 1])) size--;
    json_t *message = json_pack("{s:s, s:o}", "role", "assistant", "content", talk_text(a->said ? a->said : "", size));
    if (a->key && a->thought_size && message &&
        json_object_set_new(message, a->key, talk_text(a->thought, a->thought_size))) {
        json_decref(message);
        message = NULL;
    }
    return json_array_append_new(chat->messages, message) ? cli_failed("out of memory") : CLI_DONE;
}

static int talk_generate(struct cli_chat *chat, const int32_t *ids, size_t count) {
    struct qkv_generate_options o = chat->options;
    const size_t length = qkv_session_length(chat->session);
    size_t same = 0;
    while (same < count && same < chat->held_count && same < length && ids[same] == chat->held[same]) same++;
    chat->held_count = 0;
    if (!talk_hold(chat, ids, count)) return cli_failed("out of memory");
    o.ids = ids, o.id_count = count;
    o.stops = chat->stops.items, o.stop_count = chat->stops.count;
    o.sampling.seed += chat->answers++;
    o.take_token = talk_take, o.take_user = chat;
    chat->ended = NULL;
    const enum qkv_status status =
        qkv_session_generate(chat->session, same, &o, cli_answer_text, &chat->answer, &chat->report);
    const bool kept = cli_answer_end(&chat->answer);
    chat->talk_tokens = count;
    chat->kept = chat->report.prompt_tokens ? count - chat->report.prompt_tokens : qkv_session_length(chat->session);
    if (status && status != QKV_STOPPED) {
        chat->held_count = same; /* the session may have any ids past them */
        return cli_broken(chat->ctx);
    }
    if (!kept && !ferror(stdout)) return cli_failed("out of memory");
    if (!chat->ended) chat->ended = cli_stopping ? "interrupted" : chat->report.tokens == o.tokens ? "length" : "full";
    return talk_add_answer(chat);
}

int cli_chat_adapt(struct cli_chat *chat, const char *adapter) {
    const struct qkv_session_options options = {.size = sizeof options,
                                                .capacity = qkv_session_capacity(chat->session)};
    qkv_session_free(chat->session);
    chat->session = NULL;
    chat->held_count = 0;
    if (qkv_adapter_use(chat->model, adapter) || qkv_session_create(chat->model, &options, &chat->session))
        return cli_broken(chat->ctx);
    chat->adapter = adapter;
    return CLI_DONE;
}

int cli_chat_answer(struct cli_chat *chat) {
    struct qkv_rendered text = {0};
    int32_t *ids = NULL;
    size_t count = 0;
    cli_answer_free(&chat->answer);
    int code = talk_encode(chat, &text, &ids, &count);
    if (code == CLI_DONE) {
        cli_answer_begin(&chat->answer, text.text);
        code = talk_generate(chat, ids, count);
    }
    qkv_rendered_free(&text);
    free(ids);
    return code;
}

void cli_chat_close(struct cli_chat *chat) {
    qkv_session_free(chat->session);
    cli_talk_close(&chat->style);
    cli_answer_free(&chat->answer);
    json_decref(chat->messages);
    free(chat->held);
    free(chat->stops.items);
    free(chat->file);
}
