/* Starting a run: the tokenizer, the model, the tokenized texts, and the files that make the folder a run. train.json and
 * the first checkpoint come last, so a folder that holds them can be resumed; whatever fails before leaves nothing. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train/train.h"

#define CONFIG_FILE    "config.json"
#define TOKENIZER_FILE "tokenizer.json"
#define WEIGHTS_FILE   "model.safetensors"

/* ---- the folder -------------------------------------------------------------------------------------------------------- */

static const char *const run_files[] = {QKV_TRAIN_FILE,        QKV_CHECKPOINT_FILE, QKV_LOG_FILE,  QKV_TOKENS_DATA_FILE,
                                        QKV_TOKENS_VALID_FILE, CONFIG_FILE,         TOKENIZER_FILE};
#define RUN_FILES (sizeof run_files / sizeof *run_files)

struct leavings { /* what was there before, and so stays when starting fails */
    bool file[RUN_FILES], folder;
};

static bool holds(const char *folder, const char *name) {
    char *path = qkv_join_path(NULL, folder, name);
    bool found = path && qkv_file_exists(path);
    free(path);
    return found;
}

static enum qkv_status check_free(struct qkv_context *ctx, const char *folder) {
    if (holds(folder, QKV_TRAIN_FILE) || holds(folder, QKV_CHECKPOINT_FILE))
        return qkv_fail(ctx, QKV_FILE, "%s already holds a run; resume it or choose another folder", folder);
    if (holds(folder, WEIGHTS_FILE))
        return qkv_fail(ctx, QKV_FILE, "%s already holds a model, which training would replace; choose another folder",
                        folder);
    return QKV_OK;
}

static void look_around(const char *folder, struct leavings *before) {
    before->folder = qkv_file_exists(folder);
    for (size_t i = 0; i < RUN_FILES; i++) before->file[i] = holds(folder, run_files[i]);
}

static void clear_folder(const char *folder, const struct leavings *before) {
    for (size_t i = 0; i < RUN_FILES; i++) {
        char *path = before->file[i] ? NULL : qkv_join_path(NULL, folder, run_files[i]);
        if (path) unlink(path);
        free(path);
    }
    if (!before->folder) rmdir(folder); /* leaves a folder that is not empty */
}

/* ---- the tokenizer ------------------------------------------------------------------------------------------------------- */

/* Reads "chars" or "bpe:4096"; false where the choice is no kind, so that it must be a path. */
static bool parse_kind(const char *choice, struct qkv_tokenizer_options *options, const char **size) {
    static const char *const names[] = {
#define NAME(name, text, help) text,
        QKV_TOKENIZER_LIST(NAME)
#undef NAME
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n = strlen(names[i]);
        if (strncmp(choice, names[i], n) != 0 || (choice[n] != 0 && choice[n] != ':')) continue;
        options->kind = (enum qkv_tokenizer_kind)i;
        *size = choice[n] ? choice + n + 1 : NULL;
        return true;
    }
    return false;
}

static enum qkv_status train_tokenizer(struct qkv_trainer *t, const struct qkv_tokenizer_options *options,
                                       struct qkv_tokenizer **out) {
    struct qkv_text_stream text;
    if (options->kind == QKV_TOKENIZER_BYTES) return qkv_tokenizer_train(t->ctx, options, "", 0, out);
    enum qkv_status status = qkv_text_open(t->ctx, t->options.data, NULL, &text);
    if (status) return status;
    status = qkv_train_progress(t->ctx, t->progress, t->user, "training the tokenizer", 0, 0);
    if (!status) status = qkv_tokenizer_train(t->ctx, options, (const char *)text.map.data, text.map.size, out);
    qkv_text_close(&text);
    return status;
}

