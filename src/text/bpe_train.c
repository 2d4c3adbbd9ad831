/* Learns byte-pair merges (Sennrich et al. 2016; on bytes as in Radford et al. 2019). The most frequent adjacent pair
 * becomes a token, again and again; of equally frequent pairs, the one that is greatest by its bytes, left token first.
 *
 * Nothing is counted twice. All distinct pieces are in one array of bytes, "the row"; a token is identified by the byte
 * where it begins. Each pair has a count and a list of places; a merge visits only these places and corrects the counts
 * of the neighbours. The heap has (count, pair) as they were when they were pushed; an entry that is out of date is
 * corrected when it comes to the top.
 *
 * Memory per byte of the row: 4 for its symbol, 4 for the place of the pair that begins there, and some bits that say
 * which piece it belongs to; also the places of the most frequent pair while they move to other pairs. Places where the
 * pair is gone are removed when they are more than an eighth. */
#include "text/chain.h"

#include <stdlib.h>
#include <string.h>

#define MERGES_A_REPORT 64
#define PAIRS           ((size_t)1 << 16) /* pairs of bytes */
#define PLACES_MIN      64                /* a list of places with this capacity is not made smaller */
#define CHECKED         ((size_t)4 << 20) /* less memory is not checked against what is available */

struct pair {
    int32_t left, right;
    int64_t count;
    uint32_t *places; /* ascending, unless two merges make the same token */
    size_t place_count, place_capacity;
    bool unsorted, grew;
    bool merged; /* it is in the list of merges */
};
struct entry {
    int64_t count;
    uint32_t pair;
};
/* For 64 bytes of the row: which of them begin a piece, and how many pieces begin before. */
struct pieces {
    uint64_t begins;
    uint32_t before;
};
struct trainer {
    struct qkv_context *ctx;
    struct qkv_tokenizer *t;
    size_t size; /* of the row */
    /* the token that begins at a byte; negative inside a token: at its last byte minus its size */
    int32_t *symbols;
    struct pieces *pieces; /* one per 64 bytes of the row */
    const struct qkv_strings *texts;
    struct pair *pairs;
    size_t pair_count, pair_capacity;
    uint32_t *slots; /* a hash table of pairs by (left, right): 1 + the index */
    size_t slot_count;
    struct entry *heap;
    size_t heap_count, heap_capacity;
    size_t places;   /* the number of places of all pairs */
    uint32_t *grown; /* pairs whose count the current merge has raised */
    size_t grown_count, grown_capacity;
};

/* ---- the row ----------------------------------------------------------------------------------------------------- */

static uint32_t piece_of(const struct trainer *r, uint32_t place) {
    const struct pieces *p = &r->pieces[place / 64];
    return p->before + (uint32_t)__builtin_popcountll(p->begins << (63 - place % 64)) - 1;
}

static bool begins_piece(const struct trainer *r, uint32_t place) {
    return r->pieces[place / 64].begins >> place % 64 & 1;
}

static int64_t times_of(const struct trainer *r, uint32_t place) {
    return r->texts->entries[piece_of(r, place)].value;
}

/* The first byte of the token that ends before a byte. */
static uint32_t token_start(const struct trainer *r, uint32_t end) {
    const int32_t last = r->symbols[end - 1];
    return last < 0 ? end + (uint32_t)last : end - 1;
}

static uint32_t token_end(const struct trainer *r, uint32_t place) {
    return place + (uint32_t)r->t->tokens[r->symbols[place]].size;
}

/* ---- pairs ------------------------------------------------------------------------------------------------------- */

static size_t pair_slot(const struct trainer *r, int32_t left, int32_t right) {
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    key = (key ^ key >> 29) * UINT64_C(0x9E3779B97F4A7C15);
    size_t mask = r->slot_count - 1, i = (size_t)(key >> 32) & mask;
    for (; r->slots[i]; i = (i + 1) & mask) {
        const struct pair *pair = &r->pairs[r->slots[i] - 1];
        if (pair->left == left && pair->right == right) break;
    }
    return i;
}

