/* files.c: checks all paths that a command line reads and writes, by the command's table, before any is opened. */
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>

#include "cli_adapters.h"

bool cli_is_list(enum cli_kind kind) {
    return kind == CLI_TEXTS || kind == CLI_READS || kind == CLI_ADAPTERS;
}

struct files_list {
    struct qkv_path *items;
    size_t count;
};

/* Skips "-": files_add_standard adds standard input and output. */
static void files_add(struct files_list *list, enum qkv_path_use use, const char *path) {
    if (path && strcmp(path, "-") != 0) list->items[list->count++] = (struct qkv_path){.use = use, .path = path};
}

static int files_add_output(struct files_list *list, const struct cli_command *command, const void *values, bool folder,
                            const char *path, bool force) {
    const size_t before = list->count;
    if (path && !*path && !folder) return cli_usage("the name of an output is empty; name a file");
    files_add(list, folder ? QKV_PATH_FOLDER : QKV_PATH_WRITE, path);
    if (list->count == before) return CLI_DONE;
    struct qkv_path *added = &list->items[before];
    added->force = force || command->appends || (folder && !command->replaces);
    if (folder) added->files = command->writes_of ? command->writes_of(values) : command->writes;
    while (added->files && added->files[added->file_count]) added->file_count++;
    return CLI_DONE;
}

static const void *files_value(const struct cli_option *option, const void *values) {
    return (const char *)values + option->offset;
}

static int files_add_option(struct files_list *list, const struct cli_command *command, const struct cli_option *option,
                            const void *values, bool force) {
    const void *value = files_value(option, values);
    const struct cli_texts *texts = value;
    switch (option->kind) {
    case CLI_READ:
        files_add(list, QKV_PATH_READ, *(const char *const *)value);
        return CLI_DONE;
    case CLI_READS:
        for (size_t i = 0; i < texts->count; i++) /* a pattern is no name of a file */
            if (!strpbrk(texts->items[i], "*?[")) files_add(list, QKV_PATH_READ, texts->items[i]);
        return CLI_DONE;
    case CLI_MODEL_READ:
        files_add(list, QKV_PATH_MODEL, *(const char *const *)value);
        return CLI_DONE;
    case CLI_ADAPTERS:
        for (size_t i = 0; i < texts->count; i++) files_add(list, QKV_PATH_MODEL, cli_adapter_folder(texts->items[i]));
        return CLI_DONE;
    case CLI_WRITE:
    case CLI_FOLDER:
        return files_add_output(list, command, values,
                                option->kind == CLI_FOLDER && !(command->writes_file && command->writes_file(values)),
                                *(const char *const *)value, force);
    case CLI_FLAG:
    case CLI_TEXT:
    case CLI_TEXTS:
    case CLI_COUNT:
    case CLI_MEMORY:
    case CLI_REAL:
    case CLI_ABOVE:
        break;
    }
    return CLI_DONE;
}

/* Adds standard input and output if they are regular files. Existing contents of the output stay: writing appends. */
static void files_add_standard(struct files_list *list) {
    struct stat info;
    if (fstat(0, &info) == 0 && S_ISREG(info.st_mode)) files_add(list, QKV_PATH_READ, "/dev/stdin");
    if (fstat(1, &info) != 0 || !S_ISREG(info.st_mode)) return;
    files_add(list, QKV_PATH_WRITE, "/dev/stdout");
    list->items[list->count - 1].force = true;
}

/* Whether an option before has the same value: two names of one option count once. */
static bool files_is_twin(const struct cli_command *command, size_t i) {
    for (size_t k = 0; k < i; k++)
        if (command->options[k].offset == command->options[i].offset) return true;
    return false;
}

static int files_list(struct files_list *list, const struct cli_command *command, const void *values,
                      const char *const *words, size_t count) {
    const size_t files = command->words == CLI_WORDS ? 0 : command->words == CLI_WORD_MODEL && count ? 1 : count;
    bool force = false;
    int code = CLI_DONE;
    for (size_t i = 0; i < command->option_count; i++)
        if (!strcmp(command->options[i].name, "force"))
            force = *(const bool *)files_value(&command->options[i], values);
    for (size_t i = 0; i < command->option_count && !code; i++)
        if (!files_is_twin(command, i)) code = files_add_option(list, command, &command->options[i], values, force);
    for (size_t i = 0; i < files; i++)
        files_add(list, command->words == CLI_WORDS_FILES ? QKV_PATH_READ : QKV_PATH_MODEL, words[i]);
    files_add_standard(list);
    return code;
}

int cli_files_check(const struct cli_command *command, const void *values, const char *const *words, size_t count) {
    struct files_list list = {0};
    struct qkv_context *ctx = NULL;
    size_t room = command->option_count + count + 2;
    for (size_t i = 0; i < command->option_count; i++)
        if (command->options[i].kind == CLI_READS || command->options[i].kind == CLI_ADAPTERS)
            room += ((const struct cli_texts *)files_value(&command->options[i], values))->count;
    list.items = calloc(room, sizeof *list.items);
    int code = list.items ? files_list(&list, command, values, words, count) : cli_failed("out of memory");
    const struct qkv_context_options options = {.size = sizeof options, .threads = 1, .isa = qkv_isa_at(0)};
    const enum qkv_status status = code ? QKV_OK : qkv_context_create(&ctx, &options);
    if (status) code = status == QKV_ARGUMENT ? cli_usage("%s", cli_message(ctx)) : cli_failed("%s", cli_message(ctx));
    if (!code && qkv_paths_check(ctx, list.items, list.count)) code = cli_broken(ctx);
    qkv_context_free(ctx);
    free(list.items);
    return code;
}
