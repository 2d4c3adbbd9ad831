/* cli_text.h: for the commands that read and write texts: prompts, lines with a result for each, continuations. */
#ifndef QKV_CLI_TEXT_H
#define QKV_CLI_TEXT_H

#include "cli.h"

/* ---- prompts (attend.c) ------------------------------------------------------------------------------------------ */

/* Reads the prompt from a file without its last line end; if `path` is NULL, copies `prompt`. The caller frees
 * *text. */
int cli_read_prompt(const char *prompt, const char *path, char **text, size_t *size);
/* Reads token ids: whole numbers with blanks or commas between them, in brackets or not. `what` names the text in
 * messages. The caller frees *ids. */
int cli_read_ids(const char *what, const char *text, size_t size, int32_t **ids, size_t *count);

/* The row for the table of a command whose struct has `int64_t prefix`, negative where it is not given. */
#define CLI_PREFIX(type, default_)                                                                                     \
    {                                                                                                                  \
        CLI_COUNT, 0, "prefix", "N", offsetof(type, prefix),                                                           \
            .subject = "input",                                                                                        \
            .help = "number of tokens at the beginning that attend to each other in both directions (prefix-LM)",      \
            .high = INT32_MAX, .before = default_                                                                      \
    }
/* Prints a message if a model was trained with prefixes and gets none. */
void cli_say_causal(const struct qkv_model *model, const char *name, int64_t prefix);

/* ---- sampling (sampling.c) --------------------------------------------------------------------------------------- */

/* The options of sampling; a negative value is not given. */
struct cli_sampling {
    int64_t top_k, repeat_last, seed;
    double temperature, top_p, min_p, repeat_penalty;
};
#define CLI_SAMPLING_DEFAULTS                                                                                          \
    { .seed = -1, .temperature = -1, .top_k = -1, .top_p = -1, .min_p = -1, .repeat_penalty = -1, .repeat_last = -1 }
#define CLI_FOLDER_VALUE ", or the value of the model's generation_config.json"
/* Rows for the option table of a command whose struct `type` has `struct cli_sampling sampling`. */
#define CLI_SAMPLING_ROW(kind, type, letter, name, argument, field, ...)                                               \
    { kind, letter, name, argument, offsetof(type, sampling.field), .subject = "sampling", __VA_ARGS__ }
#define CLI_SAMPLING(type)                                                                                             \
    CLI_SAMPLING_WITHOUT_SEED(type),                                                                                   \
        CLI_SAMPLING_ROW(CLI_COUNT, type, 's', "seed", "N", seed, .help = "seed of the random choices",                \
                         .high = INT64_MAX, .before = "from the clock; shown at the end")
#define CLI_SAMPLING_WITHOUT_SEED(type)                                                                                \
    CLI_SAMPLING_ROW(CLI_REAL, type, 0, "temp", "X", temperature,                                                      \
                     .help = "temperature; 0 takes the likeliest token, 1 is the model's own distribution",            \
                     .high = CLI_ENDLESS, .before = "0.8" CLI_FOLDER_VALUE "; 0 for a published model without it"),    \
        CLI_SAMPLING_ROW(CLI_COUNT, type, 0, "top-k", "N", top_k,                                                      \
                         .help = "number of likeliest tokens to choose among (0: all)", .high = INT32_MAX,             \
                         .before = "0" CLI_FOLDER_VALUE),                                                              \
        CLI_SAMPLING_ROW(                                                                                              \
            CLI_ABOVE, type, 0, "top-p", "X", top_p,                                                                   \
            .help = "choose among the fewest likeliest tokens with a total probability of at least X (1: all)",        \
            .high = 1, .before = "1" CLI_FOLDER_VALUE),                                                                \
        CLI_SAMPLING_ROW(CLI_REAL, type, 0, "min-p", "X", min_p,                                                       \
                         .help = "leave out tokens that are less than X times as probable as the likeliest one",       \
                         .high = 1, .before = "0" CLI_FOLDER_VALUE),                                                   \
        CLI_SAMPLING_ROW(CLI_ABOVE, type, 0, "repeat-penalty", "X", repeat_penalty,                                    \
                         .help = "make recent tokens less likely (1: off)", .high = CLI_ENDLESS,                       \
                         .before = "1" CLI_FOLDER_VALUE),                                                              \
        CLI_SAMPLING_ROW(CLI_COUNT, type, 0, "repeat-last", "N", repeat_last,                                          \
                         .help = "with --repeat-penalty: number of recent tokens that it applies to (0: all)",         \
                         .high = INT32_MAX, .before = "64; 0 if the penalty comes from generation_config.json")
