/* state.json: whether a run is trained, done, failed or interrupted, and by whom:
 *
 *   {"state":"running","step":250,"saved":250,"steps":2000,"seconds":12.5,"pid":4711,"host":"…","boot":"…","space":"…",
 *    "started":"2024-05-01T12:00:00Z","updated":"2024-05-01T12:00:12Z","message":null,"qkv":"0.1.0"}
 *
 * It is replaced as a whole when training begins, with every checkpoint, and at the end; between checkpoints the
 * lines of the log are the signs of life. A process that is killed writes no last word, so a state of "running" is
 * believed only of a process that lives. Its lock on log.jsonl (log.c) says so for all processes of one kernel, in
 * containers too, and across machines where the file system shares locks. `boot` names the kernel since it was
 * started, `space` the process ids that `pid` is one of. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/file.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "base/json_load.h"
#include "base/math.h"
#include "train/train.h"

enum {
    STATE_BYTES = 1 << 14, /* no larger file is read */
    STATE_TAIL = 4096,     /* of the log: its last line */
    STATE_PATIENCE = 600,  /* seconds without a sign */
    STATE_STEPS = 20       /* or that many steps */
};

static const char *const state_names[] = {
#define NAME(name, text) text,
    QKV_RUN_STATE_LIST(NAME)
#undef NAME
};
enum { STATES = sizeof state_names / sizeof *state_names };

const char *qkv_run_state_name(enum qkv_run_state state) {
    return (size_t)state < STATES ? state_names[state] : state_names[QKV_RUN_UNKNOWN];
}

/* ---- where a process is ----------------------------------------------------------------------------------------- */

struct state_place {
    char host[128], boot[64], space[64];
};

static void state_find_place(struct state_place *place) {
    struct utsname system;
    *place = (struct state_place){0};
    if (uname(&system) == 0) snprintf(place->host, sizeof place->host, "%s", system.nodename);
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file && fgets(place->boot, sizeof place->boot, file)) place->boot[strcspn(place->boot, "\n")] = 0;
    if (file) fclose(file);
    ssize_t n = readlink("/proc/self/ns/pid", place->space, sizeof place->space - 1);
    place->space[n > 0 ? n : 0] = 0;
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static enum qkv_status state_print(struct qkv_json *json, const struct qkv_trainer *t, enum qkv_run_state state,
                                   const char *message) {
    struct state_place place;
    char time_text[QKV_UTC_TEXT];
    const bool early = state == QKV_RUN_DONE && t->report.step < t->options.steps;
    state_find_place(&place);
    qkv_json_begin(json, '{');
    qkv_json_put_text(json, "state", qkv_run_state_name(state));
    qkv_json_put_integer(json, "step", t->report.step);
    qkv_json_put_integer(json, "saved", t->saved_step);
    qkv_json_put_integer(json, "steps", early ? t->report.step : t->options.steps);
    qkv_json_put_fixed(json, "seconds", t->earlier + qkv_clock() - t->started, 3);
    qkv_json_put_integer(json, "pid", getpid());
    qkv_json_put_text(json, "host", place.host);
    qkv_json_put_text(json, "boot", place.boot);
    qkv_json_put_text(json, "space", place.space);
    qkv_json_put_text(json, "started", qkv_utc_text(time_text, t->began));
    qkv_json_put_text(json, "updated", qkv_utc_text(time_text, (int64_t)time(NULL)));
    qkv_json_put_text(json, "message", message);
    qkv_json_put_text(json, "qkv", qkv_version());
    qkv_json_end(json, '}');
    qkv_json_line(json, 0);
    qkv_json_flush(json);
    return json->status;
}

/* ctx NULL: a failure leaves no sentence. */
static enum qkv_status state_put(struct qkv_context *ctx, struct qkv_trainer *t, enum qkv_run_state state,
                                 const char *message) {
    struct qkv_json json = {.ctx = ctx};
    char *path = qkv_join_path(ctx, t->folder, QKV_STATE_FILE);
    if (!t->began) t->began = (int64_t)time(NULL);
    enum qkv_status status = path ? state_print(&json, t, state, message) : QKV_MEMORY;
    if (!status) status = qkv_write_file(ctx, path, json.text.data, json.text.size);
    qkv_json_free(&json);
    free(path);
    return status;
}

enum qkv_status qkv_state_write(struct qkv_trainer *t, enum qkv_run_state state, const char *message) {
    return state_put(t->ctx, t, state, message);
}

bool qkv_trainer_ended(const struct qkv_trainer *t) {
    return t->options.patience > 0 && t->stale >= t->options.patience;
}

