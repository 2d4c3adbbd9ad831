/* Runs a command and writes the most memory that it had, in KiB, to a file: peak FILE COMMAND... Two numbers: what no file holds, as it was
 * looked at every millisecond, and all of it, as the system counts it. Exits as the command does. */
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

int main(int argc, char **argv) {
    const struct timespec millisecond = {0, 1000000};
    struct rusage usage;
    long peak = 0, now;
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
        nanosleep(&millisecond, NULL);
    }
    FILE *file = fopen(argv[1], "w");
    if (!file || child < 0) return 126;
    fprintf(file, "%ld %ld\n", peak, usage.ru_maxrss);
    fclose(file);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 125;
}
