/* cli.h: what the files of the command share: exit codes, option tables that make both the parser and the help, messages,
 * numbers for people, and the progress line. Everything about transformers comes from qkv.h; what the
 * lab makes has cli_lab.h. */
#ifndef QKV_CLI_H
#define QKV_CLI_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "qkv.h"

#if defined(__GNUC__)
#define CLI_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define CLI_PRINTF(text, first)
#endif

#define CLI_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

enum cli_exit {
    CLI_DONE = 0,
    CLI_FAILED = 1,        /* the command line was fine, the work was not */
    CLI_USAGE = 2,         /* the command line makes no sense */
    CLI_INTERRUPTED = 130, /* stopped by a signal, after saving what can be saved */
    CLI_HELPED = -1        /* from cli_parse only: --help was answered */
};

/* ---- option tables (options.c, help.c) --------------------------------------------------------------------------- */

enum cli_kind {
    CLI_FLAG,       /* bool: present or not; to repeat it changes nothing */
    CLI_TEXT,       /* const char *; to repeat it, or a number, is an error */
    CLI_TEXTS,      /* struct cli_texts: may be repeated */
    CLI_READ,       /* a CLI_TEXT that is the path of a file, or of a folder of files, that is read */
    CLI_READS,      /* CLI_TEXTS of such */
    CLI_MODEL_READ, /* a CLI_TEXT that is the path of a model or run that is read */
    CLI_WRITE,      /* a CLI_TEXT that is the path of a file that is written */
    CLI_FOLDER,     /* a CLI_TEXT that is the path of a folder that is written into */
    CLI_COUNT,      /* int64_t in [low, high] */
    CLI_REAL,       /* double, finite, in [low, high]; high CLI_ENDLESS: at least low; both 0: any */
    CLI_ABOVE       /* the same without low itself: in (low, high] */
};
#define CLI_ENDLESS INT64_MAX
bool cli_is_list(enum cli_kind kind); /* of struct cli_texts (files.c) */
struct cli_texts {
    const char **items;
    size_t count;
};
struct cli_option {
    enum cli_kind kind;
    char letter;          /* 'n' for -n; 0: none */
    const char *name;     /* "top-k" for --top-k; underscores are shown and read as hyphens */
    const char *argument; /* "FILE", for the help */
    size_t offset;        /* of the value in the command's struct */
    const char *help;
    int64_t low, high;  /* CLI_COUNT, CLI_REAL, CLI_ABOVE */
    const char *before; /* the default, for the help, of what cannot show it itself; NULL: the value in `defaults` */
};
/* Where options change nothing, from the command line alone: to give one of them is an error. What depends on a model or a
 * file is told after that was read. */
struct cli_rule {
    const char *options;                                /* names with spaces between: "top-k seed" */
    bool (*idle)(const void *values, size_t arguments); /* whether they have no effect beside the rest */
    const char *why;                                    /* and why: the end of "--seed has no effect: ..." */
};
/* A condition for rules: of the values, a struct of that type called `a`. */
#define CLI_CONDITION(name, type, condition)                                                                           \
    static bool name(const void *values, size_t arguments) {                                                           \
        const type *a = values;                                                                                        \
        (void)a, (void)arguments;                                                                                      \
        return condition;                                                                                              \
    }
/* How a command is divided among the ranks of a launcher. */
enum cli_ranks {
    CLI_RANKS_FIRST,    /* not: rank 0 does it alone */
    CLI_RANKS_TOGETHER, /* all do parts of each step, and soon miss one that hangs */
    CLI_RANKS_APART     /* each has work of its own, of any length */
};
/* What the words of a command are that are no options. */
enum cli_words {
    CLI_WORDS,       /* no files */
    CLI_WORDS_FILES, /* files that are read */
    CLI_WORD_MODEL,  /* the first one a model or run that is read, the others no files */
    CLI_WORDS_MODELS /* models or runs that are read */
};
struct cli_command {
    const char *name;
    const char *summary;     /* one line */
    const char *usage;       /* lines of arguments: "RUN --data FILE [options]" */
    const char *description; /* paragraphs */
    const char *examples;    /* lines */
    const struct cli_option *options;
    size_t option_count;
    const struct cli_rule *rules;
    size_t rule_count;
    const void *defaults; /* the struct that the options fill, as it is before */
    size_t size;
    size_t arguments; /* the most arguments that are no options */
    enum cli_words words;
    const char *const
        *writes;   /* what is written into its CLI_FOLDER, NULL at the end; NULL: folders and files of other names */
    bool replaces; /* what is there of these is replaced, by force alone; else the work itself decides about it */
    bool presets;  /* whether the help lists the presets */
    enum cli_ranks ranks;
    int (*run)(const void *values, const char *const *arguments, size_t count);
};

