/* Writes a tokenizer as Hugging Face tokenizer.json: a plain chain from its tables, any other as it was read. From
 * tables, one vocabulary entry and one merge per line, in the order of ids and ranks, so that equal tokenizers give
 * equal files. */
#include "text/chain.h"

#include <stdlib.h>
#include <string.h>

/* Writes a token as its key in the vocabulary, which is UTF-8. */
static void save_key(struct qkv_json *json, const struct qkv_tokenizer *t, size_t id, struct qkv_buffer *key) {
    key->size = 0;
    if (!json->status) json->status = qkv_tokenizer_key(json->ctx, t, id, key);
}

static int by_id(const void *left, const void *right) {
    const struct chain_added *a = left, *b = right;
    return (a->id > b->id) - (a->id < b->id);
}

static void print_added(struct qkv_json *json, const struct qkv_tokenizer *t, const struct chain_added *list,
                        struct qkv_buffer *key) {
    qkv_json_line(json, 2);
    qkv_json_key(json, "added_tokens");
    qkv_json_begin(json, '[');
    for (size_t i = 0; i < t->chain->added_count; i++) {
        qkv_json_line(json, 4);
        qkv_json_begin(json, '{');
        qkv_json_put_integer(json, "id", list[i].id);
        qkv_json_key(json, "content");
        save_key(json, t, (size_t)list[i].id, key);
        qkv_json_string(json, key->data, key->size);
        qkv_json_put_bool(json, "single_word", false);
        qkv_json_put_bool(json, "lstrip", false);
        qkv_json_put_bool(json, "rstrip", false);
        qkv_json_put_bool(json, "normalized", list[i].normalized);
        qkv_json_put_bool(json, "special", list[i].special);
        qkv_json_end(json, '}');
    }
    if (t->chain->added_count) qkv_json_line(json, 2);
    qkv_json_end(json, ']');
}

static void print_pre_tokenizer(struct qkv_json *json, const struct qkv_tokenizer *t) {
    qkv_json_line(json, 2);
    qkv_json_key(json, "pre_tokenizer");
    if (t->whole_words) {
        qkv_json_raw(json, "{\"type\": \"WhitespaceSplit\"}");
        return;
    }
    const struct qkv_chain *c = t->chain;
    if (c->splitters.count < 2) { /* else Split before ByteLevel */
        qkv_json_raw(json, !c->bytes ? "null" : c->pattern ? QKV_BYTE_LEVEL("true") : QKV_BYTE_LEVEL("false"));
        return;
    }
    qkv_json_begin(json, '{');
    qkv_json_put_text(json, "type", "Sequence");
    qkv_json_key(json, "pretokenizers");
    qkv_json_begin(json, '[');
    qkv_json_line(json, 4);
    qkv_json_begin(json, '{');
    qkv_json_put_text(json, "type", "Split");
    qkv_json_key(json, "pattern");
    qkv_json_begin(json, '{');
    qkv_json_put_text(json, "Regex", qkv_pattern_source(c->pattern));
    qkv_json_end(json, '}');
    qkv_json_put_text(json, "behavior", "Isolated");
    qkv_json_put_bool(json, "invert", false);
    qkv_json_end(json, '}');
    qkv_json_line(json, 4);
    qkv_json_raw(json, QKV_BYTE_LEVEL("false"));
    qkv_json_line(json, 2);
    qkv_json_end(json, ']');
    qkv_json_end(json, '}');
}

static void print_vocab(struct qkv_json *json, const struct qkv_tokenizer *t, struct qkv_buffer *key) {
    qkv_json_line(json, 4);
    qkv_json_key(json, "vocab");
    qkv_json_begin(json, '{');
    for (size_t id = 0; id < t->count && !json->status; id++) {
        if (!t->tokens[id].in_model) continue;
        save_key(json, t, id, key);
        qkv_json_line(json, 6);
        qkv_json_key_bytes(json, key->data, key->size);
        qkv_json_count(json, id);
    }
    qkv_json_line(json, 4);
    qkv_json_end(json, '}');
}

static void print_merges(struct qkv_json *json, const struct qkv_tokenizer *t, struct qkv_buffer *key) {
    qkv_json_line(json, 4);
    qkv_json_key(json, "merges");
    qkv_json_begin(json, '[');
    for (size_t i = 0; i < t->merges.count && !json->status; i++) {
        const int32_t parts[] = {t->merges.list[i].left, t->merges.list[i].right};
        qkv_json_line(json, 6);
        qkv_json_begin(json, '[');
        for (size_t k = 0; k < 2; k++) {
            save_key(json, t, (size_t)parts[k], key);
            qkv_json_string(json, key->data, key->size);
        }
        qkv_json_end(json, ']');
    }
    if (t->merges.count) qkv_json_line(json, 4);
    qkv_json_end(json, ']');
}

/* Sizes of groups of merges of one level. */
static void print_groups(struct qkv_json *json, const struct qkv_merges *merges) {
    if (!merges->levels) return;
    qkv_json_line(json, 4);
    qkv_json_key(json, "merge_groups");
    qkv_json_begin(json, '[');
    for (size_t i = 0, end; i < merges->count; i = end) {
        for (end = i + 1; end < merges->count && merges->levels[end] == merges->levels[i];) end++;
        qkv_json_count(json, end - i);
    }
    qkv_json_end(json, ']');
}

