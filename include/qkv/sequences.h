/* qkv/sequences.h: encoders and encoder–decoders: read, classify, translate; a part of qkv.h, which includes it. Stable.
 *
 * A model with an encoder is trained by the same trainer as a decoder (options `pairs`, `labeled`, or task "mlm"), and used by
 * the calls here: encode a batch once and decode it many times, search for the best target, classify, fill masks, embed; and
 * the metrics that evaluate them. In short:
 *
 *     struct qkv_search_options o = qkv_search_defaults();
 *     o.beam = 5;
 *     qkv_translate(model, lines, count, &o, write_hypothesis, NULL);
 *
 * Files. Pairs: a source, a tab, a target in each line; sources that stand in several lines have several references. Labelled
 * lines: a label, a tab, the text. Both are UTF-8; blank lines are skipped when training and refused nowhere. */
#ifndef QKV_PUBLIC_SEQUENCES_H
#define QKV_PUBLIC_SEQUENCES_H

#include "qkv/pass.h"
#include "qkv/generate.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Special tokens that tokenizers made for these tasks have, each one id. */
#define QKV_TOKEN_BEGIN "<s>"    /* a target begins with it */
#define QKV_TOKEN_END   "</s>"   /* a source and a target end with it */
#define QKV_TOKEN_MASK  "<mask>" /* stands for a hidden token (masked-language modelling) */

/* The ids of a line of text as a model of lines reads them in training and in use: after <s> with `begin` and before </s> with `end`,
 * each where the tokenizer has it. Special tokens written in the text are spelled out. *ids is the caller's, freed with qkv_free.
 * Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FORMAT. */
QKV_API enum qkv_status qkv_sequence_encode(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text,
                                            size_t size, bool begin, bool end, int32_t **ids, size_t *count);
/* The same for what an encoder reads, a source or a text alone. A tokenizer with a template (qkv_tokenizer_template) places
 * its own tokens around the text, in place of <s> and </s>: what it was made with decides.
 * Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FORMAT. */
QKV_API enum qkv_status qkv_source_encode(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text,
                                          size_t size, bool begin, bool end, int32_t **ids, size_t *count);
/* The ids of a text in which each QKV_TOKEN_MASK, and each writing of the token `mask` ("[MASK]"), becomes the id
 * `mask`; no other special is looked for, and the tokenizer's template is placed around the text. Where tokens bring
 * their leading space along (words, bpe), spaces before a mask belong to what it hides. Fails with QKV_ARGUMENT,
 * QKV_MEMORY, QKV_FORMAT. */
QKV_API enum qkv_status qkv_masked_encode(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text,
                                          size_t size, int32_t mask, int32_t **ids, size_t *count);

/* The tokenizer of sources: source_tokenizer.json in the model's folder, or the model's only one when that file is absent and
 * both vocabularies are as large.
 * Owned by the model; NULL when there is none. */
QKV_API const struct qkv_tokenizer *qkv_model_source_tokenizer(const struct qkv_model *model);
/* As qkv_model_set_tokenizer. Fails with QKV_SPEC. */
QKV_API enum qkv_status qkv_model_set_source_tokenizer(struct qkv_model *model, struct qkv_tokenizer *tokenizer);
/* The names of a classifier's classes (labels.txt in the model's folder, a line each): NULL past the last, or when unknown. */
QKV_API const char *qkv_model_label(const struct qkv_model *model, size_t i);
/* Copies the names: as many as the spec has classes, all different, without tabs and line ends. Fails with
 * QKV_ARGUMENT, QKV_MEMORY. */
QKV_API enum qkv_status qkv_model_set_labels(struct qkv_model *model, const char *const *labels, size_t count);

/* ---- encode once, decode many ------------------------------------------------------------------------------------------ */

/* a batch of sources: the encoder's output, and the keys and values that cross attention makes of it */
struct qkv_encoded;
/* ids (B,T), lengths (B) or NULL: all T. For a lone encoder, or the encoder of a pair. Fails with QKV_ARGUMENT,
 * QKV_MEMORY, QKV_SHAPE. */
