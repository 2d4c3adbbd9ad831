/* rank_save: the model of several ranks as a file: rank 0 writes it, with the fp32 numbers that the others have of
 * divided weights. */
#include <string.h>

#include "io/adapter_files.h"
#include "io/io.h"
#include "kernel/kernel.h"
#include "model/model.h"
#include "rank/ranks.h"

/* What the others own goes to rank 0, where gradients are, which are used up between two steps. */
static enum qkv_status masters_gather(struct qkv_model *m, const struct qkv_rank_masters *masters) {
    const struct qkv_weights *w = &m->weights;
    const struct qkv_rank_cut cut = qkv_rank_cut_of(m->ctx, w->floats);
    const int rank = qkv_context_rank(m->ctx);
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < masters->run_count; i++) {
        const struct qkv_moment_run *r = &masters->runs[i];
        if (r->master) memcpy(w->list[r->weight].gradient + r->begin, r->master, (r->end - r->begin) * sizeof(float));
    }
    for (size_t b = 0; b < cut.buckets; b++)
        for (int r = 1; r < cut.ranks && !status; r++) {
            size_t begin, end;
            qkv_rank_own(&cut, b, r, &begin, &end);
            float *at = w->gradients + begin;
            const size_t bytes = (end - begin) * sizeof *at;
            if (!rank) status = qkv_rank_exchange(m->ctx, r, NULL, 0, r, at, bytes);
            if (rank == r) status = qkv_rank_exchange(m->ctx, 0, at, bytes, 0, NULL, 0);
        }
    return status;
}

enum qkv_status qkv_rank_save_model(struct qkv_model *m, const struct qkv_rank_masters *masters, const char *folder) {
    const bool leads = !qkv_context_rank(m->ctx), divided = masters->arena.base;
    enum qkv_status status = divided ? masters_gather(m, masters) : QKV_OK;
    if (!status && leads) {
        qkv_weights_lend(&m->weights, true);
        status = m->adapter ? qkv_adapter_write_run(m, folder) : qkv_folder_write(m, folder);
        qkv_weights_lend(&m->weights, false);
    }
    if (divided) qkv_model_clear_gradients(m);
    return status;
}
