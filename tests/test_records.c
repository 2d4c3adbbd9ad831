/* Records of plain and packed files: what is read, where it is, and every file that is refused, with file and line. */
/* labels: quick */
#include "context_fixture.h"

#include "data/records.h"
#include "data/tsv.h"

#ifdef QKV_ZLIB
#include <zlib.h>
#endif
#ifdef QKV_ZSTD
#include <zstd.h>
#endif

/* ---- packed files, by the libraries themselves ------------------------------------------------------------------- */

static const char *const endings[] = {
    "",
#ifdef QKV_ZLIB
    ".gz",
#endif
#ifdef QKV_ZSTD
    ".zst",
#endif
};

#ifdef QKV_ZLIB
static size_t pack_gzip(const char *text, size_t size, unsigned char *out, size_t room) {
    z_stream z = {
        .next_in = (Bytef *)(uintptr_t)text, .avail_in = (uInt)size, .next_out = out, .avail_out = (uInt)room};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return room - z.avail_out;
}
#endif

/* Packs a text as the end of a name says. */
static unsigned char *pack(const char *ending, const char *text, size_t size, size_t *packed) {
    const size_t room = size + size / 8 + 1024;
    unsigned char *out = malloc(room);
    assert_non_null(out);
    *packed = size;
    if (!*ending && size) memcpy(out, text, size);
#ifdef QKV_ZLIB
    if (strcmp(ending, ".gz") == 0) *packed = pack_gzip(text, size, out, room);
#endif
#ifdef QKV_ZSTD
    if (strcmp(ending, ".zst") == 0) *packed = ZSTD_compress(out, room, text, size, 3);
#endif
    return out;
}

static const char *write_packed(const char *name, const char *ending, const char *text, size_t size) {
    static char path[512];
    char full[64];
    size_t packed;
    unsigned char *bytes = pack(ending, text, size, &packed);
    snprintf(full, sizeof full, "%s%s", name, ending);
    snprintf(path, sizeof path, "%s", test_path(full));
    test_write_file(path, bytes, packed);
    free(bytes);
    return path;
}

/* Reads all records as "line:text;". */
static enum qkv_status read_all(const char *path, struct qkv_buffer *out) {
    struct qkv_records records;
    struct qkv_record record;
    bool end = false;
    out->size = 0;
    enum qkv_status status = qkv_records_open(ctx, path, &records);
    while (!status && !(status = qkv_records_next(&records, &record, &end)) && !end)
        assert_ok(ctx, qkv_buffer_print(ctx, out, "%d:%.*s;", (int)record.line, (int)record.size, record.text));
    qkv_records_close(&records);
    return status;
}

/* ---- what is read ------------------------------------------------------------------------------------------------ */

static void lines_of_all_packings_are_read(void **state) {
    static const struct {
        const char *text, *records;
    } cases[] = {
        {"a\nb", "1:a;2:b;"},
        {"a\r\n\n \t\r\nb c \n\n", "1:a;4:b c ;"},
        {"\xef\xbb\xbf"
         "a\n",
         "1:a;"},
        {"", ""},
        {"\n\n", ""},
        {"\r", ""},
        {"a\rb\n", "1:a\rb;"},
    };
    struct qkv_buffer out = {0};
    (void)state;
    for (size_t k = 0; k < TEST_COUNT(endings); k++)
        for (size_t i = 0; i < TEST_COUNT(cases); i++) {
            const char *path = write_packed("a.txt", endings[k], cases[i].text, strlen(cases[i].text));
            assert_ok(ctx, read_all(path, &out));
            assert_string_equal(out.size ? out.data : "", cases[i].records);
        }
    qkv_buffer_free(&out);
}

