/* train: learning from a text, from pairs or from labelled lines.
 *
 * Offers its callers what include/qkv.h declares under "optimizers" and "training on a file"; the files of this
 * room share what is declared here. A run's folder holds
 *
 *   config.json, tokenizer.json, model.safetensors   the model with the best weights so far (model room)
 *   source_tokenizer.json, labels.txt                of pairs with two tokenizers; of labelled lines
 *   train.json                                       the options and what is known of the texts (train_json.c)
 *   tokens.data.bin, tokens.valid.bin                the tokenized texts, targets or labelled texts (tokens.c)
 *   tokens.data.beside.bin, tokens.valid.beside.bin  the sources or labels that belong to them
 *   log.jsonl                                        a line a step (log.c)
 *   machine.jsonl                                    a line for each time it was begun or gone on with (machine_log.c)
 *   checkpoint.safetensors                           latest weights, moments and position (checkpoint.c)
 *
 * Whatever a step draws at random is a pure function of (seed, step, place in the step), so the position of a run is
 * its step number and nothing else. */
#ifndef QKV_TRAIN_H
#define QKV_TRAIN_H

#include "base/base.h"

#define QKV_TRAIN_FILE        "train.json"
#define QKV_TRAIN_FILE_BYTES  ((size_t)1 << 24) /* no larger one is read */
#define QKV_TRAIN_FORMAT      "qkv-train"       /* of the record that train.json is */
#define QKV_CHECKPOINT_FILE   "checkpoint.safetensors"
#define QKV_LOG_FILE          "log.jsonl"
#define QKV_MACHINE_FILE      "machine.jsonl"
#define QKV_TOKENS_DATA_FILE  "tokens.data.bin"
#define QKV_TOKENS_VALID_FILE "tokens.valid.bin"
#define QKV_BESIDE_DATA_FILE  "tokens.data.beside.bin"
#define QKV_BESIDE_VALID_FILE "tokens.valid.beside.bin"
#define QKV_CONFIG_FILE       "config.json"
#define QKV_TOKENIZER_FILE    "tokenizer.json"
#define QKV_SOURCE_FILE       "source_tokenizer.json"
#define QKV_LABELS_FILE       "labels.txt"
#define QKV_WEIGHTS_FILE      "model.safetensors"
#define QKV_SAMPLES_FILE      "samples.jsonl"

/* ---- options (options.c) --------------------------------------------------------------------------------------- */

enum qkv_train_type { QKV_TRAIN_TEXT, QKV_TRAIN_FILES, QKV_TRAIN_REAL, QKV_TRAIN_COUNT, QKV_TRAIN_FLAG };
struct qkv_train_option {
    const char *name;
    enum qkv_train_type type;
    size_t offset;            /* in struct qkv_train_options */
    const char *value, *help; /* the default as text, NULL for none */
};
/* The i-th option, NULL past the last. */
const struct qkv_train_option *qkv_train_option(size_t i);
/* The defaults behind options, those of the recipe that they began with. */
void qkv_train_base(const struct qkv_train_options *options, struct qkv_train_options *base);
/* Whether an option has the same value in both. */
bool qkv_train_same(const struct qkv_train_option *option, const struct qkv_train_options *a,
                    const struct qkv_train_options *b);
/* An option's value for messages: "none" for a text that is NULL. */
#define QKV_OPTION_TEXT 160
void qkv_train_value_text(const struct qkv_train_option *option, const struct qkv_train_options *options,
                          char text[QKV_OPTION_TEXT]);
/* Values and what they say about each other, without asking who chose them: what a run recorded has to satisfy. */
enum qkv_status qkv_train_check_values(struct qkv_context *ctx, const struct qkv_train_options *options);
/* Whether every option that was chosen has an effect (needs.c). */
enum qkv_status qkv_train_check_needs(struct qkv_context *ctx, const struct qkv_train_options *options);
/* Defaults that contradict what was chosen give way, with a sentence in `notes` (NULL: none) for each (needs.c). `spec` may be
 * NULL. The new texts are constants. */
enum qkv_status qkv_train_settle(struct qkv_context *ctx, struct qkv_train_options *options,
                                 const struct qkv_spec *spec, struct qkv_texts *notes);
/* A copy that owns its texts, and its end. */
enum qkv_status qkv_train_copy(struct qkv_context *ctx, struct qkv_train_options *copy,
                               const struct qkv_train_options *options);
void qkv_train_release(struct qkv_train_options *options);
/* Whether an option changes the numbers of the steps that are still to come: only then its value is part of the digest of
 * the options, which a checkpoint carries and resuming compares. */
bool qkv_train_changes_numbers(const char *name);
/* The digest of the options that do (options_digest.c; docs/digests.md): 17 bytes with the terminating zero. */
enum qkv_status qkv_train_digest(struct qkv_context *ctx, const struct qkv_train_options *options, char text[17]);
/* Gives the context the precision of checked, owned options; "auto" becomes the one chosen: of a new run
 * qkv_auto_precision, of an old one (that knew no other) fp32. (precision.c) */
