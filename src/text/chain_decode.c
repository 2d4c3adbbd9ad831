/* Decoders: from the keys of ids to text. As in huggingface/tokenizers, src/decoders, each makes a list of texts from
 * the list before, and the last list is joined. */
#include "text/chain.h"

#include <stdlib.h>
#include <string.h>

#define REPLACEMENT "\xEF\xBF\xBD"    /* U+FFFD */
#define DECODED_MAX ((size_t)1 << 30) /* the maximum bytes that one decoder makes */

static enum qkv_status decode_too_long(struct qkv_context *ctx) {
    return qkv_fail(ctx, QKV_FORMAT,
                    "the decoders of the tokenizer make more than a thousand bytes from each byte of a text");
}

enum qkv_status qkv_strings_put(struct qkv_context *ctx, struct chain_strings *s, const char *text, size_t size) {
    size_t *ends = qkv_list_room(ctx, s->ends, &s->capacity, s->count, 1, sizeof *ends);
    if (!ends) return QKV_MEMORY;
    s->ends = ends;
    enum qkv_status status = qkv_buffer_append(ctx, &s->bytes, text, size);
    if (!status) s->ends[s->count++] = s->bytes.size;
    return status;
}

void qkv_chain_strings_free(struct chain_strings *s) {
    qkv_buffer_free(&s->bytes);
    free(s->ends);
}

static const char *decode_at(const struct chain_strings *s, size_t i, size_t *size) {
    const size_t begin = i ? s->ends[i - 1] : 0;
    *size = s->ends[i] - begin;
    return s->bytes.data + begin;
}

/* Ends a decoder: *s becomes `out`, also after a failure. */
static enum qkv_status decode_done(struct chain_strings *s, struct chain_strings *out, enum qkv_status status) {
    out->raw = s->raw;
    qkv_chain_strings_free(s);
    *s = *out;
    return status;
}

/* Appends to the last text of a list, which is still open. */
static enum qkv_status decode_append(struct qkv_context *ctx, struct chain_strings *s, const char *text, size_t size) {
    if (size > DECODED_MAX || s->bytes.size > DECODED_MAX - size) return decode_too_long(ctx);
    return qkv_buffer_append(ctx, &s->bytes, text, size);
}

/* Appends bytes as UTF-8; each maximal part of a character that is not complete becomes U+FFFD (the rule of Rust and
 * Unicode). */
static enum qkv_status decode_lossy(struct qkv_context *ctx, struct chain_strings *s, const char *text, size_t size) {
    enum qkv_status status = QKV_OK;
    for (size_t at = 0; at < size && !status;) {
        const size_t good = qkv_utf8_valid(text + at, size - at);
        if (good) status = decode_append(ctx, s, text + at, good);
        at += good;
        if (status || at == size) break;
        size_t bad = 1;
        while (at + bad < size && bad < 3) { /* the longest valid prefix of a character */
            static const char *const ends[] = {"\x80",         "\x80\x80", "\x90\x80\x80",
                                               "\x80\x80\x80", "\xA0\x80", "\xBF\xBF"};
            bool begins = false;
            for (size_t i = 0; i < sizeof ends / sizeof *ends && !begins; i++) {
                char whole[8];
                uint32_t code;
                memcpy(whole, text + at, bad + 1);
                const size_t more = strlen(ends[i]);
                memcpy(whole + bad + 1, ends[i], more);
                for (size_t k = 0; k < more && !begins; k++)
                    begins = qkv_utf8_scan(whole, bad + 2 + k, &code) == (int)(bad + 2 + k);
            }
            if (!begins) break;
            bad++;
        }
        status = decode_append(ctx, s, REPLACEMENT, 3);
        at += bad;
    }
    return status;
}

/* ---- ByteLevel, ByteFallback, Fuse ------------------------------------------------------------------------------- */

static enum qkv_status decode_bytes(struct qkv_context *ctx, const struct chain_link *link, struct chain_strings *s) {
    (void)link;
    struct qkv_buffer bytes = {0};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < s->count && !status; i++) {
        size_t size;
        const char *text = decode_at(s, i, &size);
        const size_t begin = bytes.size;
        bool all = true;
        for (size_t at = 0; at < size && !status && all;) {
            const int byte = qkv_symbol_byte(qkv_code_next(text, size, &at));
            const char c = (char)byte;
            all = byte >= 0;
            if (all) status = qkv_buffer_append(ctx, &bytes, &c, 1);
        }
        if (!all) {
            bytes.size = begin;
            status = qkv_buffer_append(ctx, &bytes, text, size);
        }
    }
    struct chain_strings out = {0};
    if (!status && bytes.size)
        status =
            s->raw ? decode_append(ctx, &out, bytes.data, bytes.size) : decode_lossy(ctx, &out, bytes.data, bytes.size);
    if (!status) status = qkv_strings_put(ctx, &out, "", 0);
    qkv_buffer_free(&bytes);
    return decode_done(s, &out, status);
}

