/* help_spec.c: "qkv help spec": the keys of a spec, as the library describes them. */
#include <stdio.h>
#include <string.h>

#include "cli_help.h"

enum { SPEC_INDENT = 20, SPEC_LONG = 4096, SPEC_OPTIONS = 108 };

/* ---- texts ------------------------------------------------------------------------------------------------------- */

/* "default: 0.1", or "must be given"; "" for an object that every spec has. */
static const char *spec_default(const struct qkv_spec_key *key, char *text, size_t size) {
    const bool object = key->inside[0] && !key->standard[0];
    snprintf(text, size, "%s%s", key->standard[0] ? "default: " : object ? "" : "must be given", key->standard);
    return text;
}

/* A setting as a word of a command line: "decoder.ffn.kind=relu", "'pattern=[\"a\"]'". */
static size_t spec_add_word(char *text, size_t size, size_t used, const char *path, const char *value, size_t n) {
    const bool quoted = n >= 2 && value[0] == '"' && !memchr(value + 1, '"', n - 2); /* a text alone needs none */
    if (quoted) value++, n -= 2;
    const bool special = memchr(value, '"', n) || memchr(value, '[', n) || memchr(value, '{', n);
    if (used < size)
        used += (size_t)snprintf(text + used, size - used, "%s--set %s%s=%.*s%s", used ? " " : "", special ? "'" : "",
                                 path, (int)n, value, special ? "'" : "");
    return used;
}

/* The example, and what it needs, as options: "--set decoder.attention.heads=8". */
static const char *spec_options(const struct qkv_spec_key *key, char *text, size_t size) {
    size_t used = 0;
    text[0] = 0;
    for (const char *setting = key->needs; *setting;) {
        char path[QKV_SPEC_KEY_TEXT];
        const size_t n = strcspn(setting, " "), equal = strcspn(setting, "=");
        snprintf(path, sizeof path, "%.*s", (int)equal, setting);
        used = spec_add_word(text, size, used, path, setting + equal + 1, n - equal - 1);
        setting += n + (setting[n] == ' ');
    }
    spec_add_word(text, size, used, key->path, key->example, strlen(key->example));
    return text;
}

