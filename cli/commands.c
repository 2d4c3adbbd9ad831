/* commands.c: the list of the commands, a line of each, and how one is found. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

static const struct cli_command *(*const commands[])(void) = {
    cli_train,  cli_new,    cli_generate, cli_translate, cli_classify, cli_fill,     cli_embed,  cli_eval, cli_info,
    cli_attend, cli_report, cli_inspect,  cli_compare,   cli_forward,  cli_tokenize, cli_export, cli_bench};

const struct cli_command *cli_command_at(size_t i) {
    return i < CLI_COUNT_OF(commands) ? commands[i]() : NULL;
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
        cli_say("there is no command \"%s\"; did you mean %s? (\"%s help\" lists them)", name, closest, cli_program);
    else
        cli_say("there is no command \"%s\" (\"%s help\" lists them)", name, cli_program);
    return NULL;
}

void cli_print_overview(void) {
    const struct cli_command *command;
    printf("qkv %s: transformers in C, described as data, trained and run on this machine\n\n"
           "usage:\n  qkv COMMAND [options]\n\ncommands:\n",
           qkv_version());
    for (size_t i = 0; (command = cli_command_at(i)); i++) printf("  %-10s %s\n", command->name, command->summary);
    printf("  %-10s %s\n", "help", "this text; \"qkv help COMMAND\" describes a command and its options");
    printf("\nfirst steps:\n"
           "  qkv train --preset nano-gpt --data shakespeare.txt --out run/\n"
           "  qkv generate run/ --prompt \"ROMEO:\" -n 200\n"
           "  qkv info --preset gpt2-small\n"
           "\nexit codes: 0 done, 1 failed (a line on stderr says why), 2 the command line makes no sense,\n"
           "130 interrupted; \"qkv --version\" prints the version\n");
}
