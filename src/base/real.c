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

const char *qkv_real_text(char text[QKV_REAL_TEXT], double x) {
    double back = 0;
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, QKV_REAL_TEXT, "%.*g", digits, x);
        char *point = strpbrk(text, ",");
        if (point) *point = '.';
        if (qkv_real_parse(text, &back) && back == x) break;
    }
    return text;
}

double qkv_real_meant(float x) {
    char text[QKV_REAL_TEXT];
    double meant = 0;
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, QKV_REAL_TEXT, "%.*g", digits, (double)x);
        char *point = strpbrk(text, ",");
        if (point) *point = '.';
        if (qkv_real_parse(text, &meant) && (float)meant == x) break;
    }
    return meant;
}
