/* What the files of evaluating pairs share. */
#ifndef QKV_TRAIN_EVALUATE_PAIRS_H
#define QKV_TRAIN_EVALUATE_PAIRS_H

#include "text/text.h"
#include "data/tsv.h"

struct qkv_pair {
    size_t source, target; /* in text.data */
    size_t line, group;    /* where it stands; which distinct source it has */
};
struct qkv_pair_file { /* a file of pairs in memory; start it with model and path set */
    struct qkv_model *model;
    const char *path;
    struct qkv_buffer text; /* zero-terminated */
    struct qkv_pair *list;
    size_t count, capacity;
    struct qkv_strings sources; /* in order of appearance: the groups */
};
/* Teacher-forced loss over all pairs, in nats a token; fails at a pair longer than the context, with its line. */
enum qkv_status qkv_pairs_loss(const struct qkv_pair_file *pairs, qkv_progress *progress, void *user, double *loss);
/* Measures, by a dry run, the bytes of its largest batch: of `count` pairs (0: any number), sources and targets of up
 * to `longest` tokens. The model may be planned. */
enum qkv_status qkv_pairs_loss_measure(struct qkv_model *model, size_t count, size_t longest, size_t *bytes);

#endif
