/* qkv/training.h: optimizers, training runs and the evaluation of texts; a part of qkv.h, which includes it. Stable. */
#ifndef QKV_PUBLIC_TRAINING_H
#define QKV_PUBLIC_TRAINING_H

#include "qkv/pass.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- optimizers ------------------------------------------------------------------------------------------------------- */

#define QKV_OPTIMIZER_LIST(X)                                                                                          \
    X(ADAMW, "adamw", "Adam with decoupled weight decay (Loshchilov & Hutter 2019)")                                   \
    X(ADAM, "adam", "Adam with weight decay as L2 (Kingma & Ba 2015)")                                                 \
    X(SGD, "sgd", "gradient descent with momentum")
#define QKV_SCHEDULE_LIST(X)                                                                                           \
    X(COSINE, "cosine", "half a cosine from rate to min_rate")                                                         \
    X(LINEAR, "linear", "a line from rate to min_rate")                                                                \
    X(CONSTANT, "constant", "always rate")                                                                             \
    X(INVERSE_SQRT, "inverse_sqrt", "rate times sqrt(warmup/step) (Vaswani et al. 2017)")
/* What the rate does where a run gets a new end, from the rate r of the last step done. It never jumps. */
#define QKV_EXTEND_LIST(X)                                                                                             \
    X(DECAY, "decay", "the schedule goes on from r down to min_rate at the new end (at most r; a warm-up ends first)") \
    X(FLAT, "flat", "always r")                                                                                        \
    X(REWARM, "rewarm", "a warm-up from r to rate again, then the schedule over the steps that are left")
#define QKV_OPTIMIZER_ENUM(name, text, help) QKV_OPTIMIZER_##name,
#define QKV_SCHEDULE_ENUM(name, text, help)  QKV_SCHEDULE_##name,
enum qkv_optimizer_kind { QKV_OPTIMIZER_LIST(QKV_OPTIMIZER_ENUM) };
enum qkv_schedule_kind { QKV_SCHEDULE_LIST(QKV_SCHEDULE_ENUM) };
#define QKV_EXTEND_ENUM(name, text, help) QKV_EXTEND_##name,
enum qkv_extend { QKV_EXTEND_LIST(QKV_EXTEND_ENUM) };

struct qkv_optimizer_options {
    enum qkv_optimizer_kind kind;
    double beta1, beta2, eps; /* adam, adamw */
    double momentum;          /* sgd */
    double weight_decay;      /* on matrices (embeddings too), never on vectors */
};
/* AdamW with the numbers that a training run has by default: betas 0.9 and 0.99, eps 1e-8, weight decay 0.1. */
QKV_API struct qkv_optimizer_options qkv_optimizer_defaults(void);
struct qkv_optimizer;
/* Makes an optimizer of all weights of a model that learn (qkv_model_trainable), which must outlive it; its moments begin at zero.
 * Frozen ones have none: a step is QKV_ARGUMENT where one of them learns again. Of those frozen later the moments stay as they
 * are. Fails with QKV_ARGUMENT, QKV_MEMORY. */
QKV_API enum qkv_status qkv_optimizer_create(struct qkv_model *model, const struct qkv_optimizer_options *options,
                                             struct qkv_optimizer **out);
/* NULL is fine. */
QKV_API void qkv_optimizer_free(struct qkv_optimizer *optimizer);
/* One step with the model's gradients times gradient_scale (clipping), at a learning rate. In the same pass over
 * memory the gradients become zero, so that nothing clears them between steps; after a step that failed they are as
 * they were. Fails with QKV_ARGUMENT, QKV_NUMBER. */
QKV_API enum qkv_status qkv_optimizer_step(struct qkv_optimizer *optimizer, double rate, double gradient_scale);

/* ---- training on a file -------------------------------------------------------------------------------------------------
 * From a text, to predict its next token or the ones that were masked (task mlm); from pairs, source to target; or from
 * labelled lines; or from arrays, an input and a target for each example. A run is a model folder (the best weights by the validation metric) that also holds train.json (the
 * options), tokens.*.bin (what is learnt from, as tokens), log.jsonl (a line a step) and checkpoint.safetensors (the latest
 * weights, optimizer and position: what resume reads). */

