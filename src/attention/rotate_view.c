/* rotate: rotary positions (RoPE; Su et al. 2021) on plain buffers, in place; and their tables.
 *
 * (x, y) of a pair become (x·cos − y·sin, x·sin + y·cos). A rotation's gradient is the inverse rotation. */
#include "attention/attention.h"
#include "base/math.h"

static enum qkv_status rotate_view_check(struct qkv_context *ctx, const struct qkv_view *x,
                                         const struct qkv_rotation *r) {
    enum qkv_status status = qkv_view_check(ctx, "x", x, "itself", x->B, x->H, x->T, x->D, true);
    if (!status) status = qkv_aligned(ctx, "the table", r->table, sizeof(float));
    if (!status) status = qkv_aligned(ctx, "positions", r->positions, sizeof(int32_t));
    size_t floats;
    if (status) return status;
    if (r->pairs > x->D / 2)
        return qkv_fail(ctx, QKV_SHAPE, "rotate: %zu pairs need %zu channels, but a head of x has %zu", r->pairs,
                        2 * r->pairs, x->D);
    if (!qkv_multiply(r->count, r->pairs, &floats) || !qkv_multiply(floats, 2 * sizeof(float), &floats))
        return qkv_fail(ctx, QKV_SHAPE, "rotate: a table of %zu positions and %zu pairs cannot be addressed", r->count,
                        r->pairs);
    if (!r->table && x->B && x->T && r->pairs) return qkv_fail(ctx, QKV_ARGUMENT, "rotate: the table is not given");
    if (!r->positions && x->B && x->T > r->count)
        return qkv_fail(ctx, QKV_SHAPE, "rotate: x has %zu positions, but the table only %zu", x->T, r->count);
    for (size_t n = 0; r->positions && n < x->B * x->T; n++)
        if (r->positions[n] < 0 || (size_t)r->positions[n] >= r->count)
            return qkv_fail(
                ctx, QKV_ARGUMENT,
                "rotate: positions[%zu], row %zu of batch row %zu, is %d; the table has positions from 0 to "
                "below %zu",
                n, n % x->T, n / x->T, r->positions[n], r->count);
    return QKV_OK;
}

struct qkv_rotation qkv_rotation_defaults(void) {
    return (struct qkv_rotation){0};
}

enum qkv_status qkv_rotate(struct qkv_context *ctx, const struct qkv_view *x, const struct qkv_rotation *rotation) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, x);
    QKV_NEED(ctx, rotation);
    enum qkv_status status = rotate_view_check(ctx, x, rotation);
    if (status || !rotation->pairs || !x->B || !x->H || !x->T) return status;
    struct qkv_arena *arena;
    size_t floats = x->dtype == QKV_F32 ? 0 : 2 * rotation->pairs * (size_t)ctx->threads;
    status = qkv_workspace(ctx, floats * sizeof(float), &arena);
    if (status) return status;
    qkv_rotate_heads(ctx, x, rotation, qkv_arena_take(arena, floats, sizeof(float)));
    qkv_arena_release(arena, 0);
    return QKV_OK;
}

struct qkv_turn_rule qkv_turn_rule_of(const struct qkv_position_spec *position, size_t length, size_t context,
                                      size_t pairs, double *frequencies) {
    qkv_rotation_frequencies(position, length, pairs, frequencies);
    return (struct qkv_turn_rule){.base = qkv_rotation_base(position, length, pairs),
                                  .factor = qkv_rotation_factor(position, context),
                                  .frequencies = frequencies};
}

void qkv_rotation_row(const struct qkv_turn_rule *rule, size_t t, size_t pairs, float *row) {
    for (size_t p = 0; p < pairs; p++) {
        const double f = rule->frequencies ? rule->frequencies[p] : qkv_pow(rule->base, -(double)p / (double)pairs);
        const double angle = (double)t * f;
        row[2 * p] = (float)(rule->factor * qkv_cos(angle));
        row[2 * p + 1] = (float)(rule->factor * qkv_sin(angle));
    }
}

