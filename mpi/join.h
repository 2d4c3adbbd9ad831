/* join.h: the functions of qkv-mpi.so: the ranks that Open MPI has started, as a communicator (qkv/ranks.h). It is a
 * module of its own, which a process opens if a launcher started it, so neither the library nor the command needs
 * MPI. */
#ifndef QKV_MPI_JOIN_H
#define QKV_MPI_JOIN_H

#include <qkv.h>

/* Another rank, the process `pid` on `host` (NULL: this machine), has died without leaving. Called on all ranks that
 * see it, in a thread of the module; `first` on only one of them, which should report it. */
typedef void qkv_mpi_died_function(int rank, long pid, const char *host, bool first);
/* Joins the ranks of this program; once in a process. The communicator may then be called from any thread, by one at a
 * time. `seconds`: how long a rank waits for another before it reports that the other hangs; 0: without limit. Returns
 * NULL, or a sentence that says what is wrong and stays valid. */
typedef const char *qkv_mpi_join_function(struct qkv_communicator *communicator, double seconds,
                                          qkv_mpi_died_function *died);
/* Waits until all ranks end, then returns true. If `failed`, it waits for at most two seconds and returns false if
 * others have not ended. If they hang, the communicator's reason says so. */
typedef bool qkv_mpi_ending_function(bool failed);
/* Ends: all ranks together; or, if `alone`, at once, which also ends all others. */
typedef void qkv_mpi_leave_function(bool alone);

#endif
