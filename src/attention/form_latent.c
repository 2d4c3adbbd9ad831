/* form_latent: multi-head latent attention (DeepSeek-AI 2024, "DeepSeek-V2", section 2.1). Keys and values are computed
 * from a latent of much smaller width. The cache stores the latent, and the rotated channels of a key, which all heads
 * share.
 *
 * c = norm(x·kv_aᵀ), r = rotated(x·k_ropeᵀ); head h: k_h = [c·k_bₕᵀ | r], v_h = c·v_bₕᵀ; q = x·qᵀ, or
 * norm(x·q_aᵀ)·q_bᵀ, of heads [nope | rope] whose rope part is rotated.
 *
 * Scores are q_h·k_h = (q_h.nope·k_bₕ)·c + q_h.rope·r, and the output of a head is (Σ w·c)·v_bₕᵀ. So attention over a
 * cache of rows [c | r] is attention with one key head, rank + rope_dim wide, whose values are its first rank channels;
 * queries and outputs absorb the projections of keys and values. A pass without a cache computes the keys and values of
 * the heads, which is less work if all positions are new, and can be trained. A call with a cache takes the absorbed
 * form, whatever its number of rows.
 *
 * A layer that shares reads c and r of another layer, which are what a cache stores; its q, k_b, v_b and o are its
 * own. */
#include "attention/form.h"
#include "base/math.h"

/* The linears of the form among the parameters, and its norms. */
enum {
    LATENT_Q_A,    /* of x (query_rank, in); only if queries have a latent */
    LATENT_Q,      /* of that, or of x: (H·D, …) */
    LATENT_KV_A,   /* (rank, in) */
    LATENT_K_ROPE, /* (rope_dim, in) */
    LATENT_K_B,    /* of the latent: (H·(D − rope_dim), rank) */
    LATENT_V_B,    /* of the latent: (H·Dv, rank) */
    LATENT_LINEARS
};
enum { LATENT_Q_NORM, LATENT_KV_NORM, LATENT_NORMS };
_Static_assert((int)LATENT_LINEARS <= (int)QKV_FORM_LINEARS && (int)LATENT_NORMS <= (int)QKV_FORM_NORMS,
               "the parameters have no room");

/* ---- the spec -------------------------------------------------------------------------------------------------- */

static bool latent_fits(const struct qkv_attention_spec *spec) {
    return spec->latent.given;
}

/* The channels that all heads share. */
static int latent_rotated(const struct qkv_attention_spec *spec) {
    return spec->latent.rope_dim;
}

static double latent_scale(const struct qkv_attention_spec *spec) {
    const struct qkv_scaling_spec *scaling = &spec->position.scaling;
    const double scale = 1 / sqrt((double)spec->head_dim);
    const bool stretched = spec->position.kind == QKV_POSITION_ROPE && scaling->given &&
                           scaling->kind == QKV_SCALING_YARN && scaling->factor > 1;
    if (!stretched || !(scaling->mscale_all_dim > 0)) return scale;
    const double m = 0.1 * scaling->mscale_all_dim * qkv_log(scaling->factor) + 1;
    return scale * m * m;
}

static struct qkv_page_heads latent_cached(const struct qkv_attention_spec *spec) {
    return (struct qkv_page_heads){.heads = 1,
                                   .k_columns = (size_t)spec->latent.rank + (size_t)spec->latent.rope_dim,
                                   .v_columns = (size_t)spec->latent.rank,
                                   .shared = true,
                                   .form = "latent attention"};
}

static bool latent_differ(const struct qkv_attention_spec *a, const struct qkv_attention_spec *b,
                          char text[QKV_DIFFER_TEXT]) {
    return qkv_attention_differ("latent.rank", a->latent.rank, b->latent.rank, text) ||
           qkv_attention_differ("latent.rope_dim", a->latent.rope_dim, b->latent.rope_dim, text) ||
           qkv_attention_differ("latent.eps", a->latent.eps, b->latent.eps, text);
}

/* ---- checking -------------------------------------------------------------------------------------------------- */

/* Refuses operations on the keys of heads between projections and scores: the absorbed form never computes these
 * keys. */
static enum qkv_status latent_check_beside(const struct qkv_form_keys *keys, const struct qkv_attention_spec *a) {
    const char *name = keys->name, *where = keys->where;
    char shown[QKV_REAL_TEXT];
    if (a->kv_heads != a->heads)
        return qkv_fail(keys->ctx, QKV_SPEC,
                        "%s: %skv_heads is %d, but with %slatent each of the %d heads has keys and values of its own "
                        "(choose %d)",
                        name, where, a->kv_heads, where, a->heads, a->heads);
    if (a->qk_norm.norm.given)
        return qkv_fail(keys->ctx, QKV_SPEC,
                        "%s: %sqk_norm is given, but with %slatent the latents are normed, not queries and keys (set "
                        "one of them to null)",
                        name, where, where);
    if (a->clip > 0)
        return qkv_fail(keys->ctx, QKV_SPEC,
                        "%s: %sclip is %s, but with %slatent keys and values are never clamped (choose 0, or set "
                        "%slatent to null)",
                        name, where, qkv_real_text(shown, a->clip), where, where);
    if (qkv_bias_has(a->bias, 'k') == qkv_bias_has(a->bias, 'v')) return QKV_OK;
    return qkv_fail(
        keys->ctx, QKV_SPEC,
        "%s: %sbias is one of keys or of values only, but with %slatent both are made of one latent (choose "
        "true, false, or letters with both k and v or neither)",
        name, where, where);
}

