/* route: which experts each row goes through, and with which weights.
 *
 * logits (N, E) → weights (N, k), and struct qkv_routing. Scores p of a row: the softmax of its logits, the sigmoid of
 * each logit, or the logits themselves. A row chooses the k experts with the largest p + correction, of equal ones the
 * lower index; with groups, out of the best groups only. Weights, the best expert first: p of the chosen, if normalised
 * over their sum (of sigmoids plus 1e-20); or the softmax of the chosen logits; or, as sparsemixer (Liu et al. 2024),
 * that of the logits near the chosen one that are not chosen before; times a scale.
 *
 * Backward goes through p of the chosen experts (the choice itself has no slope), and adds the gradients of two losses.
 * The balance loss is balance · E/(k·T) · Σ_e c_e · mean of q_e over the T rows of each sequence: c_e counts the
 * choices of expert e, q is the softmax of all logits, or sigmoids over their sum (Fedus et al. 2021; DeepSeek-AI 2024
 * for sequences). The z loss is z · mean of (log Σ exp)² (Zoph et al. 2022). */
#include "op/op.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { ROWS_A_PIECE = 16 };

struct route {
    struct qkv_route_options options;
    struct qkv_routing routing;
    /* set while it runs */
    const struct qkv_kernels *kernels;
    const float *logits, *correction, *dweights;
    float *weights, *dlogits, *scores; /* scores: for each thread, 3 rows of E */
    int32_t *counts;                   /* (B, E): choices of each sequence */
    bool accumulate;
    atomic_size_t *broken; /* the first row with a logit that is not finite */
};

/* ---- scores of a row --------------------------------------------------------------------------------------------- */

static void route_sigmoids(const struct qkv_kernels *kernels, float *p, const float *logits, size_t E) {
    kernels->scale(p, false, logits, -1, E);
    kernels->exp(p, p, E);
    for (size_t e = 0; e < E; e++) p[e] = 1 / (1 + p[e]);
}

static void route_scores(const struct route *o, float *p, const float *logits) {
    const size_t E = o->routing.experts;
    if (o->options.scores == QKV_EXPERT_SCORES_SIGMOID)
        route_sigmoids(o->kernels, p, logits, E);
    else if (o->options.scores == QKV_EXPERT_SCORES_SOFTMAX)
        o->kernels->softmax_scaled(p, logits, o->kernels->log_sum_exp(logits, E), 1, 0, E);
    else
        memcpy(p, logits, E * sizeof *p);
}

/* The index of the best of n scores, of equal ones the first. Scores that were chosen before are −inf. */
static size_t route_best(const float *scores, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (scores[i] > scores[best]) best = i;
    return best;
}

static float route_group_score(const struct route *o, const float *scores, size_t n) {
    const size_t best = route_best(scores, n);
    if (o->options.group_score == QKV_GROUP_SCORE_MAX) return scores[best];
    size_t second = best == 0;
    for (size_t i = second + 1; i < n; i++)
        if (i != best && scores[i] > scores[second]) second = i;
    return scores[best] + scores[second];
}

/* Sets the scores of all experts outside the best groups to −inf. */
static void route_groups(const struct route *o, float *scores, float *groups) {
    const size_t G = o->options.groups, each = o->routing.experts / G;
    for (size_t g = 0; g < G; g++) groups[g] = route_group_score(o, scores + g * each, each);
    for (size_t i = 0; i < o->options.top_groups; i++) groups[route_best(groups, G)] = -INFINITY;
    for (size_t g = 0; g < G; g++)
        for (size_t e = 0; e < each && groups[g] > -INFINITY; e++) scores[g * each + e] = -INFINITY;
}

/* Whether expert e counts for the weight of the j-th chosen one: it is not chosen before, and its logit is near. */
static bool route_is_near(const struct route *o, const float *logits, const int32_t *chosen, size_t j, size_t e) {
    const float c = logits[chosen[j]], s = logits[e], size = fabsf(s) > c ? fabsf(s) : c;
    for (size_t i = 0; i < j; i++)
        if ((size_t)chosen[i] == e) return false;
    return c - s <= o->options.margin * size || e == (size_t)chosen[j];
}

