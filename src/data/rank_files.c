/* rank_files: texts and files of lines are tokenised by all ranks. Rank 0 reads a file and cuts it where a cut
 * changes no id; each rank gets a piece and gives back what it has become, and rank 0 takes that in the order of the
 * file. So it is what one rank would make, whatever the number of ranks, a failure is that which one rank would meet
 * first, and the others need to see no file. */
#include <stdlib.h>
#include <string.h>

#include "chat/chat_template.h"
#include "text/text.h"
#include "data/rank_orders.h"
#include "data/data.h"

/* Those that rank 0 has a piece for, with its own; any other makes what it reads for itself. */
static int pieces_ranks(const struct qkv_context *ctx) {
    return qkv_context_rank(ctx) ? 1 : qkv_context_ranks(ctx);
}

/* ---- rank 0: what the others need to know ----------------------------------------------------------------------- */

enum qkv_status qkv_rank_order(struct qkv_context *ctx, int to, struct qkv_rank_order order, const void *data) {
    enum qkv_status status = qkv_rank_send(ctx, to, &order, sizeof order);
    return status ? status : qkv_rank_send(ctx, to, data, order.bytes);
}

static enum qkv_status pieces_order_all(struct qkv_context *ctx, struct qkv_rank_order order, const void *data) {
    enum qkv_status status = QKV_OK;
    for (int r = 1; r < pieces_ranks(ctx) && !status; r++) status = qkv_rank_order(ctx, r, order, data);
    return status;
}

enum qkv_status qkv_rank_tell_tokenizer(struct qkv_context *ctx, size_t which, const struct qkv_tokenizer *tokenizer) {
    int32_t roles[QKV_TOKEN_ROLES]; /* which tokenizer.json does not tell */
    struct qkv_buffer json = {0};
    if (pieces_ranks(ctx) == 1) return QKV_OK;
    for (int i = 0; i < QKV_TOKEN_ROLES; i++) roles[i] = qkv_tokenizer_role(tokenizer, (enum qkv_token_role)i);
    enum qkv_status status = qkv_tokenizer_print(ctx, tokenizer, &json);
    if (!status) status = qkv_buffer_append(ctx, &json, roles, sizeof roles);
    if (!status)
        status = pieces_order_all(ctx, (struct qkv_rank_order){QKV_ORDER_TOKENIZER, json.size, which}, json.data);
    qkv_buffer_free(&json);
    return status;
}

/* The templates of talks, and the time that they may write. */
static enum qkv_status pieces_tell_talks(const struct qkv_line_coder *c) {
    struct qkv_buffer packed = {0};
    enum qkv_status status = c->templates ? qkv_chat_template_pack(c->ctx, c->templates, &packed) : QKV_OK;
    const struct qkv_rank_order order = {QKV_ORDER_TALKS, packed.size, (uint64_t)c->now};
    if (!status) status = pieces_order_all(c->ctx, order, packed.data);
    qkv_buffer_free(&packed);
    return status;
}

enum qkv_status qkv_rank_tell_lines(const struct qkv_line_coder *c) {
    const bool two = c->source_tokenizer && c->source_tokenizer != c->tokenizer;
    struct qkv_lines_order lines = {.T = c->T,
                                    .long_kind = (uint64_t)c->kind,
                                    .repeat = c->repeat,
                                    .tokenizers = two ? 2 : 1,
                                    .labels = c->label_count};
    struct qkv_buffer labels = {0};
    if (pieces_ranks(c->ctx) == 1) return QKV_OK;
    snprintf(lines.name, sizeof lines.name, "%s", c->lines->name);
    enum qkv_status status = qkv_rank_tell_tokenizer(c->ctx, 0, c->tokenizer);
    if (!status && two) status = qkv_rank_tell_tokenizer(c->ctx, 1, c->source_tokenizer);
    for (size_t i = 0; i < c->label_count && !status; i++)
        status = qkv_buffer_append(c->ctx, &labels, c->labels[i], strlen(c->labels[i]) + 1);
    if (!status)
        status = pieces_order_all(c->ctx, (struct qkv_rank_order){QKV_ORDER_LABELS, labels.size, 0}, labels.data);
    if (!status && c->lines->marks) status = pieces_tell_talks(c);
    if (!status) status = pieces_order_all(c->ctx, (struct qkv_rank_order){QKV_ORDER_LINES, sizeof lines, 0}, &lines);
    qkv_buffer_free(&labels);
    return status;
}