enum qkv_status qkv_train_precision(struct qkv_context *ctx, struct qkv_train_options *options, bool fresh);
/* Checked options only: the kinds that the texts name. */
enum qkv_optimizer_kind qkv_train_optimizer(const struct qkv_train_options *options);
enum qkv_schedule_kind qkv_train_schedule(const struct qkv_train_options *options);

/* Sets what `settings` say, "eval_every=100", each an option that may change when a run goes on (changes.c). */
enum qkv_status qkv_train_change(struct qkv_context *ctx, struct qkv_train_options *options,
                                 const char *const *settings, size_t count);

/* ---- memory (plan.c) --------------------------------------------------------------------------------------------- */

/* The shapes that passes will have: windows (B,T), or those of lines. B 0 and no shapes: not known yet. */
struct qkv_train_shapes {
    size_t B, T;
    const struct qkv_pass_shape *train, *valid;
    size_t train_count, valid_count;
    bool validates;
};
/* Refuses (QKV_MEMORY) a run that needs more memory than there is, before any of it is used; the sentence says what would
 * need less where the run is `fresh`, that is, still free to choose. The context has the precision of the run. */
enum qkv_status qkv_train_memory(struct qkv_context *ctx, const struct qkv_spec *spec,
                                 const struct qkv_train_options *options, const struct qkv_train_shapes *shapes,
                                 bool fresh);

/* ---- learning rate (schedule.c, seams.c) ---------------------------------------------------------------------------------- */

/* A place where the run got a new end, and what the rate does from there on (seams.c). */
struct qkv_seam {
    int64_t step, end; /* steps done when that was, at least 1; the new number of steps */
    enum qkv_extend extend;
};
struct qkv_seams { /* {0}: none */
    struct qkv_seam *items;
    size_t count, capacity;
    int64_t first_end; /* the number of steps before the first seam */
};
/* The rate of step s, counted from 0. `seams` NULL: none. */
double qkv_learning_rate(const struct qkv_train_options *options, const struct qkv_seams *seams, int64_t s);

/* "decay", "flat", "rewarm". */
enum qkv_status qkv_extend_parse(struct qkv_context *ctx, const char *name, enum qkv_extend *extend);
const char *qkv_extend_name(enum qkv_extend extend);
/* Adds a seam; those at its step and later, behind which no step came, go. `end_before`: the number of steps until then. */
enum qkv_status qkv_seams_add(struct qkv_context *ctx, struct qkv_seams *seams, int64_t end_before,
                              const struct qkv_seam *seam);
void qkv_seams_free(struct qkv_seams *seams);
/* The part of train.json: nothing for none; `steps` is the option, which the last seam agrees with. */
struct json_t;
void qkv_seams_print(struct qkv_json *json, const struct qkv_seams *seams);
enum qkv_status qkv_seams_read(struct qkv_context *ctx, const char *path, const struct json_t *root, int64_t steps,
                               struct qkv_seams *seams);

/* ---- optimizer (optimizer.c) ------------------------------------------------------------------------------------- */

/* Steps done; setting them is for resuming. */
uint64_t qkv_optimizer_steps(const struct qkv_optimizer *optimizer);
void qkv_optimizer_set_steps(struct qkv_optimizer *optimizer, uint64_t steps);
/* How many moments a parameter has (2, or 1 for sgd), and the k-th moment of parameter i. */
size_t qkv_optimizer_moments(const struct qkv_optimizer *optimizer);
float *qkv_optimizer_moment(struct qkv_optimizer *optimizer, size_t k, size_t i);
size_t qkv_optimizer_bytes(const struct qkv_optimizer *optimizer);

/* ---- texts as tokens (corpus.c, tokens.c) --------------------------------------------------------------------------- */

/* A text being read and encoded piece by piece, so that neither it nor its tokens need memory of its size. */
struct qkv_text_stream {
    struct qkv_context *ctx;
    const struct qkv_tokenizer *tokenizer;
    const char *path;
    struct qkv_file file;
    char *text; /* bytes of the file from `position` on: `held` of them */
    size_t held, capacity;
    size_t position;              /* bytes encoded, or taken, so far */
    uint64_t hash;                /* of them */
    size_t before, after;         /* first and last ids of the piece given last that the tokenizer's template placed */
    bool binary;                  /* NUL bytes are fine */
    struct qkv_text_check *check; /* sees what is encoded; NULL: nobody does */
};
/* Opens a text and refuses one that is empty or looks binary: that holds a NUL byte, unless the tokenizer is one of bare
 * bytes (or NULL is given, when none is known yet and only the first part of the file is looked at). */
enum qkv_status qkv_text_open(struct qkv_context *ctx, const char *path, const struct qkv_tokenizer *tokenizer,
                              struct qkv_text_stream *stream);
