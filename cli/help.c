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

static int describe_option(const struct cli_option *option, char *text, size_t size) {
    char letter[8] = "    ", name[64];
    size_t n = 0;
    if (option->letter) snprintf(letter, sizeof letter, "-%c, ", option->letter);
    for (; option->name[n] && n + 1 < sizeof name; n++) name[n] = option->name[n] == '_' ? '-' : option->name[n];
    name[n] = 0;
    return snprintf(text, size, "  %s--%s%s%s", letter, name, option->argument ? " " : "",
                    option->argument ? option->argument : "");
}

static void print_options(const struct cli_command *command) {
    enum { MOST = 30 };
    char text[128], more[128], help[1024];
    int indent = 0;
    for (size_t i = 0; i < command->option_count; i++) {
        int n = describe_option(&command->options[i], text, sizeof text) + 2;
        if (n > indent && n <= MOST) indent = n;
    }
    printf("\noptions:\n");
    for (size_t i = 0; i < command->option_count; i++) {
        const struct cli_option *option = &command->options[i];
        int n = describe_option(option, text, sizeof text);
        describe_default(option, command->defaults, more, sizeof more);
        snprintf(help, sizeof help, "%s%s", option->help, more);
        printf("%s", text);
        if (n + 2 > indent)
            printf("\n%*s", indent, "");
        else
            printf("%*s", indent - n, "");
        cli_print_wrapped(help, indent, indent);
    }
    printf("%-*s", indent, "  -h, --help");
    printf("this text\n");
}

/* `trains`: prints the options of training that each preset brings, too. */
static void print_presets(bool trains) {
    const char *name, *summary;
    char text[512];
    printf("\npresets%s:\n", trains ? ", and the options of training that each brings" : "");
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
    printf("qkv %s: %s\n\nusage:\n", command->name, command->summary);
    print_calls(command->usage, prefix);
    putchar('\n');
    cli_print_wrapped(command->description, 0, 0);
    print_options(command);
    if (command->presets) print_presets(!strcmp(command->name, "train"));
    printf("\nexamples:\n");
    print_calls(command->examples, "");
}
