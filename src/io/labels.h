/* labels: labels.txt of a folder. */
#ifndef QKV_LABELS_H
#define QKV_LABELS_H

#include "model/model.h"

/* Sets the model's labels to those of the file, if it exists. The file must have one line per class. */
enum qkv_status qkv_labels_read(struct qkv_model *model, const char *path);
enum qkv_status qkv_labels_write(struct qkv_model *model, const char *path);

#endif
