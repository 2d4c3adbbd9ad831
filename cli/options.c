/* options.c: reads the words of a command line by the option table of its command: "--name value", "--name=value",
 * "-n200", "-n 200", "-q"; after "--" every word is an argument. An option that takes one value may be given once; a
 * flag may be given again. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

bool cli_read_count(const char *text, int64_t low, int64_t high, int64_t *value) {
    char *end;
    const char *digits = text + (*text == '-' || *text == '+');
    if (*digits < '0' || *digits > '9') return false;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno || *end || number < low || number > high) return false;
    *value = number;
    return true;
}

bool cli_read_real(const char *text, double *value) {
    char *end;
    if (!*text || strchr(" \t\n\v\f\r", *text)) return false;
    double number = strtod(text, &end);
    if (end == text || *end || !isfinite(number)) return false;
    *value = number;
    return true;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static bool same_character(char a, char b) {
    return a == b || ((a == '_' || a == '-') && (b == '_' || b == '-'));
}

static bool same_name(const char *name, const char *word, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!name[i] || !same_character(name[i], word[i])) return false;
    return name[n] == 0;
}

static const char *option_name(const void *list, size_t i) {
    return ((const struct cli_option *)list)[i].name;
}

/* "--top_k" becomes "--top-k". */
static const char *options_hyphens(const char *name, char *text, size_t size) {
    size_t n = 0;
    for (; name[n] && n + 1 < size; n++) text[n] = name[n] == '_' ? '-' : name[n];
    text[n] = 0;
    return text;
}

/* ---- one option -------------------------------------------------------------------------------------------------- */

static int options_append(struct cli_texts *texts, const char *text) {
    const char **items = realloc(texts->items, (texts->count + 1) * sizeof *items);
    if (!items) return cli_failed("out of memory");
    items[texts->count++] = text;
    texts->items = items;
    return CLI_DONE;
}

/* The words of a command line while they are read. */
struct parser {
    const struct cli_command *command;
    char **words;
    size_t count, at;
    void *values;
    bool *given; /* one for each option of the command */
};

static bool in_range(const struct cli_option *option, double x) {
    if (option->low == 0 && option->high == 0) return true;
    if (option->kind == CLI_ABOVE ? x <= (double)option->low : x < (double)option->low) return false;
    return option->high == CLI_ENDLESS || x <= (double)option->high;
}

/* " from 0 to 1" for an option that takes a real number; "" if any number will do. */
static const char *options_range(const struct cli_option *option, char *text, size_t size) {
    const bool above = option->kind == CLI_ABOVE, endless = option->high == CLI_ENDLESS;
    const long long low = (long long)option->low, high = (long long)option->high;
    text[0] = 0;
    if (low == 0 && high == 0) return text;
    if (endless)
        snprintf(text, size, above ? " greater than %lld" : " of at least %lld", low);
    else
        snprintf(text, size, above ? " greater than %lld and at most %lld" : " from %lld to %lld", low, high);
    return text;
}

/* A value that is none of the option's is refused, with the nearest one and all of them if they are few. */
static int options_choose(const struct parser *p, const struct cli_option *option, const char *shown,
                          const char *text) {
    enum { FEW = 8 };
    char all[256] = "", near[96] = "";
    const char *closest;
    *(const char **)((char *)p->values + option->offset) = text;
    if (cli_choices_have(option, text, &closest)) return CLI_DONE;
    if (closest) snprintf(near, sizeof near, "; did you mean %s?", closest);
    if (cli_choices_count(option) > FEW)
        return cli_usage("%s is \"%s\", and there is no such %s%s (\"%s help %s\" lists them)", shown, text,
                         option->name, near, cli_program, p->command->presets ? p->command->name : "train");
    return cli_usage("%s is \"%s\"; it must be %s%s (\"%s help %s\" explains it)", shown, text,
                     cli_choices_text(option, all, sizeof all), near, cli_program, p->command->name);
}

/* Reads 512, 512M or 8G as MiB. */
static int options_memory(const struct cli_option *option, const char *shown, const char *text, int64_t *value) {
    char number[24];
    const size_t size = strlen(text);
    const char unit = size ? text[size - 1] : 0;
    const bool has_unit = unit && strchr("MmGg", unit), large = unit == 'G' || unit == 'g';
    if (size && size < sizeof number) {
        memcpy(number, text, size + 1);
        if (has_unit) number[size - 1] = 0;
        if (cli_read_count(number, 1, option->high >> (large ? 10 : 0), value)) {
            if (large) *value <<= 10;
            if (*value >= option->low) return CLI_DONE;
        }
    }
    return cli_usage("%s needs a size from %lldM to %lldG, such as 512M or 8G, not \"%s\"", shown,
                     (long long)option->low, (long long)option->high >> 10, text);
}

