/* Learning from pairs: an encoder reads the source, a decoder predicts its target, token by token.
 *
 * A source is stored as x… </s>, a target as y… </s>; the decoder reads <s> y… and predicts y… </s>. */
#include <string.h>

#include "model/model.h"
#include "model/spec.h"
#include "text/sequence.h"
#include "train/train.h"
#include "train/tsv.h"

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

static enum qkv_status dataset_pairs_prepare(struct qkv_trainer *t, struct qkv_spec *spec) {
    const struct qkv_train_options *o = &t->options;
    struct qkv_run_facts *f = &t->facts;
    const bool asked = o->source_tokenizer && !strcmp(o->source_tokenizer, QKV_SHARED_TOKENIZER);
    const bool shared = qkv_tie_has_stacks(spec->tie) || asked;
    const size_t begun = t->origin && t->origin->generation.start >= 0; /* targets begin as its folder says */
    const char *source = o->source_tokenizer ? o->source_tokenizer : o->tokenizer;
    const struct qkv_lines *lines = &lines_pairs;
    struct qkv_tokenizer_choice choice = {
        .what = "tokenizer", .choice = o->tokenizer, .specials = specials + begun, .special_count = 2 - begun};
    enum qkv_status status = qkv_lines_tokenizer(t, lines, shared ? 2 : 1, choice, &t->tokenizer);
    choice.what = "source_tokenizer", choice.choice = source;
    if (!status && !shared) status = qkv_lines_tokenizer(t, lines, 0, choice, &t->source_tokenizer);
    if (status) return status;
    const struct qkv_tokenizer *sources = shared ? t->tokenizer : t->source_tokenizer;
    status = qkv_origin_vocab(t, "vocab", &spec->vocab, qkv_tokenizer_vocab(t->tokenizer));
    if (!status) status = qkv_origin_vocab(t, "source_vocab", &spec->source_vocab, qkv_tokenizer_vocab(sources));
    if (!status) status = qkv_spec_check(t->ctx, spec);
    if (!status) status = qkv_tokenizer_keep(t->ctx, t->tokenizer, t->folder, QKV_TOKENIZER_FILE, &f->data, &f->valid);
    return status ? status
                  : qkv_tokenizer_keep(t->ctx, sources, t->folder, shared ? QKV_TOKENIZER_FILE : QKV_SOURCE_FILE,
                                       &f->beside_data, &f->beside_valid);
}

static enum qkv_status dataset_pairs_restore(struct qkv_trainer *t) {
    const struct qkv_run_facts *f = &t->facts;
    enum qkv_status status = qkv_tokenizer_return(t->ctx, t->folder, QKV_TOKENIZER_FILE, &f->data, &t->tokenizer);
    if (status || f->beside_data.tokenizer == f->data.tokenizer) return status;
    return qkv_tokenizer_return(t->ctx, t->folder, QKV_SOURCE_FILE, &f->beside_data, &t->source_tokenizer);
}

/* ---- the files ------------------------------------------------------------------------------------------------- */

static enum qkv_status open_data(struct qkv_trainer *t) {
    const struct qkv_tokenizer *target = qkv_model_tokenizer(t->model), *source = qkv_model_source_tokenizer(t->model);
    enum qkv_status status = qkv_lines_template(t, source, true);
    return status ? status
                  : qkv_lines_open(t, &lines_pairs, qkv_tokenizer_role(target, QKV_TOKEN_ROLE_END),
                                   qkv_tokenizer_role(source, QKV_TOKEN_ROLE_END));
}

/* ---- batches ---------------------------------------------------------------------------------------------------- */

int32_t qkv_pairs_begin(const struct qkv_model *model) {
    return qkv_model_target_begin(model);
}

static void fill_rows(struct qkv_trainer *t, const struct qkv_examples *examples, const uint32_t *rows,
                      struct qkv_batch *batch) {
    size_t T = batch->T, S = batch->source_T;
    const int32_t begin = qkv_pairs_begin(t->model);
    for (size_t r = 0; r < batch->B; r++) {
        int32_t *targets = t->rows.targets + r * T;
        size_t n = qkv_examples_main(examples, rows[r], targets);
        t->rows.ids[r * T] = begin;
        memcpy(t->rows.ids + r * T + 1, targets, (n - 1) * sizeof *targets);
        t->rows.lengths[r] = (int32_t)n;
        t->rows.source_lengths[r] = (int32_t)qkv_examples_beside(examples, rows[r], t->rows.source + r * S);
    }
    batch->ids = t->rows.ids;
    batch->targets = t->rows.targets;
    batch->lengths = t->rows.lengths;
    batch->source = t->rows.source;
    batch->source_lengths = t->rows.source_lengths;
}

static enum qkv_status dataset_pairs_validate(struct qkv_trainer *t, double *loss, double *metric) {
    enum qkv_status status = qkv_lines_validate(t, NULL, NULL, loss);
    *metric = *loss;
    if (status || t->metric == QKV_METRIC_LOSS) return status;
    double exact, token_error;
    status = qkv_validate_search(t, &exact, &token_error);
    *metric = t->metric == QKV_METRIC_EXACT ? exact : token_error;
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
    .validate = dataset_pairs_validate,
};
