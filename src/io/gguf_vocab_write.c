/* The kinds of tokenizers of GGUF files, written: the keys of each kind, with what gguf_tokenizer_write.c has put into
 * the lists of tokens. */
#include <stdlib.h>
#include <string.h>

#include "io/gguf_vocab_write.h"
#include "text/text.h"

#define SPACE_MARK "\xe2\x96\x81" /* U+2581 stands for a space */

/* ---- parts of a tokenizer.json ----------------------------------------------------------------------------------- */

bool qkv_link_is(const json_t *link, const char *type) {
    const char *have = json_string_value(json_object_get(link, "type"));
    return have && !strcmp(have, type);
}

const json_t *qkv_link_at(const json_t *step, const char *list, size_t i) {
    if (!step || json_is_null(step)) return NULL;
    if (qkv_link_is(step, "Sequence")) return json_array_get(json_object_get(step, list), i);
    return i == 0 ? step : NULL;
}

static const char *link_text(const json_t *link, const char *key, const char *inner) {
    return json_string_value(json_object_get(json_object_get(link, key), inner));
}

bool qkv_link_flag(const json_t *link, const char *key, bool fallback) {
    const json_t *value = json_object_get(link, key);
    return json_is_boolean(value) ? json_is_true(value) : fallback;
}

static int vocab_unknown(const struct qkv_vocab_writing *v) {
    const json_t *id = json_object_get(v->model, "unk_id");
    const char *text = json_string_value(json_object_get(v->model, "unk_token"));
    if (json_is_integer(id)) return (int)json_integer_value(id);
    for (size_t i = 0; i < v->count && text; i++)
        if (!strcmp(json_string_value(json_array_get(v->texts, i)), text)) return (int)i;
    return -1;
}

static void vocab_mark_unknown(const struct qkv_vocab_writing *v) {
    const int id = vocab_unknown(v);
    if (id >= 0 && (size_t)id < v->count) v->types[id] = VOCAB_UNKNOWN;
}

/* ---- byte-level BPE ---------------------------------------------------------------------------------------------- */

/* The pattern of a link that cuts a text; NULL: it is none that files can name. */
static const char *link_pattern(const json_t *link) {
    if (qkv_link_is(link, "Digits") && qkv_link_flag(link, "individual_digits", false)) return "\\p{N}";
    if (!qkv_link_is(link, "Split") || qkv_link_flag(link, "invert", false)) return NULL;
    const char *behavior = json_string_value(json_object_get(link, "behavior"));
    return behavior && !strcmp(behavior, "Isolated") ? link_text(link, "pattern", "Regex") : NULL;
}

/* Collects the patterns that come before and in ByteLevel. Returns false where the step is no such list. */
static bool bpe_patterns(const struct qkv_vocab_writing *v, const char *patterns[QKV_VOCAB_PATTERNS], size_t *count) {
    const json_t *step = json_object_get(v->root, "pre_tokenizer"), *link;
    bool bytes = false;
    *count = 0;
    for (size_t i = 0; (link = qkv_link_at(step, "pretokenizers", i)); i++) {
        const bool last = qkv_link_is(link, "ByteLevel");
        const char *pattern = last ? qkv_pattern_gpt2 : link_pattern(link);
        if (bytes || !pattern || (last && qkv_link_flag(link, "add_prefix_space", true))) return false;
        bytes = last;
        if (last && !qkv_link_flag(link, "use_regex", true)) continue;
        if (*count == QKV_VOCAB_PATTERNS) return false;
        patterns[(*count)++] = pattern;
    }
    return bytes;
}

