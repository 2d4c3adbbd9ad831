/* Which options may be others when a run goes on: those that change no number of any step
 * (qkv_train_changes_numbers), but not what it learns from and began with, which is checked by itself. */
#include <string.h>

#include "train/train.h"

static const char data[] = "the run goes on with the data that it began with";
static const char tokens[] = "the weights belong to the tokens that they were trained on";
static const char best[] = "evaluations that measure something else could not be compared with the best one so far";
static const char begun[] = "a run begins with other weights only once";
static const char taught[] = "its loss is that of the teacher that it began with";
static const char numbers[] = "another value would give other numbers than the run that began with it";

/* What has a reason of its own. Of the rest those may change that change no number (options_digest.c). */
static const struct reason {
    const char *name, *why;
} reasons[] = {
    {"data", data},
    {"pairs", data},
    {"lines", data},
    {"labeled", data},
    {"examples", data},
    {"chat", data},
    {"preferences", data},
    {"template", data},
    {"teacher", taught},
    {"valid", data},
    {"valid_fraction", data},
    {"shards", data},
    {"task", data},
    {"mask_probability", data},
    {"mask_each", data},
    {"metric", best},
    {"eval_batches", best},
    {"tokenizer", tokens},
    {"source_tokenizer", tokens},
    {"from", begun},
    {"new_head", begun},
};

bool qkv_train_may_change(const char *name, const char **why) {
    if (!name) return false;
    const char *reason = qkv_train_changes_numbers(name) ? numbers : NULL;
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (!strcmp(reasons[i].name, name)) reason = reasons[i].why;
    if (why) *why = reason;
    return !reason;
}

static enum qkv_status changes_refuse(struct qkv_context *ctx, const char *name, const char *why) {
    char may[256] = "";
    const struct qkv_train_option *option;
    for (size_t i = 0; (option = qkv_train_option(i)); i++) {
        size_t used = strlen(may);
        if (!qkv_train_may_change(option->name, NULL)) continue;
        snprintf(may + used, sizeof may - used, "%s%s", used ? ", " : "", option->name);
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
        bool known = false;
        const struct qkv_train_option *option;
        for (size_t k = 0; (option = qkv_train_option(k)); k++) known |= !strcmp(option->name, name);
        if (known && !qkv_train_may_change(name, &why)) return changes_refuse(ctx, name, why);
        enum qkv_status status = qkv_train_set(ctx, options, name, equals + 1); /* numbers and flags only */
        if (status) return status;
    }
    return QKV_OK;
}
