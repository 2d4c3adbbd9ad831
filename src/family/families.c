/* The list of families. */
#include "family/family.h"

const struct qkv_family *const qkv_families[] = {
#define FAMILY_ROW(name) &qkv_family_##name,
    QKV_FAMILY_LIST(FAMILY_ROW)
#undef FAMILY_ROW
        NULL,
};