/* X(C type, name, default, help). One list makes the struct, the JSON, the command's options and its help. Options of type FILES
 * name some files one after the other: options.data is the first, options.data_files[0], and options.data_files[1] the second, up
 * to the first that is NULL. A folder stands for the regular files in it, sorted by the bytes of their names; hidden files and
 * folders in it are left out. So that more than QKV_FILES_MAX files can be given, they are put into a folder. Options of type
 * PATTERNS have at most as many texts, options.freeze[0], … up to the first that is NULL; a * in one stands for any characters, dots
 * too, a ? for one (qkv_model_set_trainable_all). The option of the field long_lines is called "long", which is a word of C. */
#define QKV_FILES_MAX 64
#define QKV_TRAIN_LIST(X)                                                                                              \
    X(FILES, data, NULL, "text file to train on, or a folder of them; several are one text after the other")           \
    X(FILES, pairs, NULL, "file of pairs to train on: a source, a tab, a target in each line")                         \
    X(FILES, lines, NULL, "file of lines to train on: each is a sequence of its own, between <s> and </s>")            \
    X(FILES, labeled, NULL,                                                                                            \
      "file of labelled lines to train on: a label, a tab, a text in each line; for a head of tokens a word, a tab, "  \
      "its label")                                                                                                     \
    X(FILES, examples, NULL,                                                                                           \
      "safetensors file of examples to train on: in.pixels, in.features, in.vectors or in.ids, as the model reads, "   \
      "and in.targets; for an encoder beside a decoder what the encoder reads (in.source where that is ids), and "     \
      "in.ids and in.targets")                                                                                         \
    X(FLAG, in_order, false, "examples: as they stand in the files, epoch after epoch, instead of shuffled anew")      \
    X(FILES, valid, NULL, "file to validate on, of the same kind (default: the last part of the one to train on)")     \
    X(REAL, valid_fraction, 0.1, "part of the data kept for validation when there is no validation file")              \
    X(TEXT, task, NULL,                                                                                                \
      "what to learn from a text or lines: text (the next token) or mlm (masked tokens) (default: text); from "        \
      "labelled lines or examples: classify or classify_tokens (default: what the head does)")                         \
    X(FLAG, documents, false,                                                                                          \
      "text: a row's documents, each ended by the tokenizer's end token, do not see one another, and positions begin " \
      "again with each")                                                                                               \
    X(TEXT, prefix, NULL,                                                                                              \
      "text: a number of tokens, or random, of the beginning of a row that see one another in both directions; what "  \
      "follows is learnt (prefix-LM) (default: none)")                                                                 \
    X(REAL, mask_probability, 0.15, "mlm: share of the tokens that are to be predicted")                               \
    X(FLAG, mask_each, false, "mlm, lines: a line is one example for each of its tokens, which is hidden there")       \
    X(TEXT, tokenizer, NULL,                                                                                           \
      "bytes, chars, chars+bytes, words, whitespace, bpe, one of these and :SIZE, or a tokenizer.json (default: the "  \
      "preset's, else chars)")                                                                                         \
    X(TEXT, source_tokenizer, NULL,                                                                                    \
      "tokenizer of the sources of pairs; shared: one tokenizer learns from both sides (default: as tokenizer)")       \
    X(TEXT, from, NULL,                                                                                                \
      "model folder to begin with: its weights, spec, tokenizers and labels; optimizer and schedule are new")          \
    X(FLAG, new_head, false, "with from: begin with a new head, for another task or other labels")                     \
    X(PATTERNS, freeze, NULL,                                                                                          \
      "weights that do not learn, by a pattern of their names in model.safetensors: \"decoder.layers.0.*\"")           \
    X(PATTERNS, rates, NULL,                                                                                           \
      "times how much of the rate weights learn with, by a pattern of their names, such as \"*embed*=0.1\"; of "       \
      "several that name a weight the last one counts")                                                                \
    X(COUNT, steps, 2000, "optimizer steps")                                                                           \
    X(REAL, epochs, -1,                                                                                                \
      "passes over the data to train on, which set the number of steps; fractions are allowed (-1: steps sets it)")    \
    X(COUNT, batch, 12, "sequences a step (0 with batch_tokens: no limit)")                                            \
    X(COUNT, batch_tokens, 0, "limit of rows times longest row of a step, for pairs and labelled lines (0: none)")     \
    X(COUNT, accumulate, 1, "parts that a batch is cut into, to save memory; same gradient")                           \
    X(TEXT, long_lines, "error",                                                                                       \
      "pairs, labelled lines: what becomes of lines of more tokens than the context: error, skip, keep-start or "      \
      "keep-end; how many there were is said")                                                                         \
    X(COUNT, groups, 0,                                                                                                \
      "groups of rows that sums over a batch are made in: accumulate and padding then change no bit; 1: no groups "    \
      "(0: 8 for a new run, or as many as a batch has rows)")                                                          \
    X(TEXT, precision, "auto",                                                                                         \
      "fp32, bf16 (products and what is kept for backward in bf16), or auto: $QKV_PRECISION, else what the CPU has")   \
    X(TEXT, gradients, "fp32",                                                                                         \
      "how sums of gradients travel between ranks: fp32, or bf16 (half the bytes; the numbers then depend on how "     \
      "many "                                                                                                          \
      "ranks there are)")                                                                                              \
    X(FLAG, checkpoint_activations, false,                                                                             \
      "keep only each block's input for backward and run the block again; same losses, less memory")                   \
    X(COUNT, context, 0, "positions a sequence (0: the spec's)")                                                       \
    X(TEXT, optimizer, "adamw", "adamw, adam or sgd")                                                                  \
    X(REAL, rate, 1e-3, "learning rate")                                                                               \
    X(REAL, min_rate, -1, "learning rate at the end of the schedule (-1: a tenth of rate)")                            \
    X(COUNT, warmup, 100, "steps over which the rate rises from 0")                                                    \
    X(TEXT, schedule, "cosine", "cosine, linear, constant or inverse_sqrt")                                            \
    X(REAL, beta1, 0.9, "decay of the first moment")                                                                   \
    X(REAL, beta2, 0.99, "decay of the second moment")                                                                 \
    X(REAL, eps, 1e-8, "added to the root of the second moment")                                                       \
    X(REAL, momentum, 0.9, "momentum of sgd")                                                                          \
    X(REAL, weight_decay, 0.1, "weight decay of matrices")                                                             \
    X(REAL, clip, 1.0, "limit of the global gradient norm (0: none)")                                                  \
    X(REAL, dropout, -1, "dropout (-1: the spec's)")                                                                   \
    X(REAL, label_smoothing, 0, "part of the loss that all tokens or classes share (Szegedy et al. 2016)")             \
    X(COUNT, seed, 1337, "names the initial weights, the batches and the dropout")                                     \
    X(COUNT, eval_every, 250, "steps between evaluations (0: only at the end)")                                        \
    X(COUNT, eval_batches, 20, "batches an evaluation (0: all that is kept for validation)")                           \
    X(TEXT, metric, "loss",                                                                                            \
      "what is best: loss, accuracy (labelled lines, examples), exact or token_error (pairs: of 500 sources)")         \
    X(COUNT, patience, 0, "evaluations without a better metric that end the training (0: never)")                      \
    X(COUNT, save_every, 250, "steps between checkpoints (0: only at the end)")                                        \
    X(COUNT, keep, 1,                                                                                                  \
      "checkpoints to keep: the latest, those before it as checkpoint-STEP.safetensors, and besides the one of the "   \
      "best evaluation as checkpoint-best.safetensors; RUN/FILE goes on from one (--resume), or is it as a model")
