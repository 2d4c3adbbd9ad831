/* Logs for other programs: a table, and the event files of TensorBoard, read back here record by record. */
/* labels: quick */
#include "report_fixture.h"

#include <dirent.h>

#include <sys/stat.h>

static size_t entries_of(const char *folder) {
    DIR *entries = opendir(folder);
    size_t count = 0;
    assert_non_null(entries);
    for (struct dirent *entry; (entry = readdir(entries));) count += entry->d_name[0] != '.';
    closedir(entries);
    return count;
}

static const char *make_run(const char *name, const char *log, const char *train, const char *machine) {
    const char *folder = test_path(name);
    char path[1024];
    test_remove_tree(folder);
    mkdir(folder, 0777);
    snprintf(path, sizeof path, "%s/log.jsonl", folder);
    test_write_file(path, log, strlen(log));
    snprintf(path, sizeof path, "%s/train.json", folder);
    if (train) test_write_file(path, train, strlen(train));
    snprintf(path, sizeof path, "%s/machine.jsonl", folder);
    if (machine) test_write_file(path, machine, strlen(machine));
    return folder;
}

static const char some_log[] =
    "{\"step\":1,\"loss\":5.5,\"norm\":1.25,\"rate\":0.001,\"tokens\":7,\"tokens_per_second\":14,\"seconds\":0.5}\n"
    "{\"step\":2,\"loss\":null,\"norm\":[],\"rate\":0.1,\"tokens\":14,\"seconds\":1,\"valid_loss\":4.5,\"accuracy\":0."
    "25}\n"
    "{\"step\":300,\"loss\":3e-5,\"norm\":2,\"rate\":0.1,\"tokens\":1000000000000,\"seconds\":2.5}\n";
static const char with_experts[] = "{\"step\":1,\"loss\":0.5,\"expert_load\":1.75,\"experts_unused\":3}\n";
static const char with_accuracy[] = "{\"options\":{\"steps\":9,\"metric\":\"accuracy\"}}";
static const char two_machines[] = "{\"step\":0,\"time\":\"2024-05-01T12:00:00Z\",\"cpu\":\"x\"}\n"
                                   "{\"step\":2,\"time\":\"2024-05-02T12:00:00Z\",\"cpu\":\"x\"}\n";

/* ---- the table -------------------------------------------------------------------------------------------------- */

static char *table_of(struct qkv_context *ctx, struct qkv_run *const *runs, size_t count) {
    const char *path = test_path("table.csv");
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_ok(ctx, qkv_runs_write_csv(ctx, runs, count, file));
    assert_int_equal(fclose(file), 0);
    return read_text(path);
}

static void the_table_has_a_line_a_step_and_nothing_where_there_is_no_number(void **state) {
    (void)state;
    struct qkv_context *ctx = make_context();
    struct qkv_run *runs[2];
    assert_ok(ctx, qkv_run_read(ctx, make_run("a \"b\", c", some_log, with_accuracy, NULL), &runs[0]));
    assert_ok(ctx, qkv_run_read(ctx, make_run("plain", "{\"step\":1,\"loss\":0.1}\n", NULL, NULL), &runs[1]));
    char *table = table_of(ctx, runs, 2);
    assert_string_equal(table, "run,step,seconds,tokens,loss,norm,rate,tokens_per_second,valid_loss,metric\r\n"
                               "\"a \"\"b\"\", c\",1,0.5,7,5.5,1.25,0.001,14,,\r\n"
                               "\"a \"\"b\"\", c\",2,1,14,,,0.1,,4.5,0.25\r\n"
                               "\"a \"\"b\"\", c\",300,2.5,1000000000000,3e-05,2,0.1,,,\r\n"
                               "plain,1,,,0.1,,,,,\r\n");
    free(table);
    table = table_of(ctx, runs + 1, 1); /* no run has another metric than the loss */
    assert_string_equal(table, "run,step,seconds,tokens,loss,norm,rate,tokens_per_second,valid_loss\r\n"
                               "plain,1,,,0.1,,,,\r\n");
    free(table);
    qkv_run_free(runs[0]);
    assert_ok(ctx, qkv_run_read(ctx, make_run("experts", with_experts, with_accuracy, NULL), &runs[0]));
    table = table_of(ctx, runs, 2);
    assert_string_equal(table, "run,step,seconds,tokens,loss,norm,rate,tokens_per_second,valid_loss,expert_load,"
                               "experts_unused,metric\r\n"
                               "experts,1,,,0.5,,,,,1.75,3,\r\n"
                               "plain,1,,,0.1,,,,,,,\r\n");
    free(table);
    qkv_run_free(runs[0]);
    qkv_run_free(runs[1]);
    FILE *full = fopen("/dev/full", "wb");
    assert_ok(ctx, qkv_run_read(ctx, make_run("full", some_log, NULL, NULL), &runs[0]));
    if (full) {
        setbuf(full, NULL);
        assert_fails(ctx, qkv_runs_write_csv(ctx, runs, 1, full), QKV_FILE, "could not be written");
        fclose(full);
    }
    qkv_run_free(runs[0]);
    qkv_context_free(ctx);
}

