/* precision: which one a run is trained in. */
#include <stdlib.h>
#include <string.h>

#include "train/train.h"

enum qkv_status qkv_train_precision(struct qkv_context *ctx, struct qkv_train_options *options, bool fresh) {
    if (strcmp(options->precision, "auto") == 0) {
        const char *chosen = fresh && qkv_auto_precision(ctx) == QKV_MIXED_BF16 ? "bf16" : "fp32";
        char *owned = qkv_copy_string(ctx, chosen);
        if (!owned) return QKV_MEMORY;
        free((void *)(uintptr_t)options->precision);
        options->precision = owned;
    }
    qkv_context_set_precision(ctx, strcmp(options->precision, "bf16") == 0 ? QKV_MIXED_BF16 : QKV_FP32);
    return QKV_OK;
}
