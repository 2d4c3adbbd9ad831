/* run_events: the steps of runs as event files of TensorBoard.
 *
 * A file is a sequence of records (TFRecord): the length in 8 bytes, a checksum of the length, the data, a checksum
 * of the data; numbers are little-endian. A checksum is CRC-32C (Castagnoli; RFC 3720, appendix B.4), rotated and
 * shifted by a constant. The data are messages Event in the wire format of protocol buffers:
 * tensorflow/core/util/event.proto and framework/summary.proto. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/report/run.h"

#define EVENTS_FILE "events.out.tfevents.0.qkv" /* readers look for "tfevents" */

/* ---- records ----------------------------------------------------------------------------------------------------- */

uint32_t qkv_crc32c(const void *data, size_t size) {
    const unsigned char *bytes = data;
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

static uint32_t events_checksum(const void *data, size_t size) {
    const uint32_t crc = qkv_crc32c(data, size);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

struct events {
    struct qkv_context *ctx;
    /* the file so far; the messages in progress, each inside the one before */
    struct qkv_buffer file, event, summary, value;
    enum qkv_status status;
};

static void events_append(struct events *e, struct qkv_buffer *to, const void *data, size_t size) {
    if (!e->status) e->status = qkv_buffer_append(e->ctx, to, data, size);
}

/* Appends the low `bytes` bytes of a number, little-endian. */
static void events_fixed(struct events *e, struct qkv_buffer *to, uint64_t x, size_t bytes) {
    unsigned char text[8];
    for (size_t i = 0; i < bytes; i++) text[i] = (unsigned char)(x >> 8 * i);
    events_append(e, to, text, bytes);
}

static void events_record(struct events *e) {
    unsigned char length[8];
    for (size_t i = 0; i < sizeof length; i++) length[i] = (unsigned char)((uint64_t)e->event.size >> 8 * i);
    events_append(e, &e->file, length, sizeof length);
    events_fixed(e, &e->file, events_checksum(length, sizeof length), 4);
    events_append(e, &e->file, e->event.data, e->event.size);
    events_fixed(e, &e->file, events_checksum(e->event.data, e->event.size), 4);
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

enum wire { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

static void events_varint(struct events *e, struct qkv_buffer *to, uint64_t x) {
    for (; x >= 128; x >>= 7) events_fixed(e, to, (x & 127) | 128, 1);
    events_fixed(e, to, x, 1);
}

static void events_key(struct events *e, struct qkv_buffer *to, unsigned field, enum wire wire) {
    events_varint(e, to, field << 3 | wire);
}

static void events_bytes(struct events *e, struct qkv_buffer *to, unsigned field, const void *data, size_t size) {
    events_key(e, to, field, WIRE_BYTES);
    events_varint(e, to, size);
    events_append(e, to, data, size);
}

/* Begins an event with its time (seconds since 1970) and step. */
static void events_begin(struct events *e, double time, int64_t step) {
    uint64_t bits;
    memcpy(&bits, &time, sizeof bits);
    e->event.size = e->summary.size = 0;
    events_key(e, &e->event, 1, WIRE_FIXED64);
    events_fixed(e, &e->event, bits, 8);
    if (step == 0) return;
    events_key(e, &e->event, 2, WIRE_VARINT);
    events_varint(e, &e->event, (uint64_t)step);
}

/* Appends a scalar to the event's summary; nothing if it is not finite. */
static void events_scalar(struct events *e, const char *tag, double x) {
    const float single = (float)x;
    uint32_t bits;
    if (!isfinite(x)) return;
    memcpy(&bits, &single, sizeof bits);
    e->value.size = 0;
    events_bytes(e, &e->value, 1, tag, strlen(tag));
    events_key(e, &e->value, 2, WIRE_FIXED32);
    events_fixed(e, &e->value, bits, 4);
    events_bytes(e, &e->summary, 1, e->value.data, e->value.size);
}

static void events_end(struct events *e) {
    if (e->summary.size) events_bytes(e, &e->event, 5, e->summary.data, e->summary.size);
    events_record(e);
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

/* Returns when the run began, or was resumed after `step` steps: seconds since 1970; 0: unknown. */
static double events_began(const struct qkv_run *run, size_t machine, int64_t *step) {
    const json_t *line = json_array_get(run->machines, machine);
    const char *text = json_string_value(json_object_get(line, "time"));
    int64_t seconds = 0;
    *step = json_integer_value(json_object_get(line, "step"));
    return text && qkv_utc_parse(text, &seconds) ? (double)seconds : 0;
}

/* The log counts seconds of training. Each time that the run was resumed, the clock starts again at its date. */
static void events_steps(struct events *e, const struct qkv_run *run, const char *metric) {
    int64_t first = 0;
    size_t machine = 0;
    double began = events_began(run, machine, &first), before = 0, seconds = 0;
    for (size_t i = 0; i < run->count && !e->status; i++) {
        const struct qkv_run_step *s = &run->steps[i];
        int64_t after;
        for (double later; (later = events_began(run, machine + 1, &after)) > 0 && after < s->step; machine++) {
            began = later;
            before = seconds;
        }
        if (isfinite(s->seconds)) seconds = s->seconds;
        events_begin(e, began + seconds - before, s->step);
        events_scalar(e, "train/loss", s->loss);
        events_scalar(e, "train/gradient_norm", s->norm);
        events_scalar(e, "train/learning_rate", s->rate);
        events_scalar(e, "train/tokens_per_second", s->tokens_per_second);
        events_scalar(e, "train/expert_load", s->expert_load);
        events_scalar(e, "train/experts_unused", s->experts_unused);
        events_scalar(e, "valid/loss", s->valid_loss);
        if (metric) events_scalar(e, metric, s->metric);
        events_end(e);
    }
}

static enum qkv_status events_print(struct events *e, const struct qkv_run *run) {
    static const char version[] = "brain.Event:2";
    struct qkv_buffer metric = {0};
    int64_t step;
    if (run->metric) e->status = qkv_buffer_print(e->ctx, &metric, "valid/%s", run->metric);
    events_begin(e, events_began(run, 0, &step), 0);
    events_bytes(e, &e->event, 3, version, sizeof version - 1);
    events_record(e);
    events_steps(e, run, metric.data);
    qkv_buffer_free(&metric);
    return e->status;
}

/* Returns FOLDER/RUN; a label that is a path loses its slashes. */
static char *events_folder(struct qkv_context *ctx, const char *folder, const char *label) {
    while (!strncmp(label, "./", 2) || *label == '/') label += *label == '/' ? 1 : 2;
    char *name = qkv_copy_string(ctx, *label ? label : "run"), *path = NULL;
    for (char *c = name; c && *c; c++)
        if (*c == '/') *c = '_';
    if (name && (!strcmp(name, ".") || !strcmp(name, ".."))) *name = '_';
    if (name) path = qkv_join_path(ctx, folder, name);
    free(name);
    return path;
}

static enum qkv_status events_check(struct qkv_context *ctx, const char *path) {
    bool found;
    const enum qkv_status status = qkv_file_find(ctx, path, &found);
    if (status || !found) return status;
    return qkv_fail(ctx, QKV_FILE, "%s exists; --force replaces it", path);
}

static enum qkv_status events_write(struct qkv_context *ctx, const struct qkv_run *run, const char *folder,
                                    const char *path) {
    struct events e = {.ctx = ctx};
    enum qkv_status status = events_print(&e, run);
    if (!status) status = qkv_make_folder(ctx, folder);
    if (!status) status = qkv_write_file(ctx, path, e.file.data, e.file.size);
    qkv_buffer_free(&e.file);
    qkv_buffer_free(&e.event);
    qkv_buffer_free(&e.summary);
    qkv_buffer_free(&e.value);
    return status;
}

enum qkv_status qkv_runs_write_events(struct qkv_context *ctx, struct qkv_run *const *runs, size_t count,
                                      const char *folder, bool force) {
    QKV_CALL(ctx);
    char **names;
    enum qkv_status status = qkv_run_names(ctx, runs, count, &names);
    for (int write = force; write < 2; write++)
        for (size_t i = 0; i < count && !status; i++) {
            char *inner = events_folder(ctx, folder, names[i]);
            char *path = inner ? qkv_join_path(ctx, inner, EVENTS_FILE) : NULL;
            status = !path ? QKV_MEMORY : write ? events_write(ctx, runs[i], inner, path) : events_check(ctx, path);
            free(path);
            free(inner);
        }
    qkv_free_names(names, count);
    return status;
}
