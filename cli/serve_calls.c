/* serve_calls.c: calls of "qkv serve": lists of them, their answers, and their end. All is done under the lock of the
 * server. */
#include "cli_serve_http.h"

#ifdef QKV_MICROHTTPD
#include <poll.h>
#include <stdlib.h>
#include <string.h>

/* ---- lists ------------------------------------------------------------------------------------------------------- */

bool cli_bytes_add(struct cli_bytes *b, const char *data, size_t size) {
    if (size > b->room - b->size) {
        const size_t room = 2 * b->room + size;
        char *grown = room < size ? NULL : realloc(b->data, room);
        if (!grown) return false;
        b->data = grown;
        b->room = room;
    }
    if (size) memcpy(b->data + b->size, data, size);
    b->size += size;
    return true;
}

void cli_bytes_drop(struct cli_bytes *b, size_t size) {
    b->size -= size;
    if (size && b->size) memmove(b->data, b->data + size, b->size);
}

void cli_calls_put(struct cli_calls *calls, struct cli_call *call) {
    call->next = NULL;
    if (!calls->first) calls->end = &calls->first;
    *calls->end = call;
    calls->end = &call->next;
}

struct cli_call *cli_calls_take(struct cli_calls *calls) {
    struct cli_call *call = calls->first;
    if (call) calls->first = call->next;
    if (call && !calls->first) calls->end = &calls->first;
    return call;
}

static void call_forget_body(struct cli_call *c) {
    c->server->bodies -= c->size;
    free(c->body);
    c->body = NULL;
    c->size = c->room = 0;
}

void cli_call_free(struct cli_call *c) {
    call_forget_body(c);
    c->server->needs -= c->need;
    cli_api_close(&c->request);
    free(c->out.data);
    free(c);
}

void cli_call_count(struct cli_call *c, bool waits) {
    struct cli_server *s = c->server;
    if (c->counted == waits) return;
    c->counted = waits;
    s->open += waits ? 1 : (size_t)-1;
    s->open_by_key[c->key] += waits ? 1 : (size_t)-1;
}

void cli_call_leave(struct cli_call *c) {
    c->worked = true;
    call_forget_body(c);
    cli_call_count(c, false);
    if (!c->connection) cli_call_free(c);
}

void cli_call_wake(struct cli_call *c) {
    if (!c->suspended || !c->connection) return;
    c->suspended = false;
    cli_http.resume_connection(c->connection);
}

bool cli_call_gone(const struct cli_call *c) {
    struct pollfd poller = {.fd = c->socket, .events = POLLRDHUP};
    if (!c->connection) return true;
    return poll(&poller, 1, 0) > 0 && (poller.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

void cli_call_answer(struct cli_call *c, const char *type, struct qkv_json *text) {
    if (!cli_bytes_add(&c->out, text->text.data, text->text.size) || text->status) {
        c->out.size = 0;
        c->status = 500;
    }
    if (!c->status) c->status = 200;
    c->type = type;
    c->whole = true;
    cli_call_wake(c);
}

struct qkv_json cli_serve_json(void) {
    return (struct qkv_json){.style = QKV_JSON_SPACED};
}

static void error_json(struct qkv_json *out, const struct cli_api_error *error) {
    qkv_json_begin(out, '{');
    qkv_json_key(out, "error");
    cli_api_put_error(out, error);
    qkv_json_end(out, '}');
}

void cli_call_fail(struct cli_call *c, const struct cli_api_error *error) {
    struct qkv_json out = cli_serve_json();
    error_json(&out, error);
    if (c->streams && c->answered) { /* its status is told already */
        cli_bytes_add(&c->out, "data: ", 6);
        cli_bytes_add(&c->out, out.text.data, out.text.size);
        cli_bytes_add(&c->out, "\n\n", 2);
        c->whole = true;
        cli_call_wake(c);
    } else {
        c->streams = false;
        c->out.size = 0;
        c->status = error->status;
        if ((error->status == 503 || error->status == 429) && !c->retry) c->retry = 1;
        cli_call_answer(c, "application/json", &out);
    }
    qkv_json_free(&out);
}
#endif
