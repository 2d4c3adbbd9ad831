/* The values of keys of config.json: ranges, their names in messages, and the spelling of reals. */
#include "base/json_load.h"
#include "kernel/kernel.h"
#include "model/spec.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#define FLOAT_RANGE " (as a float: its size is from 1.4e-45 to 3.4e38)"

/* Reals are used as floats: a value that is infinite as a float, or that becomes 0, is out of range too. */
bool qkv_key_in_range(const struct qkv_key *key, double value) {
    if (!(fabs(value) <= (double)FLT_MAX)) return false;
    if (key->flags & QKV_KEY_SOFTCAP && !qkv_softcap_valid(value)) return false;
    if (key->flags & QKV_KEY_RATE && value == -1) return true;
    const bool real = key->type == QKV_KEY_REAL || key->type == QKV_KEY_LIST;
    double x = real ? (double)(float)value : value;
    bool above = key->flags & QKV_KEY_ABOVE_LOW ? x > key->low : x >= key->low;
    bool below = key->flags & QKV_KEY_BELOW_HIGH ? x < key->high : x <= key->high;
    bool nought = x == 0 && (value != 0 || key->flags & QKV_KEY_NOT_ZERO);
    return above && below && !(nought && real);
}

void qkv_key_words(const struct qkv_key *key, char *text, size_t size) {
    if (key->type == QKV_KEY_REAL)
        snprintf(text, size, "%s", key->text);
    else
        qkv_key_range_text(key, text, size);
}

void qkv_key_range_text(const struct qkv_key *key, char *text, size_t size) {
    size_t used = 0;
    switch (key->type) {
    case QKV_KEY_WHOLE:
        snprintf(text, size, "a whole number from %.0f to %.0f", key->low, key->high);
        break;
    case QKV_KEY_REAL:
        snprintf(text, size, "%s%s", key->text,
                 key->high < (double)FLT_MAX || key->flags & QKV_KEY_SOFTCAP ? "" : FLOAT_RANGE);
        break;
    case QKV_KEY_FLAG:
        snprintf(text, size, "true or false");
        break;
    case QKV_KEY_CHOICE:
        text[0] = 0;
        for (size_t i = 0; key->choices[i].text && used < size; i++) {
            if (!*key->choices[i].text) continue;
            int n = snprintf(text + used, size - used, "%s%s", i ? ", " : "one of ", key->choices[i].text);
            used += n > 0 ? (size_t)n : 0;
        }
        break;
    case QKV_KEY_LIST:
        snprintf(text, size, "a list of 1 to %d %s", QKV_LIST_MAX, key->text);
        break;
    case QKV_KEY_CONSTANT:
    case QKV_KEY_VERSION:
        snprintf(text, size, "%s", key->text);
        break;
    case QKV_KEY_PATTERN:
        snprintf(text, size, "a list of the names of kinds, [\"local\", \"global\"]");
        break;
    case QKV_KEY_KINDS:
        snprintf(text, size, "an object of 1 to %d kinds of layers, {\"local\": {...}, \"global\": {...}}",
                 QKV_KINDS_MAX);
        break;
    case QKV_KEY_OBJECT:
        snprintf(text, size, "an object, {\"%s\": ...}%s", key->keys[0].name,
                 key->flags & (QKV_KEY_NULL | QKV_KEY_OPTIONAL) ? " or null" : "");
    }
}

char *qkv_key_real_text(double x) {
    json_t *real = json_real(x);
    char *text = NULL;
    for (size_t digits = 9; real && digits <= 17; digits++) { /* %g drops trailing zeros */
        text = json_dumps(real, JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits));
        json_t *back = text ? qkv_json_value(text) : NULL;
        bool same = back && json_is_real(back) && json_real_value(back) == x;
        json_decref(back);
        if (same || !text) break;
        free(text);
        text = NULL;
    }
    json_decref(real);
    return text;
}
