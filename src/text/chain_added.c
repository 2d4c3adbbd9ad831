/* Added tokens in a text: leftmost first, of those at one place the longest; then the white space that they strip. */
#include "text/chain.h"

#include <stdlib.h>
#include <string.h>

enum qkv_status qkv_finder_add(struct qkv_context *ctx, struct qkv_chain *c, size_t i, const char *text, size_t size) {
    struct chain_finder *f = &c->finders[c->added[i].normalized];
    if (size == 0) return QKV_OK;
    const int first = (unsigned char)*text;
    f->first = f->trie.edge_count == 0 || f->first == first ? first : -1;
    f->begins[first] = true;
    f->longest = qkv_max(f->longest, size);
    f->has_plain = f->has_plain || !c->added[i].special;
    return qkv_trie_add(ctx, &f->trie, text, size, (int32_t)i);
}

void qkv_finder_free(struct chain_finder *finder) {
    qkv_trie_free(&finder->trie);
}

/* Whether more text may make s[at, size) an added token, or a longer one. */
bool qkv_finder_open(const struct chain_finder *f, const char *s, size_t size, size_t at) {
    if (!f->begins[(unsigned char)s[at]]) return false;
    int32_t node = 0;
    for (; at < size && node >= 0; at++) node = qkv_trie_step(&f->trie, node, (unsigned char)s[at]);
    bool more = false;
    for (int byte = 0; node >= 0 && byte < 256 && !more; byte++)
        more = qkv_trie_step(&f->trie, node, (unsigned char)byte) >= 0;
    return more;
}

/* The next added token at `from` or later; NULL: there is none. */
static const struct chain_added *added_match(const struct qkv_chain *c, bool normalized, const char *s, size_t size,
                                             size_t from, size_t *begin, size_t *end) {
    const struct chain_finder *f = &c->finders[normalized];
    for (size_t at = from; at < size; at++) {
        const char *next = f->first >= 0 ? memchr(s + at, f->first, size - at) : s + at;
        if (!next) return NULL;
        at = (size_t)(next - s);
        if (!f->begins[(unsigned char)s[at]]) continue;
        int32_t node = 0, best = -1;
        for (size_t i = at; i < size && node >= 0;) {
            node = qkv_trie_step(&f->trie, node, (unsigned char)s[i++]);
            if (node < 0 || f->trie.values[node] < 0) continue;
            best = f->trie.values[node];
            *end = i;
        }
        if (best < 0) continue;
        *begin = at;
        return &c->added[best];
    }
    return NULL;
}

static bool added_word_before(const char *s, size_t at) {
    if (at == 0) return false;
    size_t begin = at - 1;
    while (begin > 0 && ((unsigned char)s[begin] & 0xC0) == 0x80) begin--;
    return qkv_code_is_word(qkv_code_next(s, at, &begin));
}

static size_t added_spaces_before(const char *s, size_t at, size_t least) {
    while (at > least) {
        size_t begin = at - 1;
        while (begin > 0 && ((unsigned char)s[begin] & 0xC0) == 0x80) begin--;
        size_t next = begin;
        if (!qkv_code_is_space(qkv_code_next(s, at, &next))) break;
        at = begin;
    }
    return at > least ? at : least;
}

static size_t added_spaces_after(const char *s, size_t size, size_t at) {
    while (at < size) {
        size_t next = at;
        if (!qkv_code_is_space(qkv_code_next(s, size, &next))) break;
        at = next;
    }
    return at;
}

bool qkv_chain_find(const struct chain_run *r, bool normalized, const char *s, size_t size, size_t done,
                    struct chain_found *f) {
    const struct chain_finder *finder = &r->chain->finders[normalized];
    size_t begin = 0, end = 0;
    if (finder->trie.edge_count == 0 || !(finder->has_plain || r->specials || r->only >= 0)) return false;
    while ((f->added = added_match(r->chain, normalized, s, size, f->search, &begin, &end))) {
        f->search = end;
        if (f->added->special && !r->specials && f->added->id != r->only) continue;
        if (f->added->single_word) {
            size_t next = end;
            if (added_word_before(s, begin) || (end < size && qkv_code_is_word(qkv_code_next(s, size, &next))))
                continue;
        }
        if (f->added->left) begin = added_spaces_before(s, begin, done);
        if (f->added->right) end = added_spaces_after(s, size, end);
        f->begin = begin;
        f->end = end;
        return true;
    }
    return false;
}
