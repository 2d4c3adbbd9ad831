/* look_page: the data of the attention page. A weight w is stored as the byte round(255·sqrt(w)): small weights keep
 * their proportions, and 0 means less than 4·10⁻⁶.
 *
 * A head is stored as base64 in one of two forms:
 * - "all": for each query a row of bytes, one for each key that it may see: row t of a causal attention has t + 1
 *   keys, other rows have all keys;
 * - "most": for each query a row of its largest weights, at most `kept` (24 for texts of more than 100 tokens): one
 *   byte with their number n; one byte with the sum of all other weights; then n times the distance from the key
 *   before (for the first one the key itself) as LEB128, and the byte of the weight. Keys rise. Weights whose byte
 *   is 0 count among the others. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/report/report_room.h"

enum { DENSE_TOKENS = 100, DENSE_BYTES = 3 << 20, SPARSE_BYTES = 12 << 20, MAX_LARGEST = 24 };
enum { ROW_HEAD = 2, ENTRY = 3, LONGEST_ENTRY = 4 }; /* bytes; an entry has 3 if keys are near */

struct picture {
    struct qkv_attention_view *look;
    const struct qkv_look_selection *selection;
    struct qkv_json json;
    size_t largest;      /* weights of a row; 0: all */
    unsigned char *head; /* the bytes of one head */
    size_t used;         /* of them */
    /* of the attention that is being written */
    size_t queries, keys;
    bool causal;
};

static unsigned char attention_view_page_quantized(float w) {
    return (unsigned char)(255 * sqrt((double)(w < 0 ? 0 : w > 1 ? 1 : w)) + 0.5);
}

