/* generation: the tokens of a prompt together, and one token after the other, by models with random weights. The
 * least work for a token is reading every weight that it is multiplied by (with experts: the chosen ones), and all
 * earlier keys and values. */
#include <stdlib.h>
#include <string.h>

#include "lab/bench/bench_room.h"
#include "kernel/kernel.h"
#include "model/model.h"
#include "model/spec.h"

/* The shape of TinyLlama (Zhang et al. 2024): 1.1 billion parameters. */
static const char llama[] =
    "{\"format\": \"qkv\", \"version\": 1, \"vocab\": 32000, \"d_model\": 2048, \"context\": 2048,"
    " \"position\": {\"kind\": \"rope\"}, \"tie\": \"none\", \"decoder\": {\"layers\": 22,"
    " \"attention\": {\"heads\": 32, \"kv_heads\": 4, \"bias\": false}, \"norm\": {\"kind\": \"rmsnorm\"},"
    " \"ffn\": {\"kind\": \"swiglu\", \"d_ff\": 5632, \"bias\": false}}}";

/* Layers of experts as in the rows of experts; their weights together exceed the caches. */
#define EXPERTS(count, top_k, d_ff)                                                                                    \
    "{\"format\": \"qkv\", \"version\": 2, \"vocab\": 256, \"d_model\": 512, \"context\": 512, \"decoder\": "          \
    "{\"layers\": 4, \"attention\": {\"heads\": 8, \"kv_heads\": 2}, \"ffn\": {\"kind\": \"swiglu\", "                 \
    "\"bias\": false, \"d_ff\": " #d_ff ", \"experts\": {\"count\": " #count ", \"top_k\": " #top_k "}}}}"

static const struct subject {
    const char *name, *preset, *text; /* a preset, or the text of a spec */
    int vocab;
    bool big;
} subjects[] = {{"baby-gpt", "baby-gpt", NULL, 321, false},
                {"gpt2-small", "gpt2-small", NULL, 0, false},
                {"experts 2 of 8 F1024", NULL, EXPERTS(8, 2, 1024), 0, false},
                {"experts 8 of 64 F256", NULL, EXPERTS(64, 8, 256), 0, false},
                {"llama-1.1B", NULL, llama, 0, true}};
enum { SUBJECTS = sizeof subjects / sizeof *subjects, FORMS = 2, PROMPT = 256, BEFORE = 128 };

bool qkv_bench_generation_case(size_t i, struct qkv_bench_row *row) {
    if (i >= SUBJECTS * FORMS) return false;
    const struct subject *s = &subjects[i / FORMS];
    snprintf(row->name, sizeof row->name, "%s %s %d", s->name, i % FORMS ? "after" : "of", i % FORMS ? BEFORE : PROMPT);
    row->form = i % FORMS ? "token" : "prompt";
    row->big = s->big;
    return true;
}

struct work {
    struct qkv_session *session;
    int32_t ids[PROMPT];
};

static enum qkv_status generation_prompt(void *argument, size_t turn) {
    (void)turn;
    struct work *w = argument;
    qkv_session_truncate(w->session, 0);
    return qkv_session_append(w->session, w->ids, PROMPT);
}

static enum qkv_status generation_token(void *argument, size_t turn) {
    struct work *w = argument;
    qkv_session_truncate(w->session, BEFORE);
    return qkv_session_append(w->session, &w->ids[turn % PROMPT], 1);
}

/* Writes every page of memory, because untouched pages all are one page of zeros. Norms scale by 1; biases stay 0. */
static enum qkv_status fill_weights(struct qkv_context *ctx, struct qkv_model *model) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < qkv_model_parameters(model) && !status; i++) {
        const struct qkv_array *array = qkv_model_parameter(model, i);
        const bool matrix = array->rank == 2, norm = strstr(array->name, "norm") && strstr(array->name, ".weight");
        const size_t n = qkv_array_elements(array);
        float *weights = matrix || norm ? qkv_allocate(ctx, n, sizeof *weights) : NULL;
        if (!matrix && !norm) continue;
        if (!weights) return QKV_MEMORY;
        if (matrix) {
            qkv_bench_fill(ctx, weights, QKV_F32, n);
            ctx->kernels->scale(weights, false, weights, 0.05f, n);
        }
        for (size_t j = 0; j < n && !matrix; j++) weights[j] = 1;
        status = qkv_model_set_weights(model, i, weights, n);
        free(weights);
    }
    return status;
}

/* FLOPs of the scores of one token: a prompt computes them for its last token only. */
static double head_flops(const struct qkv_model *model) {
    return model->head_weight ? 2.0 * (double)model->head_weight->rows * (double)model->head_weight->columns : 0;
}

static enum qkv_status generation_make(struct qkv_bench *b, const struct qkv_spec *spec, struct qkv_model **model,
                                       struct work *w) {
    enum qkv_status status = qkv_model_allocate(b->ctx, spec, model);
    if (!status) status = fill_weights(b->ctx, *model);
    if (status) return status;
    for (size_t i = 0; i < PROMPT; i++) w->ids[i] = (int32_t)(i * 7919 % (size_t)spec->vocab);
    status = qkv_session_create(*model, &QKV_OPTIONS(qkv_session_options, .capacity = PROMPT), &w->session);
    return status ? status : qkv_session_append(w->session, w->ids, BEFORE);
}

enum qkv_status qkv_bench_generation(struct qkv_bench *b, size_t i, struct qkv_bench_row *row) {
    const struct subject *s = &subjects[i / FORMS];
    const bool one = i % FORMS != 0;
    struct qkv_model *model = NULL;
    struct work w = {0};
    struct qkv_spec spec = {0};
    struct qkv_costs costs;
    enum qkv_status status = s->preset ? qkv_spec_preset(b->ctx, &spec, s->preset, NULL, 0)
                                       : qkv_spec_parse(b->ctx, &spec, s->name, s->text, strlen(s->text), NULL, 0);
    if (status == QKV_OK && s->vocab) spec.vocab = s->vocab;
    if (status == QKV_OK) status = qkv_measure_costs(b->ctx, &spec, 1, PROMPT, &costs);
    if (status || !qkv_bench_has_memory(row, costs.run_bytes)) {
        qkv_spec_free(&spec);
        return status;
    }
    status = generation_make(b, &spec, &model, &w);
    if (status == QKV_OK) {
        const struct qkv_bench_contestant us = {"qkv", one ? generation_token : generation_prompt, &w};
        row->tokens = one ? 1 : PROMPT;
        row->flops = costs.forward_flops * row->tokens - head_flops(model) * (row->tokens - 1);
        row->bytes = (double)costs.decode_bytes;
        if (one) row->bytes += (double)(costs.cache_bytes_per_token * BEFORE);
        status = qkv_bench_measure(b, row, &us, 1);
    }
    qkv_session_free(w.session);
    qkv_model_free(model);
    qkv_spec_free(&spec);
    return status;
}
