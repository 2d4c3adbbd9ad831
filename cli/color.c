/* color.c: decides about colour: on a terminal, unless NO_COLOR is set (https://no-color.org) or TERM is dumb. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

bool cli_colored(int descriptor) {
    const char *off = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return !(off && *off) && terminal && *terminal && strcmp(terminal, "dumb") != 0 && isatty(descriptor);
}

const char *cli_style(int descriptor, enum cli_style style) {
    static const char *const codes[] = {
        [CLI_PLAIN] = "\033[0m", [CLI_HEADING] = "\033[1m", [CLI_ERROR] = "\033[1;31m", [CLI_BEST] = "\033[1;32m"};
    return cli_colored(descriptor) ? codes[style] : "";
}
