/* chat_commands.c: the commands among the lines of a talk: they begin with a slash. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "cli_chat.h"

struct chat_command {
    const char *name, *argument, *help;
    enum cli_chat_next (*run)(struct cli_chat *chat, const char *argument);
};

/* ---- settings ---------------------------------------------------------------------------------------------------- */

/* The settings of /set: the value of `kind` in the options of the chat. */
struct chat_setting {
    const char *name;
    enum { SETTING_REAL, SETTING_COUNT, SETTING_THINKING, SETTING_FULL } kind;
    double low, high; /* low is no value of top-p and repeat-penalty, which are above 0 */
    bool above;
};
static const struct chat_setting settings[] = {
    {"temperature", SETTING_REAL, 0, 1e9, false},
    {"top-k", SETTING_COUNT, 0, INT32_MAX, false},
    {"top-p", SETTING_REAL, 0, 1, true},
    {"min-p", SETTING_REAL, 0, 1, false},
    {"repeat-penalty", SETTING_REAL, 0, 1e9, true},
    {"repeat-last", SETTING_COUNT, 0, INT32_MAX, false},
    {"seed", SETTING_COUNT, 0, 9e18, false},
    {"tokens", SETTING_COUNT, 1, INT32_MAX, false},
    {"thinking", SETTING_THINKING, 0, 0, false},
    {"when-full", SETTING_FULL, 0, 0, false},
};
#define SETTING_VARIABLE "template."

static double *setting_real(struct cli_chat *chat, const char *name) {
    struct qkv_sampling *s = &chat->options.sampling;
    return *name == 't'   ? (name[1] == 'e' ? &s->temperature : &s->top_p)
           : *name == 'm' ? &s->min_p
                          : &s->repeat_penalty;
}

static void setting_count(struct cli_chat *chat, const char *name, int64_t value) {
    struct qkv_sampling *s = &chat->options.sampling;
    if (!strcmp(name, "top-k")) s->top_k = (int)value;
    if (!strcmp(name, "repeat-last")) s->repeat_last = (int)value;
    if (!strcmp(name, "seed")) s->seed = (uint64_t)value, chat->answers = 0;
    if (!strcmp(name, "tokens")) chat->options.tokens = (size_t)value, chat->options.max_length = 0;
}

static bool setting_take(struct cli_chat *chat, const struct chat_setting *s, const char *text) {
    double real;
    int64_t count;
    switch (s->kind) {
    case SETTING_REAL:
        if (!cli_read_real(text, &real) || real < s->low || real > s->high || (s->above && real == s->low))
            return false;
        *setting_real(chat, s->name) = real;
        return true;
    case SETTING_COUNT:
        if (!cli_read_count(text, (int64_t)s->low, (int64_t)s->high, &count)) return false;
        setting_count(chat, s->name, count);
        return true;
    case SETTING_THINKING:
        return cli_thinking_find(text, &chat->answer.kind);
    default:
        chat->forgets = !strcmp(text, CLI_FULL_FORGET);
        return chat->forgets || !strcmp(text, CLI_FULL_STOP);
    }
}

static const char *setting_name(const void *list, size_t i) {
    (void)list;
    return settings[i].name;
}

static enum cli_chat_next command_set(struct cli_chat *chat, const char *argument) {
    const char *equals = strchr(argument, '=');
    const size_t variable = strlen(SETTING_VARIABLE);
    char name[64];
    if (!equals || equals == argument || (size_t)(equals - argument) >= sizeof name) {
        cli_say("write /set NAME=VALUE; NAME is temperature, top-k, top-p, min-p, repeat-penalty, repeat-last, seed, "
                "tokens, thinking, when-full, or template.KEY for a variable of the template");
        return CLI_CHAT_READ;
    }
    if (!strncmp(argument, SETTING_VARIABLE, variable)) {
        cli_talk_set(&chat->style, argument + variable);
        return CLI_CHAT_READ;
    }
    snprintf(name, sizeof name, "%.*s", (int)(equals - argument), argument);
    for (size_t i = 0; i < CLI_COUNT_OF(settings); i++)
        if (!strcmp(settings[i].name, name)) {
            if (!setting_take(chat, &settings[i], equals + 1)) cli_say("%s cannot be \"%s\"", name, equals + 1);
            return CLI_CHAT_READ;
        }
    const char *closest = qkv_closest_name(name, setting_name, NULL, CLI_COUNT_OF(settings));
    cli_say("there is no setting \"%s\"%s%s%s", name, closest ? "; did you mean " : "", closest ? closest : "",
            closest ? "?" : "");
    return CLI_CHAT_READ;
}