static int options_set(struct parser *p, const struct cli_option *option, const char *shown, const char *text) {
    char name[64];
    void *value = (char *)p->values + option->offset;
    bool *given = &p->given[option - p->command->options];
    if (*given && option->kind != CLI_FLAG && !cli_is_list(option->kind))
        return cli_usage("%s takes one value, but it is given more than once; leave the others out", shown);
    *given = true;
    switch (option->kind) {
    case CLI_FLAG:
        *(bool *)value = true;
        return CLI_DONE;
    case CLI_TEXT:
        if (option->choice && !option->open) return options_choose(p, option, shown, text);
        *(const char **)value = text;
        return CLI_DONE;
    case CLI_READ:
    case CLI_MODEL_READ:
    case CLI_WRITE:
    case CLI_FOLDER:
        *(const char **)value = text;
        return CLI_DONE;
    case CLI_TEXTS:
    case CLI_READS:
    case CLI_ADAPTERS:
        return options_append(value, text);
    case CLI_COUNT:
        if (cli_read_count(text, option->low, option->high, value)) return CLI_DONE;
        return cli_usage("%s needs a whole number from %lld to %lld, not \"%s\"", shown, (long long)option->low,
                         (long long)option->high, text);
    case CLI_MEMORY:
        return options_memory(option, shown, text, value);
    case CLI_REAL:
    case CLI_ABOVE:
        if (cli_read_real(text, value) && in_range(option, *(const double *)value)) return CLI_DONE;
        return cli_usage("%s needs a number%s, not \"%s\"", shown, options_range(option, name, sizeof name), text);
    }
    return CLI_USAGE;
}

/* Names that other programs, above all PyTorch and nanoGPT, give to our options, and that are not close to ours in
 * spelling. */
static const struct {
    const char *theirs, *ours;
} other_names[] = {
    {"lr", "rate"},
    {"learning_rate", "rate"},
    {"min_lr", "min_rate"},
    {"lr_scheduler", "schedule"},
    {"lr_scheduler_type", "schedule"},
    {"warmup_iters", "warmup"},
    {"warmup_steps", "warmup"},
    {"batch_size", "batch"},
    {"bs", "batch"},
    {"per_device_train_batch_size", "batch"},
    {"gradient_accumulation_steps", "accumulate"},
    {"grad_accum", "accumulate"},
    {"block_size", "context"},
    {"seq_len", "context"},
    {"max_seq_length", "context"},
    {"num_train_epochs", "epochs"},
    {"num_epochs", "epochs"},
    {"max_epochs", "epochs"},
    {"n_epochs", "epochs"},
    {"max_iters", "steps"},
    {"max_steps", "steps"},
    {"iters", "steps"},
    {"iterations", "steps"},
    {"grad_clip", "clip"},
    {"max_grad_norm", "clip"},
    {"wd", "weight_decay"},
    {"adam_beta2", "beta2"},
    {"eval_interval", "eval_every"},
    {"eval_steps", "eval_every"},
    {"eval_iters", "eval_batches"},
    {"save_steps", "save_every"},
    {"log_interval", "log_every"},
    {"logging_steps", "log_every"},
    {"early_stopping_patience", "patience"},
    {"gradient_checkpointing", "checkpoint_activations"},
    {"dtype", "precision"},
    {"amp", "precision"},
    {"out_dir", "out"},
    {"output_dir", "out"},
    {"dataset", "data"},
    {"train_file", "data"},
    {"model", "preset"},
    {"init_from", "from"},
    {"temperature", "temp"},
    {"max_new_tokens", "tokens"},
    {"max_length", "tokens"},
    {"max_new_tokens", "max_tokens"},
    {"max_length", "max_tokens"},
    {"num_beams", "beam"},
    {"num_return_sequences", "samples"},
    {"num_return_sequences", "n_best"},
    {"num_samples", "samples"},
    {"repetition_penalty", "repeat_penalty"},
};

static bool options_have(const struct cli_command *command, const char *name) {
    for (size_t i = 0; i < command->option_count; i++)
        if (same_name(command->options[i].name, name, strlen(name))) return true;
    return false;
}

/* Returns our name of an option, if the command has it; else NULL. */
static const char *options_other_name(const struct cli_command *command, const char *name) {
    for (size_t i = 0; i < CLI_COUNT_OF(other_names); i++)
        if (same_name(other_names[i].theirs, name, strlen(name)) && options_have(command, other_names[i].ours))
            return other_names[i].ours;
    return NULL;
}

static int options_unknown(const struct cli_command *command, const char *word, size_t n) {
    char name[64], near[64];
    size_t cut = n < sizeof name - 1 ? n : sizeof name - 1;
    memcpy(name, word, cut);
    name[cut] = 0;
    const char *closest = options_other_name(command, name);
    if (!closest) closest = qkv_closest_name(name, option_name, command->options, command->option_count);
    if (closest)
        return cli_usage("%s has no option --%s; did you mean --%s? (\"%s help %s\" lists the options)", command->name,
                         name, options_hyphens(closest, near, sizeof near), cli_program, command->name);
    return cli_usage("%s has no option --%s (\"%s help %s\" lists the options)", command->name, name, cli_program,
                     command->name);
}

/* Whether the next word is a value and not an option. */
static bool options_next(const struct parser *p) {
    const char *next = p->at + 1 < p->count ? p->words[p->at + 1] : "-x";
    return next[0] != '-' || !next[1];
}

