/* run_summary: the latest and best numbers of a run's log, for the terminal and the page, and the smoothed line of
 * its losses. */
#include <math.h>
#include <string.h>

#include "lab/report/run.h"

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static double judged(const struct qkv_run *run, const struct qkv_run_step *step) {
    return run->metric ? step->metric : step->valid_loss;
}

static enum qkv_metric run_summary_metric(const struct qkv_run *run) {
    enum qkv_metric metric = QKV_METRIC_LOSS;
    if (run->metric) qkv_metric_find(run->metric, &metric);
    return metric;
}

struct qkv_run_summary qkv_run_summarize(const struct qkv_run *run) {
    struct qkv_run_summary s = {
        .loss = NAN, .valid_loss = NAN, .metric = NAN, .best = NAN, .seconds = NAN, .tokens_per_second = NAN};
    enum qkv_metric metric = run_summary_metric(run);
    size_t timed = 0;
    for (size_t i = 0; i < run->count; i++) {
        const struct qkv_run_step *step = &run->steps[i];
        double speed = step->tokens_per_second, x = judged(run, step);
        if (isfinite(speed)) {
            timed++;
            s.tokens_per_second =
                timed > 1 ? s.tokens_per_second + (speed - s.tokens_per_second) / (double)timed : speed;
        }
        if (isfinite(step->valid_loss)) s.valid_loss = step->valid_loss;
        if (!isfinite(x)) continue;
        s.evaluations++;
        if (run->metric) s.metric = x;
        if (!qkv_metric_better(metric, x, s.best)) continue;
        s.best = x;
        s.best_step = step->step;
    }
    if (!run->count) return s;
    s.step = run->steps[run->count - 1].step;
    s.loss = run->steps[run->count - 1].loss;
    s.seconds = run->steps[run->count - 1].seconds;
    return s;
}

bool qkv_run_ended(const struct qkv_run *run) {
    if (run->planned > 0 && run->count && run->steps[run->count - 1].step >= run->planned) return true;
    enum qkv_metric metric = run_summary_metric(run);
    double best = NAN;
    int64_t stale = 0;
    for (size_t i = 0; i < run->count; i++) {
        double x = judged(run, &run->steps[i]);
        if (isnan(x)) continue;
        bool better = qkv_metric_better(metric, x, best);
        stale = better ? 0 : stale + 1;
        if (better) best = x;
    }
    return run->patience > 0 && stale >= run->patience;
}

const char *qkv_run_unit(const struct qkv_run *run) {
    const char *task = json_string_value(json_object_get(run->options, "task"));
    if (json_is_string(json_object_get(run->options, "labeled"))) return "line";
    if (json_is_string(json_object_get(run->options, "pairs"))) return "target token";
    return task && !strcmp(task, "mlm") ? "masked token" : "token";
}

/* ---- the smoothed losses ----------------------------------------------------------------------------------------- */

void qkv_run_smooth(const struct qkv_run *run, double *out) {
    double read = 0, before = 0, tokens = 1, sum = 0, weight = 0;
    for (size_t i = 0; i < run->count; i++) {
        const struct qkv_run_step *step = &run->steps[i];
        if (step->tokens > before) { /* else as many as in the step before; a log without tokens counts steps */
            tokens = step->tokens - before;
            before = step->tokens;
        }
        read += tokens;
        double memory = fmin(QKV_RUN_SMOOTH_TOKENS, read / QKV_RUN_SMOOTH_SHARE);
        if (isfinite(step->loss)) {
            double decay = exp(-tokens / memory);
            sum = decay * sum + (1 - decay) * step->loss;
            weight = decay * weight + (1 - decay);
        }
        out[i] = weight > 0 ? sum / weight : NAN;
    }
}
