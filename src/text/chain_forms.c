/* The four normal forms (Unicode Standard Annex 15) of a text with its source, as the crate
 * unicode-normalization-alignments makes them: the parts of a decomposed character share its source, a composed
 * character has the source of its first part. utf8proc has the tables. */
#include "text/chain.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

struct form_mark {
    uint32_t code;
    int change, class;
    size_t place;
};
struct form {
    struct chain_run *run;
    struct form_mark *at; /* a starter and the marks after it */
    size_t count, capacity;
};

static int form_class(uint32_t code) {
    return code < 0x300 || code >= QKV_CODE_BYTE ? 0
                                                 : (int)utf8proc_get_property((utf8proc_int32_t)code)->combining_class;
}

/* The composition of two characters; 0: there is none. */
static uint32_t form_pair(uint32_t a, uint32_t b) {
    if (b < 0x300 || (b >= 0x3400 && b < 0x10000) || qkv_max(a, b) >= QKV_CODE_BYTE) return 0;
    utf8proc_int32_t pair[4] = {(utf8proc_int32_t)a, (utf8proc_int32_t)b};
    const utf8proc_ssize_t n = utf8proc_normalize_utf32(pair, 2, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    return n == 1 ? (uint32_t)pair[0] : 0;
}

static int form_by_class(const void *left, const void *right) {
    const struct form_mark *a = left, *b = right;
    if (a->class != b->class) return a->class < b->class ? -1 : 1;
    return a->place < b->place ? -1 : a->place > b->place;
}

static enum qkv_status form_put(struct form *f, const struct form_mark *m) {
    return qkv_chain_put(f->run, m->code, m->change);
}

/* Sorts the marks after a starter, composes, and writes all but a last starter, which may compose with the next
 * character. */
static enum qkv_status form_write(struct form *f, bool compose) {
    size_t left = 0;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < f->count; i++) f->at[i].place = i;
    for (size_t i = 0; i < f->count;) { /* runs of marks */
        size_t end = i + 1;
        if (f->at[i].class)
            while (end < f->count && f->at[end].class) end++;
        if (end - i > 1) qsort(f->at + i, end - i, sizeof *f->at, form_by_class);
        i = end;
    }
    if (compose && f->count && f->at[0].class == 0) {
        int last = -1; /* class of the last mark that was not composed */
        left = 1;
        for (size_t i = 1; i < f->count; i++) {
            const struct form_mark m = f->at[i];
            const uint32_t one = last < 0 || last < m.class ? form_pair(f->at[0].code, m.code) : 0;
            if (one) {
                f->at[0].code = one;
                f->at[0].change += m.change - 1;
                continue;
            }
            last = m.class;
            f->at[left++] = m;
        }
        f->count = left;
    }
    for (size_t i = 0; i < f->count && !status; i++) status = form_put(f, &f->at[i]);
    f->count = 0;
    return status;
}

static enum qkv_status form_add(struct form *f, uint32_t code, int change, bool compose) {
    const int class = form_class(code);
    enum qkv_status status = QKV_OK;
    if (class == 0 && f->count) {
        /* A starter composes with a starter directly before it (Hangul, some Indic vowels). */
        const bool joins = compose && f->count == 1 && f->at[0].class == 0;
        const uint32_t one = joins ? form_pair(f->at[0].code, code) : 0;
        if (one) {
            f->at[0].code = one;
            f->at[0].change += change - 1;
            return QKV_OK;
        }
        /* It also composes if all marks between the two have composed. */
        if (compose && f->count > 1 && f->at[0].class == 0) {
            struct form_mark next = {code, change, 0, 0};
            size_t kept = 0;
            int last = -1;
            for (size_t i = 0; i < f->count; i++) f->at[i].place = i;
            qsort(f->at + 1, f->count - 1, sizeof *f->at, form_by_class);
            for (size_t i = 1; i < f->count; i++) {
                const uint32_t pair = last < 0 || last < f->at[i].class ? form_pair(f->at[0].code, f->at[i].code) : 0;
                if (pair) {
                    f->at[0].code = pair;
                    f->at[0].change += f->at[i].change - 1;
                    continue;
                }
                last = f->at[i].class;
                f->at[++kept] = f->at[i];
            }
            f->count = kept + 1;
            if (kept == 0 && form_pair(f->at[0].code, next.code)) return form_add(f, code, change, compose);
            for (size_t i = 0; i < f->count && !status; i++) status = form_put(f, &f->at[i]);
            f->count = 0;
        } else {
            status = form_write(f, compose);
        }
    }
    if (status) return status;
    struct form_mark *at = qkv_list_room(f->run->ctx, f->at, &f->capacity, f->count, 1, sizeof *at);
    if (!at) return QKV_MEMORY;
    f->at = at;
    f->at[f->count++] = (struct form_mark){code, change, class, 0};
    return QKV_OK;
}

/* The end of the characters from `at` on that stay as they are: those below U+0300 are their own composed form, and
 * none of them composes with a character before it. The last one may take a mark after it, and is left to the
 * caller. */
static size_t form_plain(const char *text, size_t size, size_t at, bool composed) {
    const unsigned char limit = composed ? 0xCC : 0x80;
    size_t end = at;
    while (end < size && (unsigned char)text[end] < limit) end++;
    if (end == size || end == at) return end;
    end--;
    while (end > at && ((unsigned char)text[end] & 0xC0) == 0x80) end--;
    return end;
}

static enum qkv_status form_decompose(struct form *f, uint32_t code, bool compatible, bool compose) {
    utf8proc_int32_t parts[32];
    if (code < 0x80 || code >= QKV_CODE_BYTE || qkv_code_is_whole(code)) return form_add(f, code, 0, compose);
    const int options = (int)UTF8PROC_DECOMPOSE | (compatible ? (int)UTF8PROC_COMPAT : 0);
    int last = 0;
    utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)code, parts, 32, (utf8proc_option_t)options, &last);
    if (n < 1 || n > 32) {
        parts[0] = (utf8proc_int32_t)code;
        n = 1;
    }
    enum qkv_status status = QKV_OK;
    for (utf8proc_ssize_t i = 0; i < n && !status; i++) status = form_add(f, (uint32_t)parts[i], i > 0, compose);
    return status;
}

enum qkv_status qkv_chain_form(struct chain_run *r, bool compatible, bool compose) {
    const char *text = r->text.bytes.data;
    const size_t size = r->text.bytes.size;
    const bool composed = compose && !compatible;
    if (form_plain(text, size, 0, composed) == size) return QKV_OK;
    struct form f = {.run = r};
    enum qkv_status status = qkv_chain_begin(r);
    for (size_t at = 0; at < size && !status;) {
        const size_t plain = form_plain(text, size, at, composed);
        if (plain > at) {
            status = form_write(&f, compose);
            if (!status) status = qkv_chain_keep(r, plain - at);
            at = plain;
        }
        if (status || at == size) continue;
        const uint32_t code = qkv_code_next(text, size, &at);
        status = form_decompose(&f, code, compatible, compose);
    }
    if (!status) status = form_write(&f, compose);
    free(f.at);
    if (!status) qkv_chain_swap(r);
    return status;
}
