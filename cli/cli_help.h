/* cli_help.h: the topics of "qkv help" that are no commands: the keys of a spec, and the files of a folder. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include "cli.h"

/* Prints the topic that the words after "help" ask for, and sets the exit code. False if they ask for no topic:
 * "qkv help train". */
bool cli_help_topic(char **words, size_t count, int *code);

/* "qkv help spec": all keys of a spec, or with `name` those of a part, or one key. `markdown`: as a page for docs/. */
int cli_help_spec(const char *name, bool markdown);
/* "qkv help files": the files in the folder of a model and of a run. */
int cli_help_files(bool markdown);

/* Prints text as Markdown: `*` is escaped. Lines are broken between words after 120 columns and begin with `indent`;
 * `at` is the column where the first line goes on. */
void cli_markdown_wrapped(const char *text, int at, const char *indent);

#endif
