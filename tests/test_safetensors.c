/* test_safetensors: files that others wrote, round trips, every refusal with its sentence, files cut off at every length
 * and files with damaged bytes. */
#include <ftw.h>

#include <sys/resource.h>

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

static void assert_same_arrays(const struct qkv_array *a, const struct qkv_array *b) {
    assert_non_null(a);
    assert_non_null(b);
    assert_string_equal(a->name, b->name);
    assert_true(a->dtype == b->dtype && a->rank == b->rank && a->bytes == b->bytes);
    for (int i = 0; i < a->rank; i++) assert_true(a->shape[i] == b->shape[i]);
    if (a->bytes) assert_memory_equal(a->data, b->data, a->bytes);
}

/* ---- writing: memory, alignment, order ---------------------------------------------------------------------------- */

/* First of all tests: it looks at the most memory that this process ever had. */
static void writing_copies_nothing(void **state) {
    (void)state;
    size_t n = (size_t)48 << 20;
    float *zeros = calloc(n, 1);
    struct qkv_array array = {
        .name = "large", .dtype = QKV_F32, .rank = 1, .shape = {n / 4}, .data = zeros, .bytes = n};
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    assert_ok(&ctx, qkv_tensors_write(&ctx, test_path("large"), &array, 1, NULL, 0));
    getrusage(RUSAGE_SELF, &after);
    assert_true(after.ru_maxrss - before.ru_maxrss < 16 << 10);
    free(zeros);
    struct qkv_tensors *t;
    assert_ok(&ctx, qkv_tensors_open(&ctx, test_path("large"), &t));
    assert_int_equal(qkv_tensors_at(t, 0)->bytes, n);
    qkv_tensors_close(t);
    assert_int_equal(remove(test_path("large")), 0);
}

static void data_is_aligned(void **state) {
    (void)state;
    static const unsigned char data[64];
    static const struct qkv_array arrays[] = {
        {.name = "bytes", .dtype = QKV_U8, .rank = 1, .shape = {3}, .data = data, .bytes = 3},
        {.name = "z", .dtype = QKV_F32, .rank = 1, .shape = {3}, .data = data, .bytes = 12},
        {.name = "half", .dtype = QKV_BF16, .rank = 1, .shape = {5}, .data = data, .bytes = 10},
        {.name = "a", .dtype = QKV_F32, .rank = 0, .data = data, .bytes = 4},
        {.name = "double", .dtype = QKV_F64, .rank = 2, .shape = {1, 3}, .data = data, .bytes = 24},
        {.name = "empty", .dtype = QKV_I64, .rank = 1, .shape = {0}},
    };
    static const char *const order[] = {"double", "z", "a", "half", "bytes"};
    const char *path = test_path("aligned.safetensors");
    assert_ok(&ctx, qkv_tensors_write(&ctx, path, arrays, TEST_COUNT(arrays), NULL, 0));
    struct qkv_tensors *t;
    assert_ok(&ctx, qkv_tensors_open(&ctx, path, &t));
    assert_int_equal(qkv_tensors_count(t), TEST_COUNT(arrays));
    size_t next = 0, size;
    for (size_t i = 0; i < TEST_COUNT(arrays); i++) {
        const struct qkv_array *a = qkv_tensors_at(t, i);
        assert_int_equal((uintptr_t)a->data % qkv_dtype_size(a->dtype), 0);
        if (a->bytes) assert_string_equal(a->name, order[next++]);
    }
    assert_int_equal((uintptr_t)qkv_tensors_find(t, "double")->data % 64, 0);
    assert_null(qkv_tensors_at(t, TEST_COUNT(arrays)));
    qkv_tensors_close(t);
    char *file = test_read_file(path, &size);
    uint64_t header;
    memcpy(&header, file, 8);
    assert_int_equal((8 + header) % 64, 0);
    assert_int_equal(8 + header + 53, size);
    free(file);
}