enum qkv_status qkv_vocab_put_bpe(struct qkv_vocab_writing *v) {
    const json_t *normalizer = json_object_get(v->root, "normalizer"), *merges = json_object_get(v->model, "merges");
    const json_t *form = qkv_link_at(normalizer, "normalizers", 0);
    const char *patterns[QKV_VOCAB_PATTERNS];
    char pre[QKV_VOCAB_PRE];
    size_t count;
    bool known = bpe_patterns(v, patterns, &count) && (!form || qkv_link_is(form, "NFC")) &&
                 !qkv_link_at(normalizer, "normalizers", 1);
    if (known && !json_array_size(merges)) { /* then it makes no difference where a text is cut */
        patterns[0] = qkv_pattern_gpt2;
        count = 1;
    }
    known = known && qkv_vocab_pre(patterns, count, qkv_link_flag(v->model, "ignore_merges", false), form != NULL, pre);
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
static bool spm_is(const struct qkv_vocab_writing *v, bool *prefix) {
    const json_t *normalizer = json_object_get(v->root, "normalizer"), *splitter, *link;
    bool marks = false;
    *prefix = false;
    for (size_t i = 0; (link = qkv_link_at(normalizer, "normalizers", i)); i++) {
        const char *from = link_text(link, "pattern", "String"),
                   *to = json_string_value(json_object_get(link, "content"));
        const char *before = json_string_value(json_object_get(link, "prepend"));
        const bool replaces =
            qkv_link_is(link, "Replace") && from && to && !strcmp(from, " ") && !strcmp(to, SPACE_MARK);
        const bool prepends = qkv_link_is(link, "Prepend") && before && !strcmp(before, SPACE_MARK);
        if (!replaces && !prepends) return false;
        marks = marks || replaces;
        *prefix = *prefix || prepends;
    }
    splitter = json_object_get(v->root, "pre_tokenizer");
    for (size_t i = 0; (link = qkv_link_at(splitter, "pretokenizers", i)); i++) {
        const char *scheme = json_string_value(json_object_get(link, "prepend_scheme"));
        const char *space = link_text(link, "pattern", "String");
        if (qkv_link_is(link, "Metaspace") && !qkv_link_flag(link, "split", true)) {
            marks = true;
            *prefix = scheme ? strcmp(scheme, "never") != 0 : qkv_link_flag(link, "add_prefix_space", true);
        } else if (!marks || !qkv_link_is(link, "Split") || !space || strcmp(space, " ") != 0) {
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
static void spm_scores(struct qkv_vocab_writing *v, const json_t *merges) {
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
static enum qkv_status spm_check(struct qkv_vocab_writing *v, const json_t *merges) {
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

enum qkv_status qkv_vocab_put_spm(struct qkv_vocab_writing *v) {
    const json_t *merges = json_object_get(v->model, "merges");
    bool prefix;
    if (!spm_is(v, &prefix) || qkv_link_flag(v->model, "ignore_merges", false)) {
        v->reason = "GGUF files have no name for the way that it cuts texts into pieces";
        return QKV_OK;
    }
    for (size_t i = 0; i < v->count; i++)
        if (qkv_link_flag(v->model, "byte_fallback", false) &&
            spm_is_byte(json_string_value(json_array_get(v->texts, i))))
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
static enum qkv_status wordpiece_texts(struct qkv_vocab_writing *v) {
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

enum qkv_status qkv_vocab_put_wordpiece(struct qkv_vocab_writing *v) {
    const json_t *normalizer = json_object_get(v->root, "normalizer");
    const char *prefix = json_string_value(json_object_get(v->model, "continuing_subword_prefix"));
    if (!qkv_link_is(normalizer, "BertNormalizer") || !qkv_link_flag(normalizer, "lowercase", true) ||
        !qkv_link_flag(normalizer, "strip_accents", true) || (prefix && strcmp(prefix, "##") != 0)) {
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

static bool unigram_read(const struct qkv_vocab_writing *v, struct unigram_steps *s) {
    const json_t *normalizer = json_object_get(v->root, "normalizer"), *splitter, *link;
    bool marks = false;
    *s = (struct unigram_steps){0};
    for (size_t i = 0; (link = qkv_link_at(normalizer, "normalizers", i)); i++) {
        const char *spaces = link_text(link, "pattern", "Regex");
        const bool replaces = qkv_link_is(link, "Replace") && spaces && !strcmp(spaces, " {2,}");
        if (qkv_link_is(link, "Precompiled"))
            s->charsmap = json_string_value(json_object_get(link, "precompiled_charsmap"));
        else if (!replaces && !qkv_link_is(link, "Strip"))
            return false;
        s->single_spaces = s->single_spaces || replaces;
    }
    splitter = json_object_get(v->root, "pre_tokenizer");
    for (size_t i = 0; (link = qkv_link_at(splitter, "pretokenizers", i)); i++) {
        const char *scheme = json_string_value(json_object_get(link, "prepend_scheme"));
        if (qkv_link_is(link, "WhitespaceSplit")) {
            s->single_spaces = true;
        } else if (qkv_link_is(link, "Metaspace")) {
            marks = true;
            s->prefix = scheme ? strcmp(scheme, "never") != 0 : qkv_link_flag(link, "add_prefix_space", true);
        } else {
            return false;
        }
    }
    return marks && !qkv_link_flag(v->model, "byte_fallback", false);
}

enum qkv_status qkv_vocab_put_unigram(struct qkv_vocab_writing *v) {
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
