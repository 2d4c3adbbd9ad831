/* cli_chat.h: talks with a model (chat.c and its neighbours): messages, answers, what is shown of them, the lines that
 * a person types, and commands among these lines. */
#ifndef QKV_CLI_CHAT_H
#define QKV_CLI_CHAT_H

#include <jansson.h>

#include "cli_text.h"

/* ---- templates of a command line (chat_style.c) --------------------------------------------------------------- */

/* How talks become texts: the template of the model, of a file, or the plain one. */
struct cli_talk_style {
    struct qkv_chat_template *template;
    struct qkv_chat_template_options options;
    char *variables; /* of options.variables; NULL: none */
    bool plain;      /* neither the model nor the command line has a template */
};
/* Begins a style with the variables KEY=VALUE of a command line. cli_talk_open opens the template of the file, else
 * that of the model `path`, else the plain one, with a message. Both return CLI_DONE, or the exit code after a message;
 * close the style in all cases. */
int cli_talk_begin(const struct cli_texts *set, struct cli_talk_style *style);
int cli_talk_open(struct qkv_context *ctx, const char *path, const char *file, struct cli_talk_style *style);
void cli_talk_close(struct cli_talk_style *style);
/* Sets a variable of the template, "KEY=VALUE": a VALUE that is JSON is that value, else it is a text. */
int cli_talk_set(struct cli_talk_style *style, const char *pair);
int cli_talk_set_text(struct cli_talk_style *style, const char *key, const char *text);
/* The ids that the model reads of a talk, up to where an answer begins, and the text that they are of. Returns
 * CLI_DONE, or CLI_FAILED after a message; in both cases the caller frees *text with qkv_rendered_free, *ids with
 * free. */
int cli_talk_encode(struct qkv_context *ctx, const struct cli_talk_style *style, const struct qkv_model *model,
                    const json_t *messages, struct qkv_rendered *text, int32_t **ids, size_t *count);
/* The same without a message for people, of a talk: messages, or an object with "messages" and more. */
enum qkv_status cli_talk_ids(struct qkv_context *ctx, const struct cli_talk_style *style,
                             const struct qkv_tokenizer *tokenizer, const json_t *talk, struct qkv_rendered *text,
                             int32_t **ids, size_t *count);
/* The stop texts of answers: those of the command line, and for plain text where the next speaker begins. The list is
 * the caller's; items NULL without memory. */
struct cli_texts cli_talk_stops(const struct cli_talk_style *style, const struct cli_texts *given);

/* ---- thinking (chat_thinking.c) ---------------------------------------------------------------------------------- */

/* In the order of cli_choose_thinking. */
enum cli_thinking { CLI_THINKING_SHOW, CLI_THINKING_DIM, CLI_THINKING_HIDE };
/* Finds a kind by its name; false: there is none. */
bool cli_thinking_find(const char *name, enum cli_thinking *kind);

/* Divides the text of an answer as it comes into what the model thinks and what it says, by the marks that families of
 * models write around their thoughts. */
struct cli_answer {
    enum cli_thinking kind;
    int descriptor;       /* where the text is shown: thoughts are dim on terminals with colours */
    FILE *file;           /* NULL: the text is not shown */
    bool terminal;        /* control characters would act on it */
    char *said, *thought; /* zero-terminated; NULL: nothing yet */
    size_t said_size, thought_size;
    const char *key; /* of messages, for thoughts; NULL: the answer has none */
    /* private */
    int state;
    const struct cli_marks *marks;
    char *held;
    size_t held_size;
    bool dim, broken;
};
/* Begins an answer to a text: one that ends with the mark of thoughts makes the answer begin with them. */
void cli_answer_begin(struct cli_answer *answer, const char *prompt);
/* A qkv_write_text; `user` is the answer. */
bool cli_answer_text(void *user, const char *text, size_t size);
/* Ends the answer: what was held back is said. False without memory. */
bool cli_answer_end(struct cli_answer *answer);
void cli_answer_free(struct cli_answer *answer);

#define CLI_CHAT_NO_ADAPTER "none" /* the name for /adapter of the model itself */

/* ---- the talk (chat_talk.c) -------------------------------------------------------------------------------------- */

struct cli_chat {
    struct qkv_context *ctx;
    struct qkv_model *model;
    struct qkv_session *session;
    struct cli_talk_style style;
    struct qkv_generate_options options; /* sampling.seed: of the first answer; each further answer adds 1 */
    struct cli_rules_read rules;
    struct cli_texts stops;
    json_t *messages;
    int32_t *held; /* the ids that the session holds, and some more */
    size_t held_count, held_room;
    const char *adapter; /* that answers, of those with names; NULL: the model itself */
    bool forgets;        /* a full context forgets the oldest messages; else it ends the talk */
    size_t forgotten;    /* messages that the latest answer did not see */
    char *file;          /* of the latest /save or /load, which /save may replace; NULL: none */
    struct cli_answer answer;
    uint64_t answers;
    struct qkv_generate_report report; /* of the latest answer */
    size_t kept;                       /* positions that the latest answer did not compute */
    size_t talk_tokens;                /* of the latest answer's prompt */
    const char *ended;                 /* what ended it: end, stop, length, full or interrupted */
};
/* Adds a message. Returns CLI_DONE, or CLI_FAILED after a message. */
int cli_chat_add(struct cli_chat *chat, const char *role, const char *text, size_t size);
/* Removes messages from the end up to and including the latest one of `role`; false: there is none. */
bool cli_chat_drop(struct cli_chat *chat, const char *role);
/* Sets the text of the system, the first message; "" removes it. */
int cli_chat_system(struct cli_chat *chat, const char *text);
/* Replaces the talk by that of JSON: a list of messages, or an object with "messages". `name` is for messages. */
int cli_chat_read(struct cli_chat *chat, const char *name, const char *text, size_t size);
/* Further answers are made with the adapter of that name; NULL: with the model itself. The whole talk is then read
 * again. Returns CLI_DONE, or CLI_FAILED after a message; without a session the talk has ended. */
int cli_chat_adapt(struct cli_chat *chat, const char *adapter);
/* Answers the talk, and adds the answer to it. A failure leaves the talk as it was. Returns CLI_DONE, CLI_FAILED after
 * a message, or CLI_INTERRUPTED: the answer so far is in the talk. */
int cli_chat_answer(struct cli_chat *chat);
void cli_chat_close(struct cli_chat *chat);

/* ---- lines (chat_line.c) ----------------------------------------------------------------------------------------- */

/* Reads what a person says: a line, or the lines between two lines of """. NULL at the end. The caller frees it. */
char *cli_chat_line(bool terminal);

/* ---- commands (chat_commands.c) ---------------------------------------------------------------------------------- */

enum cli_chat_next { CLI_CHAT_READ, CLI_CHAT_ANSWER, CLI_CHAT_END };
/* Does what a line that begins with a slash says; *line of two slashes is a text, whose first slash is dropped. */
enum cli_chat_next cli_chat_command(struct cli_chat *chat, const char *line);

#endif