enum qkv_status qkv_rank_tell_file(struct qkv_context *ctx, const char *path) {
    return pieces_order_all(ctx, (struct qkv_rank_order){QKV_ORDER_FILE, strlen(path) + 1, 0}, path);
}

/* ---- rank 0: pieces --------------------------------------------------------------------------------------------- */

enum qkv_status qkv_rank_answered(struct qkv_context *ctx, int from, struct qkv_buffer *made, enum qkv_status *failure,
                                  bool heard) {
    char message[sizeof ctx->message];
    struct qkv_rank_answer answer;
    *failure = QKV_OK;
    enum qkv_status status = qkv_rank_receive(ctx, from, &answer, sizeof answer);
    if (status) return status;
    if (answer.status) {
        status = qkv_rank_receive(ctx, from, message, sizeof message);
        message[sizeof message - 1] = 0;
        *failure = (enum qkv_status)answer.status;
        if (status || !heard) return status;
        /* What lines are wrong is so on any rank; memory is the rank's own. */
        if (*failure != QKV_MEMORY)
            qkv_fail(ctx, *failure, "%s", message);
        else
            qkv_fail(ctx, *failure, "rank %d: %s", from, message);
        return QKV_OK;
    }
    if (!answer.bytes) return QKV_OK;
    made->data = qkv_allocate(ctx, answer.bytes, 1);
    /* A rank without memory for what comes could not go on, and the others would wait for it: it counts as gone. */
    if (!made->data) return QKV_RANK;
    made->size = made->capacity = answer.bytes;
    return qkv_rank_receive(ctx, from, made->data, made->size);
}

/* Takes what the ranks behind rank 0 have made, in order, all of which has to be received. `own`: how rank 0 fared
 * with what comes behind it, or could not be cut; the first failure is the one. */
static enum qkv_status pieces_collect(const struct qkv_rank_file *p, const struct qkv_text_piece *pieces, int asked,
                                      enum qkv_status own) {
    struct qkv_context *ctx = p->ctx;
    char message[sizeof ctx->message];
    enum qkv_status status = QKV_OK, failure;
    memcpy(message, ctx->message, sizeof message);
    for (int r = 1; r <= asked; r++) {
        struct qkv_buffer made = {0};
        const enum qkv_status lost = qkv_rank_answered(ctx, r, &made, &failure, !status);
        if (!lost && !status) status = failure ? failure : p->take(p->state, &pieces[r], &made);
        qkv_buffer_free(&made);
        if (lost) return lost;
    }
    if (!status && own) memcpy(ctx->message, message, sizeof message);
    return status ? status : own;
}

enum qkv_status qkv_rank_file_next(const struct qkv_rank_file *p, bool *end) {
    const int ranks = pieces_ranks(p->ctx);
    const struct qkv_rank_order order = {.kind = p->lines ? QKV_ORDER_ROWS : QKV_ORDER_TEXT};
    struct qkv_text_piece pieces[QKV_RANKS_MOST];
    struct qkv_text_piece *own = pieces;
    struct qkv_buffer made = {0};
    int asked = 0; /* ranks behind rank 0 that have a piece */
    enum qkv_status status = p->cut(p->state, own);
    while (!status && asked + 1 < ranks && !own->last) {
        struct qkv_rank_order next = order;
        next.bytes = own->size, next.number = own->line;
        status = qkv_rank_order(p->ctx, asked + 1, next, own->text);
        if (status) return status; /* a rank that is gone */
        pieces[++asked] = *own;
        if (p->pass) p->pass(p->state, own);
        status = p->cut(p->state, own);
    }
    *end = own->last;
    if (!status) status = p->encode(p->state, own, &made);
    if (!status && p->pass) p->pass(p->state, own);
    status = status == QKV_RANK ? status : pieces_collect(p, pieces, asked, status);
    if (!status) status = p->take(p->state, own, &made);
    qkv_buffer_free(&made);
    return status;
}

enum qkv_status qkv_rank_end_orders(struct qkv_context *ctx, enum qkv_status status) {
    if (status == QKV_RANK) return status;
    const enum qkv_status lost = pieces_order_all(ctx, (struct qkv_rank_order){QKV_ORDER_END, 0, 0}, NULL);
    return lost ? lost : status;
}
