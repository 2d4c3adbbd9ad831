/* Writing a tokenizer as Hugging Face tokenizer.json: one vocabulary entry and one merge a line, in the order of ids and
 * ranks, so that equal tokenizers give equal files. */
#include "text/text.h"

#include <stdlib.h>
#include <string.h>

/* Appends a JSON string. All that is written here is UTF-8. */
static enum qkv_status print_string(struct qkv_context *ctx, struct qkv_buffer *out, const char *s, size_t n) {
    enum qkv_status status = qkv_buffer_append(ctx, out, "\"", 1);
    for (size_t i = 0; i < n && !status; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == '"' || c == '\\') {
            char escaped[2] = {'\\', s[i]};
            status = qkv_buffer_append(ctx, out, escaped, 2);
        } else if (c < 0x20) {
            status = qkv_buffer_print(ctx, out, "\\u%04x", (unsigned)c);
        } else {
            status = qkv_buffer_append(ctx, out, &s[i], 1);
        }
    }
    return status ? status : qkv_buffer_append(ctx, out, "\"", 1);
}

static enum qkv_status print_key(struct qkv_context *ctx, const struct qkv_tokenizer *t, size_t id,
                                 struct qkv_buffer *key, struct qkv_buffer *out) {
    key->size = 0;
    enum qkv_status status = qkv_tokenizer_key(ctx, t, id, key);
    return status ? status : print_string(ctx, out, key->data, key->size);
}

static int by_id(const void *left, const void *right) {
    const struct qkv_added *a = left, *b = right;
    return (a->id > b->id) - (a->id < b->id);
}

static enum qkv_status print_added(struct qkv_context *ctx, const struct qkv_tokenizer *t, struct qkv_buffer *out) {
    if (t->added_count == 0) return qkv_buffer_print(ctx, out, "  \"added_tokens\": [],\n");
    struct qkv_added *list = qkv_allocate(ctx, t->added_count, sizeof *list);
    if (!list) return QKV_MEMORY;
    memcpy(list, t->added, t->added_count * sizeof *list);
    qsort(list, t->added_count, sizeof *list, by_id);
    enum qkv_status status = qkv_buffer_print(ctx, out, "  \"added_tokens\": [\n");
    for (size_t i = 0; i < t->added_count && !status; i++) {
        status = qkv_buffer_print(ctx, out, "    {\"id\": %d, \"content\": ", (int)list[i].id);
        if (!status) status = print_string(ctx, out, qkv_token_bytes(t, (size_t)list[i].id), list[i].size);
        if (status) break;
        status = qkv_buffer_print(ctx, out,
                                  ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": %s, "
                                  "\"special\": %s}%s\n",
                                  list[i].normalized ? "true" : "false", list[i].special ? "true" : "false",
                                  i + 1 < t->added_count ? "," : "");
    }
    free(list);
    return status ? status : qkv_buffer_print(ctx, out, "  ],\n");
}

#define BYTE_LEVEL(use_regex)                                                                                          \
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": " use_regex "}"

static enum qkv_status print_pre_tokenizer(struct qkv_context *ctx, const struct qkv_tokenizer *t,
                                           struct qkv_buffer *out) {
    if (!t->byte_level) return qkv_buffer_print(ctx, out, "  \"pre_tokenizer\": null,\n");
    if (!t->pattern) return qkv_buffer_print(ctx, out, "  \"pre_tokenizer\": " BYTE_LEVEL("false") ",\n");
    if (t->gpt2) return qkv_buffer_print(ctx, out, "  \"pre_tokenizer\": " BYTE_LEVEL("true") ",\n");
    const char *source = qkv_pattern_source(t->pattern);
    enum qkv_status status = qkv_buffer_print(
        ctx, out,
        "  \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [\n    {\"type\": \"Split\", "
        "\"pattern\": {\"Regex\": ");
    if (!status) status = print_string(ctx, out, source, strlen(source));
    if (!status) status = qkv_buffer_print(ctx, out, "}, \"behavior\": \"Isolated\", \"invert\": false},\n    ");
    return status ? status : qkv_buffer_print(ctx, out, BYTE_LEVEL("false") "\n  ]},\n");
}

