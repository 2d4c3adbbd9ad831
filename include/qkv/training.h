/* qkv/training.h: optimizers and training runs; a part of qkv.h, which includes it. Stable. */
#ifndef QKV_PUBLIC_TRAINING_H
#define QKV_PUBLIC_TRAINING_H

#include "qkv/pass.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- optimizers -------------------------------------------------------------------------------------------------- */

/* The list grows at its end. */
#define QKV_OPTIMIZER_LIST(X)                                                                                          \
    X(ADAMW, "adamw", "Adam with decoupled weight decay (Loshchilov & Hutter 2019)")                                   \
    X(ADAM, "adam", "Adam with weight decay as L2 (Kingma & Ba 2015)")                                                 \
    X(SGD, "sgd", "gradient descent with momentum")                                                                    \
    X(LION, "lion", "the sign of a moment with decoupled weight decay (Chen et al. 2023)")                             \
    X(MUON, "muon", "orthogonal steps of the matrices of blocks (Jordan et al. 2024), AdamW of other weights")         \
    X(ADAFACTOR, "adafactor", "moments of squares by rows and columns alone (Shazeer & Stern 2018)")
/* The list grows at its end. */
#define QKV_SCHEDULE_LIST(X)                                                                                           \
    X(COSINE, "cosine", "half a cosine from rate to min_rate")                                                         \
    X(LINEAR, "linear", "a line from rate to min_rate")                                                                \
    X(CONSTANT, "constant", "always rate")                                                                             \
    X(INVERSE_SQRT, "inverse_sqrt", "rate times sqrt(warmup/step) (Vaswani et al. 2017)")                              \
    X(WSD, "wsd", "rate, then, in the last decay_share of the steps, a line to min_rate (Hu et al. 2024)")
/* The learning rate after a run gets a new end; r is the rate of the last step done. The rate never jumps. The list
 * grows at its end. */
#define QKV_EXTEND_LIST(X)                                                                                             \
    X(DECAY, "decay", "the schedule falls from r to min_rate at the new end; a warm-up that is not over ends first")   \
    X(FLAT, "flat", "always r")                                                                                        \
    X(REWARM, "rewarm", "a warm-up from r to rate again, then the schedule over the steps that are left")
#define QKV_OPTIMIZER_ENUM(name, text, help) QKV_OPTIMIZER_##name,
#define QKV_SCHEDULE_ENUM(name, text, help)  QKV_SCHEDULE_##name,
enum qkv_optimizer_kind { QKV_OPTIMIZER_LIST(QKV_OPTIMIZER_ENUM) };
enum qkv_schedule_kind { QKV_SCHEDULE_LIST(QKV_SCHEDULE_ENUM) };
#define QKV_EXTEND_ENUM(name, text, help) QKV_EXTEND_##name,
enum qkv_extend { QKV_EXTEND_LIST(QKV_EXTEND_ENUM) };

struct qkv_optimizer_options {
    size_t size; /* sizeof(struct qkv_optimizer_options), set by qkv_optimizer_defaults */
    enum qkv_optimizer_kind kind;
    /* adam, adamw; lion: the betas; muon: of weights that AdamW updates; adafactor: eps, the least root of the second
     * moment */
    double beta1, beta2, eps;
    double momentum;     /* sgd; muon */
    double weight_decay; /* decay of matrices, embeddings included; vectors have none */
    /* Averages of the weights over the steps: a = d·a + (1 − d)·w after step t, d = min(average, (t − 1)/(t + 9)).
     * 0: none. */
    double average;
};
/* AdamW with the defaults of a training run: betas 0.9 and 0.99, eps 1e-8, weight decay 0.1. */
QKV_API void qkv_optimizer_options_init(struct qkv_optimizer_options *options, size_t size);
static inline struct qkv_optimizer_options qkv_optimizer_defaults(void) {
    struct qkv_optimizer_options options;
    qkv_optimizer_options_init(&options, sizeof options);
    return options;
}
struct qkv_optimizer;
/* Makes an optimizer for all trainable weights of a model (qkv_model_trainable), with moments of zero. The model must
 * outlive it. Weights that are frozen now get no moments: if one of them becomes trainable later, a step is
 * QKV_ARGUMENT. Weights that are frozen later keep their moments unchanged. Fails with QKV_ARGUMENT, QKV_MEMORY. */
QKV_API enum qkv_status qkv_optimizer_create(struct qkv_model *model, const struct qkv_optimizer_options *options,
                                             struct qkv_optimizer **out);
/* Frees an optimizer. NULL is allowed. */
QKV_API void qkv_optimizer_free(struct qkv_optimizer *optimizer);
/* Makes one step with learning rate `rate` and the model's gradients times gradient_scale (for clipping). The same pass
 * over memory sets the gradients to zero, so the caller need not clear them between steps. A step that fails leaves the
 * gradients unchanged. Fails with QKV_ARGUMENT, QKV_NUMBER. */
QKV_API enum qkv_status qkv_optimizer_step(struct qkv_optimizer *optimizer, double rate, double gradient_scale);
#ifdef QKV_EXPERIMENTAL
/* Experimental: exchanges the weights and their averages (option average), to evaluate or to save those; a second call
 * exchanges them back, and both belong between two steps. Called by all ranks. An optimizer without averages is
 * QKV_ARGUMENT. Fails with QKV_ARGUMENT, QKV_RANK. */
