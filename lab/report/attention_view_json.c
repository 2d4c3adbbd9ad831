/* look_json: the attention of a text as JSON, every weight in full:
 *
 *   {"format": "qkv-attention", "version": 1, "model": …, "tokens": {"decoder": {"ids": […], "texts": […]}},
 *    "attentions": [{"name": …, "kind": "decoder", "layer": 0, "queries": "decoder", "keys": "decoder",
 *                    "heads": [{"head": 0, "entropy": …, "distance": …, "weights": [[…], …]}]}]} */
#include <math.h>

#include "lab/report/report_room.h"

static const char *const kinds[] = {
#define KIND(name, text, help) text,
    QKV_LOOK_KIND_LIST(KIND)
#undef KIND
};

bool qkv_look_selects(const struct qkv_look_selection *selection, const struct qkv_attention_view_head *attention,
                      size_t head) {
    return !selection || ((selection->layer < 0 || (size_t)selection->layer == attention->layer) &&
                          (selection->head < 0 || head == SIZE_MAX || (size_t)selection->head == head));
}

enum qkv_status qkv_look_check(const struct qkv_attention_view *look, const struct qkv_look_selection *selection) {
    QKV_CALL(look->ctx);
    size_t layers = 0, heads = 0;
    for (size_t i = 0; i < look->count; i++) {
        if (look->attentions[i].layer + 1 > layers) layers = look->attentions[i].layer + 1;
        if (look->attentions[i].heads > heads) heads = look->attentions[i].heads;
    }
    if (selection && selection->layer >= 0 && (size_t)selection->layer >= layers)
        return qkv_fail(look->ctx, QKV_ARGUMENT, "there is no layer %d: this model has layers 0 to %zu",
                        selection->layer, layers - 1);
    if (selection && selection->head >= 0 && (size_t)selection->head >= heads)
        return qkv_fail(look->ctx, QKV_ARGUMENT, "there is no head %d: this model has heads 0 to %zu", selection->head,
                        heads - 1);
    return QKV_OK;
}

/* Writes the text of a token for people: a piece of a character as its bytes, "\xe2". */
static void put_token(const struct qkv_attention_view *look, struct qkv_json *json, bool encoder, size_t t) {
    size_t size;
    const char *text = qkv_look_token(look, encoder, t, &size);
    char bytes[4 * 8 + 1];
    size_t used = 0, whole = 0;
    while (whole < size) {
        size_t n = qkv_utf8_length(text + whole, size - whole);
        if (!n) break;
        whole += n;
    }
    if (whole == size || size > 8) {
        qkv_json_string(json, text, size);
        return;
    }
    for (size_t i = 0; i < size; i++)
        used += (size_t)snprintf(bytes + used, sizeof bytes - used, "\\x%02x", (unsigned)(unsigned char)text[i]);
    qkv_json_string(json, bytes, used);
}

/* Writes "image": {"width": …, "height": …, "patch": …, "channels": 1 or 3, "bytes": […]} for patches, row by row;
 * the smallest number becomes 0 and the largest 255. An image of two channels, or of more than three, shows the
 * first. */
static void put_image(const struct qkv_attention_view *look, struct qkv_json *json, bool encoder) {
    const struct qkv_spec *spec = qkv_model_spec(look->model);
    const struct qkv_input_spec *in = encoder ? &spec->encoder.embed.input : &spec->decoder.embed.input;
    const struct qkv_batch *batch = look->batch;
    const float *x = encoder && spec->decoder.layers ? batch->source_features : batch->features;
    if (in->kind != QKV_INPUT_PATCHES || !x) return;
    const size_t pixels = (size_t)in->height * (size_t)in->width, channels = in->channels == 3 ? 3 : 1;
    float min = x[0], max = x[0];
    for (size_t i = 0; i < pixels * channels; i++) {
        min = fminf(min, x[i]);
        max = fmaxf(max, x[i]);
    }
    qkv_json_key(json, "image");
    qkv_json_begin(json, '{');
    qkv_json_put_integer(json, "width", in->width);
    qkv_json_put_integer(json, "height", in->height);
    qkv_json_put_integer(json, "patch", in->patch);
    qkv_json_put_integer(json, "channels", (int64_t)channels);
    qkv_json_key(json, "bytes");
    qkv_json_begin(json, '[');
    for (size_t i = 0; i < pixels; i++)
        for (size_t c = 0; c < channels; c++)
            qkv_json_integer(json, max > min ? (int64_t)(255 * (x[c * pixels + i] - min) / (max - min)) : 0);
    qkv_json_end(json, ']');
    qkv_json_end(json, '}');
}

