/* qkv/published.h: published models, as Hugging Face folders: config.json of a family, weights in one safetensors file
 * or in several with an index; or as GGUF files; a part of qkv.h, which includes it. Experimental.
 *
 * qkv_model_load and all calls that use it read such folders like those of qkv. The path of a GGUF file, "model.gguf",
 * or of the first of several, "model-00001-of-00003.gguf", is read like a folder that has the same model, tokenizer and
 * pooling; the file's own types of numbers stay. A family that computes something that
 * no spec can express is refused, with the key of config.json that asks for it; nothing is approximated.
 *
 * - Matrices in bf16 and f16 that the folder stores in the order of a model are mapped; a fused matrix is split without
 *   a copy. Matrices in another order are copied to fp32.
 * - Matrices in 8 bits with a scale for each block (DeepSeek V3) are converted to floats. Experts in MXFP4 (gpt-oss)
 *   stay in MXFP4: loading joins their numbers and exponents in blocks (QKV_MXFP4).
 * - Dropout concerns training only and is not taken over.
 * - Weights that are not parameters in the published model, such as the final_logits_bias of BART and the corrections
 *   of DeepSeek V3, which balancing has moved, are frozen (qkv_model_set_trainable). They stay frozen in a run that
 *   begins with the model. */
#ifndef QKV_PUBLIC_PUBLISHED_H
#define QKV_PUBLIC_PUBLISHED_H

#include "qkv/model.h"

