/* lab/report.h: looks inside: the attention of a model on a text, and the logs of training runs, as numbers and as
 * HTML pages. A part of lab.h.
 *
 *     struct qkv_look_options o = {.text = "To be, or not to be", .text_size = 19};
 *     struct qkv_attention_view *look;
 *     if (qkv_look_create(model, &o, &look) || qkv_look_write_page(look, NULL, "attention.html"))
 *     puts(qkv_message(ctx));
 *
 * A page is one file that loads nothing; texts in it are escaped. Files appear whole or not at all, and replace
 * existing ones. */
#ifndef QKV_LAB_REPORT_H
#define QKV_LAB_REPORT_H

#include "qkv.h"

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* Names folders by the part in which they differ: "a/pre-seed1" and "a/post-seed1" are "pre" and "post"; a single
 * folder by the last part of its path. Uses whole paths if a name would be empty. Each (*names)[i] is a string of
 * its own; qkv_free_names frees them. */
enum qkv_status qkv_short_names(struct qkv_context *ctx, const char *const *folders, size_t count, char ***names);
void qkv_free_names(char **names, size_t count);

/* ---- attention on a text ----------------------------------------------------------------------------------------- */

#define QKV_LOOK_KIND_LIST(X)                                                                                          \
    X(ENCODER, "encoder", "self attention of the encoder")                                                             \
    X(DECODER, "decoder", "self attention of the decoder")                                                             \
    X(CROSS, "cross", "from the decoder to the encoder")
#define QKV_LOOK_KIND_ENUM(name, text, help) QKV_LOOK_##name,
enum qkv_look_kind { QKV_LOOK_KIND_LIST(QKV_LOOK_KIND_ENUM) };
#undef QKV_LOOK_KIND_ENUM

struct qkv_look_options {
    const char *text; /* what the only stack reads; encoder-decoders: the source */
    size_t text_size;
    const char *target; /* encoder-decoders: what the decoder reads; NULL: the greedy target of the source */
    size_t target_size;
    /* Token ids in place of the text and of the target; used as they are, so the model needs no tokenizer. NULL: the
     * texts. */
    const int32_t *ids, *target_ids;
    size_t id_count, target_id_count;
    /* A batch of one sequence in place of all of these, with what the model reads (qkv_example_read); it must
     * outlive the view. NULL: none. */
    const struct qkv_batch *batch;
    /* Number of tokens at the beginning that see one another in both directions, for causal models of one stack.
     * NULL: all, as in a prompt, if the model's spec has a prefix; else none. */
    const int32_t *prefix;
};
/* A model that has run once over a text, which is encoded as in training. Weights are computed on request from the
 * log-sum-exp of the attention; nothing of size T×T is stored. The model must outlive the view. */
struct qkv_attention_view;
enum qkv_status qkv_look_create(struct qkv_model *model, const struct qkv_look_options *options,
                                struct qkv_attention_view **out);
void qkv_look_free(struct qkv_attention_view *look);

struct qkv_attention_view_head {
    const char *name; /* "decoder.layers.0.attn" */
    enum qkv_look_kind kind;
    size_t layer, heads, queries, keys;
    bool encoder_queries, encoder_keys; /* the queries, the keys are tokens of the encoder */
};
/* Describes the i-th attention; false past the last. */
bool qkv_attention_view_head(const struct qkv_attention_view *look, size_t i,
                             struct qkv_attention_view_head *attention);
struct qkv_head_statistics {
    double entropy;  /* of a row's weights in bits, mean over the rows; 2^entropy: over how many keys a row spreads */
    double distance; /* mean of |i − j| under the weights and over the rows, in tokens */
};
enum qkv_status qkv_look_head(const struct qkv_attention_view *look, size_t i, size_t head,
                              struct qkv_head_statistics *statistics);
/* Writes the weights of `rows` queries from `first` on into out (rows,keys). Head SIZE_MAX: the mean over the heads. */
enum qkv_status qkv_look_weights(struct qkv_attention_view *look, size_t i, size_t head, size_t first, size_t rows,
                                 float *out);
/* The number of tokens that the encoder, or the decoder, has read; and the bytes of one of them, or its id in digits
 * if there is no tokenizer (owned by the model or the view). */
size_t qkv_look_tokens(const struct qkv_attention_view *look, bool encoder);
const char *qkv_look_token(const struct qkv_attention_view *look, bool encoder, size_t t, size_t *size);