/* Lines of many lengths, in files of more than one part, so that each buffer ends anywhere in a line. */
static void long_files_keep_their_lines_and_places(void **state) {
    struct qkv_random random = test_random(1);
    struct qkv_buffer text = {0};
    uint64_t positions[400];
    (void)state;
    for (int i = 0; i < 400; i++) {
        const size_t n = i == 77 ? 3000000 : test_between(&random, 1, 20000);
        for (size_t c = 0; c < n; c++) {
            const char letter = (char)('a' + qkv_random_below(&random, 26));
            assert_ok(ctx, qkv_buffer_append(ctx, &text, &letter, 1));
        }
        assert_ok(ctx, qkv_buffer_append(ctx, &text, "\n", 1));
        positions[i] = text.size;
    }
    for (size_t k = 0; k < TEST_COUNT(endings); k++) {
        const char *path = write_packed("long.txt", endings[k], text.data, text.size);
        for (int from = 0; from < 400; from += 133) {
            struct qkv_records records;
            struct qkv_record record;
            bool end;
            assert_ok(ctx, qkv_records_open(ctx, path, &records));
            if (from) assert_ok(ctx, qkv_records_skip(&records, (uint64_t)from, positions[from - 1]));
            for (int i = from; i < 400; i++) {
                assert_ok(ctx, qkv_records_next(&records, &record, &end));
                assert_false(end);
                assert_int_equal(record.line, i + 1);
                assert_int_equal(records.position, positions[i]);
                assert_int_equal(record.size, positions[i] - (i ? positions[i - 1] : 0) - 1);
                assert_memory_equal(record.text, text.data + positions[i] - record.size - 1, record.size);
            }
            assert_ok(ctx, qkv_records_next(&records, &record, &end));
            assert_true(end);
            qkv_records_close(&records);
        }
    }
    qkv_buffer_free(&text);
}

/* Files of several members or frames are one text. */
static void packed_files_may_be_joined(void **state) {
    struct qkv_buffer out = {0};
    (void)state;
    for (size_t k = 1; k < TEST_COUNT(endings); k++) {
        unsigned char *parts[3], all[4096];
        size_t sizes[3], n = 0;
        parts[0] = pack(endings[k], "one\ntw", 6, &sizes[0]);
        parts[1] = pack(endings[k], "", 0, &sizes[1]);
        parts[2] = pack(endings[k], "o\nthree\n", 8, &sizes[2]);
        for (size_t i = 0; i < 3; n += sizes[i++]) memcpy(all + n, parts[i], sizes[i]);
        char name[32];
        snprintf(name, sizeof name, "joined%s", endings[k]);
        const char *path = test_path(name);
        test_write_file(path, all, n);
        assert_ok(ctx, read_all(path, &out));
        assert_string_equal(out.data, "1:one;2:two;3:three;");
        for (size_t i = 0; i < 3; i++) free(parts[i]);
    }
    qkv_buffer_free(&out);
}

static void objects_of_json_lines_are_read(void **state) {
    static const char text[] = "{\"text\": \"a\\nb\", \"n\": 1}\n\n[1]\n{\"text\": 3}\n{\"texts\": []}\n{\"text\": ";
    static const char *const failures[] = {
        NULL, "x.jsonl:3: the line is a list; write an object", "x.jsonl:4: text is a number; it has to be a text",
        "x.jsonl:5: the object has no key text; it has texts; name the key of the text with text_key",
        "x.jsonl:6: the line is not valid JSON: line 1, column"};
    struct qkv_records records;
    struct qkv_record record;
    bool end;
    (void)state;
    const char *path = write_packed("x.jsonl", "", text, sizeof text - 1), *found;
    assert_ok(ctx, qkv_records_open(ctx, path, &records));
    for (size_t i = 0; i < TEST_COUNT(failures); i++) {
        json_t *object;
        size_t size = 0;
        assert_ok(ctx, qkv_records_next(&records, &record, &end));
        assert_false(end);
        enum qkv_status status = qkv_record_parse(ctx, path, &record, &object);
        if (!status) status = qkv_record_text(ctx, path, record.line, object, "text", "text_key", &found, &size);
        if (failures[i]) {
            assert_status(ctx, status, QKV_FORMAT);
            assert_message(ctx, failures[i]);
        } else {
            assert_ok(ctx, status);
            assert_int_equal(size, 3);
            assert_memory_equal(found, "a\nb", 3);
        }
        json_decref(object);
    }
    qkv_records_close(&records);
}

