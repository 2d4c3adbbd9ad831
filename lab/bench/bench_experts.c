/* experts: a layer whose feed-forward has experts, forward and backward, compared with a dense feed-forward of the
 * same active FLOPs. It runs as in training: over rows of sequences whose gradients are summed in groups, with new
 * weights each time, so that they are packed each time. Attention, embedding and head are as small as possible, and
 * equal on both sides.
 *
 * FLOPs are the products of the feed-forward: 2·N·k·3·C·F forward, twice that backward. Experts add bytes: the
 * weights and gradients of all of them, and each row k times. */
#include <stdlib.h>
#include <string.h>

#include "lab/bench/bench_room.h"
#include "model/model.h"

/* The last one is that of moe-tiny. */
static const struct mixture {
    int count, top_k, width, d_ff, length;
} mixtures[] = {{8, 2, 512, 1024, 256}, {64, 8, 512, 256, 256}, {8, 2, 128, 168, 96}};
static const size_t groupings[] = {8, 1};
static const char *const forms[] = {"8 groups", "1 group"};
enum { MIXTURES = sizeof mixtures / sizeof *mixtures, FORMS = 2, SEQUENCES = 8, VOCAB = 64 };

static double mixture_rows(const struct mixture *m) {
    return (double)SEQUENCES * m->length;
}

bool qkv_bench_experts_case(size_t i, struct qkv_bench_row *row) {
    if (i >= (size_t)MIXTURES * FORMS) return false;
    const struct mixture *m = &mixtures[i / FORMS];
    snprintf(row->name, sizeof row->name, "%d of %d C%d F%d T%.0f", m->top_k, m->count, m->width, m->d_ff,
             mixture_rows(m));
    row->form = forms[i % FORMS];
    return true;
}

/* One of the two layers. */
struct side {
    struct qkv_spec spec;
    struct qkv_costs costs;
    struct qkv_model *model;
    struct qkv_pass *pass;
    struct qkv_batch batch;
    struct qkv_pass_part part;
    double losses[SEQUENCES];
};

static enum qkv_status bench_experts_step(void *argument, size_t turn) {
    (void)turn;
    struct side *s = argument;
    qkv_model_weights_changed(s->model); /* as after the step of an optimizer */
    qkv_pass_set_part(s->pass, &s->part);
    const enum qkv_status status = qkv_pass_forward(s->pass, &s->batch);
    return status ? status : qkv_pass_backward(s->pass);
}

static enum qkv_status bench_experts_plan(struct qkv_context *ctx, const struct mixture *m, bool dense,
                                          struct side *s) {
    char text[512], experts[64] = "null";
    if (!dense) snprintf(experts, sizeof experts, "{\"count\": %d, \"top_k\": %d}", m->count, m->top_k);
    const int n = snprintf(text, sizeof text,
                           "{\"format\": \"qkv\", \"version\": 2, \"vocab\": %d, \"d_model\": %d, \"context\": %d, "
                           "\"decoder\": {\"layers\": "
                           "1, \"attention\": {\"heads\": 1, \"head_dim\": 8}, \"ffn\": {\"kind\": \"swiglu\", "
                           "\"bias\": false, \"d_ff\": %d, "
                           "\"experts\": %s}}}",
                           VOCAB, m->width, m->length, dense ? m->d_ff * m->top_k : m->d_ff, experts);
    const enum qkv_status status = qkv_spec_parse(ctx, &s->spec, "experts", text, (size_t)n, NULL, 0);
    return status ? status : qkv_measure_costs(ctx, &s->spec, SEQUENCES, (size_t)m->length, &s->costs);
}

static enum qkv_status bench_experts_make(struct qkv_context *ctx, const struct mixture *m, size_t groups, int32_t *ids,
                                          struct side *s) {
    const struct qkv_pass_options options = {
        .size = sizeof options, .B = SEQUENCES, .T = (size_t)m->length, .train = true};
    s->batch = (struct qkv_batch){.B = options.B, .T = options.T, .ids = ids, .targets = ids + 1};
    s->part = (struct qkv_pass_part){.groups = groups, .losses = s->losses};
    for (size_t g = 0; g <= groups; g++) s->part.first[g] = g * SEQUENCES / groups;
    enum qkv_status status = qkv_model_create(ctx, &s->spec, 1, &s->model);
    return status ? status : qkv_pass_create_ordered(s->model, &options, groups, &s->pass);
}

static void bench_experts_free(struct side *s) {
    qkv_pass_free(s->pass);
    qkv_model_free(s->model);
    qkv_spec_free(&s->spec);
}

enum qkv_status qkv_bench_experts(struct qkv_bench *b, size_t i, struct qkv_bench_row *row) {
    const struct mixture *m = &mixtures[i / FORMS];
    struct side experts = {0}, dense = {0};
    row->tokens = mixture_rows(m);
    row->flops = 3 * 2.0 * 3 * m->width * m->d_ff * m->top_k * row->tokens;
    enum qkv_status status = bench_experts_plan(b->ctx, m, false, &experts);
    if (!status) status = bench_experts_plan(b->ctx, m, true, &dense);
    const bool fits = !status && qkv_bench_has_memory(row, experts.costs.train_bytes + dense.costs.train_bytes);
    const size_t n = (size_t)row->tokens;
    int32_t *ids = fits ? qkv_allocate(b->ctx, n + 1, sizeof *ids) : NULL;
    if (!ids) {
        bench_experts_free(&experts);
        bench_experts_free(&dense);
        return fits ? QKV_MEMORY : status;
    }
    struct qkv_random random = qkv_random_start(1, 0);
    for (size_t j = 0; j <= n; j++) ids[j] = (int32_t)qkv_random_below(&random, VOCAB);
    status = bench_experts_make(b->ctx, m, groupings[i % FORMS], ids, &experts);
    if (!status) status = bench_experts_make(b->ctx, m, groupings[i % FORMS], ids, &dense);
    const struct qkv_bench_contestant contestants[] = {{"qkv", bench_experts_step, &experts},
                                                       {"dense", bench_experts_step, &dense}};
    if (!status) status = qkv_bench_measure(b, row, contestants, 2);
    bench_experts_free(&experts);
    bench_experts_free(&dense);
    free(ids);
    return status;
}
