/* generate_several: several continuations of one prompt. The prompt is run once, and its keys and values are stored
 * once; each continuation is a row of a decoder, with a seed of its own. */
#include "base/sized_options.h"
#include "generate/generate.h"
#include "model/decode.h"

#include <stdlib.h>
#include <string.h>

enum { SIDE_BY_SIDE = 256 }; /* limit of continuations that run together */

struct several_row {
    size_t index;
    int32_t *ids; /* those of the prompt, followed by all new ones */
    struct qkv_text_stream stream;
    struct qkv_constraint_place place;
};

struct several {
    struct qkv_model *model;
    struct qkv_context *ctx;
    const struct qkv_generate_options *options;
    struct qkv_decoder *decoder;
    struct qkv_prompt prompt;
    size_t context, rows, made; /* positions held at most; continuations still running; tokens of each so far */
    bool given;                 /* a token has been chosen */
    struct several_row *row;    /* (rows) */
    struct several_listener *listeners;
    size_t *from, *counts; /* (rows) */
    int32_t *next;         /* the model's next input */
    struct qkv_generate_report report;
};

struct several_listener {
    qkv_write_continuation *write;
    void *user;
    size_t index;
};

static bool several_write(void *user, const char *text, size_t size) {
    const struct several_listener *l = user;
    return l->write(l->user, l->index, text, size);
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

/* Counts the pages: whole pages of the prompt are shared, the others belong to one row each. 0 (the default, all
 * apart) if the context is too short: then rows begin again and share nothing. */
static size_t several_pages(const struct several *s, size_t count) {
    const struct qkv_page_shape shape = {.length = s->context, .sequences = count};
    const size_t positions = qkv_page_positions(&shape), whole = s->prompt.count / positions;
    size_t longest;
    if (!qkv_add_size(s->prompt.count, s->prompt.tokens, &longest) || longest > s->context) return 0;
    return whole + count * (qkv_page_count(positions, longest) - whole);
}

static void several_drop(struct several_row *r) {
    qkv_text_stream_free(&r->stream);
    qkv_free(r->ids);
}

/* Allocates the rows of the continuations first to first + count - 1. */
static enum qkv_status several_take(struct several *s, size_t first, size_t count, qkv_write_continuation *write,
                                    void *user) {
    const size_t max_tokens = s->prompt.count + s->prompt.tokens, fed = s->context / 2 + 1;
    size_t numbers;
    if (max_tokens < s->prompt.count || !qkv_multiply(count, fed, &numbers))
        return qkv_fail(s->ctx, QKV_MEMORY, "%zu continuations of %zu tokens are more than this machine can address",
                        count, s->prompt.tokens);
    s->row = qkv_allocate(s->ctx, count, sizeof *s->row);
    s->listeners = qkv_allocate(s->ctx, count, sizeof *s->listeners);
    s->from = qkv_allocate(s->ctx, count, sizeof *s->from);
    s->counts = qkv_allocate(s->ctx, count, sizeof *s->counts);
    s->next = qkv_allocate(s->ctx, numbers, sizeof *s->next);
    if (!s->row || !s->listeners || !s->from || !s->counts || !s->next) return QKV_MEMORY;
    for (; s->rows < count; s->rows++) {
        struct several_row *r = &s->row[s->rows];
        r->ids = qkv_allocate(s->ctx, max_tokens, sizeof *r->ids);
        if (!r->ids) return QKV_MEMORY;
        memcpy(r->ids, s->prompt.ids, s->prompt.count * sizeof *r->ids);
        r->index = first + s->rows;
        s->listeners[s->rows] = (struct several_listener){write, user, r->index};
        r->stream = (struct qkv_text_stream){.ctx = s->ctx,
                                             .stops = s->options->stops,
                                             .stop_count = s->options->stop_count,
                                             .write = write ? several_write : NULL,
                                             .user = &s->listeners[s->rows]};
        const enum qkv_status status = qkv_text_stream_reserve(&r->stream);
        if (status) {
            several_drop(r);
            return status;
        }
    }
    return QKV_OK;
}

/* ---- running ---------------------------------------------------------------------------------------------------- */

/* One row runs the prompt; all rows continue from it. */
static enum qkv_status several_begin(struct several *s) {
    const size_t count = s->rows, zero = 0;
    struct qkv_decoder_options options = {
        .size = sizeof options, .rows = count, .capacity = s->context, .pages = several_pages(s, count), .chunk = 1};
    size_t *lengths = qkv_allocate(s->ctx, count, sizeof *lengths);
    for (size_t i = 0; lengths && i < count; i++) lengths[i] = qkv_prompt_length(s->model, s->options, &s->prompt);
    options.lengths = lengths;
    s->decoder = lengths ? qkv_decoder_allocate(s->model) : NULL;
    enum qkv_status status = s->decoder ? qkv_decoder_begin(s->decoder, &options) : QKV_MEMORY;
    qkv_free(lengths);
    if (!status) status = qkv_decoder_move(s->decoder, &zero, 1);
    if (!status)
        status =
            qkv_decoder_grow(s->decoder, &(struct qkv_decoder_input){.ids = s->prompt.ids, .counts = &s->prompt.count});
    memset(s->from, 0, count * sizeof *s->from);
    return status ? status : qkv_decoder_select(s->decoder, s->from, count);
}

/* Chooses a token of a row and writes its text; *ended: it was the last. */
static enum qkv_status several_token(struct several *s, size_t row, bool *ended) {
    struct several_row *r = &s->row[row];
    const size_t count = s->prompt.count + s->made;
    struct qkv_sampling sampling = s->options->sampling;
    sampling.seed += r->index;
    enum qkv_status status = qkv_prompt_sample(s->ctx, &s->prompt, &sampling,
                                               qkv_decoder_logits(s->decoder) + row * (size_t)s->model->spec.vocab,
                                               r->ids, count, &r->place, (uint64_t)s->made, &r->ids[count]);
    if (status) return status;
    struct qkv_made_token token = {.index = r->index, .id = r->ids[count]};
    s->given = true;
    *ended = token.end = qkv_prompt_ends(s->options, token.id);
    if (!token.end) {
        size_t size = 0;
        const char *text = qkv_prompt_token(&s->prompt, token.id, s->made == 0, &size);
        s->report.tokens++;
        status = qkv_prompt_is_whole(s->ctx, &s->prompt, r->ids, count + 1, &r->place, ended);
        if (text && !status) status = qkv_text_stream_put(&r->stream, text, size);
        *ended = token.stop = *ended || r->stream.stopped;
    }
    if (!status && !qkv_token_tell(s->model, s->options, token,
                                   qkv_decoder_logits(s->decoder) + row * (size_t)s->model->spec.vocab))
        status = qkv_generate_stopped(s->ctx);
    return status;
}

/* Chooses a token for each row, and drops the rows that have ended. */
static enum qkv_status several_choose(struct several *s) {
    size_t going = 0;
    for (size_t i = 0; i < s->rows; i++) {
        bool ended = false;
        enum qkv_status status = several_token(s, i, &ended);
        if (!status && ended) status = qkv_text_stream_end(&s->row[i].stream);
        if (status) return status;
        if (ended) continue;
        const struct several_row swap = s->row[going];
        s->row[going] = s->row[i];
        if (going < i) s->row[i] = swap;
        s->from[going++] = i;
    }
    s->made++;
    for (size_t i = going; i < s->rows; i++) several_drop(&s->row[i]);
    const bool fewer = going < s->rows;
    s->rows = going;
    return going && fewer ? qkv_decoder_move(s->decoder, s->from, going) : QKV_OK;
}

/* Runs the newest tokens. Full contexts drop their older halves, and the rest is run again from position 0. */
static enum qkv_status several_run(struct several *s) {
    size_t n = 1;
    if (qkv_decoder_length(s->decoder) == s->context) {
        for (size_t i = 0; i < s->rows; i++) qkv_decoder_shorten(s->decoder, i, 0);
        n = s->context > 1 ? s->context / 2 : 1;
    }
    for (size_t i = 0; i < s->rows; i++) {
        memcpy(s->next + i * n, s->row[i].ids + s->prompt.count + s->made - n, n * sizeof *s->next);
        s->counts[i] = n;
    }
    return qkv_decoder_grow(s->decoder, &(struct qkv_decoder_input){.ids = s->next, .counts = s->counts});
}

static enum qkv_status several_make(struct several *s) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < s->prompt.tokens && s->rows && !status; i++) {
        if (i > 0) status = several_run(s);
        if (!status) status = several_choose(s);
    }
    s->report.stopped &= !s->rows;
    for (size_t i = 0; i < s->rows && !status; i++) status = qkv_text_stream_end(&s->row[i].stream);
    return status;
}

