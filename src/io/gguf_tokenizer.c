/* The tokenizer of a GGUF file, as the tokenizer.json that its keys describe. tokenizer.ggml.model is the kind: "gpt2",
 * byte-level BPE with a pattern that tokenizer.ggml.pre names; "llama", BPE of characters whose merges are those of
 * the highest scores (SentencePiece); "bert", WordPiece; "t5", Unigram. */
#include <stdlib.h>
#include <string.h>

#include "base/json_load.h"
#include "io/chat_templates.h"
#include "io/gguf_vocab.h"
#include "text/text.h"
#include "text/tiktoken.h"

#define SPACE_MARK "\xe2\x96\x81" /* U+2581 stands for a space */

/* ---- patterns of byte-level BPE ---------------------------------------------------------------------------------- */

#define PUNCTUATION "[\\p{P}\\$\\+<=>\\^~\\|`]+"
#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES      " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define LLAMA_3     CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|" SPACES
#define QWEN_2      CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|" SPACES
#define UPPER       "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER       "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define BEFORE      "[^\\r\\n\\p{L}\\p{N}]?"
#define SPACES_4    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define TEKKEN      BEFORE UPPER "*" LOWER "+|" BEFORE UPPER "+" LOWER "*|\\p{N}|" SPACES_4
#define GPT_4O                                                                                                         \
    BEFORE UPPER "*" LOWER "+" CONTRACTION "?|" BEFORE UPPER "+" LOWER "*" CONTRACTION "?|\\p{N}{1,3}|" SPACES_4
#define DEEPSEEK_3                                                                                                     \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"               \
    " ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
/* Letters of scripts with two cases. */
#define CASED                                                                                                          \
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-Ρ"                                             \
    "Σ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕ"                       \
    "ἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴ"                 \
    "ῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳ"       \
    "Ꙁ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲"       \
    "𐳀-𐳲𑢠-𑣟𞤀-𞥃"
#define DEEPSEEK_LETTERS "\\s?[" CASED "]+"
#define DEEPSEEK_MARKS   "\\s?[!-/:-~！-／：-～‘-‟　-。]+"
#define DEEPSEEK_HAN     "[一-龥ࠀ-一가-퟿]+"
#define GPT_2            qkv_pattern_gpt2

/* Names of tokenizer.ggml.pre, with spaces, and the patterns that cut a text one after the other. */
static const struct {
    const char *names, *patterns[QKV_VOCAB_PATTERNS];
    bool whole;  /* a piece that is a token is not merged */
    bool begins; /* a text begins with the bos token unless add_bos_token says otherwise */
    bool nfc;
} pres[] = {
    {"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2", {LLAMA_3}, true, true, false},
    {"qwen2 deepseek-r1-qwen", {QWEN_2}, false, false, true},
    {"stablelm2 hunyuan", {QWEN_2}, false, false, false},
    {"dbrx smaug-bpe glm4 chatglm-bpe", {LLAMA_3}, false, false, false},
    {"gpt-2 gpt2 phi-2 mpt jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code roberta-bpe",
     {GPT_2},
     false,
     false,
     false},
    {"olmo modern-bert", {GPT_2}, false, false, true},
    {"starcoder refact smollm codeshell exaone", {"\\p{N}", GPT_2}, false, false, false},
    {"command-r", {"\\p{N}", GPT_2}, false, false, true},
    {"falcon", {PUNCTUATION, GPT_2, "[0-9][0-9][0-9]"}, false, false, false},
    {"bloom poro-chat gpt3-finnish", {" ?[^(\\s|.,!?…。，、।۔،)]+"}, false, false, false},
    {"tekken", {TEKKEN}, true, true, false},
    {"gpt-4o llama4", {GPT_4O}, false, false, false},
    {"deepseek-v3 deepseek-r1", {"\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK_3}, false, false, false},
    {"deepseek-llm",
     {"[\r\n]", DEEPSEEK_LETTERS, DEEPSEEK_MARKS, "\\s+$", DEEPSEEK_HAN, "\\p{N}"},
     false,
     false,
     false},
    {"kimi-k2", {qkv_pattern_kimi}, true, false, false},
    {"deepseek-coder", {"[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", DEEPSEEK_HAN, "\\p{N}"}, false, false, false},
    {"default", {PUNCTUATION, GPT_2, "\\p{N}+", "[0-9][0-9][0-9]"}, false, false, false},
};

bool qkv_vocab_pre(const char *const *patterns, size_t count, bool whole, bool nfc, char name[QKV_VOCAB_PRE]) {
    for (size_t i = 0; i < sizeof pres / sizeof *pres; i++) {
        bool same = pres[i].whole == whole && pres[i].nfc == nfc;
        for (size_t k = 0; k < QKV_VOCAB_PATTERNS && same; k++) {
            const char *pattern = k < count ? patterns[k] : NULL;
            same = !pres[i].patterns[k] == !pattern && (!pattern || !strcmp(pres[i].patterns[k], pattern));
        }
        if (!same || count > QKV_VOCAB_PATTERNS) continue;
        snprintf(name, QKV_VOCAB_PRE, "%.*s", (int)strcspn(pres[i].names, " "), pres[i].names);
        return true;
    }
    return false;
}

static json_t *pattern_split(const char *pattern) {
    return json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex", pattern, "behavior", "Isolated",
                     "invert", 0);
}

static json_t *bytes_link(bool regex) {
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1, "use_regex",
                     regex);
}

