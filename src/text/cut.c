/* Where a stream of text may be cut so that its parts encode like the whole, whatever comes next.
 *
 * A cut n is good when (1) n is the end of a piece that does not depend on what follows the known text, (2) the text
 * before n, alone, gives the same pieces as it does inside the whole, and (3) the text from n on starts afresh,
 * which it does unless the pattern looks back. (2) is the subtle one: GPT-2's \s+(?!\S) cuts "\n\nx" into \n, \n, x
 * but "\n\n" into one piece, so the end of the second \n is no place to cut. Both are checked by doing it: the
 * pieces of the open text and of the text up to n are compared one by one. Special tokens double the work, for the
 * answer must hold whether they are looked for or not.
 *
 * The patterns that are known (qkv_pattern_is_local) see no further than the character behind a run of one class,
 * and always cut between a newline and what is no white space. So the pieces are the same from such a place on, and
 * nothing before the last one that is NEAR bytes from the end is looked at. */
#include "text/chain.h"

#include <stdlib.h>
#include <string.h>

#define RECENT    16   /* piece ends that are remembered as candidates */
#define TRIES_MAX 8    /* candidates that are checked in full before waiting for more text */
#define NEAR      4096 /* bytes before an end that its pieces are looked for in */

struct span {
    size_t begin, end;
};
struct spans { /* the text between added tokens, in order; the last one is open */
    struct span *at;
    size_t count, capacity;
    bool specials; /* whether special tokens are looked for */
};
struct cutter {
    const struct qkv_tokenizer *t;
    const char *text; /* what is known: the text, or its normal form as far as that is certain */
    size_t size, source_size;
    struct chain_run run; /* finds added tokens, and has the normal form with its source */
    struct spans modes[2];
    struct qkv_splitter *open, *alone;
    int tries;
};

/* ---- text between added tokens ---------------------------------------------------------------------------------- */

static bool add_span(struct spans *spans, size_t begin, size_t end) {
    struct span *at = qkv_list_room(NULL, spans->at, &spans->capacity, spans->count, 1, sizeof *at);
    if (!at) return false;
    spans->at = at;
    spans->at[spans->count++] = (struct span){begin, end};
    return true;
}

static bool cut_find(struct cutter *c, bool normalized, bool specials, const char *s, size_t size, size_t at,
                     struct chain_found *f) {
    c->run.specials = specials;
    *f = (struct chain_found){.search = at};
    return qkv_chain_find(&c->run, normalized, s, size, at, f);
}

/* The same two passes as in encoding. Where an added token may be about to begin, an open text ends. */
static bool cut_collect(struct cutter *c, struct spans *spans, size_t begin, size_t size, bool open, bool normalized) {
    const struct chain_finder *finders = c->t->chain->finders;
    const size_t longest = qkv_max(finders[0].longest, finders[1].longest);
    for (size_t at = begin;;) {
        struct chain_found f;
        size_t certain = size;
        bool found = cut_find(c, normalized, spans->specials, c->text, size, at, &f);
        size_t p = size >= longest ? size - longest : 0;
        for (p = p > at ? p : at; open && p < size && (!found || p <= f.begin); p++) {
            if (!qkv_finder_open(&finders[0], c->text, size, p) && !qkv_finder_open(&finders[1], c->text, size, p))
                continue;
            certain = p;
            found = false;
            break;
        }
        const size_t end = found ? f.begin : certain;
        if (normalized) {
            if (!add_span(spans, at, end)) return false;
        } else if (!cut_collect(c, spans, at, end, open && !found, true)) {
            return false;
        }
        if (!found) return true;
        at = f.end;
    }
}

/* ---- the normal form -------------------------------------------------------------------------------------------- */

/* The place in the source of a place in its normal form; SIZE_MAX if there is none that is sure: where the source has
 * an ASCII character, which may have been composed with what follows it. */
static size_t source_place(const struct cutter *c, size_t place) {
    if (!c->t->chain->normalizers.count) return place;
    if (place == c->run.text.bytes.size) return c->source_size;
    const size_t at = qkv_chain_source(&c->run, place).begin;
    if (place > 0 && qkv_chain_source(&c->run, place - 1).begin == at) return SIZE_MAX;
    return (unsigned char)c->run.source[at] < 0x80 ? at : SIZE_MAX;
}

/* The last sure place in the normal form that is not after a place in the source. */
static size_t normal_place(const struct cutter *c, size_t place) {
    size_t sure = 0;
    for (size_t i = 0; i < c->run.text.bytes.size && qkv_chain_source(&c->run, i).begin <= place; i++)
        if (source_place(c, i) != SIZE_MAX) sure = i;
    return sure;
}

/* Added tokens are looked for before NFC, and cutting works after it. They nearly always are at the same places (not
 * in "<|x|>" with an accent on the last character); the known text ends where they are not. */
