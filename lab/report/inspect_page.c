/* inspect_page: inspections as JSON, for programs and for a page, which names models by the part in which their
 * folders differ:
 *
 *   {"format": "qkv-inspection", "version": 1,
 *    "models": [{"name": …, "loss": …, "targets": 18, "about": …, "gradient_norm": …, "decoder_ids": […],
 *                "rows": [{"stack": "decoder", "layer": 0, "what": "attention", "count": …, "mean": …, "deviation":
 *                …,
 *                          "min": …, "max": …, "not_finite": 0, "gradient_norm": …}],
 *                "experts": [{"stack": "decoder", "layer": 0, "top_k": 2, "load": 1.5, "unused": 0,
 *                             "rows": [12, 9, …]}]}]}
 *
 * "experts": only for models that have some: the rows of each expert, the busiest one's over the mean, and the
 * number of experts without a row. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lab/report/inspect.h"

static void put_row(struct qkv_json *json, const struct qkv_inspect_row *row) {
    qkv_json_begin(json, '{');
    qkv_json_put_text(json, "stack", row->encoder ? "encoder" : "decoder");
    qkv_json_put_integer(json, "layer", (int64_t)row->layer);
    qkv_json_put_text(json, "what", qkv_hook_name(row->kind));
    qkv_json_put_integer(json, "count", (int64_t)row->values.count);
    qkv_json_put_number(json, "mean", row->values.mean, 9);
    qkv_json_put_number(json, "deviation", row->values.deviation, 9);
    qkv_json_put_number(json, "min", row->values.min, 9);
    qkv_json_put_number(json, "max", row->values.max, 9);
    qkv_json_put_number(json, "not_finite", row->values.broken, 9);
    qkv_json_put_number(json, "gradient_norm", row->gradient, 9);
    qkv_json_end(json, '}');
}

static void put_ids(struct qkv_json *json, const struct qkv_inspection *in) {
    for (int side = 0; side < 2; side++) {
        const struct qkv_look_side *s = side ? &in->look.decoder : &in->look.encoder;
        if (!s->count) continue;
        qkv_json_key(json, side ? "decoder_ids" : "encoder_ids");
        qkv_json_begin(json, '[');
        for (size_t t = 0; t < s->count; t++) qkv_json_integer(json, s->ids[t]);
        qkv_json_end(json, ']');
    }
}

static void put_experts(struct qkv_json *json, const struct qkv_inspection *in) {
    const struct qkv_inspect_experts *of;
    qkv_json_key(json, "experts");
    qkv_json_begin(json, '[');
    for (size_t i = 0; (of = qkv_inspection_experts(in, i)); i++) {
        qkv_json_begin(json, '{');
        qkv_json_put_text(json, "stack", of->encoder ? "encoder" : "decoder");
        qkv_json_put_integer(json, "layer", (int64_t)of->layer);
        qkv_json_put_integer(json, "top_k", (int64_t)of->top_k);
        qkv_json_put_number(json, "load", of->load, 9);
        qkv_json_put_integer(json, "unused", (int64_t)of->unused);
        qkv_json_key(json, "rows");
        qkv_json_begin(json, '[');
        for (size_t e = 0; e < of->count; e++) qkv_json_integer(json, (int64_t)of->rows[e]);
        qkv_json_end(json, ']');
        qkv_json_end(json, '}');
    }
    qkv_json_end(json, ']');
}

static void put_all(struct qkv_json *json, struct qkv_inspection *const *list, const char *const *names,
                    const char *const *folders, size_t count) {
    qkv_json_begin(json, '{');
    qkv_json_put_text(json, "format", "qkv-inspection");
    qkv_json_put_integer(json, "version", 1);
    qkv_json_key(json, "models");
    qkv_json_begin(json, '[');
    for (size_t m = 0; m < count; m++) {
        const struct qkv_inspection *in = list[m];
        qkv_json_begin(json, '{');
        qkv_json_put_text(json, "name", names[m]);
        if (folders) qkv_json_put_text(json, "folder", folders[m]);
        qkv_json_put_number(json, "loss", in->loss, 9);
        qkv_json_put_integer(json, "targets", (int64_t)in->counted);
        qkv_json_put_text(json, "about", in->about);
        qkv_json_put_number(json, "gradient_norm", in->norm, 9);
        put_ids(json, in);
        qkv_json_key(json, "rows");
        qkv_json_begin(json, '[');
        for (size_t i = 0; i < in->count; i++) put_row(json, &in->rows[i]);
        qkv_json_end(json, ']');
        if (in->experts_count) put_experts(json, in);
        qkv_json_end(json, '}');
    }
    qkv_json_end(json, ']');
    qkv_json_end(json, '}');
}

enum qkv_status qkv_inspections_write_json(struct qkv_context *ctx, struct qkv_inspection *const *inspections,
                                           const char *const *names, size_t count, const char *path) {
    QKV_CALL(ctx);
    struct qkv_json json = {.ctx = ctx, .style = QKV_JSON_SCRIPT};
    put_all(&json, inspections, names, NULL, count);
    enum qkv_status status = json.status ? json.status : qkv_buffer_append(ctx, &json.text, "\n", 1);
    if (!status && path) status = qkv_write_file(ctx, path, json.text.data, json.text.size);
    if (!status && !path && fwrite(json.text.data, 1, json.text.size, stdout) != json.text.size)
        status = qkv_fail_file(ctx, "write", "standard output", errno);
    qkv_buffer_free(&json.text);
    return status;
}

enum qkv_status qkv_inspections_write_page(struct qkv_context *ctx, struct qkv_inspection *const *inspections,
                                           const char *const *names, size_t count, const char *path) {
    QKV_CALL(ctx);
    static const char *const scripts[] = {"chart.js", "inspect.js", NULL};
    struct qkv_json json = {.ctx = ctx, .style = QKV_JSON_SCRIPT};
    char title[256], **shown;
    enum qkv_status status = qkv_short_names(ctx, names, count, &shown);
    if (status) return status;
    put_all(&json, inspections, (const char *const *)shown, names, count);
    if (count == 1)
        snprintf(title, sizeof title, "Inside %.200s", shown[0]);
    else
        snprintf(title, sizeof title, "Inside %zu models", count);
    qkv_free_names(shown, count);
    status = json.status;
    if (!status)
        status =
            qkv_page_write(ctx,
                           &(struct qkv_page){.title = title,
                                              .summary = "the numbers after every block, and the gradients of each",
                                              .scripts = scripts,
                                              .data = json.text.data,
                                              .data_size = json.text.size},
                           path);
    qkv_buffer_free(&json.text);
    return status;
}
