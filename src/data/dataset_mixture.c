/* Learning from a mixture of texts that may be larger than memory: documents of several sources as shards (shards.h).
 * A source's windows follow one another in its documents, a context apart; every epoch has each of them once, in an
 * order that is computed (permute.h). The end of each shard is held out for validation. */
#include <stdlib.h>
#include <string.h>

#include "data/data.h"
#include "data/permute.h"
#include "data/shards.h"
#include "data/sources.h"
#include "text/text.h"

struct mixture_source {
    struct qkv_tokens train; /* joined of its shards */
    struct qkv_tokens_join join;
    uint64_t windows;
};
struct mixture {
    struct qkv_shards data, valid;
    struct qkv_tokens *train_parts, *valid_parts; /* of each shard of data; those of valid follow in valid_parts */
    uint64_t *before;                             /* of the joins */
    struct qkv_tokens_join valid_join;
    struct mixture_source *sources;
    struct qkv_mix mix;
};

static void dataset_mixture_close(struct qkv_data *d) {
    struct mixture *m = d->own;
    if (!m) return;
    qkv_shards_close(&m->data);
    qkv_shards_close(&m->valid);
    free(m->train_parts);
    free(m->valid_parts);
    free(m->before);
    free(m->sources);
    free(m);
    d->own = NULL;
}

static const char *mixture_key(const struct qkv_data *d) {
    return d->options->text_key && *d->options->text_key ? d->options->text_key : QKV_TEXT_KEY;
}

/* ---- tokenizer --------------------------------------------------------------------------------------------------- */

static enum qkv_status mixture_learn(void *user, struct qkv_learner *learner) {
    struct qkv_data *d = user;
    struct qkv_document_reader reader = {
        .ctx = d->ctx, .files = &d->facts->data_files, .key = mixture_key(d), .skip_bad = d->options->skip_bad};
    return qkv_documents_learn(&reader, learner, d->progress, d->user);
}

