/* What families of models add to a model of SentencePiece, as transformers converts their tokenizers
 * (convert_slow_tokenizer.py): tokens around a text, more tokens, other ids. */
#include <stdlib.h>
#include <string.h>

#include "text/spm.h"

struct adapting {
    struct qkv_context *ctx;
    struct qkv_spm *spm;
    const struct qkv_spm_folder *folder;
    struct qkv_spm_family *out;
};

static bool adapt_flag(const struct adapting *a, const char *key, bool fallback) {
    const json_t *value = json_object_get(a->folder->config, key);
    return json_is_boolean(value) ? json_is_true(value) : fallback;
}

static enum qkv_status adapt_add(const struct adapting *a, const char *text, float score, enum qkv_spm_type type) {
    struct qkv_spm *m = a->spm;
    struct qkv_spm_piece *list = qkv_list_room(a->ctx, m->pieces, &m->capacity, m->count, 1, sizeof *list);
    if (!list) return QKV_MEMORY;
    m->pieces = list;
    list[m->count++] = (struct qkv_spm_piece){text, strlen(text), score, type};
    return QKV_OK;
}

/* ---- families ---------------------------------------------------------------------------------------------------- */

static void adapt_around(const struct adapting *a, bool begins, bool ends) {
    const struct qkv_spm_folder *f = a->folder;
    if (adapt_flag(a, "add_bos_token", begins)) a->out->before = f->begin ? f->begin : "<s>";
    if (adapt_flag(a, "add_eos_token", ends)) a->out->after = f->end ? f->end : "</s>";
}

static enum qkv_status adapt_llama(const struct adapting *a) {
    adapt_around(a, true, false);
    if (!a->folder->begin && qkv_spm_id(a->spm, "<s>") < 0 && a->out->before) a->out->before = "<bos>"; /* Gemma */
    if (!a->folder->end && qkv_spm_id(a->spm, "</s>") < 0 && a->out->after) a->out->after = "<eos>";
    return QKV_OK;
}

static enum qkv_status adapt_other(const struct adapting *a) {
    adapt_around(a, false, false);
    return QKV_OK;
}

/* The last id is that of <extra_id_0>. */
static enum qkv_status adapt_t5(const struct adapting *a) {
    enum { EXTRA = 100, EXTRA_MAX = 10000, EXTRA_TEXT = 24 };
    const json_t *count = json_object_get(a->folder->config, "extra_ids");
    const json_int_t n = json_is_integer(count) ? json_integer_value(count) : EXTRA;
    a->out->after = a->folder->end ? a->folder->end : "</s>";
    if (qkv_spm_id(a->spm, "<extra_id_0>") >= 0 || n < 1) return QKV_OK;
    if (n > EXTRA_MAX)
        return qkv_fail(a->ctx, QKV_FORMAT, "%s: tokenizer_config.json has %lld extra_ids; at most %d are read",
                        a->spm->name, (long long)n, EXTRA_MAX);
    a->out->texts = qkv_allocate(a->ctx, (size_t)n, EXTRA_TEXT);
    enum qkv_status status = a->out->texts ? QKV_OK : QKV_MEMORY;
    for (json_int_t i = n; i-- > 0 && !status;) {
        char *text = a->out->texts + (size_t)i * EXTRA_TEXT;
        snprintf(text, EXTRA_TEXT, "<extra_id_%lld>", (long long)i);
        status = adapt_add(a, text, 0, QKV_SPM_CONTROL);
    }
    return status;
}

/* fairseq's ids: four tokens of its own come first, in place of the model's three. */
static enum qkv_status adapt_fairseq(const struct adapting *a) {
    static const struct qkv_spm_piece first[] = {{"<s>", 3, 0, QKV_SPM_CONTROL},
                                                 {"<pad>", 5, 0, QKV_SPM_CONTROL},
                                                 {"</s>", 4, 0, QKV_SPM_CONTROL},
                                                 {"<unk>", 5, 0, QKV_SPM_UNKNOWN}};
    struct qkv_spm *m = a->spm;
    if (m->count < 3 || m->pieces[0].type != QKV_SPM_UNKNOWN)
        return qkv_fail(a->ctx, QKV_FORMAT, "%s: its first pieces are not <unk>, <s> and </s>, as XLM-R needs",
                        m->name);
    struct qkv_spm_piece *list = qkv_allocate(a->ctx, m->count + 2, sizeof *list);
    if (!list) return QKV_MEMORY;
    memcpy(list, first, sizeof first);
    memcpy(list + 4, m->pieces + 3, (m->count - 3) * sizeof *list);
    free(m->pieces);
    m->pieces = list;
    m->capacity = m->count + 2;
    m->count++;
    m->ids[0] = 0;
    m->ids[1] = 2;
    m->ids[2] = 1;
    a->out->before = "<s>";
    a->out->after = "</s>";
    a->out->mask = "<mask>";
    return qkv_spm_id(m, "<mask>") < 0 ? adapt_add(a, "<mask>", 0, QKV_SPM_CONTROL) : QKV_OK;
}

