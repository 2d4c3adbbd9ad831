/* join_texts: the texts that all variants are trained and validated on. A single file is used as it is; several files
 * are joined in the folder of the comparison, and without a validation file the text is cut in two there. Runs on a
 * mixture read its files as training does, and share the shards: with one tokenizer they hold out the same part. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "lab/compare/compare_room.h"

#define TEXTS_END "<|endoftext|>"

/* The separator between two texts: the end token that training would put there, written out; "" if the tokenizer has
 * none. */
static enum qkv_status texts_between(struct qkv_comparison *c, const struct qkv_train_options *options,
                                     const char **between) {
    const char *kinds[] =
        {
#define KIND(name, text, help) text,
            QKV_TOKENIZER_LIST(KIND)
#undef KIND
        },
               *choice = options->tokenizer;
    struct qkv_tokenizer *tokenizer = NULL;
    *between = "";
    for (size_t i = 0; choice && i < sizeof kinds / sizeof *kinds; i++) {
        size_t n = strlen(kinds[i]);
        if (strncmp(choice, kinds[i], n) != 0 || (choice[n] && choice[n] != ':')) continue;
        if (!strcmp(kinds[i], "bpe")) *between = TEXTS_END;
        return QKV_OK;
    }
    enum qkv_status status = choice ? qkv_tokenizer_load(c->ctx, choice, &tokenizer) : QKV_OK;
    if (!choice || status) return status;
    if (qkv_tokenizer_special(tokenizer, TEXTS_END) >= 0)
        *between = TEXTS_END;
    else if (qkv_tokenizer_role(tokenizer, QKV_TOKEN_ROLE_END) >= 0)
        *between = QKV_TOKEN_END;
    qkv_tokenizer_free(tokenizer);
    return QKV_OK;
}

/* ---- joining and cutting ----------------------------------------------------------------------------------------- */

struct texts_writer {
    struct qkv_comparison *c;
    struct qkv_replace first, second; /* the parts before and after the cut; closed if there is no such part */
    size_t position, cut, total;
};

/* Writes the next bytes. A cut moves to the beginning of a character, and never into a separator. */
static enum qkv_status texts_put(struct texts_writer *w, const char *data, size_t size, bool is_text) {
    size_t before = w->cut > w->position ? w->cut - w->position : 0;
    if (before > size) before = size;
    if (before > 0 && before < size) {
        if (is_text) before = qkv_utf8_cut(data, before);
        if (!is_text) before = size;
        w->cut = w->position + before;
    }
    w->position += size;
    enum qkv_status status = before ? qkv_replace_write(&w->first, data, before) : QKV_OK;
    if (!status && before < size) status = qkv_replace_write(&w->second, data + before, size - before);
    return status;
}

/* Copies a file in pieces, so it may be larger than memory. Pieces end at characters, because a cut before a piece
 * cannot move back into the piece before. */
static enum qkv_status texts_copy_file(struct texts_writer *w, const char *path) {
    enum { PIECE = 1 << 16, TAIL = 4 };
    struct qkv_file file;
    char *piece = qkv_allocate(w->c->ctx, PIECE, 1);
    enum qkv_status status = piece ? qkv_file_open(w->c->ctx, path, &file) : QKV_MEMORY;
    if (status) {
        free(piece);
        return status;
    }
    for (size_t at = 0; at < file.size && !status;) {
        size_t n = file.size - at < PIECE ? file.size - at : PIECE, tail = 0;
        status = qkv_file_read(&file, at, piece, n);
        while (at + n < file.size && tail < TAIL && ((unsigned char)piece[n - tail - 1] & 0xC0) == 0x80) tail++;
        if (at + n < file.size && ((unsigned char)piece[n - tail - 1] & 0xC0) == 0xC0) tail++;
        if (at + n < file.size) n -= tail;
        if (!status) status = texts_put(w, piece, n, true);
        at += n;
    }
    qkv_file_close(&file);
    free(piece);
    return status;
}

static enum qkv_status texts_copy(struct texts_writer *w, const struct qkv_texts *files, const char *between) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < files->count && !status; i++) {
        status = texts_copy_file(w, files->items[i]);
        if (!status && i + 1 < files->count) status = texts_put(w, between, strlen(between), false);
    }
    return status;
}

