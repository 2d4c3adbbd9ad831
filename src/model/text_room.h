/* text_room: texts that are read at once, without padding, to be embedded, classified or filled. (use_measure.c) */
#ifndef QKV_TEXT_ROOM_H
#define QKV_TEXT_ROOM_H

#include "model/model.h"

enum {
    QKV_TEXT_BATCH = 64,   /* texts that are read at once, at most */
    QKV_TEXT_TOKENS = 4096 /* of lines that are read at once, if no line is longer */
};
struct qkv_text_room {
    size_t longest;       /* tokens of a text; 0: none are read */
    size_t tokens, texts; /* of all that are read at once */
    size_t masks;         /* that are filled at once */
};
/* The room for `count` lines of at most `longest` tokens, which have `tokens` tokens together. */
struct qkv_text_room qkv_text_room_of_lines(size_t longest, size_t count, size_t tokens);
/* Texts are read at once only if their number, times the tokens of the longest, is at most this: attention takes memory
 * for so many places. */
size_t qkv_text_room_places(const struct qkv_text_room *room);
/* The pass of texts that are classified or filled, for the shapes that need the most. */
struct qkv_text_pass {
    struct qkv_pass_shape shapes[3];
    struct qkv_pass_options options;
};
void qkv_text_pass_plan(const struct qkv_model *model, const struct qkv_text_room *room, struct qkv_text_pass *pass);
/* Measures, by plans, the memory that up to `count` lines (0: any number) of up to `longest` tokens take when their
 * vectors are computed, or else their classes. The model may be planned. */
enum qkv_status qkv_lines_measure(struct qkv_model *model, bool vectors, size_t count, size_t longest, size_t *bytes);

#endif
