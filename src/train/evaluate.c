/* Evaluation: the mean loss over any text file, window by window (validate_windows.c). Perplexity is e^loss; bits per
 * byte is nll / ln 2 / bytes of the text that the predicted tokens stand for (qkv_text_next), which makes models with
 * different tokenizers comparable. Of a model whose spec has a prefix the first half of each window is one, and what
 * follows is predicted; with documents each is predicted from its own tokens. */
#include <stdlib.h>
#include <string.h>

#include "base/math.h"
#include "base/sized_options.h"
#include "data/documents.h"
#include "data/sources.h"
#include "model/spec.h"
#include "text/text.h"
#include "rank/evaluate_share.h"
#include "train/evaluator.h"
#include "train/train.h"

/* A model that learnt with prefixes reads the first half of each window as one, of which no token counts but the one
 * behind it; the first token of a document that is apart does not count. */
static const int32_t *evaluate_targets(struct qkv_evaluator *e, size_t n) {
    const size_t T = e->sum.T;
    if (!e->targets) return e->ids + 1;
    memcpy(e->targets, e->ids + 1, n * sizeof *e->targets);
    for (size_t b = 0; b * T < n; b++) {
        const size_t length = n - b * T < T ? n - b * T : T;
        if (e->documents) qkv_row_documents(e->end, length, e->ids + b * T, e->targets + b * T, e->documents + b * T);
        if (!e->prefix) continue;
        e->prefix[b] = (int32_t)(length < T / 2 ? length : T / 2);
        qkv_row_ignore_prefix((int32_t)(T / 2), length, e->targets + b * T);
    }
    return e->targets;
}

/* Runs over what is held, but for its last token. */
enum qkv_status qkv_evaluator_flush(struct qkv_evaluator *e) {
    size_t n = e->held - 1;
    const int32_t *targets = evaluate_targets(e, n);
    enum qkv_status status = e->other ? qkv_against_add(&e->against, &e->sum, n, e->ids, targets)
                                      : qkv_windows_add(&e->sum, n, e->ids, targets);
    e->ids[0] = e->ids[n];
    e->held = 1;
    return status;
}

enum qkv_status qkv_evaluator_feed(struct qkv_evaluator *e, const struct qkv_text_tokens *tokens, double begin,
                                   qkv_progress *progress, void *user) {
    for (size_t i = 0; i < tokens->count; i++) {
        const bool begins = e->documents && e->held && e->ids[e->held - 1] == e->end;
        const bool counts = !e->prefix || (e->held + e->sum.T - 1) % e->sum.T + 1 >= e->sum.T / 2;
        if (e->begun && counts && !begins) {
            e->bytes += tokens->bytes[i];
            e->unknown += (size_t)qkv_tokens_unknown(e->tokenizer, tokens->ids + i, 1);
        }
        e->begun = true;
        e->ids[e->held++] = tokens->ids[i];
        if (e->held <= e->sum.B * e->sum.T) continue;
        enum qkv_status status = qkv_evaluator_flush(e);
        if (!status) status = qkv_train_progress(e->ctx, progress, user, "evaluating", begin, e->total);
        if (status) return status;
    }
    return QKV_OK;
}

static enum qkv_status evaluate_stream(struct qkv_evaluator *e, struct qkv_text_stream *stream, qkv_progress *progress,
                                       void *user) {
    while (stream->position < stream->file.size) {
        struct qkv_text_tokens tokens = {0};
        double begin = e->before + (double)stream->position;
        enum qkv_status status = qkv_train_progress(e->ctx, progress, user, "evaluating", begin, e->total);
        if (!status) status = qkv_text_next(stream, &tokens);
        if (!status) status = qkv_evaluator_feed(e, &tokens, begin, progress, user);
        qkv_text_tokens_free(&tokens);
        if (status) return status;
    }
    if (e->begun) e->bytes += stream->spare; /* behind the last token */
    e->before += (double)stream->file.size;
    return QKV_OK;
}

