/* lines: lines of text as batches for an encoder, for the files of this room that ask one about them. */
#ifndef QKV_LINES_H
#define QKV_LINES_H

#include "base/base.h"
#include "text/sequence.h"

struct qkv_line_batch {
    size_t B, T;
    const int32_t *ids, *lengths; /* (B,T), (B) */
    const int32_t *types;         /* (B,T); NULL: all 0 */
    const size_t *lines;          /* (B): which line each row is, from 0 */
};
struct qkv_line_reader {
    struct qkv_model *model;
    bool begin, end; /* <s> before each line, </s> after it */
    const struct qkv_line_options *options;
    const char *what; /* a text is, for messages; NULL: "line" */
    /* In place of texts: the ids of text `index` (freed with qkv_free), and their frame; *count 0: it is blank. NULL: texts are encoded. */
    enum qkv_status (*encode)(void *user, size_t index, int32_t **ids, size_t *count);
    /* The same with types (freed with qkv_free), which cuts what is too long itself; *count 0: it is blank, or
     * skipped. */
    enum qkv_status (*encode_typed)(void *user, size_t index, const struct qkv_long_rule *rule, int32_t **ids,
                                    int32_t **types, size_t *count);
    enum qkv_status (*run)(void *user, const struct qkv_line_batch *batch);
    void *user;
};
/* Calls run for all lines but blank ones, sorted by length within some thousands, batches in order of T. A line
 * longer than the context is what the options say; one that fails does so before its batch is run, and is named by its number from 1. */
enum qkv_status qkv_lines_run(const struct qkv_line_reader *lines, const char *const *texts, size_t count);
/* The sentence for a line that has more tokens than the context and is not to be cut. */
enum qkv_status qkv_line_refuse(struct qkv_context *ctx, const char *what, size_t line, size_t tokens, size_t context);
/* Whether the model can read text at all; `doing` begins the sentence: "classify". */
enum qkv_status qkv_lines_check(struct qkv_model *model, const char *doing);

#endif
