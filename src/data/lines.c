/* What the datasets of lines, pairs and labelled texts share: files of lines become two token files, their examples
 * batches. A resumed run needs the token files only; one that is missing is made again from the lines, if those are
 * still the same. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "text/sequence.h"
#include "text/text.h"
#include "data/data.h"
#include "data/talk.h"
#include "data/tsv.h"

enum { LINES_SPECIALS = 4 }; /* room for those of a dataset */

#define LINES_PIECE ((size_t)1 << 20) /* bytes of text that a tokenizer learns from at a time */

/* What a row is, in messages. */
static const char *lines_unit(const struct qkv_data *d) {
    return d->lines.examples.beside_each && !d->lines.examples.marks ? "sentence" : "line";
}

/* One side of a row, and a line end; of a sentence its words, with a space between two. */
static enum qkv_status lines_add_side(struct qkv_context *ctx, const struct qkv_tsv_row *row, bool second,
                                      struct qkv_buffer *text) {
    const struct qkv_tsv_sentence *s = row->sentence;
    enum qkv_status status = QKV_OK;
    if (!s)
        status = second ? qkv_buffer_append(ctx, text, row->second, row->second_size)
                        : qkv_buffer_append(ctx, text, row->first, row->first_size);
    for (size_t i = 0; s && i < s->count && !status; i++) {
        const struct qkv_word *word = second ? &s->labels[i] : &s->words[i];
        if (i) status = qkv_buffer_append(ctx, text, " ", 1);
        if (!status) status = qkv_buffer_append(ctx, text, word->text, word->size);
    }
    return status ? status : qkv_buffer_append(ctx, text, "\n", 1);
}

/* The text of one side, or of both, of all rows, in pieces of whole lines. */
struct lines_reader {
    struct qkv_data *d;
    const struct qkv_lines *lines;
    int side; /* 0: the first, 1: the second, 2: both */
    struct qkv_buffer piece;
    enum qkv_status (*take)(void *user, struct qkv_buffer *piece,
                            bool last); /* what it leaves comes again, with more */
    void *user;
};

static enum qkv_status lines_read_file(struct lines_reader *r, struct qkv_text_file *of, bool keep) {
    struct qkv_tsv file;
    struct qkv_tsv_row row;
    bool end = false;
    enum qkv_status status = qkv_tsv_open_file(r->d->ctx, of, keep, r->lines->first, r->lines->second, &file);
    if (status) return status;
    file.sentences = r->lines->sentences;
    while (!status && !(status = qkv_tsv_next(&file, &row, &end)) && !end) {
        if (r->side != 1) status = lines_add_side(r->d->ctx, &row, false, &r->piece);
        if (r->side != 0 && !status) status = lines_add_side(r->d->ctx, &row, true, &r->piece);
        if (!status && r->piece.size >= LINES_PIECE) status = r->take(r->user, &r->piece, false);
    }
    qkv_tsv_close(&file);
    return status;
}

static enum qkv_status lines_read(struct lines_reader *r) {
    struct qkv_text_files *files = &r->d->facts->data_files;
    const bool keep = qkv_text_files_fit(r->d->ctx, files);
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < files->count && !status; i++) status = lines_read_file(r, &files->items[i], keep);
    if (!status && r->piece.size) status = r->take(r->user, &r->piece, true);
    qkv_buffer_free(&r->piece);
    return status;
}

/* Whether a line of the text begins, or ends, with a word. */
static bool lines_have(const struct qkv_buffer *text, const char *word, bool ends) {
    const size_t n = strlen(word);
    for (size_t at = 0, next; at < text->size; at = next) {
        const char *line = text->data + at, *stop = memchr(line, '\n', text->size - at);
        size_t size = stop ? (size_t)(stop - line) : text->size - at;
        next = at + size + 1;
        if (size && line[size - 1] == '\r') size--;
        if (size < n) continue;
        const char *place = ends ? line + size - n : line, *beside = ends ? place - 1 : place + n;
        if (!memcmp(place, word, n) && (size == n || strchr(" \t", *beside))) return true;
    }
    return false;
}

/* Whether lines are written with <s> before them, and with </s> behind them. */
struct lines_written {
    bool begin, end;
};

