/* info_state.c: prints the state of a run for "qkv info". */
#include <stdio.h>
#include <time.h>

#include "cli.h"

static void state_row(const char *label, const char *value) {
    printf("  %-22s %14s  ", label, value);
}

static void state_running(const struct qkv_run_condition *c) {
    char since[CLI_NUMBER];
    if (!c->pid) {
        printf("another process has the folder\n");
        return;
    }
    printf("step %lld of %lld, by process %lld on ", (long long)c->step, (long long)c->steps, (long long)c->pid);
    cli_print_name(c->host, SIZE_MAX);
    printf("; its latest sign was %s ago\n", cli_seconds(since, (double)((int64_t)time(NULL) - c->updated)));
}

static void state_stopped(const struct qkv_run_condition *c, const char *folder) {
    printf("%s step %lld of %lld; go on from step %lld: %s train --resume %s\n",
           c->killed ? "its process was killed after" : "after", (long long)c->step, (long long)c->steps,
           (long long)c->saved, cli_program, folder);
}

void cli_info_state(const struct qkv_run_condition *c, const char *folder) {
    if (c->state == QKV_RUN_UNKNOWN) return;
    state_row("state", qkv_run_state_name(c->state));
    if (c->state == QKV_RUN_RUNNING)
        state_running(c);
    else if (c->state == QKV_RUN_DONE)
        printf("%lld steps\n", (long long)c->steps);
    else
        state_stopped(c, folder);
    if (!c->message[0]) return;
    state_row("", "");
    cli_print_name(c->message, SIZE_MAX);
    printf("\n");
}

static void state_put_time(struct qkv_json *out, const char *key, int64_t seconds) {
    if (seconds)
        qkv_json_put_integer(out, key, seconds);
    else
        qkv_json_put_text(out, key, NULL);
}

void cli_info_put_state(struct qkv_json *out, const struct qkv_run_condition *c) {
    if (c->state == QKV_RUN_UNKNOWN) return;
    qkv_json_line(out, 0);
    qkv_json_key(out, "run");
    qkv_json_begin(out, '{');
    qkv_json_put_text(out, "state", qkv_run_state_name(c->state));
    qkv_json_put_bool(out, "killed", c->killed);
    qkv_json_put_integer(out, "step", c->step);
    qkv_json_put_integer(out, "steps", c->steps);
    qkv_json_put_integer(out, "saved", c->saved);
    qkv_json_put_integer(out, "pid", c->pid);
    qkv_json_put_text(out, "host", c->host[0] ? c->host : NULL);
    state_put_time(out, "started", c->started);
    state_put_time(out, "updated", c->updated);
    qkv_json_put_text(out, "message", c->message[0] ? c->message : NULL);
    qkv_json_end(out, '}');
}