static void names_say_what_files_are(void **state) {
    (void)state;
    assert_true(qkv_records_are_json("a/b.jsonl"));
    assert_true(qkv_records_are_json("b.ndjson.zst"));
    assert_true(qkv_records_are_json("b.jsonl.gz"));
    assert_false(qkv_records_are_json(".jsonl"));
    assert_false(qkv_records_are_json("b.json"));
    assert_false(qkv_records_are_json("b.jsonl.txt"));
    assert_int_equal(qkv_unpack_name("b.txt.gz"), 5);
    assert_int_equal(qkv_unpack_name("b.txt"), 5);
}

/* ---- what is refused --------------------------------------------------------------------------------------------- */

/* Whatever is cut off a packed file, or changed in it, some lines come, then a sentence or the end. */
static void cut_and_damaged_files_are_named_with_their_line(void **state) {
    struct qkv_random random = test_random(2);
    struct qkv_buffer text = {0}, whole = {0}, out = {0};
    (void)state;
    for (int i = 0; i < 20000; i++)
        assert_ok(ctx, qkv_buffer_print(ctx, &text, "line %llu\n",
                                        (unsigned long long)qkv_random_below(&random, UINT64_MAX)));
    for (size_t k = 1; k < TEST_COUNT(endings); k++) {
        size_t packed;
        char name[32];
        unsigned char *bytes = pack(endings[k], text.data, text.size, &packed);
        snprintf(name, sizeof name, "cut%s", endings[k]);
        const char *path = test_path(name);
        test_write_file(path, bytes, packed);
        assert_ok(ctx, read_all(path, &whole));
        for (int i = 0; i < 24; i++) {
            const size_t size = i < 12 ? test_between(&random, 0, packed - 1) : packed;
            const size_t place = test_between(&random, 0, packed - 1);
            if (i >= 12) bytes[place] ^= 0x15;
            test_write_file(path, bytes, size);
            const enum qkv_status status = read_all(path, &out);
            if (i >= 12) bytes[place] ^= 0x15;
            assert_true(status == QKV_FORMAT || (i >= 12 && status == QKV_OK));
            if (status) assert_message(ctx, name);
            if (status) assert_message(ctx, i < 12 ? "the file is cut" : "get the file again");
            if (i >= 12) continue;
            assert_true(out.size <= whole.size);
            if (out.size) assert_memory_equal(out.data, whole.data, out.size);
        }
        /* A cut in the middle says which line was being read: the one behind the last. */
        test_write_file(path, bytes, packed - 100);
        struct qkv_records records;
        struct qkv_record record = {0};
        bool end = false;
        char said[64];
        assert_ok(ctx, qkv_records_open(ctx, path, &records));
        while (!qkv_records_next(&records, &record, &end)) assert_false(end);
        assert_true(record.line > 10);
        snprintf(said, sizeof said, "%s:%d: the file is cut", name, (int)record.line + 1);
        assert_message(ctx, said);
        qkv_records_close(&records);
        free(bytes);
    }
    qkv_buffer_free(&text);
    qkv_buffer_free(&whole);
    qkv_buffer_free(&out);
}

static void files_that_are_not_what_their_name_says_are_refused(void **state) {
    struct qkv_buffer out = {0};
    (void)state;
    for (size_t k = 1; k < TEST_COUNT(endings); k++) {
        char name[32], said[64];
        snprintf(name, sizeof name, "no%s", endings[k]);
        const char *path = test_path(name);
        test_write_file(path, "just a text, and no packed data at all\n", 39);
        assert_status(ctx, read_all(path, &out), QKV_FORMAT);
        snprintf(said, sizeof said, "data; take %s off its name, or get the file again", endings[k]);
        assert_message(ctx, said);
        test_write_file(path, "", 0);
        assert_status(ctx, read_all(path, &out), QKV_FORMAT);
        assert_message(ctx, "the file is cut");
    }
    test_write_file(test_path("wide.txt"), "\xff\xfe\0a\0\n", 6);
    assert_status(ctx, read_all(test_path("wide.txt"), &out), QKV_FORMAT);
    assert_message(ctx, "begins with a byte order mark (BOM) of UTF-16");
    assert_status(ctx, read_all(test_path("none.txt"), &out), QKV_FILE);
    assert_status(ctx, read_all(test_folder(), &out), QKV_FILE);
    assert_message(ctx, "it is a folder");
    qkv_buffer_free(&out);
}

