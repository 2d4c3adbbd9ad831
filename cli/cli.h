/* cli.h: what all files of the command use: exit codes, option tables (the parser and the help read the same table),
 * messages, numbers for people, and the progress bar. Transformers come from qkv.h; products of the lab have
 * cli_lab.h, texts cli_text.h. */
#ifndef QKV_CLI_H
#define QKV_CLI_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "qkv.h"

#include "base/support.h"

#if defined(__GNUC__)
#define CLI_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define CLI_PRINTF(text, first)
#endif

#define CLI_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

enum cli_exit {
    CLI_DONE = 0,
    CLI_FAILED = 1,        /* the command line is fine, the work failed */
    CLI_USAGE = 2,         /* the command line is wrong */
    CLI_INTERRUPTED = 130, /* stopped by a signal, after saving */
    CLI_HELPED = -1        /* cli_parse alone returns this: it has printed the help */
};

/* ---- option tables (options.c, help.c) --------------------------------------------------------------------------- */

enum cli_kind {
    CLI_FLAG,       /* bool: given or not; giving it twice changes nothing */
    CLI_TEXT,       /* const char *; giving it twice is an error */
    CLI_TEXTS,      /* struct cli_texts: may be given several times */
    CLI_READ,       /* CLI_TEXT: the path of a file, or of a folder of files, to read */
    CLI_READS,      /* CLI_TEXTS: such paths */
    CLI_MODEL_READ, /* CLI_TEXT: the path of a model or run to read */
    CLI_ADAPTERS,   /* CLI_TEXTS: such paths, with a name in front: NAME=FOLDER */
    CLI_WRITE,      /* CLI_TEXT: the path of a file to write */
    CLI_FOLDER,     /* CLI_TEXT: the path of a folder to write into */
    CLI_COUNT,      /* int64_t in [low, high] */
    CLI_MEMORY,     /* int64_t in MiB, in [low, high]: 512M, 8G, or a number of MiB */
    CLI_REAL,       /* double, finite, in [low, high]; high CLI_ENDLESS: no upper bound; both 0: any */
    CLI_ABOVE       /* the same without low: in (low, high] */
};
#define CLI_ENDLESS INT64_MAX
bool cli_is_list(enum cli_kind kind); /* Whether the value is a struct cli_texts (files.c). */
struct cli_texts {
    const char **items;
    size_t count;
};
/* The i-th value of the option of that name, NULL past the last (choices.c). */
typedef const char *(*cli_choice)(const char *option, size_t i);
struct cli_option {
    enum cli_kind kind;
    char letter;          /* 'n' for -n; 0: none */
    const char *name;     /* "top-k" for --top-k; underscores are shown and read as hyphens */
    const char *argument; /* the value in the help: "FILE"; "[FILE]" may be left out, which is "-" */
    size_t offset;        /* of the value in the command's struct */
    const char *help;
    int64_t low, high;   /* of CLI_COUNT, CLI_REAL, CLI_ABOVE */
    const char *before;  /* the default as the help shows it; NULL: the help shows the value in `defaults` */
    const char *subject; /* the heading of a long help that the option is listed under; NULL: "other" */
    cli_choice choice;   /* the values of a CLI_TEXT; NULL: any text */
    bool open;           /* other values than those are allowed: completion offers them, the parser refuses none */
};
/* An option that most people need, and an example of it: such options open the help of a long command. */
struct cli_use {
    const char *option, *example;
};
/* An option that has no effect beside the others is an error. A rule sees the command line alone; the command itself
 * checks what depends on a model or a file. */
struct cli_rule {
    const char *options;                                /* names with spaces between: "top-k seed" */
    bool (*idle)(const void *values, size_t arguments); /* whether these options have no effect */
    const char *why;                                    /* the end of "--seed has no effect: ..." */
};
/* Defines a condition for rules; `condition` reads the command's struct, of this type, through `a`. */
#define CLI_CONDITION(name, type, condition)                                                                           \
    static bool name(const void *values, size_t arguments) {                                                           \
        const type *a = values;                                                                                        \
        (void)a, (void)arguments;                                                                                      \
        return condition;                                                                                              \
    }
