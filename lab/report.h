/* lab/report.h: looking inside: the attention of a model on a text, and what training runs have logged, as numbers and as
 * self-contained HTML pages. A part of lab.h.
 *
 *     struct qkv_look_options o = {.text = "To be, or not to be", .text_size = 19};
 *     struct qkv_attention_view *look;
 *     if (qkv_look_create(model, &o, &look) || qkv_look_write_page(look, NULL, "attention.html")) puts(qkv_message(ctx));
 *
 * Pages are one file each that loads nothing from anywhere; texts in them are escaped. Files appear whole or not at all, and
 * replace what was there. */
#ifndef QKV_LAB_REPORT_H
#define QKV_LAB_REPORT_H

#include "qkv.h"

/* ---- names ---------------------------------------------------------------------------------------------------------------- */

/* Folders side by side, called by what they differ in: "a/pre-seed1" and "a/post-seed1" are "pre" and "post"; one alone by the last
 * part of its path. Whole where nothing would be left of one. (*names)[i] is a string of its own; qkv_free_names frees them. */
enum qkv_status qkv_short_names(struct qkv_context *ctx, const char *const *folders, size_t count, char ***names);
void qkv_free_names(char **names, size_t count);

/* ---- attention on a text ------------------------------------------------------------------------------------------------ */

#define QKV_LOOK_KIND_LIST(X)                                                                                          \
    X(ENCODER, "encoder", "self attention of the encoder")                                                             \
    X(DECODER, "decoder", "self attention of the decoder")                                                             \
    X(CROSS, "cross", "from the decoder to the encoder")
#define QKV_LOOK_KIND_ENUM(name, text, help) QKV_LOOK_##name,
enum qkv_look_kind { QKV_LOOK_KIND_LIST(QKV_LOOK_KIND_ENUM) };
#undef QKV_LOOK_KIND_ENUM

struct qkv_look_options {
    const char *text; /* what a lone stack reads; encoder–decoders: the source */
    size_t text_size;
    const char *target; /* encoder–decoders: what the decoder reads; NULL: what greedy search makes of the source */
    size_t target_size;
    /* In place of the text, and of the target: token ids, taken as they are, so a model needs no tokenizer. NULL: the texts */
    const int32_t *ids, *target_ids;
    size_t id_count, target_id_count;
    /* In place of all of these: a batch of one sequence, of what the model reads (qkv_example_read). NULL: none. The caller's, and outlives
     * what is made of it */
    const struct qkv_batch *batch;
    /* How many tokens at the beginning see one another in both directions, of causal models of one stack. NULL: of a model whose spec
     * has a prefix all of them, as a prompt is read; else none */
    const int32_t *prefix;
};
/* The model run once over a text, read as it was in training. Weights are made when they are asked for, from the log-sum-exp
 * that attention leaves; nothing of size T×T is kept. The model must outlive it. */
struct qkv_attention_view;
enum qkv_status qkv_look_create(struct qkv_model *model, const struct qkv_look_options *options,
                                struct qkv_attention_view **out);
void qkv_look_free(struct qkv_attention_view *look);

struct qkv_attention_view_head {
    const char *name; /* "decoder.layers.0.attn" */
    enum qkv_look_kind kind;
    size_t layer, heads, queries, keys;
    bool encoder_queries, encoder_keys; /* whose tokens they are */
};
/* The i-th attention; false past the last. */
bool qkv_attention_view_head(const struct qkv_attention_view *look, size_t i,
                             struct qkv_attention_view_head *attention);
struct qkv_head_statistics {
    double entropy;  /* of a row's weights in bits, mean over the rows: 2^entropy is how many keys it spreads over */
    double distance; /* |i − j| weighted by the weights, mean over the rows: in tokens */
};
enum qkv_status qkv_look_head(const struct qkv_attention_view *look, size_t i, size_t head,
                              struct qkv_head_statistics *statistics);
/* Weights of `rows` queries from `first` on, out (rows,keys). Head SIZE_MAX: the mean over the heads. */
enum qkv_status qkv_look_weights(struct qkv_attention_view *look, size_t i, size_t head, size_t first, size_t rows,
                                 float *out);
/* The tokens that the encoder, or the decoder, has read: how many, and the bytes of one, without a tokenizer its number (owned by the
 * model or the view). */
size_t qkv_look_tokens(const struct qkv_attention_view *look, bool encoder);
const char *qkv_look_token(const struct qkv_attention_view *look, bool encoder, size_t t, size_t *size);

