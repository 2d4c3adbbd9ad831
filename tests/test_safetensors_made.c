/* test_safetensors_made: tensor files made by hand: their contents, every refusal with its message, files cut off at
 * every length and files with damaged bytes. */
/* labels: quick */
#include "io/io.h"
#include "io/safetensors.h"
#include "test.h"

static struct qkv_context ctx = {.threads = 1};

/* Writes the 8 bytes of a size, a header and data_size bytes of data; returns the path. */
static const char *make_file(const char *json, size_t data_size) {
    const char *path = test_path("made.safetensors");
    uint64_t n = strlen(json);
    char *bytes = calloc(8 + n + data_size, 1);
    memcpy(bytes, &n, 8);
    memcpy(bytes + 8, json, n);
    for (size_t i = 0; i < data_size; i++) bytes[8 + n + i] = (char)i;
    test_write_file(path, bytes, 8 + n + data_size);
    free(bytes);
    return path;
}

static void elements_and_floats(void **state) {
    (void)state;
    const char *path = make_file("{\"s\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]},"
                                 "\"v\":{\"dtype\":\"I16\",\"shape\":[2,3],\"data_offsets\":[1,13]},"
                                 "\"none\":{\"dtype\":\"F32\",\"shape\":[4,0,3],\"data_offsets\":[13,13]}}   \n",
                                 13);
    struct qkv_tensors *t;
    float x[6];
    assert_ok(&ctx, qkv_tensors_open(&ctx, path, &t));
    assert_int_equal(qkv_array_elements(qkv_tensors_find(t, "s")), 1);
    assert_int_equal(qkv_array_elements(qkv_tensors_find(t, "v")), 6);
    assert_int_equal(qkv_array_elements(qkv_tensors_find(t, "none")), 0);
    qkv_array_floats(qkv_tensors_find(t, "none"), x);
    qkv_array_floats(qkv_tensors_find(t, "s"), x);
    assert_true(x[0] == 0);
    qkv_array_floats(qkv_tensors_find(t, "v"), x);
    for (int i = 0; i < 6; i++) assert_true(x[i] == (float)((1 + 2 * i) + 256 * (2 + 2 * i)));
    qkv_tensors_close(t);
    struct qkv_array vast = {.rank = 3, .shape = {(size_t)1 << 40, (size_t)1 << 40, 3}};
    assert_true(qkv_array_elements(&vast) == SIZE_MAX);
    char text[QKV_SHAPE_TEXT];
    assert_string_equal(qkv_shape_text(vast.shape, 0, text), "()");
    assert_string_equal(qkv_shape_text(vast.shape, 3, text), "(1099511627776, 1099511627776, 3)");
    size_t widest[QKV_RANK_MAX];
    for (size_t i = 0; i < QKV_RANK_MAX; i++) widest[i] = SIZE_MAX;
    assert_int_equal(strlen(qkv_shape_text(widest, QKV_RANK_MAX, text)), QKV_RANK_MAX * 22);
    qkv_tensors_close(NULL);
}

/* ---- refusals --------------------------------------------------------------------------------------------------- */

#define ENTRY(dtype, shape, offsets) "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define TENSOR(rest)                 "made.safetensors: tensor \"t\": " rest