const struct cli_command *cli_train(void);
const struct cli_command *cli_new(void);
const struct cli_command *cli_generate(void);
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
const struct cli_command *cli_export(void);
const struct cli_command *cli_bench(void);
const struct cli_command *cli_doctor(void);

/* The libraries that the benchmark measures beside this one (peers.c). */
const struct qkv_bench_peer *cli_bench_peers(size_t *count);

/* The i-th command in the order of the help; NULL past the last. */
const struct cli_command *cli_command_at(size_t i);
/* The command called `name`; NULL after a message that names the closest one. */
const struct cli_command *cli_command_find(const char *name);

/* Reads a command's words into `values` (a copy of its defaults, freed with cli_forget) and moves those that are no
 * options to the front of `words`, *count of them; options that break a rule of the command are refused. CLI_DONE, CLI_USAGE after a message, or
 * CLI_HELPED. */
int cli_parse(const struct cli_command *command, char **words, size_t *count, void *values);
void cli_forget(const struct cli_command *command, void *values);
/* Strict numbers: the whole text, in range; false otherwise. */
bool cli_read_count(const char *text, int64_t low, int64_t high, int64_t *value);
bool cli_read_real(const char *text, double *value);

void cli_print_overview(void);
/* The options of training that a preset brings, as the command line takes them: "--batch 12 --steps 2000"; "" of no preset. */
const char *cli_preset_training(const char *preset, char *text, size_t size);
void cli_print_help(const struct cli_command *command);

/* ---- options that several commands have ------------------------------------------------------------------------- */

struct cli_common {
    int64_t threads;
    const char *isa, *precision;
    bool ignore_memory, ignore_digest;
};
/* Rows for the table of a command whose struct `type` has `struct cli_common common`. */
#define CLI_COMMON(type)                                                                                               \
    CLI_COMMON_ROW(CLI_COUNT, type, threads, "N", "CPU threads (0: all that this process may use)", 4096, NULL),       \
        CLI_COMMON_ROW(CLI_TEXT, type, isa, "NAME", "kernels: scalar, avx2, avx512, avx512bf16, amx or neon", 0,       \
                       "$QKV_ISA, else the best here")
/* Besides, where a model runs (training has an option of its own). */
#define CLI_PRECISION(type) CLI_COMMON_ROW(CLI_TEXT, type, precision, "NAME", CLI_PRECISION_HELP, 0, "auto")
#define CLI_PRECISION_HELP                                                                                             \
    "fp32, bf16 (products of rounded numbers; emulated where the CPU has none), or auto: the one that the run "        \
    "records, "                                                                                                        \
    "fp32 for a model without a record"
/* Where memory of a model's size is taken. */
#define CLI_IGNORE_MEMORY(type)                                                                                        \
    CLI_COMMON_ROW(CLI_FLAG, type, ignore_memory, NULL, "go on where more memory is needed than there is", 0, NULL)
/* Where a model or a run is read. */
#define CLI_IGNORE_DIGEST(type)                                                                                        \
    CLI_COMMON_ROW(CLI_FLAG, type, ignore_digest, NULL,                                                                \
                   "go on where config.json or train.json was changed since the weights were saved", 0, NULL)
