/* tables.h: the entries of QKV_ISA_LIST that a build has (isa/table.c). tables.c makes the kernel tables of them. */
#ifndef QKV_TABLES_H
#define QKV_TABLES_H

#include "kernel/kernel.h"

struct qkv_isa {
    const char *name;
    /* NULL: an instruction set with all kernels. Else the name of one; the entry has other columns for it */
    const char *base;
    const char *needs;                 /* features of the processor, for qkv_cpu_has; those of the base come first */
    const char *slower;             /* vendor of processors on which the table of the base is faster; NULL: none */
    const struct qkv_kernels *kernels; /* only the columns, if there is a base that is not replaced as a whole; other
                                        * fields are NULL, and the width is 0 */
};

/* The columns: fields of struct qkv_kernels that an entry may replace. The sources of a column are isa/NAME.c and
 * isa/NAME_*.c; they define QKV_T(NAME_kernels). */
#define QKV_COLUMN_LIST(X) X(bf16) X(attend_bf16) X(codes)

#endif
