#include "data/shards.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/file.h>
#include <sys/stat.h>

#include "data/data.h"
#include "data/rank_blocks.h"

#define BATCH_BYTES ((size_t)1 << 26) /* of text that is encoded at once; its last block may exceed it */
#define BLOCK_SAVED ((size_t)1 << 22) /* bytes of a block whose memory is used again */

/* ---- making ------------------------------------------------------------------------------------------------------ */

struct shard_maker {
    const struct qkv_shards_plan *plan;
    struct qkv_shards *shards;
    struct qkv_document_reader reader;
    struct qkv_document_block blocks[QKV_BLOCKS_MAX];
    size_t block_count;
    /* What other ranks encode: their blocks, without the text. */
    struct maker_share {
        struct qkv_document_block blocks[QKV_BLOCKS_MAX];
        size_t count;
    } * shares; /* (helpers) */
    int helpers;
    /* The shard that is written. */
    struct qkv_shard now;
    struct qkv_text_facts facts;
    struct qkv_tokens_writer writer;
    char *path;
    double before, total; /* bytes of files before the open one; of all */
    /* For notes: the plain file that is read, what was found in all, and tokens that are unknown. */
    struct qkv_text_check check;
    struct qkv_text_findings findings;
    uint64_t unknown;
};

static struct qkv_text_facts shard_facts(const struct qkv_shards_plan *p, const struct qkv_shard *shard) {
    return (struct qkv_text_facts){.bytes = shard->bytes,
                                   .hash = shard->hash,
                                   .tokens = shard->tokens,
                                   .tokenizer = p->facts->tokenizer,
                                   .vocab = p->facts->vocab};
}

static enum qkv_status shard_begin(struct shard_maker *m, uint64_t source) {
    m->now = (struct qkv_shard){.source = source, .hash = QKV_HASH_START};
    m->facts = shard_facts(m->plan, &m->now);
    m->path = qkv_shards_path(m->plan, m->shards->count);
    return m->path ? qkv_tokens_begin(m->plan->ctx, m->path, &m->facts, &m->writer) : QKV_MEMORY;
}

/* Completes the shard and adds it to the index; a failure takes it back. */
static enum qkv_status shard_end(struct shard_maker *m, enum qkv_status status) {
    struct qkv_shards *s = m->shards;
    if (!m->path) return status;
    m->facts.bytes = m->now.bytes;
    m->facts.hash = m->now.hash;
    status = qkv_tokens_end(&m->writer, status);
    free(m->path);
    m->path = NULL;
    if (status) return status;
    struct qkv_shard *grown = qkv_list_room(s->ctx, s->items, &s->capacity, s->count, 1, sizeof *grown);
    if (!grown) return QKV_MEMORY;
    s->items = grown;
    s->items[s->count++] = m->now;
    return qkv_shards_write(m->plan, s);
}

/* Looks at the text of a plain file from its beginning on; not at one that is gone on with in its middle. */
static void maker_look(struct shard_maker *m, const struct qkv_document_block *b) {
    if (b->first) m->check = (struct qkv_text_check){0};
    if (!b->first && !m->check.bytes) return;
    qkv_text_check_piece(&m->check, b->text, b->size, b->last, false);
    if (!b->last) return;
    qkv_text_check_end(&m->findings, &m->check, b->path);
    m->check = (struct qkv_text_check){0};
}

static enum qkv_status maker_note(const struct shard_maker *m) {
    const struct qkv_shards_plan *p = m->plan;
    enum qkv_status status = qkv_text_findings_note(p->ctx, &m->findings, p->notes);
    for (size_t k = 0; k < QKV_TEXT_FINDINGS; k++)
        if (m->findings.kind[k].check.invalid) return status; /* that note says what they are */
    return status ? status : qkv_tokens_note_unknown(p->ctx, m->unknown, p->files, p->notes);
}

