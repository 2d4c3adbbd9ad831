/* What has happened to answers, in a queue. */
#include "generate/engine.h"

#include <stdlib.h>
#include <string.h>

void qkv_engine_told_free(struct qkv_engine_told *told) {
    if (!told) return;
    free(told->text);
    free(told->message);
    free(told->vector);
    free(told->fillings);
    free(told->ids);
    free(told);
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
    struct qkv_engine_told *told = qkv_allocate(e->ctx, 1, sizeof *told);
    if (!told) return NULL;
    told->event.request = answer->job->id;
    told->event.answer = answer->index;
    told->event.token.id = -1;
    told->event.text = "";
    e->events[e->event_first + e->event_count++] = told;
    return told;
}

void qkv_engine_untell(struct qkv_engine *e) {
    qkv_engine_told_free(e->events[e->event_first + --e->event_count]);
}

struct qkv_engine_told *qkv_engine_take(struct qkv_engine *e) {
    if (!e->event_count) return NULL;
    struct qkv_engine_told *told = e->events[e->event_first++];
    if (!--e->event_count) e->event_first = 0;
    return told;
}

bool qkv_engine_poll(struct qkv_engine *e, struct qkv_engine_event *event) {
    if (!e || !event) return false;
    qkv_engine_told_free(e->given);
    *event = (struct qkv_engine_event){.token.id = -1};
    e->given = qkv_engine_take(e);
    if (e->given) *event = e->given->event;
    return e->given != NULL;
}
