/* serve_http.c: the network's thread of "qkv serve": connections, what every request must pass, and answers. */
#include "cli_serve.h"

#ifdef QKV_MICROHTTPD
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    HEADERS_MAX = 16384,        /* bytes of a connection's first line and headers */
    CONNECTIONS_MAX = 16384,    /* at once */
    FILES_KEPT = 64,            /* descriptors for other things */
    SECONDS_SILENT = 60,        /* of a connection that waits for its client */
    SECONDS_BODY = 120,         /* for a whole body */
    BODIES = 4,                 /* that are kept at once, of the largest size */
    BODY_SWALLOWED = 4 << 20,   /* of a body that is too large, so that its answer is heard */
    BLOCK = 16384               /* of a stream */
};

/* A page has its style and its program inside, and asks this server alone. */
#define PAGE_POLICY                                                                                                    \
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; " \
    "form-action 'none'; frame-ancestors 'none'"

/* ---- calls ------------------------------------------------------------------------------------------------------- */

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

static void call_free(struct cli_call *c) {
    call_forget_body(c);
    cli_api_close(&c->request);
    free(c->out.data);
    free(c);
}

/* Counts a call that waits for an engine, and no longer. */
static void call_count(struct cli_call *c, bool waits) {
    struct cli_server *s = c->server;
    if (c->counted == waits) return;
    c->counted = waits;
    s->open += waits ? 1 : (size_t)-1;
    s->open_by_key[c->key] += waits ? 1 : (size_t)-1;
    if (!s->open) pthread_cond_signal(&s->idle);
}

void cli_call_leave(struct cli_call *c) {
    c->worked = true;
    call_forget_body(c);
    call_count(c, false);
    if (!c->connection) call_free(c);
}

