/* check_kernels.h: the row and vector kernels of one table against double arithmetic at ragged sizes. */
#ifndef QKV_CHECK_KERNELS_H
#define QKV_CHECK_KERNELS_H

#include "checks.h"
#include "reference_act.h"

typedef const struct qkv_kernels *Table;

/* ---- vectors ---------------------------------------------------------------------------------------------------- */

static void check_vectors(Table k, struct qkv_random *random) {
    for (size_t s = 0; s < RAGGED_COUNT; s++) {
        const size_t n = ragged(s);
        float *a = random_floats(random, n, 1), *b = random_floats(random, n, 1), *y = guarded_new(n);
        double squares = 0;
        k->add(y, a, b, n);
        for (size_t i = 0; i < n; i++) CHECK(y[i] == a[i] + b[i], "add, %zu of %zu", i, n);
        const float *others[] = {b, a};
        k->add_several(y, a, others, 2, n);
        for (size_t i = 0; i < n; i++) CHECK(y[i] == a[i] + b[i] + a[i], "add_several, %zu of %zu", i, n);
        k->scale(y, false, a, 1.7f, n);
        for (size_t i = 0; i < n; i++) CHECK(y[i] == a[i] * 1.7f, "scale, %zu of %zu", i, n);
        k->scale(y, true, b, -0.3f, n);
        for (size_t i = 0; i < n; i++)
            CHECK(near(y[i], (double)(a[i] * 1.7f) + (double)b[i] * (double)-0.3f, 1.2e-7, 0.5), "scale, %zu of %zu", i,
                  n);
        k->add(y, y, y, n); /* in place */
        for (size_t i = 0; i < n; i++) squares += (double)y[i] * (double)y[i];
        CHECK(fabs(k->sum_squares(y, n) - squares) <= 1e-13 * squares, "sum_squares of %zu", n);
        double sum = 0; /* of whole numbers: exact in any order */
        for (size_t i = 0; i < n; i++) sum += y[i] = (float)(i % 7);
        for (size_t streams = 1; streams <= 8; streams *= 2)
            CHECK(k->read_all(y, n, streams, 64 * (s % 3)) == sum, "read_all of %zu", n);
        guarded_free(a, n, "random");
        guarded_free(b, n, "random");
        guarded_free(y, n, "add or scale");
    }
}

static void check_column_sums(Table k, struct qkv_random *random) {
    for (size_t s = 0; s < RAGGED_COUNT; s++) {
        const size_t C = ragged(s), rows = s % 5, ldx = C + s % 3;
        float *x = random_floats(random, rows * ldx, 1), *out = random_floats(random, C, 1), *want = copied(out, C);
        for (size_t row = 0; row < rows; row++)
            for (size_t c = 0; c < C; c++) want[c] += x[row * ldx + c];
        k->column_sums(out, x, ldx, rows, C);
        CHECK(same_bits(out, want, C), "column_sums of %zu × %zu", rows, C);
        guarded_free(x, rows * ldx, "random");
        guarded_free(out, C, "column_sums");
        guarded_free(want, C, "random");
    }
}

static void check_exp(Table k, struct qkv_random *random) {
    enum { N = 1 << 16 };
    float *x = guarded_new(N), *y = guarded_new(N);
    for (uint32_t round = 0; round < 2; round++) {
        uint32_t offset = (uint32_t)qkv_random_bits(random);
        for (uint32_t i = 0; i < N; i++) {
            uint32_t bits = offset + i * 65521;
            memcpy(x + i, &bits, 4);
            if (round) x[i] = (float)i * (200.0f / N) - 110.0f;
        }
        static const float special[] = {0, -0.0f, INFINITY, -INFINITY, NAN, -104.01f, 88.72f, 88.73f, -87.3f, 1e-30f};
        memcpy(x, special, sizeof special);
        k->exp(y, x, N);
        CHECK(y[0] == 1 && y[1] == 1 && y[2] == INFINITY && y[3] == 0 && isnan(y[4]), "exp of special values");
        for (size_t i = 0; i < N; i++) {
            double want = exp((double)x[i]);
            CHECK(near(y[i], want, 2e-7, 1.2e-38) || (want < 1.2e-38 && (double)y[i] <= 1.2e-38),
                  "exp(%a) is %a, not %a", (double)x[i], (double)y[i], want);
            CHECK(!(x[i] < -104) || y[i] == 0, "exp(%a) is not 0", (double)x[i]);
        }
    }
    guarded_free(x, N, "random");
    guarded_free(y, N, "exp");
}

