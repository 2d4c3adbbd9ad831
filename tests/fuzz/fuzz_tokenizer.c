/* tokenizer.json, and a text. */
#include "fuzz_tokenizer.h"

#include "text/vocab_json.h"

/* Reading in tables gives the same as reading as a whole, except that a key of the vocabulary may be repeated, as in
 * no other JSON. */
static void tokenizer_halves(struct fuzz_part part) {
    struct qkv_context *ctx = fuzz_context();
    struct qkv_vocab_json halves;
    json_t *whole;
    const struct qkv_json_text text = {.name = "t", .data = part.data, .size = part.size, .max_size = 1 << 28};
    const enum qkv_status status = qkv_json_load(ctx, &text, &whole);
    const json_t *model = json_object_get(whole, "model");
    qkv_forgive(ctx);
    const enum qkv_status tables = qkv_vocab_json_load(ctx, &text, &halves);
    qkv_forgive(ctx);
    if (status && !tables) {
        json_t *twice = json_loadb((const char *)part.data, part.size, JSON_ALLOW_NUL, NULL);
        FUZZ_CHECK(json_is_object(json_object_get(json_object_get(twice, "model"), "vocab")));
        json_decref(twice);
    } else {
        FUZZ_CHECK(tables == status);
    }
    if (!status) {
        FUZZ_CHECK(halves.keys.count == json_object_size(json_object_get(model, "vocab")));
        FUZZ_CHECK(halves.merge_count == json_array_size(json_object_get(model, "merges")));
    }
    if (!tables) qkv_vocab_json_free(&halves);
    json_decref(whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct qkv_context *ctx = fuzz_context();
    struct qkv_tokenizer *t;
    struct fuzz_part parts[2];
    fuzz_parts(data, size, parts, 2);
    qkv_forgive(ctx);
    tokenizer_halves(parts[0]);
    if (fuzz_ok(qkv_tokenizer_parse(ctx, parts[0].data, parts[0].size, "tokenizer.json", &t)))
        fuzz_tokenizer(t, parts[1]);
    return 0;
}
