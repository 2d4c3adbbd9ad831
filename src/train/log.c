/* log.jsonl: one JSON object a line, one line a step:
 *
 *   {"step":1,"loss":…,"norm":…,"rate":…,"tokens":…,"tokens_per_second":…,"flops_share":…,"seconds":…}
 *
 * With experts also "expert_load" (rows of the busiest expert of a layer over the mean of its layer, the most of all
 * layers), "experts_unused" (experts, of all layers, that had no row) and "expert_loads": [...] (the first of these
 * of each layer, the encoder's before the decoder's, null of one without experts of its own). On the steps that were
 * evaluated "valid_loss", and the metric under its name where it is another. `tokens` and `seconds` count from the
 * beginning of the run. What a killed run wrote past its checkpoint is taken out when it is resumed (log_cut.c), so
 * the file reads as if it had never stopped. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/file.h>
#include <sys/stat.h>

#include "base/math.h"
#include "train/train.h"

enum { LOG_LOOKS = 1000 };

enum qkv_status qkv_run_special(struct qkv_context *ctx, const char *path) {
    return qkv_fail(ctx, QKV_FILE,
                    "%s is a pipe, a device or a folder, where a run has a file; remove it, or choose "
                    "another folder",
                    path);
}

/* Whether nobody trains and others only look whether somebody does: they share the lock for a moment (run_state.c). */
static bool log_looked_at(const struct qkv_log *log) {
    return flock(log->file, LOCK_SH | LOCK_NB) == 0;
}

/* Opens and locks the file at log->path. Between the two steps another trainer may have put a new one in its place. */
static enum qkv_status log_lock(struct qkv_context *ctx, struct qkv_log *log) {
    for (int looks = 0;;) {
        struct stat mine, there;
        /* O_NONBLOCK: a pipe must not keep the run waiting; it is refused below. */
        log->file = open(log->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
        if (log->file < 0 || fstat(log->file, &mine) != 0) return qkv_fail_file(ctx, "write", log->path, errno);
        if (!S_ISREG(mine.st_mode)) return qkv_run_special(ctx, log->path);
        if (flock(log->file, LOCK_EX | LOCK_NB) != 0) {
            const int error = errno;
            if (error == EWOULDBLOCK && looks++ < LOG_LOOKS && log_looked_at(log)) {
                close(log->file);
                nanosleep(&(struct timespec){.tv_nsec = 1000000 + getpid() % 1000 * 1000}, NULL);
                continue;
            }
            if (error == EWOULDBLOCK)
                return qkv_fail(ctx, QKV_FILE,
                                "%.*s: another process is training in this folder; wait for it or choose another "
                                "folder",
                                (int)(strlen(log->path) - sizeof QKV_LOG_FILE), log->path);
            bool unknown = error == ENOLCK || error == ENOTSUP || error == ENOSYS;
            return unknown ? QKV_OK : qkv_fail_file(ctx, "lock", log->path, error);
        }
        if (stat(log->path, &there) == 0 && there.st_dev == mine.st_dev && there.st_ino == mine.st_ino) return QKV_OK;
        close(log->file);
    }
}

enum qkv_status qkv_log_open(struct qkv_context *ctx, struct qkv_log *log, const char *folder) {
    static const char longest[1024]; /* room for any line but of very many layers, so that none has to ask for more */
    *log = (struct qkv_log){.file = -1, .line.ctx = ctx};
    log->path = qkv_join_path(ctx, folder, QKV_LOG_FILE);
    if (!log->path || qkv_buffer_append(ctx, &log->line.text, longest, sizeof longest)) return QKV_MEMORY;
    return log_lock(ctx, log);
}

enum qkv_status qkv_log_replace(struct qkv_context *ctx, struct qkv_log *log, const void *data, size_t n) {
    int old = log->file;
    enum qkv_status status = qkv_write_file(ctx, log->path, data, n);
    if (status) return status;
    status = log_lock(ctx, log);
    close(old); /* only now: until then nobody else gets the lock of the old file */
    return status;
}

static double log_rounded(double x, double unit) {
    return qkv_round(x * unit) / unit;
}

static void put_loads(struct qkv_json *line, const struct qkv_train_report *report) {
    qkv_json_put_real(line, "expert_load", log_rounded(report->expert_load, 1e4));
    qkv_json_put_integer(line, "experts_unused", report->experts_unused);
    qkv_json_key(line, "expert_loads");
    qkv_json_begin(line, '[');
    for (size_t i = 0; i < report->expert_load_count; i++)
        qkv_json_real(line, log_rounded(report->expert_loads[i], 1e4));
    qkv_json_end(line, ']');
}

static enum qkv_status print_line(struct qkv_json *line, const struct qkv_train_report *report, uint64_t tokens) {
    line->text.size = 0;
    line->more = false;
    qkv_json_begin(line, '{');
    qkv_json_put_integer(line, "step", report->step);
    qkv_json_put_real(line, "loss", report->loss);
    qkv_json_put_real(line, "norm", report->norm);
    qkv_json_put_real(line, "rate", report->rate);
    qkv_json_put_count(line, "tokens", tokens);
    qkv_json_put_real(line, "tokens_per_second", log_rounded(report->tokens_per_second, 10));
    qkv_json_put_real(line, "flops_share", log_rounded(report->flops_share, 1e4));
    qkv_json_put_real(line, "seconds", log_rounded(report->seconds, 1e3));
    if (report->expert_loads) put_loads(line, report);
    if (report->evaluated) qkv_json_put_real(line, "valid_loss", report->valid_loss);
    if (report->evaluated && report->metric_name && strcmp(report->metric_name, "loss") != 0)
        qkv_json_put_real(line, report->metric_name, report->metric);
    qkv_json_end(line, '}');
    qkv_json_line(line, 0);
    qkv_json_flush(line);
    return line->status;
}

enum qkv_status qkv_log_write(struct qkv_context *ctx, struct qkv_log *log, const struct qkv_train_report *report,
                              uint64_t tokens) {
    const struct qkv_buffer *line = &log->line.text;
    size_t done = 0;
    enum qkv_status status = print_line(&log->line, report, tokens);
    while (!status && done < line->size) {
        ssize_t n = pwrite(log->file, line->data + done, line->size - done, (off_t)(log->size + done));
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            status = qkv_fail_file(ctx, "write", log->path, n == 0 ? ENOSPC : errno);
    }
    if (!status)
        log->size += line->size;
    else if (done && ftruncate(log->file, (off_t)log->size) != 0)
        qkv_fail_at(ctx, "a part of whose last line remains"); /* cut away when the run is resumed */
    return status;
}

enum qkv_status qkv_log_sync(struct qkv_context *ctx, struct qkv_log *log) {
    if (fsync(log->file) == 0 || errno == EINVAL || errno == ENOTSUP) return QKV_OK;
    return qkv_fail_file(ctx, "write", log->path, errno);
}

void qkv_log_close(struct qkv_log *log) {
    if (log->path && log->file >= 0) close(log->file);
    free(log->path);
    qkv_json_free(&log->line);
    *log = (struct qkv_log){.file = -1};
}