QKV_API enum qkv_status qkv_optimizer_exchange(struct qkv_optimizer *optimizer);
#endif

/* ---- training on a file ---------------------------------------------------------------------------------------------
 * A run trains on one of these: texts (predict the next token, or masked tokens with task mlm), lines, pairs (source to
 * target), labelled lines, or arrays (an input and a target for each example). The folder of a run is a model folder
 * with the best weights by the validation metric. It also holds train.json (the options), tokens.*.bin (the data as
 * tokens), log.jsonl (one line a step) and checkpoint.safetensors (the latest weights, optimizer and position, which
 * resuming reads). */

/* X(C type, name, default, subject, help). This one list makes the struct, the JSON, the command's options and their
 * help, which lists them by subject. The list grows at its end.
 *
 * Options of type FILES name up to QKV_FILES_MAX files, which are read in order: options.data is the first,
 * options.data_files[0], and options.data_files[1] the second; NULL ends the list. A folder means the regular files in
 * it, sorted by the bytes of their names, without hidden files and without its folders. A name with *, ? or [ is a
 * pattern if no file has it, and means all files that match. A file that ends with .gz or .zst is unpacked. To give
 * more than QKV_FILES_MAX files, put them into a folder.
 *
 * Options of type DATA are FILES to train on: each is a kind of training data, and a run has one of them.
 *
 * Options of type PATTERNS hold up to QKV_FILES_MAX texts, options.freeze[0], …; NULL ends the list. In a pattern *
 * stands for any characters, dots included, and ? for one character (qkv_model_set_trainable_all).
 *
 * The field long_lines is the option "long", and chat_template is "template": these are keywords of C and C++. */
