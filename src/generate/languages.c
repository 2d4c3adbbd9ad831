/* The languages of a model that translates: of several, each has a token, which stands with the source, or begins the
 * target; of a model of one pair, the folder may name them. */
#include "generate/languages.h"

#include <stdlib.h>
#include <string.h>

#include "generate/generate.h"
#include "generate/search.h"
#include "model/model.h"
#include "text/sequence.h"
#include "text/text.h"

enum { LISTED = 12 }; /* languages that a message lists */

/* ---- the languages ----------------------------------------------------------------------------------------------- */

/* The tokenizer whose tokens name languages: those of targets also stand in sources (>>fra<<). */
static const struct qkv_tokenizer *tokenizer_of(const struct qkv_model *m, bool target) {
    const struct qkv_tokenizer *t = qkv_model_source_tokenizer(m), *own = qkv_model_tokenizer(m);
    struct qkv_language first;
    size_t at = 0;
    const bool puts = t && qkv_language_next(t, &at, &first) && first.targets_only;
    return target && !puts ? own : t;
}

/* The next language of sources, or of targets. */
static bool language_next(const struct qkv_tokenizer *t, bool target, size_t *at, struct qkv_language *out) {
    while (qkv_language_next(t, at, out))
        if (target || !out->targets_only) return true;
    return false;
}

/* The language of the one pair, as the folder names it; NULL: it does not, or the model has several. */
static const char *language_alone(const struct qkv_model *m, bool target) {
    const struct qkv_tokenizer *t = qkv_model_tokenizer(m);
    struct qkv_language first;
    size_t at = 0;
    return t && !language_next(tokenizer_of(m, target), target, &at, &first) ? t->languages[target] : NULL;
}

bool qkv_model_language(const struct qkv_model *m, bool target, size_t i, char code[QKV_LANGUAGE_TEXT]) {
    struct qkv_language l;
    size_t at = 0, n = 0;
    if (!m || !code || qkv_spec_topology(&m->spec) != QKV_ENCODER_DECODER) return false;
    for (const struct qkv_tokenizer *t = tokenizer_of(m, target); language_next(t, target, &at, &l);) {
        if (n++ != i) continue;
        memcpy(code, l.code, l.size);
        code[l.size] = 0;
        return true;
    }
    const char *alone = i ? NULL : language_alone(m, target);
    if (alone) snprintf(code, QKV_LANGUAGE_TEXT, "%s", alone);
    return alone;
}

/* ---- finding one ------------------------------------------------------------------------------------------------- */

static bool is_any(const char *name) {
    return !name || !*name || !strcmp(name, QKV_LANGUAGE_AUTO);
}

/* Whether a name begins with `size` bytes of a code; case, and - or _, are the same. */
static bool code_begins(const char *name, const char *code, size_t size) {
    for (size_t i = 0; i < size; i++) {
        const char a = name[i] == '-' ? '_' : name[i], b = code[i];
        if (!a || (a | 32) != (b | 32)) return false;
    }
    return true;
}

static bool code_is(const char *name, const char *code, size_t size) {
    return code_begins(name, code, size) && !name[size];
}

/* The language with that code; else the only one whose code has that name before "_": en of en_XX. */
static bool language_find(const struct qkv_tokenizer *t, bool target, const char *name, struct qkv_language *out) {
    struct qkv_language l;
    size_t at = 0, found = 0;
    while (language_next(t, target, &at, &l)) {
        const char *cut = memchr(l.code, '_', l.size);
        const bool whole = code_is(name, l.code, l.size);
        if (!whole && !(cut && code_is(name, l.code, (size_t)(cut - l.code)))) continue;
        *out = l;
        if (whole) return true;
        found++;
    }
    return found == 1;
}

