/* ranks_compare.c: what ranks compare when they begin: their builds, their command lines, and the CPUs that they may
 * use. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli_ranks.h"

/* ---- builds and words -------------------------------------------------------------------------------------------- */

/* These options may differ from machine to machine. */
static bool ranks_may_differ(const char *word) {
    static const char *const names[] = {"--threads", "--isa"};
    for (size_t i = 0; i < CLI_COUNT_OF(names); i++) {
        const size_t n = strlen(names[i]);
        if (!strncmp(word, names[i], n) && (!word[n] || word[n] == '=')) return true;
    }
    return false;
}

/* Joins the command and its words without those options, a NUL after each and an empty word at the end; NULL without
 * memory. */
static char *ranks_join_words(const char *command, char **words, size_t count, size_t *size) {
    size_t room = strlen(command) + 2;
    for (size_t i = 0; i < count; i++) room += strlen(words[i]) + 1;
    char *text = calloc(1, room), *at = text;
    if (!text) return NULL;
    at = stpcpy(at, command) + 1;
    for (size_t i = 0; i < count; i++) {
        if (ranks_may_differ(words[i]))
            i += !strchr(words[i], '='); /* skips its value */
        else
            at = stpcpy(at, words[i]) + 1;
    }
    *size = (size_t)(at - text) + 1;
    return text;
}

/* Describes the first word that differs, and the option before it. */
static void ranks_find_difference(const char *first, const char *other, int rank, char difference[CLI_DIFFERENCE]) {
    const char *before = "";
    while (*first && !strcmp(first, other)) {
        before = first;
        first += strlen(first) + 1;
        other += strlen(other) + 1;
    }
    if (!*first && !*other) return;
    const char *space = before[0] == '-' && !strchr(before, '=') ? " " : "";
    if (!*space) before = "";
    snprintf(difference, CLI_DIFFERENCE,
             "rank %d was started with %s%s%.200s, rank 0 with %s%s%.200s; start all ranks with the same words", rank,
             before, space, *other ? other : "nothing more", before, space, *first ? first : "nothing more");
}

/* Rank 0 receives the bytes of rank `from` into new memory; the others send theirs. */
static int ranks_fetch(const struct qkv_communicator *c, int from, const char *own, size_t size, char **got) {
    size_t bytes = size;
    *got = NULL;
    if (c->rank) {
        const int error = c->exchange(c->state, 0, &bytes, sizeof bytes, 0, NULL, 0);
        return error ? error : c->exchange(c->state, 0, own, bytes, 0, NULL, 0);
    }
    int error = c->exchange(c->state, from, NULL, 0, from, &bytes, sizeof bytes);
    if (!error) *got = malloc(bytes + 1);
    if (!error && !*got) return -1;
    return error ? error : c->exchange(c->state, from, NULL, 0, from, *got, bytes);
}

int cli_ranks_compare(const struct qkv_communicator *c, const char *command, char **words, size_t count,
                      char difference[CLI_DIFFERENCE]) {
    enum { VERSION = 64 };
    char version[VERSION] = "", *versions = calloc((size_t)c->ranks, VERSION);
    size_t size = 0;
    char *own = ranks_join_words(command, words, count, &size);
    snprintf(version, sizeof version, "%s", qkv_version());
    int error = own && versions ? c->gather(c->state, 0, version, VERSION, c->rank ? NULL : versions) : -1;
    for (int r = 1; !error && r < c->ranks; r++) {
        char *other;
        if (c->rank && c->rank != r) continue;
        error = ranks_fetch(c, r, own, size, &other);
        const char *theirs = versions + (size_t)r * VERSION;
        if (!error && other && !*difference && strcmp(theirs, version) != 0)
            snprintf(difference, CLI_DIFFERENCE,
                     "rank %d runs qkv %.60s, rank 0 qkv %s; all ranks must run the same build", r, theirs, version);
        if (!error && other && !*difference) ranks_find_difference(own, other, r, difference);
        free(other);
    }
    if (!error) error = c->broadcast(c->state, 0, difference, CLI_DIFFERENCE);
    free(own);
    free(versions);
    return error;
}

/* ---- CPUs -------------------------------------------------------------------------------------------------------- */

struct place {
    char host[64];
    cpu_set_t cpus;
};

static bool ranks_overlap(const struct place *a, const struct place *b) {
    cpu_set_t both;
    CPU_AND(&both, &a->cpus, &b->cpus);
    return !strcmp(a->host, b->host) && CPU_COUNT(&both) > 0;
}

/* Rank 0 prints a message if its machine has more CPUs than the launcher lets its ranks use, and these are fewer
 * than its ranks. */
static void ranks_say_bound(const struct qkv_communicator *c, const struct place *all, int online) {
    cpu_set_t any;
    int here = 0;
    CPU_ZERO(&any);
    for (int r = 0; r < c->ranks; r++) {
        if (strcmp(all[r].host, all[0].host) != 0) continue;
        here++;
        CPU_OR(&any, &any, &all[r].cpus);
    }
    const int cpus = CPU_COUNT(&any);
    if (here > cpus && cpus < online)
        cli_say("the launcher has bound the %d ranks of %s to %d of its %d CPUs, so they wait for one another; mpirun "
                "--bind-to none, or --bind-to core with as many slots as ranks, gives each rank its own CPUs",
                here, all[0].host, cpus, online);
}

int cli_ranks_threads(const struct qkv_communicator *c) {
    const struct qkv_cpus cpus = qkv_cpus_allowed();
    const int mine = cpus.affinity < cpus.quota ? cpus.affinity : cpus.quota;
    struct place own = {.host = ""}, *all = calloc((size_t)c->ranks, sizeof *all);
    int sharing = 0;
    gethostname(own.host, sizeof own.host - 1);
    CPU_ZERO(&own.cpus);
    sched_getaffinity(0, sizeof own.cpus, &own.cpus);
    if (!all || c->gather(c->state, 0, &own, sizeof own, c->rank ? NULL : all) ||
        c->broadcast(c->state, 0, all, (size_t)c->ranks * sizeof *all)) {
        free(all);
        return 1;
    }
    for (int r = 0; r < c->ranks; r++) sharing += ranks_overlap(&own, &all[r]);
    if (!c->rank) ranks_say_bound(c, all, cpus.online);
    free(all);
    return sharing > 1 && mine / sharing > 1 ? mine / sharing : sharing > 1 ? 1 : mine;
}
