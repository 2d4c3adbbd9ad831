/* results.h: shared by results.c, results_json.c and results_page.c. */
#ifndef QKV_COMPARE_RESULTS_H
#define QKV_COMPARE_RESULTS_H

#include "lab/compare/compare_room.h"

/* Writes the results as an object; `curves`: with the curves of the runs, for the page. */
void qkv_comparison_put(struct qkv_json *json, const struct qkv_comparison *c, bool curves);
enum qkv_status qkv_comparison_write_json(const struct qkv_comparison *c, const char *path);
enum qkv_status qkv_comparison_write_page(const struct qkv_comparison *c, const char *path);

#endif
