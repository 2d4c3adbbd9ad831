/* The keys tokenizer.ggml.* of a GGUF file, from a tokenizer: the reverse of gguf_tokenizer.c. A tokenizer that the keys
 * cannot say is written as a whole tokenizer.json, which qkv reads. */
#include <stdlib.h>
#include <string.h>

#include "base/json_load.h"
#include "io/gguf_export.h"
#include "io/gguf_vocab.h"
#include "io/io.h"
#include "text/text.h"

#define SPACE_MARK "\xe2\x96\x81" /* U+2581 stands for a space */

struct vocab_writing {
    struct qkv_context *ctx;
    struct qkv_gguf_writer *w;
    const struct qkv_model *m;
    const json_t *root, *model; /* of the tokenizer.json */
    size_t count;               /* ids of the model, which may be more than the tokenizer has */
    json_t *texts;              /* of each id */
    int32_t *types;             /* enum gguf_vocab_type */
    float *scores;
    const char *reason; /* why the keys cannot say it; NULL: they can */
};

/* ---- parts of a tokenizer.json ----------------------------------------------------------------------------------- */

static bool link_is(const json_t *link, const char *type) {
    const char *have = json_string_value(json_object_get(link, "type"));
    return have && !strcmp(have, type);
}

/* The i-th link of a step that may be one link, or a Sequence of them under the key `list`; NULL: there is none. */
static const json_t *link_at(const json_t *step, const char *list, size_t i) {
    if (!step || json_is_null(step)) return NULL;
    if (link_is(step, "Sequence")) return json_array_get(json_object_get(step, list), i);
    return i == 0 ? step : NULL;
}

static const char *link_text(const json_t *link, const char *key, const char *inner) {
    return json_string_value(json_object_get(json_object_get(link, key), inner));
}

static bool link_flag(const json_t *link, const char *key, bool fallback) {
    const json_t *value = json_object_get(link, key);
    return json_is_boolean(value) ? json_is_true(value) : fallback;
}

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

static enum qkv_status vocab_set(struct vocab_writing *v, json_int_t id, json_t *text, enum gguf_vocab_type type) {
    if (id < 0 || (size_t)id >= v->count) {
        v->reason = "it has ids that the model has no row for";
        return QKV_OK;
    }
    v->types[id] = (int32_t)type;
    return json_array_set(v->texts, (size_t)id, text) ? qkv_fail_memory(v->ctx, 0, "a vocabulary") : QKV_OK;
}

/* Ids without a token: llama.cpp needs a text for each row of the table. */
static enum qkv_status vocab_begin(struct vocab_writing *v) {
    v->texts = json_array();
    v->types = qkv_allocate(v->ctx, v->count, sizeof *v->types);
    v->scores = qkv_allocate(v->ctx, v->count, sizeof *v->scores);
    bool made = v->texts && v->types && v->scores;
    for (size_t i = 0; i < v->count && made; i++) {
        char text[32];
        snprintf(text, sizeof text, "[PAD%zu]", i);
        v->types[i] = VOCAB_UNUSED;
        made = !json_array_append_new(v->texts, json_string(text));
    }
    return made ? QKV_OK : qkv_fail_memory(v->ctx, 0, "a vocabulary");
}

static enum qkv_status vocab_tokens(struct vocab_writing *v) {
    const json_t *vocab = json_object_get(v->model, "vocab"), *added = json_object_get(v->root, "added_tokens");
    enum qkv_status status = vocab_begin(v);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)vocab, key, value) {
        json_t *text = json_string(key);
        if (!status) status = vocab_set(v, json_integer_value(value), text, VOCAB_NORMAL);
        json_decref(text);
    }
    for (size_t i = 0; i < (json_is_array(vocab) ? json_array_size(vocab) : 0) && !status; i++) {
        const json_t *entry = json_array_get(vocab, i);
        status = vocab_set(v, (json_int_t)i, json_array_get(entry, 0), VOCAB_NORMAL);
        if (i < v->count) v->scores[i] = (float)json_number_value(json_array_get(entry, 1));
    }
    for (size_t i = 0; i < json_array_size(added) && !status; i++) {
        const json_t *token = json_array_get(added, i);
        if (link_flag(token, "single_word", false)) v->reason = "it has added tokens that are whole words only";
        status = vocab_set(v, json_integer_value(json_object_get(token, "id")), json_object_get(token, "content"),
                           link_flag(token, "special", false) ? VOCAB_CONTROL : VOCAB_USER);
    }
    return status;
}

