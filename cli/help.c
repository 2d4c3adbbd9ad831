/* help.c: the help texts, made from the tables by which the parser reads the command line. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

static int help_width(void) {
    int columns = cli_width(STDOUT_FILENO);
    return columns < 40 ? 40 : columns > 100 ? 100 : columns;
}

void cli_print_wrapped(const char *text, int at, int indent) {
    int most = help_width() - 1;
    while (*text) {
        size_t n = strcspn(text, " \n");
        if (at > indent && at + 1 + (int)n > most) {
            printf("\n%*s", indent, "");
            at = indent;
        }
        if (at > indent) putchar(' '), at++;
        fwrite(text, 1, n, stdout);
        at += (int)n;
        text += n;
        if (*text == '\n') {
            printf("\n%*s", text[1] == '\n' ? 0 : indent, "");
            at = indent;
        }
        if (*text) text++;
    }
    putchar('\n');
}

/* ---- one option -------------------------------------------------------------------------------------------------- */

char *cli_option_name(const struct cli_option *option, char text[CLI_OPTION_NAME]) {
    size_t n = 0;
    for (; option->name[n] && n + 1 < CLI_OPTION_NAME; n++) text[n] = option->name[n] == '_' ? '-' : option->name[n];
    text[n] = 0;
    return text;
}

/* " (default: 200)", from the value in the command's defaults. */
static void describe_default(const struct cli_option *option, const void *defaults, char *text, size_t size) {
    const void *value = (const char *)defaults + option->offset;
    text[0] = 0;
    if (cli_is_list(option->kind)) snprintf(text, size, " (may be repeated)");
    if (cli_is_list(option->kind)) return;
    if (option->before && *option->before) snprintf(text, size, " (default: %s)", option->before);
    if (option->before) return;
    if (option->kind == CLI_COUNT) snprintf(text, size, " (default: %lld)", (long long)*(const int64_t *)value);
    if (option->kind == CLI_REAL || option->kind == CLI_ABOVE)
        snprintf(text, size, " (default: %.12g)", *(const double *)value);
    if ((option->kind == CLI_TEXT || option->kind == CLI_READ) && *(const char *const *)value)
        snprintf(text, size, " (default: %s)", *(const char *const *)value);
}

char *cli_option_help(const struct cli_command *command, const struct cli_option *option, char *text, size_t size) {
    const char *mark = strstr(option->help, "{}");
    char choices[256] = "", usual[256];
    const size_t before = mark ? (size_t)(mark - option->help) : strlen(option->help);
    if (mark) cli_choices_text(option, choices, sizeof choices);
    describe_default(option, command->defaults, usual, sizeof usual);
    snprintf(text, size, "%.*s%s%s%s", (int)before, option->help, choices, mark ? mark + 2 : "", usual);
    return text;
}

/* "  -n, --tokens N" */
static int describe_option(const struct cli_option *option, char *text, size_t size) {
    char letter[8] = "    ", name[CLI_OPTION_NAME];
    if (option->letter) snprintf(letter, sizeof letter, "-%c, ", option->letter);
    return snprintf(text, size, "  %s--%s%s%s", letter, cli_option_name(option, name), option->argument ? " " : "",
                    option->argument ? option->argument : "");
}

static void print_option(const struct cli_command *command, const struct cli_option *option, int indent) {
    char text[128], help[1024];
    const int n = describe_option(option, text, sizeof text);
    printf("%s", text);
    if (n + 2 > indent)
        printf("\n%*s", indent, "");
    else
        printf("%*s", indent - n, "");
    cli_print_wrapped(cli_option_help(command, option, help, sizeof help), indent, indent);
}

/* The column where the help of the options begins. */
static int options_indent(const struct cli_command *command) {
    enum { MOST = 30 };
    char text[128];
    int indent = 0;
    for (size_t i = 0; i < command->option_count; i++) {
        int n = describe_option(&command->options[i], text, sizeof text) + 2;
        if (n > indent && n <= MOST) indent = n;
    }
    return indent;
}

/* ---- options by subject ------------------------------------------------------------------------------------------ */

/* The subjects in the order of every help. */
static const char *const subjects[] = {
    "input",   "model",      "fresh model", "trained model", "data",      "task",          "tokenizer",
    "windows", "comparison", "length",      "batches",       "optimizer", "search",        "sampling",
    "rules",   "network",    "limits",      "selection",     "vectors",   "nearest lines", "costs",
    "ranks",   "evaluation", "saving",      "output",        "precision", CLI_MACHINE};

const char *cli_subject_at(const struct cli_command *command, size_t i) {
    if (command->option_count <= CLI_SUBJECTS_ABOVE) return NULL;
    return i < CLI_COUNT_OF(subjects) ? subjects[i] : NULL;
}

