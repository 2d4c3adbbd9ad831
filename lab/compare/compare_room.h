/* compare: variants of a model: what varies (axes.c), the variants and their folder (plan.c, variant_options.c,
 * idle.c, record.c), the texts (join_texts.c), training (train_variant.c), measuring (measure.c), sharing the work
 * among ranks (share_runs.c), and the files of the results (results.c, results_json.c, results_page.c).
 *
 * lab/compare.h declares what callers use. The room uses the public interface, and the writers of JSON and pages of
 * the report room. */
#ifndef QKV_COMPARE_ROOM_H
#define QKV_COMPARE_ROOM_H

#include "base/base.h"
#include "lab/compare.h"
#include "lab/report/report_room.h"

/* ---- axes (axes.c) ----------------------------------------------------------------------------------------------- */

/* "kv=mha,gqa:2": an axis with its values. A check refuses unknown ones and lists the known ones. */
struct qkv_axis {
    char *name;
    struct qkv_texts values;
};
enum qkv_status qkv_axis_parse(struct qkv_context *ctx, const char *text, struct qkv_axis *axis);
void qkv_axis_free(struct qkv_axis *axis);
/* Adds what a value changes in the model `base`: settings of its spec, or of training. */
enum qkv_status qkv_axis_apply(struct qkv_context *ctx, const struct qkv_axis *axis, const char *value,
                               const struct qkv_spec *base, struct qkv_texts *settings, struct qkv_texts *training);
/* Appends the name of a value to the name of a variant; a value that does not speak for itself follows its axis. */
enum qkv_status qkv_axis_name(struct qkv_context *ctx, const struct qkv_axis *axis, const char *value,
                              struct qkv_buffer *name);

/* ---- a comparison (plan.c) --------------------------------------------------------------------------------------- */

struct qkv_variant_state {
    struct qkv_variant shown;    /* what the caller sees; points to the fields below */
    char *name, *base, *failure; /* base: of the folders' names */
    char *failed_key;            /* the key of the spec that failure is about; NULL: none */
    bool lost;                   /* it failed on this rank, and the other ranks do not know yet */
    size_t model;                /* index of the spec */
    size_t *values;              /* one for each axis */
    struct qkv_texts training;   /* options that the axes change */
    struct qkv_texts folders;    /* of the runs, one for each seed */
    double *losses, *decode;
};
struct qkv_compared_file {
    uint64_t bytes, time, hash; /* of change, in nanoseconds since 1970; of the bytes */
};
struct qkv_comparison {
    struct qkv_context *ctx;
    struct qkv_communicator ranks; /* of the context, which has none while each rank works alone */
    char *folder, *preset;         /* preset NULL: files of specs */
    char *data, *valid; /* the files of training and validation; NULL of a mixture, whose names stay as they are */
    char *shards;       /* of a mixture: the folder that all runs share; NULL: the options name one, or there is none */
    bool mixes;         /* the texts are a mixture */
    bool joined[2];     /* data, valid: the file is one of the comparison's own folder */
    struct qkv_compared_file *files; /* that variants read from elsewhere (read_files.c) */
    size_t file_count, file_room;
    struct qkv_texts training; /* options that all share */
    struct qkv_axis *axes;
    size_t axis_count, seeds, cache_count, prompt;
    size_t *caches;
    struct qkv_variant_state *variants;
    size_t count;
    bool *used;             /* by some variant: first the shared settings, then the axes */
    int64_t seed;           /* the first one */
    struct qkv_texts notes; /* of the trainings, each once */
    int lock;               /* of the folder, against another comparison; -1: none */
    bool begun;             /* the folder has a record of the comparison, with its texts */
};
/* The options of training that all variants share (variant_options.c, as the next two functions). */
enum qkv_status qkv_comparison_options(struct qkv_comparison *c, struct qkv_train_options *options);
/* The options of training that are chosen for a variant, with those that have no effect in it. */
enum qkv_status qkv_variant_choices(struct qkv_comparison *c, const struct qkv_variant_state *v,
                                    struct qkv_train_options *options);