/* qkv_rotation_table_of without the checks. */
static enum qkv_status rotation_fill(struct qkv_context *ctx, const struct qkv_position_spec *position, size_t context,
                                     size_t length, size_t count, size_t pairs, float *table) {
    double *frequencies = qkv_allocate(ctx, pairs + 1, sizeof *frequencies);
    if (!frequencies) return QKV_MEMORY;
    const struct qkv_turn_rule rule = qkv_turn_rule_of(position, length, context, pairs, frequencies);
    for (size_t t = 0; t < count; t++) qkv_rotation_row(&rule, t, pairs, table + t * pairs * 2);
    qkv_free(frequencies);
    return QKV_OK;
}

enum qkv_status qkv_rotation_table(struct qkv_context *ctx, double theta, size_t count, size_t pairs, float *table) {
    QKV_CALL(ctx);
    char shown[QKV_REAL_TEXT];
    if (!(theta > 0) || !isfinite(theta))
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "rotate: theta is %s; it must be greater than 0 and at most 1.7e308, as 10000",
                        qkv_real_text(shown, theta));
    size_t entries;
    if (!qkv_multiply(count, pairs, &entries) || entries > (size_t)PTRDIFF_MAX / (2 * sizeof(float)))
        return qkv_fail(ctx, QKV_SHAPE, "rotate: a table of %zu positions and %zu pairs cannot be addressed", count,
                        pairs);
    if (entries && !table) return qkv_fail(ctx, QKV_ARGUMENT, "rotate: the table is NULL");
    const struct qkv_position_spec plain = {.kind = QKV_POSITION_ROPE, .theta = theta};
    return entries ? rotation_fill(ctx, &plain, count, count, count, pairs, table) : QKV_OK;
}

static enum qkv_status rotation_check_spec(struct qkv_context *ctx, const struct qkv_position_spec *p, size_t context,
                                           size_t pairs) {
    char shown[QKV_REAL_TEXT];
    if (p->kind != QKV_POSITION_ROPE)
        return qkv_fail(ctx, QKV_ARGUMENT, "rotate: position.kind is %d; only rope (%d) turns", (int)p->kind,
                        (int)QKV_POSITION_ROPE);
    if (!(p->theta > 0) || !isfinite(p->theta))
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "rotate: position.theta is %s; it must be greater than 0 and at most 1.7e308, as 10000",
                        qkv_real_text(shown, p->theta));
    if (p->scaling.given && p->scaling.kind == QKV_SCALING_LONGROPE && p->scaling.factor == 0 && !context)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "rotate: context is 0, but a scaling of kind longrope without a factor goes by it");
    return qkv_scaling_check(ctx, "rotate", "", p, pairs);
}

enum qkv_status qkv_rotation_table_of(struct qkv_context *ctx, const struct qkv_position_spec *position, size_t context,
                                      size_t length, size_t count, size_t pairs, float *table) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, position);
    size_t entries;
    enum qkv_status status = rotation_check_spec(ctx, position, context, pairs);
    if (status) return status;
    if (!qkv_multiply(count, pairs, &entries) || entries > (size_t)PTRDIFF_MAX / (2 * sizeof(float)))
        return qkv_fail(ctx, QKV_SHAPE, "rotate: a table of %zu positions and %zu pairs cannot be addressed", count,
                        pairs);
    if (entries && !table) return qkv_fail(ctx, QKV_ARGUMENT, "rotate: the table is NULL");
    return rotation_fill(ctx, position, context, length, count, pairs, table);
}

void qkv_alibi_slopes(size_t H, float *slopes) {
    const struct qkv_position_spec press = {.form = QKV_ALIBI_PRESS};
    for (size_t h = 0; slopes && h < H; h++) slopes[h] = qkv_alibi_slope(&press, h, H);
}
