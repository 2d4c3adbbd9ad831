/* Two texts as one sequence: the order of texts and special tokens that a post-processor defines, and the types of
 * both. */
#include <stdlib.h>
#include <string.h>

#include "base/json_load.h"
#include "text/chain.h"
#include "text/sequence.h"

enum { PAIR_PARTS = 64 };

static enum qkv_status pair_add(struct qkv_context *ctx, struct qkv_pair_template *t, int sequence, int32_t id,
                                int32_t type) {
    struct qkv_pair_part *grown =
        t->count < PAIR_PARTS ? qkv_list_room(ctx, t->parts, &t->capacity, t->count, 1, sizeof *grown) : NULL;
    if (!grown) return t->count < PAIR_PARTS ? QKV_MEMORY : qkv_fail(ctx, QKV_FORMAT, "a pair has too many tokens");
    t->parts = grown;
    t->parts[t->count++] = (struct qkv_pair_part){sequence, id, type};
    if (sequence < 0) t->specials++;
    return QKV_OK;
}

static enum qkv_status pair_refuse(struct qkv_context *ctx, const char *why) {
    return qkv_fail(ctx, QKV_FORMAT,
                    "tokenizer.json: post_processor.pair %s; it can be a list of SpecialToken and, "
                    "once each, the Sequences A and B",
                    why);
}

static enum qkv_status pair_add_special(struct qkv_context *ctx, const struct qkv_tokenizer *t, const json_t *specials,
                                        const json_t *piece, struct qkv_pair_template *out) {
    const char *name = json_string_value(json_object_get(piece, "id"));
    const json_t *ids = name ? json_object_get(json_object_get(specials, name), "ids") : NULL;
    const int32_t type = (int32_t)json_integer_value(json_object_get(piece, "type_id"));
    enum qkv_status status = json_array_size(ids) ? QKV_OK : pair_refuse(ctx, "has a token without ids");
    for (size_t i = 0; i < json_array_size(ids) && !status; i++) {
        const json_int_t id = json_integer_value(json_array_get(ids, i));
        const bool known = id >= 0 && id <= INT32_MAX && qkv_tokenizer_token(t, (int)id, NULL);
        status = known ? pair_add(ctx, out, -1, (int32_t)id, type) : pair_refuse(ctx, "has an id that no token has");
    }
    return status;
}

static enum qkv_status pair_read_template(struct qkv_context *ctx, const struct qkv_tokenizer *t, const json_t *value,
                                          struct qkv_pair_template *out) {
    const json_t *pair = json_object_get(value, "pair"), *specials = json_object_get(value, "special_tokens");
    enum qkv_status status = QKV_OK;
    int seen[2] = {0};
    for (size_t i = 0; i < json_array_size(pair) && !status; i++) {
        const json_t *piece = json_array_get(pair, i), *sequence = json_object_get(piece, "Sequence");
        const json_t *special = json_object_get(piece, "SpecialToken");
        const char *which = json_string_value(json_object_get(sequence, "id"));
        const int32_t type = (int32_t)json_integer_value(json_object_get(sequence, "type_id"));
        const int side = which && !strcmp(which, "A") ? 0 : which && !strcmp(which, "B") ? 1 : -1;
        if (special)
            status = pair_add_special(ctx, t, specials, special, out);
        else if (side < 0 || seen[side]++)
            status = pair_refuse(ctx, "has another part");
        else
            status = pair_add(ctx, out, side, 0, type);
    }
    return status || (seen[0] && seen[1]) ? status : pair_refuse(ctx, "does not have both texts");
}

/* BertProcessing and RobertaProcessing: [cls, id] and [sep, id]; the former has a type per text, the latter a second
 * separator. */
static enum qkv_status pair_read_ends(struct qkv_context *ctx, const json_t *value, bool roberta,
                                      struct qkv_pair_template *out) {
    const int32_t cls = (int32_t)json_integer_value(json_array_get(json_object_get(value, "cls"), 1));
    const int32_t sep = (int32_t)json_integer_value(json_array_get(json_object_get(value, "sep"), 1));
    enum qkv_status status = pair_add(ctx, out, -1, cls, 0);
    if (!status) status = pair_add(ctx, out, 0, 0, 0);
    if (!status) status = pair_add(ctx, out, -1, sep, 0);
    if (!status && roberta) status = pair_add(ctx, out, -1, sep, 0);
    if (!status) status = pair_add(ctx, out, 1, 0, !roberta);
    return status ? status : pair_add(ctx, out, -1, sep, !roberta);
}