static enum qkv_status grow_pairs(struct trainer *r) {
    struct pair *pairs = qkv_list_room(r->ctx, r->pairs, &r->pair_capacity, r->pair_count, 1, sizeof *pairs);
    if (!pairs) return QKV_MEMORY;
    r->pairs = pairs;
    if (r->pair_count * 2 < r->slot_count) return QKV_OK;
    size_t count = r->slot_count ? r->slot_count * 2 : 4096;
    uint32_t *slots = qkv_allocate(r->ctx, count, sizeof *slots);
    if (!slots) return QKV_MEMORY;
    free(r->slots);
    r->slots = slots;
    r->slot_count = count;
    for (size_t i = 0; i < r->pair_count; i++) {
        slots[pair_slot(r, r->pairs[i].left, r->pairs[i].right)] = (uint32_t)i + 1;
    }
    return QKV_OK;
}

/* The pair of two tokens; a new one if needed. NULL: no memory. */
static struct pair *find_pair(struct trainer *r, int32_t left, int32_t right) {
    if (r->slot_count > 0) {
        uint32_t found = r->slots[pair_slot(r, left, right)];
        if (found) return &r->pairs[found - 1];
    }
    if (grow_pairs(r)) return NULL;
    size_t slot = pair_slot(r, left, right);
    struct pair *pair = &r->pairs[r->pair_count++];
    *pair = (struct pair){.left = left, .right = right};
    r->slots[slot] = (uint32_t)r->pair_count;
    return pair;
}

static enum qkv_status note_growth(struct trainer *r, struct pair *pair) {
    if (pair->grew) return QKV_OK;
    uint32_t *grown = qkv_list_room(r->ctx, r->grown, &r->grown_capacity, r->grown_count, 1, sizeof *grown);
    if (!grown) return QKV_MEMORY;
    r->grown = grown;
    pair->grew = true;
    r->grown[r->grown_count++] = (uint32_t)(pair - r->pairs);
    return QKV_OK;
}

/* Counts a pair at byte `place`. */
static enum qkv_status count_pair(struct trainer *r, int32_t left, int32_t right, uint32_t place) {
    struct pair *pair = find_pair(r, left, right);
    if (!pair) return QKV_MEMORY;
    uint32_t *places = qkv_list_room(r->ctx, pair->places, &pair->place_capacity, pair->place_count, 1, sizeof *places);
    if (!places) return QKV_MEMORY;
    pair->places = places;
    if (pair->place_count > 0 && place <= pair->places[pair->place_count - 1]) pair->unsorted = true;
    pair->places[pair->place_count++] = place;
    r->places++;
    pair->count += times_of(r, place);
    return note_growth(r, pair);
}

static void uncount_pair(struct trainer *r, int32_t left, int32_t right, uint32_t place) {
    uint32_t found = r->slots[pair_slot(r, left, right)];
    if (!found) return;
    struct pair *pair = &r->pairs[found - 1];
    pair->count -= times_of(r, place);
    if (pair->count > 0) return;
    r->places -= pair->place_count;
    pair->place_count = 0; /* it occurs nowhere now */
    if (pair->place_capacity <= PLACES_MIN) return;
    free(pair->places);
    pair->places = NULL;
    pair->place_capacity = 0;
}

/* ---- heap -------------------------------------------------------------------------------------------------------- */

static int compare_tokens(const struct qkv_tokenizer *t, int32_t a, int32_t b) {
    size_t m = t->tokens[a].size, n = t->tokens[b].size;
    int order = memcmp(qkv_token_bytes(t, (size_t)a), qkv_token_bytes(t, (size_t)b), m < n ? m : n);
    return order ? order : (m > n) - (m < n);
}

static bool comes_first(const struct trainer *r, struct entry a, struct entry b) {
    if (a.count != b.count) return a.count > b.count;
    const struct pair *p = &r->pairs[a.pair], *q = &r->pairs[b.pair];
    int order = compare_tokens(r->t, p->left, q->left);
    if (order == 0) order = compare_tokens(r->t, p->right, q->right);
    return order > 0;
}

