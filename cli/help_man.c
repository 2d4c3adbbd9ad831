/* help_man.c: manual pages (man(7)), made from the tables of the commands: "qkv help --format man [COMMAND]". */
#include <stdio.h>
#include <string.h>

#include "cli.h"

enum { HELP = 1024 };

/* Writes text for troff: no line begins like a request, hyphens can be typed again, and characters that troff would
 * draw as others have their names. */
static void man_text(const char *text, size_t size) {
    for (size_t i = 0; i < size; i++) {
        const bool first = i == 0 || text[i - 1] == '\n';
        if (first && (text[i] == '.' || text[i] == '\'')) fputs("\\&", stdout);
        switch (text[i]) {
        case '\\':
            fputs("\\e", stdout);
            break;
        case '-':
            fputs("\\-", stdout);
            break;
        case '\'':
            fputs("\\(aq", stdout);
            break;
        case '`':
            fputs("\\(ga", stdout);
            break;
        case '^':
            fputs("\\(ha", stdout);
            break;
        case '~':
            fputs("\\(ti", stdout);
            break;
        default:
            putchar(text[i]);
        }
    }
}

static void man_line(const char *text) {
    man_text(text, strlen(text));
    putchar('\n');
}

static void man_title(const char *name) {
    printf(".TH ");
    for (const char *c = name; *c; c++) putchar(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
    printf(" 1 \"\" \"qkv %s\" \"qkv manual\"\n.nh\n.ad l\n", qkv_version()); /* names of files are not broken */
}

/* "input" as the heading "Input". */
static void man_subheading(const char *heading) {
    printf(".SS \"%c%s\"\n", *heading >= 'a' && *heading <= 'z' ? *heading - 'a' + 'A' : *heading, heading + 1);
}

static void man_option(const struct cli_command *command, const struct cli_option *option, const char *example) {
    char name[CLI_OPTION_NAME], help[HELP];
    printf(".TP\n");
    if (option->letter) printf("\\fB\\-%c\\fR, ", option->letter);
    printf("\\fB\\-\\-");
    cli_option_name(option, name);
    man_text(name, strlen(name));
    printf("\\fR");
    if (option->argument) {
        printf(" \\fI");
        man_text(option->argument, strlen(option->argument));
        printf("\\fR");
    }
    putchar('\n');
    man_line(cli_option_help(command, option, help, sizeof help));
    if (!example) return;
    printf(".br\nExample: ");
    man_line(example);
}

static void man_options(const struct cli_command *command) {
    const struct cli_option *option;
    const char *subject;
    size_t subjects = 0;
    printf(".SH OPTIONS\n");
    if (command->most_used_count) man_subheading("most used");
    for (size_t i = 0; (option = cli_most_used(command, i)); i++)
        man_option(command, option, command->most_used[i].example);
    for (; (subject = cli_subject_at(command, subjects)); subjects++) {
        size_t count = 0;
        for (size_t at = 0; (option = cli_option_of(command, subject, &at)); count++) {
            if (!count) man_subheading(subject);
            man_option(command, option, NULL);
        }
    }
    for (size_t at = 0; !subjects && (option = cli_option_of(command, NULL, &at));) man_option(command, option, NULL);
    printf(".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nprint the help text\n");
}

/* Paragraphs, which an empty line or a line end parts. */
static void man_paragraphs(const char *text) {
    for (bool first = true; *text; first = false) {
        const size_t n = strcspn(text, "\n");
        if (!first) printf(".PP\n");
        man_text(text, n);
        putchar('\n');
        text += n + strspn(text + n, "\n");
    }
}

/* Lines that stay lines, each after `before`. */
static void man_calls(const char *lines, const char *before) {
    printf(".nf\n");
    while (*lines) {
        const size_t n = strcspn(lines, "\n");
        man_text(before, strlen(before));
        man_text(lines, n);
        putchar('\n');
        lines += n + (lines[n] == '\n');
    }
    printf(".fi\n");
}

static void man_presets(bool trains) {
    const char *name, *summary;
    char text[512];
    printf(".SH PRESETS\n");
    for (size_t i = 0; qkv_preset_at(i, &name, &summary); i++) {
        printf(".TP\n\\fB");
        man_text(name, strlen(name));
        printf("\\fR\n");
        man_line(summary);
        if (!trains) continue;
        printf(".br\nTrained with: ");
        man_line(cli_preset_training(name, text, sizeof text));
    }
}

static void man_command(const struct cli_command *command) {
    char text[64];
    snprintf(text, sizeof text, "qkv-%s", command->name);
    man_title(text);
    printf(".SH NAME\nqkv\\-%s \\- ", command->name);
    man_line(command->summary);
    printf(".SH SYNOPSIS\n");
    snprintf(text, sizeof text, "qkv %s ", command->name);
    man_calls(command->usage, text);
    printf(".SH DESCRIPTION\n");
    man_paragraphs(command->description);
    man_options(command);
    if (command->presets) man_presets(!strcmp(command->name, "train"));
    printf(".SH EXAMPLES\n");
    man_calls(command->examples, "");
    printf(".SH \"SEE ALSO\"\n.BR qkv (1)\n");
}

static void man_overview(void) {
    const struct cli_command *command;
    man_title("qkv");
    printf(".SH NAME\nqkv \\- transformers in C, described as data, trained and run on this machine\n"
           ".SH SYNOPSIS\n.nf\nqkv COMMAND [options]\nqkv help [COMMAND]\n"
           "qkv help \\-\\-format man|bash|zsh|fish [COMMAND]\nqkv \\-\\-version\n.fi\n"
           ".SH DESCRIPTION\nEach command has a page of its own: qkv\\-train(1), and so on.\n.SH COMMANDS\n");
    for (size_t i = 0; (command = cli_command_at(i)); i++) {
        if (cli_group_at(i)) man_subheading(cli_group_at(i));
        printf(".TP\n\\fB%s\\fR\n", command->name);
        man_line(command->summary);
    }
    printf(".SH ENVIRONMENT\n");
    for (size_t i = 0; cli_variable_at(i, 0); i++) {
        printf(".TP\n\\fB%s\\fR\n", cli_variable_at(i, 0));
        man_line(cli_variable_at(i, 1));
    }
    printf(
        ".SH \"EXIT STATUS\"\n.TP\n0\nThe work is done.\n.TP\n1\nThe work failed; a line on standard error says why.\n"
        ".TP\n2\nThe command line makes no sense.\n.TP\n130\nThe work was interrupted.\n.SH \"SEE ALSO\"\n");
    for (size_t i = 0; (command = cli_command_at(i)); i++)
        printf(".BR qkv\\-%s (1)%s\n", command->name, cli_command_at(i + 1) ? "," : "");
}

void cli_print_man(const struct cli_command *command) {
    if (command)
        man_command(command);
    else
        man_overview();
}