/* The probabilities of the experts that count for the j-th chosen one, in order. Returns that of the chosen one. */
static float route_mix(const struct route *o, const float *logits, const int32_t *chosen, size_t j, float *near) {
    size_t n = 0, own = 0;
    for (size_t e = 0; e < o->routing.experts; e++) {
        if (!route_is_near(o, logits, chosen, j, e)) continue;
        if (e == (size_t)chosen[j]) own = n;
        near[n++] = logits[e];
    }
    o->kernels->softmax_scaled(near, near, o->kernels->log_sum_exp(near, n), 1, 0, n);
    return near[own];
}

static void route_choose(const struct route *o, const float *p, float *scores, float *groups, int32_t *chosen) {
    const size_t E = o->routing.experts;
    if (o->correction)
        o->kernels->add(scores, p, o->correction, E);
    else
        memcpy(scores, p, E * sizeof *scores);
    if (o->options.groups > 1 && o->options.top_groups < o->options.groups) route_groups(o, scores, groups);
    for (size_t j = 0; j < o->routing.top_k; j++) {
        const size_t best = route_best(scores, E);
        chosen[j] = (int32_t)best;
        scores[best] = -INFINITY;
    }
}

/* Computes the weights before the scale; `near` has room for E numbers. Returns the divisor of the normalisation. */
static float route_weigh(const struct route *o, const float *p, const int32_t *chosen, float *weights, float *near) {
    const size_t k = o->routing.top_k;
    float sum = 0;
    for (size_t j = 0; j < k; j++) weights[j] = p[chosen[j]];
    if (o->options.scores == QKV_EXPERT_SCORES_CHOSEN) {
        o->kernels->softmax_scaled(weights, weights, o->kernels->log_sum_exp(weights, k), 1, 0, k);
        return 1;
    }
    if (o->options.scores == QKV_EXPERT_SCORES_SPARSEMIXER)
        for (size_t j = 0; j < k; j++) weights[j] = route_mix(o, p, chosen, j, near);
    if (!o->options.normalize || o->options.scores == QKV_EXPERT_SCORES_SPARSEMIXER) return 1;
    for (size_t j = 0; j < k; j++) sum += weights[j];
    if (o->options.scores == QKV_EXPERT_SCORES_SIGMOID) sum += 1e-20F;
    for (size_t j = 0; j < k; j++) weights[j] /= sum;
    return sum;
}

static bool route_is_broken(const float *logits, size_t E) {
    for (size_t e = 0; e < E; e++)
        if (!isfinite(logits[e])) return true;
    return false;
}

static void route_forward_rows(void *argument, size_t begin, size_t end, int thread) {
    const struct route *o = argument;
    const size_t E = o->routing.experts, k = o->routing.top_k;
    float *p = o->scores + (size_t)thread * 3 * E, *scores = p + E, *groups = scores + E;
    for (size_t n = begin; n < end; n++) {
        const float *logits = o->logits + n * E;
        int32_t *chosen = o->routing.chosen + n * k;
        if (route_is_broken(logits, E)) {
            size_t first = atomic_load(o->broken);
            while (n < first && !atomic_compare_exchange_weak(o->broken, &first, n)) continue;
            for (size_t j = 0; j < k; j++) chosen[j] = 0, o->weights[n * k + j] = 0;
            continue;
        }
        route_scores(o, p, logits);
        route_choose(o, p, scores, groups, chosen);
        route_weigh(o, p, chosen, o->weights + n * k, scores);
        o->kernels->scale(o->weights + n * k, false, o->weights + n * k, o->options.scale, k);
    }
}

