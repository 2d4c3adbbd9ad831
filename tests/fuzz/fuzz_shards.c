/* A published folder of weights: config.json, the index, and two files with tensors, whose headers come from the
 * input (the length before and the numbers after a header are added). */
#include "fuzz.h"

#include "qkv.h"

static void shards_tensors(const char *name, struct fuzz_part header) {
    static const char zeros[1 << 12];
    const uint64_t n = header.size;
    FILE *file = fopen(fuzz_file(name, header), header.data ? "wb" : "rb");
    if (!header.data) return;
    if (!file || fwrite(&n, sizeof n, 1, file) != 1 || fwrite(header.data, 1, header.size, file) != header.size)
        abort();
    /* As many bytes as its last tensor says, where that is little. */
    const char *last = header.size ? memrchr(header.data, ',', header.size) : NULL;
    unsigned bytes = 0;
    for (const char *s = last ? last + 1 : NULL; s && s < header.data + header.size && *s >= '0' && *s <= '9'; s++)
        bytes = (bytes * 10 + (unsigned)(*s - '0')) % 65536;
    for (; bytes; bytes -= bytes < sizeof zeros ? bytes : (unsigned)sizeof zeros)
        fwrite(zeros, 1, bytes < sizeof zeros ? bytes : sizeof zeros, file);
    if (fclose(file)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct qkv_context *ctx = fuzz_context();
    struct qkv_model *model;
    struct fuzz_part parts[4];
    fuzz_parts(data, size, parts, 4);
    fuzz_file("config.json", parts[0]);
    fuzz_file("model.safetensors.index.json", parts[1]);
    shards_tensors(parts[1].size ? "a.safetensors" : "model.safetensors", parts[2]);
    shards_tensors("b.safetensors", parts[3]);
    if (fuzz_ok(qkv_model_load(ctx, fuzz_folder(), &model))) qkv_model_free(model);
    remove(fuzz_path("model.safetensors"));
    remove(fuzz_path("a.safetensors"));
    return 0;
}
