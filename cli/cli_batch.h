/* cli_batch.h: what the files of qkv batch share. */
#ifndef QKV_CLI_BATCH_H
#define QKV_CLI_BATCH_H

#include <stdio.h>
#include <sys/types.h>

#include "cli_api.h"

struct cli_batch_line {
    size_t number;   /* from 1 */
    char *name;      /* NULL: past the last line */
    json_t *request; /* NULL: `fault` says why */
    char fault[256];
};
/* A request that the engine answers. */
struct cli_batch_item {
    char *name;
    size_t number; /* of its line */
    struct cli_api_request request;
    struct cli_batch_item *next;
};
struct cli_batch {
    const char *input, *output;
    FILE *in, *out;
    off_t whole; /* bytes of the answers that are there */
    char *text;  /* of a line */
    size_t text_room;
    json_t *names; /* of all requests: true if there is an answer */
    bool chats;    /* some are chats */
    struct cli_api api;
    struct qkv_model *draft; /* NULL: none */
    char *model_name;        /* in requests, as its path is; NULL: any name is the model's */
    struct cli_batch_item *items;
    size_t open;                   /* choices of items */
    size_t had, answered, refused; /* answers that were there; that were written */
};

/* Reads all requests once: their names, each of which may occur once. Then the answers that are there. */
int cli_batch_scan(struct cli_batch *batch);
int cli_batch_kept(struct cli_batch *batch);
/* Opens the answers behind those that are there, or, with `force`, a new file. */
int cli_batch_output(struct cli_batch *batch, bool force);
/* Reads the next request. All four return CLI_DONE, or the exit code after a message. */
int cli_batch_line(struct cli_batch *batch, struct cli_batch_line *line);
bool cli_batch_is_chat(const json_t *request);
/* Writes a line: the answer of request `number`, or why it has none (error not NULL). */
int cli_batch_write(struct cli_batch *batch, const char *name, size_t number, const struct cli_api_request *request,
                    const struct cli_api_error *error);

#endif
