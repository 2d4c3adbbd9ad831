/* cross_entropy: the loss of scores, which it computes some rows at a time.
 *
 * scores = softcap(x·Wᵀ + b), as the operator of scores computes them (scores.c), x (N, C), W (V, C).
 * loss = Σ_n lse(scores[n]) − scores[n][target[n]] over the targets that are not QKV_IGNORE.
 * Gradient of s·loss: dscores[n] = s·(softmax(scores[n]) − onehot(target[n])), dx = dscores·W, dW += dscoresᵀ·x.
 * Rows may have weights, by which their gradient is multiplied, and scores of a teacher (struct qkv_loss_rows).
 * With label smoothing e (Szegedy et al. 2016), onehot becomes q = (1 − e)·onehot + e/V, and the loss lse − Σ q·scores.
 *
 * The operator runs over chunks of rows: a vocabulary of 50,000 needs memory for the scores of a few hundred rows, not
 * for all scores and all their gradients. Forward computes the gradient of a chunk while it has the scores; a loss is
 * where backward starts, so no later node can change that gradient. Where the rows have an order of groups, a chunk
 * never spans two groups: sums go on from chunk to chunk, in a copy of the gradient per level of the tree of groups.
 * Where those copies would take more memory than the scores of all rows, there is one chunk. The size of chunks changes
 * no bit. */
#include "base/math.h"
#include "op/linear.h"
#include "op/scores.h"
#include "op/steps.h"

#include <math.h>
#include <string.h>

enum {
    /* the maximum number of rows in a chunk of ordered rows */
    ORDERED_ROWS = 1024,
    /* such a chunk ends at a multiple of ORDERED_CUT rows of its sequence, where kernels begin a new partial sum */
    ORDERED_CUT = 64,
    ROWS_A_PIECE = 4,
    COLUMNS_A_PART = 512
};

struct chunk {
    const struct qkv_kernels *kernels;
    size_t V;
    const int32_t *targets;
    const float *scores;
    float *dscores; /* may be scores itself; NULL: no gradient */
    float *losses;  /* of each row */
    float scale, smoothing;
    const struct qkv_loss_rows *rows;
    const int32_t *places; /* of the rows; NULL: `first` is that of the first one */
    size_t first;
    const struct qkv_softcap *softcap; /* NULL: none */
};

/* The sums of the scores of up to ROWS_A_PIECE rows from n on; missing rows repeat the last one. Four sums run side by
 * side because the additions of one sum wait for each other. */
static void sum_scores(const struct chunk *c, size_t n, size_t rows, double sums[ROWS_A_PIECE]) {
    const float *scores[ROWS_A_PIECE];
    double a = 0, b = 0, d = 0, e = 0;
    for (size_t r = 0; r < ROWS_A_PIECE; r++) scores[r] = c->scores + (n + qkv_min(r, rows - 1)) * c->V;
    for (size_t v = 0; v < c->V; v++) {
        a += (double)scores[0][v], b += (double)scores[1][v];
        d += (double)scores[2][v], e += (double)scores[3][v];
    }
    sums[0] = a, sums[1] = b, sums[2] = d, sums[3] = e;
}

/* lse − Σ q·scores of one row; sum: the sum of its scores, for smoothing. */
static float row_loss(const struct chunk *c, const float *scores, size_t target, float lse, double sum) {
    if (c->smoothing == 0) return lse - scores[target];
    const double e = (double)c->smoothing;
    return (float)((double)lse - (1 - e) * (double)scores[target] - e * sum / (double)c->V);
}

/* dscores = s·(softmax − q) of one row; dscores may be scores. */
static void row_gradient(const struct chunk *c, const float *scores, float *dscores, size_t target, float lse,
                         float scale) {
    c->kernels->softmax_scaled(dscores, scores, lse, scale, c->smoothing / (float)c->V * scale, c->V);
    dscores[target] -= (1 - c->smoothing) * scale;
}