/* ---- activations ------------------------------------------------------------------------------------------------ */

/* Checks an activation, or its gate, without a formula: properties of all kinds. */
static void check_gated_kind(Table k, struct qkv_random *random, enum qkv_ffn_kind kind, float limit, size_t n) {
    float *gate = random_floats(random, n, 3), *up = random_floats(random, n, 1), *dy = random_floats(random, n, 1);
    const float special[] = {0, -0.0f, limit, -limit, nextafterf(limit, 0), nextafterf(limit, 1e9f), 30, -30};
    for (size_t i = 0; i < n && n >= 16; i++) {
        if (i < 8) gate[i] = special[i];
        if (i >= 8 && i < 16) up[i] = special[i - 8];
    }
    float *y = guarded_new(n), *dgate = guarded_new(n), *dup = guarded_new(n), *sum = copied(up, n),
          *sum2 = copied(dy, n);
    k->gated_forward(kind, limit, y, gate, up, n);
    k->gated_backward(kind, limit, dgate, dup, false, dy, gate, up, n);
    k->gated_backward(kind, limit, sum, sum2, true, dy, gate, up, n);
    for (size_t i = 0; i < n; i++) {
        double slopes[2], d = (double)dy[i];
        double want = reference_gate(kind, (double)limit, (double)gate[i], (double)up[i], slopes);
        CHECK(sum[i] == up[i] + dgate[i] && sum2[i] == dy[i] + dup[i], "gated %d accumulates", (int)kind);
        if (isnan(want)) continue;
        double size = fmax(1, fabs((double)up[i])) * fmax(1, fabs((double)gate[i]));
        size *= fmax(1, fabs((double)gate[i])); /* of relu2 */
        CHECK(fabs((double)y[i] - want) <= 6e-7 * size, "gated %d of %a and %a is %a, not %a", (int)kind,
              (double)gate[i], (double)up[i], (double)y[i], want);
        CHECK(fabs((double)dgate[i] - d * slopes[0]) <= 1e-6 * size * fmax(1, fabs(d)), "dgate %d of %a and %a",
              (int)kind, (double)gate[i], (double)up[i]);
        CHECK(fabs((double)dup[i] - d * slopes[1]) <= 1e-6 * size * fmax(1, fabs(d)), "dup %d of %a and %a", (int)kind,
              (double)gate[i], (double)up[i]);
        if (kind != QKV_FFN_SWIGLU_CLAMPED) continue; /* exactly 0 outside of the limit */
        CHECK(gate[i] <= limit || dgate[i] == 0, "dgate %d outside", (int)kind);
        CHECK(fabsf(up[i]) <= limit || dup[i] == 0, "dup %d outside", (int)kind);
    }
    float *all[] = {gate, up, dy, y, dgate, dup, sum, sum2};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) guarded_free(all[i], n, "gate");
}

/* The call that also returns the derivative gives the same y and dx. */
static void check_activation_slope(Table k, enum qkv_ffn_kind kind, const float *x, const float *dy, const float *y,
                                   const float *dx, size_t n) {
    float *slope = copied(x, n), *other = guarded_new(n), *sum = copied(x, n), *plain = copied(dy, n);
    k->activation_forward_slope(kind, other, slope, n);
    CHECK(same_bits(other, y, n), "activation %d beside its slope", (int)kind);
    k->activation_backward_slope(other, false, dy, slope, n);
    CHECK(same_bits(other, dx, n), "activation %d by its slope", (int)kind);
    k->activation_backward_slope(sum, true, dy, slope, n);
    for (size_t i = 0; i < n; i++) CHECK(sum[i] == x[i] + dx[i], "activation %d by its slope accumulates", (int)kind);
    k->activation_backward_slope(plain, false, plain, slope, n); /* dx is dy */
    CHECK(same_bits(plain, dx, n), "activation %d by its slope in place", (int)kind);
    float *all[] = {slope, other, sum, plain};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) guarded_free(all[i], n, "slope");
}

