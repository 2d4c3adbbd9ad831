/* Continuing a text: tokenize the prompt, run it, then choose, give out and run one token after another. */
#include "generate/generate.h"
#include "model/model.h"
#include "text/text.h"

#include <stdlib.h>
#include <string.h>

struct generation {
    struct qkv_context *ctx;
    const struct qkv_generate_options *options;
    struct qkv_session *session;
    struct qkv_prompt prompt; /* its ids, and behind them all that were made */
    size_t capacity;
    struct qkv_text_stream stream;
    struct qkv_generate_report report;
};

enum qkv_status qkv_prompt_check(struct qkv_model *model, const struct qkv_generate_options *o) {
    struct qkv_context *ctx = qkv_model_context(model);
    int vocab = qkv_model_spec(model)->vocab;
    if (!qkv_model_tokenizer(model))
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "this model has no tokenizer, so it cannot read or write text; put its tokenizer.json into the "
                        "model folder");
    if (o->end_id < -1 || o->end_id >= vocab)
        return qkv_fail(ctx, QKV_ARGUMENT, "end_id is %d; it must be a token, 0 to %d, or -1 for none", (int)o->end_id,
                        vocab - 1);
    for (size_t i = 0; i < o->stop_count; i++)
        if (!o->stops[i] || !*o->stops[i])
            return qkv_fail(ctx, QKV_ARGUMENT, "stop text %zu is empty: it would end every text at once; leave it out",
                            i + 1);
    return qkv_sampling_check(ctx, &o->sampling);
}

/* ---- ids ------------------------------------------------------------------------------------------------------------ */

static enum qkv_status add_id(struct generation *g, int32_t id) {
    struct qkv_prompt *p = &g->prompt;
    int32_t *ids = qkv_list_room(g->ctx, p->ids, &g->capacity, p->count, 1, sizeof *ids);
    if (!ids) return QKV_MEMORY;
    p->ids = ids;
    p->ids[p->count++] = id;
    return QKV_OK;
}

/* The prompt as a sequence, with what the tokenizer's template places around it. Without a token there is none to continue
 * from: a newline stands for the start of a line. */
enum qkv_status qkv_prompt_read(struct qkv_model *model, const char *text, size_t size, struct qkv_prompt *p) {
    struct qkv_context *ctx = qkv_model_context(model);
    const size_t vocab = (size_t)qkv_model_spec(model)->vocab;
    p->tokenizer = qkv_model_tokenizer(model);
    p->empty = size == 0;
    p->vocab = (size_t)qkv_tokenizer_vocab(p->tokenizer);
    if (p->vocab > vocab) p->vocab = vocab;
    enum qkv_status status =
        qkv_tokenizer_encode_sequence(ctx, p->tokenizer, size ? text : "", size, true, &p->ids, &p->count);
    if (!status && p->count == 0) {
        qkv_free(p->ids);
        p->ids = NULL;
        status = qkv_tokenizer_encode(ctx, p->tokenizer, "\n", 1, false, &p->ids, &p->count);
    }
    if (status || p->count > 0) return status;
    qkv_free(p->ids);
    p->ids = qkv_allocate(ctx, 1, sizeof *p->ids); /* token 0 */
    p->count = p->ids != NULL;
    return p->ids ? QKV_OK : QKV_MEMORY;
}

const char *qkv_prompt_token(const struct qkv_prompt *p, int32_t id, bool first, size_t *size) {
    const char *text = qkv_tokenizer_token(p->tokenizer, id, size);
    const bool space = text && first && p->empty && p->tokenizer->whole_words && *size > 1 && *text == ' ';
    *size -= space;
    return text ? text + space : NULL;
}

enum qkv_status qkv_prompt_fit(struct qkv_context *ctx, const struct qkv_prompt *p, size_t context) {
    if (p->count <= context) return QKV_OK;
    return qkv_fail(ctx, QKV_ARGUMENT,
                    "the prompt has %zu tokens, but the model's context holds %zu; shorten the prompt by %zu tokens, "
                    "or take a model with a longer context",
                    p->count, context, p->count - context);
}

