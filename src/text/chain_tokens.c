/* What models share: adding tokens to the result, finding them by their keys, and places where a piece may be cut. */
#include "text/chain.h"

#include <string.h>

enum qkv_status qkv_model_add(struct chain_run *r, int32_t id, size_t begin, size_t end) {
    struct chain_tokens *t = &r->tokens;
    if (!r->spanned) {
        enum qkv_status status = qkv_chain_room(r, 1);
        if (!status) r->ids[r->count++] = id;
        return status;
    }
    if (t->count == t->capacity) {
        struct chain_token *at = qkv_list_room(r->ctx, t->at, &t->capacity, t->count, 1, sizeof *at);
        if (!at) return QKV_MEMORY;
        t->at = at;
    }
    t->at[t->count++] = (struct chain_token){id, (uint32_t)begin, (uint32_t)end};
    return QKV_OK;
}

/* In a plain chain an added token is no token of the model: a text from a stranger cannot
 * spell it. */
int32_t qkv_model_find(const struct chain_run *r, const char *key, size_t size) {
    const struct qkv_string *found = qkv_strings_find(&r->chain->vocab, key, size);
    const struct qkv_chain *c = r->chain;
    if (!found || (c->types && !qkv_chain_spells(c, (size_t)found->value))) return -1;
    return c->plain && r->t->tokens[found->value].added ? -1 : (int32_t)found->value;
}

enum qkv_status qkv_model_unknown(struct chain_run *r, const char *piece, size_t size) {
    if (r->t->whole_words)
        return qkv_fail(
            r->ctx, QKV_FORMAT,
            "\"%.*s\" is no word of the vocabulary, which has the words of the text that the tokenizer was made "
            "from and no " QKV_TOKEN_UNKNOWN " for others",
            (int)(size < 60 ? size : qkv_utf8_cut(piece, 60)), piece);
    return qkv_fail(r->ctx, QKV_FORMAT,
                    "\"%.*s\" is not in the vocabulary of the tokenizer, which has no unknown token",
                    (int)(size < 60 ? size : qkv_utf8_cut(piece, 60)), piece);
}

size_t qkv_model_mark(const char *s, size_t size, size_t at) {
    for (at++; at < size; at++) {
        const char *next = memchr(s + at, '\xE2', size - at);
        if (!next) return size;
        at = (size_t)(next - s);
        if (size - at >= 3 && s[at + 1] == '\x96' && s[at + 2] == '\x81' &&
            !(at >= 3 && memcmp(s + at - 3, "\xE2\x96\x81", 3) == 0))
            return at;
    }
    return size;
}
