/* i16: integers of 16 bits, two's complement. */
#include "type/type_integers.h"

TYPE_INTEGER(i16, int16_t, "I16", 25, "16 bits, -32768 to 32767", type_signed(x, INT16_MIN, INT16_MAX))
