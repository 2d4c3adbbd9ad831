/* attention_module_formula.h: an attention module and all its gradients by definition, in double precision:
 * projections, norms of queries and keys, clipping, rotation and factors of positions around attention_formula.h. The
 * library provides only names, shapes and numbers of the parameters. */
#ifndef QKV_ATTENTION_MODULE_FORMULA_H
#define QKV_ATTENTION_MODULE_FORMULA_H

#include "attention_formula.h"

struct module_formula {
    const struct qkv_attention_module_spec *spec;
    struct qkv_module *module;
    struct formula f;             /* its masks, attention_bias and keep are filled in between start and run */
    const float *x, *memory, *dy; /* memory is x in self attention */
    double *y, *dx, *dmemory;     /* out; dmemory is dx in self attention */
    double *gradients[12];        /* out: by parameter */
};

static inline size_t module_find(struct qkv_module *module, const char *name) {
    for (size_t i = 0; i < qkv_module_parameters(module); i++)
        if (!strcmp(qkv_module_parameter(module, i)->name, name)) return i;
    return SIZE_MAX;
}

/* The numbers of a parameter. */
static inline const float *module_numbers(const struct qkv_module *module, size_t i) {
    return qkv_module_parameter(module, i)->data;
}

/* A projection: its parameter's index (or SIZE_MAX), of "q.weight" for part "q" and what "weight". */
static inline size_t module_part(struct qkv_module *module, char part, const char *what) {
    char name[16];
    snprintf(name, sizeof name, "%c.%s", part, what);
    return module_find(module, name);
}

/* Number c of a projected row; x is one row. */
static inline double module_project(struct qkv_module *module, char part, const float *x, size_t in, size_t c) {
    size_t weight = module_part(module, part, "weight"), bias = module_part(module, part, "bias");
    const float *w = module_numbers(module, weight) + c * in;
    double sum = bias == SIZE_MAX ? 0 : (double)module_numbers(module, bias)[c];
    for (size_t k = 0; k < in; k++) sum += (double)w[k] * (double)x[k];
    return sum;
}

/* Clamped to ±limit; 0: not at all. */
static inline double module_clip(double x, double limit) {
    return limit > 0 && fabs(x) > limit ? (x < 0 ? -limit : limit) : x;
}

/* The gradients of one number of a projected row, from g. */
static inline void module_project_back(struct module_formula *l, char part, const double *x, size_t in, size_t c,
                                       double g, double *dx) {
    size_t weight = module_part(l->module, part, "weight"), bias = module_part(l->module, part, "bias");
    const float *w = module_numbers(l->module, weight) + c * in;
    if (bias != SIZE_MAX) l->gradients[bias][c] += g;
    for (size_t k = 0; k < in; k++) {
        l->gradients[weight][c * in + k] += g * x[k];
        dx[k] += g * (double)w[k];
    }
}

/* (B,T,heads,D) element in the formula's (B,heads,T,D). */
static inline size_t module_place(size_t b, size_t t, size_t h, size_t d, size_t T, size_t H, size_t D) {
    return ((b * H + h) * T + t) * D + d;
}

static inline void module_rotate(const struct qkv_attention_module_spec *s, double *head, size_t t, double sign) {
    size_t pairs = (size_t)(s->attention.head_dim * s->attention.position.fraction / 2);
    for (size_t p = 0; s->attention.position.kind == QKV_POSITION_ROPE && p < pairs; p++) {
        bool half = s->attention.position.pairing == QKV_PAIRING_HALF;
        size_t i = half ? p : 2 * p, j = half ? p + pairs : 2 * p + 1;
        double angle = sign * (double)t * pow(s->attention.position.theta, -2.0 * (double)p / (2.0 * (double)pairs));
        double a = head[i], b = head[j];
        head[i] = a * cos(angle) - b * sin(angle);
        head[j] = a * sin(angle) + b * cos(angle);
    }
}