void qkv_text_close(struct qkv_text_stream *stream);
/* The ids of the next piece, freed with qkv_free; *ids NULL at the end of the text. A text is one sequence: what the
 * tokenizer's template places around one comes before its first piece and after its last. */
enum qkv_status qkv_text_next(struct qkv_text_stream *stream, int32_t **ids, size_t *count);
/* Has at least `bytes` bytes in stream->text, or all that are left, which sets *end. */
enum qkv_status qkv_text_hold(struct qkv_text_stream *stream, size_t bytes, bool *end);
/* Goes over the first `bytes` of those held. */
void qkv_text_take(struct qkv_text_stream *stream, size_t bytes);

/* The hash of a whole file. */
enum qkv_status qkv_hash_file(struct qkv_context *ctx, const char *path, uint64_t *hash);

/* ---- what a text looks like besides (text_check.c) -------------------------------------------------------------------- */

/* Of one file, piece by piece. */
struct qkv_text_check {
    uint64_t bytes, lines, crlf; /* seen; line ends; those that are CR LF */
    /* Bytes with the high bit; those that belong to no character of UTF-8, where the first stands, and how many of them are
     * controls in Latin-1 and unknown to Windows-1252. */
    uint64_t high, invalid, first_invalid, controls, unknown;
    size_t json_lines; /* of the first ones, when all of these are JSON objects */
    char json_key[32];
    bool mark, after_return; /* a byte order mark; the latest byte was a CR */
};
/* The next piece, which ends between characters unless `binary`; `end`: it is the last one. */
void qkv_text_check_piece(struct qkv_text_check *check, const char *text, size_t size, bool end, bool binary);
/* Of all files of a text: for each kind the first file that it was found in. */
enum { QKV_TEXT_FINDINGS = 4 };
struct qkv_text_finding {
    const char *path; /* the caller's; NULL: not found */
    struct qkv_text_check check;
    size_t others;
};
struct qkv_text_findings {
    struct qkv_text_finding kind[QKV_TEXT_FINDINGS];
};
void qkv_text_check_end(struct qkv_text_findings *findings, const struct qkv_text_check *check, const char *path);
/* A note for each kind that was found, with what helps. */
enum qkv_status qkv_text_findings_note(struct qkv_context *ctx, const struct qkv_text_findings *findings,
                                       struct qkv_texts *notes);

/* ---- tokens on disk (tokens.c) ------------------------------------------------------------------------------------------ */

/* What a text and its tokens are known by. bytes 0: there is no such text. */
struct qkv_text_facts {
    uint64_t bytes, hash; /* of the text */
    uint64_t tokens;
    uint64_t tokenizer; /* hash of tokenizer.json */
    uint64_t vocab;
};
/* The files that it consists of (text_files.c). */
struct qkv_text_file {
    char *path; /* absolute */
    uint64_t bytes, hash;
    uint64_t tokens;   /* with the end token behind it */
    uint64_t lines;    /* examples of a file of lines; 0 of a text */
    uint64_t held_out; /* lines, of a text tokens, at its end that are kept for validation */
};
struct qkv_text_files {
    struct qkv_text_file *items;
    size_t count, capacity;
};
/* Adds the files that the names of an option (its QKV_FILES_MAX, up to the first NULL) stand for. */
enum qkv_status qkv_text_files_list(struct qkv_context *ctx, const char *const *names, struct qkv_text_files *files,
                                    struct qkv_texts *notes);
enum qkv_status qkv_text_files_add(struct qkv_context *ctx, struct qkv_text_files *files,
                                   const struct qkv_text_file *file);
enum qkv_status qkv_text_files_copy(struct qkv_context *ctx, const struct qkv_text_files *files,
                                    struct qkv_text_files *copy);
void qkv_text_files_free(struct qkv_text_files *files);
/* "a.txt", "a.txt and 2 more files", for messages; returns `name`. */
#define QKV_FILES_NAME 560
const char *qkv_text_files_name(const struct qkv_text_files *files, char name[QKV_FILES_NAME]);
/* Bytes and hash of all of them; of one file they are its own. */
void qkv_text_files_sum(const struct qkv_text_files *files, struct qkv_text_facts *facts);
/* Says of each file how much of it lies in the last `kept` tokens, or lines where it has some. */
void qkv_text_files_hold_out(struct qkv_text_files *files, uint64_t kept);
/* The id of the token that stands between two texts: <|endoftext|>, else </s>, else -1; -1 too where the tokenizer's template ends
 * each text. */
int32_t qkv_text_end(const struct qkv_tokenizer *tokenizer);

/* Writes a token file piece by piece, atomically. `facts` comes with tokenizer and vocab (and, at the end, bytes and hash)
 * set; tokens are counted. */
struct qkv_tokens_writer {
    struct qkv_replace replace;
    struct qkv_text_facts *facts;
};
enum qkv_status qkv_tokens_begin(struct qkv_context *ctx, const char *path, struct qkv_text_facts *facts,
                                 struct qkv_tokens_writer *writer);
