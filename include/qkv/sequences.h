/* qkv/sequences.h: encoders and encoder–decoders: read, classify, translate; a part of qkv.h, which includes it.
 * Stable.
 *
 * The trainer trains models with an encoder as it trains decoders (options `pairs`, `labeled`, or task "mlm"). The
 * calls here use them: encode a batch once and decode it many times, search for the best target, classify, fill masks,
 * embed; and compute the metrics that evaluate them. For example:
 *
 *     struct qkv_search_options o = qkv_search_defaults();
 *     o.beam = 5;
 *     qkv_translate(model, lines, count, &o, write_hypothesis, NULL);
 *
 * Files are UTF-8. Pairs: each line is a source, a tab, a target; a source that occurs in several lines has several
 * references. Labelled lines: each line is a label, a tab, a text. Blank lines are allowed everywhere; training skips
 * them. */
#ifndef QKV_PUBLIC_SEQUENCES_H
#define QKV_PUBLIC_SEQUENCES_H

#include "qkv/pass.h"
#include "qkv/generate.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Special tokens of tokenizers that are trained for these tasks; each is one id. */
#define QKV_TOKEN_BEGIN "<s>"    /* comes before a target */
#define QKV_TOKEN_END   "</s>"   /* comes after a source and after a target */
#define QKV_TOKEN_MASK  "<mask>" /* replaces a hidden token (masked-language modelling) */

/* Encodes a line of text as models of lines read it, in training and in use: with `begin`, <s> comes before the text,
 * with `end`, </s> comes after it, if the tokenizer has them. Special tokens that are written in the text are encoded
 * as ordinary text. *ids is the caller's, freed with qkv_free. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FORMAT. */
QKV_API enum qkv_status qkv_sequence_encode(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text,
                                            size_t size, bool begin, bool end, int32_t **ids, size_t *count);
/* Encodes the input of an encoder, a source or a single text, as qkv_sequence_encode does. A tokenizer with a template
 * (qkv_tokenizer_template) adds the tokens of its template instead of <s> and </s>, whatever `begin` and `end` are.
 * Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FORMAT. */
QKV_API enum qkv_status qkv_source_encode(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text,
                                          size_t size, bool begin, bool end, int32_t **ids, size_t *count);
/* Encodes a text with masks: each QKV_TOKEN_MASK, and each occurrence of the text of the token `mask` ("[MASK]"),
 * becomes the id `mask`. Other special tokens are encoded as ordinary text, and the tokenizer's template is added. The
 * tokens of words and bpe include a leading space, so with these tokenizers the spaces before a mask belong to the
 * hidden token and are not encoded. *ids is the caller's, freed with qkv_free. Fails with QKV_ARGUMENT, QKV_MEMORY,
 * QKV_FORMAT. */
QKV_API enum qkv_status qkv_masked_encode(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text,
                                          size_t size, int32_t mask, int32_t **ids, size_t *count);

/* The tokenizer of sources: source_tokenizer.json in the model's folder; if there is no such file and both vocabularies
 * have the same size, the model's tokenizer. NULL if there is none. Owned by the model. */
QKV_API const struct qkv_tokenizer *qkv_model_source_tokenizer(const struct qkv_model *model);
/* Gives the model a tokenizer of sources, as qkv_model_set_tokenizer does. Fails with QKV_SPEC. */
QKV_API enum qkv_status qkv_model_set_source_tokenizer(struct qkv_model *model, struct qkv_tokenizer *tokenizer);
/* The name of class i of a classifier (labels.txt in the model's folder, one name a line); NULL past the last, or if
 * the names are unknown. Owned by the model. */
QKV_API const char *qkv_model_label(const struct qkv_model *model, size_t i);
/* Copies the names of the classes. `count` must be the spec's number of classes; the names must differ and have no tabs
 * and line ends. Fails with QKV_ARGUMENT, QKV_MEMORY. */
QKV_API enum qkv_status qkv_model_set_labels(struct qkv_model *model, const char *const *labels, size_t count);

/* ---- encode once, decode many ------------------------------------------------------------------------------------ */

/* An encoded batch of sources: the output of the encoder, and the keys and values that cross attention projects from
 * it. */
struct qkv_encoded;
/* Encodes ids (B,T) with lengths (B), NULL: all T. The model is an encoder, or an encoder–decoder. Fails with
 * QKV_ARGUMENT, QKV_MEMORY, QKV_SHAPE. */
