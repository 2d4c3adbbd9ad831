/* Ranks of tiktoken as a tokenizer.json: byte-level BPE whose merges join two neighbours if their bytes together are a
 * token, first those of the lowest rank. A piece that is a token is that token. */
#include "text/tiktoken.h"

#include <stdlib.h>
#include <string.h>

#include "text/spm.h"

enum { RANK_END = 1 << 23 };

struct ranks {
    struct qkv_context *ctx;
    const char *name;
    struct qkv_strings tokens; /* in the byte alphabet, in the order of the file; value: the rank */
    size_t end;                /* one more than the largest rank */
};

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static bool rank_digit(unsigned char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '/';
}

bool qkv_tiktoken_is(const unsigned char *data, size_t size) {
    size_t at = 0;
    while (at < size && rank_digit(data[at])) at++;
    while (at < size && at && data[at] == '=') at++;
    return at && at + 1 < size && data[at] == ' ' && data[at + 1] >= '0' && data[at + 1] <= '9';
}

size_t qkv_tiktoken_count(const unsigned char *data, size_t size) {
    size_t count = 0;
    for (size_t at = 0; at < size;) {
        const unsigned char *end = memchr(data + at, '\n', size - at);
        const size_t n = end ? (size_t)(end - data) - at : size - at;
        count += n > 1;
        at += n + 1;
    }
    return count;
}

/* Adds a token by the base64 text of its bytes, which are decoded in place. */
static enum qkv_status ranks_add(struct ranks *r, size_t line, char *text, int64_t rank) {
    char key[2048];
    size_t n = 0;
    const size_t size = qkv_base64_decode(text);
    if (size == SIZE_MAX || size == 0)
        return qkv_fail(r->ctx, QKV_FORMAT, "%s: line %zu: the token is not base64 of one byte or more", r->name, line);
    if (size > sizeof key / 2)
        return qkv_fail(r->ctx, QKV_FORMAT, "%s: line %zu: the token has %zu bytes; at most %zu are read", r->name,
                        line, size, sizeof key / 2);
    for (size_t i = 0; i < size; i++) n += qkv_utf8_write(qkv_byte_symbol((unsigned char)text[i]), key + n);
    const size_t count = r->tokens.count;
    struct qkv_string *entry = qkv_strings_add(r->ctx, &r->tokens, key, n);
    if (!entry) return QKV_MEMORY;
    if (r->tokens.count == count)
        return qkv_fail(r->ctx, QKV_FORMAT, "%s: line %zu: the token has the rank %lld before", r->name, line,
                        (long long)entry->value);
    entry->value = rank;
    r->end = qkv_max(r->end, (size_t)rank + 1);
    return QKV_OK;
}

static enum qkv_status ranks_line(struct ranks *r, size_t line, char *text) {
    char *space = strchr(text, ' ');
    if (!space || space[1] < '0' || space[1] > '9' || strlen(space + 1) > 9 ||
        space[1 + strspn(space + 1, "0123456789")])
        return qkv_fail(r->ctx, QKV_FORMAT, "%s: line %zu is not a token in base64, a space and a rank", r->name, line);
    const int64_t rank = strtoll(space + 1, NULL, 10);
    if (rank >= RANK_END)
        return qkv_fail(r->ctx, QKV_FORMAT, "%s: line %zu: the rank is %lld; ranks are less than %d", r->name, line,
                        (long long)rank, RANK_END);
    *space = 0;
    return ranks_add(r, line, text, rank);
}

static enum qkv_status ranks_read(struct ranks *r, const unsigned char *data, size_t size) {
    struct qkv_buffer text = {0};
    enum qkv_status status = QKV_OK;
    for (size_t at = 0, line = 1; at < size && !status; line++) {
        const unsigned char *end = memchr(data + at, '\n', size - at);
        const size_t all = end ? (size_t)(end - data) - at : size - at;
        const size_t n = all && data[at + all - 1] == '\r' ? all - 1 : all;
        text.size = 0;
        if (memchr(data + at, 0, n)) status = qkv_fail(r->ctx, QKV_FORMAT, "%s: line %zu has a byte 0", r->name, line);
        if (!status && n) status = qkv_buffer_append(r->ctx, &text, data + at, n);
        if (!status && n) status = ranks_line(r, line, text.data);
        at += all + 1;
    }
    qkv_buffer_free(&text);
    return status;
}

