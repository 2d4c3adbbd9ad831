/* team: the threads that work with the caller of a context: how they wait for work, and when they rest.
 *
 * A turn is one loop over items. The caller opens it, takes items itself, and closes it when none is left. A thread
 * that comes later finds the turn closed, so the caller waits only for threads that work on an item, never for one that
 * the system has not run yet. A waiting thread spins for some microseconds and then sleeps (futex), so waiting takes no
 * CPU time from other programs, and the next turn often needs no call of the system. Every thread has a balance: the
 * time that it saves the caller minus the time that the caller waits for it. A thread that costs more than it saves,
 * because other programs take its CPU in the middle of an item or because turns are too short to share, rests and tries
 * again later. Which thread takes an item changes no result (qkv_parallel). */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"

/* Seconds. */
/* The spinning of an undisturbed wait: longer than what one thread does alone between turns. */
#define SPIN           100e-6
#define SPIN_DISTURBED 5e-6
#define GAP            100e-6 /* a spinning thread that is stopped for so long was disturbed */
#define DISTURBED      0.1    /* after a disturbance, other programs are assumed to want the CPUs for so long */
#define WAKE           5e-6   /* what waking a thread costs the caller, about */
#define DEBT           0.5e-3 /* a thread rests when its balance is below minus this */
#define SAVINGS        20e-3  /* upper bound of a balance */
#define REST_SHORTEST  20e-3
#define REST_LONGEST   0.3

enum {
    CHECK = 32,             /* spins between two readings of the clock */
    STACK = 1 << 19,        /* bytes of a thread's stack: items need 64 KiB, and programs may have thread-local data */
    INSIDE = (1 << 12) - 1, /* the state of a turn: how many threads are in it, */
    OPEN = INSIDE + 1,      /* whether more may come, */
    ENDS = OPEN << 1,       /* whether threads end, */
    TURN = ENDS << 1        /* and its number, modulo the remaining bits */
};

struct team_thread {
    struct qkv_team *team;
    pthread_t thread;
    int number;     /* 1, 2, …: the caller is 0 */
    unsigned last;  /* the number of the latest turn that it joined */
    bool woken;     /* it slept before this turn */
    double balance; /* seconds that it saved the caller, minus those that it cost */
    double rest;    /* length of the next rest, in seconds */
};

struct qkv_team {
    struct team_thread **threads;
    int count, capacity, wanted;
    /* number of forks when it was started: a forked child has the memory of the threads, but not the threads */
    unsigned forks;
    unsigned turn; /* used by the caller only */
    /* The turn: the caller writes these before it opens the turn. */
    qkv_body *body;
    void *argument;
    int limit; /* threads from this number on do not join */
    double opened, closed;
    _Alignas(QKV_CACHE_LINE) atomic_uint state;
    atomic_uint waits; /* whether the caller sleeps until all threads have left */
    _Alignas(QKV_CACHE_LINE) atomic_size_t next;
    atomic_size_t items;
    _Alignas(QKV_CACHE_LINE) atomic_int sleeping;
    atomic_int resting;
    atomic_uint ends;
    _Atomic double disturbed; /* until this time */
};

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Sleeps while *word is `value`, for at most `seconds` (0: no limit). Returns whether a thread woke it. */
static bool futex_sleep(atomic_uint *word, unsigned value, double seconds) {
    const struct timespec limit = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};
    return syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, seconds > 0 ? &limit : NULL, NULL, 0) == 0;
}

static int futex_wake(atomic_uint *word, int max_threads) {
    const long woken = syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, max_threads, NULL, NULL, 0);
    return woken < 0 ? 0 : (int)woken;
}

/* A wait, from its first reading of the clock on. */
struct wait {
    unsigned spins;
    double began, before;
};

/* Whether the wait still spins. */
static bool wait_spins(struct qkv_team *team, struct wait *wait) {
    relax();
    if (++wait->spins % CHECK) return true;
    const double now = qkv_clock();
    if (wait->spins == CHECK) wait->began = wait->before = now;
    if (now - wait->before > GAP) atomic_store_explicit(&team->disturbed, now + DISTURBED, memory_order_relaxed);
    wait->before = now;
    const bool disturbed = now < atomic_load_explicit(&team->disturbed, memory_order_relaxed);
    return now - wait->began < (disturbed ? SPIN_DISTURBED : SPIN);
}

/* Wakes as many sleeping threads as a turn of `items` items can use; each of them wakes more. */
static void team_wake(struct qkv_team *team, size_t items) {
    const int sleeping = atomic_load(&team->sleeping);
    if (sleeping <= 0) return;
    const int useful = items - 1 < (size_t)team->count ? (int)items - 1 : team->count;
    const int missing = useful - (team->count - sleeping - atomic_load_explicit(&team->resting, memory_order_relaxed));
    if (missing > 0) atomic_fetch_sub(&team->sleeping, futex_wake(&team->state, missing < 2 ? missing : 2));
}

