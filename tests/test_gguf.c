/* GGUF files: values and tensors of files written here, byte by byte from the description of the format; refusals; and,
 * if ../shared/data has them, files of llama.cpp, whose numbers are held against those of its gguf package. */
/* labels: quick */
#include "gguf_fixture.h"

#include "io/io.h"
#include "io/tensor_file.h"

static struct qkv_context ctx = {.threads = 1};

static const char *write_bytes(const struct gguf_bytes *b) {
    const char *path = test_path("made.gguf");
    test_write_file(path, b->data, b->size);
    return path;
}

static void open_bytes(const struct gguf_bytes *b, struct qkv_gguf **g, struct qkv_tensors **t) {
    assert_ok(&ctx, qkv_gguf_open(&ctx, write_bytes(b), g, t));
}

static void refuse_bytes(const struct gguf_bytes *b, const char *words) {
    struct qkv_gguf *g;
    struct qkv_tensors *t;
    assert_int_equal(qkv_gguf_open(&ctx, write_bytes(b), &g, &t), QKV_FORMAT);
    assert_null(g);
    assert_null(t);
    if (!strstr(qkv_message(&ctx), words)) fail_msg("\"%s\" does not say \"%s\"", qkv_message(&ctx), words);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static json_t *value_of(const json_t *keys, const char *key) {
    json_t *value = json_object_get(keys, key);
    assert_non_null(value);
    return value;
}

static void values_of_all_types_are_read(void **state) {
    (void)state;
    struct gguf_bytes b;
    struct qkv_gguf *g;
    struct qkv_tensors *t;
    json_t *keys;
    const float f = 1e-5f;
    const double d = 0.1;
    const int64_t low = -5000000000;
    const uint64_t high = 5000000000;
    gguf_begin(&b, 3, 0, 13);
    gguf_put_key(&b, "u8", QKV_GGUF_U8, "\xff", 1);
    gguf_put_key(&b, "i8", QKV_GGUF_I8, "\xff", 1);
    gguf_put_key(&b, "u16", QKV_GGUF_U16, "\xfe\xff", 2);
    gguf_put_key(&b, "i16", QKV_GGUF_I16, "\xfe\xff", 2);
    gguf_put_number(&b, "u32", 4000000000);
    gguf_put_key(&b, "i32", QKV_GGUF_I32, "\xfd\xff\xff\xff", 4);
    gguf_put_key(&b, "f32", QKV_GGUF_F32, &f, sizeof f);
    gguf_put_key(&b, "bool", QKV_GGUF_BOOL, "\1", 1);
    gguf_put_string(&b, "text", "gr\xc3\xb6\xc3\x9f");
    gguf_put_key(&b, "u64", QKV_GGUF_U64, &high, sizeof high);
    gguf_put_key(&b, "i64", QKV_GGUF_I64, &low, sizeof low);
    gguf_put_key(&b, "f64", QKV_GGUF_F64, &d, sizeof d);
    gguf_put_array(&b, "list", QKV_GGUF_STRING, 2);
    gguf_put_text(&b, "a");
    gguf_put_text(&b, "");
    open_bytes(&b, &g, &t);
    assert_ok(&ctx, qkv_gguf_json(g, &keys));
    assert_int_equal(json_integer_value(value_of(keys, "u8")), 255);
    assert_int_equal(json_integer_value(value_of(keys, "i8")), -1);
    assert_int_equal(json_integer_value(value_of(keys, "u16")), 65534);
    assert_int_equal(json_integer_value(value_of(keys, "i16")), -2);
    assert_int_equal(json_integer_value(value_of(keys, "u32")), 4000000000);
    assert_int_equal(json_integer_value(value_of(keys, "i32")), -3);
    assert_true(json_real_value(value_of(keys, "f32")) == 1e-5); /* the decimal that was meant */
    assert_true(json_is_true(value_of(keys, "bool")));
    assert_string_equal(json_string_value(value_of(keys, "text")), "gr\xc3\xb6\xc3\x9f");
    assert_int_equal(json_integer_value(value_of(keys, "u64")), 5000000000);
    assert_int_equal(json_integer_value(value_of(keys, "i64")), -5000000000);
    assert_true(json_real_value(value_of(keys, "f64")) == 0.1);
    assert_int_equal(json_array_size(value_of(keys, "list")), 2);
    assert_string_equal(json_string_value(json_array_get(value_of(keys, "list"), 0)), "a");
    assert_null(qkv_gguf_find(g, "none"));
    json_decref(keys);
    qkv_gguf_free(g);
    qkv_tensors_close(t);
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

enum { F32 = 0, F16 = 1, Q9 = 22, MXFP4 = 39 };
static const uint64_t sizes[] = {3, 2};
static const float numbers[] = {1, 2, 3, 4, 5, 6};

/* A file with a matrix of two rows and a vector in half precision. */
static void make_two(struct gguf_bytes *b, uint32_t version, uint32_t alignment) {
    static const uint64_t three = 3;
    static const uint16_t halves[] = {0x3c00, 0x4000, 0xc000};
    gguf_begin(b, version, 2, 1);
    gguf_put_number(b, "general.alignment", alignment);
    gguf_put_tensor(b, "b.weight", 1, &three, F16, 0);
    gguf_put_tensor(b, "a.weight", 2, sizes, F32, alignment);
    gguf_align(b, alignment);
    gguf_put(b, halves, sizeof halves);
    gguf_align(b, alignment);
    gguf_put(b, numbers, sizeof numbers);
}

static void tensors_are_row_major(void **state) {
    (void)state;
    struct gguf_bytes b;
    struct qkv_gguf *g;
    struct qkv_tensors *t;
    float out[6];
    for (uint32_t version = 2; version <= 3; version++)
        for (uint32_t alignment = 8; alignment <= 4096; alignment *= 8) {
            make_two(&b, version, alignment);
            open_bytes(&b, &g, &t);
            assert_int_equal(qkv_tensors_count(t), 2);
            const struct qkv_array *a = qkv_tensors_find(t, "a.weight");
            assert_true(a && a->rank == 2 && a->shape[0] == 2 && a->shape[1] == 3 && a->dtype == QKV_F32);
            assert_ok(&ctx, qkv_tensors_floats(t, a, out));
            assert_memory_equal(out, numbers, sizeof numbers);
            assert_memory_equal(a->data, numbers, sizeof numbers);
            assert_ok(&ctx, qkv_tensors_floats(t, qkv_tensors_find(t, "b.weight"), out));
            assert_true(out[0] == 1 && out[1] == 2 && out[2] == -2);
            assert_null(qkv_tensors_metadata(t, "format"));
            qkv_gguf_free(g);
            qkv_tensors_close(t);
        }
}

static void cut_files_are_refused(void **state) {
    (void)state;
    struct gguf_bytes b;
    make_two(&b, 3, 32);
    for (size_t whole = b.size; b.size-- > 0;) {
        struct qkv_gguf *g;
        struct qkv_tensors *t;
        const enum qkv_status status = qkv_gguf_open(&ctx, write_bytes(&b), &g, &t);
        if (status != QKV_FORMAT) fail_msg("%zu of %zu bytes: %d %s", b.size, whole, (int)status, qkv_message(&ctx));
        assert_non_null(strstr(qkv_message(&ctx), "cut off"));
    }
}

static void other_versions_are_refused(void **state) {
    (void)state;
    struct gguf_bytes b;
    make_two(&b, 1, 32);
    refuse_bytes(&b, "it is of version 1 of GGUF");
    make_two(&b, 4, 32);
    refuse_bytes(&b, "it is of version 4 of GGUF");
    make_two(&b, 0x03000000, 32);
    refuse_bytes(&b, "it is big-endian");
    make_two(&b, 3, 32);
    b.data[0] = 'g';
    refuse_bytes(&b, "this is not a GGUF file");
}

static void keys_that_cannot_be_are_refused(void **state) {
    (void)state;
    struct gguf_bytes b;
    gguf_begin(&b, 3, 0, 2);
    gguf_put_number(&b, "x.y", 1);
    gguf_put_number(&b, "x.y", 1);
    refuse_bytes(&b, "key \"x.y\": it comes twice");
    gguf_begin(&b, 3, 0, 1);
    gguf_put_key(&b, "x", 13, "", 0);
    refuse_bytes(&b, "key \"x\": type 13 of its value is unknown");
    gguf_begin(&b, 3, 0, 1);
    gguf_put_array(&b, "x", 99, 1);
    refuse_bytes(&b, "key \"x\": type 99 of its elements is unknown");
    gguf_begin(&b, 3, 0, 1);
    gguf_put_array(&b, "x", QKV_GGUF_ARRAY, 1);
    refuse_bytes(&b, "arrays of arrays are not supported");
    gguf_begin(&b, 3, 0, 1);
    gguf_put_array(&b, "x", QKV_GGUF_U64, UINT64_MAX / 8 + 2);
    refuse_bytes(&b, "more than fit into the file");
    gguf_begin(&b, 3, 0, 1);
    gguf_put_array(&b, "x", QKV_GGUF_STRING, 1);
    gguf_put_u64(&b, UINT64_MAX);
    refuse_bytes(&b, "the file ends inside");
    gguf_begin(&b, 3, 0, 1);
    gguf_put_string(&b, "x", "\xff");
    refuse_bytes(&b, "key \"x\": text 0 is not UTF-8");
    gguf_begin(&b, 3, 0, 1);
    gguf_put_string(&b, "", "x");
    refuse_bytes(&b, "a key is not a name");
    gguf_begin(&b, 3, 0, UINT64_MAX);
    refuse_bytes(&b, "the file ends inside");
}

static void numbers_that_are_not_finite_are_refused(void **state) {
    (void)state;
    struct gguf_bytes b;
    struct qkv_gguf *g;
    struct qkv_tensors *t;
    json_t *keys;
    const float x = INFINITY;
    gguf_begin(&b, 3, 0, 1);
    gguf_put_key(&b, "x", QKV_GGUF_F32, &x, sizeof x);
    open_bytes(&b, &g, &t);
    assert_int_equal(qkv_gguf_json(g, &keys), QKV_FORMAT);
    assert_non_null(strstr(qkv_message(&ctx), "key \"x\" has a number that is not finite"));
    qkv_gguf_free(g);
    qkv_tensors_close(t);
}

/* A file with one tensor and 64 bytes of data. */
static void make_one(struct gguf_bytes *b, const char *name, uint32_t rank, const uint64_t *dims, uint32_t type,
                     uint64_t offset) {
    static const char zeros[64];
    gguf_begin(b, 3, 1, 0);
    gguf_put_tensor(b, name, rank, dims, type, offset);
    gguf_align(b, 32);
    gguf_put(b, zeros, sizeof zeros);
}

static void tensors_that_cannot_be_are_refused(void **state) {
    (void)state;
    static const uint64_t huge[] = {(uint64_t)1 << 40, (uint64_t)1 << 40, 1, 1, 1}, blocks[] = {48, 1},
                          empty[] = {0, 7};
    struct gguf_bytes b;
    struct qkv_gguf *g;
    struct qkv_tensors *t;
    make_one(&b, "x", 2, sizes, F32, 0);
    open_bytes(&b, &g, &t);
    qkv_gguf_free(g);
    qkv_tensors_close(t);
    make_one(&b, "x", 2, empty, F32, 64); /* a tensor without numbers may be at the end */
    open_bytes(&b, &g, &t);
    qkv_gguf_free(g);
    qkv_tensors_close(t);
    make_one(&b, "x", 2, sizes, Q9, 0);
    refuse_bytes(&b, "tensor \"x\": its type IQ2_S is not supported");
    make_one(&b, "x", 2, sizes, 12345, 0);
    refuse_bytes(&b, "tensor \"x\": its type 12345 is unknown");
    make_one(&b, "x", 5, huge, F32, 0);
    refuse_bytes(&b, "it has 5 dimensions");
    make_one(&b, "x", 2, huge, F32, 0);
    refuse_bytes(&b, "is larger than any memory");
    make_one(&b, "x", 1, huge, F32, 0);
    refuse_bytes(&b, "it was cut off");
    make_one(&b, "x", 2, sizes, F32, 64);
    refuse_bytes(&b, "it was cut off");
    make_one(&b, "x", 2, sizes, F32, UINT64_MAX - 31);
    refuse_bytes(&b, "it was cut off");
    make_one(&b, "x", 2, sizes, F32, 4);
    refuse_bytes(&b, "its offset 4 is not a multiple of the alignment, 32");
    make_one(&b, "x", 2, blocks, MXFP4, 0);
    refuse_bytes(&b, "its rows of 48 numbers are no whole blocks of 32 (mxfp4)");
    make_one(&b, "", 2, sizes, F32, 0);
    refuse_bytes(&b, "a tensor's name is not a name");
}

static void tensors_are_apart(void **state) {
    (void)state;
    struct gguf_bytes b;
    for (uint32_t same = 0; same < 2; same++) {
        gguf_begin(&b, 3, 2, 0);
        gguf_put_tensor(&b, "x", 2, sizes, F32, 0);
        gguf_put_tensor(&b, same ? "x" : "y", 2, sizes, F32, same ? 32 : 0);
        gguf_align(&b, 32);
        gguf_put(&b, numbers, sizeof numbers);
        gguf_align(&b, 32);
        gguf_put(&b, numbers, sizeof numbers);
        refuse_bytes(&b, same ? "tensor \"x\": it comes twice" : "its data overlaps that of");
    }
}

static void an_alignment_is_a_power_of_two(void **state) {
    (void)state;
    struct gguf_bytes b;
    const uint32_t wrong[] = {0, 24, 0x80000001};
    for (size_t i = 0; i < TEST_COUNT(wrong); i++) {
        gguf_begin(&b, 3, 0, 1);
        gguf_put_number(&b, "general.alignment", wrong[i]);
        refuse_bytes(&b, "key \"general.alignment\": it is not a power of two");
    }
    gguf_begin(&b, 3, 0, 1);
    gguf_put_string(&b, "general.alignment", "32");
    refuse_bytes(&b, "key \"general.alignment\": it is not a power of two");
}

/* ---- files of llama.cpp ------------------------------------------------------------------------------------------ */

/* Each file's tensors against the first 32 rows of each as the gguf package reads them. */
static void numbers_are_those_of_the_reference(void **state) {
    (void)state;
    static const char *const types[] = {"f32", "f16", "bf16"};
    const char *folder = getenv("QKV_DATA");
    for (size_t i = 0; i < TEST_COUNT(types); i++) {
        char path[512], rows[512];
        struct qkv_gguf *g;
        struct qkv_tensors *t, *want;
        snprintf(path, sizeof path, "%s/gguf/tiny-%s.gguf", folder ? folder : TEST_SOURCE_DIR "/../shared/data",
                 types[i]);
        snprintf(rows, sizeof rows, "%.*s.first32rows.safetensors", (int)strlen(path) - 5, path);
        if (access(path, R_OK) != 0) skip();
        assert_ok(&ctx, qkv_gguf_open(&ctx, path, &g, &t));
        assert_ok(&ctx, qkv_tensors_open(&ctx, rows, &want));
        assert_int_equal(qkv_gguf_find(g, "tokenizer.ggml.tokens")->count, 320);
        assert_int_equal(qkv_tensors_count(t), 21);
        assert_true(qkv_tensors_count(want) > 0);
        for (size_t k = 0; k < qkv_tensors_count(want); k++) {
            const struct qkv_array *a = qkv_tensors_at(want, k), *b = qkv_tensors_find(t, a->name);
            const size_t n = qkv_array_elements(a);
            float *x = malloc(2 * n * sizeof *x);
            assert_true(b && b->shape[b->rank - 1] == a->shape[a->rank - 1]);
            qkv_array_floats(a, x);
            assert_ok(&ctx, qkv_tensors_part(t, b, 0, n, x + n));
            assert_memory_equal(x, x + n, n * sizeof *x);
            free(x);
        }
        qkv_gguf_free(g);
        qkv_tensors_close(t);
        qkv_tensors_close(want);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_all_types_are_read),
        cmocka_unit_test(tensors_are_row_major),
        cmocka_unit_test(cut_files_are_refused),
        cmocka_unit_test(other_versions_are_refused),
        cmocka_unit_test(keys_that_cannot_be_are_refused),
        cmocka_unit_test(numbers_that_are_not_finite_are_refused),
        cmocka_unit_test(tensors_that_cannot_be_are_refused),
        cmocka_unit_test(tensors_are_apart),
        cmocka_unit_test(an_alignment_is_a_power_of_two),
        cmocka_unit_test(numbers_are_those_of_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