/* Each byte is a token, and each rank occurs once. */
static enum qkv_status ranks_check(const struct ranks *r) {
    for (unsigned byte = 0; byte < 256; byte++) {
        char key[4];
        const size_t n = qkv_utf8_write(qkv_byte_symbol((unsigned char)byte), key);
        if (!qkv_strings_find(&r->tokens, key, n))
            return qkv_fail(r->ctx, QKV_FORMAT, "%s has no rank for the byte 0x%02X; each of the 256 bytes needs one",
                            r->name, byte);
    }
    bool *used = qkv_allocate(r->ctx, r->end, sizeof *used);
    enum qkv_status status = used ? QKV_OK : QKV_MEMORY;
    for (size_t i = 0; i < r->tokens.count && !status; i++) {
        const size_t rank = (size_t)r->tokens.entries[i].value;
        if (used[rank]) status = qkv_fail(r->ctx, QKV_FORMAT, "%s: two tokens have the rank %zu", r->name, rank);
        used[rank] = true;
    }
    free(used);
    return status;
}

/* ---- special tokens ---------------------------------------------------------------------------------------------- */

static void special_add(json_t *list, const char *text, json_int_t id, const json_t *replaced, bool special) {
    char key[24];
    snprintf(key, sizeof key, "%lld", (long long)id);
    if (json_object_get(replaced, key)) return;
    json_array_append_new(list,
                          json_pack("{s:I, s:s, s:b, s:b, s:b, s:b, s:b}", "id", id, "content", text, "single_word", 0,
                                    "lstrip", 0, "rstrip", 0, "normalized", 0, "special", special));
}

/* The word of a list with spaces that begins at *at, which moves to the next one. */
static bool special_word(const char **at, char *word, size_t size) {
    const size_t n = *at ? strcspn(*at, " ") : 0;
    if (!n) return false;
    snprintf(word, size, "%.*s", (int)n, *at);
    *at += n + ((*at)[n] == ' ');
    return true;
}

static json_t *specials_json(const struct ranks *r, const struct qkv_tiktoken_family *family, const json_t *added) {
    json_t *list = json_array(), *token;
    const char *at = family->specials, *key;
    json_int_t id = (json_int_t)r->end;
    char word[64], text[80];
    for (; special_word(&at, word, sizeof word); id++)
        if (strcmp(word, "-") != 0) special_add(list, word, id, added, true); /* "-": an id without a token */
    const int first = family->first < 0 ? 0 : family->first;
    for (int i = first; family->numbered && i <= family->last; i++, id++) {
        snprintf(text, sizeof text, "%s%lld|>", family->numbered, family->first < 0 ? (long long)id : (long long)i);
        special_add(list, text, id, added, true);
    }
    json_object_foreach((json_t *)(uintptr_t)added, key, token) {
        const char *content = json_string_value(json_object_get(token, "content"));
        char *end;
        const long long number = strtoll(key, &end, 10);
        const json_t *special = json_object_get(token, "special");
        if (content && *content && !*end && number >= 0)
            special_add(list, content, number, NULL, !json_is_boolean(special) || json_is_true(special));
    }
    return list;
}

/* The id of an added token, or −1. */
static json_int_t special_id(const json_t *list, const char *text) {
    const json_t *token;
    size_t i;
    json_array_foreach(list, i, token) {
        if (!strcmp(json_string_value(json_object_get(token, "content")), text))
            return json_integer_value(json_object_get(token, "id"));
    }
    return -1;
}

