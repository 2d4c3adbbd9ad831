/* spec: the keys of config.json, as one table that drives parsing, printing, checking and messages.
 *
 * This header offers the tables of keys with their types, ranges, defaults and choices, and the recipes of presets. A
 * new kind is a line in its list in qkv.h; a new key is a field of its struct and a line in spec_keys.c,
 * spec_embed_keys.c or spec_layer_keys.c. */
#ifndef QKV_SPEC_H
#define QKV_SPEC_H

#include "base/base.h"

enum qkv_key_type {
    QKV_KEY_CONSTANT, /* "format": always the same JSON text */
    QKV_KEY_VERSION,  /* "version": 1 or 2 in a file; spec_version1.c converts 1 to 2 before keys are read */
    QKV_KEY_WHOLE,    /* int */
    QKV_KEY_REAL,     /* double that is used as a float */
    QKV_KEY_FLAG,     /* bool */
    QKV_KEY_CHOICE,   /* enum */
    QKV_KEY_LIST,     /* struct qkv_number_list; the object's check knows how many numbers it needs */
    QKV_KEY_OBJECT,   /* a struct with keys of its own */
    QKV_KEY_KINDS,    /* kinds of layers by name, each an object */
    QKV_KEY_PATTERN   /* the kind of each layer: a list of names that is repeated */
};

enum {
    QKV_KEY_REQUIRED = 1, /* has no default */
    /* null in JSON: 0 in the struct, an absent stack, cross attention without keys of its own */
    QKV_KEY_NULL = 2,
    QKV_KEY_LATE = 4,       /* may be missing until tokenizer or data are known: 0 in the struct */
    QKV_KEY_MASK = 8,       /* of self attention, a mask or share: cross attention does not inherit it */
    QKV_KEY_OF_HEADS = 16,  /* cross attention inherits it only with the same number of heads */
    QKV_KEY_ABOVE_LOW = 32, /* low itself is out of range */
    QKV_KEY_BELOW_HIGH = 64,
    QKV_KEY_NOT_ZERO = 128,
    QKV_KEY_IDLE = 256,    /* where the key does not apply, any valid value is accepted and dropped */
    QKV_KEY_SOFTCAP = 512, /* attention divides by it: qkv_softcap_valid */
    /* newer than version 1: printed, and part of the digest, only where it is not `neutral` */
    QKV_KEY_LATER = 1024,
    /* an object of initialisation: in no digest, printed where it is not neutral */
    QKV_KEY_START = 8192,
    /* an object that may be null, its default: its struct begins with `bool given`; where that is false, nothing of it
     * is printed, checked or part of digests */
    QKV_KEY_OPTIONAL = 16384,
    /* an object of every stack: at the top it is common to all stacks, inside a stack it overrides that */
    QKV_KEY_COMMON = 32768,
    QKV_KEY_OF_LAYER = 65536, /* of a kind of layer; next to named kinds it is common to all kinds */
    /* with QKV_KEY_NULL: a rate that may be that of the whole spec. null in JSON is 0 in the struct, 0 in JSON is −1 in
     * the struct */
    QKV_KEY_RATE = 131072
};

enum { QKV_KEY_PATH = 160 };

/* A spec as it is written. `spec` is the first field, so offsets of keys count from either struct. */
struct qkv_written_spec {
    struct qkv_spec spec;
    bool reading;                /* the spec is being read from JSON */
    bool pair;                   /* reading: there are two stacks */
    struct qkv_embed_spec embed; /* common to the stacks: that of the decoder, or of an encoder alone */
    /* The keys of version 1 (spec_version1.c): one position of the embedding or of all attentions, and one scale. */
    struct qkv_position_spec position;
    double embed_scale;
    bool first; /* writing: version 1 can express the spec */
};
_Static_assert(offsetof(struct qkv_written_spec, spec) == 0, "offsets count from both");

/* The layer that has the weights of a layer, in a stack of so many layers and groups (qkv_stack_weights_of). */
size_t qkv_stack_first_of_group(size_t layers, size_t groups, size_t layer);
/* Whether the stack exists and reads ids. */
bool qkv_stack_reads_tokens(const struct qkv_stack_spec *stack);
/* The positions of a source that a plan has with a target of T positions: T, if the encoder has as many; an encoder of
 * frames, which are always padded, has all its positions. */