#define QKV_TRAIN_FIELD_TEXT(name)  const char *name;
#define QKV_TRAIN_FIELD_REAL(name)  double name;
#define QKV_TRAIN_FIELD_COUNT(name) int64_t name;
#define QKV_TRAIN_FIELD_FLAG(name)  bool name;
#define QKV_TRAIN_FIELD_FILES(name)                                                                                    \
    union {                                                                                                            \
        const char *name;                                                                                              \
        const char *name##_files[QKV_FILES_MAX];                                                                       \
    };
#define QKV_TRAIN_FIELD_PATTERNS(name)           const char *name[QKV_FILES_MAX];
#define QKV_TRAIN_FIELD(type, name, value, help) QKV_TRAIN_FIELD_##type(name)
struct qkv_train_options {
    QKV_TRAIN_LIST(QKV_TRAIN_FIELD)
    struct {                /* the library's: what is a default and what the caller chose */
        const char *preset; /* whose recipe the defaults are of */
        /* bit i: option i was set by qkv_train_set; is a default that gave way, or what another run recorded */
        uint64_t given, settled;
        bool recorded; /* read from a run, where nobody chooses */
    } origin;
};
/* The defaults, changed by the recipe of a preset (NULL: none). Fails with QKV_ARGUMENT, QKV_MEMORY. */
QKV_API enum qkv_status qkv_train_defaults(struct qkv_context *ctx, const char *preset,
                                           struct qkv_train_options *options);
