/* links.h: connections between hosts, for ranks that are alone on their host. A connection closes when such a rank
 * dies. */
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
    bool watched; /* no other rank sees it die */
    bool says;    /* this rank reports it */
    bool left;    /* it has said that it ends, so its end is not reported */
    bool told;    /* it ends because another rank has died */
};
struct mpi_links {
    int count;
    struct mpi_link items[QKV_RANKS_MOST];
};
/* Called by all ranks; here_rank, here_count: this rank's number among the ranks of its host, and their number. */
void mpi_links_make(int here_rank, int here_count, struct mpi_links *links);
/* Reads from a link that has data: returns whether the rank has died without saying that it leaves. The connection
 * stays open. */
bool mpi_link_dead(struct mpi_link *link);
/* Tells the other side that this rank will end: because it leaves, or because another rank has died, which it reports
 * itself. */
enum { MPI_LINK_LEAVES = 'l', MPI_LINK_DIED = 'd' };
void mpi_links_say(const struct mpi_links *links, char what);
/* Sends that this rank leaves, and closes the links. */
void mpi_links_leave(struct mpi_links *links);

#endif
