/* Reading a spec from JSON, for the files that do it: spec_reader.c <- spec_settings.c <- spec_kinds.c <- spec_parse.c
 * <- spec_version1.c <- spec_read.c.
 *
 * The settings are put into the tree first. What the tree says in the words of version 1 is converted to those of
 * version 2. Then every key is read by its line in the table, which knows version 2 only. */
#ifndef QKV_SPEC_READER_H
#define QKV_SPEC_READER_H

#include "base/json_load.h"
#include "model/spec.h"

enum { QKV_SPEC_PATH = 2 * QKV_KEY_PATH };

struct qkv_spec_reader {
    struct qkv_context *ctx;
    const char *name; /* of what the settings change, for messages; NULL: of nothing yet */
    const char *const *settings;
    size_t setting_count;
    bool *idle;                 /* [setting_count]: which settings have no effect; NULL: that is a failure */
    bool *shared;               /* [setting_count]: which have an effect as what kinds have in common */
    const json_t *file;         /* the tree as it was before the settings, */
    const json_t *tree;         /* and with them */
    bool position, embed_scale; /* the tree had these words of version 1 */
};

/* ---- spec_reader.c ---- */

/* Fails with a sentence about the key at `path`, after the name of the file or the setting that it comes from. */
enum qkv_status qkv_spec_reader_fail(const struct qkv_spec_reader *r, const char *path, const char *format, ...)
    QKV_PRINTF(3, 4);
/* A value as it stands in the file, cut where it is long; the number of a setting as it was written. */
#define QKV_SPEC_NAME 64
void qkv_spec_reader_show(const struct qkv_spec_reader *r, const char *path, const json_t *value,
                          char text[QKV_SPEC_NAME]);
/* The value, missing where NULL, is none that its key may have. */
enum qkv_status qkv_spec_reader_fail_value(const struct qkv_spec_reader *r, const struct qkv_key *key,
                                           const struct qkv_place *place, const json_t *value);
/* All names in a tree are keys of the table. */
enum qkv_status qkv_spec_reader_check_names(const struct qkv_spec_reader *r, const struct qkv_key *keys,
                                            const struct qkv_place *place, const json_t *tree);
/* The value as a number; false when it is of another type or out of range. */
bool qkv_spec_reader_convert(const struct qkv_key *key, const json_t *value, double *x);
enum qkv_status qkv_spec_reader_constant(const struct qkv_spec_reader *r, const struct qkv_key *key,
                                         const json_t *value);
/* Copies a text, cut between characters where it is long. */
void qkv_spec_reader_cut(char out[QKV_SPEC_NAME], const char *text);
/* The setting that a key or a part of its path was set by: its number, or setting_count. */
size_t qkv_spec_reader_setting(const struct qkv_spec_reader *r, const char *path);
/* The value at a path in a tree; NULL where there is none. */
const json_t *qkv_spec_reader_at(const json_t *tree, const char *path);
/* Where a key is written: in its kind, or where that says nothing, beside the kinds; in what a stack has of its own, or
 * where that says nothing, in what both have in common. Whether it is the latter, and others may have it too. */
bool qkv_spec_reader_path(const struct qkv_spec_reader *r, const struct qkv_place *place, const char *name,
                          char path[QKV_SPEC_PATH]);

/* ---- spec_kinds.c ---- */

/* Reads the pattern of a stack, by the table of its keys, after its `layers`: names and numbers of kinds. Without a
 * pattern there is one kind without a name. */
enum qkv_status qkv_spec_reader_pattern(const struct qkv_spec_reader *r, const struct qkv_key *keys,
                                        const struct qkv_place *place, const json_t *stack);
/* What a kind says, and what stands beside the kinds, as one object to be freed; NULL without memory. */
json_t *qkv_spec_reader_kind(const struct qkv_key *kinds, const json_t *stack, const char *name);
/* What `own` says, or what `common` says where that says nothing; either may be NULL. To be freed; NULL without memory.
 */
json_t *qkv_spec_reader_over(const json_t *common, const json_t *own);
/* A setting of what kinds have in common has no effect where every kind has its own, or none a use for it. */
enum qkv_status qkv_spec_reader_check_shared(const struct qkv_spec_reader *r, const struct qkv_key *parts,
                                             const struct qkv_place *place);

/* ---- spec_settings.c ---- */

/* Puts the settings into a tree. One that a later one replaces has no effect. */
enum qkv_status qkv_spec_reader_settings(const struct qkv_spec_reader *r, json_t *root);
/* Whether a setting is of the key at `path`, or of an object that holds it. (spec_reader.c) */
bool qkv_setting_covers(const char *setting, const char *path);
/* The names, types and ranges of what a tree sets, whatever the spec. */
enum qkv_status qkv_spec_reader_check_values(const struct qkv_spec_reader *r, const struct qkv_key *keys,
                                             const struct qkv_place *place, const json_t *tree);

/* ---- spec_parse.c ---- */

/* Reads the keys of a table from an object; NULL: all have their defaults. */
enum qkv_status qkv_spec_reader_keys(const struct qkv_spec_reader *r, const struct qkv_key *keys,
                                     const struct qkv_place *place, const json_t *tree);

/* ---- spec_version1.c ---- */

/* Before settings: removes from a tree of version 2 what settings in the words of version 1 replace. */
void qkv_version1_make_room(const struct qkv_spec_reader *r, json_t *root);
/* Takes the keys of version 1 out of a tree: an object to be freed, NULL without memory. */
json_t *qkv_version1_take(json_t *root);
/* Converts a tree with its settings to version 2. What version 1 says is checked under its own names. Fails if the file
 * has keys of the other version. */
enum qkv_status qkv_version1_read(struct qkv_spec_reader *r, const struct qkv_place *place, json_t *root);
/* Names the keys in the message of a failure as the file has them, if it is of version 1. */
void qkv_version1_rename(const struct qkv_spec_reader *r);

#endif