/* ---- event files: a reader by the documents alone --------------------------------------------------------------- */

/* Polynomial division, one bit of the message at a time, the highest power first (RFC 3720, B.4: bits reflected,
 * first and last 32 complemented). */
static uint32_t divided_crc(const unsigned char *data, size_t size) {
    uint32_t rest = 0, reflected = 0;
    for (size_t i = 0; i < (size + 4) * 8; i++) {
        unsigned bit = i < size * 8 ? (unsigned)data[i / 8] >> i % 8 & 1U : 0U;
        if (i < 32) bit ^= 1;
        const bool out = rest >> 31;
        rest = rest << 1 | bit;
        if (out) rest ^= 0x1edc6f41u;
    }
    for (int i = 0; i < 32; i++) reflected |= (rest >> i & 1) << (31 - i);
    return ~reflected;
}

static void checksums_are_those_of_the_standard(void **state) {
    (void)state;
    unsigned char data[32];
    memset(data, 0, sizeof data); /* RFC 3720, appendix B.4 */
    assert_true(qkv_crc32c(data, 32) == 0x8a9136aau);
    memset(data, 0xff, sizeof data);
    assert_true(qkv_crc32c(data, 32) == 0x62a8ab43u);
    for (int i = 0; i < 32; i++) data[i] = (unsigned char)i;
    assert_true(qkv_crc32c(data, 32) == 0x46dd794eu);
    for (int i = 0; i < 32; i++) data[i] = (unsigned char)(31 - i);
    assert_true(qkv_crc32c(data, 32) == 0x113fdb5cu);
    assert_true(qkv_crc32c("123456789", 9) == 0xe3069283u);
    struct qkv_random random = test_random(32);
    for (int k = 0; k < 50; k++) {
        unsigned char bytes[64];
        const size_t n = test_between(&random, 4, sizeof bytes);
        for (size_t i = 0; i < n; i++) bytes[i] = (unsigned char)test_between(&random, 0, 255);
        assert_true(qkv_crc32c(bytes, n) == divided_crc(bytes, n));
    }
}

static uint64_t little(const unsigned char *bytes, size_t count) {
    uint64_t x = 0;
    while (count--) x = x << 8 | bytes[count];
    return x;
}

static void check_masked(const unsigned char *data, size_t size, uint64_t stored) {
    const uint32_t rotated = (uint32_t)stored - 0xa282ead8u;
    const uint32_t crc = rotated >> 17 | rotated << 15;
    if (size >= 4) assert_true(crc == divided_crc(data, size));
}

/* A field of a message: its number, and its value or where its bytes are. */
struct field {
    unsigned number, wire;
    uint64_t value;
    const unsigned char *bytes;
};

static uint64_t take_varint(const unsigned char **at, const unsigned char *end) {
    uint64_t x = 0;
    for (unsigned shift = 0;; shift += 7) {
        assert_true(*at < end && shift < 64);
        const unsigned char byte = *(*at)++;
        x |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return x;
    }
}

static bool take_field(const unsigned char **at, const unsigned char *end, struct field *f) {
    if (*at == end) return false;
    const uint64_t key = take_varint(at, end);
    *f = (struct field){.number = (unsigned)(key >> 3), .wire = key & 7};
    const size_t fixed = f->wire == 1 ? 8 : f->wire == 5 ? 4 : 0;
    assert_true(fixed || f->wire == 0 || f->wire == 2);
    if (!fixed) f->value = take_varint(at, end);
    f->bytes = *at;
    const size_t size = fixed ? fixed : f->wire == 2 ? (size_t)f->value : 0;
    assert_true(size <= (size_t)(end - *at));
    if (fixed) f->value = little(*at, fixed);
    *at += size;
    return true;
}

struct scalar {
    double time;
    uint64_t step;
    char tag[64];
    float value;
};

static void take_value(const struct field *summary, struct scalar *s) {
    const unsigned char *at = summary->bytes, *end = at + summary->value;
    struct field f;
    s->tag[0] = 0;
    while (take_field(&at, end, &f)) {
        if (f.number == 1 && f.wire == 2) snprintf(s->tag, sizeof s->tag, "%.*s", (int)f.value, (const char *)f.bytes);
        if (f.number != 2 || f.wire != 5) continue;
        const uint32_t bits = (uint32_t)f.value;
        memcpy(&s->value, &bits, sizeof bits);
    }
}

