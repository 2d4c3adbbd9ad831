/* What a run tells its caller beside its report: how far a long piece of work is, and notes, sentences about what it
 * found. */
#include <stdarg.h>

#include "train/train.h"

enum qkv_status qkv_train_progress(struct qkv_context *ctx, qkv_progress *progress, void *user, const char *what,
                                   double done, double total) {
    qkv_rank_alive(ctx);
    if (!progress || progress(user, what, done, total)) return QKV_OK;
    return qkv_fail(ctx, QKV_STOPPED, "stopped while %s", what);
}

enum qkv_status qkv_trainer_add_note(struct qkv_trainer *t, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    enum qkv_status status = qkv_texts_print(t->ctx, &t->notes, format, arguments);
    va_end(arguments);
    return status;
}

const char *qkv_trainer_note(const struct qkv_trainer *trainer, size_t i) {
    if (!trainer) return NULL;
    return i < trainer->notes.count ? trainer->notes.items[i] : NULL;
}
