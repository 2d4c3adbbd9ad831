/* bool: truth values of a byte: 0 is false, every other byte is true. */
#include "type/type_loops.h"

TYPE_LOOPS(bool, uint8_t, v ? 1.0f : 0.0f, x != 0) /* NaN is not 0 */

const struct qkv_type qkv_type_bool = {.name = "bool",
                                       .help = "a truth value",
                                       .safetensors = "BOOL",
                                       .gguf = -1,
                                       .kind = QKV_CLASS_INTEGER,
                                       .block = 1,
                                       .bytes = 1,
                                       .to_float = bool_to_float,
                                       .from_float = bool_from_float};
