/* rank_helper: what ranks but 0 do while files are tokenised: they follow the orders of rank 0 (rank_files.c). */
#include <stdlib.h>
#include <string.h>

#include "chat/chat_template.h"
#include "text/text.h"
#include "data/rank_blocks.h"
#include "data/rank_orders.h"
#include "data/data.h"

struct helper {
    struct qkv_context *ctx;
    struct qkv_tokenizer *tokenizers[QKV_ORDER_TOKENIZERS];
    struct qkv_line_coder coder;
    struct qkv_chat_template *templates; /* of talks */
    int64_t now;
    char **labels, *label_text, *path;
    char *text;
    size_t capacity;
    /* Documents of a mixture: what they are encoded with, and the blocks since the last answer with the paths of their
     * files. */
    char *key, *paths[QKV_BLOCKS_MAX];
    struct qkv_document_reader reader;
    struct qkv_document_block blocks[QKV_BLOCKS_MAX];
    size_t block_count;
    enum qkv_status status; /* of what rank 0 has told; its message is the context's */
};

static enum qkv_status help_tokenizer(struct helper *h, size_t which, size_t size) {
    int32_t roles[QKV_TOKEN_ROLES];
    struct qkv_tokenizer **tokenizer = &h->tokenizers[which % QKV_ORDER_TOKENIZERS];
    qkv_tokenizer_free(*tokenizer);
    *tokenizer = NULL;
    const size_t json = size - sizeof roles;
    memcpy(roles, h->text + json, sizeof roles);
    enum qkv_status status = qkv_tokenizer_parse(h->ctx, h->text, json, "the tokenizer of rank 0", tokenizer);
    for (int i = 0; i < QKV_TOKEN_ROLES && !status; i++)
        if (qkv_tokenizer_role(*tokenizer, (enum qkv_token_role)i) != roles[i])
            status = qkv_tokenizer_set_role(h->ctx, *tokenizer, (enum qkv_token_role)i, roles[i]);
    return status;
}

/* Keeps what was received. */
static enum qkv_status help_keep(struct helper *h, char **kept, size_t size) {
    free(*kept);
    *kept = qkv_copy_bytes(h->ctx, h->text, size);
    return *kept ? QKV_OK : QKV_MEMORY;
}

static enum qkv_status help_talks(struct helper *h, const struct qkv_rank_order *order) {
    qkv_chat_template_free(h->templates);
    h->templates = NULL;
    h->now = (int64_t)order->number;
    return order->bytes ? qkv_chat_template_unpack(h->ctx, h->text, order->bytes, &h->templates) : QKV_OK;
}

static enum qkv_status help_lines(struct helper *h) {
    struct qkv_lines_order lines;
    memcpy(&lines, h->text, sizeof lines);
    free(h->labels);
    h->labels = qkv_allocate(h->ctx, lines.labels + 1, sizeof *h->labels);
    if (!h->labels) return QKV_MEMORY;
    char *label = h->label_text;
    for (size_t i = 0; i < lines.labels; i++, label += strlen(label) + 1) h->labels[i] = label;
    h->coder = (struct qkv_line_coder){.ctx = h->ctx,
                                       .lines = qkv_lines_of(lines.name),
                                       .tokenizer = h->tokenizers[0],
                                       .source_tokenizer = h->tokenizers[lines.tokenizers - 1],
                                       .labels = h->labels,
                                       .label_count = lines.labels,
                                       .T = lines.T,
                                       .kind = (enum qkv_long)lines.long_kind,
                                       .repeat = lines.repeat,
                                       .templates = h->templates,
                                       .now = h->now};
    return QKV_OK;
}

static enum qkv_status help_documents(struct helper *h, const struct qkv_rank_order *order) {
    enum qkv_status status = help_keep(h, &h->key, order->bytes);
    h->reader = (struct qkv_document_reader){
        .ctx = h->ctx, .key = h->key, .skip_bad = order->number, .tokenizer = h->tokenizers[0]};
    return status;
}

/* The block gets the text that was received; the memory of the block before it is used again. */
static enum qkv_status help_block(struct helper *h, const struct qkv_rank_order *order) {
    const uint64_t flags = order->number % QKV_BLOCK_FLAGS;
    if (h->block_count == QKV_BLOCKS_MAX) return qkv_fail(h->ctx, QKV_FORMAT, "rank 0 sends more blocks than it may");
    struct qkv_document_block *b = &h->blocks[h->block_count];
    char *text = b->text;
    const size_t capacity = b->capacity;
    free(h->paths[h->block_count]);
    h->paths[h->block_count] = qkv_copy_string(h->ctx, h->path);
    *b = (struct qkv_document_block){.text = h->text,
                                     .size = order->bytes,
                                     .capacity = h->capacity,
                                     .path = h->paths[h->block_count],
                                     .line = order->number / QKV_BLOCK_FLAGS,
                                     .json = flags & QKV_BLOCK_JSON,
                                     .first = flags & QKV_BLOCK_FIRST,
                                     .last = flags & QKV_BLOCK_LAST,
                                     .ids = b->ids};
    h->text = text;
    h->capacity = capacity;
    h->block_count++;
    return b->path ? QKV_OK : QKV_MEMORY;
}

