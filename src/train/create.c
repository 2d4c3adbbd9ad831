/* Starting a run: the tokenizer, the model, the tokenized texts, and the files that make the folder a run.
 * train.json and the first checkpoint come last, so a folder that holds them can be resumed; whatever fails before
 * leaves nothing. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#include "io/generation.h"
#include "io/pooling.h"
#include "data/sources.h"
#include "train/train.h"

/* ---- the folder ------------------------------------------------------------------------------------------------- */

static const char *const run_files[] = {QKV_TRAIN_FILE,        QKV_CHECKPOINT_FILE,
                                        QKV_LOG_FILE,          QKV_TOKENS_DATA_FILE,
                                        QKV_TOKENS_VALID_FILE, QKV_BESIDE_DATA_FILE,
                                        QKV_BESIDE_VALID_FILE, QKV_CONFIG_FILE,
                                        QKV_TOKENIZER_FILE,    QKV_SOURCE_FILE,
                                        QKV_LABELS_FILE,       QKV_MACHINE_FILE,
                                        QKV_STATE_FILE,        QKV_GENERATION_FILE,
                                        QKV_ROLES_FILE,        QKV_SOURCE_ROLES_FILE,
                                        QKV_MODULES_FILE,      QKV_SENTENCES_FILE,
                                        QKV_REFERENCE_FILE,    QKV_PROMPTS_FILE,
                                        QKV_POOLING_FILE,      QKV_DENSE_LIST(QKV_DENSE_FILES_)};
#define RUN_FILES    (sizeof run_files / sizeof *run_files)
#define FOLDER(name) name,
static const char *const run_folders[] = {QKV_SHARDS_FOLDER, QKV_POOLING_FOLDER, QKV_DENSE_LIST(FOLDER)};
#undef FOLDER
#define RUN_FOLDERS (sizeof run_folders / sizeof *run_folders)

enum qkv_status qkv_run_check_files(struct qkv_context *ctx, const char *folder) {
    static const char *const others[] = {QKV_WEIGHTS_FILE, QKV_SAMPLES_FILE};
    size_t count = sizeof others / sizeof *others;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < RUN_FILES + count && !status; i++) {
        char *path = qkv_join_path(ctx, folder, i < RUN_FILES ? run_files[i] : others[i - RUN_FILES]);
        if (!path) return QKV_MEMORY;
        if (qkv_is_special(path)) status = qkv_run_special(ctx, path);
        free(path);
    }
    return status;
}

struct leavings { /* what was there before, and so stays when starting fails */
    bool file[RUN_FILES], inner[RUN_FOLDERS], folder;
};

static bool create_holds(const char *folder, const char *name) {
    char *path = qkv_join_path(NULL, folder, name);
    bool found = path && qkv_file_exists(path);
    free(path);
    return found;
}

/* Files of the names that a run writes. Those of a start that was killed or failed, which its state.json tells, may be
 * replaced. */
static enum qkv_status check_foreign(struct qkv_context *ctx, const char *folder) {
    static const char *const names[] = {QKV_MODEL_FILES, QKV_RUN_FILES};
    struct qkv_run_condition c;
    enum qkv_status status = qkv_run_condition_read(ctx, folder, &c);
    if (status || (c.state != QKV_RUN_UNKNOWN && c.host[0])) return status;
    for (size_t i = 0; i < sizeof names / sizeof *names && !status; i++) {
        struct stat info;
        char *path = qkv_join_path(ctx, folder, names[i]);
        if (!path) return QKV_MEMORY;
        if (stat(path, &info) == 0 && S_ISREG(info.st_mode) && strcmp(names[i], QKV_LOG_FILE) != 0)
            status =
                qkv_fail(ctx, QKV_FILE, "%s already holds a %s, which training would replace; choose another folder",
                         folder, names[i]);
        free(path);
    }
    return status;
}

