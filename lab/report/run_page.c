/* run_page: runs side by side as the data of a page. Curves are columns of numbers. In a long run, a point replaces
 * several steps: their mean, and their lowest and highest loss. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/report/run.h"

enum { POINTS = 1500, SAMPLES = 100, SAMPLE_BYTES = 20000 };

/* A column: which number of a step it holds. */
struct column {
    const char *name;
    size_t offset;
    int digits;
};
#define COLUMN(field, digits)                                                                                          \
    { #field, offsetof(struct qkv_run_step, field), digits }
static const struct column columns[] = {
    COLUMN(seconds, 6),           COLUMN(loss, 6),   COLUMN(norm, 5), COLUMN(rate, 5),
    COLUMN(tokens_per_second, 5), COLUMN(tokens, 12)};

static double run_page_at(const struct qkv_run_step *step, size_t offset) {
    double x;
    memcpy(&x, (const char *)step + offset, sizeof x);
    return x;
}

/* The first step of point p. */
static size_t begin_of(const struct qkv_run *run, size_t p, size_t points) {
    return (size_t)((double)run->count * (double)p / (double)points);
}

static double mean_of(const struct qkv_run *run, size_t begin, size_t end, size_t offset) {
    double sum = 0;
    size_t n = 0;
    for (size_t i = begin; i < end; i++) {
        double x = run_page_at(&run->steps[i], offset);
        if (isnan(x)) continue;
        sum += x;
        n++;
    }
    return n ? sum / (double)n : NAN;
}

static void put_column(struct qkv_json *json, const struct qkv_run *run, size_t points, const struct column *c) {
    bool grows = !strcmp(c->name, "seconds") || !strcmp(c->name, "tokens");
    qkv_json_key(json, c->name);
    qkv_json_begin(json, '[');
    for (size_t p = 0; p < points; p++) {
        size_t begin = begin_of(run, p, points), end = begin_of(run, p + 1, points);
        qkv_json_number(json,
                        grows ? run_page_at(&run->steps[end - 1], c->offset) : mean_of(run, begin, end, c->offset),
                        c->digits);
    }
    qkv_json_end(json, ']');
}

/* Writes the loads of a layer's experts, {"name": "decoder 0", "load": […]}, if it has any. */
static void put_layer_loads(struct qkv_json *json, const struct qkv_run *run, size_t points, size_t layer) {
    const bool encoder = layer < run->encoder_layers;
    char name[48];
    bool has = false;
    for (size_t i = 0; i < run->count && !has; i++) has = !isnan(qkv_run_load(run, i, layer));
    if (!has) return;
    snprintf(name, sizeof name, "%s %zu", encoder ? "encoder" : "decoder",
             encoder ? layer : layer - run->encoder_layers);
    qkv_json_begin(json, '{');
    qkv_json_put_text(json, "name", name);
    qkv_json_key(json, "load");
    qkv_json_begin(json, '[');
    for (size_t p = 0; p < points; p++) {
        double sum = 0;
        size_t n = 0;
        for (size_t i = begin_of(run, p, points); i < begin_of(run, p + 1, points); i++) {
            const double x = qkv_run_load(run, i, layer);
            if (!isnan(x)) sum += x, n++;
        }
        qkv_json_number(json, n ? sum / (double)n : NAN, 4);
    }
    qkv_json_end(json, ']');
    qkv_json_end(json, '}');
}

static void put_loads(struct qkv_json *json, const struct qkv_run *run, size_t points) {
    static const struct column own[] = {COLUMN(expert_load, 5), COLUMN(experts_unused, 5)};
    bool has = false;
    for (size_t i = 0; i < run->count && !has; i++) has = !isnan(run->steps[i].expert_load);
    if (!has) return;
    for (size_t c = 0; c < sizeof own / sizeof *own; c++) put_column(json, run, points, &own[c]);
    qkv_json_key(json, "layers");
    qkv_json_begin(json, '[');
    for (size_t l = 0; l < run->load_layers; l++) put_layer_loads(json, run, points, l);
    qkv_json_end(json, ']');
}

static void put_extremes(struct qkv_json *json, const struct qkv_run *run, size_t points, bool high) {
    qkv_json_key(json, high ? "high" : "low");
    qkv_json_begin(json, '[');
    for (size_t p = 0; p < points; p++) {
        double extreme = NAN;
        for (size_t i = begin_of(run, p, points); i < begin_of(run, p + 1, points); i++) {
            double x = run->steps[i].loss;
            if (isnan(extreme) || (high ? x > extreme : x < extreme)) extreme = x;
        }
        qkv_json_number(json, extreme, 6);
    }
    qkv_json_end(json, ']');
}

static void put_smooth(struct qkv_json *json, const struct qkv_run *run, size_t points) {
    double *smooth = qkv_allocate(run->ctx, run->count, sizeof *smooth);
    if (!smooth) {
        json->status = QKV_MEMORY;
        return;
    }
    qkv_run_smooth(run, smooth);
    qkv_json_key(json, "smooth");
    qkv_json_begin(json, '[');
    for (size_t p = 0; p < points; p++) qkv_json_number(json, smooth[begin_of(run, p + 1, points) - 1], 6);
    qkv_json_end(json, ']');
    free(smooth);
}

static void put_curves(struct qkv_json *json, const struct qkv_run *run) {
    size_t points = run->count < POINTS ? run->count : POINTS;
    qkv_json_key(json, "curves");
    qkv_json_begin(json, '{');
    qkv_json_key(json, "step");
    qkv_json_begin(json, '[');
    for (size_t p = 0; p < points; p++) qkv_json_integer(json, run->steps[begin_of(run, p + 1, points) - 1].step);
    qkv_json_end(json, ']');
    for (size_t c = 0; c < sizeof columns / sizeof *columns; c++) put_column(json, run, points, &columns[c]);
    put_loads(json, run, points);
    put_smooth(json, run, points);
    if (points < run->count) put_extremes(json, run, points, false);
    if (points < run->count) put_extremes(json, run, points, true);
    qkv_json_end(json, '}');
}

/* Writes the steps with an evaluation: all, unless there are very many. */
static void put_evaluations(struct qkv_json *json, const struct qkv_run *run) {
    size_t all = 0, seen = 0;
    for (size_t i = 0; i < run->count; i++) all += isnan(run->steps[i].valid_loss) ? 0 : 1;
    size_t every = all / POINTS + 1;
    qkv_json_key(json, "evaluations");
    qkv_json_begin(json, '[');
    for (size_t i = 0; i < run->count; i++) {
        const struct qkv_run_step *s = &run->steps[i];
        if (isnan(s->valid_loss) || (seen++ % every && seen != all)) continue;
        qkv_json_begin(json, '[');
        qkv_json_integer(json, s->step);
        qkv_json_number(json, s->seconds, 6);
        qkv_json_number(json, s->valid_loss, 6);
        qkv_json_number(json, s->metric, 6);
        qkv_json_end(json, ']');
    }
    qkv_json_end(json, ']');
}

static void put_samples(struct qkv_json *json, const struct qkv_run *run) {
    qkv_json_key(json, "samples");
    qkv_json_begin(json, '[');
    for (size_t i = run->sample_count > SAMPLES ? run->sample_count - SAMPLES : 0; i < run->sample_count; i++) {
        const struct qkv_run_sample *s = &run->samples[i];
        qkv_json_begin(json, '{');
        qkv_json_put_integer(json, "step", s->step);
        qkv_json_key(json, "text");
        qkv_json_string(json, s->text, s->size < SAMPLE_BYTES ? s->size : SAMPLE_BYTES);
        qkv_json_end(json, '}');
    }
    qkv_json_end(json, ']');
}

/* Copies JSON of other programs value by value, so that nothing in it can end its element; jansson bounds its depth. */
static void put_value(struct qkv_json *json, const json_t *value) {
    const char *key;
    json_t *member;
    size_t i;
    switch (value ? json_typeof(value) : JSON_NULL) {
    case JSON_OBJECT:
        qkv_json_begin(json, '{');
        json_object_foreach((json_t *)(uintptr_t)value, key, member) {
            qkv_json_key(json, key);
            put_value(json, member);
        }
        qkv_json_end(json, '}');
        return;
    case JSON_ARRAY:
        qkv_json_begin(json, '[');
        json_array_foreach(value, i, member) put_value(json, member);
        qkv_json_end(json, ']');
        return;
    case JSON_STRING:
        qkv_json_string(json, json_string_value(value), json_string_length(value));
        return;
    case JSON_INTEGER:
        qkv_json_integer(json, json_integer_value(value));
        return;
    case JSON_REAL:
        qkv_json_number(json, json_real_value(value), 15);
        return;
    case JSON_TRUE:
    case JSON_FALSE:
        qkv_json_bool(json, json_is_true(value));
        return;
    case JSON_NULL:
        qkv_json_string(json, NULL, 0);
    }
}

static void put_summary(struct qkv_json *json, const struct qkv_run *run) {
    struct qkv_run_summary s = qkv_run_summarize(run);
    qkv_json_key(json, "summary");
    qkv_json_begin(json, '{');
    qkv_json_put_integer(json, "step", s.step);
    qkv_json_put_number(json, "loss", s.loss, 9);
    qkv_json_put_number(json, "seconds", s.seconds, 9);
    qkv_json_put_number(json, "valid_loss", s.valid_loss, 9);
    qkv_json_put_number(json, "metric", s.metric, 9);
    qkv_json_put_number(json, "best", s.best, 9);
    qkv_json_put_integer(json, "best_step", s.best_step);
    qkv_json_put_number(json, "tokens_per_second", s.tokens_per_second, 9);
    qkv_json_end(json, '}');
}

static void put_condition(struct qkv_json *json, const struct qkv_run_condition *c) {
    char time[QKV_UTC_TEXT];
    qkv_json_put_text(json, "state", qkv_run_state_name(c->state));
    qkv_json_put_bool(json, "killed", c->killed);
    qkv_json_put_integer(json, "saved", c->saved);
    qkv_json_put_text(json, "updated", c->updated ? qkv_utc_text(time, c->updated) : NULL);
    qkv_json_put_text(json, "message", c->message[0] ? c->message : NULL);
}

static void put_run(struct qkv_json *json, const struct qkv_run *run, const char *name) {
    qkv_json_begin(json, '{');
    qkv_json_put_text(json, "name", name);
    qkv_json_put_text(json, "folder", run->folder);
    qkv_json_put_text(json, "unit", qkv_run_unit(run));
    qkv_json_put_integer(json, "planned", run->planned);
    put_condition(json, &run->condition);
    qkv_json_put_integer(json, "damaged", (int64_t)run->damaged);
    qkv_json_put_text(json, "metric", run->metric);
    qkv_json_put_text(json, "machine", run->machine);
    qkv_json_put_integer(json, "parameters", (int64_t)run->parameters);
    put_summary(json, run);
    put_curves(json, run);
    put_evaluations(json, run);
    put_samples(json, run);
    qkv_json_key(json, "options");
    put_value(json, run->options);
    qkv_json_key(json, "spec");
    put_value(json, run->spec);
    qkv_json_key(json, "machines");
    put_value(json, run->machines);
    qkv_json_end(json, '}');
}

enum qkv_status qkv_runs_write_page(struct qkv_context *ctx, struct qkv_run *const *runs, size_t count, int refresh,
                                    const char *path) {
    QKV_CALL(ctx);
    static const char *const scripts[] = {"chart.js", "report.js", NULL};
    struct qkv_json json = {.ctx = ctx, .style = QKV_JSON_SCRIPT};
    char title[256], summary[96];
    char **names = NULL;
    if (!count) return qkv_fail(ctx, QKV_ARGUMENT, "there is no run to report on; name the folder of one");
    enum qkv_status status = qkv_run_names(ctx, runs, count, &names);
    if (status) return status;
    qkv_json_begin(&json, '{');
    qkv_json_put_text(&json, "kind", "report");
    qkv_json_put_integer(&json, "refresh", refresh);
    qkv_json_put_integer(&json, "smooth_tokens", QKV_RUN_SMOOTH_TOKENS);
    qkv_json_put_integer(&json, "smooth_share", QKV_RUN_SMOOTH_SHARE);
    qkv_json_key(&json, "runs");
    qkv_json_begin(&json, '[');
    for (size_t i = 0; i < count; i++) put_run(&json, runs[i], names[i]);
    qkv_json_end(&json, ']');
    qkv_json_end(&json, '}');
    if (count == 1)
        snprintf(title, sizeof title, "Training of %.200s", names[0]);
    else
        snprintf(title, sizeof title, "%zu training runs", count);
    snprintf(summary, sizeof summary, "in training; this page reloads itself every %d s", refresh);
    qkv_free_names(names, count);
    status = json.status;
    if (!status)
        status = qkv_page_write(ctx,
                                &(struct qkv_page){.title = title,
                                                   .summary = refresh > 0 ? summary : NULL,
                                                   .scripts = scripts,
                                                   .data = json.text.data,
                                                   .data_size = json.text.size,
                                                   .refresh = refresh},
                                path);
    qkv_buffer_free(&json.text);
    return status;
}
