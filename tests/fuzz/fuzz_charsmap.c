/* A charsmap of SentencePiece: its size divided by four in the first byte; after it, a text of as many bytes as the
 * second byte says. */
#include "fuzz_tokenizer.h"

#include "text/text.h"

static void charsmap_base64(const uint8_t *data, size_t size, struct qkv_buffer *out) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3) {
        uint32_t bits = 0;
        char text[4];
        for (size_t k = 0; k < 3; k++) bits = bits << 8 | (i + k < size ? data[i + k] : 0);
        for (size_t k = 0; k < 4; k++) text[k] = i + k > size ? '=' : digits[bits >> (18 - 6 * k) & 63];
        if (qkv_buffer_append(fuzz_context(), out, text, 4)) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct qkv_context *ctx = fuzz_context();
    struct qkv_tokenizer *t;
    struct qkv_buffer json = {0};
    if (size < 2) return 0;
    const size_t text = data[1] < size - 2 ? data[1] : size - 2, map = size - 2 - text;
    const uint32_t bytes = 4u * data[0];
    uint8_t *whole = malloc(map + 4);
    if (!whole) abort();
    memcpy(whole, &bytes, 4);
    memcpy(whole + 4, data + 2, map);
    qkv_forgive(ctx);
    if (qkv_buffer_print(ctx, &json, "{\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"")) abort();
    charsmap_base64(whole, map + 4, &json);
    if (qkv_buffer_print(
            ctx, &json,
            "\"},\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",0],[\"a\",-1],[\"\xC3\xA9\",-2]]}}"))
        abort();
    if (fuzz_ok(qkv_tokenizer_parse(ctx, json.data, json.size, "tokenizer.json", &t)))
        fuzz_tokenizer(t, (struct fuzz_part){(const char *)data + 2 + map, text});
    qkv_buffer_free(&json);
    free(whole);
    return 0;
}
