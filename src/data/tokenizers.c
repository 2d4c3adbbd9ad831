/* The tokenizers of a run: chosen by an option, trained on a text or read from a file, kept in the run's folder and
 * found again there. */
#include <stdlib.h>
#include <string.h>

#include "data/data.h"
#include "data/documents.h"
#include "data/sources.h"
#include "text/text.h"

/* Reads "chars" or "bpe:4096"; false where the choice is no kind, so that it must be a path. */
static bool parse_kind(const char *choice, enum qkv_tokenizer_kind *kind, const char **size) {
    static const char *const names[] = {
#define NAME(name, text, help) text,
        QKV_TOKENIZER_LIST(NAME)
#undef NAME
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n = strlen(names[i]);
        if (strncmp(choice, names[i], n) != 0 || (choice[n] != 0 && choice[n] != ':')) continue;
        *kind = (enum qkv_tokenizer_kind)i;
        *size = choice[n] ? choice + n + 1 : NULL;
        return true;
    }
    return false;
}

bool qkv_tokenizer_learns(const char *choice) {
    enum qkv_tokenizer_kind kind;
    const char *size;
    return parse_kind(choice ? choice : "chars", &kind, &size) && kind != QKV_TOKENIZER_BYTES;
}

/* The smallest vocabulary. All bytes have a token, and with bpe what ends a text; chars has one that is unknown,
 * words padding. */
static int tokenizers_least(enum qkv_tokenizer_kind kind) {
    if (kind == QKV_TOKENIZER_CHARS || kind == QKV_TOKENIZER_WHITESPACE) return 2;
    return kind == QKV_TOKENIZER_BPE ? 257 : 256;
}

int qkv_tokenizer_least(const char *choice) {
    enum qkv_tokenizer_kind kind;
    const char *size;
    return parse_kind(choice ? choice : "chars", &kind, &size) ? tokenizers_least(kind) : 1;
}

static enum qkv_status parse_size(struct qkv_context *ctx, const struct qkv_tokenizer_choice *c, const char *size,
                                  struct qkv_tokenizer_options *options) {
    char *end = NULL;
    bool digits = *size >= '0' && *size <= '9' && strlen(size) < 9;
    long n = digits ? strtol(size, &end, 10) : 0;
    const int least = tokenizers_least(options->kind);
    if (!digits || *end || n < least || n > 1 << 24 || options->kind == QKV_TOKENIZER_BYTES)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "%s is \"%s\"; after bpe:, chars:, chars+bytes:, words: or whitespace: must come the size of "
                        "the vocabulary from %d to %d, as in bpe:4096",
                        c->what, c->choice, least, 1 << 24);
    options->vocab = (int)n;
    return QKV_OK;
}

enum qkv_status qkv_tokenizer_check_choice(struct qkv_context *ctx, const char *what, const char *choice) {
    struct qkv_tokenizer_choice c = {.what = what, .choice = choice};
    struct qkv_tokenizer_options options = {.size = sizeof options};
    const char *size = NULL;
    if (!choice || !parse_kind(choice, &options.kind, &size) || !size) return QKV_OK;
    return parse_size(ctx, &c, size, &options);
}

static enum qkv_status tokenizers_load(struct qkv_context *ctx, const struct qkv_tokenizer_choice *c,
                                       struct qkv_tokenizer **out) {
    bool found;
    enum qkv_status status = qkv_file_find(ctx, c->choice, &found);
    if (status) return status;
    if (!found)
        return qkv_fail(
            ctx, QKV_ARGUMENT,
            "%s is \"%s\", which is neither bytes, chars, chars+bytes, words, whitespace, bpe, bpe:SIZE nor "
            "a file of a tokenizer that exists (tokenizer.json, a .model of SentencePiece, a .tiktoken)",
            c->what, c->choice);
    status = qkv_tokenizer_load(ctx, c->choice, out);
    for (size_t i = 0; i < c->special_count && !status; i++) {
        if (qkv_tokenizer_knows(*out, c->specials[i])) continue;
        status = qkv_fail(ctx, QKV_ARGUMENT,
                          "%s is %s, which has no special token %s; choose one that has it, or a kind, as chars or "
                          "bpe:4096",
                          c->what, c->choice, c->specials[i]);
        qkv_tokenizer_free(*out);
        *out = NULL;
    }
    return status;
}

/* A tokenizer that learns, and how far it is: bytes of the files before, and of all. */
struct learning {
    struct qkv_learner *learner;
    const struct qkv_tokenizer_choice *choice;
    double before, total;
};

