/* Characters of texts, and cases of letters, as Python has them. */
#include "chat/chat.h"

#include <string.h>

#include <utf8proc.h>

#include "base/utf8.h"

size_t qkv_chat_characters(const char *text, size_t size) {
    size_t n = 0;
    for (size_t i = 0; i < size; i++) n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

size_t qkv_chat_offset(const char *text, size_t size, size_t character) {
    size_t at = 0;
    for (; character && at < size; character--) {
        at++;
        while (at < size && ((unsigned char)text[at] & 0xc0) == 0x80) at++;
    }
    return at;
}

uint32_t qkv_chat_character(const char *text, size_t size, size_t *at) {
    uint32_t code = 0xfffd;
    if (*at < size && (unsigned char)text[*at] < 0x80) return (unsigned char)text[(*at)++];
    const int n = *at < size ? qkv_utf8_scan(text + *at, size - *at, &code) : 0;
    *at += n > 0 ? (size_t)n : 1;
    return n > 0 ? code : 0xfffd;
}

bool qkv_chat_is_space(uint32_t code) {
    if (code < 0x80) return (code >= 9 && code <= 13) || (code >= 28 && code <= 32);
    return code == 0x85 || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 ||
           code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

bool qkv_chat_is_word(uint32_t code) {
    if (code < 0x80)
        return (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z') || (code >= '0' && code <= '9') ||
               code == '_';
    switch (utf8proc_category((utf8proc_int32_t)code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return true;
    default:
        return false;
    }
}

bool qkv_chat_is_printable(uint32_t code) {
    if (code == ' ') return true;
    switch (utf8proc_category((utf8proc_int32_t)code)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
        return false;
    default:
        return true;
    }
}

size_t qkv_chat_space_before(const char *text, size_t size) {
    size_t at = 0, next = 0;
    while (next < size && qkv_chat_is_space(qkv_chat_character(text, size, &next))) at = next;
    return at;
}

size_t qkv_chat_space_after(const char *text, size_t size) {
    size_t end = size;
    while (end) {
        size_t at = end - 1;
        while (at && ((unsigned char)text[at] & 0xc0) == 0x80) at--;
        size_t next = at;
        if (!qkv_chat_is_space(qkv_chat_character(text, end, &next))) break;
        end = at;
    }
    return size - end;
}

size_t qkv_chat_search(const char *text, size_t size, const char *part, size_t part_size, size_t at) {
    if (at > size || part_size > size) return size + 1;
    if (!part_size) return at;
    const char *found = memmem(text + at, size - at, part, part_size); /* in linear time */
    return found ? (size_t)(found - text) : size + 1;
}

bool qkv_chat_next_line(const char *text, size_t size, size_t *at, size_t *begin, size_t *end) {
    if (*at >= size) return false;
    *begin = *end = *at;
    while (*at < size) {
        *end = *at;
        const uint32_t code = qkv_chat_character(text, size, at);
        if (code == '\r' && *at < size && text[*at] == '\n') ++*at;
        if ((code >= 10 && code <= 13) || (code >= 0x1c && code <= 0x1e) || code == 0x85 || code == 0x2028 ||
            code == 0x2029)
            return true;
    }
    *end = size;
    return true;
}

/* ---- cases ------------------------------------------------------------------------------------------------------- */

/* Letters of living languages whose upper case is several letters. (The Greek ones with iota and accents are not here:
 * they stay.) */
static const struct {
    uint32_t code;
    const char *upper, *title;
} specials[] = {
    {0xdf, "SS", "Ss"},     {0x149, "ʼN", "ʼN"},  {0x1f0, "J̌", "J̌"},    {0x587, "ԵՒ", "Եւ"},
    {0xfb00, "FF", "Ff"},   {0xfb01, "FI", "Fi"}, {0xfb02, "FL", "Fl"}, {0xfb03, "FFI", "Ffi"},
    {0xfb04, "FFL", "Ffl"}, {0xfb05, "ST", "St"}, {0xfb06, "ST", "St"},
};

static enum qkv_status text_put_upper(struct chat_run *run, uint32_t code, bool title) {
    for (size_t i = 0; code > 0x7f && i < sizeof specials / sizeof *specials; i++)
        if (specials[i].code == code) return qkv_chat_puts(run, title ? specials[i].title : specials[i].upper);
    const utf8proc_int32_t c = (utf8proc_int32_t)code;
    return qkv_chat_put_code(run, (uint32_t)(title ? utf8proc_totitle(c) : utf8proc_toupper(c)));
}

static bool text_is_cased(uint32_t code) {
    const utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)code);
    return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL || category == UTF8PROC_CATEGORY_LT;
}

/* The character at `at`, whose end is `next`; a sigma at the end of a word is ς. */
static enum qkv_status text_put_lower(struct chat_run *run, const char *text, size_t size, uint32_t code, bool inside,
                                      size_t next) {
    if (code == 0x130) return qkv_chat_puts(run, "i̇");
    if (code == 0x3a3 && inside) {
        size_t behind = next;
        if (next >= size || !text_is_cased(qkv_chat_character(text, size, &behind)))
            return qkv_chat_put_code(run, 0x3c2);
    }
    return qkv_chat_put_code(run, (uint32_t)utf8proc_tolower((utf8proc_int32_t)code));
}

/* A text in ASCII whose case changes byte by byte. */
static bool text_is_plain(enum chat_case form, const char *text, size_t size) {
    if (form != CHAT_UPPER && form != CHAT_LOWER && form != CHAT_FOLD) return false;
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)text[i] >= 0x80) return false;
    return true;
}

