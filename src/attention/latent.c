/* latent: multi-head latent attention (DeepSeek-AI 2024, "DeepSeek-V2", section 2.1). Keys and values are computed from
 * a latent of much smaller width. The cache stores the latent, and the rotated channels of a key, which all heads
 * share.
 *
 * c = norm(x·kv_aᵀ), r = rotated(x·k_ropeᵀ); head h: k_h = [c·k_bₕᵀ | r], v_h = c·v_bₕᵀ; q = x·qᵀ, or
 * norm(x·q_aᵀ)·q_bᵀ, of heads [nope | rope] whose rope part is rotated.
 *
 * Scores are q_h·k_h = (q_h.nope·k_bₕ)·c + q_h.rope·r, and the output of a head is (Σ w·c)·v_bₕᵀ. So attention over a
 * cache of rows [c | r] is attention with one key head, rank + rope_dim wide, whose values are its first rank channels;
 * queries and outputs absorb the projections of keys and values. A pass without a cache computes the keys and values of
 * the heads, which is less work if all positions are new, and can be trained. A call with a cache takes the absorbed
 * form, whatever its number of rows. */
#include "attention/attention.h"

#include <math.h>

/* ---- the spec -------------------------------------------------------------------------------------------------- */

int qkv_attention_turned(const struct qkv_attention_spec *spec) {
    return spec->latent.given ? spec->latent.rope_dim : spec->head_dim;
}

double qkv_attention_scale(const struct qkv_attention_spec *spec) {
    const struct qkv_scaling_spec *scaling = &spec->position.scaling;
    const double scale = spec->scale > 0 ? spec->scale : 1 / sqrt((double)spec->head_dim);
    const bool stretched = spec->latent.given && spec->position.kind == QKV_POSITION_ROPE && scaling->given &&
                           scaling->kind == QKV_SCALING_YARN && scaling->factor > 1;
    if (spec->scale > 0 || !stretched || !(scaling->mscale_all_dim > 0)) return scale;
    const double m = 0.1 * scaling->mscale_all_dim * log(scaling->factor) + 1;
    return scale * m * m;
}

/* ---- checking -------------------------------------------------------------------------------------------------- */

/* Refuses operations on the keys of heads between projections and scores: the absorbed form never computes these
 * keys. */
static enum qkv_status latent_check_beside(struct qkv_context *ctx, const char *name, const char *where,
                                           const struct qkv_attention_spec *a) {
    char shown[QKV_REAL_TEXT];
    if (a->kv_heads != a->heads)
        return qkv_fail(ctx, QKV_SPEC,
                        "%s: %skv_heads is %d, but with %slatent each of the %d heads has keys and values of its own "
                        "(choose %d)",
                        name, where, a->kv_heads, where, a->heads, a->heads);
    if (a->qk_norm.norm.given)
        return qkv_fail(ctx, QKV_SPEC,
                        "%s: %sqk_norm is given, but with %slatent the latents are normed, not queries and keys (set "
                        "one of them to null)",
                        name, where, where);
    if (a->clip > 0)
        return qkv_fail(ctx, QKV_SPEC,
                        "%s: %sclip is %s, but with %slatent keys and values are never clamped (choose 0, or set "
                        "%slatent to null)",
                        name, where, qkv_real_text(shown, a->clip), where, where);
    if (qkv_bias_has(a->bias, 'k') == qkv_bias_has(a->bias, 'v')) return QKV_OK;
    return qkv_fail(
        ctx, QKV_SPEC,
        "%s: %sbias is one of keys or of values only, but with %slatent both are made of one latent (choose "
        "true, false, or letters with both k and v or neither)",
        name, where, where);
}

enum qkv_status qkv_latent_check(struct qkv_context *ctx, const char *name, const char *where,
                                 const struct qkv_attention_spec *a, int C) {
    const struct qkv_latent_spec *l = &a->latent;
    if (l->rank > C)
        return qkv_fail(ctx, QKV_SPEC,
                        "%s: %slatent.rank is %d, wider than the model, whose d_model is %d (choose at most %d)", name,
                        where, l->rank, C, C);
    if (l->query_rank > C)
        return qkv_fail(ctx, QKV_SPEC,
                        "%s: %slatent.query_rank is %d, wider than the model, whose d_model is %d (choose at most %d, "
                        "or 0 for queries without a latent)",
                        name, where, l->query_rank, C, C);
    if (l->rope_dim >= a->head_dim)
        return qkv_fail(ctx, QKV_SPEC,
                        "%s: %slatent.rope_dim is %d, but a head has %d channels, of which one at least is made of the "
                        "latent (choose at most %d, or a wider head_dim)",
                        name, where, l->rope_dim, a->head_dim, a->head_dim - 1);
    if (a->position.kind == QKV_POSITION_ROPE && l->rope_dim < 2)
        return qkv_fail(ctx, QKV_SPEC,
                        "%s: %slatent.rope_dim is %d, but the position rope turns pairs of these channels (choose at "
                        "least 2, or another position)",
                        name, where, l->rope_dim);
    return latent_check_beside(ctx, name, where, a);
}

