/* api_answer.c: answers, gathered from events and written as JSON. */
#include <stdlib.h>
#include <string.h>

#include "cli_api.h"

/* ---- events ------------------------------------------------------------------------------------------------------ */

bool cli_api_owns(const struct cli_api_request *r, const struct qkv_engine_event *event) {
    for (size_t i = 0; i < r->prompt_count; i++)
        if (r->prompts[i].engine_id == event->request) return true;
    return false;
}

static bool take_text(struct cli_api_choice *c, const char *text, size_t size) {
    if (c->size + size + 1 > c->room) {
        const size_t room = 2 * (c->size + size + 1);
        char *grown = realloc(c->text, room);
        if (!grown) return false;
        c->text = grown;
        c->room = room;
    }
    memcpy(c->text + c->size, text, size);
    c->size += size;
    c->text[c->size] = 0;
    return true;
}

/* Makes room for more tokens; `top` are the likeliest ones that each has. */
static bool take_room(struct cli_api_choice *c, size_t top) {
    const size_t room = c->count ? 2 * c->count : 16;
    struct cli_api_token *tokens = realloc(c->tokens, room * sizeof *tokens);
    if (tokens) c->tokens = tokens;
    struct qkv_token_score *tops = top ? realloc(c->tops, room * top * sizeof *tops) : NULL;
    if (tops) c->tops = tops;
    if (!tokens || (top && !tops)) return false;
    c->token_room = room;
    return true;
}

static bool take_token(struct cli_api_choice *c, size_t top, const struct qkv_engine_event *event) {
    const size_t count = event->top_count < top ? event->top_count : top;
    if (c->count == c->token_room && !take_room(c, top)) return false;
    if (count) memcpy(c->tops + c->count * top, event->top, count * sizeof *c->tops);
    c->tokens[c->count++] = (struct cli_api_token){
        .score = event->token, .size = event->token_size, .top_count = count, .prompt = event->prompt};
    return true;
}

bool cli_api_take(const struct cli_api *api, struct cli_api_request *r, const struct qkv_engine_event *event) {
    size_t prompt = 0;
    while (r->prompts[prompt].engine_id != event->request) prompt++;
    struct cli_api_choice *c = &r->choices[prompt * r->ask.answers + event->answer];
    const bool wanted = r->ask.log_probabilities && event->token.id >= 0;
    if (event->size && !take_text(c, event->text, event->size)) return false;
    if (wanted && !take_token(c, r->ask.top, event)) return false;
    if (event->vector) {
        c->vector = malloc((event->vector_count + 1) * sizeof *c->vector);
        if (!c->vector) return false;
        memcpy(c->vector, event->vector, event->vector_count * sizeof *c->vector);
        c->width = event->vector_count;
    }
    if (event->finish == QKV_FINISH_NONE) return true;
    c->finish = event->finish;
    c->content_size = c->size;
    if (r->calls_only && (c->calls = cli_tools_parse_list(c->text, c->size))) c->content_size = 0;
    if (!r->calls_only && r->uses_tools && api->tools && event->finish == QKV_FINISH_STOP)
        c->calls = cli_tools_parse(api->tools, c->text, c->size, &c->content_size);
    r->open--;
    r->prompt_tokens += event->answer ? 0 : event->prompt_tokens;
    r->cached_tokens += event->answer ? 0 : event->cached_tokens;
    r->tokens += event->tokens;
    if (event->finish == QKV_FINISH_FAILED) {
        cli_api_refuse(&r->error, "", "%s", event->message);
        r->error.status = 500;
    }
    return true;
}

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

static const char *token_text(const struct cli_api *api, int32_t id, size_t *size) {
    const struct qkv_tokenizer *tokenizer = qkv_model_tokenizer(api->model);
    const char *text = tokenizer ? qkv_tokenizer_token(tokenizer, id, size) : NULL;
    if (!text) *size = 0;
    return text ? text : "";
}

/* {"token", "logprob", "bytes"} of a chat, open. */
static void put_chat_token(const struct cli_api *api, struct qkv_token_score score, struct qkv_json *out) {
    size_t size;
    const char *text = token_text(api, score.id, &size);
    qkv_json_begin(out, '{');
    qkv_json_key(out, "token");
    qkv_json_string(out, text, size);
    qkv_json_put_number(out, "logprob", score.log_probability, 9);
    qkv_json_key(out, "bytes");
    qkv_json_begin(out, '[');
    for (size_t i = 0; i < size; i++) qkv_json_count(out, (unsigned char)text[i]);
    qkv_json_end(out, ']');
}

