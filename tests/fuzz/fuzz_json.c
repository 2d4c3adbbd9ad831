/* JSON: the reader of all JSON files and JSON lines. */
#include "fuzz.h"

#include "base/json_load.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct qkv_context *ctx = fuzz_context();
    json_t *root;
    qkv_forgive(ctx);
    const struct qkv_json_text text = {
        .name = "fuzz.json", .help = "restore it", .data = data, .size = size, .max_size = 1 << 16};
    if (fuzz_ok(qkv_json_load(ctx, &text, &root))) {
        qkv_json_refuse(ctx, "fuzz.json", "key", root, "something else");
        qkv_forgive(ctx);
        json_decref(root);
    }
    char *copy = qkv_copy_bytes(ctx, data, size);
    if (copy) json_decref(qkv_json_value(copy));
    free(copy);
    return 0;
}
