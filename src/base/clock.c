/* clock: seconds of a clock that never goes back (POSIX, CLOCK_MONOTONIC). */
#include <time.h>

#include "base/base.h"

double qkv_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
