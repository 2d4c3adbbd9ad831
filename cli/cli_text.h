/* cli_text.h: for the commands that read and write texts: prompts, lines with a result for each, continuations. */
#ifndef QKV_CLI_TEXT_H
#define QKV_CLI_TEXT_H

#include <math.h>

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

/* ---- rules for tokens, and searches (token_rules.c) -------------------------------------------------------------- */

/* The options of rules; NULL and negative values are not given. */
struct cli_rules {
    const char *suppress, *suppress_first, *bad_words;
    int64_t min_tokens, no_repeat, source_no_repeat, force_first, force_last;
    double source_penalty;
};
#define CLI_RULES_DEFAULTS                                                                                             \
    {                                                                                                                  \
        .min_tokens = -1, .no_repeat = -1, .source_no_repeat = -1, .force_first = -1, .force_last = -1,                \
        .source_penalty = -1                                                                                           \
    }
/* Rows for the option table of a command whose struct `type` has `struct cli_rules` at `field`. */
#define CLI_RULES_ROW(kind, type, name, argument, field, ...)                                                          \
    { kind, 0, name, argument, offsetof(type, field), .subject = "rules", __VA_ARGS__ }
#define CLI_RULES(type, field)                                                                                         \
    CLI_RULES_ROW(CLI_COUNT, type, "min-tokens", "N", field.min_tokens,                                                \
                  .help = "a text with fewer new tokens does not end", .high = INT32_MAX,                              \
                  .before = "0" CLI_FOLDER_VALUE),                                                                     \
        CLI_RULES_ROW(CLI_COUNT, type, "no-repeat", "N", field.no_repeat,                                              \
                      .help = "no sequence of N tokens occurs twice in a text (0: off)", .high = INT32_MAX,            \
                      .before = "0" CLI_FOLDER_VALUE),                                                                 \
        CLI_RULES_ROW(CLI_TEXT, type, "suppress", "IDS", field.suppress,                                               \
                      .help = "ids of tokens that are not chosen: \"7 11\"", .before = "none" CLI_FOLDER_VALUE),       \
        CLI_RULES_ROW(CLI_TEXT, type, "suppress-first", "IDS", field.suppress_first,                                   \
                      .help = "ids of tokens that are not chosen as the first one",                                    \
                      .before = "none" CLI_FOLDER_VALUE),                                                              \
        CLI_RULES_ROW(CLI_TEXT, type, "bad-words", "WORDS", field.bad_words,                                           \
                      .help = "words that no text has, each the ids of its tokens, with commas between the words: "    \
                              "\"5, 9 12\"",                                                                           \
                      .before = "none" CLI_FOLDER_VALUE),                                                              \
        CLI_RULES_ROW(                                                                                                 \
            CLI_COUNT, type, "force-first", "N", field.force_first,                                                    \
            .help = "id of the token that begins each text, after a prompt of one token: with a model of several "     \
                    "languages, the token of the target language",                                                     \
            .high = INT32_MAX, .before = "none" CLI_FOLDER_VALUE),                                                     \
        CLI_RULES_ROW(CLI_COUNT, type, "force-last", "N", field.force_last,                                            \
                      .help = "id of the token that ends a text of the maximum length", .high = INT32_MAX,             \
                      .before = "none" CLI_FOLDER_VALUE)
/* What the options say: lists of ids, and the rules of a model with them. */
struct cli_id_list {
    int32_t *ids;
    size_t count;
};
struct cli_rules_read {
    struct cli_id_list suppressed, suppressed_first, bad_words;
    struct qkv_token_rules rules;
    int32_t last;
};
/* Reads the texts of the options, before a model is opened. Returns the exit code; free in both cases. */
int cli_rules_read(const struct cli_rules *given, struct cli_rules_read *read);
void cli_rules_free(struct cli_rules_read *read);
/* Gives the rules of the options, else of the model's folder, which `read` owns, and says which settings of the folder
 * have no effect. Returns the exit code. */
int cli_rules_settle(const struct cli_rules *given, struct cli_rules_read *read, const struct qkv_model *model,
                     const struct qkv_token_rules **rules);
/* Sets how long the continuation is: `tokens` (negative: not given), else what the folder says, which is in `o`. Says
 * so if the folder asks for beams. */
void cli_length_settle(int64_t tokens, const struct qkv_model *model, struct qkv_generate_options *o);

/* ---- the form of a text (answer_form.c) -------------------------------------------------------------------------- */

