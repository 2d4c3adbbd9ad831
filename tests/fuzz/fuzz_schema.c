/* A JSON schema, and choices of bytes: a schema that is taken has texts, and whole texts are JSON. */
#include "fuzz_constrain.h"

#include <jansson.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_part parts[2];
    char text[FUZZ_STEPS];
    bool whole;
    fuzz_parts(data, size, parts, 2);
    struct qkv_constraint *c = fuzz_constraint(QKV_CONSTRAINT_SCHEMA, parts[0], size & 1);
    if (!c) return 0;
    const size_t made = fuzz_walk(c, parts[1], text, &whole);
    if (whole) {
        json_error_t error;
        json_t *value = json_loadb(text, made, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
        if (!value) fprintf(stderr, "%s: %.*s\n", error.text, (int)made, text);
        FUZZ_CHECK(value);
        json_decref(value);
    }
    qkv_constraint_free(c);
    return 0;
}
