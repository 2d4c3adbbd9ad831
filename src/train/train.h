/* train: learning from a text, from pairs or from labelled lines.
 *
 * Offers its callers what include/qkv.h declares under "optimizers" and "training on a file"; the files of this
 * room share what is declared here. A run's folder holds
 *
 *   config.json, tokenizer.json, model.safetensors   the model with the best weights so far (model room)
 *   source_tokenizer.json, labels.txt                of pairs with two tokenizers; of labelled lines
 *   train.json                                       the options and what is known of the texts (train_json.c)
 *   tokens.data.bin, tokens.valid.bin                the tokenized texts, targets or labelled texts (tokens.c)
 *   tokens.data.beside.bin, tokens.valid.beside.bin  the sources or labels that belong to them
 *   log.jsonl                                        a line a step (log.c)
 *   state.json                                       whether it is trained, done, failed or interrupted (run_state.c)
 *   machine.jsonl                                    a line for each time it was begun or gone on with (machine_log.c)
 *   checkpoint.safetensors                           latest weights, moments and position (checkpoint.c)
 *
 * Whatever a step draws at random is a pure function of (seed, step, place in the step), so the position of a run is
 * its step number and nothing else. */
#ifndef QKV_TRAIN_H
#define QKV_TRAIN_H

#include "data/corpus.h"      /* texts and their tokens */
#include "data/data.h"        /* what a run learns from */
#include "rank/ranks.h"       /* several ranks, and the order of sums */
#include "train/run_folder.h" /* the files of a run */
#include "train/schedule.h"   /* the learning rate */

#define QKV_TRAIN_FILE_BYTES ((size_t)1 << 24) /* no larger one is read */
#define QKV_TRAIN_FORMAT     "qkv-train"       /* of the record that train.json is */

/* ---- options (options.c) ---------------------------------------------------------------------------------------- */

enum qkv_train_type {
    QKV_TRAIN_TEXT,
    QKV_TRAIN_DATA, /* files, of a kind of training data */
    QKV_TRAIN_FILES,
    QKV_TRAIN_PATTERNS,
    QKV_TRAIN_REAL,
    QKV_TRAIN_COUNT,
    QKV_TRAIN_FLAG
};
struct qkv_train_option {
    const char *name;
    enum qkv_train_type type;
    size_t offset;                      /* in struct qkv_train_options */
    const char *value, *subject, *help; /* value: the default as text, NULL for none */
};
/* The i-th option, NULL past the last. */
const struct qkv_train_option *qkv_train_option(size_t i);
/* The k-th name that an option may have as its value; NULL past the last (option_choices.c). */
const char *qkv_train_choice_at(const char *option, size_t k);
/* The place of a name among the values of an option (qkv_train_option_choice); -1 of another one (option_choices.c). */
int qkv_train_choice(const char *option, const char *name);
/* Fails with QKV_ARGUMENT where `value` is none of an option's values. */
enum qkv_status qkv_train_check_choice(struct qkv_context *ctx, const char *option, const char *value);
/* Whether it may be given more than once, so that it has QKV_FILES_MAX texts. */
bool qkv_train_option_many(const struct qkv_train_option *option);
/* Takes a program's options into `own`, as qkv_options_take; what an older program lacks is as the recipe that its
 * options began with has it. The texts stay the program's. QKV_ARGUMENT */
enum qkv_status qkv_train_take(struct qkv_context *ctx, struct qkv_train_options *own,
                               const struct qkv_train_options *options);
/* Whether a program's struct of `size` bytes has an option, and the failure where it has not. */
bool qkv_train_option_fits(const struct qkv_train_option *option, size_t size);
enum qkv_status qkv_train_fail_size(struct qkv_context *ctx, const struct qkv_train_option *option);
/* The defaults behind options, those of the recipe that they began with. */
void qkv_train_base(const struct qkv_train_options *options, struct qkv_train_options *base);
/* Whether an option has the same value in both. */
bool qkv_train_same(const struct qkv_train_option *option, const struct qkv_train_options *a,
                    const struct qkv_train_options *b);
