/* Charsmaps of SentencePiece (precompiled_charsmap): a double array (Yata 2008, darts-clone) of texts and their
 * replacements. As in the crate spm_precompiled, it is applied to each grapheme cluster of fewer than 6 bytes, else to
 * its characters; of several entries that are a prefix, the shortest is used. */
#include "text/chain.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#define MAP_BYTES ((size_t)64 << 20)

static int charsmap_digit(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

size_t qkv_base64_decode(char *text) {
    size_t n = 0, digits = 0;
    uint32_t bits = 0;
    char *end = text + strlen(text);
    while (end > text && end[-1] == '=') end--;
    for (const char *s = text; s < end; s++) {
        const int digit = charsmap_digit(*s);
        if (digit < 0) return SIZE_MAX;
        bits = bits << 6 | (uint32_t)digit;
        if (++digits % 4 == 0) {
            text[n++] = (char)(bits >> 16);
            text[n++] = (char)(bits >> 8);
            text[n++] = (char)bits;
            bits = 0;
        }
    }
    if (digits % 4 == 1) return SIZE_MAX;
    if (digits % 4 >= 2) text[n++] = (char)(bits >> (digits % 4 == 2 ? 4 : 10));
    if (digits % 4 == 3) text[n++] = (char)(bits >> 2);
    return n;
}

static uint32_t unit_offset(uint32_t unit) {
    return (unit >> 10) << ((unit & (1U << 9)) >> 6);
}

/* The next byte of a text in the trie; *at: the place of its children. Returns false where no text goes on with it.
 * *value: the replacement of the text that ends here; NULL: none does. */
static bool charsmap_step(const struct chain_charsmap *map, size_t *at, unsigned char byte, const char **value) {
    *value = NULL;
    *at ^= byte;
    if (!byte || *at >= map->count) return false;
    const uint32_t unit = map->units[*at];
    if ((unit & (1U << 31 | 0xFFU)) != byte) return false;
    *at ^= unit_offset(unit);
    if (!(unit >> 8 & 1)) return true;
    if (*at >= map->count) return false;
    const size_t place = map->units[*at] & ~(1U << 31);
    if (place < map->size) *value = map->strings + place;
    return true;
}

/* The replacement of the shortest beginning of a text that has one, or NULL. */
static const char *charsmap_find(const struct chain_charsmap *map, const char *text, size_t size) {
    const char *value = NULL;
    size_t at = map->count ? unit_offset(map->units[0]) : 0;
    for (size_t i = 0; i < size && !value; i++)
        if (!charsmap_step(map, &at, (unsigned char)text[i], &value)) break;
    return value;
}

const char *qkv_charsmap_longest(const struct chain_charsmap *map, const char *text, size_t size, size_t *length) {
    const char *value, *longest = NULL;
    size_t at = map->count ? unit_offset(map->units[0]) : 0;
    for (size_t i = 0; i < size && charsmap_step(map, &at, (unsigned char)text[i], &value); i++) {
        if (!value) continue;
        longest = value;
        *length = i + 1;
    }
    return longest;
}

enum { KEY_BYTES = 32 }; /* of keys that are listed */

enum qkv_status qkv_charsmap_keys(struct qkv_context *ctx, const struct chain_charsmap *map,
                                  enum qkv_status (*visit)(void *user, const char *key, size_t size), void *user) {
    size_t places[KEY_BYTES + 1] = {map->count ? unit_offset(map->units[0]) : 0};
    unsigned next[KEY_BYTES + 1] = {1}; /* the byte to try at each depth */
    char key[KEY_BYTES + 1] = {0};
    size_t depth = 0;
    enum qkv_status status = QKV_OK;
    for (size_t steps = 0; !status; steps++) {
        if (steps / 4096 > map->count) /* a damaged map goes in circles */
            return qkv_fail(ctx, QKV_FORMAT, "the charsmap of the tokenizer has too many texts");
        if (next[depth] == 256 || depth == KEY_BYTES) {
            if (depth == 0) break;
            depth--;
            continue;
        }
        const char *value;
        size_t at = places[depth];
        const unsigned char byte = (unsigned char)next[depth]++;
        if (!charsmap_step(map, &at, byte, &value)) continue;
        key[depth++] = (char)byte;
        places[depth] = at;
        next[depth] = 1;
        if (value) status = visit(user, key, depth);
    }
    return status;
}

/* Whether neither a character of ASCII alone nor it with another one is mapped. */
static bool charsmap_alone(const struct chain_charsmap *map, char c) {
    size_t at = map->count ? unit_offset(map->units[0]) : 0;
    const char *value;
    if (!charsmap_step(map, &at, (unsigned char)c, &value)) return true;
    bool alone = !value;
    for (unsigned char next = 1; next < 0x80 && alone; next++) {
        size_t place = at;
        alone = !charsmap_step(map, &place, next, &value);
    }
    return alone;
}

void qkv_charsmap_free(struct chain_charsmap *map) {
    if (!map) return;
    free(map->units);
    free(map->strings);
    free(map);
}

static enum qkv_status charsmap_make(struct chain_reader *r, const char *data, size_t size,
                                     struct chain_charsmap *map) {
    uint32_t bytes = 0;
    if (size >= 4) memcpy(&bytes, data, 4);
    if (size < 4 || bytes % 4 || bytes > size - 4)
        return qkv_fail(r->ctx, QKV_FORMAT,
                        "%s: normalizer: precompiled_charsmap says that its trie has %zu bytes, but it has only %zu",
                        r->name, (size_t)bytes, size);
    map->count = bytes / 4;
    map->units = qkv_allocate(r->ctx, map->count + 1, 4);
    map->size = size - 4 - bytes;
    map->strings = qkv_copy_bytes(r->ctx, data + 4 + bytes, map->size);
    if (!map->units || !map->strings) return QKV_MEMORY;
    memcpy(map->units, data + 4, bytes);
    for (size_t at = 0; at < map->size;) { /* texts of the library must be UTF-8 */
        const size_t n = strlen(map->strings + at);
        if (qkv_utf8_valid(map->strings + at, n) != n)
            return qkv_fail(r->ctx, QKV_FORMAT, "%s: normalizer: precompiled_charsmap has a text that is not UTF-8",
                            r->name);
        at += n + 1;
    }
    for (int c = 0; c < 128; c++) {
        const char one = (char)c;
        map->plain[c] = c != '\r' && !charsmap_find(map, &one, 1);
        map->alone[c] = charsmap_alone(map, one);
    }
    return QKV_OK;
}

enum qkv_status qkv_charsmap_read(struct chain_reader *r, const json_t *value, struct chain_link *link) {
    char *text = NULL;
    enum qkv_status status = qkv_chain_string(r, value, "precompiled_charsmap", NULL, &text);
    if (status) return status;
    size_t size = strlen(text) <= MAP_BYTES ? qkv_base64_decode(text) : SIZE_MAX;
    link->charsmap = qkv_allocate(r->ctx, 1, sizeof *link->charsmap);
    if (size == SIZE_MAX)
        status = qkv_fail(r->ctx, QKV_FORMAT, "%s: normalizer: precompiled_charsmap is not base64 of at most 64 MiB",
                          r->name);
    else
        status = link->charsmap ? charsmap_make(r, text, size, link->charsmap) : QKV_MEMORY;
    free(text);
    return status;
}

/* Writes the replacement of the `size` bytes at the cursor. As in tokenizers, characters that it has fewer are counted
 * with the last character written; before the first written character, they are not counted. */
struct charsmap_writer {
    struct chain_run *r;
    uint32_t code; /* the last character, which is not written yet */
    int change;
    bool any;
};

static enum qkv_status charsmap_put(struct charsmap_writer *w, uint32_t code, int change) {
    enum qkv_status status = w->any ? qkv_chain_put(w->r, w->code, w->change) : QKV_OK;
    w->code = code;
    w->change = change;
    w->any = true;
    return status;
}

static size_t charsmap_count(const char *text, size_t size) {
    size_t n = 0;
    for (size_t at = 0; at < size; n++) qkv_code_next(text, size, &at);
    return n;
}

static enum qkv_status charsmap_replace(struct charsmap_writer *w, const char *old, size_t size, const char *text) {
    const size_t bytes = strlen(text), before = charsmap_count(old, size), after = charsmap_count(text, bytes);
    enum qkv_status status = QKV_OK;
    size_t k = 0;
    for (size_t at = 0; at < bytes && !status; k++) {
        const uint32_t code = qkv_code_next(text, bytes, &at);
        status = charsmap_put(w, code, after > before && k >= before);
    }
    if (after < before && w->any) w->change += (int)after - (int)before;
    return status;
}

static enum qkv_status charsmap_cluster(struct charsmap_writer *w, const struct chain_charsmap *map, const char *text,
                                        size_t size, bool *changed) {
    const char *whole = size < 6 ? charsmap_find(map, text, size) : NULL;
    enum qkv_status status = QKV_OK;
    if (whole) {
        *changed = true;
        return charsmap_replace(w, text, size, whole);
    }
    for (size_t at = 0; at < size && !status;) {
        const size_t begin = at;
        const uint32_t code = qkv_code_next(text, size, &at);
        const char *part = charsmap_find(map, text + begin, at - begin);
        *changed = *changed || part;
        status = part ? charsmap_replace(w, text + begin, at - begin, part) : charsmap_put(w, code, 0);
    }
    return status;
}

enum qkv_status qkv_charsmap_run(struct chain_run *r, const struct chain_link *link) {
    const struct chain_charsmap *map = link->charsmap;
    const char *text = r->text.bytes.data;
    const size_t size = r->text.bytes.size;
    size_t plain = 0;
    while (plain < size && (unsigned char)text[plain] < 0x80 && map->plain[(unsigned char)text[plain]]) plain++;
    if (plain == size) return QKV_OK;
    struct charsmap_writer w = {.r = r};
    bool changed = false;
    enum qkv_status status = qkv_chain_begin(r);
    for (size_t at = 0; at < size && !status;) {
        const size_t begin = at;
        const unsigned char c = (unsigned char)text[at];
        if (c < 0x80 && map->plain[c] && (at + 1 == size || (unsigned char)text[at + 1] < 0x80)) {
            at++;
            status = charsmap_put(&w, c, 0);
            continue;
        }
        utf8proc_int32_t state = 0;
        uint32_t code = qkv_code_next(text, size, &at);
        while (at < size) { /* to the end of the grapheme cluster */
            size_t next = at;
            const uint32_t other = qkv_code_next(text, size, &next);
            if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)code, (utf8proc_int32_t)other, &state)) break;
            code = other;
            at = next;
        }
        status = charsmap_cluster(&w, map, text + begin, at - begin, &changed);
    }
    if (!status && w.any) status = qkv_chain_put(r, w.code, w.change);
    if (!status && changed) qkv_chain_swap(r);
    return status;
}
