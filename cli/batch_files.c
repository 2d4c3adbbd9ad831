/* batch_files.c: the files of qkv batch: lines of requests, and lines of answers, of which some may be there. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli_batch.h"

/* ---- requests ---------------------------------------------------------------------------------------------------- */

/* The name of a request: its custom_id, else its line. */
static bool line_name(const json_t *request, size_t number, char **name) {
    const json_t *id = json_object_get(request, "custom_id");
    char own[48];
    snprintf(own, sizeof own, "line-%zu", number);
    *name = json_is_string(id) ? strdup(json_string_value(id)) : strdup(own);
    return *name != NULL;
}

int cli_batch_line(struct cli_batch *b, struct cli_batch_line *line) {
    ssize_t size;
    free(line->name);
    json_decref(line->request);
    line->name = NULL;
    line->request = NULL;
    do {
        size = getline(&b->text, &b->text_room, b->in);
        line->number++;
    } while (size >= 0 && strspn(b->text, " \t\r\n") == (size_t)size);
    if (size < 0) return ferror(b->in) ? cli_failed("cannot read %s: %s", b->input, strerror(errno)) : CLI_DONE;
    json_error_t error;
    line->request = json_loadb(b->text, (size_t)size, JSON_REJECT_DUPLICATES, &error);
    if (!line->request) snprintf(line->fault, sizeof line->fault, "no JSON, column %d: %s", error.column, error.text);
    return line_name(line->request, line->number, &line->name) ? CLI_DONE : cli_failed("out of memory");
}

/* What the requests ask for: a chat, by its messages or its url. */
bool cli_batch_is_chat(const json_t *request) {
    const json_t *body = json_object_get(request, "body");
    return json_object_get(body ? body : request, "messages") != NULL;
}

int cli_batch_scan(struct cli_batch *b) {
    struct cli_batch_line line = {0};
    int code;
    while (!(code = cli_batch_line(b, &line)) && line.name) {
        if (json_object_get(b->names, line.name))
            code = cli_failed("%s, line %zu: another request has the custom_id \"%.80s\" too", b->input, line.number,
                              line.name);
        if (code || json_object_set_new(b->names, line.name, json_false())) break;
        b->chats |= cli_batch_is_chat(line.request);
    }
    free(line.name);
    json_decref(line.request);
    if (!code && !json_object_size(b->names)) code = cli_failed("%s has no request; a line is one, as JSON", b->input);
    if (!code && fseek(b->in, 0, SEEK_SET)) code = cli_failed("%s cannot be read twice: it is no file", b->input);
    return code;
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

/* Counts an answer that is there. */
static int answer_count(struct cli_batch *b, const char *text, size_t size, size_t number) {
    json_t *answer = json_loadb(text, size, 0, NULL);
    const char *name = json_string_value(json_object_get(answer, "custom_id"));
    const json_t *asked = name ? json_object_get(b->names, name) : NULL;
    int code = CLI_DONE;
    if (!asked)
        code = cli_failed("%s, line %zu, answers no request of %s; name another file, or replace this one (--force)",
                          b->output, number, b->input);
    else if (json_is_false(asked))
        json_object_set_new(b->names, name, json_true()), b->had++;
    json_decref(answer);
    return code;
}

/* Counts the answers that are there, and the bytes of whole lines. */
static int answers_read(struct cli_batch *b, FILE *file) {
    char *text = NULL;
    size_t room = 0, number = 0;
    ssize_t size;
    int code = CLI_DONE;
    while (!code && (size = getline(&text, &room, file)) >= 0) {
        if (text[size - 1] != '\n') break;
        b->whole += size;
        code = answer_count(b, text, (size_t)size, ++number);
    }
    if (!code && ferror(file)) code = cli_failed("cannot read %s: %s", b->output, strerror(errno));
    free(text);
    return code;
}

int cli_batch_kept(struct cli_batch *b) {
    FILE *there = fopen(b->output, "r");
    if (!there) return CLI_DONE; /* opening it for writing says what is wrong */
    const int code = answers_read(b, there);
    fclose(there);
    if (!code && b->had)
        cli_say("%s has %zu of %zu answers%s", b->output, b->had, json_object_size(b->names),
                b->had < json_object_size(b->names) ? "; the others are added" : "");
    return code;
}

int cli_batch_output(struct cli_batch *b, bool force) {
    b->out = fopen(b->output, force ? "w" : "a");
    if (!b->out || (!force && ftruncate(fileno(b->out), b->whole))) /* a last line that is not whole goes */
        return cli_failed("cannot write %s: %s", b->output, strerror(errno));
    return CLI_DONE;
}

int cli_batch_write(struct cli_batch *b, const char *name, size_t number, const struct cli_api_request *r,
                    const struct cli_api_error *error) {
    struct qkv_json out = cli_json_stream(b->out);
    qkv_json_begin(&out, '{');
    qkv_json_put_text(&out, "custom_id", name);
    qkv_json_key(&out, "response");
    qkv_json_begin(&out, '{');
    qkv_json_put_integer(&out, "status_code", error ? error->status : 200);
    qkv_json_key(&out, "body");
    if (error) {
        qkv_json_begin(&out, '{');
        qkv_json_key(&out, "error");
        cli_api_put_error(&out, error);
        qkv_json_end(&out, '}');
    } else {
        cli_api_put_answer(&b->api, r, number, (int64_t)time(NULL), &out);
    }
    qkv_json_end(&out, '}');
    qkv_json_put_raw(&out, "error", "null");
    qkv_json_end(&out, '}');
    const int code = cli_json_end(&out);
    if (!code && fflush(b->out)) return cli_failed("cannot write %s: %s", b->output, strerror(errno));
    *(error ? &b->refused : &b->answered) += 1;
    return code;
}
