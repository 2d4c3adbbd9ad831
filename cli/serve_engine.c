/* serve_engine.c: the thread of "qkv serve" that runs the engines: it takes requests, runs a step of each model that
 * has some, and tells the answers. */
#include "cli_serve.h"

#ifdef QKV_MICROHTTPD
#include <stdlib.h>
#include <string.h>

enum { SECONDS_QUIET = 15 }; /* after which a stream without news gets a comment */

/* ---- the end of calls -------------------------------------------------------------------------------------------- */

static void engine_forget(struct cli_call *c) {
    for (size_t i = 0; c->asked && i < c->request.prompt_count; i++)
        if (c->request.prompts[i].engine_id) qkv_engine_cancel(c->served->api.engine, c->request.prompts[i].engine_id);
    if (c->asked) c->served->active--;
    c->asked = false;
}

/* Ends a call that is on no list any more. */
static void engine_fail(struct cli_call *c, const struct cli_api_error *error) {
    struct cli_server *s = c->server;
    engine_forget(c);
    pthread_mutex_lock(&s->lock);
    cli_call_fail(c, error);
    cli_call_leave(c);
    pthread_mutex_unlock(&s->lock);
}

/* Whether a call ends before its answer: its client has gone, its time is over, or the server stops. */
static bool engine_drops(const struct cli_call *c, struct cli_api_error *error) {
    struct cli_server *s = c->server;
    const double seconds = (double)s->options->seconds;
    pthread_mutex_lock(&s->lock);
    const bool stops = s->aborting, gone = cli_call_gone(c);
    pthread_mutex_unlock(&s->lock);
    *error = (struct cli_api_error){.status = stops ? 503 : CLI_SERVE_GONE, .text = "the server stops"};
    if (stops || gone) return true;
    if (seconds <= 0 || qkv_clock() - c->began < seconds) return false;
    cli_api_refuse(error, "", "the answer was not there after %g s (--seconds)", seconds);
    error->status = 504;
    return true;
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

/* Adds an event to a stream; false: no memory. */
static bool stream_put(struct cli_call *c, struct qkv_json *out) {
    return !out->status && cli_bytes_add(&c->out, "data: ", 6) &&
           cli_bytes_add(&c->out, out->text.data, out->text.size) && cli_bytes_add(&c->out, "\n\n", 2);
}

static bool stream_chunk(struct cli_call *c, size_t choice) {
    struct qkv_json out = cli_serve_json();
    bool fine = true;
    if (choice == c->request.choice_count)
        cli_api_put_usage(&c->served->api, &c->request, c->number, c->created, &out), fine = stream_put(c, &out);
    else if (cli_api_put_chunk(&c->served->api, &c->request, choice, c->number, c->created, &out))
        fine = stream_put(c, &out);
    qkv_json_free(&out);
    return fine;
}

/* Tells what is new of a stream, and its end; a comment where it was silent for long, so that nobody takes it for
 * dead. False: *error, also where the client does not read. */
static bool engine_stream(struct cli_call *c, struct cli_api_error *error) {
    struct cli_server *s = c->server;
    const double now = qkv_clock();
    bool fine = true;
    pthread_mutex_lock(&s->lock);
    cli_bytes_drop(&c->out, c->sent);
    c->sent = 0;
    const size_t before = c->out.size;
    for (size_t i = 0; i < c->request.choice_count && fine; i++) fine = stream_chunk(c, i);
    if (!c->request.open) {
        if (fine && c->request.tells_usage) fine = stream_chunk(c, c->request.choice_count);
        fine = fine && cli_bytes_add(&c->out, "data: [DONE]\n\n", 14);
        c->whole = fine;
    } else if (c->out.size == before && now - c->last > SECONDS_QUIET) {
        fine = fine && cli_bytes_add(&c->out, ": waiting\n\n", 11);
        c->last = now;
    }
    const bool slow = c->request.open && c->out.size > CLI_SERVE_UNREAD;
    if (c->out.size > before || c->whole) cli_call_wake(c);
    pthread_mutex_unlock(&s->lock);
    if (fine && !slow) return true;
    cli_api_refuse(error, "", slow ? "the stream is not read" : "out of memory");
    error->status = slow ? CLI_SERVE_GONE : 503;
    return false;
}

static void engine_whole(struct cli_call *c) {
    struct cli_server *s = c->server;
    struct qkv_json out = cli_serve_json();
    cli_api_put_answer(&c->served->api, &c->request, c->number, c->created, &out);
    pthread_mutex_lock(&s->lock);
    cli_call_answer(c, "application/json", &out);
    pthread_mutex_unlock(&s->lock);
    qkv_json_free(&out);
}

static void engine_count(struct cli_call *c, const struct qkv_engine_event *event) {
    struct cli_server *s = c->server;
    const double now = qkv_clock();
    if (event->prompt) return;
    pthread_mutex_lock(&s->lock);
    if (c->first <= 0) {
        c->first = now;
        cli_histogram_add(&s->counts.first_token, now - c->began);
        cli_histogram_add(&s->counts.queued, c->submitted - c->began);
    } else if (c->request.choice_count == 1) {
        cli_histogram_add(&s->counts.between_tokens, now - c->last);
    }
    c->last = now;
    c->served->counts.finished[event->finish] += event->finish != QKV_FINISH_NONE;
    pthread_mutex_unlock(&s->lock);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* Gives a new call to its engine. */
static void engine_take(struct cli_server *s, struct cli_call *c) {
    struct cli_api_error error = {0};
    if (engine_drops(c, &error)) {
        engine_fail(c, &error);
        return;
    }
    c->asked = true;
    c->served->active++;
    if (!cli_api_submit(&c->served->api, &c->request, &error)) {
        engine_fail(c, &error);
        return;
    }
    cli_calls_put(&s->running, c);
    if (!c->request.streams) return;
    pthread_mutex_lock(&s->lock);
    c->streams = true;
    c->status = 200;
    c->type = "text/event-stream; charset=utf-8";
    c->last = qkv_clock();
    cli_call_wake(c);
    pthread_mutex_unlock(&s->lock);
}

static void engine_hear(struct cli_server *s, struct cli_served *m) {
    struct qkv_engine_event event;
    while (qkv_engine_poll(m->api.engine, &event)) {
        struct cli_call *c = s->running.first;
        while (c && (c->served != m || !cli_api_owns(&c->request, &event))) c = c->next;
        if (!c || c->request.error.status) continue;
        engine_count(c, &event);
        if (!cli_api_take(&m->api, &c->request, &event)) {
            cli_api_refuse(&c->request.error, "", "out of memory");
            c->request.error.status = 503;
        }
    }
}

/* Tells what the steps have made of a call; true: it goes on. */
static bool engine_tell(struct cli_call *c) {
    struct cli_server *s = c->server;
    struct cli_api_error error = c->request.error;
    if (error.status || (c->streams && !engine_stream(c, &error)) || (c->request.open && engine_drops(c, &error))) {
        engine_fail(c, &error);
        return false;
    }
    if (c->request.open) return true;
    if (!c->streams) engine_whole(c);
    engine_forget(c);
    pthread_mutex_lock(&s->lock);
    cli_call_leave(c);
    pthread_mutex_unlock(&s->lock);
    return false;
}

/* The youngest call of a model whose step failed fails with it: the others are as they were, and go on. */
static void engine_broken(struct cli_server *s, struct cli_served *m) {
    struct cli_call *youngest = NULL;
    for (struct cli_call *c = s->running.first; c; c = c->next)
        if (c->served == m && !c->request.error.status) youngest = c;
    if (!youngest) return;
    cli_api_refuse(&youngest->request.error, "", "%s", cli_message(m->api.ctx));
    youngest->request.error.status = 503;
}

static void engine_step(struct cli_server *s) {
    for (size_t i = 0; i < s->model_count; i++) {
        struct cli_served *m = &s->models[i];
        if (!m->active) continue;
        if (qkv_engine_step(m->api.engine, NULL)) engine_broken(s, m);
        engine_hear(s, m);
    }
    struct cli_calls rest = {.first = NULL};
    for (struct cli_call *c; (c = cli_calls_take(&s->running));)
        if (engine_tell(c)) cli_calls_put(&rest, c);
    for (struct cli_call *c; (c = cli_calls_take(&rest));) cli_calls_put(&s->running, c);
}

void *cli_serve_engine(void *user) {
    struct cli_server *s = user;
    while (true) {
        struct cli_calls fresh = {.first = NULL};
        pthread_mutex_lock(&s->lock);
        while (!s->run.first && !s->running.first && !s->read_all) pthread_cond_wait(&s->to_run, &s->lock);
        for (struct cli_call *c; (c = cli_calls_take(&s->run));) cli_calls_put(&fresh, c);
        const bool ends = s->read_all && !fresh.first && !s->running.first;
        pthread_mutex_unlock(&s->lock);
        if (ends) return NULL;
        for (struct cli_call *c; (c = cli_calls_take(&fresh));) engine_take(s, c);
        if (s->running.first) engine_step(s);
        pthread_mutex_lock(&s->lock);
        for (size_t i = 0; i < s->model_count; i++) s->models[i].state = qkv_engine_state(s->models[i].api.engine);
        pthread_mutex_unlock(&s->lock);
    }
}
#endif
