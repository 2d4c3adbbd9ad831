/* What other readers of a tokenizer.json that was made of a model of SentencePiece read differently. They apply the
 * charsmap to grapheme clusters of less than 6 bytes, else to characters, and use the shortest entry that begins such a
 * part; SentencePiece uses the longest entry that begins the rest of the text. */
#include <stdlib.h>
#include <string.h>

#include "text/spm.h"

enum { NAMED_MAX = 8 }; /* characters that the sentence shows */

struct differ {
    struct qkv_context *ctx;
    const struct qkv_tokenizer *t;
    struct chain_link spm; /* the charsmap alone */
    struct qkv_buffer alone, marked, text;
    size_t alone_count, marked_count;
};

static enum qkv_status differ_run(const struct differ *d, bool spm, const char *text, size_t size,
                                  struct qkv_buffer *out) {
    struct chain_run r = {.ctx = d->ctx, .t = d->t, .chain = d->t->chain};
    qkv_chain_load(&r, text, 0, size);
    enum qkv_status status = spm ? d->spm.kind->run(&r, &d->spm) : qkv_charsmap_run(&r, &d->spm);
    out->size = 0;
    if (!status && r.text.bytes.size) status = qkv_buffer_append(d->ctx, out, r.text.bytes.data, r.text.bytes.size);
    qkv_chain_run_free(&r);
    return status;
}

static enum qkv_status differ_text(const struct differ *d, const char *text, size_t size, bool *differs) {
    struct qkv_buffer one = {0}, two = {0};
    enum qkv_status status = differ_run(d, true, text, size, &one);
    if (!status) status = differ_run(d, false, text, size, &two);
    *differs = !status && (one.size != two.size || (one.size && memcmp(one.data, two.data, one.size) != 0));
    qkv_buffer_free(&one);
    qkv_buffer_free(&two);
    return status;
}

static enum qkv_status differ_name(struct differ *d, struct qkv_buffer *list, size_t *count, const char *key,
                                   size_t size) {
    if (++*count > NAMED_MAX) return QKV_OK;
    enum qkv_status status = qkv_buffer_print(d->ctx, list, "%s\"%.*s\" (", *count > 1 ? ", " : "", (int)size, key);
    for (size_t at = 0; at < size && !status;) {
        const bool first = at == 0;
        status = qkv_buffer_print(d->ctx, list, "%sU+%04X", first ? "" : " ", (unsigned)qkv_code_next(key, size, &at));
    }
    return status ? status : qkv_buffer_append(d->ctx, list, ")", 1);
}

/* An entry of the charsmap: alone, and before a combining mark. */
static enum qkv_status differ_key(void *user, const char *key, size_t size) {
    struct differ *d = user;
    bool differs;
    if (qkv_utf8_valid(key, size) != size) return QKV_OK;
    enum qkv_status status = differ_text(d, key, size, &differs);
    if (!status && differs) return differ_name(d, &d->alone, &d->alone_count, key, size);
    if (status || size > 3) return status;
    d->text.size = 0;
    status = qkv_buffer_append(d->ctx, &d->text, key, size);
    if (!status) status = qkv_buffer_append(d->ctx, &d->text, "\xCC\x81", 2);
    if (!status) status = differ_text(d, d->text.data, d->text.size, &differs);
    return status || !differs ? status : differ_name(d, &d->marked, &d->marked_count, key, size);
}

static size_t differ_types(const struct qkv_chain *c, enum qkv_spm_type type) {
    size_t count = 0;
    for (size_t i = 0; i < c->type_count; i++) count += qkv_chain_type(c, i) == type;
    return count;
}

static enum qkv_status differ_part(struct qkv_context *ctx, struct qkv_buffer *out, const char *what,
                                   const struct qkv_buffer *list, size_t count) {
    if (!count) return QKV_OK;
    return qkv_buffer_print(ctx, out, "%s%zu %s: %s%s", out->size ? "; " : "", count, what, list->data,
                            count > NAMED_MAX ? ", …" : "");
}

static enum qkv_status differ_all(struct differ *d, struct qkv_buffer *out) {
    const struct qkv_chain *c = d->t->chain;
    const size_t users = differ_types(c, QKV_SPM_USER), unused = differ_types(c, QKV_SPM_UNUSED);
    enum qkv_status status = d->spm.charsmap ? qkv_charsmap_keys(d->ctx, d->spm.charsmap, differ_key, d) : QKV_OK;
    if (!status) status = differ_part(d->ctx, out, "texts of its charsmap", &d->alone, d->alone_count);
    if (!status) status = differ_part(d->ctx, out, "characters before a combining mark", &d->marked, d->marked_count);
    if (!status && users)
        status =
            qkv_buffer_print(d->ctx, out, "%sspaces around its %zu symbols of the user", out->size ? "; " : "", users);
    if (!status && unused)
        status =
            qkv_buffer_print(d->ctx, out, "%stexts with one of its %zu unused pieces", out->size ? "; " : "", unused);
    return status;
}

enum qkv_status qkv_tokenizer_differences(struct qkv_context *ctx, const struct qkv_tokenizer *t, char **sentence) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, t);
    QKV_NEED(ctx, sentence);
    struct differ d = {.ctx = ctx, .t = t};
    struct qkv_buffer out = {0};
    const struct chain_links *links = &t->chain->normalizers;
    *sentence = NULL;
    size_t i = 0;
    while (i < links->count && links->at[i].kind != &qkv_spm_normalizer) i++;
    if (i == links->count) return QKV_OK;
    char space[] = " ";
    d.spm =
        (struct chain_link){.kind = &qkv_spm_normalizer, .text = space, .size = 1, .charsmap = links->at[i].charsmap};
    enum qkv_status status = differ_all(&d, &out);
    qkv_buffer_free(&d.alone);
    qkv_buffer_free(&d.marked);
    qkv_buffer_free(&d.text);
    if (status)
        qkv_buffer_free(&out);
    else
        *sentence = out.data;
    return status;
}

const char *qkv_tokenizer_origin(const struct qkv_tokenizer *t) {
    if (!t) return "";
    if (t->chain->types)
        return t->chain->model == CHAIN_UNIGRAM ? "a model of SentencePiece (Unigram)"
                                                : "a model of SentencePiece (byte-pair encoding)";
    return t->merges.levels ? "ranks of tiktoken" : "a tokenizer.json";
}
