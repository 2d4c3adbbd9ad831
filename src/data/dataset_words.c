/* Learning to classify words: a word, a tab and its label in each line, an empty line between sentences. A part of
 * the labelled lines (dataset_labeled.c), for a head that classifies tokens.
 *
 * The label of a word is that of its first token; other tokens have none. The token file beside holds for each token
 * 1 + its class, or 0. */
#include "text/sequence.h"
#include "data/data.h"
#include "data/tsv.h"

/* From the words whose first tokens these are to their classes. */
static enum qkv_status words_classes(const struct qkv_line_coder *c, const struct qkv_tsv *file,
                                     const struct qkv_tsv_sentence *s, size_t n, int32_t *firsts) {
    for (size_t i = 0; i < n; i++) {
        if (!firsts[i]) continue;
        const size_t word = (size_t)firsts[i] - 1;
        const struct qkv_word *label = &s->labels[word];
        const size_t class = qkv_labels_find(c, label->text, label->size);
        if (class == c->label_count) return qkv_labels_unknown(c, file, s->lines[word], label->text, label->size);
        firsts[i] = (int32_t) class + 1;
    }
    return QKV_OK;
}

static enum qkv_status dataset_words_encode(const struct qkv_line_coder *c, const struct qkv_tsv *file,
                                            const struct qkv_tsv_row *row, struct qkv_line *line) {
    const struct qkv_tokenizer *tokenizer = c->tokenizer;
    const struct qkv_sequence_frame frame = qkv_source_frame(tokenizer, true, true);
    const struct qkv_tsv_sentence *s = row->sentence;
    size_t bad, scored = 0;
    enum qkv_status status =
        qkv_words_encode(c->ctx, tokenizer, s->words, s->count, &line->main, &line->beside, &line->main_count, &bad);
    if (status) return qkv_tsv_fail_at(file, s->lines[bad], status);
    line->beside_count = line->main_count;
    status = words_classes(c, file, s, line->beside_count, line->beside);
    if (status) return status;
    if (qkv_line_fit(c, line, frame, line->main, &line->main_count) == QKV_FATE_REFUSED ||
        qkv_line_fit(c, line, frame, line->beside, &line->beside_count) == QKV_FATE_REFUSED)
        return qkv_tsv_fail(file, row->line,
                            "the sentence that begins here has %zu tokens with " QKV_TOKEN_BEGIN " and " QKV_TOKEN_END
                            ", more than the context of %zu; put an empty line into it, or choose a larger context, or "
                            "what becomes of long lines (option long = skip, keep-start or keep-end)",
                            line->main_count, c->T);
    for (size_t i = 0; i < line->beside_count; i++) scored += line->beside[i] > 0;
    line->skipped |= !scored; /* cut to the end of its last word, whose first token is gone */
    return QKV_OK;
}

const struct qkv_lines qkv_lines_words_kind = {
    .name = "words", .first = "word", .second = "label", .sentences = true, .encode = dataset_words_encode};

void qkv_words_targets(int32_t *targets, size_t n, size_t T) {
    for (size_t i = 0; i < T; i++) targets[i] = i < n && targets[i] ? targets[i] - 1 : QKV_IGNORE;
}