#define QKV_FILES_MAX 64
#define QKV_TRAIN_LIST(X)                                                                                              \
    X(DATA, data, NULL, "data",                                                                                        \
      "text file to train on, or a folder of text files; several are read as one text, one after the other. A name "   \
      "with a weight (books/:0.3), a pattern ('corpus/*') or a name that ends with .jsonl, .ndjson, .gz or .zst "      \
      "makes "                                                                                                         \
      "a mixture: texts of JSON lines, packed files, by weight")                                                       \
    X(DATA, pairs, NULL, "data", "file of pairs to train on: each line has a source, a tab and a target")              \
    X(DATA, lines, NULL, "data",                                                                                       \
      "file of lines to train on: each line is a sequence of its own, between <s> and </s>")                           \
    X(DATA, labeled, NULL, "data",                                                                                     \
      "file of labelled lines to train on: each line has a label, a tab and a text; for a head of tokens, a "          \
      "word, a tab and its label")                                                                                     \
    X(DATA, examples, NULL, "data",                                                                                    \
      "safetensors file of examples to train on: in.pixels, in.features, in.vectors or in.ids, as the model "          \
      "reads them, and in.targets; for an encoder-decoder, the input of the encoder (in.source for ids), in.ids "      \
      "and in.targets")                                                                                                \
    X(FLAG, in_order, false, "data",                                                                                   \
      "examples: read them in the order of the files in every epoch; without this option each epoch shuffles "         \
      "them")                                                                                                          \
    X(FILES, valid, NULL, "data",                                                                                      \
      "file to validate on, of the same kind as the training data (default: the last part of the training data)")      \
    X(REAL, valid_fraction, 0.1, "data",                                                                               \
      "share of the training data that is used to validate, if there is no validation file")                           \
    X(TEXT, task, NULL, "task",                                                                                        \
      "task of a text or of lines: text (predict the next token) or mlm (predict masked tokens) (default: text); "     \
      "of labelled lines or examples: classify or classify_tokens (default: as the head)")                             \
    X(FLAG, documents, false, "task",                                                                                  \
      "text: documents end with the end token of the tokenizer; attention stays inside of a document, and "            \
      "positions begin again with each one")                                                                           \
    X(TEXT, prefix, NULL, "task",                                                                                      \
      "text: a number of tokens, or random, at the beginning of each row attend to each other in both "                \
      "directions, and only the tokens after them have a loss (prefix-LM) (default: none)")                            \
    X(REAL, mask_probability, 0.15, "task", "mlm: share of the tokens that are masked and predicted")                  \
    X(FLAG, mask_each, false, "task",                                                                                  \
      "mlm, lines: each token of a line makes one example, in which that token is masked")                             \
    X(TEXT, tokenizer, NULL, "tokenizer",                                                                              \
      "bytes, chars, chars+bytes, words, whitespace or bpe, also as KIND:SIZE, or a tokenizer.json, .model or "        \
      ".tiktoken (default: the one of the preset, else chars)")                                                        \
    X(TEXT, source_tokenizer, NULL, "tokenizer",                                                                       \
      "tokenizer of the sources of pairs; shared: one tokenizer, trained on both sides (default: as tokenizer)")       \
    X(TEXT, from, NULL, "trained model",                                                                               \
      "model folder to begin with: its weights, spec, tokenizers and labels are used; optimizer and schedule are "     \
      "new")                                                                                                           \
    X(FLAG, new_head, false, "trained model",                                                                          \
      "with from: a new head replaces the old one, for another task or other labels")                                  \
    X(PATTERNS, freeze, NULL, "trained model",                                                                         \
      "weights that are not trained, by a pattern of their names in model.safetensors: \"decoder.layers.0.*\"")        \
    X(PATTERNS, rates, NULL, "trained model",                                                                          \
      "factor of the learning rate for weights, by a pattern of their names: \"*embed*=0.1\"; if several patterns "    \
      "match a weight, the last one counts")                                                                           \
    X(COUNT, steps, 2000, "length", "number of optimizer steps")                                                       \
    X(REAL, epochs, -1, "length",                                                                                      \
      "number of passes over the training data, in place of steps; fractions are allowed (-1: steps counts)")          \
    X(COUNT, batch, 12, "batches", "sequences in a step (0 with batch_tokens: no limit)")                              \
    X(COUNT, batch_tokens, 0, "batches",                                                                               \
      "pairs, labelled lines: limit of rows times the length of the longest row in a step (0: none)")                  \
    X(COUNT, accumulate, 1, "batches",                                                                                 \
      "number of parts of a batch that are computed one after the other, to need less memory; the gradient is "        \
      "the same")                                                                                                      \
    X(TEXT, long_lines, "error", "data",                                                                               \
      "pairs, labelled lines: treatment of lines with more tokens than the context: error, skip, keep-start or "       \
      "keep-end; the run says how many there are")                                                                     \
    X(COUNT, groups, 0, "batches",                                                                                     \
      "groups of rows whose sums are added in a fixed order, so that accumulate, padding and ranks change no "         \
      "bit; 1: one group (0: 8 for a new run, at most the rows of a batch)")                                           \
    X(TEXT, precision, "auto", "precision",                                                                            \
      "fp32, bf16 (products and saved activations in bf16), or auto: the value of $QKV_PRECISION, else the faster "    \
      "one on this CPU")                                                                                               \
    X(TEXT, gradients, "fp32", "precision",                                                                            \
      "format in which ranks exchange sums of gradients: fp32, or bf16 (half the bytes; the sums then depend on "      \
      "the number of ranks)")                                                                                          \
    X(FLAG, checkpoint_activations, false, "precision",                                                                \
      "save only the input of each block for backward, and compute the block again there: the same losses, less "      \
      "memory")                                                                                                        \
    X(COUNT, context, 0, "model", "positions of a sequence (0: as the spec)")                                          \
    X(TEXT, optimizer, "adamw", "optimizer", "optimizer: adamw, adam, sgd, lion, muon or adafactor")                   \
    X(REAL, rate, 1e-3, "optimizer", "learning rate")                                                                  \
    X(REAL, min_rate, -1, "optimizer", "learning rate at the end of the schedule (-1: a tenth of rate)")               \
    X(COUNT, warmup, 100, "optimizer", "steps in which the learning rate rises from 0")                                \
    X(TEXT, schedule, "cosine", "optimizer",                                                                           \
      "learning rate over the steps: cosine, linear, constant, inverse_sqrt or wsd")                                   \
    X(REAL, beta1, 0.9, "optimizer", "decay of the first moment")                                                      \
    X(REAL, beta2, 0.99, "optimizer", "decay of the second moment")                                                    \
    X(REAL, eps, 1e-8, "optimizer",                                                                                    \
      "number that is added to the root of the second moment (adafactor: the least root)")                             \
    X(REAL, momentum, 0.9, "optimizer", "momentum of sgd and of muon (muon: 0.95)")                                    \
    X(REAL, weight_decay, 0.1, "optimizer", "weight decay of matrices")                                                \
    X(REAL, clip, 1.0, "optimizer", "limit of the global gradient norm (0: none)")                                     \
    X(REAL, dropout, -1, "model", "dropout (-1: as the spec)")                                                         \
    X(REAL, label_smoothing, 0.0, "optimizer",                                                                         \
      "share of the target that is spread over all tokens or classes (Szegedy et al. 2016)")                           \
    X(COUNT, seed, 1337, "batches", "seed of the initial weights, the batches and the dropout")                        \
    X(COUNT, eval_every, 250, "evaluation", "steps between two evaluations (0: only at the end)")                      \
    X(COUNT, eval_batches, 20, "evaluation", "batches of an evaluation (0: all validation data)")                      \
    X(TEXT, metric, "loss", "evaluation",                                                                              \
      "metric that decides which checkpoint is best: loss, accuracy (labelled lines, examples), exact or "             \
      "token_error (pairs: of 500 sources)")                                                                           \
    X(COUNT, patience, 0, "length", "evaluations without an improvement after which the run ends (0: never)")          \
    X(COUNT, save_every, 250, "saving", "steps between two checkpoints (0: only at the end)")                          \
    X(COUNT, keep, 1, "saving",                                                                                        \
      "number of latest checkpoints to keep: earlier ones as checkpoint-STEP.safetensors; more than 1 also keeps "     \
      "the best one as checkpoint-best.safetensors; RUN/FILE names one to resume, or as a model")                      \
    X(REAL, decay_share, 0.2, "optimizer", "schedule wsd: share of the steps in which the rate falls to min_rate")     \
    X(TEXT, lora, NULL, "trained model",                                                                               \
      "with from: train an adapter (LoRA) and keep the model as it is: rank=16,alpha=32,rslora=true,dora=true,"        \
      "dropout=0.1,targets=q,v in any order; a target is the last part of a name, here or in the model's family, "     \
      "or all-linear; the defaults are rank=16, alpha=2*rank, dropout=0, targets=all-linear")                          \
    X(TEXT, text_key, NULL, "data",                                                                                    \
      "texts in JSON lines (.jsonl, .ndjson): key of the text of a document; with this option data is a mixture "      \
      "whatever its names are (default: text)")                                                                        \
    X(FLAG, skip_bad, false, "data",                                                                                   \
      "mixtures: leave out JSON lines without a text, and files that cannot be read, and count them; without this "    \
      "option they are errors")                                                                                        \
    X(TEXT, shards, NULL, "data",                                                                                      \
      "mixtures: folder for the texts as tokens, which several runs may share (default: shards in the run's folder)")  \
    X(DATA, chat, NULL, "data",                                                                                        \
      "talks to train on, JSON lines in files that may be packed (.gz, .zst): each has messages, conversations, or a " \
      "prompt with its completion; only what the assistant says, or the completion, has a loss")                       \
    X(TEXT, chat_template, NULL, "data",                                                                               \
      "chat, preferences: file with a chat template, in Jinja, in place of the model's; the run keeps it")             \
    X(DATA, preferences, NULL, "data",                                                                                 \
      "preferences to train on, JSON lines in files that may be packed (.gz, .zst): each has a prompt and two "        \
      "answers to it, chosen and rejected")                                                                            \
    X(TEXT, preference_loss, "dpo", "task",                                                                            \
      "preferences: dpo (Rafailov et al. 2023; label_smoothing: share of answers that are taken for the other) or "    \
      "ipo (Azar et al. 2023)")                                                                                        \
    X(REAL, preference_beta, 0.1, "task",                                                                              \
      "preferences: how much of the margin counts: the smaller, the further the model may go from the one that it "    \
      "begins with")                                                                                                   \
    X(TEXT, teacher, NULL, "task",                                                                                     \
      "text, lines, chat: model folder of a teacher with the same vocabulary, whose distribution of the next token "   \
      "is learnt as well (distillation; Hinton et al. 2015)")                                                          \
    X(REAL, teacher_temperature, 2.0, "task", "teacher: temperature at which both distributions are compared")         \
    X(REAL, teacher_share, 0.5, "task", "teacher: share of the loss that is the divergence from the teacher")          \
    X(REAL, average, 0, "optimizer",                                                                                   \
      "decay of averaged weights, 0.999 for example, which are evaluated and saved as the model; the checkpoint also " \
      "has the latest weights (0: none)")
