/* Where weights of ours stand in tensors of theirs. */
#include <stdlib.h>
#include <string.h>

#include "family/family.h"

/* A name of ours, "decoder.layers.3.attn.q.bias", in its parts. */
struct name {
    char stack[16], role[64]; /* "decoder", "attn.q" */
    bool bias;
    int layer; /* -1: none */
};

static struct name name_read(const char *ours) {
    struct name name = {.layer = -1};
    const char *at = ours;
    for (int i = 0; i < 2; i++) {
        const char *stack = i ? "decoder" : "encoder";
        const size_t n = strlen(stack);
        if (strncmp(at, stack, n) || at[n] != '.') continue;
        snprintf(name.stack, sizeof name.stack, "%s", stack);
        at += n + 1;
        break;
    }
    if (!strncmp(at, "layers.", 7)) {
        char *end;
        name.layer = (int)strtol(at + 7, &end, 10);
        at = *end ? end + 1 : end;
    }
    const char *dot = strrchr(at, '.');
    name.bias = dot && !strcmp(dot, ".bias");
    snprintf(name.role, sizeof name.role, "%.*s", dot ? (int)(dot - at) : (int)strlen(at), at);
    return name;
}

/* Whether the part of a row is the name; `exact`: it says of itself whether it is a weight or a bias. */
static bool part_is(const char *part, size_t n, const struct name *name) {
    const char *colon = memchr(part, ':', n);
    if (colon) {
        if (strlen(name->stack) != (size_t)(colon - part) || strncmp(part, name->stack, (size_t)(colon - part)))
            return false;
        n -= (size_t)(colon + 1 - part);
        part = colon + 1;
    }
    const size_t role = strlen(name->role);
    if (n < role || strncmp(part, name->role, role)) return false;
    const char *end = name->bias ? ".bias" : ".weight";
    return n == role || (n == role + strlen(end) && !strncmp(part + role, end, strlen(end)));
}

static const struct qkv_attention_spec *attention_of(const struct qkv_spec *spec, const struct name *name) {
    const struct qkv_stack_spec *stack = strcmp(name->stack, "encoder") ? &spec->decoder : &spec->encoder;
    if (stack->layers == 0) return NULL;
    const size_t layer = name->layer < 0 || name->layer >= stack->layers ? 0 : (size_t)name->layer;
    const struct qkv_layer_spec *kind = qkv_stack_layer(stack, layer);
    return strncmp(name->role, "cross.", 6) ? &kind->attention : &kind->cross;
}

/* Rows of the part of a row, whose own name is `part`. */
static size_t part_rows(const struct qkv_attention_spec *a, const char *part, size_t n, size_t rows) {
    const char last = n ? part[n - 1] : 0;
    if (n < 2 || part[n - 2] != '.' || !a) return rows; /* gate and up are alike */
    if (last == 'q') return (size_t)a->heads * (size_t)a->head_dim;
    if (last == 'k') return (size_t)a->kv_heads * (size_t)a->head_dim;
    return last == 'v' ? (size_t)a->kv_heads * (size_t)a->value_dim : rows;
}

/* Which part of a row the weight is: fills the view's parts; false: none. */
static bool row_has(const struct qkv_family_tensor *row, const struct name *name, const struct qkv_attention_spec *a,
                    size_t rows, struct qkv_family_view *view) {
    bool found = false;
    view->parts = view->before = view->total = 0;
    for (const char *at = row->ours; *at; at += strcspn(at, ","), at += *at == ',') {
        const size_t n = strcspn(at, ","), here = part_rows(a, at, n, rows);
        if (!found && part_is(at, n, name)) {
            found = true;
            view->part = view->parts;
            view->before = view->total;
        }
        view->parts++;
        view->total += here;
    }
    return found;
}

static size_t group_of(const struct qkv_spec *spec, const struct name *name) {
    const struct qkv_stack_spec *stack = strcmp(name->stack, "encoder") ? &spec->decoder : &spec->encoder;
    if (!stack->share || name->layer < 0) return 0;
    return (size_t)name->layer * (size_t)stack->share / (size_t)stack->layers;
}

