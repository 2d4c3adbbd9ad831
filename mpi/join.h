/* join.h: what qkv-mpi.so offers: the ranks that Open MPI has started, as a communicator (qkv/ranks.h). It is a module of its own, opened
 * by whoever was started by a launcher, so neither the library nor the command needs MPI. */
#ifndef QKV_MPI_JOIN_H
#define QKV_MPI_JOIN_H

#include <qkv.h>

/* Joins the ranks of this program; once in a process, and from the thread that will train. `seconds`: how long a rank waits for another
 * before it says that it hangs. NULL, or a sentence that says what is wrong, which stays. */
typedef const char *qkv_mpi_join_function(struct qkv_communicator *communicator, double seconds);
/* Ends: all together, or, where `alone` is true, at once, and all others with it. */
typedef void qkv_mpi_leave_function(bool alone);

#endif