static int vocab_unknown(const struct vocab_writing *v) {
    const json_t *id = json_object_get(v->model, "unk_id");
    const char *text = json_string_value(json_object_get(v->model, "unk_token"));
    if (json_is_integer(id)) return (int)json_integer_value(id);
    for (size_t i = 0; i < v->count && text; i++)
        if (!strcmp(json_string_value(json_array_get(v->texts, i)), text)) return (int)i;
    return -1;
}

static void vocab_mark_unknown(const struct vocab_writing *v) {
    const int id = vocab_unknown(v);
    if (id >= 0 && (size_t)id < v->count) v->types[id] = VOCAB_UNKNOWN;
}

/* ---- byte-level BPE ---------------------------------------------------------------------------------------------- */

enum { PATTERNS_MAX = 4 };

/* The pattern of a link that cuts a text; NULL: it is none that files can name. */
static const char *link_pattern(const json_t *link) {
    if (link_is(link, "Digits") && link_flag(link, "individual_digits", false)) return "\\p{N}";
    if (!link_is(link, "Split") || link_flag(link, "invert", false)) return NULL;
    const char *behavior = json_string_value(json_object_get(link, "behavior"));
    return behavior && !strcmp(behavior, "Isolated") ? link_text(link, "pattern", "Regex") : NULL;
}

/* Collects the patterns that come before and in ByteLevel. Returns false where the step is no such list. */
static bool bpe_patterns(const struct vocab_writing *v, const char *patterns[PATTERNS_MAX], size_t *count) {
    const json_t *step = json_object_get(v->root, "pre_tokenizer"), *link;
    bool bytes = false;
    *count = 0;
    for (size_t i = 0; (link = link_at(step, "pretokenizers", i)); i++) {
        const bool last = link_is(link, "ByteLevel");
        const char *pattern = last ? qkv_pattern_gpt2 : link_pattern(link);
        if (bytes || !pattern || (last && link_flag(link, "add_prefix_space", true))) return false;
        bytes = last;
        if (last && !link_flag(link, "use_regex", true)) continue;
        if (*count == PATTERNS_MAX) return false;
        patterns[(*count)++] = pattern;
    }
    return bytes;
}

static enum qkv_status bpe_put(struct vocab_writing *v) {
    const json_t *normalizer = json_object_get(v->root, "normalizer"), *merges = json_object_get(v->model, "merges");
    const json_t *form = link_at(normalizer, "normalizers", 0);
    const char *patterns[PATTERNS_MAX];
    char pre[QKV_VOCAB_PRE];
    size_t count;
    bool known =
        bpe_patterns(v, patterns, &count) && (!form || link_is(form, "NFC")) && !link_at(normalizer, "normalizers", 1);
    if (known && !json_array_size(merges)) { /* then it makes no difference where a text is cut */
        patterns[0] = qkv_pattern_gpt2;
        count = 1;
    }
    known = known && qkv_vocab_pre(patterns, count, link_flag(v->model, "ignore_merges", false), form != NULL, pre);
    if (!known) {
        v->reason = "GGUF files have no name for the way that it cuts texts into pieces";
        return QKV_OK;
    }
    qkv_gguf_put_text(v->w, "tokenizer.ggml.model", "gpt2", 4);
    qkv_gguf_put_text(v->w, "tokenizer.ggml.pre", pre, strlen(pre));
    qkv_gguf_put_array(v->w, "tokenizer.ggml.merges", QKV_GGUF_STRING, json_array_size(merges));
    struct qkv_buffer both = {0};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < json_array_size(merges) && !status; i++) {
        const json_t *merge = json_array_get(merges, i);
        both.size = 0;
        if (json_is_string(merge))
            status = qkv_buffer_print(v->ctx, &both, "%s", json_string_value(merge));
        else
            status = qkv_buffer_print(v->ctx, &both, "%s %s", json_string_value(json_array_get(merge, 0)),
                                      json_string_value(json_array_get(merge, 1)));
        if (!status) qkv_gguf_add_text(v->w, both.data, both.size);
    }
    qkv_buffer_free(&both);
    return status;
}