static void put_chat_tokens(const struct cli_api *api, const struct cli_api_choice *c, size_t top, size_t first,
                            struct qkv_json *out) {
    qkv_json_begin(out, '{');
    qkv_json_key(out, "content");
    qkv_json_begin(out, '[');
    for (size_t i = first; i < c->count; i++) {
        put_chat_token(api, c->tokens[i].score, out);
        qkv_json_key(out, "top_logprobs");
        qkv_json_begin(out, '[');
        for (size_t k = 0; k < c->tokens[i].top_count; k++) {
            put_chat_token(api, c->tops[i * top + k], out);
            qkv_json_end(out, '}');
        }
        qkv_json_end(out, ']');
        qkv_json_end(out, '}');
    }
    qkv_json_end(out, ']');
    qkv_json_end(out, '}');
}

static bool is_plain(const char *text, size_t size) {
    size_t at = 0;
    for (size_t n; at < size && text[at] && (n = qkv_utf8_length(text + at, size - at)); at += n) {
    }
    return at == size;
}

/* A token of a completion, as a key or as a value: its text, or bytes:\xe2\x80 where that is no text, so that no two
 * tokens look alike. */
static void put_name(const struct cli_api *api, int32_t id, void put(struct qkv_json *, const char *, size_t),
                     struct qkv_json *out) {
    size_t size, at = 0;
    const char *text = token_text(api, id, &size);
    const size_t room = 6 + 4 * size + 1;
    char *name = is_plain(text, size) ? NULL : malloc(room);
    if (!name) {
        put(out, text, size);
        return;
    }
    at = (size_t)snprintf(name, room, "bytes:");
    for (size_t i = 0; i < size; i++)
        at += (size_t)snprintf(name + at, room - at, "\\x%02x", (unsigned)(unsigned char)text[i]);
    put(out, name, at);
    free(name);
}

/* The likeliest tokens of a completion's token; the first token of a prompt has none. */
static void put_top(const struct cli_api *api, const struct cli_api_choice *c, size_t top, size_t i,
                    struct qkv_json *out) {
    if (!c->tokens[i].top_count) {
        qkv_json_raw(out, "null");
        return;
    }
    qkv_json_begin(out, '{');
    for (size_t k = 0; k < c->tokens[i].top_count; k++) {
        const struct qkv_token_score *score = &c->tops[i * top + k];
        put_name(api, score->id, qkv_json_key_bytes, out);
        qkv_json_number(out, score->log_probability, 9);
    }
    qkv_json_end(out, '}');
}

static void put_tokens(const struct cli_api *api, const struct cli_api_choice *c, size_t top, size_t first,
                       struct qkv_json *out) {
    size_t at = 0;
    qkv_json_begin(out, '{');
    qkv_json_key(out, "tokens");
    qkv_json_begin(out, '[');
    for (size_t i = first; i < c->count; i++) put_name(api, c->tokens[i].score.id, qkv_json_string, out);
    qkv_json_end(out, ']');
    qkv_json_key(out, "token_logprobs");
    qkv_json_begin(out, '[');
    for (size_t i = first; i < c->count; i++)
        if (i || !c->tokens[i].prompt)
            qkv_json_number(out, c->tokens[i].score.log_probability, 9);
        else
            qkv_json_raw(out, "null");
    qkv_json_end(out, ']');
    qkv_json_key(out, "top_logprobs");
    qkv_json_begin(out, '[');
    for (size_t i = first; i < c->count; i++) put_top(api, c, top, i, out);
    qkv_json_end(out, ']');
    qkv_json_key(out, "text_offset");
    qkv_json_begin(out, '[');
    for (size_t i = 0; i < c->count; at += c->tokens[i++].size)
        if (i >= first) qkv_json_count(out, at);
    qkv_json_end(out, ']');
    qkv_json_end(out, '}');
}

void cli_api_put_scores(const struct cli_api *api, const struct cli_api_request *r, const struct cli_api_choice *c,
                        size_t first, struct qkv_json *out) {
    qkv_json_key(out, "logprobs");
    if (!r->ask.log_probabilities)
        qkv_json_raw(out, "null");
    else
        (r->chat ? put_chat_tokens : put_tokens)(api, c, r->ask.top, first, out);
}

/* ---- the answer -------------------------------------------------------------------------------------------------- */

const char *cli_api_finish(const struct cli_api_choice *c) {
    static const char *const names[] = {[QKV_FINISH_NONE] = NULL,       [QKV_FINISH_STOP] = "stop",
                                        [QKV_FINISH_LENGTH] = "length", [QKV_FINISH_CANCELLED] = "cancelled",
                                        [QKV_FINISH_FAILED] = "failed", [QKV_FINISH_READ] = "stop"};
    return c->calls ? "tool_calls" : names[c->finish];
}