static enum qkv_status make_tokenizer(struct qkv_trainer *t, struct qkv_tokenizer **out) {
    static const char *const specials[] = {"<|endoftext|>"};
    struct qkv_tokenizer_options options = {0};
    const char *choice = t->options.tokenizer ? t->options.tokenizer : "chars", *size = NULL;
    if (!parse_kind(choice, &options, &size)) {
        if (qkv_file_exists(choice)) return qkv_tokenizer_load(t->ctx, choice, out);
        return qkv_fail(t->ctx, QKV_ARGUMENT,
                        "tokenizer is \"%s\", which is neither bytes, chars, words, bpe, bpe:SIZE nor "
                        "a tokenizer.json that exists",
                        choice);
    }
    if (size) {
        char *end = NULL;
        bool digits = *size >= '0' && *size <= '9' && strlen(size) < 9;
        long n = digits ? strtol(size, &end, 10) : 0;
        if (!digits || *end || n < 1 || n > 1 << 24 || options.kind == QKV_TOKENIZER_BYTES)
            return qkv_fail(t->ctx, QKV_ARGUMENT,
                            "tokenizer is \"%s\"; after bpe:, chars: or words: must come the size of "
                            "the vocabulary, as in bpe:4096",
                            choice);
        options.vocab = (int)n;
    }
    if (options.kind == QKV_TOKENIZER_BPE) { /* as GPT-2 has it */
        options.specials = specials;
        options.special_count = 1;
    }
    return train_tokenizer(t, &options, out);
}

static enum qkv_status set_vocab(struct qkv_context *ctx, const struct qkv_tokenizer *tokenizer,
                                 struct qkv_spec *spec) {
    int vocab = qkv_tokenizer_vocab(tokenizer);
    if (spec->vocab == 0) {
        spec->vocab = vocab;
        if (spec->source_vocab == 0) spec->source_vocab = vocab;
    }
    if (spec->vocab == vocab) return QKV_OK;
    return qkv_fail(ctx, QKV_SPEC,
                    "the spec's vocab is %d but the tokenizer has %d tokens; set vocab=%d, or choose "
                    "another tokenizer",
                    spec->vocab, vocab, vocab);
}

/* ---- the texts ------------------------------------------------------------------------------------------------------------ */

/* An option that names a file, made absolute: a run may be resumed from elsewhere. */
static enum qkv_status make_absolute(struct qkv_context *ctx, const char **option) {
    if (!*option) return QKV_OK;
    char *path = realpath(*option, NULL);
    if (!path) return qkv_fail_file(ctx, "read", *option, errno);
    free((void *)(uintptr_t)*option);
    *option = path;
    return QKV_OK;
}

static enum qkv_status check_texts(struct qkv_trainer *t) {
    const char **names[] = {&t->options.data, &t->options.valid};
    struct qkv_text_stream text;
    for (size_t i = 0; i < 2; i++) {
        if (!*names[i]) continue;
        struct qkv_map map;
        enum qkv_status status = qkv_map_file(t->ctx, *names[i], &map); /* readable and not empty, at least */
        if (status) return status;
        bool empty = map.size == 0;
        qkv_unmap_file(&map);
        if (empty) return qkv_text_open(t->ctx, *names[i], NULL, &text);
        status = make_absolute(t->ctx, names[i]);
        if (status) return status;
    }
    return QKV_OK;
}

static enum qkv_status save_tokenizer(struct qkv_trainer *t, const struct qkv_tokenizer *tokenizer) {
    char *path = qkv_join_path(t->ctx, t->folder, TOKENIZER_FILE);
    uint64_t hash;
    enum qkv_status status = path ? qkv_tokenizer_save(t->ctx, tokenizer, path) : QKV_MEMORY;
    if (!status) status = qkv_hash_file(t->ctx, path, &hash);
    free(path);
    if (status) return status;
    t->facts.data.tokenizer = t->facts.valid.tokenizer = hash;
    t->facts.data.vocab = t->facts.valid.vocab = (uint64_t)qkv_tokenizer_vocab(tokenizer);
    return QKV_OK;
}

