/* cli_adapters.h: adapters on a command line, one or several with names, and the names that requests choose models and
 * adapters by. */
#ifndef QKV_CLI_ADAPTERS_H
#define QKV_CLI_ADAPTERS_H

#include "cli.h"

/* For commands that choose among several by name. */
#define CLI_ADAPTER_LIST(type, choice)                                                                                 \
    {                                                                                                                  \
        CLI_ADAPTERS, 0, "adapter", "FOLDER", offsetof(type, common.adapters),                                         \
            .subject = CLI_MACHINE,                                                                                    \
            .help = "adapter of the model (LoRA): the folder of a run or of PEFT, or a GGUF file; several "            \
                    "have names, NAME=FOLDER, and " choice,                                                            \
            .before = "none"                                                                                           \
    }

/* ---- names in requests (request_names.c) ---- */
/* The name of a model: the last part of its path, without ".gguf" and what names a checkpoint. The caller frees it;
 * NULL: no memory. */
char *cli_model_name(const char *path);
/* Whether a text can be a name in requests: letters, digits, and any of - _ . : */
bool cli_is_name(const char *text);
/* Checks the names of the command line; CLI_DONE, or the exit code after a message. */
int cli_adapters_check(const struct cli_common *common, const char *command);
/* No adapter may have a name that chooses something else: `of` says what, such as "the model". */
int cli_adapters_apart(const struct cli_common *common, const char *command, const char *name, const char *of);

/* ---- adapters (adapters.c) ---- */
/* The folder of "NAME=FOLDER", or of "FOLDER". */
const char *cli_adapter_folder(const char *text);
/* The name, which the caller frees; NULL: there is none, or no memory. */
char *cli_adapter_name(const char *text);
/* Opens a model with the adapters of the command line. */
enum qkv_status cli_adapters_open(const struct cli_common *common, struct qkv_context *ctx, const char *folder,
                                  struct qkv_model_open_options *options, struct qkv_opening **opening);

/* ---- an adapter alone (export_adapter.c) ---- */
/* Writes the adapter of a model alone, as a GGUF file or as a folder of PEFT, and says so. Returns
 * the exit code after a message. */
struct cli_adapter_file {
    const char *out, *base, *dtype, *family; /* base: the model's path, for a folder; dtype, family: of a file */
    bool gguf, json;
};
int cli_adapter_write(const struct cli_adapter_file *file, struct qkv_model *model);
/* What the latest export of a model cost, if an adapter was merged into it: a line, and the key "merge" of a result. */
void cli_say_merge(const struct qkv_model *model);
void cli_put_merge(struct qkv_json *out, const struct qkv_model *model);

#endif