char *cli_api_prompt_text(const struct cli_api *api, const struct cli_api_request *r, size_t i, size_t *size) {
    const struct cli_api_prompt *p = &r->prompts[i];
    const struct qkv_tokenizer *t = qkv_model_tokenizer(api->model);
    char *decoded = NULL;
    *size = p->size;
    if (!p->text && t && qkv_tokenizer_decode(api->ctx, t, p->ids, p->count, &decoded, size)) *size = 0;
    char *own = malloc(*size + 1);
    if (own && *size) memcpy(own, decoded ? decoded : p->text, *size);
    if (own) own[*size] = 0;
    qkv_free(decoded);
    return own;
}

/* The text of a completion; with echo, after its prompt. */
static void put_completion(const struct cli_api *api, const struct cli_api_request *r, const struct cli_api_choice *c,
                           size_t prompt, struct qkv_json *out) {
    size_t size = 0;
    char *all = r->values.echo > 0 ? cli_api_prompt_text(api, r, prompt, &size) : NULL;
    char *grown = realloc(all, size + c->size + 1);
    if (grown && c->size) memcpy(grown + size, c->text, c->size);
    qkv_json_key(out, "text");
    qkv_json_string(out, grown ? grown : "", grown ? size + c->size : 0);
    free(grown ? grown : all);
}

static void put_message(const struct cli_api_choice *c, uint64_t number, size_t i, struct qkv_json *out) {
    qkv_json_key(out, "message");
    qkv_json_begin(out, '{');
    qkv_json_put_text(out, "role", "assistant");
    qkv_json_key(out, "content");
    if (c->calls && !c->content_size)
        qkv_json_raw(out, "null");
    else
        qkv_json_string(out, c->text ? c->text : "", c->content_size);
    qkv_json_put_raw(out, "refusal", "null");
    if (c->calls) cli_tools_put(c->calls, number, i, false, out);
    qkv_json_end(out, '}');
}

static void put_choice(const struct cli_api *api, const struct cli_api_request *r, size_t i, uint64_t number,
                       struct qkv_json *out) {
    const struct cli_api_choice *c = &r->choices[i];
    qkv_json_begin(out, '{');
    qkv_json_put_count(out, "index", i);
    if (r->chat)
        put_message(c, number, i, out);
    else
        put_completion(api, r, c, i / r->ask.answers, out);
    cli_api_put_scores(api, r, c, 0, out);
    qkv_json_put_text(out, "finish_reason", cli_api_finish(c));
    qkv_json_end(out, '}');
}

void cli_api_put_head(const struct cli_api *api, const struct cli_api_request *r, bool chunk, uint64_t number,
                      int64_t created, struct qkv_json *out) {
    char id[64];
    snprintf(id, sizeof id, "%s-%llu", r->chat ? "chatcmpl" : "cmpl", (unsigned long long)number);
    qkv_json_begin(out, '{');
    qkv_json_put_text(out, "id", id);
    qkv_json_put_text(out, "object",
                      !r->chat ? "text_completion"
                      : chunk  ? "chat.completion.chunk"
                               : "chat.completion");
    qkv_json_put_integer(out, "created", created);
    qkv_json_put_text(out, "model", r->adapter ? r->adapter : api->name);
}

void cli_api_put_counts(const struct cli_api_request *r, struct qkv_json *out) {
    qkv_json_key(out, "usage");
    qkv_json_begin(out, '{');
    qkv_json_put_count(out, "prompt_tokens", r->prompt_tokens);
    qkv_json_put_count(out, "completion_tokens", r->tokens);
    qkv_json_put_count(out, "total_tokens", r->prompt_tokens + r->tokens);
    qkv_json_key(out, "prompt_tokens_details");
    qkv_json_begin(out, '{');
    qkv_json_put_count(out, "cached_tokens", r->cached_tokens);
    qkv_json_end(out, '}');
    qkv_json_end(out, '}');
}

void cli_api_put_answer(const struct cli_api *api, const struct cli_api_request *r, uint64_t number, int64_t created,
                        struct qkv_json *out) {
    if (r->put) {
        r->put(api, r, number, created, out);
        return;
    }
    cli_api_put_head(api, r, false, number, created, out);
    qkv_json_key(out, "choices");
    qkv_json_begin(out, '[');
    for (size_t i = 0; i < r->choice_count; i++) put_choice(api, r, i, number, out);
    qkv_json_end(out, ']');
    cli_api_put_counts(r, out);
    qkv_json_end(out, '}');
}
