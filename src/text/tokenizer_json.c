/* Reads a Hugging Face tokenizer.json. */
#include <stdlib.h>

#include "text/chain.h"

enum { FILE_BYTES = 1 << 28 };

enum qkv_status qkv_tokenizer_parse(struct qkv_context *ctx, const char *json, size_t size, const char *name,
                                    struct qkv_tokenizer **out) {
    *out = NULL;
    struct qkv_vocab_json file;
    const struct qkv_json_text text = {.name = name, .data = json, .size = size, .max_size = FILE_BYTES};
    enum qkv_status status = qkv_vocab_json_load(ctx, &text, &file);
    if (status) return status;
    struct qkv_tokenizer *t = qkv_tokenizer_new(ctx);
    status = t ? qkv_chain_read(ctx, name, &file, json, size, t) : QKV_MEMORY;
    qkv_vocab_json_free(&file);
    if (status)
        qkv_tokenizer_free(t);
    else
        *out = t;
    return status;
}
