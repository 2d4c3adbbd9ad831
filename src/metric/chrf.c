/* chrF2 (Popović 2015) as sacreBLEU computes it: character n-grams up to 6 of the texts without white space; precision
 * and recall are means over the orders that both sides have, and
 *
 *     chrF = 100 · (1 + β²) · P · R / (β² · P + R),   β = 2
 *
 * With several references, each hypothesis is compared with the one that gives the best score (the first of equals). */
#include <string.h>

#include "metric/metric.h"

enum { ORDER = QKV_GRAM_MAX };

struct statistics {
    size_t hypothesis[ORDER], reference[ORDER], matches[ORDER];
};

static double chrf_score(const struct statistics *s) {
    const double factor = 4;
    double precision = 0, recall = 0;
    int orders = 0;
    for (int n = 0; n < ORDER; n++) {
        if (s->hypothesis[n] == 0 || s->reference[n] == 0) continue;
        precision += (double)s->matches[n] / (double)s->hypothesis[n];
        recall += (double)s->matches[n] / (double)s->reference[n];
        orders++;
    }
    if (precision + recall == 0) return 0;
    precision /= orders;
    recall /= orders;
    return 100 * ((1 + factor) * precision * recall / (factor * precision + recall));
}

static enum qkv_status chrf_read(struct qkv_context *ctx, struct qkv_characters *characters, const char *text) {
    size_t kept = 0;
    enum qkv_status status = qkv_characters_set(ctx, characters, text);
    for (size_t i = 0; i < characters->count; i++)
        if (!qkv_is_space(characters->at[i])) characters->at[kept++] = characters->at[i];
    characters->count = kept;
    return status;
}

static enum qkv_status chrf_add(struct qkv_context *ctx, struct qkv_characters *characters, struct qkv_grams *grams,
                                const char *hypothesis, const char *const *references, size_t count,
                                struct statistics *sum) {
    struct statistics best = {0};
    double best_score = -1;
    enum qkv_status status = chrf_read(ctx, characters, hypothesis);
    if (!status) status = qkv_grams_start(ctx, grams, characters->at, characters->count);
    size_t size = characters->count;
    for (size_t r = 0; r < count && !status; r++) {
        struct statistics s = {0};
        size_t ignored[ORDER] = {0};
        status = chrf_read(ctx, characters, references[r]);
        if (status) break;
        qkv_grams_match(grams, characters->at, characters->count, s.matches, ignored);
        for (size_t n = 0; n < ORDER; n++) {
            s.reference[n] = qkv_gram_count(characters->count, n + 1);
            s.hypothesis[n] = s.reference[n] ? qkv_gram_count(size, n + 1) : 0;
        }
        if (chrf_score(&s) <= best_score) continue;
        best_score = chrf_score(&s);
        best = s;
    }
    for (size_t n = 0; n < ORDER; n++) {
        sum->hypothesis[n] += best.hypothesis[n];
        sum->reference[n] += best.reference[n];
        sum->matches[n] += best.matches[n];
    }
    return status;
}

enum qkv_status qkv_chrf(struct qkv_context *ctx, const char *const *hypotheses, const char *const *const *references,
                         const size_t *reference_counts, size_t count, double *chrf) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, chrf);
    QKV_NEED_ALL(ctx, count, hypotheses);
    QKV_NEED_ALL(ctx, count, references);
    QKV_NEED_ALL(ctx, count, reference_counts);
    struct qkv_characters characters = {0};
    struct qkv_grams grams = {.order = ORDER};
    struct statistics s = {0};
    *chrf = 0;
    enum qkv_status status = qkv_metric_check(ctx, "chrF", reference_counts, count);
    for (size_t i = 0; i < count && !status; i++)
        status = chrf_add(ctx, &characters, &grams, hypotheses[i], references[i], reference_counts[i], &s);
    if (!status) *chrf = chrf_score(&s);
    qkv_characters_free(&characters);
    qkv_grams_free(&grams);
    return status;
}
