/* ranks.c: the ranks that a launcher (mpirun) has started together: joined over qkv-mpi.so, a module that nothing else needs. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "mpi/join.h"

#define MODULE "qkv-mpi.so"
#ifndef QKV_MODULES
#error "define QKV_MODULES as where modules are installed, from the folder of the command, as CMakeLists.txt does"
#endif

enum { WAIT_SECONDS = 600 };

static struct {
    struct qkv_communicator communicator;
    qkv_mpi_leave_function *leave; /* NULL: there is one rank */
} ranks;

/* What launchers of Open MPI tell each of their programs; 0: it was started alone. */
static long ranks_told(const char *name) {
    const char *text = getenv(name);
    const long n = text ? strtol(text, NULL, 10) : 0;
    return n > 0 && n < INT_MAX ? n : 0;
}

/* Opens the module that lies beside the command, where modules are installed, or where $QKV_MPI says. */
static void *ranks_open_module(void) {
    const char *const places[] = {"/" MODULE, "/" QKV_MODULES "/" MODULE};
    const char *said = getenv("QKV_MPI");
    char path[PATH_MAX + 256], *slash;
    if (said && *said) return dlopen(said, RTLD_NOW | RTLD_GLOBAL);
    for (size_t i = 0; i < CLI_COUNT_OF(places); i++) {
        const ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);
        if (n <= 0) return NULL;
        path[n] = 0;
        slash = strrchr(path, '/');
        snprintf(slash, sizeof path - (size_t)(slash - path), "%s", places[i]);
        void *module = access(path, R_OK) == 0 ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
        if (module) return module;
    }
    return NULL;
}

static double ranks_patience(void) {
    const long seconds = ranks_told("QKV_RANK_SECONDS");
    return seconds ? (double)seconds : WAIT_SECONDS;
}

/* A function of the module, which ISO C has no cast for. */
static void ranks_find(void *module, const char *name, void *function) {
    void *found = dlsym(module, name);
    memcpy(function, &found, sizeof found);
}

/* The CPUs that this rank may use, shared with the ranks of its host that may use as many: each of its own where the launcher bound it. */
static int ranks_threads(void) {
    const struct qkv_cpus cpus = qkv_cpus_allowed();
    const int here = (int)ranks_told("OMPI_COMM_WORLD_LOCAL_SIZE"),
              least = cpus.affinity < cpus.quota ? cpus.affinity : cpus.quota;
    if (here < 2 || cpus.online < 1) return 0;
    const int sharing = here * cpus.affinity / cpus.online, threads = sharing > 1 ? least / sharing : least;
    return threads > 1 ? threads : 1;
}

bool cli_ranks_idle(const struct cli_command *command) {
    const long told = ranks_told("OMPI_COMM_WORLD_SIZE"), rank = ranks_told("OMPI_COMM_WORLD_RANK");
    if (told < 2 || command->ranks) return false;
    if (!rank)
        cli_say("%s is not divided among ranks: rank 0 of %ld does it, the others do nothing", command->name, told);
    return rank > 0;
}

int cli_ranks_join(void) {
    qkv_mpi_join_function *join = NULL;
    const long told = ranks_told("OMPI_COMM_WORLD_SIZE"), rank = ranks_told("OMPI_COMM_WORLD_RANK");
    if (told < 2) return CLI_DONE;
    void *module = ranks_open_module();
    if (!module) {
        const char *why = dlerror();
        return rank ? CLI_FAILED
                    : cli_failed(
                          "%ld ranks were started, but " MODULE
                          ", by which they reach each other, cannot be opened%s%s; it is built where libopenmpi-dev "
                          "is installed (make deps, then make); or run the command without a launcher",
                          told, why ? ": " : "", why ? why : "");
    }
    ranks_find(module, "qkv_mpi_join", &join);
    ranks_find(module, "qkv_mpi_leave", &ranks.leave);
    const char *problem = join && ranks.leave ? join(&ranks.communicator, ranks_patience()) : "it is another " MODULE;
    if (!problem) cli_speak_as(&ranks.communicator, ranks_threads());
    if (!problem) return CLI_DONE;
    ranks.leave = NULL;
    return cli_failed(MODULE ": %s", problem);
}

/* Whether another rank was lost; then each rank that finds out says so, and else rank 0 speaks for all. */
static bool ranks_lost(void) {
    return ranks.leave && *ranks.communicator.reason(ranks.communicator.state);
}

bool cli_ranks_follow(void) {
    return ranks.leave && ranks.communicator.rank > 0 && !ranks_lost();
}

void cli_ranks_leave(void) {
    cli_speak_as(NULL, 0);
    if (ranks.leave) ranks.leave(ranks_lost());
    ranks.leave = NULL;
}