static enum qkv_status lines_look(void *user, struct qkv_buffer *piece, bool last) {
    struct lines_written *written = user;
    (void)last;
    written->begin |= lines_have(piece, QKV_WORD_BEGIN, false);
    written->end |= lines_have(piece, QKV_WORD_END, true);
    piece->size = 0;
    return QKV_OK;
}

/* The specials of a tokenizer of whole words, which takes <bos> and <eos> for <s> and </s> where lines are written
 * with them. */
static enum qkv_status lines_specials(const struct lines_reader *rows, struct qkv_tokenizer_choice *choice,
                                      const char *specials[LINES_SPECIALS]) {
    struct lines_written written = {0};
    struct lines_reader reader = *rows;
    if (!choice->choice || strncmp(choice->choice, "whitespace", strlen("whitespace"))) return QKV_OK;
    reader.take = lines_look, reader.user = &written;
    enum qkv_status status = lines_read(&reader);
    for (size_t i = 0; i < choice->special_count; i++) {
        specials[i] = choice->specials[i];
        if (written.begin && !strcmp(specials[i], QKV_TOKEN_BEGIN)) specials[i] = QKV_WORD_BEGIN;
        if (written.end && !strcmp(specials[i], QKV_TOKEN_END)) specials[i] = QKV_WORD_END;
    }
    choice->specials = specials;
    return status;
}

/* Lets the learner read a piece, except its end where that may belong to a word that goes on. */
static enum qkv_status lines_teach(void *user, struct qkv_buffer *piece, bool last) {
    struct qkv_learner *learner = user;
    size_t done = 0, take;
    enum qkv_status status = QKV_OK;
    while (done < piece->size && !status &&
           (take = qkv_learner_cut(learner, piece->data + done, piece->size - done, last)) > 0) {
        status = qkv_learner_read(learner, piece->data + done, take);
        done += take;
    }
    memmove(piece->data, piece->data + done, piece->size - done);
    piece->size -= done;
    return status;
}

static enum qkv_status lines_learn(void *user, struct qkv_learner *learner) {
    struct lines_reader reader = *(const struct lines_reader *)user;
    reader.take = lines_teach, reader.user = learner;
    return lines_read(&reader);
}

enum qkv_status qkv_lines_tokenizer(struct qkv_data *d, const struct qkv_lines *lines, int side,
                                    struct qkv_tokenizer_choice choice, struct qkv_tokenizer **tokenizer) {
    struct lines_reader rows = {.d = d, .lines = lines, .side = side};
    const char *specials[LINES_SPECIALS];
    const bool source = tokenizer == &d->source_tokenizer;
    if (d->origin) return qkv_origin_tokenizer(d, source, choice.specials, choice.special_count, tokenizer);
    enum qkv_status status = qkv_train_progress(d->ctx, d->progress, d->user, "training the tokenizer", 0, 0);
    if (!status && qkv_tokenizer_learns(choice.choice)) {
        status = lines_specials(&rows, &choice, specials);
        choice.learn = lines_learn;
        choice.learn_user = &rows;
    }
    choice.progress = d->progress;
    choice.user = d->user;
    return status ? status : qkv_tokenizer_make(d->ctx, &choice, tokenizer);
}

enum qkv_status qkv_lines_template(struct qkv_data *d, const struct qkv_tokenizer *tokenizer, bool must_end) {
    const int32_t *before, *after;
    size_t before_count, after_count, ends = 0;
    if (!qkv_tokenizer_template(tokenizer, &before, &before_count, &after, &after_count)) return QKV_OK;
    int32_t end = (int32_t)qkv_tokenizer_role(tokenizer, QKV_TOKEN_ROLE_END);
    for (size_t i = 0; i < before_count; i++) ends += before[i] == end;
    for (size_t i = 0; i < after_count; i++) ends += after[i] == end;
    if (ends == 1 && after_count && after[after_count - 1] == end) return QKV_OK;
    if (ends == 0 && !must_end) return QKV_OK;
    return qkv_fail(d->ctx, QKV_ARGUMENT,
                    "the tokenizer's template (post_processor) does not have " QKV_TOKEN_END
                    " at its end and only there, which the lines of a token file are told apart by; change it in "
                    "tokenizer.json, or set post_processor to null to have each line between " QKV_TOKEN_BEGIN
                    " and " QKV_TOKEN_END);
}

