/* rank_check: before the first step all ranks are found to be alike, or it is said which one is not, and in what:
 * the build, the machine's kernels and caches, the options, the spec, the model to begin with, the files of the
 * data, and the run's folder. */
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#include "kernel/kernel.h"
#include "model/model.h"
#include "model/spec.h"
#include "text/text.h"
#include "train/train.h"

enum { CHECK_PIECE = 1 << 14 }; /* of a file, at a time */

/* ---- the build -------------------------------------------------------------------------------------------------- */

struct check_code {
    uintptr_t place;
    uint64_t hash;
};

/* The instructions of whoever holds a place of the library's: what is loaded is what runs. */
static int check_object(struct dl_phdr_info *info, size_t size, void *argument) {
    struct check_code *code = argument;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        const uintptr_t begin = (uintptr_t)(info->dlpi_addr + part->p_vaddr);
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X) || !(part->p_flags & PF_R)) continue;
        if (code->place < begin || code->place - begin >= part->p_memsz) continue;
        code->hash = qkv_hash(0, (const void *)begin, part->p_filesz);
        return 1;
    }
    return 0;
}

static uint64_t check_build(void) {
    struct check_code code = {.place = (uintptr_t)qkv_rank_check};
    dl_iterate_phdr(check_object, &code);
    return code.hash;
}

struct check_card {
    char version[32], isa[16];
    uint64_t build, l1d, l2;
};

static enum qkv_status check_machine(struct qkv_context *ctx) {
    struct check_card own = {.build = check_build(), .l1d = ctx->l1d, .l2 = ctx->l2}, first;
    snprintf(own.version, sizeof own.version, "%s", qkv_version());
    snprintf(own.isa, sizeof own.isa, "%s", ctx->isa);
    first = own;
    enum qkv_status status = qkv_rank_broadcast(ctx, &first, sizeof first);
    if (status) return status;
    if (strcmp(own.version, first.version) != 0)
        return qkv_fail(ctx, QKV_ARGUMENT, "version %.31s here and %.31s on rank 0; all ranks must run the same build",
                        own.version, first.version);
    if (own.build != first.build)
        return qkv_fail(
            ctx, QKV_ARGUMENT,
            "another build of version %s here (%016llx) than on rank 0 (%016llx); all ranks must run the same "
            "build",
            own.version, (unsigned long long)own.build, (unsigned long long)first.build);
    if (strcmp(own.isa, first.isa) != 0)
        return qkv_fail(
            ctx, QKV_ARGUMENT,
            "kernel table %.15s here and %.15s on rank 0; set QKV_ISA on all hosts to one that each of them has",
            own.isa, first.isa);
    if (own.l1d == first.l1d && own.l2 == first.l2) return QKV_OK;
    return qkv_fail(ctx, QKV_ARGUMENT,
                    "caches of %llu and %llu bytes here and of %llu and %llu on rank 0: the bits would differ; choose "
                    "hosts of one kind",
                    (unsigned long long)own.l1d, (unsigned long long)own.l2, (unsigned long long)first.l1d,
                    (unsigned long long)first.l2);
}

/* ---- texts that must be the same, line by line ------------------------------------------------------------------ */

/* Rank 0's text, a heap string on all ranks; NULL: none could be had, and *status says why. */
static char *check_first(struct qkv_context *ctx, const char *own, enum qkv_status *status) {
    uint64_t size = strlen(own) + 1;
    *status = qkv_rank_broadcast(ctx, &size, sizeof size);
    if (*status) return NULL;
    /* Whoever has no memory for it could not go on, and the others will wait for it: as with a rank that is gone. */
    char *text = qkv_allocate(ctx, size, 1);
    if (!text) *status = QKV_RANK;
    if (!text) return NULL;
    if (!qkv_context_rank(ctx)) memcpy(text, own, size);
    *status = qkv_rank_broadcast(ctx, text, size);
    text[size - 1] = 0;
    if (!*status) return text;
    free(text);
    return NULL;
}

