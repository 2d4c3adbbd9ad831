/* serve.c: "qkv serve" answers requests over HTTP with models: what it loads, how memory is divided, how it ends. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli_adapters.h"
#include "cli_serve_http.h"

static const struct cli_serve_options defaults = {.host = "127.0.0.1",
                                                  .port = 8080,
                                                  .rows = 16,
                                                  .tokens = 16,
                                                  .queue = 256,
                                                  .each = 0,
                                                  .body = 8,
                                                  .seconds = 600,
                                                  .grace = 10,
                                                  .log = "text",
                                                  .sampling = CLI_SAMPLING_DEFAULTS};

#define SERVE_ROW(kind, name, argument, field, ...)                                                                    \
    { kind, 0, name, argument, offsetof(struct cli_serve_options, field), __VA_ARGS__ }
static const struct cli_option options[] = {
    SERVE_ROW(CLI_COUNT, "port", "N", port, .help = "port to listen on; 0: any that is free", .high = 65535,
              .subject = "network"),
    SERVE_ROW(CLI_TEXT, "host", "ADDRESS", host,
              .help = "address to listen on: 127.0.0.1 is this machine alone, 0.0.0.0 all networks",
              .subject = "network"),
    SERVE_ROW(CLI_READ, "keys", "FILE", keys, .help = "file with a key in each line; requests must bring one of them",
              .before = "no key is asked for", .subject = "network"),
    SERVE_ROW(CLI_TEXTS, "allow-host", "NAME", allow_host,
              .help = "name under which this server may be asked, beside localhost, --host and addresses",
              .subject = "network"),
    SERVE_ROW(CLI_TEXTS, "allow-origin", "ORIGIN", allow_origin,
              .help = "site whose pages may ask this server: https://example.org; * is all", .subject = "network"),
    SERVE_ROW(CLI_MEMORY, "memory", "SIZE", memory,
              .help = "memory of the whole server at most, as 8G; no answer depends on it", .low = 1, .high = 1 << 24,
              .before = "half of what is free for caches", .subject = "limits"),
    SERVE_ROW(CLI_COUNT, "rows", "N", rows,
              .help = "number of answers of a model that are made together; no answer depends on it", .low = 1,
              .high = 16384, .subject = "limits"),
    SERVE_ROW(CLI_COUNT, "context", "N", context, .help = "largest number of tokens of a prompt and its answer",
              .high = INT32_MAX, .before = "the model's, at most 4096", .subject = "limits"),
    SERVE_ROW(CLI_COUNT, "drafts", "N", drafts,
              .help =
                  "number of tokens that are guessed for an answer in a step, by --draft, or where its latest tokens "
                  "occurred before (0: none); no answer depends on it",
              .high = 32, .before = "0; 4 with --draft", .subject = "limits"),
    SERVE_ROW(CLI_MODEL_READ, "draft", "MODEL", draft,
              .help = "a smaller model with the same tokens that guesses for the one that is served; no answer depends "
                      "on it",
              .subject = "model"),
    SERVE_ROW(CLI_COUNT, "queue", "N", queue,
              .help = "requests that may wait, beside those that are answered; more get status 503", .high = 1000000,
              .subject = "limits"),
    SERVE_ROW(CLI_COUNT, "each", "N", each,
              .help = "requests of one key that may wait or be answered at once; more get status 429", .high = 1000000,
              .before = "no limit", .subject = "limits"),
    SERVE_ROW(CLI_COUNT, "body", "MIB", body, .help = "largest body of a request in MiB", .low = 1, .high = 1024,
              .subject = "limits"),
    SERVE_ROW(CLI_COUNT, "seconds", "N", seconds,
              .help = "seconds after which a request ends, answered or not; 0: none", .high = 1000000,
              .subject = "limits"),
    SERVE_ROW(CLI_COUNT, "grace", "N", grace,
              .help = "seconds for running requests to finish when the server is stopped", .high = 86400,
              .subject = "limits"),
    SERVE_ROW(CLI_COUNT, "tokens", "N", tokens,
              .help = "largest number of tokens of a completion that does not say it; chats go on to the end of the "
                      "context",
              .high = INT32_MAX, .subject = "sampling"),
    SERVE_ROW(CLI_TEXTS, "name", "NAME", name, .help = "name of a model in requests, in the order of the models",
              .subject = "model"),
    SERVE_ROW(CLI_READ, "template", "FILE", template, .help = "chat template to use in place of the models'",
              .subject = "model"),
    SERVE_ROW(CLI_TEXTS, "set", "KEY=VALUE", set,
              .help = "variable of the chat template; a request's chat_template_kwargs win", .subject = "model"),
    SERVE_ROW(CLI_FLAG, "ignore-fields", NULL, ignore_fields,
              .help = "ignore fields of requests that are not known; else such a request gets status 400",
              .subject = "network"),
    SERVE_ROW(CLI_TEXT, "log", "KIND", log, .choice = cli_choose_log,
              .help = "a line for each request on standard error: {}", .subject = "output"),
    CLI_JSON(struct cli_serve_options, "the address, the models and their memory"),
    CLI_SAMPLING_WITHOUT_SEED(struct cli_serve_options),
    CLI_ADAPTER_LIST(struct cli_serve_options, "each answers the requests whose \"model\" is its name"),
    CLI_MODEL(struct cli_serve_options),
    CLI_CACHE(struct cli_serve_options),
};

CLI_CONDITION(has_no_keys, struct cli_serve_options, !a->keys)
static const struct cli_rule rules[] = {{"each", has_no_keys, "there are no keys; add --keys FILE"}};

#ifdef QKV_MICROHTTPD
enum { SERVE_CONTEXT = 4096 };
#define SERVE_FORM       ((size_t)4 << 20)  /* of a constraint */
#define SERVE_BODIES     4                  /* of the largest size; and what is read of them */
#define SERVE_CONNECTION ((size_t)12 << 10) /* of a connection, with its headers and its call */
/* What connections and open requests take: an eighth each of what a limit of memory leaves, within these; without a
 * limit the maximum of connections, and SERVE_NEEDS of requests. */
