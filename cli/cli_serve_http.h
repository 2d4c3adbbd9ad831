/* cli_serve_http.h: the functions of libmicrohttpd. The library is opened when a server begins: it brings others, for
 * TLS, which no other command needs to have in memory. */
#ifndef QKV_CLI_SERVE_HTTP_H
#define QKV_CLI_SERVE_HTTP_H

#include "cli_serve.h"

#ifdef QKV_MICROHTTPD
#include <microhttpd.h>

#define CLI_HTTP_LIST(X)                                                                                               \
    X(start_daemon)                                                                                                    \
    X(stop_daemon)                                                                                                     \
    X(quiesce_daemon)                                                                                                  \
    X(suspend_connection)                                                                                              \
    X(resume_connection)                                                                                               \
    X(create_response_from_buffer)                                                                                     \
    X(create_response_from_callback)                                                                                   \
    X(add_response_header)                                                                                             \
    X(queue_response)                                                                                                  \
    X(destroy_response)                                                                                                \
    X(lookup_connection_value)                                                                                         \
    X(get_connection_info)
#define CLI_HTTP_FIELD(name) __typeof__(MHD_##name) *name;
struct cli_http {
    CLI_HTTP_LIST(CLI_HTTP_FIELD)
};
#undef CLI_HTTP_FIELD
extern struct cli_http cli_http;
/* Opens the library, once. Returns CLI_DONE, or the exit code after a message. */
int cli_http_open(void);
#endif

#endif