enum qkv_status qkv_tokens_put(struct qkv_tokens_writer *writer, const int32_t *ids, size_t count);
/* Finishes the file when `status` is fine, else takes it back; the first failure of both. Harmless on {0}. */
enum qkv_status qkv_tokens_end(struct qkv_tokens_writer *writer, enum qkv_status status);
struct qkv_tokens { /* an open token file, or a part of it */
    struct qkv_file file;
    struct qkv_map all;         /* once loaded: all bytes of the file */
    size_t start, count, width; /* the first token in the file, tokens, bytes a token */
    int32_t vocab;
    const char *path; /* for messages; the caller's */
};
/* Encodes files into a token file at `path`, atomically, an end token between two of them where there is one. `facts` comes with
 * tokenizer and vocab set and gets the rest, as the files do; `notes` gets what they look like (NULL: nobody asks). */
enum qkv_status qkv_tokens_write(struct qkv_context *ctx, const char *path, struct qkv_text_files *files,
                                 const struct qkv_tokenizer *tokenizer, struct qkv_text_facts *facts,
                                 struct qkv_texts *notes, qkv_progress *progress, void *user);
/* Opens a token file; everything in its header must be as `facts` says. */
enum qkv_status qkv_tokens_open(struct qkv_context *ctx, const char *path, const struct qkv_text_facts *facts,
                                struct qkv_tokens *tokens);
void qkv_tokens_close(struct qkv_tokens *tokens);
/* Copies `count` tokens from the `start`-th on. Fails on one outside the vocabulary, and when the file has become shorter. */
enum qkv_status qkv_tokens_read(const struct qkv_tokens *tokens, size_t start, size_t count, int32_t *ids);
/* Reads all tokens into memory, for qkv_tokens_at. */
enum qkv_status qkv_tokens_load(struct qkv_tokens *tokens);
/* The i-th token of a loaded file, −1 for what is outside the vocabulary. */
int32_t qkv_tokens_at(const struct qkv_tokens *tokens, size_t i);
enum qkv_status qkv_tokens_outside(struct qkv_context *ctx, const struct qkv_tokens *tokens, size_t i);
/* ids[t] = token start + t, for t < T; targets[t] = token start + t + 1. Fails on a token outside the vocabulary. */
enum qkv_status qkv_tokens_window(struct qkv_context *ctx, const struct qkv_tokens *tokens, size_t start, size_t T,
                                  int32_t *ids, int32_t *targets);

/* ---- what is drawn at random (rng_streams.c) -------------------------------------------------------------------------------- */

/* Where row r of step s begins, uniform over the `count` − context windows of a text. */
size_t qkv_draw_window(uint64_t seed, uint64_t step, uint64_t row, size_t windows);
/* The dropout seed of a micro-batch. */
uint64_t qkv_draw_dropout(uint64_t seed, uint64_t step, uint64_t part);

/* The order of an epoch; the masks of a row (mlm), and those of a window of validation. */
struct qkv_random qkv_draw_epoch(uint64_t seed, uint64_t epoch);
struct qkv_random qkv_draw_masks(uint64_t seed, uint64_t step, uint64_t row);
struct qkv_random qkv_draw_valid_masks(uint64_t seed, uint64_t window);

/* ---- examples of two sides (examples.c) -------------------------------------------------------------------------------- */

/* Targets with their sources, or labelled texts with their labels: sequences in two token files. */
struct qkv_examples {
    struct qkv_tokens main, beside;
    int32_t end, beside_end;     /* the id that ends a sequence; −1: each token is a sequence */
    size_t count;                /* examples */
    size_t *main_at, *beside_at; /* (count + 1): where they begin */
};
/* Finds the sequences of opened token files, both of which must have as many, none longer than `most`; tokens are checked. */
enum qkv_status qkv_examples_index(struct qkv_context *ctx, struct qkv_examples *examples, size_t most);
void qkv_examples_free(struct qkv_examples *examples);
/* Copies a sequence; returns its length. */
size_t qkv_examples_main(const struct qkv_examples *examples, size_t i, int32_t *ids);
size_t qkv_examples_beside(const struct qkv_examples *examples, size_t i, int32_t *ids);

/* ---- batches of similar length (batches.c) ------------------------------------------------------------------------------ */

/* Examples sorted by length and cut into batches, once and for all; what changes from epoch to epoch is the order of
 * examples of the same shape and the order in which the batches come. */