/* The options of training of a variant, without those; their texts belong to the variant and the comparison. */
enum qkv_status qkv_variant_options(struct qkv_comparison *c, const struct qkv_variant_state *v, size_t seed,
                                    struct qkv_train_options *options);

/* Checks that every setting, axis and option of training has an effect in some variant (idle.c). */
enum qkv_status qkv_comparison_check_idle(struct qkv_comparison *c, const struct qkv_compare_options *options);

/* ---- several ranks (share_runs.c) -------------------------------------------------------------------------------- */

/* Take the communicator out of the context, and put it back. */
void qkv_comparison_set_ranks(struct qkv_comparison *c);
void qkv_comparison_reset_ranks(struct qkv_comparison *c);
/* Makes the context's message the variant's failure. */
void qkv_variant_fail(struct qkv_comparison *c, struct qkv_variant_state *v);
/* Whether this rank makes a run. */
bool qkv_comparison_owns(const struct qkv_comparison *c, size_t variant, size_t seed);
/* All ranks call the functions below. A failure on one rank is the failure of all. */
enum qkv_status qkv_comparison_agree(struct qkv_comparison *c, enum qkv_status status);
/* Checks that all ranks have the same kernels, and the same precision if that is auto; names a rank that differs.
 * Fails with QKV_ARGUMENT, QKV_RANK. */
enum qkv_status qkv_comparison_alike(struct qkv_comparison *c);
enum qkv_status qkv_comparison_share_failures(struct qkv_comparison *c);
enum qkv_status qkv_comparison_share_losses(struct qkv_comparison *c);
enum qkv_status qkv_comparison_share_notes(struct qkv_comparison *c, const struct qkv_compare_listener *listener);
/* Tells a note, once, on rank 0. */
enum qkv_status qkv_comparison_note(struct qkv_comparison *c, const char *note,
                                    const struct qkv_compare_listener *listener);

/* ---- the texts (join_texts.c) ------------------------------------------------------------------------------------ */

/* Sets c->data and c->valid: the files of the options, or files made from them in the comparison's folder; of a mixture
 * c->shards. */
enum qkv_status qkv_comparison_texts(struct qkv_comparison *c, const struct qkv_train_options *options);

/* ---- files that are read (read_files.c) -------------------------------------------------------------------------- */

/* Sets c->files as they are, after qkv_comparison_texts. Reads them whole. */
enum qkv_status qkv_comparison_note_files(struct qkv_comparison *c);
/* Compares c->files with the files as they are now; a run is about to begin. Fails with QKV_ARGUMENT. */
enum qkv_status qkv_comparison_check_files(struct qkv_comparison *c);
/* c->files as the text of the record, and back; `name`: of the record. Fails with QKV_MEMORY, QKV_FORMAT. */
enum qkv_status qkv_comparison_print_files(const struct qkv_comparison *c, struct qkv_buffer *text);
enum qkv_status qkv_comparison_read_files(struct qkv_comparison *c, const char *text, const char *name);

/* ---- compare.json (record.c) ------------------------------------------------------------------------------------- */

/* Makes and locks the folder, and writes the options, or compares them with the record and the runs that are there. */
enum qkv_status qkv_comparison_record(struct qkv_comparison *c, const struct qkv_compare_options *options);
/* Records that the texts are there, or, if they could not be made (`failed`), that nothing has begun. */
enum qkv_status qkv_comparison_record_texts(struct qkv_comparison *c, const struct qkv_compare_options *options,
                                            bool failed);

/* ---- statistics (measure.c) -------------------------------------------------------------------------------------- */

double qkv_median(double *x, size_t count); /* sorts x; NaN if there are none */
double qkv_mean(const double *x, size_t count);
double qkv_deviation(const double *x, size_t count); /* of a sample: n − 1; NaN for fewer than two */
/* Returns the index of the mean that is lower than every other one by more than the deviations of both; SIZE_MAX:
 * none is, or a deviation is unknown. Means that are NaN do not count. */
size_t qkv_lowest_mean(const double *mean, const double *deviation, size_t count);

#endif