static bool state_finished(const struct qkv_trainer *t) {
    return !t->pending && (t->report.step >= t->options.steps || qkv_trainer_ended(t));
}

enum qkv_status qkv_state_begin(struct qkv_trainer *t) {
    t->state = state_finished(t) ? QKV_RUN_DONE : QKV_RUN_RUNNING;
    return t->state == QKV_RUN_DONE ? QKV_OK : qkv_state_write(t, t->state, NULL);
}

enum qkv_status qkv_state_saved(struct qkv_trainer *t) {
    t->state = state_finished(t) ? QKV_RUN_DONE : QKV_RUN_RUNNING;
    return qkv_state_write(t, t->state, NULL);
}

void qkv_state_failed(struct qkv_trainer *t, enum qkv_status status) {
    if (status == QKV_STOPPED || t->state == QKV_RUN_UNKNOWN) return;
    t->state = QKV_RUN_FAILED;
    state_put(NULL, t, t->state, qkv_message(t->ctx));
}

void qkv_state_end(struct qkv_trainer *t) {
    if (t->state == QKV_RUN_RUNNING) state_put(NULL, t, QKV_RUN_INTERRUPTED, NULL);
    t->state = QKV_RUN_UNKNOWN;
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

struct state_record {
    struct qkv_run_condition *shown;
    struct state_place place;
    double seconds; /* of training up to `step` of the record */
    int64_t step;
};

static void state_text(const json_t *root, const char *key, char *text, size_t size) {
    const char *value = json_string_value(json_object_get(root, key));
    snprintf(text, size, "%s", value ? value : "");
}

static int64_t state_count(const json_t *root, const char *key) {
    const json_int_t n = json_integer_value(json_object_get(root, key));
    return n > 0 ? n : 0;
}

static int64_t state_time(const json_t *root, const char *key) {
    int64_t seconds = 0;
    char text[QKV_UTC_TEXT];
    state_text(root, key, text, sizeof text);
    return qkv_utc_parse(text, &seconds) && seconds > 0 ? seconds : 0;
}

static void state_take(struct state_record *record, const json_t *root) {
    struct qkv_run_condition *c = record->shown;
    char name[32];
    state_text(root, "state", name, sizeof name);
    for (size_t i = 0; i < STATES; i++)
        if (strcmp(name, state_names[i]) == 0) c->state = (enum qkv_run_state)i;
    c->step = record->step = state_count(root, "step");
    c->steps = state_count(root, "steps");
    c->saved = state_count(root, "saved");
    c->pid = state_count(root, "pid");
    c->started = state_time(root, "started");
    c->updated = state_time(root, "updated");
    state_text(root, "host", c->host, sizeof c->host);
    state_text(root, "message", c->message, sizeof c->message);
    state_text(root, "host", record->place.host, sizeof record->place.host);
    state_text(root, "boot", record->place.boot, sizeof record->place.boot);
    state_text(root, "space", record->place.space, sizeof record->place.space);
    record->seconds = json_number_value(json_object_get(root, "seconds"));
}

/* Opens a regular file to read; −1: there is none that can be read. */
static int state_open(const char *folder, const char *name, struct stat *info) {
    char *path = qkv_join_path(NULL, folder, name);
    int file = path ? open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY) : -1;
    free(path);
    if (file < 0 || (fstat(file, info) == 0 && S_ISREG(info->st_mode))) return file;
    close(file);
    return -1;
}

static enum qkv_status state_read(struct qkv_context *ctx, const char *folder, struct state_record *record) {
    struct stat info;
    json_t *root = NULL;
    const int file = state_open(folder, QKV_STATE_FILE, &info);
    if (file < 0) return QKV_OK;
    char *text = qkv_allocate(ctx, STATE_BYTES, 1);
    const ssize_t n = text ? read(file, text, STATE_BYTES) : -1;
    close(file);
    if (!text) return QKV_MEMORY;
    /* Without a context: what cannot be understood is as if it were not there. */
    if (n > 0)
        qkv_json_load(NULL, &(struct qkv_json_text){QKV_STATE_FILE, NULL, text, (size_t)n, STATE_BYTES - 1}, &root);
    free(text);
    state_take(record, root);
    json_decref(root);
    return QKV_OK;
}

