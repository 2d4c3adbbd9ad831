/* adapter_reading.h: what the files that read an adapter share: the settings of a folder (adapter_config.c), those of a
 * GGUF file (adapter_gguf.c), and the tensors of both (adapter_read.c). */
#ifndef QKV_ADAPTER_READING_H
#define QKV_ADAPTER_READING_H

#include <jansson.h>

#include "io/adapter_files.h"
#include "io/gguf.h"

/* An adapter while it is read. */
struct qkv_adapter_reading {
    struct qkv_context *ctx;
    struct qkv_model *model;
    const char *name;      /* NULL: it is the model's one adapter */
    char *path, *weights;  /* of the settings, and of the tensors: the same of a GGUF file */
    json_t *root;          /* adapter_config.json; NULL: a GGUF file has no such file */
    struct qkv_gguf *keys; /* of a GGUF file; NULL: a folder has none */
    struct qkv_tensors *file;
    struct qkv_family_config made;         /* of a GGUF file: the family of its architecture */
    const struct qkv_family_config *names; /* the family that names the tensors; NULL: their names are ours */
    struct qkv_adapter_settings settings;
    double alpha;                    /* of a GGUF file; 0: all scales are 1 */
    struct qkv_adapted *adapted;     /* of the model's weights */
    const struct qkv_array **a, **b; /* of each */
    const struct qkv_array **m;      /* its magnitudes; NULL: it has none */
    size_t *experts;                 /* in the tensors of each; 0: they are of this weight alone */
    size_t count;
};

/* Reads the settings of a folder. Fails with QKV_FILE, QKV_FORMAT, QKV_SPEC, QKV_MEMORY. (adapter_config.c) */
enum qkv_status qkv_adapter_config_read(struct qkv_adapter_reading *r);
/* Whether a list of the settings ("target_modules") has a name, or its last parts. */
bool qkv_adapter_config_lists(const struct qkv_adapter_reading *r, const char *key, const char *name);
/* Whether the settings are of this version of PEFT or a newer one; those of 0.18 and newer say theirs. */
bool qkv_adapter_config_since(const struct qkv_adapter_reading *r, int major, int minor, int patch);
/* The rank and the scale of a module of a folder. Fails with QKV_FORMAT. */
enum qkv_status qkv_adapter_config_size(const struct qkv_adapter_reading *r, const char *module, size_t *rank,
                                        double *scale);

/* Opens a GGUF file, and reads its settings. Fails with QKV_FILE, QKV_FORMAT, QKV_SPEC, QKV_MEMORY. (adapter_gguf.c) */
enum qkv_status qkv_adapter_gguf_read(struct qkv_adapter_reading *r);
/* The rank and the scale of a tensor a of a GGUF file. Fails with QKV_FORMAT. */
enum qkv_status qkv_adapter_gguf_size(struct qkv_adapter_reading *r, const struct qkv_array *a, size_t *rank,
                                      double *scale);

#endif