static enum qkv_status latent_check(const struct qkv_form_keys *keys, const struct qkv_attention_spec *a) {
    const struct qkv_latent_spec *l = &a->latent;
    const char *name = keys->name, *where = keys->where;
    const int C = keys->C;
    if (keys->cross)
        return qkv_fail(keys->ctx, QKV_SPEC, "%s: %slatent is given, but only self attention has one; leave it out",
                        name, where);
    if (l->rank > C)
        return qkv_fail(keys->ctx, QKV_SPEC,
                        "%s: %slatent.rank is %d, wider than the model, whose d_model is %d (choose at most %d)", name,
                        where, l->rank, C, C);
    if (l->query_rank > C)
        return qkv_fail(keys->ctx, QKV_SPEC,
                        "%s: %slatent.query_rank is %d, wider than the model, whose d_model is %d (choose at most %d, "
                        "or 0 for queries without a latent)",
                        name, where, l->query_rank, C, C);
    if (l->rope_dim >= a->head_dim)
        return qkv_fail(keys->ctx, QKV_SPEC,
                        "%s: %slatent.rope_dim is %d, but a head has %d channels, of which one at least is made of the "
                        "latent (choose at most %d, or a wider head_dim)",
                        name, where, l->rope_dim, a->head_dim, a->head_dim - 1);
    if (a->position.kind == QKV_POSITION_ROPE && l->rope_dim < 2)
        return qkv_fail(keys->ctx, QKV_SPEC,
                        "%s: %slatent.rope_dim is %d, but the position rope turns pairs of these channels (choose at "
                        "least 2, or another position)",
                        name, where, l->rope_dim);
    return latent_check_beside(keys, a);
}

/* ---- weights --------------------------------------------------------------------------------------------------- */

static void latent_build(struct qkv_weights *weights, const struct qkv_weight_place *place, struct qkv_linear *linear,
                         enum qkv_role role, bool bias) {
    qkv_weights_linear(weights, place, linear, &role, 1, bias);
}

static void latent_weights(struct qkv_weights *weights, const struct qkv_weight_place *place,
                           const struct qkv_attention_spec *spec, bool cross,
                           struct qkv_attention_parameters *parameters) {
    const struct qkv_latent_spec *latent = &spec->latent;
    const struct qkv_norm_spec norm = {.given = true, .kind = QKV_NORM_RMSNORM, .eps = latent->eps, .weight = true};
    const bool q = qkv_bias_has(spec->bias, 'q'), kv = qkv_bias_has(spec->bias, 'k');
    struct qkv_linear *own = parameters->form;
    struct qkv_dimensions sizes = *place->sizes;
    struct qkv_weight_place at = *place;
    (void)cross;
    at.sizes = &sizes;
    sizes.Lq = (size_t)latent->query_rank, sizes.L = (size_t)latent->rank, sizes.S = (size_t)latent->rope_dim;
    if (latent->query_rank) {
        latent_build(weights, &at, &own[LATENT_Q_A], QKV_ROLE_ATTN_Q_A, q);
        qkv_weights_norm(weights, &at, &parameters->form_norms[LATENT_Q_NORM], QKV_ROLE_ATTN_Q_A_NORM, &norm);
        latent_build(weights, &at, &own[LATENT_Q], QKV_ROLE_ATTN_Q_B, false);
    } else {
        latent_build(weights, &at, &own[LATENT_Q], QKV_ROLE_ATTN_Q, q);
    }
    if (!spec->share) {
        latent_build(weights, &at, &own[LATENT_KV_A], QKV_ROLE_ATTN_KV_A, kv);
        if (latent->rope_dim) latent_build(weights, &at, &own[LATENT_K_ROPE], QKV_ROLE_ATTN_K_ROPE, kv);
        qkv_weights_norm(weights, &at, &parameters->form_norms[LATENT_KV_NORM], QKV_ROLE_ATTN_KV_A_NORM, &norm);
    }
    at.head_wise = true;
    latent_build(weights, &at, &own[LATENT_K_B], QKV_ROLE_ATTN_K_B, false);
    latent_build(weights, &at, &own[LATENT_V_B], QKV_ROLE_ATTN_V_B, false);
}

/* ---- running --------------------------------------------------------------------------------------------------- */