/* All of that: where a model is loaded to run. */
#define CLI_MODEL(type) CLI_COMMON(type), CLI_PRECISION(type), CLI_IGNORE_MEMORY(type), CLI_IGNORE_DIGEST(type)
#define CLI_COMMON_ROW(kind, type, name, argument, help, high, before)                                                 \
    { kind, 0, #name, argument, offsetof(type, common.name), help, 0, high, before }
/* Why options of several commands have no effect. */
#define CLI_WHY_FOLDER "a folder has its own model; it is for --preset and --spec"
#define CLI_WHY_FRESH  "a fresh model has no weights to check; it is for model folders"
#define CLI_WHY_OUTPUT "no file is written; name one with -o FILE"
#define CLI_WHY_TEXTS  "the lines are those of the command line; leave one of them out"
#define CLI_WHY_QUIET  "--quiet shows no progress; leave one of them out"
/* What becomes of what has more tokens than the context: a row for the struct's `const char *long_lines`, "error" by default. */
#define CLI_LONG(type, what)                                                                                           \
    {                                                                                                                  \
        CLI_TEXT, 0, "long", "NAME", offsetof(type, long_lines),                                                       \
            "what becomes of " what " of more tokens than the model's context: error, skip, keep-start or keep-end "   \
            "(the tokens that are kept); how many there were is said",                                                 \
            0, 0, NULL                                                                                                 \
    }
/* The kind of that name; CLI_DONE, or the exit code after a message. */
int cli_read_long(struct qkv_context *ctx, const char *name, enum qkv_long *kind);
/* A context as the options say, in fp32 until cli_set_precision; CLI_DONE, or the exit code after a message. Free *ctx in any
 * case. */
int cli_open(const struct cli_common *common, struct qkv_context **ctx);

/* The latest sentence of this rank that it has left to rank 0 to say; "": none. */
const char *cli_unsaid(void);
/* Nothing more is said: a rank of this machine has died, which has a line of its own; what others find wrong then is no news. From any
 * thread. */
void cli_hush(void);
/* From here on contexts are one of several ranks, with so many threads where nobody says how many, and rank 0 speaks for all; NULL: the
 * only one. */
void cli_speak_as(const struct qkv_communicator *communicator, int threads);

/* Gives the context the precision of the options, where they say auto or nothing the one that the run in `folder` records
 * (fp32 for NULL). CLI_DONE, or the exit code after a message. */
int cli_set_precision(const struct cli_common *common, struct qkv_context *ctx, const char *folder);
/* The folder of a model: the path itself, or where the checkpoint is that it names ("run/checkpoint-250.safetensors"), which is then in
 * *checkpoint (else NULL). To be freed; NULL without memory, after a message. */
char *cli_model_folder(const char *path, const char **checkpoint);
/* That, then the model of the folder, and a message where its bf16 is emulated. */
int cli_load(const struct cli_common *common, struct qkv_context *ctx, const char *folder, struct qkv_model **model);
/* Whether --precision is auto, or not given. */
bool cli_asks_record(const struct cli_common *common);
/* Says so where bf16, which is asked for, is multiplied as fp32; `run`: whose record asks for it, NULL: the command line does. */
void cli_say_emulated(const struct qkv_context *ctx, const char *run);

/* ---- models that nobody has trained (fresh.c) ------------------------------------------------------------------- */

/* A model of a preset or a spec with the weights that training begins with, in place of a model folder. Its tokenizer is that of a
 * file, else one with a token for each byte and the special tokens that the model needs, where its vocabulary has room for them. */
/* Whether a spec's head has classes. */
bool cli_has_classes(const struct qkv_spec *spec);
struct cli_fresh {
    const char *preset, *spec, *tokenizer;
    struct cli_texts set;
    int64_t seed;
};
#define CLI_FRESH_DEFAULTS                                                                                             \
    { .seed = 1337 } /* training's */
/* Rows for the table of a command whose struct `type` has `struct cli_fresh fresh`. */
#define CLI_FRESH(type)                                                                                                \
    {CLI_TEXT, 0, "preset", "NAME", offsetof(type, fresh.preset), "a fresh model: a named one, not trained",           \
     0,        0, NULL},                                                                                               \
        {CLI_READ, 0, "spec", "FILE", offsetof(type, fresh.spec), "the same, described as JSON (config.json)",         \
         0,        0, NULL},                                                                                           \
        {CLI_TEXTS,                                                                                                    \
         0,                                                                                                            \
         "set",                                                                                                        \
         "KEY=VALUE",                                                                                                  \
         offsetof(type, fresh.set),                                                                                    \
         "changes the fresh model: decoder.attention.kv_heads=2",                                                      \
         0,                                                                                                            \
         0,                                                                                                            \
         NULL},                                                                                                        \
        {CLI_COUNT,                                                                                                    \
         0,                                                                                                            \
         "seed",                                                                                                       \
         "N",                                                                                                          \
         offsetof(type, fresh.seed),                                                                                   \
         "names the fresh model's weights, as train's does",                                                           \
         0,                                                                                                            \
         9000000000000000000,                                                                                          \
         NULL},                                                                                                        \
    {                                                                                                                  \
        CLI_READ, 0, "tokenizer", "FILE", offsetof(type, fresh.tokenizer), "the fresh model's tokenizer.json", 0, 0,   \
            "a token for each byte"                                                                                    \
    }
/* The classes of a classifier where neither a spec nor labels say how many there are. */
enum { CLI_CLASSES_GUESSED = 2 };
bool cli_fresh_given(const struct cli_fresh *fresh);
/* Refuses more than one model: `folders` of them on the command line, a preset, a spec. */
int cli_fresh_check(const struct cli_fresh *fresh, const char *command, size_t folders);
/* The preset, or the file of the spec. */
const char *cli_fresh_name(const struct cli_fresh *fresh);
/* The spec of a preset, or with NULL of a file. */
int cli_spec_read(struct qkv_context *ctx, const char *preset, const char *path, const struct cli_texts *set,
                  struct qkv_spec *spec);
/* CLI_DONE, or the exit code after a message; free *model in any case. */
int cli_fresh_create(const struct cli_fresh *fresh, struct qkv_context *ctx, struct qkv_model **model);
/* The folder's model, by cli_load, or with NULL the fresh one, in the precision that the command line says, else in fp32. */
int cli_fresh_load(const struct cli_common *common, const struct cli_fresh *fresh, struct qkv_context *ctx,
                   const char *folder, struct qkv_model **model);

/* ---- messages and output (output.c) -------------------------------------------------------------------------------- */

/* The name this program was called by, for commands to copy: "qkv" or "build/qkv". */
extern const char *cli_program;
void cli_say(const char *format, ...)
    CLI_PRINTF(1, 2); /* a line on stderr, "qkv: …", control characters made harmless */
int cli_usage(const char *format, ...) CLI_PRINTF(1, 2);  /* the same; returns CLI_USAGE */
int cli_failed(const char *format, ...) CLI_PRINTF(1, 2); /* the same; returns CLI_FAILED */
int cli_broken(const struct qkv_context *ctx);            /* says the context's sentence; returns CLI_FAILED */
int cli_misused(const struct qkv_context *ctx);           /* the same, where no file was read yet; returns CLI_USAGE */
/* Flushes standard output; a write that failed turns `code` CLI_DONE into CLI_FAILED with a message (none for a pipe
 * whose reader has gone). */
int cli_finish(int code);
/* Why the system refused, for an errno: "no permission", or its own words. */
const char *cli_error_text(int error);
/* Everything from a file, "-": standard input; the caller frees *data. More than `most` bytes are refused, as a device or pipe
 * may never end. */
#define CLI_PROMPT_MOST ((size_t)64 << 20) /* of a text that a model reads at once */
#define CLI_LINES_MOST  ((size_t)1 << 30)  /* of lines, and of texts to tokenize */
int cli_read_all(const char *path, size_t most, char **data, size_t *size);
/* JSON for standard output, and its end, with the line's: the exit code, after a message where it could not be written. */
struct qkv_json cli_json(void);
int cli_json_end(struct qkv_json *json);
/* Prints `text` from column `at` on, broken between words so that every line begins at column `indent`, and ends the line. */
void cli_print_wrapped(const char *text, int at, int indent);
/* A name on stdout, at most `most` characters of it, control characters made harmless; returns how many there were. */
size_t cli_print_name(const char *name, size_t most);
void cli_print_quoted(const char *text,
                      size_t size); /* a JSON string on stdout; bytes that are no UTF-8 become U+FFFD */

/* Numbers for people, into `text` (CLI_NUMBER bytes), which they return. */
#define CLI_NUMBER 32
char *cli_short(char *text, double value);   /* 10.8M */
char *cli_grouped(char *text, size_t value); /* 10,795,776 */
char *cli_bytes(char *text, size_t value);   /* 41.2 MiB */
/* The most memory that this process has had, in bytes; 0 where the system does not say. */
size_t cli_memory_peak(void);
/* What a process gets besides as it works: pages of the program that are read then, stacks, small blocks. */
#define CLI_MEMORY_AT_WORK ((size_t)6 << 20)
/* The most that a process will have had that had `own` bytes before it began to work in `bytes`. */
size_t cli_memory_at_work(size_t own, size_t bytes);
char *cli_seconds(char *text, double seconds); /* 1:02, 2:03:04 */

/* ---- lines of text (lines.c) ----------------------------------------------------------------------------------------- */

struct cli_lines {
    char *data;
    const char **items; /* without line ends */
    size_t count;
    const char *name; /* of the file they come from; NULL: the command line */
};
/* For rules: whether there are words behind the model, which are lines then. */
bool cli_has_texts(const void *values, size_t arguments);
/* As cli_broken, with the file in front where the sentence is about a line of it. */
int cli_lines_broken(const struct qkv_context *ctx, const struct cli_lines *lines);
struct cli_output;
/* A command that says something about each line: what it was given, and what it opens. */
struct cli_lines_job {
    const struct cli_common *common;
    const char *const *words; /* a model folder, and texts */
    size_t count;             /* of words, at least one */
    const char *input;        /* the file of lines where there are no texts; NULL: standard input */
    const char *output;       /* NULL: standard output */
    const char *long_lines;   /* the name of a kind */
    bool force;
    enum qkv_long long_kind;
    size_t most, long_count; /* tokens of a line, 0: as many as the context; lines of more, for those who count them */
    struct qkv_context *ctx;
    struct qkv_model *model;
    struct cli_lines lines;
};
/* Opens the context, loads the model, asks whether it suits (NULL: nobody asks) and reads the lines: the
 * texts, each a line; without any, those of `input` (a rule of the command refuses both). CLI_DONE, or the exit code after a
 * message. Close the job in any case. */
int cli_lines_open(struct cli_lines_job *job, enum qkv_status (*suits)(struct qkv_model *model));
void cli_lines_close(struct cli_lines_job *job);
/* The job's output, as cli_output_begin. */
int cli_lines_output(const struct cli_lines_job *job, struct cli_output *output);
bool cli_is_blank(const char *text);
/* How the library reads the job's lines; it counts the long ones in the job. */
struct qkv_line_options cli_lines_options(struct cli_lines_job *job);
/* Says how many lines were longer than the context, if any were. */
void cli_lines_say_long(const struct cli_lines_job *job);

/* ---- results (result.c) ------------------------------------------------------------------------------------------------- */

/* Looks at all that a command line reads and writes, before anything is touched (qkv_paths_check): what its table says of
 * options and words, standard input and standard output. CLI_DONE, or the exit code after a message. (files.c) */
int cli_files_check(const struct cli_command *command, const void *values, const char *const *words, size_t count);
/* A file by qkv_output_begin, or with NULL standard output. Write to `file`. */
struct cli_output {
    struct qkv_context *ctx;
    struct qkv_output *output; /* NULL: standard output, or ended */
    FILE *file;
};
int cli_output_begin(struct qkv_context *ctx, const char *path, bool force, struct cli_output *output);
/* Commits the file if `code` is CLI_DONE, else cancels it; the exit code. */
int cli_output_end(struct cli_output *output, int code);
/* The row for the table of a command whose struct has `bool force`. */
#define CLI_FORCE(type)                                                                                                \
    { CLI_FLAG, 0, "force", NULL, offsetof(type, force), "replace files that exist", 0, 0, NULL }

/* ---- continuations kept until they are written (samples.c) -------------------------------------------------------------- */

struct cli_token {
    int32_t id;
    bool end, stop; /* the end token, which is no part of the text; it completes a stop text */
    double log_probability;
};
struct cli_sample {
    char *text;
    size_t size, text_room;
    struct cli_token *tokens;
    size_t count, token_room;
};
struct cli_samples {
    struct cli_sample *items;
    size_t count;
    bool broken; /* no memory */
};
bool cli_samples_begin(struct cli_samples *samples, size_t count);
void cli_samples_free(struct cli_samples *samples);
/* A qkv_write_continuation and a qkv_take_token: `user` is the struct. */
bool cli_samples_text(void *user, size_t index, const char *text, size_t size);
bool cli_samples_token(void *user, const struct qkv_made_token *token);
/* What they are continuations of. */
struct cli_prompt {
    char *text;
    size_t size;
    int32_t *ids; /* of --ids, else NULL */
    size_t id_count;
    bool hidden; /* not written before its continuation */
};
/* All of them as one JSON document on standard output; the exit code, after a message where it could not be written. */
int cli_samples_json(const struct cli_samples *samples, const struct cli_prompt *prompt,
                     const struct qkv_tokenizer *tokenizer, const struct qkv_generate_report *report,
                     const struct qkv_generate_options *options);

/* ---- prompts (attend.c) ------------------------------------------------------------------------------------------------- */

/* The text to read, from a file (NULL: the prompt itself), whose last line end is none of it. The caller frees *text. */
int cli_read_prompt(const char *prompt, const char *path, char **text, size_t *size);
/* Token ids of a text: whole numbers with blanks or commas between them, in brackets or not. The caller frees *ids. `what` it is, for the message. */
int cli_read_ids(const char *what, const char *text, size_t size, int32_t **ids, size_t *count);

/* The row for the table of a command whose struct has `int64_t prefix`, negative where it is not given. */
#define CLI_PREFIX(type, before)                                                                                       \
    {                                                                                                                  \
        CLI_COUNT, 0, "prefix", "N", offsetof(type, prefix),                                                           \
            "the first N tokens see one another in both directions, as prompts of models with a prefix do", 0,         \
            INT32_MAX, before                                                                                          \
    }
/* Says so where a model that learnt with prefixes gets none. */
void cli_say_causal(const struct qkv_model *model, const char *name, int64_t prefix);

/* ---- terminal (progress.c) --------------------------------------------------------------------------------------- */

bool cli_locale_utf8(void);
int cli_width(int descriptor); /* columns; 80 when that is no terminal */

enum cli_progress_kind { CLI_SILENT, CLI_LINES, CLI_BAR };
struct cli_progress {
    enum cli_progress_kind kind;
    bool utf8, drawn;
    double latest; /* when the bar was drawn or a line written */
};
/* A bar redrawn in place on a terminal, lines where stderr is none or `plain`, nothing if `quiet`. */
void cli_progress_start(struct cli_progress *progress, bool quiet, bool plain);
/* Whether it is time to show something again: ten times a second, or every ten seconds as lines. */
bool cli_progress_due(const struct cli_progress *progress);
/* Shows how far it is, share in [0,1] or negative if unknown; when it is narrow the last fields are left out. */
void cli_progress_show(struct cli_progress *progress, double share, const char *const *fields, size_t count);
/* A line that stays, above the bar; nothing when silent. */
void cli_progress_line(struct cli_progress *progress, const char *format, ...) CLI_PRINTF(2, 3);
void cli_progress_clear(struct cli_progress *progress);
/* A qkv_progress for long work: `user` is a struct cli_task. Stops the work once cli_stopping. */
struct cli_task {
    struct cli_progress *progress;
    bool finish; /* do not stop it: it is part of a step */
};
bool cli_task_progress(void *user, const char *what, double done, double total);

/* After cli_catch_signals the first SIGINT, SIGTERM or SIGHUP sets this and the second one ends the process; so does what a batch system
 * sends before it ends a job, SIGUSR1, SIGUSR2 or SIGXCPU, however often. */
extern volatile sig_atomic_t cli_stopping;
void cli_catch_signals(void);

/* ---- the parts of a model (info_tree.c) -------------------------------------------------------------------------------- */

/* What it is made of: heads, masks, positions, norms, feed-forwards (info_spec.c). */
void cli_info_print_spec(const struct qkv_spec *spec);
/* A table of all parameters, under the model's name; CLI_DONE, or CLI_FAILED after a message. */
int cli_info_print_tree(const struct qkv_model *model, const char *name);

/* ---- the state of a run (info_state.c) ----------------------------------------------------------------------------- */

/* A row, or two, of "qkv info"; nothing where the folder is no run. `folder` as the user called it. */
void cli_info_state(const struct qkv_run_condition *condition, const char *folder);
/* The key "run" and its object, or nothing. */
void cli_info_put_state(struct qkv_json *out, const struct qkv_run_condition *condition);

/* What "qkv forward" reads (forward_inputs.c). */
struct cli_inputs {
    struct qkv_tensors *file;
    int32_t *ids, *lengths, *targets, *source, *source_lengths, *types, *source_types, *prefix;
    float *output_gradient, *features;
    struct qkv_batch batch;
};

/* The batch of a file, with the arrays that it points to; freed even after a failure. */
int cli_inputs_read(struct qkv_context *ctx, const struct qkv_spec *spec, const char *path, struct cli_inputs *in);
/* The prefix of each row: so many positions, or as many as it has; negative: none. */
int cli_inputs_set_prefix(struct cli_inputs *in, int64_t prefix);
void cli_inputs_free(struct cli_inputs *in);

#endif
