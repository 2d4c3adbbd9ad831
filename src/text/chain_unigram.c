/* Unigram models (Kudo 2018): the segmentation with the highest sum of scores. In double precision piece by piece, as
 * huggingface/tokenizers computes it; and as SentencePiece does, in single precision over a whole text, where the last
 * bit decides between segmentations of equal scores. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text/chain.h"

struct chain_lattice { /* the best path to a byte */
    double score;
    size_t from; /* SIZE_MAX: no path yet */
    int32_t id;
};

static void unigram_consider(struct chain_lattice *to, double score, size_t from, int32_t id) {
    if (to->from == SIZE_MAX || score > to->score) *to = (struct chain_lattice){score, from, id};
}

/* Viterbi from the left; of equal scores the first one found wins, which has the longest last token. */
static enum qkv_status unigram_walk(struct chain_run *r, const char *s, size_t size) {
    const struct qkv_chain *c = r->chain;
    struct chain_lattice *way = r->lattice;
    for (size_t i = 0; i <= size; i++) way[i] = (struct chain_lattice){0, SIZE_MAX, -1};
    for (size_t at = 0; at < size;) {
        size_t next = at;
        qkv_code_next(s, size, &next);
        bool single = false;
        int32_t node = 0;
        for (size_t i = at; i < size; i++) {
            node = qkv_pack_step(c->pack.units, node, (unsigned char)s[i]);
            if (node < 0) break;
            const int32_t id = c->pack.units[node].value;
            if (id < 0) continue;
            unigram_consider(&way[i + 1], c->scores[id] + way[at].score, at, id);
            single = single || i + 1 == next;
        }
        if (!single) {
            if (c->unknown < 0) return qkv_model_unknown(r, s + at, next - at);
            unigram_consider(&way[next], c->unknown_score + way[at].score, at, c->unknown);
        }
        at = next;
    }
    return QKV_OK;
}

/* Appends one token, or the tokens of a run of unknown characters. */
static enum qkv_status unigram_put(struct chain_run *r, const char *s, size_t begin, size_t end, int32_t id) {
    const struct qkv_chain *c = r->chain;
    if (id == c->unknown) id = qkv_model_find(r, s + begin, end - begin);
    if (id >= 0) return qkv_model_add(r, id, begin, end);
    bool spelt = c->fallback;
    for (size_t i = begin; i < end && spelt; i++) spelt = c->byte_ids[(unsigned char)s[i]] >= 0;
    enum qkv_status status = QKV_OK;
    for (size_t i = begin; i < end && spelt && !status; i++)
        status = qkv_model_add(r, c->byte_ids[(unsigned char)s[i]], begin, end);
    return spelt ? status : qkv_model_add(r, c->unknown, begin, end);
}

enum qkv_status qkv_model_unigram(struct chain_run *r, const char *s, size_t size) {
    if (size + 1 > r->lattice_capacity) {
        struct chain_lattice *lattice = qkv_reallocate(r->ctx, r->lattice, size + 1, sizeof *lattice);
        if (!lattice) return QKV_MEMORY;
        r->lattice = lattice;
        r->lattice_capacity = size + 1;
    }
    struct chain_lattice *way = r->lattice;
    enum qkv_status status = unigram_walk(r, s, size);
    if (status) return status;
    /* Reverses the path: each place gets the end of the token that begins there. */
    size_t next = SIZE_MAX;
    for (size_t end = size;;) {
        const size_t from = way[end].from;
        way[end].from = next;
        next = end;
        if (end == 0) break;
        end = from;
    }
    for (size_t at = 0; at < size && !status;) {
        size_t end = way[at].from;
        const int32_t id = way[end].id;
        while (id >= 0 && id == r->chain->unknown && end < size && way[way[end].from].id == id) end = way[end].from;
        status = unigram_put(r, s, at, end, id);
        at = end;
    }
    return status;
}

/* ---- SentencePiece ----------------------------------------------------------------------------------------------- */

#define SCORE_RESET 100000.0F /* SentencePiece counts from 0 again where a score is larger */

struct spm_way { /* the best path to a byte */
    float score;
    uint32_t from; /* UINT32_MAX: no path yet */
    int32_t id;    /* −1: an unknown character */
};
struct spm_walk {
    struct chain_run *r;
    const char *s;
    struct spm_way *way;
    size_t size, furthest;
};

