/* run_csv: the steps of runs as a table. */
#include <math.h>

#include "lab/report/run.h"

static void run_csv_step(struct qkv_csv *t, const char *name, const struct qkv_run_step *s, bool experts, bool metric) {
    qkv_csv_text(t, name);
    qkv_csv_real(t, (double)s->step);
    qkv_csv_real(t, s->seconds);
    qkv_csv_real(t, s->tokens);
    qkv_csv_real(t, s->loss);
    qkv_csv_real(t, s->norm);
    qkv_csv_real(t, s->rate);
    qkv_csv_real(t, s->tokens_per_second);
    qkv_csv_real(t, s->valid_loss);
    if (experts) qkv_csv_real(t, s->expert_load);
    if (experts) qkv_csv_real(t, s->experts_unused);
    if (metric) qkv_csv_real(t, s->metric);
    qkv_csv_end_line(t);
}

enum qkv_status qkv_runs_write_csv(struct qkv_context *ctx, struct qkv_run *const *runs, size_t count, FILE *file) {
    QKV_CALL(ctx);
    static const char *const names[] = {"run",  "step", "seconds",           "tokens",    "loss",
                                        "norm", "rate", "tokens_per_second", "valid_loss"};
    struct qkv_csv t = {.ctx = ctx};
    bool metric = false, experts = false;
    char **labels;
    enum qkv_status status = qkv_run_names(ctx, runs, count, &labels);
    if (status) return status;
    for (size_t i = 0; i < count; i++) {
        metric |= runs[i]->metric != NULL;
        for (size_t k = 0; k < runs[i]->count && !experts; k++) experts = !isnan(runs[i]->steps[k].expert_load);
    }
    for (size_t c = 0; c < sizeof names / sizeof *names; c++) qkv_csv_text(&t, names[c]);
    if (experts) qkv_csv_text(&t, "expert_load");
    if (experts) qkv_csv_text(&t, "experts_unused");
    if (metric) qkv_csv_text(&t, "metric");
    qkv_csv_end_line(&t);
    for (size_t i = 0; i < count && !t.status; i++)
        for (size_t k = 0; k < runs[i]->count && !t.status; k++)
            run_csv_step(&t, labels[i], &runs[i]->steps[k], experts, metric);
    if (!t.status && fwrite(t.text.data, 1, t.text.size, file) != t.text.size)
        t.status = qkv_fail(ctx, QKV_FILE, "the table could not be written; free some space or choose another disk");
    qkv_buffer_free(&t.text);
    qkv_free_names(labels, count);
    return t.status;
}
