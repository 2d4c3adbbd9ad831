/* choices.c: the values of options that take one of a few names, for the parser, the help and the completions. Lists of
 * the library are asked there. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

/* cli_choose_NAME, with these names. */
#define CHOICES(name, ...)                                                                                             \
    const char *cli_choose_##name(const char *option, size_t i) {                                                      \
        static const char *const names[] = {__VA_ARGS__};                                                              \
        (void)option;                                                                                                  \
        return i < CLI_COUNT_OF(names) ? names[i] : NULL;                                                              \
    }
#define NAME(name, text, ...) text,
#define ISA_TABLE(name)       #name,
#define ISA_COLUMNS(name)
#define ISA_NAME(name, kind) ISA_##kind(name)
CHOICES(isa, QKV_ISA_LIST(ISA_NAME))
CHOICES(precision, "fp32", "bf16", "auto")
CHOICES(storage, "fp32", "bf16")
CHOICES(long, QKV_LONG_LIST(NAME))
CHOICES(pool, QKV_POOL_LIST(NAME) "max")
CHOICES(attention, "encoder", "decoder", "cross")
CHOICES(extend, QKV_EXTEND_LIST(NAME))
CHOICES(full, CLI_FULL_STOP, CLI_FULL_FORGET)
CHOICES(thinking, "show", "dim", "hide")
CHOICES(log, "text", "json", "none")
CHOICES(export, "qkv", "huggingface", "gguf", "peft", "gguf-adapter")
CHOICES(names, "qkv", "family")
CHOICES(tokenizer, QKV_TOKENIZER_LIST(NAME))

const char *cli_choose_preset(const char *option, size_t i) {
    const char *name = NULL, *summary;
    (void)option;
    return qkv_preset_at(i, &name, &summary) ? name : NULL;
}

const char *cli_choose_format(const char *option, size_t i) {
    const char *name = NULL, *help;
    (void)option;
    return qkv_format_at(i, &name, &help) ? name : NULL;
}

const char *cli_choose_cache(const char *option, size_t i) {
    const char *name = NULL, *help;
    (void)option;
    return qkv_cache_type_at(i, &name, &help) ? name : NULL;
}

const char *cli_choose_mix(const char *option, size_t i) {
    const char *name = NULL, *help;
    (void)option;
    return qkv_mix_at(i, &name, &help) ? name : NULL;
}

const char *cli_choose_training(const char *option, size_t i) {
    const char *name;
    for (size_t k = 0; qkv_train_option_at(k, &name, NULL, NULL); k++)
        if (!strcmp(name, option)) return qkv_train_option_choice(k, i);
    return NULL;
}

size_t cli_choices_count(const struct cli_option *option) {
    size_t count = 0;
    while (option->choice && option->choice(option->name, count)) count++;
    return count;
}

char *cli_choices_text(const struct cli_option *option, char *text, size_t size) {
    const size_t count = cli_choices_count(option);
    text[0] = 0;
    for (size_t i = 0, n = 0; i < count && n < size; i++)
        n += (size_t)snprintf(text + n, size - n, "%s%s",
                              !i              ? ""
                              : i + 1 < count ? ", "
                                              : " or ",
                              option->choice(option->name, i));
    return text;
}

static const char *choices_name(const void *list, size_t i) {
    const struct cli_option *option = list;
    return option->choice(option->name, i);
}

bool cli_choices_have(const struct cli_option *option, const char *value, const char **closest) {
    const size_t count = cli_choices_count(option);
    for (size_t i = 0; i < count; i++)
        if (!strcmp(option->choice(option->name, i), value)) return true;
    *closest = qkv_closest_name(value, choices_name, option, count);
    return false;
}