static int decode_hex(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static int decode_byte(const char *text, size_t size) {
    if (size != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    const int high = decode_hex(text[3]), low = decode_hex(text[4]);
    if (text[3] == '+' && low >= 0) return low; /* Rust's parser accepts a plus sign */
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static enum qkv_status decode_run(struct qkv_context *ctx, struct chain_strings *out, struct qkv_buffer *run,
                                  bool raw) {
    enum qkv_status status = QKV_OK;
    if (raw || qkv_utf8_valid(run->data, run->size) == run->size) {
        if (run->size) status = qkv_strings_put(ctx, out, run->data, run->size);
    } else {
        for (size_t i = 0; i < run->size && !status; i++) status = qkv_strings_put(ctx, out, REPLACEMENT, 3);
    }
    run->size = 0;
    return status;
}

static enum qkv_status decode_fallback(struct qkv_context *ctx, const struct chain_link *link,
                                       struct chain_strings *s) {
    (void)link;
    struct chain_strings out = {0};
    struct qkv_buffer run = {0};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < s->count && !status; i++) {
        size_t size;
        const char *text = decode_at(s, i, &size);
        const int byte = decode_byte(text, size);
        const char c = (char)byte;
        if (byte >= 0) {
            status = qkv_buffer_append(ctx, &run, &c, 1);
            continue;
        }
        if (run.size) status = decode_run(ctx, &out, &run, s->raw);
        if (!status) status = qkv_strings_put(ctx, &out, text, size);
    }
    if (!status && run.size) status = decode_run(ctx, &out, &run, s->raw);
    qkv_buffer_free(&run);
    return decode_done(s, &out, status);
}

static enum qkv_status decode_fuse(struct qkv_context *ctx, const struct chain_link *link, struct chain_strings *s) {
    (void)link;
    (void)ctx;
    if (s->count == 0) return qkv_strings_put(ctx, s, "", 0);
    s->ends[0] = s->ends[s->count - 1];
    s->count = 1;
    return QKV_OK;
}

/* ---- replacing texts --------------------------------------------------------------------------------------------- */

static enum qkv_status decode_replaced(struct qkv_context *ctx, struct chain_strings *out, const char *text,
                                       size_t size, const char *old, size_t old_size, const char *new) {
    enum qkv_status status = QKV_OK;
    for (size_t at = 0; at < size && !status;) {
        const char *next = old_size ? memmem(text + at, size - at, old, old_size) : NULL;
        const size_t end = next ? (size_t)(next - text) : size;
        if (end > at) status = decode_append(ctx, out, text + at, end - at);
        if (!status && next) status = decode_append(ctx, out, new, strlen(new));
        at = end + (next ? old_size : 0);
    }
    return status;
}

/* Appends a text to the open last text of a list, with `old` replaced. */
static enum qkv_status decode_substitute(struct qkv_context *ctx, struct chain_strings *out, const char *old,
                                         const char *new) {
    const size_t begin = out->count ? out->ends[out->count - 1] : 0, size = out->bytes.size - begin;
    if (size == 0 || !memmem(out->bytes.data + begin, size, old, strlen(old))) return QKV_OK;
    char *copy = qkv_copy_bytes(ctx, out->bytes.data + begin, size);
    if (!copy) return QKV_MEMORY;
    out->bytes.size = begin;
    enum qkv_status status = decode_replaced(ctx, out, copy, size, old, strlen(old), new);
    free(copy);
    return status;
}

static enum qkv_status decode_cleanup(struct qkv_context *ctx, struct chain_strings *out) {
    static const char *const pairs[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                           {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                           {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs && !status; i++)
        status = decode_substitute(ctx, out, pairs[i][0], pairs[i][1]);
    return status;
}

static enum qkv_status wordpiece_read(struct chain_reader *r, const json_t *value, struct chain_link *link) {
    enum qkv_status status = qkv_chain_string(r, value, "prefix", "##", &link->text);
    if (!status) link->size = strlen(link->text);
    return status ? status : qkv_chain_bool(r, value, "cleanup", true, &link->flags[0]);
}

static enum qkv_status decode_wordpiece(struct qkv_context *ctx, const struct chain_link *link,
                                        struct chain_strings *s) {
    struct chain_strings out = {0};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < s->count && !status; i++) {
        size_t size;
        const char *text = decode_at(s, i, &size);
        const bool inside = size >= link->size && memcmp(text, link->text, link->size) == 0;
        const size_t skip = i && inside ? link->size : 0;
        if (i && !inside) status = decode_append(ctx, &out, " ", 1);
        if (!status) status = decode_append(ctx, &out, text + skip, size - skip);
        if (!status && link->flags[0]) status = decode_cleanup(ctx, &out);
        if (!status) status = qkv_strings_put(ctx, &out, "", 0);
    }
    return decode_done(s, &out, status);
}

static enum qkv_status decode_replace_read(struct chain_reader *r, const json_t *value, struct chain_link *link) {
    enum qkv_status status = qkv_chain_pattern(r, value, link);
    return status ? status : qkv_chain_string(r, value, "content", NULL, &link->text);
}

static enum qkv_status decode_replace(struct qkv_context *ctx, const struct chain_link *link, struct chain_strings *s) {
    struct chain_strings out = {0};
    struct chain_run r = {.ctx = ctx, .max_size = SIZE_MAX};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < s->count && !status; i++) {
        struct chain_matches m;
        struct chain_match match;
        bool found;
        size_t size;
        const char *text = decode_at(s, i, &size);
        status = qkv_matches_start(&r, link, text, size, &m);
        while (!status && !(status = qkv_matches_next(&m, &match, &found)) && found)
            status = match.matched ? decode_append(ctx, &out, link->text, strlen(link->text))
                                   : decode_append(ctx, &out, text + match.begin, match.end - match.begin);
        if (!status) status = qkv_strings_put(ctx, &out, "", 0);
    }
    if (!link->literal) qkv_splitter_free(r.splitters[link->place]);
    return decode_done(s, &out, status);
}

static enum qkv_status decode_meta_read(struct chain_reader *r, const json_t *value, struct chain_link *link) {
    enum qkv_status status = qkv_chain_code(r, value, "replacement", 0x2581, &link->code);
    return status ? status : qkv_chain_scheme(r, value, link);
}

static enum qkv_status decode_meta(struct qkv_context *ctx, const struct chain_link *link, struct chain_strings *s) {
    struct chain_strings out = {0};
    char mark[5] = {0};
    const size_t n = qkv_utf8_write(link->code, mark);
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < s->count && !status; i++) {
        size_t size;
        const char *text = decode_at(s, i, &size);
        status = decode_replaced(ctx, &out, text, size, mark, n, i == 0 && link->scheme != CHAIN_NEVER ? "" : " ");
        if (!status) status = qkv_strings_put(ctx, &out, "", 0);
    }
    return decode_done(s, &out, status);
}

static enum qkv_status suffix_read(struct chain_reader *r, const json_t *value, struct chain_link *link) {
    return qkv_chain_string(r, value, "suffix", "</w>", &link->text);
}

static enum qkv_status decode_suffix(struct qkv_context *ctx, const struct chain_link *link, struct chain_strings *s) {
    struct chain_strings out = {0};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < s->count && !status; i++) {
        size_t size;
        const char *text = decode_at(s, i, &size);
        status = decode_replaced(ctx, &out, text, size, link->text, strlen(link->text), i + 1 == s->count ? "" : " ");
        if (!status) status = qkv_strings_put(ctx, &out, "", 0);
    }
    return decode_done(s, &out, status);
}

