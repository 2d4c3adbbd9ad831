/* Reads a model of SentencePiece: the message ModelProto of sentencepiece_model.proto, in the wire format of protocol
 * buffers. Fields that do not change ids or texts are skipped. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text/spm.h"

enum { PIECE_BYTES = 8000 }; /* the maximum of SentencePiece itself */
enum wire { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

struct spm_reader {
    struct qkv_context *ctx;
    const char *name;
    const unsigned char *data; /* the whole file */
    struct qkv_spm *spm;
    int64_t model_type;
    bool suffix, denormalizes;
};
/* A part of the file, of which the bytes before `at` have been read. */
struct spm_part {
    const char *message; /* ModelProto or one of its members */
    size_t at, end;
};
struct spm_field {
    uint64_t number, value; /* value: of a varint, or the bits of a fixed one */
    enum wire wire;
    size_t begin, size; /* of WIRE_BYTES */
};

/* ---- the wire format --------------------------------------------------------------------------------------------- */

static enum qkv_status spm_cut(const struct spm_reader *r, const struct spm_part *p) {
    return qkv_fail(r->ctx, QKV_FORMAT, "%s: byte %zu: the message %s ends inside a field; the file is cut short",
                    r->name, p->at, p->message);
}

static enum qkv_status spm_varint(const struct spm_reader *r, struct spm_part *p, uint64_t *out) {
    *out = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (p->at == p->end) return spm_cut(r, p);
        const unsigned char byte = r->data[p->at++];
        if (shift == 63 && byte > 1) break;
        *out |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) return QKV_OK;
    }
    return qkv_fail(r->ctx, QKV_FORMAT, "%s: byte %zu: a number in %s has more than 64 bits", r->name, p->at,
                    p->message);
}

static enum qkv_status spm_fixed(const struct spm_reader *r, struct spm_part *p, size_t bytes, uint64_t *out) {
    *out = 0;
    if (p->end - p->at < bytes) return spm_cut(r, p);
    for (size_t i = 0; i < bytes; i++) *out |= (uint64_t)r->data[p->at++] << (8 * i);
    return QKV_OK;
}

static enum qkv_status spm_next(const struct spm_reader *r, struct spm_part *p, struct spm_field *f) {
    uint64_t tag;
    enum qkv_status status = spm_varint(r, p, &tag);
    if (status) return status;
    f->number = tag >> 3;
    f->wire = (enum wire)(tag & 7);
    if (!f->number || f->number > 0x1FFFFFFF)
        return qkv_fail(r->ctx, QKV_FORMAT, "%s: byte %zu: %llu in %s is no number of a field", r->name, p->at,
                        (unsigned long long)f->number, p->message);
    switch (f->wire) {
    case WIRE_VARINT:
        return spm_varint(r, p, &f->value);
    case WIRE_64:
        return spm_fixed(r, p, 8, &f->value);
    case WIRE_32:
        return spm_fixed(r, p, 4, &f->value);
    case WIRE_BYTES:
        status = spm_varint(r, p, &f->value);
        if (status) return status;
        if (f->value > p->end - p->at) return spm_cut(r, p);
        f->begin = p->at;
        f->size = (size_t)f->value;
        p->at += f->size;
        return QKV_OK;
    }
    return qkv_fail(r->ctx, QKV_FORMAT, "%s: byte %zu: field %llu of %s has the wire type %u, which is none", r->name,
                    p->at, (unsigned long long)f->number, p->message, (unsigned)f->wire);
}