static enum qkv_status bpe_train_push(struct trainer *r, uint32_t pair) {
    struct entry *heap = qkv_list_room(r->ctx, r->heap, &r->heap_capacity, r->heap_count, 1, sizeof *heap);
    if (!heap) return QKV_MEMORY;
    r->heap = heap;
    struct entry entry = {r->pairs[pair].count, pair};
    size_t i = r->heap_count++;
    for (; i > 0 && comes_first(r, entry, r->heap[(i - 1) / 2]); i = (i - 1) / 2) r->heap[i] = r->heap[(i - 1) / 2];
    r->heap[i] = entry;
    return QKV_OK;
}

static struct entry bpe_train_pop(struct trainer *r) {
    struct entry first = r->heap[0], last = r->heap[--r->heap_count];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < r->heap_count; i = child) {
        if (child + 1 < r->heap_count && comes_first(r, r->heap[child + 1], r->heap[child])) child++;
        if (!comes_first(r, r->heap[child], last)) break;
        r->heap[i] = r->heap[child];
    }
    r->heap[i] = last;
    return first;
}

/* The pair that is most frequent now; *pair = UINT32_MAX: none is left. */
static enum qkv_status best_pair(struct trainer *r, uint32_t *pair) {
    while (r->heap_count > 0) {
        struct entry entry = bpe_train_pop(r);
        int64_t count = r->pairs[entry.pair].count;
        if (count == entry.count && count > 0) {
            *pair = entry.pair;
            return QKV_OK;
        }
        /* A count that rose was pushed then; one that fell is pushed again with its new value. */
        if (count > 0 && count < entry.count) {
            enum qkv_status status = bpe_train_push(r, entry.pair);
            if (status) return status;
        }
    }
    *pair = UINT32_MAX;
    return QKV_OK;
}

/* ---- merging ----------------------------------------------------------------------------------------------------- */

/* Whether two tokens are adjacent at a place, in one piece. */
static bool stands_at(const struct trainer *r, int32_t left, int32_t right, uint32_t place) {
    if (r->symbols[place] != left) return false;
    const uint32_t middle = token_end(r, place);
    return middle < r->size && !begins_piece(r, middle) && r->symbols[middle] == right;
}

/* Merges the tokens at `place`, if they are still there. */
static enum qkv_status merge_place(struct trainer *r, int32_t left, int32_t right, int32_t result, uint32_t place) {
    if (!stands_at(r, left, right, place)) return QKV_OK;
    uint32_t middle = token_end(r, place), end = token_end(r, middle);
    bool before = !begins_piece(r, place), after = end < r->size && !begins_piece(r, end);
    r->symbols[middle] = -1;
    r->symbols[end - 1] = (int32_t)(place - end);
    r->symbols[place] = result;
    uncount_pair(r, left, right, place);
    enum qkv_status status = QKV_OK;
    if (before) {
        uint32_t start = token_start(r, place);
        uncount_pair(r, r->symbols[start], left, place);
        status = count_pair(r, r->symbols[start], result, start);
    }
    if (!status && after) {
        uncount_pair(r, right, r->symbols[end], place);
        status = count_pair(r, result, r->symbols[end], place);
    }
    return status;
}

static int compare_places(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Removes places where the pair is gone, and duplicates. */
static void clean_pair(struct trainer *r, struct pair *pair) {
    size_t remaining = 0;
    if (pair->unsorted) qsort(pair->places, pair->place_count, sizeof *pair->places, compare_places);
    pair->unsorted = false;
    for (size_t i = 0; i < pair->place_count; i++) {
        const uint32_t place = pair->places[i];
        if ((!remaining || pair->places[remaining - 1] != place) && stands_at(r, pair->left, pair->right, place))
            pair->places[remaining++] = place;
    }
    r->places -= pair->place_count - remaining;
    pair->place_count = remaining;
    if (pair->place_capacity <= PLACES_MIN || remaining > pair->place_capacity / 2) return;
    const size_t room = remaining > PLACES_MIN ? remaining : PLACES_MIN;
    uint32_t *less = qkv_reallocate(NULL, pair->places, room, sizeof *less);
    if (!less) return; /* without memory for a smaller block, the old one stays */
    pair->places = less;
    pair->place_capacity = room;
}

static void clean_pairs(struct trainer *r) {
    if (r->places <= r->size + r->size / 8) return;
    for (size_t i = 0; i < r->pair_count; i++) clean_pair(r, &r->pairs[i]);
}

/* Merges a pair everywhere and pushes the pairs that became more frequent. */
static enum qkv_status merge_pair(struct trainer *r, uint32_t index, int32_t result) {
    struct pair pair = r->pairs[index]; /* a copy: the array may move, and the pair may be made again */
    r->pairs[index].places = NULL;
    r->pairs[index].place_count = r->pairs[index].place_capacity = 0;
    r->pairs[index].unsorted = false;
    r->places -= pair.place_count;
    if (pair.unsorted) qsort(pair.places, pair.place_count, sizeof *pair.places, compare_places);
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < pair.place_count && !status; i++) {
        status = merge_place(r, pair.left, pair.right, result, pair.places[i]);
    }
    free(pair.places);
    for (size_t i = 0; i < r->grown_count; i++) {
        r->pairs[r->grown[i]].grew = false;
        if (!status && r->pairs[r->grown[i]].count > 0) status = bpe_train_push(r, r->grown[i]);
    }
    r->grown_count = 0;
    return status;
}

