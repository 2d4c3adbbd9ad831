/* rank_sums: gradients of several ranks become one sum. The owner of some floats gets the sums of all nodes of the tree for them, piece
 * by piece, adds them as the tree says, and is the only one who has them then; when it has updated its weights, all get those. */
#include <math.h>
#include <string.h>

#include "kernel/kernel.h"
#include "model/model.h"
#include "train/train.h"

enum { RANK_PIECE = 1 << 14 }; /* floats that travel at a time */

/* ---- memory ------------------------------------------------------------------------------------------------------------ */

/* The most nodes that a rank has, and all other ranks together, in a batch of any number of rows. */
static void rank_count_nodes(const struct qkv_context *ctx, const struct qkv_train_options *options, size_t *own,
                             size_t *others) {
    *own = 1;
    *others = 0;
    for (size_t rows = 1; rows <= (size_t)options->groups; rows++) {
        size_t all = 0;
        for (int rank = 0; rank < qkv_context_ranks(ctx); rank++) {
            const size_t count = qkv_rank_share_of(ctx, options, rows, rank).count;
            if (rank == qkv_context_rank(ctx))
                *own = qkv_max(*own, count);
            else
                all += count;
        }
        *others = qkv_max(*others, all);
    }
}

enum qkv_status qkv_rank_sums_create(struct qkv_model *model, struct qkv_part_sums *parts,
                                     const struct qkv_train_options *options, struct qkv_rank_sums *sums) {
    size_t own, others, floats, slots;
    *sums = (struct qkv_rank_sums){.parts = parts};
    if (qkv_context_ranks(model->ctx) == 1) return QKV_OK;
    rank_count_nodes(model->ctx, options, &own, &others);
    sums->slot_count = own - 1;
    if (!qkv_add_size(model->weights.floats, parts->later_floats, &floats) ||
        !qkv_multiply(floats, sums->slot_count, &slots) || !qkv_add_size(slots, others * RANK_PIECE, &slots) ||
        !qkv_multiply(slots, sizeof(float), &slots))
        return qkv_fail_memory(model->ctx, SIZE_MAX, "gradients of ranks");
    enum qkv_status status =
        qkv_arena_create(model->ctx, &sums->arena, slots + (own + 1) * QKV_CACHE_LINE, "gradients of ranks");
    if (status) return status;
    sums->received = qkv_arena_take(&sums->arena, others * RANK_PIECE, sizeof(float));
    for (size_t i = 0; i < sums->slot_count; i++) {
        sums->slots[i] = qkv_arena_take(&sums->arena, floats, sizeof(float));
        if (!sums->slots[i]) return QKV_MEMORY;
    }
    return sums->received ? QKV_OK : QKV_MEMORY;
}

void qkv_rank_sums_free(struct qkv_rank_sums *sums) {
    qkv_arena_free(&sums->arena);
}

void qkv_rank_sums_keep(struct qkv_rank_sums *sums, const struct qkv_rank_share *share, size_t node) {
    struct qkv_weights *w = &sums->parts->model->weights;
    const size_t later = sums->parts->later_floats;
    if (!sums->received || node + 1 == share->count) return;
    memcpy(sums->slots[node], w->gradients, w->floats * sizeof(float));
    qkv_weights_clear_gradients(w);
    if (!later) return;
    memcpy(sums->slots[node] + w->floats, sums->parts->later, later * sizeof(float));
    memset(sums->parts->later, 0,
           later * sizeof(float) + sums->parts->later_bytes); /* and what says that rows are used */
}

/* ---- pieces of what a rank owns ------------------------------------------------------------------------------------------ */

/* Where they lie in a node's sum: gradients first, then the later uses of each weight in turn, which are added to its gradients. */
struct rank_walk {
    size_t begin, end;   /* floats that the rank owns */
    size_t weight, use;  /* whose later uses come next */
    size_t at, to, left; /* of the run in work: where it begins in a sum and in the gradients; floats that are left */
    bool later;          /* it is one of later uses */
};
struct rank_piece {
    size_t at, to, count; /* 0: the rank has had all of its own */
    bool later;
};

static struct rank_walk rank_walk_of(const struct qkv_model *model, int rank) {
    struct rank_walk walk = {0};
    qkv_rank_floats(model, rank, &walk.begin, &walk.end);
    walk.at = walk.to = walk.begin;
    walk.left = walk.end - walk.begin;
    return walk;
}

