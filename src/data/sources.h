/* sources: the names of option data that are a mixture: files, folders and patterns (glob) of texts, plain or packed,
 * or of JSON lines, each with a weight behind a colon or all without one. */
#ifndef QKV_DATA_SOURCES_H
#define QKV_DATA_SOURCES_H

#include "data/corpus.h"

/* Whether names of option data are a mixture: one of them has a weight, is a pattern, or ends as packed files or JSON
 * lines do. */
bool qkv_sources_mix(const char *const *names);
/* The first name with a weight; NULL: none has one. */
const char *qkv_sources_weight(const char *const *names);
/* Weights are given to all names or to none, and are positive numbers. QKV_ARGUMENT. */
enum qkv_status qkv_sources_check(struct qkv_context *ctx, const char *const *names);
/* Sets the weights of the sources, as parts of 1; returns how many sources there are: one, with weight 1, of names
 * without weights. */
size_t qkv_sources_weights(const char *const *names, double weights[QKV_FILES_MAX]);
/* Adds the files of all sources in order: those of a folder and of a pattern sorted by the bytes of their names. Fails
 * with QKV_FILE, QKV_ARGUMENT, QKV_MEMORY. */
enum qkv_status qkv_sources_list(struct qkv_context *ctx, const char *const *names, struct qkv_text_files *files,
                                 struct qkv_texts *notes);
/* The same of a name to evaluate, whose files are read once; QKV_ARGUMENT if it has a weight. */
enum qkv_status qkv_sources_list_once(struct qkv_context *ctx, const char *name, struct qkv_text_files *files);
/* Makes a name absolute: a run may be resumed from elsewhere. *name is a heap string, and is replaced. */
enum qkv_status qkv_source_absolute(struct qkv_context *ctx, const char **name);

#endif