/* The same with the slope of the softcap. It works part by part, as dscores may overwrite scores. */
static void row_gradient_capped(const struct chunk *c, const float *scores, float *dscores, size_t target, float lse,
                                float scale) {
    float capped[COLUMNS_A_PART];
    const float share = c->smoothing / (float)c->V * scale;
    for (size_t v = 0, n; v < c->V; v += n) {
        n = c->V - v < COLUMNS_A_PART ? c->V - v : COLUMNS_A_PART;
        memcpy(capped, scores + v, n * sizeof *capped);
        c->kernels->softmax_scaled(dscores + v, capped, lse, scale, share, n);
        if (target >= v && target < v + n) dscores[target] -= (1 - c->smoothing) * scale;
        qkv_softcap_slope(c->softcap, dscores + v, dscores + v, capped, n);
    }
}

static size_t chunk_place(const struct chunk *c, size_t n) {
    return c->places ? (size_t)c->places[n] : c->first + n;
}

/* The factor of a row's gradient; what others want to know of its loss, or count in its place. */
static float loss_weigh(const struct chunk *c, size_t n) {
    const size_t place = chunk_place(c, n);
    if (c->rows->found) c->rows->found[place] = c->losses[n];
    if (c->rows->losses) c->losses[n] = c->rows->losses[place];
    return c->rows->weights ? c->scale * c->rows->weights[place] : c->scale;
}

/* The log-sum-exp of scores/t, part by part. */
static float teach_lse(const struct chunk *c, const float *scores, float inverse) {
    float part[COLUMNS_A_PART];
    double most = -INFINITY, sum = 0;
    for (size_t v = 0, n; v < c->V; v += n) {
        n = qkv_min(c->V - v, (size_t)COLUMNS_A_PART);
        for (size_t i = 0; i < n; i++) part[i] = scores[v + i] * inverse;
        const double lse = (double)c->kernels->log_sum_exp(part, n);
        if (lse > most) sum *= qkv_exp(most - lse), most = lse;
        if (lse > -INFINITY) sum += qkv_exp(lse - most);
    }
    return (float)(most + qkv_log(sum));
}

/* What a teacher adds to a row: its divergence is returned, and the gradient of the whole loss becomes dscores, which
 * may be scores. lse: of the scores. */
static double teach_row(const struct chunk *c, const float *scores, float *dscores, float *teacher, size_t target,
                        float lse, float scale) {
    const float t = c->rows->temperature, inverse = 1 / t, soft = c->rows->share * t * scale;
    const float hard = (1 - c->rows->share) * scale, less = c->smoothing / (float)c->V * hard;
    float own[COLUMNS_A_PART], student[COLUMNS_A_PART], p[COLUMNS_A_PART], q[COLUMNS_A_PART];
    const float student_lse = teach_lse(c, scores, inverse), teacher_lse = teach_lse(c, teacher, inverse);
    double sum = 0;
    for (size_t v = 0, n; v < c->V; v += n) {
        n = qkv_min(c->V - v, (size_t)COLUMNS_A_PART);
        for (size_t i = 0; i < n; i++) student[i] = scores[v + i] * inverse, teacher[v + i] *= inverse;
        c->kernels->softmax_scaled(p, teacher + v, teacher_lse, 1, 0, n);
        for (size_t i = 0; i < n; i++)
            if (p[i] > 0)
                sum += (double)p[i] *
                       (((double)teacher[v + i] - (double)teacher_lse) - ((double)student[i] - (double)student_lse));
        if (!dscores) continue;
        memcpy(own, scores + v, n * sizeof *own);
        c->kernels->softmax_scaled(q, student, student_lse, 1, 0, n);
        c->kernels->softmax_scaled(dscores + v, own, lse, hard, less, n);
        for (size_t i = 0; i < n; i++) dscores[v + i] += soft * (q[i] - p[i]);
        if (target >= v && target < v + n) dscores[target] -= (1 - c->smoothing) * hard;
        if (c->softcap) qkv_softcap_slope(c->softcap, dscores + v, dscores + v, own, n);
    }
    return sum;
}

