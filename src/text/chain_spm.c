/* Links of SentencePiece (Kudo and Richardson 2018), and the keys of its models: as in src/normalizer.cc and
 * src/sentencepiece_processor.cc of version 0.2.3. */
#include <stdlib.h>
#include <string.h>

#include "text/spm.h"

#define REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */

enum { SPM_PREFIX, SPM_SINGLE, SPM_ESCAPES, SPM_BYTES = SPM_ESCAPES }; /* flags of links */

/* ---- the normalizer ---------------------------------------------------------------------------------------------- */

static enum qkv_status spm_read_flags(struct chain_reader *r, const json_t *own, const char *last,
                                      struct chain_link *link) {
    enum qkv_status status = qkv_chain_bool(r, own, "add_dummy_prefix", true, &link->flags[SPM_PREFIX]);
    if (!status) status = qkv_chain_bool(r, own, "remove_extra_whitespaces", true, &link->flags[SPM_SINGLE]);
    return status ? status : qkv_chain_bool(r, own, last, true, &link->flags[SPM_ESCAPES]);
}

/* The charsmap is that of a part Precompiled. */
static enum qkv_status spm_read(struct chain_reader *r, const json_t *value, struct chain_link *link) {
    const json_t *own = json_object_get(value, QKV_SPM_KEY), *parts = json_object_get(value, "normalizers"), *part;
    if (!json_is_object(own)) return qkv_chain_refuse(r, QKV_SPM_KEY, own, "an object");
    size_t i;
    enum qkv_status status = spm_read_flags(r, own, "escape_whitespaces", link);
    json_array_foreach(parts, i, part) {
        const char *type = json_string_value(json_object_get(part, "type"));
        if (!status && !link->charsmap && type && !strcmp(type, "Precompiled"))
            status = qkv_charsmap_read(r, part, link);
    }
    link->text = qkv_copy_string(r->ctx, link->flags[SPM_ESCAPES] ? QKV_SPM_MARK : " ");
    link->size = link->text ? strlen(link->text) : 0;
    return status || link->text ? status : QKV_MEMORY;
}

static size_t spm_user(const struct qkv_chain *c, const char *s, size_t size) {
    size_t longest = 0;
    int32_t node = 0;
    for (size_t i = 0; i < size && node >= 0;) {
        node = qkv_trie_step(&c->users, node, (unsigned char)s[i++]);
        if (node >= 0 && c->users.values[node] >= 0) longest = i;
    }
    return longest;
}

/* What the beginning of a text becomes. */
struct spm_step {
    const char *text;
    size_t size;
    size_t bytes; /* of the beginning */
};

static struct spm_step spm_next(const struct qkv_chain *c, const struct chain_link *link, const char *s, size_t size) {
    const size_t user = c->user_begins[(unsigned char)*s] ? spm_user(c, s, size) : 0;
    if (user) return (struct spm_step){s, user, user};
    size_t length = 0;
    const char *mapped = link->charsmap ? qkv_charsmap_longest(link->charsmap, s, size, &length) : NULL;
    if (mapped) return (struct spm_step){mapped, strlen(mapped), length};
    uint32_t code;
    const int n = qkv_utf8_scan(s, size, &code);
    return n > 0 ? (struct spm_step){s, (size_t)n, (size_t)n} : (struct spm_step){REPLACEMENT, 3, 1};
}

/* The bytes of ASCII from s on that stay as they are, without spaces. The last one may be mapped together with the
 * character after it. */
static size_t spm_plain(const struct qkv_chain *c, const struct chain_link *link, const char *s, size_t size) {
    const unsigned char *u = (const unsigned char *)s;
    size_t n = 0;
    while (n < size && u[n] < 0x80 && u[n] != ' ' && !c->user_begins[u[n]] &&
           (!link->charsmap || link->charsmap->alone[u[n]]))
        n++;
    return n && n < size && u[n] >= 0x80 && link->charsmap ? n - 1 : n;
}

/* The source of the next bytes of the text. */
static struct chain_span spm_source(const struct chain_run *r, size_t bytes) {
    if (!r->mapped) return (struct chain_span){0, 0};
    return (struct chain_span){qkv_chain_source(r, r->cursor).begin, qkv_chain_source(r, r->cursor + bytes - 1).end};
}

/* Writes what a beginning became, with marks for spaces. */
static enum qkv_status spm_write(struct chain_run *r, const struct chain_link *link, const char *s, size_t size,
                                 struct chain_span from) {
    enum qkv_status status = QKV_OK;
    for (size_t at = 0; at < size && !status;) {
        const char *space = memchr(s + at, ' ', size - at);
        const size_t end = space ? (size_t)(space - s) : size;
        if (end > at) status = qkv_chain_put_text(r, s + at, end - at, from);
        if (!status && space) status = qkv_chain_put_text(r, link->text, link->size, from);
        at = end + (space != NULL);
    }
    return status;
}