static void compare_added(struct cutter *c, const char *source, bool specials) {
    size_t a = 0, b = 0;
    for (;;) {
        struct chain_found x, y;
        const bool in_source = cut_find(c, false, specials, source, c->source_size, a, &x),
                   in_normal = cut_find(c, false, specials, c->text, c->size, b, &y);
        if (!in_source && !in_normal) return;
        if (in_source && in_normal && x.added == y.added && source_place(c, y.begin) == x.begin &&
            source_place(c, y.end) == x.end) {
            a = x.end;
            b = y.end;
            continue;
        }
        const size_t place = in_source ? normal_place(c, x.begin) : c->size;
        c->size = in_normal && y.begin < place ? y.begin : place;
        return;
    }
}

/* NFC is certain up to the last ASCII character. */
static bool know_normal(struct cutter *c, const char *text, size_t size) {
    while (size > 0 && (unsigned char)text[size - 1] >= 0x80) size--;
    if (size > 0) size--;
    if (size > UINT32_MAX / 4) return false;
    c->source_size = size;
    c->run.source = text;
    qkv_chain_load(&c->run, text, 0, size);
    if (qkv_chain_form(&c->run, false, true)) return false;
    c->text = c->run.text.bytes.data;
    c->size = c->run.text.bytes.size;
    if (c->size > 0 && c->t->chain->added_count > 0) {
        compare_added(c, text, true);
        compare_added(c, text, false);
    }
    return true;
}

/* Where pieces begin whatever stands before, at least NEAR bytes before `end`: behind a newline, with no white space
 * next; `begin` where none is known. */
static size_t cut_start(const struct cutter *c, size_t begin, size_t end) {
    const bool local = qkv_pattern_is_local(c->t->chain->pattern);
    for (size_t at = end - begin > NEAR ? end - NEAR : begin; local && at > begin; at--) {
        const char *newline = memrchr(c->text + begin, '\n', at - begin);
        if (!newline) return begin;
        at = (size_t)(newline - c->text) + 1;
        const unsigned char next = (unsigned char)c->text[at];
        if (next > ' ' && next < 0x7F) return at;
    }
    return begin;
}

/* ---- with a pattern --------------------------------------------------------------------------------------------- */

/* Whether a cut at n leaves the pieces of this mode as they are. */
static bool cut_agrees(struct cutter *c, const struct spans *spans, size_t n) {
    size_t k = spans->count;
    while (k > 0 && spans->at[k - 1].begin > n) k--;
    if (k == 0 || n > spans->at[k - 1].end) return false; /* inside an added token, or not certain */
    const struct span *span = &spans->at[k - 1];
    bool open = k == spans->count;
    if (n == span->begin || (n == span->end && !open)) return true;
    const size_t start = cut_start(c, span->begin, n);
    qkv_splitter_start(c->open, c->text + start, span->end - start, open);
    qkv_splitter_start(c->alone, c->text + start, n - start, false);
    for (;;) {
        size_t begin, end, alone_begin, alone_end;
        if (qkv_splitter_next(c->open, &begin, &end) != QKV_SPLIT_PIECE) return false;
        if (qkv_splitter_next(c->alone, &alone_begin, &alone_end) != QKV_SPLIT_PIECE) return false;
        if (begin != alone_begin || end != alone_end) return false;
        if (start + end == n) return true;
    }
}

static bool cut_good(struct cutter *c, size_t n) {
    if (n == 0 || source_place(c, n) == SIZE_MAX) return false;
    if (c->tries >= TRIES_MAX) return false;
    c->tries++;
    return cut_agrees(c, &c->modes[0], n) && cut_agrees(c, &c->modes[1], n);
}

/* A quick look before the full check: do the last few pieces before n come out the same without what follows? */
static bool cut_likely(struct cutter *c, const size_t *ends, size_t count) {
    size_t back = count > 4 ? 4 : count - 1, from = ends[count - 1 - back], n = ends[count - 1];
    if (back == 0) return true;
    qkv_splitter_start(c->alone, c->text + from, n - from, false);
    for (size_t i = count - back; i < count; i++) {
        size_t begin, end;
        if (qkv_splitter_next(c->alone, &begin, &end) != QKV_SPLIT_PIECE || from + end != ends[i]) return false;
    }
    return true;
}

