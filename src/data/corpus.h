/* corpus: texts read piece by piece, what is known of them, and their tokens on disk. */
#ifndef QKV_DATA_CORPUS_H
#define QKV_DATA_CORPUS_H

#include "base/base.h"

/* ---- texts as tokens (corpus.c, tokens.c) ----------------------------------------------------------------------- */

/* A text being read and encoded piece by piece, so that neither it nor its tokens need memory of its size. */
struct qkv_text_stream {
    struct qkv_context *ctx;
    const struct qkv_tokenizer *tokenizer;
    const char *path;
    struct qkv_file file;
    const struct qkv_map *whole; /* all bytes of the file, where an earlier reading kept them; NULL: they are read */
    char *text;                  /* bytes of the file from `position` on: `held` of them */
    size_t held, capacity;
    size_t piece;                 /* bytes that are encoded at a time, about */
    size_t position;              /* bytes encoded, or taken, so far */
    uint64_t hash;                /* of them */
    size_t before, after;         /* first and last ids of the piece given last that the tokenizer's template placed */
    size_t spare;                 /* bytes of pieces without tokens: the next token stands for them too */
    bool binary;                  /* NUL bytes are fine */
    struct qkv_text_check *check; /* sees what is encoded; NULL: nobody does */
};
/* Opens a text and refuses one that is empty or looks binary: that holds a NUL byte, unless the tokenizer is one of
 * bare bytes (or NULL is given, when none is known yet and only the first part of the file is looked at). */
enum qkv_status qkv_text_open(struct qkv_context *ctx, const char *path, const struct qkv_tokenizer *tokenizer,
                              struct qkv_text_stream *stream);
/* The same of a file whose bytes may have been kept. */
struct qkv_text_file;
enum qkv_status qkv_text_open_file(struct qkv_context *ctx, const struct qkv_text_file *file,
                                   const struct qkv_tokenizer *tokenizer, struct qkv_text_stream *stream);
void qkv_text_close(struct qkv_text_stream *stream);
/* Tokens, and the bytes of the text that each stands for: from the end of the token before it to its own end. So the
 * bytes of all tokens are those of the text, also where a tokenizer does not spell it (unknown tokens, lower case,
 * white space that is dropped); a token that the template placed has none. */
struct qkv_text_tokens {
    int32_t *ids;
    size_t *bytes, count;
};
void qkv_text_tokens_free(struct qkv_text_tokens *tokens);
/* The tokens of the next piece, the caller's also after a failure; count 0 where it has none. A text is one sequence:
 * what the tokenizer's template places around one comes before its first piece and after its last. */
enum qkv_status qkv_text_next(struct qkv_text_stream *stream, struct qkv_text_tokens *tokens);
/* A piece of a text or of a file of lines, the first or the last of it perhaps. */
struct qkv_text_piece {
    const char *text;
    size_t size;
    size_t line; /* of lines: how many there are before it */
    bool first, last;
};
/* The tokens of one text, without the template; the caller's also after a failure. */
enum qkv_status qkv_text_tokens_of(struct qkv_context *ctx, const struct qkv_tokenizer *tokenizer,
                                   const struct qkv_text_piece *piece, struct qkv_text_tokens *tokens);
/* The bytes of text that one token stands for by itself: 0 of a special token; else its size in a decoded text. */
size_t qkv_text_token_bytes(const struct qkv_tokenizer *tokenizer, int32_t id);
/* The next one, at stream->text, which qkv_text_take goes over: it ends where a cut changes no id, and its bytes
 * have been checked. size 0 at the end of the text. */
enum qkv_status qkv_text_cut(struct qkv_text_stream *stream, struct qkv_text_piece *piece);
/* Its ids, without the template; they are all that the buffer then holds. A failure names `path`. */
enum qkv_status qkv_text_encode(struct qkv_context *ctx, const struct qkv_tokenizer *tokenizer, const char *path,
                                const struct qkv_text_piece *piece, struct qkv_buffer *ids);
/* Places the template around the ids of a piece, where that is due. */
enum qkv_status qkv_text_frame(struct qkv_text_stream *stream, const struct qkv_text_piece *piece, int32_t **ids,
                               size_t *count);
/* Has at least `bytes` bytes in stream->text, or all that are left, which sets *end. */
enum qkv_status qkv_text_hold(struct qkv_text_stream *stream, size_t bytes, bool *end);
/* Goes over the first `bytes` of those held. */
void qkv_text_take(struct qkv_text_stream *stream, size_t bytes);

/* How many ids are the token of what is unknown. */
uint64_t qkv_tokens_unknown(const struct qkv_tokenizer *tokenizer, const int32_t *ids, size_t count);