/* An option's value for messages: "none" for a text that is NULL. */
#define QKV_OPTION_TEXT 160
void qkv_train_value_text(const struct qkv_train_option *option, const struct qkv_train_options *options,
                          char text[QKV_OPTION_TEXT]);
/* Values and what they say about each other, without asking who chose them: what a run recorded has to satisfy. */
enum qkv_status qkv_train_check_values(struct qkv_context *ctx, const struct qkv_train_options *options);
/* Whether every option that was chosen has an effect (needs.c). */
enum qkv_status qkv_train_check_needs(struct qkv_context *ctx, const struct qkv_train_options *options);
/* Defaults that contradict what was chosen give way, with a sentence in `notes` (NULL: none) for each (needs.c).
 * `spec` may be NULL. The new texts are constants. */
enum qkv_status qkv_train_settle(struct qkv_context *ctx, struct qkv_train_options *options,
                                 const struct qkv_spec *spec, struct qkv_texts *notes);
/* Sets text_key of a mixture of texts that has none, to the usual one; the copy owns it. The record of a run says by
 * this option that its texts are a mixture. */
enum qkv_status qkv_train_key(struct qkv_context *ctx, struct qkv_train_options *options);
/* A copy that owns its texts, and its end. */
enum qkv_status qkv_train_copy(struct qkv_context *ctx, struct qkv_train_options *copy,
                               const struct qkv_train_options *options);
void qkv_train_release(struct qkv_train_options *options);
/* Whether an option changes the numbers of the steps that are still to come: only then its value is part of the
 * digest of the options, which a checkpoint carries and resuming compares. */
bool qkv_train_changes_numbers(const char *name);
/* The digest of the options that do (options_digest.c; docs/digests.md): 17 bytes with the terminating zero. */
enum qkv_status qkv_train_digest(struct qkv_context *ctx, const struct qkv_train_options *options, char text[17]);
/* Gives the context the precision of checked, owned options; "auto" becomes the one chosen: of a new run
 * qkv_auto_precision, of an old one (that knew no other) fp32. (precision.c) */
enum qkv_status qkv_train_precision(struct qkv_context *ctx, struct qkv_train_options *options, bool fresh);
/* Checked options only: the kinds that the texts name. */
enum qkv_optimizer_kind qkv_train_optimizer(const struct qkv_train_options *options);
struct qkv_optimizer_options qkv_train_optimizer_options(const struct qkv_train_options *options);
enum qkv_schedule_kind qkv_train_schedule(const struct qkv_train_options *options);

/* The steps of so many epochs of the trainer's data, which is open (epochs.c). QKV_ARGUMENT */
enum qkv_status qkv_epochs_steps(struct qkv_trainer *trainer, double epochs, int64_t *steps);
/* Options with epochs get the steps that these are, and what follows from steps, which was left open until now:
 * defaults give way, with a sentence in `notes` (NULL: none). QKV_ARGUMENT, QKV_MEMORY */
enum qkv_status qkv_epochs_settle(struct qkv_context *ctx, struct qkv_train_options *options, int64_t steps,
                                  struct qkv_texts *notes);
/* Sets the steps of a new run that has the option epochs. QKV_ARGUMENT, QKV_MEMORY */
enum qkv_status qkv_epochs_begin(struct qkv_trainer *trainer);

/* Sets what `settings` say, "eval_every=100", each an option that may change when a run goes on (changes.c). */
enum qkv_status qkv_train_change(struct qkv_context *ctx, struct qkv_train_options *options,
                                 const char *const *settings, size_t count);

/* ---- memory (plan.c) -------------------------------------------------------------------------------------------- */

