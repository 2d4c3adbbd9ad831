/* results.h: what results.c, results_json.c and results_page.c have of each other. */
#ifndef QKV_COMPARE_RESULTS_H
#define QKV_COMPARE_RESULTS_H

#include "lab/compare/compare_room.h"

/* The results as an object; for the page with the curves of the runs. */
void qkv_comparison_put(struct qkv_json *json, const struct qkv_comparison *c, bool curves);
enum qkv_status qkv_comparison_write_json(const struct qkv_comparison *c, const char *path);
enum qkv_status qkv_comparison_write_page(const struct qkv_comparison *c, const char *path);

#endif