size_t qkv_spec_source_length(const struct qkv_spec *spec, size_t T);
/* Whether the head scores classes. */
bool qkv_head_has_classes(const struct qkv_spec *spec);
/* "tokens", "patches", … */
const char *qkv_input_text(enum qkv_input_kind kind);
/* The name of a kind of tie; whether it ties the head to the token embedding; whether both stacks share theirs. */
const char *qkv_tie_text(enum qkv_tie tie);
bool qkv_tie_has_head(enum qkv_tie tie);
bool qkv_tie_has_stacks(enum qkv_tie tie);
/* "lm", "classify", … */
const char *qkv_head_text(enum qkv_head_kind kind);
/* Whether a kind of position belongs to attention; else it is added to the embedding. */
bool qkv_position_in_attention(enum qkv_position_kind kind);
bool qkv_position_in_embedding(enum qkv_position_kind kind);
/* A spec to be read, with room for every number of layers and kinds; NULL without memory (spec_copy.c). */
struct qkv_written_spec *qkv_written_allocate(struct qkv_context *ctx);
void qkv_written_free(struct qkv_written_spec *written);
/* Makes the spec that is to be written, with what is common to the stacks (spec_written.c). It has the kinds of `spec`
 * itself, which stay as they are. */
void qkv_spec_write(const struct qkv_spec *spec, struct qkv_written_spec *written);
/* The canonical form of a spec: kinds that mean the same are one kind, kinds are named by numbers in the order of their
 * first layers, and a single kind has no name. The caller frees it (qkv_spec_free). */
enum qkv_status qkv_spec_canonical(struct qkv_context *ctx, const struct qkv_spec *spec, struct qkv_spec *canonical);

/* The place of a key: the object that has it, and everything that defaults depend on. */
struct qkv_place {
    struct qkv_written_spec *written;
    struct qkv_spec *spec;              /* of `written` */
    struct qkv_stack_spec *stack;       /* NULL: outside the stacks */
    struct qkv_layer_spec *layer;       /* the kind of layer; the first kind by default; NULL: outside the stacks */
    void *object;                       /* the struct that offsets of keys count from */
    const struct qkv_embed_spec *embed; /* inside an embedding: the whole embedding */
    const void *common;                 /* inside an object that overrides: the object that is common to the stacks */
    const struct qkv_attention_spec *like; /* cross attention: the attention that its defaults come from */
    char path[QKV_KEY_PATH];               /* "decoder.attention." */
};

struct qkv_key {
    const char *name;
    enum qkv_key_type type;
    unsigned flags;
    size_t offset;
    double low, high;                          /* WHOLE, REAL */
    const char *text;                          /* REAL: the range in words; CONSTANT: the JSON text */
    const struct qkv_spec_choice *choices;     /* CHOICE: in the order of the enum; text NULL: the end, "": none */
    const struct qkv_key *keys;                /* OBJECT: ends with a name that is NULL */
    double neutral;                            /* QKV_KEY_LATER: the value that means that the key is left out */
    double value;                              /* the default, */
    double (*rule)(const struct qkv_place *);  /* or a function that computes it */
    bool (*applies)(const struct qkv_place *); /* whether the key has a meaning here; NULL: always */
    const char *owner;                         /* where it has a meaning, for messages */
    /* texts for qkv_spec_describe (spec_help.c); a test describes every key */
    const char *help;     /* what the key does; what an object describes */
    const char *standard; /* the default in words, where `value` does not give it; every rule needs it */
    /* a value as JSON that is not the default; FLAG and CHOICE need none */
    const char *example;
    /* settings that the example needs, separated by spaces: of the same object, "kind=rope"; with a slash, of the whole
     * spec, "/encoder.layers=2". The keys of an object need its settings too. */
    const char *needs;
};

extern const struct qkv_key qkv_spec_keys[];

/* ---- version 1 (spec_version1_keys.c, spec_version1.c) ---- */
/* The keys that only version 1 has: position and embed_scale. Settings may use them with any spec. */
extern const struct qkv_key qkv_version1_keys[];
/* Whether version 1 can express a spec. Such a spec is printed in version 1, and its digest is that of version 1, so
 * that config.json and the digests of older models stay valid. Sets written->position, embed_scale and first. */
void qkv_version1_express(struct qkv_written_spec *written);
/* Whether version 1 has no such key. */
bool qkv_version1_lacks(const struct qkv_key *key);

struct qkv_place qkv_spec_place(struct qkv_written_spec *written);
/* The place of an object's own keys. */
struct qkv_place qkv_key_enter(const struct qkv_place *place, const struct qkv_key *key);
/* The place of the keys of the i-th kind in a stack; `kinds` is the key of the kinds. */
struct qkv_place qkv_kind_enter(const struct qkv_place *place, const struct qkv_key *kinds, size_t i);
/* Inside an object that overrides: whether the key, or a key inside its object, differs from the common one. */
bool qkv_key_differs(const struct qkv_key *key, const struct qkv_place *place);
bool qkv_key_applies(const struct qkv_key *key, const struct qkv_place *place);
/* Whether a key's object is given; only QKV_KEY_OPTIONAL objects can be changed by qkv_key_give, all others always
 * are. */
