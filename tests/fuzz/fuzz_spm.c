/* A model of SentencePiece, whose own first bytes are a text too. */
#include "fuzz_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct qkv_context *ctx = fuzz_context();
    struct qkv_tokenizer *t;
    char *sentence;
    const char *path = fuzz_file("tokenizer.model", (struct fuzz_part){data ? (const char *)data : "", size});
    qkv_forgive(ctx);
    if (!fuzz_ok(qkv_tokenizer_load(ctx, path, &t))) return 0;
    if (fuzz_ok(qkv_tokenizer_differences(ctx, t, &sentence))) qkv_free(sentence);
    fuzz_tokenizer(t, (struct fuzz_part){(const char *)data, size < 300 ? size : 300});
    return 0;
}
