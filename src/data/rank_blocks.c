/* rank_blocks: rank 0 reads the documents of a mixture and sends blocks of them to the other ranks, each of which
 * encodes its blocks with all of its threads. A block does not depend on the number of ranks, and rank 0 takes what
 * blocks become in the order of the files: the shards are those of one rank. The others need to see no file. */
#include "data/rank_blocks.h"

#include <stdlib.h>
#include <string.h>

#include "data/rank_orders.h"

/* What a block becomes; its ids follow those of the block before, behind all of these. */
struct block_card {
    uint64_t bytes; /* of ids */
    uint64_t documents, end, bad_lines;
};

int qkv_rank_helpers(const struct qkv_context *ctx) {
    return qkv_context_rank(ctx) ? 0 : qkv_context_ranks(ctx) - 1;
}

enum qkv_status qkv_rank_tell_documents(const struct qkv_document_reader *r) {
    const struct qkv_rank_order order = {QKV_ORDER_DOCUMENTS, strlen(r->key) + 1, r->skip_bad};
    enum qkv_status status = qkv_rank_tell_tokenizer(r->ctx, 0, r->tokenizer);
    for (int to = 1; to <= qkv_rank_helpers(r->ctx) && !status; to++)
        status = qkv_rank_order(r->ctx, to, order, r->key);
    return status;
}

enum qkv_status qkv_rank_send_blocks(struct qkv_context *ctx, int to, const struct qkv_document_block *blocks,
                                     size_t count) {
    const char *path = NULL;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < count && !status; i++) {
        const struct qkv_document_block *b = &blocks[i];
        const struct qkv_rank_order file = {QKV_ORDER_FILE, strlen(b->path) + 1, 0};
        const uint64_t flags =
            (b->json ? QKV_BLOCK_JSON : 0U) | (b->first ? QKV_BLOCK_FIRST : 0U) | (b->last ? QKV_BLOCK_LAST : 0U);
        if (b->path != path) status = qkv_rank_order(ctx, to, file, b->path);
        path = b->path;
        if (!status)
            status = qkv_rank_order(
                ctx, to, (struct qkv_rank_order){QKV_ORDER_BLOCK, b->size, b->line * QKV_BLOCK_FLAGS + flags}, b->text);
    }
    return status ? status : qkv_rank_order(ctx, to, (struct qkv_rank_order){QKV_ORDER_ENCODE, 0, count}, NULL);
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

enum qkv_status qkv_blocks_answer(const struct qkv_document_reader *r, const struct qkv_document_block *blocks,
                                  size_t count, struct qkv_buffer *made) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < count && !status; i++) {
        const struct qkv_document_block *b = &blocks[i];
        const struct block_card card = {b->ids.size, b->documents, b->end, b->bad_lines};
        status = qkv_buffer_append(r->ctx, made, &card, sizeof card);
    }
    for (size_t i = 0; i < count && !status; i++)
        status = qkv_buffer_append(r->ctx, made, blocks[i].ids.data, blocks[i].ids.size);
    return status ? status : qkv_buffer_append(r->ctx, made, r->bad.first_line, sizeof r->bad.first_line);
}

/* Whether an answer has what blocks become. */
static bool blocks_fit(const struct qkv_buffer *made, size_t count, size_t sentence) {
    uint64_t left = made->size;
    if (left < count * sizeof(struct block_card) + sentence) return false;
    left -= count * sizeof(struct block_card) + sentence;
    for (size_t i = 0; i < count; i++) {
        struct block_card card;
        memcpy(&card, made->data + i * sizeof card, sizeof card);
        if (card.bytes > left || card.bytes % sizeof(int32_t)) return false;
        left -= card.bytes;
    }
    return left == 0;
}

static enum qkv_status blocks_open(struct qkv_document_reader *r, const struct qkv_buffer *made,
                                   struct qkv_document_block *blocks, size_t count) {
    if (!blocks_fit(made, count, sizeof r->bad.first_line))
        return qkv_fail(r->ctx, QKV_FORMAT, "the ids of %s from line %llu on are damaged", blocks->path,
                        (unsigned long long)blocks->line + 1);
    const char *ids = made->data + count * sizeof(struct block_card);
    for (size_t i = 0; i < count; i++) {
        struct qkv_document_block *b = &blocks[i];
        struct block_card card;
        memcpy(&card, made->data + i * sizeof card, sizeof card);
        b->ids.size = 0;
        enum qkv_status status = qkv_buffer_append(r->ctx, &b->ids, ids, (size_t)card.bytes);
        if (status) return status;
        b->documents = card.documents;
        b->end = card.end;
        b->bad_lines = card.bad_lines;
        ids += card.bytes;
    }
    if (!*r->bad.first_line) memcpy(r->bad.first_line, ids, sizeof r->bad.first_line);
    r->bad.first_line[sizeof r->bad.first_line - 1] = 0;
    return QKV_OK;
}

enum qkv_status qkv_rank_take_blocks(struct qkv_document_reader *r, int from, struct qkv_document_block *blocks,
                                     size_t count, bool heard, enum qkv_status *failure) {
    struct qkv_buffer made = {0};
    enum qkv_status status = qkv_rank_answered(r->ctx, from, &made, failure, heard);
    if (!status && !*failure && heard) status = blocks_open(r, &made, blocks, count);
    qkv_buffer_free(&made);
    return status;
}
