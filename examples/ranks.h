/* ranks.h: a communicator (qkv/ranks.h) over the threads of one process: each rank is a thread with a context of its
 * own. Data in transit is in a slot for each pair of ranks until the receiver has copied it. A rank that ends calls
 * rank_group_leave; calls that wait for it then fail. */
#ifndef RANKS_H
#define RANKS_H

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#ifndef QKV_EXPERIMENTAL
#define QKV_EXPERIMENTAL /* ranks may still change */
#endif
#include <qkv.h>

enum { RANKS_MOST = 8 };

struct rank_group { /* shared by the ranks */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int ranks;
    bool gone[RANKS_MOST];
    struct {
        const void *data; /* NULL: the slot is free */
        size_t bytes;
    } sent[RANKS_MOST][RANKS_MOST]; /* from, to */
};
struct rank_member {
    struct rank_group *group;
    int rank;
};

static inline void rank_group_start(struct rank_group *group, int ranks) {
    memset(group, 0, sizeof *group);
    pthread_mutex_init(&group->mutex, NULL);
    pthread_cond_init(&group->changed, NULL);
    group->ranks = ranks;
}

static inline void rank_group_leave(struct rank_group *group, int rank) {
    pthread_mutex_lock(&group->mutex);
    group->gone[rank] = true;
    pthread_cond_broadcast(&group->changed);
    pthread_mutex_unlock(&group->mutex);
}

static inline int rank_exchange(void *state, int to, const void *sent, size_t sent_bytes, int from, void *received,
                                size_t received_bytes) {
    const struct rank_member *me = state;
    struct rank_group *g = me->group;
    int error = 0;
    pthread_mutex_lock(&g->mutex);
    if (sent_bytes) {
        g->sent[me->rank][to].data = sent;
        g->sent[me->rank][to].bytes = sent_bytes;
        pthread_cond_broadcast(&g->changed);
    }
    if (received_bytes) {
        while (!g->sent[from][me->rank].data && !g->gone[from]) pthread_cond_wait(&g->changed, &g->mutex);
        if (g->sent[from][me->rank].data && g->sent[from][me->rank].bytes == received_bytes)
            memcpy(received, g->sent[from][me->rank].data, received_bytes);
        else
            error = 1;
        g->sent[from][me->rank].data = NULL;
        pthread_cond_broadcast(&g->changed);
    }
    while (sent_bytes && g->sent[me->rank][to].data && !g->gone[to]) pthread_cond_wait(&g->changed, &g->mutex);
    if (sent_bytes && g->sent[me->rank][to].data) error = 1;
    pthread_mutex_unlock(&g->mutex);
    return error;
}

static inline int rank_gather(void *state, int root, const void *own, size_t bytes, void *all) {
    const struct rank_member *me = state;
    int error = 0;
    if (me->rank != root) return rank_exchange(state, root, own, bytes, root, NULL, 0);
    memcpy((char *)all + (size_t)root * bytes, own, bytes);
    for (int r = 0; r < me->group->ranks && !error; r++)
        if (r != root) error = rank_exchange(state, r, NULL, 0, r, (char *)all + (size_t)r * bytes, bytes);
    return error;
}

static inline int rank_broadcast(void *state, int root, void *data, size_t bytes) {
    const struct rank_member *me = state;
    int error = 0;
    if (me->rank != root) return rank_exchange(state, root, NULL, 0, root, data, bytes);
    for (int r = 0; r < me->group->ranks && !error; r++)
        if (r != root) error = rank_exchange(state, r, data, bytes, r, NULL, 0);
    return error;
}

static inline struct qkv_communicator rank_communicator(struct rank_member *member) {
    return (struct qkv_communicator){.rank = member->rank,
                                     .ranks = member->group->ranks,
                                     .state = member,
                                     .exchange = rank_exchange,
                                     .gather = rank_gather,
                                     .broadcast = rank_broadcast};
}

#endif
