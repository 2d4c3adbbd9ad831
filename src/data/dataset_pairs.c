/* Learning from pairs: an encoder reads the source, a decoder predicts its target, token by token.
 *
 * A source is stored as x… </s>, a target as y… </s>; the decoder reads <s> y… and predicts y… </s>. */
#include <string.h>

#include "model/model.h"
#include "model/spec.h"
#include "text/sequence.h"
#include "data/data.h"
#include "data/tsv.h"

static const char *const specials[] = {QKV_TOKEN_BEGIN, QKV_TOKEN_END};

static enum qkv_status dataset_pairs_check(struct qkv_context *ctx, const struct qkv_train_options *options,
                                           const struct qkv_spec *spec) {
    if (qkv_spec_topology(spec) != QKV_ENCODER_DECODER)
        return qkv_fail(ctx, QKV_SPEC,
                        "pairs need an encoder for the source and a decoder for the target, but this model has no %s; "
                        "choose an encoder–decoder, as the preset tiny-seq2seq",
                        spec->encoder.layers ? "decoder" : "encoder");
    if (spec->head.kind != QKV_HEAD_LM)
        return qkv_fail(ctx, QKV_SPEC, "pairs need scores for the target's tokens, so the spec needs head.kind lm");
    const struct qkv_layer_spec *kind = qkv_stack_find_causal(&spec->decoder, false);
    if (kind) {
        char text[QKV_KIND_TEXT];
        qkv_kind_text("decoder", kind, text);
        return qkv_fail(
            ctx, QKV_SPEC,
            "%s.attention.causal is false: the model would see the tokens that it is to predict; pairs need a "
            "causal decoder",
            text);
    }
    if (qkv_tie_has_stacks(spec->tie) && options->source_tokenizer)
        return qkv_fail(
            ctx, QKV_ARGUMENT,
            "source_tokenizer is given, but with tie %s both sides share one tokenizer and embedding; leave "
            "it out, or choose tie head or none",
            qkv_tie_text(spec->tie));
    return QKV_OK;
}

/* ---- lines as tokens -------------------------------------------------------------------------------------------- */

static enum qkv_status too_long(const struct qkv_line_coder *c, const struct qkv_tsv *file, size_t line,
                                const char *what, size_t count, const char *with) {
    return qkv_tsv_fail(
        file, line,
        "the %s has %zu tokens with %s, more than the context of %zu; shorten or remove the line, or "
        "choose a larger context, or what becomes of long lines (option long = skip, keep-start or keep-end)",
        what, count, with, c->T);
}

static enum qkv_status dataset_pairs_encode(const struct qkv_line_coder *c, const struct qkv_tsv *file,
                                            const struct qkv_tsv_row *row, struct qkv_line *line) {
    const struct qkv_tokenizer *target = c->tokenizer, *source = c->source_tokenizer;
    enum qkv_status status =
        qkv_source_encode(c->ctx, source, row->first, row->first_size, false, true, &line->beside, &line->beside_count);
    if (!status)
        status = qkv_sequence_encode(c->ctx, target, row->second, row->second_size, false, true, &line->main,
                                     &line->main_count);
    if (status) return qkv_tsv_fail_at(file, row->line, status);
    if (qkv_line_fit(c, line, qkv_source_frame(source, false, true), line->beside, &line->beside_count) ==
        QKV_FATE_REFUSED)
        return too_long(c, file, row->line, "source", line->beside_count, "the " QKV_TOKEN_END " at its end");
    if (qkv_line_fit(c, line, qkv_sequence_frame(target, false, true), line->main, &line->main_count) ==
        QKV_FATE_REFUSED)
        return too_long(c, file, row->line, "target", line->main_count, "the " QKV_TOKEN_BEGIN " before it");
    return QKV_OK;
}

static const struct qkv_lines lines_pairs = {
    .name = "pairs", .first = "source", .second = "target", .encode = dataset_pairs_encode};

/* ---- tokenizers ------------------------------------------------------------------------------------------------- */

