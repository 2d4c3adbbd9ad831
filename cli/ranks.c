/* ranks.c: joins the ranks that a launcher (mpirun) has started together. The module qkv-mpi.so does it; only
 * commands with several ranks open it. */
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli_ranks.h"
#include "mpi/join.h"

#define MODULE "qkv-mpi.so"
#ifndef QKV_MODULES
#error "define QKV_MODULES as where modules are installed, from the folder of the command, as CMakeLists.txt does"
#endif

/* FIRST_SECONDS: rank 0 prints the reason for all in this time, and the launcher ends the others */
enum { WAIT_SECONDS = 600, FIRST_SECONDS = 1 };

static struct {
    struct qkv_communicator communicator;
    qkv_mpi_ending_function *ending;
    qkv_mpi_leave_function *leave; /* NULL: there is one rank */
    bool unequal;                  /* ranks work for different times */
    pthread_mutex_t mutex;         /* of the hint: how to go on when a rank dies */
    char hint[512];
} ranks = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* A number that a launcher of Open MPI sets for each process; 0: the process was started alone. */
static long ranks_told(const char *name) {
    const char *text = getenv(name);
    const long n = text ? strtol(text, NULL, 10) : 0;
    return n > 0 && n < INT_MAX ? n : 0;
}

/* The i-th path where the module may be: that of $QKV_MPI alone; else beside the command, then where modules are
 * installed. false past the last. */
static bool ranks_module_at(size_t i, char path[CLI_MODULE_PATH]) {
    const char *const places[] = {"/" MODULE, "/" QKV_MODULES "/" MODULE};
    const char *said = getenv("QKV_MPI");
    const bool is_said = said && *said;
    if (is_said) snprintf(path, CLI_MODULE_PATH, "%s", said);
    if (is_said || i >= CLI_COUNT_OF(places)) return is_said && !i;
    const ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);
    if (n <= 0) return false;
    path[n] = 0;
    char *slash = strrchr(path, '/');
    snprintf(slash, CLI_MODULE_PATH - (size_t)(slash - path), "%s", places[i]);
    return true;
}

bool cli_ranks_module(char path[CLI_MODULE_PATH]) {
    for (size_t i = 0; ranks_module_at(i, path); i++)
        if (access(path, R_OK) == 0) return true;
    return false;
}

static void *ranks_open_module(void) {
    char path[CLI_MODULE_PATH];
    const char *said = getenv("QKV_MPI");
    if (said && *said) return dlopen(said, RTLD_NOW | RTLD_GLOBAL); /* the linker also finds a name without a folder */
    for (size_t i = 0; ranks_module_at(i, path); i++) {
        void *module = access(path, R_OK) == 0 ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
        if (module) return module;
    }
    return NULL;
}

static double ranks_patience(void) {
    const long seconds = ranks_told("QKV_RANK_SECONDS");
    return seconds ? (double)seconds : ranks.unequal ? 0 : WAIT_SECONDS;
}

/* Finds a function of the module; ISO C cannot cast the pointer. */
static void ranks_find(void *module, const char *name, void *function) {
    void *found = dlsym(module, name);
    memcpy(function, &found, sizeof found);
}

bool cli_ranks_idle(const struct cli_command *command) {
    const long told = ranks_told("OMPI_COMM_WORLD_SIZE"), rank = ranks_told("OMPI_COMM_WORLD_RANK");
    if (told < 2 || command->ranks) return false;
    if (!rank)
        cli_say("%s does not divide its work among ranks: rank 0 of %ld does all, the others do nothing", command->name,
                told);
    return rank > 0;
}

/* ---- a rank that dies -------------------------------------------------------------------------------------------- */

void cli_ranks_hint(const char *format, ...) {
    va_list list;
    va_start(list, format);
    pthread_mutex_lock(&ranks.mutex);
    vsnprintf(ranks.hint, sizeof ranks.hint, format, list);
    pthread_mutex_unlock(&ranks.mutex);
    va_end(list);
}

/* Runs in a thread of the module when a rank dies; `first`: no other rank has noticed before. Prints nothing if
 * cli_stopping is set: then the launcher ends all ranks and has signalled this one, too. */
static void ranks_died(int rank, long pid, const char *other, bool first) {
    char host[256] = "this machine";
    cli_hush();
    if (cli_stopping || !first) return;
    if (other)
        snprintf(host, sizeof host, "%s", other);
    else
        gethostname(host, sizeof host - 1);
    pthread_mutex_lock(&ranks.mutex);
    fprintf(stderr, "qkv: rank %d of %d (process %ld on %s) has died, which ends all ranks%s%s\n", rank,
            ranks.communicator.ranks, pid, host, *ranks.hint ? "; " : "", ranks.hint);
    pthread_mutex_unlock(&ranks.mutex);
}

/* ---- beginning and ending together ------------------------------------------------------------------------------- */

/* Reports why this rank cannot reach the others. Rank 0 reports it for all, and the launcher ends them; a rank that
 * still runs then is the one that differs. */
static int ranks_refuse(long told, long rank, const char *why) {
    char host[256] = "this machine";
    if (!rank) return cli_failed("%ld ranks were started, but %s; or run the command without a launcher", told, why);
    gethostname(host, sizeof host - 1);
    sleep(FIRST_SECONDS);
    return cli_failed("rank %ld on %s differs from rank 0: %s", rank, host, why);
}

