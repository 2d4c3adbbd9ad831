/* lab/compare.h: trains variants of a model on the same data and measures them. A part of lab.h.
 *
 *     const char *axes[] = {"kv=mha,gqa:2,mqa"}, *training[] = {"data=shakespeare.txt", "steps=1000"};
 *     struct qkv_compare_options o = {
 *         .preset = "nano-gpt", .axes = axes, .axis_count = 1, .training = training, .training_count = 2};
 *     struct qkv_comparison *c;
 *     if (qkv_comparison_create(ctx, &o, "compare", &c) || qkv_comparison_train(c, NULL) ||
 *         qkv_comparison_measure(c, NULL) || qkv_comparison_write(c)) puts(qkv_message(ctx));
 *
 * Variants are decoders that predict the next token of a text. All see the same text, cut at the same place for
 * validation, and the same tokens in the same order, and start from the same seed. Texts may be a mixture, as those of
 * training. */
#ifndef QKV_LAB_COMPARE_H
#define QKV_LAB_COMPARE_H

#include "qkv.h"

/* The files of a comparison, in the folder that also has the folders of its runs. */
#define QKV_COMPARISON_RECORD  "compare.json" /* the options of the comparison */
#define QKV_COMPARISON_DATA    "train.txt"    /* the texts, if they are made from the given files */
#define QKV_COMPARISON_VALID   "valid.txt"
#define QKV_COMPARISON_SHARDS  "shards" /* a folder: the tokens of a mixture, which the runs share */
#define QKV_COMPARISON_RESULTS "results.json"
#define QKV_COMPARISON_TABLE   "results.csv"
#define QKV_COMPARISON_PAGE    "index.html"
#define QKV_COMPARISON_FILES                                                                                           \
    QKV_COMPARISON_RECORD, QKV_COMPARISON_DATA, QKV_COMPARISON_VALID, QKV_COMPARISON_RESULTS, QKV_COMPARISON_TABLE,    \
        QKV_COMPARISON_PAGE

struct qkv_compare_options {
    const char *preset;          /* the model that is varied; or */
    const char *spec;            /* a file that describes it; both NULL: nano-gpt */
    const char *const *settings; /* changes of the model: "decoder.layers=2" */
    size_t setting_count;
    const char *const *specs; /* or the files of several models, which are the variants */
    size_t spec_count;
    /* what varies: "kv=mha,gqa:2,mqa"; several axes: each value with each value of the others */
    const char *const *axes;
    size_t axis_count;
    const char *const *training; /* options of training over those of the preset: "data=book.txt", "steps=1000" */
    size_t training_count;
    bool force;           /* replaces existing files if no comparison has begun in the folder */
    size_t seeds;         /* number of seeds of each variant, counted up from that of the options; 0: 1 */
    const size_t *caches; /* lengths of the cache at which decoding is measured, rising; NULL: 64, 256, 1024, 4096 */
    size_t cache_count;
};

/* Returns the name, the values and the help of the i-th axis; false past the last. Options of training for which
 * qkv_axis_trains is true, and keys of the spec with a dot ("decoder.layers"), are axes, too. */
bool qkv_axis_at(size_t i, const char **name, const char **values, const char **help);
bool qkv_axis_trains(const char *option);

struct qkv_variant {
    const char *name;    /* "gqa:2"; with several axes "gqa:2 post" */
    const char *folder;  /* of its run in the comparison's folder; with several seeds, of the first one */
    const char *failure; /* why it cannot be built, trained or measured; else NULL */
    struct qkv_spec spec;
    struct qkv_costs costs; /* parameters, cache_bytes_per_token; train_bytes for a micro-batch of the run */
    size_t memory;          /* bytes to train: costs.train_bytes, or checkpoint_bytes if activations are checkpointed */
    bool measured;          /* the numbers below are set */
    const double *losses; /* of each seed, over the whole validation part: from qkv_evaluate_text or qkv_evaluate_run */
    double loss, deviation; /* their mean, and the standard deviation over the seeds (NaN for one seed) */
    /* Tokens a second. train_speed: the median over the steps of training. prompt_speed: prompts of `prompt` tokens;
     * decode_speeds: decoding after that many tokens; both are medians over rounds with new models, in which the
     * variants alternate, with random weights and a context that is long enough. */
    double train_speed, prompt_speed;
    const double *decode_speeds; /* one for each length of the cache */
    /* The bounds of these measurements, without the slowest and the fastest one; trainings do not alternate, so they
     * have none. */
    double prompt_slowest, prompt_fastest;
    const double *decode_slowest, *decode_fastest;
};