/* ---- SentencePiece ----------------------------------------------------------------------------------------------- */

/* Whether texts become pieces of SentencePiece: spaces are marks. *prefix: a mark is put before a text. */
static bool spm_is(const struct vocab_writing *v, bool *prefix) {
    const json_t *normalizer = json_object_get(v->root, "normalizer"), *splitter, *link;
    bool marks = false;
    *prefix = false;
    for (size_t i = 0; (link = link_at(normalizer, "normalizers", i)); i++) {
        const char *from = link_text(link, "pattern", "String"),
                   *to = json_string_value(json_object_get(link, "content"));
        const char *before = json_string_value(json_object_get(link, "prepend"));
        const bool replaces = link_is(link, "Replace") && from && to && !strcmp(from, " ") && !strcmp(to, SPACE_MARK);
        const bool prepends = link_is(link, "Prepend") && before && !strcmp(before, SPACE_MARK);
        if (!replaces && !prepends) return false;
        marks = marks || replaces;
        *prefix = *prefix || prepends;
    }
    splitter = json_object_get(v->root, "pre_tokenizer");
    for (size_t i = 0; (link = link_at(splitter, "pretokenizers", i)); i++) {
        const char *scheme = json_string_value(json_object_get(link, "prepend_scheme"));
        const char *space = link_text(link, "pattern", "String");
        if (link_is(link, "Metaspace") && !link_flag(link, "split", true)) {
            marks = true;
            *prefix = scheme ? strcmp(scheme, "never") != 0 : link_flag(link, "add_prefix_space", true);
        } else if (!marks || !link_is(link, "Split") || !space || strcmp(space, " ") != 0) {
            return false; /* a Split at spaces finds none where they are marks */
        }
    }
    return marks;
}

/* Whether a text is "<0x0A>". */
static bool spm_is_byte(const char *text) {
    return strlen(text) == 6 && !strncmp(text, "<0x", 3) && text[5] == '>' && strspn(text + 3, "0123456789ABCDEF") == 2;
}

enum { SPM_TOKEN = 1024 };

/* The token that a merge makes, "a b" or ["a", "b"]. */
static void spm_result(const json_t *merge, char out[SPM_TOKEN]) {
    const char *both = json_string_value(merge), *space = both ? strchr(both, ' ') : NULL;
    const char *left = both ? both : json_string_value(json_array_get(merge, 0));
    const char *right = space ? space + 1 : json_string_value(json_array_get(merge, 1));
    snprintf(out, SPM_TOKEN, "%.*s%s", space ? (int)(space - left) : (int)strlen(left), left, right ? right : "");
}

/* The scores of tokens: the earlier a token's first merge, the higher. */
static void spm_scores(struct vocab_writing *v, const json_t *merges) {
    const json_t *vocab = json_object_get(v->model, "vocab");
    const float last = -(float)json_array_size(merges);
    for (size_t i = 0; i < v->count; i++) v->scores[i] = v->types[i] == VOCAB_NORMAL ? last - (float)i : 0;
    for (size_t i = json_array_size(merges); i-- > 0;) {
        char result[SPM_TOKEN];
        spm_result(json_array_get(merges, i), result);
        const json_t *id = json_object_get(vocab, result);
        if (json_is_integer(id) && (size_t)json_integer_value(id) < v->count)
            v->scores[json_integer_value(id)] = -(float)i;
    }
}

