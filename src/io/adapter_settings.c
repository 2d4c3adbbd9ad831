/* adapter_settings: the settings of a new adapter, as a text. */
#include "io/adapter_files.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const adapter_keys[] = {"rank", "alpha", "rslora", "dropout", "dora", "targets"};
enum { KEY_RANK, KEY_ALPHA, KEY_RSLORA, KEY_DROPOUT, KEY_DORA, KEY_TARGETS, KEY_COUNT };

double qkv_adapter_scale(const struct qkv_adapter_settings *settings, double alpha, size_t rank) {
    return alpha / (settings->rank_stabilised ? sqrt((double)rank) : (double)rank);
}

struct adapter_text {
    struct qkv_context *ctx;
    struct qkv_adapter_settings *settings;
    struct qkv_buffer targets;
    bool given[KEY_COUNT];
};

static enum qkv_status text_wrong(const struct adapter_text *t, int key, const char *value, const char *expected) {
    return qkv_fail(t->ctx, QKV_ARGUMENT, "lora: %s is \"%.60s\"; it must be %s", adapter_keys[key], value, expected);
}

static enum qkv_status text_target(struct adapter_text *t, const char *name) {
    if (!*name) return qkv_fail(t->ctx, QKV_ARGUMENT, "lora: a target has no name; leave the comma out");
    return qkv_buffer_print(t->ctx, &t->targets, "%s%s", t->targets.size ? "," : "", name);
}

static enum qkv_status text_flag(struct adapter_text *t, int key, const char *value, bool *flag) {
    *flag = !strcmp(value, "true");
    return *flag || !strcmp(value, "false") ? QKV_OK : text_wrong(t, key, value, "true or false");
}

static enum qkv_status text_set(struct adapter_text *t, int key, const char *value) {
    struct qkv_adapter_settings *s = t->settings;
    double x = 0;
    const bool number = qkv_real_parse(value, &x);
    if (t->given[key]) return qkv_fail(t->ctx, QKV_ARGUMENT, "lora: %s is given twice", adapter_keys[key]);
    t->given[key] = true;
    switch (key) {
    case KEY_RANK:
        if (!number || !(x >= 1 && x <= QKV_ADAPTER_RANK_MOST) || x != floor(x))
            return text_wrong(t, key, value, "a whole number from 1 to 16384");
        s->rank = (size_t)x;
        return QKV_OK;
    case KEY_ALPHA:
        if (!number || !(x > 0 && x <= 1e6)) return text_wrong(t, key, value, "greater than 0 and at most 1000000");
        s->alpha = x;
        return QKV_OK;
    case KEY_RSLORA:
        return text_flag(t, key, value, &s->rank_stabilised);
    case KEY_DORA:
        return text_flag(t, key, value, &s->dora);
    case KEY_DROPOUT:
        if (!number || !(x >= 0 && x < 1)) return text_wrong(t, key, value, "at least 0 and less than 1");
        s->dropout = x;
        return QKV_OK;
    default:
        return text_target(t, value);
    }
}

/* "KEY=VALUE", or one more target. */
static enum qkv_status text_item(struct adapter_text *t, char *item, bool *targets) {
    char *equals = strchr(item, '=');
    int key = 0;
    if (!equals && *targets) return text_target(t, item);
    if (equals) *equals = 0;
    while (key < KEY_COUNT && strcmp(adapter_keys[key], item) != 0) key++;
    if (key == KEY_COUNT || !equals)
        return qkv_fail(t->ctx, QKV_ARGUMENT,
                        "lora: \"%.60s\" is no setting; there are rank=N, alpha=X, rslora=true, dropout=P, dora=true "
                        "and targets=NAME,NAME",
                        item);
    *targets = key == KEY_TARGETS;
    return text_set(t, key, equals + 1);
}

enum qkv_status qkv_adapter_parse(struct qkv_context *ctx, const char *text, struct qkv_adapter_settings *settings) {
    struct adapter_text t = {.ctx = ctx, .settings = settings};
    char *copy = qkv_copy_string(ctx, text), *item = copy, *next;
    enum qkv_status status = copy ? QKV_OK : QKV_MEMORY;
    bool targets = false;
    *settings = (struct qkv_adapter_settings){.rank = 16};
    for (; item && *text && !status; item = next) {
        next = strchr(item, ',');
        if (next) *next++ = 0;
        status = text_item(&t, item, &targets);
    }
    if (!t.given[KEY_ALPHA]) settings->alpha = 2 * (double)settings->rank;
    if (!status && !t.targets.size) status = text_target(&t, "all-linear");
    free(copy);
    if (status)
        qkv_buffer_free(&t.targets);
    else
        settings->targets = t.targets.data;
    return status;
}
