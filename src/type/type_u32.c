/* u32: integers of 32 bits without a sign. */
#include "type/type_integers.h"

TYPE_INTEGER(u32, uint32_t, "U32", -1, "32 bits, an integer without a sign", type_unsigned(x, UINT32_MAX))
