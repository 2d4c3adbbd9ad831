/* published: folders of models that others have published: config.json of a family, weights in one file or in several with an index. */
#ifndef QKV_PUBLISHED_H
#define QKV_PUBLISHED_H

#include "family/family.h"

struct qkv_published;
/* Reads config.json and opens the files with the weights. *out is NULL where it is no config.json of others; so it is where it cannot be
 * read as JSON, which who reads it as ours says. `weights`: they must be there; else config.json is enough. */
enum qkv_status qkv_published_open(struct qkv_context *ctx, const char *folder, bool weights,
                                   struct qkv_published **out, struct qkv_spec *spec);
void qkv_published_close(struct qkv_published *published);
/* Finds what each weight of the spec is, and that nothing is left over; then weights can be taken from it. */
enum qkv_status qkv_published_match(struct qkv_published *published, const struct qkv_spec *spec);
/* Memory for what cannot stay where it is and keeps its format all the same, before a model is made of it. */
enum qkv_status qkv_published_room(struct qkv_published *published);
/* For a model: what can stay where it is. The file is the caller's until a model has it. */
struct qkv_model_file qkv_published_file(struct qkv_published *published);
/* The numbers of all weights that do not stay. */
enum qkv_status qkv_published_read(struct qkv_model *model, const void *published);
/* What a model keeps of it: its family. */
enum qkv_status qkv_published_origin(const struct qkv_published *published, struct qkv_model_origin *origin);
/* Weights of a model that are no parameters in its family do not learn. */
enum qkv_status qkv_published_freeze(struct qkv_model *model);
/* What the folder says of generating. */
enum qkv_status qkv_published_generation(const struct qkv_published *published, const struct qkv_spec *spec,
                                         struct qkv_model_generation *generation);
/* The names of the classes, head.classes of them, a heap list of heap texts; NULL: there are none, or no memory. */
char **qkv_published_labels(const struct qkv_published *published, const struct qkv_spec *spec);

#endif
