/* chain: a tokenizer.json as the chain of steps that Hugging Face `tokenizers` makes of it, for files that need more
 * than the machine of text.h:
 *
 *   text -> added tokens cut out -> normalizers -> added tokens cut out -> splitters -> a model of each piece
 *        -> post-processors
 *   ids  -> keys of the vocabulary -> decoders -> text
 *
 * Each link has one list of kinds: chain_normal.c, chain_split.c, chain_vocab.c (with chain_model.c), template.c and
 * chain_decode.c. The reader flattens Sequences. Where a caller wants spans, every byte of a normalized text has the
 * bytes of the source that it comes from (struct chain_span). A byte of the source that is not UTF-8 is read as
 * U+FFFD. */
#ifndef QKV_CHAIN_H
#define QKV_CHAIN_H

#include "base/json_load.h"
#include "text/text.h"
#include "text/vocab_json.h"

/* ---- characters (chain_text.c) ----------------------------------------------------------------------------------- */

bool qkv_code_is_space(uint32_t code);       /* White_Space */
bool qkv_code_is_word(uint32_t code);        /* \w of Rust's regex */
bool qkv_code_is_punctuation(uint32_t code); /* ASCII punctuation and the categories P* */
bool qkv_code_is_number(uint32_t code);      /* the categories N* */
bool qkv_code_is_mark(uint32_t code, bool nonspacing_only);
bool qkv_code_is_other(uint32_t code);  /* Cc, Cf, Cs, Co */
int qkv_code_script(uint32_t code);     /* −1: none, also for the space; Hiragana and Katakana are Han */
uint32_t qkv_code_lower(uint32_t code); /* one character, although U+0130 has two */
bool qkv_code_is_whole(uint32_t code);  /* newer versions of Unicode decompose it, tokenizers' version does not */
#define QKV_CODE_BYTE 0x110000U         /* plus a byte that is not UTF-8: a character of no class */
/* The character at text[*at]; moves *at past it. */
static inline uint32_t qkv_code_next(const char *text, size_t size, size_t *at) {
    const uint32_t byte = (unsigned char)text[*at];
    uint32_t code = byte;
    int n = 1;
    if (byte >= 0x80) n = qkv_utf8_scan(text + *at, size - *at, &code);
    *at += n > 0 ? (size_t)n : 1;
    return n > 0 ? code : QKV_CODE_BYTE + byte;
}

/* ---- texts with their source (chain_text.c) ---------------------------------------------------------------------- */

struct chain_span { /* bytes of the source */
    uint32_t begin, end;
};
struct chain_text {
    struct qkv_buffer bytes;
    struct chain_span *map; /* the source of each byte, where the run is mapped */
    size_t map_capacity;
    bool view; /* the bytes are those of the source from `from` on, and have no map: each character is its own source */
    size_t from;
};
struct chain_piece { /* bytes of the normalized text */
    size_t begin, end;
};
struct chain_pieces {
    struct chain_piece *at;
    size_t count, capacity;
};
struct chain_token { /* and its bytes in a piece */
    int32_t id;
    uint32_t begin, end;
};
struct chain_tokens {
    struct chain_token *at;
    size_t count, capacity;
};

struct qkv_chain;
struct chain_link;
struct chain_run { /* the state of one call */
    struct qkv_context *ctx;
    const struct qkv_tokenizer *t;
    const struct qkv_chain *chain;
    bool specials;
    bool spanned;       /* the caller wants spans */
    bool mapped;        /* spans, or a splitter, need the sources of bytes */
    bool many;          /* several texts use one cache, which copies its keys */
    int32_t only;       /* the one special token to find without `specials`; −1: none */
    const char *source; /* the text */
    size_t source_size;
    struct chain_text text, next; /* input and output of a link */
    struct chain_text spare;      /* the memory of text while that is a view */
    struct chain_pieces pieces, pieces_next;
    enum qkv_status (*visit)(void *user, const char *piece, size_t size); /* gets pieces instead of the model */
    void *user;
    size_t stage;    /* where splitters only cut: the one that cuts the next piece */
    size_t cursor;   /* the character of text that the link replaces next */
    size_t max_size; /* the maximum bytes of a text (qkv_chain_max_size) */
    struct qkv_merger merger;
    struct chain_cache *cache;
    struct chain_tokens tokens; /* of a piece, where spans are wanted; else they go to ids at once */
    int32_t *symbols;
    size_t symbol_capacity;
    struct chain_lattice *lattice;
    size_t lattice_capacity;
    struct spm_way *ways;
    size_t way_capacity;
    struct qkv_splitter *splitters[2 * 32]; /* of links with a pattern, by link->place */
    int32_t *ids;                           /* the result */
    struct chain_span *spans;
    size_t count, capacity;
};