static void several_forget(struct several *s) {
    for (size_t i = 0; i < s->rows; i++) several_drop(&s->row[i]);
    qkv_decoder_free(s->decoder);
    qkv_free(s->row), qkv_free(s->listeners), qkv_free(s->from), qkv_free(s->counts), qkv_free(s->next);
    s->rows = s->made = 0;
    s->decoder = NULL;
    s->row = NULL;
    s->listeners = NULL;
    s->from = s->counts = NULL;
    s->next = NULL;
}

/* Runs the continuations first to first + count - 1 together. */
static enum qkv_status several_run_some(struct several *s, size_t first, size_t count, qkv_write_continuation *write,
                                        void *user) {
    const double start = qkv_clock();
    enum qkv_status status = several_take(s, first, count, write, user);
    if (!status) status = several_begin(s);
    const double middle = qkv_clock();
    if (!status) status = several_make(s);
    s->report.prompt_seconds += middle - start;
    s->report.seconds += qkv_clock() - middle;
    several_forget(s);
    return status;
}

/* Runs as many continuations at a time as the memory allows. */
static enum qkv_status several_all(struct several *s, size_t count, qkv_write_continuation *write, void *user) {
    size_t side = count < SIDE_BY_SIDE ? count : SIDE_BY_SIDE;
    enum qkv_status status = QKV_OK;
    s->report.stopped = true;
    for (size_t first = 0; first < count && !status;) {
        const size_t left = count - first, some = left < side ? left : side;
        s->given = false;
        status = several_run_some(s, first, some, write, user);
        if (status == QKV_MEMORY && !s->given && some > 1) {
            qkv_forgive(s->ctx);
            status = QKV_OK;
            side = some / 2;
        } else {
            first += some;
        }
    }
    return status;
}

