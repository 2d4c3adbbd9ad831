/* help_complete.c: completions of bash, zsh and fish, made from the tables of the commands: "qkv help --format bash".
 * A shell completes commands, options, values of options that have a few, files and folders. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

enum complete_kind {
    COMPLETE_FLAG,   /* no value */
    COMPLETE_ANY,    /* a value that nobody can guess */
    COMPLETE_NAMES,  /* one of a few names */
    COMPLETE_FILE,   /* a file, or a name of the option */
    COMPLETE_FOLDER, /* a folder */
    COMPLETE_KINDS
};

static enum complete_kind complete_kind(const struct cli_option *option) {
    switch (option->kind) {
    case CLI_FLAG:
        return COMPLETE_FLAG;
    case CLI_READ:
    case CLI_READS:
    case CLI_MODEL_READ:
    case CLI_ADAPTERS:
    case CLI_WRITE:
        return COMPLETE_FILE;
    case CLI_FOLDER:
        return COMPLETE_FOLDER;
    case CLI_TEXT:
    case CLI_TEXTS:
    case CLI_COUNT:
    case CLI_MEMORY:
    case CLI_REAL:
    case CLI_ABOVE:
        break;
    }
    return option->choice ? COMPLETE_NAMES : COMPLETE_ANY;
}

static void complete_names(const struct cli_option *option) {
    const char *name;
    for (size_t i = 0; option->choice && (name = option->choice(option->name, i)); i++)
        printf("%s%s", i ? " " : "", name);
}

/* Writes the first clause of a help text, with a backslash before each character of `escaped`. */
static void complete_help(const char *help, const char *escaped) {
    size_t n = strlen(help);
    const char *const ends[] = {"; ", " ("};
    for (size_t i = 0; i < CLI_COUNT_OF(ends); i++) {
        const char *end = strstr(help, ends[i]);
        if (end && (size_t)(end - help) < n) n = (size_t)(end - help);
    }
    for (size_t i = 0; i < n; i++) {
        if (strchr(escaped, help[i])) putchar('\\');
        putchar(help[i]);
    }
}

static void complete_commands(void) {
    const struct cli_command *command;
    for (size_t i = 0; (command = cli_command_at(i)); i++) printf("%s ", command->name);
    printf("help");
}

/* ---- bash -------------------------------------------------------------------------------------------------------- */

static void bash_option(const struct cli_option *option) {
    static const char *const kinds[COMPLETE_KINDS] = {
        [COMPLETE_ANY] = "any", [COMPLETE_NAMES] = "names", [COMPLETE_FILE] = "file", [COMPLETE_FOLDER] = "folder"};
    const enum complete_kind kind = complete_kind(option);
    char name[CLI_OPTION_NAME];
    if (kind == COMPLETE_FLAG) return;
    printf("        ");
    if (option->letter) printf("-%c | ", option->letter);
    printf("--%s) kind=%s names='", cli_option_name(option, name), kinds[kind]);
    complete_names(option);
    printf("' ;;\n");
}

static void bash_command(const struct cli_command *command) {
    char name[CLI_OPTION_NAME];
    printf("    %s)\n        options='", command->name);
    for (size_t i = 0; i < command->option_count; i++) printf("--%s ", cli_option_name(&command->options[i], name));
    printf("--help'\n        case $option in\n");
    for (size_t i = 0; i < command->option_count; i++) bash_option(&command->options[i]);
    printf("        esac\n        words=%s\n        ;;\n", command->words == CLI_WORDS ? "any" : "file");
}

