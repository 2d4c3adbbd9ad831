/* info_cache.c: what a cache of a model costs in each type that holds its keys and values. */
#include <stdio.h>

#include "cli.h"

/* The bytes of a full cache in the i-th type. False past the last; *bytes 0: the type does not hold the heads. */
static bool cache_at(struct qkv_model *plan, size_t i, size_t context, const char **name, size_t *bytes) {
    const char *help;
    if (!qkv_cache_type_at(i, name, &help)) return false;
    if (qkv_model_cache_bytes(plan, *name, context, bytes)) *bytes = 0;
    return true;
}

const char *cli_info_caches(struct qkv_model *plan, size_t context, char *text, size_t size) {
    char number[CLI_NUMBER];
    const char *name;
    size_t bytes, used = 0;
    text[0] = 0;
    for (size_t i = 0; used < size && cache_at(plan, i, context, &name, &bytes); i++)
        if (bytes)
            used +=
                (size_t)snprintf(text + used, size - used, "%s%s %s", used ? ", " : "", name, cli_bytes(number, bytes));
    return text;
}

void cli_info_put_caches(struct qkv_json *out, struct qkv_model *plan, size_t context) {
    const char *name;
    size_t bytes;
    qkv_json_key(out, "cache_bytes");
    qkv_json_begin(out, '{');
    for (size_t i = 0; cache_at(plan, i, context, &name, &bytes); i++)
        if (bytes) qkv_json_put_count(out, name, bytes);
    qkv_json_end(out, '}');
}
