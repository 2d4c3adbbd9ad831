/* Functions that every template has. */
#include "chat/chat.h"

#include <string.h>
#include <time.h>

#define FUNCTION(name)                                                                                                 \
    static enum qkv_status name(struct chat_run *run, struct chat_value self, struct chat_args *args,                  \
                                struct chat_value *out)

FUNCTION(function_range) {
    int64_t bounds[3] = {0, 0, 1};
    enum qkv_status status = QKV_OK;
    (void)self;
    if (args->keyword_count) return qkv_chat_fail(run, "range() takes no keyword arguments");
    if (args->count < 1 || args->count > 3)
        return qkv_chat_fail(run, "range expected 1 to 3 arguments, got %zu", args->count);
    for (size_t i = 0; i < args->count && !status; i++)
        status = qkv_chat_int_of(run, args->items[i], 0, &bounds[args->count == 1 ? 1 : i]);
    if (status) return status;
    if (!bounds[2]) return qkv_chat_fail(run, "range() arg 3 must not be zero");
    const bool up = bounds[2] > 0;
    uint64_t n = 0;
    if (up ? bounds[0] < bounds[1] : bounds[0] > bounds[1]) {
        const uint64_t gap = up ? (uint64_t)bounds[1] - (uint64_t)bounds[0] : (uint64_t)bounds[0] - (uint64_t)bounds[1];
        n = (gap - 1) / (up ? (uint64_t)bounds[2] : 0 - (uint64_t)bounds[2]) + 1;
    }
    if (n > CHAT_RANGE_MAX)
        return qkv_chat_fail(run, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).",
                             CHAT_RANGE_MAX);
    struct chat_list *list = qkv_chat_list(run, (size_t)n);
    if (!list) return QKV_MEMORY;
    for (size_t i = 0; i < n; i++) list->items[i] = qkv_chat_int(bounds[0] + (int64_t)i * bounds[2]);
    list->start = bounds[0];
    list->stop = bounds[1];
    list->step = bounds[2];
    *out = (struct chat_value){.kind = CHAT_RANGE, .list = list};
    return QKV_OK;
}

/* dict and namespace: a dict or pairs, then keywords. */
static enum qkv_status function_dict(struct chat_run *run, enum chat_kind kind, struct chat_args *args,
                                     struct chat_value *out) {
    struct chat_value *items, first = args->count ? args->items[0] : (struct chat_value){.kind = CHAT_MISSING};
    size_t count = 0;
    if (args->count > 1) return qkv_chat_fail(run, "dict expected at most 1 argument, got %zu", args->count);
    enum qkv_status status = qkv_chat_dict(run, kind, args->keyword_count, out);
    if (!status && first.kind == CHAT_DICT) {
        for (size_t i = 0; i < first.dict->count && !status; i++)
            status = qkv_chat_set(run, out->dict, first.dict->entries[i].key, first.dict->entries[i].value);
    } else if (!status && first.kind != CHAT_MISSING) {
        status = qkv_chat_iterate(run, first, &items, &count);
    }
    for (size_t i = 0; i < count && !status; i++) {
        if (!qkv_chat_is_sequence(items[i]) || items[i].list->count != 2)
            return qkv_chat_fail(run, "cannot convert dictionary update sequence element #%zu to a sequence of two", i);
        status = qkv_chat_set(run, out->dict, items[i].list->items[0], items[i].list->items[1]);
    }
    for (size_t i = 0; i < args->keyword_count && !status; i++)
        status = qkv_chat_set(run, out->dict, qkv_chat_text(args->keywords[i].name, args->keywords[i].size),
                              args->keywords[i].value);
    return status;
}

FUNCTION(function_make_dict) {
    (void)self;
    return function_dict(run, CHAT_DICT, args, out);
}

FUNCTION(function_namespace) {
    (void)self;
    return function_dict(run, CHAT_NAMESPACE, args, out);
}

FUNCTION(function_cycler) {
    struct chat_cycle *cycle = qkv_chat_take(&run->pool, 1, sizeof *cycle);
    (void)self;
    if (!args->count) return qkv_chat_fail(run, "at least one item has to be provided");
    struct chat_list *list = cycle ? qkv_chat_list(run, args->count) : NULL;
    if (!list) return QKV_MEMORY;
    memcpy(list->items, args->items, args->count * sizeof *list->items);
    cycle->values = *list;
    *out = (struct chat_value){.kind = CHAT_CYCLER, .cycle = cycle};
    return QKV_OK;
}