QKV_API enum qkv_status qkv_encode(struct qkv_model *model, const int32_t *ids, const int32_t *lengths, size_t B,
                                   size_t T, struct qkv_encoded **out);
#ifdef QKV_EXPERIMENTAL
/* Experimental: encodes images, frames or vectors with an encoder that does not read tokens (embed.input). `features`
 * has the layout of source_features in struct qkv_batch, with T positions a sequence; patches take no lengths. `frames`
 * is the number of frames of each sequence, for an encoder that reads frames; 0: stride·T. Fails with QKV_ARGUMENT,
 * QKV_MEMORY, QKV_SHAPE. */
QKV_API enum qkv_status qkv_encode_features(struct qkv_model *model, const float *features, const int32_t *lengths,
                                            size_t B, size_t T, size_t frames, struct qkv_encoded **out);
#endif
/* Frees an encoded batch. NULL is allowed. */
QKV_API void qkv_encoded_free(struct qkv_encoded *encoded);
/* The hidden states after the final norm, (B,T,C). Owned by `encoded`. */
QKV_API struct qkv_array qkv_encoded_output(const struct qkv_encoded *encoded);

/* A decoder grows the targets of several rows in one batch; each row has its own length. The cache stores keys and
 * values in pages (struct qkv_cache_pages). Rows that qkv_decoder_select makes from the same row share its pages:
 * append a prefix to one row, then select that row many times. */
struct qkv_decoder;
struct qkv_decoder_options {
    size_t size;                       /* sizeof(struct qkv_decoder_options), set by qkv_decoder_defaults */
    const struct qkv_encoded *encoded; /* must outlive the decoder; NULL: a model without an encoder */
    const size_t *sources;             /* (rows): row r is for source sources[r]; NULL: source r */
    /* largest number of rows, all empty at first, and of tokens of a row; capacity 0: the model's context */
    size_t rows, capacity;
    /* Experimental: pages of the cache; 0: as many as `rows` rows of that capacity need without sharing */
    size_t pages;
    /* Experimental: the number of tokens of each row in one append that memory is planned for when the decoder is made;
     * larger appends are planned when they come */
    size_t chunk;
    /* Experimental: (rows): the sequence length that the rotation of each row uses where position.scaling depends on
     * one (kinds dynamic and longrope), at most the model's context; NULL or 0: the capacity. It does not change later,
     * and rows that are selected from a row have the same. Sources use their own lengths. */
    const size_t *lengths;
    /* Experimental: types of the cached keys and values of the rows, as qkv_model_set_cache has them; those of sources
     * have the types of the model. NULL: the types of the model */
    const char *cache;
};
/* One row, no encoder, chunk 1. */
QKV_API void qkv_decoder_options_init(struct qkv_decoder_options *options, size_t size);
static inline struct qkv_decoder_options qkv_decoder_defaults(void) {
    struct qkv_decoder_options options;
    qkv_decoder_options_init(&options, sizeof options);
    return options;
}
/* Makes a decoder of empty rows. `options` NULL: the defaults. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SHAPE. */
QKV_API enum qkv_status qkv_decoder_create(struct qkv_model *model, const struct qkv_decoder_options *options,
                                           struct qkv_decoder **out);
/* Frees a decoder. NULL is allowed. */
QKV_API void qkv_decoder_free(struct qkv_decoder *decoder);
#ifdef QKV_EXPERIMENTAL
/* Experimental: tokens to append, any number to each row, and the tokens whose scores are wanted. */
struct qkv_decoder_input {
    const int32_t *ids;   /* the tokens of row 0, then of row 1, … */
    const size_t *counts; /* (rows): number of tokens of each row, may be 0; NULL: one each */
    /* (scored_count): indices into ids, increasing; NULL: the last token of each row that gets any */
    const size_t *scored;
    size_t scored_count; /* number of entries of scored; it may be 0 */
};
/* Experimental: no ids; one token for each row, with the scores after it. */
QKV_API struct qkv_decoder_input qkv_decoder_input_defaults(void);
/* Experimental: appends tokens; qkv_decoder_logits then has the scores after each scored token, (qkv_decoder_scored,V).
 * A row has the same bits as in a decoder of its own, however its tokens are divided into appends. There is one
 * exception: if the spec has a prefix, the first append to an empty row is its prefix, whose positions attend to each
 * other in both directions, so that their scores depend on the whole prefix. A call that fails changes no row. A cache
 * without enough free pages is QKV_FULL, with a sentence that says how many are missing. Fails with QKV_ARGUMENT,
 * QKV_MEMORY, QKV_SHAPE, QKV_FULL. */
