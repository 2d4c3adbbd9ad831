/* spec: the keys of config.json, as one table that parsing, printing, checking and error messages are driven by.
 *
 * Offers: the tables of keys with their types, ranges, defaults and the choices of every kind; the recipes of presets.
 * A new kind is a line in its list in qkv.h; a new key is a field of its struct and a line in spec_keys.c, spec_embed_keys.c or
 * spec_layer_keys.c. */
#ifndef QKV_SPEC_H
#define QKV_SPEC_H

#include "base/base.h"

enum qkv_key_type {
    QKV_KEY_CONSTANT, /* "format": always the same JSON text */
    QKV_KEY_VERSION,  /* int that says which keys there are */
    QKV_KEY_WHOLE,    /* int */
    QKV_KEY_REAL,     /* double that is used as a float */
    QKV_KEY_FLAG,     /* bool */
    QKV_KEY_CHOICE,   /* enum */
    QKV_KEY_LIST,     /* struct qkv_number_list; what it counts is up to the object's check */
    QKV_KEY_OBJECT,   /* a struct with keys of its own */
    QKV_KEY_KINDS,    /* kinds of layers by their names, each an object */
    QKV_KEY_PATTERN   /* which layer is of which kind: a list of names that is repeated */
};

enum {
    QKV_KEY_REQUIRED = 1,   /* has no default */
    QKV_KEY_NULL = 2,       /* null in JSON: 0 in the struct, an absent stack, a second attention without own keys */
    QKV_KEY_LATE = 4,       /* may be missing until tokenizer or data are known: 0 in the struct */
    QKV_KEY_MASK = 8,       /* self attention's mask, which cross attention does not take over */
    QKV_KEY_OF_HEADS = 16,  /* cross attention takes it over only with the same number of heads */
    QKV_KEY_ABOVE_LOW = 32, /* low itself is out of range */
    QKV_KEY_BELOW_HIGH = 64,
    QKV_KEY_NOT_ZERO = 128,
    QKV_KEY_IDLE = 256,       /* where it has no meaning any valid value is accepted, and dropped */
    QKV_KEY_SOFTCAP = 512,    /* attention divides by it: qkv_softcap_valid */
    QKV_KEY_LATER = 1024,     /* from after version 1: in the digest, and printed, only where it is not `neutral` */
    QKV_KEY_VERSION_1 = 2048, /* files of the other version do not have it; settings may have both */
    QKV_KEY_VERSION_2 = 4096,
    /* an object that says what training starts from: in no digest, printed where it is not neutral */
    QKV_KEY_START = 8192,
    /* an object that may be null, which is its default: its struct begins with `bool given`, and where that is false nothing of it
     * is printed, checked or in digests */
    QKV_KEY_OPTIONAL = 16384,
    /* an object that every stack has: at the top what is common to them, in a stack what it has of its own */
    QKV_KEY_COMMON = 32768,
    QKV_KEY_OF_LAYER = 65536, /* of a kind of layer; beside named kinds it is what they have in common */
    /* with QKV_KEY_NULL: a rate that may be the whole's. 0 in the struct is null in JSON, and -1 in the struct 0 in
     * JSON */
    QKV_KEY_RATE = 131072
};

enum { QKV_KEY_PATH = 160 };

/* A spec as it is written: with what version 1 says in one place and version 2 of each kind of layer. `spec` is the first
 * field, so offsets of keys may count from either. */
struct qkv_written_spec {
    struct qkv_spec spec;
    int version;                       /* whose keys there are */
    bool reading;                      /* of both versions: settings may be written either way */
    bool pair;                         /* reading: there are both stacks */
    bool position_given;               /* reading: `position` says it all, or its default does */
    struct qkv_position_spec position; /* version 1: of the embedding, or of all attentions */
    bool embed_scale_given;            /* the same of `embed_scale` */
    double embed_scale;
    struct qkv_embed_spec embed; /* what stacks have in common: that of the decoder, or of the lone encoder */
};
_Static_assert(offsetof(struct qkv_written_spec, spec) == 0, "offsets count from both");