/* The last good cut in a span after its begin; 0 if there is none. */
static size_t cut_span(struct cutter *c, const struct span *span, bool open) {
    size_t ends[2 * RECENT], count = 0, begin, end;
    if (!open && span->end > span->begin && cut_good(c, span->end)) return span->end;
    const size_t start = cut_start(c, span->begin, span->end);
    qkv_splitter_start(c->open, c->text + start, span->end - start, open);
    while (qkv_splitter_next(c->open, &begin, &end) == QKV_SPLIT_PIECE) {
        if (count == 2 * RECENT) {
            memmove(ends, ends + RECENT, RECENT * sizeof *ends);
            count = RECENT;
        }
        ends[count++] = start + end;
    }
    for (; count > 0; count--) {
        if (cut_likely(c, ends, count) && cut_good(c, ends[count - 1])) return ends[count - 1];
    }
    return 0;
}

static size_t cut_pieces(struct cutter *c) {
    if (qkv_pattern_looks_back(c->t->chain->pattern)) return 0;
    const struct spans *spans = &c->modes[1];
    for (size_t k = spans->count; k > 0 && c->tries < TRIES_MAX; k--) {
        const struct span *span = &spans->at[k - 1];
        size_t n = cut_span(c, span, k == spans->count);
        if (n > 0) return n;
        if (cut_good(c, span->begin)) return span->begin;
    }
    return 0;
}

/* ---- without a pattern ------------------------------------------------------------------------------------------ */

/* joins[a][b]: some token has byte a before byte b, so a merge might reach across. */
struct joins {
    bool any[256]; /* some token has byte a before another */
    bool at[256][256];
};

static void find_joins(const struct qkv_tokenizer *t, struct joins *joins) {
    for (size_t id = 0; id < t->count; id++) {
        const unsigned char *s = (const unsigned char *)qkv_token_bytes(t, id);
        for (size_t i = 1; t->tokens[id].form == QKV_TOKEN_TEXT && i < t->tokens[id].size; i++) {
            joins->any[s[i - 1]] = joins->at[s[i - 1]][s[i]] = true;
        }
    }
}

static bool splits_nothing(const struct cutter *c, const struct joins *joins, size_t n) {
    const unsigned char *s = (const unsigned char *)c->text;
    if (!c->t->chain->bytes && n < c->size && s[n] >= 0x80 && s[n] < 0xC0) return false; /* inside a character, maybe */
    if (c->t->merges.count == 0) return true;
    return n < c->size ? !joins->at[s[n - 1]][s[n]] : !joins->any[s[n - 1]];
}

static size_t cut_bytes(struct cutter *c) {
    if (c->t->chain->ignore_merges) return 0; /* the whole text may be one token */
    struct joins *joins = qkv_allocate(NULL, 1, sizeof *joins);
    if (!joins) return 0;
    if (c->t->merges.count > 0) find_joins(c->t, joins);
    size_t last[2] = {c->modes[0].count, c->modes[1].count}, n = c->size;
    for (; n > 0; n--) {
        bool fits = source_place(c, n) != SIZE_MAX && splits_nothing(c, joins, n);
        for (int mode = 0; mode < 2; mode++) {
            const struct span *at = c->modes[mode].at;
            while (last[mode] > 1 && at[last[mode] - 1].begin > n) last[mode]--;
            if (at[last[mode] - 1].begin > n || at[last[mode] - 1].end < n) fits = false;
        }
        if (fits) break;
    }
    free(joins);
    return n;
}

/* ---- the answer ------------------------------------------------------------------------------------------------- */

static size_t cut_known(struct cutter *c) {
    for (int mode = 0; mode < 2; mode++) {
        c->modes[mode].specials = mode == 1;
        if (!cut_collect(c, &c->modes[mode], 0, c->size, true, false)) return 0;
    }
    if (!c->t->chain->pattern) return cut_bytes(c);
    if (qkv_splitter_create(NULL, c->t->chain->pattern, &c->open)) return 0;
    if (qkv_splitter_create(NULL, c->t->chain->pattern, &c->alone)) return 0;
    return cut_pieces(c);
}

size_t qkv_tokenizer_cut(const struct qkv_tokenizer *t, const char *text, size_t size, bool end) {
    if (!t || !text) return 0;
    if (end || size == 0) return size;
    const struct qkv_chain *chain = t->chain;
    if (!chain->plain) return qkv_chain_cut(t, text, size);
    struct cutter c = {.t = t, .text = text, .run = {.t = t, .chain = chain, .only = -1, .mapped = true}};
    const bool whole_characters = chain->pattern || !chain->bytes;
    c.size = c.source_size = whole_characters ? size - qkv_utf8_tail(text, size) : size;
    size_t n = 0;
    if (!chain->normalizers.count || know_normal(&c, text, c.size)) {
        n = c.size > 0 ? cut_known(&c) : 0;
        n = n > 0 ? source_place(&c, n) : 0;
    }
    for (int mode = 0; mode < 2; mode++) free(c.modes[mode].at);
    qkv_chain_run_free(&c.run);
    qkv_splitter_free(c.open);
    qkv_splitter_free(c.alone);
    return n == SIZE_MAX ? 0 : n;
}
