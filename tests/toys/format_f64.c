/* A toy: weights stored as doubles. */
#include "format/format.h"

#include <string.h>

static void f64_to_float(float *out, const void *in, size_t n) {
    for (size_t i = 0; i < n; i++) {
        double value;
        memcpy(&value, (const char *)in + i * sizeof value, sizeof value);
        out[i] = (float)value;
    }
}

static void f64_from_float(void *out, const float *in, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const double value = (double)in[i];
        memcpy((char *)out + i * sizeof value, &value, sizeof value);
    }
}

const struct qkv_format qkv_format_f64 = {.name = "f64",
                                          .help = "64 bits",
                                          .dtype = QKV_F64,
                                          .block = 1,
                                          .bytes = 8,
                                          .to_float = f64_to_float,
                                          .from_float = f64_from_float};
