/* A model of SentencePiece as a tokenizer.json: the standard links that come nearest, as transformers converts such
 * models, and the keys of spm.h. */
#include <stdlib.h>
#include <string.h>

#include "text/spm.h"

static json_t *replace_link(const char *kind, const char *from, const char *to) {
    return json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", kind, from, "content", to);
}

json_t *qkv_base64_json(struct qkv_context *ctx, const unsigned char *bytes, size_t size) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = size / 3 < SIZE_MAX / 8 ? qkv_allocate(ctx, size / 3 * 4 + 5, 1) : NULL;
    for (size_t i = 0, at = 0; i < size && text; i += 3, at += 4) {
        const size_t n = qkv_min(3, size - i);
        const unsigned x =
            (unsigned)bytes[i] << 16 | (n > 1 ? (unsigned)bytes[i + 1] << 8 : 0) | (n > 2 ? bytes[i + 2] : 0);
        for (size_t k = 0; k < 4; k++) text[at + k] = k <= n ? digits[x >> (18 - 6 * k) & 63] : '=';
        text[at + 4] = 0;
    }
    json_t *out = text ? json_string(text) : NULL;
    free(text);
    return out;
}

/* ---- links ------------------------------------------------------------------------------------------------------- */

static json_t *spm_normalizer(struct qkv_context *ctx, const struct qkv_spm *m) {
    json_t *list = json_array();
    if (m->charsmap_size)
        json_array_append_new(list,
                              json_pack("{s:s, s:o?}", "type", "Precompiled", "precompiled_charsmap",
                                        qkv_base64_json(ctx, (const unsigned char *)m->charsmap, m->charsmap_size)));
    if (m->single_spaces) {
        json_array_append_new(list, json_pack("{s:s, s:b, s:b}", "type", "Strip", "strip_left",
                                              !m->unigram || !m->prefix, "strip_right", 1));
        json_array_append_new(list, replace_link("Regex", " {2,}", m->unigram && m->escapes ? QKV_SPM_MARK : " "));
    }
    const bool spaces = m->prefix && (!m->unigram || !m->single_spaces || !m->escapes);
    if (spaces)
        json_array_append_new(list,
                              json_pack("{s:s, s:s}", "type", "Prepend", "prepend", m->escapes ? QKV_SPM_MARK : " "));
    if (!m->unigram && m->escapes) json_array_append_new(list, replace_link("String", " ", QKV_SPM_MARK));
    return json_pack("{s:s, s:o?, s:{s:b, s:b, s:b}}", "type", "Sequence", "normalizers", list, QKV_SPM_KEY,
                     "add_dummy_prefix", m->prefix, "remove_extra_whitespaces", m->single_spaces, "escape_whitespaces",
                     m->escapes);
}

/* Normalizers of the family come first, with the model's own after them. */
static json_t *spm_normalizers(struct qkv_context *ctx, const struct qkv_spm *m, const struct qkv_spm_family *family) {
    json_t *own = spm_normalizer(ctx, m);
    if (!family->first) return own;
    json_t *list = json_copy(family->first);
    json_array_append_new(list, own);
    return json_pack("{s:s, s:o?}", "type", "Sequence", "normalizers", list);
}

static json_t *spm_splitter(const struct qkv_spm *m) {
    if (!m->unigram || !m->escapes) return json_null();
    const char *scheme = m->prefix && m->single_spaces ? "always" : "never";
    return json_pack("{s:s, s:[{s:s, s:s, s:s, s:b}], s:b}", "type", "Sequence", "pretokenizers", "type", "Metaspace",
                     "replacement", QKV_SPM_MARK, "prepend_scheme", scheme, "split", 1, QKV_SPM_KEY, 1);
}

static const struct qkv_spm_piece *spm_unknown(const struct qkv_spm *m) {
    for (size_t i = 0; i < m->count; i++)
        if (m->pieces[i].type == QKV_SPM_UNKNOWN) return &m->pieces[i];
    return NULL;
}

static json_t *piece_text(const struct qkv_spm_piece *p) {
    return p ? json_stringn(p->text, p->size) : json_null();
}

