/* dataset: what a run learns from: draws, examples of two sides, batches, tokenizers, and the datasets themselves. */
#ifndef QKV_DATA_DATA_H
#define QKV_DATA_DATA_H

#include "text/sequence.h"
#include "data/corpus.h"
#include "rank/evaluate_share.h"
#include "data/rank_files.h"

struct qkv_data;
struct qkv_data_counts;
struct qkv_pass;
struct qkv_masking;
struct qkv_loss_rows;

/* ---- what is drawn at random (rng_streams.c) -------------------------------------------------------------------- */

/* Where row r of step s begins, uniform over the `count` − context windows of a text. */
size_t qkv_draw_window(uint64_t seed, uint64_t step, uint64_t row, size_t windows);
/* The dropout seed of a micro-batch. */
uint64_t qkv_draw_dropout(uint64_t seed, uint64_t step, uint64_t part);

/* How many of its tokens are the prefix of row r of step s, uniform over 0 … tokens − 1. */
size_t qkv_draw_prefix(uint64_t seed, uint64_t step, uint64_t row, size_t tokens);

/* The order of an epoch; the masks of a row (mlm), and those of a window of validation. */
struct qkv_random qkv_draw_epoch(uint64_t seed, uint64_t epoch);
struct qkv_random qkv_draw_masks(uint64_t seed, uint64_t step, uint64_t row);
struct qkv_random qkv_draw_valid_masks(uint64_t seed, uint64_t window);
/* Of a mixture: the order of sources in a block of rows, and that of the windows of a source in an epoch. */
struct qkv_random qkv_draw_mix(uint64_t seed, uint64_t block);
struct qkv_random qkv_draw_order(uint64_t seed, size_t source, uint64_t epoch);

/* ---- examples of two sides (examples.c) ------------------------------------------------------------------------- */

/* Targets with their sources, or labelled texts with their labels: sequences in two token files. */
struct qkv_examples {
    struct qkv_tokens main, beside;
    int32_t end, beside_end; /* the id that ends a sequence; −1: each token is a sequence */
    bool beside_each;        /* beside holds as many, one for each id; 0 where it does not count (else 1 + a class) */
    bool marks;              /* these are marks (talk.h), the last of which end a sequence; end is −1 */
    size_t count;            /* examples */
    size_t *main_at, *beside_at; /* (count + 1): where they begin */
};
/* Finds the sequences of opened token files, both of which must have as many, none longer than `most`; tokens are
 * checked. */
enum qkv_status qkv_examples_index(struct qkv_context *ctx, struct qkv_examples *examples, size_t most);
void qkv_examples_free(struct qkv_examples *examples);
/* Bytes of memory, and those of an example beside its ids. */
size_t qkv_examples_bytes(const struct qkv_examples *examples);
#define QKV_EXAMPLE_BYTES (2 * sizeof(size_t))
/* Copies a sequence; returns its length. */
size_t qkv_examples_main(const struct qkv_examples *examples, size_t i, int32_t *ids);
size_t qkv_examples_beside(const struct qkv_examples *examples, size_t i, int32_t *ids);

/* ---- batches of similar length (batches.c) ---------------------------------------------------------------------- */

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
/* Bytes of memory, and about those of an example while batches are made. */
size_t qkv_batches_bytes(const struct qkv_batches *batches);
#define QKV_BATCHED_BYTES (7 * sizeof(uint32_t))
/* Puts them into the order of the epoch that a step lies in; the answer is the batch of the step. */
size_t qkv_batches_at_step(struct qkv_batches *batches, uint64_t seed, uint64_t step);
/* Tokens of all batches up to and including that of `step`. */
uint64_t qkv_batches_tokens(struct qkv_batches *batches, uint64_t seed, uint64_t step);
/* The shapes of all batches, cut into `parts` each, every one once; free() it. */
enum qkv_status qkv_batches_shapes(struct qkv_context *ctx, const struct qkv_batches *batches, size_t parts,
                                   struct qkv_pass_shape **shapes, size_t *count);

