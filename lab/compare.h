/* lab/compare.h: variants of a model, trained on the same data and measured. A part of lab.h.
 *
 *     const char *axes[] = {"kv=mha,gqa:2,mqa"}, *training[] = {"data=shakespeare.txt", "steps=1000"};
 *     struct qkv_compare_options o = {.preset = "nano-gpt", .axes = axes, .axis_count = 1, .training = training, .training_count = 2};
 *     struct qkv_comparison *c;
 *     if (qkv_comparison_create(ctx, &o, "compare", &c) || qkv_comparison_train(c, NULL) || qkv_comparison_measure(c, NULL) ||
 *         qkv_comparison_write(c)) puts(qkv_message(ctx));
 *
 * What is compared are decoders that predict the next token of a text. All variants see the same text, cut in the same two parts,
 * the same tokens in the same order, and start from the same seed. */
#ifndef QKV_LAB_COMPARE_H
#define QKV_LAB_COMPARE_H

#include "qkv.h"

/* What a comparison writes beside the folders of its runs. */
#define QKV_COMPARISON_RECORD  "compare.json" /* what it was asked for */
#define QKV_COMPARISON_DATA    "train.txt"    /* the texts, where they are made of the files that were named */
#define QKV_COMPARISON_VALID   "valid.txt"
#define QKV_COMPARISON_RESULTS "results.json"
#define QKV_COMPARISON_TABLE   "results.csv"
#define QKV_COMPARISON_PAGE    "index.html"
#define QKV_COMPARISON_FILES                                                                                           \
    QKV_COMPARISON_RECORD, QKV_COMPARISON_DATA, QKV_COMPARISON_VALID, QKV_COMPARISON_RESULTS, QKV_COMPARISON_TABLE,    \
        QKV_COMPARISON_PAGE

struct qkv_compare_options {
    const char *preset;          /* the model that is varied; or */
    const char *spec;            /* a file that describes it; both NULL: nano-gpt */
    const char *const *settings; /* changes of it: "decoder.layers=2" */
    size_t setting_count;
    const char *const *specs; /* or files of some models that are compared themselves */
    size_t spec_count;
    const char *const
        *axes; /* what varies: "kv=mha,gqa:2,mqa"; with several, every value of each with every one of the others */
    size_t axis_count;
    const char *const *training; /* options of training over those of the preset: "data=book.txt", "steps=1000" */
    size_t training_count;
    bool force;           /* replace files of the names that a comparison writes where none has begun */
    size_t seeds;         /* every variant is trained with so many seeds, beginning with that of the options; 0: 1 */
    const size_t *caches; /* lengths of the cache at which decoding is measured, rising; NULL: 64, 256, 1024, 4096 */
    size_t cache_count;
};

/* The i-th axis: name, values and what it is; false past the last. Axes are, besides, the options of training for which
 * qkv_axis_trains is true, and keys of the spec with a dot ("decoder.layers"). */
bool qkv_axis_at(size_t i, const char **name, const char **values, const char **help);
bool qkv_axis_trains(const char *option);

struct qkv_variant {
    const char *name;    /* "gqa:2"; with several axes "gqa:2 post" */
    const char *folder;  /* of its run below the comparison's, with several seeds of the first one */
    const char *failure; /* why it cannot be built, trained or measured; NULL */
    struct qkv_spec spec;
    struct qkv_costs costs; /* parameters, cache_bytes_per_token; train_bytes for a micro-batch of the run */
    size_t memory; /* bytes to train: costs.train_bytes, or checkpoint_bytes where activations are checkpointed */
    bool measured; /* the numbers below are there */
    const double *losses;   /* over the whole validation part, of each seed: what qkv_evaluate_text gives */
    double loss, deviation; /* their mean, and the standard deviation of the seeds (NaN of one) */
    /* Tokens a second: median of the steps of training; of prompts of `prompt` tokens and of decoding behind so many tokens the
     * median of measurements in which the variants take turns, with random weights and a context that is long enough. */
    double train_speed, prompt_speed;
    const double *decode_speeds; /* one for each of the caches */
    /* The slowest and the fastest of these measurements. Trainings have none: they do not take turns */
    double prompt_slowest, prompt_fastest;
    const double *decode_slowest, *decode_fastest;
};

struct qkv_comparison;
/* Whether axes, settings and options are known, go together and have an effect in some variant; with a preset also whether a
 * variant can be built. Reads no file. QKV_ARGUMENT or QKV_SPEC. */
enum qkv_status qkv_compare_check(struct qkv_context *ctx, const struct qkv_compare_options *options);
/* In a context of several ranks (qkv/ranks.h) what follows is called by all of them: they share the runs out, each of which is
 * trained and evaluated by one rank alone; rank 0 measures speeds and writes the results. Until the comparison is freed the context
 * stands for one rank.
 *
 * Makes the folder of a comparison, or goes on with what is there. A folder that was begun with other options, or holds something
 * else, is refused. Variants that cannot be built have a `failure`. */
enum qkv_status qkv_comparison_create(struct qkv_context *ctx, const struct qkv_compare_options *options,
                                      const char *folder, struct qkv_comparison **out);
void qkv_comparison_free(struct qkv_comparison *comparison);
size_t qkv_comparison_count(const struct qkv_comparison *comparison);
/* The i-th; NULL past the last. Owned by the comparison. */
const struct qkv_variant *qkv_comparison_variant(const struct qkv_comparison *comparison, size_t i);
/* The one whose loss is less than all others' by more than the deviations of both over the seeds; NULL: differences are within the
 * noise, or nobody knows it, of one seed. */
const struct qkv_variant *qkv_comparison_best(const struct qkv_comparison *comparison);
/* The one whose slowest measurement is faster than the fastest of all others, of prompts (SIZE_MAX) or of decoding behind the i-th cache;
 * NULL: differences are within what one variant's measurements differ by. */
const struct qkv_variant *qkv_comparison_fastest(const struct qkv_comparison *comparison, size_t cache);
size_t qkv_comparison_seeds(const struct qkv_comparison *comparison);
const size_t *qkv_comparison_caches(const struct qkv_comparison *comparison, size_t *count, size_t *prompt);
/* The file that the losses are of: the validation file, or valid.txt in the comparison's folder. */
const char *qkv_comparison_valid(const struct qkv_comparison *comparison);

struct qkv_compare_listener { /* any of the functions may be NULL; returning false stops the work */
    bool (*step)(void *user, size_t variant, size_t seed, const struct qkv_train_report *report);
    qkv_progress *progress; /* of preparing the data, evaluating, measuring */
    void (*note)(void *user,
                 const char *note); /* what the trainings have to say (qkv_trainer_note), each sentence once */
    void *user;
};
/* Trains all variants with all seeds, in runs that qkv_trainer_resume and qkv_model_load can use; goes on where runs are begun.
 * QKV_STOPPED after the listener has stopped it: the latest step is saved then. A run that fails is its variant's failure. */
enum qkv_status qkv_comparison_train(struct qkv_comparison *comparison, const struct qkv_compare_listener *listener);
/* Evaluates the models and measures speeds. */
enum qkv_status qkv_comparison_measure(struct qkv_comparison *comparison, const struct qkv_compare_listener *listener);
/* Writes results.json, results.csv and index.html into the folder. */
enum qkv_status qkv_comparison_write(struct qkv_comparison *comparison);

#endif
