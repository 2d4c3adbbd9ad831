/* serve_routes.c: the paths of "qkv serve", one list, and those that need no model. */
#include "cli_serve.h"

#ifdef QKV_MICROHTTPD
#include <stdlib.h>
#include <string.h>

#include "cli_serve_http.h"
#include "cli_serve_routes.h"

/* ---- the server -------------------------------------------------------------------------------------------------- */

static bool answer_json(struct cli_call *c, struct qkv_json *out) {
    cli_call_answer(c, "application/json", out);
    qkv_json_free(out);
    return true;
}

static bool health(struct cli_call *c, struct cli_api_error *error) {
    struct qkv_json out = cli_serve_json();
    if (c->server->stopping) {
        cli_api_refuse(error, "", "the server stops");
        error->status = 503;
        return false;
    }
    qkv_json_begin(&out, '{');
    qkv_json_put_text(&out, "status", "ok");
    qkv_json_end(&out, '}');
    return answer_json(c, &out);
}

static bool metrics(struct cli_call *c, struct cli_api_error *error) {
    if (!cli_serve_metrics(c->server, &c->out)) {
        c->out.size = 0;
        cli_api_refuse(error, "", "out of memory");
        error->status = 503;
        return false;
    }
    struct qkv_json nothing = cli_serve_json();
    cli_call_answer(c, "text/plain; version=0.0.4; charset=utf-8", &nothing);
    return true;
}

/* adapter: the name of one of the model's; NULL: the model itself. */
static void put_model(const struct cli_served *m, const char *adapter, struct qkv_json *out) {
    qkv_json_begin(out, '{');
    qkv_json_put_text(out, "id", adapter ? adapter : m->name);
    qkv_json_put_text(out, "object", "model");
    qkv_json_put_integer(out, "created", m->created);
    qkv_json_put_text(out, "owned_by", "qkv");
    if (adapter) qkv_json_put_text(out, "parent", m->name);
    qkv_json_put_count(out, "max_model_len", m->state.context);
    qkv_json_end(out, '}');
}

static bool models(struct cli_call *c, struct cli_api_error *error) {
    struct qkv_json out = cli_serve_json();
    (void)error;
    qkv_json_begin(&out, '{');
    qkv_json_put_text(&out, "object", "list");
    qkv_json_key(&out, "data");
    qkv_json_begin(&out, '[');
    for (size_t i = 0; i < c->server->model_count; i++) {
        const struct cli_served *m = &c->server->models[i];
        const char *adapter;
        put_model(m, NULL, &out);
        for (size_t k = 0; (adapter = qkv_adapter_name(m->model, k)); k++) put_model(m, adapter, &out);
    }
    qkv_json_end(&out, ']');
    qkv_json_end(&out, '}');
    return answer_json(c, &out);
}

/* The model that a path or a query names; NULL: it is refused. */
static const struct cli_served *named_model(struct cli_call *c, const char *name, const char **adapter,
                                            struct cli_api_error *error) {
    const struct cli_served *m = NULL;
    json_t *body = json_pack("{s:s}", "model", name);
    if (body)
        m = cli_serve_model(c->server, body, adapter, error);
    else
        cli_api_refuse(error, "model", "model is not UTF-8");
    json_decref(body);
    return m;
}

static bool one_model(struct cli_call *c, struct cli_api_error *error) {
    const char *adapter;
    const struct cli_served *m = named_model(c, c->path + strlen(c->route->path), &adapter, error);
    if (!m) return false;
    struct qkv_json out = cli_serve_json();
    put_model(m, adapter, &out);
    return answer_json(c, &out);
}

static bool page(struct cli_call *c, struct cli_api_error *error) {
    struct qkv_json nothing = cli_serve_json();
    size_t i = 0;
    while (i < cli_page_count && strcmp(cli_pages[i].name, "chat.html") != 0) i++;
    if (i == cli_page_count || !cli_bytes_add(&c->out, (const char *)cli_pages[i].data, cli_pages[i].size)) {
        cli_api_refuse(error, "", "out of memory");
        error->status = 503;
        return false;
    }
    c->page = true;
    cli_call_answer(c, "text/html; charset=utf-8", &nothing);
    return true;
}

/* ---- continuations ----------------------------------------------------------------------------------------------- */

/* A seed for a request that has none. */
static uint64_t any_seed(void) {
    uint64_t seed = 0;
    if (getentropy(&seed, sizeof seed)) seed = (uint64_t)(qkv_clock() * 1e9);
    return seed >> 11; /* a whole number of JSON */
}