static void complete_bash(void) {
    const struct cli_command *command;
    printf("# bash completion of qkv, made by \"qkv help --format bash\"\n"
           "_qkv() {\n"
           "    local current=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD - 1]}\n"
           "    local options='' kind='' names='' words=any\n"
           "    # bash takes --name=value apart: \"--name\", \"=\", \"value\"\n"
           "    if [[ $current == = ]]; then\n"
           "        current=''\n"
           "    elif [[ $option == = ]]; then\n"
           "        option=${COMP_WORDS[COMP_CWORD - 2]}\n"
           "    fi\n"
           "    COMPREPLY=()\n"
           "    if ((COMP_CWORD == 1)); then\n"
           "        mapfile -t COMPREPLY < <(compgen -W '");
    complete_commands();
    printf(" --help --version' -- \"$current\")\n"
           "        return\n"
           "    fi\n"
           "    case ${COMP_WORDS[1]} in\n"
           "    help)\n"
           "        options=--format words=any\n"
           "        [[ $option == --format ]] && kind=names names='man bash zsh fish'\n"
           "        [[ $option == --format || $current == -* ]] || { kind=names names='");
    complete_commands();
    printf("'; }\n        ;;\n");
    for (size_t i = 0; (command = cli_command_at(i)); i++) bash_command(command);
    printf("    *) return ;;\n"
           "    esac\n"
           "    if [[ -z $kind && $current == -* ]]; then\n"
           "        mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$current\")\n"
           "        return\n"
           "    fi\n"
           "    case ${kind:-$words} in\n"
           "    names) mapfile -t COMPREPLY < <(compgen -W \"$names\" -- \"$current\") ;;\n"
           "    folder)\n"
           "        compopt -o filenames 2>/dev/null\n"
           "        mapfile -t COMPREPLY < <(compgen -d -- \"$current\")\n"
           "        ;;\n"
           "    file)\n"
           "        compopt -o filenames 2>/dev/null\n"
           "        mapfile -t COMPREPLY < <(compgen -W \"$names\" -- \"$current\"; compgen -f -- \"$current\")\n"
           "        ;;\n"
           "    esac\n"
           "}\n"
           "complete -F _qkv qkv\n");
}

/* ---- zsh --------------------------------------------------------------------------------------------------------- */

/* Writes a help text inside single quotes, as _arguments reads it: a quote becomes U+2019, brackets and colons are
 * escaped. */
static void zsh_help(const char *help) {
    for (const char *quote; (quote = strchr(help, '\'')); help = quote + 1) {
        char part[256];
        snprintf(part, sizeof part, "%.*s", (int)(quote - help), help);
        complete_help(part, "[]:\\");
        fputs("\xe2\x80\x99", stdout); /* U+2019 */
        if (strstr(part, "; ") || strstr(part, " (")) return;
    }
    complete_help(help, "[]:\\");
}

/* "'(-n --tokens)'{-n+,--tokens=}'[how many tokens]:N: '" */
static void zsh_option(const struct cli_option *option) {
    const enum complete_kind kind = complete_kind(option);
    const bool flag = kind == COMPLETE_FLAG, list = cli_is_list(option->kind);
    char name[CLI_OPTION_NAME];
    cli_option_name(option, name);
    printf(" \\\n            ");
    if (option->letter)
        printf("'%s(-%c --%s)'{-%c%s,--%s%s}'[", list ? "*" : "", option->letter, name, option->letter, flag ? "" : "+",
               name, flag ? "" : "=");
    else
        printf("'%s--%s%s[", list ? "*" : "", name, flag ? "" : "=");
    zsh_help(option->help);
    putchar(']');
    if (!flag) printf(":%s:", option->argument);
    if (kind == COMPLETE_ANY) putchar(' ');
    if (kind == COMPLETE_NAMES || (option->choice && option->open)) {
        putchar('(');
        complete_names(option);
        putchar(')');
    } else if (kind == COMPLETE_FILE) {
        printf("_files");
    } else if (kind == COMPLETE_FOLDER) {
        printf("_directories");
    }
    putchar('\'');
}

static void complete_zsh(void) {
    const struct cli_command *command;
    printf("#compdef qkv\n# zsh completion of qkv, made by \"qkv help --format zsh\"\n"
           "_qkv() {\n    local -a commands\n    commands=(\n");
    for (size_t i = 0; (command = cli_command_at(i)); i++) {
        printf("        '%s:", command->name);
        zsh_help(command->summary);
        printf("'\n");
    }
    printf("        'help:print a help text'\n    )\n"
           "    if ((CURRENT == 2)); then\n"
           "        _describe -t commands command commands\n"
           "        return\n"
           "    fi\n"
           "    local command=$words[2]\n"
           "    shift words\n"
           "    ((CURRENT--))\n"
           "    case $command in\n"
           "    help) _arguments '--format=[print a page or completions]:format:(man bash zsh fish)' '1: :(");
    complete_commands();
    printf(")' ;;\n");
    for (size_t i = 0; (command = cli_command_at(i)); i++) {
        printf("    %s)\n        _arguments -s", command->name);
        for (size_t k = 0; k < command->option_count; k++) zsh_option(&command->options[k]);
        printf(" \\\n            '(-h --help)'{-h,--help}'[print the help text]'");
        if (command->words != CLI_WORDS) printf(" \\\n            '*: :_files'");
        printf("\n        ;;\n");
    }
    printf("    esac\n}\n_qkv \"$@\"\n");
}

