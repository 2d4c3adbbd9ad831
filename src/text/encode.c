/* Text to ids. Text is cut at added tokens, normalized where the tokenizer says so, cut into pieces by the pattern, and
 * each piece becomes symbols, then merges. A piece that was met before is copied from where it was last written: the
 * tokens' own bytes tell whether it is the same piece, so the cache needs no copy of it. */
#include "text/chain.h"

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
    struct chain_run *run; /* where spans are asked for: it holds the normalized text with its source; else NULL */
    struct chain_span *spans;
    size_t span_capacity;
    const char *source, *from; /* the text; what pieces are places of: the text, or run->text */
    size_t size;               /* of the text */
};

static enum qkv_status encode_reserve(struct encoder *e, size_t more) {
    int32_t *ids = qkv_list_room(e->ctx, e->ids, &e->capacity, e->count, more, sizeof *ids);
    if (!ids) return QKV_MEMORY;
    e->ids = ids;
    if (!e->run) return QKV_OK;
    struct chain_span *spans = qkv_list_room(e->ctx, e->spans, &e->span_capacity, e->count, more, sizeof *spans);
    if (!spans) return QKV_MEMORY;
    e->spans = spans;
    return QKV_OK;
}

/* The bytes of the source that [begin, end) of the text at e->from stand for: whole characters. */
static struct chain_span encode_source(const struct encoder *e, size_t begin, size_t end) {
    const char *s = e->source;
    if (e->from != s) {
        const struct chain_span first = qkv_chain_source(e->run, begin);
        return (struct chain_span){first.begin, end > begin ? qkv_chain_source(e->run, end - 1).end : first.begin};
    }
    size_t at = begin, back = 0;
    while (back < 3 && at > 0 && ((unsigned char)s[at] & 0xC0) == 0x80) at--, back++;
    const int length = qkv_utf8_scan(s + at, e->size - at, &(uint32_t){0});
    if (length <= 0 || at + (size_t)length <= begin) at = begin;
    size_t last = end, stop = end;
    for (back = 0; back < 4 && last > at; back++) {
        last--;
        if (((unsigned char)s[last] & 0xC0) != 0x80) break;
    }
    const int n = last < end ? qkv_utf8_scan(s + last, e->size - last, &(uint32_t){0}) : 0;
    if (n > 0 && last + (size_t)n > end) stop = last + (size_t)n;
    return (struct chain_span){(uint32_t)at, (uint32_t)stop};
}

/* The spans of the ids from `first` on, which a piece became; those of what trims them leave white space out. */
static void encode_spans(struct encoder *e, size_t first, const char *s, size_t n) {
    size_t at = (size_t)(s - e->from);
    const size_t end = at + n;
    for (size_t i = first; i < e->count; i++) {
        const struct qkv_token *token = &e->t->tokens[e->ids[i]];
        size_t size = token->size;
        if (e->t->whole_words) {
            size = n;
        } else if (e->ids[i] == e->t->unknown) {
            const int length = qkv_utf8_scan(e->from + at, end - at, &(uint32_t){0});
            size = length > 0 ? (size_t)length : 1;
        }
        e->spans[i] = encode_source(e, at, at + size);
        const char *text = qkv_token_bytes(e->t, (size_t)e->ids[i]);
        size_t front = 0, back = 0;
        const bool trims = e->t->around.trims && e->t->byte_level;
        while (trims && front < size && text[front] == ' ') front++;
        while (trims && back < size && text[size - 1 - back] == ' ') back++;
        if (front && e->t->around.trims_after_space && (i == 0 || e->spans[i].begin == 0)) front--;
        struct chain_span *span = &e->spans[i];
        span->begin = (uint32_t)qkv_min(span->begin + front, span->end);
        span->end = (uint32_t)qkv_max(span->end - qkv_min(back, span->end), span->begin);
        at += size;
    }
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
        status = qkv_merge(e->ctx, &e->merger, &e->t->merges, e->ids + e->count, NULL, &written);
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
        const size_t first = e->count;
        enum qkv_status status = encode_piece(e, text + begin, end - begin);
        if (status) return status;
        if (e->run) encode_spans(e, first, text + begin, end - begin);
    }
    return QKV_OK;
}

static enum qkv_status encode_between(struct encoder *e, const char *text, size_t size, enum qkv_added_pass pass);