static enum qkv_status shard_put(struct shard_maker *m, const struct qkv_document_block *b) {
    struct qkv_text_file *file = &m->plan->files->items[b->place.file];
    const size_t count = b->ids.size / sizeof(int32_t);
    enum qkv_status status = QKV_OK;
    m->reader.bad.lines += b->bad_lines;
    m->unknown += qkv_tokens_unknown(m->plan->tokenizer, (const int32_t *)(const void *)b->ids.data, count);
    if (m->path && m->now.source != file->source) status = shard_end(m, status);
    if (!status && !m->path && count) status = shard_begin(m, file->source);
    if (!status && count) status = qkv_tokens_put(&m->writer, (const int32_t *)(const void *)b->ids.data, count);
    if (status || !m->path) return status;
    m->now.hash = qkv_hash(m->now.hash, b->ids.data, b->ids.size);
    if (b->end) m->now.end = m->now.tokens + b->end;
    m->now.tokens += count;
    m->now.documents += b->documents;
    m->now.bytes += b->size;
    m->now.place = b->place;
    m->now.bad = m->reader.bad;
    m->now.bad.files = b->bad_files;
    file->tokens += count;
    m->now.file_tokens = file->tokens;
    return m->now.tokens >= m->plan->shard_tokens ? shard_end(m, QKV_OK) : QKV_OK;
}

/* Blocks for all threads, in memory that does not grow with their number of lines. */
static enum qkv_status maker_read(struct shard_maker *m, bool *end) {
    const int threads = m->plan->ctx->threads;
    const size_t most = qkv_min((size_t)(threads > 0 ? threads : 1) * 2, QKV_BLOCKS_MAX);
    enum qkv_status status = QKV_OK;
    m->block_count = 0;
    for (size_t bytes = 0; !status && !*end && m->block_count < most && bytes < BATCH_BYTES;) {
        struct qkv_document_block *b = &m->blocks[m->block_count];
        const uint64_t file = m->reader.place.file;
        status = qkv_documents_next(&m->reader, b, end);
        for (uint64_t i = file; i < m->reader.place.file; i++) m->before += (double)m->plan->files->items[i].bytes;
        if (status || *end) break;
        if (!b->json) maker_look(m, b);
        bytes += b->size;
        m->block_count++;
    }
    return status;
}

/* Sends the blocks that were read to a rank. */
static enum qkv_status maker_send(struct shard_maker *m, int to) {
    struct maker_share *share = &m->shares[to - 1];
    const enum qkv_status status = qkv_rank_send_blocks(m->plan->ctx, to, m->blocks, m->block_count);
    share->count = m->block_count;
    for (size_t i = 0; i < share->count; i++) {
        share->blocks[i] = m->blocks[i];
        share->blocks[i].text = NULL;
        share->blocks[i].capacity = 0;
        share->blocks[i].ids = (struct qkv_buffer){0};
    }
    return status;
}

static enum qkv_status maker_put(struct shard_maker *m, struct qkv_document_block *blocks, size_t count) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < count && !status; i++) {
        status = shard_put(m, &blocks[i]);
        if (blocks[i].capacity > BLOCK_SAVED) qkv_document_block_free(&blocks[i]);
    }
    return status;
}

/* Takes what other ranks have made of the blocks before those of this one; each of them has to be heard. `own`: how
 * this rank fared; the first failure in the order of the files is the one. */
static enum qkv_status maker_collect(struct shard_maker *m, int asked, enum qkv_status own) {
    struct qkv_context *ctx = m->plan->ctx;
    char message[sizeof ctx->message];
    enum qkv_status status = QKV_OK, failure;
    memcpy(message, ctx->message, sizeof message);
    for (int r = 1; r <= asked; r++) {
        struct maker_share *share = &m->shares[r - 1];
        const enum qkv_status lost =
            qkv_rank_take_blocks(&m->reader, r, share->blocks, share->count, !status, &failure);
        if (lost == QKV_RANK) return lost;
        if (!status) status = lost ? lost : failure ? failure : maker_put(m, share->blocks, share->count);
        /* The memory does not grow with the number of ranks. */
        for (size_t i = 0; i < share->count; i++) qkv_buffer_free(&share->blocks[i].ids);
    }
    if (!status && own) memcpy(ctx->message, message, sizeof message);
    return status ? status : own;
}

/* Encodes the blocks of this rank, which come behind those of the others: a bad line of theirs is the first. */
static enum qkv_status maker_encode(struct shard_maker *m, int asked) {
    char *first = m->reader.bad.first_line, own[sizeof m->reader.bad.first_line], before[sizeof own];
    memcpy(before, first, sizeof before);
    enum qkv_status status = qkv_documents_encode(&m->reader, m->blocks, m->block_count);
    memcpy(own, first, sizeof own);
    memcpy(first, before, sizeof before);
    status = maker_collect(m, asked, status);
    if (!*first) memcpy(first, own, sizeof own);
    return status;
}

