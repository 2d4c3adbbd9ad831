/* worker: one thread that does numbered items in order as they become ready, for example communication, while the
 * caller computes. It blocks all signals, which are for the threads of the program. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "base/base.h"

struct qkv_worker {
    qkv_worker_body *body;
    void *argument;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    size_t ready, done; /* items of this turn */
    int error;          /* the first error; after it no item of this turn is done */
    bool ends;
    double busy;  /* seconds, of this turn */
    double began; /* when the current item began */
};

static void *worker_run(void *argument) {
    struct qkv_worker *w = argument;
    pthread_mutex_lock(&w->mutex);
    for (;;) {
        while (w->done >= w->ready && !w->ends) pthread_cond_wait(&w->changed, &w->mutex);
        if (w->ends) break;
        const size_t item = w->done;
        int error = w->error;
        w->began = qkv_clock();
        pthread_mutex_unlock(&w->mutex);
        if (!error) error = w->body(w->argument, item);
        pthread_mutex_lock(&w->mutex);
        w->busy += qkv_clock() - w->began;
        w->error = error;
        w->done++;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->mutex);
    return NULL;
}

enum qkv_status qkv_worker_create(struct qkv_context *ctx, qkv_worker_body *body, void *argument,
                                  struct qkv_worker **out) {
    sigset_t all, before;
    struct qkv_worker *w = *out = qkv_allocate(ctx, 1, sizeof *w);
    if (!w) return QKV_MEMORY;
    w->body = body;
    w->argument = argument;
    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->changed, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&w->thread, NULL, worker_run, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error) return QKV_OK;
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->mutex);
    free(w);
    *out = NULL;
    return qkv_fail(ctx, QKV_MEMORY, "the system has no thread for what ranks send (%d)", error);
}

void qkv_worker_free(struct qkv_worker *w) {
    if (!w) return;
    pthread_mutex_lock(&w->mutex);
    w->ends = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->mutex);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->mutex);
    free(w);
}

void qkv_worker_publish(struct qkv_worker *w, size_t ready) {
    pthread_mutex_lock(&w->mutex);
    if (ready > w->ready) w->ready = ready;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->mutex);
}

int qkv_worker_finish(struct qkv_worker *w, size_t items, double *busy, double *hidden) {
    pthread_mutex_lock(&w->mutex);
    const bool works = w->done < w->ready;
    *hidden = w->busy + (works && w->began > 0 ? qkv_clock() - w->began : 0);
    w->ready = items;
    pthread_cond_broadcast(&w->changed);
    while (w->done < items) pthread_cond_wait(&w->changed, &w->mutex);
    const int error = w->error;
    *busy = w->busy;
    if (*hidden > *busy) *hidden = *busy;
    w->ready = w->done = 0;
    w->error = 0;
    w->busy = w->began = 0;
    pthread_mutex_unlock(&w->mutex);
    return error;
}
