/* The learning rate of a step: a linear warm-up, then half a cosine (Loshchilov & Hutter 2017), a line, a constant, or the
 * inverse square root (Vaswani et al. 2017).
 *
 *   s < warmup:  rate·(s + 1)/(warmup + 1)            the line that is 0 at s = −1 and `rate` at s = warmup
 *   else:        min + (rate − min)·c(p),  p = (s − warmup)/(steps − 1 − warmup)
 *
 * with c(p) = (1 + cos πp)/2 or 1 − p, so that the last step has min_rate; inverse_sqrt is rate·√((warmup + 1)/(s + 1)),
 * whatever the number of steps. */
#include <math.h>

#include "train/train.h"

double qkv_train_rate(const struct qkv_train_options *options, int64_t s) {
    double rate = options->rate, least = options->min_rate < 0 ? rate / 10 : options->min_rate;
    if (s < options->warmup) return rate * ((double)s + 1) / ((double)options->warmup + 1);
    enum qkv_schedule_kind kind = qkv_train_schedule(options);
    if (kind == QKV_SCHEDULE_CONSTANT) return rate;
    if (kind == QKV_SCHEDULE_INVERSE_SQRT) return rate * sqrt(((double)options->warmup + 1) / ((double)s + 1));
    int64_t last = options->steps - 1;
    if (s >= last) return last > options->warmup ? least : rate;
    double p = (double)(s - options->warmup) / (double)(last - options->warmup);
    double c = kind == QKV_SCHEDULE_COSINE ? 0.5 * (1 + cos(3.14159265358979323846 * p)) : 1 - p;
    return least + (rate - least) * c;
}
