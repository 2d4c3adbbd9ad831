/* chat_line.c: reads the lines of a talk. libedit edits them and remembers earlier ones, where the command was built
 * with it; else the terminal edits a line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_chat.h"

#ifdef QKV_LIBEDIT
#include <editline/readline.h>
#endif

const char *cli_chat_editor(void) {
#ifdef QKV_LIBEDIT
    return "libedit " QKV_LIBEDIT;
#else
    return NULL;
#endif
}

/* A line without its end, in memory of malloc. */
static char *line_read(bool terminal, const char *prompt) {
#ifdef QKV_LIBEDIT
    if (terminal) {
        fflush(stdout);
        char *line = readline(prompt);
        if (line && *line) add_history(line);
        return line;
    }
#endif
    char *line = NULL;
    size_t room = 0;
    if (terminal) {
        fputs(prompt, stdout);
        fflush(stdout);
    }
    ssize_t size = getline(&line, &room, stdin);
    if (size < 0) {
        free(line);
        return NULL;
    }
    while (size && (line[size - 1] == '\n' || line[size - 1] == '\r')) line[--size] = 0;
    return line;
}

#define FENCE "\"\"\""

/* Reads on until a line ends with the fence; the first line began with it. */
static char *line_read_more(bool terminal, char *line) {
    const size_t fence = strlen(FENCE);
    memmove(line, line + fence, strlen(line) - fence + 1);
    for (;;) {
        const size_t size = strlen(line);
        if (size >= fence && !strcmp(line + size - fence, FENCE)) {
            line[size - fence] = 0;
            if (size > fence && line[size - fence - 1] == '\n') line[size - fence - 1] = 0;
            return line;
        }
        char *next = line_read(terminal, "... ");
        if (!next) return line;
        const size_t more = strlen(next);
        char *both = realloc(line, size + more + 2);
        if (!both) {
            free(next);
            return line;
        }
        line = both;
        if (size) line[size] = '\n';
        memcpy(line + size + (size > 0), next, more + 1);
        free(next);
    }
}

char *cli_chat_line(bool terminal) {
    char *line = line_read(terminal, "> ");
    return line && !strncmp(line, FENCE, strlen(FENCE)) ? line_read_more(terminal, line) : line;
}
