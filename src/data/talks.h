/* talks: what the kinds of data share whose lines are talks: dataset_chat.c, dataset_preferences.c. */
#ifndef QKV_DATA_TALKS_H
#define QKV_DATA_TALKS_H

#include "data/data.h"
#include "data/talk.h"
#include "data/tsv.h"

/* Reads the JSON of a row, which gets a reference. A failure names file and line. */
enum qkv_status qkv_talks_read(const struct qkv_line_coder *coder, const struct qkv_tsv *file,
                               const struct qkv_tsv_row *row, json_t **line);
struct qkv_talk_coder qkv_talks_coder(const struct qkv_line_coder *coder);
/* Puts file and line before the sentence of a row that is wrong; returns `status`. */
enum qkv_status qkv_talks_fail(const struct qkv_line_coder *coder, const struct qkv_tsv *file, size_t line,
                               enum qkv_status status);
/* Cuts ids and marks where a sequence is longer than the context, or skips the line (option long); also if nothing is
 * left that counts. Its last token gets its mark. */
enum qkv_status qkv_talks_fit(const struct qkv_line_coder *coder, const struct qkv_tsv *file,
                              const struct qkv_tsv_row *row, struct qkv_talk *talk, struct qkv_line *line);
/* prepare and restore of a dataset: tokenizer and chat template. */
enum qkv_status qkv_talks_prepare(struct qkv_data *data, struct qkv_spec *spec);
enum qkv_status qkv_talks_restore(struct qkv_data *data);
/* Whether there is a tokenizer that is not to be trained. QKV_ARGUMENT */
enum qkv_status qkv_talks_check(struct qkv_context *ctx, const struct qkv_train_options *options);

#endif