/* Says how far the reader is, also to ranks that wait. */
static enum qkv_status maker_tell(const struct shard_maker *m) {
    const struct qkv_shards_plan *p = m->plan;
    const double at = m->reader.open ? (double)m->reader.records.bytes.file_at : 0;
    return qkv_train_progress(p->ctx, p->progress, p->user, "tokenizing", m->before + at, m->total);
}

/* Blocks for each rank. What was read before a failure is encoded first: its own failure comes before. */
static enum qkv_status maker_once(struct shard_maker *m, bool *end) {
    const struct qkv_shards_plan *p = m->plan;
    char message[sizeof p->ctx->message];
    int asked = 0;
    enum qkv_status status = maker_tell(m);
    if (status) return status;
    enum qkv_status reading = maker_read(m, end);
    while (!reading && !*end && asked < m->helpers) {
        status = maker_send(m, ++asked);
        if (status) return status;
        status = maker_tell(m);
        if (status) return maker_collect(m, asked, status); /* each rank that was asked is heard */
        reading = maker_read(m, end);
    }
    memcpy(message, p->ctx->message, sizeof message);
    status = maker_encode(m, asked);
    if (!status) status = maker_put(m, m->blocks, m->block_count);
    if (!status && reading) memcpy(p->ctx->message, message, sizeof message);
    return status ? status : reading;
}

static void maker_free(struct shard_maker *m) {
    qkv_documents_close(&m->reader);
    for (size_t i = 0; i < QKV_BLOCKS_MAX; i++) {
        qkv_document_block_free(&m->blocks[i]);
        for (int r = 0; r < m->helpers && m->shares; r++) qkv_document_block_free(&m->shares[r].blocks[i]);
    }
    free(m->shares);
    free(m);
}

/* Goes on behind the shards that there are. */
static void maker_go(struct shard_maker *m) {
    const struct qkv_shards *s = m->shards;
    const struct qkv_shard *last = s->count ? &s->items[s->count - 1] : &(struct qkv_shard){0};
    struct qkv_text_files *files = m->plan->files;
    qkv_documents_go(&m->reader, &last->place);
    m->reader.bad = last->bad;
    for (uint64_t i = last->place.file; i < files->count; i++) {
        files->items[i].tokens = i == last->place.file ? last->file_tokens : 0;
        files->items[i].hash = 0;
    }
    for (uint64_t i = 0; i < last->place.file && i < files->count; i++) m->before += (double)files->items[i].bytes;
}

