#include "data/unpack_file.h"

#include <stdlib.h>
#include <string.h>

#include "data/data.h"

#ifdef QKV_ZLIB
#include <zlib.h>
#endif
#ifdef QKV_ZSTD
#include <zstd.h>
#endif

#define PACKED      ((size_t)1 << 17) /* bytes of a packed file that are read at a time */
#define BOMB_BYTES  ((uint64_t)1 << 30)
#define BOMB_FACTOR 1000
#define WINDOW_LOG  27 /* of Zstandard: 128 MiB, what its own tool unpacks without being asked */

/* A part of the packed bytes and the room for what they become; `unpack` of a row consumes and fills some of both. */
struct packing_step {
    const unsigned char *in;
    unsigned char *out;
    size_t in_size, out_room;
};
enum packing_result {
    PACKING_MORE,
    PACKING_END,   /* of a gzip member or a Zstandard frame; another one may follow */
    PACKING_WRONG, /* and the others behind it: the data cannot be read on */
    PACKING_WINDOW,
    PACKING_MEMORY,
    PACKING_CUT,
    PACKING_BOMB
};
struct qkv_packing {
    const char *ending, *name;
    const char *library; /* that this build lacks; NULL: none */
    void *(*begin)(void);
    enum packing_result (*step)(void *state, struct packing_step *step);
    void (*end)(void *state);
};

/* ---- gzip -------------------------------------------------------------------------------------------------------- */

#ifdef QKV_ZLIB
enum { GZIP_ONLY = 16 }; /* zlib: the data has a header of gzip */

static void *gzip_begin(void) {
    z_stream *z = calloc(1, sizeof *z);
    if (!z || inflateInit2(z, MAX_WBITS + GZIP_ONLY) == Z_OK) return z;
    free(z);
    return NULL;
}

static enum packing_result gzip_step(void *state, struct packing_step *step) {
    z_stream *z = state;
    const uInt in = (uInt)step->in_size,
               out = (uInt)(step->out_room < UINT32_MAX / 2 ? step->out_room : UINT32_MAX / 2);
    z->next_in = (Bytef *)(uintptr_t)step->in;
    z->avail_in = in;
    z->next_out = step->out;
    z->avail_out = out;
    const int result = inflate(z, Z_NO_FLUSH);
    step->in += in - z->avail_in;
    step->in_size -= in - z->avail_in;
    step->out += out - z->avail_out;
    step->out_room -= out - z->avail_out;
    if (result == Z_STREAM_END) return inflateReset(z) == Z_OK ? PACKING_END : PACKING_WRONG;
    if (result == Z_MEM_ERROR) return PACKING_MEMORY;
    return result == Z_OK || result == Z_BUF_ERROR ? PACKING_MORE : PACKING_WRONG;
}

static void gzip_end(void *state) {
    if (state) inflateEnd(state);
    free(state);
}
#define GZIP_ROW NULL, gzip_begin, gzip_step, gzip_end
#else
#define GZIP_ROW "zlib", NULL, NULL, NULL
#endif

/* ---- Zstandard --------------------------------------------------------------------------------------------------- */

#ifdef QKV_ZSTD
static void *zstd_begin(void) {
    ZSTD_DCtx *z = ZSTD_createDCtx();
    if (z) ZSTD_DCtx_setParameter(z, ZSTD_d_windowLogMax, WINDOW_LOG);
    return z;
}

/* Error codes are not a stable part of its interface; their sentences are all that tells these two. */
static enum packing_result zstd_wrong(size_t result) {
    const char *said = ZSTD_getErrorName(result);
    if (strstr(said, "too much memory")) return PACKING_WINDOW;
    return strstr(said, "not enough memory") ? PACKING_MEMORY : PACKING_WRONG;
}

static enum packing_result zstd_step(void *state, struct packing_step *step) {
    ZSTD_inBuffer in = {.src = step->in, .size = step->in_size};
    ZSTD_outBuffer out = {.dst = step->out, .size = step->out_room};
    const size_t result = ZSTD_decompressStream(state, &out, &in);
    step->in += in.pos;
    step->in_size -= in.pos;
    step->out += out.pos;
    step->out_room -= out.pos;
    if (ZSTD_isError(result)) return zstd_wrong(result);
    return result == 0 ? PACKING_END : PACKING_MORE;
}

static void zstd_end(void *state) {
    ZSTD_freeDCtx(state);
}
#define ZSTD_ROW NULL, zstd_begin, zstd_step, zstd_end
#else
#define ZSTD_ROW "libzstd", NULL, NULL, NULL
#endif

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* The first row, of plain files, has no functions. */
static const struct qkv_packing packings[] = {
    {"", "plain", NULL, NULL, NULL, NULL}, {".gz", "gzip", GZIP_ROW}, {".zst", "Zstandard", ZSTD_ROW}};