static void loss_rows(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct chunk *c = argument;
    double sums[ROWS_A_PIECE] = {0};
    for (size_t n = begin; n < end; n++) {
        const size_t r = (n - begin) % ROWS_A_PIECE;
        if (r == 0 && c->smoothing != 0) sum_scores(c, n, end - n, sums);
        const float *scores = c->scores + n * c->V;
        float *dscores = c->dscores ? c->dscores + n * c->V : NULL;
        if (c->targets[n] == QKV_IGNORE) {
            c->losses[n] = 0;
            if (c->rows->found) c->rows->found[chunk_place(c, n)] = 0;
            if (dscores) memset(dscores, 0, c->V * sizeof(float));
            continue;
        }
        size_t target = (size_t)c->targets[n];
        float lse = c->kernels->log_sum_exp(scores, c->V);
        c->losses[n] = row_loss(c, scores, target, lse, sums[r]);
        const float scale = loss_weigh(c, n);
        if (c->rows->teacher) {
            const double t = (double)c->rows->temperature, share = (double)c->rows->share;
            const double apart =
                teach_row(c, scores, dscores, c->rows->teacher + chunk_place(c, n) * c->V, target, lse, scale);
            c->losses[n] = (float)((1 - share) * (double)c->losses[n] + share * t * t * apart);
        } else if (dscores && c->softcap)
            row_gradient_capped(c, scores, dscores, target, lse, scale);
        else if (dscores)
            row_gradient(c, scores, dscores, target, lse, scale);
    }
}

struct total {
    const float *values;
    size_t count;
    const struct qkv_row_order *order;
    double sum;
};

static enum qkv_status add_up(void *argument) {
    struct total *t = argument;
    for (size_t i = 0; i < t->count; i++) t->sum += (double)t->values[i];
    const struct qkv_row_order *order = t->order;
    size_t begins[QKV_GROUPS_MAX + 1];
    if (!order || !order->losses || !t->count) return QKV_OK;
    qkv_order_begins(&order->sums, begins);
    for (size_t g = 0; g < order->sums.groups; g++) {
        for (size_t i = begins[g]; i < begins[g + 1]; i++) {
            order->losses[g] += (double)t->values[i];
        }
    }
    return QKV_OK;
}

struct targets {
    struct qkv_context *ctx;
    const int32_t *targets;
    size_t N, V;
    struct qkv_loss *loss;
};

/* The check of all targets also counts them. */
static enum qkv_status check_targets(void *argument) {
    const struct targets *t = argument;
    for (size_t n = 0; n < t->N; n++) {
        const int32_t target = t->targets[n];
        if (target == QKV_IGNORE) continue;
        if (target < 0 || (size_t)target >= t->V)
            return qkv_fail(t->ctx, QKV_ARGUMENT,
                            "target %d at place %zu is out of range: targets are 0 to %zu, or %d to be "
                            "ignored",
                            target, n, t->V - 1, QKV_IGNORE);
        t->loss->counted++;
    }
    return QKV_OK;
}

struct gradients {
    float *dx, *dweight, *dbias;
    bool accumulate;
    struct qkv_linear_carry carry; /* of dweight */
};

/* Computes scores, losses and gradients of one chunk of rows. */
static enum qkv_status run_chunk(struct qkv_tape *tape, const struct qkv_tensor *x, size_t first, size_t rows,
                                 const struct qkv_tensor *weight, const struct qkv_tensor *bias, float *scratch,
                                 const struct qkv_cross_entropy_options *o, float *losses, const struct gradients *g,
                                 const struct qkv_row_order *order) {
    float *scores = o->logits ? o->logits + first * weight->rows : scratch;
    enum qkv_status status = qkv_scores_rows(tape, x, first, rows, weight, bias, &o->softcap, scores);
    if (status) return status;
    struct chunk c = {.kernels = tape->ctx->kernels,
                      .V = weight->rows,
                      .targets = o->targets + first,
                      .scores = scores,
                      .dscores = g ? scratch : NULL,
                      .losses = losses + first,
                      .scale = o->scale,
                      .smoothing = o->smoothing,
                      .rows = &o->rows,
                      .places = o->places ? o->places + first : NULL,
                      .first = first,
                      .softcap = qkv_softcap_is_none(&o->softcap) ? NULL : &o->softcap};
    qkv_parallel_range(tape->ctx, rows, ROWS_A_PIECE, loss_rows, &c);
    if (!g) return QKV_OK;
    const size_t size = qkv_type_size(x->dtype);
    const struct qkv_linear_rows rows_of_x = {(char *)x->data + first * x->columns * size, x->dtype};
    float *dx = g->dx ? g->dx + first * x->columns : NULL;
    return qkv_linear_backward_parts(tape, scratch, rows_of_x, rows, dx, g->accumulate, weight, g->dweight, bias,
                                     g->dbias, order, g->carry);
}

