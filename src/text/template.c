/* The post-processor of a tokenizer.json: TemplateProcessing, BertProcessing and RobertaProcessing place special tokens
 * before and after a sequence; ByteLevel and RobertaProcessing trim white space from spans. The JSON is kept for
 * saving, also the parts that are not used: the template of pairs, and type ids. */
#include "text/chain.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_load.h"
#include "text/sequence.h"

#define MAX_IDS 4096 /* the maximum around a sequence */

struct template_reader {
    struct qkv_context *ctx;
    const char *name; /* of the file */
    struct qkv_tokenizer *t;
    size_t capacity;
    bool seen; /* there was a TemplateProcessing */
};

static bool template_is_type(const json_t *value, const char *type) {
    const char *is = json_string_value(json_object_get(value, "type"));
    return is && strcmp(is, type) == 0;
}

static enum qkv_status template_add_id(struct template_reader *r, int32_t id) {
    struct qkv_template *around = &r->t->around;
    size_t count = around->before + around->after;
    if (count == MAX_IDS)
        return qkv_fail(r->ctx, QKV_FORMAT, "%s: post_processor.single places more than %d tokens around a sequence",
                        r->name, MAX_IDS);
    int32_t *ids = qkv_list_room(r->ctx, around->ids, &r->capacity, count, 1, sizeof *ids);
    if (!ids) return QKV_MEMORY;
    around->ids = ids;
    around->ids[count] = id;
    if (around->whole)
        around->after++;
    else
        around->before++;
    return QKV_OK;
}

/* Adds the ids of a special token from special_tokens: usually one id, that of the token of the same name. */
static enum qkv_status template_add_special(struct template_reader *r, const json_t *specials, const json_t *piece) {
    const char *name = json_string_value(json_object_get(piece, "id"));
    const json_t *special = name ? json_object_get(specials, name) : NULL, *ids = json_object_get(special, "ids");
    if (!name) return qkv_json_refuse(r->ctx, r->name, "post_processor.single", piece, "a SpecialToken with an id");
    if (!json_is_array(ids))
        return qkv_fail(r->ctx, QKV_FORMAT, "%s: post_processor.special_tokens has no ids for \"%.60s\"", r->name,
                        name);
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < json_array_size(ids) && !status; i++) {
        const json_t *value = json_array_get(ids, i);
        json_int_t id = json_integer_value(value);
        if (!json_is_integer(value) || id < 0 || id > INT32_MAX || !qkv_tokenizer_token(r->t, (int)id, NULL))
            return qkv_fail(r->ctx, QKV_FORMAT,
                            "%s: post_processor.special_tokens gives \"%.60s\" an id that no token has", r->name, name);
        status = template_add_id(r, (int32_t)id);
    }
    return status;
}

static enum qkv_status template_read_single(struct template_reader *r, const json_t *value) {
    static const char knows[] = "a list of SpecialToken and, once, the Sequence A";
    const json_t *single = json_object_get(value, "single"), *specials = json_object_get(value, "special_tokens");
    enum qkv_status status = QKV_OK;
    if (r->seen) return qkv_json_refuse(r->ctx, r->name, "post_processor.processors", value, "one TemplateProcessing");
    r->seen = true;
    for (size_t i = 0; i < json_array_size(single) && !status; i++) {
        const json_t *piece = json_array_get(single, i), *sequence = json_object_get(piece, "Sequence");
        const char *which = json_string_value(json_object_get(sequence, "id"));
        const json_t *special = json_object_get(piece, "SpecialToken");
        if (special) {
            status = template_add_special(r, specials, special);
        } else if (which && strcmp(which, "A") == 0 && !r->t->around.whole) {
            r->t->around.whole = true;
        } else {
            return qkv_json_refuse(r->ctx, r->name, "post_processor.single", single, knows);
        }
    }
    return status || r->t->around.whole ? status
                                        : qkv_json_refuse(r->ctx, r->name, "post_processor.single", single, knows);
}