struct qkv_batches {
    size_t examples, count;   /* of the batches */
    uint32_t *sorted, *order; /* (examples): by shape; the same, examples of one shape shuffled */
    uint32_t *group;          /* (groups + 1): where the examples of each shape begin */
    size_t groups;
    size_t *cut;                   /* (count + 1): where each batch begins in them */
    struct qkv_pass_shape *shapes; /* (count) */
    uint32_t *visit;               /* (count): the batches in the order of the epoch */
    uint64_t *before;              /* (count + 1): tokens of the batches visited before */
    uint64_t *tokens;              /* (count) */
    uint64_t epoch;                /* that `order` and `visit` are of; UINT64_MAX: sorted */
};
struct qkv_batch_limits {
    size_t rows, tokens; /* rows of a batch; rows times its longest sequence; 0: no limit */
};
/* Of the examples begin … begin + count. `text` is what messages name. */
enum qkv_status qkv_batches_make(struct qkv_context *ctx, const struct qkv_examples *examples, size_t begin,
                                 size_t count, const struct qkv_batch_limits *limits, const char *text,
                                 struct qkv_batches *batches);
void qkv_batches_free(struct qkv_batches *batches);
/* Puts them into the order of the epoch that a step lies in; the answer is the batch of the step. */
size_t qkv_batches_at_step(struct qkv_batches *batches, uint64_t seed, uint64_t step);
/* Tokens of all batches up to and including that of `step`. */
uint64_t qkv_batches_tokens(struct qkv_batches *batches, uint64_t seed, uint64_t step);
/* The shapes of all batches, cut into `parts` each, every one once; free() it. */
enum qkv_status qkv_batches_shapes(struct qkv_context *ctx, const struct qkv_batches *batches, size_t parts,
                                   struct qkv_pass_shape **shapes, size_t *count);

/* ---- evaluation (evaluate.c) ------------------------------------------------------------------------------------------ */

/* Whether the model predicts the next token of a text: one causal stack with an lm head. */
enum qkv_status qkv_text_model_check(struct qkv_context *ctx, const struct qkv_spec *spec);
/* Mean loss over `windows` windows of T tokens spread evenly over the text, always the same ones; 0, or more than lie
 * side by side: the whole text side by side. ids and targets hold B·T each, the largest batch of the pass. */
struct qkv_masking;
struct qkv_validation {
    struct qkv_pass *pass;
    const struct qkv_tokens *tokens;
    size_t B, T, windows;
    int32_t *ids, *targets;
    const struct qkv_masking *masking; /* NULL: the next token is what is predicted */
    uint64_t seed;                     /* of the masks */
};
enum qkv_status qkv_validate(struct qkv_context *ctx, const struct qkv_validation *validation, qkv_progress *progress,
                             void *user, double *loss);

/* ---- the folder (create.c) ------------------------------------------------------------------------------------------------ */

/* Refuses a folder in which something has the name of a run's file and is a pipe, a device or a folder: reading or writing it
 * might wait for ever. */
enum qkv_status qkv_run_check_files(struct qkv_context *ctx, const char *folder);
enum qkv_status qkv_run_special(struct qkv_context *ctx, const char *path); /* the sentence for it (log.c) */

/* ---- log (log.c, log_cut.c) -------------------------------------------------------------------------------------------------------- */

struct qkv_log {
    int file;             /* valid where path is not NULL; −1: not open */
    char *path;           /* NULL: closed */
    size_t size;          /* bytes of whole lines */
    struct qkv_json line; /* the one being written; its memory serves all of them */
};
/* Opens log.jsonl in a folder and locks it against a second trainer. */
enum qkv_status qkv_log_open(struct qkv_context *ctx, struct qkv_log *log, const char *folder);
struct qkv_log_strays {  /* lines that cannot be read */
    size_t count, first; /* how many, and the number of the first one, from 1 */
};
/* Takes the lines of steps past `step` out, and what is left of one that was being written. All others stay (log_cut.c). */
enum qkv_status qkv_log_cut(struct qkv_context *ctx, struct qkv_log *log, int64_t step, struct qkv_log_strays *strays);
/* Puts a new file in the place of the log, which stays locked. */
enum qkv_status qkv_log_replace(struct qkv_context *ctx, struct qkv_log *log, const void *data, size_t n);
enum qkv_status qkv_log_write(struct qkv_context *ctx, struct qkv_log *log, const struct qkv_train_report *report,
                              uint64_t tokens);
enum qkv_status qkv_log_sync(struct qkv_context *ctx, struct qkv_log *log);
void qkv_log_close(struct qkv_log *log);

/* Appends a line about this machine to machine.jsonl (machine_log.c); at step 0 the file begins. */
enum qkv_status qkv_machine_note(struct qkv_context *ctx, const char *folder, int64_t step);

/* ---- train.json (train_json.c) ----------------------------------------------------------------------------------------- */

struct qkv_run_facts {
    struct qkv_text_facts data, valid, beside_data, beside_valid;
    struct qkv_text_files data_files, valid_files; /* none of a run that was begun when files were not recorded */
    struct qkv_seams seams;                        /* qkv_seams_free ends them */
    uint64_t from_bytes, from_hash;                /* of the weights that the run began with; 0: new ones */
};
enum qkv_status qkv_train_json_write(struct qkv_context *ctx, const char *folder,
                                     const struct qkv_train_options *options, const struct qkv_run_facts *facts);