static void check_activation_kind(Table k, struct qkv_random *random, enum qkv_ffn_kind kind, size_t n) {
    float *x = random_floats(random, n, 3), *up = random_floats(random, n, 1), *dy = random_floats(random, n, 1);
    float *y = guarded_new(n), *dx = guarded_new(n), *sum = copied(up, n), *plain = copied(dy, n);
    static const float special[] = {0, -0.0f, 1e-20f, -1e-20f, 20, -20, 90, -90, 1e4f, -1e4f, 3e18f, -3e18f};
    if (n >= 16) memcpy(x, special, sizeof special);
    k->activation_forward(kind, y, x, n);
    k->activation_backward(kind, dx, false, dy, x, n);
    for (size_t i = 0; i < n && !isnan(reference_act(kind, 1)); i++) {
        double at = (double)x[i], act = reference_act(kind, at), slope = reference_slope(kind, at);
        CHECK(fabs((double)y[i] - act) <= 4e-7 * fmax(fmax(1, fabs(at)), fabs(act)), "act %d of %a is %a", (int)kind,
              at, (double)y[i]);
        CHECK(fabs((double)dx[i] - slope * (double)dy[i]) <= 5e-7 * fmax(1, fabs((double)dy[i])) * fmax(1, fabs(slope)),
              "slope %d of %a times %a is %a, not %a", (int)kind, at, (double)dy[i], (double)dx[i],
              slope * (double)dy[i]);
    }
    k->activation_backward(kind, sum, true, dy, x, n);
    for (size_t i = 0; i < n; i++) CHECK(sum[i] == up[i] + dx[i], "activation %d accumulates", (int)kind);
    k->activation_backward(kind, plain, false, plain, x, n); /* dx is dy */
    CHECK(same_bits(plain, dx, n), "activation %d in place", (int)kind);
    check_activation_slope(k, kind, x, dy, y, dx, n);
    float *all[] = {x, up, dy, y, dx, sum, plain};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) guarded_free(all[i], n, "activation");
}

static void check_activations(Table k, struct qkv_random *random) {
    for (int kind = 0; kind < QKV_FFN_COUNT; kind++) {
        for (size_t s = 1; s < RAGGED_COUNT; s++) {
            check_activation_kind(k, random, (enum qkv_ffn_kind)kind, ragged(s));
            check_gated_kind(k, random, (enum qkv_ffn_kind)kind, s % 2 ? 7 : 0.7f, ragged(s));
        }
        float nan = NAN, y, d, one = 1;
        k->activation_forward((enum qkv_ffn_kind)kind, &y, &nan, 1);
        CHECK(isnan(y), "act %d hides NaN", kind);
        k->activation_backward((enum qkv_ffn_kind)kind, &d, false, &nan, &one, 1);
        CHECK(isnan(d), "slope %d hides NaN", kind);
        k->gated_forward((enum qkv_ffn_kind)kind, 7, &y, &nan, &one, 1);
        k->gated_forward((enum qkv_ffn_kind)kind, 7, &d, &one, &nan, 1);
        CHECK(isnan(y) && isnan(d), "gated %d hides NaN", kind);
    }
}

/* ---- norms ------------------------------------------------------------------------------------------------------ */

struct norm_case { /* one row in double */
    double mean, rstd, g, gx;
    double sizes_g, sizes_gx; /* g and gx with all terms positive: what rounding errors are relative to */
};
static struct norm_case reference_norm(bool center, const float *x, const float *dy, const double *gain, double eps,
                                       size_t C) {
    struct norm_case r = {0};
    double n = (double)C, variance = 0;
    for (size_t c = 0; center && c < C; c++) r.mean += (double)x[c] / n;
    for (size_t c = 0; c < C; c++) variance += ((double)x[c] - r.mean) * ((double)x[c] - r.mean) / n;
    r.rstd = 1 / sqrt(variance + eps);
    for (size_t c = 0; c < C; c++) {
        double g = (double)dy[c] * gain[c];
        if (center) r.g += g / n;
        const double gx = g * ((double)x[c] - r.mean) * r.rstd / n;
        r.gx += gx;
        r.sizes_gx += fabs(gx);
        if (center) r.sizes_g += fabs(g) / n;
    }
    return r;
}

