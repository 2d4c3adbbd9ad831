/* rank_blocks: blocks of documents are encoded by all ranks (rank_blocks.c; rank_helper.c on the others). */
#ifndef QKV_DATA_RANK_BLOCKS_H
#define QKV_DATA_RANK_BLOCKS_H

#include "data/documents.h"

/* On rank 0, between orders (rank_files.h): tells the others what documents are encoded with. */
enum qkv_status qkv_rank_tell_documents(const struct qkv_document_reader *reader);
/* Ranks that blocks can be sent to; 0: this one encodes alone. */
int qkv_rank_helpers(const struct qkv_context *ctx);
/* Sends blocks to a rank, which encodes them as qkv_documents_encode does. QKV_RANK */
enum qkv_status qkv_rank_send_blocks(struct qkv_context *ctx, int to, const struct qkv_document_block *blocks,
                                     size_t count);
/* Receives what the rank has made of the blocks that were sent to it last. *failure: why it has made nothing; if it is
 * `heard`, the context gets the sentence. Fails with QKV_RANK, and QKV_MEMORY when all is received. */
enum qkv_status qkv_rank_take_blocks(struct qkv_document_reader *reader, int from, struct qkv_document_block *blocks,
                                     size_t count, bool heard, enum qkv_status *failure);

/* ---- on the other rank ------------------------------------------------------------------------------------------- */

/* Appends what blocks have become to an answer; the first sentence about a bad line, or nothing, ends it. */
enum qkv_status qkv_blocks_answer(const struct qkv_document_reader *reader, const struct qkv_document_block *blocks,
                                  size_t count, struct qkv_buffer *made);

#endif
