/* Models: from a piece to its tokens. As in huggingface/tokenizers, src/models: byte-pair encoding (Sennrich et al.
 * 2016), WordPiece (Schuster and Nakajima 2012), Unigram (chain_unigram.c) and whole words. A cache has the tokens of
 * earlier pieces. */
#include "text/chain.h"

#include <stdlib.h>
#include <string.h>

#define CACHED_PIECE 96 /* bytes */
#define CACHE_MAX    ((size_t)1 << 16)
#define CACHE_BYTES  ((size_t)16 << 20)

/* ---- byte-pair encoding ------------------------------------------------------------------------------------------ */

struct bpe { /* the symbols of a piece: where no spans are wanted, at the end of the run's ids */
    struct chain_run *r;
    int32_t *ids;
    uint32_t *sizes; /* NULL: not wanted */
    size_t count;
    size_t unknown; /* bytes of a run that will become one unk_token; 0: none */
};

static void bpe_put(struct bpe *b, int32_t id, size_t size) {
    b->ids[b->count] = id;
    if (b->sizes) b->sizes[b->count] = (uint32_t)size;
    b->count++;
}

static enum qkv_status bpe_symbol(struct bpe *b, const char *key, size_t size, size_t bytes) {
    const struct qkv_chain *c = b->r->chain;
    const int32_t id = qkv_model_find(b->r, key, size);
    if (id >= 0) {
        if (b->unknown) bpe_put(b, c->unknown, b->unknown);
        b->unknown = 0;
        bpe_put(b, id, bytes);
        return QKV_OK;
    }
    bool spelt = c->fallback;
    for (size_t i = 0; i < size && spelt; i++) spelt = c->byte_ids[(unsigned char)key[i]] >= 0;
    for (size_t i = 0; i < size && spelt; i++) bpe_put(b, c->byte_ids[(unsigned char)key[i]], 1);
    if (spelt || c->unknown < 0) return QKV_OK; /* without an unknown token the character is dropped */
    if (b->unknown && !c->fuse_unknown) {
        bpe_put(b, c->unknown, b->unknown);
        b->unknown = 0;
    }
    b->unknown += bytes;
    return QKV_OK;
}

static enum qkv_status bpe_affixed(struct bpe *b, const char *s, size_t size, bool first, bool last) {
    const struct qkv_chain *c = b->r->chain;
    char key[256];
    const size_t before = first ? 0 : c->prefix_size, after = last ? c->suffix_size : 0;
    if (before) memcpy(key, c->prefix, before); /* fits: the reader bounds both */
    memcpy(key + before, s, size);
    if (after) memcpy(key + before + size, c->suffix, after);
    return bpe_symbol(b, key, before + size + after, size);
}

/* Takes memory for one symbol per byte, and for the affixes. */
static enum qkv_status bpe_room(struct chain_run *r, size_t size, struct bpe *b) {
    size_t n;
    *b = (struct bpe){.r = r};
    if (!qkv_multiply(size, 1 + r->chain->prefix_size + r->chain->suffix_size, &n) || (r->spanned && n > UINT32_MAX))
        return qkv_fail_memory(r->ctx, SIZE_MAX, "a piece of text");
    if (!r->spanned) {
        enum qkv_status status = qkv_chain_room(r, n);
        b->ids = status ? NULL : r->ids + r->count;
        return status;
    }
    if (n > r->symbol_capacity) {
        int32_t *symbols = qkv_reallocate(r->ctx, r->symbols, n, 2 * sizeof *symbols);
        if (!symbols) return QKV_MEMORY;
        r->symbols = symbols;
        r->symbol_capacity = n;
    }
    b->ids = r->symbols;
    b->sizes = (uint32_t *)(void *)(r->symbols + r->symbol_capacity);
    return QKV_OK;
}

/* ---- tokens that merges make and that are not used (SentencePiece) ----------------------------------------------- */

#define RECUT_DEPTH 100 /* a token so deep stays as it is, as in SentencePiece */

struct recut {
    struct chain_run *r;
    struct chain_tokens out; /* end: the bytes of the token */
};