/* Whether the token of a pair would exceed the maximum number of bytes. */
static bool is_long(const struct trainer *r, uint32_t index) {
    const struct pair *pair = &r->pairs[index];
    return r->t->tokens[pair->left].size + r->t->tokens[pair->right].size > QKV_LEARNED_TOKEN_MAX;
}

/* The token of a pair's bytes: usually a new one, but two merges can make the same token. */
static enum qkv_status merged_token(struct trainer *r, uint32_t index, int32_t *result) {
    struct pair *pair = &r->pairs[index];
    struct qkv_tokenizer *t = r->t;
    struct qkv_buffer bytes = {0};
    enum qkv_status status =
        qkv_buffer_append(r->ctx, &bytes, qkv_token_bytes(t, (size_t)pair->left), t->tokens[pair->left].size);
    if (!status) {
        status =
            qkv_buffer_append(r->ctx, &bytes, qkv_token_bytes(t, (size_t)pair->right), t->tokens[pair->right].size);
    }
    if (!status) {
        const struct qkv_string *known = qkv_strings_find(&t->chain->vocab, bytes.data, bytes.size);
        *result = known ? (int32_t)known->value : (int32_t)t->count;
        if (!known) status = qkv_tokenizer_set(r->ctx, t, t->count, bytes.data, bytes.size, QKV_TOKEN_TEXT);
    }
    qkv_buffer_free(&bytes);
    /* A merged pair can occur again when another merge makes one of its tokens; its rank stays that of the first
     * merge. */
    if (!status && !pair->merged) status = qkv_merges_add(r->ctx, &t->merges, pair->left, pair->right, *result);
    pair->merged = true;
    return status;
}

/* ---- training ---------------------------------------------------------------------------------------------------- */

/* Counts each pair of bytes in the row: PAIRS counts. */
static void count_bytes(const struct trainer *r, uint32_t *counts) {
    const unsigned char *row = (const unsigned char *)r->texts->bytes.data;
    for (size_t k = 0; k < r->texts->count; k++) {
        for (size_t i = 1; i < r->texts->entries[k].size; i++) counts[row[i - 1] << 8 | row[i]]++;
        row += r->texts->entries[k].size;
    }
}

/* Fails if there is no memory for the row, for its places, and for those of the most frequent pair while they move to
 * pairs with its neighbours. */
static enum qkv_status check_memory(const struct trainer *r, const uint32_t *counts) {
    size_t most = 0, bytes;
    for (size_t i = 0; i < PAIRS; i++) most = qkv_max(most, counts[i]);
    const size_t moved = qkv_min(2 * most, r->size / 2), places = r->size + r->size / 2 + moved;
    bytes = r->size * sizeof *r->symbols + r->size / 64 * sizeof *r->pieces + places * sizeof(uint32_t);
    if (bytes < CHECKED) return QKV_OK;
    return qkv_memory_check(r->ctx, bytes, "training the tokenizer", "use less text, or one whose words are shorter");
}

