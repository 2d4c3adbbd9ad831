/* cli_serve_routes.h: the handlers of the paths that serve_routes.c lists and others define. */
#ifndef QKV_CLI_SERVE_ROUTES_H
#define QKV_CLI_SERVE_ROUTES_H

#include "cli_serve.h"

/* ---- texts and ids (serve_text.c) -------------------------------------------------------------------------------- */

bool cli_route_tokenize(struct cli_call *call, struct cli_api_error *error);
bool cli_route_detokenize(struct cli_call *call, struct cli_api_error *error);
bool cli_route_template(struct cli_call *call, struct cli_api_error *error);

/* ---- pages (the build makes them of cli/page/) ------------------------------------------------------------------- */

struct cli_page {
    const char *name;
    const unsigned char *data;
    size_t size;
};
extern const struct cli_page cli_pages[];
extern const size_t cli_page_count;

#endif