/* How the ranks of a launcher share a command. */
enum cli_ranks {
    CLI_RANKS_FIRST,    /* rank 0 does all of it */
    CLI_RANKS_TOGETHER, /* each rank does a part of each step; a rank that hangs is soon noticed */
    CLI_RANKS_APART     /* each rank has work of its own, of any length */
};
/* What the words of a command line are that are not options. */
enum cli_words {
    CLI_WORDS,       /* no files */
    CLI_WORDS_FILES, /* files to read */
    CLI_WORD_MODEL,  /* the first is a model or run to read, the others are no files */
    CLI_WORDS_MODELS /* models or runs to read */
};
struct cli_command {
    const char *name;
    const char *summary;     /* one line */
    const char *usage;       /* lines of arguments: "RUN --data FILE [options]" */
    const char *description; /* paragraphs */
    const char *examples;    /* lines */
    const struct cli_option *options;
    size_t option_count;
    const struct cli_use *most_used; /* NULL: none opens the help */
    size_t most_used_count;
    const struct cli_rule *rules;
    size_t rule_count;
    const void *defaults; /* the struct that the options fill, with its defaults */
    size_t size;
    size_t arguments; /* the largest number of words that are not options */
    enum cli_words words;
    /* the files that are written into its CLI_FOLDER, NULL at the end; NULL: any names */
    const char *const *writes;
    const char *const *(*writes_of)(const void *values); /* the same where options decide; NULL: they do not */
    /* true: existing ones are replaced only with --force; false: the work itself decides */
    bool replaces;
    bool appends; /* what is in its CLI_WRITE stays, without --force: the work goes on there, or refuses it */
    bool (*writes_file)(const void *values); /* whether its CLI_FOLDER names a file to write; NULL: never */
    bool presets;                            /* the help lists the presets */
    enum cli_ranks ranks;
    int (*run)(const void *values, const char *const *arguments, size_t count);
};

const struct cli_command *cli_train(void);
const struct cli_command *cli_new(void);
const struct cli_command *cli_generate(void);
const struct cli_command *cli_chat(void);
const struct cli_command *cli_batch(void);
const struct cli_command *cli_serve(void);
const struct cli_command *cli_translate(void);
const struct cli_command *cli_classify(void);
const struct cli_command *cli_fill(void);
const struct cli_command *cli_embed(void);
const struct cli_command *cli_eval(void);
const struct cli_command *cli_info(void);
const struct cli_command *cli_attend(void);
const struct cli_command *cli_report(void);
const struct cli_command *cli_inspect(void);
const struct cli_command *cli_compare(void);
const struct cli_command *cli_forward(void);
const struct cli_command *cli_tokenize(void);
const struct cli_command *cli_template(void);
const struct cli_command *cli_export(void);
const struct cli_command *cli_quantize(void);
const struct cli_command *cli_bench(void);
const struct cli_command *cli_doctor(void);

/* The libraries that "qkv bench" measures beside this one (peers.c). */
const struct qkv_bench_peer *cli_bench_peers(size_t *count);

/* Returns the i-th command in the order of the help; NULL past the last. */
const struct cli_command *cli_command_at(size_t i);
/* Returns the command with this name; NULL after a message that names the closest one. */
const struct cli_command *cli_command_find(const char *name);

/* Reads a command's words into `values` (a copy of its defaults; free it with cli_forget). Moves the words that are
 * not options to the front of `words` and counts them in *count. Refuses options that break a rule of the command.
 * Returns CLI_DONE, CLI_USAGE after a message, or CLI_HELPED. */
int cli_parse(const struct cli_command *command, char **words, size_t *count, void *values);
void cli_forget(const struct cli_command *command, void *values);
/* Read a number strictly: the whole text is one number, in range; else they return false. */
bool cli_read_count(const char *text, int64_t low, int64_t high, int64_t *value);
bool cli_read_real(const char *text, double *value);

/* ---- the values of options (choices.c) --------------------------------------------------------------------------- */