/* ---- running --------------------------------------------------------------------------------------------------- */

static struct qkv_tensor *latent_linear(const struct qkv_attention_args *f, struct qkv_linear *l,
                                        struct qkv_tensor *x) {
    return qkv_op_linear(f->tape, x, &l->weight, qkv_tensor_or_null(&l->bias), QKV_RESULT_FOR_PRODUCTS);
}

/* norm(x·lᵀ). */
static struct qkv_tensor *latent_compress(const struct qkv_attention_args *f, struct qkv_linear *l,
                                          struct qkv_norm *norm, struct qkv_tensor *x) {
    const struct qkv_heads_of_columns all = {.heads = 1, .D = l->weight.rows};
    return qkv_op_head_norm(f->tape, latent_linear(f, l, x), all, QKV_NORM_RMSNORM, qkv_tensor_or_null(&norm->weight),
                            NULL, (float)f->spec->latent.eps);
}

/* Rotates the channels from `column` on of `heads` heads. */
static struct qkv_tensor *latent_rotate(const struct qkv_attention_args *f, struct qkv_tensor *x, size_t column,
                                        size_t heads, size_t D) {
    const struct qkv_position_tables *tables = f->tables;
    if (!tables || !tables->rotate) return x;
    const struct qkv_turns t = f->turns ? *f->turns : (struct qkv_turns){tables->rotate, f->attend->position};
    return qkv_op_rotate(f->tape, x, column, heads, D, tables->pairs, tables->interleaved, t.table, t.rows);
}

static struct qkv_tensor *latent_queries(const struct qkv_attention_args *f, struct qkv_tensor *x) {
    struct qkv_latent *p = &f->parameters->latent;
    const struct qkv_attend *a = f->attend;
    if (p->q_a.weight.rows) x = latent_compress(f, &p->q_a, &p->q_norm, x);
    return latent_rotate(f, latent_linear(f, &p->q, x), a->D - (size_t)f->spec->latent.rope_dim, a->H, a->D);
}

bool qkv_latent_project(const struct qkv_attention_args *f, struct qkv_tensor *x, struct qkv_latent_call *call) {
    struct qkv_latent *p = &f->parameters->latent;
    const size_t shared = (size_t)f->spec->latent.rope_dim;
    struct qkv_tensor *q = latent_queries(f, x), *c = latent_compress(f, &p->kv_a, &p->kv_norm, x), *r = NULL;
    if (shared) r = latent_rotate(f, latent_linear(f, &p->k_rope, x), 0, 1, shared);
    *call = (struct qkv_latent_call){.q = q, .attend = *f->attend};
    if (!f->cache) {
        struct qkv_tensor *k = latent_linear(f, &p->k_b, c);
        call->k.x = shared ? qkv_op_join_heads(f->tape, k, r, f->attend->H) : k;
        call->v.x = latent_linear(f, &p->v_b, c);
        return call->k.x && call->v.x && q;
    }
    call->q = qkv_op_head_linear(f->tape, q, &p->k_b.weight, f->attend->H, shared, false);
    struct qkv_tensor *row = shared ? qkv_op_join_heads(f->tape, c, r, 1) : c;
    if (!row || !call->q) return false;
    const struct qkv_page_heads cached = qkv_cache_heads(f->spec);
    qkv_attention_append(f, (struct qkv_columns){row, 0}, f->attend->Tq, false);
    call->attend.Hkv = cached.heads, call->attend.D = cached.k_columns, call->attend.Dv = cached.v_columns;
    return qkv_attention_cached(f, &call->k, &call->v, &call->attend);
}

struct qkv_tensor *qkv_latent_values(const struct qkv_attention_args *f, struct qkv_tensor *y) {
    if (!f->cache) return y;
    return qkv_op_head_linear(f->tape, y, &f->parameters->latent.v_b.weight, f->attend->H, 0, true);
}