/* Their name: placeholders filled in. */
static void name_write(const char *pattern, const struct name *name, size_t group, char out[QKV_FAMILY_NAME]) {
    size_t n = 0;
    const bool exact = *pattern == '=';
    for (const char *at = pattern + exact; *at && n < QKV_FAMILY_NAME - 40;) {
        if (at[0] != '{') {
            out[n++] = *at++;
            continue;
        }
        if (at[1] == 'S') n += (size_t)snprintf(out + n, QKV_FAMILY_NAME - n, "%s", name->stack);
        if (at[1] == 'N') n += (size_t)snprintf(out + n, QKV_FAMILY_NAME - n, "%d", name->layer);
        if (at[1] == 'G') n += (size_t)snprintf(out + n, QKV_FAMILY_NAME - n, "%zu", group);
        at += 3;
    }
    snprintf(out + n, QKV_FAMILY_NAME - n, "%s", exact ? "" : name->bias ? ".bias" : ".weight");
}

bool qkv_family_view(const struct qkv_family_config *config, const struct qkv_spec *spec, const char *ours, size_t rows,
                     struct qkv_family_view *view) {
    const struct name name = name_read(ours);
    const struct qkv_attention_spec *a = attention_of(spec, &name);
    for (const struct qkv_family_tensor *row = config->family->tensors; row->ours; row++) {
        *view = (struct qkv_family_view){.order = row->order, .flags = row->flags};
        if (!row_has(row, &name, a, rows, view)) continue;
        if (row->when && !qkv_family_holds(config->keys, row->when)) continue;
        if (name.bias) view->flags &= ~(unsigned)QKV_FAMILY_TRANSPOSED;
        if (a) {
            view->heads = (size_t)a->heads;
            view->kv_heads = (size_t)a->kv_heads;
            view->head_dim = (size_t)a->head_dim;
        }
        name_write(row->theirs, &name, group_of(spec, &name), view->name);
        return true;
    }
    return false;
}

size_t qkv_family_row(const struct qkv_family_view *v, size_t r) {
    if (v->order == QKV_FAMILY_PARTS) return v->before + r;
    if (v->order == QKV_FAMILY_IN_TURNS) return r * v->parts + v->part;
    const size_t D = v->head_dim, head = r / D, i = r % D;
    if (v->order == QKV_FAMILY_HEADS) return (head * v->parts + v->part) * D + i;
    const size_t each = v->heads / v->kv_heads;
    if (v->part == 0) return (head / each * (each + 2) + head % each) * D + i;
    return (head * (each + 2) + each + v->part - 1) * D + i;
}

void qkv_family_shape(const struct qkv_family_view *v, const struct qkv_array *ours, const struct qkv_spec *spec,
                      struct qkv_array *theirs) {
    const struct qkv_input_spec *input = spec->encoder.layers ? &spec->encoder.embed.input : &spec->decoder.embed.input;
    const size_t lead = v->flags & QKV_FAMILY_LEADING ? 1 : 0;
    *theirs = (struct qkv_array){.name = v->name, .dtype = QKV_F32, .rank = ours->rank + (int)lead};
    theirs->shape[0] = 1;
    for (int i = 0; i < ours->rank; i++) theirs->shape[lead + (size_t)i] = i ? ours->shape[i] : v->total;
    if (v->flags & QKV_FAMILY_TRANSPOSED) {
        theirs->shape[0] = ours->shape[1];
        theirs->shape[1] = v->total;
    }
    if (v->flags & QKV_FAMILY_PATCHES && ours->rank == 2) {
        theirs->rank = 4;
        theirs->shape[1] = (size_t)input->channels;
        theirs->shape[2] = theirs->shape[3] = (size_t)input->patch;
    }
}

bool qkv_family_ignores(const struct qkv_family_config *config, const char *name) {
    static const char common[] = "*.attn.bias *.attn.masked_bias *.attention.bias *.attention.masked_bias "
                                 "*rotary_emb.inv_freq *position_ids *.token_type_ids";
    const char *const lists[] = {common, config->family->ignored};
    char pattern[96];
    for (size_t i = 0; i < 2; i++)
        for (const char *at = lists[i] ? lists[i] : ""; *at; at += strcspn(at, " "), at += *at == ' ') {
            snprintf(pattern, sizeof pattern, "%.*s", (int)strcspn(at, " "), at);
            if (qkv_text_matches(name, pattern)) return true;
        }
    /* The embedding stands for a head that is tied to it. */
    const bool tied = json_is_true(json_object_get(config->keys, "tie_word_embeddings"));
    return tied && config->family->tied && qkv_text_matches(name, config->family->tied);
}
