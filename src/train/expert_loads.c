/* expert_loads: how even the rows of a step were among experts, of each layer: asked of the model after a step, and
 * kept as text in a checkpoint that is written before the step's line of the log is. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "train/train.h"

static bool loads_has(const struct qkv_stack *s) {
    for (size_t i = 0; s->spec && i < (size_t)s->spec->layers; i++)
        if (s->layers[i].ffn.experts) return true;
    return false;
}

enum qkv_status qkv_loads_make(struct qkv_trainer *t) {
    const struct qkv_spec *spec = qkv_model_spec(t->model);
    if (!loads_has(&t->model->encoder) && !loads_has(&t->model->decoder)) return QKV_OK;
    t->load_count = (size_t)spec->encoder.layers + (size_t)spec->decoder.layers;
    t->loads = qkv_allocate(t->ctx, t->load_count, sizeof *t->loads);
    return t->loads ? QKV_OK : QKV_MEMORY;
}

/* What a report says of them. */
static void loads_report(struct qkv_trainer *t, int64_t unused) {
    t->report.expert_load = 0;
    t->report.experts_unused = unused;
    for (size_t i = 0; i < t->load_count; i++)
        if (t->loads[i] > t->report.expert_load) t->report.expert_load = t->loads[i];
    t->report.expert_loads = t->loads;
    t->report.expert_load_count = t->load_count;
}

void qkv_loads_take(struct qkv_trainer *t) {
    const size_t unused = qkv_balance_experts(t->model, t->loads);
    if (t->loads) loads_report(t, (int64_t)unused);
}

/* "1.25 nan 1.5", a number a layer. */
enum qkv_status qkv_loads_print(const struct qkv_trainer *t, struct qkv_buffer *text) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < t->load_count && !status; i++) {
        char number[QKV_REAL_TEXT] = "nan";
        if (!isnan(t->loads[i])) qkv_real_text(number, t->loads[i]);
        status = qkv_buffer_print(t->ctx, text, i ? " %s" : "%s", number);
    }
    return status;
}

bool qkv_loads_read(struct qkv_trainer *t, const char *text, uint64_t unused) {
    for (size_t i = 0; i < t->load_count; i++) {
        char number[QKV_REAL_TEXT];
        const size_t n = strcspn(text, " ");
        snprintf(number, sizeof number, "%.*s", (int)(n < sizeof number ? n : 0), text);
        t->loads[i] = NAN;
        if (strcmp(number, "nan") != 0 && (!qkv_real_parse(number, &t->loads[i]) || t->loads[i] < 1)) return false;
        text += n + (text[n] == ' ');
    }
    if (*text) return false;
    if (t->loads) loads_report(t, (int64_t)unused);
    return true;
}