static enum qkv_status text_put_plain(struct chat_run *run, bool upper, const char *text, size_t size) {
    const size_t mark = run->text.size;
    enum qkv_status status = qkv_chat_put(run, text, size);
    for (size_t i = mark; i < run->text.size && !status; i++) {
        char *c = &run->text.data[i];
        if (upper && *c >= 'a' && *c <= 'z') *c = (char)(*c - 32);
        if (!upper && *c >= 'A' && *c <= 'Z') *c = (char)(*c + 32);
    }
    return status;
}

static enum qkv_status text_put_fold(struct chat_run *run, uint32_t code) {
    utf8proc_int32_t folded[8];
    int class = 0;
    const utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)code, folded, 8, UTF8PROC_CASEFOLD, &class);
    enum qkv_status status = QKV_OK;
    if (n < 0 || n > 8) return qkv_chat_put_code(run, code);
    for (utf8proc_ssize_t i = 0; i < n && !status; i++) status = qkv_chat_put_code(run, (uint32_t)folded[i]);
    return status;
}

enum qkv_status qkv_chat_put_case(struct chat_run *run, enum chat_case form, const char *text, size_t size) {
    enum qkv_status status = QKV_OK;
    bool inside = false; /* behind a letter with a case */
    if (text_is_plain(form, text, size)) return text_put_plain(run, form == CHAT_UPPER, text, size);
    for (size_t at = 0; at < size && !status;) {
        const bool first = at == 0;
        const uint32_t code = qkv_chat_character(text, size, &at);
        const bool begins = form == CHAT_TITLE ? !inside : first;
        const bool lower = utf8proc_islower((utf8proc_int32_t)code) != 0;
        if (form == CHAT_FOLD)
            status = text_put_fold(run, code);
        else if (form == CHAT_UPPER || (form == CHAT_SWAP && lower))
            status = text_put_upper(run, code, false);
        else if ((form == CHAT_TITLE || form == CHAT_CAPITALIZE) && begins)
            status = text_put_upper(run, code, true);
        else
            status = text_put_lower(run, text, size, code, inside, at);
        inside = text_is_cased(code);
    }
    return status;
}