/* ---- the talk ---------------------------------------------------------------------------------------------------- */

static enum cli_chat_next command_system(struct cli_chat *chat, const char *argument) {
    if (*argument) {
        cli_chat_system(chat, argument);
        return CLI_CHAT_READ;
    }
    const json_t *first = json_array_get(chat->messages, 0);
    const char *role = json_string_value(json_object_get(first, "role"));
    const char *text = json_string_value(json_object_get(first, "content"));
    if (role && !strcmp(role, "system") && text)
        printf("%s\n", text);
    else
        cli_say("the talk has no text of the system; /system TEXT sets one");
    return CLI_CHAT_READ;
}

static enum cli_chat_next command_again(struct cli_chat *chat, const char *argument) {
    (void)argument;
    if (cli_chat_drop(chat, "assistant")) return CLI_CHAT_ANSWER;
    cli_say("there is no answer yet");
    return CLI_CHAT_READ;
}

static enum cli_chat_next command_new(struct cli_chat *chat, const char *argument) {
    (void)argument;
    const json_t *first = json_array_get(chat->messages, 0);
    const char *role = json_string_value(json_object_get(first, "role"));
    const size_t keep = role && !strcmp(role, "system");
    while (json_array_size(chat->messages) > keep)
        json_array_remove(chat->messages, json_array_size(chat->messages) - 1);
    return CLI_CHAT_READ;
}

/* Remembers the file of the talk; /save may replace this one. */
static void command_file(struct cli_chat *chat, const char *path) {
    char *copy = strdup(path);
    free(chat->file);
    chat->file = copy;
}

static enum cli_chat_next command_save(struct cli_chat *chat, const char *argument) {
    const char *path = *argument ? argument : chat->file;
    struct cli_output output = {0};
    if (!path) {
        cli_say("name a file: /save FILE");
        return CLI_CHAT_READ;
    }
    const bool mine = chat->file && !strcmp(chat->file, path);
    char *text = json_dumps(chat->messages, JSON_INDENT(1));
    int code = text ? cli_output_begin(chat->ctx, path, mine, &output) : cli_failed("out of memory");
    if (code == CLI_DONE) {
        fprintf(output.file, "{\"messages\": %s}\n", text);
        code = cli_output_end(&output, CLI_DONE);
    }
    if (code == CLI_DONE && !mine) command_file(chat, path);
    if (code == CLI_DONE) cli_say("saved %zu messages in %s", json_array_size(chat->messages), chat->file);
    free(text);
    return CLI_CHAT_READ;
}

static enum cli_chat_next command_load(struct cli_chat *chat, const char *argument) {
    char *text = NULL;
    size_t size = 0;
    if (!*argument)
        cli_say("name a file: /load FILE");
    else if (cli_read_all(argument, QKV_CHAT_TALK, &text, &size) == CLI_DONE &&
             cli_chat_read(chat, argument, text, size) == CLI_DONE) {
        command_file(chat, argument);
        cli_say("the talk has %zu messages now", json_array_size(chat->messages));
    }
    free(text);
    return CLI_CHAT_READ;
}

enum { ADAPTERS_TEXT = 400 };
/* The names that /adapter takes. */
static const char *adapters_list(const struct cli_chat *chat, char text[ADAPTERS_TEXT]) {
    size_t used = 0;
    const char *name;
    for (size_t i = 0; (name = qkv_adapter_name(chat->model, i)) && used < ADAPTERS_TEXT; i++)
        used += (size_t)snprintf(text + used, ADAPTERS_TEXT - used, "%s, ", name);
    if (used < ADAPTERS_TEXT) snprintf(text + used, ADAPTERS_TEXT - used, CLI_CHAT_NO_ADAPTER);
    return text;
}

static enum cli_chat_next command_adapter(struct cli_chat *chat, const char *argument) {
    const char *name;
    char text[ADAPTERS_TEXT];
    size_t i = 0;
    if (!qkv_adapter_name(chat->model, 0)) {
        cli_say("there are no adapters to choose from; begin with --adapter NAME=FOLDER");
        return CLI_CHAT_READ;
    }
    if (!*argument) {
        printf("%s, of %s\n", chat->adapter ? chat->adapter : CLI_CHAT_NO_ADAPTER, adapters_list(chat, text));
        return CLI_CHAT_READ;
    }
    while ((name = qkv_adapter_name(chat->model, i)) && strcmp(name, argument) != 0) i++;
    if (!name && strcmp(argument, CLI_CHAT_NO_ADAPTER) != 0) {
        cli_say("there is no adapter %.80s; there are %s", argument, adapters_list(chat, text));
        return CLI_CHAT_READ;
    }
    return cli_chat_adapt(chat, name) && !chat->session ? CLI_CHAT_END : CLI_CHAT_READ;
}

