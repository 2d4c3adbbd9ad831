/* use: the memory that the uses of a model take besides training it and continuing a text. */
#ifndef QKV_TRAIN_USE_H
#define QKV_TRAIN_USE_H

#include "base/base.h"

/* The texts of a use. */
struct qkv_use_sizes {
    size_t count;   /* 0: any number */
    size_t longest; /* tokens of the longest one; more than the context: the context */
    size_t results; /* bytes of what is kept of all of them */
};
/* Reads how many texts there are, and bounds the tokens of the longest: `exact` encodes all of them, else they are
 * counted by their bytes. A file that cannot be read, or has a bad line, is QKV_FILE or QKV_FORMAT. (use_sizes.c) */
enum qkv_status qkv_use_sizes(struct qkv_model *plan, const char *folder, const struct qkv_use_options *options,
                              bool exact, struct qkv_use_sizes *sizes);
/* Measures a use, weights and results excluded; 0: the model does not have it. (use_costs.c) */
enum qkv_status qkv_use_measure(struct qkv_model *plan, const struct qkv_use_options *options,
                                const struct qkv_use_sizes *sizes, size_t *bytes);

#endif
