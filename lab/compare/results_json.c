/* results_json: the results as JSON; with the curves of all runs for the page:
 *
 *   {"format": "qkv-comparison", "version": 1, "machine": …, "valid": …, "seeds": [1337], "prompt_tokens": 512,
 *    "cache_lengths": [64, …], "best": null, "fastest_prompt": null, "fastest_decode": [null, …],
 *    "variants": [{"name": "gqa:2", "folders": […], "failure": null, "parameters": …, "valid_losses": […],
 *                  "valid_loss": …, "deviation": null, "train_tokens_per_second": …, "prompt_tokens_per_second": …,
 *                  "decode_tokens_per_second": […], "cache_bytes_per_token": …, "train_bytes": …, "run_bytes": …}]} */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/compare/results.h"

enum { POINTS = 400 };

/* Writes the step and the smoothed loss (qkv_run_smooth) of `points` points; a point is the last of the steps that
 * it replaces. */
static void put_training(struct qkv_json *json, const struct qkv_run *run, size_t points) {
    size_t count = qkv_run_steps(run);
    double *smooth = qkv_allocate(json->ctx, count, sizeof *smooth);
    if (!smooth) {
        json->status = QKV_MEMORY;
        return;
    }
    qkv_run_smooth(run, smooth);
    qkv_json_key(json, "step");
    qkv_json_begin(json, '[');
    for (size_t p = 0; p < points; p++) qkv_json_integer(json, qkv_run_step(run, (p + 1) * count / points - 1)->step);
    qkv_json_end(json, ']');
    qkv_json_key(json, "loss");
    qkv_json_begin(json, '[');
    for (size_t p = 0; p < points; p++) qkv_json_number(json, smooth[(p + 1) * count / points - 1], 6);
    qkv_json_end(json, ']');
    free(smooth);
}

static void put_evaluations(struct qkv_json *json, const struct qkv_run *run, const char *key, bool loss) {
    qkv_json_key(json, key);
    qkv_json_begin(json, '[');
    for (size_t i = 0; i < qkv_run_steps(run); i++) {
        const struct qkv_run_step *s = qkv_run_step(run, i);
        if (isfinite(s->valid_loss)) qkv_json_number(json, loss ? s->valid_loss : (double)s->step, 9);
    }
    qkv_json_end(json, ']');
}

/* Writes "curves": for each seed the steps, the smoothed training loss, and the evaluations. */
static void put_curves(struct qkv_json *json, const struct qkv_comparison *c, const struct qkv_variant_state *v) {
    qkv_json_key(json, "curves");
    qkv_json_begin(json, '[');
    for (size_t s = 0; s < v->folders.count; s++) {
        struct qkv_run *run = NULL;
        char *folder = qkv_join_path(c->ctx, c->folder, v->folders.items[s]);
        if (folder && !qkv_run_read(c->ctx, folder, &run)) {
            size_t count = qkv_run_steps(run), points = count < POINTS ? count : POINTS;
            qkv_json_begin(json, '{');
            put_training(json, run, points);
            put_evaluations(json, run, "valid_step", false);
            put_evaluations(json, run, "valid_loss", true);
            qkv_json_end(json, '}');
        }
        qkv_run_free(run);
        free(folder);
    }
    qkv_json_end(json, ']');
}

static void put_numbers(struct qkv_json *json, const char *key, const double *x, size_t count, int digits) {
    qkv_json_key(json, key);
    qkv_json_begin(json, '[');
    for (size_t i = 0; i < count; i++) qkv_json_number(json, x[i], digits);
    qkv_json_end(json, ']');
}

static void put_measures(struct qkv_json *json, const struct qkv_comparison *c, const struct qkv_variant *v) {
    qkv_json_put_integer(json, "parameters", (int64_t)v->costs.parameters);
    put_numbers(json, "valid_losses", v->losses, c->seeds, 9);
    qkv_json_put_number(json, "valid_loss", v->loss, 9);
    qkv_json_put_number(json, "deviation", v->deviation, 6);
    qkv_json_put_number(json, "train_tokens_per_second", v->train_speed, 6);
    qkv_json_put_number(json, "prompt_tokens_per_second", v->prompt_speed, 6);
    put_numbers(json, "decode_tokens_per_second", v->decode_speeds, c->cache_count, 6);
    qkv_json_put_integer(json, "cache_bytes_per_token", (int64_t)v->costs.cache_bytes_per_token);
    qkv_json_put_integer(json, "train_bytes", (int64_t)v->memory);
    qkv_json_put_integer(json, "run_bytes", (int64_t)v->costs.run_bytes);
}

