/* utf8: characters as bytes (RFC 3629; The Unicode Standard, table 3-7), decoded by utf8proc. qkv_utf8_length is in
 * qkv/support.h. */
#ifndef QKV_UTF8_H
#define QKV_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* The character at the front of `size` bytes: its length and *code; 0 where the bytes begin no character, -1 where they begin one
 * and do not end it (no bytes, too). */
int qkv_utf8_scan(const char *text, size_t size, uint32_t *code);
size_t qkv_utf8_write(uint32_t code, char out[4]);    /* returns how many bytes */
size_t qkv_utf8_valid(const char *text, size_t size); /* length of the longest valid prefix */
size_t qkv_utf8_tail(const char *text, size_t size);  /* bytes at the end that begin a character and do not end it */
/* Where a text may be cut: n, or less where byte n is inside a character. Byte n must be there, if only as the zero at the end. */
size_t qkv_utf8_cut(const char *text, size_t n);

#endif