QKV_API enum qkv_status qkv_decoder_append(struct qkv_decoder *decoder, const struct qkv_decoder_input *input);
#endif
/* Appends one token to every row, ids (rows); qkv_decoder_logits then has the scores of the next tokens, (rows,V).
 * Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SHAPE, QKV_FULL. */
QKV_API enum qkv_status qkv_decoder_step(struct qkv_decoder *decoder, const int32_t *ids);
/* The scores of the next tokens after the latest append or step, (qkv_decoder_scored,V). Owned by the decoder, valid
 * until the next call with it. */
QKV_API const float *qkv_decoder_logits(const struct qkv_decoder *decoder);
#ifdef QKV_EXPERIMENTAL
/* Experimental: the number of rows of qkv_decoder_logits. */
QKV_API size_t qkv_decoder_scored(const struct qkv_decoder *decoder);
#endif
/* The number of rows of the decoder. */
QKV_API size_t qkv_decoder_rows(const struct qkv_decoder *decoder);
/* The number of tokens of the longest row. */
QKV_API size_t qkv_decoder_length(const struct qkv_decoder *decoder);
#ifdef QKV_EXPERIMENTAL
/* Experimental: the number of tokens of a row; 0 if there is no such row. */
QKV_API size_t qkv_decoder_row_length(const struct qkv_decoder *decoder, size_t row);
/* Experimental: the pages of all rows. */
QKV_API struct qkv_cache_pages qkv_decoder_pages(const struct qkv_decoder *decoder);
#endif
/* Replaces the rows: new row r continues old row from[r], with its scores, for `count` new rows (at most as many as the
 * decoder was made for). Beam search uses this to reorder hypotheses, to share prefixes and to drop finished rows. No
 * keys and values are copied, except the last page of rows that share it, when they continue. Fails with QKV_ARGUMENT,
 * QKV_MEMORY. */
QKV_API enum qkv_status qkv_decoder_select(struct qkv_decoder *decoder, const size_t *from, size_t count);
#ifdef QKV_EXPERIMENTAL
/* Experimental: removes all positions of a row at and past `length`, and all scores. */
QKV_API void qkv_decoder_truncate(struct qkv_decoder *decoder, size_t row, size_t length);
#endif

/* ---- search ------------------------------------------------------------------------------------------------------ */

/* Experimental: when a search with a beam wider than 1 ends. As early_stopping of generation_config.json. */
enum qkv_stopping {
    QKV_STOPPING_NEVER, /* no unfinished hypothesis can reach the n_best any more */
    /* `beam` hypotheses are finished, and the best unfinished one, scored at its present length, is not better than the
     * worst of them (early_stopping false) */
    QKV_STOPPING_FALSE,
    QKV_STOPPING_TRUE /* `beam` hypotheses are finished */
};
/* Experimental: "never", "false" or "true"; NULL past the last. Any thread. */
QKV_API const char *qkv_stopping_name(enum qkv_stopping stopping);
struct qkv_search_options {
    size_t size;   /* sizeof(struct qkv_search_options), set by qkv_search_defaults */
    size_t beam;   /* number of hypotheses; 1: greedy */
    size_t n_best; /* number of hypotheses in the result; at most beam (sampling: any number) */
    /* a: the score is log-probability / n^a, for n tokens with the end; 0: the log-probability. (length_penalty of
     * generation_config.json) */
    double length_penalty;
    /* Longest target in tokens, its end included; 0: 3 × source + 50, at most the model's context allows. Rotations
     * that depend on the length of a sequence use it plus 1, source by source. */
    size_t max_tokens;
    size_t no_repeat; /* n > 0: no n tokens in a row occur twice in a hypothesis; 0: as `rules` has it */
    bool sample; /* draw tokens with `sampling` instead of searching; each hypothesis of each line has its own seed */
    struct qkv_sampling sampling; /* a search has its repeat penalty alone */
    size_t batch;                 /* number of sources in one batch; 0: 32. Results do not depend on it */
    size_t *tokens;               /* the number of tokens of all results, ends included, is added to it; may be NULL */
    /* Experimental, for qkv_translate: the rule for lines with more tokens than the context. The number of such lines
     * is added to *long_count (may be NULL). A skipped line gives the same as a blank one. */
    enum qkv_long long_lines;
    size_t *long_count;
    const struct qkv_token_rules *rules; /* experimental: NULL: those of the model's folder */
    enum qkv_stopping stopping;          /* experimental */
    /* Experimental, of qkv_translate and of engines: the languages of the source and of the target, which
     * qkv_model_check_languages allows; NULL: the model's own */
    const char *source_language, *target_language;
    /* Experimental, of qkv_translate: *blank is set before each call of `take`: whether the line has no result, because
     * it is blank or skipped; may be NULL */
    bool *blank;
};
/* Beam 1, n_best 1, length_penalty 0.6, stopping never, everything else off. */
QKV_API void qkv_search_options_init(struct qkv_search_options *options, size_t size);
static inline struct qkv_search_options qkv_search_defaults(void) {
    struct qkv_search_options options;
    qkv_search_options_init(&options, sizeof options);
    return options;
}

