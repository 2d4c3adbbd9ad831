/* train_options.c: the options of training on a command line, as the library lists them, and their values. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cli_train.h"

const char *cli_train_value_at(const struct cli_train_values *values, size_t i, size_t k) {
    if (values->files[i].count) return k < values->files[i].count ? values->files[i].items[k] : NULL;
    if (k > 0) return NULL;
    return values->flag[i] ? "true" : values->option[i];
}

const char *cli_train_value(const struct cli_train_values *values, size_t i) {
    return cli_train_value_at(values, i, 0);
}

/* Options whose number a setting of the spec sets, too. */
static bool options_of_spec(const char *name) {
    return !strcmp(name, "dropout") || !strcmp(name, "context") || !strcmp(name, "prefix");
}

static bool options_are_set(const struct cli_texts *set, const char *name) {
    const size_t n = strlen(name);
    for (size_t k = 0; k < set->count; k++)
        if (strncmp(set->items[k], name, n) == 0 && set->items[k][n] == '=') return true;
    return false;
}

static bool options_are_length(const char *name) {
    return !strcmp(name, "steps") || !strcmp(name, "epochs");
}

int cli_train_set_all(struct qkv_context *ctx, const struct cli_train_values *values, const struct cli_texts *set,
                      struct qkv_train_options *options) {
    const char *name, *value, *help;
    bool length = false; /* --steps replaces epochs, and --epochs replaces steps */
    bool data = false;   /* a run trains on one kind of files: the given kind replaces the others */
    for (size_t i = 0; qkv_train_option_at(i, &name, &value, &help); i++)
        if (cli_train_value(values, i)) {
            data |= qkv_train_option_data(i);
            length |= options_are_length(name);
        }
    for (size_t i = 0; qkv_train_option_at(i, &name, &value, &help); i++) {
        const bool given = cli_train_value(values, i) != NULL;
        if ((given && qkv_train_option_lists(i)) || (data && qkv_train_option_data(i)) ||
            (length && options_are_length(name)) || (options_of_spec(name) && options_are_set(set, name)))
            qkv_train_unset(options, name);
        for (size_t k = 0; (value = cli_train_value_at(values, i, k)); k++)
            if (qkv_train_set(ctx, options, name, value)) return CLI_FAILED;
    }
    return CLI_DONE;
}

int cli_check_doubles(const char *command, const struct cli_texts *set, const struct cli_train_values *values) {
    const char *name, *value, *help;
    for (size_t i = 0; qkv_train_option_at(i, &name, &value, &help); i++) {
        if (!options_of_spec(name)) continue;
        size_t n = strlen(name);
        for (size_t k = 0; cli_train_value(values, i) && k < set->count; k++)
            if (strncmp(set->items[k], name, n) == 0 && set->items[k][n] == '=')
                return cli_usage("%s: --set %s and --%s %s set the same number; leave one of them out", command,
                                 set->items[k], name, cli_train_value(values, i));
    }
    return CLI_DONE;
}

/* The name of a value in the help: FILE, N for a whole number, X for a real one, else NAME. */
static const char *argument_of(const char *value, const char *help) {
    int64_t whole;
    double number;
    if (strstr(help, "a pattern of")) return strstr(help, "=0.") ? "PATTERN=X" : "PATTERN";
    if (strstr(help, "file ")) return "FILE";
    if (strstr(help, "model folder")) return "MODEL";
    if (strstr(help, ", or random, ")) return "N|random";
    if (!value || !*value) return "NAME";
    return cli_read_count(value, 0, INT64_MAX, &whole) ? "N" : cli_read_real(value, &number) ? "X" : "NAME";
}

/* Options for other tasks than predicting the next token of a text, and options about an existing model. */
static bool is_for_others(const char *name) {
    static const char *const others[] = {"task",
                                         "mask_probability",
                                         "mask_each",
                                         "source_tokenizer",
                                         "metric",
                                         "batch_tokens",
                                         "from",
                                         "new_head",
                                         "freeze",
                                         "rates",
                                         "in_order",
                                         "long",
                                         "lora",
                                         "template",
                                         "preference_loss",
                                         "preference_beta",
                                         "teacher",
                                         "teacher_temperature",
                                         "teacher_share"};
    for (size_t i = 0; i < CLI_COUNT_OF(others); i++)
        if (!strcmp(others[i], name)) return true;
    return false;
}

size_t cli_train_options(struct cli_option *options, size_t offset, bool texts_only) {
    size_t count = 0;
    const char *name, *value, *help;
    for (size_t i = 0; i < CLI_TRAIN_OPTIONS && qkv_train_option_at(i, &name, &value, &help); i++) {
        size_t at = offset + offsetof(struct cli_train_values, option) + i * sizeof(const char *);
        const bool text = !qkv_train_option_data(i) || !strcmp(name, "data");
        if (texts_only && (!text || is_for_others(name))) continue;
        options[count] =
            (struct cli_option){CLI_TEXT, 0, name, argument_of(value, help), at, .help = help, .before = value};
        if (!strcmp(options[count].argument, "FILE") || strstr(name, "tokenizer")) options[count].kind = CLI_READ;
        if (!strcmp(options[count].argument, "MODEL")) options[count].kind = CLI_MODEL_READ;
        if (qkv_train_option_lists(i)) {
            options[count].kind = options[count].kind == CLI_READ ? CLI_READS : CLI_TEXTS;
            options[count].offset = offset + offsetof(struct cli_train_values, files) + i * sizeof(struct cli_texts);
        }
        if (strcmp(value, "false") == 0) {
            at = offset + offsetof(struct cli_train_values, flag) + i * sizeof(bool);
            options[count] = (struct cli_option){CLI_FLAG, 0, name, NULL, at, .help = help};
        }
        options[count].subject = qkv_train_option_subject(i);
        if (qkv_train_option_choice(i, 0)) options[count].choice = cli_choose_training;
        options[count].open = strstr(name, "tokenizer") != NULL; /* a file, or a kind with a size */
        count++;
    }
    return count;
}
