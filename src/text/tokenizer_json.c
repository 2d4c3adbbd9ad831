/* Reading Hugging Face tokenizer.json: byte-level BPE as GPT-2, Llama 3 and Qwen have it, BPE over characters with
 * bytes as fallback or with a token for what is unknown, and WordLevel over words apart by white space. A file that asks for anything else is refused with the key and the value: it would not give the
 * ids it was made for. The post_processor is read by template.c. */
#include "text/chain.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_load.h"

enum { FILE_BYTES = 1 << 28 };

struct reader {
    struct qkv_context *ctx;
    const char *name; /* of the file */
    struct qkv_tokenizer *t;
    const json_t *vocab;      /* key -> id */
    struct qkv_strings added; /* of WordLevel: the contents of added_tokens */
    size_t id_bound;
    bool fallback;       /* <0xNN> are bytes, which spell characters that are not in the vocabulary */
    const char *unknown; /* the key of what stands for these otherwise */
};

static const char *type_of(const json_t *value) {
    const char *type = json_string_value(json_object_get(value, "type"));
    return type ? type : "";
}

static bool is_type(const json_t *value, const char *type) {
    return strcmp(type_of(value), type) == 0;
}

static bool tokenizer_json_absent(const json_t *value) {
    return !value || json_is_null(value);
}

/* A boolean that may be left out. */
static enum qkv_status read_bool(const struct reader *r, const json_t *object, const char *key, const char *path,
                                 bool fallback, bool *out) {
    const json_t *value = json_object_get(object, key);
    *out = tokenizer_json_absent(value) ? fallback : json_is_true(value);
    return tokenizer_json_absent(value) || json_is_boolean(value)
               ? QKV_OK
               : qkv_json_refuse(r->ctx, r->name, path, value, "true and false");
}

/* ---- pipeline ------------------------------------------------------------------------------------------------------ */

static enum qkv_status read_byte_level(const struct reader *r, const json_t *value, bool *use_regex) {
    bool prefix;
    enum qkv_status status = read_bool(r, value, "add_prefix_space", "pre_tokenizer.add_prefix_space", true, &prefix);
    if (!status && prefix) {
        return qkv_fail(r->ctx, QKV_FORMAT, "%s: pre_tokenizer.add_prefix_space is true; this reader knows false",
                        r->name);
    }
    return status ? status : read_bool(r, value, "use_regex", "pre_tokenizer.use_regex", true, use_regex);
}

static enum qkv_status set_pattern(const struct reader *r, const char *source) {
    enum qkv_status status = qkv_pattern_create(r->ctx, source, &r->t->pattern);
    if (status != QKV_FORMAT) return status;
    char why[512];
    snprintf(why, sizeof why, "%s", qkv_message(r->ctx));
    return qkv_fail(r->ctx, QKV_FORMAT, "%s: pre_tokenizer: %s", r->name, why);
}

static enum qkv_status read_split(const struct reader *r, const json_t *split) {
    const json_t *behavior = json_object_get(split, "behavior"), *pattern = json_object_get(split, "pattern");
    if (!json_is_string(behavior) || strcmp(json_string_value(behavior), "Isolated") != 0) {
        return qkv_json_refuse(r->ctx, r->name, "pre_tokenizer.behavior", behavior, "Isolated");
    }
    bool invert;
    enum qkv_status status = read_bool(r, split, "invert", "pre_tokenizer.invert", false, &invert);
    if (status) return status;
    if (invert)
        return qkv_fail(r->ctx, QKV_FORMAT, "%s: pre_tokenizer.invert is true; this reader knows false", r->name);
    const char *source = json_string_value(json_object_get(pattern, "Regex"));
    if (!source) return qkv_json_refuse(r->ctx, r->name, "pre_tokenizer.pattern", pattern, "{\"Regex\": ...}");
    return set_pattern(r, source);
}

