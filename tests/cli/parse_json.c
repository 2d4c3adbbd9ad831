/* parse_json: whether standard input is JSON, by jansson, which is no part of the writer under test. Says why it is not.
 *     parse_json [--lines] [KEY...]
 * Without --lines it is one document, and nothing behind it; with --lines each line is one, and there may be none. Each
 * document has the keys. Prints how many documents there are. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

static bool check(const char *text, size_t size, char **keys, int count) {
    json_error_t error;
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    bool good = root != NULL;
    if (!good) fprintf(stderr, "byte %d: %s\n", error.position, error.text);
    for (int i = 0; good && i < count; i++)
        if (!json_object_get(root, keys[i])) {
            fprintf(stderr, "there is no key \"%s\"\n", keys[i]);
            good = false;
        }
    json_decref(root);
    return good;
}

int main(int argc, char **argv) {
    static char text[1 << 24];
    const bool lines = argc > 1 && !strcmp(argv[1], "--lines");
    char **keys = argv + 1 + lines;
    const int count = argc - 1 - lines;
    const size_t size = fread(text, 1, sizeof text, stdin);
    size_t documents = 0;
    for (size_t at = 0, n; at < size; at += n, documents++) {
        const char *end = lines ? memchr(text + at, '\n', size - at) : NULL;
        n = end ? (size_t)(end - text) + 1 - at : size - at;
        if (!check(text + at, n, keys, count)) return 1;
    }
    if (!lines && documents != 1) {
        fprintf(stderr, "nothing was printed\n");
        return 1;
    }
    printf("%zu\n", documents);
    return 0;
}