/* Sets one option from text ("rate", "3e-4"; a flag is "true" or "false"); `value` must live as long as the options.
 * An option that names files or patterns gets one more. QKV_ARGUMENT for a name that is none and for what is out of its range.
 * Fails with QKV_ARGUMENT. */
QKV_API enum qkv_status qkv_train_set(struct qkv_context *ctx, struct qkv_train_options *options, const char *name,
                                      const char *value);
/* Sets the options of a JSON file: those of a record that a run wrote (train.json), or of an object of options by their names,
 * {"steps": 500, "rate": 3e-4, "data": ["a.txt", "b.txt"]}. Those of an object are chosen, as qkv_train_set's are. Those of a record
 * were chosen for another run: they stand in for the defaults, and give way to what is set later as these do. *texts is where the
 * options' texts are, to be freed by qkv_free when the options are no longer used; NULL on failure, and the options are as they
 * were. QKV_FORMAT for keys that are no options, of the wrong type or come twice, QKV_ARGUMENT for what is out of its range; the
 * sentence names file and key. Experimental. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_FORMAT. */
QKV_API enum qkv_status qkv_train_read_options(struct qkv_context *ctx, const char *path,
                                               struct qkv_train_options *options, char **texts);
/* Makes one option a default again. */
QKV_API void qkv_train_unset(struct qkv_train_options *options, const char *name);
/* Whether every number lies in its range, every name is known, options go together and each that was chosen has an
 * effect; the sentence names the option (QKV_ARGUMENT). Chosen is what qkv_train_set set, and what was written into
 * the struct if it is not the default. A default that contradicts what was chosen is fine: it gives way when the run
 * begins (warmup becomes a tenth of the steps where it has as many as the run, min_rate a tenth of a rate below it,
 * …), which a note of the trainer tells. Reads no file. Fails with QKV_ARGUMENT, QKV_MEMORY. */
QKV_API enum qkv_status qkv_train_check(struct qkv_context *ctx, const struct qkv_train_options *options);
/* The same, and whether the options suit a spec (whose vocabulary and classes may be 0). QKV_ARGUMENT or QKV_SPEC.
 * Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SPEC. */
QKV_API enum qkv_status qkv_train_check_spec(struct qkv_context *ctx, const struct qkv_train_options *options,
                                             const struct qkv_spec *spec);
/* Whether the i-th option was chosen and has no effect beside the others; *why (may be NULL) is the reason. */
QKV_API bool qkv_train_idle(const struct qkv_train_options *options, size_t i, const char **why);
/* The i-th option for help texts: name, default ("false" for a flag) and help; false past the last. */
QKV_API bool qkv_train_option_at(size_t i, const char **name, const char **value, const char **help);
/* Whether the i-th option names files or patterns, so that it may be given more than once. */
QKV_API bool qkv_train_option_lists(size_t i);

/* Whether an option may be another one when a run goes on: it changes no number of any step. If not, *why says why (may be
 * NULL). Evaluations choose the best model and are what patience counts, so eval_every changes which steps may be the best,
 * and how many steps patience waits. */
QKV_API bool qkv_train_may_change(const char *name, const char **why);

/* Trains a tokenizer as a run does that has this option `tokenizer` ("words", "bpe:4096"; NULL: chars; no tokenizer.json), on `count`
 * files or folders, 1 to QKV_FILES_MAX, one after the other, of which memory holds a piece at a time. `specials` are texts that are
 * one token wherever they stand; bpe without any has <|endoftext|>. *out is the caller's. Experimental. Fails with QKV_ARGUMENT,
 * QKV_MEMORY, QKV_FILE, QKV_FORMAT, QKV_STOPPED. */
QKV_API enum qkv_status qkv_tokenizer_learn(struct qkv_context *ctx, const char *choice, const char *const *files,
                                            size_t count, const char *const *specials, size_t special_count,
                                            qkv_progress *progress, void *user, struct qkv_tokenizer **out);