/* The maximum size of a text made of `size` bytes: several links that write many characters for one would fill any
 * memory. */
static inline size_t qkv_chain_max_size(size_t size) {
    return ((size_t)1 << 20) + qkv_min(size, SIZE_MAX >> 11) * 1024;
}
/* Writing run->next: a link begins and ends with the first and last of these. A character has the source of the one at
 * the cursor, which it passes; an inserted character has the source of the byte before. `change` as in tokenizers: > 0:
 * inserted; −n: passes n more characters. */
enum qkv_status qkv_chain_begin(struct chain_run *r);
enum qkv_status qkv_chain_put(struct chain_run *r, uint32_t code, int change);
enum qkv_status qkv_chain_put_text(struct chain_run *r, const char *text, size_t size, struct chain_span from);
enum qkv_status qkv_chain_keep(struct chain_run *r, size_t bytes);        /* copies that many bytes, and passes them */
void qkv_chain_skip(struct chain_run *r, size_t bytes);                   /* passes them and writes nothing */
void qkv_chain_swap(struct chain_run *r);                                 /* `next` becomes `text` */
struct chain_span qkv_chain_source(const struct chain_run *r, size_t at); /* of a byte of text; {0,0} if not mapped */
/* Makes a view of a text its own, before bytes are changed in place. */
enum qkv_status qkv_chain_own(struct chain_run *r);
/* Gives a piece, unless it is empty, to the next splitter, and to the model after the last one; or, where a splitter
 * rewrites the text, adds it to pieces_next (chain_encode.c). */
enum qkv_status qkv_chain_piece(struct chain_run *r, size_t begin, size_t end);

/* ---- links ------------------------------------------------------------------------------------------------------- */

enum chain_behavior { CHAIN_REMOVED, CHAIN_ISOLATED, CHAIN_PREVIOUS, CHAIN_NEXT, CHAIN_CONTIGUOUS };
enum chain_scheme { CHAIN_ALWAYS, CHAIN_FIRST, CHAIN_NEVER };
struct chain_charsmap { /* a charsmap of SentencePiece */
    uint32_t *units;
    size_t count;
    char *strings;
    size_t size;
    bool plain[128]; /* the character maps to itself */
    bool alone[128]; /* neither it nor it and more characters of ASCII are mapped */
};
/* Types of the pieces of a model of SentencePiece, by their numbers in files (spm.h). */
enum qkv_spm_type {
    QKV_SPM_NONE,
    QKV_SPM_NORMAL,
    QKV_SPM_UNKNOWN,
    QKV_SPM_CONTROL,
    QKV_SPM_USER,
    QKV_SPM_UNUSED,
    QKV_SPM_BYTE
};
struct chain_link {
    const struct chain_kind *kind;
    char *text, *other; /* content, prefix, … */
    size_t size;        /* of text, or of `literal` if there is one */
    struct qkv_pattern *pattern;
    size_t place;  /* index of its splitter */
    char *literal; /* a pattern that is a plain text */
    bool flags[4];
    enum chain_behavior behavior;
    enum chain_scheme scheme;
    size_t number, stop;
    uint32_t code;
    struct chain_charsmap *charsmap;
};
struct chain_links {
    struct chain_link *at;
    size_t count, capacity;
};
struct chain_reader {
    struct qkv_context *ctx;
    const char *name; /* of the file */
    const char *key;  /* of the link */
    struct qkv_chain *chain;
    struct qkv_tokenizer *t;
    struct qkv_vocab_json *file;
    size_t patterns;
};
struct chain_strings;
struct chain_kind {
    const char *name;
    enum qkv_status (*read)(struct chain_reader *r, const json_t *value, struct chain_link *link); /* NULL: no keys */
    enum qkv_status (*run)(struct chain_run *r, const struct chain_link *link);
    enum qkv_status (*decode)(struct qkv_context *ctx, const struct chain_link *link, struct chain_strings *s);
    bool cuts; /* a splitter that leaves the text as it is */
};
enum { BYTES_PREFIX, BYTES_REGEX }; /* flags of the splitter ByteLevel */
/* ByteLevel whose pieces stay bytes: the model knows the bytes of its tokens. */
extern const struct chain_kind qkv_chain_bytes_cut;
/* Links of SentencePiece, which Sequences may have instead of their parts (chain_spm.c). */
extern const struct chain_kind qkv_spm_normalizer, qkv_spm_decoder;
extern const struct chain_kind qkv_chain_normalizers[], qkv_chain_splitters[],
    qkv_chain_decoders[]; /* end with a NULL name */

