/* Ranks of tiktoken in a file whose name tells their family. Their own first bytes are a text too. */
#include "fuzz_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct qkv_tokenizer *t;
    const char *path = fuzz_file("qwen.tiktoken", (struct fuzz_part){data ? (const char *)data : "", size});
    qkv_forgive(fuzz_context());
    if (fuzz_ok(qkv_tokenizer_load(fuzz_context(), path, &t)))
        fuzz_tokenizer(t, (struct fuzz_part){(const char *)data, size < 300 ? size : 300});
    return 0;
}
