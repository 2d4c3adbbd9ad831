/* vocab.txt, tokenizer_config.json, and a text. */
#include "fuzz_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct qkv_tokenizer *t;
    struct fuzz_part parts[3];
    fuzz_parts(data, size, parts, 3);
    fuzz_file("vocab.txt", parts[0]);
    fuzz_file("tokenizer_config.json", parts[1]);
    if (fuzz_ok(qkv_tokenizer_open(fuzz_context(), fuzz_folder(), &t))) fuzz_tokenizer(t, parts[2]);
    return 0;
}