struct qkv_trainer;
/* Starts a run in `folder` (must not hold one already): trains the tokenizers, tokenizes the data, makes the model.
 * Several texts are one after the other, an end token (<|endoftext|>, else </s>) between two of them where the
 * tokenizer has one; tokenizers learn from all of them. Without a file to validate on, the last valid_fraction of the
 * tokens (of the lines, for pairs and labelled lines) is held out, whichever files that is; train.json says it file by
 * file. spec->vocab, source_vocab and head.classes of 0 are set from tokenizers and labels; otherwise they must agree.
 * With options->from the run begins with the weights of a model folder, and `spec` is NULL: spec, tokenizers and
 * labels are the model's. A spec given beside it (qkv_folder_spec reads the model's) may have other dropouts, of the whole
 * or of its parts, and is otherwise the model's (else QKV_SPEC). A head that does not fit the task or the labels is an error (QKV_SPEC) that names what
 * differs, unless new_head puts a new one in its place: of the kind that the task says; without a task, of the model's own
 * kind where that suits the files, else one that classifies lines, or tokens of texts (a classifier: a bias, and mean
 * pooling; of the vocabulary: an untied matrix). Special tokens that the task needs are added. Notes tell what is new. The model's folder is not needed
 * afterwards; train.json keeps its path and the hash of its weights. Targets of pairs end with QKV_TOKEN_END, as
 * sources do, and the decoder reads them behind a QKV_TOKEN_BEGIN; labelled texts stand between the two. A
 * tokenizer.json with a template (qkv_tokenizer_template) decides what stands around a text, a source or a labelled
 * text instead; targets keep their two. The context has the precision of the options until the trainer is freed, so
 * nothing else of that context should be at work meanwhile but with the trainer's model. Fails with QKV_ARGUMENT,
 * QKV_MEMORY, QKV_FILE, QKV_FORMAT, QKV_SPEC, QKV_SHAPE, QKV_STOPPED. */
QKV_API enum qkv_status qkv_trainer_create(struct qkv_context *ctx, const struct qkv_spec *spec,
                                           const struct qkv_train_options *options, const char *folder,
                                           qkv_progress *progress, void *user, struct qkv_trainer **out);
/* Whether the run in `folder` is the one that qkv_trainer_create would begin with this spec and these options: QKV_ARGUMENT
 * names the first option, or the spec, that differs. Files of texts, and options that may change
 * (qkv_train_may_change), do not count, except the number of steps. That of train.json counts, not how many are done:
 * a run of as many steps or fewer matches, and qkv_trainer_resume with options->steps goes on with it to the new end; a
 * run of more steps is another one. With the option epochs those of train.json are compared in the same way, and a run
 * whose steps were given is another one. Experimental.
 * Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_FORMAT, QKV_SPEC. */
QKV_API enum qkv_status qkv_run_match(struct qkv_context *ctx, const char *folder, const struct qkv_spec *spec,
                                      const struct qkv_train_options *options);
/* Goes on from the checkpoint in `folder` as if training had never stopped, bit for bit. `steps` > 0 sets a new end,
 * as below with extend NULL. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_FORMAT, QKV_SPEC, QKV_SHAPE,
 * QKV_STOPPED. */
QKV_API enum qkv_status qkv_trainer_resume(struct qkv_context *ctx, const char *folder, int64_t steps,
                                           qkv_progress *progress, void *user, struct qkv_trainer **out);
/* The same with changes, which are kept in train.json and reported by a note. Where a run gets a new end its rate has a seam,
 * one for each extension, so that going on later is exact too. */
struct qkv_resume_options {
    int64_t steps; /* the new end, not before the steps done; 0: as it was */
    double epochs; /* the new end as the option epochs, in place of steps; 0: as it was */
    /* what the rate does from here to a new end: a name of QKV_EXTEND_LIST; NULL: decay, because it does not rise
     * unless a warm-up was not over, and ends where the schedule was to end */
    const char *extend;
    const char *const *settings; /* "eval_every=100": options that qkv_train_may_change */
    size_t setting_count;
    /* the file in the folder to go on from: "checkpoint-250.safetensors", "checkpoint-best.safetensors"; NULL: the latest */
    const char *checkpoint;
};
/* No changes. */
QKV_API struct qkv_resume_options qkv_resume_defaults(void);
/* `options` NULL: none. QKV_ARGUMENT for changes that are refused, QKV_FILE and QKV_FORMAT for files that are missing
 * or were changed by others; the folder is then as it was. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_FORMAT,
 * QKV_SPEC, QKV_SHAPE, QKV_STOPPED. */
QKV_API enum qkv_status qkv_trainer_resume_with(struct qkv_context *ctx, const char *folder,
                                                const struct qkv_resume_options *options, qkv_progress *progress,
                                                void *user, struct qkv_trainer **out);
