/* text: tokenizers, and the little Unicode they need.
 *
 * This header has what other rooms use beyond the "tokenizers" section of qkv.h. Every tokenizer is a chain of steps,
 * as Hugging Face `tokenizers` has them (chain.h). Those made by qkv are chains with fixed rows, so a saved file means
 * the same there:
 *
 *                 splitter          model                                     a piece that is a token
 *   bytes         ByteLevel         BPE without merges                        -
 *   chars         none              BPE without merges, other characters are  -
 *                                   <unk>
 *   chars+bytes   none              BPE without merges, other characters are  -
 *                                   byte tokens
 *   words         ByteLevel, GPT-2  BPE without merges                        is that token (ignore_merges)
 *   whitespace    WhitespaceSplit   WordLevel                                 is that token, unknown or an error
 *   bpe           ByteLevel, GPT-2  BPE                                       -
 *
 * Files: bytes.c (byte alphabet), strings.c (hash table of byte strings), pattern.c (pieces), onig.c and onig_class.c
 * (Oniguruma's patterns for PCRE2), chain_*.c (the chain), template.c (special tokens around a sequence), merge.c
 * (merging a piece), bpe_train.c (learning merges), train_tokenizer.c (the rows of trained kinds, vocabularies from a
 * text), cut.c, tokenizer.c (tables, encoding, decoding), token_trie.c, tokenizer_json.c, tokenizer_file.c
 * (reading; spm.h and tiktoken.h have the files that are no tokenizer.json), tokenizer_save.c, tokenizer_folder.c,
 * folder_files.c, folder_vocab.c (tokenizers of published folders), language_tokens.c (tokens of languages). */
#ifndef QKV_TEXT_H
#define QKV_TEXT_H

#include "base/base.h"
#include "base/utf8.h"
#include "text/chat_sources.h"

struct qkv_token_trie;

#define QKV_TOKEN_TEXT_END "<|endoftext|>" /* separates documents, if the tokenizer has it */

/* ---- bytes.c ------------------------------------------------------------------------------------------------- */

/* The character for a byte in the keys of a byte-level vocabulary (GPT-2): printable Latin-1 bytes map to themselves,
 * the other 68 bytes to U+0100 and up. The inverse returns −1 for any other character. */
uint32_t qkv_byte_symbol(unsigned char byte);
int qkv_symbol_byte(uint32_t code);

/* ---- strings.c ----------------------------------------------------------------------------------------------- */

/* A hash table of distinct byte strings, numbered in order of appearance, each with a value. Start with {0}. */
struct qkv_string {
    size_t offset, size; /* in bytes.data */
    uint64_t hash;
    int64_t value;
};
struct qkv_strings {
    struct qkv_buffer bytes;
    struct qkv_string *entries;
    size_t count, capacity;
    uint32_t *slots; /* entry + 1, or 0 */
    size_t slot_count;
};
uint64_t qkv_hash_bytes(const char *s, size_t n);
/* The entry of a string, added with value 0 if new; NULL: failed, the context has the message. Valid until the next
 * call. */
struct qkv_string *qkv_strings_add(struct qkv_context *ctx, struct qkv_strings *strings, const char *s, size_t n);
/* The entry of a string, or NULL if there is none. */
const struct qkv_string *qkv_strings_find(const struct qkv_strings *strings, const char *s, size_t n);
void qkv_strings_free(struct qkv_strings *strings);

/* ---- onig.c, onig_class.c ------------------------------------------------------------------------------------ */

/* Writes a pattern of Oniguruma (as Hugging Face tokenizers compiles it) for PCRE2 with UTF, UCP and MULTILINE.
 * Constructs that could match differently are refused by name (QKV_FORMAT). The caller frees *out, also after a
 * failure. */
struct qkv_onig {
    bool looks_back; /* a piece may depend on the text before it */
    bool atomic;     /* it has atomic groups */
};
enum qkv_status qkv_onig_translate(struct qkv_context *ctx, const char *source, struct qkv_buffer *out,
                                   struct qkv_onig *found);

/* ---- pattern.c ----------------------------------------------------------------------------------------------- */

struct qkv_pattern;
extern const char qkv_pattern_gpt2[], qkv_pattern_words[];
enum qkv_status qkv_pattern_create(struct qkv_context *ctx, const char *source, struct qkv_pattern **out);
void qkv_pattern_free(struct qkv_pattern *pattern);
const char *qkv_pattern_source(const struct qkv_pattern *pattern);
/* Whether a piece may depend on the text before it (anchors, lookbehind). */
bool qkv_pattern_looks_back(const struct qkv_pattern *pattern);
/* Whether the pattern surely cuts between a newline and anything but white space, wherever that is, and matches after
 * such a place do not depend on the text before it. */