static enum qkv_status dataset_pairs_prepare(struct qkv_data *d, struct qkv_spec *spec) {
    const struct qkv_train_options *o = d->options;
    struct qkv_data_facts *f = d->facts;
    const bool asked = o->source_tokenizer && !strcmp(o->source_tokenizer, QKV_SHARED_TOKENIZER);
    const bool shared = qkv_tie_has_stacks(spec->tie) || asked;
    const size_t begun = d->origin && d->origin->generation.start >= 0; /* targets begin as its folder says */
    const char *source = o->source_tokenizer ? o->source_tokenizer : o->tokenizer;
    const struct qkv_lines *lines = &lines_pairs;
    struct qkv_tokenizer_choice choice = {
        .what = "tokenizer", .choice = o->tokenizer, .specials = specials + begun, .special_count = 2 - begun};
    enum qkv_status status = qkv_lines_tokenizer(d, lines, shared ? 2 : 1, choice, &d->tokenizer);
    choice.what = "source_tokenizer", choice.choice = source;
    if (!status && !shared) status = qkv_lines_tokenizer(d, lines, 0, choice, &d->source_tokenizer);
    if (status) return status;
    const struct qkv_tokenizer *sources = shared ? d->tokenizer : d->source_tokenizer;
    status = qkv_origin_vocab(d, "vocab", &spec->vocab, qkv_tokenizer_vocab(d->tokenizer));
    if (!status) status = qkv_origin_vocab(d, "source_vocab", &spec->source_vocab, qkv_tokenizer_vocab(sources));
    if (!status) status = qkv_spec_check(d->ctx, spec);
    if (!status) status = qkv_tokenizer_keep(d->ctx, d->tokenizer, d->folder, QKV_TOKENIZER_FILE, &f->data, &f->valid);
    return status ? status
                  : qkv_tokenizer_keep(d->ctx, sources, d->folder, shared ? QKV_TOKENIZER_FILE : QKV_SOURCE_FILE,
                                       &f->beside_data, &f->beside_valid);
}

static enum qkv_status dataset_pairs_restore(struct qkv_data *d) {
    const struct qkv_data_facts *f = d->facts;
    enum qkv_status status = qkv_tokenizer_return(d->ctx, d->folder, QKV_TOKENIZER_FILE, &f->data, &d->tokenizer);
    if (status || f->beside_data.tokenizer == f->data.tokenizer) return status;
    return qkv_tokenizer_return(d->ctx, d->folder, QKV_SOURCE_FILE, &f->beside_data, &d->source_tokenizer);
}

/* ---- the files ------------------------------------------------------------------------------------------------- */

static enum qkv_status open_data(struct qkv_data *d) {
    const struct qkv_tokenizer *target = qkv_model_tokenizer(d->model), *source = qkv_model_source_tokenizer(d->model);
    enum qkv_status status = qkv_lines_template(d, source, true);
    return status ? status
                  : qkv_lines_open(d, &lines_pairs, qkv_tokenizer_role(target, QKV_TOKEN_ROLE_END),
                                   qkv_tokenizer_role(source, QKV_TOKEN_ROLE_END));
}

/* ---- batches ---------------------------------------------------------------------------------------------------- */

int32_t qkv_pairs_begin(const struct qkv_model *model) {
    return qkv_model_target_begin(model);
}

static void fill_rows(struct qkv_data *d, const struct qkv_examples *examples, const uint32_t *rows,
                      struct qkv_batch *batch) {
    size_t T = batch->T, S = batch->source_T;
    const int32_t begin = qkv_pairs_begin(d->model);
    for (size_t r = 0; r < batch->B; r++) {
        int32_t *targets = d->rows.targets + r * T;
        size_t n = qkv_examples_main(examples, rows[r], targets);
        d->rows.ids[r * T] = begin;
        memcpy(d->rows.ids + r * T + 1, targets, (n - 1) * sizeof *targets);
        d->rows.lengths[r] = (int32_t)n;
        d->rows.source_lengths[r] = (int32_t)qkv_examples_beside(examples, rows[r], d->rows.source + r * S);
    }
    batch->ids = d->rows.ids;
    batch->targets = d->rows.targets;
    batch->lengths = d->rows.lengths;
    batch->source = d->rows.source;
    batch->source_lengths = d->rows.source_lengths;
}

static enum qkv_status dataset_pairs_validate(struct qkv_data *d, struct qkv_pass *pass, double *loss, double *metric) {
    enum qkv_status status = qkv_lines_validate(d, pass, NULL, NULL, loss);
    *metric = *loss;
    if (status || d->metric == QKV_METRIC_LOSS) return status;
    double exact, token_error;
    status = qkv_validate_search(d, &exact, &token_error);
    *metric = d->metric == QKV_METRIC_EXACT ? exact : token_error;
    return status;
}

const struct qkv_dataset qkv_dataset_pairs = {
    QKV_DATASET_OPTION(pairs),
    .noun = "pairs",
    .nouns = "pairs",
    .reads = QKV_READS_LINES,
    .tokenizers = 2,
    .metrics = 1U << QKV_METRIC_EXACT | 1U << QKV_METRIC_TOKEN_ERROR,
    .lines = {&lines_pairs},
    .check = dataset_pairs_check,
    .prepare = dataset_pairs_prepare,
    .restore = dataset_pairs_restore,
    .open = open_data,
    .begin = qkv_lines_begin,
    .fill = qkv_lines_fill,
    .rows = fill_rows,
    .epoch = qkv_lines_epoch,
    .total = qkv_lines_total,
    .count = qkv_lines_count,
    .validate = dataset_pairs_validate,
};