enum { PACKINGS = sizeof packings / sizeof *packings };

static const struct qkv_packing *packing_of(const char *path) {
    const size_t size = strlen(path);
    for (size_t i = 1; i < PACKINGS; i++) {
        const size_t n = strlen(packings[i].ending);
        if (size > n && strcmp(path + size - n, packings[i].ending) == 0) return &packings[i];
    }
    return packings;
}

size_t qkv_unpack_name(const char *path) {
    return strlen(path) - strlen(packing_of(path)->ending);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* "FILE: <what>", or "FILE:LINE: <what>". */
static enum qkv_status unpack_fail(const struct qkv_unpack *u, const char *format, ...) QKV_PRINTF(2, 3);
static enum qkv_status unpack_fail(const struct qkv_unpack *u, const char *format, ...) {
    char sentence[512], line[32] = "";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    if (u->line) snprintf(line, sizeof line, ":%llu", (unsigned long long)u->line);
    return qkv_fail(u->ctx, QKV_FORMAT, "%s%s: %s", u->path, line, sentence);
}

enum qkv_status qkv_unpack_open(struct qkv_context *ctx, const char *path, struct qkv_unpack *u) {
    *u = (struct qkv_unpack){.ctx = ctx, .path = path, .hash = QKV_HASH_START, .packing = packing_of(path)};
    if (u->packing->library)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "%s: this build does not read %s; build qkv where %s is installed, or unpack the file", path,
                        u->packing->name, u->packing->library);
    enum qkv_status status = qkv_file_open(ctx, path, &u->file);
    if (status || !u->packing->begin) return status;
    u->packed = qkv_allocate(ctx, PACKED, 1);
    if (u->packed) u->state = u->packing->begin();
    if (u->state) return QKV_OK;
    if (u->packed) qkv_fail_memory(ctx, PACKED, path);
    qkv_unpack_close(u);
    return QKV_MEMORY;
}

void qkv_unpack_close(struct qkv_unpack *u) {
    if (u->state) u->packing->end(u->state);
    qkv_file_close(&u->file);
    free(u->packed);
    u->packed = NULL;
    u->state = NULL;
}

static enum qkv_status unpack_file(struct qkv_unpack *u, void *out, size_t n) {
    enum qkv_status status = qkv_file_read(&u->file, u->file_at, out, n);
    if (status && u->line) qkv_fail_at(u->ctx, "line %llu of it", (unsigned long long)u->line);
    if (status) return status;
    u->file_at += n;
    u->hash = qkv_hash(u->hash, out, n);
    return QKV_OK;
}

static enum qkv_status unpack_plain(struct qkv_unpack *u, void *out, size_t room, size_t *got) {
    const size_t left = u->file.size - (size_t)u->file_at, n = room < left ? room : left;
    enum qkv_status status = unpack_file(u, out, n);
    if (status) return status;
    *got = n;
    u->position += n;
    return QKV_OK;
}

/* The sentence for the latest result. */
static enum qkv_status unpack_judge(struct qkv_unpack *u) {
    const char *name = u->packing->name;
    const uint64_t place = u->file_at - u->held + u->used;
    switch ((enum packing_result)u->result) {
    case PACKING_MORE:
    case PACKING_END:
        return QKV_OK;
    case PACKING_MEMORY:
        return qkv_fail_memory(u->ctx, PACKED, u->path);
    case PACKING_WINDOW:
        return unpack_fail(u, "its data needs a window of more than 128 MiB; pack it again with a window of at most "
                              "128 MiB (zstd --long=27)");
    case PACKING_CUT:
        return unpack_fail(u, "the file is cut: its %s data goes on behind its %llu bytes; get the file again", name,
                           (unsigned long long)u->file.size);
    case PACKING_BOMB:
        return unpack_fail(u,
                           "its %llu bytes unpack to more than 1 GiB and %d times as much; if that is right, unpack it "
                           "and name the plain file",
                           (unsigned long long)u->file.size, BOMB_FACTOR);
    case PACKING_WRONG:
        break;
    }
    if (!u->position && place < 18)
        return unpack_fail(u, "this is no %s data; take %s off its name, or get the file again", name,
                           u->packing->ending);
    return unpack_fail(u, "its %s data is damaged near byte %llu of the file; get the file again", name,
                       (unsigned long long)place);
}

