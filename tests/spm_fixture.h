/* spm_fixture.h: writes small models of SentencePiece, messages of sentencepiece_model.proto. */
#ifndef QKV_SPM_FIXTURE_H
#define QKV_SPM_FIXTURE_H

#include <stdint.h>
#include <string.h>

#include "text/chain.h"

struct proto { /* a message in the making */
    unsigned char bytes[1 << 16];
    size_t size;
};

static inline void proto_varint(struct proto *p, uint64_t value) {
    for (; value >= 0x80; value >>= 7) p->bytes[p->size++] = (unsigned char)(value | 0x80);
    p->bytes[p->size++] = (unsigned char)value;
}

static inline void proto_number(struct proto *p, unsigned field, uint64_t value) {
    proto_varint(p, field << 3);
    proto_varint(p, value);
}

static inline void proto_bytes(struct proto *p, unsigned field, const void *bytes, size_t size) {
    proto_varint(p, field << 3 | 2);
    proto_varint(p, size);
    memcpy(p->bytes + p->size, bytes, size);
    p->size += size;
}

static inline void proto_float(struct proto *p, unsigned field, float value) {
    proto_varint(p, field << 3 | 5);
    memcpy(p->bytes + p->size, &value, 4);
    p->size += 4;
}

static inline void proto_piece(struct proto *p, const char *text, float score, unsigned type) {
    struct proto piece = {.size = 0};
    proto_bytes(&piece, 1, text, strlen(text));
    proto_float(&piece, 2, score);
    if (type != QKV_SPM_NORMAL) proto_number(&piece, 3, type);
    proto_bytes(p, 1, piece.bytes, piece.size);
}

/* The settings: the kind of the model, and a flag of the trainer. */
static inline void proto_end(struct proto *p, unsigned kind, unsigned flag) {
    struct proto trainer = {.size = 0};
    proto_number(&trainer, 3, kind);
    if (flag) proto_number(&trainer, flag, 1);
    proto_bytes(p, 2, trainer.bytes, trainer.size);
}

/* <unk>, <s>, </s>, the mark, a, b, ab. */
static inline void proto_usual(struct proto *p) {
    p->size = 0;
    proto_piece(p, "<unk>", 0, QKV_SPM_UNKNOWN);
    proto_piece(p, "<s>", 0, QKV_SPM_CONTROL);
    proto_piece(p, "</s>", 0, QKV_SPM_CONTROL);
    proto_piece(p, "\xE2\x96\x81", -3, QKV_SPM_NORMAL);
    proto_piece(p, "a", -4, QKV_SPM_NORMAL);
    proto_piece(p, "b", -5, QKV_SPM_NORMAL);
    proto_piece(p, "ab", -2, QKV_SPM_NORMAL);
}

#endif
