/* Splitters (pre-tokenizers): each cuts the pieces of the one before, and may rewrite them. As in
 * huggingface/tokenizers, src/pre_tokenizers. */
#include "text/chain.h"

#include <stdlib.h>
#include <string.h>

/* ---- matches of a pattern ---------------------------------------------------------------------------------------- */

enum qkv_status qkv_matches_start(struct chain_run *r, const struct chain_link *link, const char *text, size_t size,
                                  struct chain_matches *m) {
    *m = (struct chain_matches){.run = r, .link = link, .text = text, .size = size, .found = SIZE_MAX};
    if (link->literal) return QKV_OK;
    struct qkv_splitter **splitter = &r->splitters[link->place];
    enum qkv_status status = *splitter ? QKV_OK : qkv_splitter_create(r->ctx, link->pattern, splitter);
    if (!status) qkv_splitter_start(*splitter, text, size, false);
    m->splitter = *splitter;
    return status;
}

enum qkv_status qkv_matches_next(struct chain_matches *m, struct chain_match *out, bool *found) {
    *found = m->at < m->size;
    if (!*found) return QKV_OK;
    if (m->splitter) {
        enum qkv_split split = qkv_splitter_next(m->splitter, &out->begin, &out->end);
        if (split == QKV_SPLIT_FAILED) return qkv_splitter_fail(m->run->ctx, m->splitter);
        *found = split == QKV_SPLIT_PIECE;
        if (!*found) return QKV_OK;
        out->matched = qkv_splitter_matched(m->splitter);
        m->at = out->end;
        return QKV_OK;
    }
    const size_t n = m->link->size;
    if (m->found == SIZE_MAX || m->found < m->at) {
        const char *next = n == 0   ? NULL
                           : n == 1 ? memchr(m->text + m->at, *m->link->literal, m->size - m->at)
                                    : memmem(m->text + m->at, m->size - m->at, m->link->literal, n);
        m->found = next ? (size_t)(next - m->text) : m->size;
    }
    out->matched = m->found == m->at;
    out->begin = m->at;
    out->end = out->matched ? m->at + n : m->found;
    m->at = out->end;
    return QKV_OK;
}

/* ---- pieces from matches ----------------------------------------------------------------------------------------- */

/* Adds one more match or gap to the pieces of a text, by the rule of the link (tokenizers' SplitDelimiterBehavior). */
struct split_state {
    size_t first; /* the first piece of this text */
    bool before;  /* the part before was a match */
    bool open;    /* the last piece may still grow */
    size_t begin, end;
};

static enum qkv_status split_flush(struct chain_run *r, struct split_state *s) {
    const bool open = s->open;
    s->open = false;
    return open ? qkv_chain_piece(r, s->begin, s->end) : QKV_OK;
}

static enum qkv_status split_part(struct chain_run *r, enum chain_behavior behavior, struct split_state *s,
                                  size_t begin, size_t end, bool matched) {
    enum qkv_status status = QKV_OK;
    bool joins = false;
    if (behavior == CHAIN_REMOVED) return matched ? QKV_OK : qkv_chain_piece(r, begin, end);
    if (behavior == CHAIN_ISOLATED) return qkv_chain_piece(r, begin, end);
    if (behavior == CHAIN_CONTIGUOUS) joins = s->open && matched == s->before;
    if (behavior == CHAIN_PREVIOUS) joins = s->open && matched && !s->before;
    if (behavior == CHAIN_NEXT) joins = s->open && s->before && !matched;
    if (joins) {
        s->end = end;
    } else {
        status = split_flush(r, s);
        s->begin = begin;
        s->end = end;
        s->open = true;
    }
    s->before = matched;
    return status;
}

static void split_done(struct chain_run *r) {
    if (r->chain->cuts) return;
    const struct chain_pieces p = r->pieces;
    r->pieces = r->pieces_next;
    r->pieces_next = p;
    r->pieces_next.count = 0;
}

/* Matches and gaps are pieces alike. */
static enum qkv_status split_isolated(struct chain_run *r, struct qkv_splitter *splitter, size_t from) {
    size_t begin, end;
    for (enum qkv_split split; (split = qkv_splitter_next(splitter, &begin, &end)) != QKV_SPLIT_END;) {
        if (split == QKV_SPLIT_FAILED) return qkv_splitter_fail(r->ctx, splitter);
        enum qkv_status status = qkv_chain_piece(r, from + begin, from + end);
        if (status) return status;
    }
    return QKV_OK;
}