/* ---- fish -------------------------------------------------------------------------------------------------------- */

static void fish_option(const struct cli_command *command, const struct cli_option *option) {
    static const char *const kinds[COMPLETE_KINDS] = {[COMPLETE_FLAG] = "",
                                                      [COMPLETE_ANY] = " -x",
                                                      [COMPLETE_NAMES] = " -x",
                                                      [COMPLETE_FILE] = " -r -F",
                                                      [COMPLETE_FOLDER] = " -x -a '(__fish_complete_directories)'"};
    char name[CLI_OPTION_NAME];
    printf("complete -c qkv -n '__qkv_is %s'", command->name);
    if (option->letter) printf(" -s %c", option->letter);
    printf(" -l %s%s", cli_option_name(option, name), kinds[complete_kind(option)]);
    if (option->choice) {
        printf(" -a '");
        complete_names(option);
        putchar('\'');
    }
    printf(" -d '");
    complete_help(option->help, "'\\");
    printf("'\n");
}

static void complete_fish(void) {
    const struct cli_command *command;
    printf("# fish completion of qkv, made by \"qkv help --format fish\"\n"
           "function __qkv_is\n"
           "    set -l words (commandline -opc)\n"
           "    test (count $words) -ge 2; and test $words[2] = $argv[1]\n"
           "end\n"
           "function __qkv_begins\n"
           "    test (count (commandline -opc)) -eq 1\n"
           "end\n"
           "complete -c qkv -f\n");
    for (size_t i = 0; (command = cli_command_at(i)); i++) {
        printf("complete -c qkv -n __qkv_begins -a %s -d '", command->name);
        complete_help(command->summary, "'\\");
        printf("'\n");
        for (size_t k = 0; k < command->option_count; k++) fish_option(command, &command->options[k]);
        printf("complete -c qkv -n '__qkv_is %s' -s h -l help -d 'print the help text'\n", command->name);
        if (command->words != CLI_WORDS) printf("complete -c qkv -n '__qkv_is %s' -F\n", command->name);
    }
    printf("complete -c qkv -n __qkv_begins -a help -d 'print a help text'\n"
           "complete -c qkv -n '__qkv_is help' -l format -x -a 'man bash zsh fish' -d 'print a page or completions'\n"
           "complete -c qkv -n '__qkv_is help' -a '");
    complete_commands();
    printf("'\n");
}

/* ---- formats ----------------------------------------------------------------------------------------------------- */

static void complete_list(void) {
    const struct cli_command *command;
    for (size_t i = 0; (command = cli_command_at(i)); i++) printf("%s\n", command->name);
}

static const struct {
    const char *name;
    void (*print)(void);
} formats[] = {{"bash", complete_bash}, {"zsh", complete_zsh}, {"fish", complete_fish}, {"list", complete_list}};

int cli_print_format(const char *format, const char *command) {
    if (!strcmp(format, "man")) {
        const struct cli_command *described = command ? cli_command_find(command) : NULL;
        if (command && !described) return CLI_USAGE;
        cli_print_man(described);
        return CLI_DONE;
    }
    for (size_t i = 0; i < CLI_COUNT_OF(formats); i++) {
        if (strcmp(format, formats[i].name) != 0) continue;
        if (command) return cli_usage("help: --format %s is of all commands; leave out \"%s\"", format, command);
        formats[i].print();
        return CLI_DONE;
    }
    return cli_usage("help: --format is \"%s\"; it must be man, bash, zsh, fish or list (the names of the commands)",
                     format);
}
