/* rank_text: texts are tokenised by all ranks. Rank 0 reads a text and cuts it where a cut changes no id; each rank gets a piece and gives
 * its ids back, and rank 0 takes them in the order of the text. So the ids are those of one rank, whatever the number of ranks, and the
 * others need to see no text. */
#include <stdlib.h>
#include <string.h>

#include "text/text.h"
#include "train/train.h"

enum { RANK_PIECE = 1 << 18 }; /* bytes of a piece: small enough that several ranks have work with a small text */

enum { ORDER_END, ORDER_WAIT, ORDER_TOKENIZER, ORDER_PIECE };
#define WAIT_SECONDS 1.0 /* after which the others hear that rank 0 still works */
struct order {           /* what rank 0 wants; `bytes` of it follow */
    uint64_t kind, bytes;
};
struct answer { /* `count` ids follow, or the message */
    uint64_t status, count;
};

static enum qkv_status text_send(struct qkv_context *ctx, int to, const void *data, size_t bytes) {
    return qkv_rank_exchange(ctx, to, data, bytes, to, NULL, 0);
}

static enum qkv_status text_receive(struct qkv_context *ctx, int from, void *data, size_t bytes) {
    return qkv_rank_exchange(ctx, from, NULL, 0, from, data, bytes);
}

/* Those that rank 0 has a piece for, with its own; any other makes a text for itself. */
static int text_ranks(const struct qkv_context *ctx) {
    return qkv_context_rank(ctx) ? 1 : qkv_context_ranks(ctx);
}

/* ---- rank 0 ---------------------------------------------------------------------------------------------------------------- */

static enum qkv_status text_order(struct qkv_context *ctx, int to, uint64_t kind, const void *data, size_t bytes) {
    const struct order order = {kind, bytes};
    enum qkv_status status = text_send(ctx, to, &order, sizeof order);
    return status ? status : text_send(ctx, to, data, bytes);
}

enum qkv_status qkv_rank_text_begin(struct qkv_context *ctx, const struct qkv_tokenizer *tokenizer) {
    struct qkv_buffer json = {0};
    const int ranks = text_ranks(ctx);
    if (ranks == 1) return QKV_OK;
    enum qkv_status status = qkv_tokenizer_print(ctx, tokenizer, &json);
    for (int r = 1; r < ranks && !status; r++) status = text_order(ctx, r, ORDER_TOKENIZER, json.data, json.size);
    qkv_buffer_free(&json);
    return status;
}

/* The ids that a rank has made of its piece, freed with qkv_free. */
static enum qkv_status text_answer(struct qkv_context *ctx, int from, int32_t **ids, size_t *count) {
    char message[sizeof ctx->message];
    struct answer answer;
    *ids = NULL;
    *count = 0;
    enum qkv_status status = text_receive(ctx, from, &answer, sizeof answer);
    if (status) return status;
    if (answer.status) {
        status = text_receive(ctx, from, message, sizeof message);
        message[sizeof message - 1] = 0;
        return status ? status : qkv_fail(ctx, (enum qkv_status)answer.status, "rank %d: %s", from, message);
    }
    if (!answer.count) return QKV_OK;
    *ids = qkv_allocate(ctx, answer.count, sizeof **ids);
    /* Whoever has no memory for what comes could not go on, and the others will wait for it: as with a rank that is gone. */
    if (!*ids) return QKV_RANK;
    *count = answer.count;
    return text_receive(ctx, from, *ids, answer.count * sizeof **ids);
}

/* Takes what a rank has made, which has to be received also where something has failed. */
static enum qkv_status text_take(struct qkv_text_stream *stream, int from, const struct qkv_text_piece *piece,
                                 enum qkv_status failure, qkv_rank_take *take, void *user) {
    int32_t *ids;
    size_t count;
    if (failure == QKV_RANK) return failure;
    if (failure) { /* its message stays */
        char message[sizeof stream->ctx->message];
        memcpy(message, stream->ctx->message, sizeof message);
        const enum qkv_status lost = text_answer(stream->ctx, from, &ids, &count);
        if (lost != QKV_RANK) memcpy(stream->ctx->message, message, sizeof message);
        qkv_free(ids);
        return lost == QKV_RANK ? lost : failure;
    }
    enum qkv_status status = text_answer(stream->ctx, from, &ids, &count);
    if (!status) status = qkv_text_frame(stream, piece, &ids, &count);
    if (status && status != QKV_RANK) qkv_fail_at(stream->ctx, "%s", stream->path);
    if (!status) status = take(user, ids, count);
    qkv_free(ids);
    return status;
}