/* ---- chunks of ordered rows -------------------------------------------------------------------------------------- */

struct groups {
    struct qkv_tape *tape;
    const struct qkv_tensor *x, *weight, *bias;
    const struct qkv_cross_entropy_options *options;
    const struct gradients *gradients;
    float *scratch, *losses;
    size_t chunk;            /* the maximum number of rows in a chunk */
    size_t *start, first[2]; /* the order of a chunk: one group, (sequences + 1) */
    /* gradients of weight and bias per level of the tree; unused with one group, whose sums add to the gradient
     * itself */
    float *level[QKV_ORDER_LEVELS];
};

static enum qkv_status groups_add(const struct groups *w, float *to, const float *from, size_t count) {
    return to ? QKV_STEP(w->tape->ctx, add, .to = to, .x = from, .count = count) : QKV_OK;
}

/* The end of the chunk that begins at row `begin` of sequence *q; sets the order of the chunk. *q becomes the sequence
 * in which the next chunk begins. */
static size_t groups_cut(struct groups *w, size_t begin, size_t end, size_t *q) {
    const struct qkv_order *order = &w->x->learning.order->sums;
    size_t to = begin, count = 0;
    while (to < end && to - begin < w->chunk) {
        const size_t left = w->chunk - (to - begin), stop = order->start[*q + 1];
        w->start[count++] = to - begin;
        if (stop - to <= left) {
            to = stop, ++*q;
            continue;
        }
        if (left / ORDERED_CUT == 0 && to > begin) {
            count--; /* the chunk has no row of this sequence */
            break;
        }
        to += left / ORDERED_CUT * ORDERED_CUT;
        break;
    }
    w->start[count] = to - begin;
    w->first[1] = count;
    return to;
}

static enum qkv_status groups_chunk(struct groups *w, size_t first, size_t rows, const struct gradients *g) {
    struct qkv_row_order order = *w->x->learning.order;
    order.sums.groups = 1;
    order.sums.terms = rows;
    order.sums.first = w->first;
    order.sums.start = w->start;
    return run_chunk(w->tape, w->x, first, rows, w->weight, w->bias, w->scratch, w->options, w->losses, g, &order);
}

/* Runs the rows of one group and adds its sums to the tree. */
static enum qkv_status groups_run(struct groups *w, size_t group) {
    const struct qkv_order *order = &w->x->learning.order->sums;
    const size_t V = w->weight->rows, floats = V * w->weight->columns, end = order->start[order->first[group + 1]];
    const struct qkv_order_step step = qkv_order_step(group, group + 1, order->groups);
    struct gradients g = *w->gradients;
    float *sums = w->level[step.last ? qkv_order_levels(order->groups) - 1 : step.level];
    enum qkv_status status = QKV_OK;
    if (sums) {
        status = QKV_STEP(w->tape->ctx, clear, .to = sums, .bytes = (floats + V) * sizeof *sums);
        if (g.dweight) g.dweight = sums;
        if (g.dbias) g.dbias = sums + floats;
    }
    size_t sequence = order->first[group];
    for (size_t begin = order->start[sequence], at = begin, to; at < end && !status; at = to) {
        to = groups_cut(w, at, end, &sequence);
        g.carry.goes_on = at > begin;
        g.carry.more = to < end;
        status = groups_chunk(w, at, to - at, &g);
    }
    for (size_t i = 0; sums && i < step.count && !status; i++)
        status = groups_add(w, sums, w->level[step.levels[i]], floats + V);
    if (status || !sums || !step.last) return status;
    status = groups_add(w, w->gradients->dweight, sums, floats);
    return status ? status : groups_add(w, w->gradients->dbias, sums + floats, V);
}

