/* Text to ids by a chain: cut at added tokens, normalized, cut again, split, and each piece encoded by the model. */
#include "text/chain.h"
#include "text/sequence.h"

#include <stdlib.h>
#include <string.h>

#define CACHE_TEXT 256 /* bytes of a text whose pieces are cached */

/* Trims the span of the last id: it leaves out the white space at the beginning and the end of a text, that of the
 * token (trim_offsets of ByteLevel and RobertaProcessing). bytes: the text is not a key but its bytes. */
static void encode_trim(struct chain_run *r, const char *text, size_t size, bool bytes) {
    struct chain_span *span = &r->spans[r->count - 1];
    size_t front = 0, back = 0, at = span->begin, end = span->end;
    bool other = false;
    for (size_t i = 0; i < size;) {
        const uint32_t code = qkv_code_next(text, size, &i);
        const bool blank = bytes ? code == ' ' : code == qkv_byte_symbol(' ') || qkv_code_is_space(code);
        back = blank ? back + 1 : 0;
        other = other || !blank;
        if (!other) front++;
    }
    if (front && r->t->around.trims_after_space && (r->count == 1 || span->begin == 0)) front--;
    for (; front && at < end; front--) qkv_code_next(r->source, r->source_size, &at);
    for (; back && end > at; back--) do
            end--;
        while (end > at && ((unsigned char)r->source[end] & 0xC0) == 0x80);
    *span = (struct chain_span){(uint32_t)at, (uint32_t)end};
}

static enum qkv_status encode_put(struct chain_run *r, int32_t id, struct chain_span span) {
    enum qkv_status status = qkv_chain_room(r, 1);
    if (status) return status;
    r->ids[r->count] = id;
    if (r->spanned) r->spans[r->count] = span;
    r->count++;
    return QKV_OK;
}

static enum qkv_status encode_added(struct chain_run *r, int32_t id, struct chain_span span, const char *text,
                                    size_t size) {
    if (r->visit) return QKV_OK;
    enum qkv_status status = encode_put(r, id, span);
    if (!status && r->spanned && r->t->around.trims) encode_trim(r, text, size, false);
    return status;
}

/* Trims the span of the last id by the key of its token. */
static void encode_trim_token(struct chain_run *r, int32_t id) {
    const struct qkv_chain *c = r->chain;
    if (c->keys)
        encode_trim(r, c->keys[id], c->key_sizes[id], false);
    else if (c->bytes)
        encode_trim(r, qkv_token_bytes(r->t, (size_t)id), r->t->tokens[id].size, true);
}

/* The source of bytes of run->text. */
static struct chain_span encode_span(const struct chain_run *r, size_t begin, size_t end) {
    const struct chain_span first = qkv_chain_source(r, begin);
    return (struct chain_span){first.begin, end > begin ? qkv_chain_source(r, end - 1).end : first.begin};
}

static enum qkv_status encode_piece(struct chain_run *r, size_t begin, size_t end) {
    if (r->visit) return r->visit(r->user, r->text.bytes.data + begin, end - begin);
    r->tokens.count = 0;
    enum qkv_status status = qkv_chain_model(r, r->text.bytes.data + begin, end - begin);
    for (size_t i = 0; i < r->tokens.count && !status; i++) {
        const struct chain_token t = r->tokens.at[i];
        status = encode_put(r, t.id, encode_span(r, begin + t.begin, begin + t.end));
        if (!status && r->t->around.trims) encode_trim_token(r, t.id);
    }
    return status;
}

/* Gives a piece to the splitter at r->stage, and to the model after the last one. */
static enum qkv_status encode_stage(struct chain_run *r, size_t begin, size_t end) {
    if (r->stage == r->chain->splitters.count) return encode_piece(r, begin, end);
    const struct chain_pieces outer = r->pieces;
    const struct chain_link *link = &r->chain->splitters.at[r->stage++];
    struct chain_piece piece = {begin, end};
    r->pieces = (struct chain_pieces){&piece, 1, 1};
    enum qkv_status status = link->kind->run(r, link);
    r->pieces = outer;
    r->stage--;
    return status;
}

enum qkv_status qkv_chain_piece(struct chain_run *r, size_t begin, size_t end) {
    if (begin >= end) return QKV_OK;
    if (r->chain->cuts) return encode_stage(r, begin, end);
    struct chain_pieces *p = &r->pieces_next;
    if (p->count == p->capacity) {
        struct chain_piece *at = qkv_list_room(r->ctx, p->at, &p->capacity, p->count, 1, sizeof *at);
        if (!at) return QKV_MEMORY;
        p->at = at;
    }
    p->at[p->count++] = (struct chain_piece){begin, end};
    return QKV_OK;
}

/* ---- sections ---------------------------------------------------------------------------------------------------- */