static bool continuation(struct cli_call *c, bool chat, struct cli_api_error *error) {
    struct cli_server *s = c->server;
    json_t *body = cli_api_parse(c->body, c->size, error);
    const char *adapter;
    c->served = body ? cli_serve_model(s, body, &adapter, error) : NULL;
    const bool fine = c->served && cli_api_read(&c->served->reader, body, chat, any_seed(), &c->request, error);
    if (fine) c->request.adapter = adapter;
    json_decref(body);
    pthread_mutex_lock(&s->lock);
    c->number = ++s->next_number;
    pthread_mutex_unlock(&s->lock);
    return fine;
}

static bool completions(struct cli_call *c, struct cli_api_error *error) {
    return continuation(c, false, error);
}

static bool chat_completions(struct cli_call *c, struct cli_api_error *error) {
    return continuation(c, true, error);
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

static bool texts(struct cli_call *c, cli_api_read_texts *read, struct cli_api_error *error) {
    struct cli_server *s = c->server;
    json_t *body = cli_api_parse(c->body, c->size, error);
    const char *adapter;
    c->served = body ? cli_serve_model(s, body, &adapter, error) : NULL;
    const bool fine = c->served && read(&c->served->reader, body, &c->request, error);
    if (fine) c->request.adapter = adapter;
    json_decref(body);
    return fine;
}

static bool embeddings(struct cli_call *c, struct cli_api_error *error) {
    return texts(c, cli_api_read_embedding, error);
}

static bool classify(struct cli_call *c, struct cli_api_error *error) {
    return texts(c, cli_api_read_class, error);
}

static bool translate(struct cli_call *c, struct cli_api_error *error) {
    return texts(c, cli_api_read_translation, error);
}

/* The targets of a model, as the text of a JSON list: freed by the caller; NULL: no memory. */
static char *language_targets(const struct qkv_model *m) {
    json_t *list = json_array();
    char target[QKV_LANGUAGE_TEXT];
    for (size_t k = 0; list && qkv_model_language(m, true, k, target); k++)
        json_array_append_new(list, json_string(target));
    char *text = list ? json_dumps(list, 0) : NULL;
    json_decref(list);
    return text;
}

/* The languages that a model translates from, each with those that it translates to, as LibreTranslate lists them: of
 * the first model, or of the one that the query names. A model that knows its targets alone takes any source. */
static bool languages(struct cli_call *c, struct cli_api_error *error) {
    const char *name = cli_http.lookup_connection_value(c->connection, MHD_GET_ARGUMENT_KIND, "model");
    const char *adapter;
    const struct cli_served *m =
        name ? named_model(c, name, &adapter, error) : cli_serve_model(c->server, NULL, &adapter, error);
    char *targets = m ? language_targets(m->model) : NULL;
    char source[QKV_LANGUAGE_TEXT] = QKV_LANGUAGE_AUTO;
    if (m && !targets) cli_api_refuse(error, "", "out of memory");
    if (!targets) return false;
    struct qkv_json out = cli_serve_json();
    const bool any = !qkv_model_language(m->model, false, 0, source) && strcmp(targets, "[]") != 0;
    qkv_json_begin(&out, '[');
    for (size_t i = 0; any ? i == 0 : qkv_model_language(m->model, false, i, source); i++) {
        qkv_json_begin(&out, '{');
        qkv_json_put_text(&out, "code", source);
        qkv_json_put_text(&out, "name", source);
        qkv_json_put_raw(&out, "targets", targets);
        qkv_json_end(&out, '}');
    }
    qkv_json_end(&out, ']');
    free(targets);
    return answer_json(c, &out);
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

static const struct cli_route routes[] = {
    {"GET", "/", .open = true, .at_once = true, .answer = page},
    {"GET", "/health", .open = true, .at_once = true, .answer = health},
    {"GET", "/v1/health", .open = true, .at_once = true, .answer = health},
    {"GET", "/metrics", .at_once = true, .answer = metrics},
    {"GET", "/v1/models", .at_once = true, .answer = models},
    {"GET", "/v1/models/", .at_once = true, .answer = one_model},
    {"POST", "/v1/completions", .queued = true, .answer = completions},
    {"POST", "/v1/chat/completions", .queued = true, .answer = chat_completions},
    {"POST", "/v1/embeddings", .queued = true, .answer = embeddings},
    {"POST", "/classify", .queued = true, .answer = classify},
    {"GET", "/languages", .at_once = true, .answer = languages},
    {"POST", "/translate", .queued = true, .answer = translate},
    {"POST", "/tokenize", .answer = cli_route_tokenize},
    {"POST", "/detokenize", .answer = cli_route_detokenize},
    {"POST", "/apply-template", .answer = cli_route_template},
};

const struct cli_route *cli_route_at(size_t i) {
    return i < CLI_COUNT_OF(routes) ? &routes[i] : NULL;
}
#endif