/* The whole text of a small file, by hand from the description of the format. */
static void written_bytes(void **state) {
    (void)state;
    static const float x[] = {1, 2};
    struct qkv_array array = {
        .name = "a\"\n\xc3\xa9", .dtype = QKV_F32, .rank = 2, .shape = {2, 1}, .data = x, .bytes = 8};
    static const char *const metadata[] = {"k/1", "v\\", "", ""};
    static const char expected[] = "{\"__metadata__\":{\"k/1\":\"v\\\\\",\"\":\"\"},\"a\\\"\\n\xc3\xa9\":"
                                   "{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]}}";
    const char *path = test_path("bytes.safetensors");
    assert_ok(&ctx, qkv_tensors_write(&ctx, path, &array, 1, metadata, 2));
    size_t n, text = sizeof expected - 1;
    unsigned char *file = (unsigned char *)test_read_file(path, &n);
    assert_int_equal(n, 128 + 8);
    assert_int_equal(file[0], 120);
    for (size_t i = 1; i < 8; i++) assert_int_equal(file[i], 0);
    assert_memory_equal(file + 8, expected, text);
    for (size_t i = 8 + text; i < 128; i++) assert_int_equal(file[i], ' ');
    static const unsigned char floats[8] = {0, 0, 0x80, 0x3f, 0, 0, 0, 0x40};
    assert_memory_equal(file + 128, floats, 8);
    free(file);
    assert_ok(&ctx, qkv_tensors_write(&ctx, path, NULL, 0, NULL, 0));
    struct qkv_tensors *t;
    assert_ok(&ctx, qkv_tensors_open(&ctx, path, &t));
    assert_int_equal(qkv_tensors_count(t), 0);
    assert_null(qkv_tensors_find(t, ""));
    assert_null(qkv_tensors_metadata(t, "k"));
    qkv_tensors_close(t);
}

/* ---- round trips -------------------------------------------------------------------------------------------------------- */

struct collection {
    struct qkv_array arrays[40];
    char names[40][32];
    size_t count;
};

static void collect_random(struct qkv_random *random, struct collection *c) {
    c->count = test_between(random, 0, 40);
    for (size_t i = 0; i < c->count; i++) {
        struct qkv_array *a = &c->arrays[i];
        snprintf(c->names[i], sizeof c->names[i], "layer.%zu.%llx", i,
                 (unsigned long long)qkv_random_below(random, 1 << 20));
        *a = (struct qkv_array){.name = c->names[i]};
        a->dtype = (enum qkv_dtype)qkv_random_below(random, QKV_DTYPE_COUNT);
        a->rank = (int)qkv_random_below(random, QKV_RANK_MAX + 1);
        a->bytes = qkv_dtype_size(a->dtype);
        for (int d = 0; d < a->rank; d++) {
            a->shape[d] = test_between(random, qkv_random_below(random, 8) ? 1 : 0, 4);
            a->bytes *= a->shape[d];
        }
        unsigned char *data = malloc(a->bytes + 1); /* unaligned on purpose */
        for (size_t k = 0; k < a->bytes; k++) data[k + 1] = (unsigned char)qkv_random_bits(random);
        a->data = data + 1;
    }
}

static void collection_free(struct collection *c) {
    for (size_t i = 0; i < c->count; i++) free((unsigned char *)(uintptr_t)c->arrays[i].data - 1);
}

static void round_trips(void **state) {
    (void)state;
    struct qkv_random random = test_random(1);
    const char *path = test_path("round.safetensors");
    static struct collection c;
    static const char *const metadata[] = {"format", "qkv", "text", "a \"b\" \\ \t é"};
    for (int round = 0; round < 200; round++) {
        collect_random(&random, &c);
        size_t pairs = qkv_random_below(&random, 3);
        assert_ok(&ctx, qkv_tensors_write(&ctx, path, c.arrays, c.count, metadata, pairs));
        struct qkv_tensors *t;
        assert_ok(&ctx, qkv_tensors_open(&ctx, path, &t));
        assert_int_equal(qkv_tensors_count(t), c.count);
        for (size_t i = 0; i < c.count; i++) assert_same_arrays(qkv_tensors_find(t, c.names[i]), &c.arrays[i]);
        const unsigned char *end = NULL;
        for (size_t i = 0; i < c.count; i++) { /* the order of the data */
            const struct qkv_array *a = qkv_tensors_at(t, i);
            assert_true(i == 0 || a->data == end);
            end = (const unsigned char *)a->data + a->bytes;
            assert_ptr_equal(qkv_tensors_find(t, a->name), a);
        }
        for (size_t i = 0; i < 2; i++) {
            const char *value = qkv_tensors_metadata(t, metadata[2 * i]);
            if (i < pairs) assert_string_equal(value, metadata[2 * i + 1]);
            if (i >= pairs) assert_null(value);
        }
        assert_null(qkv_tensors_find(t, "layer"));
        assert_null(qkv_tensors_find(t, "__metadata__"));
        assert_null(qkv_tensors_find(t, NULL));
        assert_null(qkv_tensors_metadata(t, NULL));
        qkv_tensors_close(t);
        collection_free(&c);
    }
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

static void many_tensors(void **state) {
    (void)state;
    size_t count = 50000;
    struct qkv_array *arrays = calloc(count, sizeof *arrays);
    char(*names)[40] = calloc(count, sizeof *names);
    for (size_t i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "decoder.layers.%zu.ffn.up.weight", (i * 7919) % count);
        arrays[i] =
            (struct qkv_array){.name = names[i], .dtype = QKV_U8, .rank = 1, .shape = {1}, .data = "x", .bytes = 1};
    }
    const char *path = test_path("many.safetensors");
    struct qkv_tensors *t;
    clock_t start = clock();
    assert_ok(&ctx, qkv_tensors_write(&ctx, path, arrays, count, NULL, 0));
    assert_ok(&ctx, qkv_tensors_open(&ctx, path, &t));
    for (size_t i = 0; i < count; i++) assert_ptr_equal(qkv_tensors_find(t, names[i]), qkv_tensors_at(t, i));
    assert_true(clock() - start < 5 * CLOCKS_PER_SEC); /* 0.1 s; comparing all with all takes minutes */
    qkv_tensors_close(t);
    free(arrays);
    free(names);
}

