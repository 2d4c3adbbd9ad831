/* fuzz_files: runs a fuzz target without a fuzzer: on every file that is named, or is in a folder that is named, and
 * on COPIES copies of it that are cut off or damaged, the same ones each time.
 *     fuzz_NAME COPIES PATH... */
#include "fuzz.h"

#include <dirent.h>

#include "base/base.h"

enum { FILE_MOST = 1 << 22, MARKS = 4 };

static size_t inputs;

static void files_give(const uint8_t *data, size_t size) {
    uint8_t *exact = malloc(size ? size : 1); /* so that a sanitizer sees its end */
    if (!exact) abort();
    if (size) memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    inputs++;
}

/* One of: the end is cut off, bytes are changed, a part is doubled, a part is removed, a number or a letter becomes
 * another. */
static size_t files_damage(struct qkv_random *random, uint8_t *data, size_t size) {
    static const char signs[] = "0123456789{}[]\":,-.eE\\\n\t /tfn";
    const size_t at = size ? (size_t)qkv_random_below(random, size) : 0;
    const size_t left = size - at, n = left ? 1 + (size_t)qkv_random_below(random, left < 64 ? left : 64) : 0;
    switch (qkv_random_below(random, 5)) {
    case 0:
        return at;
    case 1:
        for (size_t i = 0; i < MARKS && size; i++)
            data[qkv_random_below(random, size)] = (uint8_t)qkv_random_below(random, 256);
        return size;
    case 2:
        memmove(data + at + n, data + at, left);
        return size + n;
    case 3:
        memmove(data + at, data + at + n, left - n);
        return size - n;
    default:
        for (size_t i = 0; i < MARKS && size; i++)
            data[qkv_random_below(random, size)] = (uint8_t)signs[qkv_random_below(random, sizeof signs - 1)];
        return size;
    }
}

static void files_file(const char *path, size_t copies) {
    static uint8_t whole[FILE_MOST], damaged[FILE_MOST + 64 * 8];
    FILE *file = fopen(path, "rb");
    if (!file) {
        fprintf(stderr, "%s cannot be read\n", path);
        exit(1);
    }
    const size_t size = fread(whole, 1, sizeof whole, file);
    fclose(file);
    files_give(whole, size);
    struct qkv_random random = qkv_random_start(size, 0);
    for (size_t i = 0; i < copies; i++) {
        memcpy(damaged, whole, size);
        size_t n = size;
        for (uint64_t k = 1 + qkv_random_below(&random, 4); k > 0 && n; k--) n = files_damage(&random, damaged, n);
        files_give(damaged, n);
    }
}

static int files_visible(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

int main(int argc, char **argv) {
    const size_t copies = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    for (int i = 2; i < argc; i++) {
        struct dirent **entries;
        struct stat info;
        if (stat(argv[i], &info) || !S_ISDIR(info.st_mode)) {
            files_file(argv[i], copies);
            continue;
        }
        const int count = scandir(argv[i], &entries, files_visible, alphasort);
        for (int k = 0; k < count; k++) {
            char path[4096];
            snprintf(path, sizeof path, "%s/%s", argv[i], entries[k]->d_name);
            files_file(path, copies);
            free(entries[k]);
        }
        if (count >= 0) free(entries);
    }
    printf("%zu inputs\n", inputs);
    if (!inputs) fprintf(stderr, "no inputs: name files or folders\n");
    return !inputs;
}
