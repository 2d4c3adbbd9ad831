/* Text to ids. Text is cut at added tokens, normalized where the tokenizer says so, cut into pieces by the pattern, and
 * each piece becomes symbols, then merges. A piece that was met before is copied from where it was last written: the
 * tokens' own bytes tell whether it is the same piece, so the cache needs no copy of it. */
#include "text/text.h"

#include <stdlib.h>
#include <string.h>

#define CACHE_MOST   ((size_t)1 << 16)
#define CACHED_PIECE 64 /* bytes; longer pieces rarely come again */

struct known { /* a piece already encoded: `count` ids from ids[at] on; 0: none */
    uint64_t hash;
    size_t at;
    uint32_t count, size;
};
struct encoder {
    struct qkv_context *ctx;
    const struct qkv_tokenizer *t;
    bool specials;
    struct qkv_splitter *splitter;
    struct qkv_merger merger;
    struct qkv_buffer normal;
    int32_t *ids;
    size_t count, capacity;
    struct known *cache;
    size_t cache_size;
};

static enum qkv_status encode_reserve(struct encoder *e, size_t more) {
    int32_t *ids = qkv_list_room(e->ctx, e->ids, &e->capacity, e->count, more, sizeof *ids);
    if (!ids) return QKV_MEMORY;
    e->ids = ids;
    return QKV_OK;
}

/* An ordinary token with these bytes, or -1. */
static int32_t find_token(const struct qkv_tokenizer *t, const char *s, size_t n) {
    const struct qkv_string *found = qkv_strings_find(&t->pieces, s, n);
    return found && !t->tokens[found->value].added ? (int32_t)found->value : -1;
}

/* Writes the symbols of a piece at the end of the ids (there is room): bytes, or characters. *whole: they spell it. */
static size_t write_symbols(struct encoder *e, const char *s, size_t n, bool *whole) {
    int32_t *out = e->ids + e->count;
    *whole = true;
    if (e->t->byte_level) {
        for (size_t i = 0; i < n; i++) out[i] = e->t->byte_ids[(unsigned char)s[i]];
        return n;
    }
    size_t written = 0;
    for (size_t i = 0; i < n;) {
        uint32_t code;
        int length = qkv_utf8_scan(s + i, n - i, &code);
        int32_t id = length > 0 ? find_token(e->t, s + i, (size_t)length) : -1;
        size_t size = length > 0 ? (size_t)length : 1;
        if (id < 0 && e->t->unknown >= 0) {
            id = e->t->unknown;
            *whole = false;
        }
        if (id >= 0) out[written++] = id;
        for (size_t k = 0; id < 0 && k < size; k++) out[written++] = e->t->byte_ids[(unsigned char)s[i + k]];
        i += size;
    }
    return written;
}

/* Whether the cached ids spell these bytes. */
static bool encode_spells(const struct encoder *e, const struct known *known, const char *s, size_t n) {
    if (known->size != n) return false;
    for (size_t i = 0; i < known->count; i++) {
        const struct qkv_token *token = &e->t->tokens[e->ids[known->at + i]];
        if (memcmp(e->t->text.data + token->offset, s, token->size) != 0) return false;
        s += token->size;
    }
    return true;
}

bool qkv_text_is_space(const char *s, size_t n) {
    static const uint32_t others[] = {0x20, 0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000};
    uint32_t code;
    if (qkv_utf8_scan(s, n, &code) <= 0) return false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (code == others[i]) return true;
    return (code >= 9 && code <= 13) || (code >= 0x2000 && code <= 0x200A);
}

/* A word, or the white space between two. */
static enum qkv_status encode_word(struct encoder *e, const char *s, size_t n) {
    int32_t id = find_token(e->t, s, n);
    if (id < 0 && qkv_text_is_space(s, n)) return QKV_OK;
    if (id < 0) id = e->t->unknown;
    if (id >= 0) {
        e->ids[e->count++] = id;
        return QKV_OK;
    }
    return qkv_fail(
        e->ctx, QKV_FORMAT,
        "\"%.*s\" is no word of the vocabulary, which has the words of the text that the tokenizer was made "
        "from and no " QKV_TOKEN_UNKNOWN " for others",
        (int)(n < 60 ? n : qkv_utf8_cut(s, 60)), s);
}

