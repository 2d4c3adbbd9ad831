/* BLEU (Papineni et al. 2002) as sacreBLEU computes it (Post 2018): over a whole corpus, n-grams up to 4 of 13a tokens,
 *
 *     BLEU = 100 · min(1, e^(1 − r/c)) · (p1 p2 p3 p4)^(1/4)
 *
 * c is the number of tokens of the hypotheses, r that of the closest references (the shorter of two equally close
 * ones). An order without a match counts as half a match, the next such order as a quarter, … (the "exp" smoothing of
 * mteval-v13a). Without n-grams of some order, or without any match, BLEU is 0. */
#include "base/math.h"
#include "metric/metric.h"

enum { ORDER = 4 };

struct statistics {
    size_t hypothesis, reference;
    size_t matches[QKV_GRAM_MAX], total[ORDER];
};

static double bleu_score(const struct statistics *s) {
    double smooth = 1, sum = 0;
    size_t any = 0;
    for (int n = 0; n < ORDER; n++) any += s->matches[n];
    if (any == 0) return 0;
    for (int n = 0; n < ORDER; n++) {
        if (s->total[n] == 0) return 0;
        if (s->matches[n] == 0) smooth *= 2;
        double part =
            s->matches[n] ? 100 * (double)s->matches[n] / (double)s->total[n] : 100 / (smooth * (double)s->total[n]);
        sum += qkv_log(part);
    }
    bool brief = s->hypothesis < s->reference;
    double penalty = brief ? qkv_exp(1 - (double)s->reference / (double)s->hypothesis) : 1;
    return penalty * qkv_exp(sum / ORDER);
}

static size_t bleu_distance(size_t a, size_t b) {
    return a > b ? a - b : b - a;
}

static enum qkv_status bleu_add(struct qkv_context *ctx, struct qkv_13a *tokenizer, struct qkv_grams *grams,
                                const char *hypothesis, const char *const *references, size_t count,
                                struct statistics *s) {
    enum qkv_status status = qkv_13a_tokenize(ctx, tokenizer, hypothesis);
    if (!status) status = qkv_grams_start(ctx, grams, tokenizer->tokens.at, tokenizer->tokens.count);
    size_t size = tokenizer->tokens.count, closest = SIZE_MAX, ignored[QKV_GRAM_MAX] = {0};
    for (size_t n = 0; n < ORDER; n++) s->total[n] += qkv_gram_count(size, n + 1);
    for (size_t r = 0; r < count && !status; r++) {
        status = qkv_13a_tokenize(ctx, tokenizer, references[r]);
        if (status) break;
        size_t other = tokenizer->tokens.count;
        qkv_grams_match(grams, tokenizer->tokens.at, other, ignored, s->matches);
        bool equal = bleu_distance(other, size) == bleu_distance(closest, size);
        if (r == 0 || bleu_distance(other, size) < bleu_distance(closest, size) || (equal && other < closest))
            closest = other;
    }
    s->hypothesis += size;
    s->reference += closest;
    return status;
}

enum qkv_status qkv_bleu(struct qkv_context *ctx, const char *const *hypotheses, const char *const *const *references,
                         const size_t *reference_counts, size_t count, double *bleu) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, bleu);
    QKV_NEED_ALL(ctx, count, hypotheses);
    QKV_NEED_ALL(ctx, count, references);
    QKV_NEED_ALL(ctx, count, reference_counts);
    struct qkv_13a tokenizer = {0};
    struct qkv_grams grams = {.order = ORDER};
    struct statistics s = {0};
    *bleu = 0;
    enum qkv_status status = qkv_metric_check(ctx, "BLEU", reference_counts, count);
    for (size_t i = 0; i < count && !status; i++)
        status = bleu_add(ctx, &tokenizer, &grams, hypotheses[i], references[i], reference_counts[i], &s);
    if (!status) *bleu = bleu_score(&s);
    qkv_13a_free(&tokenizer);
    qkv_grams_free(&grams);
    return status;
}