/* ---- token files ------------------------------------------------------------------------------------------------ */

struct files { /* of lines, and their token files */
    const char *main_path, *beside_path;
    struct qkv_text_files *texts;
    struct qkv_text_facts *main, *beside;
};

struct line_writers {
    struct qkv_data *d;
    struct qkv_line_coder coder;
    struct qkv_tokens_writer main, beside;
    struct qkv_tsv file;        /* in work */
    struct qkv_text_file *text; /* what is known of it */
    uint64_t read, unknown;     /* lines of all files; tokens of `main` */
};

static struct qkv_line_coder lines_coder(const struct qkv_data *d, const struct qkv_lines *lines) {
    const struct qkv_train_options *o = d->options;
    return (struct qkv_line_coder){.ctx = d->ctx,
                                   .lines = lines,
                                   .tokenizer = qkv_model_tokenizer(d->model),
                                   .source_tokenizer = qkv_model_source_tokenizer(d->model),
                                   .labels = d->labels,
                                   .label_count = d->label_count,
                                   .T = d->T,
                                   .kind = qkv_train_long(o),
                                   .repeat = lines->repeats && o->mask_each && qkv_task_masks(o),
                                   .templates = d->templates,
                                   .now = d->now};
}

static enum qkv_status lines_cut(void *user, struct qkv_text_piece *piece) {
    struct line_writers *to = user;
    qkv_tsv_cut(&to->file, QKV_RANK_PIECE, piece);
    return QKV_OK;
}

static enum qkv_status lines_encode(void *user, const struct qkv_text_piece *piece, struct qkv_buffer *made) {
    struct line_writers *to = user;
    return qkv_line_ids_encode(&to->coder, to->text->path, piece, made);
}

/* The ids of a piece into both token files. */
static enum qkv_status lines_take(void *user, const struct qkv_text_piece *piece, struct qkv_buffer *made) {
    struct line_writers *to = user;
    struct qkv_line_ids ids;
    const struct qkv_line_card *cards;
    const int32_t *main, *beside;
    enum qkv_status status = QKV_OK;
    if (!qkv_line_ids_open(made, &ids, &cards, &main, &beside))
        return qkv_fail(to->d->ctx, QKV_FORMAT, "%s: the ids of lines from %zu on are damaged", to->text->path,
                        piece->line + 1);
    to->read += ids.read;
    to->unknown += ids.unknown;
    to->text->lines += ids.lines;
    to->text->long_lines += ids.long_lines;
    for (uint64_t i = 0; i < ids.count && !status; main += cards[i].main, beside += cards[i].beside, i++) {
        for (uint32_t k = 0; k < cards[i].examples && !status; k++)
            status = qkv_tokens_put(&to->main, main, cards[i].main);
        if (!status) status = qkv_tokens_put(&to->beside, beside, cards[i].beside);
    }
    return status;
}

static enum qkv_status write_rows(struct line_writers *to) {
    struct qkv_data *d = to->d;
    const struct qkv_rank_file file = {
        .ctx = d->ctx, .lines = true, .state = to, .cut = lines_cut, .encode = lines_encode, .take = lines_take};
    enum qkv_status status = qkv_rank_tell_file(d->ctx, to->text->path);
    bool end = false;
    to->text->lines = to->text->long_lines = 0;
    while (!status && !end) {
        status = qkv_train_progress(d->ctx, d->progress, d->user, "tokenizing", (double)to->file.position,
                                    (double)to->file.map.size);
        if (!status) status = qkv_rank_file_next(&file, &end);
    }
    return status;
}

static enum qkv_status write_lines_of(struct line_writers *to, struct qkv_text_file *text) {
    const struct qkv_lines *lines = to->coder.lines;
    struct qkv_tsv *file = &to->file;
    uint64_t before = to->main.facts->tokens;
    enum qkv_status status = qkv_tsv_open_file(to->d->ctx, text, false, lines->first, lines->second, file);
    if (status) return status;
    to->text = text;
    file->sentences = lines->sentences;
    text->bytes = file->map.size;
    text->hash = qkv_hash(QKV_HASH_START, file->map.data, file->map.size);
    if (file->mark)
        status = qkv_texts_add(to->d->ctx, to->d->notes, "%s begins with a byte order mark (BOM), which is left out",
                               text->path);
    if (!status) status = write_rows(to);
    text->tokens = to->main.facts->tokens - before;
    qkv_tsv_close(file);
    return status;
}