/* surface: the unknown token has one; else its own text, which is that of an added token. */
static json_t *spm_decoder(const struct qkv_spm *m, bool surface) {
    const bool strips = m->prefix || m->single_spaces;
    json_t *list = json_array();
    if (m->unigram && !m->byte_fallback) {
        json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "type", "Metaspace", "replacement", QKV_SPM_MARK,
                                              "prepend_scheme", strips ? "always" : "never"));
    } else {
        json_array_append_new(list, replace_link("String", QKV_SPM_MARK, " "));
        if (m->byte_fallback) json_array_append_new(list, json_pack("{s:s}", "type", "ByteFallback"));
        json_array_append_new(list, json_pack("{s:s}", "type", "Fuse"));
        if (strips)
            json_array_append_new(
                list, json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip", "content", " ", "start", 1, "stop", 0));
    }
    return json_pack("{s:s, s:o?, s:{s:b, s:b, s:b, s:o?, s:o?}}", "type", "Sequence", "decoders", list, QKV_SPM_KEY,
                     "add_dummy_prefix", m->prefix, "remove_extra_whitespaces", m->single_spaces, "byte_fallback",
                     m->byte_fallback, "unk_piece", surface ? piece_text(spm_unknown(m)) : json_null(), "unk_surface",
                     json_stringn(m->unknown_surface, m->unknown_surface_size));
}

/* ---- the model --------------------------------------------------------------------------------------------------- */

static json_t *spm_types(struct qkv_context *ctx, const struct qkv_spm *m) {
    char *text = qkv_allocate(ctx, m->count + 1, 1);
    for (size_t i = 0; text && i < m->count; i++) text[i] = (char)('0' + (int)m->pieces[i].type);
    json_t *out = text ? json_string(text) : NULL;
    free(text);
    return out;
}

static bool piece_joins(const struct qkv_spm_piece *p) {
    return p->type == QKV_SPM_NORMAL || p->type == QKV_SPM_USER || p->type == QKV_SPM_UNUSED;
}

/* Merges are those of tokens, so a character that pieces are made of must be one too. */
static enum qkv_status spm_check_characters(struct qkv_context *ctx, const struct qkv_spm *m) {
    struct qkv_strings known = {0};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < m->count && !status; i++) {
        if (!piece_joins(&m->pieces[i])) continue;
        if (!qkv_strings_add(ctx, &known, m->pieces[i].text, m->pieces[i].size)) status = QKV_MEMORY;
    }
    for (size_t i = 0; i < m->count && !status; i++) {
        const struct qkv_spm_piece *p = &m->pieces[i];
        for (size_t at = 0, next; at < p->size && p->type == QKV_SPM_NORMAL && !status; at = next) {
            next = at + 1;
            while (next < p->size && ((unsigned char)p->text[next] & 0xC0) == 0x80) next++;
            if (qkv_strings_find(&known, p->text + at, next - at)) continue;
            const bool first = at == 0, last = next == p->size;
            const bool used = (first && qkv_strings_find(&known, p->text + next, p->size - next)) ||
                              (last && qkv_strings_find(&known, p->text, at));
            if (!used) continue;
            status = qkv_fail(ctx, QKV_FORMAT,
                              "%s: piece %zu, \"%.*s\", has the character \"%.*s\", which is no piece; such a model is "
                              "not read",
                              m->name, i, (int)qkv_min(p->size, 60), p->text, (int)(next - at), p->text + at);
        }
    }
    qkv_strings_free(&known);
    return status;
}

static enum qkv_status spm_bpe(struct qkv_context *ctx, const struct qkv_spm *m, json_t **out) {
    struct qkv_scored *tokens = qkv_allocate(ctx, m->count, sizeof *tokens);
    json_t *vocab = json_object(), *merges = NULL, *groups = NULL;
    enum qkv_status status = !tokens || !vocab ? QKV_MEMORY : m->characters ? QKV_OK : spm_check_characters(ctx, m);
    for (size_t i = 0; i < m->count && !status; i++) {
        const struct qkv_spm_piece *p = &m->pieces[i];
        tokens[i] = (struct qkv_scored){p->text, p->size, p->score, piece_joins(p) && !m->characters};
        json_t *key = piece_text(p);
        if (!key || json_object_set_new(vocab, json_string_value(key), json_integer((json_int_t)i)))
            status = qkv_fail_memory(ctx, 0, "a vocabulary");
        json_decref(key);
    }
    if (!status) status = qkv_scored_merges(ctx, tokens, m->count, &merges, &groups);
    free(tokens);
    if (status) {
        json_decref(vocab);
        return status;
    }
    *out = json_pack("{s:s, s:n, s:o?, s:b, s:b, s:o, s:o, s:o, s:o?}", "type", "BPE", "dropout", "unk_token",
                     piece_text(spm_unknown(m)), "fuse_unk", 1, "byte_fallback", m->byte_fallback, "vocab", vocab,
                     "merges", merges, "merge_groups", groups, "piece_types", spm_types(ctx, m));
    return QKV_OK;
}

