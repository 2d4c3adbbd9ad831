/* base: what every other room stands on.
 *
 * Offers: a failing sentence kept in the context (qkv_fail), checked sizes and heap blocks, arenas, growable byte
 * buffers, parallel ranges over the threads of a context, the counter-based random numbers, files read and
 * atomically replaced, and element types with their conversions. Includes nothing of the other rooms.
 *
 * Everything with external linkage is called qkv_*; only what include/qkv.h declares leaves the shared library. */
#ifndef QKV_BASE_H
#define QKV_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <sys/types.h>

#include "qkv.h"

#if defined(__GNUC__)
#define QKV_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define QKV_PRINTF(text, first)
#endif

#define QKV_CACHE_LINE 64

/* ---- context and failure (status.c) ------------------------------------------------------------------------ */

struct qkv_kernels; /* the kernel table, see kernel/kernel.h */
struct qkv_arena;
struct qkv_profile;
struct qkv_team;

struct qkv_context {
    int threads;                       /* >= 1 */
    struct qkv_team *team;             /* those beside the caller's; NULL: none were started */
    bool ignore_memory, ignore_digest; /* as in struct qkv_context_options */
    bool dry;                          /* measuring: parallel bodies are skipped, only memory is counted */
    const struct qkv_kernels *kernels; /* chosen once, by qkv_context_create */
    char isa[16];                      /* the name of that table, "avx2" */
    enum qkv_precision precision;      /* of matrix products and of what is kept for the way back */
    enum qkv_precision automatic;      /* what QKV_PRECISION_AUTO stands for: see qkv_auto_precision */
    size_t l1d, l2;                    /* bytes of the caches of one CPU; 0: not known */
    char threads_note[160];            /* why there are fewer threads than were asked for; "" */
    char message[1024];                /* the sentence of the latest call's failure */
    int calls;                         /* public calls that are at work, one within the other */
    struct qkv_communicator ranks;     /* ranks 0: the only one */
    double alive;                      /* when it told them last that it works: the clock */
    struct qkv_profile *profile;       /* where time is counted (base/profile.h); NULL: nowhere */
    struct qkv_arena *workspace;       /* scratch of calls that stand alone (qkv_workspace); NULL before the first */
    /* Where memory is told about; NULL: the system's own files. */
    const struct qkv_memory_files *memory_files;
};

/* Records the sentence and returns `status`, so that `return qkv_fail(...)` is the whole error path.
 * A NULL context only returns the status. */
enum qkv_status qkv_fail(struct qkv_context *ctx, enum qkv_status status, const char *format, ...) QKV_PRINTF(3, 4);
enum qkv_status qkv_fail_memory(struct qkv_context *ctx, size_t bytes, const char *what);
/* What a public function begins with, behind QKV_CALL, for each pointer that it cannot do without, and for an array of
 * `count` elements: NULL makes it return QKV_ARGUMENT with a sentence that names function and parameter. Functions that
 * return no status return what is neutral. (tests/null_calls.awk calls every public function with NULL for each pointer
 * in turn.) */