/* All scalars of a file; the first event has the version. */
static size_t read_events(const char *path, struct scalar *out, size_t most) {
    struct qkv_map map;
    size_t count = 0, events = 0;
    assert_int_equal(qkv_read_file(NULL, path, &map), QKV_OK);
    for (size_t at = 0; at < map.size; events++) {
        assert_true(map.size - at >= 16);
        const unsigned char *record = map.data + at, *data = record + 12;
        const size_t size = (size_t)little(record, 8);
        assert_true(size <= map.size - at - 16);
        check_masked(record, 8, little(record + 8, 4));
        check_masked(data, size, little(data + size, 4));
        struct scalar s = {0};
        struct field f, value;
        for (const unsigned char *p = data; take_field(&p, data + size, &f);) {
            if (f.number == 1) memcpy(&s.time, &f.value, sizeof s.time);
            if (f.number == 2) s.step = f.value;
            if (f.number == 3) assert_true(events == 0 && f.value == 13 && !memcmp(f.bytes, "brain.Event:2", 13));
            if (f.number != 5) continue;
            for (const unsigned char *q = f.bytes; take_field(&q, f.bytes + f.value, &value);) {
                assert_true(count < most);
                take_value(&value, &s);
                out[count++] = s;
            }
        }
        at += size + 16;
    }
    qkv_unmap_file(&map);
    return count;
}

static void event_files_have_the_scalars_of_the_log(void **state) {
    (void)state;
    static const struct scalar expected[] = {
        {1714564800.5, 1, "train/loss", 5.5F},
        {1714564800.5, 1, "train/gradient_norm", 1.25F},
        {1714564800.5, 1, "train/learning_rate", 0.001F},
        {1714564800.5, 1, "train/tokens_per_second", 14},
        {1714564801, 2, "train/learning_rate", 0.1F},
        {1714564801, 2, "valid/loss", 4.5F},
        {1714564801, 2, "valid/accuracy", 0.25F},
        {1714651201.5, 300, "train/loss", 3e-5F}, /* the next day, 1.5 s after it was gone on with */
        {1714651201.5, 300, "train/gradient_norm", 2},
        {1714651201.5, 300, "train/learning_rate", 0.1F},
    };
    struct qkv_context *ctx = make_context();
    struct scalar scalars[TEST_COUNT(expected) + 1];
    struct qkv_run *run;
    char path[1024];
    const char *folder = test_path("events/deep");
    test_remove_tree(test_path("events"));
    assert_ok(ctx, qkv_run_read(ctx, make_run("watched", some_log, with_accuracy, two_machines), &run));
    assert_ok(ctx, qkv_runs_write_events(ctx, &run, 1, folder, false));
    snprintf(path, sizeof path, "%s/watched/events.out.tfevents.0.qkv", folder);
    assert_int_equal(read_events(path, scalars, TEST_COUNT(scalars)), TEST_COUNT(expected));
    for (size_t i = 0; i < TEST_COUNT(expected); i++) {
        assert_string_equal(scalars[i].tag, expected[i].tag);
        assert_true(scalars[i].step == expected[i].step && scalars[i].value == expected[i].value);
        assert_true(scalars[i].time == expected[i].time);
    }
    qkv_run_free(run);
    qkv_context_free(ctx);
}

static void event_files_of_all_runs_are_written_or_none(void **state) {
    (void)state;
    struct qkv_context *ctx = make_context();
    struct qkv_run *runs[3];
    struct scalar scalars[16];
    const char *folder = test_path("many");
    char path[1024];
    test_remove_tree(folder);
    mkdir(test_path("in"), 0777);
    assert_ok(ctx, qkv_run_read(ctx, make_run("one", some_log, NULL, NULL), &runs[0]));
    assert_ok(ctx, qkv_run_read(ctx, make_run("in/two", some_log, NULL, NULL), &runs[1]));
    assert_ok(ctx, qkv_run_read(ctx, make_run("two", "", NULL, NULL), &runs[2])); /* nothing but its begin */
    assert_ok(ctx, qkv_runs_write_events(ctx, runs, 1, folder, false));
    assert_fails(ctx, qkv_runs_write_events(ctx, runs, 3, folder, false), QKV_FILE,
                 "one/events.out.tfevents.0.qkv exists; --force replaces it");
    assert_int_equal(entries_of(folder), 1);
    assert_ok(ctx, qkv_runs_write_events(ctx, runs, 3, folder, true));
    assert_int_equal(entries_of(folder), 3); /* twins go by their paths, without slashes */
    snprintf(path, sizeof path, "%s/one/events.out.tfevents.0.qkv", folder);
    assert_int_equal(read_events(path, scalars, TEST_COUNT(scalars)), 9);
    test_write_file(test_path("file"), "x", 1);
    assert_fails(ctx, qkv_runs_write_events(ctx, runs, 1, test_path("file"), true), QKV_FILE, "file");
    for (size_t i = 0; i < 3; i++) qkv_run_free(runs[i]);
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_has_a_line_a_step_and_nothing_where_there_is_no_number),
        cmocka_unit_test(checksums_are_those_of_the_standard),
        cmocka_unit_test(event_files_have_the_scalars_of_the_log),
        cmocka_unit_test(event_files_of_all_runs_are_written_or_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
