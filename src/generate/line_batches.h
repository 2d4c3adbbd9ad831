/* lines: batches of lines of text for an encoder, for the files of this room. */
#ifndef QKV_LINES_H
#define QKV_LINES_H

#include "base/base.h"
#include "text/sequence.h"

struct qkv_line_batch {
    size_t B, T;
    const int32_t *ids, *lengths; /* (B,T), (B) */
    const int32_t *types;         /* (B,T); NULL: all 0 */
    const size_t *lines;          /* (B): the line of each row, from 0 */
};
struct qkv_line_reader {
    struct qkv_model *model;
    bool begin, end; /* <s> before each line, </s> after it */
    const struct qkv_line_options *options;
    const char *what; /* the name of a text in messages; NULL: "line" */
    /* Encodes text `index` into ids (free with qkv_free) with their frame; *count 0: it is blank. NULL: the texts
     * are encoded. */
    enum qkv_status (*encode)(void *user, size_t index, int32_t **ids, size_t *count);
    /* The same with types (free with qkv_free), and cuts long texts itself; *count 0: it is blank, or skipped. */
    enum qkv_status (*encode_typed)(void *user, size_t index, const struct qkv_long_rule *rule, int32_t **ids,
                                    int32_t **types, size_t *count);
    enum qkv_status (*run)(void *user, const struct qkv_line_batch *batch);
    void *user;
};
/* Calls `run` for all lines that are not blank, sorted by length within some thousands, in batches in order of T.
 * Lines longer than the context are treated as the options say. A line that fails stops the call before its batch is
 * run; the message has its number, from 1. */
enum qkv_status qkv_lines_run(const struct qkv_line_reader *lines, const char *const *texts, size_t count);
/* Sets the message for a line that has more tokens than the context and must not be cut. */
enum qkv_status qkv_line_refuse(struct qkv_context *ctx, const char *what, size_t line, size_t tokens, size_t context);
/* Checks that the model can read text at all; `doing` begins the message: "classify". */
enum qkv_status qkv_lines_check(struct qkv_model *model, const char *doing);

#endif
