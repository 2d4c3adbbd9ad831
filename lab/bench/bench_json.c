/* json: the results as one JSON object: the machine, then a line for each row. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/bench/bench_room.h"

/* A name from outside; bytes that are no UTF-8 become '?'. */
static enum qkv_status append_text(struct qkv_context *ctx, struct qkv_buffer *json, const char *text) {
    char copy[256];
    snprintf(copy, sizeof copy, "%s", text);
    json_t *value = json_string(copy);
    for (char *c = copy; !value && *c; c++)
        if ((unsigned char)*c >= 0x80) *c = '?';
    if (!value) value = json_string(copy);
    char *quoted = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
    json_decref(value);
    if (!quoted) return qkv_fail_memory(ctx, strlen(text), "results of the benchmark");
    enum qkv_status status = qkv_buffer_append(ctx, json, quoted, strlen(quoted));
    free(quoted);
    return status;
}

/* ", "key": number", with a point in every locale; null for what is not finite. */
static enum qkv_status append_number(struct qkv_context *ctx, struct qkv_buffer *json, const char *key, double value) {
    char text[32];
    snprintf(text, sizeof text, "%.12g", value);
    for (char *c = text; *c; c++)
        if (*c == ',') *c = '.';
    return qkv_buffer_print(ctx, json, ", \"%s\": %s", key, isfinite(value) ? text : "null");
}

enum qkv_status qkv_bench_json_begin(struct qkv_context *ctx, struct qkv_buffer *json,
                                     const struct qkv_bench_machine *machine) {
    char date[32] = "";
    time_t now = time(NULL);
    struct tm parts;
    if (gmtime_r(&now, &parts)) strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &parts);
    enum qkv_status status = qkv_buffer_print(
        ctx, json, "{\"version\": \"%s\", \"date\": \"%s\",\n\"machine\": {\"cpu\": ", qkv_version(), date);
    if (!status) status = append_text(ctx, json, machine->cpu);
    if (!status) status = qkv_buffer_print(ctx, json, ", \"compiler\": ");
    if (!status) status = append_text(ctx, json, machine->compiler);
    if (!status)
        status =
            qkv_buffer_print(ctx, json, ", \"isa\": \"%s\", \"threads\": %d, \"cache_bytes\": [%zu, %zu, %zu]",
                             machine->isa, machine->threads, machine->cache[0], machine->cache[1], machine->cache[2]);
    if (!status) status = append_number(ctx, json, "fp32_flops", machine->fp32_flops);
    if (!status) status = append_number(ctx, json, "bf16_flops", machine->bf16_flops);
    if (!status) status = append_number(ctx, json, "read_bytes", machine->read_bytes);
    return status ? status : qkv_buffer_print(ctx, json, "},\n\"rows\": [");
}

static enum qkv_status append_peers(struct qkv_context *ctx, struct qkv_buffer *json, const struct qkv_bench_row *row) {
    enum qkv_status status = qkv_buffer_print(ctx, json, ", \"peers\": [");
    for (size_t i = 0; i < row->peer_count && !status; i++) {
        status = qkv_buffer_print(ctx, json, "%s{\"name\": \"%s\"", i ? ", " : "", row->peers[i].name);
        if (!status) status = append_number(ctx, json, "seconds", row->peers[i].seconds);
        if (!status) status = qkv_buffer_print(ctx, json, "}");
    }
    return status ? status : qkv_buffer_print(ctx, json, "]");
}

enum qkv_status qkv_bench_json_row(struct qkv_context *ctx, struct qkv_buffer *json, const struct qkv_bench_row *row,
                                   bool first) {
    const double rate = row->seconds > 0 ? 1 / row->seconds : 0;
    const struct {
        const char *key;
        double value;
    } numbers[] = {
        {"seconds", row->seconds},
        {"fastest", row->fastest},
        {"flops", row->flops},
        {"flops_per_second", row->flops * rate},
        {"bytes", row->bytes},
        {"bytes_per_second", row->bytes * rate},
        {"tokens", row->tokens},
        {"tokens_per_second", row->tokens * rate},
        {"share", row->share},
        {"memory", (double)row->memory},
        {"pass_memory", (double)row->pass_memory},
        {"loss", row->loss},
    };
    enum qkv_status status = qkv_buffer_print(
        ctx, json, "%s\n{\"group\": \"%s\", \"name\": \"%s\", \"form\": \"%s\", \"precision\": \"%s\", \"left_out\": ",
        first ? "" : ",", row->group, row->name, row->form, row->precision);
    if (!status)
        status = row->left_out[0] ? append_text(ctx, json, row->left_out) : qkv_buffer_print(ctx, json, "null");
    if (!status) status = qkv_buffer_print(ctx, json, ", \"share_of\": \"%s\"", row->reads ? "read_bytes" : "flops");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && !status; i++)
        status = append_number(ctx, json, numbers[i].key, numbers[i].value);
    if (!status) status = append_peers(ctx, json, row);
    return status ? status : qkv_buffer_print(ctx, json, "}");
}

enum qkv_status qkv_bench_json_end(struct qkv_context *ctx, struct qkv_buffer *json, bool complete) {
    return qkv_buffer_print(ctx, json, "\n],\n\"complete\": %s}\n", complete ? "true" : "false");
}