static void spm_skip_spaces(struct chain_run *r, const struct chain_link *link, const char *text, size_t size) {
    while (r->cursor < size) {
        const struct spm_step step = spm_next(r->chain, link, text + r->cursor, size - r->cursor);
        if (step.size != 1 || *step.text != ' ') return;
        qkv_chain_skip(r, step.bytes);
    }
}

static enum qkv_status spm_rest(struct chain_run *r, const struct chain_link *link, const char *text, size_t size) {
    const bool single = link->flags[SPM_SINGLE];
    bool after_space = single;
    enum qkv_status status = QKV_OK;
    while (r->cursor < size && !status) {
        const size_t plain = spm_plain(r->chain, link, text + r->cursor, size - r->cursor);
        if (plain) {
            status = qkv_chain_keep(r, plain);
            after_space = false;
            continue;
        }
        struct spm_step step = spm_next(r->chain, link, text + r->cursor, size - r->cursor);
        while (after_space && step.size && *step.text == ' ') {
            step.text++;
            step.size--;
        }
        if (step.size) {
            status = spm_write(r, link, step.text, step.size, spm_source(r, step.bytes));
            after_space = single && step.text[step.size - 1] == ' ';
        }
        qkv_chain_skip(r, step.bytes);
    }
    return status;
}

static enum qkv_status spm_run(struct chain_run *r, const struct chain_link *link) {
    const char *text = r->text.bytes.data;
    const size_t size = r->text.bytes.size;
    enum qkv_status status = qkv_chain_begin(r);
    if (link->flags[SPM_SINGLE]) spm_skip_spaces(r, link, text, size);
    if (!status && r->cursor < size && link->flags[SPM_PREFIX]) {
        const size_t begin = qkv_chain_source(r, r->cursor).begin;
        status = qkv_chain_put_text(r, link->text, link->size, (struct chain_span){(uint32_t)begin, (uint32_t)begin});
    }
    if (!status) status = spm_rest(r, link, text, size);
    struct qkv_buffer *out = &r->next.bytes;
    while (!status && link->flags[SPM_SINGLE] && out->size >= link->size &&
           !memcmp(out->data + out->size - link->size, link->text, link->size))
        out->size -= link->size;
    if (!status) qkv_chain_swap(r);
    return status;
}

const struct chain_kind qkv_spm_normalizer = {"SentencePiece", spm_read, spm_run, NULL, false};

/* ---- the decoder ------------------------------------------------------------------------------------------------- */

static enum qkv_status decoder_read(struct chain_reader *r, const json_t *value, struct chain_link *link) {
    const json_t *own = json_object_get(value, QKV_SPM_KEY);
    if (!json_is_object(own)) return qkv_chain_refuse(r, QKV_SPM_KEY, own, "an object");
    enum qkv_status status = spm_read_flags(r, own, "byte_fallback", link);
    if (!status) status = qkv_chain_string(r, own, "unk_piece", "", &link->text);
    return status ? status : qkv_chain_string(r, own, "unk_surface", "", &link->other);
}

static int decoder_byte(const char *key, size_t size) {
    static const char digits[] = "0123456789ABCDEF";
    if (size != 6 || memcmp(key, "<0x", 3) != 0 || key[5] != '>') return -1;
    const char *high = memchr(digits, key[3], 16), *low = memchr(digits, key[4], 16);
    return high && low ? (int)(high - digits) * 16 + (int)(low - digits) : -1;
}

static enum qkv_status decoder_bytes(struct qkv_context *ctx, struct qkv_buffer *out, struct qkv_buffer *run,
                                     bool raw) {
    enum qkv_status status = raw ? qkv_buffer_append(ctx, out, run->data, run->size) : QKV_OK;
    for (size_t at = 0; !raw && at < run->size && !status;) {
        uint32_t code;
        const int n = qkv_utf8_scan(run->data + at, run->size - at, &code);
        status = n > 0 ? qkv_buffer_append(ctx, out, run->data + at, (size_t)n)
                       : qkv_buffer_append(ctx, out, REPLACEMENT, 3);
        at += n > 0 ? (size_t)n : 1;
    }
    run->size = 0;
    return status;
}