/* Fails where a field that is read has another wire type than in sentencepiece_model.proto. */
static enum qkv_status spm_need(const struct spm_reader *r, const struct spm_part *p, const struct spm_field *f,
                                enum wire wire) {
    if (f->wire == wire) return QKV_OK;
    return qkv_fail(r->ctx, QKV_FORMAT, "%s: byte %zu: field %llu of %s has the wire type %d, not %d", r->name, p->at,
                    (unsigned long long)f->number, p->message, (int)f->wire, (int)wire);
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static enum qkv_status spm_piece(const struct spm_reader *r, struct spm_part p) {
    struct qkv_spm *m = r->spm;
    struct qkv_spm_piece piece = {.type = QKV_SPM_NORMAL};
    struct spm_field f;
    enum qkv_status status = QKV_OK;
    while (p.at < p.end && !status) {
        status = spm_next(r, &p, &f);
        if (!status && f.number == 1) {
            status = spm_need(r, &p, &f, WIRE_BYTES);
            piece.text = (const char *)r->data + f.begin;
            piece.size = f.size;
        } else if (!status && f.number == 2) {
            const uint32_t bits = (uint32_t)f.value;
            status = spm_need(r, &p, &f, WIRE_32);
            memcpy(&piece.score, &bits, sizeof bits);
        } else if (!status && f.number == 3) {
            status = spm_need(r, &p, &f, WIRE_VARINT);
            if (!status && (f.value < QKV_SPM_NORMAL || f.value > QKV_SPM_BYTE))
                status = qkv_fail(r->ctx, QKV_FORMAT, "%s: piece %zu has the type %llu, which is not known", r->name,
                                  m->count, (unsigned long long)f.value);
            piece.type = (enum qkv_spm_type)f.value;
        }
    }
    if (status) return status;
    struct qkv_spm_piece *list = qkv_list_room(r->ctx, m->pieces, &m->capacity, m->count, 1, sizeof *list);
    if (!list) return QKV_MEMORY;
    m->pieces = list;
    if (m->count >= INT32_MAX / 4) return qkv_fail(r->ctx, QKV_FORMAT, "%s has too many pieces", r->name);
    m->pieces[m->count++] = piece;
    return QKV_OK;
}

static enum qkv_status spm_trainer(struct spm_reader *r, struct spm_part p) {
    enum { MODEL_TYPE = 3, SUFFIX = 24, FALLBACK = 35, BEGIN = 41, PAD = 43, SURFACE = 44 };
    struct spm_field f;
    enum qkv_status status = QKV_OK;
    while (p.at < p.end && !status) {
        status = spm_next(r, &p, &f);
        const bool number = f.number == MODEL_TYPE || f.number == SUFFIX || f.number == FALLBACK ||
                            (f.number >= BEGIN && f.number <= PAD);
        if (!status && number) status = spm_need(r, &p, &f, WIRE_VARINT);
        if (!status && f.number == SURFACE) status = spm_need(r, &p, &f, WIRE_BYTES);
        if (status) return status;
        if (f.number == MODEL_TYPE) r->model_type = (int64_t)f.value;
        if (f.number == SUFFIX) r->suffix = f.value != 0;
        if (f.number == FALLBACK) r->spm->byte_fallback = f.value != 0;
        if (f.number >= BEGIN && f.number <= PAD) r->spm->ids[f.number - BEGIN] = (int32_t)(uint32_t)f.value;
        if (f.number != SURFACE) continue;
        r->spm->unknown_surface = (const char *)r->data + f.begin;
        r->spm->unknown_surface_size = f.size;
    }
    return status;
}

static enum qkv_status spm_normalizer(struct spm_reader *r, struct spm_part p) {
    enum { CHARSMAP = 2, PREFIX = 3, ESCAPES = 5 };
    bool *const flags[] = {&r->spm->prefix, &r->spm->single_spaces, &r->spm->escapes};
    struct spm_field f;
    enum qkv_status status = QKV_OK;
    while (p.at < p.end && !status) {
        status = spm_next(r, &p, &f);
        if (!status && f.number == CHARSMAP) {
            status = spm_need(r, &p, &f, WIRE_BYTES);
            r->spm->charsmap = (const char *)r->data + f.begin;
            r->spm->charsmap_size = f.size;
        } else if (!status && f.number >= PREFIX && f.number <= ESCAPES) {
            status = spm_need(r, &p, &f, WIRE_VARINT);
            *flags[f.number - PREFIX] = f.value != 0;
        }
    }
    return status;
}

/* A denormalizer changes decoded texts if it has a charsmap. */
static enum qkv_status spm_denormalizer(struct spm_reader *r, struct spm_part p) {
    struct spm_field f;
    enum qkv_status status = QKV_OK;
    while (p.at < p.end && !status) {
        status = spm_next(r, &p, &f);
        r->denormalizes = r->denormalizes || (!status && f.number == 2 && f.value);
    }
    return status;
}

static enum qkv_status spm_model(struct spm_reader *r, size_t size) {
    enum { PIECE = 1, TRAINER = 2, NORMALIZER = 3, DENORMALIZER = 5 };
    struct spm_part p = {"ModelProto", 0, size};
    struct spm_field f;
    enum qkv_status status = QKV_OK;
    while (p.at < p.end && !status) {
        status = spm_next(r, &p, &f);
        const bool part = f.number >= PIECE && f.number <= DENORMALIZER && f.number != 4;
        if (!status && part) status = spm_need(r, &p, &f, WIRE_BYTES);
        if (status || !part) continue;
        const size_t begin = f.begin, end = f.begin + f.size;
        if (f.number == PIECE) status = spm_piece(r, (struct spm_part){"SentencePiece", begin, end});
        if (f.number == TRAINER) status = spm_trainer(r, (struct spm_part){"TrainerSpec", begin, end});
        if (f.number == NORMALIZER) status = spm_normalizer(r, (struct spm_part){"NormalizerSpec", begin, end});
        if (f.number == DENORMALIZER) status = spm_denormalizer(r, (struct spm_part){"NormalizerSpec", begin, end});
    }
    return status;
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static int piece_byte(const struct qkv_spm_piece *p) {
    static const char digits[] = "0123456789ABCDEF";
    if (p->size != 6 || memcmp(p->text, "<0x", 3) != 0 || p->text[5] != '>') return -1;
    const char *high = memchr(digits, p->text[3], 16), *low = memchr(digits, p->text[4], 16);
    return high && low ? (int)(high - digits) * 16 + (int)(low - digits) : -1;
}

static enum qkv_status spm_check_piece(const struct spm_reader *r, size_t i) {
    const struct qkv_spm_piece *p = &r->spm->pieces[i];
    const int shown = (int)qkv_min(p->size, 60);
    if (!p->size) return qkv_fail(r->ctx, QKV_FORMAT, "%s: piece %zu has no text", r->name, i);
    if (p->size >= PIECE_BYTES)
        return qkv_fail(r->ctx, QKV_FORMAT, "%s: piece %zu has %zu bytes; at most %d are read", r->name, i, p->size,
                        PIECE_BYTES - 1);
    if (qkv_utf8_valid(p->text, p->size) != p->size || memchr(p->text, 0, p->size))
        return qkv_fail(r->ctx, QKV_FORMAT, "%s: piece %zu is not UTF-8, or has a U+0000", r->name, i);
    if (!isfinite(p->score))
        return qkv_fail(r->ctx, QKV_FORMAT, "%s: the score of piece %zu (\"%.*s\") is not a finite number", r->name, i,
                        shown, p->text);
    if (p->type != QKV_SPM_BYTE) return QKV_OK;
    if (!r->spm->byte_fallback || piece_byte(p) < 0)
        return qkv_fail(r->ctx, QKV_FORMAT, "%s: piece %zu, \"%.*s\", is of type BYTE, but %s", r->name, i, shown,
                        p->text, r->spm->byte_fallback ? "is no <0xNN>" : "the model has no byte_fallback");
    return QKV_OK;
}

/* As SentencePiece itself: texts are distinct, there is one unknown piece, or bytes spell everything. */
static enum qkv_status spm_check_pieces(const struct spm_reader *r) {
    const struct qkv_spm *m = r->spm;
    struct qkv_strings seen = {0};
    bool bytes[256] = {false};
    size_t unknown = 0, byte_count = 0;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < m->count && !status; i++) {
        const struct qkv_spm_piece *p = &m->pieces[i];
        status = spm_check_piece(r, i);
        if (status) break;
        const size_t count = seen.count;
        struct qkv_string *entry = qkv_strings_add(r->ctx, &seen, p->text, p->size);
        if (!entry) status = QKV_MEMORY;
        if (!status && seen.count == count)
            status = qkv_fail(r->ctx, QKV_FORMAT, "%s: pieces %lld and %zu are both \"%.*s\"", r->name,
                              (long long)entry->value, i, (int)qkv_min(p->size, 60), p->text);
        if (!status) entry->value = (int64_t)i;
        if (!status && p->type == QKV_SPM_UNKNOWN && unknown++)
            status = qkv_fail(r->ctx, QKV_FORMAT, "%s has more than one piece of type UNKNOWN: %zu is the second",
                              r->name, i);
        if (status || p->type != QKV_SPM_BYTE) continue;
        byte_count += !bytes[piece_byte(p)];
        bytes[piece_byte(p)] = true;
    }
    qkv_strings_free(&seen);
    if (!status && m->byte_fallback && byte_count < 256)
        status = qkv_fail(r->ctx, QKV_FORMAT, "%s has byte_fallback, but only %zu of the 256 pieces of type BYTE",
                          r->name, byte_count);
    if (!status && !unknown && !m->byte_fallback)
        status = qkv_fail(r->ctx, QKV_FORMAT, "%s has no piece of type UNKNOWN, and no byte_fallback", r->name);
    return status;
}

static enum qkv_status spm_check(const struct spm_reader *r) {
    enum { UNIGRAM = 1, BPE = 2, CHARACTERS = 4 };
    struct qkv_spm *m = r->spm;
    if (!m->count) return qkv_fail(r->ctx, QKV_FORMAT, "%s has no pieces", r->name);
    if (r->model_type != UNIGRAM && r->model_type != BPE && r->model_type != CHARACTERS)
        return qkv_fail(r->ctx, QKV_FORMAT,
                        "%s: its model_type is %lld%s; 1 (Unigram), 2 (byte-pair encoding) and 4 (characters) are read",
                        r->name, (long long)r->model_type, r->model_type == 3 ? " (words)" : "");
    if (r->suffix) return qkv_fail(r->ctx, QKV_FORMAT, "%s has treat_whitespace_as_suffix, which is not read", r->name);
    if (r->denormalizes) return qkv_fail(r->ctx, QKV_FORMAT, "%s has a denormalizer, which is not read", r->name);
    if (qkv_utf8_valid(m->unknown_surface, m->unknown_surface_size) != m->unknown_surface_size ||
        memchr(m->unknown_surface, 0, m->unknown_surface_size))
        return qkv_fail(r->ctx, QKV_FORMAT, "%s: its unk_surface is not UTF-8, or has a U+0000", r->name);
    m->unigram = r->model_type == UNIGRAM;
    m->characters = r->model_type == CHARACTERS;
    return spm_check_pieces(r);
}

enum qkv_status qkv_spm_read(struct qkv_context *ctx, const char *name, const unsigned char *data, size_t size,
                             struct qkv_spm *out) {
    *out = (struct qkv_spm){.name = name,
                            .prefix = true,
                            .single_spaces = true,
                            .escapes = true,
                            .unknown_surface = " \xE2\x81\x87 ",
                            .unknown_surface_size = 5,
                            .ids = {1, 2, -1}};
    struct spm_reader r = {.ctx = ctx, .name = name, .data = data, .spm = out, .model_type = 1};
    enum qkv_status status = spm_model(&r, size);
    return status ? status : spm_check(&r);
}

void qkv_spm_free(struct qkv_spm *spm) {
    free(spm->pieces);
    *spm = (struct qkv_spm){0};
}

bool qkv_spm_is(const unsigned char *data, size_t size) {
    size_t at = 0;
    if (!size || (data[0] != (1 << 3 | WIRE_BYTES) && data[0] != (2 << 3 | WIRE_BYTES))) return false;
    /* The first byte of a piece is also a newline, after which JSON may begin. */
    while (at < size && (data[at] == ' ' || data[at] == '\t' || data[at] == '\r' || data[at] == '\n')) at++;
    return at == size || (data[at] != '{' && data[at] != '[');
}
