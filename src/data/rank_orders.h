/* rank_orders: what rank 0 says to the others while files are tokenised, and what they answer: for rank_files.c,
 * rank_blocks.c and rank_helper.c. */
#ifndef QKV_DATA_RANK_ORDERS_H
#define QKV_DATA_RANK_ORDERS_H

#include "data/data.h"

enum { QKV_ORDER_TOKENIZERS = 2 }; /* of targets and sources */
enum qkv_order {
    QKV_ORDER_END,
    QKV_ORDER_TOKENIZER, /* tokenizer.json, then the ids of its roles */
    QKV_ORDER_LABELS,    /* each with its zero */
    QKV_ORDER_TALKS,     /* packed chat templates, or nothing; number: what qkv_talk_coder has as `now` */
    QKV_ORDER_LINES,     /* struct qkv_lines_order */
    QKV_ORDER_FILE,      /* the path, for messages */
    QKV_ORDER_TEXT,      /* a piece of a text, and of a file of lines: to be answered */
    QKV_ORDER_ROWS,
    QKV_ORDER_DOCUMENTS, /* the key of texts in JSON lines; number: option skip_bad */
    QKV_ORDER_BLOCK,     /* of documents of that file; number: lines before it times QKV_BLOCK_FLAGS, and its flags */
    QKV_ORDER_ENCODE     /* the blocks since the last one: to be answered (rank_blocks.c) */
};
enum { QKV_BLOCK_JSON = 1, QKV_BLOCK_FIRST = 2, QKV_BLOCK_LAST = 4, QKV_BLOCK_FLAGS = 8 };
struct qkv_rank_order { /* `bytes` follow */
    uint64_t kind, bytes;
    uint64_t number; /* which tokenizer; lines before the rows */
};
struct qkv_rank_answer { /* `bytes` follow, or the message */
    uint64_t status, bytes;
};
struct qkv_lines_order { /* a coder without its tokenizers and labels */
    char name[QKV_LINES_NAME];
    uint64_t T, long_kind, repeat, tokenizers, labels;
};

/* On rank 0 (rank_files.c): sends an order with its bytes. QKV_RANK */
enum qkv_status qkv_rank_order(struct qkv_context *ctx, int to, struct qkv_rank_order order, const void *data);
/* What a rank answers; with `heard` also why it has made nothing: that becomes the context's sentence. QKV_RANK */
enum qkv_status qkv_rank_answered(struct qkv_context *ctx, int from, struct qkv_buffer *made, enum qkv_status *failure,
                                  bool heard);

static inline enum qkv_status qkv_rank_send(struct qkv_context *ctx, int to, const void *data, size_t bytes) {
    return qkv_rank_exchange(ctx, to, data, bytes, to, NULL, 0);
}
static inline enum qkv_status qkv_rank_receive(struct qkv_context *ctx, int from, void *data, size_t bytes) {
    return qkv_rank_exchange(ctx, from, NULL, 0, from, data, bytes);
}

#endif