/* ---- tokenizers (tokenizers.c) ---------------------------------------------------------------------------------- */

#define QKV_SHARED_TOKENIZER "shared" /* as source_tokenizer: that of the targets, which learns from both sides */
/* What a choice of the options asks for ("chars", "bpe:4096", a file): trained on a text, or read. `what` is the
 * option that said so. `specials` are asked of it: a file that lacks one is refused. */
struct qkv_learner;
struct qkv_tokenizer_choice {
    const char *what, *choice;
    struct qkv_text_files *files; /* the text: its files, one after the other, which may keep their bytes */
    bool once;                    /* nobody reads the files again: no bytes are kept */
    /* In place of files: has the learner read all of the text, which has no files or is a part of them. */
    enum qkv_status (*learn)(void *user, struct qkv_learner *learner);
    void *learn_user;
    const char *const *specials;
    size_t special_count;
    qkv_progress *progress; /* is told how far the training is, and may stop it; NULL: nobody */
    void *user;
};
/* Whether the size behind a kind ("bpe:4096") is one; what is no kind is a file, which is not read here. */
enum qkv_status qkv_tokenizer_check_choice(struct qkv_context *ctx, const char *what, const char *choice);
/* Whether a text is needed for it (and not a file or bare bytes). */
bool qkv_tokenizer_learns(const char *choice);
/* The least size of the vocabulary that it can have. */
int qkv_tokenizer_least(const char *choice);
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

/* ---- documents in rows, prefixes of rows (rows_of_text.c) ------------------------------------------------------- */
/* The token that a document ends with: the last one of a template that ends texts, else qkv_text_end; −1 where there
 * is none. */
int32_t qkv_document_end(const struct qkv_tokenizer *tokenizer);
/* That there is one. */
enum qkv_status qkv_documents_check(struct qkv_context *ctx, const struct qkv_tokenizer *tokenizer);
/* The numbers of documents of a row, whose targets that are the first token of another one no longer count. */
void qkv_row_documents(int32_t end, size_t T, const int32_t *ids, int32_t *targets, int32_t *documents);
/* Option prefix: "random" (−1), or a number of tokens from 1 on; false where it is neither. */
bool qkv_prefix_parse(const char *text, int64_t *tokens);
/* That it leaves something of a row, and that the spec does not ask for one without effect. */
enum qkv_status qkv_prefix_check(struct qkv_context *ctx, const struct qkv_train_options *options,
                                 const struct qkv_spec *spec);
/* Tokens of the prefix of a row of T, less than T; with the option. The same for every window of validation: T / 2
 * where it is random. */
int32_t qkv_row_prefix(const struct qkv_train_options *options, uint64_t step, uint64_t row, size_t T);
int32_t qkv_valid_prefix(const struct qkv_train_options *options, size_t T);
/* Targets inside a prefix do not count; the first behind it, which its last token predicts, does. */
void qkv_row_ignore_prefix(int32_t prefix, size_t T, int32_t *targets);

/* Masked-language modelling (masking.c; Devlin et al. 2018): whether a model can learn it, and what of a text or of
 * lines is masked. */
enum qkv_status qkv_masking_check(struct qkv_context *ctx, const struct qkv_spec *spec);
struct qkv_masking {
    double probability;
    int32_t mask, vocab;
};
struct qkv_masking qkv_masking_of(const struct qkv_train_options *options, const struct qkv_tokenizer *tokenizer);
/* Turns ids (T) into input and targets: of the chosen positions 80 % become the mask, 10 % a random token. Returns
 * how many were chosen. */
size_t qkv_mask_row(const struct qkv_masking *masking, struct qkv_random *random, size_t T, int32_t *ids,
                    int32_t *targets);

/* ---- lines as ids (line_ids.c) ----------------------------------------------------------------------------------- */

