/* measure: measures the trained variants. Losses come from the models of the runs. Speeds come from models of the
 * same specs with random weights and a context that holds the longest cache, because speed depends on shapes alone.
 *
 * Two equal models may differ in speed by where their memory lies, by what other programs do meanwhile, and by what
 * their threads have learnt about these. So the variants alternate and share threads, and each round measures all
 * speeds with new models. The result is the median of all rounds. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/compare/compare_room.h"

enum { ROUNDS = 3, TURNS = 3, MEASUREMENTS = ROUNDS * TURNS, MAX_TOKENS = 64 };
#define TURN_SECONDS 0.02

/* ---- statistics -------------------------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double qkv_median(double *x, size_t count) {
    if (!count) return NAN;
    qsort(x, count, sizeof *x, by_size);
    return count % 2 ? x[count / 2] : (x[count / 2 - 1] + x[count / 2]) / 2;
}

double qkv_mean(const double *x, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += x[i];
    return count ? sum / (double)count : NAN;
}

double qkv_deviation(const double *x, size_t count) {
    double mean = qkv_mean(x, count), squares = 0;
    for (size_t i = 0; i < count; i++) squares += (x[i] - mean) * (x[i] - mean);
    return count > 1 ? sqrt(squares / (double)(count - 1)) : NAN;
}

size_t qkv_lowest_mean(const double *mean, const double *deviation, size_t count) {
    size_t lowest = SIZE_MAX, others = 0;
    for (size_t i = 0; i < count; i++)
        if (!isnan(mean[i]) && (lowest == SIZE_MAX || mean[i] < mean[lowest])) lowest = i;
    for (size_t i = 0; i < count && lowest != SIZE_MAX; i++) {
        if (i == lowest || isnan(mean[i])) continue;
        others++;
        if (!(mean[i] - mean[lowest] > deviation[i] + deviation[lowest])) return SIZE_MAX;
    }
    return others ? lowest : SIZE_MAX;
}

const struct qkv_variant *qkv_comparison_best(const struct qkv_comparison *c) {
    double *mean = malloc(c->count * sizeof *mean), *deviation = malloc(c->count * sizeof *deviation);
    size_t best = SIZE_MAX;
    for (size_t i = 0; mean && deviation && i < c->count; i++) {
        const struct qkv_variant *v = &c->variants[i].shown;
        mean[i] = v->measured ? v->loss : NAN;
        deviation[i] = v->deviation;
    }
    if (mean && deviation) best = qkv_lowest_mean(mean, deviation, c->count);
    free(mean);
    free(deviation);
    return best == SIZE_MAX ? NULL : &c->variants[best].shown;
}

/* The bounds of the measurements of one speed of a variant. */
struct speeds {
    double slowest, fastest;
};

static struct speeds measure_bounds(const struct qkv_variant *v, size_t cache) {
    return cache == SIZE_MAX ? (struct speeds){v->prompt_slowest, v->prompt_fastest}
                             : (struct speeds){v->decode_slowest[cache], v->decode_fastest[cache]};
}

/* Whether a is faster than b by more than measurements of the same thing differ. */
static bool measure_is_faster(struct speeds a, struct speeds b) {
    const double gap = a.slowest - b.fastest;
    return gap > 0 && gap > a.fastest - a.slowest && gap > b.fastest - b.slowest;
}

const struct qkv_variant *qkv_comparison_fastest(const struct qkv_comparison *c, size_t cache) {
    const struct qkv_variant *best = NULL;
    struct speeds fastest = {NAN, NAN};
    size_t others = 0;
    if (cache != SIZE_MAX && cache >= c->cache_count) return NULL;
    for (size_t i = 0; i < c->count; i++) {
        const struct qkv_variant *v = &c->variants[i].shown;
        const struct speeds speeds = measure_bounds(v, cache);
        if (!v->measured || !isfinite(speeds.slowest) || speeds.slowest <= fastest.slowest) continue;
        fastest = speeds;
        best = v;
    }
    for (size_t i = 0; best && i < c->count; i++) {
        const struct qkv_variant *v = &c->variants[i].shown;
        const struct speeds speeds = measure_bounds(v, cache);
        if (v == best || !v->measured || !isfinite(speeds.slowest)) continue;
        others++;
        if (!measure_is_faster(fastest, speeds)) return NULL;
    }
    return others ? best : NULL;
}

