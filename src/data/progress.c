/* How far a long piece of work is: told to the caller, who may stop it, and to other ranks. */
#include "data/data.h"

enum qkv_status qkv_train_progress(struct qkv_context *ctx, qkv_progress *progress, void *user, const char *what,
                                   double done, double total) {
    qkv_rank_alive(ctx);
    enum qkv_status status = qkv_check_cancelled(ctx, what);
    if (status) return status;
    if (!progress || progress(user, what, done, total)) return QKV_OK;
    return qkv_fail(ctx, QKV_STOPPED, "stopped while %s", what);
}