/* The step in the last whole line of the log; 0: none. */
static int64_t state_last_step(int file, const struct stat *info) {
    char text[STATE_TAIL + 1];
    long long step = 0;
    const off_t begin = info->st_size > STATE_TAIL ? info->st_size - STATE_TAIL : 0;
    ssize_t n = pread(file, text, STATE_TAIL, begin);
    while (n > 0 && text[n - 1] != '\n') n--; /* a line that is being written */
    if (n <= 0) return 0;
    text[--n] = 0;
    const char *line = strrchr(text, '\n');
    if (sscanf(line ? line + 1 : text, "{\"step\":%18lld", &step) != 1 || step < 0) return 0;
    return step;
}

enum state_lock { STATE_LOCKED, STATE_FREE, STATE_LOCKS_UNKNOWN };

/* Who trains holds this lock alone; sharing it for a moment stands in nobody's way (log.c). */
static enum state_lock state_look_at_lock(int log) {
    if (flock(log, LOCK_SH | LOCK_NB) == 0) {
        flock(log, LOCK_UN);
        return STATE_FREE;
    }
    return errno == EWOULDBLOCK ? STATE_LOCKED : STATE_LOCKS_UNKNOWN;
}

/* Whether the process that says it trains is alive. */
static bool state_lives(const struct state_record *record, enum state_lock lock) {
    const struct qkv_run_condition *c = record->shown;
    struct timespec up = {0};
    struct state_place here;
    state_find_place(&here);
    const bool same_kernel = here.boot[0] && strcmp(here.boot, record->place.boot) == 0;
    const bool same_host = strcmp(here.host, record->place.host) == 0;
    const int64_t now = (int64_t)time(NULL), silent = now - c->updated;
    if (lock == STATE_LOCKED) return true;
    if (same_kernel && lock == STATE_FREE) return false;
    if (same_kernel && strcmp(here.space, record->place.space) == 0 && c->pid > 0 && c->pid <= INT32_MAX &&
        kill((pid_t)c->pid, 0) != 0 && errno == ESRCH)
        return false;
    /* This machine was started again after the latest sign. */
    if (!same_kernel && same_host && clock_gettime(CLOCK_BOOTTIME, &up) == 0 && silent > up.tv_sec) return false;
    const double steps = record->step > 0 ? STATE_STEPS * record->seconds / (double)record->step : 0;
    return fabs((double)silent) <= qkv_fmax(STATE_PATIENCE, steps);
}

enum qkv_status qkv_run_condition_read(struct qkv_context *ctx, const char *folder,
                                       struct qkv_run_condition *condition) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, folder);
    QKV_NEED(ctx, condition);
    struct state_record record = {.shown = condition};
    struct stat info;
    enum state_lock lock = STATE_LOCKS_UNKNOWN;
    *condition = (struct qkv_run_condition){0};
    /* The lock before the state: whoever ends in between has written its last word before the lock was free. */
    const int log = state_open(folder, QKV_LOG_FILE, &info);
    if (log >= 0) lock = state_look_at_lock(log);
    enum qkv_status status = state_read(ctx, folder, &record);
    if (log >= 0 && !status) {
        const int64_t step = state_last_step(log, &info);
        if (step > condition->step) condition->step = step;
        if (info.st_mtime > condition->updated && condition->state == QKV_RUN_RUNNING)
            condition->updated = info.st_mtime;
        if (lock == STATE_LOCKED && condition->state != QKV_RUN_RUNNING && condition->state != QKV_RUN_DONE) {
            condition->state =
                QKV_RUN_RUNNING; /* and reads its files, before it says so: who it was before is not who it is */
            condition->pid = condition->started = 0;
            condition->host[0] = condition->message[0] = 0;
        }
    }
    if (log >= 0) close(log);
    if (status || condition->state != QKV_RUN_RUNNING || state_lives(&record, lock)) return status;
    condition->state = QKV_RUN_INTERRUPTED;
    condition->killed = true;
    return QKV_OK;
}

/* ---- one trainer at a time -------------------------------------------------------------------------------------- */

enum qkv_status qkv_state_refuse_living(struct qkv_context *ctx, const char *folder) {
    struct qkv_run_condition c;
    enum qkv_status status = qkv_run_condition_read(ctx, folder, &c);
    if (status || c.state != QKV_RUN_RUNNING) return status;
    const long long silent = c.updated ? (long long)time(NULL) - c.updated : 0;
    if (!c.pid)
        return qkv_fail(ctx, QKV_FILE,
                        "%s: another process is training in this folder; wait for it or choose another folder", folder);
    return qkv_fail(ctx, QKV_FILE,
                    "%s: another process is training in this folder: process %lld on %s, with its latest sign %lld s "
                    "ago; wait for it or choose another folder (if that machine is gone, remove %s)",
                    folder, (long long)c.pid, c.host, silent > 0 ? silent : 0, QKV_STATE_FILE);
}
