/* Answers of an engine: they get rows, leave them, and end. */
#include "generate/engine.h"

#include <stdlib.h>
#include <string.h>

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Takes the place of a source away when no answer of its request has a row. */
static void source_leave(struct qkv_engine *e, struct qkv_engine_job *job) {
    if (!e->places || job->place == QKV_ENGINE_NO_ROW || job->rows) return;
    qkv_encoded_drop(e->encoded, job->place);
    e->places[job->place] = NULL;
    job->place = QKV_ENGINE_NO_ROW;
}

void qkv_engine_enter(struct qkv_engine *e, struct qkv_engine_answer *a, size_t row) {
    a->row = row;
    a->job->rows++;
    e->rows[row] = a;
    if (!e->lent) {
        e->decoder->decided[row] = (int32_t)a->job->decided;
        e->decoder->adapters[row] = qkv_engine_adapter(a->job);
        e->decoder->sources[row] = e->places ? (int32_t)a->job->place : 0;
    }
    if (e->draft) e->draft->decided[row] = (int32_t)qkv_min(a->job->decided, e->draft->capacity);
    e->state.running++;
    e->state.waiting--;
}

void qkv_engine_leave(struct qkv_engine *e, struct qkv_engine_answer *a) {
    if (a->row == QKV_ENGINE_NO_ROW) return;
    if (!e->lent) qkv_decoder_shorten(e->decoder, a->row, 0);
    if (e->draft) qkv_decoder_shorten(e->draft, a->row, 0);
    e->rows[a->row] = NULL;
    a->row = QKV_ENGINE_NO_ROW;
    a->known = 0;
    a->job->rows--;
    source_leave(e, a->job);
    e->state.running--;
    e->state.waiting++;
}

void qkv_engine_end(struct qkv_engine *e, struct qkv_engine_answer *a, enum qkv_finish finish,
                    struct qkv_engine_told *told) {
    qkv_engine_leave(e, a);
    e->state.waiting--;
    a->ended = true;
    a->job->unended--;
    told->event.finish = finish;
    told->event.prompt_tokens = a->job->request.kind ? a->job->text.count
                                : e->places          ? a->job->prompt.source_count
                                                     : a->job->prompt.count;
    told->event.cached_tokens = a->cached;
    told->event.tokens = a->made;
    told->event.message = told->message;
}

enum qkv_status qkv_engine_fail(struct qkv_engine *e, struct qkv_engine_answer *a, struct qkv_engine_told *told,
                                enum qkv_status why) {
    told->status = why;
    told->message = qkv_copy_string(e->ctx, qkv_message(e->ctx));
    if (!told->message) return QKV_MEMORY;
    qkv_forgive(e->ctx);
    qkv_engine_end(e, a, QKV_FINISH_FAILED, told);
    return QKV_OK;
}

/* ---- rules ------------------------------------------------------------------------------------------------------- */

enum qkv_status qkv_engine_copy_rules(struct qkv_engine *e, struct qkv_token_rules *rules, int32_t **copied) {
    struct qkv_token_list *lists[] = {&rules->last, &rules->suppressed, &rules->suppressed_first, &rules->bad_words};
    size_t count = 0, at = 0;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (!qkv_add_size(count, lists[i]->count, &count)) return qkv_fail_memory(e->ctx, SIZE_MAX, "rules");
    int32_t *to = *copied = qkv_allocate(e->ctx, count + 1, sizeof *to);
    if (!to) return QKV_MEMORY;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const size_t n = lists[i]->count;
        if (n) memcpy(to + at, lists[i]->ids, n * sizeof *to);
        lists[i]->ids = to + at;
        at += n;
    }
    return QKV_OK;
}