/* All chunks of ordered rows: for a run, or for a plan. */
typedef enum qkv_status groups_all(struct groups *w);

static enum qkv_status groups_run_all(struct groups *w) {
    const size_t groups = w->x->learning.order->sums.groups;
    enum qkv_status status = QKV_OK;
    for (size_t group = 0; group < groups && !status; group++) status = groups_run(w, group);
    return status;
}

/* A plan knows no groups: it measures chunks of all sizes. */
static enum qkv_status groups_plan_all(struct groups *w) {
    enum qkv_status status = QKV_OK;
    for (size_t rows = 1; rows <= w->chunk && !status; rows++) status = groups_chunk(w, 0, rows, w->gradients);
    return status;
}

static enum qkv_status groups_take(struct groups *w) {
    const struct qkv_order *order = &w->x->learning.order->sums;
    const size_t floats = w->weight->rows * (w->weight->columns + 1);
    const size_t levels = order->groups > 1 ? qkv_order_levels(order->groups) : 0;
    for (size_t i = 0; i < levels; i++) w->level[i] = qkv_tape_take(w->tape, floats, sizeof(float));
    w->start = qkv_tape_take(w->tape, order->sequences + 1, sizeof *w->start);
    return w->tape->status;
}

/* Whether chunks may write the weight's gradient to weight->carry. */
static bool groups_carry(const struct qkv_tape *tape, const struct qkv_tensor *x, const struct qkv_tensor *weight,
                         size_t chunk) {
    struct qkv_order order = x->learning.order->sums;
    order.terms = chunk;
    return order.groups == 1 && qkv_operand_product_back(tape, weight)->carries(tape->ctx, &order);
}

/* The maximum number of rows in a chunk of ordered rows: all rows where that takes less memory than chunks and
 * levels. */
static size_t groups_rows(const struct qkv_tensor *x, const struct qkv_tensor *weight, size_t chunk) {
    const size_t groups = x->learning.order->sums.groups, max = chunk < ORDERED_ROWS ? chunk : ORDERED_ROWS;
    const size_t rows = max / ORDERED_CUT ? max / ORDERED_CUT * ORDERED_CUT : ORDERED_CUT;
    const size_t copies = groups > 1 ? qkv_order_levels(groups) * (weight->columns + 1) : 0;
    return rows + copies < x->rows ? rows : x->rows;
}

/* ---- the operator ------------------------------------------------------------------------------------------------ */

struct cross_entropy {
    struct qkv_cross_entropy_options options;
    struct qkv_loss *loss; /* the caller's: valid while forward runs */
};

enum qkv_status qkv_check_cross_entropy(struct qkv_tape *tape, struct qkv_node *node) {
    struct cross_entropy *s = node->saved;
    const struct qkv_tensor *x = node->inputs[0], *weight = node->inputs[1];
    enum qkv_status status = qkv_linear_check(tape, "head", x, weight, node->inputs[2]);
    if (status) return status;
    struct targets targets = {tape->ctx, s->options.targets, x->rows, weight->rows, s->loss};
    return qkv_compute(tape->ctx, check_targets, &targets);
}

/* Sets the buffers that gradients are added to. */
static enum qkv_status take_gradients(struct qkv_tape *tape, struct qkv_node *node, struct gradients *g) {
    struct qkv_tensor *weight = node->inputs[1];
    bool always;
    enum qkv_status status = QKV_OK;
    g->dweight = qkv_gradient_out(tape, weight, &always, &status);
    if (weight->learning.given == 1 && (weight->learning.times <= 1 || weight->learning.later))
        g->carry.done = &weight->learning.carried;
    g->dbias = qkv_gradient_out(tape, node->inputs[2], &always, &status);
    g->dx = qkv_gradient_out(tape, node->inputs[0], &g->accumulate, &status);
    return status;
}