static enum qkv_status texts_measure(struct qkv_comparison *c, const struct qkv_texts *files, const char *between,
                                     size_t *total) {
    *total = (files->count - 1) * strlen(between);
    for (size_t i = 0; i < files->count; i++) {
        struct qkv_file file;
        enum qkv_status status = qkv_file_open(c->ctx, files->items[i], &file);
        if (status) return status;
        bool fits = qkv_add_size(*total, file.size, total);
        qkv_file_close(&file);
        if (!fits) return qkv_fail_memory(c->ctx, SIZE_MAX, "a text");
    }
    return QKV_OK;
}

/* Joins files. The last `fraction` of the bytes goes into the file `second` (NULL: all into the first). */
static enum qkv_status texts_join(struct qkv_comparison *c, const struct qkv_texts *files, const char *between,
                                  double fraction, const char *first, const char *second) {
    struct texts_writer w = {.c = c};
    enum qkv_status status = texts_measure(c, files, between, &w.total);
    w.cut = second ? w.total - (size_t)((double)w.total * fraction) : w.total;
    if (!status) status = qkv_replace_begin(c->ctx, first, &w.first);
    if (!status && second) status = qkv_replace_begin(c->ctx, second, &w.second);
    if (!status) status = texts_copy(&w, files, between);
    if (!status && second && (w.cut == 0 || w.cut >= w.position))
        status =
            qkv_fail(c->ctx, QKV_ARGUMENT, "%s has %zu bytes, too few to cut off a part for validation; give more text",
                     files->items[0], w.position);
    if (!status) status = qkv_replace_commit(&w.first);
    if (!status && second) status = qkv_replace_commit(&w.second);
    qkv_replace_cancel(&w.first);
    qkv_replace_cancel(&w.second);
    return status;
}

/* ---- the two texts ----------------------------------------------------------------------------------------------- */

/* Sets *path to a single file as it is; else to the joined file `name` in the folder, which a continued comparison
 * finds there. */
static enum qkv_status texts_one(struct qkv_comparison *c, const char *const *names, const char *between,
                                 const char *name, char **out, bool *joined) {
    struct qkv_texts files = {0};
    enum qkv_status status = qkv_list_files(c->ctx, names, QKV_FILES_MAX, &files, NULL);
    *joined = files.count > 1;
    if (!status && *joined) {
        *out = qkv_join_path(c->ctx, c->folder, name);
        if (!*out) status = QKV_MEMORY;
        if (!status && !(c->begun && qkv_file_exists(*out))) status = texts_join(c, &files, between, 0, *out, NULL);
    } else if (!status) {
        *out = qkv_copy_string(c->ctx, files.items[0]);
        if (!*out) status = QKV_MEMORY;
    }
    qkv_texts_free(&files);
    return status;
}

static enum qkv_status texts_cut(struct qkv_comparison *c, const struct qkv_train_options *options,
                                 const char *between) {
    struct qkv_texts files = {0};
    c->data = qkv_join_path(c->ctx, c->folder, QKV_COMPARISON_DATA);
    c->valid = qkv_join_path(c->ctx, c->folder, QKV_COMPARISON_VALID);
    if (!c->data || !c->valid) return QKV_MEMORY;
    c->joined[0] = c->joined[1] = true;
    if (c->begun && qkv_file_exists(c->data) && qkv_file_exists(c->valid)) return QKV_OK;
    enum qkv_status status = qkv_list_files(c->ctx, options->data_files, QKV_FILES_MAX, &files, NULL);
    if (!status) status = texts_join(c, &files, between, options->valid_fraction, c->data, c->valid);
    qkv_texts_free(&files);
    return status;
}

/* A mixture is made tokens once. */
static enum qkv_status texts_share(struct qkv_comparison *c, const struct qkv_train_options *options) {
    if (options->shards && *options->shards) return QKV_OK;
    c->shards = qkv_join_path(c->ctx, c->folder, QKV_COMPARISON_SHARDS);
    return c->shards ? QKV_OK : QKV_MEMORY;
}

enum qkv_status qkv_comparison_texts(struct qkv_comparison *c, const struct qkv_train_options *options) {
    const char *between;
    if (c->mixes) return texts_share(c, options);
    enum qkv_status status = texts_between(c, options, &between);
    if (status) return status;
    if (!options->valid) return texts_cut(c, options, between);
    status = texts_one(c, options->data_files, between, QKV_COMPARISON_DATA, &c->data, &c->joined[0]);
    if (status) return status;
    return texts_one(c, options->valid_files, between, QKV_COMPARISON_VALID, &c->valid, &c->joined[1]);
}
