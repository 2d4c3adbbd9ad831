/* Adds a special token to an existing tokenizer. */
#include "text/chain.h"
#include "text/sequence.h"
#include "text/token_trie.h"

#include <stdlib.h>
#include <string.h>

/* A chain that keeps its file gets the token there, after all others, and the file is read again. */
static enum qkv_status special_chain(struct qkv_context *ctx, struct qkv_tokenizer *t, const char *text) {
    json_t *root = NULL;
    const struct qkv_json_text file = {
        .name = "tokenizer", .data = t->chain->json, .size = t->chain->json_size, .max_size = t->chain->json_size};
    enum qkv_status status = qkv_json_load(ctx, &file, &root);
    if (status) return status;
    json_t *list = json_object_get(root, "added_tokens");
    if (!json_is_array(list)) {
        json_object_set_new(root, "added_tokens", json_array());
        list = json_object_get(root, "added_tokens");
    }
    json_array_append_new(list,
                          json_pack("{s:I, s:s, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)t->count, "content", text,
                                    "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized", 0, "special", 1));
    char *written = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    struct qkv_tokenizer *made = NULL;
    status = written ? qkv_tokenizer_parse(ctx, written, strlen(written), "tokenizer", &made)
                     : qkv_fail_memory(ctx, 0, "a tokenizer");
    free(written);
    if (status) return status;
    memcpy(made->has_role, t->has_role, sizeof t->has_role);
    memcpy(made->roles, t->roles, sizeof t->roles);
    memcpy(made->ends, t->ends, sizeof t->ends);
    made->end_count = t->end_count;
    for (size_t i = 0; i < 2; i++) {
        made->languages[i] = t->languages[i], t->languages[i] = NULL;
        made->short_keys[i] = t->short_keys[i];
    }
    qkv_language_take_source(made);
    struct qkv_tokenizer old = *t;
    *t = *made;
    *made = old;
    qkv_tokenizer_free(made);
    return QKV_OK;
}

enum qkv_status qkv_tokenizer_add_special(struct qkv_context *ctx, struct qkv_tokenizer *t, const char *text) {
    qkv_token_trie_free(atomic_exchange(&t->trie, NULL)); /* it has the token's text, if that was a token */
    return t->chain->plain ? qkv_tokenizer_set_special(ctx, t, t->count, text, strlen(text))
                           : special_chain(ctx, t, text);
}