const char *cli_choose_preset(const char *option, size_t i);
const char *cli_choose_isa(const char *option, size_t i);
const char *cli_choose_precision(const char *option, size_t i);
const char *cli_choose_cache(const char *option, size_t i);
const char *cli_choose_storage(const char *option, size_t i); /* fp32, bf16 */
const char *cli_choose_long(const char *option, size_t i);
#define CLI_FULL_STOP   "stop"
#define CLI_FULL_FORGET "forget-oldest"
const char *cli_choose_full(const char *option, size_t i);     /* what a full context does: these two */
const char *cli_choose_log(const char *option, size_t i);      /* text, json, none */
const char *cli_choose_thinking(const char *option, size_t i); /* show, dim, hide */
const char *cli_choose_pool(const char *option, size_t i);
const char *cli_choose_attention(const char *option, size_t i); /* encoder, decoder, cross */
const char *cli_choose_extend(const char *option, size_t i);
const char *cli_choose_format(const char *option, size_t i); /* number formats of weights */
const char *cli_choose_export(const char *option, size_t i); /* kinds of folders */
const char *cli_choose_mix(const char *option, size_t i);    /* mixes of types in GGUF files */
const char *cli_choose_names(const char *option, size_t i);  /* whose names gradients get */
const char *cli_choose_tokenizer(const char *option, size_t i);
const char *cli_choose_training(const char *option, size_t i); /* the values of that option of training */
size_t cli_choices_count(const struct cli_option *option);
/* "adamw, adam or sgd" */
char *cli_choices_text(const struct cli_option *option, char *text, size_t size);
/* Whether `value` is one of them; else *closest is the nearest one, or NULL. */
bool cli_choices_have(const struct cli_option *option, const char *value, const char **closest);

/* ---- help (help.c) ----------------------------------------------------------------------------------------------- */

void cli_print_overview(void);
/* The heading of the group of commands that begins with the i-th; NULL: none begins there. */
const char *cli_group_at(size_t i);
/* The i-th environment variable that the command reads: its name (part 0) and its meaning (part 1); NULL past the
 * last. */
const char *cli_variable_at(size_t i, int part);
/* The manual page of a command, NULL: of qkv, on standard output (help_man.c). */
void cli_print_man(const struct cli_command *command);
/* What "qkv help --format FORMAT [COMMAND]" prints: a manual page or completions; the exit code (help_complete.c). */
int cli_print_format(const char *format, const char *command);
enum { CLI_OPTION_NAME = 64 };
/* "top-k", as the command line takes it. */
char *cli_option_name(const struct cli_option *option, char text[CLI_OPTION_NAME]);
/* The help of an option, with its choices and its default. */
char *cli_option_help(const struct cli_command *command, const struct cli_option *option, char *text, size_t size);
/* The i-th subject of the help, which may have no options of the command; NULL past the last. A command with at most
 * CLI_SUBJECTS_ABOVE options has none: its options are one list. */
enum { CLI_SUBJECTS_ABOVE = 15 };
const char *cli_subject_at(const struct cli_command *command, size_t i);
/* The i-th option of those that most people need; NULL past the last. */
const struct cli_option *cli_most_used(const struct cli_command *command, size_t i);
/* The next option of a subject (NULL: of any) from *at on, without those that most people need; NULL past the last. */
const struct cli_option *cli_option_of(const struct cli_command *command, const char *subject, size_t *at);
/* Writes the training options that a preset brings as command-line text: "--batch 12 --steps 2000"; "" if it brings
 * none. */
const char *cli_preset_training(const char *preset, char *text, size_t size);
void cli_print_help(const struct cli_command *command);

/* ---- options that several commands have -------------------------------------------------------------------------- */

struct cli_common {
    int64_t threads;
    const char *isa, *precision, *cache, *adapter;
    bool ignore_memory, ignore_digest, map;
    struct cli_texts adapters; /* in place of `adapter`: one folder, or any number of NAME=FOLDER */
};
/* Rows for the option table of a command whose struct `type` has `struct cli_common common`. In a help
 * text {} stands for the choices. */