static bool is_causal(const struct qkv_attention_view *look, const struct qkv_attention_view_head *a) {
    const struct qkv_spec *spec = qkv_model_spec(look->model);
    if (a->kind == QKV_LOOK_CROSS) return false;
    return qkv_stack_layer(a->kind == QKV_LOOK_DECODER ? &spec->decoder : &spec->encoder, a->layer)->attention.causal;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static bool take_dense(void *user, size_t first, size_t rows, const float *weights) {
    struct picture *p = user;
    for (size_t r = 0; r < rows; r++) {
        size_t n = p->causal && first + r + 1 < p->keys ? first + r + 1 : p->keys;
        for (size_t k = 0; k < n; k++) p->head[p->used++] = attention_view_page_quantized(weights[r * p->keys + k]);
    }
    return true;
}

/* The largest weights of a row so far: a heap whose root is the smallest of them. */
struct entry {
    float weight;
    uint16_t key;
};

/* of two equal weights, the first key is the larger */
static bool is_less(const struct entry *a, const struct entry *b) {
    return a->weight < b->weight || (!(b->weight < a->weight) && a->key > b->key);
}

static void sift_down(struct entry *heap, size_t count, size_t i) {
    for (size_t child; (child = 2 * i + 1) < count; i = child) {
        if (child + 1 < count && is_less(&heap[child + 1], &heap[child])) child++;
        if (!is_less(&heap[child], &heap[i])) return;
        struct entry swap = heap[i];
        heap[i] = heap[child];
        heap[child] = swap;
    }
}

static int key_first(const void *a, const void *b) {
    const struct entry *x = a, *y = b;
    return (x->key > y->key) - (x->key < y->key);
}

/* Writes one row in the form "most" from the `count` entries of `heap`, which it reorders. */
static void put_row(struct picture *p, struct entry *heap, size_t count, double rest) {
    unsigned char *number = &p->head[p->used++], *others = &p->head[p->used++];
    size_t before = 0;
    qsort(heap, count, sizeof *heap, key_first);
    *number = 0;
    for (size_t i = 0; i < count; i++) {
        unsigned char weight = attention_view_page_quantized(heap[i].weight);
        if (!weight) {
            rest += (double)heap[i].weight;
            continue;
        }
        size_t far = heap[i].key - before;
        before = heap[i].key;
        for (; far > 127; far >>= 7) p->head[p->used++] = (unsigned char)(far & 127) | 128;
        p->head[p->used++] = (unsigned char)far;
        p->head[p->used++] = weight;
        ++*number;
    }
    *others = attention_view_page_quantized((float)rest);
}

static bool take_largest(void *user, size_t first, size_t rows, const float *weights) {
    struct picture *p = user;
    struct entry heap[MAX_LARGEST];
    (void)first;
    for (size_t r = 0; r < rows; r++) {
        size_t count = p->largest < p->keys ? p->largest : p->keys;
        double rest = 0;
        for (size_t k = 0; k < p->keys; k++) {
            struct entry entry = {weights[r * p->keys + k], (uint16_t)k};
            if (k < count) {
                heap[k] = entry;
                for (size_t i = count / 2 + 1; k + 1 == count && i-- > 0;) sift_down(heap, count, i);
            } else if (is_less(&heap[0], &entry)) {
                rest += (double)heap[0].weight;
                heap[0] = entry;
                sift_down(heap, count, 0);
            } else {
                rest += (double)entry.weight;
            }
        }
        put_row(p, heap, count, rest);
    }
    return true;
}

/* ---- how many weights a row has ---------------------------------------------------------------------------------- */

/* Short texts get all weights; for others each row gets its largest ones, as many as the file has room for. */
static enum qkv_status choose_kept(struct picture *p, size_t *head_bytes) {
    double all = 0, rows = 0;
    size_t largest = 1, queries = 0, keys = 0;
    for (size_t i = 0; i < p->look->count; i++) {
        const struct qkv_attention_view_head *a = &p->look->attentions[i];
        if (!qkv_look_selects(p->selection, a, SIZE_MAX)) continue;
        size_t heads = p->selection && p->selection->head >= 0 ? 1 : a->heads;
        double cells = (double)a->queries * (double)a->keys;
        all += (double)heads * (is_causal(p->look, a) ? cells / 2 : cells);
        rows += (double)heads * (double)a->queries;
        if (a->queries * a->keys > largest) largest = a->queries * a->keys;
        if (a->queries > queries) queries = a->queries;
        if (a->keys > keys) keys = a->keys;
    }
    *head_bytes = largest;
    if (all <= DENSE_BYTES && queries <= DENSE_TOKENS && keys <= DENSE_TOKENS) return QKV_OK;
    double room = (SPARSE_BYTES / rows - ROW_HEAD) / ENTRY;
    if (room < 1)
        return qkv_fail(p->look->ctx, QKV_ARGUMENT,
                        "%.0f rows of weights are too many for a page; choose one layer of the model, or a shorter "
                        "text",
                        rows);
    p->largest = room < MAX_LARGEST ? (size_t)room : MAX_LARGEST;
    *head_bytes = queries * (ROW_HEAD + LONGEST_ENTRY * p->largest);
    return QKV_OK;
}

/* ---- the data ---------------------------------------------------------------------------------------------------- */

static enum qkv_status put_heads(struct picture *p, size_t i) {
    const struct qkv_attention_view_head *a = &p->look->attentions[i];
    struct qkv_json *json = &p->json;
    enum qkv_status status = QKV_OK;
    qkv_json_key(json, "heads");
    qkv_json_begin(json, '[');
    for (size_t h = 0; h < a->heads && !status; h++) {
        if (!qkv_look_selects(p->selection, a, h)) continue;
        const struct qkv_head_statistics *s = &p->look->statistics[i][h];
        p->used = 0;
        status = qkv_look_walk(p->look, i, h, p->largest ? take_largest : take_dense, p);
        qkv_json_begin(json, '{');
        qkv_json_put_integer(json, "head", (int64_t)h);
        qkv_json_put_number(json, "entropy", s->entropy, 5);
        qkv_json_put_number(json, "distance", s->distance, 5);
        qkv_json_key(json, "weights");
        qkv_json_base64(json, p->head, p->used);
        qkv_json_end(json, '}');
    }
    qkv_json_end(json, ']');
    return status ? status : json->status;
}

static enum qkv_status put_all(struct picture *p) {
    struct qkv_json *json = &p->json;
    enum qkv_status status = QKV_OK;
    qkv_json_begin(json, '{');
    qkv_json_put_text(json, "kind", "attention");
    qkv_json_put_text(json, "stored", p->largest ? "most" : "all");
    qkv_json_put_integer(json, "kept", (int64_t)p->largest);
    qkv_json_key(json, "greedy");
    qkv_json_bool(json, p->look->greedy);
    qkv_look_put_tokens(p->look, json);
    qkv_json_key(json, "attentions");
    qkv_json_begin(json, '[');
    for (size_t i = 0; i < p->look->count && !status; i++) {
        const struct qkv_attention_view_head *a = &p->look->attentions[i];
        if (!qkv_look_selects(p->selection, a, SIZE_MAX)) continue;
        p->queries = a->queries;
        p->keys = a->keys;
        p->causal = is_causal(p->look, a);
        qkv_json_begin(json, '{');
        qkv_look_put_attention(json, a);
        qkv_json_key(json, "causal");
        qkv_json_bool(json, p->causal);
        status = put_heads(p, i);
        qkv_json_end(json, '}');
    }
    qkv_json_end(json, ']');
    qkv_json_end(json, '}');
    return json->status ? json->status : status;
}

static void attention_view_page_describe(const struct qkv_attention_view *look, char *text, size_t size) {
    const struct qkv_spec *spec = qkv_model_spec(look->model);
    int encoder = spec->encoder.layers, decoder = spec->decoder.layers, min_heads = 0, max_heads = 0;
    const struct qkv_stack_spec *stack = decoder ? &spec->decoder : &spec->encoder;
    const size_t read = look->encoder.count + look->decoder.count;
    char heads[32];
    for (int i = 0; i < stack->kind_count; i++) {
        int H = stack->kinds[i].attention.heads;
        min_heads = i == 0 || H < min_heads ? H : min_heads;
        max_heads = H > max_heads ? H : max_heads;
    }
    snprintf(heads, sizeof heads, min_heads < max_heads ? "%d to %d" : "%d", min_heads, max_heads);
    if (encoder && decoder)
        snprintf(text, size, "encoder of %d and decoder of %d layers, width %d; %zu tokens to %zu%s", encoder, decoder,
                 qkv_spec_width(spec), look->encoder.count, look->decoder.count,
                 look->greedy ? ", found by greedy search" : "");
    else
        snprintf(text, size, "%s of %d layer%s, %s heads, width %d; %zu %s%s", encoder ? "encoder" : "decoder",
                 encoder + decoder, encoder + decoder == 1 ? "" : "s", heads, qkv_spec_width(spec), read,
                 look->encoder.features || look->decoder.features ? "position" : "token",
                 read == 1 ? ": it can attend to itself only" : "s");
}

enum qkv_status qkv_look_write_page(struct qkv_attention_view *look, const struct qkv_look_selection *selection,
                                    const char *path) {
    QKV_CALL(look->ctx);
    static const char *const scripts[] = {"heat.js", "lines.js", "attend.js", NULL};
    struct picture p = {.look = look, .selection = selection, .json = {.ctx = look->ctx, .style = QKV_JSON_SCRIPT}};
    char title[256], summary[256];
    size_t head_bytes;
    enum qkv_status status = qkv_look_check(look, selection);
    if (!status) status = choose_kept(&p, &head_bytes);
    if (status) return status;
    p.head = qkv_allocate(look->ctx, head_bytes, 1);
    status = p.head ? put_all(&p) : QKV_MEMORY;
    snprintf(title, sizeof title, "Attention%s%.200s", selection && selection->title ? " of " : "",
             selection && selection->title ? selection->title : "");
    attention_view_page_describe(look, summary, sizeof summary);
    if (!status)
        status = qkv_page_write(look->ctx,
                                &(struct qkv_page){.title = title,
                                                   .summary = summary,
                                                   .scripts = scripts,
                                                   .data = p.json.text.data,
                                                   .data_size = p.json.text.size},
                                path);
    qkv_buffer_free(&p.json.text);
    free(p.head);
    return status;
}