#ifdef QKV_EXPERIMENTAL
/* Experimental: sets beam, length_penalty, stopping, max_tokens, sample and the sampling except its seed as the model's
 * folder defines them, with the defaults of transformers for what it leaves out (length_penalty 1, early_stopping
 * false); returns whether the folder defines them. A folder of a run that began without a published model does not, and
 * changes nothing. A folder with do_sample has beam 1. */
QKV_API bool qkv_search_settings(const struct qkv_model *model, struct qkv_search_options *options);
#endif

struct qkv_hypothesis {
    const int32_t *ids; /* without begin and end tokens */
    size_t count;
    /* sum over all tokens, the end included; with a beam wider than 1, as penalties and forced tokens changed it */
    double log_probability;
    double score; /* log_probability with the length penalty; hypotheses are sorted by it */
    bool ended;   /* false: cut off at max_tokens */
};
/* Searches the best targets of `count` sources; sources[i] are lengths[i] ids, the end included. `take` gets the n_best
 * hypotheses of each source (fewer if there are fewer), best first, source by source in order; it returns false to
 * stop. Each step takes the likeliest continuations of the hypotheses; those that end are finished if they are among
 * the first `beam`. `stopping` says when the search of a source ends; a greedy search ends with its first finished
 * hypothesis. At the longest target, the first `beam` continuations are finished as they are. Fails with QKV_ARGUMENT,
 * QKV_MEMORY, QKV_SHAPE, QKV_NUMBER, QKV_STOPPED. */
typedef bool qkv_take_hypotheses(void *user, size_t source, const struct qkv_hypothesis *hypotheses, size_t count);
QKV_API enum qkv_status qkv_search(struct qkv_model *model, const int32_t *const *sources, const size_t *lengths,
                                   size_t count, const struct qkv_search_options *options, qkv_take_hypotheses *take,
                                   void *user);
/* Translates lines of text, without line ends, by qkv_search. A blank line gives an empty text. `take` is called for
 * each line in order, and for each of its hypotheses in order of `rank`, from 0; `text` is valid during the call. Fails
 * with QKV_ARGUMENT, QKV_MEMORY, QKV_FORMAT, QKV_SHAPE, QKV_NUMBER, QKV_STOPPED. */
typedef bool qkv_take_translation(void *user, size_t line, size_t rank, const char *text, size_t size, double score);
QKV_API enum qkv_status qkv_translate(struct qkv_model *model, const char *const *lines, size_t count,
                                      const struct qkv_search_options *options, qkv_take_translation *take, void *user);

#ifdef QKV_EXPERIMENTAL
/* Experimental: writes the code of language i of the sources that an encoder-decoder reads, or of the targets that it
 * writes, into `code`; false past the last. The languages of a model that translates between several are those that its
 * tokenizer has added tokens for: en of __en__ (M2M100), eng_Latn (NLLB), en_XX (mBART), and for targets alone fra of
 * >>fra<< (Marian). The tokenizer of sources has those of sources and >>fra<<; the tokenizer of targets has the others.
 * A model of one pair has the languages that source_lang and target_lang (or src_lang and tgt_lang) of
 * tokenizer_config.json name, or none. Any thread. */
