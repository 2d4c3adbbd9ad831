/* serve_check.c: what every request of "qkv serve" must pass: where it comes from, its path, its key, and room for it
 * and for its body. */
#include "cli_serve_http.h"

#ifdef QKV_MICROHTTPD
#include <arpa/inet.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    SECONDS_BODY = 120,      /* for a whole body */
    BODIES = 4,              /* that are kept at once, of the largest size */
    BODY_SWALLOWED = 4 << 20 /* of a body that is too large, so that its answer is heard */
};

/* ---- where it comes from ----------------------------------------------------------------------------------------- */

const char *cli_call_origin(const struct cli_call *c) {
    const struct cli_texts *allowed = &c->server->options->allow_origin;
    for (size_t i = 0; *c->origin && i < allowed->count; i++)
        if (!strcmp(allowed->items[i], "*") || !strcasecmp(allowed->items[i], c->origin)) return c->origin;
    return NULL;
}

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
    if (!strcmp(name, "localhost") || inet_pton(AF_INET, name, &address) == 1 ||
        inet_pton(AF_INET6, name, &address) == 1)
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

static bool check_key(struct cli_call *c, void *connection, struct cli_api_error *error) {
    const char *header = cli_http.lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization");
    if (!c->server->key_count) return true;
    if (header && !strncasecmp(header, "Bearer ", 7))
        for (size_t i = 0; i < c->server->key_count; i++)
            if (key_same(c->server->keys[i], header + 7)) c->key = i + 1;
    if (c->key || (c->route && c->route->open)) return true;
    cli_api_refuse(error, "",
                   header ? "the key is not one of this server's"
                          : "this server wants a key: Authorization: Bearer KEY");
    error->status = 401;
    return false;
}

static bool check_origin(struct cli_call *c, void *connection, struct cli_api_error *error) {
    const char *origin = cli_http.lookup_connection_value(connection, MHD_HEADER_KIND, "Origin");
    const char *host = cli_http.lookup_connection_value(connection, MHD_HEADER_KIND, "Host");
    if (!host || !host_allowed(c->server, host)) {
        cli_api_refuse(error, "",
                       host ? "Host %.80s is no name of this server; begin it with --allow-host to allow that"
                            : "the request has no header Host",
                       host);
        error->status = host ? 403 : 400;
        return false;
    }
    if (!origin) return true;
    snprintf(c->origin, sizeof c->origin, "%s", origin);
    const char *own = strstr(origin, "://");
    if ((own && !strcasecmp(own + 3, host)) || cli_call_origin(c)) return true;
    cli_api_refuse(error, "", "pages of %.80s may not ask this server; begin it with --allow-origin to allow that",
                   origin);
    error->status = 403;
    return false;
}

static const char *route_name(const void *list, size_t i) {
    (void)list;
    return cli_route_at(i)->path;
}

/* Finds the route, whose path may end with a name: /v1/models/NAME. */
static bool check_route(struct cli_call *c, const char *url, const char *method, struct cli_api_error *error) {
    size_t count = 0;
    for (const struct cli_route *r; (r = cli_route_at(count)); count++) {
        const size_t size = strlen(r->path);
        const bool prefix = size > 1 && r->path[size - 1] == '/';
        if (prefix ? strncmp(r->path, url, size) != 0 || !url[size] : strcmp(r->path, url) != 0) continue;
        if (!strcmp(r->method, method) || (!strcmp(r->method, "GET") && !strcmp(method, "HEAD"))) {
            c->route = r;
            return true;
        }
        snprintf(c->allow, sizeof c->allow, "%s", r->method); /* no path has two */
    }
    if (*c->allow && !strcmp(method, "OPTIONS")) return true;
    const char *closest = *c->allow ? NULL : qkv_closest_name(url, route_name, NULL, count);
    cli_api_refuse(error, "",
                   *c->allow ? "%s takes %s"
                   : closest ? "there is no %s; did you mean %s?"
                             : "there is no %s",
                   c->path, *c->allow ? c->allow : closest);
    error->status = *c->allow ? 405 : 404;
    return false;
}

bool cli_serve_room(struct cli_call *c, void *connection, struct cli_api_error *error) {
    struct cli_server *s = c->server;
    const struct cli_serve_options *o = s->options;
    const char *length = cli_http.lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Length");
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

bool cli_serve_check(struct cli_call *c, void *connection, const char *url, const char *method,
                     struct cli_api_error *error) {
    if (!check_origin(c, connection, error) || !check_route(c, url, method, error)) return false;
    return !c->route || (check_key(c, connection, error) && cli_serve_room(c, connection, error));
}

/* ---- bodies ------------------------------------------------------------------------------------------------------ */

bool cli_serve_take(struct cli_call *c, const char *data, size_t size, struct cli_api_error *error) {
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
#endif