/* Fails at the value of a link's key; knows: the values that can be read. */
enum qkv_status qkv_chain_refuse(struct chain_reader *r, const char *key, const json_t *value, const char *knows);
/* Reading a link's keys (chain_keys.c). `fallback`: the value of a missing key. */
enum qkv_status qkv_chain_bool(struct chain_reader *r, const json_t *value, const char *key, bool fallback, bool *out);
enum qkv_status qkv_chain_string(struct chain_reader *r, const json_t *value, const char *key, const char *fallback,
                                 char **out);
enum qkv_status qkv_chain_size(struct chain_reader *r, const json_t *value, const char *key, size_t fallback,
                               size_t *out);
/* A text of one character. */
enum qkv_status qkv_chain_code(struct chain_reader *r, const json_t *value, const char *key, uint32_t fallback,
                               uint32_t *out);
enum qkv_status qkv_chain_pattern(struct chain_reader *r, const json_t *value, struct chain_link *link);
enum qkv_status qkv_chain_behavior(struct chain_reader *r, const json_t *value, struct chain_link *link);
enum qkv_status qkv_chain_scheme(struct chain_reader *r, const json_t *value, struct chain_link *link);
enum qkv_status qkv_chain_set_pattern(struct chain_reader *r, const char *source, struct chain_link *link);
enum qkv_status qkv_charsmap_read(struct chain_reader *r, const json_t *value, struct chain_link *link);
enum qkv_status qkv_charsmap_run(struct chain_run *r, const struct chain_link *link);
void qkv_charsmap_free(struct chain_charsmap *map);
/* Calls a function with each text that has a replacement, in the order of bytes. Fails as it does. */
enum qkv_status qkv_charsmap_keys(struct qkv_context *ctx, const struct chain_charsmap *map,
                                  enum qkv_status (*visit)(void *user, const char *key, size_t size), void *user);
/* The replacement of the longest beginning of a text that has one, and the size of that; NULL: it has none. */
const char *qkv_charsmap_longest(const struct chain_charsmap *map, const char *text, size_t size, size_t *length);
/* Canonical and compatible normal forms (chain_forms.c). */
enum qkv_status qkv_chain_form(struct chain_run *r, bool compatible, bool compose);
/* Replaces bytes by their symbols, as ByteLevel does: in the pieces of run->pieces, or in the whole text if there are
 * none. */
enum qkv_status qkv_chain_bytes(struct chain_run *r);
/* The matches of a link's pattern in a text, and the gaps between them. */
struct chain_match {
    size_t begin, end;
    bool matched;
};
struct chain_matches {
    struct chain_run *run;
    const struct chain_link *link;
    const char *text;
    size_t size, at, found;
    struct qkv_splitter *splitter;
};
enum qkv_status qkv_matches_start(struct chain_run *r, const struct chain_link *link, const char *text, size_t size,
                                  struct chain_matches *m);
