/* report_fixture.h: shared by the tests of the report room: a context, the text of a file, the data of a page. */
#ifndef QKV_REPORT_FIXTURE_H
#define QKV_REPORT_FIXTURE_H

#include "test.h"

#include <jansson.h>

#include "lab/report/report_room.h"

#define assert_fails(ctx, call, expected, part)                                                                        \
    do {                                                                                                               \
        assert_status(ctx, call, expected);                                                                            \
        if (ctx) test_message_has(ctx, part, __FILE__, __LINE__);                                                      \
    } while (0)

static inline struct qkv_context *make_context(void) {
    struct qkv_context *ctx;
    struct qkv_context_options options = {.size = sizeof options, .threads = 1, .precision = QKV_PRECISION_AUTO};
    assert_ok(ctx, qkv_context_create(&ctx, &options));
    return ctx;
}

static inline char *read_text(const char *path) {
    struct qkv_map map;
    assert_int_equal(qkv_read_file(NULL, path, &map), QKV_OK);
    char *text = qkv_copy_bytes(NULL, map.data, map.size);
    assert_non_null(text);
    qkv_unmap_file(&map);
    return text;
}

/* The data of a page, cut out of it. */
static inline json_t *page_data(const char *path) {
    static const char start[] = "<script type=\"application/json\" id=\"data\">";
    char *text = read_text(path);
    char *begin = strstr(text, start);
    assert_non_null(begin);
    begin += strlen(start);
    json_t *root = json_loadb(begin, (size_t)(strstr(begin, "</script>") - begin), 0, NULL);
    assert_non_null(root);
    free(text);
    return root;
}

#endif