static struct qkv_tensor *latent_linear(const struct qkv_attention_args *f, struct qkv_linear *l,
                                        struct qkv_tensor *x) {
    return qkv_op_linear(f->tape, x, &l->weight, qkv_tensor_or_null(&l->bias), QKV_RESULT_FOR_PRODUCTS);
}

/* norm(x·lᵀ). */
static struct qkv_tensor *latent_compress(const struct qkv_attention_args *f, size_t linear, size_t norm,
                                          struct qkv_tensor *x) {
    struct qkv_linear *l = &f->parameters->form[linear];
    const struct qkv_heads_of_columns all = {.heads = 1, .D = l->weight.rows};
    return qkv_op_head_norm(f->tape, latent_linear(f, l, x), all, QKV_NORM_RMSNORM,
                            qkv_tensor_or_null(&f->parameters->form_norms[norm].weight), NULL,
                            (float)f->spec->latent.eps);
}

static struct qkv_tensor *latent_queries(const struct qkv_attention_args *f, struct qkv_tensor *x) {
    struct qkv_linear *own = f->parameters->form;
    const struct qkv_attend *a = f->attend;
    if (f->spec->latent.query_rank) x = latent_compress(f, LATENT_Q_A, LATENT_Q_NORM, x);
    x = qkv_attention_rotate(f, latent_linear(f, &own[LATENT_Q], x), a->D - (size_t)f->spec->latent.rope_dim, a->H,
                             a->D);
    return qkv_op_position_scale(f->tape, x, 0, a->H * a->D, &f->spec->temperature, f->positions);
}

/* The latents and the rotated channels (x NULL: none) of the positions of the call: of x, or those of another layer. */
static struct qkv_layer_keys latent_rows(const struct qkv_attention_args *f, struct qkv_tensor *x) {
    const size_t shared = (size_t)f->spec->latent.rope_dim;
    if (f->spec->share) return f->keys ? *f->keys : (struct qkv_layer_keys){0};
    struct qkv_layer_keys rows = {.k.x = latent_compress(f, LATENT_KV_A, LATENT_KV_NORM, x)};
    if (shared)
        rows.v.x = qkv_attention_rotate(f, latent_linear(f, &f->parameters->form[LATENT_K_ROPE], x), 0, 1, shared);
    if (f->keys) *f->keys = rows;
    return rows;
}

/* Without a cache: the heads' own keys and values, computed from the latents of all positions of the call. With a
 * cache: appends the rows of the new positions; its rows are the keys and values of a single head, and the queries have
 * absorbed the projection of keys. The result depends only on whether there is a cache. */
static bool latent_project(const struct qkv_attention_args *f, struct qkv_tensor *x, struct qkv_form_inputs *in) {
    struct qkv_linear *own = f->parameters->form;
    const size_t shared = (size_t)f->spec->latent.rope_dim;
    struct qkv_tensor *q = latent_queries(f, x);
    const struct qkv_layer_keys rows = latent_rows(f, x);
    struct qkv_tensor *c = rows.k.x, *r = rows.v.x;
    in->q = q;
    if (!f->cache) {
        struct qkv_tensor *k = latent_linear(f, &own[LATENT_K_B], c);
        in->k.x = shared ? qkv_op_join_heads(f->tape, k, r, f->attend->H) : k;
        in->v.x = latent_linear(f, &own[LATENT_V_B], c);
        return in->k.x && in->v.x && q;
    }
    in->q = qkv_op_head_linear(f->tape, q, &own[LATENT_K_B].weight, f->attend->H, shared, false);
    if (!f->spec->share) {
        struct qkv_tensor *row = shared ? qkv_op_join_heads(f->tape, c, r, 1) : c;
        if (!row) return false;
        qkv_attention_append(f, (struct qkv_columns){row, 0}, f->attend->Tq, false);
    }
    if (!in->q) return false;
    const struct qkv_page_heads cached = latent_cached(f->spec);
    in->attend.Hkv = cached.heads, in->attend.D = cached.k_columns, in->attend.Dv = cached.v_columns;
    return qkv_attention_cached(f, &in->k, &in->v, &in->attend);
}

/* With a cache attention's result is still latents, to which the projection of values is applied. */
static struct qkv_tensor *latent_values(const struct qkv_attention_args *f, struct qkv_tensor *y) {
    if (!f->cache) return y;
    return qkv_op_head_linear(f->tape, y, &f->parameters->form[LATENT_V_B].weight, f->attend->H, 0, true);
}

const struct qkv_attention_form qkv_attention_form_latent = {.name = "latent",
                                                             .fits = latent_fits,
                                                             .check = latent_check,
                                                             .rotated_key = "latent.rope_dim",
                                                             .rotated = latent_rotated,
                                                             .scale = latent_scale,
                                                             .cached = latent_cached,
                                                             .differ = latent_differ,
                                                             .weights = latent_weights,
                                                             .project = latent_project,
                                                             .values = latent_values};
