/* slope_fixture.h: the slope of a function by differences, which knows how exact it is: the oracle of gradients.
 * Header-only. */
#ifndef QKV_SLOPE_FIXTURE_H
#define QKV_SLOPE_FIXTURE_H

#include "test.h"

#include <float.h>

/* The value of a function so far along a direction. */
typedef double slope_function(void *user, double distance);

struct slope {
    double value, error; /* error: how far three differences after one another are apart at most, or both sides */
};

/* How much the slopes on both sides of 0 differ, without what rounding of values of fp32 can be: a function with a
 * kink nearby has a slope, but differences do not say it, however well they agree. */
static inline double slope_kink(const double right[2], const double left[2], double middle, double distance) {
    const double after = (4 * right[0] - right[1] - 3 * middle) / (2 * distance),
                 before = (3 * middle - 4 * left[0] + left[1]) / (2 * distance);
    return fabs(after - before) / 2 - 4 * (double)FLT_EPSILON * fabs(middle) / distance;
}

/* The slope at 0 by differences of four values, over distances that are halved from `distance` until three of them
 * after one another agree within `enough`, and both sides do. Else those that agree best: the function bends too much,
 * or its rounding is more than what is left. */
static inline struct slope slope_by_differences(slope_function *f, void *user, double distance, double enough) {
    const double middle = f(user, 0);
    double before = INFINITY, last = INFINITY;
    struct slope best = {0, INFINITY};
    for (int i = 0; i < 10 && !(best.error <= enough); i++, distance /= 2) {
        const double right[] = {f(user, distance), f(user, 2 * distance)},
                     left[] = {f(user, -distance), f(user, -2 * distance)};
        const double value = (8 * (right[0] - left[0]) - (right[1] - left[1])) / (12 * distance);
        const double apart = fmax(fabs(value - last), fabs(last - before));
        const double error = fmax(apart, slope_kink(right, left, middle, distance));
        if (error < best.error) best = (struct slope){value, error};
        before = last, last = value;
    }
    return best;
}

#endif