static enum qkv_status spm_unigram(struct qkv_context *ctx, const struct qkv_spm *m, json_t **out) {
    const struct qkv_spm_piece *unknown = spm_unknown(m);
    json_t *vocab = json_array();
    for (size_t i = 0; i < m->count; i++)
        json_array_append_new(vocab, json_pack("[o?, f]", piece_text(&m->pieces[i]), (double)m->pieces[i].score));
    *out = json_pack("{s:s, s:o?, s:o?, s:b, s:o?}", "type", "Unigram", "unk_id",
                     unknown ? json_integer((json_int_t)(unknown - m->pieces)) : json_null(), "vocab", vocab,
                     "byte_fallback", m->byte_fallback, "piece_types", spm_types(ctx, m));
    return json_array_size(vocab) == m->count ? QKV_OK : qkv_fail_memory(ctx, 0, "a vocabulary");
}

/* ---- special tokens ---------------------------------------------------------------------------------------------- */

static json_t *spm_added(const struct qkv_spm *m, const struct qkv_spm_family *family) {
    json_t *list = json_array(), *more;
    size_t i;
    for (i = 0; i < m->count; i++) {
        const struct qkv_spm_piece *p = &m->pieces[i];
        const bool special = p->type == QKV_SPM_CONTROL || (p->type == QKV_SPM_UNKNOWN && family->unknown_special);
        const bool mask = family->mask && p->size == strlen(family->mask) && !memcmp(p->text, family->mask, p->size);
        if (!special && p->type != QKV_SPM_USER) continue;
        json_array_append_new(list, json_pack("{s:I, s:o?, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)i, "content",
                                              piece_text(p), "single_word", 0, "lstrip", mask, "rstrip", 0,
                                              "normalized", 0, "special", special));
    }
    json_array_foreach(family->added, i, more) json_array_append(list, more);
    return list;
}

json_int_t qkv_spm_id(const struct qkv_spm *m, const char *text) {
    for (size_t i = 0; i < m->count; i++)
        if (m->pieces[i].size == strlen(text) && !memcmp(m->pieces[i].text, text, m->pieces[i].size))
            return (json_int_t)i;
    return -1;
}

/* Adds a special token to a template, and to the list of those that it uses. */
static void spm_around(const struct qkv_spm *m, json_t *list, json_t *specials, const char *text) {
    const json_int_t id = text ? qkv_spm_id(m, text) : -1;
    if (id < 0) return;
    json_array_append_new(list, json_pack("{s:{s:s, s:i}}", "SpecialToken", "id", text, "type_id", 0));
    json_object_set_new(specials, text, json_pack("{s:s, s:[I], s:[s]}", "id", text, "ids", id, "tokens", text));
}

static json_t *spm_template(const struct qkv_spm *m, const struct qkv_spm_family *family) {
    json_t *single = json_array(), *pair = json_array(), *specials = json_object();
    for (int k = 0; k < 2; k++) {
        json_t *list = k ? pair : single;
        spm_around(m, list, specials, family->before);
        json_array_append_new(list, json_pack("{s:{s:s, s:i}}", "Sequence", "id", "A", "type_id", 0));
        spm_around(m, list, specials, family->after);
        if (!k) continue;
        if (family->before && family->after && !strcmp(family->before, "<s>"))
            spm_around(m, list, specials, family->after); /* RoBERTa has two between the texts of a pair */
        else if (family->before && !family->after)
            spm_around(m, list, specials, family->before);
        const int type = family->before && *family->before == '[';
        json_array_append_new(list, json_pack("{s:{s:s, s:i}}", "Sequence", "id", "B", "type_id", type));
        spm_around(m, list, specials, family->after);
    }
    if (json_object_size(specials))
        return json_pack("{s:s, s:o, s:o, s:o}", "type", "TemplateProcessing", "single", single, "pair", pair,
                         "special_tokens", specials);
    json_decref(single);
    json_decref(pair);
    json_decref(specials);
    return json_null();
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

enum qkv_status qkv_spm_json(struct qkv_context *ctx, const struct qkv_spm *m, const struct qkv_spm_family *family,
                             json_t **root) {
    const struct qkv_spm_family none = {0};
    json_t *model = NULL;
    if (!family) family = &none;
    *root = NULL;
    enum qkv_status status = m->unigram ? spm_unigram(ctx, m, &model) : spm_bpe(ctx, m, &model);
    if (!status)
        *root = json_pack("{s:s, s:n, s:n, s:o?, s:o?, s:o?, s:o?, s:o?, s:o?}", "version", "1.0", "truncation",
                          "padding", "added_tokens", spm_added(m, family), "normalizer",
                          spm_normalizers(ctx, m, family), "pre_tokenizer", spm_splitter(m), "post_processor",
                          spm_template(m, family), "decoder", spm_decoder(m, !family->unknown_special), "model", model);
    else
        json_decref(model);
    return !status && !*root ? qkv_fail_memory(ctx, 0, "a vocabulary") : status;
}
