/* Which options may be others when a run goes on: those that change no number of any step. The one place that says so. */
#include <string.h>

#include "train/train.h"

static const char data[] = "the run goes on with the data that it began with";
static const char tokens[] = "the weights belong to the tokens that they were trained on";
static const char best[] = "evaluations that measure something else could not be compared with the best one so far";
static const char numbers[] = "another value would give other numbers than the run that began with it";

/* `why` not, NULL for those that may; what is not listed changes numbers. */
static const struct change {
    const char *name, *why;
} changes[] = {
    {"steps", NULL},
    {"eval_every", NULL},
    {"save_every", NULL},
    {"patience", NULL},
    {"checkpoint_activations", NULL},
    {"data", data},
    {"pairs", data},
    {"labeled", data},
    {"valid", data},
    {"valid_fraction", data},
    {"task", data},
    {"metric", best},
    {"eval_batches", best},
    {"mask_probability", data},
    {"tokenizer", tokens},
    {"source_tokenizer", tokens},
};
enum { CHANGES = sizeof changes / sizeof *changes };

bool qkv_train_may_change(const char *name, const char **why) {
    const char *reason = numbers;
    for (size_t i = 0; i < CHANGES; i++)
        if (!strcmp(changes[i].name, name)) reason = changes[i].why;
    if (why) *why = reason;
    return !reason;
}

static enum qkv_status changes_refuse(struct qkv_context *ctx, const char *name, const char *why) {
    char may[256] = "";
    for (size_t i = 0; i < CHANGES; i++) {
        size_t used = strlen(may);
        if (!changes[i].why) snprintf(may + used, sizeof may - used, "%s%s", used ? ", " : "", changes[i].name);
    }
    return qkv_fail(ctx, QKV_ARGUMENT, "%s cannot change when a run goes on: %s; what may change: %s", name, why, may);
}

enum qkv_status qkv_train_change(struct qkv_context *ctx, struct qkv_train_options *options,
                                 const char *const *settings, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const char *equals = strchr(settings[i], '='), *why;
        char name[64];
        size_t n = equals ? (size_t)(equals - settings[i]) : 0;
        if (!equals || n >= sizeof name)
            return qkv_fail(ctx, QKV_ARGUMENT, "\"%.100s\" is not NAME=VALUE, as in eval_every=100", settings[i]);
        memcpy(name, settings[i], n);
        name[n] = 0;
        struct qkv_train_options trial = *options; /* an unknown name is told of as one */
        enum qkv_status status = qkv_train_set(ctx, &trial, name, equals + 1);
        if (status) return status;
        if (!qkv_train_may_change(name, &why)) return changes_refuse(ctx, name, why);
        *options = trial; /* numbers and flags only, so no text changes hands */
    }
    return QKV_OK;
}
