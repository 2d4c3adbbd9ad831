/* A step: the newest token of each running answer, and pieces of prompts, in one batch. No choice here changes a bit of
 * an answer, so the time decides how much of a prompt is read. */
#include "generate/engine.h"

#include <string.h>

/* The tokens of a step are chosen to take STEP_SECONDS. Their number stays while steps take from STEP_SHORT to
 * STEP_LONG seconds. A request that nobody waits for has steps of STEP_ALONE times as many: a prompt is read faster in
 * larger pieces. */
#define STEP_SECONDS 0.2
#define STEP_SHORT   0.15
#define STEP_LONG    0.23
enum { STEP_LEAST = 8, STEP_ALONE = 2 };

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Tokens of an answer that the model has not read. */
static size_t unread(const struct qkv_engine *e, const struct qkv_engine_answer *a) {
    if (a->job->search) return qkv_engine_search_unread(e, a);
    return a->count - qkv_engine_read(e, a);
}

static size_t free_row(const struct qkv_engine *e) {
    size_t row = 0;
    while (row < e->row_count && e->rows[row]) row++;
    return row;
}

/* Whether another answer of the request reads the prompt: this one then continues from its pages. */
static bool is_led(const struct qkv_engine_answer *a) {
    const struct qkv_engine_job *job = a->job;
    for (size_t i = 0; i < job->request.answers && !a->made; i++)
        if (job->answers[i].row != QKV_ENGINE_NO_ROW && !job->answers[i].made) return true;
    return false;
}

/* Whether there are pages for the answer's unread tokens, one more for each running answer, and itself. */
static bool pages_suffice(const struct qkv_engine *e, const struct qkv_engine_answer *a) {
    const struct qkv_page_pool *pool = e->decoder->pool;
    const size_t wanted =
        qkv_page_count(pool->positions, a->count - a->dropped) - e->decoder->lists[a->row].count + e->state.running;
    return e->state.running == 1 || wanted <= pool->spare_count + qkv_engine_kept(e);
}

/* Gives waiting answers rows, the oldest first; none overtakes one that waits for memory. */
static void step_admit(struct qkv_engine *e) {
    const size_t most = e->state.running ? e->budget / 2 : e->budget; /* of sources */
    for (struct qkv_engine_job *job = e->jobs; job && e->state.waiting; job = job->next) {
        const bool searches = job->search && job->unended && job->answers[0].row == QKV_ENGINE_NO_ROW;
        if (searches && !qkv_engine_search_enter(e, job, most)) return;
        for (size_t i = 0; i < job->request.answers && !job->search; i++) {
            struct qkv_engine_answer *a = &job->answers[i];
            const size_t row = free_row(e);
            if (row == e->row_count) return;
            if (job->request.kind || a->ended || a->row != QKV_ENGINE_NO_ROW || is_led(a)) continue;
            if (!qkv_engine_source_enter(e, job, most)) return;
            qkv_engine_enter(e, a, row);
            qkv_engine_find(e, a);
            if (pages_suffice(e, a)) {
                const size_t found = e->decoder->reached[row];
                if (!a->made) a->cached = found;
                e->state.cached_tokens += found;
                continue;
            }
            qkv_engine_leave(e, a);
            return;
        }
    }
}

/* Gives waiting answers rows, and encodes their sources; *tokens: of them. */
static enum qkv_status step_begin(struct qkv_engine *e, size_t *tokens) {
    const size_t running = e->state.running;
    size_t some = 0;
    enum qkv_status status;
    *tokens = 0;
    if (running && e->row_count - running < e->refill) return QKV_OK;
    do {
        step_admit(e);
        status = qkv_engine_sources_run(e, &some);
        *tokens += some;
    } while (e->refill && some && !status);
    return status;
}

/* ---- the batch --------------------------------------------------------------------------------------------------- */

/* Full rows of answers that go on drop their older halves; the rest is read again, from position 0. */
static void step_roll(struct qkv_engine *e) {
    for (size_t r = 0; r < e->row_count; r++) {
        struct qkv_engine_answer *a = e->rows[r];
        if (!a || !a->job->rolls || e->decoder->reached[r] < e->context) continue;
        qkv_decoder_shorten(e->decoder, r, 0);
        a->dropped = a->count - qkv_max(e->context / 2, (size_t)1);
    }
}

/* Tokens of a prompt that may be read at once. What a model that sees prompts in both directions reads first is one
 * piece; each token of a prompt that is told has scores. */
static size_t piece_most(const struct qkv_engine *e, const struct qkv_engine_answer *a, size_t most) {
    const bool told = a->job->request.prompt_probabilities && !a->made;
    if (qkv_decoder_begins(e->decoder, a->row)) return a->dropped ? unread(e, a) : a->job->prompt.count;
    if (told) most = qkv_min(most, e->scored_most / 2 + 1);
    return qkv_min(most, unread(e, a));
}