struct qkv_comparison;
/* Checks that axes, settings and options are known, fit together and have an effect in some variant; with a preset,
 * also that some variant can be built. Reads no file. Fails with QKV_ARGUMENT or QKV_SPEC. */
enum qkv_status qkv_compare_check(struct qkv_context *ctx, const struct qkv_compare_options *options);
/* Makes the folder of a comparison, or continues the one that is there. Refuses a folder that was begun with other
 * options or holds something else. A variant that cannot be built has a `failure`.
 *
 * In a context of several ranks (qkv/ranks.h) all ranks call this and the functions below. Each run is trained and
 * evaluated by one rank alone; rank 0 measures speeds and writes the results. Until the comparison is freed, the
 * context stands for one rank. */
enum qkv_status qkv_comparison_create(struct qkv_context *ctx, const struct qkv_compare_options *options,
                                      const char *folder, struct qkv_comparison **out);
void qkv_comparison_free(struct qkv_comparison *comparison);
size_t qkv_comparison_count(const struct qkv_comparison *comparison);
/* Returns the i-th variant; NULL past the last. The comparison owns it. */
const struct qkv_variant *qkv_comparison_variant(const struct qkv_comparison *comparison, size_t i);
/* Returns the variant whose loss is lower than every other one by more than the deviations of both over the seeds.
 * NULL: no loss is, or there is one seed and the deviations are unknown. */
const struct qkv_variant *qkv_comparison_best(const struct qkv_comparison *comparison);
/* Returns the variant whose measurements are faster than those of every other one by more than the measurements of
 * either differ, for prompts (SIZE_MAX) or for decoding at the i-th length of the cache. NULL: no variant's are. */
const struct qkv_variant *qkv_comparison_fastest(const struct qkv_comparison *comparison, size_t cache);
/* The number of seeds, and the i-th one. */
size_t qkv_comparison_seeds(const struct qkv_comparison *comparison);
int64_t qkv_comparison_seed(const struct qkv_comparison *comparison, size_t i);
const size_t *qkv_comparison_caches(const struct qkv_comparison *comparison, size_t *count, size_t *prompt);
/* The file of the losses: the validation file, or valid.txt in the comparison's folder. NULL: the texts are a mixture,
 * and the losses are those of qkv_evaluate_run. */
const char *qkv_comparison_valid(const struct qkv_comparison *comparison);

struct qkv_compare_listener { /* each function may be NULL; one that returns false stops the work */
    bool (*step)(void *user, size_t variant, size_t seed, const struct qkv_train_report *report);
    qkv_progress *progress;                     /* of preparing the data, evaluating, measuring */
    void (*note)(void *user, const char *note); /* each note of the trainings (qkv_trainer_note), once */
    void *user;
};
/* Trains all variants with all seeds, as runs that qkv_trainer_resume and qkv_model_load can use; continues runs
 * that have begun. Returns QKV_STOPPED if the listener stopped it; the last step is saved then. A run that fails
 * becomes its variant's failure. */
enum qkv_status qkv_comparison_train(struct qkv_comparison *comparison, const struct qkv_compare_listener *listener);
/* Evaluates the models and measures speeds. */
enum qkv_status qkv_comparison_measure(struct qkv_comparison *comparison, const struct qkv_compare_listener *listener);
/* Writes results.json, results.csv and index.html into the folder. */
enum qkv_status qkv_comparison_write(struct qkv_comparison *comparison);

#endif