static enum qkv_status read_pre_tokenizer(const struct reader *r, const json_t *value) {
    static const char knows[] = "null, WhitespaceSplit, ByteLevel, and a Sequence of Split and ByteLevel";
    struct qkv_tokenizer *t = r->t;
    bool use_regex = false;
    if (tokenizer_json_absent(value)) return QKV_OK;
    t->whole_words = is_type(value, "WhitespaceSplit");
    t->byte_level = !t->whole_words;
    if (t->whole_words) return set_pattern(r, qkv_pattern_words);
    if (is_type(value, "ByteLevel")) {
        enum qkv_status status = read_byte_level(r, value, &use_regex);
        if (status || !use_regex) return status;
        t->gpt2 = true;
        return set_pattern(r, qkv_pattern_gpt2);
    }
    const json_t *parts = json_object_get(value, "pretokenizers");
    const json_t *split = json_array_get(parts, 0), *level = json_array_get(parts, 1);
    if (!is_type(value, "Sequence") || json_array_size(parts) != 2) {
        return qkv_json_refuse(r->ctx, r->name, "pre_tokenizer", value, knows);
    }
    if (!is_type(split, "Split"))
        return qkv_json_refuse(r->ctx, r->name, "pre_tokenizer.pretokenizers[0]", split, knows);
    if (!is_type(level, "ByteLevel"))
        return qkv_json_refuse(r->ctx, r->name, "pre_tokenizer.pretokenizers[1]", level, knows);
    enum qkv_status status = read_byte_level(r, level, &use_regex);
    if (!status && use_regex) {
        return qkv_json_refuse(r->ctx, r->name, "pre_tokenizer.pretokenizers[1]", level,
                               "ByteLevel with \"use_regex\": false after a Split");
    }
    return status ? status : read_split(r, split);
}

static enum qkv_status read_normalizer(const struct reader *r, const json_t *value) {
    if (tokenizer_json_absent(value)) return QKV_OK;
    const json_t *parts = json_object_get(value, "normalizers");
    if (is_type(value, "Sequence") && json_is_array(parts) && json_array_size(parts) == 0) return QKV_OK;
    r->t->nfc = is_type(value, "NFC");
    return r->t->nfc ? QKV_OK : qkv_json_refuse(r->ctx, r->name, "normalizer", value, "null and NFC");
}

static enum qkv_status read_decoder(struct reader *r, const json_t *value) {
    const json_t *parts = json_object_get(value, "decoders");
    const bool bytes = is_type(value, "Sequence") && json_array_size(parts) == 2 &&
                       is_type(json_array_get(parts, 0), "ByteFallback") && is_type(json_array_get(parts, 1), "Fuse");
    if (r->t->byte_level) {
        return is_type(value, "ByteLevel")
                   ? QKV_OK
                   : qkv_json_refuse(r->ctx, r->name, "decoder", value, "ByteLevel with a ByteLevel pre_tokenizer");
    }
    if (r->t->whole_words)
        return tokenizer_json_absent(value)
                   ? QKV_OK
                   : qkv_json_refuse(r->ctx, r->name, "decoder", value, "null with a WhitespaceSplit pre_tokenizer");
    if (!r->fallback)
        return is_type(value, "Fuse")
                   ? QKV_OK
                   : qkv_json_refuse(r->ctx, r->name, "decoder", value,
                                     "Fuse without a pre_tokenizer and with \"byte_fallback\": false");
    return bytes ? QKV_OK
                 : qkv_json_refuse(r->ctx, r->name, "decoder", value,
                                   "a Sequence of ByteFallback and Fuse without a pre_tokenizer");
}

/* ---- vocabulary ------------------------------------------------------------------------------------------------------ */

static enum qkv_status read_id(const struct reader *r, const json_t *value, const char *what, const char *key,
                               size_t *id) {
    json_int_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < 0 || (size_t)n >= r->id_bound) {
        return qkv_fail(
            r->ctx, QKV_FORMAT,
            "%s: the id of \"%.60s\" in %s is not an integer in [0, %zu), which is ample for this vocabulary", r->name,
            key, what, r->id_bound);
    }
    *id = (size_t)n;
    return QKV_OK;
}

/* A byte token <0xNN>: its byte, or -1. */
static int fallback_byte(const char *key, size_t size) {
    if (size != 6 || memcmp(key, "<0x", 3) != 0 || key[5] != '>') return -1;
    int byte = 0;
    for (int i = 3; i < 5; i++) {
        const char *digits = "0123456789ABCDEF", *digit = key[i] ? strchr(digits, key[i]) : NULL;
        if (!digit) return -1;
        byte = byte * 16 + (int)(digit - digits);
    }
    return byte;
}

