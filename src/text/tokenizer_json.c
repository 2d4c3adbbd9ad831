/* Reads a Hugging Face tokenizer.json that this library's own machine can run (text.h): byte-level BPE as in GPT-2,
 * Llama 3 and Qwen, BPE over characters with byte fallback or an unknown token, and WordLevel over words between white
 * space. Any other file fails with QKV_FORMAT and no message; it is then read as a chain, which also has the messages
 * about files that are not tokenizers. template.c reads the post_processor. */
#include <stdlib.h>
#include <string.h>

#include "text/chain.h"

enum { FILE_BYTES = 1 << 28 };

struct reader {
    struct qkv_context *ctx;
    const char *name; /* of the file */
    struct qkv_tokenizer *t;
    const struct qkv_vocab_json *file;
    struct qkv_strings added; /* WordLevel: the contents of added_tokens */
    size_t id_bound;
    bool fallback;       /* <0xNN> are bytes, which spell characters outside the vocabulary */
    const char *unknown; /* else the key of the token for such characters */
};

static bool is_type(const json_t *value, const char *type) {
    const char *is = json_string_value(json_object_get(value, "type"));
    return is && strcmp(is, type) == 0;
}

static bool tokenizer_json_absent(const json_t *value) {
    return !value || json_is_null(value);
}

/* Reads a boolean that may be missing. */
static enum qkv_status read_bool(const json_t *object, const char *key, bool fallback, bool *out) {
    const json_t *value = json_object_get(object, key);
    *out = tokenizer_json_absent(value) ? fallback : json_is_true(value);
    return tokenizer_json_absent(value) || json_is_boolean(value) ? QKV_OK : QKV_FORMAT;
}

/* ---- pipeline ---------------------------------------------------------------------------------------------------- */

static enum qkv_status read_byte_level(const json_t *value, bool *use_regex) {
    bool prefix;
    if (read_bool(value, "add_prefix_space", true, &prefix) || prefix) return QKV_FORMAT;
    return read_bool(value, "use_regex", true, use_regex);
}

static enum qkv_status set_pattern(const struct reader *r, const char *source) {
    return qkv_pattern_create(r->ctx, source, &r->t->pattern);
}

static enum qkv_status read_split(const struct reader *r, const json_t *split) {
    const char *behavior = json_string_value(json_object_get(split, "behavior")),
               *source = json_string_value(json_object_get(json_object_get(split, "pattern"), "Regex"));
    bool invert;
    if (!behavior || strcmp(behavior, "Isolated") != 0 || !source) return QKV_FORMAT;
    if (read_bool(split, "invert", false, &invert) || invert) return QKV_FORMAT;
    return set_pattern(r, source);
}

static enum qkv_status read_pre_tokenizer(const struct reader *r, const json_t *value) {
    struct qkv_tokenizer *t = r->t;
    bool use_regex = false;
    if (tokenizer_json_absent(value)) return QKV_OK;
    t->whole_words = is_type(value, "WhitespaceSplit");
    t->byte_level = !t->whole_words;
    if (t->whole_words) return set_pattern(r, qkv_pattern_words);
    if (is_type(value, "ByteLevel")) {
        enum qkv_status status = read_byte_level(value, &use_regex);
        if (status || !use_regex) return status;
        t->gpt2 = true;
        return set_pattern(r, qkv_pattern_gpt2);
    }
    const json_t *parts = json_object_get(value, "pretokenizers");
    const json_t *split = json_array_get(parts, 0), *level = json_array_get(parts, 1);
    if (!is_type(value, "Sequence") || json_array_size(parts) != 2) return QKV_FORMAT;
    if (!is_type(split, "Split") || !is_type(level, "ByteLevel")) return QKV_FORMAT;
    if (read_byte_level(level, &use_regex) || use_regex) return QKV_FORMAT;
    return read_split(r, split);
}

