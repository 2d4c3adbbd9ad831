/* optimizer_kinds: the optimizers, a line each: which options of theirs they read, and how they update a weight. */
#include <math.h>
#include <string.h>

#include "model/model.h"
#include "train/train.h"

#define UPDATE_MOMENTS(name, moments) moments,
static const unsigned update_moments[QKV_UPDATE_COUNT] = {QKV_UPDATE_LIST(UPDATE_MOMENTS)};

#define ALIKE(name) .blocks = QKV_UPDATE_##name, .others = QKV_UPDATE_##name
static const struct optimizer_kind {
    bool betas, eps, momentum;      /* options that it reads */
    enum qkv_update blocks, others; /* of matrices of blocks; of all other weights */
} kinds[] = {
    [QKV_OPTIMIZER_ADAMW] = {.betas = true, .eps = true, ALIKE(adamw)},
    [QKV_OPTIMIZER_ADAM] = {.betas = true, .eps = true, ALIKE(adam)},
    [QKV_OPTIMIZER_SGD] = {.momentum = true, ALIKE(sgd)},
    [QKV_OPTIMIZER_LION] = {.betas = true, ALIKE(lion)},
    [QKV_OPTIMIZER_MUON] =
        {.betas = true, .eps = true, .momentum = true, .blocks = QKV_UPDATE_momentum, .others = QKV_UPDATE_adamw},
    [QKV_OPTIMIZER_ADAFACTOR] = {.eps = true, ALIKE(factored)},
};
#define COUNT_ONE(name, text, help) +1
enum { KINDS = sizeof kinds / sizeof *kinds };
_Static_assert(KINDS == 0 QKV_OPTIMIZER_LIST(COUNT_ONE), "each optimizer has its line");

bool qkv_optimizer_is_kind(int kind) {
    return kind >= 0 && kind < KINDS;
}

bool qkv_optimizer_reads(enum qkv_optimizer_kind kind, const char *option) {
    const struct optimizer_kind *k = &kinds[kind];
    if (!strcmp(option, "momentum")) return k->momentum;
    return strcmp(option, "eps") ? k->betas : k->eps;
}

const char *qkv_optimizer_lacks(enum qkv_optimizer_kind kind) {
#define LACKS(name, text, help) "the optimizer " text " has none",
    static const char *const sentences[] = {QKV_OPTIMIZER_LIST(LACKS)};
    return sentences[kind];
}

/* ---- moments ---------------------------------------------------------------------------------------------------- */

const char *qkv_moment_name(enum qkv_moment k) {
#define MOMENT_NAME(NAME, name) "optimizer." name,
    static const char *const names[] = {QKV_MOMENT_LIST(MOMENT_NAME)};
    return names[k];
}

/* A matrix inside of a block, which a product multiplies: no embedding, no head, no norm, no bias, and no matrix of one
 * row or column, which is a vector. */
static bool kinds_in_block(const struct qkv_weight *w) {
    const bool table = w->role == QKV_ROLE_BUCKETS || w->role == QKV_ROLE_RELATIVE;
    return w->layer >= 0 && w->decays && !w->bias && !table && w->rows > 1 && w->columns > 1;
}

enum qkv_update qkv_optimizer_update(enum qkv_optimizer_kind kind, const struct qkv_weight *weight) {
    return kinds_in_block(weight) ? kinds[kind].blocks : kinds[kind].others;
}

bool qkv_update_whole(enum qkv_update update) {
    return update == QKV_UPDATE_momentum || update == QKV_UPDATE_factored;
}

float qkv_update_whole_scale(const struct qkv_weight *weight) {
    return (float)(0.2 * sqrt((double)qkv_max(weight->rows, weight->columns)));
}

bool qkv_optimizer_whole(enum qkv_optimizer_kind kind) {
    return qkv_update_whole(kinds[kind].blocks);
}

bool qkv_optimizer_has(const struct qkv_optimizer_options *options, enum qkv_moment k,
                       const struct qkv_weight *weight) {
    if (k == QKV_MOMENT_AVERAGE) return options->average > 0;
    if (k == QKV_MOMENT_COLUMNS && weight->array.rank < 2) return false;
    return update_moments[qkv_optimizer_update(options->kind, weight)] >> k & 1;
}