/* Whether a reader that merges by these scores makes the same tokens, each in as many ways, in the same order. */
static enum qkv_status spm_check(struct vocab_writing *v, const json_t *merges) {
    const size_t bytes = v->count * sizeof(float);
    unsigned char *header = qkv_allocate(v->ctx, 2 * v->count + 1, sizeof(float));
    struct qkv_gguf g = {.ctx = v->ctx, .path = (char *)(uintptr_t)v->w->path, .header = header};
    const struct qkv_gguf_value types = {
        .type = QKV_GGUF_I32, .array = true, .count = v->count, .at = 0, .size = bytes};
    const struct qkv_gguf_value scores = {
        .type = QKV_GGUF_F32, .array = true, .count = v->count, .at = bytes, .size = bytes};
    const struct gguf_vocab vocab = {
        .ctx = v->ctx, .g = &g, .texts = v->texts, .count = v->count, .types = &types, .scores = &scores};
    json_t *again = NULL;
    if (!header) return QKV_MEMORY;
    memcpy(header, v->types, bytes);
    memcpy(header + bytes, v->scores, bytes);
    enum qkv_status status = qkv_vocab_merges(&vocab, &again);
    bool same = !status && json_array_size(again) == json_array_size(merges);
    for (size_t i = 0; i < json_array_size(merges) && same; i++) {
        const json_t *merge = json_array_get(merges, i), *other = json_array_get(again, i);
        char one[SPM_TOKEN], two[SPM_TOKEN];
        spm_result(merge, one);
        spm_result(other, two);
        same = !strcmp(one, two);
    }
    if (!same) v->reason = "its merges are not those of scores of tokens";
    json_decref(again);
    free(header);
    return status;
}

static enum qkv_status spm_put(struct vocab_writing *v) {
    const json_t *merges = json_object_get(v->model, "merges");
    bool prefix;
    if (!spm_is(v, &prefix) || link_flag(v->model, "ignore_merges", false)) {
        v->reason = "GGUF files have no name for the way that it cuts texts into pieces";
        return QKV_OK;
    }
    for (size_t i = 0; i < v->count; i++)
        if (link_flag(v->model, "byte_fallback", false) && spm_is_byte(json_string_value(json_array_get(v->texts, i))))
            v->types[i] = VOCAB_BYTE;
    vocab_mark_unknown(v);
    spm_scores(v, merges);
    const enum qkv_status status = spm_check(v, merges);
    if (status || v->reason) return status;
    qkv_gguf_put_text(v->w, "tokenizer.ggml.model", "llama", 5);
    qkv_gguf_put_text(v->w, "tokenizer.ggml.pre", "default", 7);
    qkv_gguf_put_bool(v->w, "tokenizer.ggml.add_space_prefix", prefix);
    qkv_gguf_put_array(v->w, "tokenizer.ggml.scores", QKV_GGUF_F32, v->count);
    qkv_gguf_add_bytes(v->w, v->scores, v->count * sizeof *v->scores);
    return QKV_OK;
}

/* ---- WordPiece --------------------------------------------------------------------------------------------------- */

/* Tokens that begin a word get a mark; those that go on lose theirs. */
static enum qkv_status wordpiece_texts(struct vocab_writing *v) {
    struct qkv_buffer text = {0};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < v->count && !status; i++) {
        const char *s = json_string_value(json_array_get(v->texts, i));
        const size_t n = strlen(s);
        if (v->types[i] != VOCAB_NORMAL || (n > 1 && s[0] == '[' && s[n - 1] == ']')) continue;
        const bool goes_on = !strncmp(s, "##", 2);
        text.size = 0;
        status = qkv_buffer_print(v->ctx, &text, "%s%s", goes_on ? "" : SPACE_MARK, goes_on ? s + 2 : s);
        if (!status && json_array_set_new(v->texts, i, json_string(text.data)))
            status = qkv_fail_memory(v->ctx, 0, "a vocabulary");
    }
    qkv_buffer_free(&text);
    return status;
}

static enum qkv_status wordpiece_put(struct vocab_writing *v) {
    const json_t *normalizer = json_object_get(v->root, "normalizer");
    const char *prefix = json_string_value(json_object_get(v->model, "continuing_subword_prefix"));
    if (!link_is(normalizer, "BertNormalizer") || !link_flag(normalizer, "lowercase", true) ||
        !link_flag(normalizer, "strip_accents", true) || (prefix && strcmp(prefix, "##") != 0)) {
        v->reason = "readers of GGUF files convert texts of such tokenizers to lower case without accents";
        return QKV_OK;
    }
    vocab_mark_unknown(v);
    const enum qkv_status status = wordpiece_texts(v);
    qkv_gguf_put_text(v->w, "tokenizer.ggml.model", "bert", 4);
    qkv_gguf_put_text(v->w, "tokenizer.ggml.pre", "default", 7);
    return status;
}

