/* watch.h: the ranks of one machine watch one another, so that one of them can say which has died: a launcher ends the others at once,
 * before any of them would have noticed. */
#ifndef QKV_MPI_WATCH_H
#define QKV_MPI_WATCH_H

#include <stdbool.h>

#include "links.h"

/* Called by all ranks; where processes cannot be watched nothing happens. */
void mpi_watch_start(qkv_mpi_died_function *died);
/* From here on this rank may end, or, with `all`, all of this machine: nobody says that it has died. */
void mpi_watch_leave(bool all);
/* The rank that has died; -1: none is known to have. Any thread. */
int mpi_watch_dead(void);

#endif