static enum qkv_status print_vocab(struct qkv_context *ctx, const struct qkv_tokenizer *t, struct qkv_buffer *key,
                                   struct qkv_buffer *out) {
    enum qkv_status status = qkv_buffer_print(ctx, out, "    \"vocab\": {");
    const char *separator = "\n      ";
    for (size_t id = 0; id < t->count && !status; id++) {
        if (!t->tokens[id].in_model) continue;
        status = qkv_buffer_append(ctx, out, separator, strlen(separator));
        separator = ",\n      ";
        if (!status) status = print_key(ctx, t, id, key, out);
        if (!status) status = qkv_buffer_print(ctx, out, ": %zu", id);
    }
    return status ? status : qkv_buffer_print(ctx, out, "\n    },\n");
}

static enum qkv_status print_merges(struct qkv_context *ctx, const struct qkv_tokenizer *t, struct qkv_buffer *key,
                                    struct qkv_buffer *out) {
    enum qkv_status status = qkv_buffer_print(ctx, out, "    \"merges\": [");
    for (size_t i = 0; i < t->merges.count && !status; i++) {
        const struct qkv_merge *merge = &t->merges.list[i];
        status = qkv_buffer_print(ctx, out, i > 0 ? ",\n      [" : "\n      [");
        if (!status) status = print_key(ctx, t, (size_t)merge->left, key, out);
        if (!status) status = qkv_buffer_print(ctx, out, ", ");
        if (!status) status = print_key(ctx, t, (size_t)merge->right, key, out);
        if (!status) status = qkv_buffer_print(ctx, out, "]");
    }
    return status ? status : qkv_buffer_print(ctx, out, t->merges.count > 0 ? "\n    ]\n" : "]\n");
}

enum qkv_status qkv_tokenizer_print(struct qkv_context *ctx, const struct qkv_tokenizer *t, struct qkv_buffer *out) {
    struct qkv_buffer key = {0};
    enum qkv_status status =
        qkv_buffer_print(ctx, out, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n");
    if (!status) status = print_added(ctx, t, out);
    if (!status)
        status = qkv_buffer_print(ctx, out, "  \"normalizer\": %s,\n", t->nfc ? "{\"type\": \"NFC\"}" : "null");
    if (!status) status = print_pre_tokenizer(ctx, t, out);
    if (!status) {
        status = qkv_buffer_print(
            ctx, out, "  \"post_processor\": %s,\n  \"decoder\": %s,\n  \"model\": {\n    \"type\": \"BPE\",\n",
            t->around.json ? t->around.json : "null",
            t->byte_level
                ? BYTE_LEVEL("true")
                : "{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}]}");
    }
    if (!status) {
        status =
            qkv_buffer_print(ctx, out,
                             "    \"dropout\": null,\n    \"unk_token\": null,\n    \"continuing_subword_prefix\": "
                             "null,\n    \"end_of_word_suffix\": null,\n    \"fuse_unk\": false,\n    "
                             "\"byte_fallback\": %s,\n    \"ignore_merges\": %s,\n",
                             t->byte_level ? "false" : "true", t->ignore_merges ? "true" : "false");
    }
    if (!status) status = print_vocab(ctx, t, &key, out);
    if (!status) status = print_merges(ctx, t, &key, out);
    if (!status) status = qkv_buffer_print(ctx, out, "  }\n}\n");
    qkv_buffer_free(&key);
    return status;
}

enum qkv_status qkv_tokenizer_save(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *path) {
    QKV_CALL(ctx);
    struct qkv_buffer out = {0};
    enum qkv_status status = qkv_tokenizer_print(ctx, t, &out);
    if (!status) status = qkv_write_file(ctx, path, out.data, out.size);
    qkv_buffer_free(&out);
    return status;
}
