/* Added tokens (specials) in a text: leftmost first, of those at one place the longest. */
#include "text/text.h"

#include <stdlib.h>
#include <string.h>

const char *qkv_token_bytes(const struct qkv_tokenizer *t, size_t id) {
    return t->text.data + t->tokens[id].offset;
}

static int longest_first(const void *left, const void *right) {
    const struct qkv_added *a = left, *b = right;
    if (a->size != b->size) return a->size > b->size ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

void qkv_added_index(struct qkv_tokenizer *t) {
    if (t->added_count > 1) qsort(t->added, t->added_count, sizeof *t->added, longest_first);
    memset(t->added_begin, 0, sizeof t->added_begin);
    t->added_longest = t->added_count ? t->added[0].size : 0;
    memset(t->added_has, 0, sizeof t->added_has);
    t->added_first = -1;
    for (size_t i = 0; i < t->added_count; i++) {
        const struct qkv_added *added = &t->added[i];
        const int first = (unsigned char)*qkv_token_bytes(t, (size_t)added->id);
        const enum qkv_added_pass pass = added->normalized ? QKV_ADDED_NORMALIZED : QKV_ADDED_RAW;
        t->added_first = i == 0 || t->added_first == first ? first : -1;
        t->added_begin[first] = true;
        for (int specials = added->special; specials < 2; specials++)
            t->added_has[pass][specials] = t->added_has[QKV_ADDED_ANY][specials] = true;
    }
}

const struct qkv_added *qkv_added_next(const struct qkv_tokenizer *t, const char *text, size_t size, size_t from,
                                       enum qkv_added_pass pass, bool specials, size_t *begin) {
    for (size_t at = from; t->added_has[pass][specials] && at < size; at++) {
        const char *next = t->added_first >= 0 ? memchr(text + at, t->added_first, size - at) : text + at;
        if (!next) break;
        at = (size_t)(next - text);
        if (!t->added_begin[(unsigned char)text[at]]) continue;
        for (size_t i = 0; i < t->added_count; i++) {
            const struct qkv_added *added = &t->added[i];
            if (added->size > size - at || (added->special && !specials)) continue;
            if (pass != QKV_ADDED_ANY && added->normalized != (pass == QKV_ADDED_NORMALIZED)) continue;
            if (memcmp(text + at, qkv_token_bytes(t, (size_t)added->id), added->size) != 0) continue;
            *begin = at;
            return added;
        }
    }
    *begin = size;
    return NULL;
}

bool qkv_added_open(const struct qkv_tokenizer *t, const char *text, size_t size, size_t at) {
    if (!t->added_begin[(unsigned char)text[at]]) return false;
    for (size_t i = 0; i < t->added_count; i++) {
        const struct qkv_added *added = &t->added[i];
        if (added->size <= size - at) break; /* longest first: the rest is no longer than what is there */
        if (memcmp(text + at, qkv_token_bytes(t, (size_t)added->id), size - at) == 0) return true;
    }
    return false;
}