/* The shapes that passes will have: windows and examples (B,T), or those of lines. B 0 and no shapes: not known yet. */
struct qkv_train_shapes {
    size_t B, T, source_T;
    size_t train_B; /* what of B a rank has in a part */
    const struct qkv_pass_shape *train, *valid;
    size_t train_count, valid_count;
    uint64_t levels; /* of gradients that wait: qkv_parts_levels of all steps */
    size_t taken;    /* bytes of the model that are in use already */
    bool validates;
    bool looks;    /* a step first runs its batch forward with a pass of its own */
    size_t beside; /* bytes of what the run has besides */
};
/* Refuses (QKV_MEMORY) a run that needs more memory than there is, before any of it is used; the sentence says what
 * would need less where the run is `fresh`, that is, still free to choose. The context has the precision of the run. */
enum qkv_status qkv_train_memory(struct qkv_context *ctx, const struct qkv_spec *spec,
                                 const struct qkv_train_options *options, const struct qkv_train_shapes *shapes,
                                 bool fresh);

/* ---- the optimizers (optimizer_kinds.c) ------------------------------------------------------------------------- */

bool qkv_optimizer_is_kind(int kind);
/* Whether it reads an option of optimizers: beta1, beta2, eps or momentum; and the end of a sentence that it has no
 * such option. */
bool qkv_optimizer_reads(enum qkv_optimizer_kind kind, const char *option);
const char *qkv_optimizer_lacks(enum qkv_optimizer_kind kind);
/* What a checkpoint calls a moment: "optimizer.m" before a dot and the parameter's name. */
const char *qkv_moment_name(enum qkv_moment k);
/* How it updates a weight, and whether it keeps that moment of it. */
enum qkv_update qkv_optimizer_update(enum qkv_optimizer_kind kind, const struct qkv_weight *weight);
bool qkv_optimizer_has(const struct qkv_optimizer_options *options, enum qkv_moment k, const struct qkv_weight *weight);
/* Whether each rank has all numbers of that moment; and what a checkpoint has of it, without a name and data. */
bool qkv_moment_whole(enum qkv_moment k);
struct qkv_array qkv_moment_array(enum qkv_moment k, const struct qkv_weight *weight);
/* The sizes of a weight in the step `factorise`. */
size_t qkv_factored_rows(const struct qkv_weight *weight);
size_t qkv_factored_columns(const struct qkv_weight *weight);
/* How many moments a weight has, at most. */
size_t qkv_optimizer_moments_of(const struct qkv_optimizer_options *options, const struct qkv_weights *weights);
/* Whether an update needs all numbers of a gradient: the step `orthogonalise` or `factorise` follows, then the update
 * `descend`. The scale of orthogonal changes makes them as large as those of AdamW at the same rate
 * (0.2·√max(rows, columns): Liu et al. 2025). */
bool qkv_update_whole(enum qkv_update update);
float qkv_update_whole_scale(const struct qkv_weight *weight);
/* Whether an optimizer of that kind has such an update. */
bool qkv_optimizer_whole(enum qkv_optimizer_kind kind);
/* Bytes of moments that each rank has whole. */
size_t qkv_optimizer_whole_bytes(const struct qkv_optimizer_options *options, const struct qkv_weights *weights);
/* The memory of these steps, one after the other. QKV_MEMORY */
enum qkv_status qkv_optimizer_room(enum qkv_optimizer_kind kind, const struct qkv_weights *weights, size_t *bytes);
/* The bytes of such an optimizer on a rank, once the model, which may be planned, has gradients. QKV_MEMORY */
enum qkv_status qkv_optimizer_plan(const struct qkv_optimizer_options *options, const struct qkv_model *model, int rank,
                                   size_t *bytes);

/* ---- optimizer (optimizer.c) ------------------------------------------------------------------------------------ */