#define QKV_TRAIN_FIELD_TEXT(name)  const char *name;
#define QKV_TRAIN_FIELD_REAL(name)  double name;
#define QKV_TRAIN_FIELD_COUNT(name) int64_t name;
#define QKV_TRAIN_FIELD_FLAG(name)  bool name;
#define QKV_TRAIN_FIELD_FILES(name)                                                                                    \
    union {                                                                                                            \
        const char *name;                                                                                              \
        const char *name##_files[QKV_FILES_MAX];                                                                       \
    };
#define QKV_TRAIN_FIELD_DATA(name)                        QKV_TRAIN_FIELD_FILES(name)
#define QKV_TRAIN_FIELD_PATTERNS(name)                    const char *name[QKV_FILES_MAX];
#define QKV_TRAIN_FIELD(type, name, value, subject, help) QKV_TRAIN_FIELD_##type(name)
struct qkv_train_options {
    size_t size;            /* sizeof(struct qkv_train_options), set by qkv_train_defaults */
    struct {                /* owned by the library: which values are defaults and which the caller chose */
        const char *preset; /* the preset whose recipe gave the defaults */
        /* bit i%64 of number i/64 belongs to option i. given: qkv_train_set set it. settled: its value is a default
         * that was adjusted, or comes from the record of another run. */
        uint64_t given[2], settled[2];
        bool recorded; /* the options were read from a run, so that none counts as chosen */
    } origin;
    QKV_TRAIN_LIST(QKV_TRAIN_FIELD)
};
/* Sets all options to their defaults, changed by the recipe of a preset (NULL: none). Fails with QKV_ARGUMENT,
 * QKV_MEMORY. */
QKV_API enum qkv_status qkv_train_options_init(struct qkv_context *ctx, const char *preset,
                                               struct qkv_train_options *options, size_t size);
static inline enum qkv_status qkv_train_defaults(struct qkv_context *ctx, const char *preset,
                                                 struct qkv_train_options *options) {
    return qkv_train_options_init(ctx, preset, options, sizeof *options);
}
/* Sets one option from text ("rate", "3e-4"; a flag is "true" or "false"). An option that names files or patterns gets
 * one more. `value` must live as long as the options. An unknown name and a value out of range are QKV_ARGUMENT. Fails
 * with QKV_ARGUMENT. */
QKV_API enum qkv_status qkv_train_set(struct qkv_context *ctx, struct qkv_train_options *options, const char *name,
                                      const char *value);