/* All that lines are encoded with: the same ids on any rank. */
struct qkv_lines;
struct qkv_line_coder {
    struct qkv_context *ctx;
    const struct qkv_lines *lines;
    const struct qkv_tokenizer *tokenizer, *source_tokenizer; /* the latter of pairs; else NULL, or the former */
    char *const *labels;                                      /* sorted, of labelled lines */
    size_t label_count;
    size_t T;                                  /* the context */
    enum qkv_long kind;                        /* option long */
    bool repeat;                               /* a line is an example for each of its tokens (option mask_each) */
    const struct qkv_chat_template *templates; /* of talks; NULL: there are none */
    int64_t now;                               /* that they may write */
};
struct qkv_tsv;
struct qkv_tsv_row;
struct qkv_line {
    int32_t *main, *beside; /* freed with qkv_free */
    size_t main_count, beside_count;
    size_t examples;       /* so many times `main` is an example; 0 is 1 */
    bool is_long, skipped; /* it had more tokens than the context; and is left out (option long) */
};
/* Both sequences of a row. */
typedef enum qkv_status qkv_encode_line(const struct qkv_line_coder *coder, const struct qkv_tsv *file,
                                        const struct qkv_tsv_row *row, struct qkv_line *line);
enum { QKV_LINES_NAME = 16 }; /* bytes of a name, with its zero */
struct qkv_lines {
    const char *name;           /* by which ranks tell one another */
    const char *first, *second; /* what the fields are, for messages; second NULL: lines have one */
    bool repeats;               /* option mask_each repeats a line */
    bool sentences; /* rows are sentences, a word and its label a line: beside_each in struct qkv_examples */
    bool marks;     /* beside has marks: as there */
    bool two;       /* a row has two sequences, each no longer than the context, one behind the other */
    qkv_encode_line *encode;
};
extern const struct qkv_lines qkv_lines_words_kind; /* (dataset_words.c) */
/* The ones of a name, among those of all datasets (dataset.c); NULL: there are none. */
const struct qkv_lines *qkv_lines_of(const char *name);
/* Cuts one side of a line, or skips the line, where it has more tokens than the context. QKV_FATE_REFUSED: neither
 * was asked for. */
enum qkv_long_fate qkv_line_fit(const struct qkv_line_coder *coder, struct qkv_line *line,
                                struct qkv_sequence_frame frame, int32_t *ids, size_t *count);
/* What a piece of a file of lines has become. */
struct qkv_line_card { /* of a line that was not skipped */
    uint32_t main, beside, examples;
};
struct qkv_line_ids {
    uint64_t read, lines;              /* lines that were read, and examples of those that were not skipped */
    uint64_t long_lines;               /* that had more tokens than the context */
    uint64_t unknown;                  /* tokens of `main` */
    uint64_t count;                    /* of cards */
    uint64_t main_count, beside_count; /* ids of all cards, those of `main` once for all examples of a line */
};
/* The ids of all lines of a piece of the file at `path`, as struct qkv_line_ids, its cards, main ids, beside ids,
 * one after the other; a failure names the file and the line. */
struct qkv_text_piece;
enum qkv_status qkv_line_ids_encode(const struct qkv_line_coder *coder, const char *path,
                                    const struct qkv_text_piece *piece, struct qkv_buffer *ids);
/* Where they lie; false: it is something else. */
bool qkv_line_ids_open(const struct qkv_buffer *buffer, struct qkv_line_ids *ids, const struct qkv_line_card **cards,
                       const int32_t **main, const int32_t **beside);
/* Labels (line_labels.c), in the order of their bytes: the place of one among them, their count where it is unknown;
 * and the sentence for that. */
int qkv_labels_compare(const char *a, size_t a_size, const char *b, size_t b_size);
size_t qkv_labels_find(const struct qkv_line_coder *coder, const char *label, size_t size);
enum qkv_status qkv_labels_unknown(const struct qkv_line_coder *coder, const struct qkv_tsv *file, size_t line,
                                   const char *label, size_t size);