/* Steps done; setting them is for resuming. */
uint64_t qkv_optimizer_steps(const struct qkv_optimizer *optimizer);
void qkv_optimizer_set_steps(struct qkv_optimizer *optimizer, uint64_t steps);
/* How many moments a parameter has, at most. */
size_t qkv_optimizer_moments(const struct qkv_optimizer *optimizer);
/* All of them, weight after weight; what frozen weights have is none. */
const struct qkv_moment_run *qkv_optimizer_runs(const struct qkv_optimizer *optimizer, size_t *count);
/* That moment of parameter i, or of its first run if ranks divide it; NULL: it has none. */
float *qkv_optimizer_moment(struct qkv_optimizer *optimizer, enum qkv_moment k, size_t i);
/* Whether parameter i learnt when the optimizer was made, and whether some rank has that moment of it. */
bool qkv_optimizer_learns(const struct qkv_optimizer *optimizer, size_t i);
bool qkv_optimizer_keeps(const struct qkv_optimizer *optimizer, enum qkv_moment k, size_t i);
size_t qkv_optimizer_bytes(const struct qkv_optimizer *optimizer);
/* With several ranks in mixed precision: from here on each keeps its own share of the fp32 numbers of weights that
 * only products read, and of the rest what these read, in bf16 (rank_masters.c). Once the model has its numbers.
 * QKV_MEMORY */
enum qkv_status qkv_optimizer_divide(struct qkv_optimizer *optimizer);
const struct qkv_rank_masters *qkv_optimizer_masters(const struct qkv_optimizer *optimizer);
/* As qkv_optimizer_exchange; without averages nothing is done. */
enum qkv_status qkv_optimizer_average(struct qkv_optimizer *optimizer);

/* ---- frozen weights, and rates (freeze.c) ----------------------------------------------------------------------- */

/* Cuts "PATTERN=X", an item of the option rates, at the last =: how long the pattern is, and the number. */
enum qkv_status qkv_rate_parse(struct qkv_context *ctx, const char *text, size_t *pattern, double *rate);
/* Freezes what the option says, and gives the others their rates; QKV_ARGUMENT for a pattern that no name matches,
 * or no weight that learns, and where nothing is left to learn. */
enum qkv_status qkv_train_freeze(const struct qkv_train_options *options, struct qkv_model *model);
/* The same with a plan of the spec, to find out. */
enum qkv_status qkv_train_check_freeze(struct qkv_context *ctx, const struct qkv_train_options *options,
                                       const struct qkv_spec *spec);
/* Notes that say what of a trainer's model is frozen, and what learns at another rate. */
enum qkv_status qkv_trainer_note_frozen(struct qkv_trainer *trainer);

/* ---- evaluation (evaluate.c) ------------------------------------------------------------------------------------ */

enum { QKV_EVALUATE_WINDOWS = 8 }; /* of a text that is evaluated, side by side */
struct qkv_example_files;
/* Measures, by a dry run, the bytes of a batch of examples that files are evaluated in; NULL: a full batch of sequences
 * as long as the context. The model may be planned. (evaluate_examples.c) */
enum qkv_status qkv_examples_measure(struct qkv_model *model, const struct qkv_example_files *files, size_t *bytes);

/* ---- beginning with a model (origin.c) -------------------------------------------------------------------------- */

/* Reads the model of option from, which is not to be written to `folder`: it, and the spec of the run before
 * anything of the data is known (classes 0: from the labels). `given` (NULL: none) is the model's spec with other
 * dropouts. */
enum qkv_status qkv_origin_open(struct qkv_context *ctx, const struct qkv_train_options *options,
                                const struct qkv_spec *given, const char *folder, struct qkv_model **origin,
                                struct qkv_spec *spec);
/* The facts about it, its bytes and their hash, unless they are known. */
enum qkv_status qkv_origin_record(struct qkv_trainer *trainer);
/* What is frozen in the model is so in the run: its names, which the model owns, are added to those of the option. */
enum qkv_status qkv_origin_freeze(const struct qkv_model *origin, struct qkv_train_options *options);
/* Copies its weights into the trainer's model, and frees it. */
enum qkv_status qkv_origin_copy(struct qkv_trainer *trainer);

/* ---- training an adapter (lora.c) -------------------------------------------------------------------------------- */

