/* Which tensor of a family holds a weight, and where in it. */
#include <stdlib.h>
#include <string.h>

#include "family/family.h"

/* A name of ours, "decoder.layers.3.attn.q.bias", split. */
struct name {
    char stack[16], role[64]; /* "decoder", "attn.q" */
    bool bias;
    int layer, expert; /* −1: none */
};

/* "ffn.experts.7.gate" is the role "ffn.experts.gate" of expert 7. */
static void name_take_expert(struct name *name) {
    static const char experts[] = "experts.";
    char *number = strstr(name->role, experts), *end;
    if (!number) return;
    number += strlen(experts);
    name->expert = (int)strtol(number, &end, 10);
    memmove(number, end + (*end == '.'), strlen(end + (*end == '.')) + 1);
}

static struct name name_read(const char *ours) {
    struct name name = {.layer = -1, .expert = -1};
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
    name_take_expert(&name);
    return name;
}

/* Whether part of a row's `ours` is the name; `exact`: it says weight or bias itself. */
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

static const struct qkv_layer_spec *layer_of(const struct qkv_spec *spec, const struct name *name) {
    const struct qkv_stack_spec *stack = strcmp(name->stack, "encoder") ? &spec->decoder : &spec->encoder;
    if (stack->layers == 0) return NULL;
    const size_t layer = name->layer < 0 || name->layer >= stack->layers ? 0 : (size_t)name->layer;
    return qkv_stack_layer(stack, layer);
}

/* Rows of the weight `part` of a row. */
static size_t part_rows(const struct qkv_attention_spec *a, const char *part, size_t n, size_t rows) {
    const size_t H = a ? (size_t)a->heads : 0, D = a ? (size_t)a->head_dim : 0, V = a ? (size_t)a->value_dim : 0;
    const size_t K = a ? (size_t)a->kv_heads : 0, turned = a ? (size_t)a->latent.rope_dim : 0;
    const struct {
        const char *name;
        size_t rows;
    } own[] = {{".q", H * D},       {".k", K * D},
               {".v", K * V},       {".kv_a", a ? (size_t)a->latent.rank : 0},
               {".k_rope", turned}, {".k_b", H * (D - turned)},
               {".v_b", H * V}};
    for (size_t i = 0; a && i < sizeof own / sizeof *own; i++) {
        const size_t end = strlen(own[i].name);
        if (n > end && !strncmp(part + n - end, own[i].name, end)) return own[i].rows;
    }
    return rows; /* gate and up have as many rows */
}

/* Finds the weight in a row, and sets the view's parts. Returns false if the row does not have it. */
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

#define ROW_NUMBER "{R}"

/* Fills in the placeholders of their name, but not {R}. */
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
        if (at[1] == 'E') n += (size_t)snprintf(out + n, QKV_FAMILY_NAME - n, "%d", name->expert);
        if (at[1] == 'G') n += (size_t)snprintf(out + n, QKV_FAMILY_NAME - n, "%zu", group);
        if (at[1] == 'R') n += (size_t)snprintf(out + n, QKV_FAMILY_NAME - n, ROW_NUMBER);
        at += 3;
    }
    snprintf(out + n, QKV_FAMILY_NAME - n, "%s", exact ? "" : name->bias ? ".bias" : ".weight");
}

static bool table_has(const struct qkv_family_tensor *row, const struct qkv_family_config *config,
                      const struct qkv_spec *spec, const struct name *name, size_t rows, struct qkv_family_view *view) {
    const struct qkv_layer_spec *layer = layer_of(spec, name);
    const struct qkv_attention_spec *a = layer && !strncmp(name->role, "cross.", 6) ? &layer->cross
                                         : layer                                    ? &layer->attention
                                                                                    : NULL;
    for (; row && row->ours; row++) {
        *view =
            (struct qkv_family_view){.order = row->order, .flags = row->flags, .rows = rows, .heads = 1, .slices = 1};
        if (!row_has(row, name, a, rows, view)) continue;
        if (row->when && !qkv_family_holds(config->keys, row->when)) continue;
        if (name->bias) view->flags &= ~(unsigned)QKV_FAMILY_TRANSPOSED;
        if (a) {
            view->heads = (size_t)a->heads;
            view->kv_heads = (size_t)a->kv_heads;
            view->head_dim = (size_t)a->head_dim;
        }
        if (row->flags & QKV_FAMILY_STACKED && layer && name->expert >= 0) {
            view->slice = (size_t)name->expert;
            view->slices = (size_t)layer->ffn.experts.count;
        }
        name_write(row->theirs, name, group_of(spec, name), view->name);
        return true;
    }
    return false;
}

/* ---- first parts of names ---------------------------------------------------------------------------------------- */

