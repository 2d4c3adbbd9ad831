/* Scalings of rotations (QKV_SCALING_LIST; formulas at struct qkv_scaling_spec in qkv/spec.h): the angle of each pair
 * for one position, and the factor of cosines and sines. All in double; tables are rounded to float once.
 *
 * Chen et al. 2023 (position interpolation), Peng et al. 2023 (YaRN, with NTK-aware and dynamic scaling in its section
 * 3), Ding et al. 2024 (LongRoPE), and Llama 3.1's rule, as in modeling_rope_utils.py of Hugging Face transformers. */
#include "attention/attention.h"
#include "base/math.h"

#define PI 3.14159265358979323846

struct qkv_scaling_spec qkv_scaling_defaults(enum qkv_scaling_kind kind) {
    return (struct qkv_scaling_spec){
        .given = true, .kind = kind, .beta_fast = 32, .beta_slow = 1, .truncate = true, .low_freq = 1, .high_freq = 4};
}

size_t qkv_rotation_pairs(const struct qkv_position_spec *p, int width) {
    return (size_t)(width * p->fraction / 2);
}

bool qkv_scaling_by_length(const struct qkv_position_spec *p) {
#define SCALING_BY_LENGTH(name, text, help, by_length) by_length,
    static const bool by_length[] = {QKV_SCALING_LIST(SCALING_BY_LENGTH)};
    return p->kind == QKV_POSITION_ROPE && p->scaling.given && by_length[p->scaling.kind];
}

static bool scaling_same_list(const struct qkv_number_list *a, const struct qkv_number_list *b) {
    bool same = a->count == b->count;
    for (int i = 0; i < a->count && same; i++) same = a->values[i] == b->values[i];
    return same;
}

bool qkv_scaling_same(const struct qkv_scaling_spec *a, const struct qkv_scaling_spec *b) {
    if (!a->given || !b->given) return a->given == b->given;
    return a->kind == b->kind && a->factor == b->factor && a->original_context == b->original_context &&
           a->beta_fast == b->beta_fast && a->beta_slow == b->beta_slow && a->truncate == b->truncate &&
           a->mscale == b->mscale && a->mscale_all_dim == b->mscale_all_dim && a->low_freq == b->low_freq &&
           a->high_freq == b->high_freq && a->attention_factor == b->attention_factor &&
           scaling_same_list(&a->short_factors, &b->short_factors) &&
           scaling_same_list(&a->long_factors, &b->long_factors);
}

/* ---- angles of pairs ------------------------------------------------------------------------------------------- */

/* theta·growth^(d/(d − 2)). */
static double scaling_base(const struct qkv_position_spec *p, double growth, size_t pairs) {
    return p->theta * qkv_pow(growth, (double)pairs / ((double)pairs - 1));
}

/* The beginning or end of yarn's ramp: the pair, as a real number, that makes `beta` full rotations within the original
 * context. */
static double scaling_yarn_end(const struct qkv_position_spec *p, double beta, size_t pairs) {
    const double d = 2 * (double)pairs;
    return d * qkv_log(p->scaling.original_context / (beta * 2 * PI)) / (2 * qkv_log(p->theta));
}

static double scaling_yarn(const struct qkv_position_spec *p, double f, size_t j, size_t pairs) {
    const struct qkv_scaling_spec *s = &p->scaling;
    double low = scaling_yarn_end(p, s->beta_fast, pairs), high = scaling_yarn_end(p, s->beta_slow, pairs);
    if (s->truncate) low = qkv_floor(low), high = qkv_ceil(high);
    low = qkv_fmax(low, 0);
    high = qkv_fmin(high, 2 * (double)pairs - 1);
    if (low == high) high += 0.001;
    const double ramp = qkv_fmin(qkv_fmax(((double)j - low) / (high - low), 0), 1);
    return f / s->factor * ramp + f * (1 - ramp);
}

static double scaling_llama3(const struct qkv_scaling_spec *s, double f) {
    const double wavelength = 2 * PI / f, original = s->original_context;
    if (wavelength > original / s->low_freq) return f / s->factor;
    if (wavelength < original / s->high_freq) return f;
    const double share = (original / wavelength - s->low_freq) / (s->high_freq - s->low_freq);
    return (1 - share) * f / s->factor + share * f;
}

double qkv_rotation_base(const struct qkv_position_spec *p, size_t length, size_t pairs) {
    const struct qkv_scaling_spec *s = &p->scaling;
    const double original = s->original_context;
    if (!s->given) return p->theta;
    if (s->kind == QKV_SCALING_NTK) return scaling_base(p, s->factor, pairs);
    if (s->kind != QKV_SCALING_DYNAMIC || (double)length <= original) return p->theta;
    return scaling_base(p, s->factor * (double)length / original - (s->factor - 1), pairs);
}