#define SERVE_NETWORK_LEAST ((size_t)12 << 20)
#define SERVE_NETWORK_MOST  ((size_t)144 << 20)
#define SERVE_NEEDS_LEAST   ((size_t)16 << 20)
#define SERVE_NEEDS         ((size_t)128 << 20)
#define SERVE_NEEDS_MOST    ((size_t)1 << 30)

/* ---- models ------------------------------------------------------------------------------------------------------ */

/* Whether a text is a site, as browsers name it in Origin: https://example.org:8080. */
static bool is_origin(const char *text) {
    const char *host = strstr(text, "://");
    if (!strcmp(text, "*")) return true;
    if (!host || host == text || !host[3]) return false;
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c <= ' ' || *c == 127 || (c > host + 2 && *c == '/')) return false;
    return true;
}

/* Checks the texts of the command line that nothing else does. */
static int serve_check(const struct cli_serve_options *o) {
    if (!cli_is_name(o->host) || !o->host[strcspn(o->host, ".:abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")])
        return cli_usage("--host is \"%.80s\"; it is an address, such as 127.0.0.1, or a name", o->host);
    for (size_t i = 0; i < o->allow_origin.count; i++)
        if (!is_origin(o->allow_origin.items[i]))
            return cli_usage("--allow-origin is \"%.80s\"; it is a site, such as https://example.org, or *",
                             o->allow_origin.items[i]);
    for (size_t i = 0; i < o->allow_host.count; i++)
        if (!cli_is_name(o->allow_host.items[i]))
            return cli_usage("--allow-host is \"%.80s\"; it is a name, such as models.example.org",
                             o->allow_host.items[i]);
    for (size_t i = 0; i < o->name.count; i++)
        if (!cli_is_name(o->name.items[i]))
            return cli_usage("--name is \"%.80s\"; a name has letters, digits, and any of - _ . :", o->name.items[i]);
    return cli_adapters_check(&o->common, "serve");
}