void cli_call_wake(struct cli_call *c) {
    if (!c->suspended || !c->connection) return;
    c->suspended = false;
    MHD_resume_connection(c->connection);
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
    c->ended = qkv_clock();
    cli_call_wake(c);
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
        c->ended = qkv_clock();
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

/* ---- answers ----------------------------------------------------------------------------------------------------- */

/* The header Origin of a call that may read its answer; NULL: none. */
static const char *call_origin(const struct cli_call *c) {
    const struct cli_texts *allowed = &c->server->options->allow_origin;
    for (size_t i = 0; *c->origin && i < allowed->count; i++)
        if (!strcmp(allowed->items[i], "*") || !strcasecmp(allowed->items[i], c->origin)) return c->origin;
    return NULL;
}

static void response_headers(const struct cli_call *c, struct MHD_Response *r) {
    char seconds[24];
    const char *origin = call_origin(c);
    if (c->type) MHD_add_response_header(r, "Content-Type", c->type);
    if (c->allow) MHD_add_response_header(r, "Allow", c->allow);
    if (c->status == 401) MHD_add_response_header(r, "WWW-Authenticate", "Bearer");
    if (c->status == 504) MHD_add_response_header(r, "X-Should-Retry", "false");
    MHD_add_response_header(r, "X-Request-Id", c->id);
    MHD_add_response_header(r, "Cache-Control", "no-store");
    MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
    if (c->page) MHD_add_response_header(r, "Content-Security-Policy", PAGE_POLICY);
    snprintf(seconds, sizeof seconds, "%d", c->retry);
    if (c->retry) MHD_add_response_header(r, "Retry-After", seconds);
    if (!origin) return;
    MHD_add_response_header(r, "Access-Control-Allow-Origin", origin);
    MHD_add_response_header(r, "Vary", "Origin");
    MHD_add_response_header(r, "Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
    if (strcmp(c->method, "OPTIONS") != 0) return;
    MHD_add_response_header(r, "Access-Control-Allow-Methods", "GET, POST, OPTIONS");
    MHD_add_response_header(r, "Access-Control-Allow-Headers", "Authorization, Content-Type, X-Request-Id");
    MHD_add_response_header(r, "Access-Control-Max-Age", "600");
}

/* Gives what is there of a stream; where there is nothing, the connection sleeps until it is woken. */
static ssize_t stream_read(void *user, uint64_t position, char *buffer, size_t most) {
    struct cli_call *c = user;
    (void)position;
    pthread_mutex_lock(&c->server->lock);
    size_t size = c->out.size - c->sent;
    if (size > most) size = most;
    if (size) memcpy(buffer, c->out.data + c->sent, size);
    c->sent += size;
    if (c->sent == c->out.size) c->sent = c->out.size = 0;
    const bool ends = !size && c->whole;
    if (!size && !ends) {
        c->suspended = true;
        MHD_suspend_connection(c->connection);
    }
    pthread_mutex_unlock(&c->server->lock);
    return ends ? MHD_CONTENT_READER_END_OF_STREAM : (ssize_t)size;
}

/* Sends the answer of a call, or begins to. */
static enum MHD_Result call_respond(struct cli_call *c, struct MHD_Connection *connection) {
    struct MHD_Response *r;
    if (c->streams) {
        r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, stream_read, c, NULL);
    } else {
        r = MHD_create_response_from_buffer(c->out.size, c->out.data, MHD_RESPMEM_MUST_FREE);
        if (r) c->out = (struct cli_bytes){0};
    }
    if (!r) return MHD_NO;
    c->answered = true;
    response_headers(c, r);
    const enum MHD_Result done = MHD_queue_response(connection, (unsigned)c->status, r);
    MHD_destroy_response(r);
    return done;
}

static enum MHD_Result call_refuse(struct cli_call *c, struct MHD_Connection *connection,
                                   const struct cli_api_error *error) {
    cli_call_fail(c, error);
    return call_respond(c, connection);
}

/* ---- what every request must pass -------------------------------------------------------------------------------- */

/* The name in "Host: NAME:PORT", in lower case, without brackets. */
static bool host_name(const char *host, char name[256]) {
    const char *end = *host == '[' ? strchr(host, ']') : strchr(host, ':');
    host += *host == '[';
    const size_t size = end ? (size_t)(end - host) : strlen(host);
    if (!size || size > 255) return false;
    for (size_t i = 0; i < size; i++) name[i] = (char)tolower((unsigned char)host[i]);
    name[size] = 0;
    return true;
}

/* A page of any site can be made to reach this address under a name of its own, so names must be known. An address of
 * digits cannot be such a name. */
static bool host_allowed(const struct cli_server *s, const char *host) {
    char name[256];
    struct in6_addr address;
    if (!host_name(host, name)) return false;
    if (!strcmp(name, "localhost") || inet_pton(AF_INET, name, &address) == 1 || inet_pton(AF_INET6, name, &address) == 1)
        return true;
    if (!strcasecmp(name, s->options->host)) return true;
    for (size_t i = 0; i < s->options->allow_host.count; i++)
        if (!strcasecmp(name, s->options->allow_host.items[i])) return true;
    return false;
}

/* Compares keys in a time that does not depend on where they differ. */
static bool key_same(const char *own, const char *given) {
    const size_t size = strlen(given);
    unsigned char differs = strlen(own) != size;
    for (size_t i = 0; own[i]; i++) differs |= (unsigned char)(own[i] ^ given[size ? i % size : 0]);
    return !differs;
}

static bool check_key(struct cli_call *c, struct MHD_Connection *connection, struct cli_api_error *error) {
    const char *header = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization");
    if (!c->server->key_count) return true;
    if (header && !strncasecmp(header, "Bearer ", 7))
        for (size_t i = 0; i < c->server->key_count; i++)
            if (key_same(c->server->keys[i], header + 7)) c->key = i + 1;
    if (c->key || (c->route && c->route->open)) return true;
    cli_api_refuse(error, "", header ? "the key is not one of this server's"
                                     : "this server wants a key: Authorization: Bearer KEY");
    error->status = 401;
    return false;
}

static bool check_origin(struct cli_call *c, struct MHD_Connection *connection, struct cli_api_error *error) {
    const char *origin = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Origin");
    const char *host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host");
    if (!host || !host_allowed(c->server, host)) {
        cli_api_refuse(error, "", host ? "Host %.80s is no name of this server; begin it with --allow-host to allow that"
                                       : "the request has no header Host", host);
        error->status = host ? 403 : 400;
        return false;
    }
    if (!origin) return true;
    snprintf(c->origin, sizeof c->origin, "%s", origin);
    const char *own = strstr(origin, "://");
    if ((own && !strcasecmp(own + 3, host)) || call_origin(c)) return true;
    cli_api_refuse(error, "", "pages of %.80s may not ask this server; begin it with --allow-origin to allow that", origin);
    error->status = 403;
    return false;
}

static const char *route_name(const void *list, size_t i) {
    (void)list;
    return cli_route_at(i)->path;
}

/* Finds the route, whose path may end with a name: /v1/models/NAME. */
static bool check_route(struct cli_call *c, const char *url, const char *method, struct cli_api_error *error) {
    static _Thread_local char methods[64];
    size_t count = 0;
    *methods = 0;
    for (const struct cli_route *r; (r = cli_route_at(count)); count++) {
        const size_t size = strlen(r->path);
        const bool prefix = size > 1 && r->path[size - 1] == '/';
        if (prefix ? strncmp(r->path, url, size) != 0 || !url[size] : strcmp(r->path, url) != 0) continue;
        if (!strcmp(r->method, method) || (!strcmp(r->method, "GET") && !strcmp(method, "HEAD"))) {
            c->route = r;
            return true;
        }
        snprintf(methods + strlen(methods), sizeof methods - strlen(methods), "%s%s", *methods ? ", " : "", r->method);
    }
    c->allow = *methods ? methods : NULL;
    if (c->allow && !strcmp(method, "OPTIONS")) return true;
    const char *closest = c->allow ? NULL : qkv_closest_name(url, route_name, NULL, count);
    cli_api_refuse(error, "", c->allow ? "%s takes %s" : closest ? "there is no %s; did you mean %s?" : "there is no %s",
                   c->path, c->allow ? c->allow : closest);
    error->status = c->allow ? 405 : 404;
    return false;
}

/* Refuses more than can be waited for, before a body is read. */
static bool check_room(struct cli_call *c, struct MHD_Connection *connection, struct cli_api_error *error) {
    struct cli_server *s = c->server;
    const struct cli_serve_options *o = s->options;
    const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Length");
    if (s->stopping) {
        cli_api_refuse(error, "", "the server stops");
    } else if (length && (strlen(length) > 15 || atoll(length) > o->body << 20)) {
        cli_api_refuse(error, "", "the body has %.20s bytes; at most %lld MiB are read (--body)", length,
                       (long long)o->body);
        error->status = 413;
        return false;
    } else if (!c->route->queued) {
        return true;
    } else if (s->open >= (size_t)(o->queue + o->rows)) {
        s->counts.refused_queue++;
        c->retry = 1 + (int)(s->counts.whole.count ? s->counts.whole.sum / (double)s->counts.whole.count : 0);
        if (c->retry > 60) c->retry = 60;
        cli_api_refuse(error, "", "%zu requests wait already; try again in %d s", s->open, c->retry);
    } else if (c->key && o->each && s->open_by_key[c->key] >= (size_t)o->each) {
        s->counts.refused_key++;
        cli_api_refuse(error, "", "this key has %zu requests already, as many as it may", s->open_by_key[c->key]);
        error->status = 429;
        return false;
    } else {
        return true;
    }
    error->status = 503;
    return false;
}

/* ---- bodies ------------------------------------------------------------------------------------------------------ */

/* Keeps a piece of a body. What is too large is dropped, and answered when it ends; endless bodies end the
 * connection. */
static bool body_take(struct cli_call *c, const char *data, size_t size, struct cli_api_error *error) {
    struct cli_server *s = c->server;
    const size_t most = (size_t)s->options->body << 20;
    if (c->status) return (c->sent += size) < BODY_SWALLOWED; /* refused already */
    if (qkv_clock() - c->began > SECONDS_BODY) {
        cli_api_refuse(error, "", "the body was not there after %d s", SECONDS_BODY);
        error->status = 408;
    } else if (size > most - c->size) {
        cli_api_refuse(error, "", "the body has more than %lld MiB (--body)", (long long)s->options->body);
        error->status = 413;
    } else if (s->bodies + size > BODIES * most) {
        cli_api_refuse(error, "", "too many large requests at once; try again");
        error->status = 503;
    } else {
        struct cli_bytes bytes = {c->body, c->size, c->room};
        const bool fine = cli_bytes_add(&bytes, data, size);
        c->body = bytes.data, c->size = bytes.size, c->room = bytes.room;
        s->bodies += fine ? size : 0;
        if (fine) return true;
        cli_api_refuse(error, "", "out of memory");
        error->status = 503;
    }
    cli_call_fail(c, error);
    return true;
}

/* ---- the handler ------------------------------------------------------------------------------------------------- */

static void call_address(struct cli_call *c, struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *client = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const union MHD_ConnectionInfo *fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    c->socket = fd ? fd->connect_fd : -1;
    if (!client || getnameinfo(client->client_addr, sizeof(struct sockaddr_storage), c->address, sizeof c->address, NULL,
                               0, NI_NUMERICHOST))
        snprintf(c->address, sizeof c->address, "-");
}

/* The id of a request: the client's, if it is a plain name. */
static void call_name(struct cli_call *c, struct MHD_Connection *connection) {
    const char *given = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "X-Request-Id");
    size_t size = 0;
    while (given && given[size] && size < sizeof c->id && (isalnum((unsigned char)given[size]) || strchr("-_.", given[size])))
        size++;
    if (given && size && !given[size] && size < sizeof c->id)
        memcpy(c->id, given, size + 1);
    else
        snprintf(c->id, sizeof c->id, "req-%llx-%llu", (unsigned long long)c->created,
                 (unsigned long long)c->server->next_id);
    c->server->next_id++;
}

