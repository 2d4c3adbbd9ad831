/* i64: integers of 64 bits, two's complement. */
#include "type/type_integers.h"

TYPE_INTEGER(i64, int64_t, "I64", 27, "64 bits, an integer", type_signed(x, INT64_MIN, INT64_MAX))
