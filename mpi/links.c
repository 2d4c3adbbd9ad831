/* links: a rank that is alone on its host has no neighbour that can watch its process. Such a rank and rank 0 hold a
 * TCP connection, whose only message is that a rank leaves: the system closes the connection when the process ends,
 * before the launcher notices. Rank 0 listens, the first rank of every other host connects. If that does not succeed
 * within a second for each address of rank 0's host (IPv4), there is no link, and only the launcher reports when a rank
 * dies there. */
#include "links.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mpi.h>

enum { ADDRESSES = 8, CONNECT_MS = 1000, BACKLOG = 128 };

struct card { /* of a rank */
    long pid;
    int first, alone; /* of its host */
    char host[64], machine[40];
};
struct place { /* the addresses of rank 0; count 0: none */
    uint64_t token;
    uint16_t port;
    int count;
    uint32_t addresses[ADDRESSES]; /* as in struct in_addr */
};
struct hello { /* from the rank that connects, and back */
    uint64_t token, rank;
};

/* The same on hosts that are one machine with several names. */
static void links_machine(char machine[40]) {
    const int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    memset(machine, 0, 40);
    if (file < 0) return;
    if (read(file, machine, 36) != 36) *machine = 0;
    close(file);
}

static int links_listen(struct place *place) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t size = sizeof at;
    struct ifaddrs *list = NULL;
    const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (file < 0) return -1;
    if (bind(file, (void *)&at, sizeof at) || listen(file, BACKLOG) || getsockname(file, (void *)&at, &size) ||
        getrandom(&place->token, sizeof place->token, 0) != sizeof place->token || getifaddrs(&list)) {
        close(file);
        return -1;
    }
    place->port = at.sin_port;
    for (struct ifaddrs *i = list; i && place->count < ADDRESSES; i = i->ifa_next) {
        if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || !(i->ifa_flags & IFF_UP)) continue;
        if (i->ifa_flags & IFF_LOOPBACK) continue;
        memcpy(&at, i->ifa_addr, sizeof at);
        place->addresses[place->count++] = at.sin_addr.s_addr;
    }
    freeifaddrs(list);
    return file;
}

static bool links_ready(int file, short events) {
    struct pollfd one = {.fd = file, .events = events};
    return poll(&one, 1, CONNECT_MS) == 1 && (one.revents & events);
}

static bool links_receive(int file, struct hello *hello) {
    size_t got = 0;
    while (got < sizeof *hello && links_ready(file, POLLIN)) {
        const ssize_t n = recv(file, (char *)hello + got, sizeof *hello - got, 0);
        if (n <= 0) return false;
        got += (size_t)n;
    }
    return got == sizeof *hello;
}

static bool links_send(int file, const struct hello *hello) {
    return send(file, hello, sizeof *hello, MSG_NOSIGNAL) == (ssize_t)sizeof *hello;
}

/* A connection to one address of rank 0, after the greeting; −1: none. */
static int links_connect(const struct place *place, uint32_t address, int rank) {
    const struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = place->port, .sin_addr.s_addr = address};
    const struct hello hello = {place->token, (uint64_t)rank};
    const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (file < 0) return -1;
    connect(file, (const void *)&at, sizeof at);
    if (links_ready(file, POLLOUT) && links_send(file, &hello)) return file;
    close(file);
    return -1;
}

/* Accepts the connections, once all ranks have tried. */
static void links_accept(int listening, const struct place *place, const struct card *cards, int ranks,
                         struct mpi_links *links) {
    int file;
    while ((file = accept4(listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        struct hello hello;
        const bool known = links_receive(file, &hello) && hello.token == place->token && hello.rank > 0 &&
                           hello.rank < (uint64_t)ranks && cards[hello.rank].first && links->count < QKV_RANKS_MOST;
        if (!known || !links_send(file, &hello)) {
            close(file);
            continue;
        }
        const struct card *card = &cards[hello.rank];
        struct mpi_link *link = &links->items[links->count++];
        *link = (struct mpi_link){.file = file, .rank = (int)hello.rank, .pid = card->pid, .watched = card->alone};
        link->says = true;
        memcpy(link->host, card->host, sizeof link->host);
    }
}

static void links_join(const struct place *place, const struct card *cards, int ranks, int rank,
                       struct mpi_links *links, int file) {
    struct hello hello;
    int lowest = 1;
    if (file < 0) return;
    if (!links_receive(file, &hello) || hello.token != place->token) {
        close(file);
        return;
    }
    while (lowest < ranks && !cards[lowest].first) lowest++;
    links->count = 1;
    links->items[0] =
        (struct mpi_link){.file = file, .pid = cards->pid, .watched = cards->alone, .says = rank == lowest};
    memcpy(links->items[0].host, cards->host, sizeof links->items[0].host);
}

void mpi_links_make(int here_rank, int here_count, struct mpi_links *links) {
    struct card own = {.pid = (long)getpid(), .first = here_rank == 0, .alone = here_count == 1}, *cards;
    struct place place = {0};
    int rank, ranks, listening = -1, file = -1, hosts = 0;
    links->count = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    cards = calloc((size_t)ranks, sizeof *cards);
    if (!cards) MPI_Abort(MPI_COMM_WORLD, 1); /* the other ranks would wait for it */
    gethostname(own.host, sizeof own.host - 1);
    links_machine(own.machine);
    MPI_Allgather(&own, sizeof own, MPI_BYTE, cards, sizeof own, MPI_BYTE, MPI_COMM_WORLD);
    for (int r = 0; r < ranks; r++) hosts += cards[r].first;
    if (hosts > 1) {
        if (!rank) listening = links_listen(&place);
        MPI_Bcast(&place, sizeof place, MPI_BYTE, 0, MPI_COMM_WORLD);
        const bool connects = rank && own.first && place.port && (own.alone || cards->alone);
        for (int i = 0; connects && i < place.count && file < 0; i++)
            file = links_connect(&place, place.addresses[i], rank);
        if (connects && file < 0 && *own.machine && !strcmp(own.machine, cards->machine))
            file = links_connect(&place, htonl(INADDR_LOOPBACK), rank);
        MPI_Barrier(MPI_COMM_WORLD);
        if (listening >= 0) links_accept(listening, &place, cards, ranks, links);
        if (rank) links_join(&place, cards, ranks, rank, links, file);
    }
    if (listening >= 0) close(listening);
    free(cards);
}

bool mpi_link_dead(struct mpi_link *link) {
    char said = 0;
    const ssize_t n = recv(link->file, &said, 1, MSG_DONTWAIT);
    if (n == 1) link->left = true;
    if (n == 1 && said == MPI_LINK_DIED) link->told = true;
    return n == 0 && !link->left && link->watched;
}

void mpi_links_say(const struct mpi_links *links, char what) {
    for (int i = 0; i < links->count; i++) send(links->items[i].file, &what, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void mpi_links_leave(struct mpi_links *links) {
    mpi_links_say(links, MPI_LINK_LEAVES);
    for (int i = 0; i < links->count; i++) close(links->items[i].file);
    links->count = 0;
}
