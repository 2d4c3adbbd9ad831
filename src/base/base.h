/* base: the basic tools of all other rooms.
 *
 * Offers: the failure sentence of a context (qkv_fail), checked sizes and heap blocks, arenas, growable byte buffers,
 * parallel ranges over the threads of a context, counter-based random numbers, reading and atomic replacement of files,
 * and element types with their conversions. Includes nothing of the other rooms.
 *
 * Everything with external linkage is called qkv_*; the shared library exports only what include/qkv.h declares. */
#ifndef QKV_BASE_H
#define QKV_BASE_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <sys/types.h>

#include "qkv.h"

#include "base/support.h"

#if defined(__GNUC__)
#define QKV_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define QKV_PRINTF(text, first)
#endif

#define QKV_CACHE_LINE 64

/* ---- context and failure (status.c) ------------------------------------------------------------------------ */

struct qkv_kernels; /* the kernel table, see kernel/kernel.h */
struct qkv_backend; /* base/backend.h */
struct qkv_arena;
struct qkv_profile;
struct qkv_team;

struct qkv_context {
    int threads;                       /* >= 1 */
    int cpus;                          /* that the process could use when the context was made */
    struct qkv_team *team;             /* the other threads of the context; NULL: none were started */
    bool ignore_memory, ignore_digest; /* as in struct qkv_context_options */
    const struct qkv_backend *backend; /* where numbers are, and what computes with them */
    bool at_most;                      /* within qkv_plan_at_most */
    const struct qkv_kernels *kernels; /* chosen once, by qkv_context_create */
    char isa[16];                      /* the name of that table, "avx2" */
    enum qkv_precision precision;      /* of matrix products and of activations saved for backward */
    enum qkv_precision automatic;      /* what QKV_PRECISION_AUTO means here: see qkv_auto_precision */
    size_t l1d, l2;                    /* bytes of the caches of one CPU; 0: unknown */
    struct qkv_file_list *files;       /* of the work that is being done; NULL: files are not listed */
    char threads_note[160];            /* why there are fewer threads than requested; "" */
    char message[1024];                /* the sentence of the latest call's failure */
    bool key_failed;                   /* the sentence is about the key of a spec at failed_key */
    char failed_key[160];              /* "" is the whole spec */
    int calls;                         /* depth of public calls: one may call another */
    _Atomic(const void *) caller;      /* the thread of the call that runs (status.c); NULL: none runs */
    atomic_bool cancelled;             /* qkv_context_cancel */
    struct qkv_communicator ranks;     /* ranks 0: this process alone */
    double alive;                      /* clock of the latest qkv_rank_alive that told the other ranks */
    struct qkv_profile *profile;       /* where time is counted (base/profile.h); NULL: it is not */
    struct qkv_inputs *inputs;         /* where inputs of products are added up (op/inputs.h); NULL: they are not */
    struct qkv_arena *workspace;       /* scratch of single calls (qkv_workspace); NULL before the first */
    /* The files that say how much memory there is; NULL: the system's own. */
    const struct qkv_memory_files *memory_files;
};

/* Records the sentence and returns `status`, so that `return qkv_fail(...)` is the whole error path.
 * A NULL context only returns the status. */
enum qkv_status qkv_fail(struct qkv_context *ctx, enum qkv_status status, const char *format, ...) QKV_PRINTF(3, 4);
enum qkv_status qkv_fail_memory(struct qkv_context *ctx, size_t bytes, const char *what);
/* A public function has these after QKV_CALL: QKV_NEED for each pointer that must not be NULL, QKV_NEED_ALL for an
 * array of `count` elements. If the pointer is NULL, the function returns QKV_ARGUMENT with a sentence that names the
 * function and the parameter. Functions that return no status return a neutral value. (tests/null_calls.awk calls every
 * public function with NULL for each pointer in turn.) */