/* Ends a run where it stands; the latest checkpoint stays. NULL is fine. */
QKV_API void qkv_trainer_free(struct qkv_trainer *trainer);
/* What a run has to say that is no failure, a sentence each: what it found in its files, what it chose where an option left it
 * open. The i-th note, NULL past the last; the trainer's. Notes stay and keep their numbers; creating, resuming and steps may
 * add some, so a caller shows those it has not shown yet. */
QKV_API const char *qkv_trainer_note(const struct qkv_trainer *trainer, size_t i);

/* What a run's folder says about its state (state.json). */
#define QKV_RUN_STATE_LIST(X)                                                                                          \
    X(UNKNOWN, "unknown")         /* nothing is recorded: no run, or one of an older version */                        \
    X(RUNNING, "running")         /* a process trains it */                                                            \
    X(DONE, "done")               /* all steps are made, or patience has ended it */                                   \
    X(FAILED, "failed")           /* a step failed; message says why */                                                \
    X(INTERRUPTED, "interrupted") /* it was stopped, or its process was killed, before its end */
enum qkv_run_state {
#define QKV_RUN_STATE_ENUM(name, text) QKV_RUN_##name,
    QKV_RUN_STATE_LIST(QKV_RUN_STATE_ENUM)
#undef QKV_RUN_STATE_ENUM
};
struct qkv_run_condition {
    enum qkv_run_state state;
    bool killed;              /* interrupted, and its process ended without saying so */
    int64_t step, steps;      /* of the last line of the log; steps in all */
    int64_t saved;            /* the step of the checkpoint, from which it goes on */
    int64_t pid;              /* of the process that trained it last; 0: not known */
    int64_t started, updated; /* when that began, and its latest sign: seconds since 1970; 0: not known */
    char host[128];           /* the machine of that process */
    char message[1024];       /* why it failed; "": it did not */
};
/* "running" and so on. Any thread. */
QKV_API const char *qkv_run_state_name(enum qkv_run_state state);
/* Reads the state of the run in a folder. A run that says it is trained is believed if its process lives: its lock on log.jsonl
 * tells on this machine, in other containers and wherever the file system shares locks. Elsewhere the latest sign of life does, a
 * line of the log: a run is given up after ten minutes or the time of 20 steps, whichever is longer. A folder without a state, or
 * with one that cannot be understood, is QKV_RUN_UNKNOWN, or QKV_RUN_RUNNING where its log is locked. Fails with QKV_ARGUMENT,
 * QKV_MEMORY, QKV_FILE. */
QKV_API enum qkv_status qkv_run_condition_read(struct qkv_context *ctx, const char *folder,
                                               struct qkv_run_condition *condition);

/* What an evaluation is judged by, the option `metric`: its name, and whether more is better. */
#define QKV_METRIC_LIST(X)                                                                                             \
    X(LOSS, "loss", false)                                                                                             \
    X(ACCURACY, "accuracy", true)                                                                                      \
    X(EXACT, "exact", true)                                                                                            \
    X(TOKEN_ERROR, "token_error", false)
enum qkv_metric {
#define QKV_METRIC_ENUM(name, text, more) QKV_METRIC_##name,
    QKV_METRIC_LIST(QKV_METRIC_ENUM)
#undef QKV_METRIC_ENUM
};
/* The metric of a name; false, and *metric as it was, where there is none. Any thread. */
QKV_API bool qkv_metric_find(const char *name, enum qkv_metric *metric);
/* Whether `value` is better than `best`; the first one is better than none, which is NaN. Any thread. */
QKV_API bool qkv_metric_better(enum qkv_metric metric, double value, double best);

struct qkv_train_report {
    int64_t step, steps; /* steps done, steps in all */
    double loss;         /* of this step's batch */
    double norm;         /* gradient norm before clipping */
    double rate;
    double tokens_per_second, flops_share; /* of this step; share of the measured peak, see below */
    bool evaluated, best, saved;           /* whether this step ended with an evaluation, a new best, a checkpoint */
    double valid_loss, best_loss;          /* of the latest evaluation and the best, NaN before the first */
    const char *metric_name;               /* what chooses the best: the option `metric` */
    double metric, best_metric;            /* of the latest evaluation and the best, NaN before the first */
    bool ended;                            /* for want of better evaluations (patience): steps is then the step */
    double seconds;                        /* since the trainer was made */
    /* Experts: rows of this step that the busiest of a layer had, over the mean of its layer, the most of all layers; 0 without
     * experts. And how many experts, of all layers, had none. */
    double expert_load;
    int64_t experts_unused;
    /* The first of these two for each layer, the encoder's before the decoder's, NaN of one without experts of its own; so many.
     * NULL without experts. The trainer's, until its next step. */
    const double *expert_loads;
    size_t expert_load_count;
};
/* One optimizer step, with the evaluation and the checkpoint that fall due; QKV_NUMBER if the loss is not finite (the
 * checkpoint of before is untouched). Past the last step: report->step == report->steps and nothing is done. Fails
 * with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_FORMAT, QKV_SPEC, QKV_SHAPE, QKV_NUMBER, QKV_STOPPED. */