/* Checks the option lora: its settings, and that no other option contradicts it. QKV_ARGUMENT */
enum qkv_status qkv_lora_check(struct qkv_context *ctx, const struct qkv_train_options *options);
/* The trainer's model: that of option from, which is loaded again when a run goes on, with an adapter. Its spec must be
 * that of the run, apart from the context. */
enum qkv_status qkv_lora_build(struct qkv_trainer *trainer, const struct qkv_spec *spec);
/* A plan of the same: *opening, which the caller frees, has the model. */
struct qkv_opening;
enum qkv_status qkv_lora_plan(struct qkv_context *ctx, const struct qkv_train_options *options,
                              struct qkv_opening **opening);

/* Whether option i is in a set of options, and puts it in or takes it out. */
static inline bool qkv_train_marked(const uint64_t set[2], size_t i) {
    return set[i / 64] >> i % 64 & 1;
}
static inline void qkv_train_mark(uint64_t set[2], size_t i, bool in) {
    const uint64_t bit = UINT64_C(1) << i % 64;
    set[i / 64] = in ? set[i / 64] | bit : set[i / 64] & ~bit;
}

/* ---- a teacher (teacher.c); without one nothing is to be done ---------------------------------------------------- */

struct qkv_loss_rows;
/* Fails if the folder of a teacher (NULL: none) cannot be opened, before anything is made. */
enum qkv_status qkv_teacher_check(struct qkv_context *ctx, const char *teacher);
/* Loads the model of option teacher, which must suit a model of this spec and the trainer's tokenizer. */
enum qkv_status qkv_teacher_open(struct qkv_trainer *trainer, const struct qkv_spec *spec);
/* Bytes of the pass that qkv_teacher_begin makes, once the data is open; before that of texts alone. */
enum qkv_status qkv_teacher_measure(struct qkv_trainer *trainer, size_t *bytes);
enum qkv_status qkv_teacher_begin(struct qkv_trainer *trainer);
/* Runs a part of a batch through it, and says what a loss has of its scores. */
enum qkv_status qkv_teacher_read(struct qkv_trainer *trainer, const struct qkv_batch *rows, struct qkv_loss_rows *out);
void qkv_teacher_free(struct qkv_trainer *trainer);

/* ---- the trainer (trainer.c; made by create.c or resume.c) ------------------------------------------------------ */

#define QKV_TRAIN_GROUPS 8 /* what the option groups is for a new run, where it is not given */
struct qkv_trainer {
    struct qkv_context *ctx;
    enum qkv_precision precision; /* of the context before, and after */
    bool fresh;                   /* a new run, not one that goes on */
    char *folder;
    struct qkv_train_options options; /* owns its texts */
    struct qkv_run_facts facts;
    struct qkv_data data;     /* that it learns from */
    struct qkv_model *origin; /* that the run begins with, until its weights are copied; NULL: none */
    struct qkv_model *model;
    struct qkv_optimizer *optimizer;
    struct qkv_part_sums sums;
    struct qkv_rank_sums rank_sums;
    struct qkv_model *teacher; /* NULL: none */
    struct qkv_pass *teacher_pass;
    struct qkv_pass *pass, *validation_pass; /* the latter NULL without anything to validate on, and on ranks but 0 */
    struct qkv_log log;
    struct qkv_train_report report; /* of the latest step; kept in the checkpoint */
    double *loads;                  /* (load_count): of experts, as report.expert_loads; NULL: there are none */
    size_t load_count;
    struct {
        double low, high;
        int64_t steps;           /* 0: the schedule says the rate */
    } rates;                     /* of a range test */
    int64_t stale;               /* evaluations since the best */
    bool pending;                /* the latest step's evaluation and log line are still due */
    struct qkv_profile *profile; /* NULL: not asked for */
    int64_t profiled;            /* steps in it */
    bool failed;                 /* the loss was not finite: nothing may be saved any more */
    char blame[QKV_RANK_BLAME];  /* of several ranks: which rank and rows that came from, behind "the loss"; else "" */
    enum qkv_run_state state;    /* as in state.json; QKV_RUN_UNKNOWN: this trainer has not begun */
    int64_t began;               /* seconds since 1970 */
    int64_t saved_step;          /* of the checkpoint on disk */
    const char *checkpoint;      /* that it resumes from, the caller's; NULL: the latest */
    double train_flops, peak;    /* FLOPs a token; FLOP/s of this machine */
    double started, earlier;     /* clock at the start; seconds of the run before that */
    struct qkv_texts notes;      /* what qkv_trainer_note gives */
    qkv_progress *progress;
    void *user;
};
/* One step of the optimizer, its time counted where that was asked for (step.c). Evaluation, log and checkpoint are
 * then due. */