/* Goes to the next run of later uses, which may be empty; false: there is none. */
static bool rank_walk_on(const struct qkv_part_sums *parts, struct rank_walk *walk) {
    const struct qkv_weights *w = &parts->model->weights;
    for (; walk->weight < w->tensor_count; walk->weight++, walk->use = 0) {
        const struct qkv_tensor *x = w->tensors[walk->weight];
        if (!x->later || walk->use + 1 >= x->times) continue;
        const size_t own = (size_t)(x->gradient - w->gradients);
        const size_t from = qkv_max(walk->begin, own), to = qkv_min(walk->end, own + x->rows * x->columns);
        walk->at = w->floats + (size_t)(x->later - parts->later) + walk->use++ * x->later_stride + (from - own);
        walk->to = from;
        walk->left = to > from ? to - from : 0;
        walk->later = true;
        return true;
    }
    return false;
}

static struct rank_piece rank_walk_next(const struct qkv_part_sums *parts, struct rank_walk *walk) {
    while (!walk->left)
        if (!rank_walk_on(parts, walk)) return (struct rank_piece){0};
    const struct rank_piece piece = {walk->at, walk->to, qkv_min(walk->left, RANK_PIECE), walk->later};
    walk->at += piece.count;
    walk->to += piece.count;
    walk->left -= piece.count;
    return piece;
}

/* ---- sums ---------------------------------------------------------------------------------------------------------------- */

struct rank_work {
    struct qkv_rank_sums *sums;
    int rank, ranks;
    struct qkv_rank_share shares[QKV_RANKS_MOST];
    struct rank_walk walks[QKV_RANKS_MOST];
    struct rank_piece pieces[QKV_RANKS_MOST]; /* of each owner, in work */
    size_t first[QKV_RANKS_MOST];             /* where the nodes of each other rank are received */
    size_t nodes;                             /* of a rank, at most */
};

static void rank_work_begin(struct rank_work *work, struct qkv_rank_sums *sums, const struct qkv_train_options *options,
                            size_t rows) {
    const struct qkv_model *model = sums->parts->model;
    size_t received = 0;
    work->sums = sums;
    work->rank = qkv_context_rank(model->ctx);
    work->ranks = qkv_context_ranks(model->ctx);
    work->nodes = 0;
    for (int r = 0; r < work->ranks; r++) {
        work->shares[r] = qkv_rank_share_of(model->ctx, options, rows, r);
        work->walks[r] = rank_walk_of(model, r);
        work->first[r] = received;
        if (r != work->rank) received += work->shares[r].count;
        work->nodes = qkv_max(work->nodes, work->shares[r].count);
    }
}

/* The next piece of each owner; false behind the last of all. */
static bool rank_work_next(struct rank_work *work) {
    bool any = false;
    for (int r = 0; r < work->ranks; r++) {
        work->pieces[r] = rank_walk_next(work->sums->parts, &work->walks[r]);
        any = any || work->pieces[r].count;
    }
    return any;
}

/* What this rank has of a node of its own, from a place in its sum on. */
static float *rank_own(const struct rank_work *work, size_t node, size_t at) {
    const struct qkv_part_sums *parts = work->sums->parts;
    const size_t floats = parts->model->weights.floats;
    if (node + 1 < work->shares[work->rank].count) return work->sums->slots[node] + at;
    return at < floats ? parts->model->weights.gradients + at : parts->later + (at - floats);
}

/* Sends each owner its piece of every node, and receives those of the piece that is this rank's own. */
static enum qkv_status rank_work_travel(const struct rank_work *work) {
    const struct rank_piece *mine = &work->pieces[work->rank];
    enum qkv_status status = QKV_OK;
    for (int shift = 1; shift < work->ranks; shift++) {
        const int to = (work->rank + shift) % work->ranks, from = (work->rank + work->ranks - shift) % work->ranks;
        for (size_t node = 0; node < work->nodes && !status; node++) {
            const bool sends = node < work->shares[work->rank].count && work->pieces[to].count;
            const bool receives = node < work->shares[from].count && mine->count;
            status = qkv_rank_exchange(work->sums->parts->model->ctx, to,
                                       sends ? rank_own(work, node, work->pieces[to].at) : NULL,
                                       sends ? work->pieces[to].count * sizeof(float) : 0, from,
                                       work->sums->received + (work->first[from] + node) * RANK_PIECE,
                                       receives ? mine->count * sizeof(float) : 0);
        }
    }
    return status;
}

/* Adds the nodes of all ranks for this rank's piece, in the order of groups. */
static void rank_work_add(const struct rank_work *work) {
    const struct rank_piece *mine = &work->pieces[work->rank];
    struct qkv_model *model = work->sums->parts->model;
    const struct qkv_kernels *kernels = model->ctx->kernels;
    float *levels[QKV_ORDER_LEVELS], *sum = NULL, *out = model->weights.gradients + mine->to;
    for (int r = 0; r < work->ranks; r++) {
        const struct qkv_rank_share *share = &work->shares[r];
        for (size_t node = 0; node < share->count; node++) {
            const struct qkv_order_step step =
                qkv_order_step(share->nodes[node].begin, share->nodes[node].end, share->groups);
            sum = r == work->rank ? rank_own(work, node, mine->at)
                                  : work->sums->received + (work->first[r] + node) * RANK_PIECE;
            for (size_t i = 0; i < step.count; i++) kernels->add(sum, levels[step.levels[i]], sum, mine->count);
            if (!step.last) levels[step.level] = sum;
        }
    }
    if (mine->later)
        kernels->add(out, sum, out, mine->count);
    else if (sum && sum != out)
        memcpy(out, sum, mine->count * sizeof *out);
}

