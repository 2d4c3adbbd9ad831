/* Plain chains: the rows of text.h, and the files that need no more than these: byte-level BPE as in GPT-2, Llama 3 and
 * Qwen, BPE over characters with byte fallback or an unknown token, and WordLevel over words between white space. */
#include <stdlib.h>
#include <string.h>

#include "text/chain.h"

static bool plain_absent(const json_t *value) {
    return !value || json_is_null(value);
}

static bool plain_is(const struct chain_links *links, size_t i, const char *name) {
    return i < links->count && !strcmp(links->at[i].kind->name, name);
}

/* A byte token <0xNN>: its byte, or −1. */
static int plain_byte(const char *key, size_t size) {
    static const char digits[] = "0123456789ABCDEF";
    if (size != 6 || memcmp(key, "<0x", 3) != 0 || key[5] != '>') return -1;
    const char *high = memchr(digits, key[3], 16), *low = memchr(digits, key[4], 16);
    return high && low ? (int)(high - digits) * 16 + (int)(low - digits) : -1;
}

/* ByteLevel, or a Split before it. */
static bool plain_splits_bytes(const struct qkv_chain *c) {
    const struct chain_link *first = c->splitters.at;
    if (c->splitters.count == 1) return true;
    return c->splitters.count == 2 && plain_is(&c->splitters, 0, "Split") && first->pattern && !first->flags[0] &&
           first->behavior == CHAIN_ISOLATED && !first[1].flags[BYTES_REGEX];
}

/* Whether byte tokens spell what is outside the vocabulary, and no merge has one. */
static bool plain_falls_back(const struct chain_reader *r) {
    const struct qkv_chain *c = r->chain;
    bool fits =
        c->decoders.count == 2 && plain_is(&c->decoders, 0, "ByteFallback") && plain_is(&c->decoders, 1, "Fuse");
    for (size_t i = 0; i < 256; i++) fits = fits && c->byte_ids[i] >= 0;
    for (size_t i = 0; i < r->t->merges.count && fits; i++) {
        const int32_t ids[] = {r->t->merges.list[i].left, r->t->merges.list[i].right, r->t->merges.list[i].result};
        for (size_t k = 0; k < 3; k++) fits = fits && plain_byte(c->keys[ids[k]], c->key_sizes[ids[k]]) < 0;
    }
    return fits;
}

/* Whether the text of an added token is what its bytes spell: "é" as a key of the byte alphabet is another byte. */
static bool plain_spells(const struct chain_reader *r, int32_t id) {
    const struct qkv_token *token = &r->t->tokens[id];
    const char *key = r->chain->keys[id];
    return !key ||
           (token->size == r->chain->key_sizes[id] && !memcmp(qkv_token_bytes(r->t, (size_t)id), key, token->size));
}

/* Whether links are written in the file as qkv writes them: null, one link, or a Sequence of two. */
static bool plain_written(const json_t *root, const char *key, const char *list, size_t links) {
    const json_t *value = json_object_get(root, key), *parts = json_object_get(value, list);
    if (!json_is_array(parts)) return links == !plain_absent(value);
    return json_array_size(parts) == links && (links == 2 || (links == 0 && !strcmp(key, "normalizer")));
}

/* Whether ids are dense, and no merge repeats an earlier one. */
static bool plain_dense(const struct chain_reader *r) {
    const struct qkv_chain *c = r->chain;
    const struct qkv_merges *merges = &r->t->merges;
    const size_t keys = c->bytes ? r->file->keys.count : c->vocab.count, end = 2 * (keys + c->added_count) + 1024;
    size_t distinct = 0;
    for (size_t i = 0; i < merges->slot_count; i++) distinct += merges->slots[i].rank >= 0;
    bool dense = distinct == merges->count;
    for (size_t id = end; id < c->key_count && dense; id++) dense = !c->keys[id];
    return dense;
}

/* Files that have been plain stay so, and no others become it: the digest of a run is that of the saved file. */
bool qkv_chain_is_plain(const struct chain_reader *r, const json_t *root) {
    const struct qkv_chain *c = r->chain;
    if (!plain_absent(json_object_get(root, "truncation")) || !plain_absent(json_object_get(root, "padding")))
        return false;
    if (!plain_written(root, "normalizer", "normalizers", c->normalizers.count) ||
        !plain_written(root, "pre_tokenizer", "pretokenizers", c->splitters.count) ||
        !plain_written(root, "decoder", "decoders", c->decoders.count) || !plain_dense(r) ||
        !json_object_get(json_object_get(root, "model"), "type"))
        return false;
    if (c->types) return false;
    if (c->normalizers.count > 1 || (c->normalizers.count && !plain_is(&c->normalizers, 0, "NFC"))) return false;
    for (size_t i = 0; i < c->added_count; i++)
        if (c->added[i].left || c->added[i].right || c->added[i].single_word || !plain_spells(r, c->added[i].id))
            return false;
    if (qkv_chain_known(r, "", 0)) return false;
    if (c->bytes) return plain_splits_bytes(c);
    if (c->model == CHAIN_WORDLEVEL)
        return c->vocab.count && c->splitters.count == 1 && plain_is(&c->splitters, 0, "WhitespaceSplit") &&
               c->decoders.count == 0;
    if (c->model != CHAIN_BPE || c->splitters.count || c->prefix_size || c->suffix_size) return false;
    if (c->fallback) return plain_falls_back(r);
    return c->unknown >= 0 && !c->fuse_unknown && c->decoders.count == 1 && plain_is(&c->decoders, 0, "Fuse");
}

