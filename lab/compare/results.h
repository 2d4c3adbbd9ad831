/* results.h: what results.c and results_page.c have of each other. */
#ifndef QKV_COMPARE_RESULTS_H
#define QKV_COMPARE_RESULTS_H

#include "lab/compare/compare_room.h"

/* The results as an object; for the page with the curves of the runs. */
void qkv_comparison_put(struct qkv_json *json, const struct qkv_comparison *c, bool curves);
/* "curves": for each seed the steps, the smoothed training loss, and the evaluations. */
void qkv_comparison_put_curves(struct qkv_json *json, const struct qkv_comparison *c,
                               const struct qkv_variant_state *v);
enum qkv_status qkv_comparison_write_page(const struct qkv_comparison *c, const char *path);

#endif