/* ---- a variant in work ------------------------------------------------------------------------------------------- */

struct subject {
    struct qkv_variant_state *variant;
    struct qkv_context *ctx; /* of its own: precisions differ */
    struct qkv_model *model; /* of a round, as the session, in a context that variants of one precision share */
    struct qkv_session *session;
    size_t tokens; /* decoded in a turn */
    double *turns; /* (1 + caches, MEASUREMENTS): tokens a second, of prompts first */
};
struct work {
    struct qkv_comparison *c;
    const struct qkv_compare_listener *listener;
    struct subject *subjects;
    struct qkv_context *shared[QKV_PRECISION_AUTO]; /* of a round, for each precision; NULL: none yet */
    double *turns;
    int32_t *ids; /* of the longest context; a variant takes them modulo its vocabulary */
    size_t length;
    double done, total;
};

static enum qkv_status measure_tell(struct work *w, const char *what) {
    const struct qkv_compare_listener *l = w->listener;
    if (!l->progress || l->progress(l->user, what, w->done, w->total)) return QKV_OK;
    return qkv_fail(w->c->ctx, QKV_STOPPED, "stopped by the caller while %s", what);
}

/* An error in a context becomes the failure of the variant, which is measured no further. */
static void give_up_in(struct work *w, struct subject *s, const struct qkv_context *ctx, enum qkv_status status) {
    if (ctx && status) qkv_fail(w->c->ctx, status, "%s", qkv_message(ctx));
    qkv_variant_fail(w->c, s->variant);
    s->variant->lost = true;
}

static void give_up(struct work *w, struct subject *s, enum qkv_status status) {
    give_up_in(w, s, s->ctx, status);
}

static bool measure_works(const struct subject *s) {
    return !s->variant->shown.failure;
}

/* ---- losses, costs, training ------------------------------------------------------------------------------------- */

static enum qkv_status measure_context(const struct work *w, struct qkv_context **ctx) {
    const struct qkv_context_options o = {.size = sizeof o,
                                          .threads = qkv_context_threads(w->c->ctx),
                                          .isa = qkv_context_isa(w->c->ctx),
                                          .ignore_memory = w->c->ctx->ignore_memory,
                                          .ignore_digest = w->c->ctx->ignore_digest};
    return qkv_context_create(ctx, &o);
}

/* Makes a context in the precision that the first run records, as eval and info do: a comparison may end on another
 * machine. */
static enum qkv_status make_context(struct work *w, struct subject *s) {
    enum qkv_precision precision = QKV_FP32;
    char *folder = qkv_join_path(w->c->ctx, w->c->folder, s->variant->folders.items[0]);
    enum qkv_status status = folder ? measure_context(w, &s->ctx) : QKV_MEMORY;
    if (!status) status = qkv_model_precision(s->ctx, folder, &precision);
    if (!status) qkv_context_set_precision(s->ctx, precision);
    free(folder);
    return status;
}

static enum qkv_status measure_evaluate(struct work *w, struct subject *s, size_t seed) {
    if (!qkv_comparison_owns(w->c, (size_t)(s - w->subjects), seed)) return QKV_OK;
    struct qkv_model *model = NULL;
    struct qkv_evaluation e;
    struct qkv_evaluate_options o = {.size = sizeof o};
    char *folder = qkv_join_path(s->ctx, w->c->folder, s->variant->folders.items[seed]);
    enum qkv_status status = folder ? qkv_model_load(s->ctx, folder, &model) : QKV_MEMORY;
    if (!status) status = qkv_model_documents(s->ctx, folder, &o.documents); /* as it was trained */
    const struct qkv_compare_listener *l = w->listener;
    if (!status)
        status = w->c->mixes ? qkv_evaluate_run(model, folder, &o, l->progress, l->user, &e)
                             : qkv_evaluate_text(model, &(const char *){w->c->valid}, 1, &o, l->progress, l->user, &e);
    if (!status) s->variant->losses[seed] = e.loss;
    qkv_model_free(model);
    free(folder);
    return status;
}