enum qkv_status qkv_trainer_learn(struct qkv_trainer *trainer);
/* The sentence for what is not finite; nothing of the run may be saved any more. */
enum qkv_status qkv_trainer_fail_number(struct qkv_trainer *trainer, int64_t step, const char *what);
/* What create.c and resume.c share (build.c); a trainer that any of them failed on is only good for
 * qkv_trainer_free. */
enum qkv_status qkv_trainer_begin(struct qkv_context *ctx, const char *folder, qkv_progress *progress, void *user,
                                  struct qkv_trainer **out);
/* The dataset and the metric that the checked options name. */
void qkv_trainer_choose(struct qkv_trainer *trainer);
/* Changes a spec as the options say: context, dropout. */
enum qkv_status qkv_trainer_apply(struct qkv_context *ctx, const struct qkv_train_options *options,
                                  struct qkv_spec *spec);
/* Sizes that only tokenizers and data say are set to their minimum. */
void qkv_train_guess_sizes(const struct qkv_train_options *options, struct qkv_spec *spec);
/* qkv_train_memory with what is known before the tokenizers: the least sizes, and of lines and examples no shapes. */
enum qkv_status qkv_trainer_check_memory(struct qkv_trainer *trainer, const struct qkv_spec *spec);
/* Makes the model, opens the data, makes passes and optimizer. The model takes the trainer's tokenizers. */
enum qkv_status qkv_trainer_build(struct qkv_trainer *trainer, const struct qkv_spec *spec);
/* The model of a run that goes on, with its data, passes and optimizer (follow.c). */
enum qkv_status qkv_resume_model(struct qkv_trainer *trainer);
/* On other ranks, when rank 0 has the folder ready: reads the run as one that goes on, and writes nothing. */
enum qkv_status qkv_resume_follow(struct qkv_trainer *trainer);
/* Adds a note for whoever runs the trainer: one whole sentence without a period at its end, as of a failure. Control
 * characters of foreign names are for the caller to make harmless. */
enum qkv_status qkv_trainer_add_note(struct qkv_trainer *trainer, const char *format, ...) QKV_PRINTF(2, 3);
/* Cuts the log after the line of `step`; a note says what could not be read. */
enum qkv_status qkv_trainer_cut_log(struct qkv_trainer *trainer, int64_t step);

/* ---- ranks that are alike (rank_check.c); with one rank nothing is to be done ----------------------------------- */

/* Whether there may be so many ranks, and all are alike: build, kernels, caches, options, spec (NULL: it is read
 * from the folder) and, of a new run, the model that it begins with and the files of its data. The first rank that
 * is not is named, and what differs. */
enum qkv_status qkv_rank_check(struct qkv_trainer *trainer, const struct qkv_spec *spec);
/* Whether ranks that evaluate a model together are alike: build, kernels, caches, precision, spec, weights, tokenizers
 * and files. Called by all once each knows its files; `status`: what came of that, which becomes the status of all.
 * Fails with QKV_ARGUMENT. */
struct qkv_text_files;
enum qkv_status qkv_rank_check_evaluation(struct qkv_model *model, const struct qkv_text_files *files,
                                          enum qkv_status status);
