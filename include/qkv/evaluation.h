/* qkv/evaluation.h: the evaluation of texts, and the memory of the uses of a model; a part of qkv.h, which includes it.
 * Stable. */
#ifndef QKV_PUBLIC_EVALUATION_H
#define QKV_PUBLIC_EVALUATION_H

#include "qkv/chat.h"
#include "qkv/training.h"

#ifdef __cplusplus
extern "C" {
#endif

struct qkv_evaluation {
    double loss, perplexity, bits_per_byte; /* loss in nats a token */
    size_t tokens, bytes;                   /* predicted tokens, and the bytes of text that they stand for */
    /* predicted tokens whose text the vocabulary does not contain (qkv_tokenizer_unknown) */
    size_t unknown;
    double seconds;
};
struct qkv_evaluate_options {
    size_t size;           /* sizeof(struct qkv_evaluate_options), set by qkv_evaluate_defaults */
    size_t batch, context; /* 0: 8 windows, the spec's context */
    /* Evaluates as training with the option documents does: documents in a window, each ended by the tokenizer's end
     * token, do not attend to each other. The first token of a document has nothing to be predicted from and does not
     * count. Not for a model with a prefix. */
    bool documents;
    const char *text_key; /* the key of the texts of JSON lines; NULL: "text" */
};
/* Whether the run in `folder` (or of the checkpoint with that path) was trained with documents, which evaluation should
 * then use too. False if there is no record: a model that qkv did not train, or a run from before the option existed.
 * Fails with QKV_MEMORY, QKV_FILE, QKV_FORMAT. */
QKV_API enum qkv_status qkv_model_documents(struct qkv_context *ctx, const char *folder, bool *documents);
/* 8 windows of the spec's context; documents attend to each other. */
QKV_API void qkv_evaluate_options_init(struct qkv_evaluate_options *options, size_t size);
static inline struct qkv_evaluate_options qkv_evaluate_defaults(void) {
    struct qkv_evaluate_options options;
    qkv_evaluate_options_init(&options, sizeof options);
    return options;
}
/* Evaluates a model on a text: the mean loss over windows of `context` tokens, one after the other. Every token except
 * the first is predicted once. For a model whose spec has a prefix, the first half of each window is its prefix and
 * only the second half is predicted. Each of the `count` paths is a file, or a folder of files;
 * all are joined in order, as in training, with an end token between two of them. If a path is a pattern, or ends with
 * .jsonl, .ndjson, .gz or .zst, or text_key is set, each file or JSON line is a document as in a mixture of training:
 * it is followed by the end token, if the tokenizer has one.
 *
 * In a context of several ranks (qkv/ranks.h) all ranks must call an evaluation (of texts, pairs, labelled lines or
 * examples); they divide its batches, and each gets the numbers of a single rank, bit for bit. Fails with QKV_ARGUMENT,
 * QKV_MEMORY, QKV_FILE, QKV_FORMAT, QKV_SPEC, QKV_SHAPE, QKV_NUMBER, QKV_STOPPED. */
QKV_API enum qkv_status qkv_evaluate_text(struct qkv_model *model, const char *const *paths, size_t count,
                                          const struct qkv_evaluate_options *options, qkv_progress *progress,
                                          void *user, struct qkv_evaluation *evaluation);

#ifdef QKV_EXPERIMENTAL
/* Experimental: two models on the same text. */
struct qkv_divergence {
    /* the losses of both, over the same tokens; `seconds` are those of both together */
    struct qkv_evaluation model, other;
    /* Mean of KL(other ‖ model) = Σ p_other·(log p_other − log p_model) over the predicted tokens, in nats a token
     * (Kullback & Leibler 1951), and the standard error of this mean over independent tokens. */
    double divergence, divergence_error;
    double same; /* the share of the predicted tokens where both have the same likeliest token */
};
/* Experimental: evaluates a model as qkv_evaluate_text does, and against another model of the same context: how far its
 * distribution of the next token is from the other's, for example that of a quantised model from the original. The
 * windows have the smaller context of the two and are computed one by one, so the scores of both exist for one window
 * at a time; options->batch is not used. Both need the same vocabulary; the text is read with the tokenizer of `model`.
 * Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_FORMAT, QKV_SPEC, QKV_SHAPE, QKV_NUMBER, QKV_STOPPED. */
QKV_API enum qkv_status qkv_evaluate_against(struct qkv_model *model, struct qkv_model *other, const char *const *paths,
                                             size_t count, const struct qkv_evaluate_options *options,
                                             qkv_progress *progress, void *user, struct qkv_divergence *divergence);
/* Experimental: evaluates a model as qkv_evaluate_text does, on what the run in `folder` validates on. The model needs
 * the tokenizer of the run.
 *
 * - The files of the run's option valid are read again, with its text_key and skip_bad. They must be as they were when
 *   the run began; else QKV_FORMAT.
 * - Without valid, the tokens of the part that the run holds out are evaluated; token files that are missing are made
 *   again from the texts. `bytes` is then the length of the decoded text: exactly the bytes of the text for tokenizers
 *   whose tokens spell it, as those of kind bytes, chars and bpe do. Special tokens have no bytes. With unknown
 *   tokens, whose text is not known, `bytes` and `bits_per_byte` are 0.
 *
 * options->text_key is not used. A run on another kind of data or without validation, and a model with another
 * tokenizer, are QKV_ARGUMENT. Each rank evaluates by itself. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE,
 * QKV_FORMAT, QKV_SPEC, QKV_SHAPE, QKV_NUMBER, QKV_STOPPED. */
QKV_API enum qkv_status qkv_evaluate_run(struct qkv_model *model, const char *folder,
                                         const struct qkv_evaluate_options *options, qkv_progress *progress, void *user,
                                         struct qkv_evaluation *evaluation);
/* Experimental: what files of talks say of a model. */
struct qkv_talks_evaluation {
    double loss, perplexity;  /* loss in nats a token */
    size_t tokens;            /* tokens with a loss: of the assistant's turns and of completions */
    size_t lines, long_lines; /* lines of the files, and those of them with more tokens than the context */
    double seconds;
};
/* Experimental: evaluates a model on talks, as in training (option chat): the mean loss of what the assistant says, and
 * of completions. Each of the `count` paths is a file, plain or packed (.gz, .zst), a folder or a pattern. `templates`
 * write the talks; NULL: the files have only prompts that are texts. Lines with more tokens than the context are
 * treated as long_lines says. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_FORMAT, QKV_SPEC, QKV_SHAPE,
 * QKV_NUMBER, QKV_STOPPED. */
QKV_API enum qkv_status qkv_evaluate_talks(struct qkv_model *model, const struct qkv_chat_template *templates,
                                           const char *const *paths, size_t count, enum qkv_long long_lines,
                                           qkv_progress *progress, void *user, struct qkv_talks_evaluation *evaluation);
/* Experimental: bytes of memory for each use of a model, its weights included, with the default batch sizes and
 * sequences as long as the context; shorter sequences need less. 0: the model does not have this use. */
struct qkv_use_costs {
    size_t lines_bytes;    /* embedding or classifying lines (qkv_embed, qkv_classify) */
    size_t search_bytes;   /* translating with greedy search (qkv_translate) */
    size_t evaluate_bytes; /* evaluating on texts, pairs, labelled lines or examples, whichever the model is for */
    size_t export_bytes;   /* writing the model in another format */
    /* writing it as a folder of a published family, at most; this converts one tensor of a layer at a time */
    size_t publish_bytes;
};
/* Experimental: measures the costs by plans of a planned model, for example one of qkv_model_plan_load. A model that
 * is not planned is QKV_ARGUMENT. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SPEC, QKV_SHAPE. */
QKV_API enum qkv_status qkv_model_use_costs(struct qkv_model *plan, struct qkv_use_costs *costs);
#endif

#ifdef QKV_EXPERIMENTAL
/* Experimental: what a model is to be used for. */
enum qkv_use {
    QKV_USE_EMBED,
    QKV_USE_CLASSIFY,
    QKV_USE_TRANSLATE,
    QKV_USE_EVALUATE_TEXT,
    QKV_USE_EVALUATE_PAIRS,
    QKV_USE_EVALUATE_LABELS,
    QKV_USE_EVALUATE_EXAMPLES,
    QKV_USE_EXPORT, /* writing the model in another format */
    QKV_USE_PUBLISH /* writing it as a folder of a published family */
};
struct qkv_use_options {
    size_t size; /* sizeof(struct qkv_use_options), set by qkv_use_defaults */
    enum qkv_use use;
    const char *const *texts; /* the lines to embed, classify or translate */
    size_t text_count;
    bool pairs;        /* two lines are read as one sequence */
    const char *file;  /* pairs, labelled lines or examples to read; NULL: such files as long as the context */
    size_t batch;      /* windows of a text, or sources of a search; 0: the default */
    size_t context;    /* tokens of a window; 0: the spec's context */
    size_t width;      /* hypotheses or samples of a source; 0: 1 */
    size_t max_tokens; /* of a target; 0: as qkv_search_options has it */
    bool loaded;       /* the weights are in memory already */
    /* a text is evaluated against this model, planned or not (qkv_evaluate_against), which is not part of the memory;
     * NULL: alone */
    const struct qkv_model *against;
};
/* Experimental: embedding, with zeros and NULL for the rest. */
QKV_API void qkv_use_options_init(struct qkv_use_options *options, size_t size);
static inline struct qkv_use_options qkv_use_defaults(void) {
    struct qkv_use_options options;
    qkv_use_options_init(&options, sizeof options);
    return options;
}
/* Experimental: checks that the weights of the model in `folder`, the largest batch of a use and its results fit into
 * the free memory, before any weight is read; the sentence says how much is needed, how much is left, and what needs
 * less. A use that the model does not have, and a file that cannot be read, pass: the use itself reports them. Fails
 * with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_FORMAT, QKV_SPEC, QKV_SHAPE. */
QKV_API enum qkv_status qkv_use_check_memory(struct qkv_context *ctx, const char *folder,
                                             const struct qkv_use_options *options);
/* Experimental: the same check for a model that is opened and not filled yet (qkv_model_open). Fails with QKV_ARGUMENT,
 * QKV_MEMORY, QKV_FILE, QKV_FORMAT, QKV_SPEC, QKV_SHAPE. */
QKV_API enum qkv_status qkv_opening_check_use(struct qkv_opening *opening, const struct qkv_use_options *options);
#endif

#ifdef __cplusplus
}
#endif

#endif