static enum qkv_status cross_entropy_forward(struct qkv_tape *tape, struct qkv_node *node, groups_all *all) {
    struct cross_entropy *s = node->saved;
    const struct qkv_cross_entropy_options *o = &s->options;
    const struct qkv_tensor *x = node->inputs[0], *weight = node->inputs[1], *bias = node->inputs[2];
    const size_t N = x->rows, V = weight->rows;
    struct gradients g = {0};
    node->whole = tape->recording && (x->learning.requires_grad || weight->learning.requires_grad ||
                                      (bias && bias->learning.requires_grad));
    if (node->whole && qkv_tape_failed(tape, take_gradients(tape, node, &g))) return tape->status;
    size_t chunk = qkv_scores_chunk(V);
    const bool ordered = node->whole && x->learning.order && chunk < N && groups_rows(x, weight, chunk) < N;
    if (ordered) {
        chunk = groups_rows(x, weight, chunk);
    } else if (chunk > N || (node->whole && x->learning.order)) {
        chunk = N;
    }
    if (ordered && !groups_carry(tape, x, weight, chunk)) g.carry.done = NULL;
    size_t mark = qkv_arena_mark(tape->arena);
    float *scratch = node->whole || !o->logits ? qkv_tape_take(tape, chunk * V, sizeof(float)) : NULL;
    float *losses = qkv_tape_take(tape, N, sizeof(float));
    if (ordered && !tape->status) {
        struct groups w = {tape, x, weight, bias, o, &g, scratch, losses, .chunk = chunk};
        if (!groups_take(&w)) qkv_tape_failed(tape, all(&w));
    }
    for (size_t first = 0; !ordered && first < N && !tape->status; first += chunk) {
        size_t rows = N - first < chunk ? N - first : chunk;
        qkv_tape_failed(tape, run_chunk(tape, x, first, rows, weight, bias, scratch, o, losses, node->whole ? &g : NULL,
                                        x->learning.order));
    }
    struct total t = {.values = losses, .count = N, .order = x->learning.order};
    if (!tape->status) qkv_tape_failed(tape, qkv_compute(tape->ctx, add_up, &t));
    s->loss->sum = t.sum;
    s->loss = NULL;
    qkv_arena_release(tape->arena, mark);
    return tape->status;
}

enum qkv_status qkv_forward_cross_entropy(struct qkv_tape *tape, struct qkv_node *node) {
    return cross_entropy_forward(tape, node, groups_run_all);
}

enum qkv_status qkv_plan_forward_cross_entropy(struct qkv_tape *tape, struct qkv_node *node) {
    return cross_entropy_forward(tape, node, groups_plan_all);
}

/* Forward has computed all gradients. */
enum qkv_status qkv_backward_cross_entropy(struct qkv_tape *tape, struct qkv_node *node) {
    (void)node;
    return tape->status;
}

enum qkv_status qkv_plan_backward_cross_entropy(struct qkv_tape *tape, struct qkv_node *node) {
    return qkv_backward_cross_entropy(tape, node);
}

struct qkv_cost qkv_cost_cross_entropy(const struct qkv_node *node, bool backward) {
    return (struct qkv_cost){.flops = qkv_product_flops(node->inputs[0], node->inputs[1], backward)};
}

void qkv_op_cross_entropy(struct qkv_tape *tape, struct qkv_tensor *x, struct qkv_tensor *weight,
                          struct qkv_tensor *bias, const struct qkv_cross_entropy_options *o, struct qkv_loss *loss) {
    *loss = (struct qkv_loss){0};
    if (!x || tape->status) return;
    struct cross_entropy *s = qkv_tape_take_graph(tape, sizeof *s);
    if (!s) return;
    *s = (struct cross_entropy){.options = *o, .loss = loss};
    struct qkv_node node = qkv_tape_node(tape, QKV_OPERATOR_cross_entropy, s);
    node.inputs[0] = x;
    node.inputs[1] = weight;
    node.inputs[2] = bias;
    if (qkv_tape_check(tape, &node)) {
        qkv_tape_run(tape, &node);
    }
}