static enum qkv_status split_by_pattern(struct chain_run *r, const struct chain_link *link) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < r->pieces.count && !status; i++) {
        const struct chain_piece p = r->pieces.at[i];
        struct chain_matches m;
        struct chain_match match;
        struct split_state state = {0};
        bool found;
        status = qkv_matches_start(r, link, r->text.bytes.data + p.begin, p.end - p.begin, &m);
        if (!status && m.splitter && link->behavior == CHAIN_ISOLATED) {
            status = split_isolated(r, m.splitter, p.begin);
            continue;
        }
        while (!status && !(status = qkv_matches_next(&m, &match, &found)) && found)
            status = split_part(r, link->behavior, &state, p.begin + match.begin, p.begin + match.end,
                                match.matched != link->flags[0]);
        if (!status) status = split_flush(r, &state);
    }
    split_done(r);
    return status;
}

/* Each character of a class is a match. A byte that is not UTF-8 stands alone. */
static enum qkv_status split_by_class(struct chain_run *r, enum chain_behavior behavior, bool (*is)(uint32_t code)) {
    enum qkv_status status = QKV_OK;
    const char *text = r->text.bytes.data;
    for (size_t i = 0; i < r->pieces.count && !status; i++) {
        const struct chain_piece p = r->pieces.at[i];
        struct split_state state = {0};
        size_t gap = p.begin;
        for (size_t at = p.begin; at < p.end && !status;) {
            const size_t begin = at;
            const uint32_t code = qkv_code_next(text, p.end, &at);
            const bool byte = code >= QKV_CODE_BYTE;
            if (!byte && !is(code)) continue;
            if (begin > gap) status = split_part(r, behavior, &state, gap, begin, false);
            if (!status) status = split_part(r, behavior, &state, begin, at, !byte);
            gap = at;
        }
        if (!status && p.end > gap) status = split_part(r, behavior, &state, gap, p.end, false);
        if (!status) status = split_flush(r, &state);
    }
    split_done(r);
    return status;
}

/* ---- kinds ------------------------------------------------------------------------------------------------------- */

static enum qkv_status split_read(struct chain_reader *r, const json_t *value, struct chain_link *link) {
    enum qkv_status status = qkv_chain_pattern(r, value, link);
    if (!status) status = qkv_chain_behavior(r, value, link);
    return status ? status : qkv_chain_bool(r, value, "invert", false, &link->flags[0]);
}

static enum qkv_status split_spaces(struct chain_run *r, const struct chain_link *link) {
    (void)link;
    return split_by_class(r, CHAIN_REMOVED, qkv_code_is_space);
}

/* White space is removed, and each punctuation mark is a piece. */
static enum qkv_status split_bert(struct chain_run *r, const struct chain_link *link) {
    (void)link;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < r->pieces.count && !status; i++) {
        const struct chain_piece p = r->pieces.at[i];
        size_t gap = p.begin;
        for (size_t at = p.begin; at < p.end && !status;) {
            const size_t begin = at;
            const uint32_t code = qkv_code_next(r->text.bytes.data, p.end, &at);
            const bool space = qkv_code_is_space(code);
            if (!space && !qkv_code_is_punctuation(code)) continue;
            status = qkv_chain_piece(r, gap, begin);
            if (!status && !space) status = qkv_chain_piece(r, begin, at);
            gap = at;
        }
        if (!status) status = qkv_chain_piece(r, gap, p.end);
    }
    split_done(r);
    return status;
}

static enum qkv_status split_punctuation(struct chain_run *r, const struct chain_link *link) {
    return split_by_class(r, link->behavior, qkv_code_is_punctuation);
}

static enum qkv_status digits_read(struct chain_reader *r, const json_t *value, struct chain_link *link) {
    return qkv_chain_bool(r, value, "individual_digits", false, &link->flags[0]);
}

static enum qkv_status split_digits(struct chain_run *r, const struct chain_link *link) {
    return split_by_class(r, link->flags[0] ? CHAIN_ISOLATED : CHAIN_CONTIGUOUS, qkv_code_is_number);
}

static enum qkv_status delimiter_read(struct chain_reader *r, const json_t *value, struct chain_link *link) {
    char bytes[5] = {0};
    enum qkv_status status = qkv_chain_code(r, value, "delimiter", 0, &link->code);
    if (status) return status;
    link->size = qkv_utf8_write(link->code, bytes);
    link->literal = qkv_copy_bytes(r->ctx, bytes, link->size);
    link->behavior = CHAIN_REMOVED;
    return link->literal ? QKV_OK : QKV_MEMORY;
}

static enum qkv_status words_read(struct chain_reader *r, const json_t *value, struct chain_link *link) {
    (void)value;
    link->behavior = CHAIN_REMOVED;
    link->flags[0] = true;
    return qkv_chain_set_pattern(r, "[\\w\\x{200C}\\x{200D}]+|[^\\w\\x{200C}\\x{200D}\\s]+", link);
}

