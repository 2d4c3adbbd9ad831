/* The languages of a model that translates: of several, each has a token, which stands with the source, or begins the
 * target; of a model of one pair, the folder may name them. */
#include "generate/languages.h"

#include <string.h>

#include "generate/generate.h"
#include "generate/search.h"
#include "model/model.h"
#include "text/sequence.h"
#include "text/text.h"

enum { LISTED = 12, SHOWN = 40 }; /* languages that a message lists; bytes of a name that it shows */

/* ---- the languages ----------------------------------------------------------------------------------------------- */

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

/* A walk through the languages of sources, or of targets: a source's language can be chosen where the tokens around
 * it have one; tokens that are put before a source are those of its tokenizer, and tokens of targets are those of the
 * other. */
struct languages_walk {
    const struct qkv_model *model;
    bool target;
    size_t part, at;
};

static bool walk_next(struct languages_walk *w, struct qkv_language *out) {
    const struct qkv_tokenizer *of_sources = qkv_model_source_tokenizer(w->model);
    if (!w->target && !w->at && !frame_has_language(of_sources)) return false;
    for (; w->part <= w->target; w->part++, w->at = 0) {
        const bool before = w->target && !w->part;
        const struct qkv_tokenizer *t = w->part ? qkv_model_tokenizer(w->model) : of_sources;
        while (qkv_language_next(t, &w->at, out))
            if (out->targets_only == before) return true;
    }
    return false;
}

/* The language of the one pair, as the folder names it; NULL: it does not, or the model has several. */
static const char *language_alone(const struct qkv_model *m, bool target) {
    const struct qkv_tokenizer *t = qkv_model_tokenizer(m);
    struct languages_walk w = {.model = m, .target = target};
    struct qkv_language first;
    return t && !walk_next(&w, &first) ? t->languages[target] : NULL;
}