/* Options come back checked and owning their texts (qkv_train_release), the facts owning their files (qkv_text_files_free). */
enum qkv_status qkv_train_json_read(struct qkv_context *ctx, const char *folder, struct qkv_train_options *options,
                                    struct qkv_run_facts *facts);

/* ---- tokenizers (tokenizers.c) ------------------------------------------------------------------------------------------ */

/* What a choice of the options asks for ("chars", "bpe:4096", a file): trained on `text`, or read. `what` is the option that
 * said so. `specials` are asked of it: a file that lacks one is refused. */
struct qkv_tokenizer_choice {
    const char *what, *choice, *text;
    size_t size;
    const struct qkv_text_files *files; /* in place of the text: its files, one after the other */
    const char *const *specials;
    size_t special_count;
};
/* Whether a text is needed for it (and not a file or bare bytes). */
/* Whether the size behind a kind ("bpe:4096") is one; what is no kind is a file, which is not read here. */
enum qkv_status qkv_tokenizer_check_choice(struct qkv_context *ctx, const char *what, const char *choice);
bool qkv_tokenizer_learns(const char *choice);
enum qkv_status qkv_tokenizer_make(struct qkv_context *ctx, const struct qkv_tokenizer_choice *choice,
                                   struct qkv_tokenizer **out);
/* Writes FOLDER/NAME; facts get its hash and vocabulary. */
enum qkv_status qkv_tokenizer_keep(struct qkv_context *ctx, const struct qkv_tokenizer *tokenizer, const char *folder,
                                   const char *name, struct qkv_text_facts *data, struct qkv_text_facts *valid);
/* Reads FOLDER/NAME, which must be what `facts` know. */
enum qkv_status qkv_tokenizer_return(struct qkv_context *ctx, const char *folder, const char *name,
                                     const struct qkv_text_facts *facts, struct qkv_tokenizer **out);
/* Sets a vocabulary of 0, or compares it; `key` and `setting` name it in the spec. */
enum qkv_status qkv_vocab_agree(struct qkv_context *ctx, const char *key, int *vocab, int found);

/* ---- beginning with a model (origin.c) ------------------------------------------------------------------------------------- */

/* Reads the model of option from, which is not to be written to `folder`: it, and the spec of the run before anything of the data
 * is known (classes 0: from the labels). */
enum qkv_status qkv_origin_open(struct qkv_context *ctx, const struct qkv_train_options *options, const char *folder,
                                struct qkv_model **origin, struct qkv_spec *spec);
/* The facts about it. */
enum qkv_status qkv_origin_record(struct qkv_trainer *trainer);
/* Its tokenizer, of targets or sources, with the special tokens that it lacks added. */
enum qkv_status qkv_origin_tokenizer(struct qkv_trainer *trainer, bool source, const char *const *specials,
                                     size_t count, struct qkv_tokenizer **out);
/* As qkv_vocab_agree, but that the vocabulary of a model may have rows that no token uses, and grows with added tokens. */
enum qkv_status qkv_origin_vocab(struct qkv_trainer *trainer, const char *key, int *vocab, int found);
/* Whether a classifier that keeps its head knows the trainer's labels and no others. */
enum qkv_status qkv_origin_labels(struct qkv_trainer *trainer);
/* Copies its weights into the trainer's model, and frees it. */
enum qkv_status qkv_origin_copy(struct qkv_trainer *trainer);

/* ---- datasets: what a run learns from (dataset.c, dataset_*.c) ------------------------- */

struct qkv_trainer;
struct qkv_dataset_step { /* the batch of a step */
    size_t rows;          /* that are cut into parts */
    size_t targets;       /* that count, in all rows */
    size_t tokens;        /* of all rows, without padding */
};
struct qkv_dataset {
    const char *name;
    /* Whether a model can learn this, before anything is done. */
    enum qkv_status (*check)(struct qkv_context *ctx, const struct qkv_train_options *options,
                             const struct qkv_spec *spec);
    /* For a new run: the tokenizers, what the spec takes from the data, and their files. */
    enum qkv_status (*prepare)(struct qkv_trainer *trainer, struct qkv_spec *spec);
    /* For a resumed one: the same from the files. */
    enum qkv_status (*restore)(struct qkv_trainer *trainer);
    /* Opens the token files, making those that are missing; cuts them into the parts to learn from and to validate on; says
     * which shapes will come. */
    enum qkv_status (*open)(struct qkv_trainer *trainer);
    /* Looks at the batch of a step, then gives its rows begin … end. */
    enum qkv_status (*begin)(struct qkv_trainer *trainer, uint64_t step, struct qkv_dataset_step *out);
    enum qkv_status (*fill)(struct qkv_trainer *trainer, uint64_t step, size_t begin, size_t end,
                            struct qkv_batch *batch);
    /* Tokens of all steps up to and including this one. */
    uint64_t (*total)(struct qkv_trainer *trainer, uint64_t step);
    /* The loss over what is kept for validation, and the metric where that is another one. */
    enum qkv_status (*validate)(struct qkv_trainer *trainer, double *loss, double *metric);
};
extern const struct qkv_dataset qkv_dataset_text, qkv_dataset_mlm, qkv_dataset_pairs, qkv_dataset_labeled;
/* The one that (checked) options choose. */
const struct qkv_dataset *qkv_dataset_choose(const struct qkv_train_options *options);
/* Whether model and options suit it. */
enum qkv_status qkv_dataset_check(struct qkv_context *ctx, const struct qkv_train_options *options,
                                  const struct qkv_spec *spec);