static struct cli_call *call_create(struct cli_server *s, struct MHD_Connection *connection, const char *url,
                                    const char *method) {
    struct cli_call *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->server = s;
    c->connection = connection;
    c->worked = true;
    c->began = qkv_clock();
    c->created = (int64_t)time(NULL);
    snprintf(c->path, sizeof c->path, "%s", url);
    snprintf(c->method, sizeof c->method, "%s", method);
    call_address(c, connection);
    call_name(c, connection);
    s->alive++;
    return c;
}

/* The first sight of a request: its headers. */
static enum MHD_Result call_begin(struct cli_call *c, struct MHD_Connection *connection, const char *url,
                                  const char *method) {
    struct cli_api_error error = {0};
    if (!check_origin(c, connection, &error) || !check_route(c, url, method, &error)) return call_refuse(c, connection, &error);
    if (!c->route) { /* OPTIONS */
        c->status = 204;
        return call_respond(c, connection);
    }
    if (!check_key(c, connection, &error) || !check_room(c, connection, &error)) return call_refuse(c, connection, &error);
    return MHD_YES;
}

/* The end of a request: it is answered, or goes to the reader. */
static enum MHD_Result call_end(struct cli_call *c, struct MHD_Connection *connection) {
    struct cli_api_error error = {0};
    if (c->status) return call_respond(c, connection);
    c->read = qkv_clock();
    if (c->route->at_once) {
        if (!c->route->answer(c, &error)) cli_call_fail(c, &error);
        return call_respond(c, connection);
    }
    if (!check_room(c, connection, &error)) return call_refuse(c, connection, &error);
    if (c->route->queued) call_count(c, true);
    c->worked = false;
    c->suspended = true;
    MHD_suspend_connection(connection);
    cli_calls_put(&c->server->read, c);
    pthread_cond_signal(&c->server->to_read);
    return MHD_YES;
}