FUNCTION(function_joiner) {
    struct chat_cycle *cycle = qkv_chat_take(&run->pool, 1, sizeof *cycle);
    (void)self;
    if (!cycle) return QKV_MEMORY;
    cycle->separator = args->p[0].kind == CHAT_MISSING ? qkv_chat_text(", ", 2) : args->p[0];
    *out = (struct chat_value){.kind = CHAT_JOINER, .cycle = cycle};
    return QKV_OK;
}

FUNCTION(function_raise_exception) {
    struct chat_value text;
    (void)self;
    (void)out;
    enum qkv_status status = qkv_chat_str(run, args->p[0], &text);
    return status ? status : qkv_chat_fail(run, "%.*s", (int)qkv_min(text.size, 700), text.text);
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

enum qkv_status qkv_chat_put_time(struct chat_run *run, const char *format, size_t size) {
    static const char *const days[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
    static const char *const months[] = {"January", "February", "March",     "April",   "May",      "June",
                                         "July",    "August",   "September", "October", "November", "December"};
    static const char numeric[] = "CdDeFgGHIjklmMnRsStTuUVwWyY";
    const time_t now = (time_t)run->now;
    struct tm t;
    enum qkv_status status = QKV_OK;
    if (!localtime_r(&now, &t)) return qkv_chat_fail(run, "the time is out of range");
    for (size_t at = 0; at < size && !status; at++) {
        const char c = at + 1 < size ? format[at + 1] : 0;
        char one[4] = {'%', c, 0, 0}, text[64];
        if (format[at] != '%' || !c) {
            status = qkv_chat_put(run, format + at, 1);
            continue;
        }
        at++;
        *text = 0;
        if (c == '-' && at + 1 < size && strchr("dmHIjMSyUW", format[at + 1])) { /* of glibc: without zeros */
            one[1] = format[++at];
            strftime(text, sizeof text, one, &t);
            const size_t zeros = strspn(text, "0");
            status = qkv_chat_puts(run, text[zeros] ? text + zeros : "0");
            continue;
        }
        if (c == 'a' || c == 'A')
            status = qkv_chat_put(run, days[t.tm_wday], c == 'a' ? 3 : strlen(days[t.tm_wday]));
        else if (c == 'b' || c == 'B' || c == 'h')
            status = qkv_chat_put(run, months[t.tm_mon], c == 'B' ? strlen(months[t.tm_mon]) : 3);
        else if (c == 'p')
            status = qkv_chat_puts(run, t.tm_hour < 12 ? "AM" : "PM");
        else if (c == 'f')
            status = qkv_chat_puts(run, "000000");
        else if (c == 'c')
            status = qkv_chat_put_time(run, "%a %b %e %H:%M:%S %Y", 20);
        else if (c == 'x')
            status = qkv_chat_put_time(run, "%m/%d/%y", 8);
        else if (c == 'X')
            status = qkv_chat_put_time(run, "%H:%M:%S", 8);
        else if (c == '%')
            status = qkv_chat_puts(run, "%");
        else if (c == 'z' || c == 'Z')
            continue; /* a time of the machine's zone has no name in Python */
        else if (strchr(numeric, c)) {
            strftime(text, sizeof text, one, &t);
            status = qkv_chat_puts(run, text);
        } else {
            status = qkv_chat_put(run, format + at - 1, 2);
        }
    }
    return status;
}

FUNCTION(function_strftime_now) {
    struct chat_value format;
    const size_t mark = qkv_chat_begin(run);
    (void)self;
    enum qkv_status status = qkv_chat_text_of(run, args->p[0], &format);
    if (!status) status = qkv_chat_put_time(run, format.text, format.size);
    return status ? status : qkv_chat_end(run, mark, out);
}

static const struct chat_row rows[] = {
    {"range", NULL, 0, function_range},
    {"dict", NULL, 0, function_make_dict},
    {"namespace", NULL, 0, function_namespace},
    {"cycler", NULL, 0, function_cycler},
    {"joiner", "sep", 0, function_joiner},
    {"raise_exception", "message", 1, function_raise_exception},
    {"strftime_now", "format", 1, function_strftime_now},
};

const struct chat_row *qkv_chat_global(const char *name, size_t size) {
    return qkv_chat_find_row(rows, sizeof rows / sizeof *rows, name, size);
}