/* Of labelled words: what is beside the n tokens of a sentence as the targets of a row of T (dataset_words.c). */
void qkv_words_targets(int32_t *targets, size_t n, size_t T);
/* ---- datasets: what a run learns from (dataset.c, dataset_*.c) -------------------------------------------------- */

struct qkv_dataset_step { /* the batch of a step */
    size_t rows;          /* that are cut into parts */
    size_t targets;       /* that count, in all rows */
    size_t tokens;        /* of all rows, without padding */
};
enum qkv_data_reads {
    QKV_READS_TEXT,  /* a text: windows of it, all as long as the context */
    QKV_READS_LINES, /* lines: each a sequence in two token files, cut into batches by their length */
    QKV_READS_ARRAYS /* arrays of safetensors files: as many examples in each batch */
};
/* The values that the option task may have. */
enum qkv_data_tasks {
    QKV_TASKS_NONE,
    QKV_TASKS_TEXT,   /* text, mlm: tokens are predicted */
    QKV_TASKS_CLASSES /* classify, classify_tokens: as the head of the model */
};
/* A kind of training data: a row of the list that the options of type DATA in QKV_TRAIN_LIST are. Each of them has a
 * qkv_dataset_OPTION in a file of its own. */
enum { QKV_DATASET_LINES = 2 };
#define QKV_DATASET_OPTION(name) .option = #name, .files = offsetof(struct qkv_train_options, name##_files)
struct qkv_dataset {
    const char *option; /* its name, and where its files are in the options */
    size_t files;
    /* Of texts: the kind that reads them if the names of the option are a mixture (sources.h); NULL: there is none. */
    const struct qkv_dataset *mixture;
    bool weighs;              /* its names may have weights; rank 0 alone reads its files, which may be many */
    const char *noun, *nouns; /* what it is in messages: "a text", "texts" */
    enum qkv_data_reads reads;
    enum qkv_data_tasks tasks;
    int tokenizers;                                   /* that it needs: 2 of sources and targets, 0 of arrays */
    bool labels;                                      /* it has names of classes */
    bool talks;                                       /* it has talks, which a template writes (option template) */
    bool prefers;                                     /* it has preferences, which are learnt without dropout */
    size_t sequences;                                 /* of a row of a batch; 0: one */
    const struct qkv_lines *lines[QKV_DATASET_LINES]; /* of lines: how they are encoded; NULL behind the last */
    unsigned metrics;                                 /* bit i: it has metric i; every kind has the loss */
    /* Whether validation reads the scores of a model of this spec; NULL: of none. */
    bool (*scores)(const struct qkv_spec *spec);
    /* Whether a model can learn this, before anything is done. */
    enum qkv_status (*check)(struct qkv_context *ctx, const struct qkv_train_options *options,
                             const struct qkv_spec *spec);
    /* For a new run: the tokenizers, what the spec takes from the data, and their files. */
    enum qkv_status (*prepare)(struct qkv_data *data, struct qkv_spec *spec);
    /* For a resumed one: the same from the files. */
    enum qkv_status (*restore)(struct qkv_data *data);
    /* Opens the token files, making those that are missing; cuts them into the parts to learn from and to validate
     * on; says which shapes will come. */
    enum qkv_status (*open)(struct qkv_data *data);
    /* Once rows have memory. The model has the weights that the run begins with if it is `fresh`, or, with an adapter,
     * in any case: the adapter of a checkpoint is read later. NULL: nothing. */
    enum qkv_status (*ready)(struct qkv_data *data, bool fresh);
    /* Looks at the batch of a step, then gives its rows begin … end. */
    enum qkv_status (*begin)(struct qkv_data *data, uint64_t step, struct qkv_dataset_step *out);
    enum qkv_status (*fill)(struct qkv_data *data, uint64_t step, size_t begin, size_t end, struct qkv_batch *batch);
    /* Of lines: the examples of some rows as a batch, whose shape is set. */
    void (*rows)(struct qkv_data *data, const struct qkv_examples *examples, const uint32_t *rows,
                 struct qkv_batch *batch);
    /* Steps of an epoch, as qkv_trainer_epoch says. */
    double (*epoch)(const struct qkv_data *data);
    /* Tokens of all steps up to and including this one. */
    uint64_t (*total)(struct qkv_data *data, uint64_t step);
    /* The numbers of examples and tokens. */
    void (*count)(const struct qkv_data *data, struct qkv_data_counts *counts);
    /* The loss over what is kept for validation by a pass that is not for training, and the metric where that is
     * another one. */
    enum qkv_status (*validate)(struct qkv_data *data, struct qkv_pass *pass, double *loss, double *metric);
    /* Frees what the kind alone has (data->own); NULL: nothing. */
    void (*close)(struct qkv_data *data);
};
#define QKV_DATASET_ROW_DATA(name) extern const struct qkv_dataset qkv_dataset_##name;
#define QKV_DATASET_ROW_FILES(name)
#define QKV_DATASET_ROW_PATTERNS(name)
#define QKV_DATASET_ROW_TEXT(name)
#define QKV_DATASET_ROW_REAL(name)
#define QKV_DATASET_ROW_COUNT(name)
#define QKV_DATASET_ROW_FLAG(name)
#define QKV_DATASET_ROW(type, name, value, subject, help) QKV_DATASET_ROW_##type(name)
QKV_TRAIN_LIST(QKV_DATASET_ROW)
#define QKV_TEXT_KEY      "text"
#define QKV_SHARDS_FOLDER "shards"                   /* in the folder of a run */
extern const struct qkv_dataset qkv_dataset_mixture; /* (dataset_mixture.c) */
/* The i-th kind, NULL past the last; and the one whose option has this name, or NULL. */
const struct qkv_dataset *qkv_dataset_at(size_t i);
const struct qkv_dataset *qkv_dataset_named(const char *option);
/* Whether the options name files of this kind. */
bool qkv_dataset_given(const struct qkv_dataset *dataset, const struct qkv_train_options *options);
/* The first kind whose files the options name: the only one of options that are checked; NULL: there is none. */
const struct qkv_dataset *qkv_dataset_of(const struct qkv_train_options *options);
/* QKV_ARGUMENT: there is none. The sentence names all options. */
enum qkv_status qkv_dataset_missing(struct qkv_context *ctx);
/* The names of the files of a kind, QKV_FILES_MAX of them; and of those to learn from, in options that are checked. */
static inline const char **qkv_dataset_names(const struct qkv_dataset *dataset,
                                             const struct qkv_train_options *options) {
    return (const char **)(void *)((char *)(uintptr_t)options + dataset->files);
}
const char **qkv_dataset_files(const struct qkv_train_options *options);
/* Adds the files that names stand for, as qkv_sources_list does. QKV_ARGUMENT if a name has a weight and the kind has
 * none, and if a run cannot record so many files. */
