/* serve_read.c: the reader of "qkv serve" turns bodies into requests of the engine, and answers what needs none. */
#include "cli_serve.h"

#ifdef QKV_MICROHTTPD
#include <string.h>

/* The i-th name in requests: the models, then the adapters of the only one that has some. */
static const char *served_name(const void *server, size_t i) {
    const struct cli_server *s = server;
    return i < s->model_count ? s->models[i].name : qkv_adapter_name(s->models[0].model, i - s->model_count);
}

struct cli_served *cli_serve_model(struct cli_server *s, const json_t *body, const char **adapter,
                                   struct cli_api_error *error) {
    size_t found;
    *adapter = NULL;
    if (!cli_api_find_model(body, served_name, s, "GET /v1/models lists those there are", &found, error)) return NULL;
    if (found >= s->model_count) *adapter = served_name(s, found);
    return &s->models[*adapter ? 0 : found];
}

/* Whether there is memory for a request, which is then kept for it. */
static bool reader_keeps(struct cli_call *c, struct cli_api_error *error) {
    struct cli_server *s = c->server;
    const size_t context = c->served->state.context;
    const uint64_t need =
        cli_api_need(&c->served->reader, &c->request, context) + (c->request.streams ? CLI_SERVE_UNREAD : 0);
    char text[2][CLI_NUMBER];
    if (need > s->needs_most)
        return cli_api_refuse(error, c->request.ask.answers > 1 ? "n" : "max_tokens",
                              "the answers may take %s of memory, and there are %s for requests: ask for fewer "
                              "answers, tokens or log-probabilities",
                              cli_bytes(text[0], (size_t)need), cli_bytes(text[1], (size_t)s->needs_most));
    if (s->needs + need > s->needs_most) {
        cli_api_refuse(error, "", "the memory for requests is taken; try again");
        error->status = 503;
        return false;
    }
    s->needs += c->need = need;
    return true;
}

static void reader_work(struct cli_call *c) {
    struct cli_server *s = c->server;
    struct cli_api_error error = {0};
    bool fine = c->route->answer(c, &error);
    pthread_mutex_lock(&s->lock);
    if (fine && c->route->queued) fine = reader_keeps(c, &error);
    if (fine && c->route->queued) {
        c->submitted = qkv_clock();
        cli_calls_put(&s->run, c);
        pthread_cond_signal(&s->to_run);
    } else {
        if (!fine) cli_call_fail(c, &error);
        cli_call_leave(c);
    }
    pthread_mutex_unlock(&s->lock);
}

void *cli_serve_reader(void *user) {
    struct cli_server *s = user;
    while (true) {
        pthread_mutex_lock(&s->lock);
        while (!s->read.first && !s->aborting) pthread_cond_wait(&s->to_read, &s->lock);
        struct cli_call *c = cli_calls_take(&s->read);
        const bool drop = c && (s->aborting || cli_call_gone(c));
        if (drop) {
            struct cli_api_error error = {.status = 503, .text = "the server stops"};
            cli_call_fail(c, &error);
            cli_call_leave(c);
        }
        const bool ends = !c && s->aborting;
        pthread_mutex_unlock(&s->lock);
        if (ends) return NULL;
        if (c && !drop) reader_work(c);
    }
}
#endif
