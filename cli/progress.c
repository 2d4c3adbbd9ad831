/* progress.c: progress of long work, a bar redrawn in place on a terminal, plain lines elsewhere; and the signals
 * that stop the work. */
#include <langinfo.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli.h"

bool cli_locale_utf8(void) {
    const char *codeset = nl_langinfo(CODESET);
    return codeset && (!strcmp(codeset, "UTF-8") || !strcmp(codeset, "utf8"));
}

int cli_width(int descriptor) {
    struct winsize size = {0};
    if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
    return 80;
}

/* ---- signals ----------------------------------------------------------------------------------------------------- */

volatile sig_atomic_t cli_stopping;

static struct qkv_context *volatile progress_context; /* whose work a signal cancels */

static void progress_stop(int signal) {
    struct qkv_context *ctx = progress_context;
    if (!cli_stopping || cli_stopping == SIGINT) cli_stopping = signal; /* Ctrl-C takes nothing back */
    if (ctx) qkv_context_cancel(ctx, true);
}

void cli_cancels(struct qkv_context *ctx) {
    progress_context = ctx;
}

static const struct {
    int number;
    bool repeated; /* it may come twice: a launcher may forward a signal that all processes got already */
} progress_signals[] = {{SIGINT, false}, {SIGTERM, false}, {SIGHUP, false},
                        {SIGUSR1, true}, {SIGUSR2, true},  {SIGXCPU, true}};

void cli_catch_signals(void) {
    for (size_t i = 0; i < CLI_COUNT_OF(progress_signals); i++) {
        struct sigaction before, action = {0};
        action.sa_handler = progress_stop;
        action.sa_flags = SA_RESTART;
        if (!progress_signals[i].repeated)
            action.sa_flags |= (int)SA_RESETHAND; /* the second one has its usual effect */
        sigemptyset(&action.sa_mask);
        /* A signal that is ignored (nohup, a background job) stays ignored. */
        if (sigaction(progress_signals[i].number, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(progress_signals[i].number, &action, NULL);
    }
    /* Hours of work must not end because the reader of its progress has gone. */
    signal(SIGPIPE, SIG_IGN);
}

void cli_release_signals(void) {
    for (size_t i = 0; i < CLI_COUNT_OF(progress_signals); i++) {
        struct sigaction now;
        if (sigaction(progress_signals[i].number, NULL, &now) == 0 && now.sa_handler == progress_stop)
            signal(progress_signals[i].number, SIG_DFL);
    }
}

/* ---- the bar ----------------------------------------------------------------------------------------------------- */

void cli_progress_start(struct cli_progress *progress, bool quiet, bool plain) {
    const char *terminal = getenv("TERM");
    bool able = isatty(STDERR_FILENO) && terminal && strcmp(terminal, "dumb") != 0;
    *progress = (struct cli_progress){.kind = quiet ? CLI_SILENT : able && !plain ? CLI_BAR : CLI_LINES};
    progress->utf8 = cli_locale_utf8();
}

bool cli_progress_due(const struct cli_progress *progress) {
    if (progress->kind == CLI_SILENT) return false;
    return progress->latest == 0 || qkv_clock() - progress->latest >= (progress->kind == CLI_BAR ? 0.1 : 10);
}

/* Draws a bar of `cells` columns with eighths of a block, or with '#' and '.' if the locale has no blocks. */
static size_t draw_bar(char *out, size_t size, int cells, double share, bool utf8) {
    static const char *const parts[] = {"\u258F", "\u258E", "\u258D", "\u258C", "\u258B", "\u258A", "\u2589"};
    size_t used = 0;
    int eighths = (int)(share * cells * 8 + 0.5);
    for (int i = 0; i < cells; i++) {
        int here = eighths - 8 * i;
        const char *cell = utf8        ? (here >= 8  ? "\u2588"
                                          : here > 0 ? parts[here - 1]
                                                     : "\u2591")
                           : here >= 4 ? "#"
                                       : ".";
        size_t n = strlen(cell);
        if (used + n >= size) break;
        memcpy(out + used, cell, n);
        used += n;
    }
    out[used] = 0;
    return used;
}

static void show_line(const char *const *fields, size_t count) {
    char line[512];
    size_t used = 0;
    line[0] = 0;
    for (size_t i = 0; i < count; i++) {
        int n = snprintf(line + used, sizeof line - used, "%s%s", i ? ", " : "", fields[i]);
        if (n < 0 || (size_t)n >= sizeof line - used) break;
        used += (size_t)n;
    }
    fprintf(stderr, "%s\n", line);
}

/* Each drawing asks for the width, so that no handler is needed for windows that change their size. */
static void show_bar(struct cli_progress *progress, double share, const char *const *fields, size_t count) {
    enum { LEAST = 8, MOST = 30 };
    char line[1024], text[512] = "", percent[16] = "";
    int width = cli_width(STDERR_FILENO) - 1, used, cells;
    if (share >= 0) snprintf(percent, sizeof percent, " %3d%%", (int)(100 * share));
    used = (int)strlen(percent);
    for (size_t i = 0; i < count; i++) {
        int n = (int)strlen(fields[i]) + 2;
        if (used + n + (share >= 0 ? LEAST : 0) > width || strlen(text) + (size_t)n >= sizeof text) break;
        strcat(strcat(text, "  "), fields[i]);
        used += n;
    }
    cells = width - used < MOST ? width - used : MOST;
    if (share < 0 || cells < LEAST) cells = 0;
    size_t at = (size_t)snprintf(line, sizeof line, "\r");
    at += draw_bar(line + at, sizeof line - at, cells, share, progress->utf8);
    snprintf(line + at, sizeof line - at, "%s%s\033[K", percent, text);
    fputs(line, stderr);
    progress->drawn = true;
}

void cli_progress_show(struct cli_progress *progress, double share, const char *const *fields, size_t count) {
    if (share > 1) share = 1;
    if (progress->kind == CLI_LINES) show_line(fields, count);
    if (progress->kind == CLI_BAR) show_bar(progress, share, fields, count);
    progress->latest = qkv_clock();
}

void cli_progress_clear(struct cli_progress *progress) {
    if (progress->drawn) fputs("\r\033[K", stderr);
    progress->drawn = false;
}

void cli_progress_line(struct cli_progress *progress, const char *format, ...) {
    va_list list;
    if (progress->kind == CLI_SILENT) return;
    cli_progress_clear(progress);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
}

bool cli_task_progress(void *user, const char *what, double done, double total) {
    struct cli_task *task = user;
    char percent[16];
    const char *fields[2] = {what, percent};
    if (cli_progress_due(task->progress)) {
        snprintf(percent, sizeof percent, "%.0f%%", total > 0 ? 100 * done / total : 0);
        bool line = task->progress->kind == CLI_LINES && total > 0;
        cli_progress_show(task->progress, total > 0 ? done / total : -1, fields, line ? 2 : 1);
    }
    return task->finish || !cli_stopping;
}