enum qkv_status qkv_generate_several(struct qkv_model *model, const char *prompt, size_t prompt_size,
                                     const struct qkv_generate_options *options, size_t count,
                                     qkv_write_continuation *write, void *user, struct qkv_generate_report *report) {
    QKV_CALL(qkv_model_context(model));
    QKV_NEED(qkv_call, model);
    QKV_NEED_ALL(qkv_call, prompt_size, prompt);
    struct qkv_generate_options own = qkv_generate_defaults();
    enum qkv_status status = QKV_TAKE_OPTIONS(qkv_call, qkv_generate_options, &own, options);
    options = &own;
    struct several s = {.model = model, .ctx = qkv_model_context(model), .options = options};
    if (!status) status = qkv_prompt_check(model, options);
    if (!status && (count < 1 || count > (size_t)1 << 20))
        status = qkv_fail(s.ctx, QKV_ARGUMENT, "the number of continuations is %zu; it must be from 1 to %zu", count,
                          (size_t)1 << 20);
    if (!status) status = qkv_session_check(model, 0);
    if (!status) status = qkv_prompt_read(model, prompt, prompt_size, options, &s.prompt);
    s.context = qkv_prompt_context(model, options);
    s.report.prompt_tokens = status || s.prompt.skipped ? 0 : s.prompt.count;
    s.report.long_prompt = s.prompt.found;
    if (!status && !s.prompt.skipped) status = several_all(&s, count, write, user);
    if (report) *report = s.report;
    qkv_prompt_free(&s.prompt);
    return status;
}
