/* encoder_places: an encoded batch whose sources come and go. Sources and texts are encoded several at a time, without
 * padding; the bits of each are those that it has alone. */
#include "model/decode.h"
#include "model/pass.h"
#include "model/spec.h"

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static struct qkv_page_shape places_shape(const struct qkv_encoded_room *room) {
    return (struct qkv_page_shape){.length = room->T, .pages = room->pages, .sequences = room->places};
}

/* Takes all memory but that of the pool and of a run. */
static enum qkv_status places_take(struct qkv_encoded *e, const struct qkv_encoded_room *room) {
    struct qkv_model *m = e->model;
    const size_t width = (size_t)qkv_stack_width(&m->spec, qkv_encoded_stack(m)->spec);
    const struct qkv_page_shape shape = places_shape(room);
    e->output = qkv_arena_take(&e->kept, room->rows * width, sizeof *e->output);
    e->lengths_now = qkv_arena_take(&e->kept, room->sources, sizeof *e->lengths_now);
    e->tables_now = qkv_arena_take(&e->kept, room->sources, sizeof *e->tables_now);
    if (!e->output || !e->lengths_now || !e->tables_now) return QKV_MEMORY;
    e->lengths = qkv_arena_take(&e->kept, room->places, sizeof *e->lengths);
    if (!room->places) return e->lengths ? QKV_OK : QKV_MEMORY;
    e->lists = qkv_decode_lists(&e->kept, &shape, room->places);
    return e->lengths && e->lists ? QKV_OK : QKV_MEMORY;
}

struct places_plan {
    struct qkv_encoded *e;
    const struct qkv_encoded_room *room;
    struct qkv_encoder_batch batch;
    bool pages;   /* the run writes keys and values */
    size_t bytes; /* of a run */
};

static enum qkv_status plan_run(void *argument) {
    const struct places_plan *plan = argument;
    return qkv_encoder_run(plan->e, &plan->batch);
}

/* Measures a run over packed sources of such a shape, or of at most such a shape. */
static enum qkv_status places_measure(struct places_plan *plan, size_t B, size_t T, size_t rows, bool at_most) {
    static const int32_t none[1];
    struct qkv_encoded *e = plan->e;
    plan->batch = (struct qkv_encoder_batch){.B = B,
                                             .T = T,
                                             .rows = rows,
                                             .ragged = true,
                                             .packed = true,
                                             .source = &(struct qkv_pass_side){.ids = none},
                                             .lengths = e->lengths_now,
                                             .tables = plan->pages ? e->tables_now : NULL,
                                             .output = e->output};
    return (at_most ? qkv_plan_at_most : qkv_plan)(e->model->ctx, &e->arena, "encoding", plan_run, plan, &plan->bytes);
}

/* Plans what is taken, and inside that plan the runs. */
static enum qkv_status plan_places(void *argument) {
    struct places_plan *plan = argument;
    const struct qkv_encoded_room *room = plan->room;
    const size_t longest = qkv_min(room->T, room->rows), sources = qkv_min(room->sources, room->rows);
    enum qkv_status status = places_take(plan->e, room);
    return status ? status : places_measure(plan, sources, longest, room->rows, true);
}

static enum qkv_status places_plan(struct places_plan *plan, size_t *kept) {
    struct qkv_encoded *e = plan->e;
    enum qkv_status status = plan->room->places ? qkv_encoded_own_pool(e) : QKV_OK;
    return status ? status : qkv_plan(e->model->ctx, &e->kept, "places of sources", plan_places, plan, kept);
}

