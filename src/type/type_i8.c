/* i8: integers of 8 bits, two's complement. */
#include "type/type_integers.h"

TYPE_INTEGER(i8, int8_t, "I8", 24, "8 bits, -128 to 127", type_signed(x, INT8_MIN, INT8_MAX))