static enum MHD_Result handle(void *user, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *data, size_t *size, void **state) {
    struct cli_server *s = user;
    struct cli_call *c = *state;
    struct cli_api_error error = {0};
    enum MHD_Result result = MHD_YES;
    (void)version;
    pthread_mutex_lock(&s->lock);
    if (!c) {
        *state = c = call_create(s, connection, url, method);
        result = c ? call_begin(c, connection, url, method) : MHD_NO;
    } else if (*size) {
        if (!body_take(c, data, *size, &error)) result = MHD_NO;
        *size = 0;
    } else {
        result = call_end(c, connection);
    }
    pthread_mutex_unlock(&s->lock);
    return result;
}

/* A request has ended, or its connection. */
static void handle_end(void *user, struct MHD_Connection *connection, void **state,
                       enum MHD_RequestTerminationCode code) {
    struct cli_server *s = user;
    struct cli_call *c = *state;
    (void)connection, (void)code;
    if (!c) return;
    *state = NULL;
    pthread_mutex_lock(&s->lock);
    cli_serve_ended(c);
    c->connection = NULL;
    s->alive--;
    if (!s->alive) pthread_cond_signal(&s->idle);
    if (c->worked) {
        call_count(c, false);
        call_free(c);
    }
    pthread_mutex_unlock(&s->lock);
}

