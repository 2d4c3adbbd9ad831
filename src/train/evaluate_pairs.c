/* Evaluating an encoder–decoder on a file of pairs: its loss, and how close to the references what it finds is. */
#include "base/sized_options.h"
#include "train/evaluate_pairs.h"

#include <stdlib.h>
#include <string.h>

#include "metric/metric.h"
#include "text/sequence.h"
#include "rank/evaluate_share.h"
#include "train/train.h"

enum { BATCHES = 4 }; /* of sources, that a rank searches together */

/* Distinct sources, what was found for each, and its references. */
struct answers {
    struct qkv_pair_file *pairs;
    struct qkv_context *ctx;
    qkv_progress *progress;
    void *user;
    size_t count;
    char **found;                    /* (count) */
    const char **sources, **targets; /* (count); (pairs), by group */
    const char *const **references;  /* (count): into targets */
    size_t *reference_counts;        /* (count) */
    enum qkv_status status;          /* of the callback */
    size_t first;                    /* of the sources that are searched in work */
};

static enum qkv_status check_model(struct qkv_model *model) {
    struct qkv_context *ctx = qkv_model_context(model);
    const struct qkv_spec *spec = qkv_model_spec(model);
    const struct qkv_tokenizer *tokenizer = qkv_model_tokenizer(model);
    bool both = qkv_spec_topology(spec) == QKV_ENCODER_DECODER;
    if (!both || spec->head.kind != QKV_HEAD_LM)
        return qkv_fail(ctx, QKV_ARGUMENT, "pairs need an encoder, a decoder and an lm head; this model has %s",
                        both                   ? "another head"
                        : spec->encoder.layers ? "an encoder alone: evaluate it on labelled lines"
                                               : "a decoder alone: evaluate it on a text");
    if (!tokenizer || !qkv_model_source_tokenizer(model))
        return qkv_tokenizer_missing(ctx, qkv_model_tokenizer_problem(model), NULL,
                                     tokenizer ? QKV_SOURCE_FILE : QKV_TOKENIZER_FILE, "");
    if (qkv_pairs_begin(model) < 0 || qkv_tokenizer_role(tokenizer, QKV_TOKEN_ROLE_END) < 0)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "the model's tokenizer has no " QKV_TOKEN_BEGIN " or no " QKV_TOKEN_END
                        ", between which targets stand; train one on pairs");
    return QKV_OK;
}

/* ---- the file --------------------------------------------------------------------------------------------------- */

static enum qkv_status keep_text(struct qkv_context *ctx, struct qkv_buffer *b, const char *s, size_t n, size_t *at) {
    *at = b->size;
    enum qkv_status status = qkv_buffer_append(ctx, b, s, n);
    return status ? status : qkv_buffer_append(ctx, b, "", 1);
}

static enum qkv_status add_pair(struct qkv_context *ctx, struct qkv_pair_file *p, const struct qkv_tsv_row *row) {
    struct qkv_pair *list = qkv_list_room(ctx, p->list, &p->capacity, p->count, 1, sizeof *list);
    if (!list) return QKV_MEMORY;
    p->list = list;
    struct qkv_pair *pair = &p->list[p->count++];
    const struct qkv_string *source = qkv_strings_add(ctx, &p->sources, row->first, row->first_size);
    if (!source) return QKV_MEMORY;
    pair->line = row->line;
    pair->group = (size_t)(source - p->sources.entries);
    enum qkv_status status = keep_text(ctx, &p->text, row->first, row->first_size, &pair->source);
    return status ? status : keep_text(ctx, &p->text, row->second, row->second_size, &pair->target);
}

static enum qkv_status read_pairs(struct qkv_context *ctx, struct qkv_pair_file *p) {
    struct qkv_tsv tsv;
    struct qkv_tsv_row row;
    bool end = false;
    enum qkv_status status = qkv_tsv_open(ctx, p->path, "source", "target", &tsv);
    while (!status && !(status = qkv_tsv_next(&tsv, &row, &end)) && !end) status = add_pair(ctx, p, &row);
    qkv_tsv_close(&tsv);
    return status;
}