/* Feeds tokens that stand for no byte of the text. */
static enum qkv_status evaluate_around(struct qkv_evaluator *e, const int32_t *ids, size_t count,
                                       qkv_progress *progress, void *user) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < count && !status; i++) {
        int32_t id = ids[i];
        const struct qkv_text_tokens one = {.ids = &id, .bytes = &(size_t){0}, .count = 1};
        status = qkv_evaluator_feed(e, &one, e->before, progress, user);
    }
    return status;
}

/* The tokens of a text; bytes that have none are those of the next token, as in a stream. *left_out: the
 * tokenizer refuses the text, and skip_bad leaves it out. */
static enum qkv_status evaluate_encode(struct qkv_evaluator *e, const struct qkv_document_block *block,
                                       const struct qkv_document_text *text, struct qkv_text_tokens *tokens,
                                       bool *left_out) {
    const enum qkv_status status = qkv_text_tokens_of(e->ctx, e->tokenizer, &text->piece, tokens);
    *left_out = status == QKV_FORMAT && e->skip_bad;
    if (*left_out) qkv_forgive(e->ctx);
    if (*left_out) return QKV_OK;
    if (status) {
        qkv_document_text_fail(e->ctx, block, text);
        return status;
    }
    if (tokens->count) tokens->bytes[0] += e->spare;
    e->spare = tokens->count ? 0 : e->spare + text->piece.size;
    return QKV_OK;
}

/* A document, or a part of one, with what training puts around it. */
static enum qkv_status evaluate_document(struct qkv_evaluator *e, const struct qkv_document_block *block,
                                         const struct qkv_document_text *text, qkv_progress *progress, void *user) {
    struct qkv_text_tokens tokens = {0};
    const int32_t *before = NULL, *after = NULL, end = qkv_text_end(e->tokenizer);
    size_t before_count = 0, after_count = 0;
    bool left_out;
    if (!qkv_tokenizer_template(e->tokenizer, &before, &before_count, &after, &after_count))
        before_count = after_count = 0;
    const bool last = text->piece.last;
    enum qkv_status status = evaluate_encode(e, block, text, &tokens, &left_out);
    if (!status && !left_out) {
        if (text->piece.first) status = evaluate_around(e, before, before_count, progress, user);
        if (!status) status = qkv_evaluator_feed(e, &tokens, e->before, progress, user);
        if (!status && last) status = evaluate_around(e, after, after_count, progress, user);
        if (!status && last && end >= 0) status = evaluate_around(e, &end, 1, progress, user);
    }
    qkv_text_tokens_free(&tokens);
    return status;
}

static enum qkv_status evaluate_block(struct qkv_evaluator *e, struct qkv_document_reader *reader,
                                      const struct qkv_document_block *block, qkv_progress *progress, void *user) {
    struct qkv_document_text text = {0};
    enum qkv_status status = qkv_document_text_next(reader, block, &text);
    while (!status && text.piece.text) {
        status = evaluate_document(e, block, &text, progress, user);
        if (!status) status = qkv_document_text_next(reader, block, &text);
    }
    qkv_document_text_end(&text);
    return status;
}

/* Documents of files that are packed or have JSON lines, one after the other. */
static enum qkv_status evaluate_documents(struct qkv_evaluator *e, qkv_progress *progress, void *user) {
    struct qkv_document_reader reader = {.ctx = e->ctx,
                                         .files = &e->files,
                                         .key = e->key,
                                         .skip_bad = e->skip_bad,
                                         .tokenizer = e->tokenizer,
                                         .progress = progress,
                                         .user = user};
    struct qkv_document_block block = {0};
    bool end = false;
    enum qkv_status status = QKV_OK;
    while (!status && !end) {
        e->before = qkv_documents_done(&reader, e->total);
        status = qkv_train_progress(e->ctx, progress, user, "evaluating", e->before, e->total);
        if (!status) status = qkv_documents_next(&reader, &block, &end);
        if (!status && !end) status = evaluate_block(e, &reader, &block, progress, user);
    }
    if (e->begun) e->bytes += e->spare;
    qkv_document_block_free(&block);
    qkv_documents_close(&reader);
    return status;
}

