/* help_topics.c: finds the topic that "qkv help WORD" asks for, if the word is no command. */
#include <stdio.h>
#include <string.h>

#include "cli_help.h"

/* "decoder.attention.heads", "d_model", or a misspelled path; but "embed" is a command. */
static bool topics_is_key(const char *word) {
    const struct cli_command *command;
    struct qkv_spec_key key;
    for (size_t i = 0; (command = cli_command_at(i)); i++)
        if (!strcmp(command->name, word)) return false;
    return strchr(word, '.') || qkv_spec_describe(word, &key);
}

bool cli_help_topic(char **words, size_t count, int *code) {
    const bool spec = count && !strcmp(words[0], "spec"), files = count && !strcmp(words[0], "files");
    bool markdown = false;
    const char *name = NULL;
    if (!count || (!spec && !files && !topics_is_key(words[0]))) return false;
    for (size_t i = spec || files; i < count; i++) {
        if (!strcmp(words[i], "--markdown")) {
            markdown = true;
        } else if (name || files) {
            *code = cli_usage("help: one argument too many: \"%s\"", words[i]);
            return true;
        } else {
            name = words[i];
        }
    }
    if (markdown && name)
        *code = cli_usage("help: --markdown prints all keys; leave \"%s\" out", name);
    else
        *code = files ? cli_help_files(markdown) : cli_help_spec(name, markdown);
    return true;
}
