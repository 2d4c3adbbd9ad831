/* Lines of text, which an engine embeds or classifies, several at once without padding. In fp32,
 * the bits of a line do not depend on the others. */
#include "generate/engine_lines.h"
#include "model/spec.h"

#include <stdlib.h>

/* Lines that are read and sorted at a time, and the tokens after which no other line is read. */
enum { WINDOW = 4096, WINDOW_TOKENS = 1 << 18 };

struct line {
    size_t index;
    struct qkv_engine_text text;
};
struct lines {
    const struct qkv_line_reader *reader;
    struct qkv_engine *engine; /* NULL: no line was computed yet */
    struct line *lines;        /* (count): of a window */
    size_t count;
};

/* ---- reading ----------------------------------------------------------------------------------------------------- */

struct qkv_long_rule qkv_lines_rule(const struct qkv_line_reader *r) {
    const size_t context = (size_t)r->model->spec.context, max = r->options->max_tokens;
    return (struct qkv_long_rule){
        .kind = r->options->long_lines, .most = max && max < context ? max : context, .found = r->options->long_count};
}

enum qkv_status qkv_lines_fit(const struct qkv_line_reader *r, size_t index, const struct qkv_long_rule *rule,
                              struct qkv_sequence_frame frame, struct qkv_engine_text *text) {
    const size_t count = text->count;
    const enum qkv_long_fate fate = count ? qkv_long_apply(rule, frame, text->ids, &text->count) : QKV_FATE_FITS;
    if (fate == QKV_FATE_SKIPPED) text->count = 0;
    if (fate != QKV_FATE_REFUSED) return QKV_OK;
    return qkv_line_refuse(r->model, r->what, index, count, rule->most);
}

static void lines_clear(struct lines *l) {
    for (size_t i = 0; i < l->count; i++) qkv_engine_text_free(&l->lines[i].text);
    l->count = 0;
}

/* Reads a window that begins with line *next: lines that are blank or skipped are left out. */
static enum qkv_status lines_read(struct lines *l, size_t count, size_t *next) {
    const struct qkv_long_rule rule = qkv_lines_rule(l->reader);
    const size_t end = *next + qkv_min(count - *next, (size_t)WINDOW);
    enum qkv_status status = QKV_OK;
    for (size_t tokens = 0; *next < end && tokens < WINDOW_TOKENS && !status; ++*next) {
        struct line *line = &l->lines[l->count];
        *line = (struct line){.index = *next};
        status = l->reader->read(l->reader->user, *next, &rule, &line->text);
        tokens += line->text.count;
        if (line->text.count && !status)
            l->count++;
        else
            qkv_engine_text_free(&line->text);
    }
    return status;
}

/* ---- computing --------------------------------------------------------------------------------------------------- */

/* Sorts by length; lines of one length stay in their order, so that batches are the same every time. */
static int shorter_first(const void *a, const void *b) {
    const struct line *x = a, *y = b;
    if (x->text.count != y->text.count) return x->text.count < y->text.count ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* Opens an engine, if there is none that has room for the window, which is sorted. */
static enum qkv_status lines_open(struct lines *l) {
    size_t tokens = 0;
    for (size_t i = 0; i < l->count; i++) tokens += l->lines[i].text.count;
    const struct qkv_text_room room = qkv_text_room_of_lines(l->lines[l->count - 1].text.count, l->count, tokens);
    const struct qkv_text_room *had = l->engine ? &l->engine->room : NULL;
    if (had && room.longest <= had->longest && room.tokens <= had->tokens && room.texts <= had->texts) return QKV_OK;
    qkv_engine_free(l->engine);
    l->engine = NULL;
    return qkv_engine_open_reader(l->reader->model, &room, &l->engine);
}

/* Queues as many lines as the engine reads at once; *first: the request of the first line. */
static enum qkv_status lines_submit(struct lines *l, size_t *next, uint64_t *first) {
    struct qkv_engine *e = l->engine;
    enum qkv_status status = QKV_OK;
    uint64_t id = 0;
    while (*next < l->count && e->state.waiting < e->room.texts && !status) {
        status = qkv_engine_submit_text(e, l->reader->kind, &l->lines[*next].text, &id);
        if (!*next) *first = id;
        *next += !status;
    }
    return status;
}

static enum qkv_status lines_compute(struct lines *l) {
    struct qkv_engine_event event;
    uint64_t first = 0;
    size_t next = 0;
    if (!l->count) return QKV_OK;
    qsort(l->lines, l->count, sizeof *l->lines, shorter_first);
    enum qkv_status status = lines_open(l);
    for (bool busy = true; (busy || next < l->count) && !status;) {
        status = lines_submit(l, &next, &first);
        if (!status) status = qkv_engine_step(l->engine, &busy);
        while (!status && qkv_engine_poll(l->engine, &event))
            status = l->reader->take(l->reader->user, l->lines[event.request - first].index, &event);
    }
    return status;
}

enum qkv_status qkv_lines_run(const struct qkv_line_reader *reader, size_t count) {
    const size_t window = qkv_min(count, (size_t)WINDOW);
    struct lines l = {.reader = reader, .lines = qkv_allocate(reader->model->ctx, window, sizeof *l.lines)};
    enum qkv_status status = l.lines ? QKV_OK : QKV_MEMORY;
    for (size_t next = 0; next < count && !status;) {
        status = lines_read(&l, count, &next);
        if (!status) status = lines_compute(&l);
        lines_clear(&l);
    }
    qkv_engine_free(l.engine);
    free(l.lines);
    return status;
}
