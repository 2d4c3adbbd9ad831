/* Reads a tokenizer.json as a chain: its links, and the keys outside of links. */
#include "text/chain.h"

#include <stdlib.h>
#include <string.h>

static bool read_absent(const json_t *value) {
    return !value || json_is_null(value);
}

/* ---- truncation, padding ----------------------------------------------------------------------------------------- */

static enum qkv_status read_truncation(struct chain_reader *r, const json_t *value) {
    static const char known[] = "an object with max_length, and direction Left or Right";
    if (read_absent(value)) return QKV_OK;
    const json_t *length = json_object_get(value, "max_length");
    const char *direction = json_string_value(json_object_get(value, "direction"));
    if (!json_is_integer(length) || json_integer_value(length) < 0 ||
        (direction && strcmp(direction, "Left") != 0 && strcmp(direction, "Right") != 0))
        return qkv_json_refuse(r->ctx, r->name, "truncation", value, known);
    r->chain->truncate = (size_t)json_integer_value(length);
    r->chain->truncate_left = direction && strcmp(direction, "Left") == 0;
    return QKV_OK;
}

/* Padding is for batches, which this library pads itself: it is checked and has no effect. */
static enum qkv_status read_padding(struct chain_reader *r, const json_t *value) {
    if (read_absent(value) || json_is_object(value)) return QKV_OK;
    return qkv_json_refuse(r->ctx, r->name, "padding", value, "null and an object");
}

/* ---- added tokens ------------------------------------------------------------------------------------------------ */

static const char *read_normalized(struct chain_run *run, const char *content, size_t *size) {
    qkv_chain_load(run, content, 0, strlen(content));
    const struct qkv_chain *c = run->chain;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < c->normalizers.count && !status && run->text.bytes.size; i++)
        status = c->normalizers.at[i].kind->run(run, &c->normalizers.at[i]);
    *size = run->text.bytes.size;
    return status ? NULL : *size ? run->text.bytes.data : "";
}

/* Symbols of the user are found in normalized text, where SentencePiece leaves them as they are. */
static bool read_is_user(const struct qkv_chain *c, size_t id) {
    return c->reads_bytes && qkv_chain_type(c, id) == QKV_SPM_USER;
}

static enum qkv_status added_index(struct chain_reader *r, size_t i, const char *content) {
    struct qkv_chain *c = r->chain;
    const struct chain_added *added = &c->added[i];
    struct chain_run run = {.ctx = r->ctx, .t = r->t, .chain = c};
    size_t size = strlen(content);
    if (read_is_user(c, (size_t)added->id)) /* Unigram finds it by its score */
        return c->model == CHAIN_UNIGRAM ? QKV_OK : qkv_finder_add(r->ctx, c, i, content, size);
    const char *text = added->normalized ? read_normalized(&run, content, &size) : content;
    enum qkv_status status = text ? QKV_OK : QKV_FORMAT;
    if (!status) status = qkv_finder_add(r->ctx, c, i, text, size);
    qkv_chain_run_free(&run);
    return status;
}

static enum qkv_status read_one_added(struct chain_reader *r, const json_t *value) {
    struct qkv_chain *c = r->chain;
    const char *content = json_string_value(json_object_get(value, "content"));
    const json_t *id = json_object_get(value, "id");
    struct chain_added added = {0};
    if (!content || !*content)
        return qkv_json_refuse(r->ctx, r->name, "added_tokens", value, "an object with a content and an id");
    r->key = "added_tokens";
    enum qkv_status status = qkv_chain_bool(r, value, "special", false, &added.special);
    if (!status) status = qkv_chain_bool(r, value, "normalized", !added.special, &added.normalized);
    if (!status) status = qkv_chain_bool(r, value, "lstrip", false, &added.left);
    if (!status) status = qkv_chain_bool(r, value, "rstrip", false, &added.right);
    if (!status) status = qkv_chain_bool(r, value, "single_word", false, &added.single_word);
    if (status) return status;
    const struct qkv_string *known = qkv_chain_known(r, content, strlen(content));
    const json_int_t n = known ? (json_int_t)known->value : json_integer_value(id), bound = (json_int_t)c->key_count;
    if ((!known && !json_is_integer(id)) || n < 0 || n >= bound)
        return qkv_fail(r->ctx, QKV_FORMAT,
                        "%s: added_tokens: the id of \"%.60s\" is not an integer in [0, %zu), which is ample", r->name,
                        content, c->key_count);
    const size_t place = (size_t)n;
    if (place < r->t->count && r->t->tokens[place].added)
        return qkv_fail(r->ctx, QKV_FORMAT, "%s: added_tokens: \"%.60s\" has the id %zu of another one", r->name,
                        content, place);
    if (known ? json_is_integer(id) && json_integer_value(id) != n : c->keys[place] != NULL)
        return qkv_fail(r->ctx, QKV_FORMAT,
                        "%s: added_tokens: the id of \"%.60s\" is %lld, which model.vocab contradicts", r->name,
                        content, (long long)json_integer_value(id));
    added.id = (int32_t)n;
    added.normalized = added.normalized || read_is_user(c, place);
    struct chain_added *list = qkv_list_room(r->ctx, c->added, &c->added_capacity, c->added_count, 1, sizeof *list);
    if (!list) return QKV_MEMORY;
    c->added = list;
    c->added[c->added_count++] = added;
    status = known && c->bytes ? qkv_chain_plain_token(r, place, content, strlen(content))
                               : qkv_tokenizer_set(r->ctx, r->t, place, content, strlen(content), QKV_TOKEN_RAW);
    if (status) return status;
    r->t->tokens[place].added = true;
    r->t->tokens[place].in_model = known != NULL;
    return added_index(r, c->added_count - 1, content);
}