/* The names of the files to learn from, QKV_FILES_MAX of them. */
const char *const *qkv_feed_files(const struct qkv_train_options *options);

/* Shared by the datasets of windows (dataset_text.c). */
enum qkv_status qkv_text_prepare(struct qkv_trainer *trainer, struct qkv_spec *spec, const char *const *specials,
                                 size_t special_count);
enum qkv_status qkv_text_restore(struct qkv_trainer *trainer);
enum qkv_status qkv_text_dataset_open(struct qkv_trainer *trainer);
enum qkv_status qkv_text_begin(struct qkv_trainer *trainer, uint64_t step, struct qkv_dataset_step *out);
uint64_t qkv_text_total(struct qkv_trainer *trainer, uint64_t step);
enum qkv_status qkv_text_fill(struct qkv_trainer *trainer, uint64_t step, size_t begin, size_t end,
                              struct qkv_batch *batch);
enum qkv_status qkv_text_validate(struct qkv_trainer *trainer, const struct qkv_masking *masking, double *loss);

/* Masked-language modelling (dataset_mlm.c; Devlin et al. 2018). */
struct qkv_masking {
    double probability;
    int32_t mask, vocab;
};
/* Turns ids (T) into input and targets: of the chosen positions 80 % become the mask, 10 % a random token. Returns how many
 * were chosen. */
size_t qkv_mask_row(const struct qkv_masking *masking, struct qkv_random *random, size_t T, int32_t *ids,
                    int32_t *targets);

/* Shared by the feeds of lines (lines.c): both token files of one file of lines. `encode` gives both sequences of a row. */
struct qkv_tsv;
struct qkv_tsv_row;
struct qkv_line {
    int32_t *main, *beside; /* freed with qkv_free */
    size_t main_count, beside_count;
};
typedef enum qkv_status qkv_encode_line(struct qkv_trainer *trainer, const struct qkv_tsv *file,
                                        const struct qkv_tsv_row *row, struct qkv_line *line);
struct qkv_lines {
    const char *first, *second; /* what the fields are, for messages */
    int32_t end, beside_end;    /* as in struct qkv_examples */
    qkv_encode_line *encode;
};
/* Whether the lines of a token file are told apart when this tokenizer's template is around them: it must end with </s>. */
enum qkv_status qkv_lines_template(struct qkv_trainer *trainer, const struct qkv_tokenizer *tokenizer);
/* Opens what is there and makes what is missing; the parts to learn from and to validate on, the batches. */
enum qkv_status qkv_lines_open(struct qkv_trainer *trainer, const struct qkv_lines *lines);
/* One side of the files as a text, a line each, to train a tokenizer on: 0 the first field, 1 the second, 2 both. */
enum qkv_status qkv_lines_text(struct qkv_trainer *trainer, const struct qkv_lines *lines, int side,
                               struct qkv_buffer *text);
uint64_t qkv_lines_total(struct qkv_trainer *trainer, uint64_t step);
enum qkv_status qkv_lines_begin(struct qkv_trainer *trainer, uint64_t step, struct qkv_dataset_step *out);
/* Rows begin … end of the batch of a step: which examples, and their shape. */
void qkv_lines_rows(struct qkv_trainer *trainer, uint64_t step, size_t begin, size_t end, const uint32_t **rows,
                    struct qkv_batch *batch);
/* Runs the validation batches, or option eval_batches of them, through fill(examples, order, batch) and the pass; `look` sees
 * every batch that was run, or is NULL. */
typedef void qkv_fill_rows(struct qkv_trainer *trainer, const struct qkv_examples *examples, const uint32_t *rows,
                           struct qkv_batch *batch);
typedef void qkv_attention_view(struct qkv_trainer *trainer, const struct qkv_batch *batch, void *user);
enum qkv_status qkv_lines_validate(struct qkv_trainer *trainer, qkv_fill_rows *fill, qkv_attention_view *look,
                                   void *user, double *loss);

/* Greedy search over the first 500 validation sources (validate_search.c). */
enum qkv_status qkv_validate_search(struct qkv_trainer *trainer, double *exact, double *token_error);

/* ---- the trainer (trainer.c; made by create.c or resume.c) ------------------------------------------------------------------------ */

