/* A file of tensors: its header, and all its numbers. */
#include "fuzz.h"

#include "io/io.h"
#include "io/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct qkv_context *ctx = fuzz_context();
    struct qkv_tensors *tensors;
    const char *path = fuzz_file("fuzz.safetensors", (struct fuzz_part){(const char *)data, size});
    if (!fuzz_ok(qkv_tensors_open(ctx, path, &tensors))) return 0;
    for (size_t i = 0; i < qkv_tensors_count(tensors); i++) {
        const struct qkv_array *array = qkv_tensors_at(tensors, i);
        const size_t elements = qkv_array_elements(array);
        char text[QKV_SHAPE_TEXT];
        float *numbers = qkv_allocate(ctx, elements + 1, sizeof *numbers);
        FUZZ_CHECK(numbers && elements * qkv_type_size(array->dtype) == array->bytes);
        FUZZ_CHECK(qkv_tensors_find(tensors, array->name) == array);
        qkv_shape_text(array->shape, array->rank, text);
        qkv_array_floats(array, numbers);
        FUZZ_CHECK(!qkv_tensors_floats(tensors, array, numbers));
        free(numbers);
    }
    qkv_tensors_metadata(tensors, "format");
    qkv_tensors_close(tensors);
    return 0;
}
