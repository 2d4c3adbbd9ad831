/* type_loops.h: the loops of types whose blocks are one number: element by element, from and to unaligned memory. */
#ifndef QKV_TYPE_LOOPS_H
#define QKV_TYPE_LOOPS_H

#include "type/type.h"

#include <string.h>

static inline uint32_t type_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float type_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The functions NAME_to_float and NAME_from_float of elements of a C type: `read` is a float made of `v`, `write` an
 * element made of the float `x`. */
#define TYPE_LOOPS(name, element, read, write)                                                                         \
    static void name##_to_float(float *out, const void *in, size_t n) {                                                \
        for (size_t i = 0; i < n; i++) {                                                                               \
            element v;                                                                                                 \
            memcpy(&v, (const unsigned char *)in + i * sizeof v, sizeof v);                                            \
            out[i] = (read);                                                                                           \
        }                                                                                                              \
    }                                                                                                                  \
    static void name##_from_float(void *out, const float *in, size_t n) {                                              \
        for (size_t i = 0; i < n; i++) {                                                                               \
            const float x = in[i];                                                                                     \
            const element v = (element)(write);                                                                        \
            memcpy((unsigned char *)out + i * sizeof v, &v, sizeof v);                                                 \
        }                                                                                                              \
    }

#endif
