/* Normalizers: each reads run->text and replaces it by its result. As in huggingface/tokenizers, src/normalizers. */
#include "text/chain.h"

#include <stdlib.h>
#include <string.h>

/* Writes one character; the loop swaps texts at the end. */
typedef enum qkv_status chain_visit(struct chain_run *r, const struct chain_link *link, uint32_t code, size_t bytes);

static enum qkv_status normal_each(struct chain_run *r, const struct chain_link *link, chain_visit *visit) {
    const char *text = r->text.bytes.data;
    const size_t size = r->text.bytes.size;
    enum qkv_status status = qkv_chain_begin(r);
    for (size_t at = 0; at < size && !status;) {
        const size_t begin = at;
        const uint32_t code = qkv_code_next(text, size, &at);
        status = visit(r, link, code, at - begin);
    }
    if (!status) qkv_chain_swap(r);
    return status;
}

/* ---- forms, case ------------------------------------------------------------------------------------------------- */

static enum qkv_status normal_nfc(struct chain_run *r, const struct chain_link *link) {
    (void)link;
    return qkv_chain_form(r, false, true);
}
static enum qkv_status normal_nfd(struct chain_run *r, const struct chain_link *link) {
    (void)link;
    return qkv_chain_form(r, false, false);
}
static enum qkv_status normal_nfkc(struct chain_run *r, const struct chain_link *link) {
    (void)link;
    return qkv_chain_form(r, true, true);
}
static enum qkv_status normal_nfkd(struct chain_run *r, const struct chain_link *link) {
    (void)link;
    return qkv_chain_form(r, true, false);
}

static enum qkv_status lower_visit(struct chain_run *r, const struct chain_link *link, uint32_t code, size_t bytes) {
    (void)link;
    (void)bytes;
    if (code < 0x80) return qkv_chain_put(r, code >= 'A' && code <= 'Z' ? code + 32 : code, 0);
    if (code != 0x130) return qkv_chain_put(r, qkv_code_lower(code), 0);
    enum qkv_status status = qkv_chain_put(r, 'i', 0);
    return status ? status : qkv_chain_put(r, 0x307, 1);
}

static enum qkv_status normal_lower(struct chain_run *r, const struct chain_link *link) {
    const char *text = r->text.bytes.data;
    size_t plain = 0;
    while (plain < r->text.bytes.size && (unsigned char)text[plain] < 0x80) plain++;
    if (plain < r->text.bytes.size) return normal_each(r, link, lower_visit);
    enum qkv_status status = qkv_chain_own(r);
    for (size_t i = 0; i < plain && !status; i++) /* no byte is added or removed */
        if (r->text.bytes.data[i] >= 'A' && r->text.bytes.data[i] <= 'Z') r->text.bytes.data[i] += 32;
    return status;
}

static enum qkv_status accents_visit(struct chain_run *r, const struct chain_link *link, uint32_t code, size_t bytes) {
    if (!qkv_code_is_mark(code, link->flags[0])) return qkv_chain_keep(r, bytes);
    qkv_chain_skip(r, bytes);
    return QKV_OK;
}

static enum qkv_status normal_accents(struct chain_run *r, const struct chain_link *link) {
    return normal_each(r, link, accents_visit);
}

/* ---- white space ------------------------------------------------------------------------------------------------- */

static enum qkv_status strip_read(struct chain_reader *r, const json_t *value, struct chain_link *link) {
    enum qkv_status status = qkv_chain_bool(r, value, "strip_left", true, &link->flags[0]);
    return status ? status : qkv_chain_bool(r, value, "strip_right", true, &link->flags[1]);
}

