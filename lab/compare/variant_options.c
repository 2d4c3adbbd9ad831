/* variant_options: the options of training of a comparison, and of each of its variants. */
#include <string.h>

#include "lab/compare/compare_room.h"

/* Sets "name=value"; the options refer to the text of the value. */
static enum qkv_status set_option(struct qkv_context *ctx, struct qkv_train_options *options, const char *text) {
    const char *equals = strchr(text, '=');
    char name[64];
    if (!equals || (size_t)(equals - text) >= sizeof name)
        return qkv_fail(ctx, QKV_ARGUMENT, "\"%.40s\" is no option of training; write it as name=value", text);
    memcpy(name, text, (size_t)(equals - text));
    name[equals - text] = 0;
    return qkv_train_set(ctx, options, name, equals + 1);
}

enum qkv_status qkv_comparison_options(struct qkv_comparison *c, struct qkv_train_options *options) {
    enum qkv_status status = qkv_train_defaults(c->ctx, c->preset, options);
    for (size_t i = 0; i < c->training.count && !status; i++)
        status = set_option(c->ctx, options, c->training.items[i]);
    return status;
}

/* Replaces all files by one. */
static void set_file(const char **files, const char *path) {
    for (size_t i = 0; i < QKV_FILES_MAX; i++) files[i] = i ? NULL : path;
}

enum qkv_status qkv_variant_choices(struct qkv_comparison *c, const struct qkv_variant_state *v,
                                    struct qkv_train_options *options) {
    enum qkv_status status = qkv_comparison_options(c, options);
    for (size_t i = 0; i < v->training.count && !status; i++)
        status = set_option(c->ctx, options, v->training.items[i]);
    if (c->data) set_file(options->data_files, c->data);
    if (c->valid) set_file(options->valid_files, c->valid);
    if (c->shards) options->shards = c->shards;
    /* it sets where the text is cut; that is done already, for all variants */
    if (!c->mixes) qkv_train_unset(options, "valid_fraction");
    return status;
}

enum qkv_status qkv_variant_options(struct qkv_comparison *c, const struct qkv_variant_state *v, size_t seed,
                                    struct qkv_train_options *options) {
    const char *name;
    enum qkv_status status = qkv_variant_choices(c, v, options);
    for (size_t i = 0; !status && qkv_train_option_at(i, &name, NULL, NULL); i++)
        if (qkv_train_idle(options, i, NULL)) qkv_train_unset(options, name);
    options->seed = c->seed + (int64_t)seed;
    return status;
}
