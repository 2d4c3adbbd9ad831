/* opening: a model that is opened from a path. Opening reads what says which weights there are, and lists them once;
 * the model is then planned. Filling takes the memory and reads the numbers. The kinds of places that models are read
 * from are rows of one list, a file source_NAME.c each. */
#ifndef QKV_OPENING_H
#define QKV_OPENING_H

#include "io/io.h"
#include "model/model.h"

struct qkv_opening;
/* A kind of place. Its functions are called in this order; each returns QKV_OK, or fails with a sentence. */
struct qkv_source {
    const char *name, *help;
    /* Reads what tells whether the opening's path is such a place. If it is, sets *mine, opening->spec and
     * opening->state. */
    enum qkv_status (*find)(struct qkv_opening *opening, bool *mine);
    /* Finds the weights of opening->model, which is planned, and sets opening->file, whose owner is the state. The
     * model then owns the file, and functions take it from opening->file.owner. */
    enum qkv_status (*match)(struct qkv_opening *opening);
    /* Checks everything that filling depends on, apart from memory. */
    enum qkv_status (*check)(struct qkv_opening *opening);
    /* The bytes of a weight in the files. */
    size_t (*bytes)(const struct qkv_opening *opening, const struct qkv_weight *weight);
    /* Takes memory besides that of the model; NULL: there is none. */
    enum qkv_status (*take)(struct qkv_opening *opening);
    /* Reads the numbers of the model, which has its memory. */
    enum qkv_status (*read)(struct qkv_opening *opening);
    /* Reads tokenizers, labels and settings. */
    enum qkv_status (*read_texts)(struct qkv_opening *opening);
    /* Frees opening->state. */
    void (*close)(struct qkv_opening *opening);
};
/* X(name): the rows, in the order in which they are asked. Another place that models are read from is a file and a
 * line here. */
#define QKV_SOURCE_LIST(X)                                                                                             \
    X(gguf)                                                                                                            \
    X(gguf_own)                                                                                                        \
    X(published)                                                                                                       \
    X(checkpoint)                                                                                                      \
    X(file)                                                                                                            \
    X(folder)
#define QKV_SOURCE_ROW(name) extern const struct qkv_source qkv_source_##name;
QKV_SOURCE_LIST(QKV_SOURCE_ROW)
#undef QKV_SOURCE_ROW

struct qkv_opening {
    struct qkv_context *ctx;
    struct qkv_model_open_options options; /* ignore_digest is also true if the context's is */
    char *path;                            /* as the caller gave it; messages about memory name it */
    char *adapter;                         /* the folder of the model's adapter; NULL: it has none */
    char **named;                          /* name and folder of each adapter with a name */
    struct qkv_model_place place;
    struct qkv_file_list files; /* the texts that were read */
    const struct qkv_source *source;
    struct qkv_spec *spec;      /* NULL once the model has a copy */
    struct qkv_gguf *keys;      /* of a GGUF file of our own; NULL: none */
    void *state;                /* of the source: open files; NULL once the model owns them */
    struct qkv_model_file file; /* the same, as the model reads weights from it */
    struct qkv_model *model;    /* planned; NULL once it is filled */
};

/* ---- weights under our names (own_weights.c) ---- */
/* Reads config.json into opening->spec, and opens the file of the weights, opening->state, unless another row has. */
enum qkv_status qkv_own_open(struct qkv_opening *opening);
/* Functions of such rows. */
enum qkv_status qkv_own_match(struct qkv_opening *opening);
size_t qkv_own_bytes(const struct qkv_opening *opening, const struct qkv_weight *weight);
enum qkv_status qkv_own_read(struct qkv_opening *opening);
enum qkv_status qkv_own_read_texts(struct qkv_opening *opening);
void qkv_own_close(struct qkv_opening *opening);
/* Checks that the file has all weights of the model in their shapes, and no other tensor. Names of tensors that begin
 * with `besides` are not weights; NULL: there are none. */
enum qkv_status qkv_own_check(struct qkv_opening *opening, const char *besides);
/* Fails if the digest that the weights were saved with is not that of the model's spec. */
enum qkv_status qkv_own_check_digest(struct qkv_opening *opening, const char *saved);

/* ---- weights of a family (their_weights.c) ---- */
/* Opens a published folder or a GGUF file, if the path is one, as opening->state. */
enum qkv_status qkv_theirs_open(struct qkv_opening *opening, bool *mine);
/* Functions of such rows. */
enum qkv_status qkv_theirs_match(struct qkv_opening *opening);
enum qkv_status qkv_theirs_check(struct qkv_opening *opening);
size_t qkv_theirs_bytes(const struct qkv_opening *opening, const struct qkv_weight *weight);
enum qkv_status qkv_theirs_take(struct qkv_opening *opening);
enum qkv_status qkv_theirs_read(struct qkv_opening *opening);
enum qkv_status qkv_theirs_read_texts(struct qkv_opening *opening);
void qkv_theirs_close(struct qkv_opening *opening);

/* ---- texts (own_texts.c) ---- */
/* Reads a tokenizer file, if it exists, and gives it to the model. */
enum qkv_status qkv_texts_tokenizer(struct qkv_opening *opening, const char *name,
                                    enum qkv_status (*set)(struct qkv_model *, struct qkv_tokenizer *));
/* Reads the tokenizer of the sources, which only qkv writes, also into published folders. */
enum qkv_status qkv_texts_source_tokenizer(struct qkv_opening *opening);

#endif