/* How many lines were longer than the context, as a note; a failure where none is left. */
static enum qkv_status lines_note_long(struct qkv_data *d, const struct qkv_text_files *files, uint64_t read) {
    const enum qkv_long kind = qkv_train_long(d->options);
    char name[QKV_FILES_NAME];
    uint64_t found = 0, kept = 0;
    for (size_t i = 0; i < files->count; i++) found += files->items[i].long_lines, kept += files->items[i].lines;
    qkv_text_files_name(files, name);
    if (!found) return QKV_OK;
    if (!kept)
        return qkv_fail(d->ctx, QKV_ARGUMENT,
                        "every %s of %s has more tokens than the context of %zu, so long %s leaves none; choose a "
                        "larger context, or another one of long skip, keep-start and keep-end",
                        lines_unit(d), name, d->T, qkv_long_name(kind));
    return qkv_texts_add(d->ctx, d->notes,
                         "%" PRIu64 " of %" PRIu64
                         " %ss of %s %s more tokens than the context of %zu and %s %s (long %s)",
                         found, read, lines_unit(d), name, found == 1 ? "has" : "have", d->T,
                         found == 1 ? "was" : "were", qkv_long_done(kind), d->options->long_lines);
}

static enum qkv_status write_files(struct qkv_data *d, const struct files *f, const struct qkv_lines *lines) {
    struct line_writers to = {.d = d, .coder = lines_coder(d, lines)};
    enum qkv_status status = qkv_tokens_begin(d->ctx, f->main_path, f->main, &to.main);
    if (!status) status = qkv_tokens_begin(d->ctx, f->beside_path, f->beside, &to.beside);
    if (!status) status = qkv_rank_tell_lines(&to.coder);
    for (size_t i = 0; i < f->texts->count && !status; i++) status = write_lines_of(&to, &f->texts->items[i]);
    if (!status) status = lines_note_long(d, f->texts, to.read);
    qkv_text_files_drop(f->texts);
    qkv_text_files_sum(f->texts, f->main);
    qkv_text_files_sum(f->texts, f->beside);
    status = qkv_tokens_end(&to.main, status);
    status = qkv_tokens_end(&to.beside, status);
    return status ? status : qkv_tokens_note_unknown(d->ctx, to.unknown, f->texts, d->notes);
}

static enum qkv_status lines_remake(struct qkv_data *d, const struct files *f, const struct qkv_lines *lines) {
    struct qkv_text_facts main = *f->main, beside = *f->beside;
    struct qkv_text_files texts;
    const char *missing = qkv_file_exists(f->main_path) ? f->beside_path : f->main_path;
    struct files now = {f->main_path, f->beside_path, &texts, &main, &beside};
    enum qkv_status status = qkv_text_files_copy(d->ctx, f->texts, &texts);
    if (status) return status;
    status = write_files(d, &now, lines);
    if (status) qkv_fail_at(d->ctx, "making %s again, which is missing", missing);
    if (!status) status = qkv_same_text(d->ctx, missing, &(struct qkv_same_text){f->texts, &texts, f->main, &main});
    if (!status) status = qkv_same_text(d->ctx, missing, &(struct qkv_same_text){f->texts, &texts, f->beside, &beside});
    qkv_text_files_free(&texts);
    return status;
}

/* Whether there is memory for the ids of both files, and for the places of examples and batches. */
static enum qkv_status lines_check_memory(struct qkv_data *d, const struct files *f,
                                          const struct qkv_examples *examples) {
    char name[QKV_FILES_NAME];
    uint64_t count = 0;
    for (size_t i = 0; i < f->texts->count; i++) count += f->texts->items[i].lines;
    const size_t tokens = qkv_tokens_bytes(&examples->main) + qkv_tokens_bytes(&examples->beside);
    return qkv_memory_check(d->ctx, tokens + (size_t)count * (QKV_EXAMPLE_BYTES + QKV_BATCHED_BYTES),
                            qkv_text_files_name(f->texts, name), "give fewer lines");
}

