/* serve_library.c: opens libmicrohttpd, which speaks HTTP for "qkv serve". */
#include "cli_serve_http.h"

const char *cli_serve_library(void) {
#ifdef QKV_MICROHTTPD
    return "libmicrohttpd " QKV_MICROHTTPD;
#else
    return NULL;
#endif
}

#ifdef QKV_MICROHTTPD
#include <dlfcn.h>
#include <string.h>

struct cli_http cli_http;

/* Finds a function; false: the library has none of that name. */
static bool http_find(void *library, const char *name, void *at) {
    void *const found = dlsym(library, name);
    memcpy(at, &found, sizeof found); /* no cast from an object to a function */
    return found != NULL;
}

int cli_http_open(void) {
    static const char file[] = "libmicrohttpd.so.12";
    if (cli_http.start_daemon) return CLI_DONE;
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library) return cli_failed("cannot open %s, which serves HTTP: %s; install libmicrohttpd12", file, dlerror());
#define FIND(name) http_find(library, "MHD_" #name, &cli_http.name) &&
    const bool all = CLI_HTTP_LIST(FIND) true;
#undef FIND
    if (all) return CLI_DONE;
    cli_http = (struct cli_http){0};
    return cli_failed("%s lacks a function that serves HTTP; install libmicrohttpd %s", file, QKV_MICROHTTPD);
}
#endif
