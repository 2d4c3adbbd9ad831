/* pass_order: sums over the rows of a pass in a defined order (kernel.h), where its batch is a part of a larger one
 * whose rows are cut into groups. */
#include "model/pass.h"
#include "op/steps.h"

/* of attention: keys in a share of dq, and about the maximum number of shares */
enum { SHARE_KEYS = 512, SHARES = 16 };

void qkv_pass_set_part(struct qkv_pass *p, const struct qkv_pass_part *part) {
    p->part = part ? *part : (struct qkv_pass_part){0};
}

void qkv_pass_set_loss_rows(struct qkv_pass *p, const struct qkv_loss_rows *rows) {
    p->loss_rows = rows ? *rows : (struct qkv_loss_rows){0};
}

void qkv_pass_listen(struct qkv_pass *p, qkv_gradient_listener *listener, void *user) {
    p->listener = listener;
    p->listener_user = user;
}

/* The number of keys depends on the model's context, as it must not depend on the length of other rows. */
static size_t order_keys(const struct qkv_pass *p) {
    const struct qkv_spec *spec = &p->model->spec;
    const size_t sources = (size_t)spec->source_context, own = (size_t)spec->context, least = SHARE_KEYS;
    const size_t context = sources > own ? sources : own;
    const size_t share = (context / SHARES + least - 1) / least * least;
    return share > least ? share : least;
}

const struct qkv_row_order *qkv_pass_order(struct qkv_pass *p, size_t B, size_t N, const int32_t *starts) {
    const struct qkv_pass_part *part = &p->part;
    struct qkv_context *ctx = p->model->ctx;
    if (!part->groups) return NULL;
    struct qkv_row_order *rows = qkv_tape_take_graph(&p->tape, sizeof *rows),
                         *pooled = qkv_tape_take_graph(&p->tape, sizeof *pooled);
    size_t *start = qkv_tape_take(&p->tape, B + 1, sizeof *start), *each = qkv_tape_take(&p->tape, B + 1, sizeof *each);
    size_t *first = qkv_tape_take(&p->tape, part->groups + 1, sizeof *first);
    if (p->tape.status) return NULL;
    enum qkv_status status = QKV_STEP(ctx, starts, .out = start, .start = starts, .count = B + 1, .each = N / B);
    if (!status) status = QKV_STEP(ctx, starts, .out = each, .count = B + 1, .each = 1);
    if (qkv_tape_failed(&p->tape, status)) return NULL;
    ctx->backend->write(first, part->first, (part->groups + 1) * sizeof *first);
    *rows = *pooled = (struct qkv_row_order){
        .sums = {.groups = part->groups, .sequences = B, .terms = N, .first = first, .start = start},
        .first_row = part->first_row,
        .keys = order_keys(p),
        .losses = part->losses};
    pooled->sums.terms = B;
    pooled->sums.start = each;
    rows->pooled = pooled;
    return rows;
}
