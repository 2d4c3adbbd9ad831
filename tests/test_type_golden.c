/* Blocks of quantised types against the numbers that the gguf package reads in them, bit for bit, by the functions of
 * the types and of every kernel table of the machine: tests/golden/types, and $QKV_GOLDEN_TYPES, a file of the same
 * form, such as golden_types.py makes of GGUF files. */
/* labels: quick */
#include "test.h"

#include "kernel/kernel.h"
#include "type/type.h"

static const struct qkv_array *golden_tensor(const struct qkv_tensors *file, const char *type, const char *what) {
    char name[64];
    snprintf(name, sizeof name, "%s.%s", type, what);
    return qkv_tensors_find(file, name);
}

/* to_float NULL: the type's own. */
static void check_numbers(void (*to_float)(float *, const void *, size_t), const struct qkv_type *type,
                          const unsigned char *blocks, const float *expected, size_t n, const char *isa) {
    unsigned char *odd = malloc(n / type->block * type->bytes + 1);
    float *got = malloc(n * sizeof *got);
    memcpy(odd + 1, blocks, n / type->block * type->bytes); /* unaligned */
    if (to_float)
        to_float(got, odd + 1, n);
    else
        qkv_type_floats(type, got, odd + 1, n);
    for (size_t i = 0; i < n; i++)
        if (memcmp(&got[i], &expected[i], sizeof *got))
            fail_msg("%s, %s: number %zu is %a, not %a", type->name, isa, i, (double)got[i], (double)expected[i]);
    free(odd), free(got);
}

static void check_file(struct qkv_context *ctx, const char *path, const struct qkv_kernels *kernels, size_t *types) {
    struct qkv_tensors *file;
    assert_ok(ctx, qkv_tensors_open(ctx, path, &file));
    for (int d = 0; d < QKV_DTYPE_COUNT; d++) {
        const struct qkv_type *type = qkv_types[d];
        const struct qkv_array *blocks = golden_tensor(file, type->name, "blocks");
        const struct qkv_array *floats = golden_tensor(file, type->name, "floats");
        if (!blocks || !floats) continue;
        const size_t n = qkv_array_elements(floats);
        assert_int_equal(qkv_type_span((enum qkv_dtype)d, n), blocks->bytes);
        check_numbers(NULL, type, blocks->data, floats->data, n, "the type");
        if (kernels->types[d].to_float)
            check_numbers(kernels->types[d].to_float, type, blocks->data, floats->data, n, kernels->isa);
        ++*types;
    }
    qkv_tensors_close(file);
}

static void blocks_hold_the_numbers_that_others_read(void **state) {
    (void)state;
    const char *isa, *more = getenv("QKV_GOLDEN_TYPES");
    for (size_t t = 0; (isa = qkv_isa_at(t)); t++) {
        struct qkv_context *ctx;
        size_t types = 0;
        assert_int_equal(qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, .threads = 1, .isa = isa)), QKV_OK);
        check_file(ctx, TEST_SOURCE_DIR "/tests/golden/types/blocks.safetensors", ctx->kernels, &types);
        assert_int_equal(types, 12);
        if (more) check_file(ctx, more, ctx->kernels, &types);
        qkv_context_free(ctx);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_hold_the_numbers_that_others_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
