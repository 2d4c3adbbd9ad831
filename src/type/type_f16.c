/* f16: IEEE 754 binary16: 11 bits of precision, from 6e-8 to 65504; larger numbers become infinite. */
#include "type/type_half.h"

TYPE_LOOPS(f16, uint16_t, type_half_read(v), type_half_write(x))

const struct qkv_type qkv_type_f16 = {.name = "f16",
                                      .help = "16 bits: 11 of precision, numbers up to 65504",
                                      .safetensors = "F16",
                                      .gguf = 1,
                                      .kind = QKV_CLASS_REAL,
                                      .block = 1,
                                      .bytes = 2,
                                      .weights = true,
                                      .to_float = f16_to_float,
                                      .from_float = f16_from_float};