/* The row of --answer for a command whose struct `type` has a text `answer`. */
#define CLI_ANSWER(type)                                                                                               \
    {                                                                                                                  \
        CLI_TEXT, 0, "answer", "FORM", offsetof(type, answer),                                                         \
            .help = "form of the text: json (an object), schema:FILE (of a JSON schema), regex:EXPRESSION, or "        \
                    "choices:A,B (one of them)",                                                                       \
            .before = "any", .subject = "rules"                                                                        \
    }
/* Makes the constraint of a form; NULL: none. Returns the exit code. */
int cli_form_read(struct qkv_context *ctx, const char *form, struct qkv_constraint **out);

/* The options of a search; 0, NULL, negative values and a NaN are not given. */
struct cli_search {
    int64_t beam, max_tokens;
    double length_penalty, repeat_penalty;
    const char *stopping;
    struct cli_rules rules;
};
#define CLI_SEARCH_DEFAULTS                                                                                            \
    { .length_penalty = NAN, .repeat_penalty = -1, .rules = CLI_RULES_DEFAULTS }
/* Rows for the option table of a command whose struct `type` has `struct cli_search search`; `what`: "pairs: ". */
#define CLI_SEARCH_ROW(kind, type, name, argument, field, ...)                                                         \
    { kind, 0, name, argument, offsetof(type, search.field), .subject = "search", __VA_ARGS__ }
#define CLI_SEARCH(type, what)                                                                                         \
    CLI_SEARCH_ROW(CLI_COUNT, type, "beam", "N", beam,                                                                 \
                   .help = what "number of hypotheses of the beam search (1: greedy)", .low = 1, .high = 65536,        \
                   .before = "1" CLI_FOLDER_VALUE),                                                                    \
        CLI_SEARCH_ROW(CLI_REAL, type, "length-penalty", "A", length_penalty,                                          \
                       .help = what                                                                                    \
                       "exponent of the length penalty: a score is log-probability / length^A, with the end token "    \
                       "in the length (0: off)",                                                                       \
                       .before = "0.6; for a published model 1" CLI_FOLDER_VALUE),                                     \
        CLI_SEARCH_ROW(CLI_TEXT, type, "early-stopping", "NAME", stopping, .choice = cli_choose_stopping,              \
                       .help = what "when a search with beams ends: {}; true: as many results as beams are found; "    \
                                    "false: and no unfinished one has a better score than the worst of them; never: "  \
                                    "when no better result is possible",                                               \
                       .before = "never; for a published model false" CLI_FOLDER_VALUE),                               \
        CLI_SEARCH_ROW(CLI_COUNT, type, "max-tokens", "N", max_tokens,                                                 \
                       .help = what "maximum length of a result in tokens, with its end token", .high = INT32_MAX,     \
                       .before = "what the context allows, at most 3 times the source + 50" CLI_FOLDER_VALUE),         \
        CLI_SEARCH_ROW(CLI_ABOVE, type, "repeat-penalty", "X", repeat_penalty,                                         \
                       .help = what "make tokens less likely that the result has already (1: off)",                    \
                       .high = CLI_ENDLESS, .before = "1" CLI_FOLDER_VALUE),                                           \
        CLI_SEARCH_ROW(CLI_ABOVE, type, "source-penalty", "X", rules.source_penalty,                                   \
                       .help = what "make tokens of the source likelier; below 1: less likely (1: off)",               \
                       .high = CLI_ENDLESS, .before = "1" CLI_FOLDER_VALUE),                                           \
        CLI_SEARCH_ROW(CLI_COUNT, type, "source-no-repeat", "N", rules.source_no_repeat,                               \
                       .help = what "no sequence of N tokens of the source occurs in a result (0: off)",               \
                       .high = INT32_MAX, .before = "0" CLI_FOLDER_VALUE),                                             \
        CLI_RULES(type, search.rules)
/* Names of all these options, for rules of a command. */
#define CLI_RULES_NAMES "min-tokens no-repeat suppress suppress-first bad-words force-first force-last"
#define CLI_SEARCH_NAMES                                                                                               \
    "beam length-penalty early-stopping max-tokens repeat-penalty source-penalty source-no-repeat " CLI_RULES_NAMES
/* Sets a search: the options, else the model's folder, else defaults. Returns the exit code. */
int cli_search_settle(const struct cli_search *search, struct cli_rules_read *read, const struct qkv_model *model,
                      struct qkv_search_options *o);
const char *cli_choose_stopping(const char *option, size_t i);

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