QKV_API enum qkv_status qkv_encode(struct qkv_model *model, const int32_t *ids, const int32_t *lengths, size_t B,
                                   size_t T, struct qkv_encoded **out);
/* Experimental: the same of an encoder that reads no tokens (embed.input): images, frames or vectors, as source_features of struct
 * qkv_batch, T positions each, of patches without lengths. frames: of each sequence, where it reads those; 0: stride·T. Fails with
 * QKV_ARGUMENT, QKV_MEMORY, QKV_SHAPE. */
QKV_API enum qkv_status qkv_encode_features(struct qkv_model *model, const float *features, const int32_t *lengths,
                                            size_t B, size_t T, size_t frames, struct qkv_encoded **out);
/* NULL is fine. */
QKV_API void qkv_encoded_free(struct qkv_encoded *encoded);
/* Hidden states after the final norm, (B,T,C). */
QKV_API struct qkv_array qkv_encoded_output(const struct qkv_encoded *encoded);

/* Targets growing side by side, each of a length of its own. What they keep lies in pages (struct qkv_cache_pages), which rows that go on
 * from the same row share: a prefix is appended to one row, which qkv_decoder_select then makes many of. */
struct qkv_decoder;
/* `rows` targets, row r of them for source sources[r] of `encoded` (NULL: a decoder alone; sources NULL: row r for
 * source r), each of at most `capacity` tokens (0: the model's context). `encoded` must outlive the decoder. Fails
 * with QKV_ARGUMENT, QKV_MEMORY, QKV_SHAPE. */
QKV_API enum qkv_status qkv_decoder_create(struct qkv_model *model, const struct qkv_encoded *encoded,
                                           const size_t *sources, size_t rows, size_t capacity,
                                           struct qkv_decoder **out);
/* Experimental: the same, with all that can be said. */
struct qkv_decoder_options {
    const struct qkv_encoded *encoded; /* NULL: a decoder alone */
    const size_t *sources;             /* (rows) or NULL: row r is for source r */
    size_t rows, capacity; /* the most rows that there will be, all empty at first; capacity 0: the model's context */
    size_t pages;          /* of the cache; 0: as many as `rows` of that capacity need when they share nothing */
    /* tokens of each row that memory is planned for at once, from the start; others plan when they come */
    size_t chunk;
    /* (rows) or NULL: what the rotation of each row is decided for where it depends on the length of a sequence (position.scaling of
     * kind dynamic or longrope), at most the model's context; NULL or 0: the capacity. A row keeps it, however long it becomes, and
     * rows that go on from it have it too. Sources go by their own lengths */
    const size_t *lengths;
};
/* Experimental: one row, alone; chunk 1. */
QKV_API struct qkv_decoder_options qkv_decoder_defaults(void);
/* Experimental. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SHAPE. */
QKV_API enum qkv_status qkv_decoder_create_with(struct qkv_model *model, const struct qkv_decoder_options *options,
                                                struct qkv_decoder **out);
/* NULL is fine. */
QKV_API void qkv_decoder_free(struct qkv_decoder *decoder);
/* Experimental: more tokens, any number of them for each row, and whose scores are wanted. */
struct qkv_decoder_input {
    const int32_t *ids;   /* row after row */
    const size_t *counts; /* (rows): how many each row gets, 0 is fine; NULL: one each */
    /* (scored_count) of ids, counted from the first, rising; NULL: the last of each row that gets any */
    const size_t *scored;
    size_t scored_count; /* with scored; 0 for none */
};
/* Experimental: no ids, one for each row, the scores of the last. */
QKV_API struct qkv_decoder_input qkv_decoder_input_defaults(void);
/* Experimental: appends them; then qkv_decoder_logits has the scores behind those asked for, (qkv_decoder_scored,V). The bits of a row are
 * those that it has alone, however its tokens are cut; but where the spec has a prefix, what an empty row gets first is its prefix,
 * whose positions see one another (their scores have seen what follows in it). When it fails, rows are as they were; with QKV_FULL the cache has not as
 * many pages left, and the sentence says how many are missing. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SHAPE, QKV_FULL. */