enum qkv_status qkv_dataset_list(struct qkv_context *ctx, const struct qkv_dataset *dataset, const char *const *names,
                                 struct qkv_text_files *files, struct qkv_texts *notes);
/* Whether runs on this kind have a metric. */
bool qkv_dataset_measures(const struct qkv_dataset *dataset, enum qkv_metric metric);
/* Whether validation of such a run reads the scores of the model. */
bool qkv_dataset_scores(const struct qkv_train_options *options, const struct qkv_spec *spec);
/* The rows that every batch of a run has; 0: of lines, whose batches have any number. */
size_t qkv_dataset_batch(const struct qkv_train_options *options);
/* Whether task mlm is chosen. */
bool qkv_task_masks(const struct qkv_train_options *options);
/* Whether model and options suit the kind. */
enum qkv_status qkv_dataset_check(struct qkv_context *ctx, const struct qkv_train_options *options,
                                  const struct qkv_spec *spec);
/* Shared by the datasets of windows and of lines (text_windows.c): whether a model can learn the task text or mlm; and
 * the tokenizer of a run that is resumed. */
enum qkv_status qkv_text_check(struct qkv_context *ctx, const struct qkv_train_options *options,
                               const struct qkv_spec *spec);
enum qkv_status qkv_text_restore(struct qkv_data *data);
/* Shared by the datasets of windows: where a row of a step begins, in which tokens; rows begin … end of a step. */
typedef size_t qkv_text_place(const struct qkv_data *data, uint64_t step, size_t row, const struct qkv_tokens **tokens);
enum qkv_status qkv_text_fill(struct qkv_data *data, uint64_t step, size_t begin, size_t end, qkv_text_place *place,
                              struct qkv_batch *batch);
