/* test_safetensors: writing tensor files and reading them back, refusals of the writer, and files of other programs. */
#include <ftw.h>

#include <sys/resource.h>

#include "io/safetensors.h"
#include "test.h"

static struct qkv_context ctx = {.threads = 1};

static void assert_same_arrays(const struct qkv_array *a, const struct qkv_array *b) {
    assert_non_null(a);
    assert_non_null(b);
    assert_string_equal(a->name, b->name);
    assert_true(a->dtype == b->dtype && a->rank == b->rank && a->bytes == b->bytes);
    for (int i = 0; i < a->rank; i++) assert_true(a->shape[i] == b->shape[i]);
    if (a->bytes) assert_memory_equal(a->data, b->data, a->bytes);
}

/* ---- writing: memory, alignment, order -------------------------------------------------------------------------- */

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
        assert_int_equal((uintptr_t)a->data % qkv_type_size(a->dtype), 0);
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

/* ---- round trips ------------------------------------------------------------------------------------------------ */

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
        do a->dtype = (enum qkv_dtype)qkv_random_below(random, QKV_DTYPE_COUNT);
        while (!qkv_types[a->dtype]->safetensors || qkv_types[a->dtype]->block > 1);
        a->rank = (int)qkv_random_below(random, QKV_RANK_MAX + 1);
        a->bytes = qkv_type_size(a->dtype);
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

/* ---- files that others wrote ------------------------------------------------------------------------------------ */

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

/* ---- refusals --------------------------------------------------------------------------------------------------- */

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

int main(void) {
    test_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writing_copies_nothing), cmocka_unit_test(data_is_aligned),
        cmocka_unit_test(written_bytes),          cmocka_unit_test(round_trips),
        cmocka_unit_test(many_tensors),           cmocka_unit_test(files_of_others),
        cmocka_unit_test(writing_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