static enum qkv_status recut_add(struct recut *c, int32_t id, size_t size) {
    struct chain_tokens *t = &c->out;
    if (id == c->r->chain->unknown && t->count && t->at[t->count - 1].id == id) { /* a run is one unknown token */
        t->at[t->count - 1].end += (uint32_t)size;
        return QKV_OK;
    }
    struct chain_token *at = qkv_list_room(c->r->ctx, t->at, &t->capacity, t->count, 1, sizeof *at);
    if (!at) return QKV_MEMORY;
    t->at = at;
    t->at[t->count++] = (struct chain_token){.id = id, .end = (uint32_t)size};
    return QKV_OK;
}

/* Adds a token; one of type UNUSED as the parts of the last merge that could make it, or as unknown. */
static enum qkv_status recut_token(struct recut *cut, int32_t id, size_t size, int depth) {
    const struct qkv_chain *c = cut->r->chain;
    const int32_t rank = cut->r->merger.seen[id];
    if (qkv_chain_type(c, (size_t)id) != QKV_SPM_UNUSED || depth > RECUT_DEPTH) return recut_add(cut, id, size);
    if (rank >= 0) {
        const struct qkv_merge *merge = &cut->r->t->merges.list[rank];
        enum qkv_status status = recut_token(cut, merge->left, c->key_sizes[merge->left], depth + 1);
        return status ? status : recut_token(cut, merge->right, c->key_sizes[merge->right], depth + 1);
    }
    if (!c->fallback) return c->unknown >= 0 ? recut_add(cut, c->unknown, size) : QKV_OK;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < c->key_sizes[id] && !status; i++)
        status = recut_add(cut, c->byte_ids[(unsigned char)c->keys[id][i]], 1);
    return status;
}

static enum qkv_status model_recut(struct chain_run *r, const struct bpe *b) {
    struct recut cut = {.r = r};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < b->count && !status; i++)
        status = recut_token(&cut, b->ids[i], b->sizes ? b->sizes[i] : r->chain->key_sizes[b->ids[i]], 0);
    size_t begin = 0;
    for (size_t i = 0; i < cut.out.count && !status; begin += cut.out.at[i++].end)
        status = qkv_model_add(r, cut.out.at[i].id, begin, begin + cut.out.at[i].end);
    free(cut.out.at);
    return status;
}

/* Takes memory for the last merges that could make a token. */
static enum qkv_status model_watch(struct chain_run *r) {
    struct qkv_merger *m = &r->merger;
    if (!r->chain->has_unused) return QKV_OK;
    if (!m->seen) m->seen = qkv_allocate(r->ctx, r->chain->key_count, sizeof *m->seen);
    for (size_t i = 0; m->seen && i < r->chain->key_count; i++) m->seen[i] = -1;
    return m->seen ? QKV_OK : QKV_MEMORY;
}

static enum qkv_status model_bpe(struct chain_run *r, const char *s, size_t size) {
    const struct qkv_chain *c = r->chain;
    const int32_t whole = c->ignore_merges ? qkv_model_find(r, s, size) : -1;
    if (whole >= 0) return qkv_model_add(r, whole, 0, size);
    struct bpe b;
    enum qkv_status status = bpe_room(r, size, &b);
    const bool affixes = c->prefix_size || c->suffix_size;
    for (size_t i = 0; c->bytes && i < size && !status; i++) bpe_put(&b, c->byte_ids[(unsigned char)s[i]], 1);
    for (size_t at = 0; !c->bytes && at < size && !status;) {
        const size_t begin = at;
        const int32_t id =
            affixes || b.unknown || (unsigned char)s[at] >= 0x80 ? -1 : c->ascii_ids[(unsigned char)s[at]];
        if (id >= 0) {
            bpe_put(&b, id, 1);
            at++;
            continue;
        }
        qkv_code_next(s, size, &at);
        status = affixes ? bpe_affixed(&b, s + begin, at - begin, begin == 0, at == size)
                         : bpe_symbol(&b, s + begin, at - begin, at - begin);
    }
    if (status) return status;
    if (b.unknown) bpe_put(&b, c->unknown, b.unknown);
    status = model_watch(r);
    if (!status) status = qkv_merge(r->ctx, &r->merger, &r->t->merges, b.ids, b.sizes, &b.count);
    if (!status && c->has_unused) return model_recut(r, &b);
    if (!status && !r->spanned) r->count += b.count;
    size_t at = 0;
    for (size_t i = 0; b.sizes && i < b.count && !status; at += b.sizes[i++])
        status = qkv_model_add(r, b.ids[i], at, at + b.sizes[i]);
    return status;
}

