/* search: what the files of beam search share: the rules that hold for all sources, and one source's hypotheses. */
#ifndef QKV_SEARCH_H
#define QKV_SEARCH_H

#include "base/base.h"
#include "kernel/kernel.h"

/* What targets begin and end with. */
struct qkv_search_ids {
    int32_t begin, first; /* the token that must come behind begin; -1: any */
    const int32_t *ends, *barred;
    size_t end_count, barred_count;
    int32_t end; /* where nothing but the tokenizer says how texts end */
};
struct qkv_search_rules {
    struct qkv_context *ctx;
    const struct qkv_search_options *options;
    size_t V, vocab; /* scores a row, and ids that can be chosen */
    struct qkv_search_ids ids;
};
/* Hypotheses of a source that grow side by side: beam of them, or n_best when sampling. */
size_t qkv_search_width(const struct qkv_search_rules *rules);
/* A search whose targets begin and end with given ids, over `vocab` ids that can be chosen. */
struct qkv_search_job {
    struct qkv_search_ids ids;
    size_t vocab;
    const int32_t *const *sources;
    const size_t *lengths;
    const size_t *numbers; /* what each source is called, from 0, in messages and seeds; NULL: its index */
    const char *what;      /* "source", "line" */
    size_t count;
    const struct qkv_search_options *options;
    qkv_take_hypotheses *take; /* gets the index of a source, not its number */
    void *user;
};
enum qkv_status qkv_search_run(struct qkv_model *model, const struct qkv_search_job *job);
/* Fills ids and vocab of a job from what the model's folder says of generating, else from its tokenizer. What ids point to is the
 * model's, or the job's. */
enum qkv_status qkv_search_find_ids(struct qkv_model *model, struct qkv_search_job *job);
/* Whether the model has an encoder and a decoder that writes; `doing` begins the sentence. */
enum qkv_status qkv_search_check_model(struct qkv_model *model, const char *doing);

/* ---- beam.c ------------------------------------------------------------------------------------------------------- */

struct qkv_candidate {
    double log_probability;
    int32_t row, id;
};

/* One source's search. A step reads the scores of its `live` rows; then rows parents[0], … go on with the tokens next[0], …
 * as the new live ones. */
struct qkv_beam {
    const struct qkv_search_rules *rules;
    size_t source, number;      /* its index, and its number for seeds */
    size_t most;                /* longest target */
    size_t live, length;        /* hypotheses that grow, and their tokens so far */
    int32_t *ids, *next_ids;    /* (width,most) each */
    double *sums;               /* (width): their log-probabilities */
    size_t *lanes;              /* (width): sampling: which hypothesis each is */
    size_t *parents;            /* (width) */
    int32_t *next;              /* (width) */
    struct qkv_candidate *heap; /* (2·width), the worst in front */
    size_t heaped;
    int32_t *banned; /* (most): what would repeat n tokens of the row in work */
    size_t banned_count;
    struct qkv_hypothesis *finished; /* (n_best), best first; their ids in kept_ids */
    size_t finished_count;
    int32_t *kept_ids; /* (n_best,most) */
    bool broken;       /* scores that are no numbers came */
    void *memory;
};
enum qkv_status qkv_beam_create(const struct qkv_search_rules *rules, size_t source, size_t number, size_t most,
                                struct qkv_beam *beam);
void qkv_beam_free(struct qkv_beam *beam);
/* One step with the scores (live,V), at the first step (1,V). Searching takes no memory and calls nothing that fails, so several
 * may step side by side; sampling does not, and says what went wrong. live is 0 when the source is done. */
void qkv_beam_step(struct qkv_beam *beam, const float *scores);
enum qkv_status qkv_beam_draw(struct qkv_beam *beam, const float *scores);

#endif