void qkv_rotation_frequencies(const struct qkv_position_spec *p, size_t length, size_t pairs, double *frequencies) {
    const struct qkv_scaling_spec *s = &p->scaling;
    const bool longer = length > (size_t)s->original_context;
    const double base = qkv_rotation_base(p, length, pairs);
    for (size_t j = 0; j < pairs; j++) {
        const double f = qkv_pow(base, -(double)j / (double)pairs);
        switch (s->given ? s->kind : QKV_SCALING_COUNT) {
        case QKV_SCALING_LINEAR:
            frequencies[j] = f / s->factor;
            break;
        case QKV_SCALING_YARN:
            frequencies[j] = scaling_yarn(p, f, j, pairs);
            break;
        case QKV_SCALING_LLAMA3:
            frequencies[j] = scaling_llama3(s, f);
            break;
        case QKV_SCALING_LONGROPE:
            frequencies[j] = f / (longer ? s->long_factors.values[j] : s->short_factors.values[j]);
            break;
        default: /* of NTK and DYNAMIC the base has the scaling */
            frequencies[j] = f;
        }
    }
}

static double scaling_mscale(double factor, double k) {
    return factor > 1 ? 0.1 * k * qkv_log(factor) + 1 : 1;
}

double qkv_rotation_factor(const struct qkv_position_spec *p, size_t context) {
    const struct qkv_scaling_spec *s = &p->scaling;
    if (!s->given) return 1;
    if (s->attention_factor != 0) return s->attention_factor;
    const double factor = s->factor != 0 ? s->factor : (double)context / s->original_context;
    if (s->kind == QKV_SCALING_LONGROPE)
        return factor > 1 ? sqrt(1 + qkv_log(factor) / qkv_log(s->original_context)) : 1;
    if (s->kind != QKV_SCALING_YARN) return 1;
    if (s->mscale == 0 || s->mscale_all_dim == 0) return scaling_mscale(factor, 1);
    return scaling_mscale(factor, s->mscale) / scaling_mscale(factor, s->mscale_all_dim);
}

/* ---- checks ---------------------------------------------------------------------------------------------------- */

/* The subject of a message: its `name`, and the keys of the scaling. */
struct scaling_checker {
    struct qkv_context *ctx;
    const char *name, *where, *kind;
    const struct qkv_position_spec *position;
    size_t pairs;
};

static enum qkv_status scaling_check_list(const struct scaling_checker *c, const char *key,
                                          const struct qkv_number_list *list) {
    char shown[QKV_REAL_TEXT];
    if (c->pairs > QKV_LIST_MAX)
        return qkv_fail(c->ctx, QKV_SPEC,
                        "%s: %sposition.scaling.kind is longrope, which has at most %d pairs of channels, but %zu are "
                        "rotated (choose another kind, or a smaller position.fraction)",
                        c->name, c->where, QKV_LIST_MAX, c->pairs);
    if (list->count < 0 || (size_t)list->count != c->pairs)
        return qkv_fail(c->ctx, QKV_SPEC,
                        "%s: %sposition.scaling.%s has %d numbers; it must have %zu, one for each pair of the %zu "
                        "rotated channels",
                        c->name, c->where, key, list->count, c->pairs, 2 * c->pairs);
    for (int i = 0; i < list->count; i++)
        if (!((float)list->values[i] > 0) || !isfinite((float)list->values[i]))
            return qkv_fail(c->ctx, QKV_SPEC, "%s: %sposition.scaling.%s[%d] is %s; it must be a number greater than 0",
                            c->name, c->where, key, i, qkv_real_text(shown, list->values[i]));
    return QKV_OK;
}

static enum qkv_status scaling_check_longrope(const struct scaling_checker *c) {
    const struct qkv_scaling_spec *s = &c->position->scaling;
    enum qkv_status status = scaling_check_list(c, "short", &s->short_factors);
    return status ? status : scaling_check_list(c, "long", &s->long_factors);
}

static enum qkv_status scaling_check_order(const struct scaling_checker *c, const char *low_key, double low,
                                           const char *high_key, double high) {
    char shown[2][QKV_REAL_TEXT];
    if (low < high) return QKV_OK;
    return qkv_fail(c->ctx, QKV_SPEC, "%s: %sposition.scaling.%s is %s, but %s is %s; %s must be greater", c->name,
                    c->where, high_key, qkv_real_text(shown[0], high), low_key, qkv_real_text(shown[1], low), high_key);
}

