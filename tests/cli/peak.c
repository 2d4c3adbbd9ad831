/* peak FILE COMMAND... runs a command, writes three numbers in KiB to FILE, and exits as the command does: the peak
 * of memory that no file backs; the peak of all memory, as the system counts it; and the pages of mapped weights
 * that were never read. The first and the last are sampled every few milliseconds. */
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/resource.h>
#include <sys/wait.h>

/* The KiB of anonymous pages of a process; 0: it has ended. */
static long anonymous(pid_t child) {
    char path[64], line[256];
    long kilobytes = 0;
    snprintf(path, sizeof path, "/proc/%ld/status", (long)child);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "RssAnon: %ld kB", &kilobytes) == 1) break;
    if (file) fclose(file);
    return kilobytes;
}

/* The KiB of the mapped files of weights whose pages the process has not read so far; -1: it maps none. */
static long unread(pid_t child) {
    char path[64], line[4352];
    long kilobytes, sum = -1;
    int weights = 0;
    snprintf(path, sizeof path, "/proc/%ld/smaps", (long)child);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        const char *name = strchr(line, '/');
        if (name || strchr(line, '-')) weights = name && strstr(name, ".safetensors") != NULL;
        if (!weights) continue;
        if (sscanf(line, "Size: %ld kB", &kilobytes) == 1) sum = (sum < 0 ? 0 : sum) + kilobytes;
        if (sscanf(line, "Rss: %ld kB", &kilobytes) == 1) sum -= kilobytes;
    }
    if (file) fclose(file);
    return sum;
}

int main(int argc, char **argv) {
    const struct timespec pause = {0, 2000000};
    struct rusage usage;
    long peak = 0, left = 0, now;
    int status = 0;
    if (argc < 3) return 2;
    const pid_t child = fork();
    if (!child) {
        execvp(argv[2], argv + 2);
        _exit(127);
    }
    while (child > 0 && wait4(child, &status, WNOHANG, &usage) == 0) {
        now = anonymous(child);
        if (now > peak) peak = now;
        now = unread(child);
        if (now >= 0) left = now;
        nanosleep(&pause, NULL);
    }
    FILE *file = fopen(argv[1], "w");
    if (!file || child < 0) return 126;
    fprintf(file, "%ld %ld %ld\n", peak, usage.ru_maxrss, left);
    fclose(file);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 125;
}