enum qkv_status qkv_encoded_room_measure(struct qkv_model *m, const struct qkv_encoded_room *room,
                                         const struct qkv_decoder_options *targets, size_t *bytes) {
    size_t kept = 0, pool = 0, target = 0, mixed = 0;
    struct qkv_encoded *e = qkv_encoded_make(m);
    struct places_plan plan = {.e = e, .room = room, .pages = room->places > 0};
    if (!e) return QKV_MEMORY;
    const struct qkv_page_shape shape = places_shape(room);
    enum qkv_status status = places_plan(&plan, &kept);
    if (!status && e->pool) status = qkv_page_pool_measure(e->pool, &shape, &pool);
    e->B = room->places;
    e->T = room->T;
    if (!status && targets) {
        struct qkv_decoder_options options = *targets;
        options.encoded = e;
        status = qkv_decoder_measure(m, &options, &target);
        if (!status && room->scored) status = qkv_decoder_measure_mixed(m, &options, room->scored, &mixed);
    }
    *bytes = kept + plan.bytes + pool + target + mixed;
    qkv_encoded_free(e);
    return status;
}

enum qkv_status qkv_encoded_open(struct qkv_encoded *e, const struct qkv_encoded_room *room) {
    struct qkv_context *ctx = e->model->ctx;
    struct places_plan plan = {.e = e, .room = room, .pages = room->places > 0};
    const struct qkv_page_shape shape = places_shape(room);
    size_t kept = 0;
    enum qkv_status status = places_plan(&plan, &kept);
    if (!status) status = qkv_arena_room(ctx, &e->kept, kept, "places of sources");
    if (!status) status = qkv_arena_room(ctx, &e->arena, plan.bytes, "encoding");
    if (!status) status = places_take(e, room);
    if (!status && e->pool) status = qkv_page_pool_begin(e->pool, &shape);
    if (status) return status;
    e->B = room->places;
    e->T = room->T;
    e->sources = room->sources;
    e->rows_most = room->rows;
    return QKV_OK;
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

enum qkv_status qkv_encoded_take(struct qkv_encoded *e, size_t place, size_t length) {
    const enum qkv_status status = qkv_page_lists_grow(e->pool, &e->lists[place], &length, 1);
    if (!status) e->lengths[place] = (int32_t)length;
    return status;
}

void qkv_encoded_drop(struct qkv_encoded *e, size_t place) {
    qkv_page_list_truncate(e->pool, &e->lists[place], 0);
}

/* ---- encoding ---------------------------------------------------------------------------------------------------- */

static enum qkv_status places_run(struct qkv_encoded *e, const struct qkv_packed_texts *texts, bool pages) {
    struct places_plan plan = {.e = e, .pages = pages};
    const struct qkv_pass_side source = {.ids = texts->ids};
    size_t T = 0, rows = 0;
    for (size_t b = 0; b < texts->count; b++) {
        e->lengths_now[b] = texts->lengths[b];
        rows += (size_t)texts->lengths[b];
        T = qkv_max(T, (size_t)texts->lengths[b]);
    }
    if (!rows || texts->count > e->sources || rows > e->rows_most)
        return qkv_fail(e->model->ctx, QKV_ARGUMENT, "%zu texts of %zu tokens cannot be encoded at once", texts->count,
                        rows);
    enum qkv_status status = qkv_model_ready(e->model);
    if (!status) status = places_measure(&plan, texts->count, T, rows, false);
    if (!status) status = qkv_arena_room(e->model->ctx, &e->arena, plan.bytes, "encoding");
    if (status) return status;
    plan.batch.source = &source;
    plan.batch.ragged = rows < texts->count * T;
    plan.batch.output = pages ? NULL : e->output;
    return qkv_encoder_run(e, &plan.batch);
}

enum qkv_status qkv_encoded_put(struct qkv_encoded *e, const struct qkv_packed_texts *texts, const size_t *places) {
    for (size_t b = 0; b < texts->count && b < e->sources; b++) e->tables_now[b] = e->lists[places[b]].pages;
    return places_run(e, texts, true);
}

enum qkv_status qkv_encoded_pack(struct qkv_encoded *e, const struct qkv_packed_texts *texts) {
    return places_run(e, texts, false);
}