/* A line without an end, which would need memory of its size. */
static void lines_without_an_end_are_refused(void **state) {
    struct qkv_buffer out = {0};
    const size_t size = (size_t)QKV_RECORD_MAX + (1 << 20);
    char *text = malloc(size);
    (void)state;
    assert_non_null(text);
    memset(text, 'a', size);
    memcpy(text, "one\n", 4);
    for (size_t k = 0; k < TEST_COUNT(endings); k++) {
        assert_status(ctx, read_all(write_packed("endless.txt", endings[k], text, size), &out), QKV_FORMAT);
        assert_message(ctx, ":2: there are more than 64 MiB without a place to cut them");
    }
    free(text);
    qkv_buffer_free(&out);
}

#ifdef QKV_ZSTD
/* 2 GiB of one letter in some 60 KB. */
static void small_files_that_unpack_to_huge_ones_are_refused(void **state) {
    const size_t size = (size_t)1 << 24;
    struct qkv_buffer file = {0};
    size_t packed;
    char *text = malloc(size);
    (void)state;
    assert_non_null(text);
    memset(text, 'x', size);
    for (size_t i = 65535; i < size; i += 65536) text[i] = '\n';
    unsigned char *bytes = pack(".zst", text, size, &packed);
    for (int i = 0; i < 128; i++) assert_ok(ctx, qkv_buffer_append(ctx, &file, bytes, packed));
    test_write_file(test_path("bomb.zst"), file.data, file.size);
    struct qkv_records records;
    struct qkv_record record;
    bool end = false;
    enum qkv_status status = qkv_records_open(ctx, test_path("bomb.zst"), &records);
    while (!status && !end) status = qkv_records_next(&records, &record, &end);
    qkv_records_close(&records);
    assert_status(ctx, status, QKV_FORMAT);
    assert_message(ctx, "unpack to more than 1 GiB and 1000 times as much");
    free(text);
    free(bytes);
    qkv_buffer_free(&file);
}

/* A window of 1 GiB, which zstd --long=30 makes. */
static void windows_that_need_much_memory_are_refused(void **state) {
    ZSTD_CCtx *z = ZSTD_createCCtx();
    unsigned char packed[256];
    struct qkv_buffer out = {0};
    ZSTD_outBuffer o = {.dst = packed, .size = sizeof packed};
    ZSTD_inBuffer in = {.src = "a line\n", .size = 7};
    (void)state;
    assert_non_null(z);
    assert_false(ZSTD_isError(ZSTD_CCtx_setParameter(z, ZSTD_c_windowLog, 30)));
    assert_false(ZSTD_isError(ZSTD_compressStream2(z, &o, &in, ZSTD_e_flush)));
    assert_false(ZSTD_isError(ZSTD_compressStream2(z, &o, &in, ZSTD_e_end)));
    ZSTD_freeCCtx(z);
    test_write_file(test_path("window.zst"), packed, o.pos);
    assert_status(ctx, read_all(test_path("window.zst"), &out), QKV_FORMAT);
    assert_message(ctx, "needs a window of more than 128 MiB");
    qkv_buffer_free(&out);
}
#endif