static int check_line(const char *text) {
    const size_t n = strcspn(text, "\n");
    return (int)qkv_min(n, 200);
}

/* what: "options"; each line says what it is about. */
static enum qkv_status check_text(struct qkv_context *ctx, const char *what, const char *own) {
    enum qkv_status status;
    char *first = check_first(ctx, own, &status);
    if (!first) return status;
    const char *a = own, *b = first;
    while (*a && *b && strcspn(a, "\n") == strcspn(b, "\n") && !strncmp(a, b, strcspn(a, "\n"))) {
        a += strcspn(a, "\n") + (a[strcspn(a, "\n")] == '\n');
        b += strcspn(b, "\n") + (b[strcspn(b, "\n")] == '\n');
    }
    a += strspn(a, " "), b += strspn(b, " ");
    if (*a || *b)
        status = qkv_fail(ctx, QKV_ARGUMENT, "the %s differ: %.*s here and %.*s on rank 0; give all ranks the same",
                          what, *a ? check_line(a) : 7, *a ? a : "nothing", *b ? check_line(b) : 7, *b ? b : "nothing");
    free(first);
    return status;
}

static enum qkv_status check_options(struct qkv_trainer *t, struct qkv_buffer *text) {
    const struct qkv_train_option *option;
    enum qkv_status status = QKV_OK;
    char value[QKV_OPTION_TEXT];
    for (size_t i = 0; (option = qkv_train_option(i)) && !status; i++) {
        if (qkv_train_option_many(option)) continue; /* files; patterns follow */
        qkv_train_value_text(option, &t->options, value);
        if (qkv_train_changes_numbers(option->name) || option->type != QKV_TRAIN_TEXT)
            status = qkv_buffer_print(t->ctx, text, "%s = %s\n", option->name, value);
    }
    for (size_t i = 0; i < QKV_FILES_MAX && t->options.freeze[i] && !status; i++)
        status = qkv_buffer_print(t->ctx, text, "freeze = %s\n", t->options.freeze[i]);
    for (size_t i = 0; i < QKV_FILES_MAX && t->options.rates[i] && !status; i++)
        status = qkv_buffer_print(t->ctx, text, "rates = %s\n", t->options.rates[i]);
    return status;
}

static enum qkv_status check_hash(struct qkv_context *ctx, const char *path, uint64_t *hash, size_t *size) {
    unsigned char bytes[CHECK_PIECE];
    struct qkv_file file;
    enum qkv_status status = qkv_file_open(ctx, path, &file);
    if (status) return status;
    *hash = QKV_HASH_START;
    *size = file.size;
    for (size_t at = 0, n; at < file.size && !status; at += n) {
        n = qkv_min(file.size - at, sizeof bytes);
        qkv_rank_alive(ctx);
        status = qkv_file_read(&file, at, bytes, n);
        if (!status) *hash = qkv_hash(*hash, bytes, n);
    }
    qkv_file_close(&file);
    return status;
}

/* The name and the size, and with `bytes` the hash of all bytes: far less work than to tokenise them. Rank 0 alone
 * reads the files of a mixture, which may be many. */
static enum qkv_status check_files(struct qkv_context *ctx, const struct qkv_text_files *files, bool bytes,
                                   struct qkv_buffer *text) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < files->count && !status; i++) {
        const char *path = files->items[i].path, *slash = strrchr(path, '/');
        char sum[24] = "";
        uint64_t hash = 0;
        size_t size = 0;
        struct stat info;
        if (!bytes && stat(path, &info) == 0) size = (size_t)info.st_size;
        if (bytes) status = check_hash(ctx, path, &hash, &size);
        if (bytes) snprintf(sum, sizeof sum, " (%016llx)", (unsigned long long)hash);
        if (!status) status = qkv_buffer_print(ctx, text, "%s of %zu bytes%s\n", slash ? slash + 1 : path, size, sum);
    }
    return status;
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

