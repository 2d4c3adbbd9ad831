/* main.c: finds the command that the first word names, and runs it. */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli_help.h"
#include "cli_ranks.h"

static int main_run(const struct cli_command *command, char **words, size_t count) {
    void *values = calloc(1, command->size);
    if (!values) return cli_failed("out of memory");
    int code = cli_ranks_join(command, words, count);
    if (code == CLI_DONE && cli_ranks_idle(command)) {
        free(values);
        return CLI_DONE;
    }
    if (code == CLI_DONE) code = cli_parse(command, words, &count, values);
    if (code == CLI_DONE) code = cli_files_check(command, values, (const char *const *)words, count);
    if (code == CLI_DONE) code = command->run(values, (const char *const *)words, count);
    if (code == CLI_HELPED) code = CLI_DONE;
    cli_ranks_leave(code);
    cli_forget(command, values);
    free(values);
    return code;
}

/* "--format NAME [COMMAND]" */
static int main_format(char **words, size_t count) {
    if (count < 2) return cli_usage("--format needs a value: --format man, bash, zsh or fish");
    if (count > 3) return cli_usage("help: one argument too many: \"%s\"", words[3]);
    return cli_print_format(words[1], count == 3 ? words[2] : NULL);
}

static int main_help(char **words, size_t count) {
    if (count > 0 && !strcmp(words[0], "--format")) return main_format(words, count);
    if (count == 0 || !strcmp(words[0], "--help") || !strcmp(words[0], "-h") || !strcmp(words[0], "help")) {
        cli_print_overview();
        return CLI_DONE;
    }
    int code = CLI_DONE;
    if (cli_help_topic(words, count, &code)) return code;
    if (count > 1) return cli_usage("help: one argument too many: \"%s\"", words[1]);
    const struct cli_command *command = cli_command_find(words[0]);
    if (!command) return CLI_USAGE;
    cli_print_help(command);
    return CLI_DONE;
}

static int main_dispatch(char **words, size_t count) {
    if (count == 0) {
        cli_print_overview();
        return cli_usage("no command is given (\"%s help\" lists the commands)", cli_program);
    }
    if (!strcmp(words[0], "help") || !strcmp(words[0], "--help") || !strcmp(words[0], "-h"))
        return main_help(words + 1, count - 1);
    if (!strcmp(words[0], "--version") || !strcmp(words[0], "-V")) {
        printf("qkv %s\n", qkv_version());
        return CLI_DONE;
    }
    if (words[0][0] == '-')
        return cli_usage("the command comes first, then its options; %s is no command (\"%s help\" lists the commands)",
                         words[0], cli_program);
    const struct cli_command *command = cli_command_find(words[0]);
    return command ? main_run(command, words + 1, count - 1) : CLI_USAGE;
}

/* Opens /dev/null for a descriptor that the caller closed: else the next file that is opened gets its number, and
 * messages are written into that file. The direction is the wrong one, so reading and writing still fail. */
static void fill_descriptor(int descriptor) {
    if (fcntl(descriptor, F_GETFD) < 0 && errno == EBADF) {
        int opened = open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
        if (opened >= 0 && opened != descriptor) close(opened);
    }
}

int main(int argc, char **argv) {
    signal(SIGXFSZ, SIG_IGN); /* writing past a limit of the file size (ulimit -f) fails like writing to a full disk */
    for (int i = 0; i <= 2; i++) fill_descriptor(i);
    setlocale(LC_CTYPE, "");
    if (argc > 0 && argv[0] && *argv[0]) cli_program = argv[0];
    return cli_finish(main_dispatch(argc > 1 ? argv + 1 : argv, argc > 1 ? (size_t)argc - 1 : 0));
}
