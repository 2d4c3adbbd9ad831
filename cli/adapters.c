/* adapters.c: the adapters of a model on a command line: --adapter FOLDER, or any number of --adapter NAME=FOLDER. */
#include <stdlib.h>
#include <string.h>

#include "cli_adapters.h"

/* A name has no "/", so runs/lr=0.1 is a folder. */
const char *cli_adapter_folder(const char *text) {
    const size_t name = strcspn(text, "=/");
    return text[name] == '=' ? text + name + 1 : text;
}

char *cli_adapter_name(const char *text) {
    const char *folder = cli_adapter_folder(text);
    return folder == text ? NULL : strndup(text, (size_t)(folder - text) - 1);
}

enum qkv_status cli_adapters_open(const struct cli_common *common, struct qkv_context *ctx, const char *folder,
                                  struct qkv_model_open_options *options, struct qkv_opening **opening) {
    const struct cli_texts *given = &common->adapters;
    struct qkv_named_adapter *list = calloc(given->count + 1, sizeof *list);
    enum qkv_status status = list ? QKV_OK : QKV_MEMORY;
    for (size_t i = 0; list && i < given->count; i++) {
        list[i].folder = cli_adapter_folder(given->items[i]);
        list[i].name = cli_adapter_name(given->items[i]);
        if (!list[i].name && list[i].folder != given->items[i]) status = QKV_MEMORY;
    }
    options->adapter = common->adapter;
    if (!status && given->count && !list[0].name) options->adapter = list[0].folder;
    options->adapters = list;
    options->adapter_count = !status && given->count && list[0].name ? given->count : 0;
    if (!status) status = qkv_model_open(ctx, folder, options, opening);
    for (size_t i = 0; list && i < given->count; i++) free((char *)(uintptr_t)list[i].name);
    free(list);
    return status;
}
