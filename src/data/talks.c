/* talks: reading lines of talks, and the tokenizer and the chat template of a run. */
#include "data/talks.h"

#include <string.h>
#include <time.h>

#include "chat/chat_template.h"
#include "text/text.h"
#include "data/records.h"

enum qkv_status qkv_talks_check(struct qkv_context *ctx, const struct qkv_train_options *options) {
    if (options->from || !qkv_tokenizer_learns(options->tokenizer)) return QKV_OK;
    return qkv_fail(
        ctx, QKV_ARGUMENT,
        "talks do not train a tokenizer; begin with a model (option from), or name the file of a tokenizer, "
        "or bytes (option tokenizer)");
}

/* ---- lines ------------------------------------------------------------------------------------------------------ */

enum qkv_status qkv_talks_read(const struct qkv_line_coder *c, const struct qkv_tsv *file,
                               const struct qkv_tsv_row *row, json_t **line) {
    const struct qkv_record record = {row->first, row->first_size, row->line};
    return qkv_record_parse(c->ctx, file->path, &record, line);
}

struct qkv_talk_coder qkv_talks_coder(const struct qkv_line_coder *c) {
    return (struct qkv_talk_coder){.ctx = c->ctx, .tokenizer = c->tokenizer, .templates = c->templates, .now = c->now};
}

enum qkv_status qkv_talks_fail(const struct qkv_line_coder *c, const struct qkv_tsv *file, size_t line,
                               enum qkv_status status) {
    char sentence[sizeof c->ctx->message];
    if (status != QKV_FORMAT) return qkv_tsv_fail_at(file, line, status);
    memcpy(sentence, c->ctx->message, sizeof sentence);
    return qkv_tsv_fail(file, line, "%s", sentence);
}

enum qkv_status qkv_talks_fit(const struct qkv_line_coder *c, const struct qkv_tsv *file, const struct qkv_tsv_row *row,
                              struct qkv_talk *talk, struct qkv_line *line) {
    const struct qkv_sequence_frame frame = {0};
    size_t count = talk->count;
    const enum qkv_long_fate fate = qkv_line_fit(c, line, frame, talk->ids, &count);
    if (fate == QKV_FATE_REFUSED)
        return qkv_tsv_fail(file, row->line,
                            "the talk has %zu tokens, more than the context of %zu; shorten or remove the line, or "
                            "choose a larger context, or what becomes of long lines (option long = skip, keep-start or "
                            "keep-end)",
                            talk->count, c->T);
    if (fate == QKV_FATE_FITS) qkv_line_fit(c, line, frame, talk->marks, &talk->count);
    line->skipped |= !qkv_talk_counts(talk);
    talk->marks[talk->count - 1] |= QKV_MARK_LAST;
    return QKV_OK;
}

/* ---- tokenizer and templates ------------------------------------------------------------------------------------ */

/* The template of the option replaces those of the model. */
static enum qkv_status talks_replace(struct qkv_data *d) {
    const char *path = d->options->chat_template;
    struct qkv_chat_template *t = NULL;
    struct qkv_map map = {0};
    if (!path) return QKV_OK;
    enum qkv_status status = qkv_read_file(d->ctx, path, &map);
    if (!status && !map.size)
        status = qkv_fail(d->ctx, QKV_FORMAT, "%s is empty, but a template writes the text of a talk", path);
    if (!status) status = qkv_chat_template_parse(d->ctx, path, (const char *)map.data, map.size, &t);
    if (!status) {
        qkv_chat_sources_free(&d->tokenizer->chats);
        status = qkv_chat_sources_add(d->ctx, &d->tokenizer->chats, "default", path, (const char *)map.data, map.size);
    }
    qkv_chat_template_free(t);
    qkv_unmap_file(&map);
    return status;
}

/* Opens those of the run's folder, which `qkv chat RUN` reads as well. The time is that of the run's beginning. */
static enum qkv_status talks_open(struct qkv_data *d) {
    d->now = d->facts->now ? (int64_t)d->facts->now : (int64_t)time(NULL);
    if (!d->tokenizer->chats.count) return QKV_OK;
    return qkv_chat_template_open(d->ctx, d->folder, NULL, &d->templates);
}

enum qkv_status qkv_talks_prepare(struct qkv_data *d, struct qkv_spec *spec) {
    struct qkv_data_facts *f = d->facts;
    const struct qkv_tokenizer_choice choice = {.what = "tokenizer", .choice = d->options->tokenizer};
    enum qkv_status status = d->origin ? qkv_origin_tokenizer(d, false, NULL, 0, &d->tokenizer)
                                       : qkv_tokenizer_make(d->ctx, &choice, &d->tokenizer);
    if (!status) status = talks_replace(d);
    if (!status) status = qkv_origin_vocab(d, "vocab", &spec->vocab, qkv_tokenizer_vocab(d->tokenizer));
    if (!status) status = qkv_spec_check(d->ctx, spec);
    if (!status) status = qkv_tokenizer_keep(d->ctx, d->tokenizer, d->folder, QKV_TOKENIZER_FILE, &f->data, &f->valid);
    if (!status) status = talks_open(d);
    f->now = (uint64_t)d->now;
    f->beside_data.vocab = f->beside_valid.vocab = QKV_MARKS;
    f->beside_data.tokenizer = f->beside_valid.tokenizer = d->templates ? qkv_chat_template_hash(d->templates) : 0;
    return status;
}

enum qkv_status qkv_talks_restore(struct qkv_data *d) {
    enum qkv_status status = qkv_text_restore(d);
    if (!status) status = talks_open(d);
    if (status) return status;
    const uint64_t hash = d->templates ? qkv_chat_template_hash(d->templates) : 0;
    if (hash == d->facts->beside_data.tokenizer) return QKV_OK;
    return qkv_fail(d->ctx, QKV_FORMAT,
                    "%s does not hold the chat template that this run was trained with (" QKV_ROLES_FILE
                    "); restore it, or start a new run in another folder",
                    d->folder);
}
