/* use_memory: whether a use fits into the free memory, before any weight is read; and what would need less. */
#include "base/sized_options.h"
#include "io/opening.h"
#include "train/train.h"
#include "train/use.h"

/* A use that is checked, or a way to need less. */
struct use_plan {
    struct qkv_context *ctx;
    const char *path;
    struct qkv_model *model; /* planned */
    struct qkv_use_options options;
    struct qkv_use_sizes sizes;
    enum qkv_precision precision;
};

void qkv_use_options_init(struct qkv_use_options *options, size_t size) {
    static const struct qkv_use_options usual = {.size = sizeof usual, .use = QKV_USE_EMBED};
    qkv_options_init(options, size, &usual, sizeof usual);
}

static const char *use_name(enum qkv_use use) {
    switch (use) {
    case QKV_USE_EMBED:
        return "embedding";
    case QKV_USE_CLASSIFY:
        return "classifying";
    case QKV_USE_TRANSLATE:
        return "translating";
    case QKV_USE_EVALUATE_TEXT:
    case QKV_USE_EVALUATE_PAIRS:
    case QKV_USE_EVALUATE_LABELS:
    case QKV_USE_EVALUATE_EXAMPLES:
        return "evaluating";
    case QKV_USE_EXPORT:
    case QKV_USE_PUBLISH:
        break;
    }
    return "exporting";
}

static enum qkv_status use_bytes_of(const struct use_plan *p, size_t *bytes) {
    struct qkv_model *plan = p->model;
    size_t batch = 0;
    enum qkv_status status = qkv_model_prepare(plan, false);
    if (!status) status = qkv_use_measure(plan, &p->options, &p->sizes, &batch);
    *bytes = batch + p->sizes.results + (p->options.loaded ? 0 : qkv_model_bytes(plan) + plan->file.memory);
    if (!batch && p->options.use < QKV_USE_EXPORT) *bytes = 0; /* a use that the model does not have */
    return status;
}

static enum qkv_status use_bytes(const struct use_plan *p, size_t *bytes) {
    const struct qkv_planning had = qkv_planning_begin(p->ctx);
    const enum qkv_precision precision = p->model->precision;
    p->model->precision = p->precision;
    const enum qkv_status status = use_bytes_of(p, bytes);
    p->model->precision = precision;
    qkv_planning_end(p->ctx, had);
    return status;
}

/* Appends a way to need less, with what it would need, if there is as much. */
static enum qkv_status use_way(const struct use_plan *p, size_t bytes, const char *way, struct qkv_buffer *help) {
    size_t needed;
    char text[QKV_BYTES_TEXT];
    enum qkv_status status = use_bytes(p, &needed);
    if (status || needed >= bytes || qkv_memory_check(p->ctx, needed, "a use", NULL)) return status;
    return qkv_buffer_print(p->ctx, help, "%s%s (%s)", help->size ? ", " : "choose ", way,
                            qkv_bytes_text(text, needed));
}

