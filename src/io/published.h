/* published: models that others have published: folders with config.json of a family and weights in one file, or in
 * several with an index; and GGUF files. */
#ifndef QKV_PUBLISHED_H
#define QKV_PUBLISHED_H

#include "family/family.h"

struct qkv_published;
/* Reads config.json and opens the weights' files; or opens GGUF files, whose path is the folder. *out is NULL where
 * config.json is not of a published model, or is not JSON: reading it as one of ours then says what is wrong. weights:
 * the files must exist; else config.json is enough. */
enum qkv_status qkv_published_open(struct qkv_context *ctx, const char *folder, bool weights,
                                   struct qkv_published **out, struct qkv_spec *spec);
void qkv_published_close(struct qkv_published *published);
/* Finds the tensor of each weight of a planned model, and fails if a tensor is left over. After it weights can be
 * read. */
enum qkv_status qkv_published_match(struct qkv_published *published, const struct qkv_model *model);
/* Checks that tied tables have the same numbers, that files are as long as they were, and their digests. */
enum qkv_status qkv_published_check(const struct qkv_published *published, const struct qkv_spec *spec,
                                    bool ignore_digest);
/* The bytes of a weight in the files. */
size_t qkv_published_bytes(const struct qkv_published *published, const struct qkv_weight *weight);
/* Takes memory for weights that keep their format but need another order of rows, before the model takes its own. */
enum qkv_status qkv_published_room(struct qkv_published *published);
/* The weights that a model can use from the mapped files. The caller owns the file until a model takes it. */
struct qkv_model_file qkv_published_file(struct qkv_published *published);
/* Reads the numbers of all other weights. */
enum qkv_status qkv_published_read(struct qkv_model *model, const struct qkv_published *published);
/* Copies what a model keeps of a published folder: its family. */
enum qkv_status qkv_published_origin(const struct qkv_published *published, struct qkv_model_origin *origin);
/* Reads the tokenizer of the folder or of the GGUF file, once. */
enum qkv_status qkv_published_tokenizer(struct qkv_published *published, struct qkv_tokenizer **out);
/* Sets the pooling that the keys of a GGUF file name; that of a folder stays. */
enum qkv_status qkv_published_pooling(const struct qkv_published *published, struct qkv_model_pooling *pooling);
/* Freezes weights that are not parameters in the model's family. */
enum qkv_status qkv_published_freeze(struct qkv_model *model);
/* The folder's settings of generation. */
enum qkv_status qkv_published_generation(const struct qkv_published *published, const struct qkv_spec *spec,
                                         struct qkv_model_generation *generation);
/* The names of the classes: a heap list of head.classes heap texts; NULL: the folder has none, or no memory. */
char **qkv_published_labels(const struct qkv_published *published, const struct qkv_spec *spec);

#endif
