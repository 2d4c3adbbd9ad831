/* adapter_stacked.h: adapters of experts that are one tensor in files (adapter_stacked.c), for adapter_read.c. */
#ifndef QKV_ADAPTER_STACKED_H
#define QKV_ADAPTER_STACKED_H

#include "io/adapter_reading.h"

/* The module that has the tensor with the matrix of an expert, and the name of that tensor in it. False: the family has
 * no such tensor. module: of the weight. */
bool qkv_adapter_stacked_module(const struct qkv_weight *weight, const struct qkv_adapter_module *module,
                                char name[QKV_FAMILY_NAME], const char **parameter);
/* Whether the adapter of a tensor is inside that of the other tensor of the module, which the model adapts too. */
bool qkv_adapter_stacked_inside(const struct qkv_model *model, const struct qkv_weight *weight);
/* Joins the a of a part of expert 0 with those of the other experts, and the b: heap lists of numbers, which the caller
 * frees, also after QKV_MEMORY. */
enum qkv_status qkv_adapter_stacked_join(const struct qkv_model *model, size_t part, float **a, float **b);
struct qkv_adapter_stacked {
    const struct qkv_array *a, *b; /* (rank·experts, in), (out, rank·experts) */
    size_t experts;
    char name[QKV_FAMILY_NAME + 64]; /* of the tensor of all experts, for the settings of its rank */
};

/* The name of a module in the family's present code, where it has another one. */
bool qkv_adapter_newer_name(const char *name, char out[QKV_FAMILY_NAME]);
/* Finds the adapter of the tensor that has the matrix of an expert; found->a NULL: the file has none. module: of the
 * weight. Fails with QKV_FORMAT if the file has only one of a and b. */
enum qkv_status qkv_adapter_stacked_find(const struct qkv_adapter_reading *reading, const struct qkv_weight *weight,
                                         const struct qkv_adapter_module *module, struct qkv_adapter_stacked *found);
/* Fails with QKV_SHAPE if its tensors do not have this rank. */
enum qkv_status qkv_adapter_stacked_check(const struct qkv_adapter_reading *reading,
                                          const struct qkv_adapter_stacked *found, size_t rank);
/* Reads the numbers of adapted weight i, and of all weights in the same tensor. Fails with QKV_FILE, QKV_NUMBER,
 * QKV_MEMORY. */
enum qkv_status qkv_adapter_stacked_numbers(const struct qkv_adapter_reading *reading, size_t i);

#endif
