/* A regular expression, and choices of bytes: an expression that is taken has texts; where PCRE2 takes it too, it
 * matches the whole ones. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "fuzz_constrain.h"

/* PCRE2 reads some expressions in another way: \v, and the count {,n}. */
static bool is_common(struct fuzz_part part) {
    for (size_t i = 0; i + 1 < part.size; i++)
        if ((part.data[i] == '\\' && (part.data[i + 1] == 'v' || part.data[i + 1] == 'u' || part.data[i + 1] == 'x')) ||
            (part.data[i] == '{' && part.data[i + 1] == ','))
            return false;
    return true;
}

static void compare(struct fuzz_part part, const char *text, size_t size) {
    int error;
    PCRE2_SIZE at;
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR)part.data, part.size,
                      PCRE2_UTF | PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_DOLLAR_ENDONLY, &error, &at, NULL);
    if (!code) return;
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    pcre2_match_context *limits = pcre2_match_context_create(NULL);
    if (!data || !limits) abort();
    pcre2_set_match_limit(limits, 100000);
    const int found = pcre2_match(code, (PCRE2_SPTR)text, size, 0, 0, data, limits);
    if (found == PCRE2_ERROR_NOMATCH)
        fprintf(stderr, "%.*s does not match %.*s\n", (int)part.size, part.data, (int)size, text);
    FUZZ_CHECK(found != PCRE2_ERROR_NOMATCH);
    pcre2_match_context_free(limits);
    pcre2_match_data_free(data);
    pcre2_code_free(code);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_part parts[2];
    char text[FUZZ_STEPS];
    bool whole;
    fuzz_parts(data, size, parts, 2);
    struct qkv_constraint *c = fuzz_constraint(QKV_CONSTRAINT_REGEX, parts[0], false);
    if (!c) return 0;
    const size_t made = fuzz_walk(c, parts[1], text, &whole);
    if (whole && parts[0].size && is_common(parts[0])) compare(parts[0], text, made);
    qkv_constraint_free(c);
    return 0;
}