#ifdef QKV_EXPERIMENTAL
/* Experimental: sets the options of a JSON file. The file is either an object of options by name, {"steps": 500,
 * "rate": 3e-4, "data": ["a.txt", "b.txt"]}, or the record of a run (train.json). The values of an object count as
 * chosen, like those of qkv_train_set. The values of a record were chosen for another run, so they count as defaults: a
 * value that conflicts with a later choice is adjusted. *texts gets the memory that the options' texts point into; free
 * it with qkv_free when the options are no longer used. On failure *texts is NULL and the options are unchanged. A key
 * that is no option, comes twice, or has a value of the wrong type is QKV_FORMAT; a value out of range is QKV_ARGUMENT;
 * the sentence names the file and the key. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_FORMAT. */
QKV_API enum qkv_status qkv_train_read_options(struct qkv_context *ctx, const char *path,
                                               struct qkv_train_options *options, char **texts);
#endif
/* Sets one option back to its default. */
QKV_API void qkv_train_unset(struct qkv_train_options *options, const char *name);
/* Checks options: every number is in its range, every name is known, the options go together, and every chosen option
 * has an effect. Otherwise QKV_ARGUMENT; the sentence names the option. An option is chosen if qkv_train_set set it, or
 * if its value in the struct is not the default. A default that conflicts with a chosen option is no error: it is
 * adjusted when the run begins, and a note of the trainer reports it (for example, warmup becomes a tenth of the steps
 * if it is not less than the steps; min_rate becomes a tenth of a rate that is below it). Reads no file. Fails with
 * QKV_ARGUMENT, QKV_MEMORY. */
QKV_API enum qkv_status qkv_train_check(struct qkv_context *ctx, const struct qkv_train_options *options);
/* Checks options as qkv_train_check does, and that they suit a spec, whose vocabulary and classes may be 0. Otherwise
 * QKV_ARGUMENT or QKV_SPEC. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SPEC. */
QKV_API enum qkv_status qkv_train_check_spec(struct qkv_context *ctx, const struct qkv_train_options *options,
                                             const struct qkv_spec *spec);
/* Whether the i-th option was chosen but has no effect together with the other options; *why (may be NULL) gets the
 * reason. */
QKV_API bool qkv_train_idle(const struct qkv_train_options *options, size_t i, const char **why);
/* Gives the i-th option for help texts: its name, default ("false" for a flag) and help. False past the last. Any
 * thread. */
QKV_API bool qkv_train_option_at(size_t i, const char **name, const char **value, const char **help);
/* The subject of the i-th option ("optimizer"), by which help texts group options. NULL past the last. Any thread. */
QKV_API const char *qkv_train_option_subject(size_t i);
/* The k-th value that the i-th option may have: "adamw", "adam", "sgd" of the optimizer, the kinds of a tokenizer. NULL
 * past the last, and for an option that takes a number, a file or any text. Any thread. */
QKV_API const char *qkv_train_option_choice(size_t i, size_t k);
/* Whether the i-th option names files or patterns and may therefore be given more than once. Any thread. */
QKV_API bool qkv_train_option_lists(size_t i);
#ifdef QKV_EXPERIMENTAL
/* Experimental: whether the i-th option names training data ("data", "pairs"). A run has one such option. Any
 * thread. */
QKV_API bool qkv_train_option_data(size_t i);
/* Experimental: the name of the option that gives the training data ("data", "pairs"), the first one in the order of
 * the options; NULL if none is given. */
QKV_API const char *qkv_train_data(const struct qkv_train_options *options);
/* Experimental: finds the files that the names of the training data and of the option valid mean, without reading them.
 * *mixture gets whether the data is a mixture of texts: text_key is set, or a name has a weight, is a pattern, or ends
 * as those of JSON lines and packed files do. *files (may be NULL) gets one line for each file: its size in bytes, its
 * time of change in nanoseconds since 1970, and its path, with a space between them; the caller frees it with qkv_free.
 * A folder of plain texts with JSON lines or packed files is QKV_ARGUMENT. Fails with QKV_ARGUMENT, QKV_MEMORY,
 * QKV_FILE. */
QKV_API enum qkv_status qkv_train_files(struct qkv_context *ctx, const struct qkv_train_options *options, bool *mixture,
                                        char **files);
#endif

/* Whether an option may change when a run is resumed: true if it changes no number of any step. If not, *why (may be
 * NULL) gets the reason. eval_every may change, although it changes which steps are evaluated and so may become the
 * best, and how many steps patience waits. */
QKV_API bool qkv_train_may_change(const char *name, const char **why);

#ifdef QKV_EXPERIMENTAL
/* Experimental: trains a tokenizer as a run with the option tokenizer=`choice` does ("words", "bpe:4096"; NULL: chars;
 * not a tokenizer.json). `files` are `count` files or folders, 1 to QKV_FILES_MAX, read in order and piece by piece, so
 * that memory does not hold a whole file. If a name is a pattern or ends with .jsonl, .ndjson, .gz or .zst, or text_key
 * is set, they are documents as in a mixture of training, and text_key (NULL: "text") is the key of the texts of JSON
 * lines. `specials` are texts that become one token each wherever they occur; bpe without specials gets <|endoftext|>.
 * *out is the caller's. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_FORMAT, QKV_STOPPED. */
QKV_API enum qkv_status qkv_tokenizer_learn(struct qkv_context *ctx, const char *choice, const char *const *files,
                                            size_t count, const char *text_key, const char *const *specials,
                                            size_t special_count, qkv_progress *progress, void *user,
                                            struct qkv_tokenizer **out);
#endif

