/* serve_http.c: the network's thread of "qkv serve": connections, what every request must pass, and answers. */
#include "cli_serve_http.h"

#ifdef QKV_MICROHTTPD
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
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
    HEADERS_MAX = 8192,  /* bytes of a connection's first line and headers */
    FILES_KEPT = 64,     /* descriptors for other things */
    SECONDS_SILENT = 20, /* of a connection that waits for its client */
    BLOCK = 4096         /* of a stream */
};

/* A page has its style and its program inside, and asks this server alone. */
#define PAGE_POLICY                                                                                                    \
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; " \
    "form-action 'none'; frame-ancestors 'none'"

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static void response_headers(const struct cli_call *c, struct MHD_Response *r) {
    char seconds[24];
    const char *origin = cli_call_origin(c);
    if (c->type) cli_http.add_response_header(r, "Content-Type", c->type);
    if (*c->allow) cli_http.add_response_header(r, "Allow", c->allow);
    if (c->status == 401) cli_http.add_response_header(r, "WWW-Authenticate", "Bearer");
    if (c->status == 504) cli_http.add_response_header(r, "X-Should-Retry", "false");
    cli_http.add_response_header(r, "X-Request-Id", c->id);
    cli_http.add_response_header(r, "Cache-Control", "no-store");
    cli_http.add_response_header(r, "X-Content-Type-Options", "nosniff");
    if (c->page) cli_http.add_response_header(r, "Content-Security-Policy", PAGE_POLICY);
    snprintf(seconds, sizeof seconds, "%d", c->retry);
    if (c->retry) cli_http.add_response_header(r, "Retry-After", seconds);
    if (!origin) return;
    cli_http.add_response_header(r, "Access-Control-Allow-Origin", origin);
    cli_http.add_response_header(r, "Vary", "Origin");
    cli_http.add_response_header(r, "Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
    if (strcmp(c->method, "OPTIONS") != 0) return;
    cli_http.add_response_header(r, "Access-Control-Allow-Methods", "GET, POST, OPTIONS");
    cli_http.add_response_header(r, "Access-Control-Allow-Headers", "Authorization, Content-Type, X-Request-Id");
    cli_http.add_response_header(r, "Access-Control-Max-Age", "600");
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
        cli_http.suspend_connection(c->connection);
    }
    pthread_mutex_unlock(&c->server->lock);
    return ends ? MHD_CONTENT_READER_END_OF_STREAM : (ssize_t)size;
}

/* Sends the answer of a call, or begins to. */
static enum MHD_Result call_respond(struct cli_call *c, struct MHD_Connection *connection) {
    struct MHD_Response *r;
    if (c->streams) {
        r = cli_http.create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, stream_read, c, NULL);
    } else {
        r = cli_http.create_response_from_buffer(c->out.size, c->out.data, MHD_RESPMEM_MUST_FREE);
        if (r) c->out = (struct cli_bytes){0};
    }
    if (!r) return MHD_NO;
    c->answered = true;
    response_headers(c, r);
    const enum MHD_Result done = cli_http.queue_response(connection, (unsigned)c->status, r);
    cli_http.destroy_response(r);
    return done;
}

static enum MHD_Result call_refuse(struct cli_call *c, struct MHD_Connection *connection,
                                   const struct cli_api_error *error) {
    cli_call_fail(c, error);
    return call_respond(c, connection);
}

/* ---- the handler ------------------------------------------------------------------------------------------------- */

static void call_address(struct cli_call *c, struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *client =
        cli_http.get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const union MHD_ConnectionInfo *fd = cli_http.get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    c->socket = fd ? fd->connect_fd : -1;
    if (!client || getnameinfo(client->client_addr, sizeof(struct sockaddr_storage), c->address, sizeof c->address,
                               NULL, 0, NI_NUMERICHOST))
        snprintf(c->address, sizeof c->address, "-");
}

/* The id of a request: the client's, if it is a plain name. */
static void call_name(struct cli_call *c, struct MHD_Connection *connection) {
    const char *given = cli_http.lookup_connection_value(connection, MHD_HEADER_KIND, "X-Request-Id");
    size_t size = 0;
    while (given && given[size] && size < sizeof c->id &&
           (isalnum((unsigned char)given[size]) || strchr("-_.", given[size])))
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
    if (!cli_serve_check(c, connection, url, method, &error)) return call_refuse(c, connection, &error);
    if (c->route) return MHD_YES;
    c->status = 204; /* OPTIONS */
    return call_respond(c, connection);
}

/* The end of a request: it is answered, or goes to the reader. */
static enum MHD_Result call_end(struct cli_call *c, struct MHD_Connection *connection) {
    struct cli_api_error error = {0};
    if (c->status) return call_respond(c, connection);
    if (c->route->at_once) {
        if (!c->route->answer(c, &error)) cli_call_fail(c, &error);
        return call_respond(c, connection);
    }
    if (!cli_serve_room(c, connection, &error)) return call_refuse(c, connection, &error);
    if (c->route->queued) cli_call_count(c, true);
    c->worked = false;
    c->suspended = true;
    cli_http.suspend_connection(connection);
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
        if (!cli_serve_take(c, data, *size, &error)) result = MHD_NO;
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
    if (c->worked) {
        cli_call_count(c, false);
        cli_call_free(c);
    }
    pthread_mutex_unlock(&s->lock);
}

/* ---- the daemon -------------------------------------------------------------------------------------------------- */

/* How many of `most` connections the limit of open files allows, which is raised as far as it may be. */
static unsigned connections_most(size_t most) {
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files)) return 256;
    rlim_t wanted = most + FILES_KEPT;
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

/* With epoll, libmicrohttpd 0.9.75 keeps a connection that dies with half a request until it has been silent for long;
 * with poll it does not, and 10,000 requests at once take no longer. */
int cli_serve_listen(struct cli_server *s) {
    s->daemon = cli_http.start_daemon(
        MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL, handle, s,
        MHD_OPTION_EXTERNAL_LOGGER, be_silent, NULL, MHD_OPTION_LISTEN_SOCKET, s->socket, MHD_OPTION_NOTIFY_COMPLETED,
        handle_end, s, MHD_OPTION_CONNECTION_LIMIT, connections_most(s->connections), MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)SECONDS_SILENT, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADERS_MAX, MHD_OPTION_STRICT_FOR_CLIENT,
        1, MHD_OPTION_END);
    return s->daemon ? CLI_DONE : cli_failed("cannot begin to listen: %s", cli_error_text(errno));
}

void cli_serve_quiesce(struct cli_server *s) {
    if (s->daemon) cli_http.quiesce_daemon(s->daemon);
}

void cli_serve_close(struct cli_server *s) {
    if (s->daemon) cli_http.stop_daemon(s->daemon);
    if (s->socket >= 0) close(s->socket);
    s->daemon = NULL;
    s->socket = -1;
}
#endif