/* trim_offsets of ByteLevel and RobertaProcessing; true if missing. */
static enum qkv_status template_read_trims(struct template_reader *r, const json_t *value) {
    if (json_is_false(json_object_get(value, "trim_offsets"))) return QKV_OK;
    r->t->around.trims = true;
    r->t->around.trims_after_space = !json_is_false(json_object_get(value, "add_prefix_space"));
    return QKV_OK;
}

/* BertProcessing and RobertaProcessing: cls, the sequence, sep; cls and sep are [token, id]. */
static enum qkv_status template_read_pair(struct template_reader *r, const json_t *value) {
    static const char *const keys[] = {"cls", "sep"};
    if (r->seen) return qkv_json_refuse(r->ctx, r->name, "post_processor.processors", value, "one that places tokens");
    r->seen = true;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < 2 && !status; i++) {
        const json_t *end = json_object_get(value, keys[i]), *id = json_array_get(end, 1);
        const json_int_t n = json_integer_value(id);
        r->t->around.whole = i == 1;
        if (!json_is_integer(id) || n < 0 || n > INT32_MAX || !qkv_tokenizer_token(r->t, (int)n, NULL))
            return qkv_fail(r->ctx, QKV_FORMAT, "%s: post_processor.%s is not [token, id] of a token", r->name,
                            keys[i]);
        status = template_add_id(r, (int32_t)n);
    }
    return status;
}

static enum qkv_status template_read_part(struct template_reader *r, const char *key, const json_t *value) {
    if (template_is_type(value, "ByteLevel")) return template_read_trims(r, value);
    if (template_is_type(value, "BertProcessing")) return template_read_pair(r, value);
    if (template_is_type(value, "RobertaProcessing")) {
        enum qkv_status status = template_read_trims(r, value);
        return status ? status : template_read_pair(r, value);
    }
    if (template_is_type(value, "TemplateProcessing")) return template_read_single(r, value);
    return qkv_json_refuse(r->ctx, r->name, key, value,
                           "null, ByteLevel, BertProcessing, RobertaProcessing and TemplateProcessing");
}

enum qkv_status qkv_template_read(struct qkv_context *ctx, const char *name, const struct json_t *value,
                                  struct qkv_tokenizer *t) {
    struct template_reader r = {.ctx = ctx, .name = name, .t = t};
    if (!value || json_is_null(value)) return QKV_OK;
    const json_t *parts = template_is_type(value, "Sequence") ? json_object_get(value, "processors") : NULL;
    enum qkv_status status = QKV_OK;
    if (!json_is_array(parts)) status = template_read_part(&r, "post_processor", value);
    for (size_t i = 0; i < json_array_size(parts) && !status; i++)
        status = template_read_part(&r, "post_processor.processors", json_array_get(parts, i));
    if (status) return status;
    char *text = json_dumps(value, JSON_ENCODE_ANY);
    if (text) t->around.json = qkv_copy_string(ctx, text);
    free(text);
    return t->around.json ? QKV_OK : qkv_fail_memory(ctx, 0, "the post-processor of a tokenizer");
}

/* Writes one item of a template: a special token, or the sequence A or B. */
static enum qkv_status template_put(struct qkv_context *ctx, struct qkv_buffer *out, const char *special,
                                    const char *sequence) {
    const char *comma = out->size && out->data[out->size - 1] != '[' ? ", " : "";
    if (special)
        return qkv_buffer_print(ctx, out, "%s{\"SpecialToken\": {\"id\": \"%s\", \"type_id\": 0}}", comma, special);
    return qkv_buffer_print(ctx, out, "%s{\"Sequence\": {\"id\": \"%s\", \"type_id\": 0}}", comma, sequence);
}