static enum qkv_status use_ways(const struct use_plan *now, size_t bytes, struct qkv_buffer *help) {
    const enum qkv_use use = now->options.use;
    const bool searches = use == QKV_USE_TRANSLATE || use == QKV_USE_EVALUATE_PAIRS;
    struct use_plan other = *now;
    enum qkv_status status = QKV_OK;
    other.options.batch = 1;
    if (searches || use == QKV_USE_EVALUATE_TEXT) status = use_way(&other, bytes, "a smaller option batch", help);
    other = *now, other.options.context = 1;
    if (!status && use == QKV_USE_EVALUATE_TEXT) status = use_way(&other, bytes, "a smaller option context", help);
    other = *now, other.options.width = 1;
    if (!status && searches && now->options.width > 1) status = use_way(&other, bytes, "option width = 1", help);
    other = *now, other.options.max_tokens = 1;
    if (!status && searches) status = use_way(&other, bytes, "a smaller option max_tokens", help);
    other = *now, other.options.use = QKV_USE_EXPORT;
    if (!status && use == QKV_USE_PUBLISH) status = use_way(&other, bytes, "the format of qkv", help);
    other = *now, other.sizes.longest = 1;
    if (!status && use != QKV_USE_EVALUATE_TEXT) status = use_way(&other, bytes, "shorter lines", help);
    other = *now, other.sizes.count = 1, other.sizes.results = 0;
    if (!status && now->sizes.results) status = use_way(&other, bytes, "fewer lines at once", help);
    other = *now, other.precision = now->precision == QKV_FP32 ? QKV_MIXED_BF16 : QKV_FP32;
    if (!status && !now->options.loaded && use < QKV_USE_EXPORT)
        status = use_way(&other, bytes,
                         now->precision == QKV_FP32 ? "option precision = bf16" : "option precision = fp32", help);
    return status ? status : qkv_buffer_print(now->ctx, help, "%sa smaller model", help->size ? ", or " : "choose ");
}

/* How long the texts are; false: a file that cannot be read, which the use itself reports. */
static bool use_sizes(struct use_plan *p, bool exact, enum qkv_status *status) {
    *status = qkv_use_sizes(p->model, p->path, &p->options, exact, &p->sizes);
    if (!*status || *status == QKV_MEMORY) return true;
    qkv_forgive(p->ctx);
    *status = QKV_OK;
    return false;
}

static enum qkv_status use_check(struct use_plan *p) {
    struct qkv_buffer help = {0};
    enum qkv_status status;
    size_t bytes;
    for (int exact = 0; exact < 2; exact++) { /* by bytes; and where these are too many, by tokens */
        if (!use_sizes(p, exact, &status)) return QKV_OK;
        if (!status) status = use_bytes(p, &bytes);
        if (status || !qkv_memory_check(p->ctx, bytes, "a use", NULL)) return status;
    }
    status = use_ways(p, bytes, &help);
    if (!status) status = qkv_memory_check(p->ctx, bytes, use_name(p->options.use), help.data);
    qkv_buffer_free(&help);
    return status;
}

enum qkv_status qkv_opening_check_use(struct qkv_opening *opening, const struct qkv_use_options *options) {
    QKV_CALL(opening ? opening->ctx : NULL);
    QKV_NEED(qkv_call, opening);
    struct qkv_context *ctx = opening->ctx;
    struct qkv_use_options own = qkv_use_defaults();
    enum qkv_status status = QKV_TAKE_OPTIONS(ctx, qkv_use_options, &own, options);
    if (status) return status;
    struct use_plan p = {.ctx = ctx,
                         .path = opening->path,
                         .model = opening->model,
                         .options = own,
                         .precision = opening->model ? opening->model->precision : QKV_FP32};
    QKV_NEED_ALL(ctx, p.options.text_count, p.options.texts);
    if (!p.model) return qkv_opening_check(opening); /* it says that the opening is filled */
    if (ctx->ignore_memory || opening->options.ignore_memory) return QKV_OK;
    struct qkv_file_list *had = qkv_file_list_begin(ctx, &opening->files);
    status = use_check(&p);
    qkv_file_list_end(ctx, had);
    return status;
}

enum qkv_status qkv_use_check_memory(struct qkv_context *ctx, const char *folder,
                                     const struct qkv_use_options *options) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, folder);
    struct qkv_use_options own = qkv_use_defaults();
    enum qkv_status status = QKV_TAKE_OPTIONS(ctx, qkv_use_options, &own, options);
    if (status) return status;
    QKV_NEED_ALL(ctx, own.text_count, own.texts);
    struct qkv_opening *opening;
    if (ctx->ignore_memory) return QKV_OK;
    status = qkv_model_open(ctx, folder, NULL, &opening);
    if (!status) status = qkv_opening_check_use(opening, &own);
    qkv_opening_free(opening);
    return status;
}
