/* watch.h: the ranks of one machine watch one another, so that one of them can report which rank has died: a launcher
 * would end the others before any of them notices. */
#ifndef QKV_MPI_WATCH_H
#define QKV_MPI_WATCH_H

#include <stdbool.h>

#include "links.h"

/* Called by all ranks; does nothing if processes cannot be watched. */
void mpi_watch_start(qkv_mpi_died_function *died);
/* From now on this rank may end, or, if `all`, all ranks of this machine: that is not reported as a death. */
void mpi_watch_leave(bool all);
/* The rank that has died; -1: none is known. Any thread. */
int mpi_watch_dead(void);

#endif