enum qkv_status qkv_text_begin(struct qkv_data *data, uint64_t step, struct qkv_dataset_step *out);
enum qkv_status qkv_text_validate(struct qkv_data *data, struct qkv_pass *pass, double *loss, double *metric);
double qkv_text_epoch(const struct qkv_data *data);
uint64_t qkv_text_total(struct qkv_data *data, uint64_t step);
void qkv_text_count(const struct qkv_data *data, struct qkv_data_counts *counts);
/* QKV_ARGUMENT: a part, "training", of some files has `count` tokens, which are too few for a window. */
enum qkv_status qkv_text_short(const struct qkv_data *data, const char *what, const struct qkv_text_files *files,
                               size_t count, const char *other_way);
/* The same of the part for validation, if there is to be one. */
enum qkv_status qkv_text_valid_short(const struct qkv_data *data);
/* For a new run: the tokenizer of the choice or of the origin, and its file; sets vocab of the spec. */
enum qkv_status qkv_text_tokenizer(struct qkv_data *data, const struct qkv_tokenizer_choice *choice,
                                   struct qkv_spec *spec);

/* ---- the data of a run (data.c) --------------------------------------------------------------------------------- */

/* What is known of the files of a run. */
struct qkv_data_facts {
    struct qkv_text_facts data, valid, beside_data, beside_valid;
    struct qkv_text_files data_files, valid_files; /* none of a run that was begun when files were not recorded */
    uint64_t now; /* of talks: the seconds since 1970 that their templates may write; 0: not recorded */
};
void qkv_data_facts_free(struct qkv_data_facts *facts);
/* What the dataset of windows reads (dataset_text.c). */
struct qkv_window_data {
    struct qkv_tokens data_tokens, valid_tokens; /* of whole files, which these own */
    struct qkv_tokens train, valid;              /* the parts to learn from and to validate on; valid.count 0: none */
};
/* What the datasets of lines read (lines.c). */
struct qkv_line_data {
    struct qkv_examples examples, valid_examples;      /* the latter empty where the former holds both parts */
    struct qkv_batches batches, valid_batches;         /* valid_batches.count 0: none */
    struct qkv_pass_shape *shapes, *validation_shapes; /* of all batches that will come */
    size_t shape_count, validation_shape_count;
};
/* The rows of one batch. */
struct qkv_row_buffers {
    int32_t *ids, *targets, *source, *lengths, *source_lengths;
    int32_t *types;                     /* of examples: of ids */
    int32_t *documents, *prefix;        /* of texts, (positions) and (rows); NULL without the options */
    size_t positions, source_positions; /* what ids and targets, and source, hold */
};
struct qkv_data_counts {
    size_t examples, valid_examples; /* 0 of a text */
    size_t tokens, valid_tokens;
};
/* The training data of a run, and all that its dataset needs of the run. */
struct qkv_data {
    struct qkv_context *ctx;
    const struct qkv_dataset *dataset; /* that the options choose */
    const char *folder;                /* of the run */
    const struct qkv_train_options *options;
    enum qkv_metric metric; /* of the options */
    struct qkv_data_facts *facts;
    struct qkv_texts *notes; /* of the trainer */
    qkv_progress *progress;
    void *user;
    const struct qkv_model *origin;                     /* that the run begins with; NULL: none */
    uint64_t from_hash;                                 /* of its weights; 0: none */
    struct qkv_model *model;                            /* that is trained, once it is made */
    struct qkv_tokenizer *tokenizer, *source_tokenizer; /* until the model has them */
    char **labels;                                      /* sorted, of labelled lines */
    size_t label_count;
    struct qkv_chat_template *templates; /* of talks; NULL: there are none */
    int64_t now;                         /* that they may write: seconds since 1970 */
    /* What a loss has of each row of the latest rows; owned by the kind. NULL: nothing. */
    const struct qkv_loss_rows *loss_rows;
    size_t B, T, source_T; /* windows: the largest micro-batch; lines: the longest of each; source_T: of examples */
    char *data_path, *valid_path, *beside_data_path, *beside_valid_path; /* the token files */
    struct qkv_window_data windows;
    struct qkv_line_data lines;
    void *own; /* what the kind alone has; its close frees it */
    struct qkv_row_buffers rows;
};
/* Sets the paths of the token files in a folder, which stays the caller's. QKV_MEMORY */
enum qkv_status qkv_data_begin(struct qkv_data *data, const char *folder);
void qkv_data_free(struct qkv_data *data);
/* Buffers for the rows of the largest batch, once the data is open. */
enum qkv_status qkv_data_take_rows(struct qkv_data *data);
/* Bytes of memory that rows and lines take. */
size_t qkv_data_bytes(const struct qkv_data *data);
/* The largest of each dimension of some shapes, and of their products. */
struct qkv_data_extent {
    size_t B, T, source_T, positions, source_positions;
};
void qkv_data_widen(struct qkv_data_extent *extent, const struct qkv_pass_shape *shapes, size_t count);
/* Option long. */
static inline enum qkv_long qkv_train_long(const struct qkv_train_options *options) {
    enum qkv_long kind = QKV_LONG_ERROR;
    qkv_long_find(NULL, options->long_lines, &kind);
    return kind;
}
/* Calls progress if there is one, and tells other ranks that this one works; QKV_STOPPED when it asks to stop. */
enum qkv_status qkv_train_progress(struct qkv_context *ctx, qkv_progress *progress, void *user, const char *what,
                                   double done, double total);
