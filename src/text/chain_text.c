/* Characters and their classes, and texts whose bytes have a source (tokenizers' NormalizedString). */
#include "text/chain.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "text/unicode_ranges.h"

bool qkv_code_is_space(uint32_t c) {
    if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

static bool text_in(uint32_t code, const struct unicode_range *list, size_t count) {
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (code > list[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && code >= list[low].first;
}

bool qkv_code_is_mark(uint32_t code, bool nonspacing_only) {
    if (code < 0x300) return false;
    return nonspacing_only ? text_in(code, qkv_unicode_nonspacing, qkv_unicode_nonspacing_count)
                           : text_in(code, qkv_unicode_mark, qkv_unicode_mark_count);
}

bool qkv_code_is_number(uint32_t code) {
    if (code < 0x80) return code >= '0' && code <= '9';
    return text_in(code, qkv_unicode_number, qkv_unicode_number_count);
}

bool qkv_code_is_punctuation(uint32_t code) {
    if (code < 0x80)
        return (code >= 33 && code <= 47) || (code >= 58 && code <= 64) || (code >= 91 && code <= 96) ||
               (code >= 123 && code <= 126);
    return text_in(code, qkv_unicode_punctuation, qkv_unicode_punctuation_count);
}

bool qkv_code_is_other(uint32_t code) {
    if (code < 0x80) return code < 32 || code == 127;
    return text_in(code, qkv_unicode_other, qkv_unicode_other_count);
}

int qkv_code_script(uint32_t code) {
    size_t low = 0, high = qkv_unicode_scripts_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (code > qkv_unicode_scripts[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    const struct unicode_script *found = &qkv_unicode_scripts[low];
    return low < qkv_unicode_scripts_count && code >= found->first ? found->script : -1;
}

uint32_t qkv_code_lower(uint32_t code) {
    for (size_t i = 0; code >= 0x1C80 && i < qkv_unicode_lower_count; i++)
        if (qkv_unicode_lower[i].code == code) return qkv_unicode_lower[i].lower;
    return (uint32_t)utf8proc_tolower((utf8proc_int32_t)code);
}

bool qkv_code_is_whole(uint32_t code) {
    return code >= 0x3000 && text_in(code, qkv_unicode_whole, qkv_unicode_whole_count);
}

/* Letters, marks, decimal digits, connectors and joiners, and the alphabetic characters that are none of these: circled
 * and squared letters. */
bool qkv_code_is_word(uint32_t code) {
    if (code < 0x80)
        return (code >= '0' && code <= '9') || (code >= 'A' && code <= 'Z') || code == '_' ||
               (code >= 'a' && code <= 'z');
    const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)code);
    if (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_NL) return true; /* letters, marks, Nd, Nl */
    return c == UTF8PROC_CATEGORY_PC || code == 0x200C || code == 0x200D || (code >= 0x24B6 && code <= 0x24E9) ||
           (code >= 0x1F130 && code <= 0x1F149) || (code >= 0x1F150 && code <= 0x1F169) ||
           (code >= 0x1F170 && code <= 0x1F189);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

enum qkv_status qkv_chain_begin(struct chain_run *r) {
    r->next.bytes.size = 0;
    r->cursor = 0;
    return QKV_OK;
}

/* The place in the source of the character around byte `at` of a view. A byte that is not UTF-8 stands alone. */
static struct chain_span text_view_source(const struct chain_text *t, size_t at) {
    const char *s = t->bytes.data;
    size_t begin = at;
    while (begin > 0 && at - begin < 3 && ((unsigned char)s[begin] & 0xC0) == 0x80) begin--;
    int n = qkv_utf8_scan(s + begin, t->bytes.size - begin, &(uint32_t){0});
    if (n <= 0 || begin + (size_t)n <= at) {
        begin = at;
        n = 1;
    }
    return (struct chain_span){(uint32_t)(t->from + begin), (uint32_t)(t->from + begin + (size_t)n)};
}

struct chain_span qkv_chain_source(const struct chain_run *r, size_t at) {
    if (!r->mapped || r->text.bytes.size == 0) return (struct chain_span){0, 0};
    at = qkv_min(at, r->text.bytes.size - 1);
    return r->text.view ? text_view_source(&r->text, at) : r->text.map[at];
}

static enum qkv_status text_map_room(struct chain_run *r, size_t more) {
    struct chain_span *map =
        qkv_list_room(r->ctx, r->next.map, &r->next.map_capacity, r->next.bytes.size, more, sizeof *map);
    if (!map) return QKV_MEMORY;
    r->next.map = map;
    return QKV_OK;
}

enum qkv_status qkv_chain_put_text(struct chain_run *r, const char *text, size_t size, struct chain_span from) {
    if (size > r->max_size || r->next.bytes.size > r->max_size - size)
        return qkv_fail(r->ctx, QKV_FORMAT,
                        "the normalizers of the tokenizer make more than a thousand bytes from each byte of a text");
    if (r->mapped) {
        enum qkv_status status = text_map_room(r, size);
        if (status) return status;
        for (size_t i = 0; i < size; i++) r->next.map[r->next.bytes.size + i] = from;
    }
    return qkv_buffer_append(r->ctx, &r->next.bytes, text, size);
}

static size_t text_character(const struct chain_run *r, size_t at) {
    const size_t begin = at;
    if (at < r->text.bytes.size) qkv_code_next(r->text.bytes.data, r->text.bytes.size, &at);
    return at - begin;
}

enum qkv_status qkv_chain_put(struct chain_run *r, uint32_t code, int change) {
    char bytes[4];
    const size_t at = r->cursor, size = code < QKV_CODE_BYTE ? qkv_utf8_write(code, bytes) : 1;
    if (code >= QKV_CODE_BYTE) bytes[0] = (char)(code - QKV_CODE_BYTE);
    struct chain_span from = change > 0 ? qkv_chain_source(r, at ? at - 1 : 0) : qkv_chain_source(r, at);
    if (change > 0 && at == 0) from.end = from.begin;
    if (change <= 0) r->cursor += text_character(r, r->cursor);
    for (; change < 0; change++) r->cursor += text_character(r, r->cursor);
    return qkv_chain_put_text(r, bytes, size, from);
}

enum qkv_status qkv_chain_keep(struct chain_run *r, size_t bytes) {
    if (bytes == 0) return QKV_OK;
    if (r->mapped) {
        enum qkv_status status = text_map_room(r, bytes);
        if (status) return status;
        struct chain_span *map = r->next.map + r->next.bytes.size;
        if (!r->text.view) memcpy(map, r->text.map + r->cursor, bytes * sizeof *map);
        for (size_t i = 0, n; r->text.view && i < bytes; i += n) {
            const struct chain_span from = text_view_source(&r->text, r->cursor + i);
            for (n = 0; n < from.end - from.begin && i + n < bytes; n++) map[i + n] = from;
        }
    }
    enum qkv_status status = qkv_buffer_append(r->ctx, &r->next.bytes, r->text.bytes.data + r->cursor, bytes);
    r->cursor += bytes;
    return status;
}

void qkv_chain_skip(struct chain_run *r, size_t bytes) {
    r->cursor += bytes;
}

void qkv_chain_swap(struct chain_run *r) {
    const struct chain_text text = r->text;
    r->text = r->next;
    r->next = text.view ? r->spare : text;
    if (text.view) r->spare = (struct chain_text){0};
}

void qkv_chain_load(struct chain_run *r, const char *source, size_t begin, size_t end) {
    if (!r->text.view) r->spare = r->text;
    r->text = (struct chain_text){.view = true, .from = begin};
    r->text.bytes.data = (char *)(uintptr_t)(source + begin); /* read only */
    r->text.bytes.size = end - begin;
    r->max_size = qkv_chain_max_size(end - begin);
}

enum qkv_status qkv_chain_own(struct chain_run *r) {
    if (!r->text.view) return QKV_OK;
    enum qkv_status status = qkv_chain_begin(r);
    if (!status) status = qkv_chain_keep(r, r->text.bytes.size);
    if (!status) qkv_chain_swap(r);
    return status;
}

/* ---- the result -------------------------------------------------------------------------------------------------- */

enum qkv_status qkv_chain_room(struct chain_run *r, size_t more) {
    if (r->ids && more <= r->capacity - r->count) return QKV_OK;
    size_t capacity = r->capacity, spans = r->capacity;
    int32_t *ids = qkv_list_room(r->ctx, r->ids, &capacity, r->count, more, sizeof *ids);
    if (!ids) return QKV_MEMORY;
    r->ids = ids;
    if (r->spanned) {
        struct chain_span *at = qkv_list_room(r->ctx, r->spans, &spans, r->count, more, sizeof *at);
        if (!at) return QKV_MEMORY;
        r->spans = at;
        capacity = qkv_min(capacity, spans);
    }
    r->capacity = capacity;
    return QKV_OK;
}
