/* markdown.c: text for the pages in docs/ that the command prints. */
#include <stdio.h>
#include <string.h>

#include "cli_help.h"

void cli_markdown_wrapped(const char *text, int at, const char *indent) {
    enum { COLUMNS = 120 };
    const int left = (int)strlen(indent);
    bool first = true;
    while (*text) {
        const size_t n = strcspn(text, " ");
        int width = (int)n;
        for (size_t i = 0; i < n; i++) width += text[i] == '*';
        if (!first && at + 1 + width > COLUMNS) {
            printf("\n%s", indent);
            at = left;
        } else if (!first) {
            putchar(' '), at++;
        }
        for (size_t i = 0; i < n; i++) printf("%s%c", text[i] == '*' ? "\\" : "", text[i]);
        at += width;
        first = false;
        text += n + (text[n] == ' ');
    }
    putchar('\n');
}
