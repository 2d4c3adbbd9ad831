/* What has happened to answers, in a queue. */
#include "generate/engine.h"

#include <stdlib.h>
#include <string.h>

enum { TEXT_ROOM = 256 }; /* bytes of the text that a token makes known, with what was held back before it */

void qkv_engine_told_free(struct qkv_engine_told *told) {
    if (!told) return;
    free(told->text);
    free(told->message);
    free(told->vector);
    free(told->fillings);
    free(told->ids);
    free(told);
}

void qkv_engine_told_drop(struct qkv_engine *e, struct qkv_engine_told *told) {
    if (!told || e->spare_count >= e->row_count) {
        qkv_engine_told_free(told);
        return;
    }
    free(told->message);
    free(told->vector);
    free(told->fillings);
    free(told->ids);
    *told = (struct qkv_engine_told){.text = told->text, .text_room = told->text_room, .next = e->spare};
    e->spare = told;
    e->spare_count++;
}

enum qkv_status qkv_engine_told_text(struct qkv_engine *e, struct qkv_engine_told *told, size_t size) {
    if (size <= told->text_room) return QKV_OK;
    free(told->text);
    told->text_room = qkv_max(size, (size_t)TEXT_ROOM);
    told->text = qkv_allocate(e->ctx, told->text_room, 1);
    if (told->text) return QKV_OK;
    told->text_room = 0;
    return QKV_MEMORY;
}

/* A record for an event. */
static struct qkv_engine_told *event_record(struct qkv_engine *e) {
    struct qkv_engine_told *told = e->spare;
    if (!told) return qkv_allocate(e->ctx, 1, sizeof *told);
    e->spare = told->next;
    e->spare_count--;
    told->next = NULL;
    return told;
}

/* Moves the queue to the beginning of its memory. */
static void events_pack(struct qkv_engine *e) {
    if (!e->event_first) return;
    memmove(e->events, e->events + e->event_first, e->event_count * sizeof *e->events);
    e->event_first = 0;
}

struct qkv_engine_told *qkv_engine_tell(struct qkv_engine *e, const struct qkv_engine_answer *answer) {
    if (e->event_first > e->event_count) events_pack(e);
    struct qkv_engine_told **grown = qkv_list_room(
        e->ctx, e->events, &e->event_capacity, e->event_first + e->event_count, 1, sizeof(struct qkv_engine_told *));
    if (!grown) return NULL;
    e->events = grown;
    struct qkv_engine_told *told = event_record(e);
    if (!told) return NULL;
    told->event.request = answer->job->id;
    told->event.answer = answer->index;
    told->event.token.id = -1;
    told->event.text = "";
    e->events[e->event_first + e->event_count++] = told;
    return told;
}

void qkv_engine_untell(struct qkv_engine *e) {
    qkv_engine_told_drop(e, e->events[e->event_first + --e->event_count]);
}

struct qkv_engine_told *qkv_engine_take(struct qkv_engine *e) {
    if (!e->event_count) return NULL;
    struct qkv_engine_told *told = e->events[e->event_first++];
    if (!--e->event_count) e->event_first = 0;
    return told;
}

bool qkv_engine_poll(struct qkv_engine *e, struct qkv_engine_event *event) {
    if (!e || !event) return false;
    qkv_engine_told_drop(e, e->given);
    *event = (struct qkv_engine_event){.token.id = -1};
    e->given = qkv_engine_take(e);
    if (e->given) *event = e->given->event;
    return e->given != NULL;
}
