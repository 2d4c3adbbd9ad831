/* serve_metrics.c: what "qkv serve" counts: /metrics for Prometheus, and the lines of its log. */
#include "cli_serve.h"

#ifdef QKV_MICROHTTPD
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const double bounds[CLI_SERVE_BUCKETS] = {0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
                                                 1,     2.5,   5,    10,    20,   60,  180,  600};

void cli_histogram_add(struct cli_histogram *h, double value) {
    size_t i = 0;
    while (i < CLI_SERVE_BUCKETS && value > bounds[i]) i++;
    h->counts[i]++;
    h->count++;
    h->sum += value;
}

/* ---- the log ----------------------------------------------------------------------------------------------------- */

/* What answers a call, by its name in requests; NULL: not known yet. */
static const char *call_model(const struct cli_call *c) {
    return c->request.adapter ? c->request.adapter : c->served ? c->served->name : NULL;
}

static void log_json(const struct cli_call *c, const char *when) {
    struct qkv_json out = cli_serve_json();
    qkv_json_begin(&out, '{');
    qkv_json_put_text(&out, "time", when);
    qkv_json_put_text(&out, "id", c->id);
    qkv_json_put_text(&out, "address", c->address);
    qkv_json_put_text(&out, "method", c->method);
    qkv_json_put_text(&out, "path", c->path);
    qkv_json_put_integer(&out, "status", c->status);
    qkv_json_put_text(&out, "model", call_model(c));
    qkv_json_put_count(&out, "prompt_tokens", c->request.prompt_tokens);
    qkv_json_put_count(&out, "cached_tokens", c->request.cached_tokens);
    qkv_json_put_count(&out, "tokens", c->request.tokens);
    qkv_json_put_fixed(&out, "first_token", c->first > 0 ? c->first - c->began : 0, 4);
    qkv_json_put_fixed(&out, "seconds", qkv_clock() - c->began, 4);
    qkv_json_end(&out, '}');
    if (!out.status) fprintf(stderr, "%s\n", out.text.data);
    qkv_json_free(&out);
}

static void log_text(const struct cli_call *c, const char *when) {
    const double seconds = qkv_clock() - c->began;
    char path[sizeof c->path];
    for (size_t i = 0; i < sizeof path; i++)
        path[i] = c->path[i] && ((unsigned char)c->path[i] < 32 || c->path[i] == 127) ? '?' : c->path[i];
    fprintf(stderr, "%s %d %s %s", when, c->status, c->method, path);
    if (c->served) fprintf(stderr, " %s", call_model(c));
    if (c->first > 0)
        fprintf(stderr, ", %zu (%zu cached) + %zu tokens, first after %.2f s, %.1f tokens/s", c->request.prompt_tokens,
                c->request.cached_tokens, c->request.tokens, c->first - c->began,
                seconds > 0 ? (double)c->request.tokens / seconds : 0);
    fprintf(stderr, ", %.3f s, %s %s\n", seconds, c->address, c->id);
}

void cli_serve_ended(struct cli_call *c) {
    struct cli_server *s = c->server;
    char when[32];
    struct tm parts;
    const time_t now = time(NULL);
    if (!c->status) c->status = CLI_SERVE_GONE;
    s->counts.gone += c->status == CLI_SERVE_GONE || (c->answered && !c->whole);
    s->counts.by_status[c->status / 100 <= 5 ? c->status / 100 : 0]++;
    if (c->route && c->route->queued && c->status == 200) cli_histogram_add(&s->counts.whole, qkv_clock() - c->began);
    if (!s->options->log || !strcmp(s->options->log, "none")) return;
    localtime_r(&now, &parts);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &parts);
    (strcmp(s->options->log, "json") == 0 ? log_json : log_text)(c, when);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* A text that grows by lines; `fine` false: no memory. */
struct lines {
    struct cli_bytes *out;
    bool fine;
};

static void metrics_line(struct lines *to, const char *format, ...) CLI_PRINTF(2, 3);
static void metrics_line(struct lines *to, const char *format, ...) {
    char line[512];
    va_list list;
    va_start(list, format);
    const int size = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    to->fine = to->fine && size >= 0 && (size_t)size < sizeof line && cli_bytes_add(to->out, line, (size_t)size);
}

static void metrics_head(struct lines *to, const char *name, const char *type, const char *help) {
    metrics_line(to, "# HELP qkv_%s %s\n# TYPE qkv_%s %s\n", name, help, name, type);
}

/* The name of a model as the value of a label. */
static const char *label(const char *name, char text[256]) {
    size_t size = 0;
    for (; *name && size < 250; name++) {
        if (strchr("\\\"\n", *name)) text[size++] = '\\';
        text[size++] = *name == '\n' ? 'n' : *name;
    }
    text[size] = 0;
    return text;
}

static void metrics_histogram(struct lines *to, const char *name, const char *help, const struct cli_histogram *h) {
    uint64_t count = 0;
    metrics_head(to, name, "histogram", help);
    for (size_t i = 0; i < CLI_SERVE_BUCKETS; i++)
        metrics_line(to, "qkv_%s_bucket{le=\"%g\"} %llu\n", name, bounds[i],
                     (unsigned long long)(count += h->counts[i]));
    metrics_line(to, "qkv_%s_bucket{le=\"+Inf\"} %llu\nqkv_%s_sum %.6f\nqkv_%s_count %llu\n", name,
                 (unsigned long long)h->count, name, h->sum, name, (unsigned long long)h->count);
}

