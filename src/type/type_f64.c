/* f64: IEEE 754 binary64. */
#include "type/type_loops.h"

TYPE_LOOPS(f64, double, (float)v, (double)x)

const struct qkv_type qkv_type_f64 = {.name = "f64",
                                      .help = "64 bits",
                                      .safetensors = "F64",
                                      .gguf = 28,
                                      .kind = QKV_CLASS_REAL,
                                      .block = 1,
                                      .bytes = 8,
                                      .to_float = f64_to_float,
                                      .from_float = f64_from_float};