static int serve_names(struct cli_server *s) {
    const struct cli_texts *given = &s->options->name;
    if (s->options->draft && s->model_count > 1)
        return cli_usage("serve: --draft guesses for one model, and there are %zu", s->model_count);
    if (given->count > s->model_count)
        return cli_usage("serve: there are %zu names and %zu models", given->count, s->model_count);
    if (s->model_count > 1 && s->options->common.adapters.count)
        return cli_usage("serve: --adapter is for one model, and there are %zu", s->model_count);
    for (size_t i = 0; i < s->model_count; i++) {
        s->models[i].name = i < given->count ? strdup(given->items[i]) : cli_model_name(s->models[i].path);
        if (!s->models[i].name) return cli_failed("out of memory");
        for (size_t k = 0; k < i; k++)
            if (!strcmp(s->models[k].name, s->models[i].name))
                return cli_usage("serve: two models have the name %s; name them: --name ONE --name OTHER",
                                 s->models[i].name);
    }
    return cli_adapters_apart(&s->options->common, "serve", s->models[0].name, "the model");
}

/* Loads a model in a context of its own, with a share of it for the reader. */
static int serve_load(struct cli_server *s, struct cli_served *m) {
    const struct cli_serve_options *o = s->options;
    struct cli_api *api = &m->api;
    struct cli_sampling sampling = o->sampling;
    sampling.seed = 0;
    int code = cli_open(&o->common, &api->ctx);
    if (!code) code = cli_load(&o->common, api->ctx, m->path, &m->model);
    if (!code && o->draft) code = cli_load_second(&o->common, api->ctx, o->draft, &m->draft);
    if (!code) code = cli_talk_begin(&o->set, &api->style);
    if (!code && qkv_model_tokenizer(m->model)) code = cli_talk_open(api->ctx, m->path, o->template, &api->style);
    if (!code) code = cli_open(&o->common, &m->reader.ctx);
    if (code) return code;
    api->model = m->model;
    api->name = m->name;
    api->tools = cli_tools_find(api->style.template);
    api->streams = true;
    api->form_memory = SERVE_FORM;
    api->ignores = o->ignore_fields;
    api->completion_tokens = (size_t)o->tokens;
    api->usual = qkv_generate_defaults();
    cli_sampling_settle(&sampling, m->model, false, &api->usual);
    api->usual.tokens = INT32_MAX; /* to the end of the context */
    struct qkv_context *ctx = m->reader.ctx;
    m->reader = *api;
    m->reader.ctx = ctx;
    m->reader.forms = cli_api_forms_open();
    m->created = (int64_t)time(NULL);
    return qkv_model_share(m->model, ctx, &m->reader.model) ? cli_broken(ctx) : CLI_DONE;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* An eighth of what a limit leaves, from `least` to `most`; `usual` without a limit. */
static size_t serve_eighth(size_t limit, size_t used, size_t least, size_t usual, size_t most) {
    const size_t eighth = limit > used ? (limit - used) / 8 : 0;
    if (!limit) return usual;
    return eighth < least ? least : eighth > most ? most : eighth;
}

static size_t serve_needs(size_t limit, size_t used) {
    return serve_eighth(limit, used, SERVE_NEEDS_LEAST, SERVE_NEEDS, SERVE_NEEDS_MOST);
}

static size_t serve_network(size_t limit, size_t used) {
    return serve_eighth(limit, used, SERVE_NETWORK_LEAST, SERVE_NETWORK_MOST, SERVE_NETWORK_MOST);
}

/* Memory beside models and engines. */
static size_t serve_reserve(const struct cli_serve_options *o, size_t used) {
    const size_t limit = (size_t)o->memory << 20;
    return serve_network(limit, used) + serve_needs(limit, used) + SERVE_FORM * CLI_API_FORMS +
           2 * SERVE_BODIES * ((size_t)o->body << 20);
}

/* Whether --memory leaves something beside what is used. */
static int serve_enough(const struct cli_serve_options *o, size_t used) {
    const size_t limit = (size_t)o->memory << 20;
    char text[2][CLI_NUMBER];
    if (!limit || limit > used + serve_reserve(o, used)) return CLI_DONE;
    return cli_failed("--memory is %s, but models and the network need %s already; give more, a smaller model, or a "
                      "smaller --body",
                      cli_bytes(text[0], limit), cli_bytes(text[1], used + serve_reserve(o, used)));
}

/* Makes the engines, which share the memory that the models leave. */
static int serve_engines(struct cli_server *s) {
    const struct cli_serve_options *o = s->options;
    const size_t used = cli_memory_now(), reserve = serve_reserve(o, used), limit = (size_t)o->memory << 20;
    if (serve_enough(o, used)) return CLI_FAILED;
    s->used = used;
    s->needs_most = serve_needs(limit, used);
    s->connections = serve_network(limit, used) / SERVE_CONNECTION;
    for (size_t i = 0; i < s->model_count; i++) {
        struct cli_served *m = &s->models[i];
        struct qkv_engine_options e = qkv_engine_defaults();
        const size_t most = (size_t)qkv_model_spec(m->model)->context;
        e.rows = (size_t)o->rows;
        e.context = o->context ? (size_t)o->context : most < SERVE_CONTEXT ? most : SERVE_CONTEXT;
        e.cache = o->common.cache;
        e.drafts = (size_t)o->drafts;
        e.draft = m->draft;
        if (limit) e.memory = (limit - used - reserve) / s->model_count;
        if (qkv_engine_create(m->model, &e, &m->api.engine)) return cli_broken(m->api.ctx);
        m->reader.engine = m->api.engine;
        m->state = qkv_engine_state(m->api.engine);
    }
    return CLI_DONE;
}

/* The plan as JSON, a line: programs begin to ask when they have read it. */
static void serve_tell_json(const struct cli_server *s, const char *address, size_t memory) {
    struct qkv_json out = cli_json_stream(stdout);
    qkv_json_begin(&out, '{');
    qkv_json_put_text(&out, "address", address);
    qkv_json_put_count(&out, "memory", memory);
    qkv_json_key(&out, "models");
    qkv_json_begin(&out, '[');
    for (size_t i = 0; i < s->model_count; i++) {
        const struct qkv_engine_state *e = &s->models[i].state;
        qkv_json_begin(&out, '{');
        qkv_json_put_text(&out, "id", s->models[i].name);
        qkv_json_put_count(&out, "rows", e->rows);
        qkv_json_put_count(&out, "context", e->context);
        qkv_json_put_count(&out, "cache_tokens", e->pages * e->page_positions);
        qkv_json_put_count(&out, "memory", e->memory);
        qkv_json_end(&out, '}');
    }
    qkv_json_end(&out, ']');
    qkv_json_end(&out, '}');
    cli_json_end(&out);
}

static void serve_tell(const struct cli_server *s) {
    const struct cli_serve_options *o = s->options;
    char text[3][CLI_NUMBER];
    const size_t reserve = serve_reserve(o, s->used);
    size_t all = s->used + reserve;
    for (size_t i = 0; i < s->model_count; i++) {
        const struct qkv_engine_state *e = &s->models[i].state;
        all += e->memory;
        if (!e->rows) {
            cli_say("%s: texts of at most %d tokens; %s for steps", s->models[i].name,
                    qkv_model_spec(s->models[i].model)->context, cli_bytes(text[0], e->memory));
            continue;
        }
        cli_say("%s: %zu answers at once, %zu tokens each with their prompts; %s for %s tokens in the cache, and steps",
                s->models[i].name, e->rows, e->context, cli_bytes(text[0], e->memory),
                cli_grouped(text[1], e->pages * e->page_positions));
    }
    if (o->memory && all < (size_t)o->memory << 20) all = (size_t)o->memory << 20;
    cli_say("at most %s of memory: models as loaded, caches and steps, %s for requests and the network",
            cli_bytes(text[0], all), cli_bytes(text[1], reserve));
    if (!strcmp(o->host, "127.0.0.1") || !strcmp(o->host, "localhost") || !strcmp(o->host, "::1"))
        cli_say("it listens on this machine alone (--host 0.0.0.0: on all networks)");
    else if (!s->key_count)
        cli_say("it listens on %s, and everybody who reaches that can use it (--keys FILE)", o->host);
    char address[320];
    snprintf(address, sizeof address, strchr(o->host, ':') ? "http://[%.255s]:%d" : "http://%.255s:%d", o->host,
             s->port);
    if (o->json)
        serve_tell_json(s, address, all);
    else
        printf("%s\n", address);
    fflush(stdout);
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

static int serve_keys(struct cli_server *s) {
    char *text = NULL, *rest;
    size_t size;
    struct stat info;
    if (!s->options->keys) return CLI_DONE;
    if (!stat(s->options->keys, &info) && !S_ISREG(info.st_mode)) /* a pipe might never end */
        return cli_failed("cannot read %s: it is no file", s->options->keys);
    if (cli_read_all(s->options->keys, 1 << 20, &text, &size)) return CLI_FAILED;
    char *all = rest = strndup(text ? text : "", size);
    free(text);
    if (!all) return cli_failed("out of memory");
    for (char *line; (line = strsep(&rest, "\r\n"));) {
        char **grown = *line ? realloc(s->keys, (s->key_count + 1) * sizeof *grown) : NULL;
        if (*line && grown) s->keys = grown;
        if (grown && (s->keys[s->key_count] = strdup(line))) s->key_count++;
    }
    free(all);
    return s->key_count ? CLI_DONE : cli_failed("%s has no key; write one in a line", s->options->keys);
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

/* Waits until a signal comes, at most `seconds`; negative: without end. */
static bool wait_signal(const sigset_t *signals, double seconds) {
    const struct timespec time = {.tv_sec = (time_t)seconds,
                                  .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    int which;
    if (seconds < 0) return sigwait(signals, &which) == 0;
    return sigtimedwait(signals, NULL, &time) > 0;
}

/* Whether something is still to be answered (`open`), or to be sent. */
static bool serve_has(struct cli_server *s, bool open) {
    pthread_mutex_lock(&s->lock);
    const bool has = open ? s->open || s->read.first || s->run.first : s->alive;
    pthread_mutex_unlock(&s->lock);
    return has;
}

static void serve_wake(struct cli_server *s) {
    pthread_cond_broadcast(&s->to_read);
    pthread_cond_broadcast(&s->to_run);
}

/* Takes nothing new; what runs has --grace seconds, or until a second signal. */
static void serve_stop(struct cli_server *s, const sigset_t *signals, pthread_t reader, pthread_t engine) {
    const double until = qkv_clock() + (double)s->options->grace;
    cli_serve_quiesce(s);
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    const size_t open = s->open;
    pthread_mutex_unlock(&s->lock);
    if (open)
        cli_say("%zu request%s may finish within %lld s", open, open == 1 ? "" : "s", (long long)s->options->grace);
    while (serve_has(s, true) && qkv_clock() < until && !wait_signal(signals, 0.02)) continue;
    pthread_mutex_lock(&s->lock);
    s->aborting = true;
    serve_wake(s);
    pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; i < s->model_count; i++) qkv_context_cancel(s->models[i].api.ctx, true);
    pthread_join(reader, NULL);
    pthread_mutex_lock(&s->lock);
    s->read_all = true;
    serve_wake(s);
    pthread_mutex_unlock(&s->lock);
    pthread_join(engine, NULL);
    for (int i = 0; i < 100 && serve_has(s, false); i++) wait_signal(signals, 0.01);
    cli_serve_close(s);
}

static int serve_run(struct cli_server *s) {
    pthread_t reader, engine;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals, NULL); /* the threads that begin now get none */
    signal(SIGPIPE, SIG_IGN);
    int code = cli_serve_listen(s);
    if (code) return code;
    if (pthread_create(&reader, NULL, cli_serve_reader, s) || pthread_create(&engine, NULL, cli_serve_engine, s)) {
        cli_failed("cannot begin a thread: %s", cli_error_text(errno));
        exit(CLI_FAILED);
    }
    serve_tell(s);
    wait_signal(&signals, -1);
    serve_stop(s, &signals, reader, engine);
    return CLI_DONE;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static void serve_free(struct cli_server *s) {
    for (size_t i = 0; s->models && i < s->model_count; i++) {
        struct cli_served *m = &s->models[i];
        qkv_engine_free(m->api.engine);
        cli_api_forms_close(m->reader.forms);
        cli_talk_close(&m->api.style);
        qkv_model_free(m->reader.model);
        qkv_model_free(m->model);
        qkv_model_free(m->draft);
        qkv_context_free(m->reader.ctx);
        qkv_context_free(m->api.ctx);
        free(m->name);
    }
    for (size_t i = 0; i < s->key_count; i++) free(s->keys[i]);
    free(s->keys);
    free(s->open_by_key);
    free(s->models);
    pthread_cond_destroy(&s->to_read);
    pthread_cond_destroy(&s->to_run);
    pthread_mutex_destroy(&s->lock);
}

static int serve(const struct cli_serve_options *o, const char *const *words, size_t count) {
    struct cli_server s = {.options = o, .model_count = count, .socket = -1};
    int code = CLI_DONE;
    pthread_mutex_init(&s.lock, NULL);
    pthread_cond_init(&s.to_read, NULL);
    pthread_cond_init(&s.to_run, NULL);
    s.models = calloc(count, sizeof *s.models);
    if (!s.models) code = cli_failed("out of memory");
    for (size_t i = 0; i < count && !code; i++) s.models[i].path = words[i];
    if (!code) code = serve_check(o);
    if (!code) code = serve_names(&s);
    for (size_t i = 0; i < count && !code; i++)
        if (access(words[i], R_OK)) code = cli_failed("cannot read %s: %s", words[i], cli_error_text(errno));
    if (!code) code = serve_keys(&s);
    if (!code && !(s.open_by_key = calloc(s.key_count + 1, sizeof *s.open_by_key))) code = cli_failed("out of memory");
    if (!code) code = serve_enough(o, cli_memory_now());
    if (!code) code = cli_http_open();
    if (!code) code = cli_serve_bind(&s);
    for (size_t i = 0; i < count && !code; i++) code = serve_load(&s, &s.models[i]);
    if (!code) code = serve_engines(&s);
    if (!code) code = serve_run(&s);
    cli_serve_close(&s);
    serve_free(&s);
    return code;
}
#else
static int serve(const struct cli_serve_options *o, const char *const *words, size_t count) {
    (void)o, (void)words, (void)count;
    return cli_failed(
        "this qkv was built without libmicrohttpd, which serves HTTP; install libmicrohttpd-dev and build "
        "again");
}
#endif

static int serve_command(const void *values, const char *const *words, size_t count) {
    const struct cli_serve_options *o = values;
    if (!count) return cli_usage("serve: name a model: %s serve MODEL", cli_program);
    return serve(o, words, count);
}

const struct cli_command *cli_serve(void) {
    static const struct cli_command command = {
        .name = "serve",
        .words = CLI_WORDS_MODELS,
        .summary = "answer requests over HTTP, as OpenAI's interface has them",
        .usage = "MODEL [MODEL...] [options]",
        .description =
            "Programs that speak OpenAI's interface can use the models: /v1/completions, /v1/chat/completions (whole "
            "or as a stream, with tools), /v1/embeddings, /v1/models; /classify, /translate, /tokenize, /detokenize, "
            "/apply-template; /health, and /metrics for Prometheus. Requests are answered together, in one batch of "
            "each model; prompts that begin alike are read "
            "once. An answer has the bytes that the request gets alone: it depends on its own fields and seed, and on "
            "nothing else.\n\n"
            "One model may be loaded with many adapters, --adapter NAME=FOLDER for each: they are models of their own "
            "for requests, by their names, and share its weights; what decoders make for them is one batch.\n\n"
            "It listens on this machine alone unless --host says otherwise, prints its address on standard output, and "
            "a line for each request on standard error. It knows no TLS: put a proxy in front for that. Interrupted, "
            "it finishes what runs, within --grace seconds.\n\n"
            "Memory has a ceiling that is said at the start: what is too much is refused with status 503, never taken. "
            "Fields of requests that make no sense, or that are not known, get status 400 and the field's name.",
        .examples = "qkv serve instruct.gguf --port 8080 --memory 2G",
        .options = options,
        .option_count = CLI_COUNT_OF(options),
        .rules = rules,
        .rule_count = CLI_COUNT_OF(rules),
        .defaults = &defaults,
        .size = sizeof defaults,
        .arguments = 64,
        .run = serve_command,
    };
    return &command;
}
