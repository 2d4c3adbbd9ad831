/* join.h: what qkv-mpi.so offers: the ranks that Open MPI has started, as a communicator (qkv/ranks.h). It is a module of its own, opened
 * by whoever was started by a launcher, so neither the library nor the command needs MPI. */
#ifndef QKV_MPI_JOIN_H
#define QKV_MPI_JOIN_H

#include <qkv.h>

/* Another rank, the process `pid` on `host` (NULL: this machine), has died without leaving. Called on all ranks that see it, in a thread of
 * the module; `first` on one of them alone, which is to say so. */
typedef void qkv_mpi_died_function(int rank, long pid, const char *host, bool first);
/* Joins the ranks of this program; once in a process. The communicator is then called from any thread, by one at a time. `seconds`: how long a rank waits for another
 * before it says that it hangs; 0: for ever. NULL, or a sentence that says what is wrong, which stays. */
typedef const char *qkv_mpi_join_function(struct qkv_communicator *communicator, double seconds,
                                          qkv_mpi_died_function *died);
/* Waits until all ranks end: true. Where `failed`, for two seconds at most; false: others do not end; where they hang, the communicator's
 * reason says so. */
typedef bool qkv_mpi_ending_function(bool failed);
/* Ends: all together, or, where `alone` is true, at once, and all others with it. */
typedef void qkv_mpi_leave_function(bool alone);

#endif