static const struct {
    const char *json;
    size_t data;
    const char *message;
} refused[] = {
    {"", 0, "its header does not start with '{'"},
    {" {}", 0, "its header does not start with '{'"},
    {"[1]", 0, "its header does not start with '{'"},
    {"{", 0, "the header is not valid JSON: line 1, column 1: "},
    {"{} x", 0, "the header is not valid JSON"},
    {"{}{}", 0, "the header is not valid JSON"},
    {"{\"a\":\"\xff\"}", 0, "the header is not valid JSON"},
    {"{\"t\\u0000x\":" ENTRY("F32", "[]", "[0,4]") "}", 4, "holds the character U+0000"},
    {"{\"__metadata__\":{\"a\":\"\\u0000\"}}", 0, "holds the character U+0000"},
    {"{\"t\":" ENTRY("U8", "[1]", "[0,1]") ",\"t\":" ENTRY("U8", "[1]", "[1,2]") "}", 2, "duplicate object key"},
    {"{\"__metadata__\":[]}", 0, "__metadata__ is not an object of texts"},
    {"{\"__metadata__\":{\"a\":\"b\",\"version\":1}}", 0, "__metadata__: \"version\" is not a text"},
    {"{\"t\":3}", 0, TENSOR("its entry is not an object")},
    {"{\"t\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1],\"scale\":2}}", 1,
     TENSOR("its entry has an unknown key \"scale\"")},
    {"{\"t\":{\"shape\":[],\"data_offsets\":[0,1]}}", 1, TENSOR("dtype is missing or not a text")},
    {"{\"t\":{\"dtype\":5,\"shape\":[],\"data_offsets\":[0,1]}}", 1, TENSOR("dtype is missing or not a text")},
    {"{\"t\":" ENTRY("f32", "[]", "[0,4]") "}", 4, TENSOR("dtype \"f32\" is unknown")},
    {"{\"t\":" ENTRY("F8_E5M2", "[4]", "[0,4]") "}", 4, TENSOR("dtype F8_E5M2 is not supported; convert it")},
    {"{\"t\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, TENSOR("shape is missing or not a list")},
    {"{\"t\":" ENTRY("U8", "3", "[0,3]") "}", 3, TENSOR("shape is missing or not a list")},
    {"{\"t\":" ENTRY("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") "}", 1, TENSOR("it has 9 dimensions, more than the 8")},
    {"{\"t\":" ENTRY("U8", "[2,-1]", "[0,1]") "}", 1, TENSOR("shape[1] is not a whole number")},
    {"{\"t\":" ENTRY("U8", "[1.0]", "[0,1]") "}", 1, TENSOR("shape[0] is not a whole number")},
    {"{\"t\":" ENTRY("U8", "[\"1\"]", "[0,1]") "}", 1, TENSOR("shape[0] is not a whole number")},
    {"{\"t\":" ENTRY("U8", "[99999999999999999999]", "[0,1]") "}", 1, "shape[0] is not a whole number from 0 up"},
    {"{\"t\":" ENTRY("U8", "[4294967296,4294967296]", "[0,0]") "}", 0,
     TENSOR("the shape (4294967296, 4294967296) is larger than any memory")},
    {"{\"t\":" ENTRY("F32", "[4611686018427387904]", "[0,0]") "}", 0,
     TENSOR("the shape (4611686018427387904) is larger")},
    {"{\"t\":" ENTRY("F32", "[0,4294967296,4294967296]", "[0,0]") "}", 0,
     TENSOR("the shape (0, 4294967296, 4294967296) is larger")},
    {"{\"t\":{\"dtype\":\"U8\",\"shape\":[]}}", 0, TENSOR("data_offsets are not two whole numbers")},
    {"{\"t\":" ENTRY("U8", "[1]", "[0]") "}", 1, TENSOR("data_offsets are not two whole numbers")},
    {"{\"t\":" ENTRY("U8", "[1]", "[0,1,2]") "}", 1, TENSOR("data_offsets are not two whole numbers")},
    {"{\"t\":" ENTRY("U8", "[1]", "[-1,0]") "}", 1, TENSOR("data_offsets are not two whole numbers")},
    {"{\"t\":" ENTRY("U8", "[1]", "[0,1.5]") "}", 1, TENSOR("data_offsets are not two whole numbers")},
    {"{\"t\":" ENTRY("U8", "[1]", "[2,1]") "}", 2, TENSOR("data_offsets are reversed: [2, 1]")},
    {"{\"t\":" ENTRY("U8", "[5]", "[0,5]") "}", 4, TENSOR("its data ends at 5, but the file has only 4 bytes of data")},
    {"{\"t\":" ENTRY("U8", "[1]", "[9223372036854775806,9223372036854775807]") "}", 4,
     TENSOR("its data ends at 9223372036854775807")},
    {"{\"t\":" ENTRY("F32", "[2,3]", "[0,20]") "}", 20,
     TENSOR("F32 of shape (2, 3) takes 24 bytes, but its data_offsets hold 20")},
    {"{\"t\":" ENTRY("F32", "[0]", "[0,4]") "}", 4,
     TENSOR("F32 of shape (0) takes 0 bytes, but its data_offsets hold 4")},
    {"{\"s\":" ENTRY("U8", "[3]", "[0,3]") ",\"t\":" ENTRY("U8", "[2]", "[2,4]") "}", 4,
     TENSOR("its data overlaps that of \"s\"")},
    {"{\"s\":" ENTRY("U8", "[4]", "[0,4]") ",\"t\":" ENTRY("U8", "[0]", "[2,2]") "}", 4,
     TENSOR("its data overlaps that of \"s\"")},
    {"{\"s\":" ENTRY("U8", "[2]", "[0,2]") ",\"t\":" ENTRY("U8", "[2]", "[0,2]") "}", 2,
     TENSOR("its data overlaps that of \"s\"")},
    {"{\"s\":" ENTRY("U8", "[1]", "[0,1]") ",\"t\":" ENTRY("U8", "[1]", "[3,4]") "}", 4,
     TENSOR("the 2 bytes before its data belong to no tensor")},
    {"{\"t\":" ENTRY("U8", "[1]", "[0,1]") "}", 4, "made.safetensors: the last 3 bytes belong to no tensor"},
    {"{}", 1, "made.safetensors: the last 1 bytes belong to no tensor"},
};

static void refusals(void **state) {
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(refused); i++) {
        struct qkv_tensors *t = (struct qkv_tensors *)&ctx;
        ctx.message[0] = 0;
        assert_status(&ctx, qkv_tensors_open(&ctx, make_file(refused[i].json, refused[i].data), &t), QKV_FORMAT);
        assert_message(&ctx, refused[i].message);
        assert_message(&ctx, "made.safetensors: ");
        assert_null(t);
    }
}