/* ---- groups ----------------------------------------------------------------------------------------------------- */

static enum qkv_status evaluate_pairs_group(struct answers *a) {
    const struct qkv_pair_file *p = a->pairs;
    a->count = p->sources.count;
    a->found = qkv_allocate(a->ctx, a->count, sizeof *a->found);
    a->sources = qkv_allocate(a->ctx, a->count, sizeof *a->sources);
    a->targets = qkv_allocate(a->ctx, p->count, sizeof *a->targets);
    a->references = qkv_allocate(a->ctx, a->count, sizeof *a->references);
    a->reference_counts = qkv_allocate(a->ctx, a->count, sizeof *a->reference_counts);
    if (!a->found || !a->sources || !a->targets || !a->references || !a->reference_counts) return QKV_MEMORY;
    for (size_t i = 0; i < p->count; i++) a->reference_counts[p->list[i].group]++;
    const char **next = a->targets;
    for (size_t g = 0; g < a->count; g++) {
        a->references[g] = next;
        next += a->reference_counts[g];
        a->reference_counts[g] = 0;
    }
    for (size_t i = 0; i < p->count; i++) {
        size_t g = p->list[i].group, place = (size_t)(a->references[g] - (const char *const *)a->targets);
        a->targets[place + a->reference_counts[g]++] = p->text.data + p->list[i].target;
        a->sources[g] = p->text.data + p->list[i].source;
    }
    return QKV_OK;
}

static void evaluate_pairs_release(struct answers *a) {
    for (size_t g = 0; a->found && g < a->count; g++) free(a->found[g]);
    free(a->found);
    free(a->sources);
    free(a->targets);
    free(a->references);
    free(a->reference_counts);
}

/* ---- search ----------------------------------------------------------------------------------------------------- */

static bool evaluate_pairs_take(void *user, size_t line, size_t rank, const char *text, size_t size, double score) {
    struct answers *a = user;
    (void)score;
    if (rank > 0) return true;
    /* What is found is compared as text: a NUL byte in it would hide the rest. */
    char **found = &a->found[a->first + line];
    *found = qkv_copy_bytes(a->ctx, text, size);
    if (!*found) a->status = QKV_MEMORY;
    for (size_t i = 0; *found && i < size; i++)
        if (!(*found)[i]) (*found)[i] = '\1';
    if (!a->status)
        a->status = qkv_train_progress(a->ctx, a->progress, a->user, "searching", (double)(a->first + line + 1),
                                       (double)a->count);
    return !a->status;
}

/* Every rank gets what the others have found. */
static enum qkv_status evaluate_pairs_gather(struct answers *a, const uint64_t *sizes, size_t words) {
    char *text = qkv_allocate(a->ctx, words, sizeof(uint64_t));
    enum qkv_status status = qkv_rank_agree(a->ctx, text ? QKV_OK : QKV_MEMORY);
    char *at = text;
    for (size_t g = 0; g < a->count && !status; at += sizes[g++])
        if (a->found[g]) memcpy(at, a->found[g], sizes[g]);
    if (!status) status = qkv_evaluate_share_add_up(a->ctx, (uint64_t *)(void *)text, words);
    at = text;
    for (size_t g = 0; g < a->count && !status; at += sizes[g++]) {
        if (!a->found[g]) a->found[g] = qkv_copy_bytes(a->ctx, at, sizes[g] - 1);
        if (!a->found[g]) status = QKV_MEMORY;
    }
    free(text);
    return qkv_rank_agree(a->ctx, status);
}