/* The files one after the other, with the end token between two of them that training puts there. */
static enum qkv_status evaluate_texts(struct qkv_evaluator *e, qkv_progress *progress, void *user) {
    const int32_t end = qkv_text_end(e->tokenizer);
    for (size_t i = 0; i < e->files.count; i++) {
        struct qkv_text_stream stream;
        enum qkv_status status = qkv_text_open(e->ctx, e->files.items[i].path, e->tokenizer, &stream);
        if (status) return status;
        status = evaluate_stream(e, &stream, progress, user);
        e->files.items[i].bytes = stream.position;
        e->files.items[i].hash = stream.hash;
        qkv_text_close(&stream);
        if (!status && end >= 0 && i + 1 < e->files.count) status = evaluate_around(e, &end, 1, progress, user);
        if (status) return status;
    }
    return QKV_OK;
}

enum qkv_status qkv_evaluator_read(struct qkv_evaluator *e, qkv_progress *progress, void *user) {
    enum qkv_status status = e->key ? evaluate_documents(e, progress, user) : evaluate_texts(e, progress, user);
    if (status) return status;
    if (e->sum.share.count == 0 && e->held < 2)
        return qkv_fail(e->ctx, QKV_FORMAT,
                        "%s has %zu token%s, so there is none to predict from another; give a longer text", e->name,
                        e->held, e->held == 1 ? "" : "s");
    return e->held > 1 ? qkv_evaluator_flush(e) : QKV_OK;
}

/* Adds the files that a path stands for. */
static enum qkv_status evaluate_add(struct qkv_evaluator *e, const char *path) {
    const char *const name[] = {path, NULL};
    return e->key ? qkv_sources_list_once(e->ctx, path, &e->files) : qkv_text_files_list(e->ctx, name, &e->files, NULL);
}

/* What the paths stand for, and how much it is. key: of the options. */
static enum qkv_status evaluate_list(struct qkv_evaluator *e, const char *const *paths, size_t count, const char *key) {
    enum qkv_status status = QKV_OK;
    bool mixes = key && *key;
    for (size_t i = 0; i < count; i++) mixes = mixes || qkv_sources_mix((const char *const[]){paths[i], NULL});
    if (mixes) e->key = key && *key ? key : QKV_TEXT_KEY;
    for (size_t i = 0; i < count && !status; i++) status = evaluate_add(e, paths[i]);
    if (!status && !mixes) status = qkv_text_files_plain(e->ctx, &e->files);
    if (!status) e->total = (double)qkv_text_files_size(&e->files);
    qkv_text_files_name(&e->files, e->name);
    if (!status && e->files.count == 0) return qkv_fail(e->ctx, QKV_ARGUMENT, "no text to evaluate is named");
    return status;
}