struct qkv_look_selection {
    const char *title; /* of the page: the model's name; NULL: none */
    int layer, head;   /* only these; −1: all */
};
/* Fails, saying what there is, where the model has no such layer or head. */
enum qkv_status qkv_look_check(const struct qkv_attention_view *look, const struct qkv_look_selection *selection);
/* A page with all that is selected (NULL: everything): pictures of the heads, their lines and matrices. Weights are kept in 8
 * bits; of texts of more than 100 tokens at most the 24 largest of each row, and the others as one sum. The file stays below 20 MB. */
enum qkv_status qkv_look_write_page(struct qkv_attention_view *look, const struct qkv_look_selection *selection,
                                    const char *path);
/* The same as JSON, for other programs, with all weights in full. */
enum qkv_status qkv_look_write_json(struct qkv_attention_view *look, const struct qkv_look_selection *selection,
                                    const char *path);

/* ---- statistics, block by block ----------------------------------------------------------------------------------------- */

struct qkv_inspect_options {
    const char *text; /* what a lone stack reads; encoder–decoders: the source */
    size_t text_size;
    /* What the loss is taken of. Encoder–decoders: the target (NULL: what greedy search makes of the source). Classifiers: the name
     * or number of the class (NULL: the likeliest one). Encoders with an lm head: the text without masks, token for token (NULL:
     * every token that is no mask is to be found again). Lone decoders predict the text's next tokens and take none. */
    const char *target;
    size_t target_size;
    /* As those of struct qkv_look_options; a classifier's target stays a name. */
    const int32_t *ids, *target_ids;
    size_t id_count, target_id_count;
    /* As there; the loss is of its targets, or where it has none, of what it is without them. A classifier's target may be named. */
    const struct qkv_batch *batch;
    /* As there, and the loss is of what follows, as in training. NULL: none, whatever the spec says: all tokens are predicted */
    const int32_t *prefix;
};
struct qkv_statistics { /* of many numbers */
    size_t count;
    double broken;                       /* share of those that are not finite */
    double mean, deviation, least, most; /* of the others; NaN where there are none */
};
struct qkv_inspect_row { /* of one point of the pass (qkv_pass_options.hook) */
    enum qkv_hook_kind kind;
    bool encoder;
    size_t layer;
    struct qkv_statistics values;
    /* Norm of the loss's gradient: of the sublayer's weights with its norm's, for a stream those of the whole block, for the
     * embedding and the final norm theirs. NaN without a loss, and where there are no weights. */
    double gradient;
};
struct qkv_inspect_experts { /* of a layer with experts */
    bool encoder;
    size_t layer, count, top_k; /* how many experts; those that a row goes through */
    const float *rows;          /* (count): rows that each expert has had; owned by the inspection */
    double load;                /* those of the busiest, over the mean */
    size_t unused;              /* experts that have had none */
};
/* The model run once over a text, forward and, where there is something to predict, backward; without dropout. The model's
 * gradients are cleared. It stays when the model is freed. */
struct qkv_inspection;
enum qkv_status qkv_inspect(struct qkv_model *model, const struct qkv_inspect_options *options,
                            struct qkv_inspection **out);
void qkv_inspection_free(struct qkv_inspection *inspection);
/* The i-th row in the order of the computation, the encoder's first; NULL past the last. Owned by the inspection. */
const struct qkv_inspect_row *qkv_inspection_row(const struct qkv_inspection *inspection, size_t i);
/* The i-th layer with experts, the encoder's first; NULL past the last. Owned by the inspection. */
const struct qkv_inspect_experts *qkv_inspection_experts(const struct qkv_inspection *inspection, size_t i);
/* The loss, how many targets it is the mean of (0: there is none, and the loss is NaN), and the norm of all gradients. */
double qkv_inspection_loss(const struct qkv_inspection *inspection, size_t *counted, double *gradient_norm);
/* What the loss is of, in a few words: "the next of 18 tokens". */
const char *qkv_inspection_about(const struct qkv_inspection *inspection);
/* A page, or JSON, of some inspections side by side, each with a name. */
enum qkv_status qkv_inspections_write_page(struct qkv_context *ctx, struct qkv_inspection *const *inspections,
                                           const char *const *names, size_t count, const char *path);
enum qkv_status qkv_inspections_write_json(struct qkv_context *ctx, struct qkv_inspection *const *inspections,
                                           const char *const *names, size_t count, const char *path);

/* ---- training runs ------------------------------------------------------------------------------------------------------ */

