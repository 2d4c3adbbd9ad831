/* slope_fixture.h: the slope of a function by differences, which knows how exact it is: the oracle of gradients.
 * Header-only. */
#ifndef QKV_SLOPE_FIXTURE_H
#define QKV_SLOPE_FIXTURE_H

#include "test.h"

/* The value of a function so far along a direction. */
typedef double slope_function(void *user, double distance);

struct slope {
    double value, error; /* error: how far the differences that agree best are apart */
};

/* The slope at 0 by central differences over distances that shrink from `distance`, extrapolated to none (Ridders 1982,
 * "Accurate computation of F'(x) and F'(x) F''(x)"). The error bounds both how much the function bends and how it is
 * rounded. */
static inline struct slope slope_by_differences(slope_function *f, void *user, double distance, double enough) {
    enum { STEPS = 12 };
    const double shrink = 1.6;
    double a[STEPS][STEPS];
    struct slope best = {0, INFINITY};
    for (int i = 0; i < STEPS && !(best.error <= enough); i++, distance /= shrink) {
        a[i][0] = (f(user, distance) - f(user, -distance)) / (2 * distance);
        double factor = 1;
        for (int j = 1; j <= i; j++) {
            factor *= shrink * shrink;
            a[i][j] = (a[i][j - 1] * factor - a[i - 1][j - 1]) / (factor - 1);
            const double error = fmax(fabs(a[i][j] - a[i][j - 1]), fabs(a[i][j] - a[i - 1][j - 1]));
            if (error < best.error) best = (struct slope){a[i][j], error};
        }
    }
    return best;
}

#endif
