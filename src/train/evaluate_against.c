/* Evaluation of a model against another one: KL(other ‖ model) = Σ p_other · (log p_other − log p_model) of each
 * predicted token (Kullback & Leibler 1951), in nats. */
#include "train/evaluate_against.h"

#include <stdlib.h>
#include <string.h>

#include "base/math.h"
#include "kernel/kernel.h"
#include "model/spec.h"

static const struct qkv_spec *against_spec(const struct qkv_against *a, size_t i) {
    return qkv_model_spec(a->models[i]);
}

static enum qkv_status against_check_vocab(struct qkv_context *ctx, int one, int two) {
    if (one == two) return QKV_OK;
    return qkv_fail(ctx, QKV_ARGUMENT,
                    "the two models have different vocabularies, of %d and %d tokens; only distributions over the same "
                    "tokens can be compared",
                    one, two);
}

/* The two tokenizers have the same tokens. A model that has none works with the ids of the other's. */
static enum qkv_status against_check_tokens(struct qkv_context *ctx, const struct qkv_tokenizer *one,
                                            const struct qkv_tokenizer *two) {
    if (!one || !two) return QKV_OK;
    const int vocab = qkv_tokenizer_vocab(one);
    const enum qkv_status status = against_check_vocab(ctx, vocab, qkv_tokenizer_vocab(two));
    if (status) return status;
    for (int id = 0; id < vocab; id++) {
        size_t size[2];
        const char *text[] = {qkv_tokenizer_token(one, id, &size[0]), qkv_tokenizer_token(two, id, &size[1])};
        if (!text[0] && !text[1]) continue;
        if (!text[0] || !text[1] || size[0] != size[1] || memcmp(text[0], text[1], size[0]) != 0)
            return qkv_fail(ctx, QKV_ARGUMENT,
                            "the two models have different vocabularies: token %d is not the same in both; only "
                            "distributions over the same tokens can be compared",
                            id);
    }
    return QKV_OK;
}

static enum qkv_status against_check(const struct qkv_against *a) {
    struct qkv_context *ctx = qkv_model_context(a->models[0]);
    const struct qkv_spec *model = against_spec(a, QKV_AGAINST_MODEL), *other = against_spec(a, QKV_AGAINST_OTHER);
    if (qkv_model_context(a->models[1]) != ctx)
        return qkv_fail(ctx, QKV_ARGUMENT, "the two models are of two contexts; open them with one");
    enum qkv_status status = qkv_text_model_check(ctx, other);
    if (status) qkv_fail_at(ctx, "the model to compare with");
    if (!status) status = against_check_vocab(ctx, model->vocab, other->vocab);
    if (status) return status;
    if (model->prefix != other->prefix)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "one of the two models reads the first half of each window as a prefix, so they do not predict "
                        "the same tokens");
    return against_check_tokens(ctx, qkv_model_tokenizer(a->models[0]), qkv_model_tokenizer(a->models[1]));
}

enum qkv_status qkv_against_begin(struct qkv_against *a, struct qkv_model *model, struct qkv_model *other, size_t T) {
    struct qkv_context *ctx = qkv_model_context(model);
    size_t floats;
    *a = (struct qkv_against){.models = {model, other}};
    enum qkv_status status = against_check(a);
    if (status) return status;
    if (!qkv_multiply(QKV_AGAINST_MODELS, (size_t)against_spec(a, 0)->vocab, &floats))
        return qkv_fail_memory(ctx, SIZE_MAX, "the scores of a token");
    a->powers = qkv_allocate(ctx, floats, sizeof *a->powers);
    status = a->powers ? QKV_OK : QKV_MEMORY;
    for (size_t i = 0; i < QKV_AGAINST_MODELS && !status; i++)
        status = qkv_pass_create(a->models[i], &QKV_OPTIONS(qkv_pass_options, .B = 1, .T = T, .logits = true),
                                 &a->passes[i]);
    return status;
}