/* Without a template: one text after the other, each with the tokens that a single text ends with. */
static enum qkv_status pair_read_none(struct qkv_context *ctx, const struct qkv_tokenizer *t, bool ends,
                                      struct qkv_pair_template *out) {
    const int32_t begin = ends ? qkv_tokenizer_role(t, QKV_TOKEN_ROLE_BEGIN) : -1;
    const int32_t end = ends ? qkv_tokenizer_role(t, QKV_TOKEN_ROLE_END) : -1;
    enum qkv_status status = begin < 0 ? QKV_OK : pair_add(ctx, out, -1, begin, 0);
    for (int side = 0; side < 2 && !status; side++) {
        status = pair_add(ctx, out, side, 0, side);
        if (!status && end >= 0) status = pair_add(ctx, out, -1, end, side);
    }
    return status;
}

static enum qkv_status pair_read_part(struct qkv_context *ctx, const struct qkv_tokenizer *t, const json_t *value,
                                      struct qkv_pair_template *out) {
    const char *type = json_string_value(json_object_get(value, "type"));
    if (!type || out->count) return QKV_OK;
    if (!strcmp(type, "TemplateProcessing")) return pair_read_template(ctx, t, value, out);
    const bool roberta = !strcmp(type, "RobertaProcessing");
    return roberta || !strcmp(type, "BertProcessing") ? pair_read_ends(ctx, value, roberta, out) : QKV_OK;
}

enum qkv_status qkv_pair_template_read(struct qkv_context *ctx, const struct qkv_tokenizer *t, bool ends,
                                       struct qkv_pair_template *out) {
    json_t *root = NULL;
    *out = (struct qkv_pair_template){0};
    const struct qkv_json_text text = {.name = "tokenizer.json",
                                       .data = t->around.json,
                                       .size = t->around.json ? strlen(t->around.json) : 0,
                                       .max_size = SIZE_MAX};
    enum qkv_status status = t->around.json ? qkv_json_load(ctx, &text, &root) : QKV_OK;
    const json_t *parts = json_object_get(root, "processors");
    if (!status && root && !parts) status = pair_read_part(ctx, t, root, out);
    for (size_t i = 0; i < json_array_size(parts) && !status; i++)
        status = pair_read_part(ctx, t, json_array_get(parts, i), out);
    if (!status && !out->count) status = pair_read_none(ctx, t, ends, out);
    json_decref(root);
    if (status) qkv_pair_template_free(out);
    return status;
}

void qkv_pair_template_free(struct qkv_pair_template *t) {
    free(t->parts);
    *t = (struct qkv_pair_template){0};
}

/* ---- cutting ----------------------------------------------------------------------------------------------------- */

/* Shares `max` tokens between both texts: the longer one is cut first, as in the package tokenizers (longest_first). */
static void pair_share(size_t counts[2], size_t max) {
    const size_t longer = counts[1] >= counts[0], shorter = !longer;
    size_t n = counts[shorter], m = n > max ? n : qkv_max(n, max - n);
    if (n + m > max) {
        n = max / 2;
        m = n + max % 2;
    }
    counts[shorter] = n;
    counts[longer] = m;
}

enum qkv_long_fate qkv_pair_join(struct qkv_context *ctx, const struct qkv_pair_template *t,
                                 const struct qkv_long_rule *rule, int32_t *const texts[2], const size_t sizes[2],
                                 int32_t **ids, int32_t **types, size_t *count) {
    size_t kept[2] = {sizes[0], sizes[1]};
    const size_t all = sizes[0] + sizes[1] + t->specials;
    *count = all;
    *ids = *types = NULL;
    if (all > rule->most && rule->found) ++*rule->found;
    if (all > rule->most && rule->kind == QKV_LONG_SKIP) return QKV_FATE_SKIPPED;
    if (all > rule->most && (rule->kind == QKV_LONG_ERROR || t->specials + 2 > rule->most)) return QKV_FATE_REFUSED;
    if (all > rule->most) pair_share(kept, rule->most - t->specials);
    const size_t n = kept[0] + kept[1] + t->specials;
    int32_t *to = *ids = qkv_allocate(ctx, n + 1, sizeof **ids),
            *type = *types = qkv_allocate(ctx, n + 1, sizeof **types);
    for (size_t i = 0; to && type && i < t->count; i++) {
        const struct qkv_pair_part *part = &t->parts[i];
        const size_t side = part->sequence > 0, parts = part->sequence < 0 ? 1 : kept[side];
        const size_t from = part->sequence >= 0 && rule->kind == QKV_LONG_KEEP_END ? sizes[side] - kept[side] : 0;
        for (size_t k = 0; k < parts; k++) {
            *to++ = part->sequence < 0 ? part->id : texts[side][from + k];
            *type++ = part->type;
        }
    }
    *count = n;
    return QKV_FATE_FITS;
}
