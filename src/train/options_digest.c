/* The digest of a run's options: a hash of those that change the numbers, so that a train.json that was changed by
 * hand is not taken for the one of the checkpoint. docs/digests.md describes its canonical form. */
#include <inttypes.h>
#include <string.h>

#include "model/spec.h"
#include "train/train.h"

/* Options that a run may go on with changed, besides those of training data: where its files are (what they hold is
 * checked by itself), what only its beginning uses, when it looks, saves and ends, and what gives the same bits. */
static const char *const free_options[] = {
    "valid",      "tokenizer", "source_tokenizer",       "from",   "steps",    "new_head", "eval_every", "patience",
    "save_every", "keep",      "checkpoint_activations", "epochs", "template", "teacher",  "shards"};

bool qkv_train_changes_numbers(const char *name) {
    for (size_t i = 0; i < sizeof free_options / sizeof *free_options; i++)
        if (strcmp(free_options[i], name) == 0) return false;
    return !qkv_dataset_named(name);
}

/* A line for each. */
static enum qkv_status digest_patterns(struct qkv_context *ctx, struct qkv_buffer *out, const char *name,
                                       const char *const *patterns) {
    enum qkv_status status = QKV_OK;
    for (size_t k = 0; k < QKV_FILES_MAX && patterns[k] && !status; k++)
        status = qkv_buffer_print(ctx, out, "%s=%s\n", name, patterns[k]);
    return status;
}

/* The option as "name=value\n"; nothing where it has its default, so that options of later versions change no
 * digest. */
static enum qkv_status digest_line(struct qkv_context *ctx, struct qkv_buffer *out,
                                   const struct qkv_train_options *options, const struct qkv_train_options *defaults,
                                   const struct qkv_train_option *option) {
    const char *place = (const char *)options + option->offset, *usual = (const char *)defaults + option->offset;
    const char *text, *usual_text;
    double x, usual_x;
    uint64_t bits;
    int64_t n;
    switch (option->type) {
    case QKV_TRAIN_DATA:
    case QKV_TRAIN_FILES:
        return QKV_OK; /* none of them enters */
    case QKV_TRAIN_PATTERNS:
        return digest_patterns(ctx, out, option->name, (const char *const *)(const void *)place);
    case QKV_TRAIN_TEXT:
        memcpy(&text, place, sizeof text);
        memcpy(&usual_text, usual, sizeof usual_text);
        if (!text || !*text || (usual_text && strcmp(text, usual_text) == 0)) return QKV_OK;
        return qkv_buffer_print(ctx, out, "%s=%s\n", option->name, text);
    case QKV_TRAIN_REAL:
        memcpy(&x, place, sizeof x);
        memcpy(&usual_x, usual, sizeof usual_x);
        if (x == usual_x) return QKV_OK;
        x += 0.0; /* −0 is 0 */
        memcpy(&bits, &x, sizeof bits);
        return qkv_buffer_print(ctx, out, "%s=%016" PRIx64 "\n", option->name, bits);
    case QKV_TRAIN_FLAG:
        if (*(const bool *)place == *(const bool *)usual) return QKV_OK;
        return qkv_buffer_print(ctx, out, "%s=%s\n", option->name, *(const bool *)place ? "true" : "false");
    case QKV_TRAIN_COUNT:
        break;
    }
    memcpy(&n, place, sizeof n);
    if (n == *(const int64_t *)(const void *)usual) return QKV_OK;
    return qkv_buffer_print(ctx, out, "%s=%" PRId64 "\n", option->name, n);
}

enum qkv_status qkv_train_digest(struct qkv_context *ctx, const struct qkv_train_options *options,
                                 char text[QKV_DIGEST_TEXT]) {
    struct qkv_train_options defaults;
    const struct qkv_train_option *option;
    struct qkv_buffer lines = {0};
    enum qkv_status status = qkv_train_defaults(ctx, NULL, &defaults);
    uint64_t digest = 0;
    for (size_t i = 0; !status && (option = qkv_train_option(i)); i++)
        if (qkv_train_changes_numbers(option->name)) status = digest_line(ctx, &lines, options, &defaults, option);
    if (!status) status = qkv_hash_lines(ctx, "qkv train 1", lines.data, &digest);
    qkv_buffer_free(&lines);
    snprintf(text, QKV_DIGEST_TEXT, "%016" PRIx64, digest);
    return status;
}