/* Turns a key in the byte alphabet into bytes; false if it has other characters. */
static bool key_bytes(const char *key, size_t size, char *out, size_t *out_size) {
    size_t n = 0;
    for (size_t at = 0; at < size;) {
        uint32_t code;
        int length = qkv_utf8_scan(key + at, size - at, &code);
        int byte = length > 0 ? qkv_symbol_byte(code) : -1;
        if (byte < 0) return false;
        out[n++] = (char)byte;
        at += (size_t)length;
    }
    *out_size = n;
    return true;
}

/* Whether a key is an added token, whose bytes have no space before them. */
static bool is_added(const struct reader *r, const char *key) {
    return qkv_strings_find(&r->added, key, strlen(key)) != NULL;
}

static enum qkv_status read_token(const struct reader *r, const char *key, const json_t *value, char *scratch) {
    size_t id = 0, size = strlen(key), n = size;
    enum qkv_status status = read_id(r, value, "model.vocab", key, &id);
    if (status) return status;
    if (size == 0) return qkv_fail(r->ctx, QKV_FORMAT, "%s: model.vocab has an empty token", r->name);
    if (r->t->whole_words)
        return qkv_tokenizer_set(r->ctx, r->t, id, key, size, is_added(r, key) ? QKV_TOKEN_RAW : QKV_TOKEN_WORD);
    if (!r->t->byte_level) {
        int byte = r->fallback ? fallback_byte(key, size) : -1;
        char c = (char)byte;
        if (byte >= 0) return qkv_tokenizer_set(r->ctx, r->t, id, &c, 1, QKV_TOKEN_BYTE);
        return qkv_tokenizer_set(r->ctx, r->t, id, key, size, QKV_TOKEN_TEXT);
    }
    if (key_bytes(key, size, scratch, &n)) return qkv_tokenizer_set(r->ctx, r->t, id, scratch, n, QKV_TOKEN_TEXT);
    return qkv_tokenizer_set(r->ctx, r->t, id, key, size, QKV_TOKEN_RAW);
}

/* Puts the file's name before the sentence of a lower call. */
static enum qkv_status with_name(const struct reader *r, const char *key, enum qkv_status status) {
    char why[512];
    if (!status || strncmp(qkv_message(r->ctx), r->name, strlen(r->name)) == 0) return status;
    snprintf(why, sizeof why, "%s", qkv_message(r->ctx));
    return qkv_fail(r->ctx, status, "%s: %s: %s", r->name, key, why);
}

static enum qkv_status read_vocab(struct reader *r) {
    size_t longest = 0;
    const char *key;
    json_t *value;
    json_t *vocab = (json_t *)(uintptr_t)r->vocab; /* jansson's iterators want it writable */
    json_object_foreach(vocab, key, value) {
        if (strlen(key) > longest) longest = strlen(key);
    }
    char *scratch = qkv_allocate(r->ctx, longest + 1, 1);
    enum qkv_status status = scratch ? QKV_OK : QKV_MEMORY;
    if (!status) {
        json_object_foreach(vocab, key, value) {
            status = read_token(r, key, value, scratch);
            if (status) break;
        }
    }
    free(scratch);
    return with_name(r, "model.vocab", status);
}

/* The token of what is unknown. */
static enum qkv_status read_unknown(const struct reader *r) {
    const json_t *id = r->unknown ? json_object_get(r->vocab, r->unknown) : NULL;
    if (r->unknown && !id)
        return qkv_fail(r->ctx, QKV_FORMAT, "%s: model.unk_token is \"%.60s\", which is not in model.vocab", r->name,
                        r->unknown);
    if (id) r->t->unknown = (int32_t)json_integer_value(id);
    return QKV_OK;
}

/* ---- merges ---------------------------------------------------------------------------------------------------------- */