QKV_API enum qkv_status qkv_trainer_step(struct qkv_trainer *trainer, struct qkv_train_report *report);
/* Writes the checkpoint now. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_SPEC. */
QKV_API enum qkv_status qkv_trainer_save(struct qkv_trainer *trainer);
/* What the latest weights write, kept as a line of samples.jsonl in the run's folder: a text of so many tokens or,
 * learning from pairs, the targets of at most so many tokens that greedy search finds for a few sources, "source ->
 * target" on a line each. *text, zero-terminated, is the caller's (qkv_free); on failure NULL. QKV_ARGUMENT for a
 * model that writes nothing, QKV_FILE, QKV_MEMORY. Experimental. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE,
 * QKV_FORMAT, QKV_SHAPE, QKV_NUMBER, QKV_STOPPED. */
QKV_API enum qkv_status qkv_trainer_sample(struct qkv_trainer *trainer, size_t tokens, char **text, size_t *size);
/* The latest weights; owned by the trainer. Of several ranks in mixed precision each has those that only products read as bf16 alone: the
 * model can be evaluated and generated from in that precision, but neither saved nor exported, and qkv_model_weights is NULL for them; the
 * run's folder has the model in fp32. */
QKV_API struct qkv_model *qkv_trainer_model(struct qkv_trainer *trainer);
/* The options of the run, with what gave way settled. Owned by the trainer. */
QKV_API const struct qkv_train_options *qkv_trainer_options(const struct qkv_trainer *trainer);
/* Memory of weights, optimizer, one step, and the lines that are learnt from. */
QKV_API size_t qkv_trainer_bytes(const struct qkv_trainer *trainer);
QKV_API size_t qkv_trainer_tokens(const struct qkv_trainer *trainer,
                                  size_t *valid); /* of the training/validation text */
/* A file that a run learns from or validates on. */
struct qkv_train_file {
    const char *path; /* absolute; the trainer's */
    bool valid;       /* given to validate on; else to train on, but for what is held out */
    uint64_t bytes, hash;
    uint64_t tokens;   /* with the end token behind it; of lines those of the targets or texts */
    uint64_t lines;    /* examples in it; 0 of a text */
    uint64_t held_out; /* tokens, or lines where there are some, at its end that are kept for validation */
};
/* The i-th file, those to train on first, each in the order in which they are read; false past the last. */
QKV_API bool qkv_trainer_file(const struct qkv_trainer *trainer, size_t i, struct qkv_train_file *file);
/* How many steps an epoch has, one pass over the data to train on. Of a text, whose windows begin anywhere: its tokens
 * over batch times context, which need not be whole. Of pairs, lines and labelled lines: the batches that they are cut
 * into by their lengths (batch, batch_tokens), as many in every epoch. Of examples: the whole batches. The option epochs
 * sets steps when a run is created: epochs times this, rounded up, at least 1; the trainer's options and train.json then
 * have both. 0 for NULL. Experimental. */
QKV_API double qkv_trainer_epoch(const struct qkv_trainer *trainer);
/* The pairs, labelled lines or examples to train and to validate on; 0 for a text. */
QKV_API size_t qkv_trainer_lines(const struct qkv_trainer *trainer, size_t *valid);