/* Takes the median over all steps of all seeds. */
static enum qkv_status measure_training(struct work *w, struct subject *s) {
    double *speeds = NULL;
    size_t count = 0;
    enum qkv_status status = QKV_OK;
    for (size_t seed = 0; seed < w->c->seeds && !status; seed++) {
        struct qkv_run *run = NULL;
        char *folder = qkv_join_path(s->ctx, w->c->folder, s->variant->folders.items[seed]);
        status = folder ? qkv_run_read(s->ctx, folder, &run) : QKV_MEMORY;
        double *grown = status ? NULL : qkv_reallocate(s->ctx, speeds, count + qkv_run_steps(run) + 1, sizeof *speeds);
        if (grown) speeds = grown;
        if (!grown && !status) status = QKV_MEMORY;
        for (size_t i = 0; !status && i < qkv_run_steps(run); i++) {
            double x = qkv_run_step(run, i)->tokens_per_second;
            if (isfinite(x)) speeds[count++] = x;
        }
        qkv_run_free(run);
        free(folder);
    }
    s->variant->shown.train_speed = qkv_median(speeds, count);
    free(speeds);
    return status;
}

/* Plans the costs for one thread, as info --threads 1 prints them. */
static enum qkv_status measure_costs(struct subject *s, const struct qkv_train_options *o) {
    struct qkv_variant *v = &s->variant->shown;
    struct qkv_context *one = NULL;
    struct qkv_context_options options = {.size = sizeof options,
                                          .threads = 1,
                                          .isa = qkv_context_isa(s->ctx),
                                          .precision = qkv_context_precision(s->ctx),
                                          .ignore_memory = true}; /* only dry runs */
    size_t batch = (size_t)((o->batch + o->accumulate - 1) / o->accumulate);
    enum qkv_status status = qkv_context_create(&one, &options);
    if (!status) status = qkv_measure_costs(one, &v->spec, batch ? batch : 1, (size_t)v->spec.context, &v->costs);
    if (status && one) qkv_fail(s->ctx, status, "%s", qkv_message(one));
    v->memory = o->checkpoint_activations ? v->costs.checkpoint_bytes : v->costs.train_bytes;
    qkv_context_free(one);
    return status;
}

/* Reads the spec of the first run, whose vocabulary is that of its tokenizer. */
static enum qkv_status measure_spec(struct work *w, struct subject *s) {
    char *folder = qkv_join_path(s->ctx, w->c->folder, s->variant->folders.items[0]);
    if (folder) qkv_spec_free(&s->variant->shown.spec);
    const enum qkv_status status =
        folder ? qkv_folder_spec(s->ctx, folder, NULL, 0, &s->variant->shown.spec) : QKV_MEMORY;
    free(folder);
    return status;
}

static enum qkv_status measure_judge(struct work *w, struct subject *s) {
    struct qkv_train_options options;
    enum qkv_status status = qkv_variant_options(w->c, s->variant, 0, &options);
    if (status) {
        give_up(w, s, QKV_OK);
        return QKV_OK;
    }
    status = make_context(w, s);
    if (!status) status = measure_spec(w, s);
    for (size_t seed = 0; seed < w->c->seeds && !status; seed++) status = measure_evaluate(w, s, seed);
    if (!status) status = measure_training(w, s);
    if (!status) status = measure_costs(s, &options);
    if (status == QKV_STOPPED) return status;
    if (status) give_up(w, s, status);
    return QKV_OK;
}

/* ---- prompts and decoding ---------------------------------------------------------------------------------------- */

static struct qkv_context **measure_shared(struct work *w, const struct subject *s) {
    return &w->shared[qkv_context_precision(s->ctx)];
}

/* Makes the context that the variants of one precision share in a round. */
static enum qkv_status measure_share_context(struct work *w, const struct subject *s) {
    struct qkv_context **ctx = measure_shared(w, s);
    if (*ctx) return QKV_OK;
    const enum qkv_status status = measure_context(w, ctx);
    if (!status) {
        qkv_context_set_precision(*ctx, qkv_context_precision(s->ctx));
        return QKV_OK;
    }
    if (*ctx) qkv_fail(s->ctx, status, "%s", qkv_message(*ctx));
    qkv_context_free(*ctx);
    *ctx = NULL;
    return status;
}