/* Whether there is a stack and it reads ids. */
bool qkv_stack_reads_tokens(const struct qkv_stack_spec *stack);
/* The positions of a source that a plan has beside a target of T: as many, where the encoder has them; of frames, which are always filled
 * up, all that it has. */
size_t qkv_spec_source_length(const struct qkv_spec *spec, size_t T);
/* Whether the scores are those of classes. */
bool qkv_head_has_classes(const struct qkv_spec *spec);
/* "tokens", "patches", … */
const char *qkv_input_text(enum qkv_input_kind kind);
/* "lm", "classify", … */
/* The name of a way to tie; whether the head is the token embedding, and whether both stacks share theirs. */
const char *qkv_tie_text(enum qkv_tie tie);
bool qkv_tie_has_head(enum qkv_tie tie);
bool qkv_tie_has_stacks(enum qkv_tie tie);
const char *qkv_head_text(enum qkv_head_kind kind);
/* Whether a kind of position is a part of attention, or added to the embedding. */
bool qkv_position_in_attention(enum qkv_position_kind kind);
bool qkv_position_in_embedding(enum qkv_position_kind kind);
/* As version 1 where that can say the same, else as version 2 (spec_written.c). */
void qkv_spec_write(const struct qkv_spec *spec, struct qkv_written_spec *written);
/* The same spec with kinds that mean the same made one, those left named by numbers in the order of their first layers, and a
 * single one without a name. `work` is overwritten: specs are too large for stacks. */
void qkv_spec_canonical(const struct qkv_spec *spec, struct qkv_written_spec *work, struct qkv_spec *canonical);

/* Where a key is: the object that holds it, and what defaults depend on. */
struct qkv_place {
    struct qkv_written_spec *written;
    struct qkv_spec *spec;        /* of `written` */
    struct qkv_stack_spec *stack; /* NULL outside of the stacks */
    struct qkv_layer_spec *layer; /* the kind; the first one where there is no other; NULL outside of the stacks */
    void *object;                 /* the struct that the keys' offsets count from */
    const struct qkv_embed_spec *embed; /* inside an embedding: the whole of it */
    const void *common;                 /* inside what a stack has of its own: `object` of what stacks have in common */
    const struct qkv_attention_spec *like; /* cross attention: the attention its defaults come from */
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
    double neutral;                            /* QKV_KEY_LATER: the value that means "as in version 1" */
    double value;                              /* the default, */
    double (*rule)(const struct qkv_place *);  /* or a function for it */
    bool (*applies)(const struct qkv_place *); /* whether it means anything here; NULL: always */
    const char *owner;                         /* what it means something in, for messages */
    const char *instead;                       /* VERSION_1: what version 2 has, for messages */
    /* In words, for qkv_spec_describe (spec_help.c); a test describes every key. */
    const char *help;     /* what it does; of an object what it describes */
    const char *standard; /* the default, where `value` does not say it: of every rule */
    /* a value as JSON, other than the default; FLAG and CHOICE may do without one */
    const char *example;
    /* settings that the example needs, with spaces between them: of the same object, "kind=rope"; with a slash of the
     * whole spec, "/encoder.layers=2". Those of an object are needed by its keys too. */
    const char *needs;
};

extern const struct qkv_key qkv_spec_keys[];

struct qkv_place qkv_spec_place(struct qkv_written_spec *written);
/* The place of an object's own keys. */
struct qkv_place qkv_key_enter(const struct qkv_place *place, const struct qkv_key *key);
/* The place of the keys of the i-th kind in a stack, whose key is `kinds`. */
struct qkv_place qkv_kind_enter(const struct qkv_place *place, const struct qkv_key *kinds, size_t i);
/* In what a stack has of its own, whether a key, or one in the object that it is, says anything but what stacks have in common. */
bool qkv_key_differs(const struct qkv_key *key, const struct qkv_place *place);
bool qkv_key_applies(const struct qkv_key *key, const struct qkv_place *place);
/* Whether there is a key's object; to be changed for QKV_KEY_OPTIONAL alone, as others are always there. */
bool qkv_key_given(const struct qkv_key *key, const struct qkv_place *place);
void qkv_key_give(const struct qkv_key *key, const struct qkv_place *place, bool given);
/* What an optional object is that is not written: of a rotation the scaling of the whole model's, where that is said in one place; else
 * null. */
