/* use_sizes: how long the texts of a use are, in tokens: a bound by their bytes, or exactly. */
#include <stdlib.h>
#include <string.h>

#include "io/io.h"
#include "model/model.h"
#include "text/text.h"
#include "train/train.h"
#include "data/tsv.h"
#include "train/use.h"

enum { SPECIALS = 8 }; /* tokens that a template may place around a text */

struct measured {
    struct qkv_context *ctx;
    struct qkv_tokenizer *tokenizers[2]; /* NULL, NULL: bytes are counted */
    struct qkv_use_sizes *sizes;
};

static enum qkv_status sizes_open(struct measured *m, const char *folder) {
    struct qkv_model_place place;
    bool found = false;
    enum qkv_status status = qkv_model_place(m->ctx, folder, &place);
    if (status) return status;
    char *source = qkv_join_path(m->ctx, place.folder, QKV_SOURCE_FILE);
    status = source ? qkv_file_find(m->ctx, source, &found) : QKV_MEMORY;
    if (!status) status = qkv_theirs_tokenizer(m->ctx, place.folder, &m->tokenizers[0]);
    if (!status && found) status = qkv_tokenizer_load(m->ctx, source, &m->tokenizers[1]);
    free(source);
    qkv_model_place_free(&place);
    return status;
}

/* The tokens of a text, by the tokenizer that makes more of it. */
static enum qkv_status sizes_count(const struct measured *m, const char *text, size_t size, size_t *tokens) {
    enum qkv_status status = QKV_OK;
    *tokens = m->tokenizers[0] ? 0 : size + SPECIALS;
    for (size_t i = 0; i < 2 && m->tokenizers[i] && !status; i++) {
        int32_t *ids = NULL;
        size_t count = 0;
        status = qkv_source_encode(m->ctx, m->tokenizers[i], text, size, true, true, &ids, &count);
        qkv_free(ids);
        *tokens = qkv_max(*tokens, count);
    }
    return status;
}

static enum qkv_status sizes_add(const struct measured *m, const char *text, size_t size) {
    size_t tokens = 0;
    enum qkv_status status = sizes_count(m, text, size, &tokens);
    m->sizes->longest = qkv_max(m->sizes->longest, tokens);
    return status;
}

static enum qkv_status sizes_of_texts(const struct measured *m, const struct qkv_model *plan,
                                      const struct qkv_use_options *o) {
    enum qkv_status status = QKV_OK;
    const char *prompt = NULL;
    size_t longest = 0, tokens = 0;
    for (size_t i = 0; i < o->text_count && !status; i++) status = sizes_add(m, o->texts[i], strlen(o->texts[i]));
    if (o->pairs) m->sizes->longest *= 2;
    for (size_t i = 0; o->use == QKV_USE_EMBED && !status && qkv_model_prompt(plan, i, NULL, &prompt); i++) {
        status = sizes_count(m, prompt, strlen(prompt), &tokens);
        longest = qkv_max(longest, tokens);
    }
    m->sizes->longest += longest;
    m->sizes->count = o->text_count;
    return status;
}

static enum qkv_status sizes_of_row(const struct measured *m, const struct qkv_tsv_row *row) {
    size_t all = 0;
    enum qkv_status status = QKV_OK;
    if (!row->sentence) {
        status = sizes_add(m, row->first, row->first_size);
        return status ? status : sizes_add(m, row->second, row->second_size);
    }
    for (size_t i = 0; i < row->sentence->count && !status; i++) {
        size_t tokens = 0;
        status = sizes_count(m, row->sentence->words[i].text, row->sentence->words[i].size, &tokens);
        all += tokens;
    }
    m->sizes->longest = qkv_max(m->sizes->longest, all);
    return status;
}

static enum qkv_status sizes_of_file(const struct measured *m, const struct qkv_model *plan, const char *path) {
    struct qkv_tsv tsv;
    struct qkv_tsv_row row;
    bool end = false;
    enum qkv_status status = qkv_tsv_open(m->ctx, path, "first", "second", &tsv);
    tsv.sentences = plan->spec.head.kind == QKV_HEAD_CLASSIFY_TOKENS;
    while (!status && !(status = qkv_tsv_next(&tsv, &row, &end)) && !end) {
        status = sizes_of_row(m, &row);
        m->sizes->count++;
    }
    qkv_tsv_close(&tsv);
    return status;
}

/* Vectors of embedded lines, scores of classified ones. */
static size_t sizes_of_results(const struct qkv_model *plan, const struct qkv_use_options *o) {
    const size_t classes = plan->spec.head.classes > 0 ? (size_t)plan->spec.head.classes : 1;
    size_t bytes = 0;
    if (o->use == QKV_USE_EMBED) bytes = qkv_embed_width(plan) * sizeof(float);
    if (o->use == QKV_USE_CLASSIFY) bytes = classes * sizeof(float);
    return qkv_multiply(bytes, o->text_count, &bytes) ? bytes : SIZE_MAX / 2;
}

enum qkv_status qkv_use_sizes(struct qkv_model *plan, const char *folder, const struct qkv_use_options *o, bool exact,
                              struct qkv_use_sizes *sizes) {
    struct measured m = {.ctx = plan->ctx, .sizes = sizes};
    const bool lines = o->file && (o->use == QKV_USE_EVALUATE_PAIRS || o->use == QKV_USE_EVALUATE_LABELS);
    /* a model of images has no tokenizer */
    enum qkv_status status = exact && (o->text_count || lines) ? sizes_open(&m, folder) : QKV_OK;
    *sizes = (struct qkv_use_sizes){.results = sizes_of_results(plan, o)};
    if (!status && o->text_count)
        status = sizes_of_texts(&m, plan, o);
    else if (!status && lines)
        status = sizes_of_file(&m, plan, o->file);
    else
        sizes->longest = SIZE_MAX;
    for (size_t i = 0; i < 2; i++) qkv_tokenizer_free(m.tokenizers[i]);
    return status;
}