static inline void module_formula_start(struct module_formula *l, size_t B, size_t Tq, size_t Tk) {
    const struct qkv_attention_module_spec *s = l->spec;
    const struct qkv_attention_spec *a = &s->attention;
    l->f = (struct formula){.B = B,
                            .Tq = Tq,
                            .Tk = Tk,
                            .H = (size_t)a->heads,
                            .Hkv = (size_t)a->kv_heads,
                            .D = (size_t)a->head_dim,
                            .Dv = (size_t)a->value_dim,
                            .softcap = a->softcap,
                            .scale = a->scale > 0 ? a->scale : 1 / sqrt((double)a->head_dim)};
    formula_start(&l->f);
    l->y = formula_doubles(B * Tq * (size_t)s->out);
    l->dx = formula_doubles(B * Tq * (size_t)s->in);
    l->dmemory = s->cross ? formula_doubles(B * Tk * (size_t)s->kv_in) : l->dx;
    for (size_t i = 0; i < qkv_module_parameters(l->module); i++)
        l->gradients[i] = formula_doubles(qkv_array_elements(qkv_module_parameter(l->module, i)));
}

static inline void module_formula_free(struct module_formula *l) {
    if (l->dmemory != l->dx) free(l->dmemory);
    free(l->dx);
    free(l->y);
    for (size_t i = 0; i < 12; i++) free(l->gradients[i]);
    formula_free(&l->f);
}

/* A row of heads: projected, normalised, clipped, rotated, normalised if that comes after the rotation, and scaled by
 * its position. Stored are what is clipped, what is normalised, xhat and rstd of each number, and the result. `w` and
 * `b` (may be NULL): weight and bias of the norm of part q or k. */
struct module_row {
    double *unclipped, *x, *xhat, *rstd, *y;
    const float *w, *b;
    double *dw, *db;
    size_t D, width; /* of what is normed together; of the whole row */
    bool own;        /* each head has its own numbers of w */
};

static inline bool module_is_normed(const struct module_formula *l, char part) {
    return part != 'v' && l->spec->attention.qk_norm.norm.given;
}

/* Whether the norm of a part stands before, or after, the rotation. */
static inline bool module_norm_stands(const struct module_formula *l, char part, bool after) {
    return module_is_normed(l, part) && l->spec->attention.qk_norm.after_rotation == after;
}

/* A parameter of the norm of a part; its gradient too. NULL without one. */
static inline const float *module_norm_parameter(struct module_formula *l, char part, const char *what, double **d) {
    char name[24];
    snprintf(name, sizeof name, "%c_norm.%s", part, what);
    const size_t i = module_find(l->module, name);
    if (i != SIZE_MAX) *d = l->gradients[i];
    return i == SIZE_MAX ? NULL : module_numbers(l->module, i);
}

static inline struct module_row module_row_start(struct module_formula *l, char part, size_t H, size_t D) {
    const struct qkv_qk_norm_spec *norm = &l->spec->attention.qk_norm;
    struct module_row row = {
        .D = norm->over == QKV_NORM_OVER_WIDTH ? H * D : D, .width = H * D, .own = norm->over != QKV_NORM_OVER_HEAD};
    double **const all[] = {&row.unclipped, &row.x, &row.xhat, &row.rstd, &row.y};
    for (size_t i = 0; i < 5; i++) *all[i] = formula_doubles(H * D);
    if (!module_is_normed(l, part)) return row;
    row.w = module_norm_parameter(l, part, "weight", &row.dw);
    row.b = module_norm_parameter(l, part, "bias", &row.db);
    return row;
}

static inline void module_row_free(struct module_row *row) {
    double *const all[] = {row->unclipped, row->x, row->xhat, row->rstd, row->y};
    for (size_t i = 0; i < 5; i++) free(all[i]);
}

/* The factor of number i of a row. */
static inline double module_row_factor(const struct module_formula *l, const struct module_row *row, size_t i) {
    const double one = qkv_norm_plus_one(l->spec->attention.qk_norm.norm.kind) ? 1 : 0;
    return row->w ? one + (double)row->w[row->own ? i : i % row->D] : 1;
}