/* The id of a token in a merge, -1 if it is none. Merges are over text; byte tokens do not take part. */
static int32_t merge_token(const struct reader *r, const char *key) {
    const json_t *id = json_object_get(r->vocab, key);
    if (!id) return -1;
    int32_t n = (int32_t)json_integer_value(id);
    return r->t->tokens[n].form == QKV_TOKEN_BYTE ? -1 : n;
}

static enum qkv_status merge_fail(const struct reader *r, size_t i, const char *key) {
    return qkv_fail(r->ctx, QKV_FORMAT, "%s: model.merges[%zu] needs the token \"%.60s\", which is not in model.vocab",
                    r->name, i, key);
}

static enum qkv_status add_merge(const struct reader *r, size_t i, const char *left, const char *right,
                                 struct qkv_buffer *joined) {
    int32_t a = merge_token(r, left), b = merge_token(r, right);
    if (a < 0) return merge_fail(r, i, left);
    if (b < 0) return merge_fail(r, i, right);
    joined->size = 0;
    enum qkv_status status = qkv_buffer_append(r->ctx, joined, left, strlen(left));
    if (!status) status = qkv_buffer_append(r->ctx, joined, right, strlen(right));
    if (status) return status;
    int32_t result = merge_token(r, joined->data);
    if (result < 0) return merge_fail(r, i, joined->data);
    return qkv_merges_add(r->ctx, &r->t->merges, a, b, result);
}

static enum qkv_status read_merge(const struct reader *r, size_t i, const json_t *merge, struct qkv_buffer *joined) {
    const char *left = json_string_value(json_array_get(merge, 0)),
               *right = json_string_value(json_array_get(merge, 1));
    if (left && right && json_array_size(merge) == 2) return add_merge(r, i, left, right, joined);
    const char *text = json_string_value(merge), *space = text ? strchr(text, ' ') : NULL;
    if (!space || strchr(space + 1, ' ')) {
        return qkv_fail(r->ctx, QKV_FORMAT, "%s: model.merges[%zu] is neither \"a b\" nor [\"a\", \"b\"]", r->name, i);
    }
    char *first = qkv_copy_bytes(r->ctx, text, (size_t)(space - text));
    if (!first) return QKV_MEMORY;
    enum qkv_status status = add_merge(r, i, first, space + 1, joined);
    free(first);
    return status;
}

static enum qkv_status read_merges(const struct reader *r, const json_t *merges) {
    if (!json_is_array(merges)) return qkv_json_refuse(r->ctx, r->name, "model.merges", merges, "a list");
    struct qkv_buffer joined = {0};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < json_array_size(merges) && !status; i++) {
        status = read_merge(r, i, json_array_get(merges, i), &joined);
    }
    qkv_buffer_free(&joined);
    return status;
}

/* ---- model, added tokens --------------------------------------------------------------------------------------------- */

/* WordLevel: a word that is not in the vocabulary is unk_token where that is, else an error. */
static enum qkv_status read_words(struct reader *r, const json_t *model, const json_t *added) {
    const json_t *unknown = json_object_get(model, "unk_token");
    if (!tokenizer_json_absent(unknown) && !json_is_string(unknown))
        return qkv_json_refuse(r->ctx, r->name, "model.unk_token", unknown, "a text");
    r->vocab = json_object_get(model, "vocab");
    if (!json_is_object(r->vocab))
        return qkv_json_refuse(r->ctx, r->name, "model.vocab", r->vocab, "an object of token: id");
    const char *key = json_string_value(unknown);
    r->unknown = key && json_object_get(r->vocab, key) ? key : NULL;
    if (json_object_size(r->vocab) == 0)
        return qkv_fail(r->ctx, QKV_FORMAT, "%s: model.vocab has no word; give it some", r->name);
    for (size_t i = 0; i < json_array_size(added); i++) {
        const char *content = json_string_value(json_object_get(json_array_get(added, i), "content"));
        if (content && !qkv_strings_add(r->ctx, &r->added, content, strlen(content))) return QKV_MEMORY;
    }
    return QKV_OK;
}