/* The factor of a normalised row: w, 1 + w or, for a norm without weights, 1. */
static double norm_gain(enum qkv_norm_kind kind, bool bare, float w) {
    static const double offsets[] = {
#define NORM_OFFSET(name, text, help, centered, offset) offset,
        QKV_NORM_LIST(NORM_OFFSET)};
    return bare ? 1 : offsets[kind] + (double)w;
}

static void check_norm_size(Table k, struct qkv_random *random, enum qkv_norm_kind kind, bool bare, size_t rows,
                            size_t C, double offset) {
    const float eps = 1e-5f;
    const bool center = qkv_norm_centered(kind);
    const size_t n = rows * C;
    float *x = random_floats(random, n, 2), *w = random_floats(random, C, 1), *b = random_floats(random, C, 1);
    float *dy = random_floats(random, n, 1), *y = guarded_new(n), *mean = guarded_new(rows), *rstd = guarded_new(rows);
    float *dx = guarded_new(n), *dw = random_floats(random, C, 1), *db = random_floats(random, C, 1);
    float *dw0 = copied(dw, C), *db0 = copied(db, C), *sum = random_floats(random, n, 1), *sum0 = copied(sum, n);
    const float *weight = bare ? NULL : w, *bias = center && !bare ? b : NULL;
    for (size_t i = 0; i < n; i++) x[i] += (float)offset;
    k->norm_forward(kind, y, center ? mean : NULL, rstd, x, weight, bias, eps, rows, C);
    k->norm_backward(kind, dx, false, dw, center ? db : NULL, dy, x, mean, rstd, weight, rows, C);
    k->norm_backward(kind, sum, true, NULL, NULL, dy, x, mean, rstd, weight, rows, C);
    double *dws = calloc(3 * C + 1, sizeof(double)), *dbs = dws + C, *gain = dbs + C;
    const double slack = 1e-6 + fabs(offset) * 3e-7; /* x − mean cannot be better than x's own rounding */
    for (size_t c = 0; c < C; c++) gain[c] = norm_gain(kind, bare, w[c]);
    for (size_t r = 0; r < rows; r++) {
        struct norm_case want = reference_norm(center, x + r * C, dy + r * C, gain, (double)eps, C);
        if (center) CHECK(near(mean[r], want.mean, 2e-7, 1e-3), "mean of %zu", C);
        CHECK(near(rstd[r], want.rstd, 1e-6 + slack * slack, 0), "rstd of %zu: %g, not %g", C, (double)rstd[r],
              want.rstd);
        for (size_t c = 0; c < C; c++) {
            const size_t i = r * C + c;
            double xhat = ((double)x[i] - want.mean) * want.rstd, scale = fmax(1, want.rstd) * (1 + fabs(xhat));
            CHECK(near(y[i], xhat * gain[c] + (bias ? (double)b[c] : 0), slack, 4 * scale), "norm %d of %zu at %zu: %g",
                  (int)kind, C, c, (double)y[i]);
            double d = want.rstd * ((double)dy[i] * gain[c] - want.g - xhat * want.gx);
            double size = want.rstd * (fabs((double)dy[i] * gain[c]) + want.sizes_g + fabs(xhat) * want.sizes_gx);
            CHECK(near(dx[i], d, slack, 4 * scale * size), "dx of norm %d of %zu at %zu: %g, not %g", (int)kind, C, c,
                  (double)dx[i], d);
            CHECK(sum[i] == sum0[i] + dx[i], "norm's dx accumulates");
            dws[c] += (double)dy[i] * xhat;
            dbs[c] += (double)dy[i];
        }
    }
    for (size_t c = 0; c < C; c++) {
        double scale = 40 * (double)rows;
        CHECK(near(dw[c], (double)dw0[c] + dws[c], slack, scale), "norm's dw of %zu at %zu", C, c);
        CHECK(near(db[c], (double)db0[c] + (center ? dbs[c] : 0), slack, scale), "norm's db of %zu at %zu", C, c);
    }
    free(dws);
    k->norm_forward(kind, x, NULL, NULL, x, weight, bias, eps, rows, C); /* in place */
    CHECK(same_bits(x, y, n), "norm in place");
    float *rowwise[] = {x, dy, y, dx, sum, sum0}, *wide[] = {w, b, dw, db, dw0, db0}, *few[] = {mean, rstd};
    for (size_t i = 0; i < 6; i++) guarded_free(rowwise[i], n, "norm");
    for (size_t i = 0; i < 6; i++) guarded_free(wide[i], C, "norm");
    for (size_t i = 0; i < 2; i++) guarded_free(few[i], rows, "norm");
}