/* Sets the sampling and the end tokens of `o`: the command line, else the model's folder, else defaults. An option that
 * chooses among tokens turns sampling on where the folder asks for the likeliest token; so does `chooses`. */
void cli_sampling_settle(const struct cli_sampling *sampling, const struct qkv_model *model, bool chooses,
                         struct qkv_generate_options *o);

/* ---- lines of text (lines.c) ------------------------------------------------------------------------------------- */

struct cli_lines {
    char *data;
    const char **items; /* without line ends */
    size_t count;
    const char *name; /* the file of the lines; NULL: the command line */
};
/* A condition for rules: whether words follow the model; these words are the lines. */
bool cli_has_texts(const void *values, size_t arguments);
/* As cli_broken; a message about a line names the file first. */
int cli_lines_broken(const struct qkv_context *ctx, const struct cli_lines *lines);
/* A command that prints a result for each line: its arguments, and what cli_lines_open opens. */
struct cli_lines_job {
    const struct cli_common *common;
    const char *const *words; /* a model folder, then texts */
    size_t count;             /* number of words, at least 1 */
    const char *input;        /* the file of lines if there are no texts; NULL: standard input */
    const char *output;       /* NULL: standard output */
    const char *long_lines;   /* the name of a kind */
    bool force;
    struct qkv_use_options use; /* what is done with the lines; cli_lines_open adds the lines */
    enum qkv_long long_kind;
    /* max_tokens: of a line, 0: the context. long_count: the number of longer lines. left_out: the number of blank
     * lines that have no result. */
    size_t max_tokens, long_count, left_out;
    struct qkv_context *ctx;
    struct qkv_model *model;
    struct cli_lines lines;
};
/* Opens the context, reads the lines (each text is a line; without texts, the lines of `input`; a rule of the command
 * refuses both), checks the memory of their use, loads the model, and calls `suits` if it is not NULL. Lines of
 * standard input are read and checked after that. Returns CLI_DONE, or the exit code after a message. Close the job in
 * both cases. */
int cli_lines_open(struct cli_lines_job *job, enum qkv_status (*suits)(struct qkv_model *model));
void cli_lines_close(struct cli_lines_job *job);
/* Begins the job's output, as cli_output_begin does. */
int cli_lines_output(const struct cli_lines_job *job, struct cli_output *output);
bool cli_is_blank(const char *text);
/* The options by which the library reads the job's lines; it counts the long ones in the job. */
struct qkv_line_options cli_lines_options(struct cli_lines_job *job);
/* Prints how many lines were longer than the context, if there are any. */
void cli_lines_say_long(const struct cli_lines_job *job);

/* ---- continuations stored until they are written (samples.c) ----------------------------------------------------- */

struct cli_token {
    int32_t id;
    /* end: the end token, which is not part of the text; stop: it completes a stop text */
    bool end, stop;
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
/* A qkv_write_continuation and a qkv_take_token; `user` is the struct. */
bool cli_samples_text(void *user, size_t index, const char *text, size_t size);
bool cli_samples_token(void *user, const struct qkv_made_token *token);
/* The prompt of the continuations. */
struct cli_prompt {
    char *text;
    size_t size;
    int32_t *ids; /* of --ids, or of a rendered talk; else NULL */
    size_t id_count;
    bool rendered; /* the text is a talk as the model reads it, and the ids are its ids */
    bool hidden;   /* not written before its continuation */
};
/* Prints all of them as one JSON document on standard output. Returns the exit code, after a message if it could not
 * be written. */
int cli_samples_json(const struct cli_samples *samples, const struct cli_prompt *prompt,
                     const struct qkv_tokenizer *tokenizer, const struct qkv_generate_report *report,
                     const struct qkv_generate_options *options);

#endif