static enum qkv_status read_model(struct reader *r, const json_t *model, const json_t *added) {
    bool fuse;
    if (r->t->whole_words && is_type(model, "WordLevel")) return read_words(r, model, added);
    if (r->t->whole_words)
        return qkv_fail(r->ctx, QKV_FORMAT,
                        "%s: model.type is not WordLevel, which is what this reader knows with a WhitespaceSplit "
                        "pre_tokenizer",
                        r->name);
    if (!is_type(model, "BPE")) {
        const char *type = type_of(model);
        return qkv_fail(r->ctx, QKV_FORMAT, "%s: model.type is %.60s; this reader knows BPE", r->name,
                        *type ? type : "missing");
    }
    const json_t *dropout = json_object_get(model, "dropout");
    if (!tokenizer_json_absent(dropout) && json_number_value(dropout) != 0.0)
        return qkv_json_refuse(r->ctx, r->name, "model.dropout", dropout, "null");
    static const char *const affixes[][2] = {{"continuing_subword_prefix", "model.continuing_subword_prefix"},
                                             {"end_of_word_suffix", "model.end_of_word_suffix"}};
    for (size_t i = 0; i < 2; i++) {
        const json_t *affix = json_object_get(model, affixes[i][0]);
        if (tokenizer_json_absent(affix) || (json_is_string(affix) && json_string_length(affix) == 0)) continue;
        return qkv_json_refuse(r->ctx, r->name, affixes[i][1], affix, "null");
    }
    enum qkv_status status = read_bool(r, model, "fuse_unk", "model.fuse_unk", false, &fuse);
    if (!status) status = read_bool(r, model, "byte_fallback", "model.byte_fallback", false, &r->fallback);
    if (!status) status = read_bool(r, model, "ignore_merges", "model.ignore_merges", false, &r->t->ignore_merges);
    if (status) return status;
    /* unk_token and fuse_unk have no part where every byte has a token, so that nothing is unknown. */
    const json_t *unknown = json_object_get(model, "unk_token");
    if (!r->t->byte_level && !r->fallback) {
        r->unknown = json_string_value(unknown);
        if (!r->unknown)
            return qkv_fail(
                r->ctx, QKV_FORMAT,
                "%s: model.byte_fallback is false and there is no ByteLevel pre_tokenizer, nor a model.unk_token; this "
                "reader knows BPE over bytes, with bytes to fall back on, or with a token for what is unknown",
                r->name);
        if (fuse)
            return qkv_json_refuse(r->ctx, r->name, "model.fuse_unk", json_object_get(model, "fuse_unk"), "false");
    }
    r->vocab = json_object_get(model, "vocab");
    if (!json_is_object(r->vocab))
        return qkv_json_refuse(r->ctx, r->name, "model.vocab", r->vocab, "an object of token: id");
    return QKV_OK;
}

static enum qkv_status read_added_token(const struct reader *r, const json_t *token) {
    static const char *const unknown[][2] = {{"single_word", "added_tokens.single_word"},
                                             {"lstrip", "added_tokens.lstrip"},
                                             {"rstrip", "added_tokens.rstrip"}};
    const char *content = json_string_value(json_object_get(token, "content"));
    if (!content) return qkv_json_refuse(r->ctx, r->name, "added_tokens", token, "objects with id and content");
    bool special, normalized, value;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < 3; i++) {
        status = read_bool(r, token, unknown[i][0], unknown[i][1], false, &value);
        if (status) return status;
        if (value)
            return qkv_fail(r->ctx, QKV_FORMAT, "%s: %s of \"%.60s\" is true; this reader knows false", r->name,
                            unknown[i][1], content);
    }
    status = read_bool(r, token, "special", "added_tokens.special", false, &special);
    if (!status) status = read_bool(r, token, "normalized", "added_tokens.normalized", !special, &normalized);
    size_t id = 0;
    if (!status) status = read_id(r, json_object_get(token, "id"), "added_tokens", content, &id);
    if (status) return status;
    const json_t *known = json_object_get(r->vocab, content);
    if (known ? (size_t)json_integer_value(known) != id
              : id < r->t->count && r->t->tokens[id].form != QKV_TOKEN_HOLE && !r->t->tokens[id].added) {
        return qkv_fail(r->ctx, QKV_FORMAT,
                        "%s: added_tokens: the id of \"%.60s\" is %zu, which model.vocab contradicts", r->name, content,
                        id);
    }
    if (id < r->t->count && r->t->tokens[id].added) {
        return qkv_fail(r->ctx, QKV_FORMAT, "%s: added_tokens: \"%.60s\" has the id %zu of another one", r->name,
                        content, id);
    }
    return with_name(r, "added_tokens",
                     qkv_tokenizer_set_added(r->ctx, r->t, id, content, strlen(content), special, normalized));
}