/* Has some packed bytes; *end: there are none. */
static enum qkv_status unpack_hold(struct qkv_unpack *u, bool *end) {
    *end = false;
    if (u->used < u->held) return QKV_OK;
    const size_t left = u->file.size - (size_t)u->file_at, n = left < PACKED ? left : PACKED;
    u->held = u->used = 0;
    enum qkv_status status = unpack_file(u, u->packed, n);
    if (!status) u->held = n;
    *end = !status && n == 0;
    return status;
}

/* One step; *end where the data ends. */
static enum qkv_status unpack_once(struct qkv_unpack *u, unsigned char *out, size_t room, size_t *got, bool *end) {
    enum qkv_status status = unpack_hold(u, end);
    if (status) return status;
    if (*end && u->result == PACKING_END) return QKV_OK;
    /* Without input a packing may still have output. */
    struct packing_step step = {u->packed + u->used, out, u->held - u->used, room};
    enum packing_result result = u->packing->step(u->state, &step);
    u->used = u->held - step.in_size;
    *got = room - step.out_room;
    u->position += *got;
    if (*end && *got == 0 && result == PACKING_MORE) result = PACKING_CUT;
    if (u->position > BOMB_BYTES && u->position / BOMB_FACTOR > u->file_at) result = PACKING_BOMB;
    u->result = (int)result;
    *end = false;
    return QKV_OK;
}

enum qkv_status qkv_unpack_read(struct qkv_unpack *u, void *out, size_t room, size_t *got) {
    *got = 0;
    if (!u->packing->step) return unpack_plain(u, out, room, got);
    for (bool end = false; !end && *got < room;) {
        size_t more = 0;
        enum qkv_status status = u->result > PACKING_END ? unpack_judge(u) : QKV_OK;
        if (!status) status = unpack_once(u, (unsigned char *)out + *got, room - *got, &more, &end);
        *got += more;
        /* What comes before a failure is given out; the next call fails again. */
        if (status && *got) qkv_forgive(u->ctx);
        if (status) return *got ? QKV_OK : status;
    }
    return QKV_OK;
}

enum qkv_status qkv_unpack_skip(struct qkv_unpack *u, uint64_t position) {
    unsigned char dropped[1 << 14];
    enum qkv_status status = QKV_OK;
    while (!status && u->position < position) {
        const uint64_t left = position - u->position;
        size_t got;
        status = qkv_unpack_read(u, dropped, left < sizeof dropped ? (size_t)left : sizeof dropped, &got);
        if (!status && !got)
            status = unpack_fail(u, "the file has changed: it has %llu bytes of text, but had %llu or more before",
                                 (unsigned long long)u->position, (unsigned long long)position);
    }
    return status;
}

/* ---- a whole file ------------------------------------------------------------------------------------------------ */

#define CHECKED   ((size_t)4 << 20) /* texts that are smaller are not checked against the memory that is left */
#define TOLD_EACH ((size_t)4 << 20) /* bytes between two signs of life */

/* Room for the next bytes of a file whose size is not known. */
static unsigned char *unpack_room(struct qkv_context *ctx, const char *path, unsigned char *held, size_t *capacity,
                                  size_t size) {
    const bool grows = size + PACKED > *capacity;
    if (grows && *capacity >= CHECKED / 2 &&
        qkv_memory_check(ctx, 2 * *capacity, path, "give a smaller file, or several"))
        return NULL;
    return qkv_list_room(ctx, held, capacity, size, PACKED, 1);
}

enum qkv_status qkv_unpack_all(struct qkv_context *ctx, const char *path, struct qkv_map *map) {
    struct qkv_unpack u;
    unsigned char *held = NULL;
    size_t size = 0, capacity = 0, got = 1, told = 0;
    *map = (struct qkv_map){0};
    if (!path[qkv_unpack_name(path)]) return qkv_read_file(ctx, path, map);
    enum qkv_status status = qkv_unpack_open(ctx, path, &u);
    if (status) return status;
    u.line = 1;
    while (!status && got) {
        unsigned char *room = unpack_room(ctx, path, held, &capacity, size);
        if (room) held = room;
        status = room ? qkv_unpack_read(&u, held + size, PACKED, &got) : QKV_MEMORY;
        for (size_t i = 0; i < got && !status; i++) u.line += held[size + i] == '\n';
        if (!status) size += got;
        if (status || size - told < TOLD_EACH) continue;
        status = qkv_train_progress(ctx, NULL, NULL, "unpacking a file", 0, 1);
        told = size;
    }
    qkv_unpack_close(&u);
    if (status)
        free(held);
    else
        *map = (struct qkv_map){.data = held, .size = size};
    return status;
}
