/* Continuing a text, once or several times: an engine makes the tokens, in the row of a session, or in those of a
 * decoder whose rows have the prompt in common. */
#include "base/sized_options.h"
#include "generate/engine.h"

#include <string.h>

enum { SIDE_BY_SIDE = 256 }; /* limit of continuations that run together */

struct generation {
    struct qkv_context *ctx;
    struct qkv_model *model;
    const struct qkv_generate_options *options;
    struct qkv_prompt prompt;
    qkv_write_continuation *write;
    void *user;
    bool ends;             /* at the end of the context; else its older half is dropped */
    bool given;            /* a token has been made */
    size_t first, stopped; /* the number of the first continuation of an engine; those that have stopped */
    double middle;         /* when an engine had read the prompt; 0: not yet */
    struct qkv_generate_report report;
};

/* ---- what is made ------------------------------------------------------------------------------------------------ */

static bool generation_tell_token(struct generation *g, const struct qkv_engine_event *event) {
    const struct qkv_generate_options *o = g->options;
    const struct qkv_tokenizer *tokenizer = qkv_model_tokenizer(g->model);
    struct qkv_made_token token = {.index = g->first + event->answer,
                                   .id = event->token.id,
                                   .log_probability = event->token.log_probability,
                                   .end = qkv_prompt_ends(o, event->token.id)};
    if (!o->take_token) return true;
    token.stop = event->finish == QKV_FINISH_STOP && !token.end;
    token.text = tokenizer ? qkv_tokenizer_token(tokenizer, token.id, &token.size) : NULL;
    if (!token.text) token.size = 0;
    return o->take_token(o->take_user, &token);
}

static enum qkv_status generation_hear(struct generation *g, const struct qkv_engine_told *told) {
    const struct qkv_engine_event *event = &told->event;
    const size_t index = g->first + event->answer;
    const bool made = event->token.id >= 0;
    if (event->finish == QKV_FINISH_FAILED) return qkv_fail(g->ctx, told->status, "%s", event->message);
    g->given = g->given || made;
    g->stopped += event->finish == QKV_FINISH_STOP;
    g->report.tokens += made && !qkv_prompt_ends(g->options, event->token.id);
    const bool more = !event->size || !g->write || g->write(g->user, index, event->text, event->size);
    if (more && (!made || generation_tell_token(g, event))) return QKV_OK;
    return qkv_generate_stopped(g->ctx);
}

static enum qkv_status generation_step(struct generation *g, struct qkv_engine *e, bool *busy) {
    struct qkv_engine_told *told;
    enum qkv_status status = qkv_engine_step(e, busy);
    if (g->middle == 0) g->middle = qkv_clock();
    while (!status && (told = qkv_engine_take(e))) {
        status = generation_hear(g, told);
        qkv_engine_told_drop(e, told);
    }
    return status;
}

/* Makes `count` continuations in the rows of a decoder, the first of which may hold the beginning of the prompt. */
static enum qkv_status generation_run(struct generation *g, struct qkv_decoder *decoder, size_t count, double start) {
    struct qkv_generate_options options = *g->options;
    const struct qkv_engine_prompt prompt = {
        .prompt = &g->prompt, .options = &options, .answers = count, .rolls = !g->ends};
    struct qkv_engine *e = NULL;
    uint64_t id;
    size_t again;
    bool busy = true;
    if (!qkv_multiply(count, decoder->capacity / 2 + 1, &again)) /* all rows drop their older halves */
        return qkv_fail_memory(g->ctx, SIZE_MAX, "the continuations");
    options.sampling.seed += g->first;
    g->middle = 0;
    enum qkv_status status = qkv_engine_open_rows(decoder, qkv_max(again, decoder->capacity), &e);
    if (!status) status = qkv_engine_submit_prompt(e, &prompt, &id);
    while (busy && !status) status = generation_step(g, e, &busy);
    qkv_engine_free(e);
    if (g->middle == 0) g->middle = qkv_clock();
    g->report.prompt_seconds += g->middle - start;
    g->report.seconds += qkv_clock() - g->middle;
    return status;
}

/* ---- one continuation -------------------------------------------------------------------------------------------- */

