/* links.h: connections between hosts that close when a rank dies which is the only one of its host. */
#ifndef QKV_MPI_LINKS_H
#define QKV_MPI_LINKS_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "join.h"

struct mpi_link { /* to another rank */
    int file, rank;
    long pid;
    char host[64];
    bool watched; /* nobody else sees it die */
    bool says;    /* who says so is this rank */
    bool left;    /* it has said that it will end, so its end is no news */
    bool told;    /* as another rank has died */
};
struct mpi_links {
    int count;
    struct mpi_link items[QKV_RANKS_MOST];
};
/* Called by all ranks; here_rank, here_count: which one of how many ranks of its host. */
void mpi_links_make(int here_rank, int here_count, struct mpi_links *links);
/* There is something to read: whether that is the end of a rank that has not said that it leaves. The connection stays open. */
bool mpi_link_dead(struct mpi_link *link);
/* This rank will end, as it leaves, or as another one has died, which it says itself. */
enum { MPI_LINK_LEAVES = 'l', MPI_LINK_DIED = 'd' };
void mpi_links_say(const struct mpi_links *links, char what);
/* It leaves, and closes them. */
void mpi_links_leave(struct mpi_links *links);

#endif
