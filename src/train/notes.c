/* Notes: what a run tells its caller beside its report, sentences about what it found. */
#include <stdarg.h>

#include "train/train.h"

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