static enum qkv_status evaluate_pairs_share(struct answers *a, enum qkv_status status) {
    if (qkv_context_ranks(a->ctx) == 1) return status;
    uint64_t *sizes = status ? NULL : qkv_allocate(a->ctx, a->count, sizeof *sizes); /* with the zero behind */
    size_t bytes = 0;
    if (!status && !sizes) status = QKV_MEMORY;
    status = qkv_rank_agree(a->ctx, status);
    for (size_t g = 0; g < a->count && !status; g++) sizes[g] = a->found[g] ? strlen(a->found[g]) + 1 : 0;
    if (!status) status = qkv_evaluate_share_add_up(a->ctx, sizes, a->count);
    for (size_t g = 0; g < a->count && !status; g++) bytes += (size_t)sizes[g];
    if (!status) status = evaluate_pairs_gather(a, sizes, bytes / sizeof(uint64_t) + 1);
    free(sizes);
    return status;
}

static enum qkv_status evaluate_pairs_search(struct answers *a, struct qkv_search_options o) {
    struct qkv_evaluate_share share = {.ctx = a->ctx};
    const size_t some = BATCHES * qkv_min(o.batch ? o.batch : 32, a->count); /* results do not depend on it */
    enum qkv_status status = QKV_OK;
    o.n_best = 1;
    for (a->first = 0; a->first < a->count && !status; a->first += some) {
        if (!qkv_evaluate_share_next(&share)) continue;
        const size_t count = a->count - a->first < some ? a->count - a->first : some;
        status = qkv_translate(a->pairs->model, a->sources + a->first, count, &o, evaluate_pairs_take, a);
        if (a->status) status = a->status;
    }
    return evaluate_pairs_share(a, status);
}

/* ---- comparison ------------------------------------------------------------------------------------------------- */

struct span {
    const char *at;
    size_t size;
};

static struct span evaluate_pairs_trim(const char *text) {
    struct span s = {text, strlen(text)};
    while (s.size && qkv_is_blank(s.at, 1)) s.at++, s.size--;
    while (s.size && qkv_is_blank(s.at + s.size - 1, 1)) s.size--;
    return s;
}

static bool evaluate_pairs_same(const char *a, const char *b) {
    struct span x = evaluate_pairs_trim(a), y = evaluate_pairs_trim(b);
    return x.size == y.size && memcmp(x.at, y.at, x.size) == 0;
}

static double share_exact(const struct answers *a) {
    size_t exact = 0;
    for (size_t g = 0; g < a->count; g++) {
        bool any = false;
        for (size_t r = 0; r < a->reference_counts[g] && !any; r++)
            any = evaluate_pairs_same(a->found[g], a->references[g][r]);
        exact += any;
    }
    return (double)exact / (double)a->count;
}

/* The tokens of texts: words, each as its number in `names`, or characters. */
struct units {
    bool words;
    struct qkv_strings names;
    struct qkv_characters found, reference, word;
};

static enum qkv_status evaluate_pairs_cut(struct qkv_context *ctx, struct units *u, const char *text,
                                          struct qkv_characters *out) {
    if (!u->words) return qkv_characters_set(ctx, out, text);
    enum qkv_status status = QKV_OK;
    out->count = 0;
    for (const char *at = text; *at && !status;) {
        size_t n = 0;
        while (at[n] && !qkv_is_blank(at + n, 1)) n++;
        if (n == 0) {
            at++;
            continue;
        }
        const struct qkv_string *name = qkv_strings_add(ctx, &u->names, at, n);
        if (!name) return QKV_MEMORY;
        uint32_t number = (uint32_t)(name - u->names.entries);
        status = qkv_characters_append(ctx, out, &number, 1);
        at += n;
    }
    return status;
}