#define CLI_MACHINE "machine" /* the subject of them */
#define CLI_COMMON_ROW(kind, type, name, argument, ...)                                                                \
    { kind, 0, #name, argument, offsetof(type, common.name), .subject = CLI_MACHINE, __VA_ARGS__ }
#define CLI_COMMON(type)                                                                                               \
    CLI_COMMON_ROW(CLI_COUNT, type, threads, "N", .help = "CPU threads (0: all that this process may use)",            \
                   .high = 4096),                                                                                      \
        CLI_COMMON_ROW(CLI_TEXT, type, isa, "NAME", .help = "kernels: {}", .choice = cli_choose_isa,                   \
                       .before = "$QKV_ISA, else the best of this CPU")
/* Also for commands that run a model; training has an option of its own. */
#define CLI_PRECISION(type)                                                                                            \
    CLI_COMMON_ROW(CLI_TEXT, type, precision, "NAME", .choice = cli_choose_precision, .help = CLI_PRECISION_HELP,      \
                   .before = "auto")
#define CLI_PRECISION_HELP                                                                                             \
    "fp32, bf16 (matrix products of rounded numbers; emulated on a CPU without bf16 instructions), or auto: the "      \
    "precision that the run records, fp32 for a model without a record"
/* For commands that decode with a cache. */
#define CLI_CACHE(type)                                                                                                \
    CLI_COMMON_ROW(CLI_TEXT, type, cache, "TYPE", .choice = cli_choose_cache, .open = true,                            \
                   .help = "type in which the cache stores keys and values: {}; k=TYPE,v=TYPE for each of them",       \
                   .before = "that of the precision")
/* For commands that allocate memory for a model. */
#define CLI_IGNORE_MEMORY(type)                                                                                        \
    CLI_COMMON_ROW(CLI_FLAG, type, ignore_memory, NULL, .help = "continue even if more memory is needed than there is")
/* For commands that read a model or a run. */
#define CLI_IGNORE_DIGEST(type)                                                                                        \
    CLI_COMMON_ROW(CLI_FLAG, type, ignore_digest, NULL,                                                                \
                   .help = "continue even if config.json or train.json has changed since the weights were saved")
/* For commands that multiply with the weights of a model. */
#define CLI_MAP(type)                                                                                                  \
    CLI_COMMON_ROW(CLI_FLAG, type, map, NULL,                                                                          \
                   .help = "read quantised weights where the file has them, without a packed copy: less memory, an "   \
                           "earlier first token, slower, the same results",                                            \
                   .before = "only where there is no memory for the copy")
/* All of these, for commands that load a model and run it. */
#define CLI_MODEL(type)                                                                                                \
    CLI_COMMON(type), CLI_PRECISION(type), CLI_MAP(type), CLI_IGNORE_MEMORY(type), CLI_IGNORE_DIGEST(type)
/* For commands that use a trained model. */
#define CLI_ADAPTER(type)                                                                                              \
    CLI_COMMON_ROW(CLI_MODEL_READ, type, adapter, "FOLDER",                                                            \
                   .help = "adapter of the model (LoRA): the folder of a run with --lora or of PEFT, or a GGUF file",  \
                   .before = "none")
/* Ends of "--name has no effect: ..." that several commands use. */
#define CLI_WHY_FOLDER "a folder has its own model; it is for --preset and --spec"
#define CLI_WHY_FRESH  "a fresh model has no weights to check; it is for model folders"
#define CLI_WHY_OUTPUT "no file is written; name one with -o FILE"
#define CLI_WHY_TEXTS  "the lines are those of the command line; leave one of them out"
#define CLI_WHY_QUIET  "--quiet shows no progress; leave one of them out"
/* A row for `const char *long_lines` in the command's struct, "error" by default: what happens to texts longer than
 * the context. */
#define CLI_LONG(type, what)                                                                                           \
    {                                                                                                                  \
        CLI_TEXT, 0, "long", "NAME", offsetof(type, long_lines),                                                       \
            .subject = "input", .choice = cli_choose_long,                                                             \
            .help = "rule for " what " with more tokens than the model's context: {} (the part that is kept)"          \
    }
/* Finds the kind by its name. Returns CLI_DONE, or the exit code after a message. */
int cli_read_long(struct qkv_context *ctx, const char *name, enum qkv_long *kind);
/* Opens a context with these options, in fp32 until cli_set_precision. Returns CLI_DONE, or the exit code after a
 * message. The caller frees *ctx in both cases. */
int cli_open(const struct cli_common *common, struct qkv_context **ctx);

/* The latest message that this rank did not print because rank 0 speaks for all; "" if there is none. */
const char *cli_unsaid(void);
/* Stops all messages: a rank of this machine has died, which is reported in one line; later failures only follow
 * from it. Any thread may call this. */
void cli_hush(void);
/* Contexts opened after this call belong to a rank of `communicator` and have `threads` threads if the command line
 * gives none; rank 0 alone prints. NULL: there is one rank. */
void cli_speak_as(const struct qkv_communicator *communicator, int threads);

/* Sets the precision of the context to --precision. If that is auto or not given: to the precision that the run in
 * `folder` records, fp32 if `folder` is NULL. Returns CLI_DONE, or the exit code after a message. */
int cli_set_precision(const struct cli_common *common, struct qkv_context *ctx, const char *folder);
/* Returns the folder of a model. If `path` names a checkpoint ("run/checkpoint-250.safetensors"), returns the folder
 * of that file, and *checkpoint points to the file's name; else *checkpoint is NULL. The caller frees the result;
 * NULL without memory, after a message. */
char *cli_model_folder(const char *path, const char **checkpoint);
/* Opens the model of the folder, with the cache of --cache; and the same after cli_set_precision. */
enum qkv_status cli_open_with(const struct cli_common *common, struct qkv_context *ctx, const char *folder,
                              struct qkv_opening **opening);
int cli_open_model(const struct cli_common *common, struct qkv_context *ctx, const char *folder,
                   struct qkv_opening **opening);
/* Fills a model that is opened, and prints a message if its bf16 is emulated, and a warning about its folder. cli_load
 * does both in one call. */
int cli_load_opened(const struct cli_common *common, struct qkv_context *ctx, const char *folder,
                    struct qkv_opening *opening, struct qkv_model **model);
int cli_load(const struct cli_common *common, struct qkv_context *ctx, const char *folder, struct qkv_model **model);
/* The same without the adapter, which is the first model's. */
int cli_load_second(const struct cli_common *common, struct qkv_context *ctx, const char *folder,
                    struct qkv_model **model);
/* Whether --precision is auto, or not given. */
bool cli_asks_record(const struct cli_common *common);
/* Prints a message if the context multiplies bf16 as fp32. `run`: the run whose record asks for bf16; NULL: the
 * command line asks for it. */
void cli_say_emulated(const struct qkv_context *ctx, const char *run);

/* ---- untrained models (fresh.c) ---------------------------------------------------------------------------------- */

/* Whether a spec's head has classes. */
bool cli_has_classes(const struct qkv_spec *spec);
struct cli_fresh {
    const char *preset, *spec, *tokenizer;
    struct cli_texts set;
    int64_t seed;
};
#define CLI_FRESH_DEFAULTS                                                                                             \
    { .seed = 1337 } /* as in training */
/* Rows for the option table of a command whose struct `type` has `struct cli_fresh fresh`. */
#define CLI_FRESH(type)                                                                                                \
    CLI_FRESH_ROW(CLI_TEXT, type, preset, "NAME", .choice = cli_choose_preset,                                         \
                  .help = "named model with fresh weights, not trained"),                                              \
        CLI_FRESH_ROW(CLI_READ, type, spec, "FILE",                                                                    \
                      .help = "model with fresh weights, described as JSON (config.json)"),                            \
        CLI_FRESH_ROW(CLI_TEXTS, type, set, "KEY=VALUE",                                                               \
                      .help = "setting of the fresh model: decoder.attention.kv_heads=2"),                             \
        CLI_FRESH_ROW(CLI_COUNT, type, seed, "N", .help = "seed of the fresh model's weights, as in training",         \
                      .high = 9000000000000000000),                                                                    \
        CLI_FRESH_ROW(CLI_READ, type, tokenizer, "FILE", .help = "tokenizer.json of the fresh model",                  \
                      .before = "a token for each byte")
#define CLI_FRESH_ROW(kind, type, name, argument, ...)                                                                 \
    { kind, 0, #name, argument, offsetof(type, fresh.name), .subject = "fresh model", __VA_ARGS__ }
/* Classes of a classifier if neither the spec nor labels give their number. */
enum { CLI_CLASSES_GUESSED = 2 };
bool cli_fresh_given(const struct cli_fresh *fresh);
/* Refuses more than one model: `folders` counts those of the command line; a preset and a spec count too. */
int cli_fresh_check(const struct cli_fresh *fresh, const char *command, size_t folders);
/* The name of the preset, or the path of the spec. */
const char *cli_fresh_name(const struct cli_fresh *fresh);
/* Reads the spec of a preset; if `preset` is NULL, from the file `path`. */
int cli_spec_read(struct qkv_context *ctx, const char *preset, const char *path, const struct cli_texts *set,
                  struct qkv_spec *spec);
/* Returns CLI_DONE, or the exit code after a message; free *model in both cases. */
int cli_fresh_create(const struct cli_fresh *fresh, struct qkv_context *ctx, struct qkv_model **model);
/* Loads the model of `folder` with cli_load. NULL: makes the fresh model, in the precision of the command line, else
 * in fp32. */
int cli_fresh_load(const struct cli_common *common, const struct cli_fresh *fresh, struct qkv_context *ctx,
                   const char *folder, struct qkv_model **model);

/* ---- messages and output (output.c) ------------------------------------------------------------------------------ */

/* The name by which this program was called, "qkv" or "build/qkv": messages name commands that can be copied. */
extern const char *cli_program;
/* Prints a line "qkv: ..." on stderr; control characters become "?". */
void cli_say(const char *format, ...) CLI_PRINTF(1, 2);
int cli_usage(const char *format, ...) CLI_PRINTF(1, 2);  /* the same; returns CLI_USAGE */
int cli_failed(const char *format, ...) CLI_PRINTF(1, 2); /* the same; returns CLI_FAILED */
/* A sentence of the library with options as the command line has them, "--valid-fraction 0.1" for "option
 * valid_fraction = 0.1"; cli_message: the context's. Valid until the next call. */
const char *cli_sentence(const char *sentence);
const char *cli_message(const struct qkv_context *ctx);
int cli_broken(const struct qkv_context *ctx); /* prints the context's message; returns CLI_FAILED */
/* Prints the context's message; returns CLI_USAGE, for a wrong command line */
int cli_misused(const struct qkv_context *ctx);
/* Flushes standard output. If a write failed, `code` CLI_DONE becomes CLI_FAILED, with a message (no message if the
 * reader of a pipe has gone). */
int cli_finish(int code);
/* The reason of an errno: "no permission", or the system's own words. */
const char *cli_error_text(int error);
/* Reads a whole file ("-": standard input); the caller frees *data. More than `max` bytes are refused, because a
 * device or a pipe may never end. */
#define CLI_PROMPT_MAX ((size_t)64 << 20) /* of a text that a model reads at once */
#define CLI_LINES_MAX  ((size_t)1 << 30)  /* of lines, and of texts to tokenize */
int cli_read_all(const char *path, size_t max, char **data, size_t *size);
/* Begins JSON that goes to `file` as it grows, for results that may be large; cli_json_end ends it. */
struct qkv_json cli_json_stream(FILE *file);
/* Puts the text of a token into an open object; a token that begins or ends inside a character gets "bytes" too. */
void cli_json_put_token(struct qkv_json *json, const char *key, const char *text, size_t size);
/* Begin and end a JSON document on standard output; the end adds a line end and returns the exit code, after a
 * message if the document could not be written. */
struct qkv_json cli_json(void);
int cli_json_end(struct qkv_json *json);
/* Prints `text` and a line end, broken between words. The text begins at column `at`, each further line at column
 * `indent`. */
void cli_print_wrapped(const char *text, int at, int indent);
/* Prints at most `max` characters of a name on stdout; control characters become "?". Returns how many were printed. */
size_t cli_print_name(const char *name, size_t max);
/* Writes text of a model. Control characters would act on a terminal: there they become U+FFFD, but line ends and
 * tabs. */
void cli_put_text(FILE *file, bool terminal, const char *text, size_t size);
void cli_print_quoted(const char *text,
                      size_t size); /* Prints a JSON string on stdout; bytes that are no UTF-8 become U+FFFD. */

/* Write numbers for people into `text` (CLI_NUMBER bytes) and return it. */
#define CLI_NUMBER 32
char *cli_short(char *text, double value);   /* 10.8M */
char *cli_grouped(char *text, size_t value); /* 10,795,776 */
char *cli_bytes(char *text, size_t value);   /* 41.2 MiB */
/* The peak of this process's memory so far, and its memory now, in bytes; 0 if the system does not say. */
size_t cli_memory_peak(void);
size_t cli_memory_now(void);
/* Memory that a process gets while it works, beside its data: pages of the program read later, stacks, small blocks. */
#define CLI_MEMORY_AT_WORK ((size_t)6 << 20)
/* The expected peak of a process that had `own` bytes before it began to work in `bytes`. */
size_t cli_memory_at_work(size_t own, size_t bytes);
char *cli_seconds(char *text, double seconds); /* 1:02, 2:03:04 */

/* ---- results (result.c) ------------------------------------------------------------------------------------------ */

/* Checks all paths that a command line reads and writes with qkv_paths_check, before any is opened: those of options
 * and words by the command's table, standard input and standard output. Returns CLI_DONE, or the exit code after a
 * message (files.c). */
int cli_files_check(const struct cli_command *command, const void *values, const char *const *words, size_t count);
/* A file that qkv_output_begin made, or standard output (`path` NULL). Write to `file`. */
struct cli_output {
    struct qkv_context *ctx;
    struct qkv_output *output; /* NULL: standard output, or ended */
    FILE *file;
};
int cli_output_begin(struct qkv_context *ctx, const char *path, bool force, struct cli_output *output);
/* Commits the file if `code` is CLI_DONE, else cancels it. Returns the exit code. */
int cli_output_end(struct cli_output *output, int code);
/* Prints a line on stderr about a file or folder that was written: its name, what it has, the size of a file. */
void cli_wrote(const char *path, const char *format, ...) CLI_PRINTF(2, 3);
/* A row for the option table of a command whose struct has `bool json`. */
#define CLI_JSON(type, what)                                                                                           \
    { CLI_FLAG, 0, "json", NULL, offsetof(type, json), .help = "print " what " as JSON", .subject = "output" }
/* A row for a struct with `const char *json`. cli_json_file returns its file; NULL: standard output, or none. */
#define CLI_JSON_FILE(type, what)                                                                                      \
    {                                                                                                                  \
        CLI_WRITE, 0, "json", "[FILE]", offsetof(type, json),                                                          \
            .subject = "output", .help = "write " what " as JSON to FILE, or to standard output if no FILE is given"   \
    }
const char *cli_json_file(const char *json);
/* A row for the option table of a command whose struct has `bool force`. */
#define CLI_FORCE(type)                                                                                                \
    { CLI_FLAG, 0, "force", NULL, offsetof(type, force), .help = "replace files that exist", .subject = "output" }

/* ---- colour (color.c) -------------------------------------------------------------------------------------------- */

enum cli_style { CLI_PLAIN, CLI_HEADING, CLI_ERROR, CLI_BEST };
/* Whether a descriptor gets colours: it is a terminal that has them, and NO_COLOR is not set. */
bool cli_colored(int descriptor);
/* The escape that begins a style, CLI_PLAIN ends it; "" where there are no colours. */
const char *cli_style(int descriptor, enum cli_style style);

/* ---- terminal (progress.c) --------------------------------------------------------------------------------------- */

bool cli_locale_utf8(void);
int cli_width(int descriptor); /* columns; 80 if that is no terminal */

enum cli_progress_kind { CLI_SILENT, CLI_LINES, CLI_BAR };
struct cli_progress {
    enum cli_progress_kind kind;
    bool utf8, drawn;
    double latest; /* when the bar was drawn, or a line written */
};
/* A bar redrawn in place on a terminal; lines if stderr is no terminal or `plain`; nothing if `quiet`. */
void cli_progress_start(struct cli_progress *progress, bool quiet, bool plain);
/* Whether to show something again: a bar ten times a second, lines every ten seconds. */
bool cli_progress_due(const struct cli_progress *progress);
/* Shows the share in [0,1] that is done (negative: unknown) and the fields; a narrow terminal shows the first fields
 * only. */
void cli_progress_show(struct cli_progress *progress, double share, const char *const *fields, size_t count);
/* Prints a line above the bar, which scrolls; nothing if the kind is CLI_SILENT. */
void cli_progress_line(struct cli_progress *progress, const char *format, ...) CLI_PRINTF(2, 3);
void cli_progress_clear(struct cli_progress *progress);
/* A qkv_progress for long work; `user` is a struct cli_task. Stops the work when cli_stopping is set. */
struct cli_task {
    struct cli_progress *progress;
    bool finish; /* do not stop it: it is part of a step */
};
bool cli_task_progress(void *user, const char *what, double done, double total);

/* After cli_catch_signals, the first SIGINT, SIGTERM or SIGHUP sets this to its number, and the second one ends the
 * process.
 * SIGUSR1, SIGUSR2 and SIGXCPU, which batch systems send before they end a job, set it however often they come. */
extern volatile sig_atomic_t cli_stopping;
void cli_catch_signals(void);
/* From here on, these signals also cancel the work of a context; NULL: no longer. */
void cli_cancels(struct qkv_context *ctx);
/* Gives these signals their usual effects again, where a person is asked for a line. */
void cli_release_signals(void);

/* What edits the lines of "qkv chat": "libedit 3.1", or NULL: the terminal itself (chat_line.c). */
const char *cli_chat_editor(void);
/* The library that serves HTTP, with its version; NULL: none. */
const char *cli_serve_library(void);

/* ---- GGUF files (quantize.c) ------------------------------------------------------------------------------------- */

/* Writes a model as a GGUF file, with its progress, and prints the notes; with --json, the result instead of a line
 * about the file. Returns the exit code after a message. */
struct cli_gguf {
    const struct qkv_gguf_options *options;
    const char *out;
    bool quiet, json;
};
int cli_gguf_write(const struct cli_gguf *gguf, struct qkv_model *model);
/* The same notes in a result, as the key "notes". */
void cli_put_notes(struct qkv_json *out, const struct qkv_gguf_notes *notes);
/* The importance of the columns of a model's matrices, measured on a file (calibrate.c): windows of a text for a
 * decoder, lines for an encoder, pairs for an encoder-decoder. use: what measuring needs. The caller frees *importance
 * before the model. Returns CLI_DONE, or the exit code after a message. */
void cli_calibrate_use(const struct qkv_spec *spec, const char *path, struct qkv_use_options *use);
int cli_calibrate(struct qkv_model *model, const char *path, bool quiet, struct qkv_importance **importance);

/* ---- the parts of a model (info_tree.c) -------------------------------------------------------------------------- */

/* Prints what a model is made of: heads, masks, positions, norms, feed-forwards (info_spec.c). */
void cli_info_print_spec(const struct qkv_spec *spec);
/* The number of parameters of a model: of all elements. */
size_t cli_parameters(const struct qkv_model *model);
/* Prints a table of all parameters under the model's name. Returns CLI_DONE, or CLI_FAILED after a message. */
int cli_info_print_tree(const struct qkv_model *model, const char *name);

/* ---- caches (info_cache.c) --------------------------------------------------------------------------------------- */

/* Writes "f32 2.0 MiB, bf16 1.0 MiB": a cache of `context` positions in each type that holds the heads of a planned
 * model; "" if it has no cache. The same as the key "cache_bytes" of an object. */
const char *cli_info_caches(struct qkv_model *plan, size_t context, char *text, size_t size);
void cli_info_put_caches(struct qkv_json *out, struct qkv_model *plan, size_t context);

/* ---- the state of a run (info_state.c) --------------------------------------------------------------------------- */

/* Prints one or two rows of "qkv info"; nothing if the folder is no run. `folder`: the path that the user typed. */
void cli_info_state(const struct qkv_run_condition *condition, const char *folder);
/* Writes the key "run" and its object; nothing if the folder is no run. */
void cli_info_put_state(struct qkv_json *out, const struct qkv_run_condition *condition);

/* The arrays that "qkv forward" reads (forward_inputs.c). */
struct cli_inputs {
    struct qkv_tensors *file;
    int32_t *ids, *lengths, *targets, *source, *source_lengths, *types, *source_types, *prefix;
    float *output_gradient, *features;
    struct qkv_batch batch;
};

/* Reads the batch of a file and the arrays that it points to; free it after a failure too. */
int cli_inputs_read(struct qkv_context *ctx, const struct qkv_spec *spec, const char *path, struct cli_inputs *in);
/* Sets the prefix of each row to this number of positions, at most the length of the row; negative: none. */
int cli_inputs_set_prefix(struct cli_inputs *in, int64_t prefix);
void cli_inputs_free(struct cli_inputs *in);

#endif