static enum qkv_status generation_read(struct generation *g, const char *prompt, size_t size) {
    const enum qkv_status status = qkv_prompt_read(g->model, prompt, size, g->options, &g->prompt);
    g->report.prompt_tokens = status || g->prompt.skipped ? 0 : g->prompt.count;
    g->report.long_prompt = g->prompt.found;
    return status;
}

/* Makes a continuation in the row of a session, which holds the first `kept` ids of the prompt. */
static enum qkv_status generation_in(struct generation *g, struct qkv_session *session, size_t kept, double start) {
    struct qkv_decoder *decoder = qkv_session_decoder(session);
    const enum qkv_status status = generation_run(g, decoder, 1, start);
    g->report.stopped = g->stopped > 0;
    g->report.prompt_tokens -= kept;
    if (status && !g->given && decoder->reached[0] < g->prompt.count) g->report.prompt_tokens = 0;
    return status;
}

static enum qkv_status generate_all(struct generation *g, const char *prompt, size_t size) {
    const double start = qkv_clock();
    struct qkv_session *session = NULL;
    enum qkv_status status = generation_read(g, prompt, size);
    if (status || g->prompt.skipped) return status;
    const struct qkv_session_options options = {.size = sizeof options,
                                                .capacity = g->options->context,
                                                .length = qkv_prompt_length(g->model, g->options, &g->prompt)};
    status = qkv_session_create(g->model, &options, &session);
    if (!status) status = generation_in(g, session, 0, start);
    qkv_session_free(session);
    return status;
}

/* The scores after the last id are needed, so that it is read again if the session has it. */
static enum qkv_status generate_go_on(struct generation *g, struct qkv_session *session, size_t kept) {
    const double start = qkv_clock();
    const enum qkv_status status = generation_read(g, NULL, 0);
    if (status) return status;
    kept = qkv_min(kept, g->prompt.count - 1);
    qkv_session_truncate(session, kept);
    return generation_in(g, session, kept, start);
}

static enum qkv_status generate_check_memory(struct qkv_model *plan, size_t context) {
    size_t bytes = 0;
    enum qkv_status status = qkv_model_prepare(plan, false);
    if (!status) status = qkv_session_measure(plan, context, &bytes);
    return status ? status
                  : qkv_memory_check(plan->ctx, qkv_model_bytes(plan) + plan->file.memory + bytes, "generating", NULL);
}

enum qkv_status qkv_generate_check_memory(struct qkv_model *plan, size_t context) {
    QKV_CALL(qkv_model_context(plan));
    QKV_NEED(qkv_call, plan);
    return generate_check_memory(plan, context);
}

/* Writes the text of the only continuation. */
struct generation_writer {
    qkv_write_text *write;
    void *user;
};

static bool generation_write(void *user, size_t index, const char *text, size_t size) {
    const struct generation_writer *to = user;
    (void)index;
    return !to->write || to->write(to->user, text, size);
}

static struct generation generation_begin(struct qkv_model *model, const struct qkv_generate_options *options,
                                          qkv_write_continuation *write, void *user) {
    return (struct generation){
        .ctx = qkv_model_context(model), .model = model, .options = options, .write = write, .user = user};
}

static void generation_end(struct generation *g, struct qkv_generate_report *report) {
    if (report) *report = g->report;
    qkv_prompt_free(&g->prompt);
}

enum qkv_status qkv_generate(struct qkv_model *model, const char *prompt, size_t prompt_size,
                             const struct qkv_generate_options *options, qkv_write_text *write, void *user,
                             struct qkv_generate_report *report) {
    QKV_CALL(qkv_model_context(model));
    QKV_NEED(qkv_call, model);
    QKV_NEED_ALL(qkv_call, prompt_size, prompt);
    struct qkv_generate_options own = qkv_generate_defaults();
    enum qkv_status status = QKV_TAKE_OPTIONS(qkv_call, qkv_generate_options, &own, options);
    if (!status) status = qkv_prompt_check(model, &own);
    struct generation_writer to = {write, user};
    struct generation g = generation_begin(model, &own, generation_write, &to);
    if (!status) status = generate_all(&g, prompt, prompt_size);
    generation_end(&g, report);
    return status;
}