static bool class_ends(const struct qkv_family_config *config, const char *end) {
    const char *class = json_string_value(json_object_get(config->keys, "class"));
    const size_t n = class ? strlen(class) : 0, size = strlen(end);
    return n >= size && !strcmp(class + n - size, end);
}

/* The first part of names in files of the config's class; files of the base model have none. */
static const char *class_prefix(const struct qkv_family_config *config) {
    const struct qkv_family *f = config->family;
    if (class_ends(config, "Model")) return "";
    return class_ends(config, "ForQuestionAnswering") && f->question_prefix ? f->question_prefix : f->prefix;
}

/* Replaces the first part of a table's name, "model.norm.weight". */
static void name_begin(const struct qkv_family_config *config, const char *prefix, char name[QKV_FAMILY_NAME]) {
    char rest[QKV_FAMILY_NAME];
    const size_t n = config->family->prefix ? strlen(config->family->prefix) : 0;
    if (!n || strncmp(name, config->family->prefix, n) != 0) return;
    snprintf(rest, sizeof rest, "%s", name + n);
    snprintf(name, QKV_FAMILY_NAME, "%s%.180s", prefix, rest);
}

bool qkv_family_name(const struct qkv_family_config *config, const char *name, size_t i, char out[QKV_FAMILY_NAME]) {
    const struct qkv_family *f = config->family;
    const char *own = f && f->prefix && !config->gguf ? class_prefix(config) : NULL;
    const char *const others[] = {f ? f->prefix : NULL, "", f ? f->question_prefix : NULL};
    const size_t count = own && !strncmp(name, own, strlen(own)) ? sizeof others / sizeof *others : 0;
    if (i >= count) return config->parts && qkv_family_parts_name(config->parts, name, i - count, out);
    snprintf(out, QKV_FAMILY_NAME, "%s%.180s", others[i] ? others[i] : "", name + strlen(own));
    return true;
}

bool qkv_family_view(const struct qkv_family_config *config, const struct qkv_spec *spec, const char *ours, size_t rows,
                     struct qkv_family_view *view) {
    const struct name name = name_read(ours);
    if (config->gguf)
        return table_has(config->gguf->tensors, config, spec, &name, rows, view) ||
               table_has(qkv_family_gguf_tensors, config, spec, &name, rows, view);
    const bool found = table_has(config->family->tensors, config, spec, &name, rows, view) ||
                       table_has(config->family->others, config, spec, &name, rows, view);
    if (found && config->family->prefix) name_begin(config, class_prefix(config), view->name);
    return found;
}

void qkv_family_row_name(const struct qkv_family_view *view, size_t r, char out[QKV_FAMILY_NAME]) {
    const char *number = strstr(view->name, ROW_NUMBER);
    const int n = number ? (int)(number - view->name) : (int)strlen(view->name);
    snprintf(out, QKV_FAMILY_NAME, "%.*s%zu%.150s", n, view->name, r, number ? number + strlen(ROW_NUMBER) : "");
}

/* The row of theirs for row r of ours, where heads are stored one after the other. */
static size_t row_of_heads(const struct qkv_family_view *v, size_t r) {
    const size_t width = v->rows / v->heads;
    return r / width * (v->total / v->heads) + v->before / v->heads + r % width;
}

/* The row where weights of as many rows are stored in four shards. */
static size_t row_of_shards(const struct qkv_family_view *v, size_t r) {
    const size_t each = v->rows / 4;
    return (r / each * v->parts + v->part) * each + r % each;
}

size_t qkv_family_row(const struct qkv_family_view *v, size_t r) {
    if (v->order == QKV_FAMILY_PARTS) return v->before + r;
    if (v->order == QKV_FAMILY_IN_TURNS) return r * v->parts + v->part;
    if (v->order == QKV_FAMILY_SHARDS) return row_of_shards(v, r);
    if (v->order == QKV_FAMILY_HEADS) return row_of_heads(v, r);
    const size_t D = v->head_dim, head = r / D, i = r % D, each = v->heads / v->kv_heads;
    if (v->order == QKV_FAMILY_PAIRS) return head * D + i % (D / 2) * 2 + i / (D / 2);
    if (v->part == 0) return (head / each * (each + 2) + head % each) * D + i;
    return (head * (each + 2) + each + v->part - 1) * D + i;
}

struct qkv_family_line qkv_family_line(const struct qkv_family_view *v, size_t r, size_t columns) {
    const size_t start = v->slice * v->total * columns, at = qkv_family_row(v, r);
    const size_t each = v->flags & QKV_FAMILY_BY_HEAD ? v->total / v->heads : v->total; /* transposed together */
    if (!(v->flags & QKV_FAMILY_TRANSPOSED)) return (struct qkv_family_line){start + at * columns, 1};
    return (struct qkv_family_line){start + at / each * each * columns + at % each, each};
}

