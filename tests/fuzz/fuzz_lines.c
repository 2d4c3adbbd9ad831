/* Lines with fields separated by tabs: pairs, labelled lines, and labelled words. */
#include "fuzz.h"

#include "data/tsv.h"

static void lines_read(const char *path, const char *second, bool sentences) {
    struct qkv_context *ctx = fuzz_context();
    struct qkv_tsv tsv;
    struct qkv_tsv_row row;
    bool end = false;
    qkv_forgive(ctx);
    if (!fuzz_ok(qkv_tsv_open(ctx, path, "first", second, &tsv))) return;
    tsv.sentences = sentences;
    size_t bytes = 0;
    while (!qkv_tsv_next(&tsv, &row, &end) && !end) {
        for (size_t i = 0; row.sentence && i < row.sentence->count; i++) bytes += row.sentence->words[i].size;
        bytes += row.first_size + row.second_size;
        FUZZ_CHECK(row.line > 0 && bytes <= tsv.map.size);
    }
    qkv_tsv_close(&tsv);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *path = fuzz_file("lines.tsv", (struct fuzz_part){(const char *)data, size});
    lines_read(path, NULL, false);
    lines_read(path, "second", false);
    lines_read(path, "second", true);
    return 0;
}