static enum qkv_status check_count(const struct qkv_trainer *t, int ranks) {
    if (ranks <= QKV_GROUPS_MAX && ranks <= t->options.groups) return QKV_OK;
    return qkv_fail(t->ctx, QKV_ARGUMENT,
                    "there are %d ranks and %lld groups of a batch, and a rank makes whole groups; choose groups=%d or "
                    "more, or fewer ranks (at most %d)",
                    ranks, (long long)t->options.groups, ranks, (int)QKV_GROUPS_MAX);
}

/* Compares a text that was made with `status`; all fail together. */
static enum qkv_status check_made(struct qkv_context *ctx, const char *what, struct qkv_buffer *text,
                                  enum qkv_status status) {
    status = qkv_rank_agree(ctx, status);
    if (!status) status = qkv_rank_agree(ctx, check_text(ctx, what, text->data ? text->data : ""));
    qkv_buffer_free(text);
    *text = (struct qkv_buffer){0};
    return status;
}

static enum qkv_status check_tokenizer(struct qkv_context *ctx, const char *what, const struct qkv_tokenizer *tokenizer,
                                       struct qkv_buffer *text) {
    struct qkv_buffer json = {0};
    if (!tokenizer) return QKV_OK;
    enum qkv_status status = qkv_tokenizer_print(ctx, tokenizer, &json);
    if (!status)
        status = qkv_buffer_print(ctx, text, "%s (%016llx)\n", what,
                                  (unsigned long long)qkv_hash(QKV_HASH_START, json.data, json.size));
    qkv_buffer_free(&json);
    return status;
}

/* The model that a run begins with: all bytes of its weights, its tokenizers and labels. */
static enum qkv_status check_origin(struct qkv_trainer *t, struct qkv_buffer *text) {
    struct qkv_context *ctx = t->ctx;
    const char *label;
    if (!t->origin) return QKV_OK;
    enum qkv_status status = qkv_origin_record(t);
    if (!status)
        status = qkv_buffer_print(ctx, text, "weights of %llu bytes (%016llx)\n",
                                  (unsigned long long)t->facts.from_bytes, (unsigned long long)t->facts.from_hash);
    if (!status) status = check_tokenizer(ctx, "tokenizer", qkv_model_tokenizer(t->origin), text);
    if (!status) status = check_tokenizer(ctx, "tokenizer of sources", qkv_model_source_tokenizer(t->origin), text);
    for (size_t i = 0; !status && (label = qkv_model_label(t->origin, i)); i++)
        status = qkv_buffer_print(ctx, text, "label \"%s\"\n", label);
    return status;
}

enum qkv_status qkv_rank_check(struct qkv_trainer *t, const struct qkv_spec *spec) {
    struct qkv_context *ctx = t->ctx;
    const int ranks = qkv_context_ranks(ctx);
    struct qkv_buffer text = {0};
    char *json = NULL;
    if (ranks == 1) return QKV_OK;
    enum qkv_status status = qkv_rank_agree(ctx, check_machine(ctx));
    if (!status) status = check_made(ctx, "options", &text, check_options(t, &text));
    if (!status) status = check_count(t, ranks);
    if (status || !spec) return status;
    status = qkv_spec_print(ctx, spec, &json);
    if (!status) status = qkv_buffer_print(ctx, &text, "%s", json);
    qkv_free(json);
    status = check_made(ctx, "specs", &text, status);
    if (!status) status = check_made(ctx, "models to begin with", &text, check_origin(t, &text));
    if (!status)
        status = check_made(ctx, "data", &text,
                            check_files(ctx, &t->facts.texts.data_files, !t->data.dataset->weighs, &text));
    return status ? status
                  : check_made(ctx, "data to validate on", &text,
                               check_files(ctx, &t->facts.texts.valid_files, !t->data.dataset->weighs, &text));
}