/* Whether there is anything to validate on. */
static inline bool qkv_train_validates(const struct qkv_train_options *options) {
    return options->valid || options->valid_fraction > 0;
}

/* ---- windows of a text (validate_windows.c) ---------------------------------------------------------------------- */

/* Whether the model predicts the next token of a text: one causal stack with an lm head. */
enum qkv_status qkv_text_model_check(struct qkv_context *ctx, const struct qkv_spec *spec);
/* Mean loss over `windows` windows of T tokens spread evenly over the text, always the same ones; 0, or more than lie
 * side by side: the whole text side by side. ids and targets hold B·T each, the largest batch of the pass. */
struct qkv_validation {
    struct qkv_pass *pass;
    const struct qkv_tokens *tokens;
    size_t B, T, windows;
    int32_t *ids, *targets;
    const struct qkv_masking *masking; /* NULL: the next token is what is predicted */
    int32_t *documents, end;           /* (B,T), and the token that ends a document; or NULL */
    int32_t *prefix;                   /* (B), or NULL: */
    const struct qkv_train_options *options;
    uint64_t seed; /* of the masks */
};
enum qkv_status qkv_validate(struct qkv_context *ctx, const struct qkv_validation *validation, qkv_progress *progress,
                             void *user, double *loss);
/* What is summed over windows that lie side by side: rows of T positions. */
struct qkv_window_sum {
    struct qkv_pass *pass;
    size_t B, T;                     /* rows of a batch, at most */
    const int32_t *documents;        /* (B,T), beside the ids; NULL: none */
    const int32_t *prefix;           /* (B), or NULL */
    struct qkv_evaluate_share share; /* a part for each call of the pass */
};
/* Adds up to B windows of `count` positions together: rows of T, then what is left as one short row. */
enum qkv_status qkv_windows_add(struct qkv_window_sum *sum, size_t count, const int32_t *ids, const int32_t *targets);