void qkv_key_inherit(const struct qkv_key *key, const struct qkv_place *place);
/* The field of a LIST. */
const struct qkv_number_list *qkv_key_list(const struct qkv_key *key, const struct qkv_place *place);
/* The field of a WHOLE, REAL, FLAG or CHOICE key, as a number; of a LIST how many it has. */
double qkv_key_get(const struct qkv_key *key, const struct qkv_place *place);
void qkv_key_set(const struct qkv_key *key, const struct qkv_place *place, double value);
double qkv_key_default(const struct qkv_key *key, const struct qkv_place *place);
bool qkv_key_in_range(const struct qkv_key *key, double value);
/* The values that a key may have, for messages: "a whole number from 1 to 1000". */
void qkv_key_range_text(const struct qkv_key *key, char *text, size_t size);
/* The same without the smallest and largest size of a float. */
void qkv_key_words(const struct qkv_key *key, char *text, size_t size);
/* A short decimal text that reads back as x, with a point or an exponent whatever the locale; free() it. */
char *qkv_key_real_text(double x);

/* Says that the sentence of a failure is about the key at `path`, or about the nearest object around it that has keys
 * (qkv_message_key; spec_help.c). */
void qkv_spec_fail_key(struct qkv_context *ctx, const char *path);

/* The check behind qkv_spec_check; `name` is what messages begin with. `vocab_known`: a missing vocabulary is an error. */
enum qkv_status qkv_spec_check_as(struct qkv_context *ctx, const struct qkv_spec *spec, const char *name,
                                  bool vocab_known);
/* The same, with the names that keys have in the version of `written`. */
enum qkv_status qkv_spec_check_written(struct qkv_context *ctx, struct qkv_written_spec *written, const char *name,
                                       bool vocab_known);
/* The norms of each sublayer. */
enum qkv_block_norms qkv_placement_norms(enum qkv_placement placement);
/* A kind in messages, "decoder.kinds.local", or "decoder" where it has no name. */
enum { QKV_KIND_TEXT = QKV_KIND_NAME + 32 };
void qkv_kind_text(const char *stack, const struct qkv_layer_spec *kind, char text[QKV_KIND_TEXT]);
/* Whether a text can be the name of a kind of layer. */
bool qkv_kind_name_valid(const char *name);
/* The most layers after which the kinds of a stack come again. */
size_t qkv_stack_period(const struct qkv_stack_spec *stack);

/* The digest of a spec with all its defaults, as 16 hexadecimal digits: the same for every way to write the spec, in this
 * version of the format and in later ones (spec_digest.c; docs/digests.md has the canonical form). */
#define QKV_DIGEST_TEXT 17
#define QKV_DIGEST_KEY  "spec_digest" /* in the metadata of weights */
enum qkv_status qkv_spec_digest(struct qkv_context *ctx, const struct qkv_spec *spec, char text[QKV_DIGEST_TEXT]);
/* The same as a number, by a table of keys that ends with a name that is NULL. */
enum qkv_status qkv_spec_digest_keys(struct qkv_context *ctx, const struct qkv_key *keys, const struct qkv_spec *spec,
                                     uint64_t *digest);

/* qkv_spec_parse and qkv_spec_read with settings that tell which of them had an effect. */
enum qkv_status qkv_spec_parse_all(struct qkv_context *ctx, struct qkv_spec *spec, const char *name, const char *text,
                                   size_t size, const struct qkv_settings *settings);
enum qkv_status qkv_spec_read_all(struct qkv_context *ctx, struct qkv_spec *spec, const char *path,
                                  const struct qkv_settings *settings);

/* The JSON of a preset; NULL for an unknown name. */
const char *qkv_preset_json(const char *name);
/* QKV_ARGUMENT, with the names of all, where there is no preset of that name. */
enum qkv_status qkv_preset_check(struct qkv_context *ctx, const char *name);

#endif
