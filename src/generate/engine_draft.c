/* Guesses: a draft model's likeliest tokens, or those that followed the latest earlier place where an answer's newest
 * tokens occur ("prompt lookup decoding", Saxena 2023; speculative decoding, Leviathan et al. 2023). A guess is read
 * with the newest token; each token is then chosen from the same scores as without it. */
#include "generate/engine.h"

#include <math.h>
#include <string.h>

enum { LONGEST = 4, SHORTEST = 2 }; /* tokens that must be the same */

/* Tokens that may be guessed for an answer. */
static size_t draft_most(const struct qkv_engine *e, const struct qkv_engine_answer *a) {
    const size_t left = a->job->tokens - a->made, room = e->context - a->count;
    return qkv_min(e->drafts, qkv_min(room, left ? left - 1 : 0));
}

/* ---- texts that repeat ------------------------------------------------------------------------------------------- */

/* The place after the latest earlier occurrence of the last n ids; 0: there is none. */
static size_t draft_place(const int32_t *ids, size_t count, size_t n) {
    for (size_t end = count - 1; end >= n; end--)
        if (!memcmp(ids + end - n, ids + count - n, n * sizeof *ids)) return end;
    return 0;
}

static void draft_look_up(const struct qkv_engine *e, struct qkv_engine_answer *a) {
    const size_t most = draft_most(e, a);
    for (size_t n = LONGEST; most && n >= SHORTEST; n--) {
        const size_t from = a->count > n ? draft_place(a->ids, a->count, n) : 0;
        if (!from) continue;
        for (; a->drafted < most; a->drafted++) a->ids[a->count + a->drafted] = a->ids[from + a->drafted];
        return;
    }
}

/* ---- a draft model ----------------------------------------------------------------------------------------------- */

static enum qkv_status draft_check_tokens(struct qkv_engine *e) {
    const struct qkv_tokenizer *own = qkv_model_tokenizer(e->draft_model), *of = qkv_model_tokenizer(e->model);
    const int count = (int)qkv_min((size_t)e->draft_model->spec.vocab, (size_t)e->model->spec.vocab);
    for (int id = 0; own && of && id < count; id++) {
        size_t size[2] = {0};
        const char *text[] = {qkv_tokenizer_token(own, id, &size[0]), qkv_tokenizer_token(of, id, &size[1])};
        if (!text[0] || !text[1]) continue; /* vocabularies may be padded */
        if (size[0] != size[1] || memcmp(text[0], text[1], size[0]))
            return qkv_fail(e->ctx, QKV_ARGUMENT,
                            "token %d is \"%.*s\" in the draft model, but \"%.*s\" in the model; a draft needs the "
                            "model's tokens",
                            id, (int)qkv_min(size[0], 40), text[0], (int)qkv_min(size[1], 40), text[1]);
    }
    return QKV_OK;
}

enum qkv_status qkv_engine_draft_check(struct qkv_engine *e) {
    const struct qkv_spec *spec = &e->draft_model->spec;
    if (e->draft_model->ctx != e->ctx)
        return qkv_fail(e->ctx, QKV_ARGUMENT, "the draft model belongs to another context; open it in the model's");
    if (e->model->encoder.spec || !e->model->decoder.spec || e->model->spec.head.kind != QKV_HEAD_LM)
        return qkv_fail(e->ctx, QKV_ARGUMENT, "a draft model guesses for decoders with an lm head alone");
    if (e->draft_model->encoder.spec || !e->draft_model->decoder.spec || spec->head.kind != QKV_HEAD_LM || spec->prefix)
        return qkv_fail(e->ctx, QKV_ARGUMENT, "the draft model must be a causal decoder with an lm head");
    return draft_check_tokens(e);
}

void qkv_engine_draft_drop(struct qkv_engine *e, const struct qkv_engine_answer *a) {
    if (e->draft && e->draft->reached[a->row] >= a->count) qkv_decoder_shorten(e->draft, a->row, a->count - 1);
}

/* Begins to list what the draft model reads: the tokens of the rows that it has not read, as far as they fit into a
 * step. */
