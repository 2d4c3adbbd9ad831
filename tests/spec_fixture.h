/* spec_fixture.h: specs read from text, with settings, and a comparison of two specs. */
#ifndef QKV_SPEC_FIXTURE_H
#define QKV_SPEC_FIXTURE_H

#include "context_fixture.h"

#include "model/spec.h"

/* `spec` is all zeros or a spec, which is freed. */
static inline enum qkv_status parse(struct qkv_spec *spec, const char *json, const char *const *settings,
                                    size_t count) {
    qkv_spec_free(spec);
    return qkv_spec_parse(ctx, spec, "my.json", json, strlen(json), settings, count);
}

#define SETTINGS(...)                                                                                                  \
    (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *)

/* Bytes of padding may differ: field by field. */
static inline bool same_list(const struct qkv_number_list *a, const struct qkv_number_list *b) {
    bool same = a->count == b->count;
    for (int i = 0; same && i < a->count; i++) same = a->values[i] == b->values[i];
    return same;
}

static inline bool same_scaling(const struct qkv_scaling_spec *a, const struct qkv_scaling_spec *b) {
    if (!a->given || !b->given) return a->given == b->given;
    return a->kind == b->kind && a->factor == b->factor && a->original_context == b->original_context &&
           a->beta_fast == b->beta_fast && a->beta_slow == b->beta_slow && a->truncate == b->truncate &&
           a->mscale == b->mscale && a->mscale_all_dim == b->mscale_all_dim && a->low_freq == b->low_freq &&
           a->high_freq == b->high_freq && a->attention_factor == b->attention_factor &&
           same_list(&a->short_factors, &b->short_factors) && same_list(&a->long_factors, &b->long_factors);
}

static inline bool same_position(const struct qkv_position_spec *a, const struct qkv_position_spec *b) {
    return a->kind == b->kind && a->theta == b->theta && a->pairing == b->pairing && a->fraction == b->fraction &&
           a->form == b->form && a->max == b->max && a->learn == b->learn && a->buckets == b->buckets &&
           a->max_distance == b->max_distance && a->per_layer == b->per_layer && same_scaling(&a->scaling, &b->scaling);
}

static inline bool same_qk_norm(const struct qkv_qk_norm_spec *a, const struct qkv_qk_norm_spec *b) {
    return a->norm.given == b->norm.given && a->norm.kind == b->norm.kind && a->norm.eps == b->norm.eps &&
           a->norm.weight == b->norm.weight && a->norm.bias == b->norm.bias && a->over == b->over &&
           a->after_rotation == b->after_rotation;
}

static inline bool same_latent(const struct qkv_latent_spec *a, const struct qkv_latent_spec *b) {
    return a->given == b->given && a->rank == b->rank && a->query_rank == b->query_rank && a->rope_dim == b->rope_dim &&
           a->eps == b->eps;
}

static inline bool same_experts(const struct qkv_experts_spec *a, const struct qkv_experts_spec *b) {
    return a->given == b->given && a->count == b->count && a->top_k == b->top_k && a->scores == b->scores &&
           a->normalize == b->normalize && a->scale == b->scale && a->bias == b->bias && a->unbiased == b->unbiased &&
           a->scale_inputs == b->scale_inputs && a->margin == b->margin && a->correction == b->correction &&
           a->correction_rate == b->correction_rate && a->groups == b->groups && a->top_groups == b->top_groups &&
           a->group_score == b->group_score && a->shared == b->shared && a->shared_gate == b->shared_gate &&
           a->balance_loss == b->balance_loss && a->z_loss == b->z_loss;
}

static inline bool same_temperature(const struct qkv_temperature_spec *a, const struct qkv_temperature_spec *b) {
    return a->given == b->given && a->beta == b->beta && a->length == b->length && a->offset == b->offset;
}

static inline bool same_attention(const struct qkv_attention_spec *a, const struct qkv_attention_spec *b) {
    return a->heads == b->heads && a->kv_heads == b->kv_heads && a->head_dim == b->head_dim &&
           a->value_dim == b->value_dim && a->causal == b->causal && a->window == b->window &&
           a->window_right == b->window_right && a->chunk == b->chunk &&
           same_temperature(&a->temperature, &b->temperature) && a->softcap == b->softcap && a->scale == b->scale &&
           a->bias == b->bias && a->clip == b->clip && a->sinks == b->sinks && a->dropout == b->dropout &&
           same_qk_norm(&a->qk_norm, &b->qk_norm) && same_latent(&a->latent, &b->latent) && a->share == b->share &&
           same_position(&a->position, &b->position);
}

static inline bool same_layer(const struct qkv_layer_spec *a, const struct qkv_layer_spec *b) {
    return !strcmp(a->name, b->name) && same_attention(&a->attention, &b->attention) &&
           same_attention(&a->cross, &b->cross) && a->norm.kind == b->norm.kind &&
           a->norm.placement == b->norm.placement && a->norm.eps == b->norm.eps && a->norm.final == b->norm.final &&
           a->norm.bias == b->norm.bias && a->norm.attention == b->norm.attention &&
           a->residual_scale == b->residual_scale && a->residual_dropout == b->residual_dropout &&
           a->cross_only == b->cross_only && a->ffn.kind == b->ffn.kind && a->ffn.d_ff == b->ffn.d_ff &&
           a->ffn.bias == b->ffn.bias && a->ffn.dropout == b->ffn.dropout && a->ffn.limit == b->ffn.limit &&
           same_experts(&a->ffn.experts, &b->ffn.experts);
}

static inline bool same_embedding(const struct qkv_embed_spec *a, const struct qkv_embed_spec *b) {
    const struct qkv_norm_spec *n = &a->norm, *m = &b->norm;
    const bool norm =
        n->given == m->given && n->kind == m->kind && n->eps == m->eps && n->weight == m->weight && n->bias == m->bias;
    if (a->masked.given != b->masked.given || a->masked.token != b->masked.token || a->masked.share != b->masked.share)
        return false;
    return norm && a->position.kind == b->position.kind && a->position.layout == b->position.layout &&
           a->position.offset == b->position.offset && a->scale == b->scale && a->types == b->types &&
           a->norm_tokens == b->norm_tokens && a->width == b->width && a->bias == b->bias && a->project == b->project &&
           a->dropout == b->dropout;
}

static inline bool same_stack(const struct qkv_stack_spec *a, const struct qkv_stack_spec *b) {
    bool same = a->layers == b->layers && a->d_model == b->d_model && a->share == b->share &&
                a->kind_count == b->kind_count && (!a->layers || !memcmp(a->kind_of, b->kind_of, (size_t)a->layers));
    same = same && same_embedding(&a->embed, &b->embed);
    for (int i = 0; same && i < a->kind_count; i++) same = same_layer(&a->kinds[i], &b->kinds[i]);
    return same;
}

static inline bool same_spec(const struct qkv_spec *a, const struct qkv_spec *b) {
    return a->vocab == b->vocab && a->source_vocab == b->source_vocab && a->d_model == b->d_model &&
           a->context == b->context && a->tie == b->tie && a->dropout == b->dropout && a->head.kind == b->head.kind &&
           a->head.classes == b->head.classes && a->head.pool == b->head.pool && a->head.bias == b->head.bias &&
           a->head.scale == b->head.scale && a->head.softcap == b->head.softcap &&
           same_stack(&a->encoder, &b->encoder) && same_stack(&a->decoder, &b->decoder);
}

#endif