struct qkv_trainer {
    struct qkv_context *ctx;
    enum qkv_precision precision; /* of the context before, and after */
    bool fresh;                   /* a new run, not one that goes on */
    char *folder;
    struct qkv_train_options options; /* owns its texts */
    struct qkv_run_facts facts;
    const struct qkv_dataset *feed;
    struct qkv_tokenizer *tokenizer, *source_tokenizer; /* until the model has them */
    char **labels;                                      /* sorted, of labelled lines */
    size_t label_count;
    struct qkv_model *origin; /* that the run begins with, until its weights are copied; NULL: none */
    struct qkv_model *model;
    struct qkv_optimizer *optimizer;
    struct qkv_pass *pass, *validation_pass; /* the latter NULL without anything to validate on */
    size_t B, T;                             /* windows: the largest micro-batch; lines: the longest of each */
    struct qkv_pass_shape *shapes, *validation_shapes; /* lines: of all batches that will come */
    size_t shape_count, validation_shape_count;
    int32_t *ids, *targets, *source, *lengths, *source_lengths;          /* one batch */
    size_t positions, source_positions;                                  /* what ids and targets, and source, hold */
    char *data_path, *valid_path, *beside_data_path, *beside_valid_path; /* the token files */
    struct qkv_tokens data_tokens, valid_tokens;
    struct qkv_tokens train, valid; /* windows: the parts to learn from and to validate on; valid.count 0: none */
    struct qkv_examples examples, valid_examples; /* lines; the latter empty where the former holds both parts */
    struct qkv_batches batches, valid_batches;    /* lines; valid_batches.count 0: none */
    struct qkv_log log;
    struct qkv_train_report report; /* of the latest step; kept in the checkpoint */
    int64_t stale;                  /* evaluations since the best */
    bool pending;                   /* the latest step's evaluation and log line are still due */
    struct qkv_profile *profile;    /* NULL: not asked for */
    int64_t profiled;               /* steps in it */
    bool failed;                    /* the loss was not finite: nothing may be saved any more */
    int64_t saved_step;             /* of the checkpoint on disk */
    double train_flops, peak;       /* FLOPs a token; FLOP/s of this machine */
    double started, earlier;        /* clock at the start; seconds of the run before that */
    struct qkv_texts notes;         /* what qkv_trainer_note gives */
    qkv_progress *progress;
    void *user;
};
/* What create.c and resume.c share (build.c); a trainer that any of them failed on is only good for qkv_trainer_free. */
enum qkv_status qkv_trainer_begin(struct qkv_context *ctx, const char *folder, qkv_progress *progress, void *user,
                                  struct qkv_trainer **out);
/* Changes a spec as the options say: context, dropout. */
enum qkv_status qkv_trainer_apply(struct qkv_context *ctx, const struct qkv_train_options *options,
                                  struct qkv_spec *spec);
/* qkv_train_memory with what is known before the tokenizers: vocabularies of 256 where they are not given, and of lines no
 * shapes. */
enum qkv_status qkv_trainer_check_memory(struct qkv_trainer *trainer, const struct qkv_spec *spec);
/* Makes the model, opens the data, makes passes and optimizer. The model takes the trainer's tokenizers. */
enum qkv_status qkv_trainer_build(struct qkv_trainer *trainer, const struct qkv_spec *spec);
/* Whether there is anything to validate on. */
bool qkv_trainer_validates(const struct qkv_trainer *trainer);
/* Whether a token file that was missing and made again has the text that the run began with; otherwise it is removed, and the
 * sentence names the file that has changed. */
struct qkv_same_text {
    const struct qkv_text_files *files, *now_files;
    const struct qkv_text_facts *facts, *now_facts;
};
enum qkv_status qkv_trainer_same_text(struct qkv_trainer *trainer, const char *path, const struct qkv_same_text *text);
/* Adds a note for whoever runs the trainer: one whole sentence without a period at its end, as of a failure. Control
 * characters of foreign names are for the caller to make harmless. */
enum qkv_status qkv_trainer_add_note(struct qkv_trainer *trainer, const char *format, ...) QKV_PRINTF(2, 3);
/* Cuts the log after the line of `step`; a note says what could not be read. */
enum qkv_status qkv_trainer_cut_log(struct qkv_trainer *trainer, int64_t step);
/* Calls progress if there is one; QKV_STOPPED when it asks to stop. */
enum qkv_status qkv_train_progress(struct qkv_context *ctx, qkv_progress *progress, void *user, const char *what,
                                   double done, double total);

/* ---- checkpoint (checkpoint.c) ---------------------------------------------------------------------------------------- */

enum qkv_status qkv_checkpoint_write(struct qkv_trainer *trainer);
/* Into a trainer that has model and optimizer: weights, moments, report, pending. */
enum qkv_status qkv_checkpoint_read(struct qkv_trainer *trainer);

#endif
