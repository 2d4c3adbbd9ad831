/* adapter_stacked.h: adapters of experts that are one tensor in files (adapter_stacked.c), for adapter_read.c. */
#ifndef QKV_ADAPTER_STACKED_H
#define QKV_ADAPTER_STACKED_H

#include "io/adapter_reading.h"

struct qkv_adapter_stacked {
    const struct qkv_array *a, *b; /* (rank·experts, in), (out, rank·experts) */
    size_t experts;
    char name[QKV_FAMILY_NAME + 64]; /* of the tensor of all experts, for the settings of its rank */
};

/* The name of a module in the family's present code, where it has another one. */
bool qkv_adapter_newer_name(const char *name, char out[QKV_FAMILY_NAME]);
/* Finds the adapter of the tensor that has the matrix of an expert. module: of the weight. */
bool qkv_adapter_stacked_find(const struct qkv_adapter_reading *reading, const struct qkv_weight *weight,
                              const struct qkv_adapter_module *module, struct qkv_adapter_stacked *found);
/* Fails with QKV_SHAPE if its tensors do not have this rank. */
enum qkv_status qkv_adapter_stacked_check(const struct qkv_adapter_reading *reading,
                                          const struct qkv_adapter_stacked *found, size_t rank);
/* Reads the numbers of adapted weight i, and of all weights in the same tensor. Fails with QKV_FILE, QKV_NUMBER,
 * QKV_MEMORY. */
enum qkv_status qkv_adapter_stacked_numbers(const struct qkv_adapter_reading *reading, size_t i);

#endif