static enum qkv_status encode_nfc(struct encoder *e, const char *text, size_t size) {
    enum qkv_status status;
    if (!e->run) {
        e->normal.size = 0;
        status = qkv_normalize(e->ctx, text, size, &e->normal, NULL);
        return status ? status : encode_between(e, e->normal.data, e->normal.size, QKV_ADDED_NORMALIZED);
    }
    const size_t begin = (size_t)(text - e->source);
    qkv_chain_load(e->run, e->source, begin, begin + size);
    status = qkv_chain_form(e->run, false, true);
    e->from = e->run->text.bytes.data;
    if (!status) status = encode_between(e, e->from, e->run->text.bytes.size, QKV_ADDED_NORMALIZED);
    e->from = e->source;
    return status;
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
            status = encode_nfc(e, text + at, begin - at);
        } else if (begin > at) {
            status = encode_between(e, text + at, begin - at, QKV_ADDED_NORMALIZED);
        }
        if (!status && added) {
            status = encode_reserve(e, 1);
            if (!status && e->run)
                e->spans[e->count] =
                    encode_source(e, (size_t)(text - e->from) + begin, (size_t)(text - e->from) + begin + added->size);
            if (!status) e->ids[e->count++] = added->id;
        }
        at = begin + (added ? added->size : 0);
    }
    return status;
}

/* The machine. `spans`: of each id the bytes of the text that it stands for; NULL: nobody asks. */
static enum qkv_status encode_machine(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text,
                                      size_t size, bool specials, int32_t **ids, struct chain_span **spans,
                                      size_t *count) {
    struct chain_run run = {.ctx = ctx, .t = t, .mapped = true};
    struct encoder e = {
        .ctx = ctx, .t = t, .specials = specials, .cache_size = 64, .source = text, .from = text, .size = size};
    if (spans) e.run = &run;
    while (e.cache_size < CACHE_MOST && e.cache_size < size / 4) e.cache_size *= 2;
    e.cache = qkv_allocate(ctx, e.cache_size, sizeof *e.cache);
    enum qkv_status status = e.cache ? qkv_splitter_create(ctx, t->pattern, &e.splitter) : QKV_MEMORY;
    if (!status) status = encode_reserve(&e, size / 3 + 1);
    if (!status) status = encode_between(&e, text, size, QKV_ADDED_RAW);
    free(e.cache);
    qkv_splitter_free(e.splitter);
    qkv_merger_free(&e.merger);
    qkv_buffer_free(&e.normal);
    qkv_chain_run_free(&run);
    if (status) {
        free(e.ids);
        free(e.spans);
        return status;
    }
    if (e.capacity / 2 > e.count + 64) { /* long pieces had room for a token a byte */
        int32_t *less = qkv_reallocate(NULL, e.ids, e.count + 1, sizeof *less);
        if (less) e.ids = less;
    }
    *ids = e.ids;
    if (spans) *spans = e.spans;
    *count = e.count;
    return QKV_OK;
}

static enum qkv_status encode_any(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text, size_t size,
                                  bool specials, int32_t **ids, struct chain_span **spans, size_t *count) {
    *ids = NULL;
    *count = 0;
    if (!text && size > 0) return qkv_fail(ctx, QKV_ARGUMENT, "encode: the text is NULL but its size is %zu", size);
    if (t->chain) return qkv_chain_encode(ctx, t, text ? text : "", size, specials, -1, ids, spans, count);
    return encode_machine(ctx, t, text, size, specials, ids, spans, count);
}

enum qkv_status qkv_tokenizer_encode(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text,
                                     size_t size, bool specials, int32_t **ids, size_t *count) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, t);
    QKV_NEED(ctx, ids);
    QKV_NEED(ctx, count);
    return encode_any(ctx, t, text, size, specials, ids, NULL, count);
}

enum qkv_status qkv_tokenizer_encode_spans(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text,
                                           size_t size, bool specials, int32_t **ids, size_t **spans, size_t *count) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, t);
    QKV_NEED(ctx, ids);
    QKV_NEED(ctx, spans);
    QKV_NEED(ctx, count);
    struct chain_span *found = NULL;
    *spans = NULL;
    if (size > UINT32_MAX / 4)
        return qkv_fail(ctx, QKV_ARGUMENT, "encode: the text has %zu bytes; spans are given for less than 1 GiB", size);
    enum qkv_status status = encode_any(ctx, t, text, size, specials, ids, &found, count);
    size_t *out = status ? NULL : qkv_allocate(ctx, *count + 1, 2 * sizeof *out);
    for (size_t i = 0; out && i < *count; i++) {
        out[2 * i] = found[i].begin;
        out[2 * i + 1] = found[i].end;
    }
    free(found);
    if (!status && !out) {
        free(*ids);
        *ids = NULL;
        *count = 0;
        return QKV_MEMORY;
    }
    *spans = out;
    return status;
}
