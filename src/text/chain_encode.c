/* Text to ids by a chain: cut at added tokens, normalized, cut again, split, and each piece encoded by the model. */
#include "text/chain.h"

#include <stdlib.h>
#include <string.h>

static enum qkv_status encode_room(struct chain_run *r, size_t more) {
    if (r->count + more <= r->capacity) return QKV_OK;
    size_t capacity = r->capacity, spans = r->capacity, blanks = r->capacity;
    int32_t *ids = qkv_list_room(r->ctx, r->ids, &capacity, r->count, more, sizeof *ids);
    if (!ids) return QKV_MEMORY;
    r->ids = ids;
    if (r->mapped) {
        struct chain_span *at = qkv_list_room(r->ctx, r->spans, &spans, r->count, more, sizeof *at);
        if (!at) return QKV_MEMORY;
        r->spans = at;
        uint8_t *b = qkv_list_room(r->ctx, r->blanks, &blanks, r->count, more, 1);
        if (!b) return QKV_MEMORY;
        r->blanks = b;
        capacity = qkv_min(capacity, qkv_min(spans, blanks));
    }
    r->capacity = capacity;
    return QKV_OK;
}

/* The white space of a token's own text, at its beginning and end, where spans are trimmed. */
static uint8_t encode_blanks(const char *s, size_t size) {
    size_t front = 0, back = 0, run = 0;
    bool other = false;
    for (size_t at = 0; at < size;) {
        const uint32_t code = qkv_code_next(s, size, &at);
        const bool blank = code == qkv_byte_symbol(' ') || qkv_code_is_space(code);
        run = blank ? run + 1 : 0;
        other = other || !blank;
        if (!other) front++;
    }
    back = run;
    return (uint8_t)(qkv_min(front, 15) | qkv_min(back, 15) << 4);
}

static enum qkv_status encode_put(struct chain_run *r, int32_t id, size_t begin, size_t end, uint8_t blanks) {
    enum qkv_status status = encode_room(r, 1);
    if (status) return status;
    r->ids[r->count] = id;
    if (r->mapped) {
        const struct chain_span from = qkv_chain_source(r, begin);
        r->spans[r->count] =
            (struct chain_span){from.begin, end > begin ? qkv_chain_source(r, end - 1).end : from.begin};
        r->blanks[r->count] = blanks;
    }
    r->count++;
    return QKV_OK;
}

static enum qkv_status encode_piece(struct chain_run *r, struct chain_piece p) {
    r->tokens.count = 0;
    enum qkv_status status = qkv_chain_model(r, r->text.bytes.data + p.begin, p.end - p.begin);
    if (!status) status = encode_room(r, r->tokens.count);
    const struct qkv_chain *c = r->chain;
    if (!status && !r->mapped) {
        for (size_t i = 0; i < r->tokens.count; i++) r->ids[r->count + i] = r->tokens.at[i].id;
        r->count += r->tokens.count;
        return QKV_OK;
    }
    for (size_t i = 0; i < r->tokens.count && !status; i++) {
        const struct chain_token t = r->tokens.at[i];
        const uint8_t blanks = r->t->around.trims ? encode_blanks(c->keys[t.id], c->key_sizes[t.id]) : 0;
        status = encode_put(r, t.id, p.begin + t.begin, p.begin + t.end, blanks);
    }
    return status;
}

/* ---- added tokens ------------------------------------------------------------------------------------------------ */

/* The next added token at `from` or later, the longest at its place, without the white space that it strips. */
static const struct chain_added *encode_match(const struct qkv_chain *c, bool normalized, const char *s, size_t size,
                                              size_t from, size_t *begin, size_t *end) {
    const struct chain_trie *trie = &c->added_trie[normalized];
    if (trie->edge_count == 0) return NULL;
    for (size_t at = from; at < size; at++) {
        if (!c->added_begin[normalized][(unsigned char)s[at]]) continue;
        int32_t node = 0, best = -1;
        for (size_t i = at; i < size && node >= 0;) {
            node = qkv_trie_step(trie, node, (unsigned char)s[i++]);
            if (node < 0 || trie->values[node] < 0) continue;
            best = trie->values[node];
            *end = i;
        }
        if (best < 0) continue;
        *begin = at;
        return &c->added[best];
    }
    return NULL;
}