/* ---- files that others wrote ------------------------------------------------------------------------------------------ */

static size_t others_read;

static int read_other(const char *path, const struct stat *info, int kind, struct FTW *walk) {
    (void)info, (void)walk;
    size_t length = strlen(path);
    if (kind != FTW_F || length < 12 || strcmp(path + length - 12, ".safetensors") != 0) return 0;
    struct qkv_tensors *t, *again;
    static struct qkv_array arrays[4096];
    assert_ok(&ctx, qkv_tensors_open(&ctx, path, &t));
    size_t count = qkv_tensors_count(t);
    assert_in_range(count, 1, TEST_COUNT(arrays));
    for (size_t i = 0; i < count; i++) {
        arrays[i] = *qkv_tensors_at(t, i);
        assert_ptr_equal(qkv_tensors_find(t, arrays[i].name), qkv_tensors_at(t, i));
        float *x = malloc(qkv_array_elements(&arrays[i]) * sizeof *x + 1);
        qkv_array_floats(&arrays[i], x);
        free(x);
    }
    assert_ok(&ctx, qkv_tensors_write(&ctx, test_path("other"), arrays, count, NULL, 0));
    assert_ok(&ctx, qkv_tensors_open(&ctx, test_path("other"), &again));
    for (size_t i = 0; i < count; i++) assert_same_arrays(qkv_tensors_find(again, arrays[i].name), &arrays[i]);
    qkv_tensors_close(again);
    qkv_tensors_close(t);
    others_read++;
    return 0;
}

static void files_of_others(void **state) {
    (void)state;
    static const char *const folders[] = {"/tests/golden", "/../shared/golden", "/../shared/data/onnx"};
    for (size_t i = 0; i < TEST_COUNT(folders); i++) {
        char folder[1024];
        snprintf(folder, sizeof folder, "%s%s", TEST_SOURCE_DIR, folders[i]);
        nftw(folder, read_other, 16, FTW_PHYS);
    }
    printf("%zu files of others\n", others_read);
    if (others_read == 0) skip();
}