static enum qkv_status shards_make(const struct qkv_shards_plan *p, struct qkv_shards *s) {
    struct shard_maker *m = qkv_allocate(p->ctx, 1, sizeof *m);
    bool end = false;
    if (!m) return QKV_MEMORY;
    m->plan = p;
    m->shards = s;
    m->total = (double)qkv_text_files_size(p->files);
    m->reader = (struct qkv_document_reader){.ctx = p->ctx,
                                             .files = p->files,
                                             .key = p->key,
                                             .skip_bad = p->skip_bad,
                                             .tokenizer = p->tokenizer,
                                             .progress = p->progress,
                                             .user = p->user};
    m->helpers = qkv_rank_helpers(p->ctx);
    m->shares = qkv_allocate(p->ctx, (size_t)m->helpers + 1, sizeof *m->shares);
    maker_go(m);
    enum qkv_status status = m->shares ? qkv_rank_tell_documents(&m->reader) : QKV_MEMORY;
    while (!status && !end) status = maker_once(m, &end);
    status = shard_end(m, status);
    if (!status && s->count) {
        s->items[s->count - 1].bad = m->reader.bad;
        s->complete = true;
        status = qkv_shards_write(p, s);
    }
    if (!status && p->notes && !p->facts->bytes) status = maker_note(m); /* of a new run */
    maker_free(m);
    return status;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static void shards_drop(struct qkv_shards *s) {
    for (size_t i = 0; i < s->count && s->tokens; i++) qkv_tokens_close(&s->tokens[i]);
    for (size_t i = 0; i < s->count && s->paths; i++) free(s->paths[i]);
    free(s->tokens);
    free(s->paths);
    s->tokens = NULL;
    s->paths = NULL;
}

void qkv_shards_close(struct qkv_shards *s) {
    shards_drop(s);
    free(s->items);
    *s = (struct qkv_shards){0};
}

/* Opens all shards; *opened: how many could be. */
static enum qkv_status shards_take(const struct qkv_shards_plan *p, struct qkv_shards *s, size_t *opened) {
    enum qkv_status status = QKV_OK;
    *opened = 0;
    s->tokens = qkv_allocate(p->ctx, s->count + 1, sizeof *s->tokens);
    s->paths = qkv_allocate(p->ctx, s->count + 1, sizeof *s->paths);
    if (!s->tokens || !s->paths) return QKV_MEMORY;
    for (size_t i = 0; i < s->count && !status; i++) {
        const struct qkv_text_facts facts = shard_facts(p, &s->items[i]);
        s->paths[i] = qkv_shards_path(p, i);
        status = s->paths[i] ? qkv_tokens_open(p->ctx, s->paths[i], &facts, &s->tokens[i]) : QKV_MEMORY;
        *opened += !status;
    }
    return status;
}

/* Sizes and times of change, of a run that goes on only the latter. */
static enum qkv_status shards_look(const struct qkv_shards_plan *p, bool known) {
    struct stat info;
    for (size_t i = 0; i < p->files->count; i++) {
        struct qkv_text_file *file = &p->files->items[i];
        const bool there = stat(file->path, &info) == 0;
        if (!there && !known) return qkv_fail_file(p->ctx, "read", file->path, errno);
        if (!there) continue;
        if (!known) file->bytes = (uint64_t)info.st_size;
        file->changed = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
    }
    return QKV_OK;
}

/* The first file that is missing or has another size than `then`, or, of files that were `read`, other bytes; their
 * count: none. */
static size_t shards_changed(const struct qkv_shards_plan *p, const struct qkv_text_files *then, bool read) {
    struct stat info;
    size_t i = 0;
    while (i < then->count && stat(then->items[i].path, &info) == 0 && (uint64_t)info.st_size == then->items[i].bytes &&
           (!read || then->items[i].hash == p->files->items[i].hash))
        i++;
    return i;
}

/* Whether the shards are those that a run began with. A failure keeps its sentence unless a file has changed. */
static enum qkv_status shards_compare(const struct qkv_shards_plan *p, const struct qkv_text_files *then,
                                      const struct qkv_text_facts *facts, enum qkv_status status) {
    if (status == QKV_MEMORY || status == QKV_STOPPED) return status;
    if (!status && facts->hash == p->facts->hash && facts->tokens == p->facts->tokens) return QKV_OK;
    const size_t i = shards_changed(p, then, !status);
    if (i < then->count)
        return qkv_fail(
            p->ctx, QKV_FORMAT,
            "tokens are missing in %s, and %s has changed since the run began (it had %llu bytes); restore one of "
            "them, or start a new run in another folder",
            p->folder, then->items[i].path, (unsigned long long)then->items[i].bytes);
    if (status) return status;
    return qkv_fail(p->ctx, QKV_FORMAT,
                    "the tokens of %s in %s are not those that the run began with; start a new run in another folder",
                    then->items[0].path, p->folder);
}

static enum qkv_status shards_note(const struct qkv_shards_plan *p, const struct qkv_shards *s) {
    const struct qkv_document_bad *bad = &s->items[s->count - 1].bad;
    if (!p->notes || (!bad->lines && !bad->files)) return QKV_OK;
    enum qkv_status status = QKV_OK;
    if (bad->lines)
        status = qkv_texts_add(p->ctx, p->notes, "skip_bad: %llu line%s left out, the first one because %s",
                               (unsigned long long)bad->lines, bad->lines == 1 ? " is" : "s are", bad->first_line);
    if (!status && bad->files)
        status = qkv_texts_add(p->ctx, p->notes, "skip_bad: %llu file%s left out, the first one because %s",
                               (unsigned long long)bad->files, bad->files == 1 ? " is" : "s are", bad->first_file);
    return status;
}

/* Whether shards are those that a run began with. */
static bool shards_agree(const struct qkv_shards_plan *p, const struct qkv_shards *s) {
    struct qkv_text_facts facts = *p->facts;
    qkv_shards_sum(p, s, &facts);
    return facts.hash == p->facts->hash && facts.tokens == p->facts->tokens;
}

/* Makes the shards behind the first that cannot be opened. `known`: a run began with them. If it gets other ones, the
 * index is removed: nothing goes on with them. */
static enum qkv_status shards_complete(const struct qkv_shards_plan *p, bool known, struct qkv_shards *s) {
    size_t opened;
    enum qkv_status status = shards_take(p, s, &opened);
    if (status == QKV_MEMORY || (!status && s->complete)) return status;
    if (status && p->notes && opened < s->count)
        if (qkv_texts_add(p->ctx, p->notes, "%s; it is made again", qkv_message(p->ctx))) return QKV_MEMORY;
    qkv_forgive(p->ctx);
    shards_drop(s);
    if (opened && opened < s->count) { /* the sentences are in the last shard alone */
        const struct qkv_document_bad *last = &s->items[s->count - 1].bad;
        struct qkv_document_bad *bad = &s->items[opened - 1].bad;
        if (bad->lines) memcpy(bad->first_line, last->first_line, sizeof bad->first_line);
        if (bad->files) memcpy(bad->first_file, last->first_file, sizeof bad->first_file);
    }
    s->count = opened;
    s->complete = false;
    status = shards_make(p, s);
    if (!status && !s->count) {
        char name[QKV_FILES_NAME];
        status = qkv_fail(p->ctx, QKV_FORMAT, "there is no document in %s; give a text",
                          qkv_text_files_name(p->files, name));
    }
    if (!status && known && !shards_agree(p, s)) qkv_shards_forget(p);
    return status ? status : shards_take(p, s, &opened);
}

/* Opens and locks the file at a path; waits for another process that has locked it. The one that had it removes it:
 * then there is another one to lock. Without locks in the file system each goes on by itself. */
static enum qkv_status shards_lock(const struct qkv_shards_plan *p, const char *path, int *lock) {
    enum qkv_status status = QKV_OK;
    for (;;) {
        struct stat info;
        bool locked;
        *lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
        if (*lock < 0) return qkv_fail_file(p->ctx, "write", path, errno);
        while (!(locked = flock(*lock, LOCK_EX | LOCK_NB) == 0) && (errno == EWOULDBLOCK || errno == EINTR)) {
            status = qkv_train_progress(p->ctx, p->progress, p->user, "waiting for tokens of another run", 0, 1);
            if (status) break;
            nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
        }
        if (!status && (!locked || (fstat(*lock, &info) == 0 && info.st_nlink > 0))) return QKV_OK;
        close(*lock);
        if (status) return status;
    }
}

/* Makes what is missing. Of several processes one makes it, and the others use it. */
static enum qkv_status shards_alone(const struct qkv_shards_plan *p, bool known, struct qkv_shards *s) {
    int lock = -1;
    char *path = NULL;
    enum qkv_status status = qkv_make_folder(p->ctx, p->folder);
    if (!status) path = qkv_shards_lock(p);
    if (!status) status = path ? shards_lock(p, path, &lock) : QKV_MEMORY;
    if (!status) {
        s->count = 0;
        s->complete = false;
        status = qkv_shards_read(p, known, s);
        if (!status) status = shards_complete(p, known, s);
        unlink(path);
        close(lock);
    }
    free(path);
    return status;
}

enum qkv_status qkv_shards_open(const struct qkv_shards_plan *p, struct qkv_shards *s) {
    const bool known = p->facts->bytes != 0;
    struct qkv_text_files then = {0};
    struct qkv_text_facts facts = *p->facts;
    *s = (struct qkv_shards){.ctx = p->ctx};
    enum qkv_status status = shards_look(p, known);
    if (!status && known) status = qkv_text_files_copy(p->ctx, p->files, &then);
    if (!status) status = qkv_shards_read(p, known, s);
    size_t opened = 0;
    if (!status && s->complete) status = shards_take(p, s, &opened);
    if (status != QKV_MEMORY && s->complete && opened < s->count) {
        qkv_forgive(p->ctx);
        shards_drop(s);
        s->complete = false;
        status = QKV_OK;
    }
    if (!status && !s->complete) status = shards_alone(p, known, s);
    if (!status) qkv_shards_sum(p, s, &facts);
    if (known) status = shards_compare(p, &then, &facts, status);
    if (!status) *p->facts = facts;
    if (!status && !known) status = shards_note(p, s);
    qkv_text_files_free(&then);
    if (status) qkv_shards_close(s);
    return status;
}