/* Encodes the blocks that have come. */
static enum qkv_status help_blocks(struct helper *h, struct qkv_buffer *made) {
    enum qkv_status status = qkv_documents_encode(&h->reader, h->blocks, h->block_count);
    if (!status) status = qkv_blocks_answer(&h->reader, h->blocks, h->block_count, made);
    return status;
}

static enum qkv_status help_encode(struct helper *h, const struct qkv_rank_order *order) {
    struct qkv_context *ctx = h->ctx;
    const struct qkv_text_piece piece = {.text = h->text, .size = order->bytes, .line = order->number};
    struct qkv_buffer made = {0};
    enum qkv_status status = h->status;
    if (!status && order->kind == QKV_ORDER_ROWS) status = qkv_line_ids_encode(&h->coder, h->path, &piece, &made);
    if (!status && order->kind == QKV_ORDER_TEXT)
        status = qkv_text_encode(ctx, h->tokenizers[0], h->path, &piece, &made);
    if (!status && order->kind == QKV_ORDER_ENCODE) status = help_blocks(h, &made);
    h->block_count = 0;
    const struct qkv_rank_answer answer = {(uint64_t)status, made.size};
    enum qkv_status lost = qkv_rank_send(ctx, 0, &answer, sizeof answer);
    if (!lost && status) lost = qkv_rank_send(ctx, 0, ctx->message, sizeof ctx->message);
    if (!lost && !status) lost = qkv_rank_send(ctx, 0, made.data, made.size);
    qkv_buffer_free(&made);
    return lost;
}

/* What an order tells; what is wrong with it is said of the next piece. */
static enum qkv_status help_told(struct helper *h, const struct qkv_rank_order *order) {
    if (order->kind == QKV_ORDER_TOKENIZER && order->number == 0) h->status = QKV_OK; /* all is told again */
    if (h->status) return h->status;
    if (order->kind == QKV_ORDER_TOKENIZER) return help_tokenizer(h, order->number, order->bytes);
    if (order->kind == QKV_ORDER_LABELS) return help_keep(h, &h->label_text, order->bytes);
    if (order->kind == QKV_ORDER_TALKS) return help_talks(h, order);
    if (order->kind == QKV_ORDER_DOCUMENTS) return help_documents(h, order);
    if (order->kind == QKV_ORDER_BLOCK) return help_block(h, order);
    return order->kind == QKV_ORDER_FILE ? help_keep(h, &h->path, order->bytes) : help_lines(h);
}

static enum qkv_status help_once(struct helper *h, const struct qkv_rank_order *order) {
    if (order->bytes > h->capacity) {
        char *text = qkv_reallocate(h->ctx, h->text, order->bytes, 1);
        if (!text) return QKV_RANK; /* it could not go on, and rank 0 waits for it */
        h->text = text;
        h->capacity = order->bytes;
    }
    enum qkv_status status = qkv_rank_receive(h->ctx, 0, h->text, order->bytes);
    if (status) return status;
    if (order->kind == QKV_ORDER_TEXT || order->kind == QKV_ORDER_ROWS || order->kind == QKV_ORDER_ENCODE)
        return help_encode(h, order);
    h->status = help_told(h, order);
    return QKV_OK;
}

static void help_free(struct helper *h) {
    for (size_t i = 0; i < QKV_ORDER_TOKENIZERS; i++) qkv_tokenizer_free(h->tokenizers[i]);
    for (size_t i = 0; i < QKV_BLOCKS_MAX; i++) {
        qkv_document_block_free(&h->blocks[i]);
        free(h->paths[i]);
    }
    qkv_chat_template_free(h->templates);
    free(h->labels);
    free(h->label_text);
    free(h->path);
    free(h->key);
    free(h->text);
    free(h);
}

enum qkv_status qkv_rank_follow_orders(struct qkv_context *ctx) {
    struct helper *h = qkv_allocate(ctx, 1, sizeof *h);
    struct qkv_rank_order order;
    if (!h) return QKV_RANK; /* rank 0 counts on it */
    h->ctx = ctx;
    enum qkv_status status = qkv_rank_receive(ctx, 0, &order, sizeof order);
    while (!status && order.kind != QKV_ORDER_END) {
        status = help_once(h, &order);
        if (!status) status = qkv_rank_receive(ctx, 0, &order, sizeof order);
    }
    help_free(h);
    return status;
}