static void print_words(struct qkv_json *json, const struct qkv_tokenizer *t, struct qkv_buffer *key) {
    qkv_json_line(json, 2);
    qkv_json_key(json, "model");
    qkv_json_begin(json, '{');
    qkv_json_line(json, 4);
    qkv_json_put_text(json, "type", "WordLevel");
    print_vocab(json, t, key);
    qkv_json_line(json, 4);
    if (t->unknown >= 0) save_key(json, t, (size_t)t->unknown, key);
    qkv_json_put_text(json, "unk_token", t->unknown >= 0 ? key->data : QKV_TOKEN_UNKNOWN);
    qkv_json_line(json, 2);
    qkv_json_end(json, '}');
}

static void print_model(struct qkv_json *json, const struct qkv_tokenizer *t, struct qkv_buffer *key) {
    static const char *const nulls[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix"};
    const bool bytes = !t->chain->bytes && t->unknown < 0;
    qkv_json_line(json, 2);
    qkv_json_key(json, "model");
    qkv_json_begin(json, '{');
    qkv_json_line(json, 4);
    qkv_json_put_text(json, "type", "BPE");
    for (size_t i = 0; i < sizeof nulls / sizeof *nulls; i++) {
        qkv_json_line(json, 4);
        qkv_json_put_text(json, nulls[i], NULL);
        if (i > 0) continue;
        qkv_json_line(json, 4);
        if (t->unknown >= 0) save_key(json, t, (size_t)t->unknown, key);
        qkv_json_put_text(json, "unk_token", t->unknown >= 0 ? key->data : NULL);
    }
    qkv_json_line(json, 4);
    qkv_json_put_bool(json, "fuse_unk", false);
    qkv_json_line(json, 4);
    qkv_json_put_bool(json, "byte_fallback", bytes);
    qkv_json_line(json, 4);
    qkv_json_put_bool(json, "ignore_merges", t->chain->ignore_merges);
    print_vocab(json, t, key);
    print_merges(json, t, key);
    print_groups(json, &t->merges);
    qkv_json_line(json, 2);
    qkv_json_end(json, '}');
}

/* Writes a member of the file whose value is JSON already. */
static void print_member(struct qkv_json *json, const char *key, const char *value) {
    qkv_json_line(json, 2);
    qkv_json_put_raw(json, key, value);
}

static void print_all(struct qkv_json *json, const struct qkv_tokenizer *t, const struct chain_added *added) {
    struct qkv_buffer key = {0};
    qkv_json_begin(json, '{');
    print_member(json, "version", "\"1.0\"");
    print_member(json, "truncation", "null");
    print_member(json, "padding", "null");
    print_added(json, t, added, &key);
    print_member(json, "normalizer", t->chain->normalizers.count ? "{\"type\": \"NFC\"}" : "null");
    print_pre_tokenizer(json, t);
    print_member(json, "post_processor", t->around.json ? t->around.json : "null");
    print_member(json, "decoder",
                 t->chain->bytes  ? QKV_BYTE_LEVEL("true")
                 : t->whole_words ? "null"
                 : t->unknown >= 0
                     ? "{\"type\": \"Fuse\"}"
                     : "{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}]}");
    if (t->whole_words)
        print_words(json, t, &key);
    else
        print_model(json, t, &key);
    qkv_json_line(json, 0);
    qkv_json_end(json, '}');
    qkv_json_line(json, 0);
    qkv_json_flush(json);
    qkv_buffer_free(&key);
}

/* Writes everything to json->file, or, without one, to json->text. */
static enum qkv_status print_whole(struct qkv_json *json, const struct qkv_tokenizer *t) {
    const size_t count = t->chain->added_count;
    struct chain_added *added = qkv_allocate(json->ctx, count, sizeof *added);
    if (!added) return QKV_MEMORY;
    if (count) memcpy(added, t->chain->added, count * sizeof *added);
    qsort(added, count, sizeof *added, by_id);
    print_all(json, t, added);
    free(added);
    return json->status;
}

enum qkv_status qkv_tokenizer_print(struct qkv_context *ctx, const struct qkv_tokenizer *t, struct qkv_buffer *out) {
    struct qkv_json json = {.ctx = ctx, .style = QKV_JSON_SPACED | QKV_JSON_HEX};
    *out = json.text;
    if (!t->chain->plain) return qkv_buffer_append(ctx, out, t->chain->json, t->chain->json_size); /* as it was read */
    enum qkv_status status = print_whole(&json, t);
    *out = json.text;
    return status;
}

enum qkv_status qkv_tokenizer_save(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *path) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, t);
    QKV_NEED(ctx, path);
    struct qkv_replace replace;
    enum qkv_status status = qkv_replace_begin(ctx, path, &replace);
    if (status) return status;
    struct qkv_json json = {.ctx = ctx, .style = QKV_JSON_SPACED | QKV_JSON_HEX, .file = replace.file, .name = path};
    status = t->chain->plain ? print_whole(&json, t) : qkv_replace_write(&replace, t->chain->json, t->chain->json_size);
    qkv_json_free(&json);
    if (!status) return qkv_replace_commit(&replace);
    qkv_replace_cancel(&replace);
    return status;
}