/* The same with one file. */
enum qkv_status qkv_rank_check_evaluation_of(struct qkv_model *model, const char *path, enum qkv_status status);
/* Whether all see the folder that rank 0 has made or read. */
enum qkv_status qkv_rank_check_folder(struct qkv_trainer *trainer);

/* ---- the state of the run (run_state.c) ------------------------------------------------------------------------- */

/* QKV_FILE where a living process trains in the folder, as far as can be known. */
enum qkv_status qkv_state_refuse_living(struct qkv_context *ctx, const char *folder);
/* Puts state.json in the run's folder; `message`: why it failed, or NULL. */
enum qkv_status qkv_state_write(struct qkv_trainer *trainer, enum qkv_run_state state, const char *message);
/* Whether patience has ended it. */
bool qkv_trainer_ended(const struct qkv_trainer *trainer);
/* A trainer goes on; it has saved. */
enum qkv_status qkv_state_begin(struct qkv_trainer *trainer);
enum qkv_status qkv_state_saved(struct qkv_trainer *trainer);
/* A step failed with `status` and the context's sentence, which stays whatever comes of writing it; the trainer
 * ends. */
void qkv_state_failed(struct qkv_trainer *trainer, enum qkv_status status);
void qkv_state_end(struct qkv_trainer *trainer);

/* ---- loads of experts (expert_loads.c) -------------------------------------------------------------------------- */

/* Room for those of the trainer's model, where it has experts. QKV_MEMORY */
enum qkv_status qkv_loads_make(struct qkv_trainer *trainer);
/* After a step: corrections of routers are moved, and the report says what the loads were. */
void qkv_loads_take(struct qkv_trainer *trainer);
/* As text, and from it into the report; false where it is no such text. */
enum qkv_status qkv_loads_print(const struct qkv_trainer *trainer, struct qkv_buffer *text);
bool qkv_loads_read(struct qkv_trainer *trainer, const char *text, uint64_t unused);

/* ---- checkpoint (checkpoint.c) ---------------------------------------------------------------------------------- */

/* Called by all ranks: rank 0 makes the file, and each writes what it owns. Where one fails all do, and the
 * checkpoint before is whole. */
enum qkv_status qkv_checkpoint_write(struct qkv_trainer *trainer);
/* The same by rank 0 before others are there; their moments are those of the checkpoint at `from`, or 0 without one. */
enum qkv_status qkv_checkpoint_write_alone(struct qkv_trainer *trainer, const char *from);
/* What this rank owns, into the new file that rank 0 has begun, whose numbers begin at byte `data` (both known to
 * rank 0 alone); when it returns without a failure all ranks have written theirs (checkpoint_share.c). QKV_FILE;
 * QKV_RANK */
enum qkv_status qkv_checkpoint_write_shares(struct qkv_trainer *trainer, const char *temporary, size_t data);
/* All of it, as qkv_checkpoint_write_alone says. */
enum qkv_status qkv_checkpoint_write_all(struct qkv_trainer *trainer, const char *temporary, size_t data,
                                         const char *from);
/* The option keep (checkpoint_keep.c): before the checkpoint at `path` is replaced it is kept; after it earlier ones
 * that are too many are removed. QKV_FILE, QKV_MEMORY. */
enum qkv_status qkv_checkpoint_keep(struct qkv_trainer *trainer, const char *path);
enum qkv_status qkv_checkpoint_prune(struct qkv_trainer *trainer);
/* Whether the step's evaluation wants a checkpoint that no other rule does; and the second name of that. */
bool qkv_checkpoint_due(const struct qkv_trainer *trainer);
enum qkv_status qkv_checkpoint_keep_best(struct qkv_trainer *trainer, const char *path);
/* Keeps the latest checkpoint under its step where the run goes back to an earlier one, which will take its place. */
enum qkv_status qkv_checkpoint_keep_later(struct qkv_trainer *trainer);
/* Into a trainer that has model and optimizer: weights, moments, report, pending. */
enum qkv_status qkv_checkpoint_read(struct qkv_trainer *trainer);

#endif
