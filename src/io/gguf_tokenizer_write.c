/* The keys tokenizer.ggml.* of a GGUF file, from a tokenizer: the reverse of gguf_tokenizer.c. A tokenizer that the keys
 * cannot say is written as a whole tokenizer.json, which qkv reads. gguf_vocab_write.c has the kinds. */
#include <stdlib.h>
#include <string.h>

#include "base/json_load.h"
#include "io/chat_templates.h"
#include "io/gguf_export.h"
#include "io/gguf_vocab_write.h"
#include "io/io.h"
#include "text/text.h"

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

static enum qkv_status vocab_set(struct qkv_vocab_writing *v, json_int_t id, json_t *text, enum gguf_vocab_type type) {
    if (id < 0 || (size_t)id >= v->count) {
        v->reason = "it has ids that the model has no row for";
        return QKV_OK;
    }
    v->types[id] = (int32_t)type;
    return json_array_set(v->texts, (size_t)id, text) ? qkv_fail_memory(v->ctx, 0, "a vocabulary") : QKV_OK;
}

/* Ids without a token: llama.cpp needs a text for each row of the table. */
static enum qkv_status vocab_begin(struct qkv_vocab_writing *v) {
    v->texts = json_array();
    v->types = qkv_allocate(v->ctx, v->count, sizeof *v->types);
    v->scores = qkv_allocate(v->ctx, v->count, sizeof *v->scores);
    bool made = v->texts && v->types && v->scores;
    for (size_t i = 0; i < v->count && made; i++) {
        char text[32];
        snprintf(text, sizeof text, "[PAD%zu]", i);
        v->types[i] = VOCAB_UNUSED;
        made = !json_array_append_new(v->texts, json_string(text));
    }
    return made ? QKV_OK : qkv_fail_memory(v->ctx, 0, "a vocabulary");
}

static enum qkv_status vocab_tokens(struct qkv_vocab_writing *v) {
    const json_t *vocab = json_object_get(v->model, "vocab"), *added = json_object_get(v->root, "added_tokens");
    enum qkv_status status = vocab_begin(v);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)vocab, key, value) {
        json_t *text = json_string(key);
        if (!status) status = vocab_set(v, json_integer_value(value), text, VOCAB_NORMAL);
        json_decref(text);
    }
    for (size_t i = 0; i < (json_is_array(vocab) ? json_array_size(vocab) : 0) && !status; i++) {
        const json_t *entry = json_array_get(vocab, i);
        status = vocab_set(v, (json_int_t)i, json_array_get(entry, 0), VOCAB_NORMAL);
        if (i < v->count) v->scores[i] = (float)json_number_value(json_array_get(entry, 1));
    }
    for (size_t i = 0; i < json_array_size(added) && !status; i++) {
        const json_t *token = json_array_get(added, i);
        if (qkv_link_flag(token, "single_word", false)) v->reason = "it has added tokens that are whole words only";
        status = vocab_set(v, json_integer_value(json_object_get(token, "id")), json_object_get(token, "content"),
                           qkv_link_flag(token, "special", false) ? VOCAB_CONTROL : VOCAB_USER);
    }
    return status;
}

/* ---- special tokens ---------------------------------------------------------------------------------------------- */

static void put_id(struct qkv_gguf_writer *w, const char *key, int id) {
    char name[64];
    snprintf(name, sizeof name, "tokenizer.ggml.%s_token_id", key);
    if (id >= 0) qkv_gguf_put_u32(w, name, (uint32_t)id);
}

/* Puts more tokens that end a text than the one with the role: those of the tokenizer, and of the settings of
 * generation. end: that one; −1: the first of them is. Returns how many there are no keys for. */
static size_t put_ends(struct qkv_gguf_writer *w, const struct qkv_model *m, int end) {
    int32_t ends[2 * QKV_TOKEN_ENDS];
    size_t count = m->tokenizer ? qkv_tokenizer_ends(m->tokenizer, ends) : 0, more = 0;
    for (size_t i = 0; i < m->generation.end_count; i++) ends[count++] = m->generation.ends[i];
    if (end < 0 && count) put_id(w, "eos", end = ends[0]);
    for (size_t i = 0; i < count; i++) {
        bool twice = ends[i] == end;
        for (size_t k = 0; k < i; k++) twice = twice || ends[k] == ends[i];
        if (twice) continue;
        if (more < QKV_VOCAB_ENDS) put_id(w, qkv_vocab_end_keys[more], ends[i]);
        more++;
    }
    return more < QKV_VOCAB_ENDS ? 0 : more - QKV_VOCAB_ENDS;
}

/* Puts the ids of special tokens; bos and end replace those of the roles where they are not negative. Returns how many
 * tokens that end a text there are no keys for. */
