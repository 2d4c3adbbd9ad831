/* The seams of a run: where it got a new end, and what the rate does from there on (schedule.c has the curves). They
 * are kept in train.json, oldest first, so that the rate of every step is known whatever happened since:
 *
 *   "extended": {"first_end": 20, "seams": [{"step": 20, "end": 40, "extend": "decay"}, …]} */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "train/train.h"

static const char *const extend_names[] = {
#define NAME(name, text, help) text,
    QKV_EXTEND_LIST(NAME)
#undef NAME
};
enum { EXTEND_COUNT = sizeof extend_names / sizeof *extend_names };

static bool seams_find_extend(const char *name, enum qkv_extend *extend) {
    for (int i = 0; name && i < EXTEND_COUNT; i++) {
        if (strcmp(extend_names[i], name) != 0) continue;
        *extend = (enum qkv_extend)i;
        return true;
    }
    return false;
}

enum qkv_status qkv_extend_parse(struct qkv_context *ctx, const char *name, enum qkv_extend *extend) {
    if (seams_find_extend(name, extend)) return QKV_OK;
    return qkv_fail(ctx, QKV_ARGUMENT, "extend is \"%s\"; it must be decay, flat or rewarm", name);
}

const char *qkv_extend_name(enum qkv_extend extend) {
    return extend_names[extend];
}

enum qkv_status qkv_seams_add(struct qkv_context *ctx, struct qkv_seams *seams, int64_t end_before,
                              const struct qkv_seam *seam) {
    struct qkv_seam *grown = qkv_list_room(ctx, seams->items, &seams->capacity, seams->count, 1, sizeof *grown);
    if (!grown) return QKV_MEMORY;
    seams->items = grown;
    while (seams->count > 0 && grown[seams->count - 1].step >= seam->step)
        seams->count--; /* no step came behind them */
    if (seams->first_end == 0) seams->first_end = end_before;
    grown[seams->count++] = *seam;
    return QKV_OK;
}

void qkv_seams_free(struct qkv_seams *seams) {
    free(seams->items);
    *seams = (struct qkv_seams){0};
}

/* ---- in train.json ---------------------------------------------------------------------------------------------- */

void qkv_seams_print(struct qkv_json *json, const struct qkv_seams *seams) {
    if (seams->count == 0) return;
    qkv_json_line(json, 4);
    qkv_json_key(json, "extended");
    qkv_json_begin(json, '{');
    qkv_json_put_integer(json, "first_end", seams->first_end);
    qkv_json_key(json, "seams");
    qkv_json_begin(json, '[');
    for (size_t i = 0; i < seams->count; i++) {
        qkv_json_begin(json, '{');
        qkv_json_put_integer(json, "step", seams->items[i].step);
        qkv_json_put_integer(json, "end", seams->items[i].end);
        qkv_json_put_text(json, "extend", extend_names[seams->items[i].extend]);
        qkv_json_end(json, '}');
    }
    qkv_json_end(json, ']');
    qkv_json_end(json, '}');
}

/* One seam, which lies behind the one before it and has its end not before itself. */
static bool seams_read_one(const json_t *value, int64_t after, struct qkv_seam *seam) {
    const json_t *step = json_object_get(value, "step"), *end = json_object_get(value, "end");
    const char *extend = json_string_value(json_object_get(value, "extend"));
    if (!json_is_integer(step) || !json_is_integer(end)) return false;
    seam->step = json_integer_value(step);
    seam->end = json_integer_value(end);
    return seam->step > after && seam->end >= seam->step && seams_find_extend(extend, &seam->extend);
}

enum qkv_status qkv_seams_read(struct qkv_context *ctx, const char *path, const struct json_t *root, int64_t steps,
                               struct qkv_seams *seams) {
    const json_t *extended = json_object_get(root, "extended"), *list = json_object_get(extended, "seams");
    const json_t *first = json_object_get(extended, "first_end");
    size_t count = json_array_size(list);
    *seams = (struct qkv_seams){0};
    if (!extended) return QKV_OK;
    bool fine = count > 0 && json_is_integer(first) && json_integer_value(first) > 0;
    struct qkv_seam *items = fine ? qkv_allocate(ctx, count, sizeof *items) : NULL;
    if (fine && !items) return QKV_MEMORY;
    for (size_t i = 0; i < count && fine; i++)
        fine = seams_read_one(json_array_get(list, i), i ? items[i - 1].step : 0, &items[i]);
    if (fine && items[count - 1].end == steps) {
        *seams = (struct qkv_seams){.items = items, .count = count, .first_end = json_integer_value(first)};
        return QKV_OK;
    }
    free(items);
    return qkv_fail(ctx, QKV_FORMAT,
                    "%s: extended must hold first_end and seams, a list of step, end and extend in the order of their "
                    "steps, the last of which ends at the option steps; restore the file or start a new run",
                    path);
}
