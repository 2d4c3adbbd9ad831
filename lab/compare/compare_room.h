/* compare: variants of a model side by side: what varies (axes.c), the variants and their folder (plan.c, variant_options.c,
 * idle.c, record.c), the texts (join_texts.c), training them (train_variant.c), measuring them (measure.c), and the results as
 * files (results.c, results_json.c, results_page.c).
 *
 * Offers its callers what lab/compare.h declares. It stands on the public interface alone, with what writes JSON and pages
 * from the report room. */
#ifndef QKV_COMPARE_ROOM_H
#define QKV_COMPARE_ROOM_H

#include "base/base.h"
#include "lab/compare.h"
#include "lab/report/report_room.h"

/* ---- axes (axes.c) ------------------------------------------------------------------------------------------------------ */

/* "kv=mha,gqa:2": an axis with its values, checked: what is unknown fails with a list of what there is. */
struct qkv_axis {
    char *name;
    struct qkv_texts values;
};
enum qkv_status qkv_axis_parse(struct qkv_context *ctx, const char *text, struct qkv_axis *axis);
void qkv_axis_free(struct qkv_axis *axis);
/* What a value changes of a model that is `base` otherwise: settings of its spec, or of training. */
enum qkv_status qkv_axis_apply(struct qkv_context *ctx, const struct qkv_axis *axis, const char *value,
                               const struct qkv_spec *base, struct qkv_texts *settings, struct qkv_texts *training);
/* How a value is called in the name of a variant: values that do not speak for themselves follow their axis. */
enum qkv_status qkv_axis_name(struct qkv_context *ctx, const struct qkv_axis *axis, const char *value,
                              struct qkv_buffer *name);

/* ---- a comparison (plan.c) ------------------------------------------------------------------------------------------------ */

struct qkv_variant_state {
    struct qkv_variant shown;    /* what the caller sees; it refers to what follows */
    char *name, *base, *failure; /* base: of the folders' names */
    bool lost;                   /* it has failed at work, which other ranks do not know yet */
    size_t model;                /* of the specs */
    size_t *values;              /* one for each axis */
    struct qkv_texts training;   /* options that the axes change */
    struct qkv_texts folders;    /* of the runs, one a seed */
    double *losses, *decode;
};
struct qkv_comparison {
    struct qkv_context *ctx;
    struct qkv_communicator ranks; /* the context's, which has none while each rank works alone */
    char *folder, *preset;         /* preset NULL: files of specs */
    char *data, *valid;            /* the files that are trained and validated on */
    struct qkv_texts training;     /* options that all share */
    struct qkv_axis *axes;
    size_t axis_count, seeds, cache_count, prompt;
    size_t *caches;
    struct qkv_variant_state *variants;
    size_t count;
    bool *used;             /* by some variant: each setting that all share, then each axis */
    int64_t seed;           /* the first one */
    struct qkv_texts notes; /* of the trainings, each sentence once */
    int lock;               /* the folder's, against another comparison; -1: none */
    bool begun;             /* there was a record of it, with its texts */
};
/* The options of training that all variants share (variant_options.c, as the two after it). */
enum qkv_status qkv_comparison_options(struct qkv_comparison *c, struct qkv_train_options *options);
/* The options of training that were chosen for a variant, with those that have no effect in it. */
enum qkv_status qkv_variant_choices(struct qkv_comparison *c, const struct qkv_variant_state *v,
                                    struct qkv_train_options *options);
/* The options of training of a variant, without those; its texts are the variant's and the comparison's. */
enum qkv_status qkv_variant_options(struct qkv_comparison *c, const struct qkv_variant_state *v, size_t seed,
                                    struct qkv_train_options *options);

/* Whether every setting, axis and option of training has an effect in some variant (idle.c). */
enum qkv_status qkv_comparison_check_idle(struct qkv_comparison *c, const struct qkv_compare_options *options);

/* ---- several ranks (share_runs.c) ------------------------------------------------------------------------------------------ */

/* Takes the communicator out of the context, or puts it back. */
void qkv_comparison_set_ranks(struct qkv_comparison *c);
void qkv_comparison_reset_ranks(struct qkv_comparison *c);
/* The context's sentence is a variant's failure. */
void qkv_variant_fail(struct qkv_comparison *c, struct qkv_variant_state *v);
/* Whether this rank makes a run. */
bool qkv_comparison_owns(const struct qkv_comparison *c, size_t variant, size_t seed);
/* What follows is called by all ranks. The failure of one is that of all. */
enum qkv_status qkv_comparison_agree(struct qkv_comparison *c, enum qkv_status status);
/* Whether all have the same kernels and the same precision where that is auto; a rank that has not is named. Fails with QKV_ARGUMENT, QKV_RANK. */
enum qkv_status qkv_comparison_alike(struct qkv_comparison *c);
enum qkv_status qkv_comparison_share_failures(struct qkv_comparison *c);
enum qkv_status qkv_comparison_share_losses(struct qkv_comparison *c);
enum qkv_status qkv_comparison_share_notes(struct qkv_comparison *c, const struct qkv_compare_listener *listener);
/* Tells a sentence, once, if this is rank 0. */
enum qkv_status qkv_comparison_note(struct qkv_comparison *c, const char *note,
                                    const struct qkv_compare_listener *listener);

/* ---- the texts (texts.c) -------------------------------------------------------------------------------------------------- */

/* Sets c->data and c->valid: the files that the options name, or ones made of them in the comparison's folder. */
enum qkv_status qkv_comparison_texts(struct qkv_comparison *c, const struct qkv_train_options *options);

/* ---- compare.json (record.c) ------------------------------------------------------------------------------------------------ */

/* Makes and locks the folder, and writes down what was asked for, or compares it with what is there, runs too. */
enum qkv_status qkv_comparison_record(struct qkv_comparison *c, const struct qkv_compare_options *options);
/* Writes down that the texts are there, or, where they could not be made (`failed`), that nothing has begun. */
enum qkv_status qkv_comparison_record_texts(struct qkv_comparison *c, const struct qkv_compare_options *options,
                                            bool failed);

/* ---- statistics (measure.c) --------------------------------------------------------------------------------------------------- */

double qkv_median(double *x, size_t count); /* sorts x; NaN of nothing */
double qkv_mean(const double *x, size_t count);
double qkv_deviation(const double *x, size_t count); /* of a sample: n − 1; NaN of less than two */
/* Which of the means is less than every other by more than the deviations of both; SIZE_MAX: none is, or a deviation is not known.
 * Means that are NaN do not count. */
size_t qkv_least_mean(const double *mean, const double *deviation, size_t count);

#endif