/* The norm of y, in place. */
static inline void module_row_norm(const struct module_formula *l, struct module_row *row) {
    const struct qkv_norm_spec *norm = &l->spec->attention.qk_norm.norm;
    for (size_t i = 0; i < row->width; i++) row->x[i] = row->y[i];
    for (size_t first = 0; first < row->width; first += row->D) {
        double mean = 0, squares = 0;
        for (size_t i = first; i < first + row->D; i++) mean += row->x[i] / (double)row->D;
        if (!qkv_norm_centered(norm->kind)) mean = 0;
        for (size_t i = first; i < first + row->D; i++)
            squares += (row->x[i] - mean) * (row->x[i] - mean) / (double)row->D;
        for (size_t i = first; i < first + row->D; i++) {
            row->rstd[i] = 1 / sqrt(squares + norm->eps);
            row->xhat[i] = (row->x[i] - mean) * row->rstd[i];
            row->y[i] =
                row->xhat[i] * module_row_factor(l, row, i) + (row->b ? (double)row->b[row->own ? i : i % row->D] : 0);
        }
    }
}

/* Turns g, the gradient of the normed row, into that of what is normed. */
static inline void module_row_norm_back(const struct module_formula *l, struct module_row *row, double *g) {
    for (size_t first = 0; first < row->width; first += row->D) {
        double mean = 0, along = 0;
        for (size_t i = first; i < first + row->D; i++) {
            const size_t at = row->own ? i : i % row->D;
            if (row->dw) row->dw[at] += g[i] * row->xhat[i];
            if (row->db) row->db[at] += g[i];
            g[i] *= module_row_factor(l, row, i);
            mean += g[i] / (double)row->D;
            along += g[i] * row->xhat[i] / (double)row->D;
        }
        if (!qkv_norm_centered(l->spec->attention.qk_norm.norm.kind)) mean = 0;
        for (size_t i = first; i < first + row->D; i++) g[i] = row->rstd[i] * (g[i] - mean - row->xhat[i] * along);
    }
}

/* The factor of queries at position t: 1 + beta·ln(1 + floor((t + offset) / length)). */
static inline double module_temperature(const struct module_formula *l, char part, size_t t) {
    const struct qkv_temperature_spec *rule = &l->spec->attention.temperature;
    if (part != 'q' || !rule->given) return 1;
    return 1 + rule->beta * log(1 + floor((double)(t + (size_t)rule->offset) / rule->length));
}

/* The row of position t, with heads of D numbers. */
static inline void module_row_run(struct module_formula *l, char part, const float *x, size_t in, size_t t, size_t D,
                                  struct module_row *row) {
    for (size_t i = 0; i < row->width; i++) row->y[i] = module_project(l->module, part, x, in, i);
    if (module_norm_stands(l, part, false)) module_row_norm(l, row);
    for (size_t i = 0; i < row->width; i++) {
        row->unclipped[i] = row->y[i];
        row->y[i] = module_clip(row->y[i], l->spec->attention.clip);
    }
    for (size_t i = 0; part != 'v' && i < row->width; i += D) module_rotate(l->spec, row->y + i, t, 1);
    if (module_norm_stands(l, part, true)) module_row_norm(l, row);
    for (size_t i = 0; i < row->width; i++) row->y[i] *= module_temperature(l, part, t);
}

/* Turns g, the gradient of the row, into that of the projected one. */
static inline void module_row_back(struct module_formula *l, char part, size_t t, size_t D, struct module_row *row,
                                   double *g) {
    for (size_t i = 0; i < row->width; i++) g[i] *= module_temperature(l, part, t);
    if (module_norm_stands(l, part, true)) module_row_norm_back(l, row, g);
    for (size_t i = 0; part != 'v' && i < row->width; i += D) module_rotate(l->spec, g + i, t, -1);
    for (size_t i = 0; i < row->width; i++)
        if (module_clip(row->unclipped[i], l->spec->attention.clip) != row->unclipped[i]) g[i] = 0;
    if (module_norm_stands(l, part, false)) module_row_norm_back(l, row, g);
}

