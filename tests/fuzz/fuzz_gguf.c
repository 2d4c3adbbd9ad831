/* A GGUF file: its keys, all numbers of its tensors, the tokenizer, and the model. */
#include "fuzz.h"

#include "qkv.h"

#include "io/gguf.h"
#include "io/io.h"

static void gguf_values(const struct qkv_gguf *g) {
    for (size_t i = 0; i < g->count; i++) {
        const struct qkv_gguf_value *value = &g->values[i];
        const char *text;
        size_t at = 0, size, texts = 0;
        FUZZ_CHECK(qkv_gguf_find(g, value->key) == value);
        while (qkv_gguf_text(g, value, &at, &text, &size)) {
            FUZZ_CHECK(size <= value->size);
            texts++;
        }
        FUZZ_CHECK(texts == (value->type == QKV_GGUF_STRING ? value->count : 0));
        for (size_t k = 0; k < value->count && !texts; k++) qkv_gguf_number(g, value, k);
    }
}

static void gguf_model(struct qkv_context *ctx, const char *path) {
    struct qkv_tokenizer *tokenizer;
    struct qkv_model *model;
    int32_t *ids;
    size_t count;
    if (fuzz_ok(qkv_folder_tokenizer(ctx, path, &tokenizer))) {
        if (fuzz_ok(qkv_tokenizer_encode(ctx, tokenizer, "the <s> then", 12, true, &ids, &count))) qkv_free(ids);
        qkv_tokenizer_free(tokenizer);
    }
    if (fuzz_ok(qkv_model_load(ctx, path, &model))) qkv_model_free(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct qkv_context *ctx = fuzz_context();
    struct qkv_gguf *g;
    struct qkv_tensors *tensors;
    json_t *keys;
    qkv_forgive(ctx); /* the calls below are not public: they do not begin with an empty message */
    const char *path = fuzz_file("fuzz.gguf", (struct fuzz_part){(const char *)data, size});
    if (!fuzz_ok(qkv_gguf_open(ctx, path, &g, &tensors))) return 0;
    gguf_values(g);
    if (fuzz_ok(qkv_gguf_json(g, &keys))) json_decref(keys);
    for (size_t i = 0; i < qkv_tensors_count(tensors); i++) {
        const struct qkv_array *array = qkv_tensors_at(tensors, i);
        const size_t elements = qkv_array_elements(array);
        float *numbers = qkv_allocate(ctx, elements + 1, sizeof *numbers);
        FUZZ_CHECK(numbers && qkv_tensors_find(tensors, array->name) == array);
        qkv_array_floats(array, numbers);
        FUZZ_CHECK(!qkv_tensors_floats(tensors, array, numbers));
        free(numbers);
    }
    qkv_gguf_free(g);
    qkv_tensors_close(tensors);
    gguf_model(ctx, path);
    return 0;
}
