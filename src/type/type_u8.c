/* u8: integers of 8 bits without a sign. */
#include "type/type_integers.h"

TYPE_INTEGER(u8, uint8_t, "U8", -1, "8 bits, 0 to 255", type_unsigned(x, UINT8_MAX))