static enum qkv_status read_normalizer(const struct reader *r, const json_t *value) {
    const json_t *parts = json_object_get(value, "normalizers");
    if (tokenizer_json_absent(value)) return QKV_OK;
    if (is_type(value, "Sequence") && json_is_array(parts) && json_array_size(parts) == 0) return QKV_OK;
    r->t->nfc = is_type(value, "NFC");
    return r->t->nfc ? QKV_OK : QKV_FORMAT;
}

static bool decoder_fits(const struct reader *r, const json_t *value) {
    const json_t *parts = json_object_get(value, "decoders");
    if (r->t->byte_level) return is_type(value, "ByteLevel");
    if (r->t->whole_words) return tokenizer_json_absent(value);
    if (!r->fallback) return is_type(value, "Fuse");
    return is_type(value, "Sequence") && json_array_size(parts) == 2 &&
           is_type(json_array_get(parts, 0), "ByteFallback") && is_type(json_array_get(parts, 1), "Fuse");
}

/* ---- vocabulary -------------------------------------------------------------------------------------------------- */

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

/* Converts a key in the byte alphabet to bytes. Returns false if it has other characters. */
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

static enum qkv_status read_token(const struct reader *r, const struct qkv_string *entry, char *scratch) {
    const char *key = r->file->keys.bytes.data + entry->offset;
    const size_t size = entry->size, id = (size_t)entry->value;
    size_t n = size;
    if (entry->value < 0 || id >= r->id_bound || size == 0) return QKV_FORMAT;
    if (r->t->whole_words) { /* the bytes of an added token have no space before them */
        const bool added = qkv_strings_find(&r->added, key, size) != NULL;
        return qkv_tokenizer_set(r->ctx, r->t, id, key, size, added ? QKV_TOKEN_RAW : QKV_TOKEN_WORD);
    }
    if (!r->t->byte_level) {
        int byte = r->fallback ? fallback_byte(key, size) : -1;
        char c = (char)byte;
        if (byte >= 0) return qkv_tokenizer_set(r->ctx, r->t, id, &c, 1, QKV_TOKEN_BYTE);
        return qkv_tokenizer_set(r->ctx, r->t, id, key, size, QKV_TOKEN_TEXT);
    }
    if (key_bytes(key, size, scratch, &n)) return qkv_tokenizer_set(r->ctx, r->t, id, scratch, n, QKV_TOKEN_TEXT);
    return qkv_tokenizer_set(r->ctx, r->t, id, key, size, QKV_TOKEN_RAW);
}

static enum qkv_status read_vocab(const struct reader *r) {
    const struct qkv_strings *keys = &r->file->keys;
    size_t longest = 0;
    for (size_t i = 0; i < keys->count; i++) longest = qkv_max(longest, keys->entries[i].size);
    char *scratch = qkv_allocate(r->ctx, longest + 1, 1);
    enum qkv_status status = scratch ? QKV_OK : QKV_MEMORY;
    for (size_t i = 0; i < keys->count && !status; i++) status = read_token(r, &keys->entries[i], scratch);
    free(scratch);
    return status;
}

/* The id of a key, or −1. */
static int32_t find_id(const struct reader *r, const char *key, size_t size) {
    const struct qkv_string *entry = qkv_strings_find(&r->file->keys, key, size);
    return entry ? (int32_t)entry->value : -1;
}

/* ---- merges ------------------------------------------------------------------------------------------------------ */

/* The token of a key in a merge. Merges join text; byte tokens do not take part. */
static int32_t merge_token(const struct reader *r, const char *key, size_t size) {
    const int32_t id = find_id(r, key, size);
    return id >= 0 && r->t->tokens[id].form == QKV_TOKEN_BYTE ? -1 : id;
}