enum qkv_status qkv_rank_text_next(struct qkv_text_stream *stream, qkv_rank_take *take, void *user) {
    struct qkv_context *ctx = stream->ctx;
    const int ranks = text_ranks(ctx);
    struct qkv_text_piece pieces[QKV_RANKS_MOST];
    enum qkv_status status = QKV_OK;
    int32_t *ids = NULL;
    size_t count = 0;
    int asked = 0; /* ranks behind rank 0 that have a piece */
    if (ranks > 1) stream->piece = RANK_PIECE;
    while (asked + 1 < ranks && stream->file.size - stream->position > stream->piece && !status) {
        struct qkv_text_piece *piece = &pieces[asked + 1];
        status = qkv_text_cut(stream, piece);
        if (!status) status = text_order(ctx, asked + 1, ORDER_PIECE, stream->text, piece->size);
        if (!status) qkv_text_take(stream, piece->size);
        if (!status) asked++;
    }
    const size_t begin = stream->position;
    if (!status) status = qkv_text_next(stream, &ids, &count);
    for (int r = 1; r <= asked; r++) status = text_take(stream, r, &pieces[r], status, take, user);
    if (!status && stream->position > begin) status = take(user, ids, count);
    qkv_free(ids);
    return status;
}

static enum qkv_status text_order_all(struct qkv_context *ctx, uint64_t kind) {
    enum qkv_status status = QKV_OK;
    for (int r = 1; r < qkv_context_ranks(ctx) && !status; r++) status = text_order(ctx, r, kind, NULL, 0);
    return status;
}

/* In place of the trainer's progress: who waits for rank 0 hears that it has not hung. */
static bool help_progress(void *user, const char *what, double done, double total) {
    struct qkv_rank_help *help = user;
    if (qkv_clock() - help->told > WAIT_SECONDS) {
        if (text_order_all(help->ctx, ORDER_WAIT)) return false; /* the end finds out, too */
        help->told = qkv_clock();
    }
    return !help->progress || help->progress(help->user, what, done, total);
}

void qkv_rank_help_begin(struct qkv_rank_help *help, struct qkv_context *ctx, struct qkv_trainer *t) {
    *help = (struct qkv_rank_help){.ctx = ctx, .trainer = t, .told = qkv_clock()};
    if (!t) return;
    help->progress = t->progress;
    help->user = t->user;
    if (qkv_context_ranks(ctx) == 1) return;
    t->progress = help_progress;
    t->user = help;
}

enum qkv_status qkv_rank_help_end(struct qkv_rank_help *help, enum qkv_status status) {
    if (help->trainer) {
        help->trainer->progress = help->progress;
        help->trainer->user = help->user;
    }
    if (status == QKV_RANK) return status;
    const enum qkv_status lost = text_order_all(help->ctx, ORDER_END);
    return lost ? lost : status;
}

/* ---- the others ------------------------------------------------------------------------------------------------------------ */

struct helper {
    struct qkv_context *ctx;
    struct qkv_tokenizer *tokenizer;
    char *text;
    size_t capacity;
    enum qkv_status status; /* of the tokenizer; its message is the context's */
};

static enum qkv_status help_encode(struct helper *h, size_t size) {
    struct qkv_context *ctx = h->ctx;
    int32_t *ids = NULL;
    size_t count = 0;
    enum qkv_status status = h->status;
    if (!status) status = qkv_tokenizer_encode(ctx, h->tokenizer, h->text, size, true, &ids, &count);
    const struct answer answer = {(uint64_t)status, count};
    enum qkv_status lost = text_send(ctx, 0, &answer, sizeof answer);
    if (!lost && status) lost = text_send(ctx, 0, ctx->message, sizeof ctx->message);
    if (!lost && !status) lost = text_send(ctx, 0, ids, count * sizeof *ids);
    qkv_free(ids);
    return lost;
}

static enum qkv_status help_once(struct helper *h, const struct order *order) {
    if (order->kind == ORDER_WAIT) return QKV_OK;
    if (order->bytes > h->capacity) {
        char *text = qkv_reallocate(h->ctx, h->text, order->bytes, 1);
        if (!text) return QKV_RANK; /* it could not go on, and rank 0 waits for it */
        h->text = text;
        h->capacity = order->bytes;
    }
    enum qkv_status status = text_receive(h->ctx, 0, h->text, order->bytes);
    if (status) return status;
    if (order->kind == ORDER_PIECE) return help_encode(h, order->bytes);
    qkv_tokenizer_free(h->tokenizer);
    h->tokenizer = NULL;
    h->status = qkv_tokenizer_parse(h->ctx, h->text, order->bytes, "the tokenizer of rank 0", &h->tokenizer);
    return QKV_OK;
}

enum qkv_status qkv_rank_follow_orders(struct qkv_context *ctx) {
    struct helper h = {.ctx = ctx};
    struct order order;
    enum qkv_status status = text_receive(ctx, 0, &order, sizeof order);
    while (!status && order.kind != ORDER_END) {
        status = help_once(&h, &order);
        if (!status) status = text_receive(ctx, 0, &order, sizeof order);
    }
    qkv_tokenizer_free(h.tokenizer);
    free(h.text);
    return status;
}
