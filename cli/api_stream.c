/* api_stream.c: the pieces in which a stream tells an answer. */
#include <stdlib.h>
#include <string.h>

#include "cli_api.h"

/* How far the text of a choice may be told: what could be part of a call of a tool is held back. */
static size_t told_most(const struct cli_api *api, const struct cli_api_request *r, const struct cli_api_choice *c) {
    if (c->finish) return c->content_size;
    if (r->calls_only) return 0;
    return r->uses_tools && api->tools ? cli_tools_plain(api->tools, c->text, c->size) : c->size;
}

static void put_delta(struct cli_api_choice *c, size_t choice, size_t most, uint64_t number, struct qkv_json *out) {
    qkv_json_key(out, "delta");
    qkv_json_begin(out, '{');
    if (!c->begun) qkv_json_put_text(out, "role", "assistant");
    if (most > c->told || !c->begun) {
        qkv_json_key(out, "content");
        qkv_json_string(out, c->text && most > c->told ? c->text + c->told : "", most - c->told);
    }
    if (c->finish && c->calls) cli_tools_put(c->calls, number, choice, true, out);
    qkv_json_end(out, '}');
}

/* The text of a completion's chunk; the first one of an echo has the prompt in front. */
static void put_text(const struct cli_api *api, const struct cli_api_request *r, struct cli_api_choice *c,
                     size_t choice, size_t most, struct qkv_json *out) {
    size_t size = 0;
    char *all = !c->begun && r->values.echo > 0 ? cli_api_prompt_text(api, r, choice / r->ask.answers, &size) : NULL;
    char *grown = realloc(all, size + most - c->told + 1);
    if (grown && most > c->told) memcpy(grown + size, c->text + c->told, most - c->told);
    qkv_json_key(out, "text");
    qkv_json_string(out, grown ? grown : "", grown ? size + most - c->told : 0);
    free(grown ? grown : all);
}

bool cli_api_put_chunk(const struct cli_api *api, struct cli_api_request *r, size_t choice, uint64_t number,
                       int64_t created, struct qkv_json *out) {
    struct cli_api_choice *c = &r->choices[choice];
    const size_t most = told_most(api, r, c);
    const bool more = most > c->told || c->count > c->told_tokens || c->finish;
    if (c->ended || !more) return false;
    cli_api_put_head(api, r, true, number, created, out);
    qkv_json_key(out, "choices");
    qkv_json_begin(out, '[');
    qkv_json_begin(out, '{');
    qkv_json_put_count(out, "index", choice);
    if (r->chat)
        put_delta(c, choice, most, number, out);
    else
        put_text(api, r, c, choice, most, out);
    cli_api_put_scores(api, r, c, c->told_tokens, out);
    qkv_json_put_text(out, "finish_reason", cli_api_finish(c));
    qkv_json_end(out, '}');
    qkv_json_end(out, ']');
    if (r->tells_usage) qkv_json_put_raw(out, "usage", "null");
    qkv_json_end(out, '}');
    c->begun = true;
    c->ended = c->finish != QKV_FINISH_NONE;
    c->told = most;
    c->told_tokens = c->count;
    return true;
}

void cli_api_put_usage(const struct cli_api *api, const struct cli_api_request *r, uint64_t number, int64_t created,
                       struct qkv_json *out) {
    cli_api_put_head(api, r, true, number, created, out);
    qkv_json_key(out, "choices");
    qkv_json_begin(out, '[');
    qkv_json_end(out, ']');
    cli_api_put_counts(r, out);
    qkv_json_end(out, '}');
}