QKV_API bool qkv_model_language(const struct qkv_model *model, bool target, size_t i, char code[QKV_LANGUAGE_TEXT]);
/* Experimental: checks that the model translates from and to these languages: codes as qkv_model_language has them, in
 * upper or lower case, with - or _, or whole tokens (__en__); of en_XX, en is enough if no other language begins so.
 * NULL, "" and QKV_LANGUAGE_AUTO are the model's own: for a source, the language that src_lang of tokenizer_config.json
 * names, else that of the post_processor of the tokenizer. Fails with QKV_ARGUMENT, and the sentence has the languages
 * that there are. */
QKV_API enum qkv_status qkv_model_check_languages(struct qkv_model *model, const char *source, const char *target);
#endif

/* ---- encoders at work -------------------------------------------------------------------------------------------- */

/* How lines of text are read. */
struct qkv_line_options {
    size_t size;              /* sizeof(struct qkv_line_options), set by qkv_line_defaults */
    enum qkv_long long_lines; /* the rule for lines with more tokens than the limit */
    size_t *long_count;       /* the number of such lines is added to it; may be NULL */
    size_t max_tokens;        /* the limit of tokens of a line; 0, or more than the context: the context */
};
/* The limit is the context; a longer line is an error that names it. */
QKV_API void qkv_line_options_init(struct qkv_line_options *options, size_t size);
static inline struct qkv_line_options qkv_line_defaults(void) {
    struct qkv_line_options options;
    qkv_line_options_init(&options, sizeof options);
    return options;
}

/* Computes the probabilities of the classes of lines of text, (count,classes); a blank line gives zeros. A model with
 * one class (a regression, a reranker) gives the score of each line instead, as the head computes it, and NaN for a
 * blank line; so does a line that is skipped. The result of a line does not depend on the other lines. `options` NULL:
 * the defaults. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FORMAT, QKV_SHAPE, QKV_NUMBER. */
QKV_API enum qkv_status qkv_classify(struct qkv_model *model, const char *const *lines, size_t count,
                                     const struct qkv_line_options *options, float *probabilities);
#ifdef QKV_EXPERIMENTAL
/* Experimental: computes the probabilities of the classes of a safetensors file of examples, whose tensor is in.pixels,
 * in.features, in.vectors or in.ids, as the model reads. *probabilities (count,classes) is the caller's, freed with
 * qkv_free. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_FORMAT, QKV_SPEC, QKV_SHAPE, QKV_NUMBER. */
QKV_API enum qkv_status qkv_classify_examples(struct qkv_model *model, const char *path, float **probabilities,
                                              size_t *count);
/* Experimental: reads example `index` (from 0) of a file of examples as a batch of one sequence; in.targets, if the
 * file has them, become its targets. The model must outlive the example. *example is the caller's, freed with
 * qkv_example_free. Fails with QKV_ARGUMENT (there is no such example), QKV_MEMORY, QKV_FILE, QKV_FORMAT, QKV_SPEC. */
struct qkv_example;
QKV_API enum qkv_status qkv_example_read(struct qkv_model *model, const char *path, size_t index,
                                         struct qkv_example **example);
/* Experimental: the batch of an example, owned by the example; NULL for NULL. */
QKV_API const struct qkv_batch *qkv_example_batch(const struct qkv_example *example);
/* Experimental: the number of examples in the file; 0 for NULL. */
QKV_API size_t qkv_example_count(const struct qkv_example *example);
/* Experimental: frees an example. NULL is allowed. */
QKV_API void qkv_example_free(struct qkv_example *example);
#endif

#ifdef QKV_EXPERIMENTAL
/* Experimental: qkv_classify of pairs of texts, firsts[i] and seconds[i], joined by the tokenizer's template of pairs,
 * each with its own token type. A pair with too many tokens loses tokens of its longer text. A pair of blank texts
 * gives zeros, or NaN with one class. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FORMAT, QKV_SHAPE, QKV_NUMBER. */
QKV_API enum qkv_status qkv_classify_pairs(struct qkv_model *model, const char *const *firsts,
                                           const char *const *seconds, size_t count,
                                           const struct qkv_line_options *options, float *probabilities);
#endif

