/* The values of options of training that are one of a few names. */
#include <stdio.h>
#include <string.h>

#include "train/train.h"

#define NAME(name, text, ...) text,
static const char *const choices_optimizer[] = {QKV_OPTIMIZER_LIST(NAME) NULL};
static const char *const choices_schedule[] = {QKV_SCHEDULE_LIST(NAME) NULL};
static const char *const choices_metric[] = {QKV_METRIC_LIST(NAME) NULL};
static const char *const choices_long[] = {QKV_LONG_LIST(NAME) NULL};
static const char *const choices_tokenizer[] = {QKV_TOKENIZER_LIST(NAME) NULL};
static const char *const choices_precision[] = {"fp32", "bf16", "auto", NULL};
static const char *const choices_gradients[] = {"fp32", "bf16", NULL};
static const char *const choices_preference_loss[] = {"dpo", "ipo", NULL};
static const char *const choices_task[] = {"text", "mlm", "classify", "classify_tokens", NULL};

static const struct {
    const char *option;
    const char *const *names;
} choices[] = {
    {"optimizer", choices_optimizer}, {"schedule", choices_schedule},
    {"metric", choices_metric},       {"long", choices_long},
    {"tokenizer", choices_tokenizer}, {"source_tokenizer", choices_tokenizer},
    {"precision", choices_precision}, {"gradients", choices_gradients},
    {"task", choices_task},           {"preference_loss", choices_preference_loss},
};

static const char *const *choices_of(const char *option) {
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++)
        if (!strcmp(choices[i].option, option)) return choices[i].names;
    return NULL;
}

const char *qkv_train_choice_at(const char *option, size_t k) {
    const char *const *names = choices_of(option);
    for (size_t n = 0; names && names[n]; n++)
        if (n == k) return names[n];
    return NULL;
}

int qkv_train_choice(const char *option, const char *name) {
    const char *const *names = choices_of(option);
    for (size_t i = 0; name && names && names[i]; i++)
        if (!strcmp(names[i], name)) return (int)i;
    return -1;
}

enum qkv_status qkv_train_check_choice(struct qkv_context *ctx, const char *option, const char *value) {
    const char *const *names = choices_of(option);
    char text[256] = "";
    size_t n = 0;
    if (qkv_train_choice(option, value) >= 0) return QKV_OK;
    for (size_t i = 0; names && names[i] && n < sizeof text; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", !i ? "" : names[i + 1] ? ", " : " or ", names[i]);
    return qkv_fail(ctx, QKV_ARGUMENT, "%s is \"%s\"; it must be %s", option, value ? value : "", text);
}