static enum qkv_status check_free(struct qkv_context *ctx, const char *folder) {
    if (create_holds(folder, QKV_TRAIN_FILE) || create_holds(folder, QKV_CHECKPOINT_FILE))
        return qkv_fail(ctx, QKV_FILE, "%s already holds a run; resume it or choose another folder", folder);
    if (create_holds(folder, QKV_WEIGHTS_FILE))
        return qkv_fail(ctx, QKV_FILE, "%s already holds a model, which training would replace; choose another folder",
                        folder);
    if (create_holds(folder, QKV_ADAPTER_WEIGHTS_FILE))
        return qkv_fail(ctx, QKV_FILE,
                        "%s already holds an adapter, which training would replace; choose another folder", folder);
    if (create_holds(folder, QKV_INDEX_FILE))
        return qkv_fail(ctx, QKV_FILE, "%s already holds a " QKV_INDEX_FILE " of another model; choose another folder",
                        folder);
    struct stat info;
    char *log = qkv_join_path(ctx, folder, QKV_LOG_FILE);
    if (!log) return QKV_MEMORY;
    bool lines = stat(log, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0; /* a killed start leaves none */
    free(log);
    if (lines)
        return qkv_fail(ctx, QKV_FILE,
                        "%s already holds the log of a run, which training would replace; choose another folder",
                        folder);
    return check_foreign(ctx, folder);
}

static void look_around(const char *folder, struct leavings *before) {
    before->folder = qkv_file_exists(folder);
    for (size_t i = 0; i < RUN_FOLDERS; i++) before->inner[i] = create_holds(folder, run_folders[i]);
    for (size_t i = 0; i < RUN_FILES; i++) before->file[i] = create_holds(folder, run_files[i]);
}

static void clear_folder(const char *folder, const struct leavings *before) {
    for (size_t i = 0; i < RUN_FILES; i++) {
        char *path = before->file[i] ? NULL : qkv_join_path(NULL, folder, run_files[i]);
        if (path) unlink(path);
        free(path);
    }
    for (size_t i = 0; i < RUN_FOLDERS; i++) {
        char *path = before->inner[i] ? NULL : qkv_join_path(NULL, folder, run_folders[i]);
        if (path) rmdir(path); /* leaves a folder that is not empty */
        free(path);
    }
    if (!before->folder) rmdir(folder);
}

/* ---- the texts -------------------------------------------------------------------------------------------------- */

/* An option that names a file, made absolute: a run may be resumed from elsewhere. */
static enum qkv_status make_absolute(struct qkv_context *ctx, const char **option) {
    if (!*option) return QKV_OK;
    char *path = NULL;
    const enum qkv_status status = qkv_absolute_path(ctx, *option, &path);
    if (status) return status;
    free((void *)(uintptr_t)*option);
    *option = path;
    return QKV_OK;
}

/* "BYTES TIME PATH" of each file that is there. */
static enum qkv_status files_describe(struct qkv_context *ctx, const struct qkv_text_files *files, char **list) {
    struct qkv_buffer text = {0};
    struct stat info;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < files->count && !status; i++)
        if (stat(files->items[i].path, &info) == 0)
            status = qkv_buffer_print(ctx, &text, "%lld %lld%09ld %s\n", (long long)info.st_size,
                                      (long long)info.st_mtim.tv_sec, info.st_mtim.tv_nsec, files->items[i].path);
    if (!status) status = qkv_buffer_append(ctx, &text, "", 1);
    if (status)
        qkv_buffer_free(&text);
    else
        *list = text.data;
    return status;
}

enum qkv_status qkv_train_files(struct qkv_context *ctx, const struct qkv_train_options *options, bool *mixture,
                                char **list) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, options);
    QKV_NEED(ctx, mixture);
    struct qkv_train_options own;
    struct qkv_text_files files = {0};
    *mixture = false;
    if (list) *list = NULL;
    enum qkv_status status = qkv_train_take(ctx, &own, options);
    if (status) return status;
    const struct qkv_dataset *dataset = qkv_dataset_of(&own);
    if (!dataset) return qkv_dataset_missing(ctx);
    status = qkv_dataset_list(ctx, dataset, qkv_dataset_files(&own), &files, NULL);
    for (size_t i = 0; i < QKV_FILES_MAX && own.valid_files[i] && !status; i++)
        status = qkv_sources_list_once(ctx, own.valid_files[i], &files);
    if (!status && dataset->reads == QKV_READS_TEXT && !dataset->weighs) status = qkv_text_files_plain(ctx, &files);
    if (!status && list) status = files_describe(ctx, &files, list);
    qkv_text_files_free(&files);
    *mixture = !status && dataset->weighs;
    return status;
}

/* Readable and not empty, at least. */
static enum qkv_status check_file(struct qkv_context *ctx, const char *path, bool arrays) {
    struct qkv_text_stream text;
    struct qkv_file file;
    enum qkv_status status = qkv_file_open(ctx, path, &file);
    if (status) return status;
    bool empty = file.size == 0;
    qkv_file_close(&file);
    return empty && !arrays ? qkv_text_open(ctx, path, NULL, &text) : QKV_OK;
}

