/* model_use: who uses a model, and in which precision. A model that several contexts share (share.c) is read-only. */
#include "model/model.h"

enum qkv_precision qkv_model_own_precision(const struct qkv_model *model) {
    return model ? model->precision : QKV_FP32;
}

const struct qkv_product *qkv_model_product(const struct qkv_model *m) {
    return qkv_product_of_precision(m->precision);
}

void qkv_model_tape(struct qkv_model *m, struct qkv_tape *tape, struct qkv_arena *arena, struct qkv_arena *graph_arena,
                    bool recording) {
    const struct qkv_adapter_run *chosen = m->now ? m->now : &m->chosen;
    qkv_tape_start(tape, m->ctx, arena, graph_arena, recording);
    tape->product = qkv_model_product(m);
    /* memory that is planned is enough for every choice */
    if (recording) return;
    if (m->named.count && arena->measuring)
        tape->runs = (struct qkv_adapter_runs){m->named.every, m->named.count};
    else if (chosen->count)
        tape->runs = (struct qkv_adapter_runs){chosen, 1};
}

enum qkv_status qkv_model_check_file(const struct qkv_model *m) {
    return m->file.owner ? m->file.check(m->ctx, m->file.owner) : QKV_OK;
}

enum qkv_status qkv_model_check_alive(const struct qkv_model *m) {
    if (!m->sharing.freed) return QKV_OK;
    return qkv_fail(m->ctx, QKV_ARGUMENT,
                    "the model was freed, and this still uses it: free sessions, passes and optimizers before their "
                    "model");
}

static bool use_is_shared(const struct qkv_model *m) {
    return m->sharing.first != m || atomic_load(&m->sharing.state) > 0;
}

static enum qkv_status use_refuse(const struct qkv_model *m, const char *what) {
    return qkv_fail(m->ctx, QKV_ARGUMENT,
                    "%s: several contexts share this model (qkv_model_share), so it is read-only; free its shares, or "
                    "load it once more",
                    what);
}

enum qkv_status qkv_model_check_own(const struct qkv_model *m, const char *what) {
    return use_is_shared(m) ? use_refuse(m, what) : QKV_OK;
}

/* One more user that trains, unless there are shares. */
static bool use_train(struct qkv_model *m) {
    int state = atomic_load(&m->sharing.state);
    do {
        if (state > 0 || m->sharing.first != m) return false;
    } while (!atomic_compare_exchange_weak(&m->sharing.state, &state, state - 1));
    return true;
}

enum qkv_status qkv_model_begin_use(struct qkv_model *m, bool train) {
    if (train && m->named.count)
        return qkv_fail(m->ctx, QKV_ARGUMENT,
                        "the model has adapters with names, which are not trained; open it with none, or with the one "
                        "that is to be trained");
    if (train && !use_train(m)) return use_refuse(m, "it cannot be trained");
    m->sharing.users++;
    return QKV_OK;
}
