/* communicator: ranks over Open MPI. All data goes from one rank to another as bytes, in messages whose length fits in
 * an int. A waiting rank polls with pauses, and after a while reports whom it waits for. The thread that has joined
 * computes. If another thread waits, the computing thread needs the CPU, so the waiting thread sleeps at once, and
 * longer each time. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <mpi.h>

#include "watch.h"

#define EXPORT __attribute__((visibility("default")))

enum { MESSAGE = 1 << 28, TAG = 71, TAG_ALIVE = 72, ENDING_SECONDS = 2, STOPPED_SECONDS = 2 };
enum { SPINS = 2000, SPINS_OTHER_THREAD = 4 };        /* polls before the first pause */
enum { PAUSE_FIRST = 20000, PAUSE_LONGEST = 500000 }; /* ns */
#define HEAR_SECONDS 0.05                             /* between two polls for messages of ranks that work */

static struct {
    int rank, ranks;
    pthread_t computes; /* the thread that has joined */
    double seconds;
    double listened, heard; /* when this rank last polled for such messages, and last got one */
    /* such messages of this rank, to each other rank; all MPI_REQUEST_NULL at first */
    MPI_Request told[QKV_RANKS_MOST];
    char reason[256];
} mpi;

static double mpi_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int mpi_failed(int error, int with) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    if (error == MPI_SUCCESS) return 0;
    MPI_Error_string(error, text, &length);
    snprintf(mpi.reason, sizeof mpi.reason, "rank %d cannot reach rank %d: %.150s", mpi.rank, with, text);
    return error;
}

/* Receives the messages of ranks that work. A message of any rank counts: the rank that this rank waits for may itself
 * wait for that one. */