static enum qkv_status length_read(struct chain_reader *r, const json_t *value, struct chain_link *link) {
    enum qkv_status status = qkv_chain_size(r, value, "length", 5, &link->number);
    if (!status && link->number == 0) status = qkv_fail(r->ctx, QKV_FORMAT, "%s: %s.length is 0", r->name, r->key);
    return status;
}

static enum qkv_status split_length(struct chain_run *r, const struct chain_link *link) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < r->pieces.count && !status; i++) {
        const struct chain_piece p = r->pieces.at[i];
        for (size_t at = p.begin; at < p.end && !status;) {
            const size_t begin = at;
            for (size_t k = 0; k < link->number && at < p.end; k++) qkv_code_next(r->text.bytes.data, p.end, &at);
            status = qkv_chain_piece(r, begin, at);
        }
    }
    split_done(r);
    return status;
}

/* Cuts where the script changes. A character without a script belongs to the piece before it; at the beginning it is
 * dropped. */
static enum qkv_status split_scripts(struct chain_run *r, const struct chain_link *link) {
    enum qkv_status status = QKV_OK;
    (void)link;
    for (size_t i = 0; i < r->pieces.count && !status; i++) {
        const struct chain_piece p = r->pieces.at[i];
        size_t open = p.end;
        int last = -1;
        for (size_t at = p.begin; at < p.end && !status;) {
            const size_t begin = at;
            const int script = qkv_code_script(qkv_code_next(r->text.bytes.data, p.end, &at));
            if (script < 0 || script == last) continue;
            if (last >= 0) status = qkv_chain_piece(r, open, begin);
            open = begin;
            last = script;
        }
        if (!status) status = qkv_chain_piece(r, open, p.end);
    }
    split_done(r);
    return status;
}

/* ---- ByteLevel --------------------------------------------------------------------------------------------------- */

static enum qkv_status bytes_read(struct chain_reader *r, const json_t *value, struct chain_link *link) {
    enum qkv_status status = qkv_chain_bool(r, value, "add_prefix_space", true, &link->flags[BYTES_PREFIX]);
    if (!status) status = qkv_chain_bool(r, value, "use_regex", true, &link->flags[BYTES_REGEX]);
    return status || !link->flags[BYTES_REGEX] ? status : qkv_chain_set_pattern(r, qkv_pattern_gpt2, link);
}

/* Puts a text before every piece that does not begin with it; pieces are consecutive after it. */
static enum qkv_status split_prepend(struct chain_run *r, const char *text, size_t size,
                                     bool (*asks)(const struct chain_run *r, size_t begin)) {
    enum qkv_status status = qkv_chain_begin(r);
    for (size_t i = 0; i < r->pieces.count && !status; i++) {
        struct chain_piece *p = &r->pieces.at[i];
        const size_t begin = r->next.bytes.size;
        const bool has = p->end - p->begin >= size && memcmp(r->text.bytes.data + p->begin, text, size) == 0;
        if (!has && (!asks || asks(r, p->begin)))
            status = qkv_chain_put_text(r, text, size, qkv_chain_source(r, p->begin));
        r->cursor = p->begin;
        if (!status) status = qkv_chain_keep(r, p->end - p->begin);
        *p = (struct chain_piece){begin, r->next.bytes.size};
    }
    if (!status) qkv_chain_swap(r);
    return status;
}

/* Appends the symbols of bytes, a few at a time. */
static enum qkv_status bytes_write(struct chain_run *r, size_t begin, size_t end) {
    const unsigned char *text = (const unsigned char *)r->text.bytes.data;
    enum qkv_status status = QKV_OK;
    char out[1024];
    size_t n = 0;
    if (!r->mapped) {
        for (size_t i = begin; i < end && !status; i++) {
            const unsigned char c = text[i];
            if (c > 32 && c < 127) {
                out[n++] = (char)c;
            } else {
                n += qkv_utf8_write(qkv_byte_symbol(c), out + n);
            }
            if (n + 4 <= sizeof out && i + 1 < end) continue;
            status = qkv_chain_put_text(r, out, n, (struct chain_span){0, 0});
            n = 0;
        }
        return status;
    }
    for (size_t i = begin; i < end && !status; i++)
        status = qkv_chain_put_text(r, out, qkv_utf8_write(qkv_byte_symbol(text[i]), out), qkv_chain_source(r, i));
    return status;
}

enum qkv_status qkv_chain_bytes(struct chain_run *r) {
    enum qkv_status status = qkv_chain_begin(r);
    if (r->pieces.count == 0) status = bytes_write(r, 0, r->text.bytes.size);
    for (size_t i = 0; i < r->pieces.count && !status; i++) {
        struct chain_piece *p = &r->pieces.at[i];
        const size_t begin = r->next.bytes.size;
        status = bytes_write(r, p->begin, p->end);
        *p = (struct chain_piece){begin, r->next.bytes.size};
    }
    if (!status) qkv_chain_swap(r);
    return status;
}