QKV_API enum qkv_status qkv_decoder_append(struct qkv_decoder *decoder, const struct qkv_decoder_input *input);
/* One more token for every row; then qkv_decoder_logits has the scores of the next ones, (rows,V). Fails with
 * QKV_ARGUMENT, QKV_MEMORY, QKV_SHAPE, QKV_FULL. */
QKV_API enum qkv_status qkv_decoder_step(struct qkv_decoder *decoder, const int32_t *ids);
/* Scores of the next tokens, (rows,V), after a step. Owned by the decoder, valid until the next call with it. */
QKV_API const float *qkv_decoder_logits(const struct qkv_decoder *decoder);
/* Experimental: how many rows they have. */
QKV_API size_t qkv_decoder_scored(const struct qkv_decoder *decoder);
/* How many rows the decoder has. */
QKV_API size_t qkv_decoder_rows(const struct qkv_decoder *decoder);
/* Tokens that the longest row has. */
QKV_API size_t qkv_decoder_length(const struct qkv_decoder *decoder);
/* Experimental: tokens that a row has; 0 where there is none. */
QKV_API size_t qkv_decoder_row_length(const struct qkv_decoder *decoder, size_t row);
/* Experimental: the pages of all rows. */
QKV_API struct qkv_cache_pages qkv_decoder_pages(const struct qkv_decoder *decoder);
/* Row r goes on from what row from[r] was, for the first `count` rows (at most as many as at the start): beams are
 * reordered, prefixes shared, and rows that are done leave. Nothing is copied but, when rows that share it go on, their last page.
 * Scores of each row go with them. Fails with QKV_ARGUMENT, QKV_MEMORY. */
QKV_API enum qkv_status qkv_decoder_select(struct qkv_decoder *decoder, const size_t *from, size_t count);
/* Experimental: forgets all positions of a row at and past `length`, and all scores. */
QKV_API void qkv_decoder_truncate(struct qkv_decoder *decoder, size_t row, size_t length);

/* ---- search ------------------------------------------------------------------------------------------------------------ */

struct qkv_search_options {
    size_t beam;           /* hypotheses kept; 1: greedy */
    size_t n_best;         /* how many to give out; at most beam (sampling: any) */
    double length_penalty; /* a: scores are log-probability / ((5 + length)/6)^a (Wu et al. 2016); 0: off */
    /* longest target; 0: as the model's context allows, at most 3 × source + 50. Rotations that depend on the length of a sequence are
     * decided for it and the beginning, source by source */
    size_t max_tokens;
    size_t no_repeat; /* n > 0: no n tokens come twice in a row of a hypothesis */
    bool sample;      /* draw instead of searching: `sampling` says how; line i, hypothesis k have seeds of their own */
    struct qkv_sampling sampling;
    size_t batch;   /* sources side by side; 0: 32. Results do not depend on it */
    size_t *tokens; /* the tokens of what is given out, ends included, are added here; NULL: nowhere */
    /* Experimental, of qkv_translate: what becomes of lines of more tokens than the context, and how many there were is added here
     * (NULL: nowhere). A line that is skipped gives what a blank one gives. */
    enum qkv_long long_lines;
    size_t *long_count;
};
QKV_API struct qkv_search_options qkv_search_defaults(void); /* beam 1, n_best 1, length_penalty 0.6, all else off */

struct qkv_hypothesis {
    const int32_t *ids; /* without begin and end */
    size_t count;
    double log_probability; /* of all tokens, the end included */
    double score;           /* with the length penalty: what they are sorted by */
    bool ended;             /* false: cut at max_tokens */
};
/* The best targets of `count` sources; sources[i] are lengths[i] ids (end included). `take` gets the n_best hypotheses
 * of each source (fewer where there are no more), best first, in the order of the sources; returning false stops. The
 * search of a source ends when no hypothesis that still grows can come before its n_best, or, when greedy, with the
 * first that ends; at the longest target the others are cut. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SHAPE,
 * QKV_NUMBER, QKV_STOPPED. */
typedef bool qkv_take_hypotheses(void *user, size_t source, const struct qkv_hypothesis *hypotheses, size_t count);
QKV_API enum qkv_status qkv_search(struct qkv_model *model, const int32_t *const *sources, const size_t *lengths,
                                   size_t count, const struct qkv_search_options *options, qkv_take_hypotheses *take,
                                   void *user);