/* ---- Unigram ----------------------------------------------------------------------------------------------------- */

struct unigram_steps {
    const char *charsmap; /* base64 */
    bool prefix, single_spaces;
};

static bool unigram_read(const struct vocab_writing *v, struct unigram_steps *s) {
    const json_t *normalizer = json_object_get(v->root, "normalizer"), *splitter, *link;
    bool marks = false;
    *s = (struct unigram_steps){0};
    for (size_t i = 0; (link = link_at(normalizer, "normalizers", i)); i++) {
        const char *spaces = link_text(link, "pattern", "Regex");
        const bool replaces = link_is(link, "Replace") && spaces && !strcmp(spaces, " {2,}");
        if (link_is(link, "Precompiled"))
            s->charsmap = json_string_value(json_object_get(link, "precompiled_charsmap"));
        else if (!replaces && !link_is(link, "Strip"))
            return false;
        s->single_spaces = s->single_spaces || replaces;
    }
    splitter = json_object_get(v->root, "pre_tokenizer");
    for (size_t i = 0; (link = link_at(splitter, "pretokenizers", i)); i++) {
        const char *scheme = json_string_value(json_object_get(link, "prepend_scheme"));
        if (link_is(link, "WhitespaceSplit")) {
            s->single_spaces = true;
        } else if (link_is(link, "Metaspace")) {
            marks = true;
            s->prefix = scheme ? strcmp(scheme, "never") != 0 : link_flag(link, "add_prefix_space", true);
        } else {
            return false;
        }
    }
    return marks && !link_flag(v->model, "byte_fallback", false);
}

static enum qkv_status unigram_put(struct vocab_writing *v) {
    struct unigram_steps s;
    if (!unigram_read(v, &s)) {
        v->reason = "GGUF files have no name for the way that it cuts texts into pieces";
        return QKV_OK;
    }
    vocab_mark_unknown(v);
    qkv_gguf_put_text(v->w, "tokenizer.ggml.model", "t5", 2);
    qkv_gguf_put_text(v->w, "tokenizer.ggml.pre", "default", 7);
    qkv_gguf_put_array(v->w, "tokenizer.ggml.scores", QKV_GGUF_F32, v->count);
    qkv_gguf_add_bytes(v->w, v->scores, v->count * sizeof *v->scores);
    qkv_gguf_put_bool(v->w, "tokenizer.ggml.add_space_prefix", s.prefix);
    qkv_gguf_put_bool(v->w, "tokenizer.ggml.remove_extra_whitespaces", s.single_spaces);
    if (!s.charsmap) return QKV_OK;
    char *bytes = qkv_copy_string(v->ctx, s.charsmap);
    const size_t size = bytes ? qkv_base64_decode(bytes) : 0; /* it was read before, so it is base64 */
    qkv_gguf_put_array(v->w, "tokenizer.ggml.precompiled_charsmap", QKV_GGUF_U8, size);
    qkv_gguf_add_bytes(v->w, bytes, size);
    free(bytes);
    return bytes ? QKV_OK : QKV_MEMORY;
}

/* ---- special tokens ---------------------------------------------------------------------------------------------- */

static void put_id(struct qkv_gguf_writer *w, const char *key, int id) {
    char name[64];
    snprintf(name, sizeof name, "tokenizer.ggml.%s_token_id", key);
    if (id >= 0) qkv_gguf_put_u32(w, name, (uint32_t)id);
}

/* Puts more tokens that end a text than the one with the role: those of the tokenizer, and of the settings of
 * generation. end: that one; −1: the first of them is. */