/* GPT-2's pattern alone is that of ByteLevel itself. */
static json_t *pattern_links(const char *const patterns[QKV_VOCAB_PATTERNS]) {
    const bool usual = patterns[0] == GPT_2 && !patterns[1];
    json_t *list = json_array();
    if (usual) {
        json_decref(list);
        return bytes_link(true);
    }
    for (size_t i = 0; i < QKV_VOCAB_PATTERNS && patterns[i] && list; i++)
        json_array_append_new(list, pattern_split(patterns[i]));
    json_array_append_new(list, bytes_link(false));
    return json_pack("{s:s, s:o}", "type", "Sequence", "pretokenizers", list);
}

/* The row of tokenizer.ggml.pre. */
static enum qkv_status bpe_pre(const struct gguf_vocab *v, size_t *row) {
    char name[64];
    const enum qkv_status status = qkv_vocab_text(v, "pre", "default", name, sizeof name);
    for (*row = 0; *row < sizeof pres / sizeof *pres && !status; (*row)++)
        for (const char *at = pres[*row].names; *at; at += strcspn(at, " "), at += *at == ' ')
            if (strcspn(at, " ") == strlen(name) && !strncmp(at, name, strlen(name))) return QKV_OK;
    return status ? status
                  : qkv_fail(v->ctx, QKV_FORMAT, "%s: tokenizer.ggml.pre is \"%s\", whose pattern is not known",
                             v->g->path, name);
}

static enum qkv_status bpe_make(struct gguf_vocab *v, json_t **root) {
    size_t row;
    enum qkv_status status = bpe_pre(v, &row);
    const struct qkv_gguf_value *merges = qkv_gguf_find(v->g, "tokenizer.ggml.merges");
    if (!status && (!merges || merges->type != QKV_GGUF_STRING))
        status = qkv_fail(v->ctx, QKV_FORMAT, "%s has no texts tokenizer.ggml.merges", v->g->path);
    json_t *vocab = NULL;
    if (!status) status = qkv_vocab_keys(v, false, &vocab);
    if (status) return status;
    v->begins = pres[row].begins;
    *root =
        json_pack("{s:o?, s:o?, s:{s:s, s:n, s:o, s:o?, s:b}, s:{s:s}}", "normalizer",
                  pres[row].nfc ? json_pack("{s:s}", "type", "NFC") : json_null(), "pre_tokenizer",
                  pattern_links(pres[row].patterns), "model", "type", "BPE", "unk_token", "vocab", vocab, "merges",
                  qkv_gguf_value_json(v->g, merges), "ignore_merges", pres[row].whole, "decoder", "type", "ByteLevel");
    return QKV_OK;
}

/* ---- SentencePiece ----------------------------------------------------------------------------------------------- */

static json_t *replace_link(const char *from, const char *to) {
    return json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "String", from, "content", to);
}

static json_t *sequence_link(const char *list, json_t *links) {
    return json_pack("{s:s, s:o?}", "type", "Sequence", list, links);
}