enum qkv_status qkv_matches_next(struct chain_matches *m, struct chain_match *out, bool *found);

/* ---- models (chain_model.c) -------------------------------------------------------------------------------------- */

struct chain_trie { /* bytes -> value; children are found by hashing */
    struct chain_edge *edges;
    size_t edge_count, slot_count;
    int32_t *values; /* of each node; −1: none */
    size_t count, capacity;
};
enum qkv_status qkv_trie_add(struct qkv_context *ctx, struct chain_trie *trie, const char *key, size_t size,
                             int32_t value);
/* The child of a node (the root is 0) for a byte, or −1. */
int32_t qkv_trie_step(const struct chain_trie *trie, int32_t node, unsigned char byte);
void qkv_trie_free(struct chain_trie *trie);
struct chain_edge {
    int32_t node, child; /* child 0: a free slot */
    uint32_t byte;
};
/* One of the trie's slot_count edges. */
struct chain_edge qkv_trie_edge(const struct chain_trie *trie, size_t i);
/* The same for fast steps (trie_pack.c), when it is complete. Unit 0 is the root; free(units). */
struct chain_unit {
    int32_t base, check, value;
    float score; /* the caller's */
};
struct chain_pack {
    struct chain_unit *units;
    size_t count;
};
enum qkv_status qkv_trie_pack(struct qkv_context *ctx, const struct chain_trie *trie, struct chain_pack *out);
/* The unit for a byte after unit `at`, or −1. */
static inline int32_t qkv_pack_step(const struct chain_unit *units, int32_t at, unsigned char byte) {
    const int32_t next = units[at].base + byte;
    return units[next].check == at ? next : -1;
}

enum chain_model { CHAIN_BPE, CHAIN_WORDPIECE, CHAIN_UNIGRAM, CHAIN_WORDLEVEL };
struct chain_added { /* a text that is always one token */
    int32_t id;
    bool single_word, left, right; /* stands between no word characters; takes the white space before it, after it */
    bool normalized;               /* searched for in normalized text */
    bool special;                  /* found in trusted texts only */
};
struct chain_finder { /* of added tokens */
    struct chain_trie trie;
    bool begins[256]; /* whether a token begins with this byte */
    int first;        /* the byte that all begin with; −1: they differ */
    size_t longest;
    bool has_plain; /* one that is not special */
};
struct qkv_chain {
    char *json; /* the text of the file */
    size_t json_size;
    struct chain_links normalizers, splitters, decoders;
    enum chain_model model;
    struct qkv_strings vocab; /* keys; value: id */
    struct qkv_buffer added_keys;
    /* the key of each id */
    const char **keys;
    size_t *key_sizes;
    size_t key_count;
    int32_t unknown; /* −1: none */
    char *prefix, *suffix;
    size_t prefix_size, suffix_size, longest_word;
    bool fuse_unknown, fallback, ignore_merges;
    int32_t byte_ids[256];
    int32_t ascii_ids[128]; /* the token of each ASCII character alone; −1: none */
    bool splits_at_mark;    /* no merge spans the beginning of a U+2581, so a piece may be cut there */
    double *scores;
    double unknown_score;
    struct chain_trie trie; /* of WordPiece and Unigram, while the file is read */
    struct chain_pack pack; /* the same after that */
    int32_t continuing;     /* the unit after the prefix */
    struct chain_added *added;
    size_t added_count, added_capacity;
    struct chain_finder finders[2]; /* of tokens in the raw text, and in normalized text */
    size_t truncate;                /* the maximum number of ids; 0: no limit */
    bool truncate_left;
    bool needs_map; /* a splitter needs the sources of pieces */
    bool cuts;      /* splitters only cut the text */
    /* byte-level BPE: pieces are bytes, and `vocab` has the bytes of tokens; keys, of which all have a byte for each
     * character, are made from them (qkv_tokenizer_key) */
    bool bytes;
    /* One of the rows of text.h: it encodes any bytes, decodes to the same bytes, and its file is written from the
     * tokenizer's tables. No added token strips white space. */
    bool plain;
    /* A model of SentencePiece: `types` has the digit of enum qkv_spm_type for each token; NULL: it is none. */
    char *types;
    size_t type_count;
    bool reads_bytes;                  /* its normalizer reads bytes that are not UTF-8 */
    bool has_unused;                   /* tokens of type UNUSED, which merges make and which are then cut again */
    struct chain_trie users;           /* tokens of type USER */
    bool user_begins[256];             /* whether one begins with this byte */
    const struct qkv_pattern *pattern; /* plain: what cuts its pieces; NULL: a text is one piece */
    struct qkv_pattern *words;         /* owned; white space and words, where a text is cut at white space */
};
#define QKV_BYTE_LEVEL(use_regex)                                                                                      \
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": " use_regex "}"
/* The fixed parts of a plain chain that is trained. */
struct chain_row {
    const char *splitter, *decoder; /* JSON */
    enum chain_model model;
    bool fallback, ignore_merges;
};
enum qkv_status qkv_chain_make(struct qkv_context *ctx, const struct chain_row *row, struct qkv_tokenizer *t);
/* Whether the splitters and the decoder let a model of bytes take the place of one of symbols. */
bool qkv_chain_byte_level(const struct qkv_chain *c);
/* Sets what follows from the splitters, and from `bytes`. */
void qkv_chain_settle(struct qkv_chain *c);
/* Reads a link, or a Sequence of them (chain_links.c). */
enum qkv_status qkv_chain_links(struct chain_reader *r, const json_t *value, const char *list,
                                const struct chain_kind *kinds, struct chain_links *links);