/* A bare norm where the gain is exactly 1 gives the same bits. */
static void check_bare_norm(Table k, struct qkv_random *random, enum qkv_norm_kind kind, size_t rows, size_t C) {
    const size_t n = rows * C;
    float *x = random_floats(random, n, 1), *dy = random_floats(random, n, 1), *w = guarded_new(C);
    float *y[2], *dx[2], *mean = guarded_new(rows), *rstd = guarded_new(rows);
    for (size_t c = 0; c < C; c++) w[c] = norm_gain(kind, false, 0) == 1 ? 0 : 1;
    for (int bare = 0; bare < 2; bare++) {
        y[bare] = guarded_new(n);
        dx[bare] = guarded_new(n);
        k->norm_forward(kind, y[bare], mean, rstd, x, bare ? NULL : w, NULL, 1e-5f, rows, C);
        k->norm_backward(kind, dx[bare], false, NULL, NULL, dy, x, mean, rstd, bare ? NULL : w, rows, C);
    }
    CHECK(same_bits(y[0], y[1], n) && same_bits(dx[0], dx[1], n), "a bare norm %d of %zu", (int)kind, C);
    float *all[] = {x, dy, y[0], y[1], dx[0], dx[1]};
    for (size_t i = 0; i < 6; i++) guarded_free(all[i], n, "norm");
    guarded_free(w, C, "norm");
    guarded_free(mean, rows, "norm");
    guarded_free(rstd, rows, "norm");
}

static void check_norms(Table k, struct qkv_random *random) {
    for (int i = 0; i < QKV_NORM_COUNT; i++) {
        const enum qkv_norm_kind kind = (enum qkv_norm_kind)i;
        const bool center = qkv_norm_centered(kind);
        for (size_t s = 1; s < RAGGED_COUNT; s++) {
            check_norm_size(k, random, kind, s % 5 == 0, s % 7, ragged(s), center && s % 3 == 0 ? 100 : 0);
            check_bare_norm(k, random, kind, s % 7, ragged(s));
        }
        check_norm_size(k, random, kind, false, 1, 100003, center ? 10 : 0);
    }
}

/* ---- rotation --------------------------------------------------------------------------------------------------- */

static void check_rotate_size(Table k, struct qkv_random *random, size_t pairs, size_t heads, size_t extra,
                              bool inter) {
    const size_t D = 2 * pairs + extra, n = heads * D;
    float *x = random_floats(random, n, 1), *y = copied(x, n), *turn = guarded_new(2 * pairs);
    for (size_t i = 0; i < pairs; i++) {
        double angle = 3 * qkv_random_normal(random);
        turn[2 * i] = (float)cos(angle);
        turn[2 * i + 1] = (float)sin(angle);
    }
    k->rotate(y, heads, D, pairs, inter, turn, false);
    for (size_t h = 0; h < heads; h++) {
        for (size_t i = 0; i < pairs; i++) {
            const size_t first = h * D + (inter ? 2 * i : i), second = inter ? first + 1 : first + pairs;
            double a = (double)x[first], b = (double)x[second], c = (double)turn[2 * i], s = (double)turn[2 * i + 1];
            CHECK(near(y[first], a * c - b * s, 3e-7, 3) && near(y[second], b * c + a * s, 3e-7, 3),
                  "rotate %zu pairs, head %zu, pair %zu", pairs, h, i);
        }
        for (size_t i = 2 * pairs; i < D; i++) CHECK(y[h * D + i] == x[h * D + i], "rotate went too far");
    }
    k->rotate(y, heads, D, pairs, inter, turn, true);
    for (size_t i = 0; i < n; i++) CHECK(near(y[i], (double)x[i], 1e-6, 3), "rotate and back");
    guarded_free(x, n, "random");
    guarded_free(y, n, "rotate");
    guarded_free(turn, 2 * pairs, "random");
}