bool qkv_pattern_is_local(const struct qkv_pattern *pattern);

/* Cuts a text into pieces: the matches of the pattern, and the gaps between them. A byte that is not UTF-8 is a piece
 * of its own. Without a pattern a text is one piece. `open`: more text may follow, so only pieces that cannot change
 * are returned. */
enum qkv_split { QKV_SPLIT_END, QKV_SPLIT_PIECE, QKV_SPLIT_FAILED };
struct qkv_splitter;
enum qkv_status qkv_splitter_create(struct qkv_context *ctx, const struct qkv_pattern *pattern,
                                    struct qkv_splitter **out);
void qkv_splitter_free(struct qkv_splitter *splitter);
void qkv_splitter_start(struct qkv_splitter *splitter, const char *text, size_t size, bool open);
enum qkv_split qkv_splitter_next(struct qkv_splitter *splitter, size_t *begin, size_t *end);
/* Whether the latest piece is a match of the pattern; else it is a gap. */
bool qkv_splitter_matched(const struct qkv_splitter *splitter);
enum qkv_status qkv_splitter_fail(struct qkv_context *ctx, const struct qkv_splitter *splitter);

/* ---- the tokenizer (tokenizer.c) ------------------------------------------------------------------------------ */

enum qkv_token_form {
    QKV_TOKEN_HOLE, /* no token has this id */
    QKV_TOKEN_TEXT, /* key: the bytes in the byte alphabet if byte-level, else the bytes themselves */
    QKV_TOKEN_BYTE, /* key: <0xNN> */
    QKV_TOKEN_WORD, /* key: the word; its bytes have a space before it */
    QKV_TOKEN_RAW   /* key: the bytes themselves (in a byte-level vocabulary: with characters that map to no byte) */
};
struct qkv_token {
    size_t offset, size; /* in text.data */
    enum qkv_token_form form;
    bool in_model; /* it is in model.vocab; an added token need not be */
    bool added;
};

struct qkv_merge { /* its rank is its index in the list */
    int32_t left, right, result;
};
struct qkv_merge_slot {
    int32_t left, right, rank, result; /* rank −1: free */
};
struct qkv_merges {
    struct qkv_merge *list;
    size_t count, capacity;
    int32_t *levels; /* the order of each merge, of which several may have the same; NULL: they are ordered by rank */
    struct qkv_merge_slot *slots;
    size_t slot_count;
};

struct qkv_template { /* the tokens around a sequence */
    int32_t *ids;     /* `before` ids, then `after` ids */
    size_t before, after;
    bool whole; /* a template was read completely */
    bool trims; /* spans leave white space out; trims_after_space: except a first space, which may have been added */
    bool trims_after_space;
    char *json; /* the post-processor as in its file; NULL: none */
};

struct qkv_tokenizer {
    int32_t unknown;  /* the token of what is outside the vocabulary; −1: there is none, or bytes spell it */
    bool whole_words; /* pieces are words, each one token, and white space is dropped */
    struct qkv_token *tokens;
    size_t count, capacity;
    struct qkv_buffer text; /* the bytes of all tokens, each zero-terminated */
    struct qkv_merges merges;
    struct qkv_template around;
    bool has_role[QKV_TOKEN_ROLES]; /* the configuration sets roles[…], maybe to −1: none */
    int32_t roles[QKV_TOKEN_ROLES];
    int32_t ends[QKV_TOKEN_ENDS]; /* tokens that end a text, besides that of the role */
    size_t end_count;
    struct qkv_chain *chain;       /* chain.h */
    struct qkv_chat_sources chats; /* the templates of the model's chats, which only files read */
    /* the languages of sources and of targets, as the folder names them; NULL: it does not */
    char *languages[2];
    bool short_keys[2];                    /* src_lang and tgt_lang named them; else source_lang and target_lang */
    _Atomic(struct qkv_token_trie *) trie; /* token_trie.h; NULL: nothing has asked for it */
};

/* Fails with QKV_ARGUMENT: a model has no tokenizer, and `file` is to be added to its folder. problem: why loading
 * found none, or NULL. doing: what begins the sentence, or NULL. instead: another way, such as ", or give token ids",
 * or "". (tokenizer_folder.c) */
enum qkv_status qkv_tokenizer_missing(struct qkv_context *ctx, const char *problem, const char *doing, const char *file,
                                      const char *instead);
/* Reads the roles, and more tokens that end a text, from a file of a folder (QKV_ROLES_FILE, QKV_SOURCE_ROLES_FILE), if
 * it exists; write_roles writes that file if any were set. (tokenizer_folder.c) */
