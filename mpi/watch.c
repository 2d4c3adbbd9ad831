/* watch: a thread of each rank waits for the processes of the other ranks of its machine to end (pidfd_open, Linux
 * 5.3). Ranks exchange what they know about it in shared memory. */
#include "watch.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <mpi.h>

enum { WATCHED = QKV_RANKS_MOST };

struct place { /* of a rank, in memory shared by the ranks of a machine */
    int rank;
    long pid;
    atomic_bool leaving;
};
struct board {
    atomic_bool ending, said; /* all ranks leave; some rank has reported the death */
    struct place places[WATCHED];
};
static struct {
    struct board *board;
    int own, count;
    MPI_Win window;
    qkv_mpi_died_function *died;
    atomic_int dead;
    pthread_t thread;
    bool running;
    int wake[2];                          /* a pipe: the thread ends when the other end is closed */
    struct pollfd peers[2 * WATCHED + 1]; /* ranks of this machine, the pipe, links to other hosts */
    struct mpi_links links;
} watch = {.dead = -1};

static int watch_open(long pid) {
#ifdef SYS_pidfd_open
    return (int)syscall(SYS_pidfd_open, (pid_t)pid, 0u);
#else
    (void)pid;
    return -1;
#endif
}

static void watch_look(int i) {
    struct place *place = &watch.board->places[i];
    bool nobody = false;
    watch.peers[i].fd = -1; /* poll ignores it from here on */
    if (atomic_load(&place->leaving) || atomic_load(&watch.board->ending)) return;
    mpi_links_say(&watch.links, MPI_LINK_DIED);
    const bool first = atomic_compare_exchange_strong(&watch.board->said, &nobody, true);
    watch.died(place->rank, place->pid, NULL, first);
    atomic_store(&watch.dead, place->rank);
}

static void watch_look_link(int i) {
    struct mpi_link *link = &watch.links.items[i];
    const bool left = link->left, dead = mpi_link_dead(link);
    if (link->left != left && link->told) { /* the rank that has told this one reports it */
        watch.died(link->rank, link->pid, link->host, false);
        atomic_store(&watch.dead, link->rank);
    }
    if (link->left != left) return;           /* the end is expected */
    watch.peers[watch.count + 1 + i].fd = -1; /* poll ignores it from here on */
    if (!dead || (watch.board && atomic_load(&watch.board->ending))) return;
    mpi_links_say(&watch.links, MPI_LINK_DIED);
    watch.died(link->rank, link->pid, link->host, link->says);
    atomic_store(&watch.dead, link->rank);
}

static void *watch_run(void *nothing) {
    (void)nothing;
    const nfds_t all = (nfds_t)(watch.count + 1 + watch.links.count);
    while (poll(watch.peers, all, -1) >= 0 && !watch.peers[watch.count].revents) {
        for (int i = 0; i < watch.count; i++)
            if (watch.peers[i].fd >= 0 && watch.peers[i].revents) watch_look(i);
        for (int i = 0; i < watch.links.count; i++) {
            const struct pollfd *peer = &watch.peers[watch.count + 1 + i];
            if (peer->fd >= 0 && peer->revents) watch_look_link(i);
        }
    }
    return NULL;
}

static void watch_begin_thread(void) {
    sigset_t all, before;
    if (pipe(watch.wake) != 0) return;
    watch.peers[watch.count] = (struct pollfd){.fd = watch.wake[0], .events = POLLIN};
    for (int i = 0; i < watch.links.count; i++)
        watch.peers[watch.count + 1 + i] = (struct pollfd){.fd = watch.links.items[i].file, .events = POLLIN};
    sigfillset(&all); /* signals are for the threads of the program */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    watch.running = pthread_create(&watch.thread, NULL, watch_run, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* The ranks of this machine; returns how many of them can be watched. */
static int watch_processes(MPI_Comm here, int rank) {
    MPI_Aint bytes;
    int unit, opened = 0;
    const MPI_Aint own = watch.own ? 0 : (MPI_Aint)sizeof(struct board);
    if (watch.count < 2 || watch.count > WATCHED ||
        MPI_Win_allocate_shared(own, 1, MPI_INFO_NULL, here, &watch.board, &watch.window) != MPI_SUCCESS ||
        MPI_Win_shared_query(watch.window, 0, &bytes, &unit, &watch.board) != MPI_SUCCESS) {
        watch.board = NULL;
        watch.count = 0;
        return 0;
    }
    if (!watch.own) {
        atomic_init(&watch.board->ending, false);
        atomic_init(&watch.board->said, false);
    }
    watch.board->places[watch.own].rank = rank;
    watch.board->places[watch.own].pid = (long)getpid();
    atomic_init(&watch.board->places[watch.own].leaving, false);
    MPI_Barrier(here);
    for (int i = 0; i < watch.count; i++) {
        watch.peers[i] = (struct pollfd){
            .fd = i == watch.own ? -1 : watch_open(watch.board->places[i].pid),
            .events = POLLIN,
        };
        opened += watch.peers[i].fd >= 0;
    }
    MPI_Barrier(here);
    return opened;
}

void mpi_watch_start(qkv_mpi_died_function *died) {
    MPI_Comm here;
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &here) != MPI_SUCCESS) return;
    MPI_Comm_rank(here, &watch.own);
    MPI_Comm_size(here, &watch.count);
    watch.died = died;
    mpi_links_make(watch.own, watch.count, &watch.links);
    if (watch_processes(here, rank) + watch.links.count > 0) watch_begin_thread();
}

void mpi_watch_leave(bool all) {
    if (watch.board) atomic_store(&watch.board->places[watch.own].leaving, true);
    if (watch.board && all) atomic_store(&watch.board->ending, true);
    if (watch.running) {
        close(watch.wake[1]);
        pthread_join(watch.thread, NULL);
    }
    watch.running = false;
    mpi_links_leave(&watch.links);
}

int mpi_watch_dead(void) {
    return atomic_load(&watch.dead);
}