static json_t *ranks_template(const struct qkv_tiktoken_family *family, const json_t *specials) {
    json_t *single = json_array(), *pair = json_array(), *tokens = json_object();
    const char *at = family->before;
    char word[64];
    while (special_word(&at, word, sizeof word)) {
        const json_int_t id = special_id(specials, word);
        if (id < 0) continue;
        json_array_append_new(single, json_pack("{s:{s:s, s:i}}", "SpecialToken", "id", word, "type_id", 0));
        json_array_append_new(pair, json_pack("{s:{s:s, s:i}}", "SpecialToken", "id", word, "type_id", 0));
        json_object_set_new(tokens, word, json_pack("{s:s, s:[I], s:[s]}", "id", word, "ids", id, "tokens", word));
    }
    json_array_append_new(single, json_pack("{s:{s:s, s:i}}", "Sequence", "id", "A", "type_id", 0));
    json_array_append_new(pair, json_pack("{s:{s:s, s:i}}", "Sequence", "id", "A", "type_id", 0));
    json_array_append_new(pair, json_pack("{s:{s:s, s:i}}", "Sequence", "id", "B", "type_id", 1));
    const bool any = json_object_size(tokens) > 0;
    json_t *out = json_pack("{s:s, s:o, s:o, s:o}", "type", "TemplateProcessing", "single", single, "pair", pair,
                            "special_tokens", tokens);
    if (any) return out;
    json_decref(out);
    return json_null();
}

/* ---- the tokenizer.json ------------------------------------------------------------------------------------------ */

static enum qkv_status ranks_model(const struct ranks *r, json_t **out) {
    const size_t count = r->tokens.count;
    struct qkv_scored *scored = qkv_allocate(r->ctx, count, sizeof *scored);
    json_t *vocab = json_object(), *merges = NULL, *groups = NULL;
    enum qkv_status status = scored && vocab ? QKV_OK : QKV_MEMORY;
    for (size_t i = 0; i < count && !status; i++) {
        const struct qkv_string *e = &r->tokens.entries[i];
        const char *text = r->tokens.bytes.data + e->offset;
        scored[i] = (struct qkv_scored){text, e->size, -(float)e->value, true};
        json_t *key = json_stringn(text, e->size);
        if (!key || json_object_set_new(vocab, json_string_value(key), json_integer(e->value)))
            status = qkv_fail_memory(r->ctx, 0, "a vocabulary");
        json_decref(key);
    }
    if (!status) status = qkv_scored_merges(r->ctx, scored, count, &merges, &groups);
    free(scored);
    if (status) {
        json_decref(vocab);
        return status;
    }
    *out =
        json_pack("{s:s, s:n, s:n, s:b, s:b, s:b, s:o, s:o, s:o}", "type", "BPE", "dropout", "unk_token", "fuse_unk", 0,
                  "byte_fallback", 0, "ignore_merges", 1, "vocab", vocab, "merges", merges, "merge_groups", groups);
    return *out ? QKV_OK : qkv_fail_memory(r->ctx, 0, "a vocabulary");
}

static json_t *ranks_bytes(bool regex) {
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1, "use_regex",
                     regex);
}

/* GPT-2's pattern is that of ByteLevel itself. */
static json_t *ranks_splitter(const char *pattern) {
    if (pattern == qkv_pattern_gpt2) return ranks_bytes(true);
    return json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, o?]}", "type", "Sequence", "pretokenizers", "type", "Split",
                     "pattern", "Regex", pattern, "behavior", "Isolated", "invert", 0, ranks_bytes(false));
}

enum qkv_status qkv_tiktoken_json(struct qkv_context *ctx, const char *name, const unsigned char *data, size_t size,
                                  const struct qkv_tiktoken_family *family, const json_t *added, json_t **root) {
    struct ranks r = {.ctx = ctx, .name = name};
    json_t *model = NULL;
    *root = NULL;
    enum qkv_status status = ranks_read(&r, data, size);
    if (!status) status = ranks_check(&r);
    if (!status) status = ranks_model(&r, &model);
    json_t *specials = status ? NULL : specials_json(&r, family, added);
    if (!status)
        *root = json_pack("{s:s, s:n, s:n, s:o?, s:o?, s:o?, s:o?, s:o?, s:o}", "version", "1.0", "truncation",
                          "padding", "added_tokens", specials, "normalizer",
                          family->nfc ? json_pack("{s:s}", "type", "NFC") : json_null(), "pre_tokenizer",
                          ranks_splitter(family->pattern), "post_processor", ranks_template(family, specials),
                          "decoder", ranks_bytes(true), "model", model);
    qkv_strings_free(&r.tokens);
    return !status && !*root ? qkv_fail_memory(ctx, 0, "a vocabulary") : status;
}