/* The same on lines of text (without line ends; a blank line gives a blank line). Called for each line in order, for
 * each of its hypotheses in order; `rank` from 0; `text` is valid during the call. Fails with QKV_ARGUMENT,
 * QKV_MEMORY, QKV_FORMAT, QKV_SHAPE, QKV_NUMBER, QKV_STOPPED. */
typedef bool qkv_take_translation(void *user, size_t line, size_t rank, const char *text, size_t size, double score);
QKV_API enum qkv_status qkv_translate(struct qkv_model *model, const char *const *lines, size_t count,
                                      const struct qkv_search_options *options, qkv_take_translation *take, void *user);

/* ---- encoders at work --------------------------------------------------------------------------------------------------- */

/* Experimental: how lines are read. */
struct qkv_line_options {
    enum qkv_long long_lines; /* what becomes of those that have more tokens than the context */
    size_t *long_count;       /* how many there were is added here; NULL: nowhere */
    size_t most;              /* tokens of a line, instead of the context where that is more; 0: the context */
};
/* Experimental: a line that is too long is an error, which names it. */
QKV_API struct qkv_line_options qkv_line_defaults(void);

/* Probabilities of the classes, (count,classes), of lines of text; a blank line gives zeros. A model of one class (a
 * regression, a reranker) has a score of each line, as it comes from the head, and NaN for a blank one. What is said of
 * a line does not depend on its neighbours. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FORMAT, QKV_SHAPE, QKV_NUMBER. */
QKV_API enum qkv_status qkv_classify(struct qkv_model *model, const char *const *lines, size_t count,
                                     float *probabilities);
/* The same of a safetensors file of examples: in.pixels, in.features, in.vectors or in.ids, as the model reads. *probabilities
 * (count,classes) is the caller's, freed with qkv_free. Experimental. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_FORMAT, QKV_SPEC,
 * QKV_SHAPE, QKV_NUMBER. */
QKV_API enum qkv_status qkv_classify_examples(struct qkv_model *model, const char *path, float **probabilities,
                                              size_t *count);
/* One example of such a file, counted from 0, as a batch of one sequence: with in.targets, where the file has them, as
 * targets. The model must outlive it. *example is the caller's, freed with qkv_example_free. Experimental. Fails with
 * QKV_ARGUMENT (there is no such example), QKV_MEMORY, QKV_FILE, QKV_FORMAT, QKV_SPEC. */
struct qkv_example;
QKV_API enum qkv_status qkv_example_read(struct qkv_model *model, const char *path, size_t index,
                                         struct qkv_example **example);
/* The batch, owned by the example; of NULL NULL. Experimental. */
QKV_API const struct qkv_batch *qkv_example_batch(const struct qkv_example *example);
/* How many examples the file has; of NULL 0. Experimental. */
QKV_API size_t qkv_example_count(const struct qkv_example *example);
/* NULL is allowed. Experimental. */
QKV_API void qkv_example_free(struct qkv_example *example);
/* Experimental: the same with options; a line that is skipped gives zeros. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FORMAT, QKV_SHAPE,
 * QKV_NUMBER. */
QKV_API enum qkv_status qkv_classify_with(struct qkv_model *model, const char *const *lines, size_t count,
                                          const struct qkv_line_options *options, float *probabilities);

/* Experimental: the same of pairs of texts, firsts[i] and seconds[i], joined as the tokenizer's template of pairs says,
 * with the types of both; what has too many tokens is cut where it is longer. Both texts blank: zeros, or NaN. Fails
 * with QKV_ARGUMENT, QKV_MEMORY, QKV_FORMAT, QKV_SHAPE, QKV_NUMBER. */
QKV_API enum qkv_status qkv_classify_pairs(struct qkv_model *model, const char *const *firsts,
                                           const char *const *seconds, size_t count,
                                           const struct qkv_line_options *options, float *probabilities);