static enum qkv_status read_merge(const struct reader *r, const struct qkv_vocab_merge *merge,
                                  struct qkv_buffer *joined) {
    if (!merge->left) return QKV_FORMAT;
    joined->size = 0;
    enum qkv_status status = qkv_buffer_append(r->ctx, joined, merge->left, merge->left_size);
    if (!status) status = qkv_buffer_append(r->ctx, joined, merge->right, merge->right_size);
    if (status) return status;
    const int32_t left = merge_token(r, merge->left, merge->left_size),
                  right = merge_token(r, merge->right, merge->right_size),
                  result = merge_token(r, joined->data, joined->size);
    if (left < 0 || right < 0 || result < 0) return QKV_FORMAT;
    return qkv_merges_add(r->ctx, &r->t->merges, left, right, result);
}

static enum qkv_status read_merges(const struct reader *r, const json_t *merges) {
    struct qkv_buffer joined = {0};
    enum qkv_status status = json_is_array(merges) ? QKV_OK : QKV_FORMAT;
    for (size_t i = 0; i < r->file->merge_count && !status; i++) status = read_merge(r, &r->file->merges[i], &joined);
    qkv_buffer_free(&joined);
    return status;
}

/* ---- model, added tokens ----------------------------------------------------------------------------------------- */

/* WordLevel: a word outside the vocabulary becomes unk_token if there is one, else it is an error. */
static enum qkv_status read_words(struct reader *r, const json_t *model, const json_t *added) {
    const json_t *unknown = json_object_get(model, "unk_token");
    const char *key = json_string_value(unknown);
    if (!is_type(model, "WordLevel") || r->file->keys.count == 0) return QKV_FORMAT;
    if (!tokenizer_json_absent(unknown) && !key) return QKV_FORMAT;
    r->unknown = key && find_id(r, key, strlen(key)) >= 0 ? key : NULL;
    for (size_t i = 0; i < json_array_size(added); i++) {
        const char *content = json_string_value(json_object_get(json_array_get(added, i), "content"));
        if (content && !qkv_strings_add(r->ctx, &r->added, content, strlen(content))) return QKV_MEMORY;
    }
    return QKV_OK;
}

static enum qkv_status read_model(struct reader *r, const json_t *model, const json_t *added) {
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const json_t *dropout = json_object_get(model, "dropout");
    bool fuse;
    if (!r->file->has_vocab) return QKV_FORMAT;
    if (r->t->whole_words) return read_words(r, model, added);
    if (!is_type(model, "BPE")) return QKV_FORMAT;
    if (!tokenizer_json_absent(dropout) && !(json_is_number(dropout) && json_number_value(dropout) == 0))
        return QKV_FORMAT;
    for (size_t i = 0; i < sizeof affixes / sizeof *affixes; i++) {
        const json_t *affix = json_object_get(model, affixes[i]);
        if (!tokenizer_json_absent(affix) && !(json_is_string(affix) && json_string_length(affix) == 0))
            return QKV_FORMAT;
    }
    enum qkv_status status = read_bool(model, "fuse_unk", false, &fuse);
    if (!status) status = read_bool(model, "byte_fallback", false, &r->fallback);
    if (!status) status = read_bool(model, "ignore_merges", false, &r->t->ignore_merges);
    if (status || r->t->byte_level || r->fallback) return status;
    /* Byte-level, unk_token and fuse_unk have no effect: every byte has a token. */
    r->unknown = json_string_value(json_object_get(model, "unk_token"));
    return r->unknown && !fuse ? QKV_OK : QKV_FORMAT;
}

/* Checks added tokens before anything long is read. */
static bool added_fit(const json_t *added) {
    static const char *const others[] = {"single_word", "lstrip", "rstrip"};
    bool value;
    for (size_t i = 0; i < json_array_size(added); i++)
        for (size_t k = 0; k < sizeof others / sizeof *others; k++)
            if (read_bool(json_array_get(added, i), others[k], false, &value) || value) return false;
    return tokenizer_json_absent(added) || json_is_array(added);
}