/* Edits to the closest of the references of a source (the first of equals), and its tokens. */
static enum qkv_status evaluate_pairs_closest(const struct answers *a, struct units *u, size_t g, size_t *edits,
                                              size_t *tokens) {
    enum qkv_status status = evaluate_pairs_cut(a->ctx, u, a->found[g], &u->found);
    *edits = SIZE_MAX;
    for (size_t r = 0; r < a->reference_counts[g] && !status; r++) {
        status = evaluate_pairs_cut(a->ctx, u, a->references[g][r], &u->reference);
        if (status) break;
        size_t n = qkv_edit_distance((const int32_t *)u->found.at, u->found.count, (const int32_t *)u->reference.at,
                                     u->reference.count);
        if (n == SIZE_MAX) return qkv_fail_memory(a->ctx, u->reference.count * sizeof(size_t), "an edit distance");
        if (n >= *edits) continue;
        *edits = n;
        *tokens = u->reference.count;
    }
    return status;
}

static enum qkv_status token_error(const struct answers *a, double *error) {
    struct units u = {0};
    size_t edits = 0, tokens = 0;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < a->pairs->count && !u.words; i++) {
        struct span target = evaluate_pairs_trim(a->targets[i]);
        u.words = memchr(target.at, ' ', target.size) != NULL;
    }
    for (size_t g = 0; g < a->count && !status; g++) {
        size_t more = 0, size = 0;
        status = evaluate_pairs_closest(a, &u, g, &more, &size);
        edits += more;
        tokens += size;
    }
    *error = tokens ? (double)edits / (double)tokens : 0;
    qkv_strings_free(&u.names);
    qkv_characters_free(&u.found);
    qkv_characters_free(&u.reference);
    return status;
}

static enum qkv_status evaluate_pairs_compare(const struct answers *a, struct qkv_pairs_evaluation *e) {
    const char *const *found = (const char *const *)a->found;
    const char *const *const *references = (const char *const *const *)a->references;
    e->exact = share_exact(a);
    enum qkv_status status = token_error(a, &e->token_error);
    if (!status) status = qkv_bleu(a->ctx, found, references, a->reference_counts, a->count, &e->bleu);
    return status ? status : qkv_chrf(a->ctx, found, references, a->reference_counts, a->count, &e->chrf);
}

enum qkv_status qkv_evaluate_pairs(struct qkv_model *model, const char *path, const struct qkv_search_options *options,
                                   qkv_progress *progress, void *user, struct qkv_pairs_evaluation *evaluation) {
    QKV_CALL(qkv_model_context(model));
    QKV_NEED(qkv_call, model);
    QKV_NEED(qkv_call, path);
    QKV_NEED(qkv_call, evaluation);
    struct qkv_pair_file pairs = {.model = model, .path = path};
    struct answers a = {.pairs = &pairs, .ctx = qkv_model_context(model), .progress = progress, .user = user};
    double started = qkv_clock();
    *evaluation = (struct qkv_pairs_evaluation){0};
    struct qkv_search_options own = qkv_search_defaults();
    enum qkv_status status = QKV_TAKE_OPTIONS(a.ctx, qkv_search_options, &own, options);
    if (!status && (own.source_language || own.target_language))
        status = qkv_fail(a.ctx, QKV_ARGUMENT,
                          "pairs are evaluated in the model's own languages; leave source_language and "
                          "target_language NULL");
    if (!status) status = check_model(model);
    if (!status) status = read_pairs(a.ctx, &pairs);
    status = qkv_rank_check_evaluation_of(model, path, status);
    if (!status) status = qkv_pairs_loss(&pairs, progress, user, &evaluation->loss);
    if (!status) status = qkv_rank_agree(a.ctx, evaluate_pairs_group(&a));
    double searching = qkv_clock();
    if (!status) status = evaluate_pairs_search(&a, own);
    evaluation->search_seconds = qkv_clock() - searching;
    if (!status) status = evaluate_pairs_compare(&a, evaluation);
    evaluation->sources = a.count;
    evaluation->pairs = pairs.count;
    evaluation->seconds = qkv_clock() - started;
    evaluate_pairs_release(&a);
    qkv_buffer_free(&pairs.text);
    free(pairs.list);
    qkv_strings_free(&pairs.sources);
    return status;
}