static enum qkv_status evaluate_prepare(struct qkv_evaluator *e, const struct qkv_evaluate_options *options) {
    struct qkv_context *ctx = e->ctx;
    const struct qkv_spec *spec = qkv_model_spec(e->model);
    size_t n, most = (size_t)spec->context;
    e->sum.B = e->other ? 1 : options->batch ? options->batch : QKV_EVALUATE_WINDOWS;
    if (e->other) most = qkv_min(most, (size_t)qkv_model_spec(e->other)->context);
    e->sum.T = options->context ? options->context : most;
    enum qkv_status status = qkv_text_model_check(ctx, spec);
    if (status) return status;
    if (!e->tokenizer)
        return qkv_tokenizer_missing(ctx, qkv_model_tokenizer_problem(e->model), NULL, QKV_TOKENIZER_FILE, "");
    if (e->sum.T > most)
        return qkv_fail(ctx, QKV_ARGUMENT, "context is %zu but %s is %zu; choose at most that", e->sum.T,
                        e->other ? "the smaller context of the two models" : "the model's", most);
    if (!qkv_multiply(e->sum.B, e->sum.T, &n) || !qkv_add_size(n, 1, &n))
        return qkv_fail_memory(ctx, SIZE_MAX, "the ids of a batch");
    e->ids = qkv_allocate(ctx, n, sizeof *e->ids);
    if (!e->ids) return QKV_MEMORY;
    const bool documents = options->documents;
    if (documents && spec->prefix)
        return qkv_fail(
            ctx, QKV_ARGUMENT,
            "this model sees a prefix in both directions, which is of a whole window: its documents are not "
            "apart; leave documents out");
    if (documents && (status = qkv_documents_check(ctx, e->tokenizer))) return status;
    if (spec->prefix || documents) {
        e->targets = qkv_allocate(ctx, n - 1, sizeof *e->targets);
        if (!e->targets) return QKV_MEMORY;
    }
    if (documents) {
        e->end = qkv_document_end(e->tokenizer);
        e->sum.documents = e->documents = qkv_allocate(ctx, n - 1, sizeof *e->documents);
        if (!e->documents) return QKV_MEMORY;
    }
    if (spec->prefix) {
        e->sum.prefix = e->prefix = qkv_allocate(ctx, e->sum.B, sizeof *e->prefix);
        if (!e->prefix) return QKV_MEMORY;
    }
    if (e->other) return qkv_against_begin(&e->against, e->model, e->other, e->sum.T);
    return qkv_pass_create(e->model, &QKV_OPTIONS(qkv_pass_options, .B = e->sum.B, .T = e->sum.T), &e->sum.pass);
}

/* A result of `tokens` predicted tokens with this loss. */
static enum qkv_status evaluate_report(const struct qkv_evaluator *e, double nll, size_t tokens,
                                       struct qkv_evaluation *evaluation) {
    if (!tokens && e->documents)
        return qkv_fail(e->ctx, QKV_FORMAT, "no document of %s has two tokens; give another text", e->name);
    if (!tokens)
        return qkv_fail(e->ctx, QKV_FORMAT,
                        "%s has no more tokens than the prefix of %zu that this model reads; give a longer text, or a "
                        "smaller context",
                        e->name, e->sum.T / 2);
    if (!isfinite(nll))
        return qkv_fail(e->ctx, QKV_NUMBER,
                        "the loss over %s is not a finite number: the model's weights are "
                        "broken; take those of an earlier checkpoint",
                        e->name);
    evaluation->tokens = tokens;
    evaluation->bytes = e->bytes;
    evaluation->unknown = e->unknown;
    evaluation->loss = nll / (double)tokens;
    evaluation->perplexity = qkv_exp(evaluation->loss);
    evaluation->bits_per_byte = e->bytes ? nll / qkv_log(2) / (double)e->bytes : 0;
    return QKV_OK;
}

enum qkv_status qkv_evaluator_report(const struct qkv_evaluator *e, struct qkv_evaluation *evaluation) {
    const struct qkv_evaluate_part all = qkv_evaluate_share_sum(&e->sum.share);
    return evaluate_report(e, all.nll, (size_t)all.tokens, evaluation);
}

/* The standard error is that of a mean over independent tokens. */
static enum qkv_status evaluate_report_both(const struct qkv_evaluator *e, struct qkv_divergence *out) {
    const struct qkv_against_part all = qkv_against_sum(&e->sum.share);
    const double n = (double)all.tokens;
    enum qkv_status status = evaluate_report(e, all.nll[QKV_AGAINST_MODEL], (size_t)all.tokens, &out->model);
    if (status) return status;
    status = evaluate_report(e, all.nll[QKV_AGAINST_OTHER], (size_t)all.tokens, &out->other);
    if (status) qkv_fail_at(e->ctx, "the model to compare with");
    if (status) return status;
    if (!isfinite(all.divergence))
        return qkv_fail(e->ctx, QKV_NUMBER,
                        "the divergence over %s is not finite: one model excludes tokens that the other predicts",
                        e->name);
    out->divergence = all.divergence / n;
    const double spread = all.squares / n - out->divergence * out->divergence;
    out->divergence_error = all.tokens > 1 && spread > 0 ? sqrt(spread / (n - 1)) : 0;
    out->same = (double)all.same / n;
    return QKV_OK;
}

