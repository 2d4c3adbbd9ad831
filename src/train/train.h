/* train: learning from a text file.
 *
 * Offers its callers what include/qkv.h declares under "optimizers" and "training on a text file"; the files of this
 * room share what is declared here. A run's folder holds
 *
 *   config.json, tokenizer.json, model.safetensors   the model with the best weights so far (model room)
 *   train.json                                       the options and what is known of the texts (train_json.c)
 *   tokens.data.bin, tokens.valid.bin                the tokenized texts (tokens.c)
 *   log.jsonl                                        a line a step (log.c)
 *   checkpoint.safetensors                           latest weights, moments and position (checkpoint.c)
 *
 * Whatever a step draws at random is a pure function of (seed, step, place in the step), so the position of a run is
 * its step number and nothing else. */
#ifndef QKV_TRAIN_H
#define QKV_TRAIN_H

#include "base/base.h"

#define QKV_TRAIN_FILE        "train.json"
#define QKV_CHECKPOINT_FILE   "checkpoint.safetensors"
#define QKV_LOG_FILE          "log.jsonl"
#define QKV_TOKENS_DATA_FILE  "tokens.data.bin"
#define QKV_TOKENS_VALID_FILE "tokens.valid.bin"

/* ---- options (options.c) --------------------------------------------------------------------------------------- */

enum qkv_train_type { QKV_TRAIN_TEXT, QKV_TRAIN_REAL, QKV_TRAIN_COUNT };
struct qkv_train_option {
    const char *name;
    enum qkv_train_type type;
    size_t offset;            /* in struct qkv_train_options */
    const char *value, *help; /* the default as text, NULL for none */
};
/* The i-th option, NULL past the last. */
const struct qkv_train_option *qkv_train_option(size_t i);
/* Whether every number lies in its range and every name is known; the sentence names the option. */
enum qkv_status qkv_train_check(struct qkv_context *ctx, const struct qkv_train_options *options);
/* A copy that owns its texts, and its end. */
enum qkv_status qkv_train_copy(struct qkv_context *ctx, struct qkv_train_options *copy,
                               const struct qkv_train_options *options);
void qkv_train_release(struct qkv_train_options *options);
/* Checked options only: the kinds that the texts name. */
enum qkv_optimizer_kind qkv_train_optimizer(const struct qkv_train_options *options);
enum qkv_schedule_kind qkv_train_schedule(const struct qkv_train_options *options);
/* The shortest decimal that reads back as x, with a point in every locale. */
#define QKV_REAL_TEXT 40
void qkv_real_text(char text[QKV_REAL_TEXT], double x);
/* Reads a finite number written in full, with a point in every locale. */
bool qkv_real_parse(const char *text, double *x);

/* ---- learning rate (schedule.c) ---------------------------------------------------------------------------------- */

/* The rate of step s, counted from 0. */
double qkv_train_rate(const struct qkv_train_options *options, int64_t s);

/* ---- optimizer (optimizer.c) ------------------------------------------------------------------------------------- */

/* Steps done; setting them is for resuming. */
uint64_t qkv_optimizer_steps(const struct qkv_optimizer *optimizer);
void qkv_optimizer_set_steps(struct qkv_optimizer *optimizer, uint64_t steps);
/* How many moments a parameter has (2, or 1 for sgd), and the k-th moment of parameter i. */
size_t qkv_optimizer_moments(const struct qkv_optimizer *optimizer);
float *qkv_optimizer_moment(struct qkv_optimizer *optimizer, size_t k, size_t i);
size_t qkv_optimizer_bytes(const struct qkv_optimizer *optimizer);

/* ---- texts as tokens (corpus.c, tokens.c) --------------------------------------------------------------------------- */

/* A mapped text being encoded piece by piece, so that its tokens need no memory of the size of the text. */
struct qkv_text_stream {
    struct qkv_context *ctx;
    const struct qkv_tokenizer *tokenizer;
    const char *path;
    struct qkv_map map;
    size_t position; /* bytes encoded so far */
    bool binary;     /* NUL bytes are fine */
};
/* Maps a text and refuses one that is empty or looks binary: that holds a NUL byte, unless the tokenizer is one of bare
 * bytes (or NULL is given, when none is known yet and only the first part of the file is looked at). */