static enum qkv_status bytes_cut(struct chain_run *r, const struct chain_link *link) {
    const struct chain_link pattern = {
        .kind = link->kind, .pattern = link->pattern, .place = link->place, .behavior = CHAIN_ISOLATED};
    return split_by_pattern(r, &pattern);
}

static enum qkv_status split_bytes(struct chain_run *r, const struct chain_link *link) {
    enum qkv_status status = link->flags[BYTES_PREFIX] ? split_prepend(r, " ", 1, NULL) : QKV_OK;
    if (!status && link->flags[BYTES_REGEX]) status = bytes_cut(r, link);
    return status || r->pieces.count == 0 ? status : qkv_chain_bytes(r);
}

static enum qkv_status split_bytes_kept(struct chain_run *r, const struct chain_link *link) {
    if (link->flags[BYTES_REGEX]) return bytes_cut(r, link);
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < r->pieces.count && !status; i++)
        status = qkv_chain_piece(r, r->pieces.at[i].begin, r->pieces.at[i].end);
    return status;
}

const struct chain_kind qkv_chain_bytes_cut = {"ByteLevel", NULL, split_bytes_kept, NULL, true};

/* ---- Metaspace --------------------------------------------------------------------------------------------------- */

static enum qkv_status meta_read(struct chain_reader *r, const json_t *value, struct chain_link *link) {
    char bytes[5] = {0};
    enum qkv_status status = qkv_chain_code(r, value, "replacement", 0x2581, &link->code);
    if (!status) status = qkv_chain_scheme(r, value, link);
    if (!status) status = qkv_chain_bool(r, value, "split", true, &link->flags[0]);
    if (status) return status;
    link->size = qkv_utf8_write(link->code, bytes);
    link->text = qkv_copy_bytes(r->ctx, bytes, link->size);
    r->chain->needs_map = r->chain->needs_map || link->scheme == CHAIN_FIRST;
    return link->text ? QKV_OK : QKV_MEMORY;
}

static bool meta_is_first(const struct chain_run *r, size_t begin) {
    return qkv_chain_source(r, begin).begin == 0;
}

/* Replaces spaces by the mark, piece by piece. */
static enum qkv_status meta_replace(struct chain_run *r, const struct chain_link *link) {
    enum qkv_status status = qkv_chain_begin(r);
    for (size_t i = 0; i < r->pieces.count && !status; i++) {
        struct chain_piece *p = &r->pieces.at[i];
        const size_t begin = r->next.bytes.size;
        const char *text = r->text.bytes.data;
        r->cursor = p->begin;
        while (r->cursor < p->end && !status) {
            const char *space = memchr(text + r->cursor, ' ', p->end - r->cursor);
            const size_t at = space ? (size_t)(space - text) : p->end;
            if (at > r->cursor) status = qkv_chain_keep(r, at - r->cursor);
            if (status || !space) break;
            status = qkv_chain_put_text(r, link->text, link->size, qkv_chain_source(r, at));
            qkv_chain_skip(r, 1);
        }
        *p = (struct chain_piece){begin, r->next.bytes.size};
    }
    if (!status) qkv_chain_swap(r);
    return status;
}

static enum qkv_status split_meta(struct chain_run *r, const struct chain_link *link) {
    enum qkv_status status = QKV_OK;
    if (memchr(r->text.bytes.data, ' ', r->text.bytes.size)) status = meta_replace(r, link);
    if (!status && link->scheme != CHAIN_NEVER)
        status = split_prepend(r, link->text, link->size, link->scheme == CHAIN_FIRST ? meta_is_first : NULL);
    if (status || !link->flags[0]) return status;
    const struct chain_link mark = {.literal = link->text, .size = link->size, .behavior = CHAIN_NEXT};
    return split_by_pattern(r, &mark);
}

const struct chain_kind qkv_chain_splitters[] = {
    {"ByteLevel", bytes_read, split_bytes, NULL, false},
    {"Split", split_read, split_by_pattern, NULL, true},
    {"Metaspace", meta_read, split_meta, NULL, false},
    {"Whitespace", words_read, split_by_pattern, NULL, true},
    {"WhitespaceSplit", NULL, split_spaces, NULL, true},
    {"BertPreTokenizer", NULL, split_bert, NULL, true},
    {"Punctuation", qkv_chain_behavior, split_punctuation, NULL, true},
    {"Digits", digits_read, split_digits, NULL, true},
    {"CharDelimiterSplit", delimiter_read, split_by_pattern, NULL, true},
    {"FixedLength", length_read, split_length, NULL, true},
    {"UnicodeScripts", NULL, split_scripts, NULL, true},
    {NULL, NULL, NULL, NULL, false},
};
