/* byte_order: the byte order marks (Unicode 15, section 23.8) that editors put at the beginning of a file. */
#include <string.h>

#include "base/base.h"

/* UTF-32 before UTF-16: the mark of UTF-16 is the beginning of the mark of UTF-32. */
static const struct byte_order_mark {
    const char *encoding, *bytes;
    size_t size;
} byte_order_marks[] = {{"UTF-8", "\xef\xbb\xbf", 3},
                        {"UTF-32", "\xff\xfe\0\0", 4},
                        {"UTF-32", "\0\0\xfe\xff", 4},
                        {"UTF-16", "\xff\xfe", 2},
                        {"UTF-16", "\xfe\xff", 2}};

const char *qkv_byte_order_mark(const void *data, size_t size) {
    for (size_t i = 0; i < sizeof byte_order_marks / sizeof *byte_order_marks; i++) {
        const struct byte_order_mark *mark = &byte_order_marks[i];
        if (size >= mark->size && memcmp(data, mark->bytes, mark->size) == 0) return mark->encoding;
    }
    return NULL;
}

enum qkv_status qkv_byte_order_mark_refuse(struct qkv_context *ctx, const char *name, const void *data, size_t size) {
    const char *encoding = qkv_byte_order_mark(data, size);
    if (!encoding) return QKV_OK;
    if (strcmp(encoding, "UTF-8") == 0)
        return qkv_fail(ctx, QKV_FORMAT,
                        "%s begins with a byte order mark (BOM); remove that: sed -i '1s/^\\xEF\\xBB\\xBF//'", name);
    return qkv_fail(ctx, QKV_FORMAT,
                    "%s begins with a byte order mark (BOM) of %s; save it as UTF-8: iconv -f %s -t UTF-8", name,
                    encoding, encoding);
}
