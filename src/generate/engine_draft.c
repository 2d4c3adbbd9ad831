/* Guesses: the tokens that followed the latest earlier place where an answer's newest tokens occur ("prompt lookup
 * decoding", Saxena 2023; speculative decoding, Leviathan et al. 2023). A guess is read with the newest token; each
 * token is then chosen from the same scores as without it. */
#include "generate/engine.h"

#include <string.h>

enum { LONGEST = 4, SHORTEST = 2 }; /* tokens that must be the same */

/* The place after the latest earlier occurrence of the last n ids; 0: there is none. */
static size_t draft_place(const int32_t *ids, size_t count, size_t n) {
    for (size_t end = count - 1; end >= n; end--)
        if (!memcmp(ids + end - n, ids + count - n, n * sizeof *ids)) return end;
    return 0;
}

size_t qkv_engine_draft(struct qkv_engine *e, struct qkv_engine_answer *a, size_t most) {
    const size_t left = a->job->tokens - a->made, room = e->context - a->count;
    a->drafted = 0;
    most = qkv_min(qkv_min(most, e->drafts), qkv_min(room, left ? left - 1 : 0));
    for (size_t n = LONGEST; most && n >= SHORTEST; n--) {
        const size_t from = a->count > n ? draft_place(a->ids, a->count, n) : 0;
        if (!from) continue;
        for (; a->drafted < most; a->drafted++) a->ids[a->count + a->drafted] = a->ids[from + a->drafted];
        break;
    }
    return a->drafted;
}
