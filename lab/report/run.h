/* run.h: a training run as its folder records it; run.c reads it, run_page.c writes a page. */
#ifndef QKV_RUN_H
#define QKV_RUN_H

#include <jansson.h>

#include "lab/report/report_room.h"

struct qkv_run_sample {
    int64_t step;
    char *text;
    size_t size;
};
struct qkv_run {
    struct qkv_context *ctx;
    char *folder, *name;
    char *metric;  /* NULL: the loss */
    char *machine; /* in words; NULL: unknown */
    struct qkv_run_step *steps;
    size_t count, capacity, damaged;
    float *loads; /* (load_count, load_layers), for the steps from load_first on */
    size_t load_first, load_count, load_capacity, load_layers;
    struct qkv_run_sample *samples;
    size_t sample_count, sample_capacity;
    int64_t planned, patience;
    json_t *options, *spec; /* objects; NULL: none */
    json_t *machines;       /* an array of objects */
    size_t parameters;      /* 0: unknown */
    size_t encoder_layers;
    struct qkv_run_condition condition;
};
/* Calls qkv_short_names for the folders of some runs. */
enum qkv_status qkv_run_names(struct qkv_context *ctx, struct qkv_run *const *runs, size_t count, char ***names);

#endif
