/* output.c: messages on stderr, errors of standard output, reading whole files, numbers for people. */
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>
#include <unistd.h>

#include "cli_adapters.h"

const char *cli_program = "qkv";

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static struct {
    const struct qkv_communicator *communicator; /* NULL: there is one rank */
    int threads;
    char unsaid[2048];
    atomic_bool hushed;
} output_rank;

void cli_speak_as(const struct qkv_communicator *communicator, int threads) {
    output_rank.communicator = communicator;
    output_rank.threads = threads;
}

/* Whether this rank keeps a message to itself: rank 0 speaks for all. After a rank is lost, each rank that notices
 * prints, unless a line about the loss is out already. */
static bool output_follows(void) {
    const struct qkv_communicator *c = output_rank.communicator;
    return c && (atomic_load(&output_rank.hushed) || (c->rank > 0 && !*c->reason(c->state)));
}

void cli_hush(void) {
    atomic_store(&output_rank.hushed, true);
}

const char *cli_unsaid(void) {
    return output_rank.unsaid;
}

/* Names of files and keys in files may hold escape sequences, which must not reach the terminal. */
static void output_say(const char *format, va_list list) {
    char line[sizeof output_rank.unsaid];
    vsnprintf(line, sizeof line, format, list);
    for (char *c = line; *c; c++)
        if ((unsigned char)*c < 32 || *c == 127) *c = '?';
    if (output_follows()) {
        memcpy(output_rank.unsaid, line, sizeof line);
        return;
    }
    fflush(stdout);
    fprintf(stderr, "%sqkv:%s %s\n", cli_style(STDERR_FILENO, CLI_ERROR), cli_style(STDERR_FILENO, CLI_PLAIN), line);
}

void cli_say(const char *format, ...) {
    va_list list;
    va_start(list, format);
    output_say(format, list);
    va_end(list);
}

int cli_usage(const char *format, ...) {
    va_list list;
    va_start(list, format);
    output_say(format, list);
    va_end(list);
    return CLI_USAGE;
}

int cli_failed(const char *format, ...) {
    va_list list;
    va_start(list, format);
    output_say(format, list);
    va_end(list);
    return CLI_FAILED;
}

/* The names of options that the command spells in another way than the library. */
static const char *const output_renamed[][2] = {{"width", "beam"}};

/* Whether the command has an option of that name: one of training, or one that several commands have. */
static bool output_is_option(const char *name, size_t n) {
    static const char *const common[] = {"ignore_memory", "ignore_digest", "force", "width", "max_tokens", "config"};
    const char *option, *value, *help;
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        if (!strncmp(common[i], name, n) && !common[i][n]) return true;
    for (size_t i = 0; qkv_train_option_at(i, &option, &value, &help); i++)
        if (!strncmp(option, name, n) && !option[n]) return true;
    return false;
}

/* What the library says at the beginning of a text, and the command says otherwise: "option valid_fraction = 0.1" is
 * "--valid-fraction 0.1", valid_fraction alone too, and "(setting KEY=VALUE)" is "(--set KEY=VALUE)". A name after ": "
 * is a key of a file. */
struct output_name {
    const char *name; /* of an option; NULL: a setting, or nothing */
    size_t size;      /* of the name */
    size_t skip;      /* bytes of the text that it stands for; 0: nothing */
};
static struct output_name output_name_at(const char *text, const char *at) {
    static const char inside[] = "_abcdefghijklmnopqrstuvwxyz0123456789", option[] = "option ", set[] = "setting ";
    struct output_name found = {.name = at};
    if (at > text && at[-1] != ' ' && at[-1] != '(') return (struct output_name){0};
    if (at > text && at[-1] == '(' && !strncmp(at, set, sizeof set - 1)) {
        const size_t key = strcspn(at + sizeof set - 1, "= ");
        return (struct output_name){.skip = at[sizeof set - 1 + key] == '=' ? sizeof set - 1 : 0};
    }
    if (!strncmp(at, option, sizeof option - 1)) found.name += sizeof option - 1;
    found.size = strspn(found.name, inside);
    const char *end = found.name + found.size;
    if (found.name == at &&
        (!memchr(at, '_', found.size) || *end == '.' || *end == '/' || *end == '"' || (at - text > 1 && at[-2] == ':')))
        return (struct output_name){0};
    if (!found.size || !output_is_option(found.name, found.size)) return (struct output_name){0};
    found.skip = (size_t)(end - at);
    if (found.name != at && !strncmp(end, " = ", 3)) found.skip += 2;
    return found;
}

