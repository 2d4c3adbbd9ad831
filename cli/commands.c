/* commands.c: the list of commands, and how one is found. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

/* The order of the help; `group` is the title that a command begins, or NULL. */
static const struct {
    const char *group;
    const struct cli_command *(*command)(void);
} commands[] = {{"train", cli_train}, {NULL, cli_new},     {"use", cli_generate}, {NULL, cli_chat},
                {NULL, cli_batch},    {NULL, cli_serve},   {NULL, cli_translate}, {NULL, cli_classify},
                {NULL, cli_fill},     {NULL, cli_embed},   {NULL, cli_eval},      {"look", cli_info},
                {NULL, cli_attend},   {NULL, cli_inspect}, {NULL, cli_report},    {"compare", cli_compare},
                {NULL, cli_forward},  {NULL, cli_bench},   {NULL, cli_doctor},    {"files", cli_tokenize},
                {NULL, cli_template}, {NULL, cli_export},  {NULL, cli_quantize}};

const struct cli_command *cli_command_at(size_t i) {
    return i < CLI_COUNT_OF(commands) ? commands[i].command() : NULL;
}

const char *cli_group_at(size_t i) {
    return i < CLI_COUNT_OF(commands) ? commands[i].group : NULL;
}

const char *cli_variable_at(size_t i, int part) {
    static const char *const variables[][2] = {
        {"QKV_ISA", "kernels to use, a name of --isa"},
        {"QKV_THREADS", "CPU threads, if --threads is not given"},
        {"QKV_PRECISION", "precision of new runs: fp32, bf16 or auto"},
        {"QKV_RANK_SECONDS", "seconds after which a silent rank counts as hung"},
        {"QKV_MPI", "path of the module that connects ranks, if it is not next to the library"},
        {"NO_COLOR", "no colours on a terminal, if it is set and not empty"},
    };
    return i < CLI_COUNT_OF(variables) ? variables[i][part] : NULL;
}

static const char *command_name(const void *list, size_t i) {
    (void)list;
    const struct cli_command *command = cli_command_at(i);
    return command ? command->name : "help";
}

const struct cli_command *cli_command_find(const char *name) {
    const struct cli_command *command;
    for (size_t i = 0; (command = cli_command_at(i)); i++)
        if (!strcmp(command->name, name)) return command;
    const char *closest = qkv_closest_name(name, command_name, NULL, CLI_COUNT_OF(commands) + 1);
    if (closest)
        cli_say("there is no command \"%s\"; did you mean %s? (\"%s help\" lists the commands)", name, closest,
                cli_program);
    else
        cli_say("there is no command \"%s\" (\"%s help\" lists the commands)", name, cli_program);
    return NULL;
}

void cli_print_overview(void) {
    const struct cli_command *command;
    printf("qkv %s: transformers in C, described as data, trained and run on this machine\n\n"
           "usage: qkv COMMAND [options]\n  qkv help COMMAND   describes a command and its options\n"
           "  qkv help spec      describes the keys of a model; qkv help files, its files\n"
           "  qkv help --format bash|zsh|fish|man   prints completions or a manual page\n",
           qkv_version());
    for (size_t i = 0; (command = cli_command_at(i)); i++) {
        if (commands[i].group)
            printf("\n%s%s:%s\n", cli_style(STDOUT_FILENO, CLI_HEADING), commands[i].group,
                   cli_style(STDOUT_FILENO, CLI_PLAIN));
        printf("  %-10s %s\n", command->name, command->summary);
    }
    printf("\nfirst steps:\n"
           "  qkv train --preset nano-gpt --data shakespeare.txt --out run/\n"
           "  qkv generate run/ --prompt \"ROMEO:\" -n 200\n"
           "\nexit codes: 0 done, 1 failed, 2 the command line makes no sense, 130 interrupted\n");
}
