/* cli_ranks.h: several ranks: processes that a launcher has started together. */
#ifndef QKV_CLI_RANKS_H
#define QKV_CLI_RANKS_H

#include "cli.h"

/* ---- joining and leaving (ranks.c) ------------------------------------------------------------------------------- */

/* Whether this rank does nothing, because rank 0 does the command alone. */
bool cli_ranks_idle(const struct cli_command *command);
/* Joins the ranks, if there are several, for the contexts that are opened later; all must have been started with the
 * same words. For a command that rank 0 does alone, only compares the words, if the ranks can reach each other.
 * Returns CLI_DONE, or the exit code after a message. */
int cli_ranks_join(const struct cli_command *command, char **words, size_t count);
/* Whether this is not rank 0; rank 0 speaks for all. */
bool cli_ranks_follow(void);
int cli_ranks_count(void);
/* NULL: there is one rank. */
const struct qkv_communicator *cli_ranks_communicator(void);
/* Whether the module that joins ranks is installed; `path` becomes its path. */
enum { CLI_MODULE_PATH = 4096 + 256 };
bool cli_ranks_module(char path[CLI_MODULE_PATH]);
/* Sets how to go on; the line that reports a dead rank ends with it. */
void cli_ranks_hint(const char *format, ...) CLI_PRINTF(1, 2);
/* Ends all ranks with the command's exit code; call it when all contexts are freed. A rank that alone has failed
 * prints its message and ends all. */
void cli_ranks_leave(int code);

/* What ranks compare when they begin (ranks_compare.c). */
enum { CLI_DIFFERENCE = 1024 };
/* Sets `difference` on all ranks if one of them is another build or has other words. Returns 0, or another number if
 * a rank cannot be reached. */
int cli_ranks_compare(const struct qkv_communicator *communicator, const char *command, char **words, size_t count,
                      char difference[CLI_DIFFERENCE]);
/* Returns the threads for this rank: the CPUs that it may use, divided among the ranks of its machine that may use
 * them too. Rank 0 prints a message if the launcher has bound the ranks to fewer CPUs than there are ranks. */
int cli_ranks_threads(const struct qkv_communicator *communicator);

/* ---- a plan of ranks (info_ranks.c) ------------------------------------------------------------------------------ */

struct cli_info_ranks {
    struct qkv_model *model; /* planned */
    const char *preset;      /* NULL: none */
    int64_t ranks, groups;
    size_t batch, context;
    double network; /* gigabits a second */
};
/* Print a table with a row for each rank, or the key "ranks" and its array. Return the exit code. */
int cli_info_print_ranks(struct qkv_context *ctx, const struct cli_info_ranks *ranks);
int cli_info_put_ranks(struct qkv_context *ctx, const struct cli_info_ranks *ranks, struct qkv_json *out);

#endif