struct qkv_trainer;
/* Starts a run in `folder`, which must not hold one: trains the tokenizers, tokenizes the data, makes the model.
 * `options` are copied.
 *
 * - Several texts are joined, with an end token (<|endoftext|>, else </s>) between two of them if the tokenizer has
 *   one. Tokenizers are trained on all of them.
 * - Without a validation file, the last valid_fraction of all tokens (of all lines, for pairs and labelled lines) is
 *   held out for validation; train.json lists the part of each file.
 * - A spec->vocab, source_vocab or head.classes of 0 is set from the tokenizers and labels; any other value must agree
 *   with them.
 * - Special tokens that the task needs are added to a tokenizer. Notes report what was added.
 * - The targets of pairs and the sources end with QKV_TOKEN_END; the decoder's input begins with QKV_TOKEN_BEGIN.
 *   Labelled texts have QKV_TOKEN_BEGIN before and QKV_TOKEN_END after them. A tokenizer.json with a template
 *   (qkv_tokenizer_template) replaces these for texts, sources and labelled texts; targets keep theirs.
 *
 * With options->from the run begins with the weights, spec, tokenizers and labels of a model folder. `spec` may then be
 * NULL. A spec that is given (qkv_folder_spec reads the model's) may differ from the model's only in dropouts; any
 * other difference is QKV_SPEC. If the model's head does not fit the task or the labels, the call fails with QKV_SPEC
 * and names the difference, unless new_head is set: the run then begins with a new head. The task decides the kind of
 * the new head. Without a task, the kind stays if it suits the files; otherwise the head classifies lines, or predicts
 * tokens for texts. A new head that classifies has a bias and mean pooling; a new head over the vocabulary is an untied
 * matrix. The model's folder is not needed afterwards; train.json records its path and the hash of its weights.
 *
 * The context has the precision of the options until the trainer is freed, so use only the trainer's model with this
 * context meanwhile. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_FORMAT, QKV_SPEC, QKV_SHAPE, QKV_STOPPED. */
QKV_API enum qkv_status qkv_trainer_create(struct qkv_context *ctx, const struct qkv_spec *spec,
                                           const struct qkv_train_options *options, const char *folder,
                                           qkv_progress *progress, void *user, struct qkv_trainer **out);
#ifdef QKV_EXPERIMENTAL
/* Experimental: checks that the run in `folder` is the one that qkv_trainer_create would begin with this spec and these
 * options. Otherwise QKV_ARGUMENT; the sentence names the first option that differs, or the spec. The names of data
 * files and the options that may change (qkv_train_may_change) are not compared, except the number of steps: a run
 * whose train.json has as many steps or fewer matches (qkv_trainer_resume with options->steps continues it to the new
 * end), a run with more steps does not, however many are done. With the option epochs, the epochs of train.json are
 * compared in the same way, and a run that was given steps does not match. Fails with QKV_ARGUMENT, QKV_MEMORY,
 * QKV_FILE, QKV_FORMAT, QKV_SPEC. */
QKV_API enum qkv_status qkv_run_match(struct qkv_context *ctx, const char *folder, const struct qkv_spec *spec,
                                      const struct qkv_train_options *options);
#endif
/* Changes to a run that is resumed. train.json records them and a note of the trainer reports them. It also records
 * each new end with the step at which it was set, so that the run can be resumed exactly again. */
struct qkv_resume_options {
    size_t size;   /* sizeof(struct qkv_resume_options), set by qkv_resume_defaults */
    int64_t steps; /* new number of steps, at least the steps done; 0: unchanged */
    double epochs; /* the new end as option epochs instead of steps; 0: unchanged */
    /* the rate from here to the new end: a name of QKV_EXTEND_LIST; NULL: decay, with which the rate rises only if a
     * warm-up is not over, and ends where the schedule was to end */
    const char *extend;
    const char *const *settings; /* "eval_every=100", …: options that qkv_train_may_change allows */
    size_t setting_count;
    /* a file in the run's folder to continue from: "checkpoint-250.safetensors", "checkpoint-best.safetensors"; NULL:
     * the latest checkpoint */
    const char *checkpoint;
};
/* No changes. */
QKV_API void qkv_resume_options_init(struct qkv_resume_options *options, size_t size);
static inline struct qkv_resume_options qkv_resume_defaults(void) {
    struct qkv_resume_options options;
    qkv_resume_options_init(&options, sizeof options);
    return options;
}
/* Continues the run in `folder` from its checkpoint, with the same bits as if training had never stopped. `options` has
 * the changes; NULL: none. A change that is not allowed is QKV_ARGUMENT; a file that is
 * missing or that another program changed is QKV_FILE or QKV_FORMAT. The folder is then unchanged. Fails with
 * QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_FORMAT, QKV_SPEC, QKV_SHAPE, QKV_STOPPED. */
QKV_API enum qkv_status qkv_trainer_resume(struct qkv_context *ctx, const char *folder,
                                           const struct qkv_resume_options *options, qkv_progress *progress, void *user,
                                           struct qkv_trainer **out);
/* Ends a run at its current step; the latest checkpoint remains. NULL is allowed. */
QKV_API void qkv_trainer_free(struct qkv_trainer *trainer);
/* The i-th note of a run, NULL past the last: a sentence that is no failure, for example about the files that the run
 * found, or the value that it chose for an option left open. Owned by the trainer. Notes keep their numbers; create,
 * resume and step may append some, so a caller shows the notes that it has not shown yet. */
