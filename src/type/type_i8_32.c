/* i8_32: activations as products of integers read them, in blocks of 32 numbers (type_form.h). No file has them. */
#include "type/type_form.h"

TYPE_FORM_FROM(i8_32, 32)
TYPE_FORM_TO(i8_32, 32)

const struct qkv_type qkv_type_i8_32 = {.name = "i8_32",
                                        .help = "activations: blocks of 32 numbers of 8 bits with a scale, and sums",
                                        .safetensors = NULL,
                                        .gguf = -1,
                                        .kind = QKV_CLASS_BLOCKS,
                                        .block = 32,
                                        .bytes = TYPE_FORM_BYTES(32),
                                        .weights = false,
                                        .to_float = i8_32_to_float,
                                        .from_float = i8_32_from_float};