static void measure_start(struct work *w, struct subject *s) {
    struct qkv_spec spec = s->variant->shown.spec;
    spec.context = (int)w->length;
    enum qkv_status status = measure_share_context(w, s);
    if (status) {
        give_up(w, s, status);
        return;
    }
    struct qkv_context *ctx = *measure_shared(w, s);
    status = qkv_model_create(ctx, &spec, 1, &s->model);
    if (!status)
        status = qkv_session_create(s->model, &QKV_OPTIONS(qkv_session_options, .capacity = w->length), &s->session);
    if (status) give_up_in(w, s, ctx, status);
}

static enum qkv_status measure_append(struct work *w, struct subject *s, size_t count) {
    int32_t *ids = w->ids;
    int32_t vocab = s->variant->shown.spec.vocab;
    for (size_t i = 0; i < count; i++) ids[i] = (int32_t)(i * 7919 % (size_t)vocab);
    return qkv_session_append(s->session, ids, count);
}

static enum qkv_status measure_decode(struct work *w, struct subject *s, size_t tokens) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < tokens && !status; i++) status = measure_append(w, s, 1);
    return status;
}

/* Times one turn: `tokens` after `past`, together as a prompt or one by one. */
static enum qkv_status take_turn(struct work *w, struct subject *s, size_t past, size_t tokens, bool prompt,
                                 double *seconds) {
    qkv_session_truncate(s->session, past);
    double began = qkv_clock();
    enum qkv_status status = prompt ? measure_append(w, s, tokens) : measure_decode(w, s, tokens);
    *seconds = qkv_clock() - began;
    return status;
}

/* Fills the cache, and finds how many tokens make a turn long enough to be timed. */
static enum qkv_status warm_up(struct work *w, struct subject *s, size_t past, bool prompt) {
    double seconds = 0;
    size_t length = qkv_session_length(s->session);
    enum qkv_status status = QKV_OK;
    if (length > past) qkv_session_truncate(s->session, past);
    if (length < past) status = measure_append(w, s, past - length);
    s->tokens = w->c->prompt;
    if (status || prompt) return status ? status : take_turn(w, s, past, s->tokens, true, &seconds);
    for (int i = 0; i < 2 && !status; i++) status = take_turn(w, s, past, 2, false, &seconds);
    double fits = TURN_SECONDS / (seconds / 2 + 1e-9);
    s->tokens = fits < 2 ? 2 : fits > MAX_TOKENS ? MAX_TOKENS : (size_t)fits;
    return status;
}

/* Measures tokens a second of all variants, in turns. `column` 0 is that of prompts, 1 + i that of the i-th cache. */
static enum qkv_status measure_turns(struct work *w, size_t column, int round) {
    const bool prompt = column == 0;
    const size_t past = prompt ? 0 : w->c->caches[column - 1];
    for (int turn = -1; turn < TURNS; turn++)
        for (size_t i = 0; i < w->c->count; i++) {
            struct subject *s = &w->subjects[i];
            double seconds = 0;
            if (!measure_works(s)) continue;
            enum qkv_status status = measure_tell(w, "measuring speeds");
            if (status) return status;
            status = turn < 0 ? warm_up(w, s, past, prompt) : take_turn(w, s, past, s->tokens, prompt, &seconds);
            if (status) give_up_in(w, s, *measure_shared(w, s), status);
            if (turn >= 0)
                s->turns[column * MEASUREMENTS + (size_t)(round * TURNS + turn)] = (double)s->tokens / (seconds + 1e-9);
            w->done++;
        }
    return QKV_OK;
}

static void measure_end_round(struct work *w) {
    for (size_t i = 0; i < w->c->count; i++) {
        qkv_session_free(w->subjects[i].session);
        qkv_model_free(w->subjects[i].model);
        w->subjects[i].session = NULL;
        w->subjects[i].model = NULL;
    }
    for (size_t i = 0; i < sizeof w->shared / sizeof *w->shared; i++) {
        qkv_context_free(w->shared[i]);
        w->shared[i] = NULL;
    }
}