/* Sorts rows by expert: each expert's rows are in order. */
static void route_sort(void *argument, size_t item, int thread) {
    (void)item, (void)thread;
    const struct route *o = argument;
    const struct qkv_routing *r = &o->routing;
    const size_t all = r->N * r->top_k;
    memset(r->start, 0, (r->experts + 1) * sizeof *r->start);
    for (size_t i = 0; i < all; i++) r->start[r->chosen[i] + 1]++;
    for (size_t e = 0; e < r->experts; e++) {
        if (o->options.loads) o->options.loads[e] += (uint64_t)r->start[e + 1];
        r->start[e + 1] += r->start[e];
    }
    for (size_t i = 0; i < all; i++) {
        int32_t *next = &r->start[r->chosen[i]];
        r->slot[i] = *next;
        r->row[(*next)++] = (int32_t)(i / r->top_k);
    }
    memmove(r->start + 1, r->start, r->experts * sizeof *r->start); /* start[e] has become the end of expert e */
    r->start[0] = 0;
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

/* dp (E), zero for experts that are not chosen, from dw, the gradient of the scaled weights v. */
static void route_unweigh(const struct route *o, float *dp, const int32_t *chosen, const float *v, const float *dw,
                          float sum) {
    const size_t k = o->routing.top_k;
    const bool chosen_only = o->options.scores == QKV_EXPERT_SCORES_CHOSEN;
    float inner = 0;
    memset(dp, 0, o->routing.experts * sizeof *dp);
    if (chosen_only || o->options.normalize)
        for (size_t j = 0; j < k; j++) inner += dw[j] * v[j];
    for (size_t j = 0; j < k; j++) dp[chosen[j]] = o->options.scale * (dw[j] - inner) * (chosen_only ? v[j] : 1 / sum);
}

/* dlogits += the gradient through q = softmax(logits), from dq. */
static void route_through_softmax(float *dlogits, const float *q, const float *dq, size_t E) {
    float inner = 0;
    for (size_t e = 0; e < E; e++) inner += dq[e] * q[e];
    for (size_t e = 0; e < E; e++) dlogits[e] += q[e] * (dq[e] - inner);
}

/* The same through q = s/Σ s, s being sigmoids. */
static void route_through_share(float *dlogits, const float *s, const float *dq, size_t E) {
    float inner = 0, sum = 0;
    for (size_t e = 0; e < E; e++) sum += s[e];
    for (size_t e = 0; e < E; e++) inner += dq[e] * s[e] / sum;
    for (size_t e = 0; e < E; e++) dlogits[e] += (dq[e] - inner) / sum * s[e] * (1 - s[e]);
}

/* dlogits += the gradient through the j-th weight of sparsemixer, from dw, the gradient of the scaled weight. */
static void route_unmix(const struct route *o, float *dlogits, const float *logits, const int32_t *chosen, size_t j,
                        float dw, float *near) {
    const float own = route_mix(o, logits, chosen, j, near) * o->options.scale * dw;
    for (size_t e = 0, n = 0; e < o->routing.experts; e++) {
        if (!route_is_near(o, logits, chosen, j, e)) continue;
        dlogits[e] += own * ((e == (size_t)chosen[j]) - near[n++]);
    }
}

static size_t route_sequence(const struct route *o, size_t n) {
    return (size_t)o->options.rows->place[n] / o->options.rows->T;
}

/* Rows of sequence b that count for the losses. */
static size_t route_length(const struct route *o, size_t b) {
    const struct qkv_rows *rows = o->options.rows;
    return o->options.lengths ? (size_t)o->options.lengths[b] : (size_t)(rows->start[b + 1] - rows->start[b]);
}

/* The gradients of both losses for row n; each of the T rows of a sequence counts 1/T. */
static void route_losses(const struct route *o, size_t n, float *dlogits, float *q, float *dq) {
    const struct qkv_rows *rows = o->options.rows;
    const size_t E = o->routing.experts, b = route_sequence(o, n);
    const size_t length = route_length(o, b);
    const float T = (float)length, *logits = o->logits + n * E;
    const float lse = o->kernels->log_sum_exp(logits, E);
    const bool sigmoid = o->options.scores == QKV_EXPERT_SCORES_SIGMOID;
    if (n - (size_t)rows->start[b] >= length) return;
    o->kernels->softmax_scaled(q, logits, lse, 1, 0, E);
    if (o->options.z != 0) o->kernels->scale(dlogits, true, q, 2 * o->options.z * lse / T, E);
    if (o->options.balance == 0) return;
    const float factor = o->options.balance * (float)E / (float)o->routing.top_k / T / T;
    for (size_t e = 0; e < E; e++) dq[e] = factor * (float)o->counts[b * E + e];
    if (sigmoid) route_sigmoids(o->kernels, q, logits, E);
    (sigmoid ? route_through_share : route_through_softmax)(dlogits, q, dq, E);
}

static void route_backward_rows(void *argument, size_t begin, size_t end, int thread) {
    const struct route *o = argument;
    const size_t E = o->routing.experts, k = o->routing.top_k;
    float *p = o->scores + (size_t)thread * (4 * E + k), *dp = p + E, *near = dp + E, *v = near + E;
    for (size_t n = begin; n < end; n++) {
        const int32_t *chosen = o->routing.chosen + n * k;
        float *dlogits = o->dlogits + n * E;
        route_scores(o, p, o->logits + n * E);
        const float total = route_weigh(o, p, chosen, v, near);
        route_unweigh(o, dp, chosen, v, o->dweights + n * k, total);
        if (!o->accumulate) memset(dlogits, 0, E * sizeof *dlogits);
        if (o->options.scores == QKV_EXPERT_SCORES_SPARSEMIXER)
            for (size_t j = 0; j < k; j++) route_unmix(o, dlogits, p, chosen, j, o->dweights[n * k + j], near);
        else if (o->options.scores == QKV_EXPERT_SCORES_SOFTMAX)
            route_through_softmax(dlogits, p, dp, E);
        else if (o->options.scores == QKV_EXPERT_SCORES_SIGMOID)
            for (size_t j = 0; j < k; j++) dlogits[chosen[j]] += dp[chosen[j]] * p[chosen[j]] * (1 - p[chosen[j]]);
        else
            o->kernels->add(dlogits, dlogits, dp, E);
        if (o->counts) route_losses(o, n, dlogits, p, dp);
    }
}

static void route_count(void *argument, size_t b, int thread) {
    (void)thread;
    const struct route *o = argument;
    const struct qkv_rows *rows = o->options.rows;
    const size_t E = o->routing.experts, k = o->routing.top_k;
    int32_t *counts = o->counts + b * E;
    memset(counts, 0, E * sizeof *counts);
    for (size_t i = (size_t)rows->start[b] * k; i < ((size_t)rows->start[b] + route_length(o, b)) * k; i++)
        counts[o->routing.chosen[i]]++;
}

/* ---- the operator ------------------------------------------------------------------------------------------------ */

/* The inputs of a node. The gradient of the correction is 0. */
enum { LOGITS, CORRECTION };

static struct route route_of(const struct qkv_tape *tape, const struct qkv_node *node) {
    struct route o = *(const struct route *)node->saved;
    o.kernels = tape->ctx->kernels;
    o.logits = node->inputs[LOGITS]->data;
    o.correction = node->inputs[CORRECTION] ? node->inputs[CORRECTION]->data : NULL;
    o.weights = node->output->data;
    return o;
}

enum qkv_status qkv_check_route(struct qkv_tape *tape, struct qkv_node *node) {
    const struct route *o = node->saved;
    const struct qkv_tensor *logits = node->inputs[LOGITS], *correction = node->inputs[CORRECTION];
    const size_t E = logits->columns, G = o->options.groups;
    if (logits->dtype == QKV_F32 && o->options.top_k >= 1 && o->options.top_k <= E && G >= 1 && E % G == 0 &&
        o->options.top_groups * (E / G) >= o->options.top_k && (!correction || correction->columns == E))
        return QKV_OK;
    return qkv_fail(tape->ctx, QKV_SHAPE,
                    "route: no choice of %zu from %zu experts in %zu of %zu groups with a correction of %zu numbers",
                    o->options.top_k, E, o->options.top_groups, G, correction ? correction->columns : 0);
}

enum qkv_status qkv_forward_route(struct qkv_tape *tape, struct qkv_node *node) {
    struct route *saved = node->saved;
    struct qkv_routing *r = &saved->routing;
    const size_t N = r->N, all = N * r->top_k;
    r->chosen = qkv_tape_take(tape, all, sizeof *r->chosen);
    r->slot = qkv_tape_take(tape, all, sizeof *r->slot);
    r->row = qkv_tape_take(tape, all, sizeof *r->row);
    r->start = qkv_tape_take(tape, r->experts + 1, sizeof *r->start);
    const size_t mark = qkv_arena_mark(tape->arena);
    struct route o = route_of(tape, node);
    atomic_size_t broken = SIZE_MAX;
    o.broken = &broken;
    o.scores = qkv_tape_take(tape, (size_t)tape->ctx->threads * 3 * r->experts, sizeof(float));
    if (tape->status) return tape->status;
    qkv_parallel_range(tape->ctx, N, ROWS_A_PIECE, route_forward_rows, &o);
    qkv_arena_release(tape->arena, mark);
    if (broken != SIZE_MAX)
        return qkv_fail(tape->ctx, QKV_NUMBER, "%s: row %zu has a score that is not finite",
                        o.options.name ? o.options.name : "router", (size_t)broken);
    if (!tape->recording || tape->repeats) o.options.loads = NULL;
    qkv_parallel(tape->ctx, 1, route_sort, &o);
    return QKV_OK;
}

enum qkv_status qkv_backward_route(struct qkv_tape *tape, struct qkv_node *node) {
    struct route o = route_of(tape, node);
    const struct qkv_rows *rows = o.options.rows;
    const size_t E = o.routing.experts;
    enum qkv_status status = QKV_OK;
    bool always;
    qkv_gradient_out(tape, node->inputs[CORRECTION], &always, &status);
    o.dweights = qkv_gradient_in(node);
    o.dlogits = qkv_gradient_out(tape, node->inputs[LOGITS], &o.accumulate, &status);
    if (status || !o.dlogits) return status;
    const size_t scratch = qkv_arena_mark(tape->arena);
    if (rows && (o.options.balance != 0 || o.options.z != 0)) {
        o.counts = qkv_tape_take(tape, rows->B * E, sizeof *o.counts);
        if (tape->status) return tape->status;
        qkv_parallel(tape->ctx, rows->B, route_count, &o);
    }
    o.scores = qkv_tape_take(tape, (size_t)tape->ctx->threads * (4 * E + o.routing.top_k), sizeof(float));
    if (tape->status) return tape->status;
    qkv_parallel_range(tape->ctx, o.routing.N, ROWS_A_PIECE, route_backward_rows, &o);
    qkv_arena_release(tape->arena, scratch);
    return QKV_OK;
}

struct qkv_cost qkv_cost_route(const struct qkv_node *node, bool backward) {
    const double bytes = qkv_tensor_bytes(node->inputs[LOGITS]) + qkv_tensor_bytes(node->output);
    return (struct qkv_cost){.bytes = backward ? 2 * bytes : bytes};
}

struct qkv_tensor *qkv_op_route(struct qkv_tape *tape, struct qkv_tensor *logits, struct qkv_tensor *correction,
                                const struct qkv_route_options *options, const struct qkv_routing **routing) {
    struct route *o = logits && !tape->status ? qkv_tape_take_graph(tape, sizeof *o) : NULL;
    if (!o) return NULL;
    *o = (struct route){.options = *options,
                        .routing = {.N = logits->rows, .experts = logits->columns, .top_k = options->top_k}};
    struct qkv_node node = qkv_tape_node(tape, QKV_OPERATOR_route, o);
    node.inputs[LOGITS] = logits;
    node.inputs[CORRECTION] = correction;
    *routing = &o->routing;
    if (!qkv_tape_check(tape, &node)) return NULL;
    node.output = qkv_tape_tensor(tape, logits->rows, options->top_k);
    return node.output ? qkv_tape_run(tape, &node) : NULL;
}