static void draft_list(struct qkv_engine *e) {
    struct qkv_decoder *d = e->draft;
    size_t n = 0;
    for (size_t r = 0; r < e->row_count; r++) {
        struct qkv_engine_answer *a = e->rows[r];
        e->counts[r] = 0;
        if (!a || !a->made || a->job->search || a->undrafted || !draft_most(e, a)) continue;
        const size_t from = d->reached[r];
        a->undrafted = a->count + e->drafts > d->capacity;
        for (size_t k = from; k < a->count && !a->undrafted && n < e->budget; k++) {
            a->undrafted = a->ids[k] >= d->model->spec.vocab;
            e->ids[n++] = a->ids[k];
            e->counts[r]++;
        }
        if (!a->undrafted) continue;
        n -= e->counts[r];
        e->counts[r] = 0;
        qkv_decoder_shorten(d, r, 0);
    }
}

/* Takes the youngest row out of the list, and its pages. False: there is none. */
static bool draft_give_up(struct qkv_engine *e) {
    size_t found = e->row_count, at = 0, after = 0;
    for (size_t r = 0; r < e->row_count; r++) {
        const struct qkv_engine_answer *a = e->rows[r];
        if (!a || !(e->counts[r] || e->draft->reached[r])) continue;
        if (found == e->row_count || a->job->id > e->rows[found]->job->id) found = r;
    }
    if (found == e->row_count) return false;
    for (size_t r = 0; r < e->row_count; r++) *(r < found ? &at : &after) += r == found ? 0 : e->counts[r];
    memmove(e->ids + at, e->ids + at + e->counts[found], after * sizeof *e->ids);
    e->counts[found] = 0;
    e->rows[found]->undrafted = true;
    qkv_decoder_shorten(e->draft, found, 0);
    return true;
}

/* Reads the list; where pages are missing, the youngest rows have no more guesses. *more: whether anything was read. */
static enum qkv_status draft_read(struct qkv_engine *e, bool *more) {
    for (;;) {
        *more = false;
        for (size_t r = 0; r < e->row_count; r++) *more = *more || e->counts[r];
        if (!*more) return QKV_OK;
        const struct qkv_decoder_input input = {.ids = e->ids, .counts = e->counts};
        const enum qkv_status status = qkv_decoder_grow(e->draft, &input);
        if (status != QKV_FULL || !draft_give_up(e)) return status;
        qkv_forgive(e->ctx);
    }
}

static int32_t draft_likeliest(const float *scores, size_t count) {
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (scores[i] > scores[best]) best = i;
    return (int32_t)best;
}

/* Takes a guess for each row whose tokens are all read, and lists those that are followed by another. */
static void draft_take(struct qkv_engine *e) {
    const size_t vocab = (size_t)e->draft_model->spec.vocab, known = (size_t)e->model->spec.vocab;
    const float *scores = e->draft->scores;
    size_t n = 0;
    for (size_t r = 0; r < e->row_count; r++) {
        struct qkv_engine_answer *a = e->rows[r];
        if (!e->counts[r]) continue;
        e->counts[r] = 0;
        if (e->draft->reached[r] == a->count + a->drafted) {
            const int32_t guess = draft_likeliest(scores, qkv_min(vocab, known));
            a->ids[a->count + a->drafted++] = guess;
            if (a->drafted < draft_most(e, a)) e->ids[n++] = guess, e->counts[r] = 1;
        }
        scores += vocab;
    }
}

enum qkv_status qkv_engine_draft(struct qkv_engine *e) {
    enum qkv_status status = QKV_OK;
    if (e->draft) {
        draft_list(e);
        for (bool more = true; more && !status;) {
            status = draft_read(e, &more);
            if (!status && more) draft_take(e);
        }
        return status;
    }
    for (size_t r = 0; r < e->row_count; r++) {
        struct qkv_engine_answer *a = e->rows[r];
        if (a && a->made && !a->job->search) draft_look_up(e, a);
    }
    return QKV_OK;
}