static enum qkv_status normal_strip(struct chain_run *r, const struct chain_link *link) {
    const char *text = r->text.bytes.data;
    const size_t size = r->text.bytes.size;
    size_t begin = size, end = 0;
    for (size_t at = 0; at < size;) {
        const size_t here = at;
        if (qkv_code_is_space(qkv_code_next(text, size, &at))) continue;
        if (begin == size) begin = here;
        end = at;
    }
    if (!link->flags[0]) begin = 0;
    if (!link->flags[1]) end = size;
    if (begin == 0 && end == size) return QKV_OK;
    enum qkv_status status = qkv_chain_begin(r);
    qkv_chain_skip(r, begin);
    if (!status && end > begin) status = qkv_chain_keep(r, end - begin);
    if (!status) qkv_chain_swap(r);
    return status;
}

static enum qkv_status nmt_visit(struct chain_run *r, const struct chain_link *link, uint32_t c, size_t bytes) {
    (void)link;
    if ((c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F) {
        qkv_chain_skip(r, bytes);
        return QKV_OK;
    }
    const bool blank = c == 9 || c == 10 || c == 12 || c == 13 || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
                       c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
    return blank ? qkv_chain_put(r, ' ', 0) : qkv_chain_keep(r, bytes);
}

static enum qkv_status normal_nmt(struct chain_run *r, const struct chain_link *link) {
    return normal_each(r, link, nmt_visit);
}

/* ---- BERT -------------------------------------------------------------------------------------------------------- */

enum { BERT_CLEAN, BERT_CHINESE, BERT_ACCENTS, BERT_LOWER };

static enum qkv_status bert_read(struct chain_reader *r, const json_t *value, struct chain_link *link) {
    enum qkv_status status = qkv_chain_bool(r, value, "clean_text", true, &link->flags[BERT_CLEAN]);
    if (!status) status = qkv_chain_bool(r, value, "handle_chinese_chars", true, &link->flags[BERT_CHINESE]);
    if (!status) status = qkv_chain_bool(r, value, "lowercase", true, &link->flags[BERT_LOWER]);
    return status ? status
                  : qkv_chain_bool(r, value, "strip_accents", link->flags[BERT_LOWER], &link->flags[BERT_ACCENTS]);
}

static bool bert_is_chinese(uint32_t c) {
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
           (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

static enum qkv_status bert_visit(struct chain_run *r, const struct chain_link *link, uint32_t code, size_t bytes) {
    if (link->flags[BERT_CLEAN]) {
        const bool blank = code == '\t' || code == '\n' || code == '\r';
        if (code == 0 || code == 0xFFFD || (!blank && qkv_code_is_other(code))) {
            qkv_chain_skip(r, bytes);
            return QKV_OK;
        }
        if (qkv_code_is_space(code)) return qkv_chain_put(r, ' ', 0);
    }
    if (!link->flags[BERT_CHINESE] || !bert_is_chinese(code)) return qkv_chain_keep(r, bytes);
    const struct chain_span from = qkv_chain_source(r, r->cursor);
    enum qkv_status status = qkv_chain_put_text(r, " ", 1, from);
    if (!status) status = qkv_chain_keep(r, bytes);
    return status ? status : qkv_chain_put_text(r, " ", 1, from);
}

/* ASCII characters: dropped (0), or copied, in lower case if the link says so. */
static enum qkv_status bert_plain(struct chain_run *r, const struct chain_link *link, bool *done) {
    const unsigned char *text = (const unsigned char *)r->text.bytes.data;
    const size_t size = r->text.bytes.size;
    *done = false;
    for (size_t i = 0; i < size; i++)
        if (text[i] >= 0x7F || (text[i] < ' ' && text[i] != '\n')) return QKV_OK;
    *done = true;
    if (!link->flags[BERT_CLEAN] && !link->flags[BERT_LOWER]) return QKV_OK;
    enum qkv_status status = qkv_chain_own(r);
    for (size_t i = 0; i < size && !status; i++) {
        unsigned char c = (unsigned char)r->text.bytes.data[i];
        if (c == '\n' && link->flags[BERT_CLEAN]) c = ' ';
        if (link->flags[BERT_LOWER] && c >= 'A' && c <= 'Z') c = (unsigned char)(c + 32);
        r->text.bytes.data[i] = (char)c;
    }
    return status;
}

static enum qkv_status normal_bert(struct chain_run *r, const struct chain_link *link) {
    bool done;
    enum qkv_status status = bert_plain(r, link, &done);
    if (status || done) return status;
    if (link->flags[BERT_CLEAN] || link->flags[BERT_CHINESE]) status = normal_each(r, link, bert_visit);
    if (!status && link->flags[BERT_ACCENTS]) {
        const struct chain_link marks = {.flags = {true}};
        status = qkv_chain_form(r, false, false);
        if (!status) status = normal_each(r, &marks, accents_visit);
    }
    return !status && link->flags[BERT_LOWER] ? normal_lower(r, link) : status;
}

/* ---- Replace, Prepend, bytes ------------------------------------------------------------------------------------- */

static enum qkv_status replace_read(struct chain_reader *r, const json_t *value, struct chain_link *link) {
    enum qkv_status status = qkv_chain_pattern(r, value, link);
    return status ? status : qkv_chain_string(r, value, "content", NULL, &link->text);
}

/* The replacement has the source of the last character that it replaces. */
static enum qkv_status normal_replace(struct chain_run *r, const struct chain_link *link) {
    struct chain_matches m;
    struct chain_match match;
    bool found;
    enum qkv_status status = qkv_chain_begin(r);
    if (!status) status = qkv_matches_start(r, link, r->text.bytes.data, r->text.bytes.size, &m);
    while (!status && !(status = qkv_matches_next(&m, &match, &found)) && found) {
        if (!match.matched) {
            status = qkv_chain_keep(r, match.end - match.begin);
            continue;
        }
        qkv_chain_skip(r, match.end - match.begin);
        status =
            qkv_chain_put_text(r, link->text, strlen(link->text), qkv_chain_source(r, match.end ? match.end - 1 : 0));
    }
    if (!status) qkv_chain_swap(r);
    return status;
}

static enum qkv_status prepend_read(struct chain_reader *r, const json_t *value, struct chain_link *link) {
    enum qkv_status status = qkv_chain_string(r, value, "prepend", NULL, &link->text);
    if (!status) link->size = strlen(link->text);
    return status;
}

static enum qkv_status normal_prepend(struct chain_run *r, const struct chain_link *link) {
    if (r->text.bytes.size == 0) return QKV_OK;
    enum qkv_status status = qkv_chain_begin(r);
    if (!status) status = qkv_chain_put_text(r, link->text, link->size, qkv_chain_source(r, 0));
    if (!status) status = qkv_chain_keep(r, r->text.bytes.size);
    if (!status) qkv_chain_swap(r);
    return status;
}

static enum qkv_status normal_bytes(struct chain_run *r, const struct chain_link *link) {
    (void)link;
    return qkv_chain_bytes(r);
}

const struct chain_kind qkv_chain_normalizers[] = {
    {"NFC", NULL, normal_nfc, NULL, false},
    {"NFD", NULL, normal_nfd, NULL, false},
    {"NFKC", NULL, normal_nfkc, NULL, false},
    {"NFKD", NULL, normal_nfkd, NULL, false},
    {"Lowercase", NULL, normal_lower, NULL, false},
    {"Strip", strip_read, normal_strip, NULL, false},
    {"StripAccents", NULL, normal_accents, NULL, false},
    {"BertNormalizer", bert_read, normal_bert, NULL, false},
    {"Replace", replace_read, normal_replace, NULL, false},
    {"Prepend", prepend_read, normal_prepend, NULL, false},
    {"ByteLevel", NULL, normal_bytes, NULL, false},
    {"Nmt", NULL, normal_nmt, NULL, false},
    {"Precompiled", qkv_charsmap_read, qkv_charsmap_run, NULL, false},
    {NULL, NULL, NULL, NULL, false},
};
