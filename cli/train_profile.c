/* train_profile.c: the table of "qkv train --profile": where the time of a step goes, longest first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_train.h"

static int by_time(const void *a, const void *b) {
    double left = (*(const struct qkv_profile_row *const *)a)->seconds,
           right = (*(const struct qkv_profile_row *const *)b)->seconds;
    return left < right ? 1 : left > right ? -1 : 0;
}

/* "71.2G", or "-" for none. */
static const char *train_profile_rate(char *text, double count, double seconds) {
    if (!(count > 0 && seconds > 0)) return "-";
    return cli_short(text, count / seconds);
}

static void print_row(const struct qkv_profile_report *report, const struct qkv_profile_row *row) {
    static const char *const directions[] = {"", " forward", " backward"};
    char name[64], flops[CLI_NUMBER], bytes[CLI_NUMBER], share[16] = "-";
    double steps = (double)report->steps;
    snprintf(name, sizeof name, "%s%s", row->name, directions[row->direction]);
    if (row->flops > 0 && row->seconds > 0 && report->peak > 0)
        snprintf(share, sizeof share, "%.1f%%", 100 * row->flops / row->seconds / report->peak);
    printf("  %-22s %10.4g %11.3f %7.1f%% %9s %8s %9s\n", name, (double)row->calls / steps, 1e3 * row->seconds / steps,
           report->seconds > 0 ? 100 * row->seconds / report->seconds : 0,
           train_profile_rate(flops, row->flops, row->seconds), share,
           train_profile_rate(bytes, row->bytes, row->seconds));
}

void cli_print_profile(struct qkv_profile_report report) {
    char peak[CLI_NUMBER];
    struct qkv_profile_row all = {.name = "a step", .calls = (uint64_t)report.steps, .seconds = report.seconds};
    const struct qkv_profile_row **sorted = malloc((report.count + 1) * sizeof *sorted);
    if (!report.steps || !sorted) {
        printf("no step to profile\n");
        free(sorted);
        return;
    }
    for (size_t i = 0; i < report.count; i++) {
        sorted[i] = &report.rows[i];
        all.flops += report.rows[i].flops;
    }
    qsort(sorted, report.count, sizeof *sorted, by_time);
    printf("profile of %lld step%s; peak %s FLOP/s\n", (long long)report.steps, report.steps == 1 ? "" : "s",
           cli_short(peak, report.peak));
    printf("  %-22s %10s %11s %8s %9s %8s %9s\n", "operator", "calls/step", "ms/step", "time", "FLOP/s", "of peak",
           "bytes/s");
    for (size_t i = 0; i < report.count; i++) print_row(&report, sorted[i]);
    print_row(&report, &all);
    if (report.rank_seconds > 0)
        printf("ranks exchanged sums of gradients in %.3f ms of a step, %.1f%% of them while backward ran\n",
               1e3 * report.rank_seconds / (double)report.steps, 100 * report.rank_hidden / report.rank_seconds);
    free(sorted);
}