/* All heads of one projection. */
static inline void module_heads(struct module_formula *l, char part, const float *x, size_t in, size_t T, size_t H,
                                size_t D, double *out) {
    struct module_row row = module_row_start(l, part, H, D);
    for (size_t n = 0; n < l->f.B * T; n++) {
        module_row_run(l, part, x + n * in, in, n % T, D, &row);
        for (size_t i = 0; i < H * D; i++) out[module_place(n / T, n % T, i / D, i % D, T, H, D)] = row.y[i];
    }
    module_row_free(&row);
}

static inline void module_heads_back(struct module_formula *l, char part, const float *x, size_t in, size_t T, size_t H,
                                     size_t D, const double *dheads, double *dx) {
    struct module_row heads = module_row_start(l, part, H, D);
    double *row = formula_doubles(in), *g = formula_doubles(H * D);
    for (size_t n = 0; n < l->f.B * T; n++) {
        for (size_t k = 0; k < in; k++) row[k] = (double)x[n * in + k];
        module_row_run(l, part, x + n * in, in, n % T, D, &heads);
        for (size_t i = 0; i < H * D; i++) g[i] = dheads[module_place(n / T, n % T, i / D, i % D, T, H, D)];
        module_row_back(l, part, n % T, D, &heads, g);
        for (size_t i = 0; i < H * D; i++) module_project_back(l, part, row, in, i, g[i], dx + n * in);
    }
    module_row_free(&heads);
    free(row);
    free(g);
}

/* The output projection of the heads (B,H,T,Dv), or with `back` the gradient of all it depends on. */
static inline void module_output(struct module_formula *l, bool back) {
    struct formula *f = &l->f;
    size_t in = f->H * f->Dv, out = (size_t)l->spec->out;
    size_t weight = module_find(l->module, "o.weight"), bias = module_find(l->module, "o.bias");
    const float *w = module_numbers(l->module, weight);
    for (size_t n = 0; n < f->B * f->Tq; n++)
        for (size_t c = 0; c < out; c++) {
            double g = (double)l->dy[n * out + c], sum = 0;
            for (size_t k = 0; k < in; k++) {
                size_t at = module_place(n / f->Tq, n % f->Tq, k / f->Dv, k % f->Dv, f->Tq, f->H, f->Dv);
                sum += (double)w[c * in + k] * f->y[at];
                if (back) l->gradients[weight][c * in + k] += g * f->y[at];
                if (!back) f->dy[at] += g * (double)w[c * in + k];
            }
            if (back && bias != SIZE_MAX) l->gradients[bias][c] += g;
            if (back) l->y[n * out + c] = sum + (bias == SIZE_MAX ? 0 : (double)module_numbers(l->module, bias)[c]);
        }
}

static inline void module_formula_run(struct module_formula *l) {
    const struct qkv_attention_module_spec *s = l->spec;
    struct formula *f = &l->f;
    size_t in = (size_t)s->in, kv_in = (size_t)s->kv_in;
    module_heads(l, 'q', l->x, in, f->Tq, f->H, f->D, f->q);
    module_heads(l, 'k', l->memory, kv_in, f->Tk, f->Hkv, f->D, f->k);
    module_heads(l, 'v', l->memory, kv_in, f->Tk, f->Hkv, f->Dv, f->v);
    module_output(l, false); /* dy of the heads; their y is still 0 */
    formula_run(f);
    module_output(l, true);
    module_heads_back(l, 'q', l->x, in, f->Tq, f->H, f->D, f->dq, l->dx);
    module_heads_back(l, 'k', l->memory, kv_in, f->Tk, f->Hkv, f->D, f->dk, l->dmemory);
    module_heads_back(l, 'v', l->memory, kv_in, f->Tk, f->Hkv, f->Dv, f->dv, l->dmemory);
}

#endif