static void put_variant(struct qkv_json *json, const struct qkv_comparison *c, const struct qkv_variant_state *v,
                        bool curves) {
    qkv_json_begin(json, '{');
    qkv_json_put_text(json, "name", v->shown.name);
    qkv_json_key(json, "folders");
    qkv_json_begin(json, '[');
    for (size_t s = 0; s < v->folders.count; s++) qkv_json_text(json, v->folders.items[s]);
    qkv_json_end(json, ']');
    qkv_json_put_text(json, "failure", v->shown.failure);
    if (v->shown.measured) put_measures(json, c, &v->shown);
    if (curves) put_curves(json, c, v);
    qkv_json_end(json, '}');
}

/* Writes the machine of the latest run, in words. */
static void put_machine(struct qkv_json *json, const struct qkv_comparison *c) {
    const char *machine = NULL;
    struct qkv_run *run = NULL;
    for (size_t i = c->count; i-- > 0 && !machine;) {
        char *folder = qkv_join_path(c->ctx, c->folder, c->variants[i].folders.items[0]);
        qkv_run_free(run);
        run = NULL;
        if (folder && !qkv_run_read(c->ctx, folder, &run)) machine = qkv_run_machine(run);
        free(folder);
    }
    qkv_json_put_text(json, "machine", machine);
    qkv_run_free(run);
}

void qkv_comparison_put(struct qkv_json *json, const struct qkv_comparison *c, bool curves) {
    qkv_json_begin(json, '{');
    qkv_json_put_text(json, "format", "qkv-comparison");
    qkv_json_put_integer(json, "version", 1);
    put_machine(json, c);
    qkv_json_put_text(json, "valid", c->valid);
    qkv_json_key(json, "seeds");
    qkv_json_begin(json, '[');
    for (size_t s = 0; s < c->seeds; s++) qkv_json_integer(json, c->seed + (int64_t)s);
    qkv_json_end(json, ']');
    qkv_json_put_integer(json, "prompt_tokens", (int64_t)c->prompt);
    qkv_json_key(json, "cache_lengths");
    qkv_json_begin(json, '[');
    for (size_t i = 0; i < c->cache_count; i++) qkv_json_integer(json, (int64_t)c->caches[i]);
    qkv_json_end(json, ']');
    const struct qkv_variant *best = qkv_comparison_best(c);
    qkv_json_put_text(json, "best", best ? best->name : NULL);
    best = qkv_comparison_fastest(c, SIZE_MAX);
    qkv_json_put_text(json, "fastest_prompt", best ? best->name : NULL);
    qkv_json_key(json, "fastest_decode");
    qkv_json_begin(json, '[');
    for (size_t i = 0; i < c->cache_count; i++) {
        best = qkv_comparison_fastest(c, i);
        qkv_json_text(json, best ? best->name : NULL);
    }
    qkv_json_end(json, ']');
    qkv_json_key(json, "variants");
    qkv_json_begin(json, '[');
    for (size_t i = 0; i < c->count; i++) put_variant(json, c, &c->variants[i], curves);
    qkv_json_end(json, ']');
    qkv_json_end(json, '}');
}

enum qkv_status qkv_comparison_write_json(const struct qkv_comparison *c, const char *path) {
    struct qkv_json json = {.ctx = c->ctx, .style = QKV_JSON_SCRIPT};
    qkv_comparison_put(&json, c, false);
    enum qkv_status status = json.status ? json.status : qkv_buffer_append(c->ctx, &json.text, "\n", 1);
    if (!status) status = qkv_write_file(c->ctx, path, json.text.data, json.text.size);
    qkv_buffer_free(&json.text);
    return status;
}