struct qkv_look_selection {
    const char *title; /* of the page: the model's name; NULL: none */
    int layer, head;   /* only this layer, this head; −1: all */
};
/* Fails if the model has no such layer or head; the message says which ones it has. */
enum qkv_status qkv_look_check(const struct qkv_attention_view *look, const struct qkv_look_selection *selection);
/* Writes a page of what is selected (NULL: everything): pictures of the heads, their lines and matrices. Weights are
 * stored in 8 bits; for texts of more than 100 tokens, a row has at most its 24 largest weights and the sum of the
 * others. The file stays below 20 MB. */
enum qkv_status qkv_look_write_page(struct qkv_attention_view *look, const struct qkv_look_selection *selection,
                                    const char *path);
/* Writes the same as JSON for other programs, with all weights in full. `path` NULL: standard output. */
enum qkv_status qkv_look_write_json(struct qkv_attention_view *look, const struct qkv_look_selection *selection,
                                    const char *path);

/* ---- statistics, block by block ---------------------------------------------------------------------------------- */

struct qkv_inspect_options {
    const char *text; /* what the only stack reads; encoder-decoders: the source */
    size_t text_size;
    /* What the loss compares with. Encoder-decoders: the target (NULL: the greedy target of the source).
     * Classifiers: the name or number of the class (NULL: the likeliest one). Encoders with an lm head: the text
     * without masks, token for token (NULL: every token that is no mask is predicted). Decoders alone predict the
     * next tokens of the text and have no target. */
    const char *target;
    size_t target_size;
    /* As in struct qkv_look_options; the target of a classifier stays a name. */
    const int32_t *ids, *target_ids;
    size_t id_count, target_id_count;
    /* As in struct qkv_look_options. The loss uses its targets; if it has none, the defaults above. A classifier's
     * target may be named. */
    const struct qkv_batch *batch;
    /* As in struct qkv_look_options; the loss covers the tokens after the prefix, as in training. NULL: no prefix,
     * whatever the spec says; all tokens are predicted. */
    const int32_t *prefix;
};
struct qkv_statistics { /* of many numbers */
    size_t count;
    double broken;                    /* share of the numbers that are not finite */
    double mean, deviation, min, max; /* of the finite ones; NaN if there are none */
};
struct qkv_inspect_row { /* of one point of the pass (qkv_pass_options.hook) */
    enum qkv_hook_kind kind;
    bool encoder;
    size_t layer;
    struct qkv_statistics values;
    /* The norm of the loss's gradient. A sublayer: its weights and those of its norm; a residual stream: the weights
     * of its whole block; the embedding, the final norm: their own weights. NaN without a loss or without weights. */
    double gradient;
};
struct qkv_inspect_experts { /* of a layer with experts */
    bool encoder;
    size_t layer, count, top_k; /* number of experts; experts of one row */
    const float *rows;          /* (count): the rows of each expert; the inspection owns them */
    double load;                /* rows of the busiest expert over the mean */
    size_t unused;              /* experts without a row */
};
/* A model that has run once over a text, forward, and backward if there is something to predict; without dropout.
 * Clears the model's gradients. The inspection stays valid when the model is freed. */
struct qkv_inspection;
enum qkv_status qkv_inspect(struct qkv_model *model, const struct qkv_inspect_options *options,
                            struct qkv_inspection **out);
void qkv_inspection_free(struct qkv_inspection *inspection);
/* Returns the i-th row in the order of the computation, the encoder's first; NULL past the last. The inspection owns
 * it. */
const struct qkv_inspect_row *qkv_inspection_row(const struct qkv_inspection *inspection, size_t i);
/* Returns the i-th layer with experts, the encoder's first; NULL past the last. The inspection owns it. */
const struct qkv_inspect_experts *qkv_inspection_experts(const struct qkv_inspection *inspection, size_t i);
/* Returns the loss; *counted: the number of its targets (0: no loss, which is NaN); *gradient_norm: of all
 * gradients. */
double qkv_inspection_loss(const struct qkv_inspection *inspection, size_t *counted, double *gradient_norm);
/* What the loss is about, in a few words: "the next of 18 tokens". */
const char *qkv_inspection_about(const struct qkv_inspection *inspection);
/* Write a page, or JSON, of some inspections side by side, each with a name. `path` of JSON NULL: standard output. */
enum qkv_status qkv_inspections_write_page(struct qkv_context *ctx, struct qkv_inspection *const *inspections,
                                           const char *const *names, size_t count, const char *path);
enum qkv_status qkv_inspections_write_json(struct qkv_context *ctx, struct qkv_inspection *const *inspections,
                                           const char *const *names, size_t count, const char *path);

/* ---- training runs ----------------------------------------------------------------------------------------------- */