#define QKV_NEED(context, pointer)                                                                                     \
    do {                                                                                                               \
        if (!(pointer)) return qkv_fail_null(context, __func__, #pointer, NULL);                                       \
    } while (0)
#define QKV_NEED_ALL(context, count, array)                                                                            \
    do {                                                                                                               \
        if ((count) && !(array)) return qkv_fail_null(context, __func__, #array, #count);                              \
    } while (0)
enum qkv_status qkv_fail_null(struct qkv_context *ctx, const char *function, const char *pointer, const char *count);
/* Clears the sentence, for a caller that recovers from a failure. */
void qkv_forgive(struct qkv_context *ctx);
/* The first line of every public function that returns a status. It clears the sentence if a user of the library made
 * the call, but not inside another public function, which may have failed already. So after a success the sentence is
 * empty. The function returns QKV_ARGUMENT if another thread is inside a call with this context. (tests/cli/calls.sh
 * finds functions without it.) The context may be NULL. */
#define QKV_CALL(context)                                                                                              \
    struct qkv_context *qkv_call __attribute__((cleanup(qkv_call_end), unused)) = qkv_call_begin(context);             \
    if (!qkv_call && (context)) return QKV_ARGUMENT
/* The same for a function that makes an object: *out becomes NULL, whatever happens next. */
#define QKV_CALL_OUT(context, out)                                                                                     \
    struct qkv_context *qkv_call __attribute__((cleanup(qkv_call_end), unused)) = qkv_call_begin(context);             \
    if (out) *(out) = NULL;                                                                                            \
    if (!qkv_call && (context)) return QKV_ARGUMENT;                                                                   \
    QKV_NEED(qkv_call, out)
struct qkv_context *qkv_call_begin(struct qkv_context *ctx);
void qkv_call_end(struct qkv_context **ctx);
/* The number of contexts of this process that are inside a public call. Any thread. */
int qkv_calls_running(void);
/* Fails with QKV_STOPPED if the context's work is cancelled (qkv_context_cancel). `what`: "generating". Long work calls
 * it where it can stop without leaving anything half done. */
enum qkv_status qkv_check_cancelled(struct qkv_context *ctx, const char *what);
/* "2.1 GiB"; returns `text`. */
#define QKV_BYTES_TEXT 32
const char *qkv_bytes_text(char text[QKV_BYTES_TEXT], size_t bytes);
/* Says which key of a spec the sentence is about (qkv_message_key); "" for the whole spec. */
void qkv_fail_key(struct qkv_context *ctx, const char *path);
/* Appends ", at <place>" to the sentence: "…, at decoder.layers.3.ffn.up". */
void qkv_fail_at(struct qkv_context *ctx, const char *format, ...) QKV_PRINTF(2, 3);
/* Replaces `from` by `to` in the sentence, if `from` is in it. */
void qkv_fail_elsewhere(struct qkv_context *ctx, const char *from, const char *to);

/* ---- ranks (ranks.c) -------------------------------------------------------------------------------------------
 * Every rank makes the same calls in the same order. All fail with QKV_RANK if another rank cannot be reached. */

/* Long work calls this every few seconds: a rank that is silent longer is treated as hung. A call that has nothing to
 * send only reads the clock. Not during backward of a training step, when another thread uses the communicator. */
void qkv_rank_alive(struct qkv_context *ctx);

enum qkv_status qkv_rank_exchange(struct qkv_context *ctx, int to, const void *sent, size_t sent_bytes, int from,
                                  void *received, size_t received_bytes);
/* From rank 0 to all ranks. */
enum qkv_status qkv_rank_broadcast(struct qkv_context *ctx, void *data, size_t bytes);
/* `all` receives the bytes of every rank, in the order of ranks. */
enum qkv_status qkv_rank_gather(struct qkv_context *ctx, const void *own, size_t bytes, void *all);
/* Exchanges statuses: every rank returns the status of the first rank that failed, with that rank's number before the
 * sentence; QKV_OK if none failed. */
enum qkv_status qkv_rank_agree(struct qkv_context *ctx, enum qkv_status status);
/* The same if the statuses of all ranks are already in `all`. */
enum qkv_status qkv_rank_judge(struct qkv_context *ctx, enum qkv_status status, const int32_t *all);

/* The status of an error that a function of the communicator returned to a worker: QKV_OK for 0. */
enum qkv_status qkv_rank_lost(struct qkv_context *ctx, int error);

/* ---- a worker thread (worker.c) --------------------------------------------------------------------------------
 * Does items 0, 1, … of a turn in order, as they become ready. */

struct qkv_worker;
/* Does one item. Not 0: an error; the other items of the turn are skipped. It may not touch the context. */
typedef int qkv_worker_body(void *argument, size_t item);
enum qkv_status qkv_worker_create(struct qkv_context *ctx, qkv_worker_body *body, void *argument,
                                  struct qkv_worker **out);
/* Not while items are in work. NULL: does nothing. */
void qkv_worker_free(struct qkv_worker *worker);
/* Items below `ready` may be done from now on. */
void qkv_worker_publish(struct qkv_worker *worker, size_t ready);
/* Publishes all `items`, waits until they are done, and begins a new turn. Returns the first error, or 0. *busy: the
 * seconds that the worker was busy in this turn; *hidden: the seconds of them before this call. */
int qkv_worker_finish(struct qkv_worker *worker, size_t items, double *busy, double *hidden);

/* ---- sizes and heap blocks (memory.c) --------------------------------------------------------------------------
 * Sums and products of sizes are checked: false (and *out = SIZE_MAX) if they do not fit. */
bool qkv_multiply(size_t a, size_t b, size_t *out);
bool qkv_add_size(size_t a, size_t b, size_t *out);
static inline size_t qkv_min(size_t a, size_t b) {
    return a < b ? a : b;
}
static inline size_t qkv_max(size_t a, size_t b) {
    return a > b ? a : b;
}
/* The number of pieces of `size` > 0 that hold n; and n rounded up to a multiple, which must fit in size_t. */
static inline size_t qkv_pieces(size_t n, size_t size) {
    return n / size + (n % size != 0);
}
static inline size_t qkv_round_up(size_t n, size_t multiple) {
    return qkv_pieces(n, multiple) * multiple;
}

/* A zeroed heap block of count × size bytes, or NULL with the sentence recorded. free() it. */
void *qkv_allocate(struct qkv_context *ctx, size_t count, size_t size);
/* Grows or shrinks a heap block to count × size bytes; on failure NULL is returned, the old block stays valid and the
 * sentence is recorded. */
void *qkv_reallocate(struct qkv_context *ctx, void *block, size_t count, size_t size);
/* A heap copy of a string (of its first n bytes, with a terminating zero), or NULL with the sentence recorded. */
char *qkv_copy_string(struct qkv_context *ctx, const char *s);
char *qkv_copy_bytes(struct qkv_context *ctx, const void *s, size_t n);

/* A growable byte buffer (struct qkv_buffer of base/support.h), {0} at first. After the first append its data has a zero
 * behind the last byte. */
enum qkv_status qkv_buffer_append(struct qkv_context *ctx, struct qkv_buffer *b, const void *data, size_t n);
enum qkv_status qkv_buffer_print(struct qkv_context *ctx, struct qkv_buffer *b, const char *format, ...)
    QKV_PRINTF(3, 4);
void qkv_buffer_free(struct qkv_buffer *b);

/* Room for `more` items of `size` bytes after the first `count` of a growing list. Returns the block itself if its
 * capacity is enough, else a larger block of at least twice the capacity; NULL with the sentence recorded, and the list
 * is unchanged. */
void *qkv_list_room(struct qkv_context *ctx, void *items, size_t *capacity, size_t count, size_t more, size_t size);

/* Whether a text matches a pattern: * matches any characters, ? matches one (texts.c). */
bool qkv_text_matches(const char *text, const char *pattern);
/* A growable list that owns its texts (texts.c), {0} at first; adding copies. */
struct qkv_texts {
    char **items;
    size_t count, capacity;
};
enum qkv_status qkv_texts_add(struct qkv_context *ctx, struct qkv_texts *list, const char *format, ...)
    QKV_PRINTF(3, 4);
enum qkv_status qkv_texts_print(struct qkv_context *ctx, struct qkv_texts *list, const char *format, va_list arguments)
    QKV_PRINTF(3, 0);
void qkv_texts_free(struct qkv_texts *list);
/* The absolute path of a folder, or of a file by its own name: a link's name says what it has, as "a.jsonl" does, and
 * that of its target may not. The caller frees *path. (list_files.c) */
enum qkv_status qkv_absolute_path(struct qkv_context *ctx, const char *name, char **path);
/* Adds the absolute paths of the files that `count` names mean, up to a name that is NULL (list_files.c). A file means
 * itself; a folder means its regular files, sorted by the bytes of their names. Hidden files are left out. Other
 * entries of a folder get a line in `notes`, which may be NULL. A folder without files fails. Whether the files can be
 * read is not checked. */
enum qkv_status qkv_list_files(struct qkv_context *ctx, const char *const *names, size_t count, struct qkv_texts *paths,
                               struct qkv_texts *notes);

/* ---- arenas (arena.c) ------------------------------------------------------------------------------------------
 * An arena is one mapping. It is handed out front to back in 64-byte aligned pieces, and released as a whole or back to
 * a mark. Creating one is refused if there is not as much memory (qkv_memory_check).
 * A measuring arena hands out addresses that nobody may touch, and only counts: run a plan on it while the context
 * plans, and `peak` is the exact memory that the plan needs. */
struct qkv_arena {
    struct qkv_context *ctx;
    const struct qkv_backend *backend; /* whose memory it is; NULL: the host's */
    unsigned char *base;
    size_t capacity, used, peak;
    size_t discarded; /* bytes of pieces that qkv_arena_discard freed */
    bool measuring;
    const char *what; /* for messages: "parameters", "one step" */
};
enum qkv_status qkv_arena_create(struct qkv_context *ctx, struct qkv_arena *arena, size_t capacity, const char *what);
/* The same in the memory of the context's backend, for numbers: the host touches it only through the backend's rows. */
enum qkv_status qkv_arena_create_numbers(struct qkv_context *ctx, struct qkv_arena *arena, size_t capacity,
                                         const char *what);
void qkv_arena_measure(struct qkv_context *ctx, struct qkv_arena *arena, const char *what);
void qkv_arena_free(struct qkv_arena *arena);
/* count × size bytes, 64-byte aligned, not zeroed; NULL with the sentence recorded when they do not fit.
 * count × size = 0 gives a valid address too. */
void *qkv_arena_take(struct qkv_arena *arena, size_t count, size_t size);
/* Frees the memory of a piece of `bytes` bytes, except pages that it shares with other pieces. The piece is not touched
 * again. */
void qkv_arena_discard(struct qkv_arena *arena, void *piece, size_t bytes);
size_t qkv_arena_mark(const struct qkv_arena *arena);
void qkv_arena_release(struct qkv_arena *arena, size_t mark);
/* From begin to end the context has the backend that plans for its own, no profile and no inputs; begin returns what it
 * had. */
struct qkv_planning {
    const struct qkv_backend *backend;
    struct qkv_profile *profile;
    struct qkv_inputs *inputs;
};
struct qkv_planning qkv_planning_begin(struct qkv_context *ctx);
void qkv_planning_end(struct qkv_context *ctx, struct qkv_planning had);
/* Sets *bytes to the memory that plan(argument) takes of `arena`, or leaves it if it is larger. Meanwhile the context
 * plans, and the arena only counts; afterwards the arena is as before. `what` is for messages. */
typedef enum qkv_status qkv_plan_body(void *argument);
enum qkv_status qkv_plan(struct qkv_context *ctx, struct qkv_arena *arena, const char *what, qkv_plan_body *plan,
                         void *argument, size_t *bytes);
/* The same for every forward pass of at most the rows and sequences that plan(argument) has: products and attention of
 * fewer may be cut in ways that take more scratch, so each of them is planned for any smaller number too. */
enum qkv_status qkv_plan_at_most(struct qkv_context *ctx, struct qkv_arena *arena, const char *what,
                                 qkv_plan_body *plan, void *argument, size_t *bytes);
/* Empties an arena, and replaces it by a larger one if it has no room for `bytes`. The arena may be {0}. */
enum qkv_status qkv_arena_room(struct qkv_context *ctx, struct qkv_arena *arena, size_t bytes, const char *what);
/* The context's own arena, empty, with room for `bytes`: replaced by a larger one when a call needs more. */
enum qkv_status qkv_workspace(struct qkv_context *ctx, size_t bytes, struct qkv_arena **out);
void qkv_workspace_free(struct qkv_context *ctx);

/* ---- memory that is left (available.c) -------------------------------------------------------------------------
 * The files that say how much memory there is. */
struct qkv_memory_files {
    const char *meminfo, *membership, *mount, *process; /* /proc/meminfo, /proc/self/cgroup, /sys/fs/cgroup, …/statm */
};
/* The memory that the machine and the control groups (v1 and v2, all ancestors) leave to this process; UINT64_MAX if no
 * file says it. NULL: the system's own files. */
struct qkv_memory_left qkv_memory_physical(const struct qkv_memory_files *files);
/* Refuses (QKV_MEMORY) a need of more bytes than the machine, the groups, RLIMIT_AS and RLIMIT_DATA leave, unless
 * ctx->ignore_memory. `what` begins the sentence: "training"; `help` says what would need less: "a smaller batch";
 * NULL: nothing is known. */
enum qkv_status qkv_memory_check(struct qkv_context *ctx, size_t bytes, const char *what, const char *help);

/* The bytes of all arenas of this process, used or not. */
size_t qkv_arena_total(void);
/* Counts an arena of `bytes` bytes that was made, or freed. */
void qkv_arena_count(size_t bytes, bool made);

/* ---- parallel ranges (parallel.c) ------------------------------------------------------------------------------
 * Calls body(argument, item, thread) once for every item in [0, count), from up to ctx->threads threads; `thread` is in
 * [0, ctx->threads) and selects per-thread scratch. Threads take items as they come free, so the result of an item may
 * depend on `item` only: then every number of threads gives the same bits. Does nothing while the context plans. Bodies
 * must not fail, allocate, or call qkv_parallel. */
typedef void qkv_body(void *argument, size_t item, int thread);
void qkv_parallel(struct qkv_context *ctx, size_t count, qkv_body *body, void *argument);
/* The same for [0, count) cut into ranges of `grain` elements: body(argument, begin, end, thread). */
typedef void qkv_range_body(void *argument, size_t begin, size_t end, int thread);
void qkv_parallel_range(struct qkv_context *ctx, size_t count, size_t grain, qkv_range_body *body, void *argument);
/* qkv_parallel for work that is no arithmetic, such as encoding texts: bodies may allocate, without the context, and
 * store their failures with their items. */
void qkv_parallel_work(struct qkv_context *ctx, size_t count, qkv_body *body, void *argument);
/* Calls body(argument) on the calling thread and returns its status: what reads or writes numbers and is no loop. The
 * body may call qkv_parallel. While the context plans, the body is not called, and the status is QKV_OK. */
enum qkv_status qkv_compute(struct qkv_context *ctx, enum qkv_status (*body)(void *argument), void *argument);
/* Starts threads until the context has `threads` with the caller's, and returns how many it has: fewer if the system
 * refuses more (team.c). qkv_context_create starts the threads of a context. If it was given more threads since, or the
 * process is a forked child, the next loop starts them. */
int qkv_team_start(struct qkv_context *ctx, int threads);
/* Ends the threads. */
void qkv_team_free(struct qkv_context *ctx);
/* qkv_parallel for more than one item. False: no item was done, because the context has no other thread. */
bool qkv_team_run(struct qkv_context *ctx, size_t count, qkv_body *body, void *argument);
/* How many CPUs this process may run on (affinity and cgroup quota respected), at least 1. */
int qkv_cpu_count(void);
/* The CPUs that the cgroup quotas (v1 and v2) of the groups listed in `membership` ("/proc/self/cgroup") allow, rounded
 * up, with the hierarchy mounted at `mount` ("/sys/fs/cgroup"); INT32_MAX without a quota. */
int32_t qkv_cgroup_cpus(const char *membership, const char *mount);
/* Calls visit(user, folder, v2) for the groups of a process and all their ancestors: those of the v2 hierarchy, and
 * those of the v1 hierarchy of `controller` (cgroup.c). */
typedef void qkv_cgroup_visit(void *user, const char *folder, bool v2);
void qkv_cgroup_walk(const char *membership, const char *mount, const char *controller, qkv_cgroup_visit *visit,
                     void *user);
/* The bytes of the first CPU's data cache of a level (1 to 3; 0: its last level); 0 if the system does not say
 * (cache.c). */
size_t qkv_cache_bytes(int level);

/* ---- random numbers (random.c) ---------------------------------------------------------------------------------
 * Threefry-2x32 with 20 rounds (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"): a pure function of
 * key and counter, so any element of a dropout mask can be computed again, in any order, on any thread. */
void qkv_threefry(const uint32_t key[2], const uint32_t counter[2], uint32_t out[2]);

struct qkv_random {
    uint32_t key[2];
    uint64_t counter;
};
/* A stream of its own for each (seed, stream) pair. */
struct qkv_random qkv_random_start(uint64_t seed, uint64_t stream);
uint64_t qkv_random_bits(struct qkv_random *random);                  /* 64 uniform bits */
double qkv_random_uniform(struct qkv_random *random);                 /* [0, 1) with 53 bits */
double qkv_random_normal(struct qkv_random *random);                  /* mean 0, deviation 1 (Box–Muller) */
uint64_t qkv_random_below(struct qkv_random *random, uint64_t bound); /* uniform in [0, bound), without bias */

/* ---- numbers as text (real.c) ----------------------------------------------------------------------------------
 * The shortest decimal that reads back as x, with a point in every locale; returns `text`. */
#define QKV_REAL_TEXT 40
const char *qkv_real_text(char text[QKV_REAL_TEXT], double x);
/* Reads a finite number, with a point in every locale; false if the text is anything else. */
bool qkv_real_parse(const char *text, double *x);
/* The number with the fewest decimal digits that rounds to x, which is finite: 1e-5 for the float nearest to it. */
double qkv_real_meant(float x);

/* ---- distance of two names (edit.c; qkv_edit_distance and qkv_closest_name are public) -------------------------
 * The number of edits that turn one name into the other, where '-' and '_' are the same character and two neighbours
 * may be swapped; SIZE_MAX if a name is longer than any of qkv's. */
size_t qkv_name_distance(const char *a, const char *b);

/* ---- files (file.c, replace.c) ---------------------------------------------------------------------------------
 * Reading copies bytes into memory, so a file that another program shortens meanwhile is an error with a sentence and
 * not a signal; only tensors are mapped. Writing goes to a temporary file in the same folder. It replaces the old file
 * only when it is complete and on disk, so after a crash, a kill or a full disk either the old file or the new one is
 * there. */

/* A regular file that is open for reading; {0} is none. Several threads may read it. */
struct qkv_file {
    struct qkv_context *ctx;
    const char *path; /* for messages; the caller's */
    size_t size;      /* bytes, when it was opened */
    int descriptor;
    bool open;
};
/* Opens a file. Folders, pipes and devices are refused without waiting for them (QKV_FILE). */
enum qkv_status qkv_file_open(struct qkv_context *ctx, const char *path, struct qkv_file *file);
/* Copies `n` bytes from byte `offset` on; they must be within file->size. QKV_FILE if the file cannot be read, or has
 * become shorter. */
enum qkv_status qkv_file_read(const struct qkv_file *file, size_t offset, void *out, size_t n);
/* QKV_FILE if the file has become shorter since it was opened. */
enum qkv_status qkv_file_check(struct qkv_context *ctx, const struct qkv_file *file);
void qkv_file_close(struct qkv_file *file); /* harmless on {0} */

struct qkv_map {               /* all bytes of a file */
    const unsigned char *data; /* NULL when the file is empty */
    size_t size;
    bool mapped; /* else a heap block */
    bool shared; /* the block belongs to a list of files, which frees it */
};
/* "cannot <doing> <path>: <the system's error>; <what to do>", for an errno; QKV_FILE, or QKV_MEMORY for ENOMEM. */
enum qkv_status qkv_fail_file(struct qkv_context *ctx, const char *doing, const char *path, int error);
/* A copy of a whole file in memory. While the context has a list of files, each file is opened once: later reads share
 * the first copy, unless the file was replaced or has changed. */
enum qkv_status qkv_read_file(struct qkv_context *ctx, const char *path, struct qkv_map *map);
/* The files that one longer work reads (file_list.c), such as opening a model. */
struct qkv_file_list {
    struct qkv_file_item *items;
    size_t count, capacity;
};
/* From begin to end qkv_read_file uses the list; begin returns the list that the context had. */
struct qkv_file_list *qkv_file_list_begin(struct qkv_context *ctx, struct qkv_file_list *list);
void qkv_file_list_end(struct qkv_context *ctx, struct qkv_file_list *had);
/* Frees the copies; no map of them may be in use. */
void qkv_file_list_free(struct qkv_file_list *list);
/* Used by qkv_read_file: finds the copy of a file; adds the copy of a file that was read to the context's list. */
bool qkv_file_list_find(const struct qkv_file_list *list, const char *path, struct qkv_map *map);
void qkv_file_list_add(struct qkv_context *ctx, const struct qkv_file *file, struct qkv_map *map);
/* Maps the file itself; the mapping stays when the file is closed. Call qkv_file_check before each use: after another
 * program has made the file shorter, reading the mapping kills the process (SIGBUS). */
enum qkv_status qkv_file_map(const struct qkv_file *file, struct qkv_map *map);
void qkv_unmap_file(struct qkv_map *map);

struct qkv_replace {
    struct qkv_context *ctx;
    FILE *file; /* write here; errors are found by qkv_replace_write and at commit */
    char *path, *temporary;
};
enum qkv_status qkv_replace_begin(struct qkv_context *ctx, const char *path, struct qkv_replace *replace);
enum qkv_status qkv_replace_write(struct qkv_replace *replace, const void *data, size_t n);
/* Flushes to disk and renames into place. On failure the old file is untouched and the temporary is removed (only when
 * the disk breaks at the very last step, naming the folder, may the new file be in place already). */
enum qkv_status qkv_replace_commit(struct qkv_replace *replace);
void qkv_replace_cancel(struct qkv_replace *replace); /* harmless after a commit */
/* Sets *out to a heap string: the path with its last part resolved, if that is a symbolic link. The link's target need
 * not exist. */
enum qkv_status qkv_follow_links(struct qkv_context *ctx, const char *path, char **out);
/* Opens, writes `n` bytes and commits. */
enum qkv_status qkv_write_file(struct qkv_context *ctx, const char *path, const void *data, size_t n);
/* A folder that is written as a whole and then replaces an old one (replace_folder.c): write into `temporary`, then
 * commit or cancel. Files of the old folder that the new one lacks move into the new one. A folder that cannot be
 * renamed must be empty. */
struct qkv_replace_folder {
    struct qkv_context *ctx;
    char *shown, *path, *temporary; /* as the caller gave it; with links resolved; NULL: there is none any more */
    int lock;
    bool exists, inside; /* an old folder exists; the temporary is inside it */
    dev_t device;
};
enum qkv_status qkv_replace_folder_begin(struct qkv_context *ctx, const char *path, struct qkv_replace_folder *replace);
enum qkv_status qkv_replace_folder_commit(struct qkv_replace_folder *replace);
/* Removes `temporary` and leaves the old folder. If the failure sentence names a file in `temporary`, it now names the
 * file's place in `path`. */
void qkv_replace_folder_cancel(struct qkv_replace_folder *replace);
/* Makes a folder and its missing parents. Existing folders are fine. */
enum qkv_status qkv_make_folder(struct qkv_context *ctx, const char *path);
/* folder + "/" + name as a heap string, or NULL with the sentence recorded. */
char *qkv_join_path(struct qkv_context *ctx, const char *folder, const char *name);
/* What sentences write between a folder and a name in it: "/", or "" if the folder ends in one. */
const char *qkv_path_slash(const char *folder);
bool qkv_file_exists(const char *path);
/* Whether the path, with links followed, is something other than a regular file: a folder, pipe or device. */
bool qkv_is_special(const char *path);
/* Locks a folder until the descriptor in *lock is closed, or the process ends. QKV_FILE if another process holds the
 * lock: "FOLDER: <who>; wait for it or choose another folder". If the file system has no locks *lock is -1. */
enum qkv_status qkv_lock_folder(struct qkv_context *ctx, const char *folder, const char *who, int *lock);
/* Sets *found to whether the path exists. Fails with the system's reason if that cannot be known. */
enum qkv_status qkv_file_find(struct qkv_context *ctx, const char *path, bool *found);
/* The encoding whose byte order mark begins the data: "UTF-8", "UTF-16" or "UTF-32"; NULL: none (byte_order.c). */
const char *qkv_byte_order_mark(const void *data, size_t size);
/* Refuses data that begins with a byte order mark (QKV_FORMAT): "<name> begins with a byte order mark (BOM) of UTF-16;
 * …". */
enum qkv_status qkv_byte_order_mark_refuse(struct qkv_context *ctx, const char *name, const void *data, size_t size);

/* ---- points in time (clock.c) ---------------------------------------------------------------------------------- */

#define QKV_UTC_TEXT 32
/* "2024-05-01T12:00:00Z" (ISO 8601) for seconds since 1970; returns `text`. The other one reads such a text; false for
 * any other text. */
const char *qkv_utc_text(char text[QKV_UTC_TEXT], int64_t seconds);
bool qkv_utc_parse(const char *text, int64_t *seconds);

/* ---- hash (hash.c) ---------------------------------------------------------------------------------------------
 * FNV-1a (Fowler, Noll, Vo), 64 bits, continued from `hash`: tells texts apart, but does not protect against
 * forgery. */
#define QKV_HASH_START UINT64_C(0xcbf29ce484222325)
uint64_t qkv_hash(uint64_t hash, const void *data, size_t n);
/* The hash of `head` and the lines of a text (NULL: none), sorted by their bytes, each with its line end. The text is
 * modified. */
enum qkv_status qkv_hash_lines(struct qkv_context *ctx, const char *head, char *text, uint64_t *hash);

#endif