void qkv_evaluate_options_init(struct qkv_evaluate_options *options, size_t size) {
    static const struct qkv_evaluate_options usual = {.size = sizeof usual};
    qkv_options_init(options, size, &usual, sizeof usual);
}

/* Sets up the passes; the caller calls evaluate_end, also after a failure. */
enum qkv_status qkv_evaluator_begin(struct qkv_evaluator *e, const struct qkv_evaluate_options *options) {
    struct qkv_evaluate_options own = qkv_evaluate_defaults();
    e->ctx = qkv_model_context(e->model), e->tokenizer = qkv_model_tokenizer(e->model);
    e->sum.share.ctx = e->ctx;
    e->sum.share.size = e->other ? sizeof(struct qkv_against_part) : sizeof(struct qkv_evaluate_part);
    enum qkv_status status = QKV_TAKE_OPTIONS(e->ctx, qkv_evaluate_options, &own, options);
    e->text_key = own.text_key;
    return status ? status : evaluate_prepare(e, &own);
}

/* Runs over the text. The caller reports, and calls evaluate_end, also after a failure. */
static enum qkv_status evaluate_all(struct qkv_evaluator *e, const char *const *paths, size_t count,
                                    const struct qkv_evaluate_options *options, qkv_progress *progress, void *user) {
    enum qkv_status status = qkv_evaluator_begin(e, options);
    if (!status) status = evaluate_list(e, paths, count, e->text_key);
    status = qkv_rank_check_evaluation(e->model, &e->files, status);
    if (!status && e->other) status = qkv_rank_check_evaluation(e->other, &e->files, status);
    if (!status) status = qkv_evaluator_read(e, progress, user);
    return qkv_evaluate_share_gather(&e->sum.share, status);
}

void qkv_evaluator_end(struct qkv_evaluator *e) {
    qkv_pass_free(e->sum.pass);
    qkv_against_free(&e->against);
    qkv_evaluate_share_free(&e->sum.share);
    free(e->ids);
    free(e->targets);
    free(e->prefix);
    free(e->documents);
    qkv_text_files_free(&e->files);
}

enum qkv_status qkv_evaluate_text(struct qkv_model *model, const char *const *paths, size_t count,
                                  const struct qkv_evaluate_options *options, qkv_progress *progress, void *user,
                                  struct qkv_evaluation *evaluation) {
    QKV_CALL(qkv_model_context(model));
    QKV_NEED(qkv_call, model);
    QKV_NEED(qkv_call, evaluation);
    QKV_NEED_ALL(qkv_call, count, paths);
    struct qkv_evaluator e = {.model = model};
    double started = qkv_clock();
    *evaluation = (struct qkv_evaluation){0};
    enum qkv_status status = evaluate_all(&e, paths, count, options, progress, user);
    if (!status) status = qkv_evaluator_report(&e, evaluation);
    evaluation->seconds = qkv_clock() - started;
    qkv_evaluator_end(&e);
    return status;
}

enum qkv_status qkv_evaluate_against(struct qkv_model *model, struct qkv_model *other, const char *const *paths,
                                     size_t count, const struct qkv_evaluate_options *options, qkv_progress *progress,
                                     void *user, struct qkv_divergence *divergence) {
    QKV_CALL(qkv_model_context(model));
    QKV_NEED(qkv_call, model);
    QKV_NEED(qkv_call, other);
    QKV_NEED(qkv_call, divergence);
    QKV_NEED_ALL(qkv_call, count, paths);
    struct qkv_evaluator e = {.model = model, .other = other};
    double started = qkv_clock();
    *divergence = (struct qkv_divergence){0};
    enum qkv_status status = evaluate_all(&e, paths, count, options, progress, user);
    if (!status) status = evaluate_report_both(&e, divergence);
    divergence->model.seconds = divergence->other.seconds = qkv_clock() - started;
    qkv_evaluator_end(&e);
    return status;
}