/* Sorts the rows whose prompts are read by what is unread. */
static size_t prompts_sort(struct qkv_engine *e) {
    size_t count = 0;
    for (size_t r = 0; r < e->row_count; r++) {
        if (!e->rows[r] || unread(e, e->rows[r]) < 2) continue;
        size_t at = count++;
        while (at && unread(e, e->rows[e->order[at - 1]]) > unread(e, e->rows[r])) {
            e->order[at] = e->order[at - 1];
            at--;
        }
        e->order[at] = r;
    }
    return count;
}

static struct qkv_engine_answer *oldest_prompt(const struct qkv_engine *e, size_t count) {
    struct qkv_engine_answer *oldest = NULL;
    for (size_t i = 0; i < count; i++) {
        struct qkv_engine_answer *a = e->rows[e->order[i]];
        if (!oldest || a->job->id < oldest->job->id) oldest = a;
    }
    return oldest;
}

/* Adds the guesses to the rows, as far as there are scores for them, and tokens in the step. */
static size_t step_draft(struct qkv_engine *e, size_t tokens) {
    const size_t had = tokens;
    size_t scores = e->scored_most - e->state.running; /* each row may need one */
    for (size_t r = 0; r < e->row_count; r++) {
        struct qkv_engine_answer *a = e->rows[r];
        if (!a) continue;
        const size_t left = e->counts[r] && tokens < e->budget ? qkv_min(scores, e->budget - tokens) : 0;
        a->drafted = qkv_min(a->drafted, left);
        e->counts[r] += a->drafted;
        tokens += a->drafted;
        scores -= a->drafted;
    }
    return tokens - had;
}

/* Chooses the tokens of each row: one of each that makes tokens; of the rest, a quarter goes to the oldest prompt, and
 * the shortest prompts get theirs first. */
static size_t step_choose(struct qkv_engine *e, bool drafts) {
    size_t tokens = 0, left;
    memset(e->counts, 0, e->row_count * sizeof *e->counts);
    for (size_t r = 0; r < e->row_count; r++) {
        if (!e->rows[r]) continue;
        if (!drafts) e->rows[r]->drafted = 0;
        if (unread(e, e->rows[r]) == 1) tokens += e->counts[r] = piece_most(e, e->rows[r], 1);
    }
    const size_t prompts = prompts_sort(e);
    const size_t guessed = drafts && e->drafts ? step_draft(e, tokens) : 0;
    struct qkv_engine_answer *first = oldest_prompt(e, prompts);
    left = e->budget > tokens + guessed ? e->budget - tokens - guessed : !tokens;
    if (first && left) {
        tokens += e->counts[first->row] = piece_most(e, first, left / 4 + 1);
        left -= qkv_min(left, e->counts[first->row]);
    }
    for (size_t i = 0; i < prompts && left; i++) {
        struct qkv_engine_answer *a = e->rows[e->order[i]];
        const size_t had = e->counts[a->row], piece = qkv_decoder_begins(e->decoder, a->row)
                                                          ? piece_most(e, a, left)
                                                          : piece_most(e, a, had + left);
        e->counts[a->row] = piece;
        tokens += piece - had;
        left -= qkv_min(left, piece - had);
    }
    return tokens + guessed;
}

/* Whether the scores after token `place` of an answer are wanted. */
static bool is_scored(const struct qkv_engine_answer *a, size_t place) {
    const bool told = a->job->request.prompt_probabilities && place + 1 < a->job->prompt.count && place + 1 >= a->told;
    return told || place + 1 >= a->count;
}