static void check_rotate(Table k, struct qkv_random *random) {
    for (size_t pairs = 0; pairs <= 67; pairs++)
        for (int inter = 0; inter < 2; inter++)
            check_rotate_size(k, random, pairs, 1 + pairs % 3, pairs % 5, inter != 0);
}

/* ---- clip ------------------------------------------------------------------------------------------------------- */

static void check_clip(Table k, struct qkv_random *random) {
    for (size_t s = 0; s < RAGGED_COUNT; s++) {
        const size_t n = ragged(s), bytes = (n + 7) / 8;
        float *x = random_floats(random, n, 1), *y, *only;
        uint8_t *inside = malloc(bytes + 1);
        const float limit = n > 1 ? fabsf(x[0]) : 0.7f; /* some number is at the limit itself */
        inside[bytes] = 0xa5;
        if (n > 2) x[n / 2] = NAN;
        y = copied(x, n), only = copied(x, n);
        k->clip(y, inside, limit, n);
        k->clip(only, NULL, limit, n);
        for (size_t i = 0; i < n; i++) {
            const bool within = x[i] >= -limit && x[i] <= limit;
            const float want = within ? x[i] : x[i] > limit ? limit : x[i] < -limit ? -limit : x[i];
            CHECK(!memcmp(&y[i], &want, sizeof want) && !memcmp(&only[i], &want, sizeof want), "clip of %a to %a",
                  (double)x[i], (double)limit);
            CHECK((inside[i / 8] >> i % 8 & 1) == within, "%a is inside of %a", (double)x[i], (double)limit);
        }
        CHECK(inside[bytes] == 0xa5, "clip writes past its %zu bytes", bytes);
        guarded_free(x, n, "random");
        guarded_free(y, n, "clip");
        guarded_free(only, n, "clip");
        free(inside);
    }
}

/* ---- dropout ---------------------------------------------------------------------------------------------------- */

static void check_dropout_range(Table k, struct qkv_random *random, uint64_t first, size_t n, float p) {
    const uint32_t key[2] = {(uint32_t)qkv_random_bits(random), (uint32_t)qkv_random_bits(random)};
    const size_t bytes = (n + 7) / 8;
    float *x = random_floats(random, n, 1), *y = guarded_new(n), *back = guarded_new(n), *sum = copied(x, n);
    uint8_t *bits = malloc(bytes + 1);
    memset(bits, 0xa5, bytes + 1);
    k->dropout(y, bits, x, p, key, first, n);
    CHECK(bits[bytes] == 0xa5, "dropout writes past its %zu bytes", bytes);
    uint8_t *exactly = malloc(bytes); /* where reading further is seen */
    memcpy(exactly, bits, bytes);
    k->dropout_backward(back, false, x, exactly, p, n);
    k->dropout_backward(sum, true, x, exactly, p, n);
    for (size_t i = 0; i < n; i++) {
        const uint64_t e = first + i;
        const uint32_t counter[2] = {(uint32_t)(e / 2), (uint32_t)(e / 2 >> 32)};
        uint32_t words[2];
        qkv_threefry(key, counter, words);
        bool kept = words[e % 2] >= (uint32_t)((double)p * 4294967296.0);
        float want = kept ? x[i] * (1.0f / (1.0f - p)) : 0.0f;
        CHECK(y[i] == want, "dropout of element %llu", (unsigned long long)e);
        CHECK((bits[i / 8] >> i % 8 & 1) == kept, "dropout's bit of element %llu", (unsigned long long)e);
        CHECK(back[i] == want, "dropout backward of element %llu", (unsigned long long)e);
        CHECK(sum[i] == x[i] + want, "dropout backward accumulates");
    }
    for (size_t i = n; i < 8 * bytes; i++) CHECK(!(bits[i / 8] >> i % 8 & 1), "a bit past the %zu elements", n);
    memcpy(sum, x, n * sizeof *x);
    k->dropout(sum, NULL, sum, p, key, first, n);
    CHECK(same_bits(sum, y, n), "dropout in place without bits");
    k->dropout_backward(x, false, x, exactly, p, n);
    CHECK(same_bits(x, back, n), "dropout backward in place");
    guarded_free(x, n, "random");
    guarded_free(y, n, "dropout");
    guarded_free(back, n, "dropout backward");
    guarded_free(sum, n, "dropout backward");
    free(bits);
    free(exactly);
}