static bool encode_word_before(const char *s, size_t at) {
    if (at == 0) return false;
    size_t begin = at - 1;
    while (begin > 0 && ((unsigned char)s[begin] & 0xC0) == 0x80) begin--;
    return qkv_code_is_word(qkv_code_next(s, at, &begin));
}

static size_t encode_spaces_before(const char *s, size_t at, size_t least) {
    while (at > least) {
        size_t begin = at - 1;
        while (begin > 0 && ((unsigned char)s[begin] & 0xC0) == 0x80) begin--;
        size_t next = begin;
        if (!qkv_code_is_space(qkv_code_next(s, at, &next))) break;
        at = begin;
    }
    return at > least ? at : least;
}

static size_t encode_spaces_after(const char *s, size_t size, size_t at) {
    while (at < size) {
        size_t next = at;
        if (!qkv_code_is_space(qkv_code_next(s, size, &next))) break;
        at = next;
    }
    return at;
}

/* An added token that counts in s[from, size): its place with the white space that it strips. */
struct encode_found {
    const struct chain_added *added;
    size_t begin, end, search;
};

static bool encode_next(const struct chain_run *r, bool normalized, const char *s, size_t size, size_t done,
                        struct encode_found *f) {
    size_t begin = 0, end = 0;
    while ((f->added = encode_match(r->chain, normalized, s, size, f->search, &begin, &end))) {
        f->search = end;
        if (f->added->special && !r->specials && f->added->id != r->only) continue;
        if (f->added->single_word) {
            size_t next = end;
            if (encode_word_before(s, begin) || (end < size && qkv_code_is_word(qkv_code_next(s, size, &next))))
                continue;
        }
        if (f->added->left) begin = encode_spaces_before(s, begin, done);
        if (f->added->right) end = encode_spaces_after(s, size, end);
        f->begin = begin;
        f->end = end;
        return true;
    }
    return false;
}

/* ---- sections ---------------------------------------------------------------------------------------------------- */

static enum qkv_status encode_split(struct chain_run *r, size_t begin, size_t end) {
    const struct qkv_chain *c = r->chain;
    r->pieces.count = r->pieces_next.count = 0;
    enum qkv_status status = qkv_chain_piece(r, begin, end);
    const struct chain_pieces first = r->pieces_next;
    r->pieces_next = r->pieces;
    r->pieces = first;
    for (size_t i = 0; i < c->splitters.count && !status && r->pieces.count; i++)
        status = c->splitters.at[i].kind->run(r, &c->splitters.at[i]);
    for (size_t i = 0; i < r->pieces.count && !status; i++) status = encode_piece(r, r->pieces.at[i]);
    return status;
}

/* Encodes the normalized text between two added tokens that match normalized text. Splitters may rewrite r->text, so
 * every part is a copy, unless it is the only part. */
static enum qkv_status encode_part(struct chain_run *r, const struct chain_text *whole, size_t begin, size_t end) {
    struct chain_text keep = r->text;
    r->text = *whole;
    enum qkv_status status = qkv_chain_begin(r);
    r->cursor = begin;
    if (!status) status = qkv_chain_keep(r, end - begin);
    r->text = keep;
    if (status) return status;
    qkv_chain_swap(r);
    return encode_split(r, 0, r->text.bytes.size);
}