/* Lists the tokens of the batch and those whose scores are wanted; cuts prompts whose scores do not fit. */
static size_t step_list(struct qkv_engine *e) {
    size_t n = 0, scored = 0, rows = 0;
    for (size_t r = 0; r < e->row_count; r++) rows += e->counts[r] > 0;
    for (size_t r = 0; r < e->row_count; r++) {
        struct qkv_engine_answer *a = e->rows[r];
        const size_t from = a ? qkv_engine_read(e, a) : 0;
        size_t k = 0;
        for (; k < e->counts[r]; k++) {
            if (is_scored(a, from + k)) {
                if (scored + rows > e->scored_most) break;
                e->scored[scored++] = n;
            }
            e->ids[n++] = a->ids[from + k];
        }
        rows -= e->counts[r] > 0;
        e->counts[r] = k;
        if (a && a->drafted) a->drafted = qkv_min(a->drafted, k - 1);
    }
    return scored;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* The youngest running answer, which is not the only one, nor one of the only search; NULL: there is no other. */
static struct qkv_engine_answer *youngest(const struct qkv_engine *e) {
    struct qkv_engine_answer *found = NULL;
    size_t running = 0;
    for (size_t r = 0; r < e->row_count; r++) {
        struct qkv_engine_answer *a = e->rows[r];
        if (!a) continue;
        running++;
        if (!found || a->job->id > found->job->id || (a->job == found->job && a->index > found->index)) found = a;
    }
    const size_t own = found && found->job->search ? found->job->request.answers : 1;
    return running > own ? found : NULL;
}

/* Grows the rows; where pages are missing, pages of the past are given away, then answers are put off. *scored: tokens
 * whose scores there are; *tokens: of the batch, which may be 0. */
static enum qkv_status step_grow(struct qkv_engine *e, size_t *tokens, size_t *scored) {
    for (bool drafts = true;;) {
        *tokens = step_choose(e, drafts);
        *scored = step_list(e);
        if (!*tokens) return QKV_OK;
        const struct qkv_decoder_input input = {
            .ids = e->ids, .counts = e->counts, .scored = e->scored, .scored_count = *scored};
        const enum qkv_status status = qkv_decoder_grow(e->decoder, &input);
        if (status != QKV_FULL) return status;
        if (drafts && e->drafts) {
            drafts = false; /* guesses put no answer off */
        } else if (!qkv_engine_forget_one(e)) {
            struct qkv_engine_answer *last = youngest(e);
            if (!last) return status;
            if (last->job->search)
                qkv_engine_search_leave(e, last->job);
            else
                qkv_engine_leave(e, last);
            e->state.put_off++;
        }
        qkv_forgive(e->ctx);
    }
}

/* ---- after the batch --------------------------------------------------------------------------------------------- */

/* The other answers of a request continue from the prompt that `a` has read, as far as there are rows. */
static enum qkv_status step_fork(struct qkv_engine *e, const struct qkv_engine_answer *a, size_t from,
                                 const float *logits) {
    struct qkv_decoder *d = e->decoder;
    struct qkv_engine_job *job = a->job;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < job->request.answers && !status; i++) {
        struct qkv_engine_answer *other = &job->answers[i];
        const size_t row = free_row(e);
        if (row == e->row_count) break;
        if (other->ended || other->made || other->row != QKV_ENGINE_NO_ROW) continue;
        qkv_engine_enter(e, other, row);
        qkv_decoder_shorten(d, row, 0); /* rows that are lent stay as an answer left them */
        qkv_page_list_fork(d->pool, &d->lists[row], &d->lists[from]);
        d->reached[row] = d->reached[from];
        other->cached = d->reached[row];
        other->known = a->known, other->node = a->node, other->node_hash = a->node_hash;
        e->state.cached_tokens += d->reached[row];
        status = qkv_engine_choose(e, other, logits);
        if (status) qkv_engine_leave(e, other);
    }
    return status;
}

/* The end of a request that makes no tokens. */
static enum qkv_status step_end_prompt(struct qkv_engine *e, struct qkv_engine_answer *a) {
    struct qkv_engine_told *told = qkv_engine_tell(e, a);
    if (!told) return QKV_MEMORY;
    qkv_engine_end(e, a, QKV_FINISH_LENGTH, told);
    return QKV_OK;
}

/* Chooses a token of an answer whose tokens are all read, and of those that continue from it. */
static enum qkv_status step_token(struct qkv_engine *e, struct qkv_engine_answer *a, const float *logits) {
    const size_t row = a->row;
    enum qkv_status status = QKV_OK;
    const int32_t guess = a->drafted ? a->ids[a->count] : -1;
    if (!a->made && a->job->tokens) status = step_fork(e, a, row, logits);
    if (!status) status = a->job->tokens ? qkv_engine_choose(e, a, logits) : step_end_prompt(e, a);
    if (status) qkv_decoder_shorten(e->decoder, row, a->count - a->dropped - 1); /* its scores are made again */
    if (status || a->row == QKV_ENGINE_NO_ROW || !a->drafted) return status;
    const bool right = a->ids[a->count - 1] == guess;
    e->state.accepted += right;
    a->drafted -= right;
    if (right) return QKV_OK;
    qkv_decoder_shorten(e->decoder, row, a->count - 1);
    a->drafted = 0;
    return QKV_OK;
}

static enum qkv_status step_tell_prompt(struct qkv_engine *e, struct qkv_engine_answer *a, size_t place,
                                        const float *logits) {
    enum qkv_status status = QKV_OK;
    if (!a->told) status = qkv_engine_tell_prompt(e, a, 0, NULL);
    if (!status && a->told == place + 1) status = qkv_engine_tell_prompt(e, a, place + 1, logits);
    if (status) qkv_decoder_shorten(e->decoder, a->row, place);
    return status;
}