/* Checks the two kinds with a power d/(d − 2), and yarn, which takes a logarithm of theta. */
static enum qkv_status scaling_check_rotation(const struct scaling_checker *c) {
    const enum qkv_scaling_kind kind = c->position->scaling.kind;
    char shown[QKV_REAL_TEXT];
    if ((kind == QKV_SCALING_NTK || kind == QKV_SCALING_DYNAMIC) && c->pairs < 2)
        return qkv_fail(c->ctx, QKV_SPEC,
                        "%s: %sposition.scaling.kind is %s, which needs at least 4 rotated channels, but there are %zu "
                        "(choose linear, or a larger position.fraction)",
                        c->name, c->where, c->kind, 2 * c->pairs);
    if (kind == QKV_SCALING_YARN && c->position->theta <= 1)
        return qkv_fail(c->ctx, QKV_SPEC,
                        "%s: %sposition.theta is %s, but a scaling of kind yarn needs one greater than 1", c->name,
                        c->where, qkv_real_text(shown, c->position->theta));
    return QKV_OK;
}

/* Checks the numbers that each kind needs. */
static enum qkv_status scaling_check_numbers(const struct scaling_checker *c) {
    const struct qkv_scaling_spec *s = &c->position->scaling;
    const bool listed = s->kind == QKV_SCALING_LONGROPE, yarn = s->kind == QKV_SCALING_YARN;
    const bool llama3 = s->kind == QKV_SCALING_LLAMA3, original = yarn || llama3 || qkv_scaling_by_length(c->position);
    const struct {
        const char *key;
        double value;
        bool asked, fine;
        const char *range;
    } numbers[] = {
        {"factor", s->factor, !listed || s->factor != 0, (float)s->factor >= 1,
         listed ? "a number of at least 1, or null for context / original_context" : "a number of at least 1"},
        {"original_context", s->original_context, original, s->original_context >= (listed ? 2 : 1),
         listed ? "a whole number of at least 2: the positions that were learnt"
                : "a whole number of at least 1: the positions that were learnt"},
        {"beta_fast", s->beta_fast, yarn, (float)s->beta_fast > 0, "a number greater than 0"},
        {"beta_slow", s->beta_slow, yarn, (float)s->beta_slow > 0, "a number greater than 0"},
        {"mscale", s->mscale, yarn, s->mscale >= 0, "a number of at least 0"},
        {"mscale_all_dim", s->mscale_all_dim, yarn, s->mscale_all_dim >= 0, "a number of at least 0"},
        {"low_freq", s->low_freq, llama3, (float)s->low_freq > 0, "a number greater than 0"},
        {"high_freq", s->high_freq, llama3, (float)s->high_freq > 0, "a number greater than 0"},
        {"attention_factor", s->attention_factor, s->attention_factor != 0, (float)s->attention_factor > 0,
         "a number greater than 0, or null for the kind's own"},
    };
    char shown[QKV_REAL_TEXT];
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (!numbers[i].asked || (numbers[i].fine && isfinite((float)numbers[i].value))) continue;
        if (numbers[i].value == 0 && i < 2)
            return qkv_fail(c->ctx, QKV_SPEC, "%s: %sposition.scaling.%s is missing; kind %s needs it, %s", c->name,
                            c->where, numbers[i].key, c->kind, numbers[i].range);
        return qkv_fail(c->ctx, QKV_SPEC, "%s: %sposition.scaling.%s is %s; it must be %s", c->name, c->where,
                        numbers[i].key, qkv_real_text(shown, numbers[i].value), numbers[i].range);
    }
    return QKV_OK;
}

const char *qkv_scaling_name(enum qkv_scaling_kind kind) {
#define SCALING_NAME(name, text, help, by_length) text,
    static const char *const names[] = {QKV_SCALING_LIST(SCALING_NAME)};
    return (size_t)kind < QKV_SCALING_COUNT ? names[kind] : "";
}

enum qkv_status qkv_scaling_check(struct qkv_context *ctx, const char *name, const char *where,
                                  const struct qkv_position_spec *position, size_t pairs) {
    const struct qkv_scaling_spec *s = &position->scaling;
    if (!s->given) return QKV_OK;
    if ((size_t)s->kind >= QKV_SCALING_COUNT)
        return qkv_fail(ctx, QKV_SPEC, "%s: %sposition.scaling.kind is %d; it must be one of enum qkv_scaling_kind",
                        name, where, (int)s->kind);
    const struct scaling_checker c = {ctx, name, where, qkv_scaling_name(s->kind), position, pairs};
    enum qkv_status status = scaling_check_numbers(&c);
    if (!status) status = scaling_check_rotation(&c);
    if (!status && s->kind == QKV_SCALING_YARN)
        status = scaling_check_order(&c, "beta_slow", s->beta_slow, "beta_fast", s->beta_fast);
    if (!status && s->kind == QKV_SCALING_LLAMA3)
        status = scaling_check_order(&c, "low_freq", s->low_freq, "high_freq", s->high_freq);
    return !status && s->kind == QKV_SCALING_LONGROPE ? scaling_check_longrope(&c) : status;
}