static void spm_consider(struct spm_walk *w, size_t from, size_t end, float score, int32_t id) {
    struct spm_way *to = &w->way[end];
    w->furthest = qkv_max(w->furthest, end);
    if (to->from == UINT32_MAX || score > to->score) *to = (struct spm_way){score, (uint32_t)from, id};
}

/* Counts from 0 again: the scores of all paths from `at` on are lowered by that to it. */
static void spm_reset(struct spm_walk *w, size_t at) {
    const float offset = w->way[at].score;
    for (size_t i = at; i <= w->furthest; i++)
        if (i == at || w->way[i].from != UINT32_MAX) w->way[i].score -= offset;
}

/* Viterbi from the left, with the score that the text before has. */
static void spm_walk(struct spm_walk *w, float score) {
    const struct qkv_chain *c = w->r->chain;
    const struct chain_unit *units = c->pack.units;
    const float unknown = (float)c->unknown_score;
    for (size_t i = 0; i <= w->size; i++) w->way[i] = (struct spm_way){0, UINT32_MAX, -1};
    w->way[0].score = score;
    w->furthest = 0;
    for (size_t at = 0, next; at < w->size; at = next) {
        if (fabsf(w->way[at].score) > SCORE_RESET) spm_reset(w, at);
        const float before = w->way[at].score;
        bool single = false;
        int32_t node = 0;
        next = at;
        qkv_code_next(w->s, w->size, &next);
        for (size_t i = at; i < w->size; i++) {
            node = qkv_pack_step(units, node, (unsigned char)w->s[i]);
            if (node < 0) break;
            if (units[node].value < 0) continue;
            spm_consider(w, at, i + 1, units[node].score + before, units[node].value);
            single = single || i + 1 == next;
        }
        if (!single) spm_consider(w, at, next, unknown + before, -1);
    }
}

/* Appends one token, or the tokens of a run of unknown characters. */
static enum qkv_status spm_put(struct chain_run *r, const char *s, size_t begin, size_t end, int32_t id) {
    const struct qkv_chain *c = r->chain;
    if (id >= 0) return qkv_model_add(r, id, begin, end);
    enum qkv_status status = QKV_OK;
    if (!c->fallback)
        return c->unknown >= 0 ? qkv_model_add(r, c->unknown, begin, end)
                               : qkv_model_unknown(r, s + begin, end - begin);
    for (size_t i = begin; i < end && !status; i++) {
        const int32_t byte = c->byte_ids[(unsigned char)s[i]];
        status = byte >= 0 ? qkv_model_add(r, byte, begin, end) : qkv_model_unknown(r, s + begin, end - begin);
    }
    return status;
}

/* Adds the tokens of a part of a piece that begins at `base`. */
static enum qkv_status spm_part(struct chain_run *r, const char *s, size_t base, size_t size, float *score) {
    struct spm_walk w = {.r = r, .s = s + base, .size = size, .way = r->ways};
    spm_walk(&w, *score);
    *score = w.way[size].score;
    /* Reverses the path: each place gets the end of the token that begins there. */
    uint32_t next = UINT32_MAX;
    for (uint32_t end = (uint32_t)size, from;; end = from) {
        from = w.way[end].from;
        w.way[end].from = next;
        next = end;
        if (end == 0) break;
    }
    enum qkv_status status = QKV_OK;
    for (size_t at = 0, end; at < size && !status; at = end) {
        end = w.way[at].from;
        const int32_t id = w.way[end].id;
        while (id < 0 && end < size && w.way[w.way[end].from].id < 0) end = w.way[end].from;
        status = spm_put(r, s, base + at, base + end, id);
    }
    return status;
}

enum qkv_status qkv_model_unigram_spm(struct chain_run *r, const char *s, size_t size) {
    float score = 0;
    enum qkv_status status = QKV_OK;
    if (size >= UINT32_MAX) return qkv_fail(r->ctx, QKV_FORMAT, "a text of more than 4 GiB");
    for (size_t at = 0, end; at < size && !status; at = end) {
        end = r->chain->splits_at_mark ? qkv_model_mark(s, size, at) : size;
        if (end - at + 1 > r->way_capacity) {
            struct spm_way *ways = qkv_reallocate(r->ctx, r->ways, end - at + 1, sizeof *ways);
            if (!ways) return QKV_MEMORY;
            r->ways = ways;
            r->way_capacity = end - at + 1;
        }
        status = spm_part(r, s, at, end - at, &score);
    }
    return status;
}