void qkv_chain_find_ascii(struct qkv_context *ctx, const struct qkv_tokenizer *t) {
    const struct chain_run r = {.ctx = ctx, .t = t, .chain = t->chain};
    for (size_t i = 0; i < 128; i++) {
        const char c = (char)i;
        t->chain->ascii_ids[i] = qkv_model_find(&r, &c, 1);
    }
}

/* ---- WordPiece, words -------------------------------------------------------------------------------------------- */

static size_t model_longest(const struct qkv_chain *c, const char *s, size_t size, int32_t node, int32_t *id) {
    size_t longest = 0;
    for (size_t i = 0; i < size && node >= 0;) {
        node = qkv_pack_step(c->pack.units, node, (unsigned char)s[i++]);
        if (node < 0 || c->pack.units[node].value < 0) continue;
        if (i < size && ((unsigned char)s[i] & 0xC0) == 0x80) continue; /* not between two characters */
        longest = i;
        *id = c->pack.units[node].value;
    }
    return longest;
}

static enum qkv_status model_words(struct chain_run *r, const char *s, size_t size) {
    const int32_t id = qkv_model_find(r, s, size), found = id >= 0 ? id : r->chain->unknown;
    return found >= 0 ? qkv_model_add(r, found, 0, size) : qkv_model_unknown(r, s, size);
}

static enum qkv_status model_wordpiece(struct chain_run *r, const char *s, size_t size) {
    const struct qkv_chain *c = r->chain;
    const size_t first = r->tokens.count, first_id = r->count;
    size_t characters = 0;
    for (size_t at = 0; at < size && characters <= c->longest_word; characters++) qkv_code_next(s, size, &at);
    enum qkv_status status = QKV_OK;
    bool good = characters <= c->longest_word;
    for (size_t at = 0; at < size && good && !status;) {
        int32_t id = -1;
        const size_t n = model_longest(c, s + at, size - at, at ? c->continuing : 0, &id);
        good = n > 0;
        if (good) status = qkv_model_add(r, id, at, at + n);
        at += n;
    }
    if (good || status) return status;
    r->tokens.count = first;
    r->count = first_id;
    return c->unknown >= 0 ? qkv_model_add(r, c->unknown, 0, size) : qkv_model_unknown(r, s, size);
}

/* ---- the cache --------------------------------------------------------------------------------------------------- */

/* A piece already encoded. Its bytes are in the source, or, if it comes from a text that links have made, in `bytes`.
 * Its tokens are `count` ids of the run from ids[at] on, where they were written last, or, with spans, in `list`. */
struct cache_entry {
    size_t key, at;
    uint32_t hash;
    uint16_t count;
    uint8_t size; /* 0: no piece */
    bool copied;
};
struct chain_cache {
    struct cache_entry *at;
    size_t mask;
    struct qkv_buffer bytes;
    struct chain_tokens list;
};

enum qkv_status qkv_chain_cache_create(struct qkv_context *ctx, size_t text, struct chain_cache **out) {
    struct chain_cache *cache = *out = qkv_allocate(ctx, 1, sizeof *cache);
    size_t count = 64;
    while (count < CACHE_MAX && count < text / 4) count *= 2;
    if (!cache) return QKV_MEMORY;
    cache->mask = count - 1;
    cache->at = qkv_allocate(ctx, count, sizeof *cache->at);
    return cache->at ? QKV_OK : QKV_MEMORY;
}

void qkv_chain_cache_free(struct chain_cache *cache) {
    if (!cache) return;
    free(cache->at);
    free(cache->list.at);
    qkv_buffer_free(&cache->bytes);
    free(cache);
}

