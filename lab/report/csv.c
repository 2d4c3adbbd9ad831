/* csv: tables as comma-separated values (RFC 4180); fields may hold any text. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lab/report/report_room.h"

static void csv_put(struct qkv_csv *t, const char *text, size_t size) {
    if (!t->status) t->status = qkv_buffer_append(t->ctx, &t->text, text, size);
}

void qkv_csv_text(struct qkv_csv *t, const char *text) {
    if (t->more) csv_put(t, ",", 1);
    t->more = true;
    if (!strpbrk(text, "\",\r\n")) {
        csv_put(t, text, strlen(text));
        return;
    }
    csv_put(t, "\"", 1);
    for (; *text; text++) csv_put(t, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    csv_put(t, "\"", 1);
}

void qkv_csv_number(struct qkv_csv *t, double x, int digits) {
    char text[48] = "";
    if (isfinite(x)) snprintf(text, sizeof text, "%.*g", digits, x);
    char *point = text + strspn(text, "-+0123456789"); /* a comma in some locales */
    if (*point == ',') *point = '.';
    qkv_csv_text(t, text);
}

void qkv_csv_real(struct qkv_csv *t, double x) {
    char text[QKV_REAL_TEXT] = "";
    if (isfinite(x)) qkv_real_text(text, x);
    qkv_csv_text(t, text);
}

void qkv_csv_end_line(struct qkv_csv *t) {
    csv_put(t, "\r\n", 2);
    t->more = false;
}