static enum qkv_status encode_normalized(struct chain_run *r) {
    struct encode_found f = {0};
    if (!encode_next(r, true, r->text.bytes.data, r->text.bytes.size, 0, &f))
        return r->text.bytes.size ? encode_split(r, 0, r->text.bytes.size) : QKV_OK;
    struct chain_text whole = r->text;
    r->text = (struct chain_text){0};
    const char *s = whole.bytes.data;
    const size_t size = whole.bytes.size;
    enum qkv_status status = QKV_OK;
    size_t done = 0;
    bool found = true;
    while (found && !status) {
        if (f.begin > done) status = encode_part(r, &whole, done, f.begin);
        if (status) break;
        struct chain_text keep = r->text;
        r->text = whole;
        status = encode_put(r, f.added->id, f.begin, f.end, encode_blanks(s + f.begin, f.end - f.begin));
        r->text = keep;
        done = f.end;
        found = encode_next(r, true, s, size, done, &f);
    }
    if (!status && done < size) status = encode_part(r, &whole, done, size);
    qkv_buffer_free(&whole.bytes);
    free(whole.map);
    return status;
}

/* Loads the source as text; each byte has its own place as its source. */
enum qkv_status qkv_chain_load(struct chain_run *r, const char *s, size_t begin, size_t end) {
    enum qkv_status status = QKV_OK;
    r->next.bytes.size = 0;
    r->max_size = qkv_chain_max_size(end - begin);
    if (!r->mapped) {
        status = qkv_chain_put_text(r, s + begin, end - begin, (struct chain_span){0, 0});
    } else {
        for (size_t at = begin; at < end && !status;) {
            const size_t from = at;
            qkv_code_next(s, end, &at);
            status = qkv_chain_put_text(r, s + from, at - from, (struct chain_span){(uint32_t)from, (uint32_t)at});
        }
    }
    qkv_chain_swap(r);
    return status;
}

static enum qkv_status encode_section(struct chain_run *r, const char *s, size_t begin, size_t end) {
    const struct qkv_chain *c = r->chain;
    r->pieces.count = 0;
    enum qkv_status status = qkv_chain_load(r, s, begin, end);
    for (size_t i = 0; i < c->normalizers.count && !status && r->text.bytes.size; i++)
        status = c->normalizers.at[i].kind->run(r, &c->normalizers.at[i]);
    return status ? status : encode_normalized(r);
}

static enum qkv_status encode_all(struct chain_run *r, const char *s, size_t size) {
    struct encode_found f = {0};
    enum qkv_status status = QKV_OK;
    size_t done = 0;
    while (!status && encode_next(r, false, s, size, done, &f)) {
        if (f.begin > done) status = encode_section(r, s, done, f.begin);
        if (!status) status = encode_room(r, 1);
        if (status) break;
        r->ids[r->count] = f.added->id;
        if (r->mapped) {
            r->spans[r->count] = (struct chain_span){(uint32_t)f.begin, (uint32_t)f.end};
            r->blanks[r->count] = encode_blanks(s + f.begin, f.end - f.begin);
        }
        r->count++;
        done = f.end;
    }
    return !status && done < size ? encode_section(r, s, done, size) : status;
}

/* ---- spans ------------------------------------------------------------------------------------------------------- */

/* Trims spans: they leave white space out (trim_offsets of ByteLevel and RobertaProcessing). */
static void encode_trim(const struct chain_run *r, const char *s, size_t size) {
    for (size_t i = 0; i < r->count; i++) {
        struct chain_span *span = &r->spans[i];
        size_t front = r->blanks[i] & 15U, back = r->blanks[i] >> 4, at = span->begin, end = span->end;
        if (front && r->t->around.trims_after_space && (i == 0 || span->begin == 0)) front--;
        for (; front && at < end; front--) qkv_code_next(s, size, &at);
        for (; back && end > at; back--) do
                end--;
            while (end > at && ((unsigned char)s[end] & 0xC0) == 0x80);
        span->begin = (uint32_t)at;
        span->end = (uint32_t)end;
    }
}

/* Copies a text with U+FFFD for bytes that are not UTF-8, and lists the place of each copied byte in the source. */
static enum qkv_status encode_repair(struct qkv_context *ctx, const char *s, size_t size, struct qkv_buffer *out,
                                     uint32_t **places) {
    size_t count = 0, capacity = 0;
    enum qkv_status status = QKV_OK;
    for (size_t at = 0; at < size && !status;) {
        const size_t n = qkv_utf8_valid(s + at, size - at), written = n ? n : 3;
        uint32_t *p = qkv_list_room(ctx, *places, &capacity, count, written + 1, sizeof *p);
        if (!p) return QKV_MEMORY;
        *places = p;
        for (size_t i = 0; i < written; i++) p[count++] = (uint32_t)(at + (n ? i : 0));
        status = qkv_buffer_append(ctx, out, n ? s + at : "\xEF\xBF\xBD", written);
        at += n ? n : 1;
        p[count] = (uint32_t)at;
    }
    return status;
}

