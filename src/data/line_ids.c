/* line_ids: a piece of a file of lines as ids: whole lines, and whole sentences, each encoded by itself, so that it
 * does not matter how a file is cut, or which rank has which piece. */
#include <stdlib.h>
#include <string.h>

#include "data/data.h"
#include "data/tsv.h"

enum qkv_long_fate qkv_line_fit(const struct qkv_line_coder *c, struct qkv_line *line, struct qkv_sequence_frame frame,
                                int32_t *ids, size_t *count) {
    const struct qkv_long_rule rule = {.kind = c->kind, .most = c->T};
    line->is_long |= *count > rule.most;
    const enum qkv_long_fate fate = qkv_long_apply(&rule, frame, ids, count);
    line->skipped |= fate == QKV_FATE_SKIPPED;
    return fate;
}

/* A piece in work. */
struct line_piece {
    const struct qkv_line_coder *coder;
    struct qkv_line_ids ids;
    struct qkv_buffer cards, main, beside;
};

static enum qkv_status line_piece_add(struct line_piece *p, const struct qkv_line *line) {
    struct qkv_context *ctx = p->coder->ctx;
    const size_t examples = line->examples ? line->examples : 1;
    const struct qkv_line_card card = {.main = (uint32_t)line->main_count, /* no line is longer than the context */
                                       .beside = (uint32_t)line->beside_count,
                                       .examples = (uint32_t)examples};
    p->ids.lines += examples;
    p->ids.unknown += examples * qkv_tokens_unknown(p->coder->tokenizer, line->main, line->main_count);
    p->ids.count++;
    p->ids.main_count += line->main_count;
    p->ids.beside_count += line->beside_count;
    enum qkv_status status = qkv_buffer_append(ctx, &p->cards, &card, sizeof card);
    if (!status) status = qkv_buffer_append(ctx, &p->main, line->main, line->main_count * sizeof *line->main);
    return status ? status
                  : qkv_buffer_append(ctx, &p->beside, line->beside, line->beside_count * sizeof *line->beside);
}

static enum qkv_status line_piece_read(struct line_piece *p, struct qkv_tsv *file) {
    struct qkv_tsv_row row;
    bool end = false;
    enum qkv_status status = QKV_OK;
    while (!status && !(status = qkv_tsv_next(file, &row, &end)) && !end) {
        struct qkv_line line = {0};
        p->ids.read++;
        status = p->coder->lines->encode(p->coder, file, &row, &line);
        p->ids.long_lines += line.is_long;
        if (!status && !line.skipped) status = line_piece_add(p, &line);
        qkv_free(line.main);
        qkv_free(line.beside);
    }
    return status;
}

enum qkv_status qkv_line_ids_encode(const struct qkv_line_coder *coder, const char *path,
                                    const struct qkv_text_piece *piece, struct qkv_buffer *ids) {
    struct line_piece p = {.coder = coder};
    struct qkv_tsv file;
    qkv_tsv_open_piece(coder->ctx, path, coder->lines, piece, &file);
    enum qkv_status status = line_piece_read(&p, &file);
    qkv_tsv_close(&file);
    if (!status) status = qkv_buffer_append(coder->ctx, ids, &p.ids, sizeof p.ids);
    if (!status) status = qkv_buffer_append(coder->ctx, ids, p.cards.data, p.cards.size);
    if (!status) status = qkv_buffer_append(coder->ctx, ids, p.main.data, p.main.size);
    if (!status) status = qkv_buffer_append(coder->ctx, ids, p.beside.data, p.beside.size);
    qkv_buffer_free(&p.cards);
    qkv_buffer_free(&p.main);
    qkv_buffer_free(&p.beside);
    return status;
}

bool qkv_line_ids_open(const struct qkv_buffer *buffer, struct qkv_line_ids *ids, const struct qkv_line_card **cards,
                       const int32_t **main, const int32_t **beside) {
    uint64_t left = buffer->size, main_count = 0, beside_count = 0;
    if (left < sizeof *ids) return false;
    memcpy(ids, buffer->data, sizeof *ids);
    left -= sizeof *ids;
    *cards = (const void *)(buffer->data + sizeof *ids);
    if (ids->count > left / sizeof **cards) return false;
    left = (left - ids->count * sizeof **cards) / sizeof **main;
    if (ids->main_count > left || ids->beside_count != left - ids->main_count) return false;
    for (uint64_t i = 0; i < ids->count; i++) main_count += (*cards)[i].main, beside_count += (*cards)[i].beside;
    *main = (const void *)(*cards + ids->count);
    *beside = *main + ids->main_count;
    return main_count == ids->main_count && beside_count == ids->beside_count;
}
