/* The learning rate of a step: a linear warm-up, then half a cosine (Loshchilov & Hutter 2017), a line, a constant,
 * the inverse square root (Vaswani et al. 2017), or a constant with a line behind it (wsd: Hu et al. 2024).
 *
 *   s < warmup:  rate·(s + 1)/(warmup + 1)            the line that is 0 at s = −1 and `rate` at s = warmup
 *   else:        min + (rate − min)·c(p),  p = (s − warmup)/(steps − 1 − warmup)
 *
 * with c(p) = (1 + cos πp)/2 or 1 − p, so that the last step has min_rate; inverse_sqrt is rate·√((warmup + 1)/(s +
 * 1)), whatever the number of steps; wsd is the line over the last decay_share·steps steps, and `rate` before them.
 *
 * A run that got a new end after `a` steps has a seam there: from step a on the rate follows another curve, which
 * begins at the rate r of step a − 1 (the last one done), so that it never jumps:
 *
 *   decay   the schedule's curve from r at step a − 1 to min_rate, or r if that is less, at the new last step. A
 *   warm-up
 *           that is not over goes on first. Schedules that know no end (constant, inverse_sqrt) go on as they were;
 *           wsd is that of a run of the new length, unless its line has begun in the one or the other.
 *   flat    r.
 *   rewarm  a line from r up to `rate` over `warmup` steps, then the schedule's curve from `rate` to min_rate. */
#include "base/math.h"
#include "train/train.h"

/* One curve: a line from `low` at step begin − 1 to `top` at step begin + warmup, then the schedule down to `min`. */
struct curve {
    int64_t begin, warmup, end;
    double low, top, min;
    int64_t shift; /* inverse_sqrt: steps before `begin` that count */
    bool flat;     /* always `top` */
};

/* wsd: the last step of a curve, from its beginning, before the rate falls. */
static int64_t curve_flat(const struct qkv_train_options *options, const struct curve *c) {
    const int64_t steps = c->end - c->begin, last = steps - 1;
    const int64_t falls = (int64_t)qkv_floor(options->decay_share * (double)steps + 0.5);
    const int64_t flat = last - (falls > 1 ? falls : 1);
    return flat > c->warmup ? flat : c->warmup;
}

static double curve_rate(const struct qkv_train_options *options, const struct curve *c, int64_t s) {
    enum qkv_schedule_kind kind = qkv_train_schedule(options);
    int64_t i = s - c->begin, last = c->end - 1 - c->begin;
    if (c->flat) return c->top;
    if (i < c->warmup) return c->low + (c->top - c->low) * ((double)i + 1) / ((double)c->warmup + 1);
    if (kind == QKV_SCHEDULE_CONSTANT) return c->top;
    if (kind == QKV_SCHEDULE_INVERSE_SQRT)
        return c->top * sqrt(((double)(c->warmup + c->shift) + 1) / ((double)(i + c->shift) + 1));
    if (i >= last) return last > c->warmup ? c->min : c->top;
    const int64_t flat = kind == QKV_SCHEDULE_WSD ? curve_flat(options, c) : c->warmup;
    if (i <= flat) return c->top;
    double p = (double)(i - flat) / (double)(last - flat);
    double share = kind == QKV_SCHEDULE_COSINE ? 0.5 * (1 + qkv_cos(3.14159265358979323846 * p)) : 1 - p;
    return c->min + (c->top - c->min) * share;
}

static struct curve curve_first(const struct qkv_train_options *o, int64_t end) {
    return (struct curve){
        .warmup = o->warmup, .end = end, .top = o->rate, .min = o->min_rate < 0 ? o->rate / 10 : o->min_rate};
}

/* The curve behind a seam. */
static struct curve curve_after(const struct qkv_train_options *o, const struct curve *before,
                                const struct qkv_seam *seam) {
    double reached = curve_rate(o, before, seam->step - 1);
    struct curve first = curve_first(o, seam->end), next = *before;
    enum qkv_schedule_kind kind = qkv_train_schedule(o);
    bool endless = kind == QKV_SCHEDULE_CONSTANT || kind == QKV_SCHEDULE_INVERSE_SQRT;
    bool warming = seam->step < before->begin + before->warmup;
    next.end = seam->end;
    const int64_t done = seam->step - 1 - before->begin;
    bool stable = kind == QKV_SCHEDULE_WSD && done <= curve_flat(o, before) && done <= curve_flat(o, &next);
    if (seam->extend == QKV_EXTEND_DECAY && !before->flat && (warming || endless || stable)) return next;
    next = (struct curve){.begin = seam->step, .end = seam->end, .low = reached, .top = reached};
    if (seam->extend == QKV_EXTEND_FLAT) {
        next.flat = true;
    } else if (seam->extend == QKV_EXTEND_REWARM) {
        next.warmup = first.warmup;
        next.top = first.top;
        next.min = first.min;
    } else {
        next.begin = next.shift = seam->step - 1;
        next.min = reached < first.min ? reached : first.min;
    }
    return next;
}

double qkv_learning_rate(const struct qkv_train_options *options, const struct qkv_seams *seams, int64_t s) {
    bool any = seams && seams->count > 0;
    struct curve curve = curve_first(options, any ? seams->first_end : options->steps);
    for (size_t i = 0; any && i < seams->count && seams->items[i].step <= s; i++)
        curve = curve_after(options, &curve, &seams->items[i]);
    return curve_rate(options, &curve, s);
}