/* Probabilities of the classes of words, by a model whose head classifies tokens: those of the first token of each. `words` are those of
 * all sentences, one after the other, counts[i] of them in sentence i; a sentence is encoded as its words with a space between two.
 * (all words,classes) floats; zeros (of one class NaN) for words of a sentence that is skipped, and for those that are
 * cut away. Experimental. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FORMAT, QKV_SHAPE, QKV_NUMBER. */
QKV_API enum qkv_status qkv_classify_words(struct qkv_model *model, const char *const *words, const size_t *counts,
                                           size_t sentences, const struct qkv_line_options *options,
                                           float *probabilities);

/* Answers to questions (models for extractive question answering, as SQuAD's). Experimental. */
#define QKV_ANSWER_BEGIN "start" /* the two classes of each token */
#define QKV_ANSWER_END   "end"
enum { QKV_ANSWER_TOKENS = 15 }; /* the most tokens of an answer */
struct qkv_answer {
    size_t begin, end; /* bytes [begin, end) of the text, whole words; both 0: there is none */
    double score;      /* the probability of its first token as a beginning, times that of its last one as an end */
};
/* Whether the model's head classifies tokens into these two. Any thread. */
QKV_API bool qkv_model_answers(const struct qkv_model *model);
/* The best answer to questions[i] in texts[i], none where that is blank or skipped. Both are joined as the tokenizer's
 * template of pairs says; what has too many tokens is cut where it is longer. The softmax is over the tokens of the
 * text and the one that stands for the whole (cls_token), as in the pipeline of transformers 4. Fails with
 * QKV_ARGUMENT, QKV_MEMORY, QKV_FORMAT, QKV_SHAPE, QKV_NUMBER. */
QKV_API enum qkv_status qkv_answer(struct qkv_model *model, const char *const *questions, const char *const *texts,
                                   size_t count, const struct qkv_line_options *options, struct qkv_answer *answers);

/* The likeliest tokens in place of each mask of a text, best first: `top` of them for each mask. A mask is
 * QKV_TOKEN_MASK, or as the tokenizer writes its own ("[MASK]"). Where tokens bring their leading space along (words,
 * bpe), spaces before a mask belong to what it hides. */
struct qkv_filling {
    int32_t id;
    double probability;
    size_t begin, end; /* the mask is bytes [begin, end) of the text */
};
/* fillings (masks,top), freed with qkv_free. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FORMAT, QKV_SHAPE, QKV_NUMBER. */
QKV_API enum qkv_status qkv_fill(struct qkv_model *model, const char *text, size_t top, struct qkv_filling **fillings,
                                 size_t *masks);
/* Experimental: the same with options. A text that is skipped has no fillings (*masks 0, *fillings NULL); masks that were cut away have
 * some with the id -1. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FORMAT, QKV_SHAPE, QKV_NUMBER. */
QKV_API enum qkv_status qkv_fill_with(struct qkv_model *model, const char *text, size_t top,
                                      const struct qkv_line_options *options, struct qkv_filling **fillings,
                                      size_t *masks);

/* Numbers of a vector of a text, C: the width of the encoder, or of a decoder alone, or of the last dense layer that the model's folder has
 * behind the pooling. Any thread. Experimental. */
QKV_API size_t qkv_embed_width(const struct qkv_model *model);
/* Vectors of lines of text, (count,C): hidden states of the encoder, or of a decoder alone, pooled over the tokens of a
 * line; `normalize` makes their length 1. A blank line gives zeros. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FORMAT,
 * QKV_SHAPE, QKV_NUMBER. */
QKV_API enum qkv_status qkv_embed(struct qkv_model *model, const char *const *lines, size_t count, enum qkv_pool pool,
                                  bool normalize, float *vectors);
/* Experimental: how vectors are made. Dense layers of the model's folder follow the pooling always. */
struct qkv_embed_options {
    enum qkv_pool pool;
    bool normalize;                /* length 1 */
    const char *prompt;            /* a text that is put before each line that is not blank; NULL: none */
    struct qkv_line_options lines; /* what is too long is so with the prompt */
};
/* As the model's folder says (qkv_model_pooling, qkv_model_prompt_usual): with its usual prompt, which the model owns, and the first tokens of a
 * line that has too many. Else, as for NULL, the mean of tokens, of a decoder alone the last, and long lines are errors. Any thread. */
