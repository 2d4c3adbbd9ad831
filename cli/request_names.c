/* request_names.c: the names that requests choose models and adapters by, as command lines say them. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "cli_adapters.h"

bool cli_is_name(const char *text) {
    size_t size = 0;
    while (isalnum((unsigned char)text[size]) || (text[size] && strchr("-_.:", text[size]))) size++;
    return size && !text[size] && size < 256;
}

char *cli_model_name(const char *path) {
    size_t size = strlen(path), from = 0;
    while (size > 1 && path[size - 1] == '/') size--;
    for (size_t i = 0; i + 1 < size; i++)
        if (path[i] == '/') from = i + 1;
    const char *ends[] = {".gguf", ".safetensors"};
    for (size_t i = 0; i < CLI_COUNT_OF(ends); i++)
        if (size - from > strlen(ends[i]) && !strncmp(path + size - strlen(ends[i]), ends[i], strlen(ends[i])))
            size -= strlen(ends[i]);
    return strndup(path + from, size - from);
}

/* ---- adapters ---------------------------------------------------------------------------------------------------- */

static int adapters_check_name(const char *command, const char *text) {
    char *name = cli_adapter_name(text);
    int code = CLI_DONE;
    if (name && !cli_is_name(name))
        code = cli_usage(
            "%s: --adapter is \"%.80s\"; a name in front of = has letters, digits, and any of - _ . :", command, text);
    else if (!*cli_adapter_folder(text))
        code = cli_usage("%s: --adapter is \"%.80s\", without a folder; write FOLDER or NAME=FOLDER", command, text);
    free(name);
    return code;
}

int cli_adapters_check(const struct cli_common *common, const char *command) {
    const struct cli_texts *given = &common->adapters;
    int code = CLI_DONE;
    for (size_t i = 0; i < given->count && !code; i++) {
        const char *text = given->items[i], *folder = cli_adapter_folder(text);
        if (given->count > 1 && folder == text)
            return cli_usage("%s: several adapters need names: --adapter NAME=%.80s", command, text);
        code = adapters_check_name(command, text);
        for (size_t k = 0; k < i && !code; k++)
            if (cli_adapter_folder(given->items[k]) - given->items[k] == folder - text &&
                !strncmp(given->items[k], text, (size_t)(folder - text)))
                code = cli_usage("%s: two adapters have the name %.*s; each needs its own", command,
                                 (int)(folder - text) - 1, text);
    }
    return code;
}

int cli_adapters_apart(const struct cli_common *common, const char *command, const char *name, const char *of) {
    const struct cli_texts *given = &common->adapters;
    const size_t size = strlen(name);
    for (size_t i = 0; i < given->count; i++)
        if (cli_adapter_folder(given->items[i]) == given->items[i] + size + 1 && !strncmp(given->items[i], name, size))
            return cli_usage("%s: an adapter has the name of %s, %s, so it cannot be chosen; name it otherwise",
                             command, of, name);
    return CLI_DONE;
}