static enum cli_chat_next command_stats(struct cli_chat *chat, const char *argument) {
    (void)argument;
    const struct qkv_generate_report *r = &chat->report;
    const struct qkv_cache_pages pages = qkv_session_pages(chat->session);
    char bytes[CLI_NUMBER];
    if (!chat->ended) {
        cli_say("there is no answer yet");
        return CLI_CHAT_READ;
    }
    printf("the talk       %zu tokens of a context of %zu\n", chat->talk_tokens + r->tokens,
           qkv_session_capacity(chat->session));
    printf("read           %zu tokens in %.2f s (%.0f tokens/s); %zu were in the cache\n", r->prompt_tokens,
           r->prompt_seconds, r->prompt_seconds > 0 ? (double)r->prompt_tokens / r->prompt_seconds : 0, chat->kept);
    printf("made           %zu tokens in %.2f s (%.1f tokens/s)\n", r->tokens, r->seconds,
           r->seconds > 0 ? (double)r->tokens / r->seconds : 0);
    printf("ended by       %s\n", chat->ended);
    printf("cache          %s in use\n", cli_bytes(bytes, pages.bytes * pages.used));
    return CLI_CHAT_READ;
}

static enum cli_chat_next command_exit(struct cli_chat *chat, const char *argument) {
    (void)chat, (void)argument;
    return CLI_CHAT_END;
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

static enum cli_chat_next command_help(struct cli_chat *chat, const char *argument);

static const struct chat_command commands[] = {
    {"help", "", "lists the commands", command_help},
    {"system", "TEXT", "sets the text of the system, \"You are brief.\"; without TEXT: prints it", command_system},
    {"again", "", "makes another answer in place of the latest one", command_again},
    {"new", "", "begins a new talk; the text of the system stays", command_new},
    {"save", "FILE", "writes the talk as JSON", command_save},
    {"load", "FILE", "goes on with a talk in JSON", command_load},
    {"set", "NAME=VALUE",
     "temperature=0.7, top-k, top-p, min-p, repeat-penalty, repeat-last, seed, tokens, "
     "thinking=hide, when-full=forget-oldest, template.KEY",
     command_set},
    {"adapter", "NAME", "answers with that adapter from now on; none: without; without NAME: prints them",
     command_adapter},
    {"stats", "", "prints what the latest answer read, made and took", command_stats},
    {"exit", "", "ends the talk, as Ctrl-D does", command_exit},
};

static enum cli_chat_next command_help(struct cli_chat *chat, const char *argument) {
    (void)chat, (void)argument;
    char word[64];
    for (size_t i = 0; i < CLI_COUNT_OF(commands); i++) {
        snprintf(word, sizeof word, "/%s %s", commands[i].name, commands[i].argument);
        printf("  %-17s ", word);
        cli_print_wrapped(commands[i].help, 20, 20);
    }
    printf("  %-17s lines up to the next \"\"\" are one text\n", "\"\"\"");
    printf("  %-17s a text that begins with one slash\n", "//");
    printf("  %-17s stops an answer\n", "Ctrl-C");
    return CLI_CHAT_READ;
}

static const char *command_name(const void *list, size_t i) {
    (void)list;
    return commands[i].name;
}

enum cli_chat_next cli_chat_command(struct cli_chat *chat, const char *line) {
    char word[64];
    const char *argument = ++line;
    while (*argument && !isspace((unsigned char)*argument)) argument++;
    snprintf(word, sizeof word, "%.*s", (int)(argument - line < 60 ? argument - line : 60), line);
    while (isspace((unsigned char)*argument)) argument++;
    for (size_t i = 0; i < CLI_COUNT_OF(commands); i++)
        if (!strcmp(commands[i].name, word)) return commands[i].run(chat, argument);
    const char *closest = qkv_closest_name(word, command_name, NULL, CLI_COUNT_OF(commands));
    cli_say("there is no command /%s%s%s (/help lists them; a text that begins with a slash begins with //)", word,
            closest ? "; did you mean /" : "", closest ? closest : "");
    return CLI_CHAT_READ;
}