QKV_API struct qkv_embed_options qkv_embed_defaults(const struct qkv_model *model);
/* Experimental: qkv_embed with options; NULL: qkv_embed_defaults. A line that is skipped gives zeros. Fails with QKV_ARGUMENT,
 * QKV_MEMORY, QKV_FORMAT, QKV_SHAPE, QKV_NUMBER. */
QKV_API enum qkv_status qkv_embed_with(struct qkv_model *model, const char *const *lines, size_t count,
                                       const struct qkv_embed_options *options, float *vectors);

/* ---- metrics ------------------------------------------------------------------------------------------------------------ */

/* BLEU as sacreBLEU defines it: corpus level, tokenizer 13a, 4-grams, exponential smoothing, brevity penalty by the
 * closest reference (Papineni et al. 2002; Post 2018). references[i] are reference_counts[i] texts, at least one, and
 * so is count. 0 to 100. Fails with QKV_ARGUMENT, QKV_MEMORY. */
QKV_API enum qkv_status qkv_bleu(struct qkv_context *ctx, const char *const *hypotheses,
                                 const char *const *const *references, const size_t *reference_counts, size_t count,
                                 double *bleu);
/* chrF2 as sacreBLEU defines it: character 6-grams without spaces, beta 2, corpus level, the best reference of each
 * (Popović 2015). 0 to 100. Fails with QKV_ARGUMENT, QKV_MEMORY. */
QKV_API enum qkv_status qkv_chrf(struct qkv_context *ctx, const char *const *hypotheses,
                                 const char *const *const *references, const size_t *reference_counts, size_t count,
                                 double *chrf);
/* Insertions, deletions and substitutions that make one sequence of the other (Levenshtein 1966); SIZE_MAX without memory. */
QKV_API size_t qkv_edit_distance(const int32_t *a, size_t a_count, const int32_t *b, size_t b_count);

struct qkv_pairs_evaluation {
    double loss;  /* nats a token, teacher-forced, over all pairs */
    double exact; /* share of sources whose first hypothesis is one of their references */
    /* edits to the closest reference, over the tokens of those: words where targets have spaces, else characters */
    double token_error;
    double bleu, chrf;
    size_t sources, pairs;
    double seconds, search_seconds;
};
/* Loss and search over a file of pairs. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_FORMAT, QKV_SHAPE,
 * QKV_NUMBER, QKV_STOPPED. */
QKV_API enum qkv_status qkv_evaluate_pairs(struct qkv_model *model, const char *path,
                                           const struct qkv_search_options *options, qkv_progress *progress, void *user,
                                           struct qkv_pairs_evaluation *evaluation);

struct qkv_labels_evaluation {
    double loss, accuracy, macro_f1; /* F1: mean over the classes that occur among labels or predictions */
    size_t lines, classes;
    size_t *confusion; /* (classes,classes): rows are the labels, columns the predictions; freed with qkv_free */
    double seconds;
};
/* The same of a file of examples, as training takes them (option examples); lines counts the targets, which are one for each position
 * but with head.kind classify. A head of kind lm has no classes: then classes and macro_f1 are 0, and confusion NULL. Experimental. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_FORMAT,
 * QKV_SPEC, QKV_SHAPE, QKV_NUMBER, QKV_STOPPED. */
QKV_API enum qkv_status qkv_evaluate_examples(struct qkv_model *model, const char *path, qkv_progress *progress,
                                              void *user, struct qkv_labels_evaluation *evaluation);
/* Of labelled lines; of a model whose head classifies tokens, of labelled words (a word, a tab and its label in each line, an empty line
 * between sentences), which are the lines that are counted. Classes without names (qkv_model_label) go by their numbers. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE,
 * QKV_FORMAT, QKV_SHAPE, QKV_NUMBER, QKV_STOPPED. */
QKV_API enum qkv_status qkv_evaluate_labels(struct qkv_model *model, const char *path, qkv_progress *progress,
                                            void *user, struct qkv_labels_evaluation *evaluation);

#ifdef __cplusplus
}
#endif

#endif
