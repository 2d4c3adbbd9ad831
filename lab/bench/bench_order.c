/* bench_order: the cost of sums in a defined order (kernel.h): training steps with the default number of groups,
 * alternating with steps with one group, part by part as a run goes through its batch. */
#include <stdlib.h>

#include "lab/bench/bench_room.h"
#include "model/model.h"
#include "rank/parts.h"

static const struct order_case {
    const char *preset, *name;
    int vocab, context; /* context 0: that of the preset */
    size_t rows, parts;
    bool big;
} cases[] = {
    {"nano-gpt", "nano-gpt whole 12x64", 321, 0, 12, 1, false},
    {"gpt2-small", "gpt2-small bytes 4x512", 257, 512, 4, 4, true},
    {"gpt2-small", "gpt2-small parts 4x512", 50257, 512, 4, 4, true},
    {"gpt2-small", "gpt2-small whole 4x512", 50257, 512, 4, 1, true},
};
enum { CASES = sizeof cases / sizeof *cases, GROUPS = 8 };

bool qkv_bench_order_case(size_t i, struct qkv_bench_row *row) {
    if (i >= CASES) return false;
    snprintf(row->name, sizeof row->name, "%s", cases[i].name);
    row->form = "step";
    row->big = cases[i].big;
    return true;
}

/* A run without files, with groups or with one. */
struct side {
    struct qkv_train_options options;
    struct qkv_model *model;
    struct qkv_optimizer *optimizer;
    struct qkv_pass *pass;
    struct qkv_part_sums sums;
    const int32_t *ids;
    size_t length;
};

static enum qkv_status order_step(void *argument, size_t turn) {
    struct side *s = argument;
    const size_t rows = (size_t)s->options.batch, T = s->length;
    struct qkv_parts parts = qkv_parts_of(&s->options, rows);
    struct qkv_pass_part part;
    double losses[QKV_GROUPS_MAX] = {0};
    enum qkv_status status = QKV_OK;
    qkv_part_sums_begin(&s->sums, &parts);
    while (!status && qkv_parts_next(&parts)) {
        const int32_t *ids = s->ids + parts.begin * T;
        const struct qkv_batch batch = {.B = parts.end - parts.begin,
                                        .T = T,
                                        .ids = ids,
                                        .targets = ids + 1,
                                        .loss_count = rows * T,
                                        .loss_sequences = rows,
                                        .dropout_seed = turn};
        if (parts.groups) qkv_parts_tell(&parts, losses, &part);
        qkv_pass_set_part(s->pass, parts.groups ? &part : NULL);
        qkv_part_sums_next(&s->sums, &parts);
        status = qkv_pass_forward(s->pass, &batch);
        if (!status) status = qkv_pass_backward(s->pass);
        if (!status) qkv_part_sums_end(&s->sums, &parts);
    }
    if (status) return status;
    const double norm = qkv_model_gradient_norm(s->model);
    return qkv_optimizer_step(s->optimizer, 1e-6, norm > 1 ? 1 / norm : 1);
}

static enum qkv_status order_make(struct qkv_context *ctx, const struct order_case *c, const struct qkv_spec *spec,
                                  size_t groups, struct side *s) {
    const struct qkv_optimizer_options adamw = qkv_optimizer_defaults();
    enum qkv_status status = qkv_train_defaults(ctx, c->preset, &s->options);
    s->options.batch = (int64_t)c->rows;
    s->options.accumulate = (int64_t)c->parts;
    s->options.groups = (int64_t)groups;
    const struct qkv_pass_options pass = {.size = sizeof pass,
                                          .B = qkv_parts_most(ctx, &s->options, c->rows),
                                          .T = s->length,
                                          .train = true,
                                          .dropout = true};
    if (!status) status = qkv_model_create(ctx, spec, 1, &s->model);
    if (!status) status = qkv_pass_create_ordered(s->model, &pass, groups > 1 ? groups : 0, &s->pass);
    if (!status) status = qkv_optimizer_create(s->model, &adamw, &s->optimizer);
    const uint64_t levels = status ? 0 : qkv_parts_levels(ctx, &s->options, c->rows);
    return status ? status : qkv_part_sums_create(s->model, levels, &s->sums);
}

static void order_free(struct side *s) {
    if (s->model) qkv_part_sums_free(&s->sums);
    qkv_optimizer_free(s->optimizer);
    qkv_pass_free(s->pass);
    qkv_model_free(s->model);
}

static enum qkv_status order_measure(struct qkv_bench *b, const struct order_case *c, const struct qkv_spec *spec,
                                     const int32_t *ids, struct qkv_bench_row *row) {
    struct side sides[2] = {{.ids = ids, .length = (size_t)spec->context},
                            {.ids = ids, .length = (size_t)spec->context}};
    const struct qkv_bench_contestant contestants[] = {{"qkv", order_step, &sides[0]},
                                                       {"one group", order_step, &sides[1]}};
    enum qkv_status status = order_make(b->ctx, c, spec, qkv_min(GROUPS, c->rows), &sides[0]);
    if (!status) status = order_make(b->ctx, c, spec, 1, &sides[1]);
    if (!status) status = qkv_bench_measure(b, row, contestants, 2);
    order_free(&sides[0]);
    order_free(&sides[1]);
    return status;
}

enum qkv_status qkv_bench_order(struct qkv_bench *b, size_t i, struct qkv_bench_row *row) {
    const struct order_case *c = &cases[i];
    struct qkv_spec spec = {0};
    struct qkv_costs costs = {0};
    enum qkv_status status = qkv_spec_preset(b->ctx, &spec, c->preset, NULL, 0);
    if (status) return status;
    spec.vocab = c->vocab;
    if (c->context) spec.context = c->context;
    const size_t tokens = c->rows * (size_t)spec.context;
    status = qkv_measure_costs(b->ctx, &spec, c->rows, (size_t)spec.context, &costs);
    row->tokens = (double)tokens;
    row->flops = costs.train_flops * row->tokens;
    int32_t *ids = NULL;
    const bool fits = !status && qkv_bench_has_memory(row, 3 * costs.train_bytes); /* two models, and unfinished sums */
    if (fits && !(ids = qkv_allocate(b->ctx, tokens + 1, sizeof *ids))) status = QKV_MEMORY;
    struct qkv_random random = qkv_random_start(1, 0);
    for (size_t j = 0; ids && j <= tokens; j++) ids[j] = (int32_t)qkv_random_below(&random, (uint64_t)spec.vocab);
    if (ids) status = order_measure(b, c, &spec, ids, row);
    free(ids);
    qkv_spec_free(&spec);
    return status;
}
