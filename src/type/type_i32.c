/* i32: integers of 32 bits, two's complement. */
#include "type/type_integers.h"

TYPE_INTEGER(i32, int32_t, "I32", 26, "32 bits, an integer", type_signed(x, INT32_MIN, INT32_MAX))