static void check_dropout(Table k, struct qkv_random *random) {
    static const uint64_t starts[] = {0, 1, 6, 0xfffffffffull, 8589934591ull, 8589934592ull - 10, 0x1fffffff7ull};
    for (size_t n = 0; n <= 67; n++)
        for (size_t i = 0; i < 7; i++) check_dropout_range(k, random, starts[i], n, n % 2 ? 0.1f : 0.5f);
    for (uint64_t odd = 0; odd < 2; odd++) {
        const uint64_t even = (qkv_random_bits(random) >> 8) * 2;
        check_dropout_range(k, random, even + odd, 1000, 0.0f);
        check_dropout_range(k, random, even + odd, between(random, 500, 1000), 0.3f);
    }
    const uint32_t key[2] = {1, 2};
    float x[5] = {1, INFINITY, NAN, -1, 2}, y[5];
    uint8_t bits;
    k->dropout(y, &bits, x, 1.0f, key, 0, 5);
    for (int i = 0; i < 5; i++) CHECK(y[i] == 0, "dropout of everything");
    k->dropout_backward(y, false, x, &bits, 1.0f, 5);
    for (int i = 0; i < 5; i++) CHECK(y[i] == 0, "dropout backward of everything");
}

/* ---- softmax ---------------------------------------------------------------------------------------------------- */

static void check_softmax(Table k, struct qkv_random *random) {
    for (size_t s = 1; s < RAGGED_COUNT; s++) {
        const size_t n = ragged(s);
        float *x = random_floats(random, n, s % 2 ? 1 : 30), *y = guarded_new(n);
        if (s % 3 == 0) x[s % n] = -INFINITY;
        for (size_t i = 0; s % 4 == 0 && i < n; i++) x[i] += 1000;
        double largest = -INFINITY, sum = 0;
        for (size_t i = 0; i < n; i++) largest = fmax(largest, (double)x[i]);
        for (size_t i = 0; i < n; i++) sum += largest > -INFINITY ? exp((double)x[i] - largest) : 0;
        double lse = largest + log(sum);
        float got = k->log_sum_exp(x, n);
        CHECK(near(got, lse, 2e-7, 1), "log_sum_exp of %zu: %g, not %g", n, (double)got, lse);
        if (isfinite(got)) {
            float *less = guarded_new(n);
            k->softmax_scaled(y, x, got, 0.25f, 0, n);
            k->softmax_scaled(less, x, got, 0.25f, 0.03f, n);
            for (size_t i = 0; i < n; i++) {
                double want = 0.25 * exp((double)x[i] - (double)got);
                CHECK(near(y[i], want, 3e-7 + 6e-8 * fabs((double)x[i] - (double)got), 1e-37),
                      "softmax of %zu at %zu: %g, not %g", n, i, (double)y[i], want);
                CHECK(less[i] == y[i] - 0.03f, "softmax of %zu at %zu, less a number", n, i);
            }
            guarded_free(less, n, "softmax");
        } else {
            CHECK(n == 1, "log_sum_exp is not finite");
        }
        for (size_t i = 0; i < n; i++) y[i] = -INFINITY;
        CHECK(k->log_sum_exp(y, n) == -INFINITY, "log_sum_exp of nothing");
        y[n / 2] = INFINITY;
        CHECK(k->log_sum_exp(y, n) == INFINITY, "log_sum_exp of infinity");
        y[n - 1] = NAN;
        CHECK(isnan(k->log_sum_exp(y, n)), "log_sum_exp hides NaN");
        x[n - 1] = NAN;
        CHECK(isnan(k->log_sum_exp(x, n)), "log_sum_exp hides NaN");
        guarded_free(x, n, "random");
        guarded_free(y, n, "softmax");
    }
}

/* ---- optimizers ------------------------------------------------------------------------------------------------- */