static enum qkv_status encode_split(struct chain_run *r, size_t begin, size_t end) {
    const struct qkv_chain *c = r->chain;
    if (c->cuts) return qkv_chain_piece(r, begin, end);
    r->pieces.count = r->pieces_next.count = 0;
    enum qkv_status status = qkv_chain_piece(r, begin, end);
    const struct chain_pieces first = r->pieces_next;
    r->pieces_next = r->pieces;
    r->pieces = first;
    for (size_t i = 0; i < c->splitters.count && !status && r->pieces.count; i++)
        status = c->splitters.at[i].kind->run(r, &c->splitters.at[i]);
    for (size_t i = 0; i < r->pieces.count && !status; i++)
        status = encode_piece(r, r->pieces.at[i].begin, r->pieces.at[i].end);
    return status;
}

/* Encodes the normalized text between two added tokens that match normalized text. Splitters that rewrite the text get
 * a copy of the part; then the text is the whole again. */
static enum qkv_status encode_part(struct chain_run *r, size_t begin, size_t end) {
    if (r->chain->cuts || (begin == 0 && end == r->text.bytes.size)) return encode_split(r, begin, end);
    const struct chain_text whole = r->text;
    enum qkv_status status = qkv_chain_begin(r);
    r->cursor = begin;
    if (!status) status = qkv_chain_keep(r, end - begin);
    if (status) return status;
    r->text = r->next;
    r->next = (struct chain_text){0};
    status = encode_split(r, 0, r->text.bytes.size);
    qkv_chain_text_free(&r->next);
    r->next = r->text;
    r->text = whole;
    return status;
}

static enum qkv_status encode_normalized(struct chain_run *r) {
    struct chain_found f = {0};
    enum qkv_status status = QKV_OK;
    size_t done = 0;
    while (!status && qkv_chain_find(r, true, r->text.bytes.data, r->text.bytes.size, done, &f)) {
        if (f.begin > done) status = encode_part(r, done, f.begin);
        if (!status)
            status = encode_added(r, f.added->id, encode_span(r, f.begin, f.end), r->text.bytes.data + f.begin,
                                  f.end - f.begin);
        done = f.end;
    }
    return !status && done < r->text.bytes.size ? encode_part(r, done, r->text.bytes.size) : status;
}

static enum qkv_status encode_section(struct chain_run *r, size_t begin, size_t end) {
    const struct qkv_chain *c = r->chain;
    enum qkv_status status = QKV_OK;
    r->pieces.count = 0;
    qkv_chain_load(r, r->source, begin, end);
    for (size_t i = 0; i < c->normalizers.count && !status && r->text.bytes.size; i++)
        status = c->normalizers.at[i].kind->run(r, &c->normalizers.at[i]);
    return status ? status : encode_normalized(r);
}

static enum qkv_status encode_all(struct chain_run *r) {
    const char *s = r->source;
    struct chain_found f = {0};
    enum qkv_status status = QKV_OK;
    size_t done = 0;
    while (!status && qkv_chain_find(r, false, s, r->source_size, done, &f)) {
        if (f.begin > done) status = encode_section(r, done, f.begin);
        const struct chain_span span = {(uint32_t)f.begin, (uint32_t)f.end};
        if (!status) status = encode_added(r, f.added->id, span, s + f.begin, f.end - f.begin);
        done = f.end;
    }
    return !status && done < r->source_size ? encode_section(r, done, r->source_size) : status;
}

/* ---- texts that are not UTF-8 ------------------------------------------------------------------------------------ */

/* Copies a text with U+FFFD for bytes that are not UTF-8. *places: the place of each copied byte in the source; NULL:
 * nobody asks. */
static enum qkv_status encode_repair(struct qkv_context *ctx, const char *s, size_t size, struct qkv_buffer *out,
                                     uint32_t **places) {
    size_t count = 0, capacity = 0;
    enum qkv_status status = QKV_OK;
    for (size_t at = 0; at < size && !status;) {
        const size_t n = qkv_utf8_valid(s + at, size - at), written = n ? n : 3;
        uint32_t *p = places ? qkv_list_room(ctx, *places, &capacity, count, written + 1, sizeof *p) : NULL;
        if (places && !p) return QKV_MEMORY;
        if (p) *places = p;
        for (size_t i = 0; i < written && p; i++) p[count++] = (uint32_t)(at + (n ? i : 0));
        status = qkv_buffer_append(ctx, out, n ? s + at : "\xEF\xBF\xBD", written);
        at += n ? n : 1;
        if (p) p[count] = (uint32_t)at;
    }
    return status;
}

void qkv_chain_text_free(struct chain_text *text) {
    if (!text->view) qkv_buffer_free(&text->bytes);
    free(text->map);
    *text = (struct chain_text){0};
}

void qkv_chain_run_free(struct chain_run *r) {
    for (size_t i = 0; i < sizeof r->splitters / sizeof *r->splitters; i++)
        if (r->splitters[i]) qkv_splitter_free(r->splitters[i]);
    qkv_merger_free(&r->merger);
    qkv_chain_cache_free(r->cache);
    qkv_chain_text_free(&r->text);
    qkv_chain_text_free(&r->next);
    qkv_chain_text_free(&r->spare);
    free(r->pieces.at);
    free(r->pieces_next.at);
    free(r->tokens.at);
    free(r->symbols);
    free(r->lattice);
    free(r->ways);
}

