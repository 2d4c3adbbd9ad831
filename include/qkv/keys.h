/* qkv/keys.h: the keys of a spec in words: what each does, its values, its default and an example; a part of qkv.h,
 * which includes it. Experimental. */
#ifndef QKV_PUBLIC_KEYS_H
#define QKV_PUBLIC_KEYS_H

#include "qkv/spec.h"

#ifdef QKV_EXPERIMENTAL
#ifdef __cplusplus
extern "C" {
#endif

/* One of the values of a key. */
struct qkv_spec_choice {
    const char *text; /* the value: "rope" */
    const char *help; /* what it does */
};
/* Sizes of the texts of a key, and the largest number of its values. */
enum { QKV_SPEC_KEY_PATH = 128, QKV_SPEC_KEY_TEXT = 256, QKV_SPEC_KEY_JSON = 1024, QKV_SPEC_KEY_CHOICES = 24 };
/* A key of config.json in words. Texts that are pointers are static. */
struct qkv_spec_key {
    char path[QKV_SPEC_KEY_PATH]; /* "decoder.attention.heads" */
    /* the path of the part that lists this key, "decoder.attention"; "" for a key at the top. A key of `encoder`, of
     * `cross` or of a kind of layer is in the part that lists the same keys. */
    char part[QKV_SPEC_KEY_PATH];
    char inside[QKV_SPEC_KEY_PATH];   /* for a key whose value is an object: the part that lists its keys; else "" */
    const char *help;                 /* what the key does, in sentences */
    char range[QKV_SPEC_KEY_TEXT];    /* the values it may have: "a whole number from 1 to 1000" */
    char standard[QKV_SPEC_KEY_TEXT]; /* its default: "10000", "d_model / heads"; "" if it must be given */
    const char *owner;                /* what may have the key: "position.kind rope"; NULL: nothing else is needed */
    char example[QKV_SPEC_KEY_TEXT];  /* a value as JSON: "8" */
    /* settings, with spaces between them, that the example needs besides: "decoder.attention.position.kind=rope" */
    char needs[QKV_SPEC_KEY_TEXT];
    char json[QKV_SPEC_KEY_JSON]; /* the example, with what it needs, as an object of config.json */
    size_t choice_count;          /* 0: the key has no list of values */
    struct qkv_spec_choice choices[QKV_SPEC_KEY_CHOICES];
};
/* A part of a spec: an object with keys. All texts are static. */
struct qkv_spec_part {
    const char *path;  /* "decoder.attention"; "" for the whole */
    const char *title; /* "Attention" */
    const char *help;  /* what the part describes, in sentences */
};
/* Gives the i-th part of a spec, in the order in which a reader meets them; false past the last. Any thread. */
QKV_API bool qkv_spec_part_at(size_t i, struct qkv_spec_part *part);
/* Describes the i-th key, by parts. Keys that several objects have are listed once: those of `encoder` as those of
 * `decoder`, those of `cross` as those of `attention`. False past the last. Any thread. */
QKV_API bool qkv_spec_describe_at(size_t i, struct qkv_spec_key *key);
/* Describes the key at a path, also one that qkv_spec_describe_at lists under another path:
 * "encoder.attention.heads", "decoder.kinds.local.norm". False if there is none. Any thread. */
QKV_API bool qkv_spec_describe(const char *path, struct qkv_spec_key *key);
/* The key that the sentence of qkv_message is about, if that is about a key of a spec: its path, or the path of the
 * nearest object around an unknown key, "" for the whole spec; else NULL. Owned by the context, valid until the next
 * call with it. */
QKV_API const char *qkv_message_key(const struct qkv_context *ctx);

#ifdef __cplusplus
}
#endif
#endif

#endif
