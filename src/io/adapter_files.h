/* adapter_files: adapters as files, for the rooms to the right. */
#ifndef QKV_ADAPTER_FILES_H
#define QKV_ADAPTER_FILES_H

#include "family/family.h"
#include "io/io.h"
#include "model/model.h"

enum { QKV_ADAPTER_RANK_MOST = 1 << 14 };
/* Names of tensors in folders: before and after the name of the module. */
#define QKV_ADAPTER_PREFIX     "base_model.model."
#define QKV_ADAPTER_A          "lora_A.weight"
#define QKV_ADAPTER_B          "lora_B.weight"
#define QKV_ADAPTER_MAGNITUDES "lora_magnitude_vector"

/* Reads "rank=16,targets=q,v" (qkv_adapter_create). The caller frees settings->targets. Fails with QKV_ARGUMENT,
 * QKV_MEMORY. (adapter_settings.c) */
enum qkv_status qkv_adapter_parse(struct qkv_context *ctx, const char *text, struct qkv_adapter_settings *settings);
/* The factor of x·aᵀ·bᵀ, for a rank. */
double qkv_adapter_scale(const struct qkv_adapter_settings *settings, double alpha, size_t rank);

/* Where the adapter of a weight is in files. */
struct qkv_adapter_module {
    char name[QKV_FAMILY_NAME]; /* of the module, the family's or ours */
    bool published;             /* the family has the weight, in a matrix `view` */
    struct qkv_family_view view;
};
/* A name of a weight without ".weight" at its end. (adapter_targets.c) */
void qkv_adapter_module_name(const char *weight, char name[QKV_FAMILY_NAME]);
/* Whether a name with dots ends with these parts. */
bool qkv_adapter_name_ends(const char *name, const char *end);
/* The module of a weight of a model. (adapter_targets.c) */
void qkv_adapter_module(const struct qkv_model *model, const struct qkv_weight *weight,
                        struct qkv_adapter_module *module);
/* The same in files of another family, or of the GGUF files of a family; names NULL: in files of ours. */
void qkv_adapter_module_in(const struct qkv_family_config *names, const struct qkv_model *model,
                           const struct qkv_weight *weight, struct qkv_adapter_module *module);
/* The module of a weight, how many of `count` weights from it on are in the same one, and the rows of these. */
size_t qkv_adapter_module_weights(const struct qkv_model *model, const struct qkv_weight *first, size_t count,
                                  struct qkv_adapter_module *module, size_t *rows);
/* Whether a weight is a router that is no layer in the family but a parameter, which PEFT adapts as one: that of
 * experts that are one tensor, and those of some other families. */
bool qkv_adapter_is_parameter(const struct qkv_model *model, const struct qkv_weight *weight);
/* Whether two weights have one adapter in files: a module of the model's family has both, in one operand. */
bool qkv_adapter_joins(const struct qkv_model *model, const struct qkv_weight *first, const struct qkv_weight *other);
/* Gives the adapted weights that settings->targets names: a heap list, by rising weight. Fails with QKV_ARGUMENT,
 * QKV_SPEC, QKV_MEMORY. (adapter_targets.c) */
enum qkv_status qkv_adapter_choose(const struct qkv_model *model, const struct qkv_adapter_settings *settings,
                                   struct qkv_adapted **adapted, size_t *count);
/* Fails with QKV_SPEC if adapted weights are a part of a matrix of the model's family: files have one adapter for all
 * of it. */
enum qkv_status qkv_adapter_check_targets(const struct qkv_model *model, const struct qkv_adapted *adapted,
                                          size_t count);
/* Writes the adapter's files into a folder that exists, for the base that its settings name. (adapter_write.c) */
enum qkv_status qkv_adapter_write(struct qkv_model *model, const char *folder);
/* The same of a run, with the tokenizers and the other texts of its model. */
enum qkv_status qkv_adapter_write_run(struct qkv_model *model, const char *folder);
/* Fails with QKV_ARGUMENT if the model has no adapter with numbers that is its own. */
enum qkv_status qkv_adapter_need(struct qkv_model *model);
/* Fails with QKV_ARGUMENT if also something uses the model. */
enum qkv_status qkv_adapter_idle(struct qkv_model *model);
/* Notes where the model is from. Fails with QKV_MEMORY. */
enum qkv_status qkv_adapter_set_base(struct qkv_model *model, const char *base);
/* qkv_adapter_load, or, with a name, qkv_adapter_add; the model may be planned, and then gets no numbers.
 * (adapter_read.c) */
enum qkv_status qkv_adapter_read(struct qkv_model *model, const char *name, const char *path);
/* A new adapter, as qkv_adapter_create; the model may be planned. */
enum qkv_status qkv_adapter_begin(struct qkv_model *model, const char *settings, uint64_t seed);
/* A digest of a model's vectors, which stay the same where matrices are quantised: it tells models apart that have the
 * same shapes. (adapter_write.c) */
#define QKV_ADAPTER_BASE_KEY "qkv_base"
enum { QKV_ADAPTER_BASE_TEXT = 17 };
void qkv_adapter_base(const struct qkv_model *model, char text[QKV_ADAPTER_BASE_TEXT]);

#endif