/* Tells all tokens of one row that have scores. */
static enum qkv_status step_tell_row(struct qkv_engine *e, struct qkv_engine_answer *a, size_t from, size_t count,
                                     size_t *next) {
    const size_t vocab = (size_t)e->model->spec.vocab, guessed = a->drafted;
    enum qkv_status status = QKV_OK;
    size_t first = count, scored = 0;
    for (size_t k = 0; k < count; k++) {
        if (!is_scored(a, from + k)) continue;
        first = qkv_min(first, k);
        scored++;
    }
    const float *logits = e->decoder->scores + *next * vocab;
    *next += scored;
    e->state.drafted += guessed;
    for (size_t k = first; k < count && !status && a->row != QKV_ENGINE_NO_ROW; k++, logits += vocab) {
        const size_t place = from + k;
        if (place >= qkv_engine_read(e, a)) break; /* a guess was wrong: the row is shorter now */
        status = place + 1 == a->count ? step_token(e, a, logits) : step_tell_prompt(e, a, place, logits);
    }
    return status;
}

/* The first hypothesis of a search takes the step of all, whose scores follow its own. */
static void step_tell_search(struct qkv_engine *e, struct qkv_engine_answer *a, size_t *next) {
    const float *scores = e->decoder->scores + *next * (size_t)e->model->spec.vocab;
    if (!a->made) qkv_engine_keep(e, a);
    if (a->index || e->decoder->reached[a->row] < a->count) return;
    *next += a->job->search->beam.live;
    qkv_engine_search_score(e, a->job, scores);
}

static enum qkv_status step_tell(struct qkv_engine *e) {
    enum qkv_status first = QKV_OK;
    size_t next = 0;
    for (size_t r = 0; r < e->row_count; r++) {
        struct qkv_engine_answer *a = e->rows[r];
        const size_t count = e->counts[r];
        if (!a || !count) continue;
        e->state.prompt_tokens += a->made ? 0 : count;
        if (a->job->search) {
            step_tell_search(e, a, &next);
            continue;
        }
        qkv_engine_keep(e, a);
        const enum qkv_status status = step_tell_row(e, a, qkv_engine_read(e, a) - count, count, &next);
        if (!first) first = status;
    }
    qkv_engine_searches_step(e);
    return first;
}

/* The next step takes about as long as one that people do not notice. It is never more than twice as large as this
 * one, whose time says little about much larger ones. */
static void step_adapt(struct qkv_engine *e, size_t tokens, double seconds) {
    seconds *= (double)e->step / (double)qkv_max(e->budget, tokens); /* a text is read whole, whatever the budget */
    const bool grows = seconds < STEP_SHORT && (e->full || tokens + 1 >= e->budget);
    if (!e->adapts || (!grows && seconds <= STEP_LONG)) return;
    const double fits = (double)e->step * (2 * seconds > STEP_SECONDS ? STEP_SECONDS / seconds : 2);
    e->step = qkv_min(e->most, qkv_max(STEP_LEAST, (size_t)fits));
}

/* Guesses tokens in a step that reads no prompt, and has room for guesses. */
static enum qkv_status step_guess(struct qkv_engine *e) {
    bool prompts = e->state.running >= e->budget;
    for (size_t r = 0; r < e->row_count; r++) {
        if (!e->rows[r]) continue;
        e->rows[r]->drafted = 0;
        qkv_engine_draft_drop(e, e->rows[r]);
        prompts = prompts || unread(e, e->rows[r]) > 1;
    }
    return prompts ? QKV_OK : qkv_engine_draft(e);
}

enum qkv_status qkv_engine_step(struct qkv_engine *e, bool *busy) {
    QKV_CALL(e ? e->ctx : NULL);
    QKV_NEED(qkv_call, e);
    const double started = qkv_clock();
    size_t tokens = 0, scored, sources, read = 0;
    enum qkv_status status = qkv_check_cancelled(e->ctx, e->doing);
    if (status) return status;
    const bool alone = e->adapts && e->jobs && !e->jobs->next;
    e->budget = alone ? qkv_min(e->most, STEP_ALONE * e->step) : e->step;
    e->full = false;
    status = step_begin(e, &sources);
    step_roll(e);
    if (!status && e->decoder) qkv_engine_searches_begin(e);
    if (!status && e->drafts && e->decoder) status = step_guess(e);
    if (!status && e->decoder) status = step_grow(e, &tokens, &scored);
    if (!status && tokens) status = step_tell(e);
    if (!status) status = qkv_engine_texts_run(e, tokens ? e->budget / 2 : e->budget, &read);
    read += sources;
    e->state.steps += tokens || read;
    if (!status && tokens + read) step_adapt(e, tokens + read, qkv_clock() - started);
    qkv_engine_sweep(e);
    if (busy) *busy = e->jobs != NULL;
    return status;
}
