/* A run that begins with a model (option from) has its tokenizers and labels. */
#include <stdlib.h>
#include <string.h>

#include "io/io.h"
#include "model/model.h"
#include "model/spec.h"
#include "text/sequence.h"
#include "text/text.h"
#include "data/data.h"

enum qkv_status qkv_origin_tokenizer(struct qkv_data *d, bool source, const char *const *specials, size_t count,
                                     struct qkv_tokenizer **out) {
    const bool own = source && d->origin->source_tokenizer;
    struct qkv_model_place place;
    enum qkv_status status = qkv_model_place(d->ctx, d->options->from, &place);
    if (status) return status;
    char *path = qkv_join_path(d->ctx, place.folder, own ? QKV_SOURCE_FILE : QKV_TOKENIZER_FILE);
    if (!path)
        status = QKV_MEMORY;
    else
        status = own ? qkv_tokenizer_load(d->ctx, path, out) : qkv_theirs_tokenizer(d->ctx, place.folder, out);
    if (!status && own) status = qkv_tokenizer_read_roles(d->ctx, *out, place.folder, QKV_SOURCE_ROLES_FILE);
    qkv_model_place_free(&place);
    for (size_t i = 0; i < count && !status; i++) {
        if (qkv_tokenizer_knows(*out, specials[i])) continue;
        status = qkv_tokenizer_add_special(d->ctx, *out, specials[i]);
        if (!status)
            status = qkv_texts_add(d->ctx, d->notes, "%s has no special token %s, which this task needs: it was added",
                                   path, specials[i]);
    }
    free(path);
    return status;
}

/* A preset's own vocabulary is that of the text it was made for; the tokenizer's replaces it. */
static enum qkv_status origin_preset_vocab(struct qkv_data *d, const char *key, int *vocab, int found) {
    const char *preset = d->options->origin.preset;
    if (!preset || *vocab == 0 || *vocab == found || strcmp(key, "vocab") != 0) return QKV_OK;
    struct qkv_spec *spec = qkv_allocate(d->ctx, 1, sizeof *spec);
    if (!spec) return QKV_MEMORY;
    enum qkv_status status = qkv_spec_preset(d->ctx, spec, preset, NULL, 0);
    const int own = spec->vocab;
    qkv_spec_free(spec);
    free(spec);
    if (status || own != *vocab) return status;
    status = qkv_texts_add(d->ctx, d->notes, "vocab is %d, as the tokenizer has it, in place of the %d of preset %s",
                           found, *vocab, preset);
    *vocab = 0;
    return status;
}

enum qkv_status qkv_origin_vocab(struct qkv_data *d, const char *key, int *vocab, int found) {
    if (!d->origin) {
        enum qkv_status status = origin_preset_vocab(d, key, vocab, found);
        return status ? status : qkv_vocab_agree(d->ctx, key, vocab, found);
    }
    if (*vocab < found) *vocab = found; /* with the specials that were added */
    return QKV_OK;
}

size_t qkv_origin_find_label(const struct qkv_model *m, const char *label) {
    size_t i = 0;
    while (i < m->label_count && strcmp(m->labels[i], label) != 0) i++;
    return i;
}

/* Labels differ from each other on both sides, so as many and each of them found is the same set. */
enum qkv_status qkv_origin_labels(struct qkv_data *d) {
    const struct qkv_model *m = d->origin;
    const char *from = d->options->from, *data = qkv_dataset_names(d->dataset, d->options)[0];
    if (d->options->new_head) return QKV_OK;
    if (m->label_count == 0)
        return qkv_fail(d->ctx, QKV_FILE,
                        "%s has no %s, so nobody knows what its classes are; put it there, or begin with a new head "
                        "(option new_head)",
                        from, QKV_LABELS_FILE);
    for (size_t i = 0; i < d->label_count; i++)
        if (qkv_origin_find_label(m, d->labels[i]) == m->label_count)
            return qkv_fail(d->ctx, QKV_SPEC,
                            "the label \"%.100s\" of %s is none of the %zu that %s knows; begin with a new head "
                            "(option new_head)",
                            d->labels[i], data, m->label_count, from);
    if (d->label_count == m->label_count) return QKV_OK;
    return qkv_fail(d->ctx, QKV_SPEC,
                    "%s knows %zu labels, but %s has only %zu of them; begin with a new head (option new_head)", from,
                    m->label_count, data, d->label_count);
}