static void mpi_listen(double now) {
    MPI_Status status;
    int there = 1;
    if (now - mpi.listened < HEAR_SECONDS) return;
    mpi.listened = now;
    while (MPI_Iprobe(MPI_ANY_SOURCE, TAG_ALIVE, MPI_COMM_WORLD, &there, &status) == MPI_SUCCESS && there) {
        MPI_Recv(NULL, 0, MPI_BYTE, status.MPI_SOURCE, TAG_ALIVE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        mpi.heard = now;
    }
}

/* Tells all ranks that this one works. A rank that has not received the previous message gets no new one. */
static void mpi_alive(void *state) {
    (void)state;
    for (int r = 0; r < mpi.ranks && r < QKV_RANKS_MOST; r++) {
        int done = 1;
        if (r == mpi.rank || MPI_Test(&mpi.told[r], &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || !done) continue;
        MPI_Isend(NULL, 0, MPI_BYTE, r, TAG_ALIVE, MPI_COMM_WORLD, &mpi.told[r]);
    }
    mpi_listen(mpi_clock());
}

/* How long a rank has waited since it last heard that another rank works; times when this process was stopped do not
 * count. */
struct waiting {
    double seconds, last;
};

static bool mpi_patient(struct waiting *w) {
    const double now = mpi_clock(), passed = w->last > 0 ? now - w->last : 0;
    w->last = now;
    w->seconds += passed < STOPPED_SECONDS ? passed : 0;
    mpi_listen(now);
    if (mpi.heard >= now) w->seconds = 0;
    return mpi.seconds <= 0 || w->seconds < mpi.seconds;
}

/* Waits until a message to or from a rank has gone; MPI_REQUEST_NULL is done at once. */
static int mpi_wait(MPI_Request *request, int with) {
    const bool other_thread = !pthread_equal(pthread_self(), mpi.computes);
    const long looks = other_thread ? SPINS_OTHER_THREAD : SPINS;
    struct timespec pause = {.tv_nsec = PAUSE_FIRST};
    struct waiting waiting = {0};
    int done = 0;
    for (long spins = 0; !done; spins++) {
        const int error = MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (error != MPI_SUCCESS) return mpi_failed(error, with);
        if (done || spins < looks) continue;
        nanosleep(&pause, NULL);
        if (other_thread && pause.tv_nsec < PAUSE_LONGEST) pause.tv_nsec *= 2;
        if (mpi_watch_dead() >= 0) {
            snprintf(mpi.reason, sizeof mpi.reason, "rank %d has died", mpi_watch_dead());
            return -1;
        }
        if (mpi_patient(&waiting)) continue;
        snprintf(mpi.reason, sizeof mpi.reason, "rank %d has waited %.0f seconds for rank %d, which hangs", mpi.rank,
                 mpi.seconds, with);
        return -1;
    }
    return 0;
}

static int mpi_exchange(void *state, int to, const void *sent, size_t sent_bytes, int from, void *received,
                        size_t received_bytes) {
    int error = 0;
    (void)state;
    mpi_listen(mpi_clock());
    for (size_t at = 0; !error && (at < sent_bytes || at < received_bytes); at += MESSAGE) {
        MPI_Request send = MPI_REQUEST_NULL, receive = MPI_REQUEST_NULL;
        const size_t out = at < sent_bytes ? sent_bytes - at : 0, in = at < received_bytes ? received_bytes - at : 0;
        if (in)
            error = mpi_failed(MPI_Irecv((char *)received + at, in < MESSAGE ? (int)in : MESSAGE, MPI_BYTE, from, TAG,
                                         MPI_COMM_WORLD, &receive),
                               from);
        if (out && !error)
            error = mpi_failed(MPI_Isend((const char *)sent + at, out < MESSAGE ? (int)out : MESSAGE, MPI_BYTE, to, TAG,
                                         MPI_COMM_WORLD, &send),
                               to);
        if (!error) error = mpi_wait(&receive, from);
        if (!error) error = mpi_wait(&send, to);
    }
    return error;
}

static int mpi_gather(void *state, int root, const void *own, size_t bytes, void *all) {
    int error = 0;
    if (mpi.rank != root) return mpi_exchange(state, root, own, bytes, root, NULL, 0);
    for (int r = 0; r < mpi.ranks && !error; r++) {
        char *place = (char *)all + (size_t)r * bytes;
        if (r != root)
            error = mpi_exchange(state, r, NULL, 0, r, place, bytes);
        else
            memcpy(place, own, bytes);
    }
    return error;
}

/* Each rank that has the data sends it to one that has not, so the number doubles each time. */
static int mpi_broadcast(void *state, int root, void *data, size_t bytes) {
    const int place = (mpi.rank - root + mpi.ranks) % mpi.ranks;
    int error = 0;
    for (int have = 1; have < mpi.ranks && !error; have *= 2) {
        const int to = (place + have + root) % mpi.ranks, from = (place - have + root + mpi.ranks) % mpi.ranks;
        if (place < have && place + have < mpi.ranks)
            error = mpi_exchange(state, to, data, bytes, to, NULL, 0);
        else if (place >= have && place < 2 * have)
            error = mpi_exchange(state, from, NULL, 0, from, data, bytes);
    }
    return error;
}

static const char *mpi_reason(void *state) {
    (void)state;
    return mpi.reason;
}

EXPORT qkv_mpi_join_function qkv_mpi_join;
EXPORT qkv_mpi_ending_function qkv_mpi_ending;
EXPORT qkv_mpi_leave_function qkv_mpi_leave;

const char *qkv_mpi_join(struct qkv_communicator *communicator, double seconds, qkv_mpi_died_function *died) {
    int level;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS) return "Open MPI does not start";
    if (level < MPI_THREAD_SERIALIZED) return "this Open MPI was built for one thread";
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &mpi.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &mpi.ranks);
    mpi.computes = pthread_self();
    mpi.seconds = seconds;
    for (int r = 0; r < QKV_RANKS_MOST; r++) mpi.told[r] = MPI_REQUEST_NULL;
    *communicator = (struct qkv_communicator){.rank = mpi.rank,
                                              .ranks = mpi.ranks,
                                              .exchange = mpi_exchange,
                                              .gather = mpi_gather,
                                              .broadcast = mpi_broadcast,
                                              .reason = mpi_reason,
                                              .alive = mpi_alive};
    mpi_watch_start(died);
    return NULL;
}

bool qkv_mpi_ending(bool failed) {
    const struct timespec pause = {.tv_nsec = 1000000};
    const double began = mpi_clock();
    struct waiting waiting = {0};
    MPI_Request request;
    int done = 0;
    if (mpi_watch_dead() >= 0 || MPI_Ibarrier(MPI_COMM_WORLD, &request) != MPI_SUCCESS) return false;
    while (!done) {
        if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
        if (!done && (mpi_watch_dead() >= 0 || (failed && mpi_clock() - began > ENDING_SECONDS))) return false;
        if (done) break;
        nanosleep(&pause, NULL);
        if (mpi_patient(&waiting)) continue;
        snprintf(mpi.reason, sizeof mpi.reason, "rank %d has waited %.0f seconds for the others to end; one hangs",
                 mpi.rank, mpi.seconds);
        return false;
    }
    mpi.listened = 0;
    mpi_listen(mpi_clock()); /* no rank sends any more */
    return true;
}

void qkv_mpi_leave(bool alone) {
    mpi_watch_leave(alone);
    if (alone) MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Finalize();
}