static enum qkv_status open_files(struct qkv_data *d, const struct files *f, const struct qkv_lines *lines,
                                  struct qkv_examples *examples) {
    enum qkv_status status = QKV_OK;
    examples->beside_each = lines->sentences || lines->marks;
    examples->marks = lines->marks;
    if (f->main->bytes == 0)
        status = write_files(d, f, lines);
    else if (!qkv_file_exists(f->main_path) || !qkv_file_exists(f->beside_path))
        status = lines_remake(d, f, lines);
    if (!status) status = qkv_tokens_open(d->ctx, f->main_path, f->main, &examples->main);
    if (!status) status = qkv_tokens_open(d->ctx, f->beside_path, f->beside, &examples->beside);
    if (!status) status = lines_check_memory(d, f, examples);
    return status ? status : qkv_examples_index(d->ctx, examples, lines->two ? 2 * d->T : d->T);
}

/* ---- batches ---------------------------------------------------------------------------------------------------- */

static enum qkv_status make_batches(struct qkv_data *d) {
    const struct qkv_train_options *o = d->options;
    struct qkv_batch_limits limits = {.rows = (size_t)o->batch, .tokens = (size_t)o->batch_tokens};
    char text[QKV_FILES_NAME], valid[QKV_FILES_NAME];
    qkv_text_files_name(&d->facts->data_files, text);
    qkv_text_files_name(&d->facts->valid_files, valid);
    size_t count = d->lines.examples.count, kept = o->valid ? 0 : (size_t)((double)count * o->valid_fraction);
    qkv_text_files_hold_out(&d->facts->data_files, kept);
    if (!o->valid && o->valid_fraction > 0 && kept == 0)
        return qkv_fail(d->ctx, QKV_ARGUMENT,
                        "%s has %zu %s%s, of which a valid_fraction of %g keeps none for validation; give more %ss, "
                        "a file to validate on (valid), or valid_fraction 0 for no validation",
                        text, count, lines_unit(d), count == 1 ? "" : "s", o->valid_fraction, lines_unit(d));
    enum qkv_status status =
        qkv_batches_make(d->ctx, &d->lines.examples, 0, count - kept, &limits, text, &d->lines.batches);
    if (!status && o->valid)
        status = qkv_batches_make(d->ctx, &d->lines.valid_examples, 0, d->lines.valid_examples.count, &limits, valid,
                                  &d->lines.valid_batches);
    if (!status && kept)
        status =
            qkv_batches_make(d->ctx, &d->lines.examples, count - kept, kept, &limits, text, &d->lines.valid_batches);
    if (!status)
        status = qkv_batches_shapes(d->ctx, &d->lines.batches, (size_t)o->accumulate, &d->lines.shapes,
                                    &d->lines.shape_count);
    if (!status && d->lines.valid_batches.count)
        status = qkv_batches_shapes(d->ctx, &d->lines.valid_batches, 1, &d->lines.validation_shapes,
                                    &d->lines.validation_shape_count);
    return status;
}

enum qkv_status qkv_lines_open(struct qkv_data *d, const struct qkv_lines *lines, int32_t end, int32_t beside_end) {
    const struct qkv_train_options *o = d->options;
    struct qkv_data_facts *facts = d->facts;
    struct files data = {d->data_path, d->beside_data_path, &facts->data_files, &facts->data, &facts->beside_data};
    struct files valid = {d->valid_path, d->beside_valid_path, &facts->valid_files, &facts->valid,
                          &facts->beside_valid};
    d->lines.examples.end = d->lines.valid_examples.end = end;
    d->lines.examples.beside_end = d->lines.valid_examples.beside_end = beside_end;
    enum qkv_status status = open_files(d, &data, lines, &d->lines.examples);
    if (!status && o->valid) status = open_files(d, &valid, lines, &d->lines.valid_examples);
    return status ? status : make_batches(d);
}