static void rank_clear_others(struct qkv_model *model) {
    size_t begin, end;
    struct qkv_weights *w = &model->weights;
    qkv_rank_floats(model, qkv_context_rank(model->ctx), &begin, &end);
    memset(w->gradients, 0, begin * sizeof(float));
    memset(w->gradients + end, 0, (w->floats - end) * sizeof(float));
}

enum qkv_status qkv_rank_sums_add(struct qkv_rank_sums *sums, const struct qkv_train_options *options, size_t rows) {
    struct rank_work work;
    enum qkv_status status = QKV_OK;
    if (!sums->received) return QKV_OK;
    rank_work_begin(&work, sums, options, rows);
    while (!status && rank_work_next(&work)) {
        status = rank_work_travel(&work);
        if (!status && work.pieces[work.rank].count) rank_work_add(&work);
    }
    rank_clear_others(sums->parts->model);
    return status;
}

/* ---- what all get ---------------------------------------------------------------------------------------------------------- */

/* Ranges of an array that ranks own go to all others. */
static enum qkv_status rank_spread(struct qkv_context *ctx, char *array, const size_t *begin, const size_t *end,
                                   size_t size) {
    const int rank = qkv_context_rank(ctx), ranks = qkv_context_ranks(ctx);
    enum qkv_status status = QKV_OK;
    for (int shift = 1; shift < ranks && !status; shift++) {
        const int to = (rank + shift) % ranks, from = (rank + ranks - shift) % ranks;
        status = qkv_rank_exchange(ctx, to, array + begin[rank] * size, (end[rank] - begin[rank]) * size, from,
                                   array + begin[from] * size, (end[from] - begin[from]) * size);
    }
    return status;
}

enum qkv_status qkv_rank_norm(struct qkv_model *model, double *norm) {
    size_t begin[QKV_RANKS_MOST], end[QKV_RANKS_MOST];
    enum qkv_status status = QKV_OK;
    qkv_weights_square_gradients(&model->weights);
    for (int r = 0; r < qkv_context_ranks(model->ctx); r++) {
        qkv_rank_floats(model, r, &begin[r], &end[r]);
        begin[r] = qkv_pieces(begin[r], QKV_GRADIENT_PIECE);
        end[r] = qkv_pieces(end[r], QKV_GRADIENT_PIECE);
    }
    status = rank_spread(model->ctx, (char *)model->weights.gradient_sums, begin, end, sizeof(double));
    *norm = qkv_weights_gradient_norm(&model->weights);
    return status;
}

/* Copies the weights whose gradients lie in [begin, end) between their places and those of the gradients. */
static void rank_copy_weights(struct qkv_weights *w, size_t begin, size_t end, bool out) {
    for (size_t i = 0; i < w->count; i++) {
        const struct qkv_weight *weight = &w->list[i];
        if (!weight->trainable) continue;
        const size_t at = (size_t)(weight->gradient - w->gradients);
        const size_t from = qkv_max(begin, at), to = qkv_min(end, at + weight->rows * weight->columns);
        if (from >= to) continue;
        if (out)
            memcpy(w->gradients + from, weight->data + (from - at), (to - from) * sizeof(float));
        else
            memcpy(weight->data + (from - at), w->gradients + from, (to - from) * sizeof(float));
    }
}

/* The gradients are used up, so their array carries the weights. */
enum qkv_status qkv_rank_spread_weights(struct qkv_model *model) {
    size_t begin[QKV_RANKS_MOST], end[QKV_RANKS_MOST];
    struct qkv_weights *w = &model->weights;
    const int rank = qkv_context_rank(model->ctx), ranks = qkv_context_ranks(model->ctx);
    if (ranks == 1) return QKV_OK;
    for (int r = 0; r < ranks; r++) qkv_rank_floats(model, r, &begin[r], &end[r]);
    rank_copy_weights(w, begin[rank], end[rank], true);
    enum qkv_status status = rank_spread(model->ctx, (char *)w->gradients, begin, end, sizeof(float));
    for (int r = 0; r < ranks && !status; r++)
        if (r != rank) rank_copy_weights(w, begin[r], end[r], false);
    qkv_weights_clear_gradients(w);
    return status;
}