/* The numbers of every model: one list of names, kinds and values. */
static double used_pages(const struct qkv_engine_state *e) {
    return e->pages ? (double)(e->pages - e->free_pages - e->kept_pages) / (double)e->pages : 0;
}
static double kept_pages(const struct qkv_engine_state *e) {
    return e->pages ? (double)e->kept_pages / (double)e->pages : 0;
}
#define COUNT_OF(field)                                                                                                \
    static double field##_of(const struct qkv_engine_state *e) {                                                       \
        return (double)e->field;                                                                                       \
    }
COUNT_OF(running)
COUNT_OF(waiting)
COUNT_OF(memory)
COUNT_OF(prompt_tokens)
COUNT_OF(cached_tokens)
COUNT_OF(tokens)
COUNT_OF(steps)
COUNT_OF(put_off)
COUNT_OF(drafted)
COUNT_OF(accepted)
static const struct {
    const char *name, *type, *help;
    double (*value)(const struct qkv_engine_state *e);
} numbers[] = {
    {"answers_running", "gauge", "Answers that are made.", running_of},
    {"answers_waiting", "gauge", "Answers that wait for a row or for pages.", waiting_of},
    {"cache_usage_ratio", "gauge", "Share of the pages of the cache that answers use.", used_pages},
    {"cache_kept_ratio", "gauge", "Share of the pages of the cache that are kept for prompts that begin alike.",
     kept_pages},
    {"engine_memory_bytes", "gauge", "Memory of the cache and of steps, as planned.", memory_of},
    {"prompt_tokens_total", "counter", "Tokens of prompts that were computed.", prompt_tokens_of},
    {"prompt_tokens_cached_total", "counter", "Tokens of prompts that were found in the cache.", cached_tokens_of},
    {"generation_tokens_total", "counter", "Tokens that were made.", tokens_of},
    {"steps_total", "counter", "Steps of the engine.", steps_of},
    {"preemptions_total", "counter", "How often an answer gave its pages back, to be computed again.", put_off_of},
    {"drafted_tokens_total", "counter", "Tokens that were guessed.", drafted_of},
    {"accepted_tokens_total", "counter", "Tokens that were guessed and then chosen.", accepted_of},
};

static void metrics_models(struct lines *to, const struct cli_server *s) {
    static const char *const reasons[] = {NULL, "stop", "length", "cancelled", "failed", "read"};
    char name[256];
    for (size_t i = 0; i < CLI_COUNT_OF(numbers); i++) {
        metrics_head(to, numbers[i].name, numbers[i].type, numbers[i].help);
        for (size_t k = 0; k < s->model_count; k++)
            metrics_line(to, "qkv_%s{model=\"%s\"} %.17g\n", numbers[i].name, label(s->models[k].name, name),
                         numbers[i].value(&s->models[k].state));
    }
    metrics_head(to, "answers_finished_total", "counter", "Answers that have ended, by their reason.");
    for (size_t k = 0; k < s->model_count; k++)
        for (size_t i = QKV_FINISH_STOP; i <= QKV_FINISH_READ; i++)
            metrics_line(to, "qkv_answers_finished_total{model=\"%s\",reason=\"%s\"} %llu\n",
                         label(s->models[k].name, name), reasons[i],
                         (unsigned long long)s->models[k].counts.finished[i]);
}

bool cli_serve_metrics(struct cli_server *s, struct cli_bytes *out) {
    struct lines to = {out, true};
    metrics_head(&to, "requests_total", "counter", "Requests of HTTP, by the hundreds of their status.");
    for (size_t i = 1; i <= 5; i++)
        metrics_line(&to, "qkv_requests_total{status=\"%zuxx\"} %llu\n", i, (unsigned long long)s->counts.by_status[i]);
    metrics_head(&to, "requests_open", "gauge", "Requests that wait for an answer of a model.");
    metrics_line(&to, "qkv_requests_open %zu\n", s->open);
    metrics_head(&to, "requests_refused_total", "counter", "Requests that were refused because too many waited.");
    metrics_line(&to,
                 "qkv_requests_refused_total{limit=\"queue\"} %llu\nqkv_requests_refused_total{limit=\"key\"} %llu\n",
                 (unsigned long long)s->counts.refused_queue, (unsigned long long)s->counts.refused_key);
    metrics_head(&to, "requests_gone_total", "counter", "Requests whose client went away.");
    metrics_line(&to, "qkv_requests_gone_total %llu\n", (unsigned long long)s->counts.gone);
    metrics_head(&to, "requests_memory_bytes", "gauge", "Memory that is kept for open requests.");
    metrics_line(&to, "qkv_requests_memory_bytes %llu\n", (unsigned long long)s->needs);
    metrics_models(&to, s);
    metrics_histogram(&to, "time_to_first_token_seconds", "From a request to its first token.", &s->counts.first_token);
    metrics_histogram(&to, "inter_token_latency_seconds", "Between tokens of an answer.", &s->counts.between_tokens);
    metrics_histogram(&to, "request_read_seconds", "From a request to its way into an engine.", &s->counts.queued);
    metrics_histogram(&to, "e2e_request_latency_seconds", "From a request to the end of its answer.", &s->counts.whole);
    return to.fine;
}
#endif