/* What an option's names stand for; the names themselves become absolute. */
static enum qkv_status check_names(struct qkv_trainer *t, const char **names, struct qkv_text_files *files) {
    const struct qkv_dataset *dataset = t->data.dataset;
    enum qkv_status status = qkv_dataset_list(t->ctx, dataset, names, files, &t->notes);
    for (size_t i = 0; i < files->count && !status && !dataset->weighs; i++)
        status = check_file(t->ctx, files->items[i].path, dataset->reads == QKV_READS_ARRAYS);
    for (size_t i = 0; i < QKV_FILES_MAX && names[i] && !status; i++) status = qkv_source_absolute(t->ctx, &names[i]);
    return status;
}

/* The folder of shards may be new. Other ranks read its name in the record of the run. */
static enum qkv_status check_shards(struct qkv_trainer *t, bool *made) {
    struct qkv_train_options *o = &t->options;
    if (!o->shards || !*o->shards || qkv_context_rank(t->ctx)) return QKV_OK;
    *made = !qkv_file_exists(o->shards);
    enum qkv_status status = qkv_make_folder(t->ctx, o->shards);
    return status ? status : make_absolute(t->ctx, &o->shards);
}

static enum qkv_status check_texts(struct qkv_trainer *t, bool *made_shards) {
    struct qkv_train_options *o = &t->options;
    enum qkv_status status = check_names(t, qkv_dataset_files(o), &t->facts.texts.data_files);
    if (!status && o->valid) status = check_names(t, o->valid_files, &t->facts.texts.valid_files);
    if (!status) status = check_shards(t, made_shards);
    return status;
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

static enum qkv_status write_config(struct qkv_trainer *t) {
    char *json = NULL, *path = qkv_join_path(t->ctx, t->folder, QKV_CONFIG_FILE);
    enum qkv_status status = path ? qkv_spec_print(t->ctx, qkv_model_spec(t->model), &json) : QKV_MEMORY;
    if (!status) status = qkv_write_file(t->ctx, path, json, strlen(json));
    qkv_free(json);
    free(path);
    return status;
}

static enum qkv_status fill_folder(struct qkv_trainer *t, struct qkv_spec *spec) {
    enum qkv_status status = check_free(t->ctx, t->folder); /* again, as nobody else can change that any more */
    if (!status) status = qkv_trainer_cut_log(t, 0);
    if (!status) status = qkv_state_write(t, QKV_RUN_RUNNING, NULL);
    if (!status) status = t->data.dataset->prepare(&t->data, spec);
    if (!status && t->options.from) status = qkv_origin_record(t);
    if (!status) status = qkv_trainer_build(t, spec);
    if (!status && t->options.epochs > 0) status = qkv_state_write(t, QKV_RUN_RUNNING, NULL); /* with their steps */
    if (!status) status = write_config(t);
    if (!status) status = qkv_generation_write(t->ctx, &t->model->generation, t->folder);
    if (!status) status = qkv_pooling_write(t->ctx, &t->model->pooling, qkv_model_spec(t->model), t->folder);
    if (!status) status = qkv_machine_note(t->ctx, t->folder, 0);
    if (!status) status = qkv_train_json_write(t->ctx, t->folder, &t->options, &t->facts);
    return status ? status : qkv_checkpoint_write_alone(t, NULL);
}

/* Makes the folder a run; what was begun is cleared away when that fails, but only by whoever holds its lock. */
static enum qkv_status create_start(struct qkv_trainer *t, struct qkv_spec *spec) {
    struct leavings before;
    look_around(t->folder, &before);
    enum qkv_status status = qkv_state_refuse_living(t->ctx, t->folder);
    if (!status) status = check_free(t->ctx, t->folder);
    if (!status) status = qkv_run_check_files(t->ctx, t->folder);
    if (!status) status = qkv_make_folder(t->ctx, t->folder);
    if (!status) status = qkv_log_open(t->ctx, &t->log, t->folder);
    if (status) {
        if (!before.folder) rmdir(t->folder);
        return status;
    }
    status = fill_folder(t, spec);
    if (status) clear_folder(t->folder, &before);
    return status;
}

/* The same on rank 0 of several, whose orders the others follow. */
static enum qkv_status create_lead(struct qkv_trainer *t, struct qkv_spec *spec) {
    return qkv_rank_end_orders(t->ctx, create_start(t, spec));
}

/* The spec given, or that of the model to begin with. */
static enum qkv_status choose_spec(struct qkv_context *ctx, const struct qkv_spec *spec,
                                   const struct qkv_train_options *options, const char *folder,
                                   struct qkv_model **origin, struct qkv_spec *final) {
    if (options->from) return qkv_origin_open(ctx, options, spec, folder, origin, final);
    if (!spec) return qkv_fail(ctx, QKV_ARGUMENT, "there is neither a spec nor a model to begin with (from)");
    return qkv_spec_copy(ctx, spec, final);
}

/* What can be checked before anything is done: options whose defaults gave way, and the spec that they change. */
static enum qkv_status check_all(struct qkv_context *ctx, const struct qkv_train_options *options,
                                 struct qkv_spec *spec) {
    enum qkv_status status = qkv_train_check(ctx, options);
    if (!status) status = qkv_dataset_check(ctx, options, spec);
    if (!status) status = qkv_trainer_apply(ctx, options, spec);
    if (status) return status;
    struct qkv_spec trial = *spec; /* what the tokenizers and the data say is not known yet */
    qkv_train_guess_sizes(options, &trial);
    return qkv_spec_check(ctx, &trial);
}

enum qkv_status qkv_train_check_spec(struct qkv_context *ctx, const struct qkv_train_options *options,
                                     const struct qkv_spec *spec) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, options);
    QKV_NEED(ctx, spec);
    struct qkv_train_options settled;
    enum qkv_status status = qkv_train_take(ctx, &settled, options);
    if (!status) status = qkv_train_settle(ctx, &settled, spec, NULL);
    if (status) return status;
    struct qkv_spec copy;
    status = qkv_spec_copy(ctx, spec, &copy);
    if (!status) status = check_all(ctx, &settled, &copy);
    qkv_spec_free(&copy);
    return status;
}