/* The hash of a whole file. */
enum qkv_status qkv_hash_file(struct qkv_context *ctx, const char *path, uint64_t *hash);

/* ---- what a text looks like besides (text_check.c) -------------------------------------------------------------- */

/* Of one file, piece by piece. */
struct qkv_text_check {
    uint64_t bytes, lines, crlf; /* seen; line ends; those that are CR LF */
    /* Bytes with the high bit; those that belong to no character of UTF-8, where the first stands, and how many of
     * them are controls in Latin-1 and unknown to Windows-1252. */
    uint64_t high, invalid, first_invalid, controls, unknown;
    size_t json_lines; /* of the first ones, when all of these are JSON objects */
    char json_key[32];
    bool mark, after_return; /* a byte order mark; the latest byte was a CR */
};
/* The next piece, which ends between characters unless `binary`; `end`: it is the last one. */
void qkv_text_check_piece(struct qkv_text_check *check, const char *text, size_t size, bool end, bool binary);
/* Of all files of a text: for each kind the first file that it was found in. */
enum { QKV_TEXT_FINDINGS = 4 };
struct qkv_text_finding {
    const char *path; /* the caller's; NULL: not found */
    struct qkv_text_check check;
    size_t others;
};
struct qkv_text_findings {
    struct qkv_text_finding kind[QKV_TEXT_FINDINGS];
};
void qkv_text_check_end(struct qkv_text_findings *findings, const struct qkv_text_check *check, const char *path);
/* A note for each kind that was found, with what helps. */
enum qkv_status qkv_text_findings_note(struct qkv_context *ctx, const struct qkv_text_findings *findings,
                                       struct qkv_texts *notes);

/* ---- tokens on disk (tokens.c) ---------------------------------------------------------------------------------- */

/* What a text and its tokens are known by. bytes 0: there is no such text. */
struct qkv_text_facts {
    uint64_t bytes, hash; /* of the text */
    uint64_t tokens;
    uint64_t tokenizer; /* hash of tokenizer.json */
    uint64_t vocab;
};
/* The files that it consists of (text_files.c). */
struct qkv_text_file {
    char *path; /* absolute */
    uint64_t bytes, hash;
    uint64_t tokens; /* with the end token behind it */
    uint64_t lines;  /* examples of a file of lines; 0 of a text */
    /* of a file of lines: those that had more tokens than the context, which are no examples where they are skipped */
    uint64_t long_lines;
    uint64_t held_out; /* lines, of a text tokens, at its end that are kept for validation */
    uint32_t source;   /* of a mixture: which of its sources has the file */
    int64_t changed;   /* of a mixture: nanoseconds since 1970 */
    /* All its bytes from the first reading to the one that encodes them, so that a new run reads a text once; {0}:
     * they are read again. */
    struct qkv_map kept;
};
struct qkv_text_files {
    struct qkv_text_file *items;
    size_t count, capacity;
};
/* Adds the files that the names of an option (its QKV_FILES_MAX, up to the first NULL) stand for. */
enum qkv_status qkv_text_files_list(struct qkv_context *ctx, const char *const *names, struct qkv_text_files *files,
                                    struct qkv_texts *notes);
/* QKV_ARGUMENT if the name of a file says that it is no plain text. */
enum qkv_status qkv_text_files_plain(struct qkv_context *ctx, const struct qkv_text_files *files);
enum qkv_status qkv_text_files_add(struct qkv_context *ctx, struct qkv_text_files *files,
                                   const struct qkv_text_file *file);
enum qkv_status qkv_text_files_copy(struct qkv_context *ctx, const struct qkv_text_files *files,
                                    struct qkv_text_files *copy);
void qkv_text_files_free(struct qkv_text_files *files);
/* The hash of all bytes of a file, which are read in small parts. */
enum qkv_status qkv_text_file_hash(struct qkv_context *ctx, const char *path, uint64_t *hash, qkv_progress *progress,
                                   void *user);
/* Whether all of them may be kept from one reading to the next: at most a quarter GiB, and an eighth of the memory
 * that is left. Packed files may not: how large their texts are is not known. */
bool qkv_text_files_fit(struct qkv_context *ctx, const struct qkv_text_files *files);
/* Lets go of what was kept. */
void qkv_text_files_drop(struct qkv_text_files *files);
/* The sum of their sizes as they are now; files that are not there count nothing. */
uint64_t qkv_text_files_size(const struct qkv_text_files *files);
/* "a.txt", "a.txt and 2 more files", for messages; returns `name`. */
#define QKV_FILES_NAME 560
const char *qkv_text_files_name(const struct qkv_text_files *files, char name[QKV_FILES_NAME]);
/* A note where tokens of these files are unknown. `notes` NULL: nobody reads it. */
enum qkv_status qkv_tokens_note_unknown(struct qkv_context *ctx, uint64_t count, const struct qkv_text_files *files,
                                        struct qkv_texts *notes);