/* Experimental: where the time of steps goes. */
enum qkv_profile_direction { QKV_PROFILE_WHOLE, QKV_PROFILE_FORWARD, QKV_PROFILE_BACKWARD };
struct qkv_profile_row {
    const char *name; /* of an operator ("linear"), or of another part of a step ("optimizer") */
    enum qkv_profile_direction direction;
    uint64_t calls;
    double seconds;
    double flops; /* of products and attention, multiply and add counted as two */
    double bytes; /* that must be read and written, of what is bound by memory */
};
struct qkv_profile_report {
    int64_t steps;
    double seconds; /* of all rows together: the steps without evaluations, log and checkpoints */
    double peak;    /* FLOP/s of this machine: of bf16 products where they are made so, else of fp32 */
    const struct qkv_profile_row *rows; /* in the order of a step; the trainer's */
    size_t count;
    /* Of several ranks: seconds in which sums of gradients travelled and were added, and those of them while backward ran. */
    double rank_seconds, rank_hidden;
};
/* Experimental: from now on the time of steps is counted. Fails with QKV_MEMORY. */
QKV_API enum qkv_status qkv_trainer_profile_start(struct qkv_trainer *trainer);
/* Experimental: what was counted so far; no rows if it was not started. */
QKV_API struct qkv_profile_report qkv_trainer_profile(const struct qkv_trainer *trainer);

struct qkv_evaluation {
    double loss, perplexity, bits_per_byte; /* loss in nats a token */
    size_t tokens, bytes;                   /* predicted tokens, bytes of the text that they stand for */
    size_t unknown; /* of the predicted tokens, those of what is not in the vocabulary (qkv_tokenizer_unknown) */
    double seconds;
};
struct qkv_evaluate_options {
    size_t batch, context; /* 0: 8, the spec's */
    /* as training with documents: those in a window, each ended by the tokenizer's end token, do not see one another, and the first
     * token of one is predicted from nothing and does not count. Not of a model with a prefix */
    bool documents;
};
/* Whether the run in `folder` (or of a checkpoint, by its path) records that it was trained with documents, which is how it is to be evaluated then; false where there is no
 * record: a model from elsewhere, or of a run older than the option. Fails with QKV_MEMORY, QKV_FILE, QKV_FORMAT. */
QKV_API enum qkv_status qkv_model_documents(struct qkv_context *ctx, const char *folder, bool *documents);
/* 8 windows of the spec's context, each one text. */
QKV_API struct qkv_evaluate_options qkv_evaluate_defaults(void);
/* In a context of several ranks (qkv/ranks.h) all of them call an evaluation, of a text as of pairs, labelled lines and examples; they
 * share its batches out, and each gets the numbers of one rank, bit for bit.
 *
 * Loss over a text, cut into windows of `context` tokens side by side: every token but the first is predicted once; of a model whose
 * spec has a prefix the first half of each window is its prefix, and only what follows is predicted.
 * `path` is a file, or a folder of files, which are one text as in training, an end token between two of them. Fails
 * with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_FORMAT, QKV_SPEC, QKV_SHAPE, QKV_NUMBER, QKV_STOPPED. */
QKV_API enum qkv_status qkv_evaluate_text(struct qkv_model *model, const char *path,
                                          const struct qkv_evaluate_options *options, qkv_progress *progress,
                                          void *user, struct qkv_evaluation *evaluation);
/* The same over several files or folders, one after the other. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE,
 * QKV_FORMAT, QKV_SPEC, QKV_SHAPE, QKV_NUMBER, QKV_STOPPED. */
QKV_API enum qkv_status qkv_evaluate_texts(struct qkv_model *model, const char *const *paths, size_t count,
                                           const struct qkv_evaluate_options *options, qkv_progress *progress,
                                           void *user, struct qkv_evaluation *evaluation);

/* Experimental: bytes of memory that the uses of a model take, its weights among them, where batches are as large as they are
 * by default and sequences as long as the context; 0: it has no such use. A file of examples that is evaluated may have shorter
 * ones. Shorter sequences take less. */
struct qkv_use_costs {
    size_t lines_bytes;    /* to embed lines, or to classify them (qkv_embed, qkv_classify) */
    size_t search_bytes;   /* to translate: a greedy search (qkv_translate) */
    size_t evaluate_bytes; /* on a text, on pairs, on labelled lines or on examples, which the model is for */
    size_t export_bytes;   /* to write it in another format, */
    size_t publish_bytes;  /* or as a folder of a published family, at most: a tensor of a layer at a time is made for that */
};
/* Experimental: measures them by dry runs of a planned model, such as one of qkv_model_plan_load. A model that is not planned:
 * QKV_ARGUMENT. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SPEC, QKV_SHAPE. */
QKV_API enum qkv_status qkv_model_use_costs(struct qkv_model *plan, struct qkv_use_costs *costs);

#ifdef __cplusplus
}
#endif

#endif