enum qkv_status qkv_tokenizer_read_roles(struct qkv_context *ctx, struct qkv_tokenizer *t, const char *folder,
                                         const char *file);
enum qkv_status qkv_tokenizer_write_roles(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *folder,
                                          const char *file);
/* Writes the class of transformers that opens any tokenizer.json, and roles by the usual names of tokens. It is for
 * folders where write_roles writes no special tokens: without it transformers would take the family's class, which may
 * need tokens that are missing. */
enum qkv_status qkv_tokenizer_write_class(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *folder,
                                          const char *file);
/* Whether write_roles has something to write. */
bool qkv_tokenizer_has_roles(const struct qkv_tokenizer *t);
struct qkv_tokenizer *qkv_tokenizer_new(struct qkv_context *ctx);
/* Sets token `id`; an id after the last one leaves holes. Messages do not name a file. */
enum qkv_status qkv_tokenizer_set(struct qkv_context *ctx, struct qkv_tokenizer *t, size_t id, const char *bytes,
                                  size_t size, enum qkv_token_form form);
/* Makes a text a special token; the token may exist. */
enum qkv_status qkv_tokenizer_set_special(struct qkv_context *ctx, struct qkv_tokenizer *t, size_t id, const char *text,
                                          size_t size);
/* Fills the tables for encoding of a trained tokenizer. */
enum qkv_status qkv_tokenizer_finish(struct qkv_context *ctx, struct qkv_tokenizer *t);
/* Appends the key of a token in model.vocab. */
enum qkv_status qkv_tokenizer_key(struct qkv_context *ctx, const struct qkv_tokenizer *t, size_t id,
                                  struct qkv_buffer *out);
/* The bytes of a token, zero-terminated. */
static inline const char *qkv_token_bytes(const struct qkv_tokenizer *t, size_t id) {
    return t->text.data + t->tokens[id].offset;
}

/* ---- merge.c --------------------------------------------------------------------------------------------------- */

enum qkv_status qkv_merges_add(struct qkv_context *ctx, struct qkv_merges *merges, int32_t left, int32_t right,
                               int32_t result);
/* Makes the hash table. *twice: the rank of a merge that repeats an earlier one, or −1; NULL: the last of equal merges
 * counts. */
enum qkv_status qkv_merges_index(struct qkv_context *ctx, struct qkv_merges *merges, int32_t *twice);
void qkv_merges_free(struct qkv_merges *merges);

struct qkv_merger { /* memory that is reused for merging. Start with {0}. */
    struct qkv_merge_node *nodes;
    size_t node_capacity;
    struct qkv_merge_step *heap;
    size_t heap_count, heap_capacity;
    int32_t *seen; /* the last merge of each symbol that was possible, −1: none; NULL: not wanted */
};
/* Merges n symbols in place: first the merge of lowest rank (or level), of these the leftmost. *n: the symbols that are
 * left. `sizes` of the symbols are added up; NULL: not wanted. */
enum qkv_status qkv_merge(struct qkv_context *ctx, struct qkv_merger *merger, const struct qkv_merges *merges,
                          int32_t *symbols, uint32_t *sizes, size_t *n);
void qkv_merger_free(struct qkv_merger *merger);

/* ---- train_tokenizer.c ------------------------------------------------------------------------------------------- */

/* A tokenizer that is made from a text in pieces. Read all pieces in order, then end it. */
/* qkv_tokenizer_encode without a context: several threads encode with one tokenizer. A failure has no sentence. */
enum qkv_status qkv_tokenizer_encode_alone(const struct qkv_tokenizer *t, const char *text, size_t size, int32_t **ids,
                                           size_t *count);
/* The same of several texts of UTF-8, each by itself; they share what is remembered of their words, so short texts are
 * encoded faster. ends (count): ids up to the end of each. QKV_ARGUMENT: a text is not UTF-8, or too large. */
struct qkv_word;
enum qkv_status qkv_tokenizer_encode_many(const struct qkv_tokenizer *t, const struct qkv_word *texts, size_t count,
                                          int32_t **ids, size_t *ends);
struct qkv_learner;
/* The caller's specials in `options` must stay valid until the end. */
enum qkv_status qkv_learner_begin(struct qkv_context *ctx, const struct qkv_tokenizer_options *options,
                                  struct qkv_learner **out);
/* Sets who is called with the progress of learning merges, and may stop it; NULL: nobody. */
void qkv_learner_watch(struct qkv_learner *l, qkv_progress *progress, void *user);
/* Where a piece may end, as in qkv_tokenizer_cut. */
size_t qkv_learner_cut(const struct qkv_learner *l, const char *text, size_t size, bool end);
enum qkv_status qkv_learner_read(struct qkv_learner *l, const char *text, size_t size);
/* Returns the tokenizer that qkv_tokenizer_train makes of all pieces as one text. */
enum qkv_status qkv_learner_end(struct qkv_learner *l, struct qkv_tokenizer **out);
void qkv_learner_free(struct qkv_learner *l);