#ifdef QKV_EXPERIMENTAL
/* Experimental: computes the probabilities of the classes of words, with a model whose head classifies tokens: (all
 * words,classes), of the first token of each word. `words` are the words of sentence 0, then of sentence 1, …; sentence
 * i has counts[i] of them and is encoded as its words joined by spaces. Words of a skipped sentence, and words that are
 * cut off, give zeros, or NaN with one class. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FORMAT, QKV_SHAPE,
 * QKV_NUMBER. */
QKV_API enum qkv_status qkv_classify_words(struct qkv_model *model, const char *const *words, const size_t *counts,
                                           size_t sentences, const struct qkv_line_options *options,
                                           float *probabilities);
#endif

#ifdef QKV_EXPERIMENTAL
/* Experimental: answers to questions, from models for extractive question answering (as on SQuAD). */
#define QKV_ANSWER_BEGIN "start" /* the names of the two classes of each token */
#define QKV_ANSWER_END   "end"
enum { QKV_ANSWER_TOKENS = 15 }; /* largest number of tokens of an answer */
struct qkv_answer {
    size_t begin, end; /* bytes [begin, end) of the text, whole words; both 0: no answer */
    /* probability that the answer begins with its first token, times the probability that it ends with its last one */
    double score;
};
/* Experimental: whether the model's head classifies tokens into these two classes. Any thread. */
QKV_API bool qkv_model_answers(const struct qkv_model *model);
/* Experimental: finds the best answer to questions[i] in texts[i]; none if a text is blank or skipped. Question and
 * text are joined by the tokenizer's template of pairs; with too many tokens, the longer of the two loses tokens. The
 * softmax is over the tokens of the text and the token of the whole sequence (cls_token), as in the pipeline of
 * transformers 4. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FORMAT, QKV_SHAPE, QKV_NUMBER. */
QKV_API enum qkv_status qkv_answer(struct qkv_model *model, const char *const *questions, const char *const *texts,
                                   size_t count, const struct qkv_line_options *options, struct qkv_answer *answers);
#endif

/* One of the `top` most likely tokens for a mask of a text. A mask is written as QKV_TOKEN_MASK, or as the tokenizer's
 * own mask token ("[MASK]"). The tokens of words and bpe include a leading space, so with these tokenizers the spaces
 * before a mask belong to the hidden token. */
struct qkv_filling {
    int32_t id;
    double probability;
    size_t begin, end; /* the mask is bytes [begin, end) of the text */
};
/* Finds the most likely tokens for each mask of a text: *fillings (*masks,top), best first for each mask, freed with
 * qkv_free. `options` NULL: the defaults. A text that is skipped has no fillings (*masks 0, *fillings NULL); masks that
 * are cut off have fillings with id -1. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FORMAT, QKV_SHAPE, QKV_NUMBER. */
QKV_API enum qkv_status qkv_fill(struct qkv_model *model, const char *text, size_t top,
                                 const struct qkv_line_options *options, struct qkv_filling **fillings, size_t *masks);

/* C, the width of a vector of a text: that of the last dense layer after the pooling in the model's
 * folder, else that of the encoder, or of the decoder in a model without an encoder. Any thread. */
QKV_API size_t qkv_embed_width(const struct qkv_model *model);
/* The options of vectors of texts. The dense layers in the model's folder always follow the pooling. */
struct qkv_embed_options {
    size_t size; /* sizeof(struct qkv_embed_options), set by qkv_embed_defaults */
    enum qkv_pool pool;
    bool normalize;     /* scales the vectors to length 1 */
    const char *prompt; /* a text that is put before each line that is not blank; NULL: none */
    /* as in struct qkv_line_options; a line is too long if it is so with the prompt */
    enum qkv_long long_lines;
    size_t *long_count;
    size_t max_tokens;
};
/* The options that the model's folder records (qkv_model_pooling, qkv_model_prompt_usual), with its usual
 * prompt, which the model owns; a line with too many tokens then keeps its first ones. Without a record, and for NULL:
 * the mean over the tokens, or in a model without an encoder the last token, and a long line is an error. Any
 * thread. */
QKV_API void qkv_embed_options_init(const struct qkv_model *model, struct qkv_embed_options *options, size_t size);
static inline struct qkv_embed_options qkv_embed_defaults(const struct qkv_model *model) {
    struct qkv_embed_options options;
    qkv_embed_options_init(model, &options, sizeof options);
    return options;
}
/* Computes vectors of lines of text, (count,C): the hidden states of the encoder, or of the decoder in a model without
 * an encoder, pooled over the tokens of a line. `options` NULL: qkv_embed_defaults. A line that is blank or skipped
 * gives zeros. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FORMAT, QKV_SHAPE, QKV_NUMBER. */