/* Pieces that end with a comma after a digit are the last choice. */
static void albert_scores(struct qkv_spm *m) {
    for (size_t i = 0; i < m->count; i++) {
        struct qkv_spm_piece *p = &m->pieces[i];
        if (p->size < 2 || p->text[p->size - 1] != ',' || p->text[p->size - 2] < '0' || p->text[p->size - 2] > '9')
            continue;
        p->score -= 100;
    }
}

static enum qkv_status adapt_albert(const struct adapting *a) {
    json_t *list = json_array();
    for (int i = 0; i < 2; i++)
        json_array_append_new(list, json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "String",
                                              i ? "''" : "``", "content", "\""));
    if (!adapt_flag(a, "keep_accents", false)) {
        json_array_append_new(list, json_pack("{s:s}", "type", "NFKD"));
        json_array_append_new(list, json_pack("{s:s}", "type", "StripAccents"));
    }
    if (adapt_flag(a, "do_lower_case", true)) json_array_append_new(list, json_pack("{s:s}", "type", "Lowercase"));
    albert_scores(a->spm);
    a->out->first = list;
    a->out->before = "[CLS]";
    a->out->after = "[SEP]";
    a->out->mask = "[MASK]";
    return list ? QKV_OK : qkv_fail_memory(a->ctx, 0, "a vocabulary");
}

/* Classes of transformers, without "Tokenizer" and "Fast", and model_type of config.json. adapt NULL: their tokens are
 * not known. */
static const struct {
    const char *classes, *types;
    enum qkv_status (*adapt)(const struct adapting *a);
} families[] = {
    {"Llama CodeLlama Gemma", "llama mistral mixtral phi3 gemma gemma2 gemma3 gemma3_text", adapt_llama},
    {"T5 MT5", "t5 mt5 umt5 longt5 switch_transformers", adapt_t5},
    {"XLMRoberta", "xlm-roberta xlm-roberta-xl", adapt_fairseq},
    {"Albert", "albert", adapt_albert},
    {"MBart MBart50 NLLB Nllb M2M100 Pegasus XLNet BigBird Camembert Barthez Marian RemBert DebertaV2 FNet XGLM PLBart "
     "Reformer SeamlessM4T CPM Speech2Text SpeechT5 Udop LayoutXLM BertGeneration ErnieM",
     "mbart m2m_100 nllb-moe pegasus pegasus_x xlnet big_bird bigbird_pegasus camembert marian rembert deberta-v2 fnet "
     "xglm plbart reformer seamless_m4t speech_to_text speecht5 udop bert-generation ernie_m",
     NULL},
};

static bool adapt_has(const char *list, const char *name, size_t n) {
    for (const char *at = list; n && *at; at += strcspn(at, " "), at += *at == ' ')
        if (strcspn(at, " ") == n && !strncmp(at, name, n)) return true;
    return false;
}

enum qkv_status qkv_spm_adapt(struct qkv_context *ctx, struct qkv_spm *spm, const struct qkv_spm_folder *folder,
                              struct qkv_spm_family *out) {
    const struct adapting a = {.ctx = ctx, .spm = spm, .folder = folder, .out = out};
    const char *class = json_string_value(json_object_get(folder->config, "tokenizer_class"));
    const char *type = json_string_value(json_object_get(folder->model, "model_type"));
    const char *end = class ? strstr(class, "Tokenizer") : NULL;
    enum qkv_status (*adapt)(const struct adapting *) = adapt_other;
    bool known = false;
    *out = (struct qkv_spm_family){.unknown_special = true};
    for (int by_type = 0; by_type < 2; by_type++)
        for (size_t i = 0; i < sizeof families / sizeof *families && !known; i++) {
            known = by_type ? adapt_has(families[i].types, type, type ? strlen(type) : 0)
                            : adapt_has(families[i].classes, class, end ? (size_t)(end - class) : 0);
            if (known) adapt = families[i].adapt;
        }
    if (!adapt)
        return qkv_fail(ctx, QKV_FORMAT,
                        "%s: the special tokens that %.60s adds to a model of SentencePiece are not known; save a "
                        "tokenizer.json with transformers",
                        spm->name, class ? class : type);
    return adapt(&a);
}

void qkv_spm_family_free(struct qkv_spm_family *family) {
    json_decref(family->first);
    json_decref(family->added);
    free(family->texts);
    *family = (struct qkv_spm_family){0};
}
