/* texts: how texts that are embedded, classified or filled are read, and what is made of the numbers of the model: for
 * the public functions, which read lines, and for engines. */
#ifndef QKV_TEXTS_H
#define QKV_TEXTS_H

#include "base/base.h"
#include "text/sequence.h"

/* ---- lines (text_read.c) ----------------------------------------------------------------------------------------- */
/* Checks that the model can read text at all; `doing` begins the message: "classify". */
enum qkv_status qkv_lines_check(struct qkv_model *model, const char *doing);
/* Sets the message for a line that has more tokens than `most`, a limit or the context, and must not be cut. */
enum qkv_status qkv_line_refuse(const struct qkv_model *model, const char *what, size_t line, size_t tokens,
                                size_t most);

/* ---- vectors (text_read.c) --------------------------------------------------------------------------------------- */
/* How texts are read and pooled. */
struct qkv_text_embedder {
    struct qkv_model *model;
    struct qkv_embed_options options;
    bool begin, end; /* <s> before each text, </s> after it */
    size_t skipped;  /* tokens of the prompt that are not pooled */
};
/* Checks that the model can embed texts with these options. */
enum qkv_status qkv_text_embedder_begin(struct qkv_model *model, const struct qkv_embed_options *options,
                                        struct qkv_text_embedder *out);
/* Encodes a text with the prompt before it; *count 0: it is blank. *ids is freed with qkv_free. */
enum qkv_status qkv_text_embedder_read(const struct qkv_text_embedder *embedder, const char *text, size_t size,
                                       int32_t **ids, size_t *count);
/* The number of channels of a hidden state. */
size_t qkv_embed_channels(const struct qkv_model *model);
/* A text whose hidden states are pooled. */
struct qkv_text_vector {
    const float *hidden; /* (count,C) */
    size_t count, skipped;
    enum qkv_pool pool;
    bool normalize;
    float *out;  /* (qkv_embed_width) */
    bool broken; /* its hidden states are not finite */
};
/* Pools texts, and runs the dense layers over their vectors. */
enum qkv_status qkv_text_vectors(struct qkv_model *model, struct qkv_text_vector *texts, size_t count);

/* ---- classes (text_read.c) --------------------------------------------------------------------------------------- */
/* Checks that the model classifies texts. */
enum qkv_status qkv_classify_check(struct qkv_model *model);
/* Whether texts get both specials: the template adds its own tokens; without a template, only models of our own
 * training have them. */
bool qkv_classify_ends(const struct qkv_model *model);
/* Two texts. */
struct qkv_text_pair {
    const char *texts[2];
    size_t sizes[2];
};
/* Encodes a pair; *count 0: both are blank. The ids and types are freed with qkv_free; those of a pair that is skipped
 * or refused are NULL, and *count is its full length. */
enum qkv_status qkv_classify_join(struct qkv_model *model, const struct qkv_pair_template *template,
                                  const struct qkv_long_rule *rule, const struct qkv_text_pair *pair, int32_t **ids,
                                  int32_t **types, size_t *count, enum qkv_long_fate *fate);

/* ---- masks (text_masks.c) ---------------------------------------------------------------------------------------- */
struct qkv_filler {
    struct qkv_model *model;
    const struct qkv_tokenizer *tokenizer;
    struct qkv_long_rule rule;
    int32_t mask, *ids;            /* ids: freed with qkv_free */
    struct qkv_mask_place *places; /* of the masks of the text; freed with free */
    /* masks: of the text. In the part that is read: its first mask, and the number of masks. */
    size_t count, masks, first, read, top;
    bool skipped;
    struct qkv_filling *fillings; /* (masks,top); freed with free */
};
/* Checks that the model fills masks with the `top` likeliest tokens. */
enum qkv_status qkv_filler_check(struct qkv_filler *filler);
/* Encodes a text. */
enum qkv_status qkv_filler_read(struct qkv_filler *filler, const char *text, size_t size);
/* Takes memory for the fillings, which have no tokens yet. */
enum qkv_status qkv_filler_take(struct qkv_filler *filler);
/* Sets the fillings of mask `index` of those that are read, by the scores (vocab). Fails with QKV_MEMORY, and with
 * QKV_NUMBER where a score is not finite. */
enum qkv_status qkv_filler_rank(struct qkv_filler *filler, size_t index, const float *scores);
void qkv_filler_free(struct qkv_filler *filler);

#endif
