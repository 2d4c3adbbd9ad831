/* Continuing a text: encodes the prompt, runs it, then chooses, writes and runs one token after the other. */
#include "base/sized_options.h"
#include "generate/generate.h"
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

struct generation {
    struct qkv_context *ctx;
    struct qkv_model *model;
    const struct qkv_generate_options *options;
    struct qkv_session *session;
    bool given;               /* the session is the caller's: when it is full, the tokens end */
    struct qkv_prompt prompt; /* its ids, followed by all new ones */
    size_t capacity;
    struct qkv_text_stream stream;
    struct qkv_constraint_place place;
    struct qkv_generate_report report;
};

/* ---- ids -------------------------------------------------------------------------------------------------------- */

/* Texts of up to so many tokens take the memory of their ids before the first one. */
enum { RESERVED_IDS = 1 << 16 };

static enum qkv_status reserve_ids(struct generation *g, size_t more) {
    struct qkv_prompt *p = &g->prompt;
    int32_t *ids = qkv_list_room(g->ctx, p->ids, &g->capacity, p->count, more, sizeof *ids);
    if (!ids) return QKV_MEMORY;
    p->ids = ids;
    return QKV_OK;
}

static enum qkv_status add_id(struct generation *g, int32_t id) {
    enum qkv_status status = reserve_ids(g, 1);
    if (!status) g->prompt.ids[g->prompt.count++] = id;
    return status;
}

/* ---- the model -------------------------------------------------------------------------------------------------- */

/* Runs the newest token. A full context drops its older half, and the rest is run again from position 0. */
static enum qkv_status run_newest(struct generation *g) {
    size_t context = qkv_session_capacity(g->session), n = 1;
    if (qkv_session_length(g->session) == context) {
        qkv_session_truncate(g->session, 0);
        n = context > 1 ? context / 2 : 1;
    }
    return qkv_session_append(g->session, g->prompt.ids + g->prompt.count - n, n);
}

/* Chooses a token and writes its text; *ended: it was the last. */
static enum qkv_status make_token(struct generation *g, bool *ended) {
    int32_t id;
    size_t size = 0;
    enum qkv_status status =
        qkv_prompt_sample(g->ctx, &g->prompt, &g->options->sampling, qkv_session_logits(g->session), g->prompt.ids,
                          g->prompt.count, &g->place, (uint64_t)g->report.tokens, &id);
    if (status) return status;
    struct qkv_made_token token = {.id = id, .end = qkv_prompt_ends(g->options, id)};
    *ended = token.end;
    if (!token.end) {
        const char *text = qkv_prompt_token(&g->prompt, id, g->report.tokens == 0, &size);
        status = add_id(g, id);
        if (!status)
            status = qkv_prompt_is_whole(g->ctx, &g->prompt, g->prompt.ids, g->prompt.count, &g->place, ended);
        g->report.tokens++;
        if (text && !status) status = qkv_text_stream_put(&g->stream, text, size);
        *ended = token.stop = *ended || g->stream.stopped;
    }
    if (!status && !qkv_token_tell(g->model, g->options, token, qkv_session_logits(g->session)))
        status = qkv_generate_stopped(g->ctx);
    return status;
}

static enum qkv_status make_tokens(struct generation *g) {
    enum qkv_status status = QKV_OK;
    bool ended = false;
    for (size_t i = 0; i < g->prompt.tokens && !ended && !status; i++) {
        if (i > 0 && g->given && qkv_session_length(g->session) == qkv_session_capacity(g->session)) break;
        if (i > 0) status = run_newest(g);
        if (!status) status = make_token(g, &ended);
    }
    g->report.stopped = ended;
    return status ? status : qkv_text_stream_end(&g->stream);
}

/* Reads the prompt into the session, whose first `kept` positions have the first ids of it, then makes tokens. */
static enum qkv_status generate_in(struct generation *g, size_t kept, double start) {
    enum qkv_status status = reserve_ids(g, qkv_min(g->prompt.tokens, (size_t)RESERVED_IDS));
    if (!status) status = qkv_text_stream_reserve(&g->stream);
    if (!status) status = qkv_session_append(g->session, g->prompt.ids + kept, g->prompt.count - kept);
    if (status) g->report.prompt_tokens = 0;
    const double middle = qkv_clock();
    if (!status) status = make_tokens(g);
    g->report.prompt_seconds = middle - start;
    g->report.seconds = qkv_clock() - middle;
    return status;
}

static enum qkv_status generate_read(struct generation *g, const char *prompt, size_t size) {
    const enum qkv_status status = qkv_prompt_read(g->model, prompt, size, g->options, &g->prompt);
    g->capacity = g->prompt.count;
    g->report.prompt_tokens = g->prompt.skipped ? 0 : g->prompt.count;
    g->report.long_prompt = g->prompt.found;
    return status;
}

static enum qkv_status generate_all(struct generation *g, const char *prompt, size_t size) {
    const double start = qkv_clock();
    enum qkv_status status = generate_read(g, prompt, size);
    if (status || g->prompt.skipped) return status;
    const struct qkv_session_options session = {.size = sizeof session,
                                                .capacity = g->options->context,
                                                .length = qkv_prompt_length(g->model, g->options, &g->prompt)};
    status = qkv_session_create(g->model, &session, &g->session);
    return status ? status : generate_in(g, 0, start);
}

/* The scores after the last id are needed, so that it is read again if the session has it. */
static enum qkv_status generate_go_on(struct generation *g, size_t kept) {
    const double start = qkv_clock();
    enum qkv_status status = generate_read(g, NULL, 0);
    if (status) return status;
    if (kept > g->prompt.count - 1) kept = g->prompt.count - 1;
    qkv_session_truncate(g->session, kept);
    g->report.prompt_tokens -= kept;
    return generate_in(g, kept, start);
}

void qkv_generate_options_init(struct qkv_generate_options *options, size_t size) {
    const struct qkv_generate_options usual = {
        .size = sizeof usual, .sampling = qkv_sampling_defaults(), .tokens = 200, .end_id = -1};
    qkv_options_init(options, size, &usual, sizeof usual);
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

static struct generation generate_begin(struct qkv_model *model, const struct qkv_generate_options *options,
                                        qkv_write_text *write, void *user) {
    struct qkv_context *ctx = qkv_model_context(model);
    return (struct generation){
        .ctx = ctx,
        .model = model,
        .options = options,
        .stream = {
            .ctx = ctx, .stops = options->stops, .stop_count = options->stop_count, .write = write, .user = user}};
}

static void generate_end(struct generation *g, struct qkv_generate_report *report) {
    if (report) *report = g->report;
    qkv_text_stream_free(&g->stream);
    if (!g->given) qkv_session_free(g->session);
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
    struct generation g = generate_begin(model, &own, write, user);
    if (!status) status = generate_all(&g, prompt, prompt_size);
    generate_end(&g, report);
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
    struct generation g = generate_begin(model, &own, write, user);
    g.session = session;
    g.given = true;
    if (!status) status = generate_go_on(&g, kept);
    generate_end(&g, report);
    return status;
}