static enum qkv_status decode_strip_read(struct chain_reader *r, const json_t *value, struct chain_link *link) {
    enum qkv_status status = qkv_chain_code(r, value, "content", ' ', &link->code);
    if (!status) status = qkv_chain_size(r, value, "start", 0, &link->number);
    return status ? status : qkv_chain_size(r, value, "stop", 0, &link->stop);
}

static enum qkv_status decode_strip(struct qkv_context *ctx, const struct chain_link *link, struct chain_strings *s) {
    struct chain_strings out = {0};
    char c[5] = {0};
    const size_t n = qkv_utf8_write(link->code, c);
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < s->count && !status; i++) {
        size_t size;
        const char *text = decode_at(s, i, &size);
        size_t begin = 0, end = size;
        for (size_t k = 0; k < link->number && end - begin >= n && memcmp(text + begin, c, n) == 0; k++) begin += n;
        for (size_t k = 0; k < link->stop && end - begin >= n && memcmp(text + end - n, c, n) == 0; k++) end -= n;
        status = qkv_strings_put(ctx, &out, text + begin, end - begin);
    }
    return decode_done(s, &out, status);
}

static enum qkv_status ctc_read(struct chain_reader *r, const json_t *value, struct chain_link *link) {
    enum qkv_status status = qkv_chain_string(r, value, "pad_token", "<pad>", &link->text);
    if (!status) status = qkv_chain_string(r, value, "word_delimiter_token", "|", &link->other);
    return status ? status : qkv_chain_bool(r, value, "cleanup", true, &link->flags[0]);
}