/* Learns from a file, of which memory holds a piece at a time, unless all of it is kept. */
static enum qkv_status learn_file(struct learning *l, struct qkv_text_stream *stream, unsigned char *kept) {
    const size_t least = (size_t)1 << 20;
    enum qkv_status status = QKV_OK;
    while (!status && stream->position < stream->file.size) {
        size_t take = 0;
        status = qkv_train_progress(stream->ctx, l->choice->progress, l->choice->user, "training the tokenizer",
                                    l->before + (double)stream->position, l->total);
        for (size_t piece = least; take == 0 && !status; piece *= 2) {
            bool end;
            status = qkv_text_hold(stream, piece, &end);
            if (!status) take = qkv_learner_cut(l->learner, stream->text, end ? stream->held : piece, end);
        }
        if (!status) status = qkv_learner_read(l->learner, stream->text, take);
        if (!status && kept) memcpy(kept + stream->position, stream->text, take);
        if (!status) qkv_text_take(stream, take);
    }
    return status;
}

/* Reads a file for the learner, and keeps its bytes until it is encoded. */
static enum qkv_status learn_and_keep(struct qkv_context *ctx, struct learning *l, struct qkv_text_file *file,
                                      bool keep) {
    struct qkv_text_stream stream;
    enum qkv_status status = qkv_text_open(ctx, file->path, NULL, &stream);
    if (status) return status;
    unsigned char *kept = keep ? qkv_allocate(ctx, stream.file.size, 1) : NULL;
    status = keep && !kept ? QKV_MEMORY : learn_file(l, &stream, kept);
    l->before += (double)stream.file.size;
    if (status)
        free(kept);
    else
        file->kept = (struct qkv_map){.data = kept, .size = kept ? stream.file.size : 0};
    qkv_text_close(&stream);
    return status;
}

static enum qkv_status learn_files(struct qkv_context *ctx, const struct qkv_tokenizer_options *options,
                                   const struct qkv_tokenizer_choice *choice, struct qkv_tokenizer **out) {
    struct qkv_text_files *files = choice->files;
    struct learning l = {.choice = choice, .total = files ? (double)qkv_text_files_size(files) : 0};
    enum qkv_status status = qkv_learner_begin(ctx, options, &l.learner);
    const bool keep = files && !choice->once && qkv_text_files_fit(ctx, files);
    if (!status) qkv_learner_watch(l.learner, choice->progress, choice->user);
    for (size_t i = 0; files && i < files->count && !status; i++)
        status = learn_and_keep(ctx, &l, &files->items[i], keep);
    if (!status && choice->learn) status = choice->learn(choice->learn_user, l.learner);
    if (!status) status = qkv_learner_end(l.learner, out);
    qkv_learner_free(l.learner);
    return status;
}

enum qkv_status qkv_tokenizer_make(struct qkv_context *ctx, const struct qkv_tokenizer_choice *choice,
                                   struct qkv_tokenizer **out) {
    static const char *const document[] = {QKV_TOKEN_TEXT_END};
    struct qkv_tokenizer_choice c = *choice;
    struct qkv_tokenizer_options options = {.size = sizeof options};
    const char *size = NULL;
    *out = NULL;
    if (!c.choice) c.choice = "chars";
    if (!parse_kind(c.choice, &options.kind, &size)) return tokenizers_load(ctx, &c, out);
    enum qkv_status status = size ? parse_size(ctx, &c, size, &options) : QKV_OK;
    if (status) return status;
    options.specials = c.specials;
    options.special_count = c.special_count;
    if (options.kind == QKV_TOKENIZER_BPE && c.special_count == 0) { /* as GPT-2 has it */
        options.specials = document;
        options.special_count = 1;
    }
    return learn_files(ctx, &options, &c, out);
}

/* Documents that a tokenizer learns from. */
struct learnt_documents {
    struct qkv_context *ctx;
    struct qkv_text_files *files;
    const char *key;
    qkv_progress *progress;
    void *user;
};

static enum qkv_status tokenizers_learn_documents(void *user, struct qkv_learner *learner) {
    const struct learnt_documents *l = user;
    struct qkv_document_reader reader = {.ctx = l->ctx, .files = l->files, .key = l->key};
    return qkv_documents_learn(&reader, learner, l->progress, l->user);
}

/* Lists plain texts, or with a key documents. */
static enum qkv_status tokenizers_list(struct qkv_context *ctx, const char *const *names, const char *key,
                                       struct qkv_text_files *files) {
    if (!key) {
        enum qkv_status status = qkv_text_files_list(ctx, names, files, NULL);
        return status ? status : qkv_text_files_plain(ctx, files);
    }
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < QKV_FILES_MAX && names[i] && !status; i++)
        status = qkv_sources_list_once(ctx, names[i], files);
    return status;
}