static enum qkv_status measure_round(struct work *w, int round) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < w->c->count; i++) {
        struct subject *s = &w->subjects[i];
        if (measure_works(s)) measure_start(w, s);
    }
    for (size_t column = 0; column <= w->c->cache_count && !status; column++) status = measure_turns(w, column, round);
    measure_end_round(w);
    return status;
}

/* Sets a speed of a variant: the median of its measurements, and their bounds. These leave out the slowest and the
 * fastest measurement, which are often accidents on a busy machine. */
static void measure_summarize(struct subject *s, size_t column, size_t caches) {
    double *turns = s->turns + column * MEASUREMENTS, slowest = NAN, fastest = NAN;
    const double speed = measure_works(s) ? qkv_median(turns, MEASUREMENTS) : NAN;
    if (measure_works(s)) slowest = turns[1], fastest = turns[MEASUREMENTS - 2]; /* the median sorts them */
    if (column == 0) {
        s->variant->shown.prompt_speed = speed;
        s->variant->shown.prompt_slowest = slowest;
        s->variant->shown.prompt_fastest = fastest;
    } else {
        s->variant->decode[column - 1] = speed;
        s->variant->decode[caches + column - 1] = slowest;
        s->variant->decode[2 * caches + column - 1] = fastest;
    }
}

static enum qkv_status measure_speeds(struct work *w) {
    const size_t columns = w->c->cache_count + 1;
    enum qkv_status status = QKV_OK;
    w->total = (double)(ROUNDS * (TURNS + 1) * w->c->count * columns);
    for (int round = 0; round < ROUNDS && !status; round++) status = measure_round(w, round);
    for (size_t i = 0; i < w->c->count; i++)
        for (size_t column = 0; column < columns; column++)
            measure_summarize(&w->subjects[i], column, w->c->cache_count);
    return status;
}

/* ---- measuring --------------------------------------------------------------------------------------------------- */

static enum qkv_status measure_share(struct qkv_comparison *c, enum qkv_status status) {
    status = qkv_comparison_agree(c, status);
    if (!status) status = qkv_comparison_share_failures(c);
    if (!status) status = qkv_comparison_share_losses(c);
    for (size_t i = 0; i < c->count && !status; i++) {
        struct qkv_variant *v = &c->variants[i].shown;
        v->loss = qkv_mean(v->losses, c->seeds);
        v->deviation = qkv_deviation(v->losses, c->seeds);
    }
    return status;
}

static enum qkv_status measure_all(struct work *w) {
    struct qkv_comparison *c = w->c;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < c->count && !status; i++)
        if (measure_works(&w->subjects[i])) status = measure_judge(w, &w->subjects[i]);
    status = measure_share(c, status);
    if (status || c->ranks.rank) return status; /* rank 0 alone measures speeds */
    status = measure_speeds(w);
    for (size_t i = 0; i < c->count && !status; i++) c->variants[i].shown.measured = measure_works(&w->subjects[i]);
    return status;
}

enum qkv_status qkv_comparison_measure(struct qkv_comparison *c, const struct qkv_compare_listener *listener) {
    QKV_CALL(c->ctx);
    static const struct qkv_compare_listener nobody = {0};
    struct work w = {.c = c, .listener = listener ? listener : &nobody};
    size_t longest = c->cache_count ? c->caches[c->cache_count - 1] : 0;
    w.length = (longest > c->prompt ? longest : c->prompt) + MAX_TOKENS;
    w.subjects = qkv_allocate(c->ctx, c->count, sizeof *w.subjects);
    w.turns = qkv_allocate(c->ctx, c->count * (c->cache_count + 1) * MEASUREMENTS, sizeof *w.turns);
    w.ids = qkv_allocate(c->ctx, w.length, sizeof *w.ids);
    for (size_t i = 0; w.subjects && w.turns && i < c->count; i++) {
        w.subjects[i].variant = &c->variants[i];
        w.subjects[i].turns = w.turns + i * (c->cache_count + 1) * MEASUREMENTS;
    }
    enum qkv_status status = w.subjects && w.turns && w.ids ? measure_all(&w) : QKV_MEMORY;
    for (size_t i = 0; w.subjects && i < c->count; i++) qkv_context_free(w.subjects[i].ctx);
    free(w.turns);
    free(w.subjects);
    free(w.ids);
    return status;
}