enum qkv_status qkv_trainer_create(struct qkv_context *ctx, const struct qkv_spec *spec,
                                   const struct qkv_train_options *options, const char *folder, qkv_progress *progress,
                                   void *user, struct qkv_trainer **out) {
    QKV_CALL_OUT(ctx, out);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, options);
    QKV_NEED(ctx, folder);
    struct qkv_trainer *t = NULL;
    struct qkv_spec *final = qkv_allocate(ctx, 1, sizeof *final);
    struct qkv_train_options settled;
    bool made_shards = false;
    enum qkv_status status = qkv_train_take(ctx, &settled, options);
    if (!status) status = final ? qkv_trainer_begin(ctx, folder, progress, user, &t) : QKV_MEMORY;
    if (!status) status = qkv_train_check(ctx, &settled);
    if (!status) status = choose_spec(ctx, spec, &settled, folder, &t->origin, final);
    if (!status) status = qkv_train_settle(ctx, &settled, final, &t->notes);
    if (!status) status = check_all(ctx, &settled, final);
    if (t) t->data.origin = t->origin;
    if (!status && t->origin && !settled.lora) status = qkv_origin_freeze(t->origin, &settled);
    if (!status) status = qkv_train_copy(ctx, &t->options, &settled);
    if (!status) status = qkv_train_precision(ctx, &t->options, true);
    if (!status && t->options.groups == 0) t->options.groups = QKV_TRAIN_GROUPS;
    if (!status && qkv_context_ranks(ctx) == 1 && !strcmp(t->options.gradients, "bf16"))
        status = qkv_trainer_add_note(t, "gradients=bf16 changes nothing with one rank, whose gradients do not travel");
    if (!status) qkv_trainer_choose(t);
    if (!status) status = qkv_train_key(ctx, &t->options);
    if (!status) t->fresh = true;
    if (!status) status = check_texts(t, &made_shards);
    if (!status) status = make_absolute(t->ctx, &t->options.from);
    if (!status) status = qkv_teacher_check(t->ctx, t->options.teacher);
    if (!status) status = make_absolute(t->ctx, &t->options.teacher);
    if (!status) status = qkv_trainer_check_memory(t, final);
    status = qkv_rank_agree(ctx, status);
    if (!status) status = qkv_rank_check(t, final);
    if (!status) status = qkv_context_rank(ctx) ? qkv_rank_follow_orders(ctx) : create_lead(t, final);
    status = qkv_rank_agree(ctx, status);
    if (!status) status = qkv_rank_check_folder(t);
    if (!status && qkv_context_rank(ctx)) status = qkv_resume_follow(t);
    if (!status) status = qkv_optimizer_divide(t->optimizer);
    status = qkv_rank_agree(ctx, status);
    qkv_spec_free(final);
    free(final);
    if (status) {
        if (made_shards) rmdir(t->options.shards); /* leaves a folder that is not empty */
        qkv_trainer_free(t);
        return status;
    }
    if (!qkv_context_rank(ctx)) t->state = QKV_RUN_RUNNING; /* the others write nothing */
    *out = t;
    return QKV_OK;
}