/* ---- the file -------------------------------------------------------------------------------------------------------- */

static enum qkv_status read_all(struct reader *r, const json_t *root) {
    static const char *const off[] = {"truncation", "padding"};
    if (!json_is_object(root)) return qkv_json_refuse(r->ctx, r->name, "the file", root, "an object");
    for (size_t i = 0; i < 2; i++) {
        const json_t *value = json_object_get(root, off[i]);
        if (!tokenizer_json_absent(value)) return qkv_json_refuse(r->ctx, r->name, off[i], value, "null");
    }
    const json_t *model = json_object_get(root, "model"), *added = json_object_get(root, "added_tokens");
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *token = json_array_get(added, i);
        if (json_is_true(json_object_get(token, "lstrip")) || json_is_true(json_object_get(token, "rstrip")) ||
            json_is_true(json_object_get(token, "single_word")))
            return qkv_json_refuse(r->ctx, r->name, "added_tokens", token, "tokens without flags");
    }
    enum qkv_status status = read_normalizer(r, json_object_get(root, "normalizer"));
    if (!status) status = read_pre_tokenizer(r, json_object_get(root, "pre_tokenizer"));
    if (!status) status = read_model(r, model, added);
    if (!status) status = read_decoder(r, json_object_get(root, "decoder"));
    if (!status && !tokenizer_json_absent(added) && !json_is_array(added))
        status = qkv_json_refuse(r->ctx, r->name, "added_tokens", added, "a list");
    if (status) return status;
    r->id_bound = 2 * (json_object_size(r->vocab) + json_array_size(added)) + 1024;
    status = read_vocab(r);
    if (!status) status = read_unknown(r);
    if (!status && !r->t->whole_words) status = read_merges(r, json_object_get(model, "merges"));
    for (size_t i = 0; i < json_array_size(added) && !status; i++)
        status = read_added_token(r, json_array_get(added, i));
    if (!status) status = qkv_template_read(r->ctx, r->name, json_object_get(root, "post_processor"), r->t);
    return status ? status : with_name(r, "model", qkv_tokenizer_finish(r->ctx, r->t));
}

enum qkv_status qkv_tokenizer_parse(struct qkv_context *ctx, const char *json, size_t size, const char *name,
                                    struct qkv_tokenizer **out) {
    *out = NULL;
    json_t *root;
    const struct qkv_json_text text = {.name = name, .data = json, .size = size, .max_size = FILE_BYTES};
    enum qkv_status status = qkv_json_load(ctx, &text, &root);
    if (status) return status;
    struct reader r = {.ctx = ctx, .name = name, .t = qkv_tokenizer_new(ctx)};
    status = r.t ? read_all(&r, root) : QKV_MEMORY;
    qkv_strings_free(&r.added);
    if (status == QKV_FORMAT) { /* more than the machine does */
        qkv_forgive(ctx);
        qkv_tokenizer_free(r.t);
        r.t = qkv_tokenizer_new(ctx);
        status = r.t ? qkv_chain_read(ctx, name, root, json, size, r.t) : QKV_MEMORY;
    }
    json_decref(root);
    if (status) {
        qkv_tokenizer_free(r.t);
        return status;
    }
    *out = r.t;
    return QKV_OK;
}

enum qkv_status qkv_tokenizer_load(struct qkv_context *ctx, const char *path, struct qkv_tokenizer **out) {
    QKV_CALL(ctx);
    *out = NULL;
    struct qkv_map map;
    enum qkv_status status = qkv_read_file(ctx, path, &map);
    if (status) return status;
    status = qkv_tokenizer_parse(ctx, (const char *)map.data, map.size, path, out);
    qkv_unmap_file(&map);
    return status;
}
