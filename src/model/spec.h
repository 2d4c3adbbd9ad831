/* spec: the keys of config.json, as one table that parsing, printing, checking and error messages are driven by.
 *
 * Offers: the tables of keys with their types, ranges, defaults and the choices of every kind; the recipes of presets.
 * A new kind is a line in its list in qkv.h; a new key is a field of its struct and a line in spec_keys.c. */
#ifndef QKV_SPEC_H
#define QKV_SPEC_H

#include "base/base.h"

enum qkv_key_type {
    QKV_KEY_CONSTANT, /* "format", "version": always the same JSON text */
    QKV_KEY_WHOLE,    /* int */
    QKV_KEY_REAL,     /* double that is used as a float */
    QKV_KEY_FLAG,     /* bool */
    QKV_KEY_CHOICE,   /* enum */
    QKV_KEY_OBJECT    /* a struct with keys of its own */
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
    QKV_KEY_IDLE = 256,    /* where it has no meaning any valid value is accepted, and dropped */
    QKV_KEY_SOFTCAP = 512, /* attention divides by it: qkv_softcap_valid */
    QKV_KEY_LATER = 1024   /* from after version 1: enters the digest only where it is not `neutral` (spec_digest.c) */
};

enum { QKV_KEY_PATH = 64 };

/* Where a key is: the object that holds it, and what defaults depend on. */
struct qkv_place {
    struct qkv_spec *spec;
    struct qkv_stack_spec *stack;          /* NULL outside of the stacks */
    void *object;                          /* the struct that the keys' offsets count from */
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
    const char *const *choices;                /* CHOICE: NULL-terminated, in the order of the enum */
    const struct qkv_key *keys;                /* OBJECT: ends with a name that is NULL */
    double neutral;                            /* QKV_KEY_LATER: the value that means "as in version 1" */
    double value;                              /* the default, */
    double (*rule)(const struct qkv_place *);  /* or a function for it */
    bool (*applies)(const struct qkv_place *); /* whether it means anything here; NULL: always */
    const char *owner;                         /* what it means something in, for messages */
};

extern const struct qkv_key qkv_spec_keys[];

struct qkv_place qkv_spec_place(struct qkv_spec *spec);
/* The place of an object's own keys. */
struct qkv_place qkv_key_enter(const struct qkv_place *place, const struct qkv_key *key);
bool qkv_key_applies(const struct qkv_key *key, const struct qkv_place *place);
/* The field of a WHOLE, REAL, FLAG or CHOICE key, as a number. */
double qkv_key_get(const struct qkv_key *key, const struct qkv_place *place);
void qkv_key_set(const struct qkv_key *key, const struct qkv_place *place, double value);
double qkv_key_default(const struct qkv_key *key, const struct qkv_place *place);
bool qkv_key_in_range(const struct qkv_key *key, double value);
/* What is allowed, for messages: "a whole number from 1 to 1000". */
void qkv_key_range_text(const struct qkv_key *key, char *text, size_t size);
/* A short decimal text that reads back as x, with a point or an exponent whatever the locale; free() it. */
char *qkv_key_real_text(double x);

/* The check behind qkv_spec_check; `name` is what messages begin with. `vocab_known`: a missing vocabulary is an error. */
enum qkv_status qkv_spec_check_as(struct qkv_context *ctx, const struct qkv_spec *spec, const char *name,
                                  bool vocab_known);

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

/* The training options that suit a preset, "rate=1e-3", NULL-terminated; NULL for an unknown name. */
const char *const *qkv_preset_recipe(const char *name);

/* The JSON of a preset; NULL for an unknown name. */
const char *qkv_preset_json(const char *name);

#endif
