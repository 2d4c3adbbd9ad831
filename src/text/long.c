/* Sequences of more tokens than a model's context: the names of the rules for them, and the cut. */
#include <string.h>

#include "text/sequence.h"

static const char *const long_names[] = {
#define NAME(name, text, done, help) text,
    QKV_LONG_LIST(NAME)};
static const char *const long_done[] = {
#define DONE(name, text, done, help) done,
    QKV_LONG_LIST(DONE)};

const char *qkv_long_name(enum qkv_long kind) {
    return long_names[kind];
}

const char *qkv_long_done(enum qkv_long kind) {
    return (size_t)kind < sizeof long_done / sizeof *long_done ? long_done[kind] : NULL;
}

enum qkv_status qkv_long_find(struct qkv_context *ctx, const char *name, enum qkv_long *kind) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, kind);
    char known[128] = "";
    for (size_t i = 0, n = sizeof long_names / sizeof *long_names; i < n; i++) {
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i == 0 ? "" : i + 1 < n ? ", " : " or ", long_names[i]);
        if (!name || strcmp(name, long_names[i]) != 0) continue;
        *kind = (enum qkv_long)i;
        return QKV_OK;
    }
    return qkv_fail(ctx, QKV_ARGUMENT, "long is \"%.100s\"; it must be %s", name ? name : "", known);
}

enum qkv_long_fate qkv_long_apply(const struct qkv_long_rule *rule, struct qkv_sequence_frame frame, int32_t *ids,
                                  size_t *count) {
    const size_t around = frame.before + frame.after, max = rule->most;
    if (*count <= max) return QKV_FATE_FITS;
    if (rule->found) ++*rule->found;
    if (rule->kind == QKV_LONG_SKIP) return QKV_FATE_SKIPPED;
    if (rule->kind == QKV_LONG_ERROR || around >= max) return QKV_FATE_REFUSED;
    const size_t kept = max - around, end = *count - frame.after;
    if (rule->kind == QKV_LONG_KEEP_END) memmove(ids + frame.before, ids + end - kept, kept * sizeof *ids);
    memmove(ids + frame.before + kept, ids + end, frame.after * sizeof *ids);
    *count = max;
    return QKV_FATE_FITS;
}