static enum qkv_status template_print(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *before,
                                      const char *after, struct qkv_buffer *out) {
    static const char *const sequences[] = {"A", "B"}, *const keys[] = {"single", "pair"};
    const char *const ends[] = {before, after};
    enum qkv_status status = qkv_buffer_print(ctx, out, "{\"type\": \"TemplateProcessing\"");
    for (size_t k = 0; k < 2 && !status; k++) {
        status = qkv_buffer_print(ctx, out, ", \"%s\": [", keys[k]);
        for (size_t i = 0; i <= k && !status; i++) {
            if (before) status = template_put(ctx, out, before, NULL);
            if (!status) status = template_put(ctx, out, NULL, sequences[i]);
            if (!status && after) status = template_put(ctx, out, after, NULL);
        }
        if (!status) status = qkv_buffer_print(ctx, out, "]");
    }
    if (!status) status = qkv_buffer_print(ctx, out, ", \"special_tokens\": {");
    for (size_t i = 0; i < 2 && !status; i++)
        if (ends[i])
            status = qkv_buffer_print(ctx, out, "%s\"%s\": {\"id\": \"%s\", \"ids\": [%d], \"tokens\": [\"%s\"]}",
                                      out->data[out->size - 1] == '{' ? "" : ", ", ends[i], ends[i],
                                      qkv_tokenizer_special(t, ends[i]), ends[i]);
    return status ? status : qkv_buffer_print(ctx, out, "}}");
}

enum qkv_status qkv_template_make(struct qkv_context *ctx, struct qkv_tokenizer *t, const char *before,
                                  const char *after) {
    struct qkv_buffer out = {0};
    json_t *root = NULL;
    enum qkv_status status = template_print(ctx, t, before, after, &out);
    const struct qkv_json_text text = {.name = "template", .data = out.data, .size = out.size, .max_size = 1 << 16};
    if (!status) status = qkv_json_load(ctx, &text, &root);
    if (!status) status = qkv_template_read(ctx, "template", root, t);
    json_decref(root);
    qkv_buffer_free(&out);
    return status;
}

bool qkv_tokenizer_template(const struct qkv_tokenizer *t, const int32_t **before, size_t *before_count,
                            const int32_t **after, size_t *after_count) {
    if (!t) return false;
    const struct qkv_template *around = &t->around;
    if (before_count) *before_count = around->before;
    if (after_count) *after_count = around->after;
    if (before) *before = around->before ? around->ids : NULL;
    if (after) *after = around->after ? around->ids + around->before : NULL;
    return around->before + around->after > 0;
}

/* Applies the file's own truncation, with room for the tokens around the sequence. */
static void template_truncate(const struct qkv_chain *chain, int32_t *ids, size_t around, size_t *count) {
    if (chain->truncate == 0) return;
    const size_t most = chain->truncate > around ? chain->truncate - around : 0;
    if (*count <= most) return;
    if (chain->truncate_left) memmove(ids, ids + (*count - most), most * sizeof *ids);
    *count = most;
}

enum qkv_status qkv_tokenizer_encode_sequence(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text,
                                              size_t size, bool specials, int32_t **ids, size_t *count) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, t);
    QKV_NEED(ctx, ids);
    QKV_NEED(ctx, count);
    const int32_t *before, *after;
    size_t before_count, after_count, n;
    const bool around = qkv_tokenizer_template(t, &before, &before_count, &after, &after_count);
    qkv_sequence_trim(t, before_count, after_count, &text, &size);
    enum qkv_status status = qkv_tokenizer_encode(ctx, t, text, size, specials, ids, count);
    if (!status) template_truncate(t->chain, *ids, before_count + after_count, count);
    if (status || !around) return status;
    bool fits = qkv_add_size(*count, before_count + after_count, &n);
    int32_t *all = fits ? qkv_reallocate(ctx, *ids, n, sizeof *all) : NULL;
    if (!all) {
        status = fits ? QKV_MEMORY : qkv_fail_memory(ctx, SIZE_MAX, "the ids of a text");
        free(*ids);
        *ids = NULL;
        *count = 0;
        return status;
    }
    if (*count) memmove(all + before_count, all, *count * sizeof *all);
    if (before_count) memcpy(all, before, before_count * sizeof *all);
    if (after_count) memcpy(all + before_count + *count, after, after_count * sizeof *all);
    *ids = all;
    *count = n;
    return QKV_OK;
}