/* Reads "--name", "--name=value" or "--name value" at the parser's place. */
static int parse_long(struct parser *p) {
    const struct cli_command *command = p->command;
    const char *word = p->words[p->at] + 2, *equals = strchr(word, '=');
    size_t n = equals ? (size_t)(equals - word) : strlen(word);
    if (same_name("help", word, n) && !equals) {
        cli_print_help(command);
        return CLI_HELPED;
    }
    for (size_t i = 0; i < command->option_count; i++) {
        const struct cli_option *option = &command->options[i];
        char name[64], shown[68] = "--";
        if (!same_name(option->name, word, n)) continue;
        strcat(shown, options_hyphens(option->name, name, sizeof name));
        if (option->kind == CLI_FLAG && equals) return cli_usage("%s takes no value", shown);
        if (option->kind == CLI_FLAG) return options_set(p, option, shown, NULL);
        if (equals) return options_set(p, option, shown, equals + 1);
        if (*option->argument == '[') return options_set(p, option, shown, options_next(p) ? p->words[++p->at] : "-");
        if (p->at + 1 >= p->count) return cli_usage("%s needs a value: %s %s", shown, shown, option->argument);
        return options_set(p, option, shown, p->words[++p->at]);
    }
    return options_unknown(command, word, n);
}

/* Reads "-q", "-n 200", "-n200" or "-qn200" at the parser's place. */
static int parse_short(struct parser *p) {
    const struct cli_command *command = p->command;
    for (const char *letter = p->words[p->at] + 1; *letter; letter++) {
        const struct cli_option *option = NULL;
        char shown[3] = {'-', *letter, 0};
        if (*letter == 'h') {
            cli_print_help(command);
            return CLI_HELPED;
        }
        for (size_t i = 0; i < command->option_count && !option; i++)
            if (command->options[i].letter == *letter) option = &command->options[i];
        if (!option)
            return cli_usage("%s has no option -%.*s (\"%s help %s\" lists the options)", command->name, 1, letter,
                             cli_program, command->name);
        if (option->kind == CLI_FLAG) {
            int code = options_set(p, option, shown, NULL);
            if (code) return code;
            continue;
        }
        if (letter[1]) return options_set(p, option, shown, letter + 1);
        if (p->at + 1 >= p->count) return cli_usage("%s needs a value: %s %s", shown, shown, option->argument);
        return options_set(p, option, shown, p->words[++p->at]);
    }
    return CLI_DONE;
}

/* ---- the command line -------------------------------------------------------------------------------------------- */

static int options_parse(struct parser *p, size_t *arguments) {
    for (; p->at < p->count; p->at++) {
        char *word = p->words[p->at];
        int code = CLI_DONE;
        if (!strcmp(word, "--")) break;
        if (word[0] == '-' && word[1] == '-')
            code = parse_long(p);
        else if (word[0] == '-' && word[1])
            code = parse_short(p);
        else
            p->words[(*arguments)++] = word;
        if (code) return code;
    }
    for (p->at++; p->at < p->count; p->at++) p->words[(*arguments)++] = p->words[p->at];
    return CLI_DONE;
}

static bool is_listed(const char *names, const char *name) {
    for (const char *at = names; *at;) {
        size_t n = strcspn(at, " ");
        if (same_name(name, at, n)) return true;
        at += n + (at[n] == ' ');
    }
    return false;
}

/* Refuses options without effect: nothing else would show the user that they have none. */
static int check_rules(const struct parser *p, size_t arguments) {
    const struct cli_command *command = p->command;
    char name[64];
    for (size_t r = 0; r < command->rule_count; r++) {
        const struct cli_rule *rule = &command->rules[r];
        for (size_t i = 0; i < command->option_count; i++)
            if (p->given[i] && is_listed(rule->options, command->options[i].name) && rule->idle(p->values, arguments))
                return cli_usage("%s: --%s has no effect: %s", command->name,
                                 options_hyphens(command->options[i].name, name, sizeof name), rule->why);
    }
    return CLI_DONE;
}

int cli_parse(const struct cli_command *command, char **words, size_t *count, void *values) {
    struct parser p = {.command = command, .words = words, .count = *count, .values = values};
    size_t arguments = 0;
    memcpy(values, command->defaults, command->size);
    p.given = calloc(command->option_count + 1, sizeof *p.given);
    int code = p.given ? options_parse(&p, &arguments) : cli_failed("out of memory");
    if (code == CLI_DONE && arguments > command->arguments)
        code =
            cli_usage("%s: one argument too many: \"%s\" (usage: %s %s %.*s)", command->name, words[command->arguments],
                      cli_program, command->name, (int)strcspn(command->usage, "\n"), command->usage);
    if (code == CLI_DONE) code = check_rules(&p, arguments);
    free(p.given);
    if (code == CLI_DONE) *count = arguments;
    return code;
}

void cli_forget(const struct cli_command *command, void *values) {
    for (size_t i = 0; i < command->option_count; i++)
        if (cli_is_list(command->options[i].kind))
            free(((struct cli_texts *)(void *)((char *)values + command->options[i].offset))->items);
}