size_t qkv_lines_bytes(const struct qkv_data *d) {
    const size_t shapes = d->lines.shape_count + d->lines.validation_shape_count;
    return qkv_examples_bytes(&d->lines.examples) + qkv_examples_bytes(&d->lines.valid_examples) +
           qkv_batches_bytes(&d->lines.batches) + qkv_batches_bytes(&d->lines.valid_batches) +
           shapes * sizeof *d->lines.shapes;
}

enum qkv_status qkv_lines_begin(struct qkv_data *d, uint64_t step, struct qkv_dataset_step *out) {
    uint64_t seed = (uint64_t)d->options->seed;
    const struct qkv_examples *e = &d->lines.examples;
    size_t batch = qkv_batches_at_step(&d->lines.batches, seed, step);
    const uint32_t *rows = d->lines.batches.order + d->lines.batches.cut[batch];
    *out = (struct qkv_dataset_step){.rows = d->lines.batches.shapes[batch].B,
                                     .tokens = (size_t)d->lines.batches.tokens[batch]};
    for (size_t r = 0; r < out->rows; r++) {
        const size_t first = e->main_at[rows[r]], past = e->main_at[rows[r] + 1];
        if (!e->beside_each) out->targets += e->beside_end < 0 ? 1 : past - first;
        for (size_t k = first + e->marks; e->beside_each && k < past; k++)
            out->targets +=
                e->marks ? qkv_tokens_at(&e->beside, k) & QKV_MARK_COUNTS : qkv_tokens_at(&e->beside, k) > 0;
    }
    return QKV_OK;
}

static size_t lines_tokens(const struct qkv_batches *batches) {
    size_t tokens = 0;
    for (size_t i = 0; i < batches->count; i++) tokens += (size_t)batches->tokens[i];
    return tokens;
}

void qkv_lines_count(const struct qkv_data *d, struct qkv_data_counts *counts) {
    *counts = (struct qkv_data_counts){.examples = d->lines.batches.examples,
                                       .valid_examples = d->lines.valid_batches.examples,
                                       .tokens = lines_tokens(&d->lines.batches),
                                       .valid_tokens = lines_tokens(&d->lines.valid_batches)};
}

double qkv_lines_epoch(const struct qkv_data *d) {
    return (double)d->lines.batches.count;
}

uint64_t qkv_lines_total(struct qkv_data *d, uint64_t step) {
    return qkv_batches_tokens(&d->lines.batches, (uint64_t)d->options->seed, step);
}

enum qkv_status qkv_lines_fill(struct qkv_data *d, uint64_t step, size_t begin, size_t end, struct qkv_batch *batch) {
    size_t b = qkv_batches_at_step(&d->lines.batches, (uint64_t)d->options->seed, step);
    batch->B = end - begin;
    batch->T = d->lines.batches.shapes[b].T;
    batch->source_T = d->lines.batches.shapes[b].source_T;
    d->dataset->rows(d, &d->lines.examples, d->lines.batches.order + d->lines.batches.cut[b] + begin, batch);
    return QKV_OK;
}

enum qkv_status qkv_lines_validate(struct qkv_data *d, struct qkv_pass *pass, qkv_validation_view *look, void *user,
                                   double *loss) {
    struct qkv_batches *b = &d->lines.valid_batches;
    const struct qkv_examples *examples = d->options->valid ? &d->lines.valid_examples : &d->lines.examples;
    size_t most = (size_t)d->options->eval_batches, count = most && most < b->count ? most : b->count, counted = 0;
    double nll = 0;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < count && !status; i++) {
        size_t at = i * (b->count / count) + i * (b->count % count) / count, targets; /* spread evenly */
        struct qkv_batch batch = {.B = b->shapes[at].B, .T = b->shapes[at].T, .source_T = b->shapes[at].source_T};
        d->dataset->rows(d, examples, b->order + b->cut[at], &batch);
        status = qkv_train_progress(d->ctx, d->progress, d->user, "validating", (double)i, (double)count);
        if (!status) status = qkv_pass_forward(pass, &batch);
        if (status) return status;
        double mean = qkv_pass_loss(pass, &targets);
        nll += mean * (double)targets;
        counted += targets;
        if (look) look(pass, &batch, user);
    }
    *loss = nll / (double)counted;
    return status;
}
