/* real: numbers as text, with a point in every locale. */
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

bool qkv_real_parse(const char *text, double *x) {
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!plain) return false;
    char *end;
    *x = strtod_l(text, &end, plain);
    freelocale(plain);
    return end != text && !*end && isfinite(*x) && !strpbrk(text, " \t\n\r\v\f");
}

/* With the fewest digits, from `fewest` to `most`, that read back as x in its own type. */
static const char *real_print(char text[QKV_REAL_TEXT], double x, int fewest, int most, bool single) {
    double back = 0;
    for (int digits = fewest; digits <= most; digits++) {
        snprintf(text, QKV_REAL_TEXT, "%.*g", digits, x);
        char *point = strpbrk(text, ",");
        if (point) *point = '.';
        if (!qkv_real_parse(text, &back)) continue;
        if (single ? (float)back == (float)x : back == x) break;
    }
    return text;
}

const char *qkv_real_text(char text[QKV_REAL_TEXT], double x) {
    return real_print(text, x, 15, 17, false);
}

const char *qkv_float_text(char text[QKV_REAL_TEXT], float x) {
    return real_print(text, (double)x, 6, 9, true);
}