/* Writes "--valid-fraction" for a name; returns the number of bytes, at most `size`. */
static size_t output_put_option(const struct output_name *found, char *text, size_t size) {
    char name[64] = "set ";
    if (found->name) snprintf(name, sizeof name, "%.*s", (int)found->size, found->name);
    for (size_t i = 0; i < sizeof output_renamed / sizeof *output_renamed; i++)
        if (!strcmp(name, output_renamed[i][0])) snprintf(name, sizeof name, "%s", output_renamed[i][1]);
    for (char *c = name; *c; c++)
        if (*c == '_') *c = '-';
    const int n = snprintf(text, size, "--%s", name);
    return n < 0 || (size_t)n >= size ? 0 : (size_t)n;
}

/* Copies a sentence of the library with the names of options as the command line has them. */
static char *output_name_options(const char *message, char *text, size_t size) {
    size_t used = 0;
    for (const char *at = message; *at && used + 1 < size;) {
        const struct output_name found = output_name_at(message, at);
        if (found.skip)
            used += output_put_option(&found, text + used, size - used), at += found.skip;
        else
            text[used++] = *at++;
    }
    text[used] = 0;
    return text;
}

const char *cli_sentence(const char *sentence) {
    static char text[sizeof output_rank.unsaid];
    return output_name_options(sentence, text, sizeof text);
}

const char *cli_message(const struct qkv_context *ctx) {
    return cli_sentence(qkv_message(ctx));
}

/* The sentence of a failure; if it is about the key of a spec, with the call that explains the key. */
static void output_say_failure(const struct qkv_context *ctx) {
    const char *key = qkv_message_key(ctx), *message = cli_message(ctx);
    if (key && *message)
        cli_say("%s%s \"%s help spec%s%s\" explains it", message, message[strlen(message) - 1] == '?' ? "" : ";",
                cli_program, *key ? " " : "", key);
    else
        cli_say("%s", message);
}

int cli_broken(const struct qkv_context *ctx) {
    output_say_failure(ctx);
    return CLI_FAILED;
}

int cli_misused(const struct qkv_context *ctx) {
    output_say_failure(ctx);
    return CLI_USAGE;
}

size_t cli_print_name(const char *name, size_t max) {
    size_t n = 0;
    for (; name[n] && n < max; n++) putchar((unsigned char)name[n] < 32 || name[n] == 127 ? '?' : name[n]);
    return n;
}

void cli_put_text(FILE *file, bool terminal, const char *text, size_t size) {
    for (size_t i = 0; i < size; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (terminal && (c < 32 || c == 127) && c != '\n' && c != '\t')
            fputs(cli_locale_utf8() ? "\xEF\xBF\xBD" : "?", file);
        else
            putc(c, file);
    }
}

void cli_say_emulated(const struct qkv_context *ctx, const char *run) {
    if (qkv_context_native_bf16(ctx)) return;
    if (run)
        cli_say("%s was trained in bf16, which is emulated with the %s kernels: the same rounding, but no faster than "
                "fp32; --precision fp32 turns it off",
                run, qkv_context_isa(ctx));
    else
        cli_say("bf16 is emulated with the %s kernels: the same rounding, but no faster than fp32",
                qkv_context_isa(ctx));
}

int cli_open(const struct cli_common *common, struct qkv_context **ctx) {
    struct qkv_context_options options = {.size = sizeof options,
                                          .threads = common->threads ? (int)common->threads : output_rank.threads,
                                          .communicator = output_rank.communicator,
                                          .isa = common->isa,
                                          .ignore_memory = common->ignore_memory,
                                          .ignore_digest = common->ignore_digest};
    enum qkv_status status = qkv_context_create(ctx, &options);
    if (!status) {
        if (qkv_context_isa_note(*ctx)) cli_say("%s; kernels: %s", qkv_context_isa_note(*ctx), qkv_context_isa(*ctx));
        if (qkv_context_threads_note(*ctx)) cli_say("%s", qkv_context_threads_note(*ctx));
        return qkv_cache_check(*ctx, common->cache) ? cli_misused(*ctx) : CLI_DONE;
    }
    if (!*ctx) return cli_failed("out of memory");
    cli_broken(*ctx);
    return status == QKV_ARGUMENT ? CLI_USAGE : CLI_FAILED;
}

bool cli_asks_record(const struct cli_common *common) {
    return !common->precision || strcmp(common->precision, "auto") == 0;
}

int cli_set_precision(const struct cli_common *common, struct qkv_context *ctx, const char *folder) {
    enum qkv_precision precision = QKV_FP32;
    if (!cli_asks_record(common))
        precision = strcmp(common->precision, "bf16") == 0 ? QKV_MIXED_BF16 : QKV_FP32;
    else if (folder && qkv_model_precision(ctx, folder, &precision))
        return cli_broken(ctx);
    qkv_context_set_precision(ctx, precision);
    return CLI_DONE;
}

