/* generate: continuing a text.
 *
 * Offers: the check of sampling options, and the stream of text that stands between tokens, which cut text anywhere, and a
 * reader, who gets whole characters and never a part of a stop text. */
#ifndef QKV_GENERATE_H
#define QKV_GENERATE_H

#include "base/base.h"

/* ---- sampling (sampling.c) -------------------------------------------------------------------------------------- */
enum qkv_status qkv_sampling_check(struct qkv_context *ctx, const struct qkv_sampling *sampling);

/* ---- text stream (stream.c) -------------------------------------------------------------------------------------
 * Start it with the first five fields set and the others zero. The text given out is the same however it was cut into
 * pieces: everything before the stop text that is complete first (the longest of those that end at the same byte). */
struct qkv_text_stream {
    struct qkv_context *ctx;
    const char *const *stops; /* none empty */
    size_t stop_count;
    qkv_write_text *write; /* NULL: nobody listens */
    void *user;
    struct qkv_buffer held; /* what is not given out yet */
    bool stopped;           /* a stop text came: everything after it is ignored */
};
/* Takes a piece of text and gives out what is decided. QKV_STOPPED when `write` said so. */
enum qkv_status qkv_text_stream_put(struct qkv_text_stream *stream, const char *text, size_t size);
/* The text has ended: gives out all that was held back. */
enum qkv_status qkv_text_stream_end(struct qkv_text_stream *stream);
void qkv_text_stream_free(struct qkv_text_stream *stream);

#endif