static void put_side(const struct qkv_attention_view *look, struct qkv_json *json, bool encoder) {
    const struct qkv_look_side *side = encoder ? &look->encoder : &look->decoder;
    if (!side->count) return;
    qkv_json_key(json, encoder ? "encoder" : "decoder");
    qkv_json_begin(json, '{');
    if (side->features) {
        put_image(look, json, encoder);
    } else {
        qkv_json_key(json, "ids");
        qkv_json_begin(json, '[');
        for (size_t t = 0; t < side->count; t++) qkv_json_integer(json, side->ids[t]);
        qkv_json_end(json, ']');
    }
    qkv_json_key(json, "texts");
    qkv_json_begin(json, '[');
    for (size_t t = 0; t < side->count; t++) put_token(look, json, encoder, t);
    qkv_json_end(json, ']');
    qkv_json_end(json, '}');
}

void qkv_look_put_tokens(const struct qkv_attention_view *look, struct qkv_json *json) {
    qkv_json_key(json, "tokens");
    qkv_json_begin(json, '{');
    put_side(look, json, true);
    put_side(look, json, false);
    qkv_json_end(json, '}');
}

void qkv_look_put_attention(struct qkv_json *json, const struct qkv_attention_view_head *a) {
    qkv_json_put_text(json, "name", a->name);
    qkv_json_put_text(json, "kind", kinds[a->kind]);
    qkv_json_put_integer(json, "layer", (int64_t)a->layer);
    qkv_json_put_text(json, "queries", a->encoder_queries ? "encoder" : "decoder");
    qkv_json_put_text(json, "keys", a->encoder_keys ? "encoder" : "decoder");
}

struct row_writer {
    struct qkv_json *json;
    size_t keys;
};

static bool put_rows(void *user, size_t first, size_t rows, const float *weights) {
    struct row_writer *w = user;
    (void)first;
    for (size_t r = 0; r < rows; r++) {
        qkv_json_begin(w->json, '[');
        for (size_t k = 0; k < w->keys; k++) qkv_json_number(w->json, (double)weights[r * w->keys + k], 7);
        qkv_json_end(w->json, ']');
    }
    return !w->json->status;
}

static enum qkv_status put_heads(struct qkv_attention_view *look, size_t i, const struct qkv_look_selection *selection,
                                 struct qkv_json *json) {
    const struct qkv_attention_view_head *a = &look->attentions[i];
    struct row_writer writer = {json, a->keys};
    enum qkv_status status = QKV_OK;
    qkv_json_key(json, "heads");
    qkv_json_begin(json, '[');
    for (size_t h = 0; h < a->heads && !status; h++) {
        if (!qkv_look_selects(selection, a, h)) continue;
        qkv_json_begin(json, '{');
        qkv_json_put_integer(json, "head", (int64_t)h);
        qkv_json_put_number(json, "entropy", look->statistics[i][h].entropy, 7);
        qkv_json_put_number(json, "distance", look->statistics[i][h].distance, 7);
        qkv_json_key(json, "weights");
        qkv_json_begin(json, '[');
        status = qkv_look_walk(look, i, h, put_rows, &writer);
        qkv_json_end(json, ']');
        qkv_json_end(json, '}');
    }
    qkv_json_end(json, ']');
    return status;
}

static enum qkv_status put_all(struct qkv_attention_view *look, const struct qkv_look_selection *selection,
                               struct qkv_json *json) {
    enum qkv_status status = QKV_OK;
    qkv_json_begin(json, '{');
    qkv_json_put_text(json, "format", "qkv-attention");
    qkv_json_put_integer(json, "version", 1);
    qkv_json_put_text(json, "model", selection ? selection->title : NULL);
    qkv_look_put_tokens(look, json);
    qkv_json_key(json, "attentions");
    qkv_json_begin(json, '[');
    for (size_t i = 0; i < look->count && !status; i++) {
        if (!qkv_look_selects(selection, &look->attentions[i], SIZE_MAX)) continue;
        qkv_json_begin(json, '{');
        qkv_look_put_attention(json, &look->attentions[i]);
        status = put_heads(look, i, selection, json);
        qkv_json_end(json, '}');
    }
    qkv_json_end(json, ']');
    qkv_json_end(json, '}');
    return json->status ? json->status : status;
}

enum qkv_status qkv_look_write_json(struct qkv_attention_view *look, const struct qkv_look_selection *selection,
                                    const char *path) {
    QKV_CALL(look->ctx);
    struct qkv_replace file = {.file = stdout};
    enum qkv_status status = qkv_look_check(look, selection);
    if (!status && path) status = qkv_replace_begin(look->ctx, path, &file);
    if (status) return status;
    struct qkv_json json = {.ctx = look->ctx, .style = QKV_JSON_SCRIPT, .file = file.file, .name = path};
    status = put_all(look, selection, &json);
    qkv_json_line(&json, 0);
    qkv_json_flush(&json);
    if (!status) status = json.status;
    qkv_json_free(&json);
    if (!path) return status;
    if (!status) return qkv_replace_commit(&file);
    qkv_replace_cancel(&file);
    return status;
}
