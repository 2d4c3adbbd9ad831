/* cli_serve.h: "qkv serve": models behind HTTP. Three threads share the work. The network's (serve_http.c, with
 * libmicrohttpd) reads requests (serve_check.c) and writes answers; the reader (serve_read.c) turns bodies into
 * requests, which takes time for long texts; the engine's (serve_engine.c) runs the steps of all models. A call goes
 * from one to the next through lists, under one lock. */
#ifndef QKV_CLI_SERVE_H
#define QKV_CLI_SERVE_H

#include <pthread.h>

#include "cli_api.h"

/* A model that is served. */
struct cli_served {
    char *name;                      /* in requests */
    const char *path;                /* as the command line names it */
    struct qkv_model *model, *draft; /* draft: guesses tokens; NULL: none */
    struct cli_api api;              /* of the engine's thread */
    struct cli_api reader;           /* of the reader: a context and a share of its own */
    int64_t created;
    struct qkv_engine_state state; /* after the latest step */
    size_t active;                 /* calls that the engine has */
    struct cli_served_counts {     /* since the start */
        uint64_t finished[QKV_FINISH_READ + 1];
    } counts;
};

/* Bytes that grow. */
struct cli_bytes {
    char *data;
    size_t size, room;
};
bool cli_bytes_add(struct cli_bytes *bytes, const char *data, size_t size); /* false: no memory */
void cli_bytes_drop(struct cli_bytes *bytes, size_t size);                  /* drops the first ones */

/* What a path does. */
struct cli_call;
struct cli_route {
    const char *method, *path;
    bool open;    /* needs no key */
    bool at_once; /* the network's thread answers it: it takes no time, and needs no body */
    bool queued;  /* an engine answers it */
    bool (*answer)(struct cli_call *call, struct cli_api_error *error); /* false: *error */
};
const struct cli_route *cli_route_at(size_t i); /* NULL past the last (serve_routes.c) */

/* A request of HTTP, from its first line to the last byte of its answer. */
struct cli_call {
    struct cli_server *server;
    void *connection;              /* libmicrohttpd's; NULL: it has ended */
    int socket;                    /* of the connection */
    const struct cli_route *route; /* NULL: none has the path */
    char path[64], method[8], address[64], id[72], origin[256];
    size_t key; /* from 1, the key that it came with; 0: none */
    char *body;
    size_t size, room;
    double began, submitted, first, last; /* seconds of the clock */
    uint64_t number;                      /* of calls with an engine, from 1 */
    int64_t created;
    struct cli_served *served; /* NULL: none yet */
    struct cli_api_request request;
    bool asked;    /* the engine has the request */
    uint64_t need; /* bytes of memory that its request may take */
    /* the answer */
    int status;
    const char *type;     /* Content-Type */
    char allow[16];       /* methods of the path, for status 405 */
    int retry;            /* seconds to wait; 0: nothing is said */
    struct cli_bytes out; /* what is to be sent */
    size_t sent;
    bool page;                /* the answer is one */
    bool streams, whole;      /* whole: nothing more comes */
    bool suspended, answered; /* of the connection: it waits; its answer was begun */
    bool worked, counted;     /* no other thread has it; it is one of those that wait */
    struct cli_call *next;
};
struct cli_calls {
    struct cli_call *first, **end;
};

