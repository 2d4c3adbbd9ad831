/* inspect.h: an inspection: made by inspect.c, written by inspect_page.c. */
#ifndef QKV_INSPECT_H
#define QKV_INSPECT_H

#include "lab/report/report_room.h"

struct qkv_inspection {
    struct qkv_attention_view look; /* what was read; no pass */
    int32_t *targets;               /* of the decoder, or of the lone encoder */
    struct qkv_inspect_row *rows;
    size_t count, capacity, counted;
    struct qkv_inspect_experts *experts; /* of layers with experts */
    float *loads;                        /* their rows */
    size_t experts_count, experts_capacity, loads_count;
    const int32_t *prefix; /* while it runs: of the options */
    double loss, norm;
    char about[160];
};
struct qkv_statistics qkv_statistics_of(const float *x, size_t count);

#endif
