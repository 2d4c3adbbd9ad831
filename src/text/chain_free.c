/* Frees a chain. It is a file of its own because freeing a tokenizer does not need the reader. */
#include "text/chain.h"

#include <stdlib.h>

static void links_free(struct chain_links *links) {
    for (size_t i = 0; i < links->count; i++) {
        struct chain_link *l = &links->at[i];
        free(l->text);
        free(l->other);
        free(l->literal);
        qkv_pattern_free(l->pattern);
        qkv_charsmap_free(l->charsmap);
    }
    free(links->at);
}

void qkv_chain_free(struct qkv_chain *c) {
    if (!c) return;
    links_free(&c->normalizers);
    links_free(&c->splitters);
    links_free(&c->decoders);
    qkv_pattern_free(c->words);
    free(c->json);
    qkv_strings_free(&c->vocab);
    qkv_buffer_free(&c->added_keys);
    free(c->keys);
    free(c->key_sizes);
    free(c->prefix);
    free(c->suffix);
    free(c->scores);
    qkv_trie_free(&c->trie);
    free(c->pack.units);
    qkv_trie_free(&c->users);
    free(c->types);
    qkv_finder_free(&c->finders[0]);
    qkv_finder_free(&c->finders[1]);
    free(c->added);
    free(c);
}
