/* run_match: whether a run that was begun is the one that a spec and options ask for. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "model/spec.h"
#include "train/train.h"

/* Options that name what a run begins with or is taught by: another file is another run. */
static bool match_named(const char *name) {
    return !strcmp(name, "from") || !strcmp(name, "teacher") || !strcmp(name, "template");
}

/* Whether both name the same file, or none. */
static bool match_files(const struct qkv_train_option *option, const struct qkv_train_options *then,
                        const struct qkv_train_options *now) {
    const char *before, *here;
    struct stat a, b;
    memcpy(&before, (const char *)then + option->offset, sizeof before);
    memcpy(&here, (const char *)now + option->offset, sizeof here);
    if (!before || !here || !*before || !*here) return (before && *before) == (here && *here);
    if (!strcmp(before, here)) return true;
    return !stat(before, &a) && !stat(here, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* The first option that changes the numbers of the run and has another value. */
static enum qkv_status match_options(struct qkv_context *ctx, const char *folder, const struct qkv_train_options *then,
                                     const struct qkv_train_options *now) {
    const struct qkv_train_option *option;
    char before[QKV_OPTION_TEXT], here[QKV_OPTION_TEXT];
    for (size_t i = 0; (option = qkv_train_option(i)); i++) {
        const bool shorter =
            (!strcmp(option->name, "steps") && now->epochs <= 0 && now->steps < then->steps) ||
            (!strcmp(option->name, "epochs") && now->epochs > 0 && (then->epochs <= 0 || now->epochs < then->epochs));
        if (!qkv_train_changes_numbers(option->name) && !shorter && !match_named(option->name)) continue;
        qkv_train_value_text(option, then, before);
        qkv_train_value_text(option, now, here);
        const bool same = match_named(option->name) ? match_files(option, then, now) : !strcmp(before, here);
        if (!same)
            return qkv_fail(ctx, QKV_ARGUMENT,
                            "%s holds a run with other options: its %s is %s, not %s; choose another folder", folder,
                            option->name, before, here);
    }
    return QKV_OK;
}

/* `now` becomes what the spec was, where only the data say it. */
static enum qkv_status match_spec(struct qkv_context *ctx, const char *folder, struct qkv_spec *now) {
    struct qkv_spec *then = qkv_allocate(ctx, 1, sizeof *then);
    char digest[2][QKV_DIGEST_TEXT], *path = then ? qkv_join_path(ctx, folder, QKV_CONFIG_FILE) : NULL;
    enum qkv_status status = path ? qkv_spec_read(ctx, then, path, NULL, 0) : QKV_MEMORY;
    if (!status) {
        if (!now->vocab) now->vocab = then->vocab;
        if (!now->source_vocab) now->source_vocab = then->source_vocab;
        if (!now->head.classes) now->head.classes = then->head.classes;
        status = qkv_spec_digest(ctx, then, digest[0]);
    }
    if (!status) status = qkv_spec_digest(ctx, now, digest[1]);
    free(path);
    qkv_spec_free(then);
    free(then);
    if (status || strcmp(digest[0], digest[1]) == 0) return status;
    return qkv_fail(ctx, QKV_ARGUMENT, "%s holds a run of another model: its spec differs; choose another folder",
                    folder);
}

enum qkv_status qkv_run_match(struct qkv_context *ctx, const char *folder, const struct qkv_spec *spec,
                              const struct qkv_train_options *options) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, folder);
    QKV_NEED(ctx, spec);
    QKV_NEED(ctx, options);
    struct qkv_train_options then = {.size = sizeof then}, now;
    struct qkv_run_facts facts = {0};
    enum qkv_status status = qkv_train_take(ctx, &now, options);
    if (status) return status;
    struct qkv_spec *final = qkv_allocate(ctx, 1, sizeof *final);
    if (!final) return QKV_MEMORY;
    status = qkv_spec_copy(ctx, spec, final);
    if (!status) status = qkv_train_settle(ctx, &now, final, NULL);
    const bool keyed = now.text_key && *now.text_key;
    if (!status && qkv_dataset_of(&now) == &qkv_dataset_mixture && !keyed) now.text_key = QKV_TEXT_KEY;
    if (!status) status = qkv_trainer_apply(ctx, &now, final);
    if (!status) status = qkv_train_json_read(ctx, folder, &then, &facts);
    if (!status && !strcmp(now.precision, "auto")) now.precision = then.precision;
    if (!status && !now.groups) now.groups = QKV_TRAIN_GROUPS;
    if (!status && now.epochs > 0 && then.epochs > 0) status = qkv_epochs_settle(ctx, &now, then.steps, NULL);
    if (!status) status = match_options(ctx, folder, &then, &now);
    if (!status) status = match_spec(ctx, folder, final);
    qkv_spec_free(final);
    free(final);
    qkv_train_release(&then);
    qkv_text_files_free(&facts.texts.data_files);
    qkv_text_files_free(&facts.texts.valid_files);
    qkv_seams_free(&facts.seams);
    return status;
}
