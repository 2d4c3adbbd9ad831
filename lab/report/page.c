/* page: a self-contained HTML file. The assets are in it unchanged; the data is JSON in an element that is not a
 * program. Scripts turn it into text nodes, never into HTML. The policy allows this file's own two scripts and its
 * style, named by a nonce, and no connection. */
#include <string.h>

#include "lab/report/report_room.h"

const struct qkv_asset *qkv_asset_find(const char *name) {
    for (size_t i = 0; i < qkv_asset_count; i++)
        if (!strcmp(qkv_assets[i].name, name)) return &qkv_assets[i];
    return NULL;
}

static enum qkv_status page_put(struct qkv_replace *file, const char *text) {
    return qkv_replace_write(file, text, strlen(text));
}

/* Writes a text of the page: escapes what HTML would interpret; bytes that are no UTF-8 become U+FFFD. */
static enum qkv_status put_text(struct qkv_replace *file, const char *text) {
    enum qkv_status status = QKV_OK;
    size_t size = strlen(text);
    for (size_t i = 0, n; i < size && !status; i += n ? n : 1) {
        n = qkv_utf8_length(text + i, size - i);
        const char *spelled = !n               ? "\xEF\xBF\xBD"
                              : text[i] == '<' ? "&lt;"
                              : text[i] == '>' ? "&gt;"
                              : text[i] == '&' ? "&amp;"
                              : text[i] == '"' ? "&quot;"
                                               : NULL;
        status = spelled ? page_put(file, spelled) : qkv_replace_write(file, text + i, n);
    }
    return status;
}

/* FNV-1a of the data, twice: equal pages have equal bytes, and a text on the page cannot predict the nonce. */
static void make_nonce(char nonce[33], const struct qkv_page *page) {
    uint64_t a = UINT64_C(0xcbf29ce484222325), b = ~a;
    for (size_t i = 0; i < page->data_size; i++) {
        a = (a ^ (unsigned char)page->data[i]) * UINT64_C(0x100000001b3);
        b = (b ^ (unsigned char)page->data[page->data_size - 1 - i]) * UINT64_C(0x100000001b3);
    }
    snprintf(nonce, 33, "%016llx%016llx", (unsigned long long)a, (unsigned long long)b);
}

static enum qkv_status put_head(struct qkv_replace *file, const struct qkv_page *page, const char *nonce) {
    char text[512];
    enum qkv_status status = page_put(file, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                                            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                                            "<meta name=\"generator\" content=\"qkv\">\n");
    snprintf(text, sizeof text,
             "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'nonce-%s'; "
             "style-src 'nonce-%s'; base-uri 'none'; form-action 'none'\">\n",
             nonce, nonce);
    if (!status) status = page_put(file, text);
    snprintf(text, sizeof text, "<meta http-equiv=\"refresh\" content=\"%d\">\n", page->refresh);
    if (!status && page->refresh > 0) status = page_put(file, text);
    if (!status) status = page_put(file, "<title>");
    if (!status) status = put_text(file, page->title);
    return status ? status : page_put(file, "</title>\n");
}

static enum qkv_status put_body(struct qkv_replace *file, const struct qkv_page *page) {
    enum qkv_status status =
        page_put(file, "</head>\n<body>\n<a class=\"skip\" href=\"#main\">Skip to the content</a>\n"
                       "<header>\n<div class=\"titles\">\n<h1>");
    if (!status) status = put_text(file, page->title);
    if (!status) status = page_put(file, "</h1>\n<p class=\"summary\">");
    if (!status && page->summary) status = put_text(file, page->summary);
    return status
               ? status
               : page_put(file, "</p>\n</div>\n<button id=\"theme\" type=\"button\"></button>\n</header>\n"
                                "<main id=\"main\" tabindex=\"-1\"></main>\n"
                                "<noscript>This page draws its data with JavaScript, which is switched off; it loads "
                                "nothing from anywhere.</noscript>\n"
                                "<div id=\"live\" class=\"hidden\" role=\"status\" aria-live=\"polite\"></div>\n");
}

static enum qkv_status put_asset(struct qkv_replace *file, const char *name, const char *element, const char *nonce) {
    const struct qkv_asset *asset = qkv_asset_find(name);
    char text[96];
    if (!asset) return qkv_fail(file->ctx, QKV_ARGUMENT, "pages have no part %s", name);
    snprintf(text, sizeof text, "<%s nonce=\"%s\">\n", element, nonce);
    enum qkv_status status = page_put(file, text);
    if (!status) status = qkv_replace_write(file, asset->data, asset->size);
    snprintf(text, sizeof text, "</%s>\n", element);
    return status ? status : page_put(file, text);
}

static enum qkv_status put_page(struct qkv_replace *file, const struct qkv_page *page) {
    char nonce[33];
    make_nonce(nonce, page);
    enum qkv_status status = put_head(file, page, nonce);
    if (!status) status = put_asset(file, "page.css", "style", nonce);
    if (!status) status = put_body(file, page);
    if (!status) status = page_put(file, "<script type=\"application/json\" id=\"data\">");
    if (!status) status = qkv_replace_write(file, page->data, page->data_size);
    if (!status) status = page_put(file, "</script>\n");
    if (!status) status = put_asset(file, "page.js", "script", nonce);
    for (size_t i = 0; !status && page->scripts[i]; i++) status = put_asset(file, page->scripts[i], "script", nonce);
    return status ? status : page_put(file, "</body>\n</html>\n");
}

enum qkv_status qkv_page_write(struct qkv_context *ctx, const struct qkv_page *page, const char *path) {
    struct qkv_replace file;
    enum qkv_status status = qkv_replace_begin(ctx, path, &file);
    if (status) return status;
    status = put_page(&file, page);
    if (!status) return qkv_replace_commit(&file);
    qkv_replace_cancel(&file);
    return status;
}
