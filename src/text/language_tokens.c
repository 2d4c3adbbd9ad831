/* Languages that a tokenizer has added tokens for, as models that translate between several have them: __en__ (M2M100),
 * eng_Latn (NLLB), en_XX (mBART), and >>fra<<, which tells a model of one source language the target (Marian); and the
 * languages that a folder names. */
#include "text/chain.h"

#include <string.h>

static bool is_lower(char c) {
    return c >= 'a' && c <= 'z';
}

static bool is_upper(char c) {
    return c >= 'A' && c <= 'Z';
}

static size_t run_of(const char *text, size_t size, bool (*is)(char)) {
    size_t n = 0;
    while (n < size && is(text[n])) n++;
    return n;
}

/* Whether a code is 2 or 3 small letters. */
static bool is_plain(const char *code, size_t size) {
    return (size == 2 || size == 3) && run_of(code, size, is_lower) == size;
}

/* Whether it has a region, en_XX, or a script, eng_Latn. */
static bool is_region(const char *code, size_t size) {
    return size == 5 && is_plain(code, 2) && code[2] == '_' && run_of(code + 3, 2, is_upper) == 2;
}

static bool is_script(const char *code, size_t size) {
    return size == 8 && is_plain(code, 3) && code[3] == '_' && is_upper(code[4]) && run_of(code + 5, 3, is_lower) == 3;
}

/* The code between two signs of two bytes each; 0: there is none. */
static size_t code_between(const char *text, size_t size, const char *before, const char *after) {
    const bool is = size > 4 && !memcmp(text, before, 2) && !memcmp(text + size - 2, after, 2);
    return is && size - 4 < QKV_LANGUAGE_TEXT ? size - 4 : 0;
}

static bool language_read(const char *text, size_t size, struct qkv_language *out) {
    const size_t named = code_between(text, size, "__", "__"), target = code_between(text, size, ">>", "<<");
    out->token = text, out->token_size = size;
    out->targets_only = target > 0;
    out->code = text + (named || target ? 2 : 0);
    out->size = named ? named : target ? target : size;
    if (target) return run_of(out->code, 1, is_lower) == 1;
    return named ? is_plain(out->code, out->size) : is_region(text, size) || is_script(text, size);
}

/* Tokens with a role, as __unk__ and __end__ of Blenderbot-small, are no languages. */
static bool has_role(const struct qkv_tokenizer *t, int32_t id) {
    for (int role = 0; role < QKV_TOKEN_ROLES; role++)
        if (qkv_tokenizer_role(t, (enum qkv_token_role)role) == id) return true;
    return false;
}

bool qkv_language_of(const struct qkv_tokenizer *t, int32_t id, struct qkv_language *out) {
    size_t size = 0;
    const char *text = qkv_tokenizer_token(t, id, &size);
    if (!text || !t->tokens[id].added || !language_read(text, size, out) || has_role(t, id)) return false;
    out->id = id;
    return true;
}

bool qkv_language_next(const struct qkv_tokenizer *t, size_t *at, struct qkv_language *out) {
    while (t && *at < t->chain->added_count)
        if (qkv_language_of(t, t->chain->added[(*at)++].id, out)) return true;
    return false;
}

/* ---- names of languages ------------------------------------------------------------------------------------------ */

static char code_fold(char c) {
    if (is_upper(c)) return (char)(c - 'A' + 'a');
    return c == '-' ? '_' : c;
}

bool qkv_language_is(const char *name, const char *code, size_t size, bool part) {
    size_t n = 0;
    while (n < size && name[n] && code_fold(name[n]) == code_fold(code[n])) n++;
    return !name[n] && (n == size || (part && n && code_fold(code[n]) == '_'));
}

const char *const qkv_language_keys[2][2] = {{"source_lang", "src_lang"}, {"target_lang", "tgt_lang"}};

enum qkv_status qkv_language_name(struct qkv_context *ctx, struct qkv_tokenizer *t, bool target, size_t key,
                                  const char *code) {
    if (t->languages[target] || !code || !*code || strlen(code) >= QKV_LANGUAGE_TEXT ||
        !strcmp(code, QKV_LANGUAGE_AUTO))
        return QKV_OK;
    t->languages[target] = qkv_copy_string(ctx, code);
    t->short_keys[target] = key > 0;
    return t->languages[target] ? QKV_OK : QKV_MEMORY;
}

void qkv_language_take_source(struct qkv_tokenizer *t) {
    const char *name = t->languages[0];
    struct qkv_template *around = &t->around;
    struct qkv_language l, other;
    size_t at = 0;
    bool found = false;
    while (name && !found && qkv_language_next(t, &at, &l))
        found = !l.targets_only &&
                (qkv_language_is(name, l.code, l.size, false) || qkv_language_is(name, l.token, l.token_size, false));
    for (size_t i = 0; found && i < around->before + around->after; i++)
        if (qkv_language_of(t, around->ids[i], &other)) around->ids[i] = l.id;
}
