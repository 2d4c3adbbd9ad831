/* search: shared by the files of beam search: the rules of all sources, and the hypotheses of one source. */
#ifndef QKV_SEARCH_H
#define QKV_SEARCH_H

#include "base/base.h"
#include "kernel/kernel.h"
#include "op/steps.h"

/* The tokens that begin and end targets, and those that are in none. */
struct qkv_search_ids {
    int32_t begin;
    struct qkv_token_list ends, barred;
    int32_t end; /* the end by the tokenizer alone, if the folder names none */
};
struct qkv_search_rules {
    struct qkv_context *ctx;
    const struct qkv_search_options *options;
    size_t V, vocab; /* scores of a row; ids that can be chosen */
    size_t most;     /* continuations of a source in a step */
    struct qkv_search_ids ids;
    struct qkv_score_rules score; /* penalty 1 in sampling, which has its own */
};
/* Hypotheses of a source that run together: `beam`, or n_best in sampling. */
size_t qkv_search_width(const struct qkv_search_rules *rules);
/* A search whose targets begin and end with given ids, over `vocab` ids that can be chosen. */
struct qkv_search_job {
    struct qkv_search_ids ids;
    size_t vocab;
    const int32_t *const *sources;
    const size_t *lengths;
    const size_t *numbers; /* the number of each source in messages and seeds, from 0; NULL: its index */
    const char *what;      /* "source", "line" */
    size_t count;
    const struct qkv_search_options *options;
    qkv_take_hypotheses *take; /* gets the index of a source, not its number */
    void *user;
};
enum qkv_status qkv_search_run(struct qkv_model *model, const struct qkv_search_job *job);

/* ---- search_rules.c ---------------------------------------------------------------------------------------------- */
/* Checks options of a search in a context of so many positions. */
enum qkv_status qkv_search_check(struct qkv_context *ctx, size_t context, const struct qkv_search_options *options);
/* Sets the rules of all texts, and `most`, by the options and ids of `rules`. */
enum qkv_status qkv_search_rule(struct qkv_model *model, struct qkv_search_rules *rules);
/* Fills ids and vocab of a job from the generation settings of the model's folder, else from its tokenizer. The ids
 * point into the model, or into the job. */
enum qkv_status qkv_search_find_ids(struct qkv_model *model, struct qkv_search_job *job);
/* Checks that the model has an encoder and a decoder that writes; `doing` begins the message. */
enum qkv_status qkv_search_check_model(struct qkv_model *model, const char *doing);

/* ---- beam.c ----------------------------------------------------------------------------------------------------- */

/* The search of one source. A step reads the scores of its `live` rows; then rows parents[0], … continue with the
 * tokens next[0], … as the new live rows. */
struct qkv_beam {
    const struct qkv_search_rules *rules;
    size_t number;                   /* for seeds */
    size_t max_length;               /* the maximum number of tokens of the target, its end included */
    size_t live, length;             /* running hypotheses, and their tokens so far */
    size_t begun;                    /* tokens that each of them begins with */
    int32_t *ids, *next_ids;         /* (width,begun+max_length) each: these, then the tokens */
    double *sums;                    /* (width): their log-probabilities */
    size_t *lanes;                   /* (width): in sampling, the hypothesis of each row */
    size_t *parents;                 /* (width) */
    int32_t *next;                   /* (width) */
    struct qkv_candidate *heap;      /* (most): the likeliest continuations, the best first */
    struct qkv_score_text text;      /* what all its hypotheses have in common */
    int32_t *once;                   /* (source): its ids, each once */
    struct qkv_hypothesis *finished; /* (width), best first; their ids are in finished_ids */
    size_t finished_count;
    int32_t *finished_ids; /* (width,begun+max_length) */
    bool broken;           /* a score was not finite */
    void *memory;
};
struct qkv_beam_start {
    size_t number;
    struct qkv_token_list prompt; /* what hypotheses begin with: the begin of targets, or the prompt of a decoder */
    struct qkv_token_list ids;    /* those of the source; they stay until the beam is freed */
    size_t max_length;
};
enum qkv_status qkv_beam_create(const struct qkv_search_rules *rules, const struct qkv_beam_start *start,
                                struct qkv_beam *beam);
/* The ids of a live hypothesis, with those that it begins with; there are begun + length. */
const int32_t *qkv_beam_ids(const struct qkv_beam *beam, size_t row);
void qkv_beam_free(struct qkv_beam *beam);
/* What the step `candidates` reads of a source, with the scores (live,V); at the first step (1,V). */
struct qkv_continuation qkv_beam_continuation(const struct qkv_beam *beam, const float *scores);
/* Runs one step with what it has found. Sampling (qkv_beam_draw) may fail and sets the message. live is 0 when the
 * source is done. */
void qkv_beam_step(struct qkv_beam *beam, const struct qkv_continuation *found);
enum qkv_status qkv_beam_draw(struct qkv_beam *beam, const float *scores);

#endif