/* Whether a file is plain, after all but its tokens is read. */
bool qkv_chain_is_plain(const struct chain_reader *r, const json_t *root);
/* Sets the tokens of a chain that is plain, or has bytes; then its keys, which those tokens have, can go. */
enum qkv_status qkv_chain_plain_tokens(struct chain_reader *r);
enum qkv_status qkv_chain_plain_token(struct chain_reader *r, size_t id, const char *key, size_t size);
void qkv_chain_drop_keys(struct qkv_tokenizer *t);
/* Sets what follows from being plain. */
enum qkv_status qkv_chain_set_plain(struct qkv_context *ctx, struct qkv_tokenizer *t);
/* Gives the pieces of a text between added tokens to a visitor. */
typedef enum qkv_status chain_piece_visit(void *user, const char *piece, size_t size);
enum qkv_status qkv_chain_visit(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text, size_t size,
                                chain_piece_visit *visit, void *user);
/* Reads a file. The chain takes its tables over. */
enum qkv_status qkv_chain_read(struct qkv_context *ctx, const char *name, struct qkv_vocab_json *file, const char *json,
                               size_t size, struct qkv_tokenizer *t);
enum qkv_status qkv_chain_read_model(struct chain_reader *r, const json_t *model);
static inline enum qkv_spm_type qkv_chain_type(const struct qkv_chain *c, size_t id) {
    return c->types && id < c->type_count ? (enum qkv_spm_type)(c->types[id] - '0') : QKV_SPM_NONE;
}
/* Whether a text may become this token by the model: not where SentencePiece has it for another purpose. */
static inline bool qkv_chain_spells(const struct qkv_chain *c, size_t id) {
    const enum qkv_spm_type type = qkv_chain_type(c, id);
    return !c->types || type == QKV_SPM_NORMAL || type == QKV_SPM_USER || type == QKV_SPM_UNUSED;
}
/* Reads model.piece_types and model.merge_groups (chain_spm.c), before and after the rest of a model. */
enum qkv_status qkv_spm_read_types(struct chain_reader *r, const json_t *model);
enum qkv_status qkv_spm_read_groups(struct chain_reader *r, const json_t *model);
enum qkv_status qkv_spm_read_users(struct chain_reader *r);
/* The entry of a key of the vocabulary, while a file is read; NULL: there is none. */
const struct qkv_string *qkv_chain_known(const struct chain_reader *r, const char *key, size_t size);
/* Appends the tokens of a piece of run->text to run->tokens where spans are wanted, else to run->ids. */
enum qkv_status qkv_chain_model(struct chain_run *r, const char *piece, size_t size);
/* For models (chain_tokens.c): adds a token with its bytes in the piece; the token of a key, or −1; fails
 * for a text that no token spells. */