/* ---- a thread of the team ---------------------------------------------------------------------------------------- */

static unsigned turn_of(unsigned state) {
    return state & ~(unsigned)(TURN - 1);
}

/* Waits for an open turn that it has not joined, or for the end of the team; returns the state. */
static unsigned thread_wait(struct team_thread *t) {
    struct qkv_team *team = t->team;
    struct wait wait = {0};
    t->woken = false;
    for (;;) {
        const unsigned state = atomic_load_explicit(&team->state, memory_order_acquire);
        if ((state & ENDS) || ((state & OPEN) && turn_of(state) != t->last)) return state;
        if (wait_spins(team, &wait)) continue;
        atomic_fetch_add(&team->sleeping, 1);
        if (futex_sleep(&team->state, state, 0))
            t->woken = true; /* the thread that woke it has counted that */
        else
            atomic_fetch_sub(&team->sleeping, 1);
        wait = (struct wait){0};
    }
}

/* Joins the turn of `state`; false if that turn has nothing to do for it. */
static bool thread_enter(struct team_thread *t, unsigned state) {
    struct qkv_team *team = t->team;
    t->last = turn_of(state);
    if (atomic_load_explicit(&team->next, memory_order_relaxed) >=
        atomic_load_explicit(&team->items, memory_order_relaxed))
        return false;
    while ((state & OPEN) && turn_of(state) == t->last)
        if (atomic_compare_exchange_weak(&team->state, &state, state + 1)) return true;
    return false;
}

static void thread_leave(struct qkv_team *team) {
    const unsigned state = atomic_fetch_sub(&team->state, 1);
    if (!(state & OPEN) && (state & INSIDE) == 1 && atomic_exchange(&team->waits, 0)) futex_wake(&team->waits, 1);
}

static void team_items(struct qkv_team *team, int thread) {
    const size_t items = atomic_load_explicit(&team->items, memory_order_relaxed);
    for (size_t item; (item = atomic_fetch_add_explicit(&team->next, 1, memory_order_relaxed)) < items;)
        team->body(team->argument, item, thread);
}

/* The caller's gain in this turn: the seconds of items that this thread worked on at the same time as the caller, minus
 * those that the caller waits for it. */
static double thread_gain(const struct qkv_team *team, double entered) {
    const double now = qkv_clock(), worked = now - entered;
    if (atomic_load_explicit(&team->state, memory_order_acquire) & OPEN) return worked;
    const double turn = team->closed - team->opened;
    return (worked < turn ? worked : turn) - (now - team->closed);
}

static void thread_turn(struct team_thread *t, unsigned state) {
    struct qkv_team *team = t->team;
    if (t->woken) t->balance -= WAKE;
    if (!thread_enter(t, state)) return;
    if (t->woken) team_wake(team, SIZE_MAX);
    const double entered = qkv_clock();
    if (t->number < team->limit) team_items(team, t->number);
    t->balance += thread_gain(team, entered);
    thread_leave(team);
}

static void thread_rest(struct team_thread *t) {
    struct qkv_team *team = t->team;
    if (t->balance > SAVINGS) t->balance = SAVINGS, t->rest = REST_SHORTEST;
    if (t->balance > -DEBT) return;
    atomic_fetch_add(&team->resting, 1);
    const double end = qkv_clock() + t->rest;
    for (double now; !atomic_load(&team->ends) && (now = qkv_clock()) < end;) futex_sleep(&team->ends, 0, end - now);
    atomic_fetch_sub(&team->resting, 1);
    t->balance = 0;
    t->rest = 2 * t->rest < REST_LONGEST ? 2 * t->rest : REST_LONGEST;
}

static void *thread_run(void *argument) {
    struct team_thread *t = argument;
    for (unsigned state; !((state = thread_wait(t)) & ENDS);) {
        thread_turn(t, state);
        thread_rest(t);
    }
    return NULL;
}

/* ---- the caller -------------------------------------------------------------------------------------------------- */

/* Waits until all threads have left the turn. */
static void team_join(struct qkv_team *team) {
    struct wait wait = {0};
    while (atomic_load(&team->state) & INSIDE) {
        if (wait_spins(team, &wait)) continue;
        atomic_store(&team->waits, 1);
        if (atomic_load(&team->state) & INSIDE) futex_sleep(&team->waits, 1, 0);
        atomic_store(&team->waits, 0);
    }
}

