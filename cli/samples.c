/* samples.c: stores continuations until they are written: their texts, their tokens, and both as JSON. */
#include <stdlib.h>
#include <string.h>

#include "cli_text.h"

bool cli_samples_begin(struct cli_samples *samples, size_t count) {
    *samples = (struct cli_samples){.items = calloc(count, sizeof *samples->items), .count = count};
    return samples->items != NULL;
}

void cli_samples_free(struct cli_samples *samples) {
    for (size_t i = 0; samples->items && i < samples->count; i++) {
        free(samples->items[i].text);
        free(samples->items[i].tokens);
    }
    free(samples->items);
    *samples = (struct cli_samples){0};
}

/* Returns room for `more` items of `size` bytes after `count`; NULL without memory, and the items stay valid. */
static void *samples_room(struct cli_samples *samples, void *items, size_t *room, size_t count, size_t more,
                          size_t size) {
    if (items && more <= *room - count) return items;
    const size_t wanted = 2 * (*room + more);
    void *grown = realloc(items, wanted * size);
    samples->broken |= !grown;
    if (grown) *room = wanted;
    return grown;
}

bool cli_samples_text(void *user, size_t index, const char *text, size_t size) {
    struct cli_samples *samples = user;
    struct cli_sample *s = &samples->items[index];
    char *room = samples_room(samples, s->text, &s->text_room, s->size, size, 1);
    if (!room) return false;
    s->text = room;
    memcpy(s->text + s->size, text, size);
    s->size += size;
    return !cli_stopping;
}

bool cli_samples_token(void *user, const struct qkv_made_token *token) {
    struct cli_samples *samples = user;
    struct cli_sample *s = &samples->items[token->index];
    struct cli_token *room = samples_room(samples, s->tokens, &s->token_room, s->count, 1, sizeof *room);
    if (!room) return false;
    s->tokens = room;
    s->tokens[s->count++] = (struct cli_token){
        .id = token->id, .end = token->end, .stop = token->stop, .log_probability = token->log_probability};
    return !cli_stopping;
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void token_json(struct qkv_json *json, const struct cli_token *token, const struct qkv_tokenizer *tokenizer) {
    size_t size = 0;
    const char *text = tokenizer ? qkv_tokenizer_token(tokenizer, token->id, &size) : NULL;
    if (!text) size = 0;
    qkv_json_line(json, 16);
    qkv_json_begin(json, '{');
    qkv_json_put_integer(json, "id", token->id);
    cli_json_put_token(json, "text", text, size);
    qkv_json_put_number(json, "logprob", token->log_probability, 7);
    qkv_json_end(json, '}');
}

/* What ended a text: "end" (token), "stop" (text), "interrupted", or "length". */
static const char *sample_end(const struct cli_sample *s, size_t tokens) {
    const struct cli_token *last = s->count ? &s->tokens[s->count - 1] : NULL;
    if (last && last->end) return "end";
    if (last && last->stop) return "stop";
    return cli_stopping && s->count < tokens ? "interrupted" : "length";
}

static void sample_json(struct qkv_json *json, const struct cli_sample *s, const struct qkv_tokenizer *tokenizer,
                        uint64_t seed, size_t tokens) {
    double sum = 0;
    for (size_t i = 0; i < s->count; i++) sum += s->tokens[i].log_probability;
    qkv_json_line(json, 8);
    qkv_json_begin(json, '{');
    qkv_json_put_count(json, "seed", seed);
    qkv_json_key(json, "text");
    qkv_json_string(json, s->text ? s->text : "", s->size);
    qkv_json_put_text(json, "ended_by", sample_end(s, tokens));
    qkv_json_put_number(json, "logprob", sum, 7);
    qkv_json_line(json, 12);
    qkv_json_key(json, "tokens");
    qkv_json_begin(json, '[');
    for (size_t i = 0; i < s->count; i++) token_json(json, &s->tokens[i], tokenizer);
    qkv_json_end(json, ']');
    qkv_json_end(json, '}');
}

int cli_samples_json(const struct cli_samples *samples, const struct cli_prompt *prompt,
                     const struct qkv_tokenizer *tokenizer, const struct qkv_generate_report *report,
                     const struct qkv_generate_options *options) {
    struct qkv_json json = cli_json();
    const bool skipped = report->long_prompt && !report->prompt_tokens;
    qkv_json_begin(&json, '{');
    qkv_json_line(&json, 4);
    if (prompt->ids && !prompt->rendered) {
        qkv_json_key(&json, "prompt_ids");
        qkv_json_begin(&json, '[');
        for (size_t i = 0; i < prompt->id_count; i++) qkv_json_integer(&json, prompt->ids[i]);
        qkv_json_end(&json, ']');
    } else {
        qkv_json_key(&json, "prompt");
        qkv_json_string(&json, prompt->text, prompt->size);
    }
    qkv_json_put_count(&json, "prompt_tokens", report->prompt_tokens);
    if (report->long_prompt) qkv_json_put_count(&json, "long_prompt", report->long_prompt);
    qkv_json_line(&json, 4);
    qkv_json_key(&json, "samples");
    qkv_json_begin(&json, '[');
    for (size_t i = 0; i < samples->count && !skipped; i++)
        sample_json(&json, &samples->items[i], tokenizer, options->sampling.seed + i, options->tokens);
    qkv_json_line(&json, 4);
    qkv_json_end(&json, ']');
    qkv_json_line(&json, 0);
    qkv_json_end(&json, '}');
    return cli_json_end(&json);
}