char *cli_model_folder(const char *path, const char **checkpoint) {
    static const char end[] = ".safetensors";
    struct stat info;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const size_t n = strlen(path), last = sizeof end - 1;
    const bool file = n > last && !strcmp(path + n - last, end) && (stat(path, &info) != 0 || !S_ISDIR(info.st_mode));
    *checkpoint = file ? name : NULL;
    char *folder = !file ? strdup(path) : slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    if (!folder) cli_failed("out of memory");
    return folder;
}

int cli_load_opened(const struct cli_common *common, struct qkv_context *ctx, const char *folder,
                    struct qkv_opening *opening, struct qkv_model **model) {
    if (qkv_model_fill(opening, model)) return cli_broken(ctx);
    if (qkv_model_own_precision(*model) != QKV_FP32) cli_say_emulated(ctx, cli_asks_record(common) ? folder : NULL);
    if (qkv_model_warning(*model)) cli_say("warning: %s", qkv_model_warning(*model));
    if (qkv_model_mapped(*model) && !common->map)
        cli_say(
            "there is no memory for a packed copy of the weights; they are read from %s at each use, which is slower",
            folder);
    if (!qkv_model_mapped(*model) && common->map)
        cli_say("--map changes nothing for %s: products read no packed copy of its weights", folder);
    return CLI_DONE;
}

enum qkv_status cli_open_with(const struct cli_common *common, struct qkv_context *ctx, const char *folder,
                              struct qkv_opening **opening) {
    struct qkv_model_open_options options = qkv_model_open_defaults();
    options.cache = common->cache;
    options.map = common->map;
    return cli_adapters_open(common, ctx, folder, &options, opening);
}

int cli_open_model(const struct cli_common *common, struct qkv_context *ctx, const char *folder,
                   struct qkv_opening **opening) {
    const int code = cli_set_precision(common, ctx, folder);
    return code == CLI_DONE && cli_open_with(common, ctx, folder, opening) ? cli_broken(ctx) : code;
}

int cli_load(const struct cli_common *common, struct qkv_context *ctx, const char *folder, struct qkv_model **model) {
    struct qkv_opening *opening = NULL;
    int code = cli_open_model(common, ctx, folder, &opening);
    if (code == CLI_DONE) code = cli_load_opened(common, ctx, folder, opening, model);
    qkv_opening_free(opening);
    return code;
}

