/* training: steps of some presets on random tokens: clearing the gradients, forward, backward, the norm, AdamW. */
#include <stdlib.h>
#include <string.h>

#include "lab/bench/bench_room.h"

static const struct step_case {
    const char *preset;
    int vocab; /* for presets that take it from their text */
    size_t B, T;
    bool big;
} cases[] = {
    {"nano-gpt", 321, 12, 64, false},          {"baby-gpt", 321, 16, 256, false}, {"baby-gpt", 321, 64, 256, true},
    {"gpt2-small", 0, 4, 64, false},           {"gpt2-small", 0, 4, 512, true},   {"gpt2-small", 0, 8, 1024, true},
    {"transformer-base", 37000, 16, 64, true},
};
enum { CASES = sizeof cases / sizeof *cases };

bool qkv_bench_training_case(size_t i, struct qkv_bench_row *row) {
    if (i > CASES) return false;
    if (i == CASES)
        snprintf(row->name, sizeof row->name, "nano-gpt recipe");
    else
        snprintf(row->name, sizeof row->name, "%s %zux%zu", cases[i].preset, cases[i].B, cases[i].T);
    row->form = i == CASES ? "run" : "step";
    row->big = i == CASES || cases[i].big;
    row->reads_text = i == CASES;
    return true;
}

struct work {
    struct qkv_model *model;
    struct qkv_pass *pass;
    struct qkv_optimizer *optimizer;
    struct qkv_batch batch;
    int32_t *ids;
};

static enum qkv_status one_step(void *argument, size_t turn) {
    struct work *w = argument;
    w->batch.dropout_seed = turn;
    enum qkv_status status = qkv_pass_forward(w->pass, &w->batch);
    if (status == QKV_OK) status = qkv_pass_backward(w->pass);
    if (status) return status;
    double norm = qkv_model_gradient_norm(w->model);
    return qkv_optimizer_step(w->optimizer, 1e-6, norm > 1 ? 1 / norm : 1);
}

static enum qkv_status training_make(struct qkv_context *ctx, const struct qkv_spec *spec, const struct step_case *c,
                                     struct work *w) {
    const bool pair = spec->encoder.layers > 0;
    struct qkv_pass_options pass = {
        .size = sizeof pass, .B = c->B, .T = c->T, .source_T = pair ? c->T : 0, .train = true, .dropout = true};
    struct qkv_optimizer_options adamw = {.size = sizeof adamw,
                                          .kind = QKV_OPTIMIZER_ADAMW,
                                          .beta1 = 0.9,
                                          .beta2 = 0.95,
                                          .eps = 1e-8,
                                          .weight_decay = 0.1};
    size_t n = c->B * c->T;
    w->ids = qkv_allocate(ctx, 2 * n + 1, sizeof *w->ids);
    if (!w->ids) return QKV_MEMORY;
    struct qkv_random random = qkv_random_start(1, 0);
    for (size_t i = 0; i <= 2 * n; i++) w->ids[i] = (int32_t)qkv_random_below(&random, (uint64_t)spec->vocab);
    w->batch = (struct qkv_batch){.B = c->B, .T = c->T, .ids = w->ids, .targets = w->ids + 1};
    if (pair) w->batch.source = w->ids + n, w->batch.source_T = c->T;
    enum qkv_status status = qkv_model_create(ctx, spec, 1, &w->model);
    if (status == QKV_OK) status = qkv_pass_create(w->model, &pass, &w->pass);
    if (status == QKV_OK) status = qkv_optimizer_create(w->model, &adamw, &w->optimizer);
    return status;
}

enum qkv_status qkv_bench_training(struct qkv_bench *b, size_t i, struct qkv_bench_row *row) {
    if (i == CASES) return qkv_bench_recipe(b, row);
    const struct step_case *c = &cases[i];
    struct work w = {0};
    struct qkv_spec spec = {0};
    struct qkv_costs costs;
    enum qkv_status status = qkv_spec_preset(b->ctx, &spec, c->preset, NULL, 0);
    if (status) return status;
    if (c->vocab) spec.vocab = c->vocab;
    if (spec.encoder.layers && !spec.source_vocab) spec.source_vocab = spec.vocab;
    status = qkv_measure_costs(b->ctx, &spec, c->B, c->T, &costs);
    if (status) {
        qkv_spec_free(&spec);
        return status;
    }
    row->tokens = (double)(c->B * c->T);
    row->flops = costs.train_flops * row->tokens;
    row->memory = costs.train_bytes;
    if (!qkv_bench_has_memory(row, costs.train_bytes)) {
        qkv_spec_free(&spec);
        return QKV_OK;
    }
    status = training_make(b->ctx, &spec, c, &w);
    if (status == QKV_OK) {
        const struct qkv_bench_contestant us = {"qkv", one_step, &w};
        row->pass_memory = qkv_pass_bytes(w.pass);
        status = qkv_bench_measure(b, row, &us, 1);
    }
    qkv_optimizer_free(w.optimizer);
    qkv_pass_free(w.pass);
    qkv_model_free(w.model);
    qkv_spec_free(&spec);
    free(w.ids);
    return status;
}