static size_t put_roles(struct qkv_gguf_writer *w, const struct qkv_model *m, int bos, int end) {
    for (size_t i = 0; i < QKV_VOCAB_ROLES && m->tokenizer; i++) {
        const enum qkv_token_role role = qkv_vocab_role_keys[i].role;
        int id = qkv_tokenizer_role(m->tokenizer, role);
        if (role == QKV_TOKEN_ROLE_BEGIN && bos >= 0) id = bos;
        if (role == QKV_TOKEN_ROLE_END && end < 0) end = id;
        put_id(w, qkv_vocab_role_keys[i].key, role == QKV_TOKEN_ROLE_END ? end : id);
    }
    return put_ends(w, m, end);
}

/* Puts the tokens around a text, and the roles. */
static void put_specials(struct qkv_vocab_writing *v, bool words) {
    const int32_t *before, *after;
    size_t before_count, after_count;
    qkv_tokenizer_template(v->m->tokenizer, &before, &before_count, &after, &after_count);
    const int separator = qkv_tokenizer_role(v->m->tokenizer, QKV_TOKEN_ROLE_SEPARATOR);
    const int end = qkv_tokenizer_role(v->m->tokenizer, QKV_TOKEN_ROLE_END), last = words ? separator : end;
    if (before_count > 1 || after_count > 1 || (after_count && last >= 0 && after[0] != last)) {
        v->reason = "its template puts other tokens around a text than GGUF files can say";
        return;
    }
    v->ends_left =
        put_roles(v->w, v->m, before_count ? before[0] : -1, after_count && !words && end < 0 ? after[0] : -1);
    if (words && separator < 0 && after_count) put_id(v->w, "seperator", after[0]);
    qkv_gguf_put_bool(v->w, "tokenizer.ggml.add_bos_token", before_count > 0);
    qkv_gguf_put_bool(v->w, words ? "tokenizer.ggml.add_sep_token" : "tokenizer.ggml.add_eos_token", after_count > 0);
}

/* ---- the tokenizer ----------------------------------------------------------------------------------------------- */

static enum qkv_status vocab_put(struct qkv_vocab_writing *v) {
    const char *type = qkv_vocab_model_name(v->model);
    const json_t *splitter = json_object_get(v->root, "pre_tokenizer"), *link;
    bool bytes = false;
    for (size_t i = 0; (link = qkv_link_at(splitter, "pretokenizers", i)); i++)
        bytes = bytes || qkv_link_is(link, "ByteLevel");
    enum qkv_status status = QKV_OK;
    if (!strcmp(type, "BPE"))
        status = bytes ? qkv_vocab_put_bpe(v) : qkv_vocab_put_spm(v);
    else if (!strcmp(type, "WordPiece"))
        status = qkv_vocab_put_wordpiece(v);
    else if (!strcmp(type, "Unigram"))
        status = qkv_vocab_put_unigram(v);
    else
        v->reason = "GGUF files have no tokenizers of its kind";
    if (status || v->reason) return status;
    qkv_gguf_put_array(v->w, "tokenizer.ggml.tokens", QKV_GGUF_STRING, v->count);
    for (size_t i = 0; i < v->count; i++)
        qkv_gguf_add_text(v->w, json_string_value(json_array_get(v->texts, i)),
                          json_string_length(json_array_get(v->texts, i)));
    qkv_gguf_put_array(v->w, "tokenizer.ggml.token_type", QKV_GGUF_I32, v->count);
    qkv_gguf_add_bytes(v->w, v->types, v->count * sizeof *v->types);
    put_specials(v, !strcmp(type, "WordPiece"));
    return v->w->status;
}

/* Puts the keys into a writer of their own first, as a fault may show after some of them. */
static enum qkv_status tokenizer_try(struct qkv_gguf_export *e, const struct qkv_buffer *text, const char **reason,
                                     size_t *ends_left) {
    struct qkv_gguf_writer part = {.ctx = e->ctx, .path = e->writer.path};
    json_t *root = NULL;
    const struct qkv_json_text file = {
        .name = "tokenizer", .data = (const unsigned char *)text->data, .size = text->size, .max_size = text->size};
    enum qkv_status status = qkv_json_load(e->ctx, &file, &root);
    struct qkv_vocab_writing v = {.ctx = e->ctx,
                                  .w = &part,
                                  .m = e->model,
                                  .root = root,
                                  .model = json_object_get(root, "model"),
                                  .count = (size_t)e->model->spec.vocab};
    if (!status) status = vocab_tokens(&v);
    if (!status && !v.reason) status = vocab_put(&v);
    if (!status && !v.reason) {
        qkv_gguf_add_bytes(&e->writer, part.keys.data, part.keys.size);
        e->writer.key_count += part.key_count;
    }
    *reason = v.reason;
    *ends_left = v.ends_left;
    qkv_gguf_writer_free(&part);
    json_decref(v.texts);
    free(v.types);
    free(v.scores);
    json_decref(root);
    return status;
}

