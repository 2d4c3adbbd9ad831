/* labels: labels.txt of a folder. */
#ifndef QKV_LABELS_H
#define QKV_LABELS_H

#include "model/model.h"

/* Gives the model the labels of the file, where it is there; as many as its classes. */
enum qkv_status qkv_labels_read(struct qkv_model *model, const char *path);
enum qkv_status qkv_labels_write(struct qkv_model *model, const char *path);

#endif
