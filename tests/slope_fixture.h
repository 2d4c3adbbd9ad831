/* slope_fixture.h: the slope of a function by differences, which knows how exact it is: the oracle of gradients.
 * Header-only. */
#ifndef QKV_SLOPE_FIXTURE_H
#define QKV_SLOPE_FIXTURE_H

#include "test.h"

/* The value of a function so far along a direction. */
typedef double slope_function(void *user, double distance);

struct slope {
    double value, error; /* error: how far three differences after one another are apart at most */
};

/* The slope at 0 by differences of four values, over distances that are halved from `distance` until three of them
 * after one another agree within `enough`. Else those that agree best: the function bends too much, or its rounding is
 * more than what is left. */
static inline struct slope slope_by_differences(slope_function *f, void *user, double distance, double enough) {
    double before = INFINITY, last = INFINITY;
    struct slope best = {0, INFINITY};
    for (int i = 0; i < 10 && !(best.error <= enough); i++, distance /= 2) {
        const double near = f(user, distance) - f(user, -distance),
                     far = f(user, 2 * distance) - f(user, -2 * distance);
        const double value = (8 * near - far) / (12 * distance);
        const double error = fmax(fabs(value - last), fabs(last - before));
        if (error < best.error) best = (struct slope){value, error};
        before = last, last = value;
    }
    return best;
}

#endif