const struct cli_option *cli_most_used(const struct cli_command *command, size_t i) {
    for (size_t k = 0; i < command->most_used_count && k < command->option_count; k++)
        if (!strcmp(command->options[k].name, command->most_used[i].option)) return &command->options[k];
    return NULL;
}

static bool is_most_used(const struct cli_command *command, const struct cli_option *option) {
    for (size_t i = 0; i < command->most_used_count; i++)
        if (cli_most_used(command, i) == option) return true;
    return false;
}

const struct cli_option *cli_option_of(const struct cli_command *command, const char *subject, size_t *at) {
    while (*at < command->option_count) {
        const struct cli_option *option = &command->options[(*at)++];
        if (is_most_used(command, option)) continue;
        if (!subject || (option->subject && !strcmp(option->subject, subject))) return option;
    }
    return NULL;
}

static void print_heading(const char *heading) {
    printf("\n%s%s:%s\n", cli_style(STDOUT_FILENO, CLI_HEADING), heading, cli_style(STDOUT_FILENO, CLI_PLAIN));
}

static void print_most_used(const struct cli_command *command, int indent) {
    const struct cli_option *option;
    if (command->most_used_count) print_heading("most used");
    for (size_t i = 0; (option = cli_most_used(command, i)); i++) {
        print_option(command, option, indent);
        printf("%8s%s\n", "", command->most_used[i].example);
    }
}

/* The options of a subject (NULL: all) under a heading; nothing where there are none. */
static void print_subject(const struct cli_command *command, const char *subject, int indent) {
    const struct cli_option *option;
    size_t at = 0, count = 0;
    for (; (option = cli_option_of(command, subject, &at)); count++) {
        if (!count) print_heading(subject ? subject : "options");
        print_option(command, option, indent);
    }
}

static void print_options(const struct cli_command *command) {
    const int indent = options_indent(command);
    const char *subject;
    size_t count = 0;
    for (; (subject = cli_subject_at(command, count)); count++) print_subject(command, subject, indent);
    if (!count) print_subject(command, NULL, indent);
    printf("%-*s", indent, "  -h, --help");
    printf("this text\n");
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* `trains`: prints the options of training that each preset brings, too. */
static void print_presets(bool trains) {
    const char *name, *summary;
    char text[512];
    print_heading(trains ? "presets, and the options of training that each brings" : "presets");
    for (size_t i = 0; qkv_preset_at(i, &name, &summary); i++) {
        printf("  %-17s", name);
        cli_print_wrapped(summary, 19, 19);
        if (!trains) continue;
        printf("%*s", 19, "");
        cli_print_wrapped(cli_preset_training(name, text, sizeof text), 19, 19);
    }
}

const char *cli_preset_training(const char *preset, char *text, size_t size) {
    const char *const *recipe = qkv_preset_recipe(preset);
    size_t used = 0;
    text[0] = 0;
    for (; recipe && *recipe && used < size; recipe++) {
        char name[64];
        const size_t n = strcspn(*recipe, "="); /* length of the name, which is written as on the command line */
        snprintf(name, sizeof name, "%.*s", (int)n, *recipe);
        for (char *c = name; *c; c++)
            if (*c == '_') *c = '-';
        const char *value = *recipe + n + ((*recipe)[n] == '=');
        used += (size_t)snprintf(text + used, size - used, "%s--%s%s%s", used ? " " : "", name,
                                 strcmp(value, "true") ? " " : "", strcmp(value, "true") ? value : "");
    }
    return text;
}

/* Prints lines of a table, each after the name of this program: "qkv train --preset ...". */
static void print_calls(const char *lines, const char *prefix) {
    while (*lines) {
        size_t n = strcspn(lines, "\n");
        printf("  %s%s%.*s\n", prefix, *prefix ? " " : "", (int)n, lines);
        lines += n + (lines[n] == '\n');
    }
}

void cli_print_help(const struct cli_command *command) {
    char prefix[256];
    snprintf(prefix, sizeof prefix, "qkv %s", command->name);
    printf("%s%s:%s %s\n", cli_style(STDOUT_FILENO, CLI_HEADING), prefix, cli_style(STDOUT_FILENO, CLI_PLAIN),
           command->summary);
    print_heading("usage");
    print_calls(command->usage, prefix);
    print_most_used(command, options_indent(command));
    if (command->most_used_count) {
        print_options(command);
        print_heading("description");
    } else {
        putchar('\n');
    }
    cli_print_wrapped(command->description, 0, 0);
    if (!command->most_used_count) print_options(command);
    if (command->presets) print_presets(!strcmp(command->name, "train"));
    print_heading("examples");
    print_calls(command->examples, "");
}
