/* evaluator: the loss of a model over texts or tokens, window by window (evaluate.c); qkv_evaluate_run evaluates with
 * it what a run validates on (evaluate_run.c). */
#ifndef QKV_TRAIN_EVALUATOR_H
#define QKV_TRAIN_EVALUATOR_H

#include "data/data.h"
#include "train/evaluate_against.h"

struct qkv_evaluator {
    struct qkv_context *ctx;
    struct qkv_model *model;
    const struct qkv_tokenizer *tokenizer;
    struct qkv_window_sum sum;
    struct qkv_model *other; /* NULL: the model is evaluated alone */
    struct qkv_against against;
    struct qkv_text_files files;
    char name[QKV_FILES_NAME]; /* of the files, for messages */
    const char *text_key;      /* of the options */
    const char *key;           /* of the texts of JSON lines; NULL: the files are plain */
    bool skip_bad;             /* leave out lines and files that are wrong */
    double before, total;      /* bytes of the files before; of all of them */
    size_t held;               /* ids held, the last of which is not yet an input */
    int32_t *ids;              /* B·T + 1 */
    int32_t *targets;          /* (B,T) where not every token counts; else NULL */
    int32_t *prefix;           /* (B) of models with a prefix; else NULL */
    int32_t *documents, end;   /* (B,T) where they are apart, and the token that ends one; else NULL */
    bool begun;
    size_t spare;          /* bytes of documents without tokens: the next token stands for them too */
    size_t bytes, unknown; /* of the text, that the predicted tokens stand for; how many of these are unknown */
};
/* Sets up the passes; e has the models. The caller calls qkv_evaluator_end, also after a failure. */
enum qkv_status qkv_evaluator_begin(struct qkv_evaluator *e, const struct qkv_evaluate_options *options);
void qkv_evaluator_end(struct qkv_evaluator *e);
/* Reads e->files, with e->key as documents; they get their bytes and hash. QKV_FORMAT: there is no token to predict. */
enum qkv_status qkv_evaluator_read(struct qkv_evaluator *e, qkv_progress *progress, void *user);
/* Takes the next tokens; `begin`: bytes (or tokens) of e->total before them. qkv_evaluator_flush takes the rest. */
enum qkv_status qkv_evaluator_feed(struct qkv_evaluator *e, const struct qkv_text_tokens *tokens, double begin,
                                   qkv_progress *progress, void *user);
enum qkv_status qkv_evaluator_flush(struct qkv_evaluator *e);
enum qkv_status qkv_evaluator_report(const struct qkv_evaluator *e, struct qkv_evaluation *evaluation);

#endif
