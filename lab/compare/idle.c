/* idle: refuses what has no effect in any variant. In some variants it may have none: the base of the rotation
 * matters only in variants with a rotation. */
#include <string.h>

#include "lab/compare/compare_room.h"

static bool is_option(const char *text, const char *name) {
    size_t n = strlen(name);
    return !strncmp(text, name, n) && (text[n] == '=' || text[n] == 0);
}

/* Refuses an option of training to which an axis gives another value in every variant. */
static enum qkv_status check_overridden(struct qkv_comparison *c) {
    for (size_t i = 0; i < c->training.count; i++)
        for (size_t a = 0; a < c->axis_count; a++)
            if (is_option(c->training.items[i], c->axes[a].name))
                return qkv_fail(c->ctx, QKV_ARGUMENT,
                                "%s has no effect: the axis %s gives it other values; leave one of them out",
                                c->axes[a].name, c->axes[a].name);
    return QKV_OK;
}

static enum qkv_status check_option(struct qkv_comparison *c, size_t option, const char *name) {
    const char *why = NULL;
    for (size_t i = 0; i < c->count; i++) {
        const struct qkv_variant_state *v = &c->variants[i];
        struct qkv_train_options all;
        bool given = false;
        for (size_t k = 0; k < c->training.count; k++) given = given || is_option(c->training.items[k], name);
        for (size_t k = 0; k < v->training.count; k++) given = given || is_option(v->training.items[k], name);
        if (!given || v->shown.failure) continue;
        enum qkv_status status = qkv_variant_choices(c, v, &all);
        if (status) return status;
        if (!qkv_train_idle(&all, option, &why)) return QKV_OK;
    }
    if (!why) return QKV_OK;
    return qkv_fail(c->ctx, QKV_ARGUMENT, "%s has no effect in any variant: %s; leave it out", name, why);
}

enum qkv_status qkv_comparison_check_idle(struct qkv_comparison *c, const struct qkv_compare_options *o) {
    const char *name;
    enum qkv_status status = check_overridden(c);
    for (size_t i = 0; !status && qkv_train_option_at(i, &name, NULL, NULL); i++) status = check_option(c, i, name);
    if (status) return status;
    for (size_t i = 0; i < c->count; i++)
        if (c->variants[i].shown.failure) return QKV_OK; /* unknown: the variant cannot be built */
    for (size_t i = 0; i < o->setting_count; i++)
        if (!c->used[i])
            return qkv_fail(c->ctx, QKV_ARGUMENT, "setting \"%.200s\" has no effect in any variant; leave it out",
                            o->settings[i]);
    for (size_t a = 0; a < c->axis_count; a++)
        if (!c->used[o->setting_count + a])
            return qkv_fail(c->ctx, QKV_ARGUMENT, "axis %s has no effect in any variant; leave it out",
                            c->axes[a].name);
    return QKV_OK;
}