/* The name of a key without the path before it. */
static const char *spec_name(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

/* ---- plain text -------------------------------------------------------------------------------------------------- */

static void spec_print_row(const struct qkv_spec_key *key, const char *name) {
    char text[SPEC_LONG], standard[QKV_SPEC_KEY_TEXT + 16];
    spec_default(key, standard, sizeof standard);
    snprintf(text, sizeof text, "%s%s%s%s", key->help, *standard ? " (" : "", standard, *standard ? ")" : "");
    const int n = printf("  %s", name);
    if (n + 2 > SPEC_INDENT)
        printf("\n%*s", SPEC_INDENT, "");
    else
        printf("%*s", SPEC_INDENT - n, "");
    cli_print_wrapped(text, SPEC_INDENT, SPEC_INDENT);
}

static void spec_print_part(const struct qkv_spec_part *part) {
    struct qkv_spec_key key;
    printf("\n%s%s%s:\n", part->path, *part->path ? ": " : "", part->title);
    printf("  ");
    cli_print_wrapped(part->help, 2, 2);
    for (size_t i = 0; qkv_spec_describe_at(i, &key); i++)
        if (!strcmp(key.part, part->path)) spec_print_row(&key, spec_name(key.path));
}

static void spec_print_label(const char *label, const char *text) {
    printf("%-10s", label);
    cli_print_wrapped(text, 10, 10);
}

/* The example as a call, an option a line if it is longer than a line. */
static void spec_print_call(const struct qkv_spec_key *key) {
    enum { COLUMNS = 79 };
    static const char call[] = "  qkv info --preset nano-gpt";
    char options[SPEC_LONG];
    spec_options(key, options, sizeof options);
    const bool fits = sizeof call + strlen(options) < COLUMNS;
    printf("%s", call);
    for (const char *option = options; *option;) {
        const char *next = strstr(option + 1, " --set ");
        const size_t n = next ? (size_t)(next - option) : strlen(option);
        printf("%s%.*s", fits ? " " : " \\\n      ", (int)n, option);
        option += n + (next != NULL);
    }
    putchar('\n');
}

static void spec_print_key(const struct qkv_spec_key *key) {
    const int n = printf("%s:", key->path);
    cli_print_wrapped(key->help, n, 2);
    putchar('\n');
    for (size_t i = 0; i < key->choice_count; i++) {
        const int at = printf("%-10s%-16s ", i ? "" : "values", key->choices[i].text);
        cli_print_wrapped(key->choices[i].help, at, 27);
    }
    if (!key->choice_count) spec_print_label("values", key->range);
    if (!key->inside[0] || key->standard[0])
        spec_print_label("default", *key->standard ? key->standard : "it must be given");
    if (key->owner) spec_print_label("only for", key->owner);
    printf("\nexample, and the same in config.json:\n");
    spec_print_call(key);
    printf("  ");
    cli_print_wrapped(key->json, 6, 6);
}

/* ---- Markdown ---------------------------------------------------------------------------------------------------- */

/* The anchor that GitHub gives to a heading: lower case, "-" for spaces, letters, digits, "_" and "-" only. */
static const char *spec_anchor(const char *heading, char *text, size_t size) {
    size_t n = 0;
    for (const char *c = heading; *c && n + 1 < size; c++) {
        const char lower = (char)(*c >= 'A' && *c <= 'Z' ? *c + 32 : *c);
        if ((lower >= 'a' && lower <= 'z') || (lower >= '0' && lower <= '9') || lower == '_') text[n++] = lower;
        if (lower == ' ') text[n++] = '-';
    }
    text[n] = 0;
    return text;
}

/* The part at a path; false if there is none. */
static bool spec_find_part(const char *path, struct qkv_spec_part *part) {
    for (size_t i = 0; qkv_spec_part_at(i, part); i++)
        if (*part->path && !strcmp(part->path, path)) return true;
    return false;
}

/* Facts in a paragraph: the values, the default, where the key is allowed. */
static void spec_markdown_facts(const struct qkv_spec_key *key) {
    char text[SPEC_LONG], anchor[QKV_SPEC_KEY_TEXT];
    struct qkv_spec_part part;
    size_t used = 0;
    const bool object =
        key->inside[0] && strncmp(key->range, "an object,", 10) == 0 && spec_find_part(key->inside, &part);
    if (object)
        used = (size_t)snprintf(text, sizeof text, "Values: an object%s; its keys are in [%s](#%s).",
                                !strcmp(key->standard, "null") ? " or null" : "", part.title,
                                spec_anchor(part.title, anchor, sizeof anchor));
    else if (!key->choice_count)
        used = (size_t)snprintf(text, sizeof text, "Values: %s.", key->range);
    const char *between = used ? " " : "";
    if (*key->standard)
        used += (size_t)snprintf(text + used, sizeof text - used, "%sDefault: %s.", between, key->standard);
    else if (!key->inside[0])
        used += (size_t)snprintf(text + used, sizeof text - used, "%sIt must be given.", between);
    if (key->owner) used += (size_t)snprintf(text + used, sizeof text - used, " Only for %s.", key->owner);
    if (key->choice_count) snprintf(text + used, sizeof text - used, " Values:");
    cli_markdown_wrapped(text, 0, "");
}

/* The example as options, or where these are long as JSON. */
static void spec_markdown_example(const struct qkv_spec_key *key) {
    char options[SPEC_LONG], text[SPEC_LONG + 64];
    spec_options(key, options, sizeof options);
    const bool json = strlen(options) > SPEC_OPTIONS;
    snprintf(text, sizeof text, "Example: `%s`", json ? key->json : options);
    cli_markdown_wrapped(text, 0, "");
}

static void spec_markdown_key(const struct qkv_spec_key *key) {
    printf("\n### `%s`\n\n", key->path);
    cli_markdown_wrapped(key->help, 0, "");
    putchar('\n');
    spec_markdown_facts(key);
    if (key->choice_count) putchar('\n');
    for (size_t i = 0; i < key->choice_count; i++) {
        const int at = printf("- `%s`: ", key->choices[i].text);
        cli_markdown_wrapped(key->choices[i].help, at, "  ");
    }
    putchar('\n');
    spec_markdown_example(key);
}

/* A list of the parts, each with its keys. */
static void spec_markdown_index(void) {
    struct qkv_spec_part part;
    struct qkv_spec_key key;
    for (size_t p = 0; qkv_spec_part_at(p, &part); p++) {
        char text[SPEC_LONG];
        size_t used = (size_t)snprintf(text, sizeof text, "- %s%s%s%s:", part.title, *part.path ? ", `" : "", part.path,
                                       *part.path ? "`" : "");
        bool first = true;
        for (size_t i = 0; qkv_spec_describe_at(i, &key) && used < sizeof text; i++) {
            char anchor[QKV_SPEC_KEY_PATH];
            if (strcmp(key.part, part.path) != 0) continue;
            used += (size_t)snprintf(text + used, sizeof text - used, "%s [`%s`](#%s)", first ? "" : ",",
                                     spec_name(key.path), spec_anchor(key.path, anchor, sizeof anchor));
            first = false;
        }
        cli_markdown_wrapped(text, 0, "  ");
    }
}

static void spec_markdown(void) {
    struct qkv_spec_part part;
    struct qkv_spec_key key;
    spec_markdown_index();
    for (size_t p = 0; qkv_spec_part_at(p, &part); p++) {
        printf("\n## %s\n\n", part.title);
        cli_markdown_wrapped(part.help, 0, "");
        for (size_t i = 0; qkv_spec_describe_at(i, &key); i++)
            if (!strcmp(key.part, part.path)) spec_markdown_key(&key);
    }
}

/* ---- what is asked for ------------------------------------------------------------------------------------------- */

static void spec_print_all(void) {
    struct qkv_spec_part part;
    printf("qkv help spec: the keys of config.json, which describe a model\n\n"
           "usage:\n"
           "  qkv help spec                     all keys\n"
           "  qkv help spec decoder.attention   the keys of one part\n"
           "  qkv help spec kv_heads            one key, with its values and an example\n"
           "  qkv help spec --markdown          all keys with their values and examples, in Markdown\n\n");
    cli_print_wrapped("A spec is the description of a model, written as JSON. Keys that are left out have their "
                      "defaults. The option --set KEY=VALUE changes a key of a preset or of a file.",
                      0, 0);
    for (size_t i = 0; qkv_spec_part_at(i, &part); i++) spec_print_part(&part);
}

static const char *spec_path_at(const void *keys, size_t i) {
    return ((const struct qkv_spec_key *)keys)[i].path;
}

static const char *spec_name_at(const void *keys, size_t i) {
    return spec_name(spec_path_at(keys, i));
}

/* Keys of that name in all parts: one is described, several are listed. Returns how many there are. */
static size_t spec_print_named(const char *name) {
    struct qkv_spec_key key, only = {0};
    size_t count = 0;
    for (size_t i = 0; qkv_spec_describe_at(i, &key); i++)
        if (!strcmp(spec_name(key.path), name) && count++ == 0) only = key;
    if (count == 1) spec_print_key(&only);
    if (count < 2) return count;
    printf("%zu keys are called %s; \"qkv help spec KEY\" describes one of them:\n\n", count, name);
    for (size_t i = 0; qkv_spec_describe_at(i, &key); i++)
        if (!strcmp(spec_name(key.path), name)) spec_print_row(&key, key.path);
    return count;
}

/* The closest key: of a word without a dot by its name alone if one is close, else by its path. */
static int spec_unknown(const char *name) {
    enum { KEYS = 256 };
    static struct qkv_spec_key keys[KEYS];
    size_t count = 0, i = 0;
    while (count < KEYS && qkv_spec_describe_at(count, &keys[count])) count++;
    const char *closest = strchr(name, '.') ? qkv_closest_name(name, spec_path_at, keys, count) : NULL;
    const char *word = closest ? NULL : qkv_closest_name(spec_name(name), spec_name_at, keys, count);
    while (word && strcmp(spec_name(keys[i].path), word)) i++;
    if (word) closest = keys[i].path;
    return cli_usage("a spec has no key \"%s\"%s%s%s (\"%s help spec\" lists them)", name,
                     closest ? "; did you mean " : "", closest ? closest : "", closest ? "?" : "", cli_program);
}

int cli_help_spec(const char *name, bool markdown) {
    struct qkv_spec_key key;
    struct qkv_spec_part part;
    if (markdown)
        spec_markdown();
    else if (!name)
        spec_print_all();
    else if (qkv_spec_describe(name, &key)) {
        spec_print_key(&key);
        if (key.inside[0] && spec_find_part(key.inside, &part)) spec_print_part(&part);
    } else if (!spec_print_named(name))
        return spec_unknown(name);
    return CLI_DONE;
}