/* Takes a list of places for each pair of bytes, with its initial length. */
static enum qkv_status make_places(struct trainer *r, const uint32_t *counts) {
    for (size_t i = 0; i < PAIRS; i++) {
        struct pair *pair = counts[i] ? find_pair(r, (int32_t)(i >> 8), (int32_t)(i & 255)) : NULL;
        if (!counts[i]) continue;
        if (pair) pair->places = qkv_reallocate(r->ctx, NULL, counts[i], sizeof *pair->places);
        if (!pair || !pair->places) return QKV_MEMORY;
        pair->place_capacity = counts[i];
    }
    return QKV_OK;
}

static void mark_pieces(struct trainer *r) {
    uint32_t place = 0;
    for (size_t k = 0; k < r->texts->count; k++) {
        if (r->texts->entries[k].size) r->pieces[place / 64].begins |= UINT64_C(1) << place % 64;
        place += (uint32_t)r->texts->entries[k].size;
    }
    for (size_t i = 1; i <= r->size / 64; i++)
        r->pieces[i].before = r->pieces[i - 1].before + (uint32_t)__builtin_popcountll(r->pieces[i - 1].begins);
}

/* Fills the row, and lists the place of each pair of its bytes. */
static enum qkv_status make_row(struct trainer *r, const uint32_t *counts) {
    r->symbols = qkv_reallocate(r->ctx, NULL, r->size, sizeof *r->symbols);
    r->pieces = qkv_allocate(r->ctx, r->size / 64 + 1, sizeof *r->pieces);
    if (!r->symbols || !r->pieces) return QKV_MEMORY;
    mark_pieces(r);
    for (size_t i = 0; i < r->size; i++) r->symbols[i] = (unsigned char)r->texts->bytes.data[i];
    enum qkv_status status = make_places(r, counts);
    for (uint32_t place = 1; place < r->size && !status; place++)
        if (!begins_piece(r, place)) status = count_pair(r, r->symbols[place - 1], r->symbols[place], place - 1);
    return status;
}

/* Copies the pieces to the row and counts the pairs of bytes. */

static enum qkv_status lay_out(struct trainer *r) {
    r->size = r->texts->bytes.size;
    if (r->size >= UINT32_MAX)
        return qkv_fail(r->ctx, QKV_MEMORY,
                        "bpe: the distinct words of the text have %zu bytes, more than %u; use less text", r->size,
                        UINT32_MAX - 1);
    uint32_t *counts = qkv_allocate(r->ctx, PAIRS, sizeof *counts);
    if (!counts) return QKV_MEMORY;
    count_bytes(r, counts);
    enum qkv_status status = check_memory(r, counts);
    if (!status) status = make_row(r, counts);
    free(counts);
    for (size_t i = 0; i < r->grown_count; i++) {
        r->pairs[r->grown[i]].grew = false;
        if (!status) status = bpe_train_push(r, r->grown[i]);
    }
    r->grown_count = 0;
    return status;
}

static void free_trainer(struct trainer *r) {
    for (size_t i = 0; i < r->pair_count; i++) free(r->pairs[i].places);
    free(r->symbols);
    free(r->pieces);
    free(r->pairs);
    free(r->slots);
    free(r->heap);
    free(r->grown);
}

enum qkv_status qkv_bpe_train(struct qkv_context *ctx, const struct qkv_strings *pieces, size_t vocab,
                              struct qkv_tokenizer *t, qkv_progress *progress, void *user) {
    struct trainer r = {.ctx = ctx, .t = t, .texts = pieces};
    enum qkv_status status = lay_out(&r);
    while (!status && t->count < vocab) {
        uint32_t pair;
        int32_t result;
        const bool report = t->merges.count % MERGES_A_REPORT == 0;
        if (report) qkv_rank_alive(ctx);
        if (report && progress && !progress(user, "learning merges", (double)(t->count - 256), (double)(vocab - 256)))
            status = qkv_fail(ctx, QKV_STOPPED, "stopped while learning merges");
        if (!status && report) status = qkv_check_cancelled(ctx, "learning merges");
        if (status) break;
        status = best_pair(&r, &pair);
        if (status || pair == UINT32_MAX) break;
        if (is_long(&r, pair)) continue;
        status = merged_token(&r, pair, &result);
        if (!status) status = merge_pair(&r, pair, result);
        clean_pairs(&r);
    }
    free_trainer(&r);
    return status;
}