static enum qkv_status decode_ctc(struct qkv_context *ctx, const struct chain_link *link, struct chain_strings *s) {
    struct chain_strings out = {0};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < s->count && !status; i++) {
        size_t size, before = 0;
        const char *text = decode_at(s, i, &size), *last = i ? decode_at(s, i - 1, &before) : NULL;
        if (last && before == size && memcmp(last, text, size) == 0) continue;
        const size_t begin = out.bytes.size;
        status = decode_replaced(ctx, &out, text, size, link->text, strlen(link->text), "");
        if (!status && link->flags[0]) status = decode_cleanup(ctx, &out);
        if (!status && link->flags[0] && *link->other) status = decode_substitute(ctx, &out, link->other, " ");
        if (!status && out.bytes.size > begin) status = qkv_strings_put(ctx, &out, "", 0);
    }
    return decode_done(s, &out, status);
}

const struct chain_kind qkv_chain_decoders[] = {
    {"ByteLevel", NULL, NULL, decode_bytes, false},
    {"WordPiece", wordpiece_read, NULL, decode_wordpiece, false},
    {"Metaspace", decode_meta_read, NULL, decode_meta, false},
    {"BPEDecoder", suffix_read, NULL, decode_suffix, false},
    {"ByteFallback", NULL, NULL, decode_fallback, false},
    {"Fuse", NULL, NULL, decode_fuse, false},
    {"Strip", decode_strip_read, NULL, decode_strip, false},
    {"Replace", decode_replace_read, NULL, decode_replace, false},
    {"CTC", ctc_read, NULL, decode_ctc, false},
    {NULL, NULL, NULL, NULL, false},
};

enum qkv_status qkv_chain_decode(struct qkv_context *ctx, const struct qkv_chain *chain, struct chain_strings *s) {
    enum qkv_status status = QKV_OK;
    if (chain->decoders.count == 0 && !s->raw) { /* without decoders, texts are joined with spaces */
        struct chain_strings out = {0};
        for (size_t i = 0; i < s->count && !status; i++) {
            size_t size;
            const char *text = decode_at(s, i, &size);
            if (i) status = decode_append(ctx, &out, " ", 1);
            if (!status) status = qkv_strings_put(ctx, &out, text, size);
        }
        return decode_done(s, &out, status);
    }
    const size_t most = qkv_chain_max_size(s->bytes.size);
    for (size_t i = 0; i < chain->decoders.count && !status; i++) {
        status = chain->decoders.at[i].kind->decode(ctx, &chain->decoders.at[i], s);
        if (!status && s->bytes.size > most) status = decode_too_long(ctx);
    }
    return status;
}

enum qkv_status qkv_chain_token_bytes(struct chain_reader *r) {
    struct qkv_chain *c = r->chain;
    struct chain_strings s = {0};
    enum qkv_status status = QKV_OK;
    for (size_t id = 0; id < c->key_count && !status; id++) {
        if (!c->keys[id] || (id < r->t->count && r->t->tokens[id].form != QKV_TOKEN_HOLE))
            continue; /* a hole, or an added token */
        s.bytes.size = s.count = 0;
        s.raw = true;
        if (!status) status = qkv_strings_put(r->ctx, &s, "x", 1);
        if (!status) status = qkv_strings_put(r->ctx, &s, c->keys[id], c->key_sizes[id]);
        if (!status) status = qkv_chain_decode(r->ctx, c, &s);
        if (status) break;
        const bool first = s.bytes.size && s.bytes.data[0] == 'x', spaced = c->decoders.count == 0;
        const char *bytes = s.bytes.size ? s.bytes.data + first : "";
        size_t n = s.bytes.size - first;
        char *with = spaced ? qkv_allocate(r->ctx, n + 2, 1) : NULL;
        if (with) {
            with[0] = ' ';
            memcpy(with + 1, bytes, n);
        }
        if (spaced && !with) status = QKV_MEMORY;
        if (!status) status = qkv_tokenizer_set(r->ctx, r->t, id, with ? with : bytes, n + spaced, QKV_TOKEN_RAW);
        free(with);
    }
    qkv_chain_strings_free(&s);
    return status;
}