bool qkv_moment_whole(enum qkv_moment k) {
    return k == QKV_MOMENT_ROWS || k == QKV_MOMENT_COLUMNS;
}

size_t qkv_factored_rows(const struct qkv_weight *weight) {
    return weight->array.rank < 2 ? weight->rows * weight->columns : weight->rows;
}

size_t qkv_factored_columns(const struct qkv_weight *weight) {
    return weight->array.rank < 2 ? 0 : weight->columns;
}

struct qkv_array qkv_moment_array(enum qkv_moment k, const struct qkv_weight *weight) {
    struct qkv_array array = weight->array;
    if (!qkv_moment_whole(k) || array.rank < 2) return array;
    array.rank = 1;
    array.shape[0] = k == QKV_MOMENT_ROWS ? weight->rows : weight->columns;
    array.bytes = array.shape[0] * sizeof(float);
    return array;
}

/* Moments with a number for each of the weight's, which ranks divide. */
static size_t kinds_count(const void *user, const struct qkv_weight *weight) {
    size_t count = 0;
    for (int k = 0; k < QKV_MOMENT_COUNT; k++)
        count += !qkv_moment_whole((enum qkv_moment)k) && qkv_optimizer_has(user, (enum qkv_moment)k, weight);
    return count;
}

size_t qkv_optimizer_whole_bytes(const struct qkv_optimizer_options *options, const struct qkv_weights *w) {
    size_t bytes = 0;
    for (size_t i = 0; i < w->count; i++)
        for (int k = 0; k < QKV_MOMENT_COUNT && w->list[i].trainable; k++) {
            if (!qkv_moment_whole((enum qkv_moment)k) || !qkv_optimizer_has(options, (enum qkv_moment)k, &w->list[i]))
                continue;
            const struct qkv_array array = qkv_moment_array((enum qkv_moment)k, &w->list[i]);
            bytes += qkv_round_up(qkv_array_elements(&array) * sizeof(float), QKV_CACHE_LINE);
        }
    return bytes;
}

size_t qkv_optimizer_moments_of(const struct qkv_optimizer_options *options, const struct qkv_weights *w) {
    size_t most = 0;
    for (size_t i = 0; i < w->count; i++) {
        size_t count = 0;
        for (int k = 0; k < QKV_MOMENT_COUNT; k++) count += qkv_optimizer_has(options, (enum qkv_moment)k, &w->list[i]);
        most = qkv_max(most, count);
    }
    return most;
}

struct kinds_room {
    struct qkv_context *ctx;
    struct qkv_arena arena;
    const struct qkv_weight *weight;
    enum qkv_update update;
};

static enum qkv_status kinds_whole(void *argument) {
    struct kinds_room *room = argument;
    if (room->update == QKV_UPDATE_factored)
        return QKV_STEP(room->ctx, factorise, .rows = qkv_factored_rows(room->weight),
                        .columns = qkv_factored_columns(room->weight), .scratch = &room->arena);
    return QKV_STEP(room->ctx, orthogonalise, .x = NULL, .rows = room->weight->rows, .columns = room->weight->columns,
                    .scratch = &room->arena);
}

enum qkv_status qkv_optimizer_room(enum qkv_optimizer_kind kind, const struct qkv_weights *w, size_t *bytes) {
    enum qkv_status status = QKV_OK;
    *bytes = 0;
    for (size_t i = 0; i < w->count && !status; i++) {
        struct kinds_room room = {
            .ctx = w->ctx, .weight = &w->list[i], .update = qkv_optimizer_update(kind, &w->list[i])};
        if (w->list[i].trainable && qkv_update_whole(room.update))
            status = qkv_plan(w->ctx, &room.arena, "optimizer", kinds_whole, &room, bytes);
    }
    return status;
}

enum qkv_status qkv_optimizer_plan(const struct qkv_optimizer_options *options, const struct qkv_model *model, int rank,
                                   size_t *bytes) {
    const enum qkv_status status = qkv_optimizer_room(options->kind, &model->weights, bytes);
    *bytes += qkv_rank_moment_bytes(model, rank, kinds_count, options);
    *bytes += qkv_optimizer_whole_bytes(options, &model->weights);
    return status;
}
