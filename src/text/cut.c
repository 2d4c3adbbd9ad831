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
    const char *text; /* what is known: the text, or its NFC as far as that is certain */
    size_t size, source_size;
    struct qkv_buffer normal;
    struct qkv_steps steps;
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

/* The same two passes as in encoding. Where an added token may be about to begin, an open text ends. */
static bool cut_collect(struct cutter *c, struct spans *spans, size_t begin, size_t size, bool open,
                        enum qkv_added_pass pass) {
    for (size_t at = begin;;) {
        size_t next, certain = size;
        const struct qkv_added *added = qkv_added_next(c->t, c->text, size, at, pass, spans->specials, &next);
        size_t p = size >= c->t->added_longest ? size - c->t->added_longest : 0;
        for (p = p > at ? p : at; open && p < size && p <= next; p++) {
            if (!qkv_added_open(c->t, c->text, size, p)) continue;
            certain = p;
            added = NULL;
            break;
        }
        size_t end = added ? next : certain;
        if (pass == QKV_ADDED_NORMALIZED) {
            if (!add_span(spans, at, end)) return false;
        } else if (!cut_collect(c, spans, at, end, open && !added, QKV_ADDED_NORMALIZED)) {
            return false;
        }
        if (!added) return true;
        at = next + added->size;
    }
}

/* ---- NFC -------------------------------------------------------------------------------------------------------- */

/* The place in the source of a place in its NFC; SIZE_MAX if there is none that is sure. */
static size_t source_place(const struct cutter *c, size_t place) {
    if (!c->t->nfc) return place;
    size_t low = 0, high = c->steps.count;
    while (low + 1 < high) {
        size_t middle = low + (high - low) / 2;
        if (c->steps.at[middle].normal <= place) {
            low = middle;
        } else {
            high = middle;
        }
    }
    if (high == 0) return 0;
    const struct qkv_step *step = &c->steps.at[low];
    if (place - step->normal < step->ascii) return step->source + (place - step->normal);
    return place == c->normal.size ? c->source_size : SIZE_MAX;
}

static size_t normal_place(const struct cutter *c, size_t place) {
    size_t k = c->steps.count;
    while (k > 1 && c->steps.at[k - 1].source > place) k--;
    const struct qkv_step *step = &c->steps.at[k - 1];
    size_t ahead = place - step->source;
    return step->normal + (ahead < step->ascii ? ahead : 0);
}

/* Added tokens are looked for before NFC, and cutting works after it. They nearly always are at the same places (not
 * in "<|x|>" with an accent on the last character); the known text ends where they are not. */
static void compare_added(struct cutter *c, const char *source, bool specials) {
    size_t a = 0, b = 0;
    for (;;) {
        size_t a_begin, b_begin;
        const struct qkv_added *x = qkv_added_next(c->t, source, c->source_size, a, QKV_ADDED_RAW, specials, &a_begin);
        const struct qkv_added *y = qkv_added_next(c->t, c->text, c->size, b, QKV_ADDED_RAW, specials, &b_begin);
        if (!x && !y) return;
        if (x == y && source_place(c, b_begin) == a_begin && source_place(c, b_begin + y->size) == a_begin + x->size) {
            a = a_begin + x->size;
            b = b_begin + y->size;
            continue;
        }
        size_t place = x ? normal_place(c, a_begin) : c->size;
        c->size = place < b_begin ? place : b_begin;
        return;
    }
}

/* NFC is certain up to the last ASCII character. */
static bool know_normal(struct cutter *c, const char *text, size_t size) {
    while (size > 0 && (unsigned char)text[size - 1] >= 0x80) size--;
    if (size > 0) size--;
    c->source_size = size;
    if (qkv_normalize(NULL, text, size, &c->normal, &c->steps)) return false;
    c->text = c->normal.data;
    c->size = c->normal.size;
    if (c->size > 0 && c->t->added_count > 0) {
        compare_added(c, text, true);
        compare_added(c, text, false);
    }
    return true;
}

/* Where pieces begin whatever stands before, at least NEAR bytes before `end`: behind a newline, with no white space
 * next; `begin` where none is known. */
static size_t cut_start(const struct cutter *c, size_t begin, size_t end) {
    const bool local = qkv_pattern_is_local(c->t->pattern);
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
    if (qkv_pattern_looks_back(c->t->pattern)) return 0;
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
    if (!c->t->byte_level && n < c->size && s[n] >= 0x80 && s[n] < 0xC0) return false; /* inside a character, maybe */
    if (c->t->merges.count == 0) return true;
    return n < c->size ? !joins->at[s[n - 1]][s[n]] : !joins->any[s[n - 1]];
}

static size_t cut_bytes(struct cutter *c) {
    if (c->t->ignore_merges) return 0; /* the whole text may be one token */
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
        if (!cut_collect(c, &c->modes[mode], 0, c->size, true, QKV_ADDED_RAW)) return 0;
    }
    if (!c->t->pattern) return cut_bytes(c);
    if (qkv_splitter_create(NULL, c->t->pattern, &c->open)) return 0;
    if (qkv_splitter_create(NULL, c->t->pattern, &c->alone)) return 0;
    return cut_pieces(c);
}

size_t qkv_tokenizer_cut(const struct qkv_tokenizer *t, const char *text, size_t size, bool end) {
    if (!t || !text) return 0;
    if (end || size == 0) return size;
    if (t->chain) return qkv_chain_cut(t->chain, text, size);
    struct cutter c = {.t = t, .text = text};
    bool whole_characters = t->pattern || !t->byte_level;
    c.size = c.source_size = whole_characters ? size - qkv_utf8_tail(text, size) : size;
    size_t n = 0;
    if (!t->nfc || know_normal(&c, text, c.size)) {
        n = c.size > 0 ? cut_known(&c) : 0;
        n = n > 0 ? source_place(&c, n) : 0;
    }
    for (int mode = 0; mode < 2; mode++) free(c.modes[mode].at);
    free(c.steps.at);
    qkv_buffer_free(&c.normal);
    qkv_splitter_free(c.open);
    qkv_splitter_free(c.alone);
    return n == SIZE_MAX ? 0 : n;
}