/* ---- an evaluation ----------------------------------------------------------------------------------------------- */

/* Of each weight the first and the last numbers: those of another training differ everywhere. */
static uint64_t check_weights(const struct qkv_model *model) {
    const struct qkv_weights *w = &model->weights;
    uint64_t hash = QKV_HASH_START;
    for (size_t i = 0; i < w->count; i++) {
        const struct qkv_weight *weight = &w->list[i];
        const char *numbers = weight->data ? (const char *)weight->data : weight->array.data;
        const size_t bytes = weight->data ? weight->rows * weight->columns * sizeof(float) : weight->array.bytes;
        const size_t some = numbers ? qkv_min(bytes, CHECK_PIECE) : 0;
        hash = qkv_hash(hash, numbers, some);
        if (some) hash = qkv_hash(hash, numbers + bytes - some, some);
    }
    return hash;
}

static enum qkv_status check_model(struct qkv_model *model, struct qkv_buffer *text) {
    struct qkv_context *ctx = model->ctx;
    char *json = NULL;
    enum qkv_status status = qkv_spec_print(ctx, qkv_model_spec(model), &json);
    if (!status)
        status = qkv_buffer_print(ctx, text, "%s\nproducts in %s\nweights (%016llx)\n", json,
                                  qkv_context_precision(ctx) == QKV_FP32 ? "fp32" : "bf16",
                                  (unsigned long long)check_weights(model));
    qkv_free(json);
    if (!status) status = check_tokenizer(ctx, "tokenizer", qkv_model_tokenizer(model), text);
    return status ? status : check_tokenizer(ctx, "tokenizer of sources", qkv_model_source_tokenizer(model), text);
}

enum qkv_status qkv_rank_check_evaluation(struct qkv_model *model, const struct qkv_text_files *files,
                                          enum qkv_status status) {
    struct qkv_context *ctx = model->ctx;
    struct qkv_buffer text = {0};
    if (qkv_context_ranks(ctx) == 1) return status;
    status = qkv_rank_agree(ctx, status);
    if (!status) status = qkv_rank_agree(ctx, check_machine(ctx));
    if (!status) status = check_made(ctx, "models", &text, check_model(model, &text));
    return status ? status : check_made(ctx, "data", &text, check_files(ctx, files, true, &text));
}

enum qkv_status qkv_rank_check_evaluation_of(struct qkv_model *model, const char *path, enum qkv_status status) {
    struct qkv_text_file file = {.path = (char *)(uintptr_t)path};
    return qkv_rank_check_evaluation(model, &(struct qkv_text_files){.items = &file, .count = 1}, status);
}

/* ---- the folder ------------------------------------------------------------------------------------------------- */

enum qkv_status qkv_rank_check_folder(struct qkv_trainer *t) {
    struct qkv_context *ctx = t->ctx;
    uint64_t own = 0, first;
    size_t size;
    char host[128] = "";
    if (qkv_context_ranks(ctx) == 1) return QKV_OK;
    char *path = qkv_join_path(ctx, t->folder, QKV_TRAIN_FILE);
    enum qkv_status status = path ? check_hash(ctx, path, &own, &size) : QKV_MEMORY;
    const bool seen = !status;
    free(path);
    first = own;
    const enum qkv_status lost = qkv_rank_broadcast(ctx, &first, sizeof first);
    if (lost) return lost;
    gethostname(host, sizeof host - 1);
    if (status != QKV_MEMORY && qkv_context_rank(ctx) && (!seen || own != first)) {
        qkv_forgive(ctx);
        status =
            qkv_fail(ctx, QKV_FILE,
                     "%s on %s is not the folder that rank 0 writes to (%s); ranks share the folder of a run: put it "
                     "where all hosts see it under one path",
                     t->folder, host, seen ? "another run is there" : "nothing of the run is there");
    }
    return qkv_rank_agree(ctx, status);
}
