/* results_page: the results with the curves of all runs as a page. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/compare/results.h"

enum { POINTS = 400 };

/* The step or the loss of `points` points, each the mean of the steps it stands for. */
static void put_column(struct qkv_json *json, const struct qkv_run *run, size_t points, const char *key, bool loss) {
    size_t count = qkv_run_steps(run);
    qkv_json_key(json, key);
    qkv_json_begin(json, '[');
    for (size_t p = 0; p < points; p++) {
        size_t begin = p * count / points, end = (p + 1) * count / points, n = 0;
        double sum = 0;
        for (size_t i = begin; i < end; i++) {
            const struct qkv_run_step *s = qkv_run_step(run, i);
            double x = loss ? s->loss : (double)s->step;
            if (!isfinite(x)) continue;
            sum += x;
            n++;
        }
        qkv_json_number(json, n ? sum / (double)n : NAN, 6);
    }
    qkv_json_end(json, ']');
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

void qkv_comparison_put_curves(struct qkv_json *json, const struct qkv_comparison *c,
                               const struct qkv_variant_state *v) {
    qkv_json_key(json, "curves");
    qkv_json_begin(json, '[');
    for (size_t s = 0; s < v->folders.count; s++) {
        struct qkv_run *run = NULL;
        char *folder = qkv_join_path(c->ctx, c->folder, v->folders.items[s]);
        if (folder && !qkv_run_read(c->ctx, folder, &run)) {
            size_t count = qkv_run_steps(run), points = count < POINTS ? count : POINTS;
            qkv_json_begin(json, '{');
            put_column(json, run, points, "step", false);
            put_column(json, run, points, "loss", true);
            put_evaluations(json, run, "valid_step", false);
            put_evaluations(json, run, "valid_loss", true);
            qkv_json_end(json, '}');
        }
        qkv_run_free(run);
        free(folder);
    }
    qkv_json_end(json, ']');
}

enum qkv_status qkv_comparison_write_page(const struct qkv_comparison *c, const char *path) {
    static const char *const scripts[] = {"chart.js", "compare.js", NULL};
    struct qkv_json json = {.ctx = c->ctx};
    char title[256], summary[256];
    size_t n = strlen(c->folder);
    while (n > 1 && c->folder[n - 1] == '/') n--;
    size_t begin = n;
    while (begin > 0 && c->folder[begin - 1] != '/') begin--;
    snprintf(title, sizeof title, "Comparison %.*s", (int)(n - begin < 200 ? n - begin : 200), c->folder + begin);
    snprintf(summary, sizeof summary, "%zu variants on the same data, with %zu seed%s", c->count, c->seeds,
             c->seeds == 1 ? "" : "s each");
    qkv_comparison_put(&json, c, true);
    enum qkv_status status = json.status;
    if (!status)
        status = qkv_page_write(c->ctx,
                                &(struct qkv_page){.title = title,
                                                   .summary = summary,
                                                   .scripts = scripts,
                                                   .data = json.text.data,
                                                   .data_size = json.text.size},
                                path);
    qkv_buffer_free(&json.text);
    return status;
}