QKV_API const char *qkv_trainer_note(const struct qkv_trainer *trainer, size_t i);

/* The state of a run, recorded in its folder (state.json). The list grows at its end. */
#define QKV_RUN_STATE_LIST(X)                                                                                          \
    X(UNKNOWN, "unknown")         /* nothing is recorded: no run, or one of an older version */                        \
    X(RUNNING, "running")         /* a process trains it */                                                            \
    X(DONE, "done")               /* all steps are made, or patience has ended it */                                   \
    X(FAILED, "failed")           /* a step failed; message says why */                                                \
    X(INTERRUPTED, "interrupted") /* it was stopped, or its process was killed, before its end */
enum qkv_run_state {
#define QKV_RUN_STATE_ENUM(name, text) QKV_RUN_##name,
    QKV_RUN_STATE_LIST(QKV_RUN_STATE_ENUM)
#undef QKV_RUN_STATE_ENUM
};
struct qkv_run_condition {
    enum qkv_run_state state;
    bool killed;         /* interrupted: its process ended without recording a state */
    int64_t step, steps; /* step of the last line of the log; number of steps in all */
    int64_t saved;       /* step of the checkpoint, from which resuming continues */
    int64_t pid;         /* process that trained the run last; 0: unknown */
    /* start of training by that process, and its latest sign of life, in seconds since 1970; 0: unknown */
    int64_t started, updated;
    char host[128];     /* name of the machine of that process */
    char message[1024]; /* the sentence of a run that failed; else "" */
};
/* The name of a state, "running", …. Any thread. */
QKV_API const char *qkv_run_state_name(enum qkv_run_state state);
/* Reads the state of the run in a folder. A recorded state "running" counts only if the process is alive. The process
 * holds a lock on log.jsonl, which is visible on the same machine, in other containers, and wherever the file system
 * shares locks. Elsewhere the latest line of the log decides: a run without a new line for ten minutes, or for the time
 * of 20 steps if that is longer, counts as interrupted. A folder with no state, or one that cannot be parsed, gives
 * QKV_RUN_UNKNOWN, or QKV_RUN_RUNNING if its log is locked. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE. */
QKV_API enum qkv_status qkv_run_condition_read(struct qkv_context *ctx, const char *folder,
                                               struct qkv_run_condition *condition);

/* The metrics of evaluations, values of the option `metric`: name, and whether a larger value is better. The list
 * grows at its end. */
#define QKV_METRIC_LIST(X)                                                                                             \
    X(LOSS, "loss", false)                                                                                             \
    X(ACCURACY, "accuracy", true)                                                                                      \
    X(EXACT, "exact", true)                                                                                            \
    X(TOKEN_ERROR, "token_error", false)
enum qkv_metric {
#define QKV_METRIC_ENUM(name, text, more) QKV_METRIC_##name,
    QKV_METRIC_LIST(QKV_METRIC_ENUM)
#undef QKV_METRIC_ENUM
};
/* Finds the metric with a name; false, with *metric unchanged, if there is none. Any thread. */
QKV_API bool qkv_metric_find(const char *name, enum qkv_metric *metric);
/* Whether `value` is better than `best`; any value is better than a `best` of NaN, which means none yet. Any thread. */
QKV_API bool qkv_metric_better(enum qkv_metric metric, double value, double best);

struct qkv_train_report {
    int64_t step, steps; /* steps done, steps in all */
    double loss;         /* mean loss of this step's batch */
    double norm;         /* gradient norm before clipping */
    double rate;
    /* speed of this step, and its share of the machine's peak (struct qkv_profile_report) */
    double tokens_per_second, flops_share;
    bool evaluated, best, saved;  /* this step ended with an evaluation, with a new best, with a checkpoint */
    double valid_loss, best_loss; /* losses of the latest evaluation and of the best one; NaN before the first */
    const char *metric_name;      /* the option `metric`, which decides the best */
    double metric, best_metric;   /* metrics of the latest evaluation and of the best one; NaN before the first */
    bool ended;                   /* patience ended the run; steps is then this step */
    double seconds;               /* time since the trainer was made */
    /* Experts: expert_load is the largest over all layers of the rows that the busiest expert of a layer got in this
     * step, divided by the mean of the layer's experts; 0 without experts. experts_unused is the number of experts, in
     * all layers, that got no row. */
    double expert_load;
    int64_t experts_unused;
    /* The load of each layer, encoder layers before decoder layers; NaN for a layer without experts of its own. The
     * array has expert_load_count entries; NULL without experts. Owned by the trainer, valid until its next step. */
    const double *expert_loads;
    size_t expert_load_count;
};
/* Makes one optimizer step, with the evaluation and the checkpoint if they are due. A loss that is not finite is
 * QKV_NUMBER; the checkpoint before it is not touched. After the last step the call does nothing, and report->step ==
 * report->steps. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_FORMAT, QKV_SPEC, QKV_SHAPE, QKV_NUMBER,
 * QKV_STOPPED. */