/* Bytes and hash of all of them; of one file they are its own. */
void qkv_text_files_sum(const struct qkv_text_files *files, struct qkv_text_facts *facts);
/* Says of each file how much of it lies in the last `kept` tokens, or lines where it has some. */
void qkv_text_files_hold_out(struct qkv_text_files *files, uint64_t kept);
/* Whether a token file that was missing and made again has the text that the run began with; otherwise it is removed,
 * and the sentence names the file that has changed (text_files.c). */
struct qkv_same_text {
    const struct qkv_text_files *files, *now_files;
    const struct qkv_text_facts *facts, *now_facts;
};
enum qkv_status qkv_same_text(struct qkv_context *ctx, const char *path, const struct qkv_same_text *text);
/* The id of the token that stands between two texts: <|endoftext|>, else </s>, else -1; -1 too where the tokenizer's
 * template ends each text. */
int32_t qkv_text_end(const struct qkv_tokenizer *tokenizer);

/* Writes a token file piece by piece, atomically. `facts` comes with tokenizer and vocab (and, at the end, bytes and
 * hash) set; tokens are counted. */
struct qkv_tokens_writer {
    struct qkv_replace replace;
    struct qkv_text_facts *facts;
};
enum qkv_status qkv_tokens_begin(struct qkv_context *ctx, const char *path, struct qkv_text_facts *facts,
                                 struct qkv_tokens_writer *writer);
enum qkv_status qkv_tokens_put(struct qkv_tokens_writer *writer, const int32_t *ids, size_t count);
/* Finishes the file when `status` is fine, else takes it back; the first failure of both. Harmless on {0}. */
enum qkv_status qkv_tokens_end(struct qkv_tokens_writer *writer, enum qkv_status status);
struct qkv_tokens_join;
struct qkv_tokens { /* an open token file, or a part of it */
    struct qkv_file file;
    /* Of several files one after the other, in place of `file`; the owner's. */
    const struct qkv_tokens_join *join;
    struct qkv_map all;         /* once loaded: all bytes of the file */
    size_t start, count, width; /* the first token in the file, tokens, bytes a token */
    int32_t vocab;
    const char *path; /* for messages; the caller's */
};
/* Parts of token files, one after the other. */
struct qkv_tokens_join {
    const struct qkv_tokens *parts;
    const uint64_t *before; /* (count + 1): tokens of the parts before */
    size_t count;
};
/* Encodes files into a token file at `path`, atomically, an end token between two of them where there is one.
 * `facts` comes with tokenizer and vocab set and gets the rest, as the files do; `notes` gets what they look like
 * (NULL: nobody asks). On rank 0 of several the others encode with it (rank_files.c). */
enum qkv_status qkv_tokens_write(struct qkv_context *ctx, const char *path, struct qkv_text_files *files,
                                 const struct qkv_tokenizer *tokenizer, struct qkv_text_facts *facts,
                                 struct qkv_texts *notes, qkv_progress *progress, void *user);
/* Opens a token file; everything in its header must be as `facts` says. */
enum qkv_status qkv_tokens_open(struct qkv_context *ctx, const char *path, const struct qkv_text_facts *facts,
                                struct qkv_tokens *tokens);
void qkv_tokens_close(struct qkv_tokens *tokens);
/* A part of open tokens, which own the file. */
struct qkv_tokens qkv_tokens_part(const struct qkv_tokens *whole, size_t begin, size_t count);
/* Copies `count` tokens from the `start`-th on. Fails on one outside the vocabulary, and when the file has become
 * shorter. */
enum qkv_status qkv_tokens_read(const struct qkv_tokens *tokens, size_t start, size_t count, int32_t *ids);
/* Bytes of memory that all tokens take. */
size_t qkv_tokens_bytes(const struct qkv_tokens *tokens);
/* Reads all tokens into memory, for qkv_tokens_at. */
enum qkv_status qkv_tokens_load(struct qkv_tokens *tokens);
/* The i-th token of a loaded file, −1 for what is outside the vocabulary. */
int32_t qkv_tokens_at(const struct qkv_tokens *tokens, size_t i);
enum qkv_status qkv_tokens_outside(struct qkv_context *ctx, const struct qkv_tokens *tokens, size_t i);
/* ids[t] = token start + t, for t < T; targets[t] = token start + t + 1. Fails on a token outside the vocabulary. */
enum qkv_status qkv_tokens_window(struct qkv_context *ctx, const struct qkv_tokens *tokens, size_t start, size_t T,
                                  int32_t *ids, int32_t *targets);

#endif