enum qkv_status qkv_session_generate(struct qkv_session *session, size_t kept,
                                     const struct qkv_generate_options *options, qkv_write_text *write, void *user,
                                     struct qkv_generate_report *report) {
    QKV_CALL(session ? qkv_model_context(qkv_session_model(session)) : NULL);
    QKV_NEED(qkv_call, session);
    struct qkv_model *model = qkv_session_model(session);
    struct qkv_generate_options own = qkv_generate_defaults();
    enum qkv_status status = QKV_TAKE_OPTIONS(qkv_call, qkv_generate_options, &own, options);
    own.context = qkv_session_capacity(session);
    own.long_prompt = QKV_LONG_ERROR;
    if (!status && !own.id_count)
        status = qkv_fail(qkv_call, QKV_ARGUMENT, "a session goes on with ids; give at least one");
    if (!status && kept > qkv_session_length(session))
        status = qkv_fail(qkv_call, QKV_ARGUMENT, "%zu positions cannot be kept: the session holds %zu", kept,
                          qkv_session_length(session));
    if (!status) status = qkv_prompt_check(model, &own);
    struct generation_writer to = {write, user};
    struct generation g = generation_begin(model, &own, generation_write, &to);
    g.ends = true;
    if (!status) status = generate_go_on(&g, session, kept);
    generation_end(&g, report);
    return status;
}

/* ---- several ----------------------------------------------------------------------------------------------------- */

/* Counts the pages: whole pages of the prompt are shared, the others belong to one row each. 0 (the default, all
 * apart) if the context is too short: then rows begin again and share nothing. */
static size_t several_pages(const struct generation *g, size_t context, size_t count) {
    const struct qkv_page_shape shape = {.length = context, .sequences = count};
    const size_t positions = qkv_page_positions(&shape), whole = g->prompt.count / positions;
    size_t longest;
    if (!qkv_add_size(g->prompt.count, g->prompt.tokens, &longest) || longest > context) return 0;
    return whole + count * (qkv_page_count(positions, longest) - whole);
}

/* Runs `count` continuations together. */
static enum qkv_status several_run(struct generation *g, size_t count) {
    const double start = qkv_clock();
    const size_t context = qkv_prompt_context(g->model, g->options);
    struct qkv_decoder_options options = {.size = sizeof options,
                                          .rows = count,
                                          .capacity = context,
                                          .pages = several_pages(g, context, count),
                                          .chunk = 1};
    size_t *lengths = qkv_allocate(g->ctx, count, sizeof *lengths);
    if (!lengths) return QKV_MEMORY;
    for (size_t i = 0; i < count; i++) lengths[i] = qkv_prompt_length(g->model, g->options, &g->prompt);
    options.lengths = lengths;
    struct qkv_decoder *decoder = qkv_decoder_allocate(g->model);
    enum qkv_status status = decoder ? qkv_decoder_begin(decoder, &options) : QKV_MEMORY;
    qkv_free(lengths);
    if (!status) status = generation_run(g, decoder, count, start);
    qkv_decoder_free(decoder);
    return status;
}

/* Runs as many continuations at a time as the memory allows. */
static enum qkv_status several_all(struct generation *g, size_t count) {
    size_t side = qkv_min(count, (size_t)SIDE_BY_SIDE);
    if (!g->prompt.tokens) count = side = 1; /* the prompt alone is read */
    enum qkv_status status = QKV_OK;
    while (g->first < count && !status) {
        const size_t some = qkv_min(count - g->first, side);
        g->given = false;
        status = several_run(g, some);
        if (status == QKV_MEMORY && !g->given && some > 1) {
            qkv_forgive(g->ctx);
            status = QKV_OK;
            side = some / 2;
        } else {
            g->first += some;
        }
    }
    g->report.stopped = g->stopped == count;
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
    struct generation g = generation_begin(model, &own, write, user);
    if (!status) status = qkv_prompt_check(model, &own);
    if (!status && (count < 1 || count > (size_t)1 << 20))
        status = qkv_fail(g.ctx, QKV_ARGUMENT, "the number of continuations is %zu; it must be from 1 to %zu", count,
                          (size_t)1 << 20);
    if (!status) status = qkv_session_check(model, 0);
    if (!status) status = generation_read(&g, prompt, prompt_size);
    if (!status && !g.prompt.skipped) status = several_all(&g, count);
    generation_end(&g, report);
    return status;
}
