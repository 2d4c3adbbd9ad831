/* A pattern of Oniguruma as in a tokenizer.json, and a text that it cuts: pieces cover the text. */
#include "fuzz.h"

#include "text/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct qkv_context *ctx = fuzz_context();
    struct fuzz_part parts[2];
    struct qkv_pattern *pattern;
    struct qkv_splitter *splitter;
    fuzz_parts(data, size, parts, 2);
    char *source = qkv_copy_bytes(ctx, parts[0].data, parts[0].size);
    if (!source) abort();
    qkv_forgive(ctx);
    if (qkv_utf8_valid(source, parts[0].size) == parts[0].size && fuzz_ok(qkv_pattern_create(ctx, source, &pattern))) {
        if (qkv_splitter_create(ctx, pattern, &splitter)) abort();
        for (int open = 0; open < 2; open++) {
            size_t begin, end, at = 0;
            enum qkv_split split;
            qkv_splitter_start(splitter, parts[1].data ? parts[1].data : "", parts[1].size, open);
            while ((split = qkv_splitter_next(splitter, &begin, &end)) == QKV_SPLIT_PIECE) {
                FUZZ_CHECK(begin == at && end > begin && end <= parts[1].size);
                at = end;
            }
            FUZZ_CHECK(open || split == QKV_SPLIT_FAILED || at == parts[1].size);
        }
        qkv_splitter_free(splitter);
        qkv_pattern_free(pattern);
    }
    free(source);
    return 0;
}