bool qkv_key_given(const struct qkv_key *key, const struct qkv_place *place);
void qkv_key_give(const struct qkv_key *key, const struct qkv_place *place, bool given);
/* The field of a LIST. */
const struct qkv_number_list *qkv_key_list(const struct qkv_key *key, const struct qkv_place *place);
/* The field of a WHOLE, REAL, FLAG or CHOICE key as a number; of a LIST the number of its entries. */
double qkv_key_get(const struct qkv_key *key, const struct qkv_place *place);
void qkv_key_set(const struct qkv_key *key, const struct qkv_place *place, double value);
double qkv_key_default(const struct qkv_key *key, const struct qkv_place *place);
bool qkv_key_in_range(const struct qkv_key *key, double value);
/* The allowed range, for messages: "a whole number from 1 to 1000". */
void qkv_key_range_text(const struct qkv_key *key, char *text, size_t size);
/* The same without the smallest and largest size of a float. */
void qkv_key_words(const struct qkv_key *key, char *text, size_t size);
/* A short decimal text that reads back as x, with a point or an exponent whatever the locale; free() it. */
char *qkv_key_real_text(double x);

/* Notes that the message of a failure is about the key at `path`, or about the nearest object around it that has keys
 * (qkv_message_key; spec_help.c). */
void qkv_spec_fail_key(struct qkv_context *ctx, const char *path);

/* Implements qkv_spec_check. `name` begins messages. vocab_known: a missing vocabulary is an error. */
enum qkv_status qkv_spec_check_as(struct qkv_context *ctx, const struct qkv_spec *spec, const char *name,
                                  bool vocab_known);
/* The same of a spec that qkv_spec_write wrote. */
enum qkv_status qkv_spec_check_written(struct qkv_context *ctx, struct qkv_written_spec *written, const char *name,
                                       bool vocab_known);
/* The same for the keys of one object, at its place in `written`. */
enum qkv_status qkv_spec_check_object(struct qkv_context *ctx, struct qkv_written_spec *written, const char *name,
                                      const struct qkv_key *keys, const struct qkv_place *place);
/* The norms that each sublayer has. */
enum qkv_block_norms qkv_placement_norms(enum qkv_placement placement);
/* ---- layers that share keys and values (spec_share.c) ---- */
/* Checks the shares of a stack; else QKV_SPEC, about `name`. */
enum qkv_status qkv_spec_check_share(struct qkv_context *ctx, const char *name, const struct qkv_place *place);
/* The n-th layer before a layer whose keys and values are alike, which may share too; SIZE_MAX: there are fewer. */
size_t qkv_stack_keys_before(const struct qkv_stack_spec *stack, size_t layer, size_t n);
/* Whether a layer of the stack reads keys and values of another one. */
bool qkv_stack_shares_keys(const struct qkv_stack_spec *stack);
/* The name of a kind in messages, "decoder.kinds.local", or "decoder" if it has no name. */
enum { QKV_KIND_TEXT = QKV_KIND_NAME + 32 };
void qkv_kind_text(const char *stack, const struct qkv_layer_spec *kind, char text[QKV_KIND_TEXT]);
/* Whether a text can be the name of a kind of layer. */
bool qkv_kind_name_valid(const char *name);
/* The smallest period of the kinds of a stack's layers. */
size_t qkv_stack_period(const struct qkv_stack_spec *stack);

/* The digest of a spec with all its defaults, as 16 hexadecimal digits: the same for every way to write the spec, in
 * this version of the format and in later ones (spec_digest.c; docs/digests.md has the canonical form). */
#define QKV_DIGEST_TEXT 17
#define QKV_DIGEST_KEY  "spec_digest" /* in the metadata of weights */
enum qkv_status qkv_spec_digest(struct qkv_context *ctx, const struct qkv_spec *spec, char text[QKV_DIGEST_TEXT]);
/* The digest as a number, from a table of keys that ends with a name that is NULL. */
enum qkv_status qkv_spec_digest_keys(struct qkv_context *ctx, const struct qkv_key *keys, const struct qkv_spec *spec,
                                     uint64_t *digest);

/* qkv_spec_parse and qkv_spec_read, with settings, which also say which settings had an effect. */
enum qkv_status qkv_spec_parse_all(struct qkv_context *ctx, struct qkv_spec *spec, const char *name, const char *text,
                                   size_t size, const struct qkv_settings *settings);
enum qkv_status qkv_spec_read_all(struct qkv_context *ctx, struct qkv_spec *spec, const char *path,
                                  const struct qkv_settings *settings);

/* The JSON of a preset; NULL for an unknown name. */
const char *qkv_preset_json(const char *name);
/* Fails with QKV_ARGUMENT and the names of presets if there is no preset of that name. */

enum qkv_status qkv_preset_check(struct qkv_context *ctx, const char *name);

#endif