/* Open MPI waits without limit until all ranks have begun; only the end of the process stops it. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool begun;
    long told, rank, seconds;
} ranks_beginning = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* Waits second by second: time in which the whole process is stopped does not count. */
static void *ranks_watch_beginning(void *unused) {
    const long limit = ranks_beginning.seconds + (ranks_beginning.rank ? FIRST_SECONDS : 0);
    (void)unused;
    pthread_mutex_lock(&ranks_beginning.mutex);
    for (long waited = 0; waited < limit && !ranks_beginning.begun; waited++) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        while (!ranks_beginning.begun &&
               !pthread_cond_timedwait(&ranks_beginning.changed, &ranks_beginning.mutex, &until)) {
        }
    }
    if (!ranks_beginning.begun) {
        fprintf(stderr,
                "qkv: rank %ld of %ld has waited %ld seconds for the others to begin; one of them is another program "
                "or command, cannot open " MODULE ", hangs, or was not told that there are %ld ranks "
                "(OMPI_COMM_WORLD_SIZE); start all ranks alike\n",
                ranks_beginning.rank, ranks_beginning.told, ranks_beginning.seconds, ranks_beginning.told);
        _exit(CLI_FAILED);
    }
    pthread_mutex_unlock(&ranks_beginning.mutex);
    return NULL;
}

/* Joins the others; they must begin within the time that this rank waits. */
static const char *ranks_begin(qkv_mpi_join_function *join, long told, long rank) {
    const long seconds = ranks_told("QKV_RANK_SECONDS");
    pthread_t watch;
    ranks_beginning.told = told;
    ranks_beginning.rank = rank;
    ranks_beginning.seconds = seconds ? seconds : WAIT_SECONDS;
    const bool watched = !pthread_create(&watch, NULL, ranks_watch_beginning, NULL);
    const char *problem = join(&ranks.communicator, ranks_patience(), ranks_died);
    pthread_mutex_lock(&ranks_beginning.mutex);
    ranks_beginning.begun = true;
    pthread_cond_signal(&ranks_beginning.changed);
    pthread_mutex_unlock(&ranks_beginning.mutex);
    if (watched) pthread_join(watch, NULL);
    return problem;
}

/* `must`: fails if this rank cannot reach the others. */
static int ranks_open(long told, long rank, bool must) {
    qkv_mpi_join_function *join = NULL;
    char why[1024];
    void *module = ranks_open_module();
    if (!module) {
        const char *error = dlerror();
        snprintf(why, sizeof why,
                 MODULE ", by which ranks reach each other, cannot be opened%s%.600s; it is built where libopenmpi-dev "
                        "is installed (make deps, then make)",
                 error ? ": " : "", error ? error : "");
        return must ? ranks_refuse(told, rank, why) : CLI_DONE;
    }
    ranks_find(module, "qkv_mpi_join", &join);
    ranks_find(module, "qkv_mpi_ending", &ranks.ending);
    ranks_find(module, "qkv_mpi_leave", &ranks.leave);
    const bool known = join && ranks.ending && ranks.leave;
    const char *problem = known ? ranks_begin(join, told, rank) : "it is another " MODULE;
    if (!problem) return CLI_DONE;
    ranks.leave = NULL;
    snprintf(why, sizeof why, MODULE ": %s", problem);
    return must ? ranks_refuse(told, rank, why) : CLI_DONE;
}

/* Sends standard output of ranks other than 0 to /dev/null: all have the same result, and rank 0 writes it. */
static void ranks_mute(void) {
    const int nowhere = open("/dev/null", O_WRONLY);
    if (nowhere < 0) return;
    dup2(nowhere, STDOUT_FILENO);
    close(nowhere);
}

int cli_ranks_join(const struct cli_command *command, char **words, size_t count) {
    const long told = ranks_told("OMPI_COMM_WORLD_SIZE"), rank = ranks_told("OMPI_COMM_WORLD_RANK");
    char difference[CLI_DIFFERENCE] = "";
    if (told < 2) return CLI_DONE;
    ranks.unequal = command->ranks == CLI_RANKS_APART;
    int code = ranks_open(told, rank, command->ranks);
    if (code || !ranks.leave) return code;
    cli_speak_as(&ranks.communicator, 0);
    if (ranks.communicator.rank) ranks_mute();
    if (cli_ranks_compare(&ranks.communicator, command->name, words, count, difference)) return CLI_FAILED;
    if (*difference) return cli_usage("%s", difference);
    if (command->ranks)
        cli_speak_as(&ranks.communicator, cli_ranks_threads(&ranks.communicator));
    else
        cli_ranks_leave(CLI_DONE); /* the ranks joined only to be compared */
    return CLI_DONE;
}

/* Whether another rank was lost: then each rank that notices prints a message; else rank 0 speaks for all. */
static bool ranks_lost(void) {
    return ranks.leave && *ranks.communicator.reason(ranks.communicator.state);
}

bool cli_ranks_follow(void) {
    return ranks.leave && ranks.communicator.rank > 0 && !ranks_lost();
}

int cli_ranks_count(void) {
    return ranks.leave ? ranks.communicator.ranks : 1;
}

const struct qkv_communicator *cli_ranks_communicator(void) {
    return ranks.leave ? &ranks.communicator : NULL;
}

void cli_ranks_leave(int code) {
    if (!ranks.leave) return;
    const bool failed = code == CLI_FAILED || code == CLI_USAGE;
    const bool lost = ranks_lost(), alone = lost || !ranks.ending(failed);
    if (alone && cli_ranks_follow() && *cli_unsaid())
        fprintf(stderr, "qkv: rank %d: %s\n", ranks.communicator.rank, cli_unsaid());
    if (alone && !lost && ranks_lost())
        fprintf(stderr, "qkv: %s\n", ranks.communicator.reason(ranks.communicator.state));
    cli_speak_as(NULL, 0);
    ranks.leave(alone);
    ranks.leave = NULL;
}
