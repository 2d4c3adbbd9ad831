/* tables: the kernel tables that this machine can run, made of the entries of QKV_ISA_LIST that the build has. Each
 * column of a table is chosen by itself. */
#include "kernel/tables.h"

#include <pthread.h>
#include <string.h>

#include "kernel/cpu.h"

/* QKV_ISA_BUILT: X(name) of each entry of QKV_ISA_LIST that the build has, in the same order. */
#define X(name) extern const struct qkv_isa qkv_isa_##name;
QKV_ISA_BUILT
#undef X
#define X(name) &qkv_isa_##name,
static const struct qkv_isa *const entries[] = {QKV_ISA_BUILT};
#undef X

#define TABLES_TABLE(name) #name,
#define TABLES_COLUMNS(name)
#define TABLES_NAME(name, kind) TABLES_##kind(name)
static const char *const names[] = {QKV_ISA_LIST(TABLES_NAME)};

#define TABLES_FITS(name, kind)                                                                                        \
    _Static_assert(sizeof #name <= sizeof((struct qkv_context *)0)->isa, "a table's name fits in a context");
QKV_ISA_LIST(TABLES_FITS)

enum { ENTRIES = sizeof entries / sizeof entries[0] };
static struct qkv_kernels tables[ENTRIES];
static size_t tables_count;

/* Whether it has a name for users. */
static bool tables_name(const struct qkv_isa *isa) {
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(names[i], isa->name)) return true;
    return false;
}

static const struct qkv_isa *tables_base(const struct qkv_isa *isa) {
    for (size_t i = 0; isa->base && i < ENTRIES; i++)
        if (!strcmp(entries[i]->name, isa->base)) return entries[i];
    return isa;
}

static bool tables_runs(const struct qkv_isa *isa) {
    return qkv_cpu_has(tables_base(isa)->needs) && qkv_cpu_has(isa->needs);
}

/* The table of entry `at`: the kernels of its instruction set, and each column from the last entry for this instruction
 * set that has it (some have all) and that the machine runs. Entries that are tables themselves, and better ones, are
 * left out. */
static struct qkv_kernels tables_make(size_t at) {
    const struct qkv_isa *base = tables_base(entries[at]);
    struct qkv_kernels table = *base->kernels;
    table.isa = entries[at]->name;
    for (size_t i = 0; i < ENTRIES; i++) {
        const struct qkv_isa *other = entries[i];
        if (other == base || tables_base(other) != base || (i > at && tables_name(other)) || !tables_runs(other))
            continue;
        if (other->kernels->width) {
            table = *other->kernels;
            table.isa = entries[at]->name;
        }
#define TABLES_COLUMN(name)                                                                                            \
    if (other->kernels->name) table.name = other->kernels->name;
        QKV_COLUMN_LIST(TABLES_COLUMN)
    }
    return table;
}

static bool tables_slower(const struct qkv_isa *isa) {
    return isa->slower && qkv_cpu_is(isa->slower);
}

/* Those that are slower than the table of their base come after it. */
static void tables_make_all(void) {
    for (size_t i = ENTRIES; i-- > 0;) {
        if (!tables_name(entries[i]) || !tables_runs(entries[i]) || tables_slower(entries[i])) continue;
        tables[tables_count++] = tables_make(i);
        for (size_t k = ENTRIES; k-- > 0;)
            if (tables_slower(entries[k]) && tables_base(entries[k]) == entries[i] && tables_runs(entries[k]))
                tables[tables_count++] = tables_make(k);
    }
}

const struct qkv_kernels *qkv_kernels_at(size_t i) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, tables_make_all);
    return i < tables_count ? &tables[i] : NULL;
}