/* Writes a token with spaces for marks. */
static enum qkv_status decoder_key(struct qkv_context *ctx, struct qkv_buffer *out, const char *key, size_t size) {
    enum qkv_status status = QKV_OK;
    for (size_t at = 0; at < size && !status;) {
        const char *mark = memmem(key + at, size - at, QKV_SPM_MARK, 3);
        const size_t end = mark ? (size_t)(mark - key) : size;
        if (end > at) status = qkv_buffer_append(ctx, out, key + at, end - at);
        if (!status && mark) status = qkv_buffer_append(ctx, out, " ", 1);
        at = end + (mark ? 3 : 0);
    }
    return status;
}

/* At the beginning of a text, the mark of the dummy prefix goes, or all marks. */
static enum qkv_status decoder_run(struct qkv_context *ctx, const struct chain_link *link, struct chain_strings *s) {
    struct qkv_buffer run = {0}, out = {0};
    const size_t unknown = strlen(link->text);
    bool begins = link->flags[SPM_PREFIX] || link->flags[SPM_SINGLE];
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < s->count && !status; i++) {
        const size_t begin = i ? s->ends[i - 1] : 0, size = s->ends[i] - begin;
        const char *key = s->bytes.data + begin;
        const int byte = link->flags[SPM_BYTES] ? decoder_byte(key, size) : -1;
        const char c = (char)byte;
        if (byte >= 0) {
            status = qkv_buffer_append(ctx, &run, &c, 1);
            continue;
        }
        if (run.size) status = decoder_bytes(ctx, &out, &run, s->raw);
        begins = begins && out.size == 0;
        const bool marked = begins && size >= 3 && !memcmp(key, QKV_SPM_MARK, 3);
        if (!status && unknown && size == unknown && !memcmp(key, link->text, size))
            status = qkv_buffer_append(ctx, &out, link->other, strlen(link->other));
        else if (!status)
            status = decoder_key(ctx, &out, key + (marked ? 3 : 0), size - (marked ? 3 : 0));
        begins = begins && out.size == 0 && !(marked && !link->flags[SPM_SINGLE]);
    }
    if (!status && run.size) status = decoder_bytes(ctx, &out, &run, s->raw);
    s->bytes.size = s->count = 0;
    if (!status) status = qkv_strings_put(ctx, s, out.size ? out.data : "", out.size);
    qkv_buffer_free(&run);
    qkv_buffer_free(&out);
    return status;
}

const struct chain_kind qkv_spm_decoder = {"SentencePiece", decoder_read, NULL, decoder_run, false};

/* ---- keys of the model ------------------------------------------------------------------------------------------- */

enum qkv_status qkv_spm_read_types(struct chain_reader *r, const json_t *model) {
    struct qkv_chain *c = r->chain;
    const json_t *types = json_object_get(model, "piece_types");
    if (!types || json_is_null(types)) return QKV_OK;
    const char *text = json_string_value(types);
    if (!text || text[strspn(text, "0123456")])
        return qkv_json_refuse(r->ctx, r->name, "model.piece_types", types, "a text of digits from 0 to 6");
    c->type_count = strlen(text);
    c->types = qkv_copy_string(r->ctx, text);
    c->has_unused = strchr(text, '0' + QKV_SPM_UNUSED) != NULL;
    return c->types ? QKV_OK : QKV_MEMORY;
}

enum qkv_status qkv_spm_read_users(struct chain_reader *r) {
    struct qkv_chain *c = r->chain;
    enum qkv_status status = QKV_OK;
    for (size_t id = 0; id < c->type_count && !status; id++) {
        if (qkv_chain_type(c, id) != QKV_SPM_USER || id >= c->key_count || !c->keys[id] || !c->key_sizes[id]) continue;
        c->user_begins[(unsigned char)*c->keys[id]] = true;
        status = qkv_trie_add(r->ctx, &c->users, c->keys[id], c->key_sizes[id], (int32_t)id);
    }
    return status;
}

enum qkv_status qkv_spm_read_groups(struct chain_reader *r, const json_t *model) {
    const json_t *groups = json_object_get(model, "merge_groups"), *group;
    struct qkv_merges *merges = &r->t->merges;
    if (!groups || json_is_null(groups)) return QKV_OK;
    merges->levels = qkv_allocate(r->ctx, merges->count, sizeof *merges->levels);
    if (!merges->levels) return QKV_MEMORY;
    size_t i, at = 0;
    bool good = json_is_array(groups);
    json_array_foreach(groups, i, group) {
        const json_int_t n = json_integer_value(group);
        good = good && n > 0 && (size_t)n <= merges->count - at;
        for (json_int_t k = 0; k < n && good; k++) merges->levels[at++] = (int32_t)i;
    }
    if (good && at == merges->count) return QKV_OK;
    return qkv_fail(r->ctx, QKV_FORMAT, "%s: model.merge_groups are no sizes of groups of all %zu merges", r->name,
                    merges->count);
}