enum qkv_status qkv_text_open(struct qkv_context *ctx, const char *path, const struct qkv_tokenizer *tokenizer,
                              struct qkv_text_stream *stream);
void qkv_text_close(struct qkv_text_stream *stream);
/* The ids of the next piece, freed with qkv_free; *ids NULL at the end of the text. */
enum qkv_status qkv_text_next(struct qkv_text_stream *stream, int32_t **ids, size_t *count);

/* FNV-1a (Fowler, Noll, Vo), 64 bits, continued from `hash`: tells texts apart, no protection against malice. */
#define QKV_HASH_START UINT64_C(0xcbf29ce484222325)
uint64_t qkv_hash(uint64_t hash, const void *data, size_t n);
/* The hash of a whole file. */
enum qkv_status qkv_hash_file(struct qkv_context *ctx, const char *path, uint64_t *hash);

/* What a text and its tokens are known by. bytes 0: there is no such text. */
struct qkv_text_facts {
    uint64_t bytes, hash; /* of the text */
    uint64_t tokens;
    uint64_t tokenizer; /* hash of tokenizer.json */
    uint64_t vocab;
};
struct qkv_tokens { /* a mapped token file, or a part of it */
    struct qkv_map map;
    const unsigned char *data;
    size_t count, width; /* tokens, bytes a token */
    int32_t vocab;
    const char *path; /* for messages; the caller's */
};
/* Encodes the text at `text_path` into a token file at `path`, atomically. `facts` comes with tokenizer and vocab set
 * and gets the rest. */
enum qkv_status qkv_tokens_write(struct qkv_context *ctx, const char *path, const char *text_path,
                                 const struct qkv_tokenizer *tokenizer, struct qkv_text_facts *facts,
                                 qkv_progress *progress, void *user);
/* Opens a token file; everything in its header must be as `facts` says. */
enum qkv_status qkv_tokens_open(struct qkv_context *ctx, const char *path, const struct qkv_text_facts *facts,
                                struct qkv_tokens *tokens);
void qkv_tokens_close(struct qkv_tokens *tokens);
/* ids[t] = token start + t, for t < T; targets[t] = token start + t + 1. Fails on a token outside the vocabulary. */
enum qkv_status qkv_tokens_window(struct qkv_context *ctx, const struct qkv_tokens *tokens, size_t start, size_t T,
                                  int32_t *ids, int32_t *targets);

/* ---- what is drawn at random (draw.c) -------------------------------------------------------------------------------- */

/* Where row r of step s begins, uniform over the `count` − context windows of a text. */
size_t qkv_draw_window(uint64_t seed, uint64_t step, uint64_t row, size_t windows);
/* The dropout seed of a micro-batch. */
uint64_t qkv_draw_dropout(uint64_t seed, uint64_t step, uint64_t part);

/* ---- evaluation (evaluate.c) ------------------------------------------------------------------------------------------ */

/* Whether the model predicts the next token of a text: one causal stack with an lm head. */
enum qkv_status qkv_text_model_check(struct qkv_context *ctx, const struct qkv_spec *spec);
/* Mean loss over `windows` windows of T tokens spread evenly over the text, always the same ones; 0, or more than lie
 * side by side: the whole text side by side. ids and targets hold B·T each, the largest batch of the pass. */
struct qkv_validation {
    struct qkv_pass *pass;
    const struct qkv_tokens *tokens;
    size_t B, T, windows;
    int32_t *ids, *targets;
};
enum qkv_status qkv_validate(struct qkv_context *ctx, const struct qkv_validation *validation, qkv_progress *progress,
                             void *user, double *loss);

/* ---- log (log.c) -------------------------------------------------------------------------------------------------------- */

