/* u16: integers of 16 bits without a sign. */
#include "type/type_integers.h"

TYPE_INTEGER(u16, uint16_t, "U16", -1, "16 bits, 0 to 65535", type_unsigned(x, UINT16_MAX))