struct qkv_run_step { /* a line of log.jsonl; NaN where it has no such number */
    int64_t step;
    double seconds, loss, norm, rate, tokens, tokens_per_second, valid_loss, metric, expert_load, experts_unused;
};
/* What a run's folder says about it. A log that is being written, was cut off, or has damaged lines is read as far as it goes. */
struct qkv_run;
enum qkv_status qkv_run_read(struct qkv_context *ctx, const char *folder, struct qkv_run **out);
void qkv_run_free(struct qkv_run *run);
size_t qkv_run_steps(const struct qkv_run *run);
/* The i-th step of the log, rising; NULL past the last. */
const struct qkv_run_step *qkv_run_step(const struct qkv_run *run, size_t i);
/* Of how many layers the log has loads of experts, 0: of none; and of the i-th step that of a layer, the encoder's before the decoder's:
 * the rows of its busiest expert over the mean, NaN where there is none. */
size_t qkv_run_load_layers(const struct qkv_run *run);
double qkv_run_load(const struct qkv_run *run, size_t i, size_t layer);
size_t qkv_run_damaged(const struct qkv_run *run);      /* lines of the log that were passed over */
int64_t qkv_run_planned(const struct qkv_run *run);     /* the steps it shall have; 0: not known */
const char *qkv_run_name(const struct qkv_run *run);    /* the last part of the folder's name */
const char *qkv_run_metric(const struct qkv_run *run);  /* the name of its metric; NULL: the loss */
const char *qkv_run_machine(const struct qkv_run *run); /* "AMD …, 2 threads, avx2"; NULL: not known */
/* Whether all steps were made, or patience ended it. */
bool qkv_run_ended(const struct qkv_run *run);
/* What the loss is a mean of, in nats: "token", "masked token", "target token", "line" (of a classifier). */
const char *qkv_run_unit(const struct qkv_run *run);

struct qkv_run_summary {       /* NaN where the log has no such number */
    int64_t step;              /* the last one; 0: none is logged */
    double loss, seconds;      /* of that step */
    double valid_loss, metric; /* of the latest evaluation; the metric where it is another than the loss */
    double best; /* of the evaluations, by what the run is judged by: its metric, else the validation loss */
    int64_t best_step;
    size_t evaluations;
    double tokens_per_second; /* mean of the steps */
};
struct qkv_run_summary qkv_run_summarize(const struct qkv_run *run);

enum { QKV_RUN_SMOOTH_TOKENS = 200000, QKV_RUN_SMOOTH_SHARE = 20 };
/* The line that is drawn through the losses of the steps, out (steps): an exponential mean over QKV_RUN_SMOOTH_TOKENS tokens,
 * debiased (Kingma & Ba 2015); as long as a twentieth of the tokens read so far is less, over that many, as losses fall fast at
 * first. A point depends on what came before it alone: two runs of the same losses have the same line, whatever their lengths. NaN
 * before the first loss. */
void qkv_run_smooth(const struct qkv_run *run, double *out);

/* What state the run is in. Of one that does not record it: done where qkv_run_ended says so, running where its log is locked,
 * else interrupted. Owned by the run. */
const struct qkv_run_condition *qkv_run_condition(const struct qkv_run *run);
/* The steps of some runs as comma-separated values (RFC 4180) on a stream: a line of names, then a line a step of each run, with
 * empty fields where the log has no number. `metric` is a column where a run has one that is not the loss, `expert_load` and
 * `experts_unused` are where one has experts. The caller looks for
 * errors of the stream. */
enum qkv_status qkv_runs_write_csv(struct qkv_context *ctx, struct qkv_run *const *runs, size_t count, FILE *file);
/* The same as event files of TensorBoard, FOLDER/RUN/events.out.tfevents.0.qkv of each run, with the scalars train/loss,
 * train/gradient_norm, train/learning_rate, train/tokens_per_second, train/expert_load, train/experts_unused, valid/loss and
 * valid/METRIC, those that the log has; the folders are made. QKV_FILE
 * where one of the files exists, and nothing is written then, unless `force` replaces them. */
enum qkv_status qkv_runs_write_events(struct qkv_context *ctx, struct qkv_run *const *runs, size_t count,
                                      const char *folder, bool force);
/* A page with the curves, samples, options, specs and machines of some runs side by side. `refresh` > 0: it loads itself again
 * after so many seconds. */
enum qkv_status qkv_runs_write_page(struct qkv_context *ctx, struct qkv_run *const *runs, size_t count, int refresh,
                                    const char *path);

#endif