static void check_moments_of_matrices(Table k, struct qkv_random *random) {
    const double gscale = 0.7f, rate = 0.01f, momentum = 0.9f, decay = 0.1f;
    for (size_t s = 0; s < RAGGED_COUNT; s++) {
        const size_t n = ragged(s);
        float *w = random_floats(random, n, 1), *m = random_floats(random, n, 1), *dw = random_floats(random, n, 1);
        float *w0 = copied(w, n), *m0 = copied(m, n), *dw0 = copied(dw, n), *dw1 = copied(dw, n);
        k->momentum(m, dw, 0.7f, 0.9f, n);
        k->descend(w, dw1, 0.7f, 0.01f, 0.1f, n);
        for (size_t i = 0; i < n; i++) {
            const double g = gscale * (double)dw0[i], moment = momentum * (double)m0[i] + (1 - momentum) * g;
            CHECK(near(m[i], moment, 1e-6, 1), "moment of momentum");
            CHECK(near(dw[i], momentum * moment + (1 - momentum) * g, 1e-6, 1), "momentum");
            CHECK(near(w[i], (double)w0[i] - rate * (g + decay * (double)w0[i]), 1e-6, 1), "descend");
            CHECK(dw1[i] == 0, "the gradient is not cleared");
        }
        float *all[] = {w, m, dw, w0, m0, dw0, dw1};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) guarded_free(all[i], n, "optimizer");
    }
}

static void check_optimizers(Table k, struct qkv_random *random) {
    check_moments_of_matrices(k, random);
    const float gscale = 0.7f, rate = 0.01f, beta1 = 0.9f, beta2 = 0.98f, eps = 1e-6f, decay = 0.1f, c1 = 0.3f,
                c2 = 0.2f;
    for (size_t s = 0; s < 2 * RAGGED_COUNT; s++) {
        const size_t n = ragged(s / 2);
        const bool coupled = s % 2 != 0;
        float *w = random_floats(random, n, 1), *m = random_floats(random, n, 1), *v = random_floats(random, n, 1);
        float *dw = random_floats(random, n, 1);
        for (size_t i = 0; i < n; i++) v[i] = fabsf(v[i]);
        float *w0 = copied(w, n), *m0 = copied(m, n), *v0 = copied(v, n), *w1 = copied(w, n), *m1 = copied(m, n);
        float *w2 = copied(w, n), *m2 = copied(m, n);
        float *cleared = copied(dw, n), *cleared1 = copied(dw, n), *cleared2 = copied(dw, n);
        k->adamw(w, m, v, cleared, gscale, rate, beta1, beta2, eps, decay, c1, c2, coupled, n);
        k->sgd(w1, m1, cleared1, gscale, rate, beta1, decay, n);
        k->lion(w2, m2, cleared2, gscale, rate, beta1, beta2, decay, n);
        for (size_t i = 0; i < n; i++) {
            double x = (double)w0[i], raw = (double)gscale * (double)dw[i], g = raw + (coupled ? (double)decay * x : 0);
            double first = (double)beta1 * (double)m0[i] + (1 - (double)beta1) * g;
            double second = (double)beta2 * (double)v0[i] + (1 - (double)beta2) * g * g;
            double step = first / (double)c1 / (sqrt(second / (double)c2) + (double)eps);
            CHECK(near(m[i], first, 1e-6, 1) && near(v[i], second, 1e-6, 1), "moments of adam");
            CHECK(near(w[i], x - (double)rate * (step + (coupled ? 0 : (double)decay * x)), 1e-6, 1), "adam");
            double moment = (double)beta1 * (double)m0[i] + raw + (double)decay * x;
            CHECK(near(m1[i], moment, 1e-6, 1) && near(w1[i], x - (double)rate * moment, 1e-6, 1), "sgd");
            const double direction = (double)beta1 * (double)m0[i] + (1 - (double)beta1) * raw;
            const double sign = direction > 0 ? 1 : -1;
            CHECK(near(m2[i], (double)beta2 * (double)m0[i] + (1 - (double)beta2) * raw, 1e-6, 1), "moment of lion");
            CHECK(fabs(direction) < 1e-6 || near(w2[i], x - (double)rate * (sign + (double)decay * x), 1e-6, 1),
                  "lion");
            CHECK(cleared[i] == 0 && cleared1[i] == 0 && cleared2[i] == 0, "the gradient is not cleared");
        }
        float *all[] = {w, m, v, dw, w0, m0, v0, w1, m1, w2, m2, cleared, cleared1, cleared2};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) guarded_free(all[i], n, "optimizer");
    }
}

#endif