/* ---- the model ------------------------------------------------------------------------------------------------------ */

static enum qkv_status run_prompt(struct generation *g) {
    enum qkv_status status = qkv_prompt_fit(g->ctx, &g->prompt, qkv_session_capacity(g->session));
    return status ? status : qkv_session_append(g->session, g->prompt.ids, g->prompt.count);
}

/* Runs the newest token. A full context forgets its older half, and the rest is run again from position 0. */
static enum qkv_status run_newest(struct generation *g) {
    size_t context = qkv_session_capacity(g->session), n = 1;
    if (qkv_session_length(g->session) == context) {
        qkv_session_truncate(g->session, 0);
        n = context > 1 ? context / 2 : 1;
    }
    return qkv_session_append(g->session, g->prompt.ids + g->prompt.count - n, n);
}

/* Chooses a token and gives out its text; *ended when it was the last. */
static enum qkv_status make_token(struct generation *g, bool *ended) {
    int32_t id;
    size_t size = 0;
    enum qkv_status status =
        qkv_prompt_sample(g->ctx, &g->prompt, &g->options->sampling, qkv_session_logits(g->session), g->prompt.ids,
                          g->prompt.count, (uint64_t)g->report.tokens, &id);
    if (status) return status;
    *ended = id == g->options->end_id;
    if (*ended) return QKV_OK;
    g->report.tokens++;
    const char *text = qkv_prompt_token(&g->prompt, id, g->report.tokens == 1, &size);
    status = text ? qkv_text_stream_put(&g->stream, text, size) : QKV_OK;
    *ended = g->stream.stopped;
    return status ? status : add_id(g, id);
}

static enum qkv_status make_tokens(struct generation *g) {
    enum qkv_status status = QKV_OK;
    bool ended = false;
    for (size_t i = 0; i < g->options->tokens && !ended && !status; i++) {
        if (i > 0) status = run_newest(g);
        if (!status) status = make_token(g, &ended);
    }
    g->report.stopped = ended;
    return status ? status : qkv_text_stream_end(&g->stream);
}

static enum qkv_status generate_all(struct generation *g, struct qkv_model *model, const char *prompt, size_t size) {
    double start = qkv_clock();
    enum qkv_status status = qkv_prompt_read(model, prompt, size, &g->prompt);
    g->capacity = g->report.prompt_tokens = g->prompt.count;
    if (!status) status = qkv_session_create(model, 0, &g->session);
    if (!status) status = run_prompt(g);
    double middle = qkv_clock();
    if (!status) status = make_tokens(g);
    g->report.prompt_seconds = middle - start;
    g->report.seconds = qkv_clock() - middle;
    return status;
}

struct qkv_generate_options qkv_generate_defaults(void) {
    return (struct qkv_generate_options){.sampling = qkv_sampling_defaults(), .tokens = 200, .end_id = -1};
}

enum qkv_status qkv_generate_check_memory(struct qkv_model *plan) {
    QKV_CALL(qkv_model_context(plan));
    size_t bytes = 0;
    enum qkv_status status = qkv_model_add_packed(plan, false);
    if (!status) status = qkv_session_measure(plan, 0, &bytes);
    return status ? status : qkv_memory_check(plan->ctx, qkv_model_bytes(plan) + bytes, "generating", NULL);
}

enum qkv_status qkv_generate(struct qkv_model *model, const char *prompt, size_t prompt_size,
                             const struct qkv_generate_options *options, qkv_write_text *write, void *user,
                             struct qkv_generate_report *report) {
    QKV_CALL(qkv_model_context(model));
    enum qkv_status status = qkv_prompt_check(model, options);
    struct generation g = {.ctx = qkv_model_context(model), .options = options};
    if (!status) {
        g.stream = (struct qkv_text_stream){
            .ctx = g.ctx, .stops = options->stops, .stop_count = options->stop_count, .write = write, .user = user};
        status = generate_all(&g, model, prompt, prompt_size);
    }
    if (report) *report = g.report;
    qkv_text_stream_free(&g.stream);
    qkv_session_free(g.session);
    qkv_free(g.prompt.ids);
    return status;
}
