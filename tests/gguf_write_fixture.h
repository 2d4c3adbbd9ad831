/* gguf_write_fixture.h: small models, and GGUF files made of them. */
#ifndef GGUF_WRITE_FIXTURE_H
#define GGUF_WRITE_FIXTURE_H

#include "family_fixture.h"
#include "test_text.h"

#define TEST_WITH_CONTEXT(name) cmocka_unit_test_setup_teardown(name, test_context, test_context_done)

/* Writes a model, and gives the notes as one text, which the caller frees. */
static inline char *write_model(struct qkv_model *model, const struct qkv_gguf_options *options, const char *path) {
    struct qkv_gguf_notes *notes;
    const char *note;
    char *text = calloc(1, 4096);
    if (qkv_model_export_gguf(model, options, path, &notes))
        fail_msg("%s: %s", path, qkv_message(qkv_model_context(model)));
    for (size_t i = 0; (note = qkv_gguf_note_at(notes, i)); i++)
        snprintf(text + strlen(text), 4096 - strlen(text), "%s\n", note);
    qkv_gguf_notes_free(notes);
    return text;
}

/* LLaMA with grouped queries: rotated pairs change their order in the file. */
#define LLAMA_SPEC                                                                                                     \
    "{'format':'qkv','version':2,'vocab':300,'context':32,'d_model':%d,'decoder':{'layers':%d,'attention':{'heads':8," \
    "'kv_heads':2,'bias':false,'position':{'kind':'rope'}},'ffn':{'kind':'swiglu','d_ff':%d,'bias':false},'norm':{"    \
    "'kind':'rmsnorm','placement':'pre'},'embed':{'position':{'kind':'none'}}},'head':{'kind':'lm','bias':false}}"

static inline struct qkv_model *make_model(struct qkv_context *ctx, const char *text) {
    struct qkv_spec spec;
    struct qkv_model *model;
    char *json = strdup(text);
    for (char *c = json; *c; c++)
        if (*c == '\'') *c = '"';
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "spec", json, strlen(json), NULL, 0));
    assert_ok(ctx, qkv_model_create(ctx, &spec, 7, &model));
    qkv_spec_free(&spec);
    free(json);
    return model;
}

static inline struct qkv_model *make_llama(struct qkv_context *ctx, int layers, int width) {
    char text[1024];
    snprintf(text, sizeof text, LLAMA_SPEC, width, layers, 2 * width);
    return make_model(ctx, text);
}

#endif
