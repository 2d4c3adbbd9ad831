/* results_page: the results with the curves of all runs as a page. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/compare/results.h"

enum qkv_status qkv_comparison_write_page(const struct qkv_comparison *c, const char *path) {
    static const char *const scripts[] = {"chart.js", "compare.js", NULL};
    struct qkv_json json = {.ctx = c->ctx, .style = QKV_JSON_SCRIPT};
    char title[256], summary[256];
    size_t n = strlen(c->folder);
    while (n > 1 && c->folder[n - 1] == '/') n--;
    size_t begin = n;
    while (begin > 0 && c->folder[begin - 1] != '/') begin--;
    snprintf(title, sizeof title, "Comparison %.*s", (int)(n - begin < 200 ? n - begin : 200), c->folder + begin);
    snprintf(summary, sizeof summary, "%zu variants on the same data, with %zu seed%s", c->count, c->seeds,
             c->seeds == 1 ? "" : "s each");
    qkv_comparison_put(&json, c, true);
    enum qkv_status status = json.status;
    if (!status)
        status = qkv_page_write(c->ctx,
                                &(struct qkv_page){.title = title,
                                                   .summary = summary,
                                                   .scripts = scripts,
                                                   .data = json.text.data,
                                                   .data_size = json.text.size},
                                path);
    qkv_buffer_free(&json.text);
    return status;
}