static enum qkv_status tokenize(struct qkv_trainer *t) {
    const struct qkv_tokenizer *tokenizer = qkv_model_tokenizer(t->model);
    enum qkv_status status =
        qkv_tokens_write(t->ctx, t->data_path, t->options.data, tokenizer, &t->facts.data, t->progress, t->user);
    if (!status) status = qkv_tokens_open(t->ctx, t->data_path, &t->facts.data, &t->data_tokens);
    if (status || !t->options.valid) return status;
    status =
        qkv_tokens_write(t->ctx, t->valid_path, t->options.valid, tokenizer, &t->facts.valid, t->progress, t->user);
    return status ? status : qkv_tokens_open(t->ctx, t->valid_path, &t->facts.valid, &t->valid_tokens);
}

/* ---- all of it -------------------------------------------------------------------------------------------------------------- */

static enum qkv_status write_config(struct qkv_trainer *t) {
    char *json = NULL, *path = qkv_join_path(t->ctx, t->folder, CONFIG_FILE);
    enum qkv_status status = path ? qkv_spec_print(t->ctx, qkv_model_spec(t->model), &json) : QKV_MEMORY;
    if (!status) status = qkv_write_file(t->ctx, path, json, strlen(json));
    qkv_free(json);
    free(path);
    return status;
}

static enum qkv_status fill_folder(struct qkv_trainer *t, struct qkv_spec *spec) {
    struct qkv_tokenizer *tokenizer = NULL;
    enum qkv_status status = check_free(t->ctx, t->folder); /* again, as nobody else can change that any more */
    if (!status) status = qkv_log_cut(t->ctx, &t->log, 0);
    if (!status) status = make_tokenizer(t, &tokenizer);
    if (!status) status = set_vocab(t->ctx, tokenizer, spec);
    if (!status) status = qkv_spec_check(t->ctx, spec);
    if (!status) status = save_tokenizer(t, tokenizer);
    if (status) {
        qkv_tokenizer_free(tokenizer);
        return status;
    }
    status = qkv_trainer_build(t, spec, tokenizer);
    if (!status) status = tokenize(t);
    if (!status) status = qkv_trainer_split(t);
    if (!status) status = write_config(t);
    if (!status) status = qkv_train_json_write(t->ctx, t->folder, &t->options, &t->facts);
    return status ? status : qkv_checkpoint_write(t);
}

/* Makes the folder a run; what was begun is cleared away when that fails, but only by whoever holds its lock. */
static enum qkv_status start(struct qkv_trainer *t, struct qkv_spec *spec) {
    struct leavings before;
    look_around(t->folder, &before);
    enum qkv_status status = check_free(t->ctx, t->folder);
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

/* What can be checked before anything is done. */
static enum qkv_status check_all(struct qkv_context *ctx, const struct qkv_train_options *options,
                                 struct qkv_spec *spec) {
    enum qkv_status status = qkv_train_check(ctx, options);
    if (!status) status = qkv_text_model_check(ctx, spec);
    if (!status) status = qkv_trainer_apply(ctx, options, spec);
    if (status || spec->vocab) return status ? status : qkv_spec_check(ctx, spec);
    struct qkv_spec trial = *spec; /* the vocabulary is not known yet */
    trial.vocab = 1;
    if (trial.source_vocab == 0) trial.source_vocab = 1;
    return qkv_spec_check(ctx, &trial);
}

enum qkv_status qkv_trainer_create(struct qkv_context *ctx, const struct qkv_spec *spec,
                                   const struct qkv_train_options *options, const char *folder, qkv_progress *progress,
                                   void *user, struct qkv_trainer **out) {
    struct qkv_trainer *t = NULL;
    struct qkv_spec final = *spec;
    *out = NULL;
    enum qkv_status status = check_all(ctx, options, &final);
    if (!status) status = qkv_trainer_begin(ctx, folder, progress, user, &t);
    if (!status) status = qkv_train_copy(ctx, &t->options, options);
    if (!status) status = check_texts(t);
    if (!status) status = start(t, &final);
    if (status) {
        qkv_trainer_free(t);
        return status;
    }
    *out = t;
    return QKV_OK;
}