/* Gives long lists back that are mostly empty: long pieces had room for a token a byte. */
static void encode_shrink(struct chain_run *r) {
    if (r->capacity / 2 <= r->count + 64) return;
    int32_t *less = qkv_reallocate(NULL, r->ids, r->count + 1, sizeof *less);
    if (less) r->ids = less;
}

enum qkv_status qkv_chain_encode(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text, size_t size,
                                 bool specials, int32_t only, int32_t **ids, struct chain_span **spans, size_t *count) {
    struct chain_run r = {.ctx = ctx, .t = t, .chain = t->chain, .specials = specials, .only = only};
    struct qkv_buffer repaired = {0};
    uint32_t *places = NULL;
    r.source = text;
    r.source_size = size;
    r.spanned = spans != NULL;
    r.mapped = spans || t->chain->needs_map;
    if (r.mapped && size > UINT32_MAX / 4)
        return qkv_fail(ctx, QKV_FORMAT, "encode: the text has %zu bytes; give it in parts of less than 1 GiB", size);
    /* Short texts repeat few pieces; pieces of Unigram of SentencePiece depend on those before. */
    const bool cached = size >= CACHE_TEXT && !(t->chain->types && t->chain->model == CHAIN_UNIGRAM);
    enum qkv_status status = cached ? qkv_chain_cache_create(ctx, size, &r.cache) : QKV_OK;
    if (!status && !t->chain->plain && !t->chain->reads_bytes && qkv_utf8_valid(text, size) < size) {
        status = encode_repair(ctx, text, size, &repaired, spans ? &places : NULL);
        r.source = repaired.data;
        r.source_size = repaired.size;
    }
    if (!status) status = qkv_chain_room(&r, r.source_size / 3 + 1);
    if (!status) status = encode_all(&r);
    for (size_t i = 0; places && !status && i < r.count; i++)
        r.spans[i] = (struct chain_span){places[r.spans[i].begin], places[r.spans[i].end]};
    qkv_chain_run_free(&r);
    qkv_buffer_free(&repaired);
    free(places);
    if (!status) encode_shrink(&r);
    if (status) free(r.spans);
    if (status) free(r.ids);
    *ids = status ? NULL : r.ids;
    if (spans) *spans = status ? NULL : r.spans;
    *count = status ? 0 : r.count;
    return status;
}

enum qkv_status qkv_chain_encode_many(const struct qkv_tokenizer *t, const struct qkv_word *texts, size_t count,
                                      int32_t **ids, size_t *ends) {
    struct chain_run r = {.t = t, .chain = t->chain, .specials = true, .only = -1, .many = true};
    const bool repairs = !t->chain->plain && !t->chain->reads_bytes;
    enum qkv_status status = QKV_OK;
    size_t total = 0;
    r.mapped = t->chain->needs_map;
    for (size_t i = 0; i < count && !status; i++) {
        if (!qkv_add_size(total, texts[i].size, &total) || (r.mapped && texts[i].size > UINT32_MAX / 4) ||
            (repairs && qkv_utf8_valid(texts[i].text, texts[i].size) < texts[i].size))
            status = QKV_ARGUMENT;
    }
    if (!status && !(t->chain->types && t->chain->model == CHAIN_UNIGRAM))
        status = qkv_chain_cache_create(NULL, total, &r.cache);
    if (!status) status = qkv_chain_room(&r, total / 3 + 1);
    for (size_t i = 0; i < count && !status; i++) {
        r.source = texts[i].text;
        r.source_size = texts[i].size;
        status = encode_all(&r);
        ends[i] = r.count;
    }
    qkv_chain_run_free(&r);
    if (status) free(r.ids);
    *ids = status ? NULL : r.ids;
    return status;
}

enum qkv_status qkv_chain_visit(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text, size_t size,
                                chain_piece_visit *visit, void *user) {
    struct chain_run r = {.ctx = ctx, .t = t, .chain = t->chain, .specials = true, .only = -1};
    r.source = text;
    r.source_size = size;
    r.visit = visit;
    r.user = user;
    enum qkv_status status = encode_all(&r);
    qkv_chain_run_free(&r);
    return status;
}

size_t qkv_chain_cut(const struct qkv_tokenizer *t, const char *text, size_t size) {
    const struct qkv_chain *c = t->chain;
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
        good = !c->added[i].left && !c->added[i].right && !memchr(qkv_token_bytes(t, id), '\n', t->tokens[id].size);
    }
    if (c->needs_map) good = false;
    for (size_t n = good && size ? size - 1 : 0; n > 0; n--) {
        const char next = text[n];
        if (text[n - 1] == '\n' && ((next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z'))) return n;
    }
    return 0;
}