static void refused_beginnings(void **state) {
    (void)state;
    struct qkv_tensors *t;
    const char *path = test_path("beginning.safetensors");
    assert_status(&ctx, qkv_tensors_open(&ctx, test_path("missing"), &t), QKV_FILE);
    assert_message(&ctx, "missing: No such file");
    assert_status(&ctx, qkv_tensors_open(&ctx, NULL, &t), QKV_ARGUMENT);
    test_write_file(path, "", 0);
    assert_status(&ctx, qkv_tensors_open(&ctx, path, &t), QKV_FORMAT);
    assert_message(&ctx, "beginning.safetensors: 0 bytes are too few for a safetensors file");
    test_write_file(path, "\x09\0\0\0\0\0\0\0{}", 10);
    assert_status(&ctx, qkv_tensors_open(&ctx, path, &t), QKV_FORMAT);
    assert_message(&ctx, "the header should have 9 bytes, but the file ends after 2: it was cut off");
    test_write_file(path, "\x01\xe1\xf5\x05\0\0\0\0{}", 10);
    assert_status(&ctx, qkv_tensors_open(&ctx, path, &t), QKV_FORMAT);
    assert_message(&ctx, "this is not a safetensors file: its header would have 100000001 bytes");
    test_write_file(path, "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
    assert_status(&ctx, qkv_tensors_open(&ctx, path, &t), QKV_FORMAT);
    assert_message(&ctx, "its header would have 18446744073709551615 bytes");
}

/* The message still says what is wrong when a name fills it; and the cut respects characters. */
static void long_names(void **state) {
    (void)state;
    char json[3000] = "{\"x";
    for (int i = 0; i < 1000; i++) strcat(json, "é");
    strcat(json, "\":3}");
    struct qkv_tensors *t;
    assert_status(&ctx, qkv_tensors_open(&ctx, make_file(json, 0), &t), QKV_FORMAT);
    assert_message(&ctx, "é\": its entry is not an object");
    assert_int_equal(qkv_shown_length("short"), 5);
}

/* ---- damage ----------------------------------------------------------------------------------------------------- */

/* A small valid file with several dtypes, its bytes and size. */
static char *valid_file(size_t *size) {
    static const unsigned char data[64];
    static const struct qkv_array arrays[] = {
        {.name = "a", .dtype = QKV_F32, .rank = 2, .shape = {3, 4}, .data = data, .bytes = 48},
        {.name = "decoder.b", .dtype = QKV_I8, .rank = 1, .shape = {5}, .data = data, .bytes = 5},
        {.name = "none", .dtype = QKV_F16, .rank = 3, .shape = {2, 0, 7}},
        {.name = "scalar", .dtype = QKV_F64, .rank = 0, .data = data, .bytes = 8},
    };
    static const char *const metadata[] = {"format", "qkv"};
    assert_ok(&ctx, qkv_tensors_write(&ctx, test_path("valid.safetensors"), arrays, TEST_COUNT(arrays), metadata, 1));
    return test_read_file(test_path("valid.safetensors"), size);
}

static void cut_off_anywhere(void **state) {
    (void)state;
    size_t size;
    char *bytes = valid_file(&size);
    const char *path = test_path("cut.safetensors");
    for (size_t n = 0; n <= size; n++) {
        struct qkv_tensors *t;
        remove(path);
        test_write_file(path, bytes, n);
        ctx.message[0] = 0;
        assert_status(&ctx, qkv_tensors_open(&ctx, path, &t), n == size ? QKV_OK : QKV_FORMAT);
        if (n < size) assert_message(&ctx, "cut.safetensors: ");
        qkv_tensors_close(t);
    }
    free(bytes);
}

/* Opens a damaged file: refused with a sentence, or else whatever it says now still lies within the file. */
static bool open_damaged(const char *path, const char *bytes, size_t size) {
    struct qkv_tensors *t;
    uint64_t header;
    size_t total = 0;
    remove(path); /* file systems write a file that is cut to nothing and filled again to disk at once */
    test_write_file(path, bytes, size);
    ctx.message[0] = 0;
    enum qkv_status status = qkv_tensors_open(&ctx, path, &t);
    if (status) {
        assert_int_equal(status, QKV_FORMAT);
        assert_message(&ctx, "damaged.safetensors: ");
        assert_null(t);
        return false;
    }
    memcpy(&header, bytes, 8);
    for (size_t i = 0; i < qkv_tensors_count(t); i++) {
        const struct qkv_array *a = qkv_tensors_at(t, i);
        float x[64];
        assert_true(qkv_array_elements(a) <= 64);
        assert_int_equal(qkv_array_elements(a) * qkv_type_size(a->dtype), a->bytes);
        if (a->bytes) assert_memory_equal(a->data, bytes + 8 + header + total, a->bytes);
        qkv_array_floats(a, x);
        assert_ptr_equal(qkv_tensors_find(t, a->name), a);
        total += a->bytes;
    }
    assert_int_equal(8 + header + total, size);
    qkv_tensors_close(t);
    return true;
}

static void damaged_bytes(void **state) {
    (void)state;
    struct qkv_random random = test_random(2);
    size_t size, opened = 0, rounds = 10000;
    char *bytes = valid_file(&size), *damaged = malloc(2 * size);
    const char *path = test_path("damaged.safetensors");
    static const char hints[] = "{}[]\":,0123456789-.eE \\u\xff";
    for (size_t round = 0; round < rounds; round++) {
        size_t n = size, edits = test_between(&random, 1, 3);
        memcpy(damaged, bytes, size);
        for (size_t e = 0; e < edits; e++) {
            size_t at = test_between(&random, round % 8 ? 8 : 0, n - 1);
            uint64_t how = qkv_random_below(&random, 4);
            if (how == 0) damaged[at] = (char)(damaged[at] ^ (1 << qkv_random_below(&random, 8)));
            if (how == 1) damaged[at] = (char)qkv_random_bits(&random);
            if (how == 2) damaged[at] = hints[qkv_random_below(&random, sizeof hints - 1)];
            if (how == 3) memmove(damaged + at, damaged + at + 1, --n - at);
        }
        opened += open_damaged(path, damaged, n);
    }
    printf("%zu of %zu damaged files were still valid\n", opened, rounds);
    assert_in_range(opened, 1, rounds / 2);
    free(bytes);
    free(damaged);
}

int main(void) {
    test_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_and_floats), cmocka_unit_test(refusals),         cmocka_unit_test(refused_beginnings),
        cmocka_unit_test(long_names),          cmocka_unit_test(cut_off_anywhere), cmocka_unit_test(damaged_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
