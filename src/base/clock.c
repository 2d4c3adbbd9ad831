/* clock: seconds of a clock that never goes back (POSIX, CLOCK_MONOTONIC), and points in time as text (ISO 8601,
 * UTC). */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/base.h"

double qkv_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

const char *qkv_utc_text(char text[QKV_UTC_TEXT], int64_t seconds) {
    struct tm utc;
    const time_t time = (time_t)seconds;
    if (!gmtime_r(&time, &utc) || !strftime(text, QKV_UTC_TEXT, "%Y-%m-%dT%H:%M:%SZ", &utc)) text[0] = 0;
    return text;
}

bool qkv_utc_parse(const char *text, int64_t *seconds) {
    int year, month, day, hour, minute, second, end = 0;
    char again[QKV_UTC_TEXT];
    if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2dZ%n", &year, &month, &day, &hour, &minute, &second, &end) != 6 || !end ||
        text[end] || month < 1 || month > 12)
        return false;
    /* Days since 1970 of the Gregorian calendar. The year begins in March here, so that the leap day is its last
     * day. */
    const int64_t y = year - (month <= 2), m = (month + 9) % 12;
    const int64_t days = y * 365 + y / 4 - y / 100 + y / 400 + (m * 153 + 2) / 5 + day - 1 - 719468;
    *seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
    return strcmp(qkv_utc_text(again, *seconds), text) == 0; /* so there is no 31st of June */
}