static enum qkv_status language_refuse(struct qkv_model *m, bool target, const char *name) {
    const char *what = target ? "target" : "source";
    char code[QKV_LANGUAGE_TEXT];
    struct qkv_buffer list = {0};
    size_t count = 0;
    enum qkv_status status = QKV_OK;
    for (; qkv_model_language(m, target, count, code) && !status; count++)
        if (count < LISTED) status = qkv_buffer_print(m->ctx, &list, "%s%s", count ? ", " : "", code);
    if (!status && count > LISTED) status = qkv_buffer_print(m->ctx, &list, " and %zu more", count - LISTED);
    if (!status && !count)
        status = qkv_fail(m->ctx, QKV_ARGUMENT,
                          "the %s language is \"%.40s\", but the model's folder does not say what it translates; leave "
                          "it out, say " QKV_LANGUAGE_AUTO ", or name it as %s_lang in the folder's " QKV_ROLES_FILE,
                          what, name, what);
    if (!status)
        status =
            qkv_fail(m->ctx, QKV_ARGUMENT, "the %s language is \"%.40s\", but the model has %s", what, name, list.data);
    qkv_buffer_free(&list);
    return status;
}

/* ---- choosing ---------------------------------------------------------------------------------------------------- */

/* Whether the tokens around a source have a language, whose place another can take. */
static bool frame_has_language(const struct qkv_tokenizer *t) {
    const int32_t *sides[2];
    size_t counts[2];
    struct qkv_language l;
    if (!qkv_tokenizer_template(t, &sides[0], &counts[0], &sides[1], &counts[1])) return false;
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < counts[k]; i++)
            if (qkv_language_of(t, sides[k][i], &l)) return true;
    return false;
}

static enum qkv_status choose_source(struct qkv_model *m, const char *name, struct qkv_languages *out) {
    const struct qkv_tokenizer *t = tokenizer_of(m, false);
    const char *alone = language_alone(m, false);
    struct qkv_language l;
    if (is_any(name) || (alone && code_is(name, alone, strlen(alone)))) return QKV_OK;
    if (!language_find(t, false, name, &l)) return language_refuse(m, false, name);
    if (!frame_has_language(t))
        return qkv_fail(m->ctx, QKV_ARGUMENT,
                        "the source language is \"%.40s\", but the post_processor of the tokenizer puts no language "
                        "next to a source; save the tokenizer.json with one",
                        name);
    out->source = l.id;
    return QKV_OK;
}

static enum qkv_status choose_target(struct qkv_model *m, const char *name, struct qkv_languages *out) {
    const char *alone = language_alone(m, true);
    struct qkv_language l, start;
    if (is_any(name) || (alone && code_is(name, alone, strlen(alone)))) return QKV_OK;
    if (!language_find(tokenizer_of(m, true), true, name, &l)) return language_refuse(m, true, name);
    if (l.targets_only)
        out->before = l.id;
    else if (qkv_language_of(qkv_model_tokenizer(m), qkv_model_target_begin(m), &start))
        out->begin = l.id;
    else
        out->first = l.id;
    return QKV_OK;
}

enum qkv_status qkv_languages_choose(struct qkv_model *m, const char *source, const char *target,
                                     struct qkv_languages *out) {
    *out = QKV_LANGUAGES_ANY;
    const enum qkv_status status = choose_source(m, source, out);
    return status ? status : choose_target(m, target, out);
}

enum qkv_status qkv_model_check_languages(struct qkv_model *m, const char *source, const char *target) {
    QKV_CALL(m ? m->ctx : NULL);
    QKV_NEED(qkv_call, m);
    struct qkv_languages found;
    const enum qkv_status status = qkv_search_check_model(m, "translate");
    return status ? status : qkv_languages_choose(m, source, target, &found);
}

enum qkv_status qkv_languages_put(struct qkv_model *m, const struct qkv_languages *languages,
                                  struct qkv_sequence_frame *frame, int32_t **ids, size_t *count) {
    const struct qkv_tokenizer *t = qkv_model_source_tokenizer(m);
    struct qkv_language l;
    for (size_t i = 0; languages->source >= 0 && i < *count; i++)
        if ((i < frame->before || i + frame->after >= *count) && qkv_language_of(t, (*ids)[i], &l))
            (*ids)[i] = languages->source;
    if (languages->before < 0) return QKV_OK;
    int32_t *more = qkv_allocate(m->ctx, *count + 1, sizeof *more);
    if (!more) return QKV_MEMORY;
    *more = languages->before;
    if (*count) memcpy(more + 1, *ids, *count * sizeof *more);
    qkv_free(*ids);
    *ids = more;
    ++*count;
    frame->before++;
    return QKV_OK;
}

bool qkv_language_leads(const struct qkv_model *m, int32_t first) {
    struct qkv_language l;
    return qkv_language_of(qkv_model_tokenizer(m), first, &l);
}