#ifdef QKV_EXPERIMENTAL
#ifdef __cplusplus
extern "C" {
#endif

/* Gives the model_type of the i-th known family ("gpt2"; several are separated by commas) and the classes that are
 * read; false past the last. Any thread. */
QKV_API bool qkv_family_at(size_t i, const char **type, const char **classes);
/* The family of a published model, "gpt2"; NULL for a model whose folder qkv wrote. */
QKV_API const char *qkv_model_family(const struct qkv_model *model);
/* The reason why a published model that reads tokens has no tokenizer: a sentence; NULL if it has one. Such a model
 * works with ids. Owned by the model. */
QKV_API const char *qkv_model_tokenizer_problem(const struct qkv_model *model);
/* A fault of a published folder that does not affect the model, such as an index whose total_size is not that of the
 * tensors: a sentence; NULL if there is none. Owned by the model. */
QKV_API const char *qkv_model_warning(const struct qkv_model *model);
/* The name of the i-th tensor of a published model's files that the model does not use, and that only
 * qkv_model_export_published in the model's own family writes again, such as a pooler; NULL past the last. Owned by the
 * model. Any thread. */
QKV_API const char *qkv_model_unused_tensor(const struct qkv_model *model, size_t i);
/* Gives the pooling of vectors of texts that the model's folder defines, as sentence-transformers reads it from
 * modules.json; false if it defines none. *most: the largest number of tokens of a text, of which the first are used;
 * 0: the context. Any thread. */
QKV_API bool qkv_model_pooling(const struct qkv_model *model, enum qkv_pool *pool, bool *normalize, size_t *most);
/* Gives the i-th prompt of the model's folder (config_sentence_transformers.json), in the order of the file: its name,
 * and the text to put before each text; false past the last. Both are owned by the model. Any thread. */
QKV_API bool qkv_model_prompt(const struct qkv_model *model, size_t i, const char **name, const char **text);
/* The name of the default prompt of the folder (default_prompt_name); NULL: none. Owned by the model. Any thread. */
QKV_API const char *qkv_model_prompt_usual(const struct qkv_model *model);
/* The points of a model that families call the last hidden states. */
enum qkv_family_hidden { QKV_FAMILY_HIDDEN_LAST, QKV_FAMILY_HIDDEN_BEFORE_NORM, QKV_FAMILY_HIDDEN_NARROWED };
/* The point that a model's family calls the last hidden states: LAST: the input of the head or of the pooling.
 * BEFORE_NORM: before the final norm (ViT). NARROWED: after the matrix that projects them to the width of the head
 * (OPT-350m). */
QKV_API enum qkv_family_hidden qkv_model_family_hidden(const struct qkv_model *model);

/* Gives the spec of the model in a folder, published or written by qkv, changed by settings (qkv_spec_parse). Fails
 * with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_FORMAT, QKV_SPEC. */
QKV_API enum qkv_status qkv_folder_spec(struct qkv_context *ctx, const char *folder, const char *const *settings,
                                        size_t setting_count, struct qkv_spec *spec);
/* Reads the tokenizer of a model's folder, or of a folder inside it that modules.json names, or of a GGUF file, or a
 * tokenizer.json; see qkv_tokenizer_open. *out is the caller's. Fails with QKV_MEMORY, QKV_FILE, QKV_FORMAT. */
QKV_API enum qkv_status qkv_folder_tokenizer(struct qkv_context *ctx, const char *path, struct qkv_tokenizer **out);
/* Whether a folder has weights, in one file or in several. Any thread. */
QKV_API bool qkv_folder_has_weights(const char *folder);

/* Writes a model as a published folder: config.json, model.safetensors and, if known, tokenizer.json,
 * tokenizer_config.json and generation_config.json, with all numbers in the format `format` (qkv_format_at). `type` is
 * the family; NULL: the family that the model came from, or the first one that can express its spec. A model that no
 * family can express is QKV_SPEC, with the difference to the nearest family. QKV_NUMBER, QKV_FILE and the treatment of
 * an existing folder are those of qkv_model_export. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_SPEC,
 * QKV_NUMBER. */
QKV_API enum qkv_status qkv_model_export_published(struct qkv_model *model, const char *type, const char *format,
                                                   const char *folder);

/* ---- GGUF files, written ---- */

/* Gives the name and a one-line description of the i-th mix of types for matrices, "Q4_K_M"; false past the last. A mix
 * has the types that llama.cpp chooses for that name: tensors that results depend on most get more bits. Any thread. */
QKV_API bool qkv_mix_at(size_t i, const char **name, const char **help);

/* Experimental: the importance of the columns of a model's matrices: the mean of the squares of what products multiply
 * them with. */
struct qkv_importance;
/* From now on passes, sessions and evaluations of the model measure it, until it is freed. A context measures one model
 * at a time; a second one and a planned model are QKV_ARGUMENT. The importance is freed before the model. Fails with
 * QKV_ARGUMENT, QKV_MEMORY. */
QKV_API enum qkv_status qkv_importance_create(struct qkv_model *model, struct qkv_importance **importance);
QKV_API void qkv_importance_free(struct qkv_importance *importance);

struct qkv_gguf_options {
    size_t size; /* sizeof(struct qkv_gguf_options), set by qkv_gguf_defaults */
    /* The mix of the matrices (qkv_mix_at), or the type of all of them, "f16", "mxfp4"; upper and lower case are the
     * same. A type that is also the name of a mix is the mix: "q4_K" is Q4_K_M. Default "f32". Vectors, small tables
     * and the matrices that choose experts are f32. */
    const char *format;
    bool pure; /* `format` is a type of all matrices, also where a mix has that name */
    /* The family, whose architecture the file gets; "qkv": the architecture that only qkv reads. NULL: the family that
     * the model came from, else the first that can express its spec, else "qkv". */
    const char *family;
    /* Rules "PATTERN=TYPE" for matrices, of which the last one that matches counts. PATTERN is compared with the names
     * of weights (qkv_model_parameter); * stands for any text, ? for any character. */
    const char *const *keep;
    size_t keep_count;
    /* A file of llama.cpp with the importance of columns (imatrix), in either of its formats; NULL: none.
     * Rounding weighs the square error of each column with it. */
    const char *imatrix;
    qkv_progress *progress; /* gets the bytes of data that are written; NULL: nobody */
    void *user;
    /* The importance of columns, measured on this model, in place of a file; NULL: none. */
    const struct qkv_importance *importance;
};
/* The format f32, no rules, no file of importance. */
QKV_API void qkv_gguf_options_init(struct qkv_gguf_options *options, size_t size);
static inline struct qkv_gguf_options qkv_gguf_defaults(void) {
    struct qkv_gguf_options options;
    qkv_gguf_options_init(&options, sizeof options);
    return options;
}
/* Checks options before any other work: the format, the rules, and whether the family is known. Fails with
 * QKV_ARGUMENT, QKV_MEMORY. */
QKV_API enum qkv_status qkv_gguf_options_check(struct qkv_context *ctx, const struct qkv_gguf_options *options);
/* Writes a model as a GGUF file of version 3, which qkv and llama.cpp read: keys of its architecture, its tokenizer and
 * its weights. A model that no architecture can express is written as architecture "qkv", with its spec and its
 * tokenizer as JSON. `options` NULL: the defaults.
 *
 * - Weights whose type stays are copied as they are; others are converted row by row, so that memory for a few rows is
 *   enough. Matrices whose rows are no whole blocks of their type get a smaller type, or f16; a note names them.
 * - The file replaces an older one only when it is complete and on disk.
 * - *notes, where notes is not NULL, gets sentences for people: what a reader of the file will not find, and which
 *   tensors have another type than the one asked for. It is the caller's, freed with qkv_gguf_notes_free; NULL after a
 *   failure.
 *
 * An unknown type, mix or family, a rule that matches nothing, importance without a matrix in blocks, and a planned
 * model are QKV_ARGUMENT; a family that
 * cannot express the model is QKV_SPEC; a number that is not finite, or too large for its type, is QKV_NUMBER, with the
 * name of the tensor. The callback or qkv_context_cancel stops the call with QKV_STOPPED. Fails with QKV_ARGUMENT,
 * QKV_MEMORY, QKV_FILE, QKV_FORMAT, QKV_SHAPE, QKV_SPEC, QKV_NUMBER, QKV_STOPPED. */
struct qkv_gguf_notes;
QKV_API enum qkv_status qkv_model_export_gguf(struct qkv_model *model, const struct qkv_gguf_options *options,
                                              const char *path, struct qkv_gguf_notes **notes);
/* The i-th sentence; NULL past the last. Owned by `notes`. Any thread. */
QKV_API const char *qkv_gguf_note_at(const struct qkv_gguf_notes *notes, size_t i);
/* The architecture of the file (general.architecture), "llama". Owned by the library. Any thread. */
QKV_API const char *qkv_gguf_notes_architecture(const struct qkv_gguf_notes *notes);
/* The name of the mix of the file's matrices, "Q4_K_M", or of their type, "q4_K". Owned by the library. Any thread. */
QKV_API const char *qkv_gguf_notes_format(const struct qkv_gguf_notes *notes);
/* Frees notes. NULL is allowed. */
QKV_API void qkv_gguf_notes_free(struct qkv_gguf_notes *notes);

/* Makes a list of the gradients of a model (`gradients` true) or of its weights (false), under the names and in the
 * shapes of its family. Gradients of frozen weights are left out. A model without a family is QKV_ARGUMENT. *out is the
 * caller's, freed with qkv_family_tensors_free. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_SPEC. */
struct qkv_family_tensors;
QKV_API enum qkv_status qkv_model_family_tensors(struct qkv_model *model, bool gradients,
                                                 struct qkv_family_tensors **out);
/* The i-th tensor; NULL past the last. Owned by `tensors`; weights point to the numbers of the model, gradients are
 * copies. */
QKV_API const struct qkv_array *qkv_family_tensors_at(const struct qkv_family_tensors *tensors, size_t i);
/* Frees a list. NULL is allowed. */
QKV_API void qkv_family_tensors_free(struct qkv_family_tensors *tensors);

#ifdef __cplusplus
}
#endif
#endif

#endif
