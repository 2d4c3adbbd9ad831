/* run_folder: the files of a run (qkv/files.h has their names): what is refused, the log, machine.jsonl, train.json. */
#ifndef QKV_TRAIN_RUN_FOLDER_H
#define QKV_TRAIN_RUN_FOLDER_H

#include "data/data.h"
#include "train/schedule.h"

/* ---- the folder (create.c) -------------------------------------------------------------------------------------- */

/* Refuses a folder in which something has the name of a run's file and is a pipe, a device or a folder: reading or
 * writing it might wait for ever. */
enum qkv_status qkv_run_check_files(struct qkv_context *ctx, const char *folder);
enum qkv_status qkv_run_special(struct qkv_context *ctx, const char *path); /* the sentence for it (log.c) */

/* ---- log (log.c, log_cut.c) ------------------------------------------------------------------------------------- */

struct qkv_log {
    int file;             /* valid where path is not NULL; −1: not open */
    char *path;           /* NULL: closed */
    size_t size;          /* bytes of whole lines */
    struct qkv_json line; /* the one being written; its memory serves all of them */
};
/* Opens log.jsonl in a folder and locks it against a second trainer. */
enum qkv_status qkv_log_open(struct qkv_context *ctx, struct qkv_log *log, const char *folder);
struct qkv_log_strays {  /* lines that cannot be read */
    size_t count, first; /* how many, and the number of the first one, from 1 */
};
/* Takes the lines of steps past `step` out, and what is left of one that was being written. All others stay
 * (log_cut.c). */
enum qkv_status qkv_log_cut(struct qkv_context *ctx, struct qkv_log *log, int64_t step, struct qkv_log_strays *strays);
/* Puts a new file in the place of the log, which stays locked. */
enum qkv_status qkv_log_replace(struct qkv_context *ctx, struct qkv_log *log, const void *data, size_t n);
enum qkv_status qkv_log_write(struct qkv_context *ctx, struct qkv_log *log, const struct qkv_train_report *report,
                              uint64_t tokens);
enum qkv_status qkv_log_sync(struct qkv_context *ctx, struct qkv_log *log);
void qkv_log_close(struct qkv_log *log);

/* Appends a line about this machine to machine.jsonl (machine_log.c); at step 0 the file begins. */
enum qkv_status qkv_machine_note(struct qkv_context *ctx, const char *folder, int64_t step);

/* ---- train.json (train_json.c) ---------------------------------------------------------------------------------- */

struct qkv_run_facts {
    struct qkv_data_facts texts;          /* of its files; qkv_data_facts_free */
    struct qkv_seams seams;               /* qkv_seams_free ends them */
    uint64_t from_bytes, from_hash;       /* of the weights that the run began with; 0: new ones */
    uint64_t teacher_bytes, teacher_hash; /* of the weights of its teacher; 0: there is none */
};
enum qkv_status qkv_train_json_write(struct qkv_context *ctx, const char *folder,
                                     const struct qkv_train_options *options, const struct qkv_run_facts *facts);
/* Options come back checked and owning their texts (qkv_train_release), the facts owning their files
 * (qkv_text_files_free). */
enum qkv_status qkv_train_json_read(struct qkv_context *ctx, const char *folder, struct qkv_train_options *options,
                                    struct qkv_run_facts *facts);

#endif
