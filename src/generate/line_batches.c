/* Lines of text in batches of similar length, so that little is computed for padding. In fp32, the bits of a row do
 * not depend on the other rows and the padding; so a line's result does not depend on its neighbours. */
#include "base/sized_options.h"
#include "generate/line_batches.h"
#include "model/decode.h"
#include "text/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    WINDOW = 4096, /* lines tokenized and sorted at a time */
    ROWS = QKV_LINE_ROWS
};

struct line {
    size_t index, count;
    int32_t *ids, *types; /* types NULL: all 0 */
};

struct window {
    struct line *lines;
    size_t count;
    int32_t *ids, *types, lengths[ROWS];
    size_t capacity, indices[ROWS];
};

enum qkv_status qkv_lines_check(struct qkv_model *model, const char *doing) {
    if (qkv_model_source_tokenizer(model)) return QKV_OK;
    return qkv_tokenizer_missing(model->ctx, model->origin.tokenizer, doing,
                                 qkv_model_tokenizer(model) ? QKV_SOURCE_FILE : QKV_TOKENIZER_FILE, "");
}

/* Sorts by length; lines of one length stay in their order, so that batches are the same every time. */
static int by_length(const void *a, const void *b) {
    const struct line *x = a, *y = b;
    if (x->count != y->count) return x->count < y->count ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

void qkv_line_options_init(struct qkv_line_options *options, size_t size) {
    static const struct qkv_line_options usual = {.size = sizeof usual, .long_lines = QKV_LONG_ERROR};
    qkv_options_init(options, size, &usual, sizeof usual);
}

enum qkv_status qkv_line_refuse(struct qkv_context *ctx, const char *what, size_t line, size_t tokens, size_t context) {
    return qkv_fail(ctx, QKV_ARGUMENT,
                    "%s %zu has %zu tokens, but the model's context is %zu; shorten it or cut it in two, or choose "
                    "what becomes of long lines (option long = skip, keep-start or keep-end)",
                    what, line + 1, tokens, context);
}

static enum qkv_status read_line(const struct qkv_line_reader *l, const char *text, size_t index, struct window *w) {
    struct qkv_context *ctx = qkv_model_context(l->model);
    const struct qkv_tokenizer *tokenizer = qkv_model_source_tokenizer(l->model);
    const size_t size = text ? strlen(text) : 0;
    const size_t context = (size_t)qkv_model_spec(l->model)->context, max = l->options->max_tokens;
    const struct qkv_long_rule rule = {
        .kind = l->options->long_lines, .most = max && max < context ? max : context, .found = l->options->long_count};
    if (text && qkv_is_blank(text, size)) return QKV_OK;
    struct line *line = &w->lines[w->count];
    *line = (struct line){.index = index};
    if (l->encode_typed) {
        const enum qkv_status typed = l->encode_typed(l->user, index, &rule, &line->ids, &line->types, &line->count);
        w->count += !typed && line->count;
        return typed;
    }
    enum qkv_status status =
        l->encode ? l->encode(l->user, index, &line->ids, &line->count)
                  : qkv_source_encode(ctx, tokenizer, text, size, l->begin, l->end, &line->ids, &line->count);
    if (status || !line->count) return status;
    const enum qkv_long_fate fate =
        qkv_long_apply(&rule, qkv_source_frame(tokenizer, l->begin, l->end), line->ids, &line->count);
    if (fate == QKV_FATE_SKIPPED) {
        qkv_free(line->ids);
        return QKV_OK;
    }
    w->count++;
    if (fate == QKV_FATE_REFUSED && rule.most < context)
        return qkv_fail(ctx, QKV_ARGUMENT, "%s %zu has %zu tokens, more than the limit of %zu; shorten it",
                        l->what ? l->what : "line", index + 1, line->count, rule.most);
    return fate == QKV_FATE_REFUSED ? qkv_line_refuse(ctx, l->what ? l->what : "line", index, line->count, rule.most)
                                    : QKV_OK;
}

/* Runs the rows [first, first + B) of the window, each of at most T tokens. */
static enum qkv_status run_batch(const struct qkv_line_reader *l, struct window *w, size_t first, size_t B, size_t T) {
    if (B * T > w->capacity) {
        int32_t *ids = qkv_reallocate(qkv_model_context(l->model), w->ids, B * T, sizeof *ids);
        if (!ids) return QKV_MEMORY;
        w->ids = ids;
        int32_t *types = qkv_reallocate(qkv_model_context(l->model), w->types, B * T, sizeof *types);
        if (!types) return QKV_MEMORY;
        w->types = types;
        w->capacity = B * T;
    }
    if (l->encode_typed) memset(w->types, 0, B * T * sizeof *w->types);
    for (size_t b = 0; b < B; b++) {
        const struct line *line = &w->lines[first + b];
        memcpy(w->ids + b * T, line->ids, line->count * sizeof *line->ids);
        if (line->types) memcpy(w->types + b * T, line->types, line->count * sizeof *line->types);
        w->lengths[b] = (int32_t)line->count;
        w->indices[b] = line->index;
    }
    return l->run(l->user, &(struct qkv_line_batch){.B = B,
                                                    .T = T,
                                                    .ids = w->ids,
                                                    .types = l->encode_typed ? w->types : NULL,
                                                    .lengths = w->lengths,
                                                    .lines = w->indices});
}

static enum qkv_status run_window(const struct qkv_line_reader *l, struct window *w) {
    enum qkv_status status = QKV_OK;
    qsort(w->lines, w->count, sizeof *w->lines, by_length);
    for (size_t first = 0, B; first < w->count && !status; first += B) {
        for (B = 1; first + B < w->count && B < qkv_line_rows(w->lines[first + B].count);) B++;
        status = run_batch(l, w, first, B, w->lines[first + B - 1].count);
    }
    return status;
}

static void line_batches_clear(struct window *w) {
    for (size_t i = 0; i < w->count; i++) {
        qkv_free(w->lines[i].ids);
        qkv_free(w->lines[i].types);
    }
    w->count = 0;
}

enum qkv_status qkv_lines_run(const struct qkv_line_reader *l, const char *const *texts, size_t count) {
    size_t room = count < WINDOW ? count : WINDOW;
    struct window w = {.lines = qkv_allocate(qkv_model_context(l->model), room, sizeof *w.lines)};
    enum qkv_status status = w.lines ? QKV_OK : QKV_MEMORY;
    for (size_t i = 0; i < count && !status;) {
        size_t end = count - i < WINDOW ? count : i + WINDOW;
        for (; i < end && !status; i++) status = read_line(l, l->encode || l->encode_typed ? NULL : texts[i], i, &w);
        if (!status) status = run_window(l, &w);
        line_batches_clear(&w);
    }
    free(w.lines);
    free(w.ids);
    free(w.types);
    return status;
}
