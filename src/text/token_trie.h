/* token_trie: the tokens of a vocabulary as a tree of their bytes, so that texts which begin alike are looked at once.
 *
 * It is made once for each tokenizer, when something first asks for it, and never changes: any thread may read it. Its
 * memory is about 12 bytes a node and 4 bytes a token: 6 MB for 128,000 tokens of a published model. */
#ifndef QKV_TOKEN_TRIE_H
#define QKV_TOKEN_TRIE_H

#include "text/text.h"

enum {
    QKV_TRIE_SHORT = 24,    /* tokens of at most so many bytes are in the first part, longer ones in the second */
    QKV_TRIE_LONGEST = 1024 /* longer tokens are left out */
};

/* A node: one byte after that of its parent. Nodes are in the order of a walk that visits a node before its children
 * and the smaller byte first. */
struct qkv_trie_node {
    uint32_t skip;   /* the first node after its subtree */
    uint32_t tokens; /* its first token, in `ids`; the next node has the end */
    uint16_t depth;  /* bytes from the root: 1 at least */
    uint8_t byte;
};
struct qkv_trie_part {
    struct qkv_trie_node *nodes; /* (count + 1): the last one ends the list of tokens */
    int32_t *ids;
    size_t count, id_count, depth;
};
struct qkv_token_trie {
    uint64_t serial; /* no two tries of a process have the same */
    struct qkv_trie_part parts[2];
    size_t bytes; /* of memory */
};
/* The trie of a tokenizer, which owns it. Left out: special tokens, the unknown token, tokens without text. */
enum qkv_status qkv_tokenizer_trie(struct qkv_context *ctx, const struct qkv_tokenizer *t,
                                   const struct qkv_token_trie **out);
void qkv_token_trie_free(struct qkv_token_trie *trie);

#endif