static void put_ends(struct qkv_gguf_writer *w, const struct qkv_model *m, int end) {
    int32_t ends[2 * QKV_TOKEN_ENDS];
    size_t count = m->tokenizer ? qkv_tokenizer_ends(m->tokenizer, ends) : 0, more = 0;
    for (size_t i = 0; i < m->generation.end_count; i++) ends[count++] = m->generation.ends[i];
    if (end < 0 && count) put_id(w, "eos", end = ends[0]);
    for (size_t i = 0; i < count && more < QKV_VOCAB_ENDS; i++) {
        bool twice = ends[i] == end;
        for (size_t k = 0; k < i; k++) twice = twice || ends[k] == ends[i];
        if (!twice) put_id(w, qkv_vocab_end_keys[more++], ends[i]);
    }
}

/* Puts the ids of special tokens; bos and end replace those of the roles where they are not negative. */
static void put_roles(struct qkv_gguf_writer *w, const struct qkv_model *m, int bos, int end) {
    for (size_t i = 0; i < QKV_VOCAB_ROLES && m->tokenizer; i++) {
        const enum qkv_token_role role = qkv_vocab_role_keys[i].role;
        int id = qkv_tokenizer_role(m->tokenizer, role);
        if (role == QKV_TOKEN_ROLE_BEGIN && bos >= 0) id = bos;
        if (role == QKV_TOKEN_ROLE_END && end < 0) end = id;
        put_id(w, qkv_vocab_role_keys[i].key, role == QKV_TOKEN_ROLE_END ? end : id);
    }
    put_ends(w, m, end);
}

/* Puts the tokens around a text, and the roles. */
static void put_specials(struct vocab_writing *v, bool words) {
    const int32_t *before, *after;
    size_t before_count, after_count;
    qkv_tokenizer_template(v->m->tokenizer, &before, &before_count, &after, &after_count);
    const int separator = qkv_tokenizer_role(v->m->tokenizer, QKV_TOKEN_ROLE_SEPARATOR);
    const int end = qkv_tokenizer_role(v->m->tokenizer, QKV_TOKEN_ROLE_END), last = words ? separator : end;
    if (before_count > 1 || after_count > 1 || (after_count && last >= 0 && after[0] != last)) {
        v->reason = "its template puts other tokens around a text than GGUF files can say";
        return;
    }
    put_roles(v->w, v->m, before_count ? before[0] : -1, after_count && !words && end < 0 ? after[0] : -1);
    if (words && separator < 0 && after_count) put_id(v->w, "seperator", after[0]);
    qkv_gguf_put_bool(v->w, "tokenizer.ggml.add_bos_token", before_count > 0);
    qkv_gguf_put_bool(v->w, words ? "tokenizer.ggml.add_sep_token" : "tokenizer.ggml.add_eos_token", after_count > 0);
}

/* ---- the tokenizer ----------------------------------------------------------------------------------------------- */

static enum qkv_status vocab_put(struct vocab_writing *v) {
    const char *type = qkv_vocab_model_name(v->model);
    const json_t *splitter = json_object_get(v->root, "pre_tokenizer"), *link;
    bool bytes = false;
    for (size_t i = 0; (link = link_at(splitter, "pretokenizers", i)); i++) bytes = bytes || link_is(link, "ByteLevel");
    enum qkv_status status = QKV_OK;
    if (!strcmp(type, "BPE"))
        status = bytes ? bpe_put(v) : spm_put(v);
    else if (!strcmp(type, "WordPiece"))
        status = wordpiece_put(v);
    else if (!strcmp(type, "Unigram"))
        status = unigram_put(v);
    else
        v->reason = "GGUF files have no tokenizers of its kind";
    if (status || v->reason) return status;
    qkv_gguf_put_array(v->w, "tokenizer.ggml.tokens", QKV_GGUF_STRING, v->count);
    for (size_t i = 0; i < v->count; i++)
        qkv_gguf_add_text(v->w, json_string_value(json_array_get(v->texts, i)),
                          json_string_length(json_array_get(v->texts, i)));
    qkv_gguf_put_array(v->w, "tokenizer.ggml.token_type", QKV_GGUF_I32, v->count);
    qkv_gguf_add_bytes(v->w, v->types, v->count * sizeof *v->types);
    put_specials(v, !strcmp(type, "WordPiece"));
    return v->w->status;
}