QKV_API enum qkv_status qkv_embed(struct qkv_model *model, const char *const *lines, size_t count,
                                  const struct qkv_embed_options *options, float *vectors);

/* ---- metrics ----------------------------------------------------------------------------------------------------- */

/* Computes BLEU, 0 to 100, as sacreBLEU defines it: corpus level, tokenizer 13a, 4-grams, exponential smoothing,
 * brevity penalty by the closest reference (Papineni et al. 2002; Post 2018). references[i] are reference_counts[i]
 * texts, at least one; `count` is at least 1. Fails with QKV_ARGUMENT, QKV_MEMORY. */
QKV_API enum qkv_status qkv_bleu(struct qkv_context *ctx, const char *const *hypotheses,
                                 const char *const *const *references, const size_t *reference_counts, size_t count,
                                 double *bleu);
/* Computes chrF2, 0 to 100, as sacreBLEU defines it: character 6-grams without spaces, beta 2, corpus level, the best
 * reference of each hypothesis (Popović 2015). Fails with QKV_ARGUMENT, QKV_MEMORY. */
QKV_API enum qkv_status qkv_chrf(struct qkv_context *ctx, const char *const *hypotheses,
                                 const char *const *const *references, const size_t *reference_counts, size_t count,
                                 double *chrf);
/* The smallest number of insertions, deletions and substitutions that turn one sequence into the other (Levenshtein
 * 1966); SIZE_MAX if memory runs out. */
QKV_API size_t qkv_edit_distance(const int32_t *a, size_t a_count, const int32_t *b, size_t b_count);

struct qkv_pairs_evaluation {
    double loss;  /* mean loss in nats a token, teacher-forced, over all pairs */
    double exact; /* share of sources whose first hypothesis equals one of their references */
    /* edits to the closest reference, divided by the tokens of the closest references; a token is a word if targets
     * have spaces, else a character */
    double token_error;
    double bleu, chrf;
    size_t sources, pairs;
    double seconds, search_seconds;
};
/* Evaluates a model on a file of pairs: its loss, and the results of a search. Fails with QKV_ARGUMENT, QKV_MEMORY,
 * QKV_FILE, QKV_FORMAT, QKV_SHAPE, QKV_NUMBER, QKV_STOPPED. */
QKV_API enum qkv_status qkv_evaluate_pairs(struct qkv_model *model, const char *path,
                                           const struct qkv_search_options *options, qkv_progress *progress, void *user,
                                           struct qkv_pairs_evaluation *evaluation);

struct qkv_labels_evaluation {
    double loss, accuracy, macro_f1; /* macro_f1: mean F1 of the classes that occur among labels or predictions */
    size_t lines, classes;
    size_t *confusion; /* (classes,classes): row = label, column = prediction; freed with qkv_free */
    double seconds;
};
#ifdef QKV_EXPERIMENTAL
/* Experimental: evaluates a model on a file of examples, as in training (option examples). `lines` is the number of
 * targets: one for each position, with head.kind classify one for each example. A head of kind lm has no classes; then
 * `classes` and macro_f1 are 0, and `confusion` is NULL. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_FORMAT,
 * QKV_SPEC, QKV_SHAPE, QKV_NUMBER, QKV_STOPPED. */
QKV_API enum qkv_status qkv_evaluate_examples(struct qkv_model *model, const char *path, qkv_progress *progress,
                                              void *user, struct qkv_labels_evaluation *evaluation);
#endif
/* Evaluates a model on a file of labelled lines. For a model whose head classifies tokens, the file has labelled words:
 * each line is a word, a tab and its label, and an empty line separates sentences; `lines` counts the words. The label
 * of a class without a name (qkv_model_label) is its number. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_FORMAT,
 * QKV_SHAPE, QKV_NUMBER, QKV_STOPPED. */
QKV_API enum qkv_status qkv_evaluate_labels(struct qkv_model *model, const char *path, qkv_progress *progress,
                                            void *user, struct qkv_labels_evaluation *evaluation);

#ifdef __cplusplus
}
#endif

#endif
