/* u64: integers of 64 bits without a sign. */
#include "type/type_integers.h"

TYPE_INTEGER(u64, uint64_t, "U64", -1, "64 bits, an integer without a sign", type_unsigned(x, UINT64_MAX))