/* ---- a model that a run begins with (origin_tokenizer.c) --------------------------------------------------------- */

/* Its tokenizer, of targets or sources: that of data->origin, with the special tokens that it lacks added
 * (origin_tokenizer.c). */
enum qkv_status qkv_origin_tokenizer(struct qkv_data *data, bool source, const char *const *specials, size_t count,
                                     struct qkv_tokenizer **out);
/* As qkv_vocab_agree, but that the vocabulary of a model may have rows that no token uses, and grows with added
 * tokens. */
enum qkv_status qkv_origin_vocab(struct qkv_data *data, const char *key, int *vocab, int found);
/* Whether a classifier that keeps its head knows the labels of the data and no others. */
enum qkv_status qkv_origin_labels(struct qkv_data *data);
/* The place of a label among those of a model; their count where it is unknown. */
size_t qkv_origin_find_label(const struct qkv_model *model, const char *label);

/* Whether the lines of a token file are told apart when this tokenizer's template is around them: it must end with
 * </s>, or, where that is added behind it (must_end false), may be without one. */
enum qkv_status qkv_lines_template(struct qkv_data *data, const struct qkv_tokenizer *tokenizer, bool must_end);
/* Shared by the datasets of lines (lines.c): both token files of one file of lines. Opens what is there and makes what
 * is missing; the parts to learn from and to validate on, the batches. end, beside_end: as in struct qkv_examples. */
enum qkv_status qkv_lines_open(struct qkv_data *data, const struct qkv_lines *lines, int32_t end, int32_t beside_end);
/* The tokenizer of a side, as `choice` says (what, choice, specials): trained on its text, read from a file, or that
 * of the model that the run begins with. */
enum qkv_status qkv_lines_tokenizer(struct qkv_data *data, const struct qkv_lines *lines, int side,
                                    struct qkv_tokenizer_choice choice, struct qkv_tokenizer **tokenizer);
void qkv_lines_count(const struct qkv_data *data, struct qkv_data_counts *counts);
double qkv_lines_epoch(const struct qkv_data *data);
/* Bytes of memory that lines take: their ids, and how they are cut into batches. */
size_t qkv_lines_bytes(const struct qkv_data *data);
uint64_t qkv_lines_total(struct qkv_data *data, uint64_t step);
enum qkv_status qkv_lines_begin(struct qkv_data *data, uint64_t step, struct qkv_dataset_step *out);
enum qkv_status qkv_lines_fill(struct qkv_data *data, uint64_t step, size_t begin, size_t end, struct qkv_batch *batch);
/* Runs the validation batches, or option eval_batches of them, through the pass; `look` sees
 * every batch that was run, or is NULL. */
typedef void qkv_validation_view(struct qkv_pass *pass, const struct qkv_batch *batch, void *user);
enum qkv_status qkv_lines_validate(struct qkv_data *data, struct qkv_pass *pass, qkv_validation_view *look, void *user,
                                   double *loss);

/* Greedy search over the first 500 validation sources (validate_search.c). */
enum qkv_status qkv_validate_search(struct qkv_data *data, double *exact, double *token_error);

/* ---- pairs (dataset_pairs.c) ------------------------------------------------------------------------------------ */

/* What the decoder reads before a target; -1: neither folder nor tokenizer says so (dataset_pairs.c). */
int32_t qkv_pairs_begin(const struct qkv_model *model);

#endif