/* The keys of added tokens are copies of the tokenizer's. */
static void added_keys(struct chain_reader *r) {
    struct qkv_chain *c = r->chain;
    for (size_t i = 0; i < c->added_count; i++) {
        const size_t id = (size_t)c->added[i].id;
        c->keys[id] = qkv_token_bytes(r->t, id);
        c->key_sizes[id] = r->t->tokens[id].size;
    }
}

enum qkv_status qkv_chain_read_added(struct chain_reader *r, const json_t *added) {
    enum qkv_status status = QKV_OK;
    if (!read_absent(added) && !json_is_array(added))
        return qkv_json_refuse(r->ctx, r->name, "added_tokens", added, "a list");
    for (size_t i = 0; i < json_array_size(added) && !status; i++) status = read_one_added(r, json_array_get(added, i));
    return status;
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static enum qkv_status read_chain(struct chain_reader *r, const json_t *root) {
    struct qkv_chain *c = r->chain;
    const json_t *version = json_object_get(root, "version"), *post = json_object_get(root, "post_processor");
    if (!read_absent(version) && (!json_is_string(version) || strcmp(json_string_value(version), "1.0") != 0))
        return qkv_json_refuse(r->ctx, r->name, "version", version, "\"1.0\"");
    enum qkv_status status = read_truncation(r, json_object_get(root, "truncation"));
    if (!status) status = read_padding(r, json_object_get(root, "padding"));
    r->key = "normalizer";
    if (!status)
        status =
            qkv_chain_links(r, json_object_get(root, r->key), "normalizers", qkv_chain_normalizers, &c->normalizers);
    r->key = "pre_tokenizer";
    if (!status)
        status = qkv_chain_links(r, json_object_get(root, r->key), "pretokenizers", qkv_chain_splitters, &c->splitters);
    r->key = "decoder";
    if (!status)
        status = qkv_chain_links(r, json_object_get(root, r->key), "decoders", qkv_chain_decoders, &c->decoders);
    r->key = "model";
    c->bytes = !status && qkv_chain_byte_level(c);
    if (!status) status = qkv_chain_read_model(r, json_object_get(root, r->key));
    qkv_chain_settle(c);
    if (!status) status = qkv_chain_read_added(r, json_object_get(root, "added_tokens"));
    r->key = "decoder";
    const bool plain = !status && qkv_chain_is_plain(r, root), own = plain || c->bytes;
    if (!status) status = own ? qkv_chain_plain_tokens(r) : qkv_chain_token_bytes(r);
    if (!status && plain) status = qkv_chain_set_plain(r->ctx, r->t);
    if (status) return status;
    qkv_chain_find_ascii(r->ctx, r->t);
    if (own)
        qkv_chain_drop_keys(r->t);
    else
        added_keys(r);
    return qkv_template_read(r->ctx, r->name, post, r->t);
}

enum qkv_status qkv_chain_read(struct qkv_context *ctx, const char *name, struct qkv_vocab_json *file, const char *json,
                               size_t size, struct qkv_tokenizer *t) {
    struct chain_reader r = {.ctx = ctx, .name = name, .key = "the file", .t = t, .file = file};
    const json_t *root = file->root;
    if (!json_is_object(root)) return qkv_json_refuse(ctx, name, "the file", root, "an object");
    r.chain = t->chain = qkv_allocate(ctx, 1, sizeof *t->chain);
    if (!t->chain) return QKV_MEMORY;
    t->chain->json = qkv_copy_bytes(ctx, json, size);
    t->chain->json_size = size;
    enum qkv_status status = t->chain->json ? read_chain(&r, root) : QKV_MEMORY;
    if (status != QKV_FORMAT || strncmp(qkv_message(ctx), name, strlen(name)) == 0) return status;
    char why[512];
    snprintf(why, sizeof why, "%s", qkv_message(ctx));
    return qkv_fail(ctx, QKV_FORMAT, "%s: %s: %s", name, r.key, why);
}