void qkv_against_free(struct qkv_against *a) {
    for (size_t i = 0; i < QKV_AGAINST_MODELS; i++) qkv_pass_free(a->passes[i]);
    free(a->powers);
}

/* One distribution: powers = exp(scores − top), and log Σ exp(scores). */
struct against_scores {
    const float *scores, *powers;
    size_t likeliest;
    double sum, lse;
};

static struct against_scores against_scores_of(const struct qkv_kernels *kernels, const float *scores, float *powers,
                                               size_t V) {
    struct against_scores s = {.scores = scores, .powers = powers};
    for (size_t v = 1; v < V; v++)
        if (scores[v] > scores[s.likeliest]) s.likeliest = v;
    const float top = scores[s.likeliest];
    for (size_t v = 0; v < V; v++) powers[v] = scores[v] - top;
    kernels->exp(powers, powers, V);
    for (size_t v = 0; v < V; v++) s.sum += (double)powers[v];
    s.lse = (double)top + qkv_log(s.sum);
    return s;
}

/* A token that the other model never predicts (a score of −inf) adds nothing. */
static double against_divergence(const struct against_scores *model, const struct against_scores *other, size_t V) {
    double sum = 0;
    for (size_t v = 0; v < V; v++)
        if (other->powers[v] > 0)
            sum += (double)other->powers[v] * ((double)other->scores[v] - (double)model->scores[v]);
    return sum / other->sum - (other->lse - model->lse);
}

static void against_add_token(const struct qkv_against *a, const float *const *scores, size_t V, size_t target,
                              struct qkv_against_part *part) {
    const struct qkv_kernels *kernels = qkv_model_context(a->models[0])->kernels;
    struct against_scores s[QKV_AGAINST_MODELS];
    for (size_t i = 0; i < QKV_AGAINST_MODELS; i++) {
        s[i] = against_scores_of(kernels, scores[i], a->powers + i * V, V);
        part->nll[i] += s[i].lse - (double)scores[i][target];
    }
    const double divergence = against_divergence(&s[QKV_AGAINST_MODEL], &s[QKV_AGAINST_OTHER], V);
    part->divergence += divergence;
    part->squares += divergence * divergence;
    part->same += s[0].likeliest == s[1].likeliest;
    part->tokens++;
}

enum qkv_status qkv_against_add(struct qkv_against *a, struct qkv_window_sum *sum, size_t count, const int32_t *ids,
                                const int32_t *targets) {
    const size_t V = (size_t)against_spec(a, 0)->vocab;
    const bool mine = qkv_evaluate_share_next(&sum->share);
    struct qkv_against_part *part = qkv_evaluate_share_add(&sum->share, 1);
    if (!part) return QKV_MEMORY;
    if (!mine) return QKV_OK;
    const struct qkv_batch batch = {.B = 1, .T = count, .ids = ids, .documents = sum->documents, .prefix = sum->prefix};
    const float *scores[QKV_AGAINST_MODELS];
    for (size_t i = 0; i < QKV_AGAINST_MODELS; i++) {
        const enum qkv_status status = qkv_pass_forward(a->passes[i], &batch);
        if (status) return status;
        scores[i] = qkv_pass_output(a->passes[i]).data;
    }
    for (size_t t = 0; t < count; t++) {
        const float *const row[] = {scores[0] + t * V, scores[1] + t * V};
        if (targets[t] != QKV_IGNORE) against_add_token(a, row, V, (size_t)targets[t], part);
    }
    return QKV_OK;
}

struct qkv_against_part qkv_against_sum(const struct qkv_evaluate_share *share) {
    const struct qkv_against_part *parts = (const void *)share->items;
    struct qkv_against_part sum = {0};
    for (size_t i = 0; i < share->count; i++) {
        for (size_t k = 0; k < QKV_AGAINST_MODELS; k++) sum.nll[k] += parts[i].nll[k];
        sum.divergence += parts[i].divergence, sum.squares += parts[i].squares;
        sum.same += parts[i].same, sum.tokens += parts[i].tokens;
    }
    return sum;
}