/* Stores the tokens of a piece, which are those from `first` on. */
static enum qkv_status cache_store(struct chain_run *r, struct cache_entry *e, uint32_t hash, const char *s,
                                   size_t size, size_t first) {
    struct chain_cache *cache = r->cache;
    const size_t n = (r->spanned ? r->tokens.count : r->count) - first;
    if (n > UINT16_MAX) return QKV_OK;
    if (cache->bytes.size > CACHE_BYTES || cache->list.count > CACHE_BYTES) { /* full: starts over */
        cache->bytes.size = cache->list.count = 0;
        memset(cache->at, 0, (cache->mask + 1) * sizeof *cache->at);
    }
    *e = (struct cache_entry){(size_t)(s - r->source), first, hash, (uint16_t)n, (uint8_t)size,
                              r->many || !r->text.view};
    enum qkv_status status = QKV_OK;
    if (e->copied) {
        e->key = cache->bytes.size;
        status = qkv_buffer_append(r->ctx, &cache->bytes, s, size);
    }
    if (status || !r->spanned) return status;
    struct chain_token *at =
        qkv_list_room(r->ctx, cache->list.at, &cache->list.capacity, cache->list.count, n, sizeof *at);
    if (!at) return QKV_MEMORY;
    cache->list.at = at;
    if (n) memcpy(at + cache->list.count, r->tokens.at + first, n * sizeof *at);
    e->at = cache->list.count;
    cache->list.count += n;
    return QKV_OK;
}

static bool cache_has(const struct chain_run *r, const struct cache_entry *e, uint32_t hash, const char *s,
                      size_t size) {
    if (e->hash != hash || e->size != size) return false;
    const char *key = e->copied ? r->cache->bytes.data : r->source;
    return memcmp(key + e->key, s, size) == 0;
}

static enum qkv_status cache_copy(struct chain_run *r, struct cache_entry *e) {
    const size_t n = e->count, first = r->tokens.count;
    if (!r->spanned) {
        enum qkv_status status = qkv_chain_room(r, n);
        if (status) return status;
        memcpy(r->ids + r->count, r->ids + e->at, n * sizeof *r->ids);
        e->at = r->count; /* the latest copy is the likeliest to be near */
        r->count += n;
        return QKV_OK;
    }
    struct chain_token *at = qkv_list_room(r->ctx, r->tokens.at, &r->tokens.capacity, first, n, sizeof *at);
    if (!at) return QKV_MEMORY;
    r->tokens.at = at;
    if (n) memcpy(at + first, r->cache->list.at + e->at, n * sizeof *at);
    r->tokens.count += n;
    return QKV_OK;
}

static enum qkv_status model_run(struct chain_run *r, const char *s, size_t size) {
    switch (r->chain->model) {
    case CHAIN_BPE:
        return model_bpe(r, s, size);
    case CHAIN_WORDPIECE:
        return model_wordpiece(r, s, size);
    case CHAIN_UNIGRAM:
        return qkv_model_unigram(r, s, size);
    case CHAIN_WORDLEVEL:
        break;
    }
    return model_words(r, s, size);
}

static enum qkv_status model_cached(struct chain_run *r, const char *s, size_t size) {
    if (!r->cache || size > CACHED_PIECE || r->chain->model == CHAIN_WORDLEVEL) return model_run(r, s, size);
    const uint64_t hash = qkv_hash_bytes(s, size);
    struct cache_entry *e = &r->cache->at[(size_t)hash & r->cache->mask];
    const uint32_t high = (uint32_t)(hash >> 32);
    if (cache_has(r, e, high, s, size)) return cache_copy(r, e);
    const size_t first = r->spanned ? r->tokens.count : r->count;
    enum qkv_status status = model_run(r, s, size);
    return status ? status : cache_store(r, e, high, s, size, first);
}

enum qkv_status qkv_chain_model(struct chain_run *r, const char *s, size_t size) {
    if (r->spanned && size > UINT32_MAX / 2) return qkv_fail(r->ctx, QKV_FORMAT, "a piece of text of more than 2 GiB");
    if (size == 1 && r->chain->bytes) return qkv_model_add(r, r->chain->byte_ids[(unsigned char)*s], 0, 1);
    if (r->chain->types && r->chain->model == CHAIN_UNIGRAM) return qkv_model_unigram_spm(r, s, size);
    if (!r->chain->splits_at_mark) return model_cached(r, s, size);
    enum qkv_status status = QKV_OK;
    for (size_t at = 0; at < size && !status;) {
        const size_t end = qkv_model_mark(s, size, at), first = r->tokens.count;
        status = model_cached(r, s + at, end - at);
        for (size_t i = first; i < r->tokens.count && at; i++) {
            r->tokens.at[i].begin += (uint32_t)at;
            r->tokens.at[i].end += (uint32_t)at;
        }
        at = end;
    }
    return status;
}