/* Puts the keys into a writer of their own first, as a fault may show after some of them. */
static enum qkv_status tokenizer_try(struct qkv_gguf_export *e, const struct qkv_buffer *text, const char **reason) {
    struct qkv_gguf_writer part = {.ctx = e->ctx, .path = e->writer.path};
    json_t *root = NULL;
    const struct qkv_json_text file = {
        .name = "tokenizer", .data = (const unsigned char *)text->data, .size = text->size, .max_size = text->size};
    enum qkv_status status = qkv_json_load(e->ctx, &file, &root);
    struct vocab_writing v = {.ctx = e->ctx,
                              .w = &part,
                              .m = e->model,
                              .root = root,
                              .model = json_object_get(root, "model"),
                              .count = (size_t)e->model->spec.vocab};
    if (!status) status = vocab_tokens(&v);
    if (!status && !v.reason) status = vocab_put(&v);
    if (!status && !v.reason) {
        qkv_gguf_add_bytes(&e->writer, part.keys.data, part.keys.size);
        e->writer.key_count += part.key_count;
    }
    *reason = v.reason;
    qkv_gguf_writer_free(&part);
    json_decref(v.texts);
    free(v.types);
    free(v.scores);
    json_decref(root);
    return status;
}

/* Copies the keys of the tokenizer, and those about the model in general, of the file that the model was read from. */
static enum qkv_status tokenizer_copy(struct qkv_gguf_export *e, const char *path) {
    static const char *const own[] = {"general.architecture", "general.file_type", "general.quantization_version",
                                      "general.alignment", "general.type"};
    struct qkv_gguf *g;
    struct qkv_tensors *tensors;
    enum qkv_status status = qkv_gguf_open(e->ctx, path, &g, &tensors);
    for (size_t i = 0; !status && i < g->count; i++) {
        const struct qkv_gguf_value *value = &g->values[i];
        bool skip = strncmp(value->key, "tokenizer.", 10) != 0 && strncmp(value->key, "general.", 8) != 0;
        for (size_t k = 0; k < sizeof own / sizeof *own; k++) skip = skip || !strcmp(value->key, own[k]);
        if (!skip) qkv_gguf_put_value(&e->writer, g, value);
    }
    qkv_gguf_free(g);
    qkv_tensors_close(tensors);
    return status;
}

enum qkv_status qkv_gguf_put_tokenizer(struct qkv_gguf_export *e) {
    const struct qkv_model *m = e->model;
    const char *reason = NULL;
    struct qkv_buffer text = {0};
    if (m->origin.gguf) return tokenizer_copy(e, m->origin.gguf);
    if (e->config.family && m->spec.encoder.layers && m->spec.encoder.embed.types > 0)
        qkv_gguf_put_u32(&e->writer, "tokenizer.ggml.token_type_count", (uint32_t)m->spec.encoder.embed.types);
    if (!m->tokenizer) {
        put_roles(&e->writer, m, -1, -1);
        if (e->config.family) qkv_gguf_put_text(&e->writer, "tokenizer.ggml.model", "none", 4);
        return qkv_spec_has_tokens(&m->spec)
                   ? qkv_gguf_note(e->ctx, e->notes, "the model has no tokenizer, so the file reads ids only")
                   : QKV_OK;
    }
    enum qkv_status status = qkv_tokenizer_print(e->ctx, m->tokenizer, &text);
    if (!status && e->config.family) status = tokenizer_try(e, &text, &reason);
    if (!status && (reason || !e->config.family)) {
        if (e->config.family) qkv_gguf_put_text(&e->writer, "tokenizer.ggml.model", "none", 4);
        qkv_gguf_put_text(&e->writer, QKV_GGUF_TOKENIZER, text.data, text.size);
        put_roles(&e->writer, m, -1, -1);
    }
    if (!status && reason)
        status = qkv_gguf_note(e->ctx, e->notes,
                               "the tokenizer is in the file as a tokenizer.json, which qkv reads and llama.cpp does "
                               "not: %s",
                               reason);
    qkv_buffer_free(&text);
    return status;
}