#define QKV_NEED(context, pointer)                                                                                     \
    do {                                                                                                               \
        if (!(pointer)) return qkv_fail_null(context, __func__, #pointer, NULL);                                       \
    } while (0)
#define QKV_NEED_ALL(context, count, array)                                                                            \
    do {                                                                                                               \
        if ((count) && !(array)) return qkv_fail_null(context, __func__, #array, #count);                              \
    } while (0)
enum qkv_status qkv_fail_null(struct qkv_context *ctx, const char *function, const char *pointer, const char *count);
/* Clears the sentence: for who recovers from a failure and goes on. */
void qkv_forgive(struct qkv_context *ctx);
/* Stands at the head of every public function that returns a status: the sentence is cleared when a caller of the library
 * calls it, but not when it is called within another one, which may have failed already. So after a success the sentence is
 * empty (tests/cli/calls.sh finds functions that lack it). The context may be NULL. */
#define QKV_CALL(context)                                                                                              \
    struct qkv_context *qkv_call __attribute__((cleanup(qkv_call_end), unused)) = qkv_call_begin(context)
struct qkv_context *qkv_call_begin(struct qkv_context *ctx);
void qkv_call_end(struct qkv_context **ctx);
/* "2.1 GiB"; returns `text`. */
#define QKV_BYTES_TEXT 32
const char *qkv_bytes_text(char text[QKV_BYTES_TEXT], size_t bytes);
/* Appends ", at <place>" to the sentence: "…, at decoder.layers.3.ffn.up". */
void qkv_fail_at(struct qkv_context *ctx, const char *format, ...) QKV_PRINTF(2, 3);
/* Puts `to` in the place of `from` in the sentence, where that is in it. */
void qkv_fail_elsewhere(struct qkv_context *ctx, const char *from, const char *to);

/* ---- ranks (ranks.c): every rank makes the same calls in the same order; QKV_RANK where another cannot be reached --------- */

/* Whoever works while others may wait for it says so from time to time, again and again in what may take minutes: others call a rank hung
 * that they hear nothing of. A call costs a look at the clock. Not while backward of a training step runs, when another thread uses
 * the communicator. */
void qkv_rank_alive(struct qkv_context *ctx);

enum qkv_status qkv_rank_exchange(struct qkv_context *ctx, int to, const void *sent, size_t sent_bytes, int from,
                                  void *received, size_t received_bytes);
/* From rank 0 to all. */
enum qkv_status qkv_rank_broadcast(struct qkv_context *ctx, void *data, size_t bytes);
/* `all` has the bytes of every rank, in the order of ranks. */
enum qkv_status qkv_rank_gather(struct qkv_context *ctx, const void *own, size_t bytes, void *all);
/* Whether all of them went well: the failure of the first that did not is that of all, with its number before the sentence. */
enum qkv_status qkv_rank_agree(struct qkv_context *ctx, enum qkv_status status);
/* The same where all statuses have been gathered already, with whatever else. */
enum qkv_status qkv_rank_judge(struct qkv_context *ctx, enum qkv_status status, const int32_t *all);

/* The same of an error that a function of the communicator gave a worker: QKV_OK for 0. */
enum qkv_status qkv_rank_lost(struct qkv_context *ctx, int error);

/* ---- a thread beside the caller's (worker.c): does items 0, 1, … in turn as they become ready ------------------------------ */

struct qkv_worker;
/* Does one item; not 0: an error, after which the other items of the turn are skipped. It may not touch the context. */
typedef int qkv_worker_body(void *argument, size_t item);
enum qkv_status qkv_worker_create(struct qkv_context *ctx, qkv_worker_body *body, void *argument,
                                  struct qkv_worker **out);
/* Not while items are in work. NULL: does nothing. */
void qkv_worker_free(struct qkv_worker *worker);
/* Items below `ready` may be done. */
void qkv_worker_publish(struct qkv_worker *worker, size_t ready);
/* All `items` may be, and waits until they are; a new turn begins. The first error, or 0. Seconds: `busy` of the worker in this turn, and
 * `hidden`, those of them before this call. */
int qkv_worker_finish(struct qkv_worker *worker, size_t items, double *busy, double *hidden);

/* ---- sizes and heap blocks (memory.c) -----------------------------------------------------------------------
 * Products of sizes are checked: false (and *out = SIZE_MAX) when they do not fit. */
bool qkv_multiply(size_t a, size_t b, size_t *out);
bool qkv_add_size(size_t a, size_t b, size_t *out);
static inline size_t qkv_min(size_t a, size_t b) {
    return a < b ? a : b;
}
static inline size_t qkv_max(size_t a, size_t b) {
    return a > b ? a : b;
}
/* How many pieces of `size` > 0 hold n, and n rounded up to a multiple, which must fit. */
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

/* A growable byte buffer (struct qkv_buffer of qkv/support.h). Start it with {0}; data is kept zero-terminated one past size once
 * anything was appended. */
enum qkv_status qkv_buffer_append(struct qkv_context *ctx, struct qkv_buffer *b, const void *data, size_t n);
enum qkv_status qkv_buffer_print(struct qkv_context *ctx, struct qkv_buffer *b, const char *format, ...)
    QKV_PRINTF(3, 4);
void qkv_buffer_free(struct qkv_buffer *b);

/* Room for `more` items of `size` bytes behind the first `count` of a growing list: the block itself, where its capacity is enough,
 * or a larger one, whose capacity has at least doubled. NULL with the sentence recorded: the list is as it was. */
void *qkv_list_room(struct qkv_context *ctx, void *items, size_t *capacity, size_t count, size_t more, size_t size);

/* Whether a text matches a pattern: * stands for any characters, ? for one (texts.c). */
bool qkv_text_matches(const char *text, const char *pattern);
/* A growable list of texts that it owns (texts.c). Start it with {0}; adding copies. */
struct qkv_texts {
    char **items;
    size_t count, capacity;
};
enum qkv_status qkv_texts_add(struct qkv_context *ctx, struct qkv_texts *list, const char *format, ...)
    QKV_PRINTF(3, 4);
enum qkv_status qkv_texts_print(struct qkv_context *ctx, struct qkv_texts *list, const char *format, va_list arguments)
    QKV_PRINTF(3, 0);
void qkv_texts_free(struct qkv_texts *list);
/* Adds the absolute paths of what `count` names stand for, up to one that is NULL (list_files.c): a file for itself, a folder for
 * its regular files sorted by the bytes of their names. Hidden files are left out; what else is in a folder gets a note, where
 * there is a place for notes. A folder without files fails; whether others can be read shows when they are. */
enum qkv_status qkv_list_files(struct qkv_context *ctx, const char *const *names, size_t count, struct qkv_texts *paths,
                               struct qkv_texts *notes);

/* ---- arenas (arena.c) ----------------------------------------------------------------------------------------
 * One mapping, which is refused where there is not as much memory (qkv_memory_check), handed out front to back in 64-byte aligned pieces and taken back as a whole or to a mark.
 * A measuring arena hands out made-up addresses and only counts: run a plan on it with ctx->dry set, and `peak` is the
 * exact memory that the plan needs. Nobody may touch what it hands out. */
struct qkv_arena {
    struct qkv_context *ctx;
    unsigned char *base;
    size_t capacity, used, peak;
    size_t discarded; /* bytes of pieces whose memory went back */
    bool measuring;
    const char *what; /* for messages: "parameters", "one step" */
};
enum qkv_status qkv_arena_create(struct qkv_context *ctx, struct qkv_arena *arena, size_t capacity, const char *what);
void qkv_arena_measure(struct qkv_context *ctx, struct qkv_arena *arena, const char *what);
void qkv_arena_free(struct qkv_arena *arena);
/* count × size bytes, 64-byte aligned, not zeroed; NULL with the sentence recorded when they do not fit.
 * count × size = 0 gives a valid address too. */
void *qkv_arena_take(struct qkv_arena *arena, size_t count, size_t size);
/* Gives the memory of a piece of so many bytes back, all but what shares pages with others; it is not to be touched again. */
void qkv_arena_discard(struct qkv_arena *arena, void *piece, size_t bytes);
size_t qkv_arena_mark(const struct qkv_arena *arena);
void qkv_arena_release(struct qkv_arena *arena, size_t mark);
/* What plan(argument) takes of `arena`, by a dry run (ctx->dry) in which the arena only counts; *bytes becomes at least that.
 * Afterwards the arena is as it was. `what` is for messages. */
typedef enum qkv_status qkv_plan_body(void *argument);
enum qkv_status qkv_plan(struct qkv_context *ctx, struct qkv_arena *arena, const char *what, qkv_plan_body *plan,
                         void *argument, size_t *bytes);
/* Empties an arena, {0} or not, that has room for `bytes`; one that has not is replaced. */
enum qkv_status qkv_arena_room(struct qkv_context *ctx, struct qkv_arena *arena, size_t bytes, const char *what);
/* The context's own arena, empty, with room for `bytes`: replaced by a larger one when a call needs more. */
enum qkv_status qkv_workspace(struct qkv_context *ctx, size_t bytes, struct qkv_arena **out);
void qkv_workspace_free(struct qkv_context *ctx);

/* ---- memory that is left (available.c) ---------------------------------------------------------------------------
 * Where the system tells about memory. */
struct qkv_memory_files {
    const char *meminfo, *membership, *mount, *process; /* /proc/meminfo, /proc/self/cgroup, /sys/fs/cgroup, …/statm */
};
/* What the machine and the control groups (v1 and v2, all ancestors) leave to this process; UINT64_MAX where nothing is
 * told. NULL: the system's own files. */
struct qkv_memory_left qkv_memory_physical(const struct qkv_memory_files *files);
/* Refuses (QKV_MEMORY) what needs more bytes than they, RLIMIT_AS and RLIMIT_DATA leave, unless ctx->ignore_memory. `what`
 * begins the sentence: "training"; `help` says what would need less: "a smaller batch"; NULL: nothing known. */
enum qkv_status qkv_memory_check(struct qkv_context *ctx, size_t bytes, const char *what, const char *help);

/* The bytes of all arenas of this process, used or not. */
size_t qkv_arena_total(void);
/* Tells that an arena of so many bytes was made, or freed. */
void qkv_arena_count(size_t bytes, bool made);

/* ---- parallel ranges (parallel.c) ----------------------------------------------------------------------------
 * Calls body(argument, item, thread) once for every item in [0, count), from up to ctx->threads threads; `thread` is
 * in [0, ctx->threads) and picks per-thread scratch. Items are handed out as threads come free, so what an item
 * computes may depend on `item` only: then every thread count gives the same bits. Does nothing when ctx->dry.
 * Bodies must not fail, allocate, or call qkv_parallel. */
typedef void qkv_body(void *argument, size_t item, int thread);
void qkv_parallel(struct qkv_context *ctx, size_t count, qkv_body *body, void *argument);
/* The same for a range cut into pieces of `grain` elements: body(argument, begin, end, thread). */
typedef void qkv_range_body(void *argument, size_t begin, size_t end, int thread);
void qkv_parallel_range(struct qkv_context *ctx, size_t count, size_t grain, qkv_range_body *body, void *argument);
/* The threads beside the caller's (team.c). Sees that there are `threads` with the caller's, and returns how many there
 * are: fewer where the system makes no more. qkv_context_create starts those of a context; a context that was given
 * more since, or whose process is a forked child, starts them with its next loop. */
int qkv_team_start(struct qkv_context *ctx, int threads);
/* Ends them. */
void qkv_team_free(struct qkv_context *ctx);
/* qkv_parallel for more than one item. False: none was done, as no thread would help. */
bool qkv_team_run(struct qkv_context *ctx, size_t count, qkv_body *body, void *argument);
/* How many CPUs this process may run on (affinity and cgroup quota respected), at least 1. */
int qkv_cpu_count(void);
/* The CPUs that the cgroup quotas (v1 and v2) of the groups listed in `membership` ("/proc/self/cgroup") allow, rounded
 * up, with the hierarchy mounted at `mount` ("/sys/fs/cgroup"); INT32_MAX without a quota. */
int32_t qkv_cgroup_cpus(const char *membership, const char *mount);
/* Calls visit(user, folder, v2) for the groups of a process and all groups that hold them, of the v2 hierarchy and of the v1
 * one of that controller (cgroup.c). */
typedef void qkv_cgroup_visit(void *user, const char *folder, bool v2);
void qkv_cgroup_walk(const char *membership, const char *mount, const char *controller, qkv_cgroup_visit *visit,
                     void *user);
/* Bytes of the first CPU's data cache of that level (1 to 3), of its last one for level 0; 0 where the system does not tell
 * (cache.c). */
size_t qkv_cache_bytes(int level);

/* ---- random numbers (random.c) -------------------------------------------------------------------------------
 * Threefry-2x32 with 20 rounds (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"): a pure function
 * of key and counter, so any element of a dropout mask can be made again, in any order, on any thread. */
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

/* ---- numbers as text (real.c) -------------------------------------------------------------------------------
 * The shortest decimal that reads back as x, with a point in every locale; returns `text`. */
#define QKV_REAL_TEXT 40
const char *qkv_real_text(char text[QKV_REAL_TEXT], double x);
/* Reads a finite number written in full, with a point in every locale. */
bool qkv_real_parse(const char *text, double *x);

/* ---- how far apart two names are (edit.c; qkv_edit_distance and qkv_closest_name are public) ----------------------
 * The edits that make one of the other, where '-' and '_' are one character and two neighbours may be swapped; SIZE_MAX where one is longer than any of
 * ours. */
size_t qkv_name_distance(const char *a, const char *b);

/* ---- files (file.c, replace.c) -------------------------------------------------------------------------------
 * Reading copies bytes into memory, so a file that another program shortens meanwhile gives a sentence and no signal; only
 * tensors are mapped. Writing goes to a temporary neighbour that replaces the old file only when it is whole and on disk,
 * so a crash, a kill or a full disk at any moment leaves either the old file or the new one. */

/* A regular file that is open for reading; {0} is none. Threads may read the same one. */
struct qkv_file {
    struct qkv_context *ctx;
    const char *path; /* for messages; the caller's */
    size_t size;      /* bytes, as it was opened */
    int descriptor;
    bool open;
};
/* Opens a file. Folders, pipes and devices are refused, without waiting for anybody (QKV_FILE). */
enum qkv_status qkv_file_open(struct qkv_context *ctx, const char *path, struct qkv_file *file);
/* Copies `n` bytes from byte `offset` on; they must lie within file->size. QKV_FILE when the file cannot be read, or has
 * become shorter. */
enum qkv_status qkv_file_read(const struct qkv_file *file, size_t offset, void *out, size_t n);
/* QKV_FILE when the file has become shorter than it was opened. */
enum qkv_status qkv_file_check(const struct qkv_file *file);
void qkv_file_close(struct qkv_file *file); /* harmless on {0} */

struct qkv_map {               /* all bytes of a file */
    const unsigned char *data; /* NULL when the file is empty */
    size_t size;
    bool mapped; /* else a heap block */
};
/* "cannot <doing> <path>: <the system's error>; <what to do>", for an errno; QKV_FILE, or QKV_MEMORY for ENOMEM. */
enum qkv_status qkv_fail_file(struct qkv_context *ctx, const char *doing, const char *path, int error);
/* A copy of a whole file in memory. */
enum qkv_status qkv_read_file(struct qkv_context *ctx, const char *path, struct qkv_map *map);
/* The file itself; the mapping stays when the file is closed. Who uses it when another program has made it shorter is killed by
 * SIGBUS: qkv_file_check comes before. */
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
/* Sets *out to the path without symbolic links as its last part (a link may point to nothing yet), a heap string. */
enum qkv_status qkv_follow_links(struct qkv_context *ctx, const char *path, char **out);
/* All of it in one call. */
enum qkv_status qkv_write_file(struct qkv_context *ctx, const char *path, const void *data, size_t n);
/* A folder that is written whole beside an old one (replace_folder.c): write into `temporary`, then commit or cancel.
 * What the old folder has besides goes into the new one. A folder that cannot change places must be empty. */
struct qkv_replace_folder {
    struct qkv_context *ctx;
    char *shown, *path, *temporary; /* as it was given; links followed; NULL: none is there any more */
    int lock;
    bool exists, inside; /* there was one before; the temporary is in it */
    dev_t device;
};
enum qkv_status qkv_replace_folder_begin(struct qkv_context *ctx, const char *path, struct qkv_replace_folder *replace);
enum qkv_status qkv_replace_folder_commit(struct qkv_replace_folder *replace);
/* Leaves what was before; a sentence about a file in `temporary` names it where it would have been. */
void qkv_replace_folder_cancel(struct qkv_replace_folder *replace);
/* Makes a folder and its missing parents. Existing folders are fine. */
enum qkv_status qkv_make_folder(struct qkv_context *ctx, const char *path);
/* folder + "/" + name as a heap string, or NULL with the sentence recorded. */
char *qkv_join_path(struct qkv_context *ctx, const char *folder, const char *name);
bool qkv_file_exists(const char *path);
/* Whether something is there that is no regular file, links followed: a folder, pipe or device. */
bool qkv_is_special(const char *path);
/* Locks a folder until the descriptor in *lock is closed, or the process ends. QKV_FILE when another process holds it:
 * "FOLDER: <who>; wait for it or choose another folder". Where the file system knows no locks *lock is -1. */
enum qkv_status qkv_lock_folder(struct qkv_context *ctx, const char *folder, const char *who, int *lock);
/* The same where what cannot be looked at must not pass for missing: fails with the system's reason. */
enum qkv_status qkv_file_find(struct qkv_context *ctx, const char *path, bool *found);
/* The encoding whose byte order mark begins the data, "UTF-8", "UTF-16" or "UTF-32"; NULL: none (byte_order.c). */
const char *qkv_byte_order_mark(const void *data, size_t size);
/* Refuses data that begins with one (QKV_FORMAT): "<name> begins with a byte order mark (BOM) of UTF-16; …". */
enum qkv_status qkv_byte_order_mark_refuse(struct qkv_context *ctx, const char *name, const void *data, size_t size);

/* ---- points in time (clock.c) ------------------------------------------------------------------------------------ */

#define QKV_UTC_TEXT 32
/* "2024-05-01T12:00:00Z" (ISO 8601) for seconds since 1970; returns `text`. And back: false for what is not such a text. */
const char *qkv_utc_text(char text[QKV_UTC_TEXT], int64_t seconds);
bool qkv_utc_parse(const char *text, int64_t *seconds);

/* ---- hash (hash.c) ----------------------------------------------------------------------------------------------
 * FNV-1a (Fowler, Noll, Vo), 64 bits, continued from `hash`: tells texts apart, no protection against malice. */
#define QKV_HASH_START UINT64_C(0xcbf29ce484222325)
uint64_t qkv_hash(uint64_t hash, const void *data, size_t n);
/* Of `head` and the lines of a text (NULL: none), sorted by their bytes, each with its line end. The text is cut up. */
enum qkv_status qkv_hash_lines(struct qkv_context *ctx, const char *head, char *text, uint64_t *hash);

/* ---- element types (dtype.c) ---------------------------------------------------------------------------------- */
size_t qkv_dtype_size(enum qkv_dtype dtype); /* bytes an element, 0 for an invalid type */
/* Converts n elements; the source may be unaligned. Integers to float round to nearest; float to bf16 and f16 rounds to
 * nearest even and keeps NaN a NaN; float to an integer rounds to nearest even and stays in range, NaN becomes 0; to bool,
 * all but 0 is true. */
void qkv_to_float(float *out, const void *in, enum qkv_dtype dtype, size_t n);
void qkv_from_float(void *out, const float *in, enum qkv_dtype dtype, size_t n);

#endif