QKV_API enum qkv_status qkv_trainer_step(struct qkv_trainer *trainer, struct qkv_train_report *report);
/* Writes the checkpoint now. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_SPEC. */
QKV_API enum qkv_status qkv_trainer_save(struct qkv_trainer *trainer);
#ifdef QKV_EXPERIMENTAL
/* Experimental: generates a sample with the latest weights and appends it to samples.jsonl in the run's folder. The
 * sample is a text of `tokens` tokens; for a run on pairs it is the greedy translation, of at most `tokens` tokens, of
 * a few sources, one "source -> target" a line. *text is zero-terminated and the caller's, freed with qkv_free; NULL on
 * failure. A model that cannot generate is QKV_ARGUMENT. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_FORMAT,
 * QKV_SHAPE, QKV_NUMBER, QKV_STOPPED. */
QKV_API enum qkv_status qkv_trainer_sample(struct qkv_trainer *trainer, size_t tokens, char **text, size_t *size);
#endif
/* The model with the latest weights. Owned by the trainer. With several ranks in mixed precision, a rank has the
 * matrices that only products read as bf16 alone: its model can evaluate and generate in that precision, but cannot be
 * saved or exported, and calls that copy weights fail for these matrices. The run's folder has the model in fp32. */
QKV_API struct qkv_model *qkv_trainer_model(struct qkv_trainer *trainer);
#ifdef QKV_EXPERIMENTAL
/* Experimental: a range test of the learning rate (Smith 2017): in the next `steps` steps the rate grows by a constant
 * factor from `low` to `high`, whatever the schedule says; then it stays there. For a trainer before its first step, on
 * all ranks; the run does not record it. Fails with QKV_ARGUMENT. */
QKV_API enum qkv_status qkv_trainer_test_rates(struct qkv_trainer *trainer, double low, double high, int64_t steps);
#endif
/* The options of the run, with adjusted defaults. Owned by the trainer. */
QKV_API const struct qkv_train_options *qkv_trainer_options(const struct qkv_trainer *trainer);
/* Bytes of weights, optimizer, one step, and the lines of the training data. Weights that an adapter leaves in their
 * file are included. */
QKV_API size_t qkv_trainer_bytes(const struct qkv_trainer *trainer);
/* The number of tokens of the training data; *valid (may be NULL) gets that of the validation data. */
QKV_API size_t qkv_trainer_tokens(const struct qkv_trainer *trainer, size_t *valid);
/* A data file of a run. */
struct qkv_train_file {
    const char *path; /* absolute; owned by the trainer */
    bool valid;       /* true: a validation file; false: a training file, the end of which may be held out */
    uint64_t bytes, hash;
    uint64_t tokens;   /* tokens of a text and the end token after it; for lines, tokens of the targets or texts */
    uint64_t lines;    /* number of examples; 0 for a text */
    uint64_t held_out; /* tokens (lines, of files of lines) held out at its end; 0 of mixtures: their shards hold out */
};
/* Gives the i-th file: training files first, then validation files, in the order in which they are read. False past the
 * last. */
QKV_API bool qkv_trainer_file(const struct qkv_trainer *trainer, size_t i, struct qkv_train_file *file);
#ifdef QKV_EXPERIMENTAL
/* Experimental: the number of steps in an epoch, which is one pass over the training data. For a text, whose windows
 * begin anywhere: tokens / (batch · context), not always a whole number. For pairs, lines and labelled lines: the
 * number of batches that they are cut into by length (batch, batch_tokens), the same in every epoch. For examples: the
 * number of whole batches. The option epochs sets steps when a run is created: epochs times this number, rounded up, at
 * least 1; the trainer's options and train.json then have both. 0 for NULL. */
QKV_API double qkv_trainer_epoch(const struct qkv_trainer *trainer);
#endif
/* The number of pairs, lines, labelled lines or examples to train on; *valid (may be NULL) gets the number to validate
 * on. Both are 0 for a text. */
QKV_API size_t qkv_trainer_lines(const struct qkv_trainer *trainer, size_t *valid);

#ifdef QKV_EXPERIMENTAL
/* Experimental: the time of each part of a step. */
enum qkv_profile_direction { QKV_PROFILE_WHOLE, QKV_PROFILE_FORWARD, QKV_PROFILE_BACKWARD };
struct qkv_profile_row {
    const char *name; /* an operator ("linear") or another part of a step ("optimizer") */
    enum qkv_profile_direction direction;
    uint64_t calls;
    double seconds;
    double flops; /* FLOPs of matrix products and attention; a multiply and an add count as two */
    double bytes; /* bytes that memory-bound work must read and write */
};
struct qkv_profile_report {
    int64_t steps;
    double seconds; /* sum of all rows: the time of the steps without evaluations, log and checkpoints */
    /* FLOP/s of this machine, of bf16 products if the run makes them in bf16, else of fp32 */
    double peak;
    const struct qkv_profile_row *rows; /* rows in the order of a step; owned by the trainer */
    size_t count;
    /* With several ranks: the seconds in which sums of gradients were sent and added, and the part of them during
     * backward. */
    double rank_seconds, rank_hidden;
};
/* Experimental: starts measuring the time of steps. Fails with QKV_MEMORY. */
QKV_API enum qkv_status qkv_trainer_profile_start(struct qkv_trainer *trainer);
/* Experimental: the measurements so far; no rows if measuring was not started. */
QKV_API struct qkv_profile_report qkv_trainer_profile(const struct qkv_trainer *trainer);
#endif

#ifdef __cplusplus
}
#endif

#endif
