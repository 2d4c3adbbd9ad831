/* rows_of_text: what a window of a text is besides its tokens: the documents in it (option documents), or its prefix
 * (option prefix).
 *
 * A document ends with the tokenizer's end token, which belongs to it. The target of that token would be the first
 * token of the next document, of which nothing tells: it does not count. With a prefix of p tokens the targets that
 * count are those from token p on. */
#include <stdlib.h>
#include <string.h>

#include "data/data.h"

/* ---- documents -------------------------------------------------------------------------------------------------- */

int32_t qkv_document_end(const struct qkv_tokenizer *tokenizer) {
    const int32_t *before, *after;
    size_t before_count, after_count;
    if (qkv_tokenizer_template(tokenizer, &before, &before_count, &after, &after_count) && after_count)
        return after[after_count - 1];
    return qkv_text_end(tokenizer);
}

enum qkv_status qkv_documents_check(struct qkv_context *ctx, const struct qkv_tokenizer *tokenizer) {
    if (qkv_document_end(tokenizer) >= 0) return QKV_OK;
    return qkv_fail(
        ctx, QKV_ARGUMENT,
        "documents is given, but the tokenizer has no end token, <|endoftext|> or " QKV_TOKEN_END
        ", that says where a document ends; choose tokenizer bpe or a tokenizer.json that has one, or leave "
        "documents out");
}

void qkv_row_documents(int32_t end, size_t T, const int32_t *ids, int32_t *targets, int32_t *documents) {
    for (size_t t = 0; t < T; t++) {
        documents[t] = t ? documents[t - 1] + (ids[t - 1] == end) : 0;
        if (ids[t] == end) targets[t] = QKV_IGNORE;
    }
}

/* ---- prefixes --------------------------------------------------------------------------------------------------- */

static bool prefix_is_random(const struct qkv_train_options *o) {
    return o->prefix && !strcmp(o->prefix, "random");
}

bool qkv_prefix_parse(const char *text, int64_t *tokens) {
    *tokens = -1;
    if (!strcmp(text, "random")) return true;
    const size_t digits = strspn(text, "0123456789");
    if (!digits || digits > 9 || text[digits]) return false;
    *tokens = strtoll(text, NULL, 10);
    return *tokens > 0;
}

enum qkv_status qkv_prefix_check(struct qkv_context *ctx, const struct qkv_train_options *o,
                                 const struct qkv_spec *spec) {
    const int64_t context = o->context ? o->context : spec->context;
    int64_t tokens;
    if (!o->prefix && spec->prefix)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "the spec's prefix is true: the model sees a prompt in both directions, so it learns with "
                        "prefixes; choose prefix random or a number of tokens, or set prefix=false");
    if (!o->prefix || !qkv_prefix_parse(o->prefix, &tokens) || tokens < context) return QKV_OK;
    return qkv_fail(ctx, QKV_ARGUMENT,
                    "prefix is %s, but a row has %lld tokens, some of which are to follow it; choose at most %lld",
                    o->prefix, (long long)context, (long long)context - 1);
}

int32_t qkv_row_prefix(const struct qkv_train_options *o, uint64_t step, uint64_t row, size_t T) {
    int64_t tokens;
    if (prefix_is_random(o)) return (int32_t)qkv_draw_prefix((uint64_t)o->seed, step, row, T);
    return qkv_prefix_parse(o->prefix, &tokens) && tokens < (int64_t)T ? (int32_t)tokens : (int32_t)(T - 1);
}

int32_t qkv_valid_prefix(const struct qkv_train_options *o, size_t T) {
    return prefix_is_random(o) ? (int32_t)(T / 2) : qkv_row_prefix(o, 0, 0, T);
}

void qkv_row_ignore_prefix(int32_t prefix, size_t T, int32_t *targets) {
    for (size_t t = 0; t < T && (int64_t)t + 1 < prefix; t++) targets[t] = QKV_IGNORE;
}