enum {
    CLI_SERVE_GONE = 499,         /* the status of a call whose client has gone */
    CLI_SERVE_UNREAD = 256 << 10, /* bytes of a stream that wait for its client, at most */
    CLI_SERVE_BUCKETS = 16
};
struct cli_histogram {
    uint64_t counts[CLI_SERVE_BUCKETS + 1], count;
    double sum;
};
struct cli_server {
    const struct cli_serve_options {
        const char *host, *keys, *template, *log, *draft;
        struct cli_texts name, allow_host, allow_origin;
        int64_t port, rows, context, tokens, memory, queue, each, body, seconds, grace, drafts;
        struct cli_texts set;
        struct cli_sampling sampling;
        bool ignore_fields, json;
        struct cli_common common;
    } * options;
    struct cli_served *models;
    size_t model_count;
    char **keys;
    size_t key_count;
    size_t used;        /* memory with the models, before the engines */
    size_t connections; /* at once; more wait in the queue of the system */
    void *daemon;       /* libmicrohttpd's */
    int socket, port;
    pthread_mutex_t lock; /* of all below, and of the calls on lists */
    pthread_cond_t to_read, to_run;
    struct cli_calls read, run; /* what waits for the reader, and for the engine */
    struct cli_calls running;   /* of the engine's thread alone */
    size_t open;                /* calls that need an engine and have not ended */
    size_t *open_by_key;        /* (keys + 1) the same by key */
    size_t bodies;              /* bytes of bodies that are kept */
    uint64_t needs, needs_most; /* bytes that open requests may take; that they may take together */
    size_t alive;               /* calls of the network */
    /* nothing new is taken; what runs is given up; the reader has ended */
    bool stopping, aborting, read_all;
    uint64_t next_number, next_id;
    struct {
        uint64_t by_status[6]; /* hundreds */
        uint64_t refused_queue, refused_key, gone;
        struct cli_histogram first_token, between_tokens, whole, queued;
    } counts;
};

/* ---- the network (serve_http.c) ---------------------------------------------------------------------------------- */

/* Takes the port; then begins to answer. Both return CLI_DONE, or the exit code after a message. */
int cli_serve_bind(struct cli_server *server);
int cli_serve_listen(struct cli_server *server);
/* Takes no further connection; then ends all. */
void cli_serve_quiesce(struct cli_server *server);
void cli_serve_close(struct cli_server *server);

/* ---- what requests must pass, under the lock (serve_check.c) ----------------------------------------------------- */

/* Finds the route of a request by its headers, before its body is read; false: *error. The connection is
 * libmicrohttpd's. No route and no error: the request asks for the methods of a path (OPTIONS). */
bool cli_serve_check(struct cli_call *call, void *connection, const char *url, const char *method,
                     struct cli_api_error *error);
/* Refuses more than can wait. */
bool cli_serve_room(struct cli_call *call, void *connection, struct cli_api_error *error);
/* Keeps a piece of a body. What is too large is dropped, and answered at its end; false: the body is endless, and the
 * connection ends. */
bool cli_serve_take(struct cli_call *call, const char *data, size_t size, struct cli_api_error *error);
/* The header Origin of a call whose page may read the answer; NULL: none. */
const char *cli_call_origin(const struct cli_call *call);

/* ---- calls, under the lock (serve_calls.c) ----------------------------------------------------------------------- */

/* Sends what is new of a call: its connection goes on. */
void cli_call_wake(struct cli_call *call);
/* Answers a call with an error. A stream that has begun tells it as an event. */
void cli_call_fail(struct cli_call *call, const struct cli_api_error *error);
/* Begins the JSON of an answer. */
struct qkv_json cli_serve_json(void);
/* Sends the text of an answer. */
void cli_call_answer(struct cli_call *call, const char *type, struct qkv_json *text);
/* No other thread has the call any more: it may be freed by this. */
void cli_call_leave(struct cli_call *call);
/* Counts a call among those that wait for an engine, or no longer; frees one. */
void cli_call_count(struct cli_call *call, bool waits);
void cli_call_free(struct cli_call *call);
/* Whether the client of a call has gone. */
bool cli_call_gone(const struct cli_call *call);
void cli_calls_put(struct cli_calls *calls, struct cli_call *call);
struct cli_call *cli_calls_take(struct cli_calls *calls);

/* ---- the reader (serve_read.c), the engine (serve_engine.c) ------------------------------------------------------ */

void *cli_serve_reader(void *server);
void *cli_serve_engine(void *server);
/* Finds the model that a request names, the first one if it names none; *adapter: the name of its adapter, or NULL
 * where the request names the model itself. NULL: *error. */
struct cli_served *cli_serve_model(struct cli_server *server, const json_t *body, const char **adapter,
                                   struct cli_api_error *error);

/* ---- what is counted (serve_metrics.c) --------------------------------------------------------------------------- */

/* Counts a call that has ended, and writes its line of the log, under the lock. */
void cli_serve_ended(struct cli_call *call);
void cli_histogram_add(struct cli_histogram *histogram, double value);
/* Writes all numbers as Prometheus reads them. */
bool cli_serve_metrics(struct cli_server *server, struct cli_bytes *out);

#endif