static enum qkv_status dataset_mixture_prepare(struct qkv_data *d, struct qkv_spec *spec) {
    const bool learns = !d->origin && qkv_tokenizer_learns(d->options->tokenizer);
    const bool ends = d->origin ? qkv_document_end(qkv_model_tokenizer(d->origin)) < 0 : learns;
    const char *specials[2];
    struct qkv_tokenizer_choice choice = {
        .what = "tokenizer", .choice = d->options->tokenizer, .specials = specials, .learn_user = d};
    if (qkv_task_masks(d->options)) specials[choice.special_count++] = QKV_TOKEN_MASK;
    if (ends) specials[choice.special_count++] = QKV_TOKEN_TEXT_END;
    if (learns) choice.learn = mixture_learn;
    enum qkv_status status = qkv_text_tokenizer(d, &choice, spec);
    if (status || qkv_document_end(d->tokenizer) >= 0) return status;
    return qkv_fail(
        d->ctx, QKV_ARGUMENT,
        "the tokenizer has no end token, <|endoftext|> or " QKV_TOKEN_END
        ", that says where a document of a mixture ends; choose tokenizer bpe, or a tokenizer.json that has "
        "one");
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

/* The first place behind an end token of begin … end; SIZE_MAX: there is none. `last`: the last such place. */
static enum qkv_status mixture_find(const struct qkv_tokens *tokens, int32_t id, size_t begin, size_t end, bool last,
                                    size_t *place) {
    int32_t ids[4096];
    *place = SIZE_MAX;
    for (size_t done = 0, n; done < end - begin; done += n) {
        n = qkv_min(end - begin - done, sizeof ids / sizeof *ids);
        const size_t at = last ? end - done - n : begin + done;
        enum qkv_status status = qkv_tokens_read(tokens, at, n, ids);
        if (status) return status;
        for (size_t i = 0; i < n; i++) {
            const size_t k = last ? n - 1 - i : i;
            if (ids[k] != id) continue;
            *place = at + k + 1;
            return QKV_OK;
        }
    }
    return QKV_OK;
}

/* Where the part of a shard that is held out begins: the end of a document that is nearest to that share of its tokens
 * and makes the part at most half larger or smaller; without one there, in a document. */
static enum qkv_status mixture_cut(const struct qkv_data *d, const struct qkv_tokens *tokens,
                                   const struct qkv_shard *shard, size_t *cut) {
    const int32_t id = qkv_document_end(qkv_model_tokenizer(d->model));
    const size_t count = tokens->count, part = (size_t)((double)count * d->options->valid_fraction);
    const size_t wanted = count - part, end = qkv_min((size_t)shard->end, wanted + part / 2);
    size_t above = SIZE_MAX, below = SIZE_MAX;
    *cut = d->options->valid ? count : wanted;
    if (d->options->valid || !part || !wanted) return QKV_OK;
    const size_t low = wanted - qkv_min(part / 2, wanted - 1) - 1, middle = qkv_min(wanted - 1, end);
    enum qkv_status status = mixture_find(tokens, id, middle, end, false, &above);
    if (!status && low < middle) status = mixture_find(tokens, id, low, middle, true, &below);
    if (status) return status;
    if (below != SIZE_MAX) *cut = below;
    if (above != SIZE_MAX && (below == SIZE_MAX || above - wanted <= wanted - below)) *cut = above;
    return QKV_OK;
}

static enum qkv_status mixture_parts(struct qkv_data *d, struct mixture *m) {
    const size_t count = m->data.count, valid = m->valid.count;
    m->train_parts = qkv_allocate(d->ctx, count + 1, sizeof *m->train_parts);
    m->valid_parts = qkv_allocate(d->ctx, count + valid + 1, sizeof *m->valid_parts);
    if (!m->train_parts || !m->valid_parts) return QKV_MEMORY;
    for (size_t i = 0; i < count; i++) {
        size_t cut;
        enum qkv_status status = mixture_cut(d, &m->data.tokens[i], &m->data.items[i], &cut);
        if (status) return status;
        m->train_parts[i] = qkv_tokens_part(&m->data.tokens[i], 0, cut);
        m->valid_parts[i] = qkv_tokens_part(&m->data.tokens[i], cut, m->data.tokens[i].count - cut);
    }
    for (size_t i = 0; i < valid; i++)
        m->valid_parts[count + i] = qkv_tokens_part(&m->valid.tokens[i], 0, m->valid.tokens[i].count);
    return QKV_OK;
}

/* Joins parts, with room for count + 1 sums at `before`. */
static struct qkv_tokens mixture_join(struct qkv_tokens_join *join, const struct qkv_tokens *parts, uint64_t *before,
                                      size_t count) {
    *join = (struct qkv_tokens_join){parts, before, count};
    before[0] = 0;
    for (size_t i = 0; i < count; i++) before[i + 1] = before[i] + parts[i].count;
    struct qkv_tokens all = *parts;
    all.file = (struct qkv_file){0};
    all.join = join;
    all.start = 0;
    all.count = (size_t)before[count];
    return all;
}

static enum qkv_status mixture_split(struct qkv_data *d, struct mixture *m) {
    const char *const *names = qkv_dataset_names(d->dataset, d->options);
    double weights[QKV_FILES_MAX];
    const size_t sources = qkv_sources_weights(names, weights), count = m->data.count;
    enum qkv_status status = mixture_parts(d, m);
    m->sources = qkv_allocate(d->ctx, sources, sizeof *m->sources);
    m->before = qkv_allocate(d->ctx, 2 * count + m->valid.count + sources + 2, sizeof *m->before);
    if (!m->sources || !m->before) return QKV_MEMORY;
    if (status) return status;
    uint64_t *before = m->before;
    size_t at = 0, n, total = 0;
    for (size_t s = 0; s < sources && !status; s++, at += n) {
        struct mixture_source *source = &m->sources[s];
        struct qkv_text_file name = {.path = (char *)(uintptr_t)names[s]};
        const struct qkv_text_files named = {.items = &name, .count = 1};
        for (n = 0; at + n < count && m->data.items[at + n].source == s;) n++;
        if (!n) return qkv_fail(d->ctx, QKV_FORMAT, "there is no document in %s; give a text", names[s]);
        source->train = mixture_join(&source->join, m->train_parts + at, before, n);
        before += n + 1;
        total += source->train.count;
        source->windows = source->train.count > d->T ? (source->train.count - 1) / d->T : 0;
        if (!source->windows)
            status = qkv_text_short(d, "training", sources > 1 ? &named : &d->facts->data_files, source->train.count,
                                    d->options->valid_fraction > 0 ? ", or a smaller valid_fraction" : "");
    }
    if (status) return status;
    qkv_mix_begin(&m->mix, (uint64_t)d->options->seed, weights, sources);
    d->windows.valid = mixture_join(&m->valid_join, m->valid_parts, before, count + m->valid.count);
    d->windows.train = (struct qkv_tokens){.count = total};
    return qkv_text_valid_short(d);
}

/* ---- the texts --------------------------------------------------------------------------------------------------- */

static enum qkv_status mixture_open(struct qkv_data *d, struct qkv_text_files *files, struct qkv_text_facts *facts,
                                    struct qkv_shards *shards) {
    const char *given = d->options->shards;
    char *folder =
        given && *given ? qkv_copy_string(d->ctx, given) : qkv_join_path(d->ctx, d->folder, QKV_SHARDS_FOLDER);
    if (!folder) return QKV_MEMORY;
    const struct qkv_shards_plan plan = {.ctx = d->ctx,
                                         .folder = folder,
                                         .files = files,
                                         .tokenizer = qkv_model_tokenizer(d->model),
                                         .facts = facts,
                                         .key = mixture_key(d),
                                         .skip_bad = d->options->skip_bad,
                                         .shard_tokens = QKV_SHARD_TOKENS,
                                         .notes = d->notes,
                                         .progress = d->progress,
                                         .user = d->user};
    enum qkv_status status = qkv_shards_open(&plan, shards);
    free(folder);
    return status;
}

static enum qkv_status dataset_mixture_open(struct qkv_data *d) {
    const struct qkv_train_options *o = d->options;
    struct mixture *m = qkv_allocate(d->ctx, 1, sizeof *m);
    if (!m) return QKV_MEMORY;
    dataset_mixture_close(d);
    d->own = m;
    d->B = (size_t)((o->batch + o->accumulate - 1) / o->accumulate);
    enum qkv_status status = mixture_open(d, &d->facts->data_files, &d->facts->data, &m->data);
    if (!status && o->valid) status = mixture_open(d, &d->facts->valid_files, &d->facts->valid, &m->valid);
    return status ? status : mixture_split(d, m);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static size_t mixture_place(const struct qkv_data *d, uint64_t step, size_t row, const struct qkv_tokens **tokens) {
    const struct mixture *m = d->own;
    uint64_t nth;
    const size_t s = qkv_mix_row(&m->mix, step * (uint64_t)d->options->batch + row, &nth);
    *tokens = &m->sources[s].train;
    return (size_t)qkv_mix_window(&m->mix, s, nth, m->sources[s].windows) * d->T;
}

static enum qkv_status dataset_mixture_fill(struct qkv_data *d, uint64_t step, size_t begin, size_t end,
                                            struct qkv_batch *batch) {
    return qkv_text_fill(d, step, begin, end, mixture_place, batch);
}

static enum qkv_status dataset_mixture_check(struct qkv_context *ctx, const struct qkv_train_options *options,
                                             const struct qkv_spec *spec) {
    const char *weighs = qkv_sources_weight(options->valid_files);
    if (weighs)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "valid: %s has a weight; files to validate on are read once and have none: leave it out",
                        weighs);
    enum qkv_status status = qkv_sources_check(ctx, qkv_dataset_names(&qkv_dataset_mixture, options));
    return status ? status : qkv_text_check(ctx, options, spec);
}

const struct qkv_dataset qkv_dataset_mixture = {
    QKV_DATASET_OPTION(data),
    .noun = "a mixture of texts",
    .nouns = "texts",
    .reads = QKV_READS_TEXT,
    .tasks = QKV_TASKS_TEXT,
    .tokenizers = 1,
    .weighs = true,
    .check = dataset_mixture_check,
    .prepare = dataset_mixture_prepare,
    .restore = qkv_text_restore,
    .open = dataset_mixture_open,
    .begin = qkv_text_begin,
    .fill = dataset_mixture_fill,
    .epoch = qkv_text_epoch,
    .total = qkv_text_total,
    .count = qkv_text_count,
    .validate = qkv_text_validate,
    .close = dataset_mixture_close,
};
