/* Ids as a reader sees them: text by the file's own decoder, and tokens with roles. */
#include "text/chain.h"
#include "text/sequence.h"

#include <stdlib.h>
#include <string.h>

static bool text_is_special(const struct qkv_tokenizer *t, int32_t id) {
    for (size_t i = 0; i < t->chain->added_count; i++)
        if (t->chain->added[i].id == id) return t->chain->added[i].special;
    return false;
}

static enum qkv_status text_check(struct qkv_context *ctx, const struct qkv_tokenizer *t, const int32_t *ids,
                                  size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!qkv_tokenizer_token(t, ids[i], NULL))
            return qkv_fail(ctx, QKV_ARGUMENT, "decode: ids[%zu] is %d, which is not a token; ids are in [0, %zu)", i,
                            (int)ids[i], t->count);
    return QKV_OK;
}

/* Adds the key of a token to the texts that decoders get. */
static enum qkv_status text_key(struct qkv_context *ctx, const struct qkv_tokenizer *t, int32_t id,
                                struct qkv_buffer *key, struct chain_strings *s) {
    const struct qkv_chain *c = t->chain;
    if (c->keys) return qkv_strings_put(ctx, s, c->keys[id], c->key_sizes[id]);
    key->size = 0;
    enum qkv_status status = qkv_tokenizer_key(ctx, t, (size_t)id, key);
    return status ? status : qkv_strings_put(ctx, s, key->data ? key->data : "", key->size);
}

enum qkv_status qkv_tokenizer_text(struct qkv_context *ctx, const struct qkv_tokenizer *t, const int32_t *ids,
                                   size_t count, bool skip_specials, char **text, size_t *size) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, t);
    QKV_NEED(ctx, text);
    QKV_NEED(ctx, size);
    QKV_NEED_ALL(ctx, count, ids);
    *text = NULL;
    *size = 0;
    struct chain_strings s = {0};
    struct qkv_buffer key = {0};
    int32_t *kept = qkv_allocate(ctx, count + 1, sizeof *kept);
    size_t n = 0;
    enum qkv_status status = kept ? text_check(ctx, t, ids, count) : QKV_MEMORY;
    for (size_t i = 0; i < count && !status; i++) {
        if (skip_specials && t->tokens[ids[i]].added && text_is_special(t, ids[i])) continue;
        kept[n++] = ids[i];
        if (!t->chain->plain) status = text_key(ctx, t, ids[i], &key, &s);
    }
    if (!status && t->chain->plain) {
        status = qkv_tokenizer_decode(ctx, t, kept, n, text, size);
    } else if (!status) {
        status = n ? qkv_chain_decode(ctx, t->chain, &s) : QKV_OK;
        if (!status) *text = qkv_copy_bytes(ctx, s.bytes.data ? s.bytes.data : "", s.bytes.size);
        if (!status && !*text) status = QKV_MEMORY;
        if (!status) *size = s.bytes.size;
    }
    qkv_chain_strings_free(&s);
    qkv_buffer_free(&key);
    free(kept);
    return status;
}

/* ---- roles ------------------------------------------------------------------------------------------------------- */

/* The usual names of a role's tokens, where no configuration names them. The first one is that of tokenizers made by
 * qkv. */
static const char *const role_names[][6] = {
    [QKV_TOKEN_ROLE_BEGIN] = {QKV_TOKEN_BEGIN, "<bos>", "<|begin_of_text|>", "[CLS]", "<BOS_TOKEN>", NULL},
    [QKV_TOKEN_ROLE_END] = {QKV_TOKEN_END, "<eos>", "<|end_of_text|>", "[SEP]", NULL},
    [QKV_TOKEN_ROLE_PAD] = {QKV_TOKEN_PAD, "[PAD]", "<|pad|>", NULL},
    [QKV_TOKEN_ROLE_MASK] = {QKV_TOKEN_MASK, "[MASK]", NULL},
    [QKV_TOKEN_ROLE_UNKNOWN] = {QKV_TOKEN_UNKNOWN, "[UNK]", NULL},
    [QKV_TOKEN_ROLE_SEPARATOR] = {"[SEP]", QKV_TOKEN_END, NULL},
    [QKV_TOKEN_ROLE_CLASS] = {"[CLS]", QKV_TOKEN_BEGIN, NULL},
};

int qkv_tokenizer_role(const struct qkv_tokenizer *t, enum qkv_token_role role) {
    if (!t) return -1;
    if ((size_t)role >= QKV_TOKEN_ROLES) return -1;
    if (t->has_role[role]) return t->roles[role];
    if (role == QKV_TOKEN_ROLE_UNKNOWN && t->unknown >= 0) return t->unknown;
    for (size_t i = 0; role_names[role][i]; i++) {
        const int id = qkv_tokenizer_special(t, role_names[role][i]);
        if (id >= 0) return id;
    }
    return -1;
}

bool qkv_tokenizer_knows(const struct qkv_tokenizer *t, const char *text) {
    for (size_t role = 0; role < QKV_TOKEN_ROLES; role++)
        if (!strcmp(role_names[role][0], text) && qkv_tokenizer_role(t, (enum qkv_token_role)role) >= 0) return true;
    return qkv_tokenizer_special(t, text) >= 0;
}

enum qkv_status qkv_tokenizer_set_role(struct qkv_context *ctx, struct qkv_tokenizer *t, enum qkv_token_role role,
                                       int id) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, t);
    if ((size_t)role >= QKV_TOKEN_ROLES) return qkv_fail(ctx, QKV_ARGUMENT, "%d is not a token role", (int)role);
    if (id >= 0 && !qkv_tokenizer_token(t, id, NULL))
        return qkv_fail(ctx, QKV_ARGUMENT, "token role %d: id %d is not a token; ids are in [0, %zu)", (int)role, id,
                        t->count);
    t->has_role[role] = true;
    t->roles[role] = id < 0 ? -1 : id;
    return QKV_OK;
}

enum qkv_status qkv_tokenizer_add_end(struct qkv_context *ctx, struct qkv_tokenizer *t, int id) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, t);
    if (!qkv_tokenizer_token(t, id, NULL))
        return qkv_fail(ctx, QKV_ARGUMENT, "end token: id %d is not a token; ids are in [0, %zu)", id, t->count);
    int32_t ends[QKV_TOKEN_ENDS];
    const size_t count = qkv_tokenizer_ends(t, ends);
    for (size_t i = 0; i < count; i++)
        if (ends[i] == id) return QKV_OK;
    if (t->end_count == QKV_TOKEN_ENDS - 1)
        return qkv_fail(ctx, QKV_ARGUMENT, "end token %d: a tokenizer has at most %d", id, QKV_TOKEN_ENDS);
    t->ends[t->end_count++] = id;
    return QKV_OK;
}

size_t qkv_tokenizer_ends(const struct qkv_tokenizer *t, int32_t ends[QKV_TOKEN_ENDS]) {
    if (!t || !ends) return 0;
    const int first = qkv_tokenizer_role(t, QKV_TOKEN_ROLE_END);
    size_t count = 0;
    if (first >= 0) ends[count++] = first;
    for (size_t i = 0; i < t->end_count; i++) ends[count++] = t->ends[i];
    return count;
}