/* Converts a key in the byte alphabet to bytes. Returns false if it has other characters. */
static bool plain_key_bytes(const char *key, size_t size, char *out, size_t *n) {
    *n = 0;
    for (size_t at = 0; at < size;) {
        const int byte = qkv_symbol_byte(qkv_code_next(key, size, &at));
        if (byte < 0) return false;
        out[(*n)++] = (char)byte;
    }
    return true;
}

enum qkv_status qkv_chain_plain_token(struct chain_reader *r, size_t id, const char *key, size_t size) {
    const struct qkv_chain *c = r->chain;
    const int byte = c->fallback && !c->bytes ? plain_byte(key, size) : -1;
    const char c_byte = (char)byte;
    if (byte >= 0) return qkv_tokenizer_set(r->ctx, r->t, id, &c_byte, 1, QKV_TOKEN_BYTE);
    if (c->model == CHAIN_WORDLEVEL) return qkv_tokenizer_set(r->ctx, r->t, id, key, size, QKV_TOKEN_WORD);
    if (!c->bytes) return qkv_tokenizer_set(r->ctx, r->t, id, key, size, QKV_TOKEN_TEXT);
    size_t n;
    char *bytes = qkv_allocate(r->ctx, size + 1, 1);
    if (!bytes) return QKV_MEMORY;
    const bool spelt = plain_key_bytes(key, size, bytes, &n);
    enum qkv_status status = qkv_tokenizer_set(r->ctx, r->t, id, spelt ? bytes : key, spelt ? n : size,
                                               spelt ? QKV_TOKEN_TEXT : QKV_TOKEN_RAW);
    free(bytes);
    return status;
}

enum qkv_status qkv_chain_plain_tokens(struct chain_reader *r) {
    const struct qkv_chain *c = r->chain;
    enum qkv_status status = QKV_OK;
    for (size_t id = 0; id < c->key_count && !status; id++) {
        if (!c->keys[id] || (id < r->t->count && r->t->tokens[id].form != QKV_TOKEN_HOLE)) continue; /* or added */
        status = qkv_chain_plain_token(r, id, c->keys[id], c->key_sizes[id]);
    }
    return status;
}

/* The token of each single byte; −1: none. */
static void plain_byte_ids(struct qkv_tokenizer *t) {
    const enum qkv_token_form form = t->chain->bytes ? QKV_TOKEN_TEXT : QKV_TOKEN_BYTE;
    for (size_t byte = 0; byte < 256; byte++) t->chain->byte_ids[byte] = -1;
    for (size_t id = 0; id < t->count; id++)
        if (t->tokens[id].form == form && t->tokens[id].size == 1)
            t->chain->byte_ids[(unsigned char)*qkv_token_bytes(t, id)] = (int32_t)id;
}

void qkv_chain_drop_keys(struct qkv_tokenizer *t) {
    struct qkv_chain *c = t->chain;
    plain_byte_ids(t);
    free(c->keys);
    free(c->key_sizes);
    c->keys = NULL;
    c->key_sizes = NULL;
}

enum qkv_status qkv_chain_set_plain(struct qkv_context *ctx, struct qkv_tokenizer *t) {
    struct qkv_chain *c = t->chain;
    const struct chain_link *first = c->splitters.at;
    c->plain = true;
    t->whole_words = c->model == CHAIN_WORDLEVEL;
    if (c->bytes || c->fallback) c->unknown = t->unknown = -1;
    free(c->json); /* it can be made again */
    c->json = NULL;
    if (c->bytes) c->pattern = c->splitters.count == 2 || first->flags[BYTES_REGEX] ? first->pattern : NULL;
    if (!t->whole_words) return QKV_OK;
    enum qkv_status status = qkv_pattern_create(ctx, qkv_pattern_words, &c->words);
    c->pattern = c->words;
    return status;
}

/* ---- trained kinds ----------------------------------------------------------------------------------------------- */

static enum qkv_status plain_link(struct chain_reader *r, const char *text, const char *list,
                                  const struct chain_kind *kinds, struct chain_links *links) {
    const struct qkv_json_text json = {.name = "row", .data = text, .size = strlen(text), .max_size = 1 << 16};
    json_t *value = NULL;
    enum qkv_status status = qkv_json_load(r->ctx, &json, &value);
    if (!status) status = qkv_chain_links(r, value, list, kinds, links);
    json_decref(value);
    return status;
}

enum qkv_status qkv_chain_make(struct qkv_context *ctx, const struct chain_row *row, struct qkv_tokenizer *t) {
    struct qkv_chain *c = t->chain = qkv_allocate(ctx, 1, sizeof *c);
    struct chain_reader r = {.ctx = ctx, .name = "row", .key = "row", .chain = c, .t = t};
    if (!c) return QKV_MEMORY;
    c->model = row->model;
    c->fallback = row->fallback;
    c->ignore_merges = row->ignore_merges;
    c->unknown = -1;
    enum qkv_status status = QKV_OK;
    if (row->splitter) status = plain_link(&r, row->splitter, "pretokenizers", qkv_chain_splitters, &c->splitters);
    if (!status && row->decoder) status = plain_link(&r, row->decoder, "decoders", qkv_chain_decoders, &c->decoders);
    c->bytes = qkv_chain_byte_level(c);
    qkv_chain_settle(c);
    return status ? status : qkv_chain_set_plain(ctx, t);
}

enum qkv_status qkv_tokenizer_finish(struct qkv_context *ctx, struct qkv_tokenizer *t) {
    t->chain->unknown = t->unknown;
    plain_byte_ids(t);
    qkv_chain_find_ascii(ctx, t);
    return qkv_merges_index(ctx, &t->merges, NULL);
}