bool qkv_model_language(const struct qkv_model *m, bool target, size_t i, char code[QKV_LANGUAGE_TEXT]) {
    struct languages_walk w = {.model = m, .target = target};
    struct qkv_language l;
    size_t n = 0;
    if (!m || !code || qkv_spec_topology(&m->spec) != QKV_ENCODER_DECODER) return false;
    while (walk_next(&w, &l)) {
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
    return !name || !*name || qkv_language_is(name, QKV_LANGUAGE_AUTO, sizeof QKV_LANGUAGE_AUTO - 1, false);
}

/* The bytes of a name that a message shows. */
static int shown(const char *name) {
    size_t n = 0;
    while (n < SHOWN && name[n]) n++;
    return (int)(name[n] ? n - qkv_utf8_tail(name, n) : n);
}

/* Finds the language with that code or token; else those whose code has that name before "_": en of en_XX. Returns how
 * many there are; *out is the last. */
static size_t language_find(const struct qkv_model *m, bool target, const char *name, struct qkv_language *out) {
    struct languages_walk w = {.model = m, .target = target};
    struct qkv_language l;
    size_t found = 0;
    while (walk_next(&w, &l)) {
        const bool whole =
            qkv_language_is(name, l.code, l.size, false) || qkv_language_is(name, l.token, l.token_size, false);
        if (!whole && !qkv_language_is(name, l.code, l.size, true)) continue;
        *out = l;
        if (whole) return 1;
        found++;
    }
    return found;
}

/* Lists languages, those first that begin as the name does; `part`: those alone of which it is the first part. */
static enum qkv_status languages_list(struct qkv_model *m, bool target, const char *name, bool part,
                                      struct qkv_buffer *list) {
    enum qkv_status status = qkv_buffer_append(m->ctx, list, "", 0);
    char code[QKV_LANGUAGE_TEXT], begin[3] = {name[0], name[0] ? name[1] : 0};
    size_t count = 0;
    for (size_t others = 0; others <= !part; others++)
        for (size_t i = 0; qkv_model_language(m, target, i, code) && !status; i++) {
            const size_t size = strlen(code), compared = part || size < 2 ? size : 2;
            if (qkv_language_is(part ? name : begin, code, compared, part) == (others > 0)) continue;
            if (count++ >= LISTED) continue;
            status = qkv_buffer_print(m->ctx, list, "%s%s", count == 1 ? "" : part ? " or " : ", ", code);
        }
    if (!status && count > LISTED) status = qkv_buffer_print(m->ctx, list, " and %zu more", count - LISTED);
    return status;
}

/* Refuses a name that `found` languages have, which is not 1. */
static enum qkv_status language_refuse(struct qkv_model *m, bool target, const char *name, size_t found) {
    const char *what = target ? "target" : "source";
    char code[QKV_LANGUAGE_TEXT];
    struct qkv_buffer list = {0};
    if (!qkv_model_language(m, target, 0, code))
        return qkv_fail(m->ctx, QKV_ARGUMENT,
                        "the %s language is \"%.*s\", but the model does not say what language it translates "
                        "%s; leave it out%s" QKV_LANGUAGE_AUTO "%s%s%s",
                        what, shown(name), name, target ? "to" : "from", m->origin.gguf ? ", or say " : ", say ",
                        m->origin.gguf ? "" : ", or name it as ", m->origin.gguf ? "" : what,
                        m->origin.gguf ? "" : "_lang in the folder's " QKV_ROLES_FILE);
    enum qkv_status status = languages_list(m, target, name, found > 0, &list);
    if (!status)
        status = qkv_fail(m->ctx, QKV_ARGUMENT,
                          found ? "the %s language is \"%.*s\", which is %s; choose one"
                                : "the %s language is \"%.*s\", but the model has %s",
                          what, shown(name), name, list.data);
    qkv_buffer_free(&list);
    return status;
}

/* Finds the language that a name chooses. *chosen is false if that is the model's own. */
static enum qkv_status language_choose(struct qkv_model *m, bool target, const char *name, bool *chosen,
                                       struct qkv_language *out) {
    const char *alone = language_alone(m, target);
    *chosen = !is_any(name) && !(alone && qkv_language_is(name, alone, strlen(alone), true));
    if (!*chosen) return QKV_OK;
    const size_t found = language_find(m, target, name, out);
    return found == 1 ? QKV_OK : language_refuse(m, target, name, found);
}

/* ---- choosing ---------------------------------------------------------------------------------------------------- */

static enum qkv_status choose_source(struct qkv_model *m, const char *name, struct qkv_languages *out) {
    struct qkv_language l;
    bool chosen;
    const enum qkv_status status = language_choose(m, false, name, &chosen, &l);
    if (!status && chosen) out->source = l.id;
    return status;
}

static enum qkv_status choose_target(struct qkv_model *m, const char *name, struct qkv_languages *out) {
    struct qkv_language l, start;
    bool chosen;
    const enum qkv_status status = language_choose(m, true, name, &chosen, &l);
    if (status || !chosen) return status;
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

enum qkv_status qkv_languages_rule(struct qkv_model *m, const struct qkv_languages *languages,
                                   const struct qkv_token_rules *asked, struct qkv_token_rules *rules, int32_t *lead) {
    const int32_t first = languages->first;
    *lead = -1;
    if (first >= 0 && asked && asked->first >= 0 && asked->first != first)
        return qkv_fail(m->ctx, QKV_ARGUMENT,
                        "the target language and the rules both choose the first token of a target, %d and %d; leave "
                        "the language or the first token (--force-first) out",
                        (int)first, (int)asked->first);
    if (first >= 0) rules->first = first;
    struct qkv_language l;
    if (qkv_language_of(qkv_model_tokenizer(m), rules->first, &l)) *lead = rules->first;
    for (size_t i = 0; i < rules->suppressed.count && *lead >= 0; i++)
        if (rules->suppressed.ids[i] == *lead)
            return qkv_fail(m->ctx, QKV_ARGUMENT,
                            "token %d begins targets, as it is their language, but the rules suppress it; choose "
                            "another language, or leave the token out of the suppressed ones",
                            (int)*lead);
    return QKV_OK;
}

const char *qkv_target_token(const struct qkv_tokenizer *tokenizer, int32_t lead, bool trimmed, const int32_t *ids,
                             size_t index, size_t *size) {
    const bool leads = lead >= 0 && *ids == lead;
    *size = 0;
    const char *text = tokenizer && index >= leads ? qkv_tokenizer_token(tokenizer, ids[index], size) : NULL;
    const bool space = text && trimmed && index == leads && *size > 1 && *text == ' ';
    *size -= space;
    return text ? text + space : NULL;
}