void qkv_family_shape(const struct qkv_family_view *v, const struct qkv_array *ours, const struct qkv_spec *spec,
                      struct qkv_array *theirs) {
    const struct qkv_input_spec *input = spec->encoder.layers ? &spec->encoder.embed.input : &spec->decoder.embed.input;
    const bool stacked = v->flags & QKV_FAMILY_STACKED, turned = v->flags & QKV_FAMILY_TRANSPOSED;
    const bool heads = v->flags & QKV_FAMILY_BY_HEAD;
    const size_t lead = stacked || heads || v->flags & QKV_FAMILY_LEADING;
    const size_t rows = heads ? v->total / v->heads : v->total;
    *theirs = (struct qkv_array){.name = v->name, .dtype = QKV_F32, .rank = ours->rank + (int)lead};
    if (v->flags & (QKV_FAMILY_FLAT | QKV_FAMILY_APART)) {
        theirs->rank = 1;
        theirs->shape[0] = ours->shape[1];
        return;
    }
    if (lead) theirs->shape[0] = stacked ? v->slices : heads ? v->heads : 1;
    for (int i = 0; i < ours->rank; i++) theirs->shape[lead + (size_t)i] = i ? ours->shape[i] : rows;
    if (turned) {
        theirs->shape[lead] = ours->shape[1];
        theirs->shape[lead + 1] = rows;
    }
    if (v->flags & QKV_FAMILY_PATCHES && ours->rank == 2) {
        theirs->rank = 4;
        theirs->shape[1] = (size_t)input->channels;
        theirs->shape[2] = theirs->shape[3] = (size_t)input->patch;
    }
}

/* Copies a pattern, with a key's number in place of "$KEY". */
static void pattern_write(const json_t *config, const char *at, size_t n, char *pattern, size_t size) {
    const char *key = memchr(at, '$', n);
    char name[64];
    snprintf(pattern, size, "%.*s", (int)n, at);
    if (!key) return;
    const char *rest = key + 1 + strspn(key + 1, "abcdefghijklmnopqrstuvwxyz_");
    snprintf(name, sizeof name, "%.*s", (int)(rest - key - 1), key + 1);
    const json_int_t number = json_integer_value(qkv_family_get(config, name));
    snprintf(pattern, size, "%.*s%lld%.*s", (int)(key - at), at, (long long)number, (int)(at + n - rest), rest);
}

/* Whether a name matches a pattern, with or without the prefix that files of the base model leave out. */
static bool name_matches(const struct qkv_family_config *config, const char *name, const char *pattern) {
    char whole[QKV_FAMILY_NAME + 40];
    if (qkv_text_matches(name, pattern)) return true;
    snprintf(whole, sizeof whole, "%s%.200s", config->family->prefix ? config->family->prefix : "", name);
    return qkv_text_matches(whole, pattern);
}

bool qkv_family_ignores(const struct qkv_family_config *config, const char *name) {
    static const char common[] = "*.attn.bias *.attn.masked_bias *.attention.bias *.attention.masked_bias "
                                 "*rotary_emb.inv_freq *position_ids *.token_type_ids";
    const char *const lists[] = {config->gguf ? qkv_family_gguf_ignored : common,
                                 config->gguf ? NULL : config->family->ignored};
    char pattern[96];
    for (size_t i = 0; i < 2; i++)
        for (const char *at = lists[i] ? lists[i] : ""; *at; at += strcspn(at, " "), at += *at == ' ') {
            pattern_write(config->keys, at, strcspn(at, " "), pattern, sizeof pattern);
            if (name_matches(config, name, pattern)) return true;
        }
    if (qkv_family_is_other_part(config, name)) return true;
    /* A tied head is the embedding. */
    const bool tied = !config->gguf && json_is_true(json_object_get(config->keys, "tie_word_embeddings"));
    return tied && config->family->tied && qkv_text_matches(name, config->family->tied);
}

bool qkv_family_keeps(const struct qkv_family_config *config, const char *name, char out[QKV_FAMILY_NAME]) {
    const char *prefix = config->family->prefix ? config->family->prefix : "";
    char whole[2 * QKV_FAMILY_NAME], pattern[96];
    for (size_t i = 0; i < 2; i++) { /* with the prefix and without it */
        snprintf(whole, sizeof whole, "%s%.190s", i ? prefix : "", name);
        for (const char *at = config->family->kept ? config->family->kept : ""; *at;
             at += strcspn(at, " "), at += *at == ' ') {
            snprintf(pattern, sizeof pattern, "%.*s", (int)strcspn(at, " "), at);
            if (!qkv_text_matches(whole, pattern)) continue;
            snprintf(out, QKV_FAMILY_NAME, "%.199s", whole);
            if (*prefix) name_begin(config, class_prefix(config), out);
            return true;
        }
    }
    return false;
}
