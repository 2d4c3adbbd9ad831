/* machine.jsonl: where a run was trained: a line of JSON for each time it was begun or gone on with,
 *
 *   {"step":0,"time":"2024-05-01T12:00:00Z","cpu":"…","cpus":8,"threads":8,"isa":"avx2",
 *    "precision":"fp32","memory":…,"system":"Linux 6.1 x86_64","qkv":"0.1.0"}
 *
 * For people and reports; nothing is read back from it. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/utsname.h>

#include <jansson.h>

#include "train/train.h"

static json_t *machine_log_describe(const struct qkv_context *ctx, int64_t step) {
    struct utsname system = {0};
    char cpu[256], time_text[QKV_UTC_TEXT], system_text[160];
    uname(&system);
    qkv_cpu_name(cpu, sizeof cpu);
    qkv_utc_text(time_text, (int64_t)time(NULL));
    snprintf(system_text, sizeof system_text, "%.48s %.48s %.48s", system.sysname, system.release, system.machine);
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    json_int_t memory = pages > 0 && page > 0 ? (json_int_t)pages * page : 0;
    return json_pack("{s:I, s:s, s:s%, s:i, s:i, s:s, s:s, s:I, s:s, s:s}", "step", (json_int_t)step, "time", time_text,
                     "cpu", cpu, strlen(cpu), "cpus", qkv_cpu_count(), "threads", qkv_context_threads(ctx), "isa",
                     qkv_context_isa(ctx), "precision", qkv_context_precision(ctx) == QKV_FP32 ? "fp32" : "bf16",
                     "memory", memory, "system", system_text, "qkv", qkv_version());
}

enum qkv_status qkv_machine_note(struct qkv_context *ctx, const char *folder, int64_t step) {
    json_t *line = machine_log_describe(ctx, step);
    char *text = line ? json_dumps(line, JSON_COMPACT) : NULL, *path = qkv_join_path(ctx, folder, QKV_MACHINE_FILE);
    enum qkv_status status = path ? QKV_OK : QKV_MEMORY;
    json_decref(line);
    if (!text || !path) { /* a name that is no text, or no memory: the run goes on without */
        free(text);
        free(path);
        return status;
    }
    struct qkv_buffer out = {0};
    int file =
        open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (step ? 0 : O_TRUNC), 0666);
    status = qkv_buffer_print(ctx, &out, "%s\n", text);
    if (!status && (file < 0 || write(file, out.data, out.size) != (ssize_t)out.size))
        status = qkv_fail_file(ctx, "write", path, errno ? errno : ENOSPC);
    if (file >= 0) close(file);
    qkv_buffer_free(&out);
    free(text);
    free(path);
    return status;
}