static enum qkv_status read_added_token(const struct reader *r, const json_t *token) {
    const char *content = json_string_value(json_object_get(token, "content"));
    const json_t *id = json_object_get(token, "id");
    const json_int_t n = json_integer_value(id);
    bool special, normalized;
    if (!content || !json_is_integer(id) || n < 0 || (size_t)n >= r->id_bound) return QKV_FORMAT;
    if (read_bool(token, "special", false, &special) || read_bool(token, "normalized", !special, &normalized))
        return QKV_FORMAT;
    const int32_t known = find_id(r, content, strlen(content));
    const struct qkv_token *there = (size_t)n < r->t->count ? &r->t->tokens[n] : NULL;
    if (known >= 0 ? known != n : there && there->form != QKV_TOKEN_HOLE && !there->added) return QKV_FORMAT;
    if (there && there->added) return QKV_FORMAT;
    return qkv_tokenizer_set_added(r->ctx, r->t, (size_t)n, content, strlen(content), special, normalized);
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static enum qkv_status read_tables(struct reader *r, const json_t *model, const json_t *added) {
    r->id_bound = 2 * (r->file->keys.count + json_array_size(added)) + 1024;
    enum qkv_status status = read_vocab(r);
    if (!status && r->unknown) r->t->unknown = find_id(r, r->unknown, strlen(r->unknown));
    if (!status && r->unknown && r->t->unknown < 0) status = QKV_FORMAT;
    if (!status && !r->t->whole_words) status = read_merges(r, json_object_get(model, "merges"));
    for (size_t i = 0; i < json_array_size(added) && !status; i++)
        status = read_added_token(r, json_array_get(added, i));
    return status;
}

static enum qkv_status read_all(struct reader *r) {
    const json_t *root = r->file->root;
    const json_t *model = json_object_get(root, "model"), *added = json_object_get(root, "added_tokens");
    if (!tokenizer_json_absent(json_object_get(root, "truncation")) ||
        !tokenizer_json_absent(json_object_get(root, "padding")) || !added_fit(added))
        return QKV_FORMAT;
    enum qkv_status status = read_normalizer(r, json_object_get(root, "normalizer"));
    if (!status) status = read_pre_tokenizer(r, json_object_get(root, "pre_tokenizer"));
    if (!status) status = read_model(r, model, added);
    if (!status && !decoder_fits(r, json_object_get(root, "decoder"))) status = QKV_FORMAT;
    if (!status) status = read_tables(r, model, added);
    if (!status) status = qkv_template_read(r->ctx, r->name, json_object_get(root, "post_processor"), r->t);
    return status ? status : qkv_tokenizer_finish(r->ctx, r->t);
}

enum qkv_status qkv_tokenizer_parse(struct qkv_context *ctx, const char *json, size_t size, const char *name,
                                    struct qkv_tokenizer **out) {
    *out = NULL;
    struct qkv_vocab_json file;
    const struct qkv_json_text text = {.name = name, .data = json, .size = size, .max_size = FILE_BYTES};
    enum qkv_status status = qkv_vocab_json_load(ctx, &text, &file);
    if (status) return status;
    struct reader r = {.ctx = ctx, .name = name, .t = qkv_tokenizer_new(ctx), .file = &file};
    status = r.t ? read_all(&r) : QKV_MEMORY;
    qkv_strings_free(&r.added);
    if (status == QKV_FORMAT) {
        qkv_forgive(ctx);
        qkv_tokenizer_free(r.t);
        r.t = qkv_tokenizer_new(ctx);
        status = r.t ? qkv_chain_read(ctx, name, &file, json, size, r.t) : QKV_MEMORY;
    }
    qkv_vocab_json_free(&file);
    if (status) {
        qkv_tokenizer_free(r.t);
        return status;
    }
    *out = r.t;
    return QKV_OK;
}

enum qkv_status qkv_tokenizer_load(struct qkv_context *ctx, const char *path, struct qkv_tokenizer **out) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, out);
    *out = NULL;
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, path);
    struct qkv_map map;
    enum qkv_status status = qkv_read_file(ctx, path, &map);
    if (status) return status;
    status = qkv_tokenizer_parse(ctx, (const char *)map.data, map.size, path, out);
    qkv_unmap_file(&map);
    return status;
}
