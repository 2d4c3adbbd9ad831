/* talk: talks and prompts with their answers, objects of JSON, as ids of which only the answers' count. */
#ifndef QKV_DATA_TALK_H
#define QKV_DATA_TALK_H

#include <jansson.h>

#include "base/base.h"

struct qkv_chat_template;
struct qkv_tokenizer;

/* What talks are encoded with: the same ids on any rank. */
struct qkv_talk_coder {
    struct qkv_context *ctx;
    const struct qkv_tokenizer *tokenizer;
    const struct qkv_chat_template *templates; /* NULL: there are none, so only prompts that are texts can be read */
    int64_t now;                               /* seconds since 1970, which templates may write */
};

/* Bits of the marks of a token. LAST: it is the last one of an example in a token file; SECOND: the first one of its
 * second sequence. */
enum { QKV_MARK_COUNTS = 1, QKV_MARK_LAST = 2, QKV_MARK_SECOND = 4, QKV_MARKS = 8 };
/* A sequence: its ids, and the marks of each. */
struct qkv_talk {
    int32_t *ids, *marks;
    size_t count;
};
void qkv_talk_free(struct qkv_talk *talk);
/* Whether a token of it, other than the first, counts. */
bool qkv_talk_counts(const struct qkv_talk *talk);

/* Encodes a line (talk.c), which is one of
 * - {"messages": […]} or {"conversations": […]}: a message is {"role", "content"} or {"from", "value"}; the turns of
 *   the assistant count, without those whose "weight" is 0. "tools", "documents" and what "chat_template_kwargs" has
 *   are further variables of the template;
 * - {"prompt", "completion"}, both texts: the completion counts, with the token that ends a text behind it; or both
 *   lists of messages: the assistant's turns of the completion count.
 * Sentences of failures do not name file and line. Fails with QKV_MEMORY, QKV_FORMAT, QKV_ARGUMENT. */
enum qkv_status qkv_talk_encode(const struct qkv_talk_coder *coder, const json_t *line, struct qkv_talk *talk);
/* Encodes a prompt and its answer, which are values of `line`: two texts or two lists of messages, as above. The names
 * are for sentences. */
enum qkv_status qkv_talk_encode_answer(const struct qkv_talk_coder *coder, const json_t *line, const char *prompt,
                                       const char *answer, struct qkv_talk *talk);

/* Bytes of a text that count, in order (talk_spans.c). */
struct qkv_talk_spans {
    size_t *items; /* [items[2·i], items[2·i + 1]) */
    size_t count;
};
/* Renders a talk and finds the text of the assistant's turns from message `first` on: the template's generation blocks,
 * or, if it has none, what each turn adds to the rendering of the messages before it with the beginning of an answer.
 * *text is the caller's, freed with qkv_free, as spans->items. */
enum qkv_status qkv_talk_render(const struct qkv_talk_coder *coder, const json_t *line, const json_t *messages,
                                size_t first, char **text, size_t *size, struct qkv_talk_spans *spans);

#endif
