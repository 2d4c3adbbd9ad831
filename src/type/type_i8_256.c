/* i8_256: activations as products of integers read them, in blocks of 256 numbers (type_form.h). No file has them. */
#include "type/type_form.h"

TYPE_FORM_FROM(i8_256, 256)
TYPE_FORM_TO(i8_256, 256)

const struct qkv_type qkv_type_i8_256 = {.name = "i8_256",
                                         .help = "activations: blocks of 256 numbers of 8 bits with a scale, and sums",
                                         .safetensors = NULL,
                                         .gguf = -1,
                                         .kind = QKV_CLASS_BLOCKS,
                                         .block = 256,
                                         .bytes = TYPE_FORM_BYTES(256),
                                         .weights = false,
                                         .to_float = i8_256_to_float,
                                         .from_float = i8_256_from_float};
