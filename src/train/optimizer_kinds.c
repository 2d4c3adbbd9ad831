/* optimizer_kinds: the optimizers, a line each: which options of theirs they read, and how they update a weight. */
#include <string.h>

#include "model/model.h"
#include "train/train.h"

#define UPDATE_MOMENTS(name, moments) moments,
static const unsigned update_moments[QKV_UPDATE_COUNT] = {QKV_UPDATE_LIST(UPDATE_MOMENTS)};

static const struct optimizer_kind {
    bool betas, eps, momentum; /* options that it reads */
    enum qkv_update update;
} kinds[] = {
    [QKV_OPTIMIZER_ADAMW] = {.betas = true, .eps = true, .update = QKV_UPDATE_adamw},
    [QKV_OPTIMIZER_ADAM] = {.betas = true, .eps = true, .update = QKV_UPDATE_adam},
    [QKV_OPTIMIZER_SGD] = {.momentum = true, .update = QKV_UPDATE_sgd},
    [QKV_OPTIMIZER_LION] = {.betas = true, .update = QKV_UPDATE_lion},
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

enum qkv_update qkv_optimizer_update(enum qkv_optimizer_kind kind, const struct qkv_weight *weight) {
    (void)weight;
    return kinds[kind].update;
}

bool qkv_optimizer_has(enum qkv_optimizer_kind kind, enum qkv_moment k, const struct qkv_weight *weight) {
    return update_moments[qkv_optimizer_update(kind, weight)] >> k & 1;
}

static size_t kinds_count(const void *user, const struct qkv_weight *weight) {
    const enum qkv_optimizer_kind *kind = user;
    size_t count = 0;
    for (int k = 0; k < QKV_MOMENT_COUNT; k++) count += qkv_optimizer_has(*kind, (enum qkv_moment)k, weight);
    return count;
}

size_t qkv_optimizer_moments_of(enum qkv_optimizer_kind kind, const struct qkv_weights *w) {
    size_t most = 0;
    for (size_t i = 0; i < w->count; i++) most = qkv_max(most, kinds_count(&kind, &w->list[i]));
    return most;
}

size_t qkv_optimizer_plan(enum qkv_optimizer_kind kind, const struct qkv_model *model, int rank) {
    return qkv_rank_moment_bytes(model, rank, kinds_count, &kind);
}