struct qkv_run_step { /* a line of log.jsonl; NaN: the line has no such number */
    int64_t step;
    double seconds, loss, norm, rate, tokens, tokens_per_second, valid_loss, metric, expert_load, experts_unused;
};
/* What a run's folder says about it. Reads a log that is being written, was cut off or has damaged lines as far as
 * possible. */
struct qkv_run;
enum qkv_status qkv_run_read(struct qkv_context *ctx, const char *folder, struct qkv_run **out);
void qkv_run_free(struct qkv_run *run);
size_t qkv_run_steps(const struct qkv_run *run);
/* Returns the i-th step of the log, in rising order; NULL past the last. */
const struct qkv_run_step *qkv_run_step(const struct qkv_run *run, size_t i);
/* The number of layers whose loads of experts the log has, 0: none; and the load of a layer at the i-th step, layers
 * of the encoder first: the rows of its busiest expert over the mean, NaN if the log has none. */
size_t qkv_run_load_layers(const struct qkv_run *run);
double qkv_run_load(const struct qkv_run *run, size_t i, size_t layer);
size_t qkv_run_damaged(const struct qkv_run *run);      /* lines of the log that were skipped */
int64_t qkv_run_planned(const struct qkv_run *run);     /* number of steps of the whole run; 0: unknown */
const char *qkv_run_name(const struct qkv_run *run);    /* the last part of the folder's name */
const char *qkv_run_metric(const struct qkv_run *run);  /* the name of its metric; NULL: the loss */
const char *qkv_run_machine(const struct qkv_run *run); /* "AMD …, 2 threads, avx2"; NULL: unknown */
/* Whether all steps are done, or patience has ended the run. */
bool qkv_run_ended(const struct qkv_run *run);
/* The unit of the loss, a mean in nats: "token", "masked token", "target token", "line" (of a classifier). */
const char *qkv_run_unit(const struct qkv_run *run);

struct qkv_run_summary {       /* NaN: the log has no such number */
    int64_t step;              /* the last one; 0: none is logged */
    double loss, seconds;      /* of that step */
    double valid_loss, metric; /* of the last evaluation; the metric if it is not the loss */
    double best;               /* the best evaluation by the run's criterion: its metric, else the validation loss */
    int64_t best_step;
    size_t evaluations;
    double tokens_per_second; /* mean over the steps */
};
struct qkv_run_summary qkv_run_summarize(const struct qkv_run *run);

enum { QKV_RUN_SMOOTH_TOKENS = 200000, QKV_RUN_SMOOTH_SHARE = 20 };
/* The smoothed losses, out (steps): an exponential mean over QKV_RUN_SMOOTH_TOKENS tokens, debiased (Kingma & Ba
 * 2015). At the beginning, where losses fall fast, the window is a twentieth of the tokens so far. A point depends
 * on earlier losses alone: runs with the same losses have the same line, whatever their lengths. NaN before the
 * first loss. */
void qkv_run_smooth(const struct qkv_run *run, double *out);

/* The state of the run. If the run does not record it: done if qkv_run_ended, running if its log is locked, else
 * interrupted. The run owns it. */
const struct qkv_run_condition *qkv_run_condition(const struct qkv_run *run);
/* Writes the steps of some runs to a stream as comma-separated values (RFC 4180): a line of names, then a line for
 * each step of each run; a number that the log does not have is an empty field. There is a column `metric` if some
 * run has one that is not the loss, and `expert_load` and `experts_unused` if some run has experts. The caller
 * checks the stream for errors. */
enum qkv_status qkv_runs_write_csv(struct qkv_context *ctx, struct qkv_run *const *runs, size_t count, FILE *file);
/* Writes event files of TensorBoard, FOLDER/RUN/events.out.tfevents.0.qkv for each run, with those of these scalars
 * that the log has: train/loss, train/gradient_norm, train/learning_rate, train/tokens_per_second,
 * train/expert_load, train/experts_unused, valid/loss, valid/METRIC. Makes the folders. If one of the files exists,
 * fails with QKV_FILE and writes nothing, unless `force` replaces them. */
enum qkv_status qkv_runs_write_events(struct qkv_context *ctx, struct qkv_run *const *runs, size_t count,
                                      const char *folder, bool force);
/* Writes a page with the curves, samples, options, specs and machines of some runs. `refresh` > 0: the page reloads
 * itself after that many seconds. */
enum qkv_status qkv_runs_write_page(struct qkv_context *ctx, struct qkv_run *const *runs, size_t count, int refresh,
                                    const char *path);

#endif