static enum qkv_status encode_piece(struct encoder *e, const char *s, size_t n) {
    enum qkv_status status = encode_reserve(e, n);
    if (status) return status;
    if (e->t->whole_words) return encode_word(e, s, n);
    if (n == 1 && e->t->byte_level) {
        e->ids[e->count++] = e->t->byte_ids[(unsigned char)*s];
        return QKV_OK;
    }
    struct known *known = NULL;
    uint64_t hash = 0;
    if (n <= CACHED_PIECE) {
        hash = qkv_hash_bytes(s, n);
        known = &e->cache[(size_t)hash & (e->cache_size - 1)];
        if (known->count > 0 && known->hash == hash && encode_spells(e, known, s, n)) {
            memcpy(e->ids + e->count, e->ids + known->at, known->count * sizeof *e->ids);
            known->at = e->count; /* the latest copy is the likeliest to be near */
            e->count += known->count;
            return QKV_OK;
        }
    }
    int32_t whole = e->t->ignore_merges ? find_token(e->t, s, n) : -1;
    size_t written = 1;
    if (whole >= 0) {
        e->ids[e->count] = whole;
    } else {
        bool spelt;
        written = write_symbols(e, s, n, &spelt);
        status = qkv_merge(e->ctx, &e->merger, &e->t->merges, e->ids + e->count, &written);
        if (status) return status;
        if (!spelt) known = NULL; /* its tokens do not tell which piece it was */
    }
    if (known) *known = (struct known){hash, e->count, (uint32_t)written, (uint32_t)n};
    e->count += written;
    return QKV_OK;
}

static enum qkv_status encode_plain(struct encoder *e, const char *text, size_t size) {
    size_t begin, end;
    qkv_splitter_start(e->splitter, text, size, false);
    for (enum qkv_split split; (split = qkv_splitter_next(e->splitter, &begin, &end)) != QKV_SPLIT_END;) {
        if (split == QKV_SPLIT_FAILED) return qkv_splitter_fail(e->ctx, e->splitter);
        enum qkv_status status = encode_piece(e, text + begin, end - begin);
        if (status) return status;
    }
    return QKV_OK;
}

/* One pass for added tokens; what lies between goes to the next pass, and then into pieces. */
static enum qkv_status encode_between(struct encoder *e, const char *text, size_t size, enum qkv_added_pass pass) {
    enum qkv_status status = QKV_OK;
    for (size_t at = 0; !status && at < size;) {
        size_t begin;
        const struct qkv_added *added = qkv_added_next(e->t, text, size, at, pass, e->specials, &begin);
        if (begin > at && pass == QKV_ADDED_NORMALIZED) {
            status = encode_plain(e, text + at, begin - at);
        } else if (begin > at && e->t->nfc) {
            e->normal.size = 0;
            status = qkv_normalize(e->ctx, text + at, begin - at, &e->normal, NULL);
            if (!status) status = encode_between(e, e->normal.data, e->normal.size, QKV_ADDED_NORMALIZED);
        } else if (begin > at) {
            status = encode_between(e, text + at, begin - at, QKV_ADDED_NORMALIZED);
        }
        if (!status && added) {
            status = encode_reserve(e, 1);
            if (!status) e->ids[e->count++] = added->id;
        }
        at = begin + (added ? added->size : 0);
    }
    return status;
}

enum qkv_status qkv_tokenizer_encode(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text,
                                     size_t size, bool specials, int32_t **ids, size_t *count) {
    QKV_CALL(ctx);
    *ids = NULL;
    *count = 0;
    if (!text && size > 0) return qkv_fail(ctx, QKV_ARGUMENT, "encode: the text is NULL but its size is %zu", size);
    struct encoder e = {.ctx = ctx, .t = t, .specials = specials, .cache_size = 64};
    while (e.cache_size < CACHE_MOST && e.cache_size < size / 4) e.cache_size *= 2;
    e.cache = qkv_allocate(ctx, e.cache_size, sizeof *e.cache);
    enum qkv_status status = e.cache ? qkv_splitter_create(ctx, t->pattern, &e.splitter) : QKV_MEMORY;
    if (!status) status = encode_reserve(&e, size / 3 + 1);
    if (!status) status = encode_between(&e, text, size, QKV_ADDED_RAW);
    free(e.cache);
    qkv_splitter_free(e.splitter);
    qkv_merger_free(&e.merger);
    qkv_buffer_free(&e.normal);
    if (status) {
        free(e.ids);
        return status;
    }
    if (e.capacity / 2 > e.count + 64) { /* long pieces had room for a token a byte */
        int32_t *less = qkv_reallocate(NULL, e.ids, e.count + 1, sizeof *less);
        if (less) e.ids = less;
    }
    *ids = e.ids;
    *count = e.count;
    return QKV_OK;
}
