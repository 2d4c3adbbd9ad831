/* vocab.json, merges.txt, tokenizer_config.json, special_tokens_map.json, and a text. */
#include "fuzz_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct qkv_tokenizer *t;
    struct fuzz_part parts[5];
    fuzz_parts(data, size, parts, 5);
    fuzz_file("vocab.json", parts[0]);
    fuzz_file("merges.txt", parts[1]);
    fuzz_file("tokenizer_config.json", parts[2]);
    fuzz_file("special_tokens_map.json", parts[3]);
    if (fuzz_ok(qkv_tokenizer_open(fuzz_context(), fuzz_folder(), &t))) fuzz_tokenizer(t, parts[4]);
    return 0;
}