/* ---- starting and ending ----------------------------------------------------------------------------------------- */

static atomic_uint team_forks;

static void team_forked(void) {
    atomic_fetch_add(&team_forks, 1);
}

static void team_watch_forks(void) {
    pthread_atfork(NULL, NULL, team_forked);
}

static void team_clear(struct qkv_team *team) {
    team->count = team->wanted = 0;
    team->forks = atomic_load(&team_forks);
    atomic_store(&team->state, team->turn);
    atomic_store(&team->waits, 0);
    atomic_store(&team->sleeping, 0);
    atomic_store(&team->resting, 0);
    atomic_store(&team->ends, 0);
}

/* In a forked child: the threads exist only in the parent. */
static void team_forget(struct qkv_team *team) {
    for (int i = 0; i < team->count; i++) free(team->threads[i]);
    team_clear(team);
}

static struct qkv_team *team_create(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, team_watch_forks);
    struct qkv_team *team = aligned_alloc(QKV_CACHE_LINE, sizeof *team);
    if (!team) return NULL;
    memset(team, 0, sizeof *team);
    team->forks = atomic_load(&team_forks);
    return team;
}

static bool team_add(struct qkv_team *team, const pthread_attr_t *attributes) {
    struct team_thread *t = calloc(1, sizeof *t);
    if (!t) return false;
    *t = (struct team_thread){
        .team = team, .number = team->count + 1, .last = turn_of(team->turn), .rest = REST_SHORTEST};
    if (pthread_create(&t->thread, attributes, thread_run, t)) {
        free(t);
        return false;
    }
    team->threads[team->count++] = t;
    return true;
}

/* Threads of the team block all signals, which are for the threads of the program. */
static void team_grow(struct qkv_team *team, int count) {
    sigset_t all, before;
    pthread_attr_t attributes;
    if (count < 1) return;
    struct team_thread **threads = realloc(team->threads, (size_t)count * sizeof(struct team_thread *));
    if (!threads || (team->threads = threads, pthread_attr_init(&attributes))) return;
    pthread_attr_setstacksize(&attributes, STACK);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (team->count < count && team_add(team, &attributes)) continue;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
}

static void team_end(struct qkv_team *team) {
    atomic_store(&team->ends, 1);
    atomic_store(&team->state, (team->turn += TURN) | ENDS);
    futex_wake(&team->state, INT_MAX);
    futex_wake(&team->ends, INT_MAX);
    for (int i = 0; i < team->count; i++) {
        pthread_join(team->threads[i]->thread, NULL);
        free(team->threads[i]);
    }
    team_clear(team);
}

/* If the system refuses more threads, half of the running ones are ended, so that something is left for other programs,
 * and for the caller's memory. */
int qkv_team_start(struct qkv_context *ctx, int threads) {
    if (threads <= 1) return 1;
    struct qkv_team *team = ctx->team ? ctx->team : (ctx->team = team_create());
    if (!team) return 1;
    if (team->forks != atomic_load(&team_forks)) team_forget(team);
    if (team->wanted < threads) {
        team->wanted = threads;
        team_grow(team, threads - 1);
        const int half = team->count / 2;
        if (team->count == threads - 1) return threads;
        team_end(team);
        team_grow(team, half);
        team->wanted = threads;
    }
    return team->count + 1;
}

/* ---- a turn ------------------------------------------------------------------------------------------------------ */

bool qkv_team_run(struct qkv_context *ctx, size_t count, qkv_body *body, void *argument) {
    struct qkv_team *team = ctx->team;
    if (!team || team->wanted < ctx->threads ||
        team->forks != atomic_load_explicit(&team_forks, memory_order_relaxed)) {
        qkv_team_start(ctx, ctx->threads);
        team = ctx->team;
    }
    if (!team || atomic_load_explicit(&team->resting, memory_order_relaxed) == team->count) return false;
    team->body = body;
    team->argument = argument;
    team->limit = ctx->threads;
    atomic_store_explicit(&team->items, count, memory_order_relaxed);
    atomic_store_explicit(&team->next, 0, memory_order_relaxed);
    team->opened = qkv_clock();
    team->turn += TURN;
    atomic_store(&team->state, team->turn | OPEN);
    team_wake(team, count);
    team_items(team, 0);
    team->closed = qkv_clock();
    if (atomic_fetch_and(&team->state, ~(unsigned)OPEN) & INSIDE) team_join(team);
    return true;
}

void qkv_team_free(struct qkv_context *ctx) {
    struct qkv_team *team = ctx->team;
    ctx->team = NULL;
    if (!team) return;
    if (team->forks != atomic_load(&team_forks)) team_forget(team);
    team_end(team);
    free(team->threads);
    free(team);
}