struct qkv_log {
    int file;    /* valid where path is not NULL; −1: not open */
    char *path;  /* NULL: closed */
    size_t size; /* bytes of whole lines */
};
/* Opens log.jsonl in a folder and locks it against a second trainer. */
enum qkv_status qkv_log_open(struct qkv_context *ctx, struct qkv_log *log, const char *folder);
/* Keeps the lines of steps up to `step` and cuts the rest. */
enum qkv_status qkv_log_cut(struct qkv_context *ctx, struct qkv_log *log, int64_t step);
enum qkv_status qkv_log_write(struct qkv_context *ctx, struct qkv_log *log, const struct qkv_train_report *report,
                              uint64_t tokens);
enum qkv_status qkv_log_sync(struct qkv_context *ctx, struct qkv_log *log);
void qkv_log_close(struct qkv_log *log);

/* ---- train.json (train_json.c) ----------------------------------------------------------------------------------------- */

struct qkv_run_facts {
    struct qkv_text_facts data, valid;
};
enum qkv_status qkv_train_json_write(struct qkv_context *ctx, const char *folder,
                                     const struct qkv_train_options *options, const struct qkv_run_facts *facts);
/* Options come back checked and owning their texts (qkv_train_release). */
enum qkv_status qkv_train_json_read(struct qkv_context *ctx, const char *folder, struct qkv_train_options *options,
                                    struct qkv_run_facts *facts);

/* ---- the trainer (trainer.c; made by create.c or resume.c) ------------------------------------------------------------------------ */

struct qkv_trainer {
    struct qkv_context *ctx;
    char *folder;
    struct qkv_train_options options; /* owns its texts */
    struct qkv_run_facts facts;
    struct qkv_model *model;
    struct qkv_optimizer *optimizer;
    struct qkv_pass *pass, *validation_pass; /* the latter NULL without a validation text */
    size_t B, T;                             /* the largest micro-batch */
    int32_t *ids, *targets;                  /* (B,T) each */
    char *data_path, *valid_path;            /* the token files */
    struct qkv_tokens data_tokens, valid_tokens;
    struct qkv_tokens train, valid; /* the parts to learn from and to validate on; valid.count 0: none */
    struct qkv_log log;
    struct qkv_train_report report; /* of the latest step; kept in the checkpoint */
    bool pending;                   /* the latest step's evaluation and log line are still due */
    bool failed;                    /* the loss was not finite: nothing may be saved any more */
    int64_t saved_step;             /* of the checkpoint on disk */
    double train_flops, peak;       /* FLOPs a token; FLOP/s of this machine */
    double started, earlier;        /* clock at the start; seconds of the run before that */
    qkv_progress *progress;
    void *user;
};
/* What create.c and resume.c share (build.c); a trainer that any of them failed on is only good for qkv_trainer_free. */
enum qkv_status qkv_trainer_begin(struct qkv_context *ctx, const char *folder, qkv_progress *progress, void *user,
                                  struct qkv_trainer **out);
/* Changes a spec as the options say: context, dropout. */
enum qkv_status qkv_trainer_apply(struct qkv_context *ctx, const struct qkv_train_options *options,
                                  struct qkv_spec *spec);
/* Makes model, passes and optimizer; the tokenizer is the trainer's from now on, also on failure. */
enum qkv_status qkv_trainer_build(struct qkv_trainer *trainer, const struct qkv_spec *spec,
                                  struct qkv_tokenizer *tokenizer);
/* Cuts the opened token files into the parts to learn from and to validate on; fails where one is too short. */
enum qkv_status qkv_trainer_split(struct qkv_trainer *trainer);
double qkv_clock(void); /* seconds of a clock that only goes forward */
/* Calls progress if there is one; QKV_STOPPED when it asks to stop. */
enum qkv_status qkv_train_progress(struct qkv_context *ctx, qkv_progress *progress, void *user, const char *what,
                                   double done, double total);

/* ---- checkpoint (checkpoint.c) ---------------------------------------------------------------------------------------- */

enum qkv_status qkv_checkpoint_write(struct qkv_trainer *trainer);
/* Into a trainer that has model and optimizer: weights, moments, report, pending. */
enum qkv_status qkv_checkpoint_read(struct qkv_trainer *trainer);

#endif