static enum qkv_status spm_make(struct gguf_vocab *v, json_t **root) {
    const bool prefix = qkv_vocab_flag(v, "add_space_prefix", true);
    const char *unknown = json_string_value(json_array_get(v->texts, (size_t)qkv_vocab_id(v, "unknown", 0)));
    json_t *vocab = NULL, *merges = NULL;
    enum qkv_status status = qkv_vocab_keys(v, true, &vocab);
    if (!status) status = qkv_vocab_merges(v, &merges);
    if (status) {
        json_decref(vocab);
        return status;
    }
    v->begins = true;
    json_t *before = json_array(), *after = json_array();
    if (prefix) json_array_append_new(before, json_pack("{s:s, s:s}", "type", "Prepend", "prepend", SPACE_MARK));
    json_array_append_new(before, replace_link(" ", SPACE_MARK));
    json_array_append_new(after, replace_link(SPACE_MARK, " "));
    json_array_append_new(after, json_pack("{s:s}", "type", "ByteFallback"));
    json_array_append_new(after, json_pack("{s:s}", "type", "Fuse"));
    if (prefix)
        json_array_append_new(
            after, json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip", "content", " ", "start", 1, "stop", 0));
    *root = json_pack("{s:o?, s:n, s:{s:s, s:s?, s:b, s:b, s:o, s:o}, s:o?}", "normalizer",
                      sequence_link("normalizers", before), "pre_tokenizer", "model", "type", "BPE", "unk_token",
                      unknown, "fuse_unk", 1, "byte_fallback", v->bytes, "vocab", vocab, "merges", merges, "decoder",
                      sequence_link("decoders", after));
    return QKV_OK;
}

/* ---- WordPiece --------------------------------------------------------------------------------------------------- */

/* The keys of BERT: files have a mark before tokens that begin a word, and nothing before those that go on. */
static json_t *wordpiece_keys(const struct gguf_vocab *v) {
    json_t *vocab = json_object(), *text;
    size_t id;
    struct qkv_buffer key = {0};
    bool made = vocab != NULL;
    json_array_foreach(v->texts, id, text) {
        const char *s = json_string_value(text);
        const size_t n = strlen(s), mark = strlen(SPACE_MARK);
        const bool begins = !strncmp(s, SPACE_MARK, mark);
        const bool as_it_is = qkv_vocab_type(v, id) != VOCAB_NORMAL || (n > 1 && s[0] == '[' && s[n - 1] == ']');
        key.size = 0;
        made = made && !qkv_buffer_print(v->ctx, &key, "%s%s", begins || as_it_is ? "" : "##",
                                         begins && !as_it_is ? s + mark : s);
        if (made) made = !json_object_set_new(vocab, key.data, json_integer((json_int_t)id));
    }
    qkv_buffer_free(&key);
    if (made) return vocab;
    json_decref(vocab);
    return NULL;
}

static enum qkv_status wordpiece_make(struct gguf_vocab *v, json_t **root) {
    const char *unknown = json_string_value(json_array_get(v->texts, (size_t)qkv_vocab_id(v, "unknown", 0)));
    *root = json_pack("{s:{s:s, s:b, s:b, s:n, s:b}, s:{s:s}, s:{s:s, s:s?, s:s, s:i, s:o?}, s:{s:s, s:s, s:b}}",
                      "normalizer", "type", "BertNormalizer", "clean_text", 1, "handle_chinese_chars", 1,
                      "strip_accents", "lowercase", 1, "pre_tokenizer", "type", "BertPreTokenizer", "model", "type",
                      "WordPiece", "unk_token", unknown, "continuing_subword_prefix", "##", "max_input_chars_per_word",
                      100, "vocab", wordpiece_keys(v), "decoder", "type", "WordPiece", "prefix", "##", "cleanup", 1);
    v->begins = v->ends = true;
    return QKV_OK;
}

/* ---- Unigram ----------------------------------------------------------------------------------------------------- */

static enum qkv_status unigram_make(struct gguf_vocab *v, json_t **root) {
    const char *scheme = qkv_vocab_flag(v, "add_space_prefix", true) ? "always" : "never";
    json_t *words = json_array(), *charsmap = qkv_vocab_charsmap(v), *list = json_array();
    if (!v->scores) {
        json_decref(words);
        json_decref(charsmap);
        json_decref(list);
        return qkv_fail(v->ctx, QKV_FORMAT, "%s has no tokenizer.ggml.scores, which Unigram needs", v->g->path);
    }
    if (qkv_vocab_flag(v, "remove_extra_whitespaces", false))
        json_array_append_new(words, json_pack("{s:s}", "type", "WhitespaceSplit"));
    json_array_append_new(words, json_pack("{s:s, s:s, s:s, s:b}", "type", "Metaspace", "replacement", SPACE_MARK,
                                           "prepend_scheme", scheme, "split", 1));
    for (size_t i = 0; i < v->count; i++)
        json_array_append_new(list,
                              json_pack("[O, f]", json_array_get(v->texts, i), qkv_gguf_number(v->g, v->scores, i)));
    *root = json_pack("{s:o?, s:o?, s:{s:s, s:I, s:o, s:b}, s:{s:s, s:s, s:s}}", "normalizer",
                      json_is_string(charsmap)
                          ? json_pack("{s:s, s:O}", "type", "Precompiled", "precompiled_charsmap", charsmap)
                          : json_null(),
                      "pre_tokenizer", sequence_link("pretokenizers", words), "model", "type", "Unigram", "unk_id",
                      (json_int_t)qkv_vocab_id(v, "unknown", 2), "vocab", list, "byte_fallback", 0, "decoder", "type",
                      "Metaspace", "replacement", SPACE_MARK, "prepend_scheme", scheme);
    json_decref(charsmap);
    v->ends = true;
    return QKV_OK;
}

/* ---- the tokenizer ----------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    enum qkv_status (*make)(struct gguf_vocab *v, json_t **root);
} kinds[] = {{"gpt2", bpe_make}, {"llama", spm_make}, {"bert", wordpiece_make}, {"t5", unigram_make}};

static enum qkv_status tokenizer_make(struct gguf_vocab *v, json_t **root) {
    char model[32];
    enum qkv_status status = qkv_vocab_text(v, "model", "none", model, sizeof model);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !status; i++) {
        if (strcmp(kinds[i].name, model) != 0) continue;
        status = kinds[i].make(v, root);
        return status || *root ? status : qkv_fail_memory(v->ctx, 0, "a vocabulary");
    }
    return status ? status
                  : qkv_fail(v->ctx, QKV_FORMAT,
                             "%s: tokenizer.ggml.model is \"%s\"; gpt2, llama, bert and t5 can be read", v->g->path,
                             model);
}

static enum qkv_status tokenizer_parse(struct gguf_vocab *v, json_t *root, struct qkv_tokenizer **out) {
    const bool made = !json_object_set_new(root, "version", json_string("1.0")) &&
                      !json_object_set_new(root, "added_tokens", qkv_vocab_added(v)) &&
                      !json_object_set_new(root, "post_processor", qkv_vocab_template(v));
    char *text = made ? json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    if (!text) return qkv_fail_memory(v->ctx, 0, "a vocabulary");
    const enum qkv_status status = qkv_tokenizer_parse(v->ctx, text, strlen(text), v->g->path, out);
    free(text);
    return status;
}

/* Reads a whole tokenizer.json, which says more than the other keys. Tokens of those are not needed then. */
static enum qkv_status tokenizer_whole(struct gguf_vocab *v, const struct qkv_gguf_value *whole,
                                       struct qkv_tokenizer **out) {
    const char *text;
    size_t at = 0, size;
    if (whole->array || !qkv_gguf_text(v->g, whole, &at, &text, &size))
        return qkv_fail(v->ctx, QKV_FORMAT, "%s: " QKV_GGUF_TOKENIZER " is not a text", v->g->path);
    enum qkv_status status = qkv_tokenizer_parse(v->ctx, text, size, v->g->path, out);
    if (status) return status;
    v->count = (*out)->count;
    return qkv_vocab_roles(v, *out);
}

/* Reads the languages of the folder that the file was made of. Those that are no texts are none. */
static enum qkv_status tokenizer_languages(const struct qkv_gguf *g, struct qkv_tokenizer *t) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < 4 && !status; i++) {
        char key[64], code[QKV_LANGUAGE_TEXT];
        const char *text;
        size_t at = 0, size;
        snprintf(key, sizeof key, QKV_GGUF_LANGUAGE "%s", qkv_language_keys[i / 2][i % 2]);
        const struct qkv_gguf_value *value = qkv_gguf_find(g, key);
        if (!value || value->array || !qkv_gguf_text(g, value, &at, &text, &size) || size >= sizeof code) continue;
        memcpy(code, text, size);
        code[size] = 0;
        status = qkv_language_name(g->ctx, t, i / 2, i % 2, code);
    }
    qkv_language_take_source(t);
    return status;
}

enum qkv_status qkv_gguf_tokenizer(const struct qkv_gguf *g, struct qkv_tokenizer **out) {
    struct gguf_vocab v = {.ctx = g->ctx, .g = g};
    const struct qkv_gguf_value *whole = qkv_gguf_find(g, QKV_GGUF_TOKENIZER);
    json_t *root = NULL;
    *out = NULL;
    enum qkv_status status = whole ? tokenizer_whole(&v, whole, out) : qkv_vocab_begin(&v);
    if (!whole) {
        if (!status) status = tokenizer_make(&v, &root);
        if (!status) status = tokenizer_parse(&v, root, out);
        if (!status) status = qkv_vocab_roles(&v, *out);
    }
    if (!status) status = qkv_gguf_chat_sources(g, &(*out)->chats);
    if (!status) status = tokenizer_languages(g, *out);
    if (status) {
        qkv_tokenizer_free(*out);
        *out = NULL;
    }
    json_decref(root);
    json_decref(v.texts);
    return status;
}
