/* rank_files: files are tokenised by all ranks (rank_files.c, rank_helper.c). */
#ifndef QKV_DATA_RANK_FILES_H
#define QKV_DATA_RANK_FILES_H

#include "base/base.h"

struct qkv_buffer;
struct qkv_line_coder;
struct qkv_text_piece;
struct qkv_tokenizer;
enum { QKV_RANK_PIECE = 1 << 18 }; /* bytes of a piece, about: so few that several ranks have work with a small file */
/* On ranks but 0: encodes what rank 0 sends, until that says that there is no more. QKV_RANK. */
enum qkv_status qkv_rank_follow_orders(struct qkv_context *ctx);
/* On rank 0: says so, whatever came of it: the result is `status`, or QKV_RANK. */
enum qkv_status qkv_rank_end_orders(struct qkv_context *ctx, enum qkv_status status);
/* On rank 0, before that: the tokenizer of a text (which 0), or all that lines are encoded with; and which file
 * comes, for messages. */
enum qkv_status qkv_rank_tell_tokenizer(struct qkv_context *ctx, size_t which, const struct qkv_tokenizer *tokenizer);
enum qkv_status qkv_rank_tell_lines(const struct qkv_line_coder *coder);
enum qkv_status qkv_rank_tell_file(struct qkv_context *ctx, const char *path);
/* A file that rank 0 reads and all encode. Any other rank encodes alone what it reads. */
struct qkv_rank_file {
    struct qkv_context *ctx;
    /* it is encoded with what qkv_rank_tell_lines has told (qkv_line_ids_encode), else as a text (qkv_text_encode) */
    bool lines;
    void *state;
    enum qkv_status (*cut)(void *state,
                           struct qkv_text_piece *piece); /* the next piece; its bytes stay until the next call */
    void (*pass)(void *state, const struct qkv_text_piece *piece); /* they are no longer needed; or NULL */
    enum qkv_status (*encode)(void *state, const struct qkv_text_piece *piece,
                              struct qkv_buffer *made); /* on this rank */
    /* Gets what pieces have become, in the order of the file. */
    enum qkv_status (*take)(void *state, const struct qkv_text_piece *piece, struct qkv_buffer *made);
};
/* A piece on each rank; *end: the last piece of the file was one of them. */
enum qkv_status qkv_rank_file_next(const struct qkv_rank_file *file, bool *end);

#endif
