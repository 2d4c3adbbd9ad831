/* utf8: characters as bytes (RFC 3629; The Unicode Standard, table 3-7), decoded by utf8proc. qkv_utf8_length is in
 * base/support.h. */
#ifndef QKV_UTF8_H
#define QKV_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* The length of the first character of `size` bytes, and *code. 0: the bytes begin no character; -1: they begin one but
 * end before its end (also if size is 0). */
int qkv_utf8_scan(const char *text, size_t size, uint32_t *code);
size_t qkv_utf8_write(uint32_t code, char out[4]);    /* returns the number of bytes */
size_t qkv_utf8_valid(const char *text, size_t size); /* length of the longest valid prefix */
/* bytes at the end that begin a character but do not complete it */
size_t qkv_utf8_tail(const char *text, size_t size);
/* Where a text may be cut: at n, or before it if byte n is inside a character. Byte n must exist, if only as the
 * terminating zero. */
size_t qkv_utf8_cut(const char *text, size_t n);

#endif