/* ---- the daemon -------------------------------------------------------------------------------------------------- */

/* How many connections the limit of open files allows, which is raised as far as it may be. */
static unsigned connections_most(void) {
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files)) return 256;
    rlim_t wanted = CONNECTIONS_MAX + FILES_KEPT;
    if (files.rlim_max != RLIM_INFINITY && wanted > files.rlim_max) wanted = files.rlim_max;
    if (files.rlim_cur < wanted) {
        files.rlim_cur = wanted;
        if (setrlimit(RLIMIT_NOFILE, &files) || getrlimit(RLIMIT_NOFILE, &files)) return 256;
    }
    const rlim_t usable = files.rlim_cur > wanted ? wanted : files.rlim_cur;
    return usable > 2 * FILES_KEPT ? (unsigned)(usable - FILES_KEPT) : FILES_KEPT;
}

/* A socket that listens at an address; -1 after a message. */
static int listen_socket(struct cli_server *s) {
    const struct cli_serve_options *o = s->options;
    struct addrinfo *found = NULL, hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    char port[24];
    int fd = -1, failed = 0;
    snprintf(port, sizeof port, "%lld", (long long)o->port);
    const int code = getaddrinfo(o->host, port, &hints, &found);
    if (code) {
        cli_failed("--host %s is no address: %s", o->host, gai_strerror(code));
        return -1;
    }
    for (const struct addrinfo *a = found; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
        if (fd < 0 || (!bind(fd, a->ai_addr, a->ai_addrlen) && !listen(fd, SOMAXCONN))) continue;
        failed = errno;
        close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    if (fd < 0)
        cli_failed("cannot listen on %s, port %s: %s%s", o->host, port, cli_error_text(failed ? failed : errno),
                   failed == EADDRINUSE ? "; another program does; name another port, or 0 for any: --port 0" : "");
    return fd;
}

static int socket_port(int fd) {
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &size)) return 0;
    if (address.ss_family == AF_INET6) return ntohs(((struct sockaddr_in6 *)&address)->sin6_port);
    return ntohs(((struct sockaddr_in *)&address)->sin_port);
}

/* libmicrohttpd says nothing of its own: what it refuses is answered with a status. */
static void be_silent(void *user, const char *format, va_list list) {
    (void)user, (void)format, (void)list;
}

int cli_serve_bind(struct cli_server *s) {
    s->socket = listen_socket(s);
    if (s->socket < 0) return CLI_FAILED;
    s->port = socket_port(s->socket);
    return CLI_DONE;
}

int cli_serve_listen(struct cli_server *s) {
    s->daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL, handle, s,
        MHD_OPTION_EXTERNAL_LOGGER, be_silent, NULL, MHD_OPTION_LISTEN_SOCKET, s->socket, MHD_OPTION_NOTIFY_COMPLETED,
        handle_end, s, MHD_OPTION_CONNECTION_LIMIT, connections_most(), MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)SECONDS_SILENT, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADERS_MAX,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
    return s->daemon ? CLI_DONE : cli_failed("cannot begin to listen: %s", cli_error_text(errno));
}

void cli_serve_quiesce(struct cli_server *s) {
    if (s->daemon) MHD_quiesce_daemon(s->daemon);
}

void cli_serve_close(struct cli_server *s) {
    if (s->daemon) MHD_stop_daemon(s->daemon);
    if (s->socket >= 0) close(s->socket);
    s->daemon = NULL;
    s->socket = -1;
}
#endif