void qkv_chain_run_free(struct chain_run *r) {
    for (size_t i = 0; i < sizeof r->splitters / sizeof *r->splitters; i++) qkv_splitter_free(r->splitters[i]);
    qkv_merger_free(&r->merger);
    qkv_chain_cache_free(r->cache);
    qkv_buffer_free(&r->text.bytes);
    qkv_buffer_free(&r->next.bytes);
    free(r->text.map);
    free(r->next.map);
    free(r->pieces.at);
    free(r->pieces_next.at);
    free(r->tokens.at);
    free(r->symbols);
    free(r->lattice);
    free(r->blanks);
}

enum qkv_status qkv_chain_encode(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text, size_t size,
                                 bool specials, int32_t only, int32_t **ids, struct chain_span **spans, size_t *count) {
    struct chain_run r = {.ctx = ctx, .t = t, .chain = t->chain, .specials = specials, .only = only};
    struct qkv_buffer repaired = {0};
    uint32_t *places = NULL;
    r.mapped = spans || t->chain->needs_map;
    if (size > UINT32_MAX / 4)
        return qkv_fail(ctx, QKV_FORMAT, "encode: the text has %zu bytes; give it in parts of less than 1 GiB", size);
    enum qkv_status status = qkv_chain_cache_create(ctx, size, &r.cache);
    const char *s = text;
    size_t n = size;
    if (!status && qkv_utf8_valid(text, size) < size) {
        status = encode_repair(ctx, text, size, &repaired, &places);
        s = repaired.data;
        n = repaired.size;
    }
    if (!status) status = encode_room(&r, n / 3 + 1);
    if (!status) status = encode_all(&r, s, n);
    if (!status && spans && t->around.trims) encode_trim(&r, s, n);
    for (size_t i = 0; places && spans && !status && i < r.count; i++)
        r.spans[i] = (struct chain_span){places[r.spans[i].begin], places[r.spans[i].end]};
    qkv_chain_run_free(&r);
    qkv_buffer_free(&repaired);
    free(places);
    if (status || !spans) free(r.spans);
    if (status) free(r.ids);
    *ids = status ? NULL : r.ids;
    if (spans) *spans = status ? NULL : r.spans;
    *count = status ? 0 : r.count;
    return status;
}

size_t qkv_chain_cut(const struct qkv_chain *c, const char *text, size_t size) {
    static const char *const near[] = {"BertNormalizer", "Lowercase", "NFC",          "NFD",
                                       "NFKC",           "NFKD",      "StripAccents", "Precompiled"};
    static const char *const dropping[] = {"BertPreTokenizer", "WhitespaceSplit", "Whitespace"};
    bool good = false;
    for (size_t k = 0; c->splitters.count && k < sizeof dropping / sizeof *dropping; k++)
        good = good || strcmp(c->splitters.at[0].kind->name, dropping[k]) == 0;
    for (size_t i = 0; i < c->normalizers.count && good; i++) {
        good = false;
        for (size_t k = 0; k < sizeof near / sizeof *near; k++)
            good = good || strcmp(c->normalizers.at[i].kind->name, near[k]) == 0;
    }
    for (size_t i = 0; i < c->added_count && good; i++) {
        const size_t id = (size_t)c->added[i].id;
        good = !c->added[i].left && !c->added[i].right && !memchr(c->keys[id], '\n', c->key_sizes[id]);
    }
    if (c->needs_map) good = false;
    for (size_t n = good && size ? size - 1 : 0; n > 0; n--) {
        const char next = text[n];
        if (text[n - 1] == '\n' && ((next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z'))) return n;
    }
    return 0;
}
