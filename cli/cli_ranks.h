/* cli_ranks.h: what the command has for several ranks: programs that a launcher has started together. */
#ifndef QKV_CLI_RANKS_H
#define QKV_CLI_RANKS_H

#include "cli.h"

/* ---- joining and leaving (ranks.c) --------------------------------------------------------------------------------------- */

/* Whether this is one that leaves a command to rank 0. */
bool cli_ranks_idle(const struct cli_command *command);
/* Joins them, where there are several, for the contexts that are opened next; all must have been started with the same words. A command
 * that is left to rank 0 only compares these, where the ranks can reach each other. CLI_DONE, or the exit code after a message. */
int cli_ranks_join(const struct cli_command *command, char **words, size_t count);
/* Whether this is not rank 0, which speaks for all. */
bool cli_ranks_follow(void);
int cli_ranks_count(void);
/* NULL: there is one rank. */
const struct qkv_communicator *cli_ranks_communicator(void);
/* Whether the module that joins ranks is there; `path` becomes the place where it is. */
enum { CLI_MODULE_PATH = 4096 + 256 };
bool cli_ranks_module(char path[CLI_MODULE_PATH]);
/* What is said behind the line that names a rank that has died: how to go on. */
void cli_ranks_hint(const char *format, ...) CLI_PRINTF(1, 2);
/* All end, with the command's exit code; when the contexts are gone. A rank that has failed alone says so and ends all. */
void cli_ranks_leave(int code);

/* What ranks compare when they begin (ranks_compare.c). */
enum { CLI_DIFFERENCE = 1024 };
/* Sets `difference` on all ranks where one has another build or other words; 0, or another number where a rank cannot be reached. */
int cli_ranks_compare(const struct qkv_communicator *communicator, const char *command, char **words, size_t count,
                      char difference[CLI_DIFFERENCE]);
/* Threads for this rank: the CPUs that it may use, divided among the ranks of its machine that may use them too. Rank 0 says so where the
 * launcher has bound them to fewer than there are ranks. */
int cli_ranks_threads(const struct qkv_communicator *communicator);

/* ---- a plan of ranks (info_ranks.c) ---------------------------------------------------------------------------------- */

struct cli_info_ranks {
    struct qkv_model *model; /* planned */
    const char *preset;      /* NULL: none */
    int64_t ranks, groups;
    size_t batch, context;
    double network; /* gigabits a second */
};
/* A table with a row for each rank, or the key "ranks" and its array; the exit code. */
int cli_info_print_ranks(struct qkv_context *ctx, const struct cli_info_ranks *ranks);
int cli_info_put_ranks(struct qkv_context *ctx, const struct cli_info_ranks *ranks, struct qkv_json *out);

#endif