/* ---- bpe_train.c ------------------------------------------------------------------------------------------------ */

#define QKV_LEARNED_TOKEN_MAX ((size_t)1 << 16)
/* Adds merges and their tokens, learnt from distinct pieces (value: their count), until t has `vocab` tokens, or no
 * pair is left whose token has at most QKV_LEARNED_TOKEN_MAX bytes. At the start, t has the 256 bytes, id = byte, and
 * no other token. `progress` may be NULL; if it says stop, the call fails with QKV_STOPPED. */
enum qkv_status qkv_bpe_train(struct qkv_context *ctx, const struct qkv_strings *pieces, size_t vocab,
                              struct qkv_tokenizer *t, qkv_progress *progress, void *user);

/* ---- template.c -------------------------------------------------------------------------------------------------- */

/* Reads a post_processor into t->around; t must have its tokens. `name`: of the file, for messages. */
struct json_t;
enum qkv_status qkv_template_read(struct qkv_context *ctx, const char *name, const struct json_t *value,
                                  struct qkv_tokenizer *t);

/* Makes the template that places special tokens before and after a sequence; either may be NULL. t must have none
 * yet. */
enum qkv_status qkv_template_make(struct qkv_context *ctx, struct qkv_tokenizer *t, const char *before,
                                  const char *after);

/* ---- tokenizer_json.c, tokenizer_save.c ------------------------------------------------------------------------ */

enum qkv_status qkv_tokenizer_parse(struct qkv_context *ctx, const char *json, size_t size, const char *name,
                                    struct qkv_tokenizer **out);
/* The same from a tree. (tokenizer_file.c) */
enum qkv_status qkv_tokenizer_parse_tree(struct qkv_context *ctx, const struct json_t *root, const char *name,
                                         struct qkv_tokenizer **out);
/* Writes tokenizer.json to a buffer that this begins; the caller frees it, also after a failure. */
enum qkv_status qkv_tokenizer_print(struct qkv_context *ctx, const struct qkv_tokenizer *t, struct qkv_buffer *out);

/* The kind of the object `model`, "BPE"; old files do not name it, and their keys tell it. (chain_vocab.c) */
const char *qkv_vocab_model_name(const struct json_t *model);
/* Decodes base64 (RFC 4648) in place and returns the number of bytes; SIZE_MAX: it is not base64. (charsmap.c) */
size_t qkv_base64_decode(char *text);

/* ---- language_tokens.c ----------------------------------------------------------------------------------------- */

/* A language that a tokenizer has a token for. */
struct qkv_language {
    const char *code; /* `size` bytes of the token's text, fewer than QKV_LANGUAGE_TEXT */
    size_t size;
    int32_t id;
    const char *token; /* its text, as the tokenizer has it */
    size_t token_size;
    bool targets_only; /* the token is put before a source, and names the language of its target */
};
/* Whether a token is that of a language. (Added tokens are, special or not: files differ in that.) */
bool qkv_language_of(const struct qkv_tokenizer *t, int32_t id, struct qkv_language *out);
/* Gives the next language, from *at, which begins with 0; false: there are no more. t NULL: none. */
bool qkv_language_next(const struct qkv_tokenizer *t, size_t *at, struct qkv_language *out);
/* Whether a name is the code of a language, its token, or, with `part`, the code before "_". Upper and lower case are
 * the same, and so are - and _. `code` has `size` bytes. */
bool qkv_language_is(const char *name, const char *code, size_t size, bool part);
/* The keys of tokenizer_config.json that name the languages of sources and of targets: those of Marian, and those of
 * mBART, M2M100 and NLLB. */
extern const char *const qkv_language_keys[2][2];
/* Names the language of sources, or of targets, as that key does; a language that is named already stays, and one that
 * would be the model's own, "auto", is none. code NULL: none. */
enum qkv_status qkv_language_name(struct qkv_context *ctx, struct qkv_tokenizer *t, bool target, size_t key,
                                  const char *code);
/* Puts the language of sources that the folder names into the tokens around a sequence, where they have another one: as
 * the tokenizers of mBART and NLLB do when they are loaded. */
void qkv_language_take_source(struct qkv_tokenizer *t);

/* ---- tokenizer_folder.c ---------------------------------------------------------------------------------------- */

/* The files in which sentence-transformers has the settings of a model, older names too; ends with NULL. */

extern const char *const qkv_sentence_files[];

#endif