enum qkv_status qkv_model_add(struct chain_run *r, int32_t id, size_t begin, size_t end);
int32_t qkv_model_find(const struct chain_run *r, const char *key, size_t size);
enum qkv_status qkv_model_unknown(struct chain_run *r, const char *piece, size_t size);
/* The next place after `at` where a piece may be cut: before a U+2581 that does not follow another one. */
size_t qkv_model_mark(const char *s, size_t size, size_t at);
/* Unigram in tokenizer.json, and as SentencePiece computes it. */
enum qkv_status qkv_model_unigram(struct chain_run *r, const char *s, size_t size);
enum qkv_status qkv_model_unigram_spm(struct chain_run *r, const char *s, size_t size);
/* Sets ascii_ids from the vocabulary. */
void qkv_chain_find_ascii(struct qkv_context *ctx, const struct qkv_tokenizer *t);
/* Takes memory for more ids (chain_text.c). */
enum qkv_status qkv_chain_room(struct chain_run *r, size_t more);
enum qkv_status qkv_chain_encode(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text, size_t size,
                                 bool specials, int32_t only, int32_t **ids, struct chain_span **spans, size_t *count);
void qkv_chain_free(struct qkv_chain *chain);
/* Makes run->text a view of source[begin, end). The next function frees all of a run but its ids and spans. */
void qkv_chain_load(struct chain_run *r, const char *source, size_t begin, size_t end);
void qkv_chain_run_free(struct chain_run *r);
void qkv_chain_text_free(struct chain_text *text);
/* The size of the part of a stream that may be encoded alone: up to the last newline before an ASCII letter, if the
 * first splitter drops white space and normalizers look at no more than neighbours; else 0. */
size_t qkv_chain_cut(const struct qkv_tokenizer *t, const char *text, size_t size);
/* A run's cache of pieces (chain_model.c). */
enum qkv_status qkv_chain_cache_create(struct qkv_context *ctx, size_t text, struct chain_cache **out);
void qkv_chain_cache_free(struct chain_cache *cache);
/* qkv_tokenizer_encode_many. */
enum qkv_status qkv_chain_encode_many(const struct qkv_tokenizer *t, const struct qkv_word *texts, size_t count,
                                      int32_t **ids, size_t *ends);

/* ---- added tokens (chain_added.c) -------------------------------------------------------------------------------- */

/* Adds the text of added[i] to a finder: its own, or what normalizers make of it. */
enum qkv_status qkv_finder_add(struct qkv_context *ctx, struct qkv_chain *c, size_t i, const char *text, size_t size);
bool qkv_finder_open(const struct chain_finder *finder, const char *s, size_t size, size_t at);
void qkv_finder_free(struct chain_finder *finder);
/* An added token that counts in s[from, size): its place with the white space that it strips, except what lies before
 * `done`; where to search on. */
struct chain_found {
    const struct chain_added *added;
    size_t begin, end, search;
};
bool qkv_chain_find(const struct chain_run *r, bool normalized, const char *s, size_t size, size_t done,
                    struct chain_found *f);

/* ---- decoders (chain_decode.c) ----------------------------------------------------------------------------------- */

struct chain_strings { /* texts, one after the other */
    struct qkv_buffer bytes;
    size_t *ends;
    size_t count, capacity;
    bool raw; /* bytes that are not UTF-8 are kept */
};
enum qkv_status qkv_chain_decode(struct qkv_context *ctx, const struct qkv_chain *chain, struct chain_strings *s);
enum qkv_status qkv_strings_put(struct qkv_context *ctx, struct chain_strings *s, const char *text, size_t size);
void qkv_chain_strings_free(struct chain_strings *s);
/* Sets the bytes of each token of the vocabulary, as it is decoded after another token: the result of
 * qkv_tokenizer_token. */
enum qkv_status qkv_chain_token_bytes(struct chain_reader *r);

#endif