int cli_load_second(const struct cli_common *common, struct qkv_context *ctx, const char *folder,
                    struct qkv_model **model) {
    struct cli_common plain = *common;
    plain.adapter = NULL;
    plain.adapters.count = 0;
    return cli_load(&plain, ctx, folder, model);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

const char *cli_error_text(int error) {
    return error == EACCES || error == EPERM ? "no permission" : strerror(error);
}

static int fail_output(int error) {
    if (error != EPIPE)
        cli_say("cannot write the output%s%s%s", error ? ": " : " (is the disk full?)",
                error ? cli_error_text(error) : "",
                error == EFBIG ? "; raise the limit of the file size (ulimit -f)" : "");
    return CLI_FAILED;
}

int cli_finish(int code) {
    errno = 0;
    bool bad = ferror(stdout) != 0;
    if (fflush(stdout) != 0) bad = true;
    if (bad && !errno) { /* an earlier write failed: one more byte says why */
        clearerr(stdout);
        if (putchar('\n') != EOF) fflush(stdout);
    }
    return bad && code == CLI_DONE ? fail_output(errno) : code;
}

static int too_much(const char *name, size_t max) {
    char limit[CLI_NUMBER];
    return cli_failed("%s has more than %s, the limit of one text; give a shorter one", name, cli_bytes(limit, max));
}

/* Doubles the buffer of a text, to at most max + 1 bytes: one byte more than allowed shows that a text is too long. */
static bool grow_text(char **data, size_t *capacity, size_t max) {
    size_t wanted = *capacity ? *capacity * 2 : 1 << 16;
    if (wanted > max + 1) wanted = max + 1;
    char *grown = realloc(*data, wanted);
    if (!grown) return false;
    *data = grown;
    *capacity = wanted;
    return true;
}

static int read_stream(FILE *file, const char *name, size_t max, char **data, size_t *size) {
    size_t capacity = 0, got;
    struct stat info;
    if (fstat(fileno(file), &info) == 0 && S_ISREG(info.st_mode) && (uintmax_t)info.st_size > max)
        return too_much(name, max);
    do {
        if (*size == capacity && !grow_text(data, &capacity, max))
            return cli_failed("%s is too large for the memory of this machine", name);
        errno = 0;
        got = fread(*data + *size, 1, capacity - *size, file);
        *size += got;
        if (*size > max) return too_much(name, max);
    } while (got > 0);
    return ferror(file) ? cli_failed("cannot read %s: %s", name, cli_error_text(errno)) : CLI_DONE;
}

int cli_read_all(const char *path, size_t max, char **data, size_t *size) {
    bool standard = !strcmp(path, "-");
    const char *name = standard ? "standard input" : path;
    FILE *file = standard ? stdin : fopen(path, "rb");
    *data = NULL;
    *size = 0;
    if (!file) return cli_failed("cannot read %s: %s", name, cli_error_text(errno));
    int code = read_stream(file, name, max, data, size);
    if (!standard) fclose(file);
    return code;
}

struct qkv_json cli_json(void) {
    return (struct qkv_json){.style = QKV_JSON_SPACED};
}

struct qkv_json cli_json_stream(FILE *file) {
    return (struct qkv_json){.style = QKV_JSON_SPACED, .file = file};
}

const char *cli_json_file(const char *json) {
    return json && strcmp(json, "-") != 0 ? json : NULL;
}

static bool is_utf8(const char *text, size_t size) {
    for (size_t i = 0, n; i < size; i += n)
        if (!(n = qkv_utf8_length(text + i, size - i))) return false;
    return true;
}

/* A token may begin or end inside a character: its bytes say then what its text cannot. */
void cli_json_put_token(struct qkv_json *json, const char *key, const char *text, size_t size) {
    if (!text) size = 0;
    qkv_json_key(json, key);
    qkv_json_string(json, text ? text : "", size);
    if (is_utf8(text, size)) return;
    qkv_json_key(json, "bytes");
    qkv_json_begin(json, '[');
    for (size_t i = 0; i < size; i++) qkv_json_count(json, (unsigned char)text[i]);
    qkv_json_end(json, ']');
}

int cli_json_end(struct qkv_json *json) {
    qkv_json_line(json, 0);
    qkv_json_flush(json);
    int code = !json->status ? CLI_DONE : json->file ? fail_output(errno) : cli_failed("out of memory");
    if (!code && fwrite(json->text.data, 1, json->text.size, stdout) != json->text.size) code = fail_output(errno);
    qkv_json_free(json);
    return code;
}

void cli_print_quoted(const char *text, size_t size) {
    struct qkv_json json = cli_json();
    qkv_json_string(&json, text, size);
    fwrite(json.text.data, 1, json.text.size, stdout);
    qkv_json_free(&json);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

char *cli_short(char *text, double value) {
    static const char units[] = " kMGTPE";
    size_t unit = 0;
    while (value >= 999.5 && units[unit + 1]) value /= 1000, unit++;
    int digits = value < 10 && unit ? 2 : value < 100 && unit ? 1 : 0;
    snprintf(text, CLI_NUMBER, unit ? "%.*f%c" : "%.*f", digits, value, units[unit]);
    return text;
}

char *cli_grouped(char *text, size_t value) {
    char digits[CLI_NUMBER];
    int n = snprintf(digits, sizeof digits, "%zu", value), out = 0;
    for (int i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0) text[out++] = ',';
        text[out++] = digits[i];
    }
    text[out] = 0;
    return text;
}

/* A number of kilobytes in /proc/self/status. */
static size_t status_memory(const char *key) {
    char line[256];
    unsigned long long kilobytes = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, key, strlen(key)) && sscanf(line + strlen(key), ": %llu kB", &kilobytes) == 1) break;
    if (file) fclose(file);
    return (size_t)kilobytes * 1024;
}

size_t cli_memory_peak(void) {
    return status_memory("VmHWM");
}

size_t cli_memory_now(void) {
    return status_memory("VmRSS");
}

size_t cli_memory_at_work(size_t own, size_t bytes) {
    const size_t lag =
        /* the system counts memory late; memory may also grow right after the data is read */
        (size_t)2 << 20;
    const size_t max = own + CLI_MEMORY_AT_WORK + bytes, peak = cli_memory_peak() + lag;
    return max > peak ? max : peak;
}

char *cli_bytes(char *text, size_t value) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double size = (double)value;
    size_t unit = 0;
    while (size >= 1023.5 && unit + 1 < CLI_COUNT_OF(units)) size /= 1024, unit++;
    snprintf(text, CLI_NUMBER, "%.*f %s", unit && size < 99.95 ? 1 : 0, size, units[unit]);
    return text;
}

char *cli_seconds(char *text, double seconds) {
    if (!(seconds >= 0)) seconds = 0;
    if (seconds > 1e9) seconds = 1e9;
    long total = (long)(seconds + 0.5), hours = total / 3600;
    if (hours > 0)
        snprintf(text, CLI_NUMBER, "%ld:%02ld:%02ld", hours, total / 60 % 60, total % 60);
    else
        snprintf(text, CLI_NUMBER, "%ld:%02ld", total / 60, total % 60);
    return text;
}
