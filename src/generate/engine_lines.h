/* lines: texts that a public function reads through an engine, many or one, for the files of this room. */
#ifndef QKV_ENGINE_LINES_H
#define QKV_ENGINE_LINES_H

#include "generate/engine.h"

struct qkv_line_reader {
    struct qkv_model *model;
    enum qkv_engine_kind kind;
    const struct qkv_line_options *options;
    const char *what; /* the name of a text in messages: "line" */
    /* Reads text `index`; no tokens: it is blank, or skipped. */
    enum qkv_status (*read)(void *user, size_t index, const struct qkv_long_rule *rule, struct qkv_engine_text *text);
    /* Takes the event at the end of a text, in any order. It is one of QKV_FINISH_READ, or of QKV_FINISH_FAILED. */
    enum qkv_status (*take)(void *user, size_t index, const struct qkv_engine_event *event);
    void *user;
};
/* Reads the texts 0 to count - 1, some thousands at a time; then an engine computes the numbers of those, the shortest
 * first. A text that cannot be read stops the call before those that are read with it are computed. */
enum qkv_status qkv_lines_run(const struct qkv_line_reader *reader, size_t count);
/* The rule for texts that are longer than the context, or than the limit of the options. */
struct qkv_long_rule qkv_lines_rule(const struct qkv_line_reader *reader);
/* Applies the rule to a text with such a frame; one that is skipped has no tokens. A text that is refused fails with
 * its name and its number, from 1. */
enum qkv_status qkv_lines_fit(const struct qkv_line_reader *reader, size_t index, const struct qkv_long_rule *rule,
                             struct qkv_sequence_frame frame, struct qkv_engine_text *text);

#endif