/* ---- refusals ---------------------------------------------------------------------------------------------------------- */

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
    {"{\"t\":" ENTRY("F8_E4M3", "[4]", "[0,4]") "}", 4, TENSOR("dtype F8_E4M3 is not supported; convert it")},
    {"{\"t\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, TENSOR("shape is missing or not a list")},
    {"{\"t\":" ENTRY("U8", "3", "[0,3]") "}", 3, TENSOR("shape is missing or not a list")},
    {"{\"t\":" ENTRY("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") "}", 1, TENSOR("it has 9 dimensions, more than the 8")},
    {"{\"t\":" ENTRY("U8", "[2,-1]", "[0,1]") "}", 1, TENSOR("shape[1] is not a whole number")},
    {"{\"t\":" ENTRY("U8", "[1.0]", "[0,1]") "}", 1, TENSOR("shape[0] is not a whole number")},
    {"{\"t\":" ENTRY("U8", "[\"1\"]", "[0,1]") "}", 1, TENSOR("shape[0] is not a whole number")},
    {"{\"t\":" ENTRY("U8", "[99999999999999999999]", "[0,1]") "}", 1, "the header is not valid JSON"},
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
    assert_message(&ctx, "this is no safetensors file: its header would have 100000001 bytes");
    test_write_file(path, "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
    assert_status(&ctx, qkv_tensors_open(&ctx, path, &t), QKV_FORMAT);
    assert_message(&ctx, "its header would have 18446744073709551615 bytes");
}

/* What is wrong still stands in the sentence when a name fills it; and the cut respects characters. */
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

static void writing_is_refused(void **state) {
    (void)state;
    static const float x[2];
    const struct qkv_array good = {.name = "t", .dtype = QKV_F32, .rank = 1, .shape = {2}, .data = x, .bytes = 8};
    const char *path = test_path("refused.safetensors");
    struct qkv_array bad[12];
    static const char *const messages[12] = {
        "tensor 1 has no name",
        "\"__metadata__\" cannot be written: that name is reserved",
        "\"t2\" cannot be written: its dtype is invalid",
        "\"t2\" cannot be written: its rank is invalid",
        "\"t2\" cannot be written: its rank is invalid",
        "\"t2\" cannot be written: its shape is larger than any memory",
        "\"t2\" cannot be written: its bytes do not agree with its dtype and shape",
        "\"t2\" cannot be written: it has no data",
        "the name \"t\" is given twice",
        "it is not valid UTF-8",
        "\"t2\" cannot be written: its bytes do not agree with its dtype and shape",
        "the tensors together are larger than any file",
    };
    for (size_t i = 0; i < 12; i++) bad[i] = good, bad[i].name = "t2";
    bad[0].name = NULL;
    bad[1].name = "__metadata__";
    bad[2].dtype = QKV_DTYPE_COUNT;
    bad[3].rank = -1;
    bad[4].rank = QKV_RANK_MAX + 1;
    bad[5].shape[0] = SIZE_MAX / 2;
    bad[6].dtype = QKV_F64;
    bad[7].data = NULL;
    bad[8].name = "t";
    bad[9].name = "t\xff";
    bad[10].bytes = 9;
    bad[11].shape[0] = SIZE_MAX / 4, bad[11].bytes = SIZE_MAX / 4 * 4;
    for (size_t i = 0; i < 12; i++) {
        struct qkv_array both[2] = {good, bad[i]};
        assert_status(&ctx, qkv_tensors_write(&ctx, path, both, 2, NULL, 0), QKV_ARGUMENT);
        assert_message(&ctx, messages[i]);
        assert_message(&ctx, "refused.safetensors: ");
    }
    static const char *const twice[] = {"a", "1", "b", "2", "a", "3"}, *const lacking[] = {"a", NULL};
    static const char *const broken[] = {"a", "\xc3"};
    assert_status(&ctx, qkv_tensors_write(&ctx, path, &good, 1, twice, 3), QKV_ARGUMENT);
    assert_message(&ctx, "the name \"a\" is given twice");
    assert_status(&ctx, qkv_tensors_write(&ctx, path, &good, 1, lacking, 1), QKV_ARGUMENT);
    assert_message(&ctx, "metadata pair 0 lacks its key or value");
    assert_status(&ctx, qkv_tensors_write(&ctx, path, &good, 1, broken, 1), QKV_ARGUMENT);
    assert_message(&ctx, "it is not valid UTF-8");
    assert_status(&ctx, qkv_tensors_write(&ctx, path, NULL, 1, NULL, 0), QKV_ARGUMENT);
    assert_status(&ctx, qkv_tensors_write(&ctx, path, &good, 1, NULL, 1), QKV_ARGUMENT);
    assert_status(&ctx, qkv_tensors_write(&ctx, NULL, &good, 1, NULL, 0), QKV_ARGUMENT);
    char *vast = malloc(QKV_TENSORS_HEADER_MOST + 2); /* the header would pass the format's limit */
    memset(vast, 'v', QKV_TENSORS_HEADER_MOST + 1);
    vast[QKV_TENSORS_HEADER_MOST + 1] = 0;
    const char *const wide[] = {"k", vast};
    assert_status(&ctx, qkv_tensors_write(&ctx, path, &good, 1, wide, 1), QKV_ARGUMENT);
    assert_message(&ctx, "more than the format's limit of 100000000");
    free(vast);
    assert_false(qkv_file_exists(path));
    assert_status(&ctx, qkv_tensors_write(&ctx, "/proc/none/t", &good, 1, NULL, 0), QKV_FILE);
    if (access("/dev/full", W_OK) == 0) {
        assert_status(&ctx, qkv_tensors_write(&ctx, "/dev/full", &good, 1, NULL, 0), QKV_FILE);
        assert_message(&ctx, "No space left on device");
    }
}

/* ---- damage -------------------------------------------------------------------------------------------------------------- */

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
        assert_int_equal(qkv_array_elements(a) * qkv_dtype_size(a->dtype), a->bytes);
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
        cmocka_unit_test(writing_copies_nothing), cmocka_unit_test(data_is_aligned),
        cmocka_unit_test(written_bytes),          cmocka_unit_test(round_trips),
        cmocka_unit_test(elements_and_floats),    cmocka_unit_test(many_tensors),
        cmocka_unit_test(files_of_others),        cmocka_unit_test(refusals),
        cmocka_unit_test(refused_beginnings),     cmocka_unit_test(long_names),
        cmocka_unit_test(writing_is_refused),     cmocka_unit_test(cut_off_anywhere),
        cmocka_unit_test(damaged_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
