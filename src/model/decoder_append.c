/* decoder_append: appends tokens to rows, each row its own number, in passes of a limited number of tokens, so that the
 * memory of a pass does not grow with prompts. A row's bits depend on its own source and target only, so cutting
 * changes no bit. Where the spec has a prefix, the first tokens of an empty row are not cut. */
#include "model/decode.h"

#include <string.h>

struct append {
    struct qkv_decoder *d;
    const int32_t *ids;
    const size_t *counts; /* (rows); NULL: one token each */
    size_t tokens;        /* of all rows */
    const size_t *scored; /* (scored_count): indices of tokens, rising; NULL: the last token of each row */
    size_t scored_count;
};

static size_t append_count(const struct append *a, size_t row) {
    return a->counts ? a->counts[row] : 1;
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static enum qkv_status append_check_rows(struct append *a) {
    struct qkv_decoder *d = a->d;
    struct qkv_context *ctx = d->model->ctx;
    for (size_t r = 0; r < d->rows; r++) {
        const size_t count = append_count(a, r);
        if (count > d->capacity - d->reached[r])
            return qkv_fail(
                ctx, QKV_ARGUMENT,
                "%zu more tokens do not fit: the decoder holds %zu of %zu positions (a longer context needs a "
                "model trained with one)",
                count, d->reached[r], d->capacity);
        a->tokens += count;
        if (!a->scored) a->scored_count += count > 0;
    }
    if (a->tokens && !a->ids)
        return qkv_fail(ctx, QKV_ARGUMENT, "%zu tokens are to be appended, but ids is NULL", a->tokens);
    return QKV_OK;
}

static enum qkv_status append_check(struct append *a) {
    struct qkv_model *m = a->d->model;
    enum qkv_status status = append_check_rows(a);
    if (status) return status;
    for (size_t i = 0; i < a->tokens; i++)
        if (a->ids[i] < 0 || a->ids[i] >= m->spec.vocab)
            return qkv_fail(m->ctx, QKV_ARGUMENT, "token id %d is out of range: ids are 0 to %d", a->ids[i],
                            m->spec.vocab - 1);
    for (size_t i = 0; a->scored && i < a->scored_count; i++)
        if (a->scored[i] >= a->tokens || (i && a->scored[i] <= a->scored[i - 1]))
            return qkv_fail(m->ctx, QKV_ARGUMENT,
                            "scores are wanted of token %zu of %zu; name tokens that are appended, each once, in order",
                            a->scored[i], a->tokens);
    return qkv_model_ready(m);
}

/* ---- passes ------------------------------------------------------------------------------------------------------ */

/* The progress of an append: row `row` has `done` of its tokens; `first` is the first token of the next pass. */
struct append_place {
    size_t row, done, first, scored;
};

/* Cuts the next pass: tokens row by row, as many as fit. Returns their number. */
static size_t append_cut(const struct append *a, struct append_place *at, struct qkv_decoder_pass *p) {
    struct qkv_decoder *d = a->d;
    const size_t most = qkv_decoder_pass_most(d);
    size_t tokens = 0;
    while (at->row < d->rows && tokens < most) {
        const size_t left = append_count(a, at->row) - at->done, step = left < most - tokens ? left : most - tokens;
        if (step < left && tokens && qkv_decoder_begins(d, at->row)) break;
        if (step) {
            d->active[p->rows] = at->row;
            d->more[p->rows++] = step;
        }
        tokens += step;
        at->done += step;
        if (at->done < append_count(a, at->row)) break;
        at->row++, at->done = 0;
    }
    return tokens;
}

/* Chooses the tokens of this pass whose scores are wanted, as indices into the pass. */
static void append_choose(const struct append *a, struct append_place *at, struct qkv_decoder_pass *p, size_t tokens) {
    const struct qkv_decoder *d = a->d;
    int32_t *chosen = d->chosen;
    for (size_t n = at->scored; a->scored && n < a->scored_count && a->scored[n] < at->first + tokens; n++)
        chosen[p->scored++] = (int32_t)(a->scored[n] - at->first);
    for (size_t i = 0, end = 0; !a->scored && i < p->rows; i++) {
        end += d->more[i];
        const size_t row = d->active[i];
        if (d->reached[row] + d->more[i] == d->lists[row].length) chosen[p->scored++] = (int32_t)(end - 1);
    }
    p->chosen = chosen;
    p->scores = d->scores + at->scored * (size_t)d->model->spec.vocab;
    at->scored += p->scored;
}

static enum qkv_status append_run(struct append *a) {
    struct qkv_decoder *d = a->d;
    struct append_place at = {0};
    enum qkv_status status = QKV_OK;
    for (size_t done = 0; done < a->tokens && !status; done = at.first) {
        struct qkv_decoder_pass p = {.ids = a->ids + at.first};
        const size_t tokens = append_cut(a, &at, &p);
        append_choose(a, &at, &p, tokens);
        qkv_decoder_group(d, &p);
        status = qkv_decoder_pass_run(d, &p);
        at.first += tokens;
        for (size_t i = 0; !status && i < p.rows; i++) d->reached[d->active[i]] += d->more[i];
    }
    return status;
}

/* ---- the interface ----------------------------------------------------------------------------------------------- */

enum qkv_status qkv_decoder_grow(struct qkv_decoder *d, const struct qkv_decoder_input *input) {
    struct append a = {.d = d,
                       .ids = input->ids,
                       .counts = input->counts,
                       .scored = input->scored,
                       .scored_count = input->scored_count};
    if (!input->scored) a.scored_count = 0;
    qkv_rank_alive(d->model->ctx);
    enum qkv_status status = append_check(&a);
    for (size_t r = 0; !status && r < d->rows; r++) {
        d->before[r] = d->reached[r];
        d->wanted[r] = append_count(&a, r);
    }
    if (!status) status = qkv_page_lists_grow(d->pool, d->lists, d->wanted, d->rows);
    if (status) return status;
    d->scored = 0;
    status = qkv_decoder_take_scores(d, a.scored_count > d->most ? a.scored_count : d->most);
    if (!status) status = append_run(&a);
    for (size_t r = 0; status && r < d->rows; r++) {
        qkv_page_list_truncate(d->pool, &d->lists[r], d->before[r]);
        d->reached[r] = d->before[r];
    }
    if (!status) d->scored = a.scored_count;
    return status;
}

struct qkv_decoder_input qkv_decoder_input_defaults(void) {
    return (struct qkv_decoder_input){0};
}

enum qkv_status qkv_decoder_append(struct qkv_decoder *d, const struct qkv_decoder_input *input) {
    QKV_CALL(d ? d->model->ctx : NULL);
    QKV_NEED(qkv_call, d);
    QKV_NEED(qkv_call, input);
    return qkv_decoder_grow(d, input);
}

enum qkv_status qkv_decoder_step(struct qkv_decoder *d, const int32_t *ids) {
    QKV_CALL(d ? d->model->ctx : NULL);
    QKV_NEED(qkv_call, d);
    QKV_NEED(qkv_call, ids);
    return qkv_decoder_grow(d, &(struct qkv_decoder_input){.ids = ids});
}

const float *qkv_decoder_logits(const struct qkv_decoder *d) {
    if (!d) return NULL;
    return d->scored ? d->scores : NULL;
}

size_t qkv_decoder_scored(const struct qkv_decoder *d) {
    if (!d) return 0;
    return d->scored;
}
