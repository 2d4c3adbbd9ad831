/* type_integers.h: the rows of integer types. A float becomes the nearest integer, ties to even, at most the type's
 * largest and at least its smallest number; NaN becomes 0. */
#ifndef QKV_TYPE_INTEGERS_H
#define QKV_TYPE_INTEGERS_H

#include "base/math.h"
#include "type/type_loops.h"

/* The bounds are compared as floats: every float strictly between them is within them as an integer too. */
static inline int64_t type_signed(float x, int64_t low, int64_t high) {
    if (isnan(x)) return 0;
    const float rounded = (float)qkv_rint((double)x);
    return rounded <= (float)low ? low : rounded >= (float)high ? high : (int64_t)rounded;
}

static inline uint64_t type_unsigned(float x, uint64_t high) {
    if (isnan(x)) return 0;
    const float rounded = (float)qkv_rint((double)x);
    return rounded <= 0 ? 0 : rounded >= (float)high ? high : (uint64_t)rounded;
}

#define TYPE_INTEGER(name_, element, safetensors_, gguf_, help_, write)                                                \
    TYPE_LOOPS(name_, element, (float)v, write)                                                                        \
    const struct qkv_type qkv_type_##name_ = {.name = #name_,                                                          \
                                              .help = help_,                                                           \
                                              .safetensors = safetensors_,                                             \
                                              .gguf = gguf_,                                                           \
                                              .kind = QKV_CLASS_INTEGER,                                               \
                                              .block = 1,                                                              \
                                              .bytes = sizeof(element),                                                \
                                              .to_float = name_##_to_float,                                            \
                                              .from_float = name_##_from_float};

#endif
