/* inspect.h: an inspection; inspect.c makes it, inspect_page.c writes it. */
#ifndef QKV_INSPECT_H
#define QKV_INSPECT_H

#include "lab/report/report_room.h"

struct qkv_inspection {
    struct qkv_attention_view look; /* what was read; its pass is not used */
    int32_t *targets;               /* of the decoder, or of the only encoder */
    struct qkv_inspect_row *rows;
    size_t count, capacity, counted;
    struct qkv_inspect_experts *experts; /* of layers with experts */
    float *loads;                        /* their rows */
    size_t experts_count, experts_capacity, loads_count;
    const int32_t *prefix; /* of the options, during the pass */
    double loss, norm;
    char about[160];
};
struct qkv_statistics qkv_statistics_of(const float *x, size_t count);

#endif