/* A whole file in memory, and the rows of a file of pairs. */
static void whole_files_are_unpacked(void **state) {
    enum { ROWS = 60000 };
    struct qkv_buffer text = {0};
    struct qkv_map map;
    struct qkv_tsv tsv;
    (void)state;
    for (int i = 0; i < ROWS; i++)
        assert_ok(ctx, qkv_buffer_print(ctx, &text, "source %d\ttarget %d\n", i, (i * 7919) % 10007));
    for (size_t k = 0; k < TEST_COUNT(endings); k++) {
        const char *path = write_packed("whole.tsv", endings[k], text.data, text.size);
        struct qkv_tsv_row row;
        size_t rows = 0;
        bool end = false;
        assert_ok(ctx, qkv_unpack_all(ctx, path, &map));
        assert_int_equal(map.size, text.size);
        assert_memory_equal(map.data, text.data, text.size);
        qkv_unmap_file(&map);
        assert_ok(ctx, qkv_tsv_open(ctx, path, "source", "target", &tsv));
        for (; !end; rows += !end) assert_ok(ctx, qkv_tsv_next(&tsv, &row, &end));
        assert_int_equal(rows, ROWS);
        qkv_tsv_close(&tsv);
        if (!*endings[k]) continue;
        size_t size = 0;
        char *packed = test_read_file(path, &size);
        test_write_file(path, packed, size - 9);
        free(packed);
        assert_status(ctx, qkv_tsv_open(ctx, path, "source", "target", &tsv), QKV_FORMAT);
        assert_message(ctx, "the file is cut: its ");
        assert_message(ctx, "whole.tsv");
        assert_status(ctx, qkv_unpack_all(ctx, test_path("nowhere.gz"), &map), QKV_FILE);
        assert_null(map.data);
    }
    qkv_buffer_free(&text);
}

#ifdef QKV_ZLIB
/* How large a packed file is shows when it is unpacked: before the system ends the process, it is refused by name. */
static void files_that_unpack_to_more_than_the_memory_are_refused(void **state) {
    static const char *const left[] = {"MemTotal: 8388608 kB\nMemAvailable: 8192 kB\n",
                                       "MemTotal: 8388608 kB\nMemAvailable: 1048576 kB\n"};
    enum { ROWS = 900000 };
    const char *nowhere = test_path("no-memory-file"), *meminfo = test_path("meminfo");
    const struct qkv_memory_files *had = ctx->memory_files;
    const struct qkv_memory_files files = {meminfo, nowhere, nowhere, nowhere};
    struct qkv_buffer text = {0};
    struct qkv_tsv tsv;
    (void)state;
    for (int i = 0; i < ROWS; i++) assert_ok(ctx, qkv_buffer_append(ctx, &text, "one\ttwo it\n", 11));
    const char *path = write_packed("memory.tsv", ".gz", text.data, text.size);
    ctx->memory_files = &files;
    for (size_t i = 0; i < TEST_COUNT(left); i++) {
        test_write_file(meminfo, left[i], strlen(left[i]));
        const enum qkv_status status = qkv_tsv_open(ctx, path, "source", "target", &tsv);
        assert_int_equal(status, i ? QKV_OK : QKV_MEMORY);
        if (i)
            qkv_tsv_close(&tsv);
        else
            assert_message(ctx, "memory.tsv.gz");
    }
    ctx->memory_files = had;
    qkv_buffer_free(&text);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_all_packings_are_read),
        cmocka_unit_test(long_files_keep_their_lines_and_places),
        cmocka_unit_test(packed_files_may_be_joined),
        cmocka_unit_test(objects_of_json_lines_are_read),
        cmocka_unit_test(names_say_what_files_are),
        cmocka_unit_test(cut_and_damaged_files_are_named_with_their_line),
        cmocka_unit_test(files_that_are_not_what_their_name_says_are_refused),
        cmocka_unit_test(lines_without_an_end_are_refused),
#ifdef QKV_ZLIB
        cmocka_unit_test(files_that_unpack_to_more_than_the_memory_are_refused),
#endif
#ifdef QKV_ZSTD
        cmocka_unit_test(small_files_that_unpack_to_huge_ones_are_refused),
        cmocka_unit_test(windows_that_need_much_memory_are_refused),
        cmocka_unit_test(whole_files_are_unpacked),
#endif
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