enum qkv_status qkv_tokenizer_learn(struct qkv_context *ctx, const char *choice, const char *const *files, size_t count,
                                    const char *text_key, const char *const *specials, size_t special_count,
                                    qkv_progress *progress, void *user, struct qkv_tokenizer **out) {
    QKV_CALL_OUT(ctx, out);
    QKV_NEED(ctx, ctx);
    QKV_NEED_ALL(ctx, count, files);
    QKV_NEED_ALL(ctx, special_count, specials);
    const char *names[QKV_FILES_MAX] = {0}, *size;
    struct qkv_text_files list = {0};
    enum qkv_tokenizer_kind kind;
    if (choice && !parse_kind(choice, &kind, &size))
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "tokenizer is \"%s\"; kinds that are trained are bytes, chars, chars+bytes, words, whitespace "
                        "and bpe, with a size as in bpe:4096",
                        choice);
    if (!files || count < 1 || count > QKV_FILES_MAX)
        return qkv_fail(ctx, QKV_ARGUMENT, "a tokenizer learns from 1 to %d files or folders, not from %zu",
                        QKV_FILES_MAX, files ? count : 0);
    memcpy(names, files, count * sizeof *names);
    const bool keyed = text_key && *text_key, documents = keyed || qkv_sources_mix(names);
    struct learnt_documents learnt = {ctx, &list, keyed ? text_key : QKV_TEXT_KEY, progress, user};
    const struct qkv_tokenizer_choice c = {.what = "tokenizer",
                                           .choice = choice,
                                           .files = documents ? NULL : &list,
                                           .learn = documents ? tokenizers_learn_documents : NULL,
                                           .learn_user = &learnt,
                                           .once = true,
                                           .specials = specials,
                                           .special_count = special_count,
                                           .progress = progress,
                                           .user = user};
    enum qkv_status status = qkv_tokenizer_check_choice(ctx, "tokenizer", choice);
    if (!status) status = tokenizers_list(ctx, names, documents ? learnt.key : NULL, &list);
    if (!status) status = qkv_tokenizer_make(ctx, &c, out);
    qkv_text_files_free(&list);
    return status;
}

/* The file with the roles of the tokens of another. */
static const char *roles_file(const char *name) {
    return strcmp(name, QKV_TOKENIZER_FILE) ? QKV_SOURCE_ROLES_FILE : QKV_ROLES_FILE;
}

enum qkv_status qkv_tokenizer_keep(struct qkv_context *ctx, const struct qkv_tokenizer *tokenizer, const char *folder,
                                   const char *name, struct qkv_text_facts *data, struct qkv_text_facts *valid) {
    char *path = qkv_join_path(ctx, folder, name);
    uint64_t hash;
    enum qkv_status status = path ? qkv_tokenizer_save(ctx, tokenizer, path) : QKV_MEMORY;
    if (!status) status = qkv_hash_file(ctx, path, &hash);
    if (!status) status = qkv_tokenizer_write_roles(ctx, tokenizer, folder, roles_file(name));
    free(path);
    if (status) return status;
    data->tokenizer = valid->tokenizer = hash;
    data->vocab = valid->vocab = (uint64_t)qkv_tokenizer_vocab(tokenizer);
    return QKV_OK;
}

enum qkv_status qkv_tokenizer_return(struct qkv_context *ctx, const char *folder, const char *name,
                                     const struct qkv_text_facts *facts, struct qkv_tokenizer **out) {
    char *path = qkv_join_path(ctx, folder, name);
    uint64_t hash = 0;
    enum qkv_status status = path ? qkv_hash_file(ctx, path, &hash) : QKV_MEMORY;
    if (!status && hash != facts->tokenizer)
        status = qkv_fail(ctx, QKV_FORMAT,
                          "%s is not the tokenizer that this run was trained with; restore it, or start "
                          "a new run in another folder",
                          path);
    if (!status) status = qkv_tokenizer_load(ctx, path, out);
    if (!status) status = qkv_tokenizer_read_roles(ctx, *out, folder, roles_file(name));
    free(path);
    return status;
}

enum qkv_status qkv_vocab_agree(struct qkv_context *ctx, const char *key, int *vocab, int found) {
    if (*vocab == 0) *vocab = found;
    if (*vocab == found) return QKV_OK;
    return qkv_fail(ctx, QKV_SPEC,
                    "the spec's %s is %d but the tokenizer has %d tokens; set %s=%d, or choose "
                    "another tokenizer",
                    key, *vocab, found, key, found);
}