/* Copies the keys of the tokenizer, and those about the model in general, of the file that the model was read from. */
static enum qkv_status tokenizer_copy(struct qkv_gguf_export *e, const char *path) {
    static const char *const own[] = {"general.architecture", "general.file_type", "general.quantization_version",
                                      "general.alignment", "general.type"};
    struct qkv_gguf *g;
    struct qkv_tensors *tensors;
    enum qkv_status status = qkv_gguf_open(e->ctx, path, &g, &tensors);
    for (size_t i = 0; !status && i < g->count; i++) {
        const struct qkv_gguf_value *value = &g->values[i];
        bool skip = strncmp(value->key, "tokenizer.", 10) != 0 && strncmp(value->key, "general.", 8) != 0;
        for (size_t k = 0; k < sizeof own / sizeof *own; k++) skip = skip || !strcmp(value->key, own[k]);
        if (!skip) qkv_gguf_put_value(&e->writer, g, value);
    }
    qkv_gguf_free(g);
    qkv_tensors_close(tensors);
    return status;
}

/* Puts the templates of chats. */
static void put_chats(struct qkv_gguf_writer *w, const struct qkv_chat_sources *chats) {
    for (size_t i = 0; i < chats->count; i++) {
        const struct qkv_chat_source *source = &chats->items[i];
        const bool usual = !strcmp(source->name, "default");
        char key[128];
        const int n = snprintf(key, sizeof key, QKV_GGUF_CHAT "%s%s", usual ? "" : ".", usual ? "" : source->name);
        if (n < (int)sizeof key) qkv_gguf_put_text(w, key, source->text, source->size);
    }
}

/* Puts the languages that the folder names. */
static void put_languages(struct qkv_gguf_writer *w, const struct qkv_tokenizer *t) {
    char key[64];
    for (size_t i = 0; i < 2; i++) {
        if (!t->languages[i]) continue;
        snprintf(key, sizeof key, QKV_GGUF_LANGUAGE "%s", qkv_language_keys[i][t->short_keys[i]]);
        qkv_gguf_put_text(w, key, t->languages[i], strlen(t->languages[i]));
    }
}

static enum qkv_status note_ends(struct qkv_gguf_export *e, size_t left) {
    if (!left || !e->config.family) return QKV_OK; /* files of our own have all settings of generation */
    return qkv_gguf_note(e->ctx, e->notes, "the file does not have %zu of the tokens that end a text", left);
}

enum qkv_status qkv_gguf_put_tokenizer(struct qkv_gguf_export *e) {
    const struct qkv_model *m = e->model;
    const char *reason = NULL;
    struct qkv_buffer text = {0};
    size_t ends_left = 0;
    if (m->origin.gguf) return tokenizer_copy(e, m->origin.gguf);
    if (e->config.family && m->spec.encoder.layers && m->spec.encoder.embed.types > 0)
        qkv_gguf_put_u32(&e->writer, "tokenizer.ggml.token_type_count", (uint32_t)m->spec.encoder.embed.types);
    if (!m->tokenizer) {
        ends_left = put_roles(&e->writer, m, -1, -1);
        if (e->config.family) qkv_gguf_put_text(&e->writer, "tokenizer.ggml.model", "none", 4);
        const enum qkv_status status = note_ends(e, ends_left);
        if (status || !qkv_spec_has_tokens(&m->spec)) return status;
        if (m->origin.tokenizer)
            return qkv_gguf_note(e->ctx, e->notes, "the file reads ids only: %s", m->origin.tokenizer);
        return qkv_gguf_note(e->ctx, e->notes, "the model has no tokenizer, so the file reads ids only");
    }
    enum qkv_status status = qkv_tokenizer_print(e->ctx, m->tokenizer, &text);
    if (!status && e->config.family) status = tokenizer_try(e, &text, &reason, &ends_left);
    if (!status && (reason || !e->config.family)) {
        if (e->config.family) qkv_gguf_put_text(&e->writer, "tokenizer.ggml.model", "none", 4);
        qkv_gguf_put_text(&e->writer, QKV_GGUF_TOKENIZER, text.data, text.size);
        ends_left = put_roles(&e->writer, m, -1, -1);
    }
    if (!status) put_chats(&e->writer, &m->tokenizer->chats);
    if (!status) put_languages(&e->writer, m->tokenizer);
    if (!status) status = note_ends(e, ends_left);
    if (!status && reason)
        status = qkv_gguf_note(e->ctx, e->notes,
                               "the tokenizer is in the file as a tokenizer.json, which qkv reads and llama.cpp does "
                               "not: %s",
                               reason);
    qkv_buffer_free(&text);
    return status;
}
